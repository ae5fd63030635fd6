"""Every code block of the README runs, and every link of the documents leads somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]


def test_all_blocks_are_python_or_shell() -> None:
    assert {kind for kind, _ in BLOCKS} == {"python", "sh"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_python_blocks_run_in_order() -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, "README.md", "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command: str) -> None:
    """Each as far as it goes without doing the work."""
    program, *arguments = shlex.split(command)
    if program == "make":
        run = ["make", "--dry-run", *arguments]
    elif program == "pip":
        run = [sys.executable, "-m", "pip", *arguments, "--dry-run", "--no-deps", "--no-build-isolation", "--quiet"]
    else:
        assert program == "tensorboard"
        run = [sys.executable, "-m", "tensorboard.main", *arguments, "--version_tb"]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("document", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-") for line in text.splitlines()}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("#"):
            assert link[1:] in headings
        elif not link.startswith("https://"):
            assert (ROOT / link).exists()


def test_the_architecture_names_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for path in (ROOT / "lightning_bleu").rglob("*.py"):
        if path.stem not in ("__init__", "version"):
            assert re.search(rf"\b{path.stem}\b", text), path
