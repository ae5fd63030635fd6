"""The positions of sentences in their dataset, as the loaders of accelerate deal them.

:mod:`lightning_bleu.evaluation.positions` imports it when it meets such a loader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import data

from lightning_bleu.core.processes import process_count, process_rank
from lightning_bleu.evaluation.positions import Dealt, find_batches, length_of


def find_dealt(loader: Any, batch_idx: int) -> Dealt | None:
    """The items of a batch of a loader of accelerate; None if its order is unknown.

    In each round, every process gets the same number of items, in the order of the processes. The last round is filled
    up with items from the beginning.
    """
    if type(find_batches(loader)) is not data.BatchSampler:
        return None
    reads_in_process_0 = hasattr(loader, "slice_fn")
    if reads_in_process_0:
        return _find_dealt_by_dispatcher(loader, batch_idx)
    every_process_reads_all = hasattr(loader.dataset, "process_index")
    if every_process_reads_all:
        return _find_dealt_of_stream(loader, batch_idx)
    return _find_dealt_of_shard(loader, batch_idx)


def _find_dealt_by_dispatcher(loader: Any, batch_idx: int) -> Dealt:
    """The items of a batch that process 0 has read, and dealt to all processes."""
    processes, rank = (1, 0) if loader.submesh_tp else (process_count(), process_rank())
    size = find_batches(loader).batch_size
    if getattr(loader, "split_batches", False):
        size //= processes
    first = batch_idx * processes * size
    end: int = first + processes * size
    if loader.end_of_dataloader:
        size = -(-loader.remainder // processes)
        end = first + loader.remainder
    return Dealt(_number_items(first, size, rank), end)


def _find_dealt_of_stream(loader: Any, batch_idx: int) -> Dealt | None:
    """The items of a batch of an iterable dataset, of which each process takes its share."""
    shard = loader.dataset
    sampler = find_batches(loader)
    size = sampler.batch_size
    stream = shard.dataset
    item_count = length_of(sampler.sampler)
    if loader.num_workers <= 1:  # several would repeat more
        item_count = stream.count if isinstance(stream, CountedStream) else length_of(stream)
    if item_count is None:
        return None
    numbers = _number_items(batch_idx * shard.num_processes * size, size, shard.process_index)
    return _end_round(numbers, item_count, is_filled=getattr(shard, "even_batches", True))


def _find_dealt_of_shard(loader: Any, batch_idx: int) -> Dealt | None:
    """The items of a batch whose sampler gives each process a share of the batches."""
    shard = loader.batch_sampler
    sampler = find_batches(loader)
    processes = getattr(shard, "num_processes", 1)
    size = sampler.batch_size
    if getattr(shard, "split_batches", False):
        size //= processes
    item_count = length_of(sampler.sampler)
    if item_count is None:
        return None
    numbers = _number_items(batch_idx * processes * size, size, getattr(shard, "process_index", 0))
    return _end_round(numbers, item_count, is_filled=getattr(shard, "even_batches", False))


def _number_items(first: int, size: int, rank: int) -> Tensor:
    """The numbers of the items of a process in a round that begins at `first`, in which each process gets `size`."""
    start = first + rank * size
    return torch.arange(start, start + size, device="cpu")


def _end_round(numbers: Tensor, item_count: int, *, is_filled: bool) -> Dealt:
    """The items of a batch, of which the last round has none beyond the dataset unless it is filled up."""
    return Dealt(numbers if is_filled else numbers[numbers < item_count], item_count)


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
    if not hasattr(shard, "process_index") or loader.num_workers > 0:
        return
    if length_of(shard.dataset) is None and not isinstance(shard.dataset, CountedStream):
        shard.dataset = CountedStream(shard.dataset)
