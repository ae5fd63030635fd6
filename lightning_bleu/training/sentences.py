"""The sentences of an evaluation in order, whichever processes have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.processes import gather_objects, gather_state, process_count, process_rank
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
    """The sentences of all processes that count, in order.

    They are numbered from 0, in this order. All processes must call the same methods with the same arguments.

    Args:
        own: the first sentences of this process that count, as text.
        owners: which process has each sentence; see :func:`find_owners`.
        statistics: the statistics of all sentences that count, in order.
        limit: the number of sentences of each process whose text is kept, if it has as many.
        group: the process group; all processes when None.

    Attributes:
        statistics: int32 of shape ``(sentences, 2 * max_order + 2)``, on the CPU.
        readable: the numbers of the sentences whose text is kept, at most `limit`.
    """

    def __init__(
        self, own: Sequence[Sentence], owners: Tensor, statistics: Tensor, limit: float, group: Any = None
    ) -> None:
        self._own = own
        self._owners = owners
        self._group = group
        self.statistics = statistics
        readable = (owners[:, 1] < limit).nonzero()[:, 0]
        self.readable: list[int] = readable[: min(len(readable), limit)].tolist()

    @cached_property
    def texts(self) -> list[Sentence]:
        """All texts that are kept; see :meth:`read`. Collective when it is first used."""
        return self.read(self.readable)

    def read(self, numbers: Sequence[int]) -> list[Sentence]:
        """The texts of some sentences. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(numbers)].tolist()
        rank = process_rank(self._group)
        own = {index: self._own[index] for owner, index in owners if owner == rank}
        gathered = gather_objects(own, self._group)
        return [gathered[owner][index] for owner, index in owners] if gathered else []


def find_owners(order: Tensor, own_count: int, device: torch.device, group: Any = None) -> Tensor:
    """The process of each sentence, and its index there. Collective.

    Args:
        order: the index of each sentence among those of all processes, shape ``(sentences,)``.
        own_count: the number of sentences of this process.
        device: the device for communication.
        group: the process group; all processes when None.

    Returns:
        integers of shape ``(sentences, 2)``, on the CPU.

    Example:
        >>> find_owners(torch.tensor([2, 0]), own_count=3, device=torch.device("cpu"))
        tensor([[0, 2],
                [0, 0]])
    """
    counts = torch.tensor([own_count], device=device)
    if process_count(group) > 1:
        counts = torch.cat(gather_state(counts, group))
    ends = counts.cpu().cumsum(0)
    owner = torch.searchsorted(ends, order, right=True)
    return torch.stack([owner, order - (ends - counts.cpu())[owner]], 1)
