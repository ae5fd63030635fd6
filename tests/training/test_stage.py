"""What a step may return, and what `extract` may take."""

from __future__ import annotations

import functools
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from transformers.utils.generic import ModelOutput

from lightning_bleu.training.stage import read_output, with_dataloader_idx

PREDS, TARGET, SOURCE = object(), object(), object()


def read(value: Any) -> tuple[Any, Any, Any]:
    return read_output(value, "validation_step", origin="validation_step")


@dataclass
class HuggingFaceOutput(ModelOutput):
    """An ordered dict that leaves out fields that are None."""

    loss: Any = None
    preds: Any = None
    target: Any = None
    source: Any = None


class Pair(NamedTuple):
    """Both names are the user's own."""

    hypotheses: Any
    references: Any


@pytest.mark.parametrize(
    "make", [dict, OrderedDict, UserDict, lambda items: MappingProxyType(dict(items)), lambda items: dict(items)]
)
def test_a_mapping_is_read_by_its_keys_in_any_order(make: Any) -> None:
    assert read(make({"preds": PREDS, "target": TARGET}.items())) == (PREDS, TARGET, None)
    assert read(make({"loss": 1.0, "target": TARGET, 5: 6, "preds": PREDS}.items())) == (PREDS, TARGET, None)
    everything = {"source": SOURCE, "target": TARGET, "preds": PREDS}
    assert read(make(everything.items())) == (PREDS, TARGET, SOURCE)
    assert read(make((everything | {"source": None}).items())) == (PREDS, TARGET, None)


def test_an_output_of_hugging_face_is_read_by_its_keys() -> None:
    make: Any = HuggingFaceOutput  # has no types
    assert read(make(preds=["a"], target=["b"])) == (["a"], ["b"], None)
    assert read(make(loss=torch.tensor(1.0), preds=["a"], target=["b"], source=["c"])) == (["a"], ["b"], ["c"])


@pytest.mark.parametrize("value", [(PREDS, TARGET), [PREDS, TARGET], Pair(PREDS, TARGET)])
def test_two_values_are_hypotheses_and_references(value: Any) -> None:
    assert read(value) == (PREDS, TARGET, None)


def test_values_are_passed_on_as_they_are() -> None:
    preds = (line for line in ["a"])  # could be read only once
    assert read({"preds": preds, "target": TARGET})[0] is preds
    assert read({"preds": None, "target": None}) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "a NoneType"),
        (torch.tensor(1.0), "a Tensor"),
        (torch.zeros(2, 5), "a Tensor"),
        ("ab", "a str"),
        ((PREDS,), "a tuple"),
        ((PREDS, TARGET, SOURCE), "a tuple"),
        ([], "a list"),
        ({PREDS, TARGET}, "a set"),
        ({}, "the keys []"),
        ({"loss": 1.0, "preds": PREDS}, "the keys ['loss', 'preds']"),
        ({"Preds": PREDS, "target": TARGET, 1: 2}, "the keys ['1', 'Preds', 'target']"),
        ({"a": PREDS, "b": TARGET}, "the keys ['a', 'b']"),
    ],
)
def test_an_error_says_what_was_found_and_what_to_return(value: Any, found: str) -> None:
    with pytest.raises(TypeError) as error:
        read_output(value, "test_step", origin="extract")
    assert str(error.value) == (
        f"BLEUCallback needs hypotheses and references, but got {found} from 'extract'. Either return "
        "{'preds': ..., 'target': ...} or (preds, target) from 'test_step', or use BLEUCallback(extract=lambda "
        "outputs, batch: (preds, target))"
    )


class Extractor:
    """Functions of all kinds. Each returns the index of the loader, or None if it gets none."""

    def of_two(self, outputs: Any, batch: Any) -> None: ...

    def of_three(self, outputs: Any, batch: Any, index: int) -> int:
        return index

    @classmethod
    def class_of_three(cls, outputs: Any, batch: Any, index: int) -> int:
        return index

    @staticmethod
    def static_of_two(outputs: Any, batch: Any) -> None: ...

    @staticmethod
    def static_of_three(outputs: Any, batch: Any, index: int) -> int:
        return index


class CallableOfTwo:
    def __call__(self, outputs: Any, batch: Any) -> None: ...


class CallableOfThree:
    def __call__(self, outputs: Any, batch: Any, dataloader_idx: int) -> int:
        return dataloader_idx


def of_three(outputs: Any, batch: Any, dataloader_idx: int) -> int:
    return dataloader_idx


def of_four(tokenizer: Any, outputs: Any, batch: Any, dataloader_idx: int) -> int:
    return dataloader_idx


def of_keyword(outputs: Any, batch: Any, *, tokenizer: Any = None) -> None: ...


def of_keyword_index(outputs: Any, batch: Any, *, dataloader_idx: int) -> int:
    return dataloader_idx


@functools.wraps(of_three)
def wrapped(*args: Any) -> int:
    return of_three(*args)


@pytest.mark.parametrize(
    ("extract", "expected"),
    [
        (lambda outputs, batch: None, None),
        (lambda outputs, batch, index: index, 7),
        (lambda outputs, batch, dataloader_idx: dataloader_idx, 7),
        (lambda outputs, batch, dataloader_idx=0: dataloader_idx, 7),
        (lambda outputs, batch, tokenizer=None: tokenizer, None),
        (lambda outputs, batch, tokenizer=None, dataloader_idx=0: (tokenizer, dataloader_idx), (None, 7)),
        (lambda outputs, batch, index, tokenizer=None: (tokenizer, index), (None, 7)),
        (lambda outputs, batch, /, index: index, 7),
        (lambda *args: args[2:], ()),
        (lambda outputs, batch, *rest: rest, ()),
        (lambda outputs, batch, **options: options, {}),
        (of_keyword, None),
        (of_keyword_index, 7),
        (of_three, 7),
        (wrapped, 7),
        (functools.partial(of_four, "tokenizer"), 7),
        (functools.partial(of_three, dataloader_idx=1), 1),
        (functools.partial(of_keyword, tokenizer="tokenizer"), None),
        (Extractor().of_two, None),
        (Extractor().of_three, 7),
        (Extractor.class_of_three, 7),
        (Extractor().static_of_two, None),
        (Extractor.static_of_three, 7),
        (CallableOfTwo(), None),
        (CallableOfThree(), 7),
        (max, 2),  # has no signature
    ],
)
def test_a_function_gets_the_index_of_the_loader_if_a_parameter_asks_for_it(extract: Any, expected: Any) -> None:
    assert with_dataloader_idx(extract)(1, 2, 7) == expected
