"""Ids → text."""

from __future__ import annotations

from types import MethodType
from typing import Any

from lightning_bleu.reading.forms import (
    Form,
    Hypotheses,
    IdLists,
    IdTensor,
    IdTensors,
    Strings,
    TokenLists,
    flatten,
    segment_count,
)
from lightning_bleu.reading.ragged import Ragged, clean
from lightning_bleu.reading.recognize import recognize_hypotheses
from lightning_bleu.settings.decoders import Decoder
from lightning_bleu.settings.special_ids import SpecialIds


def decode(rows: list[list[int]], decoder: Decoder) -> list[str]:
    """Decode ids.

    Raises:
        TypeError: if the decoder does not return one string per list.

    Example:
        >>> decode([[0, 1], [2]], lambda rows: ["".join("abc"[i] for i in row) for row in rows])
        ['ab', 'c']
    """
    # The user can also pass the bound method, tokenizer.batch_decode.
    is_method = getattr(decoder, "__name__", "") == "batch_decode" and isinstance(decoder, MethodType)
    if is_method or hasattr(decoder, "batch_decode"):
        batch_decode: Any = getattr(decoder, "batch_decode", decoder)
        lines = list(batch_decode(rows, skip_special_tokens=True))
    else:
        lines = list(decoder(rows))
    if len(lines) != len(rows) or not all(isinstance(line, str) for line in lines):
        raise TypeError("'decoder' must return one string for each list of ids")
    return lines


class Sources:
    """The source sentences of a batch, which are shown but not counted.

    Ids are copied, and decoded only when they are shown. Until then, nothing waits for their device.

    Args:
        sources: the source sentences, in any form that hypotheses can have.
        sentences: the number of hypotheses.

    Raises:
        TypeError: for an unsupported input type.
        ValueError: for another number of sentences, or an unsupported shape.

    Example:
        >>> Sources([[7, 8, 0], [9]], sentences=2).lines(SpecialIds(pad_id=0), decoder=None)
        ['7 8', '9']
    """

    def __init__(self, sources: Hypotheses, sentences: int) -> None:
        form = recognize_hypotheses(sources, "source")
        if segment_count(form) != sentences:
            raise ValueError(
                f"'source' and 'preds' must have the same number of sentences, got {segment_count(form)} and "
                f"{sentences}"
            )
        self._form = _copy(form)

    def lines(self, special_ids: SpecialIds, decoder: Decoder | None) -> list[str]:
        """The text of each sentence. Waits for the accelerator, if the ids are on one.

        Args:
            special_ids: which ids are not tokens.
            decoder: decodes the ids; without it, the ids themselves are the text.
        """
        if isinstance(self._form, Strings):
            return self._form.lines
        if isinstance(self._form, TokenLists):
            return [" ".join(row) for row in self._form.rows]
        rows = clean(Ragged.of(*flatten(self._form)), special_ids).rows()
        return [" ".join(map(str, row)) for row in rows] if decoder is None else decode(rows, decoder)


def _copy(form: Form) -> Form:
    """A form that does not change if its inputs do."""
    if isinstance(form, Strings):
        return Strings([*form.lines])
    if isinstance(form, TokenLists):
        return TokenLists([[*row] for row in form.rows])
    if isinstance(form, IdLists):
        return IdLists([[*row] for row in form.rows])
    if isinstance(form, IdTensors):
        return IdTensors([row.clone() for row in form.rows])
    return IdTensor(form.ids.clone())
