"""What loggers are shown, read back from what they wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import markdown  # type: ignore[import-untyped]
import pytest
import torch
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger, WandbLogger

from lightning_bleu import CONVENTIONS, BLEUCallback, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.scoring.score import score
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.training.dashboard import (
    Row,
    choose_rows,
    escape,
    lay_out_intervals,
    markdown_table,
    sentence_settings,
    show,
)
from lightning_bleu.training.evaluation import Evaluation
from tests.helpers.lightning import (
    PanelLogger,
    ignore_lightning_warnings,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
)

pytestmark = ignore_lightning_warnings

NASTY = [
    "a | b || c",
    "<script>alert(1)</script>",
    "two\nlines\r\n| --- |",
    "*bold* _italic_ `code` # heading [link](javascript:alert(1)) ![image](x) ~~~ \\",
    "&lt;b&gt; &amp; <b>",
    "äöü 中文 😀",
    "\x00\x85\u2028",
]

LINES = [
    ("the cat sat on the mat", ["the cat is on the mat", "a cat is on the mat"]),
    ("nothing in common", ["these words differ entirely"]),
    ("all of this is right", ["all of this is right"]),
    ("<b>bold</b> | pipe here now", ["<i>so</i> | pipe here now"]),
    ("one more line for the table", ["one more row for the table"]),
]
HYPOTHESES, REFERENCES = [hypothesis for hypothesis, _ in LINES], [references for _, references in LINES]


def fit(folder: Path, callback: BLEUCallback, logger: Any, lines: list[tuple[str, list[str]]] = LINES) -> None:
    """Train the toy module for two epochs, each with a validation of the lines."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        return {"preds": [lines[i][0] for i in batch], "target": [lines[i][1] for i in batch]}

    loader = make_loader(range(len(lines)), batch_size=2)
    make_trainer(folder, callback, logger=logger, max_epochs=2).fit(make_module(step=step), loader, loader)


def evaluate(mask: list[bool] | None = None, **options: Any) -> tuple[Evaluation, torch.Tensor]:
    """An evaluation of the lines, and the scores of the sentences."""
    evaluation = Evaluation(CorpusBLEU(**options))
    evaluation.update(HYPOTHESES, REFERENCES, mask)
    return evaluation, score(evaluation.statistics(), sentence_settings(evaluation.metric.settings)).bleu


@pytest.mark.parametrize("text", NASTY)
def test_no_sentence_breaks_the_table(text: str) -> None:
    """Rendered by the library that TensorBoard renders it with."""
    table = markdown_table([Row("1", 12.3, text, [text, text])], f"caption {text}")
    page = markdown.markdown(table, extensions=["markdown.extensions.tables", "markdown.extensions.fenced_code"])
    assert page.count("<td") == len(["no.", "sentence BLEU", "hypothesis", "references"])
    assert page.count("<table>") == page.count("</table>") == 1
    for tag in ("<script", "<b>", "<em>", "<strong>", "<code>", "<a ", "<img", "<h1>"):
        assert tag not in page
    assert page.count("<br") == 1 + text.count("\n")  # between the references, and in the caption


def test_long_sentences_are_cut() -> None:
    assert escape("x" * 1000) == "x" * 500 + " ..."
    assert escape("x" * 500) == "x" * 500


