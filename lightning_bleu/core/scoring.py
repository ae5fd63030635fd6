"""How rows become scores, and what these mean: all that intervals, tests, and evaluators know about a metric."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sacrebleu
import torch
from torch import Tensor

from lightning_bleu.core.clean import list_names
from lightning_bleu.core.forms import InputCounts
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
        units = {True: 100.0, False: 1.0, None: None}
        return units[self.percent]

    @property
    def sign(self) -> int:
        """1 if a higher score is better, -1 if a lower one is, and 0 if neither is."""
        signs = {True: 1, False: -1, None: 0}
        return signs[self.higher_is_better]


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


def choose_components(components: Sequence[Component], parts: bool | Sequence[str]) -> list[Component]:
    """The components that are logged.

    Args:
        components: the components.
        parts: whether to log the default ones, or the names of those to log.
    """
    if isinstance(parts, bool):
        return [component for component in components if parts and component.is_default]
    return [component for component in components if component.name in parts]


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
