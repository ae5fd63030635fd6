"""Likely mistakes that are not errors, as warning messages."""

from __future__ import annotations

from collections.abc import Sequence

from lightning_bleu.reading.forms import Form, IdTensor
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.settings.special_ids import SpecialIds


def suspect_padding(hypotheses: Form, references: Form, special_ids: SpecialIds) -> tuple[str, ...]:
    """Warn about a tensor of ids if no option says which ids are padding; such tensors are usually padded."""
    if special_ids.pad_id is not None or special_ids.eos_id is not None or special_ids.ignore_ids != (-100,):
        return ()
    tensors = [form.ids for form in (hypotheses, references) if isinstance(form, IdTensor)]
    if not any(len(ids) > 1 and ids.shape[-1] > 0 for ids in tensors):
        return ()
    return (
        "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set: every id counts as a token, even padding. "
        "Set them, for example CorpusBLEU(pad_id=tokenizer.pad_token_id, eos_id=tokenizer.eos_token_id). If there is "
        "no padding, or if it is -100, set pad_id=-100.",
    )


def suspect_tokens(hypotheses: Sequence[str], references: Sequence[str], counts: IntArray) -> tuple[str, ...]:
    """Warn about references that look tokenized: a list of words is read as a list of one-word references.

    Example:
        >>> import numpy as np
        >>> suspect_tokens(["the cat is here"], ["the", "cat", "sat"], np.array([3]))[0][:40]
        "Every reference in 'target' is a single "
    """
    # Most references contain a space, so this usually stops at the first one.
    if any(" " in line or not line for line in references) or not len(counts) or counts.min() < 2:
        return ()
    # In scripts without spaces, references are as long as hypotheses, and there are fewer references than words.
    words = [len(line.split()) for line in hypotheses]
    are_short = 2 * len("".join(references)) * len(hypotheses) < len("".join(hypotheses)) * len(references)
    as_many_as_words = 2 * len(words) < len(references) and sum(words) <= 2 * len(references) <= 4 * sum(words)
    if min(words) < 2 or not are_short or not as_many_as_words:
        return ()
    return (
        "Every reference in 'target' is a single word, while the hypotheses in 'preds' have several words: the "
        "references look tokenized. Pass each reference as one string, or tokenize the hypotheses as well.",
    )
