"""Tokens in rows of equal length."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.counting.devices import CPU
from lightning_bleu.counting.padded import PaddedSide, join, pad_ragged, pad_tensors
from lightning_bleu.reading.batch import read_padded
from lightning_bleu.reading.ragged import Ragged
from lightning_bleu.reading.recognize import recognize
from lightning_bleu.settings.special_ids import SpecialIds
from tests.helpers.counting import Ids, id_batches, remove_special_ids


@given(st.lists(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), min_size=1, max_size=4), min_size=1))
def test_lists_and_tensors_are_padded_alike(sentences: list[list[Ids]]) -> None:
    rows = list(chain.from_iterable(sentences))
    counts = np.array([len(group) for group in sentences])
    ragged = Ragged.of(np.array(list(chain.from_iterable(rows)), np.int64), np.array(list(map(len, rows))))
    width, most = max(map(len, rows)), max(map(len, sentences))
    for side in (
        pad_ragged(ragged, counts, CPU),
        pad_tensors([torch.tensor(row, dtype=torch.int64) for row in rows], counts),
    ):
        assert side.ids.shape == (len(sentences), most, width)
        assert side.ids.dtype == torch.int64
        assert side.lengths is not None
        expected = [[*map(len, group)] + [-1] * (most - len(group)) for group in sentences]
        assert side.lengths.tolist() == expected
        found = [
            [ids[:length].tolist() for ids, length in zip(group, lengths) if length >= 0]
            for group, lengths in zip(side.ids, side.lengths)
        ]
        assert found == sentences


@given(
    batch=id_batches(min_sentences=0),
    pad_id=st.sampled_from([None, 0, 5]),
    bos_id=st.sampled_from([None, 1, 2]),
    eos_id=st.sampled_from([None, 0, 2]),
    ignore_ids=st.sampled_from([(), (-100,), (4, 7)]),
    as_lists=st.booleans(),
)
def test_tokens_are_told_from_padding_and_special_ids(
    batch: tuple[Any, Any],
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int | None,
    ignore_ids: tuple[int, ...],
    as_lists: bool,
) -> None:
    preds, target = batch
    options: dict[str, Any] = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "ignore_ids": ignore_ids}
    expected = []
    for hypothesis, group in zip(preds, target):
        hypothesis, *references = (remove_special_ids(ids.tolist(), **options) for ids in (hypothesis, *group))
        if isinstance(target, torch.Tensor) and any(references):
            references = [reference for reference in references if reference]
        expected.append([hypothesis, *references])
    if as_lists and isinstance(preds, list):
        preds = [ids.tolist() for ids in preds]
    if as_lists and isinstance(target, list):
        target = [[ids.tolist() for ids in group] for group in target]
    _, hypotheses, references_, counts = recognize(preds, target)
    padded = read_padded(hypotheses, references_, counts, SpecialIds(**options), CPU)
    assert padded.rows() == expected
    assert torch.equal(padded.lengths, padded.is_token.sum(-1))
    assert torch.equal(padded.running_counts, padded.is_token.cumsum(-1))
    assert padded.can_match is None


@pytest.mark.parametrize("removed", [(), (0,), (9, 10)])
def test_sides_of_different_widths_are_joined(removed: tuple[int, ...]) -> None:
    narrow, wide = torch.tensor([[[1, 2]]]), torch.tensor([[[3, 4, 5, 6]]])
    special_ids = SpecialIds(ignore_ids=removed)
    assert join(PaddedSide(narrow), PaddedSide(wide), special_ids).rows() == [[[1, 2], [3, 4, 5, 6]]]
    assert join(PaddedSide(wide), PaddedSide(narrow), special_ids).rows() == [[[3, 4, 5, 6], [1, 2]]]
    lengths = torch.tensor([[1]])
    assert join(PaddedSide(narrow, lengths), PaddedSide(wide), special_ids).rows() == [[[1], [3, 4, 5, 6]]]
    assert join(PaddedSide(wide), PaddedSide(narrow, lengths), special_ids).rows() == [[[3, 4, 5, 6], [1]]]


def test_filler_is_missing_and_an_empty_reference_of_a_list_is_not() -> None:
    hypotheses = PaddedSide(torch.tensor([[[5, 6]], [[5, 0]]]))
    references = torch.tensor([[[5, 6], [0, 0]], [[0, 0], [0, 0]]])
    padded = join(hypotheses, PaddedSide(references), SpecialIds(pad_id=0))
    assert padded.missing is not None
    assert padded.missing[:, 1:].tolist() == [[False, True], [True, True]]
    assert padded.rows() == [[[5, 6], [5, 6]], [[5], [], []]]  # not all references are missing
    padded = join(hypotheses, PaddedSide(references, torch.tensor([[2, 0], [0, -1]])), SpecialIds(pad_id=0))
    assert padded.missing is not None
    assert padded.missing[:, 1:].tolist() == [[False, False], [False, True]]
    assert padded.rows() == [[[5, 6], [5, 6], []], [[5], []]]


@pytest.mark.parametrize("special_ids", [SpecialIds(), SpecialIds(ignore_ids=()), SpecialIds(pad_id=0, eos_id=2)])
def test_sides_without_columns_have_no_tokens(special_ids: SpecialIds) -> None:
    hypotheses, references = torch.zeros(2, 1, 0).long(), torch.zeros(2, 2, 0).long()
    padded = join(PaddedSide(hypotheses), PaddedSide(references), special_ids)
    assert padded.lengths.tolist() == [[0, 0, 0]] * 2
    assert padded.rows() == [[[], [], []]] * 2
    padded = join(PaddedSide(hypotheses), PaddedSide(references, torch.tensor([[0, -1], [0, 0]])), special_ids)
    assert padded.rows() == [[[], []], [[], [], []]]


def test_unknown_words_cannot_match() -> None:
    ids = torch.tensor([[[5, 3, 6]]])
    padded = join(PaddedSide(ids), PaddedSide(ids), SpecialIds(unk_id=3))
    assert padded.can_match is not None
    assert padded.can_match.tolist() == [[[True, False, True]] * 2]
    assert padded.lengths.tolist() == [[3, 3]]


SPECIAL_IDS = [
    SpecialIds(),
    SpecialIds(ignore_ids=()),
    SpecialIds(ignore_ids=(), eos_id=2),
    SpecialIds(pad_id=0, bos_id=1, eos_id=2, unk_id=3, break_ngrams=True),
    SpecialIds(pad_id=0, eos_id=0),
]


@pytest.mark.parametrize("special_ids", SPECIAL_IDS, ids=str)
def test_reading_looks_at_no_value(special_ids: SpecialIds) -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    device = torch.device("meta")

    def ids(*shape: int) -> torch.Tensor:
        return torch.zeros(math.prod(shape), dtype=torch.int64, device=device).reshape(shape)

    hypotheses: list[Any] = [ids(2, 5), [ids(3), ids(0)], [[1, 2, 3], []]]
    references: list[Any] = [
        ids(2, 6),
        ids(2, 3, 4),
        [ids(2), ids(3)],
        [[ids(2)], [ids(3), ids(4)]],
        [[[1], []], [[2]]],
    ]
    for preds in hypotheses:
        for target in references:
            recognized = recognize(preds, target)
            padded = read_padded(*recognized[1:], special_ids, device)
            assert padded.ids.shape[:2] == (2, 1 + int(recognized.counts.max()))
            tensors = [value for value in padded if isinstance(value, torch.Tensor)]
            assert {tensor.device.type for tensor in tensors} == {"meta"}
