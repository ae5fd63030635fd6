"""The kernel on accelerators: how many n-grams of each hypothesis match, without waiting for the device.

The idea is that of :mod:`lightning_bleu.counting.ngrams`: n-grams become integers, and sorting brings equal ones
together. But every shape must be known beforehand, so each segment is a row of its own:

1. *Label* the ids of each sentence by their rank among them.
2. *Pack* one key per token: the labels of the next N tokens. Keys with the same first n labels are equal n-grams.
3. *Sort* the keys of each segment.
4. *Search* every sorted segment for the smallest and the largest key that begins with an n-gram of the hypothesis. The
   distance between both is how often the segment has the n-gram.

For example, the sorted keys "a b", "a -", "b a" of a hypothesis "a b a" and "a b", "b c", "c -" of a reference "a b c":
the prefix "a" covers two keys of the hypothesis and one of the reference, so one of the two matches.

Long rows or high orders whose labels do not fit into a key take several passes: the n-grams of a full key become the
labels of the next pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting.devices import to_device
from lightning_bleu.counting.padded import Padded

_KEY_BITS = 62
"""One bit less than a positive integer has, so that the end of a range of keys is one, too."""
_MAX_PLACES = 2**20
"""Tokens and padding per chunk: enough to fill the device, at about 200 bytes each."""


def count_ngrams(batch: Padded, max_order: int) -> tuple[Tensor, Tensor]:
    """Count the n-grams of every hypothesis, and those that appear in its references.

    Args:
        batch: the sentences.
        max_order: the longest n-gram.

    Returns:
        matches and possible matches, 64-bit integers of shape ``(sentences, max_order)``; see
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
    """How many windows of 1, 2, ... tokens each hypothesis has, shape ``(sentences, max_order)``."""
    if not batch.break_ngrams:
        return (batch.lengths[:, :1] - torch.arange(max_order, device=batch.ids.device)).clamp(min=0)
    windows = is_token = batch.is_token[:, 0]
    counts = [windows.sum(-1)]
    for n in range(1, max_order):
        windows = windows[:, :-1] & is_token[:, n:]
        counts.append(windows.sum(-1))
    return torch.stack(counts, -1)


def _chunks(batch: Padded) -> Iterator[Padded]:
    """Split a batch between sentences, so that no chunk needs too much memory."""
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
    counted, heads = 0, None  # the orders that are done, and a label for each n-gram of the last of them
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
    """Replace ids by labels that are equal where the ids of a sentence are.

    The tokens of each segment move together, unless n-grams may not span what is between them. All other places get a
    label that the other side does not have, so that no n-gram that spans one matches.
    """
    sentences, segments, width = batch.ids.shape
    labels = _rank(batch.ids.reshape(sentences, -1)).reshape(batch.ids.shape)
    gaps = segments * width + (torch.arange(segments, device=labels.device) > 0).to(torch.int64)[:, None]
    if batch.can_match is not None:
        labels = labels.where(batch.can_match, gaps)
    places = torch.arange(1, width + 1, device=labels.device) if batch.break_ngrams else batch.is_token.cumsum(-1)
    # Whatever is not a token goes to the first column, which is then dropped.
    spaced = gaps.expand(sentences, segments, width + max_order).scatter(-1, places * batch.is_token, labels)
    return spaced[..., 1:]


def _rank(rows: Tensor) -> Tensor:
    """The rank of each value in its row: equal for equal values, and less than their number.

    Example:
        >>> _rank(torch.tensor([[70, 80, 70]])).tolist()
        [[0, 2, 0]]
    """
    return torch.searchsorted(rows.sort(-1).values, rows.contiguous())


def _pack(labels: Tensor, label_bits: int, count: int) -> Tensor:
    """Put `count` neighboring labels of a row into one number; see :mod:`lightning_bleu.counting.ngrams`."""
    if count == 1:
        return labels
    half = count // 2
    halves = _pack(labels, label_bits, half)
    keys = _append(halves[..., :-half], halves[..., half:], half * label_bits)
    return keys if count % 2 == 0 else _append(keys[..., :-1], labels[..., 2 * half :], label_bits)


def _append(high: Tensor, low: Tensor, bits: int) -> Tensor:
    """Put two numbers into one, the second of which has so many bits."""
    return torch.add(low, high, alpha=1 << bits)


def _count_by_search(keys: Tensor, label_bits: int, orders: int) -> Tensor:
    """The clipped matches of the first 1, 2, ... labels of the keys, shape ``(sentences, orders)``."""
    segments, width = keys.shape[1:]
    keys = keys.sort(-1).values
    suffix_sizes = 1 << label_bits * np.arange(orders - 1, -1, -1, dtype=np.int64)
    offsets = np.zeros((segments, 2, orders, 1), np.int64)
    offsets[:, 1] = suffix_sizes[:, None]
    ends = to_device(torch.from_numpy(offsets), keys.device)
    # The smallest key with each prefix of each key of the hypothesis: (sentences, orders, tokens).
    smallest = keys[:, 0, None, :] & -ends[0, 1]
    bounds = smallest[:, None, None] + ends  # (sentences, segments, 2, orders, tokens)
    places = torch.searchsorted(keys, bounds.flatten(2)).reshape(bounds.shape)
    clip = (places[:, 1:, 1] - places[:, 1:, 0]).amax(1)
    # The first keys of a run of the hypothesis match, as many of them as a reference has.
    index_in_run = torch.arange(width, device=keys.device) - places[:, 0, 0]
    return (index_in_run < clip).sum(-1)
