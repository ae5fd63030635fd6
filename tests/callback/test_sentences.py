"""The sentences that the callback shows and writes: samples, sources, and translations as files."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.corpora import read_lines
from tests.helpers.files import read_files, read_scores
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    SENTENCES,
    PanelLogger,
    as_lines,
    fit,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    return_text,
    translate,
    validate,
)

HYPOTHESES, REFERENCES = as_lines(translate(SENTENCES)), as_lines(SENTENCES)
SOURCES = [f"source of {line}" for line in REFERENCES]


def return_sources(batch: Tensor, epoch: int) -> dict[str, Any]:
    """Translations, references, and source sentences as text."""
    hypotheses, references = return_text(batch, epoch)
    return {"preds": hypotheses, "target": references, "source": [f"source of {line}" for line in references]}


# Samples


def test_the_same_samples_are_in_the_results_without_a_logger(tmp_path: Path) -> None:
    bleu = BLEUCallback(samples=2)
    trainer = fit(tmp_path, bleu, step=return_sources, logger=False, max_epochs=2)
    trainer.test(trainer.lightning_module, make_loader())
    val, test = bleu.results.samples["val"], bleu.results.samples["test"]
    for samples in (val, test):
        rows = [(one.index, one.source, one.references) for one in samples.first]
        assert rows == [(i, SOURCES[i], [REFERENCES[i]]) for i in range(2)]
    copied = copy.deepcopy(bleu).results
    assert (copied, copied.samples) == (bleu.results, bleu.results.samples)


def test_a_trainer_can_be_copied_during_training(tmp_path: Path) -> None:
    class Copy(Callback):
        copies: ClassVar[list[Any]] = []

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self.copies.append(copy.deepcopy(trainer.callbacks[0]))

    trainer = fit(tmp_path, make_callback(), Copy(), logger=TensorBoardLogger(tmp_path), max_epochs=1)
    assert Copy.copies[-1].results == trainer.callbacks[0].results != {}


# Translations


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_validation_and_test_writes_its_translations(namespace: str, tmp_path: Path) -> None:
    folder = tmp_path / "translations"
    bleu = make_callback(translations=str(folder))
    trainer = make_trainer(tmp_path, bleu, namespace=namespace, max_epochs=2, num_sanity_val_steps=1)
    module = make_module(namespace, return_sources)
    trainer.fit(module, make_loader(), make_loader())
    trainer.test(module, make_loader(), verbose=False)
    # 37 sentences in batches of 7 are 6 steps; the module is better in epoch 1.
    written = read_files(folder)
    places = {"val/step-0000006": 0, "val/step-0000012": 1, "test/step-0000012": 2}
    names = ("hyp.txt", "ref.txt", "scores.json", "sentences.jsonl", "src.txt")
    assert {*written} == {f"{place}/{name}" for place in places for name in names}
    for place, epoch in places.items():
        lines = [read_lines(folder / place / f"{name}.txt") for name in ("hyp", "ref", "src")]
        assert lines == [as_lines(translate(SENTENCES, epoch)), REFERENCES, SOURCES]
    scores = sorted(read_scores(folder), key=lambda score: (score["step"], score["stage"] == "test"))
    assert [(score["step"], score["key"]) for score in scores] == [(6, "val_bleu"), (12, "val_bleu"), (12, "test_bleu")]
    assert scores[-1]["score"] == bleu.results["test_bleu"].score


@pytest.mark.parametrize("options", [{"fast_dev_run": True}, {"max_epochs": 0}])
def test_a_trial_run_writes_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    fit(tmp_path, make_callback(translations=tmp_path / "t"), **options)
    assert list(tmp_path.rglob("*.txt")) == []


def test_weights_of_a_checkpoint_are_at_its_step(tmp_path: Path) -> None:
    bleu = make_callback(translations=tmp_path / "t")
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_bleu", mode="min", filename="{step}")  # the first is the worst
    module, folder = make_module(step=return_text), tmp_path / "t" / "val"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a low score is not what anyone wants
        trainer = fit(tmp_path, bleu, checkpoint, module=module, max_epochs=2)
        trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
        assert Path(checkpoint.best_model_path).name == "step=6.ckpt"
        last = read_files(folder / "step-0000012")
        trainer.validate(module, make_loader(), ckpt_path="best", verbose=False)
        # The toy module translates better in its third epoch.
        assert {path.name for path in folder.iterdir()} == {"step-0000006", "step-0000006-2", "step-0000012"}
        trainer.validate(module, make_loader(SENTENCES[:3]), verbose=False)  # the module still has these weights
        assert len(read_lines(folder / "step-0000006-3" / "hyp.txt")) == 3
        assert read_files(folder / "step-0000012") == last
        trainer.validate(make_module(step=return_text), make_loader(SENTENCES[:2]), verbose=False)  # another module
        assert len(read_lines(folder / "step-0000012-2" / "hyp.txt")) == 2
        other = make_trainer(tmp_path, bleu)
        other.test(module, make_loader(), ckpt_path=checkpoint.best_model_path, verbose=False)
        assert (tmp_path / "t" / "test" / "step-0000006").exists()
        other = make_trainer(tmp_path, make_callback(translations=tmp_path / "t"))
        other.test(make_module(step=return_text), make_loader(), ckpt_path=tmp_path / "weights.ckpt", verbose=False)
        stepless = torch.load(checkpoint.best_model_path, weights_only=False)
        del stepless["global_step"]
        torch.save(stepless, tmp_path / "stepless.ckpt")
        other.test(make_module(step=return_text), make_loader(), ckpt_path=tmp_path / "stepless.ckpt", verbose=False)
    places = sorted((line["stage"], line["step"], line["epoch"] or 0) for line in read_scores(tmp_path / "t"))
    assert places == [("test", 0, 0), ("test", 6, 0), *[("val", 6, 0)] * 3, ("val", 12, 1), ("val", 12, 2)]


@pytest.mark.parametrize("resumed", [True, False])
def test_weights_are_at_their_step_in_a_fit_after_a_validation_of_a_checkpoint(resumed: bool, tmp_path: Path) -> None:
    path = tmp_path / "6.ckpt"
    fit(tmp_path, step=return_text, max_epochs=1).save_checkpoint(path)
    bleu, module = make_callback(translations=tmp_path / "t"), make_module(step=return_text)
    trainer = make_trainer(tmp_path, bleu, max_epochs=1 + resumed)
    trainer.validate(module, make_loader(), ckpt_path=path, verbose=False)  # is no obstacle
    trainer.fit(module, make_loader(), make_loader(), ckpt_path=path if resumed else None)
    trainer.test(module, make_loader(), verbose=False)
    places = {path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").rglob("step-*")}
    last = "step-0000012" if resumed else "step-0000006"
    assert places == {"val/step-0000006", f"val/{last}", f"test/{last}"}


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere/at/all")])
def test_a_folder_that_cannot_be_written_is_an_error_before_the_training(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "t")
    trainer = make_trainer(tmp_path, make_callback(translations=tmp_path / "t" / "x"))
    with pytest.raises(ValueError, match=r"'translations' must be a folder for files, got '.*t/x/val': "):
        trainer.fit(make_module(), make_loader(), make_loader())
    assert trainer.global_step == 0


def test_translations_are_written_to_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    validate(tmp_path, make_callback(translations="~/t"), step=return_text)
    assert read_lines(tmp_path / "t" / "val" / "step-0000000" / "ref.txt") == REFERENCES


def test_sources_that_cannot_be_decoded_are_an_error_in_the_sanity_check(tmp_path: Path) -> None:
    def decode(rows: list[list[int]]) -> list[str]:
        return [" ".join("abcdefghij"[i] for i in row) for row in rows]

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return {"preds": batch, "target": batch, "source": batch + 100}

    bleu = BLEUCallback(CorpusBLEU(pad_id=PAD_ID, decoder=decode))
    trainer = make_trainer(tmp_path, bleu, logger=PanelLogger(tmp_path))
    with pytest.raises(IndexError):
        trainer.fit(make_module(step=step), make_loader(), make_loader())
    assert trainer.global_step == 0


# Several processes
