"""A validation that has been scored: all that is logged, written, and shown comes from this value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.evaluation.findings import Finding
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.opponents import Opponent
from lightning_bleu.evaluation.result import Result
from lightning_bleu.evaluation.saved import SavedLoaders
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import SentenceRows, Sentences

MAX_DETAILED = 20
"""The number of loaders, and of groups of a loader, up to which more than their scores is logged and shown."""


class NamedNumber(NamedTuple):
    """A number that is logged.

    Attributes:
        name: what it is.
        value: the number.
    """

    name: Name
    value: float


@dataclass(frozen=True, eq=False)
class ScoredLoader:
    """A loader of a validation: its sentences, which are written and shown, and their scores.

    Attributes:
        sentences: the sentences.
        results: the results by the name of the score; see :attr:`Name.key`.
        rows: the rows of the scores that sentences have, by the same names.
        rows_before: the rows of the same sentences in the validation that a score is compared with.
    """

    sentences: Sentences
    results: Mapping[str, Result]
    rows: Mapping[str, SentenceRows]
    rows_before: Mapping[str, SentenceRows]

    @property
    def name(self) -> str:
        """The name of the loader; empty if it has none."""
        return self.sentences.loader


@dataclass(frozen=True, eq=False)
class Validation:
    """A validation that has been scored.

    Attributes:
        naming: how its names are written.
        metrics: the metrics by name.
        loaders: the loaders that have sentences.
        scored: its scores, with intervals and comparisons.
        results: the results by logged name.
        numbers: everything that is logged, by logged name.
        findings: what stands out in its texts.
        new_opponents: what later validations are compared with; see :class:`Opponents`.
        returned: whether steps returned something: True, False, or both.
    """

    naming: Naming
    metrics: Mapping[str, EvaluatorMetric]
    loaders: Sequence[ScoredLoader]
    scored: Sequence[Scored]
    results: Mapping[str, Result]
    numbers: Mapping[str, NamedNumber]
    findings: Sequence[Finding] = ()
    new_opponents: Mapping[str, SavedLoaders] = field(default_factory=dict)
    returned: Collection[bool] = ()

    def findings_in(self, loader: str) -> list[Finding]:
        """What stands out in the texts of a loader."""
        return [finding for finding in self.findings if finding.where == loader]

    @property
    def repeated(self) -> list[str]:
        """The logged names of groups that have all sentences of their loader, and of their means."""
        only_groups = {loader.name for loader in self.loaders if len(loader.sentences.groups) == 1}
        repeated = [score.name for score in self.scored if score.name.group and score.name.loader in only_groups]
        return [self.naming.render(name) for name in repeated]

    @property
    def shows_loaders(self) -> bool:
        """Whether more than the scores of loaders is logged and shown."""
        return len(self.loaders) <= MAX_DETAILED


def group_by_loader(
    scored: Sequence[Scored], loaders: Sequence[Sentences], opponents: Mapping[Name, Opponent]
) -> list[ScoredLoader]:
    """The sentences of each loader with their scores, without those of groups.

    Args:
        scored: the scores of a validation.
        loaders: its sentences.
        opponents: what scores are compared with.
    """
    scored_loaders = []
    for sentences in loaders:
        results: dict[str, Result] = {}
        rows_by_score: dict[str, SentenceRows] = {}
        rows_before: dict[str, SentenceRows] = {}
        for score in scored:
            name = score.name
            if name.loader != sentences.loader or name.group or score.mean_of:
                continue
            results[name.key] = score.result
            if score.rows is not None:
                rows_by_score[name.key] = score.rows
            opponent = opponents.get(name.whole)
            if opponent is not None and not opponent.is_itself:
                rows_before[name.key] = opponent.rows[name]
        scored_loaders.append(ScoredLoader(sentences, results, rows_by_score, rows_before))
    return scored_loaders


def without_rows_of_groups(scored: Sequence[Scored], loaders: Collection[str]) -> list[Scored]:
    """The scores without the rows of the groups of these loaders, which then have no intervals and no comparisons."""
    return [
        replace(score, rows=None) if score.name.group and score.name.loader in loaders else score for score in scored
    ]


def name_results(scored: Sequence[Scored], naming: Naming) -> dict[str, Result]:
    """The results by logged name."""
    results: dict[str, Result] = {}
    for score in scored:
        logged = naming.render(score.name)
        _check_new(logged, results)
        results[logged] = score.result
    return results


def name_numbers(scored: Sequence[Scored], naming: Naming, *, shows_loaders: bool) -> dict[str, NamedNumber]:
    """Everything that is logged, by logged name.

    Args:
        scored: the scores of a validation.
        naming: how names are written.
        shows_loaders: whether more than the scores of loaders is logged.

    Raises:
        ValueError: if two numbers have the same name.
    """
    numbers: dict[str, NamedNumber] = {}
    for score in scored:
        is_detailed = shows_loaders or not score.name.loader
        values = score.result.values() if is_detailed else {"": score.result.score}
        for detail, value in values.items():
            name = score.name._replace(detail=detail)
            logged = naming.render(name)
            _check_new(logged, numbers)
            numbers[logged] = NamedNumber(name, value)
    return numbers


def _check_new(logged: str, others: Collection[str]) -> None:
    """Raise a ValueError for a logged name that another number has."""
    if logged in others:
        raise ValueError(f"two scores would be logged as {logged!r}: rename a metric, a score, a loader, or a group")
