"""The CPU kernel: counts the n-grams of each hypothesis that match, for all orders at once.

It uses no hash table and no loop over sentences. N-grams are encoded as integers and sorted, so that equal n-grams
become neighbors:

1. *Label* every id with a small number, so that several labels fit into one 64-bit key.
2. *Pack* one key per token: its sentence, the labels of the next N tokens, and its source.
3. *Sort* the keys. For every n up to N, equal n-grams of a sentence share a prefix, so they now form a *run*.
4. *Count* the hypothesis keys and the reference keys in each run.

The source is 1 for the hypothesis and an even number for each reference. For example, take the hypothesis "a b a" and
the reference "a b c". For N = 2, the sorted keys include these pairs and sources (b sorts before a, because labels are
positions in the hypothesis, and a appears there last):

    b c 0 | b a 1 | a b 0 | a b 1 | a - 1 | ...

The run of "a" has two hypothesis keys and one reference key: one match. The run of "a b" has one of each: one match.
The run of "b" has one of each: one match. So 2 unigrams and 1 bigram match.

If N labels do not fit into a key, the kernel makes several passes. Each pass numbers the n-grams that have matched so
far; in the next pass, that number takes the place of the sentence in the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightning_bleu.reading.ragged import IntArray, Ragged, RaggedBatch, concatenate

_KEY_BITS = 63
_MAX_TOKENS = 2**14
"""Tokens per chunk, small enough for its arrays to stay in the cache of a CPU core."""
_MAX_HYPOTHESIS_TOKENS = 2**13 - 2
"""Hypothesis tokens per chunk, so that a label takes 13 bits and four labels fit into a key."""
_MAX_TABLE = 2**22
"""Ids with a smaller range than this are labeled with a lookup table, others by sorting."""

_MAX_CELLS = 2**20
"""The maximum number of (n-gram, reference) pairs counted at once."""

_NO_MATCH = 0
"""The label of ids that appear only in references."""


def count_matches(batch: RaggedBatch, max_order: int) -> IntArray:
    """Count the n-grams of every hypothesis that appear in its references.

    The count of each n-gram in the hypothesis is clipped at its largest count in any one reference (Papineni et al.
    2002, section 2.1.1).

    Args:
        batch: the sentences.
        max_order: the longest n-gram.

    Returns:
        matches, shape ``(sentences, max_order)``.

    Example:
        >>> the, cat, on, mat, is_, there, a = range(1, 8)
        >>> hypothesis = [the, cat, the, cat, on, the, mat]
        >>> references = [the, cat, is_, on, the, mat, there, is_, a, cat, on, the, mat]
        >>> tokens = Ragged.of(np.array(hypothesis + references), np.array([7, 6, 7]))
        >>> count_matches(RaggedBatch(tokens, np.array([2])), max_order=2).tolist()
        [[5, 4]]
    """
    chunks = [_count_chunk(chunk, max_order) for chunk in _chunks(batch)]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate([np.zeros((0, max_order), np.int64), *chunks])


def _chunks(batch: RaggedBatch) -> Iterator[RaggedBatch]:
    """Split a batch at sentence boundaries into chunks of limited size; a very long sentence gets its own chunk."""
    (ids, lengths, segments), counts = batch
    if len(ids) <= _MAX_HYPOTHESIS_TOKENS:
        yield batch
        return
    sentences = len(counts)
    # The first piece and the first token of each segment, and the first reference of each sentence.
    pieces = segments.searchsorted(np.arange(batch.tokens.segment_count + 1))
    tokens = np.concatenate([[0], lengths.cumsum()])[pieces]
    references = sentences + np.concatenate([[0], counts.cumsum()])
    hypothesis_tokens = tokens[: sentences + 1]
    all_tokens = hypothesis_tokens + tokens[references]
    start = 0
    while start < sentences:
        stop = max(
            start + 1,
            min(
                int(all_tokens.searchsorted(all_tokens[start] + _MAX_TOKENS, "right")) - 1,
                int(hypothesis_tokens.searchsorted(hypothesis_tokens[start] + _MAX_HYPOTHESIS_TOKENS, "right")) - 1,
            ),
        )
        sides = [(start, stop), (int(references[start]), int(references[stop]))]
        chunk = concatenate(
            [
                Ragged(
                    ids[tokens[first] : tokens[end]],
                    lengths[pieces[first] : pieces[end]],
                    segments[pieces[first] : pieces[end]] - first,
                )
                for first, end in sides
            ]
        )
        yield RaggedBatch(chunk, counts[start:stop])
        start = stop


def _count_chunk(batch: RaggedBatch, max_order: int) -> IntArray:
    """The matches of each sentence of a chunk, shape ``(sentences, max_order)``."""
    sentences, counted = batch.sentence_count, 0
    matches = np.zeros((max_order, sentences), np.int64)
    repeats = batch.tokens.lengths + 1  # positions per piece: its tokens and a gap
    gaps = repeats.cumsum() - 1
    pieces = batch.hypothesis_pieces
    hypothesis_tokens = int(gaps[pieces - 1]) - pieces + 1 if pieces else 0
    if hypothesis_tokens in (0, len(batch.tokens.ids)):
        return matches.T

    labels = _label_with_gaps(batch.tokens.ids, gaps, pieces, hypothesis_tokens, max_order)
    label_bits = (hypothesis_tokens + 1).bit_length()
    # The head of a key is the part before its labels: the sentence in the first pass, a matched n-gram in later ones.
    heads, sources = batch.piece_owners()
    source_bits = int(sources.max()).bit_length()
    head_sentences = np.arange(sentences, dtype=np.int64)
    positions: slice | IntArray = slice(len(labels) - max_order)
    while counted < max_order and len(heads):
        head_bits = (len(head_sentences) - 1).bit_length()
        orders = min((_KEY_BITS - head_bits - source_bits) // label_bits, max_order - counted)
        keys = _pack(labels[counted:], label_bits, orders)[positions] << source_bits
        keys += ((heads << orders * label_bits + source_bits) + sources).repeat(repeats)
        runs = _find_runs(np.sort(keys), orders, label_bits, source_bits)
        keys_per_sentence = np.bincount(head_sentences[heads], repeats, sentences).astype(np.int64)
        matches[counted : counted + orders] = runs.sum_matches(keys_per_sentence)
        counted += orders
        if counted < max_order:
            # Only an n-gram that matches can be the prefix of a longer match. Its number becomes the next head.
            known = runs.matched_keys() >> source_bits
            heads = known.searchsorted(keys >> source_bits)
            again = np.append(known, -1)[heads] == keys >> source_bits
            positions = np.arange(len(labels))[positions][again]
            heads, sources, repeats = heads[again], keys[again] & ((1 << source_bits) - 1), np.ones_like(positions)
            head_sentences = head_sentences[known >> orders * label_bits]
    return matches.T


def _label_with_gaps(
    ids: IntArray, gaps: IntArray, hypothesis_pieces: int, hypothesis_tokens: int, max_order: int
) -> IntArray:
    """The label of each token, with a gap after each piece.

    Gaps have one label in hypotheses and another in references, so no n-gram that spans a gap matches. The array ends
    with `max_order` extra labels, which complete the last n-grams.
    """
    is_token = np.ones(len(ids) + len(gaps), bool)
    is_token[gaps] = False
    labels = np.zeros(len(is_token) + max_order, np.int64)  # zeros are _NO_MATCH
    labels[: len(is_token)][is_token] = _label(ids, hypothesis_tokens)
    labels[gaps[:hypothesis_pieces]] = hypothesis_tokens + 1
    return labels


def _label(ids: IntArray, hypothesis_tokens: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Give equal ids equal labels, from 1 to the number of hypothesis tokens.

    Ids that appear only in references all get the label :data:`_NO_MATCH`.

    Example:
        >>> _label(np.array([70, 80, 70, 80, 90, 70]), hypothesis_tokens=3).tolist()
        [3, 2, 3, 2, 0, 3]
    """
    largest = int(ids.view(np.uint64).max())  # as unsigned integers, negative ids are the largest
    if largest >= _MAX_TABLE:
        ids = ids - ids.min()
        largest = int(ids.view(np.uint64).max())
    if largest < _MAX_TABLE:
        # Each id is labeled with its last position in the hypotheses. The table needs no initialization, because only
        # entries that were just written are read.
        table = np.empty(largest + 1, np.int32)
        table[ids[hypothesis_tokens:]] = _NO_MATCH
        table[ids[:hypothesis_tokens]] = np.arange(1, hypothesis_tokens + 1, dtype=np.int32)
        return table[ids]
    known = np.sort(ids[:hypothesis_tokens])
    places = known.searchsorted(ids)
    return np.where(known[np.minimum(places, hypothesis_tokens - 1)] == ids, places + 1, _NO_MATCH)


