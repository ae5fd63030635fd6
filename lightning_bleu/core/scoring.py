"""What a score is: how the rows of sentences become one, and what an evaluator asks of a metric.

Everything is local to a process; only the evaluator talks to the others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sacrebleu
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts, Sentence, Sources, eager, read_batch
from lightning_bleu.core.clean import list_names
from lightning_bleu.core.forms import Hypotheses, IntArray, References
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.settings import Settings
from lightning_bleu.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_FIXED = 1e7
"""Larger numbers are written with an exponent."""


class Scorer(ABC):
    """How the rows of sentences become a score, and what that score means. It is a value: it has no state.

    A row is the statistics of a sentence: some integers or numbers. Rows add up, so a score is a function of a sum.

    Attributes:
        name: the name of the score, such as ``"BLEU"``.
        columns: the number of statistics in a row.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        higher_is_better: whether a higher score is better; None if neither is, as for a length.
        perfect: the best score that a sentence can have; None if it is unknown.
        bounds: the lowest and the highest score; None where there is no bound.
    """

    name: str
    columns: int
    percent: bool | None
    higher_is_better: bool | None = True
    perfect: float | None = None
    bounds: tuple[float | None, float | None] = (None, None)

    @abstractmethod
    def score(self, statistics: Tensor) -> Tensor:
        """The scores of rows, or of sums of rows.

        Args:
            statistics: shape ``(..., columns)``.

        Returns:
            shape ``(...)``.
        """

    @abstractmethod
    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, but for its unit, as plain values that can be saved."""

    def is_defined(self, sums: Tensor) -> bool:
        """Whether a sum of rows has a score, which a ratio of 0 and 0 has not."""
        return True

    def score_sentences(self, statistics: Tensor) -> Tensor:
        """The scores of sentences, as sacreBLEU scores single ones: ``(sentences, columns)`` → ``(sentences,)``."""
        return self.score(statistics)

    def rank_sentences(self, statistics: Tensor) -> Tensor:
        """Numbers that rank sentences, the worst lowest (highest if lower is better); by default, their scores."""
        return self.score_sentences(statistics)

    @property
    def order(self) -> str:
        """By what :meth:`rank_sentences` ranks, as a part of a sentence."""
        return f", by {self.name}"

    def report(self, sums: Tensor, inputs: InputCounts | None) -> Report | float:
        """The score of a sum of rows as an object that prints, if there is one, or as a number.

        Args:
            sums: shape ``(columns,)``.
            inputs: the kinds of the sentences; None if they are unknown.
        """
        return self.score(sums).item()

    def components(self, report: Any, *, optional: bool = True) -> list[Component]:
        """The numbers that explain a score.

        Args:
            report: what :meth:`report` returned.
            optional: also compute those that are logged only if they are named.
        """
        return []

    @property
    def unit(self) -> float | None:
        """100 if scores are in percent, 1 if they are shares, and None if they are neither."""
        return {True: 100.0, False: 1.0, None: None}[self.percent]

    @property
    def sign(self) -> int:
        """1 if a higher score is better, -1 if a lower one is, and 0 if neither is."""
        return {True: 1, False: -1, None: 0}[self.higher_is_better]


