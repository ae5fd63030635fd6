"""Fuzz until the time is up: ``python -m tests.fuzz --seconds 60``."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.targets import SHARES, prepare, run

if TYPE_CHECKING:
    from tests.fuzz.rounds import Round

_ROUND_SECONDS = 1.0
"""About how long a round takes."""
_REPORT_SECONDS = 30
"""How often the progress is printed."""


@dataclass
class Totals:
    """What was done for a target.

    Attributes:
        started: the number of rounds that were started.
        seconds: the time of its rounds.
        inputs: the number of inputs that were checked.
        sentences: the number of their sentences.
        failures: the number of rounds that ended with a failure.
    """

    started: int = 0
    seconds: float = 0.0
    inputs: int = 0
    sentences: int = 0
    failures: int = 0

    def add(self, round_: Round) -> None:
        """Add the result of a round."""
        self.seconds += round_.seconds
        self.inputs += round_.inputs
        self.sentences += round_.sentences
        self.failures += round_.failure is not None


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print a table, and return 1 after a failure, or if there was no time for a single input."""
    start = time.time()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz until the time is up.")
    parser.add_argument("--seconds", type=float, default=60, help="how long to fuzz (60)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many processes (all cores)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the seed (random)")
    parser.add_argument("--target", choices=[*SHARES], help="fuzz this target only")
    parser.add_argument("--round", type=int, help="run this round of --target only, to reproduce a failure")
    options = parser.parse_args(arguments)
    names = [options.target] if options.target else [*SHARES]
    totals = {name: Totals() for name in names}
    if options.round is None:
        print(f"Fuzzing {', '.join(names)} for {options.seconds:g} seconds with seed {options.seed}", flush=True)
        _run_rounds(totals, options.seed, options.processes, options.seconds)
    elif options.target is None:
        parser.error("--round needs --target")
    else:
        prepare()
        totals[options.target].started = 1
        round_ = run(options.target, options.seed, options.round, math.inf)
        _finish(options.target, options.round, round_, totals, options.seed)
    print(format_table(totals))
    total = sum(each.inputs for each in totals.values())
    print(f"{total:,} inputs in {time.time() - start:.0f} seconds, seed {options.seed}")
    return int(total == 0 or any(each.failures for each in totals.values()))


def _run_rounds(totals: dict[str, Totals], seed: int, processes: int, seconds: float) -> None:
    """Run rounds in several processes until the time is up or one fails."""
    # A server that has imported everything once forks the processes.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"tests.fuzz.{name}" for name in SHARES])
    with ProcessPoolExecutor(processes, context, initializer=prepare) as pool:
        pool.submit(int).result()  # imports take time that is not for fuzzing
        start = reported = time.time()
        deadline = start + seconds
        running: dict[Future[Round], tuple[str, int]] = {}
        while True:
            failed = any(each.failures for each in totals.values())
            while len(running) < processes and not failed and time.time() < deadline:
                name = min(totals, key=lambda name: _time_spent(totals[name], name, running) / SHARES[name])
                number = totals[name].started
                running[pool.submit(run, name, seed, number, deadline)] = name, number
                totals[name].started += 1
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name, number = running[future]
                try:
                    _finish(name, number, future.result(), totals, seed)
                except BrokenProcessPool:
                    for name, number in running.values():
                        print(f"A process ended, perhaps in: {_command(name, number, seed)}", flush=True)
                    raise
                del running[future]
            if time.time() - reported > _REPORT_SECONDS:
                reported = time.time()
                print(f"{reported - start:.0f} s: {sum(each.inputs for each in totals.values()):,} inputs", flush=True)


def _time_spent(totals: Totals, name: str, running: dict[Future[Round], tuple[str, int]]) -> float:
    """The time of a target, with an estimate for its rounds that are running."""
    return totals.seconds + _ROUND_SECONDS * sum(name == running_name for running_name, _ in running.values())


def _finish(name: str, number: int, round_: Round, totals: dict[str, Totals], seed: int) -> None:
    """Add a round to the totals, and print its failure."""
    totals[name].add(round_)
    if round_.failure is not None:
        print(f"\n{name} failed:\n\n{round_.failure}\n")
        print(f"Reproduce it with: {_command(name, number, seed)}\n", flush=True)


def _command(name: str, number: int, seed: int) -> str:
    return f"python -m tests.fuzz --seed {seed} --target {name} --round {number}"


def format_table(totals: dict[str, Totals]) -> str:
    """A row for each target, and the sums."""
    everything = Totals(*map(sum, zip(*(vars(each).values() for each in totals.values()))))
    lines = [f"{'target':<10}{'rounds':>10}{'inputs':>12}{'sentences':>14}{'inputs/s':>11}{'failures':>10}"]
    for name, each in {**totals, "total": everything}.items():
        speed = each.inputs / each.seconds if each.seconds else 0.0
        lines.append(
            f"{name:<10}{each.started:>10,}{each.inputs:>12,}{each.sentences:>14,}{speed:>11,.0f}{each.failures:>10,}"
        )
    return "\n".join([*lines, "(inputs/s is per process)"])


if __name__ == "__main__":
    sys.exit(main())
