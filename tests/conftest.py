"""Fixtures, the order of the tests, and which of them are skipped where."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.fuzz.targets import TARGETS
from tests.helpers.corpora import DATA
from tests.helpers.metrics import KINDS, Kind
from tests.helpers.process_groups import ProcessPool
from tests.helpers.warnings import IGNORED_WARNINGS

collect_ignore_glob = ["typing/*"]
"""Calls for type checkers, which `make lint` checks; nothing runs them."""

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["WANDB_MODE"] = "offline"  # whatever an earlier test has told W&B

# One thread per process, here and in the processes of tests: with one worker per core, threads wait for each other.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A server that has imported everything once forks the processes of tests, which saves seconds for each of them. It
# imports what the fuzzer needs, which includes Lightning, and the Trainers of Transformers.
multiprocessing.set_forkserver_preload([*(f"tests.fuzz.{name}" for name in TARGETS), "transformers.trainer_seq2seq"])

settings.register_profile("default", deadline=None)  # the first example of a test may wait for an import
settings.load_profile("default")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A metric."""
    return KINDS[request.param]


@pytest.fixture
def make(kind: Kind) -> Callable[..., Any]:
    """Makes a metric that has counted some batches."""

    def make(*batches: Any, **options: Any) -> Any:
        metric = kind.metric(**options)
        for batch in batches:
            metric.update(*batch)
        return metric

    return make


@pytest.fixture
def wmt22() -> Path:
    return _folder("wmt22")


@pytest.fixture
def multi30k() -> Path:
    return _folder("multi30k")


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """Up to three processes that wait for work."""
    pool = ProcessPool(3)
    yield pool
    pool.close()


def _folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs {name} text in {DATA}, which is not part of the repository")
    return DATA / name


def pytest_configure(config: pytest.Config) -> None:
    for warning in IGNORED_WARNINGS:
        config.addinivalue_line("filterwarnings", warning)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
