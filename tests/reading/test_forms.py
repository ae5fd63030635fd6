"""Every list, array, and tensor that can hold sentences."""

from __future__ import annotations

from collections import UserList, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from lightning_bleu.reading.forms import (
    IdLists,
    IdTensor,
    IdTensors,
    Strings,
    TokenLists,
    as_tensor,
    kind_of,
    materialize,
    recognize_list,
    segment_count,
)
from lightning_bleu.settings.settings import Settings
from tests.helpers.counting import (
    EXPECTED,
    EXPECTED_FIRST,
    FIRST_REFERENCES,
    HYPOTHESES,
    REFERENCES,
    Ids,
    as_text,
    as_words,
    count_ragged,
    pad,
)

Wrap = Callable[[Sequence[Any]], Any]


def count(preds: Any, target: Any, **options: Any) -> list[list[int]]:
    settings = Settings.from_options(max_order=3, tokenizer="none", **options)
    rows: list[list[int]] = count_ragged(preds, target, settings).tolist()
    return rows


# Lists, and whatever else can be iterated over


def as_series(items: Sequence[Any]) -> Any:
    return pytest.importorskip("pandas").Series(items)


ITERABLES: dict[str, Wrap] = {
    "tuple": tuple,
    "deque": deque,
    "UserList": UserList,
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "values of a dict": lambda items: dict(enumerate(items)).values(),
    "pandas.Series": as_series,
}
every_iterable = pytest.mark.parametrize("wrap", ITERABLES.values(), ids=ITERABLES)
every_kind = pytest.mark.parametrize("form", [as_text, as_words, list])


@every_iterable
@every_kind
def test_any_iterable_can_hold_the_sentences(wrap: Wrap, form: Callable[[Ids], Any]) -> None:
    preds = [form(ids) for ids in HYPOTHESES]
    assert count(wrap(preds), wrap([form(ids) for ids in FIRST_REFERENCES])) == EXPECTED_FIRST
    assert count(wrap(preds), wrap([[form(ids) for ids in group] for group in REFERENCES])) == EXPECTED


@every_iterable
@every_kind
def test_any_iterable_can_hold_the_references_of_a_sentence(wrap: Wrap, form: Callable[[Ids], Any]) -> None:
    target = [wrap([form(ids) for ids in group]) for group in REFERENCES]
    assert count([form(ids) for ids in HYPOTHESES], target) == EXPECTED


@every_iterable
@pytest.mark.parametrize("form", [as_words, list])
def test_any_iterable_can_hold_the_tokens_of_a_sentence(wrap: Wrap, form: Callable[[Ids], Any]) -> None:
    preds = [form(ids) for ids in HYPOTHESES]
    several = [[form(ids) for ids in group] for group in REFERENCES]
    for target, expected in ((several, EXPECTED), ([group[0] for group in several], EXPECTED_FIRST)):
        assert count([wrap(tokens) for tokens in preds], target) == expected
    assert count(preds, [[wrap(tokens) for tokens in group] for group in several]) == EXPECTED
    assert count(preds, [wrap(group[0]) for group in several]) == EXPECTED_FIRST
    everywhere = wrap([wrap([wrap(tokens) for tokens in group]) for group in several])
    assert count(wrap([wrap(tokens) for tokens in preds]), everywhere) == EXPECTED


def test_the_keys_of_a_dict_and_ranges_are_iterables_with_an_order() -> None:
    corpus = {"a b c": "a b d", "c d": "d c"}
    assert count(corpus.keys(), corpus.values()) == count(["a b c", "c d"], ["a b d", "d c"])
    assert count([range(5, 10)], [[range(5, 8), range(6, 9)]]) == count([[5, 6, 7, 8, 9]], [[[5, 6, 7], [6, 7, 8]]])


def test_materialize_keeps_what_can_be_read_twice_and_what_has_no_order() -> None:
    kept: list[Any] = ["ab", b"ab", ["a"], ("a",), {"a"}, frozenset("a"), {"a": 1}, np.zeros(1), torch.zeros(1), 1]
    assert all(materialize(value) is value for value in kept)
    assert materialize(iter("ab")) == ["a", "b"]


def test_a_list_is_recognized_by_what_it_holds() -> None:
    rows = [torch.tensor([1, 2]), np.array([3], np.int8)]
    assert recognize_list("preds", ["a b", ""]) == Strings(["a b", ""])
    assert recognize_list("preds", [["a"], [], ("b",)]) == TokenLists([["a"], [], ("b",)])
    assert recognize_list("preds", [[1], [], [np.int32(2)]]) == IdLists([[1], [], [2]])
    assert recognize_list("preds", []) == IdLists([])
    form = recognize_list("preds", rows)
    assert isinstance(form, IdTensors)
    assert [(row.tolist(), row.dtype) for row in form.rows] == [([1, 2], torch.int64), ([3], torch.int64)]


