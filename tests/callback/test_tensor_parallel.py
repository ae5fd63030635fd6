"""Model parallelism: several processes have the same sentences, which count once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.strategies import ModelParallelStrategy

from tests.helpers.lightning import (
    Items,
    ToyModule,
    expected_score,
    make_callback,
    make_loader,
    make_trainer,
)
from tests.helpers.process_groups import run_in_processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.__version__ < "2.4", reason="since torch 2.4"),
]


class ShardedModule(ToyModule):
    """A module that the strategy accepts."""

    def configure_model(self) -> None:
        """The strategy requires it."""


def validate_in_parallel(folder: Path, data_parallel_size: int, tensor_parallel_size: int) -> Any:
    """Validate in one of the processes, and return its report."""
    strategy: Any = ModelParallelStrategy(
        data_parallel_size=data_parallel_size,
        tensor_parallel_size=tensor_parallel_size,
        save_distributed_checkpoint=False,
    )
    bleu = make_callback(translations=folder)
    trainer = make_trainer(folder, bleu, strategy=strategy, devices=data_parallel_size * tensor_parallel_size)
    trainer.validate(ShardedModule(), make_loader(Items(37)), verbose=False)
    report: dict[str, Any] = bleu.results["val_bleu"].report.to_dict()
    return report


@pytest.mark.parametrize(("data_parallel_size", "tensor_parallel_size"), [(1, 2), (2, 2)])
def test_a_sentence_counts_once_with_tensor_parallelism(
    data_parallel_size: int, tensor_parallel_size: int, tmp_path: Path
) -> None:
    processes = data_parallel_size * tensor_parallel_size
    reports = run_in_processes(processes, validate_in_parallel, tmp_path, data_parallel_size, tensor_parallel_size)
    assert reports == [expected_score(sentences=Items(37).sentences).to_dict()] * processes
    assert len((tmp_path / "val" / "step-0000000.txt").read_text().splitlines()) == 37
