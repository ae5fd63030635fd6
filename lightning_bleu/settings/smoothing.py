"""Smoothing: how to treat orders without a match.

Without smoothing, an order without a match makes the score 0. Each method is a pure function of :class:`Counts` and a
value (0 for methods that take none), works with any number of leading dimensions, and returns precisions of shape
``(..., orders)``. :data:`SMOOTHINGS` maps names to methods. They follow Chen and Cherry (2014), "A Systematic
Comparison of Smoothing Techniques for Sentence-Level BLEU" (https://aclanthology.org/W14-3346), as implemented in
sacreBLEU and NLTK.

The zero rules at the end of this module decide the score if a precision is still 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Counts(NamedTuple):
    """The inputs of a smoothing method, in floating point.

    Attributes:
        matches: shape ``(..., orders)``.
        possible_matches: shape ``(..., orders)``.
        hypothesis_length: shape ``(...)``.
        next_precision: the precision of order ``orders + 1``, shape ``(...)``, for methods that need it.
    """

    matches: Tensor
    possible_matches: Tensor
    hypothesis_length: Tensor
    next_precision: Tensor | None = None


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide elementwise; the result is 0 where the denominator is 0.

    Example:
        >>> divide(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0]))
        tensor([0.2500, 0.0000])
    """
    return (numerator / denominator).where(denominator != 0, 0)


def none(counts: Counts, value: float) -> Tensor:
    """No smoothing."""
    return divide(counts.matches, counts.possible_matches)


def floor(counts: Counts, value: float) -> Tensor:
    """Replace 0 matches with `value` (method 1)."""
    matches = counts.matches.where(counts.matches > 0, value)
    return divide(matches, counts.possible_matches)


def add_k(counts: Counts, value: float) -> Tensor:
    """Add `value` to the matches and possible matches of orders 2 and up (method 2; Lin and Och 2004)."""
    added = torch.full_like(counts.matches, value)
    added[..., 0] = 0
    return divide(counts.matches + added, counts.possible_matches + added)


def add_to_all(counts: Counts, value: float) -> Tensor:
    """Add `value` to the matches and possible matches of all orders (1 in GNMT, 1e-13 in AllenNLP)."""
    return divide(counts.matches + value, counts.possible_matches + value)


def exp(counts: Counts, value: float) -> Tensor:
    """Count 1/2, 1/4, ... matches at the first, second, ... order without a match (method 3; mteval-v13a)."""
    matches = counts.matches.where(counts.matches > 0, _halving_matches(counts))
    return divide(matches, counts.possible_matches)


def smallest(counts: Counts, value: float) -> Tensor:
    """Use the smallest positive float as the precision of orders without a match (NLTK's method 0)."""
    return none(counts, value).where(counts.matches > 0, torch.finfo(counts.matches.dtype).tiny)


def exp_by_length(counts: Counts, value: float) -> Tensor:
    """Like :func:`exp`, but scaled by the logarithm of the hypothesis length (method 4, as in NLTK)."""
    log_lengths = counts.hypothesis_length.clamp(min=1).log()[..., None]
    smoothed_matches = _halving_matches(counts) * log_lengths / value
    matches = counts.matches.where(counts.matches > 0, smoothed_matches)
    return divide(matches, counts.possible_matches)


def average(counts: Counts, value: float) -> Tensor:
    """Average the precisions of orders n - 1 (already averaged), n, and n + 1 (method 5)."""
    return _average(none(counts, value), counts)


def interpolate(counts: Counts, value: float) -> Tensor:
    """Interpolate each precision from order 3 up with a prior from the two lower orders (method 6; Gao and He 2013)."""
    precisions = list(none(counts, value).unbind(-1))
    for n in range(2, len(precisions)):
        prior = divide(precisions[n - 1] ** 2, precisions[n - 2])
        possible = (counts.hypothesis_length - n).clamp(min=0)
        precisions[n] = (counts.matches[..., n] + value * prior) / (possible + value)
    return torch.stack(precisions, -1)


