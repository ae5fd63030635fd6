"""Syncing in real processes."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU
from tests.helpers.corpora import random_text
from tests.helpers.metrics import KINDS
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import pick

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The ``compute`` method")]


CORPUS = random_text(random.Random(3), 37)
SHARES: dict[str, list[list[int]]] = {
    "neighbors": [[*range(20)], [*range(20, 37)]],
    "the first process has none": [[], [*range(37)]],
    "the second process has none": [[*range(37)], []],
    "none": [[], []],
    "three processes": [[*range(12)], [*range(12, 25)], [*range(25, 37)]],
}


def count_share(kind: str, share: list[int]) -> Any:
    """A metric that has counted the sentences of one process, in batches of four."""
    metric = KINDS[kind].metric()
    for start in range(0, len(share), 4):
        metric.update(*(pick(side, share[start : start + 4]) for side in CORPUS))
    return metric


def score_shares(rank: int, world_size: int, kind: str, cases: list[list[list[int]]]) -> list[dict[str, Any]]:
    """What a process knows of all, for several ways to share a corpus."""
    results = []
    for shares in cases:
        metric = count_share(kind, shares[rank])
        before = metric.totals
        found: dict[str, Any] = {"score": metric.compute().item(), "report": metric.report()}
        with metric.sync_context():
            found |= {"signature": metric.signature, "statistics": metric.statistics.tolist()}
        assert torch.equal(metric.totals, before)
        results.append(found)
    return results


@pytest.mark.parametrize("name", KINDS)
def test_all_processes_know_what_one_does(name: str, pool: ProcessPool) -> None:
    for processes in (2, 3):
        cases = [shares for shares in SHARES.values() if len(shares) == processes]
        for results in pool.run(processes, score_shares, name, cases):
            for found, shares in zip(results, cases, strict=True):
                alone = count_share(name, [*chain(*shares)])
                report = alone.report()
                assert found["score"] == report.score
                assert found["report"] == report
                assert found["signature"] == report.signature
                assert found["statistics"] == alone.statistics.tolist()


STEPS = [
    [(["a b c d e"], ["a b c d f"]), (["x y z w"], ["x y z w"])],
    [(["a b c x"], ["a b c d"]), (["a b c d", "e f g h"], ["a b c d", "e f g i"])],
]
"""Two batches for each of two processes."""


def sync_every_step(rank: int, world_size: int) -> list[float]:
    """The score of each step, and of all."""
    metric = CorpusBLEU(dist_sync_on_step=True)
    scores = []
    for batches in STEPS:
        preds, target = batches[rank]
        scores.append(metric(preds, target).item())
    return [*scores, metric.compute().item()]


def test_a_sync_in_every_step_scores_the_batches_of_all_processes(pool: ProcessPool) -> None:
    expected = []
    everything = CorpusBLEU()
    for batches in STEPS:
        step = CorpusBLEU()
        for preds, target in batches:
            step.update(preds, target)
            everything.update(preds, target)
        expected.append(step.compute().item())
    expected.append(everything.compute().item())
    assert pool.run(2, sync_every_step) == [expected] * 2
