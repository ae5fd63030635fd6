"""Likely mistakes that are not errors: inputs that are valid, but are probably read in another way than they are meant.

Each check takes a few microseconds per batch, and must not fire in correct use. A mistake is a key and a message. The
message may quote the input, but the key is always the same, so that each mistake can be reported once. What only a
whole validation shows is a finding: :mod:`lightning_bleu.evaluation.texts.findings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np

from lightning_bleu.core.forms import Form, Ids, IntArray, Strings, Tokens
from lightning_bleu.core.settings import Settings

UNSPACED = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
"""The characters of Chinese and Japanese, which do not separate words with spaces."""
_SPACED = re.compile(f"{UNSPACED} [^\x00-\x7f]|[^\x00-\x7f] {UNSPACED}")
"""Such text that was split into words, unlike a Latin word between two spaces."""
_EXAMINED = 8
"""How many references of a batch are examined for their script."""

Mistake: TypeAlias = tuple[str, str]
"""The key of a mistake, and a message."""


def find_mistakes(
    hypotheses: Form, references: Form, segments: Form, counts: IntArray, settings: Settings
) -> Iterator[Mistake]:
    """Find inputs that are probably mistakes.

    Args:
        hypotheses: the hypotheses, as they were passed.
        references: all references, sentence by sentence, as they were passed.
        segments: all hypotheses, then all references, as they are counted.
        counts: the number of references of each sentence.
        settings: how to read them.
    """
    if isinstance(hypotheses, Ids):
        yield from suspect_nan(hypotheses)
    if isinstance(hypotheses, Ids) and isinstance(references, Ids):
        ignored_labels = list(suspect_ignored_labels(hypotheses, references, settings))
        yield from ignored_labels or suspect_padding(hypotheses, references, settings)
    if isinstance(hypotheses, Tokens) and isinstance(references, Tokens):
        yield from suspect_sentences_as_tokens(hypotheses)
    if isinstance(segments, Strings):
        lines = segments.lines
        yield from suspect_words_as_references(lines, counts)
        yield from suspect_script(lines[len(counts) :], settings)


def suspect_nan(hypotheses: Ids) -> Iterator[Mistake]:
    """Warn about logits that are NaN."""
    if hypotheses.are_nan:
        yield (
            "NaN",
            "The logits in 'preds' contain NaN, so the score may be meaningless. Look for the cause in the model, such "
            "as a learning rate that is too high, or an overflow in half precision.",
        )


def suspect_padding(hypotheses: Ids, references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn about a tensor of ids if no option says which ids are padding; such tensors are usually padded."""
    names_padding = settings.pad_id is not None or settings.eos_id is not None or settings.ignore_ids != (-100,)
    if names_padding or settings.decoder is not None:
        return
    shapes = [form.shape for form in (hypotheses, references) if form.shape]
    if any(shape[0] > 1 and shape[-1] > 0 for shape in shapes):  # a tensor with several rows
        yield (
            "padding",
            "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set: every id counts as a token, even "
            "padding. Set them, for example CorpusBLEU(pad_id=tokenizer.pad_token_id, "
            "eos_id=tokenizer.eos_token_id). If there is no padding, or if it is -100 on both sides, set pad_id=-100.",
        )


