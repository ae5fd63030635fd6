"""Reading the record of a run: a folder per validation. It imports neither torch nor NumPy: the command is fast.

A record may come from a stranger: what it says is checked here, and no path in it is followed.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
"""The format of both files."""
SCORES = "scores.json"
"""The file with the scores of a validation, in its folder."""
SENTENCES = "sentences.jsonl"
"""The file with the sentences of a loader, in its folder."""
_VALIDATION = re.compile(r"step-(\d{7,})(?:-(\d+))?")
_OLD_FILE = re.compile(r"scores\.jsonl|step-\d{7,}(-\d+)?\.txt")
_MAX_NAME = 100
"""The maximum number of bytes of the name of a folder; longer ones are cut, and get a checksum."""
_MAX_NUMBER = 1e300


# Folders


def name_folder(folder: Path, *names: str) -> Path:
    """A folder named after a stage, a loader, or both, if they have names.

    Characters that could leave the folder, or that some file systems do not allow, are percent-encoded. Long names are
    shortened.

    Example:
        >>> name_folder(Path("translations"), "val", "../news").as_posix()
        'translations/val/..%2Fnews'
    """
    return folder.joinpath(*(_encode(name) for name in names if name))


def _encode(name: str) -> str:
    """The name of a folder, on any file system.

    Example:
        >>> _encode("../news"), _encode("aux."), len(_encode(1000 * "x"))
        ('..%2Fnews', 'aux%2E', 109)
    """
    encoded = re.sub(r"[^\w .+@-]|[. ]$", _percent, name)
    # Devices on Windows, and the files and folders of a record.
    if re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.(txt|jsonl?)|step-.*", encoded):
        encoded = re.sub("^.", _percent, encoded)
    if len(encoded.encode()) > _MAX_NAME:
        checksum = zlib.crc32(name.encode(errors="surrogatepass"))
        encoded = f"{encoded.encode()[:_MAX_NAME].decode(errors='ignore')}-{checksum:08x}"
    return encoded


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))


def name_run(folder: Path) -> str:
    """The name of the folder of a run, which ``translations=True`` calls ``translations`` in another one."""
    return folder.parent.name if folder.name == "translations" else folder.name


def read_name(folder: Path) -> tuple[int, int] | None:
    """The step in the name of the folder of a validation, and its number among those of the step, from 1.

    Example:
        >>> read_name(Path("val/step-0000500")), read_name(Path("step-0000500-2")), read_name(Path("step-500"))
        ((500, 1), (500, 2), None)
    """
    match = _VALIDATION.fullmatch(folder.name)
    return None if match is None else (int(match[1]), int(match[2] or 1))


def find_validations(run: Path) -> list[Path]:
    """The folders of the validations below a folder: those of a stage together, in the order of their steps.

    Raises:
        ValueError: for a link that leads out of the folder.
    """
    found = []
    for path, names, _ in os.walk(run):
        below = []
        for name in names:
            child = Path(path, name)
            if child.is_symlink():
                _check_inside(child, run)
            elif read_name(child) is None:
                below.append(name)
            elif (child / SCORES).exists():
                found.append(child)
        names[:] = below
    return sorted(found, key=lambda child: (child.parent, read_name(child)))


def find_run(folder: Path) -> Path:
    """The folder of a record: ``translations`` in this one, or this one.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it has another form.
    """
    for candidate in (folder / "translations", folder):
        check_form(candidate)
        if find_validations(candidate):
            return candidate
    raise FileNotFoundError(
        f"{str(folder)!r} has no validations: pass the folder that 'translations' was set to, such as one of "
        "Evaluator(translations=...)"
    )


def check_form(folder: Path) -> None:
    """Raise a ValueError for a record of an earlier form, which had no folders for validations."""
    for path in (*folder.glob("*"), *folder.glob("*/step-*.txt")):
        if _OLD_FILE.fullmatch(path.name) and path.is_file():
            raise ValueError(f"{str(folder)!r} has a record of an earlier version ({path.name}), which cannot be read")


def find_validation(folder: Path) -> Path:
    """The folder of the validation of a folder of sentences: this one, or the one that it is in.

    Raises:
        ValueError: if there is none.
    """
    real = folder.resolve()
    for candidate in (real, real.parent):
        if (candidate / SCORES).is_file():
            return candidate
    raise ValueError(f"{str(folder)!r} is not in the folder of a validation: there is no {SCORES}")


# Files


def read_scores(validation: Path) -> dict[str, Any]:
    """What a validation has in ``scores.json``. Values that are missing are None.

    Raises:
        OSError: if it is missing.
        ValueError: if it cannot be read, or leads elsewhere.
    """
    path = validation / SCORES
    scores = _parse(_read(path, validation), _VALIDATION_SCHEMA, repr(str(path)))
    scores["loaders"] = [_check(loader, _LOADER_SCHEMA, repr(str(path))) for loader in scores["loaders"]]
    scores["scores"] = [_check(score, _SCORE_SCHEMA, repr(str(path))) for score in scores["scores"]]
    return scores


def read_scores_of(folder: Path) -> list[dict[str, Any]]:
    """The scores of the sentences in a folder, without those of groups and means; see :func:`read_scores`."""
    validation, real = find_validation(folder), folder.resolve()
    scores = read_scores(validation)["scores"]
    return [
        score
        for score in scores
        if score["loader"] is not None and score["group"] is None and name_folder(validation, score["loader"]) == real
    ]


def list_folders(validation: Path) -> list[Path]:
    """The folders of the loaders of a validation; see :func:`read_scores`."""
    return [name_folder(validation, loader["name"]) for loader in read_scores(validation)["loaders"]]


def read_sentences(folder: Path) -> list[dict[str, Any]]:
    """The sentences of a loader. Values that are missing are None.

    Raises:
        OSError: if they are missing.
        ValueError: if they cannot be read, or lead elsewhere.
    """
    path = folder / SENTENCES
    lines = _read(path, find_validation(folder)).splitlines()
    return [_parse(line, _SENTENCE_SCHEMA, f"line {number} of {str(path)!r}") for number, line in enumerate(lines, 1)]


def _read(path: Path, folder: Path) -> bytes:
    _check_inside(path, folder)
    if path.exists() and not path.is_file():  # a pipe would never end
        raise ValueError(f"{str(path)!r} is no file")
    return path.read_bytes()


def _check_inside(path: Path, folder: Path) -> None:
    """Raise a ValueError for a link that leads out of a folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{str(path)!r} is a link that leads out of {str(folder)!r}")


