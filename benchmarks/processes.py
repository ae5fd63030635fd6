"""Run each measurement in a process of its own, with one thread."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


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


def peak_increase(run: Callable[[], None]) -> float:
    """Call a function, and return by how many MiB the memory of this process peaked above what it was."""

    def read(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])

    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, VmHWM
    before = read("VmRSS")
    run()
    return (read("VmHWM") - before) / 2**10


def print_table(columns: list[str], rows: Iterable[list[str]]) -> None:
    """Print a Markdown table. Rows are printed as they are measured."""
    print(f"| {' | '.join(columns)} |\n| {' | '.join(['---:'] * len(columns))} |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()
