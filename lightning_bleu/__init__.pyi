from .bleu import BLEUScore, CorpusBLEU, corpus_bleu, sentence_bleu
from .callback import BLEUCallback
from .chrf import CHRFScore, CorpusCHRF, corpus_chrf, sentence_chrf
from .comparison import Comparison
from .display.results import Results
from .display.samples import Sample, Samples
from .evaluation.functions import FunctionMetric
from .evaluation.loaders import distributed_index
from .evaluation.results import Result
from .evaluation.task_metrics import CER, ROUGE, TER, WER, ExactMatch, TokenCount
from .evaluator import Evaluator
from .generation.prompts import Prompts
from .hugging_face import EvaluatorMixin
from .recorded_run import RecordedRun, read_run
from .scoring.resampling import Interval, PairedTest
from .settings.conventions import CONVENTIONS, Convention
from .significance import approximate_randomization, paired_bootstrap
from .systems import compare_systems
from .version import __version__

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
    "Prompts",
    "RecordedRun",
    "Result",
    "Results",
    "Sample",
    "Samples",
    "TokenCount",
    "__version__",
    "approximate_randomization",
    "compare_systems",
    "corpus_bleu",
    "corpus_chrf",
    "distributed_index",
    "paired_bootstrap",
    "read_run",
    "sentence_bleu",
    "sentence_chrf",
]
