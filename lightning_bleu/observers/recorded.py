"""Reading the record of a run: a folder per validation. It imports neither torch nor NumPy: the command is fast.

A record may come from a stranger: what it says is checked here, and no path in it is followed.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lightning_bleu.core.clean import list_names

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


def read_name(folder: Path) -> tuple[int, int]:
    """The step in the name of the folder of a validation, and its number among those of the step, from 1.

    For another name, the step is -1.

    Example:
        >>> read_name(Path("val/step-0000500")), read_name(Path("step-0000500-2")), read_name(Path("step-500"))
        ((500, 1), (500, 2), (-1, 0))
    """
    match = _VALIDATION.fullmatch(folder.name)
    return (-1, 0) if match is None else (int(match[1]), int(match[2] or 1))


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
            elif read_name(child)[0] < 0:
                below.append(name)
            elif (child / SCORES).exists():
                found.append(child)
        names[:] = below
    return sorted(found, key=lambda child: (child.parent, read_name(child)))


def find_run(folder: Path) -> Path:
    """The folder of a record: ``translations`` in this one, or this one.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it has another form, or if there are several.
    """
    for candidate in (folder / "translations", folder):
        check_form(candidate)
        validations = {path.parent: path for path in find_validations(candidate)}
        runs = sorted({_find_root(path, candidate) for path in validations.values()})
        if len(runs) > 1:
            raise ValueError(f"{str(folder)!r} has {len(runs)} runs: pass one of them: {list_names(runs)}")
        if runs:
            return candidate
    raise FileNotFoundError(f"{str(folder)!r} has no validations: pass the folder that 'translations' was set to")


def _find_root(validation: Path, folder: Path) -> Path:
    """The folder of the record that a validation is in: the one above its stage, at or below this folder."""
    try:
        stage = name_folder(Path(), read_validation(validation)["stage"]).name
    except (ValueError, OSError):
        return folder
    names = validation.relative_to(folder).parts
    return folder.joinpath(*names[: names.index(stage)]) if stage in names else folder


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
    for candidate in (folder, folder.absolute().parent, folder.resolve().parent):
        if (candidate / SCORES).is_file():
            return candidate
    raise ValueError(f"{str(folder)!r} is not in the folder of a validation: there is no {SCORES}")


# Files


def read_validation(validation: Path) -> dict[str, Any]:
    """What ``scores.json`` says about a validation, and the folder of each loader. Missing values are None.

    Raises:
        OSError: if it is missing.
        ValueError: if it cannot be read, or leads elsewhere.
    """
    path = validation / SCORES
    recorded = _parse(_read(path, validation), _Validation, repr(str(path)))
    for loader in recorded["loaders"]:
        loader["folder"] = name_folder(validation, loader["name"])
        _check_inside(loader["folder"], validation)
    return recorded


def read_scores_of(folder: Path) -> list[dict[str, Any]]:
    """The scores of the sentences in a folder, without those of groups and means; see :func:`read_validation`."""
    recorded = read_validation(find_validation(folder))
    names = [loader["name"] for loader in recorded["loaders"] if loader["folder"].resolve() == folder.resolve()]
    return [line for line in recorded["scores"] if line["loader"] in names and line["group"] is None]


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """The sentences of a loader. Missing values are None.

    Raises:
        OSError: if they are missing.
        ValueError: if they cannot be read, or lead elsewhere.
    """
    path = folder / SENTENCES
    lines = []
    for number, text in enumerate(_read(path, find_validation(folder)).splitlines(), 1):
        lines.append(_parse(text, _Sentence, f"line {number:,} of {str(path)!r}"))
    return lines


def _read(path: Path, folder: Path) -> bytes:
    _check_inside(path, folder)
    if path.exists() and not path.is_file():  # a pipe would never end
        raise ValueError(f"{str(path)!r} is no file")
    return path.read_bytes()


def _check_inside(path: Path, folder: Path) -> None:
    """Raise a ValueError for a link that leads out of a folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{str(path)!r} is a link that leads out of {str(folder)!r}")


def _parse(text: bytes, kind: type, where: str) -> dict[str, Any]:
    """A JSON object of a kind."""
    try:
        value: dict[str, Any] = json.loads(text, **_NUMBERS)
        _check(value, kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error
    return value


def _to_number(text: str) -> float | None:
    """A number of JSON; None if it is not finite, or so large that sums of it would not be."""
    number = int(text) if text.lstrip("-").isdecimal() else float(text)
    return number if abs(number) <= _MAX_NUMBER else None


_NUMBERS: dict[str, Any] = dict.fromkeys(("parse_constant", "parse_float", "parse_int"), _to_number)
_MAX_NUMBER = 1e300


# What is read, and its types. Other keys stay: later versions may add some


class _Interval:
    low: float
    high: float
    confidence: float


class _Finding:
    key: str
    message: str
    group: str | None


class _Loader:
    name: str
    sentences: int
    findings: list[_Finding]


class _Score:
    key: str
    loader: str | None
    group: str | None
    mean_of: list[str]
    metric: str
    class_: str
    forms: list[str]
    higher_is_better: bool | None
    percent: bool | None
    score: float | None
    interval: _Interval | None
    settings: dict | None  # type: ignore[type-arg]


class _Validation:
    format: int
    stage: str
    step: int
    epoch: float | None
    loaders: list[_Loader]
    scores: list[_Score]


class _Sentence:
    format: int
    id: Any
    source: str | None
    hypothesis: str
    references: list[str]


def _check(value: Any, kind: Any, key: str = "the value") -> None:
    """Raise a ValueError unless a value has a type: a class above, or one of JSON. Missing keys become None."""
    if kind is Any:
        return
    arguments = get_args(kind)
    if get_origin(kind) is UnionType:
        if value is not None:
            _check(value, arguments[0], key)
        return
    is_object = hasattr(kind, "__annotations__")
    expected = dict if is_object else get_origin(kind) or kind
    if type(value) not in ((int, float) if kind is float else (expected,)):
        raise ValueError(f"{key} has the wrong type")
    if arguments:
        for item in value:
            _check(item, arguments[0], key)
    if is_object:
        if value.get("format", FORMAT) != FORMAT:
            raise ValueError("it has another format, perhaps of a later version")
        for name, kind_of_value in get_type_hints(kind).items():
            name = name.rstrip("_")  # "class" is a keyword
            _check(value.setdefault(name, None), kind_of_value, repr(name))
