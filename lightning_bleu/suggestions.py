"""Did you mean ...? Suggests the closest name for a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def choose(name: str, value: object, choices: Collection[str]) -> str:
    """Check that a value is one of the choices.

    Raises:
        TypeError: if the value is not a string.
        ValueError: if it is a string but not one of the choices.

    Example:
        >>> choose("smoothing", "Exp", ["none", "exp"])
        Traceback (most recent call last):
        ...
        ValueError: 'smoothing' must be one of ['none', 'exp'], got 'Exp': did you mean 'exp'?
    """
    if not isinstance(value, str):
        raise TypeError(f"{name!r} must be one of {list(choices)}, got {value!r} of type {type(value).__name__}")
    if value not in choices:
        hint = closest(value, choices)
        raise ValueError(
            f"{name!r} must be one of {list(choices)}, got {value!r}" + (f": did you mean {hint}?" if hint else "")
        )
    return value


def closest(name: str, choices: Collection[str]) -> str | None:
    """The choice most similar to a name, in quotation marks; None if none is similar.

    Example:
        >>> closest("SacreBLEU", ["nltk", "sacrebleu"])
        "'sacrebleu'"
    """
    by_lowercase = {choice.lower(): choice for choice in choices}
    found = difflib.get_close_matches(name.lower(), by_lowercase, n=1)
    return repr(by_lowercase[found[0]]) if found else None
