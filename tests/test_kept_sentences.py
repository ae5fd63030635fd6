from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.kept_sentences import gather, pack_sentences, unpack_sentences
from tests.helpers.process_groups import group_of_one

STATISTICS = torch.tensor([[1, 0, 2, 3], [4, 4, 4, 4], [0, 0, 0, 5]])


def test_packed_sentences_are_32_bit_integers_with_a_leading_column() -> None:
    packed = pack_sentences(STATISTICS, None)
    assert packed.dtype == torch.int32
    assert packed.tolist() == [[1, 1, 0, 2, 3], [1, 4, 4, 4, 4], [1, 0, 0, 0, 5]]


def test_a_sentence_that_does_not_count_keeps_its_place() -> None:
    packed = pack_sentences(STATISTICS, torch.tensor([True, False, True]))
    assert packed.tolist() == [[1, 1, 0, 2, 3], [1, -1, -1, -1, -1], [1, 0, 0, 0, 5]]
    assert unpack_sentences(packed).tolist() == STATISTICS[[0, 2]].tolist()


@pytest.mark.parametrize("counts", [True, False])
def test_a_mask_of_one_value_makes_the_batch_a_single_item(counts: bool) -> None:
    packed = pack_sentences(STATISTICS, torch.tensor([counts]))
    assert packed[:, 0].tolist() == [1, 0, 0]
    assert unpack_sentences(packed).tolist() == (STATISTICS.tolist() if counts else [])


def test_a_mask_of_one_value_for_one_sentence_is_like_any_other() -> None:
    for mask in (torch.tensor([True]), None):
        assert pack_sentences(STATISTICS[:1], mask).tolist() == [[1, 1, 0, 2, 3]]


@given(st.lists(st.tuples(st.lists(st.integers(0, 2**31 - 1), min_size=4, max_size=4), st.booleans()), max_size=6))
def test_unpacking_returns_the_sentences_that_count(sentences: list[tuple[list[int], bool]]) -> None:
    statistics = torch.tensor([row for row, _ in sentences], dtype=torch.int64).reshape(-1, 4)
    mask = torch.tensor([counts for _, counts in sentences], dtype=torch.bool)
    assert unpack_sentences(pack_sentences(statistics, mask)).tolist() == [row for row, counts in sentences if counts]
    assert unpack_sentences(pack_sentences(statistics, None)).tolist() == [row for row, _ in sentences]


def test_one_process_gathers_what_it_has() -> None:
    packed = pack_sentences(STATISTICS, torch.tensor([True, False, True]))
    totals = torch.tensor([3, 2**40])
    with group_of_one():
        (sentences,) = gather(packed)
        (sums,) = gather(totals)
    assert torch.equal(sentences, packed)
    assert torch.equal(sums, totals)


def test_a_process_without_sentences_gathers_an_empty_tensor() -> None:
    with group_of_one():
        (sentences,) = gather(torch.tensor([]))  # what torchmetrics passes if a list state is empty
    assert (sentences.shape, sentences.dtype) == ((0,), torch.int32)
