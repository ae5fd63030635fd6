"""The result of a score: what is logged, written, and printed of it."""

from __future__ import annotations

import json
from typing import Any

from lightning_bleu import CorpusBLEU, Interval, PairedTest, Result, corpus_bleu
from lightning_bleu.core.significance import Verdict
from lightning_bleu.evaluation.scores.validation import STATISTICS

REPORT = corpus_bleu(["a b c d e"], ["a b c d f"])
INTERVAL = Interval(0.5, 0.4, 0.6, 0.95, ())
TEST = PairedTest(0.5, 0.4, 0.01, 1000, low=0.05, high=0.15, confidence=0.9)
COMPARED = {"difference": 0.5 - 0.4, "difference_low": 0.05, "difference_high": 0.15, "p_value": 0.01}
BETTER = Verdict("better")


def test_a_result_tells_what_is_logged() -> None:
    components = tuple(component for component in CorpusBLEU().scorer.components(REPORT) if component.is_default)
    parts = {component.name: component.value for component in components}
    assert parts["precision_1"] == REPORT.precisions[0]
    bleu = Result(REPORT.bleu, components, REPORT, INTERVAL, TEST, BETTER, best=0.5)
    assert bleu.parts == parts
    assert bleu.statistics() == {"low": 0.4, "high": 0.6, **COMPARED, "best": 0.5}
    assert bleu.statistics().keys() == STATISTICS.keys()
    # A loader of several has no score of the other validation.
    assert Result(0.5, comparison=TEST).statistics() == COMPARED
    assert Result(0.5).statistics() == {}


def test_a_result_tells_what_is_written() -> None:
    components = tuple(CorpusBLEU().scorer.components(REPORT))
    options: dict[str, Any] = {"best": 0.5, "higher_is_better": True, "percent": False}
    bleu = Result(REPORT.bleu, components, REPORT, INTERVAL, TEST, BETTER, **options)
    written = bleu.to_dict()
    assert json.loads(json.dumps(written)) == written
    assert written == {
        "higher_is_better": True,
        "percent": False,
        "score": REPORT.bleu,
        "parts": bleu.parts,
        "counts": REPORT.counts(),
        "interval": {"low": 0.4, "high": 0.6, "confidence": 0.95},
        "comparison": {
            "with": "best before",
            "score": 0.4,
            "difference": 0.5 - 0.4,
            "interval": {"low": 0.05, "high": 0.15, "confidence": 0.9},
            "p_value": 0.01,
            "verdict": "better",
            "best": 0.5,
        },
        "signature": REPORT.signature,
    }
    assert written["counts"]["matches"] == list(REPORT.matches)
    of_loader = Result(0.5, comparison=TEST).to_dict()["comparison"]
    assert (of_loader["best"], of_loader["verdict"]) == (None, None)
    nothing_known = dict.fromkeys(["higher_is_better", "percent", "interval", "comparison", "signature"])
    assert Result(0.5).to_dict() == {"score": 0.5, "parts": {}, "counts": {}} | nothing_known


def test_a_table_says_what_a_score_is_compared_with() -> None:
    assert "against the best before (90% interval)" in str(Result(0.5, comparison=TEST))
