"""What there is to see of the record of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_bleu.compare.comparison_page import describe_worst
from lightning_bleu.compare.recorded_validations import (
    RecordedValidation,
    choose_validation,
    find_comparable,
    find_main_key,
    is_test,
)
from lightning_bleu.compare.systems import compare_texts
from lightning_bleu.compare.texts import read_systems
from lightning_bleu.core.scoring import describe_directions, format_in_unit, format_range
from lightning_bleu.evaluation.texts.findings import describe_findings
from lightning_bleu.observers.recorded import name_run
from lightning_bleu.views.blocks import Block, Cell, Chart, Heading, Note, Point, Table, TableCell, View
from lightning_bleu.views.text import MAX_ROWS

if TYPE_CHECKING:
    from lightning_bleu.compare.recorded_run import RecordedRun

_MAX_COLUMNS = 8
"""The maximum number of scores in a table, of charts, and of files whose sentences are shown."""


def describe_run(run: RecordedRun, examples: int) -> View:
    """What a page shows of a run, with at most `examples` of its worst sentences."""
    blocks: list[Block] = []
    for stage in run.stages:
        blocks += _describe_stage(run, stage)
    if examples > 0:
        blocks += _describe_sentences(run, examples)
    return View(name_run(run.folder.resolve()), blocks)


def _describe_stage(run: RecordedRun, stage: str) -> list[Block]:
    """The validations of a stage as a table, and their scores as curves."""
    validations = run.of_stage(stage)
    main_key = find_main_key(validations)
    keys = list(dict.fromkeys(key for validation in validations for key in validation.scores))
    lines = {key: line for validation in validations for key, line in validation.scores.items()}
    keys.sort(key=lambda key: (key != main_key, lines[key]["group"] is not None, bool(lines[key]["loader"])))
    shown = keys[:_MAX_COLUMNS]
    best = {} if is_test(stage) else {key: run.best(key) for key in keys}
    blocks: list[Block] = []
    sentences = _describe_best(shown, best)
    if sentences:
        blocks.append(Note(sentences))
    blocks.append(_validation_table(validations, shown, best, len(keys) - len(shown)))
    latest = validations[-1]
    blocks += describe_findings(latest.findings, f"What stands out at step {latest.step:,}")
    if len(validations) > 1:
        blocks += [_curve(validations, key, best.get(key)) for key in shown]
    return blocks


def _describe_best(keys: Sequence[str], best: Mapping[str, RecordedValidation | None]) -> str:
    """The best validation of each score, as a sentence."""
    entries = []
    for key in keys:
        validation = best.get(key)
        if validation is not None:
            score, interval = _format_score(validation, key), validation.scores[key]["interval"]
            if interval is not None:
                score += f" ({format_range(interval['low'], interval['high'], validation.scores[key]['percent'])})"
            entries.append(f"{key} {score} at step {validation.step:,}")
    return f"Best: {'; '.join(entries)}." if entries else ""


def _format_score(validation: RecordedValidation, key: str) -> str:
    """A score as text; empty if there is none."""
    score = validation.score(key)
    return "" if score is None else format_in_unit(score, validation.scores[key]["percent"])


def _validation_table(
    validations: Sequence[RecordedValidation],
    keys: Sequence[str],
    best: Mapping[str, RecordedValidation | None],
    missing: int,
) -> Table:
    """A row per validation."""
    header = ["step", "epoch", "sentences", *keys]
    rows = []
    for validation in validations[-MAX_ROWS:]:
        row: list[TableCell] = [f"{validation.step:,}", "" if validation.epoch is None else f"{validation.epoch:g}"]
        count = sum(validation.sentence_counts.values())
        row.append(f"{count:,}")
        for key in keys:
            text = _format_score(validation, key)
            is_best = len(validations) > 1 and best.get(key) is validation
            row.append(Cell(f"{text} *", "best") if is_best else text)
        rows.append(row)
    return Table(header, rows, validations[0].stage, _describe_columns(validations, keys, missing), text_columns=0)


def _describe_columns(validations: Sequence[RecordedValidation], keys: Sequence[str], missing: int) -> str:
    """What the numbers of a table mean."""
    lines: dict[str, Mapping[str, Any]] = {}
    for validation in validations:
        lines.update({key: line for key, line in validation.scores.items() if key in keys})
    note = describe_directions({key: line["higher_is_better"] for key, line in lines.items()})
    if len(validations) > 1:
        note += " *: the best."
    if any(_has_incomparable(validations, key) for key in keys):
        note += " It is one of those with the settings and the sentences of the latest validation."
    if missing > 0:
        note += f" {missing:,} more scores are in the record."
    if len(validations) > MAX_ROWS:
        note += f" The latest {MAX_ROWS} of {len(validations):,} validations."
    return note.strip()


def _has_incomparable(validations: Sequence[RecordedValidation], key: str) -> bool:
    """Whether some scores cannot be compared with the latest one."""
    scored = [validation for validation in validations if validation.score(key) is not None]
    return len(find_comparable(validations, key)) < len(scored)


def _curve(validations: Sequence[RecordedValidation], key: str, best: RecordedValidation | None) -> Chart:
    """A score over the steps, with its interval."""
    points = {}
    for validation in validations:
        score = validation.score(key)
        if score is not None:
            interval = validation.scores[key]["interval"] or {}
            points[validation.step] = Point(validation.step, score, interval.get("low"), interval.get("high"))
    return Chart(key, list(points.values()), "step", best=None if best is None else points.get(best.step))


# Sentences


def _describe_sentences(run: RecordedRun, examples: int) -> list[Block]:
    """The worst sentences of the best validation."""
    best = choose_validation(run.validations)
    blocks: list[Block] = []
    for name, folder in list(best.folders.items())[:_MAX_COLUMNS]:
        blocks += _describe_folder(folder, f"{name}: " if name else "", examples)
    return [Heading(f"Sentences of step {best.step:,}"), *blocks] if blocks else []


def _describe_folder(folder: Path, title: str, examples: int) -> list[Block]:
    """The worst sentences of a loader."""
    try:
        scored = compare_texts(read_systems({"": folder}, None, None), resamples=1, warn=lambda message: None)
    except (ValueError, OSError, ImportError) as error:
        # Such as a single sentence, a metric that the record cannot make again, or one whose package is missing here.
        return [Note(f"{title}{error}", quiet=True)]
    worst = describe_worst(scored, examples, title)
    return [worst] if worst.items else []  # all may be perfect
