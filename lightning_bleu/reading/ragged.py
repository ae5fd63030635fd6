"""Ragged: tokens without padding, the representation for counting on the CPU.

A *segment* is a hypothesis or a reference. The tokens of all segments are stored in one flat array, and the lengths of
the segments say where each one ends:

    ids      5 6 7 | 5 8 |     | 9
    lengths    3      2     0    1

Most segments consist of a single *piece*. If n-grams must not span removed ids (``break_ngrams``), a segment is split
into several pieces at these ids. Counting never crosses the boundary of a piece, so it needs no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lightning_bleu.settings.special_ids import SpecialIds

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class Ragged(NamedTuple):
    """The tokens of many segments, concatenated.

    Attributes:
        ids: the tokens of all pieces, shape ``(tokens,)``.
        lengths: the number of tokens of each piece, shape ``(pieces,)``.
        segments: the segment that each piece belongs to, shape ``(pieces,)``. Ascending; every segment has at least one
            piece, which may be empty.
    """

    ids: IntArray
    lengths: IntArray
    segments: IntArray

    @classmethod
    def of(cls, ids: IntArray, lengths: IntArray) -> Ragged:
        """Create segments of one piece each."""
        return cls(ids, lengths, np.arange(len(lengths), dtype=np.int64))

    @property
    def segment_count(self) -> int:
        """The number of segments."""
        return int(self.segments[-1]) + 1 if len(self.segments) else 0

    @property
    def segment_lengths(self) -> IntArray:
        """The number of tokens of each segment, shape ``(segments,)``."""
        if len(self.lengths) == self.segment_count:
            return self.lengths
        return np.add.reduceat(self.lengths, first_positions(self.segments))

    def rows(self) -> list[list[int]]:
        """The tokens of each segment.

        Example:
            >>> Ragged.of(np.array([5, 6, 7, 5, 8]), np.array([3, 2])).rows()
            [[5, 6, 7], [5, 8]]
        """
        ids, ends = self.ids.tolist(), self.segment_lengths.cumsum().tolist()
        return [ids[start:end] for start, end in zip([0, *ends], ends)]


def first_positions(ascending: IntArray) -> IntArray:
    """The index at which each distinct value of an ascending array first appears.

    Example:
        >>> first_positions(np.array([0, 0, 1, 2, 2])).tolist()
        [0, 2, 3]
    """
    new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return np.flatnonzero(new)


def clean(ragged: Ragged, special_ids: SpecialIds) -> Ragged:
    """Remove padding, markers, and everything from the end-of-sentence id on.

    Args:
        ragged: segments of one piece each.
        special_ids: which ids to remove.

    Example:
        >>> padded = Ragged.of(np.array([1, 5, 6, 2, 0, 1, 7, 2, 8, 0]), np.array([5, 5]))
        >>> clean(padded, SpecialIds(pad_id=0, bos_id=1, eos_id=2)).rows()
        [[5, 6], [7]]
    """
    ids, lengths = ragged.ids, ragged.lengths
    keep: BoolArray | None = None
    for removed in special_ids.removed:
        keep = ids != removed if keep is None else keep & (ids != removed)
    if special_ids.eos_id is not None:
        if keep is None:
            keep = np.ones(len(ids), bool)
        ends = lengths.cumsum()
        search_from = ends - lengths
        if special_ids.eos_also_leads:
            search_from = next_positions(keep, search_from)
        ends = np.minimum(next_positions(ids == special_ids.eos_id, search_from), ends)
        keep &= np.arange(len(ids)) < ends.repeat(lengths)
    if keep is None:
        return ragged
    return select(ragged, keep, break_ngrams=special_ids.break_ngrams)


def next_positions(flags: BoolArray, positions: IntArray) -> IntArray:
    """For each position, the first position at or after it with a set flag; ``len(flags)`` if there is none.

    Example:
        >>> next_positions(np.array([False, True, False, True, False]), np.array([0, 1, 2, 4])).tolist()
        [1, 1, 3, 5]
    """
    found = np.append(np.flatnonzero(flags), len(flags))
    return found[found.searchsorted(positions)]


def select(ragged: Ragged, keep: BoolArray, *, break_ngrams: bool) -> Ragged:
    """Keep a subset of the tokens.

    Args:
        ragged: segments of any number of pieces.
        keep: booleans of shape ``(tokens,)``; True for tokens to keep.
        break_ngrams: whether a removed token ends a piece. If not, the tokens on both sides of it become adjacent.

    Example:
        >>> ragged, keep = Ragged.of(np.array([5, 6, 7, 8]), np.array([4])), np.array([True, False, True, True])
        >>> select(ragged, keep, break_ngrams=False).lengths.tolist()
        [3]
        >>> select(ragged, keep, break_ngrams=True).lengths.tolist()
        [1, 2]
    """
    positions = keep.nonzero()[0]
    ends = positions.searchsorted(ragged.lengths.cumsum())
    segments = ragged.segments
    if break_ngrams:
        breaks = np.flatnonzero(np.diff(positions) > 1) + 1
        segments = segments.repeat(1 + np.bincount(ends.searchsorted(breaks), minlength=len(ends)))
        ends = np.sort(np.concatenate([ends, breaks]))
    lengths = ends.copy()
    lengths[1:] -= ends[:-1]
    return Ragged(ragged.ids[positions], lengths, segments)


def concatenate(parts: Sequence[Ragged]) -> Ragged:
    """All segments of several parts, in order.

    Example:
        >>> concatenate([Ragged.of(np.array([5, 6]), np.array([2])), Ragged.of(np.array([7]), np.array([0, 1]))]).rows()
        [[5, 6], [], [7]]
    """
    ids, lengths, segments = zip(*parts)
    offsets = accumulate((part.segment_count for part in parts), initial=0)
    return Ragged(
        np.concatenate(ids),
        np.concatenate(lengths),
        np.concatenate([own + offset for own, offset in zip(segments, offsets)]),
    )


class RaggedBatch(NamedTuple):
    """The sentences of one call, or of several that are counted together.

    Attributes:
        tokens: all hypotheses, then all references, sentence by sentence.
        reference_counts: the number of references of each sentence, shape ``(sentences,)``.
    """

    tokens: Ragged
    reference_counts: IntArray

    @property
    def sentence_count(self) -> int:
        """The number of sentences."""
        return len(self.reference_counts)

    @property
    def hypothesis_pieces(self) -> int:
        """The number of pieces that belong to hypotheses."""
        segments, sentences = self.tokens.segments, self.sentence_count
        if sentences and segments[sentences] == sentences:
            return sentences
        return int(segments.searchsorted(sentences))

    def sides(self) -> tuple[Ragged, Ragged]:
        """The hypotheses and the references."""
        ids, lengths, segments = self.tokens
        pieces = self.hypothesis_pieces
        tokens = int(lengths[:pieces].sum())
        return (
            Ragged(ids[:tokens], lengths[:pieces], segments[:pieces]),
            Ragged(ids[tokens:], lengths[pieces:], segments[pieces:] - self.sentence_count),
        )

    def piece_owners(self) -> tuple[IntArray, IntArray]:
        """The sentence and the source of each piece.

        The source of a hypothesis is 1. The references of a sentence have different even numbers below twice the
        largest number of references. So the lowest bit tells the sides apart.

        Example:
            >>> tokens = Ragged.of(np.array([5, 6, 5, 7, 6, 8]), np.array([1, 1, 1, 2, 1]))
            >>> sentences, sources = RaggedBatch(tokens, reference_counts=np.array([2, 1])).piece_owners()
            >>> sentences.tolist(), sources.tolist()
            ([0, 1, 0, 0, 1], [1, 1, 0, 2, 0])
        """
        counts, segments = self.reference_counts, self.tokens.segments
        hypotheses = np.arange(len(counts), dtype=np.int64)
        sentences = np.concatenate([hypotheses, hypotheses.repeat(counts)])
        # Consecutive numbers differ modulo the largest number of references.
        sources = np.arange(-len(counts), len(sentences) - len(counts), dtype=np.int64) % counts.max() * 2
        sources[: len(counts)] = 1
        if len(segments) == len(sentences):
            return sentences, sources
        return sentences[segments], sources[segments]


def merge(batches: Sequence[RaggedBatch]) -> RaggedBatch:
    """The sentences of several batches as one batch.

    Example:
        >>> first = RaggedBatch(Ragged.of(np.array([5, 6, 7]), np.array([1, 1, 1])), np.array([2]))
        >>> second = RaggedBatch(Ragged.of(np.array([8, 9]), np.array([1, 1])), np.array([1]))
        >>> merge([first, second]).tokens.rows()
        [[5], [8], [6], [7], [9]]
    """
    hypotheses, references = zip(*(batch.sides() for batch in batches))
    counts = np.concatenate([batch.reference_counts for batch in batches])
    return RaggedBatch(concatenate([*hypotheses, *references]), counts)


def drop_fillers(batch: RaggedBatch) -> RaggedBatch:
    """Drop empty references from sentences that also have a nonempty one.

    A tensor has the same number of references for all sentences, so sentences with fewer references are filled up with
    empty rows. :func:`lightning_bleu.counting.padded.join` applies the same rule on an accelerator.

    Example:
        >>> tokens = Ragged.of(np.array([5, 6, 7]), np.array([1, 0, 2, 0, 0, 0]))
        >>> batch = drop_fillers(RaggedBatch(tokens, np.array([2, 2])))
        >>> batch.tokens.rows(), batch.reference_counts.tolist()
        ([[5], [], [6, 7], [], []], [1, 2])
    """
    sentences, references = batch.sentence_count, batch.reference_counts.max(initial=0)
    has_tokens = (batch.tokens.segment_lengths[sentences:] > 0).reshape(sentences, references)
    stays = has_tokens | ~has_tokens.any(1, keepdims=True)
    if stays.all():
        return batch
    segment_stays = np.concatenate([np.ones(sentences, bool), stays.reshape(-1)])
    ids, lengths, segments = batch.tokens
    piece_stays = segment_stays[segments]
    numbers = segment_stays.cumsum() - 1
    return RaggedBatch(Ragged(ids, lengths[piece_stays], numbers[segments[piece_stays]]), stays.sum(1))