def test_tensorboard_gets_samples_and_a_histogram_and_figures(tmp_path: Path) -> None:
    fit(
        tmp_path, BLEUCallback(CorpusBLEU(percent=True), samples=2), TensorBoardLogger(tmp_path, name="run", version="")
    )
    events = read_events(tmp_path / "run")
    tags = events.Tags()
    assert set(tags["images"]) == {"val_bleu/by_length", "val_bleu/precisions"}
    assert tags["histograms"] == ["val_bleu/sentence_bleu"]
    assert "val_bleu" in tags["scalars"]

    panels = events.Tensors("val_bleu/samples/text_summary")
    assert len(panels) == 2  # one per epoch, none for the sanity check
    text = panels[-1].tensor_proto.string_val[0].decode()
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 2 (worst)", "| 3 (best)"]
    first = sentence_bleu(HYPOTHESES[:1], REFERENCES[:1], convention="sacrebleu", effective_order=True, percent=True)
    assert f"| {first.item():.1f} | the cat sat on the mat | the cat is on the mat<br>a cat is on the mat |" in rows[0]
    report = corpus_bleu(HYPOTHESES, REFERENCES, percent=True)
    assert text.splitlines()[0].startswith(escape(str(report)))

    histogram = events.Histograms("val_bleu/sentence_bleu")[-1].histogram_value
    assert (histogram.num, histogram.max) == (5, pytest.approx(100))  # five lines, one of them right
    for name in ("val_bleu/precisions", "val_bleu/by_length"):
        images = events.Images(name)
        assert len(images) == 2  # one per epoch
        assert (images[-1].width, images[-1].height) == (500, 300)  # 5 by 3 inches with 100 dots each
        assert images[-1].encoded_image_string.startswith(b"\x89PNG")


def test_nothing_is_shown_without_samples(tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback(samples=0), TensorBoardLogger(tmp_path, name="run", version=""))
    tags = read_events(tmp_path / "run").Tags()
    assert tags["images"] == tags["histograms"] == tags["tensors"] == []
    assert "val_bleu" in tags["scalars"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wandb_gets_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    fit(tmp_path, BLEUCallback(samples=1), WandbLogger(save_dir=tmp_path, offline=True))
    import wandb

    wandb.finish()
    (table, *_) = sorted((tmp_path / "wandb").rglob("*.table.json"), key=os.path.getmtime, reverse=True)
    content = json.loads(table.read_text())
    assert content["columns"] == ["no.", "sentence BLEU", "hypothesis", "references"]
    assert content["data"][0][2:] == ["the cat sat on the mat", "the cat is on the mat\na cat is on the mat"]


def test_other_loggers_get_the_scalars(tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback(), CSVLogger(tmp_path, name="csv", version=""))
    header = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"val_bleu", "val_bleu/precision_1"} <= set(header)


@pytest.mark.parametrize("lines", [[("", [""])] * 3, [("a", ["a"])], [("", ["a b"]), ("a b", [""])]])
def test_corpora_with_few_words_are_shown(lines: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback(), TensorBoardLogger(tmp_path, name="run", version=""), lines)
    assert len(read_events(tmp_path / "run").Tensors("val_bleu/samples/text_summary")) == 2


def test_nothing_is_shown_of_an_evaluation_without_sentences(tmp_path: Path) -> None:
    evaluation, logger = Evaluation(CorpusBLEU()), PanelLogger(tmp_path)
    show([logger], "val_bleu", evaluation, evaluation.metric.report(), samples=2, step=0)
    assert logger.panels == []


def test_the_caption_is_the_score_and_the_note(tmp_path: Path) -> None:
    (evaluation, _), logger = evaluate(), PanelLogger(tmp_path)
    report = evaluation.metric.report()
    nothing_to_show_with = object()
    show([nothing_to_show_with, logger], "val_bleu", evaluation, report, samples=2, step=0, note="of process 0")
    (panel,) = logger.panels
    assert panel.split("\n\n")[0] == f"{escape(str(report))}  \nof process 0"
    assert [row[0] for row in read_table(panel)] == ["1", "2 (worst)", "3 (best)"]


