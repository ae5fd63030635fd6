"""The end of a validation: the scores of all subsets, their means, and how certain they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.metrics import EvaluatorMetric
from lightning_bleu.evaluation.names import ALL_GROUPS, Name, Naming, score_key
from lightning_bleu.evaluation.opponents import Opponent, RowsBySubset, UncertainScore, find_uncertainty
from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.sentences import GatheredSentences, JoinedSentences, SentenceRows
from lightning_bleu.evaluation.subsets import Subset
from lightning_bleu.messages import WarnOnce

_MAX_DETAILED = 20
"""The number of loaders or groups up to which more than their scores is logged and shown."""


SentencesT = TypeVar("SentencesT", GatheredSentences, JoinedSentences)


@dataclass(frozen=True, eq=False)
class ScoredSubset(Generic[SentencesT]):
    """The sentences of a subset, or of all groups of a loader, with their scores.

    Attributes:
        names: the names of the loader and of the group, without those that have none.
        metrics: the metrics by name. For all groups, only those that score all groups alike.
        sentences: the sentences.
        rows: the rows of each score that sentences have, by the name of the score; see :func:`score_key`.
        results: the results by the same names, of all scores.
        rows_before: the rows of the scores that are compared with an earlier validation, in that validation.
    """

    names: tuple[str, ...]
    metrics: Mapping[str, EvaluatorMetric]
    sentences: SentencesT
    rows: dict[str, SentenceRows] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    rows_before: dict[str, SentenceRows] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """A logged score.

    Attributes:
        name: what it is the score of.
        result: the score.
        metric_class: the name of the class of its metric.
        rows: the rows of its sentences; None if they have no scores, and for a mean.
    """

    name: Name
    result: Result
    metric_class: str
    rows: SentenceRows | None = None

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """What the score depends on, as plain values; None if that is unknown, and for a mean."""
        return None if self.rows is None else self.rows.settings

    @property
    def forms(self) -> list[str]:
        """How the sentences were passed: ``"strings"``, ``"tokens"``, or ``"ids"``; empty if that is unknown."""
        return [] if self.rows is None else self.rows.input_counts.kinds


class NewOpponent(NamedTuple):
    """A validation with which later ones will be compared."""

    opponent: Opponent
    rows: RowsBySubset


@dataclass(frozen=True, eq=False)
class ScoredValidation:
    """A validation that has been scored.

    Attributes:
        naming: how its names are written.
        scores: its scores: for each metric and each of its scores, those of the subsets, those of all groups of a
            loader, then the mean of the subsets.
        subsets: its subsets.
        unions: all groups of each loader that has groups.
        new_opponents: what is compared with from now on; see :meth:`replace_opponents`.
    """

    naming: Naming
    scores: Sequence[Score]
    subsets: Sequence[ScoredSubset[GatheredSentences]]
    unions: Sequence[ScoredSubset[JoinedSentences]] = ()
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
            metric, subset, score_name, _ = score.name
            for detail, value in values.items():
                numbers[Name(metric, subset, score_name, detail)] = value
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
        if self.shows_subsets or not name.subset:
            return True
        return name.subset not in self._names_of_subsets

    @cached_property
    def _names_of_subsets(self) -> set[tuple[str, ...]]:
        return {subset.names for subset in self.subsets}

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
    warn: WarnOnce | None = None,
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
        warn: warns about comparisons of few sentences.
    """
    scored_subsets = [
        ScoredSubset(subset.names, subset.metrics, sentences) for subset, sentences in zip(subsets, gathered)
    ]
    unions = _join_groups(subsets, scored_subsets)
    results_of_scores: list[ResultsOfScore] = []
    for metric in table.names:
        for score in _score_subsets(metric, [*scored_subsets, *unions]):
            results_of_scores.append(
                ResultsOfScore(Name(metric, score=score), scored_subsets, unions, naming, table.first(metric))
            )
    with_rows = [results for results in results_of_scores if results.rows()]
    uncertain_scores = [results.to_uncertain(find_opponent, keep=keep) for results in with_rows]
    uncertainties = dict(zip(with_rows, find_uncertainty(uncertain_scores, confidence, warn=warn)))
    scores: list[Score] = []
    new_opponents: list[NewOpponent] = []
    for results, uncertain_score in zip(with_rows, uncertain_scores):
        results.keep_rows_before(uncertain_score)
        if uncertain_score.opponent is not None and uncertainties[results].is_new_opponent:
            new_opponents.append(NewOpponent(uncertain_score.opponent, uncertain_score.current))
    for results in results_of_scores:
        uncertainty = uncertainties.get(results)
        scores += results.to_scores(results.results() if uncertainty is None else uncertainty.results)
    return ScoredValidation(naming, scores, scored_subsets, unions, new_opponents)


