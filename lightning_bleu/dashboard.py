"""What a validation looks like: sample sentences, sentence BLEU and figures, sent to the loggers that can show them.

Framework-free: loggers are known by what they can do, TensorBoard's by its ``experiment.add_text``, W&B's by
``log_table``. Others get nothing from here.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.conventions import Settings
from lightning_bleu.inputs import sentence_texts
from lightning_bleu.plots import interval_figure, lengths_figure, precisions_figure
from lightning_bleu.score import BLEUScore, score
from lightning_bleu.significance import Interval

COLUMNS = ["no.", "sentence BLEU", "hypothesis", "references"]
_MOST_SENTENCES = 10_000
"""The texts of so many sentences are kept until the end, for the worst and the best to be chosen from."""
_LONGEST = 500
"""Characters that are shown of a sentence."""
_SHARE = 0.03
"""Of the time of all validations so much goes into figures. They cost more than all the rest, and a validation may be
short: then only some of them get figures."""


class Row(NamedTuple):
    """A sentence as it is shown; ``bleu`` in percent."""

    label: str
    bleu: float
    hypothesis: str
    references: list[str]


class Dashboard:
    """Collects the sentences of a validation and shows some of them.

    Args:
        samples: how many sentences to show, the first ones of the set; the worst and the best come on top of them.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._watched = self._drawing = self._last_drawing = 0.0  # seconds
        self.reset()

    def reset(self) -> None:
        """Forget all sentences, when a validation begins."""
        self._statistics: list[Tensor] = []
        self._inputs: list[tuple[Any, Any]] = []
        self._kept = 0
        self._start = time.perf_counter()

    def add(self, preds: Any, target: Any, statistics: Tensor) -> None:
        """Note a batch: inputs in any form that can be sliced, statistics of shape ``(sentences, 2 * orders + 2)``."""
        self._statistics.append(statistics)
        if self._kept < _MOST_SENTENCES:
            if isinstance(preds, Tensor) and preds.ndim == 3:
                preds = preds.detach().argmax(-1)  # logits are too large to keep
            self._inputs.append((preds, target))
            self._kept += len(statistics)

    def rows(self, statistics: Tensor, scores: Tensor, settings: Settings) -> list[Row]:
        """The first sentences, the worst and the best, of those that count (a repeated one does not)."""
        counted = (statistics[: self._kept].sum(-1) > 0).nonzero()[:, 0]
        if not len(counted):
            return []
        among = scores[counted]
        chosen = {int(counted[among.argmin()]): "worst", int(counted[among.argmax()]): "best"}
        labels = {int(i): f"{int(i) + 1}" for i in counted[: self.samples]}
        for index, name in chosen.items():
            labels[index] = f"{index + 1} ({name})"
        return [Row(label, 100 * scores[index].item(), *self._text(index, settings)) for index, label in labels.items()]

    def _text(self, index: int, settings: Settings) -> tuple[str, list[str]]:
        for (preds, target), statistics in zip(self._inputs, self._statistics):
            if index < len(statistics):
                return sentence_texts(preds[index : index + 1], target[index : index + 1], settings)[0]
            index -= len(statistics)
        raise IndexError(index)

    def show(
        self,
        loggers: Iterable[Any],
        tag: str,
        report: BLEUScore,
        settings: Settings,
        note: str,
        step: int,
        interval: Interval | None = None,
    ) -> None:
        """Send everything to the loggers that can show it.

        Args:
            loggers: Lightning's.
            tag: the name of the score.
            report: the score and its parts.
            settings: the settings of the metric.
            note: where the sentences are from.
            step: the step of the training.
            interval: the confidence interval of the score, if there is one.
        """
        if not self._statistics:
            return
        self._watched += time.perf_counter() - self._start
        statistics = torch.cat(self._statistics).cpu()
        scores = score(statistics, sentence_settings(settings)).bleu
        rows = self.rows(statistics, scores, settings)
        counted = statistics.sum(-1) > 0
        for logger in loggers:
            board: Any = getattr(logger, "experiment", None)
            if hasattr(logger, "log_table"):
                data = [[row.label, row.bleu, row.hypothesis, "\n".join(row.references)] for row in rows]
                logger.log_table(f"{tag}/samples", columns=COLUMNS, data=data, step=step)
            elif hasattr(board, "add_text"):
                board.add_text(f"{tag}/samples", markdown_table(rows, f"{report}\n{note}"), step)
                if counted.any():
                    board.add_histogram(f"{tag}/sentence_bleu", 100 * scores[counted], step)
                    figures = {
                        "precisions": lambda: precisions_figure(report),
                        "by_length": lambda: lengths_figure(statistics[counted], settings),
                    }
                    if interval is not None:
                        figures["resamples"] = lambda: interval_figure(interval)
                    self._draw(board, tag, figures, step)

    def _draw(self, board: Any, tag: str, figures: dict[str, Callable[[], Any]], step: int) -> None:
        affordable = not self._drawing or self._drawing + self._last_drawing <= _SHARE * self._watched
        if not affordable or importlib.util.find_spec("matplotlib") is None:
            return
        start = time.perf_counter()
        for name, figure in figures.items():
            board.add_figure(f"{tag}/{name}", figure(), step, close=False)
        self._last_drawing = time.perf_counter() - start
        self._drawing += self._last_drawing


def lay_out_intervals(loggers: Iterable[Any], tags: Iterable[str]) -> None:
    """Have TensorBoard draw scores within their intervals, ``tag/low`` to ``tag/high``, among its custom scalars."""
    charts = {tag: ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] for tag in tags}
    for logger in loggers:
        board: Any = getattr(logger, "experiment", None)
        if hasattr(board, "add_custom_scalars"):
            board.add_custom_scalars({"BLEU with its confidence interval": charts})


def sentence_settings(settings: Settings) -> Settings:
    """The settings, smoothed so that a sentence without a match of the highest order can be told from nonsense."""
    convention = dataclasses.replace(
        settings.convention, smoothing="exp", smoothing_value=None, effective_order=True, zero_rule="no-match"
    )
    return dataclasses.replace(settings, convention=convention)


def markdown_table(rows: Iterable[Row], caption: str) -> str:
    """A Markdown table in which no sentence means anything but itself.

    Example:
        >>> print(markdown_table([Row("1 (best)", 50.0, "a|b", ["<i>"])], "two words"))
        two words
        <BLANKLINE>
        | no. | sentence BLEU | hypothesis | references |
        | --- | ---: | --- | --- |
        | 1 (best) | 50.0 | a&#124;b | &#60;i&#62; |
    """
    lines = [
        escape(caption).replace("&#10;", "  \n"),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "| --- | ---: | --- | --- |",
    ]
    for row in rows:
        references = "<br>".join(map(escape, row.references))
        lines.append(f"| {row.label} | {row.bleu:.1f} | {escape(row.hypothesis)} | {references} |")
    return "\n".join(lines)


def escape(text: str) -> str:
    """Write everything but letters, digits, blanks and harmless punctuation as HTML entities.

    Example:
        >>> escape("<b>*a* | b.")
        '&#60;b&#62;&#42;a&#42; &#124; b.'
    """
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " ..."
    return re.sub(r"[^\w .,:;=%-]|_", lambda match: f"&#{ord(match[0])};", text)
