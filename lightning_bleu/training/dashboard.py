"""Shows an evaluation in the loggers that support it: sample sentences, sentence BLEU, and figures.

Loggers are recognized by their methods: TensorBoard's by ``experiment.add_text``, W&B's by ``log_table``. Other loggers
are skipped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from lightning_bleu.scoring.score import BLEUScore, score
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.significance import Interval
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.figures import interval_figure, lengths_figure, precisions_figure
from lightning_bleu.training.mistakes import is_installed

COLUMNS = ["no.", "sentence BLEU", "hypothesis", "references"]
_MAX_CHARACTERS = 500
"""The maximum number of characters shown per sentence."""


class Row(NamedTuple):
    """One row of the sample table; ``bleu`` is in percent."""

    label: str
    bleu: float
    hypothesis: str
    references: list[str]


def show(
    loggers: Iterable[Any],
    tag: str,
    evaluation: Evaluation,
    report: BLEUScore,
    *,
    samples: int,
    step: int,
    note: str = "",
    interval: Interval | None = None,
) -> None:
    """Send an evaluation to the loggers that can show it.

    Args:
        loggers: the loggers of the Lightning trainer.
        tag: the logged name of the score.
        evaluation: the sentences.
        report: the score of the evaluation.
        samples: how many sentences to show, in addition to the worst and the best.
        step: the training step.
        note: a note on where the sentences are from, shown above the samples.
        interval: the confidence interval of the score, if there is one.
    """
    statistics, settings = evaluation.statistics(), evaluation.metric.settings
    if not len(statistics):
        return
    scores = score(statistics, sentence_settings(settings)).bleu
    counted = statistics.sum(-1) > 0
    rows = choose_rows(evaluation, scores, counted, samples)
    for logger in loggers:
        board: Any = getattr(logger, "experiment", None)
        if hasattr(logger, "log_table"):
            data = [[row.label, row.bleu, row.hypothesis, "\n".join(row.references)] for row in rows]
            logger.log_table(f"{tag}/samples", columns=COLUMNS, data=data, step=step)
        elif hasattr(board, "add_text"):
            board.add_text(f"{tag}/samples", markdown_table(rows, f"{report}\n{note}"), step)
            if counted.any():
                board.add_histogram(f"{tag}/sentence_bleu", 100 * scores[counted], step)
                _draw(board, tag, report, statistics[counted], settings, interval, step)


def _draw(
    board: Any,
    tag: str,
    report: BLEUScore,
    statistics: Tensor,
    settings: Settings,
    interval: Interval | None,
    step: int,
) -> None:
    if not is_installed("matplotlib"):
        return
    figures = {"precisions": precisions_figure(report), "by_length": lengths_figure(statistics, settings)}
    if interval is not None and interval.scores:
        figures["resamples"] = interval_figure(interval)
    for name, figure in figures.items():
        board.add_figure(f"{tag}/{name}", figure, step, close=False)


def choose_rows(evaluation: Evaluation, scores: Tensor, counted: Tensor, samples: int) -> list[Row]:
    """The first sentences that count, plus the worst and the best, among those whose text is kept."""
    candidates = counted[: evaluation.text_count].nonzero()[:, 0]
    if not len(candidates):
        return []
    labels = {int(sentence): f"{int(sentence) + 1}" for sentence in candidates[:samples]}
    for sentence, name in ((scores[candidates].argmin(), "worst"), (scores[candidates].argmax(), "best")):
        index = int(candidates[sentence])
        labels[index] = f"{index + 1} ({name})"
    return [Row(label, 100 * scores[index].item(), *evaluation.text(index)) for index, label in labels.items()]


def sentence_settings(settings: Settings) -> Settings:
    """Settings for sentence BLEU, smoothed so that a missing match of the highest order does not make the score 0."""
    return dataclasses.replace(
        settings, smoothing="exp", smoothing_value=None, effective_order=True, zero_rule="no-match"
    )


def lay_out_intervals(loggers: Iterable[Any], tags: Iterable[str]) -> None:
    """Add charts of each score with its interval, ``tag/low`` to ``tag/high``, to TensorBoard's custom scalars."""
    charts = {tag: ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] for tag in tags}
    for logger in loggers:
        board: Any = getattr(logger, "experiment", None)
        if hasattr(board, "add_custom_scalars"):
            board.add_custom_scalars({"BLEU with its confidence interval": charts})


def markdown_table(rows: Iterable[Row], caption: str) -> str:
    """A Markdown table of sentences, escaped so that no text is interpreted as markup.

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
    """Escape everything but letters, digits, whitespace, and harmless punctuation as HTML entities.

    Example:
        >>> escape("<b>*a* | b.")
        '&#60;b&#62;&#42;a&#42; &#124; b.'
    """
    if len(text) > _MAX_CHARACTERS:
        text = text[:_MAX_CHARACTERS] + " ..."
    return re.sub(r"[^\w .,:;=%-]|_", lambda match: f"&#{ord(match[0])};", text)
