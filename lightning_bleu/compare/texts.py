"""The texts of finished systems, from files or lists. Neither torch nor NumPy is imported: the command is fast."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lightning_bleu.observers.recorded import SCORES, SENTENCES, find_run, read_lines, read_validation

TextFile: TypeAlias = str | os.PathLike[str]
"""A file with a sentence per line."""
Translations: TypeAlias = TextFile | Sequence[str]
"""The translations of a system: a file, a folder of a record, or a list of strings."""
_Lines: TypeAlias = Sequence[Mapping[str, Any]]
"""The sentences in a folder of a record."""


class SystemTexts(NamedTuple):
    """Systems that translate the same sentences.

    Attributes:
        hypotheses: the hypotheses of each system by its name.
        references: the references of each sentence.
        sources: the source of each sentence; None if there are none.
        files: the files and folders of the systems that have one.
        has_own_references: whether the references are those of the systems.
        ids: what a record calls each sentence; None if none does.
    """

    hypotheses: Mapping[str, list[str]]
    references: list[list[str]]
    sources: list[str] | None
    files: Mapping[str, Path]
    has_own_references: bool = False
    ids: list[str] | None = None


def read_systems(systems: Mapping[str, Any], references: Any, sources: Any) -> SystemTexts:
    """The texts of systems; see :func:`lightning_bleu.compare.compare_systems`.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for texts that are neither a path nor a list of strings.
        ValueError: for different numbers of sentences, or fewer than two; if there are no references, or not the same
            for all systems; for a file that is not UTF-8, or a folder that cannot be read.
    """
    if not isinstance(systems, Mapping) or not all(isinstance(name, str) for name in systems):
        raise TypeError(
            'pass the systems as a dict of names, the baseline first: compare_systems({"old": "old.txt", "new": '
            f'"new.txt"}}), got {type(systems).__name__}'
        )
    if not systems:
        raise ValueError("there must be at least one system, got an empty dict")
    files: dict[str, Path] = {}
    for name, translations in systems.items():
        if isinstance(translations, str | os.PathLike):
            files[name] = _find_path(Path(translations).expanduser())
    _check_files_differ(files)
    recorded = {name: read_lines(path) for name, path in files.items() if path.is_dir()}
    recorded_texts = {name: [line["hypothesis"] for line in lines] for name, lines in recorded.items()}
    hypotheses = {name: _read_lines(name, recorded_texts.get(name, systems[name])) for name in systems}
    has_own_references = references is None
    if references is None:
        references = _find_shared("references", files, recorded)
    sources = _find_shared("sources", files, recorded) if sources is None else _read_lines("sources", sources)
    ids = _find_ids(recorded)
    texts = SystemTexts(hypotheses, _read_references(references), sources, files, has_own_references, ids)
    _check_counts(texts)
    return texts


def _find_path(path: Path) -> Path:
    """The file of a system, or the only folder of sentences in that of a loader, a validation, or a run.

    Raises:
        ValueError: for a file of a record, and for several loaders.
    """
    if not path.is_dir() and (path.parent / SENTENCES).exists():
        raise ValueError(f"{str(path)!r} is in a record: pass its folder, {str(path.parent)!r}")
    if not path.is_dir() or (path / SENTENCES).exists():
        return path
    if (path / SCORES).exists():
        folders: list[Path] = [loader["folder"] for loader in read_validation(path)["loaders"]]
    else:
        run = find_run(path)
        from lightning_bleu.compare.recorded_validations import choose_validation, read_validations  # imports torch

        folders = list(choose_validation(read_validations(run)).folders.values())
    if len(folders) != 1:
        shown = ", ".join(map(str, folders))
        raise ValueError(f"{str(path)!r} has {len(folders)} loaders: pass the folder of one of them, {shown}")
    return folders[0]


def _check_files_differ(files: Mapping[str, Path]) -> None:
    """Raise a ValueError if a path is that of two systems, which would be compared with itself."""
    owners: dict[Path, str] = {}
    for name, file in files.items():
        owner = owners.setdefault(file.resolve(), name)
        if owner != name and str(file) != "-":
            raise ValueError(f"{owner!r} and {name!r} are the same file: pass each system once")


def _find_shared(kind: str, files: Mapping[str, Path], recorded: Mapping[str, _Lines]) -> Any:
    """The references or the sources in records and beside files; None if there are none. An error if they differ."""
    key, pattern = "references", r"ref(-\d+)?\.txt"
    if kind == "sources":
        key, pattern = "source", r"src\.txt"
    texts: list[Any] = []
    for name, path in files.items():
        if name in recorded:
            texts.append([line[key] for line in recorded[name]])
            continue
        beside = _find_beside(path, pattern)
        if beside:
            texts.append(_read_file(beside[0]) if kind == "sources" else _read_reference_files(beside))
    texts = [lines for lines in texts if None not in lines]
    if any(lines != texts[0] for lines in texts):
        raise ValueError(f"the systems have different {kind}: pass {kind}=...")
    return texts[0] if texts else None


def _find_ids(recorded: Mapping[str, _Lines]) -> list[str] | None:
    """What the first record with ids calls each sentence; None if there is none."""
    for lines in recorded.values():
        ids = [line["id"] for line in lines]
        if None not in ids:
            return list(map(str, ids))
    return None


def _check_counts(texts: SystemTexts) -> None:
    """Raise a ValueError unless there is a line of everything for each of at least two sentences."""
    line_counts = {repr(name): len(lines) for name, lines in texts.hypotheses.items()}
    line_counts["the references"] = len(texts.references)
    if texts.sources is not None:
        line_counts["the sources (if none are passed, src.txt beside a system)"] = len(texts.sources)
    shown = ", ".join(f"{count:,} of {name}" for name, count in line_counts.items())
    if len(set(line_counts.values())) > 1:
        raise ValueError(f"the numbers of sentences differ: {shown}. All must translate the same sentences, in order")
    if len(texts.references) < 2:
        raise ValueError(f"there must be at least two sentences, but there are {shown}")


def _read_references(references: Any) -> list[list[str]]:
    """The references of each sentence."""
    if isinstance(references, str | os.PathLike):
        references = [Path(references)]
    elif hasattr(references, "tolist"):  # a Series or an array
        references = references.tolist()
    elif references is not None and not isinstance(references, Sequence):
        raise TypeError(f"'references' must be a file or a list, got {type(references).__name__}")
    if not references:
        raise ValueError(
            "there are no references: pass references=... (in the command, -r REF), or put 'ref.txt' beside a system"
        )
    are_files = all(isinstance(item, os.PathLike) for item in references)
    if are_files:
        return _read_reference_files(references)
    return [_read_item(item) for item in references]


def _read_item(item: Any) -> list[str]:
    """The references of a sentence, of which the user passed a string or several."""
    if isinstance(item, str):
        return [item]
    if not isinstance(item, list | tuple) or not all(isinstance(reference, str) for reference in item):
        raise TypeError(
            "'references' must be a file, a list of Path, or a list of strings or of lists of strings, got one with "
            f"{item!r:.80}"
        )
    return list(item)


def _read_reference_files(files: Sequence[Path]) -> list[list[str]]:
    """The references of each sentence, from a file for each set of references."""
    columns = [_read_lines("references", file) for file in files]
    if len(set(map(len, columns))) > 1:
        shown = ", ".join(f"{len(lines):,} in {str(file)!r}" for file, lines in zip(files, columns))
        raise ValueError(f"the files of references have different numbers of lines: {shown}")
    return [list(row) for row in zip(*columns)]


def _read_lines(name: str, translations: Any) -> list[str]:
    """The lines of a file, or the strings of a list."""
    if isinstance(translations, str | os.PathLike):
        return _read_file(Path(translations).expanduser())
    if hasattr(translations, "tolist"):  # a Series or an array
        translations = translations.tolist()
    is_list = isinstance(translations, list | tuple) and all(isinstance(line, str) for line in translations)
    if not is_list:
        raise TypeError(
            f"{name!r} must be a file with a line per sentence, or a list of strings, got {translations!r:.80}"
        )
    return list(translations)


def _read_file(file: Path) -> list[str]:
    """The lines of a file, which may come from an editor."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder has no lines: pass a file in it, such as ref.txt", str(file))
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    _check_encoding(file, content)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{str(file)!r} is not UTF-8: line {line} has the byte 0x{content[error.start]:02x}. Convert the file, for "
            "example with: iconv -f latin1 -t utf-8"
        ) from error
    if not text:
        return []
    return text.removesuffix("\n").split("\n")  # splitlines splits at other characters, too


