"""Packed rows: the statistics of sentences with what identifies them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu.bleu import BLEUSettings, count_rows
from lightning_bleu.core.batch import InputCounts, read_batch
from lightning_bleu.core.packed_rows import (
    SamePosition,
    checksums_of,
    count_inputs,
    pack_rows,
    positions_of,
    read_rows,
)


def pack(target: Any, positions: Any = None, preds: Any = None, **options: Any) -> Tensor:
    """Packed rows of sentences; hypotheses are equal to the references unless they are given."""
    settings = BLEUSettings.from_options(max_order=1, **options)
    batch = read_batch(target if preds is None else preds, target, settings)
    if positions is not None:
        batch = batch._replace(positions=np.array(positions, np.int64))
    return torch.from_numpy(pack_rows(batch, count_rows(batch, settings)))


# Packing


def test_packed_rows_are_32_bit_integers_with_four_leading_columns() -> None:
    packed = pack(["a b", "c"])
    assert packed.dtype == torch.int32
    assert packed[:, 4:].tolist() == [[2, 2, 2, 2], [1, 1, 1, 1]]
    assert positions_of(packed).tolist() == [-1, -1]


@pytest.mark.parametrize("position", [0, 1, 2**31 - 1, 2**31, 2**32, 2**40 + 5, 2**63 - 1])
def test_positions_have_64_bits(position: int) -> None:
    positions = positions_of(pack(["a"], positions=[position]))
    assert (positions.tolist(), positions.dtype) == ([position], torch.int64)


# Checksums


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a b"], ["b a"]),
        (["a b"], [["a", "b"]]),
        ([["a", "b"]], [["b", "a"]]),
        ([[["a", "b"]]], [[["a"], ["b"]]]),
        ([[["a b"]]], [[["a", "b"]]]),
        ([[[1, 2]]], [[[1], [2]]]),
        ([[[1], [2, 3]]], [[[1, 2], [3]]]),
        ([[1, 2]], [[2, 1]]),
    ],
)
def test_different_references_have_different_checksums(one: Any, other: Any) -> None:
    preds = [one[0][0]] if isinstance(one[0], list) and isinstance(one[0][0], list) else None
    first, second = (checksums_of(pack(target, preds=preds or one)).tolist() for target in (one, other))
    assert first != second


def test_the_checksum_is_that_of_the_references_whatever_the_hypothesis_and_the_batch_are() -> None:
    texts = [["a b"], ["c", "d e"], ["\ud800 \N{GRINNING FACE}"]]
    together = checksums_of(pack(texts, preds=["x"] * 3))
    alone = [checksums_of(pack([references], preds=["a longer one"])) for references in texts]
    assert torch.equal(together, torch.cat(alone))
    assert len(set(together.tolist())) == 3


def test_the_padding_and_the_type_of_ids_do_not_change_the_checksum() -> None:
    preds = [[5], [5]]
    expected = pack([[5, 6], [7]], preds=preds)
    for width, dtype in ((2, torch.int64), (5, torch.int32)):
        target = torch.zeros(2, width, dtype=dtype)
        target[0, :2], target[1, 0] = torch.tensor([5, 6]), 7
        assert torch.equal(pack(target, preds=torch.tensor(preds), pad_id=0), expected)


def test_the_checksum_of_an_empty_reference_does_not_depend_on_its_batch() -> None:
    alone = pack([[]], preds=[[]])  # lists of nothing, which may be tokens or ids
    for one in ([1], ["a"]):
        assert checksums_of(pack([[], one], preds=[one, one]))[0] == checksums_of(alone)[0]


# Reading


def test_all_rows_have_positions_or_none() -> None:
    without, having = pack(["a"]), pack(["a"], positions=[0])
    for both in ((without, having), (having, without)):
        with pytest.raises(ValueError, match="only some sentences have positions: pass an 'index' with"):
            read_rows(torch.cat(both))


def test_no_rows_are_no_sentences() -> None:
    kept = read_rows(pack([]))
    assert (kept.rows[:, 4:].shape, kept.order.shape) == ((0, 4), (0,))


def test_rows_that_were_read_keep_no_others_alive() -> None:
    """A sorted copy does not share the memory of what it was sorted from."""
    packed = pack(["a a", "a"], positions=[1, 0])
    kept = read_rows(packed)
    packed.zero_()
    assert positions_of(kept.rows).tolist() == [0, 1]


def test_identity_columns_are_enough_to_identify_sentences() -> None:
    packed = pack([["a", "b"], ["c"]], preds=["x", "y"], positions=[2**40, 3])
    identity = packed[:, :4]  # a view, in which rows have gaps between them
    assert positions_of(identity).tolist() == [2**40, 3]
    assert torch.equal(checksums_of(identity), packed[:, 3])
    # 2 sentences of text with 2 and 1 references
    assert count_inputs(identity) == InputCounts(strings=2, references=3, squared_references=5)
    assert count_inputs(identity[:0]) == InputCounts()


# Groups


def test_a_sentence_counts_once_per_position_and_group() -> None:
    packed = pack(["a", "a", "a", "a", "a"], positions=[1, 0, 1, 1, 0])
    kept = read_rows(packed, torch.tensor([1, 0, 0, 1, 0]))
    # by position, then by group: (0, 0), (1, 0), (1, 1); the last two rows are repeats
    assert kept.order.tolist() == [1, 2, 0]
    assert positions_of(kept.rows).tolist() == [0, 1, 1]
    assert torch.equal(kept.rows, packed[kept.order])


def test_different_references_may_have_the_same_position_in_different_groups_only() -> None:
    packed = pack(["a", "b"], positions=[5, 5])
    assert read_rows(packed, torch.tensor([1, 0])).order.tolist() == [1, 0]
    for groups in (torch.tensor([1, 1]), None):
        with pytest.raises(SamePosition, match="different sentences have the same 'index' 5: their references differ"):
            read_rows(packed, groups)


def test_repeats_are_found_in_each_group_whatever_is_between_them() -> None:
    """A row of another group between two repeats does not hide that they are repeats."""
    packed = pack(["a", "b", "c"], positions=[5, 5, 5])
    with pytest.raises(SamePosition):
        read_rows(packed, torch.tensor([0, 1, 0]))


def test_without_positions_all_rows_of_all_groups_count_in_their_own_order() -> None:
    kept = read_rows(pack(["a", "b", "a"]), torch.tensor([2, 0, 2]))
    assert kept.order.tolist() == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 4) | st.just(2**40), st.integers(-1, 3)), max_size=30), st.randoms())
def test_groups_sort_and_repeat_as_pairs_of_position_and_group_do(
    keys: list[tuple[int, int]], rng: random.Random
) -> None:
    """Beside a dict, whose first row of each key counts."""
    packed = pack([f"{position} {group}" for position, group in keys], positions=[position for position, _ in keys])
    first: dict[tuple[int, int], int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    kept = read_rows(packed, torch.tensor([group for _, group in keys], dtype=torch.int64))
    assert kept.order.tolist() == [first[key] for key in sorted(first)]
    # One group for all is no group.
    shared = pack([f"{position}" for position, _ in keys], positions=[position for position, _ in keys])
    group = torch.full((len(keys),), rng.randrange(9))
    assert torch.equal(read_rows(shared, group).order, read_rows(shared).order)
