"""Recognize the inputs of a call. Every error about the form of `preds` and `target` comes from here.

:func:`recognize` maps `preds` and `target` to one of three forms each: strings, tokens, or ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from itertools import chain
from types import NoneType
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
_SWAPPED = "; hypotheses come first: are 'preds' and 'target' swapped? Of an n-best list, pass the best"
"""A hint for hypotheses that look like references, which come first in NLTK, or like n-best lists."""
_ROWS = "a list of its rows, tensor.unbind()"
ONE_PER_SENTENCE = "a tensor of shape (sentences,)"
"""What to pass instead of a nested tensor."""
_KEYS = ("input_ids", "sequences", "logits")
"""Keys of what the tokenizers and models of Transformers return that have ids or logits."""
_MAX_SHOWN = 40
"""The number of characters of a value that error messages show."""
_MAX_SHOWN_OF_KEYS = 200
"""The number of characters of a list of keys that error messages show."""
_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64}


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
    check_has_values(name, ids)
    if ids.is_floating_point():
        if ids.ndim != 3:
            raise TypeError(
                f"{name!r} is a {_describe(ids)}: ids must be integers of shape (sentences, tokens), "
                "and logits floating point of shape (sentences, tokens, vocabulary)"
            )
        if ids.shape[2] == 0:
            raise ValueError(f"{name!r} is a {_describe(ids)}: logits need a vocabulary of at least one token")
        return _choose(ids)
    if ids.ndim != 2:
        may_be_references = name == "preds" and ids.ndim == 3
        raise ValueError(
            f"{name!r} must have shape (sentences, tokens) as ids or (sentences, tokens, vocabulary) as logits, "
            f"got a {_describe(ids)}{_SWAPPED if may_be_references else ''}"
        )
    return _flatten(ids)


def check_layout(hypotheses: Form, references: Form, removed_ids: Sequence[int]) -> None:
    """Raise a ValueError for logits in the layout of ``cross_entropy``, if only there a label is in the vocabulary.

    Where it is in both, :func:`lightning_bleu.core.mistakes.suspect_logits` warns.

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


def recognize_sources(sources: Hypotheses, sentence_count: int) -> Form:
    """Recognize one source per sentence; see :func:`lightning_bleu.core.batch.read_sources`."""
    form = recognize_hypotheses(sources, "source")
    count = segment_count(form)
    if count != sentence_count:
        raise ValueError(
            f"'source' has {_count_sentences(count)}, 'preds' {sentence_count}: pass one source for each hypothesis"
        )
    return form


def _recognize_references(target: References, hypotheses: Form, *, decodable: bool) -> tuple[Form, IntArray]:
    """All references, sentence by sentence, and the number of references of each sentence."""
    sentence_count = segment_count(hypotheses)
    if _holds_numbers(target):
        return _recognize_reference_tensor(target, sentence_count)
    entries = _as_list("target", target)
    _check_reference_count(len(entries), sentence_count, next(iter(entries), None))
    are_strings = isinstance(hypotheses, Strings)
    if are_strings and set(map(type, entries)) == {str}:
        return Strings(entries), np.ones(sentence_count, np.int64)
    entries = _materialize_all(entries)
    if decodable and kind_of(hypotheses) != "tokens":
        are_strings = _hold_text(entries, default=are_strings)
    reference_lists = _list_texts(entries) if are_strings else _list_ids_or_tokens(entries)
    references = list(chain.from_iterable(reference_lists))
    counts = lengths_of(reference_lists)
    if not counts.all() or NoneType in set(map(type, references)):
        _refuse_missing_references(reference_lists)
    return _recognize_list("target", references), counts


def _refuse_missing_references(reference_lists: list[list[Any]]) -> None:
    """Raise an error about the first sentence that has no references, or one that is None."""
    for sentence, references in enumerate(reference_lists):
        problem = ""
        if not references:
            problem = "no reference"
        elif any(reference is None for reference in references):
            problem = "a reference that is None (leave it out)"
        if problem:
            raise ValueError(f"every sentence needs a reference, got {problem} for sentence {sentence} of 'target'")


