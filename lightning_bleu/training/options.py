"""Checks of the options of the callback."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.messages import warn_user
from lightning_bleu.scoring.resampling import check_share
from lightning_bleu.settings.bleu import BLEU_OPTIONS
from lightning_bleu.settings.settings import check_bool, check_integer, describe, unknown_options
from lightning_bleu.training.best import MIN_LEVEL
from lightning_bleu.training.others import copy_other
from lightning_bleu.training.trainer import check_names


def check_metrics(metric: Any) -> CorpusBLEU | dict[str, CorpusBLEU]:
    """Check a metric for all loaders, or a metric for each loader name.

    Raises:
        TypeError: if it is neither.
        ValueError: if there is no metric, or if some score in 0..1 and others in 0..100.
    """
    metrics = metric if isinstance(metric, Mapping) else {"": metric}
    for name, value in metrics.items():
        if not isinstance(value, CorpusBLEU):
            raise TypeError(
                "'metric' must be a CorpusBLEU, or a dict of a CorpusBLEU for each loader name, got "
                f"{value!r} of type {type(value).__name__}"
            )
        if not isinstance(name, str):
            raise TypeError(f"the keys of 'metric' must be strings, got {name!r} of type {type(name).__name__}")
    if not metrics:
        raise ValueError("'metric' must have a metric for each loader name, got an empty dict")
    if len({value.settings.percent for value in metrics.values()}) > 1:
        raise ValueError(
            "'metric' must have metrics of one scale, because the mean of their scores is logged: set percent=True for "
            "all of them, or for none"
        )
    return dict(metric) if isinstance(metric, Mapping) else metric


def find_metric(metric: CorpusBLEU | Mapping[str, CorpusBLEU], label: str) -> CorpusBLEU:
    """The metric of a group.

    Raises:
        ValueError: if it has none, if its label cannot be logged, or if the metrics of groups read a batch differently.
    """
    check_names("groups", [label])
    if not isinstance(metric, Mapping):
        return metric
    if label not in metric:
        raise ValueError(f"'metric' has no metric for the group {label!r}, only for {[*metric]}")
    first, *others = metric.values()
    if any(one.settings.for_reading != first.settings.for_reading for one in others):
        raise ValueError(
            "the metrics of groups must have the same 'decoder', 'ignore_ids', 'pad_id', 'bos_id', and 'eos_id', "
            "because a batch is read once for all groups"
        )
    return metric[label]


def logged_name(name: str, stage: str) -> str:
    """The logged name of a score of a stage.

    Example:
        >>> logged_name("bleu", "val"), logged_name("{stage}/bleu", "test")
        ('val_bleu', 'test/bleu')
    """
    return name.format(stage=stage) if "{stage}" in name else f"{stage}_{name}"


def check_others(others: Any, name: str) -> dict[str, Any]:
    """Check metrics of text beside BLEU, and copy them.

    Args:
        others: the metrics by name; None for none.
        name: the name of BLEU.

    Returns:
        the metrics by names like that of BLEU: if it has a placeholder for the stage, they have one, too.

    Raises:
        TypeError: if it is no dict of metrics of text; see :func:`lightning_bleu.training.others.copy_other`.
        ValueError: for a name that cannot be logged beside BLEU.
    """
    if not isinstance(others, Mapping | None):
        raise TypeError(f"'others' must be a dict of a metric for each name, got {others!r}")
    copied: dict[str, Any] = {}
    for other, metric in (others or {}).items():
        if not isinstance(other, str):
            raise TypeError(f"the keys of 'others' must be strings, got {other!r} of type {type(other).__name__}")
        full = other if "{stage}" in other or "{stage}" not in name else "/".join([*name.split("/")[:-1], other])
        _check_name(full)
        if "{stage}" in name and "{stage}" not in full:
            raise ValueError(
                f"a key of 'others' must have the placeholder '{{stage}}', like name={name!r}; got {other!r}"
            )
        own = logged_name(full, "val")
        for taken in (name, *copied):
            logged = logged_name(taken, "val")
            if f"{own}/".startswith(f"{logged}/") or f"{logged}/".startswith(f"{own}/"):
                raise ValueError(f"'others' has the name {other!r}, which clashes with {taken!r}")
        copied[full] = copy_other(other, metric)
    return copied


def check_options(options: Mapping[str, Any]) -> None:
    """Check the other options by name; see :class:`lightning_bleu.BLEUCallback`.

    Raises:
        TypeError: for an option of the wrong type.
        ValueError: for an option that is out of range.
    """
    if unknown := options.get("unknown"):
        ours = [parameter for parameter in options if parameter not in ("self", "unknown")]
        if of_metric := {option: value for option, value in unknown.items() if option in BLEU_OPTIONS}:
            example = ", ".join(f"{option}={describe(value)}" for option, value in of_metric.items())
            raise TypeError(f"{[*of_metric]} are options of the metric: BLEUCallback(CorpusBLEU({example}))")
        raise unknown_options(unknown, [*ours, *BLEU_OPTIONS])
    extract, name, dataloader_names = options["extract"], options["name"], options["dataloader_names"]
    translations, keep_translations = options["translations"], options["keep_translations"]
    if extract is not None and not callable(extract):
        raise TypeError(f"'extract' must take outputs and batch and return (preds, target), got {extract!r}")
    if not isinstance(name, str):
        raise TypeError(f"'name' must be a string, got {name!r} of type {type(name).__name__}")
    _check_name(name)
    if (found := re.match("(val|test)_(?=.)", name)) and "{stage}" not in name:
        warn_user(f"name={name!r} logs 'val_{name}': did you mean name={name[found.end() :]!r}?")
    is_list = isinstance(dataloader_names, Sequence) and not isinstance(dataloader_names, str)
    if dataloader_names is not None and not (is_list and all(isinstance(item, str) for item in dataloader_names)):
        raise TypeError(f"'dataloader_names' must be a list of names, got {dataloader_names!r}")
    if dataloader_names is not None and len(set(dataloader_names)) < len(dataloader_names):
        raise ValueError(f"'dataloader_names' must be different from each other, got {list(dataloader_names)}")
    check_integer("samples", options["samples"], at_least=0)
    if not isinstance(translations, str | os.PathLike | bool | None):
        raise TypeError(
            f"'translations' must be a folder or True, got {translations!r} of type {type(translations).__name__}"
        )
    if re.match(r"\w\w+:/", str(translations)):  # a Path has a single slash left
        raise ValueError(f"'translations' must be a local folder, got {translations!r}")
    if keep_translations is not None:
        check_integer("keep_translations", keep_translations, at_least=1)
        if not translations:
            raise ValueError("'keep_translations' needs a folder: set 'translations' as well")
    check_bool("compare_to_best", options["compare_to_best"])
    for option in ("confidence", "significance_level"):
        if options[option] is not None:
            check_share(option, options[option])
    level = options["significance_level"]
    if level is not None and level < MIN_LEVEL:
        raise ValueError(
            f"'significance_level' must be at least {MIN_LEVEL}, got {level}: a smaller one needs more than 10,000 "
            "resamples in each validation"
        )


def _check_name(name: str) -> None:
    if not name:
        raise ValueError("'name' must not be empty: it is the last part of the logged name, as in 'val_bleu'")
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(name) if field is not None}
        plain = name.format(stage="val")
    except (ValueError, KeyError, IndexError):
        fields, plain = {"?"}, ""
    if fields - {"stage"} or "" in plain.split("/"):
        raise ValueError(
            f"'name' must be a name such as 'bleu', or have the placeholder '{{stage}}' and no other, as in "
            f"'{{stage}}/bleu', got {name!r}"
        )
