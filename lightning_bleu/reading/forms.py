"""The forms in which sentences can be passed: text, tokens, or ids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MappingView, Sequence, Set, Sized
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.reading.ragged import IntArray

Sentence: TypeAlias = "str | Sequence[str] | Sequence[int] | Tensor | npt.NDArray[Any]"
"""Text, tokens, or ids."""
Hypotheses: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence]"
"""The accepted types of `preds`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
References: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence | Iterable[Sentence]]"
"""The accepted types of `target`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
SampleMask: TypeAlias = "Tensor | npt.NDArray[np.bool_] | Sequence[bool]"
"""The accepted types of `sample_mask`."""


TokenKind: TypeAlias = Literal["strings", "tokens", "ids"]
"""What sentences are made of."""


class Strings(NamedTuple):
    """Text."""

    lines: list[str]


class TokenLists(NamedTuple):
    """Sentences that are already tokenized."""

    rows: list[Sequence[str]]


class IdLists(NamedTuple):
    """Lists of ids; also lists that are all empty, which can be paired with ids or tokens."""

    rows: list[Sequence[int]]


class IdTensors(NamedTuple):
    """Tensors of shape ``(tokens,)``."""

    rows: list[Tensor]


class IdTensor(NamedTuple):
    """int64 of shape ``(sentences, tokens)``, or ``(sentences, references, tokens)`` for references."""

    ids: Tensor


Form: TypeAlias = Strings | TokenLists | IdLists | IdTensors | IdTensor
"""All hypotheses or all references of a call."""

SEQUENCES = (list, tuple)
"""Types that can be iterated more than once without a copy. (A union of types would be slower in isinstance.)"""
_INTEGERS = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}


def segment_count(form: Form) -> int:
    """The number of hypotheses or references; for a tensor of references, the number of sentences."""
    return len(form[0])


def row_lengths(rows: Sequence[Sized]) -> IntArray:
    """The number of tokens of each segment."""
    return np.fromiter(map(len, rows), np.int64, len(rows))


def flatten(form: Form) -> tuple[IntArray, IntArray]:
    """All ids in one flat array on the CPU, and the number of ids of each segment. The form must hold ids.

    Example:
        >>> ids, lengths = flatten(IdTensor(torch.tensor([[5, 6], [7, 0]])))
        >>> ids.tolist(), lengths.tolist()
        ([5, 6, 7, 0], [2, 2])
    """
    if isinstance(form, IdTensor):
        *segments, width = form.ids.shape
        return form.ids.cpu().numpy().reshape(-1), np.full(math.prod(segments), width, np.int64)
    assert isinstance(form, IdLists | IdTensors)
    lengths = row_lengths(form.rows)
    if isinstance(form, IdTensors):
        return torch.cat(form.rows).cpu().numpy(), lengths
    try:
        return np.fromiter(chain.from_iterable(form.rows), np.int64, int(lengths.sum())), lengths
    except OverflowError:
        raise ValueError("ids must fit in 64 bits") from None


def kind_of(form: Form) -> TokenKind | Literal["nothing"]:
    """The kind of a form. Lists that are all empty are ``"nothing"``, which can be paired with tokens or ids."""
    if isinstance(form, Strings):
        return "strings"
    if isinstance(form, TokenLists):
        return "tokens"
    return "nothing" if isinstance(form, IdLists) and not any(form.rows) else "ids"


def holds_numbers(value: object) -> TypeGuard[Tensor | npt.NDArray[Any]]:
    """Whether a value is a tensor, or an array of anything but strings or objects."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind not in "UTO")


def materialize(value: Any) -> Any:
    """Convert a deque, a generator, a dict view, an array of strings, or a similar iterable to a list."""
    if isinstance(value, np.ndarray) and not holds_numbers(value):
        return value.tolist()
    if isinstance(value, str | bytes | list | tuple | Tensor | np.ndarray | Mapping):
        return value
    if (isinstance(value, Set) and not isinstance(value, MappingView)) or hasattr(value, "columns"):
        return value  # a set has no order, and a data frame yields column names
    return list(value) if isinstance(value, Iterable) else value


def recognize_list(name: str, items: list[Any]) -> Form:
    """Recognize the items of a list of hypotheses or references.

    Raises:
        TypeError: for sentences of an unsupported type, or of different kinds.
        ValueError: for tensors that are not one-dimensional.

    Example:
        >>> recognize_list("preds", [["a", "b"], ["c"]])
        TokenLists(rows=[['a', 'b'], ['c']])
    """
    types = {*map(type, items)}
    if not types <= {str, list, tuple, Tensor}:
        items = [materialize(item) for item in items]
        types = {*map(type, items)}
    if types and all(issubclass(type_, str) for type_ in types):
        return Strings(items)
    if types and all(issubclass(type_, Tensor | np.ndarray) for type_ in types):
        return IdTensors([_as_row(name, item) for item in items])
    if not all(issubclass(type_, SEQUENCES) for type_ in types):
        raise TypeError(
            f"{name!r} must hold sentences of one kind (strings, lists of tokens, or tensors of ids), got "
            f"{type_names(types)}"
        )
    types = {*map(type, chain.from_iterable(items))}
    if types and all(issubclass(type_, str) for type_ in types):
        return TokenLists(items)
    if all(issubclass(type_, int | np.integer) and type_ is not bool for type_ in types):
        return IdLists(items)
    raise TypeError(f"tokens of {name!r} must be all strings or all integers, got {type_names(types)}")


def _as_row(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    ids = as_tensor(name, value)
    if ids.is_floating_point():
        raise TypeError(f"{name!r} holds a {describe(ids)}: ids must be integers")
    if ids.ndim != 1:
        raise ValueError(f"{name!r} must hold tensors of shape (tokens,), got a {describe(ids)}")
    return ids


def as_tensor(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """Convert to a dense tensor of int64 or floating point.

    Raises:
        TypeError: for other dtypes, and for sparse and nested tensors.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            raise TypeError(f"{name!r} must hold integers, got an array of {value.dtype}")
        value = from_array(value)
    if value.layout != torch.strided or value.is_nested:
        raise TypeError(f"{name!r} is a {'nested' if value.is_nested else 'sparse'} tensor: ids must be a dense tensor")
    if value.dtype == torch.int64:
        return value
    if value.dtype.is_floating_point:
        return value.detach()
    if value.dtype not in _INTEGERS:
        raise TypeError(f"{name!r} is a {describe(value)}: ids must be integers")
    return value.to(torch.int64)


def from_array(array: npt.NDArray[Any]) -> Tensor:
    """Copy an array to a tensor, even with negative strides, a read-only buffer, or a non-native byte order."""
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))


def describe(value: Tensor) -> str:
    """Describe a tensor for an error message."""
    return f"tensor of {value.dtype} and shape {tuple(value.shape)}"


def type_names(types: Iterable[type]) -> list[str]:
    """List type names for an error message."""
    return sorted(type_.__name__ for type_ in types)
