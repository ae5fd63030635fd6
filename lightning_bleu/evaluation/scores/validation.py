"""A validation that process 0 has scored: all that is logged, written, and shown comes from this value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.scoring import choose_components
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.best import SavedLoaders
from lightning_bleu.evaluation.scores.result import Result
from lightning_bleu.evaluation.scores.scored import Scored
from lightning_bleu.evaluation.scores.sentences import SentenceRows, Sentences
from lightning_bleu.evaluation.texts.findings import Finding, join_place


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
    """

    sentences: Sentences
    results: Mapping[str, Result]
    rows: Mapping[str, SentenceRows]

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
        new_best: what is saved of it, for the scores for which it is the best so far; see :class:`BestValidations`.
    """

    naming: Naming
    metrics: Mapping[str, EvaluatorMetric]
    loaders: Sequence[ScoredLoader]
    scored: Sequence[Scored]
    results: Mapping[str, Result]
    numbers: Mapping[str, NamedNumber]
    findings: Sequence[Finding] = ()
    new_best: Mapping[str, SavedLoaders] = field(default_factory=dict)

    def findings_in(self, loader: str) -> list[Finding]:
        """What stands out in the texts of a loader, and of its groups."""
        of_loader = [one.sentences for one in self.loaders if one.name == loader]
        places = {loader, *(join_place(loader, label) for sentences in of_loader for label in sentences.groups)}
        return [finding for finding in self.findings if finding.where in places]


class Outcome(NamedTuple):
    """What all processes get of a validation that process 0 has scored.

    Attributes:
        results, numbers, findings: see :class:`Validation`.
        read: the number of batches that were read.
        skipped: the number of batches for which the step returned nothing.
        refused: the logged names that a logger of the trainer refuses, each with the reason.
    """

    results: Mapping[str, Result]
    numbers: Mapping[str, NamedNumber]
    findings: Sequence[Finding]
    read: int
    skipped: int
    refused: Mapping[str, str]


def group_by_loader(scored: Sequence[Scored], loaders: Sequence[Sentences]) -> list[ScoredLoader]:
    """The sentences of each loader with their scores, without those of groups.

    Args:
        scored: the scores of a validation.
        loaders: its sentences.
    """
    scored_loaders = []
    for sentences in loaders:
        results: dict[str, Result] = {}
        rows_by_score: dict[str, SentenceRows] = {}
        for score in scored:
            name = score.name
            if name.loader != sentences.loader or name.group or score.mean_of:
                continue
            results[name.key] = score.result
            if score.rows is not None:
                rows_by_score[name.key] = score.rows
        scored_loaders.append(ScoredLoader(sentences, results, rows_by_score))
    return scored_loaders


def name_numbers(scored: Sequence[Scored], naming: Naming, parts: bool | Sequence[str]) -> dict[str, NamedNumber]:
    """Everything that is logged, by logged name.

    Args:
        scored: the scores of a validation.
        naming: how names are written.
        parts: whether to log the components of scores, or which.

    Raises:
        ValueError: if two numbers have the same name.
    """
    numbers: dict[str, NamedNumber] = {}
    for score in scored:
        result = score.result
        values = {"": result.score}
        values |= {component.name: component.value for component in choose_components(result.components, parts)}
        values |= result.statistics()
        for detail, value in values.items():
            name = score.name._replace(detail=detail)
            logged = naming.render(name)
            if logged in numbers:
                raise ValueError(
                    f"two scores would be logged as {logged!r}: rename a metric, a score, a loader, or a group"
                )
            numbers[logged] = NamedNumber(name, value)
    return numbers
