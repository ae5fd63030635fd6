"""Views as text."""

from __future__ import annotations

from lightning_bleu.views.blocks import Chart, Example, ExampleLine, Examples, Note, Point, Range, Span, Table, View
from lightning_bleu.views.text import to_text
from tests.helpers.hostile import TEXTS, hostile_view


def test_columns_are_as_wide_as_their_widest_cell_also_of_wide_characters() -> None:
    table = Table(["", "score"], [["翻訳", "1.0"], ["e\u0301t", "10.0"]])
    assert to_text(View("", [table])).split("\n") == ["      score", "翻訳    1.0", "e\u0301t     10.0"]


def test_at_most_40_rows_of_a_table_are_shown() -> None:
    lines = to_text(View("", [Table(["", "n"], [[f"row {number}", "1"] for number in range(1041)])])).split("\n")
    assert (len(lines), lines[-2:]) == (42, ["row 39  1", "... and 1,001 more"])


def test_of_what_is_drawn_text_has_the_numbers() -> None:
    table = Table(["", "interval", "score"], [["bleu"], ["new", Range("0 to 2", 1, 0, 2, (0, 2)), "1.0"]])
    text = to_text(View("", [Chart("curve", [Point(100, 50)], "step"), table]))
    assert text.split("\n") == ["      interval  score", "bleu", "new     0 to 2    1.0"]


def test_examples_have_their_numbers_scores_and_lines() -> None:
    lines = [ExampleLine("reference", [Span("a b")]), ExampleLine("old", [Span("a"), Span(" c", "unmatched")], "50.0")]
    items = [Example(7, lines, "bleu 8.9"), Example(8, [ExampleLine("new", [Span(" ")])])]
    assert to_text(View("", [Examples("Worst 2", items, "by BLEU"), Examples("none", [])])).split("\n") == [
        "Worst 2",
        "by BLEU",
        "  #7  bleu 8.9",
        "    reference        a b",
        "    old        50.0  a c",
        "  #8",
        "    new  (empty)",
    ]


def test_hostile_texts_stay_on_their_lines_and_can_be_encoded() -> None:
    text = to_text(hostile_view())
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    text.encode()
    assert max(map(len, text.split("\n"))) < 700
    assert len(text.split("\n")) < 12 * len(TEXTS)
    assert to_text(View("", [Note("a\nb")])) == "a\nb"
