"""Several processes: which one this is, and how they exchange sums, sentences, and objects."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")
_is_alone: ContextVar[bool] = ContextVar("is_alone", default=False)


def process_count() -> int:
    """The number of processes; 1 inside :func:`alone`."""
    if dist.is_available() and dist.is_initialized() and not _is_alone.get():
        return dist.get_world_size()
    return 1


@contextmanager
def alone() -> Iterator[None]:
    """Within this context, this process is the only one: nothing is exchanged, and nothing waits for the others.

    Example:
        >>> with alone():
        ...     gather_objects("mine")
        ['mine']
    """
    token = _is_alone.set(True)
    try:
        yield
    finally:
        _is_alone.reset(token)


def process_rank() -> int:
    """The rank of this process; 0 if there is only one."""
    return dist.get_rank() if process_count() > 1 else 0


def communication_device() -> str:
    """The device of tensors that processes exchange."""
    return "cuda" if process_count() > 1 and dist.get_backend() == "nccl" else "cpu"


def gather_rows(rows: Tensor) -> list[Tensor]:
    """The rows of each process, shape ``(rows, columns)``. Processes may have different numbers of them. Collective."""
    counts = [int(count) for count in _gather_equal_shapes(torch.tensor([len(rows)], device=rows.device))]
    padded = rows.new_zeros(max(counts), rows.shape[1])
    padded[: len(rows)] = rows
    return [gathered[:count] for gathered, count in zip(_gather_equal_shapes(padded), counts)]


def _gather_equal_shapes(tensor: Tensor) -> list[Tensor]:
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor)
    return gathered


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum of the tensors of all processes, on the CPU. Collective."""
    if process_count() == 1:
        return values
    total = values.to(communication_device())
    dist.all_reduce(total)
    return total.cpu()


def gather_objects(value: Any) -> list[Any]:
    """The values of all processes, in process 0; an empty list in the others. Collective."""
    if process_count() == 1:
        return [value]
    if process_rank() > 0:
        dist.gather_object(value)
        return []
    values: list[Any] = [None] * process_count()
    dist.gather_object(value, values)
    return values


def run_in_process_0(function: Callable[[], T]) -> T:
    """Call a function in process 0, and return its result in all processes. Collective.

    If the function raises an error, all processes raise it, so that none waits for a process that has stopped. (An
    error that cannot be pickled becomes a RuntimeError with its text.)
    """
    results = run_in_all(lambda: function() if process_rank() == 0 else None)
    return cast(T, results[0])


def run_in_all(function: Callable[[], T]) -> list[T]:
    """Call a function in every process, and return the results of all processes. Collective.

    If the function raises an error in one process, all processes raise it.
    """
    if process_count() == 1:
        return [function()]
    value, error = None, None
    try:
        value = function()
    except Exception as caught:
        error = _as_picklable(caught)
    outcomes: list[Any] = [None] * process_count()
    dist.all_gather_object(outcomes, (value, error))
    if error is not None:  # first, because it has its traceback
        raise error
    for _, error_elsewhere in outcomes:
        if error_elsewhere is not None:
            raise error_elsewhere
    return [value for value, _ in outcomes]


def _as_picklable(error: Exception) -> Exception:
    """The error, or one with its text if it cannot be sent to other processes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        replacement = RuntimeError(f"{type(error).__name__}: {error}")
        replacement.__cause__ = error
        return replacement
    return error
