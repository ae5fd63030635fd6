"""Time this version of the package beside another: `python benchmarks/versions.py FOLDER [--data FOLDER]`.

The first folder is a checkout of the other version. Each version runs in a process of its own, and both take turns, so
a machine that is busy now and then slows both down alike. The median of the ratios counts, and both versions must have
the same results.

The cases are in `counting_cases.py`, `validation_cases.py`, and `memory_cases.py`. They use public names only, so that
the same code runs with both versions. All of them take about five minutes on two cores, and with `--quick`, two.
On a machine that is always busy, measure with `--cpu-time`.

The exit status is 1 if a ratio is below `--at-least`, 0.95 by default: this version is slower in that case, or it needs
more memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from turns import Heading, answer_turns, use_cpu_time

ROOT = Path(__file__).parents[1]
PAIRS = 3
"""Pairs of workers, which take turns too: where things are in its memory can make a process some percent faster."""
ROUNDS = 3
"""How often a case takes its turns, if this version seems to be worse."""


class Version:
    """A worker: a process with a version of the package.

    Args:
        folder: a checkout of the version.
        options: more arguments of the worker.
    """

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        # Sets of words have the same order in both workers.
        environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, str(folder), *options, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def answer(self) -> Any:
        """What the worker prints next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a worker failed")
        return json.loads(line)

    def turn(self, number: int) -> tuple[list[float], Any]:
        """The numbers and the results of a turn of a case."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        numbers, results = self.answer()
        return numbers, results

    def end(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def work(folder: Path, data: Path | None, cpu_time: bool) -> None:
    """What a worker does."""
    # Imported here, because the main process has no version of the package.
    import torch
    from counting_cases import counting_cases
    from memory_cases import memory_cases
    from validation_cases import validation_cases

    import lightning_bleu

    if Path(lightning_bleu.__file__).parents[1] != folder.resolve():
        raise SystemExit(f"there is no package lightning_bleu in {folder}")
    torch.set_num_threads(1)
    if cpu_time:
        use_cpu_time()
    answer_turns([*counting_cases(data), *validation_cases(data), *memory_cases(data)])


Pair: TypeAlias = tuple[Version, Version]
"""The other version and this one."""
Turn: TypeAlias = tuple[list[float], list[float]]
"""The numbers of the other version, and those of this one."""


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        name: the name of the case.
        unit: what its numbers are.
        before: the number of the other version.
        now: that of this version.
        ratio: how many times as good this version is.
    """

    name: str
    unit: str
    before: float
    now: float
    ratio: float

    def __str__(self) -> str:
        return f"| {self.name} | {self.unit} | {self.before:.2f} | {self.now:.2f} | {self.ratio:.2f} |"


def measured_rows(pairs: Sequence[Pair], number: int, heading: Heading, at_least: float) -> list[Row]:
    """The rows of a case, one for each unit. If a ratio is too low, there are more turns, and all of them count."""
    turns: list[Turn] = []
    rows: list[Row] = []
    for _ in range(ROUNDS):
        turns += take_turns(pairs, number, heading)
        rows = make_rows(heading, turns)
        if all(row.ratio >= at_least for row in rows):
            break
    return rows


def take_turns(pairs: Sequence[Pair], number: int, heading: Heading) -> Iterator[Turn]:
    """Let both versions take turns, in all pairs."""
    for other, this in itertools.islice(itertools.cycle(pairs), heading.turns):
        before, expected = other.turn(number)
        now, results = this.turn(number)
        if results != expected:
            raise SystemExit(f"{heading.name}: the versions have different results")
        yield before, now


def make_rows(heading: Heading, turns: Sequence[Turn]) -> list[Row]:
    """The medians of the numbers of turns, and those of their ratios."""
    rows = []
    for index, unit in enumerate(heading.units):
        before = [numbers[index] for numbers, _ in turns]
        now = [numbers[index] for _, numbers in turns]
        ratio = statistics.median(old / new for old, new in zip(before, now))
        rows.append(Row(heading.name, unit, statistics.median(before), statistics.median(now), ratio))
    return rows


def main() -> int:
    """Print a table of times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of the other version")
    parser.add_argument("--data", type=Path, help="a folder with WMT22 and Multi30k text")
    parser.add_argument("--only", default="", help="only cases whose name begins with this")
    parser.add_argument("--at-least", type=float, default=0.95, help="the lowest ratio allowed (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer turns: a third of them, and a single pair")
    parser.add_argument("--cpu-time", action="store_true", help="do not count waiting, if the machine is always busy")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.folder, args.data, args.cpu_time)
        return 0
    options = [] if args.data is None else ["--data", str(args.data)]
    options += ["--cpu-time"] if args.cpu_time else []
    count = 1 if args.quick else PAIRS
    pairs = [(Version(args.folder, options), Version(ROOT, options)) for _ in range(count)]
    answers = [version.answer() for version in itertools.chain(*pairs)]
    headings = [Heading(*fields) for fields in answers[0]]  # all have the same cases
    print("| case | unit | before | now | before / now |\n| --- | --- | ---: | ---: | ---: |")
    worse = []
    for number, heading in enumerate(headings):
        if not heading.name.startswith(args.only):
            continue
        if args.quick:
            heading = heading._replace(turns=heading.turns // 3)
        for row in measured_rows(pairs, number, heading, args.at_least):
            print(row, flush=True)
            if row.ratio < args.at_least:
                worse.append(f"{row.name}, {row.unit}")
    for version in itertools.chain(*pairs):
        version.end()
    if worse:
        print(f"less than {args.at_least:g} times as good: {'; '.join(worse)}")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
