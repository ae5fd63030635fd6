"""Significance: the scores of bootstrap resamples, intervals, paired tests, and when a difference is clear.

A resample is a weighted sum of sentences, so a matrix product computes many of them: weights (resamples × sentences)
times statistics (sentences × counts). Sums of integers below 2^53 are exact in float64, in any order (the numbers of
functions are not integers). They are scored like any corpus, so every metric and smoothing works.

Resamples are drawn with NumPy: threads of PyTorch wait for each other where other processes use the cores. Each call
has a new generator, so that no global one is affected, and the same seed gives the same result on every device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.scoring import Scorer, format_in_unit, format_score
from lightning_bleu.core.settings import check_integer

MIN_SENTENCES = 30
"""The number of sentences below which a paired bootstrap finds differences too often."""
_ROUNDING = 1e-12
"""The share of a score that rounding may change."""
_MAX_WEIGHTS = 2**18
"""The maximum number of weights drawn at once, so that they stay in the cache."""


@dataclass(frozen=True, repr=False)
class Interval:
    """A score with its confidence interval; ``str(...)`` is one line, in percent.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(), confidence=0.95)
        >>> evaluator.start()
        >>> evaluator.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> interval = evaluator.finish(step=0)["val_bleu"].interval
        >>> round(interval.score, 3), interval.low < interval.score < interval.high
        (0.76, True)

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
    scores: tuple[float, ...]
    percent: bool | None = False
    name: str = "BLEU"

    def __str__(self) -> str:
        score, low, high = (format_score(value, self.percent) for value in (self.score, self.low, self.high))
        interval = f"{100 * self.confidence:g}% interval {low} to {high}"
        return f"{self.name} = {score} ({interval}, {len(self.scores)} resamples)"

    def __repr__(self) -> str:
        score, low, high = (format_in_unit(value, self.percent) for value in (self.score, self.low, self.high))
        return f"Interval({score}, low={low}, high={high}, confidence={self.confidence:g})"


@dataclass(frozen=True, repr=False)
class PairedTest:
    """A paired bootstrap test of two systems on the same sentences; ``str(...)`` is one line, in percent.

    Example:
        >>> test = PairedTest(0.8572, 0.8051, 0.1499, trials=1000, low=-0.066, high=0.1822, confidence=0.95)
        >>> print(test)
        BLEU = 85.72 against 80.51: +5.21 (95% interval -6.60 to +18.22), one-sided p = 0.1499 \
(paired bootstrap, 1000 resamples)

    Attributes:
        score_a: the score of the first system.
        score_b: the score of the second system.
        p_value: about the one-sided probability of a difference at least this large, in its direction, if the systems
            were equally good, nearly that of sacreBLEU: the share of resamples in which the size of the difference,
            less its mean, is at least the observed size. Values above 0.1 are too small.
        trials: the number of resamples.
        low: the lower end of the confidence interval of the difference.
        high: the upper end.
        confidence: the confidence level of this interval, 0..1.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        name: the name of the score.
    """

    score_a: float
    score_b: float
    p_value: float
    trials: int
    low: float
    high: float
    confidence: float
    percent: bool | None = False
    name: str = "BLEU"

    @property
    def difference(self) -> float:
        """The score of the first system minus the score of the second."""
        return self.score_a - self.score_b

    def __str__(self) -> str:
        a, b = (format_score(value, self.percent) for value in (self.score_a, self.score_b))
        signed = (self.difference, self.low, self.high)
        difference, low, high = (format_score(value, self.percent, "+") for value in signed)
        interval = f"{100 * self.confidence:g}% interval {low} to {high}"
        method = f"one-sided p = {self.p_value:.4f} (paired bootstrap, {self.trials} resamples)"
        return f"{self.name} = {a} against {b}: {difference} ({interval}), {method}"

    def __repr__(self) -> str:
        a, b = (format_in_unit(value, self.percent) for value in (self.score_a, self.score_b))
        signed = (self.difference, self.low, self.high)
        difference, low, high = (format_in_unit(value, self.percent, "+") for value in signed)
        return f"PairedTest({difference}, p_value={self.p_value:.4f}, interval=({low}, {high}), scores={a}/{b})"


def describe_few_sentences(sentence_count: int) -> str:
    """The warning about a paired bootstrap of few sentences."""
    count = "1 sentence" if sentence_count == 1 else f"{sentence_count} sentences"
    effect = "a paired bootstrap calls equal systems different too often"
    return f"With {count}, {effect}: its p-values and intervals need at least {MIN_SENTENCES}."


