"""Recognize the inputs of a call, and raise all input errors.

:func:`recognize` maps `preds` and `target` to one of five forms each. It counts nothing and copies nothing to another
device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.counting.devices import to_device
from lightning_bleu.reading.forms import (
    SEQUENCES,
    Form,
    Hypotheses,
    IdTensor,
    References,
    SampleMask,
    Strings,
    TokenKind,
    TokenLists,
    as_tensor,
    describe,
    from_array,
    holds_numbers,
    kind_of,
    materialize,
    recognize_list,
    segment_count,
    type_names,
)
from lightning_bleu.reading.ragged import IntArray


class Recognized(NamedTuple):
    """The recognized inputs of a call.

    Attributes:
        kind: ``"strings"``, ``"tokens"``, or ``"ids"``.
        hypotheses: all hypotheses.
        references: all references, sentence by sentence.
        counts: the number of references of each sentence, shape ``(sentences,)``.
    """

    kind: TokenKind
    hypotheses: Form
    references: Form
    counts: IntArray


def recognize(preds: Hypotheses, target: References, *, decodable: bool = False) -> Recognized:
    """Recognize the forms of hypotheses and references, and check that they match.

    Args:
        preds: the hypotheses.
        target: their references.
        decodable: whether ids can be decoded to strings, so that one side may be strings and the other ids.

    Raises:
        TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
        ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.

    Example:
        >>> kind, hypotheses, references, counts = recognize(["a b", "c"], [["a"], ["b", "c"]])
        >>> kind, hypotheses, references, counts.tolist()
        ('strings', Strings(lines=['a b', 'c']), Strings(lines=['a', 'b', 'c']), [1, 2])
    """
    hypotheses = recognize_hypotheses(preds)
    references, counts = _recognize_references(target, hypotheses, decodable=decodable)
    kinds = kind_of(hypotheses), kind_of(references)
    if decodable and "strings" in kinds and {*kinds} & {"ids", "nothing"}:
        return Recognized("ids", hypotheses, references, counts)
    if kinds[0] != kinds[1] and ("nothing" not in kinds or "strings" in kinds):
        raise TypeError(
            f"'preds' and 'target' must be of one kind, got {kinds[0]} and {kinds[1]}: tokenize (or decode) both or "
            "neither, or set decoder= to score ids against strings"
        )
    if isinstance(preds, np.ndarray | Tensor) and isinstance(target, np.ndarray | Tensor):
        _check_layout(preds, target)
    kind = kinds[1] if kinds[0] == "nothing" else kinds[0]
    return Recognized("tokens" if kind == "nothing" else kind, hypotheses, references, counts)


def read_sample_mask(sample_mask: SampleMask, sentences: int, device: torch.device) -> Tensor:
    """Check a mask and move it to the device.

    Returns:
        booleans of shape ``(sentences,)``, or ``(1,)`` for all sentences; True for sentences that count.

    Raises:
        TypeError: if the mask does not hold booleans.
        ValueError: if the shape is wrong.
    """
    if isinstance(sample_mask, SEQUENCES):
        if wrong := {type(value) for value in sample_mask} - {bool, np.bool_}:
            raise TypeError(f"'sample_mask' must hold booleans, got {type_names(wrong)}")
        sample_mask = np.array(sample_mask, bool)
    mask = sample_mask
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_:
        mask = from_array(mask)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"'sample_mask' must hold booleans, got {getattr(mask, 'dtype', type(mask).__name__)}")
    if mask.shape not in ((sentences,), (1,)):
        raise ValueError(
            f"'sample_mask' must have shape ({sentences},), one value per sentence, or (1,), one value for all; "
            f"got {tuple(mask.shape)}"
        )
    return to_device(mask, device)


def recognize_hypotheses(preds: Hypotheses, name: str = "preds") -> Form:
    """Recognize the form of hypotheses, or of another argument that has one segment per sentence.

    Args:
        preds: the hypotheses.
        name: the name of the argument, for error messages.

    Raises:
        TypeError: for an unsupported input type.
        ValueError: for an unsupported shape.
    """
    if not holds_numbers(preds):
        return recognize_list(name, _as_list(name, preds))
    ids = as_tensor(name, preds)
    if ids.is_floating_point():
        if ids.ndim != 3:
            raise TypeError(
                f"{name!r} is a {describe(ids)}: ids must be integers of shape (sentences, tokens), "
                "and logits floating point of shape (sentences, tokens, vocabulary)"
            )
        if ids.shape[2] == 0:
            raise ValueError(f"{name!r} is a {describe(ids)}: logits need a vocabulary of at least one token")
        ids = ids.argmax(-1)
    if ids.ndim != 2:
        raise ValueError(
            f"{name!r} must have shape (sentences, tokens) as ids or (sentences, tokens, vocabulary) as logits, "
            f"got a {describe(ids)}"
        )
    return IdTensor(ids)


def _recognize_references(target: References, hypotheses: Form, *, decodable: bool) -> tuple[Form, IntArray]:
    if holds_numbers(target):
        return _recognize_reference_tensor(target, hypotheses)
    sentences = segment_count(hypotheses)
    entries = _as_list("target", target)
    if len(entries) != sentences:
        hint = ""
        if entries and isinstance(entries[0], SEQUENCES) and len(entries[0]) == sentences:
            hint = (
                "; 'target' looks like sacreBLEU's layout, one list per set of references, but the layout here is one "
                "list per sentence: transpose it with list(zip(*target))"
            )
        raise ValueError(
            f"'preds' and 'target' must have the same number of sentences, got {sentences} and {len(entries)}{hint}"
        )
    if isinstance(hypotheses, Strings) and {*map(type, entries)} == {str}:
        return Strings(entries), np.ones(sentences, np.int64)
    strings = isinstance(hypotheses, Strings)
    if decodable and not isinstance(hypotheses, TokenLists):
        entries = [*map(materialize, entries)]  # they are read twice
        strings = _hold_text(entries, default=strings)
    groups = _group(entries, strings=strings)
    references = list(chain.from_iterable(groups))
    counts = np.fromiter(map(len, groups), np.int64, sentences)
    if not counts.all() or type(None) in {*map(type, references)}:
        sentence = next(i for i, group in enumerate(groups) if not group or any(item is None for item in group))
        found = "a reference that is None (leave it out)" if groups[sentence] else "no reference"
        raise ValueError(f"every sentence needs a reference, got {found} for sentence {sentence} of 'target'")
    return recognize_list("target", references), counts


def _recognize_reference_tensor(target: Tensor | npt.NDArray[Any], hypotheses: Form) -> tuple[Form, IntArray]:
    ids = as_tensor("target", target)
    sentences = segment_count(hypotheses)
    if ids.is_floating_point():
        raise TypeError(f"'target' is a {describe(ids)}: ids must be integers, and only 'preds' may be logits")
    if ids.ndim not in (2, 3):
        raise ValueError(
            f"'target' must have shape (sentences, tokens) or (sentences, references, tokens), got a {describe(ids)}"
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


def _check_layout(preds: Tensor | npt.NDArray[Any], target: Tensor | npt.NDArray[Any]) -> None:
    """Raise an error for logits in the layout of ``cross_entropy``."""
    if preds.ndim == 3 and preds.shape[2] == target.shape[-1] != preds.shape[1] and 0 not in preds.shape:
        raise ValueError(
            f"logits must have shape (sentences, tokens, vocabulary), got 'preds' of shape {tuple(preds.shape)} and "
            f"'target' of shape {tuple(target.shape)}: this looks like the layout of cross_entropy, pass "
            "preds.transpose(1, 2). If it is not, pass ids, preds.argmax(-1)"
        )


def _hold_text(entries: list[Any], *, default: bool) -> bool:
    """Whether references are strings or lists of strings; `default` if all entries are empty."""
    for entry in entries:
        if isinstance(entry, str):
            return True
        if not isinstance(entry, SEQUENCES):
            return False
        if entry:
            return isinstance(entry[0], str)
    return default


def _group(entries: list[Any], *, strings: bool) -> list[Sequence[Any]]:
    """Convert the entry of each sentence to a list of references."""
    if strings:
        return [entry if isinstance(entry, SEQUENCES) else _as_group(entry) for entry in entries]
    entries = [entry if isinstance(entry, SEQUENCES) else materialize(entry) for entry in entries]
    several = [_holds_sentences(entry) for entry in entries]
    # An empty list is an empty reference, unless other entries are lists of references.
    return [
        list(entry) if nested or (isinstance(entry, SEQUENCES) and not entry and any(several)) else [entry]
        for entry, nested in zip(entries, several)
    ]


def _as_group(entry: Any) -> Sequence[Any]:
    entry = materialize(entry)
    return entry if isinstance(entry, list) else [entry]


def _holds_sentences(entry: Any) -> bool:
    if isinstance(entry, Tensor | np.ndarray):
        return entry.ndim > 1
    types = {*map(type, entry)} if isinstance(entry, SEQUENCES) else set()
    return any(issubclass(type_, Iterable | NoneType) and not issubclass(type_, str) for type_ in types)


def _as_list(name: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        raise TypeError(f"{name!r} must be a list of sentences, got a str: wrap it in a list, [{value[:40]!r}]")
    items = materialize(value)
    if not isinstance(items, SEQUENCES):
        raise TypeError(
            f"{name!r} must be a list of strings, lists of tokens, or tensors of ids, or a single tensor, "
            f"got {type(value).__name__}"
        )
    return list(items)
