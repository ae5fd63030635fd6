"""The forms in which sentences can be passed: strings, tokens, or ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.reading.ragged import BoolArray, Ragged

Sentence: TypeAlias = "str | Sequence[str] | Sequence[int] | Tensor | npt.NDArray[Any]"
"""Text, tokens, or ids."""
Hypotheses: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence]"
"""The accepted types of `preds`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
References: TypeAlias = "Tensor | npt.NDArray[Any] | Iterable[Sentence | Iterable[Sentence]]"
"""The accepted types of `target`; see :meth:`lightning_bleu.CorpusBLEU.update`."""
SampleMask: TypeAlias = "Tensor | npt.NDArray[np.bool_] | Sequence[bool]"
"""The accepted types of `sample_mask`."""
Index: TypeAlias = "Tensor | npt.NDArray[Any] | Sequence[int]"
"""The accepted types of `index`."""


class Strings(NamedTuple):
    """Text, one line per segment."""

    lines: list[str]


class Tokens(NamedTuple):
    """Segments that are already tokenized. If all are empty, they can also be ids."""

    rows: list[list[str]]


class Ids(NamedTuple):
    """Ids.

    Attributes:
        ragged: the ids, on the CPU.
        device: the device that they were passed on.
        shape: the shape of the tensor that they were passed in, whose rows may be padded; empty for lists. For both
            sides together, that of the references.
        vocabulary: the number of logits for each token, from which the ids were chosen; None if there were no logits.
        are_nan: whether the logits contain NaN.
    """

    ragged: Ragged
    device: torch.device
    shape: tuple[int, ...] = ()
    vocabulary: int | None = None
    are_nan: bool = False


Form: TypeAlias = Strings | Tokens | Ids
"""How sentences were passed."""


def kind_of(form: Form) -> str:
    """The name of a form: ``"strings"``, ``"tokens"``, ``"ids"``, or ``"empty"`` for lists without any token."""
    if isinstance(form, Tokens):
        return "tokens" if any(form.rows) else "empty"
    return "strings" if isinstance(form, Strings) else "ids"


def segment_count(form: Form) -> int:
    """The number of segments."""
    return len(form.ragged.lengths) if isinstance(form, Ids) else len(form[0])


def select(form: Form, chosen: BoolArray) -> Form:
    """Some of the segments.

    Example:
        >>> select(Strings(["a", "b", "c"]), np.array([True, False, True]))
        Strings(lines=['a', 'c'])
    """
    if isinstance(form, Ids):
        ids, lengths = form.ragged
        return form._replace(ragged=Ragged(ids[chosen.repeat(lengths)], lengths[chosen]))
    if isinstance(form, Tokens):
        return Tokens([*compress(form.rows, chosen)])
    return Strings([*compress(form.lines, chosen)])


def join(hypotheses: Form, references: Form) -> Form:
    """All segments of two sides of the same form. Ids are copied.

    Example:
        >>> join(Strings(["a", "b"]), Strings(["c"]))
        Strings(lines=['a', 'b', 'c'])
    """
    if isinstance(hypotheses, Ids) and isinstance(references, Ids):
        ids, lengths = map(np.concatenate, zip(hypotheses.ragged, references.ragged))
        device = references.device if hypotheses.device.type == "cpu" else hypotheses.device
        return Ids(Ragged(ids, lengths), device, references.shape)
    if isinstance(hypotheses, Tokens) and isinstance(references, Tokens):
        return Tokens([*hypotheses.rows, *references.rows])
    assert isinstance(hypotheses, Strings)
    assert isinstance(references, Strings)
    return Strings([*hypotheses.lines, *references.lines])
