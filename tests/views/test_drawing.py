"""Charts as SVG."""

from __future__ import annotations

import math
import re

import pytest

from lightning_bleu.views.blocks import Chart, Point
from lightning_bleu.views.drawing import STYLES, draw_chart


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_line_has_its_ticks_as_text_in_the_color_around_it() -> None:
    points = [Point(1000 * step, 20.0 + step, 19.0 + step, 21.0 + step) for step in range(5)]
    svg = draw_chart(Chart("BLEU", {"val_bleu": points}, "step", best=points[-1]))
    assert {"1,000", "4,000", "step"} <= set(texts(svg))
    assert not re.search(r"#0{3,6}\b|#010203|black", svg)  # neutral colors are those of the page
    assert "currentColor" in svg
    assert STYLES[0].color in svg
    assert svg == draw_chart(Chart("BLEU", {"val_bleu": points}, "step", best=points[-1]))  # also its ids


def test_dots_stand_over_their_categories_in_shapes_of_their_own() -> None:
    series = {name: [Point(0, 50.0), Point(1, 60.0, 55.0, 65.0)] for name in "abcdef"}
    svg = draw_chart(Chart("by length", series, categories=["1–10\nn=30", "<b>\nn=$40$"]))
    assert {"1–10", "n=30", "&lt;b&gt;", "n=$40$"} <= set(texts(svg))
    assert all(style.color in svg for style in STYLES)
    assert len({style.marker for style in STYLES}) == len({style.symbol for style in STYLES}) == len(STYLES)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_left_out(value: float) -> None:
    assert draw_chart(Chart("", {"a": [Point(0, value)], "b": []})) == ""
    svg = draw_chart(Chart("", {"a": [Point(0, value), Point(1, 5.0)], "b": [], "c": [Point(2, 6.0, None, 7.0)]}))
    assert "5.0" in " ".join(texts(svg))
    assert draw_chart(Chart("", {"a": [Point(0, 3.0)]}, categories=["x"])).startswith("<svg")
