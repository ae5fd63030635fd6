"""Loaders: the positions of their sentences in the dataset, so that each sentence counts once."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils import data

from lightning_bleu.processes import process_count, process_rank
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.settings.settings import Settings

_SENTENCE_BITS = 31
"""How many bits of a derived position number the sentences of an item."""


class Origin(NamedTuple):
    """Where sentences come from, for error messages.

    Attributes:
        name: what returns them, or what they are passed to.
        got, give, to: the words for it.
        owner: the class whose options the user has set.
    """

    name: str
    got: str = "returned"
    give: str = "return"
    to: str = "from"
    owner: str = "Evaluator"


CALL = Origin("update", "got", "pass", "to")
"""Sentences that a training loop passes to :meth:`lightning_bleu.Evaluator.update`."""


class Positions(NamedTuple):
    """The positions of the sentences of a batch in their dataset.

    Attributes:
        values: shape ``(sentences,)``; None if they are unknown, or if nobody needs them.
        unknown: why repeated sentences cannot be found; empty if they can be.
    """

    values: IntArray | None
    unknown: str = ""


@dataclass(frozen=True, eq=False)
class Loader:
    """A loader of a validation: how to read and to identify its sentences.

    The position of a sentence in the dataset is the ``"index"`` that the step returns. Without one, several processes
    derive it from PyTorch's sampler, and a single process does not need it.

    Attributes:
        name: its name; empty if it has none.
        settings: how to read its sentences.
        dataloader: the loader itself; None if Lightning combines the batches of several.
        origin: where the sentences come from, for error messages.
        needed_by: the option that needs the order of the sentences, for error messages; empty if none does.
        labels: the labels of the groups that are scored; None for all sentences.
    """

    name: str
    settings: Settings
    dataloader: Any = None
    origin: Origin = CALL
    needed_by: str = ""
    labels: Collection[str] | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether none of its sentences is scored, so that nothing of it is read."""
        return self.labels is not None and not self.labels

    def find_positions(self, index: IntArray | None, batch_idx: int, sentence_count: int) -> Positions:
        """The positions of the sentences of a batch.

        Args:
            index: the positions that the step returned; None if it returned none.
            batch_idx: the index of the batch in this process.
            sentence_count: the number of sentences, at least one, with masked ones.

        Raises:
            ValueError: if the order of the sentences is needed and the loader shuffles.
        """
        if index is not None:
            return Positions(index)
        if self.needed_by and shuffles(self.dataloader):
            origin = self.origin
            raise ValueError(
                f"{self.needed_by} needs to know which sentence is which, but a loader shuffles them: {origin.give} "
                f"the position of each sentence in the dataset as 'index' {origin.to} {origin.name!r}, or set "
                "shuffle=False"
            )
        if process_count() == 1:
            return Positions(None)
        if self.dataloader is None:
            is_call = self.origin is CALL
            return Positions(None, "start() got no loader" if is_call else "its batches combine several loaders")
        items = distributed_index(self.dataloader, batch_idx)
        if items is None:
            return Positions(
                None,
                "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or "
                "in_order=False",
            )
        if not len(items):
            return Positions(None, "there were more batches than its loader has")
        if len(items) == sentence_count:
            return Positions(number_sentences(items.numpy(), np.arange(sentence_count)))
        rows = np.zeros(sentence_count, np.int64)  # all are of the first item
        is_single_item = len(items) == 1
        return Positions(
            number_sentences(items.numpy(), rows),
            "" if is_single_item else f"a batch of {len(items)} items became {sentence_count} sentences",
        )


