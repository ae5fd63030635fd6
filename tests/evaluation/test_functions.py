"""Functions of users: how they are called, what they may return, and what they leave as it was."""

from __future__ import annotations

import random
from functools import partial, wraps
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from torch import nn

from lightning_bleu.training.functions import call_function, call_with_third
from lightning_bleu.training.sentences import Sentence
from tests.helpers.callback_metrics import try_to

SENTENCES = [Sentence("a b", ["a b", "c"], "A B"), Sentence("x", ["y"], "X"), Sentence("", ["z z"], "Z Z")]
VALUES, SIMPLE = [0.1, 1 / 3, -123456789.123456789], [0.5, -2.0, 1024]


def score(value: Any) -> list[float]:
    """What is read from a function that returns a value."""
    rows = call_function("f", lambda hypotheses, references: value, SENTENCES)
    assert rows is not None
    assert rows[""].dtype == torch.float64
    assert not rows[""].requires_grad
    assert rows[""][:, 1].tolist() == [1, 1, 1]
    return rows[""][:, 0].tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (VALUES, VALUES),
        (tuple(VALUES), VALUES),
        (np.array(VALUES), VALUES),
        (np.array(VALUES[::-1])[::-1], VALUES),
        (pandas.Series(VALUES, index=[7, 8, 9]), VALUES),
        ([np.float64(one) for one in VALUES], VALUES),
        (np.array(SIMPLE, np.float32), SIMPLE),
        (torch.tensor(SIMPLE), SIMPLE),
        (torch.tensor(SIMPLE, requires_grad=True), SIMPLE),
        (torch.tensor(SIMPLE, dtype=torch.bfloat16), SIMPLE),
        ([torch.tensor(one) for one in SIMPLE], SIMPLE),
        (torch.tensor([True, False, True]), [1, 0, 1]),
        (np.array([3, 2, 1], np.uint8), [3, 2, 1]),
        ([1, 0.5, True], [1, 0.5, 1]),
    ],
)
def test_numbers_come_in_any_form_and_keep_all_digits(value: Any, expected: list[float]) -> None:
    assert score(value) == expected


def test_a_function_is_called_with_lists_of_its_own() -> None:
    def change(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
        assert (hypotheses, references, sources) == (
            ["a b", "x", ""],
            [["a b", "c"], ["y"], ["z z"]],
            ["A B", "X", "Z Z"],
        )
        hypotheses.clear()
        references[0].append("d")
        sources.reverse()
        return VALUES

    call_function("f", change, SENTENCES)

    assert SENTENCES[0] == Sentence("a b", ["a b", "c"], "A B")


class Extractor:
    """Functions of all kinds. Each returns its third argument, or None if it gets none."""

    def __call__(self, outputs: Any, batch: Any, dataloader_idx: int) -> int:
        return dataloader_idx

    def of_two(self, outputs: Any, batch: Any) -> None: ...

    @classmethod
    def class_of_three(cls, outputs: Any, batch: Any, index: int) -> int:
        return index

    @staticmethod
    def static_of_three(outputs: Any, batch: Any, index: int) -> int:
        return index


class Module(nn.Module):
    """A module whose `forward` is the function."""

    def forward(self, outputs: Any, batch: Any, index: int) -> int:
        return index


def of_four(tokenizer: Any, outputs: Any, batch: Any, dataloader_idx: int) -> int:
    return dataloader_idx


def of_keyword(outputs: Any, batch: Any, *, tokenizer: Any = None) -> None: ...


def of_keyword_index(outputs: Any, batch: Any, *, dataloader_idx: int) -> int:
    return dataloader_idx


@wraps(Extractor.static_of_three)
def wrapped(*args: Any) -> int:
    return Extractor.static_of_three(*args)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda outputs, batch: None, None),
        (lambda outputs, batch, index: index, 7),
        (lambda outputs, batch, dataloader_idx=0: dataloader_idx, 7),
        (lambda outputs, batch, tokenizer=None: tokenizer, None),
        (lambda outputs, batch, *, dataloader_idx=None: dataloader_idx, 7),
        (lambda outputs, batch, tokenizer=None, dataloader_idx=0: (tokenizer, dataloader_idx), (None, 7)),
        (lambda outputs, batch, index, tokenizer=None: (tokenizer, index), (None, 7)),
        (lambda outputs, batch, index, /: index, 7),
        (lambda *args: args[2:], ()),
        (lambda outputs, batch, **options: options, {}),
        (of_keyword, None),
        (of_keyword_index, 7),
        (wrapped, 7),
        (partial(of_four, "tokenizer"), 7),
        (partial(of_keyword_index, dataloader_idx=1), 1),
        (partial(of_keyword, tokenizer="tokenizer"), None),
        (partial(lambda outputs, batch, tokenizer, dataloader_idx=None: dataloader_idx, tokenizer=1), 7),
        (Extractor(), 7),
        (Extractor().of_two, None),
        (Extractor.class_of_three, 7),
        (Extractor.static_of_three, 7),
        (Module(), 7),
        (partial(Module()), 7),
        (torch.compile(Module(), backend="eager"), 7),
        (partial(torch.compile(Module(), backend="eager")), 7),
        (torch.compile(of_keyword_index, backend="eager"), 7),
        (max, 2),  # has no signature
    ],
)
def test_a_function_gets_a_third_argument_if_a_parameter_asks_for_it(function: Any, expected: Any) -> None:
    assert call_with_third(function, "dataloader_idx", 1, 2, 7) == expected


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0.5, ValueError, r"pair per sentence, got one number: return pairs .*, or set its corpus_level = True$"),
        ([0.5], ValueError, r"one number or pair per sentence, got the shape \(1,\) for 3 sentences$"),
        ([[0.5], [1], [2]], ValueError, r"got the shape \(3, 1\) for 3 sentences"),
        ([1, float("nan"), 2], ValueError, r"'f' returned nan for the hypothesis 'x': return a finite number .* None"),
        ([1, 2, float("-inf")], ValueError, r"returned -inf for the hypothesis ''"),
        ({"a": VALUES, "b": 1}, ValueError, r"'f/b' must return one number or pair per sentence, got one number"),
        ({"a": [1, 2, float("nan")]}, ValueError, "'f/a' returned nan for the hypothesis ''"),
        ({}, TypeError, r"must return scores by name, got \{\}"),
        ({1: VALUES}, TypeError, "the names of the scores of 'f' must be strings, got 1"),
        ({"": VALUES, "a": VALUES}, ValueError, "the scores of 'f' cannot have the name ''"),
        ({"a": VALUES, "a/low": VALUES}, ValueError, "the names 'a' and 'a/low' of the scores of 'f' clash"),
        ([10**400, 1, 2], TypeError, "one number or pair per sentence, got"),
        ([(1, 2), (3, 4)], ValueError, r"got the shape \(2, 2\) for 3 sentences$"),
        ([(1, 2), (3, float("inf")), (5, 6)], ValueError, "returned .*inf.* for the hypothesis 'x'"),
        (["1", "2", "3"], TypeError, r"one number or pair per sentence, got \['1', '2', '3'\]"),
        ("abc", TypeError, "one number or pair per sentence, got 'abc'"),
        ([[1], [1, 2], [3]], TypeError, "one number or pair per sentence, got"),
        (np.array(["1", "2", "3"]), TypeError, "one number or pair per sentence, got"),
        ([1j, 2, 3], TypeError, "one number or pair per sentence, got"),
        (np.ma.masked_equal([1, 2, 3], 2), TypeError, r"one number or pair per sentence, got masked_array\("),
        (torch.eye(3)[1].to_sparse(), TypeError, r"one number or pair per sentence, got tensor\(indices="),
    ],
)
def test_errors_name_the_metric_and_what_it_returned(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"the metric 'f' .*{message}" if "'f" not in message else message):
        score(value)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, tuple])
