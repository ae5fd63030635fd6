"""Strings, tokens, and ids, and how many sentences of each a batch has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.core.batch import InputCounts, read_batch


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_the_number_of_references_is_known_from_the_sums_alone(numbers: list[int]) -> None:
    """Of all lists with the same length and sum, only a uniform one has the least sum of squares."""
    batch = read_batch(["a"] * len(numbers), [["b"] * number for number in numbers], BLEUSettings.from_options())
    counts = batch.input_counts
    assert counts.reference_count == (str(numbers[0]) if len(set(numbers)) == 1 else "var")
    assert (counts.sentence_count, counts.references) == (len(numbers), sum(numbers))


@pytest.mark.parametrize(
    ("preds", "target", "expected"),
    [
        # strings, tokens, ids, empty, references, squared references
        (["a b", "c"], ["a", "c"], (2, 0, 0, 0, 2, 2)),
        (["a b", "c"], [["a", "b"], ["c"]], (2, 0, 0, 0, 3, 5)),
        ([["a", "b"]], [["a"]], (0, 1, 0, 0, 1, 1)),
        ([[1, 2]], [[[1], [2], [3]]], (0, 0, 1, 0, 3, 9)),
        # In a tensor, empty references do not count, but for one if all references of a sentence are empty.
        (torch.tensor([[1], [2]]), torch.tensor([[[1], [2]], [[3], [-100]]]), (0, 0, 2, 0, 3, 5)),
        (torch.tensor([[1], [2]]), torch.tensor([[[1], [-100]], [[-100], [-100]]]), (0, 0, 2, 0, 2, 2)),
        # Lists without any token are of no kind, unless another list of the batch has one.
        ([[], []], [[[]], [[], []]], (0, 0, 0, 2, 3, 5)),
        ([[], []], [[[]], [[], [5]]], (0, 0, 2, 0, 3, 5)),
        ([["a"], []], [[[]], [[]]], (0, 2, 0, 0, 2, 2)),
        ([""], [""], (1, 0, 0, 0, 1, 1)),
        ([], [], (0, 0, 0, 0, 0, 0)),
    ],
)
def test_input_counts_say_what_sentences_are_made_of(preds: Any, target: Any, expected: tuple[int, ...]) -> None:
    batch = read_batch(preds, target, BLEUSettings.from_options(tokenizer="none"))
    assert batch.input_counts == InputCounts(*expected)
    # Masks and several batches: tests/test_metric.py. Packed rows: tests/core/test_packed_rows.py
