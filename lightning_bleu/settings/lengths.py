"""Reference lengths: how to choose among the lengths of several references.

A rule is a cost function. The reference with the lowest cost is chosen; on a tie, the first one.
:data:`REFERENCE_LENGTHS` maps names to rules. They are plain arithmetic and work on both NumPy arrays and tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.reading.ragged import IntArray

Integers = TypeVar("Integers", IntArray, Tensor)


class LengthRule(Protocol):
    """The cost of choosing a reference, given its length and the length of the hypothesis."""

    def __call__(self, hypothesis: Integers, reference: Integers) -> Integers:
        """Compute nonnegative costs from the lengths of hypotheses and references, with broadcasting."""


def closest(hypothesis: Integers, reference: Integers) -> Integers:
    """Choose the closest length; on a tie, the shorter one (Papineni et al. 2002; sacreBLEU, NLTK).

    Example:
        >>> closest(torch.tensor(10), torch.tensor([7, 12, 8])).tolist()
        [6, 5, 4]
    """
    return 2 * abs(reference - hypothesis) + (reference > hypothesis)


def closest_first(hypothesis: Integers, reference: Integers) -> Integers:
    """Choose the closest length; on a tie, the first one (torchmetrics).

    Example:
        >>> closest_first(torch.tensor(10), torch.tensor([7, 12, 8])).tolist()
        [3, 2, 2]
    """
    return abs(reference - hypothesis)


def shortest(hypothesis: Integers, reference: Integers) -> Integers:
    """Choose the shortest reference, regardless of the hypothesis (the GNMT script, Hugging Face evaluate).

    Example:
        >>> shortest(torch.tensor(10), torch.tensor([7, 12, 8])).tolist()
        [7, 12, 8]
    """
    return reference


REFERENCE_LENGTHS: Mapping[str, LengthRule] = {
    "closest": closest,
    "closest-first": closest_first,
    "shortest": shortest,
}
"""Rules by name."""


def choose_ragged(rule: LengthRule, hypotheses: IntArray, references: IntArray, counts: IntArray) -> IntArray:
    """Choose the reference length of each sentence.

    Args:
        rule: one of :data:`REFERENCE_LENGTHS`.
        hypotheses: the lengths of the hypotheses, shape ``(sentences,)``.
        references: the lengths of all references, sentence by sentence.
        counts: the number of references of each sentence, at least 1, shape ``(sentences,)``.

    Example:
        >>> choose_ragged(closest, np.array([10, 4]), np.array([7, 12, 8, 9]), np.array([3, 1])).tolist()
        [8, 9]
    """
    if len(references) == len(hypotheses):
        return references
    # The index in the low part of the key breaks ties in favor of the first reference.
    index = np.arange(len(references))
    keys = rule(hypotheses.repeat(counts), references) * len(references) + index
    cheapest: IntArray = np.minimum.reduceat(keys, counts.cumsum() - counts)
    return references[cheapest % len(references)]


def choose_padded(rule: LengthRule, lengths: Tensor, missing: Tensor | None) -> Tensor:
    """Choose the reference length of each sentence, without waiting for the device.

    Args:
        rule: one of :data:`REFERENCE_LENGTHS`.
        lengths: of the hypothesis and the references of each sentence, shape ``(sentences, 1 + references)``.
        missing: True for references to ignore, unless all of a sentence are; booleans of the same shape; None for none.

    Example:
        >>> lengths, missing = torch.tensor([[10, 7, 12, 8]]), torch.tensor([[False, False, False, True]])
        >>> choose_padded(closest, lengths, missing).tolist()
        [12]
    """
    hypotheses, references = lengths[:, :1], lengths[:, 1:]
    if references.shape[1] == 1:
        return references[:, 0]
    costs = rule(hypotheses, references)
    if missing is not None:
        costs = torch.add(costs, missing[:, 1:], alpha=2**62)  # one kernel; `where` and `masked_fill` take two
    return references.gather(1, costs.argmin(1, keepdim=True))[:, 0]
