"""What a validation scores: its results, their names, and what later validations are compared with."""

from __future__ import annotations

import re
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from sacrebleu.metrics.ter import TER
from torchmetrics.text import WordErrorRate

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, Result
from lightning_bleu.evaluation.loaders import CALL
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.opponents import Opponent
from lightning_bleu.evaluation.options import Options
from lightning_bleu.run import Run
from lightning_bleu.scoring.resampling import Interval
from tests.helpers.callback_metrics import exact
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A
from tests.helpers.validations import count, make_collector, score

# No sentences, no score

NOTHING: dict[str, dict[str, Any]] = {
    "no batch": {},
    "an empty batch": {"preds": [], "target": []},
    "an empty batch with fields": {"preds": [], "target": [], "source": [], "index": [], "sample_mask": []},
    "masked sentences": {"preds": ["a"], "target": ["b"], "sample_mask": [False]},
}


@pytest.mark.parametrize("metric", [CorpusBLEU(), TER()], ids=["BLEU", "TER"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
def test_without_sentences_there_is_no_result(nothing: dict[str, Any], grouped: bool, metric: Any) -> None:
    best = {"x": Opponent(), "y": Opponent()}
    collector = make_collector({"x": metric, "y": metric}, ["news", "talks"])
    if nothing:
        count(collector, **nothing, group=["a"] * len(nothing["preds"]) if grouped else None)
    scored = score(collector, confidence=0.9, find_opponent=lambda name: best[name.metric])
    scored.replace_opponents()
    assert (scored.results, scored.numbers, scored.scores, scored.subsets) == ({}, {}, [], [])
    assert best["x"].state_dict() == {}
    # Another loader has some.
    count(collector, ["a"], ["a"], dataloader_idx=1, group=["b"] if grouped else None)
    names = ["/talks/b", "/talks/all", ""] if grouped else ["/talks", ""]
    results = score(collector).results
    assert [*results] == [f"val_{metric_name}{name}" for metric_name in "xy" for name in names]
    assert len({results[f"val_x{name}"].score for name in names}) == 1


# Results


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    perfect = 100 if percent else 1
    collector = count(make_collector(CorpusBLEU(percent=percent)), A[:1], A[:1])
    assert score(collector, confidence=0.9).results["val_bleu"].interval == Interval(
        perfect, perfect, perfect, 0.9, (perfect,) * 1000, percent
    )


def lengths(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """Two scores, of which sentences of one word have only one."""
    words = [len(line.split()) for line in hypotheses]
    return {"words": words, "gaps/mean": [(number - 1, float(number > 1)) for number in words]}


def test_there_is_a_result_for_each_score_of_each_subset_then_of_their_mean() -> None:
    metrics = {"bleu": CorpusBLEU(), "length": lengths, "wer": WordErrorRate(), "nothing": lambda *texts: None}
    collector = make_collector(metrics, ["news", "talks", "nothing"])
    count(collector, A[:2], REFERENCES[:2], dataloader_idx=1)
    count(collector, ["a", "b"], ["a", "c"], dataloader_idx=0)
    scored = score(collector, confidence=0.9)
    # Words without gaps between them have no mean gap.
    expected = [
        *(Name("bleu", subset) for subset in (("news",), ("talks",), ())),
        *(Name("length", subset, "words") for subset in (("news",), ("talks",), ())),
        *(Name("length", subset, "gaps/mean") for subset in (("talks",), ())),
        *(Name("wer", subset) for subset in (("news",), ("talks",), ())),
    ]
    assert [logged_score.name for logged_score in scored.scores] == expected
    assert list(scored.results) == [
        *("val_bleu/news", "val_bleu/talks", "val_bleu"),
        *("val_length/news/words", "val_length/talks/words", "val_length/words"),
        *("val_length/talks/gaps/mean", "val_length/gaps/mean"),
        *("val_wer/news", "val_wer/talks", "val_wer"),
    ]
    scores = {logged: result.score for logged, result in scored.results.items()}
    assert scores["val_length/news/words"] == 1
    assert scores["val_length/talks/words"] == fmean(len(line.split()) for line in A[:2])
    for logged in ("val_bleu{}", "val_length{}/words", "val_wer{}"):
        assert scores[logged.format("")] == fmean(scores[logged.format(subset)] for subset in ("/news", "/talks"))
    assert scores["val_length/gaps/mean"] == scores["val_length/talks/gaps/mean"]
    news, talks = scored.subsets
    assert list(news.results) == ["bleu", "length/words", "wer"]
    assert list(talks.results) == ["bleu", "length/words", "length/gaps/mean", "wer"]
    assert list(talks.rows) == ["bleu", "length/words", "length/gaps/mean"]
    for logged_score, (logged, result) in zip(scored.scores, scored.results.items(), strict=True):
        assert logged_score.result is result
        assert scored.naming.render(logged_score.name) == logged
        if logged_score.name.subset == ("talks",):
            assert talks.results[logged.removeprefix("val_").replace("/talks", "")] is result


def test_results_of_subsets_say_what_they_depend_on_and_means_do_not() -> None:
    metrics = {"bleu": {"news": CorpusBLEU(), "talks": CorpusBLEU(max_order=2)}, "f": exact, "ter": TER()}
    collector = make_collector(metrics, ["news", "talks"])
    for dataloader_idx in range(2):
        count(collector, A, REFERENCES, dataloader_idx=dataloader_idx)
    classes: dict[str, list[str]] = {}
    orders = {}
    for logged_score in score(collector).scores:
        metric, settings = logged_score.name.metric, logged_score.settings
        classes.setdefault(metric, []).append(logged_score.metric_class)
        assert (settings is None) == (metric == "ter" or logged_score.name.subset == ())
        if metric == "bleu" and settings is not None:
            orders[logged_score.name.subset] = settings["max_order"]
    assert classes == {"bleu": ["CorpusBLEU"] * 3, "f": ["FunctionMetric"] * 3, "ter": ["TER"] * 3}
    assert orders == {("news",): 4, ("talks",): 2}


# Two scores of one name


def share(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
    """One score of a dict."""
    return {"l": exact(hypotheses, references)}


def shares(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
    """Two scores, of which the first has the name of the second of the loader or group ``news``."""
    values = exact(hypotheses, references)
    return {"l": values, "news/l": values}


class Clash(NamedTuple):
    """Metrics of which two numbers have one logged name.

    Attributes:
        before: metrics whose names do not clash, and whose first score is compared.
        metrics: all metrics.
        logged: the logged name of two of their numbers.
        naming: how names are written.
        group: the group of all sentences.
    """

    before: dict[str, Any]
    metrics: dict[str, Any]
    logged: str
    naming: Naming = Naming("eval", separator="_")
    group: str | None = None


BLEU = CorpusBLEU(tokenizer="none", smoothing="exp")
CLASHES = {
    "a score and a metric": Clash({"rouge": share}, {"rouge": share, "rouge_l": exact}, "eval_rouge_l"),
    "a metric and a score": Clash({"rouge_l": exact}, {"rouge_l": exact, "rouge": share}, "eval_rouge_l"),
    "a component": Clash({"bleu": BLEU}, {"bleu": BLEU, "bleu_precision_1": exact}, "eval_bleu_precision_1"),
    "an interval": Clash({"f": exact}, {"f": exact, "f_low": exact}, "eval_f_low"),
    "a comparison": Clash({"f": exact}, {"f_p_value": exact, "f": exact}, "eval_f_p_value"),
    "a mean and the score of a group": Clash({"f": share}, {"f": shares}, "val_f/news/l", Naming(), "news"),
    "the same in another order": Clash(
        {"f": share}, {"f": lambda *texts: dict(reversed(shares(*texts).items()))}, "val_f/news/l", Naming(), "news"
    ),
}


def run_once(run: Run, clash: Clash, metrics: dict[str, Any], preds: list[str]) -> dict[str, Result]:
    """A validation with some metrics."""
    table = MetricTable.from_metrics(metrics)
    validation = run.begin("val", [""], [None], CALL, table=table, naming=clash.naming)
    count(validation.collector, preds, REFERENCES, group=clash.group and [clash.group] * len(preds))
    finished = run.score(validation)
    run.publish(finished, step=1)
    return finished.scored.results


@pytest.mark.parametrize("clash", CLASHES.values(), ids=CLASHES)
@pytest.mark.filterwarnings("ignore:The best validation so far scored .* with different settings .function.")
def test_two_numbers_of_one_name_are_an_error_that_leaves_the_best_and_the_results(clash: Clash) -> None:
    run = Run(Options(confidence=0.9, compare_to="best"))
    message = f"^two scores would be logged as '{re.escape(clash.logged)}': rename a metric, a score, a loader, or a group$"
    with pytest.raises(ValueError, match=message):
        run_once(run, clash, clash.metrics, A)
    assert (run.state_dict(), run.results) == ({}, {})
    results = run_once(run, clash, clash.before, A)
    state = run.state_dict()
    with pytest.raises(ValueError, match=message):
        run_once(run, clash, clash.metrics, REFERENCES)  # is better
    assert run.results == results
    assert flatten(run.state_dict()) == flatten(state)
    (*_, logged) = results
    compared = run_once(run, clash, clash.before, REFERENCES)[logged]
    assert compared.comparison is not None
    assert compared.comparison.score_b == results[logged].score < compared.score == compared.best


def flatten(state: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    """What the state of a run holds, by identity."""
    return [
        (logged, subset, field, id(value))
        for logged, of_opponent in state["best"].items()
        for subset, rows in of_opponent.items()
        for field, value in rows.items()
    ]


def test_an_evaluator_with_two_scores_of_one_name_keeps_its_best() -> None:
    answers = iter([share, shares, share])
    evaluator = Evaluator({"f": lambda *texts: next(answers)(*texts)}, compare_to="best")

    def validate(preds: list[str]) -> dict[str, Result]:
        evaluator.start({"news": [None]})
        evaluator.update(preds, REFERENCES)
        return evaluator.finish(step=1)

    first = validate(A)["val_f/l"].score
    with pytest.raises(ValueError, match=r"^two scores would be logged as 'val_f/news/l': rename a metric, a score, a "):
        validate(REFERENCES)
    assert evaluator.results["val_f/l"].score == first
    comparison = validate(REFERENCES)["val_f/l"].comparison
    assert comparison is not None
    assert comparison.score_b == first < comparison.score_a


# The results of an evaluator


def evaluate(evaluator: Evaluator, names: list[str], stage: str) -> dict[str, Result]:
    """A validation or a test of loaders with these names."""
    evaluator.start({name: [None] for name in names}, stage=stage)
    for dataloader_idx in range(len(names)):
        evaluator.update(A, REFERENCES, dataloader_idx=dataloader_idx)
    return evaluator.finish(step=1)


def test_the_results_of_an_evaluator_are_the_last_ones_of_each_stage() -> None:
    evaluator = Evaluator({"bleu": BLEU, "chrf": CorpusCHRF()})
    assert evaluator.results == {}
    first = evaluate(evaluator, ["news", "talks"], "val")
    assert evaluator.results == first
    of_test = evaluate(evaluator, ["news"], "test")
    assert list(evaluator.results.items()) == [*first.items(), *of_test.items()]
    second = evaluate(evaluator, ["news"], "val")  # without talks
    assert "val_bleu/talks" in first
    assert list(second) == ["val_bleu/news", "val_bleu", "val_chrf/news", "val_chrf"]
    assert list(evaluator.results.items()) == [*of_test.items(), *second.items()]
    for logged, result in (of_test | second).items():
        assert evaluator.results[logged] is result


def test_a_validation_without_sentences_has_no_results_but_those_of_other_stages_stay() -> None:
    evaluator = Evaluator(BLEU)
    evaluate(evaluator, ["news"], "val")
    of_test = evaluate(evaluator, ["news"], "test")
    evaluator.start()
    assert evaluator.finish(step=2) == {}
    assert evaluator.results == of_test
