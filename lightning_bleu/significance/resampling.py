"""Bootstrap and approximate randomization: draw the sentences again, or exchange them between two systems.

A resample or a shuffle is a weighted sum of sentences, and the sums of all of them come out of one matrix product:
weights (trials × sentences) times statistics (sentences × counts). Sums of integers below 2^53 are exact in it, in any
order. They are scored by :func:`lightning_bleu.scoring.score.score` as any corpus is, so every convention and smoothing
works.

Weights are made for some trials at a time, so memory does not grow with their number. They are drawn on the CPU by a
generator that belongs to the call, so every device gets the same ones and PyTorch's own generators stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.scoring.options import Options
from lightning_bleu.scoring.score import score
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.significance.results import Interval, PairedTest
from lightning_bleu.significance.systems import System, check_count, check_share, read_systems

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MAX_WEIGHTS_CPU = 2**18
"""Weights that are made at once: what fits into the cache."""
_MAX_WEIGHTS_ACCELERATOR = 2**24


def bootstrap_interval(
    system: System, confidence: float = 0.95, resamples: int = 1000, seed: int = 0, **options: Unpack[Options]
) -> Interval:
    """Estimate how much the score depends on the choice of sentences, by drawing them again with replacement.

    After Koehn (2004), https://aclanthology.org/W04-3250: the interval holds the middle part of the resamples' scores.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        confidence: the share of the resamples' scores that the interval holds.
        resamples: how often to draw as many sentences as there are.
        seed: seeds the draws.
        options: how to score bare statistics, options of :class:`lightning_bleu.CorpusBLEU`. A metric is scored as it
            was made.

    Raises:
        TypeError: if `system` is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for fewer than two sentences, a confidence outside of 0..1, or no resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(bootstrap_interval(bleu))
        BLEU = 76.00 (95% interval 60.65 to 100.00, 1000 resamples)
    """
    check_share("confidence", confidence)
    (sentences,), settings = read_systems({"system": system}, options)
    sums = weighted_sums(sentences, draw_with_replacement, check_count("resamples", resamples), seed)
    scores = settings.scale * score(sums, settings).bleu
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=scores.dtype, device=scores.device)
    low, high = scores.quantile(ends).tolist()
    bleu = settings.scale * score(sentences.sum(0), settings).bleu.item()
    return Interval(bleu, low, high, confidence, tuple(scores.tolist()), settings.percent)


def paired_bootstrap(
    a: System, b: System, resamples: int = 1000, seed: int = 0, **options: Unpack[Options]
) -> PairedTest:
    """Test whether one system is better than another, by drawing the sentences again for both alike.

    After Koehn (2004), https://aclanthology.org/W04-3250, with the p-value of sacreBLEU's ``--paired-bs``: how often
    the resamples' differences, in absolute terms and minus their mean, reach the observed difference.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same of another system, for the same sentences in the same order.
        resamples: how often to draw as many sentences as there are.
        seed: seeds the draws.
        options: how to score bare statistics, options of :class:`lightning_bleu.CorpusBLEU`. A metric is scored as it
            was made.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics that score differently, or no resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d e", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(paired_bootstrap(a, b))
        BLEU = 76.00 against 54.50: +21.50, p = 0.1538 (paired bootstrap, 1000 trials)
    """
    (first, second), settings = read_systems({"a": a, "b": b}, options)
    columns = first.shape[1]
    both = torch.cat([first, second], 1)
    sums = weighted_sums(both, draw_with_replacement, check_count("resamples", resamples), seed)
    differences = (score(sums[:, :columns], settings).bleu - score(sums[:, columns:], settings).bleu).abs()
    return _paired_test("paired bootstrap", first, second, differences - differences.mean(), settings)


def approximate_randomization(
    a: System, b: System, trials: int = 10_000, seed: int = 0, **options: Unpack[Options]
) -> PairedTest:
    """Test whether one system is better than another, by exchanging translations between them at random.

    After Riezler and Maxwell (2005), https://aclanthology.org/W05-0908, two-sided as sacreBLEU's ``--paired-ar``: how
    often two systems differ as much as observed if a coin decides, sentence by sentence, which translation is whose.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same of another system, for the same sentences in the same order.
        trials: how often to mix them.
        seed: seeds the coin.
        options: how to score bare statistics, options of :class:`lightning_bleu.CorpusBLEU`. A metric is scored as it
            was made.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics that score differently, or no trial.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d e", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(approximate_randomization(a, b))
        BLEU = 76.00 against 54.50: +21.50, p = 0.4931 (approximate randomization, 10000 trials)
    """
    (first, second), settings = read_systems({"a": a, "b": b}, options)
    exchanged = weighted_sums(second - first, toss_coins, check_count("trials", trials), seed)
    mixed_first, mixed_second = first.sum(0) + exchanged, second.sum(0) - exchanged
    differences = (score(mixed_first, settings).bleu - score(mixed_second, settings).bleu).abs()
    return _paired_test("approximate randomization", first, second, differences, settings)


def _paired_test(test: str, a: Tensor, b: Tensor, by_chance: Tensor, settings: Settings) -> PairedTest:
    """Count how often chance reaches the observed difference, which is itself one of the trials.

    Unlike in sacreBLEU, a trial with exactly the observed difference counts. That is rare, unless the systems differ in
    a few sentences only: then most trials are like it, and not counting them would make an exchange of one sentence
    certain.
    """
    scores = score(torch.stack([a.sum(0), b.sum(0)]), settings).bleu
    observed = (scores[0] - scores[1]).abs()
    # Equal counts may differ in the last bits of their logarithms.
    as_large = (by_chance >= observed - 1e-12).sum().item()
    bleu_a, bleu_b = (settings.scale * scores).tolist()
    return PairedTest(test, bleu_a, bleu_b, (as_large + 1) / (len(by_chance) + 1), len(by_chance), settings.percent)


Draw: TypeAlias = Callable[[Tensor, torch.Generator], None]
"""Fills weights, 64-bit floating point of shape ``(trials, sentences)``, from a generator."""


def weighted_sums(sentences: Tensor, draw: Draw, trials: int, seed: int) -> Tensor:
    """Draw weights and sum the sentences with them.

    Args:
        sentences: 64-bit floating point of shape ``(sentences, columns)``.
        draw: draws the weights of some trials. The result does not depend on how many trials are drawn at once.
        trials: the number of sums.
        seed: seeds the draws.

    Returns:
        sums of shape ``(trials, columns)``.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    size = _MAX_WEIGHTS_CPU if sentences.device.type == "cpu" else _MAX_WEIGHTS_ACCELERATOR
    # One piece of memory for all chunks, which takes less time than a new one for each.
    weights = sentences.new_empty(min(trials, max(1, size // len(sentences))), len(sentences))
    sums = sentences.new_empty(trials, sentences.shape[1])
    for chunk in torch.split(sums, len(weights)):
        draw(weights[: len(chunk)], generator)
        torch.mm(weights[: len(chunk)], sentences, out=chunk)
    return sums


def draw_with_replacement(weights: Tensor, generator: torch.Generator) -> None:
    """How often each sentence is in a resample of as many sentences."""
    # 32-bit draws take a tenth of the time of 64-bit ones.
    drawn = torch.randint(weights.shape[1], weights.shape, generator=generator, dtype=torch.int32, device="cpu")
    weights.zero_().scatter_add_(1, drawn.to(weights.device).long(), weights.new_ones(1, 1).expand_as(weights))


def toss_coins(weights: Tensor, generator: torch.Generator) -> None:
    """0 or 1 for each sentence, eight from each random byte."""
    trials, sentences = weights.shape
    shape = trials, -(-sentences // 8)
    drawn = torch.randint(256, shape, generator=generator, dtype=torch.uint8, device="cpu")
    bits = drawn.to(weights.device)[..., None] >> torch.arange(8, dtype=torch.uint8, device=weights.device) & 1
    weights.copy_(bits.flatten(1)[:, :sentences])
