"""The metrics of an evaluator by name, and which of them scores a loader or a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sacrebleu.metrics.base import Metric as SacreMetric
from torch import nn
from torchmetrics import MetricCollection

from lightning_bleu.evaluation.functions import ScoredByFunction
from lightning_bleu.evaluation.metrics import CountedMetric, EvaluatorMetric
from lightning_bleu.evaluation.names import Name, check_names
from lightning_bleu.evaluation.results import COMPARED, INTERVAL, STATISTICS
from lightning_bleu.evaluation.task_metrics import CountedIds, TokenCount
from lightning_bleu.evaluation.text_metrics import TextMetric
from lightning_bleu.messages import check_choice, warn_user
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.scoring import Component, unit_of
from lightning_bleu.settings.settings import Decoder, Settings

_RESERVED = ("", "samples", "worst")
"""Names that no metric can have."""


class MetricTable:
    """The metrics of an evaluator: one for each name, or one for each name and label.

    A label is the name of a loader or of a group, or both, as ``LOADER/GROUP``. A metric for all of them has the label
    ``""``, and is the only one of its name.

    Args:
        by_label: the metrics of each name by label; None for a label that has no such score.
    """

    def __init__(self, by_label: Mapping[str, Mapping[str, EvaluatorMetric | None]]) -> None:
        self._by_label = by_label

    @classmethod
    def from_metrics(cls, metrics: Any, parts: bool | Sequence[str] = True) -> MetricTable:
        """Check the metrics of an evaluator.

        Args:
            metrics: a metric; or metrics by name, each a metric, or a dict of a metric, or None, for each label.
            parts: the names of the components to log, or whether to log any.

        Raises:
            TypeError: for anything that is not a metric, and for a metric without a name that needs one.
            ValueError: if there is no metric, for names that cannot be logged, for parts that no metric has, or if the
                metrics of a name have different scales.
        """
        named = _name_metrics(metrics)
        check_names("metrics", [name for name, _ in named], reserved=_RESERVED)
        by_label: dict[str, dict[str, EvaluatorMetric | None]] = {}
        for name, labeled in named:
            metrics_by_label = {
                label: wrap_metric(name, metric, parts) for label, metric in labeled.items() if metric is not None
            }
            _check_alike(name, list(metrics_by_label.values()))
            by_label[name] = {label: metrics_by_label.get(label) for label in labeled}
        table = cls(by_label)
        table._check_parts(parts)
        return table

    def _check_parts(self, parts: bool | Sequence[str]) -> None:
        if isinstance(parts, bool):
            return
        components = dict.fromkeys(component.name for metric in self for component in metric.components)
        for part in parts:
            check_choice("parts", part, components)

    def warn_about_scales(self) -> None:
        """Warn if scores that a chart may show together have different scales."""
        units = {name: unit_of(self.first(name).percent) for name in self.names}
        units = {name: unit for name, unit in units.items() if unit is not None}
        if len(set(units.values())) > 1:
            shown = ", ".join(f"{name!r} in 0..{unit:g}" for name, unit in units.items())
            warn_user(f"The metrics have different scales: {shown}. Set percent=True for all of them, or for none.")

    def __iter__(self) -> Iterator[EvaluatorMetric]:
        """All metrics."""
        for name in self._by_label:
            yield from self._metrics_of(name)

    def _metrics_of(self, name: str) -> list[EvaluatorMetric]:
        """The metrics of a name, of all labels that have one."""
        return [metric for metric in self._by_label[name].values() if metric is not None]

    @property
    def names(self) -> list[str]:
        """The names of the metrics."""
        return list(self._by_label)

    @property
    def labels(self) -> list[str]:
        """The labels that have metrics of their own, in order."""
        labels = [label for labeled in self._by_label.values() for label in labeled if label]
        return list(dict.fromkeys(labels))

    def first(self, name: str) -> EvaluatorMetric:
        """The first metric of a name. Those of other labels have the same scale, direction, and names of scores."""
        return self._metrics_of(name)[0]

    def score_names(self) -> dict[str, list[str]]:
        """The names of the scores of each metric, as far as they are known."""
        return {name: list(self.first(name).directions) for name in self.names}

    def components(self, name: str) -> dict[str, Component]:
        """The components of a metric by name."""
        return {component.name: component for component in self.first(name).components}

    def detail_names(self) -> list[str]:
        """Everything that can be logged below a score: the names of components and statistics."""
        return [*STATISTICS, *(component.name for metric in self for component in metric.components)]

    def expected_names(
        self, loaders: Collection[str] = (), *, interval: bool = False, compare_to: str | None = None
    ) -> list[Name]:
        """What a validation logs, as far as it is known before: groups are not, and some names of scores are not.

        Args:
            loaders: the names of the loaders; ``""`` for one without a name.
            interval: whether intervals are logged.
            compare_to: ``"best"`` or ``"first"`` if validations are compared.
        """
        names = []
        for metric in self.names:
            scored_loaders = [loader for loader in loaders if self._may_score(metric, loader)]
            if loaders and not scored_loaders:
                continue
            subsets: list[tuple[str, ...]] = [(loader,) for loader in scored_loaders if loader]
            components = [
                component.name for of_label in self._metrics_of(metric) for component in of_label.logged_components
            ]
            for score in self.first(metric).directions:
                statistics = self._expected_statistics(metric, score, interval=interval, compare_to=compare_to)
                names += [Name(metric, (), score, detail) for detail in ("", *statistics)]
                # A mean has no components.
                details = dict.fromkeys(["", *components, *statistics] if subsets else components)
                names += [Name(metric, subset, score, detail) for subset in subsets or [()] for detail in details]
        return names

    def _expected_statistics(self, metric: str, score: str, *, interval: bool, compare_to: str | None) -> list[str]:
        """The statistics that are logged below a score; see :meth:`expected_names`."""
        if not all(of_label.scores_sentences for of_label in self._metrics_of(metric)):
            return []
        statistics = list(INTERVAL) if interval else []
        has_direction = self.first(metric).direction_of(score) is not None
        if compare_to == "first" or (compare_to == "best" and has_direction):
            statistics += [*COMPARED, compare_to]
        return statistics

    def check_not_labels(self, labels: Collection[str]) -> None:
        """Raise a ValueError if the names of the metrics are those of loaders or groups."""
        if self._by_label.keys() <= set(labels):
            example = ", ".join(f"{name!r}: ..." for name in self.names)
            raise ValueError(
                f"{self.names} are names of loaders or groups, not of metrics: pass {{'bleu': {{{example}}}}}"
            )

    def may_score(self, loader: str) -> bool:
        """Whether a loader, or one of its groups, may have a metric. If not, None is its metric under every name."""
        return any(self._may_score(name, loader) for name in self.names)

    def _may_score(self, name: str, loader: str) -> bool:
        """Whether a loader, or one of its groups, may have a metric of this name."""
        if not self._is_none(name, loader):
            return True
        metrics_of_groups = [metric for label, metric in self._by_label[name].items() if label.startswith(f"{loader}/")]
        return any(metric is not None for metric in metrics_of_groups)

    def _is_none(self, name: str, label: str) -> bool:
        """Whether None was passed for a label."""
        labeled = self._by_label[name]
        return label in labeled and labeled[label] is None

    def for_dataset(self, dataset: str, missing: Callable[[str, list[str]], ValueError]) -> MetricTable:
        """The metrics of a dataset, each for all of its loaders and groups.

        It has no :attr:`names` if None is the metric of the dataset under all of them: then there is nothing to score.

        Args:
            dataset: the name of the dataset.
            missing: makes the error for a name that has no metric for it, from the name and its labels.
        """
        by_label: dict[str, dict[str, EvaluatorMetric | None]] = {}
        for name, labeled in self._by_label.items():
            label = dataset if dataset in labeled else ""
            if label not in labeled:
                raise missing(name, list(labeled))
            if labeled[label] is not None:
                by_label[name] = {"": labeled[label]}
        return MetricTable(by_label)

    def find_all(self, loader: str, group: str | None, loaders: Collection[str] = ()) -> dict[str, EvaluatorMetric]:
        """The metrics of a subset by name, without names of which it has none; see :meth:`find`."""
        metrics = {}
        for name in self.names:
            metric = self.find(name, loader, group, loaders)
            if metric is not None:
                metrics[name] = metric
        return metrics

    def find(self, name: str, loader: str, group: str | None, loaders: Collection[str] = ()) -> EvaluatorMetric | None:
        """The metric of a subset: that of ``LOADER/GROUP``, else of its group, else of its loader, else the only one.

        None if that is what the user passed for it. None for a loader holds for its groups, too, except for those that
        have the label ``LOADER/GROUP``.

        Args:
            name: the name of the metric.
            loader: the name of the loader; empty if it has none.
            group: the group; None without groups.
            loaders: the names of all loaders.

        Raises:
            ValueError: if there is none, or if its group has the name of another loader with a metric of its own.
        """
        labeled = self._by_label[name]
        both = f"{loader}/{group}"
        if both not in labeled and self._is_none(name, loader):
            return None
        for label in (both, group, loader, ""):
            if label is None or label not in labeled:
                continue
            is_ambiguous = label == group != loader and group in loaders
            if is_ambiguous:
                raise ValueError(
                    f"{group!r} of {name!r} is a loader, and also a group of {loader!r}: add {both!r}, or rename one"
                )
            return labeled[label]
        if group is not None:
            raise ValueError(
                f"{name!r} has no metric for the group {group!r}, only for {[*labeled]}: add one, or pass a single "
                "metric for all groups"
            )
        raise ValueError(
            f"{name!r} has metrics for {[*labeled]}, but the loader "
            f"{f'is {loader!r}' if loader else 'has no name'}: pass a dict of loaders with these names, or "
            "'dataloader_names' of BLEUCallback; or, for several languages in one loader, give 'group', a label per "
            "sentence"
        )

    def shared_reading(
        self, decoder: Decoder | None = None, loader: str = "", loaders: Collection[str] = ("",)
    ) -> Settings:
        """How the metrics of a loader read ids. Those that set nothing take the settings of the others.

        Args:
            decoder: the decoder of metrics that set none.
            loader: the name of the loader. If a name has no metric for it, those of other labels may be for its groups.
            loaders: the names of all loaders.

        Raises:
            ValueError: if two metrics differ.
        """
        owners: dict[Settings, str] = {}
        for name, labeled in self._by_label.items():
            for label, metric in labeled.items():
                may_be_group = labeled.get(loader) is None and label not in loaders
                reads_loader = label == loader or may_be_group
                if metric is not None and reads_loader and metric.reading != Settings():
                    reading = metric.reading
                    if reading.decoder is None:
                        reading = replace(reading, decoder=decoder)
                    owners.setdefault(reading, f"{name!r} of {label!r}" if label else repr(name))
        if len(owners) > 1:
            raise _different_readings(owners)
        return next(iter(owners), Settings(decoder=decoder))


def _different_readings(owners: Mapping[Settings, str]) -> ValueError:
    """The error for metrics of a loader that read ids in different ways."""
    (reading, owner), (other_reading, other_owner), *_ = owners.items()
    names = [field.name for field in fields(reading)]
    differing = [name for name in names if getattr(reading, name) != getattr(other_reading, name)]
    return ValueError(
        f"{owner} and {other_owner} must read ids in the same way, but differ in {differing or ['decoder']}: give them "
        "the same 'decoder', 'ignore_ids', 'pad_id', 'bos_id', and 'eos_id', or set these for one of them only"
    )


def _name_metrics(metrics: Any) -> list[tuple[str, dict[str, Any]]]:
    """The names of what the user passed as `metrics`, each with a metric by label. Names are not checked yet."""
    given = _as_dict(metrics)
    if given is None:
        own_name = getattr(type(metrics), "short_name", "")
        members = _members_of(own_name, metrics)
        if "" in members:
            wrap_metric("metrics", metrics)  # raises an error unless it is a metric
            raise TypeError(
                f"{getattr(metrics, '__name__', type(metrics).__name__)} needs a name: pass {{'NAME': ...}}"
            )
        return [(name, {"": metric}) for name, metric in members.items()]
    if not given:
        raise ValueError("'metrics' must have at least one metric, got an empty dict")
    named: list[tuple[str, dict[str, Any]]] = []
    for name, metric in given.items():
        named += _members_by_label(name, metric).items()
    return named


def _members_by_label(name: str, metric: Any) -> dict[str, dict[str, Any]]:
    """What the user passed for one name, by name and label. Members of a collection have names of their own."""
    labeled = _as_dict(metric)
    if labeled is None:
        labeled = {"": metric}
    else:
        _check_labels(name, labeled)
    members = {label: _members_of(name, of_label) for label, of_label in labeled.items() if of_label is not None}
    if not members:
        raise ValueError(
            f"{name!r} has no metric, but None: leave it out, or pass a metric for a loader or group, "
            f"{{{name!r}: {{'LOADER': CorpusBLEU(), 'OTHER': None}}}}"
        )
    first, *others = [list(of_label) for of_label in members.values()]
    for other in others:
        if other != first:
            raise ValueError(f"the collections of {name!r} must have the same names, got {first} and {other}")
    absent: dict[str, None] = dict.fromkeys(first)  # the members of None
    return {member: {label: members.get(label, absent)[member] for label in labeled} for member in first}


def _check_labels(name: str, labeled: Mapping[str, Any]) -> None:
    """Raise an error for names of loaders or groups that cannot be logged, and if there are none."""
    if not labeled:
        raise ValueError(f"{name!r} must have a metric for each loader or group, got an empty dict")
    for label in labeled:
        check_names(f"loaders or groups of {name!r}", [label])


def _as_dict(value: Any) -> Mapping[str, Any] | None:
    """A dict as it is, and a ModuleDict as a dict; None for anything else."""
    if isinstance(value, nn.ModuleDict) and not isinstance(value, MetricCollection):
        return dict(value.items())
    return value if isinstance(value, Mapping) else None


def _members_of(name: str, metric: Any) -> dict[str, Any]:
    """The members of a MetricCollection by their full names, if one is of this package; else the metric itself."""
    if isinstance(metric, MetricCollection):
        members = dict(metric.items())
        if any(isinstance(member, CorpusMetric) for member in members.values()):
            return {f"{name}/{key}" if name else key: member for key, member in members.items()}
    return {name: metric}


def _check_alike(name: str, metrics: Sequence[EvaluatorMetric]) -> None:
    """Raise a ValueError for metrics of a name whose scores have no meaningful mean."""
    if len({(type(metric), frozenset(metric.directions.items())) for metric in metrics}) > 1:
        raise ValueError(
            f"the metrics of {name!r} must be all of this package or all of others, with the same names of scores "
            "and one direction, because the means over the labels are logged: give other metrics another name"
        )
    if len({metric.percent for metric in metrics}) > 1:
        raise ValueError(
            f"the metrics of {name!r} must have one scale, because the mean of their scores is logged: set "
            "percent=True for all of them, or for none"
        )


def wrap_metric(name: str, metric: Any, parts: bool | Sequence[str] = True) -> EvaluatorMetric:
    """A metric of an evaluator.

    Args:
        name: its name.
        metric: a :class:`lightning_bleu.metric.CorpusMetric`, a metric of sacreBLEU or torchmetrics, or a function.
        parts: the names of the components to log, or whether to log the default ones.

    Raises:
        TypeError: if it is none of them, or if it cannot score text.
    """
    wrapped = _wrap(name, metric)
    wrapped.parts = parts
    return wrapped


def _wrap(name: str, metric: Any) -> EvaluatorMetric:
    if isinstance(metric, CorpusMetric):
        return CountedMetric(name, metric)
    if isinstance(metric, TokenCount):
        return CountedIds(name, metric)
    needs = f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got {metric!r}"
    if isinstance(metric, type):
        raise TypeError(f"{needs}: make an instance of it")
    has_methods = hasattr(metric, "update") and hasattr(metric, "compute")
    if isinstance(metric, SacreMetric) or has_methods:
        return TextMetric(name, metric)
    if callable(metric):
        return ScoredByFunction(name, metric)
    raise TypeError(f"{needs}: pass metrics by name, such as {{'bleu': CorpusBLEU()}}")
