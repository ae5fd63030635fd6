"""Texts of datasets and models, made safe to show: on one line, without control characters, and not too long."""

from __future__ import annotations

from collections.abc import Sequence

REPLACEMENT = "\ufffd"
"""What is shown instead of a control character."""
_CONTROL = [*range(0x20), *range(0x7F, 0xA0)]
_SURROGATES = range(0xD800, 0xE000)
_LINE_BREAKS = map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]

_REPLACEMENTS: dict[int, str | None] = {}
_REPLACEMENTS.update(dict.fromkeys(_CONTROL, REPLACEMENT))
_REPLACEMENTS.update(dict.fromkeys(_SURROGATES, REPLACEMENT))  # cannot be encoded
_REPLACEMENTS.update(dict.fromkeys(_LINE_BREAKS, " "))
_REPLACEMENTS.update(dict.fromkeys(_DIRECTIONS))  # could turn around the text that follows

MAX_SHOWN = 500
"""The maximum number of characters shown per sentence, and per line of anything else."""


def clean(text: str) -> str:
    """Put text on a single line. Control characters are replaced, and characters that only set a direction removed.

    Example:
        >>> clean("a\\nb\\0c\\u202ed")
        'a b\ufffdcd'
    """
    return text.translate(_REPLACEMENTS)


def is_visible(text: str) -> bool:
    """Whether a text has a character that can be seen.

    Example:
        >>> is_visible(" a "), is_visible(" \\u200b ")
        (True, False)
    """
    return any(character.isprintable() and not character.isspace() for character in text)


def to_line(text: str, limit: int = MAX_SHOWN) -> str:
    """The first characters of a text on a single line, with "..." at the end if there are more.

    Example:
        >>> to_line("abcdefgh", 6), to_line("abc\\ndef", 7)
        ('abc...', 'abc def')
    """
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return clean(text)


def list_names(names: Sequence[object], limit: int = 10) -> str:
    """The first names of a list.

    Example:
        >>> list_names(["a", "b", "c"]), list_names(["a", "b", "c"], limit=1)
        ('a, b, c', 'a, and 2 more')
    """
    more = f", and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + more
