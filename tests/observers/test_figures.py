"""The figure of a validation: its bars are corpus BLEU of the sentences that their labels name."""

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

from lightning_bleu import corpus_bleu
from lightning_bleu.bleu import BLEUSettings, count_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.observers.loader_view import bleu_by_length_figure
from tests.helpers.corpora import random_corpus
from tests.helpers.resampling import draw_resamples

SETTINGS = BLEUSettings.from_options()
MIN_IN_BUCKET = 30
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


def bounds(label: str) -> range:
    """The lengths that a label names: 11–15, 7, or >25."""
    if label.startswith(">"):
        return range(int(label[1:]) + 1, sys.maxsize)
    low, *high = map(int, label.split("–"))
    return range(low, (high or [low])[0] + 1)


@pytest.mark.parametrize("convention", ["sacrebleu", "nltk"])
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


def test_buckets_have_30_sentences_unless_there_is_only_one(rng: random.Random) -> None:
    for _ in range(6):
        lengths = [int(rng.lognormvariate(rng.uniform(1, 5), rng.uniform(0.1, 1))) for _ in range(rng.randint(1, 500))]
        counts = [count for _, count in labels_of(bleu_by_length_figure(from_lengths(lengths, lengths), SETTINGS))]
        assert sum(counts) == len(lengths)
        assert len(counts) == 1 or min(counts) >= MIN_IN_BUCKET


def test_buckets_do_not_depend_on_the_hypotheses(rng: random.Random) -> None:
    references = [rng.randint(1, 60) for _ in range(200)]
    bad, good = (
        from_lengths([rng.randint(low, high) for _ in references], references) for low, high in ((0, 900), (9, 60))
    )
    assert labels_of(bleu_by_length_figure(bad, SETTINGS)) == labels_of(bleu_by_length_figure(good, SETTINGS))


def test_bars_have_intervals() -> None:
    rows = torch.tensor([[1, 4, 4, 4], [3, 4, 4, 4]]).repeat(MIN_IN_BUCKET, 1)
    figure: Any = bleu_by_length_figure(rows, BLEUSettings.from_options(max_order=1), confidence=0.9)
    ((low, high),) = (segment[:, 1] for segment in figure.axes[0].collections[0].get_segments())
    scores = 25 * rows[draw_resamples(200, len(rows), seed=0), 0].double().mean(1)  # of 4 unigrams, in percent
    assert [low, high] == pytest.approx(scores.quantile(torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist())


LONGEST = [60, 3_000, 60_000, 300_000, 30_000_000]


def six_bars(longest: int, sentences: int) -> Tensor:
    """Statistics of six buckets of this many sentences each, with references of up to about `longest` tokens."""
    lengths = [longest * (2 * bucket + 1) // 12 for bucket in range(6)]
    return from_lengths([round(1.2 * length) for length in lengths], lengths).repeat(sentences, 1)


def visible_texts(figure: Any) -> list[tuple[str, Bbox]]:
    """All texts of a figure that are drawn, and where."""
    figure.canvas.draw()
    (axes,) = figure.axes
    texts = [axes.xaxis.label, axes._left_title, *axes.texts]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        texts.extend(tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)
    return [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]


@pytest.mark.parametrize(
    "statistics",
    [
        *(pytest.param(from_lengths(*lengths), id=name) for name, lengths in ODD_LENGTHS.items()),
        pytest.param(six_bars(60, 10_000), id="many sentences"),
        *(pytest.param(six_bars(longest, 1_234), id=f"{longest} tokens") for longest in LONGEST),
    ],
)
def test_no_text_is_cut_off_or_overlaps_another(statistics: Tensor) -> None:
    figure = bleu_by_length_figure(statistics, SETTINGS, confidence=0.95)
    texts = visible_texts(figure)
    for text, place in texts:
        assert figure.bbox.x0 <= place.x0 < place.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= place.y0 < place.y1 <= figure.bbox.y1, text
    for (text, place), (other_text, other_place) in combinations(texts, 2):
        assert not place.overlaps(other_place), (text, other_text)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert Image.open(file).size == (700, 430)


def test_scores_of_0_stand_on_the_axis() -> None:
    """As before a training."""
    figure: Any = bleu_by_length_figure(from_lengths([0] * 50, [10] * 50), SETTINGS, confidence=0.95)
    assert (heights(figure), figure.axes[0].get_ylim()) == ([0], (0, 1))


def test_pyplot_does_not_keep_the_figure() -> None:
    before = plt.get_fignums()
    bleu_by_length_figure(from_lengths([9], [9]), SETTINGS)
    assert plt.get_fignums() == before
