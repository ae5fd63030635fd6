"""Tokenizers by name: sacreBLEU's own objects, so results agree with sacreBLEU by construction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from lightning_bleu.messages import did_you_mean

TokenizeFunction: TypeAlias = Callable[[str], "str | Sequence[Hashable]"]
"""Takes a line and returns its tokens, or a string to split on whitespace."""

Tokenizer: TypeAlias = "str | TokenizeFunction"
"""A name from :data:`TOKENIZERS`, or a callable that always returns the same tokens for the same line."""

_INSTALL_COMMANDS = {
    "13a": "",
    "intl": "",
    "zh": "",
    "char": "",
    "none": "",
    "ja-mecab": 'pip install "sacrebleu[ja]"',
    "ko-mecab": 'pip install "sacrebleu[ko]"',
    "spm": "pip install sentencepiece",
    "flores101": "pip install sentencepiece",
    "flores200": "pip install sentencepiece",
    "spBLEU-1K": "pip install sentencepiece",
}

TOKENIZERS: Mapping[str, str] = {
    name: command for name, command in _INSTALL_COMMANDS.items() if name in BLEU.TOKENIZERS
}
"""The tokenizers of the installed sacreBLEU, each with the command that installs its optional dependencies.

``spBLEU-1K`` requires sacreBLEU 2.6.0 or newer.
"""


def load_tokenizer(tokenizer: Tokenizer) -> TokenizeFunction:
    """Load a tokenizer by name. A callable is returned unchanged.

    Raises:
        TypeError: if it is neither a name nor a callable.
        ValueError: if the name is unknown, or the tokenizer cannot be loaded, for example without its package.

    Example:
        >>> load_tokenizer("13a")("Hello, world!")
        'Hello , world !'
    """
    _refuse_tokenizer_of_a_model(tokenizer)
    if callable(tokenizer):
        return tokenizer
    if not isinstance(tokenizer, str):
        raise TypeError(
            f"'tokenizer' must be a name or a callable, got {tokenizer!r} of type {type(tokenizer).__name__}"
        )
    if tokenizer not in TOKENIZERS:
        hint = did_you_mean(tokenizer, TOKENIZERS)
        raise ValueError(f"'tokenizer' must be a callable or one of {list(TOKENIZERS)}, got {tokenizer!r}{hint}")
    return _uncached(_load_by_name(tokenizer))


def _refuse_tokenizer_of_a_model(tokenizer: Tokenizer) -> None:
    """Raise an error for a tokenizer of Hugging Face."""
    if hasattr(tokenizer, "batch_decode"):
        advice = "to decode ids, pass decoder=tokenizer; to count its subwords, pass tokenizer=tokenizer.tokenize"
    elif hasattr(tokenizer, "decode_batch") and not callable(tokenizer):
        advice = (
            "to decode ids, pass decoder=tokenizer.decode_batch; to count its subwords, pass "
            "tokenizer=lambda line: tokenizer.encode(line).tokens"
        )
    else:
        return
    raise TypeError(
        f"'tokenizer' splits text into words to count, but this {type(tokenizer).__name__} is the tokenizer of a "
        f"model: {advice}"
    )


def _uncached(tokenizer: BaseTokenizer) -> TokenizeFunction:
    """Bypass the cache of sacreBLEU, which would keep 65,536 lines, here joined from many words."""
    call = type(tokenizer).__call__
    return functools.partial(getattr(call, "__wrapped__", call), tokenizer)


@functools.cache
def _load_by_name(name: str) -> BaseTokenizer:
    try:
        tokenizer: BaseTokenizer = BLEU(tokenize=name).tokenizer
    except (Exception, SystemExit) as error:  # sacreBLEU exits on some download errors
        cause = f"{type(error).__name__}: {str(error).strip()}"
        if isinstance(error, ImportError | RuntimeError):
            advice = f"Install the packages it needs: {TOKENIZERS[name]}"
        elif isinstance(error, OSError | SystemExit):
            advice = (
                "sacreBLEU downloads its model on first use, which needs network access once. Or copy the folder "
                "'.sacrebleu/models' from the home directory of a machine that has the model"
            )
        else:
            advice = "sacreBLEU itself failed to load it"
        raise ValueError(f"tokenizer {name!r} cannot be loaded ({cause}). {advice}") from error
    if hasattr(tokenizer, "_post_tokenizer"):  # a tokenizer that has a cache, too
        tokenizer._post_tokenizer = _uncached(tokenizer._post_tokenizer)
    return tokenizer


def tokenizer_name(tokenizer: Tokenizer) -> str:
    """The name of a tokenizer in signatures: sacreBLEU's name, or the name of the callable."""
    if isinstance(tokenizer, str):
        return str(_load_by_name(tokenizer).signature())  # type: ignore[no-untyped-call]
    return getattr(tokenizer, "__name__", type(tokenizer).__name__)
