"""Reading ``scores.jsonl``, the lines of scores of a run. It imports neither torch nor NumPy: the command is fast."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 1
"""The format of the lines."""
_TYPES: dict[str, Any] = {
    "key": str | None,
    "file": str | None,
    "metric": str | None,
    "class": str | None,
    "score": int | float | None,
    "stage": str | None,
    "step": int | None,
    "epoch": int | float | None,
    "interval": dict | None,
}
"""What is read as a value of which type."""


class RecordedScore(NamedTuple):
    """A line of ``scores.jsonl`` about a score of a file.

    Attributes:
        key: the logged name of the score.
        metric: the name of the metric.
        class_name: the name of its class.
        score: the score; None if it is not finite.
        percent: whether it is in 0..100.
        settings: what it depends on, as plain values; None if that is unknown.
        forms: how the sentences were passed, as far as known.
    """

    key: str
    metric: str
    class_name: str
    score: float | None
    percent: bool | None
    settings: dict[str, Any] | None
    forms: list[str]


def read_record(file: Path, warn: Callable[[str], object]) -> list[RecordedScore] | None:
    """The last recorded score of each name of a file of hypotheses, from the record whose folder it is in.

    Lines that cannot be read are skipped with a warning.

    Args:
        file: the file of hypotheses.
        warn: warns about lines that cannot be read.

    Returns:
        the scores; None if the file is in no folder of a record.
    """
    record = find_record(file)
    if record is None:
        return None
    lines, unreadable = _read_lines_about(file, record)
    if unreadable:
        warn(
            f"{str(record)!r} has lines that cannot be read, perhaps because a run was killed while it wrote, or "
            f"because another version wrote them; they are skipped: {unreadable}"
        )
    last_lines = {line["key"]: line for line in lines if line["key"] is not None}
    return [_to_recorded(line) for line in last_lines.values()]


def lacks_references(file: Path) -> bool:
    """Whether a file of hypotheses was written without references, so that those beside it are not its own."""
    record = find_record(file)
    if record is None:
        return False
    lines, _ = _read_lines_about(file, record)
    return any(line.get("references") is False for line in lines)


def _read_lines_about(file: Path, record: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines of a record about a file, and the numbers of all lines that cannot be read."""
    lines, unreadable = read_lines(record)
    name = file.expanduser().resolve().relative_to(record.parent).as_posix()
    return [line for line in lines if line["file"] == name], unreadable


def find_run(folder: Path) -> Path:
    """The folder with ``scores.jsonl``: this one, or ``translations`` in it.

    Raises:
        FileNotFoundError: if there is none.
    """
    for candidate in (folder, folder / "translations"):
        if (candidate / "scores.jsonl").is_file():
            return candidate
    raise FileNotFoundError(
        f"{str(folder)!r} has no scores.jsonl: pass the folder that 'translations' was set to, such as one of "
        "Evaluator(translations=...)"
    )


def find_record(file: Path) -> Path | None:
    """The ``scores.jsonl`` of the run that a file belongs to; None if it belongs to none."""
    for folder in file.expanduser().resolve().parents:
        record = folder / "scores.jsonl"
        if record.exists():
            return record
    return None


def read_lines(record: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines of a record that can be read, and the numbers of those that cannot be read, from 1."""
    lines = []
    unreadable = []
    content = record.read_bytes() if record.exists() else b""
    for number, text in enumerate(content.split(b"\n"), 1):
        if text.strip():
            line = _parse_line(text)
            if line is None:
                unreadable.append(number)
            else:
                lines.append(line)
    return lines, unreadable


def _parse_line(text: bytes) -> dict[str, Any] | None:
    """A line of a record; None if it cannot be read."""
    try:
        line: dict[str, Any] = json.loads(text, parse_constant=lambda constant: None)  # NaN, as a score without a value
        is_known = line["format"] <= FORMAT and {"key", "file", "metric", "class", "score"} <= line.keys()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    has_known_types = is_known and all(isinstance(line.get(name), kind) for name, kind in _TYPES.items())
    return line if has_known_types else None


def _to_recorded(line: Mapping[str, Any]) -> RecordedScore:
    return RecordedScore(
        key=line["key"],
        metric=line["metric"],
        class_name=line["class"],
        score=line["score"],
        percent=line.get("percent"),
        settings=line.get("settings"),
        forms=line.get("forms", []),
    )
