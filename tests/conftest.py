"""Fixtures, and which tests are skipped where."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.helpers.corpora import DATA
from tests.helpers.process_groups import ProcessPool

os.environ.setdefault("MPLBACKEND", "Agg")

# A server that has imported everything once forks the processes of tests, which saves seconds for each of them.
multiprocessing.set_forkserver_preload(["tests.helpers.lightning"])

settings.register_profile("default", deadline=None)  # the first example of a test may wait for an import
settings.load_profile("default")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20)


@pytest.fixture
def wmt22() -> Path:
    return _folder("wmt22")


@pytest.fixture
def multi30k() -> Path:
    return _folder("multi30k")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """Two processes that wait for work."""
    pool = ProcessPool(2)
    yield pool
    pool.close()


def _folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs {name} text, which is not part of the repository")
    return DATA / name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason why tests were skipped, and how many it concerns."""
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4} skipped: {reason.removeprefix('Skipped: ')}")
