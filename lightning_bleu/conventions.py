"""Conventions: what the programs that compute BLEU do differently, as data.

A :class:`Convention` bundles the choices and :data:`CONVENTIONS` holds those of ten programs. :class:`Settings` is a
convention with all that a user can add to it; :func:`make_settings` checks every option, once, when a metric is made.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_bleu.lengths import REFERENCE_LENGTHS
from lightning_bleu.score import ZERO_RULES
from lightning_bleu.smoothing import SMOOTHINGS, Smoothing
from lightning_bleu.tokenizers import Tokenizer, load_tokenizer
from lightning_bleu.version import __version__


@dataclass(frozen=True)
class Convention:
    """The choices that make two BLEU programs print different numbers for the same text.

    Attributes:
        tokenizer: for strings, a name from :data:`lightning_bleu.tokenizers.TOKENIZERS` or a callable that takes a line
            and returns its tokens.
        lowercase: whether strings are lowercased first.
        smoothing: a name from :data:`lightning_bleu.smoothing.SMOOTHINGS`.
        smoothing_value: the value of the smoothing; None for its default.
        reference_length: a name from :data:`lightning_bleu.lengths.REFERENCE_LENGTHS`.
        effective_order: whether orders above the first with nothing possible are left out.
        zero_rule: what a precision of 0 does to the score, a name from :data:`lightning_bleu.score.ZERO_RULES`.
        least_possible_matches: a sentence has at least so many possible matches at every order.
        removed_ids_split: whether ids that are no tokens (padding and the like) stay where they are and void the
            n-grams that hold them, instead of being removed before n-grams are formed.
    """

    tokenizer: Tokenizer = "13a"
    lowercase: bool = False
    smoothing: str = "none"
    smoothing_value: float | None = None
    reference_length: str = "closest"
    effective_order: bool = False
    zero_rule: str = "no-match"
    least_possible_matches: int = 0
    removed_ids_split: bool = False


CONVENTIONS: Mapping[str, Convention] = {
    # https://aclanthology.org/P02-1040
    "papineni": Convention(),
    # sacrebleu.metrics.BLEU
    "sacrebleu": Convention(smoothing="exp"),
    # nltk.translate.bleu_score.corpus_bleu, with its warning-free method0
    "nltk": Convention(tokenizer="none", smoothing="method0", zero_rule="leave-out", least_possible_matches=1),
    # compute_bleu of the tensorflow/nmt scripts
    "gnmt": Convention(tokenizer="none", reference_length="shortest", zero_rule="as-smoothed"),
    # Hugging Face evaluate's "bleu": the former, with 13a
    "evaluate": Convention(reference_length="shortest", zero_rule="as-smoothed"),
    # torchmetrics.text.BLEUScore
    "torchmetrics": Convention(tokenizer="none", reference_length="closest-first", zero_rule="every-order"),
    # CorpusBLEUMetric of fastai's translation notebooks
    "fastai": Convention(tokenizer="none", zero_rule="as-smoothed"),
    # Google's evaluation notebook
    "overlap": Convention(tokenizer="none", zero_rule="leave-out"),
    # fairseq.scoring.bleu; give unk_id as well
    "fairseq": Convention(tokenizer="none", zero_rule="as-smoothed"),
    # allennlp.training.metrics.BLEU
    "allennlp": Convention(tokenizer="none", smoothing="epsilon", zero_rule="as-smoothed", removed_ids_split=True),
}
"""The conventions by name. Those of programs that know one reference take several here, by ``reference_length``."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a score, checked; see :class:`lightning_bleu.CorpusBLEU` for the options."""

    convention: Convention
    max_order: int
    weights: tuple[float, ...]
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    ignore_ids: tuple[int, ...]
    decoder: Any
    percent: bool

    @property
    def smoothing(self) -> Smoothing:
        """The smoothing that the convention names."""
        return SMOOTHINGS[self.convention.smoothing]

    @property
    def smoothing_value(self) -> float:
        """The value of the smoothing (0 for one without)."""
        value = self.convention.smoothing_value
        return (self.smoothing.value or 0.0) if value is None else value

    @property
    def scale(self) -> float:
        """The score of a perfect translation."""
        return 100.0 if self.percent else 1.0

    @property
    def removed_ids(self) -> frozenset[int]:
        """The ids that are no tokens wherever they stand."""
        return frozenset(value for value in (self.pad_id, self.bos_id, *self.ignore_ids) if value is not None)


