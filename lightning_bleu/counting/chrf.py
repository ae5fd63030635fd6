"""Rows of chrF: the n-grams of characters and of words of every hypothesis, for each of its references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.counting.words import chrf_word_ids
from lightning_bleu.reading.batch import Batch, to_lines
from lightning_bleu.reading.ragged import IntArray, Ragged, ranges, row_lengths
from lightning_bleu.settings.chrf import CHRFSettings


def count_chrf_rows(batch: Batch, settings: CHRFSettings) -> IntArray:
    """Count the n-grams of every hypothesis and each of its references.

    Args:
        batch: the sentences, as text; see :func:`lightning_bleu.reading.batch.read_batch`.
        settings: what to count.

    Returns:
        shape ``(references, 3 * orders)``: for each order of characters, then of words, the n-grams of the hypothesis
        (0 if the reference has none), those of the reference, and those that match.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> settings = CHRFSettings.from_options(char_order=2, word_order=1)
        >>> count_chrf_rows(read_batch(["a cat"], ["a car"], settings), settings).tolist()
        [[4, 4, 3, 3, 3, 2, 2, 2, 1]]
    """
    counts = batch.reference_counts
    lines = to_lines(batch.segments)
    if settings.lowercase:
        lines = [line.lower() for line in lines]
    rows = np.empty((len(lines) - len(counts), settings.orders, 3), np.int64)  # one per reference
    if settings.char_order:
        rows[:, : settings.char_order] = _count(character_ids(lines, settings), counts, settings.char_order)
    if settings.word_order:
        rows[:, settings.char_order :] = _count(chrf_word_ids(lines), counts, settings.word_order)
    return rows.reshape(len(rows), 3 * settings.orders)


def _count(tokens: Ragged, counts: IntArray, orders: int) -> IntArray:
    """The n-grams of each reference and of its hypothesis, and those that match, ``(references, orders, 3)``."""
    sentences = len(counts)
    if len(tokens.lengths) > 2 * sentences:
        tokens = _repeat_hypotheses(tokens, counts)
    references = len(tokens.lengths) // 2
    n = np.arange(orders)
    rows = np.empty((references, orders, 3), np.int64)
    rows[..., 1] = np.maximum(tokens.lengths[references:, None] - n, 0)
    rows[..., 0] = np.maximum(tokens.lengths[:references, None] - n, 0) * (rows[..., 1] > 0)
    rows[..., 2] = count_matches(tokens, np.ones(references, np.int64), orders)
    return rows


def _repeat_hypotheses(tokens: Ragged, counts: IntArray) -> Ragged:
    """Repeat each hypothesis for each of its references.

    Example:
        >>> _repeat_hypotheses(Ragged(np.array([5, 6, 7, 8, 9]), np.array([2, 1, 2])), np.array([2])).rows()
        [[5, 6], [5, 6], [7], [8, 9]]
    """
    sentences = len(counts)
    lengths = tokens.lengths[:sentences]
    starts, repeated = (lengths.cumsum() - lengths).repeat(counts), lengths.repeat(counts)
    ids = np.concatenate([tokens.ids[ranges(starts, repeated)], tokens.ids[lengths.sum() :]])
    return Ragged(ids, np.concatenate([repeated, tokens.lengths[sentences:]]))


def character_ids(lines: Sequence[str], settings: CHRFSettings) -> Ragged:
    """The code points of each line, without whitespace unless it counts.

    Example:
        >>> character_ids(["a b", ""], CHRFSettings()).rows()
        [[97, 98], []]
    """
    if not settings.whitespace:
        lines = ["".join(line.split()) for line in lines]
    ids = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    return Ragged(ids, row_lengths(lines))
