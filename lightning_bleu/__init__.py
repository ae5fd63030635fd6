"""Corpus BLEU and chrF as validation metrics for PyTorch Lightning.

Start with :class:`CorpusBLEU`, or with :class:`BLEUCallback` to add BLEU without changing the code of a model.

The public names are in ``__init__.pyi``, one per line. A name is imported when it is used, because importing torch and
torchmetrics takes seconds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