def suspect_ignored_labels(hypotheses: Ids, references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn about labels that are -100 at some positions, which does not mask the logits.

    Example:
        >>> import torch
        >>> from lightning_bleu.core.recognize import recognize
        >>> hypotheses, references, _ = recognize(torch.rand(1, 3, 9), torch.tensor([[-100, 7, 2]]))
        >>> next(suspect_ignored_labels(hypotheses, references, Settings.from_options()))[0]
        'labels contain -100'
    """
    if hypotheses.vocabulary is None or len(references.shape) != 2:
        return
    is_ignored = references.ragged.ids.reshape(references.shape) == -100
    begin_ignored = 2 * np.count_nonzero(is_ignored[:, :1]) > len(is_ignored)
    if begin_ignored or (settings.eos_id is None and is_ignored.any()):
        yield (
            "labels contain -100",
            "The labels in 'target' are -100 at some positions, which does not mask the logits in 'preds': everything "
            "predicted there counts. Pass preds=logits.argmax(-1).masked_fill(labels == -100, -100), for a causal "
            "language model with logits[:, :-1] and labels[:, 1:]. If only the ends are -100, you can also set eos_id.",
        )


def suspect_sentences_as_tokens(hypotheses: Tokens) -> Iterator[Mistake]:
    """Warn about lists of sentences, which are read as lists of tokens.

    Example:
        >>> next(suspect_sentences_as_tokens(Tokens([["a cat sat"], ["two dogs ran", "both dogs ran"]])))[1][:56]
        "'preds' is a list of lists of strings, which are read as"
    """
    segments = [tokens for tokens in hypotheses.lists if tokens]
    # Tokens may be words of several syllables, as in Vietnamese, or terms, but few of those have three words.
    sentence_lists = [tokens for tokens in segments if all(len(token.split()) > 2 for token in tokens)]
    if 2 * len(sentence_lists) > len(segments):
        yield (
            "sentences as tokens",
            "'preds' is a list of lists of strings, which are read as tokens, but most of them contain spaces. If they "
            "are sentences, pass one string per hypothesis: ['a sentence', ...] instead of [['a sentence'], ...]. Of "
            "an n-best list, pass the best: [candidates[0] for candidates in preds].",
        )


def suspect_words_as_references(lines: Sequence[str], counts: IntArray) -> Iterator[Mistake]:
    """Warn about a list of words, which is read as a list of one-word references.

    Args:
        lines: all hypotheses, then all references.
        counts: the number of references of each sentence.

    Example:
        >>> next(suspect_words_as_references(["the cat is here", "the", "cat", "sat"], np.array([3])))[1][:40]
        "Every reference in 'target' is a single "
    """
    hypotheses, references = lines[: len(counts)], lines[len(counts) :]
    if len(references) <= 2 * len(hypotheses):
        return
    # Most references contain a space, so this usually stops at the first one.
    if any(" " in line or not line for line in references):
        return
    # One-word answers come in any order, but the words of a sentence appear in the order of the hypothesis.
    remaining = iter(references)
    in_order = 0
    for hypothesis, count in zip(hypotheses, counts.tolist()):
        in_order += _has_bigram(hypothesis, [*islice(remaining, count)])
    if 2 * in_order > len(hypotheses):
        yield (
            "words as references",
            "Every reference in 'target' is a single word, while the hypotheses in 'preds' have several words: the "
            "references look tokenized. Pass each reference as one string, or tokenize the hypotheses as well.",
        )


def _has_bigram(line: str, words: Sequence[str]) -> bool:
    """Whether two successive words also follow each other in a line.

    Example:
        >>> _has_bigram("the cat is here", ["the", "cat", "sat"]), _has_bigram("the cat is here", ["cat", "the"])
        (True, False)
    """
    spaced = f" {' '.join(line.split())} "
    return any(f" {left} {right} " in spaced for left, right in pairwise(words))


def suspect_script(references: list[str], settings: Settings) -> Iterator[Mistake]:
    """Warn about Chinese or Japanese references, which have no spaces, if the tokenizer of BLEU splits at spaces.

    Example:
        >>> from lightning_bleu.bleu import BLEUSettings
        >>> references = ["\u5979\u6b63\u5728\u8bfb\u4e00\u672c\u4e66\u3002"]
        >>> next(suspect_script(references, BLEUSettings.from_options()))[1][:54]
        'The references are Chinese or Japanese, but tokenizer='
    """
    tokenizer = getattr(settings, "tokenizer", None)
    if tokenizer not in ("13a", "intl"):
        return
    text = "\n".join(references[:_EXAMINED])
    # These characters take three bytes. Characters of most other scripts take one or two.
    if len(text.encode(errors="replace")) < 2 * len(text):
        return
    unspaced = len(re.findall(UNSPACED, text))
    if 2 * unspaced > len(text) and 20 * len(_SPACED.findall(text)) < unspaced:
        yield (
            "script",
            f"The references are Chinese or Japanese, but tokenizer={tokenizer!r} splits at spaces, which they do not "
            "have: whole sentences are counted as words. Set tokenizer='zh' for Chinese, or 'ja-mecab' for Japanese.",
        )
