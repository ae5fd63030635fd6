"""Corpus BLEU and chrF as validation metrics for PyTorch Lightning.

Start with :class:`CorpusBLEU`, or with :class:`BLEUCallback` to add BLEU without changing the code of a model.
"""

from typing import TYPE_CHECKING, Any

from lightning_bleu.bleu import BLEUScore, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.chrf import CHRFScore, CorpusCHRF, corpus_chrf, sentence_chrf
from lightning_bleu.comparison import Comparison, compare_systems
from lightning_bleu.evaluation.choices import find_worst
from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.evaluation.loaders import distributed_index
from lightning_bleu.evaluation.results import Result
from lightning_bleu.evaluation.task_metrics import CER, ROUGE, TER, WER, ExactMatch, TokenCount
from lightning_bleu.evaluator import Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin
from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.settings.conventions import CONVENTIONS, Convention
from lightning_bleu.significance import approximate_randomization, paired_bootstrap
from lightning_bleu.version import __version__

if TYPE_CHECKING:
    from lightning_bleu.callback import BLEUCallback

__all__ = [
    "CER",
    "CONVENTIONS",
    "ROUGE",
    "TER",
    "WER",
    "BLEUCallback",
    "BLEUScore",
    "CHRFScore",
    "Comparison",
    "Convention",
    "CorpusBLEU",
    "CorpusCHRF",
    "Evaluator",
    "EvaluatorMixin",
    "ExactMatch",
    "FunctionMetric",
    "Interval",
    "PairedTest",
    "Result",
    "TokenCount",
    "__version__",
    "approximate_randomization",
    "compare_systems",
    "corpus_bleu",
    "corpus_chrf",
    "distributed_index",
    "find_worst",
    "paired_bootstrap",
    "sentence_bleu",
    "sentence_chrf",
]


def __getattr__(name: str) -> Any:
    # Lazy: only the callback needs Lightning, which is slow to import.
    if name == "BLEUCallback":
        from lightning_bleu.callback import BLEUCallback

        return BLEUCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
