"""chrF from statistics beside sacreBLEU's, to the last bit."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lightning_bleu import CHRFScore, CorpusCHRF, __version__, corpus_chrf, sentence_chrf
from lightning_bleu.chrf import CHRFSettings, chrf_rows, chrf_scoring, f_score
from lightning_bleu.reading.batch import read_batch
from tests.helpers.chrf import Groups, chrf_options, corpora, peer_rows, peer_score
from tests.helpers.text import fuzz_line

pytestmark = pytest.mark.filterwarnings("ignore:Every reference in 'target' is a single word")

COUNTS = st.integers(0, 4) | st.integers(0, 3_000) | st.integers(2**31, 2**45)
CAT = (
    ["a cat is on the mat", "hello there!"],
    [["the cat is on the mat", "there is a cat on the mat"], ["Hello there."]],
)


def rows_of(preds: list[str], target: Groups, **options: Any) -> list[list[int]]:
    """The statistics of each sentence."""
    settings = CHRFSettings.from_options(**options)
    rows: list[list[int]] = chrf_rows(read_batch(preds, target, settings), settings).tolist()
    return rows


@st.composite
def statistics(draw: st.DrawFn, orders: int) -> list[int]:
    """Statistics that a corpus can have, and some that it cannot."""
    row: list[int] = []
    for _ in range(orders):
        hypothesis, reference = draw(COUNTS), draw(COUNTS)
        row += [hypothesis, reference, draw(st.integers(0, min(hypothesis, reference)))]
    return row


# Scores


@given(chrf_options(), st.data())
@settings(max_examples=300)
def test_statistics_score_as_in_sacrebleu(options: dict[str, Any], data: st.DataObject) -> None:
    rows = data.draw(st.lists(statistics(options["char_order"] + options["word_order"]), min_size=1, max_size=4))
    settings, peer = CHRFSettings.from_options(**options), CHRF(**options)
    expected = [peer._compute_f_score(row) for row in rows]
    assert f_score(torch.tensor(rows), settings).tolist() == expected
    assert f_score(torch.tensor([rows, rows[::-1]]).double(), settings).tolist() == [expected, expected[::-1]]
    assert chrf_scoring(settings).score(torch.tensor(rows)).tolist() == [score / 100 for score in expected]


@given(corpora, chrf_options())
@example([("", [""]), ("", ["a", ""])], {"char_order": 2, "word_order": 1, "beta": 2, "eps_smoothing": True})
@example([("b", ["a", ""]), ("", ["a", ""])], {"char_order": 1, "beta": 0, "eps_smoothing": True})
@settings(max_examples=300)
def test_corpora_and_sentences_score_as_in_sacrebleu(
    sentences: list[tuple[str, list[str]]], options: dict[str, Any]
) -> None:
    preds, target = [hypothesis for hypothesis, _ in sentences], [references for _, references in sentences]
    theirs, signature = peer_score(preds, target, **options)
    rows = peer_rows(preds, target, **options)
    assert rows_of(preds, target, **options) == rows
    ours = corpus_chrf(preds, target, percent=True, **options)
    assert (ours.score, ours.name, str(ours)) == (theirs.score, theirs.name, theirs.format())
    assert ours.signature == f"{signature}|lightning_bleu:{__version__}"
    expected = [CHRF(**options)._compute_f_score(row) for row in rows]
    assert sentence_chrf(preds, target, percent=True, **options).tolist() == expected


@pytest.mark.parametrize("references", [1, 3, None])
@pytest.mark.parametrize(("char_order", "word_order"), [(6, 0), (6, 2), (1, 1), (0, 1), (0, 2), (3, 0)])
@pytest.mark.parametrize("beta", [0, 1, 2, 3])
def test_options_and_numbers_of_references_score_as_in_sacrebleu(
    beta: int, char_order: int, word_order: int, references: int | None, rng: random.Random
) -> None:
    preds = [fuzz_line(rng) for _ in range(25)]
    # None stands for one to three references.
    target = [[line[2:] + "x", line[::-1], line.swapcase()][: references or rng.randint(1, 3)] for line in preds]
    for flags in ({}, {"eps_smoothing": True}, {"whitespace": True, "lowercase": True}):
        options: Any = {"char_order": char_order, "word_order": word_order, "beta": beta} | flags
        theirs, signature = peer_score(preds, target, **options)
        ours = corpus_chrf(preds, target, percent=True, **options)
        assert (ours.score, str(ours)) == (theirs.score, theirs.format())
        assert ours.signature == f"{signature}|lightning_bleu:{__version__}"
        assert ours.signature.startswith(f"nrefs:{references or 'var'}|")


# Several references


# 2 of 4 and 4 characters match, or 3 of 4 and 8: with beta 1, both F-scores are 1/2.
SHORT, LONG, NOTHING = "abxy", "abcvwxyz", "rs"
TIES = [[SHORT, LONG], [LONG, SHORT], [NOTHING, LONG, SHORT], [NOTHING, SHORT, NOTHING, LONG, SHORT]]


def test_of_references_with_equal_scores_the_first_counts() -> None:
    options = {"char_order": 1, "beta": 1}
    expected = {SHORT: [4, 4, 2], LONG: [4, 8, 3]}
    preds = ["abc1", *["abc1"] * len(TIES), "abc1"]
    target = [[SHORT], *TIES, [LONG]]
    rows = [expected[next(line for line in group if line != NOTHING)] for group in target]
    assert len(set(sentence_chrf(preds, target, **options).tolist())) == 1  # type: ignore[arg-type]
    assert rows_of(preds, target, **options) == rows == peer_rows(preds, target, **options)


@pytest.mark.parametrize("eps_smoothing", [False, True])
def test_without_a_match_the_first_reference_counts(eps_smoothing: bool) -> None:
    options: dict[str, Any] = {"char_order": 1, "eps_smoothing": eps_smoothing}
    preds, target = ["abc", "", "abc"], [["", "xy"], ["x", "yz"], ["xy", "", "wxyz"]]
    rows = rows_of(preds, target, **options)
    assert rows == peer_rows(preds, target, **options)
    if not eps_smoothing:
        assert rows == [[0, 0, 0], [0, 1, 0], [3, 2, 0]]


def test_the_options_decide_which_reference_is_best() -> None:
    """Recall counts more with a larger beta, so the shorter reference wins."""
    preds, target = ["abcdef"], [["abcdefghijkl", "abc"]]
    for beta, expected in ((0, [6, 12, 6]), (2, [6, 3, 3])):
        assert rows_of(preds, target, char_order=1, beta=beta) == [expected]


# Names, signatures, reports


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "chrF2"),
        ({"word_order": 2}, "chrF2++"),
        ({"word_order": 1, "beta": 3}, "chrF3+"),
        ({"beta": 3.0}, "chrF3"),
        ({"beta": 0.5, "word_order": 3}, "chrF0.5+++"),
        ({"char_order": 0, "word_order": 1, "beta": 0}, "chrF0+"),
    ],
    ids=str,
)
def test_the_name_says_beta_and_the_order_of_words(options: Any, name: str) -> None:
    beta: Any = options.get("beta", 2)
    theirs, _ = peer_score(*CAT, **options | {"beta": int(beta) if beta == int(beta) else beta})
    assert corpus_chrf(*CAT, **options).name == CHRFSettings(**options).name == theirs.name == name


def test_a_signature_without_sentences_has_question_marks() -> None:
    expected = "nrefs:?|case:lc|eff:no|nc:6|nw:2|space:yes|version:"
    options: Any = {"lowercase": True, "eps_smoothing": True, "whitespace": True, "word_order": 2}
    assert corpus_chrf([], [], **options).signature.startswith(expected)
    assert CorpusCHRF(**options).signature.startswith(expected)


def test_a_report_has_the_parts_of_the_score() -> None:
    # 4 of 6 and 5 characters match, 2 of 5 and 4 bigrams, and 1 of 2 and 2 words
    result = corpus_chrf(["axb ceg"], ["axb dc"], char_order=2, word_order=1, percent=True)
    assert (result.matches, result.hypothesis_counts, result.reference_counts) == ((4, 2, 1), (6, 5, 2), (5, 4, 2))
    assert result.precision == pytest.approx(100 * (4 / 6 + 2 / 5 + 1 / 2) / 3)
    assert result.recall == pytest.approx(100 * (4 / 5 + 2 / 4 + 1 / 2) / 3)
    p, r = result.precision, result.recall
    assert float(result) == result.score == pytest.approx(5 * p * r / (4 * p + r))


def test_precision_and_recall_are_those_of_the_orders_that_both_sides_have() -> None:
    result = corpus_chrf(["ab"], ["abcd"], char_order=4)  # 2 of 2 and 4 characters, 1 of 1 and 3 bigrams
    assert [result.precision, result.recall] == pytest.approx([1, (2 / 4 + 1 / 3) / 2])
    nothing = corpus_chrf([""], ["abcd"])
    assert (nothing.precision, nothing.recall, nothing.score) == (0, 0, 0)


def test_a_report_is_printed_as_by_sacrebleu_in_either_unit() -> None:
    theirs, _ = peer_score(*CAT)
    one, hundred = corpus_chrf(*CAT), corpus_chrf(*CAT, percent=True)
    assert str(one) == str(hundred) == theirs.format() == "chrF2 = 78.15"
    for name in ("score", "precision", "recall"):
        assert getattr(hundred, name) == pytest.approx(100 * getattr(one, name), abs=1e-12)
    same = ("matches", "hypothesis_counts", "reference_counts", "name", "signature")
    assert all(getattr(hundred, name) == getattr(one, name) for name in same)


def test_a_report_can_be_saved_as_json() -> None:
    result = corpus_chrf(*CAT, word_order=1)
    values = json.loads(json.dumps(result.to_dict()))
    assert list(values) == list(CHRFScore.__annotations__)
    restored: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    assert CHRFScore(**restored) == result


def test_a_corpus_without_sentences_scores_zero() -> None:
    result = corpus_chrf([], [])
    assert (result.score, result.precision, result.recall, result.matches) == (0, 0, 0, (0,) * 6)


def test_no_sentences_have_no_scores() -> None:
    assert sentence_chrf([], []).shape == (0,)
