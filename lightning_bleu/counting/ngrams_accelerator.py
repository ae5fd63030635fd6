"""The accelerator kernel: counts the n-grams of each hypothesis that match, without waiting for the device.

As in :mod:`lightning_bleu.counting.ngrams`, n-grams are encoded as integers and sorted, so that equal n-grams become
neighbors. But every shape must be known in advance, so each segment is a separate row:

1. *Label* each id by its rank among the ids of its sentence.
2. *Pack* one key per token: the labels of the next N tokens. Keys that share their first n labels are equal n-grams.
3. *Sort* the keys of each segment.
4. *Search* each sorted segment for the range of keys that begin with each n-gram of the hypothesis. The size of the
   range is the count of the n-gram in that segment.

For example, the hypothesis "a b a" has the sorted keys "a b", "a -", "b a", and the reference "a b c" has "a b", "b c",
"c -". The prefix "a" covers two keys of the hypothesis and one of the reference, so one of the two matches.

If the labels do not fit into one key (long rows or high orders), the kernel makes several passes: the n-grams of a full
key become the labels of the next pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting.devices import to_device
from lightning_bleu.counting.padded import Padded

_KEY_BITS = 62
"""One bit less than the 63 of a positive int64, so that the exclusive end of a range of keys also fits."""
_MAX_PLACES = 2**20
"""Positions (tokens and padding) per chunk, at about 200 bytes each: enough to keep the device busy."""


def count_ngrams(batch: Padded, max_order: int) -> tuple[Tensor, Tensor]:
    """Count the n-grams of every hypothesis, and how many of them appear in its references.

    Args:
        batch: the sentences.
        max_order: the longest n-gram.

    Returns:
        matches and possible matches, int64 of shape ``(sentences, max_order)``; see
        :func:`lightning_bleu.counting.ngrams.count_matches`.

    Example:
        >>> the, cat, on, mat, is_, there, a = range(1, 8)
        >>> ids = torch.tensor([[
        ...     [the, cat, the, cat, on, the, mat],
        ...     [the, cat, is_, on, the, mat, 0],
        ...     [there, is_, a, cat, on, the, mat],
        ... ]])
        >>> matches, possible_matches = count_ngrams(Padded(ids, ids > 0, (ids > 0).sum(-1)), max_order=2)
        >>> matches.tolist(), possible_matches.tolist()
        ([[5, 4]], [[7, 6]])
    """
    possible_matches = _count_windows(batch, max_order)
    if 0 in batch.ids.shape:
        return torch.zeros_like(possible_matches), possible_matches
    matches = [_count_matches(chunk, max_order) for chunk in _chunks(batch)]
    return matches[0] if len(matches) == 1 else torch.cat(matches), possible_matches


def _count_windows(batch: Padded, max_order: int) -> Tensor:
    """The number of windows of 1, 2, ... tokens in each hypothesis, shape ``(sentences, max_order)``."""
    if not batch.break_ngrams:
        return (batch.lengths[:, :1] - torch.arange(max_order, device=batch.ids.device)).clamp(min=0)
    windows = is_token = batch.is_token[:, 0]
    counts = [windows.sum(-1)]
    for n in range(1, max_order):
        windows = windows[:, :-1] & is_token[:, n:]
        counts.append(windows.sum(-1))
    return torch.stack(counts, -1)


def _chunks(batch: Padded) -> Iterator[Padded]:
    """Split a batch at sentence boundaries, to limit the memory per chunk."""
    sentences, segments, width = batch.ids.shape
    rows = max(1, _MAX_PLACES // (segments * width))
    for start in range(0, sentences, rows):
        part = slice(start, start + rows)
        yield batch._replace(
            ids=batch.ids[part],
            is_token=batch.is_token[part],
            lengths=batch.lengths[part],
            can_match=None if batch.can_match is None else batch.can_match[part],
        )


def _count_matches(batch: Padded, max_order: int) -> Tensor:
    """The clipped matches, shape ``(sentences, max_order)``."""
    sentences, segments, width = batch.ids.shape
    labels = _label(batch, max_order)
    label_bits = (segments * width + 1).bit_length()
    capacity = _KEY_BITS // label_bits
    matches: list[Tensor] = []
    counted, heads = 0, None  # the orders done so far, and a label for each n-gram of order `counted`
    while counted < max_order:
        orders = min(capacity - (heads is not None), max_order - counted)
        keys = _pack(labels, label_bits, orders)[..., counted : counted + width]
        if heads is not None:
            keys = _append(heads, keys, orders * label_bits)
        matches.append(_count_by_search(keys, label_bits, orders))
        counted += orders
        if counted < max_order:
            heads = _rank(keys.reshape(sentences, -1)).reshape(keys.shape)
    return matches[0] if len(matches) == 1 else torch.cat(matches, -1)


def _label(batch: Padded, max_order: int) -> Tensor:
    """Replace ids with labels. Within a sentence, labels are equal if and only if the ids are.

    Tokens of a segment are moved together to close gaps, unless n-grams must not span them. All other positions get a
    gap label, which differs between hypotheses and references, so that no n-gram that spans a gap matches.
    """
    sentences, segments, width = batch.ids.shape
    labels = _rank(batch.ids.reshape(sentences, -1)).reshape(batch.ids.shape)
    gaps = segments * width + (torch.arange(segments, device=labels.device) > 0).to(torch.int64)[:, None]
    if batch.can_match is not None:
        labels = labels.where(batch.can_match, gaps)
    places = torch.arange(1, width + 1, device=labels.device) if batch.break_ngrams else batch.is_token.cumsum(-1)
    # Everything that is not a token is scattered to column 0, which is then dropped.
    spaced = gaps.expand(sentences, segments, width + max_order).scatter(-1, places * batch.is_token, labels)
    return spaced[..., 1:]


def _rank(rows: Tensor) -> Tensor:
    """The rank of each value in its row. Equal values have equal ranks, from 0 to the row length minus 1.

    Example:
        >>> _rank(torch.tensor([[70, 80, 70]])).tolist()
        [[0, 2, 0]]
    """
    return torch.searchsorted(rows.sort(-1).values, rows.contiguous())


def _pack(labels: Tensor, label_bits: int, count: int) -> Tensor:
    """Pack `count` neighboring labels of a row into one integer; see :mod:`lightning_bleu.counting.ngrams`."""
    if count == 1:
        return labels
    half = count // 2
    halves = _pack(labels, label_bits, half)
    keys = _append(halves[..., :-half], halves[..., half:], half * label_bits)
    return keys if count % 2 == 0 else _append(keys[..., :-1], labels[..., 2 * half :], label_bits)


def _append(high: Tensor, low: Tensor, bits: int) -> Tensor:
    """Combine two integers into one, with `low` in the lowest `bits` bits."""
    return torch.add(low, high, alpha=1 << bits)


def _count_by_search(keys: Tensor, label_bits: int, orders: int) -> Tensor:
    """The clipped matches of prefixes of 1, 2, ... labels, shape ``(sentences, orders)``."""
    segments, width = keys.shape[1:]
    keys = keys.sort(-1).values
    suffix_sizes = 1 << label_bits * np.arange(orders - 1, -1, -1, dtype=np.int64)
    offsets = np.zeros((segments, 2, orders, 1), np.int64)
    offsets[:, 1] = suffix_sizes[:, None]
    ends = to_device(torch.from_numpy(offsets), keys.device)
    # The smallest key with the same prefix, for each hypothesis key and prefix length: (sentences, orders, tokens).
    smallest = keys[:, 0, None, :] & -ends[0, 1]
    bounds = smallest[:, None, None] + ends  # (sentences, segments, 2, orders, tokens)
    places = torch.searchsorted(keys, bounds.flatten(2)).reshape(bounds.shape)
    clip = (places[:, 1:, 1] - places[:, 1:, 0]).amax(1)
    # In each run of the hypothesis, the first `clip` keys match.
    index_in_run = torch.arange(width, device=keys.device) - places[:, 0, 0]
    return (index_in_run < clip).sum(-1)
