"""What a run records with the callback: where, under which names, and what if it is run again."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import sacrebleu
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from lightning_bleu import __version__
from tests.helpers.lightning import (
    SENTENCES,
    PanelLogger,
    Record,
    ToyModule,
    as_lines,
    collect_warnings,
    expected_score,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
    return_ids,
    return_text,
    translate,
    validate,
)

pytestmark = ignore_lightning_warnings

STEPS = 6
"""37 sentences in batches of 7 are 6 steps per epoch."""


def fit(folder: Path, *callbacks: Any, module: Any = None, loaders: Any = None, **options: Any) -> Any:
    """The trainer after a fit."""
    trainer = make_trainer(folder, *callbacks, **{"max_epochs": 1} | options)
    trainer.fit(module or make_module(), make_loader(), make_loader() if loaders is None else loaders)
    return trainer


def continue_fit(trainer: Any, max_epochs: int) -> None:
    trainer.fit_loop.max_epochs = max_epochs
    trainer.fit(trainer.lightning_module, make_loader(), make_loader())


def translations_in(folder: Path) -> dict[str, str]:
    """The hypotheses in a folder, by the names of the files."""
    return {path.name: path.read_text() for path in sorted(folder.glob("step-*.txt"))}


def as_file(sentences: Tensor) -> str:
    return "".join(f"{line}\n" for line in as_lines(sentences))


def read_scores(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]


# The folder of a run


@pytest.mark.parametrize("has_logger", [True, False])
def test_translations_of_a_run_are_beside_its_checkpoints(has_logger: bool, tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name="name") if has_logger else False
    checkpoint = ModelCheckpoint()
    fit(tmp_path, make_callback(translations=True), checkpoint, logger=logger)
    assert checkpoint.dirpath is not None
    folder = tmp_path / "name" / "version_0" if has_logger else tmp_path
    assert Path(checkpoint.dirpath) == folder / "checkpoints"
    assert list(translations_in(folder / "translations" / "val")) == ["step-0000006.txt"]
    assert list(tmp_path.rglob("step-*.txt")) == list((folder / "translations").rglob("step-*.txt"))
    assert (folder / "translations" / "scores.jsonl").exists()


def test_each_run_of_a_logger_has_a_folder(tmp_path: Path) -> None:
    for _ in range(2):
        fit(tmp_path, make_callback(translations=True), logger=TensorBoardLogger(tmp_path))
    folders = [tmp_path / "lightning_logs" / f"version_{version}" / "translations" for version in range(2)]
    assert [len(read_scores(folder)) for folder in folders] == [1, 1]


def test_a_new_run_among_the_translations_of_another_is_an_error(tmp_path: Path) -> None:
    fit(tmp_path, make_callback(translations=tmp_path / "t"))
    before = translations_in(tmp_path / "t" / "val")
    with pytest.raises(ValueError, match=r"has the translations of another training run: use another folder .*resume"):
        fit(tmp_path, make_callback(translations=tmp_path / "t"))
    assert translations_in(tmp_path / "t" / "val") == before


def test_a_resumed_run_continues_in_its_folder(tmp_path: Path) -> None:
    first = fit(tmp_path, make_callback(translations=tmp_path / "t"))
    first.save_checkpoint(tmp_path / "epoch-0.ckpt")
    second = make_trainer(tmp_path, make_callback(translations=tmp_path / "t"), max_epochs=2)
    second.fit(make_module(), make_loader(), make_loader(), ckpt_path=tmp_path / "epoch-0.ckpt")
    assert translations_in(tmp_path / "t" / "val") == {
        "step-0000006.txt": as_file(translate(SENTENCES)),
        "step-0000012.txt": as_file(translate(SENTENCES, 1)),
    }


def test_a_run_may_be_fitted_further_in_its_folder(tmp_path: Path) -> None:
    trainer = fit(tmp_path, make_callback(translations=tmp_path / "t"))
    continue_fit(trainer, max_epochs=2)
    assert [line["step"] for line in read_scores(tmp_path / "t")] == [STEPS, 2 * STEPS]


def test_a_validation_before_the_training_is_no_obstacle(tmp_path: Path) -> None:
    validate(tmp_path, make_callback(translations=tmp_path / "t"))
    fit(tmp_path, make_callback(translations=tmp_path / "t"))
    assert list(translations_in(tmp_path / "t" / "val")) == ["step-0000000.txt", "step-0000006.txt"]
    assert [line["step"] for line in read_scores(tmp_path / "t")] == [0, STEPS]


def test_a_validation_after_the_training_keeps_the_translations_of_the_last_step(tmp_path: Path) -> None:
    trainer = fit(tmp_path, make_callback(translations=tmp_path / "t"))
    for _ in range(2):  # the toy module is better after each epoch, so it is as if it had other weights
        trainer.validate(trainer.lightning_module, make_loader(), verbose=False)
        assert translations_in(tmp_path / "t" / "val") == {
            "step-0000006.txt": as_file(translate(SENTENCES)),
            "step-0000006-2.txt": as_file(translate(SENTENCES, 1)),
        }


def test_a_validation_after_the_training_keeps_the_scores_of_the_last_step(tmp_path: Path) -> None:
    trainer = fit(tmp_path, make_callback(translations=tmp_path / "t"))
    (line,) = read_scores(tmp_path / "t")
    trainer.validate(trainer.lightning_module, make_loader(), verbose=False)
    first, second = read_scores(tmp_path / "t")
    assert first == line
    assert (second["step"], second["score"]) == (STEPS, expected_score(1).bleu)


def test_a_validation_of_the_same_weights_writes_nothing_new(tmp_path: Path) -> None:
    module = make_module(step=lambda batch, epoch: return_text(batch, 0))
    trainer = fit(tmp_path, make_callback(translations=tmp_path / "t"), module=module)
    scores = [line | {"epoch": 0} for line in read_scores(tmp_path / "t")]
    trainer.validate(module, make_loader(), verbose=False)
    assert translations_in(tmp_path / "t" / "val") == {"step-0000006.txt": as_file(translate(SENTENCES))}
    assert [line | {"epoch": 0} for line in read_scores(tmp_path / "t")] == scores


# The scores of a run


def test_each_validation_has_a_line_with_all_that_was_logged(tmp_path: Path) -> None:
    bleu = make_callback(translations=tmp_path / "t", confidence=0.9, compare_to_best=True)
    record = Record(bleu)
    fit(tmp_path, bleu, record, max_epochs=3)
    lines = read_scores(tmp_path / "t")
    assert [(line["step"], line["epoch"], line["key"]) for line in lines] == [
        (STEPS * (epoch + 1), epoch, "val_bleu") for epoch in range(3)
    ]
    for line, logged, results in zip(lines, record.logged, record.results, strict=True):
        assert (
            line.keys()
            == {"step", "epoch", "key", "score", "low", "high", "p_value", "best"}
            | results["val_bleu"].report.to_dict().keys()
        )
        assert results["val_bleu"].report.to_dict().items() <= line.items()
        assert line["score"] == line["bleu"] == logged["val_bleu"]
        assert {part: line[part] for part in ("low", "high", "p_value", "best")} == {
            part: logged[f"val_bleu/{part}"] for part in ("low", "high", "p_value", "best")
        }
        for part in ("brevity_penalty", "length_ratio", "hypothesis_length", "reference_length"):
            assert line[part] == logged[f"val_bleu/{part}"]
        assert line["precisions"] == [logged[f"val_bleu/precision_{n}"] for n in (1, 2, 3, 4)]


def test_pandas_reads_the_scores(tmp_path: Path) -> None:
    bleu = make_callback(translations=tmp_path / "t")
    record = Record(bleu)
    fit(tmp_path, bleu, record, max_epochs=2)
    table = pd.read_json(tmp_path / "t" / "scores.jsonl", lines=True)
    assert table["step"].tolist() == [STEPS, 2 * STEPS]
    assert table["score"].tolist() == pytest.approx(record.column("val_bleu"), rel=1e-12)
    assert table["signature"].tolist() == [bleu.results["val_bleu"].report.signature] * 2
    assert table["precisions"][1] == pytest.approx(list(bleu.results["val_bleu"].report.precisions), rel=1e-12)


def test_a_run_that_takes_steps_again_has_one_line_for_each(tmp_path: Path) -> None:
    """As after a crash."""
    first = fit(tmp_path, make_callback(translations=tmp_path / "t"))
    first.save_checkpoint(tmp_path / "epoch-0.ckpt")
    continue_fit(first, max_epochs=2)
    bleu = make_callback(translations=tmp_path / "t")
    second = make_trainer(tmp_path, bleu, max_epochs=3)
    module = make_module(step=lambda batch, epoch: return_ids(batch, 3))
    second.fit(module, make_loader(), make_loader(), ckpt_path=tmp_path / "epoch-0.ckpt")
    lines = read_scores(tmp_path / "t")
    assert [line["step"] for line in lines] == [STEPS, 2 * STEPS, 3 * STEPS]
    assert [line["score"] for line in lines] == [expected_score(epoch).bleu for epoch in (0, 3, 3)]
    assert translations_in(tmp_path / "t" / "val")["step-0000012.txt"] == as_file(translate(SENTENCES, 3))


def test_the_signature_is_reported_shown_and_written(tmp_path: Path) -> None:
    bleu, logger = make_callback(translations=tmp_path / "t"), PanelLogger(tmp_path)
    fit(tmp_path, bleu, logger=logger)
    signature = bleu.results["val_bleu"].report.signature
    assert f"|version:{sacrebleu.__version__}|" in signature
    assert signature.endswith(f"|lightning_bleu:{__version__}")
    for panel in (*logger.panels, *logger.worst):
        assert signature in html.unescape(panel)
    assert len(logger.panels) == len(logger.worst) == 1
    assert read_scores(tmp_path / "t")[0]["signature"] == signature


# Names


@pytest.mark.parametrize(
    ("log_name", "tag", "folder"),
    [
        ("{stage}/{metric}", "{}/bleu", "{}"),
        ("{stage}_{metric}_beam5", "{}_bleu_beam5", "{}__beam5"),
        ("mt/{metric}_{stage}", "mt/bleu_{}", "mt/{}"),
    ],
)
def test_names_and_folders_follow_the_log_name(log_name: str, tag: str, folder: str, tmp_path: Path) -> None:
    bleu, logger = make_callback(log_name=log_name, translations=tmp_path / "t"), TensorBoardLogger(tmp_path)
    trainer = fit(tmp_path, bleu, logger=logger)
    val, test = tag.format("val"), tag.format("test")
    assert {val, f"{val}/precision_1"} <= trainer.callback_metrics.keys()
    trainer.test(trainer.lightning_module, make_loader(), verbose=False)
    assert {test, f"{test}/precision_1"} <= trainer.callback_metrics.keys()
    assert [*bleu.results] == [line["key"] for line in read_scores(tmp_path / "t")] == [val, test]
    assert {path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").rglob("step-*.txt")} == {
        f"{folder.format(stage)}/step-0000006.txt" for stage in ("val", "test")
    }
    texts = {text.rpartition("/text_summary")[0] for text in read_events(Path(logger.log_dir)).Tags()["tensors"]}
    shown = {log_name.format(stage=stage, metric=name) for stage in ("val", "test") for name in ("samples", "worst")}
    assert shown <= texts


def test_a_run_that_is_not_on_this_machine_has_no_folder_for_translations(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, make_callback(translations=True), default_root_dir="memory://bucket/run")
    with pytest.raises(ValueError, match="translations=True needs a local folder for the run, got 'memory://bucket"):
        trainer.validate(make_module(), make_loader(), verbose=False)


def test_a_score_with_a_slash_in_its_name_can_be_monitored(tmp_path: Path) -> None:
    module = make_module(step=lambda batch, epoch: return_ids(batch, 0))
    stopping = EarlyStopping("val/bleu", mode="max", patience=1)
    checkpoint = ModelCheckpoint(tmp_path / "c", monitor="val/bleu", mode="max", filename="{step}")
    trainer = fit(
        tmp_path, make_callback(log_name="{stage}/{metric}"), stopping, checkpoint, module=module, max_epochs=5
    )
    assert trainer.current_epoch == 2
    assert Path(checkpoint.best_model_path).name == "step=6.ckpt"
    assert checkpoint.best_model_score is not None
    assert checkpoint.best_model_score.item() == expected_score().bleu


class LogsInStep(ToyModule):
    """A module that logs a score of its own in its step."""

    name = "val_bleu"

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        self.log(self.name, 0.5)
        return super().validation_step(batch, batch_idx, dataloader_idx)


class LogsAtEnd(ToyModule):
    """A module that logs a score of its own when a validation ends."""

    name = "val_bleu"

    def on_validation_epoch_end(self) -> None:
        self.log(self.name, 0.5)


class LogsAtEndLikeTheCallback(ToyModule):
    """A module that logs a score of its own, with the same options as the callback."""

    name = "val_bleu"

    def on_validation_epoch_end(self) -> None:
        self.log(self.name, 0.5, prog_bar=True, add_dataloader_idx=False, reduce_fx="max")


class LogsAfterBatches(ToyModule):
    """A module that logs a score of its own after each batch."""

    name = "val_bleu"

    def on_validation_batch_end(self, *args: Any) -> None:
        self.log(self.name, 0.5, on_epoch=True)


LOGGING = [LogsInStep, LogsAtEnd, LogsAtEndLikeTheCallback, LogsAfterBatches]


@pytest.mark.parametrize("kind", LOGGING)
@pytest.mark.parametrize("sanity_steps", [1, 2])
def test_a_module_that_logs_the_name_of_the_callback_is_an_error_in_the_sanity_check(
    kind: type[ToyModule], sanity_steps: int, tmp_path: Path
) -> None:
    trainer = make_trainer(tmp_path, make_callback(), num_sanity_val_steps=sanity_steps)
    message = f"{kind.__name__} or another callback logs 'val_bleu', like BLEUCallback, .*: rename .*BLEUCallback"
    with pytest.raises(ValueError, match=message):
        trainer.fit(kind(), make_loader(), make_loader())
    assert trainer.global_step == 0


@pytest.mark.parametrize("kind", LOGGING)
def test_a_callback_of_another_name_may_be_beside_it(kind: type[ToyModule], tmp_path: Path) -> None:
    logged = fit(tmp_path, make_callback(log_name="{stage}_corpus_{metric}"), module=kind()).callback_metrics
    assert logged["val_bleu"] == 0.5
    assert logged["val_corpus_bleu"] == expected_score().bleu


@pytest.mark.parametrize("kind", LOGGING)
@pytest.mark.parametrize("name", ["val_loss", "bleu", "val_bleu_old", "val_bleu/own"])
def test_a_module_may_log_other_names(kind: Any, name: str, tmp_path: Path) -> None:
    module = kind()
    module.name = name
    logged = fit(tmp_path, make_callback(), module=module).callback_metrics
    assert logged[name] == 0.5
    assert logged["val_bleu"] == expected_score().bleu


def test_a_module_may_log_below_the_names_of_other_loaders(tmp_path: Path) -> None:
    """Lightning adds the number of the loader to what a step logs, so this is val_bleu/dataloader_idx_0."""
    loaders = {"news": make_loader(SENTENCES[:20]), "talks": make_loader(SENTENCES[20:])}
    logged = fit(tmp_path, make_callback(), module=LogsInStep(), loaders=loaders).callback_metrics
    assert logged["val_bleu/dataloader_idx_0"] == 0.5


def test_a_test_step_that_logs_the_name_of_the_callback_is_an_error(tmp_path: Path) -> None:
    class Module(ToyModule):
        def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            self.log("test_bleu", 0.5)
            return super().test_step(batch, batch_idx, dataloader_idx)

    with pytest.raises(ValueError, match="Module or another callback logs 'test_bleu', like BLEUCallback"):
        make_trainer(tmp_path, make_callback()).test(Module(), make_loader(), verbose=False)


# Loggers that fail


def test_a_logger_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    class Fails(PanelLogger):
        def add_text(self, tag: str, text: str, step: int) -> None:
            raise OSError(f"disk full at step {step}")

    bleu = make_callback(translations=tmp_path / "t")
    record = Record(bleu)
    message = "The samples cannot be shown in TensorBoard: OSError: disk full at step 5"
    found = collect_warnings(fit, tmp_path, bleu, record, logger=Fails(tmp_path), max_epochs=3, message=message)
    assert len(found) == 1
    assert record.column("val_bleu") == [expected_score(epoch).bleu for epoch in range(3)]
    assert len(translations_in(tmp_path / "t" / "val")) == 3


# Masks and positions

NUMBERED = list(enumerate(SENTENCES))
"""Each sentence with its position."""


def return_numbered(batch: Any, epoch: int) -> dict[str, Any]:
    """As text, with the positions of the sentences, and better in each epoch."""
    positions, sentences = batch
    preds, target = return_text(sentences, epoch)
    return {"preds": preds, "target": target, "source": [f"source {i}" for i in positions.tolist()], "index": positions}


def test_a_masked_sentence_is_neither_counted_nor_shown_nor_written(tmp_path: Path) -> None:
    counts = SENTENCES[:, 0] > 4  # depends on the sentence only

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        preds, target = return_text(batch, epoch)
        return {"preds": preds, "target": target, "source": target, "sample_mask": batch[:, 0] > 4}

    logger, bleu = PanelLogger(tmp_path), make_callback(samples=len(SENTENCES), translations=tmp_path / "t")
    fit(tmp_path, bleu, module=make_module(step=step), logger=logger)
    kept = SENTENCES[counts]
    assert 0 < len(kept) < len(SENTENCES)
    report = bleu.results["val_bleu"].report
    assert report.hypothesis_length == kept.numel()
    assert report.bleu == expected_score(sentences=kept).bleu
    for (panel,) in (logger.panels, logger.worst):
        assert sorted(row.references[0] for row in read_table(panel)) == sorted(as_lines(kept))
    folder = tmp_path / "t" / "val"
    assert translations_in(folder) == {"step-0000006.txt": as_file(translate(kept))}
    assert (folder / "ref.txt").read_text() == (folder / "src.txt").read_text() == as_file(kept)


def record_run(folder: Path, step: Callable[..., Any], **options: Any) -> Any:
    """Everything a run shows, writes, and logs."""
    folder.mkdir()
    torch.manual_seed(1)
    logger = PanelLogger(folder)
    bleu = make_callback(translations=folder / "t", samples=5, confidence=0.9, compare_to_best=True)
    record = Record(bleu)
    loader = make_loader(NUMBERED, **options)
    fit(folder, bleu, record, module=make_module(step=step), loaders=loader, logger=logger, max_epochs=2)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in (folder / "t").rglob("*.*")}
    return files, logger.panels, logger.worst, record.logged, record.results


@pytest.mark.filterwarnings("ignore:.*sampler has shuffling enabled")
def test_with_positions_a_shuffled_run_is_the_same_as_one_in_order(tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> dict[str, Any]:
        # Every third sentence becomes worse, so that the comparison depends on which sentence is which.
        output = return_numbered(batch, epoch)
        worse = return_text(batch[1], -epoch)[0]
        output["preds"] = [worse[j] if i % 3 == 0 else output["preds"][j] for j, i in enumerate(batch[0].tolist())]
        return output

    in_order = record_run(tmp_path / "in_order", step)
    shuffled = record_run(tmp_path / "shuffled", step, shuffle=True)
    assert shuffled == in_order
    files, panels, *_, results = in_order
    assert files["t/val/src.txt"].decode() == "".join(f"source {i}\n" for i in range(len(SENTENCES)))
    assert [row.number for row in read_table(panels[-1])] == [1, 2, 3, 4, 5]
    assert 0 < results[-1]["val_bleu"].comparison.p_value < 1


@pytest.mark.filterwarnings("ignore:.*sampler has shuffling enabled")
def test_a_first_batch_without_sentences_may_have_positions(tmp_path: Path) -> None:
    first = []

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        first.append(batch)
        return return_numbered([part[: 0 if len(first) == 1 else None] for part in batch], epoch)

    loader = make_loader(NUMBERED, shuffle=True)
    logged = validate(tmp_path, make_callback(compare_to_best=True), step=step, loaders=loader)
    assert logged["val_bleu/hypothesis_length"] == 8 * (len(SENTENCES) - 7)
