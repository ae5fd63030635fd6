"""What loggers show of the sentences of a loader or a group: samples, a histogram of scores, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.display.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.display.samples import Sample, make_samples
from lightning_bleu.evaluation.choices import ChosenSentences
from lightning_bleu.evaluation.metrics import CountedMetric
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
                references = "\n".join(reference.text for reference in sample.references)
                texts = [sample.source or "", sample.hypothesis.text, references]
                texts = [text.encode(errors="replace").decode() for text in texts]  # lone surrogates cannot be encoded
                rows.append([step, sample.number, panel.kind, *sample.scores, *texts, self.signature])
        return columns, rows


def make_view(
    subset: ScoredSubset[GatheredSentences], chosen: ChosenSentences, naming: Naming, confidence: float | None = None
) -> View:
    """What loggers show of the sentences of one subset. The figures are those of the first BLEU, which has lengths.

    Args:
        subset: the scored sentences, at least one.
        chosen: the sentences to show.
        naming: how names are written.
        confidence: the confidence level of the intervals; None for no intervals.
    """
    shown_scores = {key: _in_percent(rows) for key, rows in subset.rows.items()}
    digits = {key: 4 if rows.scoring.percent is None else 1 for key, rows in subset.rows.items()}
    histograms = {}
    for key in list(shown_scores)[:1]:  # of the first score
        label = key.rpartition("/")[-1]
        histograms[_panel_tag(subset, naming, key, f"sentence_{label}")] = shown_scores[key]
    bleu = _find_bleu(subset)
    settings = BLEUSettings.from_options() if bleu is None else bleu[1]
    figures = {}
    if bleu is not None:
        name = bleu[0]
        statistics = subset.sentences.statistics(name)
        figures[_panel_tag(subset, naming, name, "by_length")] = bleu_by_length_figure(statistics, settings, confidence)
        figures[_panel_tag(subset, naming, name, "lengths")] = length_scatter_figure(statistics)
    score, signature = _describe_score(subset, chosen.ranked_by)
    samples = make_samples(chosen.first, shown_scores.values(), settings)
    panels = [Panel(_panel_tag(subset, naming, "samples"), "first", f"The first sentences.{score}", samples)]
    if chosen.worst:
        order = _describe_order(subset.rows[chosen.ranked_by])
        samples = make_samples(chosen.worst, shown_scores.values(), settings)
        caption = f"The worst sentences{order}.{score}"
        panels.append(Panel(_panel_tag(subset, naming, "worst"), "worst", caption, samples))
    return View(panels, digits, signature, histograms, figures)


def _panel_tag(subset: ScoredSubset[GatheredSentences], naming: Naming, metric: str, detail: str = "") -> str:
    return naming.render_panel(Name(metric, subset.names, detail=detail))


def _in_percent(rows: SentenceRows) -> Tensor:
    """The score of each sentence, in percent unless it has a scale of its own."""
    scores = rows.score_sentences()
    return 100 * scores if rows.scoring.percent is False else scores


def _find_bleu(subset: ScoredSubset[GatheredSentences]) -> tuple[str, BLEUSettings] | None:
    """The name and the settings of the first BLEU; None if there is none."""
    for name, metric in subset.metrics.items():
        if isinstance(metric, CountedMetric) and isinstance(metric.metric.settings, BLEUSettings):
            return name, metric.metric.settings
    return None


def _describe_score(subset: ScoredSubset[GatheredSentences], key: str) -> tuple[str, str]:
    """The score that ranks sentences, with its signature, for captions; and the signature alone."""
    if not key:
        return "", ""
    report = subset.results[key].report
    signature: str = getattr(report, "signature", None) or ""
    return f" {report}\n{signature}".rstrip(), signature


def _describe_order(rows: SentenceRows) -> str:
    if rows.scoring.rank_sentences is not None:
        return " for their length, by smoothed BLEU"
    return f", by {rows.scoring.name}"
