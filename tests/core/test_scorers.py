"""Scorers are values: equal if their settings are, hashable, immutable, and without state."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
import torch

from lightning_bleu.core.batch import InputCounts
from lightning_bleu.core.scoring import CorpusScorer, RatioScorer
from tests.helpers.metrics import BLEU, CHRF, Kind


def scorer_of(kind: Kind, **options: Any) -> Any:
    """The scorer of a metric with these options."""
    return kind.metric(**options).scorer


def test_scorers_with_equal_settings_are_equal(kind: Kind) -> None:
    scorer, same = scorer_of(kind), scorer_of(kind)
    assert scorer is not same
    assert scorer == same == type(scorer)(scorer.settings)
    assert len({scorer, same}) == 1
    for options in ({"percent": True}, {"lowercase": True}, {**kind.other_options}):
        assert scorer != scorer_of(kind, **options)


def test_a_scorer_cannot_be_changed(kind: Kind) -> None:
    scorer = scorer_of(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scorer.settings = None


@pytest.mark.parametrize("replicate", [copy.copy, copy.deepcopy, lambda scorer: pickle.loads(pickle.dumps(scorer))])
def test_a_scorer_can_be_copied_and_saved(replicate: Any, kind: Kind) -> None:
    scorer = scorer_of(kind, **kind.other_options)
    twin = replicate(scorer)
    assert (twin, hash(twin), repr(twin)) == (scorer, hash(scorer), repr(scorer))


def test_a_scorer_is_a_metric_of_an_evaluator_with_one_score(kind: Kind) -> None:
    scorer = scorer_of(kind, pad_id=0)
    assert isinstance(scorer, CorpusScorer)
    assert scorer.scorer_of("any name", "") is scorer
    assert scorer.class_name == kind.name
    assert scorer.reading == scorer.settings.for_reading
    assert scorer.plain_settings() == scorer.settings.plain()
    assert (scorer.corpus_level, [*scorer.score_names]) == (False, [""])


def test_what_the_worst_sentences_are_the_worst_by() -> None:
    assert scorer_of(BLEU).order == " for their length, by smoothed BLEU"
    assert scorer_of(CHRF, word_order=2).order == ", by chrF2++"
    assert RatioScorer("wer").order == ", by wer"


def test_a_report_without_inputs_has_a_signature_of_unknowns(kind: Kind) -> None:
    scorer = scorer_of(kind)
    sums = torch.zeros(scorer.columns, dtype=torch.int64)
    assert scorer.report(sums, None) == scorer.report(sums, InputCounts())
    assert scorer.report(sums, None).signature.startswith("nrefs:?|")


# Ratios


@pytest.mark.parametrize(("percent", "unit"), [(None, None), (False, 1), (True, 100)])
@pytest.mark.parametrize(("higher_is_better", "sign"), [(True, 1), (False, -1), (None, 0)])
def test_a_ratio_knows_its_unit_and_its_direction(
    percent: bool | None, unit: float | None, higher_is_better: bool | None, sign: int
) -> None:
    scorer = RatioScorer("f", higher_is_better, percent)
    assert (scorer.unit, scorer.sign, scorer.columns, scorer.perfect) == (unit, sign, 2, None)
    assert RatioScorer("f", higher_is_better, percent, best_ratio=0.5).perfect == 0.5 * (unit or 1)
    assert scorer.score(torch.tensor([3.0, 4.0])) == 0.75 * (unit or 1)
    assert scorer.score(torch.tensor([0.0, 0.0])) == (1 if higher_is_better else 0) * (unit or 1)
    assert [scorer.is_defined(torch.tensor(sums)) for sums in ([0, 0], [0, 1], [1, 0])] == [False, True, False]
    always = RatioScorer("f", higher_is_better, percent, over_zero=0.5)
    assert [always.is_defined(torch.tensor(sums)) for sums in ([0, 0], [0, 1], [1, 0])] == [True] * 3
    assert always.score(torch.tensor([[3, 0], [1, 1]])).tolist() == [0.5 * (unit or 1), unit or 1]


def test_ratios_are_equal_if_all_that_they_depend_on_is() -> None:
    assert RatioScorer("f", settings={"a": 1}) == RatioScorer("f", settings={"a": 1})
    assert RatioScorer("f", settings={"a": 1}) != RatioScorer("f", settings={"a": 2})
    assert RatioScorer("f") != RatioScorer("g")
