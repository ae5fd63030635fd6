"""Signatures: one line that names the options a score depends on, in sacreBLEU's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import sacrebleu

from lightning_bleu.counting.kept import KINDS, KeptSentences
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import kind_of
from lightning_bleu.reading.ragged import BoolArray
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
        """The kinds of the sentences that there are, without lists of nothing."""
        return [kind for kind in ("strings", "tokens", "ids") if getattr(self, kind)]


def join_signature(parts: Mapping[str, object]) -> str:
    """Join the parts of a signature, and add the versions.

    Example:
        >>> join_signature({"nrefs": 1, "case": "mixed"}).split("|version")[0]
        'nrefs:1|case:mixed'
    """
    # The tokenizers are sacreBLEU's.
    versions = {"version": sacrebleu.__version__, "lightning_bleu": __version__}
    return "|".join(f"{name}:{value}" for name, value in {**parts, **versions}.items())
