"""The callback's confidence intervals and comparisons with the best validation, in real trainers."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    Record,
    fit,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
)

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))
RIGHT = [0.6, 0.75, 0.755, 0.76, 0.765, 0.77]
"""The share of right words in each epoch: one clear gain, then many that could be chance."""


def translate(sentences: Tensor, epoch: int) -> Tensor:
    luck = torch.rand(sentences.shape, generator=torch.Generator().manual_seed(epoch + len(sentences)))
    return torch.where(luck < RIGHT[epoch], sentences, 99)


def step(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    return translate(batch, epoch), batch


def copy_target(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    return batch, batch


def score_epoch(epoch: int) -> float:
    """The score of the validation of an epoch, counted batch by batch as the callback does."""
    metric = CorpusBLEU(pad_id=PAD_ID)
    for batch in make_loader(SENTENCES):
        metric.update(translate(batch, epoch), batch)
    return metric.compute().item()


def kept_score(bleu: BLEUCallback) -> float:
    """The score of the best validation that a callback keeps."""
    ((loader, best),) = bleu.state_dict()["best"]["val_bleu"].items()
    assert loader == ""
    return CorpusBLEU(pad_id=PAD_ID).scorer.score(best["statistics"].sum(0)).item()


def fit_and_record(folder: Path, *callbacks: Any, epochs: int = len(RIGHT), **options: Any) -> Record:
    """What was logged in a training of the toy module."""
    record = Record()
    fit(folder, *callbacks, record, step=step, loaders=make_loader(SENTENCES), max_epochs=epochs, **options)
    return record


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_a_resumed_run_is_compared_with_the_best_before_it(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    options: dict[str, Any] = {"log_name": "{stage}/own/{metric}", "compare_to": "best"}
    whole = fit_and_record(tmp_path, make_callback(**options), epochs=6, namespace=namespace)
    for number, (epochs, path) in enumerate([(4, None), (6, tmp_path / "0" / "last.ckpt")]):
        other = BLEUCallback(CorpusBLEU(max_order=2, pad_id=PAD_ID), compare_to="best")  # keeps a best of its own
        checkpoint = callbacks.ModelCheckpoint(tmp_path / str(number), filename="last")
        run = [make_callback(**options), other, checkpoint]
        record = fit_and_record(tmp_path, *run, epochs=epochs, ckpt_path=path, namespace=namespace)
        start = 4 * number
        for name in ("val/own/bleu/p_value", "val/own/bleu/best"):
            assert record.column(name) == whole.column(name)[start:epochs]
    state = torch.load(tmp_path / "1" / "last.ckpt", weights_only=True)["callbacks"]
    kept: dict[str, Any] = {}
    for key, one in state.items():
        if key.startswith("BLEUCallback"):
            kept |= one["best"]
    # 60 sentences with 2 * max_order + 2 statistics each
    assert {tag: loaders[""]["statistics"].shape for tag, loaders in kept.items()} == {
        "val/own/bleu": (60, 10),
        "val_bleu": (60, 6),
    }
    assert {loaders[""]["statistics"].dtype for loaders in kept.values()} == {torch.int32}


def test_the_sanity_check_and_validate_and_test_do_not_change_the_best(tmp_path: Path) -> None:
    bleu, record = make_callback(confidence=0.95, compare_to="best"), Record()
    trainer = make_trainer(tmp_path, bleu, record, max_epochs=1, num_sanity_val_steps=-1)
    loader = make_loader(SENTENCES)
    trainer.fit(make_module(step=step), loader, loader)
    assert record.logged[0]["val_bleu/p_value"] == 1
    best = score_epoch(0)
    perfect = make_module(step=copy_target)
    (validated,) = trainer.validate(perfect, loader, verbose=False)
    assert validated["val_bleu/p_value"] < 0.01
    assert validated["val_bleu/best"] == 1
    (tested,) = trainer.test(perfect, loader, verbose=False)
    assert {"test_bleu/low", "test_bleu/high"} < set(tested)
    assert not {"test_bleu/p_value", "test_bleu/best"} & set(tested)
    assert kept_score(bleu) == best

    trainer = make_trainer(tmp_path, bleu, record := Record(), max_epochs=1)
    trainer.fit(perfect, loader, loader)  # only a fit replaces the best
    assert record.column("val_bleu/p_value") == [validated["val_bleu/p_value"]]
    assert kept_score(bleu) == 1


def test_a_checkpoint_that_is_validated_or_tested_does_not_change_the_best(tmp_path: Path) -> None:
    bleu = make_callback(compare_to="best")
    checkpoint = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    record = fit_and_record(tmp_path, bleu, checkpoint, epochs=3)
    best = max(record.column("val_bleu"))
    trainer = make_trainer(tmp_path, bleu)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checkpoint has the state of another callback
        trainer.test(make_module(step=step), make_loader(SENTENCES), ckpt_path=tmp_path / "epoch=0.ckpt", verbose=False)
    trainer.validate(make_module(step=step), make_loader(SENTENCES), verbose=False)
    assert trainer.callback_metrics["val_bleu/best"] == best