_BEGINNINGS = {
    rb"\xff\xfe": ("is UTF-16", "iconv -f UTF-16 -t UTF-8 {0} > NEW, or in PowerShell 5 with Out-File -Encoding utf8"),
    rb"\xfe\xff": ("is UTF-16", "iconv -f UTF-16 -t UTF-8 {0} > NEW"),
    rb"\x1f\x8b": ("is compressed", "gunzip {0}"),
    rb"PK\x03\x04": ("is an archive", "unzip {0}"),
    rb"BZh[1-9]": ("is compressed", "bunzip2 {0}"),
    rb"\xfd7zXZ": ("is compressed", "unxz {0}"),
    rb"\(\xb5/\xfd": ("is compressed", "unzstd {0}"),
}
"""What a file is whose first bytes match, and how to convert it."""


def _check_encoding(file: Path, content: bytes) -> None:
    """Raise a ValueError for a file that is no text in UTF-8, as far as its first bytes say."""
    for beginning, (what, how) in _BEGINNINGS.items():
        if re.match(beginning, content):
            raise ValueError(f"{str(file)!r} {what}: convert it first, for example with: {how.format(file)}")


def _find_beside(file: Path, pattern: str) -> list[Path]:
    """The files with such names beside a file, in the order of their numbers."""
    files = [other for other in file.parent.iterdir() if re.fullmatch(pattern, other.name)]
    return sorted(files, key=lambda other: (len(other.name), other.name))
