"""Reference lengths: how to choose among the lengths of several references.

A rule is a cost function. The reference with the lowest cost is chosen; on a tie, the first one.
:data:`REFERENCE_LENGTHS` maps names to rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Lengths: TypeAlias = npt.NDArray[np.int64]
"""Numbers of tokens."""

LengthRule: TypeAlias = Callable[[Lengths, Lengths], Lengths]
"""The cost of choosing a reference, not negative, given the lengths of the hypothesis and the reference."""


def closest(hypothesis: Lengths, reference: Lengths) -> Lengths:
    """Choose the closest length; on a tie, the shorter one (Papineni et al. 2002; sacreBLEU, NLTK).

    Example:
        >>> closest(np.array(10), np.array([7, 12, 8])).tolist()
        [6, 5, 4]
    """
    return 2 * abs(reference - hypothesis) + (reference > hypothesis)


def closest_first(hypothesis: Lengths, reference: Lengths) -> Lengths:
    """Choose the closest length; on a tie, the first one (torchmetrics).

    Example:
        >>> closest_first(np.array(10), np.array([7, 12, 8])).tolist()
        [3, 2, 2]
    """
    return abs(reference - hypothesis)


def shortest(hypothesis: Lengths, reference: Lengths) -> Lengths:
    """Choose the shortest reference, regardless of the hypothesis (the GNMT script, Hugging Face evaluate).

    Example:
        >>> shortest(np.array(10), np.array([7, 12, 8])).tolist()
        [7, 12, 8]
    """
    return reference


REFERENCE_LENGTHS: Mapping[str, LengthRule] = {"closest": closest, "closest-first": closest_first, "shortest": shortest}
"""Rules by name."""