@dataclass(frozen=True)
class RatioScorer(Scorer):
    """Scores pairs of numbers, one per sentence, by the ratio of their sums. With 1 in each pair, that is the mean.

    Of a sentence, 0/0 is the better one of 0 and 1. Sums have no score if that of the second numbers is 0.

    Args:
        name: the name of the score.
        higher_is_better: whether a higher ratio is better; None if neither is.
        percent: True multiplies the ratio by 100.
        best_ratio: the best ratio that a sentence can have, before that; None if it is unknown.
        settings: what the ratio depends on, as plain values.
        over_zero: the ratio of another number and 0. If it is finite, sums always have a score.

    Example:
        >>> error_rate = RatioScorer("wer", higher_is_better=False)
        >>> rows = torch.tensor([[1.0, 4.0], [3.0, 4.0], [2.0, 0.0], [0.0, 0.0]])
        >>> error_rate.score(rows.sum(0)).item(), error_rate.score_sentences(rows).tolist()
        (0.75, [0.25, 0.75, inf, 0.0])
    """

    name: str
    higher_is_better: bool | None = True
    percent: bool | None = None
    best_ratio: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    over_zero: float = math.inf

    columns = 2

    @property
    def perfect(self) -> float | None:  # type: ignore[override]
        """The best score that a sentence can have; None if it is unknown."""
        return None if self.best_ratio is None else (self.unit or 1.0) * self.best_ratio

    def score(self, statistics: Tensor) -> Tensor:
        """The ratio of the numbers in the first two columns: ``(..., columns)`` → ``(...)``."""
        pairs = statistics[..., :2].to(float_type(statistics.device))
        numerators, denominators = pairs.unbind(-1)
        ratios = torch.where(denominators == 0, self.over_zero, numerators / denominators)
        of_nothing = 1.0 if self.higher_is_better else 0.0
        return (self.unit or 1.0) * torch.where((pairs == 0).all(-1), of_nothing, ratios)

    def is_defined(self, sums: Tensor) -> bool:
        """Whether the sum of the second numbers is not 0."""
        return bool(sums[1]) or math.isfinite(self.over_zero)

    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, as plain values."""
        return dict(self.settings)


@dataclass(frozen=True)
class Component:
    """A number that explains a score, such as a precision.

    Attributes:
        name: its name, below that of the score.
        value: the number.
        higher_is_better: whether a higher number is better; None if neither is.
        unit: the :attr:`Scorer.unit` of the number; None if it has a scale of its own.
        chart: the title of the chart that shows it, perhaps with others; empty for none.
        is_default: whether it is logged unless an evaluator's `parts` names others.
    """

    name: str
    value: float
    higher_is_better: bool | None = None
    unit: float | None = None
    chart: str = ""
    is_default: bool = True


class Report(float):
    """A score that is also a number: it can be compared, rounded, formatted, and logged like a float. Immutable.

    Subclasses declare the attributes.

    Args:
        attributes: the values of all attributes; the first one is the score.

    Example:
        >>> report = Report(score=12.345, matches=(3, 2))
        >>> report.matches, report > 12, round(report, 1), f"{report:.2f}"
        ((3, 2), True, 12.3, '12.35')
    """

    def __new__(cls, *number: float, **attributes: Any) -> Self:
        """Make a float with attributes. From a number alone, make a plain float, as ``statistics.mean`` does."""
        if number:
            return float(*number)  # type: ignore[return-value]
        if cls.__annotations__.keys() - attributes.keys():
            raise TypeError(f"{cls.__name__} is a result, not a metric: make a metric, such as CorpusBLEU()")
        report = super().__new__(cls, next(iter(attributes.values())))
        vars(report).update(attributes)
        return report

    def counts(self) -> dict[str, list[int] | int]:
        """The integers that the score is computed from, by name."""
        by_name: dict[str, list[int] | int] = {}
        for name, value in self.to_dict().items():
            numbers = value if isinstance(value, list) else [value]
            if all(type(number) is int for number in numbers):
                by_name[name] = value
        return by_name

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain values that :mod:`json` can serialize."""
        values = dict(vars(self))
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value)
        return values

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Report):
            return vars(self) == vars(other)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Report):
            return vars(self) != vars(other)
        return super().__ne__(other)

    __hash__ = float.__hash__

    def __setattr__(self, name: str, *value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    __delattr__ = __setattr__

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), vars(self)


def closeness(errors: int, length: int) -> tuple[float, int]:
    """The errors per unit of a reference, then its negative length, so that the closest of several is the smallest.

    Example:
        >>> sorted([(1, 0), (2, 4), (0, 0), (1, 2)], key=lambda counts: closeness(*counts))
        [(0, 0), (2, 4), (1, 2), (1, 0)]
    """
    if length:
        return errors / length, -length
    return (math.inf if errors else 0.0), 0


