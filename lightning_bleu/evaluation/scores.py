"""The scores of a validation: a list of values, one for each score of a loader or a group, and the means."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.processes import run_in_all, run_in_process_0
from lightning_bleu.core.scoring import Report, Scorer
from lightning_bleu.evaluation.names import MEAN, Name
from lightning_bleu.evaluation.result import Result
from lightning_bleu.evaluation.sentences import SentenceRows, Sentences


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
    metrics: Mapping[str, EvaluatorMetric],
    loaders: Sequence[Sentences],
    optional: Collection[str] = (),
    mistakes: list[Mistake] | None = None,
) -> list[Scored]:
    """The scores of the sentences of all processes. Collective.

    Args:
        metrics: the metrics by name.
        loaders: the sentences of each loader.
        optional: the names of components to compute besides the default ones.
        mistakes: gets a mistake for each ratio without a denominator, which has no score.

    Returns:
        for each score of each metric: those of each loader, of its groups, and their mean; then the mean of loaders.
    """
    mistakes = [] if mistakes is None else mistakes
    scored: list[Scored] = []
    for metric_name, metric in metrics.items():
        scored_by_name: dict[str, list[Scored]] = {}
        for sentences in loaders:
            for score in _score_loader(metric_name, metric, sentences, optional, mistakes):
                scored_by_name.setdefault(score.name.score, []).append(score)
        for scores_of_loaders in scored_by_name.values():
            scored += _add_means(scores_of_loaders)
    return scored


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
    return Scored(
        name,
        Result(mean, higher_is_better=result.higher_is_better, percent=result.percent),
        mean_of=[score.name for score in scored],
    )


def _score_loader(
    metric_name: str,
    metric: EvaluatorMetric,
    sentences: Sentences,
    optional: Collection[str],
    mistakes: list[Mistake],
) -> Iterator[Scored]:
    """The scores of a loader and of its groups. Collective."""
    if metric.columns:
        measure = _read_counts
    elif metric.corpus_level:
        measure = _call_in_process_0
    else:
        measure = _call_in_each_process
    for name, statistics in measure(metric_name, metric, sentences):
        scorer = metric.scorer_of(metric_name, name.score)
        yield from _score_statistics(name, scorer, statistics, sentences, optional, mistakes)


def _score_statistics(
    name: Name,
    scorer: Scorer,
    statistics: Tensor,
    sentences: Sentences,
    optional: Collection[str],
    mistakes: list[Mistake],
) -> Iterator[Scored]:
    """The score of rows, and those of their groups; of a single sum of rows, only its score.

    Args:
        name: what it is the score of.
        scorer: how rows become the score.
        statistics: rows of shape ``(sentences, columns)``, or a sum of shape ``(columns,)``.
        sentences: the sentences.
        optional: the names of components to compute besides the default ones.
        mistakes: gets a mistake for each sum without a score.
    """
    if statistics.ndim == 1:
        if _has_score(name, scorer, statistics, mistakes):
            report = scorer.report(statistics, None)
            yield Scored(name, _to_result(scorer, report, optional))
        return
    rows = SentenceRows(sentences.identity, statistics, scorer)
    sums = statistics.sum(0)
    if _has_score(name, scorer, sums, mistakes):
        report = scorer.report(sums, rows.input_counts)
        result = _to_result(scorer, report, optional)
        yield Scored(name, result, rows if math.isfinite(result.score) else None)
    for label, numbers in sentences.groups.items():
        name_of_group = name._replace(group=label)
        rows_of_group = rows.select(numbers)
        sums = rows_of_group.statistics.sum(0)
        if _has_score(name_of_group, scorer, sums, mistakes):
            result = _to_result(scorer, scorer.report(sums, rows_of_group.input_counts))
            yield Scored(name_of_group, result, rows_of_group if math.isfinite(result.score) else None)


def _has_score(name: Name, scorer: Scorer, sums: Tensor, mistakes: list[Mistake]) -> bool:
    """Whether a sum of rows has a score. It is no mistake if 0/0 has none."""
    is_defined = scorer.is_defined(sums)
    if not is_defined and sums.any():
        where = "/".join(filter(None, [name.loader, name.group]))
        of_where = f" of {where!r}" if where else ""
        message = (
            f"{name.key!r}{of_where} is a ratio whose denominator is 0, such as errors per word of empty references. "
            "It has no score, and is not a part of any mean."
        )
        mistakes.append((message, message))
    return is_defined


def _to_result(scorer: Scorer, report: Any, optional: Collection[str] | None = None) -> Result:
    """What a scorer says about a sum of rows as a result.

    Args:
        scorer: the scorer.
        report: what it says.
        optional: the names of components besides the default ones; no components when None.
    """
    components = [] if optional is None else scorer.components(report, optional=bool(optional))
    return Result(
        float(report),
        tuple(component for component in components if component.is_default or component.name in (optional or ())),
        report if isinstance(report, Report) else None,
        higher_is_better=scorer.higher_is_better,
        percent=scorer.percent,
    )


# What a metric has counted in a loader, with the name of its score


def _read_counts(metric_name: str, metric: EvaluatorMetric, sentences: Sentences) -> Iterator[tuple[Name, Tensor]]:
    """What a metric has counted batch by batch."""
    yield Name(metric_name, sentences.loader), sentences.statistics(metric_name)


def _call_in_each_process(
    metric_name: str, metric: EvaluatorMetric, sentences: Sentences
) -> Iterator[tuple[Name, Tensor]]:
    """What a metric of texts gives to the sentences of each process. Collective."""
    texts = sentences.read_local()
    answers = run_in_all(lambda: metric.score_texts(metric_name, texts) if texts else {})
    score_names = {tuple(sorted(answer)) for answer in answers if answer}
    some_are_none = any(answer is None for answer in answers)
    if len(score_names) > 1 or (score_names and some_are_none):
        raise ValueError(
            f"the metric {metric_name!r} returned None in some processes only, or scores with different names: return "
            "the same scores in all, or None in all"
        )
    owned = [sentences.owned_by(process) for process in range(len(answers))]
    order = torch.cat(owned).argsort()
    answers_with_scores = [answer for answer in answers if answer]
    for score_name in answers_with_scores[0] if answers_with_scores else ():
        rows = torch.cat([answer[score_name] for answer in answers_with_scores])[order]
        yield Name(metric_name, sentences.loader, score=score_name), rows


def _call_in_process_0(
    metric_name: str, metric: EvaluatorMetric, sentences: Sentences
) -> Iterator[tuple[Name, Tensor]]:
    """What a metric of texts says about all sentences; about each group as well, if it gives no rows. Collective."""
    texts = sentences.read_all()

    def call() -> dict[Name, Tensor]:
        of_loader = Name(metric_name, sentences.loader)
        answer = metric.score_texts(metric_name, texts) or {}
        answers = {of_loader._replace(score=score_name): statistics for score_name, statistics in answer.items()}
        without_rows = [score_name for score_name, statistics in answer.items() if statistics.ndim == 1]
        if without_rows:
            for label, numbers in sentences.groups.items():
                answer_of_group = metric.score_texts(metric_name, [texts[number] for number in numbers]) or {}
                for score_name in without_rows:
                    if score_name in answer_of_group:
                        statistics = answer_of_group[score_name]
                        name = of_loader._replace(group=label, score=score_name)
                        answers[name] = statistics if statistics.ndim == 1 else statistics.sum(0)
        return answers

    yield from run_in_process_0(call).items()
