"""Fuzz until the time is up: ``python -m tests.fuzz --seconds 60``."""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from tests.fuzz.targets import TARGETS, TURNS, prepare, run

if TYPE_CHECKING:
    from tests.fuzz.rounds import Round


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print a table, and return 1 after a failure, or if there was no time for a single input."""
    start = time.time()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz until the time is up.")
    parser.add_argument("--seconds", type=float, default=60, help="how long to fuzz (60)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many processes (all cores)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the seed (random)")
    parser.add_argument("--target", choices=TARGETS, help="fuzz this target only")
    parser.add_argument("--round", type=int, help="run this round of --target only, to reproduce a failure")
    options = parser.parse_args(arguments)
    turns = [options.target] if options.target else TURNS
    if options.round is None:
        print(f"Fuzzing for {options.seconds:g} seconds with seed {options.seed}", flush=True)
        rounds = _run_rounds(turns, options.seed, options.processes, options.seconds)
    elif options.target is None:
        parser.error("--round needs --target")
    else:
        prepare()
        rounds = iter([(options.target, options.round, run(options.target, options.seed, options.round, math.inf))])
    inputs, sentences, failures = Counter[str](), Counter[str](), 0
    for name, number, done in rounds:
        inputs[name] += done.inputs
        sentences[name] += done.sentences
        if done.failure is not None:
            failures += 1
            print(f"\n{name} failed:\n\n{done.failure}\n")
            print(f"Reproduce it with: {_command(name, number, options.seed)}\n", flush=True)
    for name in dict.fromkeys(turns):
        print(f"{name:<10}{inputs[name]:>12,} inputs{sentences[name]:>14,} sentences")
    print(f"{inputs.total():,} inputs in {time.time() - start:.0f} seconds, seed {options.seed}")
    return int(failures > 0 or not inputs.total())


def _run_rounds(turns: Sequence[str], seed: int, processes: int, seconds: float) -> Iterator[tuple[str, int, Round]]:
    """Run rounds in several processes until the time is up or one fails: the target, the number, and the result."""
    # A server that has imported everything once forks the processes.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"tests.fuzz.{name}" for name in TARGETS])
    with ProcessPoolExecutor(processes, context, initializer=prepare) as pool:
        pool.submit(int).result()  # imports take time that is not for fuzzing
        deadline = time.time() + seconds
        waiting, failed = enumerate(itertools.cycle(turns)), False
        running: dict[Future[Round], tuple[str, int]] = {}
        while True:
            while len(running) < processes and not failed and time.time() < deadline:
                number, name = next(waiting)
                running[pool.submit(run, name, seed, number, deadline)] = name, number
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    done = future.result()
                except BrokenProcessPool:
                    commands = [_command(*turn, seed) for turn in running.values()]
                    print("A process ended, perhaps in:", *commands, sep="\n", flush=True)
                    raise
                failed = failed or done.failure is not None
                yield (*running.pop(future), done)


def _command(name: str, number: int, seed: int) -> str:
    return f"python -m tests.fuzz --seed {seed} --target {name} --round {number}"


if __name__ == "__main__":
    sys.exit(main())