def float_type(device: torch.device) -> torch.dtype:
    """The floating-point type of scores: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def format_score(value: float, percent: bool | None, sign: str = "") -> str:
    """A score as text: in percent with two digits; with four digits if it has a scale of its own.

    Example:
        >>> format_score(0.12345, percent=False), format_score(0.12345, percent=None, sign="+")
        ('12.35', '+0.1235')
    """
    if percent is None:
        return f"{value:{sign}.4f}"
    in_percent = value if percent else 100 * value
    return f"{in_percent:{sign}.2f}"


def format_in_unit(value: float, percent: bool | None, sign: str = "") -> str:
    """A score as text, in its own unit: with two digits in percent, and else with four.

    Example:
        >>> format_in_unit(12.345, percent=True, sign="+"), format_in_unit(0.12345, percent=False)
        ('+12.35', '0.1235')
    """
    if abs(value) >= _MAX_FIXED:
        return f"{value:{sign}.5g}"
    digits = 2 if percent else 4
    return f"{value:{sign}.{digits}f}"


def format_range(low: float, high: float, percent: bool | None, sign: str = "") -> str:
    """Two scores as text; see :func:`format_in_unit`.

    Example:
        >>> format_range(20.5, 25, percent=True)
        '20.50 to 25.00'
    """
    return f"{format_in_unit(low, percent, sign)} to {format_in_unit(high, percent, sign)}"


def describe_directions(directions: Mapping[str, bool | None]) -> str:
    """What is better, a higher or a lower score, by the name of the score; None if neither is.

    Example:
        >>> describe_directions({"bleu": True, "wer": False, "length": None})
        'Higher is better; for wer, lower; for length, neither.'
    """
    names: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for name, direction in directions.items():
        names[direction].append(name)
    higher, lower, neither = names.values()
    if not higher and not lower:
        return ""
    clauses = ["Higher is better" if higher else "Lower is better"]
    if higher and lower:
        clauses.append(f"for {list_names(lower)}, lower")
    if neither:
        clauses.append(f"for {list_names(neither)}, neither")
    return "; ".join(clauses) + "."


def join_signature(fields: Mapping[str, object], versions: Mapping[str, str] | None = None) -> str:
    """A signature: one line that names the options a score depends on, and the versions, in sacreBLEU's format.

    Args:
        fields: the options.
        versions: the versions of the libraries that compute the score; sacreBLEU's when None.

    Example:
        >>> join_signature({"nrefs": 1, "case": "mixed"}).split("|version")[0]
        'nrefs:1|case:mixed'
        >>> join_signature({"nrefs": 1}, {"rouge-score": "0.1.2"}).split("|lightning_bleu")[0]
        'nrefs:1|rouge-score:0.1.2'
    """
    if versions is None:
        versions = {"version": sacrebleu.__version__}
    entries = [f"{name}:{value}" for name, value in fields.items()]
    entries += [f"{name}:{version}" for name, version in versions.items()]
    entries.append(f"lightning_bleu:{__version__}")
    return "|".join(entries)


class EvaluatorMetric(ABC):
    """A metric of an evaluator, which knows it by a name.

    Either it counts each batch (`columns` is not 0), or it scores texts at the end (`columns` is 0). Both give rows to
    sentences, or, at the level of the corpus, a sum of rows. A :class:`Scorer` turns the sum of rows into a score.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> from lightning_bleu.core.scoring import RatioScorer
        >>> class SameLength(EvaluatorMetric):
        ...     # How many hypotheses have as many words as their first reference
        ...
        ...     columns = 2
        ...
        ...     def count_batch(self, name, batch, sources):
        ...         lengths = [(len(line.split()), len(lines[0].split())) for line, lines in batch.texts()]
        ...         return np.array([[own == other, 1] for own, other in lengths])
        ...
        ...     def scorer_of(self, name, score_name):
        ...         return RatioScorer(name, higher_is_better=True)
        ...
        ...     def plain_settings(self):
        ...         return {}
        >>> evaluator = Evaluator({"same_length": SameLength()}, confidence=0.95)
        >>> evaluator.start()
        >>> evaluator.update(["a b c", "a b", "a"] * 10, ["a b x", "a b c", "x"] * 10)
        >>> evaluator.finish(step=1)["val_same_length"]
        Result(0.6667, interval=(0.5000, 0.8333))

    Attributes:
        columns: the number of integers that :meth:`count_batch` gives to a sentence; 0 for a metric of texts.
        corpus_level: for a metric of texts: whether it needs those of all processes at once. Then sentences may have no
            rows.
        reading: how it reads ids; ``Settings()`` if that does not matter.
        takes_sources: whether it takes the sources of the sentences.
        keys: other keys of a step that it takes.
        counts_tokens: whether it counts tokens and ids as well as text.
        sensitive_to: what of a text changes its scores, as far as known: ``"case"``, ``"punctuation"``, and
            ``"subwords"``, their marks; ``"spaces"`` if words are found at spaces only, and ``"latin"`` if only the
            letters a to z count.
        score_names: the names of its scores, as far as they are known; ``""`` is that of a single one, or of all that
            are unknown.
    """

    columns: int = 0
    corpus_level: bool = False
    reading: Settings = Settings()
    takes_sources: bool = False
    keys: Collection[str] = ()
    counts_tokens: bool = False
    sensitive_to: Collection[str] = ("subwords",)
    score_names: Sequence[str] = ("",)

    @abstractmethod
    def scorer_of(self, name: str, score_name: str) -> Scorer:
        """How rows become one of its scores.

        Args:
            name: the name of the metric.
            score_name: the name of the score.
        """

    @abstractmethod
    def plain_settings(self) -> dict[str, Any]:
        """What its scores depend on, as plain values that can be compared with those of other processes."""

    @property
    def class_name(self) -> str:
        """The name of the class of what the user passed, for the record."""
        return type(self).__name__

    def check_fields(self, name: str, fields: Collection[str]) -> None:  # noqa: B027
        """Raise a ValueError if a batch without other fields than these lacks one that it needs."""

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """The statistics of each sentence of a batch, shape ``(sentences, columns)``.

        Raises:
            TypeError, ValueError: if it cannot score the batch.
        """
        return np.zeros((batch.sentence_count, 0), np.int64)

    def score_texts(self, name: str, sentences: Sequence[Sentence]) -> dict[str, Tensor] | None:
        """Score texts, at the end of a validation.

        Returns:
            for each score, a row per sentence, float64 of shape ``(sentences, columns)``; at the level of the corpus,
            perhaps a single row of shape ``(columns,)``. None for nothing to log.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class CorpusScorer(Scorer, EvaluatorMetric):
    """All of a metric of this package but its state: how sentences are counted, and how rows become its only score.

    A subclass is made from its settings alone, and passes on what follows from them. It has a `settings_class`.

    Args:
        settings: the validated options.
        name: the name of the score.
        columns: the number of statistics of a sentence.
        sensitive_to: what of a text changes the score; see :class:`EvaluatorMetric`.
    """

    settings: Settings
    name: str
    columns: int
    sensitive_to: tuple[str, ...]

    settings_class: ClassVar[type[Settings]]
    counts_tokens = True

    @property
    def percent(self) -> bool:  # type: ignore[override]
        """Whether scores are in 0..100 rather than in 0..1."""
        return self.settings.percent

    @property
    def unit(self) -> float:
        """The score that corresponds to a share of 1: 100 in percent, otherwise 1."""
        return 100.0 if self.percent else 1.0

    @property
    def perfect(self) -> float | None:  # type: ignore[override]
        """The best score that a sentence can have."""
        return self.unit

    @property
    def bounds(self) -> tuple[float | None, float | None]:  # type: ignore[override]
        """The lowest and the highest score; None where there is no bound."""
        return 0.0, self.unit

    @property
    def reading(self) -> Settings:  # type: ignore[override]
        """How it reads ids."""
        return self.settings.for_reading

    @classmethod
    def from_plain(cls, settings: Mapping[str, Any], *, percent: bool) -> Self:
        """The scorer with settings that :meth:`Settings.plain` returned, for text.

        Raises:
            TypeError: for a setting that it does not have.
            ValueError: for a setting that has been a callable, of which only the name is known, or that is missing.
        """
        missing = {field.name for field in fields(cls.settings_class)} - {*settings, "percent"}
        if missing:
            raise ValueError(f"the settings {sorted(missing)} are missing")
        options = {**settings, "decoder": None, "percent": percent}
        return cls(cls.settings_class(**options))  # type: ignore[call-arg]

    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, but for its unit, as plain values."""
        return self.settings.plain()

    def scorer_of(self, name: str, score_name: str) -> CorpusScorer:
        """The scorer itself."""
        return self

    @abstractmethod
    def count_batch(self, name: str, batch: Batch, sources: Sources | None = None) -> IntArray:
        """The statistics of each sentence, shape ``(sentences, columns)``."""

    @abstractmethod
    def report(self, sums: Tensor, inputs: InputCounts | None) -> Any:
        """The score of a sum of rows with everything that it is computed from, and its `signature`."""


@eager
def count_sentences(preds: Hypotheses, target: References, scorer: CorpusScorer) -> tuple[Tensor, Batch]:
    """Read sentences and count them, without a metric; returns their rows and the batch."""
    batch = read_batch(preds, target, scorer.settings)
    rows = scorer.count_batch("", batch)
    WarnOnce().about_all(batch.mistakes)
    return torch.from_numpy(rows), batch
