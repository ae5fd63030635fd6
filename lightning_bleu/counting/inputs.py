"""Recognize what a call was given, and raise every error about it.

:func:`recognize` turns `preds` and `target` into one of five forms each. Nothing is counted or copied to another device
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.counting.devices import to_device
from lightning_bleu.counting.ragged import IntArray

Sentence: TypeAlias = "str | Sequence[str] | Sequence[int] | Tensor | npt.NDArray[Any]"
"""Text, tokens, or ids."""
Hypotheses: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence]"
"""What a call accepts as `preds`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
References: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence | Iterable[Sentence]]"
"""What a call accepts as `target`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
SampleMask: TypeAlias = "Tensor | npt.NDArray[np.bool_] | Sequence[bool]"
"""What a call accepts as `sample_mask`."""


TokenKind: TypeAlias = Literal["strings", "tokens", "ids"]
"""What sentences are made of."""


class Strings(NamedTuple):
    """Text."""

    lines: list[str]


class TokenLists(NamedTuple):
    """Sentences that are tokenized already."""

    rows: list[Sequence[str]]


class IdLists(NamedTuple):
    """Lists of ids, or lists without any token, which go with tokens as well."""

    rows: list[Sequence[int]]


class IdTensors(NamedTuple):
    """Tensors of shape ``(tokens,)``."""

    rows: list[Tensor]


class IdTensor(NamedTuple):
    """64-bit integers of shape ``(sentences, tokens)``, or for references ``(sentences, references, tokens)``."""

    ids: Tensor


Form: TypeAlias = Strings | TokenLists | IdLists | IdTensors | IdTensor

_SEQUENCES = (list, tuple)
_INTEGERS = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}


class Recognized(NamedTuple):
    """What a call was given.

    Attributes:
        kind: ``"strings"``, ``"tokens"``, or ``"ids"``.
        hypotheses: all hypotheses.
        references: all references, sentence by sentence.
        counts: how many references each sentence has, shape ``(sentences,)``.
    """

    kind: TokenKind
    hypotheses: Form
    references: Form
    counts: IntArray


def recognize(preds: Hypotheses, target: References) -> Recognized:
    """Recognize the forms of hypotheses and references, and check that they go together.

    Raises:
        TypeError: for a form that is not accepted, or two that do not go together.
        ValueError: for different numbers of sentences, shapes that are not accepted, or a sentence without a reference.

    Example:
        >>> kind, hypotheses, references, counts = recognize(["a b", "c"], [["a"], ["b", "c"]])
        >>> kind, hypotheses, references, counts.tolist()
        ('strings', Strings(lines=['a b', 'c']), Strings(lines=['a', 'b', 'c']), [1, 2])
    """
    hypotheses = _recognize_hypotheses(preds)
    references, counts = _recognize_references(target, hypotheses)
    kinds = _kind(hypotheses), _kind(references)
    if kinds[0] != kinds[1] and ("nothing" not in kinds or "strings" in kinds):
        raise TypeError(
            f"'preds' and 'target' must be of one kind, got {kinds[0]} and {kinds[1]}: "
            "tokenize (or decode) both or neither"
        )
    kind = kinds[1] if kinds[0] == "nothing" else kinds[0]
    return Recognized("tokens" if kind == "nothing" else kind, hypotheses, references, counts)


def read_sample_mask(sample_mask: SampleMask, sentences: int, device: torch.device) -> Tensor:
    """Check a mask and bring it to the device.

    Returns:
        which sentences count, booleans of shape ``(sentences,)``, or ``(1,)`` for all of them.

    Raises:
        TypeError: for anything but booleans.
        ValueError: for another shape.
    """
    if isinstance(sample_mask, _SEQUENCES):
        if wrong := {type(value) for value in sample_mask} - {bool, np.bool_}:
            raise TypeError(f"'sample_mask' must hold booleans, got {_names(wrong)}")
        sample_mask = np.array(sample_mask, bool)
    mask = torch.from_numpy(sample_mask) if isinstance(sample_mask, np.ndarray) else sample_mask
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"'sample_mask' must hold booleans, got {getattr(mask, 'dtype', type(mask).__name__)}")
    if mask.shape not in ((sentences,), (1,)):
        raise ValueError(
            f"'sample_mask' must have shape ({sentences},), one value per sentence, or (1,), one value for all, "
            f"got {tuple(mask.shape)}"
        )
    return to_device(mask, device)


def sentence_count(form: Form) -> int:
    """The number of hypotheses or references."""
    return len(form[0])


def _kind(form: Form) -> TokenKind | Literal["nothing"]:
    if isinstance(form, Strings):
        return "strings"
    if isinstance(form, TokenLists):
        return "tokens"
    return "nothing" if isinstance(form, IdLists) and not any(form.rows) else "ids"


def _recognize_hypotheses(preds: Hypotheses) -> Form:
    if not isinstance(preds, np.ndarray | Tensor):
        return _recognize_list("preds", _as_list("preds", preds))
    ids = _as_tensor("preds", preds)
    if ids.is_floating_point():
        if ids.ndim != 3:
            raise TypeError(
                f"'preds' is a {_describe(ids)}: ids must be integers of shape (sentences, tokens), "
                "and logits floating point of shape (sentences, tokens, vocabulary)"
            )
        if ids.shape[2] == 0:
            raise ValueError(f"'preds' is a {_describe(ids)}: logits need a vocabulary of at least one token")
        ids = ids.argmax(-1)
    if ids.ndim != 2:
        raise ValueError(
            f"'preds' must have shape (sentences, tokens) as ids or (sentences, tokens, vocabulary) as logits, "
            f"got a {_describe(ids)}"
        )
    return IdTensor(ids)


def _recognize_references(target: References, hypotheses: Form) -> tuple[Form, IntArray]:
    if isinstance(target, np.ndarray | Tensor):
        return _recognize_reference_tensor(target, hypotheses)
    sentences = sentence_count(hypotheses)
    entries = _as_list("target", target)
    if len(entries) != sentences:
        hint = ""
        if entries and isinstance(entries[0], _SEQUENCES) and len(entries[0]) == sentences:
            hint = (
                "; 'target' looks like sacreBLEU's layout, one list per set of references, but this takes one list "
                "per sentence: transpose it with list(zip(*target))"
            )
        raise ValueError(
            f"'preds' and 'target' must have the same number of sentences, got {sentences} and {len(entries)}{hint}"
        )
    if isinstance(hypotheses, Strings) and {*map(type, entries)} == {str}:
        return Strings(entries), np.ones(sentences, np.int64)
    groups = _group(entries, strings=isinstance(hypotheses, Strings))
    references = list(chain.from_iterable(groups))
    counts = np.fromiter(map(len, groups), np.int64, sentences)
    if not counts.all() or type(None) in {*map(type, references)}:
        sentence = next(i for i, group in enumerate(groups) if not group or any(item is None for item in group))
        found = "a reference that is None (leave it out)" if groups[sentence] else "no reference"
        raise ValueError(f"every sentence needs a reference, got {found} for sentence {sentence} of 'target'")
    return _recognize_list("target", references), counts


def _recognize_reference_tensor(target: Tensor | npt.NDArray[Any], hypotheses: Form) -> tuple[Form, IntArray]:
    ids = _as_tensor("target", target)
    sentences = sentence_count(hypotheses)
    if ids.is_floating_point():
        raise TypeError(f"'target' is a {_describe(ids)}: ids must be integers, and only 'preds' may be logits")
    if ids.ndim not in (2, 3):
        raise ValueError(
            f"'target' must have shape (sentences, tokens) or (sentences, references, tokens), got a {_describe(ids)}"
        )
    if len(ids) != sentences:
        shape = tuple(hypotheses.ids.shape) if isinstance(hypotheses, IdTensor) else (sentences,)
        raise ValueError(
            f"'preds' and 'target' must have the same number of sentences, got shapes {shape} and {tuple(target.shape)}"
        )
    references = ids.shape[1] if ids.ndim == 3 else 1
    if sentences and not references:
        raise ValueError(f"every sentence needs a reference, got 'target' of shape {tuple(target.shape)}")
    return IdTensor(ids), np.full(sentences, references, np.int64)


def _group(entries: list[Any], *, strings: bool) -> list[Sequence[Any]]:
    """Make the entry of every sentence a list of references."""
    if strings:
        return [entry if isinstance(entry, _SEQUENCES) else _as_group(entry) for entry in entries]
    entries = [entry if isinstance(entry, _SEQUENCES) else materialize(entry) for entry in entries]
    several = [_holds_sentences(entry) for entry in entries]
    # An empty list is an empty reference, unless other entries are lists of references.
    return [
        list(entry) if nested or (isinstance(entry, _SEQUENCES) and not entry and any(several)) else [entry]
        for entry, nested in zip(entries, several)
    ]


def _as_group(entry: Any) -> Sequence[Any]:
    entry = materialize(entry)
    return entry if isinstance(entry, list) else [entry]


def materialize(value: Any) -> Any:
    """A list in place of a deque, a generator, a view of a dict, and the like."""
    if isinstance(value, str | bytes | list | tuple | Tensor | np.ndarray | Mapping):
        return value
    if isinstance(value, Set) and not isinstance(value, MappingView):
        return value  # has no order
    return list(value) if isinstance(value, Iterable) else value


def _holds_sentences(entry: Any) -> bool:
    if isinstance(entry, Tensor | np.ndarray):
        return entry.ndim > 1
    return isinstance(entry, _SEQUENCES) and any(
        item is None or isinstance(item, list | tuple | Tensor | np.ndarray) for item in entry
    )


def _as_list(name: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        raise TypeError(f"{name!r} must be a list of sentences, got a str: wrap it in a list, [{value[:40]!r}]")
    items = materialize(value)
    if not isinstance(items, _SEQUENCES):
        raise TypeError(
            f"{name!r} must be a list of strings, of lists of tokens or of tensors of ids, or one tensor, "
            f"got {type(value).__name__}"
        )
    return list(items)


def _recognize_list(name: str, items: list[Any]) -> Form:
    types = {*map(type, items)}
    if types and all(issubclass(type_, str) for type_ in types):
        return Strings(items)
    if types and all(issubclass(type_, Tensor | np.ndarray) for type_ in types):
        return IdTensors([_as_row(name, item) for item in items])
    if not types <= {list, tuple}:
        items = [materialize(item) for item in items]
    for item in items:
        if not isinstance(item, _SEQUENCES):
            raise TypeError(
                f"{name!r} must hold sentences of one kind (strings, lists of tokens or tensors of ids), "
                f"got {type(item).__name__} among {_names(types)}"
            )
    types = {*map(type, chain.from_iterable(items))}
    if types and all(issubclass(type_, str) for type_ in types):
        return TokenLists(items)
    if all(issubclass(type_, int | np.integer) and type_ is not bool for type_ in types):
        return IdLists(items)
    raise TypeError(f"tokens of {name!r} must be all strings or all integers, got {_names(types)}")


def _as_row(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    ids = _as_tensor(name, value)
    if ids.is_floating_point():
        raise TypeError(f"{name!r} holds a {_describe(ids)}: ids must be integers")
    if ids.ndim != 1:
        raise ValueError(f"{name!r} must hold tensors of shape (tokens,), got a {_describe(ids)}")
    return ids


def _as_tensor(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """A dense tensor of 64-bit integers or of floating point."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            raise TypeError(f"{name!r} must hold integers, got an array of {value.dtype}: use a list for strings")
        # Not every array can become a tensor: it may run backward, be read-only, or have the byte order of another CPU.
        value = torch.from_numpy(np.require(value, value.dtype.newbyteorder("="), ["C", "W"]))
    if value.layout != torch.strided or value.is_nested:
        raise TypeError(f"{name!r} is a {'nested' if value.is_nested else 'sparse'} tensor: ids must be a dense tensor")
    if value.dtype == torch.int64:
        return value
    if value.dtype.is_floating_point:
        return value.detach()
    if value.dtype not in _INTEGERS:
        raise TypeError(f"{name!r} is a {_describe(value)}: ids must be integers")
    return value.to(torch.int64)


def _describe(value: Tensor) -> str:
    return f"tensor of {value.dtype} and shape {tuple(value.shape)}"


def _names(types: Iterable[type]) -> list[str]:
    return sorted(type_.__name__ for type_ in types)
