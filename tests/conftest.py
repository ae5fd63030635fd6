"""Hooks: the order of the tests, which of them are skipped where, and what is imported for them.

Fixtures are in ``helpers/fixtures.py``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

from tests.helpers.warnings import IGNORED_WARNINGS

collect_ignore_glob = ["typing/*"]
"""Calls for type checkers, which `make lint` checks; nothing runs them."""

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["WANDB_MODE"] = "offline"  # whatever an earlier test has told W&B


def pytest_configure(config: pytest.Config) -> None:
    for warning in IGNORED_WARNINGS:
        config.addinivalue_line("filterwarnings", warning)
    config.pluginmanager.import_plugin("tests.helpers.budget")
    # The process that only deals tests out to the workers of xdist does without torch, whose import takes seconds.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("tests.helpers.fixtures")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Examples in docstrings are those of the package: helpers are not imported to look for some."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch  # slow to import

    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
    # A worker takes a whole file at a time, so those that take long come first: with slow tests, or with many.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -count[item.path], item.path))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason why tests were skipped, and how many it concerns."""
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4} skipped: {reason.removeprefix('Skipped: ')}")
