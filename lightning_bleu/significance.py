"""Is a difference real? Paired tests of two systems that have a number per sentence, such as a COMET score.

They measure how much the difference depends on which sentences happen to be in the test set. For BLEU and chrF, see
:func:`lightning_bleu.compare.compare_systems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from lightning_bleu.core.messages import warn_user
from lightning_bleu.core.resampling import MIN_SENTENCES, PairedTest, bootstrap, describe_few_sentences, randomize
from lightning_bleu.core.scoring import RatioScorer

System: TypeAlias = Sequence[float] | Tensor
"""A number per sentence."""


def paired_bootstrap(
    a: System, b: System, resamples: int = 1000, seed: int = 0, *, confidence: float = 0.95
) -> PairedTest:
    """Test whether one system is better than another by drawing the same bootstrap resamples for both.

    Example:
        >>> paired_bootstrap([0.5, 0.75] * 20, [0.25, 0.75] * 20).difference
        0.125

    Args:
        a: a number per sentence, whose mean is the score of the system.
        b: the same for another system, with the same sentences in the same order.
        resamples: the number of bootstrap resamples (Koehn 2004, https://aclanthology.org/W04-3250).
        seed: the random seed.
        confidence: the confidence level, in 0..1, of the two-sided interval of the difference.

    Returns:
        the test. Its p-value is one-sided, and computed like that of sacreBLEU's ``--paired-bs``.

    Raises:
        TypeError, ValueError: for numbers that are not finite, for different numbers of sentences, fewer than two, and
            for options that are out of range.
    """
    rows_a, rows_b = _read_systems(a, b)
    if len(rows_a) < MIN_SENTENCES and not torch.equal(rows_a, rows_b):
        warn_user(describe_few_sentences(len(rows_a)))
    return bootstrap(rows_a, rows_b, RatioScorer("score"), confidence, resamples, seed)


def approximate_randomization(a: System, b: System, trials: int = 10_000, seed: int = 0) -> PairedTest:
    """Test whether one system is better than another by randomly exchanging translations between them.

    Args:
        a: a number per sentence, whose mean is the score of the system.
        b: the same for another system, with the same sentences in the same order.
        trials: the number of random exchanges (Riezler and Maxwell 2005, https://aclanthology.org/W05-0908).
        seed: the random seed.

    Returns:
        the test. Its p-value is two-sided, like that of sacreBLEU's ``--paired-ar``. It has no interval.

    Raises:
        TypeError, ValueError: see :func:`paired_bootstrap`.
    """
    rows_a, rows_b = _read_systems(a, b)
    return randomize(rows_a, rows_b, RatioScorer("score"), trials, seed)


def _read_systems(a: System, b: System) -> tuple[Tensor, Tensor]:
    """The rows of sentences that have a number each: the number, and a 1."""
    numbers_a = torch.as_tensor(a, dtype=torch.float64, device="cpu").detach()
    numbers_b = torch.as_tensor(b, dtype=torch.float64, device="cpu").detach()
    if numbers_a.ndim != 1 or numbers_a.shape != numbers_b.shape or len(numbers_a) < 2:
        raise ValueError(
            "both systems must have a number for each of the same sentences, at least two, got shapes "
            f"{tuple(numbers_a.shape)} and {tuple(numbers_b.shape)}"
        )
    if not numbers_a.isfinite().all() or not numbers_b.isfinite().all():
        raise ValueError("the numbers of sentences must be finite")
    ones = torch.ones_like(numbers_a)
    return torch.stack([numbers_a, ones], 1), torch.stack([numbers_b, ones], 1)
