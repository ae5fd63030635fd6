"""The scores of a validation: a list of values, one for each score of a loader or a group, and the means."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.scoring import Report, Scorer
from lightning_bleu.evaluation.names import MEAN, Name
from lightning_bleu.evaluation.scores.result import Result
from lightning_bleu.evaluation.scores.sentences import SentenceRows, Sentences


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
        for each score of each metric: those of each loader, of its groups, and their mean; then the mean of loaders.
        And warnings about ratios without a denominator.
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
    return scored, mistakes


def _add_means(scored: Sequence[Scored]) -> list[Scored]:
    """The scores of loaders and groups with the means of the groups of each loader, and of loaders that have names."""
    with_means: list[Scored] = []
    for loader in dict.fromkeys(score.name.loader for score in scored):
        scores_of_loader = [score for score in scored if score.name.loader == loader]
        groups = [score for score in scores_of_loader if score.name.group]
        with_means += scores_of_loader
        if groups:
            with_means.append(_average(groups[0].name._replace(group=MEAN), groups))
    named_loaders = [score for score in scored if score.name.loader and not score.name.group]
    if named_loaders:
        with_means.append(_average(named_loaders[0].name.whole, named_loaders))
    return with_means


def _average(name: Name, scored: Sequence[Scored]) -> Scored:
    """The unweighted mean of scores, which have one scale and one direction."""
    result = scored[0].result
    mean = math.fsum(score.result.score for score in scored) / len(scored)
    of_mean = Result(mean, higher_is_better=result.higher_is_better, percent=result.percent)
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
            yield from _score_sum(name, scorer, statistics, optional=optional)
            continue
        rows = SentenceRows(sentences.identity, statistics, scorer)
        yield from _score_sum(name, scorer, statistics.sum(0), rows, optional)
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
) -> Iterator[Scored | Mistake]:
    """The score of a sum of rows.

    Args:
        name: what it is the score of.
        scorer: how the sum becomes the score.
        sums: the sum, shape ``(columns,)``.
        rows: the rows, if there are any.
        optional: the names of components to compute besides the default ones; no components when None.
    """
    if not scorer.is_defined(sums):
        if sums.any():  # it is no mistake if 0/0 has no score
            yield _describe_undefined(name)
        return
    report = scorer.report(sums, None if rows is None else rows.input_counts)
    components = [] if optional is None else scorer.components(report, optional=bool(optional))
    chosen = tuple(component for component in components if component.is_default or component.name in (optional or ()))
    shown = report if isinstance(report, Report) else None
    result = Result(float(report), chosen, shown, higher_is_better=scorer.higher_is_better, percent=scorer.percent)
    yield Scored(name, result, rows if math.isfinite(result.score) else None)


def _describe_undefined(name: Name) -> Mistake:
    """A ratio whose denominator is 0, so that it has no score."""
    where = "/".join(filter(None, [name.loader, name.group]))
    of_where = f" of {where!r}" if where else ""
    message = (
        f"{name.key!r}{of_where} is a ratio whose denominator is 0, such as errors per word of empty references. It "
        "has no score, and is not a part of any mean."
    )
    return message, message
