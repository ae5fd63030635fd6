"""Loaders: where sentences come from, how they are read, and what their positions are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.processes import process_count
from lightning_bleu.core.settings import Settings
from lightning_bleu.evaluation.input.positions import find_index, number_sentences, shuffles


class Origin(NamedTuple):
    """Where sentences come from, for error messages.

    Attributes:
        name: what returns them, or what they are passed to.
        got, give, to: the words for it.
        owner: the class whose options the user has set.
    """

    name: str
    got: str = "returned"
    give: str = "return"
    to: str = "from"
    owner: str = "Evaluator"


CALL = Origin("update", "got", "pass", "to")
"""Sentences that a training loop passes to :meth:`lightning_bleu.Evaluator.update`."""


def check_given(origin: Origin, given: Sequence[Mapping[str, bool]], where: str) -> None:
    """Raise a ValueError for a field that only some sentences have."""
    for name in sorted(given[0] if given else ()):
        if len({fields[name] for fields in given}) > 1:
            raise ValueError(
                f"{origin.name!r} {origin.got} {name!r} {where} only: {origin.give} it for all sentences, or for none"
            )


class Positions(NamedTuple):
    """The positions of the sentences of a batch in their dataset.

    Attributes:
        values: shape ``(sentences,)``; None if they are unknown, or if nobody needs them.
        unknown: why repeated sentences cannot be found; empty if they can be.
    """

    values: IntArray | None
    unknown: str = ""


@dataclass(frozen=True, eq=False)
class Loader:
    """A loader of a validation: how to read and to identify its sentences.

    The position of a sentence in the dataset is the ``"index"`` that the step returns. Without one, several processes
    derive it from PyTorch's sampler, and a single process does not need it.

    Attributes:
        name: its name; empty if it has none.
        settings: how to read its sentences.
        dataloader: the loader itself; None if Lightning combines the batches of several.
        origin: where the sentences come from, for error messages.
        order_needed_by: the option that needs the order of the sentences, for error messages; empty if none does.
        labels: the labels of the groups that are scored; None for all sentences.
    """

    name: str
    settings: Settings
    dataloader: Any = None
    origin: Origin = CALL
    order_needed_by: str = ""
    labels: Collection[str] | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether none of its sentences is scored, so that nothing of it is read."""
        return self.labels is not None and not self.labels

    def find_positions(self, index: IntArray | None, batch_idx: int, sentence_count: int) -> Positions:
        """The positions of the sentences of a batch.

        Args:
            index: the positions that the step returned; None if it returned none.
            batch_idx: the index of the batch in this process.
            sentence_count: the number of sentences, at least one, with masked ones.

        Raises:
            ValueError: if the order of the sentences is needed and the loader shuffles.
        """
        if index is not None:
            return Positions(index)
        if self.order_needed_by and shuffles(self.dataloader):
            origin = self.origin
            raise ValueError(
                f"{self.order_needed_by} needs to know which sentence is which, but a loader shuffles them: "
                f"{origin.give} the position of each sentence in the dataset as 'index' {origin.to} {origin.name!r}, "
                "or set shuffle=False"
            )
        if process_count() == 1:
            return Positions(None)
        if self.dataloader is None:
            is_call = self.origin is CALL
            return Positions(None, "start() got no loader" if is_call else "its batches combine several loaders")
        items = find_index(self.dataloader, batch_idx)
        if items is None:
            return Positions(
                None,
                "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or "
                "in_order=False",
            )
        if not len(items):
            return Positions(None, "there were more batches than its loader has")
        if len(items) == sentence_count:
            return Positions(number_sentences(items.numpy(), np.arange(sentence_count)))
        rows = np.zeros(sentence_count, np.int64)  # all are of the first item
        is_single_item = len(items) == 1
        return Positions(
            number_sentences(items.numpy(), rows),
            "" if is_single_item else f"a batch of {len(items)} items became {sentence_count} sentences",
        )