def number_sentences(items: IntArray, rows: IntArray) -> IntArray:
    """The positions of sentences: that of the item of each, and below it, its number in its row.

    Args:
        items: the position of the item of each row of a batch.
        rows: the row of each sentence.

    Example:
        >>> positions = number_sentences(np.array([5, 9]), np.array([0, 0, 1]))
        >>> [divmod(position, 2**31) for position in positions.tolist()]
        [(5, 0), (5, 1), (9, 0)]
    """
    order = rows.argsort(kind="stable")
    in_order = rows[order]
    first_of_row = np.searchsorted(in_order, in_order)
    numbers = np.empty_like(rows)
    numbers[order] = np.arange(len(rows)) - first_of_row
    return (items[rows] << _SENTENCE_BITS) + numbers


def shuffles(dataloader: Any) -> bool:
    """Whether a loader is known to shuffle, or not to keep the order of its workers.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> shuffles(DataLoader(range(5), shuffle=True)), shuffles(DataLoader(range(5)))
        (True, False)
    """
    if not getattr(dataloader, "in_order", True) and dataloader.num_workers > 0:
        return True
    batches = _without_share(getattr(dataloader, "batch_sampler", None))
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if isinstance(sampler, data.BatchSampler):  # with batch_size=None
        sampler = sampler.sampler
    if isinstance(sampler, data.DistributedSampler) and _is_lightnings_wrapper(sampler):
        sampler = getattr(sampler.dataset, "_sampler", sampler)
    random = isinstance(sampler, data.RandomSampler | data.SubsetRandomSampler | data.WeightedRandomSampler)
    return random or bool(getattr(sampler, "shuffle", False))


