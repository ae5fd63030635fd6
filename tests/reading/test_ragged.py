"""Tokens without padding."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.reading.ragged import (
    Ragged,
    RaggedBatch,
    clean,
    concatenate,
    drop_fillers,
    first_positions,
    merge,
    next_positions,
    select,
)
from lightning_bleu.settings.special_ids import SpecialIds
from tests.helpers.counting import (
    Ids,
    Pieces,
    make_ragged,
    piece_batches,
    remove_special_ids,
    split_at_special_ids,
)

SEGMENTS = st.lists(st.lists(st.lists(st.integers(0, 7), max_size=5), min_size=1, max_size=3), max_size=5)
"""Segments of one or more pieces."""


def flatten(segments: list[Pieces]) -> Ragged:
    pieces = [(number, piece) for number, segment in enumerate(segments) for piece in segment]
    return Ragged(
        np.array([id_ for _, piece in pieces for id_ in piece], np.int64),
        np.array([len(piece) for _, piece in pieces], np.int64),
        np.array([number for number, _ in pieces], np.int64),
    )


def pieces_of(ragged: Ragged) -> list[Pieces]:
    """The opposite of :func:`flatten`."""
    ids = iter(ragged.ids.tolist())
    segments: list[Pieces] = [[] for _ in range(ragged.segment_count)]
    for length, segment in zip(ragged.lengths.tolist(), ragged.segments.tolist()):
        segments[segment].append([next(ids) for _ in range(length)])
    assert not list(ids)
    return segments


@given(SEGMENTS)
def test_rows_are_the_tokens_of_each_segment_whatever_its_pieces(segments: list[Pieces]) -> None:
    ragged = flatten(segments)
    rows = [list(chain.from_iterable(segment)) for segment in segments]
    assert ragged.segment_count == len(segments)
    assert ragged.rows() == rows
    assert ragged.segment_lengths.tolist() == list(map(len, rows))


@given(st.lists(st.integers(0, 5)).map(sorted))
def test_first_positions_are_where_an_ascending_array_changes(values: list[int]) -> None:
    expected = [values.index(value) for value in dict.fromkeys(values)]
    assert first_positions(np.array(values, np.int64)).tolist() == expected


@given(st.lists(st.booleans()), st.lists(st.integers(0, 10)))
def test_next_positions_are_those_of_the_next_flag(flags: list[bool], positions: list[int]) -> None:
    positions = [min(position, len(flags)) for position in positions]
    expected = [[*flags, True].index(True, position) for position in positions]
    assert next_positions(np.array(flags, bool), np.array(positions, np.int64)).tolist() == expected


def split_at(pieces: Pieces, removed: set[int], *, break_ngrams: bool) -> Pieces:
    """Remove ids word for word as :func:`select` describes it, without empty pieces."""
    result: Pieces = []
    for piece in pieces:
        result.append([])
        for id_ in piece:
            if id_ not in removed:
                result[-1].append(id_)
            elif break_ngrams:
                result.append([])
    return [piece for piece in result if piece]


@given(SEGMENTS, st.sets(st.integers(0, 7)), st.booleans())
def test_a_removed_token_ends_a_piece_or_makes_its_neighbors_neighbors(
    segments: list[Pieces], removed: set[int], break_ngrams: bool
) -> None:
    ragged = flatten(segments)
    selected = select(ragged, ~np.isin(ragged.ids, list(removed)), break_ngrams=break_ngrams)
    assert selected.segment_count == len(segments)  # every segment keeps a piece, which may be empty
    found = [[piece for piece in segment if piece] for segment in pieces_of(selected)]
    assert found == [split_at(segment, removed, break_ngrams=break_ngrams) for segment in segments]
    assert not break_ngrams or len(selected.segments) >= len(ragged.segments)


@given(
    rows=st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=5),
    pad_id=st.sampled_from([None, 0, 5]),
    bos_id=st.sampled_from([None, 1, 2]),
    eos_id=st.sampled_from([None, 0, 2]),
    ignore_ids=st.sampled_from([(), (-100,), (4, 7)]),
)
def test_cleaning_removes_what_the_arguments_describe(
    rows: list[Ids], pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: tuple[int, ...]
) -> None:
    options: dict[str, Any] = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "ignore_ids": ignore_ids}
    expected = [remove_special_ids(row, **options) for row in rows]
    ragged = flatten([[row] for row in rows])
    cleaned = clean(ragged, SpecialIds(**options))
    assert cleaned.rows() == expected
    assert len(cleaned.lengths) == len(rows)  # one piece each
    assert ragged.rows() == rows  # the argument is left alone
    broken = clean(ragged, SpecialIds(**options, break_ngrams=True))
    assert broken.rows() == expected
    pieces = [[piece for piece in split_at_special_ids(row, **options) if piece] for row in rows]
    assert [[piece for piece in segment if piece] for segment in pieces_of(broken)] == pieces


def test_cleaning_can_break_ngrams_at_removed_ids_but_not_at_the_end() -> None:
    ragged = Ragged.of(np.array([1, 5, 6, 0, 7, 2, 8, 0]), np.array([8]))
    cleaned = clean(ragged, SpecialIds(pad_id=0, bos_id=1, eos_id=2, break_ngrams=True))
    assert [piece for piece in pieces_of(cleaned)[0] if piece] == [[5, 6], [7]]


@given(st.lists(st.lists(st.lists(st.lists(st.just(7), max_size=1), min_size=1, max_size=2), min_size=3, max_size=3)))
def test_references_without_a_token_are_dropped_if_the_sentence_has_another(sentences: list[list[Pieces]]) -> None:
    """Each sentence is a hypothesis with two references, of one or two pieces each."""
    dropped = drop_fillers(make_ragged(sentences))
    kept = [[pieces for pieces in references if any(pieces)] or references for _, *references in sentences]
    assert dropped.reference_counts.tolist() == [len(references) for references in kept]
    assert pieces_of(dropped.tokens) == [group[0] for group in sentences] + [
        pieces for group in kept for pieces in group
    ]


@given(
    st.lists(
        st.lists(st.lists(st.lists(st.just(7), max_size=1), min_size=1, max_size=3), min_size=2, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_every_piece_knows_its_sentence_and_its_source(sentences: list[list[Pieces]]) -> None:
    batch = make_ragged(sentences)
    owners, sources = batch.piece_owners()
    owner_of_segment = [
        *range(len(sentences)),
        *(sentence for sentence, group in enumerate(sentences) for _ in group[1:]),
    ]
    assert owners.tolist() == [owner_of_segment[segment] for segment in batch.tokens.segments]
    assert batch.hypothesis_pieces == sum(len(group[0]) for group in sentences)
    most = max(len(group) for group in sentences) - 1
    seen: dict[tuple[int, int], int] = {}
    for segment, owner, source in zip(batch.tokens.segments.tolist(), owners.tolist(), sources.tolist()):
        assert source in ([1] if segment < len(sentences) else range(0, 2 * most, 2))
        assert seen.setdefault((owner, source), segment) == segment  # different for every segment of a sentence


def test_a_batch_without_sentences_has_no_pieces() -> None:
    assert (
        RaggedBatch(Ragged.of(np.zeros(0, np.int64), np.zeros(0, np.int64)), np.zeros(0, np.int64)).sentence_count == 0
    )


@given(st.lists(SEGMENTS, min_size=1, max_size=4))
def test_concatenated_parts_have_the_segments_of_all(parts: list[list[Pieces]]) -> None:
    assert pieces_of(concatenate([flatten(part) for part in parts])) == list(chain.from_iterable(parts))


@given(st.lists(piece_batches, min_size=1, max_size=4))
def test_merged_batches_are_the_same_as_one_batch_of_all_sentences(batches: list[list[list[Pieces]]]) -> None:
    merged, expected = merge([make_ragged(batch) for batch in batches]), make_ragged(list(chain.from_iterable(batches)))
    assert pieces_of(merged.tokens) == pieces_of(expected.tokens)
    assert merged.reference_counts.tolist() == expected.reference_counts.tolist()
