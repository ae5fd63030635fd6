"""Figures of scores. Requires matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightning_bleu.scoring.score import BLEUScore, Statistics, score
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.significance import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def precisions_figure(report: BLEUScore) -> Figure:
    """Bar chart of the precision of each order, in percent.

    Example:
        >>> from lightning_bleu import corpus_bleu
        >>> figure = precisions_figure(corpus_bleu(["the cat is on the mat"], ["the cat sat on the mat"]))
        >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
        ['1', '2', '3', '4']
    """
    scale = 1 if report.percent else 100
    orders = [str(n) for n in range(1, len(report.precisions) + 1)]
    title = f"precision by order (BLEU {scale * report.bleu:.1f}, brevity penalty {report.brevity_penalty:.3f})"
    return _bars(title, "n-gram order", "precision", orders, [scale * precision for precision in report.precisions])


def lengths_figure(statistics: Tensor, settings: Settings, groups: int = 6) -> Figure:
    """Bar chart of BLEU by reference length, in percent.

    Args:
        statistics: integers of shape ``(sentences, 2 * max_order + 2)``.
        settings: how to score them.
        groups: the maximum number of bars, each for about the same number of sentences.

    Example:
        >>> from lightning_bleu.functional import sentence_statistics
        >>> settings = Settings.from_options()
        >>> statistics, _ = sentence_statistics(["a b c d", "a b c d e f"], ["a b c d", "a b c d e f"], settings)
        >>> figure = lengths_figure(statistics, settings)
        >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
        ['4', '6']
    """
    lengths = Statistics.unpack(statistics).reference_length
    order = lengths.argsort(stable=True)
    quantiles = torch.linspace(0, len(order) - 1, groups + 1).long()[1:] if len(order) else order
    labels: list[str] = []
    heights: list[float] = []
    low = 0
    for edge in sorted(set(lengths[order][quantiles].tolist())):
        inside = (lengths > low) & (lengths <= edge) if labels else lengths <= edge
        shortest = int(lengths[inside].min())
        labels.append(f"{shortest}" if shortest == edge else f"{shortest}-{edge}")
        heights.append(100 * score(statistics[inside].sum(0), settings).bleu.item())
        low = edge
    return _bars("BLEU by reference length", "tokens of the reference", "BLEU", labels, heights)


def interval_figure(interval: Interval) -> Figure:
    """Histogram of the resampled scores, in percent, with the interval and the score of the corpus.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> interval_figure(bleu.interval()).axes[0].get_title()
        'BLEU 76.0, 95% interval 60.7 to 100.0'
    """
    scale = 1 if interval.percent else 100
    bleu, low, high = (scale * value for value in (interval.bleu, interval.low, interval.high))
    title = f"BLEU {bleu:.1f}, {100 * interval.confidence:g}% interval {low:.1f} to {high:.1f}"
    figure, axes = _axes(title, "BLEU of a resample", "resamples")
    axes.axvspan(low, high, color="#4c72b0", alpha=0.15, linewidth=0)
    axes.hist([scale * value for value in interval.scores], bins=40, color="#4c72b0")
    axes.axvline(bleu, color="black", linewidth=1)
    return figure


def _bars(title: str, xlabel: str, ylabel: str, labels: Sequence[str], heights: Sequence[float]) -> Figure:
    figure, axes = _axes(title, xlabel, ylabel)
    axes.set_ylim(0, 108)
    axes.set_xticks(range(len(labels)), labels)
    bars = axes.bar(range(len(labels)), heights, color="#4c72b0")
    axes.bar_label(bars, fmt="%.1f", fontsize=8)
    return figure


def _axes(title: str, xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    # Not pyplot, which keeps a reference to every figure.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.12, 0.17, 0.86, 0.71))
    axes.set_title(title, fontsize=10)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
