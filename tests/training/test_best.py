"""The best validation so far, and the comparison of others with it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, paired_bootstrap
from lightning_bleu.training.best import MIN_LEVEL, BestSoFar, Comparison, Corpus
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


def as_corpus(metric: CorpusBLEU) -> Corpus:
    return Corpus.of(metric, metric.kept_sentences())


def rows(metric: CorpusBLEU) -> Tensor:
    return metric.kept_sentences().rows


def compare(best: BestSoFar, metric: CorpusBLEU, *, keep: bool = True) -> Comparison:
    """Compare a validation with a single loader, whose score is the mean."""
    mean, comparisons = best.compare({"bleu": as_corpus(metric)}, keep=keep)
    assert comparisons == {"bleu": mean}
    return mean


# One loader


def test_the_first_validation_is_the_best() -> None:
    best, metric = BestSoFar(0.05), make_metric(0.6)
    assert best.state_dict() == {}
    assert compare(best, metric) == (1, metric.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], rows(metric))


def test_a_better_validation_becomes_the_best() -> None:
    best, metrics = BestSoFar(), [make_metric(right) for right in (0.6, 0.5, 0.7, 0.65)]
    scores = [metric.compute().item() for metric in metrics]
    assert scores[1] < scores[0] < scores[3] < scores[2]
    comparisons = [compare(best, metric) for metric in metrics]
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2], scores[2]]
    tests = [paired_bootstrap(metrics[a], metrics[b]) for a, b in ((1, 0), (2, 0), (3, 2))]
    assert [comparison.test for comparison in comparisons] == [None, *tests]
    assert [comparison.p_value for comparison in comparisons] == [1, *(test.p_value for test in tests)]


def test_an_equal_validation_does_not_become_the_best() -> None:
    best, metric = BestSoFar(), make_metric(0.6)
    compare(best, metric)
    kept = best.state_dict()["best"]["bleu"]
    assert compare(best, make_metric(0.6)).best == metric.compute().item()
    assert best.state_dict()["best"]["bleu"] is kept


def test_a_gain_must_be_significant_if_a_level_is_given() -> None:
    metrics = [make_metric(0.6), make_metric(0.6, seed=2), make_metric(0.8)]
    best = BestSoFar(0.05)
    scores = [metric.compute().item() for metric in metrics]
    comparisons = [compare(best, metric) for metric in metrics]
    assert scores[0] < scores[1] < scores[2]
    assert comparisons[1].p_value >= 0.05 > comparisons[2].p_value
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2]]


@pytest.mark.parametrize("level", [0.05, MIN_LEVEL])
def test_a_p_value_can_be_smaller_than_the_level(level: float) -> None:
    best = BestSoFar(level)
    compare(best, make_metric(0.4))
    test = compare(best, make_metric(0.9)).test
    assert test is not None
    assert test.p_value < level
    assert test.trials == max(1000, round(10 / level))


def test_a_validation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    best, metrics = BestSoFar(), [make_metric(0.6), make_metric(0.8)]
    assert compare(best, metrics[0], keep=False).best == metrics[0].compute().item()
    assert best.state_dict() == {}
    compare(best, metrics[0])
    comparison = compare(best, metrics[1], keep=False)
    assert comparison.p_value < 0.05
    assert comparison.best == metrics[1].compute().item()
    assert torch.equal(best.state_dict()["best"]["bleu"], rows(metrics[0]))


@pytest.mark.parametrize("sentences", [0, 1])
def test_fewer_than_two_sentences_are_not_compared(sentences: int) -> None:
    best, metric = BestSoFar(), make_metric(0.6, sentences)
    assert compare(best, metric) == (1, metric.compute().item(), None)
    assert best.state_dict() == {}
    whole = make_metric(0.3)
    compare(best, whole)
    assert compare(best, make_metric(1, sentences)) == (1, whole.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], rows(whole))


# Several loaders


def compare_two(best: BestSoFar, a: CorpusBLEU, b: CorpusBLEU) -> tuple[Comparison, dict[str, Comparison]]:
    return best.compare({"a": as_corpus(a), "b": as_corpus(b)})


def test_the_best_validation_is_that_with_the_best_mean() -> None:
    """Not the best score of each loader."""
    best = BestSoFar()
    validations = [
        (make_metric(first), make_metric(second, 30)) for first, second in ((0.6, 0.6), (0.7, 0.1), (0.5, 0.9))
    ]
    scores = [[metric.compute().item() for metric in metrics] for metrics in validations]
    means = [sum(pair) / 2 for pair in scores]
    assert means[1] < means[0] < means[2]
    for metrics, number in zip(validations, (0, 0, 2)):
        mean, comparisons = compare_two(best, *metrics)
        assert mean.best == means[number]
        assert [comparisons[name].best for name in "ab"] == scores[number]
        saved = best.state_dict()["best"]
        assert all(torch.equal(saved[name], rows(one)) for name, one in zip("ab", validations[number]))


@pytest.mark.parametrize("percent", [False, True])
def test_the_p_value_is_that_of_the_mean_of_resamples_with_a_seed_for_each_loader(percent: bool) -> None:
    best = BestSoFar()
    before, now = (
        [make_metric(right, sentences, seed=seed, percent=percent) for sentences in (60, 30)]
        for right, seed in ((0.6, 1), (0.65, 2))
    )
    compare_two(best, *before)
    mean, comparisons = compare_two(best, *now)
    resampled = [
        torch.tensor([metric.interval(seed=seed).scores for seed, metric in enumerate(metrics)]).mean(0)
        for metrics in (now, before)
    ]
    scores = [sum(metric.compute().item() for metric in metrics) / 2 for metrics in (now, before)]
    differences = (resampled[0] - resampled[1]).abs()
    as_large = (differences - differences.mean() >= abs(scores[0] - scores[1])).sum().item()
    assert 0 < as_large < 1000
    assert mean.p_value == (as_large + 1) / 1001
    assert mean.test is not None
    assert (mean.test.bleu_a, mean.test.bleu_b, mean.test.percent) == (*map(pytest.approx, scores), percent)
    expected = [paired_bootstrap(*pair, seed=seed) for seed, pair in enumerate(zip(now, before))]
    assert [comparisons[name].test for name in "ab"] == expected


def test_the_gain_of_the_mean_can_be_significant_if_that_of_no_loader_is() -> None:
    level = 0.003
    best, names = BestSoFar(level), [f"loader {number}" for number in range(4)]
    for right, seed in ((0.6, 0), (0.62, 100)):
        corpora = {name: as_corpus(make_metric(right, seed=seed + number)) for number, name in enumerate(names)}
        mean, comparisons = best.compare(corpora)
    assert mean.p_value < level < min(comparison.p_value for comparison in comparisons.values())
    assert {name: comparison.best for name, comparison in comparisons.items()} == {
        name: corpus.score() for name, corpus in corpora.items()
    }


def test_a_loader_with_a_single_sentence_has_no_test_but_counts_in_the_mean() -> None:
    best = BestSoFar()
    compare_two(best, make_metric(0.6), make_metric(0.6, 1))
    mean, comparisons = compare_two(best, make_metric(0.9), make_metric(0.9, 1))
    assert comparisons["b"].test is None
    assert comparisons["a"].p_value < 0.05
    assert mean.test is not None
    assert mean.test.bleu_a == pytest.approx((make_metric(0.9).compute() + make_metric(0.9, 1).compute()).item() / 2)


# What cannot be compared


def check_starts_over(best: BestSoFar, reason: str, **metrics: CorpusBLEU) -> None:
    """The next validation must count as the first, with a single warning."""
    corpora = {name: as_corpus(metric) for name, metric in metrics.items()}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        _, comparisons = best.compare(corpora)
        _, again = best.compare(corpora)
    assert [str(warning.message) for warning in warned] == [
        f"The best validation so far {reason}: they cannot be compared, so this validation counts as the first"
    ]
    assert comparisons == {name: (1, metric.compute().item(), None) for name, metric in metrics.items()}
    assert all(comparison.test is not None for comparison in again.values())


@pytest.mark.parametrize("sentences", [2, 59])
def test_another_number_of_sentences_starts_over(sentences: int) -> None:
    best = BestSoFar()
    compare(best, make_metric(0.6))
    reason = f"had 60 sentences of 'bleu', and this one has {sentences}"
    check_starts_over(best, reason, bleu=make_metric(0.3, sentences))


def test_other_positions_start_over() -> None:
    best = BestSoFar()
    compare(best, make_metric(0.6, index=range(60)))
    check_starts_over(best, "had other sentences of 'bleu'", bleu=make_metric(0.3, index=range(1, 61)))


def test_other_references_start_over() -> None:
    best, target = BestSoFar(), SENTENCES.clone()
    compare(best, make_metric(0.6))
    target[59, 11] += 1
    check_starts_over(
        best,
        "had other references for 'bleu', or the same in another order (then return the position of each sentence as "
        "'index')",
        bleu=make_metric(0.3, target=target),
    )


def test_other_loaders_start_over() -> None:
    best, metric = BestSoFar(), make_metric(0.6)
    compare_two(best, metric, metric)
    reason = "was one of the loaders ['a', 'b'], and this one is of {}"
    check_starts_over(best, reason.format(["a"]), a=make_metric(0.3))
    check_starts_over(best, "was one of the loaders ['a'], and this one is of ['a', 'c']", a=metric, c=metric)


def test_the_order_of_loaders_and_of_batches_does_not_matter() -> None:
    best, backwards = BestSoFar(), list(range(59, -1, -1))
    compare_two(best, make_metric(0.6, index=range(60)), make_metric(0.6))
    reordered = make_metric(0.7, target=SENTENCES.flip(0), index=backwards)
    mean, _ = best.compare({"b": as_corpus(make_metric(0.7)), "a": as_corpus(reordered)})
    assert mean.test is not None


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({}, {"tokenizer": "intl"}, "tokenizer"),
        ({"tokenizer": str.split}, {"tokenizer": str.splitlines}, "tokenizer"),
        ({"smoothing": "floor"}, {"smoothing": "floor", "smoothing_value": 0.5}, "smoothing_value"),
        ({"smoothing": "floor"}, {"smoothing": "exp"}, "smoothing, smoothing_value"),
        ({}, {"lowercase": True, "reference_length": "shortest"}, "lowercase, reference_length"),
        ({}, {"max_order": 2}, "max_order, weights"),
        ({"pad_id": 0}, {"pad_id": 1}, "pad_id"),
    ],
)
def test_other_settings_start_over(before: dict[str, Any], now: dict[str, Any], names: str) -> None:
    first, second = BestSoFar(), BestSoFar()
    compare(first, make_metric(0.6, **before))
    second.load_state_dict(first.state_dict())
    check_starts_over(second, f"scored 'bleu' with different settings ({names})", bleu=make_metric(0.3, **now))


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = BestSoFar(), make_metric(0.6, **options), make_metric(0.5, percent=True, **options)
    compare(best, first)
    comparison = compare(best, second)
    assert comparison.best == pytest.approx(100 * first.compute().item())
    assert comparison.p_value == paired_bootstrap(make_metric(0.5), make_metric(0.6)).p_value


# The state


def test_a_saved_best_is_plain_data_and_can_be_loaded(tmp_path: Path) -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    options: dict[str, Any] = {"convention": "sacrebleu", "eos_id": 2, "tokenizer": str.split}
    compare(saved, make_metric(0.6, **options))
    torch.save(saved.state_dict(), tmp_path / "best.pt")
    loaded.load_state_dict(torch.load(tmp_path / "best.pt", weights_only=True))
    metric = make_metric(0.5, **options)
    assert compare(loaded, metric) == compare(saved, metric)
    loaded.load_state_dict({})
    assert loaded.state_dict() == {}


def test_a_state_does_not_change_with_a_new_best() -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    compare(saved, make_metric(0.6))
    state = saved.state_dict()
    loaded.load_state_dict(state)
    for best in (saved, loaded):
        compare(best, make_metric(0.9))
        assert torch.equal(best.state_dict()["best"]["bleu"], rows(make_metric(0.9)))
        assert torch.equal(state["best"]["bleu"], rows(make_metric(0.6)))


@pytest.mark.parametrize("has_settings", [False, True])
def test_the_best_of_an_old_checkpoint_is_not_compared(has_settings: bool) -> None:
    """It has statistics without positions and checksums, and at first it had no settings either."""
    best, first = BestSoFar(), make_metric(0.6)
    settings = {"settings": {"bleu": first.settings.plain()}} if has_settings else {}
    best.load_state_dict({"best": {"bleu": first.sentence_statistics}} | settings)
    check_starts_over(best, "has statistics of 'bleu' from another version", bleu=make_metric(0.5))


def compare_alone(rank: int, world_size: int, shares: list[tuple[float, ...]]) -> tuple[list[float], Tensor]:
    """The best scores after each validation, and what is kept, in a process that knows only its own sentences."""
    best = BestSoFar()
    metrics = [make_metric(right[rank], sync_on_compute=False) for right in shares]
    return [compare(best, metric).best for metric in metrics], best.state_dict()["best"]["bleu"]


@pytest.mark.slow
@pytest.mark.parametrize("second", [(0.7, 0.5), (0.5, 0.7)], ids=["process 0 is better", "process 1 is better"])
def test_process_0_decides_which_validation_is_the_best(second: tuple[float, float]) -> None:
    """The scores of processes can differ in the last bit. Here they differ by far, so that it matters."""
    pool = ProcessPool(2)
    outcomes = pool.run(2, compare_alone, [(0.6, 0.6), second])
    pool.close()
    for rank, (scores, kept) in enumerate(outcomes):
        metrics = [make_metric(right) for right in (0.6, second[rank])]
        chosen = metrics[second[0] > 0.6]
        assert scores == [metrics[0].compute().item(), chosen.compute().item()]
        assert torch.equal(kept, rows(chosen))
