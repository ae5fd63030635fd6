"""Every code block of the README runs."""

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


def test_there_is_nothing_but_code_and_commands() -> None:
    assert {kind for kind, _ in BLOCKS} == {"python", "sh"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_python_blocks_run_one_after_the_other() -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, "README.md", "exec"), names)


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


def test_links_lead_somewhere() -> None:
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-") for line in README.splitlines()}
    for link in re.findall(r"\]\(([^)]+)\)", README):
        if link.startswith("#"):
            assert link[1:] in headings
        elif not link.startswith("https://"):
            assert (ROOT / link).exists()
