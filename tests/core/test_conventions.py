from __future__ import annotations

import dataclasses

import pytest

from lightning_bleu import CONVENTIONS, Convention, corpus_bleu
from tests.helpers.systems import TINY, TWO_ORDERS_MISSING


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_all_conventions_agree_when_every_order_has_a_match_and_there_is_one_reference(convention: str) -> None:
    preds, target = [[1, 2, 3, 4, 5, 6, 7]], [[1, 2, 3, 4, 5, 9, 7]]
    expected = (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4)  # counted by hand; both are 7 ids long, so BP = 1
    assert corpus_bleu(preds, target, convention=convention).bleu == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("convention", "smoothing", "expected"),
    # By hand, from the counts of TWO_ORDERS_MISSING and the formula of each program.
    [
        ("papineni", None, 0.0),
        ("sacrebleu", None, (3 / 4 * 1 / 3 * 1 / (2 * 2) * 1 / (4 * 1)) ** (1 / 4)),
        ("nltk", None, (3 / 4 * 1 / 3) ** (1 / 4) * TINY ** (1 / 2)),
        ("gnmt", None, 0.0),
        ("gnmt", "epsilon", (3 / 4 * 1 / 3 * 1e-13 / (2 + 1e-13) * 1e-13 / (1 + 1e-13)) ** (1 / 4)),
        ("gnmt", "add-one", (4 / 5 * 2 / 4 * 1 / 3 * 1 / 2) ** (1 / 4)),
        ("evaluate", "add-one", (4 / 5 * 2 / 4 * 1 / 3 * 1 / 2) ** (1 / 4)),
        ("torchmetrics", None, 0.0),
        ("torchmetrics", "add-k", 0.0),
        ("fastai", None, 0.0),
        ("overlap", None, (3 / 4 * 1 / 3) ** (1 / 4)),
    ],
)
def test_each_convention_has_its_own_score_for_orders_without_a_match(
    convention: str, smoothing: str | None, expected: float
) -> None:
    score = corpus_bleu(*TWO_ORDERS_MISSING, convention=convention, smoothing=smoothing).bleu
    assert score == pytest.approx(expected, rel=1e-9, abs=1e-320)


def test_nltk_counts_at_least_one_possible_match_per_sentence_and_order() -> None:
    result = corpus_bleu([[1], [1, 2], []], [[1], [1, 2], [1]], convention="nltk")
    # 1 + 2 + 1 unigrams, 1 + 1 + 1 at the other orders
    assert result.possible_matches == (4, 3, 3, 3)


def test_a_convention_can_be_made_of_any_choices() -> None:
    own = Convention(tokenizer="none", lowercase=True, zero_rule="leave-out", min_possible_matches=2)
    result = corpus_bleu(["A B"], ["a c"], convention=own)
    assert result.possible_matches == (2, 2, 2, 2)
    # 1 of 2 unigrams matches; the orders without a match are skipped with their weight, and BP = 1
    assert result.bleu == pytest.approx((1 / 2) ** (1 / 4), abs=1e-12)
    most = Convention(min_possible_matches=2**31 - 1)  # as many as rows can hold
    assert corpus_bleu(["A B"] * 2, ["a c"] * 2, convention=most).possible_matches == (2**32 - 2,) * 4


def test_a_convention_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONVENTIONS["papineni"].lowercase = True  # type: ignore[misc]
