"""The forms of sentences: strings, lists of tokens, and ids, whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.settings import Settings

CPU = torch.device("cpu")
Segment: TypeAlias = "str | Sequence[str] | Sequence[int] | Tensor | npt.NDArray[Any]"
"""Text, tokens, or ids."""
Hypotheses: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Segment]"
"""The accepted types of `preds`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
References: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Segment | Iterable[Segment]]"
"""The accepted types of `target`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
SampleMask: TypeAlias = "Tensor | npt.NDArray[np.bool_] | Sequence[bool]"
"""The accepted types of `sample_mask`."""
Index: TypeAlias = "Tensor | npt.NDArray[Any] | Sequence[int]"
"""The accepted types of `index`."""


class Strings(NamedTuple):
    """Text, one line per segment."""

    lines: list[str]


class Tokens(NamedTuple):
    """Segments that are already tokenized. If all are empty, they can also be ids."""

    lists: list[list[str]]


class Ids(NamedTuple):
    """Ids.

    Attributes:
        ragged: the ids, on the CPU.
        device: the device that they were passed on.
        shape: the shape of the tensor that they were passed in, which may be padded; empty for lists. For hypotheses
            and references together, the shape of the references.
        vocabulary: the number of logits for each token, from which the ids were chosen; None if there were no logits.
        are_nan: whether the logits contain NaN.
    """

    ragged: Ragged
    device: torch.device
    shape: tuple[int, ...] = ()
    vocabulary: int | None = None
    are_nan: bool = False


Form: TypeAlias = Strings | Tokens | Ids
"""How sentences were passed."""


KINDS = ("strings", "tokens", "ids", "empty")
"""The kinds of sentences; see :func:`kind_of`."""


def kind_of(form: Form) -> str:
    """The name of a form: ``"strings"``, ``"tokens"``, ``"ids"``, or ``"empty"`` for lists without any token."""
    if isinstance(form, Tokens):
        return "tokens" if any(form.lists) else "empty"
    return "strings" if isinstance(form, Strings) else "ids"


def segment_count(form: Form) -> int:
    """The number of segments."""
    return len(form.ragged.lengths) if isinstance(form, Ids) else len(form[0])


def join(hypotheses: Form, references: Form) -> Form:
    """All hypotheses, then all references, which have the same form. Ids are copied.

    Example:
        >>> join(Strings(["a", "b"]), Strings(["c"]))
        Strings(lines=['a', 'b', 'c'])
    """
    if isinstance(hypotheses, Ids) and isinstance(references, Ids):
        ids = np.concatenate([hypotheses.ragged.ids, references.ragged.ids])
        lengths = np.concatenate([hypotheses.ragged.lengths, references.ragged.lengths])
        return references._replace(ragged=Ragged(ids, lengths))
    return type(hypotheses)([*hypotheses[0], *references[0]])  # type: ignore[arg-type, call-arg]


IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
SequenceT = TypeVar("SequenceT", list[int], bytes)


class Ragged(NamedTuple):
    """The tokens of many segments, concatenated.

    Attributes:
        ids: shape ``(tokens,)``.
        lengths: the number of tokens of each segment, shape ``(segments,)``.
    """

    ids: IntArray
    lengths: IntArray

    def to_lists(self) -> list[list[int]]:
        """The tokens of each segment.

        Example:
            >>> Ragged(np.array([5, 6, 7, 5, 8]), np.array([3, 2])).to_lists()
            [[5, 6, 7], [5, 8]]
        """
        return split_at(self.ids.tolist(), self.lengths.cumsum().tolist())


def split_at(sequence: SequenceT, ends: list[int]) -> list[SequenceT]:
    """Split a sequence into parts that end at these positions.

    Example:
        >>> split_at([5, 6, 7, 8], [1, 3])
        [[5], [6, 7]]
    """
    return [sequence[start:end] for start, end in pairwise([0, *ends])]


def lengths_of(segments: Sequence[Collection[Any]]) -> IntArray:
    """The length of each segment.

    Example:
        >>> lengths_of([[5, 6], [7]]).tolist()
        [2, 1]
    """
    return np.fromiter(map(len, segments), np.int64, len(segments))


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The integers of several ranges, one range after another.

    Args:
        starts: the first integer of each range.
        lengths: how many integers each range has.

    Example:
        >>> ranges(np.array([10, 7, 20]), np.array([2, 0, 3])).tolist()
        [10, 11, 20, 21, 22]
    """
    ends: IntArray = lengths.cumsum()
    offsets = ends - lengths
    return np.arange(lengths.sum(), dtype=np.int64) + (starts - offsets).repeat(lengths)


