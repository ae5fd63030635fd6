"""Many processes, and a million sentences: `python benchmarks/scale.py`, or in a few seconds, with `--quick`.

Prints four tables:

- sync: the time that several processes take to sync and compute a score; checks that each has the results of one;
- metric: time and memory of a validation;
- callback: the same in a Trainer, with and without a confidence interval, and the share of BLEUCallback;
- interval: time and memory of the end of a validation that has one; checks that all processes get the same interval.

Every measurement has a process of its own, or several, with one thread each. Memory is the peak of a process above what
it used before. Linux only: other systems cannot reset the peak.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch.distributed as dist
from corpora import sample_lengths
from processes import peak_increase, print_table, run_in_processes
from torchmetrics.text import BLEUScore
from validation import BATCH_SIZE, draw_sentences, make_batches, time_callback, time_metric

from lightning_bleu import CorpusBLEU, Evaluator, Interval


class Scale(NamedTuple):
    """How much to measure."""

    sentences: int = 1_000_000
    sentences_per_process: int = 2_037
    processes: tuple[int, ...] = (2, 4, 8)
    turns: int = 20


QUICK = Scale(sentences=1_024, sentences_per_process=37, processes=(2,), turns=2)


def sync(scale: Scale) -> None:
    """Print the table of syncs."""

    def rows() -> Iterator[list[str]]:
        for count in scale.processes:
            expected = results(dealt_metric(0, 1, count * scale.sentences_per_process))
            measured = run_in_processes(count, time_syncs, count, scale)
            for _, found in measured:
                if found != expected:
                    raise SystemExit(f"{count} processes: the results are not those of one process")
            yield [str(count), *(f"{1000 * seconds:.2f}" for seconds in measured[0][0])]

    print_table(["processes", "lightning_bleu, ms", "torchmetrics BLEUScore, ms"], rows())
    print("Every process has the results of a single one, to the last bit.\n")


def dealt_metric(rank: int, count: int, sentences: int) -> CorpusBLEU:
    """A metric of the sentences that `DistributedSampler` deals to one of several processes."""
    metric = CorpusBLEU(pad_id=0)
    ((preds, target),) = draw_sentences(sentences, sentences)
    metric.update(preds[rank::count], target[rank::count])
    return metric


def results(metric: CorpusBLEU) -> tuple[float, list[int]]:
    """The score, and the statistics of the corpus."""
    with metric.sync_context():
        return float(metric.compute()), metric.statistics.tolist()


def time_syncs(rank: int, count: int, scale: Scale) -> Any:
    """The seconds of a `compute` of two metrics, and the results of one of them."""
    ours, other = dealt_metric(rank, count, count * scale.sentences_per_process), BLEUScore()
    other.update(["a b c d e"] * 64, [["a b c d f"]] * 64)
    times: list[list[float]] = [[], []]
    for _ in range(scale.turns):
        for metric, turns in zip((ours, other), times):
            metric._computed = None
            dist.barrier()
            start = time.perf_counter()
            float(metric.compute())
            turns.append(time.perf_counter() - start)
    return [statistics.median(turns) for turns in times], results(ours)


def validate_metric(scale: Scale) -> None:
    """Print the table of a validation with the metric alone."""
    ((seconds, memory),) = run_in_processes(1, time_metric, scale.sentences)
    columns = [f"{scale.sentences:,} sentences, s", "µs per sentence", "memory, MiB"]
    print_table(columns, [[*cells(seconds, scale.sentences), f"{memory:.0f}"]])


def cells(seconds: float, sentences: int) -> list[str]:
    """The cells of a time: in seconds, and in µs per sentence."""
    return [f"{seconds:.1f}", f"{1e6 * seconds / sentences:.2f}"]


def validate_callback(scale: Scale) -> None:
    """Print the table of validations with the callback."""

    def rows() -> Iterator[list[str]]:
        for confidence, logs in ((None, False), (0.95, False), (None, True), (0.95, True)):
            ((total, hooks, memory),) = run_in_processes(1, time_callback, scale.sentences, confidence, logs)
            described = ["TensorBoard" if logs else "none", f"{confidence:.0%}" if confidence else "none"]
            yield [*described, f"{total:.1f}", *cells(hooks, scale.sentences), f"{memory:.0f}"]

    columns = ["logger", "interval", f"{scale.sentences:,} sentences, s", "hooks of the callback, s"]
    print_table([*columns, "hooks, µs per sentence", "memory, MiB"], rows())


def interval(scale: Scale) -> None:
    """Print the table of intervals."""
    found: list[Any] = []

    def rows() -> Iterator[list[str]]:
        for count in (1, 2):
            for rank, (numbers, result) in enumerate(run_in_processes(count, time_interval, count, scale.sentences)):
                found.append(result)
                seconds, cpu, memory = numbers
                yield [str(count), str(rank), f"{seconds:.1f}", f"{cpu:.1f}", f"{memory:.0f}"]
        if any(result != found[0] for result in found):
            raise SystemExit("the intervals differ")

    columns = ["processes", "process", f"end of {scale.sentences:,} sentences, s", "CPU time, s", "memory, MiB"]
    print_table(columns, rows())
    print(f"All processes have the same interval: {found[0]}\n")


def time_interval(rank: int, count: int, sentences: int) -> Any:
    """The seconds, the CPU time, and the memory of the end of a validation with an interval; and the interval."""
    evaluator = Evaluator(CorpusBLEU(pad_id=0), confidence=0.95, samples=0)
    evaluator.start()
    batches = itertools.islice(itertools.cycle(make_batches(sentences)), sentences // BATCH_SIZE)
    for number, (preds, target) in enumerate(batches):  # as DistributedSampler deals them
        index = range(number * BATCH_SIZE + rank, number * BATCH_SIZE + len(preds), count)
        evaluator.update(preds[rank::count], target[rank::count], index=index)
    if count > 1:
        dist.barrier()
    found: list[Interval | None] = []
    start, cpu_start = time.perf_counter(), time.process_time()
    memory = peak_increase(lambda: found.append(evaluator.finish(0)["val_bleu"].interval))
    return (time.perf_counter() - start, time.process_time() - cpu_start, memory), found[0]


PARTS = {"sync": sync, "metric": validate_metric, "callback": validate_callback, "interval": interval}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="measure little of everything, to see that it works")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="print only these tables")
    args = parser.parse_args(argv)
    lengths = sample_lengths("WMT22", 100_000, np.random.default_rng(0))
    print(
        "One thread per process. Memory is the peak of a process above what it used before. Sentences have a median of "
        f"{np.median(lengths):.0f} and a mean of {lengths.mean():.0f} tokens, in batches of {BATCH_SIZE}.\n"
    )
    for name in args.only:
        PARTS[name](QUICK if args.quick else Scale())


if __name__ == "__main__":
    # A server that has imported everything once forks all processes, which saves seconds for each of them.
    multiprocessing.set_forkserver_preload(["pytorch_lightning", "torchmetrics.text", "lightning_bleu.callback"])
    main()
