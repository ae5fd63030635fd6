"""Text → token ids: the tokens are those of sacreBLEU, and each word or line is tokenized once."""

from __future__ import annotations

import copy
import functools
import gc
import random
import re
import string
import sys
import threading
import tracemalloc
import types
from collections.abc import Callable, Iterable
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.core import tokens as words
from lightning_bleu.core.tokens import (
    TOKENIZERS,
    cache_size,
    clear_caches,
    load_tokenizer,
    split_chrf_words,
    tokenize,
    tokenize_units,
)
from tests.helpers.corpora import read_lines
from tests.helpers.counting import number_alike
from tests.helpers.text import PIECES, WORDWISE, sacrebleu_tokens


@pytest.fixture(autouse=True)
def _empty_caches() -> None:
    clear_caches()


def has_tokens(tokenizer: Any, lines: list[str], tokens: list[list[str]]) -> bool:
    """Whether the ids stand for these tokens, of hypotheses as of references."""
    ragged = tokenize(lines, lines[::-1], tokenizer)
    expected = tokens + tokens[::-1]
    return ragged.lengths.tolist() == [*map(len, expected)] and number_alike(ragged.ids, [*chain(*expected)])


def agrees_with_sacrebleu(tokenizer: str, lines: list[str]) -> bool:
    return has_tokens(tokenizer, lines, [sacrebleu_tokens(tokenizer, line) for line in lines])


# The tokens of every tokenizer, with a cache that fills up


@given(st.sampled_from(WORDWISE), st.lists(st.text(), max_size=6))
def test_any_text_is_tokenized_as_in_sacrebleu(tokenizer: str, lines: list[str]) -> None:
    assert agrees_with_sacrebleu(tokenizer, lines)


@pytest.mark.parametrize(
    ("tokenizer", "text"),
    [("ja-mecab", "これはテストです。 新しい本を読んだ。"), ("ko-mecab", "한국어 문장을 나눕니다. 새 책을 읽었다.")],
)
def test_morphological_tokenizers_see_whole_lines(tokenizer: str, text: str) -> None:
    assert agrees_with_sacrebleu(tokenizer, [text, text[:5], f"{text} "])


@pytest.mark.parametrize("tokenizer", [str.split, str.lower, list, functools.partial(re.split, "(b)")])
def test_callables_see_whole_lines(tokenizer: Callable[[str], Any]) -> None:
    lines = ["a b  c", "", "A b"]
    tokens = [tokenizer(line).split() if isinstance(tokenizer(line), str) else tokenizer(line) for line in lines]
    for _ in range(2):
        assert has_tokens(tokenizer, lines, tokens)


@pytest.mark.parametrize("tokenizer", sorted(words._KEEPS_ALPHANUMERIC))
def test_words_of_letters_and_digits_stay_as_they_are(tokenizer: str) -> None:
    alphanumeric = [f"{character}a1{character}" for character in map(chr, range(sys.maxunicode)) if character.isalnum()]
    split = load_tokenizer(tokenizer) if tokenizer in TOKENIZERS else split_chrf_words
    tokens = split(" ".join(alphanumeric))
    assert (tokens.split() if isinstance(tokens, str) else tokens) == alphanumeric


# Words that 13a keeps, or splits only at a mark at their end, are recognized without sacreBLEU


def differ_from_sacrebleu(words_: Iterable[str]) -> list[str]:
    """The words that 13a does not split as sacreBLEU does."""
    distinct = list(dict.fromkeys(words_))
    tokens = tokenize_units(distinct, load_tokenizer("13a"), "13a")
    return [word for word, ours in zip(distinct, tokens, strict=True) if ours != sacrebleu_tokens("13a", word)]


def read_words(*folders: Path) -> set[str]:
    """The words of all files of real text."""
    return {
        word for folder in folders for path in folder.iterdir() for line in read_lines(path) for word in line.split()
    }


@pytest.mark.long
def test_all_words_of_real_text_are_split_as_in_sacrebleu(wmt22: Path, multi30k: Path) -> None:
    real_words = read_words(wmt22, multi30k)
    assert len(real_words) > 90_000
    assert differ_from_sacrebleu(real_words) == []


