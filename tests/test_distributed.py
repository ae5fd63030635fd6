"""Syncing in real processes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lightning_bleu import CorpusBLEU, approximate_randomization, corpus_bleu, paired_bootstrap
from tests.helpers.corpora import random_text
from tests.helpers.metrics import KINDS
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import pick

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The ``compute`` method")]


CORPUS = random_text(random.Random(3), 37)
COLLECTIVES = ("all_gather", "all_reduce", "barrier", "all_gather_into_tensor", "all_gather_object", "broadcast")


@contextlib.contextmanager
def record_collectives() -> Iterator[list[str]]:
    """The names of all collectives that are called within this context."""
    names: list[str] = []
    originals = {name: getattr(dist, name) for name in COLLECTIVES}

    def record(name: str) -> Any:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            names.append(name)
            return originals[name](*args, **kwargs)

        return recorded

    for name in COLLECTIVES:
        setattr(dist, name, record(name))
    yield names
    for name, original in originals.items():
        setattr(dist, name, original)


SHARES: dict[str, list[list[int]]] = {
    "neighbors": [[*range(20)], [*range(20, 37)]],
    "the first process has none": [[], [*range(37)]],
    "the second process has none": [[*range(37)], []],
    "none": [[], []],
    "three processes": [[*range(12)], [*range(12, 25)], [*range(25, 37)]],
}
DEALT = {
    f"{processes} processes": [
        [i % 37 for i in range(rank, 39 - 39 % processes, processes)] for rank in range(processes)
    ]
    for processes in (1, 2, 3)
}
"""As a sampler deals them, which repeats sentences to even out the processes."""


def count_share(kind: str, keep: bool, share: list[int], indexed: bool = False, **options: Any) -> Any:
    """A metric that has counted the sentences of one process, in batches of four."""
    metric = KINDS[kind].metric(keep_sentences=keep, **options)
    for start in range(0, len(share), 4):
        batch = share[start : start + 4]
        metric.update(*(pick(side, batch) for side in CORPUS), index=batch if indexed else None)
    return metric


def score_shares(rank: int, world_size: int, kind: str, keep: bool, indexed: bool, cases: Any) -> list[dict[str, Any]]:
    """What a process knows of all, for several ways to share a corpus."""
    results = []
    for shares in cases:
        metric = count_share(kind, keep, shares[rank], indexed)
        (before,) = metric.metric_state.values()
        with record_collectives() as collectives:
            found: dict[str, Any] = {"score": metric.compute().item()}
        found |= {"collectives": collectives, "report": metric.report()}
        with metric.sync_context():
            found |= {"signature": metric.signature, "statistics": metric.statistics.tolist()}
            if keep:
                found["rows"] = metric.sentence_statistics().tolist()
                found["interval"] = metric.interval(0.9, 50) if len(found["rows"]) > 1 else None
        (after,) = metric.metric_state.values()
        assert all(map(torch.equal, before, after)) if keep else torch.equal(before, after)
        results.append(found)
    return results


@pytest.mark.parametrize(("keep", "indexed"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("name", KINDS)
def test_all_processes_know_what_one_does(name: str, keep: bool, indexed: bool, pool: ProcessPool) -> None:
    """After one gather of sums, or two of sentences: how many, and which."""
    shares = [*SHARES.values(), *(DEALT.values() if indexed else ())]
    for processes in (1, 2, 3):
        cases = [one for one in shares if len(one) == processes]
        results = pool.run(processes, score_shares, name, keep, indexed, cases) if cases else []
        for found, case in ((found, case) for result in results for found, case in zip(result, cases, strict=True)):
            alone = count_share(name, keep, sorted({*chain(*case)}) if indexed else [*chain(*case)], indexed)
            report = alone.report()
            assert (found["score"], found["report"], found["signature"]) == (report.score, report, report.signature)
            assert found["statistics"] == alone.statistics.tolist()
            assert found["collectives"] == ["all_gather"] * (1 + keep)
            if keep:
                assert found["rows"] == alone.sentence_statistics().tolist()
                assert found["interval"] == (alone.interval(0.9, 50) if found["rows"] else None)


def sync_every_step(rank: int, world_size: int) -> list[float]:
    """Score two steps and the whole."""
    metric = CorpusBLEU(dist_sync_on_step=True)
    steps = [[(["a b c d e"], ["a b c d f"]), (["x y z w"], ["x y z w"])][rank]]
    steps += [[(["a b c x"], ["a b c d"]), (["a b c d", "e f g h"], ["a b c d", "e f g i"])][rank]]
    return [*(metric(iter(preds), iter(target)).item() for preds, target in steps), metric.compute().item()]


def test_a_sync_in_every_step_scores_the_batches_of_all_processes(pool: ProcessPool) -> None:
    preds, target = ["a b c d e", "x y z w"], ["a b c d f", "x y z w"]
    more_preds, more_target = ["a b c x", "a b c d", "e f g h"], ["a b c d", "a b c d", "e f g i"]
    corpora = [(preds, target), (more_preds, more_target), (preds + more_preds, target + more_target)]
    assert pool.run(2, sync_every_step) == [[corpus_bleu(*corpus).bleu for corpus in corpora]] * 2


def contradict(rank: int, world_size: int) -> list[str]:
    """The errors of two processes, of which one has positions and the other has none, or another set."""
    errors = []
    for sentence, index in (("a b", [None, [0]][rank]), (["a b", "b a"][rank], [0])):
        metric = CorpusBLEU(keep_sentences=True)
        metric.update([sentence], [sentence], index=index)
        for read in (metric.compute, metric.report, metric.kept_sentences):
            with pytest.raises(ValueError, match="'index'") as error:
                read()
            errors.append(str(error.value))
        metric.update([sentence], [sentence], index=index)  # refused if it were still synced
    return errors


def test_processes_that_contradict_each_other_are_an_error_in_all_of_them(pool: ProcessPool) -> None:
    starts = ["the positions of only some sentences are known"] * 3
    starts += ["different sentences have the same 'index' 0"] * 3
    for errors in pool.run(2, contradict):
        assert all(error.startswith(start) for error, start in zip(errors, starts, strict=True))


def resample(rank: int, world_size: int, kind: str) -> tuple[list[Any], Any]:
    """An interval and tests of metrics that share a set, and the score of one that keeps to itself."""
    share = [*range(rank, 37, world_size)]
    a, alone = count_share(kind, True, share, True), count_share(kind, True, share, True, sync_on_compute=False)
    b = KINDS[kind].metric(keep_sentences=True)
    b.update([line[1:] for line in pick(CORPUS[0], share)], pick(CORPUS[1], share), index=share)
    results = [a.interval(resamples=50), paired_bootstrap(a, b, 50), approximate_randomization(a, b, 50)]
    with a.sync_context():
        assert a.interval(resamples=50) == results[0]
    return results, alone.interval(resamples=50).score


@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_have_the_intervals_and_tests_of_one(kind: str, pool: ProcessPool) -> None:
    (alone,) = pool.run(1, resample, kind)
    first, second = pool.run(2, resample, kind)
    assert first[0] == second[0] == alone[0]
    assert first[1] != second[1]
