"""How certain the scores of a validation are: their resamples, which depend on the names of loaders and groups only."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Interval, paired_bootstrap
from lightning_bleu.evaluation.names import Name
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import SentenceRows
from lightning_bleu.evaluation.uncertainty import add_intervals, resample, resample_scored
from lightning_bleu.tasks import WER
from tests.helpers.callback_metrics import corpus_of, errors
from tests.helpers.process_groups import ProcessPool
from tests.helpers.resampling import draw_resamples
from tests.helpers.systems import DEFAULTS, TARGET, A, B, make_metric, pick
from tests.helpers.validations import Counting, count, score

SIZE = 40
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


def find_interval_alone(metric: Any, numbers: Sequence[int], seed: int, loader: int = 0) -> Interval:
    """The interval of a metric that has counted these sentences."""
    hypotheses, references, _ = corpus_of(range(SIZE), loader)
    metric.update(pick(hypotheses, numbers), pick(references, numbers))
    interval: Interval = metric.interval(0.9, seed=seed)
    return interval


# Seeds


def test_the_seed_of_a_loader_without_a_name_is_0_and_that_of_another_one_comes_from_its_name() -> None:
    alone = find_intervals(score_loaders({"": None}))
    several = find_intervals(score_loaders({"news": None, "talks": None}))
    makes: dict[str, Any] = {
        "bleu": lambda: CorpusBLEU(percent=True, keep_sentences=True),
        "chrf": lambda: CorpusCHRF(keep_sentences=True),
    }
    for name, make in makes.items():
        everything = range(SIZE)
        assert alone[Name(name)] == find_interval_alone(make(), everything, 0)
        for number, loader in enumerate(("news", "talks")):
            seed = zlib.crc32(loader.encode())
            assert several[Name(name, loader)] == find_interval_alone(make(), everything, seed, number)


def test_the_seed_of_a_group_comes_from_the_names_of_its_loader_and_its_label() -> None:
    labels = ["de", "fr", "fr", "zh/x"] * 10
    for loader in ("", "news"):
        intervals = find_intervals(score_loaders({loader: labels}))
        for label in ("de", "fr", "zh/x"):
            numbers = [number for number in range(SIZE) if labels[number] == label]
            seed = zlib.crc32((f"{loader}/{label}" if loader else label).encode())
            expected = find_interval_alone(CorpusBLEU(percent=True, keep_sentences=True), numbers, seed)
            assert intervals[Name("bleu", loader, label)] == expected


def test_the_resamples_of_a_function_are_those_of_its_numbers() -> None:
    """In plain code."""
    intervals = find_intervals(score_loaders({"news": ["a", "b"] * 20}, {"f": errors}))
    hypotheses, references, _ = corpus_of(range(SIZE))
    values = np.array(errors(hypotheses, references))
    for group, chosen in {"": values, "a": values[::2], "b": values[1::2]}.items():
        seed = zlib.crc32(f"news/{group}".rstrip("/").encode())
        means = chosen[draw_resamples(1000, len(chosen), seed)].mean(1)
        interval = intervals[Name("f", "news", group)]
        assert interval.scores == pytest.approx(means)
        assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))


def test_another_group_loader_or_metric_moves_no_interval() -> None:
    labels = ["de"] * 10 + ["fr"] * 20
    before = find_intervals(score_loaders({"news": [*labels, *["fr"] * 10]}))
    after = find_intervals(score_loaders({"news": [*labels, *["new"] * 10]}))
    assert after.keys() - before.keys() == {Name(name, "news", "new") for name in ("bleu", "chrf", "f")}
    for name, interval in before.items():
        assert (after[name] == interval) is (name.group != "fr")  # the group that has lost sentences
    with_another = find_intervals(score_loaders({"news": [*labels, *["fr"] * 10], "talks": None}))
    for name, interval in before.items():
        assert (with_another[name] == interval) is (name.loader != "")  # the mean of loaders
    alone = find_intervals(score_loaders({"news": [*labels, *["fr"] * 10]}, {"chrf": CorpusCHRF()}))
    assert alone == {name: interval for name, interval in before.items() if name.metric == "chrf"}


def test_a_group_that_has_all_sentences_of_its_loader_takes_its_interval() -> None:
    """That of its own name would be another one."""
    (loader, other) = (find_intervals(score_loaders({name: ["de"] * SIZE})) for name in ("news", ""))
    for intervals, name in ((loader, "news"), (other, "")):
        for metric in ("bleu", "chrf", "f"):
            assert intervals[Name(metric, name, "de")] == intervals[Name(metric, name)]
    seed = zlib.crc32(b"news/de")
    of_group = find_interval_alone(CorpusBLEU(percent=True, keep_sentences=True), range(SIZE), seed)
    assert of_group != loader[Name("bleu", "news", "de")]
    # One sentence more, and each has its own.
    several = find_intervals(score_loaders({"news": [*["de"] * (SIZE - 1), "fr"]}))
    assert several[Name("bleu", "news", "de")] != several[Name("bleu", "news")] == loader[Name("bleu", "news")]


def test_nothing_is_drawn_for_a_group_that_has_all_sentences() -> None:
    scored = score_loaders({"news": ["de"] * SIZE}, {"bleu": CorpusBLEU()})
    systems = {one.name: [one.rows] for one in scored if one.rows is not None}
    resampled = resample_scored(scored, systems, 50)
    assert resampled[Name("bleu", "news", "de")].scores is resampled[Name("bleu", "news")].scores


# Intervals


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    perfect = 100 if percent else 1
    counting = count(Counting(CorpusBLEU(percent=percent)), A[:1], A[:1], group=["de"])
    expected = Interval(perfect, perfect, perfect, 0.9, (perfect,) * 1000, percent)
    assert find_intervals(score(counting).scored) == dict.fromkeys([Name("bleu"), Name("bleu", group="de")], expected)


def test_a_mean_of_loaders_has_the_interval_of_the_mean_of_resamples_and_that_of_groups_has_none() -> None:
    scored = score_loaders({"news": ["de", "fr"] * 20, "talks": None, "chats": None})
    intervals = find_intervals(scored)
    assert not [name for name in intervals if name.group == "mean" or name.metric == "ter"]
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


def rows_of(*systems: list[str], references: list[str] = TARGET) -> list[SentenceRows]:
    """The rows of systems that translate the same sentences."""
    rows = []
    for hypotheses in systems:
        (scored,) = score(count(Counting(CorpusBLEU(**DEFAULTS)), hypotheses, references)).scored
        assert scored.rows is not None
        rows.append(scored.rows)
    return rows


def test_several_systems_have_the_same_resamples_and_each_is_tested_against_the_first() -> None:
    resampled = resample({Name("bleu"): rows_of(A, B, A)}, 1000, seed=3)[Name("bleu")]
    assert resampled.sentence_count == 4
    assert resampled.scores.shape == (3, 1001)
    assert torch.equal(resampled.scores[0], resampled.scores[2])
    first, *others = map(make_metric, (A, B, A))
    expected = [paired_bootstrap(other, first, seed=3, confidence=0.8) for other in others]
    assert resampled.test_against_first(0.8) == expected
    assert expected[0].difference != 0


def test_a_single_sentence_says_nothing_about_chance() -> None:
    systems = rows_of(["a b c d x"], ["a b c d e"], references=["a b c d e"])
    (test,) = resample({Name("bleu"): systems}, 1000)[Name("bleu")].test_against_first(0.9)
    assert test.difference > 0
    assert test.low == test.high == test.difference
    assert test.p_value == 1


# Processes


def find_in_process(rank: int, processes: int) -> list[tuple[Name, tuple[float, ...]]]:
    """The resamples of scores; process 1 of several has half of the sentences."""
    counting = Counting({"bleu": CorpusBLEU(), "f": errors}, ["news", "talks"])
    for number in range(2):
        hypotheses, references, _ = corpus_of(range(SIZE), number)
        share = range(rank, SIZE, processes)
        labels = pick(["de", "fr", "fr", "zh"] * 10, share)
        count(
            counting, pick(hypotheses, share), pick(references, share), dataloader_idx=number, index=share, group=labels
        )
    return [(name, interval.scores) for name, interval in find_intervals(score(counting).scored).items()]


@pytest.mark.slow
def test_each_process_computes_a_share_of_the_resamples_of_one(pool: ProcessPool) -> None:
    expected = find_in_process(0, 1)
    assert len(expected) == 18
    for processes in (2, 3):
        outcomes = pool.run(processes, find_in_process)
        assert all(outcome == outcomes[0] for outcome in outcomes)
        assert [name for name, _ in outcomes[0]] == [name for name, _ in expected]
        for (name, scores), (_, scores_alone) in zip(outcomes[0], expected):
            assert scores == (scores_alone if name.metric == "bleu" else pytest.approx(scores_alone))
