from __future__ import annotations

import math

import pytest
import torch

from lightning_bleu import corpus_bleu
from lightning_bleu.core.conventions import ZERO_RULES, divide
from tests.helpers.systems import TINY, TWO_ORDERS_MISSING


@pytest.mark.parametrize(
    ("smoothing", "precisions"),
    # By hand, from the counts of TWO_ORDERS_MISSING and the formula of each method in Chen and Cherry (2014).
    [
        ("none", (3 / 4, 1 / 3, 0, 0)),
        ("floor", (3 / 4, 1 / 3, 0.1 / 2, 0.1 / 1)),
        ("add-k", (3 / 4, 2 / 4, 1 / 3, 1 / 2)),
        ("add-one", (4 / 5, 2 / 4, 1 / 3, 1 / 2)),
        ("exp", (3 / 4, 1 / 3, 1 / 4, 1 / 4)),
        ("epsilon", (3 / 4, 1 / 3, 0, 0)),
        ("method0", (3 / 4, 1 / 3, TINY, TINY)),
        ("method4", (3 / 4, 1 / 3, math.log(4) / (2 * 5) / 2, math.log(4) / (4 * 5))),
    ],
)
def test_each_smoothing_has_its_own_precision_for_orders_without_a_match(
    smoothing: str, precisions: tuple[float, ...]
) -> None:
    assert corpus_bleu(*TWO_ORDERS_MISSING, smoothing=smoothing).precisions == pytest.approx(precisions, abs=1e-12)


def test_the_smoothing_value_can_be_chosen() -> None:
    # 0.5 of 2 trigrams; (0 + 2) of (2 + 2) trigrams
    assert corpus_bleu(*TWO_ORDERS_MISSING, smoothing="floor", smoothing_value=0.5).precisions[2] == 0.25
    assert corpus_bleu(*TWO_ORDERS_MISSING, smoothing="add-k", smoothing_value=2).precisions[2] == 0.5


@pytest.mark.parametrize(
    ("rule", "some_matches", "no_match"),
    # The logarithms of precisions (1/2, 0.1, 0): first with matches (2, 0, 0), then with no match at all.
    [
        ("as-smoothed", (math.log(0.5), math.log(0.1), -math.inf), (math.log(0.5), math.log(0.1), -math.inf)),
        ("no-match", (math.log(0.5), math.log(0.1), -math.inf), (-math.inf,) * 3),
        ("every-order", (-math.inf,) * 3, (-math.inf,) * 3),
        ("leave-out", (math.log(0.5), math.log(0.1), 0), (-math.inf,) * 3),
    ],
)
def test_a_zero_rule_says_what_a_precision_of_zero_does_to_the_score(
    rule: str, some_matches: tuple[float, ...], no_match: tuple[float, ...]
) -> None:
    precisions = torch.tensor([[0.5, 0.1, 0.0], [0.5, 0.1, 0.0]], dtype=torch.float64)
    matches = torch.tensor([[2, 0, 0], [0, 0, 0]], dtype=torch.float64)
    logarithms = ZERO_RULES[rule](matches, precisions)
    assert logarithms[0].tolist() == pytest.approx(some_matches)
    assert logarithms[1].tolist() == pytest.approx(no_match)


def test_dividing_by_zero_gives_zero() -> None:
    assert divide(torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.0, 0.0, 4.0])).tolist() == [0, 0, 0.75]
