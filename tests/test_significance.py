from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, CorpusCHRF, approximate_randomization, paired_bootstrap
from lightning_bleu.core.corpus_metric import CorpusMetric
from tests.helpers.resampling import draw_resamples
from tests.helpers.systems import TARGET, A, B, make_metric, pick

METRIC = make_metric(A)

# Untyped aliases, for calls with arguments of a wrong type.
interval_of: Callable[..., Any] = CorpusBLEU.interval
randomize: Callable[..., Any] = approximate_randomization

PAIRED_TESTS: list[Callable[..., Any]] = [paired_bootstrap, approximate_randomization]


def refuse(a: Any, b: Any, message: str) -> None:
    """Check that no paired test compares two systems."""
    for test in PAIRED_TESTS:
        for pair in ((a, b), (b, a)):
            with pytest.raises(ValueError, match=message):
                test(*pair)


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: paired_bootstrap(METRIC, make_metric(B[:3], TARGET[:3])), ValueError, "same number .* got 4 and 3"),
        (lambda: make_metric(A[:1], TARGET[:1]).interval(), ValueError, "at least two sentences, got 1"),
        (lambda: CorpusBLEU(keep_sentences=True).interval(), ValueError, "at least two sentences, got 0"),
        (
            lambda: randomize(make_metric(A[:1], TARGET[:1]), make_metric(B[:1], TARGET[:1])),
            ValueError,
            "at least two, got 1 and 1",
        ),
        (lambda: paired_bootstrap(CorpusBLEU(), METRIC), ValueError, r"make it with CorpusBLEU\(keep_sentences=True\)"),
        (lambda: METRIC.interval(95), ValueError, "'confidence' must lie between 0 and 1, got 95"),
        (lambda: interval_of(METRIC, "95%"), TypeError, "'confidence' must be a number between 0 and 1"),
        (lambda: METRIC.interval(resamples=0), ValueError, "'resamples' must be 1 or more, got 0"),
        (lambda: paired_bootstrap(METRIC, METRIC, True), TypeError, "'resamples' must be .* got True"),
        (lambda: randomize(METRIC, METRIC, seed=0.5), TypeError, "'seed' must be an integer, got 0.5"),
        (lambda: paired_bootstrap(METRIC, METRIC, 2**24 + 1), ValueError, "'resamples' must be at most 16,777,216"),
        (lambda: randomize(METRIC, METRIC, 10**12), ValueError, "'trials' must be at most 16,777,216"),
        (lambda: paired_bootstrap(METRIC, METRIC, confidence=95), ValueError, "'confidence' must lie between 0 and 1"),
        (lambda: randomize(METRIC, [0.1, 0.2]), TypeError, "both systems must be metrics .* CorpusBLEU and list"),
        (lambda: randomize([0.1], METRIC), TypeError, "or have a number per sentence, got list and CorpusBLEU"),
        (lambda: randomize([0.1, 0.2], ["a", "b"]), TypeError, "got list and list"),
        (lambda: randomize([[0.1]], [[0.1]]), TypeError, "both systems must be metrics"),
        (lambda: paired_bootstrap([0.1, math.nan], [0.1, 1]), ValueError, "must be finite"),
        (lambda: paired_bootstrap([0.1, 1], [0.1]), ValueError, "same number of sentences, .*, got 2 and 1"),
    ],
)
def test_an_error_says_what_is_wrong(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_numbers_may_be_those_of_numpy() -> None:
    assert interval_of(METRIC, np.float32(0.5), np.int64(50), np.int64(3)) == METRIC.interval(0.5, 50, 3)
    for test in PAIRED_TESTS:
        assert test(METRIC, make_metric(B), np.int64(50), np.int64(3)) == test(METRIC, make_metric(B), 50, 3)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=2), st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_numbers_of_sentences_are_compared_as_numpy_would(pairs: list[tuple[int, int]], seed: int) -> None:
    a, b = np.array(pairs).T
    test, other = paired_bootstrap(a.tolist(), torch.tensor(b), 99, seed, confidence=0.8), randomize(a, b, 99, seed)
    differences = (a - b)[draw_resamples(99, len(a), seed)].mean(1)
    assert (test.score_a, test.score_b) == (other.score_a, other.score_b) == pytest.approx((a.mean(), b.mean()))
    assert (test.low, test.high) == pytest.approx(tuple(np.quantile(differences, [0.1, 0.9])))
    reached = abs(differences) - abs(differences).mean() >= abs((a - b).mean()) - 1e-9
    assert test.p_value == (reached.sum() + 1) / 100
    assert str(test).startswith(f"score = {a.mean():.4f} against {b.mean():.4f}: {a.mean() - b.mean():+.4f} (80% ")
    assert (other.low, other.high, other.confidence) == (None, None, None)


# Which systems are scored alike


def test_settings_are_compared_even_where_signatures_are_equal() -> None:
    a, b = (make_metric(A, smoothing="floor", smoothing_value=value) for value in (0.101, 0.104))
    assert a.signature == b.signature  # which has two decimals
    refuse(a, b, "^both systems must be scored in the same way, but they differ in: smoothing_value$")
    a, b = make_metric(A, tokenizer=lambda line: line.split()), make_metric(A, tokenizer=lambda line: list(line))
    assert a.signature == b.signature
    refuse(a, b, "but they differ in: tokenizer$")


@dataclass
class Splitter:
    """A tokenizer that is equal to others with the same separator."""

    separator: str

    def __call__(self, line: str) -> list[str]:
        return line.split(self.separator)


