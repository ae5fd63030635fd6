"""With which reference a hypothesis is compared in length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.bleu import choose_reference_lengths
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS
from tests.fuzz.formulas import choose_length
from tests.helpers.counting import count

LENGTHS = st.integers(0, 12) | st.integers(0, 2**31)
SENTENCES = st.lists(st.tuples(LENGTHS, st.lists(LENGTHS, min_size=1, max_size=5)), max_size=6)


@pytest.mark.parametrize("name", REFERENCE_LENGTHS)
@given(SENTENCES)
def test_the_lengths_are_those_of_the_definition(name: str, sentences: list[tuple[int, list[int]]]) -> None:
    chosen = choose_reference_lengths(
        REFERENCE_LENGTHS[name],
        np.array([hypothesis for hypothesis, _ in sentences], np.int64),
        np.array([length for _, references in sentences for length in references], np.int64),
        np.array([len(references) for _, references in sentences], np.int64),
    )
    assert chosen.tolist() == [choose_length(name, *sentence) for sentence in sentences]


@pytest.mark.parametrize(
    ("reference_length", "expected"), [("closest", [2, 3]), ("closest-first", [4, 3]), ("shortest", [2, 1])]
)
def test_the_option_chooses_among_the_references_that_are_not_padding(
    reference_length: str, expected: list[int]
) -> None:
    target = torch.tensor([[[0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]])
    rows = count(torch.tensor([[1, 1, 1], [1, 1, 1]]), target, pad_id=0, reference_length=reference_length)
    assert [row[-1] for row in rows] == expected
    rows = count([[1] * 3] * 2, [[[1] * 4, [1] * 2], [[1], [1] * 3]], reference_length=reference_length)
    assert [row[-1] for row in rows] == expected
