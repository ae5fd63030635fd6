"""The n-grams of characters and words. Random text, with a full cache and low limits: tests/fuzz/chrf.py."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lightning_bleu.chrf import CHRFSettings, character_ids, count_chrf_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.core.tokens import chrf_word_ids, split_chrf_words, tokenize
from tests.helpers.chrf import CHRF_PIECES, lines


def count(preds: list[str], target: Any, **options: Any) -> list[list[int]]:
    """The rows of all references."""
    settings = CHRFSettings.from_options(**options)
    rows: list[list[int]] = count_chrf_rows(read_batch(preds, target, settings), settings).tolist()
    return rows


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
