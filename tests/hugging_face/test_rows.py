"""Which tokens of a row are prompts and answers, and what contradicts a layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.hugging_face.rows import IGNORED, Layout, check_answers, find_answers, find_token_mask

PAD = 0


def find(layout: Layout, ids: Any, labels: Any) -> Any:
    rows = torch.tensor(ids)
    return find_answers(layout, rows, rows != PAD, torch.tensor(labels))


Chat = list[tuple[list[int], list[int]]]
IDS = st.lists(st.integers(1, 9), min_size=1, max_size=3)
CHATS = st.lists(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=3), min_size=1, max_size=3)


def encode(chats: list[Chat], pad_left: list[bool]) -> tuple[list[list[int]], list[list[int]]]:
    """Ids and labels of chats, which are padded to one width."""
    rows, labels = [], []
    for chat in chats:
        rows.append([token for question, answer in chat for token in question + answer])
        labels.append([token for question, answer in chat for token in [IGNORED] * len(question) + answer])
    width = max(map(len, rows))
    for number, left in zip(range(len(rows)), pad_left):
        for values, fill in ((rows, PAD), (labels, IGNORED)):
            padding = [fill] * (width - len(values[number]))
            values[number] = padding + values[number] if left else values[number] + padding
    return rows, labels


@given(CHATS, st.lists(st.booleans(), min_size=3, max_size=3), st.sampled_from(["last", "every"]))
def test_the_prompt_of_an_answer_is_everything_before_it(chats: list[Chat], pad_left: list[bool], layout: Any) -> None:
    rows, labels = encode(chats, pad_left)
    answers = find(layout, rows, labels)
    expected = []
    for number, chat in enumerate(chats):
        history: list[int] = []
        turns = []
        for question, answer in chat:
            turns.append((number, history + question, answer))
            history = history + question + answer
        expected += turns[-1:] if layout == "last" else turns
    found = []
    for row, in_prompt, answer in zip(answers.row.tolist(), answers.in_prompt, answers.labels):
        found.append((row, torch.tensor(rows[row])[in_prompt].tolist(), answer[answer != IGNORED].tolist()))
    assert found == expected


@pytest.mark.parametrize(
    ("layout", "ids", "labels", "message"),
    [
        ("one", [[3, 7, 8]], [[7, 1]], "labels have shape (1, 2), and input_ids (1, 3), so they are not prompts with"),
        (
            "one",
            [[3, 7, 8, 9, 4]],
            [[IGNORED, IGNORED, 5, 6, 1]],
            "begins with the label 5, but input_ids have 8 there",
        ),
        ("one", [[3, 7, 8, 9]], [[IGNORED, 8, 9, IGNORED]], "label 8, but input_ids have 7 there: do not shift labels"),
        (
            "one",
            [[3, 7, 8, 9]],
            [[IGNORED, 7, IGNORED, 9]],
            "got 2 answers in row 0: for chats, set answers = 'last' or",
        ),
        (
            "last",
            [[3, 7, 8]],
            [[3, 7, 8]],
            "got no prompt in row 0: mask the labels of the prompt (in TRL, give the dataset",
        ),
        ("last", [[3, 7], [3, 7]], [[IGNORED, 7], [IGNORED] * 2], "whose labels are not -100, got none in row 1"),
        (
            "apart",
            [[3, 7, 8, 9]],
            [[IGNORED, 7, IGNORED, 9]],
            "with answers = 'apart', each row of a batch must have one",
        ),
        ("apart", [[3, 7]], [[7, 1], [8, 1]], "there must be an answer per prompt, got 2 labels"),
        ("apart", [[3, 7], [PAD, PAD]], [[7, 1], [8, 1]], "got only padding in row 1"),
    ],
)
def test_labels_that_contradict_the_layout_are_errors(layout: Any, ids: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        find(layout, ids, labels)
    assert message in str(error.value)


def test_later_labels_may_differ_from_the_ids() -> None:
    answers = find("one", [[3, 7, 8]], [[IGNORED, 7, 1]])
    assert answers.labels.tolist() == [[IGNORED, 7, 1]]


def test_an_answer_apart_may_equal_the_end_of_its_prompt() -> None:
    answers = find("apart", [[3, 7, 8]], [[IGNORED, IGNORED, 8]])
    assert answers.in_prompt.tolist() == [[True, True, True]]


def test_rows_without_an_answer_give_none() -> None:
    answers = find("every", [[3, 7], [4, 8]], [[IGNORED, IGNORED], [IGNORED, 8]])
    assert answers.row.tolist() == [1]
    assert find("every", [[3, 7]], [[IGNORED, IGNORED]]).labels.shape == (0, 2)


IDS_OF_ROW = torch.tensor([[3, 4, 5, 6]])
ONES = torch.ones(1, 4, dtype=torch.long)


@pytest.mark.parametrize(
    "inputs",
    [
        {"input_ids": IDS_OF_ROW, "attention_mask": ONES, "position_ids": torch.tensor([[0, 1, 0, 1]])},
        {"input_ids": IDS_OF_ROW, "attention_mask": torch.tensor([[1, 1, 2, 2]])},
        {"input_ids": IDS_OF_ROW, "attention_mask": torch.ones(1, 1, 4, 4)},
        {"input_ids": IDS_OF_ROW, "position_ids": torch.tensor([[0, 1, 0, 1]])},
    ],
)
def test_packed_rows_are_an_error(inputs: Any) -> None:
    with pytest.raises(ValueError, match=r"eval_packing=False"):
        find_token_mask(inputs)


@pytest.mark.parametrize(
    "inputs",
    [
        {"position_ids": torch.tensor([[1, 1, 0, 1]]), "attention_mask": torch.tensor([[0, 0, 1, 1]])},
        {"position_ids": torch.tensor([[0, 1, 1, 1]]), "attention_mask": torch.tensor([[1, 1, 0, 0]])},
        {"position_ids": torch.zeros(3, 1, 4), "attention_mask": torch.tensor([[0, 0, 1, 1]]).bool()},
    ],
)
def test_padded_rows_are_not_packed(inputs: Any) -> None:
    assert torch.equal(find_token_mask({"input_ids": IDS_OF_ROW, **inputs}), inputs["attention_mask"].bool())


def test_an_unknown_layout_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'answers' must be one of .*, got 'lats': did you mean 'last'"):
        check_answers("lats")
