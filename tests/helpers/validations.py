"""Validations without a trainer, as an evaluator makes them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lightning_bleu import CorpusBLEU, Interval, PairedTest
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.processes import exchange
from lightning_bleu.core.scoring import count_sentences
from lightning_bleu.core.significance import interval_of, paired_test_of
from lightning_bleu.evaluation.input.collector import SentenceCollector
from lightning_bleu.evaluation.input.outputs import CALL, Origin, Output
from lightning_bleu.evaluation.input.positions import Loader
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.metrics.shared_facts import reserved_names, shared_reading
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.scores.sentences import Joined, Sentences
from lightning_bleu.evaluation.scores.validation import Validation, group_by_loader, name_numbers, score_loaders
from lightning_bleu.evaluator import Evaluator, Plan, StartedValidation
from tests.helpers.resampling import resample_scores


class Counting:
    """The metrics, and a collector of loaders with these names, which keeps all texts."""

    def __init__(self, metrics: Any = None, names: Sequence[str] = ("",), **options: Any) -> None:
        self.metrics = read_metrics(CorpusBLEU() if metrics is None else metrics)
        origin, warn = options.pop("origin", Origin("validation_step")), options.pop("warn", None)
        decoder, max_texts = options.pop("decoder", None), options.pop("max_texts", sys.maxsize)
        dataloaders = options.pop("dataloaders", [None] * len(names))
        reading = shared_reading(self.metrics, decoder)
        loaders = [Loader(name, reading, dataloader, origin, **options) for name, dataloader in zip(names, dataloaders)]
        reserved = reserved_names(self.metrics)
        self.collector = SentenceCollector(self.metrics, loaders, reserved, max_texts, warn or WarnOnce())


def count(
    counting: Counting,
    preds: Any,
    target: Any,
    *,
    batch_idx: int = 0,
    dataloader_idx: int = 0,
    **fields: Any,
) -> Counting:
    """Count what a step returns."""
    counting.collector.update(Output(preds, target, **fields), batch_idx, dataloader_idx)
    return counting


def score(counting: Counting, naming: Naming | None = None, parts: bool | Sequence[str] = True) -> Validation:
    """Score what was counted, without intervals and comparisons."""
    return score_joined(counting, join(counting), naming, parts)


def score_joined(
    counting: Counting, joined: Joined, naming: Naming | None = None, parts: bool | Sequence[str] = True
) -> Validation:
    """Score what was joined, as process 0 does."""
    naming = naming or Naming()
    loaders = joined.loaders
    named_parts = () if isinstance(parts, bool) else parts
    scored, mistakes = score_loaders(counting.metrics, loaders, named_parts)
    WarnOnce().about_all([*mistakes, *joined.mistakes])
    return Validation(
        naming,
        counting.metrics,
        group_by_loader(scored, loaders),
        scored,
        {naming.render(score.name): score.result for score in scored},
        name_numbers(scored, naming, parts),
    )


def join(counting: Counting) -> Joined:
    """What all processes have counted, in each of them."""
    return exchange(counting.collector.close, counting.collector.join)


def gather(counting: Counting) -> Sentences:
    """The sentences of the only loader."""
    (loader,) = score(counting).loaders
    return loader.sentences


def begin(evaluator: Evaluator, names: Sequence[str] = ("",), **plan: Any) -> StartedValidation:
    """Begin a validation of loaders with these names."""
    options = {"stage": "val", "names": names, "dataloaders": [None] * len(names), "origin": CALL} | plan
    return evaluator.begin(Plan(**options))


def score_started(evaluator: Evaluator, started: StartedValidation, **options: bool) -> Validation:
    """The scores of a validation of a single process."""
    evaluator.score(started, **options)
    assert started.validation is not None
    return started.validation


# What metrics alone say


def rows_of(metric: Any, preds: Any, target: Any) -> Tensor:
    """The statistics of each sentence."""
    rows, _ = count_sentences(preds, target, metric.scorer)
    return rows


def find_interval(metric: Any, rows: Tensor, confidence: float = 0.95, *, seed: int = 0) -> Interval:
    """The interval of the score of these sentences."""
    (scores,) = resample_scores([rows.double()], metric.scorer, 1000, seed)
    return interval_of(scores, metric.scorer, confidence)


def bootstrap(
    metric: Any, rows: Tensor, other_rows: Tensor, confidence: float = 0.95, *, resamples: int = 1000, seed: int = 0
) -> PairedTest:
    """The paired bootstrap of two systems on the same sentences."""
    scores = resample_scores([rows.double(), other_rows.double()], metric.scorer, resamples, seed)
    return paired_test_of(scores, metric.scorer, confidence)
