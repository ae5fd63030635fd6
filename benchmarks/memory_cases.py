"""Part of benchmarks/versions.py: the memory that many sentences take.

It is that by which a process exceeds, at its peak, what it has taken before. What torch takes when it is imported would
otherwise hide most of the difference between two versions.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from corpora import Text
from counting_cases import PAD_ID, Batches, text, text_label
from processes import peak_increase
from torch.utils.tensorboard import SummaryWriter
from turns import Case, Heading, Measurement, Pass

from lightning_bleu import CorpusBLEU, Evaluator

SENTENCES = 2**19
LINES = 2**16
_M_MMAP_THRESHOLD = -3
"""An option of `mallopt`, from malloc.h of glibc."""

Count = Callable[[], Any]
"""Counts many sentences, and returns the results."""


def memory_cases(data: Path | None) -> Iterator[Case]:
    """All cases of this module."""
    ids, lines = f"{SENTENCES:,} sentences of ids", f"{LINES:,} different lines of {text_label(data)}"
    yield memory_case(f"Evaluator, {ids}", validation_of_ids)
    yield memory_case(f"Evaluator, {lines}", partial(validation_of_lines, data))
    yield memory_case(f"Evaluator with a SummaryWriter, {lines}", partial(shown_validation, data))


def memory_case(name: str, prepare: Callable[[Path], Count]) -> Case:
    """A case whose turns need new processes, which have no memory to use again."""

    def prepare_pass(folder: Path) -> Pass:
        return partial(measure, prepare(folder))

    return Case(Heading(f"memory: {name}", ["MiB"], turns=3), prepare_pass, is_fresh=True)


def measure(count: Count) -> Measurement:
    """The memory that a function takes, and its results."""
    results: list[Any] = []
    map_blocks()
    peak = peak_increase(lambda: results.append(count()))
    return Measurement([peak], results)


def map_blocks() -> None:
    """Let large blocks of memory be mapped, so that they do not depend on gaps in the heap, which vary by 10%."""
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**16)


# What is counted


def validation_of_ids(folder: Path) -> Count:
    """A validation that only has to count."""
    batches = short_sentences()
    many = itertools.islice(itertools.cycle(batches), SENTENCES // 256)
    return partial(validate, Evaluator(CorpusBLEU(pad_id=PAD_ID)), many)


def validation_of_lines(data: Path | None, folder: Path) -> Count:
    """A validation of text, which fills the caches of the package."""
    return partial(validate, Evaluator(), different_lines(text(data)))


def shown_validation(data: Path | None, folder: Path) -> Count:
    """A validation of text, some of which is shown."""
    writer = SummaryWriter(folder)
    return partial(validate, Evaluator(loggers=[writer]), different_lines(text(data)))


def validate(evaluator: Evaluator, batches: Iterator[tuple[Any, Any]]) -> float:
    """The score of a validation."""
    evaluator.start()
    for batch in batches:
        evaluator.update(*batch)
    return evaluator.finish(0)["val_bleu"].score


def short_sentences() -> Batches:
    """A few batches of 256 sentences."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 32_000, (16, 256, 12), generator=generator)
    is_wrong = torch.rand(ids.shape, generator=generator) < 0.4
    return [*zip(ids, ids.masked_fill(is_wrong, 1))]


def different_lines(lines: Text) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Batches of 64 lines, which are not the same ones again when they are repeated."""
    for number, (hypotheses, groups) in enumerate(itertools.islice(itertools.cycle(lines.lines), LINES // 64)):
        preds = [f"{line} {number}" for line in hypotheses]
        yield preds, [[f"{line} {number}" for line in group] for group in groups]