def make_settings(
    max_order: int = 4,
    weights: Sequence[float] | None = None,
    *,
    convention: str | Convention = "papineni",
    tokenizer: Tokenizer | None = None,
    lowercase: bool | None = None,
    smoothing: str | None = None,
    smoothing_value: float | None = None,
    reference_length: str | None = None,
    effective_order: bool | None = None,
    pad_id: int | None = None,
    bos_id: int | None = None,
    eos_id: int | None = None,
    unk_id: int | None = None,
    ignore_ids: int | Iterable[int] = (-100,),
    decoder: Any = None,
    percent: bool = False,
) -> Settings:
    """Check the options and bundle them. The options are those of :class:`lightning_bleu.CorpusBLEU`.

    Raises:
        TypeError: for a value of a wrong type.
        ValueError: for a value that is not among the choices, which the message lists.

    Example:
        >>> settings = make_settings(convention="sacrebleu", tokenizer="intl")
        >>> settings.convention.tokenizer, settings.convention.smoothing, settings.weights
        ('intl', 'exp', (0.25, 0.25, 0.25, 0.25))
    """
    max_order = _integer("max_order", max_order)
    if max_order < 1:
        raise ValueError(f"'max_order' must be 1 or more, got {max_order}")
    if not isinstance(convention, Convention):
        convention = CONVENTIONS[_choice("convention", convention, CONVENTIONS)]
    options: dict[str, Any] = {
        "tokenizer": tokenizer,
        "lowercase": lowercase,
        "smoothing": smoothing,
        "smoothing_value": smoothing_value,
        "reference_length": reference_length,
        "effective_order": effective_order,
    }
    explicit = {name: value for name, value in options.items() if value is not None}
    if smoothing not in (None, convention.smoothing):
        explicit.setdefault("smoothing_value", None)  # the convention's value was for another smoothing
    convention = dataclasses.replace(convention, **explicit)
    _check_convention(convention)
    ids = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "unk_id": unk_id}
    ignored = [ignore_ids] if isinstance(ignore_ids, int) else ignore_ids
    if decoder is not None and not (callable(decoder) or hasattr(decoder, "batch_decode")):
        raise TypeError(
            "'decoder' must be a callable that turns a list of lists of ids into strings, or have such a method "
            f"'batch_decode' (as Hugging Face tokenizers have), got {type(decoder).__name__}"
        )
    return Settings(
        convention=convention,
        max_order=max_order,
        weights=_check_weights(weights, max_order),
        **{name: None if value is None else _integer(name, value) for name, value in ids.items()},
        ignore_ids=tuple(_integer("ignore_ids", value) for value in ignored),
        decoder=decoder,
        percent=bool(percent),
    )


def _check_convention(convention: Convention) -> None:
    load_tokenizer(convention.tokenizer)
    _choice("smoothing", convention.smoothing, SMOOTHINGS)
    _choice("reference_length", convention.reference_length, REFERENCE_LENGTHS)
    _choice("zero_rule", convention.zero_rule, ZERO_RULES)
    value = convention.smoothing_value
    if value is None:
        return
    if SMOOTHINGS[convention.smoothing].value is None:
        with_value = [name for name, smoothing in SMOOTHINGS.items() if smoothing.value is not None]
        raise ValueError(f"smoothing {convention.smoothing!r} takes no 'smoothing_value'; these do: {with_value}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"'smoothing_value' must be a finite number of 0 or more, got {value}")


def _check_weights(weights: Sequence[float] | None, max_order: int) -> tuple[float, ...]:
    if weights is None:
        return (1 / max_order,) * max_order
    checked = tuple(float(weight) for weight in weights)
    if len(checked) != max_order:
        raise ValueError(
            f"'weights' must hold one weight for each order 1 ... max_order={max_order}, got {len(checked)}: {checked}"
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in checked) or not any(checked):
        raise ValueError(f"'weights' must be finite, not negative and not all 0, got {checked}")
    return checked


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name!r} must be an integer, got {value!r} of type {type(value).__name__}")
    return operator.index(value)


def _choice(name: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name!r} must be one of {list(choices)}, got {value!r}")
    return value


def signature(settings: Settings, tokens: str, references: str) -> str:
    """Name everything that the score depends on, in the manner of sacreBLEU's signatures.

    Args:
        settings: the settings.
        tokens: where the tokens come from: the name of a tokenizer, ``"ids"`` or ``"tokens"``.
        references: how many references the sentences have, ``"var"`` for different numbers.

    Example:
        >>> signature(make_settings(lowercase=True, smoothing="floor"), tokens="13a", references="2")
        'nrefs:2|case:lc|eff:no|tok:13a|smooth:floor[0.10]|reflen:closest|version:0.1.0'
    """
    convention = settings.convention
    smooth = convention.smoothing
    if settings.smoothing.value is not None:
        smooth += (
            f"[{settings.smoothing_value:.2f}]"
            if settings.smoothing_value >= 0.01
            else f"[{settings.smoothing_value:g}]"
        )
    parts = {
        "nrefs": references,
        "case": "lc" if convention.lowercase else "mixed",
        "eff": "yes" if convention.effective_order else "no",
        "tok": tokens,
        "smooth": smooth,
        "reflen": convention.reference_length,
    }
    # what most conventions share goes without saying
    if convention.zero_rule != "no-match":
        parts["zero"] = convention.zero_rule
    if convention.least_possible_matches:
        parts["possible"] = f"{convention.least_possible_matches}+"
    if convention.removed_ids_split:
        parts["removed"] = "split"
    if settings.unk_id is not None:
        parts["unk"] = "unmatched"
    if settings.max_order != 4:
        parts["order"] = str(settings.max_order)
    if settings.weights != (1 / settings.max_order,) * settings.max_order:
        parts["weights"] = ",".join(f"{weight:g}" for weight in settings.weights)
    return "|".join(f"{name}:{value}" for name, value in (parts | {"version": __version__}).items())
