"""Text → token ids: the tokens are those of sacreBLEU, and each word or line is tokenized once."""

from __future__ import annotations

import copy
import functools
import gc
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.counting import words
from lightning_bleu.counting.words import (
    TokenCache,
    clear_caches,
    number_tokens,
    split_to_units,
    tokenize,
    tokenize_units,
)
from lightning_bleu.reading.ragged import Ragged
from lightning_bleu.settings.tokenizers import load_tokenizer
from tests.helpers.counting import number_alike
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch) -> dict[Any, TokenCache]:
    """The caches of this test alone."""
    caches: dict[Any, TokenCache] = {}
    monkeypatch.setattr(words, "_caches", caches)
    return caches


def has_tokens(ragged: Ragged, lines: list[list[str]]) -> bool:
    """Whether the ids stand for these tokens."""
    return ragged.lengths.tolist() == list(map(len, lines)) and number_alike(ragged.ids, list(chain(*lines)))


def cached_units() -> int:
    return sum(map(len, words._caches.values()))


# The tokens of every tokenizer, with a cache that fills up


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_fuzzed_lines_are_tokenized_as_in_sacrebleu(tokenizer: str, rng: random.Random) -> None:
    for _ in range(5):
        lines = [fuzz_line(rng) for _ in range(2_000)]
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


@pytest.mark.parametrize("tokenizer", ["ja-mecab", "flores200", None])
def test_other_tokenizers_see_lines_without_whitespace_at_the_end(tokenizer: str | None) -> None:
    seen: list[str] = []

    def split(line: str) -> list[str]:
        seen.append(line)
        return line.split()

    units = list(chain.from_iterable(split_to_units(["a b  c ", "", "\na"], tokenizer)))
    assert tokenize_units(units, split, tokenizer) == [["a", "b", "c"], [], ["a"]]
    assert seen == ["a b  c", "", "\na"]  # as in sacreBLEU


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_most_words_of_different_lines_share_a_unit(tokenizer: str) -> None:
    """Otherwise a cache would gain nothing."""
    rows = split_to_units(["one two three four", "five two three six"], tokenizer)
    assert rows[0][1:3] == rows[1][1:3] == ["two", "three"]


@pytest.mark.parametrize("tokenizer", sorted(words._KEEPS_ALPHANUMERIC))
def test_words_of_letters_and_digits_stay_as_they_are(tokenizer: str) -> None:
    alphanumeric = [f"{character}a1{character}" for character in map(chr, range(sys.maxunicode)) if character.isalnum()]
    assert str(load_tokenizer(tokenizer)(" ".join(alphanumeric))).split() == alphanumeric


def test_tokens_are_numbered_in_the_order_of_their_first_appearance() -> None:
    assert number_tokens(["x", "y", "x"]).tolist() == [0, 1, 0]
    assert number_tokens([]).tolist() == []


def test_tokens_that_cannot_be_hashed_are_an_error_that_says_what_a_tokenizer_must_return() -> None:
    def nest(line: str) -> Any:
        return [[word] for word in line.split()]

    with pytest.raises(TypeError, match="'tokenizer' must return a list of strings for a line"):
        tokenize(["a b"], nest)
    assert tokenize(["a b"], str.split).lengths.tolist() == [2]


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


@pytest.mark.parametrize("get", [lambda recorder: recorder, lambda recorder: recorder.split], ids=["object", "method"])
def test_a_line_is_tokenized_once(get: Callable[[Recorder], Any]) -> None:
    """Even by a bound method, which is a new object each time."""
    recorder = Recorder()
    assert recorder.split is not recorder.split
    for _ in range(3):
        corpus_bleu(["a b", "a c"], ["a b", "a d"], tokenizer=get(recorder))
    assert sorted(recorder.lines) == ["a b", "a c", "a d"]
    assert len(words._caches) == 1


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


def test_a_tokenizer_that_returns_nothing_is_an_error_that_says_what_it_must_return() -> None:
    def forget(line: str) -> Any:
        line.split()

    for line in ("a b", ""):
        with pytest.raises(TypeError, match="'tokenizer' must return a list of strings for a line, got NoneType"):
            corpus_bleu([line], ["a c"], tokenizer=forget)


