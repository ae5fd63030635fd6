"""Is a difference in BLEU real? Intervals and paired tests from the statistics of the sentences.

All of them ask how much the score depends on which sentences happen to be in the test set. A resample, a trial or a
block is a sum of sentences, and sums of all of them come out of one matrix product: weights (trials × sentences) times
statistics (sentences × counts). Sums of integers below 2^53 are exact in it, whatever the order. They are scored by
:func:`lightning_bleu.score.score` as any corpus is, so that every convention and smoothing will do.

Weights are made for some trials at a time, so that memory does not grow with their number. They are drawn by a
generator that belongs to the call, on the CPU, so that every device gets the same ones; sums and scores are made where
the statistics are.
"""

from __future__ import annotations

import math
import operator
import statistics as descriptive
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from lightning_bleu.conventions import Settings, make_settings
from lightning_bleu.functional import check_corpus_smoothing
from lightning_bleu.score import score

_CHUNK_CPU = 2**18
"""So many weights at a time: what fits into the cache."""
_CHUNK_ACCELERATOR = 2**24


class KeepsSentences(Protocol):
    """What is needed of a metric: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``."""

    settings: Settings

    @property
    def sentence_statistics(self) -> Tensor:
        """Integers of shape ``(sentences, 2 * max_order + 2)``."""

    @property
    def signature(self) -> str:
        """What the score depends on."""


System = Tensor | KeepsSentences
"""A metric that keeps its sentences, or their statistics."""


