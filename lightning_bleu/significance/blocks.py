"""Blocks of consecutive sentences: the significance test of the BLEU paper."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightning_bleu.scoring.score import score
from lightning_bleu.settings.settings import Options, Settings
from lightning_bleu.significance.results import BlockScores, BlockTest
from lightning_bleu.significance.systems import System, check_count, read_systems

if TYPE_CHECKING:
    from typing_extensions import Unpack


def block_scores(system: System, blocks: int = 20, **options: Unpack[Options]) -> BlockScores:
    """Split the corpus into blocks of consecutive sentences and score each block.

    Follows section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040: 20 blocks of 25 sentences.

    Args:
        system: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        blocks: the number of blocks. If the corpus cannot be divided evenly, the first blocks have one more sentence.
        options: for bare statistics: how to score them, as options of :class:`lightning_bleu.CorpusBLEU`. A metric has
            its own settings.

    Raises:
        TypeError: if `system` is neither a metric nor statistics, or if options accompany a metric.
        ValueError: for fewer than two sentences, fewer than one block, or more blocks than sentences.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
        >>> print(block_scores(bleu, blocks=3))
        BLEU of 3 blocks: mean 75.84, standard deviation 21.15
    """
    (sentences,), settings = read_systems({"system": system}, options)
    return _score_blocks(sentences, check_count("blocks", blocks), settings)


def block_t_test(a: System, b: System, blocks: int = 20, **options: Unpack[Options]) -> BlockTest:
    """Test whether one system is better than another with a paired t-test over blocks of consecutive sentences.

    Follows section 3 of Papineni et al. (2002), https://aclanthology.org/P02-1040, who call t >= 1.7 over 20 blocks
    significant (95%, one-sided).

    Args:
        a: a :class:`lightning_bleu.CorpusBLEU` with ``keep_sentences=True``, or statistics, integers of shape
            ``(sentences, 2 * max_order + 2)``.
        b: the same for another system, with the same sentences in the same order.
        blocks: the number of blocks, at least 2.
        options: for bare statistics: how to score them, as options of :class:`lightning_bleu.CorpusBLEU`. A metric has
            its own settings.

    Raises:
        TypeError: if a system is neither a metric nor statistics, or if options accompany a metric.
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

    (first, second), settings = read_systems({"a": a, "b": b}, options)
    blocks = check_count("blocks", blocks, least=2)
    scores = _score_blocks(first, blocks, settings), _score_blocks(second, blocks, settings)
    differences = [one - other for one, other in zip(scores[0].scores, scores[1].scores)]
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(blocks)
    # If all differences are equal, t is infinite; if they are all 0, t is 0.
    t = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return BlockTest(*scores, t, 2 * float(student.sf(abs(t), blocks - 1)))


def _score_blocks(sentences: Tensor, blocks: int, settings: Settings) -> BlockScores:
    if blocks > len(sentences):
        raise ValueError(
            f"'blocks' must be at most the number of sentences, got {blocks} for {len(sentences)} sentences"
        )
    sums = torch.stack([block.sum(0) for block in sentences.tensor_split(blocks)])
    return BlockScores(tuple((settings.scale * score(sums, settings).bleu).tolist()), settings.percent)
