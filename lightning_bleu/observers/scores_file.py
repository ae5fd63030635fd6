"""Reading ``scores.jsonl``, the lines of scores of a run. It imports neither torch nor NumPy: the command is fast."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

FORMAT = 1
"""The format of the lines."""
SHARED_FILE = re.compile(r"src\.txt|ref(-\d+)?\.txt")
"""The names of files of references and sources."""
_REFERENCE_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_MAX_SHOWN = 10
"""How many numbers of unreadable lines a warning shows."""


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
    """The last recorded score of each name of a file of hypotheses, from the record that names it.

    Lines that cannot be read are skipped with a warning.

    Args:
        file: the file of hypotheses.
        warn: warns about lines that cannot be read.

    Returns:
        the scores; None if no record names the file.
    """
    found = _find_lines(file)
    if found is None:
        return None
    record, lines = found
    warn_about_unreadable(record, warn)
    last_lines = {line["key"]: line for line in lines if line["key"] is not None}
    return [_to_recorded(line) for line in last_lines.values()]


def is_recorded(file: Path) -> bool:
    """Whether a record names a file of hypotheses, or for one of references or sources, another file beside it."""
    if SHARED_FILE.fullmatch(file.name) is None or not file.parent.is_dir():
        return _find_lines(file) is not None
    return any(_find_lines(other) is not None for other in file.parent.glob("step-*.txt"))


def read_reference_counts(file: Path) -> list[int] | None:
    """The number of references of each sentence of a recorded file; None if all have the same, or if it is unknown."""
    table = file.with_suffix(".tsv")
    if not table.is_file() or not is_recorded(file):
        return None
    names, *lines = [line.split("\t") for line in table.read_text(errors="replace").rstrip("\n").split("\n")]
    if "references" not in names:
        return None
    column = names.index("references")
    counts = [line[column] if len(line) > column else "" for line in lines]
    return [*map(int, counts)] if all(_REFERENCE_COUNT.fullmatch(count) for count in counts) else None


def warn_about_unreadable(record: Path, warn: Callable[[str], object]) -> None:
    """Warn about the lines of a record that cannot be read."""
    _, unreadable = read_lines(record)
    if unreadable:
        count = f"{len(unreadable):,} line{'' if len(unreadable) == 1 else 's'}"
        more = ", ..." if len(unreadable) > _MAX_SHOWN else ""
        warn(
            f"{str(record)!r} has {count} that cannot be read, perhaps because a run was killed "
            "while it wrote, or because another version wrote them. They are skipped: "
            f"{', '.join(map(str, unreadable[:_MAX_SHOWN]))}{more}"
        )


def _find_lines(file: Path) -> tuple[Path, list[dict[str, Any]]] | None:
    """The record in a folder above a file that names it, and its lines about it; None if there is none.

    A folder above may be a link, or have the record of another program or run.
    """
    path = Path(os.path.abspath(file.expanduser()))
    for absolute in dict.fromkeys([path, path.resolve()]):
        for folder in absolute.parents:
            record = folder / "scores.jsonl"
            name = absolute.relative_to(folder).as_posix()
            lines = [line for line in read_lines(record)[0] if line["file"] == name]
            if lines:
                return record, lines
    return None


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


def name_run(folder: Path) -> str:
    """The name of the folder of a run, which ``translations=True`` calls ``translations`` in another one."""
    return folder.parent.name if folder.name == "translations" else folder.name


def read_lines(record: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The same as :func:`parse_lines`, which is called once for each state of a record, and the result is kept."""
    state = record.stat() if record.exists() else None
    return _parse_once(record, None if state is None else (state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=16)  # a command asks for the lines of each of its files
def _parse_once(record: Path, state: tuple[int, int] | None) -> tuple[list[dict[str, Any]], list[int]]:
    return parse_lines(record)


def parse_lines(record: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines of a record that can be read, and the numbers of those that cannot be read, from 1."""
    if not record.is_file():  # a pipe would never end
        return [], []
    lines = []
    unreadable = []
    for number, text in enumerate(record.read_bytes().split(b"\n"), 1):
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
        line = json.loads(text, parse_constant=lambda constant: None)  # NaN, as a score without a value
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not {"format", "key", "file", "metric", "class", "score"} <= line.keys():
        return None
    are_valid = all(is_valid(line[name]) for name, is_valid in _SCHEMA.items() if name in line)
    return line if are_valid else None


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value is None
    return abs(value) <= _MAX_NUMBER


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63)


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_file(value: object) -> bool:
    """Whether this is None, or the name of a file that is in the folder of the record."""
    if not isinstance(value, str):
        return value is None
    path = PurePosixPath(value)
    return "\0" not in value and not path.is_absolute() and ".." not in path.parts and path.name != ""


def _is_interval(value: object) -> bool:
    if not isinstance(value, dict):
        return value is None
    return all(_is_number(value.get(name)) for name in ("low", "high", "confidence"))


def _is_list_of_findings(value: object) -> bool:
    """Whether this is a list of pairs of strings."""
    if not isinstance(value, list):
        return False
    return all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in value
    )


_MAX_NUMBER = 1e300
_SCHEMA: Mapping[str, Callable[[Any], bool]] = {
    "format": lambda value: _is_count(value) and value is not None and 1 <= value <= FORMAT,
    "validation": _is_text,
    "stage": _is_text,
    "step": _is_count,
    "epoch": _is_number,
    "key": _is_text,
    "file": _is_file,
    "metric": _is_text,
    "class": _is_text,
    "forms": lambda value: isinstance(value, list) and all(isinstance(form, str) for form in value),
    "higher_is_better": _is_flag,
    "percent": _is_flag,
    "score": _is_number,
    "interval": _is_interval,
    "findings": _is_list_of_findings,
    "settings": lambda value: value is None or isinstance(value, dict),
}
"""What is read, and whether it has the right type. Other keys are ignored: later versions may add some."""


def _to_recorded(line: Mapping[str, Any]) -> RecordedScore:
    return RecordedScore(
        key=line["key"],
        metric=line["metric"] or "",
        class_name=line["class"] or "",
        score=line["score"],
        percent=line.get("percent"),
        settings=line.get("settings"),
        forms=line.get("forms", []),
    )
