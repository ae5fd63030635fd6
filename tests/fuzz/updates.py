"""What several targets have in common: updates of a metric with masks, and lower limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from lightning_bleu import CorpusBLEU
from tests.fuzz.choices import Choices
from tests.fuzz.id_forms import Argument
from tests.fuzz.rounds import compare

COPIES = [1] * 200 + [2] * 20 + [3] * 20 + [0]
"""How many times the sentences of an input are repeated; 0 stands for :data:`MANY_TOKENS`."""
MANY_TOKENS = 20_000
"""More tokens than a chunk has."""


class Batch(NamedTuple):
    """The arguments of one update."""

    preds: Argument
    target: Argument

    def __str__(self) -> str:
        return f"  .update({self.preds},\n          {self.target})"


def describe(options: Mapping[str, Any], batches: list[Batch], others: Mapping[str, Any]) -> str:
    """Updates as code, and everything else that is not empty."""
    given = [f"{name}={value!r}" for name, value in options.items() if value is not None]
    lines = [f"  {name}: {value}" for name, value in others.items() if value]
    return "\n".join([f"CorpusBLEU({', '.join(given)})", *map(str, batches), *lines])


class Masks(NamedTuple):
    """Which sentences a metric counts.

    Attributes:
        bits: which of eight sentences, again and again.
        form: an index into the forms of a mask; 0 for no mask.
    """

    bits: int
    form: int

    @classmethod
    def of(cls, choices: Choices) -> Masks:
        """Random masks."""
        return cls(choices.byte(), choices.byte() % 5)

    def mask(self, start: int, stop: int) -> list[bool]:
        """Which sentences of a range count."""
        return [not self.form or bool(self.bits >> index % 8 & 1) for index in range(start, stop)]

    def argument(self, start: int, stop: int) -> Any:
        """The mask of a batch, as ``sample_mask``."""
        mask = self.mask(start, stop)
        return [None, mask, tuple(mask), np.array(mask, bool), torch.tensor(mask, dtype=torch.bool)][self.form]


def check_metric(batches: list[Batch], expected: list[list[list[int]]], masks: Masks, options: dict[str, Any]) -> None:
    """Compare the sums and the kept sentences of metrics with the statistics of the sentences of each batch.

    One metric keeps sums, one keeps sentences, and one has positions that descend, from one to four processes, two of
    which may have the same batch.
    """
    sums = CorpusBLEU(**options)
    kept, *processes = (CorpusBLEU(keep_sentences=True, **options) for _ in range(2 + masks.bits % 4))
    sentences = 0
    for number, (batch, rows) in enumerate(zip(batches, expected)):
        mask = masks.argument(sentences, sentences + len(rows))
        for metric in (sums, kept):
            metric.update(batch.preds.get(), batch.target.get(), mask)
        index = -np.arange(sentences, sentences + len(rows)) + 2**33
        for rank in (number, number + masks.bits // 4):
            processes[rank % len(processes)].update(batch.preds.get(), batch.target.get(), mask, index)
        sentences += len(rows)
        compare("number of sentences", sums.input_counts.sentences, sum(masks.mask(0, sentences)))
        compare("kinds of kept sentences", kept.input_counts, sums.input_counts)
    indexed, *others = processes
    for other in others:
        indexed.merge_state(other)
    compare("kinds of sentences with positions", indexed.input_counts, sums.input_counts)
    rows = [row for row, counts in zip(chain.from_iterable(expected), masks.mask(0, sentences)) if counts]
    compare("kept sentence", kept.sentence_statistics.tolist(), rows)
    compare("sentence with a position", indexed.sentence_statistics.tolist(), rows[::-1])
    totals = [sum(column) for column in zip(*rows)] or [0] * len(sums.statistics)
    compare("statistics of the metric", sums.statistics.tolist(), totals)
    compare("statistics of kept sentences", kept.statistics.tolist(), totals)


@contextlib.contextmanager
def limits(module: ModuleType, values: Mapping[str, int]) -> Iterator[None]:
    """Set constants of a module."""
    before = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(before)
