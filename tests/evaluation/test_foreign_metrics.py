"""Metrics of torchmetrics and sacreBLEU, which score the texts of all sentences at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.text import CHRFScore, Perplexity, TranslationEditRate, WordErrorRate
from torchmetrics.wrappers import MinMaxMetric

from lightning_bleu import Evaluator
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from tests.helpers.callback_metrics import OF_TEXT, Returns, corpus_of, score_alone, try_to
from tests.helpers.process_groups import group_of_one
from tests.helpers.systems import pick

HYPOTHESES, REFERENCES, _ = corpus_of(range(12))
LINES = [references[-1] for references in REFERENCES]
"""A single reference of each sentence."""


def score(evaluator: Evaluator, hypotheses: list[str], references: list[Any]) -> dict[str, float]:
    """What the metric ``"x"`` scores in a validation, by the name of the score."""
    evaluator.start()
    evaluator.update(hypotheses, references)
    results = evaluator.finish(1)
    return {logged.removeprefix("val_x").removeprefix("/"): result.score for logged, result in results.items()}


def make_both(kind: Any) -> Any:
    """Two metrics with scores that differ only for capital letters."""
    return MetricCollection({"cased": kind(lowercase=False), "lowered": kind(lowercase=True)})


@pytest.mark.parametrize("kind", [CHRFScore, TranslationEditRate])
@pytest.mark.parametrize("others", [0, 1], ids=["at first", "after others"])
def test_the_metrics_of_a_collection_are_not_merged(others: int, kind: Any) -> None:
    """torchmetrics merges them for good if they agree on the first sentences, here those of a trial or an epoch."""
    evaluator = Evaluator({"x": make_both(kind)})
    for _ in range(others):
        agreed = score(evaluator, ["a dog"], ["a cat"])
        assert agreed["cased"] == agreed["lowered"]
    corpus: tuple[list[str], list[Any]] = ["The Cat Sat"], [["the cat sat", "a dog"]]
    expected = score_alone(make_both(kind), *corpus)
    assert expected["cased"] != expected["lowered"]
    assert score(evaluator, *corpus) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [(0.5, {"": 0.5}), (torch.tensor([0.25, 0.75]), {"": 0.5}), ({"a": 1, "b": [2]}, {"a": 1, "b": 2})],
)
def test_a_metric_may_give_right_and_wrong_hypotheses_the_same_score(result: Any, expected: dict[str, float]) -> None:
    evaluator = Evaluator({"x": Returns(result)})
    assert score(evaluator, HYPOTHESES, REFERENCES) == expected
    assert {scored.higher_is_better for scored in evaluator.results.values()} == {None}


def test_a_wrapper_that_keeps_what_it_has_seen_has_not_seen_a_probe() -> None:
    expected = score_alone(WordErrorRate(), HYPOTHESES, LINES)[""]
    scores = score(Evaluator({"x": MinMaxMetric(WordErrorRate())}), HYPOTHESES, LINES)
    assert scores == dict.fromkeys(("raw", "min", "max"), expected)


NEEDS = "the metric 'x' must take a list of strings, and a reference or a list of references for each, but "
NUMBERS = "TypeError: the result must be a number, a number per sentence, or a dict of these, got "


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Perplexity(), f"{NEEDS}it cannot score two sentences: "),
        (CHRFScore(return_sentence_level_score=True), f"{NEEDS}it cannot score two sentences: {NUMBERS}(tensor(1.)"),
        (Returns(None), f"{NEEDS}it cannot score two sentences: {NUMBERS}None"),
        (Returns({"a": 0.5, "b": ["1"]}), f"{NEEDS}it cannot score two sentences: {NUMBERS}{{'a': 0.5, 'b': ['1']}}"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_anything_else_is_rejected(metric: Any, message: str) -> None:
    assert try_to(read_metrics, {"x": metric}).startswith(f"TypeError: {message}")


def test_several_references_are_an_error_for_a_metric_that_takes_one() -> None:
    message = r"^the metric 'x' takes a single reference, but a sentence has 2: pass a function that chooses one"
    with pytest.raises(ValueError, match=message):
        score(Evaluator({"x": WordErrorRate()}), ["a"], [["a", "b"]])


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
    evaluator = Evaluator({"x": NEEDS_SYNC[name](dist_sync_fn=refuse)})
    expected = score(evaluator, HYPOTHESES, REFERENCES)
    with group_of_one():
        assert score(evaluator, HYPOTHESES, REFERENCES) == expected


# Groups


@pytest.mark.parametrize("name", OF_TEXT)
def test_a_metric_scores_the_sentences_of_each_group_as_if_there_were_no_others(name: str) -> None:
    """And all of them as if there were no groups. It has no interval and no comparison."""
    labels = ["odd" if number % 3 else "even" for number in range(len(HYPOTHESES))]
    evaluator = Evaluator({"x": OF_TEXT[name]()}, confidence=0.9, compare_to="best")
    evaluator.start()
    evaluator.update(HYPOTHESES, REFERENCES, group=labels)
    results = evaluator.finish(1)
    expected: dict[str, dict[str, float]] = {"": score_alone(OF_TEXT[name](), HYPOTHESES, REFERENCES)}
    for group in ("even", "odd"):
        numbers = [number for number, label in enumerate(labels) if label == group]
        hypotheses, references = pick(HYPOTHESES, numbers), pick(REFERENCES, numbers)
        expected[f"/{group}"] = score_alone(OF_TEXT[name](), hypotheses, references)
    assert expected["/even"] != expected["/odd"]
    expected["/mean"] = {part: (expected["/even"][part] + expected["/odd"][part]) / 2 for part in expected[""]}
    assert {logged: result.score for logged, result in results.items()} == {
        "/".join(filter(None, [f"val_x{group}", part])): score
        for part in expected[""]
        for group, scores in expected.items()
        for score in [scores[part]]
    }
    assert all(result.interval is None and result.comparison is None for result in results.values())


def test_a_metric_whose_result_lacks_a_score_for_a_group_has_none_there() -> None:
    """And the mean is that of the others."""

    class Longest(Returns):
        """The number of hypotheses, and, if there are several, that of the longest."""

        def update(self, preds: list[str], target: list[list[str]]) -> None:
            self.result = {"count": len(preds)} | ({"longest": max(map(len, preds))} if len(preds) > 1 else {})

    evaluator = Evaluator({"x": Longest(None)})
    evaluator.start()
    evaluator.update(["a", "b b", "c c c"], ["a", "b", "c"], group=["de", "fr", "fr"])
    assert {logged: result.score for logged, result in evaluator.finish(1).items()} == {
        "val_x/count": 3,
        "val_x/de/count": 1,
        "val_x/fr/count": 2,
        "val_x/mean/count": 1.5,
        "val_x/longest": 5,
        "val_x/fr/longest": 5,
    }
