"""The metrics of an evaluator: their names, their labels, and how they read ids."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from sacrebleu.metrics.ter import TER
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.text import TranslationEditRate, WordErrorRate

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.opponents import Opponent
from lightning_bleu.settings.settings import Settings
from tests.helpers.callback_metrics import errors, exact
from tests.helpers.lightning import validate
from tests.helpers.validations import count, make_collector, score


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [" ".join(map(str, row)) for row in rows]


def assert_labels(table: MetricTable, expected: dict[str, list[str]]) -> None:
    """The table has these labels by name; ``""`` for a metric of all loaders and groups."""
    assert table.names == [*expected]
    assert table.labels == [*dict.fromkeys(label for labels in expected.values() for label in labels if label)]
    for name, labels in expected.items():
        of_labels = [table.find(name, label, None) for label in labels]
        assert of_labels == [metric for metric in table if metric.name == name]


# Metrics


EXPECTED: dict[str, Any] = {
    "bleu": CorpusBLEU(),
    "chrf": CorpusCHRF(),
    "ter": TER(),
    "rate": errors,
    "length": FunctionMetric(exact, higher_is_better=None),
    "corpus": FunctionMetric(lambda hypotheses, references: 1.0, corpus_level=True),
}


@pytest.mark.parametrize("kind", [None, "best", "first"])
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("loaders", [("",), ("news",), ("news", "talks/ted")])
def test_what_is_expected_before_a_validation_is_what_it_logs(loaders: Any, confidence: Any, kind: Any) -> None:
    collector = make_collector(EXPECTED, loaders)
    for number in range(len(loaders)):
        count(collector, ["a b c", "d"], ["a b d", "e"], dataloader_idx=number)
    find_opponent = None if kind is None else lambda name: Opponent(kind)
    scored = score(collector, confidence=confidence, find_opponent=find_opponent)
    expected = collector.table.expected_names(loaders, interval=confidence is not None, compare_to=kind)
    assert sorted(expected) == sorted(scored.numbers)


SOME_HAVE_METRICS: dict[str, Any] = {
    "bleu": {"gen": CorpusBLEU(), "news": None, "talks": CorpusBLEU(lowercase=True)},
    "chrf": {"gen": CorpusCHRF(), "news": None, "talks": None},
}


@pytest.mark.parametrize("loaders", [("gen",), ("news",), ("talks", "news"), ("gen", "news", "talks")])
def test_none_is_expected_where_it_is_logged(loaders: Any) -> None:
    collector = make_collector(SOME_HAVE_METRICS, loaders)
    for number in range(len(loaders)):
        count(collector, ["a b c", "d"], ["a b d", "e"], dataloader_idx=number)
    expected = collector.table.expected_names(loaders, interval=True)
    assert sorted(expected) == sorted(score(collector, confidence=0.9).numbers)


def test_only_the_components_that_are_logged_are_expected() -> None:
    metrics = {"bleu": {"de": CorpusBLEU(max_order=2), "zh": CorpusBLEU()}}
    for parts, expected in ((False, []), (["precision_3", "length_ratio"], ["length_ratio", "precision_3"])):
        names = MetricTable.from_metrics(metrics, parts).expected_names()
        assert [name.detail for name in names if name.detail] == expected


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
    assert_labels(MetricTable.from_metrics(metrics), expected)


@pytest.mark.parametrize("metrics", [CorpusBLEU(), {"x": {"zh": CorpusBLEU(), "de": CorpusBLEU()}, "f": exact}])
def test_metrics_are_an_attribute_as_they_were_passed(metrics: Any) -> None:
    assert BLEUCallback(metrics).metrics is metrics
    assert Evaluator(metrics).metrics is metrics


def test_hydra_makes_a_callback_of_a_metric_or_of_metrics_by_name() -> None:
    instantiate = pytest.importorskip("hydra.utils").instantiate
    bleu = {"_target_": "lightning_bleu.CorpusBLEU", "weights": [0.5, 0.5], "max_order": 2}
    for metrics, labels in ((bleu, [""]), ({"bleu": bleu}, [""]), ({"bleu": {"de": bleu, "zh": bleu}}, ["de", "zh"])):
        callback = instantiate({"_target_": "lightning_bleu.BLEUCallback", "metrics": metrics, "samples": 3})
        assert_labels(MetricTable.from_metrics(callback.metrics), {"bleu": labels})


NOT_ALIKE = (
    "must be all of this package or all of others, with the same names of scores and one direction, because the means "
    "over the labels are logged"
)
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
        (
            {"x": {label: MetricCollection({label: CorpusBLEU()}) for label in "ab"}},
            ValueError,
            "got ['x/a'] and ['x/b']",
        ),
        ({"x": nn.ModuleDict({"low": CorpusBLEU()})}, ValueError, "cannot have the name 'low', which is"),
        ({"x": None}, ValueError, "'x' has no metric, but None: leave it out, or pass a metric for a loader or group"),
        ({"x": {"de": None, "zh": None}}, ValueError, "'x' has no metric, but None: leave it out, or pass a metric"),
        ({"x": {"low": None, "de": TER()}}, ValueError, "of 'x' cannot have the name 'low', which is reserved"),
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
        (
            {"x": {"a": exact, "b": FunctionMetric(errors, higher_is_better=False)}},
            ValueError,
            f"'x' {NOT_ALIKE}",
        ),
        (
            {"x": {"a": exact, "b": FunctionMetric(exact, percent=True)}},
            ValueError,
            "the metrics of 'x' must have one scale",
        ),
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
    ("loader", "group", "expected"),
    [("news", None, "news"), ("news", "de", "de"), ("news", "fr", "news"), ("talks", "de", "de"), ("talks", "x", None)],
)
def test_the_metric_of_a_label_is_that_of_its_group_then_of_its_loader_then_that_of_all(
    loader: str, group: str | None, expected: str | None
) -> None:
    table = MetricTable.from_metrics({"x": {"news": CorpusBLEU(), "de": CorpusBLEU(max_order=2)}})
    news, de = table
    if expected:
        assert table.find("x", loader, group) is {"news": news, "de": de}[expected]
    table = MetricTable.from_metrics({"x": {label: CorpusBLEU() for label in ("news", "de", "news/de")}})
    news, de, both = table
    assert table.find("x", "news", "de", ["news", "talks"]) is both
    assert table.find("x", "talks", "de", ["news", "talks"]) is de
    table = MetricTable.from_metrics({"x": CorpusBLEU()})
    assert table.find("x", loader, group) is table.first("x")


@pytest.mark.parametrize(
    ("loader", "group", "loaders", "message"),
    [
        ("talks", "x", (), "'x' has no metric for the group 'x', only for ['news', 'de']: add one, or pass a single"),
        (
            "talks",
            None,
            (),
            "'x' has metrics for ['news', 'de'], but the loader is 'talks': pass a dict of loaders with",
        ),
        ("", None, (), "'x' has metrics for ['news', 'de'], but the loader has no name: pass a dict of loaders with"),
        (
            "talks",
            "news",
            ("news", "talks"),
            "'news' of 'x' is a loader, and also a group of 'talks': add 'talks/news'",
        ),
    ],
)
def test_a_label_without_a_metric_of_its_own_is_an_error(
    loader: str, group: str | None, loaders: Any, message: str
) -> None:
    table = MetricTable.from_metrics({"x": {"news": CorpusBLEU(), "de": CorpusBLEU()}})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        table.find("x", loader, group, loaders)


MEMBERS = MetricCollection({"b": CorpusBLEU(), "c": CorpusCHRF()})


@pytest.mark.parametrize("metrics", [SOME_HAVE_METRICS, {"x": {"gen": MEMBERS, "news": None}}])
def test_none_is_the_metric_of_a_label_that_has_none(metrics: Any) -> None:
    table = MetricTable.from_metrics(metrics)
    assert len([*table]) == (3 if "bleu" in metrics else 2)
    assert [*table.find_all("gen", None)] == table.names
    assert table.find_all("news", None) == {}
    assert table.find_all("news", "gen") == {}
    assert table.find_all("", "gen") == table.find_all("gen", None)  # a group
    with pytest.raises(ValueError, match=r"has metrics for .*'news'.*, but the loader is 'other'"):
        table.find_all("other", None)


def test_none_for_a_loader_holds_for_its_groups() -> None:
    bleu = CorpusBLEU()
    table = MetricTable.from_metrics({"x": {"news": None, "talks": bleu, "de": bleu, "news/zh": bleu}})
    (_, de, news_zh) = table
    found = {(loader, group): table.find("x", loader, group) for loader in ("news", "talks") for group in ("de", "zh")}
    assert found["news", "de"] is None
    assert found["news", "zh"] is news_zh
    assert found["talks", "de"] is de
    assert table.find("x", "news", "fr") is table.find("x", "news", None) is None


@pytest.mark.parametrize(
    ("labels", "loader", "expected"),
    [
        ({"gen": CorpusBLEU(), "news": None}, "news", False),
        ({"gen": CorpusBLEU(), "news": None}, "gen", True),
        ({"gen": CorpusBLEU(), "news": None}, "talks", True),  # an error at its first batch
        ({"gen/de": CorpusBLEU(), "news": None, "news/zh": None}, "news", False),
        ({"news/de": CorpusBLEU(), "news": None}, "news", True),
        ({"de": CorpusBLEU(), "zh": None}, "", True),  # groups
    ],
)
def test_a_loader_may_have_a_metric_unless_it_has_none_under_all_names(
    labels: Any, loader: str, expected: bool
) -> None:
    assert MetricTable.from_metrics({"x": labels}).may_score(loader) is expected
    others = {"y": {**dict.fromkeys(labels), loader or "other": CorpusCHRF()}}
    assert MetricTable.from_metrics({"x": labels} | others).may_score(loader)


def test_a_dataset_without_metrics_has_a_table_without_names() -> None:
    def missing(name: str, labels: list[str]) -> ValueError:
        return ValueError(f"{name} {labels}")

    table = MetricTable.from_metrics(SOME_HAVE_METRICS)
    names = {dataset: table.for_dataset(dataset, missing).names for dataset in ("gen", "news", "talks")}
    assert names == {"gen": ["bleu", "chrf"], "news": [], "talks": ["bleu"]}
    with pytest.raises(ValueError, match=re.escape("bleu ['gen', 'news', 'talks']")):
        table.for_dataset("other", missing)


# How ids are read


def read_by(metrics: Any, decoder: Any = None, loader: str = "news", loaders: Any = ("news", "talks")) -> Any:
    return MetricTable.from_metrics(metrics).shared_reading(decoder, loader, loaders)


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
        ({"a": {"news": None, "news/de": DE}}, "news", {"decoder": spell, "pad_id": 0}),
        ({"a": {"news": None, "talks": DE}}, "news", {}),
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
