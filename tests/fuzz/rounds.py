"""Rounds: some inputs of one target, drawn and shrunk by Hypothesis."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import hypothesis
from hypothesis import HealthCheck, Phase

from lightning_bleu.core.tokens import clear_caches
from tests.fuzz.choices import Choices, blocks

_SHRINK_SECONDS = 60
"""After this time, the smallest input so far is reported."""
_MAX_CHARACTERS = 4_000
"""The length at which the description of an input is cut."""


class Case(Protocol):
    """An input."""

    @property
    def sentence_count(self) -> int:
        """The number of sentences."""

    def check(self) -> None:
        """Raise an error unless the package computes what it should."""

    def describe(self) -> str:
        """The input as code."""


class Target(NamedTuple):
    """What is fuzzed.

    Attributes:
        name: its name on the command line.
        make: makes an input.
        round_size: the number of inputs of a round, which should take about a second.
    """

    name: str
    make: Callable[[Choices], Case]
    round_size: int


class Round(NamedTuple):
    """The result of a round.

    Attributes:
        inputs: the number of inputs until the first failure or the end of the time.
        sentences: the number of their sentences.
        seconds: how long the round took.
        failure: the smallest input that fails, and how.
    """

    inputs: int
    sentences: int
    seconds: float
    failure: str | None = None


class _Stop(BaseException):
    """Stops a round. Hypothesis takes any other exception for a failure."""


class _Checker:
    """Checks inputs, counts them, and describes the smallest one that fails."""

    def __init__(self, target: Target, deadline: float) -> None:
        self.inputs = self.sentences = 0
        self.failure: str | None = None
        self._target = target
        self._deadline = deadline

    def __call__(self, block: bytes) -> None:
        if time.time() > self._deadline:
            raise _Stop
        case: Case | None = None
        try:
            case = self._target.make(Choices(block))
            case.check()
        except Exception as error:
            first, self.failure = self.failure is None, _describe(case, error)
            if first:
                self._deadline = time.time() + _SHRINK_SECONDS
            raise
        if self.failure is None:
            self.inputs += 1
            self.sentences += case.sentence_count


def run_round(
    target: Target, seed: int, number: int, *, inputs: int | None = None, deadline: float = math.inf
) -> Round:
    """Check random inputs until one fails or the time is up.

    Args:
        target: what to fuzz.
        seed: the seed of all rounds.
        number: the number of the round. The same target, seed, and number give the same inputs.
        inputs: the number of inputs; ``target.round_size`` when None.
        deadline: when to stop, in seconds since the epoch.
    """
    start = time.time()
    digest = hashlib.blake2b(f"{seed} {target.name} {number}".encode(), digest_size=8).digest()
    checker = _Checker(target, deadline)
    clear_caches()

    @hypothesis.seed(int.from_bytes(digest, "big"))
    @hypothesis.settings(
        max_examples=target.round_size if inputs is None else inputs,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(blocks)
    def check(block: bytes) -> None:
        checker(block)

    try:
        check()
    except _Stop:
        pass
    except Exception:
        if checker.failure is None:
            raise  # not from an input
    return Round(checker.inputs, checker.sentences, time.time() - start, checker.failure)


def _describe(case: Case | None, error: Exception) -> str:
    code = "The input could not be made." if case is None else case.describe()
    if len(code) > _MAX_CHARACTERS:
        code = f"{code[:_MAX_CHARACTERS]} ... ({len(code):,} characters)"
    if isinstance(error, Mismatch):
        return f"{code}\n{error}"
    return code + "\n" + "".join(traceback.format_exception(error, limit=-8)).rstrip()


class Mismatch(AssertionError):
    """The package computes something else than it should."""


def compare(name: str, found: Any, expected: Any) -> None:
    """Raise a :class:`Mismatch` unless two values are equal; of two lists, show the first items that differ."""
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        index = next(i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1])
        name, found, expected = f"{name}[{index}]", found[index], expected[index]
    raise Mismatch(f"{name}:\n  found    {found}\n  expected {expected}")


def compare_floats(name: str, found: list[float], expected: list[float], tolerance: float = 1e-9) -> None:
    """Raise a :class:`Mismatch` unless two lists of numbers are almost equal."""
    close = [math.isclose(*pair, rel_tol=tolerance, abs_tol=tolerance) for pair in zip(found, expected)]
    if len(found) != len(expected) or not all(close):
        raise Mismatch(f"{name}:\n  found    {found}\n  expected {expected}")
