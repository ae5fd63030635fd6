from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from lightning_bleu import CONVENTIONS, BLEUScore, corpus_bleu
from lightning_bleu.scoring.score import Statistics, score
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.scoring.smoothing import SMOOTHINGS
from tests.reference import bleu

# 3 of 4 unigrams and 1 of 3 bigrams match, none of 2 trigrams and none of 1 four-gram.
TWO_ORDERS_MISSING = ([[1, 2, 8, 4]], [[1, 2, 3, 4]])

OPTIONS: list[dict[str, Any]] = [
    *({"convention": name} for name in CONVENTIONS),
    *({"smoothing": name} for name in SMOOTHINGS),
    {"effective_order": True},
    {"weights": (0.5, 0.5, 0, 0)},
]


def test_weights_are_the_exponents_of_the_precisions() -> None:
    result = corpus_bleu(*TWO_ORDERS_MISSING, weights=(0.5, 0.5, 0, 0))
    assert result.bleu == pytest.approx((3 / 4 * 1 / 3) ** 0.5, abs=1e-12)


def test_a_vector_of_statistics_is_matches_possible_matches_and_lengths() -> None:
    vector = torch.tensor([[5, 4, 7, 6, 7, 8], [1, 0, 2, 1, 2, 3]])
    matches, possible_matches, hypothesis_length, reference_length = Statistics.unpack(vector)
    assert matches.tolist() == [[5, 4], [1, 0]]
    assert possible_matches.tolist() == [[7, 6], [2, 1]]
    assert hypothesis_length.tolist() == [7, 2]
    assert reference_length.tolist() == [8, 3]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_many_corpora_score_at_once_as_they_score_alone(options: dict[str, Any]) -> None:
    settings = Settings.from_options(**options)
    orders = 4 + settings.smoothing_method.needs_next_order
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(0, 9, (6, 5, 1), generator=generator)
    possible_matches = (lengths - torch.arange(orders)).clamp(min=0)
    matches = (possible_matches * torch.rand(6, 5, orders, generator=generator)).long()
    statistics = torch.cat([matches, possible_matches, lengths, lengths + 1], -1)
    scores = score(statistics, settings)
    assert (scores.bleu.shape, scores.precisions.shape, scores.brevity_penalty.shape) == ((6, 5), (6, 5, 4), (6, 5))
    for row in range(6):
        for column in range(5):
            alone = score(statistics[row, column], settings)
            assert torch.equal(alone.bleu, scores.bleu[row, column])
            assert torch.equal(alone.precisions, scores.precisions[row, column])
            assert torch.equal(alone.brevity_penalty, scores.brevity_penalty[row, column])


@pytest.mark.parametrize(
    ("hypothesis_length", "reference_length", "expected"),
    # BP = 1 if c > r, else exp(1 - r / c): Papineni et al. (2002), section 2.2.2
    [(10, 9, 1.0), (10, 10, 1.0), (9, 10, math.exp(1 - 10 / 9)), (1, 4, math.exp(-3)), (0, 4, 0.0), (0, 0, 0.0)],
)
def test_only_a_corpus_that_is_too_short_pays_a_brevity_penalty(
    hypothesis_length: int, reference_length: int, expected: float
) -> None:
    statistics = torch.tensor([1, 1, 1, 1, hypothesis_length, reference_length])
    result = score(statistics, Settings.from_options(max_order=2))
    assert result.brevity_penalty.item() == pytest.approx(expected, abs=1e-15)


def test_the_effective_order_skips_orders_for_which_all_hypotheses_are_too_short() -> None:
    statistics = torch.tensor([3, 1, 0, 0, 4, 2, 0, 0, 4, 4])  # two hypotheses of two tokens, counted to order 4
    assert score(statistics, Settings.from_options()).bleu == 0
    # The two orders that remain share the weights: (3/4 * 1/2) ** (1/2).
    effective = score(statistics, Settings.from_options(effective_order=True)).bleu
    assert effective.item() == pytest.approx(bleu([3, 1, 4, 2, 4, 4]), abs=1e-12)


def test_large_counts_are_divided_in_double_precision() -> None:
    # A single wrong unigram of 2 ** 40 vanishes in 32-bit floating point, whose numbers have 24 binary digits.
    count = 2**40
    result = score(torch.tensor([count - 1, count, count, count]), Settings.from_options(max_order=1))
    assert result.bleu.dtype == torch.float64
    assert result.bleu.item() == 1 - 2**-40


def test_the_parts_of_a_score_are_plain_numbers() -> None:
    result = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none")
    # 4 of 5, 3 of 4, 2 of 3, and 1 of 2 n-grams match
    assert result.matches == (4, 3, 2, 1)
    assert result.possible_matches == (5, 4, 3, 2)
    assert result.precisions == pytest.approx((4 / 5, 3 / 4, 2 / 3, 1 / 2))
    assert (result.hypothesis_length, result.reference_length) == (5, 6)
    assert result.length_ratio == 5 / 6
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 6 / 5))
    assert result.bleu == pytest.approx(math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    assert float(result) == result.bleu
    for value in dataclasses.astuple(result):
        assert type(value) in (int, float, bool, str, tuple)


@pytest.mark.parametrize("percent", [False, True])
def test_a_score_prints_as_sacrebleu_prints_it_in_either_unit(percent: bool) -> None:
    result = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none", percent=percent)
    # exp(1 - 6/5) * (4/5 * 3/4 * 2/3 * 1/2) ** (1/4) = 0.5475; the other numbers as in the test above
    assert str(result) == "BLEU = 54.75 80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)"


def test_the_length_ratio_without_references_is_0() -> None:
    assert corpus_bleu(["a b"], [""]).length_ratio == 0
    assert corpus_bleu([], []).length_ratio == 0


def test_a_score_cannot_be_changed() -> None:
    result = corpus_bleu(["a"], ["a"])
    assert isinstance(result, BLEUScore)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.bleu = 1.0  # type: ignore[misc]
