"""The sentences of all processes in the order of the dataset: their texts, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, Sentence, Sources, select_sentences, to_lines
from lightning_bleu.core.forms import Ids, InputCounts, Strings, Tokens
from lightning_bleu.core.kept import KeptSentences, count_inputs, positions_of
from lightning_bleu.core.processes import gather_objects, process_rank
from lightning_bleu.core.scoring import Scorer

GROUP = 0
"""The column with the number of the group. The statistics of the metrics follow."""


class BatchTexts(NamedTuple):
    """The texts of the sentences of a batch. Ids become text when somebody reads them.

    Attributes:
        batch: the sentences, as strings or ids.
        sources: their sources; None if there are none.
        groups: the labels of their groups; None if there are none.
        tokenized: see :class:`lightning_bleu.core.batch.Sentence`.
    """

    batch: Batch
    sources: Sources | None
    groups: Sequence[str] | None
    tokenized: bool

    @classmethod
    def from_batch(
        cls, batch: Batch, sources: Sources | None = None, groups: Sequence[str] | None = None
    ) -> BatchTexts:
        """The texts of a batch."""
        is_text = isinstance(batch.segments, Strings)
        if isinstance(batch.segments, Tokens):  # a line takes less memory than a list
            batch = batch._replace(segments=Strings(to_lines(batch.segments)))
        return cls(batch, sources, groups, tokenized=not is_text)

    def without_ids(self) -> BatchTexts | None:
        """The same without sources that are ids; None if the sentences are ids. Ids take time to decode."""
        if not isinstance(self.batch.segments, Strings):
            return None
        has_ids = self.sources is not None and isinstance(self.sources.segments, Ids)
        return self._replace(sources=None) if has_ids else self

    def read(self, numbers: npt.NDArray[np.int64]) -> list[Sentence]:
        """Some sentences, by their numbers in the batch, in ascending order."""
        chosen = np.zeros(self.batch.sentence_count, bool)
        chosen[numbers] = True
        texts = select_sentences(self.batch, chosen).texts()
        sources: Sequence[str | None] = [None] * len(texts)
        if self.sources is not None:
            sources = self.sources.select(chosen).lines()
        groups: Sequence[str | None] = [None] * len(texts)
        if self.groups is not None:
            groups = [self.groups[number] for number in numbers]
        found = []
        for (hypothesis, references), source, group in zip(texts, sources, groups):
            found.append(Sentence(hypothesis, references, source, self.tokenized, group))
        return found


class LocalTexts:
    """The texts of the sentences of this process, batch by batch.

    Example:
        >>> from lightning_bleu.core.batch import read_batch
        >>> from lightning_bleu.core.settings import Settings
        >>> texts = LocalTexts()
        >>> for number in range(3):
        ...     batch = read_batch([[number, 5], [7]], [[number], [8]], Settings.from_options())
        ...     texts.append(BatchTexts.from_batch(batch))
        >>> {number: sentence.hypothesis for number, sentence in texts.read([4, 1]).items()}
        {1: '7', 4: '2 5'}
    """

    def __init__(self) -> None:
        self._batches: list[BatchTexts] = []
        self._starts = [0]

    def __len__(self) -> int:
        return self._starts[-1]

    def append(self, texts: BatchTexts) -> None:
        """Append those of a batch."""
        self._batches.append(texts)
        self._starts.append(len(self) + texts.batch.sentence_count)

    def read(self, numbers: Sequence[int], *, with_ids: bool = True) -> dict[int, Sentence]:
        """Some sentences by their numbers in this process, perhaps without those and without sources that are ids."""
        in_order = np.unique(np.asarray(numbers, np.int64))
        ends = in_order.searchsorted(self._starts)  # where the sentences of each batch end among them
        found: dict[int, Sentence] = {}
        for texts, start, (first, last) in zip(self._batches, self._starts, pairwise(ends)):
            of_batch = in_order[first:last]
            readable = texts if with_ids else texts.without_ids()
            if len(of_batch) and readable is not None:
                found.update(zip(of_batch.tolist(), readable.read(of_batch - start)))
        return found


@dataclass(frozen=True, eq=False)
class SentenceRows:
    """The rows of some sentences for one score, in order.

    Attributes:
        identity: what identifies each sentence; see :mod:`lightning_bleu.core.kept`.
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scorer: how they become scores.
    """

    identity: Tensor
    statistics: Tensor
    scorer: Scorer

    def __len__(self) -> int:
        return len(self.identity)

    def score(self) -> float:
        """The score of all of them."""
        return self.scorer.score(self.statistics.sum(0)).item()

    def score_sentences(self) -> Tensor:
        """The score of each sentence."""
        return self.scorer.score_sentences(self.statistics)

    def select(self, numbers: Sequence[int]) -> SentenceRows:
        """Some of the sentences, by their numbers."""
        index = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        return replace(self, identity=self.identity[index], statistics=self.statistics[index])

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        return count_inputs(self.identity)


class Sentences:
    """The sentences of a loader that count, of all processes, in order: their rows, and their texts.

    They are numbered from 0, in the order of their positions, then of their groups. Every process knows all rows, and
    which process has which text.

    Args:
        loader: the name of the loader; empty if it has none.
        kept: a row per sentence: what identifies it, the number of its group, and the statistics of all metrics.
        columns: where the statistics of each metric are in these rows, by the name of the metric.
        labels: the labels of the groups, by their numbers; empty if the sentences have no groups.
        has_index: whether the step returned their positions.
        process_counts: the number of sentences of each process, with repeated ones.
        local_texts: the texts of the first sentences of this process.
        max_texts: the number of sentences of each process whose text is kept, if it has as many.

    Attributes:
        identity: what identifies the sentences; see :mod:`lightning_bleu.core.kept`.
        groups: the numbers of the sentences of each group, by its label.
        index: the positions that the step returned, shape ``(sentences,)``; None if it returned none.
    """

    def __init__(
        self,
        loader: str,
        kept: KeptSentences,
        columns: Mapping[str, slice],
        *,
        labels: Sequence[str] = (),
        has_index: bool = False,
        process_counts: Sequence[int],
        local_texts: LocalTexts,
        max_texts: float,
    ) -> None:
        self.loader = loader
        self.identity = kept.identity
        self.groups = _number_members(kept.statistics[:, GROUP], labels)
        self.index = positions_of(kept.rows) if has_index else None
        self._statistics = kept.statistics
        self._columns = columns
        self._order, self._counts = kept.order, process_counts
        self._local_texts = local_texts
        self._max_texts = max_texts
        self._texts: list[Sentence] | None = None

    def __len__(self) -> int:
        return len(self.identity)

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        return count_inputs(self.identity)

    @cached_property
    def _owners(self) -> Tensor:
        """The process of each sentence, and its index there."""
        return find_owners(self._order, self._counts)

    @cached_property
    def readable(self) -> list[int]:
        """The numbers of the sentences whose text is kept, at most `max_texts`."""
        has_text = self._owners[:, 1] < self._max_texts
        numbers = has_text.nonzero()[:, 0]
        readable: list[int] = numbers[: min(len(numbers), self._max_texts)].tolist()
        return readable

    def statistics(self, metric_name: str) -> Tensor:
        """The statistics of a metric, int32 of shape ``(sentences, columns)``."""
        return self._statistics[:, self._columns[metric_name]]

    def owned_by(self, process: int) -> Tensor:
        """The numbers of the sentences of a process."""
        return (self._owners[:, 0] == process).nonzero()[:, 0]

    def read_local(self) -> list[Sentence]:
        """The texts of the sentences of this process, all of which are kept."""
        indices = self._owners[self.owned_by(process_rank()), 1].tolist()
        texts = self._local_texts.read(indices)
        return [texts[index] for index in indices]

    def read_first(self, count: int, *, decoded: int) -> list[Sentence]:
        """The texts that this process has kept of the first sentences.

        Args:
            count: how many sentences to look at.
            decoded: in how many of them to decode ids; of the others, only strings are read.
        """
        owners = self._owners[:count].tolist()
        rank, kept = process_rank(), min(len(self._local_texts), max(self._max_texts, decoded))
        own = {number: index for number, (process, index) in enumerate(owners) if process == rank and index < kept}
        texts = self._local_texts.read([index for number, index in own.items() if number < decoded])
        others = [index for number, index in own.items() if number >= decoded]
        texts |= self._local_texts.read(others, with_ids=False)
        return [texts[index] for index in own.values() if index in texts]

    def read_all(self) -> list[Sentence]:
        """All texts that are kept; see :meth:`read`. They are sent once. Collective."""
        if self._texts is None:
            self._texts = self.read(self.readable)
        return self._texts

    def read(self, numbers: Sequence[int]) -> list[Sentence]:
        """The texts of some sentences. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(numbers)].tolist()
        rank = process_rank()
        local_indices = [index for process, index in owners if process == rank]
        texts_of_processes = gather_objects(self._local_texts.read(local_indices))
        if not texts_of_processes:
            return []
        return [texts_of_processes[process][index] for process, index in owners]


