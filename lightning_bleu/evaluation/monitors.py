"""Callbacks, schedulers, and options that watch a logged number, and may prefer worse ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lightning_bleu.core.scoring import Component, EvaluatorMetric
from lightning_bleu.core.settings import describe
from lightning_bleu.evaluation.lightning_internals import saving_steps
from lightning_bleu.evaluation.metrics.functions import FunctionMetric
from lightning_bleu.evaluation.metrics.shared_facts import known_scorers, list_components
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.scores.validation import STATISTICS


class LoggedNumber(NamedTuple):
    """What a logged number means.

    Attributes:
        higher_is_better: whether a higher number is better; None if neither is, or if that is unknown.
        unit: what a share of 1 is in it: 100 in percent, 1, or None if it has a scale of its own.
        function: the name of the function that gives it, whose direction may be wrong; empty for other metrics.
    """

    higher_is_better: bool | None
    unit: float | None
    function: str = ""


def describe_number(logged: str, naming: Naming, metrics: Mapping[str, EvaluatorMetric]) -> LoggedNumber | None:
    """What a logged number means; None if no evaluator logs it.

    Args:
        logged: its logged name.
        naming: how names are written.
        metrics: the metrics of the evaluator by name.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
        >>> metrics = read_metrics(CorpusBLEU(percent=True))
        >>> describe_number("val_bleu/news/difference", Naming(), metrics)
        LoggedNumber(higher_is_better=True, unit=None, function='')
    """
    scorers = {name: known_scorers(name, metric) for name, metric in metrics.items()}
    components: dict[str, dict[str, Component]] = {}
    for metric_name, scorers_of_metric in scorers.items():
        components[metric_name] = {}
        for scorer in scorers_of_metric.values():
            components[metric_name].update({component.name: component for component in list_components(scorer)})
    details = {*STATISTICS, *(name for of_metric in components.values() for name in of_metric)}
    name = naming.parse(logged, scorers, details)
    if name is None:
        return None
    component = components[name.metric].get(name.detail)
    if component is not None:
        return LoggedNumber(component.higher_is_better, component.unit)
    scorer_of_name = scorers[name.metric].get(name.score)
    if scorer_of_name is None:  # a metric of several scores has none without a name
        return None
    statistic = STATISTICS.get(name.detail)
    if statistic is None:
        metric = metrics[name.metric]
        function = describe(metric.function) if type(metric) is FunctionMetric else ""
        return LoggedNumber(scorer_of_name.higher_is_better, scorer_of_name.unit, function)
    direction = scorer_of_name.higher_is_better if statistic.has_direction else None
    return LoggedNumber(direction, scorer_of_name.unit if statistic.is_score else None)


def suspect_monitors(
    callbacks: Sequence[Any],
    schedulers: Sequence[Any],
    namings: Collection[Naming],
    metrics: Mapping[str, EvaluatorMetric],
    epoch_steps: float,
) -> Iterator[str]:
    """Warn about callbacks and schedulers that prefer worse scores, have a threshold of another scale, or save early.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` matter.
        schedulers: the configurations of learning rate schedulers, with ``scheduler`` and ``monitor``.
        namings: how the names of each stage are written.
        metrics: the metrics of the evaluator by name.
        epoch_steps: the number of training steps between validations at the ends of epochs, after which Lightning saves
            the new score.
    """
    watchers = [(callback, getattr(callback, "monitor", None)) for callback in callbacks]
    watchers += [(config.scheduler, config.monitor) for config in schedulers]
    for watcher, monitor in watchers:
        if not isinstance(monitor, str):
            continue
        for naming in namings:
            number = describe_number(monitor, naming, metrics)
            if number is not None:  # of one stage at most
                yield from _suspect_mode(watcher, monitor, number)
                yield from _suspect_threshold(watcher, monitor, number)
                yield from _suspect_early_saving(watcher, monitor, epoch_steps)


def _suspect_early_saving(watcher: Any, monitor: str, epoch_steps: float) -> Iterator[str]:
    """Checkpoints that are saved between validations, with the score of earlier weights."""
    steps = saving_steps(watcher)
    if steps and epoch_steps and steps % epoch_steps != 0:
        yield (
            f"{type(watcher).__name__}(monitor={monitor!r}, every_n_train_steps={steps}) saves before the validation "
            "of a step, so its file has the score of earlier weights: leave every_n_train_steps out, and it saves "
            "after each validation."
        )


def _suspect_mode(watcher: Any, monitor: str, number: LoggedNumber) -> Iterator[str]:
    mode = getattr(watcher, "mode", None)
    if mode not in ("min", "max") or number.higher_is_better is None:
        return
    right = "max" if number.higher_is_better else "min"
    if mode != right:
        worse, better = ("low", "higher") if number.higher_is_better else ("high", "lower")
        prefers = f"{type(watcher).__name__}(monitor={monitor!r}, mode={mode!r}) prefers a {worse} score, but"
        if number.function:
            other = f"FunctionMetric({number.function}, higher_is_better={not number.higher_is_better})"
            yield f"{prefers} for a function, {better} is better: set mode={right!r}, or pass {other}."
        else:
            yield f"{prefers} {better} is better: set mode={right!r}."


def _suspect_threshold(watcher: Any, monitor: str, number: LoggedNumber) -> Iterator[str]:
    threshold = getattr(watcher, "stopping_threshold", None)
    if number.unit is None or not isinstance(threshold, int | float) or threshold <= 0:
        return
    is_percent = number.unit > 1
    looks_like_share = threshold <= 1
    if looks_like_share == is_percent:
        converted = threshold * 100 if is_percent else threshold / 100
        yield (
            f"{type(watcher).__name__}(monitor={monitor!r}, stopping_threshold={threshold}): the score is in "
            f"0..{number.unit:g}, because percent={is_percent}. Set stopping_threshold={converted:g}, or "
            f"percent={not is_percent}."
        )
