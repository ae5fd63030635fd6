"""Keys: the pieces of a line that can be tokenized independently, and therefore cached.

sacreBLEU's 13a, intl, zh, char, and none treat each word independently of the other words, so a key is a word. For intl
and zh it matters whether a word begins or ends its line, so the keys of such words are marked. Other tokenizers (MeCab,
SentencePiece, callables) need the whole line, so a key is a line.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lightning_bleu.settings.tokenizers import TokenizeFunction

_SPLITS_WORDS = {"13a", "char", "none"}
"""Tokenizers that split a word the same way everywhere in a line."""
_SPLITS_WORDS_BY_PLACE = {"intl", "zh"}
"""Tokenizers for which it matters whether a word has a left and a right neighbor."""
_KEEPS_ALPHANUMERIC = {"13a", "none"}
"""Tokenizers that never split a word of letters and digits."""

_NEIGHBOR = "\ue000"
"""A private-use character, which all tokenizers with word keys keep as a separate token."""
_EDGE = "\n"
"""Marks a word that begins or ends its line. A word cannot contain it, because words have no whitespace."""
_LINE = "\n\n"
"""Marks a key that is a whole line."""


def split_to_keys(lines: Sequence[str], tokenizer: str | None) -> list[list[str]]:
    """Split lines into keys.

    Args:
        lines: text.
        tokenizer: the name of the tokenizer, or None for a callable.

    Example:
        >>> split_to_keys(["a b c"], "13a"), split_to_keys(["a b c"], "zh"), split_to_keys(["a b c"], None)
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


def tokenize_keys(keys: Sequence[str], tokenize: TokenizeFunction, tokenizer: str | None) -> list[Sequence[Hashable]]:
    """Tokenize keys.

    Args:
        keys: the distinct keys from :func:`split_to_keys`.
        tokenize: the tokenizer.
        tokenizer: its name, or None for a callable.

    Example:
        >>> from lightning_bleu.settings.tokenizers import load_tokenizer
        >>> tokenize_keys(["it's", "1,000.50,"], load_tokenizer("13a"), "13a")
        [["it's"], ['1,000.50', ',']]
    """
    known: dict[str, Sequence[Hashable]] = {}
    if tokenizer in _KEEPS_ALPHANUMERIC:
        known = {key: [key] for key in keys if key.isalnum()}
    inner_words = [key for key in keys if key not in known and _EDGE not in key and _NEIGHBOR not in key]
    if inner_words:
        known |= zip(inner_words, _tokenize_inner_words(inner_words, tokenize), strict=True)
    return [known[key] if key in known else _tokenize_key(key, tokenize) for key in keys]


def _tokenize_inner_words(words: list[str], tokenize: TokenizeFunction) -> list[list[Hashable]]:
    """Tokenize words from the inside of a line, in a single call."""
    tokenized: list[list[Hashable]] = []
    for token in _split(tokenize(f" {_NEIGHBOR} ".join(["", *words, ""]))):
        if token == _NEIGHBOR:
            tokenized.append([])
        else:
            tokenized[-1].append(token)
    return tokenized[:-1]


def _tokenize_key(key: str, tokenize: TokenizeFunction) -> Sequence[Hashable]:
    """Tokenize a line, or a word with a stand-in for each neighbor."""
    if key.startswith(_LINE):
        return _split(tokenize(key[len(_LINE) :].rstrip()))
    left = [] if key.startswith(_EDGE) else [_NEIGHBOR]
    right = [] if key.endswith(_EDGE) else [_NEIGHBOR]
    tokens = _split(tokenize(" ".join([*left, key.strip(_EDGE), *right])))
    return tokens[len(left) : len(tokens) - len(right)]


def _split(tokenized: str | Sequence[Hashable]) -> Sequence[Hashable]:
    return tokenized.split() if isinstance(tokenized, str) else list(tokenized)
