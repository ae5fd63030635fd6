"""The settings of BLEU."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from lightning_bleu.messages import check_choice
from lightning_bleu.settings.conventions import CONVENTIONS, Convention
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS, LengthRule
from lightning_bleu.settings.settings import (
    Decoder,
    Settings,
    check_bool,
    check_id,
    check_integer,
    check_number,
    unknown_options,
)
from lightning_bleu.settings.smoothing import SMOOTHINGS, ZERO_RULES, Smoothing
from lightning_bleu.settings.tokenizers import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class BLEUOptions(TypedDict, total=False):
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


BLEU_OPTIONS = tuple(BLEUOptions.__annotations__)


@dataclass(frozen=True, kw_only=True, eq=False)
class BLEUSettings(Settings, Convention):
    """A convention plus all other options. Create settings with :meth:`from_options`.

    Attributes:
        max_order: the longest n-gram.
        weights: one per order.
        unk_id: the unknown word. In a reference it matches nothing, but it counts toward the length.
    """

    max_order: int = 4
    weights: tuple[float, ...] = None  # type: ignore[assignment]  # replaced by uniform weights
    unk_id: int | None = None

    @classmethod
    def from_options(cls, **options: Unpack[BLEUOptions]) -> Self:  # type: ignore[override]
        """Override the convention with the given options, and check the result.

        Example:
            >>> settings = BLEUSettings.from_options(convention="nltk", tokenizer="intl")
            >>> settings.tokenizer, settings.smoothing, settings.weights
            ('intl', 'method0', (0.25, 0.25, 0.25, 0.25))
        """
        if unknown := options.keys() - set(BLEU_OPTIONS):
            raise unknown_options(unknown, BLEU_OPTIONS)
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
        super().__post_init__()
        load_tokenizer(self.tokenizer)
        check_choice("smoothing", self.smoothing, SMOOTHINGS)
        check_choice("reference_length", self.reference_length, REFERENCE_LENGTHS)
        check_choice("zero_rule", self.zero_rule, ZERO_RULES)
        max_order = check_integer("max_order", self.max_order, at_least=1)
        self._replace(
            max_order=max_order,
            weights=_weights(self.weights, max_order),
            unk_id=check_id("unk_id", self.unk_id),
            min_possible_matches=check_integer("min_possible_matches", self.min_possible_matches, at_least=0),
            smoothing_value=_smoothing_value(self.smoothing, self.smoothing_value),
            effective_order=check_bool("effective_order", self.effective_order),
        )

    @property
    def splits_at_spaces(self) -> bool:
        """Whether words are found by the spaces between them."""
        return self.tokenizer in ("13a", "intl", "none")

    @property
    def smoothing_method(self) -> Smoothing:
        """The smoothing method named by ``smoothing``."""
        return SMOOTHINGS[self.smoothing]

    @property
    def length_rule(self) -> LengthRule:
        """The length rule named by ``reference_length``."""
        return REFERENCE_LENGTHS[self.reference_length]


def _smoothing_value(smoothing: str, value: Any) -> float | None:
    default = SMOOTHINGS[smoothing].default
    if value is None:
        return default
    if default is None:
        with_value = [name for name, method in SMOOTHINGS.items() if method.default is not None]
        raise ValueError(f"smoothing {smoothing!r} takes no 'smoothing_value'; these do: {with_value}")
    number = check_number("smoothing_value", value)
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
