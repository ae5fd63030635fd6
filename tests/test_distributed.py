"""Syncing in real processes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import (
    CorpusBLEU,
    approximate_randomization,
    corpus_bleu,
    paired_bootstrap,
)
from tests.helpers.corpora import Hypotheses, References, random_corpus
from tests.helpers.process_groups import ProcessPool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(3)
    yield pool
    pool.close()


Corpus: TypeAlias = tuple[Hypotheses, References]

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


# Sums


def score_shares(rank: int, world_size: int, corpus: Corpus, cases: list[list[int]]) -> list[dict[str, Any]]:
    """Score the sentences of one rank, for several ways to share a corpus."""
    results = []
    for shares in cases:
        start = sum(shares[:rank])
        stop = start + shares[rank]
        metric = CorpusBLEU()
        if stop > start:
            metric.update(corpus[0][start:stop], corpus[1][start:stop])
        local = metric.totals.clone()
        with record_collectives() as collectives:
            value = metric.compute()
        result = {"value": value, "collectives": collectives, "report": metric.report()}
        with metric.sync_context():
            result["signature"] = metric.signature
        results.append(result | {"is_local_again": torch.equal(metric.totals, local)})
    return results


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("cases", [[[20, 17], [37, 0], [0, 37]], [[12, 13, 12]]], ids=["two", "three"])
def test_all_processes_have_the_score_and_signature_of_one_after_one_gather(
    cases: list[list[int]], pool: ProcessPool
) -> None:
    corpus = random_corpus(random.Random(3), 37)
    expected = corpus_bleu(*corpus)
    for results in pool.run(len(cases[0]), score_shares, corpus, cases):
        for result in results:
            assert result["value"].item() == expected.bleu
            assert result["collectives"] == ["all_gather"]
            assert result["is_local_again"]
            assert result["report"] == expected  # with the full signature, whatever the rank itself has seen
            assert result["signature"] == expected.signature
    assert expected.signature.startswith("nrefs:var|case:mixed|eff:no|tok:tokens|")


def sync_every_step(rank: int, world_size: int) -> list[list[float]]:
    """Score two steps and the whole, with lists and with generators."""
    results = []
    for read in (list, iter):
        metric = CorpusBLEU(dist_sync_on_step=True, keep_sentences=True)
        steps = [
            metric(read(preds), read(target)).item()
            for preds, target in [
                [(["a b c d e"], ["a b c d f"]), (["x y z w"], ["x y z w"])][rank],
                [(["a b c x"], ["a b c d"]), (["a b c d", "e f g h"], ["a b c d", "e f g i"])][rank],
            ]
        ]
        results.append([*steps, metric.compute().item(), len(metric.sentence_statistics)])
    return results


def test_a_sync_in_every_step_reads_generators_once(pool: ProcessPool) -> None:
    preds, target = ["a b c d e", "x y z w"], ["a b c d f", "x y z w"]
    more_preds, more_target = ["a b c x", "a b c d", "e f g h"], ["a b c d", "a b c d", "e f g i"]
    expected = [
        corpus_bleu(preds, target).bleu,
        corpus_bleu(more_preds, more_target).bleu,
        corpus_bleu(preds + more_preds, target + more_target).bleu,
        5,
    ]
    assert min(expected) > 0
    for result in pool.run(2, sync_every_step):
        assert result == [expected, expected]


# Kept sentences


def deal(rank: int, world_size: int, corpus: Corpus, batch_sizes: list[int | None]) -> list[dict[str, Any]]:
    """Score what a `DistributedSampler` deals to a rank, for several batch sizes."""
    return [score_dealt(rank, world_size, corpus, batch_size) for batch_size in batch_sizes]


def make_loader(rank: int, world_size: int, corpus: Corpus, batch_size: int | None) -> Any:
    """Loads the share of a rank, as lists of a position and a pair of a hypothesis and its references."""
    items: list[Any] = list(enumerate(zip(*corpus)))
    if batch_size is None:  # the items are batches of different sizes
        items = [items[:5], items[5:6], items[6:14], items[14:]]
    sampler: Any = DistributedSampler(items, world_size, rank, shuffle=False) if world_size > 1 else None  # type: ignore[arg-type]
    return DataLoader(items, batch_size=batch_size, sampler=sampler, collate_fn=list)  # type: ignore[arg-type]


def score_dealt(rank: int, world_size: int, corpus: Corpus, batch_size: int | None) -> dict[str, Any]:
    metric = CorpusBLEU(keep_sentences=True)
    for batch in make_loader(rank, world_size, corpus, batch_size):
        index, pairs = zip(*batch)
        preds, target = zip(*pairs)
        metric.update(list(preds), list(target), index=index)
    local = sum(map(len, metric.sentences))
    with record_collectives() as in_context, metric.sync_context():
        result: dict[str, Any] = {"bleu": metric.report().bleu, "interval": metric.interval(0.9, 200)}
        with metric.sync_context():
            result["sentences"] = metric.sentence_statistics
        assert metric._is_synced  # the inner context has left it to the outer one
    with record_collectives() as in_interval:
        result["interval again"] = metric.interval(0.9, 200)
    with contextlib.suppress(KeyError), metric.sync_context():
        raise KeyError
    metric.update([["a"]], [["a"]], index=[1000])  # refused if it were still synced
    return result | {
        "collectives": [in_context, in_interval],
        "is_local_again": sum(map(len, metric.sentences)) == local + 1,
    }


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_sentences_with_positions_come_back_in_the_order_of_the_set(processes: int, pool: ProcessPool) -> None:
    """And each of them once, even though the sampler repeats some to even out the processes."""
    corpus = random_corpus(random.Random(3), 37)
    batch_sizes = [1, 4, None]
    alone = CorpusBLEU(keep_sentences=True)
    alone.update(*corpus)
    interval = alone.interval(0.9, 200)
    for results in pool.run(processes, deal, corpus, batch_sizes):
        for result in results:
            assert torch.equal(result["sentences"], alone.sentence_statistics)
            assert result["bleu"] == alone.compute().item()
            assert result["interval"] == result["interval again"] == interval
            # how many sentences; the sentences
            assert result["collectives"] == [["all_gather"] * 2] * 2
            assert result["is_local_again"]


def deal_without_positions(rank: int, world_size: int, corpus: Corpus) -> tuple[list[list[int]], float]:
    metric = CorpusBLEU(keep_sentences=True)
    for preds, target in zip(*(column[rank::world_size] for column in corpus)):
        metric.update([preds], [target])
    return metric.sentence_statistics.tolist(), metric.compute().item()


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_sentences_without_positions_come_back_process_by_process(processes: int, pool: ProcessPool) -> None:
    corpus = random_corpus(random.Random(3), 37)
    alone = CorpusBLEU(keep_sentences=True)
    alone.update(*corpus)
    rows = alone.sentence_statistics.tolist()
    expected = [row for rank in range(processes) for row in rows[rank::processes]]
    for found in pool.run(processes, deal_without_positions, corpus):
        assert found == (expected, alone.compute().item())


def repeat_all(rank: int, world_size: int) -> tuple[list[list[int]], list[int], float, str]:
    """Every process has the whole set, but only the first one translates it right; each has another order."""
    metric = CorpusBLEU(max_order=1, keep_sentences=True)
    for position in ([0, 1, 2], [2, 1, 0], [1, 2, 0])[rank]:
        sentence = "a " * (position + 1)
        metric.update([sentence if rank == 0 else "x"], [sentence], index=[position])
    kept = metric.kept_sentences()
    return kept.statistics.tolist(), kept.positions.tolist(), metric.compute().item(), metric.signature[:8]


def test_a_sentence_counts_once_and_that_of_the_first_process_counts(pool: ProcessPool) -> None:
    # one column each for matches, possible matches, and lengths
    expected = [[length] * 4 for length in (1, 2, 3)], [0, 1, 2], 1, "nrefs:1|"
    assert pool.run(3, repeat_all) == [expected] * 3


def contradict(rank: int, world_size: int) -> list[str]:
    """The errors of two processes, of which one has positions and the other has none, or another set."""
    errors = []
    for sentence, index in (("a b", [None, [0]][rank]), (["a b", "b a"][rank], [0])):
        metric = CorpusBLEU(keep_sentences=True)
        metric.update([sentence], [sentence], index=index)
        for read in (metric.compute, metric.report, metric.kept_sentences):
            try:
                read()
            except ValueError as error:
                errors.append(str(error))
        assert not metric._is_synced
        assert len(metric.sentences[0]) == 1
    return errors


def test_processes_that_contradict_each_other_are_an_error_in_all_of_them(pool: ProcessPool) -> None:
    mixed = "some sentences have an 'index' and others have none"
    different = "different sentences have the same 'index' 0"
    for errors in pool.run(2, contradict):
        assert len(errors) == 6
        assert all(error.startswith(start) for error, start in zip(errors, [mixed] * 3 + [different] * 3))


def keep_some(rank: int, world_size: int, cases: list[list[int]]) -> list[tuple[list[list[int]], float, str]]:
    """Keep sentences in all ranks but some."""
    results = []
    for empty in cases:
        metric = CorpusBLEU(max_order=2, keep_sentences=True)
        if rank not in empty:
            metric.update([f"a b {rank}", "c"], [f"a b {rank} d", "c"], [True, rank != 1])
        results.append((metric.sentence_statistics.tolist(), metric.compute().item(), metric.report().signature))
    return results


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_a_process_without_sentences_gathers_those_of_the_others(pool: ProcessPool) -> None:
    # matches, possible matches, and lengths of "a b 0" and of "c"; rank 1 masks its "c"
    first, second = [3, 2, 3, 2, 3, 4], [1, 0, 1, 0, 1, 1]
    expected = [[first], [first, second], []]
    results = pool.run(2, keep_some, [[0], [1], [0, 1]])
    assert results[0] == results[1]
    assert [sentences for sentences, _, _ in results[0]] == expected
    assert [signature[:8] for _, _, signature in results[0]] == ["nrefs:1|", "nrefs:1|", "nrefs:?|"]


def sync_by_hand(rank: int, world_size: int, indexed: bool) -> dict[str, Any]:
    """Keep two sentences in ranks 0 and 2, and none in rank 1."""
    metric = CorpusBLEU(max_order=1, keep_sentences=True)
    if rank != 1:
        lengths = [rank + 1, rank + 4]  # the positions of the sentences in the set, plus 1
        sentences = [["x"] * length for length in lengths]
        metric.update(sentences, sentences, index=[rank, rank + 3] if indexed else None)
    local = metric.statistics
    metric.sync()
    result = {
        "sentences": metric.sentence_statistics.tolist(),
        "statistics": metric.statistics.tolist(),
        "report": metric.report(),
    }
    metric.unsync()
    return result | {"is_local_again": torch.equal(metric.statistics, local), "tensors": len(metric.sentences)}


@pytest.mark.parametrize(("indexed", "lengths"), [(True, [1, 3, 4, 6]), (False, [1, 4, 3, 6])])
def test_a_sync_by_hand_gathers_the_sentences_of_all_processes(
    indexed: bool, lengths: list[int], pool: ProcessPool
) -> None:
    sentences = [["x"] * length for length in lengths]
    expected = CorpusBLEU(max_order=1, keep_sentences=True)
    expected.update(sentences, sentences)
    for rank, result in enumerate(pool.run(3, sync_by_hand, indexed)):
        # one column each for matches, possible matches, and lengths
        assert result["sentences"] == [[length] * 4 for length in lengths]
        assert result["statistics"] == expected.statistics.tolist()
        assert result["report"] == expected.report()
        assert result["is_local_again"]
        assert result["tensors"] == (rank != 1)


def resample(rank: int, world_size: int) -> dict[str, Any]:
    """Intervals and tests of metrics that share a set, and of one that keeps to itself."""
    a, b, alone = (CorpusBLEU(keep_sentences=True, sync_on_compute=sync) for sync in (True, True, False))
    positions = [*range(rank, 8, world_size)]
    lines = [f"a b c d e f{i} g h" for i in positions]
    for metric, preds in ((a, lines), (b, [line.replace("b c", "c b") for line in lines]), (alone, lines[:2])):
        target = [line.replace("f2 g", "g x y") for line in lines[: len(preds)]]
        metric.update(preds, target, index=positions[: len(preds)])
    results = [
        a.interval(resamples=50),
        paired_bootstrap(a, b, 50),
        approximate_randomization(a, b, 50),
    ]
    with a.sync_context():
        in_context = a.interval(resamples=50)
    return {"results": results, "in context": in_context, "own": alone.interval(resamples=50).score}


def test_all_processes_have_the_intervals_and_tests_of_one(pool: ProcessPool) -> None:
    (alone,) = pool.run(1, resample)
    first, second = pool.run(2, resample)
    assert first["results"] == second["results"] == alone["results"]
    assert first["in context"] == second["in context"] == first["results"][0]
    assert first["own"] != second["own"]


# Saving


def save_synced(rank: int, world_size: int) -> dict[str, Any]:
    metric = CorpusBLEU(keep_sentences=True)
    metric.persistent(True)
    metric.update(["a b c d e"] * (rank + 1), ["a b c d f"] * (rank + 1))
    with metric.sync_context(dist_sync_fn=metric.dist_sync_fn):
        return dict(metric.state_dict())


def test_a_synced_state_can_be_saved_and_loaded(pool: ProcessPool) -> None:
    expected = CorpusBLEU(keep_sentences=True)
    expected.update(["a b c d e"] * 3, ["a b c d f"] * 3)
    for state in pool.run(2, save_synced):
        assert isinstance(state["sentences"], Tensor)
        metric = CorpusBLEU(keep_sentences=True)
        metric.persistent(True)
        metric.load_state_dict(state)
        assert metric.hypothesis_length == 15
        assert metric.report() == expected.report()
        assert torch.equal(metric.sentence_statistics, expected.sentence_statistics)
        metric.update(["x y z w"], ["x y z w"])
        assert metric.interval(resamples=10).score == metric.report().bleu
        assert len(metric.sentence_statistics) == 4
