"""Figures: their bars are corpus BLEU of the sentences they name, and their points are the lengths of sentences."""

from __future__ import annotations

import io
import random
import sys
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.transforms import Bbox
from PIL import Image
from torch import Tensor

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.bleu import BLEUSettings, count_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.evaluation.choices import MIN_IN_BUCKET
from lightning_bleu.observers.figures import bleu_by_length_figure, length_scatter_figure
from tests.helpers.corpora import random_corpus

SETTINGS = BLEUSettings.from_options()
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


def labels_of(figure: Any) -> list[tuple[str, int]]:
    """The label of each bar, and its number of sentences."""
    figure.canvas.draw()
    texts = [label.get_text().split("\nn=") for label in figure.axes[0].get_xticklabels()]
    return [(label, int(count.replace(",", ""))) for label, count in texts]


def heights(figure: Any) -> list[float]:
    return [bar.get_height() for bar in figure.axes[0].patches]


def points(figure: Any) -> set[tuple[int, int]]:
    """The dots, by reference and hypothesis length."""
    return {(int(x), int(y)) for x, y in figure.axes[0].collections[0].get_offsets()}


def crosses(figure: Any) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in figure.axes[0].lines[0].get_xydata()]


def png(figure: Any) -> Image.Image:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return Image.open(buffer)


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
    lengths = [max(1, len(reference)) for (reference,) in references]  # empty ones are in the first bar
    statistics = torch.from_numpy(count_rows(read_batch(hypotheses, references, settings), settings))
    figure = bleu_by_length_figure(statistics, settings)
    labels = labels_of(figure)
    assert 1 < len(labels) <= 6
    assert all(sum(length in bounds(label) for label, _ in labels) == 1 for length in lengths)
    for (label, count), height in zip(labels, heights(figure), strict=True):
        inside = [sentence for sentence, length in enumerate(lengths) if length in bounds(label)]
        assert len(inside) == count >= MIN_IN_BUCKET
        corpus: list[Any] = [[side[sentence] for sentence in inside] for side in (hypotheses, references)]
        assert height == pytest.approx(100 * corpus_bleu(*corpus, convention=convention, effective_order=True).bleu)


def test_scores_are_in_percent_whatever_the_unit_of_the_settings() -> None:
    statistics = from_lengths([9], [10])
    one, other = (
        bleu_by_length_figure(statistics, BLEUSettings.from_options(percent=percent)) for percent in (False, True)
    )
    assert heights(one) == heights(other) == pytest.approx([89.483932])  # 100 * exp(1 - 10/9)


def test_buckets_have_30_sentences_unless_there_is_only_one(rng: random.Random) -> None:
    for _ in range(10):
        lengths = [int(rng.lognormvariate(rng.uniform(1, 5), rng.uniform(0.1, 1))) for _ in range(rng.randint(1, 500))]
        counts = [count for _, count in labels_of(bleu_by_length_figure(from_lengths(lengths, lengths), SETTINGS))]
        assert sum(counts) == len(lengths)
        assert len(counts) == 1 or min(counts) >= MIN_IN_BUCKET


def test_buckets_and_axes_of_lengths_do_not_depend_on_the_hypotheses(rng: random.Random) -> None:
    references = [rng.randint(1, 60) for _ in range(200)]
    bad, good = (
        from_lengths([rng.randint(low, high) for _ in references], references) for low, high in ((0, 900), (9, 60))
    )
    assert labels_of(bleu_by_length_figure(bad, SETTINGS)) == labels_of(bleu_by_length_figure(good, SETTINGS))
    scatters: list[Any] = [length_scatter_figure(bad), length_scatter_figure(good)]
    assert scatters[0].axes[0].axis() == scatters[1].axes[0].axis()


def test_bars_have_intervals() -> None:
    rows = torch.tensor([[1, 4, 4, 4], [3, 4, 4, 4]]).repeat(MIN_IN_BUCKET, 1)
    figure: Any = bleu_by_length_figure(rows, BLEUSettings.from_options(max_order=1), confidence=0.9)
    ((low, high),) = (segment[:, 1] for segment in figure.axes[0].collections[0].get_segments())
    metric = CorpusBLEU(max_order=1, percent=True, keep_sentences=True)
    metric.update(
        [["a", "?", "?", "?"], ["a", "b", "c", "?"]] * MIN_IN_BUCKET, [["a", "b", "c", "d"]] * 2 * MIN_IN_BUCKET
    )
    expected = metric.interval(confidence=0.9, resamples=200)
    assert [low, high] == pytest.approx([expected.low, expected.high])


