"""Every accepted `preds` and `target` → padded ids, and every error about them.

Four steps. *Recognise* the form (strings, lists of tokens, ids, logits) and check that both sides fit each other.
*Encode* what is not ids yet. *Pad* hypotheses and references to one array. *Clean* the ids: tell tokens from what
follows the end of the sentence, padding and the like.

The result is a stream of :class:`lightning_bleu.ngrams.Segments`: numpy arrays on the CPU, torch tensors on
accelerators, where nothing here waits for the device (except to decode ids to strings, which has to see them).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.arrays import CPU, Array, arange, full, namespace, to_device
from lightning_bleu.conventions import Settings
from lightning_bleu.lengths import MISSING
from lightning_bleu.ngrams import Segments
from lightning_bleu.tokenizers import intern_tokens, token_memory, tokenizer_name

_BLOCK = 1024
"""Sentences of a list that are padded at once: memory stays small however many there are."""


class Batch(NamedTuple):
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
    kind, hypotheses, references = recognise(preds, target)
    if kind == "ids" and settings.decoder is not None:
        hypotheses, references = _decode(hypotheses, references, settings)
        kind = "strings"
    numbers = frozenset(references.counts.tolist())
    if kind == "ids":
        device, blocks = _id_blocks(hypotheses, references, settings)
        return Batch(len(hypotheses.items), blocks, device, kind, numbers)
    items = [*hypotheses.items, *references.items]
    if kind == "strings":
        tokenizer = settings.convention.tokenizer
        kind = tokenizer_name(tokenizer)
        values, lengths = token_memory(tokenizer).encode(
            [line.lower() for line in items] if settings.convention.lowercase else items
        )
    else:
        values, lengths = intern_tokens(chain.from_iterable(items)), _lengths(items)
    sentences = len(hypotheses.items)
    tokens = lengths[:sentences].sum()
    left = _Ragged(values[:tokens], lengths[:sentences], hypotheses.counts)
    right = _Ragged(values[tokens:], lengths[sentences:], references.counts)
    blocks = (Segments(ids, mask, _mark(lengths, lengths < 0)) for ids, mask, lengths in _pad_blocks(left, right))
    return Batch(sentences, blocks, CPU, kind, numbers)


def recognise(preds: Any, target: Any) -> tuple[str, _Side, _Side]:
    """What both sides are made of, ``"strings"``, ``"tokens"`` or ``"ids"``, and the sides; errors as in :func:`read`.

    Example:
        >>> recognise(["a b", "c"], [["a"], ["b", "c"]])[0]
        'strings'
    """
    hypotheses = _recognise_hypotheses(preds)
    references = _recognise_references(target, hypotheses)
    kinds = {hypotheses.kind, references.kind}
    if len(kinds - {"nothing"}) > 1 or kinds == {"strings", "nothing"}:
        raise TypeError(
            f"'preds' and 'target' must be of one kind, got {hypotheses.kind} and {references.kind}: "
            "tokenize (or decode) both or neither"
        )
    return "tokens" if kinds == {"nothing"} else (kinds - {"nothing"}).pop(), hypotheses, references


def sentence_texts(preds: Any, target: Any, settings: Settings) -> list[tuple[str, list[str]]]:
    """Each hypothesis and its references, as a person reads them: text, or the tokens or ids with blanks between.

    Example:
        >>> from lightning_bleu.conventions import make_settings
        >>> sentence_texts(torch.tensor([[5, 6, 0]]), [[[5, 7], [5]]], make_settings(pad_id=0))
        [('5 6', ['5 7', '5'])]
    """
    kind, hypotheses, references = recognise(preds, target)
    if kind == "ids":
        if settings.decoder is None:
            settings = dataclasses.replace(settings, decoder=lambda rows: [" ".join(map(str, row)) for row in rows])
        hypotheses, references = _decode(hypotheses, references, settings)
    texts = [[i if isinstance(i, str) else " ".join(i) for i in side.items] for side in (hypotheses, references)]
    ends = references.counts.cumsum()
    groups = [texts[1][end - count : end] for end, count in zip(ends, references.counts)]
    return list(zip(texts[0], groups))


class _Side(NamedTuple):
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
    strings = hypotheses.kind == "strings"
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
    if strings and set(map(type, entries)) == {str}:
        return _Side("strings", entries, np.ones(sentences, np.int64))
    groups = _group(entries, strings=strings)
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


class _Ragged(NamedTuple):
    """Segments of one side, one after the other.

    Attributes:
        values: all their tokens.
        lengths: how many tokens each segment has.
        counts: how many segments each sentence has.
    """

    values: np.ndarray
    lengths: np.ndarray
    counts: np.ndarray

    def pieces(self, size: int) -> Iterator[_Ragged]:
        """`size` sentences at a time."""
        segment = token = 0
        for first in range(0, len(self.counts), size):
            counts = self.counts[first : first + size]
            lengths = self.lengths[segment : segment + counts.sum()]
            values = self.values[token : token + lengths.sum()]
            yield _Ragged(values, lengths, counts)
            segment += len(lengths)
            token += len(values)


def _pad_blocks(*sides: _Ragged) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Pad some sentences at a time, all sides in one array."""
    for pieces in zip(*(side.pieces(_BLOCK) for side in sides)):
        yield _pad(*pieces)


