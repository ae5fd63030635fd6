"""The charts of a validation on TensorBoard's page of custom scalars: bands for intervals, and lines for components."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.validation import Validation

Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Charts by section and title, as ``SummaryWriter.add_custom_scalars`` takes them."""
_LINES, _BAND = "Multiline", "Margin"
"""What TensorBoard calls the kinds of charts."""


def lay_out_charts(validation: Validation) -> Layout:
    """The charts of a validation: its scores, their differences from the best, and the components that are logged.

    Those of means come first. Groups have none: TensorBoard draws all lines of a chart in one color.
    """
    layout: Layout = {"Scores": {}, "Comparison with the best": {}, "Parts": {}}
    scored = [score for score in validation.scored if not score.name.group]
    for score in sorted(scored, key=lambda score: bool(score.name.loader)):
        title = _show_name(validation, score)
        if len(score.mean_of) > 1:
            title += f": mean of {len(score.mean_of)} loaders"
        has_interval = score.result.interval is not None
        details = ["", "low", "high"] if has_interval else [""]
        layout["Scores"][title] = _make_chart(validation, score, details, is_band=has_interval)
        if score.result.comparison is not None:
            details = ["difference", "difference_low", "difference_high"]
            layout["Comparison with the best"][title] = _make_chart(validation, score, details, is_band=True)
        layout["Parts"] |= _chart_components(validation, score)
    return {section: _order_charts(charts) for section, charts in layout.items() if charts}


def _order_charts(charts: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Charts in the order that TensorBoard needs: it shows lines first, and then bands in reverse order."""
    lines = {title: chart for title, chart in charts.items() if chart[0] == _LINES}
    bands = {title: chart for title, chart in charts.items() if chart[0] == _BAND}
    return lines | dict(reversed(bands.items()))


def _chart_components(validation: Validation, score: Scored) -> dict[str, list[Any]]:
    """The charts of the components that are logged, by title."""
    details_by_title: dict[str, list[str]] = {}
    for component in score.result.components:
        is_logged = validation.naming.render(score.name._replace(detail=component.name)) in validation.numbers
        if component.chart and is_logged:
            title = f"{_show_name(validation, score)}: {component.chart}"
            details_by_title.setdefault(title, []).append(component.name)
    return {title: _make_chart(validation, score, details) for title, details in details_by_title.items()}


def _make_chart(validation: Validation, score: Scored, details: Sequence[str], *, is_band: bool = False) -> list[Any]:
    """Lines, or a line between the ends of an interval."""
    names = [_show_name(validation, score, detail) for detail in details]
    if is_band:
        return [_BAND, names]
    # The names of lines are regular expressions that must match from the start.
    return [_LINES, [f"^{re.escape(name)}$" for name in names]]


def _show_name(validation: Validation, score: Scored, detail: str = "") -> str:
    """The name of a number in loggers."""
    return validation.naming.render_for_loggers(score.name._replace(detail=detail))