def test_sentences_under_half_or_over_twice_the_reference_length_are_crosses() -> None:
    hypotheses = [4, 5, 10, 20, 21, 0, 1, 0, 0, 40]
    references = [10, 10, 10, 10, 10, 10, 0, 0, 1, 40]  # the axes end at 20
    figure: Any = length_scatter_figure(from_lengths(hypotheses, references))
    assert points(figure) == {(10, 5), (10, 10), (10, 20), (0, 0), (20, 20)}
    assert {*crosses(figure)} == {(10, 4), (10, 20), (10, 0), (0, 1), (1, 0)}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["5 beyond", "equal", "half, double"]


def test_lengths_beyond_an_axis_are_drawn_at_its_end() -> None:
    hypotheses, references = [100_000, 40, 9, 900], [20, 40, 10, 600]
    figure: Any = length_scatter_figure(from_lengths(hypotheses + [10] * 40, references + [10] * 40))
    assert figure.axes[0].axis() == (0, 20, 0, 20)
    assert {*crosses(figure)} == {(20, 20)}
    assert points(figure) == {(20, 20), (10, 9), (10, 10)}


@pytest.mark.parametrize("name", ODD_LENGTHS)
@pytest.mark.parametrize("confidence", [None, 0.95])
def test_odd_lengths_are_drawn_without_a_warning(name: str, confidence: float | None) -> None:
    statistics = from_lengths(*ODD_LENGTHS[name])
    for figure in (bleu_by_length_figure(statistics, SETTINGS, confidence), length_scatter_figure(statistics)):
        assert png(figure).size == (700, 430)


LONGEST = [60, 3_000, 60_000, 120_000, 300_000, 30_000_000]


def six_bars(longest: int, sentences: int) -> Tensor:
    """Statistics of six buckets of this many sentences each, with references of up to about `longest` tokens."""
    lengths = [longest * (2 * bucket + 1) // 12 for bucket in range(6)]
    return from_lengths([round(1.2 * length) for length in lengths], lengths).repeat(sentences, 1)


def visible_texts(figure: Any) -> list[tuple[str, Bbox]]:
    """All texts of a figure that are drawn, and where."""
    figure.canvas.draw()
    (axes,) = figure.axes
    texts = [axes.xaxis.label, axes.yaxis.label, axes._left_title, *axes.texts]
    for legend in figure.legends:
        texts.extend(legend.get_texts())
    for axis in (axes.xaxis, axes.yaxis):
        texts.append(axis.get_offset_text())  # such as 1e6
        low, high = axis.get_view_interval()
        texts.extend(tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]


@pytest.mark.parametrize(
    "statistics",
    [
        *(pytest.param(from_lengths(*lengths), id=name) for name, lengths in ODD_LENGTHS.items()),
        pytest.param(six_bars(60, 100_000), id="many sentences"),
        *(pytest.param(six_bars(longest, 1_234), id=f"{longest} tokens") for longest in LONGEST),
        pytest.param(from_lengths([30], [10]).repeat(123_456, 1), id="many of over twice the length"),
    ],
)
def test_no_text_is_cut_off_or_overlaps_another(statistics: Tensor) -> None:
    for figure in (bleu_by_length_figure(statistics, SETTINGS), length_scatter_figure(statistics)):
        texts = visible_texts(figure)
        for text, place in texts:
            assert figure.bbox.x0 <= place.x0 < place.x1 <= figure.bbox.x1, text
            assert figure.bbox.y0 <= place.y0 < place.y1 <= figure.bbox.y1, text
        for (text, place), (other_text, other_place) in combinations(texts, 2):
            assert not place.overlaps(other_place), (text, other_text)
        for legend in figure.legends:
            assert not legend.get_window_extent().overlaps(figure.axes[0].get_window_extent())


@pytest.mark.parametrize("longest", LONGEST)
def test_evenly_spread_lengths_have_six_bars(longest: int) -> None:
    assert len(labels_of(bleu_by_length_figure(six_bars(longest, MIN_IN_BUCKET), SETTINGS))) == 6


def test_the_axes_are_at_the_same_place_in_all_figures_of_a_kind() -> None:
    """So that the figures of successive validations can be compared."""
    for draw in (lambda statistics: bleu_by_length_figure(statistics, SETTINGS), length_scatter_figure):
        places = set()
        for lengths in ODD_LENGTHS.values():
            figure: Any = draw(from_lengths(*lengths))
            figure.canvas.draw()
            places.add(figure.axes[0].get_position().bounds)
        assert len(places) == 1


def test_pyplot_does_not_keep_the_figures() -> None:
    before = plt.get_fignums()
    bleu_by_length_figure(from_lengths([9], [9]), SETTINGS)
    length_scatter_figure(from_lengths([9], [9]))
    assert plt.get_fignums() == before
