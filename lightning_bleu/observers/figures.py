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
_TICK_SIZE = 8
_BAR_LABELS_WIDTH = 300
"""The number of characters that fit side by side below the bars, times their size in points."""
_ENDS = [1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100]
"""The ends that the axis of BLEU may have."""
_ROOM = 1.15
"""How much longer than the data this axis is, so that a number fits above a bar."""
_LOW = 0.15
"""A number is above a bar that is shorter than this share of the axis."""
_CLOSE = 0.7
"""Also if its interval reaches below this share of the bar, where the number would be."""
_TOP = 0.89
"""Where the axes end, in fractions of the figure."""


def bleu_by_length_figure(statistics: Tensor, settings: BLEUSettings, confidence: float | None = None) -> Figure:
    """Bar chart of corpus BLEU by reference length, in percent, with the number of sentences below each bar.

    Scores use ``effective_order``, so that perfect sentences of three tokens score 100.

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.
        settings: how to score them.
        confidence: the confidence level of the interval of each bar; None for no intervals.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c", "a b c d e x"], ["a b c", "a b c d e f"])
        >>> figure = bleu_by_length_figure(bleu.sentence_statistics(), bleu.settings)
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

    axes = _axes("BLEU by reference length", left=0.1, right=0.98, bottom=0.29)
    bar_labels = [f"{label}\nn={len(one):,}" for label, one in zip(labels, rows)]
    bars = axes.bar(bar_labels, scores, color=_BLUE)
    longest = max(len(line) for label in bar_labels for line in label.split("\n"))
    axes.tick_params(axis="x", labelsize=min(_TICK_SIZE, _BAR_LABELS_WIDTH / (longest * len(labels))))
    axes.errorbar(range(len(labels)), scores, abs(np.array(ends).T - scores), fmt="none", color="black")
    top = next((number for number in _ENDS if number >= _ROOM * np.max(ends)), 100)
    for bar, score, (low, high) in zip(bars, scores, ends):
        is_low = score < _LOW * top or low < _CLOSE * score
        place = high + 0.02 * top if is_low else score / 2
        axes.text(
            bar.get_x() + bar.get_width() / 2,
            place,
            f"{score:.{score < 9.95:d}f}",
            ha="center",
            va="bottom" if is_low else "center",
            color="black" if is_low else "white",
        )
    axes.set(ylim=(0, top), xlabel="reference length in tokens")
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
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c", "a a a a a a a"], ["a b c", "a b c"])
        >>> figure = length_scatter_figure(bleu.sentence_statistics())
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['1 beyond', 'equal', 'half, double']
    """
    from matplotlib.ticker import EngFormatter

    lengths = Statistics.unpack(statistics.cpu())
    pairs = np.stack([lengths.reference_length.numpy(), lengths.hypothesis_length.numpy()])
    is_off = (2 * pairs[1] < pairs[0]) | (pairs[1] > 2 * pairs[0])
    # One reference of 5,000 tokens must not squeeze all the others into the corner.
    longest = max(1, min(pairs[0].max(), 2 * int(np.quantile(pairs[0], 1 - TAIL, method="lower"))))
    limit = next(number for number in ROUND_NUMBERS for number in (number, 1.5 * number) if longest <= number)
    pairs = pairs.clip(max=limit)

    axes = _axes("Length in tokens", left=0.175, right=0.64, bottom=0.2)
    width = int(limit) + 1
    reference_lengths, hypothesis_lengths = pairs[:, ~is_off]
    # A pair of lengths as one number: np.unique of pairs takes 100 times as long.
    points, counts = np.unique(reference_lengths * width + hypothesis_lengths, return_counts=True)
    x, y = np.divmod(points, width)
    shades = np.log1p(counts)
    axes.scatter(x, y, 6, shades, cmap="Blues", vmin=-1, vmax=shades.max(initial=0), clip_on=False, zorder=2)
    off = f"{is_off.sum():,} beyond"
    axes.plot(*pairs[:, is_off], "x", color=_ORANGE, markersize=4, clip_on=False, label=off if is_off.any() else None)
    for ratio, style, label in ((1, "-", "equal"), (2, ":", "half, double"), (0.5, ":", None)):
        axes.axline((0, 0), slope=ratio, color="black", linewidth=0.8, linestyle=style, zorder=1, label=label)
    axes.figure.legend(
        loc="upper right", fontsize=8, frameon=False, borderaxespad=0.2, handlelength=1.5, handletextpad=0.5
    )
    axes.set(xlim=(0, limit), ylim=(0, limit), xlabel="reference", ylabel="hypothesis")
    axes.locator_params(integer=True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))  # 50000 → 50k
    return axes.figure  # type: ignore[return-value]


def _axes(title: str, *, left: float, right: float, bottom: float) -> Axes:
    """Axes with a title between fixed margins, in fractions of the figure.

    A layout that looks for room measures every text several times, which takes a third of the time of a figure. Texts
    must fit into the margins: ticks on the left have at most five characters.
    """
    # Not pyplot, which keeps a reference to every figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # TensorBoard shows 350 × 215 CSS pixels, here of 2 × 2 pixels.
    figure = Figure(figsize=(3.5, 2.15), dpi=200)
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left=left, right=right, bottom=bottom, top=_TOP)
    axes = figure.add_subplot()
    # The labels of both axes are at fixed places of the figure, but their coordinates are fractions of the axes.
    axes.xaxis.set_label_coords(0.5, (0.09 - bottom) / (_TOP - bottom))
    axes.yaxis.set_label_coords((0.055 - left) / (right - left), 0.5)
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    axes.tick_params(labelsize=_TICK_SIZE)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