def exp_by_length_average(counts: Counts, value: float) -> Tensor:
    """Apply method 4, then method 5 (method 7)."""
    return _average(exp_by_length(counts, value), counts)


def _halving_matches(counts: Counts) -> Tensor:
    """Matches to use instead of 0: 1/2 for the first order without a match, 1/4 for the second, and so on."""
    has_no_match = counts.matches == 0
    return 0.5 ** has_no_match.to(counts.matches.dtype).cumsum(-1)


def _average(precisions: Tensor, counts: Counts) -> Tensor:
    """Average each precision with the precisions of the order below (already averaged) and of the order above."""
    assert counts.next_precision is not None
    following = torch.cat([precisions[..., 1:], counts.next_precision[..., None]], -1)
    previous = precisions[..., 0] + 1
    averaged = []
    for n in range(precisions.shape[-1]):
        previous = (previous + precisions[..., n] + following[..., n]) / 3
        averaged.append(previous)
    return torch.stack(averaged, -1)


@dataclass(frozen=True)
class Smoothing:
    """A smoothing method.

    Attributes:
        function: ``(counts, value) -> precisions``.
        default: the default value; None if the method takes no value.
        divides: whether the method divides by the value, which then must not be 0.
        sentences_only: whether the method is defined only for single sentences, not for the counts of a corpus.
        needs_next_order: whether the method uses order ``max_order + 1``.
    """

    function: Callable[[Counts, float], Tensor]
    default: float | None = None
    divides: bool = False
    sentences_only: bool = False
    needs_next_order: bool = False


SMOOTHINGS: Mapping[str, Smoothing] = {
    "none": Smoothing(none),
    "floor": Smoothing(floor, 0.1),
    "add-k": Smoothing(add_k, 1.0),
    "add-one": Smoothing(add_to_all, 1.0),
    "exp": Smoothing(exp),
    "epsilon": Smoothing(add_to_all, 1e-13),
    "method0": Smoothing(smallest),
    "method1": Smoothing(floor, 0.1),
    "method2": Smoothing(add_k, 1.0),
    "method3": Smoothing(exp),
    "method4": Smoothing(exp_by_length, 5.0, divides=True),
    "method5": Smoothing(average, sentences_only=True, needs_next_order=True),
    "method6": Smoothing(interpolate, 5.0, divides=True, sentences_only=True),
    "method7": Smoothing(exp_by_length_average, 5.0, divides=True, sentences_only=True, needs_next_order=True),
}
"""Smoothings by name. ``epsilon`` is AllenNLP's; ``method0`` to ``method7`` are NLTK's names."""


def zero_if_a_precision_is_zero(matches: Tensor, precisions: Tensor) -> Tensor:
    """The score is 0 if any precision is 0."""
    return precisions.log()


def zero_if_nothing_matches(matches: Tensor, precisions: Tensor) -> Tensor:
    """The score is 0 if any precision is 0, or, despite smoothing, if no order has a match (sacreBLEU)."""
    has_matches = (matches > 0).any(-1, keepdim=True)
    return precisions.log().where(has_matches, -torch.inf)


def zero_if_an_order_has_no_match(matches: Tensor, precisions: Tensor) -> Tensor:
    """The score is 0, despite smoothing, if any order has no match (torchmetrics)."""
    have_matches = (matches > 0).all(-1, keepdim=True)
    return precisions.log().where(have_matches, -torch.inf)


def leave_zeros_out(matches: Tensor, precisions: Tensor) -> Tensor:
    """Orders with precision 0 are skipped without rescaling the weights; 0 if no order has a match (NLTK)."""
    has_matches = (matches > 0).any(-1, keepdim=True)
    return precisions.log().where(precisions > 0, 0).where(has_matches, -torch.inf)


ZERO_RULES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "no-match": zero_if_nothing_matches,
    "as-smoothed": zero_if_a_precision_is_zero,
    "every-order": zero_if_an_order_has_no_match,
    "leave-out": leave_zeros_out,
}
"""Zero rules by name: ``(matches, precisions) -> log precisions`` to average."""
