from .error_rates import CER, TER, WER
from .exact_match import ExactMatch
from .rouge import ROUGE

__all__ = ["CER", "ROUGE", "TER", "WER", "ExactMatch"]
