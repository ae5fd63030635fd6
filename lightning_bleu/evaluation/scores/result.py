"""The result of a validation: a score, what explains it, and how certain it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lightning_bleu.core.resampling import Interval, PairedTest
from lightning_bleu.core.scoring import Component, Report, describe_directions, format_in_unit
from lightning_bleu.core.verdict import Verdict
from lightning_bleu.views.blocks import Block, Cell, Note, Table, TableCell, View
from lightning_bleu.views.viewable import Viewable


@dataclass(frozen=True, repr=False)
class Result(Viewable):
    """A score of a loader, of a group, or of a whole validation. ``str(...)`` is a table.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat", "it is"], ["the cat sat on a mat", "it is"])
        >>> evaluator.finish(step=500)["val_bleu"]
        Result(55.84)

    Attributes:
        score: the score.
        components: the components of the score, such as precisions. A mean and a group have none.
        report: the score as an object that prints: a :class:`lightning_bleu.BLEUScore`, a
            :class:`lightning_bleu.CHRFScore`, or, for a function, a ``FunctionScore``; None for a mean, and for metrics
            of other packages.
        interval: the confidence interval, if requested.
        comparison: the paired test against the best validation so far. The first one is compared with itself. None if
            it is not compared.
        verdict: whether that comparison shows a clear difference; None if it is not compared with another validation.
        best: the score of the best validation so far, including this one. Only for the score of a whole validation.
        higher_is_better: whether a higher score is better; None if neither is, or if that is unknown.
        percent: whether the score is in 0..100 rather than in 0..1; None if it has a scale of its own.
    """

    score: float
    components: tuple[Component, ...] = ()
    report: Report | None = None
    interval: Interval | None = None
    comparison: PairedTest | None = None
    verdict: Verdict | None = None
    best: float | None = None
    higher_is_better: bool | None = None
    percent: bool | None = None

    @property
    def parts(self) -> dict[str, float]:
        """The values of the components by name."""
        return {component.name: component.value for component in self.components}

    def statistics(self) -> dict[str, float]:
        """The ends of the interval and what the comparison says, by the names under which they are logged."""
        interval, test = self.interval, self.comparison
        values: dict[str, float | None] = {}
        if interval is not None:
            values.update(low=interval.low, high=interval.high)
        if test is not None:
            values.update(difference=test.difference, difference_low=test.low, difference_high=test.high)
            values.update(p_value=test.p_value, best=self.best)
        return {name: value for name, value in values.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that :mod:`json` can serialize."""
        signature = getattr(self.report, "signature", None)
        return {
            "higher_is_better": self.higher_is_better,
            "percent": self.percent,
            "score": self.score,
            "parts": self.parts,
            "counts": {} if self.report is None else self.report.counts(),
            "interval": None if self.interval is None else _ends_of(self.interval),
            "comparison": self._comparison_to_dict(),
            "signature": signature,
        }

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`lightning_bleu.views.viewable.Viewable`."""
        cells = _cells(self)
        note = describe_directions({"": self.higher_is_better})
        blocks: list[Block] = [Table(list(cells), [list(cells.values())], note=note, text_columns=0)]
        if self.report is not None:
            signature = getattr(self.report, "signature", None) or ""
            blocks.append(Note(f"{self.report}\n{signature}".rstrip(), quiet=True))
        return View("", blocks)

    def __repr__(self) -> str:
        shown = [self._format(self.score)]
        if self.interval is not None:
            shown.append(f"interval=({self._format(self.interval.low)}, {self._format(self.interval.high)})")
        if self.comparison is not None:
            shown.append(f"difference={self._format(self.comparison.difference, '+')}")
            shown.append(f"p_value={self.comparison.p_value:.4f}")
        if self.best is not None:
            shown.append(f"best={self._format(self.best)}")
        return f"Result({', '.join(shown)})"

    def _format(self, value: float, sign: str = "") -> str:
        return format_in_unit(value, self.percent, sign)

    def _comparison_to_dict(self) -> dict[str, Any] | None:
        test = self.comparison
        if test is None:
            return None
        return {
            "with": "best",
            "score": test.score_b,
            "difference": test.difference,
            "interval": _ends_of(test),
            "p_value": test.p_value,
            "verdict": None if self.verdict is None else self.verdict.word,
            "best": self.best,
        }


def _ends_of(interval: Interval | PairedTest) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}


class Statistic(NamedTuple):
    """What a number means that is logged below a score, whatever the metric.

    Attributes:
        has_direction: whether it is better in the direction of the score.
        is_score: whether it is itself a score, and not a difference or a probability.
    """

    has_direction: bool = True
    is_score: bool = False


STATISTICS = {
    "low": Statistic(is_score=True),
    "high": Statistic(is_score=True),
    "difference": Statistic(),
    "difference_low": Statistic(),
    "difference_high": Statistic(),
    "p_value": Statistic(has_direction=False),
    "best": Statistic(is_score=True),
}
"""The statistics that :meth:`Result.statistics` has. No loader and no group can have one of these names."""


def tabulate(results: Mapping[str, Result]) -> Table:
    """A table of results by their names, with the columns that some of them need. Totals come first.

    Example:
        >>> results = {"val_bleu/a": Result(50.0, percent=True), "val_bleu": Result(0.5, higher_is_better=True)}
        >>> tabulate(results).rows
        [['val_bleu', '0.5000'], ['val_bleu/a', '50.00']]
    """
    names = _totals_first(results)
    cells_by_name = {name: _cells(results[name]) for name in names}
    columns: dict[str, None] = {}  # an ordered set
    for cells in cells_by_name.values():
        columns.update(dict.fromkeys(cells))
    rows = []
    for name, cells in cells_by_name.items():
        row: list[TableCell] = [name]
        row += [cells.get(column, "") for column in columns]
        rows.append(row)
    directions = {name: results[name].higher_is_better for name in names}
    return Table(["", *columns], rows, note=describe_directions(directions))


def _totals_first(names: Iterable[str]) -> list[str]:
    """The names with which others begin, and then the others.

    Example:
        >>> _totals_first(["val_bleu/a", "val_bleu/b", "val_bleu", "val_chrf"])
        ['val_bleu', 'val_bleu/a', 'val_bleu/b', 'val_chrf']
    """
    names = list(names)
    beginnings: set[str] = set()
    for name in names:
        separators = [place for place, character in enumerate(name) if not character.isalnum()]
        beginnings.update(name[:place] for place in separators)
    return sorted(names, key=lambda name: name not in beginnings)  # stable


def _cells(result: Result) -> dict[str, TableCell]:
    """The cells of a result by the titles of their columns, in the unit of the score."""
    percent = result.percent
    cells: dict[str, TableCell] = {"score": format_in_unit(result.score, percent)}
    interval, test = result.interval, result.comparison
    if interval is not None:
        low, high = format_in_unit(interval.low, percent), format_in_unit(interval.high, percent)
        cells[f"{100 * interval.confidence:g}% interval"] = f"{low} to {high}"
    if test is not None:
        difference = format_in_unit(test.difference, percent, "+")
        low, high = format_in_unit(test.low, percent, "+"), format_in_unit(test.high, percent, "+")
        title = f"against the best ({100 * test.confidence:g}% interval)"
        cells[title] = f"{difference} ({low} to {high})"
        cells["one-sided p"] = f"{test.p_value:.4f}"
        if result.verdict is not None:
            cells["verdict"] = result.verdict.word
    if result.best is not None:
        best = format_in_unit(result.best, percent)
        cells["best"] = Cell(best, "best") if result.best == result.score else best
    return cells
