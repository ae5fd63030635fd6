"""Real processes."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from lightning_bleu import CorpusBLEU, corpus_bleu
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


os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
