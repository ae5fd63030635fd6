"""How certain scores are: their intervals, and the comparison with an earlier validation."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.sentences import SentenceRows, join_rows
from lightning_bleu.messages import WarnOnce, warn_user
from lightning_bleu.processes import (
    gather_objects,
    process_count,
    process_rank,
    run_in_process_0,
    sum_over_processes,
)
from lightning_bleu.scoring.resampling import (
    MIN_SENTENCES,
    PairedTest,
    describe_few_sentences,
    draw_with_replacement,
    interval_of,
    paired_test_of,
    score_resamples,
    weighted_sums,
)
from lightning_bleu.scoring.scoring import Scoring

MIN_LEVEL = 0.001
"""The smallest significance level: a smaller one would need too many resamples in each validation."""
_RESAMPLES = 1000
_DEFAULT_CONFIDENCE = 0.95
OpponentKind: TypeAlias = Literal["best", "first"]
RowsBySubset: TypeAlias = Mapping[str, SentenceRows]
"""The sentences of each subset, by the logged name of its score."""
Unions: TypeAlias = Mapping[str, Sequence[str]]
"""The logged names of scores of several subsets together, each with those of the scores of these subsets."""


@dataclass(eq=False)
class Opponent:
    """The validation with which others are compared: the best so far, or the first.

    The best is that with the best score, or with the best mean score of its subsets.

    Args:
        kind: which one.
        significance_level: a validation becomes the new best only if its p-value is below this level. If None, any
            higher score does.
        confidence: the confidence level of the interval of the difference; 0.95 when None.
    """

    kind: OpponentKind = "best"
    significance_level: float | None = None
    confidence: float | None = None
    _saved: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _warn_once: WarnOnce = field(default_factory=WarnOnce, init=False)

    @property
    def resamples(self) -> int:
        """The number of resamples. The smallest possible p-value is 1 / (resamples + 1), so a level needs enough."""
        return max(_RESAMPLES, math.ceil(10 / (self.significance_level or 1)))

    def can_judge(self, higher_is_better: bool | None) -> bool:
        """Whether a score can be compared. Without a direction, there is no best."""
        return self.kind == "first" or higher_is_better is not None

    def find(self, current: RowsBySubset, *, counts: bool = True) -> RowsBySubset | None:
        """The validation to compare the current one with; None if the current one lacks a subset of it.

        The current validation itself, if it is the first one, or if the two cannot be compared.

        Args:
            current: the current validation.
            counts: whether it may become the opponent, for warnings.
        """
        if not self._saved:
            return current
        label = "best validation so far" if self.kind == "best" else "first validation"
        missing = [name for name in self._saved if name not in current]
        if missing and len(missing) < len(self._saved):
            self._warn_once(
                f"This validation has no sentences of {missing}, unlike the {label}: they are not compared, and that "
                "one stays.",
                key="missing",
            )
            return None
        difference = self._find_difference(current)
        if difference:
            becomes_first = counts and self.kind == "best"
            consequence = "counts as the first" if becomes_first else "is compared with itself"
            warn_user(f"The {label} {difference}: they cannot be compared, so this validation {consequence}")
            return current
        return {name: self._saved_rows(name, rows.scoring) for name, rows in current.items()}

    def _saved_rows(self, name: str, scoring: Scoring) -> SentenceRows:
        """The saved sentences of a subset, to score them like the current ones."""
        saved = self._saved[name]
        return SentenceRows(saved["identity"], saved["statistics"], scoring, saved["settings"])

    def _find_difference(self, current: RowsBySubset) -> str:
        """Why a validation and the opponent cannot be compared, as what the opponent did; empty if they can be."""
        unsaved = [name for name in current if name not in self._saved]
        if unsaved:
            return f"had no sentences of {unsaved}"
        for name, rows in current.items():
            difference = _compare_sentences(name, self._saved_rows(name, rows.scoring), rows)
            if difference:
                return difference
        return ""

    def compare(
        self, current: RowsBySubset, scores: Mapping[str, Tensor], mean: str, unions: Unions
    ) -> dict[str, PairedTest]:
        """The paired test of each score, also of those of several subsets together, and of the mean.

        The scores of the subsets are averaged in each resample. So the comparison is that of the mean. With a single
        sentence, nothing is known about chance, so the p-value is 1.

        Args:
            current: the current validation.
            scores: the scores of each subset and of its resamples, those of unions, and the mean; see
                :func:`lightning_bleu.scoring.resampling.resample_scores`.
            mean: the logged name of the mean.
            unions: scores of several subsets together.
        """
        scoring = _shared_scoring(current)
        confidence = self.confidence or _DEFAULT_CONFIDENCE
        tests = {name: paired_test_of(of_name, scoring, confidence) for name, of_name in scores.items()}
        counts = {name: len(rows.identity) for name, rows in _add_unions(current, unions).items()}
        of_one_sentence = [name for name, count in counts.items() if count == 1]
        if all(counts[name] == 1 for name in current):
            of_one_sentence.append(mean)
        for name in of_one_sentence:
            tests[name] = replace(tests[name], p_value=1.0)
        return tests

    def is_replaced(self, current: RowsBySubset, other: RowsBySubset, of_mean: PairedTest) -> bool:
        """Whether the current validation is the new best, or the first. Collective: process 0 decides."""
        if other is current:
            return True
        if self.kind == "first":
            return False
        gain = of_mean.difference * _shared_scoring(current).sign
        is_significant = of_mean.p_value < (self.significance_level or math.inf)
        # Scores may differ in the last bit between processors.
        return run_in_process_0(lambda: gain > 0 and is_significant)

    def save(self, current: RowsBySubset) -> None:
        """Compare later validations with the current one. The first one is never replaced."""
        if self.kind == "best" or not self._saved:
            self._saved = {name: _to_save(rows) for name, rows in current.items()}

    def state_dict(self) -> dict[str, Any]:
        """The validation that is saved, to save it in a checkpoint; empty if there is none."""
        return dict(self._saved)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validation from a checkpoint."""
        self._saved = dict(state_dict)


