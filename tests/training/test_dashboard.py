"""What a validation looks like, read back from what each logger stored."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pytorch_lightning.loggers import CometLogger, CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import DummyLogger
from sacrebleu.metrics.ter import TER
from tensorboard.plugins.custom_scalar import layout_pb2  # type: ignore[import-untyped]
from torch import Tensor
from torchmetrics.text import ROUGEScore

from lightning_bleu import CONVENTIONS, BLEUCallback, CorpusBLEU, CorpusCHRF, corpus_bleu, sentence_bleu
from lightning_bleu.training.dashboard import (
    COLUMNS,
    TensorBoard,
    View,
    find_displays,
    is_installed,
    lay_out_charts,
    lay_out_other,
    missing_packages,
)
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.markdown import escape
from tests.helpers.lightning import (
    PAD_ID,
    SENTENCES,
    collect_warnings,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
    return_ids,
)

pytestmark = ignore_lightning_warnings

LINES = [
    ("the cat sat on the mat", ["the cat is on the mat", "a cat is on the mat"]),
    ("nothing in common", ["these words differ entirely"]),
    ("all of this is right", ["all of this is right"]),
    ("<b>bold</b> | pipe here now", ["<i>so</i> | pipe here now"]),
    ("one more line for the table", ["one more row for the table"]),
]
HYPOTHESES, REFERENCES = [hypothesis for hypothesis, _ in LINES], [references for _, references in LINES]
BLEU = sentence_bleu(HYPOTHESES, REFERENCES, percent=True).tolist()
SIGNATURE = corpus_bleu(HYPOTHESES, REFERENCES).signature

STEPS = [2, 5]
"""Lightning logs the scores of an epoch at the last step of the epoch; there are three steps in an epoch."""


def log_to(folder: Path, name: str = "run") -> TensorBoardLogger:
    return TensorBoardLogger(folder, name=name, version="")


def fit(
    folder: Path, callback: BLEUCallback, *loggers: Any, lines: Sequence[tuple[str, list[str]]] = LINES
) -> dict[str, Any]:
    """Train the toy module for two epochs, each with a validation of the lines, and return TensorBoard's tags."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        sources = [f"source {i}" for i in batch]
        return {"preds": [lines[i][0] for i in batch], "target": [lines[i][1] for i in batch], "source": sources}

    loader = make_loader(range(len(lines)), batch_size=2)
    trainer = make_trainer(folder, callback, logger=[*loggers] or log_to(folder), max_epochs=2)
    trainer.fit(make_module(step=step), loader, loader)
    tags: dict[str, Any] = read_events(folder / "run").Tags() if (folder / "run").exists() else {}
    return tags


def view(
    samples: int,
    preds: Any = HYPOTHESES,
    target: Any = REFERENCES,
    mask: list[bool] | None = None,
    index: list[int] | None = None,
    **options: Any,
) -> View:
    """A view of an evaluation."""
    evaluation = Evaluation("val_bleu", "", CorpusBLEU(**options), max_texts=10)
    evaluation.update(preds, target, mask, index)
    result = evaluation.result()
    return View(result.report, result.sentences, evaluation.metric.settings, samples)


def texts(events: Any, tag: str) -> list[tuple[int, str]]:
    """Step and content of the panels with a tag."""
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(f"{tag}/text_summary")]


