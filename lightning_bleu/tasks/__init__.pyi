from .error_rates import CER, TER, WER
from .exact_match import ExactMatch
from .rouge import ROUGE
from .token_count import TokenCount

__all__ = ["CER", "ROUGE", "TER", "WER", "ExactMatch", "TokenCount"]
