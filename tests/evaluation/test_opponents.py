"""The best validation so far, the first, and the last clearly better one, and the comparison of others with them."""

from __future__ import annotations

import contextlib
import re
import warnings
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, Evaluator, FunctionMetric, PairedTest, Result, paired_bootstrap
from lightning_bleu.bleu import BLEUScorer
from lightning_bleu.core.verdict import Verdict, default_resamples, judge
from lightning_bleu.evaluation.loaders import CALL
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.opponents import Opponents
from lightning_bleu.evaluation.outputs import Output
from lightning_bleu.evaluation.saved import STATE_FORMAT, check_state, to_saved
from lightning_bleu.evaluation.scores import score_loaders
from lightning_bleu.tasks import WER
from tests.helpers.callback_metrics import try_to
from tests.helpers.process_groups import ProcessPool
from tests.helpers.validations import Counting

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))


def translate(right: float, sentences: int = 60, *, seed: int = 1, target: Tensor = SENTENCES, **fields: Any) -> Output:
    """Sentences in which a share of the words, drawn by a seed, is right."""
    target = target[:sentences]
    luck = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))
    return Output(torch.where(luck < right, target, 99), target, **fields)


def make_metric(output: Output, **options: Any) -> CorpusBLEU:
    """A metric that has counted these sentences."""
    metric = CorpusBLEU(**{"pad_id": 0, "keep_sentences": True} | options)
    metric.update(output.preds, output.target, index=output.index)
    return metric


def score(output: Output, **options: Any) -> float:
    """The score of sentences."""
    return make_metric(output, **options).compute().item()


def bootstrap(output: Output, other: Output, name: str = "", confidence: float = 0.95) -> PairedTest:
    """The paired bootstrap of two systems with the resamples of this loader or group."""
    seed = zlib.crc32(name.encode())
    metrics = make_metric(output), make_metric(other)
    return paired_bootstrap(*metrics, default_resamples(confidence), seed=seed, confidence=confidence)


def compare_loaders(
    opponents: Opponents, outputs: Mapping[str, Output], *, may_replace: bool = True, metric: Any = None
) -> dict[str, Result]:
    """Compare a validation of loaders, which becomes the opponent if it should. Returns what is compared."""
    counting = Counting({"bleu": metric or CorpusBLEU(pad_id=0)}, [*outputs])
    for number, output in enumerate(outputs.values()):
        counting.collector.update(output, 0, number)
    loaders = counting.collector.gather()
    scored, naming = score_loaders(counting.metrics, loaders), Naming()
    found = opponents.find(scored, loaders, naming, may_compare=True, may_replace=may_replace)
    compared, new = opponents.compare(scored, found)
    assert [(one.name, one.result.score, one.rows) for one in compared] == [
        (one.name, one.result.score, one.rows) for one in scored
    ]
    may_replace = may_replace or opponents.kind == "first"
    opponents.save(to_saved(compared, loaders, new if may_replace else (), naming))
    results = {naming.render(one.name): one.result for one in compared}
    for logged, result in results.items():
        is_compared = result.comparison is not None
        assert (result.compared_with == opponents.kind) is is_compared
        assert (result.opponent_score is not None) is (is_compared and logged == "val_bleu")
    return {logged: result for logged, result in results.items() if result.comparison is not None}


def compare(opponents: Opponents, output: Output, *, may_replace: bool = True, **options: Any) -> Result:
    """Compare a validation of a loader without a name or labels."""
    metric = CorpusBLEU(pad_id=0, **options)
    return compare_loaders(opponents, {"": output}, may_replace=may_replace, metric=metric)["val_bleu"]


def is_first(result: Result) -> bool:
    """Whether a score is compared with itself."""
    test = result.comparison
    assert test is not None
    is_equal = (test.score_b, test.difference, test.low, test.high, test.p_value) == (result.score, 0, 0, 0, 1)
    assert is_equal is (result.verdict is None)
    return is_equal


def saved(opponents: Opponents, loader: str = "") -> Any:
    """What is saved of a loader."""
    return opponents.state_dict()[opponents.kind]["val_bleu"][loader]


# One loader


