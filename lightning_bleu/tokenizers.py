"""Text → tokens → ids: the tokenizers by name, and a memory of what they said.

The tokenizers are sacreBLEU's own objects, so they are right by definition; what is here only avoids to ask them twice.
The 13a, intl, zh, char and none tokenizers look no further than the whitespace around a word, so words are remembered,
not lines. To intl and zh it matters whether a word begins or ends the line, so a word is remembered with that. Other
tokenizers (MeCab, SentencePiece, callables) are asked about whole lines, and whole lines are remembered.

Ids have a meaning only within one call of :meth:`TokenMemory.encode`: the memory starts afresh when it is full.
"""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
from sacrebleu.metrics import bleu as _sacrebleu

Tokenizer: TypeAlias = str | Callable[[str], str | Sequence[Hashable]]
"""A name, or a callable that takes a line and returns its tokens (or a string to split at whitespace)."""

TOKENIZERS: dict[str, str] = {
    "13a": "",
    "intl": "",
    "zh": "",
    "char": "",
    "none": "",
    "ja-mecab": 'pip install "sacrebleu[ja]"',
    "ko-mecab": 'pip install "sacrebleu[ko]"',
    "spm": "pip install sentencepiece",
    "flores101": "pip install sentencepiece",
    "flores200": "pip install sentencepiece",
    "spBLEU-1K": "pip install sentencepiece",
}
"""sacreBLEU's tokenizers by name, with the command that brings what an optional one needs."""

_WORDWISE = {"13a", "char", "none"}
"""Tokenizers to which the place of a word in the line does not matter."""
_WORDWISE_BY_PLACE = {"intl", "zh"}
"""Tokenizers to which it matters whether a word has a neighbour on its left and on its right."""

_ALPHANUMERIC = {"13a", "none"}
"""Tokenizers to which a word of letters and digits is a token."""

_NEIGHBOUR = "\ue000"
"""A private-use character: a token of its own for every wordwise tokenizer."""
_EDGE = "\n"
"""Marks a word that begins or ends its line. No word holds whitespace, so marked words are unlike others."""
_WHOLE = "\n\n"
"""Marks a key that is a whole line."""

_MOST_KEYS = 2**20
_MOST_CHARACTERS = 2**26


def load_tokenizer(tokenizer: Tokenizer) -> Callable[[str], Any]:
    """The callable for a name, or the callable itself.

    Raises:
        TypeError: for something that is neither.
        ValueError: for an unknown name, with the known ones, or for one whose package is missing, with the command that
            installs it.

    Example:
        >>> load_tokenizer("13a")("Hello, world!")
        'Hello , world !'
    """
    if callable(tokenizer):
        return tokenizer
    if not isinstance(tokenizer, str):
        raise TypeError(f"'tokenizer' must be a name or a callable, got {tokenizer!r}")
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"'tokenizer' must be a callable or one of {list(TOKENIZERS)}, got {tokenizer!r}")
    return _load_named(tokenizer)


@functools.cache
def _load_named(name: str) -> Callable[[str], Any]:
    try:
        loaded: Callable[[str], Any] = _sacrebleu._get_tokenizer(name)()
    except Exception as error:
        raise ValueError(
            f"tokenizer {name!r} cannot be loaded ({type(error).__name__}: {str(error).strip()}). "
            f"It needs packages that come with: {TOKENIZERS[name]}"
        ) from error
    return loaded


def tokenizer_name(tokenizer: Tokenizer) -> str:
    """How signatures name the tokenizer: as sacreBLEU does, and a callable by its own name."""
    if isinstance(tokenizer, str):
        return str(load_tokenizer(tokenizer).signature())  # type: ignore[attr-defined]
    return getattr(tokenizer, "__name__", type(tokenizer).__name__)


@functools.lru_cache(maxsize=16)
def token_memory(tokenizer: Tokenizer) -> TokenMemory:
    """The memory for a tokenizer, shared by all metrics and calls that use it."""
    return TokenMemory(tokenizer)


def intern_tokens(tokens: Iterable[Hashable]) -> np.ndarray:
    """Number tokens so that equal tokens have equal numbers.

    Example:
        >>> intern_tokens(["a", "b", "a"]).tolist()
        [0, 1, 0]
    """
    ids: defaultdict[Hashable, int] = defaultdict(count().__next__)
    return np.fromiter(map(ids.__getitem__, tokens), np.int64)


