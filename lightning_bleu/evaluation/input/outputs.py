"""What a step returns: the fields, and how they are found and read.

A step returns a dict with these fields, or a pair of the first two. If it returns None, the callback skips the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from lightning_bleu.core.batch import (
    Batch,
    Sentence,
    Sources,
    read_column,
    read_groups,
    read_ids,
    read_index,
    read_sample_mask,
    read_sentences,
    read_sources,
    select_sentences,
)
from lightning_bleu.core.forms import BoolArray, Strings
from lightning_bleu.core.messages import list_values
from lightning_bleu.core.settings import Settings


class Origin(NamedTuple):
    """Where sentences come from, for error messages.

    Attributes:
        name: what returns them, or what they are passed to.
        got, give, to: the words for it.
        owner: the class whose options the user has set.
        unshuffle: how the order of the dataset can be kept.
    """

    name: str
    got: str = "returned"
    give: str = "return"
    to: str = "from"
    owner: str = "Evaluator"
    unshuffle: str = "set shuffle=False"


CALL = Origin("update", "got", "pass", "to")
"""Sentences that a training loop passes to :meth:`lightning_bleu.Evaluator.update`."""


def check_given(origin: Origin, given: Sequence[Mapping[str, bool]], where: str) -> None:
    """Raise a ValueError for a field that only some sentences have."""
    for name in sorted(given[0] if given else ()):
        if len({fields[name] for fields in given}) > 1:
            raise ValueError(
                f"{origin.name!r} {origin.got} {name!r} {where} only: {origin.give} it for all sentences, or for none"
            )


class Output(NamedTuple):
    """What a step returned for a batch; see :meth:`lightning_bleu.CorpusBLEU.update`.

    Attributes:
        preds: the hypotheses.
        target: their references.
        source: their sources.
        sample_mask: which sentences count.
        index: their positions in the dataset.
        group: the labels of their groups.
        id: what they are called, which is recorded and shown.
        columns: other keys, which functions may take.
    """

    preds: Any
    target: Any
    source: Any = None
    sample_mask: Any = None
    index: Any = None
    group: Any = None
    id: Any = None
    columns: Mapping[str, Any] = MappingProxyType({})

    def find(self, key: str) -> Any:
        """The value of a field or of another key; None if there is none."""
        return getattr(self, key) if key in self._fields else self.columns.get(key)


class ReadOutput(NamedTuple):
    """What a step returned, read and checked. Fields have a value per sentence, also for masked ones.

    Attributes:
        batch: the sentences, with the positions that the step returned.
        mask: which of them count; all when None.
        sources: their sources; None if there are none.
        groups: the labels of their groups; None if there are none.
        ids: what they are called; None if the step returned none.
        columns: the values of the other keys that functions take, by key.
    """

    batch: Batch
    mask: BoolArray | None = None
    sources: Sources | None = None
    groups: list[str] | None = None
    ids: list[str | int] | None = None
    columns: Mapping[str, list[Any]] = MappingProxyType({})

    @property
    def has_sentences(self) -> bool:
        """Whether any sentence counts."""
        return self.batch.sentence_count > 0 and (self.mask is None or bool(self.mask.any()))

    def select(self) -> ReadOutput:
        """The sentences that count."""
        mask = self.mask
        if mask is None:
            return self
        sources = None if self.sources is None else self.sources.select(mask)
        groups = None if self.groups is None else list(compress(self.groups, mask))
        ids = None if self.ids is None else list(compress(self.ids, mask))
        columns = {name: list(compress(values, mask)) for name, values in self.columns.items()}
        return ReadOutput(select_sentences(self.batch, mask), None, sources, groups, ids, columns)

    def to_sentences(self) -> Iterator[Sentence]:
        """The sentences as text. Ids that nothing decodes are shown as numbers."""
        nothing = [None] * self.batch.sentence_count
        sources = nothing if self.sources is None else self.sources.lines()
        is_tokenized = not isinstance(self.batch.segments, Strings)
        groups, ids = self.groups or nothing, self.ids or nothing
        columns = [dict(zip(self.columns, values)) for values in zip(*self.columns.values())] or nothing
        for (hypothesis, references), source, group, name, values in zip(
            self.batch.texts(), sources, groups, ids, columns
        ):
            yield Sentence(hypothesis, references, source, is_tokenized, group, name, values)

    def keep_groups(self, labels: Collection[str]) -> ReadOutput:
        """The same with a mask that drops the sentences of other groups, and those without a label.

        Example:
            >>> from lightning_bleu.core.batch import read_batch
            >>> batch = read_batch(["a", "b"], ["a", "c"], Settings.from_options())
            >>> ReadOutput(batch, groups=["de", "zh"]).keep_groups(["zh"]).select().batch.texts()
            [('b', ['c'])]
        """
        is_kept = np.zeros(self.batch.sentence_count, bool)
        if self.groups is not None:
            is_kept[:] = [label in labels for label in self.groups]
        return self._replace(mask=is_kept if self.mask is None else self.mask & is_kept)


def read_output(output: Output, settings: Settings, keys: Collection[str] = ()) -> ReadOutput:
    """Read what a step returned, with these other keys if it has them; see :func:`read_batch`. Nothing is selected."""
    batch = read_sentences(output.preds, output.target, settings)
    count = batch.sentence_count
    positions = read_index(output.index, count)
    if positions is not None:
        batch = batch._replace(positions=positions)
    mask = read_sample_mask(output.sample_mask, count)
    sources = None if output.source is None else read_sources(output.source, count, settings)
    groups = None if output.group is None else read_groups(output.group, count)
    ids = None if output.id is None else read_ids(output.id, count)
    given = [key for key in keys if output.find(key) is not None]
    columns = {key: read_column(key, output.find(key), count) for key in given}
    return ReadOutput(batch, mask, sources, groups, ids, columns)


def read_step(value: Any, step: str, origin: str, loader: str = "") -> Output:
    """Find the sentences in what a step, or `extract`, returned.

    Args:
        value: ``{"preds": ..., "target": ...}``, perhaps with other fields of :class:`Output`, or a tuple or a
            list of the first two.
        step: the name of the step, for error messages.
        origin: what returned the value, for error messages.
        loader: the name of the loader, for error messages; empty if it has none.

    Raises:
        TypeError: if the value is neither.

    Example:
        >>> read_step({"preds": ["a"], "target": ["b"], "loss": 1.0}, "validation_step", "validation_step")
        Output(preds=['a'], target=['b'], source=None, sample_mask=None, index=None, group=None, id=None, \
columns={'loss': 1.0})
    """
    if isinstance(value, Mapping) and {"preds", "target"} <= set(value):
        fields = {name: value[name] for name in Output._fields[:-1] if name in value}
        return Output(**fields, columns={name: of_name for name, of_name in value.items() if name not in fields})
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if is_pair and not _is_loss(value[0]):
        return Output(*value)
    received = "a pair that begins with a loss" if is_pair else f"a {type(value).__name__}"
    if isinstance(value, Mapping):
        received = f"the keys {list_values(sorted(map(str, value)))}"
        hints = list(_find_meant(value))
        if hints:
            received += f" (did you mean {' and '.join(map(repr, hints))}?)"
    elif value is None:
        received = "None (no return statement?)"
    where = f" for the loader {loader!r}" if loader else ""
    raise TypeError(
        f"BLEUCallback needs hypotheses and references, but got {received} from {origin!r}{where}. Either return "
        f"{{'preds': ..., 'target': ...}} or (preds, target) from {step!r}, or pass "
        "BLEUCallback(extract=lambda outputs, batch: ...), which returns these. To score some batches only, return "
        "None for the others, as with extract=lambda outputs, batch: outputs if isinstance(outputs, dict) else None"
    )


def _is_loss(value: Any) -> bool:
    """Whether a value is a single number, such as a loss."""
    return isinstance(value, float) or (isinstance(value, torch.Tensor) and value.ndim == 0)


_MISTAKEN = {
    "preds": ["prediction", "predictions", "hypotheses", "pred"],
    "target": ["targets", "reference", "references"],
    "source": ["src", "sources"],
    "index": ["indices"],
    "group": ["groups"],
    "id": ["ids"],
    "sample_mask": ["sample_masks"],
}
"""Fields, and keys that steps return for them."""


def _find_meant(output: Mapping[str, Any]) -> dict[str, str]:
    """Keys that are missing, each with a similar one that is there: ``{"preds": "predictions"}``."""
    meant = {}
    for name, mistaken in _MISTAKEN.items():
        for key in mistaken:
            if key in output and name not in output:
                meant[name] = key
    return meant


def suspect_keys(output: Any, origin: str) -> Iterator[str]:
    """Warn about keys that are ignored, but resemble one that is missing.

    Example:
        >>> list(suspect_keys({"preds": ["a"], "target": ["b"], "sources": ["c"]}, "validation_step"))
        ["'validation_step' returned 'sources', which is ignored: did you mean 'source'?"]
    """
    if isinstance(output, Mapping):
        for meant, key in _find_meant(output).items():
            yield f"{origin!r} returned {key!r}, which is ignored: did you mean {meant!r}?"
