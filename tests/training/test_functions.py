"""Functions of users: how they are called, what they may return, and what they leave as it was."""

from __future__ import annotations

import pickle
import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lightning_bleu.training.functions import find_third, score_sentences
from lightning_bleu.training.metrics import OfSentences
from lightning_bleu.training.sentences import Sentence
from tests.helpers.functions import errors, exact

SENTENCES = [Sentence("a b", ["a b", "c"], "A B"), Sentence("x", ["y"], "X"), Sentence("", ["z z"], "Z Z")]
VALUES = [0.5, -2.0, 1e9]


def score(value: Any) -> list[float]:
    """What is read from a function that returns a value."""
    scores = score_sentences("f", lambda hypotheses, references: value, SENTENCES)
    assert scores is not None
    assert scores.dtype == torch.float64
    assert not scores.requires_grad
    return scores.tolist()


@pytest.mark.parametrize(
    "value",
    [
        VALUES,
        tuple(VALUES),
        np.array(VALUES),
        np.array(VALUES, np.float32),
        np.array(VALUES[::-1])[::-1],
        [np.float64(one) for one in VALUES],
        torch.tensor(VALUES),
        torch.tensor(VALUES, requires_grad=True),
        [torch.tensor(one) for one in VALUES],
    ],
    ids=["list", "tuple", "array", "float32", "reversed", "numpy numbers", "tensor", "requires_grad", "tensors"],
)
def test_numbers_come_in_any_form(value: Any) -> None:
    assert score(value) == VALUES


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([True, False, True], [1, 0, 1]),
        (np.array([True, False, True]), [1, 0, 1]),
        (torch.tensor([True, False, True]), [1, 0, 1]),
        ([3, 2, 1], [3, 2, 1]),
        (np.array([3, 2, 1], np.uint8), [3, 2, 1]),
        (torch.tensor([0.5, 0.25, 0], dtype=torch.bfloat16), [0.5, 0.25, 0]),
        ([1, 0.5, True], [1, 0.5, 1]),
    ],
)
def test_booleans_and_integers_are_numbers(value: Any, expected: list[float]) -> None:
    assert score(value) == expected


def test_a_list_of_floats_keeps_all_digits() -> None:
    values = [0.1, 1 / 3, 123456789.123456789]

    assert score(values) == values
    assert score(np.array(values)) == values


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

    score_sentences("f", change, SENTENCES)

    assert SENTENCES[0] == Sentence("a b", ["a b", "c"], "A B")


def length(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    return [len(one) for one in hypotheses]


def of_third(hypotheses: list[str], references: list[list[str]], third: list[str]) -> list[int]:
    return [len(one) for one in third]


def of_sources(hypotheses: list[str], references: list[list[str]], *, sources: list[str]) -> list[int]:
    return [len(one) for one in sources]


def of_position(hypotheses: list[str], references: list[list[str]], third: list[str], /) -> list[int]:
    return [len(one) for one in third]


def of_default(hypotheses: list[str], references: list[list[str]], sources: list[str] | None = None) -> list[int]:
    return [len(one) for one in sources or []] or [0, 0, 0]


def of_option(hypotheses: list[str], references: list[list[str]], weight: int = 2) -> list[int]:
    return [weight * len(one) for one in hypotheses]


def of_options(hypotheses: list[str], references: list[list[str]], **options: Any) -> list[int]:
    return [len(options) for _ in hypotheses]


def of_model(model: str, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[int]:
    return [len(model + one) for one in sources]


class Scorer:
    """A class whose instances and methods are functions."""

    def __call__(self, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[int]:
        return [len(one) for one in sources]

    def method(self, hypotheses: list[str], references: list[list[str]]) -> list[int]:
        return [len(one) for one in hypotheses]

    @staticmethod
    def static(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[int]:
        return [len(one) for one in sources]


class Module(nn.Module):
    """A module whose `forward` is the function."""

    def forward(self, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> torch.Tensor:
        return torch.tensor([float(len(one)) for one in sources])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (length, [3, 1, 0]),
        (of_third, [3, 1, 3]),
        (of_sources, [3, 1, 3]),
        (of_position, [3, 1, 3]),
        (of_default, [3, 1, 3]),
        (of_option, [6, 2, 0]),
        (of_options, [0, 0, 0]),
        (partial(of_option, weight=3), [9, 3, 0]),
        (partial(of_model, "xx"), [5, 3, 5]),
        (partial(of_model, model="xx"), None),
        (Scorer(), [3, 1, 3]),
        (Scorer().method, [3, 1, 0]),
        (Scorer.static, [3, 1, 3]),
        (Module(), [3, 1, 3]),
        (lambda h, r, s: [len(one) for one in s], [3, 1, 3]),
    ],
)
def test_any_callable_gets_what_its_parameters_ask_for(function: Any, expected: list[float] | None) -> None:
    if expected is None:  # hypotheses would be the first parameter, which is taken
        with pytest.raises(RuntimeError, match=r"the metric 'f' failed: TypeError: .*multiple values"):
            score_sentences("f", function, SENTENCES)
        return

    scores = score_sentences("f", function, SENTENCES)

    assert scores is not None
    assert scores.tolist() == expected


def test_the_third_parameter_of_a_function_without_a_signature_is_unknown() -> None:
    assert find_third(max, "sources") == (None, False)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0.5, ValueError, r"one number per sentence, got the shape \(\) for 3 sentences: do not average them"),
        ([0.5], ValueError, r"one number per sentence, got the shape \(1,\) for 3 sentences$"),
        ([], ValueError, r"got the shape \(0,\) for 3 sentences"),
        (torch.zeros(3, 1), ValueError, r"got the shape \(3, 1\) for 3 sentences"),
        ([[0.5], [1], [2]], ValueError, r"got the shape \(3, 1\) for 3 sentences"),
        ([1, float("nan"), 2], ValueError, r"'f' returned nan for the hypothesis 'x': return a finite number .* None"),
        ([1, 2, float("-inf")], ValueError, r"returned -inf for the hypothesis ''"),
        ({"score": 1}, TypeError, r"one number per sentence, got \{'score': 1\}"),
        (["1", "2", "3"], TypeError, r"one number per sentence, got \['1', '2', '3'\]"),
        ("abc", TypeError, "one number per sentence, got 'abc'"),
        ([1, None, 2], TypeError, r"one number per sentence, got \[1, None, 2\]"),
        ([[1], [1, 2], [3]], TypeError, "one number per sentence, got"),
        (np.array(["1", "2", "3"]), TypeError, "one number per sentence, got"),
        ([1j, 2, 3], TypeError, "one number per sentence, got"),
        (object(), TypeError, "one number per sentence, got <object"),
    ],
)
def test_errors_name_the_metric_and_what_it_returned(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"the metric 'f' .*{message}" if "'f'" not in message else message):
        score(value)


