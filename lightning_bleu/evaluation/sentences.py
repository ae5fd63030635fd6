"""The sentences of all processes in the order of the dataset: their texts, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.processes import gather_objects, process_rank
from lightning_bleu.reading.batch import Batch, Sources, select_sentences, to_lines
from lightning_bleu.reading.forms import InputCounts, Strings, Tokens
from lightning_bleu.scoring.scoring import Scoring


class Sentence(NamedTuple):
    """A sentence as text.

    Attributes:
        hypothesis: the hypothesis.
        references: its references; empty if the step returned none.
        source: the source sentence, if the step returned one.
        tokenized: whether the texts are tokens separated by spaces, rather than text that is still to be tokenized.
    """

    hypothesis: str
    references: list[str]
    source: str | None = None
    tokenized: bool = False


class BatchTexts(NamedTuple):
    """The texts of the sentences of a batch. Ids become text when somebody reads them.

    Attributes:
        batch: the sentences, as strings or ids.
        sources: their sources; None if there are none.
        tokenized: see :class:`Sentence`.
    """

    batch: Batch
    sources: Sources | None
    tokenized: bool

    @classmethod
    def from_batch(cls, batch: Batch, sources: Sources | None) -> BatchTexts:
        """The texts of a batch."""
        is_text = isinstance(batch.segments, Strings)
        if isinstance(batch.segments, Tokens):  # a line takes less memory than a list
            batch = batch._replace(segments=Strings(to_lines(batch.segments)))
        return cls(batch, sources, tokenized=not is_text)

    def read(self, numbers: npt.NDArray[np.int64]) -> list[Sentence]:
        """Some sentences, by their numbers in the batch, in ascending order."""
        chosen = np.zeros(self.batch.sentence_count, bool)
        chosen[numbers] = True
        texts = select_sentences(self.batch, chosen).texts()
        sources: Sequence[str | None] = [None] * len(texts)
        if self.sources is not None:
            sources = self.sources.select(chosen).lines()
        sentences = []
        for (hypothesis, references), source in zip(texts, sources):
            sentences.append(Sentence(hypothesis, references, source, self.tokenized))
        return sentences


class LocalTexts:
    """The texts of the sentences of this process, batch by batch.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.settings.settings import Settings
        >>> texts = LocalTexts()
        >>> for number in range(3):
        ...     batch = read_batch([[number, 5], [7]], [[number], [8]], Settings.from_options())
        ...     texts.append(BatchTexts.from_batch(batch, None))
        >>> texts.read([4, 1])
        {1: Sentence(hypothesis='7', references=['8'], source=None, tokenized=True), \
4: Sentence(hypothesis='2 5', references=['2'], source=None, tokenized=True)}
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

    def read(self, numbers: Sequence[int]) -> dict[int, Sentence]:
        """Some sentences by their numbers in this process."""
        in_order = np.unique(np.asarray(numbers, np.int64))
        ends = in_order.searchsorted(self._starts)  # where the sentences of each batch end among them
        sentences: dict[int, Sentence] = {}
        for texts, start, (first, last) in zip(self._batches, self._starts, pairwise(ends)):
            of_batch = in_order[first:last]
            if len(of_batch):
                sentences.update(zip(of_batch.tolist(), texts.read(of_batch - start)))
        return sentences


class SentenceRows(NamedTuple):
    """The statistics of the sentences of a subset for one score.

    Attributes:
        identity: what identifies each sentence; see :mod:`lightning_bleu.counting.kept`.
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scoring: how statistics become scores.
        settings: what the score depends on, as plain values.
    """

    identity: Tensor
    statistics: Tensor
    scoring: Scoring
    settings: Mapping[str, Any]

    def score(self) -> float:
        """The score of the corpus."""
        return self.scoring.score(self.statistics.sum(0)).item()

    def select(self, numbers: Sequence[int]) -> SentenceRows:
        """Some of the sentences, by their numbers."""
        index = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        return self._replace(identity=self.identity[index], statistics=self.statistics[index])

    def score_sentences(self) -> Tensor:
        """The score of each sentence."""
        return self.scoring.score_sentences(self.statistics)

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        return self.in_order.input_counts

    @property
    def in_order(self) -> KeptSentences:
        """What identifies the sentences, as kept rows."""
        return KeptSentences(self.identity, torch.arange(len(self.identity), device="cpu"))


def join_rows(several: Sequence[SentenceRows]) -> SentenceRows:
    """The rows of several subsets, one after another, which are scored in the same way."""
    identity = torch.cat([rows.identity for rows in several])
    statistics = torch.cat([rows.statistics for rows in several])
    return several[0]._replace(identity=identity, statistics=statistics)


