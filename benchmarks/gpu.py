"""Time updates on a GPU: `python benchmarks/gpu.py`. Writes benchmarks/gpu.md, with the name of the GPU.

First it prints how many operations an update issues, not counting views and allocations. This works without a GPU. Most
operations launch one kernel; a sort launches a few.

Then, for batches of 64 × 64, 256 × 128, and 64 × 1,024 ids, each with one reference and with four, it measures:

- host: the time until `update` returns, if the device is idle when it starts. Training is blocked for this long;
- device: the time between two CUDA events around many updates, divided by the number of updates. It includes gaps in
  which the device waits for the host;
- kernels: the number of launches per update, counted by PyTorch's profiler;
- torchmetrics: the host time of its BLEUScore on the same tensors. It takes strings, so this includes `tolist` and
  joining the ids of each row;
- reading: the time to read the ids once, at the bandwidth of a 1 GiB copy.

Before each measurement, the counts are compared with those of the CPU. Synchronization is forbidden during that update.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics.text import BLEUScore

from lightning_bleu import CorpusBLEU

RESULTS = Path(__file__).with_name("gpu.md")


def host_seconds(call: Callable[[], object], turns: int = 50) -> float:
    """The median time until a call returns, on an idle device."""
    times = []
    for _ in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def device_seconds(call: Callable[[], object], turns: int = 100) -> float:
    """The mean time of a call on the device, with many calls back to back."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(turns):
        call()
    end.record()
    torch.cuda.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1e3 / turns


def launches(call: Callable[[], object]) -> int:
    """How many kernels a call launches, including copies and fills."""
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        call()
        torch.cuda.synchronize()
    names = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync")
    return sum(event.count for event in profiler.key_averages() if event.key in names)


def bandwidth() -> float:
    """Bytes per second of a copy, counting both reads and writes."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * 2**30 / device_seconds(lambda: target.copy_(source), 20)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations other than views and allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.split(".")[0]
        self.count += not (function.is_view or name.endswith("empty") or name in {"empty_like", "_unsafe_view"})
        return function(*args, **(kwargs or {}))


def operations(references: int) -> int:
    """Count the operations of an update, on tensors without data."""
    preds, target = (ids.to("meta") for ids in make_ids(64, 64, references))
    metric = CorpusBLEU(pad_id=0).to("meta")
    counter = Operations()
    with counter:
        metric.update(preds, target)
    return counter.count


def make_ids(sentences: int, tokens: int, references: int) -> tuple[Tensor, Tensor]:
    """Random hypotheses, and references in which 40% of the ids are different."""
    generator = torch.Generator().manual_seed(0)
    preds = torch.randint(1, 32_000, (sentences, tokens), generator=generator)
    others = torch.randint(1, 32_000, (sentences, references, tokens), generator=generator)
    changed = torch.rand(others.shape, generator=generator) < 0.4
    return preds, torch.where(changed, others, preds[:, None])


def check(preds: Tensor, target: Tensor) -> None:
    """Check that the counts equal those of the CPU, and that an update never waits for the device."""
    metric, expected = CorpusBLEU(pad_id=0).cuda(), CorpusBLEU(pad_id=0)
    on_device = preds.cuda(), target.cuda()
    metric.update(*on_device)
    metric.reset()
    torch.cuda.set_sync_debug_mode("error")
    metric.update(*on_device)
    torch.cuda.set_sync_debug_mode("default")
    expected.update(preds, target)
    if not torch.equal(metric.statistics.cpu(), expected.statistics):
        raise SystemExit("the GPU and the CPU count differently")


def main() -> None:
    """Print and write the table."""
    print(f"operations per update: {operations(1)} with one reference, {operations(4)} with four")
    if not torch.cuda.is_available():
        raise SystemExit("the rest needs a CUDA device")
    rate = bandwidth()
    lines = [
        f"# Speed on a GPU\n\nWritten by `python benchmarks/gpu.py`: {torch.cuda.get_device_name()}, torch "
        f"{torch.__version__}. Microseconds per update; a copy reaches {rate / 1e9:.0f} GB/s.\n",
        "| sentences × tokens | references | host | device | kernels | torchmetrics | reading |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for sentences, tokens in ((64, 64), (256, 128), (64, 1_024)):
        for references in (1, 4):
            preds, target = make_ids(sentences, tokens, references)
            check(preds, target)
            preds, target = preds.cuda(), target.cuda()
            metric, peer = CorpusBLEU(pad_id=0).cuda(), BLEUScore().cuda()

            def update(metric: CorpusBLEU = metric, preds: Tensor = preds, target: Tensor = target) -> None:
                metric.update(preds, target)

            def update_peer(peer: BLEUScore = peer, preds: Tensor = preds, target: Tensor = target) -> None:
                texts = [" ".join(map(str, row)) for row in preds.tolist()]
                peer.update(texts, [[" ".join(map(str, row)) for row in group] for group in target.tolist()])

            numbers = [
                1e6 * host_seconds(update),
                1e6 * device_seconds(update),
                launches(update),
                1e6 * host_seconds(update_peer, 5),
                1e6 * (preds.nbytes + target.nbytes) / rate,
            ]
            cells = " | ".join(f"{number:.0f}" if number >= 10 else f"{number:.2f}" for number in numbers)
            lines.append(f"| {sentences} × {tokens:,} | {references} | {cells} |")
            print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
