"""Text → tokens → the numbers of tokens. The tokenizers are those of sacreBLEU, with caches of words and lines.

During training the references never change, and hypotheses mostly repeat the same words, so only the first epoch pays
for tokenization:

- sacreBLEU's 13a, intl, zh, char, and none treat each word by itself, so hypotheses are looked up by word. For intl and
  zh it matters whether a word begins or ends its line, so such words are marked.
- References are looked up by line; new ones are tokenized by word.
- Other tokenizers (MeCab, SentencePiece, callables) need the whole line, so all lines are looked up by line.

Caches are kept per tokenizer, by name or by callable. A callable's cache is freed with the callable, and all caches
together are cleared when they take 256 MiB. Entries are only added, so threads need no lock.
"""

from __future__ import annotations

import functools
import re
import string
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from lightning_bleu.core.forms import Ragged, lengths_of, split_at
from lightning_bleu.core.messages import did_you_mean, wrong_type

TokenizeFunction: TypeAlias = Callable[[str], "str | Sequence[Hashable]"]
"""Takes a line and returns its tokens, or a string to split on whitespace."""

Tokenizer: TypeAlias = "str | TokenizeFunction"
"""A name from :data:`TOKENIZERS`, or a callable that always returns the same tokens for the same line."""

TOKENIZERS = tuple(BLEU.TOKENIZERS)
"""The tokenizers of the installed sacreBLEU. Some need other packages, which sacreBLEU names when they are missing."""

DOWNLOADED = ("spm", "flores101", "flores200", "spBLEU-1K")
"""The tokenizers that download a model when they are first used."""


def load_tokenizer(tokenizer: Tokenizer) -> TokenizeFunction:
    """Load a tokenizer by name. A callable is returned unchanged.

    Raises:
        TypeError: if it is neither a name nor a callable.
        ValueError: if the name is unknown, or the tokenizer cannot be loaded, for example without its package.

    Example:
        >>> load_tokenizer("13a")("Hello, world!")
        'Hello , world !'
    """
    if hasattr(tokenizer, "batch_decode"):
        raise TypeError(
            f"'tokenizer' splits text into words to count, but this {type(tokenizer).__name__} is the tokenizer of a "
            "model: to decode ids, pass decoder=tokenizer; to count its subwords, pass tokenizer=tokenizer.tokenize"
        )
    if callable(tokenizer):
        return tokenizer
    if not isinstance(tokenizer, str):
        raise wrong_type("tokenizer", "a name or a callable", tokenizer)
    if tokenizer not in TOKENIZERS:
        hint = did_you_mean(tokenizer, TOKENIZERS)
        raise ValueError(f"'tokenizer' must be a callable or one of {list(TOKENIZERS)}, got {tokenizer!r}{hint}")
    return _uncached(load_by_name(tokenizer))


def _uncached(tokenizer: BaseTokenizer) -> TokenizeFunction:
    """Bypass the cache of sacreBLEU, which would keep 65,536 lines, here joined from many words."""
    call = type(tokenizer).__call__
    return functools.partial(getattr(call, "__wrapped__", call), tokenizer)


@functools.cache
def load_by_name(name: str) -> BaseTokenizer:
    """A tokenizer of sacreBLEU."""
    try:
        tokenizer: BaseTokenizer = BLEU(tokenize=name).tokenizer
    except (Exception, SystemExit) as error:  # sacreBLEU exits on some download errors
        cause = f"{type(error).__name__}: {str(error).strip()}"
        raise ValueError(f"sacreBLEU cannot load the tokenizer {name!r} ({cause})") from error
    if hasattr(tokenizer, "_post_tokenizer"):  # a tokenizer that has a cache, too
        tokenizer._post_tokenizer = _uncached(tokenizer._post_tokenizer)
    return tokenizer