def test_a_tokenizer_may_score_a_corpus_with_itself() -> None:
    scores: list[float] = []

    def split(line: str) -> list[str]:
        if len(line) > 1:
            scores.append(corpus_bleu([line[:1], "a"], ["a", "a"], tokenizer=split, max_order=1).bleu)
        return line.split()

    assert corpus_bleu(["a b", "a c"], ["a b", "a d"], tokenizer=split, max_order=1).bleu == 0.75
    assert scores == [1, 1, 1]
    assert has_tokens(tokenize(["a b", "b a"], split), [["a", "b"], ["b", "a"]])


# The cache of a callable


class EqualSplit:
    """Tokenizers that are equal, whatever they split at."""

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def __call__(self, line: str) -> list[str]:
        return line.split(self.separator)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualSplit)

    def __hash__(self) -> int:
        return 0


class UnhashableSplit(EqualSplit):
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [EqualSplit, UnhashableSplit])
def test_equal_callables_have_caches_of_their_own(kind: type[EqualSplit]) -> None:
    spaces, hyphens = kind(" "), kind("-")
    assert spaces == hyphens
    for _ in range(2):
        assert has_tokens(tokenize(["a-b c"], spaces), [["a-b", "c"]])
        assert has_tokens(tokenize(["a-b c"], hyphens), [["a", "b c"]])


def test_methods_and_their_objects_have_caches_of_their_own() -> None:
    tokenizer, other = Recorder(), Recorder()
    for _ in range(2):
        assert has_tokens(tokenize(["a b"], tokenizer.split), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], tokenizer.spell), [["a", " ", "b"]])
        assert has_tokens(tokenize(["a b"], tokenizer), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], other.split), [["a", "b"]])
    assert tokenizer.lines == ["a b"] * 2
    assert other.lines == ["a b"]


def test_bound_methods_of_builtin_types_have_caches_of_their_own() -> None:
    """Python frees ``pattern.findall`` after each use, and the next method may get its address."""
    pattern = re.compile(r"\w+")
    for _ in range(50):
        assert has_tokens(tokenize(["a b"], pattern.findall), [["a", "b"]])
        assert has_tokens(tokenize(["a b"], pattern.split), [["", " ", ""]])
    assert len(words._caches) == 2


def test_a_new_callable_never_inherits_the_cache_of_an_old_one() -> None:
    """Even if it has the same address, or is bound to the same object."""
    owner = Recorder()
    for number in range(200):
        width = 1 + number % 3
        tokenizer = functools.partial(lambda width, line: [line] * width, width)
        assert tokenize(["a b"], tokenizer).lengths.tolist() == [width]
        method = types.MethodType(lambda self, line, width=width: [line] * width, owner)
        assert tokenize(["a b"], method).lengths.tolist() == [width]
        del tokenizer, method


def test_the_caches_of_a_callable_and_its_methods_are_freed_with_it() -> None:
    tokenizer = Recorder()
    tokenize(["a b"], tokenizer)
    tokenize(["a b"], tokenizer.split)
    tokenize(["a b"], tokenizer.spell)
    assert cached_units() == 3
    del tokenizer
    assert words._caches == {}


def test_the_cache_of_a_callable_is_freed_with_the_last_metric_that_uses_it() -> None:
    metrics = [CorpusBLEU(tokenizer=lambda line: line.split("-"))]
    metrics.append(copy.deepcopy(metrics[0]))
    for metric in metrics:
        metric.update(["a-b"], ["a-c"])
        metric(["a-b"], ["a-c"])
    metrics.pop()
    del metric
    gc.collect()
    assert cached_units() == 2
    metrics.pop()
    gc.collect()
    assert words._caches == {}


class SlotSplit:
    """A callable that does not support weak references."""

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
    assert words._caches == {}


EXIT = """
from lightning_bleu import corpus_bleu

class Tokenizer:
    def split(self, line):
        return line.split()

tokenizer = Tokenizer()
print(corpus_bleu(["a b"], ["a b"], tokenizer=tokenizer.split).matches)
"""


