"""The charts of a validation on TensorBoard's page of custom scalars: bands for intervals, and lines for components."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from lightning_bleu.evaluation.scores.scored import Scored
from lightning_bleu.evaluation.scores.validation import Validation

Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Charts by section and title, as ``SummaryWriter.add_custom_scalars`` takes them."""


def lay_out_charts(validation: Validation) -> Layout:
    """The charts of a validation: its scores, their differences from the best, and the components that are logged.

    Those of means come first. Groups have none: TensorBoard draws all lines of a chart in one color.
    """
    layout: Layout = {"Scores": {}, "Comparison with the best": {}, "Parts": {}}
    scored = [score for score in validation.scored if not score.name.group]
    for score in sorted(scored, key=lambda score: bool(score.name.loader)):
        naming, result = validation.naming, score.result
        shown = naming.render_for_loggers(score.name)
        title = f"{shown}: mean of {len(score.mean_of)} loaders" if len(score.mean_of) > 1 else shown
        bands = {}
        if result.interval is None:
            layout["Scores"][title] = ["Multiline", [_to_pattern(shown)]]
        else:
            bands["Scores"] = ["", "low", "high"]
        if result.comparison is not None:
            bands["Comparison with the best"] = ["difference", "difference_low", "difference_high"]
        for section, details in bands.items():
            names = [naming.render_for_loggers(score.name._replace(detail=detail)) for detail in details]
            layout[section] = {title: ["Margin", names], **layout[section]}  # TensorBoard shows the last band first
        _add_components(layout["Parts"], validation, score)
    return {section: charts for section, charts in layout.items() if charts}


def _add_components(charts: dict[str, list[Any]], validation: Validation, score: Scored) -> None:
    """Add the charts of the components that are logged."""
    naming = validation.naming
    for component in score.result.components:
        name = score.name._replace(detail=component.name)
        if component.chart and naming.render(name) in validation.numbers:
            title = f"{naming.render_for_loggers(score.name)}: {component.chart}"
            _, names = charts.setdefault(title, ["Multiline", []])
            names.append(_to_pattern(naming.render_for_loggers(name)))


def _to_pattern(name: str) -> str:
    """The names of lines are regular expressions that must match from the start."""
    return f"^{re.escape(name)}$"
