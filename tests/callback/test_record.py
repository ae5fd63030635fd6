"""What a run records with the callback: where, under which names, and what if it is run again."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import sacrebleu
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor

from lightning_bleu import BLEUCallback, __version__
from tests.helpers.callback_metrics import make_metrics
from tests.helpers.files import read_files, read_scores
from tests.helpers.lightning import (
    SENTENCES,
    PanelLogger,
    Record,
    ToyModule,
    as_lines,
    expected_score,
    fit,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    return_ids,
    return_text,
    translate,
    validate,
)

STEPS = 6
"""37 sentences in batches of 7 are 6 steps per epoch."""


def fit_once(folder: Path, *callbacks: Any, **options: Any) -> Any:
    """The trainer after an epoch."""
    return fit(folder, *callbacks, **{"max_epochs": 1} | options)


def fit_on(trainer: Any, max_epochs: int) -> None:
    """Fit further."""
    trainer.fit_loop.max_epochs = max_epochs
    trainer.fit(trainer.lightning_module, make_loader(), make_loader())


def translations_in(folder: Path) -> dict[str, str]:
    """The hypotheses in the folder of a stage, by the names of the validations."""
    return {path.name: (path / "hyp.txt").read_text() for path in sorted(folder.iterdir())}


def as_file(sentences: Tensor) -> str:
    return "".join(f"{line}\n" for line in as_lines(sentences))


def places_in(folder: Path) -> list[tuple[int, float]]:
    """Step and score of each validation."""
    return [(line["step"], line["score"]) for line in read_scores(folder)]


SCORES = [expected_score(epoch).bleu for epoch in range(4)]

# The folder of a run


@pytest.mark.parametrize("has_logger", [True, False])
def test_translations_of_a_run_are_beside_its_checkpoints(has_logger: bool, tmp_path: Path) -> None:
    for version in range(1 + has_logger):  # each run of a logger has a folder
        checkpoint = ModelCheckpoint()
        logger = TensorBoardLogger(tmp_path, name="name") if has_logger else False
        fit_once(tmp_path, make_callback(translations=True), checkpoint, logger=logger)
        assert checkpoint.dirpath is not None
        folder = tmp_path / "name" / f"version_{version}" if has_logger else tmp_path
        assert Path(checkpoint.dirpath) == folder / "checkpoints"
        assert list(translations_in(folder / "translations" / "val")) == ["step-0000006"]
        assert places_in(folder / "translations") == [(STEPS, SCORES[0])]
    assert len([*tmp_path.rglob("step-*")]) == 1 + has_logger


def test_a_run_that_is_not_on_this_machine_has_no_folder_for_translations(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, make_callback(translations=True), default_root_dir="memory://bucket/run")
    with pytest.raises(ValueError, match="translations=True needs a local folder for the run, got 'memory://bucket"):
        trainer.validate(make_module(), make_loader(), verbose=False)


def test_a_new_run_among_the_translations_of_another_is_an_error(tmp_path: Path) -> None:
    fit_once(tmp_path, make_callback(translations=tmp_path / "t"))
    before = read_files(tmp_path / "t")
    with pytest.raises(ValueError, match=r"has the translations of another training run: use another folder .*resume"):
        fit_once(tmp_path, make_callback(translations=tmp_path / "t"))
    assert read_files(tmp_path / "t") == before


def test_a_run_may_be_fitted_further_after_a_validation_and_resumed_in_its_folder(tmp_path: Path) -> None:
    validate(tmp_path, make_callback(translations=tmp_path / "t"))  # is no obstacle
    first = fit_once(tmp_path, make_callback(translations=tmp_path / "t"))
    first.save_checkpoint(tmp_path / "epoch-0.ckpt")
    fit_on(first, max_epochs=2)
    expected = [(0, SCORES[0]), (STEPS, SCORES[0]), (2 * STEPS, SCORES[1])]
    assert places_in(tmp_path / "t") == expected
    options: dict[str, Any] = {"step": lambda batch, epoch: return_ids(batch, 3), "max_epochs": 3}
    bleu = make_callback(translations=tmp_path / "t")
    fit(tmp_path, bleu, ckpt_path=tmp_path / "epoch-0.ckpt", **options)  # as after a crash: takes steps again
    assert places_in(tmp_path / "t") == [*expected, (2 * STEPS, SCORES[3]), (3 * STEPS, SCORES[3])]
    assert translations_in(tmp_path / "t" / "val") == {
        "step-0000000": as_file(translate(SENTENCES)),
        "step-0000006": as_file(translate(SENTENCES)),
        "step-0000012": as_file(translate(SENTENCES, 1)),
        "step-0000012-2": as_file(translate(SENTENCES, 3)),
        "step-0000018": as_file(translate(SENTENCES, 3)),
    }


# The scores of a run


def test_pandas_reads_the_scores_with_the_signature_that_is_shown(tmp_path: Path) -> None:
    bleu, logger = make_callback(translations=tmp_path / "t"), PanelLogger(tmp_path)
    record = Record(bleu)
    fit(tmp_path, bleu, record, max_epochs=2, logger=logger)
    table = pd.DataFrame(read_scores(tmp_path / "t"))
    report: Any = bleu.results["val_bleu"].report
    assert table["step"].tolist() == [STEPS, 2 * STEPS]
    assert table["score"].tolist() == pytest.approx(record.column("val_bleu"), rel=1e-12)
    precisions = [table["parts"][1][f"precision_{order}"] for order in range(1, 5)]
    assert precisions == pytest.approx(list(report.precisions), rel=1e-12)
    assert table["signature"].tolist() == [report.signature] * 2
    assert f"|version:{sacrebleu.__version__}|" in report.signature
    assert report.signature.endswith(f"|lightning_bleu:{__version__}")
    for panel in (*logger.panels, *logger.worst):
        assert report.signature in html.unescape(panel)
    assert len(logger.panels) == len(logger.worst) == 2


# Names


@pytest.mark.parametrize(
    ("log_name", "val", "test", "folders"),
    [
        ("{stage}/{metric}", "val/bleu", "test/bleu", ["val", "test"]),
        ("{stage}_{metric}_beam5", "val_bleu_beam5", "test_bleu_beam5", ["val__beam5", "test__beam5"]),
        ("mt/{metric}", "mt/bleu", "test_mt/bleu", ["val/mt", "test_mt"]),
    ],
)
def test_names_and_folders_follow_the_log_name(
    log_name: str, val: str, test: str, folders: list[str], tmp_path: Path
) -> None:
    """Without the stage, those of a test begin with it."""
    bleu = make_callback(log_name=log_name, parts=True, translations=tmp_path / "t")
    logger, checkpoint = TensorBoardLogger(tmp_path), ModelCheckpoint(tmp_path / "c", monitor=val, mode="max")
    trainer = fit_once(tmp_path, bleu, checkpoint, logger=logger)
    assert checkpoint.best_model_score == trainer.callback_metrics[val] == SCORES[0]
    assert f"{val}/precision_1" in trainer.callback_metrics
    trainer.test(trainer.lightning_module, make_loader(), verbose=False)
    assert {test, f"{test}/precision_1"} <= trainer.callback_metrics.keys()
    assert sorted(bleu.results) == sorted(line["key"] for line in read_scores(tmp_path / "t")) == sorted([val, test])
    assert {path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").rglob("step-*")} == {
        f"{folder}/step-0000006" for folder in folders
    }
    texts = {text.rpartition("/text_summary")[0] for text in read_events(Path(logger.log_dir)).Tags()["tensors"]}
    assert {name.replace("bleu", panel) for name in (val, test) for panel in ("samples", "worst")} <= texts


LOGGING: dict[str, tuple[str, dict[str, Any]]] = {
    "in its step": ("validation_step", {}),
    "at the end": ("on_validation_epoch_end", {}),
    "after batches": ("on_validation_batch_end", {"on_epoch": True}),
    "in its test step": ("test_step", {}),
}
"""The hooks in which a module logs a score of its own, and with which options."""


def make_logging(way: str, *names: str) -> Any:
    """A module that logs scores of its own."""
    hook, options = LOGGING[way]

    def log(self: Any, *args: Any) -> Any:
        self.log_dict(dict.fromkeys(names, 0.5), **options)
        return getattr(ToyModule, hook)(self, *args)

    return type("Logs", (ToyModule,), {hook: log})()


@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("in its step", "val_bleu"),
        ("in its step", "val_rouge/rouge1_fmeasure"),
        ("at the end", "val_ter"),
        ("after batches", "val_bleu/precision_1"),
        ("in its test step", "test_bleu"),
    ],
)
def test_a_module_that_logs_a_name_of_the_callback_is_an_error(way: str, name: str, tmp_path: Path) -> None:
    bleu = BLEUCallback(make_metrics("bleu", "ter", "rouge"), parts=True)
    module = make_logging(way, name)
    module.step = return_text
    trainer = make_trainer(tmp_path, bleu, num_sanity_val_steps=1)
    run, loaders = (trainer.test, [make_loader()]) if "test" in way else (trainer.fit, [make_loader(), make_loader()])
    message = f"Logs or another callback logs '{name}', like BLEUCallback, .*: rename .*BLEUCallback"
    if way == "at the end":  # Lightning's own error
        message = rf"You called `self.log\({name}, ...\)` twice in `on_validation_epoch_end`"
    with pytest.raises((ValueError, MisconfigurationException), match=message):
        run(module, *loaders)
    assert trainer.global_step == 0


@pytest.mark.parametrize("way", [*LOGGING][:-1])
def test_a_module_may_log_other_names(way: str, tmp_path: Path) -> None:
    names = ["val_loss", "bleu", "val_bleu_old", "val_bleu/own"]
    logged = fit_once(tmp_path, make_callback(), module=make_logging(way, *names)).callback_metrics
    assert [logged[name] for name in names] == [0.5] * 4
    assert logged["val_bleu"] == SCORES[0]


def test_a_module_may_log_below_the_names_of_other_loaders(tmp_path: Path) -> None:
    """Lightning adds the number of the loader to what a step logs, so this is val_bleu/dataloader_idx_0."""
    loaders, module = {"news": make_loader(), "talks": make_loader()}, make_logging("in its step", "val_bleu")
    logged = fit_once(tmp_path, make_callback(), module=module, loaders=loaders).callback_metrics
    assert logged["val_bleu/dataloader_idx_0"] == 0.5