def test_tensorboard_gets_samples_and_a_histogram_and_figures_at_the_step_of_the_scores(tmp_path: Path) -> None:
    tags = fit(tmp_path, BLEUCallback(CorpusBLEU(percent=True), samples=2))
    assert set(tags["images"]) == {"val_bleu/by_length", "val_bleu/lengths"}
    assert tags["histograms"] == ["val_bleu/sentence_bleu"]
    events = read_events(tmp_path / "run")
    assert [event.step for event in events.Scalars("val_bleu")] == STEPS  # one per epoch, none for the sanity check

    report = corpus_bleu(HYPOTHESES, REFERENCES, percent=True)
    for name, kind in {"samples": "first", "worst": "worst"}.items():
        panels = texts(events, f"val_bleu/{name}")
        assert [step for step, _ in panels] == STEPS
        assert f"The {kind} sentences. {escape(str(report))}" in panels[-1][1].splitlines()[0]
    rows = read_table(texts(events, "val_bleu/samples")[-1][1])
    expected = [(i + 1, round(BLEU[i], 1), f"source {i}", *LINES[i]) for i in range(2)]
    assert [tuple(row) for row in rows] == expected

    histograms = events.Histograms("val_bleu/sentence_bleu")
    assert [event.step for event in histograms] == STEPS
    histogram = histograms[-1].histogram_value
    assert (histogram.num, histogram.max) == (5, pytest.approx(100))  # five lines, one of them right
    for name in ("val_bleu/by_length", "val_bleu/lengths"):
        images = events.Images(name)
        assert [event.step for event in images] == STEPS
        assert images[-1].encoded_image_string.startswith(b"\x89PNG")


def test_nothing_but_charts_is_shown_without_samples(tmp_path: Path) -> None:
    tags = fit(tmp_path, BLEUCallback(samples=0))
    assert tags["images"] == tags["histograms"] == []
    assert tags["tensors"] == ["custom_scalars__config__"]
    assert "val_bleu" in tags["scalars"]


@pytest.mark.parametrize("lines", [[("", [""])] * 3, [("a", ["a"])], [("", ["a b"]), ("a b", [""])]])
def test_corpora_with_few_words_are_shown(lines: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback(), lines=lines)
    assert len(texts(read_events(tmp_path / "run"), "val_bleu/samples")) == 2


def test_nothing_is_shown_of_an_evaluation_without_sentences(tmp_path: Path) -> None:
    module = make_module(step=lambda batch, epoch: ([], []))
    make_trainer(tmp_path, BLEUCallback(), logger=log_to(tmp_path)).validate(module, make_loader(), verbose=False)
    assert read_events(tmp_path / "run").Tags()["images"] == []


# Which sentences


@pytest.mark.parametrize("samples", [1, 2, 5, 9])
def test_the_first_and_the_worst_are_as_many_as_asked_for(samples: int) -> None:
    shown = view(samples)
    numbers = list(range(1, min(samples, 5) + 1))
    assert [sample.number for sample in shown.first] == numbers
    # Nothing of the second matches; the third is right; most of the others matches, but no 4-gram of the first.
    assert [sample.number for sample in shown.worst] == [2, 1, 5, 4, 3][:samples]
    for sample in (*shown.first, *shown.worst):
        hypothesis, references = LINES[sample.number - 1]
        assert (sample.hypothesis.text, [segment.text for segment in sample.references]) == (hypothesis, references)
        assert sample.bleu == pytest.approx(sentence_bleu([hypothesis], [references], percent=True).item())


def test_only_sentences_that_count_are_shown() -> None:
    shown = view(9, mask=[False, True, True, False, True])
    assert [sample.hypothesis.text for sample in shown.first] == [HYPOTHESES[1], HYPOTHESES[2], HYPOTHESES[4]]
    assert [sample.number for sample in shown.first] == [1, 2, 3]
    assert len(shown.scores) == 3


def test_sentences_are_shown_in_the_order_of_their_positions() -> None:
    shown = view(2, index=[8, 6, 4, 2, 0])
    assert [sample.hypothesis.text for sample in shown.first] == [HYPOTHESES[4], HYPOTHESES[3]]
    assert [sample.number for sample in shown.first] == [1, 2]
    assert (shown.worst[0].number, shown.worst[0].hypothesis.text) == (4, HYPOTHESES[1])
    assert shown.scores.tolist() == pytest.approx(BLEU[::-1])


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_scores_of_sentences_tell_some_matches_from_none(convention: str) -> None:
    # All right but too short for a 4-gram; two words in a row are right; two words are right; nothing is.
    preds, target = ["a b", "a b x y", "a x b y", "v w x y"], ["a b", *["a b c d"] * 3]
    scores = view(4, preds, target, convention=convention).scores.tolist()
    # nltk counts one possible match for an order for which a sentence is too short.
    assert (scores[0] == pytest.approx(100)) == (convention != "nltk")
    assert scores[0] > scores[1] > scores[2] > scores[3] == 0


