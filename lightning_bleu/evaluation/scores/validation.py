"""The scores of a validation: a list of values, one for each score of a loader or a group, and the means.

All that is logged, written, and shown of a validation comes from :class:`Validation`, which process 0 makes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from torch import Tensor

from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.packed_rows import count_inputs
from lightning_bleu.core.scoring import (
    Component,
    EvaluatorMetric,
    Report,
    Scorer,
    describe_directions,
    format_in_unit,
    format_range,
)
from lightning_bleu.core.significance import Interval, PairedTest, Verdict
from lightning_bleu.evaluation.names import MEAN, Name, Naming, join_place
from lightning_bleu.evaluation.scores.sentences import SavedLoaders, SentenceRows, Sentences
from lightning_bleu.evaluation.texts.findings import Finding
from lightning_bleu.views.blocks import Block, Cell, Note, Table, TableCell, View
from lightning_bleu.views.viewable import Viewable


@dataclass(frozen=True, repr=False)
class Result(Viewable):
    """A score of a loader, of a group, or of a whole validation. ``str(...)`` is a table.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat", "it is"], ["the cat sat on a mat", "it is"])
        >>> evaluator.finish(step=500)["val_bleu"]
        Result(55.84)

    Attributes:
        score: the score.
        components: the components of the score, such as precisions. A mean and a group have none.
        report: the score as an object that prints: a :class:`lightning_bleu.BLEUScore`, a
            :class:`lightning_bleu.CHRFScore`, or, for a function, a ``FunctionScore``; None for a mean, and for metrics
            of other packages.
        interval: the confidence interval, if requested.
        comparison: the paired test against the best validation before it. The first one is compared with itself. None
            if it is not compared.
        verdict: whether that comparison shows a clear difference; None if it is not compared with another validation.
        best: the score of the best validation so far, including this one. Only for the score of a whole validation.
        scope: what it is the score of, if that may surprise: ``"mean of 2 loaders"``, ``"96 of 120 sentences"`` if the
            dataset has more than were scored, ``"96 sentences, 12 different"`` if only 12 references differ.
        higher_is_better: whether a higher score is better; None if neither is, or if that is unknown.
        percent: whether the score is in 0..100 rather than in 0..1; None if it has a scale of its own.
    """

    score: float
    components: tuple[Component, ...] = ()
    report: Report | None = None
    interval: Interval | None = None
    comparison: PairedTest | None = None
    verdict: Verdict | None = None
    best: float | None = None
    scope: str = ""
    higher_is_better: bool | None = None
    percent: bool | None = None

    @property
    def parts(self) -> dict[str, float]:
        """The values of the components by name."""
        return {component.name: component.value for component in self.components}

    def statistics(self) -> dict[str, float]:
        """The ends of the interval and what the comparison says, by the names under which they are logged."""
        interval, test = self.interval, self.comparison
        values: dict[str, float | None] = {}
        if interval is not None:
            values.update(low=interval.low, high=interval.high)
        if test is not None:
            values.update(difference=test.difference, difference_low=test.low, difference_high=test.high)
            values.update(p_value=test.p_value, best=self.best)
        return {name: value for name, value in values.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that :mod:`json` can serialize."""
        test, comparison = self.comparison, None
        if test is not None:
            comparison = {
                "with": "best before",
                "score": test.score_b,
                "difference": test.difference,
                "interval": _ends_of(test),
                "p_value": test.p_value,
                "verdict": None if self.verdict is None else self.verdict.word,
                "best": self.best,
            }
        return {
            "higher_is_better": self.higher_is_better,
            "percent": self.percent,
            "score": self.score,
            "parts": self.parts,
            "counts": {} if self.report is None else self.report.counts(),
            "interval": None if self.interval is None else _ends_of(self.interval),
            "comparison": comparison,
            "signature": getattr(self.report, "signature", None),
        }

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`lightning_bleu.views.viewable.Viewable`."""
        cells = _cells(self)
        note = describe_directions({"": self.higher_is_better})
        blocks: list[Block] = [Table(list(cells), [list(cells.values())], note=note, text_columns=0)]
        if self.report is not None:
            signature = getattr(self.report, "signature", None) or ""
            blocks.append(Note(f"{self.report}\n{signature}".rstrip(), quiet=True))
        return View("", blocks)

    def __repr__(self) -> str:
        shown = [self._format(self.score)]
        if self.interval is not None:
            shown.append(f"interval=({self._format(self.interval.low)}, {self._format(self.interval.high)})")
        if self.comparison is not None:
            shown.append(f"difference={self._format(self.comparison.difference, '+')}")
            shown.append(f"p_value={self.comparison.p_value:.4f}")
        if self.best is not None:
            shown.append(f"best={self._format(self.best)}")
        return f"Result({', '.join(shown)})"

    def _format(self, value: float, sign: str = "") -> str:
        return format_in_unit(value, self.percent, sign)


def _ends_of(interval: Interval | PairedTest) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}


class Statistic(NamedTuple):
    """What a number means that is logged below a score, whatever the metric.

    Attributes:
        has_direction: whether it is better in the direction of the score.
        is_score: whether it is itself a score, and not a difference or a probability.
    """

    has_direction: bool = True
    is_score: bool = False


STATISTICS = {
    "low": Statistic(is_score=True),
    "high": Statistic(is_score=True),
    "difference": Statistic(),
    "difference_low": Statistic(),
    "difference_high": Statistic(),
    "p_value": Statistic(has_direction=False),
    "best": Statistic(is_score=True),
}
"""The statistics that :meth:`Result.statistics` has. No loader and no group can have one of these names."""


def tabulate(results: Mapping[str, Result]) -> Table:
    """A table of results by their names, with the columns that some of them need.

    Example:
        >>> tabulate({"val_bleu": Result(0.5, scope="mean of 2 loaders"), "val_bleu/a": Result(0.2)}).rows
        [['val_bleu', '0.5000', 'mean of 2 loaders'], ['val_bleu/a', '0.2000', '']]
    """
    cells_by_name = {name: _cells(result) for name, result in results.items()}
    columns = dict.fromkeys(chain.from_iterable(cells_by_name.values()))  # an ordered set
    rows: list[list[TableCell]] = []
    for name, cells in cells_by_name.items():
        rows.append([name, *(cells.get(column, "") for column in columns)])
    directions = {name: result.higher_is_better for name, result in results.items()}
    notes = [describe_directions(directions)]
    for name, result in results.items():
        if result.verdict is not None and result.verdict.note:
            notes.append(f"{name}: {result.verdict.note}.")
    return Table(["", *columns], rows, note=" ".join(notes))


def _cells(result: Result) -> dict[str, TableCell]:
    """The cells of a result by the titles of their columns, in the unit of the score."""
    percent = result.percent
    cells: dict[str, TableCell] = {"score": format_in_unit(result.score, percent)}
    interval, test = result.interval, result.comparison
    if interval is not None:
        cells[f"{100 * interval.confidence:g}% interval"] = format_range(interval.low, interval.high, percent)
    if test is not None:
        difference = format_in_unit(test.difference, percent, "+")
        level = "" if interval is not None else f" ({100 * test.confidence:g}% interval)"
        cells[f"against the best before{level}"] = f"{difference} ({format_range(test.low, test.high, percent, '+')})"
        cells["p"] = f"{test.p_value:.4f}"
        if result.verdict is not None:
            cells["verdict"] = result.verdict.word
    if result.best is not None:
        best = format_in_unit(result.best, percent)
        cells["best"] = Cell(best, "best") if result.best == result.score else best
    if result.scope:
        cells["scope"] = result.scope
    return cells


@dataclass(frozen=True, eq=False)
class Scored:
    """A score of a validation.

    Attributes:
        name: what it is the score of.
        result: the score.
        rows: the rows of its sentences. None if they have none, if the score is not finite, and for a mean.
        mean_of: the names of the scores that it is the mean of; empty unless it is a mean.
    """

    name: Name
    result: Result
    rows: SentenceRows | None = None
    mean_of: Sequence[Name] = ()


def score_loaders(
    metrics: Mapping[str, EvaluatorMetric], loaders: Sequence[Sentences], optional: Collection[str] = ()
) -> tuple[list[Scored], list[Mistake]]:
    """The scores of sentences.

    Args:
        metrics: the metrics by name.
        loaders: the sentences of each loader.
        optional: the names of components to compute besides the default ones.

    Returns:
        the scores of the whole validation, of each loader, and of groups, with the means. And warnings about ratios
        without a denominator.
    """
    scored: list[Scored] = []
    mistakes: list[Mistake] = []
    for metric_name, metric in metrics.items():
        scored_by_name: dict[str, list[Scored]] = {}
        for sentences in loaders:
            for score in _score_loader(metric_name, metric, sentences, optional):
                if isinstance(score, Scored):
                    scored_by_name.setdefault(score.name.score, []).append(score)
                else:
                    mistakes.append(score)
        for scores_of_loaders in scored_by_name.values():
            scored += _add_means(scores_of_loaders)
    return sorted(scored, key=lambda score: (bool(score.name.group), bool(score.name.loader))), mistakes


def _add_means(scored: Sequence[Scored]) -> list[Scored]:
    """The scores of loaders and groups with the means of the groups of each loader, and of loaders that have names."""
    with_means: list[Scored] = []
    for loader in dict.fromkeys(score.name.loader for score in scored):
        scores_of_loader = [score for score in scored if score.name.loader == loader]
        groups = [score for score in scores_of_loader if score.name.group]
        with_means += scores_of_loader
        if len(groups) > 1:
            with_means.append(_average(groups[0].name._replace(group=MEAN), groups, "groups"))
    named_loaders = [score for score in scored if score.name.loader and not score.name.group]
    if named_loaders:
        with_means.append(_average(named_loaders[0].name.whole, named_loaders, "loaders"))
    return with_means


def _average(name: Name, scored: Sequence[Scored], members: str) -> Scored:
    """The unweighted mean of the scores of loaders or groups, which have one scale and one direction."""
    result = scored[0].result
    mean = math.fsum(score.result.score for score in scored) / len(scored)
    scope = f"mean of {len(scored)} {members}" if len(scored) > 1 else ""
    of_mean = Result(mean, scope=scope, higher_is_better=result.higher_is_better, percent=result.percent)
    return Scored(name, of_mean, mean_of=[score.name for score in scored])


def _score_loader(
    metric_name: str, metric: EvaluatorMetric, sentences: Sentences, optional: Collection[str]
) -> Iterator[Scored | Mistake]:
    """The scores of a loader and of its groups."""
    of_loader = Name(metric_name, sentences.loader)
    answers = sentences.statistics.get(metric_name)
    if answers is None:
        answers = metric.score_texts(metric_name, sentences.texts) or {}
    scorers = {score_name: metric.scorer_of(metric_name, score_name) for score_name in answers}
    sums = [score_name for score_name, statistics in answers.items() if statistics.ndim == 1]  # without rows
    for score_name, statistics in answers.items():
        name, scorer = of_loader._replace(score=score_name), scorers[score_name]
        if score_name in sums:
            yield from _score_sum(name, scorer, statistics, None, optional, sentences.scope)
            continue
        rows = SentenceRows(sentences.identity, statistics, scorer)
        yield from _score_sum(name, scorer, statistics.sum(0), rows, optional, sentences.scope)
        for label, numbers in sentences.groups.items():
            of_group = rows.select(numbers)
            yield from _score_sum(name._replace(group=label), scorer, of_group.statistics.sum(0), of_group)
    for label, numbers in sentences.groups.items() if sums else ():
        answers_of_group = metric.score_texts(metric_name, [sentences.texts[number] for number in numbers]) or {}
        for score_name in sums:
            if score_name in answers_of_group:
                statistics = answers_of_group[score_name]
                total = statistics if statistics.ndim == 1 else statistics.sum(0)
                yield from _score_sum(of_loader._replace(group=label, score=score_name), scorers[score_name], total)


def _score_sum(
    name: Name,
    scorer: Scorer,
    sums: Tensor,
    rows: SentenceRows | None = None,
    optional: Collection[str] | None = None,
    scope: str = "",
) -> Iterator[Scored | Mistake]:
    """The score of a sum of rows.

    Args:
        name: what it is the score of.
        scorer: how the sum becomes the score.
        sums: the sum, shape ``(columns,)``.
        rows: the rows, if there are any.
        optional: the names of components to compute besides the default ones; no components when None.
        scope: how many sentences there are; see :class:`Result`.
    """
    if not scorer.is_defined(sums):
        yield _describe_undefined(name)
        return
    report = scorer.report(sums, None if rows is None else count_inputs(rows.identity))
    components = [] if optional is None else scorer.components(report, optional=bool(optional))
    chosen = tuple(component for component in components if component.is_default or component.name in (optional or ()))
    shown = report if isinstance(report, Report) else None
    direction, percent = scorer.higher_is_better, scorer.percent
    result = Result(float(report), chosen, shown, scope=scope, higher_is_better=direction, percent=percent)
    yield Scored(name, result, rows if math.isfinite(result.score) else None)


def _describe_undefined(name: Name) -> Mistake:
    """A ratio whose denominator is 0, so that it has no score."""
    where = join_place(name.loader, name.group)
    of_where = f" of {where!r}" if where else ""
    message = (
        f"{name.key!r}{of_where} is a ratio whose denominator is 0, such as errors per word of empty references. It "
        "has no score, and is not a part of any mean."
    )
    return message, message


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
    whole = [score for score in scored if not score.name.group and not score.mean_of]
    for sentences in loaders:
        of_loader = {score.name.key: score for score in whole if score.name.loader == sentences.loader}
        results = {key: score.result for key, score in of_loader.items()}
        rows_by_score = {key: score.rows for key, score in of_loader.items() if score.rows is not None}
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
        for component in result.components:
            is_named = not isinstance(parts, bool) and component.name in parts
            if is_named or (parts is True and component.is_default):
                values[component.name] = component.value
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
