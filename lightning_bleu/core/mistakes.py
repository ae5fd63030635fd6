"""Likely mistakes that are not errors: inputs that are valid, but probably not what the user meant.

Each check takes a few microseconds per batch, and must not fire in correct use. A mistake is a key and a message. The
message may quote the input, but the key is always the same, so that each mistake can be reported once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np

from lightning_bleu.core.forms import Form, Ids, IntArray, Strings, Tokens, are_tokens
from lightning_bleu.core.settings import Settings

_SPECIAL_TOKENS = re.compile(
    r"</?s>|</w>|<(?i:pad|eos|bos|sos|start|end)>|<extra_id_\d+>|<(?:start|end)_of_turn>|<\|\w+\|>"
    r"|\[(?:PAD|SEP|CLS|BOS|EOS)\]|__[a-z]{2,3}__|\u2581|\u0120(?=\w)|\uffed|@@(?= |$)|(?<= )##(?=\w)"
)
"""Special tokens of common vocabularies, and the marks of subwords in SentencePiece, BPE, and WordPiece."""
_MARKS = ("<", "\u2581", "\u0120", "\uffed", "@@", "[", "__", "##")
"""Every special token contains one of these."""
UNSPACED = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
"""The characters of Chinese and Japanese, which do not separate words with spaces."""
_SPACED = re.compile(f"{UNSPACED} [^\x00-\x7f]|[^\x00-\x7f] {UNSPACED}")
"""Such text that was split into words, unlike a Latin word between two spaces."""
_EXAMINED = 8
"""How many references of a batch are examined for their script."""

_MIN_BATCHES = 32
"""How many batches of logits must be as wide as their labels. Short generated sentences are by chance."""

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
        yield from suspect_ids(hypotheses, references, settings)
    if isinstance(hypotheses, Tokens) and isinstance(references, Tokens):
        yield from suspect_sentences_as_tokens(hypotheses, references)
    if isinstance(segments, Strings) and len(counts):
        yield from suspect_tokens(segments.lines, counts)
        yield from suspect_special_tokens(segments.lines, counts)
    yield from suspect_script(segments, len(counts), settings)


def suspect_ids(hypotheses: Ids, references: Form, settings: Settings) -> Iterator[Mistake]:
    """Warn about ids, logits, and labels."""
    logit_mistakes = list(suspect_logits(hypotheses, references, settings))
    yield from logit_mistakes
    yield from suspect_start(hypotheses, settings)
    if not isinstance(references, Ids):
        return
    yield from suspect_start(references, settings, "references", "target")
    yield from suspect_inner_padding(references, settings)
    if not logit_mistakes:
        yield from suspect_padding(hypotheses, references, settings)


def suspect_padding(hypotheses: Ids, references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn about a tensor of ids if no option says which ids are padding; such tensors are usually padded."""
    names_padding = settings.pad_id is not None or settings.eos_id is not None or settings.ignore_ids != (-100,)
    if names_padding or settings.decoder is not None:
        return
    if _may_be_padded(hypotheses) or _may_be_padded(references):
        yield (
            "padding",
            "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set: every id counts as a token, even "
            "padding. Set them, for example CorpusBLEU(pad_id=tokenizer.pad_token_id, "
            "eos_id=tokenizer.eos_token_id). If there is no padding, or if it is -100 on both sides, set pad_id=-100.",
        )


def _may_be_padded(form: Ids) -> bool:
    """Whether ids are in a tensor with several rows."""
    return len(form.shape) > 0 and form.shape[0] > 1 and form.shape[-1] > 0


def suspect_logits(hypotheses: Ids, references: Form, settings: Settings) -> Iterator[Mistake]:
    """Warn about logits that are NaN, that may have another layout, or whose labels are -100 at some positions.

    Example:
        >>> import torch
        >>> from lightning_bleu.core.recognize import recognize
        >>> hypotheses, references, _ = recognize(torch.rand(1, 3, 9), torch.tensor([[-100, 7, 2]]))
        >>> next(suspect_logits(hypotheses, references, Settings.from_options()))[0]
        'labels begin with -100'
    """
    if hypotheses.are_nan:
        yield (
            "NaN",
            "The logits in 'preds' contain NaN, so the score may be meaningless. Look for the cause in the model, such "
            "as a learning rate that is too high, or an overflow in half precision.",
        )
    if hypotheses.vocabulary is None or not isinstance(references, Ids) or not references.shape:
        return
    yield from _suspect_layout(hypotheses, references)
    if len(references.shape) == 2:
        yield from _suspect_ignored_labels(references, settings)


