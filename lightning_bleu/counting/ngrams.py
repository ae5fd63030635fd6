"""The kernel on the CPU: how many n-grams of each hypothesis match, for all orders at once.

No hash table and no loop over sentences. N-grams are integers, and sorting them brings equal ones together:

1. *Label* every id with a small number, so that several labels fit into one 64-bit key.
2. *Pack* one key per token: its sentence, the labels of the next N tokens, and the segment it comes from.
3. *Sort* the keys. All n-grams of one sentence that are equal now form a *run*, for every n up to N, because they share
   a prefix.
4. *Count* the keys of the hypothesis and those of the references in each run.

For example, with the hypothesis "a b a" (segment 0) and the reference "a b c" (segment 1) of one sentence, the sorted
keys for N = 2 begin with the pairs

    a b 0 | a b 1 | a - 0 | b a 0 | b - 1 | ...

The run of prefix "a" holds two keys of the hypothesis and one of the reference: one match. The run of "a b" holds one
of each: one match. The run of "b" holds one of each: one match. Hence 2 unigrams and 1 bigram match.

If the labels do not all fit into a key, several passes are made. Each pass replaces the n-grams that matched so far by
one number, which then takes the place of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightning_bleu.counting.ragged import IntArray, Ragged, RaggedBatch

_KEY_BITS = 63
_MAX_TOKENS = 2**14
"""Tokens per chunk: its arrays stay in the cache of a CPU core."""
_MAX_HYPOTHESIS_TOKENS = 2**13 - 2
"""Tokens of hypotheses per chunk: 13 bits for a label, so that four labels fit into a key."""
_MAX_TABLE = 2**22
"""Ids that span less than this are labeled through a table, others through a sort."""

_MAX_CELLS = 2**20
"""Pairs of an n-gram and a reference that are counted at once."""

_NO_MATCH = 0
"""The label of everything in a reference that no hypothesis has."""


def count_matches(batch: RaggedBatch, max_order: int) -> IntArray:
    """Count the n-grams of every hypothesis that appear in its references.

    An n-gram matches as often as it appears in the hypothesis, but at most as often as in the one reference that has
    most of it (Papineni et al. 2002, section 2.1.1).

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
    """Split a batch between sentences, so that no chunk has too many tokens; a very long sentence is alone."""
    (ids, lengths, segments), counts = batch
    if len(ids) <= _MAX_HYPOTHESIS_TOKENS:
        yield batch
        return
    sentences = len(counts)
    # Where each segment begins, in pieces and in tokens, and the first reference of each sentence.
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
        chunk = Ragged(
            np.concatenate([ids[tokens[first] : tokens[end]] for first, end in sides]),
            np.concatenate([lengths[pieces[first] : pieces[end]] for first, end in sides]),
            np.concatenate(
                [
                    segments[pieces[first] : pieces[end]] - first + offset
                    for (first, end), offset in zip(sides, (0, stop - start))
                ]
            ),
        )
        yield RaggedBatch(chunk, counts[start:stop])
        start = stop