def test_a_figure_of_resamples_needs_an_interval_with_resamples(tmp_path: Path) -> None:
    for count in (1, len(LINES)):
        evaluation = Evaluation(CorpusBLEU(), keep_sentences=True)
        evaluation.update(HYPOTHESES[:count], REFERENCES[:count])
        result = evaluation.result("val_bleu", confidence=0.9)
        logger = TensorBoardLogger(tmp_path, name=str(count), version="")
        show([logger], "val_bleu", evaluation, result.report, samples=2, step=0, interval=result.interval)
        logger.finalize("success")
    images = [set(read_events(tmp_path / str(count)).Tags()["images"]) for count in (1, len(LINES))]
    always = {"val_bleu/by_length", "val_bleu/precisions"}
    assert images == [always, always | {"val_bleu/resamples"}]


@pytest.mark.parametrize(
    ("samples", "labels"),
    [
        (0, ["2 (worst)", "3 (best)"]),
        (1, ["1", "2 (worst)", "3 (best)"]),
        (4, ["1", "2 (worst)", "3 (best)", "4"]),
        (9, ["1", "2 (worst)", "3 (best)", "4", "5"]),
    ],
)
def test_the_first_sentences_and_the_worst_and_the_best_are_chosen(samples: int, labels: list[str]) -> None:
    evaluation, scores = evaluate()
    rows = choose_rows(evaluation, scores, torch.ones(5, dtype=torch.bool), samples)
    assert [row.label for row in rows] == labels
    numbers = [int(label.split()[0]) - 1 for label in labels]
    assert [(row.hypothesis, row.references) for row in rows] == [LINES[number] for number in numbers]
    assert [row.bleu for row in rows] == [100 * scores[number].item() for number in numbers]


def test_only_sentences_that_count_are_chosen() -> None:
    mask = [False, False, True, True, True]
    evaluation, scores = evaluate(mask)
    rows = choose_rows(evaluation, scores, torch.tensor(mask), 2)
    # The third is all right, of the last one fewer n-grams match than of the fourth.
    assert [row.label for row in rows] == ["3 (best)", "4", "5 (worst)"]
    assert choose_rows(evaluation, scores, torch.zeros(5, dtype=torch.bool), 2) == []


def test_only_sentences_with_a_text_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_bleu.training.evaluation._MAX_TEXTS", 2)
    evaluation = Evaluation(CorpusBLEU())
    for hypothesis, references in LINES:
        evaluation.update([hypothesis], [references])
    scores = score(evaluation.statistics(), sentence_settings(evaluation.metric.settings)).bleu
    rows = choose_rows(evaluation, scores, torch.ones(5, dtype=torch.bool), 8)
    assert [row.label for row in rows] == ["1 (best)", "2 (worst)"]


def test_one_sentence_is_the_best() -> None:
    evaluation = Evaluation(CorpusBLEU())
    evaluation.update(HYPOTHESES[:1], REFERENCES[:1])
    rows = choose_rows(evaluation, torch.tensor([0.5]), torch.tensor([True]), 8)
    assert rows == [Row("1 (best)", 50.0, *LINES[0])]


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_scores_of_sentences_tell_some_matches_from_none(convention: str) -> None:
    settings = Settings.from_options(convention=convention)
    evaluation = Evaluation(CorpusBLEU(convention=convention))
    # All right but too short for a 4-gram; two words in a row are right; two words are right; nothing is.
    evaluation.update(["a b", "a b x y", "a x b y", "v w x y"], ["a b", *["a b c d"] * 3])
    scores = score(evaluation.statistics(), sentence_settings(settings)).bleu.tolist()
    # nltk counts one possible match for an order for which a sentence is too short.
    assert (scores[0] == 1) == (convention != "nltk")
    assert scores[0] > scores[1] > scores[2] > scores[3] == 0
    assert sentence_settings(settings).tokenizer == settings.tokenizer


def test_loggers_without_custom_scalars_get_no_layout(tmp_path: Path) -> None:
    lay_out_intervals([PanelLogger(tmp_path), object()], ["val_bleu"])
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    lay_out_intervals([logger], ["val_bleu"])
    logger.finalize("success")
    assert "custom_scalars__config__" in read_events(tmp_path / "run").Tags()["tensors"]
