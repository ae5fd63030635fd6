"""Excludes code that torch.compile cannot compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function eagerly, even when compiled code calls it.

    Counting uses NumPy and data-dependent shapes. ``torch.compiler.disable`` as a decorator would do the same, but it
    imports the compiler right away, which takes two seconds.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            result: T = torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]
            return result
        return function(*args, **kwargs)

    return wrapper
