"""Several processes: which sentences their samplers repeat or shuffle, and how process 0 receives the others' text."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def shuffles(dataloader: Any) -> bool:
    """Whether a loader is known to shuffle.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> shuffles(DataLoader(range(5), shuffle=True)), shuffles(DataLoader(range(5)))
        (True, False)
    """
    batches = getattr(dataloader, "batch_sampler", None)
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if isinstance(sampler, DistributedSampler) and _is_lightnings_wrapper(sampler):
        sampler = getattr(sampler.dataset, "_sampler", sampler)
    random = isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler)
    return random or bool(getattr(sampler, "shuffle", False))


def distributed_mask(dataloader: Any, batch_idx: int) -> Tensor | None:
    """Mark which sentences of a batch are not repeats added by a distributed sampler.

    PyTorch's :class:`~torch.utils.data.DistributedSampler`, which Lightning adds to every loader, gives all processes
    the same number of items. If the dataset cannot be divided evenly, it repeats the first items. Local item j of
    process r out of W is at position j * W + r, and positions at or past the end of the dataset are repeats.

    The mask is for items in the order of the sampler. It is wrong if a ``collate_fn`` reorders or drops items of a
    batch, which cannot be detected.

    In a ``validation_step`` or ``test_step``, pass the result to :meth:`lightning_bleu.CorpusBLEU.update` as
    ``sample_mask``.

    Args:
        dataloader: the loader of the batch, as prepared by Lightning: ``self.trainer.val_dataloaders`` (or
            ``test_dataloaders``; with several loaders, the one at ``dataloader_idx``).
        batch_idx: the index of the batch in this process.

    Returns:
        booleans on the CPU, one per item of the batch, True for items that count. A single value for a loader with
        ``batch_size=None``, where each dataset item is a batch. None if the order of the items is unknown: without a
        ``DistributedSampler``, with a subclass that has its own ``__iter__``, or with a custom batch sampler.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> list(loader)
        [tensor([1, 3]), tensor([0])]
        >>> distributed_mask(loader, 0), distributed_mask(loader, 1)
        (tensor([True, True]), tensor([False]))
    """
    batches = getattr(dataloader, "batch_sampler", None)
    if type(batches) not in (BatchSampler, type(None)):
        return None
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if not isinstance(sampler, DistributedSampler) or not _deals_in_turn(sampler):
        return None
    size = 1 if batches is None else batches.batch_size
    local = torch.arange(batch_idx * size, min((batch_idx + 1) * size, len(sampler)), device="cpu")
    first_time: Tensor = local * sampler.num_replicas + sampler.rank < len(sampler.dataset)  # type: ignore[arg-type]
    return first_time


def _deals_in_turn(sampler: DistributedSampler[Any]) -> bool:
    """Whether a sampler gives position j * W + r of the dataset to process r out of W as its item j."""
    return _is_lightnings_wrapper(sampler) or type(sampler).__iter__ is DistributedSampler.__iter__


def _is_lightnings_wrapper(sampler: Any) -> bool:
    """Whether a sampler deals what another sampler draws, as Lightning makes it do with several processes."""
    kind = type(sampler)
    return kind.__name__ == "DistributedSamplerWrapper" and kind.__module__.startswith("lightning")


def process_count() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def process_rank() -> int:
    """The number of this process."""
    return dist.get_rank() if process_count() > 1 else 0


def gather_objects(value: Any) -> list[Any]:
    """The values of all processes, in process 0; an empty list in the others."""
    if process_count() == 1:
        return [value]
    gathered = [None] * process_count() if process_rank() == 0 else None
    dist.gather_object(value, gathered)
    return gathered or []
