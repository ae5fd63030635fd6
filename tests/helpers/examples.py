"""Examples run in the process of a test, which has already imported what takes a new process seconds."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example the way that `python examples/NAME.py` finds it and its imports."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module(name)


def run_script(path: Path, *arguments: str) -> None:
    """Run a script as `python PATH ARGUMENTS` does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(path), *arguments])
        patch.syspath_prepend(path.parent)
        runpy.run_path(str(path), run_name="__main__")