def test_the_first_validation_is_the_best_until_another_one_is_better() -> None:
    best, output = Opponents("best"), translate(0.6)
    assert best.state_dict() == {}
    result = compare(best, output)
    assert is_first(result)
    assert result.best == score(output)
    metric, of_loader = make_metric(output), saved(best)
    assert torch.equal(of_loader["statistics"], metric.sentence_statistics())
    assert torch.equal(of_loader["identity"], metric.kept_sentences().identity)
    assert of_loader["settings"] == metric.settings.plain()
    again = compare(best, translate(0.6))
    assert (again.best, again.verdict) == (score(output), Verdict("unclear"))
    assert saved(best) is of_loader


RIGHTS = (0.6, 0.5, 0.7, 0.65, 0.9)


@pytest.mark.parametrize(
    ("kind", "compared_with"), [("best", [0, 0, 0, 2, 2]), ("first", [0] * 5), ("clear_best", [0, 0, 0, 2, 2])]
)
def test_a_validation_is_compared_with_the_best_the_first_or_the_last_clearly_better_one(
    kind: Any, compared_with: list[int]
) -> None:
    """With the test and the verdict of two finished systems."""
    opponents, outputs = Opponents(kind), [translate(right) for right in RIGHTS]
    scores = [*map(score, outputs)]
    assert scores[1] < scores[0] < scores[3] < scores[2] < scores[4]
    current = 0
    for number, (output, other) in enumerate(zip(outputs, compared_with, strict=True)):
        test = bootstrap(output, outputs[other])
        result = compare(opponents, output)
        assert result.comparison == test
        assert result.verdict == (None if number == 0 else judge(test, 1, 0.95))
        is_better = {"best": scores[number] > scores[current], "first": False}
        is_clear = result.verdict is not None and result.verdict.word == "better"
        if is_better.get(kind, is_clear):
            current = number
        assert result.opponent_score == getattr(result, kind) == scores[current]
    assert current == (0 if kind == "first" else 4)


def test_only_a_clearly_better_validation_becomes_the_clear_best() -> None:
    outputs = [translate(0.6), translate(0.6, seed=2), translate(0.3), translate(0.9)]
    scores = [*map(score, outputs)]
    assert scores[2] < scores[0] < scores[1] < scores[3]
    clear_best = Opponents("clear_best")
    results = [compare(clear_best, output) for output in outputs]
    assert [result.verdict and result.verdict.word for result in results] == [None, "unclear", "worse", "better"]
    assert [result.clear_best for result in results] == [scores[0], scores[0], scores[0], scores[3]]
    assert [result.best for result in results] == [result.first for result in results] == [None] * 4


@pytest.mark.parametrize("confidence", [None, 0.5, 0.95, 0.99])
def test_the_confidence_decides_what_is_clear_and_how_many_resamples_there_are(confidence: Any) -> None:
    """Enough for a p-value below the level. Without a level, that is 95%."""
    clear_best, level = Opponents("clear_best", confidence), confidence or 0.95
    outputs = [translate(0.6), translate(0.62, seed=2)]
    results = [compare(clear_best, output) for output in outputs]
    for result in results:
        assert result.comparison is not None
        assert result.comparison.trials == default_resamples(level)
        assert result.comparison.confidence == level
    verdict = judge(bootstrap(outputs[1], outputs[0], "", level), 1, level)
    assert results[1].verdict == verdict
    assert (results[1].clear_best == score(outputs[1])) is (verdict.word == "better") is (confidence == 0.5)


@pytest.mark.parametrize("kind", ["best", "clear_best"])
def test_a_lower_error_rate_is_better(kind: Any) -> None:
    opponents = Opponents(kind)
    lines = ["a b c d"] * 40, ["a b x d"] * 40, ["a b c d e f"] * 20 + ["a b c d"] * 20
    scores = []
    for hypotheses in (lines[1], lines[2], lines[0], lines[1]):
        output = Output(hypotheses, lines[0])
        result = compare_loaders(opponents, {"": output}, metric=WER())["val_bleu"]
        scores.append((result.score, result.opponent_score, result.verdict and result.verdict.word))
    assert scores == [(0.25, 0.25, None), (0.25, 0.25, "unclear"), (0, 0, "better"), (0.25, 0, "worse")]


def test_a_score_of_which_neither_is_better_is_compared_with_the_first_only() -> None:
    lines = ["a b", "c"] * 20
    metric = FunctionMetric(lambda hypotheses, references: [*map(len, hypotheses)], higher_is_better=None)
    for kind in ("best", "clear_best"):
        opponents = Opponents(kind)
        assert compare_loaders(opponents, {"": Output(lines, lines)}, metric=metric) == {}
        assert opponents.state_dict() == {}
    first = Opponents("first")
    assert is_first(compare_loaders(first, {"": Output(lines, lines)}, metric=metric)["val_bleu"])
    result = compare_loaders(first, {"": Output(["a b c", "d e"] * 20, lines)}, metric=metric)["val_bleu"]
    assert (result.first, result.verdict) == (2, Verdict("higher"))


