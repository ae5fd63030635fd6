"""Views as text for terminals. Only names and sentences are not ASCII."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from lightning_bleu.core.clean import clean, is_visible, to_line
from lightning_bleu.views.blocks import (
    Block,
    Example,
    Examples,
    Heading,
    Note,
    Table,
    View,
)
from lightning_bleu.views.marks import shorten

MAX_ROWS = 40
"""The maximum number of rows of a table."""
_MAX_NAME = 60
"""The maximum number of characters of a cell."""
_MAX_SHOWN = 200
"""The maximum number of characters of a sentence."""


def to_text(view: View) -> str:
    """A view as text, without a line break at the end.

    Example:
        >>> print(to_text(View("Scores", [Table(["", "score"], [["bleu", "48.86"], ["ter", "0.5"]]), Note("Done.")])))
        Scores
        <BLANKLINE>
              score
        bleu  48.86
        ter     0.5
        <BLANKLINE>
        Done.
    """
    paragraphs = [to_line(view.title), *("\n".join(_lines(block)) for block in view.blocks)]
    return "\n\n".join(filter(None, paragraphs))


def _lines(block: Block) -> list[str]:
    """The lines of a block; none if text cannot show it."""
    if isinstance(block, Table):
        return _table_lines(block)
    if isinstance(block, Examples) and block.items:
        lines = list(filter(None, [to_line(block.title), to_line(block.note)]))
        for example in block.items:
            lines += _example_lines(example)
        return lines
    if isinstance(block, Note | Heading):
        return [to_line(line) for line in block.text.splitlines()]
    return []  # the values of a chart are in a table


def _table_lines(table: Table) -> list[str]:
    rows = cell_texts(table)
    widths = [max(map(_width, column)) for column in zip(*rows)]
    lines = [to_line(table.title)] if table.title else []
    lines += [_align(row, widths, table.text_columns) for row in rows]
    missing = len(table.rows) - MAX_ROWS
    if missing > 0:
        lines.append(f"... and {missing:,} more")
    if table.note:
        lines.append(to_line(table.note))
    return lines


def cell_texts(table: Table) -> list[list[str]]:
    """The texts of the header and of the first rows.

    Example:
        >>> cell_texts(Table(["", "score"], [["bleu"], ["new", "20.5"]]))
        [['', 'score'], ['bleu', ''], ['new', '20.5']]
    """
    texts = []
    for row in (table.header, *table.rows[:MAX_ROWS]):
        of_row = [to_line(cell if isinstance(cell, str) else cell.text, _MAX_NAME) for cell in row]
        texts.append(of_row + [""] * (len(table.header) - len(row)))
    return texts


def _align(row: Iterable[str], widths: Sequence[int], text_columns: int) -> str:
    columns = enumerate(zip(row, widths))
    return "  ".join(_pad(text, width, at_left=column >= text_columns) for column, (text, width) in columns).rstrip()


def _pad(text: str, width: int, *, at_left: bool = False) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if at_left else text + blanks


def _width(text: str) -> int:
    """How many columns of a terminal a text takes.

    Example:
        >>> _width("abc"), _width("翻訳"), _width("e\\u0301")
        (3, 4, 1)
    """
    width = 0
    for character in text:
        is_wide = unicodedata.east_asian_width(character) in "WF"
        is_combining = unicodedata.combining(character) > 0
        width += 1 + is_wide - is_combining
    return width


def _example_lines(example: Example) -> list[str]:
    labels = [to_line(line.label, _MAX_NAME) for line in example.lines]
    label_width = max(map(_width, labels), default=0)
    score_width = max((len(line.score) for line in example.lines), default=0)
    lines = [f"  #{example.index}  {to_line(example.scores)}".rstrip()]
    for label, line in zip(labels, example.lines):
        text = clean("".join(span.text for span in shorten(line.spans, _MAX_SHOWN)))
        columns = [_pad(label, label_width)]
        if score_width:
            columns.append(line.score.rjust(score_width))
        columns.append(text if is_visible(text) else "(empty)")
        lines.append("    " + "  ".join(columns))
    return lines
