"""The positions of sentences in their dataset, as the loaders of accelerate deal them.

:mod:`lightning_bleu.evaluation.input.positions` imports it when it meets such a loader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import data

from lightning_bleu.core.processes import process_count, process_rank
from lightning_bleu.evaluation.input.positions import Dealt, find_batches, length_of


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
    return _find_dealt_of_share(loader, batch_idx)


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


def _find_dealt_of_share(loader: Any, batch_idx: int) -> Dealt | None:
    """The items of a batch of a process that takes its share of an iterable dataset, or of the batches of a sampler."""
    sampler = find_batches(loader)
    size = sampler.batch_size
    item_count = length_of(sampler.sampler)
    every_process_reads_all = hasattr(loader.dataset, "process_index")
    share = loader.dataset if every_process_reads_all else loader.batch_sampler
    processes = getattr(share, "num_processes", 1)
    if every_process_reads_all and loader.num_workers <= 1:  # several would repeat more
        stream = share.dataset
        item_count = stream.count if isinstance(stream, CountedStream) else length_of(stream)
    elif not every_process_reads_all and getattr(share, "split_batches", False):
        size //= processes
    if item_count is None:
        return None
    numbers = _number_items(batch_idx * processes * size, size, getattr(share, "process_index", 0))
    is_filled = getattr(share, "even_batches", every_process_reads_all)
    return Dealt(numbers if is_filled else numbers[numbers < item_count], item_count)


def _number_items(first: int, size: int, rank: int) -> Tensor:
    """The numbers of the items of a process in a round that begins at `first`, in which each process gets `size`."""
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
    if not hasattr(shard, "process_index") or loader.num_workers > 0:
        return
    if length_of(shard.dataset) is None and not isinstance(shard.dataset, CountedStream):
        shard.dataset = CountedStream(shard.dataset)
