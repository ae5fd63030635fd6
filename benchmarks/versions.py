"""Time this version of the package beside another: `python benchmarks/versions.py FOLDER [--data FOLDER]`.

The first folder is a checkout of the other version. Each version runs in a process of its own, and both take turns, so
a machine that is busy now and then slows both down alike. The median of the ratios counts, and both versions must count
the same integers. With `--data`, the words of WMT22 and Multi30k are counted too, at their real lengths.

The exit status is 1 if a row became more than 5% slower.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

Rows = list[list[int]]
Batch = tuple[torch.Tensor, torch.Tensor]
Case = tuple[str, list[Batch], dict[str, Any]]
"""A name, batches of hypotheses and references, and options of the metric."""

ROOT = Path(__file__).parents[1]
TURN = 0.1
"""Seconds that a turn lasts at least."""
TURNS = 15
"""Turns of each version, for each case."""


def pad(rows: Rows) -> np.ndarray:
    """Ids of shape (rows, tokens), padded with 0."""
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, ids in zip(padded, rows):
        row[: len(ids)] = ids
    return padded


def make_batches(hypotheses: Rows, groups: list[Rows], size: int, limit: int) -> list[Batch]:
    """The full batches of a set, at most `limit`."""
    starts = range(0, len(hypotheses) - size + 1, size)[:limit]
    batches = []
    for start in starts:
        group = groups[start : start + size]
        references = pad([reference for references in group for reference in references]).reshape(
            size, len(group[0]), -1
        )
        batches.append((torch.from_numpy(pad(hypotheses[start : start + size])), torch.from_numpy(references)))
    return batches


def generated(sentences: int, length: int, vocabulary: int, references: int) -> tuple[Rows, list[Rows]]:
    """Random ids, distributed like words (Zipf). 40% of the words of a reference differ from the hypothesis."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, vocabulary)
    cumulated = np.cumsum(weights / weights.sum())

    def draw(count: int) -> np.ndarray:
        return 1 + np.minimum(np.searchsorted(cumulated, generator.random(count)), vocabulary - 2)

    hypotheses, groups = [], []
    for size in np.maximum(4, generator.poisson(length, sentences)):
        hypothesis = draw(size)
        variants = (np.where(generator.random(size) < 0.4, draw(size), hypothesis) for _ in range(references))
        hypotheses.append(hypothesis.tolist())
        groups.append([variant.tolist() for variant in variants])
    return hypotheses, groups


def read_words(data: Path, name: str) -> tuple[Rows, list[Rows]]:
    """The words of real lines, numbered. Multi30k has no hypotheses: 35% of the words of a line are shuffled."""

    def lines(path: str) -> list[list[str]]:
        return [line.split() for line in (data / path).read_text(encoding="utf-8").removesuffix("\n").split("\n")]

    if name == "Multi30k":
        rng, references = random.Random(0), [lines("multi30k/val.en")]
        hypotheses = [[rng.choice(line) if rng.random() < 0.35 else word for word in line] for line in references[0]]
    else:
        text = "wmt22/generaltest2022.en-de.{}.de"
        hypotheses = lines(text.format("hyp.Online-W"))
        others = ["ref.A", "ref.B", "hyp.PROMT", "hyp.Online-G"][: 4 if name.endswith("x4") else 1]
        references = [lines(text.format(other)) for other in others]
    numbers: dict[str, int] = {}

    def ids(words: list[str]) -> list[int]:
        return [numbers.setdefault(word, len(numbers) + 1) for word in words]

    return list(map(ids, hypotheses)), [list(map(ids, group)) for group in zip(*references)]


def cases(data: Path | None) -> Iterator[Case]:
    """Everything that is timed."""
    for name in ("WMT22", "WMT22 x4", "Multi30k") if data else ():
        words = read_words(data, name)  # type: ignore[arg-type]
        for size in (1, 16, 64, 256):
            yield f"{name}, batches of {size}", make_batches(*words, size, max(4, min(200, 1024 // size))), {}
    for length, references in ((28, 1), (28, 4), (128, 1), (128, 4), (1000, 1), (1000, 4)):
        for size in (16, 64, 256):
            if length * size <= 64_000:
                name = f"{length} tokens, {references} references, batches of {size}"
                yield name, make_batches(*generated(4 * size, length, 32_000, references), size, 4), {}
    for order in (1, 2, 3, 5, 6, 9, 20, 40):
        yield f"order {order}", make_batches(*generated(256, 40, 32_000, 1), 64, 4), {"max_order": order}
    for references in (30, 300):
        yield f"{references} references", make_batches(*generated(8, 28, 32_000, references), 2, 4), {}


def work(data: Path | None) -> None:
    """The worker: count the batches of the case whose number is read, and print the seconds and the statistics."""
    from lightning_bleu import CorpusBLEU

    torch.set_num_threads(1)
    all_cases = list(cases(data))
    for line in sys.stdin:
        _, batches, options = all_cases[int(line)]
        metric = CorpusBLEU(pad_id=0, **options)
        for batch in batches:
            metric.update(*batch)
        counts = metric.statistics.tolist()
        passes, start = 0, time.perf_counter()
        while time.perf_counter() - start < TURN:
            for batch in batches:
                metric.update(*batch)
            passes += 1
        print(json.dumps([(time.perf_counter() - start) / passes, counts]), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of the other version")
    parser.add_argument("--data", type=Path, help="a folder with WMT22 and Multi30k text")
    parser.add_argument("--only", default="", help="only cases whose name begins with this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
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
    for number, (name, batches, _) in enumerate(cases(args.data)):
        if not name.startswith(args.only):
            continue
        turns: list[tuple[float, float]] = []
        for _ in range(TURNS):
            (before, expected), (now, counts) = (turn(version, number) for version in versions)
            if counts != expected:
                raise SystemExit(f"{name}: the versions count differently")
            turns.append((before, now))
        ratio = statistics.median(before / now for before, now in turns)
        sentences = sum(len(hypotheses) for hypotheses, _ in batches)
        micro = [f"{1e6 * statistics.median(times) / sentences:.2f}" for times in zip(*turns)]
        print(f"| {name} | {' | '.join(micro)} | {ratio:.2f} |", flush=True)
        if ratio < 1 / 1.05:
            slower.append(name)
    for version in versions:
        version.terminate()
    return 1 if slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
