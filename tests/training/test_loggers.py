"""What each logger is shown, read back from what it stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import DummyLogger

from lightning_bleu import BLEUCallback, sentence_bleu
from lightning_bleu.training.loggers import COLUMNS, TensorBoard, find_displays, missing_packages
from tests.helpers.lightning import ignore_lightning_warnings, make_loader, make_module, make_trainer, read_events
from tests.training.test_dashboard import view

pytestmark = ignore_lightning_warnings

HYPOTHESES = ["the cat sat on the mat", "nothing in common", "all of this is right"]
REFERENCES = [["the cat is on the mat", "a cat is on the mat"], ["these words differ entirely"], [HYPOTHESES[2]]]
SOURCES = ["die Katze", "etwas anderes", "alles richtig"]
BLEU = sentence_bleu(HYPOTHESES, REFERENCES, percent=True).tolist()

FIRST_STEP, SECOND_STEP = 1, 3
"""Lightning logs the scores of an epoch at the last step of the epoch; there are two steps in an epoch."""


def fit(folder: Path, callback: BLEUCallback, *loggers: Any) -> None:
    """Train the toy module for two epochs, each with a validation of the lines."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        sides: dict[str, Any] = {"preds": HYPOTHESES, "target": REFERENCES, "source": SOURCES}
        return {key: [lines[i] for i in batch] for key, lines in sides.items()}

    loader = make_loader(range(3), batch_size=2)
    make_trainer(folder, callback, logger=list(loggers), max_epochs=2).fit(make_module(step=step), loader, loader)


def row(step: int, sentence: int, shown_as: str) -> list[Any]:
    """A row of the table of samples."""
    texts = SOURCES[sentence], HYPOTHESES[sentence], "\n".join(REFERENCES[sentence])
    return [step, sentence + 1, shown_as, pytest.approx(BLEU[sentence]), *texts]


def rows(step: int) -> list[list[Any]]:
    """The table with one sample."""
    return [row(step, 0, "first"), row(step, 1, "worst")]


@pytest.mark.slow
def test_wandb_gets_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    fit(tmp_path, BLEUCallback(samples=1), WandbLogger(save_dir=tmp_path, offline=True))
    import wandb

    wandb.finish()
    tables = [json.loads(path.read_text()) for path in (tmp_path / "wandb").rglob("*.table.json")]
    assert [table["columns"] for table in tables] == [COLUMNS] * 2
    assert sorted(table["data"] for table in tables) == [rows(FIRST_STEP), rows(SECOND_STEP)]
    names = {path.name.split("_")[0] for path in (tmp_path / "wandb").rglob("*.png")}
    assert names == {"by", "lengths"}  # by_length and lengths, followed by a number


@pytest.fixture
def mlflow_logger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # the logger sets it; this takes it back
    artifacts = (tmp_path / "artifacts").as_uri()
    return MLFlowLogger(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db", artifact_location=artifacts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
def test_mlflow_gets_a_table_and_figures(mlflow_logger: Any, tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback(samples=1), mlflow_logger)
    run_id = mlflow_logger.run_id
    history = mlflow_logger.experiment.get_metric_history(run_id, "val_bleu/precision_1")
    assert [value.step for value in history] == [FIRST_STEP, SECOND_STEP]
    root = tmp_path / "artifacts" / run_id / "artifacts"
    table = json.loads((root / "val_bleu" / "samples.json").read_text())
    assert (table["columns"], table["data"]) == (COLUMNS, [*rows(FIRST_STEP), *rows(SECOND_STEP)])
    for figure in ("by_length", "lengths"):
        for step in (FIRST_STEP, SECOND_STEP):
            (path,) = (root / "images").glob(f"val_bleu~{figure}+step+{step}+*.png")
            assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
def test_mlflow_gets_names_that_it_allows(mlflow_logger: Any, tmp_path: Path) -> None:
    (display,) = find_displays([mlflow_logger])
    display.show("val_bleu/news: [α]", view(1), FIRST_STEP)
    assert (tmp_path / "artifacts" / mlflow_logger.run_id / "artifacts/val_bleu/news_ ___/samples.json").exists()


@pytest.mark.parametrize(
    "make", [lambda folder: CSVLogger(folder, name="csv", version=""), lambda folder: DummyLogger()]
)
def test_loggers_that_can_show_nothing_get_the_scalars(make: Callable[[Path], Any], tmp_path: Path) -> None:
    assert find_displays([make(tmp_path)]) == []
    fit(tmp_path, BLEUCallback(), make(tmp_path))
    if (tmp_path / "csv").exists():
        header = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
        assert {"val_bleu", "val_bleu/precision_1"} <= set(header)


def test_each_of_several_loggers_shows_what_it_can(tmp_path: Path) -> None:
    tensorboard = TensorBoardLogger(tmp_path, name="run", version="")
    loggers = [CSVLogger(tmp_path), tensorboard, object(), TensorBoardLogger(tmp_path, name="other", version="")]
    assert [type(display) for display in find_displays(loggers)] == [TensorBoard, TensorBoard]
    fit(tmp_path, BLEUCallback(samples=1), tensorboard, CSVLogger(tmp_path))
    assert "val_bleu/lengths" in read_events(tmp_path / "run").Tags()["images"]


def test_figures_are_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.warns(UserWarning, match="Figures cannot be logged, because matplotlib is not installed"):
        fit(tmp_path, BLEUCallback(samples=1), TensorBoardLogger(tmp_path, name="run", version=""))
    tags = read_events(tmp_path / "run").Tags()
    assert tags["images"] == []
    assert "val_bleu/samples/text_summary" in tags["tensors"]


def test_packages_are_missing_only_if_a_logger_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorboard, csv = TensorBoardLogger(tmp_path), CSVLogger(tmp_path)
    mlflow = type("MLFlowLogger", (), {"run_id": "1", "experiment": type("Client", (), {"log_table": None})()})()
    everything: list[list[Any]] = [[tensorboard], [csv], [mlflow], [tensorboard, csv], []]
    assert [list(missing_packages(loggers)) for loggers in everything] == [[]] * 5  # the tests need them all
    message = "{} cannot be logged, because {} is not installed: pip install {}.".format
    figures = message("Figures", "matplotlib", "matplotlib")
    tables = message("Sample tables in MLflow", "pandas", "pandas")
    default = message("Samples and figures", "tensorboard", "tensorboard")
    for package in ("matplotlib", "pandas", "tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    expected = [[figures], [default], [figures, tables], [figures], []]
    assert [list(missing_packages(loggers)) for loggers in everything] == expected
