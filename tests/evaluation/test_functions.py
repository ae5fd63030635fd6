"""Functions as metrics: their options, how they are called, what they may return, and what they leave as it was."""

from __future__ import annotations

import copy
import pickle
import random
import re
from functools import partial, wraps
from pathlib import Path
from typing import Any

import jsonargparse
import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from torch import nn

from lightning_bleu import BLEUCallback, CorpusBLEU, Evaluator, FunctionMetric, Result
from lightning_bleu.core.batch import Sentence
from lightning_bleu.evaluation.metrics.callables import call_with_third
from lightning_bleu.evaluation.metrics.functions import call_function
from tests.helpers.callback_metrics import exact, try_to
from tests.helpers.files import read_scores
from tests.helpers.lightning import PanelLogger, read_table
from tests.helpers.validations import Counting, count
from tests.helpers.validations import score as score_collected

SENTENCES = [Sentence("a b", ["a b", "c"], "A B"), Sentence("x", ["y"], "X"), Sentence("", ["z z"], "Z Z")]
VALUES, SIMPLE = [0.1, 1 / 3, -123456789.123456789], [0.5, -2.0, 1024]


def call(name: str, function: Any, **options: Any) -> dict[str, torch.Tensor] | None:
    """What is read from a function, for three sentences."""
    return call_function(name, FunctionMetric(function, **options), SENTENCES)


def score(value: Any) -> list[float]:
    """What is read from a function that returns a value."""
    rows = call("f", lambda hypotheses, references: value)
    assert rows is not None
    assert rows[""].dtype == torch.float64
    assert not rows[""].requires_grad
    assert rows[""][:, 1].tolist() == [1, 1, 1]
    return rows[""][:, 0].tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (VALUES, VALUES),
        (np.array(VALUES), VALUES),
        (np.array(VALUES[::-1])[::-1], VALUES),
        (pandas.Series(VALUES, index=[7, 8, 9]), VALUES),
        (torch.tensor(SIMPLE), SIMPLE),
        (torch.tensor(SIMPLE, requires_grad=True), SIMPLE),
        (torch.tensor(SIMPLE, dtype=torch.bfloat16), SIMPLE),
        ([torch.tensor(value) for value in SIMPLE], SIMPLE),
        (torch.tensor([True, False, True]), [1, 0, 1]),
        ([1, 0.5, True], [1, 0.5, 1]),
        (np.array([np.float32(0.5), np.int8(-2), True], object), [0.5, -2, 1]),
        (np.array(VALUES, ">f8"), VALUES),
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

    call("f", change)

    assert SENTENCES[0] == Sentence("a b", ["a b", "c"], "A B")


