"""What objects show of themselves in a prompt: one line of at most 120 characters."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lightning_bleu import (
    BLEUScore,
    CHRFScore,
    CorpusBLEU,
    CorpusCHRF,
    Interval,
    PairedTest,
    Result,
    Results,
    Sample,
    Samples,
)
from lightning_bleu.evaluation.metrics.functions import FunctionScore
from lightning_bleu.views.marks import Line
from tests.helpers.hostile import TEXTS

BLEU = BLEUScore(
    bleu=48.8612,
    precisions=(76.41, 55.71, 42.01, 31.91),
    brevity_penalty=1.0,
    length_ratio=1.025,
    hypothesis_length=40310,
    reference_length=39328,
    matches=(30801, 21320, 15220, 10912),
    possible_matches=(40310, 38273, 36236, 34199),
    signature="nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0|lightning_bleu:0.1.0",
    percent=True,
)
CHRF = CHRFScore(
    score=0.68661,
    precision=0.6912,
    recall=0.68541,
    matches=(7, 6, 5, 4, 3, 2),
    hypothesis_counts=(8, 7, 6, 5, 4, 3),
    reference_counts=(8, 7, 6, 5, 4, 3),
    name="chrF2",
    signature="nrefs:2",
    percent=False,
)
INTERVAL = Interval(48.8612, 47.92, 49.77, 0.95, (48.0, 49.0) * 500, percent=True)
TEST = PairedTest(48.8612, 48.4, 0.1109, 1000, -0.3, 1.2, 0.95, True)
RESULT = Result(48.8612, report=BLEU, interval=INTERVAL, comparison=TEST, best=48.8612, percent=True)
SAMPLE = Sample(825, [Line("Auf belebten Straße", []), Line("b", [])], None, {"bleu": 8.94}, {"bleu": True})


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (BLEU, "BLEUScore(48.86, precisions=76.4/55.7/42.0/31.9, brevity_penalty=1.000, lengths=40310/39328)"),
        (CHRF, "CHRFScore(0.6866, chrF2, precision=0.6912, recall=0.6854)"),
        (FunctionScore(score=0.13871, name="wer", percent=None, signature=None, sums={}), "FunctionScore(0.1387, wer)"),
        (INTERVAL, "Interval(48.86, low=47.92, high=49.77, confidence=0.95)"),
        (TEST, "PairedTest(+0.46, p_value=0.1109, interval=(-0.30, +1.20), scores=48.86/48.40)"),
        (RESULT, "Result(48.86, interval=(47.92, 49.77), difference=+0.46, p_value=0.1109, best=48.86)"),
        (Result(0.5), "Result(0.5000)"),
        (Results({"val_bleu": RESULT, "val_wer": Result(0.13871)}), "Results(val_bleu=48.86, val_wer=0.1387)"),
        (Results(), "Results()"),
        (SAMPLE, "Sample(#825, bleu 8.9, 'Auf belebten Straße')"),
        (Samples("val", [SAMPLE], []), "Samples('val', 1 first, 0 worst)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_is_one_short_line(shown: Any, expected: str) -> None:
    assert repr(shown) == expected
    assert len(expected) <= 120


def extremes() -> list[Any]:
    """Objects with large numbers, many orders, and hostile names."""
    high = 1.2345678e300
    interval = Interval(high, -high, high, 0.95, ())
    test = PairedTest(high, -high, 1e-300, 1000, -high, high, 0.95, None)
    result = Result(high, interval=interval, comparison=test, best=high)
    lines = [[Line(text, []), Line("b", [])] for text in TEXTS]
    names = [text * 3 for text in TEXTS]
    results = [Results({f"val_{name}": result for name in names[number:]}) for number in range(len(names))]
    scores = dict.fromkeys(names, high)
    percent = dict.fromkeys(names)
    preds, target = ["a b c d e f g h i j k l"] * 1000, ["a b c d e f g h i j k x"] * 1000
    long_bleu, long_chrf = CorpusBLEU(max_order=12), CorpusCHRF(word_order=3)
    for metric in (long_bleu, long_chrf):
        metric.update(preds, target)
    return [
        *(interval, test, result, long_bleu.report(), long_chrf.report(), *results),
        *(FunctionScore(score=high, name=name, percent=None, signature=None, sums={}) for name in names),
        *(Sample(10**9, texts, None, scores, percent) for texts in lines),
        *(Samples(name, [], []) for name in names),
    ]


def test_it_is_one_short_line_whatever_the_numbers_and_the_names() -> None:
    for shown in extremes():
        line = repr(shown)
        assert len(line) <= 120, line
        assert not re.search(r"[\x00-\x1f]", line), line
        line.encode()
