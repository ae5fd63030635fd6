"""Which tokens of a row are the prompt and the last answer, and what a model generates from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.hugging_face.prompts import IGNORED, find_generation_inputs, find_prompts, gather_prompts

PAD = 0
IDS = st.lists(st.integers(1, 9), min_size=1, max_size=3)
CHATS = st.lists(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=3), min_size=1, max_size=3)


def pad(rows: list[list[int]], fill: int, pad_left: list[bool]) -> torch.Tensor:
    """Rows that are padded to one width, each on its side."""
    width = max(map(len, rows))
    padded = []
    for row, left in zip(rows, pad_left):
        padding = [fill] * (width - len(row))
        padded.append(padding + row if left else row + padding)
    return torch.tensor(padded)


@given(CHATS, st.lists(st.booleans(), min_size=3, max_size=3))
def test_the_prompt_is_everything_before_the_last_answer(chats: Any, pad_left: list[bool]) -> None:
    rows, labels, expected = [], [], []
    for chat in chats:
        row: list[int] = []
        labels_of_row: list[int] = []
        for question, answer in chat:
            expected_of_row = (row + question, answer)
            row = row + question + answer
            labels_of_row += [IGNORED] * len(question) + answer
        rows.append(row)
        labels.append(labels_of_row)
        expected.append(expected_of_row)
    ids = pad(rows, PAD, pad_left)
    in_prompt, answers = find_prompts({"input_ids": ids, "attention_mask": ids != PAD}, pad(labels, IGNORED, pad_left))
    assert answers is not None
    found = []
    for row_ids, mask, answer in zip(ids, in_prompt, answers):
        found.append((row_ids[mask].tolist(), answer[answer != IGNORED].tolist()))
    assert found == expected


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        ([[3, 7, 8]], [[7, 1]], r"labels have shape \(1, 2\), and input_ids \(1, 3\), so they are not prompts with"),
        (
            [[3, 7, 8, 9]],
            [[IGNORED, 8, 9, IGNORED]],
            "the answer in row 0 begins with another id .* do not shift labels",
        ),
        ([[3, 7, 8]], [[3, 7, 8]], r"got none in row 0: mask the labels of the prompt \(in TRL, give the dataset"),
        ([[3, 7], [3, 7]], [[IGNORED, 7], [IGNORED] * 2], "an answer, whose labels are not -100, got none in row 1"),
        ([[3, 7], [PAD, PAD]], None, "must have a prompt, .* got none in row 1"),
    ],
)
def test_labels_that_are_not_those_of_the_rows_are_errors(ids: Any, labels: Any, message: str) -> None:
    ids = torch.tensor(ids)
    with pytest.raises(ValueError, match=message):
        find_prompts({"input_ids": ids, "attention_mask": ids != PAD}, None if labels is None else torch.tensor(labels))


def test_later_labels_may_differ_from_the_ids() -> None:
    ids, labels = torch.tensor([[3, 7, 8]]), torch.tensor([[IGNORED, 7, 1]])
    _, answers = find_prompts({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, labels)
    assert answers is not None
    assert answers.tolist() == labels.tolist()


ROW = torch.tensor([[3, 4, 5, 6]])
ONES = torch.ones(1, 4, dtype=torch.long)


@pytest.mark.parametrize(
    "inputs",
    [
        {"attention_mask": ONES, "position_ids": torch.tensor([[0, 1, 0, 1]])},
        {"attention_mask": torch.tensor([[1, 1, 2, 2]])},
        {"attention_mask": torch.ones(1, 1, 4, 4)},
        {"position_ids": torch.tensor([[0, 1, 0, 1]])},
    ],
)
def test_packed_rows_are_an_error(inputs: Any) -> None:
    with pytest.raises(ValueError, match=r"eval_packing=False"):
        find_prompts({"input_ids": ROW, **inputs}, None)


@pytest.mark.parametrize(
    "inputs",
    [
        {"position_ids": torch.tensor([[1, 1, 0, 1]]), "attention_mask": torch.tensor([[0, 0, 1, 1]])},
        {"position_ids": torch.tensor([[0, 1, 1, 1]]), "attention_mask": torch.tensor([[1, 1, 0, 0]])},
        {"position_ids": torch.zeros(3, 1, 4), "attention_mask": torch.tensor([[0, 0, 1, 1]]).bool()},
    ],
)
def test_padded_rows_are_not_packed(inputs: Any) -> None:
    in_prompt, _ = find_prompts({"input_ids": ROW, **inputs}, None)
    assert torch.equal(in_prompt, inputs["attention_mask"].bool())


def test_what_a_token_has_goes_with_it_and_images_stay() -> None:
    ids = torch.tensor([[5, 9, 6, 7], [3, 4, 9, 2]])
    in_prompt = torch.tensor([[True, True, True, False], [True, False, False, False]])
    per_token = {"mm_token_type_ids": ids % 2, "cross_attention_mask": torch.stack([ids, ids + 10], -1)}
    others = {"pixel_values": torch.ones(2, 4), "use_audio_in_video": False}
    prompts = gather_prompts({"input_ids": ids, **per_token, **others}, in_prompt, PAD)
    assert prompts["input_ids"].tolist() == [[5, 9, 6], [0, 0, 3]]
    assert prompts["mm_token_type_ids"].tolist() == [[1, 1, 0], [0, 0, 1]]
    assert prompts["cross_attention_mask"].tolist() == [[[5, 15], [9, 19], [6, 16]], [[0, 0], [0, 0], [3, 13]]]
    assert prompts["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]
    assert all(prompts[name] is value for name, value in others.items())


class Model:
    def forward(self, input_ids: Any, pixel_values: Any, position_ids: Any, labels: Any, **kwargs: Any) -> None:
        pass


def test_a_model_gets_what_it_takes() -> None:
    batch = dict.fromkeys(["input_ids", "pixel_values", "position_ids", "labels", "rope_deltas", "texts"], 1)
    wrapped = SimpleNamespace(get_base_model=Model)
    for model in (Model(), wrapped):
        assert find_generation_inputs(model, batch, ["labels"]) == {"input_ids": 1, "pixel_values": 1}
    assert find_generation_inputs(Model(), {**batch, "pixel_values": None}, ["labels"]) == {"input_ids": 1}
