"""Checks of the options of an evaluator, which are made before anything is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.evaluation.options import Options, make_namings
from tests.helpers.metrics import all_bleu_components_of

DECODER = (
    "must be a callable that turns a list of lists of ids into strings, or an object with a 'batch_decode' "
    "method (such as a Hugging Face tokenizer), got int"
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("log_name", ["{stage}/{metric}", "新/{metric} of {stage}", "{metric}{stage}", "{metric}", "val_{metric}"]),
        ("parts", [True, False, [], ["bleu_1", "bleu_3", "precision_4"], ("brevity_penalty",)]),
        ("decoder", [None, str.split, CorpusBLEU]),
        ("dataloader_names", [None, ["news"], ("news", "talks")]),
        ("translations", [None, "folder", Path("folder"), True, False]),
        ("confidence", [None, 0.95, 1e-9, np.float32(0.5), np.float64(0.5), torch.tensor(0.5)]),
        ("compare_to", [None, "best"]),
        ("only", [None, ["zh"], ("news/de", "fr"), {"zh"}, frozenset(["mean"])]),
    ],
)
def test_valid_options_pass(option: str, values: list[Any]) -> None:
    for value in values:
        BLEUCallback(**{option: value})


INTEGER = "must be an integer, got {value!r} of type {kind}"
SHARE = "must lie between 0 and 1, got {value!r}"
BAD_NAMES: list[Any] = [
    *("", "bleu", "{stage}_bleu", "{stage}/{metric}/{language}", "{stage}/{metrics}", "{0}/{stage}"),
    *("{stage!r}/{metric:>9}", "{stage}{metric}{", "/{stage}/{metric}", "{stage}//{metric}"),
]
ONLY = "must be a list of names of loaders or groups, such as ['zh'], got {value!r}"
NO_NAMES: list[Any] = [[], "news", {"news"}, {"a": 1}, 2, b"ab", ["a", 1], [None], [["a"], ["b"]]]


@pytest.mark.parametrize(
    ("option", "values", "error", "message"),
    [
        ("log_name", [None, {"val": "a_{metric}"}], TypeError, "must be a string, got {value!r} of type {kind}"),
        (
            "log_name",
            BAD_NAMES,
            ValueError,
            "must be a name with '{{metric}}', and perhaps '{{stage}}', got {value!r}",
        ),
        ("decoder", [5], TypeError, DECODER),
        ("parts", ["bleu_1", None, {"bleu_1"}], TypeError, "must be True, False, or a list of names, got {value!r}"),
        (
            "parts",
            [["bleu_5"]],
            ValueError,
            f"must be one of {all_bleu_components_of()}, got 'bleu_5': did you mean 'bleu_4'?",
        ),
        ("extract", ["preds"], TypeError, "must take outputs and batch and return (preds, target), got 'preds'"),
        ("dataloader_names", NO_NAMES, TypeError, "must be a list of names, got {value!r}"),
        ("samples", [None, True, 8.0, "8"], TypeError, INTEGER),
        ("samples", [-1], ValueError, "must be 0 or more, got -1"),
        ("translations", ["", 1, b"folder"], TypeError, "must be a folder or True, got {value!r} of type {kind}"),
        ("translations", ["s3://a/b"], ValueError, "must be a local folder, got 's3://a/b'"),
        ("compare_to", [True], TypeError, "must be one of ['best'], got True of type bool"),
        ("compare_to", ["Best"], ValueError, "must be one of ['best'], got 'Best': did you mean 'best'?"),
        ("only", ["zh", 5, [1], ["zh", None], {"zh": CorpusBLEU()}], TypeError, ONLY),
        (
            "only",
            [[], (), [""], ["zh", ""]],
            ValueError,
            "must have one or more names of loaders or groups, got {value!r}",
        ),
        ("confidence", ["0.95"], TypeError, "must be a number between 0 and 1, got '0.95'"),
        ("confidence", [True, 0, 1.0, 100, 1e9, float("nan")], ValueError, SHARE),
        ("confidence", [95, 95.0, np.float64(95)], ValueError, SHARE + ": did you mean 0.95?"),
    ],
)
def test_an_error_names_the_option_and_what_was_received(
    option: str, values: list[Any], error: type[Exception], message: str
) -> None:
    for value in values:
        with pytest.raises(error) as raised:
            BLEUCallback(**{option: value})
        assert str(raised.value) == f"{option!r} {message.format(value=value, kind=type(value).__name__)}"


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
        ({"beam": 1}, "unknown option 'beam'"),
        ({"metric": CorpusCHRF()}, "unknown option 'metric': did you mean 'metrics'?"),
    ],
)
def test_a_wrong_call_is_an_error_that_shows_the_right_one(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        BLEUCallback(**options)
    with pytest.raises(TypeError, match=f"^{re.escape(message.replace('BLEUCallback', 'Evaluator'))}"):
        Evaluator(**options)


@pytest.mark.parametrize(
    ("log_name", "val", "test"),
    [
        ("{stage}/{metric}", "val/bleu", "test/bleu"),
        ("{metric}", "bleu", "test_bleu"),
        ("valid/{metric}", "valid/bleu", "test_valid/bleu"),
    ],
)
def test_names_of_a_test_without_its_stage_begin_with_it(log_name: str, val: str, test: str) -> None:
    namings = make_namings(log_name)
    assert (namings["val"].tag("bleu"), namings["test"].tag("bleu")) == (val, test)
    assert namings["val"].folder != namings["test"].folder


# Only some loaders and groups


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        # for the loader without a name, and for "news", "news/de", "talks"
        (None, [None, None, None, None]),
        (["news"], [[], None, [], []]),
        (["news/de"], [[], ["de"], None, []]),
        (["news/de", "news/fr"], [[], ["de", "fr"], None, []]),
        (["news/de", "news"], [[], None, None, []]),  # entries add up
        (["news/de/x", "talks"], [[], ["de/x"], ["x"], None]),
        (["newspaper", "talk"], [["newspaper", "talk"]] * 4),  # labels hold in every loader
        (["zh", "talks"], [["zh"], ["zh"], ["zh"], None]),
    ],
)
def test_entries_name_loaders_or_their_groups_or_the_groups_of_a_loader_without_a_name(
    only: Any, expected: list[Any]
) -> None:
    options = Options(only=only)
    loaders = ["", "news", "news/de", "talks"]
    assert [options.labels_of(loader, loaders) for loader in loaders] == expected
    if only is not None:  # there are no other loaders
        assert options.labels_of("", [""]) == only
