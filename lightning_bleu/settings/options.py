"""The names of the options, how a call with them is written, and the error for unknown ones."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypedDict

from lightning_bleu.settings.conventions import Convention
from lightning_bleu.settings.decoders import Decoder
from lightning_bleu.settings.tokenizers import Tokenizer
from lightning_bleu.suggestions import closest


class Options(TypedDict, total=False):
    """The options of a score, as the user passes them; see :class:`lightning_bleu.CorpusBLEU`."""

    max_order: int
    weights: Sequence[float] | None
    convention: str | Convention
    tokenizer: Tokenizer | None
    lowercase: bool | None
    smoothing: str | None
    smoothing_value: float | None
    reference_length: str | None
    effective_order: bool | None
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    ignore_ids: int | Iterable[int] | None
    decoder: Decoder | None
    percent: bool


OPTION_NAMES = tuple(Options.__annotations__)

_ELSEWHERE = {
    "bos_token_id": "'bos_id'",
    "eos_token_id": "'eos_id'",
    "ignore_index": "'ignore_ids'",
    "lower": "'lowercase'",
    "max_n": "'max_order'",
    "max_ngram_order": "'max_order'",
    "n_gram": "'max_order'",
    "ngram": "'max_order'",
    "pad_token_id": "'pad_id'",
    "smooth": "'smoothing' (smooth=True of torchmetrics is smoothing='add-k', of Hugging Face evaluate 'add-one')",
    "smooth_method": "'smoothing'",
    "smooth_value": "'smoothing_value'",
    "smoothing_function": "'smoothing' (SmoothingFunction().method1 of NLTK is smoothing='method1')",
    "tokenize": "'tokenizer'",
    "trg_lang": "'tokenizer' (trg_lang='zh' of sacreBLEU is tokenizer='zh', 'ja' is 'ja-mecab', 'ko' is 'ko-mecab')",
    "unk_token_id": "'unk_id'",
}
"""Option names in other libraries, each with its equivalent here."""


def unknown_options(names: Iterable[str], known: Collection[str] = OPTION_NAMES) -> TypeError:
    """Make the error for options that do not exist.

    Example:
        >>> print(unknown_options(["tokenise"]))
        unknown option 'tokenise': did you mean 'tokenizer'?
    """
    messages = []
    for name in sorted(names):
        hint = _ELSEWHERE.get(name) or closest(name, known)
        messages.append(f"{name!r}: did you mean {hint}?" if hint else f"{name!r}; the options are {sorted(known)}")
    return TypeError(f"unknown option {', '.join(messages)}")


def constructor_call(cls: type, options: Mapping[str, object]) -> str:
    """The call that makes an object: its class, and the options that differ from their defaults.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> constructor_call(CorpusBLEU, {"max_order": 4, "pad_id": 0, "tokenizer": str.split})
        'CorpusBLEU(pad_id=0, tokenizer=split)'
    """
    parameters = inspect.signature(cls).parameters
    descriptions = {name: (_describe(value), _describe(parameters[name].default)) for name, value in options.items()}
    given = [f"{name}={value}" for name, (value, default) in descriptions.items() if value != default]
    return f"{cls.__name__}({', '.join(given)})"


def _describe(value: object) -> str:
    """The name of a callable, or the ``repr`` of anything else."""
    if callable(value) or hasattr(value, "batch_decode"):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)
