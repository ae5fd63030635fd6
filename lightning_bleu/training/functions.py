"""Functions of users: which parameters they have, how they are called, and what they may return."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightning_bleu.torchmetrics_fixes import ordinary_tensors
from lightning_bleu.training.sentences import Sentence

_SHOWN = 200
"""The number of characters of a value that error messages show."""


def find_third(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter | None, bool]:
    """The parameter that takes a third argument, if a function has one, and whether it takes it by position.

    That is a third parameter without a default, or a parameter of this name.

    Example:
        >>> find_third(lambda outputs, batch, index: 0, "dataloader_idx")
        (<Parameter "index">, True)
        >>> find_third(lambda outputs, batch, tokenizer=None: 0, "dataloader_idx")
        (None, False)
    """
    try:
        parameters = inspect.signature(function.forward if isinstance(function, nn.Module) else function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return None, False
    named, empty = parameters.get(name), inspect.Parameter.empty
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is empty or positional[2] is named):
        return positional[2], True
    # A keyword with a default may be the work of functools.partial.
    return (named if named is not None and (named in positional or named.default is empty) else None), False


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


def score_sentences(name: str, function: Callable[..., Any], sentences: Sequence[Sentence]) -> Tensor | None:
    """The numbers that a function gives to sentences.

    Args:
        name: the name of the metric, for error messages.
        function: takes hypotheses, references, and perhaps sources.
        sentences: the sentences.

    Returns:
        float64 of shape ``(sentences,)`` on the CPU; None if the function returned None.

    Raises:
        TypeError: if the function does not return numbers.
        ValueError: if it does not return one finite number per sentence.
        RuntimeError: if it fails.
    """
    hypotheses, references = [one.hypothesis for one in sentences], [[*one.references] for one in sentences]
    sources = [one.source for one in sentences]
    try:
        with untouched():
            value = call_with_third(function, "sources", hypotheses, references, None if None in sources else sources)
    except Exception as error:
        raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    needs = f"the metric {name!r} must return one number per sentence"
    try:
        array = value.copy() if isinstance(value, np.ndarray) else value  # a reversed one cannot become a tensor
        values = torch.as_tensor(array, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{needs}, got {repr(value)[:_SHOWN]}") from None
    if values.shape != (len(sentences),):
        found = f"the shape {tuple(values.shape)} for {len(sentences)} sentences"
        raise ValueError(f"{needs}, got {found}" + ": do not average them, the callback does" * (values.ndim == 0))
    for number in (~values.isfinite()).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"the metric {name!r} returned {values[number].item()} for the hypothesis "
            f"{hypotheses[number][:_SHOWN]!r}: return a finite number for each sentence, or None to log nothing"
        )
    return values


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Leave gradients, random generators, and the default type as they were; tensors are no inference tensors."""
    states, dtype = (random.getstate(), np.random.get_state()), torch.get_default_dtype()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices), ordinary_tensors(), torch.no_grad():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_default_dtype(dtype)
