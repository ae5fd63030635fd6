"""The n-grams of characters and words beside plain counters, and beside sacreBLEU."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lightning_bleu.chrf import CHRFSettings, character_ids, count_chrf_rows
from lightning_bleu.counting import ngrams, words
from lightning_bleu.counting.words import TokenCache, chrf_word_ids, clear_caches, split_chrf_words, tokenize
from lightning_bleu.reading.batch import read_batch
from tests.helpers.chrf import CHRF_PIECES, Groups, corpora, lines, orders, peer_rows
from tests.helpers.counting import number_alike
from tests.helpers.text import fuzz_line
from tests.reference import ngrams as count_ngrams

pytestmark = pytest.mark.filterwarnings("ignore:Every reference in 'target' is a single word")

LIMITS: list[Mapping[str, int]] = [{}, {"_KEY_BITS": 40}, {"_MAX_HYPOTHESIS_TOKENS": 5}, {"_MANY_ORDERS": 0}]
"""Limits of the kernel, so low that a small batch reaches them."""


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch) -> dict[Any, TokenCache]:
    """The caches of this test alone."""
    caches: dict[Any, TokenCache] = {}
    monkeypatch.setattr(words, "_caches", caches)
    return caches


def count(preds: list[str], target: Any, **options: Any) -> list[list[int]]:
    """The rows of all references."""
    settings = CHRFSettings.from_options(**options)
    rows: list[list[int]] = count_chrf_rows(read_batch(preds, target, settings), settings).tolist()
    return rows


def split_words(line: str) -> list[str]:
    """Words as chrF++ splits them, as a pattern: the last character, or else the first, if it is punctuation."""
    mark = f"[{re.escape(string.punctuation)}]"
    matches = [re.fullmatch(f"(.+)({mark})|({mark})(.+)|(.+)", word) for word in line.split()]
    return [part for match in matches if match for part in match.groups() if part is not None]


def slow_row(hypothesis: str, reference: str, options: Mapping[str, Any]) -> list[int]:
    """The statistics of a sentence and one reference, one n-gram at a time."""
    sides = [line.lower() if options.get("lowercase") else line for line in (hypothesis, reference)]
    characters = [[c for c in line if options.get("whitespace") or not c.isspace()] for line in sides]
    row = []
    for (one, other), order in (
        (characters, options["char_order"]),
        ([split_words(line) for line in sides], options["word_order"]),
    ):
        for n in range(1, order + 1):
            ours, theirs = count_ngrams(one, n), count_ngrams(other, n)
            row += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
    return row


def check_rows(sentences: list[tuple[str, list[str]]], options: dict[str, Any]) -> None:
    """Compare the rows of every reference with those of both."""
    preds, target = [hypothesis for hypothesis, _ in sentences], [references for _, references in sentences]
    pairs = [(hypothesis, reference) for hypothesis, references in sentences for reference in references]
    rows = count(preds, target, **options)
    assert rows == [slow_row(*pair, options) for pair in pairs]
    assert rows == [peer_rows([hypothesis], [[reference]], **options)[0] for hypothesis, reference in pairs]


@given(corpora, orders, st.booleans(), st.booleans(), st.sampled_from(LIMITS))
@example([("", [""])], (6, 2), False, True, {})
@example([("", ["a b", ""]), ("a b.", ["", " \u3000"])], (2, 2), True, False, {})
@example([("İ ΑΣ\ud83d", ["i̇ ας\ud83d\ude00", "😀 i"]), ("\ud83d\ude00", ["😀"])], (2, 2), False, True, {})
@example([("Straße", ["STRASSE", "straße"])], (2, 1), False, True, {})
@settings(max_examples=300)
def test_rows_are_those_of_counters_and_of_sacrebleu(
    sentences: list[tuple[str, list[str]]],
    orders: tuple[int, int],
    whitespace: bool,
    lowercase: bool,
    limits: Mapping[str, int],
) -> None:
    options = {"char_order": orders[0], "word_order": orders[1], "whitespace": whitespace, "lowercase": lowercase}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(ngrams, name, value)
        check_rows(sentences, options)


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


def test_a_batch_without_sentences_has_no_rows() -> None:
    assert count([], [], word_order=2) == []


def test_an_order_that_the_reference_lacks_has_no_ngrams_of_the_hypothesis() -> None:
    """But one that the hypothesis lacks has those of the reference."""
    assert count(["abc", "a"], ["a", "abc"], char_order=2) == [[3, 1, 1, 0, 0, 0], [1, 3, 1, 0, 2, 0]]


@given(st.lists(st.text(st.characters(), max_size=6) | st.sampled_from(CHRF_PIECES), max_size=8).map("".join))
@example("a\x1cb\x1fc\x85d\u3000e\u200bf\x00g")
@example("".join(map(chr, range(0x300))))
def test_characters_are_code_points_without_whitespace(line: str) -> None:
    for whitespace in (False, True):
        ids = character_ids(["x", line, ""], CHRFSettings(whitespace=whitespace)).rows()
        assert ids == [[ord("x")], [ord(c) for c in line if whitespace or not c.isspace()], []]


# Words


@given(lines(longest=8) | st.text(st.characters()))
def test_words_are_those_of_sacrebleu(line: str) -> None:
    assert split_chrf_words(line) == CHRF()._remove_punctuation(line) == split_words(line)


def test_one_punctuation_mark_is_split_off() -> None:
    for mark in string.punctuation:
        line = f"{mark} a{mark} {mark}a {mark}a{mark} {mark}{mark} a{mark}a"
        expected = [mark, "a", mark, mark, "a", f"{mark}a", mark, mark, mark, f"a{mark}a"]
        assert split_chrf_words(line) == expected
    assert split_chrf_words("¿a? «a» a。 …") == ["¿a", "?", "«a»", "a。", "…"]  # others stay


UPDATES = st.lists(st.tuples(st.lists(lines(longest=6), max_size=5), st.booleans()), min_size=1, max_size=5)


@given(UPDATES, st.sampled_from([None, 0, 2]))
def test_the_word_cache_gives_each_word_its_id(updates: list[tuple[list[str], bool]], max_units: int | None) -> None:
    """However full it is, and whenever it is cleared."""
    with pytest.MonkeyPatch.context() as patch:
        if max_units is not None:
            patch.setattr(words, "_MAX_UNITS", max_units)
        for batch, clears in updates:
            ragged, expected = chrf_word_ids(batch), [split_words(line) for line in batch]
            assert ragged.lengths.tolist() == [len(row) for row in expected]
            assert number_alike(ragged.ids, [*chain(*expected)])
            if clears:
                clear_caches()


def test_a_word_is_split_once_and_apart_from_the_words_of_tokenizers(caches: dict[Any, TokenCache]) -> None:
    batch = ["(a) it's b.", "b. (a)"]
    for _ in range(2):
        assert tokenize(batch, "13a").lengths.tolist() == [6, 5]
        assert tokenize(batch, "none").lengths.tolist() == [3, 2]
        assert chrf_word_ids(batch).lengths.tolist() == [5, 4]
        assert [len(cache) for cache in caches.values()] == [3, 3, 3]


def test_rows_do_not_depend_on_the_batches_before(rng: random.Random) -> None:
    options: Any = {"char_order": 2, "word_order": 2}
    batches: list[tuple[list[str], Groups]] = [
        ([fuzz_line(rng) for _ in range(20)], [[fuzz_line(rng)] for _ in range(20)]) for _ in range(3)
    ]
    alone = []
    for batch in batches:
        clear_caches()
        alone.append(count(*batch, **options))
    clear_caches()
    assert [count(*batch, **options) for batch in batches] == alone
