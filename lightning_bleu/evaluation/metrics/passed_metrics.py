"""The metrics that the user passed, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sacrebleu.metrics.base import Metric as SacreMetric
from torch import nn
from torchmetrics import MetricCollection

from lightning_bleu.core.corpus_metric import CorpusMetric
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.evaluation.metrics.foreign_metrics import ForeignMetric
from lightning_bleu.evaluation.metrics.functions import FunctionMetric
from lightning_bleu.evaluation.names import check_names

_RESERVED = ("", "samples", "worst", "id", "index", "group", "references")
"""Names that no metric can have: those of panels in loggers, and of other columns in the tables of sentences."""


def read_metrics(metrics: Any) -> dict[str, EvaluatorMetric]:
    """The metrics by name.

    Args:
        metrics: a metric, or metrics by name.

    Raises:
        TypeError: for anything that is not a metric, and for a metric without a name that needs one.
        ValueError: if there is no metric, and for names that cannot be logged.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> list(read_metrics(CorpusBLEU())), list(read_metrics({"lengths": lambda hypotheses, references: []}))
        (['bleu'], ['lengths'])
    """
    named = list(_name_metrics(metrics))
    names = [name for name, _ in named]
    check_names("metrics", names, _RESERVED)
    return {name: _to_evaluator_metric(name, passed) for name, passed in named}


def _name_metrics(metrics: Any) -> Iterator[tuple[str, Any]]:
    """The names of what the user passed as `metrics`, and the metrics as they are."""
    is_module_dict = isinstance(metrics, nn.ModuleDict) and not isinstance(metrics, MetricCollection)
    by_name = dict(metrics.items()) if is_module_dict or isinstance(metrics, Mapping) else None
    if by_name is None:
        members = dict(_members_of(getattr(type(metrics), "short_name", ""), metrics))
        if "" in members:
            _to_evaluator_metric("metrics", metrics)  # raises an error unless it is a metric
            name = getattr(metrics, "__name__", type(metrics).__name__)
            raise TypeError(f"{name} needs a name: pass {{'NAME': ...}}")
        by_name = members
    if not by_name:
        raise ValueError("'metrics' must have at least one metric, got an empty dict")
    for name, passed in by_name.items():
        yield from _members_of(name, passed)


def _members_of(name: str, passed: Any) -> Iterator[tuple[str, Any]]:
    """The members of a MetricCollection by their full names, if one is of this package; else the metric itself."""
    members = dict(passed.items()) if isinstance(passed, MetricCollection) else {}
    if any(isinstance(member, CorpusMetric) for member in members.values()):
        for key, member in members.items():
            yield f"{name}/{key}" if name else key, member
    else:
        yield name, passed


def _to_evaluator_metric(name: str, passed: Any) -> EvaluatorMetric:
    """The scorer of a metric of this package; a metric of another package as one of this one.

    Raises:
        TypeError: if it is no metric, or if it cannot score text.
    """
    needs = f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got {passed!r}"
    if isinstance(passed, type):
        raise TypeError(f"{needs}: make an instance of it")
    if isinstance(passed, CorpusMetric):
        if type(passed).compute is not CorpusMetric.compute or type(passed).update is not CorpusMetric.update:
            overrides = f"{type(passed).__name__} overrides 'update' or 'compute', which an evaluator does not call"
            raise TypeError(
                f"{overrides}: pass a function of hypotheses and references, or use it without an evaluator"
            )
        return passed.scorer
    if isinstance(passed, EvaluatorMetric):
        return passed
    has_methods = hasattr(passed, "update") and hasattr(passed, "compute")
    if isinstance(passed, SacreMetric) or has_methods:
        return ForeignMetric(name, passed)
    if callable(passed):
        return FunctionMetric(passed)
    raise TypeError(f"{needs}: pass metrics by name, such as {{'bleu': CorpusBLEU()}}")
