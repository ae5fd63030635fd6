"""What intervals, tests, and callbacks need to know about a metric: its name, and how rows become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import sacrebleu
import torch
from torch import Tensor

from lightning_bleu.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self


class Scoring(NamedTuple):
    """How statistics become scores.

    Attributes:
        name: the name of the score, such as ``"BLEU"``.
        score: takes statistics of shape ``(..., columns)``, which may be sums over sentences, and returns scores of
            shape ``(...)``.
        percent: whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own.
        score_sentences: takes statistics of shape ``(sentences, columns)``, and returns the score of each sentence, as
            sacreBLEU scores single sentences.
        higher_is_better: whether a higher score is better.
        rank_sentences: takes the same as `score_sentences`, and returns what the worst sentences have the least of (or
            the most, if lower is better); the scores when None.
    """

    name: str
    score: Callable[[Tensor], Tensor]
    percent: bool | None
    score_sentences: Callable[[Tensor], Tensor]
    higher_is_better: bool = True
    rank_sentences: Callable[[Tensor], Tensor] | None = None


def ratio_scoring(name: str, higher_is_better: bool = True) -> Scoring:
    """How pairs of numbers, one per sentence, become the ratio of their sums. With 1 in each pair, that is the mean.

    0/0 is 0 if lower is better, else 1.

    Example:
        >>> error_rate = ratio_scoring("wer", higher_is_better=False)
        >>> rows = torch.tensor([[1.0, 4.0], [3.0, 4.0], [2.0, 0.0], [0.0, 0.0]])
        >>> error_rate.score(rows.sum(0)).item(), error_rate.score_sentences(rows).tolist()
        (0.75, [0.25, 0.75, inf, 0.0])
    """

    def divide(pairs: Tensor) -> Tensor:
        return torch.where((pairs == 0).all(-1), float(higher_is_better), pairs[..., 0] / pairs[..., 1])

    return Scoring(name, divide, None, divide, higher_is_better)


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
            raise TypeError(f"{cls.__name__} is a result, not a metric: make a CorpusBLEU or a CorpusCHRF")
        report = super().__new__(cls, next(iter(attributes.values())))
        vars(report).update(attributes)
        return report

    def parts(self) -> dict[str, float]:
        """The components that an evaluator logs, by the last part of their names."""
        return {}

    def charts(self) -> dict[str, list[str]]:
        """Which of these components TensorBoard shows, by the title of their chart."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain values that :mod:`json` can serialize."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, Report) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return vars(self) != vars(other) if isinstance(other, Report) else super().__ne__(other)

    __hash__ = float.__hash__

    def __setattr__(self, name: str, *value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    __delattr__ = __setattr__

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def float_type(device: torch.device) -> torch.dtype:
    """The floating-point type of scores: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def format_score(value: float, percent: bool | None, sign: str = "") -> str:
    """A score as text: in percent with two digits; with four digits if it has a scale of its own.

    Example:
        >>> format_score(0.12345, percent=False), format_score(0.12345, percent=None, sign="+")
        ('12.35', '+0.1235')
    """
    return f"{value:{sign}.4f}" if percent is None else f"{value if percent else 100 * value:{sign}.2f}"


def join_signature(fields: Mapping[str, object]) -> str:
    """A signature: one line that names the options a score depends on, and the versions, in sacreBLEU's format.

    Example:
        >>> join_signature({"nrefs": 1, "case": "mixed"}).split("|version")[0]
        'nrefs:1|case:mixed'
    """
    # The tokenizers are sacreBLEU's.
    versions = {"version": sacrebleu.__version__, "lightning_bleu": __version__}
    return "|".join(f"{name}:{value}" for name, value in {**fields, **versions}.items())
