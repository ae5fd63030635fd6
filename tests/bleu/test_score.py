from __future__ import annotations

import copy
import json
import math
import pickle
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torch import Tensor

from lightning_bleu import CONVENTIONS, BLEUScore, corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEUSettings, Statistics, count_rows, score, score_sentences
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.settings.smoothing import SMOOTHINGS
from tests.helpers.corpora import random_corpus
from tests.helpers.systems import TWO_ORDERS_MISSING
from tests.helpers.text import WORDWISE, fuzz_line
from tests.reference import bleu

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
    settings = BLEUSettings.from_options(**options)
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
    # The paper does not say what it is where both are 0; sacreBLEU says 1.
    [(10, 9, 1.0), (10, 10, 1.0), (9, 10, math.exp(1 - 10 / 9)), (1, 4, math.exp(-3)), (0, 4, 0.0), (0, 0, 1.0)],
)
def test_only_a_corpus_that_is_too_short_pays_a_brevity_penalty(
    hypothesis_length: int, reference_length: int, expected: float
) -> None:
    statistics = torch.tensor([1, 1, 1, 1, hypothesis_length, reference_length])
    result = score(statistics, BLEUSettings.from_options(max_order=2))
    assert result.brevity_penalty.item() == pytest.approx(expected, abs=1e-15)


def test_the_effective_order_skips_orders_for_which_all_hypotheses_are_too_short() -> None:
    statistics = torch.tensor([3, 1, 0, 0, 4, 2, 0, 0, 4, 4])  # two hypotheses of two tokens, counted to order 4
    assert score(statistics, BLEUSettings.from_options()).bleu == 0
    # The two orders that remain share the weights: (3/4 * 1/2) ** (1/2).
    effective = score(statistics, BLEUSettings.from_options(effective_order=True)).bleu
    assert effective.item() == pytest.approx(bleu([3, 1, 4, 2, 4, 4]), abs=1e-12)


def test_large_counts_are_divided_in_double_precision() -> None:
    # A single wrong unigram of 2 ** 40 vanishes in 32-bit floating point, whose numbers have 24 binary digits.
    count = 2**40
    result = score(torch.tensor([count - 1, count, count, count]), BLEUSettings.from_options(max_order=1))
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
    for value in vars(result).values():
        assert type(value) in (int, float, bool, str, tuple)


@pytest.mark.parametrize("percent", [False, True])
def test_a_score_prints_as_sacrebleu_prints_it_in_either_unit(percent: bool) -> None:
    result = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none", percent=percent)
    # exp(1 - 6/5) * (4/5 * 3/4 * 2/3 * 1/2) ** (1/4) = 0.5475; the other numbers as in the test above
    assert str(result) == "BLEU = 54.75 80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)"


@pytest.mark.parametrize("convention", list(CONVENTIONS))
def test_without_any_match_all_precisions_are_0_only_where_sacrebleu_is_followed(convention: str) -> None:
    settings = BLEUSettings.from_options(convention=convention, smoothing="exp")
    result = score(torch.tensor([0, 0, 3, 2, 3, 3]), replace(settings, max_order=2, weights=(0.5, 0.5)))
    # sacreBLEU prints zeros; the others print what "exp" makes of no match of 3 and of 2: 1/2 / 3 and 1/4 / 2
    expected = [0, 0] if settings.zero_rule == "no-match" else [1 / 6, 1 / 8]
    assert result.precisions.tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("convention", list(CONVENTIONS))
def test_without_any_token_the_brevity_penalty_is_1_only_where_sacrebleu_is_followed(convention: str) -> None:
    settings = BLEUSettings.from_options(convention=convention)
    result = score(torch.zeros(10, dtype=torch.int64), settings)
    assert result.brevity_penalty.item() == (settings.zero_rule == "no-match")
    assert result.bleu == 0


