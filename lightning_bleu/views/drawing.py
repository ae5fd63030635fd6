"""Charts as SVG, drawn by matplotlib.

Text stays text, and what is neither a line nor a dot of a series has the color of the text around the chart: a notebook
does not say whether it is light or dark.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lightning_bleu.core.clean import to_line
from lightning_bleu.views.blocks import Chart, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Style(NamedTuple):
    """How a series looks. Series differ in color and in shape.

    Attributes:
        color: its color, which can be seen on white and on black.
        marker: the shape of its points in matplotlib.
        symbol: the same shape as a character.
    """

    color: str
    marker: str
    symbol: str


STYLES = (
    Style("#3d8fd1", "o", "●"),
    Style("#d9701e", "s", "■"),
    Style("#1d9e74", "^", "▲"),
    Style("#a970cf", "D", "◆"),
    Style("#8a8a8a", "v", "▼"),
)
_CURRENT_COLOR = "#010203"
"""Stands for ``currentColor``, which matplotlib does not know."""
_SIZE = (5.0, 2.8)
"""In inches of 72 units. A phone is as wide, so that text keeps its size there."""
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lightning_bleu",  # the same chart has the same ids
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _CURRENT_COLOR,
    "axes.labelcolor": _CURRENT_COLOR,
    "axes.edgecolor": _CURRENT_COLOR,
    "xtick.color": _CURRENT_COLOR,
    "ytick.color": _CURRENT_COLOR,
}
_MAX_MARKED = 60
"""The number of points of a line up to which each of them is marked."""
_SPREAD = 0.7
"""The share of a category in which its dots are."""


def style_of(number: int) -> Style:
    """How a series looks, by its number."""
    return STYLES[number % len(STYLES)]


def draw_chart(chart: Chart) -> str:
    """A chart as an ``<svg>`` element; empty if it has no point that can be drawn.

    Example:
        >>> svg = draw_chart(Chart("BLEU", {"val_bleu": [Point(100, 20.5), Point(200, 25.0)]}, "step"))
        >>> svg.startswith("<svg"), ">step</text>" in svg, "currentColor" in svg
        (True, True, True)
    """
    series = [_drawable(points) for points in chart.series.values()]
    if not any(series):
        return ""
    import matplotlib as mpl

    file = io.StringIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a browser has other fonts
        figure = _make_figure(chart, series)
        no_metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    svg = file.getvalue()
    return svg[svg.index("<svg") :].strip().replace(_CURRENT_COLOR, "currentColor")


def _make_figure(chart: Chart, series: Sequence[Sequence[Point]]) -> Figure:
    from matplotlib.figure import Figure  # not pyplot, which keeps a reference to every figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    for number, points in enumerate(series):
        if not points:
            continue
        if chart.categories:
            shift = _SPREAD * ((number + 0.5) / len(series) - 0.5)
            _draw_dots(axes, points, shift, style_of(number))
        else:
            _draw_line(axes, points, style_of(number))
    if chart.best is not None:
        x, y = [chart.best.x], [chart.best.y]
        axes.plot(x, y, "o", markersize=12, markerfacecolor="none", markeredgecolor=_CURRENT_COLOR, zorder=4)
    _finish_axes(axes, chart)
    return figure


def _drawable(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]


def _draw_line(axes: Axes, points: Sequence[Point], style: Style) -> None:
    """A line over numbers, with a band for the intervals."""
    x, y, lows, highs = zip(*points)
    # None becomes NaN, and the band has a gap.
    ends = np.array([lows, highs], dtype=float)
    axes.fill_between(x, ends[0], ends[1], color=style.color, alpha=0.18, linewidth=0)
    marker = style.marker if len(points) <= _MAX_MARKED else ""
    axes.plot(x, y, color=style.color, linewidth=2, marker=marker, markersize=5)


def _draw_dots(axes: Axes, points: Sequence[Point], shift: float, style: Style) -> None:
    """Dots beside the middles of their categories, with the intervals as error bars."""
    for point in points:
        x = point.x + shift
        if point.low is not None and point.high is not None:
            axes.plot([x, x], [point.low, point.high], color=style.color, linewidth=1.5)
        axes.plot([x], [point.y], color=style.color, marker=style.marker, markersize=6)


def _finish_axes(axes: Axes, chart: Chart) -> None:
    """Ticks, labels, and lines behind the chart."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_alpha(0.4)
    axes.grid(axis="y", color=_CURRENT_COLOR, alpha=0.18)
    axes.tick_params(length=0)
    axes.yaxis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]
    axes.set_axisbelow(True)
    axes.set_xlabel(to_line(chart.x_label))
    if chart.categories:
        labels = ["\n".join(map(to_line, category.splitlines())) for category in chart.categories]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.5, len(labels) - 0.5)
    else:
        axes.xaxis.set_major_formatter("{x:,.10g}")
