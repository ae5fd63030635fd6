"""The sentences of an evaluation in the order of the dataset, whichever processes have them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.processes import gather_objects, gather_state, process_count, process_rank
from lightning_bleu.reading.batch import Batch, source_lines
from lightning_bleu.reading.forms import Form, Strings
from lightning_bleu.settings.settings import Settings


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


class Texts:
    """The sentences of this process, from which texts are made when they are needed.

    Args:
        settings: how the sentences were read.
        limit: sentences beyond this number are not kept, except for the rest of their batch.
    """

    def __init__(self, settings: Settings, limit: float) -> None:
        self.settings = settings
        self.limit = limit
        self._batches: list[tuple[Batch, Form | None]] = []
        self._starts: list[int] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more sentences are kept."""
        return self._count >= self.limit

    def add(self, batch: Batch, sources: Form | None) -> None:
        """Keep the sentences of a batch."""
        if not self.is_full:
            self._starts.append(self._count)
            self._batches.append((batch, sources))
            self._count += batch.sentence_count

    def read(self, indices: Iterable[int]) -> dict[int, Sentence]:
        """The texts of some sentences."""
        found: dict[int, Sentence] = {}
        read: dict[int, list[Sentence]] = {}
        for index in indices:
            number = bisect_right(self._starts, index) - 1
            if number not in read:
                read = {number: self._read_batch(number)}  # indices mostly ascend, so one batch at a time is enough
            found[index] = read[number][index - self._starts[number]]
        return found

    def _read_batch(self, number: int) -> list[Sentence]:
        batch, sources = self._batches[number]
        texts = batch.texts()
        lines: Sequence[str | None] = [None] * len(texts)
        if sources is not None:
            lines = source_lines(sources, self.settings)
        tokenized = not isinstance(batch.segments, Strings)
        return [Sentence(*text, source, tokenized) for text, source in zip(texts, lines)]


class Sentences:
    """The sentences of all processes that count, in the order of the dataset.

    A *row* is the position of a sentence among them. All processes must call the same methods with the same arguments.

    Args:
        texts: the sentences of this process.
        owners: which process has each sentence; see :func:`find_owners`.
        statistics: the statistics of all sentences that count, in order.

    Attributes:
        statistics: int32 of shape ``(sentences, 2 * max_order + 2)``, on the CPU.
        text_count: the number of rows whose text is kept; these are the first ones.
    """

    def __init__(self, texts: Texts, owners: Tensor, statistics: Tensor) -> None:
        self._texts = texts
        self._owners = owners
        self.statistics = statistics.cpu()
        has_text = owners[:, 1] < texts.limit
        self.text_count = int(min(has_text.cumprod(0).sum().item(), texts.limit))

    def read(self, rows: Sequence[int]) -> list[Sentence]:
        """The texts of some rows. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(rows)].tolist()
        rank = process_rank()
        own = self._texts.read(index for owner, index in owners if owner == rank)
        gathered = gather_objects(own)
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
