"""The metric in a LightningModule that owns, updates, and logs it, in real trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torch import Tensor

from lightning_bleu import CorpusBLEU, distributed_mask
from tests.helpers.lightning import (
    PAD_ID,
    SENTENCES,
    ToyModule,
    as_lines,
    expected_score,
    make_callback,
    make_loader,
    make_trainer,
    read_events,
    translate,
)
from tests.helpers.processes import Forked


class MetricModule(ToyModule):
    """A toy module with a metric. It gets one more token right in every epoch, see :func:`translate`."""

    def __init__(self, pad_id: int | None = PAD_ID) -> None:
        super().__init__()
        self.bleu = CorpusBLEU(pad_id=pad_id)
        self.lengths: list[int] = []

    def validation_step(self, batch: Tensor, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.bleu.update(translate(batch, self.current_epoch), batch)
        self.log("val_bleu", self.bleu, prog_bar=True)

    def on_validation_epoch_end(self) -> None:
        self.lengths.append(int(self.bleu.hypothesis_length))

    def test_step(self, batch: Tensor, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.bleu(translate(batch, self.current_epoch), batch)
        self.log("test_bleu", self.bleu)


def test_the_logged_score_is_that_of_each_epoch(tmp_path: Path) -> None:
    module = MetricModule()
    checkpoint = ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = EarlyStopping("val_bleu", mode="max", stopping_threshold=expected_score(2).bleu - 1e-6)
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    trainer = make_trainer(tmp_path, checkpoint, stopping, logger=logger, max_epochs=4)
    trainer.fit(module, make_loader(), make_loader())

    assert trainer.current_epoch == 3  # stopped after epochs 0, 1, 2
    assert checkpoint.best_model_score == pytest.approx(expected_score(2).bleu)
    # The sanity check scored two batches of 7, and left nothing behind.
    assert module.lengths == [14 * 8, 37 * 8, 37 * 8, 37 * 8]
    scores = [event.value for event in read_events(tmp_path / "run").Scalars("val_bleu")]
    assert scores == pytest.approx([expected_score(epoch).bleu for epoch in range(3)])

    (result,) = trainer.test(module, make_loader(), verbose=False)  # the module is as good as in epoch 3
    assert result == {"test_bleu": pytest.approx(expected_score(3).bleu)}


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_a_resumed_run_starts_its_epoch_without_sentences(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    trainer = make_trainer(tmp_path, ModelCheckpoint(folder, save_last=True), max_epochs=2)
    trainer.fit(MetricModule(), make_loader(), make_loader())
    resumed = make_trainer(tmp_path, ModelCheckpoint(folder, save_last=True), max_epochs=3)
    resumed.fit(MetricModule(), make_loader(), make_loader(), ckpt_path=folder / "last.ckpt")
    assert resumed.callback_metrics["val_bleu"].item() == pytest.approx(expected_score(2).bleu)


@pytest.mark.parametrize("precision", ["32-true", "bf16-true", "64-true"])
def test_the_metric_and_the_callback_log_the_same_value_in_64_bits(precision: Any, tmp_path: Path) -> None:
    name = "{stage}_callback_{metric}"
    callback = make_callback(log_name=name, parts=True, extract=lambda outputs, batch: (translate(batch), batch))
    trainer = make_trainer(tmp_path, callback, precision=precision)
    trainer.validate(MetricModule(), make_loader(), verbose=False)
    expected = torch.tensor(expected_score().bleu, dtype=torch.float64)
    assert expected != expected.float()  # so 32 bits would show
    for name in ("val_bleu", "val_callback_bleu"):
        logged = trainer.callback_metrics[name]
        assert (logged.dtype, logged.item()) == (torch.float64, expected.item())
    parts = {name: value for name, value in trainer.callback_metrics.items() if name.startswith("val_callback_bleu/")}
    assert parts["val_callback_bleu/precision_3"].item() == expected_score().precisions[2]
    assert {value.dtype for value in parts.values()} == {torch.float64}
    assert trainer.lightning_module.bleu.statistics.dtype == torch.int64


def translate_unevenly(sentences: Tensor) -> Tensor:
    """Right in as many tokens as the first one says, 3 to 8."""
    return torch.where(torch.arange(sentences.shape[1]) < sentences[:, :1], sentences, 99)


class MaskedModule(MetricModule):
    """A module in which each sentence counts once."""

    def validation_step(self, batch: Tensor, batch_idx: int, dataloader_idx: int = 0) -> None:
        mask = distributed_mask(self.trainer.val_dataloaders, batch_idx)
        self.bleu.update(translate_unevenly(batch), batch, sample_mask=mask)
        self.log("val_bleu", self.bleu)


def score_with_sacrebleu(sentences: Tensor) -> float:
    lines = as_lines(translate_unevenly(sentences))
    references = as_lines(sentences)
    return float(SacreBLEU(tokenize="none").corpus_score(lines, [references]).score) / 100


@pytest.mark.slow
def test_two_processes_score_an_odd_number_of_sentences_as_sacrebleu_does(tmp_path: Path) -> None:
    """Although Lightning's sampler repeats one of them."""
    trainer = make_trainer(tmp_path, strategy=Forked(tmp_path), devices=2)
    (logged,) = trainer.validate(MaskedModule(), make_loader(shuffle=True), verbose=False)
    expected = score_with_sacrebleu(SENTENCES)
    assert logged["val_bleu"] == pytest.approx(expected, rel=1e-15)
    for sentence in SENTENCES:
        repeated = torch.cat([SENTENCES, sentence[None]])
        assert abs(score_with_sacrebleu(repeated) - expected) > 1e-6