class GatheredSentences:
    """The sentences of a subset that count, of all processes, in order: their rows, and their texts.

    They are numbered from 0, in this order. All processes must call the same methods with the same arguments.

    Args:
        kept: a row per sentence: what identifies it, then the statistics of all metrics, side by side.
        columns: where the statistics of each metric are in these rows, by the name of the metric.
        counts: the number of sentences of each process, with repeated ones.
        local_texts: the texts of the first sentences of this process.
        limit: the number of sentences of each process whose text is kept, if it has as many.

    Attributes:
        kept: see above.
        readable: the numbers of the sentences whose text is kept, at most `limit`.
    """

    def __init__(
        self,
        kept: KeptSentences,
        columns: Mapping[str, slice],
        counts: Sequence[int],
        local_texts: LocalTexts,
        limit: float,
    ) -> None:
        self.kept = kept
        self._columns = columns
        self._local_texts = local_texts
        self._owners = find_owners(kept.order, counts)
        has_text = self._owners[:, 1] < limit
        numbers = has_text.nonzero()[:, 0]
        self.readable: list[int] = numbers[: min(len(numbers), limit)].tolist()

    def __len__(self) -> int:
        return len(self.kept.rows)

    @property
    def identity(self) -> Tensor:
        """What identifies the sentences; see :mod:`lightning_bleu.counting.kept`."""
        return self.kept.identity

    @property
    def has_references(self) -> bool:
        """Whether the sentences have references; all of them do, or none does."""
        return self.kept.input_counts.references > 0

    def statistics(self, metric: str) -> Tensor:
        """The statistics of a metric, int32 of shape ``(sentences, columns)``."""
        return self.kept.rows[:, self._columns[metric]]

    def owned_by(self, process: int) -> Tensor:
        """The numbers of the sentences of a process."""
        return (self._owners[:, 0] == process).nonzero()[:, 0]

    def local(self) -> list[Sentence]:
        """The texts of the sentences of this process, all of which are kept."""
        indices = self._owners[self.owned_by(process_rank()), 1].tolist()
        texts = self._local_texts.read(indices)
        return [texts[index] for index in indices]

    @cached_property
    def texts(self) -> list[Sentence]:
        """All texts that are kept; see :meth:`read`. Collective when it is first used."""
        return self.read(self.readable)

    def read(self, numbers: Sequence[int]) -> list[Sentence]:
        """The texts of some sentences. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(numbers)].tolist()
        rank = process_rank()
        local_indices = [index for process, index in owners if process == rank]
        texts_of_processes = gather_objects(self._local_texts.read(local_indices))
        if not texts_of_processes:
            return []
        return [texts_of_processes[process][index] for process, index in owners]


class JoinedSentences:
    """The sentences of several subsets, one after another. It has no files and no samples of its own.

    Args:
        members: the sentences of the subsets.
    """

    def __init__(self, members: Sequence[GatheredSentences]) -> None:
        self.members = members

    def __len__(self) -> int:
        return sum(map(len, self.members))

    @property
    def identity(self) -> Tensor:
        """What identifies the sentences."""
        return torch.cat([sentences.identity for sentences in self.members])

    def statistics(self, metric: str) -> Tensor:
        """The statistics of a metric, shape ``(sentences, columns)``."""
        return torch.cat([sentences.statistics(metric) for sentences in self.members])

    @property
    def texts(self) -> list[Sentence]:
        """All texts that are kept, in process 0. Collective when those of a subset are first used."""
        texts = []
        for sentences in self.members:
            texts += sentences.texts
        return texts


SubsetSentences: TypeAlias = GatheredSentences | JoinedSentences
"""The sentences of a loader or a group, or of all groups of a loader."""


def find_owners(order: Tensor, counts: Sequence[int]) -> Tensor:
    """The process of each sentence, and its index there.

    Args:
        order: the index of each sentence among those of all processes, shape ``(sentences,)``.
        counts: the number of sentences of each process.

    Returns:
        integers of shape ``(sentences, 2)``.

    Example:
        >>> find_owners(torch.tensor([2, 0, 4]), [3, 2])
        tensor([[0, 2],
                [0, 0],
                [1, 1]])
    """
    sizes = torch.tensor(counts, device="cpu")
    ends = sizes.cumsum(0)
    starts = ends - sizes
    processes = torch.searchsorted(ends, order, right=True)
    return torch.stack([processes, order - starts[processes]], 1)
