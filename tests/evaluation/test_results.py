"""The result of a score: what is logged, written, and printed of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lightning_bleu import CorpusBLEU, Interval, PairedTest, Result, corpus_bleu
from lightning_bleu.core.verdict import Verdict
from lightning_bleu.evaluation.result import OPPONENTS, STATISTICS, OpponentKind

REPORT = corpus_bleu(["a b c d e"], ["a b c d f"])
INTERVAL = Interval(0.5, 0.4, 0.6, 0.95, ())
TEST = PairedTest("paired bootstrap", 0.5, 0.4, 0.01, 1000, low=0.05, high=0.15, confidence=0.9)
COMPARED = {"difference": 0.5 - 0.4, "difference_low": 0.05, "difference_high": 0.15, "p_value": 0.01}
BETTER = Verdict("better")


def test_a_result_tells_what_is_logged() -> None:
    components = tuple(component for component in CorpusBLEU().scorer.components(REPORT) if component.is_default)
    parts = {component.name: component.value for component in components}
    assert parts["precision_1"] == REPORT.precisions[0]
    bleu = Result(REPORT.bleu, components, REPORT, INTERVAL, TEST, BETTER, compared_with="best", opponent_score=0.5)
    assert bleu.parts == parts
    statistics = {"low": 0.4, "high": 0.6, **COMPARED, "best": 0.5}
    assert bleu.statistics() == statistics
    assert bleu.values() == {"": REPORT.bleu} | parts | statistics
    assert [*bleu.values()] == ["", *parts, *statistics]
    # A group, and a loader of several, have no score of the other validation.
    assert Result(0.5, comparison=TEST, compared_with="best").values() == {"": 0.5} | COMPARED
    assert Result(0.5).values() == {"": 0.5}


@pytest.mark.parametrize("kind", OPPONENTS)
def test_the_score_that_is_compared_with_is_logged_under_its_name_and_under_no_other(kind: OpponentKind) -> None:
    result = Result(0.5, comparison=TEST, compared_with=kind, opponent_score=0.4)
    assert result.values() == {"": 0.5} | COMPARED | {kind: 0.4}
    assert {name: getattr(result, name) for name in OPPONENTS} == dict.fromkeys(OPPONENTS) | {kind: 0.4}
    assert result.to_dict()["comparison"].items() >= {"with": kind, kind: 0.4}.items()
    assert result.to_dict()["comparison"].keys().isdisjoint(OPPONENTS.keys() - {kind})
    assert f"{kind}=0.4000" in repr(result)


def test_a_result_tells_what_is_written() -> None:
    components = tuple(CorpusBLEU().scorer.components(REPORT))
    bleu = Result(
        REPORT.bleu,
        components,
        REPORT,
        INTERVAL,
        TEST,
        BETTER,
        compared_with="best",
        opponent_score=0.5,
        higher_is_better=True,
        percent=False,
    )
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
            "with": "best",
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
    of_group = Result(0.5, comparison=TEST, compared_with="first").to_dict()["comparison"]
    assert (of_group["with"], of_group["first"], of_group["verdict"]) == ("first", None, None)
    nothing_known = dict.fromkeys(["higher_is_better", "percent", "interval", "comparison", "signature"])
    assert Result(0.5).to_dict() == {"score": 0.5, "parts": {}, "counts": {}} | nothing_known


@pytest.mark.parametrize("kind", OPPONENTS)
def test_every_statistic_that_is_logged_is_recorded(kind: OpponentKind) -> None:
    test = PairedTest("paired bootstrap", 0.5, 0.25, 0.03, 1000, low=0.1, high=0.4, confidence=0.9)
    interval = Interval(0.5, 0.45, 0.55, 0.9, ())
    result = Result(0.5, interval=interval, comparison=test, compared_with=kind, opponent_score=0.6)
    recorded = json.dumps(result.to_dict())
    assert result.statistics().keys() == STATISTICS.keys() - (OPPONENTS.keys() - {kind})
    for value in result.statistics().values():
        assert json.dumps(value) in recorded


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"percent": False}, "against the best (90% interval)"),
        ({"percent": True, "compared_with": "first"}, "against the first (90% interval)"),
        ({"percent": None, "compared_with": "clear_best"}, "against the clear best (90% interval)"),
    ],
)
def test_a_table_says_what_a_score_is_compared_with(options: dict[str, Any], shown: str) -> None:
    assert shown in str(Result(0.5, comparison=TEST, **{"compared_with": "best"} | options))
