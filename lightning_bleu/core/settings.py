"""Settings: everything that determines a score, listed, checked, and compared."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from lightning_bleu.core.messages import did_you_mean, list_values, wrong_type

if TYPE_CHECKING:
    from typing_extensions import Self


class BatchDecoder(Protocol):
    """A Hugging Face tokenizer."""

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool) -> Sequence[str]:
        """Decode lists of ids to strings."""


Decoder: TypeAlias = BatchDecoder | Callable[[list[list[int]]], Sequence[str]]
"""Decodes lists of ids to strings."""

_ELSEWHERE = {
    "ci": "'confidence'",
    "max_n": "'max_order'",
    "n_gram": "'max_order'",
    "ngram": "'max_order'",
    "smooth": "'smoothing' (smooth=True of torchmetrics is smoothing='add-k', of Hugging Face evaluate 'add-one')",
    "smooth_method": "'smoothing'",
    "smoothing_function": "'smoothing' (SmoothingFunction().method1 of NLTK is smoothing='method1')",
    "trg_lang": "'tokenizer' (trg_lang='zh' of sacreBLEU is tokenizer='zh', 'ja' is 'ja-mecab', 'ko' is 'ko-mecab')",
}
"""Option names in other libraries that are not similar to ours, each with its equivalent here."""

_READING_OPTIONS = ("decoder", "ignore_ids", "pad_id", "bos_id", "eos_id")
"""How ids are read. These options depend on the vocabulary of a model, as does the ``unk_id`` of BLEU."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that all metrics have: how to read sentences, and the scale of scores.

    Attributes:
        lowercase: whether text is lowercased.
        pad_id: padding; removed.
        bos_id: begins a sentence; removed.
        eos_id: ends a sentence; removed together with everything after it. If it is also the ``bos_id`` or the
            ``pad_id``, it ends the sentence only after the first token.
        ignore_ids: other ids to remove.
        decoder: decodes ids to strings.
        percent: whether scores are in 0..100 rather than in 0..1.

    Raises:
        TypeError: for a value of the wrong type.
        ValueError: for a value that is out of range or not one of the choices; the message lists the choices.
    """

    lowercase: bool = False
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    ignore_ids: tuple[int, ...] = (-100,)
    decoder: Decoder | None = field(default=None, hash=False)
    percent: bool = False

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Make settings from options, and check them.

        Example:
            >>> Settings.from_options(pad_id=0, ignore_ids=None).ignore_ids
            ()
        """
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = options.keys() - set(names)
        if unknown:
            raise unknown_options(unknown, names)
        return cls(**options)

    def __post_init__(self) -> None:
        for name in ("pad_id", "bos_id", "eos_id"):
            self._set_checked(**{name: check_id(name, getattr(self, name))})
        for name in ("lowercase", "percent"):
            self._set_checked(**{name: check_bool(name, getattr(self, name))})
        self._set_checked(ignore_ids=_check_ids("ignore_ids", self.ignore_ids))
        if self.decoder is not None:
            _check_decoder(self.decoder)

    def _set_checked(self, **checked: Any) -> None:
        """Replace options by their checked values, while the settings are made."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return self: settings are immutable, and tokenizers and decoders may not support copying."""
        return self

    @functools.cached_property
    def for_reading(self) -> Settings:
        """Only the options that determine how sentences are read, not how they are counted.

        Example:
            >>> Settings.from_options(pad_id=0, lowercase=True).for_reading == Settings.from_options(pad_id=0)
            True
        """
        return Settings(**{name: getattr(self, name) for name in _READING_OPTIONS})

    @functools.cached_property
    def removed_ids(self) -> list[int]:
        """The ids that are removed wherever they are.

        Example:
            >>> Settings.from_options(pad_id=0, bos_id=1, eos_id=0).removed_ids
            [-100, 0, 1]
        """
        removed_ids = set(self.ignore_ids)
        if self.pad_id is not None:
            removed_ids.add(self.pad_id)
        if self.bos_id is not None:
            removed_ids.add(self.bos_id)
        return sorted(removed_ids)

    def plain(self) -> dict[str, Any]:
        """Everything that a score depends on (except for its unit) as plain values that can be saved.

        Callables are represented by their names.

        Example:
            >>> Settings.from_options(decoder=str.split).plain()["decoder"]
            'builtins.str.split'
        """
        return {name: to_plain(value) for name, value in self._values().items()}

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings whose difference makes scores incomparable.

        If both have a decoder, the decoders and special ids are ignored, because two models may have different
        vocabularies.

        Example:
            >>> Settings.from_options(pad_id=0).differences(Settings.from_options(lowercase=True, percent=True))
            ['lowercase', 'pad_id']
        """
        values, other_values = self._values(), other._values()
        names = [name for name in values if values[name] != other_values.get(name)]
        if self.decoder is None or other.decoder is None:
            return names
        return [name for name in names if name not in _READING_OPTIONS and name != "unk_id"]

    def _values(self) -> dict[str, Any]:
        """The values of all options but `percent`, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["percent"]
        return values


