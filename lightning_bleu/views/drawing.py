"""Charts as SVG, drawn by matplotlib.

Text stays text, and everything but the line and its band has the color of the text around the chart: a notebook does
not say whether it is light or dark.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_bleu.core.clean import to_line
from lightning_bleu.views.blocks import Chart, Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLOR = "#3d8fd1"
"""Can be seen on white and on black."""
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


def draw_chart(chart: Chart) -> str:
    """A chart as an ``<svg>`` element; empty if it has no point that can be drawn.

    Example:
        >>> svg = draw_chart(Chart("BLEU", [Point(100, 20.5), Point(200, 25.0)], "step"))
        >>> svg.startswith("<svg"), ">step</text>" in svg, "currentColor" in svg
        (True, True, True)
    """
    points = [point for point in chart.points if math.isfinite(point.x) and math.isfinite(point.y)]
    if not points:
        return ""
    import matplotlib as mpl

    file = io.StringIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a browser has other fonts
        figure = _make_figure(chart, points)
        no_metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    svg = file.getvalue()
    return svg[svg.index("<svg") :].strip().replace(_CURRENT_COLOR, "currentColor")


def _make_figure(chart: Chart, points: Sequence[Point]) -> Figure:
    """A line, with a band for the intervals."""
    from matplotlib.figure import Figure  # not pyplot, which keeps a reference to every figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    x, y, lows, highs = zip(*points)
    ends = np.array([lows, highs], dtype=float)  # None becomes NaN, and the band has a gap
    axes.fill_between(x, ends[0], ends[1], color=_COLOR, alpha=0.18, linewidth=0)
    axes.plot(x, y, color=_COLOR, linewidth=2, marker="o" if len(points) <= _MAX_MARKED else "", markersize=5)
    if chart.best is not None:
        place = [chart.best.x], [chart.best.y]
        axes.plot(*place, "o", markersize=12, markerfacecolor="none", markeredgecolor=_CURRENT_COLOR, zorder=4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_alpha(0.4)
    axes.grid(axis="y", color=_CURRENT_COLOR, alpha=0.18)
    axes.tick_params(length=0)
    axes.yaxis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]
    axes.set_axisbelow(True)
    axes.set_xlabel(to_line(chart.x_label))
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.xaxis.set_major_formatter("{x:,.10g}")
    return figure
