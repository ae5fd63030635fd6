"""What a developer reads about skipped tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_summary_has_one_line_for_each_reason() -> None:
    command = [sys.executable, "-m", "pytest", "tests/test_gpu.py", "-p", "no:cacheprovider"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    *_, reason, total = done.stdout.splitlines()
    skipped = re.search(r"(\d+) skipped", total)
    assert skipped is not None
    assert reason.split() == [skipped[1], "skipped:", "needs", "a", "CUDA", "device"]