class Extractor:
    """Functions of all kinds. Each returns its third argument, or None if it gets none."""

    def __call__(self, outputs: Any, batch: Any, dataloader_idx: int) -> int:
        return dataloader_idx

    def of_two(self, outputs: Any, batch: Any) -> None: ...

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
        (lambda outputs, batch, index, /: index, 7),
        (lambda *args: args[2:], ()),
        (lambda outputs, batch, **options: options, {}),
        (of_keyword, None),
        (of_keyword_index, 7),
        (wrapped, 7),
        (partial(of_four, "tokenizer"), 7),
        (partial(of_keyword_index, dataloader_idx=1), 1),
        (partial(of_keyword, tokenizer="tokenizer"), None),
        (Extractor(), 7),
        (Extractor().of_two, None),
        (Extractor.static_of_three, 7),
        (Module(), 7),
        (max, 2),  # has no signature
    ],
)
def test_a_function_gets_a_third_argument_if_a_parameter_asks_for_it(function: Any, expected: Any) -> None:
    assert call_with_third(function, "dataloader_idx", 1, 2, 7) == expected


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            0.5,
            ValueError,
            r"pair per sentence, got one number: it gets lists, and must return a list, "
            r"unless it is FunctionMetric\(..., corpus_level=True\)$",
        ),
        ([0.5], ValueError, r"one number or pair per sentence, got the shape \(1,\) for 3 sentences$"),
        ([1, float("nan"), 2], ValueError, r"'f' returned nan for the hypothesis 'x': return a finite number .* None"),
        ([1, 2, float("-inf")], ValueError, r"returned -inf for the hypothesis ''"),
        ({"a": VALUES, "b": 1}, ValueError, r"'f/b' must return one number or pair per sentence, got one number"),
        ({}, TypeError, r"must return scores by name, got \{\}"),
        ({1: VALUES}, TypeError, "the names of the scores of 'f' must be strings, got 1"),
        ({"": VALUES, "a": VALUES}, ValueError, "the scores of 'f' cannot have the name ''"),
        ({"a": VALUES, "a/low": VALUES}, ValueError, "the names 'a' and 'a/low' of the scores of 'f' clash"),
        ([10**400, 1, 2], TypeError, "one number or pair per sentence, got"),
        ([(1, 2), (3, 4)], ValueError, r"got the shape \(2, 2\) for 3 sentences$"),
        (["1", "2", "3"], TypeError, r"one number or pair per sentence, got \['1', '2', '3'\]"),
        ([[1], [1, 2], [3]], TypeError, "one number or pair per sentence, got"),
        ([1j, 2, 3], TypeError, r"one number or pair per sentence, got \[1j, 2, 3\]"),
        (torch.tensor([1j, 2, 3]), TypeError, r"one number or pair per sentence, got tensor\(\[0\.\+1\.j"),
        (np.array([1, None, 3], object), TypeError, r"one number or pair per sentence, got array\(\[1, None, 3\]"),
        (np.array([1, 2, 3], "M8[s]"), TypeError, "one number or pair per sentence, got array"),
        (torch.ones(3, device="meta"), TypeError, r"one number or pair per sentence, got tensor\(.*meta"),
        (np.ma.masked_equal([1, 2, 3], 2), TypeError, r"one number or pair per sentence, got masked_array\("),
        (torch.eye(3)[1].to_sparse(), TypeError, r"one number or pair per sentence, got tensor\(indices="),
    ],
)
def test_errors_name_the_metric_and_what_it_returned(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"the metric 'f' .*{message}" if "'f" not in message else message):
        score(value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_a_nested_tensor_is_not_taken_for_numbers() -> None:
    rows = [torch.ones(1), torch.ones(1), torch.ones(2)]
    with pytest.raises(TypeError, match=r"^the metric 'f' must return .* per sentence, got nested_tensor\("):
        score(torch.nested.nested_tensor(rows))


def test_a_number_that_is_too_large_for_float64_is_not_finite() -> None:
    values = np.array([1, 2, np.longdouble(2) ** 10_000])  # which may be a float64 itself
    with pytest.raises(ValueError, match=r"^the metric 'f' returned inf for the hypothesis ''"):
        score(values)


@pytest.mark.parametrize(
    "kind",
    [
        list,
        torch.tensor,
        lambda pairs: np.array(pairs, ">f8"),
        lambda pairs: pandas.DataFrame(pairs, dtype=object),
    ],
)
def test_pairs_and_numbers_may_have_names(kind: Any) -> None:
    pairs = [(1, 4), (0, 0), (2.5, 3)]
    rows = call("f", lambda hypotheses, references: {"a": kind(pairs), "b": VALUES})
    assert rows is not None
    assert {name: of_score.tolist() for name, of_score in rows.items()} == {
        "a": [[*pair] for pair in pairs],
        "b": [[value, 1] for value in VALUES],
    }


def test_only_a_function_of_the_corpus_may_return_a_single_number() -> None:
    rows = call("f", lambda hypotheses, references: {"a": 0.5, "b": VALUES}, corpus_level=True)
    assert rows is not None
    assert rows["a"].tolist() == [0.5, 1]
    assert rows["b"][:, 0].tolist() == VALUES
    with pytest.raises(ValueError, match=r"^the metric 'f' returned nan: return a finite number"):
        call("f", lambda hypotheses, references: float("nan"), corpus_level=True)


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
        said = try_to(call, "f", function)
        is_error = function is disturb and bool(error)
        failed = (
            "RuntimeError: the metric 'f' failed: KeyError: 'model' (called with 3 hypotheses, a list of references"
        )
        assert said.startswith(failed) if is_error else said == ""
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
        scores = call("f", function)
        after = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    assert seen == [(False, False, False)]
    assert after == before
    assert scores is not None
    assert scores[""].tolist() == [[1, 1]] * 3


def test_a_tensor_that_was_made_in_inference_mode_is_read() -> None:
    with torch.inference_mode():
        values = torch.tensor(SIMPLE)
    assert score(values) == SIMPLE


# FunctionMetric


CORPUS = ["a b c d", "a x", "x x x x", "a b"], ["a b c d", "a b", "a b c d", "a b"]
WRONG = [(0, 4), (1, 2), (4, 4), (0, 2)]
"""The wrong words of each sentence, and all its words."""


def wrong_words(hypotheses: list[str], references: list[list[str]]) -> list[tuple[int, int]]:
    """The errors and the words of each sentence."""
    return [
        (sum(word not in options[0].split() for word in line.split()), len(line.split()))
        for line, options in zip(hypotheses, references, strict=True)
    ]


def wrong_and_right(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """Two scores."""
    return {"wrong": wrong_words(hypotheses, references), "right": exact(hypotheses, references)}


def of_sources(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """The length of each source."""
    return [float(len(source)) for source in sources]


def of_optional_sources(hypotheses: list[str], references: list[list[str]], sources: Any = None) -> list[float]:
    """The same; -1 without sources."""
    return [-1.0] * len(hypotheses) if sources is None else of_sources(hypotheses, references, sources)


def evaluate(evaluator: Evaluator, corpus: Any = CORPUS, **fields: Any) -> dict[str, Result]:
    """The results of a validation."""
    evaluator.start()
    evaluator.update(*corpus, **fields)
    return evaluator.finish(1)


def score_of(metric: Any, **fields: Any) -> float:
    """The only score of a metric."""
    return evaluate(Evaluator({"f": metric}), **fields)["val_f"].score


def test_a_bare_function_is_a_metric_where_higher_is_better() -> None:
    bare, wrapped = (evaluate(Evaluator({"f": metric}))["val_f"] for metric in (exact, FunctionMetric(exact)))
    assert bare == wrapped
    assert (bare.score, bare.higher_is_better, bare.percent) == (0.5, True, None)
    assert str(bare.report) == "f = 0.5000"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"higher_is_better": "no"}, "'higher_is_better' must be True or False, got 'no' of type str"),
        ({"higher_is_better": {"a": True, "b": 0}}, "'higher_is_better' must be True or False, got 0 of type int"),
        ({"corpus_level": None}, "'corpus_level' must be True or False, got None of type NoneType"),
        ({"percent": None}, "'percent' must be True or False, got None of type NoneType"),
        ({"perfect": True}, "'perfect' must be a number or None, got True"),
    ],
)
def test_an_option_of_the_wrong_type_is_an_error_when_the_metric_is_made(options: Any, message: str) -> None:
    assert try_to(FunctionMetric, exact, **options) == f"TypeError: {message}"


