"""Sample sentences: how they are tokenized, and the table as TensorBoard renders it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.bleu import BLEUScorer, BLEUSettings, count_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.observers.samples import Sample, split_line
from lightning_bleu.observers.tensorboard import sample_table
from lightning_bleu.tasks import CER, WER
from lightning_bleu.views.marks import Line, mark_words

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # TensorBoard's copy of bleach warns of its own imports
    from tensorboard.plugin_util import markdown_to_safe_html  # type: ignore[import-untyped]

SCORER = BLEUScorer(BLEUSettings.from_options())


def count(hypotheses: Sequence[Any], references: Sequence[Any], metric: CorpusBLEU) -> Tensor:
    return torch.from_numpy(count_rows(read_batch(hypotheses, references, metric.settings), metric.settings))


def split(line: str) -> Line:
    """A line whose tokens are separated by blanks."""
    return Line(line, line.split())


# Samples


def tokenize(text: str, *, tokenized: bool = False, **options: Any) -> list[str]:
    """The tokens of a text."""
    line = split_line(text, tokenized, BLEUScorer(BLEUSettings.from_options(**options)))
    assert line.text == text
    return [*line.tokens]


def test_a_text_is_normalized_as_a_whole() -> None:
    def answer(text: str) -> str:
        return text.split("so:")[1]

    for long in ("", "step " * 5000):
        evaluator = Evaluator(WER(answer), samples=1)
        evaluator.start()
        evaluator.update([f"{long}so: a cat"] * 4, ["so: a dog"] * 4)
        assert evaluator.finish(step=0)["val_wer"].score == 0.5


def test_a_text_without_its_normalized_characters_is_shown_as_it_is() -> None:
    scorer = CER(lambda text: text.replace("20", "ten")).scorer_of("cer", "")
    lines = [split_line(text, False, scorer) for text in ("20 cats", "20 hats")]
    assert mark_words(lines[0], lines[1:])[0] == [("20 cats", "")]


def test_a_sentence_longer_than_what_is_shown_is_marked_as_a_whole() -> None:
    """Its last words are those that match the reference, and beyond them nothing is read of a loop."""
    hypothesis, reference = (split_line(text, False, SCORER) for text in ("x " * 300 + "a b", "a b"))
    assert len(hypothesis.tokens) == 302
    assert {span.mark for span in mark_words(hypothesis, [reference])[1][0]} == {""}
    assert len(split_line("x " * 100_000, False, SCORER).text) == 20_000


def test_shares_are_shown_in_percent_and_other_scores_on_their_scale() -> None:
    percent = {"share": False, "percent": True, "words": None}
    sample = Sample(1, [split("a")], None, dict.fromkeys(percent, 0.25), percent)
    assert sample.shown_scores() == [25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Hi, you!", {}, ["Hi", ",", "you", "!"]),
        ("Hi, you!", {"lowercase": True}, ["hi", ",", "you", "!"]),
        ("Hi, you!", {"tokenizer": "none"}, ["Hi,", "you!"]),
        ("你好 you", {"tokenizer": "zh"}, ["你", "好", "you"]),
        ("&quot;a&quot;", {}, ['"', "a", '"']),
        ("a-b C", {"tokenizer": lambda line: line.split("-")}, ["a", "b C"]),
        ("a-b C", {"tokenizer": lambda line: line.replace("-", " ")}, ["a", "b", "C"]),
        ("ab", {"tokenizer": lambda line: [ord(letter) for letter in line]}, ["97", "98"]),
        # Whitespace at the end makes no token: not "trans" and not "".
        ("trans-\n", {}, ["trans-"]),
        ("a b ", {"tokenizer": lambda line: line.split(" ")}, ["a", "b"]),
    ],
)
def test_text_is_tokenized_as_it_is_counted(text: str, options: dict[str, Any], expected: list[str]) -> None:
    assert tokenize(text, **options) == expected
    assert count([text], [text], CorpusBLEU(**options))[0, -1] == len(expected)


@pytest.mark.parametrize("options", [{}, {"tokenizer": "char"}, {"lowercase": True}, {"tokenizer": len}])
def test_tokens_and_ids_are_not_tokenized_again(options: dict[str, Any]) -> None:
    assert tokenize("Hi, 5 you!", tokenized=True, **options) == ["Hi,", "5", "you!"]
    assert tokenize("", tokenized=True, **options) == []


# The table, read back by an HTML parser

NASTY = [
    "a | b || c",
    "| --- | --- |",
    "<script>alert(1)</script>",
    "two\nlines\r\n| --- |\n\nparagraph",
    "*bold* _italic_ `code` # heading [link](javascript:alert(1)) ![image](x) ~~~ \\",
    "&lt;b&gt; &amp; <b> &#60;b&#62; &#x3c;b&#x3e; &quot;",
    "<b <i </pre></code></td></table> <!-- <![CDATA[ <?php",
    "<img src=x onerror=alert(1)> <a href='javascript:alert(1)'>",
    "```\ncode\n```",
    "`` ` ``` \\` \\| \\\\|",
    "1. list",
    "- list",
    "> quote",
    "    code",
    "=====",
    "[id]: http://example.com",
    "http://example.com <http://example.com> a@example.com <a@example.com>",
    "**bold** __bold__ ***both***",
    "äöü 中文 😀 שלום مرحبا हिन्दी",
    "\x00\x85\u2028\u2029\x1b[31m\x02klzzwxh:0\x03\x7f",
    "\u200b\u200e\u200f\u061c\ufeff\u00ad zero width",
    "\u202eright to left\u2069 \u2066\u2067\u2068 \u202a\u202b\u202c\u202d",
    "lone surrogate \ud800 and noncharacter \uffff",
    "word " * 200,
]

TAGS = {"p", "br", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "strong", "em"}
"""The tags of a sample table."""

# Shown as replacement characters, shown as blanks, and not shown.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
LINE_BREAK = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")

TEXTS = st.one_of(
    st.text(), st.sampled_from(NASTY), st.text(alphabet="ab <>&#;/|\\`*_[]()!~\"'=-+.:1\n\u2068\u2069", max_size=30)
)


class Page(HTMLParser):
    """The tags and the attributes of a page, and the text of its paragraph and its cells, with line breaks."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {"p": [], "th": [], "td": []}
        self._open = ""
        self.feed(markdown_to_safe_html(markdown.encode()))  # TensorBoard reads bytes from event files
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in self.texts:
            self._open = tag
            self.texts[tag].append("")
        elif tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data
        else:
            assert not data.strip()