_CHRF_WORDS = "words of chrF"
"""The name of the cache of :func:`split_chrf_words`."""
_SPLITS_WORDS = {"13a", "char", "none", _CHRF_WORDS}
"""Tokenizers that split a word the same way everywhere in a line."""
_SPLITS_WORDS_BY_PLACE = {"intl", "zh"}
"""Tokenizers for which it matters whether a word has a left and a right neighbor."""
_WORDWISE = _SPLITS_WORDS | _SPLITS_WORDS_BY_PLACE
"""Tokenizers that treat each word by itself."""
_KEEPS_ALPHANUMERIC = {"13a", "none", _CHRF_WORDS}
"""Tokenizers that never split a word of letters and digits."""

_MARK = r"!-&(-,./:-@\[-`{-~"
"""ASCII punctuation but apostrophes and hyphens, for a character class: marks that 13a splits off the end of a word."""
_PLAIN_WORD = re.compile(rf"(?![{_MARK}])([^\n\-{_MARK}]*(?:(?<![0-9])-[^\n\-{_MARK}]*)*)([{_MARK}]?)")
"""A word that 13a keeps, or splits only at a mark at its end: without other marks, and without hyphens after digits."""

_NEIGHBOR = "\ue000"
"""A private-use character, which all tokenizers that treat words by themselves keep as a separate token."""
_EDGE = "\n"
"""Marks a word that begins or ends its line. A word cannot contain it, because words have no whitespace."""
_LINE = "\n\n"
"""Marks a line that cannot be split into words."""

_ID = np.dtype(np.int32)
"""Ids in a cache."""
_ENTRY_BYTES = 180
"""About how many bytes an entry of a dictionary takes beside the characters of its text and its ids."""
_MAX_BYTES = 2**28
"""The size at which all caches together are cleared."""


def tokenize(hypotheses: Sequence[str], references: Sequence[str], tokenizer: Tokenizer) -> Ragged:
    """Tokenize lines and replace the tokens with ids.

    Example:
        >>> tokenize(["Hello, world!"], ["Hello!"], "13a").lengths.tolist()
        [4, 2]
    """
    return _find_cache(tokenizer).encode(hypotheses, references, load_tokenizer(tokenizer))


def chrf_word_ids(hypotheses: Sequence[str], references: Sequence[str]) -> Ragged:
    """Split lines into words as chrF++ does, and replace the words with ids."""
    return _find_cache(_CHRF_WORDS).encode(hypotheses, references, split_chrf_words)


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


def number_tokens(lists: Sequence[list[str]]) -> Ragged:
    """Number tokens in the order of their first appearance.

    Example:
        >>> number_tokens([["a", "b"], ["a"]]).to_lists()
        [[0, 1], [0]]
    """
    numbers = defaultdict[str, int](count().__next__)
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(lists)), np.int64)
    return Ragged(ids, lengths_of(lists))


# Lines → units → tokens


def split_to_units(lines: Sequence[str], tokenizer: str) -> list[list[str]]:
    """Split lines into words, or into units of another kind for tokenizers that treat each word by itself.

    Args:
        lines: text.
        tokenizer: the name of the tokenizer.

    Example:
        >>> split_to_units(["a b c"], "13a"), split_to_units(["a b c"], "zh"), split_to_units(["a\\nb"], "13a")
        ([['a', 'b', 'c']], [['\\na', 'b', 'c\\n']], [['\\n\\na\\nb']])
    """
    if tokenizer not in _SPLITS_WORDS:
        return [_mark_edges(line) for line in lines]
    units = [line.split() for line in lines]
    has_line_breaks = "\n" in "".join(lines)
    if has_line_breaks:  # 13a joins and splits lines there
        for number, line in enumerate(lines):
            if "\n" in line:
                units[number] = [_LINE + line]
    return units


def _mark_edges(line: str) -> list[str]:
    """Split a line into words, and mark the first and the last one."""
    words = line.split()
    if not words:
        return []
    # intl distinguishes leading whitespace from the start of the line.
    if "\n" in line or line[0].isspace():
        return [_LINE + line]
    words[0] = _EDGE + words[0]
    words[-1] += _EDGE
    return words


