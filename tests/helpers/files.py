"""What an evaluator has written to a folder, and a disk that is full."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_files(folder: Path) -> dict[str, bytes]:
    """All files below a folder by path, without hidden ones."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


def read_validations(run: Path) -> list[dict[str, Any]]:
    """The scores of each validation, in the order of the paths."""
    return [json.loads(path.read_text()) for path in sorted(run.rglob("step-*/scores.json"))]


def read_scores(run: Path) -> list[dict[str, Any]]:
    """Each score of each validation, with the step and the epoch."""
    return [
        {"stage": validation["stage"], "step": validation["step"], "epoch": validation["epoch"]} | score
        for validation in read_validations(run)
        for score in validation["scores"]
    ]


def read_sentences(folder: Path) -> list[dict[str, Any]]:
    """The sentences of a loader."""
    return [json.loads(line) for line in (folder / "sentences.jsonl").read_text().splitlines()]


@contextlib.contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Within this context, files cannot grow beyond a number of bytes, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
