"""Fixtures of all tests, and what is set before the first of them. The process that deals out tests does without."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.helpers.corpora import DATA
from tests.helpers.metrics import KINDS, Kind
from tests.helpers.process_groups import ProcessPool, start_fork_server

# One thread per process: with one worker per core, threads wait for each other.
torch.set_num_threads(1)

settings.register_profile("default", deadline=None)  # the first example of a test may wait for an import
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Prepare the server that forks the processes of tests, before a test has started a thread."""
    if sys.platform == "linux":
        for name in _find_imports(session.items):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        capture: Any = session.config.pluginmanager.getplugin("capturemanager")
        capture.resume_global_capture()  # what processes print belongs to their test
        start_fork_server()
        capture.suspend_global_capture()
    else:  # forking is not safe, so a server imports what the tests of processes need
        multiprocessing.set_forkserver_preload(["transformers.trainer_seq2seq"])


def _find_imports(items: list[pytest.Item]) -> list[str]:
    """The modules that each process of these tests would import otherwise."""
    if any(item.path.parent.name == "hugging_face" for item in items):
        return ["transformers.trainer_seq2seq", "transformers.models.llama.modeling_llama"]
    return []


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


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPool]:
    """Up to three processes that wait for work."""
    pool = ProcessPool(3)
    yield pool
    pool.close()


def _folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs {name} text in {DATA}, which is not part of the repository")
    return DATA / name
