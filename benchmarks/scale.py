"""Many processes, and a million sentences: `python benchmarks/scale.py`, or in a few seconds, with `--quick`.

Prints four tables:

- sync: the time that several processes take to sync and compute a score; checks that each has the results of one;
- metric: time and memory of a validation, with and without a confidence interval;
- callback: the same in a Trainer, and the share of BLEUCallback;
- interval: time and memory of a confidence interval; checks that one of several processes resamples for all.

Every measurement has a process of its own, or several, with one thread each. Memory is the peak of a process above what
it used before. Linux only: other systems cannot reset the peak.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import multiprocessing
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor
from torch.multiprocessing.spawn import start_processes
from torch.utils.data import DataLoader, Dataset
from torchmetrics.text import BLEUScore

from lightning_bleu import BLEUCallback, CorpusBLEU

LOG_LENGTH_MEAN, LOG_LENGTH_DEVIATION = 2.603, 0.669
"""Log-normal fit to the words per line of WMT22 English-German: nine systems and two references, 22,407 lines."""
BATCH_SIZE = 256
DISTINCT_BATCHES = 64
"""Batches are reused in turn, so that they do not need the memory that is measured."""

Batch: TypeAlias = tuple[Tensor, Tensor]


class Scale(NamedTuple):
    """How much to measure."""

    sentences: int = 1_000_000
    kept_per_process: int = 2_037
    processes: tuple[int, ...] = (2, 4, 8)
    turns: int = 20


QUICK = Scale(sentences=4_096, kept_per_process=37, processes=(2,), turns=2)


# Inputs


def real_lengths(count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw lengths of sentences, in tokens."""
    drawn = generator.lognormal(LOG_LENGTH_MEAN, LOG_LENGTH_DEVIATION, count)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def make_batch(size: int, generator: np.random.Generator) -> Batch:
    """Hypotheses and references as ids, padded with 0. The quality varies from sentence to sentence."""
    lengths = real_lengths(size, generator)
    shape = size, lengths.max() + 2
    target, other = (generator.zipf(1.3, shape) % 32_000 + 1 for _ in range(2))
    preds = np.where(generator.random(shape) < generator.beta(4, 2, (size, 1)), target, other)
    preds_lengths = np.maximum(1, lengths + generator.integers(-2, 3, size))
    for ids, ends in ((preds, preds_lengths), (target, lengths)):
        ids[np.arange(shape[1]) >= ends[:, None]] = 0
    return torch.from_numpy(preds), torch.from_numpy(target)


def make_batches() -> list[Batch]:
    """The batches of a validation."""
    generator = np.random.default_rng(0)
    return [make_batch(BATCH_SIZE, generator) for _ in range(DISTINCT_BATCHES)]


# Processes


def run_in_processes(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Call ``work(rank, *args)`` in new processes, which are a group if there are several, and collect the results."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(  # type: ignore[no-untyped-call]
            _run, (count, work, folder, args), nprocs=count, start_method="forkserver"
        )
        return [torch.load(f"{folder}/{rank}.pt", weights_only=False) for rank in range(count)]


def _run(rank: int, count: int, work: Callable[..., Any], folder: str, args: Any) -> None:
    torch.set_num_threads(1)
    if count > 1:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=count)
    torch.save(work(rank, *args), f"{folder}/{rank}.pt")
    if count > 1:
        dist.barrier()
        dist.destroy_process_group()


def peak_memory(run: Callable[[], None]) -> float:
    """Call a function, and return by how many MiB the memory of this process peaked above what it was."""

    def read(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])

    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, VmHWM
    before = read("VmRSS")
    run()
    return (read("VmHWM") - before) / 2**10


