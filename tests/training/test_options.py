"""Checks of the options of the callback, which are made before anything is trained."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER
from torchmetrics import MetricCollection
from torchmetrics.text import TranslationEditRate

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
from lightning_bleu.training.options import check_metrics, check_options, check_others

DEFAULTS: dict[str, Any] = {
    "name": "bleu",
    "extract": None,
    "dataloader_names": None,
    "samples": 8,
    "translations": None,
    "keep_translations": None,
    "confidence": None,
    "compare_to_best": False,
    "significance_level": None,
}


BAD_NAME = (
    "'name' must be a name such as 'bleu', or have the placeholder '{{stage}}' and no other, as in '{{stage}}/bleu', "
    "got '{}'"
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("name", ["bleu", "bleu/13a", "新", "{stage}/bleu", "val_{stage}", "validation_bleu", "test_"]),
        ("extract", [None, lambda outputs, batch: ..., print, Path]),
        ("dataloader_names", [None, [], ["news"], ("news", "talks")]),
        ("samples", [0, 1, 10**9]),
        ("translations", [None, "folder", "", Path("folder"), True, False]),
        ("keep_translations", [None]),
        ("confidence", [None, 0.95, 1e-9, np.float32(0.5), np.float64(0.5), torch.tensor(0.5)]),
        ("compare_to_best", [False, True, np.True_]),
        ("significance_level", [None, 0.05, np.float32(0.05), 0.001]),
    ],
)
def test_valid_options_pass(option: str, values: list[Any]) -> None:
    for value in values:
        check_options(DEFAULTS | {option: value})


@pytest.mark.parametrize("keep", [1, 10**9])
def test_translations_are_kept_in_a_folder(keep: int) -> None:
    for folder in ("folder", True):
        check_options(DEFAULTS | {"translations": folder, "keep_translations": keep})
    for none in (None, False):
        with pytest.raises(ValueError, match="'keep_translations' needs a folder: set 'translations' as well"):
            check_options(DEFAULTS | {"translations": none, "keep_translations": keep})


@pytest.mark.parametrize("name", ["val_bleu", "test_bleu"])
def test_a_name_that_has_the_stage_already_is_probably_a_mistake(name: str) -> None:
    with pytest.warns(UserWarning, match=f"^name='{name}' logs 'val_{name}': did you mean name='bleu'\\?$"):
        BLEUCallback(name=name)


@pytest.mark.parametrize(
    ("option", "value", "error", "message"),
    [
        ("name", "", ValueError, "'name' must not be empty: it is the last part of the logged name, as in 'val_bleu'"),
        ("name", None, TypeError, "'name' must be a string, got None of type NoneType"),
        ("name", "{stage}/{language}", ValueError, BAD_NAME.format("{stage}/{language}")),
        ("name", "{stge}/bleu", ValueError, BAD_NAME.format("{stge}/bleu")),
        ("name", "{0}/{stage}", ValueError, BAD_NAME.format("{0}/{stage}")),
        ("name", "{stage}{", ValueError, BAD_NAME.format("{stage}{")),
        ("name", "/bleu", ValueError, BAD_NAME.format("/bleu")),
        ("name", "{stage}//bleu", ValueError, BAD_NAME.format("{stage}//bleu")),
        ("name", b"bleu", TypeError, "'name' must be a string, got b'bleu' of type bytes"),
        (
            "extract",
            "preds",
            TypeError,
            "'extract' must take outputs and batch and return (preds, target), got 'preds'",
        ),
        ("dataloader_names", "news", TypeError, "'dataloader_names' must be a list of names, got 'news'"),
        ("dataloader_names", {"news"}, TypeError, "'dataloader_names' must be a list of names, got {'news'}"),
        ("dataloader_names", {"a": 1}, TypeError, "'dataloader_names' must be a list of names, got {'a': 1}"),
        ("dataloader_names", 2, TypeError, "'dataloader_names' must be a list of names, got 2"),
        ("dataloader_names", b"ab", TypeError, "'dataloader_names' must be a list of names, got b'ab'"),
        ("dataloader_names", ["a", 1], TypeError, "'dataloader_names' must be a list of names, got ['a', 1]"),
        ("dataloader_names", [None], TypeError, "'dataloader_names' must be a list of names, got [None]"),
        (
            "dataloader_names",
            [["a"], ["b"]],
            TypeError,
            "'dataloader_names' must be a list of names, got [['a'], ['b']]",
        ),
        (
            "dataloader_names",
            ("a", "b", "a"),
            ValueError,
            "'dataloader_names' must be different from each other, got ['a', 'b', 'a']",
        ),
        ("samples", None, TypeError, "'samples' must be an integer, got None of type NoneType"),
        ("samples", True, TypeError, "'samples' must be an integer, got True of type bool"),
        ("samples", 8.0, TypeError, "'samples' must be an integer, got 8.0 of type float"),
        ("samples", "8", TypeError, "'samples' must be an integer, got '8' of type str"),
        ("samples", -1, ValueError, "'samples' must be 0 or more, got -1"),
        ("translations", 1, TypeError, "'translations' must be a folder or True, got 1 of type int"),
        ("translations", b"folder", TypeError, "'translations' must be a folder or True, got b'folder' of type bytes"),
        ("translations", "s3://a/b", ValueError, "'translations' must be a local folder, got 's3://a/b'"),
        ("keep_translations", 0, ValueError, "'keep_translations' must be 1 or more, got 0"),
        ("keep_translations", -1, ValueError, "'keep_translations' must be 1 or more, got -1"),
        ("keep_translations", True, TypeError, "'keep_translations' must be an integer, got True of type bool"),
        ("keep_translations", 2.0, TypeError, "'keep_translations' must be an integer, got 2.0 of type float"),
        ("compare_to_best", None, TypeError, "'compare_to_best' must be True or False, got None of type NoneType"),
        ("compare_to_best", 1, TypeError, "'compare_to_best' must be True or False, got 1 of type int"),
        ("confidence", "0.95", TypeError, "'confidence' must be a number between 0 and 1, got '0.95'"),
        ("confidence", True, ValueError, "'confidence' must lie between 0 and 1, got True"),
        ("confidence", 95, ValueError, "'confidence' must lie between 0 and 1, got 95"),
        ("confidence", 0, ValueError, "'confidence' must lie between 0 and 1, got 0"),
        ("confidence", 1.0, ValueError, "'confidence' must lie between 0 and 1, got 1.0"),
        ("confidence", float("nan"), ValueError, "'confidence' must lie between 0 and 1, got nan"),
        ("significance_level", [0.05], TypeError, "'significance_level' must be a number between 0 and 1, got [0.05]"),
        ("significance_level", -0.05, ValueError, "'significance_level' must lie between 0 and 1, got -0.05"),
        (
            "significance_level",
            0.0009,
            ValueError,
            "'significance_level' must be at least 0.001, got 0.0009: a smaller one needs more than 10,000 resamples "
            "in each validation",
        ),
    ],
)
def test_an_error_names_the_option_and_what_was_received(
    option: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        check_options(DEFAULTS | {option: value})
    assert str(raised.value) == message
    with pytest.raises(error) as raised:
        BLEUCallback(**{option: value})
    assert str(raised.value) == message


# Metrics


def test_a_metric_for_all_loaders_passes_as_it_is() -> None:
    metric = CorpusBLEU()
    assert check_metrics(metric) is metric


def test_metrics_for_each_loader_pass_as_a_dict_of_their_own() -> None:
    metrics = {"news": CorpusBLEU(), "talks": CorpusBLEU(tokenizer="zh")}
    for given in (metrics, MappingProxyType(metrics)):
        checked = check_metrics(given)
        assert checked == metrics
        assert checked is not metrics
        assert isinstance(checked, dict)
        assert checked["news"] is metrics["news"]


@pytest.mark.parametrize("percent", [False, True])
def test_metrics_of_one_scale_pass(percent: bool) -> None:
    metrics = {"news": CorpusBLEU(percent=percent), "talks": CorpusBLEU(percent=percent, max_order=2)}
    assert check_metrics(metrics) == metrics


@pytest.mark.parametrize(
    ("metric", "error", "message"),
    [
        (
            "bleu",
            TypeError,
            "'metric' must be a CorpusBLEU, or a dict of a CorpusBLEU for each loader name, got 'bleu'",
        ),
        (None, TypeError, "for each loader name, got None of type NoneType"),
        (CorpusBLEU, TypeError, f"for each loader name, got {CorpusBLEU!r} of type ABCMeta"),
        ([CorpusBLEU()], TypeError, "for each loader name, got [CorpusBLEU()] of type list"),
        ({"news": CorpusBLEU(), "talks": None}, TypeError, "for each loader name, got None of type NoneType"),
        ({0: CorpusBLEU()}, TypeError, "the keys of 'metric' must be strings, got 0 of type int"),
        ({}, ValueError, "'metric' must have a metric for each loader name, got an empty dict"),
        (
            {"news": CorpusBLEU(percent=True), "talks": CorpusBLEU()},
            ValueError,
            "'metric' must have metrics of one scale, because the mean of their scores is logged: set percent=True for "
            "all of them, or for none",
        ),
    ],
)
def test_anything_else_is_rejected_as_a_metric(metric: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        check_metrics(metric)
    assert message in str(raised.value)
    if metric is not None:  # the default
        with pytest.raises(error) as raised:
            BLEUCallback(metric)
        assert message in str(raised.value)


# Other metrics


@pytest.mark.parametrize(
    ("name", "others", "full"),
    [
        ("bleu", ["chrf", "bleu2", "blue", "新", "a/b"], ["chrf", "bleu2", "blue", "新", "a/b"]),
        ("bleu", ["{stage}/chrf", "ter"], ["{stage}/chrf", "ter"]),
        ("bleu/13a", ["bleu/intl", "chrf"], ["bleu/intl", "chrf"]),
        ("{stage}/bleu", ["chrf", "{stage}_ter", "a/b"], ["{stage}/chrf", "{stage}_ter", "{stage}/a/b"]),
        ("own/{stage}/bleu", ["chrf"], ["own/{stage}/chrf"]),
        ("{stage}_bleu", ["{stage}_chrf", "{stage}/bleu"], ["{stage}_chrf", "{stage}/bleu"]),
        ("bleu", [], []),
    ],
)
def test_names_of_other_metrics_are_like_that_of_bleu(name: str, others: list[str], full: list[str]) -> None:
    metrics = {other: CorpusCHRF() for other in others}
    for given in (metrics, MappingProxyType(metrics)):
        checked = check_others(given, name)
        assert [*checked] == full == [*BLEUCallback(others=given, name=name).others]
        assert all(metric is not given for metric, given in zip(checked.values(), metrics.values(), strict=True))
    assert check_others(None, name) == {}


NO_DICT = "'others' must be a dict of a metric for each name, got "
NO_NAME = "the keys of 'others' must be strings, got "


@pytest.mark.parametrize(
    ("name", "others", "error", "message"),
    [
        ("bleu", TER, TypeError, NO_DICT),
        ("bleu", [TER()], TypeError, NO_DICT),
        ("bleu", "ter", TypeError, f"{NO_DICT}'ter'"),
        ("bleu", 5, TypeError, f"{NO_DICT}5"),
        ("bleu", MetricCollection([TranslationEditRate()]), TypeError, NO_DICT),
        (
            "bleu",
            {"ter": 5},
            TypeError,
            "'others' must have metrics of lightning_bleu, torchmetrics, or sacreBLEU, got",
        ),
        ("bleu", {5: TER()}, TypeError, f"{NO_NAME}5 of type int"),
        ("bleu", {None: TER()}, TypeError, f"{NO_NAME}None of type NoneType"),
        ("bleu", {"": TER()}, ValueError, "must not be empty"),
        ("{stage}/bleu", {"": TER()}, ValueError, BAD_NAME.format("{stage}/")),
        ("bleu", {"a//b": TER()}, ValueError, BAD_NAME.format("a//b")),
        ("bleu", {"{language}": TER()}, ValueError, BAD_NAME.format("{language}")),
        ("bleu", {"bleu": TER()}, ValueError, "'others' has the name 'bleu', which clashes with 'bleu'"),
        ("bleu", {"bleu/x": TER()}, ValueError, "'others' has the name 'bleu/x', which clashes with 'bleu'"),
        ("bleu/x", {"bleu": TER()}, ValueError, "'others' has the name 'bleu', which clashes with 'bleu/x'"),
        (
            "{stage}/bleu",
            {"bleu": TER()},
            ValueError,
            "'others' has the name 'bleu', which clashes with '{stage}/bleu'",
        ),
        ("bleu", {"a": TER(), "a/b": TER()}, ValueError, "'others' has the name 'a/b', which clashes with 'a'"),
        ("bleu", {"a/b": TER(), "a": TER()}, ValueError, "'others' has the name 'a', which clashes with 'a/b'"),
        (
            "{stage}/bleu",
            {"ter": TER(), "{stage}/ter": TER()},
            ValueError,
            "'others' has the name '{stage}/ter', which clashes with '{stage}/ter'",
        ),
        (
            "{stage}_bleu",
            {"ter": TER()},
            ValueError,
            "a key of 'others' must have the placeholder '{stage}', like name='{stage}_bleu'; got 'ter'",
        ),
    ],
)
def test_anything_else_is_rejected_as_other_metrics(
    name: str, others: Any, error: type[Exception], message: str
) -> None:
    for check in (lambda: check_others(others, name), lambda: BLEUCallback(others=others, name=name)):
        with pytest.raises(error) as raised:
            check()
        assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "others"),
    [("bleu", ["{stage}_bleu"]), ("bleu", ["ter", "{stage}_ter/x"]), ("{stage}_bleu/x", ["{stage}_bleu"])],
)
def test_names_clash_if_they_are_logged_under_one_name(name: str, others: list[str]) -> None:
    with pytest.raises(ValueError, match="clashes with"):
        check_others({other: TER() for other in others}, name)
