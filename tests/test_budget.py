"""The budget of CPU time that each test has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import budget

TESTS = """
import subprocess
import sys
import time
import pytest

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@pytest.fixture(scope="module")
def shared():
    burn(0.12)

def test_shares(shared):
    pass

def test_starts_a_process():
    subprocess.run([sys.executable, "-S", "-c", "while __import__('time').process_time() < 0.12: pass"])

@pytest.mark.promise("1: sums")
def test_promise():
    burn(0.12)

@pytest.mark.long
def test_long():
    burn(0.12)
"""


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Runs tests with a budget of 50 ms."""
    monkeypatch.setattr(budget, "BUDGET", 0.05)
    monkeypatch.setattr(budget, "SHARED_LIMIT", 0.05)
    monkeypatch.setattr(budget, "_IDLE_LOOP", 1.0)  # as on a fast machine
    monkeypatch.setenv("CI", "true")
    pytester.makeini("[pytest]\nmarkers =\n    long: long\n    promise(invariant): a promise")
    return pytester


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "-p", "tests.helpers.budget", *arguments)


def test_a_test_above_twice_the_budget_fails_with_advice(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the processes that it starts. Long tests, promises, and what several tests share are no part of it."""
    monkeypatch.setenv("CPU_PROFILE", str(tmp_path / "profile.json"))
    done = run(pytester, TESTS)
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(
        ["This test needs 0.* CPU seconds, and has 0.05. Mark it `long`, *", "*1 tests of promises*"]
    )
    profile = json.loads((tmp_path / "profile.json").read_text())
    seconds = {name.rpartition("::")[2]: used > 0.04 for name, used in profile["tests"]}
    assert seconds == {"test_shares": False, "test_starts_a_process": True, "test_promise": True, "test_long": True}
    assert profile["shared"][0][0].startswith("fixture shared ")


def test_what_tests_share_has_a_limit_of_its_own(pytester: pytest.Pytester) -> None:
    done = run(pytester, TESTS, "-k", "test_shares")
    done.assert_outcomes(passed=1)
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_each_promise_has_one_test(pytester: pytest.Pytester) -> None:
    done = run(pytester, TESTS + "\n@pytest.mark.promise('1: sums')\ndef test_again():\n    pass\n")
    done.stderr.fnmatch_lines(["*At most 25 promises, and one test for each: *1: sums*"])
