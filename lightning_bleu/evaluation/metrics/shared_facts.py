"""What is known about the metrics of an evaluator before they score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import torch

from lightning_bleu.core.batch import InputCounts
from lightning_bleu.core.messages import check_choice, warn_user
from lightning_bleu.core.scoring import Component, EvaluatorMetric, Scorer
from lightning_bleu.core.settings import Decoder, Settings
from lightning_bleu.evaluation.names import MEAN
from lightning_bleu.evaluation.scores.validation import STATISTICS

_NOTHING_SET = Settings()


def known_scorers(name: str, metric: EvaluatorMetric) -> dict[str, Scorer]:
    """The scorers of a metric by the name of the score, as far as these are known."""
    return {score_name: metric.scorer_of(name, score_name) for score_name in metric.score_names}


def list_components(scorer: Scorer) -> list[Component]:
    """The components of a score, with values of no sentence."""
    nothing = torch.zeros(scorer.columns, dtype=torch.int64, device="cpu")
    return scorer.components(scorer.report(nothing, InputCounts()))


def check_parts(metrics: Mapping[str, EvaluatorMetric], parts: bool | Sequence[str]) -> None:
    """Raise a ValueError for names of components that no metric has."""
    if isinstance(parts, bool):
        return
    known = _component_names(metrics)
    for part_name in parts:
        check_choice("parts", part_name, known)


def _component_names(metrics: Mapping[str, EvaluatorMetric]) -> dict[str, None]:
    """The names of the components of all scores, in order."""
    names: dict[str, None] = {}
    for name, metric in metrics.items():
        for scorer in known_scorers(name, metric).values():
            names.update(dict.fromkeys(component.name for component in list_components(scorer)))
    return names


def reserved_names(metrics: Mapping[str, EvaluatorMetric]) -> set[str]:
    """Names that no loader and no group can have, because they are logged, or could be, below a score.

    Example:
        >>> from lightning_bleu import CorpusCHRF
        >>> sorted(reserved_names({"chrf": CorpusCHRF().scorer}) - STATISTICS.keys())
        ['', 'mean', 'precision', 'recall']
    """
    names = {"", MEAN, *STATISTICS, *_component_names(metrics)}
    for metric in metrics.values():
        names.update(metric.score_names)
    return names


def warn_about_scales(metrics: Mapping[str, EvaluatorMetric]) -> None:
    """Warn if scores that a chart may show together have different scales."""
    units = {}
    for name, metric in metrics.items():
        for scorer in known_scorers(name, metric).values():
            if scorer.unit is not None and scorer.higher_is_better is not False:  # an error rate is apart anyway
                units[name] = scorer.unit
    if len(set(units.values())) > 1:
        warn_user(f"The metrics have different scales, {units}: set percent=True for all of them, or for none.")


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
        (reading, owner), (other_reading, other_owner), *_ = owners.items()
        names = [field.name for field in fields(reading)]
        differing = [name for name in names if getattr(reading, name) != getattr(other_reading, name)]
        differ = (
            f"{owner!r} and {other_owner!r} must read ids in the same way, but differ in {differing or ['decoder']}"
        )
        raise ValueError(f"{differ}: give them the same values, or set these options for one of them only")
    nothing_set = _NOTHING_SET if decoder is None else Settings(decoder=decoder)
    return next(iter(owners), nothing_set)