def _number_members(group_numbers: Tensor, labels: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the sentences of each group that has any.

    Args:
        group_numbers: the number of the group of each sentence.
        labels: the labels of the groups.

    Example:
        >>> _number_members(torch.tensor([1, 0, 1]), ["de", "fr", "zh"])
        {'de': [1], 'fr': [0, 2]}
    """
    if not labels:
        return {}
    order = group_numbers.argsort(stable=True)
    member_counts = torch.bincount(group_numbers, minlength=len(labels)).tolist()
    groups = {}
    for label, numbers in zip(labels, order.split_with_sizes(member_counts)):
        if len(numbers):
            groups[label] = numbers.tolist()
    return groups


def find_owners(order: Tensor, process_counts: Sequence[int]) -> Tensor:
    """The process of each sentence, and its index there.

    Args:
        order: the index of each sentence among those of all processes, shape ``(sentences,)``.
        process_counts: the number of sentences of each process.

    Returns:
        integers of shape ``(sentences, 2)``.

    Example:
        >>> find_owners(torch.tensor([2, 0, 4]), [3, 2])
        tensor([[0, 2],
                [0, 0],
                [1, 1]])
    """
    sizes = torch.tensor(process_counts, device="cpu")
    ends = sizes.cumsum(0)
    starts = ends - sizes
    processes = torch.searchsorted(ends, order, right=True)
    return torch.stack([processes, order - starts[processes]], 1)
