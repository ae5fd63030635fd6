"""Loggers: which of them are known, by what, and that one that fails does not keep others from showing."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from lightning_fabric.loggers.tensorboard import TensorBoardLogger as FabricLogger
from pytorch_lightning.loggers import CometLogger, CSVLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import DummyLogger, Logger
from torch.utils.tensorboard import SummaryWriter

from lightning_bleu import Evaluator
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.loggers import (
    Comet,
    LikeWandb,
    LoggerAdapter,
    MLflow,
    NumbersOnly,
    TensorBoard,
    WandbRun,
    adapt,
    check_loggers,
)
from tests.helpers.loggers import open_comet, open_mlflow
from tests.helpers.validations import Counting, count, score
from tests.helpers.views import HYPOTHESES, REFERENCES, samples_of


class Shows(Logger):
    """A logger of one's own, without an experiment."""

    name = version = ""

    def log_metrics(self, *args: Any, **options: Any) -> None: ...

    log_hyperparams = log_metrics


class ShowsTables(Shows):
    def log_table(self, key: str, columns: Any, data: Any, step: int) -> None: ...


class ShowsImages(Shows):
    def log_image(self, key: str, images: list[Any], step: int) -> None: ...


class Unopened(Shows):
    """A logger that is opened too early."""

    @property
    def experiment(self) -> Any:
        pytest.fail("it was opened")


class Broken(CSVLogger):
    """As a logger whose server does not answer."""

    @property
    def experiment(self) -> Any:
        raise ConnectionError("no answer")


def make_wandb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> WandbLogger:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return WandbLogger(save_dir=folder, offline=True)


def make_wandb_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return wandb.init(dir=folder, mode="offline")


KNOWN: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], Any], type[LoggerAdapter]]] = {
    "TensorBoard's own": (lambda folder, patch: SummaryWriter(folder), TensorBoard),
    "TensorBoard": (lambda folder, patch: TensorBoardLogger(folder), TensorBoard),
    "TensorBoard of Fabric": (lambda folder, patch: FabricLogger(folder), TensorBoard),
    "W&B": (make_wandb, LikeWandb),
    "W&B's own": (make_wandb_run, WandbRun),
    "MLflow": (functools.partial(open_mlflow, "file:{}/mlruns"), MLflow),
    "Comet": (open_comet, Comet),
    "tables": (lambda folder, patch: ShowsTables(), LikeWandb),
    "images": (lambda folder, patch: ShowsImages(), LikeWandb),
    "CSV": (lambda folder, patch: CSVLogger(folder), NumbersOnly),
    "placeholder": (lambda folder, patch: DummyLogger(), NumbersOnly),
    "none": (lambda folder, patch: object(), NumbersOnly),
}
"""Loggers, and the class of each."""
SLOW = {"W&B", "W&B's own", "MLflow", "Comet"}


def close(logger: Any) -> None:
    """Close what a logger has opened."""
    if "wandb" in type(logger).__module__:
        import wandb

        wandb.finish()
    elif isinstance(logger, CometLogger):
        logger.experiment.end()
    elif isinstance(logger, SummaryWriter):
        logger.close()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in KNOWN])
def test_each_class_knows_exactly_its_loggers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = KNOWN[name]
    logger = make(tmp_path, monkeypatch)
    if name != "none":
        check_loggers([logger])
    adapter = adapt(logger)
    assert (type(adapter), adapter.logger) == (expected, logger)
    close(logger)


def test_every_class_of_loggers_is_tried() -> None:
    assert {*LoggerAdapter.__subclasses__()} == {adapter for _, adapter in KNOWN.values()}


def test_a_check_opens_no_logger(tmp_path: Path) -> None:
    tensorboard = TensorBoardLogger(tmp_path / "tensorboard")
    check_loggers([Unopened(), tensorboard, CSVLogger(tmp_path / "csv"), Broken(tmp_path / "broken")])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("wrong", ["folder", None, 5, object(), SummaryWriter, CSVLogger, [DummyLogger()]])
def test_what_is_no_logger_is_an_error_that_names_the_kinds(wrong: Any) -> None:
    message = (
        r"^'loggers' must be a list of SummaryWriters, loggers of Lightning, or runs of W&B, got .* of type "
        f"{type(wrong).__name__}$"
    )
    with pytest.raises(TypeError, match=message):
        check_loggers([Unopened(), wrong])


