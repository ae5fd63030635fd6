"""Corpus BLEU and chrF as validation metrics for PyTorch Lightning.

Start with :class:`CorpusBLEU`, or with :class:`BLEUCallback` to add BLEU without changing the code of a model.

The public names are in ``__init__.pyi``; ``tasks``, ``hugging_face``, and ``compare`` have more. A name is imported
when it is used, because importing torch and torchmetrics takes seconds.
"""

import contextlib
import importlib
import sys
from typing import Any

import lazy_loader

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def _find_leaf(name: str) -> str:
    """The module that has a public name; empty if none has."""
    for leaf in ("tasks", "hugging_face", "compare"):
        with contextlib.suppress(ImportError):
            if name in importlib.import_module(f"lightning_bleu.{leaf}").__all__:
                return leaf
    return ""


def __getattr__(name: str) -> Any:
    leaf = "" if name in __all__ or name.startswith("_") else _find_leaf(name)
    if leaf:
        message = f"{name} is in another module: from lightning_bleu.{leaf} import {name}"
        # "from lightning_bleu import NAME" would replace an AttributeError by an error without this message.
        is_import = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        raise ImportError(message) if is_import else AttributeError(message)
    return _get(name)