def interval_from(statistics: Tensor, scorer: Scorer, confidence: float, resamples: int, seed: int) -> Interval:
    """The confidence interval of a corpus by bootstrap resampling (Koehn 2004, https://aclanthology.org/W04-3250).

    Args:
        statistics: the statistics of each sentence, float64 of shape ``(sentences, columns)``.
        scorer: how to score them.
        confidence: the fraction of resampled scores inside the interval.
        resamples: the number of resamples.
        seed: the random seed.
    """
    sums = sum_resamples([statistics], resamples, seed)
    (scores,) = score_resamples([statistics], sums, scorer)
    return interval_of(scores, scorer, confidence)


def score_resamples(systems: Sequence[Tensor], sums_of_systems: Sequence[Tensor], scorer: Scorer) -> Tensor:
    """Score systems and their resamples.

    Args:
        systems: the statistics of each system, shape ``(sentences, columns)``.
        sums_of_systems: the sums of the resamples of each system, shape ``(resamples, columns)``.
        scorer: how to score them.

    Returns:
        shape ``(systems, 1 + resamples)``: the score of each system, then the scores of its resamples.
    """
    system_scores = []
    for statistics, sums in zip(systems, sums_of_systems):
        observed = scorer.score(statistics.sum(0)).reshape(1)
        system_scores.append(torch.cat([observed, scorer.score(sums)]))
    return torch.stack(system_scores)


def interval_of(scores: Tensor, scorer: Scorer, confidence: float) -> Interval:
    """The interval of a score; see :func:`score_resamples`."""
    observed, resampled = scores[0].item(), _drop_undefined(scores[1:])
    low, high = _find_ends(resampled, confidence)
    return Interval(observed, low, high, confidence, tuple(resampled.tolist()), scorer.percent, scorer.name)


def paired_test_of(scores: Tensor, scorer: Scorer, confidence: float) -> PairedTest:
    """The paired bootstrap test of two systems, with the interval of their difference; see :func:`score_resamples`.

    The p-value says how often chance reaches the observed difference, which itself counts as one trial.

    Unlike in sacreBLEU, trials that exactly equal the observed difference count. Ties are rare unless the systems
    differ in only a few sentences. Then most trials are ties, and if they did not count, a difference in a single
    sentence would look significant.
    """
    score_a, score_b = scores[:, 0].tolist()
    differences = _drop_undefined((scores[0] - scores[1])[1:])
    sizes = differences.abs()
    chance_sizes = sizes - sizes.mean()
    # Scores of equal counts may differ in the last bits, from rounding.
    tolerance = _ROUNDING * max(scorer.unit or 1.0, abs(score_a), abs(score_b))
    is_smaller = chance_sizes < abs(score_a - score_b) - tolerance
    trials = len(chance_sizes)
    reached = trials - is_smaller.sum().item()
    low, high = _find_ends(differences, confidence)
    p_value = (reached + 1) / (trials + 1)
    return PairedTest(score_a, score_b, p_value, trials, low, high, confidence, scorer.percent, scorer.name)


def _drop_undefined(resampled: Tensor) -> Tensor:
    """The numbers of the resamples that have a score: a ratio has none if its denominator is 0.

    Raises:
        ValueError: if none has.
    """
    defined = resampled[resampled.isfinite()]
    if not len(defined):
        raise ValueError(
            f"none of {len(resampled)} resamples has a score: their denominators are 0. Use more resamples"
        )
    return defined


def _find_ends(resampled: Tensor, confidence: float) -> list[float]:
    """The ends of the central part of resampled numbers."""
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=resampled.dtype, device="cpu")
    return resampled.quantile(ends).tolist()


