"""Time updates on a GPU: `python benchmarks/gpu.py`. Writes benchmarks/gpu.md, with the name of the GPU.

First it prints the operations of an update, not counting views and allocations. This works without a GPU. Then, for
batches of 64 × 64, 256 × 128, and 64 × 1,024 ids, each with one reference and with four, it measures:

- host: the time until `update` returns, if the device is idle when it starts. Training is blocked for this long;
- device: the time between two CUDA events around many updates, per update. It includes waiting for the host;
- kernels: how many kernels, copies, and fills an update launches, counted by PyTorch's profiler;
- torchmetrics: the host time of its BLEUScore on the same tensors, including `tolist` and joining the ids, because it
  takes strings;
- reading: the time to read the ids once, at the bandwidth of a 1 GiB copy;
- graph: the device time of an update that was captured in a CUDA graph and is replayed.

It also checks that the counts equal those of the CPU, and that an update never waits for the device. If a part fails,
its error is printed, the other parts run, and the exit status is 1. Only the graph may fail.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics.text import BLEUScore

from lightning_bleu import CorpusBLEU

DEVICE = "cuda"
RESULTS = Path(__file__).with_name("gpu.md")
Result = TypeVar("Result")
FAILED: dict[str, Exception] = {}


class Case(NamedTuple):
    """The size of a batch."""

    sentences: int
    tokens: int
    references: int

    def __str__(self) -> str:
        return f"{self.sentences} × {self.tokens:,} | {self.references}"

    def make_ids(self, device: str, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Random hypotheses, and references in which 40% of the ids are different. The end of each row is padding."""
        (sentences, tokens, references), random = self, torch.Generator().manual_seed(seed)
        preds = torch.randint(1, 32_000, (sentences, 1, tokens), generator=random)
        others = torch.randint(1, 32_000, (sentences, references, tokens), generator=random)
        target = torch.where(torch.rand(others.shape, generator=random) < 0.4, others, preds)
        is_token = torch.arange(tokens) < torch.randint(1, tokens + 1, (sentences, 1, 1), generator=random)
        return (preds * is_token)[:, 0].to(device), (target * is_token).to(device)


CASES = [Case(*size, references) for size in ((64, 64), (256, 128), (64, 1_024)) for references in (1, 4)]


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations by name, other than views and allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.split(".")[0]
        self.names[name] += not (function.is_view or name.endswith("empty") or name in {"empty_like", "_unsafe_view"})
        return function(*args, **(kwargs or {}))


def print_operations(case: Case) -> None:
    """Print the operations of an update, on tensors without data."""
    ids, metric = case.make_ids("meta"), CorpusBLEU(pad_id=0).to("meta")
    with Operations() as counter:
        metric.update(*ids)
    print(f"{counter.names.total()} operations per update, references: {case.references}: {dict(+counter.names)}")


def make_update(case: Case) -> Callable[[], None]:
    """An update of a metric on the device."""
    return partial(CorpusBLEU(pad_id=0).to(DEVICE).update, *case.make_ids(DEVICE))


def make_peer_update(case: Case) -> Callable[[], None]:
    """An update of torchmetrics."""
    (preds, target), metric = case.make_ids(DEVICE), BLEUScore().to(DEVICE)

    def join(rows: list[list[int]]) -> list[str]:
        return [" ".join(map(str, row)) for row in rows]

    return lambda: metric.update(join(preds.tolist()), [join(rows) for rows in target.tolist()])


