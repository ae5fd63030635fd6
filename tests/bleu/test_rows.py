"""The statistics of every sentence beside the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu.counting import ngrams
from tests.helpers.counting import count, id_batches, remove_special_ids
from tests.reference import statistics

SPECIAL_ID = st.sampled_from([None, None, 0, 1, 2])
LIMITS: list[tuple[str, int]] = [("_KEY_BITS", 63), ("_KEY_BITS", 20), ("_MAX_HYPOTHESIS_TOKENS", 5)]


@given(
    batch=id_batches(min_sentences=0),
    options=st.fixed_dictionaries(
        {
            "pad_id": SPECIAL_ID,
            "bos_id": SPECIAL_ID,
            "eos_id": SPECIAL_ID,
            "ignore_ids": st.sampled_from([(-100,), (), (4, 5)]),
        }
    ),
    unk_id=st.sampled_from([None, None, 3]),
    max_order=st.sampled_from([1, 2, 4, 6, 12]),
    limit=st.sampled_from(LIMITS),
    as_lists=st.booleans(),
)
@settings(max_examples=250)
def test_rows_are_those_of_the_definition(
    batch: tuple[Any, Any],
    options: dict[str, Any],
    unk_id: int | None,
    max_order: int,
    limit: tuple[str, int],
    as_lists: bool,
) -> None:
    """Word for word as the arguments of :class:`lightning_bleu.CorpusBLEU` are described."""
    preds, target = batch
    expected = []
    for hypothesis, group in zip(preds, target):
        tokens, *references = (remove_special_ids(ids.tolist(), **options) for ids in (hypothesis, *group))
        if isinstance(target, Tensor) and any(references):
            references = [reference for reference in references if reference]
        if unk_id is not None:  # becomes an id that no hypothesis has
            references = [[-1 if id_ == unk_id else id_ for id_ in reference] for reference in references]
        expected.append(statistics(tokens, references, max_order))
    if as_lists and isinstance(preds, list):
        preds = [ids.tolist() for ids in preds]
    if as_lists and isinstance(target, list):
        target = [[ids.tolist() for ids in group] for group in target]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, *limit)
        assert count(preds, target, **options, unk_id=unk_id, max_order=max_order) == expected


def test_unknown_words_in_references_match_nothing_but_count_toward_the_length() -> None:
    # fairseq: "a unk b" against "a unk b" has two matches, and three tokens on both sides
    expected = [2, 0, 0, 0, 3, 2, 1, 0, 3, 3]  # matches, possible matches, and both lengths
    assert count([[5, 3, 6]], [[5, 3, 6]], convention="fairseq", unk_id=3, max_order=4) == [expected]


def test_tokens_and_text_have_no_unknown_word() -> None:
    """Even if the internal id of a token equals the option."""
    for unk_id in (0, 1):
        assert count([["a", "b"]], [["a", "b"]], unk_id=unk_id, max_order=2) == [[2, 1, 2, 1, 2, 2]]
        assert count(["a b"], ["a b"], unk_id=unk_id, max_order=2) == [[2, 1, 2, 1, 2, 2]]


def test_a_sentence_has_at_least_the_possible_matches_of_its_convention() -> None:
    # NLTK: "a b" has two unigrams, one bigram, and at least one trigram
    assert count([[5, 6]], [[5, 7]], convention="nltk") == [[1, 0, 0, 2, 1, 1, 2, 2]]
    assert count([[]], [[5]], convention="nltk") == [[0, 0, 0, 1, 1, 1, 0, 1]]