def remove_special_ids(ragged: Ragged, settings: Settings) -> Ragged:
    """Remove padding, special ids, and everything from the end-of-sentence id on.

    Example:
        >>> padded = Ragged(np.array([1, 5, 6, 2, 0, 1, 7, 2, 8, 0]), np.array([5, 5]))
        >>> remove_special_ids(padded, Settings.from_options(pad_id=0, bos_id=1, eos_id=2)).to_lists()
        [[5, 6], [7]]
    """
    positions = are_tokens(ragged, settings).nonzero()[0]
    lengths = positions.searchsorted(ragged.lengths.cumsum())  # where each segment ends among the tokens
    lengths[1:] -= lengths[:-1].copy()
    # Each id overwrites its own position: with another array, long batches return memory to the system after each call.
    ids = ragged.ids.take(positions, out=positions, mode="clip")
    return Ragged(ids, lengths)


def are_tokens(ragged: Ragged, settings: Settings) -> BoolArray:
    """Whether each id counts as a token, shape ``(ids,)``; see :func:`remove_special_ids`."""
    ids, lengths = ragged
    is_token = np.ones(len(ids), bool)
    for removed_id in settings.removed_ids:
        is_token &= ids != removed_id
    if settings.eos_id is None:
        return is_token
    segment_ends = lengths.cumsum()
    search_from = segment_ends - lengths
    if settings.eos_id in (settings.bos_id, settings.pad_id):  # then it may also come before the first token
        search_from = next_positions(is_token, search_from)
    ends = np.minimum(next_positions(ids == settings.eos_id, search_from), segment_ends)
    is_token &= np.arange(len(ids)) < ends.repeat(lengths)
    return is_token


def next_positions(flags: BoolArray, positions: IntArray) -> IntArray:
    """For each position, the first position at or after it with a set flag; ``len(flags)`` if there is none.

    Example:
        >>> next_positions(np.array([False, True, False, True, False]), np.array([0, 1, 2, 4])).tolist()
        [1, 1, 3, 5]
    """
    set_positions = np.append(np.flatnonzero(flags), len(flags))
    return set_positions[set_positions.searchsorted(positions)]


def drop_empty_references(ragged: Ragged, counts: IntArray) -> tuple[Ragged, IntArray]:
    """Drop the empty references of each sentence, except for the first one if all are empty.

    A tensor has the same number of references for all sentences, so sentences with fewer references have rows of
    padding.

    Args:
        ragged: any number of other segments, then the references, sentence by sentence, without padding.
        counts: the number of references of each sentence, the same for all, shape ``(sentences,)``.

    Returns:
        the segments that remain, and the number of references of each sentence.

    Example:
        >>> ragged, counts = drop_empty_references(Ragged(np.array([6, 7]), np.array([2, 0, 0, 0])), np.array([2, 2]))
        >>> ragged.to_lists(), counts.tolist()
        ([[6, 7], []], [1, 1])
    """
    first_reference = len(ragged.lengths) - counts.sum()
    reference_lengths = ragged.lengths[first_reference:]
    remains = (reference_lengths > 0).reshape(len(counts), counts.max(initial=1))
    remains[:, 0] |= ~remains.any(1)
    lengths = [ragged.lengths[:first_reference], reference_lengths[remains.reshape(-1)]]
    return Ragged(ragged.ids, np.concatenate(lengths)), remains.sum(1)
