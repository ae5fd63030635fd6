"""Corpus BLEU as a validation metric for PyTorch Lightning: right, exact, fast.

Start with :class:`CorpusBLEU`, or with :class:`BLEUCallback` to change no code of a model.
"""

from lightning_bleu.callback import BLEUCallback
from lightning_bleu.conventions import CONVENTIONS, Convention
from lightning_bleu.distributed import distributed_mask
from lightning_bleu.functional import corpus_bleu, sentence_bleu
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.score import BLEUScore
from lightning_bleu.significance import (
    approximate_randomization,
    block_scores,
    block_t_test,
    bootstrap_interval,
    paired_bootstrap,
)
from lightning_bleu.version import __version__

__all__ = [
    "CONVENTIONS",
    "BLEUCallback",
    "BLEUScore",
    "Convention",
    "CorpusBLEU",
    "__version__",
    "approximate_randomization",
    "block_scores",
    "block_t_test",
    "bootstrap_interval",
    "corpus_bleu",
    "distributed_mask",
    "paired_bootstrap",
    "sentence_bleu",
]
