"""Keep torch.compile away from code that it cannot compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function as it is, even where a compiled module calls it.

    The counting uses NumPy and shapes that depend on the data. ``torch.compiler.disable`` alone would do the same, but
    used as a decorator it imports the compiler, which takes two seconds.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            result: T = torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]
            return result
        return function(*args, **kwargs)

    return wrapper
