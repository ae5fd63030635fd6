"""The positions of sentences in their dataset: ``update(..., index=...)``. Several processes: test_distributed.py."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, corpus_bleu
from tests.helpers.corpora import random_corpus
from tests.helpers.process_groups import group_of_one
from tests.helpers.systems import pick

TARGET = [["a", "b", "c", "d", "e"], ["f", "g"], ["h", "i", "j", "k"], ["l"], ["a", "a", "b"]]
PREDS = [["a", "b", "c", "d", "x"], ["f", "g"], ["h", "j", "i", "k"], ["l", "m"], []]
MIXED = "some sentences have an 'index' and others have none: pass it with every batch, or with none"
DIFFERENT = "different sentences have the same 'index' 0: their references differ"


def count(*batches: list[int], **options: Any) -> CorpusBLEU:
    """A metric that has counted sentences at some positions, batch by batch."""
    metric = CorpusBLEU(**{"keep_sentences": True} | options)
    for positions in batches:
        metric.update(pick(PREDS, positions), pick(TARGET, positions), index=positions)
    return metric


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=5))
def test_every_position_counts_once_and_all_are_in_order(batches: list[list[int]]) -> None:
    positions = sorted({position for batch in batches for position in batch})
    metric = count(*batches)
    expected = CorpusBLEU(keep_sentences=True)
    expected.update(pick(PREDS, positions), pick(TARGET, positions))
    assert torch.equal(metric.sentence_statistics, expected.sentence_statistics)
    assert torch.equal(metric.statistics, expected.statistics)
    assert metric.kept_sentences().positions.tolist() == positions
    assert metric.input_counts == expected.input_counts
    assert metric.report() == expected.report() == corpus_bleu(pick(PREDS, positions), pick(TARGET, positions))


def test_positions_may_have_gaps() -> None:
    metric = CorpusBLEU(keep_sentences=True)
    metric.update(PREDS, TARGET, index=[2**40, 5, 90, 7, 6])
    assert torch.equal(metric.sentence_statistics, count([1, 4, 3, 2, 0]).sentence_statistics[[1, 4, 3, 2, 0]])


def test_of_repeats_the_first_one_counts() -> None:
    metric = CorpusBLEU(max_order=1, keep_sentences=True)
    metric.update(["a b"], ["a b"], index=[3])
    metric.update(["x", "a"], ["y", "a b"], index=[2, 3])
    # one match less, and shorter, if the second one counted
    assert metric.sentence_statistics.tolist() == [[0, 1, 1, 1], [2, 2, 2, 2]]


def test_a_masked_sentence_does_not_take_its_position() -> None:
    """As the repeats with which a sampler evens out processes."""
    metric = CorpusBLEU(max_order=1, keep_sentences=True)
    metric.update(["x", "y"], ["a b", "c"], [False, True], index=[0, 1])
    metric.update(["a b"], ["a b"], index=[0])
    assert metric.sentence_statistics.tolist() == [[2, 2, 2, 2], [0, 1, 1, 1]]


def test_the_positions_in_each_batch_are_an_error() -> None:
    metric = CorpusBLEU(keep_sentences=True)
    for preds, target in ((PREDS[:2], TARGET[:2]), (PREDS[2:4], TARGET[2:4])):
        metric.update(preds, target, index=torch.arange(len(preds)))
    reads: list[Any] = [metric.compute, metric.report, metric.interval, lambda: metric.sentence_statistics]
    for read in [*reads, metric.kept_sentences, lambda: metric.statistics, lambda: metric.signature]:
        with pytest.raises(ValueError, match=f"{DIFFERENT}. An index is the position of a sentence in its dataset"):
            read()


def test_two_datasets_in_one_metric_are_an_error() -> None:
    metric = count([0, 1, 2])
    metric.update(["another", "set"], ["other", "set"], index=[0, 1])
    with pytest.raises(ValueError, match=f"{DIFFERENT}.* a metric takes a single dataset"):
        metric.compute()
    metric.reset()
    metric.update(["another", "set"], ["other", "set"], index=[0, 1])
    assert metric.report() == corpus_bleu(["another", "set"], ["other", "set"])


@pytest.mark.parametrize(
    "index", [np.array([4, 2]), torch.tensor([4, 2], dtype=torch.uint8), torch.tensor([4, 2]), (4, 2), [np.int64(4), 2]]
)
def test_positions_may_be_integers_of_any_type(index: Any) -> None:
    metric = CorpusBLEU(keep_sentences=True)
    metric.update(["a", "b"], ["a", "b"], index=index)
    assert metric.kept_sentences().positions.tolist() == [2, 4]


def test_positions_may_change_after_an_update() -> None:
    metric, index = CorpusBLEU(keep_sentences=True), torch.tensor([4, 2])
    metric.update(["a", "b"], ["a", "b"], index=index)
    index.zero_()
    assert metric.kept_sentences().positions.tolist() == [2, 4]


def test_an_empty_batch_may_have_positions() -> None:
    metric = count([1], [])
    metric.update([], [], index=torch.tensor([]))
    metric.update([], [])
    assert metric.kept_sentences().positions.tolist() == [1]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    ([0], ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(1,\)"),
    ([0, 1, 2], ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(3,\)"),
    ([[0, 1]], TypeError, r"'index' must hold integers, .* got \['list'\]"),
    (torch.tensor([[0, 1]]), ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(1, 2\)"),
    (0, ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(\)"),
    ([3, -1], ValueError, r"'index' must hold positions .*, from 0 and below 2\*\*63, got -1"),
    (np.array([3, 2**63], np.uint64), ValueError, r"below 2\*\*63, got 9223372036854775808"),
    ([0, 2**63], ValueError, r"below 2\*\*63, got 9223372036854775808"),
    ([0.0, 1.0], TypeError, r"'index' must hold integers, .* got \['float'\]"),
    (torch.tensor([0.0, 1.0]), TypeError, "'index' must hold integers, .* got torch.float32"),
    ([True, False], TypeError, r"'index' must hold integers, .* got \['bool'\]"),
    (["0", "1"], TypeError, "'index' must hold integers"),
    ([0, 2**70], ValueError, r"below 2\*\*63, got 1180591620717411303424"),
    (torch.tensor([True, False]), TypeError, "'index' must hold integers, .* got torch.bool"),
]


@pytest.mark.parametrize(("index", "error", "message"), ERRORS)
def test_an_error_says_what_is_wrong_with_positions_and_changes_nothing(
    index: Any, error: type[Exception], message: str
) -> None:
    metric = count([3, 4])
    before, last_batch = metric.sentence_statistics, metric.last_batch
    for call in (metric.update, metric):
        with pytest.raises(error, match=message):
            call(["a", "b"], ["a", "b"], index=index)
        assert torch.equal(metric.sentence_statistics, before)
        assert metric.last_batch is last_batch
        assert metric.update_count == 1


def test_positions_require_a_metric_that_keeps_sentences() -> None:
    metric = CorpusBLEU()
    for call in (metric.update, metric):
        with pytest.raises(ValueError, match=r"requires a metric that keeps sentences: CorpusBLEU\(keep_sentences=Tr"):
            call(["a"], ["a"], index=[0])
    assert metric.update_count == 0


# All batches have positions, or none


@pytest.mark.parametrize("name", ["update", "forward"])
@pytest.mark.parametrize("first", [[0], None], ids=["first", "second"])
def test_positions_in_only_one_of_two_batches_are_an_error_that_changes_nothing(
    first: list[int] | None, name: str
) -> None:
    metric = CorpusBLEU(keep_sentences=True)
    metric.update(["a b"], ["a c"], index=first)
    expected, last_batch, statistics = metric.compute(), metric.last_batch, metric.batch_statistics
    with pytest.raises(ValueError, match=MIXED):
        getattr(metric, name)(["c"], ["c"], index=[1] if first is None else None)
    assert metric.update_count == 1
    assert metric.last_batch is last_batch
    assert metric.batch_statistics is statistics
    assert metric._computed == expected
    assert len(metric.sentence_statistics) == 1


def test_after_a_reset_batches_may_have_positions_or_none() -> None:
    metric = count([3, 4])
    metric.reset()
    metric.update(PREDS, TARGET)
    assert metric.report() == corpus_bleu(PREDS, TARGET)


def test_metrics_with_and_without_positions_cannot_be_merged() -> None:
    having, without = count([0, 1]), CorpusBLEU(keep_sentences=True)
    without.update(PREDS[2:], TARGET[2:])
    for one, other in ((having, without), (without, having)):
        for incoming in (other, other.metric_state):
            before = one.sentence_statistics
            with pytest.raises(ValueError, match=MIXED):
                one.merge_state(incoming)
            assert torch.equal(one.sentence_statistics, before)


def test_merged_metrics_count_every_position_once_and_the_first_one_counts() -> None:
    metric = count([0, 3, 1])
    metric.merge_state(count([3, 4, 2, 0]))
    assert torch.equal(metric.sentence_statistics, count([0, 1, 2, 3, 4]).sentence_statistics)
    worse = CorpusBLEU(keep_sentences=True)
    worse.update(["x"], ["a b c d e"], index=[9])
    better = CorpusBLEU(keep_sentences=True)
    better.update(["a b c d e"], ["a b c d e"], index=[9])
    worse.merge_state(better)
    assert worse.compute() == 0


# Elsewhere


def test_forward_scores_a_batch_alone_even_if_it_repeats_positions() -> None:
    metric = count([0, 1, 2])
    positions = [2, 3, 0]
    value = metric(pick(PREDS, positions), pick(TARGET, positions), index=positions)
    assert value == corpus_bleu(pick(PREDS, positions), pick(TARGET, positions)).bleu
    assert torch.equal(metric.sentence_statistics, count([0, 1, 2, 3]).sentence_statistics)


def test_a_synced_metric_is_in_the_order_of_positions() -> None:
    metric = count([4, 0], [2, 4])
    with group_of_one():
        assert metric.kept_sentences().positions.tolist() == [0, 2, 4]
        with metric.sync_context():
            assert metric.kept_sentences().positions.tolist() == [0, 2, 4]
            assert torch.equal(metric.statistics, count([0, 2, 4]).statistics)


def test_a_saved_state_has_positions() -> None:
    metric, restored = count([4, 0], [2]), CorpusBLEU(keep_sentences=True)
    for one in (metric, restored):
        one.persistent(True)
    restored.load_state_dict(metric.state_dict())
    assert restored.kept_sentences().positions.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match=MIXED):
        restored.update(["a"], ["a"])
    restored.update(pick(PREDS, [1, 2]), pick(TARGET, [1, 2]), index=[1, 2])
    assert torch.equal(restored.sentence_statistics, count([0, 1, 2, 4]).sentence_statistics)


def test_the_order_of_batches_does_not_change_an_interval(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 30)
    one, other = CorpusBLEU(keep_sentences=True), CorpusBLEU(keep_sentences=True)
    order = rng.sample(range(30), 30)
    one.update(preds, target, index=range(30))
    for start in range(0, 30, 4):
        batch = order[start : start + 4]
        other.update(pick(preds, batch), pick(target, batch), index=batch)
    assert one.interval(0.9, 200) == other.interval(0.9, 200)