# Charts


def test_a_chart_of_each_score_is_laid_out_once_for_all_callbacks(tmp_path: Path) -> None:
    callbacks = [
        make_callback(confidence=0.95, dataloader_names=["news", "talks (TED)"]),
        BLEUCallback(CorpusBLEU(max_order=2, pad_id=PAD_ID), name="bleu2"),
    ]
    trainer = make_trainer(tmp_path, *callbacks, logger=log_to(tmp_path), max_epochs=2)
    trainer.fit(make_module(step=return_ids), make_loader(SENTENCES), [make_loader(), make_loader(SENTENCES[:9])])
    events = read_events(tmp_path / "run")
    (event,) = events.Tensors("custom_scalars__config__")  # TensorBoard knows one layout per run
    layout = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0])
    scores, parts = layout.category
    assert (scores.title, parts.title) == ("BLEU", "BLEU: precisions and lengths")
    news, talks = "val_bleu/news", "val_bleu/talks (TED)"
    others = ["val_bleu2/dataloader_idx_0", "val_bleu2/dataloader_idx_1"]
    assert {chart.title for chart in scores.chart} == {
        *("val_bleu: mean of all", "val_bleu2: mean of all"),
        *(news, talks, *others),
    }
    tags = set(events.Tags()["scalars"])
    for chart in [*scores.chart, *parts.chart]:
        if chart.HasField("margin"):
            (series,) = chart.margin.series
            tag = chart.title.removesuffix(": mean of all")
            assert (series.value, series.lower, series.upper) == (tag, f"{tag}/low", f"{tag}/high")
            assert {series.value, series.lower, series.upper} < tags
        for pattern in chart.multiline.tag:
            assert sum(re.match(pattern, tag) is not None for tag in tags) == 1, pattern  # as TensorBoard does
    assert {chart.title for chart in scores.chart if chart.HasField("margin")} == {
        "val_bleu: mean of all",
        *(news, talks),
    }
    (precisions,) = [chart for chart in parts.chart if chart.title == f"{others[1]}: precisions (1 at the top to 2)"]
    assert len(precisions.multiline.tag) == 2


def charts_of(folder: Path, others: dict[str, Any], **options: Any) -> tuple[dict[str, Any], set[str]]:
    """The charts of metrics beside BLEU, and all scalars, of a run that validates with one loader or two."""
    lines = {"news": LINES, "talks": LINES[:3]}

    def step(batch: Any, epoch: int) -> Any:
        return [LINES[i][0] for i in batch], [LINES[i][1] for i in batch]

    loaders = {name: make_loader(range(len(one))) for name, one in lines.items()}
    callback = BLEUCallback(others=others, **options)
    trainer = make_trainer(folder, callback, logger=log_to(folder), max_epochs=1)
    validated = loaders["news"] if "dataloader_names" in options else loaders
    trainer.fit(make_module(step=step), loaders["news"], validated)
    events = read_events(folder / "run")
    (event,) = events.Tensors("custom_scalars__config__")
    categories = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0]).category
    assert [category.title for category in categories] == ["BLEU", "Beside BLEU", "BLEU: precisions and lengths"]
    return {chart.title: chart for chart in categories[1].chart}, set(events.Tags()["scalars"])


def drawn(chart: Any, tags: set[str]) -> set[str]:
    """What TensorBoard draws in a chart of lines."""
    return {tag for tag in tags for pattern in chart.multiline.tag if re.match(pattern, tag)}


ROUGE = {f"rouge1_{part}" for part in ("fmeasure", "precision", "recall")}


