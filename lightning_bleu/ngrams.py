"""N-gram statistics of padded id arrays: pack, sort, count.

How often does each n-gram of a hypothesis stand in its references, every order at once, without a hash table and
without a loop over sentences?

1. *Label.* Ids become small labels, so that several fit in one 64-bit key. The places around the tokens get labels too,
   which no other segment has, so that an n-gram that reaches beyond its segment matches nothing.
2. *Pack.* The key at position i holds the labels i ... i + N - 1, the first one in the highest bits.
3. *Sort* the keys. Equal n-grams of every order n <= N are now neighbours, because they share a prefix.
4. *Count* how often each prefix of a hypothesis stands there and in the references.

Everything is exact integer arithmetic. The first two steps are the same lines for numpy arrays (the CPU, where numpy
sorts rows ten times faster than torch) and torch tensors (accelerators, where no operation waits for the device or has
a shape that depends on the data). The last two suit the machine: :func:`_count_runs` sorts all segments of a sentence
together and looks only at what has equal neighbours; :func:`_count_by_search` sorts each segment by itself and looks up
all prefixes at once, in a few operations whatever the number of references. Long rows or high orders that do not fit in
63 bits take several passes: the n-grams of a full key become the labels of the next pass.

Not handled here: what counts as a token (see :mod:`lightning_bleu.inputs`), and how counts become a score (see
:mod:`lightning_bleu.score`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.arrays import Array, arange, namespace, not_negative, to_device

_KEY_BITS = 63
_CHUNK_CPU = 2**14
"""Tokens counted at once on a CPU: the arrays stay in its cache, and four labels of one chunk fit in a key."""
_CHUNK_ACCELERATOR = 2**20
"""Tokens counted at once elsewhere: enough to fill the device, at about 200 bytes each."""
_TABLE = 2**22
"""Ids that span less than this are labelled through a table, others through a sort."""


class Segments(NamedTuple):
    """A batch of hypotheses (segment 0) and their references (the other segments) as ids.

    Attributes:
        ids: 64-bit integers of shape ``(sentences, segments, tokens)``.
        mask: booleans of that shape, False where there is no token. What stands there in ``ids`` means nothing.
        lengths: tokens of each segment, shape ``(sentences, segments)``.
        split: whether what is no token stands between its neighbours; otherwise they are neighbours of each other.
        matching: booleans of the same shape, False for tokens that match nothing; None if there are none.
    """

    ids: Array
    mask: Array
    lengths: Array
    split: bool = False
    matching: Array | None = None


def count_ngrams(batch: Segments, max_order: int) -> tuple[Array, Array]:
    """Count the n-grams of every hypothesis, and those of them that its references have too.

    Args:
        batch: hypotheses and at least one reference each.
        max_order: longest n-gram.

    Returns:
        ``matches`` and ``possible_matches``, 64-bit integers of shape ``(sentences, max_order)``. An n-gram matches as
        often as the reference that has it most often has it (Papineni et al. 2002, section 2.1.1).

    Example:
        >>> the, cat, on, mat, is_, there, a = range(1, 8)
        >>> ids = np.array([[
        ...     [the, cat, the, cat, on, the, mat],
        ...     [the, cat, is_, on, the, mat, 0],
        ...     [there, is_, a, cat, on, the, mat],
        ... ]])
        >>> matches, possible_matches = count_ngrams(Segments(ids, ids > 0, (ids > 0).sum(-1)), max_order=2)
        >>> matches.tolist(), possible_matches.tolist()
        ([[5, 4]], [[7, 6]])
    """
    possible_matches = _count_windows(batch, max_order)
    if 0 in batch.ids.shape:
        return possible_matches * 0, possible_matches
    chunks = list(_chunks(batch))
    if len(chunks) == 1:
        return _count_matches(_trim(batch), max_order), possible_matches
    matches = possible_matches * 0
    for rows in chunks:
        matches[rows] = _count_matches(_trim(_take(batch, rows)), max_order)
    return matches, possible_matches


def _count_windows(batch: Segments, max_order: int) -> Array:
    """How many windows of n tokens a hypothesis has, for each n: shape (sentences, max_order)."""
    if not batch.split:
        return not_negative(batch.lengths[:, :1] - arange(0, max_order, batch.lengths))
    windows = mask = batch.mask[:, 0]
    counts = [windows.sum(-1)]
    for n in range(1, max_order):
        windows = windows[:, :-1] & mask[:, n:]
        counts.append(windows.sum(-1))
    return namespace(mask).stack(counts, -1)


def _chunks(batch: Segments) -> Iterator[Any]:
    """Index the sentences in groups that are counted at once."""
    sentences, segments, tokens = batch.ids.shape
    on_cpu = isinstance(batch.ids, np.ndarray)
    size = max(1, (_CHUNK_CPU if on_cpu else _CHUNK_ACCELERATOR) // (segments * tokens))
    starts = range(0, sentences, size)
    if on_cpu and len(starts) > 1:
        # sentences of like length need little padding when they are counted together
        order = np.argsort(batch.lengths[:, :2].max(-1), kind="stable")
        yield from (order[start : start + size] for start in starts)
    else:
        yield from (slice(start, start + size) for start in starts)


def _take(batch: Segments, index: Any) -> Segments:
    """Index the sentences or the tokens of a batch."""
    ids, mask, lengths, split, matching = batch
    return Segments(ids[index], mask[index], lengths, split, None if matching is None else matching[index])


def _trim(batch: Segments) -> Segments:
    """Leave out the last columns if no sentence has a token there (where to look is to wait, they stay)."""
    if isinstance(batch.mask, Tensor) or batch.mask[..., -1].any():
        return batch
    used = batch.mask.any((0, 1))
    width = max(1, len(used) - int(used[::-1].argmax()))
    return _take(batch, (..., slice(width)))


def _count_matches(batch: Segments, max_order: int) -> Array:
    """The clipped matches, shape (sentences, max_order)."""
    sentences, segments, tokens = batch.ids.shape
    labels, label_bits = _label(batch, max_order)
    capacity = (_KEY_BITS - _segment_bits(segments)) // label_bits
    count = _count_by_search if isinstance(labels, Tensor) else _count_runs

    matches: list[Array] = []
    counted, heads = 0, None  # orders done, and labels of the n-grams of the last of them
    while counted < max_order:
        orders = min(capacity - (heads is not None), max_order - counted)
        keys = _pack(labels, label_bits, orders)[..., counted : counted + tokens]
        if heads is not None:
            keys = _append(heads, keys, orders * label_bits)
        matches.append(count(keys, label_bits, orders))
        counted += orders
        if counted < max_order:
            heads = _rank(keys.reshape(sentences, -1)).reshape(keys.shape)
    return matches[0] if len(matches) == 1 else namespace(labels).concatenate(matches, -1)


def _segment_bits(segments: int) -> int:
    return (segments - 1).bit_length()


def _label(batch: Segments, max_order: int) -> tuple[Array, int]:
    """Replace ids by labels that are equal where ids of a sentence are, and say how many bits a label takes.

    The tokens of each segment come first, and `max_order - 1` or more places that hold none come last.
    """
    sentences, segments, tokens = batch.ids.shape
    width = tokens + max_order
    widest = (_KEY_BITS - _segment_bits(segments)) // max_order
    labels, limit = _number(batch.ids.reshape(sentences, -1), 2**widest - segments * width)
    labels = labels.reshape(batch.ids.shape)
    end = limit + segments * width
    gaps = arange(limit, end, labels).reshape(segments, width)
    if batch.matching is not None:
        labels = namespace(labels).where(batch.matching, labels, gaps[:, :tokens])
    if isinstance(labels, Tensor):
        # what is no token goes to the first column, which is then left out
        places = arange(1, tokens + 1, labels) if batch.split else batch.mask.cumsum(-1)
        padded: Array = gaps.expand(sentences, -1, -1).scatter(-1, places * batch.mask, labels)
        return padded[..., 1:], (end - 1).bit_length()
    padded = np.empty((sentences, segments, width - 1), np.int64)
    padded[:] = gaps[:, 1:]
    if batch.split or not (batch.mask[..., 1:] > batch.mask[..., :-1]).any():
        np.copyto(padded[..., :tokens], labels, where=batch.mask)
    else:
        places = np.arange(tokens) < batch.mask.sum(-1, keepdims=True)
        padded[..., :tokens][places] = labels[batch.mask]
    return padded, (end - 1).bit_length()


def _number(rows: Array, most: int) -> tuple[Array, int]:
    """Labels for the ids of each row (or, on a CPU, of all), and what they are below; `most` is small enough."""
    if isinstance(rows, Tensor):
        return _rank(rows), rows.shape[1]
    if (limit := _limit(rows)) > _TABLE:
        rows = rows - rows.min()  # from 0 on, if unsigned
        limit = _limit(rows)
    if limit <= most:
        return rows, limit
    if limit > _TABLE:
        return _rank(rows), rows.size
    # any position of an id will do as its label; the table need not be cleared, as only what was written is read
    table = np.empty(limit, np.int64)
    table[rows] = np.arange(rows.size).reshape(rows.shape)
    return table[rows], rows.size


def _limit(values: np.ndarray) -> int:
    """One more than the largest value, where negative ones count as large."""
    return int(values.view(np.uint64).max()) + 1


def _rank(rows: Array) -> Array:
    """The rank of every value in its row, or, on a CPU, among all: equal for equal values, and below their number."""
    if isinstance(rows, Tensor):
        return torch.searchsorted(rows.sort(-1).values, rows)
    return np.searchsorted(np.sort(rows, axis=None), rows)


def _pack(labels: Array, label_bits: int, count: int) -> Array:
    """Keys of `count` labels each; there are `count - 1` fewer of them than labels."""
    if count == 1:
        return labels
    half = count // 2
    keys = _pack(labels, label_bits, half)
    keys = _append(keys[..., :-half], keys[..., half:], half * label_bits)
    return keys if count % 2 == 0 else _append(keys[..., :-1], labels[..., 2 * half :], label_bits)


def _append(high: Array, low: Array, bits: int) -> Array:
    """Put two keys together, the second of so many bits."""
    # torch can do it in one operation, if the second key is not negative
    return torch.add(low, high, alpha=1 << bits) if isinstance(high, Tensor) else (high << bits) | low


def _prefix_sizes(label_bits: int, orders: int) -> np.ndarray:
    """How many keys can begin with each of the `orders` longest prefixes, from the shortest on: shape (orders, 1)."""
    return 1 << label_bits * np.arange(orders - 1, -1, -1, dtype=np.int64)[:, None]


def _count_runs(keys: np.ndarray, label_bits: int, orders: int) -> np.ndarray:
    """Clipped matches for the `orders` longest prefixes of the keys: shape (sentences, orders).

    Keys with equal prefixes form runs once they are sorted. Only runs of several keys can match.
    """
    sentences, segments, tokens = keys.shape
    segment_bits = _segment_bits(segments)
    width = segments * tokens
    keys = (keys << segment_bits) | np.arange(segments)[:, None]
    keys = np.sort(keys.reshape(sentences, width)).reshape(-1)

    # the keys that share a prefix with the next one, order by order, and which of them are the ends of a run
    difference = np.empty_like(keys)
    np.bitwise_xor(keys[1:], keys[:-1], out=difference[:-1])
    difference[width - 1 :: width] = 1 << (_KEY_BITS - 1)
    joined = np.flatnonzero(difference < _prefix_sizes(label_bits, orders) << segment_bits)
    edges = np.ones(len(joined) + 1, bool)
    np.not_equal(joined[1:] - joined[:-1], 1, out=edges[1:-1])
    first, last = joined[edges[:-1]], joined[edges[1:]]

    # one integer counts the segments, the hypothesis in its lowest bits, as many of them at a time as it has room for
    count_bits = tokens.bit_length()
    mask = (1 << count_bits) - 1
    word = np.int32 if segments * count_bits < 32 else np.int64
    step = min(segments, _KEY_BITS // count_bits) - 1
    segment = keys & ((1 << segment_bits) - 1)
    before = first // keys.size * keys.size  # the keys of the orders before
    clip: Any = 0
    for field in range(0, segments - 1, step):
        ones = 1 << (segment * count_bits)
        if step < segments - 1:
            place = segment - field
            ones = np.where((place > 0) & (place <= step), 1 << (place * count_bits), segment == 0)
        running = np.zeros(keys.size + 1, word)
        ones.cumsum(dtype=word, out=running[1:])
        total = running[last - before + 2] - running[first - before]
        for reference in range(1, min(step, segments - 1 - field) + 1):
            clip = np.maximum(clip, (total >> (reference * count_bits)) & mask)
    matches = np.bincount(first // width, np.minimum(total & mask, clip), orders * sentences)
    return matches.astype(np.int64).reshape(orders, sentences).T


def _count_by_search(keys: Tensor, label_bits: int, orders: int) -> Tensor:
    """Clipped matches for the `orders` longest prefixes of the keys: shape (sentences, orders).

    A prefix occurs in a sorted segment from the place of the smallest key that begins with it to that of the largest.
    """
    segments, tokens = keys.shape[1:]
    keys = keys.sort(-1).values
    sizes = _prefix_sizes(label_bits, orders)
    reach = np.broadcast_to([np.zeros_like(sizes), sizes], (segments, 2, orders, 1)).copy()
    ends = to_device(torch.from_numpy(reach), keys.device)
    smallest = keys[:, 0, None, :] & -ends[0, 1]  # (sentences, orders, tokens)
    bounds = smallest[:, None, None] + ends  # (sentences, segments, 2, orders, tokens)
    places = torch.searchsorted(keys, bounds.flatten(2)).reshape(bounds.shape)
    clip = (places[:, 1:, 1] - places[:, 1:, 0]).amax(1)
    # the keys of a run of the hypothesis match one after the other, as long as there are as many in a reference
    number = arange(0, tokens, keys) - places[:, 0, 0]
    matches: Tensor = (number < clip).sum(-1)
    return matches