def sum_resamples(systems: Sequence[Tensor], resamples: int, seed: int) -> list[Tensor]:
    """The sums of the sentences of each system in each resample. Resamples are the same for all systems.

    Args:
        systems: for each system, float64 of shape ``(sentences, columns)``.
        resamples: the number of resamples.
        seed: the random seed.

    Returns:
        for each system, sums of shape ``(resamples, columns)``.
    """
    generator = np.random.default_rng(check_integer("seed", seed) % 2**64)
    statistics = [of_system.numpy() for of_system in systems]
    sums = [np.empty((resamples, of_system.shape[1])) for of_system in statistics]
    chunk_size = max(1, _MAX_WEIGHTS // len(statistics[0]))
    for start in range(0, resamples, chunk_size):
        stop = min(start + chunk_size, resamples)
        weights = draw_with_replacement(stop - start, len(statistics[0]), generator)
        for of_system, system_sums in zip(statistics, sums):
            np.matmul(weights, of_system, out=system_sums[start:stop])
    return [torch.from_numpy(system_sums) for system_sums in sums]


def draw_with_replacement(
    resamples: int, sentence_count: int, generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    """How often each sentence appears in each resample, shape ``(resamples, sentences)``."""
    drawn = generator.integers(sentence_count, size=(resamples, sentence_count))
    drawn += np.arange(resamples)[:, None] * sentence_count  # each resample counts in numbers of its own
    counts = np.bincount(drawn.ravel(), minlength=resamples * sentence_count)
    return counts.reshape(resamples, sentence_count).astype(np.float64)


def check_share(name: str, value: Any) -> None:
    """Raise an error unless the value is a number between 0 and 1, and not too close to 1."""
    if not isinstance(value, int | float) and not hasattr(value, "__float__"):
        raise TypeError(f"{name!r} must be a number between 0 and 1, got {value!r}")
    if not 0 < value < 1:
        hint = f": did you mean {float(value) / 100:g}?" if 1 < value < 100 else ""
        raise ValueError(f"{name!r} must lie between 0 and 1, got {value!r}{hint}")
    if value > _MAX_CONFIDENCE:
        resamples = default_resamples(_MAX_CONFIDENCE)
        raise ValueError(
            f"{name!r} must be at most {_MAX_CONFIDENCE}, got {value!r}: a comparison would take more than "
            f"{resamples:,} resamples"
        )


_MIN_RESAMPLES = 1000
_MAX_CONFIDENCE = 0.999
"""The highest confidence level. The number of resamples of a comparison grows with 1 / (1 - confidence)."""


class Verdict(NamedTuple):
    """Whether a system is better than another one.

    Attributes:
        word: ``"better"``, ``"worse"``, or ``"unclear"``; ``"higher"`` or ``"lower"`` for a score of which neither is
            better.
        note: why it is unclear, if the interval or the p-value alone would show a difference, or if there are too few
            resamples; else empty.
    """

    word: str
    note: str = ""


def max_p_value(confidence: float) -> float:
    """The one-sided p-value below which a difference can be clear.

    Example:
        >>> max_p_value(0.95)
        0.025
    """
    return float(_tail(confidence))


def _tail(confidence: float) -> Fraction:
    """The share of resamples beyond each end of an interval, exactly: in binary, 1 - 0.95 is more than 0.05."""
    return (1 - Fraction(str(float(confidence)))) / 2


def resamples_needed(confidence: float, systems: int = 1) -> int:
    """The smallest number of resamples that can show a clear difference.

    The smallest p-value is 1 / (resamples + 1), and adjusting multiplies it by the number of systems.

    Args:
        confidence: the confidence level.
        systems: the number of systems that are compared with the baseline.

    Example:
        >>> resamples_needed(0.95), resamples_needed(0.95, systems=3)
        (40, 120)
    """
    return math.floor(systems / _tail(confidence))


def default_resamples(confidence: float, systems: int = 1) -> int:
    """The number of resamples of a comparison: ten times as many as are needed, and at least 1,000.

    Args:
        confidence: the confidence level.
        systems: the number of systems that are compared with the baseline.

    Example:
        >>> default_resamples(0.95), default_resamples(0.99), default_resamples(0.95, systems=5)
        (1000, 2000, 2000)
    """
    return max(_MIN_RESAMPLES, math.ceil(10 * systems / _tail(confidence)))


def judge(test: PairedTest, sign: int, confidence: float, *, p_value: float | None = None, systems: int = 1) -> Verdict:
    """Whether the first system of a paired bootstrap is better than the second.

    It is clearly better or worse if two things hold: the interval of the difference excludes 0, and the one-sided
    p-value is below (1 - confidence) / 2.

    Args:
        test: the test.
        sign: 1 if a higher score is better, -1 if a lower one is, and 0 if neither is.
        confidence: the confidence level.
        p_value: the p-value of the test, adjusted for the number of systems; as it is when None.
        systems: the number of systems that are compared with the baseline.
    """
    p_value = test.p_value if p_value is None else p_value
    needed = resamples_needed(confidence, systems)
    if test.trials < needed:
        return Verdict(
            "unclear", f"{test.trials:,} resamples are too few to show a clear difference: use at least {needed:,}"
        )
    largest = max_p_value(confidence)
    is_significant = p_value < largest
    tolerance = _ROUNDING * max(1.0, abs(test.score_a), abs(test.score_b))
    excludes_0 = test.low > tolerance or test.high < -tolerance
    if is_significant and excludes_0:
        if sign == 0:
            return Verdict("higher" if test.difference > 0 else "lower")
        return Verdict("better" if sign * test.difference > 0 else "worse")
    if is_significant:
        return Verdict("unclear", f"p = {p_value:.4f} is below {largest:g}, but the interval includes 0")
    if excludes_0:
        return Verdict("unclear", f"the interval excludes 0, but p = {p_value:.4f} is not below {largest:g}")
    return Verdict("unclear")


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for their number, so that all of them together hold the level of a single one.

    Follows Holm (1979), https://www.jstor.org/stable/4615733: the smallest p-value is multiplied by their number, the
    next one by their number less 1, and so on, without changing their order.

    Args:
        p_values: the p-values by name.

    Returns:
        the adjusted ones, at most 1.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        factor = len(p_values) - rank
        largest = max(largest, min(1.0, factor * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