def test_lists_without_a_token_go_with_tokens_and_with_ids() -> None:
    assert kind_of(recognize_list("preds", [[], []])) == "nothing"
    assert count([[], []], [["a"], ["b", "c"]]) == [[0] * 7 + [1], [0] * 7 + [2]]
    assert count([[], []], [[1], [2, 3]]) == [[0] * 7 + [1], [0] * 7 + [2]]
    kinds = [kind_of(recognize_list("preds", items)) for items in (["a"], [["a"]], [[1]], [torch.tensor([1])])]
    assert kinds == ["strings", "tokens", "ids", "ids"]
    assert kind_of(IdTensor(torch.zeros(2, 0, dtype=torch.int64))) == "ids"
    assert segment_count(IdTensor(torch.zeros(2, 3, 4, dtype=torch.int64))) == 2


# Arrays and tensors


def backward(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values, with negative strides."""
    return np.flip(np.flip(array).copy())


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


def sparse_columns(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values, with others between them that do not belong to the array."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 7, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


ARRAYS: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "backward": backward,
    "read-only": read_only,
    "sparse columns": sparse_columns,
    "columns first": np.asfortranarray,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "little-endian": lambda array: array.astype(array.dtype.newbyteorder("<")),
    "big-endian, backward, read-only": lambda array: read_only(backward(array.astype(array.dtype.newbyteorder(">")))),
}
every_array = pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS)
ONE_REFERENCE = pad(FIRST_REFERENCES, 7).numpy()
SEVERAL_REFERENCES = np.stack([pad(group, 8).numpy() for group in REFERENCES])


@every_array
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16])
def test_ids_may_be_arrays_of_any_memory_layout(change: Callable[[Any], Any], dtype: type[np.integer[Any]]) -> None:
    preds = change(pad(HYPOTHESES, 6).numpy().astype(dtype))
    assert count(preds, change(ONE_REFERENCE.astype(dtype)), pad_id=0) == EXPECTED_FIRST
    assert count(preds, change(SEVERAL_REFERENCES.astype(dtype)), pad_id=0) == EXPECTED
    rows = [change(np.array(ids, dtype)) for ids in HYPOTHESES]
    assert count(rows, [[change(np.array(ids, dtype)) for ids in group] for group in REFERENCES]) == EXPECTED
    assert count(rows, [change(np.array(ids, dtype)) for ids in FIRST_REFERENCES]) == EXPECTED_FIRST
    assert count(rows, [change(group) for group in SEVERAL_REFERENCES], pad_id=0) == EXPECTED


@every_array
def test_logits_may_be_arrays_of_any_memory_layout(change: Callable[[Any], Any]) -> None:
    logits = np.eye(10, dtype=np.float32)[pad(HYPOTHESES, 6).numpy()]
    assert count(change(logits), ONE_REFERENCE, pad_id=0) == EXPECTED_FIRST


INTEGERS = [
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ids_may_be_of_any_integer_type(dtype: torch.dtype) -> None:
    assert count(pad(HYPOTHESES, 6).to(dtype), pad(FIRST_REFERENCES, 7).to(dtype), pad_id=0) == EXPECTED_FIRST
    assert as_tensor("preds", torch.ones(2, dtype=dtype)).dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_argmax_of_logits_is_counted(dtype: torch.dtype) -> None:
    logits = torch.nn.functional.one_hot(pad(HYPOTHESES, 6), 10).to(dtype)
    logits.requires_grad_()
    assert count(logits * 3 - 1, pad(FIRST_REFERENCES, 7), pad_id=0) == EXPECTED_FIRST


def test_tensors_of_any_memory_layout_and_mode_count_the_same_and_are_left_alone() -> None:
    preds, target = pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7)
    wide = torch.zeros(6, 8, dtype=torch.long)
    wide[:, ::2] = preds.T
    assert count(wide[:, ::2].T, target, pad_id=0) == EXPECTED_FIRST
    with torch.inference_mode():
        assert count(preds.clone(), target.clone(), pad_id=0) == EXPECTED_FIRST
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert count(preds, target, pad_id=0) == EXPECTED_FIRST
    before = preds.clone(), target.clone()
    count(preds, target, pad_id=0, eos_id=9)
    assert torch.equal(preds, before[0])
    assert torch.equal(target, before[1])
