"""When a difference between two systems is clear: one rule, wherever systems or validations are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from lightning_bleu.core.resampling import PairedTest

_MIN_RESAMPLES = 1000


class Verdict(NamedTuple):
    """Whether a system is better than another one.

    Attributes:
        word: ``"better"``, ``"worse"``, or ``"unclear"``; ``"higher"`` or ``"lower"`` for a score of which neither is
            better.
        note: why it is unclear, if the interval or the p-value alone would show a difference, or if there are too few
            resamples; else empty.
    """

    word: str
    note: str = ""


def max_p_value(confidence: float) -> float:
    """The one-sided p-value below which a difference can be clear.

    Example:
        >>> max_p_value(0.95)
        0.025
    """
    return float(_tail(confidence))


def _tail(confidence: float) -> Fraction:
    """The share of resamples beyond each end of an interval, exactly: in binary, 1 - 0.95 is more than 0.05."""
    return (1 - Fraction(str(float(confidence)))) / 2


def resamples_needed(confidence: float, systems: int = 1) -> int:
    """The smallest number of resamples that can show a clear difference.

    The smallest p-value is 1 / (resamples + 1), and adjusting multiplies it by the number of systems.

    Args:
        confidence: the confidence level.
        systems: the number of systems that are compared with the baseline.

    Example:
        >>> resamples_needed(0.95), resamples_needed(0.95, systems=3)
        (40, 120)
    """
    return math.floor(systems / _tail(confidence))


def default_resamples(confidence: float, systems: int = 1) -> int:
    """The number of resamples of a comparison: ten times as many as are needed, and at least 1,000.

    Args:
        confidence: the confidence level.
        systems: the number of systems that are compared with the baseline.

    Example:
        >>> default_resamples(0.95), default_resamples(0.99), default_resamples(0.95, systems=5)
        (1000, 2000, 2000)
    """
    return max(_MIN_RESAMPLES, math.ceil(10 * systems / _tail(confidence)))


def judge(test: PairedTest, sign: int, confidence: float, *, p_value: float | None = None, systems: int = 1) -> Verdict:
    """Whether the first system of a paired bootstrap is better than the second.

    It is clearly better or worse if two things hold: the interval of the difference excludes 0, and the one-sided
    p-value is below (1 - confidence) / 2.

    Args:
        test: the test.
        sign: 1 if a higher score is better, -1 if a lower one is, and 0 if neither is.
        confidence: the confidence level.
        p_value: the p-value of the test, adjusted for the number of systems; as it is when None.
        systems: the number of systems that are compared with the baseline.
    """
    p_value = test.p_value if p_value is None else p_value
    needed = resamples_needed(confidence, systems)
    if test.trials < needed:
        return Verdict(
            "unclear", f"{test.trials:,} resamples are too few to show a clear difference: use at least {needed:,}"
        )
    largest = max_p_value(confidence)
    is_significant = p_value < largest
    excludes_0 = test.low > 0 or test.high < 0
    if is_significant and excludes_0:
        if sign == 0:
            return Verdict("higher" if test.difference > 0 else "lower")
        return Verdict("better" if sign * test.difference > 0 else "worse")
    if is_significant:
        return Verdict("unclear", f"p = {p_value:.4f} is below {largest:g}, but the interval includes 0")
    if excludes_0:
        return Verdict("unclear", f"the interval excludes 0, but p = {p_value:.4f} is not below {largest:g}")
    return Verdict("unclear")


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for their number, so that all of them together hold the level of a single one.

    Follows Holm (1979), https://www.jstor.org/stable/4615733: the smallest p-value is multiplied by their number, the
    next one by their number less 1, and so on, without changing their order.

    Args:
        p_values: the p-values by name.

    Returns:
        the adjusted ones, at most 1.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        factor = len(p_values) - rank
        largest = max(largest, min(1.0, factor * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