def _join_groups(
    subsets: Sequence[Subset], scored_subsets: Sequence[ScoredSubset[GatheredSentences]]
) -> list[ScoredSubset[JoinedSentences]]:
    """All groups of each loader that has groups, with the metrics that score all of them alike."""
    groups_of_loader: dict[str, list[ScoredSubset[GatheredSentences]]] = {}
    for subset, scored_subset in zip(subsets, scored_subsets):
        if subset.group is not None:
            groups_of_loader.setdefault(subset.loader, []).append(scored_subset)
    unions = []
    for loader, groups in groups_of_loader.items():
        names = (loader, ALL_GROUPS) if loader else (ALL_GROUPS,)
        metrics = {}
        for name, metric in groups[0].metrics.items():
            metrics_of_groups = [group.metrics.get(name) for group in groups]
            if all(other is not None and metric.scores_like(other) for other in metrics_of_groups):
                metrics[name] = metric
        unions.append(ScoredSubset(names, metrics, JoinedSentences([group.sentences for group in groups])))
    return unions


def _score_subsets(metric: str, subsets: Sequence[ScoredSubset[Any]]) -> list[str]:
    """Score all subsets with the metrics of a name; returns the names of the scores. Collective."""
    score_names: dict[str, None] = {}  # an ordered set
    for scorer, scored_together in _group_by_metric(metric, subsets):
        answers = scorer.score([subset.sentences for subset in scored_together])
        for subset, answer in zip(scored_together, answers):
            for score, of_subset in answer.items():
                key = score_key(metric, score)
                subset.results[key] = scorer.result_of(score, of_subset, len(subset.sentences))
                if isinstance(of_subset, SentenceRows):
                    subset.rows[key] = of_subset
                score_names[score] = None
    return list(score_names)


def _group_by_metric(
    metric: str, subsets: Sequence[ScoredSubset[Any]]
) -> list[tuple[EvaluatorMetric, list[ScoredSubset[Any]]]]:
    """The metrics of a name, each with the subsets that it scores."""
    groups: list[tuple[EvaluatorMetric, list[ScoredSubset[Any]]]] = []
    for subset in subsets:
        scorer = subset.metrics.get(metric)
        if scorer is None:
            continue
        for other, scored_together in groups:
            if scorer.scores_like(other):
                scored_together.append(subset)
                break
        else:
            groups.append((scorer, [subset]))
    return groups


