"""Read a call: turn `preds` and `target` into text or ids to count."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice
from types import MethodType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.forms import (
    CPU,
    BoolArray,
    Form,
    Hypotheses,
    Ids,
    Index,
    IntArray,
    Ragged,
    References,
    SampleMask,
    Strings,
    Tokens,
    drop_empty_references,
    join,
    kind_of,
    remove_special_ids,
    segment_count,
)
from lightning_bleu.core.mistakes import Mistake, find_mistakes
from lightning_bleu.core.recognize import check_layout, recognize, recognize_hypotheses
from lightning_bleu.core.settings import Decoder, Settings


class Sentence(NamedTuple):
    """A sentence as text.

    Attributes:
        hypothesis: the hypothesis.
        references: its references.
        source: the source sentence, if the step returned one.
        tokenized: whether the texts are tokens separated by spaces, rather than text that is still to be tokenized.
        group: the label of its group, if the step returned labels.
        id: what the step calls it, if it returned an ``"id"``.
        columns: the values of other keys of the step that functions take, by key.
    """

    hypothesis: str
    references: list[str]
    source: str | None = None
    tokenized: bool = False
    group: str | None = None
    id: str | int | None = None
    columns: Mapping[str, Any] | None = None


class InputCounts(NamedTuple):
    """How many sentences of each kind and how many references a corpus has. Batches and processes can be summed.

    Attributes:
        strings: sentences passed as strings.
        tokens: sentences passed as lists of tokens.
        ids: sentences passed as ids.
        empty: sentences passed as lists without any token, in a batch of such lists.
        references: references of all sentences.
        squared_references: the sum over sentences of the squared number of references. It shows whether all sentences
            have the same number of references.

    Example:
        >>> InputCounts(strings=2, references=4, squared_references=8).reference_count
        '2'
        >>> InputCounts(strings=2, references=4, squared_references=10).reference_count
        'var'
    """

    strings: int = 0
    tokens: int = 0
    ids: int = 0
    empty: int = 0
    references: int = 0
    squared_references: int = 0

    @property
    def sentence_count(self) -> int:
        """The number of all sentences."""
        return self.strings + self.tokens + self.ids + self.empty

    @property
    def reference_count(self) -> str:
        """The number of references per sentence; ``"var"`` if it varies, ``"?"`` if there are no sentences."""
        if not self.sentence_count:
            return "?"
        if self.squared_references * self.sentence_count != self.references**2:
            return "var"
        return str(self.references // self.sentence_count)

    @property
    def kinds(self) -> list[str]:
        """The kinds that occur, except ``"empty"``."""
        return [kind for kind in ("strings", "tokens", "ids") if getattr(self, kind)]


class Batch(NamedTuple):
    """The sentences of one call that count.

    Attributes:
        segments: all hypotheses, then all references, sentence by sentence. Ids have no padding left, and are decoded
            if there is a decoder.
        reference_counts: the number of references of each sentence, at least 1, shape ``(sentences,)``.
        positions: the position of each sentence in the dataset, shape ``(sentences,)``; None if it is unknown.
        mistakes: likely mistakes that are not errors.
        widths: the widths of the logits and of their labels; None unless both are in a tensor.
        device: the device of the ids that were passed; the CPU for text.
    """

    segments: Form
    reference_counts: IntArray
    positions: IntArray | None = None
    mistakes: Sequence[Mistake] = ()
    widths: tuple[int, int] | None = None
    device: torch.device = CPU

    @property
    def sentence_count(self) -> int:
        """The number of sentences."""
        return len(self.reference_counts)

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        counts = self.reference_counts
        by_kind = {kind_of(self.segments): len(counts)}
        return InputCounts(**by_kind, references=int(counts.sum()), squared_references=int(counts @ counts))

    def texts(self) -> list[tuple[str, list[str]]]:
        """Each hypothesis and its references as readable text.

        Example:
            >>> read_batch([[5, 6], [7]], [[[5, 7], [5]], [[7]]], Settings.from_options()).texts()
            [('5 6', ['5 7', '5']), ('7', ['7'])]
        """
        lines = to_lines(self.segments)
        references = iter(lines[self.sentence_count :])
        counts = self.reference_counts.tolist()
        return [(hypothesis, list(islice(references, count))) for hypothesis, count in zip(lines, counts)]


def read_batch(
    preds: Hypotheses,
    target: References,
    settings: Settings,
    sample_mask: SampleMask | None = None,
) -> Batch:
    """Read the sentences of a call, and drop those that are masked.

    Args:
        preds: the hypotheses; see :meth:`lightning_bleu.CorpusBLEU.update`.
        target: their references.
        settings: how to read them.
        sample_mask: which sentences count; all when None.

    Raises:
        TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
        ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.

    Example:
        >>> import torch
        >>> batch = read_batch(torch.tensor([[5, 6, 0]]), torch.tensor([[5, 7, 6]]), Settings.from_options(pad_id=0))
        >>> batch.segments.ragged.to_lists()
        [[5, 6], [5, 7, 6]]
    """
    batch = read_sentences(preds, target, settings)
    mask = read_sample_mask(sample_mask, batch.sentence_count)
    return batch if mask is None else select_sentences(batch, mask)


def read_sentences(preds: Hypotheses, target: References, settings: Settings) -> Batch:
    """Check the sentences of a call, copy them to the CPU, and remove padding or decode ids; see :func:`read_batch`.

    Example:
        >>> read_sentences([[5, 6], [7]], [[5], [7]], Settings.from_options()).texts()
        [('5 6', ['5']), ('7', ['7'])]
    """
    hypotheses, references, counts = recognize(preds, target, decodable=settings.decoder is not None)
    check_layout(hypotheses, references, settings.removed_ids)
    segments, counts = _read_pair(hypotheses, references, counts, settings)
    mistakes = list(find_mistakes(hypotheses, references, segments, counts, settings))
    widths = _widths_of(hypotheses, references)
    device = getattr(hypotheses, "device", CPU)
    if device == CPU:
        device = getattr(references, "device", CPU)
    return Batch(segments, counts, mistakes=mistakes, widths=widths, device=device)


def _read_pair(hypotheses: Form, references: Form, counts: IntArray, settings: Settings) -> tuple[Form, IntArray]:
    """All hypotheses, then all references, without padding; decoded if one side or both are ids of a decoder."""
    if settings.decoder is not None and groups_tokens(settings.decoder):
        # A repeated id of a frame is a single letter, unless a blank, which is the padding, separates the two.
        of_frames = replace(settings, pad_id=None, bos_id=None, eos_id=None)
        decoded, _ = _read(hypotheses, counts, of_frames, group_tokens=True)
        decoded_references, counts = _read(references, counts, settings, group_tokens=False)
        return join(decoded, decoded_references), counts
    if type(hypotheses) is type(references):
        return _read(join(hypotheses, references), counts, settings)
    decoded, _ = _read(hypotheses, counts, settings)
    decoded_references, counts = _read(references, counts, settings)
    return join(decoded, decoded_references), counts


def _widths_of(hypotheses: Form, references: Form) -> tuple[int, int] | None:
    """The widths of a batch of logits and of its labels; None unless both are in a tensor."""
    if not isinstance(hypotheses, Ids) or not isinstance(references, Ids):
        return None
    if hypotheses.vocabulary is None or not references.shape or not references.shape[0]:
        return None
    return hypotheses.shape[1], references.shape[-1]


def select_sentences(batch: Batch, chosen: BoolArray) -> Batch:
    """Select sentences of a batch, such as the sentences of a language.

    Args:
        batch: the batch.
        chosen: which sentences to select, shape ``(sentences,)``.

    Example:
        >>> batch = read_batch(["a", "b", "c"], [["a"], ["b", "x"], ["c"]], Settings.from_options())
        >>> select_sentences(batch, np.array([False, True, True])).segments
        Strings(lines=['b', 'c', 'b', 'x', 'c'])
    """
    chosen_references = chosen.repeat(batch.reference_counts)
    segments = _select_segments(batch.segments, np.concatenate([chosen, chosen_references]))
    counts = batch.reference_counts[chosen]
    positions = batch.positions
    if positions is not None:
        positions = positions[chosen]
    return batch._replace(segments=segments, reference_counts=counts, positions=positions)


def _select_segments(form: Form, chosen: BoolArray) -> Form:
    """Some segments of a form.

    Example:
        >>> _select_segments(Strings(["a", "b"]), np.array([False, True]))
        Strings(lines=['b'])
    """
    if not isinstance(form, Ids):
        return type(form)(list(compress(form[0], chosen)))  # type: ignore[arg-type]
    ids, lengths = form.ragged
    return form._replace(ragged=Ragged(ids[chosen.repeat(lengths)], lengths[chosen]))


class Sources(NamedTuple):
    """Source sentences, which are shown but not counted. Ids become text when somebody reads them.

    Attributes:
        segments: the sources. Ids have no padding left.
        decoder: decodes ids; None if they are shown as numbers.
        kind: how they were passed: ``"strings"``, ``"tokens"``, or ``"ids"``; ``"strings"`` for ids that are decoded.
    """

    segments: Form
    decoder: Decoder | None = None
    kind: str = "strings"

    def select(self, chosen: BoolArray) -> Sources:
        """Some of them.

        Args:
            chosen: which ones, shape ``(sentences,)``.
        """
        return self._replace(segments=_select_segments(self.segments, chosen))

    def lines(self) -> list[str]:
        """Their texts.

        Raises:
            TypeError: if the decoder does not return one string per source.
        """
        if isinstance(self.segments, Ids) and self.decoder is not None:
            return decode(self.segments.ragged.to_lists(), self.decoder)
        return to_lines(self.segments)


def read_sources(sources: Hypotheses, sentences: int, settings: Settings) -> Sources:
    """Read the source sentences of a call. Ids are copied and cleaned like hypotheses.

    Args:
        sources: the source sentences, in any form that hypotheses can have.
        sentences: the number of hypotheses.
        settings: how to read ids.

    Raises:
        TypeError: for an unsupported input type.
        ValueError: for an unsupported shape, or if there is not one source per sentence.

    Example:
        >>> read_sources([[7, 8, 0], [9]], sentences=2, settings=Settings.from_options(pad_id=0)).lines()
        ['7 8', '9']
    """
    segments = recognize_hypotheses(sources, "source")
    count = segment_count(segments)
    if count != sentences:
        raise ValueError(f"'source' and 'preds' must have the same number of sentences, got {count} and {sentences}")
    if not isinstance(segments, Ids):
        return Sources(Strings(list(to_lines(segments))), kind=kind_of(segments))
    ids = Ids(remove_special_ids(segments.ragged, settings), segments.device)
    return Sources(ids, settings.decoder, "strings" if settings.decoder else "ids")


def _read(
    form: Form, counts: IntArray, settings: Settings, *, group_tokens: bool | None = None
) -> tuple[Form, IntArray]:
    """Clean ids, and decode them if there is a decoder; see :func:`decode`. Text stays as it is."""
    if not isinstance(form, Ids):
        return form, counts
    ragged = remove_special_ids(form.ragged, settings)
    if len(form.shape) == 3 and form.shape[1] > 1:  # a tensor with several references per sentence
        ragged, counts = drop_empty_references(ragged, counts)
    if settings.decoder is None:
        return Ids(ragged, form.device), counts
    return Strings(decode(ragged.to_lists(), settings.decoder, group_tokens=group_tokens)), counts


def groups_tokens(decoder: Decoder) -> bool:
    """Whether a decoder is that of CTC, which has a parameter ``group_tokens``.

    Example:
        >>> groups_tokens(lambda lists, group_tokens=True: []), groups_tokens(lambda lists: [])
        (True, False)
    """
    tokenizer = getattr(decoder, "__self__", decoder)  # of a bound method
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor
    function: Any = getattr(tokenizer, "_decode", decoder)
    try:
        return "group_tokens" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a builtin
        return False


def decode(ids: list[list[int]], decoder: Decoder, *, group_tokens: bool | None = None) -> list[str]:
    """Decode ids.

    Args:
        ids: the ids.
        decoder: the decoder.
        group_tokens: for a decoder of CTC, whether repeated ids between blanks are one.

    Raises:
        TypeError: if the decoder does not return one string per list.

    Example:
        >>> decode([[0, 1], [2]], lambda lists: ["".join("abc"[i] for i in ids) for ids in lists])
        ['ab', 'c']
    """
    if not ids:
        return []  # for which tokenizers do not return a list
    options = {} if group_tokens is None else {"group_tokens": group_tokens}
    # The user can also pass the bound method, tokenizer.batch_decode.
    is_method = getattr(decoder, "__name__", "") == "batch_decode" and isinstance(decoder, MethodType)
    if is_method or hasattr(decoder, "batch_decode"):
        batch_decode: Any = getattr(decoder, "batch_decode", decoder)
        # Blanks are special tokens, and would be skipped before repeated ids are grouped.
        lines: Any = batch_decode(ids, skip_special_tokens=not group_tokens, **options)
    else:
        try:
            lines = decoder(ids, **options)
        except TypeError as error:
            raise TypeError(f"'decoder' must turn lists of ids into strings, but it failed: {error}") from error
    decoded: list[Any] = []
    if isinstance(lines, Iterable) and not isinstance(lines, str | Mapping):
        decoded = list(lines)
    are_strings = all(isinstance(line, str) for line in decoded)
    if len(decoded) != len(ids) or not are_strings:
        raise TypeError("'decoder' must return one string for each list of ids")
    return decoded


def to_lines(form: Form) -> list[str]:
    """The text of each segment; ids that are not decoded are shown as numbers.

    Example:
        >>> from lightning_bleu.core.recognize import recognize_hypotheses
        >>> to_lines(recognize_hypotheses([[7, 8], [9]]))
        ['7 8', '9']
    """
    if isinstance(form, Strings):
        return form.lines
    if isinstance(form, Tokens):
        return [" ".join(tokens) for tokens in form.lists]
    return [" ".join(map(str, ids)) for ids in form.ragged.to_lists()]


# Beside the sentences: a value for each


def read_sample_mask(sample_mask: SampleMask | None, sentence_count: int) -> BoolArray | None:
    """Check a mask, and copy it to the CPU.

    Args:
        sample_mask: True for sentences that count.
        sentence_count: the number of sentences.

    Returns:
        shape ``(sentences,)``; True for sentences that count. None if there is no mask.

    Raises:
        TypeError: if the mask does not hold booleans.
        ValueError: if the shape is wrong.
    """
    if sample_mask is None:
        return None
    mask = _to_array("sample_mask", sample_mask)
    if mask.size and mask.dtype != bool:
        raise TypeError(f"'sample_mask' must hold booleans, got {mask.dtype}")
    if mask.shape not in ((sentence_count,), (1,)):
        needs = f"one value per sentence, shape ({sentence_count},), or one for the whole batch, shape (1,)"
        raise ValueError(f"'sample_mask' must have {needs}; got shape {mask.shape}")
    return np.broadcast_to(mask.astype(bool), sentence_count)


def read_index(index: Index | None, sentence_count: int) -> IntArray | None:
    """Check the positions of sentences in their dataset, and copy them to the CPU.

    Args:
        index: the positions.
        sentence_count: the number of sentences.

    Returns:
        shape ``(sentences,)``; None if there is no index.

    Raises:
        TypeError: if they are not integers.
        ValueError: if there is not one position per sentence, or if a position is negative.
    """
    if index is None:
        return None
    positions = _to_array("index", index)
    if positions.size and positions.dtype.kind not in "iu":
        raise TypeError(f"'index' must hold integers, the positions in the dataset, got {positions.dtype}")
    if positions.shape != (sentence_count,):
        raise ValueError(f"'index' must have shape ({sentence_count},), a position per sentence, got {positions.shape}")
    out_of_range = positions[(positions < 0) | (positions >= 2**63)]
    if out_of_range.size:
        raise ValueError(f"'index' must hold positions in the dataset, from 0 and below 2**63, got {out_of_range[0]}")
    return positions.astype(np.int64)


def _to_array(name: str, values: Any) -> npt.NDArray[Any]:
    """A copy as an array."""
    try:
        if isinstance(values, Tensor):
            values = values.numpy(force=True)
        return np.array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name!r} must be an array, or a dense tensor with values: {error}") from error


def read_groups(labels: Any, sentence_count: int) -> list[str]:
    """Check the labels of the groups of sentences.

    Raises:
        TypeError: if they are not strings.
        ValueError: if there is not one label per sentence.

    Example:
        >>> read_groups(("fr", "zh"), 2)
        ['fr', 'zh']
    """
    return _read_values("group", labels, sentence_count, str, "a string per sentence, the label of its group")


def read_column(name: str, values: Any, sentence_count: int) -> list[Any]:
    """Check the values of a key of a step. A ValueError if there is not one per sentence.

    Example:
        >>> read_column("db_id", np.array([3, 4]), sentence_count=2)
        [3, 4]
    """
    return _read_values(name, values, sentence_count, object, "a value per sentence")


def read_ids(ids: Any, sentence_count: int) -> list[str | int]:
    """Check what sentences are called.

    Raises:
        TypeError: if these are neither strings nor integers.
        ValueError: if there is not one per sentence.

    Example:
        >>> read_ids(np.array([3, 5]), 2), read_ids(["en-3", 5], 2)
        ([3, 5], ['en-3', 5])
    """
    return _read_values("id", ids, sentence_count, str | int, "a string or an integer per sentence")


def _read_values(name: str, values: Any, sentence_count: int, kind: Any, what: str) -> list[Any]:
    """Check a value per sentence, of a kind. Those of tensors, arrays, and enumerations become plain values."""
    if hasattr(values, "tolist"):  # at once, also from a GPU
        values = values.tolist()
    is_list = isinstance(values, Iterable) and not isinstance(values, str)
    plain = [_to_plain(value) for value in values] if is_list else [None]
    if not all(isinstance(value, kind) for value in plain):
        raise TypeError(f"{name!r} must hold {what}, got {repr(values)[:80]}")
    if len(plain) != sentence_count:
        raise ValueError(f"{name!r} must hold {what}, got {len(plain)} for {sentence_count} sentences")
    return plain


def _to_plain(value: Any) -> Any:
    """A number or a string of a tensor, of an array, or of an enumeration as a plain one; None for a boolean."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    return None if isinstance(value, bool) else value


_P = ParamSpec("_P")
_T = TypeVar("_T")


def eager(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Run a function eagerly, even when compiled code calls it.

    Counting uses NumPy and data-dependent shapes. ``torch.compiler.disable`` as a decorator would do the same, but it
    imports the compiler right away, which takes two seconds.
    """

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]
        return function(*args, **kwargs)

    return wrapper
