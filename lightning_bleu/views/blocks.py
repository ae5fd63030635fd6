"""What there is to see of something: a title and a list of blocks.

:mod:`~lightning_bleu.views.text` and :mod:`~lightning_bleu.views.html` render them. Blocks have texts as they are: each
renderer cleans and escapes what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "best", "quiet"]
"""What something means. No renderer says it by color alone."""
Mark: TypeAlias = Literal["", "unmatched", "displaced"]
"""``""`` marks nothing; see :func:`lightning_bleu.views.marks.mark_words` for the others."""


class Span(NamedTuple):
    """A part of a text, with its mark."""

    text: str
    mark: Mark = ""


class Cell(NamedTuple):
    """A cell of a table whose text has a tone, such as a verdict."""

    text: str
    tone: Tone


class Range(NamedTuple):
    """A cell of a table with the interval of a number, which HTML draws as well, on an axis with a line at 0.

    Attributes:
        text: the interval.
        value: the number.
        low: the lower end of the interval.
        high: the upper end.
        axis: both ends of the axis, the same for all cells of a column.
        tone: what it means.
    """

    text: str
    value: float
    low: float
    high: float
    axis: tuple[float, float]
    tone: Tone = ""

    def place(self, value: float) -> float:
        """Where a number is on the axis, in percent of its length.

        Example:
            >>> Range("0 to 2", 1, 0, 2, axis=(-1, 3)).place(1)
            50.0
        """
        start, end = self.axis
        if not math.isfinite(value) or start >= end:
            return 0.0
        clipped = min(max(value, start), end)
        return round(100 * (clipped - start) / (end - start), 2)


TableCell: TypeAlias = str | Cell | Range


class Table(NamedTuple):
    """A table.

    Attributes:
        header: the names of the columns.
        rows: the cells of each row; ``""`` for none. A row of a single cell is a heading of those below it.
        title: what the table has.
        note: what the numbers mean.
        text_columns: how many columns have text, and are aligned to the left. The others have numbers.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    title: str = ""
    note: str = ""
    text_columns: int = 1


class Point(NamedTuple):
    """A point of a chart, with its interval if there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Chart(NamedTuple):
    """A line over numbers.

    Attributes:
        title: what it shows.
        points: its points.
        x_label: what the horizontal axis shows.
        best: the point with a ring around it.
    """

    title: str
    points: Sequence[Point]
    x_label: str = ""
    best: Point | None = None


class ExampleLine(NamedTuple):
    """A text of a sentence.

    Attributes:
        label: what it is: ``"source"``, ``"reference"``, or the name of a system.
        spans: the text, in parts.
        score: its score.
    """

    label: str
    spans: Sequence[Span]
    score: str = ""


@dataclass(frozen=True)
class Example:
    """A sentence.

    Attributes:
        index: its position in its dataset, from 0.
        lines: its texts.
        scores: its scores.
    """

    index: int
    lines: Sequence[ExampleLine]
    scores: str = ""


class Examples(NamedTuple):
    """Sentences with marked words. Without any, nothing is shown.

    Attributes:
        title: which sentences they are.
        items: the sentences.
        note: what their scores mean.
        folded: whether they are hidden until a reader opens them.
    """

    title: str
    items: Sequence[Example]
    note: str = ""
    folded: bool = False


class Note(NamedTuple):
    """A paragraph, which may have several lines.

    Attributes:
        text: the text.
        quiet: whether it is a detail.
    """

    text: str
    quiet: bool = False


class Heading(NamedTuple):
    """The title of the blocks that follow."""

    text: str


Block: TypeAlias = Table | Chart | Examples | Note | Heading


class View(NamedTuple):
    """All that is to be seen of something.

    Attributes:
        title: what it is.
        blocks: what is shown, in order.
        page_title: what a page calls it that has no title.
    """

    title: str
    blocks: Sequence[Block] = ()
    page_title: str = ""


def describe_marks(examples: Examples) -> dict[Mark, str]:
    """What the marks that appear in examples mean."""
    lines = chain.from_iterable(example.lines for example in examples.items)
    marks = {span.mark for line in lines for span in line.spans}
    return {mark: meaning for mark, meaning in MEANINGS.items() if mark in marks}


MEANINGS: dict[Mark, str] = {
    "unmatched": "wrong or missing",
    "displaced": "right word, but in no right word pair",
}
"""What each mark means."""
