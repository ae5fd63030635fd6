"""Bootstrap and approximate randomization: how much a score, or a difference, depends on the choice of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_bleu.bleu import BLEUOptions
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.resampling import (
    Interval,
    PairedTest,
    check_count,
    interval_from,
    paired_test_of,
    randomize,
    resample_scores,
)
from lightning_bleu.significance.systems import System, read_systems

if TYPE_CHECKING:
    from typing_extensions import Unpack


def bootstrap_interval(
    system: System,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    metric: CorpusMetric | None = None,
    **options: Unpack[BLEUOptions],
) -> Interval:
    """Compute a confidence interval of the score by resampling sentences with replacement.

    Follows Koehn (2004), https://aclanthology.org/W04-3250: the interval is the central part of the resampled scores.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with
            ``keep_sentences=True``, or statistics, such as their ``sentence_statistics``.
        confidence: the fraction of resampled scores inside the interval.
        resamples: the number of bootstrap resamples.
        seed: the random seed.
        metric: for bare statistics: a metric that says how to score them; ``CorpusBLEU(**options)`` when None.
        options: for bare statistics: options of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: if `system` is neither a metric nor statistics, or for a metric with options.
        ValueError: for fewer than two sentences, for a confidence that is not between 0 and 1, or for fewer than one
            resample.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(bootstrap_interval(bleu))
        BLEU = 76.00 (95% interval 60.65 to 100.00, 1000 resamples)
    """
    (sentences,), scoring = read_systems({"system": system}, metric, options)
    return interval_from(sentences, scoring, confidence, resamples, seed)


def paired_bootstrap(
    a: System,
    b: System,
    resamples: int = 1000,
    seed: int = 0,
    metric: CorpusMetric | None = None,
    **options: Unpack[BLEUOptions],
) -> PairedTest:
    """Test whether one system is better than another by drawing the same bootstrap resamples for both.

    Follows Koehn (2004), https://aclanthology.org/W04-3250, with the p-value of sacreBLEU's ``--paired-bs``: how often
    the absolute differences of the resamples, minus their mean, reach the observed difference.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with
            ``keep_sentences=True``, or statistics, such as their ``sentence_statistics``.
        b: the same for another system, with the same sentences in the same order.
        resamples: the number of bootstrap resamples.
        seed: the random seed.
        metric: for bare statistics: a metric that says how to score them; ``CorpusBLEU(**options)`` when None.
        options: for bare statistics: options of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or for a metric with options.
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
    systems, scoring = read_systems({"a": a, "b": b}, metric, options)
    return paired_test_of(resample_scores(systems, scoring, resamples, seed), scoring)


def approximate_randomization(
    a: System,
    b: System,
    trials: int = 10_000,
    seed: int = 0,
    metric: CorpusMetric | None = None,
    **options: Unpack[BLEUOptions],
) -> PairedTest:
    """Test whether one system is better than another by randomly exchanging translations between them.

    Follows Riezler and Maxwell (2005), https://aclanthology.org/W05-0908, two-sided like sacreBLEU's ``--paired-ar``.
    In each trial, a coin flip per sentence decides whether the two systems exchange their translations. The p-value is
    how often the difference is at least as large as observed.

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with
            ``keep_sentences=True``, or statistics, such as their ``sentence_statistics``.
        b: the same for another system, with the same sentences in the same order.
        trials: the number of random exchanges.
        seed: the random seed.
        metric: for bare statistics: a metric that says how to score them; ``CorpusBLEU(**options)`` when None.
        options: for bare statistics: options of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or for a metric with options.
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
    (first, second), scoring = read_systems({"a": a, "b": b}, metric, options)
    return randomize(first, second, scoring, trials, seed)
