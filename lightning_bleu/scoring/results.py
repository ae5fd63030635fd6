"""The results of intervals and tests."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interval:
    """A score with its confidence interval; ``str(...)`` is one line, in percent.

    Attributes:
        score: the score of the corpus.
        low: the lower end of the interval.
        high: the upper end of the interval.
        confidence: the confidence level, 0..1.
        scores: the scores of the resamples, in drawing order.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        name: the name of the score.
    """

    score: float
    low: float
    high: float
    confidence: float
    scores: tuple[float, ...] = field(repr=False)
    percent: bool | None = False
    name: str = "BLEU"

    @property
    def half_width(self) -> float:
        """Half the distance between the ends."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        score, low, high = (format_score(value, self.percent) for value in (self.score, self.low, self.high))
        return (
            f"{self.name} = {score} ({100 * self.confidence:g}% interval {low} to {high}, {len(self.scores)} resamples)"
        )


@dataclass(frozen=True)
class PairedTest:
    """A paired test of two systems on the same sentences; ``str(...)`` is one line, in percent.

    Attributes:
        test: the name of the test.
        score_a: the score of the first system.
        score_b: the score of the second system.
        p_value: the probability of a difference at least this large if the systems were equally good.
        trials: the number of resamples or shuffles.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        name: the name of the score.
    """

    test: str
    score_a: float
    score_b: float
    p_value: float
    trials: int
    percent: bool | None = False
    name: str = "BLEU"

    @property
    def difference(self) -> float:
        """The score of the first system minus the score of the second."""
        return self.score_a - self.score_b

    def __str__(self) -> str:
        a, b = (format_score(score, self.percent) for score in (self.score_a, self.score_b))
        difference = format_score(self.difference, self.percent, "+")
        return (
            f"{self.name} = {a} against {b}: {difference}, p = {self.p_value:.4f} ({self.test}, {self.trials} trials)"
        )


@dataclass(frozen=True)
class BlockScores:
    """The scores of blocks of sentences; ``str(...)`` is one line, in percent.

    Attributes:
        scores: one per block.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        name: the name of the score.
    """

    scores: tuple[float, ...]
    percent: bool | None = False
    name: str = "BLEU"

    @property
    def mean(self) -> float:
        """The mean of the block scores, which is not the score of the corpus."""
        return statistics.fmean(self.scores)

    @property
    def standard_deviation(self) -> float:
        """The sample standard deviation (n - 1); 0 for a single block."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0

    def __str__(self) -> str:
        mean, deviation = (format_score(value, self.percent) for value in (self.mean, self.standard_deviation))
        return f"{self.name} of {len(self.scores)} blocks: mean {mean}, standard deviation {deviation}"


@dataclass(frozen=True)
class BlockTest:
    """A paired t-test over blocks of sentences; ``str(...)`` is one line, in percent.

    Attributes:
        a: the blocks of the first system.
        b: the blocks of the second system.
        t: the mean difference between blocks, divided by its standard error.
        p_value: two-sided, from Student's t distribution with ``blocks - 1`` degrees of freedom.
    """

    a: BlockScores
    b: BlockScores
    t: float
    p_value: float

    @property
    def difference(self) -> float:
        """The mean block score of the first system minus that of the second."""
        return self.a.mean - self.b.mean

    def __str__(self) -> str:
        difference = format_score(self.difference, self.a.percent, "+")
        return (
            f"mean difference {difference} over {len(self.a.scores)} blocks, t = {self.t:.2f}, p = {self.p_value:.4f}"
        )


def format_score(value: float, percent: bool | None, sign: str = "") -> str:
    """A score as text: in percent with two digits; with four digits if it has a scale of its own.

    Example:
        >>> format_score(0.12345, percent=False), format_score(0.12345, percent=None, sign="+")
        ('12.35', '+0.1235')
    """
    return f"{value:{sign}.4f}" if percent is None else f"{value if percent else 100 * value:{sign}.2f}"
