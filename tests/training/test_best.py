"""The best evaluation so far, and the comparison of others with it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, paired_bootstrap
from lightning_bleu.training.best import BestSoFar
from tests.helpers.process_groups import ProcessPool

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))


def make_metric(right: float, sentences: int = 60, *, seed: int = 1, **options: Any) -> CorpusBLEU:
    """A metric of sentences in which a share of the words, drawn by a seed, is right."""
    target = SENTENCES[:sentences]
    luck = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))
    metric = CorpusBLEU(**{"pad_id": 0, "keep_sentences": True} | options)
    metric.update(torch.where(luck < right, target, 99), target)
    return metric


def test_the_first_evaluation_is_the_best() -> None:
    best, metric = BestSoFar(0.05), make_metric(0.6)
    assert best.state_dict() == {}
    assert best.compare("bleu", metric) == (1, metric.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], metric.sentence_statistics)


def test_a_better_evaluation_becomes_the_best() -> None:
    best, metrics = BestSoFar(), [make_metric(right) for right in (0.6, 0.5, 0.7, 0.65)]
    scores = [metric.compute().item() for metric in metrics]
    assert scores[1] < scores[0] < scores[3] < scores[2]
    comparisons = [best.compare("bleu", metric) for metric in metrics]
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2], scores[2]]
    tests = [paired_bootstrap(metrics[a], metrics[b]) for a, b in ((1, 0), (2, 0), (3, 2))]
    assert [comparison.test for comparison in comparisons] == [None, *tests]
    assert [comparison.p_value for comparison in comparisons] == [1, *(test.p_value for test in tests)]


def test_an_equal_evaluation_does_not_become_the_best() -> None:
    best, metric = BestSoFar(), make_metric(0.6)
    best.compare("bleu", metric)
    kept = best.state_dict()["best"]["bleu"]
    comparison = best.compare("bleu", make_metric(0.6))
    assert comparison.best == metric.compute().item()
    assert best.state_dict()["best"]["bleu"] is kept


def test_a_gain_must_be_significant_if_a_level_is_given() -> None:
    metrics = [make_metric(0.6), make_metric(0.6, seed=2), make_metric(0.8)]
    best = BestSoFar(0.05)
    scores = [metric.compute().item() for metric in metrics]
    comparisons = [best.compare("bleu", metric) for metric in metrics]
    assert scores[0] < scores[1] < scores[2]
    assert comparisons[1].p_value >= 0.05 > comparisons[2].p_value
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2]]


@pytest.mark.parametrize("level", [0.05, 0.0005])
def test_a_p_value_can_be_smaller_than_the_level(level: float) -> None:
    best = BestSoFar(level)
    best.compare("bleu", make_metric(0.4))
    test = best.compare("bleu", make_metric(0.9)).test
    assert test is not None
    assert test.p_value < level
    assert test.trials == max(1000, round(10 / level))


def test_an_evaluation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    best, metrics = BestSoFar(), [make_metric(0.6), make_metric(0.8)]
    assert best.compare("bleu", metrics[0], keep=False).best == metrics[0].compute().item()
    assert best.state_dict() == {}
    best.compare("bleu", metrics[0])
    comparison = best.compare("bleu", metrics[1], keep=False)
    assert comparison.p_value < 0.05
    assert comparison.best == metrics[1].compute().item()
    assert torch.equal(best.state_dict()["best"]["bleu"], metrics[0].sentence_statistics)


@pytest.mark.parametrize("sentences", [0, 1])
def test_fewer_than_two_sentences_are_not_compared(sentences: int) -> None:
    best, metric = BestSoFar(), make_metric(0.6, sentences)
    assert best.compare("bleu", metric) == (1, metric.compute().item(), None)
    assert best.state_dict() == {}
    whole = make_metric(0.3)
    best.compare("bleu", whole)
    assert best.compare("bleu", make_metric(1, sentences)) == (1, whole.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], whole.sentence_statistics)


@pytest.mark.parametrize("sentences", [2, 59])
def test_another_number_of_sentences_starts_over(sentences: int) -> None:
    best, other = BestSoFar(), make_metric(0.3, sentences)
    best.compare("bleu", make_metric(0.6))
    message = rf"of 'bleu' had statistics of shape \(60, 10\), but this one has \({sentences}, 10\).*as the first"
    with pytest.warns(UserWarning, match=message):
        comparison = best.compare("bleu", other)
    assert comparison == (1, other.compute().item(), None)
    assert best.compare("bleu", make_metric(0.3, sentences)).test is not None  # without a warning


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
def test_a_best_with_other_settings_is_not_compared(before: dict[str, Any], now: dict[str, Any], names: str) -> None:
    first, second = BestSoFar(), BestSoFar()
    first.compare("bleu", make_metric(0.6, **before))
    second.load_state_dict(first.state_dict())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        comparison = second.compare("bleu", make_metric(0.3, **now))
        again = second.compare("bleu", make_metric(0.3, **now))
    (warning,) = warned
    assert str(warning.message) == (
        f"The best epoch so far of 'bleu' was scored with different settings ({names}): they cannot be compared, so "
        "this epoch counts as the first"
    )
    assert comparison == (1, make_metric(0.3, **now).compute().item(), None)
    assert again.test is not None


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = BestSoFar(), make_metric(0.6, **options), make_metric(0.5, percent=True, **options)
    best.compare("bleu", first)
    comparison = best.compare("bleu", second)
    assert comparison.best == pytest.approx(100 * first.compute().item())
    assert comparison.p_value == paired_bootstrap(make_metric(0.5), make_metric(0.6)).p_value


def test_scores_with_different_names_have_a_best_each() -> None:
    best, metrics = BestSoFar(), [make_metric(0.6), make_metric(0.3, 20)]
    for name, metric in zip(["news", "talks"], metrics):
        assert best.compare(name, metric) == (1, metric.compute().item(), None)
    assert [len(kept) for kept in best.state_dict()["best"].values()] == [60, 20]


def test_a_saved_best_is_plain_data_and_can_be_loaded(tmp_path: Path) -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    options: dict[str, Any] = {"convention": "sacrebleu", "eos_id": 2, "tokenizer": str.split}
    saved.compare("bleu", make_metric(0.6, **options))
    torch.save(saved.state_dict(), tmp_path / "best.pt")
    loaded.load_state_dict(torch.load(tmp_path / "best.pt", weights_only=True))
    metric = make_metric(0.5, **options)
    assert loaded.compare("bleu", metric) == saved.compare("bleu", metric)
    loaded.load_state_dict({})
    assert loaded.state_dict() == {}


def test_a_state_does_not_change_with_a_new_best() -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    saved.compare("bleu", make_metric(0.6))
    state = saved.state_dict()
    loaded.load_state_dict(state)
    for best in (saved, loaded):
        best.compare("bleu", make_metric(0.9))
        assert torch.equal(best.state_dict()["best"]["bleu"], make_metric(0.9).sentence_statistics)
        assert torch.equal(state["best"]["bleu"], make_metric(0.6).sentence_statistics)


def test_a_best_that_was_saved_without_settings_is_compared_by_its_shape() -> None:
    """Early checkpoints hold the statistics only."""
    best, first = BestSoFar(), make_metric(0.6)
    best.load_state_dict({"best": {"bleu": first.sentence_statistics}})
    assert best.compare("bleu", make_metric(0.5)).best == first.compute().item()
    best.load_state_dict({"best": {"bleu": first.sentence_statistics}})
    message = r"statistics of shape \(60, 10\), but this one has \(60, 6\)"
    with pytest.warns(UserWarning, match=message):
        assert best.compare("bleu", make_metric(0.5, max_order=2)).p_value == 1


def compare_alone(rank: int, world_size: int, shares: list[tuple[float, ...]]) -> tuple[list[float], Tensor]:
    """The best scores after each evaluation, and what is kept, in a process that knows only its own sentences."""
    best = BestSoFar()
    metrics = [make_metric(right[rank], sync_on_compute=False) for right in shares]
    return [best.compare("bleu", metric).best for metric in metrics], best.state_dict()["best"]["bleu"]


@pytest.mark.slow
@pytest.mark.parametrize("second", [(0.7, 0.5), (0.5, 0.7)], ids=["process 0 is better", "process 1 is better"])
def test_process_0_decides_which_evaluation_is_the_best(second: tuple[float, float]) -> None:
    """The scores of processes can differ in the last bit. Here they differ by far, so that it matters."""
    pool = ProcessPool(2)
    outcomes = pool.run(2, compare_alone, [(0.6, 0.6), second])
    pool.close()
    for rank, (scores, kept) in enumerate(outcomes):
        metrics = [make_metric(right) for right in (0.6, second[rank])]
        chosen = metrics[second[0] > 0.6]
        assert scores == [metrics[0].compute().item(), chosen.compute().item()]
        assert torch.equal(kept, chosen.sentence_statistics)
