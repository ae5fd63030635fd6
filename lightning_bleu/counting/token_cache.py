"""Text → token ids, with a cache of tokenized words and lines.

During training the references never change, and hypotheses mostly repeat the same words, so only the first epoch pays
for tokenization. Depending on the tokenizer, words or whole lines are cached; see :mod:`lightning_bleu.counting.words`.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import chain, count
from types import BuiltinMethodType, MethodType
from typing import Any

import numpy as np

from lightning_bleu.counting.words import split_to_keys, tokenize_keys
from lightning_bleu.reading.ragged import IntArray, Ragged
from lightning_bleu.settings.tokenizers import TokenizeFunction, Tokenizer, load_tokenizer

_MAX_KEYS = 2**20
"""The maximum number of words and lines in all caches together."""
_MAX_CHARACTERS = 2**26
"""The maximum number of characters in all caches together."""


def tokenize(lines: Sequence[str], tokenizer: Tokenizer) -> Ragged:
    """Tokenize lines and replace the tokens with ids.

    Within a call, equal tokens get equal ids. The ids of different calls are unrelated.

    Args:
        lines: text; each line becomes a segment.
        tokenizer: a name or a callable.

    Example:
        >>> tokenize(["Hello, world!", "Hello!"], "13a").lengths.tolist()
        [4, 2]
    """
    cache = _find_cache(tokenizer)
    _make_room()
    return cache.encode(lines, load_tokenizer(tokenizer))


def number_tokens(tokens: Iterable[Hashable]) -> tuple[IntArray, list[Hashable]]:
    """Number tokens in the order of their first appearance.

    Returns:
        the number of each token, and the tokens by number.

    Example:
        >>> numbers, vocabulary = number_tokens(["a", "b", "a"])
        >>> numbers.tolist(), vocabulary
        ([0, 1, 0], ['a', 'b'])
    """
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    return np.fromiter(map(numbers.__getitem__, tokens), np.int64), list(numbers)


class TokenCache:
    """Caches the tokens of words or lines for one tokenizer.

    Args:
        name: the name of the tokenizer, or None for a callable.

    Attributes:
        characters: the number of characters of cached text.
        owner: a weak reference to the callable, whose callback frees the cache.
    """

    def __init__(self, name: str | None = None) -> None:
        self.owner: weakref.ref[Any] | None = None
        self._name = name
        self._lock = threading.Lock()
        self._clear()

    def __len__(self) -> int:
        return len(self._key_numbers)

    def clear(self) -> None:
        """Clear the cache, unless another thread is using it."""
        if self._lock.acquire(blocking=False):
            try:
                self._clear()
            finally:
                self._lock.release()

    def _clear(self) -> None:
        self.characters = 0
        self._key_numbers = _KeyNumbers()
        self._token_ids: defaultdict[Hashable, int] = defaultdict(count().__next__)
        # The tokens of key k are tokens[starts[k] : starts[k + 1]].
        self._tokens = _GrowingArray()
        self._starts = _GrowingArray([0])

    def encode(self, lines: Sequence[str], tokenize: TokenizeFunction) -> Ragged:
        """Tokenize lines; see :func:`tokenize`."""
        with self._lock:
            try:
                rows = split_to_keys(lines, self._name)
                keys_per_line = np.fromiter(map(len, rows), np.int64, len(rows))
                keys = chain.from_iterable(rows)
                numbers = np.fromiter(map(self._key_numbers.__getitem__, keys), np.int64, keys_per_line.sum())
                self._learn(tokenize)
            except BaseException:
                self._clear()  # some keys may have no tokens yet
                raise
            starts, tokens = self._starts.values, self._tokens.values
        first = starts[numbers]
        lengths = starts[numbers + 1] - first
        ends = np.concatenate([[0], lengths.cumsum()])
        line_ends = ends[np.concatenate([[0], keys_per_line.cumsum()])]
        places = np.arange(ends[-1]) + (first - ends[:-1]).repeat(lengths)
        return Ragged.of(tokens[places], line_ends[1:] - line_ends[:-1])

    def _learn(self, tokenize: TokenizeFunction) -> None:
        """Tokenize the new keys."""
        new, self._key_numbers.new = self._key_numbers.new, []
        if not new:
            return
        self.characters += sum(map(len, new))
        tokens = tokenize_keys(new, tokenize, self._name)
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        try:
            ids = np.fromiter(map(self._token_ids.__getitem__, chain.from_iterable(tokens)), np.int64, lengths.sum())
        except TypeError:
            raise TypeError(
                "'tokenizer' must return a list of strings for a line, or a list of other hashable tokens"
            ) from None
        self._starts.extend(self._starts.values[-1] + lengths.cumsum())
        self._tokens.extend(ids)


class _KeyNumbers(dict[str, int]):
    """Numbers keys in the order of their first appearance, and collects the new ones."""

    def __init__(self) -> None:
        self.new: list[str] = []

    def __missing__(self, key: str) -> int:
        self.new.append(key)
        self[key] = number = len(self)
        return number


class _GrowingArray:
    """An integer array with amortized constant-time append."""

    def __init__(self, values: Sequence[int] = ()) -> None:
        self._buffer = np.array(values, np.int64)
        self._size = len(values)

    @property
    def values(self) -> IntArray:
        return self._buffer[: self._size]

    def extend(self, values: IntArray) -> None:
        size = self._size + len(values)
        if size > len(self._buffer):
            grown = np.empty(2 * size, np.int64)
            grown[: self._size] = self.values
            self._buffer = grown
        self._buffer[self._size : size] = values
        self._size = size


_caches: dict[Hashable, TokenCache] = {}
"""Caches by the name of the tokenizer, or by the identity of a callable."""


def _find_cache(tokenizer: Tokenizer) -> TokenCache:
    """Find or create the cache of a tokenizer. The cache of a callable lives as long as the callable."""
    if isinstance(tokenizer, str):
        return _caches.setdefault(tokenizer, TokenCache(tokenizer))
    key, refer = _identify(tokenizer)
    cache = _caches.get(key)
    if cache is None:
        cache = TokenCache()
        try:
            cache.owner = refer(lambda _: _caches.pop(key, None))
        except TypeError:
            return cache  # without a weak reference the cache would never be freed: use it for this call only
        _caches[key] = cache
    return cache


def _identify(tokenizer: TokenizeFunction) -> tuple[Hashable, Callable[..., weakref.ref[Any]]]:
    """A key that identifies a callable while it is alive, and a function that makes a weak reference to it."""
    # Each attribute access creates a new bound method, so identify it by its object and function.
    if isinstance(tokenizer, MethodType):
        return (id(tokenizer.__self__), id(tokenizer.__func__)), partial(weakref.WeakMethod, tokenizer)
    if isinstance(tokenizer, BuiltinMethodType):
        return (id(tokenizer.__self__), tokenizer.__name__), partial(weakref.ref, tokenizer.__self__)
    return id(tokenizer), partial(weakref.ref, tokenizer)


def _make_room() -> None:
    """Clear all caches if together they exceed a limit."""
    caches = list(_caches.values())
    if sum(map(len, caches)) > _MAX_KEYS or sum(cache.characters for cache in caches) > _MAX_CHARACTERS:
        clear_caches()


def clear_caches() -> None:
    """Clear all caches, except those in use by another thread."""
    for cache in list(_caches.values()):
        cache.clear()
