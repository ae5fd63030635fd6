"""What a validation looks like, read back from what each logger stored."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger

from lightning_bleu import BLEUCallback, CorpusBLEU, corpus_bleu
from lightning_bleu.observers.loggers import adapt
from lightning_bleu.observers.tensorboard import escape_cell
from tests.helpers.lightning import (
    Record,
    collect_warnings,
    fit,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
    return_ids,
)
from tests.helpers.loggers import open_comet, open_mlflow
from tests.helpers.views import BLEU, HYPOTHESES, LINES, REFERENCES, SIGNATURE, view

STEPS = [5, 11]
"""Lightning logs the scores of an epoch at the last step of the epoch; there are six steps in an epoch."""


def log_to(folder: Path, name: str = "run") -> TensorBoardLogger:
    return TensorBoardLogger(folder, name=name, version="")


def fit_lines(folder: Path, callback: BLEUCallback, *loggers: Any, lines: Sequence[Any] = LINES) -> dict[str, Any]:
    """Train the toy module for two epochs, each with a validation of the lines, and return TensorBoard's tags."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        sources = [f"source {i}" for i in batch]
        return {"preds": [lines[i][0] for i in batch], "target": [lines[i][1] for i in batch], "source": sources}

    loader = make_loader(range(len(lines)), batch_size=2)
    fit(folder, callback, step=step, loaders=loader, logger=[*loggers] or log_to(folder), max_epochs=2)
    tags: dict[str, Any] = read_events(folder / "run").Tags() if (folder / "run").exists() else {}
    return tags


def texts(events: Any, tag: str) -> list[tuple[int, str]]:
    """Step and content of the panels with a tag."""
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(f"{tag}/text_summary")]


def test_tensorboard_gets_samples_and_a_figure_at_the_step_of_the_scores(tmp_path: Path) -> None:
    tags = fit_lines(tmp_path, BLEUCallback(CorpusBLEU(percent=True), samples=2))
    assert tags["images"] == ["val_bleu/by_length"]
    events = read_events(tmp_path / "run")
    assert [event.step for event in events.Scalars("val_bleu")] == STEPS  # one per epoch, none for the sanity check

    report = corpus_bleu(HYPOTHESES, REFERENCES, percent=True)
    for name, kind in {
        "samples": "first sentences",
        "worst": "worst sentences for their length, by smoothed BLEU",
    }.items():
        panels = texts(events, f"val_{name}")
        assert [step for step, _ in panels] == STEPS
        assert f"The {kind}. {escape_cell(str(report))}" in panels[-1][1].splitlines()[0]
    expected = [(i, [round(BLEU[i], 1)], f"source {i}", *LINES[i]) for i in range(2)]
    assert [tuple(row) for row in read_table(texts(events, "val_samples")[-1][1])] == expected

    images = events.Images("val_bleu/by_length")
    assert [event.step for event in images] == STEPS
    assert images[-1].encoded_image_string.startswith(b"\x89PNG")


def test_nothing_but_charts_is_shown_without_samples(tmp_path: Path) -> None:
    tags = fit_lines(tmp_path, BLEUCallback(samples=0))
    assert tags["images"] == []
    assert tags["tensors"] == ["custom_scalars__config__"]
    assert "val_bleu" in tags["scalars"]


# Charts


def test_a_later_fit_in_the_same_trainer_lays_out_again(tmp_path: Path) -> None:
    """Its logger may write to another folder."""
    callback = make_callback()
    for name in ("one", "two"):
        fit(tmp_path, callback, step=lambda batch, epoch: return_ids(batch, 0), logger=log_to(tmp_path, name))
        assert "custom_scalars__config__" in read_events(tmp_path / name).Tags()["tensors"]


# Loggers


COLUMNS = ["step", "index", "shown as", "bleu", "source", "hypothesis", "references", "signature"]


def row(step: int, sentence: int, shown_as: str) -> list[Any]:
    """A row of the table of samples."""
    texts = f"source {sentence}", HYPOTHESES[sentence], "\n".join(REFERENCES[sentence])
    return [step, sentence, shown_as, pytest.approx(BLEU[sentence]), *texts, SIGNATURE]


def rows(step: int) -> list[list[Any]]:
    """The table with one sample."""
    return [row(step, 0, "first"), row(step, 1, "worst")]


