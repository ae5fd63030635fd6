"""Padded: tokens in rows of equal length, the representation for counting on an accelerator.

The size of a ragged array depends on the data, so the host would have to wait for the device to learn it. Instead, ids
stay in rectangular tensors, with a mask that marks the tokens. Nothing here waits for the device, except
:meth:`Padded.rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lightning_bleu.counting.devices import to_device
from lightning_bleu.reading.ragged import IntArray, Ragged
from lightning_bleu.settings.special_ids import SpecialIds


class Padded(NamedTuple):
    """The sentences of one call.

    Attributes:
        ids: int64 of shape ``(sentences, segments, tokens)``. Segment 0 is the hypothesis; the others are its
            references.
        is_token: booleans of the same shape. Ids where it is False are ignored.
        running_counts: the number of tokens up to and including each position, same shape. For a token, this is its
            place in its segment, from 1.
        missing: True for references to ignore (they do not exist because other sentences have more, or are empty rows
            of a tensor), unless all references of the sentence are marked; shape ``(sentences, segments)``, None for
            none. The value for the hypothesis has no meaning.
        can_match: False for tokens that match nothing, same shape as ``ids``; None if all can match.
        break_ngrams: if True, n-grams do not span positions where ``is_token`` is False.
    """

    ids: Tensor
    is_token: Tensor
    running_counts: Tensor
    missing: Tensor | None = None
    can_match: Tensor | None = None
    break_ngrams: bool = False

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each segment, shape ``(sentences, segments)``. Needs at least one position."""
        return self.running_counts[..., -1]

    def rows(self) -> list[list[list[int]]]:
        """The tokens of the segments of each sentence. Waits for the device.

        Example:
            >>> ids = torch.tensor([[[5, 6], [7, 0]]])
            >>> Padded(ids, is_token=ids != 0, running_counts=(ids != 0).cumsum(-1)).rows()
            [[[5, 6], [7]]]
        """
        sentences = zip(self.ids.cpu(), self.is_token.cpu())
        rows = [[ids[is_token].tolist() for ids, is_token in zip(*segments)] for segments in sentences]
        if self.missing is None:
            return rows
        exists = (~self.missing[:, 1:]).tolist()
        return [
            [hypothesis, *(list(compress(references, exist)) or references)]
            for (hypothesis, *references), exist in zip(rows, exists)
        ]


class PaddedSide(NamedTuple):
    """All hypotheses or all references of a call.

    Attributes:
        ids: int64 of shape ``(sentences, segments, tokens)``.
        lengths: the number of ids of each segment, shape ``(sentences, segments)``; -1 for segments that do not exist.
            None if every row is full.
    """

    ids: Tensor
    lengths: Tensor | None = None


def pad_ragged(ragged: Ragged, counts: IntArray, device: torch.device) -> PaddedSide:
    """Pad segments on the host and send them to the device.

    Args:
        ragged: segments of one piece each.
        counts: the number of segments of each sentence, shape ``(sentences,)``.
        device: the target device.

    Example:
        >>> ragged = Ragged.of(np.array([5, 6, 7]), np.array([2, 0, 1]))
        >>> side = pad_ragged(ragged, np.array([2, 1]), torch.device("cpu"))
        >>> side.ids.tolist(), side.lengths.tolist()
        ([[[5, 6], [0, 0]], [[7, 0], [0, 0]]], [[2, 0], [1, -1]])
    """
    exists = np.arange(counts.max(initial=1)) < counts[:, None]
    lengths = np.full(exists.shape, -1, np.int64)
    lengths[exists] = ragged.lengths
    is_token = np.arange(ragged.lengths.max(initial=0)) < lengths[..., None]
    ids = np.zeros(is_token.shape, np.int64)
    ids[is_token] = ragged.ids
    return PaddedSide(to_device(torch.from_numpy(ids), device), to_device(torch.from_numpy(lengths), device))


def pad_tensors(tensors: Sequence[Tensor], counts: IntArray) -> PaddedSide:
    """Pad tensors of shape ``(tokens,)`` on their device; see :func:`pad_ragged`."""
    device = tensors[0].device
    exists = np.arange(counts.max()) < counts[:, None]
    lengths = np.full(exists.shape, -1, np.int64)
    lengths[exists] = [len(tensor) for tensor in tensors]
    index = np.zeros(exists.shape, np.int64)
    index[exists] = np.arange(len(tensors))
    ids = pad_sequence(list(tensors), batch_first=True).to(torch.int64)
    if not exists.all():
        ids = ids[to_device(torch.from_numpy(index).reshape(-1), device)]
    return PaddedSide(ids.reshape(*exists.shape, ids.shape[1]), to_device(torch.from_numpy(lengths), device))


def join(hypotheses: PaddedSide, references: PaddedSide, special_ids: SpecialIds) -> Padded:
    """Concatenate hypotheses and references into one tensor, and mask padding and markers.

    A tensor has the same number of references for all sentences, so an empty reference is treated as missing if its
    sentence also has a nonempty one. :func:`lightning_bleu.reading.ragged.drop_fillers` applies the same rule on the
    CPU.

    Example:
        >>> hypotheses = PaddedSide(torch.tensor([[[5, 6, 0]]]))
        >>> references = PaddedSide(torch.tensor([[[5, 7, 6, 8], [0, 0, 0, 0]]]))
        >>> padded = join(hypotheses, references, SpecialIds(pad_id=0))
        >>> padded.lengths.tolist(), padded.rows()
        ([[2, 4, 0]], [[[5, 6], [5, 7, 6, 8]]])
    """
    sides = hypotheses, references
    width = max(1, *(side.ids.shape[-1] for side in sides))
    # Widened rows need no mask if the fill value is an id that is removed anyway.
    fill = special_ids.removed[0] if special_ids.removed else 0
    ids = torch.cat([_widen(side.ids, width, fill) for side in sides], 1)
    is_token = missing = None
    if not special_ids.removed or any(side.lengths is not None for side in sides):
        lengths = torch.cat([_lengths(side) for side in sides], 1)
        is_token = torch.arange(width, device=ids.device) < lengths[..., None]
        missing = None if references.lengths is None else lengths < 0
    is_token = _clean(ids, is_token, special_ids)
    running_counts = is_token.cumsum(-1)
    if references.lengths is None and references.ids.shape[1] > 1:
        missing = running_counts[..., -1] == 0
    can_match = None if special_ids.unk_id is None else ids != special_ids.unk_id
    return Padded(ids, is_token, running_counts, missing, can_match, special_ids.break_ngrams)


def _widen(ids: Tensor, width: int, fill: int) -> Tensor:
    if ids.shape[-1] == width:
        return ids
    wider = ids.new_full((*ids.shape[:-1], width), fill)
    wider[..., : ids.shape[-1]] = ids
    return wider


def _lengths(side: PaddedSide) -> Tensor:
    return side.ids.new_full(side.ids.shape[:2], side.ids.shape[2]) if side.lengths is None else side.lengths


def _clean(ids: Tensor, is_token: Tensor | None, special_ids: SpecialIds) -> Tensor:
    """Mask padding, markers, and everything from the end-of-sentence id on."""
    for removed in special_ids.removed:
        is_token = ids != removed if is_token is None else is_token & (ids != removed)
    assert is_token is not None  # if no ids are removed, the caller passes a mask
    if special_ids.eos_id is not None:
        ends = ids == special_ids.eos_id
        if special_ids.eos_also_leads:
            ends &= is_token.cumsum(-1) > 0
        is_token = is_token > ends.cumsum(-1)  # True > 0: a token, and no end so far
    return is_token
