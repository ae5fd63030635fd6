"""Tokens → statistics: the matches, possible matches, and lengths of every sentence.

The same columns for ragged and padded tokens. Both functions return int64 of shape
``(sentences, 2 * max_order + 2)`` with the columns of :class:`lightning_bleu.scoring.score.Statistics`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting import ngrams, ngrams_accelerator
from lightning_bleu.counting.padded import Padded
from lightning_bleu.reading.ragged import IntArray, RaggedBatch, first_positions, select
from lightning_bleu.settings.lengths import LengthRule, choose_padded, choose_ragged


def ragged_statistics(
    batch: RaggedBatch, max_order: int, rule: LengthRule, *, unk_id: int | None = None, min_possible_matches: int = 0
) -> Tensor:
    """Count sentences on the CPU.

    Args:
        batch: the sentences.
        max_order: the longest n-gram.
        rule: how to choose the reference length.
        unk_id: the unknown word, which matches nothing in a reference.
        min_possible_matches: the minimum number of possible matches per sentence and order.

    Example:
        >>> from lightning_bleu.settings.lengths import closest
        >>> from lightning_bleu.reading.ragged import Ragged
        >>> tokens = Ragged.of(np.array([5, 6, 7, 5, 6, 8, 7]), np.array([3, 4]))
        >>> ragged_statistics(RaggedBatch(tokens, np.array([1])), 2, closest)
        tensor([[3, 1, 3, 2, 3, 4]])
    """
    tokens, counts = batch
    sentences = batch.sentence_count
    lengths = tokens.segment_lengths
    if unk_id is not None:
        is_hypothesis = np.arange(len(tokens.ids)) < lengths[:sentences].sum()
        batch = RaggedBatch(select(tokens, is_hypothesis | (tokens.ids != unk_id), break_ngrams=True), counts)
    statistics = np.empty((sentences, 2 * max_order + 2), np.int64)
    statistics[:, :max_order] = ngrams.count_matches(batch, max_order)
    statistics[:, max_order:-2] = _possible_matches(batch, max_order, min_possible_matches)
    statistics[:, -2] = lengths[:sentences]
    statistics[:, -1] = choose_ragged(rule, lengths[:sentences], lengths[sentences:], counts)
    return torch.from_numpy(statistics)


def _possible_matches(batch: RaggedBatch, max_order: int, at_least: int) -> IntArray:
    """The number of n-grams of each hypothesis, but no less than `at_least`, shape ``(sentences, max_order)``."""
    pieces = batch.hypothesis_pieces
    windows: IntArray = batch.tokens.lengths[:pieces, None] - np.arange(max_order)
    if pieces > batch.sentence_count:
        windows = np.add.reduceat(np.maximum(windows, 0), first_positions(batch.tokens.segments[:pieces]))
    return np.maximum(windows, at_least)


def padded_statistics(batch: Padded, max_order: int, rule: LengthRule, *, min_possible_matches: int = 0) -> Tensor:
    """Count sentences on an accelerator, without waiting for it; see :func:`ragged_statistics`."""
    matches, possible_matches = ngrams_accelerator.count_ngrams(batch, max_order)
    columns = [
        matches,
        possible_matches.clamp(min=min_possible_matches) if min_possible_matches else possible_matches,
        batch.lengths[:, :1],
        choose_padded(rule, batch.lengths, batch.missing)[:, None],
    ]
    return torch.cat(columns, 1)
