"""Several processes: one of them computes, the others receive its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Result = TypeVar("Result")


class Distributed(Protocol):
    """The part of a metric that says which processes share its state; see :class:`torchmetrics.Metric`."""

    process_group: Any
    _is_synced: bool

    @property
    def device(self) -> torch.device:
        """The device of the state."""

    def syncs_when_read(self) -> bool:
        """Whether reading the result is a collective operation."""


def compute_once(metric: Distributed, compute: Callable[[], Result]) -> Result:
    """Compute something from a synced metric in one process, and send the result to the others.

    All processes have the same state, so there is no need for all of them to spend the time. All of them must call
    this function. If the metric is not synced, each process computes for itself.

    Args:
        metric: the metric whose processes share the result.
        compute: computes the result, which must be picklable. If it raises an error that can be pickled, all processes
            raise it.
    """
    return _broadcast(metric, compute) if metric._is_synced and dist.is_initialized() else compute()


def compute_once_after_reading(systems: Sequence[Tensor | Distributed], compute: Callable[[], Result]) -> Result:
    """Compute something from systems that were just read, like :func:`compute_once`.

    If reading each of them was a collective operation, all processes have reached this call with the same sentences. If
    not, each process computes for itself. For example, bare statistics may exist in one process only, and reading a
    metric inside a ``sync_context`` is not collective. Inside a context, use :func:`compute_once` if all processes call
    it.
    """
    metrics = [system for system in systems if not isinstance(system, Tensor)]
    is_collective = len(metrics) == len(systems) and all(metric.syncs_when_read() for metric in metrics)
    return _broadcast(metrics[0], compute) if is_collective and dist.is_initialized() else compute()


def _broadcast(metric: Distributed, compute: Callable[[], Result]) -> Result:
    group = metric.process_group
    result: list[Result | Exception | None] = [None]
    if dist.get_rank(group) == 0:
        try:
            result = [compute()]
        except Exception as error:
            result = [error]
    source = 0 if group is None else dist.get_global_rank(group, 0)
    dist.broadcast_object_list(result, source, group, metric.device)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]  # type: ignore[return-value]
