"""Likely mistakes in rows and answers; the others are in ``test_layouts.py``, with real Trainers."""

from __future__ import annotations

import pytest
import torch

from lightning_bleu.hugging_face.endings import suspect_joined_rows

IDS = torch.tensor([[5, 6, 7, 8], [5, 9, 4, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]).bool()


@pytest.mark.parametrize(
    ("labels", "are_joined"),
    [
        ([[-100, -100, 7, 8], [-100, 9, 4, -100]], True),
        ([[5, 6, 7, 8], [5, 9, 4, -100]], False),  # a copy of each prompt
        ([[-100, -100, 7, 8], [5, 9, 4, -100]], False),
        ([[-100, -100, 7, 3], [-100, 9, 4, -100]], False),
        ([[-100, 7, 8], [9, 4, -100]], False),
    ],
)
def test_rows_that_contain_their_answers_are_not_apart(labels: list[list[int]], are_joined: bool) -> None:
    mistakes = list(suspect_joined_rows(IDS, MASK, torch.tensor(labels)))
    assert [key for key, _ in mistakes] == ["joined rows"] * are_joined
