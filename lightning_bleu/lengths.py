"""Which reference's length a hypothesis is compared with: hypothesis and reference lengths → one length a sentence.

Each rule takes integers of shape ``(sentences,)`` and ``(sentences, references)``, numpy or torch, and returns shape
``(sentences,)``. :data:`REFERENCE_LENGTHS` maps names to them. A reference that is not there (sentences of a batch may
have different numbers of them) has the length :data:`MISSING`, which no rule picks while there is another.
"""

from __future__ import annotations

from collections.abc import Callable

from lightning_bleu.ngrams import Array, arange, namespace

MISSING = 2**40
"""Stands for the length of a reference that is not there; far above any length, far below an overflow."""


def closest(hypothesis: Array, references: Array) -> Array:
    """The closest length, the shorter of two that are equally close (Papineni et al. 2002; sacreBLEU, NLTK).

    Example:
        >>> import torch
        >>> closest(torch.tensor([10, 10]), torch.tensor([[7, 12], [12, 8]])).tolist()
        [12, 8]
    """
    return _closest(hypothesis, references, prefer_shorter=True)


def closest_first(hypothesis: Array, references: Array) -> Array:
    """The closest length, the first of those that are equally close (torchmetrics).

    Example:
        >>> import torch
        >>> closest_first(torch.tensor([10, 10]), torch.tensor([[7, 12], [12, 8]])).tolist()
        [12, 12]
    """
    return _closest(hypothesis, references, prefer_shorter=False)


def _closest(hypothesis: Array, references: Array, *, prefer_shorter: bool) -> Array:
    """The smallest of numbers that hold, from high bits to low: distance, position, and which side the length is on."""
    xp = namespace(references)
    longer = references > hypothesis[:, None]
    distance = abs(references - hypothesis[:, None])
    count = 1 if prefer_shorter else references.shape[1]
    position = 0 if prefer_shorter else arange(count, references)
    best = xp.amin((distance * count + position) * 2 + longer, -1)
    distance = (best >> 1) // count
    return hypothesis + xp.where(best & 1 == 1, distance, -distance)


def shortest(hypothesis: Array, references: Array) -> Array:
    """The shortest length (the GNMT script, Hugging Face evaluate)."""
    return namespace(references).amin(references, -1)


REFERENCE_LENGTHS: dict[str, Callable[[Array, Array], Array]] = {
    "closest": closest,
    "closest-first": closest_first,
    "shortest": shortest,
}
"""Every rule by its name."""