def test_systems_with_equal_tokenizers_can_be_compared() -> None:
    tokenizer = lambda line: line.split()  # noqa: E731
    for one, other in ((tokenizer, tokenizer), (Splitter(" "), Splitter(" "))):
        a, b = make_metric(A, tokenizer=one), make_metric(B, tokenizer=other)
        for test in PAIRED_TESTS:
            assert test(a, b) == test(make_metric(A), make_metric(B))
    refuse(a, make_metric(B, tokenizer=Splitter("\t")), "but they differ in: tokenizer$")


def keep_chrf(**options: Any) -> CorpusCHRF:
    metric = CorpusCHRF(keep_sentences=True, **options)
    metric.update(B, TARGET)
    return metric


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (METRIC, make_metric(B, lowercase=True), "in the same way, got .*case:(lc|mixed).* differ in: lowercase$"),
        (METRIC, make_metric(B, max_order=3), "which differ in: max_order, weights$"),
        (METRIC, make_metric(B, convention="overlap"), "which differ in: zero_rule$"),
        (keep_chrf(), keep_chrf(whitespace=True), "space:(no|yes).*space:(no|yes).* which differ in: whitespace$"),
        (keep_chrf(), keep_chrf(char_order=4), "which differ in: char_order$"),
        (keep_chrf(), keep_chrf(word_order=1), r"got (chrF2 and chrF2\+|chrF2\+ and chrF2)"),
        (keep_chrf(), METRIC, "must be scored by the same metric, got (BLEU and chrF2|chrF2 and BLEU)"),
        (keep_chrf(), make_metric(B, max_order=8), "must be scored by the same metric"),  # with as many columns
    ],
)
def test_an_error_names_all_settings_that_differ(a: CorpusMetric, b: CorpusMetric, message: str) -> None:
    refuse(a, b, message)


def test_the_unit_does_not_matter() -> None:
    a, b = make_metric(A), make_metric(B, percent=True)
    assert paired_bootstrap(a, b) == paired_bootstrap(a, make_metric(B))


def test_two_models_may_have_their_own_decoders_and_special_ids() -> None:
    words = sorted({word for line in [*A, *B, *TARGET] for word in line.split()})

    def make_model(vocabulary: list[str], lines: list[str], pad_id: int) -> CorpusBLEU:
        """A metric that decodes the ids of a vocabulary."""
        preds, target = (
            [[vocabulary.index(word) for word in line.split()] for line in side] for side in (lines, TARGET)
        )
        decoder = lambda rows: [" ".join(vocabulary[i] for i in row) for row in rows]  # noqa: E731
        return make_metric([[*row, pad_id] for row in preds], target, decoder=decoder, pad_id=pad_id)

    a, b = make_model(words, A, len(words)), make_model(words[::-1], B, len(words) + 1)
    assert a.settings != b.settings
    for test in PAIRED_TESTS:
        assert test(a, b) == test(METRIC, make_metric(B))
    # A model whose ids are scored without decoding is not comparable.
    refuse(a, make_metric([[1, 2]] * 4, [[1, 2]] * 4), "which differ in: pad_id, decoder, tokens$")


def test_the_sources_of_tokens_are_compared() -> None:
    tokens = make_metric([line.split() for line in B], [line.split() for line in TARGET])
    refuse(METRIC, tokens, "tok:(none|tokens).*tok:(none|tokens).* which differ in: tokens$")


def test_the_numbers_of_references_are_compared() -> None:
    refuse(METRIC, make_metric(B, [[line, line] for line in TARGET]), "which differ in: number of references$")
    refuse(
        METRIC,
        make_metric(B, [[TARGET[0], "x"], *TARGET[1:]]),
        "nrefs:(1|var).*nrefs:(1|var).* which differ in: number of references$",
    )


def test_the_references_are_compared() -> None:
    message = "the same sentences in the same order, but the references of sentence 2 differ"
    refuse(METRIC, make_metric(B, [*TARGET[:2], "g h i j k l x", "x"]), message)
    refuse(METRIC, make_metric(pick(B, [0, 1, 3, 2]), pick(TARGET, [0, 1, 3, 2])), message)


def make_indexed(preds: list[str], positions: list[int], index: list[int]) -> CorpusBLEU:
    """A metric that has counted sentences at some positions, under other positions."""
    metric = make_metric([], [])
    metric.update(pick(preds, positions), pick(TARGET, positions), index=index)
    return metric


def test_systems_with_positions_can_be_compared_whatever_the_order_of_their_batches() -> None:
    a = make_indexed(A, [0, 1, 2, 3], [5, 6, 7, 8])
    b = make_indexed(B, [3, 1, 0, 2, 1], [8, 6, 5, 7, 6])
    for test in PAIRED_TESTS:
        assert test(a, b) == test(METRIC, make_metric(B))


def test_positions_are_compared() -> None:
    message = "both systems must have the same sentences, but their 'index' differs"
    a = make_indexed(A, [0, 1, 2, 3], [0, 1, 2, 3])
    refuse(a, make_indexed(B, [0, 1, 2, 3], [0, 1, 2, 4]), message)
    refuse(a, make_indexed(B, [0, 1, 3, 2], [0, 1, 4, 2]), message)
    refuse(a, make_metric(B), message)  # which has none


def test_references_at_the_same_position_are_compared() -> None:
    b = make_indexed(B, [0, 2, 1, 3], [0, 1, 2, 3])
    refuse(make_indexed(A, [0, 1, 2, 3], [0, 1, 2, 3]), b, "but the references of sentence 1 differ")
