"""Callbacks and options that watch a logged number, and may prefer worse ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.results import STATISTICS
from lightning_bleu.scoring.scoring import unit_of


class LoggedNumber(NamedTuple):
    """What a logged number means.

    Attributes:
        higher_is_better: whether a higher number is better; None if neither is, or if that is unknown.
        unit: what a share of 1 is in it: 100 in percent, 1, or None if it has a scale of its own.
    """

    higher_is_better: bool | None
    unit: float | None


def describe_number(logged: str, naming: Naming, table: MetricTable) -> LoggedNumber | None:
    """What a logged number means; None if no evaluator logs it.

    Args:
        logged: its logged name.
        naming: how names are written.
        table: the metrics of the evaluator.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> table = MetricTable.from_metrics(CorpusBLEU(percent=True))
        >>> describe_number("val_bleu/news/difference", Naming(), table)
        LoggedNumber(higher_is_better=True, unit=None)
    """
    name = naming.parse(logged, table.score_names(), table.detail_names())
    if name is None:
        return None
    metric = table.first(name.metric)
    component = table.components(name.metric).get(name.detail)
    if component is not None:
        return LoggedNumber(component.higher_is_better, component.unit)
    direction = metric.direction_of(name.score)
    unit = unit_of(metric.percent)
    statistic = STATISTICS.get(name.detail)
    if statistic is None:
        return LoggedNumber(direction, unit)
    return LoggedNumber(direction if statistic.has_direction else None, unit if statistic.is_score else None)


def suspect_monitors(callbacks: Iterable[Any], namings: Iterable[Naming], table: MetricTable) -> Iterator[str]:
    """Warn about callbacks that prefer worse scores, or that have a threshold of another scale.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` matter.
        namings: how the names of each stage are written.
        table: the metrics of the evaluator.
    """
    namings = list(namings)
    for callback in callbacks:
        monitor = getattr(callback, "monitor", None)
        if not isinstance(monitor, str):
            continue
        for naming in namings:
            meaning = describe_number(monitor, naming, table)
            if meaning is not None:  # of one stage at most
                yield from _suspect_mode(callback, meaning)
                yield from _suspect_threshold(callback, meaning)


def _suspect_mode(callback: Any, number: LoggedNumber) -> Iterator[str]:
    mode = getattr(callback, "mode", None)
    if mode not in ("min", "max") or number.higher_is_better is None:
        return
    right = "max" if number.higher_is_better else "min"
    if mode != right:
        worse, better = ("low", "higher") if number.higher_is_better else ("high", "lower")
        yield (
            f"{type(callback).__name__}(monitor={callback.monitor!r}, mode={mode!r}) prefers a {worse} score, but "
            f"{better} is better: set mode={right!r}."
        )


def _suspect_threshold(callback: Any, number: LoggedNumber) -> Iterator[str]:
    threshold = getattr(callback, "stopping_threshold", None)
    if number.unit is None or not isinstance(threshold, int | float) or threshold <= 0:
        return
    is_percent = number.unit > 1
    looks_like_share = threshold <= 1
    if looks_like_share == is_percent:
        converted = threshold * 100 if is_percent else threshold / 100
        yield (
            f"{type(callback).__name__}(monitor={callback.monitor!r}, stopping_threshold={threshold}): the score is in "
            f"0..{number.unit:g}, because percent={is_percent}. Set stopping_threshold={converted:g}, or "
            f"percent={not is_percent}."
        )
