"""Real processes that talk to each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.lightning import PAD_ID, Step, make_module, make_trainer, return_ids

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


class Write(pl.Callback):
    """Saves what a process has logged and counted."""

    def __init__(self, folder: Path, bleu: BLEUCallback) -> None:
        self.folder, self.bleu = folder, bleu

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        content = {
            "logged": {key: value.item() for key, value in trainer.callback_metrics.items()},
            "reports": self.bleu.reports,
            "intervals": self.bleu.intervals,
            "panels": getattr(trainer.logger, "panels", []),
            "worst": getattr(trainer.logger, "worst", []),
        }
        torch.save(content, self.folder / f"{trainer.global_rank}.pt")


def validate_in_processes(
    processes: int,
    loaders: dict[str, Any],
    folder: Path,
    *,
    step: Step = return_ids,
    callback_options: dict[str, Any] | None = None,
    start_method: Literal["spawn", "forkserver"] = "forkserver",
    **trainer_options: Any,
) -> list[dict[str, Any]]:
    """What each process has logged and counted of several loaders, see :class:`Write`.

    Only spawned processes write to the `stderr` that `capfd` reads.
    """
    options: dict[str, Any] = {"metric": CorpusBLEU(pad_id=PAD_ID), "dataloader_names": [*loaders]}
    bleu = BLEUCallback(**options | (callback_options or {}))
    strategy = DDPStrategy(start_method=start_method)
    trainer = make_trainer(folder, bleu, Write(folder, bleu), strategy=strategy, devices=processes, **trainer_options)
    trainer.validate(make_module(step=step), list(loaders.values()), verbose=False)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(processes)]
