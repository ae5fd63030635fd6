"""Per-sentence statistics: how a metric stores them, and how processes gather them in dataset order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pack_sentences(statistics: Tensor, mask: Tensor | None) -> Tensor:
    """Pack statistics for storage.

    Args:
        statistics: integers of shape ``(sentences, columns)``.
        mask: which sentences count, booleans of shape ``(sentences,)`` or ``(1,)``; None for all. If the mask is
            shorter than the batch, the batch is a single dataset item.

    Returns:
        int32 of shape ``(sentences, 1 + columns)``. The first column is 1 where a dataset item begins. The other
        columns are -1 for sentences that do not count.
    """
    begins_item = torch.ones_like(statistics[:, :1])
    if mask is not None:
        statistics = statistics.where(mask[:, None], -1)
        if len(mask) < len(statistics):
            begins_item[1:] = 0
    return torch.cat([begins_item, statistics], 1).to(torch.int32)


def unpack_sentences(rows: Tensor) -> Tensor:
    """The statistics of the sentences that count.

    Example:
        >>> unpack_sentences(pack_sentences(torch.tensor([[3, 4], [1, 2]]), torch.tensor([True, False])))
        tensor([[3, 4]], dtype=torch.int32)
    """
    counts = rows[:, 1] >= 0
    return rows[:, 1:] if counts.all() else rows[counts, 1:]  # without a mask, a view saves memory


def gather(state: Tensor, group: Any = None) -> list[Tensor]:
    """Gather a state of :class:`lightning_bleu.CorpusBLEU`. This is its ``dist_sync_fn`` for torchmetrics.

    PyTorch's :class:`~torch.utils.data.DistributedSampler` deals the items of a dataset to the processes in turn: local
    item j of process r out of W is at position j * W + r.

    Args:
        state: sums of shape ``(columns,)``, or packed sentences of shape ``(sentences, columns)``. For a process
            without sentences, torchmetrics passes an empty vector instead.
        group: the process group; all processes when None.

    Returns:
        the sums of each process, or a single tensor with the sentences of all processes in dataset order.
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
    """Gather with one collective; torchmetrics' default takes three."""
    gathered = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(gathered, tensor.contiguous(), group=group)
    return gathered


class SentencesNotKept(ValueError, AttributeError):
    """Per-sentence statistics were requested from a metric that keeps sums only."""
