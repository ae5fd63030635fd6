"""The metrics of a callback, and their results, without Lightning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
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
    Perplexity,
    ROUGEScore,
    TranslationEditRate,
    WordErrorRate,
    WordInfoLost,
    WordInfoPreserved,
)
from torchmetrics.wrappers import MinMaxMetric

from lightning_bleu import CONVENTIONS, CorpusBLEU, CorpusCHRF, Evaluator, corpus_bleu
from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.training.dashboard import lay_out_charts
from lightning_bleu.training.metrics import AnyMetric, Result, merge_results, wrap_metric
from lightning_bleu.training.validation import Validation
from tests.helpers.callback_metrics import FUNCTIONS, OF_TEXT, Fails, Returns, corpus_of, score_alone, try_to
from tests.helpers.process_groups import ProcessPool, group_of_one
from tests.helpers.validations import count

HYPOTHESES, REFERENCES, _ = corpus_of(range(12))
LINES = [references[-1] for references in REFERENCES]
"""A single reference of each sentence."""


def score(
    metric: AnyMetric, hypotheses: Sequence[str], references: Sequence[Any], index: Any = None
) -> dict[str, float]:
    """What a metric scores in a validation."""
    validation = Validation({"x": {"": metric}})
    count(validation, hypotheses, references, index=index)
    validation.agree()
    return validation.finish()["val_x"].scores


# Results


def test_a_result_tells_what_is_logged_and_what_is_written() -> None:
    report = corpus_bleu(["a b c d e"], ["a b c d f"])
    interval, test = Interval(0.5, 0.4, 0.6, 0.95, ()), PairedTest("", 0.5, 0.4, 0.01, 1000, low=0.05, high=0.15)
    bleu = Result({"": report.bleu}, report.parts(), report, interval, test, best=0.5)
    ends = {"difference_low": 0.05, "difference_high": 0.15}
    extras = {"low": 0.4, "high": 0.6, "difference": 0.5 - 0.4, **ends, "p_value": 0.01, "best": 0.5}
    assert bleu.values() == {"": report.bleu} | report.parts() | extras
    assert bleu.to_dict() == {"score": report.bleu} | report.to_dict() | extras
    first = Result({"": 0.5}, comparison=test, first=0.5)
    assert [*first.values()] == ["", "difference", "difference_low", "difference_high", "p_value", "first"]
    named = {"a": Result({"": 0.5}, {"part": 1}, "report", interval, test, best=0.5), "b": Result({"": 0.25}, best=0.5)}
    several = merge_results(named)
    assert (several.interval, several.best, several.report) == ({"a": interval}, {"a": 0.5, "b": 0.5}, None)
    own = {f"a/{name}": value for name, value in extras.items()}
    assert several.values() == several.to_dict() == {"a": 0.5, "b": 0.25} | own


@pytest.mark.parametrize(
    "options", [{"convention": name} for name in CONVENTIONS] + [{"weights": (0.4, 0.3, 0.2, 0.1)}]
)
@pytest.mark.parametrize("lines", [(["a b c d e f", "a"], ["a b c x e f g", "b"]), (["a b"], ["c d"])])
def test_bleu_of_lower_orders_is_that_of_a_metric_of_these_orders(options: Any, lines: Any) -> None:
    evaluator = Evaluator(
        {"x": CorpusBLEU(percent=True, **options), "chrf": CorpusCHRF(percent=True)},
        parts=["bleu_3", "bleu_1", "precision"],
    )
    evaluator.start()
    evaluator.update(*lines)
    results = evaluator.finish(1)
    options = {"percent": True, **options} | {"weights": None}
    expected = {f"bleu_{n}": corpus_bleu(*lines, max_order=n, **options).bleu for n in (1, 3)}
    assert results["val_x"].parts == expected
    assert {*results["val_chrf"].parts} == {"precision"}
    assert results["val_x"].to_dict().items() >= (results["val_x"].report.to_dict() | expected).items()
    charts = {title: chart for (category, title), chart in lay_out_charts(results).items() if category == "Parts"}
    assert charts["val_x: BLEU of orders 1 (at the top) to 4"] == ["Multiline", ["^val_x/bleu_1$", "^val_x/bleu_3$"]]
    assert len(charts) == 1  # those of what is not logged are left out


def test_without_parts_scores_intervals_and_comparisons_are_left() -> None:
    evaluator = Evaluator(parts=False, confidence=0.95, compare_to="best")
    evaluator.start()
    evaluator.update(["a b c d e", "a b"], ["a b c d f", "a c"])
    comparison = ["difference", "difference_low", "difference_high", "p_value", "best"]
    assert [*evaluator.finish(1)["val_bleu"].values()] == ["", "low", "high", *comparison]


# Metrics


REVERSED = partial(FUNCTIONS["errors"])
REVERSED.higher_is_better = True  # type: ignore[attr-defined]


class Reversed:
    """A metric with an attribute named like that of a partial."""

    func, higher_is_better = REVERSED.func, True

    def __call__(self, hypotheses: list[str], references: list[list[str]]) -> Any:
        return FUNCTIONS["errors"](hypotheses, references)


class Copies(Returns):
    """The number of hypotheses that are one of the references, where less is better."""

    higher_is_better = False

    def update(self, preds: list[str], target: list[list[str]]) -> None:
        self.result = sum(one in own for one, own in zip(preds, target))


@pytest.mark.parametrize(
    ("metric", "directions"),
    [
        (CorpusBLEU(max_order=2), {True}),
        (CorpusCHRF(), {True}),
        (FUNCTIONS["errors"], {False}),
        (partial(FUNCTIONS["errors"]), {False}),
        (REVERSED, {True}),
        (Reversed(), {True}),
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
    wrapped = wrap_metric("x", metric)
    scores = score(wrapped, HYPOTHESES, LINES)
    expected = score_alone(metric, HYPOTHESES, [[line] for line in LINES] if isinstance(metric, SacreMetric) else LINES)
    assert scores == pytest.approx({part: expected[part] for part in scores}, abs=1e-12)
    assert {*wrapped.directions.values()} == directions


def make_both(kind: Any) -> Any:
    """Two metrics with scores that differ only for capital letters."""
    return MetricCollection({"cased": kind(lowercase=False), "lowered": kind(lowercase=True)})


@pytest.mark.parametrize("kind", [CHRFScore, TranslationEditRate])
@pytest.mark.parametrize("others", [0, 1], ids=["at first", "after others"])
def test_the_metrics_of_a_collection_are_not_merged(others: int, kind: Any) -> None:
    """torchmetrics merges them for good if they agree on the first sentences, here those of a trial or an epoch."""
    metric = wrap_metric("both", make_both(kind))
    for _ in range(others):
        agreed = score(metric, ["a dog"], ["a cat"])
        assert agreed["cased"] == agreed["lowered"]
    corpus = ["The Cat Sat"], [["the cat sat", "a dog"]]
    expected = score_alone(make_both(kind), *corpus)
    assert expected["cased"] != expected["lowered"]
    assert score(metric, *corpus) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [(0.5, {"": 0.5}), (torch.tensor([0.25, 0.75]), {"": 0.5}), ({"a": 1, "b": [2]}, {"a": 1, "b": 2})],
)
def test_a_metric_may_give_right_and_wrong_hypotheses_the_same_score(result: Any, expected: dict[str, float]) -> None:
    metric = wrap_metric("x", Returns(result))
    assert score(metric, HYPOTHESES, REFERENCES) == expected
    assert {*metric.directions.values()} == {None}


def test_a_wrapper_that_keeps_what_it_has_seen_has_not_seen_a_probe() -> None:
    assert score(wrap_metric("x", MinMaxMetric(WordErrorRate())), HYPOTHESES, LINES) == dict.fromkeys(
        ("raw", "min", "max"), score_alone(WordErrorRate(), HYPOTHESES, LINES)[""]
    )


class Undecided:
    """A function whose direction is not a boolean."""

    higher_is_better = "no"

    def __repr__(self) -> str:
        return "Undecided()"

    def __call__(self, hypotheses: list[str], references: list[list[str]]) -> list[float]:
        return [0.5] * len(hypotheses)


NEEDS = "the metric 'x' must take a list of strings, and a reference or a list of references for each, but "
NUMBERS = "TypeError: the result must be a number, a number per sentence, or a dict of these, got "
KINDS = "'x' must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got "


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (TER, f"{KINDS}<class 'sacrebleu.metrics.ter.TER'>: make an instance of it"),
        (TranslationEditRate, f"{KINDS}<class 'torchmetrics.text.ter.TranslationEditRate'>: make an instance of it"),
        (Undecided(), "'higher_is_better' must be True or False, got 'no'"),
        (Perplexity(), f"{NEEDS}it cannot score two sentences: "),
        (CHRFScore(return_sentence_level_score=True), f"{NEEDS}it cannot score two sentences: {NUMBERS}(tensor(1.)"),
        (Returns(None), f"{NEEDS}it cannot score two sentences: {NUMBERS}None"),
        (Returns({"a": 0.5, "b": ["1"]}), f"{NEEDS}it cannot score two sentences: {NUMBERS}{{'a': 0.5, 'b': ['1']}}"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_anything_else_is_rejected(metric: Any, message: str) -> None:
    assert try_to(wrap_metric, "x", metric).startswith(f"TypeError: {message}")


# Processes


def refuse(*args: Any) -> Any:
    raise RuntimeError("torchmetrics synced")


NEEDS_SYNC: dict[str, Callable[..., Any]] = {
    "plain": TranslationEditRate,
    "collection": lambda **options: MetricCollection([TranslationEditRate(**options), CHRFScore(**options)]),
    "wrapped": lambda **options: MinMaxMetric(TranslationEditRate(**options)),
    "multiplied": lambda **options: 100 * TranslationEditRate(**options),
}


@pytest.mark.parametrize("name", NEEDS_SYNC)
def test_a_metric_that_one_process_computes_is_not_synced(name: str) -> None:
    """It would wait for the others."""
    metric = wrap_metric(name, NEEDS_SYNC[name](dist_sync_fn=refuse))
    expected = score(metric, HYPOTHESES, REFERENCES)
    with group_of_one():
        assert score(metric, HYPOTHESES, REFERENCES) == expected


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
    return [try_to(score, wrap_metric("x", metric), *corpus, index) for metric in metrics]


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
