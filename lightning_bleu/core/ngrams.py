"""The kernel: counts the n-grams of each hypothesis that match, for all orders at once.

It uses no hash table and no loop over sentences. N-grams are encoded as integers and sorted, so that equal n-grams
become neighbors:

1. *Label* every id with a small number, so that several labels fit into one 64-bit key.
2. *Pack* one key per token: its sentence, the labels of the next N tokens, and its side.
3. *Sort* the keys. For every n up to N, equal n-grams of a sentence share a prefix, so they now form a *run*.
4. *Count* the hypothesis keys and the reference keys in each run.

The side is 1 for the hypothesis and an even number for each reference. For example, take the hypothesis "a b a" and
the reference "a b c". For N = 2, these are the sorted keys, as pairs of tokens and their side (c sorts before b and a,
because it is not in the hypothesis, and b before a, because a appears there last; | is the end of a segment):

    c | 0    b c 0    b a 1    a b 0    a b 1    a | 1

The run of "b" has one key on each side: one match. The run of "a" has two hypothesis keys and one reference key: one
match. The run of "a b" has one of each: one match. So 2 unigrams and 1 bigram match.

If N labels do not fit into a key, the kernel makes several passes. Each pass numbers the n-grams that have matched so
far; in the next pass, that number takes the place of the sentence in the key. Everything else is dropped, so high
orders cost little.

Batches are uneven, so tokens are in one flat array, without padding, and a batch is counted in chunks of about 2^14
tokens, whose arrays stay in the cache. For more than four orders, as of characters, labels are numbered without gaps,
so more of them fit into a key. An unknown word in a reference gets the label 0, so it matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightning_bleu.core.forms import IntArray, Ragged, ranges

_KEY_BITS = 63
_MAX_TOKENS = 2**14
"""Tokens per chunk, small enough for its arrays to stay in the cache of a CPU core."""
_MAX_HYPOTHESIS_TOKENS = 2**13 - 2
"""Hypothesis tokens per chunk, so that a label takes 13 bits and four labels fit into a key."""
_MANY_ORDERS = 4
"""For more orders than these, labels are numbered without gaps, so that more of them fit into a key. Characters, of
which there are few, then take one pass."""
_MAX_TABLE = 2**22
"""Ids with a smaller range than this are labeled with a lookup table, others by sorting."""

_MAX_CELLS = 2**20
"""The maximum number of (n-gram, reference) pairs counted at once."""

_NO_MATCH = 0
"""The label of ids that appear only in references."""


def count_matches(tokens: Ragged, reference_counts: IntArray, max_order: int, *, unk_id: int | None = None) -> IntArray:
    """Count the n-grams of every hypothesis that appear in its references.

    The count of each n-gram in the hypothesis is clipped at its largest count in any one reference (Papineni et al.
    2002, section 2.1.1).

    Args:
        tokens: all hypotheses, then all references, sentence by sentence.
        reference_counts: the number of references of each sentence, shape ``(sentences,)``.
        max_order: the longest n-gram.
        unk_id: the unknown word, which matches nothing in a reference; None for none.

    Returns:
        matches, shape ``(sentences, max_order)``.

    Example:
        >>> the, cat, on, mat, is_, there, a = range(1, 8)
        >>> hypothesis = [the, cat, the, cat, on, the, mat]
        >>> references = [the, cat, is_, on, the, mat, there, is_, a, cat, on, the, mat]
        >>> tokens = Ragged(np.array(hypothesis + references), lengths=np.array([7, 6, 7]))
        >>> count_matches(tokens, reference_counts=np.array([2]), max_order=2).tolist()
        [[5, 4]]
    """
    if len(tokens.ids) <= _MAX_HYPOTHESIS_TOKENS:
        return _count_chunk(tokens, reference_counts, max_order, unk_id)
    matches = []
    for chunk, chunk_reference_counts in _chunks(tokens, reference_counts):
        matches.append(_count_chunk(chunk, chunk_reference_counts, max_order, unk_id))
    return np.concatenate(matches)


def _chunks(tokens: Ragged, reference_counts: IntArray) -> Iterator[tuple[Ragged, IntArray]]:
    """Split a batch at sentence boundaries into chunks of limited size; a very long sentence gets its own chunk."""
    ids, lengths = tokens
    sentences = len(reference_counts)
    # The first token of each segment, and the first reference of each sentence.
    offsets = np.concatenate([[0], lengths.cumsum()])
    references = sentences + np.concatenate([[0], reference_counts.cumsum()])
    # The number of tokens before each sentence.
    hypothesis_tokens = offsets[: sentences + 1]
    all_tokens = hypothesis_tokens + offsets[references]
    start = 0
    while start < sentences:
        stop_by_tokens = all_tokens.searchsorted(all_tokens[start] + _MAX_TOKENS, "right")
        max_hypothesis_tokens = hypothesis_tokens[start] + _MAX_HYPOTHESIS_TOKENS
        stop_by_hypothesis_tokens = hypothesis_tokens.searchsorted(max_hypothesis_tokens, "right")
        stop = max(start + 1, int(min(stop_by_tokens, stop_by_hypothesis_tokens)) - 1)
        segment_ranges = [(start, stop), (references[start], references[stop])]
        chunk_ids = [ids[offsets[first] : offsets[end]] for first, end in segment_ranges]
        chunk_lengths = [lengths[first:end] for first, end in segment_ranges]
        chunk = Ragged(np.concatenate(chunk_ids), np.concatenate(chunk_lengths))
        yield chunk, reference_counts[start:stop]
        start = stop


def _count_chunk(tokens: Ragged, reference_counts: IntArray, max_order: int, unk_id: int | None) -> IntArray:
    """The matches of each sentence of a chunk, shape ``(sentences, max_order)``."""
    sentence_count = len(reference_counts)
    matches = np.zeros((max_order, sentence_count), np.int64)
    if not sentence_count:
        return matches.T
    ends = tokens.lengths.cumsum()
    token_count = len(tokens.ids)
    hypothesis_tokens = int(ends[sentence_count - 1])
    if hypothesis_tokens in (0, token_count):
        return matches.T

    labels = _label(tokens.ids, hypothesis_tokens)
    largest = hypothesis_tokens
    if max_order > _MANY_ORDERS:
        labels, largest = _renumber(labels, largest)
    if unk_id is not None:
        labels[hypothesis_tokens:][tokens.ids[hypothesis_tokens:] == unk_id] = _NO_MATCH
    # The same labels for all but the first token of an n-gram. The first token of each segment has the mark of the
    # segment before it, which differs between hypotheses and references: no n-gram that spans two segments matches.
    next_labels = np.zeros(token_count + max_order, np.int64)  # zeros are _NO_MATCH
    next_labels[:token_count] = labels
    next_labels[ends[sentence_count:]] = _NO_MATCH
    next_labels[ends[:sentence_count]] = largest + 1
    label_bits = (largest + 1).bit_length()
    # The head of a key is the part before its labels: the sentence in the first pass, a matched n-gram in later ones.
    heads, sides, side_bits = _segment_sides(reference_counts)
    head_sentences = heads[:sentence_count]
    positions: slice | IntArray = slice(None)
    repeats = tokens.lengths  # keys per head
    counted = 0  # orders
    while counted < max_order and len(heads):
        head_bits = (len(head_sentences) - 1).bit_length()
        orders = min((_KEY_BITS - head_bits - side_bits) // label_bits, max_order - counted)
        keys = next_labels[counted:][positions] if counted else labels
        for n in range(counted + 1, counted + orders):
            keys = keys << label_bits
            keys += next_labels[n : token_count + n][positions]
        keys = keys << side_bits
        heads_and_sides = (heads << orders * label_bits + side_bits) + sides
        keys += heads_and_sides.repeat(repeats)
        order, prefix, count = _match_prefixes(np.sort(keys), orders, label_bits, side_bits)
        sentence = head_sentences[prefix >> orders * label_bits]
        sums = np.bincount(order * sentence_count + sentence, count, orders * sentence_count)
        matches[counted : counted + orders] = sums.reshape(orders, sentence_count)
        counted += orders
        if counted < max_order:
            # Only an n-gram that matches can be the prefix of a longer match. Its number becomes the next head.
            matched = prefix[(order == orders - 1) & (count > 0)]
            heads = matched.searchsorted(keys >> side_bits)
            goes_on = np.append(matched, -1)[heads] == keys >> side_bits
            positions = np.arange(token_count)[positions][goes_on]
            heads = heads[goes_on]
            sides = keys[goes_on] & ((1 << side_bits) - 1)
            repeats = np.ones_like(positions)
            head_sentences = head_sentences[matched >> orders * label_bits]
    return matches.T


def _segment_sides(reference_counts: IntArray) -> tuple[IntArray, IntArray, int]:
    """The sentence and the side of each segment (all hypotheses, then all references), and the bits of a side.

    The side of a hypothesis is 1. The references of a sentence have different even numbers below twice the largest
    number of references. So the lowest bit tells hypotheses from references.

    Example:
        >>> sentences, sides, side_bits = _segment_sides(np.array([2, 1]))
        >>> sentences.tolist(), sides.tolist(), side_bits
        ([0, 1, 0, 0, 1], [1, 1, 0, 2, 0], 2)
    """
    hypotheses = np.arange(len(reference_counts))
    heads = np.concatenate([hypotheses, hypotheses.repeat(reference_counts)])
    max_references = int(reference_counts.max())
    # Counting up modulo the largest number of references, so that the references of a sentence differ.
    sides = np.arange(len(heads)) % max_references * 2
    sides[: len(hypotheses)] = 1
    largest_side = max(1, 2 * max_references - 2)
    return heads, sides, largest_side.bit_length()


def _label(ids: IntArray, hypothesis_tokens: int) -> IntArray:
    """Give equal ids equal labels, from 1 to the number of hypothesis tokens, which is at least 1.

    Ids that appear only in references all get the label :data:`_NO_MATCH`. Which label an id gets is of no importance.

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
        return table[ids].astype(np.int64)
    hypothesis_ids = np.sort(ids[:hypothesis_tokens])
    places = hypothesis_ids.searchsorted(ids)
    last_place = len(hypothesis_ids) - 1  # larger ids would come after it
    is_in_hypothesis = hypothesis_ids[np.minimum(places, last_place)] == ids
    return np.where(is_in_hypothesis, places + 1, _NO_MATCH)


