"""Figures of one validation: BLEU by reference length, and hypothesis length against reference length.

Requires matplotlib. Buckets and the axes of lengths depend only on the reference lengths, so that the figures of
successive validations can be compared. (With several references per sentence, its reference length is that of the
reference which the ``reference_length`` rule chose, so they can still shift a little.)
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUSettings, Statistics, bleu_scoring
from lightning_bleu.scoring.resampling import interval_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_SENTENCES = 30
"""Bars of fewer sentences are gray: the BLEU of 30 sentences of WMT22 has a 95% interval of about ±8 points."""

_WIDTH, _HEIGHT = 350, 215
"""CSS pixels. TensorBoard's Images page makes images 350 wide; its Time Series page makes them 215 high.

Both pages scale images without interpolation, so text is crisp only if a CSS pixel is a whole number of image pixels:
here 2, which suits high-density screens, and shows the image twice as large when it is clicked.
"""

_TEXT_SIZE = 9
"""In points, 12.5 CSS pixels: strokes thick enough to survive where a narrow window shrinks the image by 10%."""

_MAX_BARS = 6
_TAIL_SHARE = 0.05
"""The maximum share of sentences in the open last bucket."""

_BLEU_LIMITS = (50, 100)
"""Upper limits of the BLEU axis, so that the bars of all validations of a run can be compared."""

_RESAMPLES = 200
"""Enough for an interval that is a few pixels high."""

_BLUE, _ORANGE = "#0072B2", "#D55E00"  # from the color-blind safe palette of Okabe and Ito
_BLUES = ("#8fc1e0", "#3f93c6", _BLUE)
_GRAY, _BAR_GRAY, _GRID_GRAY = "#6b6b6b", "#b8b8b8", "#e4e4e4"


def bleu_by_length_figure(statistics: Tensor, settings: BLEUSettings, confidence: float | None = None) -> Figure:
    """Bar chart of corpus BLEU by reference length, in percent, with the number of sentences below each bar.

    Scores use ``effective_order``, so that perfect sentences of three tokens score 100. Bars of fewer than 30 sentences
    are gray, and they do not influence the scale (unless all are gray), which ends at 50, or at 100 if a bar needs it.
    A gray bar that does not fit ends at the top, and an arrow marks its value.

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.
        settings: how to score them.
        confidence: the confidence level of the interval of each bar; None for no intervals. Gray bars have none.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c", "a b c d e x"], ["a b c", "a b c d e f"])
        >>> figure = bleu_by_length_figure(bleu.sentence_statistics(), bleu.settings)
        >>> [round(bar.get_height()) for bar in figure.axes[0].patches]  # 3, 4, 5, and 6 tokens
        [100, 0, 0, 76]
    """
    statistics = statistics.cpu()
    buckets, labels = _length_buckets(Statistics.unpack(statistics).reference_length.contiguous().numpy())
    counts = np.bincount(buckets, minlength=len(labels)).tolist()
    rows = [statistics[torch.from_numpy(buckets == i)].double() for i in range(len(labels))]
    scoring = bleu_scoring(dataclasses.replace(settings, effective_order=True, percent=True))
    scores = scoring.score(torch.stack([one.sum(0) for one in rows])).tolist()
    trusted = [count >= MIN_SENTENCES for count in counts]
    highest = max(itertools.compress(scores, trusted), default=max(scores))
    top = next((limit for limit in _BLEU_LIMITS if limit >= highest), 100)

    note = "" if all(trusted) else f"gray: n < {MIN_SENTENCES}"
    figure, axes = _axes("BLEU by reference length (tokens)", note, _GRAY, left=30, bottom=37, top=38)
    left, right = -0.5, len(labels) - 0.5
    axes.set(xlim=(left, right), ylim=(0, top))
    below, beside = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    for value in (0, top / 2, top):
        color, zorder = (_GRID_GRAY, 0) if value else ("black", 3)
        axes.plot([left, right], [value, value], color=color, linewidth=0.8, clip_on=False, zorder=zorder)
        _write(axes, -0.015, value, f"{value:g}", transform=beside, ha="right", va="center", color=_GRAY)
    heights = [min(value, top) for value in scores]
    colors = [_BLUE if sure else _BAR_GRAY for sure in trusted]
    axes.bar(range(len(labels)), heights, width=0.76, color=colors, zorder=2)
    tops = [*heights]
    for i in itertools.compress(range(len(labels)), trusted if confidence else ()):
        interval = interval_from(rows[i], scoring, confidence or 0, _RESAMPLES, seed=0)
        axes.plot([i, i], [interval.low, interval.high], color="black", linewidth=1, zorder=3)
        tops[i] = max(tops[i], interval.high)

    label_size = min(_TEXT_SIZE, 330 / (len(labels) * max(map(len, labels))))
    over_grid = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    _write(axes, left, -0.15, "n ", transform=below, ha="right", va="top", color=_GRAY)
    for i, (label, count, value) in enumerate(zip(labels, counts, scores)):
        _write(axes, i, -0.04, label, transform=below, ha="center", va="top", size=label_size)
        _write(axes, i, -0.15, f"{count:,}", transform=below, ha="center", va="top", color=_GRAY)
        if count:
            text = f"↑{_format_score(value)}" if value > top else _format_score(value)
            style = {"weight": "bold"} if trusted[i] else {"color": _GRAY}
            _write(axes, i, tops[i] + 0.025 * top, text, ha="center", bbox=over_grid, zorder=1, **style)
    return figure


def length_scatter_figure(statistics: Tensor) -> Figure:
    """Hypothesis length against reference length, with the diagonal. Darker dots stand for more sentences.

    Sentences under half or over twice the reference length (the dotted lines) are orange crosses, and the title line
    shows their number, if there are any. Loops are at the top left, empty outputs on the horizontal axis, and a length
    cap makes a horizontal line. Lengths beyond the end of an axis are drawn there, and the last tick label gets a "+".

    Args:
        statistics: integers of shape ``(sentences, 2 * orders + 2)``, of at least one sentence.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c", "a a a a a a a"], ["a b c", "a b c"])
        >>> [text.get_text() for text in length_scatter_figure(bleu.sentence_statistics()).texts]
        ['Length in tokens', '× 1 under ½ or over 2×']
    """
    lengths = Statistics.unpack(statistics.cpu())
    hypothesis = lengths.hypothesis_length.contiguous().numpy()
    reference = lengths.reference_length.contiguous().numpy()
    is_off = (2 * hypothesis < reference) | (hypothesis > 2 * reference)
    # One reference of 5,000 tokens must not squeeze all the others into the corner.
    longest = min(int(reference.max()), 2 * int(np.sort(reference)[-1 - int(_TAIL_SHARE * len(reference))]))
    step = next(number for number in _round_numbers() if longest <= 5 * number)
    right = step * max(1, math.ceil(longest / step))
    top = right + step

    note = f"× {is_off.sum():,} under ½ or over 2×" if is_off.any() else ""
    figure, axes = _axes("Length in tokens", note, _ORANGE, left=52, bottom=35, top=28)
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.plot([0, 0, right], [top, 0, 0], color="black", linewidth=0.8, clip_on=False, zorder=1)
    axes.plot([0, right], [0, right], color="black", linewidth=0.8, zorder=1)
    for ratio in (0.5, 2):
        axes.plot([0, right], [0, ratio * right], color=_ORANGE, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    below, beside = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    for value in range(0, right + 1, step):
        label = _format_length(value) + "+" * bool(value == right < reference.max())
        _write(axes, value, -0.045, label, transform=below, ha="center", va="top", color=_GRAY)
    for value in range(0, top + 1, step):
        label = _format_length(value) + "+" * bool(value == top < hypothesis.max())
        _write(axes, -0.01, value, label, transform=beside, ha="right", va="center", color=_GRAY)
    _write(axes, right / 2, -0.145, "reference length", transform=below, ha="center", va="top")
    _write(axes, -0.125, top / 2, "hypothesis length", transform=beside, ha="right", va="center", rotation=90)

    # Each pair of lengths is drawn once, and long ones are rounded down to at most 126 × 151 cells, so drawing is fast.
    cell = max(1, step // 20)
    shape = (2, right // cell + 1, top // cell + 1)
    cells = (is_off.astype(np.int64), reference.clip(max=right) // cell, hypothesis.clip(max=top) // cell)
    dots, crosses = np.bincount(np.ravel_multi_index(cells, shape), minlength=math.prod(shape)).reshape(shape)
    shades = np.digitize(dots / max(1, dots.max()), (0.05, 0.3))
    for shade, color in enumerate(_BLUES):
        x, y = np.nonzero((dots > 0) & (shades == shade))
        axes.plot(cell * x, cell * y, "o", color=color, markersize=2.4, markeredgewidth=0, clip_on=False, zorder=2)
    x, y = np.nonzero(crosses)
    axes.plot(cell * x, cell * y, "x", color=_ORANGE, markersize=3.6, markeredgewidth=1, clip_on=False, zorder=3)
    return figure


def _length_buckets(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The bucket of each length, and the label of each bucket.

    The first bucket takes everything shorter too, and the last is open if anything is longer.

    Example:
        >>> _length_buckets(np.array([3, 4, 12, 14, 18]))
        (array([0, 0, 2, 2, 3]), ['1–5', '6–10', '11–15', '16–20'])
    """
    ordered = np.maximum(np.sort(lengths), 1)
    tail = int(_TAIL_SHARE * len(lengths))
    for width in _round_numbers():
        first, last = (int(ordered[i] - 1) // width for i in (tail, -1 - tail))
        is_open = ordered[-1] > width * (last + 1)
        if last + is_open - first < _MAX_BARS:
            break
    lows = [width * i + 1 for i in range(first, last + 1)]
    if lengths.min() < lows[0]:
        lows[0] = min(1, int(lengths.min()))
    highs = [width * (i + 1) for i in range(first, last + 1)]
    labels = [f"{low}–{high}" if low < high else f"{low}" for low, high in zip(lows, highs)]
    labels += [f">{highs[-1]}"] * bool(is_open)
    return ((lengths - 1) // width - first).clip(0, len(labels) - 1), labels


def _round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, 100, ..."""
    return (digit * 10**zeros for zeros in itertools.count() for digit in (1, 2, 5))


def _format_score(value: float) -> str:
    """9.94 -> "9.9", 9.96 -> "10"."""
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _format_length(value: int) -> str:
    """500 -> "500", 1500 -> "1.5k"."""
    return f"{value / 1000:g}k" if value >= 1000 else str(value)


def _axes(title: str, note: str, color: str, *, left: int, bottom: int, top: int) -> tuple[Figure, Axes]:
    """Axes with the given margins in CSS pixels, and without ticks, which would take a third of the time."""
    # Not pyplot, which keeps a reference to every figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(_WIDTH / 100, _HEIGHT / 100), dpi=200, facecolor="white")
    figure.set_layout_engine("none")
    FigureCanvasAgg(figure)
    # A style can set `savefig.facecolor`, which `savefig` prefers to the color of the figure.
    figure.add_artist(Rectangle((0, 0), 1, 1, facecolor="white", linewidth=0, zorder=-1))
    _write(figure, 0.02, 0.98, title, va="top", weight="bold")
    _write(figure, 0.98, 0.98, note, ha="right", va="top", color=color)
    box = (left / _WIDTH, bottom / _HEIGHT, 1 - (left + 16) / _WIDTH, 1 - (bottom + top) / _HEIGHT)
    axes = figure.add_axes(box)
    axes.set_axis_off()
    return figure, axes


def _write(place: Axes | Figure, x: float, y: float, text: str, **style: Any) -> None:
    """Write text in the font that comes with matplotlib, whatever style the user has set."""
    font: dict[str, Any] = {"family": "DejaVu Sans", "usetex": False, "size": _TEXT_SIZE, "color": "black"}
    place.text(x, y, text, **font | style)
