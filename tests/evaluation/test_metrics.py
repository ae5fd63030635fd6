"""The metrics of an evaluator: what may be passed, their names, what they log, and how they read ids."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.text import (
    CharErrorRate,
    CHRFScore,
    EditDistance,
    ROUGEScore,
    TranslationEditRate,
    WordErrorRate,
    WordInfoPreserved,
)

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric
from lightning_bleu.core.settings import Settings
from lightning_bleu.evaluation.input.outputs import Output
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.metrics.shared_facts import known_scorers, reserved_names, shared_reading
from lightning_bleu.evaluation.monitors import describe_number
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.scores.validation import STATISTICS
from tests.helpers.callback_metrics import (
    FUNCTIONS,
    OF_TEXT,
    Returns,
    corpus_of,
    errors,
    exact,
    make_metrics,
    score_alone,
    try_to,
)
from tests.helpers.error_rate import CorpusErrorRate
from tests.helpers.lightning import validate
from tests.helpers.metrics import all_bleu_components_of
from tests.helpers.validations import Counting, begin, count, score, score_started

HYPOTHESES, REFERENCES, _ = corpus_of(range(12))
LINES = [references[-1] for references in REFERENCES]
"""A single reference of each sentence."""


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [" ".join(map(str, row)) for row in rows]


# What may be passed


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (CorpusBLEU(), ["bleu"]),
        (CorpusCHRF(), ["chrf"]),
        (MappingProxyType({"新": CorpusBLEU(), "a/b": TER(), "a/c": TER()}), ["新", "a/b", "a/c"]),
        (MetricCollection([CorpusBLEU(), CorpusCHRF()], prefix="a_"), ["a_CorpusBLEU", "a_CorpusCHRF"]),
        ({"x": MetricCollection({"b": CorpusBLEU()}, postfix="_c"), "y": TER()}, ["x/b_c", "y"]),
        ({"x": MetricCollection({"b": CorpusBLEU(), "wer": WordErrorRate()})}, ["x/b", "x/wer"]),
        ({"x": MetricCollection({"a": WordErrorRate(), "b": CharErrorRate()})}, ["x"]),
        (nn.ModuleDict({"x": CorpusBLEU(), "y": CorpusCHRF()}), ["x", "y"]),
    ],
)
def test_metrics_have_names(metrics: Any, expected: list[str]) -> None:
    assert [*read_metrics(metrics)] == expected
    assert [*Evaluator(metrics).metrics] == expected


BY_NAME = "pass metrics by name, such as {'bleu': CorpusBLEU()}"
NOT_A_METRIC = "must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got"


@pytest.mark.parametrize(
    ("metrics", "error", "message"),
    [
        ("bleu", TypeError, f"'metrics' {NOT_A_METRIC} 'bleu'"),
        (CorpusBLEU, TypeError, f"'metrics' {NOT_A_METRIC} {CorpusBLEU!r}: make an instance of it"),
        ([CorpusBLEU()], TypeError, f"'metrics' {NOT_A_METRIC} [CorpusBLEU()]: {BY_NAME}"),
        (TER(), TypeError, "TER needs a name: pass {'NAME': ...}"),
        (TranslationEditRate(), TypeError, "needs a name: pass {'NAME': ...}"),
        ({}, ValueError, "'metrics' must have at least one metric, got an empty dict"),
        ({"ter": 5}, TypeError, f"'ter' {NOT_A_METRIC} 5"),
        ({5: TER()}, TypeError, "the names of the metrics must be strings, got 5 of type int"),
        ({"": TER()}, ValueError, "the metrics cannot have the name '', which is reserved"),
        ({"samples": TER()}, ValueError, "the metrics cannot have the name 'samples', which is reserved"),
        # columns of the table of sentences
        ({"index": TER()}, ValueError, "the metrics cannot have the name 'index', which is reserved"),
        ({"a\ud800": TER()}, ValueError, "the metrics cannot have the name 'a\\ud800': a lone surrogate cannot be"),
        ({"a/b": TER(), "a": TER()}, ValueError, "the names 'a' and 'a/b' of the metrics clash: a/... is"),
        ({"x": MetricCollection({"b": CorpusBLEU()}), "x/b": TER()}, ValueError, "metrics must have different names"),
        ({"x": CorpusBLEU(), "y": None}, TypeError, f"'y' {NOT_A_METRIC} None: {BY_NAME}"),
    ],
)
def test_anything_else_is_rejected_as_metrics(metrics: Any, error: type[Exception], message: str) -> None:
    for make in (BLEUCallback, Evaluator):
        with pytest.raises(error) as raised:
            make(metrics)
        assert message in str(raised.value)


@pytest.mark.parametrize("metrics", [None, CorpusBLEU(), MetricCollection([CorpusBLEU()])])
def test_a_group_may_have_the_name_of_a_metric_that_was_not_given_by_name(metrics: Any) -> None:
    name = "CorpusBLEU" if isinstance(metrics, MetricCollection) else "bleu"
    evaluator = Evaluator(metrics)
    evaluator.start({name: None})
    evaluator.update(["a", "b"], ["a", "b"], group=[name, "zh"])
    assert {f"val_{name}/{name}", f"val_{name}/{name}/{name}"} <= {*evaluator.finish(1)}


def test_different_scales_are_warned_about() -> None:
    message = "The metrics have different scales, {'bleu': 100.0, 'chrf': 1.0}: set percent=True for all of them"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}"):
        BLEUCallback({"bleu": CorpusBLEU(percent=True), "ter": TER(), "chrf": CorpusCHRF()})


# Subclasses


class Renamed(CorpusBLEU):
    """A subclass with a name and options of its own."""

    short_name = "mine"

    def __init__(self, lowercase: bool = True) -> None:
        super().__init__(max_order=2, lowercase=lowercase)

    def describe(self) -> str:
        """Something else."""
        return f"{self.compute():.2f}"

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        return 0.25


class Updates(CorpusBLEU):
    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)


class Halves:
    """A mixin."""

    def compute(self) -> Any:
        return super().compute() / 2  # type: ignore[misc]


class Mixed(Halves, CorpusCHRF): ...


@pytest.mark.parametrize("metric", [Updates(), Mixed()])
def test_a_subclass_that_overrides_what_an_evaluator_does_not_call_is_an_error(metric: Any) -> None:
    message = f"TypeError: {type(metric).__name__} overrides 'update' or 'compute', which an evaluator does not call: "
    for metrics in (metric, {"x": metric}, MetricCollection({"x": metric})):
        assert try_to(Evaluator, metrics).startswith(message)


def test_any_other_subclass_is_a_metric_with_its_own_name() -> None:
    metric = Renamed()
    assert [*read_metrics(metric)] == ["mine"]
    corpus = ["A b c", "b"], ["a b d", "b"]
    expected = score(count(Counting(CorpusBLEU(max_order=2, lowercase=True)), *corpus)).results["val_bleu"]
    for copied in (metric, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert score(count(Counting(copied), *corpus)).results["val_mine"] == expected
    # A metric of another formula is not a subclass of one.
    assert [*read_metrics(CorpusErrorRate())] == ["error_rate"]


# Reserved names


def test_no_loader_and_no_group_has_the_name_of_what_is_logged_or_could_be_below_a_score() -> None:
    always = {"", "mean", "low", "high", "difference", "difference_low", "difference_high", "p_value"}
    always.add("best")
    assert always == {"", "mean", *STATISTICS}
    assert reserved_names(read_metrics(exact_and(CorpusBLEU()))) == always.union(all_bleu_components_of())
    assert reserved_names(read_metrics(exact_and(FUNCTIONS["page"]))) == always | {"rate", "exact"}
    rouge = reserved_names(read_metrics(exact_and(OF_TEXT["rouge"]())))
    assert rouge == always | {f"rouge{n}_{part}" for n in (1, 2) for part in ("fmeasure", "precision", "recall")}


def exact_and(metric: Any) -> dict[str, Any]:
    """Two metrics."""
    return {"f": exact, "x": metric}


RESERVED = {
    "the mean": (CorpusBLEU(), "mean", "mean"),
    "a statistic that is not logged": (CorpusBLEU(), "best", "best"),
    "a component": (CorpusBLEU(), "precision_1", "precision_1"),
    "a component that is not logged": (CorpusBLEU(), "bleu_3", "bleu_3"),
    "a folder": (CorpusBLEU(), "low/resource", "low"),
    "a component as a folder": (CorpusCHRF(), "recall/x", "recall"),
    "a score": (FUNCTIONS["page"], "rate", "rate"),
    "a score as a folder": (OF_TEXT["rouge"](), "rouge1_recall/x/y", "rouge1_recall"),
}


@pytest.mark.parametrize(("metric", "name", "folder"), RESERVED.values(), ids=RESERVED)
def test_a_name_is_reserved_for_all_loaders_and_groups_whatever_is_logged(metric: Any, name: str, folder: str) -> None:
    """In each process, before anything of a batch with such a label is counted."""
    reason = "which is reserved" if folder == name else f"because '{folder}' is reserved"
    evaluator = Evaluator({"x": metric}, parts=False)
    with pytest.raises(ValueError, match=f"^the loaders of 'val' cannot have the name '{name}', {reason}$"):
        evaluator.start({name: None})
    evaluator.start({"news": None})
    with pytest.raises(ValueError, match=f"^the groups cannot have the name '{name}', {reason}$"):
        evaluator.update(["a b", "c"], ["a b", "d"], group=["de", name])
    evaluator.update(["a b"], ["a b"], group=[f"x{name}"])
    assert any(logged.startswith(f"val_x/news/x{name}") for logged in evaluator.finish(1))


def test_a_name_that_another_metric_logs_is_not_reserved() -> None:
    evaluator = Evaluator(CorpusCHRF())
    evaluator.start({"precision_1": None})
    evaluator.update(["a b"], ["a b"], group=["bleu_3"])
    assert [*evaluator.finish(1)] == [f"val_chrf{name}" for name in ("", "/precision_1", "/precision_1/bleu_3")]


# How ids are read


def read_by(metrics: Any, decoder: Any = None) -> Settings:
    return shared_reading(read_metrics(metrics), decoder)


SPLIT: Any = str.split


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (CorpusBLEU(lowercase=True), {}),
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusCHRF(), "c": TER()}, {"pad_id": 0}),
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusCHRF(pad_id=0, percent=False)}, {"pad_id": 0}),
        ({"a": CorpusBLEU(decoder=spell, pad_id=0), "f": exact}, {"decoder": spell, "pad_id": 0}),
    ],
)
def test_a_metric_that_sets_nothing_reads_ids_as_the_others(metrics: Any, expected: Any) -> None:
    assert read_by(metrics) == Settings.from_options(**expected)


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
        ({"a": CorpusBLEU(decoder=spell), "b": CorpusBLEU(decoder=SPLIT)}, "'a' and 'b'", ["decoder"]),
    ],
)
def test_metrics_that_read_ids_differently_are_an_error_before_the_first_batch(
    metrics: Any, names: str, differing: list[str], tmp_path: Path
) -> None:
    message = re.escape(f"{names} must read ids in the same way, but differ in {differing}: give them the")
    with pytest.raises(ValueError, match=f"^{message}"):
        validate(tmp_path, BLEUCallback(metrics), step=lambda batch, epoch: pytest.fail("read a batch"))


# All kinds of metrics


class Copies(Returns):
    """The number of hypotheses that are one of the references, where less is better."""

    higher_is_better = False

    def update(self, preds: list[str], target: list[list[str]]) -> None:
        self.result = sum(line in references for line, references in zip(preds, target))


@pytest.mark.parametrize(
    ("metric", "directions"),
    [
        (CorpusBLEU(max_order=2), {True}),
        (CorpusCHRF(), {True}),
        (FUNCTIONS["errors"], {False}),
        (FUNCTIONS["page"], {True, False}),
        (exact, {True}),
        (FunctionMetric(errors, higher_is_better=None), {None}),
        (TER(), {False}),
        (OF_TEXT["sacre_chrf"](), {True}),
        (OF_TEXT["sacre_bleu"](), {True}),
        (BLEU(tokenize="ja-mecab"), {True}),  # cannot be copied deeply
        (TranslationEditRate(), {False}),
        (OF_TEXT["eed"](), {False}),
        (CHRFScore(), {True}),
        (ROUGEScore(rouge_keys=("rouge1", "rougeL")), {True}),
        (OF_TEXT["both"](), {True, False}),  # one of them is better if it is higher
        # with a single reference
        (WordErrorRate(), {False}),
        (CharErrorRate(), {False}),
        (WordInfoPreserved(), {True}),  # whose attribute says False
        (Copies(0), {False}),
        (EditDistance(), {False}),
        (EditDistance(reduction="none"), {False}),
        (MetricCollection({"a": WordErrorRate(), "b": WordErrorRate()}, prefix="my_"), {False}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_metric_scores_sentences_and_knows_whether_higher_is_better(metric: Any, directions: set[bool]) -> None:
    scored = score(count(Counting({"x": metric}), HYPOTHESES, LINES)).scored
    scores = {one.name.score: one.result.score for one in scored}
    expected = score_alone(metric, HYPOTHESES, [[line] for line in LINES] if isinstance(metric, SacreMetric) else LINES)
    assert scores == pytest.approx({name: expected[name] for name in scores}, abs=1e-12)
    (read,) = read_metrics({"x": metric}).values()
    assert {scorer.higher_is_better for scorer in known_scorers("x", read).values()} == directions
    assert {one.result.higher_is_better for one in scored} == directions


def test_every_number_that_is_logged_is_understood_by_monitors() -> None:
    """Its direction is known, also below scores whose names are not known before."""
    names = ["bleu", "chrf", "errors", "page", "ter", "rouge", "both"]
    evaluator = Evaluator(make_metrics(*names), parts=True, confidence=0.9, compare_to="best")
    started = begin(evaluator, ["news", "talks"])
    for number in (0, 1):
        texts = ["the cat sat on the mat", "a b c"], [["the cat is on a mat"], ["a b d"]]
        started.collector.update(Output(*texts, source=["s", "t"], group=["de", "zh"]), None, number)
    validation = score_started(evaluator, started)
    results = {one.name: one.result for one in validation.scored}
    for logged, (name, _) in validation.numbers.items():
        described = describe_number(logged, Naming(), evaluator.metrics)
        result = results[name._replace(detail="")]
        assert described is not None, name
        directions = {component.name: component.higher_is_better for component in result.components}
        directions["p_value"] = None
        assert described.higher_is_better == directions.get(name.detail, result.higher_is_better), name