def finish(evaluator: Evaluator, output: Output, **options: bool) -> Result:
    """A validation of an evaluator."""
    started = evaluator.begin("val", [""], [None], CALL)
    started.collector.update(output)
    validation = evaluator.score(started, **options)
    evaluator.publish(started, validation, 1)
    return validation.results["val_bleu"]


@pytest.mark.filterwarnings("error")
def test_a_validation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    evaluator, outputs = Evaluator(CorpusBLEU(pad_id=0), compare_to="best"), [translate(0.6), translate(0.8)]
    assert is_first(finish(evaluator, outputs[0], may_replace=False))
    assert evaluator.state_dict() == {}
    finish(evaluator, outputs[0])
    result = finish(evaluator, outputs[1], may_replace=False)
    assert result.comparison == bootstrap(outputs[1], outputs[0])
    assert result.best == score(outputs[1])  # the highest so far, which is not kept
    statistics = evaluator.state_dict()["best"]["val_bleu"][""]["statistics"]
    assert torch.equal(statistics, make_metric(outputs[0]).sentence_statistics())


@pytest.mark.parametrize("kind", ["best", "first", "clear_best"])
def test_a_validation_that_may_not_be_compared_is_compared_with_itself(kind: Any) -> None:
    """Such as one of a checkpoint: nothing is kept of it."""
    evaluator = Evaluator(CorpusBLEU(pad_id=0), compare_to=kind)
    assert is_first(finish(evaluator, translate(0.6), may_compare=False))
    assert evaluator.state_dict() == {}
    finish(evaluator, translate(0.6))
    state = evaluator.state_dict()
    assert is_first(finish(evaluator, translate(0.9), may_compare=False))
    assert evaluator.state_dict()[kind]["val_bleu"] is state[kind]["val_bleu"]


@pytest.mark.parametrize("kind", ["best", "first", "clear_best"])
def test_nothing_is_compared_if_only_groups_have_a_score(kind: Any) -> None:
    def balance(hypotheses: list[str], references: list[list[str]]) -> list[tuple[float, float]]:
        return [(1.0, -1.0) if hypothesis == "a" else (-1.0, 1.0) for hypothesis in hypotheses]

    evaluator = Evaluator({"balance": balance}, compare_to=kind)
    for step in range(2):
        evaluator.start()
        evaluator.update(["a", "b"], ["a", "b"], group=["x", "y"])
        results = evaluator.finish(step)
        assert {*results} == {"val_balance/x", "val_balance/y", "val_balance/mean"}
        assert all(result.comparison is None for result in results.values())


def test_tests_are_not_compared() -> None:
    evaluator = Evaluator(compare_to="best")
    evaluator.start(stage="test")
    evaluator.update(["a b"] * 40, ["a b"] * 40)
    assert evaluator.finish(1)["test_bleu"].comparison is None
    assert evaluator.state_dict() == {}


# Several loaders


def test_the_best_validation_is_that_with_the_best_mean() -> None:
    """Not the best score of each loader."""
    best = Opponents("best")
    validations = [
        {"a": translate(first), "b": translate(second, 30)} for first, second in ((0.6, 0.6), (0.7, 0.1), (0.5, 0.9))
    ]
    scores = [{name: score(output) for name, output in outputs.items()} for outputs in validations]
    means = [sum(of_loaders.values()) / 2 for of_loaders in scores]
    assert means[1] < means[0] < means[2]
    for number, (outputs, against, expected) in enumerate(zip(validations, (0, 0, 0), (0, 0, 2), strict=True)):
        results = compare_loaders(best, outputs)
        assert results["val_bleu"].best == means[expected]
        for name, output in outputs.items():
            assert results[f"val_bleu/{name}"].comparison == bootstrap(output, validations[against][name], name)
        comparison = results["val_bleu"].comparison
        assert comparison is not None
        assert (comparison.score_a, comparison.score_b) == (means[number], means[against])
        for name, output in validations[expected].items():
            assert torch.equal(saved(best, name)["statistics"], make_metric(output).sentence_statistics())


