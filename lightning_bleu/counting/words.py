"""Text → token ids, with a cache of tokenized words and lines.

During training the references never change, and hypotheses mostly repeat the same words, so only the first epoch pays
for tokenization. What is cached is a *unit*: a part of a line whose tokens do not depend on the rest of the line.

- sacreBLEU's 13a, intl, zh, char, and none treat each word by itself, so a unit is a word. For intl and zh it matters
  whether a word begins or ends its line, so the units of such words are marked.
- Other tokenizers (MeCab, SentencePiece, callables) need the whole line, so a unit is a line.
"""

from __future__ import annotations

import os
import string
import threading
import weakref
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
from types import BuiltinMethodType, MethodType
from typing import Any

import numpy as np

from lightning_bleu.reading.ragged import IntArray, Ragged, ranges, row_lengths
from lightning_bleu.settings.tokenizers import TokenizeFunction, Tokenizer, load_tokenizer

_CHRF_WORDS = "words of chrF"
"""The name of the cache of :func:`split_chrf_words`."""
_SPLITS_WORDS = {"13a", "char", "none", _CHRF_WORDS}
"""Tokenizers that split a word the same way everywhere in a line."""
_SPLITS_WORDS_BY_PLACE = {"intl", "zh"}
"""Tokenizers for which it matters whether a word has a left and a right neighbor."""
_KEEPS_ALPHANUMERIC = {"13a", "none"}
"""Tokenizers that never split a word of letters and digits."""

_NEIGHBOR = "\ue000"
"""A private-use character, which all tokenizers that treat words by themselves keep as a separate token."""
_EDGE = "\n"
"""Marks a word that begins or ends its line. A word cannot contain it, because words have no whitespace."""
_LINE = "\n\n"
"""Marks a unit that is a whole line."""

_MAX_UNITS = 2**20
"""The maximum number of units in all caches together."""
_MAX_CHARACTERS = 2**26
"""The maximum number of characters in all caches together."""


def tokenize(lines: Sequence[str], tokenizer: Tokenizer) -> Ragged:
    """Tokenize lines and replace the tokens with ids.

    Example:
        >>> tokenize(["Hello, world!", "Hello!"], "13a").lengths.tolist()
        [4, 2]
    """
    cache = _find_cache(tokenizer)
    _make_room()
    return cache.encode(lines, load_tokenizer(tokenizer))


def chrf_word_ids(lines: Sequence[str]) -> Ragged:
    """Split lines into words as chrF++ does, and replace the words with ids."""
    cache = _find_cache(_CHRF_WORDS)
    _make_room()
    return cache.encode(lines, split_chrf_words)


def split_chrf_words(line: str) -> list[str]:
    """Split a line at whitespace, and one punctuation mark off each word: off its end, or else off its beginning.

    Example:
        >>> split_chrf_words('("So?") he said...')
        ['("So?"', ')', 'he', 'said..', '.']
    """
    words: list[str] = []
    for word in line.split():
        if len(word) > 1 and word[-1] in string.punctuation:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in string.punctuation:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words


def number_tokens(tokens: Iterable[Hashable]) -> IntArray:
    """Number tokens in the order of their first appearance.

    Example:
        >>> number_tokens(["a", "b", "a"]).tolist()
        [0, 1, 0]
    """
    return np.fromiter(map(_numbers().__getitem__, tokens), np.int64)


def _numbers() -> defaultdict[Hashable, int]:
    """A dictionary that gives each new key the next number."""
    return defaultdict(count().__next__)


# Lines → units → tokens


def split_to_units(lines: Sequence[str], tokenizer: str | None) -> list[list[str]]:
    """Split lines into units.

    Args:
        lines: text.
        tokenizer: the name of the tokenizer, or None for a callable.

    Example:
        >>> split_to_units(["a b c"], "13a"), split_to_units(["a b c"], "zh"), split_to_units(["a b c"], None)
        ([['a', 'b', 'c']], [['\\na', 'b', 'c\\n']], [['\\n\\na b c']])
    """
    if tokenizer in _SPLITS_WORDS:
        rows = list(map(str.split, lines))
        if "\n" in "".join(lines):  # 13a joins and splits lines there
            rows = [[_LINE + line] if "\n" in line else row for line, row in zip(lines, rows)]
        return rows
    if tokenizer in _SPLITS_WORDS_BY_PLACE:
        return [_mark_edges(line) for line in lines]
    return [[_LINE + line] for line in lines]


