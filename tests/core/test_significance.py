"""Bootstrap resamples: against all resamples there are, NumPy, sacreBLEU, and known results."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest as SacrePairedTest

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.core import significance
from lightning_bleu.core.scoring import RatioScorer
from lightning_bleu.core.settings import check_integer
from lightning_bleu.core.significance import (
    Interval,
    PairedTest,
    check_share,
    draw_with_replacement,
    interval_from,
    sum_resamples,
)
from tests.helpers.corpora import read_lines
from tests.helpers.metrics import Kind
from tests.helpers.resampling import SCORER, count_rows, draw_resamples, run_paired_test
from tests.helpers.systems import TARGET, A, B, pick

RESAMPLES = list(itertools.product(range(4), repeat=4))
"""All resamples of four sentences, which have equal probability."""

OTHER = [A[0], B[1], "g h i j k l m", B[3]]
"""Two sentences are better than those of :data:`A`, and one is worse."""


# Against all resamples that there are


def test_the_interval_is_that_of_all_resamples(kind: Kind) -> None:
    options = {**kind.other_options, "percent": True}
    scorer = kind.metric(**options).scorer
    scores = [kind.score(pick(B, drawn), pick(TARGET, drawn), **options).score for drawn in RESAMPLES]
    interval = interval_from(count_rows(B, TARGET, scorer), scorer, 0.8, 20_000, seed=0)
    assert (interval.score, len(interval.scores)) == (kind.score(B, TARGET, **options), 20_000)
    assert {round(score, 8) for score in interval.scores} == {round(score, 8) for score in scores}
    assert np.mean(interval.scores) == pytest.approx(np.mean(scores), abs=0.5)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(scores, [0.1, 0.9])), abs=1)
    assert str(interval).startswith(f"{scorer.name} = {interval.score:.2f} (80% interval ")


def test_the_paired_test_is_that_of_all_resamples(kind: Kind) -> None:
    scorer = kind.metric().scorer
    signed = []
    for drawn in RESAMPLES:
        score_a, score_b = (kind.score(pick(system, drawn), pick(TARGET, drawn)).score for system in (A, OTHER))
        signed.append(score_a - score_b)
    sizes = np.abs(signed)
    a, other = (count_rows(system, TARGET, scorer) for system in (A, OTHER))
    result = run_paired_test(a, other, scorer, 20_000, confidence=0.8)
    assert (result.low, result.high) == pytest.approx(tuple(np.quantile(signed, [0.1, 0.9])), abs=0.01)
    assert (result.score_a, result.score_b) == (kind.score(A, TARGET), kind.score(OTHER, TARGET))
    assert result.difference == result.score_a - result.score_b
    expected = np.mean(sizes - sizes.mean() >= abs(result.difference) - 1e-12)
    assert result.p_value == pytest.approx(expected, abs=0.01)
    assert 0.01 < expected < 0.9
    assert str(result).startswith(f"{scorer.name} = {100 * result.score_a:.2f} against ")


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=2), st.integers(0, 9))
@settings(max_examples=20)
def test_means_of_numbers_are_compared_as_numpy_would(pairs: list[tuple[int, int]], seed: int) -> None:
    a, b = np.array(pairs).T
    ones = torch.ones(len(a), dtype=torch.float64)
    rows_a, rows_b = (torch.stack([torch.from_numpy(numbers).double(), ones], 1) for numbers in (a, b))
    test = run_paired_test(rows_a, rows_b, RatioScorer("score"), 99, seed, confidence=0.8)
    differences = (a - b)[draw_resamples(99, len(a), seed)].mean(1)
    assert (test.score_a, test.score_b) == pytest.approx((a.mean(), b.mean()))
    assert (test.low, test.high) == pytest.approx(tuple(np.quantile(differences, [0.1, 0.9])))
    reached = abs(differences) - abs(differences).mean() >= abs((a - b).mean()) - 1e-9
    assert test.p_value == (reached.sum() + 1) / 100
    assert str(test).startswith(f"score = {a.mean():.4f} against {b.mean():.4f}: {a.mean() - b.mean():+.4f} (80% ")


# Known results


def test_equal_systems_do_not_differ() -> None:
    result = run_paired_test(count_rows(A), count_rows(A))
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_the_observed_difference_counts_as_one_of_the_trials() -> None:
    """So no p-value is 0, however large the difference."""
    target = ["a b c d e"] * 50
    good, bad = count_rows(target, target), count_rows(["a b c x y"] * 50, target)
    assert run_paired_test(good, bad, resamples=200).p_value == 1 / 201


# Results

INTERVAL = Interval(score=0.25, low=0.2, high=0.31, confidence=0.95, scores=(0.2,) * 1000)
TEST = PairedTest(0.25, 0.375, 0.0123, 100, low=-0.2, high=0.01, confidence=0.9)


def test_the_printed_lines_show_scores_and_p_values_in_percent() -> None:
    assert str(INTERVAL) == "BLEU = 25.00 (95% interval 20.00 to 31.00, 1000 resamples)"
    assert len(repr(INTERVAL)) < 200  # without the scores of the resamples
    expected = "BLEU = 25.00 against 37.50: -12.50 (90% interval -20.00 to +1.00), one-sided p = 0.0123 "
    assert str(TEST) == f"{expected}(paired bootstrap, 100 resamples)"
    hundred = {name: 100 * getattr(TEST, name) for name in ("score_a", "score_b", "low", "high")}
    assert str(dataclasses.replace(TEST, percent=True, **hundred)) == str(TEST)


@pytest.mark.parametrize("result", [INTERVAL, TEST], ids=["interval", "test"])
def test_results_cannot_be_changed(result: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.percent = True
    hash(result)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (95, ": did you mean 0.95?"),
        (99.9, ": did you mean 0.999?"),
        (np.float32(90), ": did you mean 0.9?"),
        (torch.tensor(95), ": did you mean 0.95?"),
        *((value, "") for value in (0, 1, True, -95, 100, math.inf, math.nan)),
    ],
)
def test_a_share_that_may_be_in_percent_gets_a_hint(value: Any, hint: str) -> None:
    message = f"'confidence' must lie between 0 and 1, got {value!r}{hint}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_share("confidence", value)


def test_a_count_is_a_positive_integer() -> None:
    with pytest.raises(ValueError, match="'resamples' must be 1 or more, got 0"):
        check_integer("resamples", 0, at_least=1)
    assert check_integer("resamples", np.int64(50), at_least=1) == 50
    for not_integer in (True, 0.5, "5"):
        with pytest.raises(TypeError, match="'resamples' must be an integer"):
            check_integer("resamples", not_integer, at_least=1)


# Draws

SYSTEMS = [torch.arange(74.0, dtype=torch.float64).reshape(37, 2), torch.ones(37, 1, dtype=torch.float64)]


def test_a_seed_determines_the_draws_and_leaves_the_generators_of_pytorch_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    seeds: list[Any] = [1, np.int64(1), 2]
    first, same, other = (sum_resamples(SYSTEMS, 20, seed)[0] for seed in seeds)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    with pytest.raises(TypeError, match=r"'seed' must be an integer, got 0\.5"):
        sum_resamples(SYSTEMS, 20, 0.5)  # type: ignore[arg-type]


def test_the_first_resamples_are_the_same_however_many_there_are_and_in_chunks_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = sum_resamples(SYSTEMS, 99, 3)
    for most, count in ((2**18, 11), (100, 99), (1000, 50)):
        monkeypatch.setattr(significance, "_MAX_WEIGHTS", most)
        for sums, first in zip(whole, sum_resamples(SYSTEMS, count, 3)):
            assert torch.equal(sums[:count], first)


def test_memory_does_not_grow_with_the_number_of_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def record_size(resamples: int, sentences: int, generator: np.random.Generator) -> Any:
        sizes.append(resamples * sentences)
        return draw_with_replacement(resamples, sentences, generator)

    monkeypatch.setattr(significance, "draw_with_replacement", record_size)
    for most in (1, 100, 1000):
        monkeypatch.setattr(significance, "_MAX_WEIGHTS", most)
        sum_resamples(SYSTEMS, 100, 3)
        assert max(sizes) <= max(most, 37)  # at least one resample at a time
        sizes.clear()


def test_draws_are_fair() -> None:
    weights = draw_with_replacement(2000, 10, np.random.default_rng(0))
    assert (weights.sum(1) == 10).all()
    assert scipy.stats.chisquare(weights.sum(0)).pvalue > 0.001
    # binomial: 10 draws, each of which takes a sentence with probability 1 / 10, have variance 10 * 0.1 * 0.9
    assert weights.var(0).mean() == pytest.approx(0.9, abs=0.05)


def test_sums_are_exact(rng: random.Random) -> None:
    """Of integers below 2 ** 53, in any order."""
    sentences = torch.tensor([[rng.randrange(2**40) for _ in range(3)] for _ in range(50)])
    (sums,) = sum_resamples([sentences.double()], 20, seed=4)
    assert sums.long().tolist() == sentences[torch.from_numpy(draw_resamples(20, 50, seed=4))].sum(1).tolist()


def test_results_are_the_same_under_any_default_device() -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""
    a, b = count_rows(A), count_rows(B)
    expected = interval_from(a, SCORER, 0.95, 100, 0), run_paired_test(a, b)
    with torch.device("meta"):
        assert (interval_from(a, SCORER, 0.95, 100, 0), run_paired_test(a, b)) == expected


# Against sacreBLEU


def compare_with_sacrebleu(a: list[str], b: list[str], references: list[list[str]]) -> float:
    """Compare the scores, the p-value, and the interval of the second system, and return our p-value."""
    groups = list(zip(*references))
    scorer = BLEUScorer(BLEUSettings.from_options(percent=True))
    rows_a, rows_b = (count_rows(system, groups, scorer) for system in (a, b))
    ours = run_paired_test(rows_a, rows_b, scorer)
    peer = SacrePairedTest([("a", a), ("b", b)], {"BLEU": SacreBLEU(references=references)}, None, "bs")
    theirs: Any = peer()[1]["BLEU"][1]
    assert ours.score_b == pytest.approx(theirs.score, abs=1e-9)
    assert ours.p_value == pytest.approx(theirs.p_value, abs=0.02)
    interval = interval_from(rows_b, scorer, 0.95, 1000, 0)
    assert (interval.high - interval.low) / 2 == pytest.approx(theirs.ci, rel=0.1)
    return ours.p_value


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_paired_tests_agree_with_sacrebleu() -> None:
    rng = random.Random(1)

    def spoil(line: str, share: float) -> str:
        return " ".join("?" if rng.random() < share else word for word in line.split())

    references = [" ".join(rng.choices("abcdefghij", k=rng.randint(4, 20))) for _ in range(300)]
    a, b = ([spoil(line, share) for line in references] for share in (0.2, 0.215))
    compare_with_sacrebleu(a, b, [references])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_paired_tests_agree_with_sacrebleu_on_real_systems(wmt22: Path) -> None:
    a, b = (read_lines(wmt22 / f"generaltest2022.en-de.hyp.Online-{name}.de") for name in "AG")
    references = [read_lines(wmt22 / f"generaltest2022.en-de.ref.{name}.de") for name in "AB"]
    # sacreBLEU 2.6.0 prints this for --paired-bs
    assert compare_with_sacrebleu(a, b, references) == pytest.approx(0.048, abs=0.02)
