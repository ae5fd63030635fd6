"""Likely mistakes that are not errors, in the words of a warning."""

from __future__ import annotations

from collections.abc import Sequence

from lightning_bleu.counting.forms import Form, IdTensor
from lightning_bleu.counting.ragged import IntArray
from lightning_bleu.counting.special_ids import SpecialIds


def suspect_padding(hypotheses: Form, references: Form, special_ids: SpecialIds) -> tuple[str, ...]:
    """Tensors of ids are mostly padded, so something must say what the padding is."""
    defaults = SpecialIds()
    if any(getattr(special_ids, name) != getattr(defaults, name) for name in ("pad_id", "eos_id", "ignore_ids")):
        return ()
    if not any(isinstance(form, IdTensor) and len(form.ids) > 1 for form in (hypotheses, references)):
        return ()
    return (
        "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set: every id counts as a token, padding too. "
        "Set them, for example CorpusBLEU(pad_id=tokenizer.pad_token_id, eos_id=tokenizer.eos_token_id). If the tensor "
        "holds no padding, set pad_id=-1.",
    )


def suspect_tokens(hypotheses: Sequence[str], references: Sequence[str], counts: IntArray) -> tuple[str, ...]:
    """A list of words in place of a line is read as a list of references.

    Example:
        >>> import numpy as np
        >>> suspect_tokens(["the cat sat"], ["the", "cat"], np.array([2]))[0][:40]
        "Every reference in 'target' is a single "
    """
    # Most references have a blank, so this ends at the first one.
    if any(" " in line or not line for line in references) or not len(counts) or counts.min() < 2:
        return ()
    # In scripts without blanks, references are about as long as hypotheses.
    words_are_short = 2 * len("".join(references)) * len(hypotheses) < len("".join(hypotheses)) * len(references)
    if not words_are_short or not all(" " in line.strip() for line in hypotheses):
        return ()
    return (
        "Every reference in 'target' is a single word, while the hypotheses in 'preds' have several words: the "
        "references look tokenized. Pass each reference as one string, or tokenize the hypotheses, too.",
    )
