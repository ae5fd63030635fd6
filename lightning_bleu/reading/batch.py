"""Read a call: turn `preds` and `target`, in any form, into tokens to count."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

import numpy as np
import torch

from lightning_bleu.counting.devices import CPU, to_device
from lightning_bleu.counting.padded import Padded, PaddedSide, join, pad_ragged, pad_tensors
from lightning_bleu.counting.token_cache import number_tokens, tokenize
from lightning_bleu.reading.decoding import decode
from lightning_bleu.reading.forms import (
    Form,
    Hypotheses,
    IdLists,
    IdTensor,
    IdTensors,
    References,
    Strings,
    TokenKind,
    TokenLists,
    flatten,
    row_lengths,
)
from lightning_bleu.reading.ragged import IntArray, Ragged, RaggedBatch, clean, drop_fillers, merge
from lightning_bleu.reading.recognize import recognize
from lightning_bleu.reading.suspicions import suspect_padding, suspect_tokens
from lightning_bleu.settings.decoders import Decoder
from lightning_bleu.settings.special_ids import SpecialIds
from lightning_bleu.settings.tokenizers import Tokenizer


class ReadingOptions(Protocol):
    """The options that control how tokens are read; see :class:`lightning_bleu.settings.settings.Settings`."""

    @property
    def tokenizer(self) -> Tokenizer:
        """How strings are tokenized."""

    @property
    def lowercase(self) -> bool:
        """Whether strings are lowercased before they are tokenized."""

    @property
    def special_ids(self) -> SpecialIds:
        """Which ids are not tokens."""

    @property
    def decoder(self) -> Decoder | None:
        """Decodes ids to strings, which are then tokenized and scored."""


class Batch(NamedTuple):
    """The sentences of one call, or of several that are counted together.

    Attributes:
        tokens: the tokens to count; never a view of the inputs.
        kind: ``"strings"`` (including decoded ids), ``"tokens"``, or ``"ids"``.
        reference_counts: the number of references of each sentence, shape ``(sentences,)``. For a tensor of ids this
            includes rows without tokens, because finding them would make the host wait for the accelerator.
        lines: for strings: the text of all hypotheses, then of all references.
        vocabulary: for tokens: the tokens by id.
        suspicions: likely mistakes that are not errors, as warning messages.
    """

    tokens: RaggedBatch | Padded
    kind: TokenKind
    reference_counts: IntArray
    lines: Sequence[str] = ()
    vocabulary: Sequence[Hashable] = ()
    suspicions: Sequence[str] = ()

    @property
    def sentence_count(self) -> int:
        """The number of sentences."""
        return len(self.reference_counts)

    @property
    def device(self) -> torch.device:
        """The accelerator that the tokens are on, or the CPU."""
        return self.tokens.ids.device if isinstance(self.tokens, Padded) else CPU

    def texts(self) -> list[tuple[str, list[str]]]:
        """Each hypothesis and its references as readable text. Waits for the accelerator, if the ids are on one.

        Example:
            >>> from lightning_bleu.settings.settings import Settings
            >>> read_batch([[5, 6], [7]], [[[5, 7], [5]], [[7]]], Settings.from_options()).texts()
            [('5 6', ['5 7', '5']), ('7', ['7'])]
        """
        if isinstance(self.tokens, Padded):
            texts = [[" ".join(map(str, row)) for row in rows] for rows in self.tokens.rows()]
            return [(hypothesis, references) for hypothesis, *references in texts]
        lines, counts = self._lines(), self.tokens.reference_counts.tolist()
        references = iter(lines[len(counts) :])
        return [(hypothesis, list(islice(references, count))) for hypothesis, count in zip(lines, counts)]

    def _lines(self) -> Sequence[str]:
        """The text of all hypotheses, then of all references."""
        if self.lines:
            return self.lines
        assert isinstance(self.tokens, RaggedBatch)
        words = [str(token) for token in self.vocabulary]
        return [" ".join(words[i] if words else str(i) for i in ids) for ids in self.tokens.tokens.rows()]


def read_batch(preds: Hypotheses, target: References, options: ReadingOptions) -> Batch:
    """Check the inputs of a call, and tokenize, decode, or clean them.

    Args:
        preds: the hypotheses; see :meth:`lightning_bleu.CorpusBLEU.update`.
        target: their references.
        options: how to read the tokens.

    Raises:
        TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
        ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.

    Example:
        >>> from lightning_bleu.settings.settings import Settings
        >>> batch = read_batch(torch.tensor([[5, 6, 0]]), torch.tensor([[5, 7, 6]]), Settings.from_options(pad_id=0))
        >>> batch.tokens.tokens.rows(), batch.kind
        ([[5, 6], [5, 7, 6]], 'ids')
    """
    kind, hypotheses, references, counts = recognize(preds, target, decodable=options.decoder is not None)
    if isinstance(hypotheses, Strings) and isinstance(references, Strings):
        return _read_strings(hypotheses.lines, references.lines, counts, options)
    if kind == "tokens":
        return _read_tokens(hypotheses, references, counts)
    if options.decoder is not None:
        texts = _decode_sides(hypotheses, references, counts, options.special_ids, options.decoder)
        return _read_strings(*texts, options)
    special_ids, device = options.special_ids, _device(hypotheses, references)
    suspicions = suspect_padding(hypotheses, references, special_ids)
    if device == CPU:
        tokens = _read_ragged(hypotheses, references, counts, special_ids)
        return Batch(tokens, "ids", counts, suspicions=suspicions)
    padded = read_padded(hypotheses, references, counts, special_ids, device)
    return Batch(padded, "ids", counts, suspicions=suspicions)


def merge_batches(batches: Sequence[Batch]) -> Batch:
    """The sentences of one or more batches of the same kind, to count them together.

    Several batches must be on the CPU. The result has no lines and no vocabulary.

    Example:
        >>> from lightning_bleu.settings.settings import Settings
        >>> batches = [read_batch([[i]], [[i + 1]], Settings.from_options()) for i in (5, 7)]
        >>> merge_batches(batches).tokens.tokens.rows()
        [[5], [7], [6], [8]]
    """
    if len(batches) == 1:
        return batches[0]
    tokens = [batch.tokens for batch in batches if isinstance(batch.tokens, RaggedBatch)]
    assert len(tokens) == len(batches)
    return Batch(merge(tokens), batches[0].kind, np.concatenate([batch.reference_counts for batch in batches]))


def _read_strings(hypotheses: list[str], references: list[str], counts: IntArray, options: ReadingOptions) -> Batch:
    lines = [*hypotheses, *references]
    tokens = tokenize([line.lower() for line in lines] if options.lowercase else lines, options.tokenizer)
    suspicions = suspect_tokens(hypotheses, references, counts)
    return Batch(RaggedBatch(tokens, counts), "strings", counts, lines, suspicions=suspicions)


def _read_tokens(hypotheses: Form, references: Form, counts: IntArray) -> Batch:
    assert isinstance(hypotheses, TokenLists | IdLists)  # IdLists if all are empty
    assert isinstance(references, TokenLists | IdLists)
    rows = [*hypotheses.rows, *references.rows]
    ids, vocabulary = number_tokens(chain.from_iterable(rows))
    return Batch(RaggedBatch(Ragged.of(ids, row_lengths(rows)), counts), "tokens", counts, vocabulary=vocabulary)


def _decode_sides(
    hypotheses: Form, references: Form, counts: IntArray, special_ids: SpecialIds, decoder: Decoder
) -> tuple[list[str], list[str], IntArray]:
    """The text of hypotheses and references. One side may already be text."""
    forms = hypotheses, references
    # A side that is already text gets empty rows of ids, which are not decoded.
    ids = [IdLists([[]] * len(form.lines)) if isinstance(form, Strings) else form for form in forms]
    tokens, counts = _read_ragged(ids[0], ids[1], counts, special_ids)
    rows = tokens.rows()
    sides = list(zip(forms, (rows[: len(counts)], rows[len(counts) :])))
    decoded = iter(decode([row for form, side in sides if not isinstance(form, Strings) for row in side], decoder))
    texts = [form.lines if isinstance(form, Strings) else list(islice(decoded, len(side))) for form, side in sides]
    return texts[0], texts[1], counts


def _read_ragged(hypotheses: Form, references: Form, counts: IntArray, special_ids: SpecialIds) -> RaggedBatch:
    """Move ids to the CPU and remove the padding."""
    sides = [flatten(hypotheses), flatten(references)]
    ids, lengths = (np.concatenate(arrays) for arrays in zip(*sides))
    batch = RaggedBatch(clean(Ragged.of(ids, lengths), special_ids), counts)
    may_have_fillers = isinstance(references, IdTensor) and references.ids.ndim == 3 and references.ids.shape[1] > 1
    return drop_fillers(batch) if may_have_fillers else batch


def read_padded(
    hypotheses: Form, references: Form, counts: IntArray, special_ids: SpecialIds, device: torch.device
) -> Padded:
    """Move ids to an accelerator, padded; see :mod:`lightning_bleu.counting.padded`."""
    sides = _pad(hypotheses, np.ones_like(counts), device), _pad(references, counts, device)
    return join(*sides, special_ids)


def _device(*forms: Form) -> torch.device:
    """The accelerator that holds the ids, or the CPU if none does."""
    tensors = [
        form.ids if isinstance(form, IdTensor) else form.rows[0]
        for form in forms
        if isinstance(form, IdTensor | IdTensors)
    ]
    return next((tensor.device for tensor in tensors if tensor.device != CPU), CPU)


def _pad(form: Form, counts: IntArray, device: torch.device) -> PaddedSide:
    if isinstance(form, IdTensor):
        ids = to_device(form.ids, device)
        return PaddedSide(ids[:, None] if ids.ndim == 2 else ids)
    if isinstance(form, IdTensors) and form.rows[0].device == device:
        return pad_tensors(form.rows, counts)
    return pad_ragged(Ragged.of(*flatten(form)), counts, device)
