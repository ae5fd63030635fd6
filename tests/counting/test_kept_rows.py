"""Rows as a metric keeps them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.counting.rows import pack_rows, unpack_rows
from lightning_bleu.reading.ragged import BoolArray, IntArray

ROWS = np.array([[1, 0, 2, 3], [4, 4, 4, 4], [0, 0, 0, 5]])


def keep(rows: IntArray, mask: BoolArray | None) -> list[list[int]]:
    """The rows that are left after packing and unpacking."""
    rows_left: list[list[int]] = unpack_rows(torch.from_numpy(pack_rows(rows, mask))).tolist()
    return rows_left


def test_packed_rows_are_32_bit_integers_with_a_leading_column() -> None:
    packed = pack_rows(ROWS, None)
    assert packed.dtype == np.int32
    assert packed.tolist() == [[1, 1, 0, 2, 3], [1, 4, 4, 4, 4], [1, 0, 0, 0, 5]]


def test_a_sentence_that_does_not_count_keeps_its_place() -> None:
    packed = pack_rows(ROWS, np.array([True, False, True]))
    assert packed.tolist() == [[1, 1, 0, 2, 3], [1, -1, -1, -1, -1], [1, 0, 0, 0, 5]]


@pytest.mark.parametrize("counts", [True, False])
def test_a_mask_of_one_value_makes_the_batch_a_single_item(counts: bool) -> None:
    assert pack_rows(ROWS, np.array([counts]))[:, 0].tolist() == [1, 0, 0]
    assert keep(ROWS, np.array([counts])) == (ROWS.tolist() if counts else [])


def test_a_mask_of_one_value_for_one_sentence_is_like_any_other() -> None:
    for mask in (np.array([True]), None):
        assert pack_rows(ROWS[:1], mask).tolist() == [[1, 1, 0, 2, 3]]


@given(st.lists(st.tuples(st.lists(st.integers(0, 2**31 - 1), min_size=4, max_size=4), st.booleans()), max_size=6))
def test_unpacking_returns_the_rows_of_sentences_that_count(sentences: list[tuple[list[int], bool]]) -> None:
    rows = np.array([row for row, _ in sentences], np.int64).reshape(-1, 4)
    mask = np.array([counts for _, counts in sentences], bool)
    assert keep(rows, mask) == [row for row, counts in sentences if counts]
    assert keep(rows, None) == [row for row, _ in sentences]
