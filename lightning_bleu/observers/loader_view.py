"""What loggers show of the sentences of a loader: samples, and a figure of BLEU by reference length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.core.conventions import Statistics
from lightning_bleu.core.significance import interval_from
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.validation import ScoredLoader
from lightning_bleu.evaluation.texts.findings import Finding
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
        columns = ["step", "index", "shown as", *labels, *self.digits]
        columns += ["source", "hypothesis", "references", "signature"]
        rows: list[list[Any]] = []
        for finding in self.findings:
            row = dict.fromkeys(columns, "") | dict.fromkeys(["index", *self.digits])
            row |= {"step": step, "shown as": "finding", "hypothesis": str(finding), "signature": finding.key}
            rows.append([*row.values()])
        for panel in self.panels:
            for sample in panel.samples:
                texts = map(_encodable, [sample.source or "", sample.hypothesis, "\n".join(sample.references)])
                own = [_encodable(sample.labels.get(name, "")) for name in labels]
                rows.append([step, sample.index, panel.kind, *own, *sample.shown_scores(), *texts, self.signature])
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
    above = "".join(f"{finding.message} [{finding.key}]\n" for finding in findings)
    score = f" {samples.caption}" if samples.caption else ""
    first, worst = (naming.render_panel(Name(kind, loader.name)) for kind in ("samples", "worst"))
    panels = [Panel(first, "first", f"{above}The first sentences.{score}", samples.first)]
    if samples.worst:
        caption = f"{above}The worst sentences{samples.order}.{score}"
        panels.append(Panel(worst, "worst", caption, samples.worst))
    return LoaderView(panels, digits, samples.signature, figures, findings)


_MIN_IN_BUCKET = 30
"""The sentences of a bucket, at least: the BLEU of 30 of WMT22 has a 95% interval of about ±8 points."""
_MAX_BUCKETS = 6
_TAIL = 0.05
"""The share of long sentences that do not influence the widths of buckets."""
_ROUND_NUMBERS = [digit * 10**zeros for zeros in range(9) for digit in (1, 2, 5)]
_RESAMPLES = 200
_BLUE = "#0072B2"  # from the color-blind safe palette of Okabe and Ito
_TICK_SIZE = 8
_BAR_LABELS_WIDTH = 300
"""The number of characters that fit side by side below the bars, times their size in points."""


def bleu_by_length_figure(statistics: Tensor, settings: BLEUSettings, confidence: float | None = None) -> Figure:
    """Bar chart of corpus BLEU by reference length, in percent, with the number of sentences below each bar.

    Scores use ``effective_order``, so that perfect sentences of three tokens score 100.

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.
        settings: how to score them.
        confidence: the confidence level of the interval of each bar; None for no intervals.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.core.scoring import count_sentences
        >>> bleu = CorpusBLEU()
        >>> rows, _ = count_sentences(["a b c", "a b c d e x"], ["a b c", "a b c d e f"], bleu.scorer)
        >>> figure = bleu_by_length_figure(rows, bleu.settings)
        >>> [round(bar.get_height()) for bar in figure.axes[0].patches]  # a single bar, of few sentences
        [80]
    """
    statistics = statistics.cpu()
    buckets, labels = find_length_buckets(Statistics.unpack(statistics).reference_length.numpy())
    rows_of_buckets = [statistics[torch.from_numpy(buckets == bucket)].double() for bucket in range(len(labels))]
    scorer = BLEUScorer(replace(settings, effective_order=True, percent=True))
    scores = scorer.score(torch.stack([rows.sum(0) for rows in rows_of_buckets])).numpy()
    errors = None
    if confidence is not None and len(statistics) > 1:
        intervals = [interval_from(rows, scorer, confidence, _RESAMPLES, seed=0) for rows in rows_of_buckets]
        ends = np.array([(interval.low, interval.high) for interval in intervals])
        errors = abs(ends.T - scores)

    # Not pyplot, which keeps a reference to every figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # TensorBoard shows 350 × 215 CSS pixels, here of 2 × 2 pixels.
    figure = Figure(figsize=(3.5, 2.15), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title("BLEU by reference length", loc="left", fontsize=9, fontweight="bold")
    axes.set_xlabel("reference length in tokens", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    bar_labels = [f"{label}\nn={len(rows):,}" for label, rows in zip(labels, rows_of_buckets)]
    bars = axes.bar(bar_labels, scores, yerr=errors, color=_BLUE)
    axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.margins(y=0.15)
    axes.set_ylim(0, max(1, axes.get_ylim()[1]))  # all may be 0 before the training
    longest = max(len(line) for label in bar_labels for line in label.split("\n"))
    axes.tick_params(labelsize=_TICK_SIZE)
    axes.tick_params(axis="x", labelsize=min(_TICK_SIZE, _BAR_LABELS_WIDTH / (longest * len(labels))))
    return figure


def find_length_buckets(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The bucket of each length, and the label of each bucket. All buckets but a single one have 30 sentences or more.

    Example:
        >>> buckets, labels = find_length_buckets(np.repeat([3, 4, 12, 14, 18], 20))
        >>> buckets[::20].tolist(), labels
        ([0, 0, 1, 1, 1], ['1–5', '6–20'])
    """
    width = next(number for number in _ROUND_NUMBERS if np.quantile(lengths, 1 - _TAIL) <= _MAX_BUCKETS * number)
    cells = ((lengths - 1) // width).clip(0, _MAX_BUCKETS - 1)
    counts = np.bincount(cells, minlength=_MAX_BUCKETS)
    starts = [0]
    for cell in range(1, _MAX_BUCKETS):
        before, after = counts[starts[-1] : cell].sum(), counts[cell:].sum()
        if before >= _MIN_IN_BUCKET and after >= _MIN_IN_BUCKET:
            starts.append(cell)
    ends = [*starts[1:], cells.max() + 1]
    labels = [f"{width * start + 1}–{width * end}" for start, end in zip(starts, ends)]
    if lengths.max() > width * ends[-1]:
        labels[-1] = f">{width * starts[-1]}"
    return np.searchsorted(starts, cells, side="right") - 1, labels
