"""When a difference is clear: the interval, the p-value, and the number of resamples."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.core.significance import (
    PairedTest,
    Verdict,
    default_resamples,
    holm,
    judge,
    max_p_value,
    resamples_needed,
)
from tests.helpers.resampling import count_rows, run_paired_test


def make_test(p_value: float, low: float, high: float, *, difference: float = 0.25, trials: int = 1000) -> PairedTest:
    """A paired bootstrap with this result."""
    score_a, score_b = 0.5 + difference, 0.5
    return PairedTest(score_a, score_b, p_value, trials, low=low, high=high, confidence=0.95)


# The p-value and the number of resamples


@pytest.mark.parametrize(
    ("confidence", "expected"), [(0.95, 0.025), (0.9, 0.05), (0.99, 0.005), (0.999, 0.0005), (0.5, 0.25)]
)
def test_the_largest_p_value_is_exact(confidence: float, expected: float) -> None:
    """In binary, (1 - 0.95) / 2 is more than 0.025, so that p = 0.025 would be below it."""
    assert max_p_value(confidence) == expected


@given(st.integers(1, 9_999), st.integers(1, 30))
def test_the_resamples_needed_are_the_fewest_whose_smallest_p_value_is_clear(level: int, systems: int) -> None:
    """The smallest p-value of n resamples is 1 / (n + 1), and the adjusted one is that times the number of systems."""
    tail = (1 - Fraction(level, 10_000)) / 2
    needed = resamples_needed(level / 10_000, systems)
    assert Fraction(systems, needed + 1) < tail <= Fraction(systems, needed)


@pytest.mark.parametrize(
    ("confidence", "systems", "expected"),
    [
        (0.95, 1, 1000),  # 20 / 0.05 = 400, and at least 1,000
        (0.98, 1, 1000),  # 20 / 0.02, exactly
        (0.99, 1, 2000),
        (0.999, 1, 20_000),
        (0.99, 3, 6000),
        (0.97, 2, 1334),  # 40 / 0.03 = 1333.3
    ],
)
def test_the_default_number_of_resamples_is_exact(confidence: float, systems: int, expected: int) -> None:
    """In binary, 20 / (1 - 0.999) is more than 20,000."""
    assert default_resamples(confidence, systems) == expected


@given(st.integers(1, 9_999), st.integers(1, 30))
def test_the_default_is_at_least_ten_times_what_is_needed(level: int, systems: int) -> None:
    confidence = level / 10_000
    assert default_resamples(confidence, systems) >= max(1000, 10 * resamples_needed(confidence, systems))


# The verdict


@pytest.mark.parametrize(
    ("p_value", "low", "high", "note"),
    [
        (0.025, 0.1, 0.4, "the interval excludes 0, but p = 0.0250 is not below 0.025"),
        (0.5, -0.4, -0.1, "the interval excludes 0, but p = 0.5000 is not below 0.025"),
        (0.024, -0.1, 0.4, "p = 0.0240 is below 0.025, but the interval includes 0"),
        (0.024, 1e-16, 0.4, "p = 0.0240 is below 0.025, but the interval includes 0"),  # 0, but for rounding
        (0.024, -0.4, 0.0, "p = 0.0240 is below 0.025, but the interval includes 0"),
        (0.024, math.nan, math.nan, "p = 0.0240 is below 0.025, but the interval includes 0"),
        (0.5, -0.1, 0.4, ""),
    ],
)
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_one_of_the_two_conditions_is_not_enough(p_value: float, low: float, high: float, note: str, sign: int) -> None:
    assert judge(make_test(p_value, low, high), sign, 0.95) == Verdict("unclear", note)


@pytest.mark.parametrize(
    ("sign", "difference", "word"),
    [
        (1, 0.25, "better"),
        (1, -0.25, "worse"),
        (-1, 0.25, "worse"),
        (-1, -0.25, "better"),
        (0, 0.25, "higher"),
        (0, -0.25, "lower"),
    ],
)
def test_a_clear_difference_is_named_in_the_direction_of_the_score(sign: int, difference: float, word: str) -> None:
    ends = sorted([difference / 2, 2 * difference])
    assert judge(make_test(0.024, *ends, difference=difference), sign, 0.95) == Verdict(word)


def test_an_adjusted_p_value_replaces_that_of_the_test() -> None:
    test = make_test(0.001, 0.1, 0.4)
    assert judge(test, 1, 0.95, p_value=0.024, systems=3).word == "better"
    adjusted = judge(test, 1, 0.95, p_value=0.026, systems=3)
    assert adjusted == Verdict("unclear", "the interval excludes 0, but p = 0.0260 is not below 0.025")
    assert judge(make_test(0.5, 0.1, 0.4), 1, 0.95, p_value=0.0).word == "better"  # 0 is a p-value, too


@pytest.mark.parametrize(
    ("confidence", "systems", "trials", "note"),
    [
        (0.95, 1, 39, "39 resamples are too few to show a clear difference: use at least 40"),
        (0.999, 1, 1000, "1,000 resamples are too few to show a clear difference: use at least 2,000"),
        (0.95, 30, 1000, "1,000 resamples are too few to show a clear difference: use at least 1,200"),
    ],
)
def test_too_few_resamples_show_nothing_and_one_more_is_enough(
    confidence: float, systems: int, trials: int, note: str
) -> None:
    test = make_test(0.0, 0.1, 0.4, trials=trials)
    assert judge(test, 1, confidence, systems=systems) == Verdict("unclear", note)
    enough = make_test(0.0, 0.1, 0.4, trials=resamples_needed(confidence, systems))
    assert judge(enough, 1, confidence, systems=systems) == Verdict("better")


def test_the_fewest_resamples_show_the_largest_difference() -> None:
    """As a real test finds it, whose p-value is then as small as can be."""
    target = ["a b c d e"] * 50
    good, bad = count_rows(target, target), count_rows(["a b c x y"] * 50, target)
    for resamples, word in ((39, "unclear"), (40, "better")):
        assert judge(run_paired_test(good, bad, resamples=resamples), 1, 0.95).word == word


# Several systems


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(values: list[float]) -> None:
    """The procedure as Holm describes it, at levels at and around each adjusted p-value."""
    adjusted = holm({str(number): value for number, value in enumerate(values)})
    for level in [*adjusted.values(), 0.01, 0.05, 0.5]:
        rejected = set()
        remaining = sorted(range(len(values)), key=values.__getitem__)
        while remaining and min(1.0, len(remaining) * values[remaining[0]]) <= level:
            rejected.add(str(remaining.pop(0)))
        assert rejected == {name for name, value in adjusted.items() if value <= level}


def test_holm_keeps_the_order_of_the_names() -> None:
    for values in itertools.permutations([0.01, 0.02, 0.5]):
        assert [*holm(dict(zip("abc", values)))] == ["a", "b", "c"]
    assert holm({}) == {}
