"""Several processes: which one this is, and the one way in which they meet."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch.distributed as dist

S = TypeVar("S")
T = TypeVar("T")


def process_count() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def process_rank() -> int:
    """The rank of this process; 0 if there is only one."""
    return dist.get_rank() if process_count() > 1 else 0


def exchange(prepare: Callable[[], S], answer: Callable[[list[S]], T]) -> T:
    """Gather a value of each process in process 0, and give its answer to all of them. Collective.

    An error in one process is raised in all of them, so that none waits for a process that has stopped. What cannot be
    pickled is an error as well; an error that cannot be becomes a RuntimeError with its text.

    Args:
        prepare: returns the value of this process.
        answer: called in process 0 with the values of all processes, in the order of their ranks.

    Returns:
        what `answer` returned; in process 0 the object itself, and a copy in the others.

    Example:
        >>> exchange(lambda: 3, sum)
        3
    """
    if process_count() == 1:
        return answer([prepare()])
    own = _call(prepare)
    gathered: list[Any] = [b""] * process_count()
    dist.gather_object(own.pickled, gathered if process_rank() == 0 else None)
    if process_rank() == 0:
        answered = _call(lambda: answer([_open(own), *map(_open, map(_read, gathered[1:]))]))
    else:
        answered = _Outcome()
    sent = [answered.pickled]
    dist.broadcast_object_list(sent)
    if process_rank() > 0:
        answered = _read(sent[0])
    _open(own)  # first the error of this process, which has its traceback
    return cast(T, _open(answered))


def run_in_process_0(function: Callable[[], T]) -> T:
    """Call a function in process 0. All processes get what it returns, or raise its error. Collective."""
    return exchange(lambda: None, lambda _: function())


class _Outcome(NamedTuple):
    """What a function returned, or its error; and both as bytes."""

    value: Any = None
    error: Exception | None = None
    pickled: bytes = b""


def _call(function: Callable[[], Any]) -> _Outcome:
    """Call a function. What it returns must be picklable, or no process would hear of it."""
    try:
        value = function()
        return _Outcome(value, None, pickle.dumps((value, None)))
    except Exception as error:
        return _Outcome(None, error, pickle.dumps((None, _as_picklable(error))))


def _read(pickled: bytes) -> _Outcome:
    """The outcome in another process."""
    return _Outcome(*pickle.loads(pickled))


def _open(outcome: _Outcome) -> Any:
    """What a function has returned; its error is raised."""
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _as_picklable(error: Exception) -> Exception:
    """The error, or one with its text if it cannot be sent to other processes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        replacement = RuntimeError(f"{type(error).__name__}: {error}")
        replacement.__cause__ = error
        return replacement
    return error
