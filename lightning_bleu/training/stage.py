"""One epoch of validation or testing: what its steps returned, and the evaluation of each loader."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from lightning_bleu.processes import gather_objects, process_count
from lightning_bleu.reading.recognize import materialize
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.trainer import distributed_mask

Extract: TypeAlias = Callable[..., Any]
"""``(outputs, batch)`` or ``(outputs, batch, dataloader_idx)`` → ``(preds, target)`` or a mapping with these keys."""


class Stage:
    """One epoch of validation or testing.

    Args:
        tag: the logged name of the score, such as ``"val_bleu"``.
        step: the name of the step that returns the sentences, for error messages.
        loaders: the loaders, if they are evaluated in turn.
        evaluations: an evaluation per loader.
        extract: finds the sentences in what a step returned; see :class:`lightning_bleu.BLEUCallback`.

    Attributes:
        has_mean: whether the loaders have names, so that the score of the stage is the mean of theirs.
    """

    def __init__(
        self,
        tag: str,
        step: str,
        loaders: Sequence[Any],
        evaluations: Sequence[Evaluation],
        extract: Extract | None = None,
    ) -> None:
        self.tag = tag
        self.evaluations = evaluations
        self.has_mean = evaluations[0].tag != tag
        self._step = step
        self._loaders = loaders
        self._extract = None if extract is None else with_dataloader_idx(extract)
        self._unknown_repeats: dict[str, str] = {}

    def update(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int) -> None:
        """Count the sentences of a batch."""
        found, origin = outputs, self._step
        if self._extract is not None:
            found, origin = self._extract(outputs, batch, dataloader_idx), "extract"
        preds, target, source = read_output(found, self._step, origin)
        preds = materialize(preds)
        mask = self._mask(batch_idx, dataloader_idx, preds) if process_count() > 1 else None
        self.evaluations[dataloader_idx].update(preds, target, mask, source=source)

    def _mask(self, batch_idx: int, dataloader_idx: int, preds: Any) -> Tensor | None:
        """Which sentences are not repeats; None if that is unknown."""
        mask = distributed_mask(self._loaders[dataloader_idx], batch_idx) if self._loaders else None
        sentences = len(preds) if hasattr(preds, "__len__") else None  # without a length, update() raises an error
        if mask is not None and len(mask) in (1, sentences):  # a single value applies to all sentences of an item
            return mask
        if not self._loaders:
            reason = "its batches combine several loaders"
        elif mask is None:
            reason = "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's"
        else:
            reason = f"a batch of {len(mask)} items became {sentences} sentences"
        self._unknown_repeats.setdefault(self.evaluations[dataloader_idx].tag, reason)
        return None

    def warnings(self) -> Iterator[str]:
        """Warn about loaders whose repeated sentences are unknown to some process. Collective."""
        for reasons in gather_objects(self._unknown_repeats):
            for tag, reason in reasons.items():
                yield (
                    f"BLEUCallback cannot tell which sentences of {tag!r} are scored by more than one process: "
                    f"{reason}. If there are any, they are counted more than once."
                )


def read_output(value: Any, step: str, origin: str) -> tuple[Any, Any, Any]:
    """Find the sentences in what a step, or `extract`, returned.

    Args:
        value: ``{"preds": ..., "target": ...}``, perhaps with ``"source"``, or ``(preds, target)``.
        step: the name of the step, for error messages.
        origin: what returned the value, for error messages.

    Returns:
        the hypotheses, the references, and the source sentences (None if there are none).

    Raises:
        TypeError: if the value is neither.

    Example:
        >>> read_output({"preds": ["a"], "target": ["b"], "loss": 1.0}, "validation_step", "validation_step")
        (['a'], ['b'], None)
    """
    if isinstance(value, Mapping) and {"preds", "target"} <= set(value):
        return value["preds"], value["target"], value.get("source")
    if isinstance(value, tuple | list) and len(value) == 2:
        return *value, None
    found = f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    raise TypeError(
        f"BLEUCallback needs hypotheses and references, but got {found} from {origin!r}. Either return "
        f"{{'preds': ..., 'target': ...}} or (preds, target) from {step!r}, or use "
        "BLEUCallback(extract=lambda outputs, batch: (preds, target))"
    )


def with_dataloader_idx(extract: Extract) -> Extract:
    """A function of three parameters that passes the third one, the index of the loader, only if `extract` takes it.

    That is a parameter named ``dataloader_idx``, or a third parameter without a default.

    Example:
        >>> with_dataloader_idx(lambda outputs, batch, dataloader_idx: dataloader_idx)([], [], 7)
        7
        >>> with_dataloader_idx(lambda outputs, batch, tokenizer=None: tokenizer)([], [], 7) is None
        True
    """
    try:
        parameters = inspect.signature(extract).parameters
    except ValueError:  # some builtins have no signature
        parameters = inspect.signature(lambda outputs, batch: None).parameters
    named, empty = parameters.get("dataloader_idx"), inspect.Parameter.empty
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is empty or positional[2] is named):
        return extract
    # A keyword with a default may be the work of functools.partial.
    if named is not None and (named in positional or named.default is empty):
        return lambda outputs, batch, dataloader_idx: extract(outputs, batch, dataloader_idx=dataloader_idx)
    return lambda outputs, batch, dataloader_idx: extract(outputs, batch)
