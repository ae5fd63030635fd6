"""BLEU from statistics. Scores under all options: tests/fuzz/scores.py."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU as SacreBLEU

from lightning_bleu import CONVENTIONS, corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEUScorer, BLEUSettings, compute_bleu, count_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.core.conventions import SMOOTHINGS
from tests.helpers.corpora import random_text
from tests.reference import bleu


@pytest.mark.parametrize(
    ("hypothesis_length", "reference_length", "expected"),
    # BP = 1 if c > r, else exp(1 - r / c): Papineni et al. (2002), section 2.2.2
    # The paper does not say what it is where both are 0; sacreBLEU says 1.
    [(10, 9, 1.0), (10, 10, 1.0), (9, 10, math.exp(1 - 10 / 9)), (1, 4, math.exp(-3)), (0, 4, 0.0), (0, 0, 1.0)],
)
def test_only_a_corpus_that_is_too_short_pays_a_brevity_penalty(
    hypothesis_length: int, reference_length: int, expected: float
) -> None:
    statistics = torch.tensor([1, 1, 1, 1, hypothesis_length, reference_length])
    result = compute_bleu(statistics, BLEUSettings.from_options(max_order=2))
    assert result.brevity_penalty.item() == pytest.approx(expected, abs=1e-15)


def test_the_effective_order_skips_orders_for_which_all_hypotheses_are_too_short() -> None:
    statistics = torch.tensor([3, 1, 0, 0, 4, 2, 0, 0, 4, 4])  # two hypotheses of two tokens, counted to order 4
    assert compute_bleu(statistics, BLEUSettings.from_options()).bleu == 0
    # The two orders that remain share the weights: (3/4 * 1/2) ** (1/2).
    effective = compute_bleu(statistics, BLEUSettings.from_options(effective_order=True)).bleu
    assert effective.item() == pytest.approx(bleu([3, 1, 4, 2, 4, 4]), abs=1e-12)


def test_large_counts_are_divided_in_double_precision() -> None:
    # A single wrong unigram of 2 ** 40 vanishes in 32-bit floating point, whose numbers have 24 binary digits.
    count = 2**40
    result = compute_bleu(torch.tensor([count - 1, count, count, count]), BLEUSettings.from_options(max_order=1))
    assert result.bleu.dtype == torch.float64
    assert result.bleu.item() == 1 - 2**-40


def test_a_report_has_the_parts_of_the_score() -> None:
    result = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none")
    # 4 of 5, 3 of 4, 2 of 3, and 1 of 2 n-grams match
    assert (result.matches, result.possible_matches) == ((4, 3, 2, 1), (5, 4, 3, 2))
    assert result.precisions == pytest.approx((4 / 5, 3 / 4, 2 / 3, 1 / 2))
    assert (result.hypothesis_length, result.reference_length, result.length_ratio) == (5, 6, 5 / 6)
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 6 / 5))
    assert result.bleu == pytest.approx(math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    assert str(result) == "BLEU = 54.75 80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)"
    assert corpus_bleu(["a b"], [""]).length_ratio == corpus_bleu([], []).length_ratio == 0


@pytest.mark.parametrize("convention", list(CONVENTIONS))
def test_without_a_match_zeros_are_reported_as_in_sacrebleu_only_where_it_is_followed(convention: str) -> None:
    settings = BLEUSettings.from_options(convention=convention, smoothing="exp")
    is_sacrebleu = settings.zero_rule == "no-match"
    result = compute_bleu(torch.tensor([0, 0, 3, 2, 3, 3]), replace(settings, max_order=2, weights=(0.5, 0.5)))
    # sacreBLEU prints zeros; the others print what "exp" makes of no match of 3 and of 2: 1/2 / 3 and 1/4 / 2
    expected = [0, 0] if is_sacrebleu else [1 / 6, 1 / 8]
    assert result.precisions.tolist() == pytest.approx(expected, abs=1e-15)
    nothing = compute_bleu(torch.zeros(10, dtype=torch.int64), settings)
    assert (nothing.bleu.item(), nothing.brevity_penalty.item()) == (0, is_sacrebleu)


def test_the_score_is_0_if_no_order_with_a_weight_can_be_used() -> None:
    options: dict[str, Any] = {"weights": (0, 0, 0, 1), "effective_order": True}
    assert sentence_bleu(["a b", "a b c d"], ["a b", "a b c d"], **options).tolist() == [0, 1]


# Sentence BLEU


@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_a_sentence_scores_in_a_batch_what_it_scores_alone(smoothing: str, effective_order: bool) -> None:
    """To the last bit."""
    preds = [[1, 2, 3, 4, 5, 6], [1, 2, 9, 9], [7], []]
    target = [[[1, 2, 3, 4, 6], [2, 3]], [[1, 2, 3, 9]], [[7]], [[1]]]
    options: Any = {"smoothing": smoothing, "effective_order": effective_order}
    scores = sentence_bleu(preds, target, **options)
    assert sentence_bleu([], [], **options).shape == (0,)
    for found, hypothesis, references in zip(scores, preds, target, strict=True):
        assert found == sentence_bleu([hypothesis], [references], **options)[0]
        assert found == corpus_bleu([hypothesis], [references], **options).bleu


@pytest.mark.parametrize(
    "options",
    [
        *({"max_order": max_order} for max_order in (1, 2, 4, 6)),
        {"percent": True},
        {"smoothing": "floor", "smoothing_value": 0.5},
        # The others of nltk are counted in another way.
        *({"convention": name, "tokenizer": "13a", "lowercase": False} for name in CONVENTIONS if name != "nltk"),
    ],
    ids=str,
)
def test_the_sentences_of_a_corpus_score_as_in_sacrebleu_however_it_is_smoothed(
    options: dict[str, Any], rng: random.Random
) -> None:
    hypotheses, references = random_text(rng, 200, references=1 + 2 * ("convention" not in options))
    settings = BLEUSettings.from_options(**options)
    rows = torch.from_numpy(count_rows(read_batch(hypotheses, references, settings), settings))
    many = rows.repeat(100, 1)  # more than are scored at a time
    scorer = BLEUScorer(settings)
    scores = scorer.score_sentences(many)
    peer = SacreBLEU(effective_order=True, max_ngram_order=settings.max_order)
    expected = [peer.sentence_score(*pair).score for pair in zip(hypotheses, references)]
    assert (100 / scorer.unit * scores[:200]).tolist() == pytest.approx(expected, abs=1e-9)
    assert torch.equal(scores.reshape(100, 200), scores[:200].expand(100, 200))
    assert len({*scores.tolist()}) > 40  # of all qualities
    assert scorer.score_sentences(rows[:0]).shape == (0,)
