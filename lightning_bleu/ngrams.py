"""N-gram statistics of padded id arrays: pack, sort, count.

How often does each n-gram of a hypothesis stand in its references, every order at once, without a hash table and
without a loop over sentences?

1. *Label.* Ids become small labels, so that several fit in one 64-bit key.
2. *Pack.* The key at position i holds the labels i ... i + N - 1, the first one in the highest bits, and below them the
   number of its segment: 0 for the hypothesis, r for reference r.
3. *Sort* the keys of a sentence. Equal n-grams of every order n <= N are now neighbours, because they share a prefix.
4. *Count.* A running count of all segments, packed in one integer as well, read at the end of each run of equal
   prefixes, gives the occurrences in the hypothesis and in each reference.

Everything is exact integer arithmetic. The same lines run on numpy arrays (the CPU, where numpy sorts rows ten times
faster than torch) and on torch tensors (accelerators, where no operation waits for the device or has a shape that
depends on the data). Long rows or high orders that do not fit in 63 bits take several passes: the n-grams of a full key
become the labels of the next pass.

Not handled here: what counts as a token (see :mod:`lightning_bleu.inputs`), and how counts become a score (see
:mod:`lightning_bleu.score`).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

Array: TypeAlias = Any
"""A :class:`numpy.ndarray` or a :class:`torch.Tensor`; all arrays of one call are of one kind."""

_KEY_BITS = 63
_GAPS = 2
"""Labels below this stand where there is no token: 0 in a hypothesis and 1 in a reference, so that an n-gram that holds
a gap matches nothing."""

_CHUNK_CPU = 2**14
"""Tokens counted at once on a CPU: the arrays stay in its cache, and four labels of one chunk fit in a key."""
_CHUNK_ACCELERATOR = 2**20
"""Tokens counted at once elsewhere: enough to fill the device, at about 200 bytes each."""
_TABLE = 2**22
"""Ids that span less than this are labelled through a table, others through a sort."""


class Segments(NamedTuple):
    """A batch of hypotheses (segment 0) and their references (the other segments) as padded ids.

    Attributes:
        ids: 64-bit integers of shape ``(sentences, segments, tokens)``.
        mask: booleans of that shape, False where there is no token. What stands there in ``ids`` means nothing.
        lengths: tokens of each segment, shape ``(sentences, segments)``.
        gaps: whether there may be gaps between the tokens of a hypothesis, or only behind them.
    """

    ids: Array
    mask: Array
    lengths: Array
    gaps: bool = False


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
    matches = possible_matches * 0
    if 0 not in batch.ids.shape:
        for rows in _chunks(batch):
            matches[rows] = _count_matches(_trim(batch, rows), max_order)
    return matches, possible_matches


def namespace(array: Array) -> ModuleType:
    """The module whose functions work on this array: numpy or torch."""
    return torch if isinstance(array, torch.Tensor) else np


def arange(stop: int, like: Array) -> Array:
    """The integers below `stop`, where the other array lives."""
    return torch.arange(stop, device=like.device) if isinstance(like, torch.Tensor) else np.arange(stop)


def _count_windows(batch: Segments, max_order: int) -> Array:
    """How many windows of n tokens of a hypothesis hold no gap, for each n: shape (sentences, max_order)."""
    if not batch.gaps:
        windows = batch.lengths[:, :1] - arange(max_order, batch.lengths)
        return windows * (windows > 0)
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


def _trim(batch: Segments, rows: Any) -> Segments:
    """Some sentences, without the columns that hold none of their tokens (where to look is to wait, with them)."""
    ids, mask, lengths = (array[rows] for array in batch[:3])
    if isinstance(mask, np.ndarray):
        used: np.ndarray = mask.any((0, 1), keepdims=True).ravel()
        width = max(1, len(used) - int(used[::-1].argmax()))
        ids, mask = ids[..., :width], mask[..., :width]
    return Segments(ids, mask, lengths)


def _count_matches(batch: Segments, max_order: int) -> Array:
    """The clipped matches, shape (sentences, max_order)."""
    xp = namespace(batch.ids)
    labels, label_bits = _label(batch)
    sentences, segments, tokens = labels.shape
    segment = arange(segments, labels)[:, None]
    segment_bits = (segments - 1).bit_length()
    capacity = (_KEY_BITS - segment_bits) // label_bits
    gap = labels[:, :, :1] * 0 + (segment > 0)
    padded = xp.concatenate([labels, *[gap] * (max_order - 1)], -1)

    matches: list[Array] = []
    counted = 0  # orders done
    heads, head_order = labels, 1  # labels of n-grams, and their n
    while counted < max_order:
        fields = min(capacity, max_order - head_order + 1)
        keys = heads
        for field in range(head_order, head_order + fields - 1):
            keys = (keys << label_bits) | padded[..., field : field + tokens]
        orders = head_order + fields - 1 - counted
        rows = ((keys << segment_bits) | segment).reshape(sentences, -1)
        matches.append(_count_runs(_sort(rows), segments, segment_bits, label_bits, orders))
        counted = head_order = counted + orders
        if counted < max_order:
            heads = _rank(keys.reshape(sentences, -1)).reshape(keys.shape)
    return matches[0] if len(matches) == 1 else xp.concatenate(matches, -1)


def _label(batch: Segments) -> tuple[Array, int]:
    """Replace ids by labels that are equal where ids of a sentence are, and say how many bits a label takes."""
    ids = batch.ids.reshape(len(batch.ids), -1)
    if isinstance(ids, np.ndarray) and (span := int(ids.max()) - (low := int(ids.min()))) < _TABLE:
        # any position of an id will do as its label; the table need not be cleared, as only what was written is read
        ids = ids - low
        table = np.empty(span + 1, np.int64)
        table[ids] = np.arange(_GAPS, ids.size + _GAPS).reshape(ids.shape)
        labels = table[ids]
    else:
        labels = _rank(ids) + _GAPS
    largest = ids.size if isinstance(ids, np.ndarray) else ids.shape[1]
    gaps = (arange(batch.ids.shape[1], ids) > 0)[:, None]
    labels = namespace(ids).where(batch.mask, labels.reshape(batch.ids.shape), gaps)
    return labels, (largest + _GAPS - 1).bit_length()


def _rank(rows: Array) -> Array:
    """The rank of every value in its row, or, on a CPU, among all: equal for equal values, and below their number."""
    if isinstance(rows, torch.Tensor):
        return torch.searchsorted(rows.sort(-1).values, rows)
    return np.searchsorted(np.sort(rows, axis=None), rows)


def _sort(rows: Array) -> Array:
    return rows.sort(-1).values if isinstance(rows, torch.Tensor) else np.sort(rows, axis=-1)


def _count_runs(keys: Array, segments: int, segment_bits: int, label_bits: int, orders: int) -> Array:
    """Clipped matches from sorted keys, for the `orders` longest of their prefixes: shape (sentences, orders)."""
    xp = namespace(keys)
    segment = keys & ((1 << segment_bits) - 1)

    # a run ends where the next key differs in the prefix, or in any bit at or above the prefix' lowest
    difference = xp.empty_like(keys)
    difference[:, :-1] = keys[:, :-1] ^ keys[:, 1:]
    difference[:, -1] = 1 << (_KEY_BITS - 1)
    lowest_bit = segment_bits + label_bits * (orders - 1 - arange(orders, keys))
    ends = difference >= (1 << lowest_bit)[:, None, None]  # (orders, sentences, keys)
    # what begins with a gap matches nothing: there may be an end behind each, so that runs are short
    ends |= keys < (_GAPS << (segment_bits + label_bits * (orders - 1)))

    # one integer counts the hypothesis, in its lowest bits, and up to `step` references; all of a chunk must fit
    size = keys.shape[0] * keys.shape[1]
    count_bits = (keys.shape[1] // segments).bit_length()
    count_mask = (1 << count_bits) - 1
    step = min(segments - 1, (_KEY_BITS - size.bit_length()) // count_bits)
    # half the width is about half the time
    word = xp.int32 if size.bit_length() + step * count_bits < 32 else xp.int64
    clip = None
    for first in range(0, segments - 1, step):
        field = segment - first
        ones = 1 << (field * count_bits)
        if segments - 1 > step:
            ones = xp.where(segment == 0, 1, xp.where((field > 0) & (field <= step), ones, 0))
        counts = _count_between(ends, ones, word)
        for reference in range(1, min(step, segments - 1 - first) + 1):
            occurrences = (counts >> (reference * count_bits)) & count_mask
            clip = occurrences if clip is None else xp.maximum(clip, occurrences)
    return (xp.minimum(counts & count_mask, clip) * ends).sum(-1, dtype=word).T


def _count_between(ends: Array, ones: Array, word: Any) -> Array:
    """What was counted since the end before, at every end: shape (orders, sentences, keys). Elsewhere it is nonsense.

    That is the running count less the running count at the last end, which is the largest so far of those at ends.
    """
    if isinstance(ends, torch.Tensor):
        counts = ends * ones.cumsum(-1, dtype=word)
        last = counts.cummax(-1).values
        counts[..., 1:] -= last[..., :-1]
        return counts
    # the sentences one after the other: the last key of each is an end, so it does not matter where they begin
    counts = ends.reshape(len(ends), -1) * ones.cumsum(dtype=word)
    # the largest of the last 2, 4, 8, ... until an end must be among them: less time than a running maximum takes
    positions = np.flatnonzero(ends[0])
    longest = max(int(positions[0]) + 1, int((positions[1:] - positions[:-1]).max(initial=0)))
    last, reach = counts, 1
    while reach < longest:
        wider = np.empty_like(last)
        wider[:, :reach] = last[:, :reach]
        np.maximum(last[:, reach:], last[:, :-reach], out=wider[:, reach:])
        last, reach = wider, 2 * reach
    counts[:, 1:] -= last[:, :-1]
    return counts.reshape(ends.shape)