@pytest.mark.slow
def test_wandb_gets_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    fit_lines(tmp_path, BLEUCallback(samples=1), WandbLogger(save_dir=tmp_path, offline=True))
    import wandb

    wandb.finish()
    tables = [json.loads(path.read_text()) for path in (tmp_path / "wandb").rglob("*.table.json")]
    assert [table["columns"] for table in tables] == [COLUMNS] * 2
    assert sorted(table["data"] for table in tables) == [rows(step) for step in STEPS]
    names = {path.name.rpartition("_")[0] for path in (tmp_path / "wandb").rglob("*.png")}
    assert {name.split("_")[0] for name in names} == {"by"}  # by_length, followed by a number


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow. Making its tables takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        pytest.importorskip("mlflow").MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
def test_mlflow_gets_a_table_and_figures_with_names_that_it_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    shutil.copy(database, tmp_path)
    logger = open_mlflow("sqlite:///{}/mlflow.db", tmp_path, monkeypatch)
    fit_lines(tmp_path, BLEUCallback(samples=1, parts=True), logger)
    for name in ("val_bleu", "val_bleu/precision_1"):  # a database takes both
        history = logger.experiment.get_metric_history(logger.run_id, name)
        assert [value.step for value in history] == STEPS
    root = tmp_path / "artifacts" / logger.run_id / "artifacts"
    table = json.loads((root / "val_samples.json").read_text())
    assert (table["columns"], table["data"]) == (COLUMNS, [*rows(STEPS[0]), *rows(STEPS[1])])
    for step in STEPS:
        (path,) = (root / "images").glob(f"val_bleu~by_length+step+{step}+*.png")
        assert path.read_bytes().startswith(b"\x89PNG")

    shown = view(1)
    panels = [shown.panels[0]._replace(tag="val_samples/news: [α]")]
    adapt(logger).show_samples(shown._replace(panels=panels), STEPS[0])
    assert (root / "val_samples" / "news_ ___.json").exists()

    options: dict[str, Any] = {"step": lambda *args: (["a lone surrogate \ud800"], ["a reference"]), "logger": logger}
    assert collect_warnings(fit, tmp_path, BLEUCallback(), message="cannot be shown", **options) == []
    assert "a lone surrogate ?" in (root / "val_samples.json").read_text()


@pytest.mark.slow
def test_comet_gets_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is uploaded from an archive later, because Comet writes archives without a server."""
    logger = open_comet(tmp_path, monkeypatch)
    fit_lines(tmp_path, BLEUCallback(samples=1, parts=["precision_1"]), logger)
    logger.experiment.end()

    (path,) = tmp_path.glob("*.zip")
    with zipfile.ZipFile(path) as archive:
        messages = [json.loads(line) for line in archive.read("messages.json").splitlines()]
        uploads = [message["payload"] for message in messages if message["type"] == "file_upload"]
        files = [(upload["additional_params"], archive.read(upload["file_path"])) for upload in uploads]
    metrics = [message["payload"]["metric"] for message in messages if message["type"] == "metric_msg"]
    assert [metric["step"] for metric in metrics if metric["metricName"] == "val_bleu/precision_1"] == STEPS

    tables = [(params["step"], text.decode()) for params, text in files if params.get("fileName") == "val_samples.csv"]
    assert [step for step, _ in tables] == STEPS
    for step, text in tables:
        header, *body = csv.reader(io.StringIO(text, newline=""))
        assert header == COLUMNS
        assert [[int(a), int(b), c, float(d), *texts] for a, b, c, d, *texts in body] == rows(step)
    figures = [(params["step"], params["figName"]) for params, text in files if b"<svg" in text]
    assert figures == [(step, "val_bleu/by_length") for step in STEPS]


class Shows(Logger):
    """A logger of one's own, without an experiment."""

    name = version = ""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[list[Any]] = []

    def log_metrics(self, *args: Any, **options: Any) -> None:
        pass

    log_hyperparams = log_metrics


LOG_TABLE: Any = lambda self, key, columns=None, data=None, step=0: self.shown.append([key, step, columns, data])  # noqa: E731
IMAGES: dict[str, Any] = {
    "log_image": lambda self, key, images, step: self.shown.append([key, step, images[0].shape[2]])
}
TABLES = [["val_samples", step, COLUMNS, rows(step)] for step in STEPS]
FIGURES = [["val_bleu/by_length", step, 4] for step in STEPS]


