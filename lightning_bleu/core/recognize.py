"""Recognize the inputs of a call. Every error about the form of `preds` and `target` comes from here.

:func:`recognize` maps `preds` and `target` to one of three forms each: strings, tokens, or ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.forms import (
    CPU,
    Form,
    Hypotheses,
    Ids,
    IntArray,
    Ragged,
    References,
    Strings,
    Tokens,
    kind_of,
    lengths_of,
    segment_count,
)

SEQUENCES = (list, tuple)
"""Types that can be iterated more than once without a copy. (A union of types would be slower in isinstance.)"""
_ARRAYS = (Tensor, np.ndarray)
_SWAPPED = "; hypotheses come first: are 'preds' and 'target' swapped? Of an n-best list, pass the best"
"""A hint for hypotheses that look like references, which come first in NLTK, or like n-best lists."""
_MAX_SHOWN = 80
"""The number of characters of a value that error messages show."""


def recognize(preds: Hypotheses, target: References, *, decodable: bool = False) -> tuple[Form, Form, IntArray]:
    """Recognize hypotheses and references, and check that they match.

    Args:
        preds: the hypotheses.
        target: their references.
        decodable: whether ids can be decoded to strings, so that one side may be strings and the other ids.

    Returns:
        the hypotheses; all references, sentence by sentence; and the number of references of each sentence, shape
        ``(sentences,)``.

    Raises:
        TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
        ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.

    Example:
        >>> hypotheses, references, counts = recognize(["a b", "c"], [["a"], ["b", "c"]])
        >>> hypotheses, references, counts.tolist()
        (Strings(lines=['a b', 'c']), Strings(lines=['a', 'b', 'c']), [1, 2])
    """
    hypotheses = recognize_hypotheses(preds)
    references, counts = _recognize_references(target, hypotheses, decodable=decodable)
    if type(hypotheses) is not type(references):
        hypotheses, references = _match_forms(hypotheses, references, decodable=decodable)
    return hypotheses, references, counts


def recognize_hypotheses(preds: Hypotheses, name: str = "preds") -> Form:
    """Recognize hypotheses, or another argument that has one segment per sentence.

    Args:
        preds: the hypotheses.
        name: the name of the argument, for error messages.

    Raises:
        TypeError: for an unsupported input type.
        ValueError: for an unsupported shape.
    """
    if not _holds_numbers(preds):
        return _recognize_list(name, _as_list(name, preds))
    ids = _as_tensor(name, preds)
    is_float = ids.is_floating_point()
    if is_float and ids.ndim == 3 and ids.shape[2] > 0:
        return _choose(ids)
    if not is_float and ids.ndim == 2:
        return _flatten(ids)
    hint = _SWAPPED if name == "preds" and not is_float and ids.ndim == 3 else ""
    shapes = (
        "integer ids of shape (sentences, tokens) or floating-point logits of shape (sentences, tokens, vocabulary)"
    )
    raise ValueError(f"{name!r} must hold {shapes}, got a {_describe(ids)}{hint}")


def check_layout(hypotheses: Form, references: Form, removed_ids: Sequence[int]) -> None:
    """Raise a ValueError for logits in the layout of ``cross_entropy``, if only there a label is in the vocabulary.

    Args:
        hypotheses: the recognized hypotheses.
        references: all references.
        removed_ids: ids that need not be in the vocabulary.
    """
    if not isinstance(hypotheses, Ids) or not isinstance(references, Ids):
        return
    if hypotheses.vocabulary not in references.shape[-1:]:
        return
    ids = references.ragged.ids
    largest_label = ids[~np.isin(ids, removed_ids)].max(initial=-1)
    if references.shape[-1] <= largest_label < hypotheses.shape[1]:
        raise ValueError(
            "logits must have shape (sentences, tokens, vocabulary), got 'preds' of shape "
            f"{(*hypotheses.shape, hypotheses.vocabulary)} and 'target' of shape {references.shape} with the label "
            f"{largest_label}: this looks like the layout of cross_entropy, pass preds.transpose(1, 2). If it is not, "
            "pass ids, preds.argmax(-1)"
        )


# References


def _recognize_references(target: References, hypotheses: Form, *, decodable: bool) -> tuple[Form, IntArray]:
    """All references, sentence by sentence, and the number of references of each sentence."""
    sentence_count = segment_count(hypotheses)
    if _holds_numbers(target):
        return _recognize_reference_tensor(target, sentence_count)
    entries = _as_list("target", target)
    _check_reference_count(len(entries), sentence_count, next(iter(entries), None))
    if isinstance(hypotheses, Strings) and set(map(type, entries)) == {str}:
        return Strings(entries), np.ones(sentence_count, np.int64)
    hold_texts = _hold_texts(entries, kind_of(hypotheses), decodable=decodable)
    reference_lists = _list_references(entries, hold_texts=hold_texts)
    counts = lengths_of(reference_lists)
    if not counts.all():
        raise ValueError(f"every sentence needs a reference, got none for sentence {counts.argmin()} of 'target'")
    references = list(chain.from_iterable(reference_lists))
    return _recognize_list("target", references), counts


def _hold_texts(entries: list[Any], kind: str, *, decodable: bool) -> bool:
    """Whether a list of strings holds references, rather than the tokens of one.

    Args:
        entries: the entries of `target`, of which the first one that is not empty decides.
        kind: the kind of the hypotheses.
        decodable: whether ids can be decoded.
    """
    if kind == "tokens" or (kind == "empty" and not decodable):
        return False
    for entry in entries:
        if not isinstance(entry, SEQUENCES):
            return isinstance(entry, str)
        if entry:
            return isinstance(entry[0], str)
    return kind == "strings"


def _list_references(entries: list[Any], *, hold_texts: bool) -> list[list[Any]]:
    """Convert the entry of each sentence, which is a reference or a list of references, to a list.

    Args:
        entries: the entries.
        hold_texts: whether strings are references, rather than tokens.

    Example:
        >>> _list_references([[5, 6], [7]], hold_texts=False), _list_references([[[5, 6]], []], hold_texts=False)
        ([[[5, 6]], [[7]]], [[[5, 6]], []])
        >>> _list_references([["a b", "c"], "d"], hold_texts=True)
        [['a b', 'c'], ['d']]
    """
    are_lists = [_is_list_of_references(entry, hold_texts=hold_texts) for entry in entries]
    # An empty list of ids or tokens is an empty reference, unless other entries are lists of references.
    has_lists = hold_texts or any(are_lists)
    reference_lists = []
    for entry, is_list in zip(entries, are_lists):
        if is_list or (has_lists and isinstance(entry, SEQUENCES) and not entry):
            reference_lists.append(list(entry))
        else:
            reference_lists.append([entry])
    return reference_lists


def _is_list_of_references(entry: Any, *, hold_texts: bool) -> bool:
    """Whether an entry that is not empty is a list of references, rather than a reference."""
    if isinstance(entry, SEQUENCES):
        return bool(entry) and (hold_texts or isinstance(entry[0], SEQUENCES + _ARRAYS))
    if not isinstance(entry, _ARRAYS):
        return False
    return entry.ndim > 1 and not getattr(entry, "is_nested", False)  # whose rows cannot be read


def _recognize_reference_tensor(target: Tensor | npt.NDArray[Any], sentence_count: int) -> tuple[Form, IntArray]:
    """The references in a tensor, which has the same number of them for each sentence."""
    ids = _as_tensor("target", target)
    if ids.is_floating_point() or ids.ndim not in (2, 3):
        shapes = "(sentences, tokens) or (sentences, references, tokens)"
        raise ValueError(f"'target' must hold integer ids of shape {shapes}, got a {_describe(ids)}")
    _check_reference_count(len(ids), sentence_count)
    references_per_sentence = ids.shape[1] if ids.ndim == 3 else 1
    if sentence_count and not references_per_sentence:
        raise ValueError(f"every sentence needs a reference, got 'target' of shape {tuple(target.shape)}")
    return _flatten(ids), np.full(sentence_count, references_per_sentence, np.int64)


def _check_reference_count(entries: int, sentence_count: int, first_entry: Any = None) -> None:
    """Raise an error if `target` has another number of sentences than `preds`.

    Args:
        entries: how many entries `target` has.
        sentence_count: how many it must have.
        first_entry: its first entry; None if it is not a list.
    """
    if entries == sentence_count:
        return
    guess = ""
    if isinstance(first_entry, SEQUENCES) and len(first_entry) == sentence_count:
        guess = (
            ". 'target' looks like sacreBLEU's layout, but here it is a list per sentence: transpose it with "
            "list(zip(*target)), or pass target[0] if that is the whole batch"
        )
    raise ValueError(
        f"'preds' and 'target' must have the same number of sentences, got {sentence_count} and {entries}{guess}"
    )


def _match_forms(hypotheses: Form, references: Form, *, decodable: bool) -> tuple[Form, Form]:
    """Raise an error for two different forms, unless ids are decoded, or lists are empty and so can be ids."""
    kinds = [kind_of(hypotheses), kind_of(references)]
    if decodable and set(kinds) == {"strings", "ids"}:
        return hypotheses, references
    if decodable or "ids" in kinds:
        if kinds[0] == "empty":
            return _empty_ids(hypotheses), references
        if kinds[1] == "empty":
            return hypotheses, _empty_ids(references)
    advice = "tokenize (or decode) both or neither"
    if not decodable:
        advice += ", or set decoder= to score ids against strings"
    if kinds == ["tokens", "strings"]:
        advice += _SWAPPED
    raise TypeError(f"'preds' and 'target' must be of one kind, got {kinds[0]} and {kinds[1]}: {advice}")


def _empty_ids(form: Form) -> Ids:
    """As many segments without ids as a form has."""
    lengths = np.zeros(segment_count(form), np.int64)
    return Ids(Ragged(lengths[:0], lengths), CPU)


# Lists


def _as_list(name: str, value: Any) -> list[Any]:
    """Convert an argument to a list of sentences; also a generator, a column of a table, or an array of strings."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    is_iterable = isinstance(value, Iterable)
    # The characters of a string, the keys of a dict, and a set, which has no order, are no sentences.
    if not is_iterable or isinstance(value, str | bytes | Mapping | set):
        needs = f"{name!r} must be a list of strings, lists of tokens, or tensors of ids, or a single tensor"
        raise TypeError(f"{needs}, got {repr(value)[:_MAX_SHOWN]} of type {type(value).__name__}")
    return list(value)


