"""Validations without Lightning, as the callback makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightning_bleu import CorpusBLEU
from lightning_bleu.training.loaders import Origin
from lightning_bleu.training.options import check_metrics
from lightning_bleu.training.sentences import Sentence, Sentences
from lightning_bleu.training.validation import Output, Validation


def make_validation(metrics: Any = None, names: Sequence[str] = ("",), **options: Any) -> Validation:
    """A validation of loaders with these names, which keeps all texts."""
    checked = check_metrics(CorpusBLEU() if metrics is None else metrics)
    defaults: dict[str, Any] = {"max_texts": math.inf, "origin": Origin("validation_step")}
    return Validation(checked, names, **defaults | options)


def count(
    validation: Validation, preds: Any, target: Any, *, batch_idx: int = 0, dataloader_idx: int = 0, **fields: Any
) -> Validation:
    """Count what a step returns."""
    validation.update(Output(preds, target, **fields), batch_idx, dataloader_idx)
    return validation


def gather(validation: Validation) -> Sentences:
    """The sentences of the only subset."""
    validation.agree()
    validation.finish()
    (subset,) = validation.subsets.values()
    return subset.sentences


def read_all(sentences: Sentences) -> list[Sentence]:
    """All texts that are kept."""
    return sentences.read(sentences.readable)
