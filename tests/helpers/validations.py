"""Validations without a trainer, as an evaluator makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightning_bleu import CorpusBLEU
from lightning_bleu.evaluation.collector import Output, SentenceCollector
from lightning_bleu.evaluation.loaders import Origin
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.sentences import GatheredSentences, Sentence
from lightning_bleu.evaluation.validation import ScoredValidation, score_validation


def make_collector(metrics: Any = None, names: Sequence[str] = ("",), **options: Any) -> SentenceCollector:
    """A collector of loaders with these names, which keeps all texts."""
    table = MetricTable.from_metrics(CorpusBLEU() if metrics is None else metrics)
    defaults: dict[str, Any] = {"max_texts": math.inf, "origin": Origin("validation_step")}
    return SentenceCollector(table, names, **defaults | options)


def count(
    collector: SentenceCollector,
    preds: Any,
    target: Any,
    *,
    batch_idx: int = 0,
    dataloader_idx: int = 0,
    **fields: Any,
) -> SentenceCollector:
    """Count what a step returns."""
    collector.update(Output(preds, target, **fields), batch_idx, dataloader_idx)
    return collector


def score(collector: SentenceCollector, naming: Naming | None = None, **options: Any) -> ScoredValidation:
    """Score what a collector has counted."""
    collector.agree()
    subsets, sentences = list(collector.subsets.values()), collector.gather()
    scored = score_validation(collector.table, subsets, sentences, naming or Naming(), **options)
    collector.warn_about_mistakes()
    return scored


def gather(collector: SentenceCollector) -> GatheredSentences:
    """The sentences of the only subset."""
    (subset,) = score(collector).subsets
    return subset.sentences


def read_all(sentences: GatheredSentences) -> list[Sentence]:
    """All texts that are kept."""
    return sentences.read(sentences.readable)