def _count_chunk(batch: RaggedBatch, max_order: int) -> IntArray:
    """The matches of a few sentences, shape ``(sentences, max_order)``."""
    sentences, counted = batch.sentence_count, 0
    matches = np.zeros((max_order, sentences), np.int64)
    hypothesis_tokens = int(batch.tokens.lengths[: batch.hypothesis_pieces].sum())
    if hypothesis_tokens in (0, len(batch.tokens.ids)):
        return matches.T

    labels = _label_with_gaps(batch, hypothesis_tokens, max_order)
    label_bits = (hypothesis_tokens + 1).bit_length()
    segment_bits = int(batch.reference_counts.max()).bit_length()
    # The head of a key is what it has in common with others before their labels: in the first pass, the sentence.
    heads, segments = batch.piece_owners()
    head_sentences = np.arange(sentences, dtype=np.int64)
    repeats = batch.tokens.lengths + 1
    positions: slice | IntArray = slice(len(labels) - max_order)
    while counted < max_order and len(heads):
        head_bits = (len(head_sentences) - 1).bit_length()
        orders = min((_KEY_BITS - head_bits - segment_bits) // label_bits, max_order - counted)
        keys = _pack(labels[counted:], label_bits, orders)[positions] << segment_bits
        keys += ((heads << orders * label_bits + segment_bits) + segments).repeat(repeats)
        runs = _find_runs(np.sort(keys), orders, label_bits, segment_bits)
        keys_per_sentence = np.bincount(head_sentences[heads], repeats, sentences).astype(np.int64)
        matches[counted : counted + orders] = runs.sum_matches(keys_per_sentence)
        counted += orders
        if counted < max_order:
            # Only an n-gram that matches can begin a longer one that does. Its number is the next head.
            known = runs.matched_keys() >> segment_bits
            heads = known.searchsorted(keys >> segment_bits)
            again = np.append(known, -1)[heads] == keys >> segment_bits
            positions = np.arange(len(labels))[positions][again]
            heads, segments, repeats = heads[again], keys[again] & ((1 << segment_bits) - 1), np.ones_like(positions)
            head_sentences = head_sentences[known >> orders * label_bits]
    return matches.T


def _label_with_gaps(batch: RaggedBatch, hypothesis_tokens: int, max_order: int) -> IntArray:
    """The label of each token, with a gap after each piece.

    The gaps of hypotheses have one label and those of references another, so no n-gram that spans a gap matches. There
    are `max_order` labels more at the end, which complete the last n-grams.
    """
    gaps = (batch.tokens.lengths + 1).cumsum() - 1
    is_token = np.ones(len(batch.tokens.ids) + len(gaps), bool)
    is_token[gaps] = False
    labels = np.full(len(is_token) + max_order, _NO_MATCH, np.int64)
    labels[: len(is_token)][is_token] = _label(batch.tokens.ids, hypothesis_tokens)
    labels[gaps[: batch.hypothesis_pieces]] = hypothesis_tokens + 1
    return labels


def _label(ids: IntArray, hypothesis_tokens: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Give equal ids equal labels, from 1 to the number of hypothesis tokens.

    Ids that appear in references only share the label :data:`_NO_MATCH`.

    Example:
        >>> _label(np.array([70, 80, 70, 80, 90, 70]), hypothesis_tokens=3).tolist()
        [3, 2, 3, 2, 0, 3]
    """
    largest = int(ids.view(np.uint64).max())  # negative ids are larger than all others
    if largest >= _MAX_TABLE:
        ids = ids - ids.min()
        largest = int(ids.view(np.uint64).max())
    if largest < _MAX_TABLE:
        # An id is labeled with the last of its positions in hypotheses. The table is never cleared: whatever is read
        # from it was written just before.
        table = np.empty(largest + 1, np.int32)
        table[ids[hypothesis_tokens:]] = _NO_MATCH
        table[ids[:hypothesis_tokens]] = np.arange(1, hypothesis_tokens + 1, dtype=np.int32)
        return table[ids]
    known = np.sort(ids[:hypothesis_tokens])
    places = known.searchsorted(ids)
    return np.where(known[np.minimum(places, hypothesis_tokens - 1)] == ids, places + 1, _NO_MATCH)


def _pack(labels: IntArray, label_bits: int, count: int) -> IntArray:
    """Put `count` neighboring labels into one number, the first one in the highest bits.

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
    """The runs of a pass: two or more sorted keys that begin with the same labels.

    A position in the runs of order n is ``(n - 1) * (len(keys) + 1)`` plus an index of `keys`.

    Attributes:
        keys: sorted.
        orders: the longest run that was looked for, in labels.
        starts: the position of the first key of each run, ascending.
        matches: how many keys of the hypothesis match in each run.
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
        sums[:, keys_per_sentence == 0] = 0  # where reduceat returns the next value
        return sums

    def matched_keys(self) -> IntArray:
        """A key from each run of the highest order that has a match."""
        row = (self.orders - 1) * (len(self.keys) + 1)
        runs = slice(int(self.starts.searchsorted(row)), None)
        return self.keys[self.starts[runs][self.matches[runs] > 0] - row]


def _find_runs(keys: IntArray, orders: int, label_bits: int, segment_bits: int) -> _Runs:
    """Find the runs of 1, 2, ... equal labels in sorted keys, and count the matches in each."""
    # joined[n, i]: whether keys i - 1 and i are in one run of order n + 1. A run starts and stops where this changes.
    joined = np.zeros((orders, len(keys) + 1), bool)
    suffix_bits = segment_bits + label_bits * np.arange(orders - 1, -1, -1, dtype=np.int64)[:, None]
    np.less(keys[1:] ^ keys[:-1], 1 << suffix_bits, out=joined[:, 1:-1])
    flat = joined.reshape(-1)
    edges = (flat[1:] != flat[:-1]).nonzero()[0]
    starts, stops = edges[::2].copy(), edges[1::2] + 1  # contiguous arrays index faster

    segments = keys & ((1 << segment_bits) - 1)
    in_hypothesis = np.zeros(len(keys) + 1, np.int64)
    (segments == 0).cumsum(out=in_hypothesis[1:])
    counts = in_hypothesis.take(stops, mode="wrap") - in_hypothesis.take(starts, mode="wrap")
    sizes = stops - starts
    matches = np.minimum(counts, sizes - counts)
    if segment_bits > 1:
        # Exact unless the n-gram appears several times on both sides: then a single reference must have it as often.
        several = (matches > 1).nonzero()[0]
        first = starts[several] % len(in_hypothesis)
        clip = _most_in_one_reference(segments, first, sizes[several], segment_bits)
        matches[several] = np.minimum(counts[several], clip)
    return _Runs(keys, orders, starts, matches)


def _most_in_one_reference(segments: IntArray, first: IntArray, sizes: IntArray, segment_bits: int) -> IntArray:
    """The largest number of keys in each run that come from the same reference.

    Example:
        >>> segments = np.array([0, 0, 1, 2, 2, 0, 1])  # 0 is the hypothesis
        >>> _most_in_one_reference(segments, first=np.array([0, 5]), sizes=np.array([5, 2]), segment_bits=2).tolist()
        [2, 1]
    """
    largest = np.zeros(len(first), np.int64)
    for start in range(0, len(first), max(1, _MAX_CELLS >> segment_bits)):
        runs = slice(start, start + max(1, _MAX_CELLS >> segment_bits))
        ends = sizes[runs].cumsum()
        members = np.arange(ends[-1]) + (first[runs] - (ends - sizes[runs])).repeat(sizes[runs])
        cells = segments[members] + (np.arange(len(ends), dtype=np.int64) << segment_bits).repeat(sizes[runs])
        counts = np.bincount(cells, minlength=len(ends) << segment_bits).reshape(len(ends), -1)
        largest[runs] = counts[:, 1:].max(1)
    return largest
