"""Time this version of the package beside another: `python benchmarks/versions.py FOLDER [--data FOLDER]`.

The first folder is a checkout of the other version. Each version runs in a process of its own, and both take turns, so
a machine that is busy now and then slows both down alike. The median of the ratios counts, and both versions must count
the same integers.

The exit status is 1 if a ratio is below `--at-least`, 0.95 by default: this version is slower in that case.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from corpora import Corpus, Text, corpus, make_corpus, make_text, read_systems

ROOT = Path(__file__).parents[1]
TURN = 0.1
"""Seconds that a turn lasts at least."""
TURNS = 15
"""Turns of each version, for each case."""


class Case(NamedTuple):
    """What is counted.

    Attributes:
        name: a name.
        corpus: the sentences.
        options: the options of the metric.
    """

    name: str
    corpus: Corpus | Text
    options: dict[str, Any]

    def batches(self) -> list[tuple[Any, Any]]:
        """The arguments of each update."""
        return self.corpus.lines if isinstance(self.corpus, Text) else self.corpus.tensors


def cases(data: Path | None) -> Iterator[Case]:
    """Everything that is timed."""
    for name, references in (("WMT22", 1), ("WMT22", 4), ("Multi30k", 1)):
        whole = corpus(name, data, references)
        for size in (1, 16, 64, 256):
            limit = size * max(4, min(200, 1_024 // size))
            label = f"{whole.name}, references: {references}, batches of {size}"
            yield Case(label, whole.in_batches_of(size, limit), {"pad_id": 0})
    text = read_systems(data, 64)[0] if data else make_text(2_048, 64)
    label = "WMT22 text" if data else "made-up text"
    for references in (1, 2):
        part = Text(text.hypotheses, [group[:references] for group in text.references], 64)
        yield Case(f"{label}, 13a with full caches, references: {references}, batches of 64", part, {})
    generator = np.random.default_rng(0)
    for length, references in ((128, 1), (128, 4), (1_000, 1), (1_000, 4)):
        for size in (16, 64):
            ids = make_corpus("", generator.poisson(length, 4 * size), references, size)
            yield Case(f"{length} tokens, references: {references}, batches of {size}", ids, {"pad_id": 0})
    forty = make_corpus("", np.maximum(4, generator.poisson(40, 256)))
    for order in (1, 2, 3, 5, 6, 9, 20, 40):
        yield Case(f"order {order}", forty, {"pad_id": 0, "max_order": order})
    for references in (30, 300):
        yield Case(f"references: {references}", make_corpus("", [28] * 8, references, 2), {"pad_id": 0})


def work(data: Path | None) -> None:
    """The worker: count the batches of the case whose number is read, and print the seconds and the statistics."""
    from lightning_bleu import CorpusBLEU

    torch.set_num_threads(1)
    all_cases = list(cases(data))
    for line in sys.stdin:
        case = all_cases[int(line)]
        batches, metric = case.batches(), CorpusBLEU(**case.options)
        for batch in batches:  # also fills the caches of text
            metric.update(*batch)
        counts = metric.statistics.tolist()
        passes, start = 0, time.perf_counter()
        while time.perf_counter() - start < TURN:
            for batch in batches:
                metric.update(*batch)
            metric.compute()  # another version may count some batches only now
            passes += 1
        print(json.dumps([(time.perf_counter() - start) / passes, counts]), flush=True)


def main() -> int:
    """Print a table of times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of the other version")
    parser.add_argument("--data", type=Path, help="a folder with WMT22 and Multi30k text")
    parser.add_argument("--only", default="", help="only cases whose name begins with this")
    parser.add_argument("--at-least", type=float, default=0.95, help="the lowest ratio allowed (default: %(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.data)
        return 0
    command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--worker"]
    versions = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder.resolve())},
        )
        for folder in (args.folder, ROOT)
    ]

    def turn(version: subprocess.Popen[str], number: int) -> tuple[float, list[int]]:
        assert version.stdin is not None
        assert version.stdout is not None
        version.stdin.write(f"{number}\n")
        version.stdin.flush()
        seconds, counts = json.loads(version.stdout.readline())
        return seconds, counts

    print("| case | before, µs per sentence | now | times as fast |\n| --- | ---: | ---: | ---: |")
    slower = []
    for number, case in enumerate(cases(args.data)):
        if not case.name.startswith(args.only):
            continue
        turns: list[tuple[float, float]] = []
        for _ in range(TURNS):
            (before, expected), (now, counts) = (turn(version, number) for version in versions)
            if counts != expected:
                raise SystemExit(f"{case.name}: the versions count differently")
            turns.append((before, now))
        ratio = statistics.median(before / now for before, now in turns)
        micro = [f"{1e6 * statistics.median(times) / len(case.corpus.hypotheses):.2f}" for times in zip(*turns)]
        print(f"| {case.name} | {' | '.join(micro)} | {ratio:.2f} |", flush=True)
        if ratio < args.at_least:
            slower.append(case.name)
    for version in versions:
        version.terminate()
    if slower:
        print(f"less than {args.at_least:g} times as fast: {'; '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