def _to_save(rows: SentenceRows) -> dict[str, Any]:
    """Everything but the scoring. (A view of the statistics would save those of all metrics.)"""
    return {
        "identity": rows.identity.clone(),
        "statistics": rows.statistics.clone(),
        "settings": dict(rows.settings),
    }


def _shared_scoring(current: RowsBySubset) -> Scoring:
    """The scoring of any subset: all have one scale and one direction."""
    return next(iter(current.values())).scoring


def _compare_sentences(name: str, then: SentenceRows, now: SentenceRows) -> str:
    """What differs between the sentences of two validations; empty if they can be compared."""
    changed = [option for option, value in now.settings.items() if value != then.settings.get(option)]
    if changed:
        return f"scored {name!r} with different settings ({', '.join(changed)})"
    if then.statistics.shape[1] != now.statistics.shape[1]:
        return f"has statistics of {name!r} from another version"
    sentences_then, sentences_now = then.in_order, now.in_order
    if len(sentences_then.rows) != len(sentences_now.rows):
        return f"had {len(sentences_then.rows)} sentences of {name!r}, and this one has {len(sentences_now.rows)}"
    positions_then, positions_now = sentences_then.positions, sentences_now.positions
    # Positions are unknown in one process without an index, and derived in several.
    are_known = (positions_then >= 0).all() and (positions_now >= 0).all()
    if are_known and not torch.equal(positions_then, positions_now):
        return f"had other sentences of {name!r}"
    if not torch.equal(sentences_then.checksums, sentences_now.checksums):
        return (
            f"had other references for {name!r}, or the same in another order (then give the position of each sentence "
            "as 'index')"
        )
    return ""


