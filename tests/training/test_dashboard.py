"""What a validation looks like, read back from what TensorBoard's event files hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.plugins.custom_scalar import layout_pb2  # type: ignore[import-untyped]
from torch import Tensor

from lightning_bleu import CONVENTIONS, BLEUCallback, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.training.dashboard import View, lay_out_charts
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.markdown import escape
from tests.helpers.lightning import (
    PAD_ID,
    SENTENCES,
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


def fit(folder: Path, callback: BLEUCallback, lines: list[tuple[str, list[str]]] = LINES) -> Any:
    """The events of two epochs, each with a validation of the lines."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        return {"preds": [lines[i][0] for i in batch], "target": [lines[i][1] for i in batch]}

    loader = make_loader(range(len(lines)), batch_size=2)
    logger = TensorBoardLogger(folder, name="run", version="")
    make_trainer(folder, callback, logger=logger, max_epochs=2).fit(make_module(step=step), loader, loader)
    return read_events(folder / "run")


def view(samples: int, count: int = len(LINES), mask: list[bool] | None = None, **options: Any) -> View:
    """A view of the first lines."""
    evaluation = Evaluation(CorpusBLEU(**options), max_texts=10)
    evaluation.update(HYPOTHESES[:count], REFERENCES[:count], mask)
    result = evaluation.result("val_bleu")
    assert result.sentences is not None
    return View(result.report, result.sentences, evaluation.metric.settings, samples)


def texts(events: Any, tag: str) -> list[tuple[int, str]]:
    """Step and content of the panels with a tag."""
    return [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(f"{tag}/text_summary")]


def test_tensorboard_gets_samples_and_a_histogram_and_figures(tmp_path: Path) -> None:
    events = fit(tmp_path, BLEUCallback(CorpusBLEU(percent=True), samples=2))
    tags = events.Tags()
    assert set(tags["images"]) == {"val_bleu/by_length", "val_bleu/lengths"}
    assert tags["histograms"] == ["val_bleu/sentence_bleu"]
    assert "val_bleu" in tags["scalars"]

    report = corpus_bleu(HYPOTHESES, REFERENCES, percent=True)
    for name, kind in {"samples": "first", "worst": "worst"}.items():
        panels = texts(events, f"val_bleu/{name}")
        assert len(panels) == 2  # one per epoch, none for the sanity check
        assert f"The {kind} sentences. {escape(str(report))}" in panels[-1][1].splitlines()[0]
    rows = read_table(texts(events, "val_bleu/samples")[-1][1])
    assert [(row.number, row.hypothesis, row.references) for row in rows] == [(1, *LINES[0]), (2, *LINES[1])]
    scores = sentence_bleu(HYPOTHESES, REFERENCES, percent=True)
    assert [row.bleu for row in rows] == [round(score, 1) for score in scores[:2].tolist()]

    histogram = events.Histograms("val_bleu/sentence_bleu")[-1].histogram_value
    assert (histogram.num, histogram.max) == (5, pytest.approx(100))  # five lines, one of them right
    for name in ("val_bleu/by_length", "val_bleu/lengths"):
        images = events.Images(name)
        assert len(images) == 2  # one per epoch
        assert images[-1].encoded_image_string.startswith(b"\x89PNG")


def test_everything_is_shown_at_the_step_of_the_scores(tmp_path: Path) -> None:
    events = fit(tmp_path, BLEUCallback())
    steps = [event.step for event in events.Scalars("val_bleu")]
    assert len(steps) == 2
    assert [step for step, _ in texts(events, "val_bleu/samples")] == steps
    assert [event.step for event in events.Images("val_bleu/lengths")] == steps
    assert [event.step for event in events.Histograms("val_bleu/sentence_bleu")] == steps


def test_nothing_but_charts_is_shown_without_samples(tmp_path: Path) -> None:
    tags = fit(tmp_path, BLEUCallback(samples=0)).Tags()
    assert tags["images"] == tags["histograms"] == []
    assert tags["tensors"] == ["custom_scalars__config__"]
    assert "val_bleu" in tags["scalars"]


@pytest.mark.parametrize("lines", [[("", [""])] * 3, [("a", ["a"])], [("", ["a b"]), ("a b", [""])]])
def test_corpora_with_few_words_are_shown(lines: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    assert len(texts(fit(tmp_path, BLEUCallback(), lines), "val_bleu/samples")) == 2


def test_nothing_is_shown_of_an_evaluation_without_sentences(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    module = make_module(step=lambda batch, epoch: ([], []))
    make_trainer(tmp_path, BLEUCallback(), logger=logger).validate(module, make_loader(), verbose=False)
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


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_scores_of_sentences_tell_some_matches_from_none(convention: str) -> None:
    evaluation = Evaluation(CorpusBLEU(convention=convention), max_texts=10)
    # All right but too short for a 4-gram; two words in a row are right; two words are right; nothing is.
    evaluation.update(["a b", "a b x y", "a x b y", "v w x y"], ["a b", *["a b c d"] * 3])
    result = evaluation.result("val_bleu")
    assert result.sentences is not None
    shown = View(result.report, result.sentences, evaluation.metric.settings, 4)
    scores = shown.scores.tolist()
    # nltk counts one possible match for an order for which a sentence is too short.
    assert (scores[0] == pytest.approx(100)) == (convention != "nltk")
    assert scores[0] > scores[1] > scores[2] > scores[3] == 0


# Charts


def test_a_chart_of_each_score_is_laid_out_once_for_all_callbacks(tmp_path: Path) -> None:
    callbacks = [
        make_callback(confidence=0.95, dataloader_names=["news", "talks (TED)"]),
        BLEUCallback(CorpusBLEU(max_order=2, pad_id=PAD_ID), name="bleu2"),
    ]
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    trainer = make_trainer(tmp_path, *callbacks, logger=logger, max_epochs=2)
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
            assert (series.value, series.lower, series.upper) == (
                chart.title,
                f"{chart.title}/low",
                f"{chart.title}/high",
            )
            assert {series.value, series.lower, series.upper} < tags
        for pattern in chart.multiline.tag:
            assert sum(re.match(pattern, tag) is not None for tag in tags) == 1, pattern  # as TensorBoard does
    assert {chart.title for chart in scores.chart if chart.HasField("margin")} == {news, talks}
    (precisions,) = [chart for chart in parts.chart if chart.title == f"{others[1]}: precisions 1 to 2"]
    assert len(precisions.multiline.tag) == 2


def test_a_score_without_an_interval_is_a_line() -> None:
    layout = lay_out_charts({"val_bleu": 4}, mean=None, confidence=False)
    assert layout["BLEU"] == {"val_bleu": ["Multiline", ["^val_bleu$"]]}


def test_a_later_fit_in_the_same_trainer_lays_out_again(tmp_path: Path) -> None:
    """Its logger may write to another folder."""

    def step(batch: Tensor, epoch: int) -> Any:
        return return_ids(batch, 0)

    callback, module = make_callback(), make_module(step=step)
    for name in ("one", "two"):
        logger = TensorBoardLogger(tmp_path, name=name, version="")
        make_trainer(tmp_path, callback, logger=logger, max_epochs=1).fit(module, make_loader(), make_loader())
        assert "custom_scalars__config__" in read_events(tmp_path / name).Tags()["tensors"]
