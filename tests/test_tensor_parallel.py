"""Model parallelism: several processes have the same sentences, which count once.

torchrun starts this module in each process; see :func:`main`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import ModelParallelStrategy

from tests.helpers.lightning import (
    Items,
    ToyModule,
    expected_score,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_trainer,
)

pytestmark = [*ignore_lightning_warnings, pytest.mark.slow]


class ShardedModule(ToyModule):
    """A module that the strategy accepts."""

    def configure_model(self) -> None:
        """The strategy requires it."""


def main(folder: Path, data_parallel_size: int, tensor_parallel_size: int) -> None:
    """Validate in one of the processes."""
    strategy: Any = ModelParallelStrategy(
        data_parallel_size=data_parallel_size,
        tensor_parallel_size=tensor_parallel_size,
        save_distributed_checkpoint=False,
    )
    bleu = make_callback(translations=folder)
    trainer = make_trainer(folder, bleu, strategy=strategy, devices=data_parallel_size * tensor_parallel_size)
    trainer.validate(ShardedModule(), make_loader(Items(37)), verbose=False)
    torch.save(bleu.reports["val_bleu"].to_dict(), folder / f"{dist.get_rank()}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize(("data_parallel_size", "tensor_parallel_size"), [(1, 2), (2, 2)])
def test_a_sentence_counts_once_with_tensor_parallelism(
    data_parallel_size: int, tensor_parallel_size: int, tmp_path: Path
) -> None:
    processes = data_parallel_size * tensor_parallel_size
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["-m", __name__, str(tmp_path), str(data_parallel_size), str(tensor_parallel_size)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    expected = expected_score(sentences=Items(37).sentences).to_dict()
    for rank in range(processes):
        assert torch.load(tmp_path / f"{rank}.pt") == expected
    assert len((tmp_path / "val_bleu" / "step-0000000.txt").read_text().splitlines()) == 37


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
