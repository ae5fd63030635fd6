"""The cache of how words and lines are tokenized."""

from __future__ import annotations

import copy
import functools
import gc
import random
import re
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.counting import token_cache
from lightning_bleu.counting.token_cache import TokenCache, clear_caches, number_tokens, tokenize
from lightning_bleu.reading.ragged import Ragged
from tests.helpers.counting import number_alike
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens


@pytest.fixture(autouse=True)
def no_caches(monkeypatch: pytest.MonkeyPatch) -> dict[Any, TokenCache]:
    """Caches of this test alone."""
    caches: dict[Any, TokenCache] = {}
    monkeypatch.setattr(token_cache, "_caches", caches)
    return caches


def has_tokens(ragged: Ragged, lines: list[list[str]]) -> bool:
    """Whether the ids stand for these tokens."""
    return ragged.lengths.tolist() == list(map(len, lines)) and number_alike(ragged.ids, list(chain(*lines)))


def cached_keys() -> int:
    return sum(map(len, token_cache._caches.values()))


# Every tokenizer, with a cache that fills up


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_fuzzed_lines_are_tokenized_as_in_sacrebleu(tokenizer: str, rng: random.Random) -> None:
    for _ in range(8):
        lines = [fuzz_line(rng) for _ in range(2_500)]
        assert has_tokens(tokenize(lines, tokenizer), [sacrebleu_tokens(tokenizer, line) for line in lines])


@given(st.sampled_from(WORDWISE), st.lists(st.text(), max_size=6))
def test_any_text_is_tokenized_as_in_sacrebleu(tokenizer: str, lines: list[str]) -> None:
    assert has_tokens(tokenize(lines, tokenizer), [sacrebleu_tokens(tokenizer, line) for line in lines])


@pytest.mark.parametrize(
    ("tokenizer", "text"),
    [("ja-mecab", "これはテストです。 新しい本を読んだ。"), ("ko-mecab", "한국어 문장을 나눕니다. 새 책을 읽었다.")],
)
def test_morphological_tokenizers_see_whole_lines(tokenizer: str, text: str) -> None:
    lines = [text, text[:5]]
    assert has_tokens(tokenize(lines, tokenizer), [sacrebleu_tokens(tokenizer, line) for line in lines])


@pytest.mark.parametrize("tokenizer", [str.split, str.lower, list, functools.partial(re.split, "(b)")])
def test_callables_see_whole_lines(tokenizer: Callable[[str], Any]) -> None:
    lines = ["a b  c", "", "A b"]
    tokens = [tokenizer(line).split() if isinstance(tokenizer(line), str) else tokenizer(line) for line in lines]
    for _ in range(2):
        assert has_tokens(tokenize(lines, tokenizer), tokens)


def test_tokens_are_numbered_in_the_order_of_their_first_appearance() -> None:
    numbers, vocabulary = number_tokens(["x", "y", "x"])
    assert (numbers.tolist(), vocabulary) == ([0, 1, 0], ["x", "y"])
    numbers, vocabulary = number_tokens([])
    assert (numbers.tolist(), vocabulary) == ([], [])


# What is tokenized, and when


