"""What loggers are shown, read back from what they wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import markdown
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader

from lightning_bleu import BLEUCallback, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.training.dashboard import Dashboard, Row, escape, markdown_table
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.training.figures import lengths_figure, precisions_figure

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)"),
]

NASTY = [
    "a | b || c",
    "<script>alert(1)</script>",
    "two\nlines\r\n| --- |",
    "*bold* _italic_ `code` # heading [link](javascript:alert(1)) ![image](x) ~~~ \\",
    "&lt;b&gt; &amp; <b>",
    "äöü 中文 😀",
    "\x00\x85\u2028",
]


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


class Model(pl.LightningModule):
    def __init__(self, lines: list[tuple[str, list[str]]]) -> None:
        super().__init__()
        self.lines = lines
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: Any) -> Any:
        return self.weight.sum()

    def validation_step(self, batch: Any) -> Any:
        return {"preds": [self.lines[i][0] for i in batch], "target": [self.lines[i][1] for i in batch]}

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


LINES = [
    ("the cat sat on the mat", ["the cat is on the mat", "a cat is on the mat"]),
    ("nothing in common", ["these words differ entirely"]),
    ("all of this is right", ["all of this is right"]),
    ("<b>bold</b> | pipe here now", ["<i>so</i> | pipe here now"]),
    ("one more line for the table", ["one more row for the table"]),
]


def run(tmp_path: Path, callback: BLEUCallback, loggers: Any, lines: Any = LINES) -> None:
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=2,
        callbacks=[callback],
        logger=loggers,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=tmp_path,
    )
    data = DataLoader(range(len(lines)), batch_size=2)  # type: ignore[arg-type]
    trainer.fit(Model(lines), data, data)


def read(folder: Path) -> Any:
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0, "histograms": 0})
    events.Reload()
    return events


def test_tensorboard(tmp_path: Path) -> None:
    callback = BLEUCallback(CorpusBLEU(percent=True), samples=2)
    run(tmp_path, callback, TensorBoardLogger(tmp_path, name="run", version=""))
    events = read(tmp_path / "run")
    tags = events.Tags()
    assert {"val_bleu/by_length", "val_bleu/precisions"} == set(tags["images"])
    assert tags["histograms"] == ["val_bleu/sentence_bleu"]
    assert "val_bleu" in tags["scalars"]

    panels = events.Tensors("val_bleu/samples/text_summary")
    assert len(panels) == 2  # one an epoch, none for the sanity check
    text = panels[-1].tensor_proto.string_val[0].decode()
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 2 (worst)", "| 3 (best)"]
    first = sentence_bleu([LINES[0][0]], [LINES[0][1]], convention="sacrebleu", effective_order=True, percent=True)
    assert f"| {first.item():.1f} | the cat sat on the mat | the cat is on the mat<br>a cat is on the mat |" in rows[0]
    report = corpus_bleu([h for h, _ in LINES], [r for _, r in LINES], percent=True)
    assert text.splitlines()[0].startswith(escape(str(report)))

    histogram = events.Histograms("val_bleu/sentence_bleu")[-1].histogram_value
    assert (histogram.num, histogram.max) == (5, pytest.approx(100))
    image = events.Images("val_bleu/precisions")[-1]
    assert (image.width, image.height) == (500, 300)
    assert image.encoded_image_string.startswith(b"\x89PNG")


def test_figures_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only validations and figures move on: a validation takes 1 s, figures 0.1 s."""
    clock = [0.0]
    monkeypatch.setattr("lightning_bleu.training.dashboard.time.perf_counter", lambda: clock[0])

    class Board:
        drawn = 0

        def add_text(self, *args: Any) -> None:
            pass

        add_histogram = add_text

        def add_figure(self, *args: Any, **options: Any) -> None:
            self.drawn += 1
            clock[0] += 0.05

    class Logger:
        experiment = Board()

    metric, dashboard, logger = CorpusBLEU(), Dashboard(2), Logger()
    metric.update(["a b c d"], ["a b c d"])
    drawn = []
    for step in range(21):
        dashboard.reset()
        dashboard.add(["a b c d"], ["a b c d"], metric.batch_statistics)
        clock[0] += 1
        dashboard.show([logger], "val_bleu", metric.report(), metric.settings, "", step)
        drawn.append(logger.experiment.drawn)
    assert drawn[0] == 2  # the first time, and then whenever 0.1 s more are no more than 3% of the time so far
    assert all(0.05 * figures <= max(0.1, 0.03 * seconds) + 1e-9 for seconds, figures in enumerate(drawn, 1))
    assert drawn[-1] >= 10


def test_nothing_is_shown_without_samples(tmp_path: Path) -> None:
    callback = BLEUCallback(samples=0)
    run(tmp_path, callback, TensorBoardLogger(tmp_path, name="run", version=""))
    tags = read(tmp_path / "run").Tags()
    assert tags["images"] == tags["histograms"] == tags["tensors"] == []
    assert "val_bleu" in tags["scalars"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wandb_gets_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger(save_dir=tmp_path, offline=True)
    run(tmp_path, BLEUCallback(samples=1), logger)
    import wandb

    wandb.finish()
    (table, *_) = sorted((tmp_path / "wandb").rglob("*.table.json"), key=os.path.getmtime, reverse=True)
    content = json.loads(table.read_text())
    assert content["columns"] == ["no.", "sentence BLEU", "hypothesis", "references"]
    assert content["data"][0][2:] == ["the cat sat on the mat", "the cat is on the mat\na cat is on the mat"]


def test_other_loggers_get_the_scalars(tmp_path: Path) -> None:
    run(tmp_path, BLEUCallback(), CSVLogger(tmp_path, name="csv", version=""))
    header = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"val_bleu", "val_bleu/precision_1"} <= set(header)


@pytest.mark.parametrize("lines", [[("", [""])] * 3, [("a", ["a"])], [("", ["a b"]), ("a b", [""])]])
def test_corpora_with_little_in_them(lines: Any, tmp_path: Path) -> None:
    run(tmp_path, BLEUCallback(), [TensorBoardLogger(tmp_path, name="run", version="")], lines)
    assert read(tmp_path / "run").Tensors("val_bleu/samples/text_summary")


def test_figures_show_the_scores() -> None:
    report = corpus_bleu([h for h, _ in LINES], [r for _, r in LINES])
    heights = [bar.get_height() for bar in precisions_figure(report).axes[0].patches]
    assert heights == pytest.approx([100 * precision for precision in report.precisions])

    hypotheses = ["a b c d", "a b c e", "a b c d e f g h", "a b c d e f g i"]
    references = ["a b c d", "a b c d", "a b c d e f g h", "a b c d e f g h"]
    statistics, _ = sentence_statistics(hypotheses, references, Settings.from_options(max_order=2))
    axes = lengths_figure(statistics, Settings.from_options(max_order=2)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8"]
    expected = [corpus_bleu(hypotheses[i : i + 2], references[i : i + 2], max_order=2).bleu for i in (0, 2)]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([100 * score for score in expected])
    axes = lengths_figure(statistics, Settings.from_options(max_order=2), 1).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4-8"]
