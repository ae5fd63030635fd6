"""Batches that a metric has read but not counted yet.

Counting has a fixed cost, which dominates for a few sentences. So a metric collects small batches and counts them
together, when the next one does not fit or when its state is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, overload

import torch
from torch import Tensor

from lightning_bleu.reading.batch import Batch, merge_batches
from lightning_bleu.reading.ragged import RaggedBatch

T = TypeVar("T")

_MAX_SIZE = 2**14
"""The maximum number of tokens and segments to count together, about one chunk of
:mod:`lightning_bleu.counting.ngrams`."""
_LARGE = 5_000
"""Batches with more tokens and segments do not wait for others, because merging would cost as much as it saves."""


class PendingBatches:
    """Batches of one kind on the CPU, or a single batch on an accelerator. Their text is not kept.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.settings.settings import Settings
        >>> pending = PendingBatches()
        >>> for i in (5, 7):
        ...     pending.add(read_batch([[i]], [[i + 1]], Settings.from_options()), mask=None)
        >>> pending.merged().tokens.tokens.rows()
        [[5], [7], [6], [8]]
    """

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._masks: list[Tensor | None] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._batches)

    def fits(self, batch: Batch) -> bool:
        """Whether a batch can be counted together with those already here."""
        if not self._batches:
            return True
        is_alike = isinstance(batch.tokens, RaggedBatch) and batch.kind == self._batches[0].kind
        return is_alike and self._size + _size(batch) <= _MAX_SIZE

    def add(self, batch: Batch, mask: Tensor | None) -> None:
        """Add a batch that fits, and its sample mask, which is copied."""
        self._batches.append(Batch(batch.tokens, batch.kind, batch.reference_counts))
        self._masks.append(None if mask is None else mask.clone())
        self._size += _size(batch)

    def merged(self) -> Batch:
        """All batches as one."""
        return merge_batches(self._batches)

    @property
    def has_masks(self) -> bool:
        """Whether any batch has a sample mask."""
        return any(mask is not None for mask in self._masks)

    def split(self, statistics: Tensor) -> Iterable[tuple[Tensor, Tensor | None]]:
        """Split the statistics of the merged batch into those of each batch, as views, each with its sample mask."""
        return zip(torch.split(statistics, [batch.sentence_count for batch in self._batches]), self._masks)


def should_wait(batch: Batch) -> bool:
    """Whether it pays to count a batch together with others. On an accelerator, it does not."""
    return _size(batch) <= _LARGE


def _size(batch: Batch) -> int:
    """The tokens and segments of a batch, and one more, so that empty batches do not pile up."""
    if not isinstance(batch.tokens, RaggedBatch):
        return _MAX_SIZE
    ids, lengths, _ = batch.tokens.tokens
    return len(ids) + len(lengths) + 1


class HasPendingBatches(Protocol):
    """The part of a metric that :class:`CountedState` uses."""

    _pending: PendingBatches

    def _count_pending(self) -> None:
        """Count all pending batches."""


class CountedState(Generic[T]):
    """A state of a metric. Pending batches are counted before it is read or replaced."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, metric: None, owner: type) -> CountedState[T]: ...

    @overload
    def __get__(self, metric: HasPendingBatches, owner: type) -> T: ...

    def __get__(self, metric: HasPendingBatches | None, owner: type) -> CountedState[T] | T:
        if metric is None:
            return self
        if metric._pending:  # not in the eager function, so that compiled code can read the state
            try:
                metric._count_pending()
            except AttributeError as error:  # nn.Module would report that the state does not exist
                raise RuntimeError("pending batches cannot be counted") from error
        try:
            state: T = vars(metric)[self._name]
        except KeyError:
            raise AttributeError(self._name) from None
        return state

    def __set__(self, metric: HasPendingBatches, state: T) -> None:
        metric._count_pending()
        vars(metric)[self._name] = state