@pytest.mark.slow
def test_a_method_of_an_object_that_lives_until_the_interpreter_exits_prints_nothing_then() -> None:
    """The object is freed when the globals of other modules may already be gone."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", EXIT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("(2, 1, 0, 0)\n", "")


# How much the caches may hold


def test_all_caches_together_are_bounded_by_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MAX_UNITS", 100)
    split = Recorder()
    tokenizers: list[Any] = ["13a", "char", split]
    for first in range(0, 5_000, 50):
        tokenizer = tokenizers[first // 50 % 3]
        lines = [f"word{number}, other{number}." for number in range(first, first + 50)]
        ragged = tokenize(lines, tokenizer)
        tokens = [line.split() if tokenizer is split else sacrebleu_tokens(tokenizer, line) for line in lines]
        assert has_tokens(ragged, tokens)
        assert cached_units() <= 100 + 2 * len(lines)  # those from before, and two words per line
    assert len(words._caches) == 3


def test_all_caches_together_are_bounded_by_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MAX_CHARACTERS", 100)
    split = Recorder()
    tokenize(["x" * 60], "13a")
    tokenize(["y" * 60], split)
    assert cached_units() == 2
    tokenize(["z"], "13a")
    assert cached_units() == 1
    tokenize(["y"], split)
    assert split.lines == ["y" * 60, "y"]
    tokenize(["y" * 60], split)
    assert split.lines[2:] == ["y" * 60]


def test_caches_can_be_cleared() -> None:
    tokenizer = Recorder()
    tokenize(["a b"], tokenizer)
    tokenize(["a b"], "13a")
    clear_caches()
    assert cached_units() == 0
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
    assert len(words._caches) == 1


def test_a_cache_is_not_cleared_while_another_thread_uses_it() -> None:
    def split(line: str) -> list[str]:
        run_in_threads(clear_caches, 1)  # which does not wait for this cache either
        return line.split()

    for lines in (["a b", "b c d"], ["b c d", "e"]):
        assert has_tokens(tokenize(lines, split), [line.split() for line in lines])
    assert cached_units() == 3
    clear_caches()
    assert cached_units() == 0


def test_caches_can_be_cleared_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread whose own lines make the caches too large."""
    monkeypatch.setattr(words, "_MAX_UNITS", 50)
    lines = [f"a{i}, b{i % 7}." for i in range(100)]
    tokens = {name: [sacrebleu_tokens(name, line) for line in lines] for name in ("13a", "char")}
    results: list[bool] = []

    def work() -> None:
        for _ in range(20):
            results.extend(has_tokens(tokenize(lines, name), tokens[name]) for name in tokens)
            clear_caches()

    run_in_threads(work)
    assert results == [True] * 160


def test_an_interrupted_call_leaves_the_cache_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the traceback of the interruption, which refers to the arrays of the cache, is kept."""

    def interrupt(*args: Any) -> Any:
        views = np.asarray(cache._ids), np.asarray(cache._starts)
        raise KeyboardInterrupt(views)

    tokenize(["a b"], "13a")
    cache = words._find_cache("13a")
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_look_up", interrupt)
        with pytest.raises(KeyboardInterrupt) as interruption:
            tokenize(["a c"], "13a")
    assert has_tokens(tokenize(["d e"], "13a"), [["d", "e"]])
    assert interruption.value.args


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_can_count_while_another_thread_did() -> None:
    """The fork copies the lock of a cache while the other thread holds it."""

    def split(line: str) -> list[str]:
        if line == "wait":
            started.set()
            forked.wait(10)
        return line.split()

    started, forked = threading.Event(), threading.Event()
    thread = threading.Thread(target=tokenize, args=(["wait"], split))
    thread.start()
    assert started.wait(10)
    child = os.fork()
    if not child:
        os._exit(not has_tokens(tokenize(["a b"], split), [["a", "b"]]))
    forked.set()
    thread.join()
    deadline = time.monotonic() + 10
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child waits for a lock that no thread holds")
        time.sleep(0.01)
    assert status == (child, 0)
