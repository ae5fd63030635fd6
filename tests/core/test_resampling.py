"""Bootstrap and approximate randomization: against all resamples there are, sacreBLEU, and known results."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest as SacrePairedTest

from lightning_bleu import CorpusBLEU, approximate_randomization, paired_bootstrap
from lightning_bleu.core import resampling
from lightning_bleu.core.resampling import (
    Draw,
    Interval,
    PairedTest,
    check_share,
    draw_with_replacement,
    toss_coins,
    weighted_sums,
)
from tests.helpers.corpora import read_lines
from tests.helpers.metrics import Kind
from tests.helpers.systems import TARGET, A, B, make_metric, pick, score_corpus

RESAMPLES = list(itertools.product(range(4), repeat=4))
"""All resamples of four sentences, which have equal probability."""

OTHER = [A[0], B[1], "g h i j k l m", B[3]]
"""Two sentences are better than those of :data:`A`, and one is worse."""


def keep(kind: Kind, preds: list[str], **options: Any) -> Any:
    """A metric that has kept the sentences of a system."""
    metric = kind.metric(keep_sentences=True, **options)
    metric.update(preds, TARGET)
    return metric


# Against all resamples and exchanges that there are


def test_the_interval_is_that_of_all_resamples(kind: Kind) -> None:
    options = {**kind.other_options, "percent": True}
    metric = keep(kind, B, **options)
    scores = [kind.score(pick(B, drawn), pick(TARGET, drawn), **options).score for drawn in RESAMPLES]
    interval = metric.interval(0.8, resamples=20_000)
    assert (interval.score, len(interval.scores)) == (metric.compute().item(), 20_000)
    assert {round(score, 8) for score in interval.scores} == {round(score, 8) for score in scores}
    assert np.mean(interval.scores) == pytest.approx(np.mean(scores), abs=0.5)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(scores, [0.1, 0.9])), abs=1)
    assert str(interval).startswith(f"{metric.scorer.name} = {interval.score:.2f} (80% interval ")


def test_the_bootstrap_is_that_of_all_resamples(kind: Kind) -> None:
    signed = np.array(
        [
            np.subtract(*(kind.score(pick(system, drawn), pick(TARGET, drawn)).score for system in (A, OTHER)))
            for drawn in RESAMPLES
        ]
    )
    differences = abs(signed)
    a, b = keep(kind, A), keep(kind, OTHER)
    result = paired_bootstrap(a, b, 20_000, confidence=0.8)
    assert (result.low, result.high) == pytest.approx(tuple(np.quantile(signed, [0.1, 0.9])), abs=0.01)
    assert (result.score_a, result.score_b) == (a.compute().item(), b.compute().item())
    assert result.difference == result.score_a - result.score_b
    expected = np.mean(differences - differences.mean() >= abs(result.difference) - 1e-12)
    assert result.p_value == pytest.approx(expected, abs=0.01)
    assert 0.01 < expected < 0.9
    assert str(result).startswith(f"{a.scorer.name} = {100 * result.score_a:.2f} against ")


def test_the_p_value_of_the_randomization_is_that_of_all_exchanges(kind: Kind) -> None:
    differences = []
    for exchanged in itertools.product([False, True], repeat=4):
        mixed = [[b if swap else a for a, b, swap in zip(*pair, exchanged)] for pair in ((A, B), (B, A))]
        differences.append(abs(np.subtract(*(kind.score(preds, TARGET).score for preds in mixed))))
    expected = np.mean(np.array(differences) >= differences[0] - 1e-12)
    assert approximate_randomization(keep(kind, A), keep(kind, B)).p_value == pytest.approx(expected, abs=0.02)
    assert 0.01 < expected < 0.99


# Known results


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_equal_systems_do_not_differ(test: Callable[..., PairedTest]) -> None:
    result = test(make_metric(A), make_metric(A))
    assert (result.difference, result.p_value) == (0, 1)


def test_the_observed_difference_counts_as_one_of_the_trials() -> None:
    """So no p-value is 0, however large the difference."""
    target = ["a b c d e"] * 50
    good, bad = make_metric(target, target), make_metric(["a b c x y"] * 50, target)
    assert approximate_randomization(good, bad, 200).p_value == 1 / 201
    assert paired_bootstrap(good, bad, 200).p_value == 1 / 201


@pytest.mark.slow
def test_95_percent_of_the_intervals_hold_the_score_of_the_population() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 50, (4000, 12))
    preds = np.where(rng.random(words.shape) < rng.beta(4, 2, (4000, 1)), words, -1)
    true = score_corpus(preds.tolist(), words.tolist(), smoothing="none")
    covered = 0
    for seed in range(200):
        drawn = rng.integers(4000, size=200)
        metric = make_metric(preds[drawn].tolist(), words[drawn].tolist(), smoothing="none")
        interval = metric.interval(resamples=300, seed=seed)
        covered += interval.low <= true <= interval.high
    # 190 of 200 are expected. A binomial count with p = 0.95 lies in these bounds with a probability of 98%.
    assert 0.91 <= covered / 200 <= 0.98


# Results


def all_results(a: CorpusBLEU, b: CorpusBLEU) -> list[Any]:
    return [a.interval(), paired_bootstrap(a, b), approximate_randomization(a, b)]


def test_results_cannot_be_changed_and_print_one_line_in_percent() -> None:
    in_percent = all_results(make_metric(A, percent=True), make_metric(B, percent=True))
    for result, other in zip(all_results(make_metric(A), make_metric(B)), in_percent):
        assert str(result) == str(other)
        assert "\n" not in str(result)
        assert len(str(result)) < 120
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.percent = True
        hash(result)


def test_the_printed_lines_show_scores_and_p_values() -> None:
    interval = Interval(score=0.25, low=0.2, high=0.31, confidence=0.95, scores=(0.2,) * 1000)
    assert str(interval) == "BLEU = 25.00 (95% interval 20.00 to 31.00, 1000 resamples)"
    assert interval.half_width == (0.31 - 0.2) / 2
    assert len(repr(interval)) < 200  # without the scores of the resamples
    test = PairedTest("paired bootstrap", score_a=0.25, score_b=0.375, p_value=0.0123, trials=100)
    assert str(test) == "BLEU = 25.00 against 37.50: -12.50, one-sided p = 0.0123 (paired bootstrap, 100 trials)"
    shown = str(dataclasses.replace(test, low=-0.2, high=0.01, confidence=0.9))
    assert shown.startswith("BLEU = 25.00 against 37.50: -12.50 (90% interval -20.00 to +1.00), one-sided p = 0.0123 (")


@pytest.mark.parametrize(
    ("value", "meant"),
    [(95, "0.95"), (99.9, "0.999"), (5, "0.05"), (np.float32(90), "0.9"), (torch.tensor(95), "0.95")],
)
def test_a_share_in_percent_gets_a_hint(value: Any, meant: str) -> None:
    message = f"'confidence' must lie between 0 and 1, got {value!r}: did you mean {meant}?"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_share("confidence", value)


@pytest.mark.parametrize("value", [0, 1, True, 1.0, -95, 100, math.inf, math.nan])
def test_what_cannot_be_meant_in_percent_gets_none(value: float) -> None:
    with pytest.raises(ValueError, match=f"^'confidence' must lie between 0 and 1, got {value!r}$"):
        check_share("confidence", value)


# Draws


def test_a_seed_determines_the_draws_and_leaves_the_generators_of_pytorch_alone() -> None:
    metric = make_metric(B)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = metric.interval(seed=1)
    paired_bootstrap(metric, make_metric(A))
    approximate_randomization(metric, make_metric(A))
    assert torch.equal(torch.get_rng_state(), before)
    assert metric.interval(seed=1) == first
    assert metric.interval(seed=2).scores != first.scores


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("draw", [draw_with_replacement, toss_coins])
def test_processes_that_draw_a_share_each_draw_what_one_does(
    draw: Draw, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first trials are the same, however many there are."""
    monkeypatch.setattr(resampling, "_MAX_WEIGHTS", 100)
    systems = [torch.arange(74.0, dtype=torch.float64).reshape(37, 2), torch.ones(37, 1, dtype=torch.float64)]
    whole = weighted_sums(systems, draw, 99, 3)
    shares = [weighted_sums(systems, draw, 99, 3, rank=rank, processes=processes) for rank in range(processes)]
    for sums, shares_of_system in zip(whole, zip(*shares)):
        assert torch.equal(torch.stack(shares_of_system).sum(0), sums)
        assert (torch.stack(shares_of_system).any(-1).sum(0) == 1).all()  # each trial is drawn once
    for sums, first in zip(whole, weighted_sums(systems, draw, 11, 3)):
        assert torch.equal(sums[:11], first)


