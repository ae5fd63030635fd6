"""How certain scores are: their intervals, and paired tests against the same sentences of another system.

Both come from resamples, which are sums of rows as well. All scores of the same sentences have the same resamples.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.core.resampling import PairedTest, interval_of, paired_test_of, score_resamples, sum_resamples
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.evaluation.names import Name
from lightning_bleu.evaluation.scores.scored import Scored
from lightning_bleu.evaluation.scores.sentences import SentenceRows

_RESAMPLES = 1000
"""The number of resamples of an interval."""


class Resampled(NamedTuple):
    """The scores of resamples of one or several systems.

    Attributes:
        scores: shape ``(systems, 1 + resamples)``; the first one of each system is its score. See
            :func:`lightning_bleu.core.resampling.score_resamples`.
        scorer: what the scores mean.
        sentence_count: the number of sentences; of a mean, that of its largest member.
    """

    scores: Tensor
    scorer: Scorer
    sentence_count: int

    def test_against_first(self, confidence: float) -> list[PairedTest]:
        """The paired test of each system but the first, against the first. With a single sentence, p is 1."""
        tests = []
        for scores in self.scores[1:]:
            test = paired_test_of(torch.stack([scores, self.scores[0]]), self.scorer, confidence)
            tests.append(test if self.sentence_count > 1 else replace(test, p_value=1.0))
        return tests


def resample(systems: Mapping[Name, Sequence[SentenceRows]], resamples: int, seed: int = 0) -> dict[Name, Resampled]:
    """Score systems and bootstrap resamples of their sentences.

    The resamples depend on the name of the loader only, so that another score changes none of them.

    Args:
        systems: the rows of the same sentences in each system, by the name of the score.
        resamples: the number of resamples.
        seed: the random seed.
    """
    names_by_loader: dict[str, list[Name]] = {}
    for name in systems:
        names_by_loader.setdefault(name.loader, []).append(name)
    resampled = {}
    for loader, names in names_by_loader.items():
        statistics = {name: [rows.statistics.double() for rows in systems[name]] for name in names}
        seed_of_loader = seed + zlib.crc32(loader.encode())  # that of an empty name is 0
        sums = iter(sum_resamples(list(chain(*statistics.values())), resamples, seed_of_loader))
        for name, of_name in statistics.items():
            scorer = systems[name][0].scorer
            scores = score_resamples(of_name, [next(sums) for _ in of_name], scorer)
            resampled[name] = Resampled(scores, scorer, len(systems[name][0]))
    return {name: resampled[name] for name in systems}


def resample_scored(
    scored: Sequence[Scored], systems: Mapping[Name, Sequence[SentenceRows]], resamples: int
) -> dict[Name, Resampled]:
    """The same for scores of a validation, and for the means of its loaders.

    Args:
        scored: the scores of a validation.
        systems: for some of the scores, the rows in each system.
        resamples: the number of resamples.
    """
    resampled = resample(systems, resamples)
    for mean in scored:
        is_mean_of_loaders = mean.mean_of and not mean.name.group
        if is_mean_of_loaders and all(name in resampled for name in mean.mean_of):
            resampled[mean.name] = _average([resampled[name] for name in mean.mean_of])
    return resampled


def _average(members: Sequence[Resampled]) -> Resampled:
    """The mean of scores in each resample."""
    means = torch.stack([member.scores for member in members]).mean(0)
    for system in range(len(means)):  # to the last bit the mean that is logged
        means[system, 0] = math.fsum(member.scores[system, 0].item() for member in members) / len(members)
    return Resampled(means, members[0].scorer, max(member.sentence_count for member in members))


def add_intervals(scored: Sequence[Scored], confidence: float) -> list[Scored]:
    """The scores with their confidence intervals, where they have rows; those of groups have none."""
    systems = {score.name: [score.rows] for score in scored if score.rows is not None and not score.name.group}
    resampled = resample_scored(scored, systems, _RESAMPLES)
    with_intervals = []
    for score in scored:
        if score.name in resampled:
            scores, scorer, _ = resampled[score.name]
            result = replace(score.result, interval=interval_of(scores[0], scorer, confidence))
            score = replace(score, result=result)
        with_intervals.append(score)
    return with_intervals