@dataclass(frozen=True, eq=False)
class UncertainScore:
    """The results of one score, which get intervals and comparisons.

    Attributes:
        results: the results by logged name: those of the subsets, of unions, and of the mean.
        current: the sentences of each subset, and of unions whose statistics are not those of their subsets.
        mean: the logged name of the mean of the scores, which may be that of a single subset.
        opponent: what to compare with; None for no comparison.
        averaged: the names of the scores that the mean is of; all of `current` when None.
        unions: other scores of several subsets together, which have the statistics of these subsets.
        places: the place of each subset and union among all of the validation, which is the seed of its resamples.
        keep: whether the validation may become the best.
    """

    results: Mapping[str, Result]
    current: RowsBySubset
    mean: str
    opponent: Opponent | None = None
    averaged: Sequence[str] | None = None
    unions: Unions = field(default_factory=dict)
    places: Mapping[str, int] | None = None
    keep: bool = True

    @property
    def in_mean(self) -> Sequence[str]:
        """The names of the scores that the mean is of."""
        return list(self.current) if self.averaged is None else self.averaged

    def find_systems(self) -> list[dict[str, SentenceRows]]:
        """The current validation, and then the one to compare it with, if that is another one; with unions."""
        other = self.other
        systems = [self.current] if other is None or other is self.current else [self.current, other]
        return [_add_unions(system, self.unions) for system in systems]

    @cached_property
    def other(self) -> RowsBySubset | None:
        """The validation to compare with, which may be the current one; None for no comparison."""
        return None if self.opponent is None else self.opponent.find(self.current, counts=self.keep)

    @property
    def resamples(self) -> int:
        """The number of resamples."""
        return _RESAMPLES if self.opponent is None else self.opponent.resamples

    def place(self, name: str) -> int:
        """The place of a subset or union."""
        if self.places is not None:
            return self.places[name]
        return [*self.current, *self.unions].index(name)


class Uncertainty(NamedTuple):
    """What is known about the results of one score.

    Attributes:
        results: the results with their intervals and comparisons, by logged name.
        is_new_opponent: whether later validations should be compared with this one.
    """

    results: dict[str, Result]
    is_new_opponent: bool = False


def find_uncertainty(
    scores: Sequence[UncertainScore], confidence: float | None = None, *, warn: WarnOnce | None = None
) -> list[Uncertainty]:
    """Add confidence intervals and comparisons to the results of scores. Collective.

    All scores of a subset have the same resamples, of which each process computes a share.

    Args:
        scores: the scores.
        confidence: the confidence level of the intervals; None for no intervals.
        warn: warns about comparisons of few sentences.
    """
    if any(score.opponent is not None for score in scores):
        _check_agreement(scores)
    uncertain = [score for score in scores if confidence is not None or score.other is not None]
    resampled = dict(zip(uncertain, _resample(uncertain)))
    uncertainties = []
    for score in scores:
        if score in resampled:
            uncertainties.append(_judge(score, resampled[score], confidence))
        else:
            uncertainties.append(Uncertainty(dict(score.results)))
        if warn is not None:
            _warn_about_few_sentences(score, warn)
    return uncertainties


def _judge(score: UncertainScore, resampled: Mapping[str, Tensor], confidence: float | None) -> Uncertainty:
    """The results of a score with intervals and comparisons, from the scores of resamples."""
    current, opponent, other = score.current, score.opponent, score.other
    scores = {**resampled, score.mean: torch.stack([resampled[name] for name in score.in_mean]).mean(0)}
    results = dict(score.results)
    if confidence is not None:
        results = _add_intervals(results, scores, _shared_scoring(current), confidence)
    if opponent is None or other is None:
        return Uncertainty(results)
    tests = opponent.compare(current, scores, score.mean, score.unions)
    is_new = opponent.is_replaced(current, other, tests[score.mean])
    opponent_scores = _score_system(current if is_new else other, score)
    results = _add_comparisons(results, tests, opponent.kind, opponent_scores)
    return Uncertainty(results, is_new and (score.keep or opponent.kind == "first"))


def _check_agreement(scores: Sequence[UncertainScore]) -> None:
    """Raise a ValueError if processes would compare with different validations. Collective."""
    if process_count() == 1:
        return
    answers = gather_objects([(score.mean, _identify_other(score)) for score in scores])
    differ = run_in_process_0(lambda: any(answer != answers[0] for answer in answers))
    if differ:
        raise ValueError(
            "the processes would compare this validation with different ones: load the same state in all of them"
        )


def _identify_other(score: UncertainScore) -> str:
    """What differs between processes that compare a score with different validations."""
    if score.other is None:
        return "none"
    if score.other is score.current:
        return "current"
    digest = hashlib.blake2b(digest_size=16)
    for name, rows in score.other.items():
        digest.update(name.encode())
        digest.update(rows.identity.contiguous().numpy().data)
        digest.update(rows.statistics.contiguous().numpy().data)
    return digest.hexdigest()


def _warn_about_few_sentences(score: UncertainScore, warn: WarnOnce) -> None:
    is_compared = score.other is not None and score.other is not score.current
    sentences = sum(len(score.current[name].identity) for name in score.in_mean)
    if is_compared and sentences < MIN_SENTENCES:
        warn(describe_few_sentences(sentences), key="few sentences")


