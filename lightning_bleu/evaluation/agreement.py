"""Processes agree before they count: what differs between them is an error, not another score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightning_bleu.evaluation.metrics import known_scorers
from lightning_bleu.evaluation.options import Options
from lightning_bleu.processes import process_count, run_in_all
from lightning_bleu.scoring.evaluator_metric import EvaluatorMetric
from lightning_bleu.settings.settings import Decoder, to_plain

_COMPARED = ("samples", "confidence", "compare_to")
"""Options that are compared as they are."""


def agree_on_metrics(
    options: Options,
    metrics: Mapping[str, EvaluatorMetric],
    stage: str,
    loader_names: Sequence[str],
    decoder: Decoder | None,
    *,
    has_extract: bool,
) -> dict[str, EvaluatorMetric]:
    """The metrics in the order of process 0. Collective.

    Args:
        options: the options. Loggers may differ: only those of process 0 are used.
        metrics: the metrics by name.
        stage: ``"val"`` or ``"test"``.
        loader_names: the names of the loaders.
        decoder: what decodes ids.
        has_extract: whether a function finds the sentences in what a step returned.

    Raises:
        ValueError: in all processes, if anything else differs between them.
    """
    if process_count() == 1:
        return dict(metrics)
    plain = {option: getattr(options, option) for option in _COMPARED}
    plain["stage"] = stage
    plain["names of loaders"] = list(loader_names)
    plain["extract"] = has_extract
    plain["decoder"] = to_plain(decoder)
    plain["log_name"] = dict(options.log_name) if isinstance(options.log_name, Mapping) else options.log_name
    plain["separator"] = options.separator or "/"
    plain["parts"] = options.parts if isinstance(options.parts, bool) else sorted(options.parts)
    plain["only"] = None if options.only is None else sorted(set(options.only))
    plain["translations"] = str(options.translations)
    plain["metrics"] = {name: _describe_metric(name, metric) for name, metric in metrics.items()}
    first, *others = run_in_all(lambda: plain)
    for rank, other in enumerate(others, 1):
        for option, value in first.items():
            if value != other[option]:
                raise ValueError(
                    f"{option!r} must be the same in all processes, but is {value} in process 0, and {other[option]} "
                    f"in process {rank}"
                )
    return {name: metrics[name] for name in first["metrics"]}


def _describe_metric(name: str, metric: EvaluatorMetric) -> dict[str, Any]:
    """What must be the same in all processes: the class, the settings, how it is called, and what the scores mean."""
    return {
        "class": metric.class_name,
        "settings": metric.plain_settings(),
        "corpus_level": metric.corpus_level,
        "takes_sources": metric.takes_sources,
        "scores": {
            score_name: (scorer.percent, scorer.higher_is_better, scorer.perfect)
            for score_name, scorer in known_scorers(name, metric).items()
        },
    }
