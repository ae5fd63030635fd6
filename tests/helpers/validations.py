"""Validations without Lightning, as the callback makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightning_bleu import CorpusBLEU
from lightning_bleu.training.loaders import Loader
from lightning_bleu.training.options import check_metrics, readings_of, shared_reading
from lightning_bleu.training.sentences import Sentence, Table
from lightning_bleu.training.validation import Output, Validation


def make_validation(
    metrics: Any = None,
    names: Sequence[str] = ("",),
    *,
    dataloaders: Sequence[Any] = (),
    decoder: Any = None,
    needed_by: str = "",
    origin: str = "validation_step",
    max_texts: float = math.inf,
) -> Validation:
    """A validation of loaders with these names, which keeps all texts."""
    checked = check_metrics(CorpusBLEU() if metrics is None else metrics)
    loaders = [
        Loader(name, shared_reading(readings_of(checked, name, names), decoder), dataloader, origin, needed_by)
        for name, dataloader in zip(names, dataloaders or [None] * len(names))
    ]
    return Validation(loaders, checked, {name: f"val_{name}" for name in checked}, origin=origin, max_texts=max_texts)


def count(
    validation: Validation, preds: Any, target: Any, *, batch_idx: int = 0, dataloader_idx: int = 0, **fields: Any
) -> Validation:
    """Count what a step returns."""
    validation.update(Output(preds, target, **fields), batch_idx, dataloader_idx)
    return validation


def gather(validation: Validation) -> Table:
    """The sentences of the only label."""
    validation.agree()
    (table,) = validation.finish()[1].values()
    return table


def read_all(table: Table) -> list[Sentence]:
    """All texts that are kept."""
    return table.sentences.read(table.sentences.readable)
