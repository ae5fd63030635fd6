"""Blocks of consecutive sentences: the significance test of the BLEU paper."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUOptions
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.resampling import check_count
from lightning_bleu.scoring.scoring import Scoring, format_score
from lightning_bleu.significance.systems import System, read_systems

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


def block_scores(
    system: System, blocks: int = 20, metric: CorpusMetric | None = None, **options: Unpack[BLEUOptions]
) -> BlockScores:
    """Split the corpus into blocks of consecutive sentences and score each block.

    Follows section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040: 20 blocks of 25 sentences.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with
            ``keep_sentences=True``, or statistics, such as their ``sentence_statistics``.
        blocks: the number of blocks. If the corpus cannot be divided evenly, the first blocks have one more sentence.
        metric: for bare statistics: a metric that says how to score them; ``CorpusBLEU(**options)`` when None.
        options: for bare statistics: options of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: if `system` is neither a metric nor statistics, or for a metric with options.
        ValueError: for fewer than two sentences, fewer than one block, or more blocks than sentences.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(block_scores(bleu, blocks=3))
        BLEU of 3 blocks: mean 75.84, standard deviation 21.15
    """
    (sentences,), scoring = read_systems({"system": system}, metric, options)
    return _score_blocks(sentences, check_count("blocks", blocks), scoring)


def block_t_test(
    a: System, b: System, blocks: int = 20, metric: CorpusMetric | None = None, **options: Unpack[BLEUOptions]
) -> BlockTest:
    """Test whether one system is better than another with a paired t-test over blocks of consecutive sentences.

    Follows section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040, who call t >= 1.7 over 20 blocks
    significant (95%, one-sided).

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` or :class:`lightning_bleu.CorpusCHRF` with
            ``keep_sentences=True``, or statistics, such as their ``sentence_statistics``.
        b: the same for another system, with the same sentences in the same order.
        blocks: the number of blocks, at least 2.
        metric: for bare statistics: a metric that says how to score them; ``CorpusBLEU(**options)`` when None.
        options: for bare statistics: options of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or for a metric with options.
        ValueError: for different numbers of sentences, fewer than two, metrics with different settings, fewer than two
            blocks, or more blocks than sentences.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> a, b = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
        >>> a.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> b.update(["a b c e d", "a b c d e", "e d c c c"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(block_t_test(a, b, blocks=3))
        mean difference +19.25 over 3 blocks, t = 0.87, p = 0.4754
    """
    from scipy.stats import t as student  # slow to import

    (first, second), scoring = read_systems({"a": a, "b": b}, metric, options)
    blocks = check_count("blocks", blocks, least=2)
    scores = _score_blocks(first, blocks, scoring), _score_blocks(second, blocks, scoring)
    differences = [one - other for one, other in zip(scores[0].scores, scores[1].scores)]
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(blocks)
    # If all differences are equal, t is infinite; if they are all 0, t is 0.
    t = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return BlockTest(*scores, t, 2 * float(student.sf(abs(t), blocks - 1)))


def _score_blocks(sentences: Tensor, blocks: int, scoring: Scoring) -> BlockScores:
    if blocks > len(sentences):
        raise ValueError(
            f"'blocks' must be at most the number of sentences, got {blocks} for {len(sentences)} sentences"
        )
    sums = torch.stack([block.sum(0) for block in sentences.tensor_split(blocks)])
    return BlockScores(tuple(scoring.score(sums).tolist()), scoring.percent, scoring.name)
