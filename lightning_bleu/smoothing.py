"""Smoothing: counts of n-gram matches → precisions, where an order without a match would make the score 0.

Each method is a pure function of a :class:`Counts` and a value, on floating-point tensors of any number of leading
dimensions, and returns precisions of shape ``(..., orders)``. :data:`SMOOTHINGS` maps names to them. They follow Chen
and Cherry (2014), "A Systematic Comparison of Smoothing Techniques for Sentence-Level BLEU"
(https://aclanthology.org/W14-3346), in the variants that sacreBLEU and NLTK made common.

What a score of precision 0 then means is not decided here: see :data:`lightning_bleu.score.ZERO_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Counts(NamedTuple):
    """What a smoothing looks at.

    Attributes:
        matches: floating point, shape ``(..., orders)``.
        possible_matches: of the same shape and type.
        hypothesis_length: of the same type, shape ``(...)``.
        next_precision: the precision of the order above the highest, shape ``(...)``, for the methods that look at it.
    """

    matches: Tensor
    possible_matches: Tensor
    hypothesis_length: Tensor
    next_precision: Tensor | None = None


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; 0 where the denominator is 0.

    Example:
        >>> divide(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0]))
        tensor([0.2500, 0.0000])
    """
    return (numerator / denominator).where(denominator != 0, 0)


def none(counts: Counts, value: float) -> Tensor:
    """No smoothing."""
    return divide(counts.matches, counts.possible_matches)


def floor(counts: Counts, value: float) -> Tensor:
    """Count `value` matches where there is none (method 1)."""
    return divide(counts.matches.where(counts.matches > 0, value), counts.possible_matches)


def add_k(counts: Counts, value: float) -> Tensor:
    """Add `value` to matches and possible matches of the orders above 1 (method 2; Lin and Och 2004)."""
    added = torch.full_like(counts.matches, value)
    added[..., 0] = 0
    return divide(counts.matches + added, counts.possible_matches + added)


def add_everywhere(counts: Counts, value: float) -> Tensor:
    """Add `value` to matches and possible matches of all orders."""
    return divide(counts.matches + value, counts.possible_matches + value)


def exp(counts: Counts, value: float) -> Tensor:
    """Halve the count for every order without a match: 1/2, 1/4, ... (method 3; mteval-v13a)."""
    missing = counts.matches == 0
    halved = 0.5 ** missing.to(counts.matches.dtype).cumsum(-1)
    return divide(counts.matches.where(~missing, halved), counts.possible_matches)


def tiny(counts: Counts, value: float) -> Tensor:
    """The smallest positive number as precision where there is no match (NLTK's method 0)."""
    return none(counts, value).where(counts.matches > 0, torch.finfo(counts.matches.dtype).tiny)


def shorter(counts: Counts, value: float) -> Tensor:
    """As :func:`exp`, with counts that grow with the logarithm of the length (method 4, as NLTK has it)."""
    missing = counts.matches == 0
    halved = 0.5 ** missing.to(counts.matches.dtype).cumsum(-1)
    smoothed = halved * counts.hypothesis_length.clamp(min=1).log()[..., None] / value
    return divide(counts.matches.where(~missing, smoothed), counts.possible_matches)


def average(counts: Counts, value: float) -> Tensor:
    """Average the precisions of orders n - 1 (already averaged), n and n + 1 (method 5)."""
    return _average(none(counts, value), counts)


def _average(precisions: Tensor, counts: Counts) -> Tensor:
    assert counts.next_precision is not None
    following = torch.cat([precisions[..., 1:], counts.next_precision[..., None]], -1)
    previous = precisions[..., 0] + 1
    averaged = []
    for n in range(precisions.shape[-1]):
        previous = (previous + precisions[..., n] + following[..., n]) / 3
        averaged.append(previous)
    return torch.stack(averaged, -1)


def interpolate(counts: Counts, value: float) -> Tensor:
    """Mix each precision above order 2 with what the two orders below let expect (method 6; Gao and He 2013)."""
    precisions = list(none(counts, value).unbind(-1))
    for n in range(2, len(precisions)):
        prior = divide(precisions[n - 1] ** 2, precisions[n - 2])
        possible = (counts.hypothesis_length - n).clamp(min=0)
        precisions[n] = (counts.matches[..., n] + value * prior) / (possible + value)
    return torch.stack(precisions, -1)


def shorter_average(counts: Counts, value: float) -> Tensor:
    """Method 4, then method 5 (method 7)."""
    return _average(shorter(counts, value), counts)


@dataclass(frozen=True)
class Smoothing:
    """A smoothing as :data:`SMOOTHINGS` lists it.

    Attributes:
        function: counts and value → precisions.
        value: the default of its value; None where it has none.
        sentences_only: whether it is defined for one sentence and not for the counts of a corpus.
        next_order: whether it looks at the order above ``max_order``.
    """

    function: Callable[[Counts, float], Tensor]
    value: float | None = None
    sentences_only: bool = False
    next_order: bool = False


SMOOTHINGS: dict[str, Smoothing] = {
    "none": Smoothing(none),
    "floor": Smoothing(floor, 0.1),
    "add-k": Smoothing(add_k, 1.0),
    "add-one": Smoothing(add_everywhere, 1.0),
    "exp": Smoothing(exp),
    "epsilon": Smoothing(add_everywhere, 1e-13),
    "method0": Smoothing(tiny),
    "method1": Smoothing(floor, 0.1),
    "method2": Smoothing(add_k, 1.0),
    "method3": Smoothing(exp),
    "method4": Smoothing(shorter, 5.0),
    "method5": Smoothing(average, sentences_only=True, next_order=True),
    "method6": Smoothing(interpolate, 5.0, sentences_only=True),
    "method7": Smoothing(shorter_average, 5.0, sentences_only=True, next_order=True),
}
"""Every smoothing by its name. ``epsilon`` is AllenNLP's; ``method0`` ... ``method7`` are NLTK's names."""
