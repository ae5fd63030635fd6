"""Intervals and paired tests: against all resamples there are, sacreBLEU, scipy and known truths."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from sacrebleu.metrics import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest as SacrePairedTest
from torchmetrics import MetricCollection

from lightning_bleu import (
    CONVENTIONS,
    CorpusBLEU,
    approximate_randomization,
    block_scores,
    block_t_test,
    bootstrap_interval,
    corpus_bleu,
    paired_bootstrap,
    significance,
)
from lightning_bleu.training.figures import interval_figure
from lightning_bleu.scoring.smoothing import SMOOTHINGS
from tests.conftest import lines, random_corpus

TARGET = ["a b c d e f", "a b c d", "g h i j k l m", "a b c d e"]
A = ["a b c d e f", "a b c e", "g h i j k l", "a b c d e"]
B = ["a b c d f e", "a b c d", "g h i x k l m", "a b x d e"]


def kept(preds: Any, target: Any = TARGET, **options: Any) -> CorpusBLEU:
    metric = CorpusBLEU(**{"tokenizer": "none", "smoothing": "exp"} | options, keep_sentences=True)
    metric.update(preds, target)
    return metric


def chosen(values: list[Any], indices: Any) -> list[Any]:
    return [values[index] for index in indices]


def score(preds: Any, target: Any, **options: Any) -> float:
    return corpus_bleu(preds, target, **{"tokenizer": "none", "smoothing": "exp"} | options).bleu


RESAMPLES = list(itertools.product(range(4), repeat=4))
"""All that can be drawn, with equal probability."""


def test_the_interval_is_that_of_all_resamples() -> None:
    scores = np.array([score(chosen(B, indices), chosen(TARGET, indices)) for indices in RESAMPLES])
    interval = bootstrap_interval(kept(B), 0.8, resamples=20_000)
    assert interval.bleu == score(B, TARGET)
    assert len(interval.scores) == 20_000
    assert np.mean(interval.scores) == pytest.approx(scores.mean(), abs=0.005)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(scores, [0.1, 0.9])), abs=0.01)
    drawn = {round(value, 9) for value in interval.scores}
    assert drawn == {round(float(value), 9) for value in scores}


def test_the_bootstrap_p_value_is_that_of_all_resamples() -> None:
    other = ["a b c d e f", "a b c d", "g h i j k l m", "a b x d e"]
    pairs = [[score(chosen(s, indices), chosen(TARGET, indices)) for s in (A, other)] for indices in RESAMPLES]
    differences = np.abs(np.diff(pairs)[:, 0])
    found = abs(score(A, TARGET) - score(other, TARGET))
    expected = np.mean(differences - differences.mean() >= found)
    result = paired_bootstrap(kept(A), kept(other), 20_000)
    assert (result.bleu_a, result.bleu_b) == pytest.approx((score(A, TARGET), score(other, TARGET)), abs=1e-12)
    assert result.difference == result.bleu_a - result.bleu_b
    assert result.p_value == pytest.approx(expected, abs=0.01)
    assert 0.01 < expected < 0.9


def test_the_randomization_p_value_is_that_of_all_exchanges() -> None:
    found = abs(score(A, TARGET) - score(B, TARGET))
    as_large = []
    for exchanged in itertools.product([False, True], repeat=4):
        mixed = [[b if swap else a for a, b, swap in zip(*pair, exchanged)] for pair in ((A, B), (B, A))]
        as_large.append(abs(score(mixed[0], TARGET) - score(mixed[1], TARGET)) >= found - 1e-12)
    result = approximate_randomization(kept(A), kept(B))
    assert result.p_value == pytest.approx(np.mean(as_large), abs=0.02)
    assert 0.01 < result.p_value < 0.99


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_equal_systems_do_not_differ(test: Callable[..., Any]) -> None:
    result = test(kept(A), kept(A))
    assert (result.difference, result.p_value) == (0, 1)


def test_one_sentence_proves_nothing() -> None:
    """However often it is exchanged, the difference stays as large."""
    assert approximate_randomization(kept(A), kept([B[0], *A[1:]])).p_value == 1


OPTIONS = [{"convention": name} for name in CONVENTIONS] + [
    {"smoothing": name} for name, smoothing in SMOOTHINGS.items() if not smoothing.sentences_only
]


@pytest.mark.parametrize(
    "options",
    [
        *OPTIONS,
        {"max_order": 2},
        {"max_order": 1},
        {"weights": [0.5, 0.5, 0, 0]},
        {"percent": True},
        {"effective_order": True},
        {"reference_length": "shortest"},
    ],
)
def test_a_resample_is_scored_as_the_metric_is(options: dict[str, Any]) -> None:
    options = {"tokenizer": "none", "smoothing": None} | options
    preds, target = ["a b c d e f g", "x b c"], [["a b c d e y", "a b c d"], ["x b c d", "x"]]
    scores = bootstrap_interval(kept(preds, target, **options), resamples=60).scores
    resamples = [score(chosen(preds, i), chosen(target, i), **options) for i in ((0, 0), (0, 1), (1, 1))]
    assert all(min(abs(value - other) for other in resamples) < 1e-12 for value in scores)
    assert {round(value, 9) for value in scores} == {round(value, 9) for value in resamples}
    single = block_scores(kept(preds, target, **options), 2)
    assert single.scores == pytest.approx([score([p], [t], **options) for p, t in zip(preds, target)], abs=1e-12)


@pytest.mark.parametrize("columns", [{}, {"percent": True, "convention": "sacrebleu"}])
def test_statistics_do_as_well_as_metrics(columns: dict[str, Any], rng: random.Random) -> None:
    preds, target = random_corpus(rng, 60)
    others = random_corpus(rng, 60)[0]
    options = {"tokenizer": "none", "smoothing": "floor"} | columns
    a, b = kept(preds, target, **options), kept(others, target, **options)
    first, second = a.sentence_statistics, b.sentence_statistics
    assert bootstrap_interval(a) == bootstrap_interval(first, **options) == a.interval()
    assert block_scores(a) == block_scores(first, **options)
    for test in (paired_bootstrap, approximate_randomization, block_t_test):
        assert test(a, b) == test(first, second, **options) == test(a, second)


def test_seeds() -> None:
    metric = kept(B)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = metric.interval(seed=1)
    paired_bootstrap(metric, kept(A))
    approximate_randomization(metric, kept(A))
    assert torch.equal(torch.get_rng_state(), before)
    assert metric.interval(seed=1) == first
    assert metric.interval(seed=2).scores != first.scores


@pytest.mark.parametrize("draw", [significance._draw_with_replacement, significance._toss])
def test_memory_does_not_grow_with_the_trials(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = torch.arange(74.0, dtype=torch.float64).reshape(37, 2)
    whole = significance._sums(sentences, draw, 500, 3)
    sizes = []

    def noting(weights: torch.Tensor, generator: torch.Generator) -> None:
        sizes.append(weights.numel())
        draw(weights, generator)

    for chunk in (1, 100, 1000):
        monkeypatch.setattr(significance, "_CHUNK_CPU", chunk)
        assert torch.equal(significance._sums(sentences, noting, 500, 3), whole)
        assert max(sizes) <= max(chunk, 37)
        sizes.clear()


def test_draws_are_fair() -> None:
    weights = torch.empty(2000, 10, dtype=torch.float64)
    significance._draw_with_replacement(weights, torch.Generator().manual_seed(0))
    assert (weights.sum(1) == 10).all()
    assert scipy.stats.chisquare(weights.sum(0)).pvalue > 0.001
    assert weights.var(0).mean() == pytest.approx(0.9, abs=0.05)
    significance._toss(weights, torch.Generator().manual_seed(0))
    assert set(weights.unique().tolist()) == {0, 1}
    assert weights.mean(0) == pytest.approx(0.5, abs=0.05)
    assert np.corrcoef(weights.T) == pytest.approx(np.eye(10), abs=0.1)


def test_coverage() -> None:
    """Of intervals of 95%, about so many hold the score of the population that the sentences were drawn from."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 50, (4000, 12))
    preds = np.where(rng.random(words.shape) < rng.beta(4, 2, (4000, 1)), words, -1)
    metric = kept(preds.tolist(), words.tolist(), smoothing="none")
    true = metric.compute().item()
    held = 0
    for seed in range(200):
        drawn = metric.sentence_statistics[rng.integers(4000, size=200)]
        interval = bootstrap_interval(drawn, resamples=300, seed=seed)
        held += interval.low <= true <= interval.high
    assert 0.91 <= held / 200 <= 0.98


