"""The n-grams of characters and words. Random text, with a full cache and low limits: tests/fuzz/chrf.py."""

from __future__ import annotations

import random
import string
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lightning_bleu.chrf import CHRFSettings, character_ids, count_chrf_rows
from lightning_bleu.core import ngrams
from lightning_bleu.core.batch import read_batch
from lightning_bleu.core.tokens import chrf_word_ids, split_chrf_words, tokenize
from tests.helpers.chrf import CHRF_PIECES, lines, peer_rows
from tests.helpers.text import fuzz_line


def count(preds: list[str], target: Any, **options: Any) -> list[list[int]]:
    """The rows of all references."""
    settings = CHRFSettings.from_options(**options)
    rows: list[list[int]] = count_chrf_rows(read_batch(preds, target, settings), settings).tolist()
    return rows


@pytest.mark.parametrize("whitespace", [False, True])
def test_every_order_of_a_batch_of_many_chunks_is_counted(whitespace: bool, rng: random.Random) -> None:
    preds = [fuzz_line(rng) * rng.choice([1, 1, 3]) for _ in range(1_500)]
    target = [[line[::-1], line[3:] + "x", fuzz_line(rng)][: rng.randint(1, 3)] for line in preds]
    assert len("".join([*preds, *chain(*target)])) > 4 * ngrams._MAX_TOKENS
    references = [[reference] for group in target for reference in group]
    repeated = [line for line, group in zip(preds, target) for _ in group]
    all_orders = peer_rows(repeated, references, char_order=7, word_order=3, whitespace=whitespace)
    for char_order, word_order in ((7, 3), (6, 2), (1, 0), (0, 1), (4, 3), (5, 0)):
        expected = [row[: 3 * char_order] + row[21 : 21 + 3 * word_order] for row in all_orders]
        assert count(preds, target, char_order=char_order, word_order=word_order, whitespace=whitespace) == expected


def test_an_order_that_the_reference_lacks_has_no_ngrams_of_the_hypothesis() -> None:
    """But one that the hypothesis lacks has those of the reference."""
    assert count(["abc", "a"], ["a", "abc"], char_order=2) == [[3, 1, 1, 0, 0, 0], [1, 3, 1, 0, 2, 0]]
    assert count([], [], char_order=2) == []


@given(st.lists(st.text(st.characters(), max_size=6) | st.sampled_from(CHRF_PIECES), max_size=8).map("".join))
@example("a\x1cb\x1fc\x85d\u3000e\u200bf\x00g")
@example("".join(map(chr, range(0x300))))
def test_characters_are_code_points_without_whitespace(line: str) -> None:
    for whitespace in (False, True):
        ids = character_ids(["x", line, ""], CHRFSettings(whitespace=whitespace)).to_lists()
        assert ids == [[ord("x")], [ord(c) for c in line if whitespace or not c.isspace()], []]


@given(lines(longest=8) | st.text(st.characters()))
@example("".join(f"{mark} a{mark} {mark}a {mark}a{mark} {mark}{mark} a{mark}a " for mark in string.punctuation))
@example("¿a? «a» a。 …")
def test_words_are_those_of_sacrebleu(line: str) -> None:
    assert split_chrf_words(line) == CHRF()._remove_punctuation(line)


def test_words_are_cached_apart_from_those_of_tokenizers() -> None:
    hypotheses, references = ["(a) it's b."], ["b. (a)"]
    for _ in range(2):
        assert tokenize(hypotheses, references, "13a").lengths.tolist() == [6, 5]
        assert tokenize(hypotheses, references, "none").lengths.tolist() == [3, 2]
        assert chrf_word_ids(hypotheses, references).lengths.tolist() == [5, 4]
