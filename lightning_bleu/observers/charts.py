"""The charts of a validation on TensorBoard's page of custom scalars: bands for intervals, and lines for components."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.validation import Validation

Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Charts by section and title, as ``SummaryWriter.add_custom_scalars`` takes them."""


def lay_out_charts(validation: Validation) -> Layout:
    """The charts of a validation: those of its scores, of their differences from the best, and of their components.

    Groups have none: TensorBoard draws all lines of a chart in one color.
    """
    layout: Layout = {"Scores": {}, "Comparison with the best": {}, "Parts": {}}
    for score in validation.scored:
        if score.name.group:
            continue
        title, result = validation.naming.render_for_loggers(score.name), score.result
        layout["Scores"][title] = ["Multiline", [f"^{re.escape(title)}$"]]
        if result.interval is not None:
            layout["Scores"][title] = ["Margin", _names(validation, score, "", "low", "high")]
        if result.comparison is not None:
            names = _names(validation, score, "difference", "difference_low", "difference_high")
            layout["Comparison with the best"][title] = ["Margin", names]
        for chart in dict.fromkeys(component.chart for component in result.components if component.chart):
            parts = [component.name for component in result.components if component.chart == chart]
            # The names of lines are regular expressions that must match from the start.
            patterns = [f"^{re.escape(name)}$" for name in _names(validation, score, *parts)]
            layout["Parts"][f"{title}: {chart}"] = ["Multiline", patterns]
    return {section: charts for section, charts in layout.items() if charts}


def _names(validation: Validation, score: Scored, *details: str) -> list[str]:
    return [validation.naming.render_for_loggers(score.name._replace(detail=detail)) for detail in details]