def sacrebleu_p_values(a: list[str], b: list[str], references: list[list[str]]) -> tuple[Any, Any]:
    systems = [("a", a), ("b", b)]
    metric = SacreBLEU(references=references)
    return tuple(SacrePairedTest(systems, {"BLEU": metric}, None, kind)()[1]["BLEU"][1] for kind in ("bs", "ar"))  # type: ignore[return-value]


def compare_with_sacrebleu(a: list[str], b: list[str], references: list[list[str]]) -> tuple[float, float]:
    groups = [list(group) for group in zip(*references)]
    ours = [kept(s, groups, convention="sacrebleu", tokenizer="13a", smoothing=None, percent=True) for s in (a, b)]
    bootstrap, randomization = sacrebleu_p_values(a, b, references)
    results = paired_bootstrap(*ours), approximate_randomization(*ours)
    for result, theirs in zip(results, (bootstrap, randomization)):
        assert result.bleu_b == pytest.approx(theirs.score, abs=1e-9)
        assert result.p_value == pytest.approx(theirs.p_value, abs=0.02)
    assert ours[1].interval().half_width == pytest.approx(bootstrap.ci, rel=0.1)
    return results[0].p_value, results[1].p_value


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_as_sacrebleu(seed: int) -> None:
    rng = random.Random(seed)

    def spoilt(line: str, share: float) -> str:
        return " ".join("?" if rng.random() < share else word for word in line.split())

    references = [" ".join(rng.choices("abcdefghij", k=rng.randint(4, 20))) for _ in range(300)]
    a, b = ([spoilt(line, share) for line in references] for share in (0.2, 0.2 + 0.015 * seed))
    compare_with_sacrebleu(a, b, [references])


