"""Signatures: one line that names the options a score depends on, in sacreBLEU's format."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import sacrebleu

from lightning_bleu.counting.kept import KINDS, KeptSentences
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import kind_of
from lightning_bleu.reading.ragged import BoolArray
from lightning_bleu.settings.settings import Settings
from lightning_bleu.settings.tokenizers import tokenizer_name
from lightning_bleu.version import __version__


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

    @classmethod
    def of(cls, batch: Batch, mask: BoolArray | None = None) -> InputCounts:
        """Count the sentences and references of a batch that a mask selects; see :meth:`CorpusBLEU.update`."""
        counts = batch.reference_counts
        if mask is not None:
            counts = counts[mask]
        sentences = {kind_of(batch.segments): len(counts)}
        return cls(**sentences, references=int(counts.sum()), squared_references=int(counts @ counts))

    @classmethod
    def of_kept(cls, kept: KeptSentences) -> InputCounts:
        """Count kept sentences and their references."""
        sentences = np.bincount(kept.kinds.numpy(), minlength=len(KINDS)).tolist()
        counts = kept.reference_counts.numpy().astype(np.int64)
        return cls(**dict(zip(KINDS, sentences)), references=int(counts.sum()), squared_references=int(counts @ counts))

    @property
    def sentences(self) -> int:
        """The number of all sentences."""
        return self.strings + self.tokens + self.ids + self.empty

    @property
    def reference_count(self) -> str:
        """The number of references per sentence; ``"var"`` if it varies, ``"?"`` if there are no sentences."""
        if not self.sentences:
            return "?"
        if self.squared_references * self.sentences != self.references**2:
            return "var"
        return str(self.references // self.sentences)

    def tokenization(self, settings: Settings) -> str:
        """How sentences were tokenized: a tokenizer, ``"ids"``, or ``"tokens"``; ``"?"`` if there are no sentences."""
        counts = {"ids": self.ids, "tokens": self.tokens, tokenizer_name(settings.tokenizer): self.strings}
        return "+".join(sorted(name for name, sentences in counts.items() if sentences)) or "?"


def signature(settings: Settings, inputs: InputCounts) -> str:
    """Name everything that a score depends on, in one line.

    Example:
        >>> inputs = InputCounts(strings=3, references=6, squared_references=12)
        >>> signature(Settings.from_options(lowercase=True, smoothing="floor"), inputs).split("|version")[0]
        'nrefs:2|case:lc|eff:no|tok:13a|smooth:floor[0.10]|reflen:closest'
    """
    smoothing, value = settings.smoothing, settings.smoothing_value
    if value is not None:
        smoothing += f"[{value:.2f}]" if value >= 0.01 else f"[{value:g}]"
    parts = {
        "nrefs": inputs.reference_count,
        "case": "lc" if settings.lowercase else "mixed",
        "eff": "yes" if settings.effective_order else "no",
        "tok": inputs.tokenization(settings),
        "smooth": smoothing,
        "reflen": settings.reference_length,
    }
    # The following appear only if they differ from the default.
    if settings.zero_rule != "no-match":
        parts["zero"] = settings.zero_rule
    if settings.min_possible_matches:
        parts["possible"] = f"{settings.min_possible_matches}+"
    if settings.unk_id is not None:
        parts["unk"] = "unmatched"
    if settings.max_order != 4:
        parts["order"] = str(settings.max_order)
    if settings.weights != (1 / settings.max_order,) * settings.max_order:
        parts["weights"] = ",".join(f"{weight:g}" for weight in settings.weights)
    # The tokenizers are sacreBLEU's.
    parts |= {"version": sacrebleu.__version__, "lightning_bleu": __version__}
    return "|".join(f"{name}:{value}" for name, value in parts.items())
