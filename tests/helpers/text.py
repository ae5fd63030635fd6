"""Text that is hard to tokenize, and how sacreBLEU tokenizes it."""

from __future__ import annotations

import functools
import random

from sacrebleu.metrics.bleu import BLEU as SacreBLEU

WORDWISE = ["13a", "intl", "zh", "char", "none"]
"""The tokenizers that look at one word at a time."""

PIECES = [
    *"abcxyzABC0123456789",
    *".,-'\"!?;:()[]{}<>&/\\@#$%^*_+=|~`",
    *" \t\x0b\x0c\x1c\x1f\x85\xa0\u2003\u2028\u3000",
    "\n",
    "-\n",
    "\n-",
    "\r\n",
    "<skipped>",
    "&quot;",
    "&amp;",
    "&lt;",
    "&gt;",
    "&amp;quot;",
    *"äößéžřСловоελαابجहिन्दी한국어日本語中文。，！？「」￥€£±×÷≠→♥😀👩\u200d",
    *"\u0301\u200b\ufeff\ue000\ue001\x00",
    *"٣४½²Ⅻ",
    "1,000.50",
    "3.",
    ".5",
    "e.g.",
    "don't",
    "U.S.",
    "word",
    "Wort",
    *[" "] * 40,
]


def fuzz_line(rng: random.Random) -> str:
    """A line of up to 25 words, numbers, entities, kinds of whitespace, and single characters."""
    return "".join(rng.choices(PIECES, k=rng.randint(0, 25)))


def sacrebleu_tokens(tokenizer: str, line: str) -> list[str]:
    """The tokens of a line."""
    return str(_peer(tokenizer)._preprocess_segment(line)).split()


@functools.cache
def _peer(tokenizer: str) -> SacreBLEU:
    return SacreBLEU(tokenize=tokenizer)


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder: 1 → "b"; the last letter, "j", also stands for -1."""
    return [" ".join("abcdefghij"[id_] for id_ in row) for row in rows]


class Speller:
    """The same as a tokenizer of Hugging Face, which is callable too, but encodes then."""

    def __call__(self, text: str) -> list[int]:
        raise AssertionError("called")

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool = False) -> list[str]:
        return [f"{line}{'' if skip_special_tokens else '</s>'}" for line in spell(sequences)]