def test_what_is_no_function_is_an_error_when_the_metric_is_made() -> None:
    for wrong in (5, Model):
        assert try_to(FunctionMetric, wrong) == f"TypeError: 'function' must be a function, got {wrong!r}"


def test_options_have_names() -> None:
    assert "positional argument" in try_to(FunctionMetric, exact, False)
    assert "unexpected keyword argument 'lower_is_better'" in try_to(FunctionMetric, exact, lower_is_better=True)


class Model(nn.Module):
    """A module that scores sentences."""

    def forward(self, hypotheses: list[str], references: list[list[str]]) -> torch.Tensor:
        return torch.ones(len(hypotheses))


# Directions


def test_a_score_without_a_direction_has_no_best_and_no_comparison_with_it() -> None:
    metrics: dict[str, Any] = {"length": FunctionMetric(wrong_words, higher_is_better=None), "exact": exact}
    evaluator = Evaluator(metrics, compare_to="best", confidence=0.9)
    for _ in range(2):
        results = evaluate(evaluator)
    length = results["val_length"]
    assert length.higher_is_better is None
    assert (length.best, length.comparison) == (None, None)
    assert length.interval is not None
    assert results["val_exact"].best == results["val_exact"].score
    assert "val_length" not in evaluator.state_dict()["best"]


def test_each_score_of_a_dict_has_its_direction() -> None:
    directions = {"wrong": None, "right": False}
    evaluator = Evaluator({"f": FunctionMetric(wrong_and_right, higher_is_better=directions)}, compare_to="best")
    results = evaluate(evaluator)
    assert {name: result.higher_is_better for name, result in results.items()} == {
        "val_f/wrong": None,
        "val_f/right": False,
    }
    assert (results["val_f/wrong"].best, results["val_f/right"].best) == (None, 0.5)


@pytest.mark.parametrize(
    ("function", "directions", "missing"),
    [
        (wrong_and_right, {"wrong": False}, "right"),
        (wrong_words, {"wrong": False}, ""),
    ],
)
@pytest.mark.parametrize("corpus_level", [False, True])
def test_a_score_that_a_dict_of_directions_lacks_is_an_error(
    function: Any, directions: dict[str, bool], missing: str, corpus_level: bool
) -> None:
    metric = FunctionMetric(function, higher_is_better=directions, corpus_level=corpus_level)
    message = f"'higher_is_better' of the metric 'f' has {[*directions]}: add {missing!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        evaluate(Evaluator({"f": metric}))


# Percent, and the corpus at once


