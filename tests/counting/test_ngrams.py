"""The kernel beside the definition, with every internal limit reached."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightning_bleu.counting import ngrams
from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.reading.ragged import IntArray, Ragged
from tests.helpers.counting import EXTREME_IDS, Ids, groups, make_ragged, random_groups
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


def count(
    sentences: list[list[Ids]], max_order: int, limits: Mapping[str, int] = {}, unk_id: int | None = None
) -> list[list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(ngrams, name, value)
        rows: list[list[int]] = count_matches(*make_ragged(sentences), max_order, unk_id=unk_id).tolist()
    return rows


def expected_matches(sentences: list[list[Ids]], max_order: int) -> list[list[int]]:
    return [statistics(hypothesis, references, max_order)[:max_order] for hypothesis, *references in sentences]


@given(groups, st.integers(1, 6), st.sampled_from(sorted(LIMITS)))
def test_matches_are_those_of_the_definition(sentences: list[list[Ids]], max_order: int, limits: str) -> None:
    assert count(sentences, max_order, LIMITS[limits]) == expected_matches(sentences, max_order)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_random_batches_have_the_matches_of_the_definition(limits: Mapping[str, int], rng: random.Random) -> None:
    for _ in range(150):
        sentences, max_order = random_groups(rng), rng.choice([1, 2, 4, 4, 6, 9, 15, 40])
        assert count(sentences, max_order, limits) == expected_matches(sentences, max_order)


SHORT = st.lists(st.integers(0, 1), max_size=3)
"""Segments whose n-grams all match, and many of which are empty."""


@given(
    st.lists(st.lists(SHORT, min_size=2, max_size=4), max_size=4), st.integers(2, 5), st.sampled_from(sorted(LIMITS))
)
@example([[[7], [7, 8]], [[8], [9]]], 2, "as they are")  # "7 8" would span two hypotheses
@example([[[7], [8], [7, 8]]], 2, "as they are")  # the last hypothesis and the first reference
@example([[[7, 8], [7], [8]]], 2, "as they are")  # two references
@example([[[7], [], [7]]], 2, "as they are")  # an empty first reference begins where the last hypothesis ends
@example([[[], [7]], [[], [8]]], 2, "as they are")  # no hypothesis has a token
@example([[[7], []], [[8], []]], 2, "as they are")  # no reference has a token
def test_no_ngram_spans_two_segments(sentences: list[list[Ids]], max_order: int, limits: str) -> None:
    """Even if there are empty segments in between, or the first reference is empty."""
    assert count(sentences, max_order, LIMITS[limits]) == expected_matches(sentences, max_order)


@given(groups, st.integers(1, 6), st.sampled_from(EXTREME_IDS), st.sampled_from(sorted(LIMITS)))
def test_an_unknown_word_in_a_reference_matches_nothing(
    sentences: list[list[Ids]], max_order: int, unk_id: int, limits: str
) -> None:
    """As if it were an id that no hypothesis has."""
    replaced = [
        [hypothesis, *([0 if id_ == unk_id else id_ for id_ in reference] for reference in references)]
        for hypothesis, *references in sentences
    ]
    assert count(sentences, max_order, LIMITS[limits], unk_id) == expected_matches(replaced, max_order)


@pytest.mark.parametrize("references", [1, 2, 7, 8, 30])
def test_matches_are_clipped_at_the_largest_count_in_any_one_reference(references: int) -> None:
    generator = np.random.default_rng(references)
    sentences = [
        [generator.integers(0, 6, generator.integers(0, 15)).tolist() for _ in range(1 + references)] for _ in range(20)
    ]
    assert count(sentences, 4) == expected_matches(sentences, 4)


@pytest.mark.parametrize("max_order", [1, 2, 5, 9, 20, 40])
def test_any_order_can_be_counted(max_order: int) -> None:
    generator = np.random.default_rng(max_order)
    base = generator.integers(0, 5, (10, 40))
    sentences = [[row.tolist(), np.delete(row, generator.integers(40)).tolist()] for row in base]
    assert count(sentences, max_order) == expected_matches(sentences, max_order)


@pytest.mark.parametrize("spread", [1, 2**45])
def test_a_sentence_may_have_tens_of_thousands_of_tokens(spread: int) -> None:
    generator = np.random.default_rng(0)
    base = generator.integers(0, 300, 30_000) * spread
    changed = base.copy()
    changed[generator.integers(0, len(base), 5_000)] = 3 * spread
    sentences = [[base.tolist(), changed.tolist(), base[::-1].tolist()]]
    assert count(sentences, 4) == expected_matches(sentences, 4)


def test_sentences_of_all_lengths_can_share_chunks() -> None:
    """With the limits as they are: more tokens than fit into a chunk, and one sentence longer than a chunk."""
    generator = np.random.default_rng(0)
    lengths = [*generator.integers(0, 30, 1_500), 9_000, *generator.integers(0, 30, 500)]
    sentences = [[generator.integers(0, 20, length).tolist() for _ in range(2)] for length in lengths]
    assert len(list(ngrams._chunks(*make_ragged(sentences)))) > 3
    assert count(sentences, 3) == expected_matches(sentences, 3)


@pytest.mark.parametrize("limits", [{"_MAX_HYPOTHESIS_TOKENS": 20}, {"_MAX_HYPOTHESIS_TOKENS": 40, "_MAX_TOKENS": 60}])
def test_chunks_hold_all_sentences_in_order_and_no_more_tokens_than_they_may(
    limits: Mapping[str, int], monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(ngrams, name, value)
    most_chunks = 0
    for _ in range(100):
        sentences = random_groups(rng)
        chunks = list(ngrams._chunks(*make_ragged(sentences)))
        most_chunks = max(most_chunks, len(chunks))
        for tokens, counts in chunks:
            hypothesis_tokens = tokens.lengths[: len(counts)].sum()
            fits = hypothesis_tokens <= ngrams._MAX_HYPOTHESIS_TOKENS and len(tokens.ids) <= ngrams._MAX_TOKENS
            assert fits or len(counts) == 1
        assert list(chain.from_iterable(split_sentences(*chunk) for chunk in chunks)) == sentences
    assert most_chunks > 3


def split_sentences(tokens: Ragged, reference_counts: IntArray) -> list[list[Ids]]:
    """The opposite of :func:`tests.helpers.counting.make_ragged`."""
    rows = tokens.rows()
    references = iter(rows[len(reference_counts) :])
    return [[row, *(next(references) for _ in range(count))] for row, count in zip(rows, reference_counts.tolist())]


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