def test_the_score_is_0_if_no_order_with_a_weight_can_be_used() -> None:
    options: dict[str, Any] = {"weights": (0, 0, 0, 1), "effective_order": True}
    assert sentence_bleu(["a b", "a b c d"], ["a b", "a b c d"], **options).tolist() == [0, 1]


@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_nothing_scores_0(options: dict[str, Any], effective_order: bool) -> None:
    settings = BLEUSettings.from_options(**{**options, "effective_order": effective_order})
    orders = 4 + settings.smoothing_method.needs_next_order
    for hypothesis_length, reference_length in ((0, 0), (0, 3)):
        statistics = torch.tensor([0] * 2 * orders + [hypothesis_length, reference_length])
        assert score(statistics, settings).bleu == 0


def test_many_corpora_with_and_without_matches_do_not_mix() -> None:
    # a match of 2 unigrams, none of 2, and nothing at all
    statistics = torch.tensor([[1, 0, 2, 1, 2, 2], [0, 0, 2, 1, 2, 2], [0, 0, 0, 0, 0, 0]])
    result = score(statistics, BLEUSettings.from_options(max_order=2))
    # "exp" counts half a match of 1 bigram
    assert result.precisions.tolist() == [[0.5, 0.5], [0, 0], [0, 0]]
    assert result.bleu.tolist() == [pytest.approx(0.5), 0, 0]
    assert result.brevity_penalty.tolist() == [1, 1, 1]


@pytest.mark.parametrize("options", [{}, {"percent": True}, {"percent": np.True_}, {"max_order": np.int64(4)}], ids=str)
def test_a_score_becomes_a_dict_of_plain_values(options: Any) -> None:
    result = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none", **options)
    values = result.to_dict()
    assert list(values) == list(BLEUScore.__annotations__)
    assert values == {name: plain(getattr(result, name)) for name in values}
    assert {type(value) for value in values.values()} == {int, float, bool, str, list}
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_the_dict_of_an_empty_corpus_can_be_saved_too() -> None:
    values = corpus_bleu([], []).to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_a_change_of_the_dict_leaves_the_score_alone() -> None:
    result = corpus_bleu(["a b"], ["a b"])
    result.to_dict()["matches"].append(5)
    assert result.matches == (2, 1, 0, 0)
    assert result.to_dict()["matches"] == [2, 1, 0, 0]


def plain(value: Any) -> Any:
    """A list in place of a tuple, as in JSON."""
    return list(value) if isinstance(value, tuple) else value


def test_the_length_ratio_without_references_is_0() -> None:
    assert corpus_bleu(["a b"], [""]).length_ratio == 0
    assert corpus_bleu([], []).length_ratio == 0


def test_a_score_cannot_be_changed() -> None:
    result = corpus_bleu(["a"], ["a"])
    assert isinstance(result, BLEUScore)
    with pytest.raises(AttributeError, match="a BLEUScore cannot be changed"):
        result.bleu = 1.0
    with pytest.raises(AttributeError, match="a BLEUScore cannot be changed"):
        del result.bleu


def test_a_score_is_a_number() -> None:
    report = corpus_bleu(["a b c d e"], ["a b c d f g"], tokenizer="none", percent=True)
    assert (round(report, 2), f"{report:.1f}", report > 50, 2 * report) == (54.75, "54.8", True, 2 * report.bleu)
    assert f"{report}" == str(report)
    assert report == report.bleu
    assert hash(report) == hash(report.bleu)
    assert torch.tensor(report) == torch.tensor(report.bleu)
    assert json.dumps(report) == json.dumps(report.bleu)
    assert statistics.mean([report, report]) == report.bleu


def test_scores_are_equal_if_everything_is() -> None:
    one, other = (corpus_bleu(["a b c d"] * count, ["a b c d"] * count) for count in (1, 2))
    assert one == corpus_bleu(["a b c d"], ["a b c d"])
    assert one != other  # both score 1
    assert one.bleu == other.bleu


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda score: pickle.loads(pickle.dumps(score))])
def test_a_score_can_be_copied(copied: Callable[[BLEUScore], BLEUScore]) -> None:
    report = corpus_bleu(["a b c d e"], ["a b c d f g"], percent=True)
    assert copied(report) == report
    assert copied(report).signature == report.signature
    assert repr(copied(report)) == repr(report)