def _pad(*sides: _Ragged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids and mask of shape (sentences, segments, tokens), and lengths, -1 for a segment that is not there."""
    lengths = np.concatenate([_split_rows(side.lengths, side.counts, -1) for side in sides], 1)
    mask = np.arange(lengths.max(initial=0)) < lengths[..., None]
    ids = np.zeros(mask.shape, np.int64)
    end = 0
    for side in sides:
        begin, end = end, end + side.counts.max(initial=0)
        ids[:, begin:end][mask[:, begin:end]] = side.values
    return ids, mask, lengths


def _split_rows(values: np.ndarray, counts: np.ndarray, missing: int) -> np.ndarray:
    """Deal values to rows of different lengths: shape (rows, longest row)."""
    width = counts.max(initial=0)
    if width * len(counts) == len(values):
        return values.reshape(len(counts), width)
    rows = np.full((len(counts), width), missing)
    rows[np.arange(width) < counts[:, None]] = values
    return rows


def _id_blocks(hypotheses: _Side, references: _Side, settings: Settings) -> tuple[torch.device, Iterator[Segments]]:
    """Where the ids are to be (on an accelerator if some are there), and the ids."""
    sides = hypotheses, references
    device = next((device for side in sides if (device := _device(side.items)) != CPU), CPU)
    if not len(hypotheses.items):
        return device, iter([])
    if device == CPU and not all(isinstance(side.items, Tensor) for side in sides):
        blocks = _pad_blocks(*map(_flatten, sides))
        known = not isinstance(references.items, Tensor)
        return device, (_clean(ids, mask, lengths if known else None, settings) for ids, mask, lengths in blocks)
    left, right = (_pad_side(side, device) for side in sides)
    return device, iter([_clean(*_join(left, right, settings), settings)])


def _device(items: Any) -> torch.device:
    first = items if isinstance(items, Tensor) or not items else items[0]
    return first.device if isinstance(first, Tensor) else CPU


def _flatten(side: _Side) -> _Ragged:
    """Ids one after the other."""
    items = side.items
    if isinstance(items, Tensor):
        return _Ragged(items.reshape(-1).numpy(), np.full(items.shape[:2], items.shape[2]).reshape(-1), side.counts)
    if items and isinstance(items[0], Tensor | np.ndarray):
        values = torch.cat([_as_ids("", item) for item in items]).numpy()
    else:
        try:
            values = np.fromiter(chain.from_iterable(items), np.int64)
        except OverflowError:
            raise ValueError("ids must fit in 64 bits") from None
    return _Ragged(values, _lengths(items), side.counts)


def _pad_side(side: _Side, device: torch.device) -> _Padded:
    """Ids of one side as an array of the device."""
    items = side.items
    if isinstance(items, Tensor):
        return _Padded(items.numpy() if device == CPU else to_device(items, device), None)
    if _device(items) == CPU:
        padded, _, lengths = _pad(_flatten(side))
        ids = to_device(torch.from_numpy(padded), device)
    else:
        tensors = [_as_ids("", item) for item in items]
        lengths = _split_rows(_lengths(tensors), side.counts, -1)
        ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        if (lengths < 0).any():
            rows = _split_rows(np.arange(len(tensors)), side.counts, 0)
            ids = ids[to_device(torch.from_numpy(rows), device)]
        ids = ids.reshape(*lengths.shape, ids.shape[-1])
    return _Padded(ids, to_device(torch.from_numpy(lengths), device))


def _join(hypotheses: _Padded, references: _Padded, settings: Settings) -> tuple[Array, Array | None, Array | None]:
    """Both sides in one array of ids, with what :func:`_clean` takes: a mask (or None), and lengths (or None)."""
    xp = namespace(hypotheses.ids)
    sides = hypotheses, references
    width = max(side.ids.shape[-1] for side in sides)
    fill, *_ = *settings.removed_ids, 0
    ids = xp.concatenate([_widen(side.ids, width, fill) for side in sides], 1)
    known = any(side.lengths is not None for side in sides)
    if settings.removed_ids and not known:
        return ids, None, None
    lengths = xp.concatenate(
        [full(side.ids.shape[:2], side.ids.shape[-1], ids) if side.lengths is None else side.lengths for side in sides],
        1,
    )
    mask = arange(0, width, ids) < lengths[..., None]
    return ids, mask, lengths if references.lengths is not None else None


def _widen(ids: Array, width: int, fill: int) -> Array:
    sentences, segments, tokens = ids.shape
    if tokens == width:
        return ids
    wider = full((sentences, segments, width), fill, ids)
    wider[..., :tokens] = ids
    return wider


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


def _clean(ids: Array, mask: Array | None, lengths: Array | None, settings: Settings) -> Segments:
    """Tell what is a token.

    Args:
        ids: shape (sentences, segments, tokens).
        mask: False where an id only fills up; None if all of those are removed.
        lengths: -1 for segments that are not there; None if those are like empty ones.
        settings: what the ids mean.
    """
    for removed in settings.removed_ids:
        stays = ids != removed
        if mask is None:
            mask = stays
        else:
            mask &= stays
    assert mask is not None
    if settings.eos_id is not None:
        end = ids == settings.eos_id
        if settings.eos_id in (settings.bos_id, settings.pad_id):
            end &= mask.cumsum(-1) > 0  # before the first token it begins or pads the sentence
        mask &= end.cumsum(-1) == 0
    counts = mask.sum(-1)
    if counts.shape[1] > 2:  # a single reference is there
        # in an array all sentences have equally many: one without a token fills up, if there is another
        missing = (counts == 0) & counts[:, 1:].any(-1)[:, None] if lengths is None else lengths < 0
        counts = _mark(counts, missing)
    # it still counts for the length
    matching = None if settings.unk_id is None else ids != settings.unk_id
    return Segments(ids, mask, counts, settings.convention.removed_ids_split, matching)


def _mark(lengths: Array, missing: Array) -> Array:
    """Give references that are not there a length that no rule picks."""
    lengths[:, 1:] = namespace(lengths).where(missing[:, 1:], MISSING, lengths[:, 1:])
    return lengths


def _decode(hypotheses_: _Side, references_: _Side, settings: Settings) -> tuple[_Side, _Side]:
    """Turn ids to strings."""
    decoder = settings.decoder
    _, blocks = _id_blocks(hypotheses_, references_, settings)
    hypotheses: list[list[int]] = []
    references: list[list[int]] = []
    counts: list[int] = []
    for block in blocks:
        ids, masks, lengths = (torch.as_tensor(array).cpu().numpy() for array in block[:3])
        there = (lengths < MISSING).tolist()
        for number, (segments, mask) in enumerate(zip(ids, masks)):
            first, *others = [
                segment[tokens].tolist() for segment, tokens, is_there in zip(segments, mask, there[number]) if is_there
            ]
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
