"""The statistics of every sentence, on the CPU and as on an accelerator, beside the definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CONVENTIONS
from lightning_bleu.counting import ngrams, ngrams_accelerator
from lightning_bleu.counting.padded import Padded
from lightning_bleu.counting.rows import padded_statistics
from lightning_bleu.settings.conventions import Convention
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS
from lightning_bleu.settings.settings import Settings
from tests.helpers.counting import (
    BOTH_WAYS,
    Count,
    Ids,
    Pieces,
    count_by_definition,
    count_padded,
    count_ragged,
    id_batches,
    split_at_special_ids,
)

both_ways = pytest.mark.parametrize("way", BOTH_WAYS)

CHOOSE_LENGTH: dict[str, Any] = {
    "closest": lambda hypothesis, lengths: min(lengths, key=lambda length: (abs(length - hypothesis), length)),
    "closest-first": lambda hypothesis, lengths: min(lengths, key=lambda length: abs(length - hypothesis)),
    "shortest": lambda _, lengths: min(lengths),
}


def statistics_by_definition(preds: Any, target: Any, options: Settings) -> list[list[int]]:
    """Statistics word for word as the arguments of :class:`lightning_bleu.CorpusBLEU` are described."""
    rows = []
    for hypothesis, group in zip(preds, target):
        sentence = [_pieces(ids.tolist(), options) for ids in (hypothesis, *group)]
        if isinstance(target, Tensor) and any(any(pieces) for pieces in sentence[1:]):
            sentence = [sentence[0], *(pieces for pieces in sentence[1:] if any(pieces))]
        lengths = [sum(map(len, pieces)) for pieces in sentence]
        if (unk_id := options.special_ids.unk_id) is not None:  # becomes an id that no hypothesis has
            sentence[1:] = [[[-1 if id_ == unk_id else id_ for id_ in p] for p in pieces] for pieces in sentence[1:]]
        matches, possible_matches = count_by_definition(sentence, options.max_order)
        possible_matches = [max(possible, options.min_possible_matches) for possible in possible_matches]
        reference_length = CHOOSE_LENGTH[options.reference_length](lengths[0], lengths[1:])
        rows.append([*matches, *possible_matches, lengths[0], reference_length])
    return rows


def _pieces(ids: Ids, options: Settings) -> Pieces:
    special = options.special_ids
    pieces = split_at_special_ids(
        ids, pad_id=special.pad_id, bos_id=special.bos_id, eos_id=special.eos_id, ignore_ids=special.ignore_ids
    )
    return pieces if special.break_ngrams else [[id_ for piece in pieces for id_ in piece]]


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    """Settings with every switch of every convention."""
    convention = Convention(
        reference_length=draw(st.sampled_from(sorted(REFERENCE_LENGTHS))),
        min_possible_matches=draw(st.sampled_from([0, 1])),
        break_ngrams=draw(st.booleans()),
    )
    special = st.sampled_from([None, None, 0, 1, 2])
    return Settings.from_options(
        convention=convention,
        max_order=draw(st.sampled_from([1, 2, 4, 6, 12])),
        pad_id=draw(special),
        bos_id=draw(special),
        eos_id=draw(special),
        unk_id=draw(st.sampled_from([None, None, 3])),
        ignore_ids=draw(st.sampled_from([(-100,), (), (4, 5)])),
    )


LIMITS: list[list[tuple[Any, str, int]]] = [
    [],
    [(ngrams, "_MAX_HYPOTHESIS_TOKENS", 5), (ngrams_accelerator, "_MAX_PLACES", 20)],
    [(ngrams, "_KEY_BITS", 20), (ngrams_accelerator, "_KEY_BITS", 16)],
]


@given(
    batch=id_batches(min_sentences=0), options=all_settings(), limits=st.sampled_from(LIMITS), as_lists=st.booleans()
)
@settings(max_examples=250)
def test_both_ways_count_what_the_definition_says(
    batch: tuple[Any, Any], options: Settings, limits: Sequence[tuple[Any, str, int]], as_lists: bool
) -> None:
    preds, target = batch
    expected = statistics_by_definition(preds, target, options)
    if as_lists and isinstance(preds, list):
        preds = [ids.tolist() for ids in preds]
    if as_lists and isinstance(target, list):
        target = [[ids.tolist() for ids in group] for group in target]
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in limits:
            patch.setattr(module, name, value)
        assert count_ragged(preds, target, options).tolist() == expected
        assert count_padded(preds, target, options).tolist() == expected


@given(
    id_batches(),
    st.fixed_dictionaries(
        {"convention": st.sampled_from(sorted(CONVENTIONS))},
        optional={
            "pad_id": st.just(0),
            "eos_id": st.integers(0, 2),
            "unk_id": st.just(3),
            "max_order": st.sampled_from([1, 2, 9]),
        },
    ),
)
@settings(max_examples=100)
def test_both_ways_count_the_same_under_every_convention(batch: tuple[Any, Any], options: dict[str, Any]) -> None:
    settings_ = Settings.from_options(**options)
    assert torch.equal(count_padded(*batch, settings_), count_ragged(*batch, settings_))


@both_ways
def test_unknown_words_in_references_match_nothing(way: Count) -> None:
    # fairseq: "a unk b" against "a unk b" has two matches, and three tokens on both sides
    options = Settings.from_options(convention="fairseq", unk_id=3)
    expected = [2, 0, 0, 0, 3, 2, 1, 0, 3, 3]  # matches, possible matches, and both lengths
    assert way([[5, 3, 6]], [[5, 3, 6]], options).tolist() == [expected]


@both_ways
def test_ngrams_that_hold_an_excluded_id_do_not_count_in_allennlp(way: Count) -> None:
    # AllenNLP: of "a b _ c d" the bigrams "a b" and "c d" count, no trigram; "_" is not part of the length
    options = Settings.from_options(convention="allennlp", pad_id=0)
    expected = [4, 2, 0, 0, 4, 2, 0, 0, 4, 4]  # matches, possible matches, and both lengths
    preds, target = torch.tensor([[5, 6, 0, 7, 8]]), torch.tensor([[5, 6, 7, 8, 0]])
    assert way(preds, target, options).tolist() == [expected]


@both_ways
def test_a_sentence_has_at_least_the_possible_matches_of_its_convention(way: Count) -> None:
    # NLTK: "a b" has two unigrams, one bigram, and one trigram at the least
    options = Settings.from_options(convention="nltk", max_order=3)
    assert way([[5, 6]], [[5, 7]], options).tolist() == [[1, 0, 0, 2, 1, 1, 2, 2]]
    assert way([[]], [[5]], options).tolist() == [[0, 0, 0, 1, 1, 1, 0, 1]]


@pytest.mark.parametrize("rule", REFERENCE_LENGTHS)
def test_counting_looks_at_no_value(rule: str) -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    ids = torch.zeros(3, 4, 5, dtype=torch.int64, device="meta")
    flags = ids > 0
    batch = Padded(ids, flags, flags.cumsum(-1), missing=flags.any(-1), can_match=flags, break_ngrams=True)
    statistics = padded_statistics(batch, 3, REFERENCE_LENGTHS[rule], min_possible_matches=1)
    assert (statistics.shape, statistics.device.type, statistics.dtype) == ((3, 8), "meta", torch.int64)