class Recorder:
    """A tokenizer that splits at blanks, and remembers the lines it was given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> list[str]:
        self.lines.append(line)
        return line.split()

    split = __call__

    def spell(self, line: str) -> list[str]:
        return list(line)


def test_a_line_is_tokenized_once() -> None:
    tokenizer = Recorder()
    for _ in range(3):
        corpus_bleu(["a b", "a c"], ["a b", "a d"], tokenizer=tokenizer)
    assert sorted(tokenizer.lines) == ["a b", "a c", "a d"]


def test_a_tokenizer_that_fails_leaves_nothing_behind() -> None:
    def split(line: str) -> list[str]:
        if line == "bad":
            raise RuntimeError("bad line")
        return line.split()

    assert tokenize(["a b"], split).lengths.tolist() == [2]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="bad line"):
            tokenize(["good line", "bad"], split)
        assert has_tokens(tokenize(["good line", "a b"], split), [["good", "line"], ["a", "b"]])


# Whose cache it is


@dataclass(frozen=True)
class HashableSplit:
    """Tokenizers that are equal, whatever they split at."""

    separator: str = field(compare=False)

    def __call__(self, line: str) -> list[str]:
        return line.split(self.separator)


@dataclass
class UnhashableSplit:
    """The same without a hash."""

    separator: str = field(compare=False)

    def __call__(self, line: str) -> list[str]:
        return line.split(self.separator)


@pytest.mark.parametrize("kind", [HashableSplit, UnhashableSplit])
def test_equal_callables_have_caches_of_their_own(kind: Callable[[str], Callable[[str], list[str]]]) -> None:
    blanks, hyphens = kind(" "), kind("-")
    assert blanks == hyphens
    for _ in range(2):
        assert has_tokens(tokenize(["a-b c"], blanks), [["a-b", "c"]])
        assert has_tokens(tokenize(["a-b c"], hyphens), [["a", "b c"]])


def test_the_cache_of_a_callable_is_freed_with_it() -> None:
    tokenizer = UnhashableSplit(" ")
    alive = weakref.ref(tokenizer)
    tokenize(["a b"], tokenizer)
    assert cached_keys() == 1
    del tokenizer
    gc.collect()
    assert alive() is None
    assert token_cache._caches == {}


@pytest.mark.parametrize(
    "make", [lambda: HashableSplit("-"), lambda: lambda line: line.split("-")], ids=["object", "lambda"]
)
def test_the_cache_of_a_callable_is_freed_with_the_last_metric_that_uses_it(make: Callable[[], Any]) -> None:
    metrics = [CorpusBLEU(tokenizer=make())]
    metrics.append(copy.deepcopy(metrics[0]))
    for metric in metrics:
        metric.update(["a-b"], ["a-c"])
        metric(["a-b"], ["a-c"])
    metrics.pop()
    del metric
    gc.collect()
    assert cached_keys() == 2
    metrics.pop()
    gc.collect()
    assert token_cache._caches == {}


def test_a_new_callable_never_inherits_the_cache_of_an_old_one() -> None:
    """Though it may well have its address."""
    for number in range(200):
        width = 1 + number % 3
        tokenizer = functools.partial(lambda width, line: [line] * width, width)
        assert tokenize(["a b"], tokenizer).lengths.tolist() == [width]
        del tokenizer


def test_a_bound_method_has_one_cache_though_it_is_a_new_object_each_time() -> None:
    tokenizer = Recorder()
    assert tokenizer.split is not tokenizer.split
    for _ in range(3):
        corpus_bleu(["a b", "a c"], ["a b", "a d"], tokenizer=tokenizer.split)
    assert sorted(tokenizer.lines) == ["a b", "a c", "a d"]
    assert len(token_cache._caches) == 1


def test_methods_and_their_objects_have_caches_of_their_own() -> None:
    tokenizer, other = Recorder(), Recorder()
    for _ in range(2):
        assert has_tokens(tokenize(["a b"], tokenizer.split), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], tokenizer.spell), [["a", " ", "b"]])
        assert has_tokens(tokenize(["a b"], tokenizer), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], other.split), [["a", "b"]])
    assert tokenizer.lines == ["a b"] * 2
    assert other.lines == ["a b"]


def test_the_cache_of_a_bound_method_is_freed_with_its_object() -> None:
    tokenizer = Recorder()
    tokenize(["a b"], tokenizer.split)
    tokenize(["a b"], tokenizer.spell)
    assert cached_keys() == 2
    del tokenizer
    gc.collect()
    assert token_cache._caches == {}


def test_bound_methods_of_builtin_types_have_caches_of_their_own() -> None:
    """Python frees ``pattern.findall`` after each use, and the next method may get its address."""
    pattern = re.compile(r"\w+")
    for _ in range(50):
        assert has_tokens(tokenize(["a b"], pattern.findall), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], pattern.split), [["", " ", ""]])
    assert len(token_cache._caches) == 2


def test_functions_that_are_bound_to_a_longer_lived_object_have_caches_of_their_own() -> None:
    owner = Recorder()
    for number in range(200):
        width = 1 + number % 3
        method = types.MethodType(lambda self, line, width=width: [line] * width, owner)
        assert tokenize(["a b"], method).lengths.tolist() == [width]
        del method


class SlotSplit:
    """A callable to which no weak reference can be made."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, line: str) -> list[str]:
        self.calls += 1
        return line.split()


