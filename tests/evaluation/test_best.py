"""The best validation so far, and the comparison of others with it."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, Evaluator, FunctionMetric, PairedTest, Result
from lightning_bleu.core.significance import Verdict, default_resamples, judge
from lightning_bleu.evaluation.input.outputs import Output
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.scores.uncertainty import STATE_FORMAT, BestValidations, check_state, to_saved
from lightning_bleu.evaluation.scores.validation import score_loaders
from lightning_bleu.tasks import WER
from tests.helpers import validations
from tests.helpers.validations import Counting, begin, join, rows_of

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))
BLEU = CorpusBLEU(pad_id=0)


def translate(right: float, sentences: int = 60, *, seed: int = 1, target: Tensor = SENTENCES, **fields: Any) -> Output:
    """Sentences in which a share of the words, drawn by a seed, is right."""
    target = target[:sentences]
    luck = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))
    return Output(torch.where(luck < right, target, 99), target, **fields)


def statistics_of(output: Output) -> Tensor:
    """The statistics of each sentence."""
    return rows_of(BLEU, output.preds, output.target)


def score(output: Output, metric: CorpusBLEU = BLEU) -> float:
    """The score of sentences."""
    return metric.scorer.score(rows_of(metric, output.preds, output.target).sum(0)).item()


def bootstrap(output: Output, other: Output, loader: str = "", confidence: float = 0.95) -> PairedTest:
    """The paired bootstrap of two systems with the resamples of this loader."""
    resamples, seed = default_resamples(confidence), zlib.crc32(loader.encode())
    rows = statistics_of(output), statistics_of(other)
    return validations.bootstrap(BLEU, *rows, confidence, resamples=resamples, seed=seed)


def compare_loaders(
    best: BestValidations, outputs: Mapping[str, Output], *, may_replace: bool = True, metric: Any = BLEU
) -> dict[str, Result]:
    """Compare a validation of loaders, which becomes the best if it is. Returns the results that are compared."""
    counting = Counting({"bleu": metric}, [*outputs])
    for number, output in enumerate(outputs.values()):
        counting.collector.update(output, 0, number)
    (scored, _), naming = score_loaders(counting.metrics, join(counting).loaders), Naming()
    found = best.find(scored, naming, may_compare=True, may_replace=may_replace)
    compared, new = best.compare(scored, found)
    before = [(one.name, one.result.score, one.rows) for one in scored]
    assert [(one.name, one.result.score, one.rows) for one in compared] == before
    best.save(to_saved(compared, new if may_replace else (), naming))
    results = {naming.render(one.name): one.result for one in compared if one.result.comparison is not None}
    assert [logged for logged, result in results.items() if result.best is not None] == ["val_bleu"] * bool(results)
    return results


def compare(best: BestValidations, output: Output, *, may_replace: bool = True, metric: Any = BLEU) -> Result:
    """Compare a validation of a loader without a name."""
    return compare_loaders(best, {"": output}, may_replace=may_replace, metric=metric)["val_bleu"]


def is_its_own_best(result: Result) -> bool:
    """Whether a score is compared with itself."""
    test = result.comparison
    assert test is not None
    is_equal = (test.score_b, test.difference, test.low, test.high, test.p_value) == (result.score, 0, 0, 0, 1)
    assert is_equal is (result.verdict is None)
    return is_equal


def saved(best: BestValidations, loader: str = "") -> Any:
    """What is saved of a loader."""
    return best.state_dict()["best"]["val_bleu"][loader]


# One loader


def test_the_first_validation_is_the_best_until_another_one_is_better() -> None:
    best, output = BestValidations(), translate(0.6)
    assert best.state_dict() == {}
    result = compare(best, output)
    assert is_its_own_best(result)
    assert result.best == score(output)
    of_loader = saved(best)
    assert torch.equal(of_loader["statistics"], statistics_of(output))
    assert len(of_loader["identity"]) == 60
    assert of_loader["settings"] == BLEU.settings.plain()
    again = compare(best, translate(0.6))
    assert (again.best, again.verdict) == (score(output), Verdict("unclear"))
    assert saved(best) is of_loader


def test_a_validation_is_compared_with_the_best_with_the_test_and_the_verdict_of_two_finished_systems() -> None:
    best, outputs = BestValidations(), [translate(right) for right in (0.6, 0.5, 0.7, 0.65, 0.9)]
    scores = [*map(score, outputs)]
    assert scores[1] < scores[0] < scores[3] < scores[2] < scores[4]
    for number, (output, other) in enumerate(zip(outputs, [0, 0, 0, 2, 2])):
        test = bootstrap(output, outputs[other])
        result = compare(best, output)
        assert result.comparison == test
        assert result.verdict == (None if number == 0 else judge(test, 1, 0.95))
        assert result.best == max(scores[: number + 1])


@pytest.mark.parametrize("confidence", [None, 0.5, 0.95, 0.99])
def test_the_confidence_decides_what_is_clear_and_how_many_resamples_there_are(confidence: Any) -> None:
    """Enough for a p-value below the level. Without a level, that is 95%."""
    best, level = BestValidations(confidence), confidence or 0.95
    outputs = [translate(0.6), translate(0.62, seed=2)]
    results = [compare(best, output) for output in outputs]
    for result in results:
        assert result.comparison is not None
        assert result.comparison.trials == default_resamples(level)
        assert result.comparison.confidence == level
    verdict = judge(bootstrap(outputs[1], outputs[0], "", level), 1, level)
    assert results[1].verdict == verdict
    assert (verdict.word == "better") is (confidence == 0.5)


def test_a_lower_error_rate_is_better() -> None:
    best = BestValidations()
    lines = ["a b c d"] * 40, ["a b x d"] * 40, ["a b c d e f"] * 20 + ["a b c d"] * 20
    scores = []
    for hypotheses in (lines[1], lines[2], lines[0], lines[1]):
        result = compare(best, Output(hypotheses, lines[0]), metric=WER())
        scores.append((result.score, result.best, result.verdict and result.verdict.word))
    assert scores == [(0.25, 0.25, None), (0.25, 0.25, "unclear"), (0, 0, "better"), (0.25, 0, "worse")]


def test_a_score_of_which_neither_is_better_is_not_compared() -> None:
    metric = FunctionMetric(lambda hypotheses, references: [*map(len, hypotheses)], higher_is_better=None)
    best, lines = BestValidations(), ["a b", "c"] * 20
    assert compare_loaders(best, {"": Output(lines, lines)}, metric=metric) == {}
    assert best.state_dict() == {}


def finish(evaluator: Evaluator, output: Output, **options: bool) -> Result:
    """A validation of an evaluator."""
    started = begin(evaluator)
    started.collector.update(output)
    outcome = evaluator.score(started, **options)
    evaluator.publish(started, outcome, 1)
    return outcome.results["val_bleu"]


def test_a_validation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    evaluator, outputs = Evaluator(BLEU, compare_to="best"), [translate(0.6), translate(0.8)]
    assert is_its_own_best(finish(evaluator, outputs[0], may_replace=False))
    assert evaluator.state_dict() == {}
    finish(evaluator, outputs[0])
    result = finish(evaluator, outputs[1], may_replace=False)
    assert result.comparison == bootstrap(outputs[1], outputs[0])
    assert result.best == score(outputs[1])  # the highest so far, which is not kept
    statistics = evaluator.state_dict()["best"]["val_bleu"][""]["statistics"]
    assert torch.equal(statistics, statistics_of(outputs[0]))


def test_a_few_batches_that_are_tried_are_compared_with_themselves_and_nothing_is_kept_of_them() -> None:
    evaluator = Evaluator(BLEU, compare_to="best")
    assert is_its_own_best(finish(evaluator, translate(0.6), is_trial=True))
    assert evaluator.state_dict() == {}
    finish(evaluator, translate(0.6))
    state = evaluator.state_dict()
    assert is_its_own_best(finish(evaluator, translate(0.9, 30), is_trial=True))
    assert evaluator.state_dict()["best"]["val_bleu"] is state["best"]["val_bleu"]


def test_tests_are_not_compared() -> None:
    evaluator = Evaluator(compare_to="best")
    evaluator.start(stage="test")
    evaluator.update(["a b"] * 40, ["a b"] * 40)
    assert evaluator.finish(1)["test_bleu"].comparison is None
    assert evaluator.state_dict() == {}


def test_nothing_is_compared_if_only_groups_have_a_score() -> None:
    def balance(hypotheses: list[str], references: list[list[str]]) -> list[tuple[float, float]]:
        return [(1.0, -1.0) if hypothesis == "a" else (-1.0, 1.0) for hypothesis in hypotheses]

    evaluator = Evaluator({"balance": balance}, compare_to="best")
    evaluator.start()
    evaluator.update(["a", "b"], ["a", "b"], group=["x", "y"])
    with pytest.warns(UserWarning, match="^'balance' is a ratio whose denominator is 0"):
        results = evaluator.finish(0)
    assert {*results} == {"val_balance/x", "val_balance/y", "val_balance/mean"}
    assert all(result.comparison is None for result in results.values())


# Several loaders


def test_the_best_validation_is_that_with_the_best_mean() -> None:
    """Not the best score of each loader."""
    best = BestValidations()
    outcomes = [
        {"a": translate(first), "b": translate(second, 30)} for first, second in ((0.6, 0.6), (0.7, 0.1), (0.5, 0.9))
    ]
    means = [sum(map(score, outputs.values())) / 2 for outputs in outcomes]
    assert means[1] < means[0] < means[2]
    for number, (outputs, expected) in enumerate(zip(outcomes, (0, 0, 2))):
        results = compare_loaders(best, outputs)
        assert results["val_bleu"].best == means[expected]
        for name, output in outputs.items():
            assert results[f"val_bleu/{name}"].comparison == bootstrap(output, outcomes[0][name], name)
        comparison = results["val_bleu"].comparison
        assert comparison is not None
        assert (comparison.score_a, comparison.score_b) == (means[number], means[0])
        for name, output in outcomes[expected].items():
            assert torch.equal(saved(best, name)["statistics"], statistics_of(output))


def test_a_single_sentence_says_nothing_about_chance_but_counts_in_the_mean() -> None:
    best = BestValidations()
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


# What cannot be compared


OTHER_TARGET = SENTENCES + (torch.arange(SENTENCES.numel()).view_as(SENTENCES) == SENTENCES.numel() - 1)
"""Another last word."""
OTHER_REFERENCES = (
    "had other references for 'val_bleu', or the same in another order (then give the index of each sentence as "
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
    "a tokenizer": Change(
        {}, {}, SETTINGS.format("tokenizer"), {"tokenizer": str.split}, {"tokenizer": str.splitlines}
    ),
    "several settings": Change(
        {}, {}, SETTINGS.format("lowercase, max_order, weights"), options={"lowercase": True, "max_order": 2}
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_validation_counts_as_the_first(change: Change) -> None:
    first, second, output = BestValidations(), BestValidations(), translate(0.3, **change.now)
    compare(first, translate(0.6, **change.before), metric=CorpusBLEU(pad_id=0, **change.options_before))
    second.load_state_dict(first.state_dict())
    metric = CorpusBLEU(pad_id=0, **change.options)
    message = f"The best validation so far {change.reason}: they cannot be compared, so this validation counts as the"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)} first$"):
        assert is_its_own_best(compare(second, output, metric=metric))
    again = compare(second, output, metric=metric)  # with a single warning
    assert again.best == again.score


@pytest.mark.parametrize("loaders", ["a", "ac"])
def test_a_loader_that_is_missing_once_does_not_make_the_best_forgotten(loaders: str) -> None:
    best, output, other = BestValidations(), translate(0.6), translate(0.9)
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
    best, output = BestValidations(), translate(0.3)
    compare_loaders(best, {"a": translate(0.6)})
    message = r"^The best validation so far had no sentences of \['val_bleu/other'\]: they cannot be"
    with pytest.warns(UserWarning, match=message):
        results = compare_loaders(best, {"a": output, "other": output})
    assert [*results] == ["val_bleu", "val_bleu/a", "val_bleu/other"]
    assert all(map(is_its_own_best, results.values()))
    assert results["val_bleu"].best == score(output)


def test_the_order_of_loaders_and_of_batches_does_not_matter() -> None:
    best, backwards = BestValidations(), list(range(59, -1, -1))
    compare_loaders(best, {"a": translate(0.6, index=range(60)), "b": translate(0.6)})
    reordered = translate(0.7, target=SENTENCES.flip(0), index=backwards)
    results = compare_loaders(best, {"b": translate(0.7), "a": reordered})
    assert all(result.verdict == Verdict("better") for result in results.values())


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = BestValidations(), translate(0.6), translate(0.5)
    metric = CorpusBLEU(pad_id=0, **options)
    compare(best, first, metric=metric)
    result = compare(best, second, metric=CorpusBLEU(pad_id=0, percent=True, **options))
    assert result.best == pytest.approx(100 * score(first, metric))
    assert result.comparison is not None
    assert result.comparison.p_value == bootstrap(second, first).p_value


# The state


def test_a_state_does_not_change_with_a_new_best() -> None:
    best, loaded = BestValidations(), BestValidations()
    compare(best, translate(0.6))
    state = best.state_dict()
    loaded.load_state_dict(state)
    for one in (best, loaded):
        compare(one, translate(0.9))
        assert torch.equal(saved(one)["statistics"], statistics_of(translate(0.9)))
        statistics = state["best"]["val_bleu"][""]["statistics"]
        assert torch.equal(statistics, statistics_of(translate(0.6)))
    best.load_state_dict({})  # of another run
    assert best.state_dict() == {}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"format": 2, "first": {}},  # of another version
            "the state has the format 2, and this version of lightning_bleu reads 3: ",
        ),
        ({"best": {}, "model": {}, 5: {}}, r"expected evaluator.state_dict(), got a dict with the keys ['5', 'model']"),
        (None, "expected evaluator.state_dict(), got None of type NoneType"),
        ([], "expected evaluator.state_dict(), got [] of type list"),
    ],
)
def test_only_states_of_an_evaluator_of_this_version_are_loaded(state: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Evaluator(compare_to="best").load_state_dict(state)
    check_state({"format": STATE_FORMAT, "best": {}})
    check_state({})


WRONG: dict[str, Any] = {"identity": [0], "statistics": torch.zeros(59, 1), "settings": []}


@pytest.mark.parametrize("field", WRONG)
def test_a_state_of_a_loader_that_is_incomplete_or_has_other_types_is_not_loaded(field: str) -> None:
    best = BestValidations()
    compare(best, translate(0.6))
    check_state(best.state_dict())
    loader = saved(best)
    loader[field] = WRONG[field]
    check_raises(best.state_dict())
    del loader[field]
    check_raises(best.state_dict())


@pytest.mark.parametrize("saved", [None, [{}], {"val_bleu": [{}]}, {"val_bleu": {"": None}}])
def test_a_state_of_other_containers_is_not_loaded(saved: Any) -> None:
    check_raises({"best": saved})


def check_raises(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^expected evaluator.state_dict\(\), but 'best' in it is incomplete"):
        Evaluator(compare_to="best").load_state_dict(state)


def test_a_checkpoint_does_not_hold_what_is_around_the_statistics(tmp_path: Path) -> None:
    """They are columns of the rows of all metrics, of which a view would be saved as a whole."""
    metrics = {f"{number}": CorpusBLEU(pad_id=0, max_order=100, smoothing="floor") for number in range(5)}
    evaluator = Evaluator({"bleu": BLEU, **metrics}, compare_to="best")
    evaluator.start()
    evaluator.update(*translate(0.6)[:2])
    evaluator.finish(1)
    torch.save(evaluator.state_dict()["best"]["val_bleu"], tmp_path / "best.pt")
    assert (tmp_path / "best.pt").stat().st_size < 20_000


def longest(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    """A number per sentence."""
    return [max(map(len, line.split())) for line in hypotheses]


def words(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    """Another number per sentence."""
    return [len(line.split()) for line in hypotheses]


def validate(evaluator: Evaluator, hypotheses: Sequence[str] = ("a b c", "d")) -> Result:
    """The result of a validation of two sentences."""
    evaluator.start()
    evaluator.update(hypotheses, ["a", "d"])
    return evaluator.finish(1)["val_f"]


# Functions under the same name


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
    first = validate(evaluator)
    resumed = Evaluator({"f": after}, compare_to="best")
    resumed.load_state_dict(evaluator.state_dict())
    expected = pytest.warns(UserWarning, match=r"'val_f' with different settings \(function\)")
    with expected if differ else contextlib.nullcontext():
        result = validate(resumed)
    assert result.comparison is not None
    assert result.comparison.score_b == (result.score if differ else first.score)