def _pack(labels: IntArray, label_bits: int, count: int) -> IntArray:
    """Pack `count` neighboring labels into one integer, the first label in the highest bits.

    Example:
        >>> [hex(key) for key in _pack(np.array([1, 2, 3, 4]), label_bits=4, count=3)]
        ['0x123', '0x234']
    """
    if count == 1:
        return labels
    half = count // 2
    halves = _pack(labels, label_bits, half)
    keys = halves[:-half] << half * label_bits
    keys += halves[half:]
    return keys if count % 2 == 0 else (keys[:-1] << label_bits) + labels[2 * half :]


class _Runs(NamedTuple):
    """The runs of a pass. A run is two or more sorted keys that begin with the same labels.

    A position in the runs of order n is ``(n - 1) * (len(keys) + 1)`` plus an index into `keys`.

    Attributes:
        keys: the sorted keys.
        orders: the longest prefix, in labels, for which runs were found.
        starts: the position of the first key of each run, ascending.
        matches: the number of matches in each run.
    """

    keys: IntArray
    orders: int
    starts: IntArray
    matches: IntArray

    def sum_matches(self, keys_per_sentence: IntArray) -> IntArray:
        """The matches of each order and sentence, shape ``(orders, sentences)``."""
        spread = np.zeros((self.orders, len(self.keys) + 1), np.int64)
        spread.reshape(-1)[self.starts] = self.matches
        sums = np.add.reduceat(spread, keys_per_sentence.cumsum() - keys_per_sentence, axis=1)
        if not keys_per_sentence.all():
            sums[:, keys_per_sentence == 0] = 0  # where reduceat returns the next value
        return sums

    def matched_keys(self) -> IntArray:
        """One key from each run of the highest order that has a match."""
        row = (self.orders - 1) * (len(self.keys) + 1)
        runs = slice(int(self.starts.searchsorted(row)), None)
        return self.keys[self.starts[runs][self.matches[runs] > 0] - row]