def distributed_index(dataloader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch in their dataset, as PyTorch's distributed sampler deals them.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> list(loader)
        [tensor([1, 3]), tensor([0])]
        >>> distributed_index(loader, 0), distributed_index(loader, 1)
        (tensor([1, 3]), tensor([0]))

    Args:
        dataloader: the loader of the batch, as prepared by Lightning: ``self.trainer.val_dataloaders`` (or
            ``test_dataloaders``; with several loaders, the one at ``dataloader_idx``).
        batch_idx: the index of the batch in this process.

    Returns:
        integers on the CPU, one per item of the batch. A single value for a loader with ``batch_size=None``, where each
        dataset item is a batch (if it has n sentences, up to 1,000, ``1000 * index + torch.arange(n)`` are their
        positions). None if the order of the items is unknown: without a ``DistributedSampler``, with a subclass that
        has its own ``__iter__``, with a custom batch sampler, or with ``in_order=False``.

    Notes:
        :class:`~torch.utils.data.DistributedSampler`, which Lightning adds to every loader, gives all replicas the same
        number of items. If the dataset cannot be divided evenly, it repeats the first items. Local item j of replica r
        out of R is item (j * R + r) modulo the size of the dataset.

        The positions are those in the order of the sampler. They are wrong if a ``collate_fn`` reorders or drops items
        of a batch: return the index of each item from the dataset instead.

        In a ``validation_step`` or ``test_step``, pass the result to :meth:`lightning_bleu.CorpusBLEU.update` as
        ``index``.
    """
    batches = getattr(dataloader, "batch_sampler", None)
    if not getattr(dataloader, "in_order", True):
        return None
    if hasattr(dataloader, "gradient_state"):
        return _index_of_accelerate(dataloader, batch_idx)
    if type(batches) not in (data.BatchSampler, type(None)):
        return None
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if not isinstance(sampler, data.DistributedSampler):
        return None
    if not _is_lightnings_wrapper(sampler) and type(sampler).__iter__ is not data.DistributedSampler.__iter__:
        return None
    size = 1 if batches is None else batches.batch_size
    local = torch.arange(len(sampler), device="cpu")[batch_idx * size : (batch_idx + 1) * size]
    items: int = len(sampler.dataset)  # type: ignore[arg-type]
    return (local * sampler.num_replicas + sampler.rank) % items


def _is_lightnings_wrapper(sampler: Any) -> bool:
    """Whether this is Lightning's wrapper, which shards another sampler."""
    kind = type(sampler)
    return kind.__name__ == "DistributedSamplerWrapper" and kind.__module__.startswith("lightning")


def _without_share(batches: Any) -> Any:
    """The batch sampler itself, if accelerate gives each process a share of its batches."""
    return batches.batch_sampler if hasattr(batches, "process_index") else batches


def _index_of_accelerate(loader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch, in the order in which a loader of accelerate deals them.

    In each round, every process gets the same number of items, in the order of the processes. The last round is filled
    up with items from the beginning.
    """
    if type(_without_share(loader.batch_sampler)) is not data.BatchSampler:
        return None
    reads_in_process_0 = hasattr(loader, "slice_fn")
    if reads_in_process_0:
        return _index_of_dispatcher(loader, batch_idx)
    every_process_reads_all = hasattr(loader.dataset, "process_index")
    if every_process_reads_all:
        return _index_of_stream(loader, batch_idx)
    return _index_of_shard(loader, batch_idx)


def _index_of_dispatcher(loader: Any, batch_idx: int) -> Tensor:
    """The positions of the items of a batch that process 0 has read, and dealt to all processes."""
    processes, rank = (1, 0) if loader.submesh_tp else (process_count(), process_rank())
    size = _without_share(loader.batch_sampler).batch_size
    if getattr(loader, "split_batches", False):
        size //= processes
    first = batch_idx * processes * size
    end: int = first + processes * size
    if loader.end_of_dataloader:
        size = -(-loader.remainder // processes)
        end = first + loader.remainder
    index = _deal(first, size, rank)
    return index % max(end, 1)


def _index_of_stream(loader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch of an iterable dataset, of which each process takes its share."""
    shard = loader.dataset
    sampler = _without_share(loader.batch_sampler)
    size = sampler.batch_size
    stream = shard.dataset
    items = length_of(sampler.sampler)
    if loader.num_workers <= 1:  # several would repeat more
        items = stream.count if isinstance(stream, CountedStream) else length_of(stream)
    if items is None:
        return None
    index = _deal(batch_idx * shard.num_processes * size, size, shard.process_index)
    if getattr(shard, "even_batches", True):
        return index % max(items, 1)  # a stream without a length has no items before it is read
    return index[index < items]


def _index_of_shard(loader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch whose sampler gives each process a share of the batches."""
    shard = loader.batch_sampler
    sampler = _without_share(shard)
    processes = getattr(shard, "num_processes", 1)
    size = sampler.batch_size
    if getattr(shard, "split_batches", False):
        size //= processes
    items = length_of(sampler.sampler)
    if items is None:
        return None
    index = _deal(batch_idx * processes * size, size, getattr(shard, "process_index", 0))
    if getattr(shard, "even_batches", False):
        return index % max(items, 1)
    return index[index < items]  # the loader does not fill up the last round


def _deal(first: int, size: int, rank: int) -> Tensor:
    """The places of the items of a process in a round that begins at `first`, in which each process gets `size`."""
    start = first + rank * size
    return torch.arange(start, start + size, device="cpu")


class CountedStream(data.IterableDataset[Any]):
    """A dataset without a length that counts the items that were read."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.count = dataset, 0

    def __iter__(self) -> Iterator[Any]:
        self.count = 0
        for item in self.dataset:
            self.count += 1
            yield item

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self).get("dataset"), name)  # there is none while a copy is made


def count_stream(loader: Any) -> None:
    """Let a dataset without a length count its items, if accelerate lets every process read all of them."""
    shard: Any = getattr(loader, "dataset", None)
    if not (hasattr(loader, "gradient_state") and hasattr(shard, "process_index")) or loader.num_workers > 0:
        return
    if length_of(shard.dataset) is None and not isinstance(shard.dataset, CountedStream):
        shard.dataset = CountedStream(shard.dataset)


def length_of(items: Any) -> int | None:
    """The length of a dataset or a sampler; None if it has none."""
    with contextlib.suppress(TypeError, NotImplementedError):
        return len(items)
    return None
