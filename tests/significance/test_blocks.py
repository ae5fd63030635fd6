from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import scipy.stats

from lightning_bleu import block_scores, block_t_test
from tests.helpers.corpora import random_corpus
from tests.helpers.systems import A, make_metric, score_corpus


def test_blocks_are_scored_separately_and_compared_as_in_scipy(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 47)
    others = random_corpus(rng, 47)[0]
    sizes = [10, 10, 9, 9, 9]  # the first ones are longer
    edges = list(itertools.pairwise([0, *itertools.accumulate(sizes)]))
    expected = [
        [score_corpus(system[i:j], target[i:j], smoothing="floor") for i, j in edges] for system in (preds, others)
    ]
    a, b = (make_metric(system, target, smoothing="floor") for system in (preds, others))
    blocks = block_scores(a, 5)
    assert blocks.scores == pytest.approx(expected[0], abs=1e-12)
    assert blocks.mean == pytest.approx(np.mean(expected[0]))
    assert blocks.standard_deviation == pytest.approx(np.std(expected[0], ddof=1))

    result, theirs = block_t_test(a, b, 5), scipy.stats.ttest_rel(expected[0], expected[1])
    assert (result.t, result.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert result.difference == pytest.approx(np.mean(expected[0]) - np.mean(expected[1]))
    assert result.a == blocks
    assert block_t_test(b, a, 5).t == -result.t


def test_a_single_block_is_the_corpus() -> None:
    metric = make_metric(A)
    assert block_scores(metric, 1).scores == pytest.approx([metric.compute().item()], abs=1e-12)
    assert block_scores(metric, 1).standard_deviation == 0


def test_there_are_20_blocks_by_default(rng: random.Random) -> None:
    metric = make_metric(*random_corpus(rng, 41))
    assert len(block_scores(metric).scores) == len(block_t_test(metric, metric).a.scores) == 20


def test_t_is_infinite_if_all_blocks_differ_by_the_same_amount_and_0_if_they_do_not_differ() -> None:
    same = block_t_test(make_metric(A), make_metric(A), 2)
    assert (same.t, same.p_value) == (0, 1)
    target = ["a b c d e"] * 4
    good, bad = make_metric(target, target), make_metric(["a b c d x"] * 4, target)
    assert (block_t_test(good, bad, 4).t, block_t_test(good, bad, 4).p_value) == (math.inf, 0)
    assert block_t_test(bad, good, 4).t == -math.inf