def test_the_gain_of_the_mean_can_be_clear_if_that_of_no_loader_is() -> None:
    clear_best, names = Opponents("clear_best"), [f"loader {number}" for number in range(4)]
    for right, seed in ((0.6, 0), (0.605, 200)):
        outputs = {name: translate(right, seed=seed + number) for number, name in enumerate(names)}
        results = compare_loaders(clear_best, outputs)
    verdicts = {logged: result.verdict.word for logged, result in results.items() if result.verdict is not None}
    assert verdicts == {f"val_bleu/{name}": "unclear" for name in names} | {"val_bleu": "better"}
    assert results["val_bleu"].clear_best == results["val_bleu"].score
    for name in names:
        assert torch.equal(saved(clear_best, name)["statistics"], make_metric(outputs[name]).sentence_statistics())


def test_a_single_sentence_says_nothing_about_chance_but_counts_in_the_mean() -> None:
    best = Opponents("best")
    compare_loaders(best, {"a": translate(0.6), "b": translate(0.6, 1)})
    now = {"a": translate(0.9), "b": translate(0.9, 1)}
    tests = {name: result.comparison for name, result in compare_loaders(best, now).items()}
    a, b, mean = tests["val_bleu/a"], tests["val_bleu/b"], tests["val_bleu"]
    assert a is not None
    assert b is not None
    assert mean is not None
    assert (b.p_value, b.low) == (1, b.difference)
    assert a.p_value < 0.05
    assert mean.p_value < 0.05
    assert mean.score_a == pytest.approx(sum(map(score, now.values())) / 2)


@pytest.mark.parametrize("names", [("",), ("a", "b")])
@pytest.mark.parametrize("kind", ["best", "clear_best"])
def test_the_best_of_single_sentences_is_the_highest(kind: Any, names: Sequence[str]) -> None:
    """Unless the gain must be clear: nothing is known about chance, so p = 1."""
    opponents, rights = Opponents(kind), (0.6, 0.8, 0.3, 1)
    means, found = [], []
    for right in rights:
        outputs = {name: translate(right, 1, seed=seed) for seed, name in enumerate(names)}
        means.append(sum(map(score, outputs.values())) / len(names))
        results = compare_loaders(opponents, outputs)
        assert all(result.comparison is not None and result.comparison.p_value == 1 for result in results.values())
        found.append(results["val_bleu"].opponent_score)
    assert found == ([means[0]] * 4 if kind == "clear_best" else [max(means[: number + 1]) for number in range(4)])
    assert means[0] < means[3]


# Groups

LABELS = ["de"] * 20 + ["fr"] * 40


def choose(output: Output, chosen: slice) -> Output:
    """Some of the sentences."""
    return Output(output.preds[chosen], output.target[chosen])


def test_a_group_is_compared_with_the_same_group_of_the_validation_that_its_loader_is_compared_with() -> None:
    """Although that one had not the best score of the group."""
    best = Opponents("best")
    first, second, third = (translate(right, group=LABELS) for right in (0.4, 0.7, 0.5))
    second.preds[:20] = 99  # all of the group is wrong
    for output in (first, second, third):
        results = compare_loaders(best, {"": output})
        assert results.keys() == {"val_bleu", "val_bleu/de", "val_bleu/fr"}  # not the mean of the groups
    assert score(first) < score(second)
    for label, chosen in {"de": slice(0, 20), "fr": slice(20, 60)}.items():
        now, then = choose(third, chosen), choose(second, chosen)
        assert results[f"val_bleu/{label}"].comparison == bootstrap(now, then, label)
    assert results["val_bleu"].comparison == bootstrap(third, second)
    assert [result.verdict and result.verdict.word for result in results.values()] == ["worse", "better", "worse"]


def test_groups_do_not_matter_for_the_comparison_of_their_loader() -> None:
    outcomes = []
    for labels in ([None, None], [LABELS, LABELS], [None, LABELS], [LABELS, LABELS[::-1]], [LABELS, None]):
        best = Opponents("best")
        outcome = [compare_loaders(best, {"": translate(0.5, group=labels[0])})["val_bleu"]]
        outcome.append(compare_loaders(best, {"": translate(0.6, group=labels[1])})["val_bleu"])
        outcomes.append(outcome)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert outcomes[0][1].verdict == Verdict("better")


THEN = ["same"] * 10 + ["moved"] * 20 + ["gone"] * 15 + ["more"] * 15
NOW = ["same"] * 10 + ["moved"] * 10 + ["new"] * 24 + ["more"] * 16


