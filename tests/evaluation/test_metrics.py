"""The metrics of an evaluator and their results, without Lightning."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch.distributed as dist
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from torchmetrics import MetricCollection
from torchmetrics.text import (
    CharErrorRate,
    CHRFScore,
    EditDistance,
    MatchErrorRate,
    ROUGEScore,
    TranslationEditRate,
    WordErrorRate,
    WordInfoLost,
    WordInfoPreserved,
)

from lightning_bleu import (
    CONVENTIONS,
    CorpusBLEU,
    CorpusCHRF,
    Evaluator,
    FunctionMetric,
    Interval,
    PairedTest,
    Result,
    corpus_bleu,
)
from lightning_bleu.display.charts import COMPONENTS, lay_out_charts
from lightning_bleu.evaluation.collector import SentenceCollector
from lightning_bleu.evaluation.loaders import Origin
from lightning_bleu.evaluation.metric_table import MetricTable, wrap_metric
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.results import STATISTICS
from tests.helpers.callback_metrics import (
    FUNCTIONS,
    OF_TEXT,
    Fails,
    Returns,
    corpus_of,
    errors,
    exact,
    make_metrics,
    score_alone,
    try_to,
)
from tests.helpers.process_groups import ProcessPool
from tests.helpers.validations import count, make_collector, score

HYPOTHESES, REFERENCES, _ = corpus_of(range(12))
LINES = [references[-1] for references in REFERENCES]
"""A single reference of each sentence."""


def score_with(
    metric: Any, hypotheses: Sequence[str], references: Sequence[Any], index: Any = None
) -> dict[str, float]:
    """What a metric scores in a validation, by the name of the score."""
    scored = score(count(make_collector({"x": metric}), hypotheses, references, index=index))
    return {of_metric.name.score: of_metric.result.score for of_metric in scored.scores}


# Results

REPORT = corpus_bleu(["a b c d e"], ["a b c d f"])
INTERVAL = Interval(0.5, 0.4, 0.6, 0.95, ())
TEST = PairedTest("", 0.5, 0.4, 0.01, 1000, low=0.05, high=0.15)
COMPARED = {"difference": 0.5 - 0.4, "difference_low": 0.05, "difference_high": 0.15, "p_value": 0.01}


def test_a_result_tells_what_is_logged() -> None:
    components = tuple(component for component in CorpusBLEU().components(REPORT) if component.is_default)
    parts = {component.name: component.value for component in components}
    assert parts["precision_1"] == REPORT.precisions[0]
    bleu = Result(REPORT.bleu, components, REPORT, INTERVAL, TEST, best=0.5)
    assert bleu.parts == parts
    statistics = {"low": 0.4, "high": 0.6, **COMPARED, "best": 0.5}
    assert bleu.statistics() == statistics
    assert bleu.values() == {"": REPORT.bleu} | parts | statistics
    assert [*bleu.values()] == ["", *parts, *statistics]
    first = Result(0.5, comparison=TEST, first=0.5)
    assert [*first.values()] == ["", "difference", "difference_low", "difference_high", "p_value", "first"]
    assert Result(0.5).values() == {"": 0.5}


def test_a_result_tells_what_is_written() -> None:
    components = tuple(CorpusBLEU().components(REPORT))
    bleu = Result(REPORT.bleu, components, REPORT, INTERVAL, TEST, best=0.5, higher_is_better=True, percent=False)
    written = bleu.to_dict()
    assert json.loads(json.dumps(written)) == written
    assert written == {
        "higher_is_better": True,
        "percent": False,
        "score": REPORT.bleu,
        "parts": bleu.parts,
        "counts": REPORT.counts(),
        "interval": {"low": 0.4, "high": 0.6, "confidence": 0.95},
        "comparison": {
            "with": "best",
            "score": 0.4,
            "difference": 0.5 - 0.4,
            "interval": {"low": 0.05, "high": 0.15, "confidence": TEST.confidence},
            "p_value": 0.01,
            "best": 0.5,
        },
        "signature": REPORT.signature,
    }
    assert written["counts"]["matches"] == list(REPORT.matches)
    first = Result(0.5, comparison=TEST, first=0.5).to_dict()
    assert (first["comparison"]["with"], first["comparison"]["best"]) == ("first", None)
    nothing_known = dict.fromkeys(["higher_is_better", "percent", "interval", "comparison", "signature"])
    assert Result(0.5).to_dict() == {"score": 0.5, "parts": {}, "counts": {}} | nothing_known


def test_each_score_of_a_metric_has_a_result_of_its_own() -> None:
    evaluator = Evaluator({"page": FUNCTIONS["page"], "rouge": OF_TEXT["rouge"]()}, compare_to="best", confidence=0.95)
    evaluator.start()
    evaluator.update(HYPOTHESES, LINES)
    results = evaluator.finish(1)
    expected = score_alone(OF_TEXT["rouge"](), HYPOTHESES, LINES)
    scores = {f"val_rouge/{name}": value for name, value in expected.items()}
    scores |= {f"val_page/{name}": value for name, value in score_alone(FUNCTIONS["page"], HYPOTHESES, LINES).items()}
    assert {logged: result.score for logged, result in results.items()} == pytest.approx(scores)
    for name, higher_is_better in (("rate", False), ("exact", True)):
        result = results[f"val_page/{name}"]
        assert result.higher_is_better is higher_is_better
        assert result.best == result.score
        assert result.interval is not None
        assert result.comparison is not None
        assert str(result.report) == f"page/{name} = {result.score:.4f}"


@pytest.mark.parametrize(
    "options", [{"convention": name} for name in CONVENTIONS] + [{"weights": (0.4, 0.3, 0.2, 0.1)}]
)
@pytest.mark.parametrize("lines", [(["a b c d e f", "a"], ["a b c x e f g", "b"]), (["a b"], ["c d"])])
def test_bleu_of_lower_orders_is_that_of_a_metric_of_these_orders(options: Any, lines: Any) -> None:
    metrics = {"x": CorpusBLEU(percent=True, **options), "chrf": CorpusCHRF(percent=True)}
    table = MetricTable.from_metrics(metrics, parts=["bleu_3", "bleu_1", "precision"])
    collector = SentenceCollector(table, [""], max_texts=math.inf, origin=Origin("update"))
    validation = score(count(collector, *lines))
    results = validation.results
    options = {"percent": True, **options} | {"weights": None}
    expected = {f"bleu_{n}": corpus_bleu(*lines, max_order=n, **options).bleu for n in (1, 3)}
    assert results["val_x"].parts == expected
    assert {*results["val_chrf"].parts} == {"precision"}
    report = results["val_x"].report
    assert report is not None
    assert results["val_x"].to_dict()["parts"] == expected
    assert results["val_x"].to_dict()["counts"] == report.counts()
    charts = {chart.title: chart for chart in lay_out_charts(validation) if chart.section == COMPONENTS}
    assert charts.keys() == {"val_x: BLEU of orders 1 (at the top) to 4"}  # what is not logged is left out
    assert charts["val_x: BLEU of orders 1 (at the top) to 4"].names == ("val_x/bleu_1", "val_x/bleu_3")


def test_without_parts_scores_intervals_and_comparisons_are_left() -> None:
    evaluator = Evaluator(parts=False, confidence=0.95, compare_to="best")
    evaluator.start()
    evaluator.update(["a b c d e", "a b"], ["a b c d f", "a c"])
    comparison = ["difference", "difference_low", "difference_high", "p_value", "best"]
    assert [*evaluator.finish(1)["val_bleu"].values()] == ["", "low", "high", *comparison]


# Metrics


# Metrics


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
        (partial(exact), {True}),
        (FunctionMetric(partial(errors), higher_is_better=False), {False}),
        (FunctionMetric(errors, higher_is_better=None), {None}),
        (TER(), {False}),
        (OF_TEXT["sacre_chrf"](), {True}),
        (OF_TEXT["sacre_bleu"](), {True}),
        (BLEU(tokenize="ja-mecab"), {True}),  # cannot be copied deeply
        (TranslationEditRate(), {False}),
        (TranslationEditRate(return_sentence_level_score=False), {False}),
        (OF_TEXT["eed"](), {False}),
        (CHRFScore(), {True}),
        (ROUGEScore(rouge_keys=("rouge1", "rougeL")), {True}),
        (OF_TEXT["both"](), {True, False}),  # one of them is better if it is higher
        # with a single reference
        (WordErrorRate(), {False}),
        (CharErrorRate(), {False}),
        (MatchErrorRate(), {False}),
        (WordInfoLost(), {False}),
        (WordInfoPreserved(), {True}),  # whose attribute says False
        (Copies(0), {False}),
        (EditDistance(), {False}),
        (EditDistance(reduction="none"), {False}),
        (EditDistance(reduction="sum"), {False}),
        (MetricCollection([WordErrorRate(), CharErrorRate()]), {False}),
        (MetricCollection({"a": WordErrorRate(), "b": WordErrorRate()}, prefix="my_"), {False}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_metric_scores_sentences_and_knows_whether_higher_is_better(metric: Any, directions: set[bool]) -> None:
    scores = score_with(metric, HYPOTHESES, LINES)
    expected = score_alone(metric, HYPOTHESES, [[line] for line in LINES] if isinstance(metric, SacreMetric) else LINES)
    assert scores == pytest.approx({name: expected[name] for name in scores}, abs=1e-12)
    assert {*wrap_metric("x", metric).directions.values()} == directions


# Processes


def break_down(kind: str, hypotheses: list[str], references: list[list[str]]) -> list[float] | None:
    """A function that goes wrong in one of two processes."""
    if dist.get_rank() == (0 if kind == "nan" else 1):
        if kind == "raise":
            raise OSError("no model")
        wrong: dict[str, Any] = {"count": [0.5], "nan": [math.nan] * len(hypotheses), "none": None}
        wrong["name"] = {"other": [0.5] * len(hypotheses)}
        return wrong[kind]  # type: ignore[no-any-return]
    return [0.5] * len(hypotheses)


def score_share(rank: int, world_size: int, metrics: list[Any]) -> list[str]:
    """The errors of metrics, of which one process has two sentences, and the other one has all the others."""
    share = slice(0, 2) if rank == 1 else slice(2, 12)
    corpus, index = (HYPOTHESES[share], LINES[share]), [*range(12)][share]
    return [try_to(score_with, metric, *corpus, index) for metric in metrics]


@pytest.mark.slow
def test_all_processes_raise_the_error_of_one(pool: ProcessPool) -> None:
    messages = {
        "raise": "RuntimeError: the metric 'x' failed: OSError: no model",
        "count": "ValueError: the metric 'x' must return one number or pair per sentence, got the shape (1,)",
        "nan": "ValueError: the metric 'x' returned nan for the hypothesis",
        "none": "ValueError: the metric 'x' returned None in some processes only",
        "name": "ValueError: the metric 'x' returned None in some processes only, or scores with diff",
    }
    first, other = pool.run(2, score_share, [*(partial(break_down, kind) for kind in messages), Fails()])
    assert first == other
    starts = [*messages.values(), "RuntimeError: the metric 'x' failed: MemoryError: too many"]
    assert [error.startswith(start) for error, start in zip(first, starts, strict=True)] == [True] * len(starts)


def test_every_statistic_that_is_logged_is_recorded() -> None:
    test = PairedTest("paired bootstrap", 0.5, 0.25, 0.03, 1000, low=0.1, high=0.4, confidence=0.9)
    interval = Interval(0.5, 0.45, 0.55, 0.9, ())
    opponents: list[dict[str, Any]] = [{"best": 0.6}, {"first": 0.25}]
    for opponent in opponents:
        result = Result(0.5, interval=interval, comparison=test, **opponent)
        recorded = json.dumps(result.to_dict())
        assert result.statistics().keys() == STATISTICS.keys() - ({"best", "first"} - opponent.keys())
        for value in result.statistics().values():
            assert json.dumps(value) in recorded


@pytest.mark.parametrize("parts", [True, False, ["bleu_1", "recall"]])
def test_every_number_that_is_logged_is_understood_by_monitors(parts: Any) -> None:
    """With its metric, its direction, and its component or statistic. Scores of functions may have any names."""
    table = MetricTable.from_metrics(make_metrics(), parts)
    sentences = [("the cat sat on the mat", ["the cat is on a mat"]), ("a b c", ["a b d"])]
    evaluator = Evaluator(make_metrics(), parts=parts, confidence=0.9, compare_to="best")
    evaluator.start({"news": None, "talks": None})
    for number in (0, 1):
        hypotheses, references = zip(*sentences)
        evaluator.update(hypotheses, references, source=["s", "t"], dataloader_idx=number)
    for logged, result in evaluator.finish(0).items():
        for detail in result.values():
            name = Naming().parse("/".join(filter(None, [logged, detail])), table.score_names(), table.detail_names())
            assert name is not None
            assert name.detail == detail
            assert table.first(name.metric).direction_of(name.score) == result.higher_is_better
