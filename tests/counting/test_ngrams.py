"""The kernel on the CPU beside the definition, with every internal limit reached."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from itertools import chain
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.counting import ngrams
from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.reading.ragged import IntArray, RaggedBatch
from tests.helpers.counting import (
    EXTREME_IDS,
    Ids,
    Pieces,
    count_by_definition,
    in_one_piece,
    make_ragged,
    piece_batches,
    random_batch,
)
from tests.reference import statistics

LIMITS: Mapping[str, Mapping[str, int]] = {
    "as they are": {},
    "chunks of few tokens": {"_MAX_HYPOTHESIS_TOKENS": 40, "_MAX_TOKENS": 60},
    "chunks of few hypothesis tokens": {"_MAX_HYPOTHESIS_TOKENS": 10},
    "every sentence a chunk": {"_MAX_HYPOTHESIS_TOKENS": 0, "_MAX_TOKENS": 0},
    "ids labeled by sorting": {"_MAX_TABLE": 2},
    "references counted in several rounds": {"_MAX_CELLS": 16},
    "references counted one n-gram at a time": {"_MAX_CELLS": 0},
    "several passes": {"_KEY_BITS": 40},
    "many passes": {"_KEY_BITS": 30},
    "all of them": {
        "_MAX_HYPOTHESIS_TOKENS": 20,
        "_MAX_TOKENS": 50,
        "_MAX_TABLE": 2,
        "_MAX_CELLS": 16,
        "_KEY_BITS": 30,
    },
}
"""The limits of the kernel, so low that a small batch reaches them."""


def count(sentences: list[list[Pieces]], max_order: int, limits: Mapping[str, int] = {}) -> list[list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(ngrams, name, value)
        rows: list[list[int]] = count_matches(make_ragged(sentences), max_order).tolist()
    return rows


def expected_matches(sentences: list[list[Pieces]], max_order: int) -> list[list[int]]:
    return [count_by_definition(group, max_order)[0] for group in sentences]


@given(piece_batches, st.integers(1, 6), st.sampled_from(sorted(LIMITS)))
def test_matches_are_those_of_the_definition(sentences: list[list[Pieces]], max_order: int, limits: str) -> None:
    assert count(sentences, max_order, LIMITS[limits]) == expected_matches(sentences, max_order)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_random_batches_have_the_matches_of_the_definition(limits: Mapping[str, int], rng: random.Random) -> None:
    for _ in range(150):
        sentences, max_order = random_batch(rng), rng.choice([1, 2, 4, 4, 6, 9, 15, 40])
        assert count(sentences, max_order, limits) == expected_matches(sentences, max_order)


@given(st.lists(st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=2, max_size=2), min_size=1, max_size=4))
def test_repeated_tokens_are_clipped(sentences: list[list[Ids]]) -> None:
    expected = [statistics(hypothesis, references, 4)[:4] for hypothesis, *references in sentences]
    assert count(in_one_piece(sentences), 4) == expected


@pytest.mark.parametrize("references", [1, 2, 7, 8, 30])
def test_matches_are_clipped_at_the_largest_count_in_any_one_reference(references: int) -> None:
    generator = np.random.default_rng(references)
    sentences = [
        [generator.integers(0, 6, generator.integers(0, 15)).tolist() for _ in range(1 + references)] for _ in range(20)
    ]
    expected = [statistics(hypothesis, group, 4)[:4] for hypothesis, *group in sentences]
    assert count(in_one_piece(sentences), 4) == expected


@pytest.mark.parametrize("max_order", [1, 2, 5, 9, 20, 40])
def test_any_order_can_be_counted(max_order: int) -> None:
    generator = np.random.default_rng(max_order)
    base = generator.integers(0, 5, (10, 40))
    sentences = [[row.tolist(), np.delete(row, generator.integers(40)).tolist()] for row in base]
    expected = [statistics(hypothesis, group, max_order)[:max_order] for hypothesis, *group in sentences]
    assert count(in_one_piece(sentences), max_order) == expected


@pytest.mark.parametrize("spread", [1, 2**45])
def test_a_sentence_may_have_tens_of_thousands_of_tokens(spread: int) -> None:
    generator = np.random.default_rng(0)
    base = generator.integers(0, 300, 30_000) * spread
    changed = base.copy()
    changed[generator.integers(0, len(base), 5_000)] = 3 * spread
    hypothesis, *references = base.tolist(), changed.tolist(), base[::-1].tolist()
    expected = statistics(hypothesis, references, 4)[:4]
    assert count([[[hypothesis], *([reference] for reference in references)]], 4) == [expected]


def test_sentences_of_all_lengths_fall_into_chunks_together() -> None:
    """More tokens than a chunk has as shipped, and a sentence that is longer than a chunk among short ones."""
    generator = np.random.default_rng(0)
    lengths = [*generator.integers(0, 30, 1_500), 9_000, *generator.integers(0, 30, 500)]
    sentences = [[generator.integers(0, 20, length).tolist() for _ in range(2)] for length in lengths]
    assert len(list(ngrams._chunks(make_ragged(in_one_piece(sentences))))) > 3
    expected = [statistics(hypothesis, references, 3)[:3] for hypothesis, *references in sentences]
    assert count(in_one_piece(sentences), 3) == expected


@pytest.mark.parametrize("limits", [{"_MAX_HYPOTHESIS_TOKENS": 20}, {"_MAX_HYPOTHESIS_TOKENS": 40, "_MAX_TOKENS": 60}])
def test_chunks_hold_all_sentences_in_order_and_no_more_tokens_than_they_may(
    limits: Mapping[str, int], monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(ngrams, name, value)
    most_chunks = 0
    for _ in range(100):
        batch = make_ragged(random_batch(rng))
        chunks = list(ngrams._chunks(batch))
        most_chunks = max(most_chunks, len(chunks))
        for chunk in chunks:
            hypothesis_tokens = chunk.tokens.segment_lengths[: chunk.sentence_count].sum()
            fits = hypothesis_tokens <= ngrams._MAX_HYPOTHESIS_TOKENS and len(chunk.tokens.ids) <= ngrams._MAX_TOKENS
            assert fits or chunk.sentence_count == 1
        assert split_sentences(batch) == list(chain.from_iterable(map(split_sentences, chunks)))
    assert most_chunks > 3


def split_sentences(batch: RaggedBatch) -> list[list[Ids]]:
    """The rows of each hypothesis and its references."""
    rows = batch.tokens.rows()
    ends = batch.sentence_count + batch.reference_counts.cumsum()
    return [
        [rows[sentence], *rows[end - count : end]]
        for sentence, (end, count) in enumerate(zip(ends.tolist(), batch.reference_counts.tolist()))
    ]


@pytest.mark.parametrize("max_table", [2**22, 2])
@given(
    hypothesis=st.lists(st.sampled_from([*range(9), *EXTREME_IDS]), min_size=1),
    reference=st.lists(st.sampled_from([*range(9), *EXTREME_IDS]), min_size=1),
)
def test_a_label_stands_for_one_id_of_the_hypotheses(hypothesis: Ids, reference: Ids, max_table: int) -> None:
    ids = hypothesis + reference
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "_MAX_TABLE", max_table)
        labels = ngrams._label(np.array(ids, np.int64), len(hypothesis)).tolist()
    known = {id_: label for id_, label in zip(ids, labels) if id_ in hypothesis}
    assert labels == [known.get(id_, ngrams._NO_MATCH) for id_ in ids]
    assert len(set(known.values())) == len(known)
    assert all(1 <= label <= len(hypothesis) for label in known.values())


@pytest.mark.parametrize(
    "sentences", [[], [[[[]], [[]]]], [[[[1, 2]], [[]]]], [[[[]], [[1, 2]]]], [[[[], []], [[], []], [[]]]] * 2]
)
def test_empty_sides_have_no_matches(sentences: list[list[Pieces]]) -> None:
    assert count(sentences, 4) == [[0] * 4] * len(sentences)
    # also among others
    assert count([*sentences, [[[3, 4]], [[3, 4]]]], 2) == [*([0, 0] for _ in sentences), [2, 1]]


def test_no_ngram_spans_two_pieces() -> None:
    # "a b | c d" against "a b c d": the bigrams "a b" and "c d", nothing longer
    assert count([[[[1, 2], [3, 4]], [[1, 2, 3, 4]]]], 3) == [[4, 2, 0]]
    assert count([[[[1, 2, 3, 4]], [[1, 2], [3, 4]]]], 3) == [[4, 2, 0]]
    # nor the end of a segment: "a" and "b" are neighbors only across it
    assert count([[[[1]], [[2]]], [[[2]], [[1, 2]]]], 2) == [[0, 0], [1, 0]]


def count_lines(call: Callable[[], Any]) -> int:
    """How many lines of the kernel are executed."""
    lines = 0

    def count_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count_line

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count_line if frame.f_code.co_filename == ngrams.__file__ else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def peak_memory(call: Callable[[], Any]) -> int:
    """The most bytes that are allocated at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_time_for_references_is_linear() -> None:
    """The same steps, on arrays whose size is proportional to the references."""
    generator = np.random.default_rng(0)

    def batch(references: int) -> Callable[[], IntArray]:
        sentence = [[generator.integers(0, 8, 20).tolist()] for _ in range(1 + references)]
        ragged = make_ragged([sentence])
        return lambda: count_matches(ragged, 4)

    few, many = batch(1_000), batch(8_000)
    assert count_lines(few) == count_lines(many) > 30
    assert peak_memory(many) < 1.5 * 8 * peak_memory(few)
