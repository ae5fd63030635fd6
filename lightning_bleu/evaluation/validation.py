"""The end of a validation: the scores of all subsets, their means, and how certain they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.metrics import EvaluatorMetric
from lightning_bleu.evaluation.names import Name, Naming, score_key
from lightning_bleu.evaluation.opponents import Opponent, RowsBySubset, find_uncertainty
from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.sentences import GatheredSentences, SentenceRows
from lightning_bleu.evaluation.subsets import Subset

_MAX_DETAILED = 20
"""The number of loaders or groups up to which more than their scores is logged and shown."""


@dataclass(frozen=True, eq=False)
class ScoredSubset:
    """The sentences of a subset with their scores.

    Attributes:
        names: the names of the loader and of the group, without those that have none.
        metrics: the metrics by name.
        sentences: the sentences.
        rows: the rows of each score that sentences have, by the name of the score; see :func:`score_key`.
        results: the results by the same names, of all scores.
    """

    names: tuple[str, ...]
    metrics: Mapping[str, EvaluatorMetric]
    sentences: GatheredSentences
    rows: dict[str, SentenceRows]
    results: dict[str, Result]


@dataclass(frozen=True)
class Score:
    """A logged score.

    Attributes:
        name: what it is the score of.
        result: the score.
        metric_class: the name of the class of its metric.
        settings: what the score depends on, as plain values; None if that is unknown, and for a mean.
    """

    name: Name
    result: Result
    metric_class: str
    settings: Mapping[str, Any] | None = None


class NewOpponent(NamedTuple):
    """A validation with which later ones will be compared."""

    opponent: Opponent
    rows: RowsBySubset


@dataclass(frozen=True, eq=False)
class ScoredValidation:
    """A validation that has been scored.

    Attributes:
        naming: how its names are written.
        scores: its scores: for each metric and each of its scores, those of the subsets, then that of their mean.
        subsets: its subsets.
        new_opponents: what is compared with from now on; see :meth:`replace_opponents`.
    """

    naming: Naming
    scores: Sequence[Score]
    subsets: Sequence[ScoredSubset]
    new_opponents: Sequence[NewOpponent] = ()

    @cached_property
    def results(self) -> dict[str, Result]:
        """The results by logged name.

        Raises:
            ValueError: if two scores have the same name.
        """
        results: dict[str, Result] = {}
        for score in self.scores:
            _add(results, self.naming.render(score.name), score.result)
        return results

    @cached_property
    def numbers(self) -> dict[Name, float]:
        """Everything that is logged."""
        numbers = {}
        for score in self.scores:
            values = score.result.values() if self.is_detailed(score.name) else {"": score.result.score}
            for detail, value in values.items():
                numbers[score.name._replace(detail=detail)] = value
        return numbers

    @cached_property
    def logged_numbers(self) -> dict[str, float]:
        """Everything that is logged, by logged name.

        Raises:
            ValueError: if two numbers have the same name.
        """
        logged: dict[str, float] = {}
        for name, value in self.numbers.items():
            _add(logged, self.naming.render(name), value)
        return logged

    @property
    def has_mean(self) -> bool:
        """Whether subsets have names, so that the score of the validation is the mean of theirs."""
        return any(subset.names for subset in self.subsets)

    @property
    def shows_subsets(self) -> bool:
        """Whether more than the scores of the subsets is logged and shown."""
        return len(self.subsets) <= _MAX_DETAILED

    def is_detailed(self, name: Name) -> bool:
        """Whether more than a score itself is logged and shown."""
        return self.shows_subsets or not name.subset

    def check_names(self) -> None:
        """Raise a ValueError if two numbers have the same logged name."""
        self.results  # noqa: B018
        self.logged_numbers  # noqa: B018

    def replace_opponents(self) -> None:
        """Compare later validations with this one, where it is the first or better."""
        for opponent, rows in self.new_opponents:
            opponent.save(rows)


def _add(values: dict[str, Any], logged: str, value: Any) -> None:
    if logged in values:
        raise ValueError(f"two scores would be logged as {logged!r}: rename a metric, a score, a loader, or a group")
    values[logged] = value


def score_validation(
    table: MetricTable,
    subsets: Sequence[Subset],
    gathered: Sequence[GatheredSentences],
    naming: Naming,
    *,
    confidence: float | None = None,
    find_opponent: Callable[[Name], Opponent | None] | None = None,
    keep: bool = True,
) -> ScoredValidation:
    """Score the sentences of all processes. Collective.

    Args:
        table: the metrics.
        subsets: the subsets, the same in all processes.
        gathered: their sentences.
        naming: how the names are written.
        confidence: the confidence level of the intervals; None for no intervals.
        find_opponent: what to compare a score with; None for no comparison.
        keep: whether this validation may become the best.
    """
    scored_subsets = [
        ScoredSubset(subset.names, subset.metrics, sentences, {}, {}) for subset, sentences in zip(subsets, gathered)
    ]
    scores: list[Score] = []
    new_opponents: list[NewOpponent] = []
    for metric in table.names:
        for score in _score_subsets(metric, scored_subsets):
            name = Name(metric, score=score)
            results, rows = _collect(name, scored_subsets, naming)
            opponent = None if find_opponent is None else find_opponent(name)
            if opponent is not None and not opponent.can_judge(table.first(metric).direction_of(score)):
                opponent = None
            if rows:
                mean = naming.render(name)
                uncertainty = find_uncertainty(results, rows, mean, confidence, opponent, keep=keep)
                results = uncertainty.results
                if opponent is not None and uncertainty.is_new_opponent:
                    new_opponents.append(NewOpponent(opponent, rows))
            scores += _to_scores(name, results, scored_subsets, table, naming)
    return ScoredValidation(naming, scores, scored_subsets, new_opponents)


def _score_subsets(metric: str, subsets: Sequence[ScoredSubset]) -> list[str]:
    """Score all subsets with the metrics of a name; returns the names of the scores. Collective."""
    subsets_by_metric: dict[EvaluatorMetric, list[ScoredSubset]] = {}
    for subset in subsets:
        subsets_by_metric.setdefault(subset.metrics[metric], []).append(subset)
    score_names: dict[str, None] = {}  # an ordered set
    for scorer, scored_together in subsets_by_metric.items():
        answers = scorer.score([subset.sentences for subset in scored_together])
        for subset, answer in zip(scored_together, answers):
            for score, of_subset in answer.items():
                key = score_key(metric, score)
                subset.results[key] = scorer.result_of(score, of_subset)
                if isinstance(of_subset, SentenceRows):
                    subset.rows[key] = of_subset
                score_names[score] = None
    return list(score_names)


def _collect(
    name: Name, subsets: Sequence[ScoredSubset], naming: Naming
) -> tuple[dict[str, Result], dict[str, SentenceRows]]:
    """The results of a score by logged name, also of the mean; and its rows, if all subsets have rows."""
    key = score_key(name.metric, name.score)
    results: dict[str, Result] = {}
    rows: dict[str, SentenceRows] = {}
    for subset in subsets:
        if key in subset.results:
            logged = naming.render(name._replace(subset=subset.names))
            results[logged] = subset.results[key]
            if key in subset.rows:
                rows[logged] = subset.rows[key]
    if len(rows) < len(results):
        rows = {}
    if any(subset.names for subset in subsets):
        results[naming.render(name)] = _mean(list(results.values()))
    return results, rows


def _mean(results: Sequence[Result]) -> Result:
    """The mean of the scores of subsets. All of them have one scale and one direction."""
    mean = math.fsum(result.score for result in results) / len(results)
    return Result(mean, higher_is_better=results[0].higher_is_better, percent=results[0].percent)


def _to_scores(
    name: Name, results: Mapping[str, Result], subsets: Sequence[ScoredSubset], table: MetricTable, naming: Naming
) -> list[Score]:
    """The scores of subsets, then that of the whole validation."""
    key = score_key(name.metric, name.score)
    scores = []
    for subset in subsets:
        of_subset = name._replace(subset=subset.names)
        if key in subset.results:
            result = subset.results[key] = results[naming.render(of_subset)]
            settings = subset.rows[key].settings if key in subset.rows else None
            scores.append(Score(of_subset, result, subset.metrics[name.metric].class_name, settings))
    if any(subset.names for subset in subsets):
        scores.append(Score(name, results[naming.render(name)], table.first(name.metric).class_name))
    return scores
