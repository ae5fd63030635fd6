"""What a step returns: hypotheses, references, and perhaps source sentences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

Extract: TypeAlias = Callable[..., Any]
"""``(outputs, batch)`` or ``(outputs, batch, dataloader_idx)`` → ``(preds, target)`` or a mapping with these keys."""


class Output(NamedTuple):
    """The sentences of one step.

    Attributes:
        preds: the hypotheses.
        target: the references of each hypothesis.
        source: the source sentences; None if the step returned none.
    """

    preds: Any
    target: Any
    source: Any = None


def read_output(value: Any, step: str, origin: str) -> Output:
    """Find the sentences in what a step, or `extract`, returned.

    Args:
        value: ``{"preds": ..., "target": ...}``, perhaps with ``"source"``, or ``(preds, target)``.
        step: the name of the step, for error messages.
        origin: what returned the value, for error messages.

    Raises:
        TypeError: if the value is neither.

    Example:
        >>> read_output({"preds": ["a"], "target": ["b"], "loss": 1.0}, "validation_step", "validation_step")
        Output(preds=['a'], target=['b'], source=None)
    """
    if isinstance(value, Mapping) and {"preds", "target"} <= set(value):
        return Output(value["preds"], value["target"], value.get("source"))
    if isinstance(value, tuple | list) and len(value) == 2:
        return Output(*value)
    found = f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    raise TypeError(
        f"BLEUCallback needs hypotheses and references, but got {found} from {origin!r}. Either return "
        f"{{'preds': ..., 'target': ...}} or (preds, target) from {step!r}, or use "
        "BLEUCallback(extract=lambda outputs, batch: (preds, target))"
    )


def call_extract(extract: Extract, outputs: Any, batch: Any, dataloader_idx: int) -> Any:
    """Call a function with the index of the loader if it has a parameter for it.

    That is a parameter named ``dataloader_idx``, or a third parameter without a default.

    Example:
        >>> call_extract(lambda outputs, batch, dataloader_idx: dataloader_idx, [], [], 7)
        7
        >>> call_extract(lambda outputs, batch, tokenizer=None: tokenizer, [], [], 7) is None
        True
    """
    try:
        parameters = inspect.signature(extract).parameters
    except ValueError:  # some builtins have no signature
        return extract(outputs, batch)
    named, empty = parameters.get("dataloader_idx"), inspect.Parameter.empty
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is empty or positional[2] is named):
        return extract(outputs, batch, dataloader_idx)
    # A keyword with a default may be the work of functools.partial.
    if named is not None and (named in positional or named.default is empty):
        return extract(outputs, batch, dataloader_idx=dataloader_idx)
    return extract(outputs, batch)
