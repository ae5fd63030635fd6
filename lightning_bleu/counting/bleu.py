"""Rows: the statistics of every sentence."""

from __future__ import annotations

import numpy as np

from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.counting.words import token_ids
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Ids
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.settings.bleu import BLEUSettings
from lightning_bleu.settings.lengths import LengthRule


def count_rows(batch: Batch, settings: BLEUSettings, *, orders: int | None = None) -> IntArray:
    """Count the n-grams of every sentence.

    Args:
        batch: the sentences; see :func:`lightning_bleu.reading.batch.read_batch`.
        settings: how to tokenize, and what to count.
        orders: the longest n-gram; ``max_order`` when None.

    Returns:
        shape ``(sentences, 2 * orders + 2)``. The columns are those of
        :class:`lightning_bleu.scoring.bleu.Statistics`: matches, possible matches, hypothesis length, and reference
        length.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> settings = BLEUSettings.from_options(max_order=2)
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