def test_a_metric_beside_bleu_with_several_scores_has_them_in_one_chart(tmp_path: Path) -> None:
    others = {"chrf": CorpusCHRF(), "ter (5)": TER(), "rouge": ROUGEScore(rouge_keys=("rouge1",))}
    charts, tags = charts_of(tmp_path, others, dataloader_names=["news"])
    assert {title: drawn(chart, tags) for title, chart in charts.items() if "mean" not in title} == {
        "val_chrf/news": {"val_chrf/news"},
        "val_ter (5)/news": {"val_ter (5)/news"},
        "val_rouge/news": {f"val_rouge/news/{part}" for part in ROUGE},
    }


def test_each_loader_has_a_chart_of_each_metric(tmp_path: Path) -> None:
    charts, tags = charts_of(tmp_path, {"chrf": CorpusCHRF(), "ter": TER(), "terse": TER()}, confidence=0.9)
    names = {"val_chrf", "val_ter", "val_terse"}
    loaders = {f"{name}/{loader}" for name in names for loader in ("news", "talks")}
    assert charts.keys() == {f"{name}: mean of all" for name in names} | loaders
    for name in ("val_ter", "val_terse"):
        assert drawn(charts[f"{name}: mean of all"], tags) == {name}
    bands = {"val_chrf: mean of all": "val_chrf", "val_chrf/news": "val_chrf/news", "val_chrf/talks": "val_chrf/talks"}
    for title, tag in bands.items():  # only metrics of this package have intervals
        (series,) = charts[title].margin.series
        assert [series.value, series.lower, series.upper] == [tag, f"{tag}/low", f"{tag}/high"]
        assert {series.value, series.lower, series.upper} < tags
    assert drawn(charts["val_ter/talks"], tags) == {"val_ter/talks"}


def test_the_mean_of_a_metric_with_several_scores_has_a_chart(tmp_path: Path) -> None:
    charts, tags = charts_of(tmp_path, {"rouge": ROUGEScore(rouge_keys=("rouge1",))})
    assert drawn(charts["val_rouge: mean of all"], tags) == {f"val_rouge/{part}" for part in ROUGE}


@pytest.mark.parametrize(
    ("options", "chart"),
    [
        ({"has_parts": False, "confidence": False}, ["Multiline", ["^val_a\\+$"]]),
        ({"has_parts": True, "confidence": False}, ["Multiline", ["^val_a\\+(/.*)?$"]]),
        ({"has_parts": False, "confidence": True}, ["Margin", ["val_a+", "val_a+/low", "val_a+/high"]]),
    ],
)
def test_a_single_loader_has_no_mean_of_a_metric(options: Any, chart: list[Any]) -> None:
    assert lay_out_other("val_a+", [], **options) == {"Beside BLEU": {"val_a+": chart}}


def test_bands_of_loaders_are_in_the_order_of_the_loaders_for_tensorboard() -> None:
    """It shows bands in reverse order."""
    titles = ["val_chrf: mean of all", "val_chrf/news", "val_chrf/talks"]
    for confidence, order in ((False, titles), (True, titles[::-1])):
        layout = lay_out_other("val_chrf", ["news", "talks"], has_parts=False, confidence=confidence)
        assert [*layout["Beside BLEU"]] == order


def test_the_comparison_with_the_best_has_charts(tmp_path: Path) -> None:
    callback = make_callback(compare_to_best=True, others=None)
    trainer = make_trainer(tmp_path, callback, logger=log_to(tmp_path), max_epochs=1)
    trainer.fit(make_module(step=return_ids), make_loader(), {"news": make_loader(), "talks": make_loader()})
    events = read_events(tmp_path / "run")
    (event,) = events.Tensors("custom_scalars__config__")
    categories = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0]).category
    assert [category.title for category in categories] == [
        *("BLEU", "Comparison with the best", "BLEU: precisions and lengths")
    ]
    tags = set(events.Tags()["scalars"])
    charts = {chart.title: drawn(chart, tags) for chart in categories[1].chart}
    expected = {}
    for title, tag in {
        "val_bleu: mean of all": "val_bleu",
        "val_bleu/news": "val_bleu/news",
        "val_bleu/talks": "val_bleu/talks",
    }.items():
        expected[f"{title}, and the best so far"] = {tag, f"{tag}/best"}
        expected[f"{title}: p-value of the difference"] = {f"{tag}/p_value"}
    assert charts == expected


