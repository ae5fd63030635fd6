"""Rows: the statistics of every sentence, and how a metric keeps them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.counting.words import token_ids
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Ids
from lightning_bleu.reading.ragged import BoolArray, IntArray
from lightning_bleu.settings.lengths import LengthRule
from lightning_bleu.settings.settings import Settings


def count_rows(batch: Batch, settings: Settings, *, orders: int | None = None) -> IntArray:
    """Count the n-grams of every sentence.

    Args:
        batch: the sentences; see :func:`lightning_bleu.reading.batch.read_batch`.
        settings: how to tokenize, and what to count.
        orders: the longest n-gram; ``max_order`` when None.

    Returns:
        shape ``(sentences, 2 * orders + 2)``. The columns are those of
        :class:`lightning_bleu.scoring.score.Statistics`: matches, possible matches, hypothesis length, and reference
        length.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> settings = Settings.from_options(max_order=2)
        >>> count_rows(read_batch(["the cat sat"], ["the cat sat down"], settings), settings).tolist()
        [[3, 2, 3, 2, 3, 4]]
    """
    orders = orders or settings.max_order
    tokens, counts = token_ids(batch.segments, settings), batch.reference_counts
    unk_id = settings.unk_id if isinstance(batch.segments, Ids) else None
    hypotheses, references = tokens.lengths[: len(counts)], tokens.lengths[len(counts) :]
    rows = np.empty((len(counts), 2 * orders + 2), np.int64)
    rows[:, :orders] = count_matches(tokens, counts, orders, unk_id=unk_id)
    rows[:, orders:-2] = np.maximum(hypotheses[:, None] - np.arange(orders), settings.min_possible_matches)
    rows[:, -2] = hypotheses
    rows[:, -1] = choose_reference_lengths(settings.length_rule, hypotheses, references, counts)
    return rows


def choose_reference_lengths(
    rule: LengthRule, hypotheses: IntArray, references: IntArray, reference_counts: IntArray
) -> IntArray:
    """Choose the reference length of each sentence.

    Args:
        rule: one of :data:`lightning_bleu.settings.lengths.REFERENCE_LENGTHS`.
        hypotheses: the lengths of the hypotheses, shape ``(sentences,)``.
        references: the lengths of all references, sentence by sentence.
        reference_counts: the number of references of each sentence, at least 1, shape ``(sentences,)``.

    Example:
        >>> from lightning_bleu.settings.lengths import closest
        >>> choose_reference_lengths(closest, np.array([10, 4]), np.array([7, 12, 8, 9]), np.array([3, 1])).tolist()
        [8, 9]
    """
    if len(references) == len(hypotheses):
        return references
    # Adding the index breaks ties in favor of the first reference.
    costs = rule(hypotheses.repeat(reference_counts), references) * len(references) + np.arange(len(references))
    cheapest: IntArray = np.minimum.reduceat(costs, reference_counts.cumsum() - reference_counts)
    return references[cheapest % len(references)]


def pack_rows(rows: IntArray, mask: BoolArray | None) -> npt.NDArray[np.int32]:
    """Pack rows for storage.

    Args:
        rows: shape ``(sentences, columns)``.
        mask: which sentences count, shape ``(sentences,)``, or ``(1,)`` if the whole batch is one dataset item; None
            for all.

    Returns:
        int32 of shape ``(sentences, 1 + columns)``. The first column is 1 where a dataset item begins. The other
        columns are -1 for sentences that do not count.
    """
    packed = np.ones((len(rows), 1 + rows.shape[1]), np.int32)
    packed[:, 1:] = rows
    if mask is not None:
        packed[~np.broadcast_to(mask, len(rows)), 1:] = -1
        if len(mask) < len(rows):
            packed[1:, 0] = 0
    return packed


def unpack_rows(packed: Tensor) -> Tensor:
    """The rows of the sentences that count.

    Example:
        >>> import torch
        >>> packed = pack_rows(np.array([[3, 4], [1, 2]]), np.array([True, False]))
        >>> unpack_rows(torch.from_numpy(packed))
        tensor([[3, 4]], dtype=torch.int32)
    """
    is_counted = packed[:, 1] >= 0
    return packed[:, 1:] if is_counted.all() else packed[is_counted, 1:]  # without a mask, a view saves memory
