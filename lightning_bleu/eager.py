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
        run = torch.compiler.disable(function) if torch.compiler.is_compiling() else function  # type: ignore[no-untyped-call]
        return run(*args, **kwargs)

    return wrapper
