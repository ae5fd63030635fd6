"""The sentences of all processes in order: their statistics, and their texts, whichever processes have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.processes import gather_objects, process_rank
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Strings
from lightning_bleu.reading.ragged import BoolArray


class Sentence(NamedTuple):
    """A sentence as text.

    Attributes:
        hypothesis: the hypothesis.
        references: its references.
        source: the source sentence, if the step returned one.
        tokenized: whether the texts are tokens separated by spaces, rather than text that is still to be tokenized.
    """

    hypothesis: str
    references: list[str]
    source: str | None = None
    tokenized: bool = False


def to_sentences(batch: Batch, sources: Iterable[str] | None, mask: BoolArray | None = None) -> list[Sentence]:
    """The sentences of a batch that count, as text."""
    lines = [None] * batch.sentence_count if sources is None else sources
    tokenized = not isinstance(batch.segments, Strings)
    sentences = [Sentence(*text, source, tokenized) for text, source in zip(batch.texts(), lines)]
    return sentences if mask is None else list(compress(sentences, mask.tolist()))


class Sentences:
    """The texts of the sentences of all processes that count, in order.

    They are numbered from 0, in this order. All processes must call the same methods with the same arguments.

    Args:
        own: the first sentences of this process that count.
        owners: which process has each sentence; see :func:`find_owners`.
        limit: the number of sentences of each process whose text is kept, if it has as many.

    Attributes:
        readable: the numbers of the sentences whose text is kept, at most `limit`.
    """

    def __init__(self, own: Sequence[Sentence], owners: Tensor, limit: float) -> None:
        self._own = own
        self._owners = owners
        readable = (owners[:, 1] < limit).nonzero()[:, 0]
        self.readable: list[int] = readable[: min(len(readable), limit)].tolist()

    def owned_by(self, process: int) -> Tensor:
        """The numbers of the sentences of a process."""
        return (self._owners[:, 0] == process).nonzero()[:, 0]

    def own(self) -> list[Sentence]:
        """The sentences of this process, all of whose texts are kept."""
        return [self._own[index] for index in self._owners[self.owned_by(process_rank()), 1].tolist()]

    @cached_property
    def texts(self) -> list[Sentence]:
        """All texts that are kept; see :meth:`read`. Collective when it is first used."""
        return self.read(self.readable)

    def read(self, numbers: Sequence[int]) -> list[Sentence]:
        """The texts of some sentences. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(numbers)].tolist()
        rank = process_rank()
        own = {index: self._own[index] for owner, index in owners if owner == rank}
        gathered = gather_objects(own)
        return [gathered[owner][index] for owner, index in owners] if gathered else []


class Table(NamedTuple):
    """The sentences of a label that count, of all processes, in order.

    Attributes:
        kept: a row per sentence: what identifies it, then the statistics of all metrics, side by side.
        columns: where the statistics of each metric are in these rows, by the name of the metric.
        sentences: the texts.
    """

    kept: KeptSentences
    columns: Mapping[str, slice]
    sentences: Sentences

    def statistics(self, name: str) -> Tensor:
        """The statistics of a metric, int32 of shape ``(sentences, columns)``."""
        return self.kept.rows[:, self.columns[name]]


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
    own = torch.tensor(counts, device="cpu")
    ends = own.cumsum(0)
    owner = torch.searchsorted(ends, order, right=True)
    return torch.stack([owner, order - (ends - own)[owner]], 1)