class TokenMemory:
    """Turns lines into ids of their tokens and remembers how words (or lines) are tokenized.

    Args:
        tokenizer: a name or a callable.

    Example:
        >>> ids, lengths = TokenMemory("13a").encode(["Hello, world!", "Hello!"])
        >>> ids.tolist(), lengths.tolist()
        ([0, 1, 2, 3, 0, 3], [4, 2])
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenize = load_tokenizer(tokenizer)
        self._keys = self._line_keys
        if tokenizer in _WORDWISE:
            self._keys = self._word_keys
        elif tokenizer in _WORDWISE_BY_PLACE:
            self._keys = self._word_keys_by_place
        self._knows_words = tokenizer in _ALPHANUMERIC
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._token_ids: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._characters = 0
        # the tokens of key k are tokens[starts[k] : starts[k + 1]]
        self._tokens = _Growing()
        self._starts = _Growing([0])

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize lines.

        Returns:
            the ids of all tokens one after the other, and the number of tokens of each line, both 64-bit integers.
        """
        with self._lock:
            if len(self._numbers) > _MOST_KEYS or self._characters > _MOST_CHARACTERS:
                self._forget()
            try:
                rows = self._keys(lines)
                sizes = np.fromiter(map(len, rows), np.int64, len(rows))
                keys = chain.from_iterable(rows)
                numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, sizes.sum())
                self._learn()
            except BaseException:
                self._forget()  # numbers without tokens
                raise
            starts, tokens = self._starts.values, self._tokens.values
        first = starts[numbers]
        lengths = starts[numbers + 1] - first
        ends = np.zeros(len(numbers) + 1, np.int64)
        lengths.cumsum(out=ends[1:])
        positions = np.arange(ends[-1]) + (first - ends[:-1]).repeat(lengths)
        line_ends = ends[sizes.cumsum()]
        line_ends[1:] -= line_ends[:-1]
        return tokens[positions], line_ends

    @staticmethod
    def _line_keys(lines: Sequence[str]) -> list[list[str]]:
        return [[_WHOLE + line] for line in lines]

    @staticmethod
    def _word_keys(lines: Sequence[str]) -> list[list[str]]:
        rows = list(map(str.split, lines))
        if "\n" in "".join(lines):  # 13a joins and splits lines there
            rows = [[_WHOLE + line] if "\n" in line else row for line, row in zip(lines, rows)]
        return rows

    @staticmethod
    def _word_keys_by_place(lines: Sequence[str]) -> list[list[str]]:
        rows = list(map(str.split, lines))
        for number, (line, words) in enumerate(zip(lines, rows)):
            # intl tells whitespace before the first word from the beginning of a line, zh does not
            if words and ("\n" in line or line[0].isspace()):
                rows[number] = [_WHOLE + line]
            elif words:
                words[0] = _EDGE + words[0]
                words[-1] += _EDGE
        return rows

    def _learn(self) -> None:
        """Tokenize the keys that have come up since the last time."""
        if not (unseen := self._numbers.unseen):
            return
        self._numbers.unseen = []
        self._characters += sum(map(len, unseen))
        known = {key: [key] for key in unseen if key.isalnum()} if self._knows_words else {}
        plain = [key for key in unseen if key not in known and _EDGE not in key and _NEIGHBOUR not in key]
        if plain:
            known |= zip(plain, self._tokenize_words(plain), strict=True)
        tokens = [known[key] if key in known else self._tokenize_key(key) for key in unseen]
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        ids = np.fromiter(map(self._token_ids.__getitem__, chain.from_iterable(tokens)), np.int64, lengths.sum())
        self._starts.extend(self._starts.values[-1] + lengths.cumsum())
        self._tokens.extend(ids)

    def _tokenize_words(self, words: list[str]) -> list[list[str]]:
        """Tokenize words that stand within a line, all in one call."""
        joined = f" {_NEIGHBOUR} ".join(["", *words, ""])
        tokenized: list[list[str]] = []
        for token in self._tokenize(joined).split():
            if token == _NEIGHBOUR:
                tokenized.append([])
            else:
                tokenized[-1].append(token)
        return tokenized[:-1]

    def _tokenize_key(self, key: str) -> list[Hashable]:
        if key.startswith(_WHOLE):
            line = self._tokenize(key[len(_WHOLE) :].rstrip())
            return list(line.split() if isinstance(line, str) else line)
        word = key.strip(_EDGE)
        left = [] if key.startswith(_EDGE) else [_NEIGHBOUR]
        right = [] if key.endswith(_EDGE) else [_NEIGHBOUR]
        tokens: list[str] = self._tokenize(" ".join([*left, word, *right])).split()
        return list(tokens[len(left) : len(tokens) - len(right)])


class _Numbers(dict[str, int]):
    """Numbers keys in order of appearance, and notes those that it had not seen."""

    def __init__(self) -> None:
        self.unseen: list[str] = []

    def __missing__(self, key: str) -> int:
        self.unseen.append(key)
        self[key] = number = len(self)
        return number


class _Growing:
    """Integers, the last of them added in constant time each."""

    def __init__(self, values: Sequence[int] = ()) -> None:
        self._buffer = np.array(values, np.int64)
        self._size = len(values)

    @property
    def values(self) -> np.ndarray:
        return self._buffer[: self._size]

    def extend(self, values: np.ndarray) -> None:
        size = self._size + len(values)
        if size > len(self._buffer):
            grown = np.empty(2 * size, np.int64)
            grown[: self._size] = self.values
            self._buffer = grown
        self._buffer[self._size : size] = values
        self._size = size
