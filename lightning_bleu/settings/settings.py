"""Settings: everything that determines a score, listed and checked in one place."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_bleu.settings.conventions import CONVENTIONS, Convention
from lightning_bleu.settings.decoders import Decoder
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS, LengthRule
from lightning_bleu.settings.options import OPTION_NAMES, Options, unknown_options
from lightning_bleu.settings.smoothing import SMOOTHINGS, ZERO_RULES, Smoothing
from lightning_bleu.settings.special_ids import SpecialIds
from lightning_bleu.settings.tokenizers import load_tokenizer
from lightning_bleu.suggestions import choose

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings(Convention):
    """A convention plus all other options. Create settings with :meth:`from_options`.

    Settings are compared by value, except that callables are compared by identity.

    Attributes:
        max_order: the longest n-gram.
        weights: one per order.
        special_ids: which ids are not tokens.
        decoder: decodes ids to strings.
        percent: whether scores are in 0..100 rather than in 0..1.

    Raises:
        TypeError: for a value of the wrong type.
        ValueError: for a value that is out of range or not one of the choices; the message lists the choices.
    """

    max_order: int
    weights: tuple[float, ...]
    special_ids: SpecialIds
    decoder: Decoder | None
    percent: bool

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
        convention = options.get("convention", "sacrebleu")
        if not isinstance(convention, Convention):
            convention = CONVENTIONS[choose("convention", convention, CONVENTIONS)]
        names = [field.name for field in dataclasses.fields(Convention)]
        merged = {name: getattr(convention, name) for name in names}
        given = {name: value for name, value in options.items() if name in names and value is not None}
        if given.get("smoothing", convention.smoothing) != convention.smoothing:
            merged["smoothing_value"] = None  # the convention's value belongs to the convention's smoothing
        max_order = _integer("max_order", options.get("max_order", 4))
        return cls(
            **merged | given,
            max_order=max_order,
            weights=_weights(options.get("weights"), max_order),
            special_ids=SpecialIds(
                pad_id=_optional_id("pad_id", options.get("pad_id")),
                bos_id=_optional_id("bos_id", options.get("bos_id")),
                eos_id=_optional_id("eos_id", options.get("eos_id")),
                unk_id=_optional_id("unk_id", options.get("unk_id")),
                ignore_ids=_ids("ignore_ids", options.get("ignore_ids", (-100,))),
                break_ngrams=convention.break_ngrams,
            ),
            decoder=options.get("decoder"),
            percent=options.get("percent", False),
        )

    def __post_init__(self) -> None:
        if self.max_order < 1:
            raise ValueError(f"'max_order' must be 1 or more, got {self.max_order}")
        _check_weights(self.weights, self.max_order)
        load_tokenizer(self.tokenizer)
        choose("smoothing", self.smoothing, SMOOTHINGS)
        choose("reference_length", self.reference_length, REFERENCE_LENGTHS)
        choose("zero_rule", self.zero_rule, ZERO_RULES)
        for name in ("lowercase", "effective_order", "percent"):
            object.__setattr__(self, name, check_bool(name, getattr(self, name)))
        _check_smoothing_value(self.smoothing, self.smoothing_value)
        if self.smoothing_value is None:
            object.__setattr__(self, "smoothing_value", SMOOTHINGS[self.smoothing].default)
        if self.decoder is not None and not (callable(self.decoder) or hasattr(self.decoder, "batch_decode")):
            raise TypeError(
                "'decoder' must be a callable that turns a list of lists of ids into strings, or an object with a "
                f"'batch_decode' method (such as a Hugging Face tokenizer), got {type(self.decoder).__name__}"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return self: settings are immutable, and tokenizers and decoders may not support copying."""
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in dataclasses.fields(self))

    def __hash__(self) -> int:
        return hash((self.max_order, self.weights, self.smoothing, self.reference_length, self.special_ids))

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

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings whose difference makes scores incomparable.

        ``percent`` is ignored, because it only changes the unit. If both have a decoder, the decoders and special ids
        are ignored too, because two models may have different vocabularies.

        Example:
            >>> one = Settings.from_options(smoothing="floor")
            >>> other = Settings.from_options(smoothing="exp", percent=True)
            >>> one.differences(other)
            ['smoothing', 'smoothing_value']
        """
        ignored = {"percent"}
        if self.decoder is not None and other.decoder is not None:
            ignored |= {"decoder", "special_ids", "break_ngrams"}
        names = [field.name for field in dataclasses.fields(self)]
        return [name for name in names if name not in ignored and not _same(getattr(self, name), getattr(other, name))]

    def fingerprint(self) -> dict[str, Any]:
        """Everything that determines the score, as plain data that can be saved. Callables are replaced by their names.

        Example:
            >>> Settings.from_options(tokenizer=str.split).fingerprint()["tokenizer"]
            'builtins.str.split'
        """
        values = dataclasses.asdict(dataclasses.replace(self, percent=False, tokenizer="none", decoder=None))
        return values | {"tokenizer": _plain(self.tokenizer), "decoder": _plain(self.decoder)}


def refuse_sentence_smoothing(settings: Settings) -> Settings:
    """Raise a ValueError for a smoothing that is not defined for a corpus."""
    if settings.smoothing_method.sentences_only:
        raise ValueError(
            f"smoothing {settings.smoothing!r} is defined for single sentences only: "
            "use sentence_bleu or another smoothing"
        )
    return settings


def _same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal, or two other values are the same object."""
    return one is other or (isinstance(one, str | int | float | tuple | SpecialIds) and bool(one == other))


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    module = getattr(named, "__module__", None) or getattr(named, "__objclass__", type(named)).__module__
    return f"{module}.{named.__qualname__}"