def test_all_short_words_of_letters_digits_and_marks_are_split_as_in_sacrebleu() -> None:
    assert differ_from_sacrebleu(map("".join, product("a1٣.,-'&;<é", repeat=4))) == []
    assert differ_from_sacrebleu(map("".join, product(f"a1{string.punctuation}", repeat=2))) == []


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=8).map("".join).map(str.split))
def test_hostile_words_are_split_as_in_sacrebleu(hostile_words: list[str]) -> None:
    assert differ_from_sacrebleu(hostile_words) == []


def test_most_words_are_split_without_the_regular_expressions_of_sacrebleu(wmt22: Path) -> None:
    """Which take most of the time of new text."""
    german = read_lines(wmt22 / "generaltest2022.en-de.ref.A.de")
    text = " ".join(german).split()
    assert len(words._tokenize_simple_words(text, "13a")) > 0.95 * len({*text})


# What is tokenized, and when


class Recorder:
    """A tokenizer that splits at spaces and records the lines that it gets."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> list[str]:
        self.lines.append(line)
        return line.split()

    split = __call__

    def spell(self, line: str) -> list[str]:
        return list(line)


def test_a_line_is_tokenized_once_without_the_whitespace_at_its_end() -> None:
    recorder = Recorder()
    for _ in range(3):
        corpus_bleu(["a b", "\na c "], ["a b", "a d"], tokenizer=recorder)
    assert sorted(recorder.lines) == ["\na c", "a b", "a d"]


def test_a_metric_tokenizes_a_line_once_with_a_bound_method() -> None:
    """Which is a new object each time: the cache lives as long as the one that the metric has."""
    recorder = Recorder()
    assert recorder.split is not recorder.split
    metric, other = CorpusBLEU(tokenizer=recorder.split), CorpusBLEU(tokenizer=recorder.split)
    for _ in range(3):
        metric.update(["a b"], ["a d"])
        other.update(["a b"], ["a d"])
    assert sorted(recorder.lines) == ["a b", "a d"]
    del metric
    gc.collect()
    assert cache_size() == 0
    other.update(["a b"], ["a d"])
    assert sorted(recorder.lines) == ["a b", "a b", "a d", "a d"]


@pytest.mark.parametrize("tokenizer", [*WORDWISE, lambda line: line.split()])
def test_references_are_looked_up_by_line_and_hypotheses_by_word(tokenizer: Any) -> None:
    """A hypothesis of cached words is not cached itself, unless its tokenizer sees whole lines."""
    sizes = []
    for hypotheses, references in ((["a b b", "b a a"], []), (["b a a b"], []), ([], ["b a a b"]), ([], ["b a a b"])):
        tokenize(hypotheses, references, tokenizer)
        sizes.append(cache_size())
    by_line = callable(tokenizer)
    assert [before < after for before, after in pairwise(sizes)] == [by_line, not by_line, False]


def test_a_tokenizer_that_fails_leaves_nothing_behind() -> None:
    def split(line: str) -> list[str]:
        if line == "bad":
            raise RuntimeError("bad line")
        return line.split()

    assert has_tokens(split, ["a b"], [["a", "b"]])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="bad line"):
            tokenize(["good line"], ["bad"], split)
        assert has_tokens(split, ["good line", "a b"], [["good", "line"], ["a", "b"]])


@pytest.mark.parametrize(
    ("tokenizer", "found"),
    [
        (lambda line: None, ", got NoneType"),
        (lambda line: {"input_ids": [1]}, ", got dict"),  # as a tokenizer of Hugging Face does
        (lambda line: [[word] for word in line.split()], "other hashable tokens"),
    ],
)
def test_an_error_says_what_a_tokenizer_must_return(tokenizer: Any, found: str) -> None:
    with pytest.raises(TypeError, match=f"'tokenizer' must return a list of strings for a line.*{found}"):
        corpus_bleu(["a b"], ["a c"], tokenizer=tokenizer)


# The cache of a callable


def test_methods_and_their_objects_have_caches_of_their_own() -> None:
    tokenizer, other = Recorder(), Recorder()
    for _ in range(2):
        assert has_tokens(tokenizer.split, ["a b"], [["a", "b"]])
        assert has_tokens(tokenizer.spell, ["a b"], [["a", " ", "b"]])
        assert has_tokens(tokenizer, ["a b"], [["a", "b"]])
        assert has_tokens(other.split, ["a b"], [["a", "b"]])
    assert tokenizer.lines == ["a b"] * 3  # by two methods, which are gone after each call, and by itself


def test_a_new_callable_never_inherits_the_cache_of_an_old_one() -> None:
    """Even if it has the same address, or is bound to the same object."""
    owner = Recorder()
    for number in range(200):
        width = 1 + number % 3
        tokenizer = functools.partial(lambda width, line: [line] * width, width)
        assert tokenize(["a b"], [], tokenizer).lengths.tolist() == [width]
        method = types.MethodType(lambda self, line, width=width: [line] * width, owner)
        assert tokenize(["a b"], [], method).lengths.tolist() == [width]
        del tokenizer, method


def test_the_cache_of_a_callable_is_freed_with_the_last_metric_that_uses_it() -> None:
    metrics = [CorpusBLEU(tokenizer=lambda line: line.split("-"))]
    metrics.append(copy.deepcopy(metrics[0]))
    for metric in metrics:
        metric.update(["a-b"], ["a-c"])
        metric(["a-b"], ["a-c"])
    for expected in (True, False):
        metric = metrics.pop()
        del metric
        gc.collect()
        assert (cache_size() > 0) == expected


class SlotSplit:
    """A callable without weak references."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, line: str) -> list[str]:
        self.calls += 1
        return line.split()


