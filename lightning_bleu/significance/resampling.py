"""Bootstrap and approximate randomization: resample sentences, or exchange them between two systems.

A resample or a shuffle is a weighted sum of sentences, so a matrix product computes many of them: weights (trials ×
sentences) times statistics (sentences × counts). Sums of integers below 2^53 are exact in float64, in any order. They
are scored by :func:`lightning_bleu.scoring.score.score` like any corpus, so every convention and smoothing works.

Everything happens on the CPU, with a generator of its own for each call. So PyTorch's global generators are unaffected,
and the same seed gives the same result on every device, and in every process.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.scoring.score import score
from lightning_bleu.settings.settings import Options, Settings
from lightning_bleu.significance.results import Interval, PairedTest
from lightning_bleu.significance.systems import System, check_count, check_share, read_systems

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MAX_WEIGHTS = 2**20
"""The maximum number of weights drawn at once. They are bytes, so that they stay in the cache, where drawing a resample
increments them in random order."""


def bootstrap_interval(
    system: System, confidence: float = 0.95, resamples: int = 1000, seed: int = 0, **options: Unpack[Options]
) -> Interval:
    """Compute a confidence interval of the score by resampling sentences with replacement.

    Follows Koehn (2004), https://aclanthology.org/W04-3250: the interval is the central part of the resampled scores.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        confidence: the fraction of resampled scores inside the interval.
        resamples: the number of bootstrap resamples.
        seed: the random seed.
        options: for bare statistics: how to score them, as options of :class:`lightning_bleu.CorpusBLEU`. A metric has
            its own settings.

    Raises:
        TypeError: if `system` is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for fewer than two sentences, for a confidence that is not between 0 and 1, or for fewer than one
            resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(bootstrap_interval(bleu))
        BLEU = 76.00 (95% interval 60.65 to 100.00, 1000 resamples)
    """
    check_share("confidence", confidence)
    resamples = check_count("resamples", resamples)
    (sentences,), settings = read_systems({"system": system}, options)
    (scores,) = resample_scores([sentences], settings, resamples, seed)
    return interval_of(scores, confidence, percent=settings.percent)


def paired_bootstrap(
    a: System, b: System, resamples: int = 1000, seed: int = 0, **options: Unpack[Options]
) -> PairedTest:
    """Test whether one system is better than another by drawing the same bootstrap resamples for both.

    Follows Koehn (2004), https://aclanthology.org/W04-3250, with the p-value of sacreBLEU's ``--paired-bs``: how often
    the absolute differences of the resamples, minus their mean, reach the observed difference.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same for another system, with the same sentences in the same order.
        resamples: the number of bootstrap resamples.
        seed: the random seed.
        options: for bare statistics: how to score them, as options of :class:`lightning_bleu.CorpusBLEU`. A metric has
            its own settings.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics with different settings, or fewer than
            one resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d e", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(paired_bootstrap(a, b))
        BLEU = 76.00 against 54.50: +21.50, p = 0.1538 (paired bootstrap, 1000 trials)
    """
    resamples = check_count("resamples", resamples)
    (first, second), settings = read_systems({"a": a, "b": b}, options)
    return paired_test_of(resample_scores([first, second], settings, resamples, seed), percent=settings.percent)


def resample_scores(systems: Sequence[Tensor], settings: Settings, resamples: int, seed: int) -> Tensor:
    """Score systems, and bootstrap resamples of their sentences, which are the same for all of them.

    Args:
        systems: the statistics of each system, float64 of shape ``(sentences, columns)``.
        settings: how to score them.
        resamples: the number of resamples.
        seed: the random seed.

    Returns:
        shape ``(systems, 1 + resamples)``: the score of each system, then those of its resamples.
    """
    sums = weighted_sums(torch.cat([*systems], 1), draw_with_replacement, resamples, seed)
    resampled = [score(own, settings).bleu for own in sums.chunk(len(systems), 1)]
    scores = [score(sentences.sum(0), settings).bleu.reshape(1) for sentences in systems]
    return settings.scale * torch.stack([torch.cat(pair) for pair in zip(scores, resampled)])


def interval_of(scores: Tensor, confidence: float, *, percent: bool) -> Interval:
    """The interval of a score; see :func:`resample_scores`."""
    bleu, resampled = scores[0].item(), scores[1:]
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=scores.dtype, device="cpu")
    low, high = resampled.quantile(ends).tolist()
    return Interval(bleu, low, high, confidence, tuple(resampled.tolist()), percent)


def paired_test_of(scores: Tensor, *, percent: bool) -> PairedTest:
    """The paired bootstrap test of two systems; see :func:`resample_scores`."""
    differences = (scores[0] - scores[1]).abs()
    by_chance = differences[1:] - differences[1:].mean()
    return _paired_test("paired bootstrap", scores[:, 0].tolist(), by_chance, percent=percent)


def approximate_randomization(
    a: System, b: System, trials: int = 10_000, seed: int = 0, **options: Unpack[Options]
) -> PairedTest:
    """Test whether one system is better than another by randomly exchanging translations between them.

    Follows Riezler and Maxwell (2005), https://aclanthology.org/W05-0908, two-sided like sacreBLEU's ``--paired-ar``.
    In each trial, a coin flip per sentence decides whether the two systems exchange their translations. The p-value is
    how often the difference is at least as large as observed.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same for another system, with the same sentences in the same order.
        trials: the number of random exchanges.
        seed: the random seed.
        options: for bare statistics: how to score them, as options of :class:`lightning_bleu.CorpusBLEU`. A metric has
            its own settings.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics with different settings, or fewer than
            one trial.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d e", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(approximate_randomization(a, b))
        BLEU = 76.00 against 54.50: +21.50, p = 0.4931 (approximate randomization, 10000 trials)
    """
    trials = check_count("trials", trials)
    (first, second), settings = read_systems({"a": a, "b": b}, options)
    exchanged = weighted_sums(second - first, toss_coins, trials, seed)
    mixed_first, mixed_second = first.sum(0) + exchanged, second.sum(0) - exchanged
    differences = settings.scale * (score(mixed_first, settings).bleu - score(mixed_second, settings).bleu).abs()
    bleus = [settings.scale * score(sentences.sum(0), settings).bleu.item() for sentences in (first, second)]
    return _paired_test("approximate randomization", bleus, differences, percent=settings.percent)


def _paired_test(test: str, bleus: Sequence[float], by_chance: Tensor, *, percent: bool) -> PairedTest:
    """Compute the p-value: how often chance reaches the observed difference, which itself counts as one trial.

    Unlike in sacreBLEU, trials that exactly equal the observed difference count. Ties are rare unless the systems
    differ in only a few sentences. Then most trials are ties, and if they did not count, a difference in a single
    sentence would look significant.
    """
    # Scores of equal counts may differ in the last bits, from rounding.
    tolerance = 1e-12 * (100 if percent else 1)
    as_large = (by_chance >= abs(bleus[0] - bleus[1]) - tolerance).sum().item()
    return PairedTest(test, bleus[0], bleus[1], (as_large + 1) / (len(by_chance) + 1), len(by_chance), percent)


Draw: TypeAlias = Callable[[Tensor, torch.Generator], None]
"""Fills weights, bytes of shape ``(trials, sentences)``, in place from a generator."""


def weighted_sums(sentences: Tensor, draw: Draw, trials: int, seed: int) -> Tensor:
    """Draw weights and compute weighted sums of the sentences.

    Args:
        sentences: float64 of shape ``(sentences, columns)``.
        draw: draws the weights of a chunk of trials. The result does not depend on the size of the chunks.
        trials: the number of sums.
        seed: the random seed.

    Returns:
        sums of shape ``(trials, columns)``.
    """
    generator = torch.Generator("cpu").manual_seed(operator.index(seed))
    drawn_at_once = min(trials, max(1, _MAX_WEIGHTS // max(1, len(sentences))))
    weights = torch.empty(drawn_at_once, len(sentences), dtype=torch.uint8, device="cpu")
    sums = sentences.new_zeros(trials, sentences.shape[1])
    if not len(sentences):
        return sums
    for chunk in torch.split(sums, drawn_at_once):
        draw(weights[: len(chunk)], generator)
        torch.mm(weights[: len(chunk)].double(), sentences, out=chunk)
    return sums


def draw_with_replacement(weights: Tensor, generator: torch.Generator) -> None:
    """Draw how often each sentence appears in a resample of the same size.

    A byte is enough: the probability that a sentence is drawn 256 times is below 10^-490.
    """
    # 32-bit draws are ten times as fast as 64-bit ones.
    drawn = torch.randint(weights.shape[1], weights.shape, generator=generator, dtype=torch.int32, device="cpu")
    weights.zero_().scatter_add_(1, drawn.long(), weights.new_ones(1, 1).expand_as(weights))


def toss_coins(weights: Tensor, generator: torch.Generator) -> None:
    """Draw 0 or 1 for each sentence, eight from each random byte."""
    trials, sentences = weights.shape
    shape = trials, -(-sentences // 8)
    drawn = torch.randint(256, shape, generator=generator, dtype=torch.uint8, device="cpu")
    bits = drawn[..., None] >> torch.arange(8, dtype=torch.uint8, device="cpu") & 1
    weights.copy_(bits.flatten(1)[:, :sentences])
