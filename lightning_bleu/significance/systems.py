"""The inputs of intervals and tests: metrics that keep their sentences, or bare statistics."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUOptions, CorpusBLEU
from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.resampling import check_sentences
from lightning_bleu.scoring.scoring import Scoring
from lightning_bleu.scoring.signature import InputCounts

System: TypeAlias = Tensor | CorpusMetric
"""A metric that keeps its sentences, or their statistics."""


def read_systems(
    systems: dict[str, System], metric: CorpusMetric | None, options: BLEUOptions
) -> tuple[list[Tensor], Scoring]:
    """Check the systems to compare, and read their statistics.

    Args:
        systems: the systems by argument name, for error messages.
        metric: how to score bare statistics.
        options: how to score bare statistics as BLEU, if there is no metric.

    Returns:
        the statistics of each system in float64 on the CPU, and how to score them.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or for a metric with options.
        ValueError: for fewer than two sentences, different numbers of sentences, or systems with different
            settings.
    """
    kept = {name: _read(name, system) for name, system in systems.items()}
    statistics = [one if isinstance(one, Tensor) else one.statistics for one in kept.values()]
    metrics = [system for system in systems.values() if not isinstance(system, Tensor)]
    if not isinstance(metric, CorpusMetric | None):
        raise TypeError(f"'metric' must be a metric such as CorpusCHRF(), got {metric!r}")
    if metrics and (options or metric):
        raise TypeError("options are for bare statistics; a metric is scored with its own settings")
    if metric and options:
        raise TypeError("pass options or 'metric', not both")
    if len(names := {one.scoring.name for one in metrics}) > 1:
        raise ValueError(f"both systems must be scored by the same metric, got {' and '.join(sorted(names))}")
    first = statistics[0]
    for name, other in zip(systems, statistics):
        check_sentences(name, other)
        if other.shape != first.shape:
            raise ValueError(
                "both systems must have the same number of sentences and the same orders of n-grams, got statistics of "
                f"shape {tuple(first.shape)} and {tuple(other.shape)}"
            )
    if metrics:
        both = [one for one in kept.values() if not isinstance(one, Tensor)]
        _check_scored_alike(metrics[0], both[0], metrics[-1], both[-1])
    scored = metrics[0] if metrics else metric or _bleu_of(first, options)
    if first.shape[1] != scored.columns:
        raise ValueError(f"'metric' has {scored.columns} statistics per sentence, got statistics of {first.shape[1]}")
    return [one.double() for one in statistics], scored.scoring


def _bleu_of(statistics: Tensor, options: BLEUOptions) -> CorpusBLEU:
    max_order = statistics.shape[1] // 2 - 1
    if statistics.shape[1] % 2 or max_order < 1:
        raise ValueError(
            "statistics of BLEU must have shape (sentences, 2 * max_order + 2), got "
            f"{tuple(statistics.shape)}: say how to score others with metric=, such as metric=CorpusCHRF()"
        )
    if (statistics[:, :max_order] > statistics[:, max_order : 2 * max_order]).any():
        raise ValueError(
            "statistics of BLEU cannot have more matches than n-grams: say how to score others with metric=, such as "
            "metric=CorpusCHRF()"
        )
    if options.get("max_order", max_order) != max_order:
        raise ValueError(f"'max_order' must be {max_order}, as in the statistics, got {options['max_order']}")
    given: BLEUOptions = {**options, "max_order": max_order}
    return CorpusBLEU(**given)


def _check_scored_alike(a: CorpusMetric, kept_a: KeptSentences, b: CorpusMetric, kept_b: KeptSentences) -> None:
    differences, inputs = a.settings.differences(b.settings), [InputCounts.of_kept(kept) for kept in (kept_a, kept_b)]
    differences += ["tokens"] * (inputs[0].kinds != inputs[1].kinds)
    differences += ["number of references"] * (inputs[0].reference_count != inputs[1].reference_count)
    if differences:
        signatures = [metric.sign(one) for metric, one in zip((a, b), inputs)]
        raise ValueError(
            f"both systems must be scored in the same way, got {signatures[0]} and {signatures[1]}, which differ in: "
            f"{', '.join(dict.fromkeys(differences))}"
        )
    if not torch.equal(kept_a.positions, kept_b.positions):
        raise ValueError("both systems must have the same sentences, but their 'index' differs")
    if (differs := kept_a.checksums != kept_b.checksums).any():
        raise ValueError(
            "both systems must have the same sentences in the same order, but the references of sentence "
            f"{differs.nonzero()[0].item()} differ"
        )


def _read(name: str, system: System) -> Tensor | KeptSentences:
    if isinstance(system, Tensor):
        if system.is_floating_point() or system.is_complex() or system.ndim != 2:
            raise ValueError(
                f"{name!r} must be integers of shape (sentences, columns), such as "
                f"CorpusBLEU(keep_sentences=True).sentence_statistics, got {system.dtype} of shape "
                f"{tuple(system.shape)}"
            )
        return system.cpu()
    if not isinstance(system, CorpusMetric):
        raise TypeError(
            f"{name!r} must be a metric such as CorpusBLEU(keep_sentences=True), or statistics, got "
            f"{type(system).__name__}"
        )
    return system.kept_sentences()