class ResultsOfScore:
    """The results of one score, of all subsets.

    Args:
        name: the name of the score, without a subset.
        subsets: the scored subsets.
        unions: all groups of each loader that has groups.
        naming: how names are written.
        metric: the metric, or one of those that score the subsets.
    """

    def __init__(
        self,
        name: Name,
        subsets: Sequence[ScoredSubset[GatheredSentences]],
        unions: Sequence[ScoredSubset[JoinedSentences]],
        naming: Naming,
        metric: EvaluatorMetric,
    ) -> None:
        self.name = name
        self._metric = metric
        everything: list[ScoredSubset[Any]] = [*subsets, *unions]
        self._places = {subset.names: place for place, subset in enumerate(everything)}
        self._key = score_key(name.metric, name.score)
        self._subsets = [subset for subset in subsets if self._key in subset.results]
        self._unions = [union for union in unions if self._key in union.results]
        self._all: list[ScoredSubset[Any]] = [*self._subsets, *self._unions]
        # A function may score all groups together, and none of them alone.
        self._has_mean = bool(self._subsets) and any(subset.names for subset in subsets)
        self._naming = naming
        self._logged_names = {subset.names: naming.render(name._replace(subset=subset.names)) for subset in self._all}

    def _logged(self, subset: ScoredSubset[Any]) -> str:
        return self._logged_names[subset.names]

    @property
    def _mean(self) -> str:
        """The logged name of the mean, or of the only subset."""
        return self._naming.render(self.name)

    def results(self) -> dict[str, Result]:
        """The results by logged name: of the subsets, of all groups of loaders, and of the mean of the subsets."""
        results = {self._logged(subset): subset.results[self._key] for subset in self._all}
        if self._has_mean:
            results[self._mean] = _average([subset.results[self._key] for subset in self._subsets])
        return results

    def rows(self) -> dict[str, SentenceRows]:
        """The rows of the subsets by logged name, and of unions whose rows are not those of their subsets.

        Empty unless all subsets have rows.
        """
        if not self._subsets or not all(self._key in subset.rows for subset in self._subsets):
            return {}
        with_rows = [*self._subsets, *self._find_unions(scores_sentences=False)]
        return {self._logged(subset): subset.rows[self._key] for subset in with_rows}

    def _find_unions(self, *, scores_sentences: bool) -> list[ScoredSubset[Any]]:
        """The unions that have rows, of metrics that score each sentence independently, or of the others."""
        return [
            union
            for union in self._unions
            if self._key in union.rows and union.metrics[self.name.metric].scores_sentences == scores_sentences
        ]

    def _unions_by_name(self) -> dict[str, list[str]]:
        """The logged names of unions that have the rows of their subsets, each with those of these subsets."""
        names_of_members = {subset.sentences: self._logged(subset) for subset in self._subsets}
        unions = {}
        for union in self._find_unions(scores_sentences=True):
            members = [member for member in union.sentences.members if member in names_of_members]
            unions[self._logged(union)] = [names_of_members[member] for member in members]
        return unions

    def to_uncertain(self, find_opponent: Callable[[Name], Opponent | None] | None, *, keep: bool) -> UncertainScore:
        """What intervals and comparisons need to know. All subsets must have rows."""
        opponent = None if find_opponent is None else find_opponent(self.name)
        if opponent is not None and not opponent.can_judge(self._metric.direction_of(self.name.score)):
            opponent = None
        places = {self._logged(subset): self._places[subset.names] for subset in self._all}
        return UncertainScore(
            self.results(),
            self.rows(),
            self._mean,
            opponent,
            averaged=[self._logged(subset) for subset in self._subsets],
            unions=self._unions_by_name(),
            places=places,
            keep=keep,
        )

    def keep_rows_before(self, uncertain: UncertainScore) -> None:
        """Let the subsets keep their rows in the earlier validation that they are compared with."""
        if uncertain.other is None or uncertain.other is uncertain.current:
            return
        for subset in self._subsets:
            subset.rows_before[self._key] = uncertain.other[self._logged(subset)]

    def to_scores(self, results: Mapping[str, Result]) -> list[Score]:
        """The scores of the subsets, of all groups of loaders, and of the mean."""
        scores = []
        for subset in self._all:
            result = subset.results[self._key] = results[self._logged(subset)]
            metric_class = subset.metrics[self.name.metric].class_name
            name = self.name._replace(subset=subset.names)
            scores.append(Score(name, result, metric_class, subset.rows.get(self._key)))
        if self._has_mean:
            scores.append(Score(self.name, results[self._mean], self._metric.class_name))
        return scores


def _average(results: Sequence[Result]) -> Result:
    """The mean of the scores of subsets. All of them have one scale and one direction."""
    mean = math.fsum(result.score for result in results) / len(results)
    return Result(mean, higher_is_better=results[0].higher_is_better, percent=results[0].percent)
