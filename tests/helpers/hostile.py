"""Texts that break pages, tables, and terminals."""

from __future__ import annotations

from lightning_bleu.views.blocks import (
    Block,
    Cell,
    Chart,
    Example,
    ExampleLine,
    Examples,
    Heading,
    Note,
    Point,
    Range,
    Span,
    Table,
    TableCell,
    View,
)

TEXTS = [
    "<script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title = 'run'\">",
    "</style></title></details></table> &amp; &lt; {{ 7 * 7 }} {% raw %}",
    "a | b ** c ** `d` [e](https://f.g) ![h](i.png) ~~j~~ $k$ \\| <!-- l",
    "# @everyone, see #12, GH-34 and https://a.b or www.c.d",
    "- a list\n\n1. another\n\n    code\n\n```\nfence",
    "nul \0, bell \a, escape \x1b[31m, surrogate \ud800, carriage \r return",
    "مرحبا بكم في مدينتنا الجميلة، كيف حالكم اليوم؟ 31",
    "שלום \u202e!dlrow\u202c (עולם)",
    "W" * 3000,
    "loop " * 5000,
    " \u200b ",
    "",
]


def hostile_view() -> View:
    """A view with every kind of block, and hostile texts in all of them."""
    rows: list[list[TableCell]] = []
    for number, text in enumerate(TEXTS):
        rows.append([text, Cell(text, "bad"), Range(text, number, -1, 20, (-1, 20)), f"{number}"])
    items = []
    for number, text in enumerate(TEXTS, 1):
        lines = [ExampleLine("source", [Span(text)]), ExampleLine(text, [Span(text, "unmatched"), Span(text)], "1.00")]
        items.append(Example(number, [*lines, ExampleLine("reference", [Span(text, "displaced")])], text[:200]))
    blocks: list[Block] = [
        Table(["", *TEXTS[:3]], rows, title=TEXTS[0], note=TEXTS[4]),
        Heading(TEXTS[1]),
        Chart(TEXTS[2], [Point(0, 1.0, 0.5, 1.5), Point(1, float("nan"))], TEXTS[3], best=Point(0, 1.0)),
        Note("\n".join(TEXTS)),
        Examples(TEXTS[3], items, TEXTS[4]),
    ]
    return View(TEXTS[0], blocks)