def test_a_score_without_an_interval_is_a_line() -> None:
    layout = lay_out_charts({"val_bleu": 4}, mean=None, confidence=False)
    assert layout["BLEU"] == {"val_bleu": ["Multiline", ["^val_bleu$"]]}


def test_a_later_fit_in_the_same_trainer_lays_out_again(tmp_path: Path) -> None:
    """Its logger may write to another folder."""

    def step(batch: Tensor, epoch: int) -> Any:
        return return_ids(batch, 0)

    callback, module = make_callback(), make_module(step=step)
    for name in ("one", "two"):
        trainer = make_trainer(tmp_path, callback, logger=log_to(tmp_path, name), max_epochs=1)
        trainer.fit(module, make_loader(), make_loader())
        assert "custom_scalars__config__" in read_events(tmp_path / name).Tags()["tensors"]


# Loggers


def row(step: int, sentence: int, shown_as: str) -> list[Any]:
    """A row of the table of samples."""
    texts = f"source {sentence}", HYPOTHESES[sentence], "\n".join(REFERENCES[sentence])
    return [step, sentence + 1, shown_as, pytest.approx(BLEU[sentence]), *texts, SIGNATURE]


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
    assert sorted(table["data"] for table in tables) == [rows(step) for step in STEPS]
    names = {path.name.split("_")[0] for path in (tmp_path / "wandb").rglob("*.png")}
    assert names == {"by", "lengths"}  # by_length and lengths, followed by a number


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
def test_mlflow_gets_a_table_and_figures_with_names_that_it_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # the logger sets it; this takes it back
    artifacts = (tmp_path / "artifacts").as_uri()
    logger: Any = MLFlowLogger(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db", artifact_location=artifacts)
    fit(tmp_path, BLEUCallback(samples=1), logger)
    history = logger.experiment.get_metric_history(logger.run_id, "val_bleu/precision_1")
    assert [value.step for value in history] == STEPS
    root = tmp_path / "artifacts" / logger.run_id / "artifacts"
    table = json.loads((root / "val_bleu" / "samples.json").read_text())
    assert (table["columns"], table["data"]) == (COLUMNS, [*rows(STEPS[0]), *rows(STEPS[1])])
    for figure in ("by_length", "lengths"):
        for step in STEPS:
            (path,) = (root / "images").glob(f"val_bleu~{figure}+step+{step}+*.png")
            assert path.read_bytes().startswith(b"\x89PNG")

    (display,) = find_displays([logger])
    display.show("val_bleu/news: [α]", view(1), STEPS[0])
    assert (root / "val_bleu" / "news_ ___" / "samples.json").exists()

    def fit_again() -> None:
        make_trainer(tmp_path, BLEUCallback(), logger=logger, max_epochs=2).fit(module, make_loader(), make_loader())

    module = make_module(step=lambda batch, epoch: (["a lone surrogate \ud800"], ["a reference"]))
    assert collect_warnings(fit_again, message="cannot be shown") == []
    assert "a lone surrogate ?" in (root / "val_bleu" / "samples.json").read_text()


@pytest.mark.slow
def test_comet_gets_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is uploaded from an archive later, because Comet writes archives without a server."""
    pytest.importorskip("comet_ml", minversion="3.44.4")  # Lightning needs this version
    monkeypatch.setenv("COMET_START_ONLINE", "false")  # the logger stores nothing with `online=False`
    monkeypatch.setenv("COMET_ERROR_TRACKING_ENABLE", "false")
    monkeypatch.setenv("COMET_DISABLE_AUTO_LOGGING", "1")  # the logger sets it; this takes it back
    quiet: dict[str, Any] = dict.fromkeys(
        ["log_code", "log_git_patch", "log_env_details", "auto_output_logging"], False
    )
    logger = CometLogger(offline_directory=str(tmp_path), display_summary_level=0, **quiet)
    fit(tmp_path, BLEUCallback(samples=1), logger)
    logger.experiment.end()

    (path,) = tmp_path.glob("*.zip")
    with zipfile.ZipFile(path) as archive:
        messages = [json.loads(line) for line in archive.read("messages.json").splitlines()]
        uploads = [message["payload"] for message in messages if message["type"] == "file_upload"]
        files = [(upload["additional_params"], archive.read(upload["file_path"])) for upload in uploads]
    metrics = [message["payload"]["metric"] for message in messages if message["type"] == "metric_msg"]
    assert [metric["step"] for metric in metrics if metric["metricName"] == "val_bleu/precision_1"] == STEPS

    tables = [
        (params["step"], text.decode()) for params, text in files if params.get("fileName") == "val_bleu/samples.csv"
    ]
    assert [step for step, _ in tables] == STEPS
    for step, text in tables:
        header, *body = csv.reader(io.StringIO(text, newline=""))
        assert header == COLUMNS
        assert [[int(a), int(b), c, float(d), *texts] for a, b, c, d, *texts in body] == rows(step)
    figures = [(params["step"], params["figName"]) for params, text in files if b"<svg" in text]
    assert figures == [(step, f"val_bleu/{name}") for step in STEPS for name in ("by_length", "lengths")]


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
    tensorboard = log_to(tmp_path)
    loggers = [CSVLogger(tmp_path), tensorboard, object(), log_to(tmp_path, "other")]
    assert [type(display) for display in find_displays(loggers)] == [TensorBoard, TensorBoard]
    tags = fit(tmp_path, BLEUCallback(samples=1), tensorboard, CSVLogger(tmp_path))
    assert "val_bleu/lengths" in tags["images"]


class Broken(CSVLogger):
    """As a logger whose server does not answer."""

    @property
    def experiment(self) -> Any:
        raise ConnectionError("no answer")


def test_a_logger_that_is_broken_does_not_keep_the_others_from_showing(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="^Broken cannot show samples: ConnectionError: no answer$"):
        displays = find_displays([Broken(tmp_path), log_to(tmp_path)])
    assert [type(display) for display in displays] == [TensorBoard]


def test_figures_are_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.warns(UserWarning, match="Figures cannot be logged, because matplotlib is not installed"):
        tags = fit(tmp_path, BLEUCallback(samples=1))
    assert tags["images"] == []
    assert "val_bleu/samples/text_summary" in tags["tensors"]


def test_packages_are_missing_only_if_a_logger_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorboard, csv = log_to(tmp_path), CSVLogger(tmp_path)
    mlflow = type("MLFlowLogger", (), {"run_id": "1", "experiment": type("Client", (), {"log_table": None})()})()
    everything: list[list[Any]] = [[tensorboard], [csv], [mlflow], [tensorboard, csv], []]

    def find_missing(loggers: list[Any]) -> list[str]:
        return list(missing_packages(loggers, find_displays(loggers)))

    assert [*map(find_missing, everything)] == [[]] * 5  # the tests need them all
    message = "{} cannot be logged, because {} is not installed: pip install {}.".format
    figures = message("Figures", "matplotlib", "matplotlib")
    tables = message("Sample tables in MLflow", "pandas", "pandas")
    default = message("Samples and figures", "tensorboard", "tensorboard")
    for package in ("matplotlib", "pandas", "tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    expected = [[figures], [default], [figures, tables], [figures], []]
    assert [*map(find_missing, everything)] == expected


def test_a_module_that_takes_the_place_of_a_package_is_not_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))  # has no __spec__
    assert not is_installed("matplotlib")