def test_none_means_no_scores() -> None:
    assert score_sentences("f", lambda hypotheses, references: None, SENTENCES) is None


def test_an_error_of_the_function_names_the_metric() -> None:
    def fail(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        raise KeyError("model")

    with pytest.raises(RuntimeError, match=r"the metric 'f' failed: KeyError: 'model'") as caught:
        score_sentences("f", fail, SENTENCES)
    assert isinstance(caught.value.__cause__, KeyError)


def disturb(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """Change all that is global."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(True)
    return VALUES


@pytest.mark.parametrize("fails", [False, True])
def test_random_states_gradients_and_the_default_type_are_as_before(fails: bool) -> None:
    def function(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        disturb(hypotheses, references)
        return [] if fails else VALUES

    def draw() -> list[float]:
        return [random.random(), np.random.rand(), torch.rand(1).item()]

    def seed() -> None:
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)

    seed()
    expected = draw()
    seed()
    dtype = torch.get_default_dtype()
    if fails:
        with pytest.raises(ValueError, match="one number per sentence"):
            score_sentences("f", function, SENTENCES)
    else:
        score_sentences("f", function, SENTENCES)

    assert draw() == expected
    assert torch.get_default_dtype() == dtype
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
        scores = score_sentences("f", function, SENTENCES)
        after = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    assert seen == [(False, False, False)]
    assert after == before
    assert scores is not None
    assert scores.tolist() == [1, 1, 1]


def test_a_tensor_that_was_made_in_inference_mode_is_read() -> None:
    with torch.inference_mode():
        values = torch.tensor(VALUES)

    assert score(values) == VALUES


@pytest.mark.parametrize(
    ("function", "higher_is_better"), [(exact, True), (errors, False), (partial(errors), False), (Scorer(), True)]
)
def test_the_direction_is_an_attribute_of_the_function(function: Any, higher_is_better: bool) -> None:
    assert OfSentences("f", function).higher_is_better is higher_is_better


def test_the_direction_is_a_boolean() -> None:
    function = Scorer()
    function.higher_is_better = "no"  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match="'higher_is_better' must be"):
        OfSentences("f", function)


def test_only_a_function_that_other_processes_can_import_can_be_sent_to_them() -> None:
    assert pickle.loads(pickle.dumps(OfSentences("f", exact))).function is exact
    with pytest.raises(TypeError, match=r"'f' is a lambda or a local function.*strategy='ddp' instead of 'ddp_spawn'"):
        pickle.dumps(OfSentences("f", lambda hypotheses, references: VALUES))
