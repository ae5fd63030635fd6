"""Metrics of other tasks for an evaluator: WER, CER, TER, ROUGE, and exact match.

A leaf: it imports ``core`` and ``evaluation``, and nothing imports it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
