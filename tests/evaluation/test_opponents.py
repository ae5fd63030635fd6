"""The best validation so far and the first one, and the comparison of others with them."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, Evaluator, FunctionMetric, paired_bootstrap
from lightning_bleu.evaluation.opponents import MIN_LEVEL, Opponent, UncertainScore, find_uncertainty
from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.sentences import SentenceRows
from lightning_bleu.scoring.resampling import PairedTest
from tests.helpers.callback_metrics import try_to
from tests.helpers.process_groups import ProcessPool

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))


def make_metric(
    right: float, sentences: int = 60, *, seed: int = 1, target: Tensor = SENTENCES, index: Any = None, **options: Any
) -> CorpusBLEU:
    """A metric of sentences in which a share of the words, drawn by a seed, is right."""
    target = target[:sentences]
    luck = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))
    metric = CorpusBLEU(**{"pad_id": 0, "keep_sentences": True} | options)
    metric.update(torch.where(luck < right, target, 99), target, index=index)
    return metric


def rows_of(metric: CorpusBLEU) -> SentenceRows:
    """The sentences of a metric."""
    kept = metric.kept_sentences()
    return SentenceRows(kept.identity, kept.statistics, metric.scoring, metric.settings.plain())


def compare_rows(
    opponent: Opponent, rows: Mapping[str, SentenceRows], mean: str, *, keep: bool = True
) -> dict[str, Result]:
    """Compare a validation, which becomes the opponent if it should."""
    results = {name: Result(of_subset.score()) for name, of_subset in rows.items()}
    results.setdefault(mean, Result(sum(result.score for result in results.values()) / len(results)))
    (uncertainty,) = find_uncertainty([UncertainScore(results, rows, mean, opponent, keep=keep)])
    assert {name: result.score for name, result in uncertainty.results.items()} == {
        name: result.score for name, result in results.items()
    }
    if uncertainty.is_new_opponent:
        opponent.save(rows)
    return uncertainty.results


def compare_all(
    opponent: Opponent, metrics: Mapping[str, CorpusBLEU], mean: str = "mean", *, keep: bool = True
) -> dict[str, tuple[PairedTest, float]]:
    """Compare a validation with a metric for each subset. Nothing if it is not compared."""
    rows = {name: rows_of(metric) for name, metric in metrics.items()}
    compared = {}
    for name, result in compare_rows(opponent, rows, mean, keep=keep).items():
        shown, other = (result.best, result.first) if opponent.kind == "best" else (result.first, result.best)
        assert (shown is None) == (result.comparison is None)
        assert other is None
        if result.comparison is not None and shown is not None:
            compared[name] = (result.comparison, shown)
    return compared


def compare(opponent: Opponent, metric: CorpusBLEU, *, keep: bool = True) -> tuple[PairedTest, float]:
    """Compare a validation with a single subset."""
    return compare_all(opponent, {"bleu": metric}, "bleu", keep=keep)["bleu"]


def compare_with_itself(metric: CorpusBLEU) -> tuple[PairedTest, float]:
    """What the first validation gets."""
    test = paired_bootstrap(metric, metric)
    assert (test.difference, test.low, test.high, test.p_value) == (0, 0, 0, 1)
    return test, score(metric)


def score(metric: CorpusBLEU) -> float:
    return metric.compute().item()


def statistics(metric: CorpusBLEU) -> Tensor:
    return metric.kept_sentences().statistics


# One subset


def test_the_first_validation_is_the_best_until_another_one_is_better() -> None:
    best, metric = Opponent("best", 0.05), make_metric(0.6)
    assert best.state_dict() == {}
    assert compare(best, metric) == compare_with_itself(metric)
    saved = best.state_dict()["bleu"]
    assert torch.equal(saved["statistics"], statistics(metric))
    assert torch.equal(saved["identity"], metric.kept_sentences().identity)
    assert saved["settings"] == metric.settings.plain()
    assert compare(best, make_metric(0.6))[1] == score(metric)
    assert best.state_dict()["bleu"] is saved


def test_a_better_validation_becomes_the_best() -> None:
    best, metrics = Opponent(), [make_metric(right) for right in (0.6, 0.5, 0.7, 0.65)]
    scores = [*map(score, metrics)]
    assert scores[1] < scores[0] < scores[3] < scores[2]
    tests = [paired_bootstrap(metrics[a], metrics[b]) for a, b in ((0, 0), (1, 0), (2, 0), (3, 2))]
    expected = [*zip(tests, [scores[0], scores[0], scores[2], scores[2]])]
    assert [compare(best, metric) for metric in metrics] == expected


@pytest.mark.parametrize("level", [0.05, MIN_LEVEL])
def test_a_gain_must_be_significant_if_a_level_is_given(level: float) -> None:
    metrics = [make_metric(0.6), make_metric(0.6, seed=2), make_metric(0.9)]
    best, scores = Opponent("best", level), [*map(score, metrics)]
    assert scores[0] < scores[1] < scores[2]
    tests, found = zip(*(compare(best, metric) for metric in metrics))
    assert tests[1].p_value >= level > tests[2].p_value  # enough resamples for a p-value below the level
    assert [test.trials for test in tests] == [max(1000, round(10 / level))] * 3
    assert found == (scores[0], scores[0], scores[2])


def test_a_validation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    best, metrics = Opponent(), [make_metric(0.6), make_metric(0.8)]
    assert compare(best, metrics[0], keep=False) == compare_with_itself(metrics[0])
    assert best.state_dict() == {}
    compare(best, metrics[0])
    assert compare(best, metrics[1], keep=False) == (paired_bootstrap(metrics[1], metrics[0]), score(metrics[1]))
    assert torch.equal(best.state_dict()["bleu"]["statistics"], statistics(metrics[0]))


# Several subsets


def test_the_best_validation_is_that_with_the_best_mean() -> None:
    """Not the best score of each subset."""
    best = Opponent()
    validations = [
        {"a": make_metric(first), "b": make_metric(second, 30)}
        for first, second in ((0.6, 0.6), (0.7, 0.1), (0.5, 0.9))
    ]
    scores = [{name: score(metric) for name, metric in metrics.items()} for metrics in validations]
    for of_subsets in scores:
        of_subsets["mean"] = sum(of_subsets.values()) / 2
    assert scores[1]["mean"] < scores[0]["mean"] < scores[2]["mean"]
    for metrics, number in zip(validations, (0, 0, 2)):
        found = compare_all(best, metrics, "mean")
        assert {name: shown for name, (_, shown) in found.items()} == scores[number]
        saved = best.state_dict()
        for name, metric in validations[number].items():
            assert torch.equal(saved[name]["statistics"], statistics(metric))


def test_the_gain_of_the_mean_can_be_significant_if_that_of_no_subset_is() -> None:
    level = 0.006
    best, names = Opponent("best", level), [f"subset {number}" for number in range(4)]
    for right, seed in ((0.6, 0), (0.62, 100)):
        metrics = {name: make_metric(right, seed=seed + number) for number, name in enumerate(names)}
        found = compare_all(best, metrics, "mean")
    p_values = {name: test.p_value for name, (test, _) in found.items()}
    assert p_values.pop("mean") < level < min(p_values.values())
    assert [found[name][1] for name in names] == [*map(score, metrics.values())]


def test_a_single_sentence_says_nothing_about_chance_but_counts_in_the_mean() -> None:
    best = Opponent()
    compare_all(best, {"a": make_metric(0.6), "b": make_metric(0.6, 1)}, "mean")
    now = {"a": make_metric(0.9), "b": make_metric(0.9, 1)}
    tests = {name: test for name, (test, _) in compare_all(best, now, "mean").items()}
    assert (tests["b"].p_value, tests["b"].low) == (1, tests["b"].difference)
    assert tests["a"].p_value < 0.05
    assert tests["mean"].score_a == pytest.approx(sum(map(score, now.values())) / 2)


@pytest.mark.parametrize("subsets", ["a", "ab"])
@pytest.mark.parametrize("level", [None, 0.05])
def test_the_best_of_single_sentences_is_the_highest(level: float | None, subsets: str) -> None:
    """Unless the gain must be significant: nothing is known about chance, so p = 1."""
    best, rights = Opponent("best", level), (0.6, 0.8, 0.3, 1)
    mean = "mean" if len(subsets) > 1 else ""
    means, found = [], []
    for right in rights:
        metrics = {name: make_metric(right, 1, seed=seed) for seed, name in enumerate(subsets)}
        means.append(sum(map(score, metrics.values())) / len(subsets))
        compared = compare_all(best, metrics, mean)
        assert all(test.p_value == 1 for test, _ in compared.values())
        found.append(compared[mean or "a"][1])
    assert found == ([means[0]] * 4 if level else [max(means[: number + 1]) for number in range(4)])
    assert means[0] < means[3]


# What cannot be compared


OTHER_TARGET = SENTENCES + (torch.arange(SENTENCES.numel()).view_as(SENTENCES) == SENTENCES.numel() - 1)
"""Another last word."""
OTHER_REFERENCES = (
    "had other references for 'bleu', or the same in another order (then give the position of each sentence as 'index')"
)
SETTINGS = "scored 'bleu' with different settings ({})"


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ({}, {"sentences": 59}, "had 60 sentences of 'bleu', and this one has 59"),
        ({"index": range(60)}, {"index": range(1, 61)}, "had other sentences of 'bleu'"),
        ({}, {"target": OTHER_TARGET}, OTHER_REFERENCES),
        ({}, {"tokenizer": "intl"}, SETTINGS.format("tokenizer")),
        ({"tokenizer": str.split}, {"tokenizer": str.splitlines}, SETTINGS.format("tokenizer")),
        ({}, {"lowercase": True, "max_order": 2}, SETTINGS.format("lowercase, max_order, weights")),
    ],
)
def test_another_validation_counts_as_the_first(before: dict[str, Any], now: dict[str, Any], reason: str) -> None:
    first, second, metric = Opponent(), Opponent(), make_metric(0.3, **now)
    compare(first, make_metric(0.6, **before))
    second.load_state_dict(first.state_dict())
    message = f"The best validation so far {reason}: they cannot be compared, so this validation counts as the first"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert compare(second, metric) == compare_with_itself(metric)
    compare(second, metric)  # with a single warning


@pytest.mark.parametrize("subsets", ["a", "ac"])
def test_a_subset_that_is_missing_once_does_not_make_the_best_forgotten(subsets: str) -> None:
    best, metric, other = Opponent(), make_metric(0.6), make_metric(0.9)
    compare_all(best, {"a": metric, "b": metric}, "mean")
    message = (
        "This validation has no sentences of ['b'], unlike the best validation so far: they are not compared, and that "
        "one stays."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert compare_all(best, dict.fromkeys(subsets, other), "mean") == {}
    assert compare_all(best, dict.fromkeys(subsets, other), "mean") == {}  # without a second warning
    found = compare_all(best, {"a": metric, "b": metric}, "mean")
    assert {name: shown for name, (_, shown) in found.items()} == dict.fromkeys(["a", "b", "mean"], score(metric))


def test_a_new_subset_starts_over() -> None:
    best, metric = Opponent(), make_metric(0.3)
    compare(best, make_metric(0.6))
    with pytest.warns(
        UserWarning, match=r"^The best validation so far had no sentences of \['other'\]: they cannot be"
    ):
        found = compare_all(best, {"bleu": metric, "other": metric}, "mean")
    assert {name: (test.p_value, shown) for name, (test, shown) in found.items()} == dict.fromkeys(
        ["bleu", "other", "mean"], (1, score(metric))
    )


def test_the_order_of_subsets_and_of_batches_does_not_matter() -> None:
    best, backwards = Opponent(), list(range(59, -1, -1))
    compare_all(best, {"a": make_metric(0.6, index=range(60)), "b": make_metric(0.6)}, "mean")
    reordered = make_metric(0.7, target=SENTENCES.flip(0), index=backwards)
    assert compare_all(best, {"b": make_metric(0.7), "a": reordered}, "mean")["mean"][0].p_value < 1


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = Opponent(), make_metric(0.6, **options), make_metric(0.5, percent=True, **options)
    compare(best, first)
    test, shown = compare(best, second)
    assert shown == pytest.approx(100 * score(first))
    assert test.p_value == paired_bootstrap(make_metric(0.5), make_metric(0.6)).p_value


# The first


def test_the_first_validation_stays_the_first() -> None:
    """Also one that must not replace another one; and a better one does not become the first."""
    first, metrics = Opponent("first", confidence=0.8), [make_metric(right) for right in (0.6, 0.9, 0.5)]
    for metric in metrics:
        test = paired_bootstrap(metric, metrics[0], confidence=0.8)
        assert compare(first, metric, keep=metric is not metrics[0]) == (test, score(metrics[0]))


@pytest.mark.parametrize("keep", [True, False])
def test_a_validation_that_cannot_be_compared_does_not_replace_the_first(keep: bool) -> None:
    first, metric, other = Opponent("first"), make_metric(0.6), make_metric(0.9, 30)
    compare(first, metric)
    message = "The first validation had 60 sentences of 'bleu', and this one has 30: they cannot be compared, so this"
    with pytest.warns(UserWarning, match=f"^{message} validation is compared with itself$"):
        assert compare(first, other, keep=keep) == compare_with_itself(other)
    assert compare(first, make_metric(0.3))[1] == score(metric)


# The state


def test_a_state_does_not_change_with_a_new_best() -> None:
    saved, loaded = Opponent(), Opponent()
    compare(saved, make_metric(0.6))
    state = saved.state_dict()
    loaded.load_state_dict(state)
    for best in (saved, loaded):
        compare(best, make_metric(0.9))
        assert torch.equal(best.state_dict()["bleu"]["statistics"], statistics(make_metric(0.9)))
        assert torch.equal(state["bleu"]["statistics"], statistics(make_metric(0.6)))


def test_a_checkpoint_does_not_hold_what_is_around_the_statistics(tmp_path: Path) -> None:
    """They are columns of a table, of which a view would be saved as a whole."""
    best, kept = Opponent(), make_metric(0.6).kept_sentences()
    wide = torch.cat([kept.rows, torch.zeros(60, 1000, dtype=torch.int32)], 1)
    first = make_metric(0.6)
    rows = SentenceRows(wide[:, :4], wide[:, 4:14], first.scoring, first.settings.plain())
    compare_rows(best, {"bleu": rows}, "bleu")
    torch.save(best.state_dict(), tmp_path / "best.pt")
    assert (tmp_path / "best.pt").stat().st_size < 20_000


def compare_with_another_rounding(rank: int, processes: int, rights: tuple[float, float]) -> Tensor:
    """The statistics of the best of two validations, whose scores have the opposite order in process 1."""
    best = Opponent()
    scoring = CorpusBLEU().scoring
    if rank == 1:
        scoring = replace(scoring, score=lambda sums: 1 - CorpusBLEU().scoring.score(sums))
    for right in rights:
        rows = rows_of(make_metric(right, sync_on_compute=False))
        compare_rows(best, {"bleu": rows._replace(scoring=scoring)}, "bleu")
    kept: Tensor = best.state_dict()["bleu"]["statistics"]
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("second", [0.7, 0.5], ids=["process 0 is better", "process 1 is better"])
def test_process_0_decides_which_validation_is_the_best(second: float, pool: ProcessPool) -> None:
    """The scores of processes can differ in the last bit. Here they have the opposite order, so that it matters."""
    expected = statistics(make_metric(max(0.6, second)))
    for kept in pool.run(2, compare_with_another_rounding, (0.6, second)):
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
