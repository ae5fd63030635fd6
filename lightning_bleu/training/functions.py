"""Functions of users as metrics: which parameters they have, how they are called, and what they may return."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightning_bleu.training.loaders import check_names
from lightning_bleu.training.sentences import Sentence

_SHOWN = 200
"""The number of characters of a value that error messages show."""


def name_score(name: str, part: str) -> str:
    """The name of a score of a metric: that of the metric if it has only one."""
    return f"{name}/{part}" if part else name


def attribute_of(function: Callable[..., Any], name: str, default: Any) -> Any:
    """An attribute of a callable, or else of the function in a :class:`functools.partial`."""
    while isinstance(function, partial) and not hasattr(function, name):
        function = function.func
    return getattr(function, name, default)


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
    inspected = _find_signed(function)
    try:
        parameters = inspect.signature(inspected).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return None, False
    named = None if isinstance(inspected, partial) and name in inspected.keywords else parameters.get(name)
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is inspect.Parameter.empty or positional[2] is named):
        return positional[2], True
    return named, False


def _find_signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of a callable: of a module ``forward``, also if it is compiled or in a partial."""
    if isinstance(function, partial):
        return partial(_find_signed(function.func), *function.args, **function.keywords)
    if isinstance(function, nn.Module):
        return _find_signed(getattr(function, "_orig_mod", function.forward))  # of torch.compile
    return function


def call_with_third(function: Callable[..., Any], name: str, first: Any, second: Any, third: Any) -> Any:
    """Call a function with two arguments, and with a third one if there is one and it takes that.

    See :func:`find_third`.

    Example:
        >>> call_with_third(lambda outputs, batch, dataloader_idx: dataloader_idx, "dataloader_idx", [], [], 7)
        7
    """
    parameter, by_position = find_third(function, name)
    if third is None or parameter is None:
        return function(first, second)
    return function(first, second, third) if by_position else function(first, second, **{parameter.name: third})


def call_function(
    name: str, function: Callable[..., Any], sentences: Sequence[Sentence], *, of_corpus: bool = False
) -> dict[str, Tensor] | None:
    """The pairs of numbers that a function gives to sentences, whose sums are divided.

    Args:
        name: the name of the metric, for error messages.
        function: takes hypotheses, references, and perhaps sources.
        sentences: the sentences.
        of_corpus: whether it may return a single number for all sentences.

    Returns:
        float64 of shape ``(sentences, 2)`` on the CPU, or ``(2,)`` for a single number, by the last part of the name of
        the score, ``""`` unless the function returned a dict; None if it returned None.

    Raises:
        TypeError: if the function does not return numbers.
        ValueError: if it does not return one finite number or pair per sentence.
        RuntimeError: if it fails.
    """
    hypotheses, references = [one.hypothesis for one in sentences], [[*one.references] for one in sentences]
    sources = [one.source for one in sentences]
    given = sources if any(source is not None for source in sources) else None
    try:
        with untouched():
            value = call_with_third(function, "sources", hypotheses, references, given)
    except Exception as error:
        raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    named = value if isinstance(value, Mapping) else {"": value}
    if not named:
        raise TypeError(f"the metric {name!r} must return scores by name, got {repr(value)[:_SHOWN]}")
    check_names(f"scores of {name!r}", [*named], reserved=[""] if named is value else [])
    return {part: _read_rows(name_score(name, part), one, sentences, of_corpus) for part, one in named.items()}


def _read_rows(name: str, value: Any, sentences: Sequence[Sentence], of_corpus: bool) -> Tensor:
    needs = f"the metric {name!r} must return one number or pair per sentence"
    try:
        if isinstance(value, np.ma.MaskedArray) or getattr(value, "layout", torch.strided) != torch.strided:
            raise TypeError  # torch would ignore the mask
        # A Series of pandas has an index of its own, and a reversed array cannot become a tensor.
        array = np.array(value) if hasattr(value, "__array__") and not isinstance(value, Tensor) else value
        values = torch.as_tensor(array, dtype=torch.float64, device="cpu").detach().clone()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"{needs}, got {repr(value)[:_SHOWN]}") from None
    count = len(sentences)
    if values.shape not in ((count,), (count, 2), *([()] if of_corpus else [])):
        ways = "return pairs such as (errors, words), whose sums are divided, or set its corpus_level = True"
        shown = f"the shape {tuple(values.shape)} for {count} sentences" if values.ndim else f"one number: {ways}"
        raise ValueError(f"{needs}, got {shown}")
    for place in (~values.isfinite()).nonzero().tolist():
        whose = f" for the hypothesis {sentences[place[0]].hypothesis[:_SHOWN]!r}" if place else ""
        raise ValueError(
            f"the metric {name!r} returned {values[(*place,)].item()}{whose}: return a finite number for each "
            "sentence, or None to log nothing"
        )
    return values if values.ndim == 2 else torch.stack([values, torch.ones_like(values)], -1)


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Leave gradients, random generators, and the default type as they were, outside of inference mode."""
    states, dtype = (random.getstate(), np.random.get_state()), torch.get_default_dtype()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_default_dtype(dtype)
