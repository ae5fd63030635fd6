"""The turns of benchmarks/versions.py: what a case is, and the processes in which it is measured."""

from __future__ import annotations

import gc
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

TURN = 0.1
"""Seconds that a turn lasts at least."""

_clock: Callable[[], float] = time.perf_counter


def clock() -> float:
    """The seconds on the clock that cases are timed with."""
    return _clock()


def use_cpu_time() -> None:
    """Time what this process computes, and not how long it waits, for example for other processes."""
    global _clock
    _clock = time.process_time


class Measurement(NamedTuple):
    """What was measured.

    Attributes:
        numbers: a number for each unit of the case; less is better.
        results: counts or scores, which must be those of the other version.
    """

    numbers: list[float]
    results: Any


Pass = Callable[[], Measurement]
"""Counts or validates all sentences of a case once."""


class Heading(NamedTuple):
    """What a case is called.

    Attributes:
        name: a name.
        units: what its numbers are, such as ``"µs per sentence"``.
        turns: the number of turns of each version.
    """

    name: str
    units: list[str]
    turns: int = 15


class Case(NamedTuple):
    """What is measured.

    Attributes:
        heading: what it is called.
        prepare: prepares the passes of a process, and returns what makes one. It gets an empty folder.
        is_fresh: whether each turn is the only pass of a process.
    """

    heading: Heading
    prepare: Callable[[Path], Pass]
    is_fresh: bool = False


class CaseProcess:
    """A process that takes turns of one case.

    It is a fork of this process, which has imported everything, but has counted nothing. So the caches of the package
    are empty, whatever they are and wherever a version keeps them. To clear them, or to import the package in a new
    process for each turn, would need private names, or seconds.

    Args:
        case: the case.
    """

    def __init__(self, case: Case) -> None:
        fork = multiprocessing.get_context("fork")
        self.case = case
        self._connection, other = fork.Pipe()
        self._process = fork.Process(target=_serve, args=(case, other), daemon=True)
        self._process.start()
        other.close()  # so that a failure of the process ends the wait for its turn

    def turn(self) -> Measurement:
        """Take a turn."""
        self._connection.send(True)
        measurement: Measurement = self._connection.recv()
        return measurement

    def end(self) -> None:
        """End the process."""
        self._connection.send(False)
        self._process.join()


def _serve(case: Case, connection: Connection) -> None:
    """Take a turn whenever one is asked for."""
    sys.stdout = sys.stderr  # what a Trainer prints is not an answer
    with tempfile.TemporaryDirectory() as folder:
        make_pass = case.prepare(Path(folder))
        gc.collect()
        gc.freeze()
        while connection.recv():
            connection.send(make_pass() if case.is_fresh else _median(make_pass))


def _median(make_pass: Pass) -> Measurement:
    """The medians of what the passes of a turn measure."""
    gc.collect()
    passes = []
    start = time.perf_counter()
    while time.perf_counter() - start < TURN:
        passes.append(make_pass())
    numbers = zip(*(measurement.numbers for measurement in passes))
    return Measurement([*map(statistics.median, numbers)], passes[-1].results)


def answer_turns(cases: Sequence[Case]) -> None:
    """Print the cases. Then take a turn of each case whose number is read, and print what it measures."""
    _answer([case.heading for case in cases])
    gc.freeze()  # else garbage collection would write to the memory of all objects, and each fork would copy it
    process: CaseProcess | None = None
    for line in sys.stdin:
        case = cases[int(line)]
        if process is not None and (process.case is not case or case.is_fresh):
            process.end()
            process = None
        if process is None:
            process = CaseProcess(case)
        _answer(process.turn())
    if process is not None:
        process.end()


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)
