"""chrF from statistics beside sacreBLEU's, to the last bit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lightning_bleu import CorpusCHRF, __version__, corpus_chrf, sentence_chrf
from lightning_bleu.chrf import CHRFScorer, CHRFSettings, chrf_rows, f_score
from lightning_bleu.core.batch import read_batch
from tests.helpers.chrf import Groups, chrf_options, corpora, peer_rows, peer_score
from tests.helpers.corpora import read_systems
from tests.helpers.systems import pick

pytestmark = pytest.mark.filterwarnings(
    "ignore:Every reference in 'target' is a single", "ignore:Most hypotheses contain"
)

COUNTS = st.integers(0, 4) | st.integers(0, 3_000) | st.integers(2**31, 2**45)


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
@settings(max_examples=100)
def test_statistics_score_as_in_sacrebleu(options: dict[str, Any], data: st.DataObject) -> None:
    rows = data.draw(st.lists(statistics(options["char_order"] + options["word_order"]), min_size=1, max_size=4))
    settings, peer = CHRFSettings.from_options(**options), CHRF(**options)
    expected = [peer._compute_f_score(row) for row in rows]
    assert f_score(torch.tensor(rows), settings).tolist() == expected
    assert f_score(torch.tensor([rows, rows[::-1]]).double(), settings).tolist() == [expected, expected[::-1]]
    assert CHRFScorer(settings).score(torch.tensor(rows)).tolist() == [score / 100 for score in expected]


@given(corpora, chrf_options(), st.randoms(use_true_random=False))
@example([("", [""]), ("", ["a", ""])], {"char_order": 2, "word_order": 1, "eps_smoothing": True}, Random(0))
@example([("b", ["a", ""]), ("", ["a", ""])], {"char_order": 1, "beta": 0, "eps_smoothing": True}, Random(0))
@example([("", ["a b", ""]), ("a b.", ["", " \u3000"])], {"char_order": 2, "word_order": 2}, Random(0))
@example([("İ ΑΣ\ud83d", ["i̇ ας\ud83d\ude00", "😀 i"])], {"word_order": 2, "lowercase": True}, Random(0))
@example([("\ud83d\ude00", ["😀"])], {"whitespace": True}, Random(0))
@example([("@@", [""]), ("@@", [""])], {"char_order": 1}, Random(0))  # looks like subwords
@example([("Straße", ["STRASSE", "straße"])], {"word_order": 1, "lowercase": True}, Random(0))
@settings(max_examples=60)
def test_sentences_and_corpora_score_as_in_sacrebleu_whatever_the_batches(
    sentences: list[tuple[str, list[str]]], options: dict[str, Any], rng: Random
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
    metric = CorpusCHRF(percent=True, **options)
    positions = rng.sample(range(len(preds)), len(preds))
    cuts = sorted([0, rng.randint(0, len(preds)), rng.randint(0, len(preds)), len(preds)])
    for start, stop in pairwise(cuts):
        batch = positions[start:stop]
        metric.update(pick(preds, batch), pick(target, batch))
    assert (metric.report(), metric.compute().item()) == (ours, ours.score)


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


# Names, signatures, reports


def test_without_sentences_a_signature_has_question_marks_and_a_name_says_beta() -> None:
    expected = "nrefs:?|case:lc|eff:no|nc:6|nw:2|space:yes|version:"
    options: Any = {"lowercase": True, "eps_smoothing": True, "whitespace": True, "word_order": 2}
    assert corpus_chrf([], [], **options).signature.startswith(expected)
    assert CorpusCHRF(**options).signature.startswith(expected)
    assert corpus_chrf([], [], beta=3.0).name == "chrF3"


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


# Real text


def test_more_precision_and_more_recall_are_better() -> None:
    report = corpus_chrf(["abcx"], ["abcdef"], char_order=1, percent=True)
    components = CHRFScorer(CHRFSettings.from_options(char_order=1, percent=True)).components(report)
    found = [(component.name, component.value, component.higher_is_better, component.unit) for component in components]
    assert found == [("precision", 75, True, 100), ("recall", 50, True, 100)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "whole"),
    [
        ("en-ja", False),
        *(pytest.param(pair, True, marks=pytest.mark.long) for pair in ("en-cs", "en-zh")),
    ],
)
def test_every_system_of_wmt22_scores_as_in_sacrebleu(pair: str, whole: bool, wmt22: Path) -> None:
    for preds, streams in read_systems(wmt22, pair, whole):
        for some, peer in ((streams, CHRF(word_order=2)), (streams[:1], CHRF())):
            ours = corpus_chrf(preds, [*zip(*some)], word_order=peer.word_order)
            rows = peer._extract_corpus_statistics(preds, some)
            theirs = peer._aggregate_and_compute(rows)
            assert (ours.score, str(ours)) == (theirs.score / 100, theirs.format())
            assert [*ours.hypothesis_counts, *ours.reference_counts, *ours.matches] == [
                sum(row[column] for row in rows) for start in range(3) for column in range(start, len(rows[0]), 3)
            ]
