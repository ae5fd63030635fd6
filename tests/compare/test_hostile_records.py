"""Records that anybody may have written or changed, as in ``make fuzz``: the same ones each time, and all cuts."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.record import edit_record, make_case, read_record


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [12, pytest.param(300, marks=pytest.mark.long)])
def test_no_record_ends_the_command_with_a_traceback(rounds: int) -> None:
    content = read_record()
    for seed in range(rounds):
        make_case(edit_record(content, random.Random(seed))).check()
    first = content.index(b"\n") + 1
    for cut in range(first, first + 700, 7 if rounds > 100 else 140):
        make_case(content[:cut]).check()