def check_bool(name: str, value: object) -> bool:
    """Raise a TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name!r} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def _check_smoothing_value(smoothing: str, value: Any) -> None:
    if value is None:
        return
    if SMOOTHINGS[smoothing].default is None:
        with_value = [name for name, method in SMOOTHINGS.items() if method.default is not None]
        raise ValueError(f"smoothing {smoothing!r} takes no 'smoothing_value'; these do: {with_value}")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"'smoothing_value' must be a number, got {value!r} of type {type(value).__name__}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"'smoothing_value' must be a finite number of 0 or more, got {value}")
    if value == 0 and SMOOTHINGS[smoothing].divides:
        raise ValueError(f"'smoothing_value' must be greater than 0 for smoothing {smoothing!r}, got {value}")


def _weights(weights: Any, max_order: int) -> tuple[float, ...]:
    if weights is None:
        return (1 / max(1, max_order),) * max_order
    if isinstance(weights, Iterable) and not isinstance(weights, str | bytes | Mapping):
        with contextlib.suppress(TypeError, ValueError):
            return tuple(float(weight) for weight in weights)
    raise TypeError(
        f"'weights' must hold one number for each order 1 ... max_order={max_order}, got {weights!r} of type "
        f"{type(weights).__name__}"
    )


def _check_weights(weights: tuple[float, ...], max_order: int) -> None:
    if len(weights) != max_order:
        raise ValueError(
            f"'weights' must hold one weight for each order 1 ... max_order={max_order}, got {len(weights)}: {weights}"
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise ValueError(f"'weights' must be finite, not negative, and not all 0, got {weights}")


def _integer(name: str, value: Any) -> int:
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise TypeError(f"{name!r} must be an integer, got {value!r} of type {type(value).__name__}")


def _id(name: str, value: Any) -> int:
    number = _integer(name, value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name!r} must fit in 64 bits, got {number}")
    return number


def _optional_id(name: str, value: Any) -> int | None:
    return None if value is None else _id(name, value)


def _ids(name: str, value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        value = [value]
    return tuple(_id(name, item) for item in value)
