"""The metrics of a callback, counted batch by batch or scored from the texts of all sentences, and their results."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import nn
from torchmetrics import Metric

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.results import Interval, PairedTest
from lightning_bleu.scoring.signature import InputCounts
from lightning_bleu.settings.settings import Settings
from lightning_bleu.torchmetrics_fixes import ordinary_tensors
from lightning_bleu.training.best import Corpus
from lightning_bleu.training.sentences import Sentence, Table

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


@dataclass(frozen=True)
class Result:
    """What a metric says about the sentences of a validation, of one loader, or of one group, or the mean of these.

    Attributes:
        scores: the scores by the last part of their logged names: ``""`` for the score itself, ``"rouge1_fmeasure"``
            and so on for a metric with several scores.
        parts: the components of the score, such as precisions. A mean has none.
        report: the score as an object that prints, a :class:`lightning_bleu.BLEUScore` or a
            :class:`lightning_bleu.CHRFScore`; None for a mean, and for metrics of other packages.
        interval: the confidence interval, if requested.
        comparison: the paired test against the best validation so far; None if there was none to compare with.
        best: the score of the best validation so far, if requested.
    """

    scores: dict[str, float]
    parts: dict[str, float] = field(default_factory=dict)
    report: Any = None
    interval: Interval | None = None
    comparison: PairedTest | None = None
    best: float | None = None

    @property
    def score(self) -> float:
        """The score.

        Raises:
            AttributeError: for a metric with several scores; see `scores`.
        """
        if "" not in self.scores:
            raise AttributeError(f"this metric has several scores: choose one of .scores, {[*self.scores]}")
        return self.scores[""]

    def values(self) -> dict[str, float]:
        """All that is logged, by the last part of its name; ``""`` for the score itself."""
        return {**self.scores, **self.parts, **self._uncertainty()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that :mod:`json` can serialize."""
        scores = {part or "score": value for part, value in self.scores.items()}
        return scores | ({} if self.report is None else self.report.to_dict()) | self._uncertainty()

    def _uncertainty(self) -> dict[str, float]:
        values = {} if self.interval is None else {"low": self.interval.low, "high": self.interval.high}
        if self.best is not None:
            values |= {"p_value": self.comparison.p_value if self.comparison else 1.0, "best": self.best}
        return values


class Counted:
    """A metric of this package. Its statistics are counted batch by batch.

    Args:
        name: its name, for error messages.
        metric: the metric. Only its settings matter: its state is not used.

    Attributes:
        columns: the number of statistics of a sentence.
        needs_text: whether sentences must be text.
        reading: how the metric reads ids.
        parts: the last parts of the names of its scores; ``""`` for a single score.
        higher_is_better: whether a higher score is better; None if that is unknown.
        scale: the score of a perfect translation; None if that is unknown.
    """

    higher_is_better, parts = True, ("",)

    def __init__(self, name: str, metric: CorpusMetric) -> None:
        self.name = name
        self.metric = metric
        self.reading = metric.settings.for_reading
        self.columns, self.needs_text, self.scale = metric.columns, metric.settings.needs_text, metric.settings.scale
        self.count_rows, self.suspect = metric.count_rows, metric.suspect

    def score(self, table: Table) -> tuple[Result, Corpus]:
        """Score the sentences of all processes."""
        statistics = table.statistics(self.name)
        report = self.metric.report_of(statistics.sum(0), InputCounts.of_kept(table.kept))
        corpus = Corpus(table.kept.identity, statistics, self.metric.scoring, self.metric.settings.plain())
        return Result({"": report.score}, report.parts(), report), corpus


