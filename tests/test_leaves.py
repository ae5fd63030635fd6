"""The leaves can be deleted: what remains has the right types and passes its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAVES = {
    "tasks": "lightning_bleu.tasks",
    "hugging_face": "lightning_bleu.hugging_face",
    "compare": "lightning_bleu.compare",
}
NEIGHBORS = [
    "tests/test_metric.py",
    "tests/test_evaluator.py",
    "tests/evaluation/test_positions.py",
    "tests/evaluation/test_validation.py",
    "tests/observers/test_results.py",
    "lightning_bleu",
]
"""Tests of what would import a leaf by mistake when it runs; mypy reads everything. Those that name the leaf go."""


def users_of(folder: Path, leaf: str) -> Iterator[Path]:
    """The modules of tests, and of benchmarks and examples, that import a leaf, also through another one."""
    paths = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    names = {leaf}
    while True:
        found = {
            path for path, text in paths.items() if any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)
        }
        more = {f"tests.helpers.{path.stem}" for path in found if path.parent.name == "helpers"} - names
        if not more:
            return iter(found)
        names |= more


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy knows of the packages that all leaves leave."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("leaf", LEAVES)
def test_what_remains_without_a_leaf_has_the_right_types_and_passes_its_tests(
    leaf: str, cache: Path, tmp_path: Path
) -> None:
    for name in ("lightning_bleu", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.rmtree(tmp_path / "lightning_bleu" / leaf)
    if leaf == "compare":
        (tmp_path / "lightning_bleu" / "__main__.py").unlink()
    shutil.rmtree(tmp_path / "tests" / leaf, ignore_errors=True)
    for path in users_of(tmp_path / "tests", LEAVES[leaf]):
        path.unlink()
    mypy = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "lightning_bleu"]
    assert subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True).stdout.startswith("Success")
    is_quick = "not slow and not long and not gpu"
    neighbors = [name for name in NEIGHBORS if (tmp_path / name).exists()]
    quick = [sys.executable, "-m", "pytest", "-q", "-m", is_quick, *neighbors]
    done = subprocess.run(quick, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
