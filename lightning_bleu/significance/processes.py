"""Several processes: one of them computes, the others receive its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist
from torchmetrics import Metric

Result = TypeVar("Result")


def compute_once(metric: Metric, compute: Callable[[], Result]) -> Result:
    """Compute something from a synced metric in one process, and send the result to the others.

    All processes have the same state, so there is no need for all of them to spend the time. All of them must call
    this function. If the metric is not synced, each process computes for itself.

    Args:
        metric: the metric whose processes share the result.
        compute: computes the result, which must be picklable. If it raises an error that
            can be pickled, all processes raise it.
    """
    if not metric._is_synced or not dist.is_initialized():
        return compute()
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
