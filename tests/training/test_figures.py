"""Figures: their bars are corpus BLEU of the sentences they name, and their points are the lengths of sentences."""

from __future__ import annotations

import io
import random
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from torch import Tensor

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.bleu import BLEUSettings, count_rows
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.training.figures import MIN_SENTENCES, bleu_by_length_figure, length_scatter_figure
from tests.helpers.corpora import random_corpus

SETTINGS = BLEUSettings.from_options()
BLUE, ORANGE, GRAY = "#0072b2", "#d55e00", "#b8b8b8"
ODD_LENGTHS = {
    "one sentence": ([7], [7]),
    "nothing at all": ([0], [0]),
    "only empty hypotheses": ([0, 0, 0], [4, 9, 30]),
    "only empty references": ([3, 0], [0, 0]),
    "equal lengths": ([12] * 50, [12] * 50),
    "a loop of 100,000 tokens": ([100_000, 9], [8, 9]),
    "a reference of 5,000 tokens": ([10] * 50 + [4_000], [10, 11] * 25 + [5_000]),
    "books": ([90_000, 120_000, 10], [100_000, 80_000, 20_000]),
}


def from_lengths(hypothesis_lengths: list[int], reference_lengths: list[int]) -> Tensor:
    """Statistics of sentences of which every n-gram that can match does."""
    rows = []
    for hypothesis, reference in zip(hypothesis_lengths, reference_lengths):
        matches = [max(0, min(hypothesis, reference) - n) for n in range(4)]
        rows.append([*matches, *(max(0, hypothesis - n) for n in range(4)), hypothesis, reference])
    return torch.tensor(rows)


def row_below(figure: Any, row: int) -> list[str]:
    """The texts below the bars; row 0 is directly below the axis."""
    texts = [text for text in figure.axes[0].texts if text.get_position()[1] < 0 <= text.get_position()[0]]
    rows = sorted({text.get_position()[1] for text in texts}, reverse=True)
    return [text.get_text() for text in texts if text.get_position()[1] == rows[row]]


def values(figure: Any) -> list[str]:
    """The texts above the bars, or "" above none."""
    at = {text.get_position()[0]: text.get_text() for text in figure.axes[0].texts if min(text.get_position()) >= 0}
    return [at.get(i, "") for i in range(len(figure.axes[0].patches))]


def heights(figure: Any) -> list[float]:
    return [bar.get_height() for bar in figure.axes[0].patches]


def colors(figure: Any) -> list[str]:
    return [to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches]