def _recognize_reference_tensor(target: Tensor | npt.NDArray[Any], sentence_count: int) -> tuple[Form, IntArray]:
    """The references in a tensor, which has the same number of them for each sentence."""
    ids = _as_tensor("target", target)
    check_has_values("target", ids)
    if ids.is_floating_point():
        raise TypeError(f"'target' is a {_describe(ids)}: ids must be integers, and only 'preds' may be logits")
    if ids.ndim not in (2, 3):
        raise ValueError(
            f"'target' must have shape (sentences, tokens) or (sentences, references, tokens), got a {_describe(ids)}"
        )
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
            ". 'target' looks like sacreBLEU's layout, one list per set of references, but the layout here is one "
            "list per sentence: transpose it with list(zip(*target)), or pass target[0] if that is the whole batch"
        )
    elif sentence_count and entries and sentence_count % entries == 0:
        count = sentence_count // entries
        guess = (
            f". If there are {count} candidates per sentence, as from generate(num_return_sequences={count}), repeat "
            f"each entry to score all of them, [one for one in target for _ in range({count})], or score one per "
            f"sentence, preds[::{count}]"
        )
    raise ValueError(
        f"'preds' has {_count_sentences(sentence_count)}, 'target' {entries}: both must have the same number of "
        f"sentences{guess}"
    )


def _count_sentences(count: int) -> str:
    """A number of sentences in words.

    Example:
        >>> _count_sentences(1), _count_sentences(2)
        ('1 sentence', '2 sentences')
    """
    return f"{count} sentence{'' if count == 1 else 's'}"


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
    preds, target = (kind.replace("empty", "nothing") for kind in kinds)
    raise TypeError(f"'preds' and 'target' must be of one kind, got {preds} and {target}: {advice}")


def _empty_ids(form: Form) -> Ids:
    """As many segments without ids as a form has."""
    return Ids(Ragged(np.zeros(0, np.int64), np.zeros(segment_count(form), np.int64)), CPU)


# Lists


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
    items = _materialize_all(items)
    types = set(map(type, items))
    if all(issubclass(type_, str) for type_ in types):
        return Strings(items)
    if all(issubclass(type_, Tensor | np.ndarray) for type_ in types):
        segments = [_as_segment(name, item) for item in items]
        ids = torch.cat(segments)
        check_has_values(name, ids)
        return Ids(Ragged(ids.numpy(force=True), lengths_of(segments)), segments[0].device)
    if all(issubclass(type_, SEQUENCES) for type_ in types):
        return _recognize_lists(name, items)
    raise TypeError(
        f"{name!r} must hold sentences of one kind (strings, lists of tokens, or tensors of ids), got "
        f"{type_names(types)}{_describe_wrong_sentence(name, items)}"
    )


def _describe_wrong_sentence(name: str, items: list[Any]) -> str:
    """The end of an error message: the first item that is not a sentence, and what to do; empty if there is none.

    Example:
        >>> _describe_wrong_sentence("preds", ["a", None])
        ": sentence 1 is None; pass '' for an empty sentence, or leave the sentence out everywhere"
    """
    for position, item in enumerate(items):
        if isinstance(item, str | list | tuple | Tensor | np.ndarray):
            continue
        if isinstance(item, bytes | bytearray):
            return ": decode bytes to strings, line.decode()"
        # References are numbered without their sentences here.
        place = "a reference" if name == "target" else f"sentence {position}"
        description = f": {place} is {repr(item)[:_MAX_SHOWN]}"
        if item is None:
            description += "; pass '' for an empty sentence, or leave the sentence out everywhere"
        return description
    return ""


def _recognize_lists(name: str, lists: list[Sequence[Any]]) -> Form:
    """Recognize lists of tokens, or of ids."""
    types = set(map(type, chain.from_iterable(lists)))
    if all(issubclass(type_, str) for type_ in types):
        return Tokens(list(map(list, lists)))
    if not all(is_integer_type(type_) for type_ in types):
        may_be_references = name == "preds" and types <= set(SEQUENCES)
        raise TypeError(
            f"tokens of {name!r} must be all strings or all integers, got {type_names(types)}"
            f"{_SWAPPED if may_be_references else _describe_wrong_token(name, lists)}"
        )
    lengths = lengths_of(lists)
    try:
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    except OverflowError:
        raise ValueError(f"the ids of {name!r} must fit in 64 bits") from None
    return Ids(Ragged(ids, lengths), CPU)