# Sentence BLEU

SETTINGS = BLEUSettings.from_options()


def count(hypotheses: Sequence[Any], references: Sequence[Any], settings: BLEUSettings = SETTINGS) -> Tensor:
    return torch.from_numpy(count_rows(read_batch(hypotheses, references, settings), settings))


def random_text(rng: random.Random, **options: Any) -> tuple[list[str], list[list[str]]]:
    hypotheses, references = random_corpus(rng, 200, **options)
    return [*map(" ".join, hypotheses)], [[*map(" ".join, group)] for group in references]


def score_live(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], max_order: int = 4, **options: Any
) -> list[float]:
    """The sentence BLEU of sacreBLEU, with its defaults for sentences."""
    bleu = SacreBLEU(effective_order=True, max_ngram_order=max_order, **options)
    return [bleu.sentence_score(*pair).score for pair in zip(hypotheses, references)]


@pytest.mark.parametrize("max_order", [1, 2, 4, 6])
def test_sentences_score_as_in_sacrebleu(max_order: int, rng: random.Random) -> None:
    hypotheses, references = random_text(rng)
    settings = BLEUSettings.from_options(max_order=max_order, percent=True)
    scores = score_sentences(count(hypotheses, references, settings), settings)
    assert (scores.dtype, scores.shape) == (torch.float64, (200,))
    assert scores.tolist() == pytest.approx(score_live(hypotheses, references, max_order), abs=1e-9)
    # All kinds of sentences are among them.
    assert scores.min() == 0
    assert scores.max() == pytest.approx(100)
    assert len({*scores.tolist()}) > 50


@pytest.mark.parametrize("tokenizer", WORDWISE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_hard_text_scores_as_in_sacrebleu(tokenizer: str, lowercase: bool, rng: random.Random) -> None:
    references = [fuzz_line(rng) for _ in range(200)]
    hypotheses = [line + fuzz_line(rng)[:10] for line in references]
    settings = BLEUSettings.from_options(tokenizer=tokenizer, lowercase=lowercase, percent=True)
    scores = score_sentences(count(hypotheses, references, settings), settings)
    live = score_live(hypotheses, [[line] for line in references], tokenize=tokenizer, lowercase=lowercase)
    assert scores.tolist() == pytest.approx(live, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"percent": True},
        {"smoothing": "none"},
        {"smoothing": "floor", "smoothing_value": 0.5},
        {"smoothing": "add-k"},
        {"effective_order": True},
        # The others of nltk are counted in another way.
        *({"convention": name, "tokenizer": "13a", "lowercase": False} for name in CONVENTIONS if name != "nltk"),
    ],
    ids=str,
)
def test_how_a_corpus_is_smoothed_does_not_matter_for_sentences(options: dict[str, Any], rng: random.Random) -> None:
    hypotheses, references = random_text(rng, references=1)
    settings = BLEUSettings.from_options(**options)
    scores = score_sentences(count(hypotheses, references, settings), settings) / settings.scale
    assert (100 * scores).tolist() == pytest.approx(score_live(hypotheses, references), abs=1e-9)


@pytest.mark.parametrize("chunk", [1, 99, 100, 199, 200])
def test_many_sentences_score_as_few_do(chunk: int, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    statistics = count(*random_text(rng))
    expected = score_sentences(statistics, SETTINGS)
    monkeypatch.setattr("lightning_bleu.bleu._CHUNK", chunk)
    assert torch.equal(score_sentences(statistics, SETTINGS), expected)


def test_sentences_without_tokens_score_0() -> None:
    statistics = count(["", "", "a"], ["", "a", ""])
    assert score_sentences(statistics, SETTINGS).tolist() == [0, 0, 0]
    assert score_sentences(statistics[:0], SETTINGS).shape == (0,)