def make_sample(hypothesis: str, *references: str, source: str | None = None, number: int = 1) -> Sample:
    lines = [split(hypothesis), *map(split, references)]
    return Sample(number, lines, source, {"bleu": 12.34, "f": 0.5}, percent={"bleu": True, "f": None})


def body(hypothesis: str, *references: str, source: str | None = None) -> str:
    """The Markdown of the sentences of one sample, without isolates."""
    row = sample_table([make_sample(hypothesis, *references, source=source)], "", {}).splitlines()[-1]
    return row.split(" | ")[-1].removesuffix(" |").replace("\u2068", "").replace("\u2069", "")


def visible(text: str) -> str:
    """The text as a reader sees it: unchanged, except for control characters."""
    text = DIRECTION.sub("", text[:500] + " ..." * (len(text) > 500))
    return CONTROL.sub("\ufffd", LINE_BREAK.sub(" ", text))


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_is_shown_as_it_is(text: str) -> None:
    page = Page(sample_table([make_sample(text, text, "other", text, source=text)], f"caption\n{text}", {}))
    assert page.attributes == []
    assert set(page.tags) <= TAGS
    assert [page.tags.count(tag) for tag in ("table", "tr", "th", "td", "pre", "code")] == [1, 2, 2, 2, 1, 5]
    # The lines of the source, the hypothesis, and the references.
    expected = [
        f"{label} \u2068{visible(line)}\u2069"
        for label, line in zip(["src", "hyp", "ref", "ref", "ref"], [text, text, text, "other", text])
    ]
    assert page.texts["td"][-1].split("\n") == expected
    (caption,) = page.texts["p"]
    assert caption.startswith("\u2068caption\u2069\n\u2068")


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=40)
def test_no_text_yields_a_tag(hypothesis: str, reference: str, caption: str) -> None:
    tokens = ["", *hypothesis, *reference]  # in another order, they may not be in the text
    references = [split(reference), Line(reference, tokens)]
    lines = [Line(hypothesis, tokens[::-1]), *references]
    sample = Sample(1, lines, caption, {caption: 0.0}, percent={caption: True})
    page = Page(sample_table([sample, sample], caption, {caption: 1}))
    assert page.attributes == []
    assert [page.tags.count(tag) for tag in ("table", "tr", "th", "td", "pre", "code")] == [1, 3, 3, 6, 5, 8]
    assert set(page.tags) <= TAGS