def tokenize_units(units: Sequence[str], tokenize: TokenizeFunction, tokenizer: str) -> list[Sequence[Hashable]]:
    """Tokenize units.

    Args:
        units: distinct units from :func:`split_to_units`.
        tokenize: the tokenizer.
        tokenizer: its name.

    Example:
        >>> tokenize_units(["it's", "1,000.50,"], load_tokenizer("13a"), "13a")
        [["it's"], ['1,000.50', ',']]
    """
    tokens_of = _tokenize_simple_words(units, tokenizer)
    rest = [unit for unit in units if unit not in tokens_of]
    inner_words = [unit for unit in rest if _EDGE not in unit and _NEIGHBOR not in unit]
    if inner_words:
        tokens_of.update(zip(inner_words, _tokenize_inner_words(inner_words, tokenize), strict=True))
    for unit in rest:
        if unit not in tokens_of:  # a line, a word at the edge of one, or one with the separator of the others
            tokens_of[unit] = _tokenize_unit(unit, tokenize)
    return [tokens_of[unit] for unit in units]


def _tokenize_simple_words(units: Sequence[str], tokenizer: str) -> dict[str, Sequence[Hashable]]:
    """The tokens of units whose tokens are known without a call of the tokenizer; other units are missing.

    Example:
        >>> _tokenize_simple_words(["it's", "well-known.", "1,000", "(so)"], "13a")
        {"it's": ["it's"], 'well-known.': ['well-known', '.']}
    """
    tokens_of: dict[str, Sequence[Hashable]] = {}
    if tokenizer in _KEEPS_ALPHANUMERIC:
        tokens_of = {unit: [unit] for unit in units if unit.isalnum()}
    if tokenizer == "13a":
        for word in [unit for unit in units if unit not in tokens_of]:
            match = _PLAIN_WORD.fullmatch(word)
            if match:
                stem, mark = match.groups()
                tokens_of[word] = [stem, mark] if mark else [stem]
    return tokens_of


def _tokenize_inner_words(words: list[str], tokenize: TokenizeFunction) -> list[list[Hashable]]:
    """Tokenize words from the inside of a line, in a single call."""
    line = f" {_NEIGHBOR} ".join(["", *words, ""])
    tokens_by_word: list[list[Hashable]] = []
    for token in _split(tokenize(line)):
        if token == _NEIGHBOR:
            tokens_by_word.append([])
        else:
            tokens_by_word[-1].append(token)
    return tokens_by_word[:-1]


def _tokenize_unit(unit: str, tokenize: TokenizeFunction) -> Sequence[Hashable]:
    """Tokenize a line, or a word with a stand-in for each neighbor."""
    if unit.startswith(_LINE):
        return tokenize_line(unit[len(_LINE) :], tokenize)
    begins_line = unit.startswith(_EDGE)
    ends_line = unit.endswith(_EDGE)
    context = unit.strip(_EDGE)
    if not begins_line:
        context = f"{_NEIGHBOR} {context}"
    if not ends_line:
        context = f"{context} {_NEIGHBOR}"
    tokens = _split(tokenize(context))
    if not begins_line:
        tokens = tokens[1:]
    return tokens if ends_line else tokens[:-1]


def tokenize_line(line: str, tokenize: TokenizeFunction) -> Sequence[Hashable]:
    """Tokenize a line without the whitespace at its end, as sacreBLEU does."""
    return _split(tokenize(line.rstrip()))


def _split(tokenized: str | Sequence[Hashable]) -> Sequence[Hashable]:
    """The tokens that a tokenizer returned, perhaps as a string."""
    if not isinstance(tokenized, Iterable) or isinstance(tokenized, Mapping):
        raise TypeError(f"'tokenizer' must return a list of strings for a line, got {type(tokenized).__name__}")
    if isinstance(tokenized, str):
        return tokenized.split()
    return list(tokenized)


# The cache of a tokenizer