@dataclass(frozen=True)
class Interval:
    """A score with its confidence interval; ``str(...)`` is one line, in percent.

    Attributes:
        bleu: the score of the corpus.
        low: the lower end.
        high: the upper end.
        confidence: 0..1.
        scores: of the resamples, in the order in which they were drawn.
        percent: whether scores are in 0..100 rather than in 0..1.
    """

    bleu: float
    low: float
    high: float
    confidence: float
    scores: tuple[float, ...] = field(repr=False)
    percent: bool = False

    @property
    def half_width(self) -> float:
        """Half of the distance between the ends."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        bleu, low, high = (_percent(value, self.percent) for value in (self.bleu, self.low, self.high))
        return (
            f"BLEU = {bleu:.2f} ({100 * self.confidence:g}% interval {low:.2f} to {high:.2f}, "
            f"{len(self.scores)} resamples)"
        )


@dataclass(frozen=True)
class PairedTest:
    """How two systems compare on the same sentences; ``str(...)`` is one line, in percent.

    Attributes:
        test: the name of the test.
        bleu_a: the score of the first system.
        bleu_b: the score of the second.
        p_value: how probable so large a difference would be if the systems were equally good.
        trials: how many resamples or shuffles were tried.
        percent: whether scores are in 0..100 rather than in 0..1.
    """

    test: str
    bleu_a: float
    bleu_b: float
    p_value: float
    trials: int
    percent: bool = False

    @property
    def difference(self) -> float:
        """The score of the first system less that of the second."""
        return self.bleu_a - self.bleu_b

    def __str__(self) -> str:
        a, b, difference = (_percent(value, self.percent) for value in (self.bleu_a, self.bleu_b, self.difference))
        return (
            f"BLEU = {a:.2f} against {b:.2f}: {difference:+.2f}, p = {self.p_value:.4f} "
            f"({self.test}, {self.trials} trials)"
        )


@dataclass(frozen=True)
class BlockScores:
    """The scores of blocks of sentences; ``str(...)`` is one line, in percent.

    Attributes:
        scores: one for each block.
        percent: whether scores are in 0..100 rather than in 0..1.
    """

    scores: tuple[float, ...]
    percent: bool = False

    @property
    def mean(self) -> float:
        """The mean of the scores, which is not the score of the corpus."""
        return descriptive.fmean(self.scores)

    @property
    def standard_deviation(self) -> float:
        """Of the scores around their mean, with one degree of freedom less than there are blocks (0 for one block)."""
        return descriptive.stdev(self.scores) if len(self.scores) > 1 else 0.0

    def __str__(self) -> str:
        mean, deviation = (_percent(value, self.percent) for value in (self.mean, self.standard_deviation))
        return f"BLEU of {len(self.scores)} blocks: mean {mean:.2f}, standard deviation {deviation:.2f}"


@dataclass(frozen=True)
class BlockTest:
    """A paired t-test over blocks of sentences; ``str(...)`` is one line, in percent.

    Attributes:
        a: the blocks of the first system.
        b: the blocks of the second.
        t: mean over standard error of the differences between the blocks.
        p_value: two-sided, by Student's distribution with one degree of freedom less than there are blocks.
    """

    a: BlockScores
    b: BlockScores
    t: float
    p_value: float

    @property
    def difference(self) -> float:
        """The mean of the first system's blocks less that of the second's."""
        return self.a.mean - self.b.mean

    def __str__(self) -> str:
        difference = _percent(self.difference, self.a.percent)
        return (
            f"mean difference {difference:+.2f} over {len(self.a.scores)} blocks, "
            f"t = {self.t:.2f}, p = {self.p_value:.4f}"
        )


def bootstrap_interval(
    system: System, confidence: float = 0.95, resamples: int = 1000, seed: int = 0, **options: Any
) -> Interval:
    """Estimate how far the score depends on the choice of sentences, by drawing them again with replacement.

    After Koehn (2004), https://aclanthology.org/W04-3250: the interval holds the middle part of the resamples' scores.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        confidence: how much of the scores the interval holds.
        resamples: how often to draw as many sentences as there are.
        seed: of the draws; PyTorch's own generators stay as they are.
        options: for statistics: those of :class:`lightning_bleu.CorpusBLEU` that say how to score (a metric knows).

    Raises:
        TypeError: for something else, or options beside a metric.
        ValueError: for fewer than two sentences, a confidence outside of 0..1, or no resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(bootstrap_interval(bleu))
        BLEU = 76.00 (95% interval 60.65 to 100.00, 1000 resamples)
    """
    check_share("confidence", confidence)
    (sentences,), settings = _read({"system": system}, options)
    sums = _sums(sentences, _draw_with_replacement, _count("resamples", resamples), seed)
    scores = settings.scale * score(sums, settings).bleu
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=scores.dtype, device=scores.device)
    low, high = scores.quantile(ends).tolist()
    bleu = settings.scale * score(sentences.sum(0), settings).bleu.item()
    return Interval(bleu, low, high, confidence, tuple(scores.tolist()), settings.percent)


def paired_bootstrap(a: System, b: System, resamples: int = 1000, seed: int = 0, **options: Any) -> PairedTest:
    """Test whether a system is better than another, by drawing the sentences again for both alike.

    After Koehn (2004), https://aclanthology.org/W04-3250, with the p-value of sacreBLEU's ``--paired-bs``: how often
    the resamples' differences, absolute and less their mean, reach the difference that was found.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same of another system, for the same sentences in the same order.
        resamples: how often to draw as many sentences as there are.
        seed: of the draws; PyTorch's own generators stay as they are.
        options: for statistics: those of :class:`lightning_bleu.CorpusBLEU` that say how to score (a metric knows).

    Raises:
        TypeError: for something else, or options beside a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics that score differently, or no resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(paired_bootstrap(a, b))
        BLEU = 76.00 against 42.74: +33.26, p = 0.2617 (paired bootstrap, 1000 trials)
    """
    (first, second), settings = _read({"a": a, "b": b}, options)
    resamples = _count("resamples", resamples)
    columns = first.shape[1]
    sums = _sums(torch.cat([first, second], 1), _draw_with_replacement, resamples, seed)
    differences = (score(sums[:, :columns], settings).bleu - score(sums[:, columns:], settings).bleu).abs()
    return _paired_test("paired bootstrap", first, second, differences - differences.mean(), settings)


def approximate_randomization(a: System, b: System, trials: int = 10_000, seed: int = 0, **options: Any) -> PairedTest:
    """Test whether a system is better than another, by exchanging translations between them at random.

    After Riezler and Maxwell (2005), https://aclanthology.org/W05-0908, two-sided as sacreBLEU's ``--paired-ar``: how
    often systems that were mixed by tossing a coin for each sentence differ by as much as was found.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same of another system, for the same sentences in the same order.
        trials: how often to mix them.
        seed: of the coin; PyTorch's own generators stay as they are.
        options: for statistics: those of :class:`lightning_bleu.CorpusBLEU` that say how to score (a metric knows).

    Raises:
        TypeError: for something else, or options beside a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics that score differently, or no trial.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(approximate_randomization(a, b))
        BLEU = 76.00 against 42.74: +33.26, p = 0.4931 (approximate randomization, 10000 trials)
    """
    (first, second), settings = _read({"a": a, "b": b}, options)
    exchanged = _sums(second - first, _toss, _count("trials", trials), seed)
    mixed_first, mixed_second = first.sum(0) + exchanged, second.sum(0) - exchanged
    differences = (score(mixed_first, settings).bleu - score(mixed_second, settings).bleu).abs()
    return _paired_test("approximate randomization", first, second, differences, settings)


def block_scores(system: System, blocks: int = 20, **options: Any) -> BlockScores:
    """Cut the corpus into blocks of neighbouring sentences and score each.

    After section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040: 20 blocks of 25 sentences.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        blocks: how many; the first ones are longer by a sentence if the corpus cannot be divided evenly.
        options: for statistics: those of :class:`lightning_bleu.CorpusBLEU` that say how to score (a metric knows).

    Raises:
        TypeError: for something else, or options beside a metric.
        ValueError: for fewer than two sentences, no block, or more blocks than sentences.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(block_scores(bleu, blocks=3))
        BLEU of 3 blocks: mean 75.84, standard deviation 21.15
    """
    (sentences,), settings = _read({"system": system}, options)
    return _block_scores(sentences, _count("blocks", blocks), settings)


def block_t_test(a: System, b: System, blocks: int = 20, **options: Any) -> BlockTest:
    """Test whether a system is better than another by Student's paired t over blocks of neighbouring sentences.

    After section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040, who take a t of 1.7 or more over 20
    blocks for significant (95%, one-sided).

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same of another system, for the same sentences in the same order.
        blocks: how many, at least two.
        options: for statistics: those of :class:`lightning_bleu.CorpusBLEU` that say how to score (a metric knows).

    Raises:
        TypeError: for something else, or options beside a metric.
        ValueError: for different numbers of sentences, fewer than two, metrics that score differently, fewer than two
            blocks, or more blocks than sentences.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(block_t_test(a, b, blocks=3))
        mean difference +55.62 over 3 blocks, t = 1.89, p = 0.1991
    """
    from scipy.stats import t as student  # takes long to import

    (first, second), settings = _read({"a": a, "b": b}, options)
    blocks = _count("blocks", blocks, least=2)
    scores = _block_scores(first, blocks, settings), _block_scores(second, blocks, settings)
    differences = [one - other for one, other in zip(scores[0].scores, scores[1].scores)]
    mean, error = descriptive.fmean(differences), descriptive.stdev(differences) / math.sqrt(blocks)
    # blocks that all differ alike leave no doubt, unless they do not differ
    t = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return BlockTest(*scores, t, 2 * float(student.sf(abs(t), blocks - 1)))


def _block_scores(sentences: Tensor, blocks: int, settings: Settings) -> BlockScores:
    if blocks > len(sentences):
        raise ValueError(
            f"'blocks' must be at most the number of sentences, got {blocks} for {len(sentences)} sentences"
        )
    sums = torch.stack([block.sum(0) for block in sentences.tensor_split(blocks)])
    return BlockScores(tuple((settings.scale * score(sums, settings).bleu).tolist()), settings.percent)


def _paired_test(test: str, a: Tensor, b: Tensor, by_chance: Tensor, settings: Settings) -> PairedTest:
    """Count how often chance gives the difference that was found, itself being one of the trials.

    A trial that gives just that difference counts as well, unlike in sacreBLEU. It hardly ever does, unless the systems
    differ in a few sentences only: then most do, and not to count them would make an exchange of one sentence certain.
    """
    scores = score(torch.stack([a.sum(0), b.sum(0)]), settings).bleu
    found = (scores[0] - scores[1]).abs()
    # the same counts may differ in the last bits of their logarithms
    as_large = (by_chance >= found - 1e-12).sum().item()
    bleu_a, bleu_b = (settings.scale * scores).tolist()
    return PairedTest(test, bleu_a, bleu_b, (as_large + 1) / (len(by_chance) + 1), len(by_chance), settings.percent)


Draw = Callable[[Tensor, torch.Generator], None]
"""Fills weights, float64 of shape ``(trials, sentences)``, from a generator."""


def _sums(sentences: Tensor, draw: Draw, trials: int, seed: int) -> Tensor:
    """Weighted sums over the sentences, shape ``(trials, columns)``; the draws do not depend on the size of a chunk."""
    generator = torch.Generator("cpu").manual_seed(seed)
    size = _CHUNK_CPU if sentences.device.type == "cpu" else _CHUNK_ACCELERATOR
    # one piece of memory for all chunks, which takes less time than new ones
    weights = sentences.new_empty(min(trials, max(1, size // len(sentences))), len(sentences))
    sums = sentences.new_empty(trials, sentences.shape[1])
    for chunk in torch.split(sums, len(weights)):
        draw(weights[: len(chunk)], generator)
        torch.mm(weights[: len(chunk)], sentences, out=chunk)
    return sums


def _draw_with_replacement(weights: Tensor, generator: torch.Generator) -> None:
    """How often each sentence is in a resample of as many sentences."""
    # 32-bit draws take a tenth of the time of 64-bit ones
    drawn = torch.randint(weights.shape[1], weights.shape, generator=generator, dtype=torch.int32, device="cpu")
    weights.zero_().scatter_add_(1, drawn.to(weights.device).long(), weights.new_ones(1, 1).expand_as(weights))


def _toss(weights: Tensor, generator: torch.Generator) -> None:
    """0 or 1 for each sentence, eight from each random byte."""
    trials, sentences = weights.shape
    shape = trials, -(-sentences // 8)
    drawn = torch.randint(256, shape, generator=generator, dtype=torch.uint8, device="cpu")
    bits = drawn.to(weights.device)[..., None] >> torch.arange(8, dtype=torch.uint8, device=weights.device) & 1
    weights.copy_(bits.flatten(1)[:, :sentences])


def _read(systems: dict[str, System], options: dict[str, Any]) -> tuple[list[Tensor], Settings]:
    """The statistics of all systems, float64, and how to score them."""
    statistics = {name: _statistics(name, system, bool(options)) for name, system in systems.items()}
    metrics = [system for system in systems.values() if not isinstance(system, Tensor)]
    first = next(iter(statistics.values()))
    statistics = {name: other.to(first.device) for name, other in statistics.items()}
    for name, other in statistics.items():
        if len(other) < 2:
            raise ValueError(f"{name!r} must have at least two sentences, got {len(other)}")
        if other.shape != first.shape:
            raise ValueError(
                "both systems must have translated the same sentences and be counted to the same order, got statistics "
                f"of shape {tuple(first.shape)} and {tuple(other.shape)}"
            )
    if not metrics:
        settings = make_settings(first.shape[1] // 2 - 1, **options)
        return list(statistics.values()), check_corpus_smoothing(settings)
    signatures = sorted({metric.signature for metric in metrics})
    if not all(map(_agree, *(signature.split("|") for signature in (signatures[0], signatures[-1])))):
        raise ValueError(f"both systems must be scored in the same way, got {' and '.join(signatures)}")
    return list(statistics.values()), metrics[0].settings


def _agree(one: str, other: str) -> bool:
    """Whether two parts of signatures may be the same, ``?`` being unknown."""
    return one == other or one.endswith(":?") or other.endswith(":?")


def _statistics(name: str, system: System, options: bool) -> Tensor:
    if isinstance(system, Tensor):
        columns = system.shape[-1] if system.ndim == 2 else 0
        if system.is_floating_point() or system.is_complex() or columns < 4 or columns % 2:
            raise ValueError(
                f"{name!r} must be integers of shape (sentences, 2 * max_order + 2), as those of "
                f"CorpusBLEU(keep_sentences=True).sentence_statistics, got {system.dtype} of shape "
                f"{tuple(system.shape)}"
            )
        statistics = system
    elif hasattr(type(system), "sentence_statistics"):
        if options:
            raise TypeError("options say how to score statistics; a metric is scored as it was made")
        statistics = system.sentence_statistics
    else:
        raise TypeError(
            f"{name!r} must be a CorpusBLEU(keep_sentences=True) or statistics, got {type(system).__name__}"
        )
    # MPS has no 64-bit floating point
    return (statistics.cpu() if statistics.device.type == "mps" else statistics).double()


def check_share(name: str, value: float) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name!r} must lie between 0 and 1, got {value!r}")


def _count(name: str, value: Any, least: int = 1) -> int:
    if not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name!r} must be an integer of {least} or more, got {value!r}")
    return operator.index(value)


def _percent(value: float, percent: bool) -> float:
    return value if percent else 100 * value