def points(figure: Any, marker: str) -> dict[tuple[int, int], str]:
    """The colors of the points that are drawn with a marker, by reference and hypothesis length."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == marker]
    return {(int(x), int(y)): to_hex(line.get_color()) for line in lines for x, y in line.get_xydata()}


def png(figure: Any) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return Image.open(buffer)


def assert_texts_are_inside(figure: Any) -> None:
    for box in text_boxes(figure):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def assert_texts_do_not_overlap(figure: Any) -> None:
    boxes = text_boxes(figure)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def text_boxes(figure: Any) -> list[Any]:
    texts = [*figure.texts, *figure.axes[0].texts]
    return [text.get_window_extent(figure.canvas.get_renderer()) for text in texts if text.get_text()]


def bounds(label: str) -> range:
    """The lengths that a label names: 11–15, 7, or >25."""
    if label.startswith(">"):
        return range(int(label[1:]) + 1, sys.maxsize)
    low, *high = map(int, label.split("–"))
    return range(low, (high or [low])[0] + 1)


@pytest.mark.parametrize("convention", ["sacrebleu", "papineni", "nltk", "gnmt"])
@pytest.mark.parametrize("longest", [4, 14, 40])
def test_each_bar_is_the_corpus_bleu_of_the_sentences_that_its_label_names(
    convention: str, longest: int, rng: random.Random
) -> None:
    settings = BLEUSettings.from_options(convention=convention)
    hypotheses, references = random_corpus(rng, 300, references=1, longest=longest)
    lengths = [len(reference) for (reference,) in references]
    statistics = torch.from_numpy(count_rows(read_batch(hypotheses, references, settings), settings))
    figure = bleu_by_length_figure(statistics, settings)
    labels = row_below(figure, 0)
    assert 1 < len(labels) <= 6
    assert all(sum(length in bounds(label) for label in labels) == 1 for length in lengths)
    for i, label in enumerate(labels):
        inside = [sentence for sentence, length in enumerate(lengths) if length in bounds(label)]
        assert row_below(figure, 1)[i] == f"{len(inside)}"
        expected = corpus_bleu(
            [hypotheses[sentence] for sentence in inside],
            [references[sentence] for sentence in inside],
            convention=convention,
            effective_order=True,
        )
        top = figure.axes[0].get_ylim()[1]
        assert heights(figure)[i] == pytest.approx(min(100 * expected.bleu, top))
        assert colors(figure)[i] == (BLUE if len(inside) >= MIN_SENTENCES else GRAY)


def test_scores_are_in_percent_whatever_the_unit_of_the_settings() -> None:
    statistics = from_lengths([9], [10])
    one, other = (
        bleu_by_length_figure(statistics, BLEUSettings.from_options(percent=percent)) for percent in (False, True)
    )
    assert heights(one) == heights(other) == pytest.approx([89.483932])  # 100 * exp(1 - 10/9)


@pytest.mark.parametrize(
    ("lengths", "labels"),
    [
        ([*range(1, 26)] * 2 + [40], ["1–5", "6–10", "11–15", "16–20", "21–25", ">25"]),
        ([*range(1, 61)], ["1–10", "11–20", "21–30", "31–40", "41–50", "51–60"]),
        ([4, 5, 6], ["4", "5", "6"]),
        ([0, 1, 5, 10], ["0–2", "3–4", "5–6", "7–8", "9–10"]),
        ([0, 0], ["0–1"]),
        ([12] * 9, ["12"]),
        ([3] + [1_000] * 40 + [5_000], ["1–1000", ">1000"]),
        ([*range(110, 290)], ["101–150", "151–200", "201–250", "251–300"]),
    ],
)
def test_buckets_are_round_and_the_open_ones_hold_few_sentences(lengths: list[int], labels: list[str]) -> None:
    assert row_below(bleu_by_length_figure(from_lengths(lengths, lengths), SETTINGS), 0) == labels


def test_at_most_5_percent_of_the_sentences_are_in_the_open_last_bucket(rng: random.Random) -> None:
    for _ in range(20):
        lengths = [int(rng.lognormvariate(rng.uniform(1, 5), rng.uniform(0.1, 1))) for _ in range(rng.randint(1, 500))]
        figure = bleu_by_length_figure(from_lengths(lengths, lengths), SETTINGS)
        counts = [int(count) for count in row_below(figure, 1)]
        assert sum(counts) == len(lengths)
        assert len(counts) <= 6
        assert counts[-1] <= 0.05 * len(lengths) or not row_below(figure, 0)[-1].startswith(">")


def test_buckets_and_axes_of_lengths_do_not_depend_on_the_hypotheses(rng: random.Random) -> None:
    references = [rng.randint(1, 60) for _ in range(200)]
    bad, good = (
        from_lengths([rng.randint(low, high) for _ in references], references) for low, high in ((0, 900), (9, 60))
    )
    assert row_below(bleu_by_length_figure(bad, SETTINGS), 0) == row_below(bleu_by_length_figure(good, SETTINGS), 0)
    scatters: list[Any] = [length_scatter_figure(bad), length_scatter_figure(good)]
    assert scatters[0].axes[0].axis() == scatters[1].axes[0].axis()


@pytest.mark.parametrize(
    ("bleu", "text", "top"),
    [
        (0.0, "0.0", 50),
        (0.44, "0.4", 50),
        (1.96, "2.0", 50),
        (9.94, "9.9", 50),
        (9.96, "10", 50),
        (38.4, "38", 50),
        (50.0, "50", 50),
        (50.4, "50", 100),
        (100.0, "100", 100),
    ],
)
def test_the_scale_fits_the_highest_bar_and_values_below_10_have_one_decimal(
    bleu: float, text: str, top: float
) -> None:
    # With max_order=1 and equal lengths, BLEU is the share of the tokens that match.
    statistics = torch.tensor([[round(100 * bleu), 10_000, 10_000, 10_000]]).repeat(MIN_SENTENCES, 1)
    figure: Any = bleu_by_length_figure(statistics, BLEUSettings.from_options(max_order=1, smoothing="none"))
    assert heights(figure) == pytest.approx([bleu])
    assert values(figure) == [text]
    assert figure.axes[0].get_ylim() == (0, top)
    assert [label.get_text() for label in figure.axes[0].texts[:3]] == [f"{tick:g}" for tick in (0, top / 2, top)]


def test_a_gray_bar_does_not_change_the_scale_and_an_arrow_marks_its_value() -> None:
    weak = torch.tensor([[1, 4, 4, 4]]).repeat(MIN_SENTENCES, 1)  # 1 of 4 tokens matches
    strong = torch.tensor([[5, 5, 5, 5]]).repeat(MIN_SENTENCES - 1, 1)
    settings = BLEUSettings.from_options(max_order=1)
    figure: Any = bleu_by_length_figure(torch.cat([weak, strong]), settings)
    assert (colors(figure), values(figure)) == ([BLUE, GRAY], ["25", "↑100"])
    assert heights(figure) == pytest.approx([25, 50])
    assert figure.texts[1].get_text() == "gray: n < 30"
    enough: Any = bleu_by_length_figure(torch.cat([weak, strong, strong]), settings)
    assert (colors(enough), values(enough)) == ([BLUE, BLUE], ["25", "100"])
    assert heights(enough) == pytest.approx([25, 100])
    assert enough.texts[1].get_text() == ""


def test_gray_bars_determine_the_scale_if_all_are_gray() -> None:
    figure: Any = bleu_by_length_figure(torch.tensor([[1, 4, 4, 4]]), BLEUSettings.from_options(max_order=1))
    assert (colors(figure), values(figure)) == ([GRAY], ["25"])
    assert figure.axes[0].get_ylim() == (0, 50)


def test_bars_that_are_not_gray_have_intervals() -> None:
    rows = torch.tensor([[1, 4, 4, 4], [3, 4, 4, 4]]).repeat(MIN_SENTENCES, 1)
    few = torch.tensor([[5, 5, 5, 5]]).repeat(MIN_SENTENCES - 1, 1)
    settings = BLEUSettings.from_options(max_order=1)
    figure: Any = bleu_by_length_figure(torch.cat([rows, few]), settings, confidence=0.9)
    (interval,) = [line for line in figure.axes[0].lines if [*line.get_xdata()] == [0, 0]]
    metric = CorpusBLEU(max_order=1, percent=True, keep_sentences=True)
    metric.update(
        [["a", "?", "?", "?"], ["a", "b", "c", "?"]] * MIN_SENTENCES, [["a", "b", "c", "d"]] * 2 * MIN_SENTENCES
    )
    expected = metric.interval(confidence=0.9, resamples=200)
    assert [*interval.get_ydata()] == pytest.approx([expected.low, expected.high])
    assert (colors(figure), values(figure)) == ([BLUE, GRAY], ["50", "↑100"])


def test_an_empty_bucket_has_a_count_of_0_and_no_value() -> None:
    figure = bleu_by_length_figure(from_lengths([1, 3], [1, 3]), SETTINGS)
    assert (row_below(figure, 1), values(figure)) == (["1", "0", "1"], ["100", "", "100"])


def test_sentences_under_half_or_over_twice_the_reference_length_are_orange_crosses() -> None:
    hypotheses = [4, 5, 10, 20, 21, 0, 1, 0, 0, 40]
    references = [10, 10, 10, 10, 10, 10, 0, 0, 1, 40]
    figure = length_scatter_figure(from_lengths(hypotheses, references))
    assert points(figure, "o").keys() == {(10, 5), (10, 10), (10, 20), (0, 0), (40, 40)}
    assert points(figure, "x") == dict.fromkeys([(10, 4), (10, 21), (10, 0), (0, 1), (1, 0)], ORANGE)


def test_the_title_line_counts_sentences_rather_than_crosses() -> None:
    figure = length_scatter_figure(from_lengths([0] * 1_200 + [9], [9] * 1_201))
    assert list(points(figure, "x")) == [(9, 0)]
    assert figure.texts[1].get_text() == "× 1,200 under ½ or over 2×"
    assert to_hex(figure.texts[1].get_color()) == ORANGE
    assert length_scatter_figure(from_lengths([9], [9])).texts[1].get_text() == ""


def test_lengths_beyond_an_axis_are_drawn_at_its_end_and_marked_with_a_plus() -> None:
    hypotheses, references = [100_000, 40, 9, 900], [20, 40, 10, 600]
    figure: Any = length_scatter_figure(from_lengths(hypotheses + [10] * 40, references + [10] * 40))
    assert figure.axes[0].axis() == (0, 40, 0, 50)
    assert points(figure, "x").keys() == {(20, 50)}
    assert points(figure, "o").keys() == {(40, 40), (10, 9), (40, 50), (10, 10)}
    assert {"40", "40+", "50+"} < {text.get_text() for text in figure.axes[0].texts}
    inside: Any = length_scatter_figure(from_lengths([10, 50], [10, 40]))
    assert {"40", "50"} < {text.get_text() for text in inside.axes[0].texts}
    assert "40+" not in {text.get_text() for text in inside.axes[0].texts}


def test_darker_dots_stand_for_more_sentences() -> None:
    figure = length_scatter_figure(from_lengths([5] * 100 + [6] * 20 + [7], [5] * 100 + [6] * 20 + [7]))
    brightness = {pair: int(color[1:3], 16) for pair, color in points(figure, "o").items()}
    assert brightness[5, 5] < brightness[6, 6] < brightness[7, 7]
    assert points(figure, "o")[5, 5] == BLUE


def test_axes_say_which_length_is_which() -> None:
    figure: Any = length_scatter_figure(from_lengths([30], [20]))
    texts = {text.get_text(): text for text in figure.axes[0].texts}
    assert texts["hypothesis length"].get_rotation() == 90
    assert texts["reference length"].get_rotation() == 0
    assert list(points(figure, "o")) == [(20, 25)]


def test_long_and_many_sentences_are_drawn_as_a_bounded_number_of_points(rng: random.Random) -> None:
    lengths = [[rng.randint(1, 30_000) for _ in range(40_000)] for _ in range(2)]
    figure = length_scatter_figure(from_lengths(*lengths))
    assert len(points(figure, "o")) + len(points(figure, "x")) <= 2 * 126 * 151


@pytest.mark.parametrize("name", ODD_LENGTHS)
def test_odd_lengths_are_drawn_without_a_warning(name: str) -> None:
    statistics = from_lengths(*ODD_LENGTHS[name])
    for figure in (bleu_by_length_figure(statistics, SETTINGS), length_scatter_figure(statistics)):
        assert png(figure).size == (700, 430)
        assert_texts_are_inside(figure)
        assert_texts_do_not_overlap(figure)


def test_the_matplotlib_style_of_the_user_does_not_change_the_figures() -> None:
    statistics = from_lengths([4, 5, 60], [5, 5, 9])
    options = {
        "font.family": "serif",
        "font.size": 30,
        "text.usetex": True,
        "figure.autolayout": True,
        "savefig.facecolor": "red",
    }
    pixels = []
    for style in ({}, "dark_background", "ggplot", options):
        with plt.style.context(style):
            figures = bleu_by_length_figure(statistics, SETTINGS), length_scatter_figure(statistics)
            pixels.append([np.asarray(png(figure)) for figure in figures])
    assert all(np.array_equal(one, other) for style in pixels[1:] for one, other in zip(style, pixels[0]))


def test_pyplot_does_not_keep_the_figures() -> None:
    before = plt.get_fignums()
    bleu_by_length_figure(from_lengths([9], [9]), SETTINGS)
    length_scatter_figure(from_lengths([9], [9]))
    assert plt.get_fignums() == before
