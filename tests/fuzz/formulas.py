"""Reference lengths and scores under any options, in plain Python, one sentence and one order at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_TINY = 2.0**-1022
"""The smallest normal float."""


class Rules(NamedTuple):
    """How to score.

    Attributes:
        smoothing: a name from :data:`lightning_bleu.core.conventions.SMOOTHINGS`.
        value: the value of the smoothing.
        zero_rule: a name from :data:`lightning_bleu.core.conventions.ZERO_RULES`.
        weights: one per order.
        effective_order: whether to skip the orders for which the hypothesis is too short.
    """

    smoothing: str
    value: float
    zero_rule: str
    weights: Sequence[float]
    effective_order: bool


def choose_length(rule: str, hypothesis: int, references: list[int]) -> int:
    """The reference length by a rule of :data:`lightning_bleu.core.conventions.REFERENCE_LENGTHS`."""
    if rule == "shortest":
        return min(references)
    return min(references, key=lambda length: (abs(length - hypothesis), length if rule == "closest" else 0))


def slow_bleu(matches: list[int], possible: list[int], hypothesis: int, reference: int, rules: Rules) -> float:
    """The score in 0..1.

    Args:
        matches: of each order.
        possible: the possible matches, likewise.
        hypothesis: the length of the hypothesis.
        reference: the length of the reference.
        rules: how to score.
    """
    orders = len(rules.weights)
    precisions = smooth(matches, possible, hypothesis, rules.smoothing, rules.value)
    weights = list(rules.weights)
    if rules.effective_order:
        usable = 0
        while usable < orders and (possible[usable] or precisions[usable]):
            usable += 1
        weights = [weight / (sum(weights[:usable]) or 1) for weight in weights[:usable]]
    if not any(weights):
        return 0.0
    if hypothesis == 0 or (rules.zero_rule in ("no-match", "leave-out") and not any(matches)):
        return 0.0
    if rules.zero_rule == "every-order" and not all(matches):
        return 0.0
    logarithm = 0.0
    for weight, precision in zip(weights, precisions):
        if weight == 0 or (precision == 0 and rules.zero_rule == "leave-out"):
            continue
        if precision == 0:
            return 0.0
        logarithm += weight * math.log(precision)
    penalty = 1.0 if hypothesis >= reference else math.exp(1 - reference / hypothesis)
    return penalty * math.exp(logarithm)


def smooth(matches: list[int], possible: list[int], hypothesis: int, smoothing: str, value: float) -> list[float]:
    """The precision of each order, as Chen and Cherry (2014) number the methods."""
    precisions = []
    halving = 1.0
    for n, (m, p) in enumerate(zip(matches, possible), 1):
        numerator: float = m
        if smoothing in ("add-one", "epsilon") or (smoothing in ("add-k", "method2") and n > 1):
            precisions.append((m + value) / (p + value) if p + value else 0.0)
            continue
        if m == 0 and smoothing in ("floor", "method1"):
            numerator = value
        if m == 0 and smoothing in ("exp", "method3", "method4"):
            halving /= 2
            numerator = halving
            if smoothing == "method4":
                numerator *= math.log(hypothesis) / value if hypothesis else 0.0
        if m == 0 and smoothing == "method0":
            precisions.append(_TINY)
        else:
            precisions.append(numerator / p if p else 0.0)
    return precisions
