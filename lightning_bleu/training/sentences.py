"""The sentences of an evaluation in the order of the dataset, whichever processes have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.processes import gather_objects, gather_state, process_count, process_rank
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Strings


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


def to_sentences(batch: Batch, sources: Iterable[str] | None) -> list[Sentence]:
    """The sentences of a batch as text."""
    lines = [None] * batch.sentence_count if sources is None else sources
    tokenized = not isinstance(batch.segments, Strings)
    return [Sentence(*text, source, tokenized) for text, source in zip(batch.texts(), lines)]


class Sentences:
    """The sentences of all processes that count, in the order of the dataset.

    Positions count from 0, in this order. All processes must call the same methods with the same arguments.

    Args:
        own: the first sentences of this process as text, including those that do not count.
        owners: which process has each sentence; see :func:`find_owners`.
        statistics: the statistics of all sentences that count, in order.
        limit: the number of sentences of each process whose text is kept, if it has as many.

    Attributes:
        statistics: int32 of shape ``(sentences, 2 * max_order + 2)``, on the CPU.
        text_count: the number of sentences whose text is kept; these are the first ones.
    """

    def __init__(self, own: Sequence[Sentence], owners: Tensor, statistics: Tensor, limit: float) -> None:
        self._own = own
        self._owners = owners
        self.statistics = statistics.cpu()
        has_text = owners[:, 1] < limit
        self.text_count = int(min(has_text.cumprod(0).sum().item(), limit))

    def read(self, positions: Sequence[int]) -> list[Sentence]:
        """The texts at some positions. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(positions)].tolist()
        rank = process_rank()
        gathered = gather_objects({index: self._own[index] for owner, index in owners if owner == rank})
        return [gathered[owner][index] for owner, index in owners] if gathered else []


def find_owners(own: Sequence[Tensor], device: torch.device) -> Tensor:
    """The process of each sentence that counts, and its index there, in the order of the dataset. Collective.

    Args:
        own: the first two columns of the packed sentences of this process, by batch; see
            :func:`lightning_bleu.counting.rows.pack_rows`.
        device: the device for communication.

    Returns:
        integers of shape ``(sentences, 2)``, on the CPU.
    """
    packed = torch.cat([torch.zeros(0, 2, dtype=torch.int32, device=device), *(rows.to(device) for rows in own)])
    index = torch.arange(len(packed), dtype=torch.int32, device=device)[:, None]
    owned = torch.cat([packed, torch.full_like(index, process_rank()), index], 1)
    if process_count() > 1:
        (owned,) = gather_state(owned)
    owned = owned.reshape(-1, 4)  # gather_state() returns an empty vector if there are no sentences
    return owned[owned[:, 1] >= 0, 2:].cpu()
