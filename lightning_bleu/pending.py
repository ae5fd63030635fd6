"""Batches that a metric has read but not counted yet.

Counting has a fixed cost, which for a few sentences is most of the cost. So a metric collects small batches, and counts
them together: when there are enough of them, or when its state is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from lightning_bleu.counting.batch import Batch, merge_batches
from lightning_bleu.counting.ragged import RaggedBatch

T = TypeVar("T")

_MAX_SIZE = 2**14
"""Tokens and segments to count together: about as many as :mod:`lightning_bleu.counting.ngrams` counts at once."""
_MAX_BATCH_SIZE = 5_000
"""Larger batches are not merged, because merging would cost as much as it saves."""


class PendingBatches:
    """Batches of one kind on the CPU, or a single batch on an accelerator.

    Example:
        >>> from lightning_bleu.counting.batch import read_batch
        >>> from lightning_bleu.scoring.settings import Settings
        >>> pending = PendingBatches()
        >>> for i in (5, 7):
        ...     pending.add(read_batch([[i]], [[i + 1]], Settings.from_options()), mask=None)
        >>> pending.merged().tokens.tokens.rows()
        [[5], [7], [6], [8]]
    """

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def fits(self, batch: Batch) -> bool:
        """Whether a batch can be counted together with those already here."""
        if not self._batches:
            return True
        is_alike = isinstance(batch.tokens, RaggedBatch) and batch.kind == self._batches[0].kind
        size = _size(batch)
        return is_alike and size <= _MAX_BATCH_SIZE and self._size + size <= _MAX_SIZE

    def add(self, batch: Batch, mask: Tensor | None) -> None:
        """Add a batch that fits, and its sample mask, which is copied."""
        self._batches.append(batch)
        self._masks.append(None if mask is None else mask.clone())
        self._size += _size(batch)

    def clear(self) -> None:
        """Remove all batches."""
        self._batches: list[Batch] = []
        self._masks: list[Tensor | None] = []
        self._size = 0

    def merged(self) -> Batch:
        """All batches as one."""
        return merge_batches(self._batches)

    @property
    def has_masks(self) -> bool:
        """Whether any batch has a sample mask."""
        return any(mask is not None for mask in self._masks)

    def split(self, statistics: Tensor) -> Iterable[tuple[Tensor, Tensor | None]]:
        """Split the statistics of the merged batch: those of each batch, and its sample mask."""
        return zip(torch.split(statistics, [batch.sentence_count for batch in self._batches]), self._masks)


def _size(batch: Batch) -> int:
    """The tokens and segments of a batch, and one more, so that empty batches do not pile up."""
    if not isinstance(batch.tokens, RaggedBatch):
        return _MAX_SIZE
    ids, lengths, _ = batch.tokens.tokens
    return len(ids) + len(lengths) + 1


class Counter(Protocol):
    """A metric with pending batches."""

    def _count_pending(self) -> None:
        """Count all pending batches."""


class CountedState(Generic[T]):
    """A state of a metric. Pending batches are counted before it is read or replaced."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, metric: Counter, owner: type) -> T:
        metric._count_pending()
        try:
            state: T = vars(metric)[self._name]
        except KeyError:
            raise AttributeError(self._name) from None
        return state

    def __set__(self, metric: Counter, state: T) -> None:
        metric._count_pending()
        vars(metric)[self._name] = state
