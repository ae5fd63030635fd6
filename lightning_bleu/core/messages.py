"""Messages to the user: warnings at the user's line of code, and "did you mean ...?"."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from types import FrameType

from lightning_bleu.core.clean import list_names
from lightning_bleu.core.processes import process_rank

_LIBRARIES = {"lightning_bleu", "torchmetrics", "torch", "contextlib", "multiprocessing"}
_LIBRARIES |= {"pytorch_lightning", "lightning", "transformers", "accelerate", "trl"}
"""Packages whose stack frames lie between the user's code and a warning."""


def warn_user(message: str) -> None:
    """Warn on process 0 only, and attribute the warning to the line of the user's code."""
    if process_rank() > 0:
        return
    level = 1  # this function
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level += 1
        frame = frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


class WarnOnce:
    """Warns the user, once per message or key. Copies share the history, so a warning appears once."""

    def __init__(self) -> None:
        self._keys: set[str] = set()  # of the warnings so far

    def __call__(self, message: str, key: str = "", warn: Callable[[str], None] = warn_user) -> None:
        """Warn, unless this message, or another one with the same key, appeared before."""
        key = key or message
        if key not in self._keys:
            warn(message)  # raises if the user turned warnings into errors
            self._keys.add(key)

    def about_all(self, mistakes: Iterable[tuple[str, str]]) -> None:
        """Warn about mistakes, each of which is a key and a message."""
        for key, message in mistakes:
            self(message, key)

    def __deepcopy__(self, memo: object) -> WarnOnce:
        return self


def check_choice(name: str, value: object, choices: Collection[str]) -> str:
    """Check that a value is one of the choices.

    Raises:
        TypeError: if the value is not a string.
        ValueError: if it is a string but not one of the choices.

    Example:
        >>> check_choice("smoothing", "Exp", ["none", "exp"])
        Traceback (most recent call last):
        ...
        ValueError: 'smoothing' must be one of ['none', 'exp'], got 'Exp': did you mean 'exp'?
    """
    if not isinstance(value, str):
        raise wrong_type(name, f"one of {list_values(choices)}", value)
    if value not in choices:
        hint = did_you_mean(value, choices)
        raise ValueError(f"{name!r} must be one of {list_values(choices)}, got {value!r}{hint}")
    return value


def list_values(values: Collection[object]) -> str:
    """A list as an error message shows it: of more than 20 values, the first ten.

    Example:
        >>> list_values(["none", "exp"]), list_values(range(100))
        ("['none', 'exp']", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 90 more]')
    """
    return f"[{list_names([*map(repr, values)], limit=10 if len(values) > 20 else 20)}]"


def wrong_type(name: str, must_be: str, value: object) -> TypeError:
    """Make the error for a value of the wrong type.

    Example:
        >>> print(wrong_type("percent", "True or False", "yes"))
        'percent' must be True or False, got 'yes' of type str
    """
    return TypeError(f"{name!r} must be {must_be}, got {value!r} of type {type(value).__name__}")


def did_you_mean(name: str, choices: Collection[str]) -> str:
    """A hint for the end of an error message, if a choice is similar to a name, or begins with it; otherwise empty.

    Example:
        >>> did_you_mean("Exp", ["none", "exp"]), did_you_mean("beam", ["none", "exp"])
        (": did you mean 'exp'?", '')
        >>> did_you_mean("SacreBLEU", ["nltk", "sacrebleu"]), did_you_mean("ja", ["13a", "ja-mecab"])
        (": did you mean 'sacrebleu'?", ": did you mean 'ja-mecab'?")
    """
    choice_of = {choice.lower(): choice for choice in choices}
    similar = difflib.get_close_matches(name.lower(), choice_of, n=1)
    if not similar:
        similar = [choice for choice in choice_of if choice.startswith(f"{name.lower()}-")]
    return f": did you mean {choice_of[similar[0]]!r}?" if similar else ""