def test_callables_without_weak_references_work_without_a_cache() -> None:
    tokenizer = SlotSplit()
    with pytest.raises(TypeError, match="cannot create weak reference"):
        weakref.ref(tokenizer)
    for _ in range(2):
        assert has_tokens(tokenize(["a b", "a c", "a b"], tokenizer), [["a", "b"], ["a", "c"], ["a", "b"]])
    assert tokenizer.calls == 4  # each line once per call
    assert token_cache._caches == {}


# How much it may hold


def test_all_caches_together_are_bounded_by_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_MAX_KEYS", 100)
    split = Recorder()
    tokenizers: list[Any] = ["13a", "char", split]
    for first in range(0, 5_000, 50):
        tokenizer = tokenizers[first // 50 % 3]
        lines = [f"word{number}, other{number}." for number in range(first, first + 50)]
        ragged = tokenize(lines, tokenizer)
        tokens = [line.split() if tokenizer is split else sacrebleu_tokens(tokenizer, line) for line in lines]
        assert has_tokens(ragged, tokens)
        assert cached_keys() <= 100 + 2 * len(lines)  # what there was before, and two words per line
    assert len(token_cache._caches) == 3


def test_all_caches_together_are_bounded_by_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_MAX_CHARACTERS", 100)
    split = Recorder()
    tokenize(["x" * 60], "13a")
    tokenize(["y" * 60], split)
    assert cached_keys() == 2
    tokenize(["z"], "13a")
    assert cached_keys() == 1
    tokenize(["y"], split)
    assert split.lines == ["y" * 60, "y"]
    tokenize(["y" * 60], split)
    assert split.lines[2:] == ["y" * 60]


def test_caches_can_be_cleared() -> None:
    tokenizer = Recorder()
    tokenize(["a b"], tokenizer)
    tokenize(["a b"], "13a")
    clear_caches()
    assert cached_keys() == 0
    assert has_tokens(tokenize(["a b"], tokenizer), [["a", "b"]])
    assert tokenizer.lines == ["a b"] * 2


# Threads


def run_in_threads(work: Callable[[], None], count: int = 4) -> None:
    """Run the same work in several threads, and raise the first error of any."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("tokenizer", ["13a", "intl", Recorder()])
def test_threads_share_a_cache(tokenizer: Any) -> None:
    lines = [f"a{i}, b{i % 7}." for i in range(500)]
    named = isinstance(tokenizer, str)
    tokens = [sacrebleu_tokens(tokenizer, line) if named else line.split() for line in lines]
    results: list[bool] = []

    def work() -> None:
        results.extend(has_tokens(tokenize(lines, tokenizer), tokens) for _ in range(10))

    run_in_threads(work)
    assert results == [True] * 40
    assert len(token_cache._caches) == 1


def test_a_cache_is_not_cleared_while_another_thread_uses_it() -> None:
    def split(line: str) -> list[str]:
        run_in_threads(clear_caches, 1)  # which does not wait for this cache either
        return line.split()

    for lines in (["a b", "b c d"], ["b c d", "e"]):
        assert has_tokens(tokenize(lines, split), [line.split() for line in lines])
    assert cached_keys() == 3
    clear_caches()
    assert cached_keys() == 0


def test_caches_can_be_cleared_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread whose own lines make the caches too large."""
    monkeypatch.setattr(token_cache, "_MAX_KEYS", 50)
    lines = [f"a{i}, b{i % 7}." for i in range(100)]
    tokens = {name: [sacrebleu_tokens(name, line) for line in lines] for name in ("13a", "char")}
    results: list[bool] = []

    def work() -> None:
        for _ in range(20):
            results.extend(has_tokens(tokenize(lines, name), tokens[name]) for name in tokens)
            clear_caches()

    run_in_threads(work)
    assert results == [True] * 160


def test_tokens_that_cannot_be_hashed_are_an_error_that_says_what_a_tokenizer_must_return() -> None:
    def nest(line: str) -> Any:
        return [[word] for word in line.split()]

    with pytest.raises(TypeError, match="'tokenizer' must return a list of strings for a line"):
        tokenize(["a b"], nest)
    assert tokenize(["a b"], str.split).lengths.tolist() == [2]
