"""The texts of finished systems, from files or lists. Neither torch nor NumPy is imported: the command is fast."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lightning_bleu.observers.scores_file import is_recorded, read_reference_counts

TextFile: TypeAlias = str | os.PathLike[str]
"""A file with a sentence per line."""
Translations: TypeAlias = TextFile | Sequence[str]
"""The translations of a system: a file, or a list of strings."""


class SystemTexts(NamedTuple):
    """Systems that translate the same sentences.

    Attributes:
        hypotheses: the hypotheses of each system by its name.
        references: the references of each sentence.
        sources: the source of each sentence; None if there are none.
        files: the files of the systems that are files.
        has_own_references: whether the references are those beside the files.
    """

    hypotheses: Mapping[str, list[str]]
    references: list[list[str]]
    sources: list[str] | None
    files: Mapping[str, Path]
    has_own_references: bool = False


def read_systems(systems: Mapping[str, Any], references: Any, sources: Any) -> SystemTexts:
    """The texts of systems; see :func:`lightning_bleu.compare.compare_systems`.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for texts that are neither a file nor a list of strings.
        ValueError: for different numbers of sentences, or fewer than two; if there are no references, or not the same
            beside all files; for a file that is not UTF-8.
    """
    if not isinstance(systems, Mapping) or not all(isinstance(name, str) for name in systems):
        raise TypeError(
            'pass the systems as a dict of names, the baseline first: compare_systems({"old": "old.txt", "new": '
            f'"new.txt"}}), got {type(systems).__name__}'
        )
    if not systems:
        raise ValueError("there must be at least one system, got an empty dict")
    _check_files_differ(systems)
    hypotheses = {name: _read_lines(name, translations) for name, translations in systems.items()}
    files = {
        name: Path(translations).expanduser()
        for name, translations in systems.items()
        if isinstance(translations, str | os.PathLike)
    }
    texts = SystemTexts(
        hypotheses,
        _read_references(references, files),
        _read_sources(sources, files),
        files,
        has_own_references=references is None,
    )
    _check_counts(texts)
    return texts


def _check_files_differ(systems: Mapping[str, Any]) -> None:
    """Raise a ValueError if a file is that of two systems, which would be compared with itself."""
    owners: dict[Path, str] = {}
    for name, translations in systems.items():
        if isinstance(translations, str | os.PathLike) and translations != "-":
            owner = owners.setdefault(Path(translations).expanduser().resolve(), name)
            if owner != name:
                raise ValueError(f"{owner!r} and {name!r} are the same file: pass each system once")


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


def _read_references(references: Any, files: Mapping[str, Path]) -> list[list[str]]:
    """The references of each sentence, from what the user passed, or from the files beside the systems."""
    if references is None:
        beside = _read_reference_files(_find_beside(files.values(), r"ref(-\d+)?\.txt"))
        if beside:
            return _drop_repeated(beside, files.values())
    elif isinstance(references, str | os.PathLike):
        references = [Path(references)]
    elif hasattr(references, "tolist"):  # a Series or an array
        references = references.tolist()
    elif not isinstance(references, Sequence):
        raise TypeError(f"'references' must be a file or a list, got {type(references).__name__}")
    if not references:
        raise ValueError(
            "there are no references: pass references=... (in the command, -r REF), or put 'ref.txt' beside a system"
        )
    are_files = all(isinstance(item, os.PathLike) for item in references)
    if are_files:
        return _read_reference_files(references)
    return [_read_item(item) for item in references]


def _drop_repeated(references: list[list[str]], files: Iterable[Path]) -> list[list[str]]:
    """The references of each sentence without those that were written to fill up a line; see the record."""
    counts = next(filter(None, map(read_reference_counts, files)), None)
    if counts is None or len(counts) != len(references):
        return references
    return [row[:count] for row, count in zip(references, counts)]


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


def _read_sources(sources: Any, files: Mapping[str, Path]) -> list[str] | None:
    """The sources, from what the user passed, or from the file beside the systems; None if there are none."""
    if sources is None:
        sources = next(iter(_find_beside(files.values(), r"src\.txt")), None)
    return None if sources is None else _read_lines("sources", sources)


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
    """The lines of a file. Those of a record are read as they were written, and others may come from an editor."""
    if file.is_dir():
        reason = "a folder has no lines: pass a file of translations in it, such as val/step-0000500.txt"
        raise IsADirectoryError(errno.EISDIR, reason, str(file))
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    _check_encoding(file, content)
    try:
        text = content.decode() if is_recorded(file) else content.decode("utf-8-sig").replace("\r\n", "\n")
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


def _find_beside(systems: Iterable[Path], pattern: str) -> list[Path]:
    """The files with such names beside a system. An error if those beside another one differ."""
    files_by_system = []
    for system in systems:
        files = [file for file in system.parent.iterdir() if re.fullmatch(pattern, file.name)]
        if files:
            files_by_system.append(sorted(files, key=lambda file: (len(file.name), file.name)))
    if not files_by_system:
        return []
    first = files_by_system[0]
    first_content = [file.read_bytes() for file in first]
    for files in files_by_system[1:]:
        if files != first and [file.read_bytes() for file in files] != first_content:
            raise ValueError(f"{str(first[0])!r} and {str(files[0])!r} differ: pass references=... and sources=...")
    return first
