"""Settings: everything that determines a score, listed, checked, and compared in one place."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict

import numpy as np

from lightning_bleu.messages import check_choice, closest
from lightning_bleu.settings.conventions import CONVENTIONS, Convention
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS, LengthRule
from lightning_bleu.settings.smoothing import SMOOTHINGS, ZERO_RULES, Smoothing
from lightning_bleu.settings.tokenizers import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class BatchDecoder(Protocol):
    """A Hugging Face tokenizer."""

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool) -> Sequence[str]:
        """Decode lists of ids to strings."""


Decoder: TypeAlias = "BatchDecoder | Callable[[list[list[int]]], Sequence[str]]"
"""Decodes lists of ids to strings."""


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

_ID_OPTIONS = ("pad_id", "bos_id", "eos_id", "unk_id")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings(Convention):
    """A convention plus all other options. Create settings with :meth:`from_options`.

    Attributes:
        max_order: the longest n-gram.
        weights: one per order.
        pad_id: padding; removed.
        bos_id: begins a sentence; removed.
        eos_id: ends a sentence; removed together with everything after it. If it is also the ``bos_id`` or the
            ``pad_id``, it ends the sentence only after the first token.
        unk_id: the unknown word. In a reference it matches nothing, but it counts toward the length.
        ignore_ids: other ids to remove.
        decoder: decodes ids to strings.
        percent: whether scores are in 0..100 rather than in 0..1.

    Raises:
        TypeError: for a value of the wrong type.
        ValueError: for a value that is out of range or not one of the choices; the message lists the choices.
    """

    max_order: int = 4
    weights: tuple[float, ...] = None  # type: ignore[assignment]  # replaced by uniform weights
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    unk_id: int | None = None
    ignore_ids: tuple[int, ...] = (-100,)
    decoder: Decoder | None = None
    percent: bool = False

    @classmethod
    def from_options(cls, **options: Unpack[Options]) -> Self:
        """Override the convention with the given options, and check the result.

        Example:
            >>> settings = Settings.from_options(convention="nltk", tokenizer="intl")
            >>> settings.tokenizer, settings.smoothing, settings.weights
            ('intl', 'method0', (0.25, 0.25, 0.25, 0.25))
        """
        if unknown := options.keys() - set(OPTION_NAMES):
            raise unknown_options(unknown)
        given: dict[str, Any] = dict(options)
        convention = given.pop("convention", "sacrebleu")
        if not isinstance(convention, Convention):
            convention = CONVENTIONS[check_choice("convention", convention, CONVENTIONS)]
        defaults = {field.name: getattr(convention, field.name) for field in dataclasses.fields(Convention)}
        given = {name: value for name, value in given.items() if name not in defaults or value is not None}
        if given.get("smoothing", convention.smoothing) != convention.smoothing:
            defaults["smoothing_value"] = None  # the convention's value belongs to the convention's smoothing
        return cls(**defaults | given)

    def for_corpus(self) -> Self:
        """Return these settings; raise a ValueError for a smoothing that is not defined for a corpus."""
        if self.smoothing_method.sentences_only:
            raise ValueError(
                f"smoothing {self.smoothing!r} is defined for single sentences only: "
                "use sentence_bleu or another smoothing"
            )
        return self

    def __post_init__(self) -> None:
        load_tokenizer(self.tokenizer)
        check_choice("smoothing", self.smoothing, SMOOTHINGS)
        check_choice("reference_length", self.reference_length, REFERENCE_LENGTHS)
        check_choice("zero_rule", self.zero_rule, ZERO_RULES)
        max_order = check_integer("max_order", self.max_order, at_least=1)
        checked = {
            "max_order": max_order,
            "weights": _weights(self.weights, max_order),
            "min_possible_matches": check_integer("min_possible_matches", self.min_possible_matches, at_least=0),
            "smoothing_value": _smoothing_value(self.smoothing, self.smoothing_value),
            "ignore_ids": _ids("ignore_ids", self.ignore_ids),
        }
        for name in _ID_OPTIONS:
            value = getattr(self, name)
            checked[name] = None if value is None else _id(name, value)
        for name in ("lowercase", "effective_order", "percent"):
            checked[name] = check_bool(name, getattr(self, name))
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.decoder is not None and not (callable(self.decoder) or hasattr(self.decoder, "batch_decode")):
            raise TypeError(
                "'decoder' must be a callable that turns a list of lists of ids into strings, or an object with a "
                f"'batch_decode' method (such as a Hugging Face tokenizer), got {type(self.decoder).__name__}"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return self: settings are immutable, and tokenizers and decoders may not support copying."""
        return self

    @property
    def smoothing_method(self) -> Smoothing:
        """The smoothing method named by ``smoothing``."""
        return SMOOTHINGS[self.smoothing]

    @property
    def length_rule(self) -> LengthRule:
        """The length rule named by ``reference_length``."""
        return REFERENCE_LENGTHS[self.reference_length]

    @property
    def scale(self) -> float:
        """The score of a perfect translation."""
        return 100.0 if self.percent else 1.0

    @functools.cached_property
    def removed_ids(self) -> list[int]:
        """The ids that are removed wherever they are.

        Example:
            >>> Settings.from_options(pad_id=0, bos_id=1, eos_id=0).removed_ids
            [-100, 0, 1]
        """
        return sorted({value for value in (*self.ignore_ids, self.pad_id, self.bos_id) if value is not None})

    def plain(self) -> dict[str, Any]:
        """Everything that a score depends on (but for its unit) as plain values that can be saved.

        Callables are represented by their names.

        Example:
            >>> Settings.from_options(tokenizer=str.split).plain()["tokenizer"]
            'builtins.str.split'
        """
        values = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "percent"
        }
        return values | {"tokenizer": _name(self.tokenizer), "decoder": _name(self.decoder)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        return self._identity() == other._identity() and self.percent == other.percent

    def __hash__(self) -> int:
        return hash((*self._identity().values(), self.percent))

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings whose difference makes scores incomparable.

        If both have a decoder, the decoders and special ids are ignored, because two models may have different
        vocabularies.

        Example:
            >>> one = Settings.from_options(smoothing="floor")
            >>> other = Settings.from_options(smoothing="exp", percent=True)
            >>> one.differences(other)
            ['smoothing', 'smoothing_value']
        """
        own, others = self._identity(), other._identity()
        ignored: Collection[str] = ()
        if self.decoder is not None and other.decoder is not None:
            ignored = ("decoder", "ignore_ids", *_ID_OPTIONS)
        return [name for name in own if own[name] != others[name] and name not in ignored]

    def _identity(self) -> dict[str, Any]:
        """Plain values, but callables by identity: two lambdas have the same name."""
        objects = {"tokenizer": self.tokenizer, "decoder": self.decoder}
        return self.plain() | {name: id(value) for name, value in objects.items() if not isinstance(value, str)}


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


def describe_options(options: Mapping[str, object], defaults_of: type) -> list[str]:
    """The options that differ from the defaults of a class, as they are written in a call.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> describe_options({"max_order": 4, "pad_id": 0, "tokenizer": str.split}, defaults_of=CorpusBLEU)
        ['pad_id=0', 'tokenizer=split']
    """
    parameters = inspect.signature(defaults_of).parameters
    defaults = {name: _describe(parameters[name].default) for name in options}
    return [f"{name}={_describe(value)}" for name, value in options.items() if _describe(value) != defaults[name]]


def _describe(value: object) -> str:
    """The name of a callable, or the ``repr`` of anything else."""
    if callable(value) or hasattr(value, "batch_decode"):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)


def check_bool(name: str, value: object) -> bool:
    """Raise a TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name!r} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def check_integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """Convert to an int.

    Raises:
        TypeError: for anything but an integer.
        ValueError: for an integer below `at_least`.
    """
    number = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(value)
    if number is None:
        raise TypeError(f"{name!r} must be an integer, got {value!r} of type {type(value).__name__}")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name!r} must be {at_least} or more, got {number}")
    return number


