"""Real processes that talk to each other."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.lightning import PAD_ID, Step, make_module, make_trainer, return_ids

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


class Forked(DDPStrategy):
    """New processes that meet at a file: a port could be taken by another program before they use it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(start_method="forkserver", timeout=timedelta(minutes=2))
        self._file = f"file://{folder}/.store"

    def setup_distributed(self) -> None:
        self.set_world_ranks()
        ranks: dict[str, Any] = {"rank": self.global_rank, "world_size": self.world_size}
        dist.init_process_group("gloo", self._file, timedelta(minutes=2), **ranks)
        super().setup_distributed()


class Write(pl.Callback):
    """Saves what a process has logged, scored, and warned about."""

    def __init__(self, folder: Path, bleu: BLEUCallback) -> None:
        self.folder, self.bleu = folder, bleu

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._context = warnings.catch_warnings(record=True)
        self._caught = self._context.__enter__()
        warnings.simplefilter("always")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._context.__exit__(None, None, None)
        content = {
            "logged": {key: value.item() for key, value in trainer.callback_metrics.items()},
            "results": self.bleu.results,
            "panels": getattr(trainer.logger, "panels", []),
            "worst": getattr(trainer.logger, "worst", []),
            "warnings": [str(warning.message) for warning in self._caught or ()],
        }
        torch.save(content, self.folder / f"{trainer.global_rank}.pt")


def validate_in_processes(
    processes: int,
    loaders: dict[str, Any],
    folder: Path,
    *,
    step: Step = return_ids,
    callback_options: dict[str, Any] | None = None,
    **trainer_options: Any,
) -> list[dict[str, Any]]:
    """What each process has logged, scored, and warned about of several loaders; see :class:`Write`."""
    options: dict[str, Any] = {"metrics": CorpusBLEU(pad_id=PAD_ID), "dataloader_names": [*loaders]}
    bleu = BLEUCallback(**options | (callback_options or {}))
    trainer_options |= {"strategy": Forked(folder), "devices": processes}
    trainer = make_trainer(folder, bleu, Write(folder, bleu), **trainer_options)
    trainer.validate(make_module(step=step), list(loaders.values()), verbose=False)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(processes)]
