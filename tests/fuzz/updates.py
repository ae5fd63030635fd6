"""What several targets have in common: batches that a metric counts, with masks and lower limits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from types import ModuleType
from typing import Any, NamedTuple

from lightning_bleu.core.batch import read_batch
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


@dataclass
class MetricCase:
    """Batches that a metric counts.

    Attributes:
        metric: the class of the metric.
        options: its options.
        batches: the sentences.
        expect: the statistics of a sentence from its hypothesis, its references, and whether empty ones are dropped.
        lowered: lower limits of modules of the package.
        masked: bits of a mask, again and again; None to check no sums under a mask.
    """

    metric: Any
    options: dict[str, Any]
    batches: list[Batch]
    expect: Callable[[Any, list[Any], bool], list[int]]
    lowered: Mapping[ModuleType, Mapping[str, int]]
    masked: int | None

    @property
    def sentence_count(self) -> int:
        return sum(len(batch.preds.rows) for batch in self.batches)

    def describe(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.options.items() if value is not None]
        others = [f"  {module.__name__}: {values}" for module, values in self.lowered.items() if values]
        if self.masked is not None:
            others.append(f"  masked: {self.masked:#b}")
        return "\n".join([f"{self.metric.__name__}({', '.join(given)})", *map(str, self.batches), *others])

    def check(self) -> None:
        expected = self._expected()
        with contextlib.ExitStack() as stack:
            for module, values in self.lowered.items():
                stack.enter_context(limits(module, values))
            self.check_metrics(expected)

    def _expected(self) -> list[list[list[int]]]:
        """The statistics of the sentences of each batch. Equal sentences are counted once."""
        known: dict[str, list[int]] = {}
        expected = []
        for preds, target in self.batches:
            rows = []
            for hypothesis, references in zip(preds.rows, target.rows):
                key = f"{hypothesis!r} {references!r} {target.drops_empty}"
                if key not in known:
                    known[key] = self.expect(hypothesis, references, target.drops_empty)
                rows.append(known[key])
            expected.append(rows)
        return expected

    def check_metrics(self, expected: Sequence[list[list[int]]]) -> Any:
        """Compare the rows and sums of a metric with the statistics of the sentences of each batch, and return it."""
        metric = self.metric(**self.options)
        for (preds, target), rows in zip(self.batches, expected):
            metric.update(preds.value, target.value)
            batch = read_batch(preds.value, target.value, metric.settings)
            compare("sentence", metric.scorer.count_batch("", batch).tolist(), rows)
        compare("statistics", metric.statistics.tolist(), _sum([*chain(*expected)], metric.scorer.columns))
        if self.masked is not None:
            self._check_masks(expected, self.masked)
        return metric

    def _check_masks(self, expected: Sequence[list[list[int]]], bits: int) -> None:
        """Compare the sums of a metric under masks."""
        metric = self.metric(**self.options)
        chosen = []
        for (preds, target), rows in zip(self.batches, expected):
            mask = [bits >> number % 8 & 1 == 1 for number in range(len(rows))]
            metric.update(preds.value, target.value, mask)
            chosen += [*compress(rows, mask)]
        compare("number of sentences", metric.input_counts.sentence_count, len(chosen))
        compare("statistics under masks", metric.statistics.tolist(), _sum(chosen, metric.scorer.columns))


def _sum(rows: list[list[int]], columns: int) -> list[int]:
    return [sum(column) for column in zip(*rows)] or [0] * columns


@contextlib.contextmanager
def limits(module: ModuleType, values: Mapping[str, int]) -> Iterator[None]:
    """Set constants of a module."""
    before = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(before)