class OfText:
    """A metric of torchmetrics or sacreBLEU. It scores the texts of all sentences at the end, in process 0.

    Args:
        name: its name, for error messages.
        metric: the metric; it is copied.

    Attributes:
        columns, needs_text, reading, parts, higher_is_better, scale: see :class:`Counted`.

    Raises:
        TypeError: if it does not take a list of references for each hypothesis, or if its result is neither a number
            nor a dict of numbers.
    """

    columns, needs_text, reading, scale = 0, True, Settings(), None

    def __init__(self, name: str, metric: Any) -> None:
        self.name = name
        # Some tokenizers of sacreBLEU cannot be copied.
        self.metric = copy.copy(metric) if isinstance(metric, SacreMetric) else copy.deepcopy(metric)
        for part in self.metric.modules() if isinstance(self.metric, nn.Module) else ():  # and the metrics inside it
            if isinstance(part, Metric):
                part.distributed_available_fn = _is_distributed
        takes = f"the metric {name!r} must take a list of strings, and a list of references for each, but "
        try:
            right, wrong = score_texts(self.metric, _RIGHT), score_texts(self.metric, _WRONG)
        except Exception as error:
            raise TypeError(f"{takes}it cannot score two sentences: {type(error).__name__}: {error}") from error
        if right == wrong:
            raise TypeError(f"{takes}it gives right and wrong hypotheses the same score, {right.get('', right)}")
        self.parts = tuple(sorted(right))
        directions = {right[part] > wrong[part] for part in right if right[part] != wrong.get(part, right[part])}
        self.higher_is_better = directions.pop() if len(directions) == 1 else None

    def count_rows(self, batch: Batch) -> IntArray:
        """No statistics."""
        return np.zeros((batch.sentence_count, 0), np.int64)

    def suspect(self, batch: Batch) -> Iterator[str]:
        """No mistakes."""
        return iter(())

    def score(self, table: Table) -> tuple[Result, None]:
        """Score the sentences of all processes. Collective."""
        return Result(run_in_process_0(partial(self._score, table.sentences.texts))), None

    def _score(self, sentences: Sequence[Sentence]) -> dict[str, float]:
        try:
            return score_texts(self.metric, sentences)
        except Exception as error:
            raise RuntimeError(f"the metric {self.name!r} failed: {type(error).__name__}: {error}") from error


def _is_distributed() -> bool:
    """For torchmetrics: only one process computes the metric, so there is nothing to sync."""
    return False


AnyMetric: TypeAlias = Counted | OfText


def wrap_metric(name: str, metric: Any) -> AnyMetric:
    """A metric of a callback.

    Args:
        name: its name, for error messages.
        metric: a :class:`lightning_bleu.metric.CorpusMetric`, a metric of sacreBLEU, or one of torchmetrics.

    Raises:
        TypeError: if it is none of them, or if it cannot score text.
    """
    if isinstance(metric, CorpusMetric):
        return Counted(name, metric)
    is_class = isinstance(metric, type)
    has_methods = hasattr(metric, "update") and hasattr(metric, "compute")
    if is_class or not (has_methods or isinstance(metric, SacreMetric)):
        raise TypeError(
            f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, got {metric!r}"
            + ": make an instance of it" * is_class
        )
    return OfText(name, metric)


def score_texts(metric: Any, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Score sentences with a metric of torchmetrics or sacreBLEU.

    Returns:
        the score by the last part of its name; ``""`` for a metric with a single score.

    Raises:
        TypeError: if the result is neither a number nor a dict of numbers.

    Example:
        >>> from sacrebleu.metrics import TER
        >>> score_texts(TER(), [Sentence("a b c", ["a b d", "a c"]), Sentence("a", ["a"])])
        {'': 28.57142857142857}
    """
    hypotheses, references = [one.hypothesis for one in sentences], [one.references for one in sentences]
    if isinstance(metric, SacreMetric):
        return {"": float(metric.corpus_score(hypotheses, [*zip_longest(*references)]).score)}
    with ordinary_tensors():
        copied = copy.deepcopy(metric)  # a collection merges metrics that agree on its first update
        copied.reset()
        copied.update(hypotheses, references)
        value = copied.compute()
    parts = value if isinstance(value, Mapping) else {"": value}
    try:
        return {str(name): float(part) for name, part in parts.items()}
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"the result must be a number or a dict of numbers, got {value!r}") from None


def mean_of(results: Sequence[Result]) -> Result:
    """The means of the scores that all labels have.

    Example:
        >>> mean_of([Result({"": 0.25}, parts={"precision": 0.5}), Result({"": 0.75})])
        Result(scores={'': 0.5}, parts={}, report=None, interval=None, comparison=None, best=None)
    """
    shared = [part for part in results[0].scores if all(part in one.scores for one in results)]
    return Result({part: math.fsum(one.scores[part] for one in results) / len(results) for part in shared})