@pytest.mark.parametrize(
    ("methods", "shown"),
    [
        ({"log_table": LOG_TABLE}, TABLES),
        (IMAGES, FIGURES),
        (IMAGES | {"log_table": LOG_TABLE}, [*TABLES, *FIGURES]),
        ({}, []),
    ],
)
def test_a_logger_shows_what_it_has_methods_for_or_says_once_that_it_gets_numbers_only(
    methods: dict[str, Any], shown: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = type("Own", (Shows,), methods)()
    fit_lines(tmp_path, BLEUCallback(samples=1), logger)
    assert sorted(logger.shown, key=str) == sorted(shown, key=str)
    said = [record.levelname for record in caplog.records if record.message.startswith("Own gets numbers only")]
    assert said == ([] if shown else ["INFO"])


def test_a_trial_run_has_no_logger_that_gets_numbers_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    fit(tmp_path, make_callback(samples=1), logger=CSVLogger(tmp_path), fast_dev_run=True)
    assert "gets numbers only" not in caplog.text
    fit(tmp_path, make_callback(samples=1), logger=CSVLogger(tmp_path), max_epochs=1)
    assert "CSVLogger gets numbers only" in caplog.text


# Names that MLflow refuses


class Client(SimpleNamespace):
    """What the logger of Lightning for MLflow writes to."""

    def log_table(self, *args: Any) -> None: ...

    log_image = log_table


class LikeMLflow(Shows):
    """A logger like that of Lightning for MLflow, without its package. It keeps the names of what is logged."""

    run_id = ""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self.experiment = Client(tracking_uri=uri)
        self.names: set[str] = set()

    def log_metrics(self, metrics: Any, step: Any = None) -> None:
        self.names |= {*metrics}


def return_ages(batch: Any, epoch: int) -> dict[str, Any]:
    """Groups of which MLflow would store two under one name."""
    return {"preds": ["a b"] * len(batch), "target": ["a c"] * len(batch), "group": [">20", "<20"] * (len(batch) // 2)}


def test_a_label_that_mlflow_refuses_is_an_error_of_the_sanity_check(tmp_path: Path) -> None:
    logger = LikeMLflow("sqlite:///mlflow.db")
    trainer = make_trainer(tmp_path, BLEUCallback(), logger=logger)
    with pytest.raises(ValueError, match=r"^MLflow would store 'val_bleu/.20' and 'val_bleu/.20' as one number, 'val_"):
        trainer.fit(make_module(step=return_ages), make_loader(), make_loader(range(8), batch_size=4))
    assert (trainer.global_step, logger.names) == (0, set())


def test_a_label_that_mlflow_refuses_later_is_left_out_of_loggers_with_one_warning(tmp_path: Path) -> None:
    """An error would end the training."""
    logger, record = LikeMLflow("sqlite:///mlflow.db"), Record()
    options: dict[str, Any] = {"logger": logger, "num_sanity_val_steps": 0, "max_epochs": 2, "step": return_ages}
    loader, message = make_loader(range(8), batch_size=4), "MLflow would store 'val_bleu/<20' and 'val_bleu/>20' as one"
    said = collect_warnings(fit, tmp_path, BLEUCallback(), record, loaders=loader, message=message, **options)
    assert len(said) == 1
    names = {"val_bleu", "val_bleu/<20", "val_bleu/mean"}
    assert logger.names - {"epoch"} == names
    assert {*record.logged[-1]} == {*names, "val_bleu/>20"}


@pytest.mark.parametrize("sanity", [0, 1])
def test_a_store_of_files_is_warned_about_once_before_the_training(sanity: int, tmp_path: Path) -> None:
    def stop(batch: Any) -> Any:
        raise KeyError("training")

    def try_to_fit() -> None:
        module = make_module()
        module.training_step = stop
        with pytest.raises(KeyError, match="training"):
            fit(tmp_path, make_callback(), logger=LikeMLflow("mlruns"), num_sanity_val_steps=sanity, module=module)

    message = "LikeMLflow writes each number to a file in 'mlruns', so it cannot log both 'val_bleu' and 'val_bleu/low'"
    assert len(collect_warnings(try_to_fit, message=message)) == 1
