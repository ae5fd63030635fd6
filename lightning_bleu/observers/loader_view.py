"""What loggers show of the sentences of a loader: samples and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.validation import ScoredLoader
from lightning_bleu.evaluation.texts.findings import Finding
from lightning_bleu.observers.figures import bleu_by_length_figure
from lightning_bleu.observers.samples import Sample, Samples, find_bleu, name_labels

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


class LoaderView(NamedTuple):
    """What loggers show of the sentences of a loader.

    Attributes:
        panels: the first sentences of the dataset, which are the same in each validation; and the sentences with the
            worst translations, the worst first, if a metric ranks sentences.
        digits: the number of digits of each score of a sentence, by the name of the score.
        signature: the signature of the metric that ranks them.
        figures: the figure of BLEU by its logged name; empty without BLEU.
        findings: what stands out in them.
    """

    panels: list[Panel]
    digits: Mapping[str, int]
    signature: str
    figures: Mapping[str, Figure]
    findings: Sequence[Finding] = ()

    def table(self, step: int) -> tuple[list[str], list[list[Any]]]:
        """Findings and samples as a table of plain values: its columns, and its rows."""
        labels = name_labels(sample for panel in self.panels for sample in panel.samples)
        columns = ["step", "number", "shown as", *labels, *self.digits]
        columns += ["source", "hypothesis", "references", "signature"]
        rows: list[list[Any]] = []
        for finding in self.findings:
            row = dict.fromkeys(columns, "") | dict.fromkeys(self.digits)
            row |= {"step": step, "number": 0, "shown as": "finding"}
            row |= {"hypothesis": str(finding), "signature": finding.place}
            rows.append([*row.values()])
        for panel in self.panels:
            for sample in panel.samples:
                texts = [sample.source or "", sample.hypothesis, "\n".join(sample.references)]
                texts = [_encodable(text) for text in texts]
                own = [_encodable(sample.labels.get(name, "")) for name in labels]
                rows.append([step, sample.number, panel.kind, *own, *sample.shown_scores(), *texts, self.signature])
        return columns, rows


def _encodable(text: str) -> str:
    """A text without lone surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def make_view(
    loader: ScoredLoader,
    samples: Samples,
    naming: Naming,
    confidence: float | None = None,
    findings: Sequence[Finding] = (),
) -> LoaderView:
    """What loggers show of the sentences of a loader. The figure is that of the first BLEU, which has lengths.

    Args:
        loader: the scored sentences, at least one.
        samples: the sentences to show.
        naming: how names are written.
        confidence: the confidence level of the intervals; None for no intervals.
        findings: what stands out in them, which is shown above the samples.
    """

    digits = {key: 4 if rows.scorer.percent is None else 1 for key, rows in loader.rows.items()}
    figures = {}
    bleu = find_bleu(loader.rows)
    if bleu is not None:
        name, scorer = bleu
        statistics = loader.rows[name].statistics
        figures[naming.render_panel(Name(name, loader.name, detail="by_length"))] = bleu_by_length_figure(
            statistics, scorer.settings, confidence
        )
    above = "".join(f"{finding.message} See {finding.place}.\n" for finding in findings)
    score = f" {samples.caption}" if samples.caption else ""
    first, worst = (naming.render_panel(Name(kind, loader.name)) for kind in ("samples", "worst"))
    panels = [Panel(first, "first", f"{above}The first sentences.{score}", samples.first)]
    if samples.worst:
        caption = f"{above}The worst sentences{samples.order}.{score}"
        panels.append(Panel(worst, "worst", caption, samples.worst))
    return LoaderView(panels, digits, samples.signature, figures, findings)