def test_a_group_that_one_validation_lacks_or_whose_sentences_differ_is_left_out_and_the_rest_is_compared() -> None:
    """Without a warning, because the loader is the same."""
    best, first, second = Opponents("best"), translate(0.5, group=THEN), translate(0.8, group=NOW)
    assert all(map(is_first, compare_loaders(best, {"": first}).values()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = compare_loaders(best, {"": second})
        later = [compare_loaders(best, {"": translate(0.7, group=labels)}) for labels in (THEN, NOW)]
    assert [*results] == ["val_bleu", "val_bleu/same"]
    same = slice(0, 10)
    assert results["val_bleu/same"].comparison == bootstrap(choose(second, same), choose(first, same), "same")
    # The second one is the best now, with its groups.
    assert [*later[0]] == ["val_bleu", "val_bleu/same"]
    assert [*later[1]] == ["val_bleu", *(f"val_bleu/{label}" for label in ("more", "moved", "new", "same"))]


def test_a_group_of_as_many_other_sentences_is_left_out() -> None:
    for index in (None, range(60)):
        best = Opponents("best")
        compare_loaders(best, {"": translate(0.5, group=["a"] * 30 + ["b"] * 30, index=index)})
        for labels in (["b"] * 30 + ["a"] * 30, ["a", "b"] * 30):
            assert [*compare_loaders(best, {"": translate(0.6, group=labels, index=index)}, may_replace=False)] == [
                "val_bleu"
            ]


def test_groups_of_sentences_in_another_order_are_compared_by_their_positions() -> None:
    best, order = Opponents("best"), torch.randperm(60, generator=torch.Generator().manual_seed(0))
    output = translate(0.5)
    compare_loaders(best, {"": output._replace(index=range(60), group=LABELS)})
    shuffled = Output(output.preds[order], output.target[order])
    labels = [LABELS[number] for number in order]
    results = compare_loaders(best, {"": shuffled._replace(index=order, group=labels)})
    assert results.keys() == {"val_bleu", "val_bleu/de", "val_bleu/fr"}
    assert {result.comparison.difference for result in results.values() if result.comparison is not None} == {0}


def test_a_group_that_has_all_sentences_takes_the_comparison_of_its_loader() -> None:
    """Of another loader with its name, it would have other resamples."""
    best = Opponents("best")
    for right in (0.5, 0.6):
        output = translate(right)
        results = compare_loaders(best, {"news": output._replace(group=["de"] * 60), "talks": translate(right, 30)})
    loader, group = results["val_bleu/news"], results["val_bleu/news/de"]
    assert (group.comparison, group.verdict) == (loader.comparison, loader.verdict)
    assert group.comparison != bootstrap(output, translate(0.5), "news/de")
    assert "val_bleu/news/mean" not in results


@pytest.mark.filterwarnings("ignore:'wer' of 'none' is a ratio whose denominator is 0")
def test_a_group_without_a_score_is_left_out() -> None:
    evaluator = Evaluator(WER(), compare_to="best")
    for line in ("a b", "a c"):
        evaluator.start()
        evaluator.update([line] * 30 + ["x"] * 10, ["a c"] * 30 + [""] * 10, group=["some"] * 30 + ["none"] * 10)
        results = evaluator.finish(1)
    assert [name for name, result in results.items() if result.comparison] == ["val_wer", "val_wer/some"]


# What cannot be compared


OTHER_TARGET = SENTENCES + (torch.arange(SENTENCES.numel()).view_as(SENTENCES) == SENTENCES.numel() - 1)
"""Another last word."""
OTHER_REFERENCES = (
    "had other references for 'val_bleu', or the same in another order (then give the position of each sentence as "
    "'index')"
)
SETTINGS = "scored 'val_bleu' with different settings ({})"


class Change(NamedTuple):
    """Two validations.

    Attributes:
        before, now: how the sentences of each are made.
        options_before, options: the options of the metric of each.
        reason: why they cannot be compared.
    """

    before: dict[str, Any]
    now: dict[str, Any]
    reason: str
    options_before: dict[str, Any] = {}  # noqa: RUF012
    options: dict[str, Any] = {}  # noqa: RUF012


CHANGES = {
    "fewer": Change({}, {"sentences": 59}, "had 60 sentences of 'val_bleu', and this one has 59"),
    "positions": Change({"index": range(60)}, {"index": range(1, 61)}, "had other sentences of 'val_bleu'"),
    "references": Change({}, {"target": OTHER_TARGET}, OTHER_REFERENCES),
    "a setting": Change({}, {}, SETTINGS.format("tokenizer"), options={"tokenizer": "intl"}),
    "a tokenizer": Change(
        {}, {}, SETTINGS.format("tokenizer"), {"tokenizer": str.split}, {"tokenizer": str.splitlines}
    ),
    "several settings": Change(
        {}, {}, SETTINGS.format("lowercase, max_order, weights"), options={"lowercase": True, "max_order": 2}
    ),
    "labels as well": Change({"group": LABELS}, {"group": LABELS, "target": OTHER_TARGET}, OTHER_REFERENCES),
}


@pytest.mark.parametrize("kind", ["best", "clear_best"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_validation_counts_as_the_first(change: Change, kind: Any) -> None:
    first, second, output = Opponents(kind), Opponents(kind), translate(0.3, **change.now)
    compare(first, translate(0.6, **change.before), **change.options_before)
    second.load_state_dict(first.state_dict())
    word = {"best": "best validation so far", "clear_best": "last clearly better validation"}[kind]
    message = f"The {word} {change.reason}: they cannot be compared, so this validation counts as the first"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert is_first(compare(second, output, **change.options))
    again = compare(second, output, **change.options)  # with a single warning
    assert again.opponent_score == again.score


@pytest.mark.parametrize("loaders", ["a", "ac"])
def test_a_loader_that_is_missing_once_does_not_make_the_best_forgotten(loaders: str) -> None:
    best, output, other = Opponents("best"), translate(0.6), translate(0.9)
    compare_loaders(best, {"a": output, "b": output})
    message = (
        "This validation has no sentences of ['val_bleu/b'], unlike the best validation so far: they are not compared, "
        "and that one stays."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert compare_loaders(best, dict.fromkeys(loaders, other)) == {}
    assert compare_loaders(best, dict.fromkeys(loaders, other)) == {}  # without a second warning
    assert compare_loaders(best, {"a": output, "b": output})["val_bleu"].best == score(output)


def test_a_new_loader_starts_over() -> None:
    best, output = Opponents("best"), translate(0.3)
    compare_loaders(best, {"a": translate(0.6)})
    message = r"^The best validation so far had no sentences of \['val_bleu/other'\]: they cannot be"
    with pytest.warns(UserWarning, match=message):
        results = compare_loaders(best, {"a": output, "other": output})
    assert [*results] == ["val_bleu/a", "val_bleu/other", "val_bleu"]
    assert all(map(is_first, results.values()))
    assert results["val_bleu"].best == score(output)


def test_the_order_of_loaders_and_of_batches_does_not_matter() -> None:
    best, backwards = Opponents("best"), list(range(59, -1, -1))
    compare_loaders(best, {"a": translate(0.6, index=range(60)), "b": translate(0.6)})
    reordered = translate(0.7, target=SENTENCES.flip(0), index=backwards)
    results = compare_loaders(best, {"b": translate(0.7), "a": reordered})
    assert all(result.verdict == Verdict("better") for result in results.values())


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = Opponents("best"), translate(0.6), translate(0.5)
    compare(best, first, **options)
    result = compare(best, second, percent=True, **options)
    assert result.best == pytest.approx(100 * score(first, **options))
    assert result.comparison is not None
    assert result.comparison.p_value == bootstrap(second, first).p_value


# The first


def test_the_first_validation_stays_the_first() -> None:
    """Also one that must not replace another one; and a better one does not become the first."""
    first, outputs = Opponents("first", confidence=0.8), [translate(right) for right in (0.6, 0.9, 0.5)]
    for output in outputs:
        result = compare(first, output, may_replace=output is not outputs[0])
        assert result.comparison == bootstrap(output, outputs[0], "", 0.8)
        assert result.first == score(outputs[0])


@pytest.mark.parametrize("may_replace", [True, False])
def test_a_validation_that_cannot_be_compared_does_not_replace_the_first(may_replace: bool) -> None:
    first, output, other = Opponents("first"), translate(0.6), translate(0.9, 30)
    compare(first, output)
    message = "The first validation had 60 sentences of 'val_bleu', and this one has 30: they cannot be compared, so "
    with pytest.warns(UserWarning, match=f"^{message}this validation is compared with itself$"):
        assert is_first(compare(first, other, may_replace=may_replace))
    assert compare(first, translate(0.3)).first == score(output)


# The state


def test_a_state_does_not_change_with_a_new_best() -> None:
    best, loaded = Opponents("best"), Opponents("best")
    compare(best, translate(0.6))
    state = best.state_dict()
    loaded.load_state_dict(state)
    for opponents in (best, loaded):
        compare(opponents, translate(0.9))
        assert torch.equal(saved(opponents)["statistics"], make_metric(translate(0.9)).sentence_statistics())
        statistics = state["best"]["val_bleu"][""]["statistics"]
        assert torch.equal(statistics, make_metric(translate(0.6)).sentence_statistics())


def test_a_resumed_run_compares_loaders_and_groups_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """What is saved are tensors and plain values, which `torch.load` reads without anything else."""
    outputs = [
        {"a": translate(right, index=range(60), group=LABELS), "b": translate(right, 40)} for right in (0.5, 0.7, 0.6)
    ]
    running, resumed = Opponents("clear_best"), Opponents("clear_best")
    for number, validation in enumerate(outputs):
        torch.save(running.state_dict(), tmp_path / "state.pt")
        resumed = Opponents("clear_best")
        resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        expected = compare_loaders(running, validation)
        assert compare_loaders(resumed, validation) == expected, number
        assert [*expected] == ["val_bleu/a", "val_bleu/a/de", "val_bleu/a/fr", "val_bleu/b", "val_bleu"]
    assert running.state_dict()["format"] == STATE_FORMAT


def test_a_state_of_another_kind_or_run_replaces_the_best_and_leaves_the_first() -> None:
    state = {kind: Opponents(kind) for kind in ("best", "first", "clear_best")}
    for opponents in state.values():
        compare(opponents, translate(0.6))
    for kind, opponents in state.items():
        opponents.load_state_dict({})
        assert opponents.state_dict().keys() == ({"format", "first"} if kind == "first" else set())


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"format": 1, "best": {}},
            "the state has the format 1, and this version of lightning_bleu reads 2: ",
        ),
        ({"best": {}, "model": {}, 5: {}}, r"expected evaluator.state_dict(), got a dict with the keys ['5', 'model']"),
        (None, "expected evaluator.state_dict(), got None of type NoneType"),
        ([], "expected evaluator.state_dict(), got [] of type list"),
    ],
)
def test_only_states_of_an_evaluator_of_this_version_are_loaded(state: Any, message: str) -> None:
    for check in (check_state, Evaluator(compare_to="best").load_state_dict):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            check(state)
    for kind in ("best", "first", "clear_best"):
        check_state({"format": STATE_FORMAT, kind: {}})
    check_state({})


def make_state() -> dict[str, Any]:
    """A state with a loader that has groups."""
    best = Opponents("best")
    compare(best, translate(0.6, group=LABELS))
    return best.state_dict()


WRONG_STATES: dict[str, Any] = {"identity": [0], "statistics": torch.zeros(59, 1), "settings": [], "groups": []}


@pytest.mark.parametrize("field", [*WRONG_STATES, "numbers", "loaders", "validations"])
def test_a_state_that_is_incomplete_or_has_other_types_is_not_loaded(field: str) -> None:
    broken = [make_state(), make_state()]
    for state in broken:
        check_state(state)
    for number, state in enumerate(broken):
        loaders = state["best"]["val_bleu"]
        if field in WRONG_STATES and number == 0:
            del loaders[""][field]
        elif field in WRONG_STATES:
            loaders[""][field] = WRONG_STATES[field]
        elif field == "numbers":
            loaders[""]["groups"]["de"] = torch.tensor([60, 1]) if number else torch.tensor([0.0])
        elif field == "loaders":
            state["best"]["val_bleu"] = [loaders] if number else {"": None}
        else:
            state["best"] = [state["best"]] if number else None
        with pytest.raises(ValueError, match=r"^expected evaluator.state_dict\(\), but 'best' in it is incomplete"):
            Evaluator(compare_to="best").load_state_dict(state)


def test_a_checkpoint_does_not_hold_what_is_around_the_statistics(tmp_path: Path) -> None:
    """They are columns of the rows of all metrics, of which a view would be saved as a whole."""
    metrics = {f"{number}": CorpusBLEU(pad_id=0, max_order=100, smoothing="floor") for number in range(5)}
    evaluator = Evaluator({"bleu": CorpusBLEU(pad_id=0), **metrics}, compare_to="best")
    evaluator.start()
    evaluator.update(*translate(0.6)[:2])
    evaluator.finish(1)
    state = evaluator.state_dict()
    torch.save({"format": STATE_FORMAT, "best": {"val_bleu": state["best"]["val_bleu"]}}, tmp_path / "best.pt")
    assert (tmp_path / "best.pt").stat().st_size < 20_000


class Reversed(BLEUScorer):
    """BLEU with the opposite order."""

    def score(self, statistics: Tensor) -> Tensor:
        return 1 - super().score(statistics)


def compare_with_another_rounding(rank: int, processes: int, rights: tuple[float, float], kind: Any) -> Tensor:
    """The statistics of the best of two validations, whose scores have the opposite order in process 1."""
    opponents, settings = Opponents(kind), CorpusBLEU(pad_id=0).settings
    scorer = (Reversed if rank else BLEUScorer)(settings)
    for right in rights:
        output = translate(right, index=range(60))
        counting = Counting({"bleu": scorer})
        counting.collector.update(output, 0)
        loaders = counting.collector.gather()
        scored = score_loaders(counting.metrics, loaders)
        found = opponents.find(scored, loaders, Naming(), may_compare=True, may_replace=True)
        compared, new = opponents.compare(scored, found)
        opponents.save(to_saved(compared, loaders, new, Naming()))
    kept: Tensor = saved(opponents)["statistics"]
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["best", "clear_best"])
@pytest.mark.parametrize("second", [0.8, 0.4], ids=["process 0 is better", "process 1 is better"])
def test_process_0_decides_which_validation_is_the_best(second: float, kind: str, pool: ProcessPool) -> None:
    """The scores of processes can differ in the last bit. Here they have the opposite order, so that it matters."""
    expected = make_metric(translate(max(0.6, second))).sentence_statistics()
    for kept in pool.run(2, compare_with_another_rounding, (0.6, second), kind):
        assert torch.equal(kept, expected)


