"""Process groups without Lightning: one process, in which collectives are fast, or several that are started once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

# Up to torch 2.6, freeing a group waits for its threads while it holds the GIL, and a thread may still need the GIL to
# free a tensor of its last collective. So a group is freed when the next one ends.
_last_group: deque[dist.ProcessGroup | None] = deque(maxlen=1)


@contextlib.contextmanager
def group_of_one() -> Iterator[None]:
    """Within this context, this process is the only one of a process group."""
    with tempfile.TemporaryDirectory() as folder, _group(Path(folder), 0, 1):
        yield


class ProcessPool:
    """Processes that form a new group for each task.

    Args:
        size: the number of processes.
    """

    def __init__(self, size: int) -> None:
        self._executor = ProcessPoolExecutor(size, multiprocessing.get_context("forkserver"))

    def run(self, world_size: int, work: Callable[..., Any], *args: Any) -> list[Any]:
        """Call ``work(rank, world_size, *args)`` in each process of a group, and collect what they return."""
        with tempfile.TemporaryDirectory() as folder:
            # A task waits for the others of its group, so each of them gets a process of its own.
            tasks = [
                self._executor.submit(_work, Path(folder), rank, world_size, work, args) for rank in range(world_size)
            ]
            wait(tasks)
            return [pickle.loads(task.result()) for task in tasks]

    def close(self) -> None:
        """End the processes."""
        self._executor.shutdown()


def _work(folder: Path, rank: int, world_size: int, work: Callable[..., Any], args: Any) -> bytes:
    torch.set_num_threads(1)
    with _group(folder, rank, world_size):
        return pickle.dumps(work(rank, world_size, *args))


@contextlib.contextmanager
def _group(folder: Path, rank: int, world_size: int) -> Iterator[None]:
    timeout = timedelta(minutes=5)  # to start the other processes on a machine that is busy
    dist.init_process_group("gloo", f"file://{folder}/store", timeout, rank=rank, world_size=world_size)
    try:
        yield
    finally:
        _last_group.append(dist.group.WORLD)
        dist.destroy_process_group()
