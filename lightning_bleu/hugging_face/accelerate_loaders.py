"""The positions of sentences in their dataset, as the loaders of accelerate deal them.

:mod:`lightning_bleu.evaluation.input.positions` imports it when it meets such a loader.
"""

from __future__ import annotations

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
    """The items of a batch of a process that takes its share of the batches of a sampler; None for a stream."""
    sampler, share = find_batches(loader), loader.batch_sampler
    item_count = length_of(sampler.sampler)
    if item_count is None:
        return None
    processes = getattr(share, "num_processes", 1)
    size = sampler.batch_size
    if getattr(share, "split_batches", False):
        size //= processes
    numbers = _number_items(batch_idx * processes * size, size, getattr(share, "process_index", 0))
    is_filled = getattr(share, "even_batches", False)
    return Dealt(numbers if is_filled else numbers[numbers < item_count], item_count)


def _number_items(first: int, size: int, rank: int) -> Tensor:
    """The numbers of the items of a process in a round that begins at `first`, in which each process gets `size`."""
    start = first + rank * size
    return torch.arange(start, start + size, device="cpu")
