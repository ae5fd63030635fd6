"""Views as GitHub's Markdown, read by a parser of its dialect."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import comrak
import pytest

from lightning_bleu.views.blocks import Example, ExampleLine, Examples, Heading, Note, Span, Table, View
from lightning_bleu.views.markdown import escape, to_markdown
from tests.helpers.hostile import TEXTS, hostile_view

EXTENSIONS = comrak.ExtensionOptions()
for extension in ("autolink", "table", "strikethrough", "tasklist", "footnotes", "math_dollars"):
    setattr(EXTENSIONS, extension, True)
RENDERING = comrak.RenderOptions()
RENDERING.unsafe_ = True  # shows the tags that GitHub would sanitize


class Reader(HTMLParser):
    """Collects the tags and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markdown: str) -> Reader:
    return Reader(comrak.render_markdown(markdown, extension_options=EXTENSIONS, render_options=RENDERING))


@pytest.mark.parametrize("text", [text.strip() for text in TEXTS[:9]])
def test_escaped_text_reads_as_it_is_and_links_nothing(text: str) -> None:
    reader = read(f"x{escape(text)}x")
    assert reader.tags == ["p"]
    shown = reader.text.replace("\u200b", "").strip()
    visible = [character for character in text if character.isprintable() and not character.isspace()]
    without_direction = [character for character in visible if not 0x202A <= ord(character) <= 0x202E]
    assert [c for c in shown[1:-1] if not c.isspace() and c != "\ufffd"] == without_direction
    for link in (r"@\w", r"#\d", r"GH-\d", r"://", r"www\."):
        assert not re.search(link, reader.text, re.IGNORECASE)


def test_a_view_has_the_tags_that_we_write_and_no_others() -> None:
    reader = read(to_markdown(hostile_view()))
    ours = {"h3", "h4", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "br", "ul", "li", "code", "b", "i"}
    assert set(reader.tags) == ours | {"details", "summary"}
    assert reader.tags.count("tr") == 2 * (1 + len(TEXTS))  # two tables
    assert reader.tags.count("th") == 4 + 3  # ranges are left out
    assert reader.tags.count("summary") == 1
    assert "document.title = 'run'" in reader.text


def test_words_are_marked_and_the_marks_explained() -> None:
    spans = [Span("Auf", "displaced"), Span(" "), Span("Mann", "unmatched"), Span(" a")]
    examples = Examples("Worst 1", [Example(7, [ExampleLine("hypothesis", spans)], "bleu 8.9")])
    assert to_markdown(View("", [examples])).replace("\u2068", "").replace("\u2069", "") == (
        "<details><summary>Worst 1</summary>\n\n"
        "<b>Bold</b>: wrong or missing word. <i>Italic</i>: right word, but both neighbors are wrong.\n\n"
        "- no. 7 bleu 8.9\n"
        "  - <code>hypothesis</code> <i>Auf</i> <b>Mann</b> a\n\n"
        "</details>\n"
    )


def test_long_tables_are_cut_and_empty_blocks_left_out() -> None:
    rows = [[f"row {number}", "1"] for number in range(100)]
    reader = read(to_markdown(View("", [Table(["", "n"], rows), Examples("none", []), Heading("end"), Note("x")])))
    assert reader.tags.count("tr") == 41
    assert "... and 60 more" in reader.text
    assert "none" not in reader.text
