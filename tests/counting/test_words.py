"""Words and lines that are tokenized one by one have the tokens of whole lines."""

from __future__ import annotations

import random
import sys
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.counting import words
from lightning_bleu.counting.words import split_to_keys, tokenize_keys
from lightning_bleu.settings.tokenizers import load_tokenizer
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens


def tokenize_by_keys(lines: list[str], tokenizer: str) -> list[list[str]]:
    """The tokens of each line, put together from those of its keys."""
    rows = split_to_keys(lines, tokenizer)
    keys = list(dict.fromkeys(chain.from_iterable(rows)))
    tokens = dict(zip(keys, tokenize_keys(keys, load_tokenizer(tokenizer), tokenizer), strict=True))
    return [[str(token) for key in row for token in tokens[key]] for row in rows]


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_fuzzed_lines_have_the_tokens_of_sacrebleu(tokenizer: str, rng: random.Random) -> None:
    lines = [fuzz_line(rng) for _ in range(5_000)]
    assert tokenize_by_keys(lines, tokenizer) == [sacrebleu_tokens(tokenizer, line) for line in lines]


@given(st.sampled_from(WORDWISE), st.lists(st.text(), max_size=6))
def test_any_text_has_the_tokens_of_sacrebleu(tokenizer: str, lines: list[str]) -> None:
    assert tokenize_by_keys(lines, tokenizer) == [sacrebleu_tokens(tokenizer, line) for line in lines]


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_most_words_of_different_lines_share_a_key(tokenizer: str) -> None:
    """Or nothing would be gained by a cache."""
    rows = split_to_keys(["one two three four", "five two three six"], tokenizer)
    assert rows[0][1:3] == rows[1][1:3] == ["two", "three"]


@pytest.mark.parametrize("tokenizer", ["ja-mecab", "flores200", None])
def test_other_tokenizers_see_whole_lines(tokenizer: str | None) -> None:
    seen: list[str] = []

    def tokenize(line: str) -> list[str]:
        seen.append(line)
        return line.split()

    keys = list(chain.from_iterable(split_to_keys(["a b  c ", "", "\na"], tokenizer)))
    assert tokenize_keys(keys, tokenize, tokenizer) == [["a", "b", "c"], [], ["a"]]
    assert seen == ["a b  c", "", "\na"]  # without whitespace at the end, as in sacreBLEU


@pytest.mark.parametrize("tokenizer", sorted(words._KEEPS_ALPHANUMERIC))
def test_words_of_letters_and_digits_are_left_as_they_are(tokenizer: str) -> None:
    alphanumeric = [f"{character}a1{character}" for character in map(chr, range(sys.maxunicode)) if character.isalnum()]
    assert str(load_tokenizer(tokenizer)(" ".join(alphanumeric))).split() == alphanumeric
