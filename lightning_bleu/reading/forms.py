"""The forms in which sentences can be passed: strings, tokens, or ids; and how many a corpus has of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.reading.ragged import Ragged

CPU = torch.device("cpu")
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

    lists: list[list[str]]


class Ids(NamedTuple):
    """Ids.

    Attributes:
        ragged: the ids, on the CPU.
        device: the device that they were passed on.
        shape: the shape of the tensor that they were passed in, which may be padded; empty for lists. For hypotheses
            and references together, the shape of the references.
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


KINDS = ("strings", "tokens", "ids", "empty")
"""The kinds of sentences; see :func:`kind_of`."""


def kind_of(form: Form) -> str:
    """The name of a form: ``"strings"``, ``"tokens"``, ``"ids"``, or ``"empty"`` for lists without any token."""
    if isinstance(form, Tokens):
        return "tokens" if any(form.lists) else "empty"
    return "strings" if isinstance(form, Strings) else "ids"


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


def segment_count(form: Form) -> int:
    """The number of segments."""
    return len(form.ragged.lengths) if isinstance(form, Ids) else len(form[0])


def join(hypotheses: Form, references: Form) -> Form:
    """All hypotheses, then all references, which have the same form. Ids are copied.

    Example:
        >>> join(Strings(["a", "b"]), Strings(["c"]))
        Strings(lines=['a', 'b', 'c'])
    """
    if isinstance(hypotheses, Ids) and isinstance(references, Ids):
        ids = np.concatenate([hypotheses.ragged.ids, references.ragged.ids])
        lengths = np.concatenate([hypotheses.ragged.lengths, references.ragged.lengths])
        return references._replace(ragged=Ragged(ids, lengths))
    return type(hypotheses)([*hypotheses[0], *references[0]])  # type: ignore[arg-type, call-arg]