@pytest.mark.parametrize("draw", [draw_with_replacement, toss_coins])
def test_memory_does_not_grow_with_the_number_of_trials(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = torch.arange(74.0, dtype=torch.float64).reshape(37, 2)
    sizes: list[int] = []

    def record_size(weights: torch.Tensor, generator: torch.Generator) -> None:
        sizes.append(weights.numel())
        draw(weights, generator)

    for most in (1, 100, 1000):
        monkeypatch.setattr(resampling, "_MAX_WEIGHTS", most)
        (whole,) = weighted_sums([sentences], draw, 100, 3)
        assert all(torch.equal(sums, whole) for sums in weighted_sums([sentences] * 2, record_size, 100, 3))
        assert max(sizes) <= max(most, 37)  # at least one trial at a time
        sizes.clear()


@pytest.mark.parametrize("draw", [draw_with_replacement, toss_coins])
def test_the_sums_of_one_sentence_are_multiples_of_it(draw: Draw) -> None:
    (sums,) = weighted_sums([torch.tensor([[1.0, 4.0]], dtype=torch.float64)], draw, 20, 0)
    assert {*map(tuple, sums.tolist())} == ({(1, 4)} if draw is draw_with_replacement else {(0, 0), (1, 4)})


def draw_many(draw: Draw, trials: int, sentences: int, seed: int = 0) -> torch.Tensor:
    weights = torch.empty(trials, sentences, dtype=torch.uint8)
    draw(weights, resampling._make_generator(seed, chunk=0))
    return weights.double()


def test_draws_are_fair() -> None:
    weights = draw_many(draw_with_replacement, 2000, 10)
    assert (weights.sum(1) == 10).all()
    assert scipy.stats.chisquare(weights.sum(0)).pvalue > 0.001
    # binomial: 10 draws, each of which takes a sentence with probability 1 / 10, have variance 10 * 0.1 * 0.9
    assert weights.var(0).mean() == pytest.approx(0.9, abs=0.05)
    weights = draw_many(toss_coins, 2000, 10)
    assert set(weights.flatten().tolist()) == {0, 1}
    assert weights.mean(0) == pytest.approx(0.5, abs=0.05)
    assert np.corrcoef(weights.T) == pytest.approx(np.eye(10), abs=0.1)


def test_intervals_and_tests_are_the_same_under_any_default_device() -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""
    a, b = make_metric(A), make_metric(B)
    expected = all_results(a, b)
    with torch.device("meta"):
        assert all_results(a, b) == expected


def test_sums_are_exact(rng: random.Random) -> None:
    """Of integers below 2 ** 53, in any order."""
    sentences = torch.tensor([[rng.randrange(2**40) for _ in range(3)] for _ in range(50)])
    (sums,) = weighted_sums([sentences.double()], toss_coins, 20, seed=4)
    assert sums.long().tolist() == (draw_many(toss_coins, 20, 50, seed=4).long() @ sentences).tolist()


# Against sacreBLEU


def sacrebleu_results(a: list[str], b: list[str], references: list[list[str]]) -> list[Any]:
    """Its results for the second system: those of the paired bootstrap and of approximate randomization."""
    systems: list[tuple[str, Sequence[str]]] = [("a", a), ("b", b)]
    tests = [SacrePairedTest(systems, {"BLEU": SacreBLEU(references=references)}, None, kind) for kind in ("bs", "ar")]
    return [test()[1]["BLEU"][1] for test in tests]


def compare_with_sacrebleu(a: list[str], b: list[str], references: list[list[str]]) -> list[float]:
    """Compare scores, p-values, and intervals, and return our p-values."""
    groups = list(zip(*references))
    options = {"convention": "sacrebleu", "tokenizer": "13a", "smoothing": None, "percent": True}
    ours = make_metric(a, groups, **options), make_metric(b, groups, **options)
    theirs = sacrebleu_results(a, b, references)
    results = [paired_bootstrap(*ours), approximate_randomization(*ours)]
    for result, their in zip(results, theirs):
        assert result.score_b == pytest.approx(their.score, abs=1e-9)
        assert result.p_value == pytest.approx(their.p_value, abs=0.02)
    assert ours[1].interval().half_width == pytest.approx(theirs[0].ci, rel=0.1)
    return [result.p_value for result in results]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_paired_tests_agree_with_sacrebleu(seed: int) -> None:
    rng = random.Random(seed)

    def spoil(line: str, share: float) -> str:
        return " ".join("?" if rng.random() < share else word for word in line.split())

    references = [" ".join(rng.choices("abcdefghij", k=rng.randint(4, 20))) for _ in range(300)]
    a, b = ([spoil(line, share) for line in references] for share in (0.2, 0.2 + 0.015 * seed))
    compare_with_sacrebleu(a, b, [references])


# the p-values that sacreBLEU 2.6.0 prints for --paired-bs
PAIRS = [
    ("Online-A", "Online-G", 0.048),
    pytest.param("Online-A", "Online-Y", 0.106, marks=pytest.mark.long),
    pytest.param("JDExploreAcademy", "Lan-Bridge", None, marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("first", "second", "p_value"), PAIRS)
def test_paired_tests_agree_with_sacrebleu_on_real_systems(
    first: str, second: str, p_value: float | None, wmt22: Path
) -> None:
    a, b = (read_lines(wmt22 / f"generaltest2022.en-de.hyp.{name}.de") for name in (first, second))
    references = [read_lines(wmt22 / f"generaltest2022.en-de.ref.{name}.de") for name in "AB"]
    bootstrap, _ = compare_with_sacrebleu(a, b, references)
    if p_value is not None:
        assert bootstrap == pytest.approx(p_value, abs=0.02)
