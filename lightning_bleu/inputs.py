"""Every accepted `preds` and `target` → padded ids, and every error about them.

Four steps. *Recognise* the form (strings, lists of tokens, ids, logits) and check that both sides fit each other.
*Encode* what is not ids yet. *Pad* hypotheses and references to one array. *Clean* the ids: cut them at the end of the
sentence, take out padding and the like.

The result is a stream of :class:`lightning_bleu.ngrams.Segments`: numpy arrays on the CPU, torch tensors on
accelerators, where nothing here waits for the device (except to decode ids to strings, which has to see them).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.conventions import Settings
from lightning_bleu.lengths import MISSING
from lightning_bleu.ngrams import Array, Segments, arange, namespace
from lightning_bleu.tokenizers import intern_tokens, token_memory, tokenizer_name

_BLOCK = 1024
"""Sentences of a list that are padded at once: memory stays small however many there are."""


@dataclass(frozen=True)
class Batch:
    """The sentences of one call, checked.

    Attributes:
        sentences: how many there are.
        blocks: the sentences in order, in one or more pieces; can be read once.
        device: where the pieces are.
        tokens: where the tokens come from, as signatures name it: a tokenizer, ``"ids"`` or ``"tokens"``.
        references: the numbers of references that occur.
    """

    sentences: int
    blocks: Iterator[Segments]
    device: torch.device
    tokens: str
    references: frozenset[int]


def read(preds: Any, target: Any, settings: Settings) -> Batch:
    """Recognise, check and encode what a call was given; see :meth:`lightning_bleu.CorpusBLEU.update` for the forms.

    Raises:
        TypeError: for a form that is not among them, or two that do not go together.
        ValueError: for numbers of sentences, shapes or references that do not fit.

    Example:
        >>> from lightning_bleu.conventions import make_settings
        >>> batch = read(torch.tensor([[5, 6, 0]]), torch.tensor([[5, 7, 6]]), make_settings(pad_id=0))
        >>> [block.lengths.tolist() for block in batch.blocks], batch.tokens
        ([[[2, 3]]], 'ids')
    """
    hypotheses = _recognise_hypotheses(preds)
    references = _recognise_references(target, hypotheses)
    sentences = len(hypotheses.counts)
    kinds = {hypotheses.kind, references.kind}
    if len(kinds - {"nothing"}) > 1 or kinds == {"strings", "nothing"}:
        raise TypeError(
            f"'preds' and 'target' must be of one kind, got {hypotheses.kind} and {references.kind}: "
            "tokenize (or decode) both or neither"
        )
    kind = "tokens" if kinds == {"nothing"} else (kinds - {"nothing"}).pop()
    if kind == "ids" and settings.decoder is not None:
        hypotheses, references = _decode(hypotheses, references, settings)
        kind = "strings"
    numbers = frozenset(references.counts.tolist())
    if kind == "ids":
        left, right = _pack_ids(hypotheses), _pack_ids(references)
        device = _device(*(side.ids for side in (left, right) if isinstance(side, _Padded)))
        return Batch(sentences, _blocks(left, right, settings), device, kind, numbers)
    items = [*hypotheses.items, *references.items]
    if kind == "strings":
        tokenizer = settings.convention.tokenizer
        kind = tokenizer_name(tokenizer)
        values, lengths = token_memory(tokenizer).encode(
            [line.lower() for line in items] if settings.convention.lowercase else items
        )
    else:
        values, lengths = intern_tokens(chain.from_iterable(items)), _lengths(items)
    left, right = _deal(values, lengths, hypotheses.counts, references.counts)
    return Batch(sentences, _blocks(left, right, None), _CPU, kind, numbers)


def sentence_texts(preds: Any, target: Any, settings: Settings) -> list[tuple[str, list[str]]]:
    """Each hypothesis and its references, as a person reads them: text, or the tokens or ids with blanks between.

    Example:
        >>> from lightning_bleu.conventions import make_settings
        >>> sentence_texts(torch.tensor([[5, 6, 0]]), [[[5, 7], [5]]], make_settings(pad_id=0))
        [('5 6', ['5 7', '5'])]
    """
    hypotheses = _recognise_hypotheses(preds)
    references = _recognise_references(target, hypotheses)
    if hypotheses.kind == "ids":
        if settings.decoder is None:
            settings = dataclasses.replace(settings, decoder=lambda rows: [" ".join(map(str, row)) for row in rows])
        hypotheses, references = _decode(hypotheses, references, settings)
    texts = [[i if isinstance(i, str) else " ".join(i) for i in side.items] for side in (hypotheses, references)]
    ends = references.counts.cumsum()
    groups = [texts[1][end - count : end] for end, count in zip(ends, references.counts)]
    return list(zip(texts[0], groups))


_CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Side:
    """`preds` or `target`, recognised.

    Attributes:
        kind: ``"strings"``, ``"tokens"``, ``"ids"``, or ``"nothing"`` for lists without a token, which go with either.
        items: all hypotheses or all references, in a list; or ids of shape ``(sentences, segments, tokens)``.
        counts: how many of them each sentence has.
    """

    kind: str
    items: Any
    counts: np.ndarray


def _recognise_hypotheses(preds: Any) -> _Side:
    if isinstance(preds, np.ndarray | Tensor):
        ids = _as_ids("preds", preds)
        if ids.is_floating_point():
            if ids.ndim != 3:
                raise TypeError(
                    f"'preds' is a {_describe(ids)}: ids must be integers of shape (sentences, tokens), "
                    "and logits floating point of shape (sentences, tokens, vocabulary)"
                )
            ids = ids.argmax(-1)
        if ids.ndim != 2:
            raise ValueError(
                f"'preds' must have shape (sentences, tokens) as ids or (sentences, tokens, vocabulary) as logits, "
                f"got a {_describe(ids)}"
            )
        return _Side("ids", ids[:, None], np.ones(len(ids), np.int64))
    items = _as_list("preds", preds)
    return _Side(_kind("preds", items), items, np.ones(len(items), np.int64))


def _recognise_references(target: Any, hypotheses: _Side) -> _Side:
    sentences = len(hypotheses.items)
    if isinstance(target, np.ndarray | Tensor):
        ids = _as_ids("target", target)
        if ids.is_floating_point():
            raise TypeError(f"'target' is a {_describe(ids)}: ids must be integers, and only 'preds' may be logits")
        if ids.ndim not in (2, 3):
            raise ValueError(
                "'target' must have shape (sentences, tokens) or (sentences, references, tokens), "
                f"got a {_describe(ids)}"
            )
        ids = ids[:, None] if ids.ndim == 2 else ids
        if len(ids) != sentences:
            shape = tuple(hypotheses.items[:, 0].shape) if isinstance(hypotheses.items, Tensor) else (sentences,)
            raise ValueError(
                "'preds' and 'target' must have the same number of sentences, "
                f"got shapes {shape} and {tuple(target.shape)}"
            )
        if ids.shape[1] == 0 and sentences:
            raise ValueError(f"every sentence needs a reference, got 'target' of shape {tuple(target.shape)}")
        return _Side("ids", ids, np.full(sentences, ids.shape[1]))
    entries = _as_list("target", target)
    if len(entries) != sentences:
        hint = ""
        if entries and isinstance(entries[0], list | tuple) and len(entries[0]) == sentences:
            hint = (
                "; 'target' looks like sacreBLEU's layout, one list for each set of references, where this takes one "
                "for each sentence: transpose it with list(zip(*target))"
            )
        raise ValueError(
            f"'preds' and 'target' must have the same number of sentences, got {sentences} and {len(entries)}{hint}"
        )
    groups = _group(entries, strings=hypotheses.kind == "strings")
    items, counts = list(chain.from_iterable(groups)), _lengths(groups)
    if not counts.all() or type(None) in set(map(type, items)):
        bad = (not group or any(reference is None for reference in group) for group in groups)
        sentence = next(number for number, is_bad in enumerate(bad) if is_bad)
        found = "a reference that is None (leave it out)" if groups[sentence] else "no reference"
        raise ValueError(f"every sentence needs a reference, got {found} for sentence {sentence} of 'target'")
    return _Side(_kind("target", items), items, counts)


def _group(entries: list[Any], *, strings: bool) -> list[Sequence[Any]]:
    """Make every sentence's entry a list of references."""
    if strings:
        sequences = list, tuple  # a union of types would be made anew for each entry
        return [entry if isinstance(entry, sequences) else [entry] for entry in entries]
    several = [_holds_sequences(entry) for entry in entries]
    # an empty list is an empty reference, unless the others are lists of references
    return [
        list(entry) if nested or (isinstance(entry, list | tuple) and not entry and any(several)) else [entry]
        for entry, nested in zip(entries, several)
    ]