def _parse(text: bytes, schema: _Schema, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=lambda name: None)  # NaN, as a score without a value
    except (ValueError, RecursionError):
        raise ValueError(f"{where} is no JSON") from None
    return _check(value, schema, where)


def _check(value: Any, schema: _Schema, where: str) -> dict[str, Any]:
    """A value with all keys of a schema, of the right types. Other keys stay: later versions may add some."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} has a value that is no JSON object")
    for name, is_valid in schema.items():
        if not is_valid(value.setdefault(name, None)):
            raise ValueError(f"{where} has a value of {name!r} that this version cannot read")
    return value


# What is read, and whether it has the right type


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_interval(value: object) -> bool:
    return isinstance(value, dict) and all(_is_number(value.get(name)) for name in ("low", "high", "confidence"))


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_text, value))


def _is_list_of(is_valid: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _or_none(is_valid: _Check) -> _Check:
    return lambda value: value is None or is_valid(value)


_Check = Callable[[Any], bool]
_Schema = Mapping[str, _Check]
_VALIDATION_SCHEMA: _Schema = {
    "format": lambda value: value == FORMAT,
    "stage": _is_text,
    "step": _is_count,
    "epoch": _or_none(_is_number),
    "loaders": _is_list_of(_is_dict),
    "scores": _is_list_of(_is_dict),
}
_LOADER_SCHEMA: _Schema = {
    "name": _is_text,
    "findings": _is_list_of(_is_pair),
}
_SCORE_SCHEMA: _Schema = {
    "key": _is_text,
    "loader": _or_none(_is_text),
    "group": _or_none(_is_text),
    "mean_of": _is_list_of(_is_text),
    "metric": _is_text,
    "class": _is_text,
    "forms": _is_list_of(_is_text),
    "higher_is_better": _or_none(_is_flag),
    "percent": _or_none(_is_flag),
    "score": _or_none(_is_number),
    "interval": _or_none(_is_interval),
    "settings": _or_none(_is_dict),
}
_SENTENCE_SCHEMA: _Schema = {
    "id": _or_none(lambda value: _is_text(value) or _is_count(value)),
    "index": _or_none(_is_count),
    "group": _or_none(_is_text),
    "source": _or_none(_is_text),
    "hypothesis": _is_text,
    "references": lambda value: _is_list_of(_is_text)(value) and len(value) > 0,
    "scores": _or_none(_is_dict),
    "format": lambda value: value == FORMAT,
}
