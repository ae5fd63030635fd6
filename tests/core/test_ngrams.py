"""The kernel beside the definition, with every internal limit reached."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightning_bleu.core import ngrams
from lightning_bleu.core.forms import IntArray, Ragged
from lightning_bleu.core.ngrams import count_matches
from tests.fuzz.choices import sentences
from tests.fuzz.updates import limits as lowered
from tests.helpers.counting import EXTREME_IDS, Ids, make_ragged
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


def check(sentences: list[list[Ids]], max_order: int, limits: str = "as they are", unk_id: int | None = None) -> None:
    """Compare matches with those of the definition. An unknown word becomes an id that no hypothesis has."""
    with lowered(ngrams, LIMITS[limits]):
        found = count_matches(*make_ragged(sentences), max_order, unk_id=unk_id).tolist()
    replaced = [[[0 if id_ == unk_id else id_ for id_ in reference] for reference in group] for _, *group in sentences]
    pairs = zip((hypothesis for hypothesis, *_ in sentences), replaced)
    assert found == [statistics(*pair, max_order)[:max_order] for pair in pairs]


extreme = sentences.map(
    lambda groups: [[[EXTREME_IDS[i % len(EXTREME_IDS)] for i in row] for row in group] for group in groups]
)
orders = st.sampled_from([4, 1, 2, 3, 5, 6, 9, 15, 40])
limits = st.sampled_from([*LIMITS])


@given(extreme, orders, limits, st.sampled_from([None, *EXTREME_IDS]))
@example([[[7], [7, 8]], [[8], [9]]], 2, "as they are", None)  # "7 8" would span two hypotheses
@example([[[7], [8], [7, 8]]], 2, "as they are", None)  # the last hypothesis and the first reference
@example([[[7, 8], [7], [8]]], 2, "as they are", None)  # two references
@example([[[7], [], [7]]], 2, "as they are", None)  # an empty first reference begins where the last hypothesis ends
@example([[[], [7]], [[], [8]]], 2, "as they are", None)  # no hypothesis has a token
@example([[[7], []], [[8], []]], 2, "as they are", None)  # no reference has a token
@settings(max_examples=200)
def test_matches_are_those_of_the_definition(
    groups: list[list[Ids]], max_order: int, limits: str, unk_id: int | None
) -> None:
    check(groups, max_order, limits, unk_id)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("references", [1, 2, 7, 8, 30])
def test_matches_are_clipped_at_the_largest_count_in_any_one_reference(references: int, limits: str) -> None:
    generator = np.random.default_rng(references)
    rows = [
        [generator.integers(0, 6, generator.integers(0, 15)).tolist() for _ in range(1 + references)] for _ in range(20)
    ]
    check(rows, 4, limits)


@pytest.mark.parametrize("spread", [1, 2**45])
def test_a_sentence_may_have_tens_of_thousands_of_tokens(spread: int) -> None:
    generator = np.random.default_rng(0)
    base = generator.integers(0, 300, 30_000) * spread
    changed = base.copy()
    changed[generator.integers(0, len(base), 5_000)] = 3 * spread
    check([[base.tolist(), changed.tolist(), base[::-1].tolist()]], 4)


def test_sentences_of_all_lengths_can_share_chunks() -> None:
    """With the limits as they are: more tokens than fit into a chunk, and one sentence longer than a chunk."""
    generator = np.random.default_rng(0)
    lengths = [*generator.integers(0, 30, 1_500), 9_000, *generator.integers(0, 30, 500)]
    rows = [[generator.integers(0, 20, length).tolist() for _ in range(2)] for length in lengths]
    assert len(list(ngrams._chunks(*make_ragged(rows)))) > 3
    check(rows, 3)


@pytest.mark.parametrize("limits", ["chunks of few hypothesis tokens", "chunks of few tokens"])
@given(st.lists(extreme, max_size=5))
def test_chunks_hold_all_sentences_in_order_and_no_more_tokens_than_they_may(
    limits: str, parts: list[list[list[Ids]]]
) -> None:
    groups = [*chain(*parts)]
    with lowered(ngrams, LIMITS[limits]):
        chunks = [*ngrams._chunks(*make_ragged(groups))]
        for tokens, counts in chunks:
            hypothesis_tokens = tokens.lengths[: len(counts)].sum()
            fits = hypothesis_tokens <= ngrams._MAX_HYPOTHESIS_TOKENS and len(tokens.ids) <= ngrams._MAX_TOKENS
            assert fits or len(counts) == 1
    assert [*chain.from_iterable(split_sentences(*chunk) for chunk in chunks)] == groups


def split_sentences(tokens: Ragged, reference_counts: IntArray) -> list[list[Ids]]:
    """The opposite of :func:`tests.helpers.counting.make_ragged`."""
    rows = tokens.to_lists()
    references = iter(rows[len(reference_counts) :])
    return [[row, *(next(references) for _ in range(count))] for row, count in zip(rows, reference_counts.tolist())]


@pytest.mark.parametrize("max_table", [2**22, 2])
@given(
    hypothesis=st.lists(st.sampled_from([*range(9), *EXTREME_IDS]), min_size=1),
    reference=st.lists(st.sampled_from([*range(9), *EXTREME_IDS]), min_size=1),
)
def test_a_label_stands_for_one_id_of_the_hypotheses(hypothesis: Ids, reference: Ids, max_table: int) -> None:
    ids = hypothesis + reference
    with lowered(ngrams, {"_MAX_TABLE": max_table}):
        labels = ngrams._label(np.array(ids, np.int64), len(hypothesis)).tolist()
    known = {id_: label for id_, label in zip(ids, labels) if id_ in hypothesis}
    assert labels == [known.get(id_, ngrams._NO_MATCH) for id_ in ids]
    assert len(set(known.values())) == len(known)
    assert all(1 <= label <= len(hypothesis) for label in known.values())
