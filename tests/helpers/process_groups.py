"""Processes and their groups. They are forked from a server that has imported everything; see ``fixtures.py``.

Tests of collectives share a :class:`ProcessPool`, or use :func:`group_of_one`. Whatever makes its own group (Lightning,
Transformers) runs in new processes, which :func:`run_in_processes` starts.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import multiprocessing
import os
import pickle
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from datetime import timedelta
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

TIME_LIMIT = 240
"""The number of seconds after which a process ends itself. It is large because the machine may be busy."""

# Up to torch 2.6, freeing a group waits for its threads while it holds the GIL, and a thread may still need the GIL to
# free a tensor of its last collective. So a group is freed when the next one ends, or not at all.
_last_group: deque[dist.ProcessGroup | None] = deque(maxlen=1)


def start_fork_server() -> None:
    """Fork the server of :mod:`multiprocessing` from this process, whose imports take seconds in a new one."""
    resource_tracker.ensure_running()
    before = _open_files()

    def fork(executable: str, arguments: list[str], passed: list[int]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the other thread of a worker of xdist only reads
            process = os.fork()
        if process == 0:
            for number in _open_files() - before - {*passed}:
                with contextlib.suppress(OSError):  # that of the folder that was read
                    os.close(number)
            _serve(arguments[-1])
        return process

    with patch.object(util, "spawnv_passfds", fork):
        forkserver.ensure_running()


def _open_files() -> set[int]:
    return {int(number) for number in os.listdir("/proc/self/fd")}


def _serve(code: str) -> NoReturn:
    """Be the server, without what pytest has set."""
    try:
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
        logging.getLogger().handlers.clear()
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)  # as in a new interpreter
        gc.collect()
        gc.freeze()  # so that garbage collections do not search everything that was imported
        exec(code, {})
    finally:
        os._exit(0)


@contextlib.contextmanager
def group_of_one() -> Iterator[None]:
    """Within this context, this process is the only one of a process group."""
    with tempfile.TemporaryDirectory() as folder, _group(Path(folder), 0, 1):
        yield


def run_in_processes(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Call ``work(*args)`` in new processes, and collect what they return. An error in one of them ends the others.

    Several processes have the environment variables that torchrun sets on a single node. As there, they meet at a
    store of the process that starts them, so that no other program can take its port.
    """
    store = make_store()
    with tempfile.TemporaryDirectory() as folder:
        options = count, store.port, Path(folder), work, args
        start_processes(_work_in_new_process, options, nprocs=count, start_method="forkserver")  # type: ignore[no-untyped-call]
        return [pickle.loads((Path(folder) / str(rank)).read_bytes()) for rank in range(count)]


def _work_in_new_process(rank: int, count: int, port: int, folder: Path, work: Callable[..., Any], args: Any) -> None:
    faulthandler.dump_traceback_later(TIME_LIMIT, exit=True)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if count > 1:
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        os.environ |= {name: str(number) for name, number in numbers.items()}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "tests"}
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    (folder / str(rank)).write_bytes(pickle.dumps(work(*args)))
    if dist.is_initialized():
        _last_group.append(dist.group.WORLD)
        dist.destroy_process_group()


def make_store() -> Any:
    """A store at a port of its own, where processes can meet as long as it exists."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]


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