# Functions under the same name


def longest(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    """A number per sentence."""
    return [max(map(len, line.split())) for line in hypotheses]


def words(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    """Another number per sentence."""
    return [len(line.split()) for line in hypotheses]


def validate(evaluator: Evaluator, step: int) -> Result:
    """The result of a validation of two sentences."""
    evaluator.start()
    evaluator.update(["a b c", "d"], ["a", "d"])
    return evaluator.finish(step)["val_f"]


@pytest.mark.parametrize(
    ("before", "after", "differ"),
    [
        (longest, words, True),
        (FunctionMetric(longest), longest, False),
        (lambda hypotheses, references: longest(hypotheses, references), lambda a, b: words(a, b), False),
        (partial(longest), partial(words), False),
    ],
)
def test_another_function_under_the_same_name_is_not_compared(before: Any, after: Any, differ: bool) -> None:
    """Lambdas and partials cannot be told apart."""
    evaluator = Evaluator({"f": before}, compare_to="best")
    first = validate(evaluator, 0)
    resumed = Evaluator({"f": after}, compare_to="best")
    resumed.load_state_dict(evaluator.state_dict())
    expected = pytest.warns(UserWarning, match=r"'val_f' with different settings \(function\)")
    with expected if differ else contextlib.nullcontext():
        result = validate(resumed, 1)
    assert result.comparison is not None
    assert result.comparison.score_b == (result.score if differ else first.score)


@pytest.mark.parametrize("states", [("better", None), ("better", "worse")], ids=["one has none", "they differ"])
def test_processes_with_different_states_are_an_error(states: tuple[str | None, ...], pool: ProcessPool) -> None:
    first, second = pool.run(2, validate_with_states, states)
    assert first == second
    assert re.match("ValueError: the processes would compare this validation with different ones: load the", first)


def validate_with_states(rank: int, processes: int, states: tuple[str | None, ...]) -> str:
    """The error of a validation that is compared with another one in each process."""
    hypotheses = {"better": ["a b c", "d"], "worse": ["a", "d"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resumed = Evaluator({"f": words}, compare_to="best")
        for name, lines in hypotheses.items():
            evaluator = Evaluator({"f": words}, compare_to="best")
            evaluator.start()
            evaluator.update(lines, ["a", "d"])
            evaluator.finish(0)
            if states[rank] == name:
                resumed.load_state_dict(evaluator.state_dict())
        return try_to(validate, resumed, 1)
