from .bleu import BLEUScore, corpus_bleu, sentence_bleu
from .callback import BLEUCallback
from .chrf import CHRFScore, corpus_chrf, sentence_chrf
from .core.conventions import CONVENTIONS, Convention
from .core.significance import Interval, PairedTest
from .evaluation.input.positions import distributed_mask
from .evaluation.metrics.functions import FunctionMetric
from .evaluation.scores.validation import Result
from .evaluation.texts.findings import Finding
from .evaluator import Evaluator
from .metrics import CorpusBLEU, CorpusCHRF
from .observers.results import Results
from .observers.samples import Sample, Samples
from .version import __version__

__all__ = [
    "CONVENTIONS",
    "BLEUCallback",
    "BLEUScore",
    "CHRFScore",
    "Convention",
    "CorpusBLEU",
    "CorpusCHRF",
    "Evaluator",
    "Finding",
    "FunctionMetric",
    "Interval",
    "PairedTest",
    "Result",
    "Results",
    "Sample",
    "Samples",
    "__version__",
    "corpus_bleu",
    "corpus_chrf",
    "distributed_mask",
    "sentence_bleu",
    "sentence_chrf",
]
