"""Charts of the scores of a run: what each of them shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.validation import Score, ScoredValidation

SCORES, COMPONENTS = "Scores", "Parts"
COMPARISONS = {"best": "Comparison with the best", "first": "Comparison with the first"}
SECTIONS = [SCORES, *COMPARISONS.values(), COMPONENTS]
"""The sections of charts, in order."""


class Chart(NamedTuple):
    """A chart of numbers over the steps.

    Attributes:
        section: the section of the page.
        title: the title.
        names: the logged names of the lines; of a band, those of the number, and of the ends of its interval.
        is_band: whether it is a number with its interval.
    """

    section: str
    title: str
    names: tuple[str, ...]
    is_band: bool = False


def lay_out_charts(validation: ScoredValidation) -> list[Chart]:
    """The charts of a validation: lines of scores and of components, then bands. Those of means come first."""
    detailed = [score for score in validation.scores if validation.is_detailed(score.name)]
    detailed.sort(key=lambda score: bool(score.name.subset))  # means first
    charts = _chart_scores(detailed, validation)
    for score in detailed:
        charts += _chart_components(score, validation)
    for score in detailed:
        charts += _chart_uncertainty(score, validation)
    return charts


def _title(name: Name, validation: ScoredValidation) -> str:
    tag = validation.naming.render_for_loggers(name)
    is_mean = validation.has_mean and not name.subset
    return f"{tag}: mean of all" if is_mean else tag


def _chart_scores(scores: Iterable[Score], validation: ScoredValidation) -> list[Chart]:
    """A chart for each metric and subset, with all of its scores that have no interval."""
    names_by_chart: dict[Name, list[str]] = {}
    for score in scores:
        if score.result.interval is None:
            of_metric = score.name._replace(score="")
            logged = validation.naming.render_for_loggers(score.name)
            names_by_chart.setdefault(of_metric, []).append(logged)
    return [Chart(SCORES, _title(name, validation), tuple(names)) for name, names in names_by_chart.items()]


def _chart_uncertainty(score: Score, validation: ScoredValidation) -> list[Chart]:
    """A band for the interval of a score, and one for the interval of the difference."""
    naming, title = validation.naming, _title(score.name, validation)
    charts = []
    if score.result.interval is not None:
        charts.append(_band(SCORES, title, score.name, naming, ("", "low", "high")))
    if score.result.comparison is not None:
        section = COMPARISONS[score.result.opponent]
        details = ("difference", "difference_low", "difference_high")
        charts.append(_band(section, title, score.name, naming, details))
    return charts


def _band(section: str, title: str, name: Name, naming: Naming, details: Sequence[str]) -> Chart:
    names = [naming.render_for_loggers(name._replace(detail=detail)) for detail in details]
    return Chart(section, title, tuple(names), is_band=True)


def _chart_components(score: Score, validation: ScoredValidation) -> list[Chart]:
    """The charts of the components that are logged."""
    naming = validation.naming
    names_by_chart: dict[str, list[str]] = {}
    for component in score.result.components:
        if component.chart:
            logged = naming.render_for_loggers(score.name._replace(detail=component.name))
            names_by_chart.setdefault(component.chart, []).append(logged)
    tag = naming.render_for_loggers(score.name)
    return [Chart(COMPONENTS, f"{tag}: {title}", tuple(names)) for title, names in names_by_chart.items()]
