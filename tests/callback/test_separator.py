"""What joins the pieces of logged names, and names that a logger cannot take."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger
from pytorch_lightning.loggers.logger import DummyLogger

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin
from lightning_bleu.observers.loggers import MLflow, adapt
from tests.helpers.files import read_files, read_scores
from tests.helpers.lightning import collect_warnings, fit, make_callback, make_loader, make_module, make_trainer

OPTIONS: dict[str, Any] = {"confidence": 0.9, "compare_to": "best"}


def folder_of(path: Path, separator: str) -> dict[str, Any]:
    """The files of a run, and its record without names."""
    files = read_files(path)
    del files["scores.jsonl"]
    lines = [
        {key: value for key, value in line.items() if key not in ("key", "validation")}
        for line in read_scores(path / "scores.jsonl")
    ]
    return {"files": files, "lines": lines}


def test_a_separator_changes_all_logged_names_and_no_file(tmp_path: Path) -> None:
    runs = {}
    for name, separator in {"slash": "/", "underscore": "_", "colons": "::"}.items():
        folder = tmp_path / name
        bleu = make_callback(separator=separator, translations=folder / "t", dataloader_names=["a/b", "c"], **OPTIONS)
        trainer = fit(folder, bleu, loaders=[make_loader(), make_loader()], max_epochs=1)
        names = {"val_bleu", "val_bleu/best", "val_bleu/a/b", "val_bleu/a/b/precision_1", "val_bleu/c/difference_low"}
        assert {name.replace("/", separator) for name in names} <= trainer.callback_metrics.keys()
        keys = [line["key"] for line in read_scores(folder / "t" / "scores.jsonl")]
        assert keys == [*bleu.results] == [f"val_bleu{separator}a{separator}b", f"val_bleu{separator}c", "val_bleu"]
        runs[name] = folder_of(folder / "t", separator)
    assert runs["slash"] == runs["underscore"] == runs["colons"]
    assert {"val/a%2Fb/step-0000006.txt", "val/c/ref.txt"} <= {*map(str, runs["slash"]["files"])}


def test_monitors_have_the_names_that_are_logged(tmp_path: Path) -> None:
    bleu = make_callback(separator="_", **OPTIONS)
    fit(tmp_path, bleu, ModelCheckpoint(tmp_path, monitor="val_bleu_best", mode="max"), max_epochs=1)
    wrong = ModelCheckpoint(tmp_path, monitor="val_bleu_low", mode="min")
    arguments = (tmp_path, make_callback(separator="_", **OPTIONS), wrong)
    assert len(collect_warnings(fit, *arguments, message="set mode='max'", max_epochs=1)) == 1


# Loggers that cannot take names


class FakeMLflow:
    """A logger with what the MLflow logger of Lightning has."""

    run_id = ""

    def __init__(self, uri: str) -> None:
        self.experiment = Client(uri)
        self.logged: list[Any] = []

    def log_metrics(self, numbers: Any, step: int) -> None:
        self.logged.append(numbers)

    def save(self) -> None: ...


class Client(SimpleNamespace):
    """What it writes to."""

    def __init__(self, uri: str) -> None:
        super().__init__(tracking_uri=uri)

    def log_table(self, *args: Any) -> None: ...

    log_image = log_table


CLASH = (
    r"^(?:FakeMLflow|MLFlowLogger) writes each metric to a file in '.+', so it cannot log both 'val_bleu' and "
    r"'val_bleu/{}': set separator=\"_\", or use a database, such as tracking_uri=\"sqlite:///mlflow.db\"$"
)
FILES = ["mlruns", "./mlruns", "/tmp/mlruns", "file:mlruns", "file:./mlruns", "file:///tmp/mlruns", r"C:\mlruns"]
OTHERS = ["sqlite:///mlflow.db", "postgresql+psycopg2://u:p@host/db", "http://localhost:5000", "https://host/mlflow"]
OTHERS += ["databricks", "databricks://profile", "databricks-uc", "uc", "uc:http://localhost:8080"]


@pytest.mark.parametrize("uri", [*FILES, *OTHERS])
def test_a_local_path_is_a_file_store(uri: str) -> None:
    adapter = adapt(FakeMLflow(uri))
    assert type(adapter) is MLflow
    adapter.check_names(["val_bleu", "val_bleu_low", "val_chrf/low"])
    if uri in FILES:
        with pytest.raises(ValueError, match=CLASH.format("low")):
            adapter.check_names(["val_loss", "val_bleu/low", "val_bleu"])
    else:
        adapter.check_names(["val_bleu/low", "val_bleu"])


@pytest.mark.parametrize("loader", ["a//b", ".", "../x", "x/.", "\u4e2d\u6587", "a" * 250])
def test_a_name_that_mlflow_refuses_is_an_error(loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"val_bleu/{loader}"
    with pytest.raises(ValueError, match=f"^MLflow cannot take the name {re.escape(repr(name))}"):
        adapt(FakeMLflow("sqlite:///mlflow.db")).check_names(["val_bleu", name])
    logger = open_mlflow("{}/mlruns", tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=r"^MLflow cannot take the name"):
        fit(tmp_path, make_callback(parts=False), logger=logger, loaders={loader: make_loader(), "b": make_loader()})
    # This is why.
    warnings.simplefilter("ignore")  # of what the logger removes
    with pytest.raises(Exception, match=r"[Ii]nvalid|exceeds"):
        logger.log_metrics({name: 0.5})


def test_names_that_mlflow_would_store_as_one_are_an_error() -> None:
    adapter = adapt(FakeMLflow("sqlite:///mlflow.db"))
    adapter.check_names(["val_bleu/<20", "val_bleu/20-30", "val_bleu/a b.c"])
    with pytest.raises(
        ValueError, match=r"^MLflow would store 'val_bleu/<20' and 'val_bleu/>20' as one metric, 'val_bleu/20'"
    ):
        adapter.check_names(["val_bleu/<20", "val_bleu/>20"])


LABELS = [
    "<20",
    ">20",
    "中文",
    "/data/de",
    "/data//zh",
    ".",
    "../x",
    "a/",
    "_x3c_20",
    "a" * 300,
    "a" * 299 + "b",
    "en-de",
]


def update(evaluator: Evaluator, labels: list[str]) -> None:
    lines = [f"the cat sat on mat {number}" for number in range(len(labels))]
    evaluator.update(lines, [f"{line} here" for line in lines], group=labels)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
def test_labels_that_mlflow_refuses_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = open_mlflow("sqlite:///{}/mlflow.db", tmp_path, monkeypatch)
    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[logger], parts=False, samples=0, confidence=0.9)
    names = []
    for step, labels in enumerate([LABELS, LABELS[::-1]]):
        evaluator.start()
        update(evaluator, labels)
        names.append(set(evaluator.finish(step)))
    assert names[0] == names[1]
    scores_and_intervals = {f"{name}{end}" for name in names[0] for end in ("", "/low", "/high")}
    assert scores_and_intervals - {"val_bleu/mean/low", "val_bleu/mean/high"} == read_names(logger)
    assert {"val_bleu/_x3c_20", "val_bleu/_x5f_x3c_20", "val_bleu/_x2f_data/_x2f_zh", "val_bleu/en-de"} <= names[0]
    assert len(names[0]) == 2 + len(LABELS)
    evaluator.start()
    with pytest.raises(ValueError, match=r"^the groups cannot have the name '', which is reserved$"):
        update(evaluator, [""])


def test_other_loggers_get_labels_as_they_are(tmp_path: Path) -> None:
    evaluator = Evaluator(loggers=[CSVLogger(tmp_path)], parts=False, samples=0)
    evaluator.start()
    update(evaluator, LABELS)
    assert set(evaluator.finish(0)) == {"val_bleu", "val_bleu/mean", *(f"val_bleu/{label}" for label in LABELS)}


def test_a_client_that_does_not_say_where_it_writes_takes_all_names() -> None:
    logger = FakeMLflow("mlruns")
    del logger.experiment.tracking_uri
    adapt(logger).check_names(["val_bleu", "val_bleu/low"])


NESTED: list[Any] = [
    ({}, "", "precision_1"),
    ({"parts": ["length_ratio"]}, "", "length_ratio"),
    ({"parts": False, "confidence": 0.9}, "", "low"),
    ({"parts": False, "compare_to": "first"}, "", "difference"),
    ({"parts": False, "metrics": {"bleu": CorpusCHRF()}}, "news", "news"),
]
FLAT: list[Any] = [
    ({"parts": False}, ""),
    ({"separator": "_", **OPTIONS}, ""),
    ({"separator": "_", **OPTIONS}, "news"),
    ({"metrics": {"bleu": lambda hypotheses, references: [1.0] * len(hypotheses)}}, ""),
]


@pytest.mark.parametrize(("options", "loader", "part"), NESTED)
def test_an_evaluator_does_not_start_if_its_logger_cannot_take_the_names(
    options: dict[str, Any], loader: str, part: str
) -> None:
    loaders = {loader: ["a batch"]} if loader else None
    files = Evaluator(loggers=[DummyLogger(), FakeMLflow("mlruns")], **options)
    with pytest.raises(ValueError, match=CLASH.format(part)):
        files.start(loaders)
    with pytest.raises(RuntimeError, match="no validation was started"):
        files.finish(0)
    Evaluator(loggers=[FakeMLflow("sqlite:///mlflow.db")], **options).start(loaders)


@pytest.mark.parametrize(("options", "loader"), FLAT)
def test_an_evaluator_logs_names_that_are_no_folders_to_files(options: dict[str, Any], loader: str) -> None:
    logger = FakeMLflow("mlruns")
    evaluator = Evaluator(loggers=[logger], samples=0, **options)
    evaluator.start({loader: ["a batch"]} if loader else None)
    evaluator.update(["a b", "c"], ["a b", "d"])
    evaluator.finish(0)
    (numbers,) = logger.logged
    assert not [name for name in numbers if "/" in name]


def test_a_test_has_no_comparison_so_its_names_may_be_files() -> None:
    evaluator = Evaluator(loggers=[FakeMLflow("mlruns")], parts=False, compare_to="best")
    evaluator.start(stage="test")
    with pytest.raises(ValueError, match=CLASH.format("difference")):
        evaluator.start()


class Trainer:
    """What the mixin needs of a Trainer."""

    model = None

    def __init__(self, **args: Any) -> None:
        best = {"metric_for_best_model": None, "greater_is_better": None}
        self.args = SimpleNamespace(output_dir="out", prediction_loss_only=False, device="cpu", **best, **args)
        self.state = SimpleNamespace(is_world_process_zero=True)
        self.callback_handler = SimpleNamespace(callbacks=[])
        self.processing_class = None

    def _get_output_dir(self, trial: Any) -> str:
        return "out"

    def train(self, *args: Any) -> str:
        return "trained"


class Evaluating(EvaluatorMixin, Trainer):
    pass


def test_a_trainer_of_transformers_joins_names_with_the_separator_that_is_set() -> None:
    message = CLASH.format("precision_1").replace("val_bleu", "eval/bleu")
    evaluator = Evaluator(loggers=[FakeMLflow("mlruns")], separator="/")
    trainer = Evaluating(evaluator=evaluator, eval_strategy="epoch")
    with pytest.raises(ValueError, match=message):
        trainer.train()
    with pytest.raises(ValueError, match=message):
        trainer.evaluation_loop([], "Evaluation")
    assert Evaluating(evaluator=evaluator, eval_strategy="no").train() == "trained"
    for separator in (None, "_", "-"):
        flat = Evaluator(loggers=[FakeMLflow("mlruns")], separator=separator)
        assert Evaluating(evaluator=flat, eval_strategy="epoch").train() == "trained"


def open_mlflow(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # the logger sets it; this takes it back
    return MLFlowLogger(tracking_uri=uri.format(folder), artifact_location=(folder / "artifacts").as_uri())


def read_names(logger: Any) -> set[str]:
    """The names of what MLflow has stored."""
    return {name for name in logger.experiment.get_run(logger.run_id).data.metrics if "bleu" in name}


FILE_STORES = ["{}/mlruns", "file:{}/mlruns"]


@pytest.mark.slow
@pytest.mark.parametrize("uri", FILE_STORES)
def test_names_that_mlflow_cannot_write_to_files_are_an_error_before_a_run(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = open_mlflow(uri, tmp_path, monkeypatch)
    bleu = make_callback(translations=tmp_path / "t")
    with pytest.raises(ValueError, match=CLASH.format("precision_1")):
        fit(tmp_path, bleu, logger=logger, max_epochs=1)
    trainer = make_trainer(tmp_path, bleu, logger=logger)
    for run, stage in ((trainer.validate, "val"), (trainer.test, "test")):
        with pytest.raises(ValueError, match=CLASH.format("precision_1").replace("val_", f"{stage}_")):
            run(make_module(), make_loader(), verbose=False)
    assert read_names(logger) == set()
    assert not (tmp_path / "t").exists()
    # This is why.
    logger.log_metrics({"val_bleu": 0.5})
    with pytest.raises(Exception, match="Not a directory"):
        logger.log_metrics({"val_bleu/low": 0.5})


@pytest.mark.slow
@pytest.mark.parametrize("sanity", [0, 1])
def test_loaders_and_groups_are_checked_before_the_training(
    sanity: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = open_mlflow(FILE_STORES[0], tmp_path, monkeypatch)
    options: dict[str, Any] = {"logger": logger, "max_epochs": 1, "num_sanity_val_steps": sanity}
    loaders = [make_loader(), make_loader()]
    with pytest.raises(ValueError, match=CLASH.format("dataloader_idx_0")):
        fit(tmp_path, make_callback(parts=False), loaders=loaders, **options)

    def in_groups(batch: Any, epoch: int) -> dict[str, Any]:
        return {"preds": ["a"] * len(batch), "target": ["a"] * len(batch), "group": ["de"] * len(batch)}

    if sanity:  # otherwise, the groups are not known
        with pytest.raises(ValueError, match=CLASH.format("(de|all)")):
            fit(tmp_path, BLEUCallback(parts=False), step=in_groups, **options)
    assert read_names(logger) == set()
    # Without validations, nothing is logged.
    fit(tmp_path, make_callback(), limit_val_batches=0, **options)
    fit(tmp_path, make_callback(), fast_dev_run=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "options", "names"),
    [
        (FILE_STORES[0], {"parts": False}, {"val_bleu"}),
        (FILE_STORES[1], {"separator": "_", "parts": ["length_ratio"]}, {"val_bleu", "val_bleu_length_ratio"}),
    ],
)
def test_mlflow_writes_names_that_are_no_folders_to_files(
    uri: str, options: dict[str, Any], names: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = open_mlflow(uri, tmp_path, monkeypatch)
    fit(tmp_path, make_callback(samples=1, **options), logger=logger, max_epochs=2)
    assert read_names(logger) == names
    history = logger.experiment.get_metric_history(logger.run_id, "val_bleu")
    assert [value.step for value in history] == [5, 11]


def test_other_loggers_take_all_names(tmp_path: Path) -> None:
    loggers = [CSVLogger(tmp_path), TensorBoardLogger(tmp_path)]
    for logger in loggers:
        adapt(logger).check_names(["val_bleu", "val_bleu/low"])