def host_time(call: Callable[[], object], turns: int = 50) -> float:
    """The median time until a call returns, on an idle device, in microseconds."""
    times = []
    for _ in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def device_time(call: Callable[[], object], turns: int = 100) -> float:
    """The mean time of a call on the device, with many calls back to back, in microseconds."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    call()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(turns):
        call()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * float(begin.elapsed_time(end)) / turns


def bandwidth() -> float:
    """Bytes per microsecond of a copy, counting both reads and writes."""
    source, target = torch.empty(2, 2**30, dtype=torch.uint8, device=DEVICE)
    return 2 * 2**30 / device_time(lambda: target.copy_(source), 20)


def kernels(case: Case) -> Counter[str]:
    """The kernels, copies, and fills of an update, by name."""
    update, names = make_update(case), Counter[str]()
    for _ in range(2):  # the first profile may miss kernels while the profiler starts
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            update()
            torch.cuda.synchronize()
        names = Counter(event.name for event in profiler.events() if "CUDA" in str(event.device_type))
    if not names:
        raise RuntimeError("the profiler recorded no kernels")
    return names


def check(case: Case) -> None:
    """Check that the counts equal those of the CPU, and that an update never waits for the device."""
    ids, metric, expected = case.make_ids(DEVICE), CorpusBLEU(pad_id=0).to(DEVICE), CorpusBLEU(pad_id=0)
    metric.update(*ids)  # loads the kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        metric.update(*ids)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected.update(*case.make_ids("cpu"))
    if metric.totals.tolist() != (2 * expected.totals).tolist():
        raise ValueError("the GPU and the CPU count differently")


def replay_time(case: Case) -> float:
    """The time of an update that is replayed as a CUDA graph, after a check of what replays count."""
    ids, metric, expected = case.make_ids(DEVICE), CorpusBLEU(pad_id=0).to(DEVICE), CorpusBLEU(pad_id=0)

    def update() -> None:
        totals = metric.totals
        metric.update(*ids)
        metric.totals = totals.copy_(metric.totals)  # an update makes a new tensor; replays must write to the same one

    update()  # loads the kernels
    metric.reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):  # after an error, back to this stream
        update()
    for seed in range(1, 4):
        for tensor, others in zip(ids, case.make_ids("cpu", seed)):
            tensor.copy_(others)
        graph.replay()
        expected.update(*case.make_ids("cpu", seed))
    if metric.totals.tolist() != expected.totals.tolist():
        raise ValueError("replays count differently")
    return device_time(graph.replay)


def attempt(name: str, part: Callable[..., Result], *arguments: object) -> Result | None:
    """Run a part. If it fails, print its error and return None."""
    try:
        return part(*arguments)
    except Exception as error:
        FAILED[name] = error
        print(f"{name} failed:\n{traceback.format_exc()}", flush=True)
        return None


PARTS: dict[str, Callable[[Case], float]] = {
    "host": lambda case: host_time(make_update(case)),
    "device": lambda case: device_time(make_update(case)),
    "kernels": lambda case: kernels(case).total(),
    "torchmetrics": lambda case: host_time(make_peer_update(case), 5),
}


def measure() -> str:
    """Measure everything. Returns the text of benchmarks/gpu.md."""
    rate, name = attempt("bandwidth", bandwidth), attempt("name", torch.cuda.get_device_name)
    table: dict[Case, dict[str, float | None]] = {}
    for case in CASES:
        attempt(f"check ({case})", check, case)
        table[case] = {column: attempt(f"{column} ({case})", part, case) for column, part in PARTS.items()}
        table[case]["reading"] = sum(ids.nbytes for ids in case.make_ids("cpu")) / rate if rate else None
        print(f"{case}: {table[case]}", flush=True)
    names = (attempt("names of kernels", kernels, CASES[0]) or {}).items()
    graphs = "works"
    for case in CASES:  # last, because an error may leave the device in a bad state
        table[case]["graph"] = attempt("graph", replay_time, case)
        if error := FAILED.pop("graph", None):
            graphs = f"does not work: {error!r:.200}"
            break
    columns = [*PARTS, "reading", "graph"]
    lines = [
        f"# Speed on a GPU\n\nWritten by `python benchmarks/gpu.py`: {name}, torch {torch.__version__}. Times are in "
        f"microseconds. A copy reaches {(rate or 0) / 1e3:.0f} GB/s. Capturing an update in a CUDA graph {graphs}.\n",
        f"| sentences × tokens | references | {' | '.join(columns)} |",
        f"| --- | ---: |{' ---: |' * len(columns)}",
    ]
    for case, cells in table.items():
        numbers = map(cells.get, columns)
        texts = ("" if number is None else f"{number:.{0 if number >= 10 else 2}f}" for number in numbers)
        lines.append(f"| {case} | {' | '.join(texts)} |")
    lines += ["\nThe kernels, copies, and fills of an update in the first row:\n"]
    lines += [f"- {count} × `{kernel[:150]}`" for kernel, count in sorted(names)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print and write the results. Returns the exit status."""
    argparse.ArgumentParser(description="Time updates on a GPU, and write benchmarks/gpu.md.").parse_args()
    for case in CASES[:2]:
        attempt(f"operations ({case})", print_operations, case)
    if not torch.cuda.is_available():
        raise SystemExit("the rest needs a CUDA device")
    results = measure()
    print(f"{results}\n{len(FAILED)} parts failed {[*FAILED]}")
    RESULTS.write_text(results, encoding="utf-8")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
