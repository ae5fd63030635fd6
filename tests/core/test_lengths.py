"""With which reference a hypothesis is compared in length. In batches of all forms: tests/fuzz/ids.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.bleu import choose_reference_lengths
from lightning_bleu.core.conventions import REFERENCE_LENGTHS
from tests.fuzz.formulas import choose_length

LENGTHS = st.integers(0, 12) | st.integers(0, 2**31)
SENTENCES = st.lists(st.tuples(LENGTHS, st.lists(LENGTHS, min_size=1, max_size=5)), max_size=6)


@pytest.mark.parametrize("name", REFERENCE_LENGTHS)
@given(SENTENCES)
def test_the_lengths_are_those_of_the_definition(name: str, sentences: list[tuple[int, list[int]]]) -> None:
    chosen = choose_reference_lengths(
        name,
        np.array([hypothesis for hypothesis, _ in sentences], np.int64),
        np.array([length for _, references in sentences for length in references], np.int64),
        np.array([len(references) for _, references in sentences], np.int64),
    )
    assert chosen.tolist() == [choose_length(name, *sentence) for sentence in sentences]
