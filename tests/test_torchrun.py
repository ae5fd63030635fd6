"""Two nodes, each with its own torchrun, as on a cluster: the scores are those of one process.

torchrun starts this module in each process; see :func:`main`.
"""

from __future__ import annotations

import faulthandler
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import CorpusBLEU, corpus_bleu, distributed_mask
from tests.helpers.corpora import random_corpus
from tests.helpers.lightning import Items, make_callback, make_loader, make_module, make_trainer
from tests.helpers.process_groups import TIME_LIMIT, make_store
from tests.helpers.processes import Write

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[1]
SIZES = [1, 5, 37, 42]
"""The numbers of sentences: some of them cannot be divided by two, and one is smaller."""


# The two nodes


def run_on_two_nodes(folder: Path) -> None:
    """Call :func:`main` in two processes, one on each node. On both, its local rank is 0."""
    store = make_store()
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{store.port}", "--rdzv-id", "bleu"]
    command += ["--rdzv-conf", "is_host=false", "--local-addr", "127.0.0.1"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    logs = [folder / f"node-{node}.log" for node in range(2)]
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for node, log in enumerate(logs):
            arguments = [*command, "--node-rank", str(node), "-m", __name__, str(folder)]
            with log.open("wb") as output:
                nodes.append(
                    subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
                )
        end = time.monotonic() + TIME_LIMIT + 30
        while time.monotonic() < end and None in [node.poll() for node in nodes]:
            if any(node.returncode for node in nodes):
                break
            time.sleep(0.05)
        codes = [node.poll() for node in nodes]
    finally:
        stop(nodes)
    assert codes == [0, 0], "\n".join(log.read_text(errors="replace") for log in logs)


def stop(nodes: list[subprocess.Popen[bytes]]) -> None:
    """End nodes that are still running. torchrun ends the processes of its node when it is terminated."""
    for process in nodes:
        process.terminate()
    for process in nodes:
        try:
            process.wait(40)  # torchrun kills its processes after 30 seconds
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(folder: Path) -> None:
    """Do the work of one process: first with Lightning, which starts the group, and then without it."""
    faulthandler.dump_traceback_later(TIME_LIMIT, exit=True)
    validate_with_lightning(folder)
    content = score_with_pytorch(DistributedDataParallel(Model()))  # freed before its group ends
    torch.save(content, folder / f"pytorch-{dist.get_rank()}.pt")
    time.sleep(0.5)  # up to torch 2.6, nothing may end while a thread of gloo waits for the GIL to free a tensor
    dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


def place() -> tuple[int, ...]:
    """The node of this process, its number there, and its number among all processes."""
    return tuple(int(os.environ[name]) for name in ("GROUP_RANK", "LOCAL_RANK", "RANK"))


PLACES = [(0, 0, 0), (1, 0, 1)]


# With PyTorch alone


class Model(torch.nn.Module):
    """A model that owns its metric."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.bleu = CorpusBLEU()

    def forward(self, batch: list[Any], mask: Tensor | None) -> None:
        preds, target = zip(*batch)
        self.bleu.update(list(preds), list(target), mask)


def score_with_pytorch(model: DistributedDataParallel) -> dict[str, Any]:
    """Score sets of several sizes, of which each process has a share."""
    bleu = model.module.bleu
    content: dict[str, Any] = {"place": place()}
    for size in SIZES:
        items: Any = list(zip(*random_corpus(random.Random(size), size)))
        sampler: Any = DistributedSampler(items, shuffle=False)  # repeats some to even out the processes
        loader = DataLoader(items, batch_size=4, sampler=sampler, collate_fn=list)
        for batch_idx, batch in enumerate(loader):
            model(batch, distributed_mask(loader, batch_idx))
        content[str(size)] = bleu.compute().item(), bleu.report()
        bleu.reset()
    return content


# With Lightning


def return_uneven(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    """Sentences that are translated more or less well."""
    return torch.where(torch.arange(batch.shape[1]) < batch[:, :1], batch, 99), batch


def make_loaders() -> dict[str, Any]:
    """Loaders of several sizes, and one whose items are batches."""
    loaders = {str(size): make_loader(Items(size), batch_size=4) for size in SIZES}
    return loaders | {"unbatched": make_loader([Items(size).sentences for size in (5, 9, 3)], batch_size=None)}


def validate(folder: Path, **options: Any) -> Any:
    """Validate with the callback, and save what it logged in the folder."""
    loaders = make_loaders()
    bleu = make_callback(dataloader_names=[*loaders], confidence=0.95)
    trainer = make_trainer(folder, bleu, Write(folder, bleu), **options)
    trainer.validate(make_module(step=return_uneven), [*loaders.values()], verbose=False)
    return trainer


def validate_with_lightning(folder: Path) -> None:
    """Validate on two nodes."""
    trainer = validate(folder, strategy="ddp", num_nodes=2, devices=1)
    assert trainer.world_size == 2
    assert (trainer.node_rank, trainer.local_rank, trainer.global_rank) == place() == PLACES[trainer.global_rank]


# The test


def test_every_process_on_two_nodes_has_the_results_of_one(tmp_path: Path) -> None:
    run_on_two_nodes(tmp_path)
    with_lightning, with_pytorch = (
        [torch.load(tmp_path / f"{prefix}{rank}.pt", weights_only=False) for rank in range(2)]
        for prefix in ("", "pytorch-")
    )

    (tmp_path / "alone").mkdir()
    validate(tmp_path / "alone")
    expected = torch.load(tmp_path / "alone" / "0.pt", weights_only=False)
    scores = [expected["logged"][f"val_bleu/{name}"] for name in make_loaders()]
    assert expected["logged"]["val_bleu"] == math.fsum(scores) / len(scores)
    assert 0 < min(scores) < max(scores) < 1
    assert with_lightning == [expected] * 2

    assert [content["place"] for content in with_pytorch] == PLACES
    for size in SIZES:
        alone = corpus_bleu(*random_corpus(random.Random(size), size))
        assert 0 < alone.bleu < 1 or size == 1
        for content in with_pytorch:
            assert content[str(size)] == (alone.bleu, alone)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
