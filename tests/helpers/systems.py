"""Small corpora."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")

TWO_ORDERS_MISSING = ([[1, 2, 8, 4]], [[1, 2, 3, 4]])
"""3 of 4 unigrams and 1 of 3 bigrams match, none of 2 trigrams and none of 1 four-gram."""
TINY = 2.2250738585072014e-308
"""The smallest positive normal double, which NLTK's method 0 puts in place of 0: 2 ** -1022."""

# Two systems that translate the same four sentences.
TARGET = ["a b c d e f", "a b c d", "g h i j k l m", "a b c d e"]
A = ["a b c d e f", "a b c e", "g h i j k l", "a b c d e"]
B = ["a b c d f e", "a b c d", "g h i x k l m", "a b x d e"]

DEFAULTS: dict[str, Any] = {"tokenizer": "none", "smoothing": "exp"}
"""How the systems are scored: four words have few matches of order 4, so smoothing keeps scores above 0."""


def pick(items: Sequence[Item], indices: Iterable[int]) -> list[Item]:
    """The items at some indices."""
    return [items[index] for index in indices]
