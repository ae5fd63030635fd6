"""Collectives; those of states are in test_distributed.py."""

from __future__ import annotations

import threading
from functools import partial
from typing import NoReturn

import pytest

from lightning_bleu.core.processes import gather_objects, process_count, process_rank, run_in_process_0
from tests.helpers.process_groups import ProcessPool

# One process


def test_a_process_without_a_group_is_the_only_one() -> None:
    assert (process_count(), process_rank()) == (1, 0)
    assert gather_objects("own") == ["own"]
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


def work(rank: int, world_size: int) -> tuple[tuple[int, int], list[str], list[int], str, list[str]]:
    """All collectives but those of states: what they return, which process called the function, and its errors."""
    calls: list[int] = []

    def function() -> str:
        calls.append(rank)
        return f"result of {rank}"

    result, errors = run_in_process_0(function), []
    for error in (OSError(28, "No space left"), HasLock(), HasTwoArguments("nothing", "here")):
        try:
            run_in_process_0(partial(fail, error))
        except Exception as caught:
            errors.append(f"{type(caught).__name__}: {caught}")
    return (process_count(), process_rank()), gather_objects(f"value of {rank}"), calls, result, errors


@pytest.mark.slow
def test_process_0_works_for_all_and_all_get_its_result_or_its_error(pool: ProcessPool) -> None:
    values = [f"value of {rank}" for rank in range(3)]
    errors = ["OSError: [Errno 28] No space left", "RuntimeError: HasLock: locked"]
    errors.append("RuntimeError: HasTwoArguments: nothing in here")
    for rank, found in enumerate(pool.run(3, work)):
        called = rank == 0
        assert found == ((3, rank), values * called, [0] * called, "result of 0", errors)
