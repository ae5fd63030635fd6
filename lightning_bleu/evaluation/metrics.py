"""The metrics of an evaluator: what all kinds have in common, and those whose statistics are counted batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch

from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.sentences import SentenceRows, SubsetSentences
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import InputCounts, kind_of
from lightning_bleu.reading.mistakes import Mistake, suspect_script
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.scoring import Component, Report
from lightning_bleu.settings.settings import Settings

ScoreOfSubset: TypeAlias = SentenceRows | float
"""What a metric says about a subset: the rows of its sentences, from which the score follows, or only a score."""


class EvaluatorMetric:
    """A metric of an evaluator: what all kinds of metrics have in common.

    Attributes:
        name: its name.
        parts: the names of the components to log, or whether to log the default ones.
        passed: what the user passed as the metric.
        class_name: the name of its class, which is recorded.
        columns: the number of statistics of a sentence that are counted batch by batch.
        reading: how the metric reads ids.
        needs_texts: whether the texts of all sentences must be kept.
        counts_tokens: whether it counts tokens and ids, and not only text.
        takes_sources: whether the metric takes sources.
        needs_references: whether it cannot score sentences without references.
        scores_sentences: whether it scores each sentence independently of the others.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        directions: whether a higher score is better, by the name of the score; None if neither is, or if that is
            unknown. The name ``""`` is that of a single score, and stands for all scores that have no entry.
        components: the components of its scores, with the value 0.
    """

    name: str
    parts: bool | Sequence[str] = True
    passed: Any
    class_name: str
    columns = 0
    reading = Settings()
    needs_texts = True
    counts_tokens = False
    takes_sources = False
    needs_references = True
    scores_sentences = False
    percent: bool | None = None
    directions: Mapping[str, bool | None] = MappingProxyType({"": True})
    components: Sequence[Component] = ()

    @property
    def logged_components(self) -> list[Component]:
        """Those of the components that are logged."""
        return [component for component in self.components if self._logs(component)]

    def _logs(self, component: Component) -> bool:
        """Whether a component is logged."""
        if isinstance(self.parts, bool):
            return self.parts and component.is_default
        return component.name in self.parts

    def scores_like(self, other: EvaluatorMetric) -> bool:
        """Whether another metric of the same name gives the same scores to the same sentences."""
        return self.passed is other.passed

    def direction_of(self, score: str) -> bool | None:
        """Whether a higher score is better."""
        return self.directions.get(score, self.directions.get(""))

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        if self.needs_texts and kind_of(batch.segments) not in ("strings", "empty"):
            raise TypeError(
                f"the metric {self.name!r} needs text, got {kind_of(batch.segments)}: return strings (join tokens with "
                "spaces), or decode ids with the option decoder=tokenizer"
            )

    def count_rows(self, batch: Batch) -> IntArray:
        """Count the statistics of each sentence, of shape ``(sentences, columns)``."""
        return np.zeros((batch.sentence_count, 0), np.int64)

    def suspect(self, batch: Batch) -> Iterator[Mistake]:
        """Warn about likely mistakes in a batch."""
        return iter(())

    def score(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, ScoreOfSubset]]:
        """Score the sentences of all processes. Collective.

        Returns:
            for each subset, its scores by name; nothing for nothing to log.
        """
        raise NotImplementedError

    def result_of(self, score: str, of_subset: ScoreOfSubset, sentences: int) -> Result:
        """The result of one of the scores that :meth:`score` returned, with the components that are logged.

        Args:
            score: the name of the score.
            of_subset: what :meth:`score` returned for it.
            sentences: the number of sentences of the subset.
        """
        report = self.report_of(score, of_subset)
        components = [component for component in self.components_of(report, sentences) if self._logs(component)]
        return Result(
            float(report),
            tuple(components),
            report if isinstance(report, Report) else None,
            higher_is_better=self.direction_of(score),
            percent=self.percent,
        )

    def report_of(self, score: str, of_subset: ScoreOfSubset) -> Report | float:
        """A score as an object that prints, if the metric has one, or as a number."""
        return of_subset.score() if isinstance(of_subset, SentenceRows) else of_subset

    def components_of(self, report: Any, sentences: int) -> list[Component]:
        """The components of a score; see :attr:`components`."""
        return []


class CountedMetric(EvaluatorMetric):
    """A metric of this package. Its statistics are counted batch by batch.

    Args:
        name: its name.
        metric: the metric. Only its settings matter: its state is not used.
    """

    needs_texts = False
    scores_sentences = True

    def __init__(self, name: str, metric: CorpusMetric) -> None:
        self.name = name
        self.passed = metric
        self.class_name = type(metric).__name__
        self.metric = metric
        self.columns = metric.columns
        self.counts_tokens = metric.counts_tokens
        self.reading = metric.settings.for_reading
        self.percent = metric.scoring.percent
        self.directions = {"": metric.scoring.higher_is_better}
        nothing = torch.zeros(metric.columns, dtype=torch.int64, device="cpu")
        self.components = metric.components(metric.report_of(nothing, InputCounts()))

    def scores_like(self, other: EvaluatorMetric) -> bool:
        """Whether another metric of the same name gives the same scores to the same sentences."""
        return (
            isinstance(other, CountedMetric)
            and type(self.metric) is type(other.metric)
            and self.metric.settings == other.metric.settings
        )

    def count_rows(self, batch: Batch) -> IntArray:
        """Count the statistics of each sentence, of shape ``(sentences, columns)``."""
        return self.metric.count_rows(batch)

    def suspect(self, batch: Batch) -> Iterator[Mistake]:
        """Warn about likely mistakes in a batch."""
        return suspect_script(batch.segments, batch.sentence_count, self.metric.settings)

    def score(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, ScoreOfSubset]]:
        """Score the sentences of all processes, for each subset."""
        scores: list[dict[str, ScoreOfSubset]] = []
        for sentences in subsets:
            statistics = sentences.statistics(self.name)
            settings = self.metric.settings.plain()
            scores.append({"": SentenceRows(sentences.identity, statistics, self.metric.scoring, settings)})
        return scores

    def report_of(self, score: str, of_subset: ScoreOfSubset) -> Report:
        """The score with all that it is computed from."""
        assert isinstance(of_subset, SentenceRows)
        report: Report = self.metric.report_of(of_subset.statistics.sum(0), of_subset.input_counts)
        return report

    def components_of(self, report: Any, sentences: int) -> list[Component]:
        """The components of a score; see :attr:`components`."""
        are_named = not isinstance(self.parts, bool)
        return self.metric.components(report, optional=are_named)