def table(columns: list[str], rows: Iterable[list[str]]) -> None:
    """Print a Markdown table. Rows are printed as they are measured."""
    print(f"| {' | '.join(columns)} |\n| {' | '.join(['---:'] * len(columns))} |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


# Sync


def sync(scale: Scale) -> None:
    """Print the table of syncs."""
    kept = f"and {scale.kept_per_process:,} kept sentences per process, ms"

    def rows() -> Iterator[list[str]]:
        for count in scale.processes:
            expected = results(dealt_metric(0, 1, count * scale.kept_per_process))
            measured = run_in_processes(count, time_syncs, count, scale)
            for _, found in measured:
                if not (found[0] == expected[0] and all(map(torch.equal, found[1:], expected[1:]))):
                    raise SystemExit(f"{count} processes: the results are not those of one process")
            yield [str(count), *(f"{1000 * seconds:.2f}" for seconds in measured[0][0]), "those of one"]

    table(["processes", "sums, ms", kept, "torchmetrics BLEUScore, ms", "results of every process"], rows())


def dealt_metric(rank: int, count: int, sentences: int) -> CorpusBLEU:
    """A metric of the sentences that `DistributedSampler` deals to one of several processes."""
    metric = CorpusBLEU(pad_id=0, keep_sentences=True)
    preds, target = make_batch(sentences, np.random.default_rng(0))
    metric.update(preds[rank::count], target[rank::count])
    return metric


def results(metric: CorpusBLEU) -> tuple[float, Tensor, Tensor]:
    """The score, the statistics of the corpus, and those of all sentences."""
    with metric.sync_context():
        return float(metric.compute()), metric.statistics, metric.sentence_statistics


def time_syncs(rank: int, count: int, scale: Scale) -> Any:
    """The seconds of a `compute` of three metrics, and the results of one of them."""
    keeping = dealt_metric(rank, count, count * scale.kept_per_process)
    sums, other = CorpusBLEU(), BLEUScore()
    sums.update(["a b c d e"] * 64, ["a b c d f"] * 64)
    other.update(["a b c d e"] * 64, [["a b c d f"]] * 64)
    times: list[list[float]] = [[], [], []]
    for _ in range(scale.turns):
        for metric, turns in zip((sums, keeping, other), times):
            metric._computed = None
            dist.barrier()
            start = time.perf_counter()
            float(metric.compute())
            turns.append(time.perf_counter() - start)
    return [statistics.median(turns) for turns in times], results(keeping)


# A validation


def validate_metric(scale: Scale) -> None:
    """Print the table of validations with the metric alone."""

    def rows() -> Iterator[list[str]]:
        for confidence in (False, True):
            ((seconds, memory),) = run_in_processes(1, time_metric, scale.sentences, confidence)
            yield ["95%" if confidence else "none", *cells(seconds, scale.sentences), f"{memory:.0f}"]

    table(["interval", f"{scale.sentences:,} sentences, s", "µs per sentence", "memory, MiB"], rows())


def cells(seconds: float, sentences: int) -> list[str]:
    """The cells of a time: in seconds, and in µs per sentence."""
    return [f"{seconds:.1f}", f"{1e6 * seconds / sentences:.2f}"]


def time_metric(rank: int, sentences: int, confidence: bool) -> tuple[float, float]:
    """The seconds and the memory of a validation."""
    batches = make_batches()

    def validate(sentences: int) -> None:
        metric = CorpusBLEU(pad_id=0, keep_sentences=confidence)
        for preds, target in itertools.islice(itertools.cycle(batches), sentences // BATCH_SIZE):
            metric.update(preds, target)
        metric.compute()
        if confidence:
            metric.interval()

    validate(4 * BATCH_SIZE)  # warms up
    start = time.perf_counter()
    memory = peak_memory(lambda: validate(sentences))
    return time.perf_counter() - start, memory


# A validation with the callback


class Batches(Dataset[Batch]):
    """A dataset whose items are batches."""

    def __init__(self, count: int) -> None:
        self.batches, self.count = make_batches(), count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index % DISTINCT_BATCHES]


class Model(pl.LightningModule):
    """A model that takes no time."""

    def validation_step(self, batch: Batch, batch_idx: int) -> Any:
        """Return the hypotheses and the references."""
        return batch


class TimedCallback(BLEUCallback):
    """Adds up the time of its hooks."""

    seconds = 0.0


def timed(hook: Callable[..., None]) -> Callable[..., None]:
    """Add the time of each call of a hook to the callback's `seconds`."""

    @functools.wraps(hook)
    def run(self: TimedCallback, *args: Any, **kwargs: Any) -> None:
        start = time.perf_counter()
        hook(self, *args, **kwargs)
        self.seconds += time.perf_counter() - start

    return run


for _stage in ("epoch_start", "batch_end", "epoch_end"):
    setattr(TimedCallback, f"on_validation_{_stage}", timed(getattr(BLEUCallback, f"on_validation_{_stage}")))


def validate_callback(scale: Scale) -> None:
    """Print the table of validations with the callback."""

    def rows() -> Iterator[list[str]]:
        for confidence, logs in ((None, False), (0.95, False), (None, True), (0.95, True)):
            ((total, hooks, memory),) = run_in_processes(1, time_callback, scale.sentences, confidence, logs)
            described = ["TensorBoard" if logs else "none", f"{confidence:.0%}" if confidence else "none"]
            yield [*described, f"{total:.1f}", *cells(hooks, scale.sentences), f"{memory:.0f}"]

    columns = ["logger", "interval", f"{scale.sentences:,} sentences, s", "hooks of the callback, s"]
    table([*columns, "hooks, µs per sentence", "memory, MiB"], rows())


def time_callback(rank: int, sentences: int, confidence: float | None, logs: bool) -> tuple[float, float, float]:
    """The seconds of a validation, those of the callback's hooks, and the memory."""
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    def validate(sentences: int) -> float:
        callback = TimedCallback(CorpusBLEU(pad_id=0), confidence=confidence)
        with tempfile.TemporaryDirectory() as folder:
            trainer = pl.Trainer(
                accelerator="cpu",
                devices=1,
                logger=TensorBoardLogger(folder) if logs else False,
                enable_progress_bar=False,
                enable_model_summary=False,
                callbacks=[callback],
            )
            loader = DataLoader(Batches(sentences // BATCH_SIZE), batch_size=None)
            trainer.validate(Model(), loader, verbose=False)
        return callback.seconds

    validate(4 * BATCH_SIZE)  # warms up
    hooks: list[float] = []
    start = time.perf_counter()
    memory = peak_memory(lambda: hooks.append(validate(sentences)))
    return time.perf_counter() - start, hooks[0], memory


# The interval


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

    columns = ["processes", "process", f"interval of {scale.sentences:,} sentences, s", "CPU time, s", "memory, MiB"]
    table(columns, rows())
    print(f"All processes have the same interval: {found[0]}\n")


def time_interval(rank: int, count: int, sentences: int) -> Any:
    """The seconds, the seconds of CPU time, and the memory of an interval; and the interval."""
    metric = CorpusBLEU(pad_id=0, keep_sentences=True)
    for preds, target in itertools.islice(itertools.cycle(make_batches()), sentences // BATCH_SIZE):
        metric.update(preds[rank::count], target[rank::count])  # as DistributedSampler deals them
    if count > 1:
        dist.barrier()
    found: list[Any] = []
    start, cpu_start = time.perf_counter(), time.process_time()
    memory = peak_memory(lambda: found.append(metric.interval()))
    return (time.perf_counter() - start, time.process_time() - cpu_start, memory), found[0]


PARTS = {"sync": sync, "metric": validate_metric, "callback": validate_callback, "interval": interval}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="measure little of everything, to see that it works")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="print only these tables")
    args = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # A server that has imported everything once forks all processes, which saves seconds for each of them.
    multiprocessing.set_forkserver_preload(["pytorch_lightning", "torchmetrics.text", "lightning_bleu.callback"])
    for name in args.only:
        PARTS[name](QUICK if args.quick else Scale())


if __name__ == "__main__":
    main()