def _suspect_layout(hypotheses: Ids, references: Ids) -> Iterator[Mistake]:
    """Warn about logits whose vocabulary is as large as the labels are wide, if all labels are below their width."""
    width, vocabulary, label_width = hypotheses.shape[1], hypotheses.vocabulary, references.shape[-1]
    if vocabulary != label_width or width == label_width:
        return
    if 0 <= references.ragged.ids.max(initial=-1) < width:
        yield (
            "layout",
            f"Logits of shape {(*hypotheses.shape, vocabulary)} beside labels of shape {references.shape} look like "
            "the layout of cross_entropy, (sentences, vocabulary, tokens). If that is what they have, pass "
            "preds.transpose(1, 2), else ids, preds.argmax(-1).",
        )


def _suspect_ignored_labels(references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn about labels that are -100, which does not mask the logits."""
    is_ignored = references.ragged.ids.reshape(references.shape) == -100
    if 2 * np.count_nonzero(is_ignored[:, :1]) > len(is_ignored):
        yield (
            "labels begin with -100",
            "The labels in 'target' begin with -100, which does not mask the logits in 'preds'. If these are logits of "
            "a causal language model, they are also one position ahead of the labels: pass preds=logits[:, :-1]"
            ".argmax(-1).masked_fill(labels[:, 1:] == -100, -100) and target=labels[:, 1:]. If they are aligned with "
            "the labels, pass preds=logits.argmax(-1).masked_fill(labels == -100, -100).",
        )
    elif settings.eos_id is None and is_ignored.any():
        yield (
            "labels contain -100",
            "The labels in 'target' are -100 at some positions, which does not mask the logits in 'preds': everything "
            "predicted there counts. Set eos_id, or pass preds=logits.argmax(-1).masked_fill(labels == -100, -100).",
        )


def widths_of(hypotheses: Form, references: Form) -> tuple[int, int] | None:
    """The widths of a batch of logits and of its labels; None unless both are in a tensor.

    Example:
        >>> import torch
        >>> from lightning_bleu.core.recognize import recognize
        >>> widths_of(*recognize(torch.rand(1, 4, 9), torch.tensor([[5, 6, 7]]))[:2])
        (4, 3)
    """
    if not (isinstance(hypotheses, Ids) and isinstance(references, Ids) and hypotheses.vocabulary):
        return None
    if not references.shape or not references.shape[0]:
        return None
    return hypotheses.shape[1], references.shape[-1]


def suspect_teacher_forcing(widths: Counter[tuple[int, int]]) -> Iterator[Mistake]:
    """Warn about logits that are always as wide as their labels, in many batches of three widths or more.

    Args:
        widths: the numbers of batches by the widths of logits and labels.

    Example:
        >>> [key for key, message in suspect_teacher_forcing(Counter({(5, 5): 12, (8, 8): 12, (6, 6): 8}))]
        ['teacher-forcing']
        >>> list(suspect_teacher_forcing(Counter({(5, 5): 20, (8, 7): 1, (6, 6): 20})))
        []
    """
    if len(widths) < 3 or widths.total() < _MIN_BATCHES:
        return
    if all(logit_width == label_width for logit_width, label_width in widths):
        yield (
            "teacher-forcing",
            "The logits in 'preds' are always as wide as the labels in 'target', as with teacher forcing: the model "
            "saw the right previous tokens, or at least the right length. Score what it generates.",
        )


def suspect_inner_padding(references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn if a tenth of the references have padding between tokens, as in a tensor of shape ``(tokens, sentences)``.

    Example:
        >>> import torch
        >>> from lightning_bleu.core.recognize import recognize
        >>> labels = torch.tensor([[5, 6, 7]] * 8 + [[5, 0, 7]])
        >>> next(suspect_inner_padding(recognize(labels, labels)[1], Settings.from_options(pad_id=0)))[1][:48]
        "In 1 of 9 references, 'target' has pad_id=0 betw"
    """
    pad_id = settings.pad_id
    ids, lengths = references.ragged
    if not references.shape or pad_id in (None, -100) or len(lengths) < 8 or not len(ids):
        return
    width = references.shape[-1]
    is_pad = ids == pad_id
    ends_padding = is_pad[:-1] > is_pad[1:]
    ends_with_row = ends_padding[width - 1 :: width]  # as a rule, all of them: only the next reference follows padding
    ends_inside_rows = np.count_nonzero(ends_padding) - np.count_nonzero(ends_with_row)
    if 10 * ends_inside_rows < len(lengths):
        return
    is_token = are_tokens(references.ragged, settings).reshape(-1, width)
    pads_so_far = is_pad.reshape(-1, width).cumsum(1)
    pads_before_last_token = np.where(is_token, pads_so_far, 0).max(1)
    pads_before_first_token = np.where(is_token, pads_so_far, len(ids)).min(1)
    count = np.count_nonzero(pads_before_last_token > pads_before_first_token)
    if 10 * count >= len(lengths):
        yield (
            "padding between tokens",
            f"In {count} of {len(lengths)} references, 'target' has pad_id={pad_id} between tokens: if "
            "the tokens are first, pass preds.T and target.T, and if that is a token, set another pad_id.",
        )


def suspect_start(form: Ids, settings: Settings, side: str = "hypotheses", name: str = "preds") -> Iterator[Mistake]:
    """Warn about sentences that begin with the end-of-sentence id, and go on.

    Example:
        >>> from lightning_bleu.core.recognize import recognize_hypotheses
        >>> hypotheses = recognize_hypotheses([[2, 0, 7, 8, 2], [2, 0, 9, 2]])
        >>> next(suspect_start(hypotheses, Settings.from_options(eos_id=2)))[1][:48]
        'Most hypotheses begin with eos_id=2 and go on. E'
    """
    eos_id = settings.eos_id
    ids, lengths = form.ragged
    if eos_id is None or eos_id in (settings.bos_id, settings.pad_id) or form.vocabulary is not None:
        return
    is_long = lengths > 2
    starts = (lengths.cumsum() - lengths)[is_long]
    starts_with_end = ids[starts] == eos_id
    if 2 * np.count_nonzero(starts_with_end) <= len(lengths):  # as a rule
        return
    second_ids = ids[starts + 1]
    last_ids = ids[starts + lengths[is_long] - 1]
    padding = [eos_id, *settings.ignore_ids]
    if settings.pad_id is not None:
        padding.append(settings.pad_id)
    # Of an empty sentence, only padding follows, whose id may be unknown.
    is_empty = np.isin(second_ids, padding) | (second_ids == last_ids)
    goes_on = starts_with_end & ~is_empty
    if 2 * np.count_nonzero(goes_on) > len(lengths):
        advice = f"pass {name}[:, 1:]"
        if settings.bos_id is None:
            advice += f", or set bos_id={eos_id} as well"
        yield (
            f"{side} begin with eos_id",
            f"Most {side} begin with eos_id={eos_id} and go on. Everything after it is removed, so they are empty. If "
            f"the model begins every output with {eos_id}, as generate() of BART and M2M100 does, {advice}.",
        )


def suspect_sentences_as_tokens(hypotheses: Tokens, references: Tokens) -> Iterator[Mistake]:
    """Warn about lists of sentences, which are read as lists of tokens.

    Example:
        >>> sentences = Tokens([["a cat sat"], ["two dogs ran", "both dogs ran"]])
        >>> next(suspect_sentences_as_tokens(sentences, sentences))[1][:56]
        "'preds' is a list of lists of strings, which are read as"
    """
    if _has_sentences(hypotheses):
        yield (
            "sentences as tokens",
            "'preds' is a list of lists of strings, which are read as tokens, but most of them contain spaces. If they "
            "are sentences, pass one string per hypothesis: ['a sentence', ...] instead of [['a sentence'], ...]. Of "
            "an n-best list, pass the best: [candidates[0] for candidates in preds].",
        )
    elif any(hypotheses.lists) and _has_sentences(references):
        yield (
            "sentences as tokens",
            "'preds' has tokens, so each string in 'target' is read as a token, but most of them are sentences. "
            "Tokenize the references as well, or pass strings in 'preds'.",
        )


def _has_sentences(form: Tokens) -> bool:
    """Whether the tokens of most segments look like sentences."""
    segments = [tokens for tokens in form.lists if tokens]
    sentence_lists = 0
    for tokens in segments:
        # Tokens may be words of several syllables, as in Vietnamese, or terms, but few of those have three words.
        if all(len(token.split()) > 2 for token in tokens):
            sentence_lists += 1
    return 2 * sentence_lists > len(segments)


def suspect_tokens(lines: Sequence[str], counts: IntArray) -> Iterator[Mistake]:
    """Warn about references that look tokenized: a list of words is read as a list of one-word references.

    Args:
        lines: all hypotheses, then all references.
        counts: the number of references of each sentence.

    Example:
        >>> next(suspect_tokens(["the cat is here", "the", "cat", "sat"], np.array([3])))[1][:40]
        "Every reference in 'target' is a single "
    """
    hypotheses, references = lines[: len(counts)], lines[len(counts) :]
    # Most references contain a space, so this usually stops at the first one.
    if any(" " in line or not line for line in references) or len(references) <= 2 * len(hypotheses):
        return
    # One-word answers come in any order, but the words of a sentence appear in the order of the hypothesis.
    remaining = iter(references)
    in_order = 0
    for hypothesis, count in zip(hypotheses, counts.tolist()):
        words = list(islice(remaining, count))
        in_order += _has_bigram(hypothesis, words)
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


def suspect_special_tokens(lines: Sequence[str], counts: IntArray) -> Iterator[Mistake]:
    """Warn about special tokens and marks of subwords in most hypotheses, unless they are part of the text.

    Example:
        >>> next(suspect_special_tokens(["a cat</s>", "no</s>", "a cat", "no"], np.array([1, 1])))[1][:30]
        "Most hypotheses contain '</s>'"
    """
    hypotheses = lines[: len(counts)]
    marked_lines = _lines_with_marks(hypotheses)
    if 2 * len(marked_lines) <= len(hypotheses):
        return
    token_counts: Counter[str] = Counter()
    for line in marked_lines:
        token_counts.update(set(_SPECIAL_TOKENS.findall(line)))
    references = "\n".join(lines[len(counts) :])
    for token in sorted(token_counts):
        is_frequent = 2 * token_counts[token] > len(hypotheses)
        if is_frequent and not _is_text(token, token_counts[token], lines, references):
            yield (
                "special-tokens" if token[0] in "<[_" else "subwords",
                f"Most hypotheses contain {token!r}: special tokens were not removed, or subwords "
                "not joined, when the ids were decoded. Decode with skip_special_tokens=True, or pass ids and set "
                "decoder=tokenizer, which does both.",
            )
            return


def _lines_with_marks(lines: Sequence[str]) -> list[str]:
    """The lines that may contain special tokens, if these are frequent."""
    text = "\n".join(lines)
    # Single characters are counted a hundred times as fast as longer strings are found.
    marks = [mark for mark in _MARKS if mark[0] in text and 2 * text.count(mark[0]) > len(lines)]
    numbers: set[int] = set()
    for mark in marks:
        numbers.update(number for number, line in enumerate(lines) if mark in line)
    return [lines[number] for number in numbers]


def _is_text(token: str, count: int, lines: Sequence[str], references: str) -> bool:
    """Whether a special token is part of the text.

    Args:
        token: the token.
        count: the number of hypotheses that contain it.
        lines: all hypotheses, then all references.
        references: all references, joined.
    """
    bounded_lines = _lines_bounded_by(token, lines)
    if count == 1 and not bounded_lines:  # a single sentence may contain anything
        return True
    if token not in references:
        return False
    # If both sides contain tags that are all closed, as in <s>old</s>, the tags are part of the text.
    if token[0] != "[":
        bounded_lines = [line for line in bounded_lines if _has_open_tag(line)]
    return 2 * len(bounded_lines) <= len(lines)


def _lines_bounded_by(token: str, lines: Sequence[str]) -> list[str]:
    """The lines that begin or end with a token in brackets."""
    if token[0] not in "<[":
        return []
    stripped_lines = [line.strip() for line in lines]
    return [line for line in stripped_lines if line.startswith(token) or line.endswith(token)]


def _has_open_tag(line: str) -> bool:
    """Whether a tag of a line is not closed.

    Example:
        >>> _has_open_tag("<s>old</s>"), _has_open_tag("<s>old")
        (False, True)
    """
    return line.count("<") != 2 * line.count("</")


def suspect_script(segments: Form, hypothesis_count: int, settings: Settings) -> Iterator[Mistake]:
    """Warn about Chinese or Japanese references, which have no spaces, if the tokenizer of BLEU splits at spaces.

    Args:
        segments: all hypotheses, then all references.
        hypothesis_count: the number of hypotheses.
        settings: the settings of a metric.

    Example:
        >>> from lightning_bleu.bleu import BLEUSettings
        >>> segments = Strings(["...", "\u5979\u6b63\u5728\u8bfb\u4e00\u672c\u4e66\u3002"])
        >>> next(suspect_script(segments, 1, BLEUSettings.from_options()))[1][:54]
        'The references are Chinese or Japanese, but tokenizer='
    """
    tokenizer = getattr(settings, "tokenizer", None)
    if tokenizer not in ("13a", "intl") or not isinstance(segments, Strings):
        return
    text = "\n".join(segments.lines[hypothesis_count : hypothesis_count + _EXAMINED])
    # These characters take three bytes. Characters of most other scripts take one or two.
    if len(text.encode(errors="replace")) < 2 * len(text):
        return
    unspaced = len(re.findall(UNSPACED, text))
    is_unspaced_script = 2 * unspaced > len(text)
    if is_unspaced_script and 20 * len(_SPACED.findall(text)) < unspaced:
        yield (
            "script",
            f"The references are Chinese or Japanese, but tokenizer={tokenizer!r} splits at spaces, which they do not "
            "have: whole sentences are counted as words. Set tokenizer='zh' for Chinese, or 'ja-mecab' for Japanese.",
        )
