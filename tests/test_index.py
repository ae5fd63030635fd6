"""The positions of sentences in their dataset: ``update(..., index=...)``. Several processes: test_distributed.py."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU
from tests.helpers.metrics import KINDS, Kind, check_unchanged_by, contents
from tests.helpers.process_groups import group_of_one
from tests.helpers.systems import pick

TARGET = [["a b c d e", "a b"], ["f g"], ["h i j k", "h i j", "x"], ["l"], ["a a b"]]
PREDS = ["a b c d x", "f g", "h j i k", "l m", ""]
MIXED = "the positions of only some sentences are known: pass an 'index' with every batch, or with none"
DIFFERENT = "different sentences have the same 'index' 0: their references differ. An index is the position"


def count_positions(kind: Kind, *batches: list[int]) -> Any:
    """A metric that has counted sentences at some positions, batch by batch."""
    metric = kind.metric(keep_sentences=True)
    for positions in batches:
        metric.update(pick(PREDS, positions), pick(TARGET, positions), index=positions)
    return metric


@pytest.fixture
def count(kind: Kind) -> Callable[..., Any]:
    return functools.partial(count_positions, kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=5))
def test_every_position_counts_once_and_the_first_time_in_order(kind: Kind, batches: list[list[int]]) -> None:
    metric = kind.metric(keep_sentences=True)
    known: set[int] = set()
    for batch in batches:
        preds = ["wrong" if position in {*known, *batch[:i]} else PREDS[position] for i, position in enumerate(batch)]
        metric.update(preds, pick(TARGET, batch), index=batch)
        known |= {*batch}
    positions = sorted(known)
    corpus = pick(PREDS, positions), pick(TARGET, positions)
    assert metric.kept_sentences().positions.tolist() == positions
    assert metric.sentence_statistics().tolist() == kind.rows(*corpus)
    assert metric.report() == kind.score(*corpus)
    assert metric.input_counts.sentence_count == len(positions)
    assert contents(metric) == contents(count_positions(kind, positions))


def test_the_positions_in_each_batch_or_of_two_datasets_are_an_error(count: Any, kind: Kind) -> None:
    metric = count([0, 1])
    metric.update(PREDS[2:4], TARGET[2:4], index=torch.arange(2))
    reads: list[Any] = [metric.compute, metric.report, metric.interval, metric.sentence_statistics]
    for read in [*reads, metric.kept_sentences, lambda: metric.statistics, lambda: metric.signature]:
        with pytest.raises(ValueError, match=f"{DIFFERENT}.* a metric takes a single dataset"):
            read()
    metric.reset()
    metric.update(PREDS[2:4], TARGET[2:4], index=[0, 1])
    assert metric.report() == kind.score(PREDS[2:4], TARGET[2:4])


@pytest.mark.parametrize(
    "index", [np.array([4, 2]), torch.tensor([4, 2], dtype=torch.uint8), torch.tensor([4, 2]), (4, 2), [np.int64(4), 2]]
)
def test_positions_may_be_integers_of_any_type_and_change_after_an_update(index: Any, count: Any) -> None:
    metric, index = count([]), copy.deepcopy(index)
    metric.update(["a", "b"], ["a", "b"], index=index)
    if not isinstance(index, tuple):
        index[0] = 0
    metric.update([], [], index=torch.tensor([]))
    metric.update([], [])
    assert metric.kept_sentences().positions.tolist() == [2, 4]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    ([0], ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(1,\)"),
    ([0, 1, 2], ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(3,\)"),
    ([[0, 1]], TypeError, r"'index' must hold integers, .* got \['list'\]"),
    (torch.tensor([[0, 1]]), ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(1, 2\)"),
    (0, ValueError, r"'index' must have shape \(2,\), one position per sentence, got \(\)"),
    ([3, -1], ValueError, r"'index' must hold positions .*, from 0 and below 2\*\*63, got -1"),
    (np.array([3, 2**63], np.uint64), ValueError, r"below 2\*\*63, got 9223372036854775808"),
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
    metric = CorpusBLEU(keep_sentences=True)
    metric.update(PREDS, TARGET, index=range(5))
    for call in (metric.update, metric):
        check_unchanged_by(error, message, metric, call, ["a", "b"], ["a", "b"], index=index)


def test_positions_require_a_metric_that_keeps_sentences(kind: Kind) -> None:
    metric = kind.metric()
    metric.update(PREDS, TARGET)
    message = rf"requires a metric that keeps sentences: {kind.name}\(keep_sentences=Tr"
    for call in (metric.update, metric):
        check_unchanged_by(ValueError, message, metric, call, ["a"], ["a"], index=[0])


@pytest.mark.parametrize("has_positions", [True, False])
def test_all_sentences_have_positions_or_none(has_positions: bool, count: Any, kind: Kind) -> None:
    """In batches, in a metric that is merged, and after a state was loaded. After a reset, this begins anew."""
    having, without = count([4, 0], [2]), kind.metric(keep_sentences=True)
    without.update(PREDS, TARGET)
    metric, other = (having, without) if has_positions else (without, having)
    index = None if has_positions else [1]
    for call in (metric.update, metric):
        check_unchanged_by(ValueError, MIXED, metric, call, ["c"], ["c"], index=index)
    for incoming in (other, other.metric_state):
        check_unchanged_by(ValueError, MIXED, metric, metric.merge_state, incoming)
    restored = kind.metric(keep_sentences=True)
    for one in (metric, restored):
        one.persistent(True)
    restored.load_state_dict(metric.state_dict())
    assert contents(restored) == contents(metric)
    check_unchanged_by(ValueError, MIXED, restored, restored.update, ["c"], ["c"], index=index)
    metric.reset()
    metric.update(["c"], ["c"], index=index)
    assert metric.report() == kind.score(["c"], ["c"])


def test_merged_metrics_count_every_position_once_and_the_first_one_counts(count: Any, kind: Kind) -> None:
    metric, worse = count([0, 3, 1]), kind.metric(keep_sentences=True)
    worse.update(["wrong"] * 4, pick(TARGET, [3, 4, 2, 0]), index=[3, 4, 2, 0])
    metric.merge_state(worse)
    expected = kind.rows([*PREDS[:2], "wrong", PREDS[3], "wrong"], TARGET)
    assert metric.sentence_statistics().tolist() == expected


def test_forward_scores_a_batch_alone_even_if_it_repeats_positions(count: Any, kind: Kind) -> None:
    metric, positions = count([0, 1, 2]), [2, 3, 0]
    corpus = pick(PREDS, positions), pick(TARGET, positions)
    assert metric(*corpus, index=positions) == kind.score(*corpus).score
    assert contents(metric) == contents(count([0, 1, 2, 3]))


def test_the_order_of_batches_changes_neither_a_synced_metric_nor_its_interval(count: Any) -> None:
    metric, expected = count([4, 0], [2, 4], [1]), count([0, 1, 2, 4])
    with group_of_one(), metric.sync_context():
        assert contents(metric) == contents(expected)
        assert metric.interval(0.9, 200) == expected.interval(0.9, 200)
    with torch.device("meta"):  # as in ``with torch.device("cuda")``, under which models are often made
        assert contents(metric) == contents(expected)
