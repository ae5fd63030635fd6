"""Likely mistakes in the setup of a trainer, as warning messages."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any

_LOWER_MAY_BE_WANTED = ("/p_value", "/hypothesis_length", "/reference_length")
"""Suffixes of logged names that a callback may legitimately minimize."""


def minimized(callbacks: Iterable[Any], scores: tuple[str, ...]) -> Iterator[str]:
    """Warn about callbacks that prefer a low score.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` and ``mode`` matter.
        scores: the names of the scores. Names below them, such as ``val_bleu/news``, are checked too.
    """
    for callback in callbacks:
        monitor = str(getattr(callback, "monitor", ""))
        is_score = f"{monitor}/".startswith(tuple(f"{score}/" for score in scores))
        if getattr(callback, "mode", None) == "min" and is_score and not monitor.endswith(_LOWER_MAY_BE_WANTED):
            name = type(callback).__name__
            yield f"{name}(monitor={monitor!r}, mode='min') prefers a low BLEU, but higher is better: set mode='max'."


def is_installed(package: str) -> bool:
    """Whether a package can be imported.

    Example:
        >>> is_installed("torch"), is_installed("tourch")
        (True, False)
    """
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # the module is present in sys.modules without a spec
        return False
