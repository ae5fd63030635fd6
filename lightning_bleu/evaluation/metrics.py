"""The metrics of an evaluator by name: what the user passed, and what is known before they score."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import nn
from torchmetrics import MetricCollection

from lightning_bleu.evaluation.foreign_metrics import ForeignMetric
from lightning_bleu.evaluation.functions import to_function_metric
from lightning_bleu.evaluation.names import MEAN, Name, check_names, column_name
from lightning_bleu.evaluation.results import COMPARED, INTERVAL, STATISTICS, OpponentKind
from lightning_bleu.messages import check_choice, warn_user
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.reading.forms import InputCounts
from lightning_bleu.scoring.evaluator_metric import EvaluatorMetric
from lightning_bleu.scoring.scoring import Component, Scorer
from lightning_bleu.settings.settings import Decoder, Settings

_RESERVED_COLUMNS = ("index", "group")
"""Other columns in the tables of sentences."""
_RESERVED = ("", "samples", "worst", *_RESERVED_COLUMNS)
"""Names that no metric can have: those of panels in loggers, and of these columns."""
_LEFT_TO_SCORERS = (
    *("update", "forward", "compute", "report", "statistics", "input_counts", "signature", "scorer"),
    *("scoring", "count_rows", "report_of", "components", "columns"),  # of older versions
)
"""What a subclass of a metric cannot override in an evaluator, which uses the scorer."""
_NOTHING_SET = Settings()


# What the user passed


def read_metrics(metrics: Any) -> dict[str, EvaluatorMetric]:
    """The metrics by name.

    Args:
        metrics: a metric, or metrics by name.

    Raises:
        TypeError: for anything that is not a metric, and for a metric without a name that needs one.
        ValueError: if there is no metric, for names that cannot be logged, and for a dict by loader or group.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> list(read_metrics(CorpusBLEU())), list(read_metrics({"lengths": lambda hypotheses, references: []}))
        (['bleu'], ['lengths'])
    """
    named = list(_name_metrics(metrics))
    names = [name for name, _ in named]
    check_names("metrics", names, _RESERVED)
    columns = [*_RESERVED_COLUMNS, *map(column_name, names)]
    if len(set(columns)) < len(columns):
        raise ValueError(f"the metrics must have names that differ as columns of a table, got {names}")
    return {name: _to_evaluator_metric(name, metric) for name, metric in named}


def _name_metrics(metrics: Any) -> Iterator[tuple[str, Any]]:
    """The names of what the user passed as `metrics`, and the metrics. Nothing is checked yet."""
    by_name = _as_dict(metrics)
    if by_name is None:
        members = dict(_members_of(getattr(type(metrics), "short_name", ""), metrics))
        if "" in members:
            _to_evaluator_metric("metrics", metrics)  # raises an error unless it is a metric
            name = getattr(metrics, "__name__", type(metrics).__name__)
            raise TypeError(f"{name} needs a name: pass {{'NAME': ...}}")
        by_name = members
    if not by_name:
        raise ValueError("'metrics' must have at least one metric, got an empty dict")
    for name, metric in by_name.items():
        yield from _members_of(name, metric)


def _as_dict(value: Any) -> Mapping[str, Any] | None:
    """A dict as it is, and a ModuleDict as a dict; None for anything else."""
    if isinstance(value, nn.ModuleDict) and not isinstance(value, MetricCollection):
        return dict(value.items())
    return value if isinstance(value, Mapping) else None


def _members_of(name: str, metric: Any) -> Iterator[tuple[str, Any]]:
    """The members of a MetricCollection by their full names, if one is of this package; else the metric itself."""
    members = dict(metric.items()) if isinstance(metric, MetricCollection) else {}
    if any(isinstance(member, CorpusMetric) for member in members.values()):
        for key, member in members.items():
            yield f"{name}/{key}" if name else key, member
    else:
        yield name, metric


def _to_evaluator_metric(name: str, metric: Any) -> EvaluatorMetric:
    """The scorer of a metric of this package; a metric of another package as one of this one.

    Raises:
        TypeError: if it is no metric, or if it cannot score text.
        ValueError: for a dict by loader or group.
    """
    labeled = _as_dict(metric)
    if labeled is not None:
        raise _by_label([*labeled])
    needs = f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got {metric!r}"
    if metric is None:
        raise TypeError(f"{needs}: leave it out, or score some loaders or groups only with only=['NAME', ...]")
    if isinstance(metric, type):
        raise TypeError(f"{needs}: make an instance of it")
    if isinstance(metric, CorpusMetric):
        _check_overrides(metric)
        return metric.scorer
    if isinstance(metric, EvaluatorMetric):
        return metric
    has_methods = hasattr(metric, "update") and hasattr(metric, "compute")
    if isinstance(metric, SacreMetric) or has_methods:
        return ForeignMetric(name, metric)
    if callable(metric):
        return to_function_metric(name, metric)
    raise TypeError(f"{needs}: pass metrics by name, such as {{'bleu': CorpusBLEU()}}")


def _by_label(labels: Sequence[str]) -> ValueError:
    """The error for metrics by the name of a loader or a group."""
    label = str(labels[0]) if labels else "zh"
    return ValueError(
        f"{labels} are names of loaders or groups, not of metrics: all sentences have the same metrics. To score some "
        f"of them otherwise, use two callbacks or evaluators: one with only=[...] for the others, and "
        f"BLEUCallback(CorpusBLEU(tokenizer='zh'), only=[{label!r}], log_name='{{stage}}_{label}_{{metric}}')"
    )


def check_not_labels(metrics: Any, labels: Collection[str]) -> None:
    """Raise a ValueError if the user passed a dict of metrics by the names of loaders or groups."""
    names = _as_dict(metrics)
    if names is not None and names.keys() <= set(labels):
        raise _by_label([*names])


def _check_overrides(metric: CorpusMetric) -> None:
    """Raise a TypeError for a subclass of a metric with methods that an evaluator would not call."""
    for class_ in type(metric).mro():
        is_metric_itself = CorpusMetric in class_.__bases__
        if is_metric_itself:
            return
        overridden = [name for name in _LEFT_TO_SCORERS if name in vars(class_)]
        if overridden:
            raise TypeError(
                f"{class_.__name__} overrides {overridden}, which an evaluator does not call: pass a function of "
                "hypotheses and references as a metric, or use the subclass without an evaluator"
            )


# What is known about them


def metrics_that_score(metrics: Mapping[str, EvaluatorMetric], *, has_references: bool) -> dict[str, EvaluatorMetric]:
    """The metrics that can score sentences with references, or without."""
    return {name: metric for name, metric in metrics.items() if has_references or not metric.needs_references}


def known_scorers(name: str, metric: EvaluatorMetric) -> dict[str, Scorer]:
    """The scorers of a metric by the name of the score, as far as these are known."""
    return {score_name: metric.scorer_of(name, score_name) for score_name in metric.score_names}


def list_components(scorer: Scorer) -> list[Component]:
    """The components of a score, with values of no sentence."""
    nothing = torch.zeros(scorer.columns, dtype=torch.int64, device="cpu")
    return scorer.components(scorer.report(nothing, InputCounts()))


def choose_components(components: Sequence[Component], parts: bool | Sequence[str]) -> list[Component]:
    """The components that are logged.

    Args:
        components: the components.
        parts: whether to log the default ones, or the names of those to log.
    """
    if isinstance(parts, bool):
        return [component for component in components if parts and component.is_default]
    return [component for component in components if component.name in parts]


def name_components(metrics: Mapping[str, EvaluatorMetric], parts: bool | Sequence[str]) -> dict[Name, list[str]]:
    """The names of the components that are logged, for each known score.

    Args:
        metrics: the metrics by name.
        parts: whether to log the default ones, or the names of those to log.

    Raises:
        ValueError: for names of components that no metric has.
    """
    components_by_score = {}
    for metric_name, metric in metrics.items():
        for score_name, scorer in known_scorers(metric_name, metric).items():
            components_by_score[Name(metric_name, score=score_name)] = list_components(scorer)
    if not isinstance(parts, bool):
        known = dict.fromkeys(part.name for components in components_by_score.values() for part in components)
        for part_name in parts:
            check_choice("parts", part_name, known)
    return {
        name: [component.name for component in choose_components(components, parts)]
        for name, components in components_by_score.items()
    }


def reserved_names(metrics: Mapping[str, EvaluatorMetric]) -> set[str]:
    """Names that no loader and no group can have, because they are logged, or could be, below a score.

    Example:
        >>> from lightning_bleu import CorpusCHRF
        >>> sorted(reserved_names(read_metrics(CorpusCHRF())) - STATISTICS.keys())
        ['', 'mean', 'precision', 'recall']
    """
    names = {"", MEAN, *STATISTICS}
    for name, metric in metrics.items():
        for score_name, scorer in known_scorers(name, metric).items():
            names.add(score_name)
            names.update(component.name for component in list_components(scorer))
    return names


def warn_about_scales(metrics: Mapping[str, EvaluatorMetric]) -> None:
    """Warn if scores that a chart may show together have different scales."""
    units = {}
    for name, metric in metrics.items():
        for scorer in known_scorers(name, metric).values():
            if scorer.unit is not None:
                units[name] = scorer.unit
    if len(set(units.values())) > 1:
        shown = ", ".join(f"{name!r} in 0..{unit:g}" for name, unit in units.items())
        warn_user(f"The metrics have different scales: {shown}. Set percent=True for all of them, or for none.")


def shared_reading(metrics: Mapping[str, EvaluatorMetric], decoder: Decoder | None = None) -> Settings:
    """How the metrics read ids. Those that set nothing take the settings of the others.

    Args:
        metrics: the metrics by name.
        decoder: the decoder of metrics that set none.

    Raises:
        ValueError: if two metrics differ.
    """
    owners: dict[Settings, str] = {}
    for name, metric in metrics.items():
        reading = metric.reading
        if reading != _NOTHING_SET:
            if reading.decoder is None:
                reading = replace(reading, decoder=decoder)
            owners.setdefault(reading, name)
    if len(owners) > 1:
        raise _different_readings(owners)
    nothing_set = _NOTHING_SET if decoder is None else Settings(decoder=decoder)
    return next(iter(owners), nothing_set)


def _different_readings(owners: Mapping[Settings, str]) -> ValueError:
    """The error for metrics that read ids in different ways."""
    (reading, owner), (other_reading, other_owner), *_ = owners.items()
    names = [field.name for field in fields(reading)]
    differing = [name for name in names if getattr(reading, name) != getattr(other_reading, name)]
    return ValueError(
        f"{owner!r} and {other_owner!r} must read ids in the same way, but differ in {differing or ['decoder']}: give "
        "them the same 'decoder', 'ignore_ids', 'pad_id', 'bos_id', and 'eos_id', or set these for one of them only"
    )


def expected_names(
    metrics: Mapping[str, EvaluatorMetric],
    loader_names: Collection[str],
    components: Mapping[Name, Sequence[str]],
    *,
    has_intervals: bool,
    compare_to: OpponentKind | None,
) -> list[Name]:
    """What a validation logs, as far as it is known before: groups are not, and some names of scores are not.

    Args:
        metrics: the metrics by name.
        loader_names: the names of the loaders that are scored; ``""`` for one without a name. Empty if unknown.
        components: what :func:`name_components` returned.
        has_intervals: whether intervals are logged.
        compare_to: what validations are compared with; None if they are not.
    """
    are_several = any(loader_names)
    names = []
    for score, components_of_score in components.items():
        metric = metrics[score.metric]
        statistics: list[str] = []
        opponent: list[str] = []
        if has_intervals and not metric.corpus_level:
            statistics += INTERVAL
        has_best = metric.scorer_of(score.metric, score.score).sign != 0
        if compare_to is not None and (has_best or compare_to == "first") and not metric.corpus_level:
            statistics += COMPARED
            opponent = [compare_to]
        whole = ["", *statistics, *opponent]
        names += [score._replace(detail=detail) for detail in whole]
        if not are_several:
            names += [score._replace(detail=detail) for detail in components_of_score]
            continue
        for loader in loader_names:  # the whole is their mean, which has no components
            names += [
                score._replace(loader=loader, detail=detail) for detail in ("", *statistics, *components_of_score)
            ]
    return names