class UnhashableSplit(SlotSplit):
    """A callable without a hash."""

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("make", [SlotSplit, UnhashableSplit])
def test_callables_that_cannot_be_keys_work_without_a_cache(make: type[SlotSplit]) -> None:
    tokenizer = make()
    for _ in range(2):
        assert has_tokens(tokenizer, ["a b", "a c", "a b"], [["a", "b"], ["a", "c"], ["a", "b"]])
    assert tokenizer.calls == 4  # each line once per call
    assert cache_size() == 0


# How much the caches may hold


@pytest.mark.parametrize(("repeats", "is_reference"), [(1, False), (50, True)], ids=["short lines", "long words"])
def test_all_caches_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch, *, is_reference: bool, repeats: int, rng: random.Random
) -> None:
    monkeypatch.setattr(words, "_MAX_BYTES", 2**19)
    split = Recorder().spell
    tokenizers: list[Any] = ["13a", "char", split]
    tracemalloc.start()
    try:
        for number in range(3_000):
            line = f"{'word' * repeats}{number} {'other' * repeats}{number}."
            hypotheses, references = ([], [line]) if is_reference else ([line], [])
            tokenize(hypotheses, references, rng.choice(tokenizers))
        assert 2**17 < tracemalloc.get_traced_memory()[1] < 1.5 * 2**19
    finally:
        tracemalloc.stop()


# Threads


@pytest.mark.parametrize("max_bytes", [2**28, 10_000], ids=["kept", "cleared"])
def test_threads_share_caches_that_may_be_cleared_at_any_time(monkeypatch: pytest.MonkeyPatch, max_bytes: int) -> None:
    monkeypatch.setattr(words, "_MAX_BYTES", max_bytes)
    lines = [f"a{i}, b{i % 7}." for i in range(300)]
    expected = {name: [sacrebleu_tokens(name, line) for line in lines] for name in ("13a", "intl")}
    split = Recorder().spell
    results: list[bool] = []

    def work() -> None:
        for _ in range(5):
            results.extend(has_tokens(name, lines, tokens) for name, tokens in expected.items())
            results.append(has_tokens(split, lines, [*map(list, lines)]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads interrupt each other
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert results == [True] * 60
