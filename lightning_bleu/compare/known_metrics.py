"""The metrics of this package by the names of their classes, as they are recorded. Each is imported when it is used."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

from lightning_bleu.core.evaluator_metric import EvaluatorMetric

KNOWN_METRICS: Mapping[str, str] = {
    "CorpusBLEU": "lightning_bleu.bleu:BLEUScorer",
    "CorpusCHRF": "lightning_bleu.chrf:CHRFScorer",
    "WER": "lightning_bleu.tasks:WER",
    "CER": "lightning_bleu.tasks:CER",
    "TER": "lightning_bleu.tasks:TER",
    "ROUGE": "lightning_bleu.tasks:ROUGE",
    "ExactMatch": "lightning_bleu.tasks:ExactMatch",
}
"""Where each is: its scorer, or the metric itself."""


def is_known(class_name: str, settings: Mapping[str, Any] | None) -> bool:
    """Whether a recorded metric is one of this package. Others may have classes of the same names.

    Args:
        class_name: the name of its class.
        settings: its recorded settings; None if they are unknown.
    """
    path = KNOWN_METRICS.get(class_name, "")
    if path.startswith("lightning_bleu.tasks"):
        # sacreBLEU's TER has no settings, and a metric of the user has those of a function.
        return settings is not None and "function" not in settings
    return bool(path)


def make_metric(class_name: str, settings: Mapping[str, Any], *, percent: bool) -> EvaluatorMetric:
    """The metric with settings that were recorded, for text.

    Raises:
        KeyError, TypeError, ValueError: for settings that it does not have, and for a setting that has been a callable,
            of which only the name is known.
    """
    known: Any = pkgutil.resolve_name(KNOWN_METRICS[class_name])
    metric: EvaluatorMetric = known.from_plain(settings, percent=percent)
    return metric
