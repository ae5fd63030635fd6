"""An evaluator in the Trainers of Hugging Face Transformers.

A leaf: it imports ``core``, ``evaluation``, and the evaluator, and nothing imports it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