def _describe_wrong_token(name: str, lists: list[Sequence[Any]]) -> str:
    """The end of an error message: the first token that is None or bytes, and what to do; empty if there is none.

    Example:
        >>> _describe_wrong_token("preds", [["a"], ["b", None]])
        ': sentence 1 has None at position 1; leave it out'
    """
    for number, tokens in enumerate(lists):
        for position, token in enumerate(tokens):
            if isinstance(token, bytes | bytearray):
                return ": decode bytes to strings, token.decode()"
            if token is None:
                # References are numbered without their sentences here.
                place = "a reference" if name == "target" else f"sentence {number}"
                return f": {place} has None at position {position}; leave it out"
    return ""


def _as_segment(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """A tensor of the ids of one segment."""
    ids = _as_tensor(name, value)
    if ids.is_floating_point():
        raise TypeError(f"{name!r} holds a {_describe(ids)}: ids must be integers")
    if ids.ndim != 1:
        may_be_references = name == "preds" and ids.ndim == 2 and len(ids) > 1
        raise ValueError(
            f"{name!r} must hold tensors of shape (tokens,), got a "
            f"{_describe(ids)}{_SWAPPED if may_be_references else ''}"
        )
    return ids


def _hold_text(entries: list[Any], *, default: bool) -> bool:
    """Whether references are strings or lists of strings; `default` if all entries are empty."""
    for entry in entries:
        references = entry if isinstance(entry, SEQUENCES) else [entry]
        if references:
            return isinstance(references[0], str)
    return default


def _list_texts(entries: list[Any]) -> list[list[Any]]:
    """Convert the entry of each sentence, which is a string or a list of strings, to a list.

    Example:
        >>> _list_texts([("a", "b"), "c"])
        [['a', 'b'], ['c']]
    """
    if set(map(type, entries)) <= set(SEQUENCES):
        return list(map(list, entries))
    reference_lists = []
    for entry in entries:
        if isinstance(entry, SEQUENCES):
            reference_lists.append(list(entry))
        else:
            reference_lists.append([entry])
    return reference_lists


def _list_ids_or_tokens(entries: list[Any]) -> list[list[Any]]:
    """Convert the entry of each sentence, which is a reference or a list of references, to a list.

    Example:
        >>> _list_ids_or_tokens([[5, 6], [7]]), _list_ids_or_tokens([[[5, 6]], []])
        ([[[5, 6]], [[7]]], [[[5, 6]], []])
    """
    hold_references = [_holds_sentences(entry) for entry in entries]
    # An empty list is an empty reference, unless other entries are lists of references.
    are_empty_lists_nested = any(hold_references)
    reference_lists = []
    for entry, is_nested in zip(entries, hold_references):
        if is_nested or (are_empty_lists_nested and isinstance(entry, SEQUENCES) and not entry):
            if isinstance(entry, Tensor):
                check_dense("target", entry)
            reference_lists.append(list(entry))
        else:
            reference_lists.append([entry])
    return reference_lists


def _holds_sentences(entry: Any) -> bool:
    """Whether an entry is a list of references, rather than a reference."""
    if isinstance(entry, Tensor | np.ndarray):
        return entry.ndim > 1
    if not isinstance(entry, SEQUENCES):
        return False
    types = set(map(type, entry))
    return any(issubclass(type_, Iterable | NoneType) and not issubclass(type_, str) for type_ in types)


def _as_list(name: str, value: Any) -> list[Any]:
    """Convert an argument to a list of sentences."""
    if isinstance(value, str):
        raise TypeError(f"{name!r} must be a list of sentences, got a str: wrap it in a list, [{value[:40]!r}]")
    items = materialize(value)
    if not isinstance(items, SEQUENCES):
        raise TypeError(
            f"{name!r} must be a list of strings, lists of tokens, or tensors of ids, or a single tensor, "
            f"got {type(value).__name__}{_advise(name, value)}"
        )
    return list(items)


def _advise(name: str, value: Any) -> str:
    """The end of an error message: what to pass instead of a value of the wrong type, if that is known.

    Example:
        >>> _advise("preds", {"input_ids": [[5, 6]], "attention_mask": [[1, 1]]})
        " with the keys ['input_ids', 'attention_mask']: pass preds['input_ids']"
    """
    if isinstance(value, bytes | bytearray):
        return f": decode it, and wrap it in a list, [{name}.decode()]"
    if not isinstance(value, Mapping):
        return ""
    keys = list(value)
    usual_keys = ("labels", *_KEYS) if name == "target" else _KEYS
    known_keys = [key for key in usual_keys if key in keys]
    advice = f"{name}[{known_keys[0]!r}]" if known_keys else f"one of its values, or list({name}.values())"
    return f" with the keys {repr(keys)[:_MAX_SHOWN_OF_KEYS]}: pass {advice}"


def _materialize_all(items: list[Any]) -> list[Any]:
    if set(map(type, items)) <= {str, list, tuple, Tensor}:
        return items
    return list(map(materialize, items))


def materialize(value: Any) -> Any:
    """Convert a deque, a generator, a dict view, an array of strings, or a similar iterable to a list."""
    if isinstance(value, np.ndarray) and not _holds_numbers(value):
        return value.tolist()
    if isinstance(value, str | bytes | bytearray | list | tuple | Tensor | np.ndarray | Mapping):
        return value
    is_set = isinstance(value, Set) and not isinstance(value, MappingView)
    is_data_frame = hasattr(value, "columns")
    if is_set or is_data_frame:
        return value  # a set has no order, and a data frame yields column names
    return list(value) if isinstance(value, Iterable) else value


# Tensors


def _holds_numbers(value: object) -> TypeGuard[Tensor | npt.NDArray[Any]]:
    """Whether a value is a tensor, or an array of anything but strings or objects."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind not in "UTO")


def _as_tensor(name: str, value: Tensor | npt.NDArray[Any]) -> Tensor:
    """Convert to a dense tensor of int64 or floating point.

    Raises:
        TypeError: for other dtypes, and for sparse and nested tensors.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufb":
            advice = ": decode it, np.char.decode(array)" if value.dtype.kind == "S" else ""
            raise TypeError(f"{name!r} must hold integers, got an array of {value.dtype}{advice}")
        # A copy without negative strides, a read-only buffer, or a non-native byte order.
        value = torch.from_numpy(np.array(value, value.dtype.newbyteorder("="), order="C"))
    check_dense(name, value)
    if value.dtype == torch.int64:
        return value
    if value.dtype.is_floating_point:
        return value.detach()
    if value.dtype not in _INTEGERS:
        raise TypeError(f"{name!r} is a {_describe(value)}: ids must be integers")
    return value.to(torch.int64)


def check_dense(name: str, value: Tensor, instead: str = _ROWS) -> None:
    """Raise a TypeError for a nested or sparse tensor.

    Args:
        name: the name of the argument.
        value: the tensor.
        instead: what to pass instead of a nested tensor.
    """
    if value.is_nested:
        raise TypeError(f"{name!r} must be a dense tensor, got a nested tensor: pass {instead}")
    if value.layout != torch.strided:
        raise TypeError(f"{name!r} must be a dense tensor, got a sparse tensor: pass tensor.to_dense()")


def check_has_values(name: str, value: Tensor) -> None:
    """Raise a TypeError for a tensor on the meta device."""
    if value.is_meta:
        raise TypeError(
            f"{name!r} has a tensor on the meta device, which has a shape but no values: pass a tensor on a real device"
        )


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


def type_names(types: Iterable[type]) -> list[str]:
    """List type names for an error message."""
    return sorted(type_.__name__ for type_ in types)


def dtype_or_type(value: object) -> object:
    """Describe an array of the wrong type for an error message: its dtype, or the name of its type if it has none."""
    return getattr(value, "dtype", type(value).__name__)


def is_integer_type(type_: type) -> bool:
    """Whether values of a type are integers. (To Python, booleans are, too.)"""
    return type_ is not bool and issubclass(type_, int | np.integer)