def test_a_logger_that_is_listed_twice_is_an_error() -> None:
    """It would get every number twice. Two loggers that are equal are two loggers."""
    logger, other = Unopened(), Unopened()
    message = f"^'loggers' has {re.escape(repr(logger))} twice, so it would get every number twice: list it once$"
    for loggers in ([logger, logger], [logger, other, logger]):
        with pytest.raises(ValueError, match=message):
            check_loggers(loggers)
        with pytest.raises(ValueError, match=message):
            Evaluator(loggers=loggers)
    check_loggers([logger, other])


class Writer:
    """What TensorBoard gets, as its ``SummaryWriter`` does."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def add_text(self, name: str, *args: Any) -> None:
        self.shown.append(name)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        self.shown += layout

    def flush(self) -> None: ...

    def add_figure(self, *args: Any, **options: Any) -> None: ...


def test_a_logger_that_is_broken_does_not_keep_the_others_from_showing(tmp_path: Path) -> None:
    writer, dashboard = Writer(), Dashboard(WarnOnce())
    with pytest.warns(UserWarning, match="^Broken cannot show samples: ConnectionError: no answer$"):
        dashboard.open([Broken(tmp_path), writer])
    validation = score(count(Counting(), HYPOTHESES, REFERENCES))
    dashboard.show(validation, [samples_of(validation.loaders[0], 1)], 5, has_charts=True)
    assert writer.shown == ["Scores", "Parts", "val_samples", "val_worst"]


class Keeps(Shows):
    """A logger that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[Any] = []

    def log_metrics(self, *args: Any, **options: Any) -> None:
        self.numbers.append(args)


def test_only_the_loggers_of_the_evaluator_get_its_numbers_and_a_logger_of_both_is_one_of_the_trainer() -> None:
    of_trainer, of_evaluator, of_both = Keeps(), Keeps(), Keeps()
    dashboard = Dashboard(WarnOnce())
    dashboard.open([of_trainer, of_both], [of_both, of_evaluator])
    validation = score(count(Counting(), HYPOTHESES, REFERENCES), parts=False)
    dashboard.show(validation, [], 7, has_charts=False)
    numbers = {"val_bleu": validation.results["val_bleu"].score}
    assert [one.numbers for one in (of_trainer, of_both, of_evaluator)] == [[], [], [(numbers, 7)]]


# What MLflow refuses


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["val_bleu", "val_bleu/news 1.de-en"], ""),
        (["val_bleu", "val_bleu/新"], "MLflow cannot take the name 'val_bleu/新'. It keeps ASCII letters"),
        (["val_bleu/.."], "MLflow cannot take the name"),
        (["val_bleu/" + "x" * 250], "MLflow cannot take the name"),
        (["val_bleu/a", "val_bleu/aé"], "would store 'val_bleu/a' and 'val_bleu/aé' as one number"),
    ],
)
def test_a_name_that_mlflow_refuses_or_takes_for_another_one_is_found(names: list[str], reason: str) -> None:
    refused = MLflow(None).find_refused(names)
    assert [*refused] == ([names[-1]] if reason else [])
    assert all(reason in message for message in refused.values())


def test_a_number_that_a_logger_refuses_is_left_out_there_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumbersOnly, "find_refused", lambda self, names: {"val_bleu/b": "b is refused"})
    logger, other = Keeps(), Keeps()
    dashboard = Dashboard(WarnOnce())
    dashboard.open([other], [logger])
    validation = score(count(Counting(), HYPOTHESES, REFERENCES, group=["a", "b", "a", "b", "b"]), parts=False)
    with pytest.warns(UserWarning, match="^b is refused$"):
        dashboard.show(validation, [], 0, has_charts=False)
    dashboard.show(validation, [], 1, has_charts=False)  # a second warning would be an error
    assert [[*numbers] for numbers, _ in logger.numbers] == [["val_bleu", "val_bleu/a", "val_bleu/mean"]] * 2
    assert dashboard.find_refused([*validation.numbers]) == {
        "val_bleu/b": "b is refused"
    }  # by the logger of the trainer


@pytest.mark.parametrize(
    ("uri", "is_limited"),
    [
        *[("./mlruns", True), ("file:///mlruns", True), ("C:\\mlruns", True)],
        *[("sqlite:///mlflow.db", False), ("http://localhost:5000", False), ("databricks", False), ("", False)],
    ],
)
def test_a_store_of_files_cannot_hold_a_number_below_another_one(uri: str, is_limited: bool) -> None:
    logger = Mock(experiment=Mock(tracking_uri=uri))
    limitation = MLflow(logger).describe_limitation()
    assert ("use a database, such as tracking_uri=" in limitation) == is_limited == bool(limitation)
