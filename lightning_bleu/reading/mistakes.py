"""Likely mistakes that are not errors: inputs that are valid, but probably not what the user meant.

Each check takes a few microseconds per batch, and must not fire in correct use. A mistake is a key and a message: the
message may quote what was found, but the key is always the same, so that each mistake can be reported once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np

from lightning_bleu.reading.forms import Form, Ids, Strings, Tokens
from lightning_bleu.reading.ragged import IntArray, are_tokens
from lightning_bleu.settings.settings import Settings

_SPECIAL_TOKENS = re.compile(
    r"</?s>|</w>|<(?i:pad|eos|bos|sos|start|end)>|<extra_id_\d+>|<(?:start|end)_of_turn>|<\|\w+\|>"
    r"|\[(?:PAD|SEP|CLS|BOS|EOS)\]|__[a-z]{2,3}__|\u2581|\u0120(?=\w)|\uffed|@@(?= |$)|(?<= )##(?=\w)"
)
"""Special tokens of common vocabularies, and the marks of subwords in SentencePiece, BPE, and WordPiece."""
_MARKS = ("<", "\u2581", "\u0120", "\uffed", "@@", "[", "__", "##")
"""What every special token contains."""
_MIN_SOURCE = 8
"""How many characters a source must have, so that no hypothesis contains it by chance."""
_MIN_GROWTH = 1.3
"""How much longer than its source a hypothesis with a prompt is. Restored punctuation adds less."""
_MIN_SOURCES = 4
"""How many sources there must be to conclude anything."""
_UNSPACED = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
"""The characters of Chinese and Japanese, which do not separate words with spaces."""
_SPACED = re.compile(f"{_UNSPACED} [^\x00-\x7f]|[^\x00-\x7f] {_UNSPACED}")
"""Such text that was split into words, unlike a Latin word between two spaces."""
_EXAMINED = 8
"""How many references of a batch are examined for their script."""

_MIN_BATCHES = 32
"""How many batches of logits must be as wide as their labels. With short sentences, generated ones are by chance."""

Mistake: TypeAlias = tuple[str, str]
"""The key of a mistake, and a message."""


def find_mistakes(
    hypotheses: Form, references: Form, segments: Form, counts: IntArray, settings: Settings
) -> Iterator[Mistake]:
    """Warn about inputs that are probably not what was meant.

    Args:
        hypotheses: the hypotheses, as they were passed.
        references: all references, sentence by sentence, as they were passed.
        segments: all hypotheses, then all references, as they are counted.
        counts: the number of references of each sentence.
        settings: how to read them.
    """
    if isinstance(hypotheses, Ids):
        of_logits = [*suspect_logits(hypotheses, references, settings)]
        yield from of_logits
        yield from suspect_start(hypotheses, settings)
        if isinstance(references, Ids):
            yield from suspect_start(references, settings, "references", "target")
            yield from suspect_inner_padding(references, settings)
            if not of_logits:
                yield from suspect_padding(hypotheses, references, settings)
    if isinstance(hypotheses, Tokens) and isinstance(references, Tokens):
        yield from suspect_sentences_as_tokens(hypotheses, references)
    if isinstance(segments, Strings) and len(counts):
        yield from suspect_tokens(segments.lines, counts)
        yield from suspect_special_tokens(segments.lines, counts)
    yield from suspect_script(segments, len(counts), settings)


def suspect_padding(hypotheses: Ids, references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn about a tensor of ids if no option says which ids are padding; such tensors are usually padded."""
    is_unset = (settings.decoder, settings.ignore_ids, settings.pad_id, settings.eos_id) == (None, (-100,), None, None)
    if is_unset and any(form.shape and form.shape[0] > 1 and form.shape[-1] > 0 for form in (hypotheses, references)):
        yield (
            "padding",
            "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set: every id counts as a token, even "
            "padding. Set them, for example CorpusBLEU(pad_id=tokenizer.pad_token_id, "
            "eos_id=tokenizer.eos_token_id). If there is no padding, or if it is -100 on both sides, set pad_id=-100.",
        )