def test_pairs_and_numbers_may_have_names(kind: Any) -> None:
    pairs = [(1, 4), (0, 0), (2.5, 3)]
    rows = call_function("f", lambda hypotheses, references: {"a": kind(pairs), "b": VALUES}, SENTENCES)
    assert rows is not None
    assert {name: one.tolist() for name, one in rows.items()} == {
        "a": [[*pair] for pair in pairs],
        "b": [[value, 1] for value in VALUES],
    }


def test_only_a_function_of_the_corpus_may_return_a_single_number() -> None:
    rows = call_function("f", lambda hypotheses, references: {"a": 0.5, "b": VALUES}, SENTENCES, of_corpus=True)
    assert rows is not None
    assert rows["a"].tolist() == [0.5, 1]
    assert rows["b"][:, 0].tolist() == VALUES
    with pytest.raises(ValueError, match=r"^the metric 'f' returned nan: return a finite number"):
        call_function("f", lambda hypotheses, references: float("nan"), SENTENCES, of_corpus=True)


@pytest.mark.parametrize("error", [None, KeyError("model")])
def test_random_states_gradients_and_the_default_type_are_as_before(error: Exception | None) -> None:
    def disturb(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        if error is not None:
            raise error
        return VALUES

    drawn: list[Any] = []
    for function in (lambda hypotheses, references: VALUES, disturb):
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)
        found = try_to(call_function, "f", function, SENTENCES)
        assert found == (
            "RuntimeError: the metric 'f' failed: KeyError: 'model'" if function is disturb and error else ""
        )
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item(), torch.get_default_dtype()))
    assert drawn[0] == drawn[1]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_a_function_runs_without_gradients_and_without_inference_tensors(context: Any) -> None:
    seen = []

    def function(hypotheses: list[str], references: list[list[str]]) -> torch.Tensor:
        weight = torch.ones(3, requires_grad=True)
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), (weight * 2).requires_grad))
        return weight

    with context():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        scores = call_function("f", function, SENTENCES)
        after = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    assert seen == [(False, False, False)]
    assert after == before
    assert scores is not None
    assert scores[""].tolist() == [[1, 1]] * 3


def test_a_tensor_that_was_made_in_inference_mode_is_read() -> None:
    with torch.inference_mode():
        values = torch.tensor(SIMPLE)
    assert score(values) == SIMPLE
