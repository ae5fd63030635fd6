"""Checks of the options of an evaluator, which are made before anything is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator

DECODER = (
    "must be a callable that turns a list of lists of ids into strings, or an object with a 'batch_decode' "
    "method (such as a Hugging Face tokenizer), got int"
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("log_name", ["{stage}_{metric}", "{stage}/{metric}", "新/{metric} of {stage}", "{metric}{stage}"]),
        ("log_name", [{"val": "valid/{metric}", "test": "test/{metric}"}, {"test": "{metric}.b", "val": "a/{metric}"}]),
        ("separator", [None, "/", "_", "-", ".", "::", "|", "->", "\\"]),
        ("parts", [True, False, [], ["bleu_1", "bleu_3", "precision_4"], ("brevity_penalty",)]),
        ("decoder", [None, str.split, CorpusBLEU]),
        ("extract", [None, lambda outputs, batch: ..., print, Path]),
        ("dataloader_names", [None, ["news"], ("news", "talks")]),
        ("samples", [0, 1, 10**9]),
        ("translations", [None, "folder", Path("folder"), True, False]),
        ("keep_translations", [None]),
        ("confidence", [None, 0.95, 1e-9, np.float32(0.5), np.float64(0.5), torch.tensor(0.5)]),
        ("compare_to", [None, "best", "first"]),
        ("significance_level", [None, 0.05, np.float32(0.05), 0.001]),
    ],
)
def test_valid_options_pass(option: str, values: list[Any]) -> None:
    for value in values:
        BLEUCallback(**{option: value})


@pytest.mark.parametrize("keep", [1, 10**9])
def test_translations_are_kept_in_a_folder(keep: int) -> None:
    for folder in ("folder", True):
        BLEUCallback(translations=folder, keep_translations=keep)
    for none in (None, False):
        with pytest.raises(ValueError, match="'keep_translations' needs a folder: set 'translations' as well"):
            BLEUCallback(translations=none, keep_translations=keep)


INTEGER = "must be an integer, got {value!r} of type {kind}"
SHARE = "must lie between 0 and 1, got {value!r}"
BAD_NAMES: list[Any] = [
    *("", "bleu", "{stage}_bleu", "val_{metric}", "{stage}/{metric}/{language}", "{stage}/{metrics}", "{0}/{stage}"),
    *("{stage!r}/{metric:>9}", "{stage}{metric}{", "/{stage}/{metric}", "{stage}//{metric}"),
]
BAD_NAMES += [{"val": name, "test": "test_{metric}"} for name in ("{metric}", "valid", "test/{metric}", "{a}_{metric}")]
PARTS = [
    *(f"precision_{n}" for n in range(1, 5)),
    *("brevity_penalty", "length_ratio", "hypothesis_length", "reference_length"),
    *(f"bleu_{n}" for n in range(1, 5)),
]
NO_NAMES: list[Any] = [[], "news", {"news"}, {"a": 1}, 2, b"ab", ["a", 1], [None], [["a"], ["b"]]]


@pytest.mark.parametrize(
    ("option", "values", "error", "message"),
    [
        (
            "log_name",
            [None, {"val": "valid/{metric}"}, {"val": "val/{metric}", "test": 1}],
            TypeError,
            "must be a string, or a dict of strings for 'val' and 'test', got {value!r}",
        ),
        ("separator", [1, b"_", ["_"]], TypeError, "must be a string, got {value!r} of type {kind}"),
        (
            "separator",
            ["", " ", "a", "_0", "_ _", "{", "}", "{metric}", "·", "\n", "\0", "\ud800"],
            ValueError,
            "must be one or more of the characters !\"#$%&'()*+,-./:;<=>?@[\\]^_`|~, got {value!r}",
        ),
        (
            "log_name",
            BAD_NAMES,
            ValueError,
            "must be a name with '{{stage}}' and '{{metric}}', or a dict of names that differ in more than punctuation"
            ", such as {{'val': 'valid_{{metric}}', 'test': 'test_{{metric}}'}}, got {value!r}",
        ),
        ("decoder", [5], TypeError, DECODER),
        ("parts", ["bleu_1", None, {"bleu_1"}], TypeError, "must be True, False, or a list of names, got {value!r}"),
        ("parts", [["bleu_5"]], ValueError, f"must be one of {PARTS}, got 'bleu_5': did you mean 'bleu_4'?"),
        ("extract", ["preds"], TypeError, "must take outputs and batch and return (preds, target), got 'preds'"),
        ("dataloader_names", NO_NAMES, TypeError, "must be a list of names, got {value!r}"),
        ("samples", [None, True, 8.0, "8"], TypeError, INTEGER),
        ("samples", [-1], ValueError, "must be 0 or more, got -1"),
        ("translations", ["", 1, b"folder"], TypeError, "must be a folder or True, got {value!r} of type {kind}"),
        ("translations", ["s3://a/b"], ValueError, "must be a local folder, got 's3://a/b'"),
        ("keep_translations", [0, -1], ValueError, "must be 1 or more, got {value!r}"),
        ("keep_translations", [True, 2.0], TypeError, INTEGER),
        ("compare_to", [True], TypeError, "must be one of ['best', 'first'], got True of type bool"),
        ("compare_to", ["Best"], ValueError, "must be one of ['best', 'first'], got 'Best': did you mean 'best'?"),
        ("confidence", ["0.95"], TypeError, "must be a number between 0 and 1, got '0.95'"),
        ("confidence", [True, 0, 1.0, 100, 1e9, float("nan")], ValueError, SHARE),
        ("confidence", [95, 95.0, np.float64(95)], ValueError, SHARE + ": did you mean 0.95?"),
        ("confidence", [99.9], ValueError, SHARE + ": did you mean 0.999?"),
        ("significance_level", [[0.05]], TypeError, "must be a number between 0 and 1, got [0.05]"),
        ("significance_level", [-0.05], ValueError, SHARE),
        ("significance_level", [5], ValueError, SHARE + ": did you mean 0.05?"),
        (
            "significance_level",
            [0.0009],
            ValueError,
            "must be at least 0.001, got 0.0009: a smaller one needs more than 10,000 resamples in each validation",
        ),
    ],
)
def test_an_error_names_the_option_and_what_was_received(
    option: str, values: list[Any], error: type[Exception], message: str
) -> None:
    for value in values:
        with pytest.raises(error) as raised:
            BLEUCallback(**{option: value})
        assert str(raised.value) == f"{option!r} {message.format(value=value, kind=type(value).__name__)}"


def test_a_significance_level_needs_the_best() -> None:
    with pytest.raises(ValueError, match=r"^'significance_level' decides what becomes the best: use compare_to='best'"):
        BLEUCallback(compare_to="first", significance_level=0.05)


def test_loaders_must_have_different_names() -> None:
    with pytest.raises(ValueError, match=r"^the loaders must have different names, got \['a', 'b', 'a'\]$"):
        BLEUCallback(dataloader_names=("a", "b", "a"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pad_id": 0, "tokenizer": "zh", "samples": 3},
            "['pad_id', 'tokenizer'] are options of the metric: BLEUCallback(CorpusBLEU(pad_id=0, tokenizer='zh'))",
        ),
        ({"confidense": 0.9}, "unknown option 'confidense': did you mean 'confidence'?"),
        ({"ci": 0.95}, "unknown option 'ci': did you mean 'confidence'?"),
        ({"beam": 1}, "unknown option 'beam'; the nearest are ['samples', 'extract', 'log_name']"),
        ({"metric": CorpusCHRF()}, "unknown option 'metric': did you mean 'metrics'?"),
    ],
)
def test_a_wrong_call_is_an_error_that_shows_the_right_one(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        BLEUCallback(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad_id": 0}, "['pad_id'] are options of the metric: Evaluator(CorpusBLEU(pad_id=0))"),
        ({"ci": 0.95}, "unknown option 'ci': did you mean 'confidence'?"),
        ({"metric": CorpusCHRF()}, "unknown option 'metric': did you mean 'metrics'?"),
    ],
)
def test_a_wrong_call_of_an_evaluator_shows_the_right_one(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Evaluator(**options)


def test_options_are_attributes_that_cannot_be_set() -> None:
    options: dict[str, Any] = {"samples": 3, "confidence": 0.9, "translations": None, "log_name": "{stage}/{metric}"}
    for evaluator in (Evaluator(**options), BLEUCallback(**options)):
        assert {name: getattr(evaluator, name) for name in options} == options
        with pytest.raises(AttributeError):
            evaluator.samples = 4  # type: ignore[misc]
