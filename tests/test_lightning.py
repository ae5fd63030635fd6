"""A real Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader

from lightning_bleu import CorpusBLEU, corpus_bleu

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*The number of training batches"),
    pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)"),
    pytest.mark.filterwarnings("ignore:.*`pin_memory`|.*'pin_memory'"),
]

SENTENCES = torch.randint(3, 9, (30, 8), generator=torch.Generator().manual_seed(0))


class Echo(pl.LightningModule):
    """Says what it was given, and gets one word more right in every epoch."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.bleu = CorpusBLEU(pad_id=0, **options)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[int] = []

    def translate(self, batch: torch.Tensor) -> torch.Tensor:
        right = torch.arange(batch.shape[1]) < 4 + self.current_epoch
        return torch.where(right, batch, 99)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.weight.sum()

    def validation_step(self, batch: torch.Tensor) -> None:
        self.bleu.update(self.translate(batch), batch)
        self.log("val_bleu", self.bleu, prog_bar=True)

    def on_validation_epoch_end(self) -> None:
        self.seen.append(int(self.bleu.hypothesis_length))

    def test_step(self, batch: torch.Tensor) -> None:
        self.bleu(self.translate(batch), batch)
        self.log("test_bleu", self.bleu)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def loader() -> Any:
    return DataLoader(SENTENCES, batch_size=7)  # type: ignore[arg-type]


def expected(epoch: int, sentences: torch.Tensor = SENTENCES) -> float:
    right = torch.arange(8) < 4 + epoch
    return corpus_bleu(torch.where(right, sentences, 99), sentences).bleu


def trainer(tmp_path: Path, **options: Any) -> pl.Trainer:
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 4,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": TensorBoardLogger(tmp_path, name="run", version=""),
        "default_root_dir": tmp_path,
    }
    return pl.Trainer(**defaults | options)


def test_the_logged_score_is_that_of_each_epoch(tmp_path: Path) -> None:
    model = Echo()
    checkpoint = ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = EarlyStopping("val_bleu", mode="max", stopping_threshold=expected(2) - 1e-6)
    fitting = trainer(tmp_path, callbacks=[checkpoint, stopping])
    fitting.fit(model, loader(), loader())

    assert fitting.current_epoch == 3  # stopped after epochs 0, 1, 2
    assert checkpoint.best_model_score == pytest.approx(expected(2))
    # the sanity check scored two batches, and left nothing behind
    assert model.seen == [14 * 8, 30 * 8, 30 * 8, 30 * 8]
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    logged = [event.value for event in events.Scalars("val_bleu")]
    assert logged == pytest.approx([expected(0), expected(1), expected(2)])

    (result,) = fitting.test(model, loader(), verbose=False)  # as good as epoch 3 would have been
    assert result == {"test_bleu": pytest.approx(expected(3))}


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_a_resumed_run_starts_its_epoch_afresh(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    fitting = trainer(tmp_path, max_epochs=2, callbacks=[ModelCheckpoint(folder, save_last=True)])
    fitting.fit(Echo(), loader(), loader())
    resumed = trainer(tmp_path, max_epochs=3, callbacks=[ModelCheckpoint(folder, save_last=True)])
    resumed.fit(Echo(), loader(), loader(), ckpt_path=folder / "last.ckpt", weights_only=False)
    assert resumed.callback_metrics["val_bleu"].item() == pytest.approx(expected(2))


def test_validation_within_an_epoch(tmp_path: Path) -> None:
    model = Echo()
    fitting = trainer(tmp_path, max_epochs=2, val_check_interval=2, num_sanity_val_steps=-1)
    fitting.fit(model, loader(), loader())
    assert model.seen == [30 * 8] * 5
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    logged = [event.value for event in events.Scalars("val_bleu")]
    assert logged == pytest.approx([expected(0)] * 2 + [expected(1)] * 2)


def test_half_precision(tmp_path: Path) -> None:
    model = Echo()
    fitting = trainer(tmp_path, precision="bf16-true", max_epochs=1)
    fitting.fit(model, loader(), loader())
    assert fitting.callback_metrics["val_bleu"].item() == pytest.approx(expected(0))
    assert model.bleu.statistics.dtype == torch.int64


@pytest.mark.filterwarnings("ignore:.*DistributedSampler")
def test_two_processes(tmp_path: Path) -> None:
    """30 sentences on two processes: 15 each, none of them twice."""
    fitting = trainer(tmp_path, strategy="ddp_spawn", devices=2, max_epochs=1, num_sanity_val_steps=0)
    fitting.fit(Echo(), loader(), loader())
    assert fitting.callback_metrics["val_bleu"].item() == pytest.approx(expected(0), abs=1e-7)
