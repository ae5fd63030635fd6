"""What a validation looks like: charts of the scores, sample sentences, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.settings.settings import Settings
from lightning_bleu.training.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.training.mistakes import is_installed
from lightning_bleu.training.samples import find_worst, make_samples, score_sentences
from lightning_bleu.training.sentences import Sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Categories of charts, as ``SummaryWriter.add_custom_scalars`` takes them."""


class View:
    """What loggers show of one evaluation.

    All processes must make it, because each reads the texts of its own sentences. Only process 0 can show it.

    Args:
        report: the score.
        sentences: the sentences; there must be at least one.
        settings: the settings of the metric.
        samples: how many sentences to show, both of the first and of the worst.

    Attributes:
        report: the score.
        scores: the sentence BLEU of all sentences, in percent.
        first: the first sentences of the dataset, which are the same in each validation.
        worst: the sentences with the worst translations, the worst first.
    """

    def __init__(self, report: BLEUScore, sentences: Sentences, settings: Settings, samples: int) -> None:
        self.report = report
        self.scores = score_sentences(sentences.statistics, settings)
        self._statistics = sentences.statistics
        self._settings = settings
        first = range(min(samples, sentences.text_count))
        worst = find_worst(sentences.statistics[: sentences.text_count], settings, samples)
        texts = sentences.read([*first, *worst])
        self.first = make_samples(texts[: len(first)], first, self.scores, settings)
        self.worst = make_samples(texts[len(first) :], worst, self.scores, settings)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures by name, drawn when they are first needed; none without matplotlib."""
        if not is_installed("matplotlib"):
            return {}
        return {
            "by_length": bleu_by_length_figure(self._statistics, self._settings),
            "lengths": length_scatter_figure(self._statistics),
        }


def lay_out_charts(orders: Mapping[str, int], *, mean: str | None, confidence: bool) -> Layout:
    """Lay out the charts of TensorBoard's page of custom scalars.

    Args:
        orders: the ``max_order`` of each score, by its logged name.
        mean: the logged name of the mean of the scores, if there is one.
        confidence: whether there are confidence intervals, to be drawn as bands.

    Example:
        >>> layout = lay_out_charts({"val_bleu": 2}, mean=None, confidence=True)
        >>> layout["BLEU"]
        {'val_bleu': ['Margin', ['val_bleu', 'val_bleu/low', 'val_bleu/high']]}
        >>> list(layout["BLEU: precisions and lengths"])
        ['val_bleu: precisions 1 to 2', 'val_bleu: length ratio and brevity penalty']
    """
    scores = {} if mean is None else {f"{mean}: mean of all": _lines([mean])}
    # TensorBoard shows bands in reverse order.
    for tag in reversed([*orders]) if confidence else orders:
        scores[tag] = ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] if confidence else _lines([tag])
    parts = {}
    for tag, order in orders.items():
        parts[f"{tag}: precisions 1 to {order}"] = _lines(f"{tag}/precision_{n}" for n in range(1, order + 1))
        parts[f"{tag}: length ratio and brevity penalty"] = _lines([f"{tag}/length_ratio", f"{tag}/brevity_penalty"])
    return {"BLEU": scores, "BLEU: precisions and lengths": parts}


def _lines(tags: Iterable[str]) -> list[Any]:
    # Tags are regular expressions that must match from the start.
    return ["Multiline", [f"^{re.escape(tag)}$" for tag in tags]]
