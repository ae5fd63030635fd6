"""Which reference's length a hypothesis is compared with: hypothesis and reference lengths → one length a sentence.

Each rule takes integers of shape ``(sentences,)`` and ``(sentences, references)``, numpy or torch, and returns shape
``(sentences,)``. :data:`REFERENCE_LENGTHS` maps names to them. A reference that is not there (sentences of a batch may
have different numbers of them) has the length :data:`MISSING`, which no rule picks while there is another.
"""

from __future__ import annotations

from collections.abc import Callable

from lightning_bleu.arrays import Array, arange, namespace

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
    distance = abs(references - hypothesis[:, None])
    if prefer_shorter:
        distance = 2 * distance + (references > hypothesis[:, None])
    # of several that are equally close, the first
    return references[arange(0, len(references), references), distance.argmin(-1)]


def shortest(hypothesis: Array, references: Array) -> Array:
    """The shortest length (the GNMT script, Hugging Face evaluate)."""
    return namespace(references).amin(references, -1)


REFERENCE_LENGTHS: dict[str, Callable[[Array, Array], Array]] = {
    "closest": closest,
    "closest-first": closest_first,
    "shortest": shortest,
}
"""Every rule by its name."""
