"""Checks of the options of an evaluator."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from torch import nn
from torchmetrics import MetricCollection

from lightning_bleu.bleu import BLEU_OPTIONS
from lightning_bleu.messages import check_choice, warn_user
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.resampling import check_share
from lightning_bleu.settings.settings import Decoder, Settings, check_integer, describe, unknown_options
from lightning_bleu.training.loaders import check_names
from lightning_bleu.training.metrics import AnyMetric, wrap_metric
from lightning_bleu.training.sentences import MIN_LEVEL, OpponentKind


def check_metrics(metrics: Any, parts: bool | Sequence[str] = True) -> dict[str, dict[str, AnyMetric]]:
    """Check the metrics of an evaluator.

    Args:
        metrics: a metric; or metrics by name, each a metric, or a dict of a metric for each label, which is the name of
            a loader or of a group.
        parts: the names of the components to log, or whether to log any.

    Returns:
        the metrics of each name by label; a metric for all labels has the label ``""``.

    Raises:
        TypeError: for anything that is not a metric, and for a metric without a name that needs one.
        ValueError: if there is no metric, for names that cannot be logged, for parts that no metric has, or if the
            metrics of a name have different scales.
    """
    given = as_dict(metrics)
    named = {getattr(type(metrics), "short_name", ""): metrics} if given is None else given
    if not named:
        raise ValueError("'metrics' must have at least one metric, got an empty dict")
    found: list[tuple[str, dict[str, Any]]] = []
    for name, own in named.items():
        labeled = as_dict(own)
        if labeled == {}:
            raise ValueError(f"{name!r} must have a metric for each loader or group, got an empty dict")
        for label in labeled or ():
            check_names(f"loaders or groups of {name!r}", [label])
        members = {label: members_of(name, metric) for label, metric in (labeled or {"": own}).items()}
        first, *others = map(list, members.values())
        if any(one != first for one in others):
            raise ValueError(f"the collections of {name!r} must have the same names, got {first} and {others[0]}")
        found += [(key, {label: one[key] for label, one in members.items()}) for key in first]
    if given is None and found[0][0] == "":
        wrap_metric("metrics", metrics)  # raises an error unless it is a metric
        raise TypeError(f"{getattr(metrics, '__name__', type(metrics).__name__)} needs a name: pass {{'NAME': ...}}")
    check_names("metrics", [name for name, _ in found], reserved=("", "samples", "worst"))
    checked: dict[str, dict[str, AnyMetric]] = {}
    for name, by_label in found:
        checked[name] = {label: wrap_metric(name, metric, parts) for label, metric in by_label.items()}
        if len({(type(metric), frozenset(metric.directions.items())) for metric in checked[name].values()}) > 1:
            raise ValueError(
                f"the metrics of {name!r} must be all of this package or all of others, with the same names of scores "
                "and one direction, because the means over the labels are logged: give other metrics another name"
            )
        if len({metric.scale for metric in checked[name].values()}) > 1:
            raise ValueError(
                f"the metrics of {name!r} must have one scale, because the mean of their scores is logged: set "
                "percent=True for all of them, or for none"
            )
    known = dict.fromkeys(part for own in checked.values() for metric in own.values() for part in metric.part_names)
    for part in () if isinstance(parts, bool) else parts:
        check_choice("parts", part, known)
    scales = {name: next(iter(own.values())).scale for name, own in checked.items()}
    if len({scale for scale in scales.values() if scale is not None}) > 1:
        shown = ", ".join(f"{name!r} in 0..{scale:g}" for name, scale in scales.items() if scale is not None)
        warn_user(f"The metrics have different scales: {shown}. Set percent=True for all of them, or for none.")
    return checked


def as_dict(value: Any) -> Mapping[str, Any] | None:
    """A dict as it is, and a ModuleDict as a dict; None for anything else."""
    if isinstance(value, nn.ModuleDict) and not isinstance(value, MetricCollection):
        return dict(value.items())
    return value if isinstance(value, Mapping) else None


def members_of(name: str, metric: Any) -> dict[str, Any]:
    """The members of a MetricCollection by their full names, if one is of this package; else the metric itself."""
    members = dict(metric.items()) if isinstance(metric, MetricCollection) else {}
    is_ours = any(isinstance(one, CorpusMetric) for one in members.values())
    return {f"{name}/{part}" if name else part: one for part, one in members.items()} if is_ours else {name: metric}


def labels_of(metrics: Mapping[str, Mapping[str, AnyMetric]]) -> list[str]:
    """The labels that have metrics of their own, in order."""
    return [*dict.fromkeys(label for own in metrics.values() for label in own if label)]


def check_labels(metrics: Mapping[str, Mapping[str, AnyMetric]], labels: Collection[str]) -> None:
    """Raise a ValueError if the keys of `metrics` name loaders or groups.

    Args:
        metrics: the metrics by name.
        labels: the names of the loaders, or of the groups.
    """
    if metrics.keys() <= {*labels}:
        example = ", ".join(f"{name!r}: ..." for name in metrics)
        raise ValueError(f"{[*metrics]} are names of loaders or groups, not of metrics: pass {{'bleu': {{{example}}}}}")


def find_metric(
    name: str, metrics: Mapping[str, AnyMetric], loader: str, group: str | None, loaders: Collection[str] = ()
) -> AnyMetric:
    """The metric of a subset: that of ``LOADER/GROUP``, else of its group, else of its loader, else the one for all.

    Args:
        name: the name of the metric.
        metrics: its metrics by label.
        loader: the name of the loader; empty if it has none.
        group: the group; None without groups.
        loaders: the names of all loaders.

    Raises:
        ValueError: if there is none, or if its group has the name of another loader with a metric of its own.
    """
    both = f"{loader}/{group}"
    for label in (both, group, loader, ""):
        if label is not None and label in metrics:
            if label == group != loader and group in loaders:
                raise ValueError(
                    f"{group!r} of {name!r} is a loader, and also a group of {loader!r}: add {both!r}, or rename one"
                )
            return metrics[label]
    if group is not None:
        raise ValueError(
            f"{name!r} has no metric for the group {group!r}, only for {[*metrics]}: add one, or pass a single metric "
            "for all groups"
        )
    raise ValueError(
        f"{name!r} has metrics for {[*metrics]}, but the loader "
        f"{f'is {loader!r}' if loader else 'has no name'}: pass a dict of loaders with these names, or "
        "'dataloader_names' of BLEUCallback; or, for several languages in one loader, give 'group', a label per "
        "sentence"
    )


def shared_reading(
    metrics: Mapping[str, Mapping[str, AnyMetric]],
    decoder: Decoder | None = None,
    loader: str = "",
    loaders: Collection[str] = ("",),
) -> Settings:
    """How the metrics of a loader read ids. Those that set nothing take the settings of the others.

    Args:
        metrics: the metrics of each name by label.
        decoder: the decoder of metrics that set none.
        loader: the name of the loader. If a name has no metric for it, those of other labels may be for its groups.
        loaders: the names of all loaders.

    Raises:
        ValueError: if two metrics differ.
    """
    found: dict[Settings, str] = {}
    for name, own in metrics.items():
        for label, metric in own.items():
            is_ours = label == loader or (loader not in own and label not in loaders)
            if is_ours and (reading := metric.reading) != Settings():
                reading = reading if reading.decoder is not None else replace(reading, decoder=decoder)
                found.setdefault(reading, f"{name!r} of {label!r}" if label else repr(name))
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        differing = [field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)]
        raise ValueError(
            f"{first} and {second} must read ids in the same way, but differ in {differing or ['decoder']}: give them "
            "the same 'decoder', 'ignore_ids', 'pad_id', 'bos_id', and 'eos_id', or set these for one of them only"
        )
    return next(iter(found), Settings(decoder=decoder))


def check_options(options: Mapping[str, Any]) -> None:
    """Check the options of an evaluator by name; see :class:`lightning_bleu.Evaluator`.

    Raises:
        TypeError: for an option of the wrong type.
        ValueError: for an option that is out of range.
    """
    kind = type(options["self"])
    if unknown := options["unknown"]:
        signatures = (inspect.signature(vars(one)["__init__"]) for one in kind.mro() if "__init__" in vars(one))
        ours = [name for one in signatures for name in one.parameters if name not in ("self", "options", "unknown")]
        if of_metric := {option: value for option, value in unknown.items() if option in BLEU_OPTIONS}:
            example = ", ".join(f"{option}={describe(value)}" for option, value in of_metric.items())
            raise TypeError(f"{[*of_metric]} are options of the metric: {kind.__name__}(CorpusBLEU({example}))")
        raise unknown_options(unknown, [*ours, *BLEU_OPTIONS])
    log_name, translations, keep = (options[name] for name in ("log_name", "translations", "keep_translations"))
    names = log_name if isinstance(log_name, Mapping) else {"val": log_name, "test": log_name}
    if names.keys() != {"val", "test"} or not all(isinstance(name, str) for name in names.values()):
        raise TypeError(f"'log_name' must be a string, or a dict of strings for 'val' and 'test', got {log_name!r}")
    rests = [name.replace("{stage}", stage).replace("{metric}", "") for stage, name in names.items()]
    folders = {re.sub(r"[-_. /]+", "/", rest).strip("/") for rest in rests} - {""}  # see Naming.folder
    are_paths = all("{metric}" in name and "" not in name.split("/") for name in names.values())
    if not are_paths or len(folders) < 2 or re.search("[{}]", "".join(rests)):
        raise ValueError(
            "'log_name' must be a name with '{stage}' and '{metric}', or a dict of names that differ in more than "
            f"punctuation, such as {{'val': 'valid_{{metric}}', 'test': 'test_{{metric}}'}}, got {log_name!r}"
        )
    if not isinstance(parts := options["parts"], bool | list | tuple):
        raise TypeError(f"'parts' must be True, False, or a list of names, got {parts!r}")
    Settings(decoder=options["decoder"])
    if options["confidence"] is not None:
        check_share("confidence", options["confidence"])
    if not isinstance(translations, str | os.PathLike | bool | None) or translations == "":
        raise TypeError(
            f"'translations' must be a folder or True, got {translations!r} of type {type(translations).__name__}"
        )
    if re.match(r"\w\w+:/", str(translations)):  # a Path has a single slash left
        raise ValueError(f"'translations' must be a local folder, got {translations!r}")
    check_integer("samples", options["samples"], at_least=0)
    if keep is not None:
        check_integer("keep_translations", keep, at_least=1)
        if not translations:
            raise ValueError("'keep_translations' needs a folder: set 'translations' as well")
    if options["compare_to"] is not None:
        check_choice("compare_to", options["compare_to"], get_args(OpponentKind))
    loggers = options["loggers"]
    for logger in loggers if isinstance(loggers, list | tuple) else [loggers]:
        methods = ("log_metrics", "add_scalar", "define_metric")
        if logger is loggers or not any(hasattr(type(logger), method) for method in methods):
            raise TypeError(
                "'loggers' must be a list of SummaryWriters, runs of W&B, or loggers of Lightning, got "
                f"{logger!r} of type {type(logger).__name__}"
            )
    if (level := options["significance_level"]) is not None:
        check_share("significance_level", level)
        if options["compare_to"] == "first":
            raise ValueError("'significance_level' decides what becomes the best: use compare_to='best', got 'first'")
        if level < MIN_LEVEL:
            raise ValueError(
                f"'significance_level' must be at least {MIN_LEVEL}, got {level}: a smaller one needs more than 10,000 "
                "resamples in each validation"
            )
