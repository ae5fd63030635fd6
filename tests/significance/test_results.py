from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lightning_bleu import (
    CorpusBLEU,
    approximate_randomization,
    block_scores,
    block_t_test,
    bootstrap_interval,
    paired_bootstrap,
)
from lightning_bleu.significance import BlockScores, BlockTest, Interval, PairedTest
from tests.helpers.systems import A, B, make_metric


def all_results(a: CorpusBLEU, b: CorpusBLEU) -> list[Any]:
    return [
        bootstrap_interval(a),
        paired_bootstrap(a, b),
        approximate_randomization(a, b),
        block_scores(a, 2),
        block_t_test(a, b, 2),
    ]


def test_results_cannot_be_changed_and_print_one_line() -> None:
    for result in all_results(make_metric(A), make_metric(B)):
        assert "\n" not in str(result)
        assert len(str(result)) < 120
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.percent = True
        hash(result)


def test_results_print_percent_whatever_the_unit_of_the_scores() -> None:
    in_unit = all_results(make_metric(A), make_metric(B))
    in_percent = all_results(make_metric(A, percent=True), make_metric(B, percent=True))
    for one, other in zip(in_unit, in_percent):
        assert str(one) == str(other)


def test_the_printed_lines_show_scores_and_p_values() -> None:
    interval = Interval(score=0.25, low=0.2, high=0.31, confidence=0.95, scores=(0.2, 0.31))
    assert str(interval) == "BLEU = 25.00 (95% interval 20.00 to 31.00, 2 resamples)"
    test = PairedTest("paired bootstrap", score_a=0.25, score_b=0.375, p_value=0.0123, trials=100)
    assert str(test) == "BLEU = 25.00 against 37.50: -12.50, p = 0.0123 (paired bootstrap, 100 trials)"
    blocks = BlockScores((0.25, 0.75)), BlockScores((0.125, 0.5))
    # The sample standard deviation of two numbers is their distance over the root of 2: 50 / 1.41421 = 35.36.
    assert str(blocks[0]) == "BLEU of 2 blocks: mean 50.00, standard deviation 35.36"
    # means 50 and 31.25
    assert str(BlockTest(*blocks, t=3.0, p_value=0.2)) == "mean difference +18.75 over 2 blocks, t = 3.00, p = 0.2000"


def test_an_interval_hides_the_scores_of_its_resamples_in_its_repr() -> None:
    interval = bootstrap_interval(make_metric(A))
    assert len(interval.scores) == 1000
    assert len(repr(interval)) < 200
    assert interval.half_width == (interval.high - interval.low) / 2
