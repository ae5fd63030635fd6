"""How certain the scores of a validation are: their resamples, which depend on the names of loaders only."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Interval
from lightning_bleu.evaluation.names import Name
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.scores.uncertainty import add_intervals, resample
from lightning_bleu.evaluation.scores.validation import Scored
from lightning_bleu.tasks import WER
from tests.helpers.callback_metrics import corpus_of, errors
from tests.helpers.resampling import draw_resamples
from tests.helpers.systems import TARGET, A, B
from tests.helpers.validations import Counting, bootstrap, count, find_interval, rows_of, score

SIZE = 40
BLEU = CorpusBLEU(smoothing="exp")
METRICS: dict[str, Any] = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(), "f": errors, "ter": TER()}


def score_loaders(loaders: dict[str, Any], metrics: Any = None, epoch: int = 0) -> list[Scored]:
    """The scores of loaders of 40 sentences with these labels, without intervals."""
    counting = Counting(METRICS if metrics is None else metrics, [*loaders])
    for number, labels in enumerate(loaders.values()):
        hypotheses, references, _ = corpus_of(range(SIZE), number + epoch)
        count(counting, hypotheses, references, dataloader_idx=number, group=labels)
    return [*score(counting).scored]


def find_intervals(scored: Sequence[Scored], confidence: float = 0.9) -> dict[Name, Interval]:
    """The intervals of the scores that have one."""
    with_intervals = add_intervals(scored, confidence)
    assert [one.name for one in with_intervals] == [one.name for one in scored]
    intervals = {}
    for one in with_intervals:
        if one.result.interval is not None:
            assert one.result.interval.score == one.result.score
            intervals[one.name] = one.result.interval
    return intervals


# Seeds


def test_the_seed_of_a_loader_without_a_name_is_0_and_that_of_another_one_comes_from_its_name() -> None:
    alone = find_intervals(score_loaders({"": None}))
    several = find_intervals(score_loaders({"news": None, "talks": None}))
    for name in ("bleu", "chrf"):
        for number, (intervals, loader) in enumerate([(alone, ""), (several, "news"), (several, "talks")]):
            hypotheses, references, _ = corpus_of(range(SIZE), max(0, number - 1))
            rows = rows_of(METRICS[name], hypotheses, references)
            expected = find_interval(METRICS[name], rows, 0.9, seed=zlib.crc32(loader.encode()))
            assert intervals[Name(name, loader)] == expected


def test_the_resamples_of_a_function_are_those_of_its_numbers() -> None:
    """In plain code."""
    interval = find_intervals(score_loaders({"news": None}, {"f": errors}))[Name("f", "news")]
    hypotheses, references, _ = corpus_of(range(SIZE))
    values = np.array(errors(hypotheses, references))
    means = values[draw_resamples(1000, len(values), zlib.crc32(b"news"))].mean(1)
    assert interval.scores == pytest.approx(means)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))


def test_another_loader_or_metric_and_groups_move_no_interval() -> None:
    before = find_intervals(score_loaders({"news": None}))
    with_groups = find_intervals(score_loaders({"news": ["de", "fr"] * 20}))
    assert with_groups == before  # groups have none
    with_another = find_intervals(score_loaders({"news": None, "talks": None}))
    for name, interval in before.items():
        assert (with_another[name] == interval) is (name.loader != "")  # the mean of loaders
    alone = find_intervals(score_loaders({"news": None}, {"chrf": CorpusCHRF()}))
    assert alone == {name: interval for name, interval in before.items() if name.metric == "chrf"}


# Intervals


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    perfect = 100 if percent else 1
    counting = count(Counting(CorpusBLEU(percent=percent)), A[:1], A[:1])
    expected = Interval(perfect, perfect, perfect, 0.9, (perfect,) * 1000, percent)
    assert find_intervals(score(counting).scored) == {Name("bleu"): expected}


def test_a_mean_of_loaders_has_the_interval_of_the_mean_of_resamples() -> None:
    intervals = find_intervals(score_loaders({"news": None, "talks": None, "chats": None}))
    for metric in ("bleu", "chrf", "f"):
        members = [intervals[Name(metric, loader)].scores for loader in ("news", "talks", "chats")]
        means = np.mean(members, 0)
        interval = intervals[Name(metric)]
        assert interval.scores == pytest.approx(means)
        assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))


def test_a_loader_without_a_denominator_has_no_score_and_the_mean_is_that_of_the_others() -> None:
    counting = Counting(WER(), ["news", "talks"])
    count(counting, ["a b", "c"], ["a c", "c"])
    count(counting, ["a"], [""], dataloader_idx=1)  # 1/0
    with pytest.warns(UserWarning, match="^'wer' of 'talks' is a ratio whose denominator is 0"):
        scored = score(counting).scored
    assert {one.name: one.result.score for one in scored} == {Name("wer", "news"): 1 / 3, Name("wer"): 1 / 3}
    assert find_intervals(scored).keys() == {Name("wer", "news"), Name("wer")}


def test_resamples_without_a_denominator_are_left_out() -> None:
    """Of these two sentences, a quarter of the resamples has no word."""
    counting = count(Counting(WER()), ["a b", "x"], ["", "y z"])  # 2/0 and 2/2
    interval = find_intervals(score(counting).scored)[Name("wer")]
    assert set(interval.scores) == {1.0, 2.0}  # of the second twice, and of both
    assert 650 < len(interval.scores) < 850
    assert (interval.low, interval.high) == (1.0, 2.0)


def test_without_rows_nothing_is_resampled() -> None:
    scored = score_loaders({"": None}, {"ter": TER()})
    assert find_intervals(scored) == {}
    assert resample({}, 10) == {}


# Systems


def score_systems(*systems: list[str], references: list[str] = TARGET) -> list[SentenceRows]:
    """The rows of systems that translate the same sentences."""
    rows = []
    for hypotheses in systems:
        (scored,) = score(count(Counting(BLEU), hypotheses, references)).scored
        assert scored.rows is not None
        rows.append(scored.rows)
    return rows


def test_several_systems_have_the_same_resamples_and_each_is_tested_against_the_first() -> None:
    resampled = resample({Name("bleu"): score_systems(A, B, A)}, 1000, seed=3)[Name("bleu")]
    assert resampled.sentence_count == 4
    assert resampled.scores.shape == (3, 1001)
    assert torch.equal(resampled.scores[0], resampled.scores[2])
    first, *others = (rows_of(BLEU, hypotheses, TARGET) for hypotheses in (A, B, A))
    expected = [bootstrap(BLEU, other, first, 0.8, seed=3) for other in others]
    assert resampled.test_against_first(0.8) == expected
    assert expected[0].difference != 0


def test_a_single_sentence_says_nothing_about_chance() -> None:
    systems = score_systems(["a b c d x"], ["a b c d e"], references=["a b c d e"])
    (test,) = resample({Name("bleu"): systems}, 1000)[Name("bleu")].test_against_first(0.9)
    assert test.difference > 0
    assert test.low == test.high == test.difference
    assert test.p_value == 1
