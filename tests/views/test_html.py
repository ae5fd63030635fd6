"""Views as HTML, and in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from lightning_bleu.views.blocks import Cell, Example, ExampleLine, Examples, Note, Range, Span, Table, TableCell, View
from lightning_bleu.views.html import to_fragment, to_page
from lightning_bleu.views.viewable import Viewable
from tests.helpers.browser import needs_browser, open_browser
from tests.helpers.hostile import TEXTS, hostile_view

VOID = {"br", "meta"}


class Reader(HTMLParser):
    """Collects the tags of HTML, and checks that they are nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href"):
                self.addresses.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.mark.parametrize("render", [to_page, to_fragment])
def test_hostile_texts_are_text(render: Any) -> None:
    html = render(hostile_view())
    reader = Reader(html)
    assert not reader.tags.keys() & {"script", "img", "link", "iframe", "a", "object"}
    assert all(address.startswith("#") for address in reader.addresses)  # within a chart
    assert not re.search(r"url\((?!#)|@import", html)
    assert reader.tags["tr"] == 1 + len(TEXTS)
    assert reader.tags["article"] == len(TEXTS)
    assert reader.tags["svg"] == 1
    assert "7 * 7" in html
    html.encode()


def test_a_page_has_words_that_are_marked_and_verdicts_that_can_be_read() -> None:
    spans = [Span("Auf", "displaced"), Span(" "), Span("Mann", "unmatched")]
    examples = Examples("Worst", [Example(7, [ExampleLine("hypothesis", spans)])], folded=True)
    row: list[TableCell] = ["new", Cell("better", "good"), Range("0 to 2", 1, 0, 2, (-2, 2), "good"), "+1.00"]
    html = to_page(View("a", [Table(["", "", "", "difference"], [["bleu"], row]), examples]))
    assert '<mark class="displaced">Auf</mark> <mark class="unmatched">Mann</mark>' in html
    assert '<span class="pill good">better</span>' in html
    assert 'colspan="4">bleu</th>' in html
    assert '<td class="drawn">0 to 2<div class="range good">' in html
    assert '<i class="ends" style="left: 50.0%; width: 50.0%">' in html
    assert "<details>" in html  # folded


class Texts(Viewable):
    """Many examples of a hostile text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def describe(self, examples: int) -> View:
        spans = [Span(character, "unmatched") for character in self.text]
        lines = [ExampleLine("hypothesis", spans)] * 4
        items = [Example(number, lines) for number in range(examples)]
        return View("texts", [Note("note"), Examples(f"First {examples}", items)])


def test_a_page_stays_below_1_mib_and_says_how_many_examples_it_has(tmp_path: Path) -> None:
    texts = Texts("\U0001f600" * 600)
    page = texts.to_html()
    assert 2**17 < len(page.encode()) < 2**20
    assert Reader(page).tags["article"] < 20
    assert f"First {Reader(page).tags['article']}" in page
    texts.to_html(tmp_path / "page.html", examples=2)
    assert (tmp_path / "page.html").read_text("utf-8") == texts.to_html(examples=2)
    assert str(texts) == "texts\n\nnote"
    assert "First 3" in texts._repr_html_()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as page:
        yield page


@needs_browser
def test_a_browser_runs_nothing_and_everything_fits_on_a_phone(page: Page, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(to_page(hostile_view()), "utf-8")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    address = (tmp_path / "page.html").as_uri()
    for scheme, width in (("light", 1200), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address)
        assert page.title().startswith("<script>")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == {"light": "rgb(28, 30, 33)", "dark": "rgb(228, 230, 234)"}[scheme]
        tick = page.locator("svg text").first
        assert tick.evaluate("node => getComputedStyle(node).fill") == ink  # text, in the color of the page
        sizes = page.locator("svg text").evaluate_all("nodes => nodes.map(node => node.getBoundingClientRect().height)")
        assert min(sizes) > 8
    assert set(requests) == {address}
    sentence = page.locator(".sentence", has_text="مرحبا").first
    assert sentence.evaluate("node => getComputedStyle(node).direction") == "rtl"
    lines = page.locator("mark").evaluate_all("nodes => nodes.map(node => getComputedStyle(node).textDecorationLine)")
    assert set(lines) == {"underline"}  # not the color alone
