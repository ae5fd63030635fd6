"""What the callback has written to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_files(folder: Path) -> dict[str, bytes]:
    """All files below a folder by path, without temporary ones."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


def read_scores(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of scores."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]
