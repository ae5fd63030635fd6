"""Sentences that several processes share: which of them are repeats, and how their counts are gathered in order.

PyTorch's :class:`~torch.utils.data.DistributedSampler`, which Lightning puts into every loader, gives all processes
equally many items and repeats the first ones where the set cannot be divided evenly. Local item j of process r out of W
stands for position j * W + r, and the positions at or past the end of the set are the repeats.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler


def distributed_mask(dataloader: Any, batch_idx: int) -> Tensor | None:
    """Tell the sentences of a batch from those that only fill up the share of a process.

    For the ``sample_mask`` of :meth:`lightning_bleu.CorpusBLEU.update`, in a ``validation_step`` or ``test_step``.

    Args:
        dataloader: the loader that the batch came from, as Lightning has prepared it: ``self.trainer.val_dataloaders``
            (or ``test_dataloaders``; with several loaders, the one at ``dataloader_idx``).
        batch_idx: the number of the batch in this process.

    Returns:
        booleans on the CPU, one for each item of the batch (a single one where the items of the set are batches, for a
        loader with ``batch_size=None``); None for a loader without a ``DistributedSampler``, or with
        one whose order it cannot know (a batch sampler other than PyTorch's own).

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> list(loader)
        [tensor([1, 3]), tensor([0])]
        >>> distributed_mask(loader, 0), distributed_mask(loader, 1)
        (tensor([True, True]), tensor([False]))
    """
    batches: Any = getattr(dataloader, "batch_sampler", None)
    if type(batches) not in (BatchSampler, type(None)):
        return None
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        return None
    size = 1 if batches is None else batches.batch_size
    local = torch.arange(batch_idx * size, min((batch_idx + 1) * size, len(sampler)), device="cpu")
    first_time: Tensor = local * sampler.num_replicas + sampler.rank < len(sampler.dataset)  # type: ignore[arg-type]
    return first_time


def pack_sentences(statistics: Tensor, mask: Tensor | None) -> Tensor:
    """Statistics as a metric keeps them, and processes gather them.

    Args:
        statistics: integers of shape ``(sentences, columns)``.
        mask: which of them count, booleans of shape ``(sentences,)`` or ``(1,)``, or None for all. One that is shorter
            than the batch says that the batch was dealt as a whole.

    Returns:
        32-bit integers of shape ``(sentences, 1 + columns)``. The first column is 1 where an item of the set begins,
        and a sentence that does not count has -1 in all others.
    """
    begins = torch.ones_like(statistics[:, :1])
    if mask is not None:
        statistics = statistics.where(mask[:, None], -1)
        if len(mask) < len(statistics):
            begins[1:] = 0
    return torch.cat([begins, statistics], 1).to(torch.int32)


def unpack_sentences(rows: Tensor) -> Tensor:
    """The statistics of the sentences that count.

    Example:
        >>> unpack_sentences(pack_sentences(torch.tensor([[3, 4], [1, 2]]), torch.tensor([True, False])))
        tensor([[3, 4]], dtype=torch.int32)
    """
    return rows[rows[:, 1] >= 0, 1:]


def gather(state: Tensor, group: Any = None) -> list[Tensor]:
    """Gather a state of :class:`lightning_bleu.CorpusBLEU`: the ``dist_sync_fn`` that it gives torchmetrics.

    Args:
        state: the sums, of shape ``(columns,)``, or packed sentences, of shape ``(sentences, columns)``; a process
            without sentences has an empty vector in their place.
        group: the processes; all by default.

    Returns:
        the sums of each process, or the sentences of all together, in the order in which a ``DistributedSampler`` has
        dealt them.
    """
    if state.ndim == 1 and len(state):
        return _gather_equal_shapes(state, group)
    shape = torch.tensor([len(state), state.shape[-1] if state.ndim == 2 else 0], device=state.device)
    shapes = [(int(sentences), int(columns)) for sentences, columns in _gather_equal_shapes(shape, group)]
    most, columns = map(max, zip(*shapes))
    if not most:
        return [torch.zeros(0, dtype=torch.int32, device=state.device)]
    padded = torch.zeros(most, columns, dtype=torch.int32, device=state.device)
    if len(state):
        padded[: len(state)] = state
    shares = [share[:sentences] for share, (sentences, _) in zip(_gather_equal_shapes(padded, group), shapes)]
    positions = [(share[:, 0].cumsum(0) - 1) * len(shares) + rank for rank, share in enumerate(shares)]
    return [torch.cat(shares)[torch.cat(positions).argsort(stable=True)]]


def _gather_equal_shapes(tensor: Tensor, group: Any) -> list[Tensor]:
    """One collective, where torchmetrics' default takes three."""
    gathered = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(gathered, tensor.contiguous(), group=group)
    return gathered