PAIRS = [
    ("Online-A", "Online-Y"),
    ("Online-A", "Online-G"),
    ("Online-Y", "Online-G"),
    ("Online-G", "PROMT"),
    ("Lan-Bridge", "PROMT"),
    ("PROMT", "OpenNMT"),
    ("Online-W", "Online-B"),
    ("JDExploreAcademy", "Lan-Bridge"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("pair", PAIRS)
def test_as_sacrebleu_on_real_systems(pair: tuple[str, str], wmt22: Path) -> None:
    a, b = (lines(wmt22 / f"generaltest2022.en-de.hyp.{name}.de") for name in pair)
    references = [lines(wmt22 / f"generaltest2022.en-de.ref.{name}.de") for name in "AB"]
    bootstrap, _ = compare_with_sacrebleu(a, b, references)
    known = {("Online-A", "Online-Y"): 0.106, ("Online-A", "Online-G"): 0.048}
    if pair in known:
        assert bootstrap == pytest.approx(known[pair], abs=0.02)


def test_blocks(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 47)
    others = random_corpus(rng, 47)[0]
    sizes = [10, 10, 9, 9, 9]  # the first ones are longer
    edges = [0, *itertools.accumulate(sizes)]
    expected = [
        [score(s[i:j], target[i:j], smoothing="floor") for i, j in itertools.pairwise(edges)] for s in (preds, others)
    ]
    a, b = (kept(s, target, smoothing="floor") for s in (preds, others))
    blocks = block_scores(a, 5)
    assert blocks.scores == pytest.approx(expected[0], abs=1e-12)
    assert blocks.mean == pytest.approx(np.mean(expected[0]))
    assert blocks.standard_deviation == pytest.approx(np.std(expected[0], ddof=1))
    assert block_scores(a, 1).scores == pytest.approx([a.compute().item()], abs=1e-12)
    assert block_scores(a, 1).standard_deviation == 0

    result, theirs = block_t_test(a, b, 5), scipy.stats.ttest_rel(*expected)
    assert (result.t, result.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert result.difference == pytest.approx(np.mean(expected[0]) - np.mean(expected[1]))
    assert result.a == blocks
    assert block_t_test(b, a, 5).t == -result.t


def test_blocks_that_all_differ_alike() -> None:
    same = block_t_test(kept(A), kept(A), 2)
    assert (same.t, same.p_value) == (0, 1)
    good, bad = kept(["a b c d e"] * 4, ["a b c d e"] * 4), kept(["a b c d x"] * 4, ["a b c d e"] * 4)
    assert (block_t_test(good, bad, 4).t, block_t_test(good, bad, 4).p_value) == (float("inf"), 0)
    assert block_t_test(bad, good, 4).t == -float("inf")


def test_results_are_frozen_and_print_one_line() -> None:
    a, b = kept(A), kept(B)
    results = [bootstrap_interval(a), paired_bootstrap(a, b), approximate_randomization(a, b)]
    for result in [*results, block_scores(a, 2), block_t_test(a, b, 2)]:
        assert "\n" not in str(result)
        assert len(str(result)) < 120
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.percent = True  # type: ignore[misc]
        hash(result)
    percent = kept(A, percent=True), kept(B, percent=True)
    for test in (paired_bootstrap, approximate_randomization, lambda a, b: block_t_test(a, b, 2)):
        assert str(test(*percent)) == str(test(a, b))
    assert str(bootstrap_interval(percent[0])) == str(results[0])
    assert str(block_scores(percent[0], 2)) == str(block_scores(a, 2))
    assert len(repr(results[0])) < 200
    assert results[0].half_width == (results[0].high - results[0].low) / 2


def test_the_figure_shows_the_resamples() -> None:
    interval = kept(B).interval(0.9)
    axes = interval_figure(interval).axes[0]
    assert sum(patch.get_height() for patch in axes.patches[1:]) == 1000
    span = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    assert (span.x0, span.x1) == pytest.approx((100 * interval.low, 100 * interval.high))
    assert axes.lines[0].get_xdata() == pytest.approx([100 * interval.bleu] * 2)
    assert "90% interval" in axes.get_title()


METRIC, STATISTICS = kept(A), kept(A).sentence_statistics


def test_numbers_of_numpy() -> None:
    assert bootstrap_interval(METRIC, resamples=np.int64(50)) == bootstrap_interval(METRIC, resamples=50)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: paired_bootstrap(METRIC, kept(B[:3], TARGET[:3])),
            ValueError,
            r"same sentences.*\(4, 10\) and \(3, 10",
        ),
        (lambda: approximate_randomization(STATISTICS, STATISTICS[:3]), ValueError, "same sentences"),
        (lambda: block_t_test(METRIC, kept(B, max_order=3)), ValueError, r"same order.*\(4, 10\) and \(4, 8\)"),
        (lambda: paired_bootstrap(METRIC, kept(B, lowercase=True)), ValueError, "in the same way, got .*case:lc"),
        (lambda: bootstrap_interval(kept(A[:1], TARGET[:1])), ValueError, "'system' must have at least two .* got 1"),
        (lambda: bootstrap_interval(CorpusBLEU(keep_sentences=True)), ValueError, "at least two sentences, got 0"),
        (lambda: paired_bootstrap(STATISTICS[:1], STATISTICS[:1]), ValueError, "'a' must have at least two"),
        (lambda: bootstrap_interval(CorpusBLEU()), ValueError, r"CorpusBLEU\(keep_sentences=True\)"),
        (lambda: CorpusBLEU().sentence_statistics, ValueError, r"make it with CorpusBLEU\(keep_sentences=True\)"),
        (lambda: bootstrap_interval(METRIC, 95), ValueError, "'confidence' must lie between 0 and 1, got 95"),
        (lambda: bootstrap_interval(METRIC, resamples=0), ValueError, "'resamples' must be an integer of 1 or more"),
        (
            lambda: approximate_randomization(METRIC, METRIC, 0.5),
            ValueError,
            "'trials' must be an integer of 1 or more",
        ),
        (lambda: block_scores(METRIC, 5), ValueError, "'blocks' must be at most .* got 5 for 4 sentences"),
        (lambda: block_t_test(METRIC, METRIC, 5), ValueError, "'blocks' must be at most .* got 5 for 4 sentences"),
        (lambda: block_scores(METRIC, 0), ValueError, "'blocks' must be an integer of 1 or more, got 0"),
        (lambda: block_t_test(METRIC, METRIC, 1), ValueError, "'blocks' must be an integer of 2 or more, got 1"),
        (lambda: bootstrap_interval(STATISTICS.float()), ValueError, "must be integers of shape"),
        (lambda: bootstrap_interval(STATISTICS[0]), ValueError, r"must be integers .* of shape \(10,\)"),
        (lambda: bootstrap_interval(STATISTICS[:, 1:]), ValueError, r"must be integers .* of shape \(4, 9\)"),
        (lambda: bootstrap_interval([0.1, 0.2]), TypeError, "or statistics, got list"),
        (lambda: bootstrap_interval(METRIC, smoothing="exp"), TypeError, "a metric is scored as it was made"),
        (lambda: bootstrap_interval(STATISTICS, smoothing="method5"), ValueError, "for single sentences only"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.gpu
def test_a_device_gives_the_same_results(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 300)
    a = kept(preds, target).sentence_statistics
    b = kept(random_corpus(rng, 300)[0], target).sentence_statistics
    on_device = a.cuda(), b.cuda()
    assert bootstrap_interval(on_device[0]).scores == pytest.approx(bootstrap_interval(a).scores, abs=1e-12)
    for test in (paired_bootstrap, approximate_randomization, block_t_test):
        assert test(*on_device).p_value == pytest.approx(test(a, b).p_value)


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_what_was_kept_survives_forward_merging_pickling_and_a_state_dict(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 30)
    whole = kept(preds, target)
    stepwise = CorpusBLEU(tokenizer="none", smoothing="exp", keep_sentences=True, compute_on_cpu=True)
    for start in range(0, 20, 5):
        stepwise(preds[start : start + 5], target[start : start + 5])
        with pytest.raises(TypeError):
            stepwise("a", "b")
    stepwise.merge_state(kept(preds[20:25], target[20:25]))
    stepwise = pickle.loads(pickle.dumps(stepwise)).clone()
    stepwise.update(preds[25:], target[25:])
    stepwise.persistent(True)
    restored = CorpusBLEU(tokenizer="none", smoothing="exp", keep_sentences=True)
    restored.load_state_dict(stepwise.state_dict())
    for metric in (stepwise, restored):
        assert torch.equal(metric.sentence_statistics, whole.sentence_statistics)
        assert metric.compute() == whole.compute()
        assert paired_bootstrap(metric, whole).p_value == 1  # where what a signature says of the data was lost, too
    stepwise.reset()
    assert len(stepwise.sentence_statistics) == 0


def test_metrics_of_a_collection_keep_their_own_sentences(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 20)
    options: list[dict[str, Any]] = [{"keep_sentences": True}, {}, {"keep_sentences": True, "max_order": 2}]
    metrics = {str(n): CorpusBLEU(tokenizer="none", **some) for n, some in enumerate(options)}
    collection = MetricCollection(metrics)  # type: ignore[arg-type]
    for start in range(0, 20, 4):
        collection.update(preds[start : start + 4], target[start : start + 4])
    collection.compute()
    assert collection["0"].sentence_statistics.shape == (20, 10)
    assert collection["2"].sentence_statistics.shape == (20, 6)
    assert collection["0"].interval().bleu == collection["1"].compute()


def test_a_merge_that_fails_changes_nothing() -> None:
    metric = kept(A)
    before = metric.statistics.clone()
    with pytest.raises(ValueError, match=r"the other must too: CorpusBLEU\(keep_sentences=True\)"):
        metric.merge_state(CorpusBLEU())
    assert torch.equal(metric.statistics, before)


def test_draws_come_from_the_cpu_whatever_the_default_device() -> None:
    a, b = kept(A), kept(B)
    expected = a.interval(), approximate_randomization(a, b)
    with torch.device("meta"):
        drawn = torch.empty(3, 4, dtype=torch.float64, device="cpu")
        for draw in (significance._draw_with_replacement, significance._toss):
            draw(drawn, torch.Generator("cpu"))
    assert (a.interval(), approximate_randomization(a, b)) == expected


def test_what_was_found_is_one_of_the_trials() -> None:
    """So that no p-value is 0, however large the difference."""
    good, bad = kept(["a b c d e"] * 50, ["a b c d e"] * 50), kept(["a b c x y"] * 50, ["a b c d e"] * 50)
    assert approximate_randomization(good, bad, 200).p_value == 1 / 201
    assert paired_bootstrap(good, bad, 200).p_value == 1 / 201
