"""Collectives; those of states are in test_distributed.py."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, NoReturn

import pytest

from lightning_bleu.core.processes import exchange, process_count, process_rank, run_in_process_0
from tests.helpers.process_groups import ProcessPool

# One process


def test_a_process_without_a_group_is_the_only_one() -> None:
    assert (process_count(), process_rank()) == (1, 0)
    assert exchange(lambda: "own", list) == ["own"]
    assert run_in_process_0(lambda: "result") == "result"
    with pytest.raises(ValueError, match="wrong"):
        run_in_process_0(partial(fail, ValueError("wrong")))


# Several processes


class HasLock(Exception):
    """An error that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("locked")
        self.lock = threading.Lock()


class HasTwoArguments(Exception):
    """An error that can be pickled, but cannot be made from what was pickled."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} in {where}")


def fail(error: Exception) -> NoReturn:
    raise error


def fail_in(process: int, rank: int) -> None:
    if rank == process:
        raise ValueError(f"in process {process}")


def cannot_send(rank: int) -> Any:
    """A value of process 1 that cannot be pickled."""
    return threading.Lock() if rank == 1 else rank


def work(rank: int, world_size: int) -> tuple[tuple[int, int], list[str], list[int], str, list[str]]:
    """What the processes exchange, which process called the function, and errors."""
    calls: list[int] = []

    def function() -> str:
        calls.append(rank)
        return f"result of {rank}"

    result, errors = run_in_process_0(function), []
    fails: list[Any] = [OSError(28, "No space left"), HasLock(), HasTwoArguments("nothing", "here")]
    exchanges = [partial(run_in_process_0, partial(fail, error)) for error in fails]
    exchanges.append(partial(exchange, partial(fail_in, 2, rank), list))
    exchanges.append(partial(exchange, partial(cannot_send, rank), len))
    exchanges.append(partial(run_in_process_0, threading.Lock))
    for function_that_fails in exchanges:
        try:
            function_that_fails()
        except Exception as caught:
            errors.append(f"{type(caught).__name__}: {caught}")
    return (process_count(), process_rank()), exchange(lambda: f"value of {rank}", list), calls, result, errors


@pytest.mark.slow
def test_process_0_gets_all_values_and_all_get_its_answer_or_its_error(pool: ProcessPool) -> None:
    values = [f"value of {rank}" for rank in range(3)]
    errors = ["OSError: [Errno 28] No space left", "RuntimeError: HasLock: locked"]
    errors += ["RuntimeError: HasTwoArguments: nothing in here", "ValueError: in process 2"]
    errors += ["TypeError: cannot pickle '_thread.lock' object"] * 2
    for rank, found in enumerate(pool.run(3, work)):
        *rest, own_errors = found
        assert rest == [(3, rank), values, [0] * (rank == 0), "result of 0"]
        assert own_errors[0] == errors[0]
        assert [error.split(": ", 1)[-1] for error in own_errors] == [error.split(": ", 1)[-1] for error in errors] or (
            rank == 0  # its own error as it is
        )
        assert own_errors[3:] == errors[3:]
