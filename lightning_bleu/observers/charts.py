"""Charts of the scores of a run: what each of them shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.result import OPPONENTS
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.validation import Validation

SCORES, COMPONENTS = "Scores", "Parts"
COMPARISONS = {kind: f"Comparison with the {words}" for kind, words in OPPONENTS.items()}
SECTIONS = [SCORES, *COMPARISONS.values(), COMPONENTS]
"""The sections of charts, in order."""


class ScalarChart(NamedTuple):
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


def lay_out_charts(validation: Validation) -> list[ScalarChart]:
    """The charts of a validation: lines of scores and of components, then bands. Those of means come first.

    Groups have none: TensorBoard draws all lines of a chart in one color.
    """
    scored = [score for score in validation.scored if not score.name.group]
    if not validation.shows_loaders:
        scored = [score for score in scored if not score.name.loader]
    only_members = {score.mean_of[0] for score in scored if len(score.mean_of) == 1}  # equal to their means
    scored = [score for score in scored if score.name not in only_members]
    scored.sort(key=lambda score: bool(score.name.loader))  # means first
    naming = validation.naming
    charts = _chart_scores(scored, naming)
    for score in scored:
        charts += _chart_components(score, naming)
    for score in scored:
        charts += _chart_uncertainty(score, naming)
    return charts


def _title(score: Scored, naming: Naming, name: Name | None = None) -> str:
    tag = naming.render_for_loggers(name or score.name)
    return f"{tag}: mean of {len(score.mean_of)} loaders" if len(score.mean_of) > 1 else tag


def _chart_scores(scored: Iterable[Scored], naming: Naming) -> list[ScalarChart]:
    """A chart for each metric and loader, with all of its scores that have no interval."""
    names_by_title: dict[str, list[str]] = {}
    for score in scored:
        if score.result.interval is None:
            title = _title(score, naming, score.name._replace(score=""))
            names_by_title.setdefault(title, []).append(naming.render_for_loggers(score.name))
    return [ScalarChart(SCORES, title, tuple(names)) for title, names in names_by_title.items()]


def _chart_uncertainty(score: Scored, naming: Naming) -> list[ScalarChart]:
    """A band for the interval of a score, and one for the interval of the difference."""
    title, result = _title(score, naming), score.result
    charts = []
    if result.interval is not None:
        charts.append(_band(SCORES, title, score.name, naming, ("", "low", "high")))
    if result.compared_with is not None:
        section = COMPARISONS[result.compared_with]
        details = ("difference", "difference_low", "difference_high")
        charts.append(_band(section, title, score.name, naming, details))
    return charts


def _band(section: str, title: str, name: Name, naming: Naming, details: Sequence[str]) -> ScalarChart:
    names = [naming.render_for_loggers(name._replace(detail=detail)) for detail in details]
    return ScalarChart(section, title, tuple(names), is_band=True)


def _chart_components(score: Scored, naming: Naming) -> list[ScalarChart]:
    """The charts of the components that are logged."""
    names_by_chart: dict[str, list[str]] = {}
    for component in score.result.components:
        if component.chart:
            logged = naming.render_for_loggers(score.name._replace(detail=component.name))
            names_by_chart.setdefault(component.chart, []).append(logged)
    tag = naming.render_for_loggers(score.name)
    return [ScalarChart(COMPONENTS, f"{tag}: {title}", tuple(names)) for title, names in names_by_chart.items()]