def _mark_edges(line: str) -> list[str]:
    words = line.split()
    if words:
        # intl distinguishes leading whitespace from the start of the line.
        if "\n" in line or line[0].isspace():
            return [_LINE + line]
        words[0] = _EDGE + words[0]
        words[-1] += _EDGE
    return words


def tokenize_units(units: Sequence[str], tokenize: TokenizeFunction, tokenizer: str | None) -> list[Sequence[Hashable]]:
    """Tokenize units.

    Args:
        units: distinct units from :func:`split_to_units`.
        tokenize: the tokenizer.
        tokenizer: its name, or None for a callable.

    Example:
        >>> tokenize_units(["it's", "1,000.50,"], load_tokenizer("13a"), "13a")
        [["it's"], ['1,000.50', ',']]
    """
    known: dict[str, Sequence[Hashable]] = {}
    if tokenizer in _KEEPS_ALPHANUMERIC:
        known = {unit: [unit] for unit in units if unit.isalnum()}
    inner_words = [unit for unit in units if unit not in known and _EDGE not in unit and _NEIGHBOR not in unit]
    if inner_words:
        known |= zip(inner_words, _tokenize_inner_words(inner_words, tokenize), strict=True)
    return [known[unit] if unit in known else _tokenize_unit(unit, tokenize) for unit in units]


def _tokenize_inner_words(words: list[str], tokenize: TokenizeFunction) -> list[list[Hashable]]:
    """Tokenize words from the inside of a line, in a single call."""
    tokenized: list[list[Hashable]] = []
    for token in _split(tokenize(f" {_NEIGHBOR} ".join(["", *words, ""]))):
        if token == _NEIGHBOR:
            tokenized.append([])
        else:
            tokenized[-1].append(token)
    return tokenized[:-1]


def _tokenize_unit(unit: str, tokenize: TokenizeFunction) -> Sequence[Hashable]:
    """Tokenize a line, or a word with a stand-in for each neighbor."""
    if unit.startswith(_LINE):
        return _split(tokenize(unit[len(_LINE) :].rstrip()))
    left = [] if unit.startswith(_EDGE) else [_NEIGHBOR]
    right = [] if unit.endswith(_EDGE) else [_NEIGHBOR]
    tokens = _split(tokenize(" ".join([*left, unit.strip(_EDGE), *right])))
    return tokens[len(left) : len(tokens) - len(right)]


def _split(tokenized: str | Sequence[Hashable]) -> Sequence[Hashable]:
    if not isinstance(tokenized, Iterable) or isinstance(tokenized, Mapping):
        raise TypeError(f"'tokenizer' must return a list of strings for a line, got {type(tokenized).__name__}")
    return tokenized.split() if isinstance(tokenized, str) else list(tokenized)


# The cache of a tokenizer


