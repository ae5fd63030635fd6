"""A validation that has been scored: its results and numbers, its loaders, and what an evaluator keeps of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, Result
from lightning_bleu.evaluation.input.outputs import Output
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.validation import Validation
from tests.helpers.callback_metrics import corpus_of, exact
from tests.helpers.files import read_scores, read_sentences
from tests.helpers.metrics import bleu_components_of
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A, B
from tests.helpers.validations import Counting, begin, count, score

BLEU = CorpusBLEU(tokenizer="none", smoothing="exp")


def evaluate(evaluator: Evaluator, preds: Any = A, target: Any = REFERENCES, **fields: Any) -> dict[str, Result]:
    """The results of a validation of a loader without a name."""
    evaluator.start()
    evaluator.update(preds, target, **fields)
    return evaluator.finish(step=1)


def validate(evaluator: Evaluator, outputs: dict[str, Output], naming: Naming | None = None) -> Validation:
    """A validation of named loaders, with a batch each, which is scored and published."""
    started = begin(evaluator, [*outputs], naming=naming)
    for number, output in enumerate(outputs.values()):
        started.collector.update(output, None, number)
    outcome = evaluator.score(started)
    evaluator.publish(started, outcome, 1)
    assert started.validation is not None
    return started.validation


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
    evaluator = Evaluator({"x": metric, "y": metric}, confidence=0.9, compare_to="best")
    for has_others in (False, True):
        started = begin(evaluator, ["news", "talks"])
        if nothing:
            labels = ["a"] * len(nothing["preds"]) if grouped else None
            started.collector.update(Output(**nothing, group=labels))
        if has_others:  # another loader has some
            started.collector.update(Output(["a"], ["a"], group=["b"] if grouped else None), None, 1)
        outcome = evaluator.score(started)
        validation = started.validation
        assert validation is not None
        names = ["", "/talks", "/talks/b"] if grouped else ["", "/talks"]
        expected = [f"val_{name}{loader}" for loader in names for name in "xy"] if has_others else []
        assert [*validation.results] == expected
        assert bool(validation.numbers) is has_others
        assert [loader.name for loader in validation.loaders] == (["talks"] if has_others else [])
        assert len({validation.results[logged].score for logged in expected}) == has_others
        evaluator.publish(started, outcome, 1)
        compared = evaluator.state_dict().get("best", {})
        assert [*compared] == (["val_x", "val_y"] if has_others and isinstance(metric, CorpusBLEU) else [])


# Loaders


def test_a_loader_has_its_sentences_its_results_and_its_rows_without_those_of_groups() -> None:
    metrics = {"bleu": CorpusBLEU(), "f": lambda *texts: {"a": exact(*texts), "b": exact(*texts)}, "ter": TER()}
    counting = Counting(metrics, ["news", "talks"])
    count(counting, A, REFERENCES, dataloader_idx=1)
    count(counting, B, REFERENCES, dataloader_idx=0, group=["x", "y", "x", "y"])
    validation = score(counting)
    assert [loader.name for loader in validation.loaders] == ["news", "talks"]
    for loader in validation.loaders:
        assert [*loader.results] == ["bleu", "f/a", "f/b", "ter"]
        assert [*loader.rows] == ["bleu", "f/a", "f/b"]
        for key, result in loader.results.items():
            metric, _, part = key.partition("/")
            assert result is validation.results["/".join(filter(None, [f"val_{metric}", loader.name, part]))]
        for rows in loader.rows.values():
            assert torch.equal(rows.identity, loader.sentences.identity)


# Numbers


def test_the_numbers_are_the_scores_with_what_is_logged_below_them() -> None:
    evaluator = Evaluator(CorpusBLEU(max_order=1), confidence=0.9, parts=True)
    validation = validate(evaluator, {"": Output(A, REFERENCES, group=["a", "b", "a", "b"])})
    assert [number.name for number in validation.numbers.values()] == [
        *(Name("bleu", detail=detail) for detail in ("", *bleu_components_of(1), "low", "high")),
        *(Name("bleu", group=group) for group in ("a", "b", "mean")),
    ]
    for logged, (name, value) in validation.numbers.items():
        assert logged == Naming().render(name)
        result = validation.results[Naming().render(name._replace(detail=""))]
        assert value == {"": result.score, **result.parts, **result.statistics()}[name.detail]


# Labels


def test_labels_change_no_other_number() -> None:
    """Neither intervals nor comparisons of all sentences."""
    metrics: dict[str, Any] = {
        "bleu": CorpusBLEU(percent=True),
        "chrf": CorpusCHRF(percent=True),
        "f": exact,
        "ter": TER(),
    }
    labels: list[Any] = [None, ["few"] * 3 + ["many"] * 30, [f"{number}" for number in range(33)], ["one"] * 33]
    outcomes = []
    for group in labels:
        evaluator = Evaluator(metrics, confidence=0.9, compare_to="best")
        outcome = []
        for epoch in range(3):
            hypotheses, references, _ = corpus_of(range(33), epoch)
            results = evaluate(evaluator, hypotheses, references, group=group)
            outcome.append({name: results[f"val_{name}"] for name in metrics})
        outcomes.append(outcome)
        if group is not None:
            groups = sorted(set(group))
            names = ["", *(f"/{label}" for label in groups), *(["/mean"] if len(groups) > 1 else [])]
            assert {*results} == {f"val_{name}{label}" for name in metrics for label in names}
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]
    assert outcomes[0][1]["bleu"].comparison is not None
    assert outcomes[0][1]["bleu"].comparison.difference != 0


def test_the_record_has_the_scores_of_groups_and_means(tmp_path: Path) -> None:
    metrics: dict[str, Any] = {"bleu": CorpusBLEU(percent=True), "f": exact, "ter": TER()}
    evaluator = Evaluator(metrics, translations=tmp_path)
    results = evaluate(evaluator, group=["many", "few", "many", "many"], index=[3, 2, 1, 0])
    lines = {line["key"]: line for line in read_scores(tmp_path)}
    assert lines.keys() == results.keys()
    for name in metrics:
        loader, group, mean = (lines[f"val_{name}{part}"] for part in ("", "/many", "/mean"))
        assert (loader["group"], group["group"], mean["group"]) == (None, "many", "mean")
        assert mean["mean_of"] == [f"val_{name}/few", f"val_{name}/many"]
        assert {key: group[key] for key in results["val_bleu"].to_dict()} == results[f"val_{name}/many"].to_dict()
        for key in ("step", "epoch", "metric", "class", "forms", "settings"):
            assert group[key] == loader[key]
        assert mean["class"] == loader["class"]
        assert (mean["settings"], mean["forms"]) == (None, [])
    sentences = read_sentences(tmp_path / "val" / "step-0000001")
    places = [(sentence["index"], sentence["group"], [*sentence["scores"]]) for sentence in sentences]
    groups = ["many", "many", "few", "many"]
    assert places == [(number, group, ["bleu", "f"]) for number, group in enumerate(groups)]


# Two scores of one name


def share(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
    """One score of a dict."""
    return {"l": exact(hypotheses, references)}


def shares(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
    """Two scores, of which the first has the name of the second of the group ``news``."""
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
    naming: Naming = Naming("eval", "{stage}_{metric}", "_")
    groups: tuple[str, ...] = ()


CLASHES = {
    "a score and a metric": Clash({"rouge": share}, {"rouge": share, "rouge_l": exact}, "eval_rouge_l"),
    "a component": Clash({"bleu": BLEU}, {"bleu": BLEU, "bleu_precision_1": exact}, "eval_bleu_precision_1"),
    "an interval": Clash({"f": exact}, {"f": exact, "f_low": exact}, "eval_f_low"),
    "a comparison": Clash({"f": exact}, {"f_p_value": exact, "f": exact}, "eval_f_p_value"),
    "a group and a score": Clash({"f": share}, {"f": shares}, "val_f/news/l", Naming(), ("news",)),
    "a mean and a group": Clash({"f": exact}, {"f": exact, "f_mean": exact}, "eval_f_mean", groups=("x", "y")),
}


def run_once(evaluator: Evaluator, clash: Clash, preds: list[str]) -> dict[str, Result]:
    """A validation of one loader."""
    groups = [clash.groups[number % len(clash.groups)] for number in range(len(preds))] if clash.groups else None
    output = Output(preds, REFERENCES, group=groups)
    return dict(validate(evaluator, {"": output}, clash.naming).results)


@pytest.mark.parametrize("clash", CLASHES.values(), ids=CLASHES)
@pytest.mark.filterwarnings("ignore:The best validation so far scored .* with different settings .function.")
def test_two_numbers_of_one_name_are_an_error_that_leaves_the_best_and_the_results(clash: Clash) -> None:
    clashing, evaluator = (
        Evaluator(metrics, parts=True, confidence=0.9, compare_to="best") for metrics in (clash.metrics, clash.before)
    )
    message = (
        f"^two scores would be logged as '{re.escape(clash.logged)}': rename a metric, a score, a loader, or a group$"
    )
    with pytest.raises(ValueError, match=message):
        run_once(clashing, clash, A)
    assert (clashing.state_dict(), clashing.results) == ({}, {})
    results = run_once(evaluator, clash, A)
    state = evaluator.state_dict()
    clashing.load_state_dict(state)
    with pytest.raises(ValueError, match=message):
        run_once(clashing, clash, REFERENCES)  # is better
    assert clashing.results == {}
    assert flatten(clashing.state_dict()) == flatten(state)
    evaluator.load_state_dict(clashing.state_dict())
    logged, *_ = results
    compared = run_once(evaluator, clash, REFERENCES)[logged]
    assert compared.comparison is not None
    assert compared.comparison.score_b == results[logged].score < compared.score == compared.best


def flatten(state: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    """What the state of an evaluator holds, by identity."""
    return [
        (logged, loader, field, id(value))
        for logged, of_opponent in state["best"].items()
        for loader, rows in of_opponent.items()
        for field, value in rows.items()
    ]


# The results of an evaluator


def evaluate_loaders(evaluator: Evaluator, names: list[str], stage: str) -> dict[str, Result]:
    """A validation or a test of loaders with these names."""
    evaluator.start({name: [None] for name in names}, stage=stage)
    for dataloader_idx in range(len(names)):
        evaluator.update(A, REFERENCES, dataloader_idx=dataloader_idx)
    return evaluator.finish(step=1)


def test_the_results_of_an_evaluator_are_the_last_ones_of_each_stage() -> None:
    evaluator = Evaluator({"bleu": BLEU, "chrf": CorpusCHRF()})
    assert evaluator.results == {}
    first = evaluate_loaders(evaluator, ["news", "talks"], "val")
    assert evaluator.results == first
    of_test = evaluate_loaders(evaluator, ["news"], "test")
    assert list(evaluator.results.items()) == [*first.items(), *of_test.items()]
    second = evaluate_loaders(evaluator, ["news"], "val")  # without talks
    assert "val_bleu/talks" in first
    assert list(second) == ["val_bleu", "val_chrf", "val_bleu/news", "val_chrf/news"]
    assert list(evaluator.results.items()) == [*of_test.items(), *second.items()]
    for logged, result in (of_test | second).items():
        assert evaluator.results[logged] is result


def test_a_validation_without_sentences_has_no_results_but_those_of_other_stages_stay() -> None:
    evaluator = Evaluator(BLEU)
    evaluate_loaders(evaluator, ["news"], "val")
    of_test = evaluate_loaders(evaluator, ["news"], "test")
    evaluator.start()
    assert evaluator.finish(step=2) == {}
    assert evaluator.results == of_test
