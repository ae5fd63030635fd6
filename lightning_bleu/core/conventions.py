"""What implementations of BLEU differ in, by name: reference lengths, smoothing, and zeros. Conventions choose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.tokens import Tokenizer


@dataclass(frozen=True)
class Convention:
    """The choices that make BLEU programs print different scores for the same text.

    Example:
        >>> from dataclasses import replace
        >>> from lightning_bleu import CONVENTIONS, corpus_bleu
        >>> strict = replace(CONVENTIONS["sacrebleu"], zero_rule="every-order")
        >>> corpus_bleu(["the cat sat down"], ["the cat lay down"], convention=strict).bleu
        0.0

    Attributes:
        tokenizer: for strings, a name from :data:`lightning_bleu.core.tokens.TOKENIZERS` or a callable that
            takes a line and returns its tokens.
        lowercase: whether strings are lowercased before they are tokenized.
        smoothing: a name from :data:`lightning_bleu.core.conventions.SMOOTHINGS`.
        smoothing_value: the value of the smoothing; None for its default.
        reference_length: a name from :data:`lightning_bleu.core.conventions.REFERENCE_LENGTHS`.
        effective_order: whether to skip the orders for which all hypotheses are too short.
        zero_rule: when the score is 0, a name from :data:`lightning_bleu.core.conventions.ZERO_RULES`.
        min_possible_matches: the minimum number of possible matches per sentence and order; smaller counts are raised
            to it.
    """

    tokenizer: Tokenizer = field(default="13a", hash=False)
    lowercase: bool = False
    smoothing: str = "none"
    smoothing_value: float | None = None
    reference_length: str = "closest"
    effective_order: bool = False
    zero_rule: str = "no-match"
    min_possible_matches: int = 0


CONVENTIONS: Mapping[str, Convention] = {
    # https://aclanthology.org/P02-1040
    "papineni": Convention(),
    # sacrebleu.metrics.BLEU
    "sacrebleu": Convention(smoothing="exp"),
    # nltk.translate.bleu_score.corpus_bleu with its default smoothing, method0
    "nltk": Convention(tokenizer="none", smoothing="method0", zero_rule="leave-out", min_possible_matches=1),
    # compute_bleu of the tensorflow/nmt scripts
    "gnmt": Convention(tokenizer="none", reference_length="shortest", zero_rule="as-smoothed"),
    # "bleu" of Hugging Face evaluate: gnmt with 13a
    "evaluate": Convention(reference_length="shortest", zero_rule="as-smoothed"),
    # torchmetrics.text.BLEUScore
    "torchmetrics": Convention(tokenizer="none", reference_length="closest-first", zero_rule="every-order"),
    # CorpusBLEUMetric of fastai's translation notebooks; fairseq.scoring.bleu, for which set unk_id as well
    "fastai": Convention(tokenizer="none", zero_rule="as-smoothed"),
    # Google's evaluation notebook
    "overlap": Convention(tokenizer="none", zero_rule="leave-out"),
}
"""Conventions by name. For programs that take a single reference, ``reference_length`` applies to several."""

LengthRule: TypeAlias = Callable[[IntArray, IntArray], IntArray]
"""The cost of choosing a reference, not negative, given the lengths of the hypothesis and the reference."""


def closest(hypothesis: IntArray, reference: IntArray) -> IntArray:
    """Choose the closest length; on a tie, the shorter one (Papineni et al. 2002; sacreBLEU, NLTK).

    Example:
        >>> import numpy as np
        >>> closest(np.array(10), np.array([7, 12, 8])).tolist()
        [6, 5, 4]
    """
    return 2 * abs(reference - hypothesis) + (reference > hypothesis)


def closest_first(hypothesis: IntArray, reference: IntArray) -> IntArray:
    """Choose the closest length; on a tie, the first one (torchmetrics).

    Example:
        >>> import numpy as np
        >>> closest_first(np.array(10), np.array([7, 12, 8])).tolist()
        [3, 2, 2]
    """
    return abs(reference - hypothesis)


def shortest(hypothesis: IntArray, reference: IntArray) -> IntArray:
    """Choose the shortest reference, regardless of the hypothesis (the GNMT script, Hugging Face evaluate).

    Example:
        >>> import numpy as np
        >>> shortest(np.array(10), np.array([7, 12, 8])).tolist()
        [7, 12, 8]
    """
    return reference


REFERENCE_LENGTHS: Mapping[str, LengthRule] = {"closest": closest, "closest-first": closest_first, "shortest": shortest}
"""Rules by name."""


class Statistics(NamedTuple):
    """The statistics that BLEU is computed from. The statistics of a corpus are the sums over its sentences.

    Attributes:
        matches: shape ``(..., orders)``.
        possible_matches: shape ``(..., orders)``.
        hypothesis_length: shape ``(...)``.
        reference_length: shape ``(...)``.
    """

    matches: Tensor
    possible_matches: Tensor
    hypothesis_length: Tensor
    reference_length: Tensor

    @classmethod
    def unpack(cls, vector: Tensor) -> Statistics:
        """Split vectors of shape ``(..., 2 * orders + 2)``.

        Example:
            >>> Statistics.unpack(torch.tensor([5, 4, 7, 6, 7, 7])).possible_matches.tolist()
            [7, 6]
        """
        orders = vector.shape[-1] // 2 - 1
        return cls(vector[..., :orders], vector[..., orders:-2], vector[..., -2], vector[..., -1])


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide elementwise; the result is 0 where the denominator is 0.

    Example:
        >>> divide(torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0]))
        tensor([0.2500, 0.0000])
    """
    return (numerator / denominator).where(denominator != 0, 0)


