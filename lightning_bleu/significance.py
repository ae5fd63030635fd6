"""Is a difference real? Paired tests of two systems, computed from the statistics of their sentences.

They measure how much the difference depends on which sentences happen to be in the test set. So do the intervals of
:meth:`lightning_bleu.CorpusBLEU.interval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.core.corpus_metric import CorpusMetric
from lightning_bleu.core.kept import KeptSentences
from lightning_bleu.core.messages import warn_user
from lightning_bleu.core.resampling import MIN_SENTENCES, PairedTest, bootstrap, describe_few_sentences, randomize
from lightning_bleu.core.scoring import RatioScorer, Scorer

System: TypeAlias = CorpusMetric | Sequence[float] | Tensor
"""A metric that has kept its sentences, or a number per sentence."""


def paired_bootstrap(
    a: System, b: System, resamples: int = 1000, seed: int = 0, *, confidence: float = 0.95
) -> PairedTest:
    """Test whether one system is better than another by drawing the same bootstrap resamples for both.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> target = [f"the cat sat on mat {number}" for number in range(40)]
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update([line.replace("cat", "dog") if "1" in line else line for line in target], target)
        >>> b.update([line.replace("sat", "lay") if "3" in line else line for line in target], target)
        >>> print(paired_bootstrap(a, b))
        BLEU = 85.72 against 80.51: +5.21 (95% interval -6.60 to +17.14), one-sided p = 0.1508 \
(paired bootstrap, 1000 trials)
        >>> paired_bootstrap([0.5, 0.75] * 20, [0.25, 0.75] * 20).difference
        0.125

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with ``keep_sentences=True``; or a
            number per sentence, such as a COMET score, whose mean is the score of the system.
        b: the same for another system, with the same sentences in the same order.
        resamples: the number of bootstrap resamples (Koehn 2004, https://aclanthology.org/W04-3250).
        seed: the random seed.
        confidence: the confidence level, in 0..1, of the two-sided interval of the difference.

    Returns:
        the test. Its p-value is one-sided, and computed like that of sacreBLEU's ``--paired-bs``.

    Raises:
        TypeError: if a system is neither a metric nor a number per sentence, and for options of the wrong type.
        ValueError: for different numbers of sentences, fewer than two, numbers that are not finite, metrics with
            different settings, or fewer than one resample.
    """
    rows_a, rows_b, scorer = _read_systems(a, b)
    if len(rows_a) < MIN_SENTENCES and not torch.equal(rows_a, rows_b):
        warn_user(describe_few_sentences(len(rows_a)))
    return bootstrap(rows_a, rows_b, scorer, confidence, resamples, seed)


def approximate_randomization(a: System, b: System, trials: int = 10_000, seed: int = 0) -> PairedTest:
    """Test whether one system is better than another by randomly exchanging translations between them.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> target = [f"the cat sat on mat {number}" for number in range(40)]
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update([line.replace("cat", "dog") if "1" in line else line for line in target], target)
        >>> b.update([line.replace("sat", "lay") if "3" in line else line for line in target], target)
        >>> print(approximate_randomization(a, b))
        BLEU = 85.72 against 80.51: +5.21, two-sided p = 0.4116 (approximate randomization, 10000 trials)

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with ``keep_sentences=True``; or a
            number per sentence, such as a COMET score, whose mean is the score of the system.
        b: the same for another system, with the same sentences in the same order.
        trials: the number of random exchanges (Riezler and Maxwell 2005, https://aclanthology.org/W05-0908).
        seed: the random seed.

    Returns:
        the test. Its p-value is two-sided, like that of sacreBLEU's ``--paired-ar``. It has no interval.

    Raises:
        TypeError: if a system is neither a metric nor a number per sentence, and for options of the wrong type.
        ValueError: for different numbers of sentences, fewer than two, numbers that are not finite, metrics with
            different settings, or fewer than one trial.
    """
    rows_a, rows_b, scorer = _read_systems(a, b)
    return randomize(rows_a, rows_b, scorer, trials, seed)


def _read_systems(a: Any, b: Any) -> tuple[Tensor, Tensor, Scorer]:
    """The statistics of the sentences of two systems in float64, and how they are scored.

    Raises:
        TypeError, ValueError: unless the systems can be compared.
    """
    if not isinstance(a, CorpusMetric) or not isinstance(b, CorpusMetric):
        numbers_a, numbers_b = _read_numbers(a, b)
        return numbers_a, numbers_b, RatioScorer("score")
    if a.scorer.name != b.scorer.name:
        raise ValueError(f"both systems must be scored by the same metric, got {a.scorer.name} and {b.scorer.name}")
    sentences_a, sentences_b = a.kept_sentences(), b.kept_sentences()
    _check_sizes(sentences_a.rows, sentences_b.rows)
    _check_settings(a, b, sentences_a, sentences_b)
    if not torch.equal(sentences_a.positions, sentences_b.positions):
        raise ValueError("both systems must have the same sentences, but their 'index' differs")
    differs = sentences_a.checksums != sentences_b.checksums
    if differs.any():
        raise ValueError(
            "both systems must have the same sentences in the same order, but the references of sentence "
            f"{differs.nonzero()[0].item()} differ"
        )
    return sentences_a.statistics.double(), sentences_b.statistics.double(), a.scorer


def _check_settings(a: CorpusMetric, b: CorpusMetric, sentences_a: KeptSentences, sentences_b: KeptSentences) -> None:
    """Raise an error unless two systems were scored in the same way."""
    differences = a.settings.differences(b.settings)
    inputs_a, inputs_b = sentences_a.input_counts, sentences_b.input_counts
    if inputs_a.kinds != inputs_b.kinds:
        differences.append("tokens")
    if inputs_a.reference_count != inputs_b.reference_count:
        differences.append("number of references")
    if not differences:
        return
    signature_a = a.scorer.report(sentences_a.statistics.sum(0), inputs_a).signature
    signature_b = b.scorer.report(sentences_b.statistics.sum(0), inputs_b).signature
    subject = "but they" if signature_a == signature_b else f"got {signature_a} and {signature_b}, which"
    raise ValueError(f"both systems must be scored in the same way, {subject} differ in: {', '.join(differences)}")


def _read_numbers(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """The rows of sentences that have a number each: the number, and a 1."""
    try:
        numbers_a = torch.as_tensor(a, dtype=torch.float64, device="cpu").detach()
        numbers_b = torch.as_tensor(b, dtype=torch.float64, device="cpu").detach()
        are_lists = numbers_a.ndim == numbers_b.ndim == 1
    except (TypeError, ValueError, RuntimeError):
        are_lists = False
    if not are_lists:
        raise TypeError(
            "both systems must be metrics such as CorpusBLEU(keep_sentences=True), or have a number per sentence, got "
            f"{type(a).__name__} and {type(b).__name__}"
        )
    _check_sizes(numbers_a, numbers_b)
    if not numbers_a.isfinite().all() or not numbers_b.isfinite().all():
        raise ValueError("the numbers of sentences must be finite")
    ones = torch.ones_like(numbers_a)
    return torch.stack([numbers_a, ones], 1), torch.stack([numbers_b, ones], 1)


def _check_sizes(a: Tensor, b: Tensor) -> None:
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"both systems must have the same number of sentences, at least two, got {len(a)} and {len(b)}"
        )