def _name(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    module = getattr(named, "__module__", None) or getattr(named, "__objclass__", type(named)).__module__
    return f"{module}.{named.__qualname__}"


def _smoothing_value(smoothing: str, value: Any) -> float | None:
    default = SMOOTHINGS[smoothing].default
    if value is None:
        return default
    if default is None:
        with_value = [name for name, method in SMOOTHINGS.items() if method.default is not None]
        raise ValueError(f"smoothing {smoothing!r} takes no 'smoothing_value'; these do: {with_value}")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"'smoothing_value' must be a number, got {value!r} of type {type(value).__name__}")
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"'smoothing_value' must be a finite number of 0 or more, got {value}")
    if number == 0 and SMOOTHINGS[smoothing].divides:
        raise ValueError(f"'smoothing_value' must be greater than 0 for smoothing {smoothing!r}, got {value}")
    return number


def _weights(weights: Any, max_order: int) -> tuple[float, ...]:
    if weights is None:
        return (1 / max_order,) * max_order
    checked = None
    if isinstance(weights, Iterable) and not isinstance(weights, str | bytes | Mapping):
        with contextlib.suppress(TypeError, ValueError):
            checked = tuple(float(weight) for weight in weights)
    if checked is None:
        raise TypeError(
            f"'weights' must hold one number for each order 1 ... max_order={max_order}, got {weights!r} of type "
            f"{type(weights).__name__}"
        )
    if len(checked) != max_order:
        raise ValueError(
            f"'weights' must hold one weight for each order 1 ... max_order={max_order}, got {len(checked)}: {checked}"
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in checked) or not any(checked):
        raise ValueError(f"'weights' must be finite, not negative, and not all 0, got {checked}")
    return checked


def _id(name: str, value: Any) -> int:
    number = check_integer(name, value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name!r} must fit in 64 bits, got {number}")
    return number


def _ids(name: str, value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        value = [value]
    return tuple(_id(name, item) for item in value)