def none(counts: Statistics, value: float) -> Tensor:
    """No smoothing."""
    return divide(counts.matches, counts.possible_matches)


def floor(counts: Statistics, value: float) -> Tensor:
    """Replace 0 matches with `value` (method 1)."""
    matches = counts.matches.where(counts.matches > 0, value)
    return divide(matches, counts.possible_matches)


def add_k(counts: Statistics, value: float) -> Tensor:
    """Add `value` to the matches and possible matches of orders 2 and up (method 2; Lin and Och 2004)."""
    added = torch.full_like(counts.matches, value)
    added[..., 0] = 0
    return divide(counts.matches + added, counts.possible_matches + added)


def add_to_all(counts: Statistics, value: float) -> Tensor:
    """Add `value` to the matches and possible matches of all orders (1 in GNMT, 1e-13 in AllenNLP)."""
    return divide(counts.matches + value, counts.possible_matches + value)


def exp(counts: Statistics, value: float) -> Tensor:
    """Count 1/2, 1/4, ... matches at the first, second, ... order without a match (method 3; mteval-v13a)."""
    matches = counts.matches.where(counts.matches > 0, _halving_matches(counts))
    return divide(matches, counts.possible_matches)


def smallest(counts: Statistics, value: float) -> Tensor:
    """Use the smallest positive float as the precision of orders without a match (NLTK's method 0)."""
    tiny = torch.finfo(counts.matches.dtype).tiny
    return none(counts, value).where(counts.matches > 0, tiny)


def exp_by_length(counts: Statistics, value: float) -> Tensor:
    """Like :func:`exp`, but scaled by the logarithm of the hypothesis length (method 4, as in NLTK)."""
    log_lengths = counts.hypothesis_length.clamp(min=1).log()[..., None]
    smoothed_matches = _halving_matches(counts) * log_lengths / value
    matches = counts.matches.where(counts.matches > 0, smoothed_matches)
    return divide(matches, counts.possible_matches)


def _halving_matches(counts: Statistics) -> Tensor:
    """Matches to use instead of 0: 1/2 for the first order without a match, 1/4 for the second, and so on."""
    has_no_match = counts.matches == 0
    return 0.5 ** has_no_match.to(counts.matches.dtype).cumsum(-1)


@dataclass(frozen=True)
class Smoothing:
    """A smoothing method.

    Attributes:
        function: ``(counts, value) -> precisions``.
        default: the default value; None if the method takes no value.
        divides: whether the method divides by the value, which then must not be 0.
    """

    function: Callable[[Statistics, float], Tensor]
    default: float | None = None
    divides: bool = False


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
}
"""Smoothings by name. ``epsilon`` is AllenNLP's; ``method0`` to ``method4`` are NLTK's names."""


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
    without_zeros = precisions.log().where(precisions > 0, 0)
    return without_zeros.where(has_matches, -torch.inf)


ZERO_RULES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "no-match": zero_if_nothing_matches,
    "as-smoothed": zero_if_a_precision_is_zero,
    "every-order": zero_if_an_order_has_no_match,
    "leave-out": leave_zeros_out,
}
"""Zero rules by name: ``(matches, precisions) -> log precisions`` to average."""
