"""Figures: the heights of their bars are scores."""

from __future__ import annotations

import random
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.training.figures import interval_figure, lengths_figure, precisions_figure
from tests.helpers.corpora import random_corpus

HYPOTHESES = ["a b c d", "a b c e", "a b c d e f g h", "a b c d e f g i"]
REFERENCES = ["a b c d", "a b c d", "a b c d e f g h", "a b c d e f g h"]
SETTINGS = Settings.from_options(max_order=2)


def labels(figure: Any) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_xticklabels()]


def heights(figure: Any) -> list[float]:
    return [bar.get_height() for bar in figure.axes[0].patches]


@pytest.mark.parametrize("percent", [False, True])
def test_the_bars_of_precisions_are_percents_by_order(percent: bool) -> None:
    report = corpus_bleu(HYPOTHESES, REFERENCES, percent=percent)
    figure = precisions_figure(report)
    scale = 1 if percent else 100
    assert labels(figure) == ["1", "2", "3", "4"]
    assert heights(figure) == pytest.approx([scale * precision for precision in report.precisions])
    title = f"precision by order (BLEU {scale * report.bleu:.1f}, brevity penalty 1.000)"
    assert figure.axes[0].get_title() == title


def test_the_bars_of_lengths_are_scores_of_groups_of_sentences() -> None:
    statistics, _ = sentence_statistics(HYPOTHESES, REFERENCES, SETTINGS)
    figure = lengths_figure(statistics, SETTINGS)
    assert labels(figure) == ["4", "8"]
    expected = [corpus_bleu(HYPOTHESES[i : i + 2], REFERENCES[i : i + 2], max_order=2).bleu for i in (0, 2)]
    assert heights(figure) == pytest.approx([100 * score for score in expected])
    one_group = lengths_figure(statistics, SETTINGS, 1)
    assert labels(one_group) == ["4-8"]
    assert heights(one_group) == pytest.approx([100 * corpus_bleu(HYPOTHESES, REFERENCES, max_order=2).bleu])


@pytest.mark.parametrize("groups", [1, 3, 6, 20])
def test_every_sentence_is_in_the_group_of_its_length(groups: int, rng: random.Random) -> None:
    hypotheses, references = random_corpus(rng, 50, references=1)
    lengths = [len(reference) for (reference,) in references]
    statistics, _ = sentence_statistics(hypotheses, references, SETTINGS)
    figure = lengths_figure(statistics, SETTINGS, groups)
    bounds = [[int(number) for number in label.split("-")] for label in labels(figure)]
    ranges = [range(bound[0], bound[-1] + 1) for bound in bounds]
    assert len(ranges) <= groups
    assert all(sum(length in group for group in ranges) == 1 for length in lengths)
    expected = []
    for group in ranges:
        inside = [sentence for sentence, length in enumerate(lengths) if length in group]
        part = corpus_bleu([hypotheses[i] for i in inside], [references[i] for i in inside], max_order=2)
        expected.append(100 * part.bleu)
    assert heights(figure) == pytest.approx(expected)


def test_no_sentences_make_no_bars() -> None:
    figure = lengths_figure(torch.zeros(0, 6, dtype=torch.int64), SETTINGS)
    assert (labels(figure), heights(figure)) == ([], [])


@pytest.mark.parametrize("percent", [False, True])
def test_the_histogram_of_an_interval_holds_all_resamples_in_percent(percent: bool) -> None:
    metric = CorpusBLEU(max_order=2, keep_sentences=True, percent=percent)
    metric.update(HYPOTHESES, REFERENCES)
    interval = metric.interval(0.9, 200)
    axes: Any = interval_figure(interval).axes[0]
    scale = 1 if percent else 100
    bleu, low, high = (scale * value for value in (interval.bleu, interval.low, interval.high))
    assert axes.get_title() == f"BLEU {bleu:.1f}, 90% interval {low:.1f} to {high:.1f}"
    span, *bars = axes.patches
    assert (span.get_x(), span.get_x() + span.get_width()) == pytest.approx((low, high))
    assert sum(bar.get_height() for bar in bars) == 200
    edges = bars[0].get_x(), bars[-1].get_x() + bars[-1].get_width()
    assert edges == pytest.approx((scale * min(interval.scores), scale * max(interval.scores)))
    (line,) = axes.lines
    assert line.get_xdata() == pytest.approx([bleu, bleu])


def test_pyplot_does_not_keep_the_figures() -> None:
    before = plt.get_fignums()
    precisions_figure(corpus_bleu(HYPOTHESES, REFERENCES))
    assert plt.get_fignums() == before
