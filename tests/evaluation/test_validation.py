"""What a validation scores: its results, their names, and what later validations are compared with."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from sacrebleu.metrics.ter import TER
from torchmetrics.text import WordErrorRate

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric, Result
from lightning_bleu.evaluation.collector import Output
from lightning_bleu.evaluation.loaders import CALL
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.opponents import Opponent
from lightning_bleu.evaluation.options import Options
from lightning_bleu.run import Run
from lightning_bleu.scoring.resampling import Interval
from tests.helpers.callback_metrics import corpus_of, exact
from tests.helpers.files import read_scores
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


def count_pairs(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[int]:
    """The number of sentences that equal their source."""
    return [hypothesis == source for hypothesis, source in zip(hypotheses, sources)]


def test_a_mean_is_that_of_the_loaders_that_have_the_metric() -> None:
    metrics = {
        "bleu": {"gen": CorpusBLEU(), "news": None, "talks": CorpusBLEU(), "other": None},
        "same": {"gen": count_pairs, "news": None, "talks": None, "other": None},
        "chrf": {"gen": None, "news": CorpusCHRF(), "talks": CorpusCHRF(), "other": None},
    }
    collector = make_collector(metrics, ["gen", "news", "talks", "other"])
    count(collector, A[:2], REFERENCES[:2], dataloader_idx=0, source=A[:2])
    for number in (1, 2):  # they need no sources, because no metric takes them there
        count(collector, A[number : number + 2], REFERENCES[number : number + 2], dataloader_idx=number)
    collector.update(Output("anything", 5), 7, 3)
    results = score(collector, confidence=0.9, find_opponent=lambda name: Opponent()).results
    assert [*results] == [
        *("val_bleu/gen", "val_bleu/talks", "val_bleu", "val_same/gen", "val_same"),
        *("val_chrf/news", "val_chrf/talks", "val_chrf"),
    ]
    for name, loaders in {"bleu": ("gen", "talks"), "same": ("gen",), "chrf": ("news", "talks")}.items():
        assert results[f"val_{name}"].score == fmean(results[f"val_{name}/{loader}"].score for loader in loaders)
        assert results[f"val_{name}"].interval is not None


def test_groups_without_a_metric_are_kept_and_not_scored() -> None:
    metrics = {
        "bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(), "ja": None},
        "chrf": {"de": CorpusCHRF(), "zh": None, "ja": None},
    }
    collector = count(make_collector(metrics), A[:3], REFERENCES[:3], group=["ja", "de", "zh"])
    scored = score(collector)
    assert [*scored.results] == ["val_bleu/de", "val_bleu/zh", "val_bleu", "val_chrf/de", "val_chrf"]
    assert {subset.names: len(subset.sentences) for subset in scored.subsets} == {("de",): 1, ("zh",): 1, ("ja",): 1}
    with pytest.raises(ValueError, match=r"^'bleu' has no metric for the group 'fr'"):
        count(collector, ["a"], ["b"], group=["fr"])


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


# All groups of a loader

GROUPS = {"few": 3, "many": 30}
"""The number of sentences of each group."""
LABELS = [label for label, size in GROUPS.items() for _ in range(size)]


def error_rate(hypotheses: list[str], references: list[list[str]]) -> list[tuple[int, int]]:
    """The wrong words of each sentence, and all of them."""
    return [(line.split().count("else"), len(line.split())) for line in hypotheses]


def make_metrics() -> dict[str, Any]:
    """A metric of each kind."""
    return {
        "bleu": CorpusBLEU(percent=True),
        "chrf": CorpusCHRF(percent=True),
        "f": exact,
        "rate": error_rate,
        "ter": TER(),
    }


def evaluate_groups(evaluator: Evaluator, epoch: int = 0, labels: Any = LABELS) -> dict[str, Result]:
    """A validation of sentences with these groups; of sentences without groups when None."""
    hypotheses, references, _ = corpus_of(range(len(LABELS)), epoch)
    evaluator.start()
    evaluator.update(hypotheses, references, group=labels)
    return evaluator.finish(step=epoch)


def test_all_groups_score_like_the_loader_without_groups() -> None:
    options: dict[str, Any] = {"confidence": 0.9, "compare_to": "best"}
    evaluator, without_groups = Evaluator(make_metrics(), **options), Evaluator(make_metrics(), **options)
    for epoch in range(2):
        results = evaluate_groups(evaluator, epoch)
        expected = evaluate_groups(without_groups, epoch, None)
        subsets = ("/few", "/many", "/all", "")
        assert list(results) == [f"val_{name}{subset}" for name in make_metrics() for subset in subsets]
        for name in make_metrics():
            of_all, of_loader = results[f"val_{name}/all"], expected[f"val_{name}"]
            assert without_interval(of_all) == without_interval(of_loader)
            mean = fmean(results[f"val_{name}/{group}"].score for group in GROUPS)
            assert results[f"val_{name}"].score == pytest.approx(mean)
            assert of_all.score != pytest.approx(mean, rel=1e-3)
            assert (of_all.interval is None) == (of_all.comparison is None) == (name == "ter")
            if of_all.interval and of_loader.interval:
                # Of other resamples, because the sentences are in the order of the groups.
                error = (of_loader.interval.high - of_loader.interval.low) / 5
                assert of_all.interval.low == pytest.approx(of_loader.interval.low, abs=error)
                assert of_all.interval.high == pytest.approx(of_loader.interval.high, abs=error)
                assert of_all.values().keys() == of_loader.values().keys()
    assert results["val_bleu/all"].comparison is not None
    assert results["val_bleu/all"].comparison.difference != 0


def without_interval(result: Result) -> list[Any]:
    """What does not depend on resamples."""
    scores = result.comparison and [getattr(result.comparison, name) for name in ("score_a", "score_b", "difference")]
    return [result.score, result.components, str(result.report), result.higher_is_better, result.percent, scores]


def test_all_groups_have_a_score_of_each_metric_that_scores_them_alike() -> None:
    """With the same settings, also of two objects; no matter what the other metrics do."""
    ter = TER()
    metrics: dict[str, Any] = {
        "same": {"many": CorpusBLEU(tokenizer="char"), "few": CorpusBLEU(tokenizer="char")},
        "other": {"many": CorpusBLEU(), "few": CorpusBLEU(tokenizer="char")},
        "f": {"many": exact, "few": FunctionMetric(exact)},
        "g": {"many": exact, "few": error_rate},
        "ter": {"many": ter, "few": ter},
        "ters": {"many": TER(), "few": TER(case_sensitive=True)},
    }
    results = evaluate_groups(Evaluator(metrics, confidence=0.9))
    assert {name for name in metrics if f"val_{name}/all" in results} == {"same", "f", "ter"}
    for name in metrics:
        mean = fmean(results[f"val_{name}/{group}"].score for group in GROUPS)
        assert results[f"val_{name}"].score == pytest.approx(mean)
    expected = evaluate_groups(Evaluator({"same": CorpusBLEU(tokenizer="char")}), 0, None)
    assert results["val_same/all"].score == expected["val_same"].score


def test_several_loaders_have_a_score_of_all_groups_each_and_none_together() -> None:
    sizes = {"news": 5, "talks": 8}
    collector = make_collector({"bleu": CorpusBLEU(), "ter": TER()}, [*sizes])
    expected = {}
    for dataloader_idx, (loader, size) in enumerate(sizes.items()):
        hypotheses, references, _ = corpus_of(range(size), dataloader_idx)
        labels = ["ab"[number % 2] for number in range(size)]
        count(collector, hypotheses, references, dataloader_idx=dataloader_idx, group=labels)
        whole = score(count(make_collector(CorpusBLEU()), hypotheses, references))
        expected[f"val_bleu/{loader}/all"] = whole.results["val_bleu"].score
    scored = score(collector, confidence=0.9)
    subsets = [f"/{loader}/{group}" for loader in sizes for group in "ab"]
    names = [*subsets, "/news/all", "/talks/all", ""]
    assert list(scored.results) == [f"val_{name}{subset}" for name in ("bleu", "ter") for subset in names]
    assert {logged: scored.results[logged].score for logged in expected} == expected
    mean = fmean(scored.results[f"val_bleu{subset}"].score for subset in subsets)
    assert scored.results["val_bleu"].score == pytest.approx(mean)


def test_a_group_cannot_be_all_but_a_loader_can() -> None:
    message = "^the groups cannot have the name 'all', which is reserved$"
    collector = make_collector(names=["all", "news"])
    for dataloader_idx in range(2):
        with pytest.raises(ValueError, match=message):
            count(collector, ["a", "a"], ["a", "a"], dataloader_idx=dataloader_idx, group=["x", "all"])
    with pytest.raises(ValueError, match=message):
        evaluate_groups(Evaluator(), labels=["all"] * len(LABELS))
    for dataloader_idx in range(2):
        count(collector, ["a"], ["a"], dataloader_idx=dataloader_idx)
    assert list(score(collector).results) == ["val_bleu/all", "val_bleu/news", "val_bleu"]


def numbers(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """The numbers that the hypotheses are."""
    return [*map(float, hypotheses)]


@pytest.mark.parametrize("resumes", [False, True])
def test_the_best_score_of_all_groups_is_that_of_the_validation_with_the_best_mean(resumes: bool) -> None:
    evaluator = Evaluator({"f": numbers}, compare_to="best")
    # Scores of a group of 10 and of one of 50; then what all are compared with, and their best score.
    validations = [(0, 0.6, 0.5, 0.5), (1, 0, 0.5, 1 / 6), (0, 0.9, 1 / 6, 1 / 6)]
    for small, large, opponent, best in validations:
        if resumes:
            state = evaluator.state_dict()
            evaluator = Evaluator({"f": numbers}, compare_to="best")
            evaluator.load_state_dict(state)
        evaluator.start()
        evaluator.update([f"{small}"] * 10 + [f"{large}"] * 50, ["0"] * 60, group=["small"] * 10 + ["large"] * 50)
        result = evaluator.finish(1)["val_f/all"]
        assert result.score == pytest.approx((10 * small + 50 * large) / 60)
        assert result.best == pytest.approx(best)
        assert result.comparison is not None
        assert result.comparison.score_b == pytest.approx(opponent)
        assert result.comparison.difference == pytest.approx(result.score - opponent)


def test_nothing_is_known_about_chance_with_one_sentence_also_of_all_groups() -> None:
    evaluator = Evaluator({"f": numbers}, compare_to="first")
    for number in range(2):
        evaluator.start()
        evaluator.update([f"{number}"], ["0"], group=["only"])
        with nullcontext() if number == 0 else pytest.warns(UserWarning, match="1 sentence"):
            results = evaluator.finish(number)
    for name in ("val_f/only", "val_f/all", "val_f"):
        comparison = results[name].comparison
        assert comparison is not None
        assert (comparison.difference, comparison.p_value) == (1, 1)


@pytest.mark.parametrize("resumes", [False, True])
def test_the_numbers_of_a_function_of_the_corpus_are_those_of_all_groups_together(resumes: bool) -> None:
    def ranks(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        return [float(line) + len(hypotheses) for line in hypotheses]

    def make() -> Evaluator:
        return Evaluator({"f": FunctionMetric(ranks, corpus_level=True)}, confidence=0.9, compare_to="best")

    evaluator = make()
    earlier: dict[str, Result] = {}
    for mean in (0, 5):
        if resumes:
            state = evaluator.state_dict()
            evaluator = make()
            evaluator.load_state_dict(state)
        evaluator.start()
        evaluator.update([f"{mean + n % 3}" for n in range(40)], ["0"] * 40, group=["a"] * 10 + ["b"] * 30)
        results = evaluator.finish(1)
        for subset, size in {"/a": 10, "/b": 30, "/all": 40, "": 20}.items():
            result = results[f"val_f{subset}"]
            assert result.score == result.best == pytest.approx(size + mean + 1, abs=0.1)
            assert result.interval is not None
            assert size + mean < result.interval.low < result.score < result.interval.high < size + mean + 2
            assert result.comparison is not None
            assert result.comparison.score_a == result.score
            assert result.comparison.score_b == earlier.get(subset, result).score
            earlier[subset] = result


def test_a_group_without_a_score_leaves_all_groups_theirs() -> None:
    """All of its sentences are 0/0, so it counts for nothing."""

    def rate(hypotheses: list[str], references: list[list[str]]) -> list[tuple[int, int]]:
        return [(line.count("x"), len(line)) for line in hypotheses]

    evaluator = Evaluator({"bleu": CorpusBLEU(max_order=1), "rate": rate}, confidence=0.9, compare_to="best")
    for line in ("xy", "xx"):
        evaluator.start()
        evaluator.update([""] * 5 + [line, "y"] * 20, ["xy"] * 45, group=["a"] * 5 + ["b"] * 40)
        results = evaluator.finish(1)
    assert [name for name in results if "rate" in name] == ["val_rate/b", "val_rate/all", "val_rate"]
    assert results["val_rate/all"].score == results["val_rate/b"].score == 2 / 3
    interval, comparison = results["val_rate/all"].interval, results["val_rate/all"].comparison
    assert interval is not None
    assert interval.low < 2 / 3 < interval.high
    assert comparison is not None
    assert comparison.difference == pytest.approx(1 / 3)
    assert results["val_bleu/all"].interval is not None


def test_a_function_may_score_all_groups_and_none_of_them_alone() -> None:
    def spread(hypotheses: list[str], references: list[list[str]]) -> float | None:
        return None if len(hypotheses) <= max(GROUPS.values()) else float(len(hypotheses))

    metrics: dict[str, Any] = {"f": FunctionMetric(spread, corpus_level=True), "bleu": CorpusBLEU()}
    results = evaluate_groups(Evaluator(metrics, confidence=0.9, compare_to="best"))
    of_bleu = [f"val_bleu{subset}" for subset in ("/few", "/many", "/all", "")]
    assert list(results) == ["val_f/all", *of_bleu]
    assert results["val_f/all"].score == len(LABELS)


def test_the_record_has_a_line_without_a_file_for_all_groups(tmp_path: Path) -> None:
    evaluator = Evaluator(make_metrics(), translations=tmp_path)
    results = evaluate_groups(evaluator)
    lines = {line["key"]: line for line in read_scores(tmp_path / "scores.jsonl")}
    assert lines.keys() == results.keys()
    for name in make_metrics():
        of_group, of_all = lines[f"val_{name}/many"], lines[f"val_{name}/all"]
        assert of_all["file"] is None
        assert {key: of_all[key] for key in results["val_bleu"].to_dict()} == results[f"val_{name}/all"].to_dict()
        for key in ("step", "epoch", "metric", "class", "forms", "settings"):
            assert of_all[key] == of_group[key]
    assert sorted(path.name for path in (tmp_path / "val").iterdir()) == sorted(GROUPS)


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
    message = (
        f"^two scores would be logged as '{re.escape(clash.logged)}': rename a metric, a score, a loader, or a group$"
    )
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
    with pytest.raises(
        ValueError, match=r"^two scores would be logged as 'val_f/news/l': rename a metric, a score, a "
    ):
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