def _holds_sequences(entry: Any) -> bool:
    if isinstance(entry, Tensor | np.ndarray):
        return entry.ndim > 1
    return isinstance(entry, list | tuple) and any(
        item is None or isinstance(item, list | tuple | Tensor | np.ndarray) for item in entry
    )


def _as_list(name: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        raise TypeError(f"{name!r} must be a list of sentences, got a str: wrap it in a list, [{value[:40]!r}]")
    if isinstance(value, Mapping | Set | bytes) or not isinstance(value, Iterable):
        raise TypeError(
            f"{name!r} must be a list of strings, of lists of tokens or of tensors of ids, or one tensor, "
            f"got {type(value).__name__}"
        )
    return list(value)


def _as_ids(name: str, value: Any) -> Tensor:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            raise TypeError(f"{name!r} must hold integers, got an array of {value.dtype}: use a list for strings")
        value = torch.from_numpy(value)
    if value.requires_grad:
        value = value.detach()
    if value.dtype == torch.bool or value.is_complex():
        raise TypeError(f"{name!r} is a {_describe(value)}: ids must be integers")
    ids: Tensor = value if value.is_floating_point() else value.to(torch.int64)
    return ids


def _describe(value: Tensor) -> str:
    return f"tensor of {value.dtype} and shape {tuple(value.shape)}"


def _kind(name: str, items: list[Any]) -> str:
    """What a list of hypotheses or references is made of."""
    types = set(map(type, items))
    if types and all(issubclass(type_, str) for type_ in types):
        return "strings"
    if types and all(issubclass(type_, Tensor | np.ndarray) for type_ in types):
        for item in items:
            ids = _as_ids(name, item)
            if ids.is_floating_point():
                raise TypeError(f"{name!r} holds a {_describe(ids)}: ids must be integers")
            if ids.ndim != 1:
                raise ValueError(f"{name!r} must hold tensors of shape (tokens,), got a {_describe(ids)}")
        return "ids"
    for item in items:
        if not isinstance(item, list | tuple):
            raise TypeError(
                f"{name!r} must hold sentences of one kind (strings, lists of tokens or tensors of ids), "
                f"got {type(item).__name__} among {sorted(type_.__name__ for type_ in types)}"
            )
    types = set(map(type, chain.from_iterable(items)))
    if not types:
        return "nothing"
    if all(issubclass(type_, str) for type_ in types):
        return "tokens"
    if all(issubclass(type_, int | np.integer) and type_ is not bool for type_ in types):
        return "ids"
    raise TypeError(
        f"tokens of {name!r} must be all strings or all integers, got {sorted(type_.__name__ for type_ in types)}"
    )


def _lengths(items: Sequence[Any]) -> np.ndarray:
    return np.fromiter(map(len, items), np.int64, len(items))


class _Padded(NamedTuple):
    """Segments of one side as an array.

    Attributes:
        ids: shape ``(sentences, segments, tokens)``.
        lengths: shape ``(sentences, segments)``, -1 for a segment that is not there; None if all fill the array.
    """

    ids: Array
    lengths: Array | None

    @classmethod
    def from_tensors(cls, tensors: list[Tensor], counts: np.ndarray) -> _Padded:
        """Pad 1-D tensors of an accelerator there."""
        lengths = _split_rows(_lengths(tensors), counts, -1)
        padded = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        if (lengths < 0).any():
            rows = _split_rows(np.arange(len(tensors)), counts, 0)
            padded = padded[to_device(torch.from_numpy(rows), padded.device)]
        ids = padded.reshape(*lengths.shape, padded.shape[-1])
        return cls(ids, to_device(torch.from_numpy(lengths), ids.device))


@dataclass(frozen=True)
class _Ragged:
    """Segments of one side, one after the other.

    Attributes:
        values: all their tokens.
        lengths: how many tokens each segment has.
        counts: how many segments each sentence has.
    """

    values: np.ndarray
    lengths: np.ndarray
    counts: np.ndarray

    def blocks(self, size: int) -> Iterator[_Padded]:
        """Pad `size` sentences at a time."""
        segment = token = 0
        for first in range(0, len(self.counts), size):
            counts = self.counts[first : first + size]
            lengths = self.lengths[segment : segment + counts.sum()]
            values = self.values[token : token + lengths.sum()]
            rows = _split_rows(lengths, counts, -1)
            ids = np.zeros((*rows.shape, lengths.max(initial=0)), np.int64)
            ids[np.arange(ids.shape[-1]) < rows[..., None]] = values
            yield _Padded(ids, rows)
            segment += len(lengths)
            token += len(values)


def _split_rows(values: np.ndarray, counts: np.ndarray, missing: int) -> np.ndarray:
    """Deal values to rows of different lengths: shape (rows, longest row)."""
    rows = np.full((len(counts), counts.max(initial=0)), missing)
    rows[np.arange(rows.shape[1]) < counts[:, None]] = values
    return rows


def _deal(values: np.ndarray, lengths: np.ndarray, *counts: np.ndarray) -> list[_Ragged]:
    """Deal tokens to hypotheses and references."""
    sides = []
    for count in counts:
        segments = int(count.sum())
        tokens = int(lengths[:segments].sum())
        sides.append(_Ragged(values[:tokens], lengths[:segments], count))
        values, lengths = values[tokens:], lengths[segments:]
    return sides


def _pack_ids(side: _Side) -> _Padded | _Ragged:
    items = side.items
    if isinstance(items, Tensor):
        return _Padded(items.numpy() if items.device == _CPU else items, None)
    if items and isinstance(items[0], Tensor | np.ndarray):
        tensors = [_as_ids("", item) for item in items]
        if tensors[0].device != _CPU:
            return _Padded.from_tensors(tensors, side.counts)
        values = torch.cat(tensors).numpy()
    else:
        try:
            values = np.fromiter(chain.from_iterable(items), np.int64)
        except OverflowError:
            raise ValueError("ids must fit in 64 bits") from None
    return _Ragged(values, _lengths(items), side.counts)


def _blocks(
    hypotheses: _Padded | _Ragged, references: _Padded | _Ragged, settings: Settings | None
) -> Iterator[Segments]:
    """Join both sides, and clean ids by the settings where there are some."""
    size = _BLOCK
    if isinstance(hypotheses, _Padded) or isinstance(references, _Padded):
        size = max(1, len(hypotheses.ids if isinstance(hypotheses, _Padded) else hypotheses.counts))
    left, right = ([side] if isinstance(side, _Padded) else side.blocks(size) for side in (hypotheses, references))
    for hypothesis, reference in zip(left, right):
        yield _clean(*_join(hypothesis, reference), settings)


def _join(hypotheses: _Padded, references: _Padded) -> tuple[Array, Array, bool]:
    """All segments in one array of ids, how far each reaches there, and whether a missing one is known by its -1."""
    device = _device(hypotheses.ids, references.ids)
    if device != _CPU:
        hypotheses, references = (_to_device(side, device) for side in (hypotheses, references))
    sentences, count, reference_width = references.ids.shape
    width = hypotheses.ids.shape[-1]
    ids = _zeros((sentences, 1 + count, max(width, reference_width)), references.ids)
    ids[:, :1, :width] = hypotheses.ids
    ids[:, 1:, :reference_width] = references.ids
    extents = _zeros((sentences, 1 + count), references.ids)
    extents[:, :1] = width if hypotheses.lengths is None else hypotheses.lengths
    extents[:, 1:] = reference_width if references.lengths is None else references.lengths
    return ids, extents, references.lengths is not None


def _device(*arrays: Array) -> torch.device:
    """Where the arrays are to be: on an accelerator if one of them is."""
    return next((array.device for array in arrays if isinstance(array, Tensor)), _CPU)


def _zeros(shape: tuple[int, ...], like: Array) -> Array:
    return like.new_zeros(shape) if isinstance(like, Tensor) else np.zeros(shape, np.int64)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor without waiting for the device."""
    if device.type == "cuda" and tensor.device == _CPU:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type == "cuda")


def read_sample_mask(sample_mask: Any, sentences: int, device: torch.device) -> Tensor | None:
    """The sentences that count, booleans of shape ``(sentences,)``, or ``(1,)`` for all of them; None for no mask.

    Raises:
        TypeError: for something other than booleans.
        ValueError: for another shape.
    """
    if sample_mask is None:
        return None
    mask = torch.as_tensor(np.asarray(sample_mask, bool) if isinstance(sample_mask, list | tuple) else sample_mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"'sample_mask' must hold booleans, got {mask.dtype}")
    if mask.shape not in ((sentences,), (1,)):
        raise ValueError(
            f"'sample_mask' must have shape ({sentences},), one value for each sentence, or (1,), one for all of them, "
            f"got {tuple(mask.shape)}"
        )
    return to_device(mask, device)


def _to_device(side: _Padded, device: torch.device) -> _Padded:
    ids, lengths = (array if array is None else to_device(torch.as_tensor(array), device) for array in side)
    return _Padded(ids, lengths)


def _clean(ids: Array, extents: Array, missing_known: bool, settings: Settings | None) -> Segments:
    """Mask what is no token, and move the tokens together."""
    xp = namespace(ids)
    mask = arange(ids.shape[-1], ids) < extents[..., None]
    if settings is not None:
        for removed in settings.removed_ids:
            mask &= ids != removed
        if settings.eos_id is not None:
            end = ids == settings.eos_id
            if settings.eos_id in (settings.bos_id, settings.pad_id):
                end &= mask.cumsum(-1) > 0  # before the first token it begins or pads the sentence
            mask &= end.cumsum(-1) == 0
    lengths = mask.sum(-1)
    gaps = settings is not None and settings.convention.removed_ids_split
    if settings is not None and not gaps:
        ids, mask = _compact(ids, mask, lengths)
    if lengths.shape[1] > 2:  # a single one is there
        if missing_known:
            missing = extents[:, 1:] < 0
        else:
            # in an array all sentences have equally many references: one without a token fills up, if there is another
            empty = lengths[:, 1:] == 0
            missing = empty & ~empty.all(-1)[:, None]
        lengths[:, 1:] = xp.where(missing, MISSING, lengths[:, 1:])
    if settings is not None and settings.unk_id is not None:
        mask[:, 1:] &= ids[:, 1:] != settings.unk_id  # it still counts for the length, but matches nothing
    return Segments(ids, mask, lengths, gaps)


def _compact(ids: Array, mask: Array, lengths: Array) -> tuple[Array, Array]:
    """Move the tokens of every segment to its beginning."""
    if isinstance(mask, np.ndarray) and not (mask[..., 1:] > mask[..., :-1]).any():
        return ids, mask
    prefix = arange(ids.shape[-1], ids) < lengths[..., None]
    if isinstance(mask, np.ndarray):
        compact = np.zeros_like(ids)
        compact[prefix] = ids[mask]
        return compact, prefix
    # what is no token goes to a column of its own, which is then cut off
    column = torch.where(mask, mask.cumsum(-1) - 1, ids.shape[-1])
    compact = ids.new_zeros(*ids.shape[:-1], ids.shape[-1] + 1).scatter_(-1, column, ids)
    return compact[..., :-1], prefix


def _decode(hypotheses_: _Side, references_: _Side, settings: Settings) -> tuple[_Side, _Side]:
    """Turn ids to strings."""
    decoder = settings.decoder
    convention = dataclasses.replace(settings.convention, removed_ids_split=False)
    settings = dataclasses.replace(settings, unk_id=None, convention=convention)
    blocks = _blocks(_pack_ids(hypotheses_), _pack_ids(references_), settings)
    hypotheses: list[list[int]] = []
    references: list[list[int]] = []
    counts: list[int] = []
    for block in blocks:
        ids, lengths = (torch.as_tensor(array).tolist() for array in (block.ids, block.lengths))
        for segments, sizes in zip(ids, lengths):
            first, *others = [segment[:size] for segment, size in zip(segments, sizes) if size != MISSING]
            hypotheses.append(first)
            references.extend(others)
            counts.append(len(others))
    if hasattr(decoder, "batch_decode"):
        lines = decoder.batch_decode(hypotheses + references, skip_special_tokens=True)
    else:
        lines = decoder(hypotheses + references)
    lines = list(lines)
    if len(lines) != len(hypotheses + references) or not all(isinstance(line, str) for line in lines):
        raise TypeError("'decoder' must return one string for each list of ids")
    sentences = len(counts)
    return (
        _Side("strings", lines[:sentences], np.ones(sentences, np.int64)),
        _Side("strings", lines[sentences:], np.array(counts, np.int64)),
    )
