"""The positions of sentences in their dataset, as PyTorch's samplers deal them.

With several processes, samplers repeat sentences to give all processes the same number. Positions tell which
sentences are the same. They are derived from the sampler only if the step returns no ``index``. An item of the
dataset may be several sentences, which are numbered below it: all of a batch with one item, or the answers of a row
in Transformers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data

from lightning_bleu.core.forms import IntArray
from lightning_bleu.evaluation.accelerate_positions import accelerate_index, without_share

_SENTENCE_BITS = 31
"""How many bits of a derived position number the sentences of an item."""


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
    batches = without_share(getattr(dataloader, "batch_sampler", None))
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
        dataloader: the loader of the batch, as Lightning prepared it, such as ``self.trainer.val_dataloaders``. Of
            several loaders, the one at ``dataloader_idx``.
        batch_idx: the index of the batch in this process.

    Returns:
        integers on the CPU, one per item of the batch, to pass to :meth:`lightning_bleu.CorpusBLEU.update` as
        ``index``. With ``batch_size=None``, each dataset item is a batch, so there is a single integer: for its n
        sentences (at most 1,000), pass ``1000 * index + torch.arange(n)``. None if the order is unknown: without a
        ``DistributedSampler``, with a subclass that has its own ``__iter__``, with a custom batch sampler, or with
        ``in_order=False``.

    Notes:
        The positions are in the order of the sampler. If a ``collate_fn`` sorts or drops items, return the index of
        each item from the dataset instead.
    """
    batches = getattr(dataloader, "batch_sampler", None)
    if not getattr(dataloader, "in_order", True):
        return None
    if hasattr(dataloader, "gradient_state"):
        return accelerate_index(dataloader, batch_idx)
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
