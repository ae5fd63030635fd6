"""What loggers show of the sentences of a loader or a group: samples, a histogram of scores, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from lightning_bleu.display.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.display.samples import Sample, Samples, find_bleu
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.sentences import GatheredSentences, SentenceRows
from lightning_bleu.evaluation.validation import ScoredSubset

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """Sentences that are shown together.

    Attributes:
        tag: their logged name.
        kind: ``"first"`` or ``"worst"``.
        caption: what they are, with the score and the signature of the metric that ranks them.
        samples: the sentences.
    """

    tag: str
    kind: str
    caption: str
    samples: Sequence[Sample]


class View(NamedTuple):
    """What loggers show of the sentences of one subset.

    Attributes:
        panels: the first sentences of the dataset, which are the same in each validation; and the sentences with the
            worst translations, the worst first, if a metric ranks sentences.
        digits: the number of digits of each score of a sentence, by the name of the score.
        signature: the signature of the metric that ranks them.
        histograms: the scores of all sentences, by the logged name of their histogram.
        figures: the figures by logged name.
    """

    panels: list[Panel]
    digits: Mapping[str, int]
    signature: str
    histograms: Mapping[str, Tensor]
    figures: Mapping[str, Figure]

    def table(self, step: int) -> tuple[list[str], list[list[Any]]]:
        """The samples as a table of plain values: its columns, and its rows."""
        columns = ["step", "number", "shown as", *self.digits, "source", "hypothesis", "references", "signature"]
        rows = []
        for panel in self.panels:
            for sample in panel.samples:
                texts = [sample.source or "", sample.hypothesis, "\n".join(sample.references)]
                texts = [text.encode(errors="replace").decode() for text in texts]  # lone surrogates cannot be encoded
                rows.append([step, sample.number, panel.kind, *sample.shown_scores(), *texts, self.signature])
        return columns, rows


def make_view(
    subset: ScoredSubset[GatheredSentences], samples: Samples, naming: Naming, confidence: float | None = None
) -> View:
    """What loggers show of the sentences of one subset. The figures are those of the first BLEU, which has lengths.

    Args:
        subset: the scored sentences, at least one.
        samples: the sentences to show.
        naming: how names are written.
        confidence: the confidence level of the intervals; None for no intervals.
    """
    digits = {key: 4 if rows.scoring.percent is None else 1 for key, rows in subset.rows.items()}
    histograms = {}
    for key in list(subset.rows)[:1]:  # of the first score
        label = key.rpartition("/")[-1]
        histograms[_panel_tag(subset, naming, key, f"sentence_{label}")] = _in_percent(subset.rows[key])
    figures = {}
    bleu = find_bleu(subset)
    if bleu is not None:
        name, settings = bleu
        statistics = subset.sentences.statistics(name)
        figures[_panel_tag(subset, naming, name, "by_length")] = bleu_by_length_figure(statistics, settings, confidence)
        figures[_panel_tag(subset, naming, name, "lengths")] = length_scatter_figure(statistics)
    score = f" {samples.caption}" if samples.caption else ""
    tag = _panel_tag(subset, naming, "samples")
    panels = [Panel(tag, "first", f"The first sentences.{score}", samples.first)]
    if samples.worst:
        caption = f"The worst sentences{samples.order}.{score}"
        panels.append(Panel(_panel_tag(subset, naming, "worst"), "worst", caption, samples.worst))
    return View(panels, digits, samples.signature, histograms, figures)


def _panel_tag(subset: ScoredSubset[GatheredSentences], naming: Naming, metric: str, detail: str = "") -> str:
    return naming.render_panel(Name(metric, subset.names, detail=detail))


def _in_percent(rows: SentenceRows) -> Tensor:
    """The score of each sentence, in percent unless it has a scale of its own."""
    scores = rows.score_sentences()
    return 100 * scores if rows.scoring.percent is False else scores