@given(TEXTS)
def test_no_text_leaves_its_isolate(text: str) -> None:
    table = sample_table([make_sample(text, text, source=text)], text, {})
    assert re.fullmatch("[^\u2066-\u2069]*(\u2068[^\u2066-\u2069]*\u2069[^\u2066-\u2069]*)*", table)
    assert not re.search("[\u202a-\u202e]", table)


def test_rows_have_an_index_a_column_for_each_score_and_labeled_lines() -> None:
    samples = [make_sample("a b", "a b", "b", source="c d"), make_sample("a", "b", number=1041)]
    page = Page(sample_table(samples, "BLEU = 1\nof process 0", {"bleu": 1, "a_b|c": 4}))
    assert page.texts["p"] == ["\u2068BLEU = 1\u2069\n\u2068of process 0\u2069\nBold: wrong or missing."]
    assert page.texts["th"] == ["index", "bleu", "a_b|c", "source, hypothesis, references"]
    assert page.texts["td"] == [
        *("   1", " 12.3", "0.5000"),
        "src \u2068c d\u2069\nhyp \u2068a b\u2069\nref \u2068a b\u2069\nref \u2068b\u2069",
        *("1041", " 12.3", "0.5000"),
        "hyp \u2068a\u2069\nref \u2068b\u2069",
    ]


def test_unmatched_words_are_bold_and_displaced_words_are_italic() -> None:
    # "b" matches, but no bigram does; nothing else matches.
    assert body("b <x>", "a b") == (
        "<code>hyp</code> <em>b</em> <strong>&#60;x&#62;</strong><br><code>ref</code> <strong>a</strong> b"
    )


BOLD = "<strong>Bold</strong>: wrong or missing."
ITALIC = "<em>Italic</em>: right word, but in no right word pair."


@pytest.mark.parametrize(
    ("hypothesis", "reference", "explanation"),
    [("a b", "a b", []), ("a b c", "a b", [BOLD]), ("b a", "a b", [ITALIC]), ("b c", "a b", [f"{BOLD} {ITALIC}"])],
)
def test_only_marks_that_appear_are_explained(hypothesis: str, reference: str, explanation: list[str]) -> None:
    table = sample_table([make_sample(hypothesis, reference)], "caption", {})
    assert table.splitlines()[0].split("<br>") == ["\u2068caption\u2069", *explanation]


def test_long_sentences_are_cut_after_500_characters_and_keep_their_marks() -> None:
    assert body("a" * 500, "a" * 500) == f"<code>hyp</code> {'a' * 500}<br><code>ref</code> {'a' * 500}"
    assert body("a" * 501, "b") == (
        f"<code>hyp</code> <strong>{'a' * 500}</strong> ...<br><code>ref</code> <strong>b</strong>"
    )
    assert body("a", "a", source="s" * 501).startswith(f"<code>src</code> {'s' * 500} ...<br>")


def test_references_take_at_most_five_lines() -> None:
    references = ["a a", "a b", "a c", "a d", "a e", "a f", "a f"]
    more = "<code>2 more references</code>", "<code>3 more references</code>"
    for count, last in ((5, "<code>ref</code> a <strong>e</strong>"), (6, more[0]), (7, more[1])):
        lines = body("a f", *references[:count]).replace("\u2068", "").replace("\u2069", "").split("<br>")
        assert [line.startswith("<code>ref</code> a") for line in lines[:5]] == [False] + [True] * 4
        assert lines[5:] == [last]
    assert lines[0] == "<code>hyp</code> a f"  # which matches the last reference, although it isn't shown


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b\u200e", "\u2068\u2069"])
def test_a_sentence_without_visible_characters_is_called_empty(text: str) -> None:
    assert body(text, text, source=text) == (
        "<code>src (empty)</code><br><code>hyp (empty)</code><br><code>ref (empty)</code>"
    )
    assert body("(empty)", text).startswith("<code>hyp</code> <strong>&#40;empty&#41;</strong><br>")
