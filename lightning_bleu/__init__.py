"""Corpus BLEU and chrF as validation metrics for PyTorch Lightning.

Start with :class:`CorpusBLEU`, or with :class:`BLEUCallback` to add BLEU without changing the code of a model.

The public names are in ``__init__.pyi``; ``tasks``, ``hugging_face``, and ``compare`` have more. A name is imported
when it is used, because importing torch and torchmetrics takes seconds.
"""

import sys
from typing import Any

import lazy_loader

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_MOVED = {
    **dict.fromkeys(["CER", "ROUGE", "TER", "WER", "ExactMatch"], "tasks"),
    **dict.fromkeys(["EvaluatorMixin", "Prompts"], "hugging_face"),
    **dict.fromkeys(["Comparison", "RecordedRun", "compare_systems", "read_run"], "compare"),
}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        message = f"{name} is in another module: from lightning_bleu.{_MOVED[name]} import {name}"
        # "from lightning_bleu import NAME" would replace an AttributeError by an error without this message.
        is_import = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        raise ImportError(message) if is_import else AttributeError(message)
    return _get(name)
