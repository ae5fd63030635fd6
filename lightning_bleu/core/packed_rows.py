"""Packed rows: the statistics of every sentence, with what identifies it.

A packed row is a sentence that counts: its position in the dataset, how it was passed, a checksum of its references,
and its statistics. The rows of all processes together describe the whole corpus: :func:`read_rows` puts them in order
and drops repeats.

    position (64 bits) | kind and references | checksum | statistics
          0 1                    2                3         4 ...
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts
from lightning_bleu.core.forms import KINDS, Form, Ids, IntArray, Strings, kind_of, split_at

IDENTITY_COLUMNS = 4
"""The number of columns before the statistics."""


class OrderedRows(NamedTuple):
    """Sentences that count, in order.

    Attributes:
        rows: their packed rows, int32 on the CPU.
        order: the index of each among the rows that were read.
    """

    rows: Tensor
    order: Tensor


def positions_of(rows: Tensor) -> Tensor:
    """The positions in the dataset of packed rows, int64 of shape ``(sentences,)``; -1 if they are unknown."""
    # The clone has no gaps between rows, as a view as another type requires.
    return rows[:, :2].clone(memory_format=torch.contiguous_format).view(torch.int64)[:, 0]


def checksums_of(rows: Tensor) -> Tensor:
    """The checksums of the references of packed rows, shape ``(sentences,)``."""
    return rows[:, 3]


def count_inputs(rows: Tensor) -> InputCounts:
    """The number of sentences of packed rows by kind, and of references."""
    counts, kinds = np.divmod(rows[:, 2].numpy().astype(np.int64), len(KINDS))
    by_kind = dict(zip(KINDS, np.bincount(kinds, minlength=len(KINDS)).tolist()))
    return InputCounts(**by_kind, references=int(counts.sum()), squared_references=int(counts @ counts))


def pack_rows(batch: Batch, rows: IntArray) -> npt.NDArray[np.int32]:
    """Pack the rows of a batch.

    Args:
        batch: the sentences.
        rows: their statistics, shape ``(sentences, columns)``.

    Example:
        >>> from lightning_bleu.core.batch import read_batch
        >>> from lightning_bleu.bleu import BLEUSettings
        >>> batch = read_batch(["a", "b"], ["a", "c"], BLEUSettings.from_options())
        >>> batch = batch._replace(positions=np.array([7, 8]))
        >>> pack_rows(batch, np.array([[1, 1, 1, 1], [0, 1, 1, 1]])).tolist()
        [[7, 0, 4, -390611389, 1, 1, 1, 1], [8, 0, 4, 112844655, 0, 1, 1, 1]]
    """
    checksums = np.fromiter(map(zlib.crc32, _reference_bytes(batch)), np.uint32, len(rows))
    packed = np.empty((len(rows), IDENTITY_COLUMNS + rows.shape[1]), np.int32)
    packed[:, :2] = -1 if batch.positions is None else batch.positions[:, None].view(np.int32)
    packed[:, 2] = len(KINDS) * batch.reference_counts + KINDS.index(kind_of(batch.segments))
    packed[:, 3] = checksums.view(np.int32)
    packed[:, IDENTITY_COLUMNS:] = rows
    return packed


def _reference_bytes(batch: Batch) -> Iterator[bytes]:
    """The references of each sentence as bytes, the same in all processes and batches."""
    references = iter(_segment_bytes(batch.segments)[batch.sentence_count :])
    for count in batch.reference_counts.tolist():
        yield b"\n\0".join(islice(references, count))


def _segment_bytes(form: Form) -> list[bytes]:
    """Each segment as bytes."""
    if isinstance(form, Ids):
        ids, lengths = form.ragged
        return split_at(ids.tobytes(), (8 * lengths.cumsum()).tolist())
    lines = form.lines if isinstance(form, Strings) else map("\0".join, form.lists)
    return [line.encode(errors="surrogatepass") for line in lines]


def forget_positions(packed: Tensor) -> Tensor:
    """The same rows without positions, so that all of them count."""
    unplaced = packed.clone()
    unplaced[:, :2] = -1
    return unplaced


class SamePosition(ValueError):
    """Different sentences have the same position."""


def read_rows(packed: Tensor, groups: Tensor | None = None) -> OrderedRows:
    """Put packed rows in the order of their positions, and drop repeats.

    Of several rows with the same position and group, the first one counts. Rows without positions all count, in their
    own order.

    Args:
        packed: packed rows of all processes.
        groups: the number of the group of each sentence, shape ``(sentences,)``; None if there are no groups. Sentences
            with the same position are in the order of their groups.

    Raises:
        ValueError: if only some of the rows have positions.
        SamePosition: if sentences with different references have the same position and group.
    """
    positions = positions_of(packed)
    has_position = positions >= 0
    if not has_position.any():
        return OrderedRows(packed, torch.arange(len(packed), device="cpu"))
    if not has_position.all():
        raise ValueError("only some sentences have positions: pass an 'index' with every batch, or with none")
    group_numbers = torch.zeros_like(positions) if groups is None else groups
    by_group = group_numbers.argsort(stable=True)
    order = by_group[positions[by_group].argsort(stable=True)]
    identity = torch.stack([positions, group_numbers], 1)[order]
    checksums = checksums_of(packed)[order]
    is_repeat = (identity[1:] == identity[:-1]).all(1)
    differs = is_repeat & (checksums[1:] != checksums[:-1])
    if differs.any():
        same = identity[1:][differs][0, 0]
        hint = (
            "An index is the position of a sentence in its dataset, not in its batch. Pass all references of an item "
            "in one list"
        )
        raise SamePosition(f"different sentences have the same 'index' {same}: their references differ. {hint}")
    is_first = torch.cat([torch.ones(1, dtype=torch.bool, device="cpu"), ~is_repeat])
    order_of_first = order[is_first]
    return OrderedRows(packed[order_of_first], order_of_first)