def _recognize_list(name: str, items: list[Any]) -> Form:
    """Recognize the items of a list of hypotheses or references.

    Raises:
        TypeError: for sentences of an unsupported type, or of different kinds.
        ValueError: for tensors that are not one-dimensional.

    Example:
        >>> _recognize_list("preds", [["a", "b"], ["c"]])
        Tokens(lists=[['a', 'b'], ['c']])
    """
    if not items:
        return Tokens([])
    types = set(map(type, items))
    if all(issubclass(type_, str) for type_ in types):
        return Strings(items)
    if all(issubclass(type_, SEQUENCES) for type_ in types):
        return _recognize_lists(name, items)
    if all(issubclass(type_, _ARRAYS) for type_ in types):
        segments = [_as_segment(name, item) for item in items]
        ids = torch.cat(segments).numpy(force=True)
        return Ids(Ragged(ids, lengths_of(segments)), segments[0].device)
    kinds = "strings, lists of tokens, or tensors of ids"
    raise TypeError(f"{name!r} must hold sentences of one kind ({kinds}), got {_type_names(types)}")


def _recognize_lists(name: str, lists: list[Sequence[Any]]) -> Form:
    """Recognize lists of tokens, or of ids."""
    types = set(map(type, chain.from_iterable(lists)))
    if all(issubclass(type_, str) for type_ in types):
        return Tokens(list(map(list, lists)))
    are_integers = all(issubclass(type_, int | np.integer) for type_ in types)
    if bool in types or not are_integers:  # to Python, booleans are integers
        hint = _SWAPPED if name == "preds" and types <= set(SEQUENCES) else ""
        raise TypeError(f"tokens of {name!r} must be all strings or all integers, got {_type_names(types)}{hint}")
    lengths = lengths_of(lists)
    try:
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    except OverflowError:
        raise ValueError(f"the ids of {name!r} must fit in 64 bits") from None
    return Ids(Ragged(ids, lengths), CPU)


