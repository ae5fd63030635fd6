"""Views in GitHub's Markdown, for pull requests and issues. Sentences are folded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import singledispatch

from lightning_bleu.core.clean import is_visible, to_line
from lightning_bleu.views.blocks import (
    Block,
    Chart,
    Example,
    Examples,
    Heading,
    Mark,
    Note,
    Span,
    Table,
    View,
    describe_marks,
    shorten,
)
from lightning_bleu.views.text import MAX_ROWS, cell_texts, to_table

_MARKUP = re.compile(r"[\\`*\[\]|~$]|<(?! )|^>|&(?=#|\w)|_(?!\w)|(?<![^\W_])_")
"""Everything that could be markup: an underscore inside a name, and an arrow, are none."""
_PLAIN = re.compile(r"[^\W\d_]|[\d,]+ ")
"""How a paragraph begins that is neither a list, nor a heading, nor code."""
_RIGHT_TO_LEFT = ("R", "AL", "AN", "RLE", "RLO", "RLI")
_LINKS = re.compile(r"@|(?<!&)#(?=\d)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)|(?<=[Gg][Hh]-)(?=\d)")
"""Where GitHub would notify a person, or link an issue or a page."""
_NO_LINK = "&#8203;"
"""A character without a width, which ends the name of a person and the number of an issue."""
_TAGS: dict[Mark, str] = {"": "{}", "unmatched": "<b>{}</b>", "displaced": "<i>{}</i>"}
_TYPEFACES: dict[Mark, str] = {"unmatched": "<b>Bold</b>", "displaced": "<i>Italic</i>"}
_ISOLATE = "\u2068{}\u2069"
"""Keeps the punctuation of right-to-left text in place. Left-to-right text looks the same."""


def to_markdown(view: View) -> str:
    """A view in GitHub's Markdown.

    Example:
        >>> print(to_markdown(View("@all", [Table(["a|b", "score"], [["<b>", "48.86"]])])))
        ### @&#8203;all
        <BLANKLINE>
        | a&#124;b | score |
        | :--- | ---: |
        | &#60;b> | 48.86 |
        <BLANKLINE>
    """
    paragraphs = list(map(_render, view.blocks))
    if view.title:
        paragraphs.insert(0, f"### {escape(view.title)}")
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def escape(text: str) -> str:
    """A text on a single line, without markup, mentions, and links.

    Example:
        >>> escape("*a* @team #12 https://a.b")
        '&#42;a&#42; @&#8203;team #&#8203;12 https:&#8203;//a.b'
    """
    escaped = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", to_line(text))
    return _LINKS.sub(_end_link, escaped)


def _isolate(text: str, shown: str) -> str:
    """What is shown of a text, isolated if the text has words that are written from right to left."""
    is_mixed = any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)
    return _ISOLATE.format(shown) if is_mixed else shown


def _end_link(match: re.Match[str]) -> str:
    return match[0] + _NO_LINK


@singledispatch
def _render(block: Block) -> str:
    """A block in Markdown; empty if Markdown cannot show it."""
    raise NotImplementedError(block)


@_render.register
def _(block: Table) -> str:
    header, *rows = cell_texts(block)
    number_columns = len(header) - block.text_columns
    alignment = [":---"] * block.text_columns + ["---:"] * number_columns
    lines = [_row(header), f"| {' | '.join(alignment)} |"]
    lines += map(_row, rows)
    paragraphs = ["\n".join(lines)]
    if block.title:
        paragraphs.insert(0, f"**{escape(block.title)}**")
    missing = len(block.rows) - MAX_ROWS
    if missing > 0:
        paragraphs.append(f"... and {missing:,} more")
    if block.note:
        paragraphs.append(_paragraph(block.note))
    return "\n\n".join(paragraphs)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


@_render.register
def _(block: Chart) -> str:
    table = to_table(block)
    if table is None:
        return ""
    return _render(table)


@_render.register
def _(block: Examples) -> str:
    if not block.items:
        return ""
    notes = [f"{_TYPEFACES[mark]}: {meaning}." for mark, meaning in describe_marks(block).items()]
    if block.note:
        notes.insert(0, _paragraph(block.note))
    items = "\n".join(map(_render_example, block.items))
    paragraphs = [f"<details><summary>{escape(block.title)}</summary>", " ".join(notes), items, "</details>"]
    return "\n\n".join(filter(None, paragraphs))


def _render_example(example: Example) -> str:
    lines = [f"- no. {example.number} {escape(example.scores)}".rstrip()]
    for line in example.lines:
        label = " ".join(filter(None, [escape(line.label), line.score]))
        lines.append(f"  - <code>{label}</code> {_render_text(shorten(line.spans))}")
    return "\n".join(lines)


def _render_text(spans: Sequence[Span]) -> str:
    marked = ""
    for text, mark in spans:
        marked += _TAGS[mark].format(escape(text))  # not ** and _, which fail beside blanks and inside words
    if not any(is_visible(span.text) for span in spans):
        return "(empty)"
    return _isolate("".join(span.text for span in spans), marked)


@_render.register
def _(block: Note) -> str:
    return "<br>".join(map(_paragraph, block.text.splitlines()))


def _paragraph(text: str) -> str:
    """A text that may begin a line: isolated if that could be a list, a heading, or a block of code."""
    escaped = escape(text)
    return _isolate(text, escaped) if _PLAIN.match(escaped) else _ISOLATE.format(escaped)


@_render.register
def _(block: Heading) -> str:
    return f"#### {escape(block.text)}"