def test_percent_multiplies_everything_by_100(tmp_path: Path) -> None:
    results, tables = {}, {}
    for percent in (False, True):
        logger = PanelLogger(tmp_path)
        metric = FunctionMetric(wrong_words, higher_is_better=False, percent=percent)
        evaluator = Evaluator({"f": metric}, confidence=0.9, compare_to="best", samples=4, loggers=[logger])
        evaluate(evaluator, (["x b c d", *CORPUS[0][1:]], CORPUS[1]))
        results[percent] = evaluate(evaluator)["val_f"]
        tables[percent] = [sentence.scores for sentence in read_table(logger.panels[-1])]
    share, result = results[False], results[True]
    assert (share.score, share.percent) == (5 / 12, None)
    assert result.percent is True
    assert result.score == pytest.approx(100 * share.score)
    for name, value in share.statistics().items():
        assert result.statistics()[name] == pytest.approx(value if name == "p_value" else 100 * value)
    assert (str(share.report), str(result.report)) == ("f = 0.4167", "f = 41.67")
    assert tables[False] == [[errors / words] for errors, words in WRONG]
    assert tables[True] == [[100 * errors / words] for errors, words in WRONG]


def test_a_function_in_percent_is_on_the_scale_of_bleu_in_percent() -> None:
    Evaluator({"bleu": CorpusBLEU(percent=True), "f": FunctionMetric(exact, percent=True), "g": exact})
    message = "The metrics have different scales, {'bleu': 1.0, 'f': 100.0}"
    with pytest.warns(UserWarning, match=message):
        Evaluator({"bleu": CorpusBLEU(), "f": FunctionMetric(exact, percent=True)})


def test_sentences_without_words_get_the_better_score() -> None:
    pairs = [(0, 0), (1, 2)]
    for direction, score in ((True, 100), (False, 0)):
        metric = FunctionMetric(lambda *texts: pairs, higher_is_better=direction, percent=True)
        (loader,) = score_collected(count(Counting({"f": metric}), ["", "a"], ["", "b"])).loaders
        assert loader.rows["f"].score_sentences().tolist() == [score, 50]


@pytest.mark.parametrize(("perfect", "expected"), [(None, None), (0, 0), (1, 100), (0.5, 50)])
def test_perfect_is_a_number_that_the_function_returns(perfect: float | None, expected: float | None) -> None:
    metric = FunctionMetric(exact, percent=True, perfect=perfect)
    (loader,) = score_collected(count(Counting({"f": metric}), *CORPUS)).loaders
    assert loader.rows["f"].scorer.perfect == expected


