"""Checks of the options of the callback, which are made before anything is trained."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.text import TranslationEditRate, WordErrorRate

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, corpus_bleu
from lightning_bleu.settings.settings import Settings
from lightning_bleu.training.options import (
    check_metrics,
    find_metric,
    labels_of,
    shared_reading,
)
from tests.helpers.callback_metrics import errors, exact
from tests.helpers.lightning import validate


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [" ".join(map(str, row)) for row in rows]


DECODER = (
    "must be a callable that turns a list of lists of ids into strings, or an object with a 'batch_decode' "
    "method (such as a Hugging Face tokenizer), got int"
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("log_name", ["{stage}_{metric}", "{stage}/{metric}", "新/{metric} of {stage}", "{metric}{stage}"]),
        ("log_name", [{"val": "valid/{metric}", "test": "test/{metric}"}, {"test": "{metric}.b", "val": "a/{metric}"}]),
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
BAD_NAMES += [{"val": one, "test": "test_{metric}"} for one in ("{metric}", "valid", "test/{metric}", "{a}_{metric}")]
PARTS = [*corpus_bleu(["a"], ["a"]).parts(), "bleu_1", "bleu_2", "bleu_3", "bleu_4"]
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
        ("confidence", [True, 95, 0, 1.0, float("nan")], ValueError, SHARE),
        ("significance_level", [[0.05]], TypeError, "must be a number between 0 and 1, got [0.05]"),
        ("significance_level", [-0.05], ValueError, SHARE),
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


# Metrics


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (CorpusBLEU(), {"bleu": [""]}),
        (CorpusCHRF(), {"chrf": [""]}),
        ({"bleu": CorpusBLEU()}, {"bleu": [""]}),
        (MappingProxyType({"新": CorpusBLEU(), "a/b": TER(), "a/c": TER()}), {"新": [""], "a/b": [""], "a/c": [""]}),
        ({"x": {"zh": CorpusBLEU(), "de": CorpusBLEU(max_order=2)}, "y": TER()}, {"x": ["zh", "de"], "y": [""]}),
        (MetricCollection([CorpusBLEU(), CorpusCHRF()], prefix="a_"), {"a_CorpusBLEU": [""], "a_CorpusCHRF": [""]}),
        ({"x": MetricCollection({"b": CorpusBLEU()}, postfix="_c"), "y": TER()}, {"x/b_c": [""], "y": [""]}),
        ({"x": MetricCollection({"b": CorpusBLEU(), "wer": WordErrorRate()})}, {"x/b": [""], "x/wer": [""]}),
        ({"x": {label: MetricCollection({"b": CorpusBLEU()}) for label in ("de", "zh")}}, {"x/b": ["de", "zh"]}),
        (nn.ModuleDict({"x": nn.ModuleDict({"de": CorpusBLEU()}), "y": CorpusBLEU()}), {"x": ["de"], "y": [""]}),
        ({"x": {"de": CorpusBLEU(), "de/zh": CorpusBLEU()}}, {"x": ["de", "de/zh"]}),
        ({"ter": MappingProxyType({"de": TER(), "zh": TER(asian_support=True)})}, {"ter": ["de", "zh"]}),
    ],
)
def test_metrics_have_names_and_labels(metrics: Any, expected: dict[str, list[str]]) -> None:
    checked = check_metrics(metrics)
    assert {name: [*own] for name, own in checked.items()} == expected
    assert labels_of(checked) == [*dict.fromkeys(label for own in expected.values() for label in own if label)]
    assert {name: [*own] for name, own in BLEUCallback(metrics).metrics.items()} == expected


NOT_ALIKE = (
    "must be all of this package or all of others, with the same names of scores and one direction, because the means "
    "over the labels are logged"
)


def test_hydra_makes_a_callback_of_a_metric_or_of_metrics_by_name() -> None:
    instantiate = pytest.importorskip("hydra.utils").instantiate
    bleu = {"_target_": "lightning_bleu.CorpusBLEU", "weights": [0.5, 0.5], "max_order": 2}
    for metrics, labels in ((bleu, [""]), ({"bleu": bleu}, [""]), ({"bleu": {"de": bleu, "zh": bleu}}, ["de", "zh"])):
        callback = instantiate({"_target_": "lightning_bleu.BLEUCallback", "metrics": metrics, "samples": 3})
        assert {name: [*own] for name, own in callback.metrics.items()} == {"bleu": labels}


BY_NAME = "pass metrics by name, such as {'bleu': CorpusBLEU()}"
NOT_A_METRIC = "must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got"


@pytest.mark.parametrize(
    ("metrics", "error", "message"),
    [
        ("bleu", TypeError, f"'metrics' {NOT_A_METRIC} 'bleu'"),
        (CorpusBLEU, TypeError, f"'metrics' {NOT_A_METRIC} {CorpusBLEU!r}: make an instance of it"),
        ([CorpusBLEU()], TypeError, f"'metrics' {NOT_A_METRIC} [CorpusBLEU()]: {BY_NAME}"),
        ({"bleu": "bleu"}, TypeError, f"'bleu' {NOT_A_METRIC} 'bleu': {BY_NAME}"),
        (TER(), TypeError, "TER needs a name: pass {'NAME': ...}"),
        (TranslationEditRate(), TypeError, "needs a name: pass {'NAME': ...}"),
        ({}, ValueError, "'metrics' must have at least one metric, got an empty dict"),
        ({"ter": 5}, TypeError, f"'ter' {NOT_A_METRIC} 5"),
        ({5: TER()}, TypeError, "the names of the metrics must be strings, got 5 of type int"),
        ({"": TER()}, ValueError, "the metrics cannot have the name '', which is reserved"),
        ({"samples": TER()}, ValueError, "the metrics cannot have the name 'samples', which is reserved"),
        ({"a": TER(), "worst": TER()}, ValueError, "the metrics cannot have the name 'worst', which is reserved"),
        ({"a\ud800": TER()}, ValueError, "the metrics cannot have the name 'a\\ud800': a lone surrogate cannot be"),
        ({"a/b": TER(), "a": TER()}, ValueError, "the names 'a' and 'a/b' of the metrics clash, because a/... is"),
        ({"x": {}}, ValueError, "'x' must have a metric for each loader or group, got an empty dict"),
        ({"x": MetricCollection({"b": CorpusBLEU()}), "x/b": TER()}, ValueError, "metrics must have different names"),
        ({"x": {c: MetricCollection({c: CorpusBLEU()}) for c in "ab"}}, ValueError, "got ['x/a'] and ['x/b']"),
        ({"x": nn.ModuleDict({"low": CorpusBLEU()})}, ValueError, "cannot have the name 'low', which is"),
        ({"x": {"de": None}}, TypeError, f"'x' {NOT_A_METRIC} None"),
        ({"x": {0: TER()}}, TypeError, "the names of the loaders or groups of 'x' must be strings, got 0 of type int"),
        ({"x": {"": TER()}}, ValueError, "the loaders or groups of 'x' cannot have the name '', which is reserved"),
        ({"x": {"low": TER()}}, ValueError, "the loaders or groups of 'x' cannot have the name 'low', which is"),
        (
            {"x": {"news": CorpusBLEU(percent=True), "talks": CorpusBLEU()}},
            ValueError,
            "the metrics of 'x' must have one scale, because the mean of their scores is logged: set percent=True for "
            "all of them, or for none",
        ),
        ({"x": {"a": CorpusBLEU(), "b": TER()}}, ValueError, f"'x' {NOT_ALIKE}"),
        ({"x": {"a": exact, "b": errors}}, ValueError, f"'x' {NOT_ALIKE}"),
    ],
)
def test_anything_else_is_rejected_as_metrics(metrics: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        BLEUCallback(metrics)
    assert message in str(raised.value)


def test_different_scales_are_warned_about() -> None:
    message = "The metrics have different scales: 'bleu' in 0..100, 'chrf' in 0..1. Set percent=True for all of them"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}"):
        BLEUCallback({"bleu": CorpusBLEU(percent=True), "ter": TER(), "chrf": CorpusCHRF()})


# Metrics of labels


@pytest.mark.parametrize(
    ("loader", "group", "found"),
    [("news", None, "news"), ("news", "de", "de"), ("news", "fr", "news"), ("talks", "de", "de"), ("talks", "x", None)],
)
def test_the_metric_of_a_label_is_that_of_its_group_then_of_its_loader_then_that_of_all(
    loader: str, group: str | None, found: str | None
) -> None:
    metrics = check_metrics({"x": {label: CorpusBLEU() for label in ("news", "de")}})["x"]
    if found:
        assert find_metric("x", metrics, loader, group) is metrics[found]
    metrics = check_metrics({"x": {label: CorpusBLEU() for label in ("news", "de", "news/de")}})["x"]
    assert find_metric("x", metrics, "news", "de", ["news", "talks"]) is metrics["news/de"]
    everything = check_metrics({"x": CorpusBLEU()})["x"]
    assert find_metric("x", everything, loader, group) is everything[""]


# How ids are read


def read_by(metrics: Any, decoder: Any = None, loader: str = "news", loaders: Any = ("news", "talks")) -> Any:
    return shared_reading(check_metrics(metrics), decoder, loader, loaders)


SPLIT: Any = str.split
DE, FR = CorpusBLEU(decoder=spell, pad_id=0), CorpusBLEU(decoder=SPLIT)


@pytest.mark.parametrize(
    ("metrics", "loader", "expected"),
    [
        (CorpusBLEU(lowercase=True), "news", {}),
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusCHRF(), "c": TER()}, "news", {"pad_id": 0}),
        ({"a": CorpusCHRF(), "b": CorpusBLEU(pad_id=0, max_order=2)}, "news", {"pad_id": 0}),
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusCHRF(pad_id=0, percent=False)}, "news", {"pad_id": 0}),
        ({"a": {"news": DE, "talks": FR}}, "news", {"decoder": spell, "pad_id": 0}),
        ({"a": {"news": DE, "talks": FR}}, "talks", {"decoder": str.split}),
        ({"a": {"de": DE, "fr": DE}}, "news", {"decoder": spell, "pad_id": 0}),  # groups
    ],
)
def test_a_metric_that_sets_nothing_reads_ids_as_the_others(metrics: Any, loader: str, expected: Any) -> None:
    assert read_by(metrics, loader=loader) == Settings.from_options(**expected)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"ter": TER()}, {"decoder": len}),
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusCHRF()}, {"decoder": len, "pad_id": 0}),
        ({"a": CorpusBLEU(decoder=spell), "b": CorpusCHRF()}, {"decoder": spell}),
    ],
)
def test_the_decoder_of_the_callback_is_for_metrics_that_set_none(metrics: Any, expected: Any) -> None:
    assert read_by(metrics, len) == Settings.from_options(**expected)


@pytest.mark.parametrize(
    ("metrics", "names", "differing"),
    [
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusBLEU(pad_id=1)}, "'a' and 'b'", ["pad_id"]),
        ({"a": CorpusBLEU(pad_id=0), "c": TER(), "b": CorpusCHRF(eos_id=0)}, "'a' and 'b'", ["pad_id", "eos_id"]),
        ({"a": {"x": CorpusBLEU(pad_id=0), "y": CorpusBLEU(pad_id=1)}}, "'a' of 'x' and 'a' of 'y'", ["pad_id"]),
        ({"a": CorpusBLEU(decoder=spell), "b": FR}, "'a' and 'b'", ["decoder"]),
    ],
)
def test_metrics_that_read_ids_differently_are_an_error_before_the_first_batch(
    metrics: Any, names: str, differing: list[str], tmp_path: Path
) -> None:
    message = re.escape(f"{names} must read ids in the same way, but differ in {differing}: give them the")
    with pytest.raises(ValueError, match=f"^{message}"):
        validate(tmp_path, BLEUCallback(metrics), step=lambda batch, epoch: pytest.fail("read a batch"))
