"""Real processes."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import CorpusBLEU, corpus_bleu, distributed_mask
from tests.conftest import random_corpus


def run(world_size: int, work: Any, tmp_path: Path, *args: Any) -> list[Any]:
    """Call `work(rank, world_size, *args)` in processes, and collect what they return."""
    mp.spawn(_process, (world_size, work, tmp_path, args), nprocs=world_size)
    return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(world_size)]


def _process(rank: int, world_size: int, work: Any, tmp_path: Path, args: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=rank, world_size=world_size)
    try:
        torch.save(work(rank, world_size, *args), tmp_path / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


def score_share(rank: int, world_size: int, corpus: Any, shares: list[int]) -> dict[str, Any]:
    """Score one rank's sentences, and note the collectives of one synchronisation."""
    start = sum(shares[:rank])
    stop = start + shares[rank]
    metric = CorpusBLEU()
    if stop > start:
        metric.update(corpus[0][start:stop], corpus[1][start:stop])
    local = metric.statistics.clone()
    calls: list[str] = []

    def noting(name: str, call: Any) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return call(*args, **kwargs)

        return noted

    for name in ("all_gather", "all_reduce", "barrier", "all_gather_into_tensor", "all_gather_object", "broadcast"):
        setattr(dist, name, noting(name, getattr(dist, name)))
    value = metric.compute()
    collectives = list(calls)
    return {
        "value": value,
        "report": metric.report(),
        "collectives": collectives,
        "kept": torch.equal(metric.statistics, local),
    }


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("shares", [[20, 17], [37, 0], [0, 37], [12, 13, 12]])
def test_processes_give_the_score_of_one_in_one_gather(shares: list[int], tmp_path: Path) -> None:
    corpus = random_corpus(random.Random(3), 37)
    expected = corpus_bleu(*corpus)
    results = run(len(shares), score_share, tmp_path, corpus, shares)
    for result in results:
        assert result["value"].item() == expected.bleu
        assert result["collectives"] == ["all_gather"]
        assert result["kept"]  # the rank's own counts go on after the synchronisation
        assert result["report"].matches == expected.matches
        assert result["report"].bleu == expected.bleu


def synchronise_every_step(rank: int, world_size: int) -> list[float]:
    batches = [(["a b c d e"], ["a b c d f"]), (["x y z w"], ["x y z w"])]
    metric = CorpusBLEU(dist_sync_on_step=True)
    step = metric(*batches[rank])
    return [step.item(), metric.compute().item()]


def test_synchronisation_on_every_step(tmp_path: Path) -> None:
    expected = corpus_bleu(["a b c d e", "x y z w"], ["a b c d f", "x y z w"]).bleu
    assert run(2, synchronise_every_step, tmp_path) == [[expected, expected]] * 2


def save_merged(rank: int, world_size: int) -> dict[str, Any]:
    metric = CorpusBLEU()
    metric.persistent(True)
    metric.update(["a b c d e"] * (rank + 1), ["a b c d f"] * (rank + 1))
    with metric.sync_context(dist_sync_fn=metric.dist_sync_fn):
        return dict(metric.state_dict())


def test_a_synchronised_state_can_be_saved_and_loaded(tmp_path: Path) -> None:
    for state in run(2, save_merged, tmp_path):
        metric = CorpusBLEU()
        metric.persistent(True)
        metric.load_state_dict(state)
        assert metric.hypothesis_length == 15


def deal(rank: int, world_size: int, corpus: Any, batch_size: int | None) -> dict[str, Any]:
    """Score what a `DistributedSampler` deals to a rank, and collect what only all sentences together can tell."""
    metric = CorpusBLEU(keep_sentences=True)
    pairs: list[Any] = list(zip(*corpus))
    if batch_size is None:  # the items are batches of different sizes
        pairs = [pairs[:5], pairs[5:6], pairs[6:14], pairs[14:]]
    sampler = DistributedSampler(pairs, world_size, rank, shuffle=False) if world_size > 1 else None  # type: ignore[arg-type]
    loader = DataLoader(pairs, batch_size=batch_size, sampler=sampler, collate_fn=list)  # type: ignore[arg-type]
    for batch_idx, batch in enumerate(loader):
        preds, target = zip(*batch)
        metric.update(list(preds), list(target), distributed_mask(loader, batch_idx))
    calls = []
    gather = dist.all_gather
    dist.all_gather = lambda *args, **kwargs: calls.append(1) or gather(*args, **kwargs)
    with metric.sync_context():
        result = {"bleu": metric.report().bleu, "interval": metric.interval(0.9, 200)}
        result["sentences"] = metric.sentence_statistics
    result |= {"collectives": len(calls), "blocks": len(metric.sentences)}
    calls.clear()
    result["again"] = metric.interval(0.9, 200)
    result["collectives of an interval"] = len(calls)
    dist.all_gather = gather
    with contextlib.suppress(KeyError), metric.sync_context():
        raise KeyError
    metric.update(["a"], ["a"])  # its own state is back
    return result


@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_sentences_come_back_in_the_order_of_the_set(processes: int, batch_size: int | None, tmp_path: Path) -> None:
    corpus = random_corpus(random.Random(3), 37)
    alone = CorpusBLEU(keep_sentences=True)
    alone.update(*corpus)
    for result in run(processes, deal, tmp_path, corpus, batch_size):
        assert torch.equal(result["sentences"], alone.sentence_statistics)
        assert result["bleu"] == alone.compute().item()
        assert result["interval"] == result["again"] == alone.interval(0.9, 200)
        # the sums; how many sentences; the sentences
        assert result["collectives"] == result["collectives of an interval"] == 3
        assert result["blocks"] > 0  # the rank's own go on


def keep_nothing(rank: int, world_size: int, empty: list[int]) -> tuple[Any, Any]:
    metric = CorpusBLEU(max_order=2, keep_sentences=True)
    if rank not in empty:
        metric.update([f"a b {rank}", "c"], [f"a b {rank} d", "c"], [True, rank != 1])
    return metric.sentence_statistics.tolist(), metric.compute().item()


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("empty", [[0], [1], [0, 1]])
def test_a_process_without_sentences(empty: list[int], tmp_path: Path) -> None:
    first, second = [3, 2, 3, 2, 3, 4], [1, 0, 1, 0, 1, 1]
    expected = {0: [first], 1: [first, second]}.get(empty[0], []) if len(empty) < 2 else []
    results = run(2, keep_nothing, tmp_path, empty)
    assert [sentences for sentences, _ in results] == [expected] * 2
    assert results[0][1] == results[1][1]


os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