def _find_runs(keys: IntArray, orders: int, label_bits: int, source_bits: int) -> _Runs:
    """Find the runs of 1, 2, ... equal labels in sorted keys, and count the matches in each."""
    # joined[n, i]: whether keys i - 1 and i are in the same run of order n + 1. Runs start and stop where it changes.
    joined = np.zeros((orders, len(keys) + 1), bool)
    suffix_bits = source_bits + label_bits * np.arange(orders - 1, -1, -1, dtype=np.int64)[:, None]
    np.less(keys[1:] ^ keys[:-1], 1 << suffix_bits, out=joined[:, 1:-1])
    flat = joined.reshape(-1)
    edges = (flat[1:] != flat[:-1]).nonzero()[0]
    starts, stops = edges[::2].copy(), edges[1::2] + 1  # contiguous arrays index faster

    in_hypothesis = np.zeros(len(keys) + 1, np.int64)
    (keys & 1).cumsum(out=in_hypothesis[1:])
    counts = in_hypothesis.take(stops, mode="wrap") - in_hypothesis.take(starts, mode="wrap")
    sizes = stops - starts
    matches = np.minimum(counts, sizes - counts)
    if source_bits > 1:
        # Already exact unless an n-gram appears several times on both sides: then clip at its count in one reference.
        several = (matches > 1).nonzero()[0]
        first = starts[several] % len(in_hypothesis)
        sources = keys & ((1 << source_bits) - 1)
        clip = _most_in_one_reference(sources, first, sizes[several], source_bits)
        matches[several] = np.minimum(counts[several], clip)
    return _Runs(keys, orders, starts, matches)


def _most_in_one_reference(sources: IntArray, first: IntArray, sizes: IntArray, source_bits: int) -> IntArray:
    """The largest number of keys in each run that come from the same reference.

    Example:
        >>> sources = np.array([1, 1, 0, 2, 2, 1, 0])  # 1 is the hypothesis, even numbers are references
        >>> _most_in_one_reference(sources, first=np.array([0, 5]), sizes=np.array([5, 2]), source_bits=2).tolist()
        [2, 1]
    """
    largest = np.zeros(len(first), np.int64)
    step = max(1, _MAX_CELLS >> source_bits)
    for start in range(0, len(first), step):
        runs = slice(start, start + step)
        ends = sizes[runs].cumsum()
        members = np.arange(ends[-1]) + (first[runs] - (ends - sizes[runs])).repeat(sizes[runs])
        cells = sources[members] + (np.arange(len(ends), dtype=np.int64) << source_bits).repeat(sizes[runs])
        counts = np.bincount(cells, minlength=len(ends) << source_bits).reshape(len(ends), -1)
        largest[runs] = counts[:, ::2].max(1)
    return largest
