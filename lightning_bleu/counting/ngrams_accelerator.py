"""The accelerator kernel: counts the n-grams of each hypothesis that match, without waiting for the device.

As in :mod:`lightning_bleu.counting.ngrams`, n-grams are encoded as integers and sorted, so that equal n-grams become
neighbors. But every shape must be known in advance, so each segment is a separate row:

1. *Label* each id by a number that stands for it in its sentence.
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
from typing import Any

import torch
from torch import Tensor

from lightning_bleu.counting.padded import Padded

_KEY_BITS = 62
"""One bit less than the 63 of a positive int64, so that the exclusive end of a range of keys also fits."""
_MAX_PLACES = 2**20
"""Positions (tokens and padding) per chunk, at about 300 bytes each: enough to keep the device busy."""
_MAX_COMPARISONS = 2**23
"""Ids are labeled by comparing all pairs of a sentence, at one byte each, or by sorting if there are more pairs."""


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
        >>> matches, possible_matches = count_ngrams(Padded(ids, ids > 0, (ids > 0).cumsum(-1)), max_order=2)
        >>> matches.tolist(), possible_matches.tolist()
        ([[5, 4]], [[7, 6]])
    """
    sentences, segments, width = batch.ids.shape
    if 0 in batch.ids.shape:
        nothing = batch.ids.new_zeros(sentences, max_order)
        return nothing, nothing
    # All positions, orders, and gap labels below are slices of this tensor: one kernel instead of several.
    numbers = torch.arange(max(segments * width + segments, max_order), device=batch.ids.device)
    possible_matches = _count_windows(batch, max_order, numbers)
    matches = [_count_matches(chunk, max_order, numbers) for chunk in _chunks(batch)]
    return matches[0] if len(matches) == 1 else torch.cat(matches), possible_matches


def _count_windows(batch: Padded, max_order: int, numbers: Tensor) -> Tensor:
    """The number of windows of 1, 2, ... tokens in each hypothesis, shape ``(sentences, max_order)``."""
    if not batch.break_ngrams:
        return (batch.lengths[:, :1] - numbers[:max_order]).clamp(min=0)
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
    if sentences <= rows:
        yield batch
        return
    for start in range(0, sentences, rows):
        part = slice(start, start + rows)
        tensors: dict[str, Any] = {k: value[part] for k, value in batch._asdict().items() if isinstance(value, Tensor)}
        yield batch._replace(**tensors)


def _count_matches(batch: Padded, max_order: int, numbers: Tensor) -> Tensor:
    """The clipped matches, shape ``(sentences, max_order)``."""
    segments, width = batch.ids.shape[1:]
    labels = _label(batch, max_order, numbers)
    label_bits = (segments * width + segments - 1).bit_length()
    capacity = _KEY_BITS // label_bits
    matches: list[Tensor] = []
    counted, heads = 0, None  # the orders done so far, and a label for each n-gram of order `counted`
    while counted < max_order:
        orders = min(capacity - (heads is not None), max_order - counted)
        # The lowest bit of each label in a key. Shifted right by these, a key keeps its first 1, 2, ... labels.
        shifts = torch.arange(label_bits * (orders - 1), -1, -label_bits, device=labels.device)
        windows = labels[..., counted : counted + width + orders - 1].unfold(-1, orders, 1)
        keys = torch.bitwise_left_shift(windows, shifts).sum(-1)
        if heads is not None:
            keys = torch.add(keys, heads, alpha=1 << label_bits * orders)
        matches.append(_count_by_search(keys, shifts[:, None], numbers))
        counted += orders
        if counted < max_order:
            heads = _label_values(keys.flatten(1)).view_as(keys)
    return matches[0] if len(matches) == 1 else torch.cat(matches, -1)


def _label(batch: Padded, max_order: int, numbers: Tensor) -> Tensor:
    """Replace ids with labels. Within a sentence, labels are equal if and only if the ids are.

    Tokens of a segment are moved together to close gaps, unless n-grams must not span them. All other positions get the
    gap label of their segment, so no n-gram that spans a gap matches one of another segment.
    """
    sentences, segments, width = batch.ids.shape
    labels = _label_values(batch.ids.flatten(1)).view_as(batch.ids)
    gaps = numbers[segments * width :][:segments, None]
    if batch.can_match is not None:
        labels = labels.where(batch.can_match, gaps)
    places = numbers[1 : width + 1] if batch.break_ngrams else batch.running_counts
    # Everything that is not a token is scattered to column 0, which is then dropped.
    spaced = gaps.expand(sentences, segments, width + max_order).scatter(-1, places * batch.is_token, labels)
    return spaced[..., 1:]


def _label_values(rows: Tensor) -> Tensor:
    """A label for each value of a row, less than the row length. Labels are equal if and only if the values are.

    Example:
        >>> _label_values(torch.tensor([[70, 80, 70]])).tolist()
        [[0, 1, 0]]
    """
    if rows.numel() * rows.shape[1] > _MAX_COMPARISONS:
        return torch.searchsorted(rows.sort(-1).values, rows)
    # The position of the first equal value. This takes two kernels; sorting and searching take five.
    return (rows[:, :, None] == rows[:, None]).view(torch.uint8).argmax(-1)


def _count_by_search(keys: Tensor, shifts: Tensor, numbers: Tensor) -> Tensor:
    """The clipped matches of prefixes of 1, 2, ... labels, shape ``(sentences, orders)``."""
    segments, width = keys.shape[1:]
    # The prefixes of each order, also sorted: (sentences, segments, orders, tokens).
    prefixes = torch.bitwise_right_shift(keys.sort(-1).values[:, :, None], shifts)
    # In every segment, the range of a prefix ends where the range of the next integer would begin:
    # (sentences, segments, orders, 2, tokens).
    limits = prefixes[:, :1, :, None] + numbers[:2, None].expand(segments, 1, 2, 1)
    begin, end = torch.searchsorted(prefixes, limits.flatten(3)).view_as(limits).unbind(3)
    counts = end[:, 1:] - begin[:, 1:]
    clip = counts[:, 0] if segments == 2 else counts.amax(1)
    # In each run of the hypothesis, the first `clip` keys match.
    index_in_run = numbers[:width] - begin[:, 0]
    # Booleans would be converted to integers, by another kernel, before they are summed.
    is_match = torch.lt(index_in_run, clip, out=torch.empty_like(clip))
    return is_match.sum(-1)
