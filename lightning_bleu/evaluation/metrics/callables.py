"""What functions of the user are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn


def find_third(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter | None, bool]:
    """The parameter that takes a third argument, if a function has one, and whether it takes it by position.

    That is a third parameter without a default, or a parameter of this name that no :class:`functools.partial` has set.

    Example:
        >>> find_third(lambda outputs, batch, index: 0, "dataloader_idx")
        (<Parameter "index">, True)
        >>> find_third(lambda outputs, batch, tokenizer=None: 0, "dataloader_idx")
        (None, False)
        >>> find_third(partial(lambda outputs, batch, *, index=0: 0, index=1), "index")
        (None, False)
    """
    callee = _callee_of(function)
    try:
        parameters = inspect.signature(callee).parameters
    except (TypeError, ValueError):  # of a builtin
        return None, False
    is_set = isinstance(callee, partial) and name in callee.keywords
    named = None if is_set else parameters.get(name)
    positional = [
        parameter for parameter in parameters.values() if parameter.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    if len(positional) > 2:
        third = positional[2]
        if third.default is third.empty or third is named:
            return third, True
    return named, False


def find_keys(function: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The parameters of a metric that get the values of keys of a step, and those of them that are required.

    They are all behind the first two but ``sources``. A third one that is positional is not required: it may take the
    sources.

    Example:
        >>> find_keys(lambda hypotheses, references, third, db_id, *, weight=1: [])
        (['third', 'db_id', 'weight'], ['db_id'])
    """
    try:
        parameters = list(inspect.signature(_callee_of(function)).parameters.values())
    except (TypeError, ValueError):  # of a builtin
        return [], []
    third, _ = find_third(function, "sources")
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    others = [parameter for parameter in parameters[2:] if parameter.kind in kinds and parameter.name != "sources"]
    required = [parameter.name for parameter in others if parameter.default is parameter.empty and parameter != third]
    return [parameter.name for parameter in others], required


def _callee_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of a callable: of a module ``forward``, also if it is compiled or in a partial."""
    if isinstance(function, partial):
        return partial(_callee_of(function.func), *function.args, **function.keywords)
    if isinstance(function, nn.Module):
        return _callee_of(getattr(function, "_orig_mod", function.forward))  # of torch.compile
    return function


def call_with_third(function: Callable[..., Any], name: str, first: Any, second: Any, third: Any) -> Any:
    """Call a function with two arguments, and with a third one if it takes that; see :func:`find_third`.

    Example:
        >>> call_with_third(lambda outputs, batch, dataloader_idx: dataloader_idx, "dataloader_idx", [], [], 7)
        7
    """
    parameter, by_position = find_third(function, name)
    if parameter is None:
        return function(first, second)
    if by_position:
        return function(first, second, third)
    return function(first, second, **{parameter.name: third})


def name_function(function: Callable[..., Any]) -> str:
    """What tells a function from another one under the same name; empty for one without a name of its own.

    Example:
        >>> name_function(name_function), name_function(lambda hypotheses, references: []), name_function(partial(max))
        ('name_function', '', '')
    """
    if isinstance(function, partial):
        return ""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    return "" if "<" in name else name  # <lambda>, and <locals> of another function
