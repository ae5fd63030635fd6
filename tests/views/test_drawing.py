"""Charts as SVG."""

from __future__ import annotations

import math
import re

import pytest

from lightning_bleu.views.blocks import Chart, Point
from lightning_bleu.views.drawing import draw_chart


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_line_has_its_ticks_as_text_in_the_color_around_it() -> None:
    points = [Point(1000 * step, 20.0 + step, 19.0 + step, 21.0 + step) for step in range(5)]
    svg = draw_chart(Chart("BLEU", points, "step", best=points[-1]))
    assert {"1,000", "4,000", "step"} <= set(texts(svg))
    assert not re.search(r"#0{3,6}\b|#010203|black", svg)  # neutral colors are those of the page
    assert "currentColor" in svg
    assert svg == draw_chart(Chart("BLEU", points, "step", best=points[-1]))  # also its ids


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_left_out(value: float) -> None:
    assert draw_chart(Chart("", [])) == draw_chart(Chart("", [Point(0, value)])) == ""
    assert "5.0" in " ".join(texts(draw_chart(Chart("", [Point(0, value), Point(1, 5.0), Point(2, 6.0, None, 7.0)]))))