def _add_intervals(
    results: Mapping[str, Result], scores: Mapping[str, Tensor], scoring: Scoring, confidence: float
) -> dict[str, Result]:
    """The results with their intervals, from the scores of resamples."""
    with_intervals = dict(results)
    for name, of_name in scores.items():
        interval = interval_of(of_name[0][: _RESAMPLES + 1], scoring, confidence)
        with_intervals[name] = replace(results[name], interval=interval)
    return with_intervals


def _add_comparisons(
    results: Mapping[str, Result], tests: Mapping[str, PairedTest], kind: OpponentKind, scores: Mapping[str, float]
) -> dict[str, Result]:
    """The results with their comparisons, and with the scores of the opponent."""
    compared = dict(results)
    for name, score in scores.items():
        if kind == "best":
            compared[name] = replace(results[name], comparison=tests[name], best=score)
        else:
            compared[name] = replace(results[name], comparison=tests[name], first=score)
    return compared


def _add_unions(rows_by_subset: RowsBySubset, unions: Unions) -> dict[str, SentenceRows]:
    """The sentences of each subset, and then of each union of subsets."""
    with_unions = dict(rows_by_subset)
    for union, members in unions.items():
        with_unions[union] = join_rows([rows_by_subset[member] for member in members])
    return with_unions


class _Statistics(NamedTuple):
    """The statistics of the sentences of a subset for one score, of one system.

    Attributes:
        place: the place of the subset, which is the seed of its resamples.
        rows: float64 of shape ``(sentences, columns)``.
    """

    place: int
    rows: Tensor


def _resample(scores: Sequence[UncertainScore]) -> list[dict[str, Tensor]]:
    """The scores of each subset and union, and of their resamples, for each system of each score. Collective.

    Each process sums a share of the resamples, and all processes together add them up.
    """
    resamples = max((score.resamples for score in scores), default=0)
    systems_by_score = {score: score.find_systems() for score in scores}
    statistics: dict[tuple[UncertainScore, str, int], _Statistics] = {}
    for score, systems in systems_by_score.items():
        for number, system in enumerate(systems):
            for name, rows in system.items():
                statistics[score, name, number] = _Statistics(score.place(name), rows.statistics.double())
    sums = dict(zip(statistics, _sum_resamples(list(statistics.values()), resamples)))
    resampled = []
    for score, systems in systems_by_score.items():
        of_score = {}
        for name, rows in systems[0].items():
            keys = [(score, name, number) for number in range(len(systems))]
            sums_of_systems = [sums[key][: score.resamples] for key in keys]
            of_score[name] = score_resamples([statistics[key].rows for key in keys], sums_of_systems, rows.scoring)
        resampled.append(of_score)
    return resampled


def _sum_resamples(statistics: Sequence[_Statistics], resamples: int) -> list[Tensor]:
    """The sums of the resamples of each of these statistics, shape ``(resamples, columns)``. Collective."""
    if not statistics:
        return []
    # A union lacks the subsets without a score, so it may have fewer sentences for one score than for another.
    numbers_by_place: dict[tuple[int, int], list[int]] = {}
    for number, of_subset in enumerate(statistics):
        numbers_by_place.setdefault((of_subset.place, len(of_subset.rows)), []).append(number)
    rank, processes = process_rank(), process_count()
    sums: dict[int, Tensor] = {}
    for (place, _), numbers in numbers_by_place.items():
        # Each subset has its own seed, so that subsets of the same size have different resamples.
        rows = [statistics[number].rows for number in numbers]
        shares = weighted_sums(rows, draw_with_replacement, resamples, seed=place, rank=rank, processes=processes)
        sums.update(zip(numbers, shares))
    in_order = [sums[number] for number in range(len(statistics))]
    total = sum_over_processes(torch.cat(in_order, 1))
    return list(total.split_with_sizes([shares.shape[1] for shares in in_order], 1))


def _score_system(system: RowsBySubset, score: UncertainScore) -> dict[str, float]:
    """The score of each subset and each union of subsets, and the mean of the subsets."""
    scores = {name: rows.score() for name, rows in _add_unions(system, score.unions).items()}
    scores[score.mean] = math.fsum(scores[name] for name in score.in_mean) / len(score.in_mean)
    return scores
