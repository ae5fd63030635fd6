"""The inputs of intervals and tests: metrics that keep their sentences, or bare statistics."""

from __future__ import annotations

import operator
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.scoring.signature import InputCounts, signature
from lightning_bleu.settings.settings import Options, Settings


class KeepsSentences(Protocol):
    """The part of a metric that tests use; see :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``."""

    settings: Settings

    def kept_sentences(self) -> KeptSentences:
        """The sentences, with their statistics."""


System: TypeAlias = Tensor | KeepsSentences
"""A metric that keeps its sentences, or their statistics."""


def read_systems(systems: dict[str, System], options: Options) -> tuple[list[Tensor], Settings]:
    """Check the systems to compare, and read their statistics.

    Args:
        systems: the systems by argument name, for error messages.
        options: how to score, if all systems are bare statistics.

    Returns:
        the statistics of each system in float64 on the CPU, and the settings to score them with.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for fewer than two sentences, different numbers of sentences, or systems with different
            settings.
    """
    kept = {name: _read(name, system) for name, system in systems.items()}
    statistics = [one if isinstance(one, Tensor) else one.statistics for one in kept.values()]
    metrics = [system for system in systems.values() if not isinstance(system, Tensor)]
    if metrics and options:
        raise TypeError("options are for bare statistics; a metric is scored with its own settings")
    first = statistics[0]
    for name, other in zip(systems, statistics):
        if len(other) < 2:
            raise ValueError(f"{name!r} must have at least two sentences, got {len(other)}")
        if other.shape != first.shape:
            raise ValueError(
                "both systems must have the same number of sentences and the same 'max_order', got statistics of shape "
                f"{tuple(first.shape)} and {tuple(other.shape)}"
            )
    sentences = [one.double() for one in statistics]
    if metrics:
        both = [one for one in kept.values() if not isinstance(one, Tensor)]
        _check_scored_alike(metrics[0].settings, both[0], metrics[-1].settings, both[-1])
        return sentences, metrics[0].settings
    max_order = first.shape[1] // 2 - 1
    if options.get("max_order", max_order) != max_order:
        raise ValueError(f"'max_order' must be {max_order}, as in the statistics, got {options['max_order']}")
    given: Options = {**options, "max_order": max_order}
    return sentences, Settings.from_options(**given).for_corpus()


def _check_scored_alike(a: Settings, kept_a: KeptSentences, b: Settings, kept_b: KeptSentences) -> None:
    differences, inputs = a.differences(b), [InputCounts.of_kept(kept) for kept in (kept_a, kept_b)]
    tokenizations = [one.tokenization(settings) for one, settings in zip(inputs, (a, b))]
    differences += ["tokens"] * (tokenizations[0] != tokenizations[1])
    differences += ["number of references"] * (inputs[0].reference_count != inputs[1].reference_count)
    if differences:
        signatures = [signature(settings, one) for settings, one in zip((a, b), inputs)]
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
        columns = system.shape[-1] if system.ndim == 2 else 0
        if system.is_floating_point() or system.is_complex() or columns < 4 or columns % 2:
            raise ValueError(
                f"{name!r} must be integers of shape (sentences, 2 * max_order + 2), such as "
                f"CorpusBLEU(keep_sentences=True).sentence_statistics, got {system.dtype} of shape "
                f"{tuple(system.shape)}"
            )
        return system.cpu()
    if not isinstance(getattr(system, "settings", None), Settings):
        raise TypeError(
            f"{name!r} must be a CorpusBLEU(keep_sentences=True) or statistics, got {type(system).__name__}"
        )
    return system.kept_sentences()


def check_share(name: str, value: Any) -> None:
    """Raise an error unless the value is a number between 0 and 1."""
    if not isinstance(value, int | float) and not hasattr(value, "__float__"):
        raise TypeError(f"{name!r} must be a number between 0 and 1, got {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{name!r} must lie between 0 and 1, got {value!r}")


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return the value as an int; raise an error unless it is an integer from `least` to 2^24."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name!r} must be an integer of {least} or more, got {value!r}")
    if value > 2**24:  # a limit of torch.quantile
        raise ValueError(f"{name!r} must be at most {2**24:,}, got {value!r}")
    return operator.index(value)
