"""Sentences of similar length, for scores by length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MIN_SENTENCES = 30
"""The sentences of a bucket, at least: the BLEU of 30 of WMT22 has a 95% interval of about ±8 points."""
_MAX_BUCKETS = 6
TAIL = 0.05
"""The share of long sentences that do not influence the widths of buckets."""
ROUND_NUMBERS = [digit * 10**zeros for zeros in range(9) for digit in (1, 2, 5)]


def find_length_buckets(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The bucket of each length, and the label of each bucket. All buckets but a single one have 30 sentences or more.

    Example:
        >>> buckets, labels = find_length_buckets(np.repeat([3, 4, 12, 14, 18], 20))
        >>> buckets[::20].tolist(), labels
        ([0, 0, 1, 1, 1], ['1–5', '6–20'])
    """
    width = next(number for number in ROUND_NUMBERS if np.quantile(lengths, 1 - TAIL) <= _MAX_BUCKETS * number)
    cells = ((lengths - 1) // width).clip(0, _MAX_BUCKETS - 1)
    counts = np.bincount(cells, minlength=_MAX_BUCKETS)
    starts = [0]
    for cell in range(1, _MAX_BUCKETS):
        before, after = counts[starts[-1] : cell].sum(), counts[cell:].sum()
        if before >= MIN_SENTENCES and after >= MIN_SENTENCES:
            starts.append(cell)
    ends = [*starts[1:], cells.max() + 1]
    labels = [f"{width * start + 1}–{width * end}" for start, end in zip(starts, ends)]
    if lengths.max() > width * ends[-1]:
        labels[-1] = f">{width * starts[-1]}"
    return np.searchsorted(starts, cells, side="right") - 1, labels