class TokenCache:
    """Caches the token ids of units for one tokenizer.

    Args:
        name: the name of the tokenizer, or None for a callable.

    Attributes:
        characters: the number of characters of cached text.
        owners: weak references to a callable and what it belongs to. The cache is freed when one of them is.
    """

    def __init__(self, name: str | None = None) -> None:
        self.owners: list[weakref.ref[Any]] = []
        self._name = name
        self._lock = threading.Lock()
        self._thread: int | None = None  # which has the lock
        self._clear()

    def __len__(self) -> int:
        return len(self._unit_numbers)

    def clear(self) -> None:
        """Clear the cache, unless another thread is using it."""
        if self._lock.acquire(blocking=False):
            try:
                self._clear()
            finally:
                self._lock.release()

    def _clear(self) -> None:
        self.characters = 0
        self._unit_numbers = _UnitNumbers()
        self._token_numbers = _numbers()
        # The token ids of unit u are ids[starts[u] : starts[u + 1]].
        self._ids, self._starts = array("q"), array("q", [0])

    def encode(self, lines: Sequence[str], tokenize: TokenizeFunction) -> Ragged:
        """Tokenize lines; see :func:`tokenize`."""
        if self._thread == threading.get_ident():  # a tokenizer that uses itself
            return TokenCache(self._name).encode(lines, tokenize)
        with self._lock:
            self._thread = threading.get_ident()
            try:
                rows = split_to_units(lines, self._name)
                units_per_line = row_lengths(rows)
                units = chain.from_iterable(rows)
                numbers = np.fromiter(map(self._unit_numbers.__getitem__, units), np.int64, units_per_line.sum())
                self._tokenize_new_units(tokenize)
                return self._look_up(numbers, units_per_line)
            except BaseException:
                self._clear()  # some units may have no tokens yet, or the arrays may have views
                raise
            finally:
                self._thread = None

    def _look_up(self, units: IntArray, units_per_line: IntArray) -> Ragged:
        ids, starts = np.asarray(self._ids), np.asarray(self._starts)  # views, so the lock must be held
        first = starts[units]
        lengths = starts[units + 1] - first
        ends = np.concatenate([[0], lengths.cumsum()])
        line_ends = ends[np.concatenate([[0], units_per_line.cumsum()])]
        return Ragged(ids[ranges(first, lengths)], line_ends[1:] - line_ends[:-1])

    def _tokenize_new_units(self, tokenize: TokenizeFunction) -> None:
        new, self._unit_numbers.new = self._unit_numbers.new, []
        if not new:
            return
        self.characters += sum(map(len, new))
        tokens = tokenize_units(new, tokenize, self._name)
        lengths = row_lengths(tokens)
        try:
            ids = np.fromiter(
                map(self._token_numbers.__getitem__, chain.from_iterable(tokens)), np.int64, lengths.sum()
            )
        except TypeError:
            raise TypeError(
                "'tokenizer' must return a list of strings for a line, or a list of other hashable tokens"
            ) from None
        self._starts.frombytes((self._starts[-1] + lengths.cumsum()).tobytes())
        self._ids.frombytes(ids.tobytes())


class _UnitNumbers(dict[str, int]):
    """Numbers units in the order of their first appearance, and collects the new ones."""

    def __init__(self) -> None:
        self.new: list[str] = []

    def __missing__(self, unit: str) -> int:
        self.new.append(unit)
        self[unit] = number = len(self)
        return number


# All caches


_caches: dict[Hashable, TokenCache] = {}
"""Caches by the name of the tokenizer, or by the identity of a callable."""
if hasattr(os, "register_at_fork"):  # not on Windows
    # Another thread of the parent may have held a lock.
    os.register_at_fork(after_in_child=lambda: _caches.clear())


def _find_cache(tokenizer: Tokenizer) -> TokenCache:
    """Find or create the cache of a tokenizer. The cache of a callable lives as long as the callable."""
    if isinstance(tokenizer, str):
        return _caches.setdefault(tokenizer, TokenCache(tokenizer))
    parts, name = _parts(tokenizer)
    key = (*map(id, parts), name)
    cache = _caches.get(key)
    if cache is None:
        cache = TokenCache()

        def forget(_: object, pop: Any = _caches.pop) -> None:  # globals may be gone when the interpreter exits
            pop(key, None)

        try:
            cache.owners = [weakref.ref(part, forget) for part in parts]
        except TypeError:
            return cache  # without a weak reference the cache would never be freed: use it for this call only
        _caches[key] = cache
    return cache


def _parts(tokenizer: TokenizeFunction) -> tuple[list[Any], str]:
    """The objects, and for a builtin method the name, that identify a callable."""
    # Each attribute access creates a new bound method, so a method is identified by its object and its function.
    if isinstance(tokenizer, MethodType):
        return [tokenizer.__self__, tokenizer.__func__], ""
    if isinstance(tokenizer, BuiltinMethodType):
        return [tokenizer.__self__], tokenizer.__name__
    return [tokenizer], ""


def _make_room() -> None:
    """Clear all caches if together they exceed a limit."""
    caches = list(_caches.values())
    if sum(map(len, caches)) > _MAX_UNITS or sum(cache.characters for cache in caches) > _MAX_CHARACTERS:
        clear_caches()


def clear_caches() -> None:
    """Clear all caches, except those in use by another thread."""
    for cache in list(_caches.values()):
        cache.clear()
