"""Kept rows: the statistics of every sentence, with what identifies it.

A packed row is a sentence that counts: its position in the dataset, how it was passed, a checksum of its references,
and its statistics. The rows of all processes together say everything about a corpus: :func:`read_rows` puts them in
order and drops repeats.

    position (64 bits) | kind and references | checksum | statistics
          0 1                    2                3         4 ...
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import KINDS, Ids, InputCounts, Strings, kind_of
from lightning_bleu.reading.ragged import IntArray

IDENTITY_COLUMNS = 4
"""The number of columns before the statistics."""
_MIXED = "some sentences have an 'index' and others have none: pass it with every batch, or with none"


class KeptSentences(NamedTuple):
    """Sentences that count, in order.

    Attributes:
        rows: their packed rows, int32 on the CPU.
        order: the index of each among the rows that were read.
    """

    rows: Tensor
    order: Tensor

    @property
    def identity(self) -> Tensor:
        """What identifies the sentences, int32 of shape ``(sentences, 4)``."""
        return self.rows[:, :IDENTITY_COLUMNS]

    @property
    def statistics(self) -> Tensor:
        """The statistics, int32 of shape ``(sentences, columns)``."""
        return self.rows[:, IDENTITY_COLUMNS:]

    @property
    def positions(self) -> Tensor:
        """The positions in the dataset, int64 of shape ``(sentences,)``; -1 if they are unknown."""
        # The clone has no gaps between rows, as a view as another type requires.
        return self.rows[:, :2].clone(memory_format=torch.contiguous_format).view(torch.int64)[:, 0]

    @property
    def checksums(self) -> Tensor:
        """The checksums of the references, shape ``(sentences,)``."""
        return self.rows[:, 3]

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        counts, kinds = np.divmod(self.rows[:, 2].numpy().astype(np.int64), len(KINDS))
        sentences = dict(zip(KINDS, np.bincount(kinds, minlength=len(KINDS)).tolist()))
        return InputCounts(**sentences, references=int(counts.sum()), squared_references=int(counts @ counts))


def pack_rows(batch: Batch, rows: IntArray) -> npt.NDArray[np.int32]:
    """Pack the rows of a batch.

    Args:
        batch: the sentences.
        rows: their statistics, shape ``(sentences, columns)``.

    Example:
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.bleu import BLEUSettings
        >>> batch = read_batch(["a", "b"], ["a", "c"], BLEUSettings.from_options(), index=[7, 8])
        >>> pack_rows(batch, np.array([[1, 1, 1, 1], [0, 1, 1, 1]])).tolist()
        [[7, 0, 4, -390611389, 1, 1, 1, 1], [8, 0, 4, 112844655, 0, 1, 1, 1]]
    """
    packed = np.empty((len(rows), IDENTITY_COLUMNS + rows.shape[1]), np.int32)
    packed[:, :2] = -1 if batch.positions is None else batch.positions[:, None].view(np.int32)
    packed[:, 2] = len(KINDS) * batch.reference_counts + KINDS.index(kind_of(batch.segments))
    packed[:, 3] = np.fromiter(map(zlib.crc32, _reference_bytes(batch)), np.uint32, len(rows)).view(np.int32)
    packed[:, IDENTITY_COLUMNS:] = rows
    return packed


def _reference_bytes(batch: Batch) -> Iterator[bytes]:
    """The references of each sentence as bytes, the same in all processes and batches."""
    segments = batch.segments
    if isinstance(segments, Ids):
        ids, ends = segments.ragged.ids.tobytes(), (8 * segments.ragged.lengths.cumsum()).tolist()
        all_bytes = (ids[start:end] for start, end in zip([0, *ends], ends))
    else:
        lines = segments.lines if isinstance(segments, Strings) else map("\0".join, segments.lists)
        all_bytes = (line.encode(errors="surrogatepass") for line in lines)
    references = islice(all_bytes, batch.sentence_count, None)
    for count in batch.reference_counts.tolist():
        yield b"\n\0".join(islice(references, count))


def append_rows(kept: Sequence[Tensor], *more: Tensor) -> list[Tensor]:
    """Append packed rows to a list of them.

    Each tensor of the list has more rows than the next one, so there are few, and a row is copied only a few times.

    Raises:
        ValueError: if only some of the rows have positions.

    Example:
        >>> kept: list[Tensor] = []
        >>> for _ in range(7):
        ...     kept = append_rows(kept, torch.zeros(1, 8, dtype=torch.int32))
        >>> [len(rows) for rows in kept]
        [4, 2, 1]
    """
    joined = list(kept)
    for rows in filter(len, more):
        if joined:
            if (joined[-1][-1, 1] < 0) != (rows[0, 1] < 0):
                raise ValueError(_MIXED)
            rows = rows.to(joined[-1].device)
        while joined and len(joined[-1]) <= len(rows):
            rows = torch.cat([joined.pop(), rows])
        joined.append(rows)
    return joined


def forget_positions(packed: Tensor) -> Tensor:
    """The same rows without positions, so that all of them count."""
    forgotten = packed.clone()
    forgotten[:, :2] = -1
    return forgotten


class SamePosition(ValueError):
    """Different sentences have the same position."""


def read_rows(packed: Tensor) -> KeptSentences:
    """Put packed rows in the order of their positions, and drop repeats.

    Of several rows with the same position, the first one counts. Rows without positions all count, in their own order.

    Args:
        packed: packed rows of all processes.

    Raises:
        ValueError: if only some of the rows have positions.
        SamePosition: if sentences with different references have the same position.
    """
    kept = KeptSentences(packed.cpu(), torch.arange(len(packed), device="cpu"))
    positions = kept.positions
    if (positions < 0).all():
        return kept
    if (positions < 0).any():
        raise ValueError(_MIXED)
    order = positions.argsort(stable=True)
    ordered, checksums = positions[order], kept.checksums[order]
    is_repeat = ordered[1:] == ordered[:-1]
    if (differs := is_repeat & (checksums[1:] != checksums[:-1])).any():
        raise SamePosition(
            f"different sentences have the same 'index' {ordered[1:][differs][0]}: their references differ. An index "
            "is the position of a sentence in its dataset, not in its batch, and a metric takes a single dataset"
        )
    order = order[torch.cat([torch.ones(1, dtype=torch.bool, device="cpu"), ~is_repeat])]
    return KeptSentences(kept.rows[order], order)
