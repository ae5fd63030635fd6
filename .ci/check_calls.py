"""Check that mypy and pyright accept the right calls in tests/typing, and reject each wrong one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RIGHT, WRONG = ROOT / "tests/typing/right_calls.py", ROOT / "tests/typing/wrong_calls.py"


def lines_with_errors_of_mypy() -> set[tuple[str, int]]:
    """The names of files, and the lines in which mypy finds errors."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(RIGHT), str(WRONG)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    matches = re.finditer(r"(\w+\.py):(\d+):(?:\d+:)? error", output)
    return {(match[1], int(match[2])) for match in matches}


def lines_with_errors_of_pyright() -> set[tuple[str, int]]:
    """The names of files, and the lines in which pyright finds errors."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable]
    output = subprocess.run([*command, str(RIGHT), str(WRONG)], cwd=ROOT, capture_output=True, text=True).stdout
    diagnostics = json.loads(output)["generalDiagnostics"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in diagnostics}


def expected_lines() -> set[tuple[str, int]]:
    """The lines that are marked as wrong."""
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    return {(WRONG.name, number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def main() -> int:
    """Print what differs. The exit status is 1 if something does."""
    expected = expected_lines()
    status = 0
    for checker, lines in (("mypy", lines_with_errors_of_mypy()), ("pyright", lines_with_errors_of_pyright())):
        for name, number in sorted(expected - lines):
            print(f"{checker} accepts a wrong call: {name}:{number}")
        for name, number in sorted(lines - expected):
            print(f"{checker} rejects a right call: {name}:{number}")
        if lines != expected:
            status = 1
        print(f"{checker}: {len(lines & expected)} of {len(expected)} wrong calls are rejected")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
