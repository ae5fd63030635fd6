"""Figures of one validation: BLEU by reference length, and hypothesis length against reference length.

Requires matplotlib. Buckets and the axes of lengths depend only on the reference lengths, so that the figures of
successive validations can be compared. (With several references per sentence, its reference length is that of the
reference which the ``reference_length`` rule chose, so they can still shift a little.)
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUScorer, BLEUSettings, Statistics
from lightning_bleu.core.resampling import interval_from
from lightning_bleu.evaluation.choices import ROUND_NUMBERS, TAIL, find_length_buckets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RESAMPLES = 200
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # from the color-blind safe palette of Okabe and Ito


def bleu_by_length_figure(statistics: Tensor, settings: BLEUSettings, confidence: float | None = None) -> Figure:
    """Bar chart of corpus BLEU by reference length, in percent, with the number of sentences below each bar.

    Scores use ``effective_order``, so that perfect sentences of three tokens score 100.

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.
        settings: how to score them.
        confidence: the confidence level of the interval of each bar; None for no intervals.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.core.evaluator_metric import count_sentences
        >>> bleu = CorpusBLEU()
        >>> rows, _ = count_sentences(["a b c", "a b c d e x"], ["a b c", "a b c d e f"], bleu.scorer)
        >>> figure = bleu_by_length_figure(rows, bleu.settings)
        >>> [round(bar.get_height()) for bar in figure.axes[0].patches]  # a single bar, of few sentences
        [80]
    """
    statistics = statistics.cpu()
    buckets, labels = find_length_buckets(Statistics.unpack(statistics).reference_length.numpy())
    rows = [statistics[torch.from_numpy(buckets == i)].double() for i in range(len(labels))]
    scorer = BLEUScorer(dataclasses.replace(settings, effective_order=True, percent=True))
    scores = scorer.score(torch.stack([one.sum(0) for one in rows])).numpy()
    ends = [(score, score) for score in scores]
    if confidence is not None:
        intervals = [interval_from(one, scorer, confidence, _RESAMPLES, seed=0) for one in rows if len(one) > 1]
        ends = [(one.low, one.high) for one in intervals] or ends

    axes = _axes("BLEU by reference length", "reference length in tokens", "")
    bars = axes.bar([f"{label}\nn={len(one):,}" for label, one in zip(labels, rows)], scores, color=_BLUE)
    axes.bar_label(bars, fmt="%.1f", label_type="center", color="white", fontsize=8)
    axes.errorbar(range(len(labels)), scores, abs(np.array(ends).T - scores), fmt="none", color="black")
    return axes.figure  # type: ignore[return-value]


def length_scatter_figure(statistics: Tensor) -> Figure:
    """Hypothesis length against reference length, with the diagonal. Darker dots stand for more sentences.

    Sentences under half or over twice the reference length (the dotted lines) are orange crosses. Loops are at the top
    left, empty outputs on the horizontal axis, and a length cap makes a horizontal line. Lengths beyond the end of an
    axis are drawn there.

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.core.evaluator_metric import count_sentences
        >>> bleu = CorpusBLEU()
        >>> rows, _ = count_sentences(["a b c", "a a a a a a a"], ["a b c", "a b c"], bleu.scorer)
        >>> figure = length_scatter_figure(rows)
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['1 beyond', 'equal', 'half, double']
    """
    lengths = Statistics.unpack(statistics.cpu())
    pairs = np.stack([lengths.reference_length.numpy(), lengths.hypothesis_length.numpy()])
    is_off = (2 * pairs[1] < pairs[0]) | (pairs[1] > 2 * pairs[0])
    # One reference of 5,000 tokens must not squeeze all the others into the corner.
    longest = max(1, min(pairs[0].max(), 2 * int(np.quantile(pairs[0], 1 - TAIL, method="lower"))))
    limit = next(number for number in ROUND_NUMBERS for number in (number, 1.5 * number) if longest <= number)
    pairs = pairs.clip(max=limit)
    points, counts = np.unique(pairs[:, ~is_off], axis=1, return_counts=True)
    shades = np.log1p(counts)
    axes = _axes("Length in tokens", "reference", "hypothesis")
    axes.scatter(*points, 6, shades, cmap="Blues", vmin=-1, vmax=shades.max(initial=0), clip_on=False, zorder=2)
    off = f"{is_off.sum():,} beyond" if is_off.any() else None
    axes.plot(*pairs[:, is_off], "x", color=_ORANGE, markersize=4, clip_on=False, label=off)
    for ratio, style, label in ((1, "-", "equal"), (2, ":", "half, double"), (0.5, ":", None)):
        axes.axline((0, 0), slope=ratio, color="black", linewidth=0.8, linestyle=style, zorder=1, label=label)
    axes.set(xlim=(0, limit), ylim=(0, limit))
    axes.figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return axes.figure  # type: ignore[return-value]


def _axes(title: str, x_label: str, y_label: str) -> Axes:
    """Axes with a title."""
    # Not pyplot, which keeps a reference to every figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # TensorBoard shows 350 × 215 CSS pixels, here of 2 × 2 pixels.
    figure = Figure(figsize=(3.5, 2.15), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
