"""Tokens without padding."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.reading.ragged import Ragged, clean, drop_empty_references, next_positions
from tests.helpers.counting import Ids, make_ragged, remove_special_ids

ROWS = st.lists(st.lists(st.integers(0, 7), max_size=8), max_size=5)


def flatten(rows: list[Ids]) -> Ragged:
    return Ragged(np.array([*chain.from_iterable(rows)], np.int64), np.array([*map(len, rows)], np.int64))


@given(ROWS)
def test_rows_are_the_tokens_of_each_segment(rows: list[Ids]) -> None:
    assert flatten(rows).rows() == rows


@given(st.lists(st.booleans()), st.lists(st.integers(0, 10)))
def test_next_positions_are_those_of_the_next_flag(flags: list[bool], positions: list[int]) -> None:
    positions = [min(position, len(flags)) for position in positions]
    expected = [[*flags, True].index(True, position) for position in positions]
    assert next_positions(np.array(flags, bool), np.array(positions, np.int64)).tolist() == expected


@given(
    rows=ROWS,
    options=st.fixed_dictionaries(
        {
            "pad_id": st.sampled_from([None, 0, 5]),
            "bos_id": st.sampled_from([None, 1, 2]),
            "eos_id": st.sampled_from([None, 0, 2]),
            "ignore_ids": st.sampled_from([(), (-100,), (4, 7)]),
        }
    ),
)
def test_cleaning_removes_what_the_arguments_describe(rows: list[Ids], options: dict[str, Any]) -> None:
    ragged = flatten(rows)
    cleaned = clean(ragged, BLEUSettings.from_options(**options))
    assert cleaned.rows() == [remove_special_ids(row, **options) for row in rows]
    assert ragged.rows() == rows  # the argument does not change


@given(st.lists(st.lists(st.lists(st.just(7), max_size=1), min_size=3, max_size=3)))
def test_empty_references_are_dropped_unless_they_are_the_only_one(sentences: list[list[Ids]]) -> None:
    """Each sentence is a hypothesis with two references."""
    ragged, counts = drop_empty_references(*make_ragged(sentences))
    kept = [[row for row in references if row] or [[]] for _, *references in sentences]
    assert counts.tolist() == [*map(len, kept)]
    assert ragged.rows() == [group[0] for group in sentences] + [*chain.from_iterable(kept)]