def rank(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """A number per sentence and one for all, both of which depend on all sentences and their order."""
    place = [float(sorted(hypotheses).index(line)) for line in hypotheses]
    return {"place": place, "first": float(len(hypotheses[0]))}


def test_the_numbers_of_sentences_are_those_of_the_loader_and_a_single_number_is_that_of_the_group() -> None:
    results = evaluate(Evaluator({"f": FunctionMetric(rank, corpus_level=True)}), group=["a", "b", "a", "b"])
    # In the order of the alphabet: "a b", "a b c d", "a x", "x x x x"
    assert {logged: result.score for logged, result in results.items()} == {
        "val_f/place": 1.5,
        "val_f/a/place": 2,
        "val_f/b/place": 1,
        "val_f/mean/place": 1.5,
        "val_f/first": 7,
        "val_f/a/first": 7,
        "val_f/b/first": 3,
        "val_f/mean/first": 5,
    }


def test_a_function_may_score_the_corpus_and_none_of_its_groups() -> None:
    """It has no mean then."""

    def large(hypotheses: list[str], references: list[list[str]]) -> float | None:
        return None if len(hypotheses) < 4 else 0.5

    evaluator = Evaluator({"f": FunctionMetric(large, corpus_level=True), "g": exact})
    results = evaluate(evaluator, group=["a", "b", "a", "b"])
    assert [*results] == ["val_f", "val_g", "val_g/a", "val_g/b", "val_g/mean"]


def test_a_single_number_has_no_interval_and_no_comparison() -> None:
    metric = FunctionMetric(lambda hypotheses, references: 0.25, corpus_level=True)
    result = evaluate(Evaluator({"f": metric}, confidence=0.9, compare_to="best"))["val_f"]
    assert (result.score, result.statistics()) == (0.25, {})


# Sources

SOURCES = ["A", "B B", "C", "D"]


@pytest.mark.parametrize(
    ("function", "takes", "needs"),
    [
        (exact, False, False),
        (of_optional_sources, True, False),
        (lambda lines, right, texts: of_sources(lines, right, texts), True, True),
        (lambda lines, right, model=None: of_optional_sources(lines, right, model), False, False),
        (partial(of_sources, sources=["set"] * 4), False, False),
    ],
)
def test_a_function_takes_sources_if_a_parameter_asks_for_them(function: Any, takes: bool, needs: bool) -> None:
    metric = FunctionMetric(function)
    assert metric.takes_sources is takes
    is_set = isinstance(function, partial) and "sources" in function.keywords
    unused = 0.5 if function is exact else 3.0 if is_set else -1.0
    assert score_of(function, source=SOURCES) == score_of(metric, source=SOURCES) == (1.5 if takes else unused)
    if needs:
        message = "ValueError: the metric 'f' takes sources: give a 'source', or remove its third parameter"
        assert try_to(score_of, metric).startswith(message)
    else:
        assert score_of(metric) == unused


# Copies, subclasses, and configuration files


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
@pytest.mark.parametrize("make", [FunctionMetric, lambda function, **options: function])
def test_a_copy_of_a_metric_scores_the_same(copied: Any, make: Any) -> None:
    options = {"higher_is_better": False, "percent": True, "perfect": 0}
    metric = make(wrong_words, **options)
    expected = evaluate(Evaluator({"f": metric}))["val_f"]
    assert evaluate(Evaluator({"f": copied(metric)}))["val_f"] == expected
    evaluator = Evaluator({"f": metric})
    evaluate(evaluator)
    assert evaluate(copied(evaluator))["val_f"] == expected


def test_a_deep_copy_keeps_the_function() -> None:
    """It may be a large model."""
    metric = FunctionMetric(Model())
    assert copy.deepcopy(metric).function is metric.function
    assert copy.deepcopy(Evaluator({"f": metric})).metrics["f"] is metric


class WrongWords(FunctionMetric):
    """A metric with an option of its own."""

    def __init__(self, lowercase: bool = False) -> None:
        self.lowercase = lowercase
        super().__init__(self.count, higher_is_better=False, percent=True, perfect=0)

    def count(self, hypotheses: list[str], references: list[list[str]]) -> list[tuple[int, int]]:
        """Errors and words."""
        lines = [line.lower() for line in hypotheses] if self.lowercase else hypotheses
        return wrong_words(lines, references)


def test_a_subclass_may_have_options_of_its_own(tmp_path: Path) -> None:
    capitals = ["A B C D", *CORPUS[0][1:]], CORPUS[1]
    metrics = {"cased": WrongWords(), "lowered": WrongWords(lowercase=True)}
    results = evaluate(Evaluator(metrics, translations=tmp_path), capitals)
    assert {name: result.score for name, result in results.items()} == pytest.approx(
        {"val_cased": 75, "val_lowered": 100 * 5 / 12}
    )
    assert repr(metrics["cased"]) == "WrongWords(count)"
    pickled = pickle.loads(pickle.dumps(metrics["lowered"]))
    assert evaluate(Evaluator({"lowered": pickled}), capitals)["val_lowered"] == results["val_lowered"]
    assert {line["class"] for line in read_scores(tmp_path)} == {"WrongWords"}


HERE = "tests.evaluation.test_functions"


def configure(function: str, **options: Any) -> dict[str, Any]:
    """A FunctionMetric in a configuration file."""
    init_args = {"function": f"{HERE}.{function}", **options}
    return {"class_path": "lightning_bleu.FunctionMetric", "init_args": init_args}


DIRECTIONS = {"wrong": None, "right": False}


@pytest.mark.parametrize(
    ("kind", "config", "metrics"),
    [
        (
            Evaluator,
            {"f": configure("wrong_and_right", higher_is_better=DIRECTIONS), "g": f"{HERE}.of_optional_sources"},
            {"f": FunctionMetric(wrong_and_right, higher_is_better=DIRECTIONS), "g": of_optional_sources},
        ),
        (
            BLEUCallback,
            {"f": {"class_path": f"{HERE}.WrongWords", "init_args": {"lowercase": True}}},
            {"f": WrongWords(lowercase=True)},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jsonargparse deprecates the only way in old versions
def test_a_configuration_file_of_lightning_cli_can_have_functions(kind: Any, config: Any, metrics: Any) -> None:
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, "bleu")
    read = parser.parse_object({"bleu": {"metrics": config}})
    saved = parser.dump(read, skip_none=False)  # as LightningCLI does
    for parsed in (read, parser.parse_string(saved)):
        made = parser.instantiate_classes(parsed).bleu
        evaluator = made if isinstance(made, Evaluator) else made.evaluator
        assert evaluate(evaluator) == evaluate(Evaluator(metrics))
