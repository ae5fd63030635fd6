"""With which reference a hypothesis is compared in length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.settings.lengths import REFERENCE_LENGTHS, choose_padded, choose_ragged
from lightning_bleu.settings.settings import Settings
from tests.helpers.counting import BOTH_WAYS, Count

DEFINITIONS: dict[str, Callable[[int, list[int]], int]] = {
    # Papineni et al. (2002), section 2.2.2, and sacreBLEU: of two that are equally close the shorter
    "closest": lambda hypothesis, references: min(references, key=lambda length: (abs(length - hypothesis), length)),
    # torchmetrics: of two that are equally close the first
    "closest-first": lambda hypothesis, references: min(references, key=lambda length: abs(length - hypothesis)),
    # the GNMT script, Hugging Face evaluate
    "shortest": lambda hypothesis, references: min(references),
}
LENGTHS = st.integers(0, 12) | st.integers(0, 2**31)
SENTENCES = st.lists(st.tuples(LENGTHS, st.lists(LENGTHS, min_size=1, max_size=5)), min_size=1, max_size=6)
every_rule = pytest.mark.parametrize("name", REFERENCE_LENGTHS)


def test_every_rule_has_a_definition() -> None:
    assert DEFINITIONS.keys() == REFERENCE_LENGTHS.keys()


@every_rule
@given(SENTENCES)
def test_the_lengths_are_those_of_the_definition(name: str, sentences: list[tuple[int, list[int]]]) -> None:
    expected = [DEFINITIONS[name](hypothesis, references) for hypothesis, references in sentences]
    counts = [len(references) for _, references in sentences]
    ragged = choose_ragged(
        REFERENCE_LENGTHS[name],
        np.array([hypothesis for hypothesis, _ in sentences]),
        np.array([length for _, references in sentences for length in references]),
        np.array(counts),
    )
    assert ragged.tolist() == expected
    most = max(counts)
    # The length of a segment that does not exist has no meaning.
    rows = [[hypothesis, *references] + [hypothesis] * (most - len(references)) for hypothesis, references in sentences]
    missing = torch.tensor([[False] * (1 + count) + [True] * (most - count) for count in counts])
    padded = choose_padded(REFERENCE_LENGTHS[name], torch.tensor(rows), missing)
    assert padded.tolist() == expected
    if not missing.any():
        assert choose_padded(REFERENCE_LENGTHS[name], torch.tensor(rows), None).tolist() == expected


@every_rule
def test_a_batch_without_sentences_has_no_lengths(name: str) -> None:
    none = np.zeros(0, np.int64)
    assert choose_ragged(REFERENCE_LENGTHS[name], none, none, none).tolist() == []
    assert choose_padded(REFERENCE_LENGTHS[name], torch.zeros(0, 3).long(), None).tolist() == []


@every_rule
def test_choosing_among_padded_references_looks_at_no_value(name: str) -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    lengths = torch.zeros(5, 4, dtype=torch.int64, device="meta")
    for missing in (None, lengths > 0):
        assert choose_padded(REFERENCE_LENGTHS[name], lengths, missing).shape == (5,)


@pytest.mark.parametrize("way", BOTH_WAYS)
@pytest.mark.parametrize(
    ("reference_length", "expected"), [("closest", [2, 3]), ("closest-first", [4, 3]), ("shortest", [2, 1])]
)
def test_missing_references_are_not_chosen(way: Count, reference_length: str, expected: list[int]) -> None:
    def lengths(preds: Any, target: Any, **options: Any) -> list[int]:
        settings = Settings.from_options(reference_length=reference_length, **options)
        column: list[int] = way(preds, target, settings)[:, -1].tolist()
        return column

    target = torch.tensor([[[0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]])
    preds = torch.tensor([[1, 1, 1], [1, 1, 1]])
    assert lengths(preds, target, pad_id=0) == expected
    # the same without filler
    assert lengths([[1, 1, 1], [1, 1, 1]], [[[1] * 4, [1] * 2], [[1], [1] * 3]]) == expected
    # of 7 and 8 tokens, 7 are closest to one token
    assert lengths([[1], [1], [1]], [[[1] * 9], [[1] * 7, [1] * 8], [[1] * 5]]) == [9, 7, 5]
