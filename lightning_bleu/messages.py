"""Warnings that point to the user's code."""

from __future__ import annotations

import sys
import warnings

from torch import distributed

_LIBRARIES = {
    "lightning_bleu",
    "torchmetrics",
    "torch",
    "pytorch_lightning",
    "lightning",
    "contextlib",
    "multiprocessing",
}
"""Packages whose stack frames lie between the user's code and a warning."""


def warn_user(message: str) -> None:
    """Warn on process 0 only, and attribute the warning to the line of the user's code."""
    if distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0:
        return
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, UserWarning, stacklevel=level)


class WarnOnce:
    """Warns the user, once per message. A copy shares what was said, because to the user it is the same object."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: str) -> None:
        """Warn, unless this message was said before."""
        if message not in self._said:
            warn_user(message)  # raises if the user turned warnings into errors
            self._said.add(message)

    def __deepcopy__(self, memo: object) -> WarnOnce:
        return self
