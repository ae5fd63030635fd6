"""The metrics of this package by the names of their classes, as they are recorded. Each is imported when it is used."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from lightning_bleu.core.scoring import EvaluatorMetric

_SCORERS = {"CorpusBLEU": "lightning_bleu.bleu:BLEUScorer", "CorpusCHRF": "lightning_bleu.chrf:CHRFScorer"}
"""Those that have a scorer. The others are the public names of the metrics of tasks."""


def find_class(class_name: str) -> Any:
    """The scorer of a metric, or the metric itself, which has `from_plain`; None if it is none of this package."""
    if class_name in _SCORERS:
        return pkgutil.resolve_name(_SCORERS[class_name])
    tasks = importlib.import_module("lightning_bleu.tasks")
    return getattr(tasks, class_name) if class_name in tasks.__all__ else None


def is_known(class_name: str, settings: Mapping[str, Any] | None) -> bool:
    """Whether a recorded metric is one of this package. Others may have classes of the same names.

    Args:
        class_name: the name of its class.
        settings: its recorded settings; None if they are unknown.
    """
    if class_name in _SCORERS:
        return True
    # sacreBLEU's TER has no settings, and a metric of the user has those of a function.
    return settings is not None and "function" not in settings and find_class(class_name) is not None


def make_metric(class_name: str, settings: Mapping[str, Any], *, percent: bool) -> EvaluatorMetric:
    """The metric with settings that were recorded, for text.

    Raises:
        KeyError, TypeError, ValueError: for settings that it does not have, and for a setting that has been a callable,
            of which only the name is known.
    """
    metric: EvaluatorMetric = find_class(class_name).from_plain(settings, percent=percent)
    return metric
