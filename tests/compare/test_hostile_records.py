"""Records that anybody may have written or changed, as in ``make fuzz``: the same ones each time."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.record import make_case


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.long)])
def test_no_record_ends_the_command_with_a_traceback(rounds: int) -> None:
    for seed in range(rounds):
        make_case(random.Random(seed)).check()
