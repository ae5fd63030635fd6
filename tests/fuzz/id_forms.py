"""Ids as arguments: the same rows as lists, tensors, arrays, and logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tests.fuzz.choices import Choices
from tests.helpers.counting import Ids

Array: TypeAlias = npt.NDArray[Any]

_RANGES = {
    name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
}
"""The smallest and the largest id by dtype."""
_LIST_FORMS = ["lists", "tensors", "arrays", "tuples", "NumPy integers"]
_PREDS_FORMS = [*_LIST_FORMS, "tensor", "tensor", "array", "array", "logits", "logits"]
_TARGET_FORMS = [*_LIST_FORMS, "tensor", "tensor", "tensor", "array", "array", "tensors of references"]
_LOGITS_DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
_MAX_VOCABULARY = 40
"""The largest number of logits."""


class Argument(NamedTuple):
    """`preds` or `target`.

    Attributes:
        value: what to pass.
        rows: the ids of each hypothesis, or the references of each sentence, with all padding.
        drops_empty: whether a reference without tokens does not count unless it is the only one.
    """

    value: Any
    rows: list[Any]
    drops_empty: bool = False

    def __str__(self) -> str:
        return repr(self.value)


class Padding(NamedTuple):
    """How rows become rows of equal lengths.

    Attributes:
        id: fills them up.
        is_removed: whether that id is never a token.
        left: how many of them precede a row.
    """

    id: int
    is_removed: bool
    left: int

    def fill(self, rows: Sequence[Ids]) -> list[Ids]:
        """Rows of equal lengths."""
        width = max(map(len, rows), default=0)
        return [[self.id] * self.left + row + [self.id] * (width - len(row)) for row in rows]


def make_preds(rows: list[Ids], padding: Padding, choices: Choices) -> Argument:
    """Hypotheses in any form."""
    form, dtype, layout = choices.pick(_PREDS_FORMS), choices.byte(), choices.byte()
    if form in _LIST_FORMS:
        return Argument(_as_list(rows, form, dtype, layout), rows)
    rows = padding.fill(rows)
    ids = chain.from_iterable(rows)
    if form == "logits" and all(0 <= id_ < _MAX_VOCABULARY for id_ in ids):
        return Argument(make_logits(rows, dtype, layout), rows)
    array = _as_array(rows, (len(rows), len(rows[0]) if rows else 0), dtype)
    return Argument(_lay_out(array, "array" if form == "array" else "tensor", layout), rows)


def make_target(groups: list[list[Ids]], padding: Padding, choices: Choices) -> Argument:
    """References in any form."""
    form, dtype, layout, flat = choices.pick(_TARGET_FORMS), choices.byte(), choices.byte(), choices.byte() % 2
    is_flat = bool(flat) and all(len(group) == 1 for group in groups)
    if form in _LIST_FORMS:
        value: Any = [_as_list(group, form, dtype, layout) for group in groups]
        return Argument([group[0] for group in value] if is_flat else value, groups)
    if form == "tensors of references":
        groups = [padding.fill(group) for group in groups]
        arrays = [_as_array(group, (len(group), len(group[0])), dtype + i) for i, group in enumerate(groups)]
        return Argument([_lay_out(array, "tensor", layout + i) for i, array in enumerate(arrays)], groups)
    count = (max if padding.is_removed else min)(map(len, groups), default=1 + dtype % 2)
    rows = padding.fill([row for group in groups for row in [*group, *[[]] * count][:count]])
    width = len(rows[0]) if rows else 0
    shape = (len(groups), width) if is_flat else (len(groups), count, width)
    value = _lay_out(_as_array(rows, shape, dtype), form, layout)
    groups = [rows[start : start + count] for start in range(0, len(rows), count)]
    return Argument(value, groups, drops_empty=count > 1)


def separate_layouts(preds: Argument, target: Argument) -> Argument:
    """Hypotheses that do not look like logits in the layout of ``cross_entropy``, a mistake."""
    logits, ids = preds.value, target.value
    if getattr(logits, "ndim", 0) != 3 or not hasattr(ids, "shape") or logits.shape[2] != ids.shape[-1]:
        return preds
    return preds._replace(value=torch.cat([logits, logits[..., :1] - 1], 2))


def make_logits(rows: list[Ids], dtype: int, fill: int) -> Tensor:
    """Logits of shape ``(sentences, tokens, vocabulary)`` whose largest values are at the ids."""
    ids = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), -1 if rows and rows[0] else 0)
    vocabulary = int(ids.max()) + 1 + fill % 3 if ids.numel() else 1 + fill % 3
    others = (-1.5, -torch.inf, 0.0)[fill % 3]
    logits = torch.full((*ids.shape, vocabulary), others, dtype=_LOGITS_DTYPES[dtype % len(_LOGITS_DTYPES)])
    return logits.scatter(2, ids[..., None], 0.5).requires_grad_(fill % 2 == 1)


def _fitting_dtypes(ids: Sequence[int]) -> list[str]:
    low, high = min(ids, default=0), max(ids, default=0)
    return [name for name, (least, most) in _RANGES.items() if least <= low and high <= most]


def _as_array(rows: Sequence[Ids], shape: tuple[int, ...], dtype: int) -> Array:
    ids = [*chain.from_iterable(rows)]
    fitting = _fitting_dtypes(ids)
    return np.array(ids, fitting[dtype % len(fitting)]).reshape(shape)


def _as_list(rows: Sequence[Ids], form: str, dtype: int, layout: int) -> Any:
    """The rows of a side or of a sentence, each in a form and with a dtype of its own."""
    if form == "lists":
        return rows
    if form == "tuples":
        return tuple(map(tuple, rows))
    if form == "NumPy integers":
        return [[*_as_array([row], (len(row),), dtype + i)] for i, row in enumerate(rows)]
    kind = form.removesuffix("s")
    return [_lay_out(_as_array([row], (len(row),), dtype + i), kind, layout + i) for i, row in enumerate(rows)]


def _lay_out(array: Array, kind: str, layout: int) -> Array | Tensor:
    """The same values as an array or a tensor, with other strides, or in another byte order."""
    if kind == "array":
        return [*_ARRAY_LAYOUTS.values()][layout % len(_ARRAY_LAYOUTS)](array)
    return [*_TENSOR_LAYOUTS.values()][layout % len(_TENSOR_LAYOUTS)](torch.from_numpy(np.array(array)))


def _spaced(array: Array) -> Array:
    return np.repeat(array, 2, -1)[..., ::2]


def _inside(array: Array) -> Array:
    wider = np.full([size + 2 for size in array.shape], 3, array.dtype)
    view = wider[tuple(slice(1, -1) for _ in array.shape)]
    view[...] = array
    return view


def _read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


_ARRAY_LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "contiguous": lambda array: array,
    "spaced": _spaced,
    "columns first": lambda array: np.asfortranarray(array),
    "reversed": lambda array: array[..., ::-1].copy()[..., ::-1],
    "upside down": lambda array: array[::-1].copy()[::-1],
    "inside another": _inside,
    "read-only": _read_only,
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "other byte order, spaced": lambda array: _spaced(array.astype(array.dtype.newbyteorder())),
}
_TENSOR_LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "spaced": lambda tensor: torch.from_numpy(_spaced(tensor.numpy())),
    "columns first": lambda tensor: torch.from_numpy(np.asfortranarray(tensor.numpy())),
    "inside another": lambda tensor: torch.from_numpy(_inside(tensor.numpy())),
}
