"""Collectives; those of a metric are in test_distributed.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

import pytest
import torch

from lightning_bleu.processes import (
    gather_objects,
    gather_state,
    process_count,
    process_rank,
    run_in_process_0,
)
from tests.helpers.process_groups import ProcessPool, group_of_one


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(3)
    yield pool
    pool.close()


# One process


def test_one_process_gathers_what_it_has() -> None:
    rows = torch.tensor([[1, -2, 3, 4, 5], [5, 6, 7, 8, 2**31 - 1]], dtype=torch.int32)
    totals = torch.tensor([3, 2**40])
    with group_of_one():
        (sentences,) = gather_state(rows)
        (sums,) = gather_state(totals)
    assert torch.equal(sentences, rows)
    assert torch.equal(sums, totals)


def test_a_process_without_sentences_gathers_no_rows() -> None:
    with group_of_one():
        (sentences,) = gather_state(torch.tensor([]))  # what torchmetrics passes if a list state is empty
    assert (len(sentences), sentences.dtype) == (0, torch.int32)


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


def gather_shares(rank: int, world_size: int, cases: list[list[int]]) -> list[list[Any]]:
    """What a process gathers if each one has some rows, which are its number."""
    shares = [torch.full((case[rank], 5), rank, dtype=torch.int32) for case in cases]
    gathered = [gather_state(share if len(share) else torch.tensor([])) for share in shares]
    return [[share.tolist() for share in case] for case in gathered]


@pytest.mark.slow
def test_all_processes_gather_the_share_of_each(pool: ProcessPool) -> None:
    cases = [[2, 0, 3], [0, 0, 1], [0, 0, 0], [1, 1, 1]]
    expected = [[[[rank] * 5] * rows for rank, rows in enumerate(case)] for case in cases]
    assert pool.run(3, gather_shares, cases) == [expected] * 3