def _as_segment(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """A tensor of the ids of one segment."""
    ids = _as_tensor(name, value)
    if ids.is_floating_point() or ids.ndim != 1:
        raise ValueError(f"{name!r} must hold tensors of integer ids of shape (tokens,), got a {_describe(ids)}")
    return ids


# Tensors


def _holds_numbers(value: object) -> TypeGuard[Tensor | npt.NDArray[Any]]:
    """Whether a value is a tensor, or an array of anything but strings or objects."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "UTO"
    return isinstance(value, Tensor)


def _as_tensor(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """Convert to a dense tensor of int64 or floating point.

    Raises:
        TypeError: for other dtypes, and for tensors that are not dense or have no values.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb" or value.dtype.itemsize > 8:
            raise TypeError(f"{name!r} must hold integers, got an array of {value.dtype}: pass text in lists")
        # A copy without negative strides, a read-only buffer, or a non-native byte order.
        value = torch.from_numpy(np.array(value, value.dtype.newbyteorder("="), order="C"))
    if value.is_nested or value.layout != torch.strided or value.is_meta:
        shown = f"a tensor with layout={value.layout}, device={value.device}, is_nested={value.is_nested}"
        raise TypeError(f"{name!r} must be a dense tensor with values, or a list of its rows, got {shown}")
    if value.dtype == torch.int64:
        return value
    if value.is_floating_point():
        return value.detach()
    if value.dtype == torch.bool or value.is_complex() or value.is_quantized:
        raise TypeError(f"{name!r} is a {_describe(value)}: ids must be integers")
    return value.to(torch.int64)


def _choose(logits: Tensor) -> Ids:
    """The ids with the largest logits.

    Example:
        >>> _choose(torch.tensor([[[0.1, 0.7, 0.2], [0.9, 0.0, 0.1]]])).ragged.to_lists()
        [[1, 0]]
    """
    ids = logits.argmax(-1)  # of NaN if there is one
    largest = logits.gather(-1, ids[..., None])
    return _flatten(ids)._replace(vocabulary=logits.shape[-1], are_nan=bool(largest.isnan().any()))


def _flatten(ids: Tensor) -> Ids:
    """A tensor of ids without its shape, on the CPU. If it is elsewhere, this waits for the model that produces it.

    Example:
        >>> _flatten(torch.tensor([[5, 6], [7, 0]])).ragged.to_lists()
        [[5, 6], [7, 0]]
    """
    *segments, width = ids.shape
    ragged = Ragged(ids.numpy(force=True).reshape(-1), np.full(math.prod(segments), width))
    return Ids(ragged, ids.device, tuple(ids.shape))


def _describe(value: Tensor) -> str:
    """Describe a tensor for an error message."""
    return f"tensor of {value.dtype} and shape {tuple(value.shape)}"


def _type_names(types: Iterable[type]) -> list[str]:
    """List type names for an error message."""
    return sorted(type_.__name__ for type_ in types)