class TokenCache:
    """Caches the token ids of units for one tokenizer.

    Threads share a cache without a lock: entries are added but never changed or removed, and each addition is atomic.

    Args:
        name: the name of the tokenizer, or None for a callable.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._numbers = _Numbers()
        # Ids as bytes are small, and quickly joined.
        self._words: dict[str, bytes] = {}
        self._lines: dict[str, bytes] = {}
        self._bytes = 0  # of text and ids

    @property
    def size(self) -> int:
        """About how many bytes the cache takes."""
        return self._bytes + _ENTRY_BYTES * (len(self._numbers) + len(self._words) + len(self._lines))

    def encode(self, hypotheses: Sequence[str], references: Sequence[str], tokenize: TokenizeFunction) -> Ragged:
        """Tokenize lines; see :func:`tokenize`."""
        if self._name in _WORDWISE:
            lines_by_word, lines_by_line = hypotheses, references
        else:
            lines_by_word, lines_by_line = [], [*hypotheses, *references]
        new_lines = list(set(lines_by_line).difference(self._lines))
        encoded = self._encode([*lines_by_word, *new_lines], tokenize)
        self._add(self._lines, new_lines, encoded[len(lines_by_word) :])
        segments = encoded[: len(lines_by_word)]
        segments.extend(map(self._lines.__getitem__, lines_by_line))
        ids = np.frombuffer(b"".join(segments), _ID).astype(np.int64)
        return Ragged(ids, lengths_of(segments) // _ID.itemsize)

    def _encode(self, lines: Sequence[str], tokenize: TokenizeFunction) -> list[bytes]:
        """The ids of each line."""
        if self._name not in _WORDWISE:
            return self._number([tokenize_line(line, tokenize) for line in lines])
        units_by_line = split_to_units(lines, self._name)
        new_units = list(set(chain.from_iterable(units_by_line)).difference(self._words))
        self._add(self._words, new_units, self._number(tokenize_units(new_units, tokenize, self._name)))
        return [b"".join(map(self._words.__getitem__, units)) for units in units_by_line]

    def _number(self, tokens: Sequence[Sequence[Hashable]]) -> list[bytes]:
        """The ids of the tokens of each unit."""
        try:
            ids = np.fromiter(map(self._numbers.__getitem__, chain.from_iterable(tokens)), _ID).tobytes()
        except TypeError:
            raise TypeError(
                "'tokenizer' must return a list of strings for a line, or a list of other hashable tokens"
            ) from None
        return split_at(ids, (lengths_of(tokens).cumsum() * _ID.itemsize).tolist())

    def _add(self, entries: dict[str, bytes], texts: Sequence[str], encoded: Sequence[bytes]) -> None:
        """Add the ids of texts to the words or to the lines."""
        if texts:
            entries.update(zip(texts, encoded))
            # Joined, because to ask each text for its size takes a tenth of the time of a new word
            self._bytes += sys.getsizeof("".join(texts)) + sum(map(len, encoded))


class _Numbers(dict[Hashable, int]):
    """Numbers tokens in the order of their first appearance, the same for all threads."""

    def __init__(self) -> None:
        self._next = count().__next__

    def __missing__(self, token: Hashable) -> int:
        return self.setdefault(token, self._next())


# All caches


_caches: dict[Any, TokenCache] = {}
"""Caches by the name of the tokenizer, or by a weak reference to a callable."""


def cache_size() -> int:
    """About how many bytes all caches take."""
    return sum(cache.size for cache in list(_caches.values()))


def clear_caches() -> None:
    """Clear all caches."""
    _caches.clear()


def _find_cache(tokenizer: Tokenizer) -> TokenCache:
    """Find or create the cache of a tokenizer. Equal callables share one, which lives as long as the first of them."""
    if cache_size() > _MAX_BYTES:
        clear_caches()
    if isinstance(tokenizer, str):
        return _caches.setdefault(tokenizer, TokenCache(tokenizer))
    try:
        return _caches.setdefault(weakref.ref(tokenizer, _forget), TokenCache())
    except TypeError:  # it has no hash, or no weak references: there is no cache
        return TokenCache()


def _forget(reference: object, pop: Any = _caches.pop) -> None:  # globals may be gone when the interpreter exits
    """Free the cache of a callable that is gone."""
    pop(reference, None)
