"""Is a difference in BLEU real? Confidence intervals and paired tests, computed from per-sentence statistics.

They all measure how much the score depends on which sentences happen to be in the test set.
"""

from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.significance.blocks import BlockScores, BlockTest, block_scores, block_t_test
from lightning_bleu.significance.resampling import approximate_randomization, bootstrap_interval, paired_bootstrap

__all__ = [
    "BlockScores",
    "BlockTest",
    "Interval",
    "PairedTest",
    "approximate_randomization",
    "block_scores",
    "block_t_test",
    "bootstrap_interval",
    "paired_bootstrap",
]