def unknown_options(names: Iterable[str], choices: Collection[str]) -> TypeError:
    """Make the error for options that do not exist.

    Args:
        names: the names of these options.
        choices: the names of all options that exist.

    Example:
        >>> print(unknown_options(["tokenise"], ["tokenizer", "lowercase"]))
        unknown option 'tokenise': did you mean 'tokenizer'?
        >>> print(unknown_options(["beam"], ["tokenizer", "lowercase"]))
        unknown option 'beam'; the options are ['tokenizer', 'lowercase']
    """
    messages = [f"{name!r}{_advise(name, choices)}" for name in sorted(names)]
    return TypeError(f"unknown option {', '.join(messages)}")


def _advise(name: str, choices: Collection[str]) -> str:
    """Advice about the name of an option that does not exist, to be appended to it."""
    equivalent = _ELSEWHERE.get(name)
    if equivalent is not None and equivalent.split("'")[1] in choices:
        return f": did you mean {equivalent}?"
    return did_you_mean(name, choices) or f"; the options are {list_values(choices)}"


def describe_options(options: Mapping[str, object], defaults_of: type) -> list[str]:
    """The options that differ from the defaults of a class, as they are written in a call.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> describe_options({"max_order": 4, "pad_id": 0, "tokenizer": str.split}, defaults_of=CorpusBLEU)
        ['pad_id=0', 'tokenizer=split']
    """
    defaults: dict[str, str] = {}
    # A subclass may pass on some options, and have other defaults.
    for class_ in reversed(defaults_of.mro()):
        for name, parameter in inspect.signature(class_).parameters.items():
            defaults[name] = describe(parameter.default)
    descriptions = {name: describe(value) for name, value in options.items()}
    return [f"{name}={shown}" for name, shown in descriptions.items() if shown != defaults[name]]


def describe(value: object) -> str:
    """The name of a callable, or the ``repr`` of anything else."""
    if callable(value) or hasattr(value, "batch_decode"):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)


def check_bool(name: str, value: object) -> bool:
    """Raise a TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise wrong_type(name, "True or False", value)
    return bool(value)


def check_integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Convert to an int.

    Raises:
        TypeError: for anything but an integer.
        ValueError: for an integer below `at_least`, and for one of more than 64 bits.
    """
    number = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(value)
    if number is None:
        raise wrong_type(name, "an integer", value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name!r} must fit in 64 bits, got {number}")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name!r} must be {at_least} or more, got {number}")
    return number


def check_number(name: str, value: Any) -> float:
    """Convert to a float.

    Raises:
        TypeError: for anything but a number.
        ValueError: for a negative or infinite number, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong_type(name, "a number", value)
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name!r} must be a finite number of 0 or more, got {value}")
    return number


def to_plain(value: Any) -> Any:
    """An option as a plain value that can be saved: a callable becomes its full name, or that of its class.

    Example:
        >>> to_plain(0.5), to_plain(str.split)
        (0.5, 'builtins.str.split')
    """
    if isinstance(value, int | float | str | tuple | None):
        return value
    definition = value if hasattr(value, "__qualname__") else type(value)
    module = getattr(definition, "__module__", None) or "builtins"  # a method of a built-in class has none
    return f"{module}.{definition.__qualname__}"


def _check_decoder(decoder: Any) -> None:
    if hasattr(decoder, "decode_batch"):
        raise TypeError(f"'decoder' is a {type(decoder).__name__}: pass its method, decoder=tokenizer.decode_batch")
    if not callable(decoder) and not hasattr(decoder, "batch_decode"):
        raise TypeError(
            "'decoder' must be a callable that turns a list of lists of ids into strings, or an object with a "
            f"'batch_decode' method (such as a Hugging Face tokenizer), got {type(decoder).__name__}"
        )
    method_of = getattr(decoder, "__self__", None)
    if getattr(decoder, "__name__", "") == "decode" and hasattr(method_of, "batch_decode"):
        raise ValueError(
            "'decoder' is the method 'decode' of a Hugging Face tokenizer, which keeps special tokens and padding: "
            "pass the tokenizer itself, decoder=tokenizer"
        )


def check_id(name: str, value: Any) -> int | None:
    """Convert to an int of 64 bits, or None.

    Raises:
        TypeError: for anything but an integer and None.
        ValueError: for an integer that is out of range.
    """
    return None if value is None else check_integer(name, value)


def _check_ids(name: str, values: Any) -> tuple[int, ...]:
    """Convert an integer or several, or None, to a tuple of integers of 64 bits."""
    if values is None:
        return ()
    is_single = not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    if is_single:
        values = [values]
    return tuple(check_integer(name, value) for value in values)