def suspect_logits(hypotheses: Ids, references: Form, settings: Settings) -> Iterator[Mistake]:
    """Warn about logits that are NaN, that may have another layout, or whose labels are -100 at some positions.

    Example:
        >>> import torch
        >>> from lightning_bleu.reading.recognize import recognize
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
    width, vocabulary = hypotheses.shape[1], hypotheses.vocabulary
    if vocabulary == references.shape[-1] != width > references.ragged.ids.max(initial=-1) >= 0:
        yield (
            "layout",
            f"Logits of shape {(*hypotheses.shape, vocabulary)} beside labels of shape {references.shape} look like "
            "the layout of cross_entropy, (sentences, vocabulary, tokens). If that is what they have, pass "
            "preds.transpose(1, 2), else ids, preds.argmax(-1).",
        )
    if len(references.shape) != 2:
        return
    ignored = references.ragged.ids.reshape(references.shape) == -100
    if 2 * np.count_nonzero(ignored[:, :1]) > len(ignored):
        yield (
            "labels begin with -100",
            "The labels in 'target' begin with -100, which does not mask the logits in 'preds'. If these are logits of "
            "a causal language model, they are also one position ahead of the labels: pass preds=logits[:, :-1]"
            ".argmax(-1).masked_fill(labels[:, 1:] == -100, -100) and target=labels[:, 1:]. If they are aligned with "
            "the labels, pass preds=logits.argmax(-1).masked_fill(labels == -100, -100).",
        )
    elif settings.eos_id is None and ignored.any():
        yield (
            "labels contain -100",
            "The labels in 'target' are -100 at some positions, which does not mask the logits in 'preds': everything "
            "predicted there counts. Set eos_id, or pass preds=logits.argmax(-1).masked_fill(labels == -100, -100).",
        )


def widths_of(hypotheses: Form, references: Form) -> tuple[int, int] | None:
    """The width of a batch of logits and that of its labels; None unless both are in a tensor.

    Example:
        >>> import torch
        >>> from lightning_bleu.reading.recognize import recognize
        >>> widths_of(*recognize(torch.rand(1, 4, 9), torch.tensor([[5, 6, 7]]))[:2])
        (4, 3)
    """
    if not (isinstance(hypotheses, Ids) and isinstance(references, Ids) and hypotheses.vocabulary):
        return None
    return (hypotheses.shape[1], references.shape[-1]) if any(references.shape[:1]) else None


def suspect_teacher_forcing(widths: Counter[tuple[int, int]]) -> Iterator[Mistake]:
    """Warn about logits that are always as wide as their labels, in many batches of three widths or more.

    Args:
        widths: the numbers of batches by the widths of logits and labels.

    Example:
        >>> [key for key, message in suspect_teacher_forcing(Counter({(5, 5): 12, (8, 8): 12, (6, 6): 8}))]
        ['teacher forcing']
        >>> [*suspect_teacher_forcing(Counter({(5, 5): 20, (8, 7): 1, (6, 6): 20}))]
        []
    """
    if len(widths) >= 3 and widths.total() >= _MIN_BATCHES and all(own == labels for own, labels in widths):
        yield (
            "teacher forcing",
            "The logits in 'preds' are always as wide as the labels in 'target', as with teacher forcing: the model "
            "saw the right previous tokens, or at least the right length. Score what it generates.",
        )


def suspect_inner_padding(references: Ids, settings: Settings) -> Iterator[Mistake]:
    """Warn if a tenth of the references have padding between tokens, as in a tensor of shape ``(tokens, sentences)``.

    Example:
        >>> import torch
        >>> from lightning_bleu.reading.recognize import recognize
        >>> labels = torch.tensor([[5, 6, 7]] * 8 + [[5, 0, 7]])
        >>> next(suspect_inner_padding(recognize(labels, labels)[1], Settings.from_options(pad_id=0)))[1][:48]
        "In 1 of 9 references, 'target' has pad_id=0 betw"
    """
    pad, (ids, lengths) = settings.pad_id, references.ragged
    if not references.shape or pad in (None, -100) or len(lengths) < 8 or not len(ids):
        return
    is_pad, width = ids == pad, references.shape[-1]
    ends = is_pad[:-1] > is_pad[1:]  # of padding; as a rule, only the next reference follows it
    if 10 * (np.count_nonzero(ends) - np.count_nonzero(ends[width - 1 :: width])) < len(lengths):
        return
    is_token, pads = are_tokens(references.ragged, settings).reshape(-1, width), is_pad.reshape(-1, width).cumsum(1)
    found = np.where(is_token, pads, 0).max(1) > np.where(is_token, pads, len(ids)).min(1)
    if 10 * np.count_nonzero(found) >= len(found):
        yield (
            "padding between tokens",
            f"In {np.count_nonzero(found)} of {len(found)} references, 'target' has pad_id={pad} between tokens: if "
            "the tokens are first, pass preds.T and target.T, and if that is a token, set another pad_id.",
        )


def suspect_start(form: Ids, settings: Settings, side: str = "hypotheses", name: str = "preds") -> Iterator[Mistake]:
    """Warn about sentences that begin with the end-of-sentence id, and go on.

    Example:
        >>> from lightning_bleu.reading.recognize import recognize_hypotheses
        >>> hypotheses = recognize_hypotheses([[2, 0, 7, 8, 2], [2, 0, 9, 2]])
        >>> next(suspect_start(hypotheses, Settings.from_options(eos_id=2)))[1][:48]
        'Most hypotheses begin with eos_id=2 and go on. E'
    """
    eos, (ids, lengths) = settings.eos_id, form.ragged
    if eos is None or eos in (settings.bos_id, settings.pad_id) or form.vocabulary is not None:
        return
    starts = (lengths.cumsum() - lengths)[lengths > 2]
    starts_with_end = ids[starts] == eos
    if 2 * np.count_nonzero(starts_with_end) <= len(lengths):
        return
    second, last = ids[starts + 1], ids[starts + lengths[lengths > 2] - 1]
    # After the end of an empty sentence, there is only padding, whose id may be unknown.
    padding = [eos, eos if settings.pad_id is None else settings.pad_id, *settings.ignore_ids]
    goes_on = starts_with_end & ~np.isin(second, padding) & (second != last)
    if 2 * np.count_nonzero(goes_on) > len(lengths):
        yield (
            f"{side} begin with eos_id",
            f"Most {side} begin with eos_id={eos} and go on. Everything after it is removed, so they are empty. If the "
            f"model begins every output with {eos}, as generate() of BART and M2M100 does, pass {name}[:, 1:]"
            f"{f', or set bos_id={eos} as well' if settings.bos_id is None else ''}.",
        )


def suspect_sentences_as_tokens(hypotheses: Tokens, references: Tokens) -> Iterator[Mistake]:
    """Warn about lists of sentences, which are read as lists of tokens.

    Example:
        >>> sentences = Tokens([["a cat sat"], ["two dogs ran", "both dogs ran"]])
        >>> next(suspect_sentences_as_tokens(sentences, sentences))[1][:56]
        "'preds' is a list of lists of strings, which are read as"
    """

    def has_sentences(form: Tokens) -> bool:
        # Tokens may be words of several syllables, as in Vietnamese, or terms, but few of those have three words.
        found = [all(len(token.split()) > 2 for token in tokens) for tokens in form.lists if tokens]
        return 2 * sum(found) > len(found)

    if has_sentences(hypotheses):
        yield (
            "sentences as tokens",
            "'preds' is a list of lists of strings, which are read as tokens, but most of them contain spaces. If they "
            "are sentences, pass one string per hypothesis: ['a sentence', ...] instead of [['a sentence'], ...]. Of "
            "an n-best list, pass the best: [candidates[0] for candidates in preds].",
        )
    elif any(hypotheses.lists) and has_sentences(references):
        yield (
            "sentences as tokens",
            "'preds' has tokens, so each string in 'target' is read as a token, but most of them are sentences. "
            "Tokenize the references as well, or pass strings in 'preds'.",
        )


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
    # One-word answers come in any order, but words of a sentence in that of the hypothesis.
    words, remaining = [f" {' '.join(line.split())} " for line in hypotheses], iter(references)
    in_order = [
        any(f" {one} {other} " in line for one, other in pairwise([*islice(remaining, count)]))
        for line, count in zip(words, counts.tolist())
    ]
    if 2 * sum(in_order) > len(hypotheses):
        yield (
            "words as references",
            "Every reference in 'target' is a single word, while the hypotheses in 'preds' have several words: the "
            "references look tokenized. Pass each reference as one string, or tokenize the hypotheses as well.",
        )


def suspect_special_tokens(lines: Sequence[str], counts: IntArray) -> Iterator[Mistake]:
    """Warn about special tokens and marks of subwords in most hypotheses, unless they are part of the text.

    Example:
        >>> next(suspect_special_tokens(["a cat</s>", "no</s>", "a cat", "no"], np.array([1, 1])))[1][:30]
        "Most hypotheses contain '</s>'"
    """
    hypotheses = "\n".join(lines[: len(counts)])
    # Single characters are counted a hundred times as fast as longer strings are found.
    marks = [mark for mark in _MARKS if mark[0] in hypotheses and 2 * hypotheses.count(mark[0]) > len(counts)]
    marked = {number for mark in marks for number, line in enumerate(lines[: len(counts)]) if mark in line}
    if 2 * len(marked) <= len(counts):
        return
    numbers = Counter(token for number in marked for token in {*_SPECIAL_TOKENS.findall(lines[number])})
    references = "\n".join(lines[len(counts) :])
    for token in sorted(token for token, number in numbers.items() if 2 * number > len(counts)):
        stripped = [line.strip() for line in lines]
        at_ends = [line for line in stripped if token[0] in "<[" and (line.startswith(token) or line.endswith(token))]
        if numbers[token] == 1 and not at_ends:  # a single sentence may contain anything
            continue
        # If both sides contain tags that are all closed, as in <s>old</s>, the tags are part of the text.
        untagged = [line for line in at_ends if token[0] == "[" or line.count("<") != 2 * line.count("</")]
        if token not in references or 2 * len(untagged) > len(lines):
            yield (
                "special tokens",
                f"Most hypotheses contain {token!r}: special tokens were not removed, or subwords "
                "not joined, when the ids were decoded. Decode with skip_special_tokens=True, or pass ids and set "
                "decoder=tokenizer, which does both.",
            )
            return


def suspect_script(segments: Form, sentences: int, settings: Settings) -> Iterator[Mistake]:
    """Warn about Chinese or Japanese references, which have no spaces, if the tokenizer of BLEU splits at spaces.

    Args:
        segments: all hypotheses, then all references.
        sentences: the number of hypotheses.
        settings: those of a metric.

    Example:
        >>> from lightning_bleu.bleu import BLEUSettings
        >>> segments = Strings(["...", "\u5979\u6b63\u5728\u8bfb\u4e00\u672c\u4e66\u3002"])
        >>> next(suspect_script(segments, 1, BLEUSettings.from_options()))[1][:54]
        'The references are Chinese or Japanese, but tokenizer='
    """
    tokenizer = getattr(settings, "tokenizer", None)
    if tokenizer not in ("13a", "intl") or not isinstance(segments, Strings):
        return
    text = "\n".join(segments.lines[sentences : sentences + _EXAMINED])
    # These characters take three bytes, those of most other scripts one or two.
    if len(text.encode(errors="replace")) < 2 * len(text):
        return
    unspaced = len(re.findall(_UNSPACED, text))
    if 2 * unspaced > len(text) and 20 * len(_SPACED.findall(text)) < unspaced:
        yield (
            "script",
            f"The references are Chinese or Japanese, but tokenizer={tokenizer!r} splits at spaces, which they do not "
            "have: whole sentences are counted as words. Set tokenizer='zh' for Chinese, or 'ja-mecab' for Japanese.",
        )


def suspect_prompts(sentences: Iterable[tuple[str, Sequence[str], str]]) -> Iterator[Mistake]:
    """Warn about hypotheses that contain their source, unless references do: a prompt was not removed.

    Args:
        sentences: the hypothesis, the references, and the source of each sentence.

    Example:
        >>> sources = ["a cat sat", "two dogs", "a man reads", "a woman sings"]
        >>> next(suspect_prompts((f"{source} => ...", ["..."], source) for source in sources))[1][:40]
        'Most hypotheses contain their source, as'
    """
    long = [sentence for sentence in sentences if len(sentence[2]) >= _MIN_SOURCE]
    if len(long) < _MIN_SOURCES:
        return

    def contains(line: str, source: str) -> bool:
        return source in line and _MIN_GROWTH * len(source) < len(line.strip())

    in_hypotheses = sum(contains(hypothesis, source) for hypothesis, _, source in long)
    if 2 * in_hypotheses > len(long) >= 2 * sum(contains(first, source) for _, (first, *_), source in long):
        yield (
            "prompts",
            "Most hypotheses contain their source, as if the prompt of a decoder-only model was not removed. Pass the "
            "new tokens only: generated[:, prompts.shape[1]:].",
        )