def _renumber(labels: IntArray, largest: int) -> tuple[IntArray, int]:
    """Number labels without gaps, but keep 0; also return the largest number.

    Example:
        >>> labels, largest = _renumber(np.array([3, 7, 3, 0]), 7)
        >>> labels.tolist(), largest
        ([1, 2, 1, 0], 2)
    """
    used = np.zeros(largest + 1, np.int64)
    used[labels] = 1
    used[_NO_MATCH] = 0
    numbers = used.cumsum()
    return numbers[labels], int(numbers[-1])


def _match_prefixes(
    keys: IntArray, orders: int, label_bits: int, side_bits: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Find the n-grams of 1, 2, ... labels that appear in more than one key, and count their matches.

    Args:
        keys: sorted keys.
        orders: the longest n-gram, in labels.
        label_bits: the size of a label.
        side_bits: the size of a side.

    Returns:
        for each n-gram: its order, from 0; a key that begins with it, without the side; and the number of its matches.
    """
    # joined[n, i]: whether keys i - 1 and i begin with the same n + 1 labels. Runs start and stop where it changes.
    width = len(keys) + 1
    joined = np.zeros((orders, width), bool)
    dropped_labels = np.arange(orders)[::-1]
    limits = 1 << side_bits + label_bits * dropped_labels
    np.less(keys[1:] ^ keys[:-1], limits[:, None], out=joined[:, 1:-1])
    flat = joined.reshape(-1)
    edges = (flat[1:] != flat[:-1]).nonzero()[0]
    starts = edges[::2].copy()  # contiguous arrays index faster
    stops = edges[1::2] + 1
    order = starts // width
    first = starts - order * width

    in_hypothesis = np.zeros(width, np.int64)
    np.add.accumulate(keys & 1, out=in_hypothesis[1:])
    counts = in_hypothesis.take(stops, mode="wrap") - in_hypothesis[first]
    sizes = stops - starts
    matches = np.minimum(counts, sizes - counts)
    if side_bits > 1:
        # Already exact unless an n-gram appears several times on both sides: then clip at its count in one reference.
        several = (matches > 1).nonzero()[0]
        clip = _most_in_one_reference(keys & ((1 << side_bits) - 1), first[several], sizes[several], side_bits)
        matches[several] = np.minimum(counts[several], clip)
    return order, keys[first] >> side_bits, matches


def _most_in_one_reference(sides: IntArray, first: IntArray, sizes: IntArray, side_bits: int) -> IntArray:
    """The largest number of keys in each run that come from the same reference.

    Example:
        >>> sides = np.array([1, 1, 0, 2, 2, 1, 0])  # 1 is the hypothesis, even numbers are references
        >>> _most_in_one_reference(sides, first=np.array([0, 5]), sizes=np.array([5, 2]), side_bits=2).tolist()
        [2, 1]
    """
    largest = np.zeros(len(first), np.int64)
    runs_at_once = max(1, _MAX_CELLS >> side_bits)
    for start in range(0, len(first), runs_at_once):
        runs = slice(start, start + runs_at_once)
        run_sizes = sizes[runs]
        run_numbers = np.arange(len(run_sizes), dtype=np.int64)
        cells = sides[ranges(first[runs], run_sizes)] + (run_numbers << side_bits).repeat(run_sizes)
        counts = np.bincount(cells, minlength=len(run_numbers) << side_bits).reshape(len(run_numbers), -1)
        largest[runs] = counts[:, ::2].max(1)
    return largest
