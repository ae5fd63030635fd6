"""What an evaluator has written to a folder, and a disk that is full."""

from __future__ import annotations

import contextlib
import json
import re
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lightning_bleu.core.batch import Sentence
from lightning_bleu.observers.record import TranslationFiles


def write_translations(
    sentences: Sequence[Sentence], folder: Path, step: int, *, taken: Sequence[Path] = (), **columns: Any
) -> bool:
    """Write the files of a loader, and return whether those of other steps no longer match the references."""
    with TranslationFiles(folder.parent) as files:
        files.add(sentences, folder, step, **columns)
        files.place(taken)
        return files.replace_shared() == [folder]


def read_files(folder: Path) -> dict[str, bytes]:
    """All files below a folder by path, without temporary ones."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}
    return {
        name: _without_ids(content) if name.endswith("scores.jsonl") else content for name, content in files.items()
    }


def _without_ids(lines: bytes) -> bytes:
    """Lines of a record without the ids of their validations, which always differ."""
    return re.sub(rb'"validation": "\w+"', b'"validation": "id"', lines)


def read_scores(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of scores."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]


@contextlib.contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Within this context, files cannot grow beyond a number of bytes, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
