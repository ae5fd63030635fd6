"""A plugin for pytest: the CPU time of each test, with all processes that it starts, and a budget for it.

Seconds are those of an idle machine: a fixed loop is timed in each process that runs tests, because a busy machine
needs more CPU time for the same work. Imports, and fixtures that several tests share, are rows of their own. What the
environment variable CPU_PROFILE names is a file for the seconds of all tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

BUDGET = 1.5
"""The number of CPU seconds of a test. One that needs more is `long`, or guards a promise."""
SHARED_LIMIT = 8.0
"""The number of CPU seconds of an import, and of a fixture that several tests share."""
MAX_PROMISES = 25
ADVICE = (
    "Mark it `long`, let it start or train less, share what it makes with a module fixture, or, if it alone guards an "
    "invariant of ARCHITECTURE.md in processes, mark it `promise`; see CONTRIBUTING.md."
)

_IDLE_LOOP = 0.053
"""CPU seconds of :func:`_time_loop` on an idle machine where the tests of commit 210c136 take 226 s."""
_SHOWN = 10


def cpu_seconds() -> float:
    """The CPU seconds so far of this process and of its descendants."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system + _of_children(os.getpid())


def _of_children(pid: int) -> float:
    """The CPU seconds of living descendants, and of those they have waited for. Only Linux shows them."""
    ticks, seconds = os.sysconf("SC_CLK_TCK"), 0.0
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a process or a thread may have ended
            for child in path.read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(map(int, fields[11:15])) / ticks + _of_children(int(child))
    return seconds


def _time_loop() -> float:
    start = time.process_time()
    table: dict[int, int] = {}
    for number in range(400_000):
        table[number % 1000] = table.get(number % 997, 0) + number
    return time.process_time() - start


class Budget:
    """Measures the tests of a process, or collects what the workers of xdist have measured.

    Attributes:
        tests: CPU seconds of each test, without what it shares.
        shared: CPU seconds of each import, and of each fixture of a module or of the session.
        promises: the tests that guard a promise.
        budget, shared_limit: how many CPU seconds a test and such a row may need.
        fails: whether a test that needs twice its budget fails.
        slowness: how many times the CPU time of an idle machine a test needs here.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.budget, self.shared_limit = BUDGET, SHARED_LIMIT
        self.fails = bool(os.environ.get("CI"))
        self.tests: dict[str, float] = {}
        self.shared: defaultdict[str, float] = defaultdict(float)
        self.promises: set[str] = set()
        self.slowness: list[float] = []
        self._depth = 0
        self._start = 0.0

    def share(self, name: str) -> Any:
        """A context whose CPU time is that of a row of its own, unless it is part of another one."""
        return contextlib.nullcontext() if self._depth else self._measure(name)

    @contextlib.contextmanager
    def _measure(self, name: str, clock: Callable[[], float] = cpu_seconds) -> Iterator[None]:
        self._depth += 1
        start = clock()
        try:
            yield
        finally:
            self._depth -= 1
            spent = clock() - start
            self.shared[name] += spent
            self._start += spent

    def watch_imports(self) -> Callable[[], None]:
        """Measure imports inside tests; the returned function ends it."""
        bootstrap: Any = importlib._bootstrap
        find_and_load = bootstrap._find_and_load

        def find(name: str, import_: Any) -> Any:
            if self._depth:
                return find_and_load(name, import_)
            with self._measure(f"import of {name.partition('.')[0]}", time.process_time):  # others may be at work
                return find_and_load(name, import_)

        bootstrap._find_and_load = find
        return lambda: setattr(bootstrap, "_find_and_load", find_and_load)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        with self.share(f"collection of {collector.nodeid}") if isinstance(collector, pytest.Module) else _nothing():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        is_shared = fixturedef.scope != "function"
        with self.share(f"fixture {fixturedef.argname} {fixturedef.baseid}") if is_shared else _nothing():
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item.get_closest_marker("promise") for item in items}
        self.promises = {name for name, marker in found.items() if marker}
        invariants = Counter(marker.args[0] for marker in found.values() if marker)
        repeated = [invariant for invariant, count in invariants.items() if count > 1]
        if repeated or len(invariants) > MAX_PROMISES:
            raise pytest.UsageError(f"At most {MAX_PROMISES} promises, and one test for each: {repeated or invariants}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        if hasattr(self.config, "workerinput") or not self.config.getoption("numprocesses", None):
            self.slowness.append(_time_loop() / _IDLE_LOOP)
        unwatch = self.watch_imports()
        try:
            return (yield)
        finally:
            unwatch()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._start = cpu_seconds()
        result = yield
        self.tests[item.nodeid] = cpu_seconds() - self._start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        result = yield
        if self.fails and not (item.get_closest_marker("long") or item.get_closest_marker("promise")):
            spent = cpu_seconds() - self._start
            # The loop is timed again, in case the machine has become busy.
            limit = 2 * self.budget * max(1.0, *self.slowness)
            if spent > limit and spent > 2 * self.budget * _time_loop() / _IDLE_LOOP:
                pytest.fail(f"This test needs {spent:.1f} CPU seconds, and has {self.budget}. {ADVICE}", pytrace=False)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            rows = (dict(self.tests), dict(self.shared), sorted(self.promises), self.slowness)
            self.config.workeroutput["budget"] = json.dumps(rows)
        elif self.fails and any(seconds > 2 * self.shared_limit for _, seconds in self._rows(self.shared)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker of xdist has measured."""
        tests, shared, promises, slowness = json.loads(getattr(node, "workeroutput", {}).get("budget", "[{},{},[],[]]"))
        self.tests |= tests
        for name, seconds in shared.items():  # each worker imports
            self.shared[f"{name} in {node.gateway.id}"] += seconds
        self.promises |= {*promises}
        self.slowness += slowness

    def _rows(self, rows: dict[str, float]) -> list[tuple[str, float]]:
        """The rows in seconds of an idle machine, the most expensive first."""
        slowness = max(1.0, sum(self.slowness) / max(1, len(self.slowness)))
        return sorted(((name, seconds / slowness) for name, seconds in rows.items()), key=lambda row: -row[1])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        tests, shared = self._rows(self.tests), self._rows(self.shared)
        if path := os.environ.get("CPU_PROFILE"):
            Path(path).write_text(json.dumps({"tests": tests, "shared": shared, "slowness": self.slowness}))
        if not self.tests:
            return
        own = [(name, seconds) for name, seconds in tests if name not in self.promises]
        guards = sum(seconds for name, seconds in tests if name in self.promises)
        times = ", ".join(f"{slowness:.1f}" for slowness in self.slowness)
        terminalreporter.section(f"CPU seconds of an idle machine; here a loop takes {times} times as long")
        large = [(name, seconds) for name, seconds in shared if seconds > 1]
        for rows, limit in ((own, self.budget), (large, self.shared_limit)):
            for name, seconds in rows[:_SHOWN]:
                terminalreporter.write_line(f"{seconds:6.2f} {name}{f' (limit {limit})' if seconds > limit else ''}")
        parts = {"tests": sum(seconds for _, seconds in own), f"{len(self.promises)} tests of promises": guards}
        parts["imports and shared fixtures"] = sum(seconds for _, seconds in shared)
        terminalreporter.write_line(", ".join(f"{name} {seconds:.1f}" for name, seconds in parts.items()))


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budget(config), "budget")
