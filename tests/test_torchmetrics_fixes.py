"""The laws of AdditiveMetric, with a metric that is as small as possible. Several processes: test_distributed.py."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_bleu.counting.kept import IDENTITY_COLUMNS, append_rows
from lightning_bleu.processes import gather_state
from lightning_bleu.torchmetrics_fixes import AdditiveMetric
from tests.helpers.process_groups import group_of_one


class Tally(AdditiveMetric):
    """Sums numbers and keeps them."""

    def __init__(self, identity: object = "tally", **kwargs: Any) -> None:
        super().__init__(identity, 1, **{"dist_sync_fn": gather_state} | kwargs)
        self.total: Tensor
        self.numbers: list[Tensor]
        self.add_state("total", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("numbers", [], dist_reduce_fx="cat")

    def update(self, numbers: Iterable[int]) -> None:
        values = torch.tensor(list(numbers))
        if (values < 0).any():
            raise ValueError("negative")
        self.total = self.total + values.sum()
        # packed rows without positions
        self.numbers = append_rows(
            self.numbers, torch.nn.functional.pad(values[:, None], (IDENTITY_COLUMNS, 0), value=-1)
        )

    def compute(self) -> Tensor:
        if self.total == 13:
            raise ValueError("unlucky")
        return self.total[0]

    @property
    def kept(self) -> list[int]:
        """The numbers in the order of arrival."""
        rows = [self.numbers] if isinstance(self.numbers, Tensor) else self.numbers
        return [number for row in rows if len(row) for number in row[:, -1].tolist()]

    @property
    def squares(self) -> set[int]:
        """Something that torch.jit.script cannot compile."""
        return {number**2 for number in self.kept}


def make_tally(*batches: Iterable[int], **kwargs: Any) -> Tally:
    metric = Tally(**kwargs)
    for batch in batches:
        metric.update(batch)
    return metric


def state(metric: Tally) -> tuple[int, list[int], int]:
    return int(metric.total), metric.kept, metric.update_count


# forward


def test_forward_returns_the_score_of_the_batch_alone_and_counts_it() -> None:
    metric = make_tally([1, 2])
    assert metric([3, 4]).item() == 7
    assert state(metric) == (10, [1, 2, 3, 4], 2)
    assert metric([5]).item() == 5
    assert metric.compute().item() == 15


def test_forward_leaves_the_value_of_the_batch_where_lightning_looks_for_it() -> None:
    """`self.log("name", metric)` logs it in every step."""
    metric = Tally()
    value = metric([3, 4])
    assert metric._forward_cache == value
    metric.reset()
    assert metric._forward_cache is None


def test_forward_changes_nothing_if_the_update_fails() -> None:
    metric = make_tally([1, 2])
    assert metric.compute().item() == 3
    with pytest.raises(ValueError, match="negative"):
        metric([4, -4])
    assert state(metric) == (3, [1, 2], 1)
    assert metric._computed == 3
    assert metric([5]).item() == 5
    assert metric.compute().item() == 8


def test_forward_keeps_the_batch_if_only_its_score_fails() -> None:
    metric = make_tally([1, 2])
    with pytest.raises(ValueError, match="unlucky"):
        metric([13])
    assert state(metric) == (16, [1, 2, 13], 2)
    assert metric.compute().item() == 16
    assert metric([5]).item() == 5


@pytest.mark.parametrize("dist_sync_on_step", [False, True])
def test_forward_reads_a_generator_once(dist_sync_on_step: bool) -> None:
    metric = Tally(dist_sync_on_step=dist_sync_on_step)
    with group_of_one():
        assert metric(number for number in (1, 2)).item() == 3
        assert metric(number for number in (3, 4)).item() == 7
        assert not metric._is_synced
    assert state(metric) == (10, [1, 2, 3, 4], 2)


def test_forward_scores_a_batch_without_adding_the_state_to_it() -> None:
    metric = make_tally([13])  # which alone cannot be scored
    assert metric([1]).item() == 1
    assert state(metric) == (14, [13, 1], 2)


def test_batches_are_refused_while_the_metric_is_synced() -> None:
    metric = make_tally([1, 2])
    with group_of_one():
        metric.sync()
        for count in (metric, metric.update):
            with pytest.raises(TorchMetricsUserError, match=r"is synced: call unsync\(\) before updating it"):
                count([3])
        with pytest.raises(TorchMetricsUserError, match=r"is synced: call unsync\(\) before merging another"):
            metric.merge_state(make_tally([3]))
        metric.unsync()
        assert metric([3]).item() == 3
    assert state(metric) == (6, [1, 2, 3], 2)


def test_forward_does_not_change_lists_that_were_handed_out() -> None:
    metric = make_tally([1])
    handed_out = metric.metric_state["numbers"]
    metric([2])
    metric([3])
    assert metric.kept == [1, 2, 3]
    assert [len(rows) for rows in handed_out] == [1]


# update


def test_an_update_that_fails_is_not_counted_and_keeps_the_computed_score() -> None:
    metric = make_tally([1, 2])
    assert metric.compute().item() == 3
    with pytest.raises(ValueError, match="negative"):
        metric.update([-1])
    assert metric._computed == 3
    assert state(metric) == (3, [1, 2], 1)
    untouched = Tally()
    with pytest.raises(ValueError, match="negative"):
        untouched.update([-1])
    assert not untouched.update_called


def test_an_update_forgets_the_computed_score() -> None:
    metric = make_tally([1])
    assert metric.compute().item() == 1
    metric.update([2])
    assert metric.compute().item() == 3
    assert metric.update_count == 2


def test_a_loaded_state_replaces_the_computed_score() -> None:
    metric, restored = make_tally([1], [2]), make_tally([5])
    for one in (metric, restored):
        one.persistent(True)
    assert restored.compute().item() == 5
    restored.load_state_dict(metric.state_dict())
    assert restored.compute().item() == 3
    assert state(restored) == (3, [1, 2], 2)


# Syncing


def count_calls(calls: list[int]) -> Callable[..., list[Tensor]]:
    """A ``dist_sync_fn`` that counts how often it is called."""

    def counted(tensor: Tensor, group: Any = None) -> list[Tensor]:
        calls.append(1)
        return gather_state(tensor, group)

    return counted


def test_a_sync_by_hand_uses_the_function_of_the_metric() -> None:
    calls: list[int] = []
    metric = make_tally([1, 2], dist_sync_fn=count_calls(calls))
    with group_of_one():
        metric.sync()
        assert len(calls) == 2  # two states
        assert metric.kept == [1, 2]
        metric.unsync()
        metric.sync(lambda tensor, group: [tensor, tensor])
        assert metric.total.item() == 6  # as if two processes had counted the same
        metric.unsync()
    assert state(metric) == (3, [1, 2], 1)


def test_processes_meet_once_in_nested_sync_contexts() -> None:
    calls: list[int] = []
    metric = make_tally([1, 2], dist_sync_fn=count_calls(calls))
    with group_of_one():
        with metric.sync_context():
            with metric.sync_context():
                assert metric._is_synced
                assert metric.compute().item() == 3
            assert metric._is_synced
        assert not metric._is_synced
    assert len(calls) == 2  # two states
    metric.update([3])
    assert state(metric) == (6, [1, 2, 3], 2)


def test_the_score_inside_a_sync_context_is_that_of_all_processes_and_outside_that_of_one() -> None:
    twice = lambda tensor, group: [tensor, tensor]  # noqa: E731  # as if two processes had counted the same
    metric = make_tally([1, 2], dist_sync_fn=twice, sync_on_compute=False)
    with group_of_one():
        for _ in range(2):
            assert metric.compute().item() == 3
            with metric.sync_context():
                assert metric.compute().item() == 6
                assert metric.kept == [1, 2, 1, 2]
        assert metric.compute().item() == 3
        metric.sync()
        assert metric.compute().item() == 6
        metric.unsync()
        assert metric.compute().item() == 3


def test_a_sync_context_restores_the_state_after_an_error() -> None:
    metric = make_tally([1, 2])
    with group_of_one():
        with pytest.raises(KeyError), metric.sync_context():
            raise KeyError
        assert not metric._is_synced
        with pytest.raises(KeyError), metric.sync_context(), metric.sync_context():
            raise KeyError
        assert not metric._is_synced
        metric.update([3])
        assert metric.compute().item() == 6
    assert state(metric) == (6, [1, 2, 3], 2)


def test_a_sync_context_may_leave_the_metric_synced() -> None:
    metric = make_tally([1, 2])
    with group_of_one():
        with metric.sync_context(should_unsync=False):
            pass
        assert metric._is_synced
        metric.unsync()


def test_a_sync_context_does_nothing_outside_of_process_groups() -> None:
    metric = make_tally([1])
    with metric.sync_context():
        assert not metric._is_synced
    with group_of_one(), metric.sync_context(should_sync=False):
        assert not metric._is_synced


def test_a_synced_metric_can_be_reset() -> None:
    metric = make_tally([1, 2])
    with group_of_one():
        metric.sync()
        metric.reset()
    assert state(metric) == (0, [], 0)
    metric.update([3])
    assert state(metric) == (3, [3], 1)


# Merging


def test_merging_adds_sums_and_appends_lists() -> None:
    metric, other = make_tally([1], [2]), make_tally([3, 4])
    metric.merge_state(other)
    assert state(metric)[:2] == (10, [1, 2, 3, 4])
    assert state(other) == (7, [3, 4], 1)
    metric.merge_state(other.metric_state)
    assert state(metric)[:2] == (17, [1, 2, 3, 4, 3, 4])


def test_merging_with_an_empty_metric_changes_neither_order_nor_sums() -> None:
    metric = make_tally([1], [2])
    metric.merge_state(Tally())
    assert state(metric)[:2] == (3, [1, 2])
    empty = Tally()
    empty.merge_state(metric)
    assert state(empty)[:2] == (3, [1, 2])


def test_merging_forgets_the_computed_score_and_counts_as_an_update() -> None:
    metric = make_tally([1])
    assert metric.compute().item() == 1
    metric.merge_state(make_tally([2]))
    assert metric.compute().item() == 3
    merged = Tally()
    merged.merge_state(make_tally([2]))
    assert merged.update_called
    assert merged.compute().item() == 2  # without the warning that nothing was updated


def test_merging_keeps_both_metrics_apart() -> None:
    metric, other = Tally(), make_tally([1])
    metric.merge_state(other)
    metric.update([2])
    other.update([3])
    metric.reset()
    assert state(other) == (4, [1, 3], 2)


@pytest.mark.parametrize("incoming", [{"total": torch.tensor([5])}, {"numbers": []}, {}], ids=["total", "list", "none"])
def test_merging_an_incomplete_state_changes_nothing(incoming: dict[str, Any]) -> None:
    metric = make_tally([1, 2])
    with pytest.raises(ValueError, match="to be present in incoming state"):
        metric.merge_state(incoming)
    assert state(metric) == (3, [1, 2], 1)


def test_the_state_of_a_synced_metric_can_be_merged() -> None:
    """Its list is a single tensor."""
    metric, other = make_tally([1], [2]), make_tally([3], [4])
    with group_of_one(), other.sync_context():
        metric.merge_state(other.metric_state)
    assert state(metric)[:2] == (10, [1, 2, 3, 4])


def test_merging_does_not_change_lists_that_were_handed_out() -> None:
    metric, other = make_tally([1]), make_tally([2])
    handed_out = [metric.metric_state["numbers"], other.metric_state["numbers"]]
    metric.merge_state(other)
    assert metric.kept == [1, 2]
    assert [[len(rows) for rows in one] for one in handed_out] == [[1], [1]]


# Removing states


def test_a_state_that_was_removed_is_neither_synced_nor_saved_nor_reset() -> None:
    metric = Tally()
    metric.remove_state("numbers")
    metric.persistent(True)
    assert not hasattr(metric, "numbers")
    assert list(metric.metric_state) == list(metric.state_dict()) == ["total"]
    metric.reset()
    with group_of_one(), metric.sync_context():
        assert not hasattr(metric, "numbers")


# Saving, copying, moving


def test_a_state_can_be_saved_and_loaded() -> None:
    metric = make_tally([1], [2])
    metric.persistent(True)
    saved = metric.state_dict()
    restored = Tally()
    restored.persistent(True)
    restored.load_state_dict(saved)
    restored.update([3])
    assert state(restored)[:2] == (6, [1, 2, 3])
    restored.reset()
    assert [len(rows) for rows in saved["numbers"]] == [2]


def test_a_state_that_was_saved_while_it_was_synced_can_be_loaded() -> None:
    metric = make_tally([1], [2])
    metric.persistent(True)
    with group_of_one(), metric.sync_context():
        saved = dict(metric.state_dict())
    assert isinstance(saved["numbers"], Tensor)
    restored = Tally()
    restored.persistent(True)
    restored.load_state_dict(saved)
    assert isinstance(restored.numbers, list)
    restored.update([3])
    assert state(restored)[:2] == (6, [1, 2, 3])
    restored.reset()
    assert restored.kept == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": torch.zeros(2, dtype=torch.int64), "numbers": []},
        {"total": torch.zeros(1, dtype=torch.int64), "numbers": [torch.zeros(1, 7, dtype=torch.int32)]},
        {"total": torch.zeros(1, dtype=torch.int64), "numbers": torch.zeros(1, 7, dtype=torch.int32)},
    ],
    ids=["sum", "list", "synced list"],
)
def test_a_state_of_another_shape_cannot_be_loaded(wrong: dict[str, Any]) -> None:
    metric = make_tally([1], [2])
    metric.persistent(True)
    with pytest.raises(
        ValueError, match=r"the state '(total|numbers)' is of a metric with other orders of n-grams, or"
    ):
        metric.load_state_dict(wrong)
    assert state(metric) == (3, [1, 2], 2)
    assert make_tally([1]).compute().item() == 1


@pytest.mark.parametrize("empty", [[], [torch.zeros(0, 5)], torch.zeros(0, 5), torch.zeros(0, 0), torch.zeros(0)])
def test_a_state_without_rows_can_be_loaded_however_it_was_saved(empty: Any) -> None:
    metric = make_tally([1], [2])
    metric.persistent(True)
    metric.load_state_dict({"total": torch.zeros(1, dtype=torch.int64), "numbers": empty})
    metric.update([3])
    assert state(metric)[:2] == (3, [3])


def test_a_state_that_is_not_in_a_saved_one_stays() -> None:
    metric = make_tally([1], [2])
    assert metric.compute().item() == 3
    metric.load_state_dict({})
    assert metric._computed == 3
    assert state(metric) == (3, [1, 2], 2)


@pytest.mark.parametrize("replicate", [copy.deepcopy, Tally.clone])
def test_copies_share_the_process_group(replicate: Callable[[Tally], Tally]) -> None:
    with group_of_one():
        group = torch.distributed.new_group([0])
        metric = make_tally([1, 2], process_group=group)
        twin = replicate(metric)
        assert twin.process_group is group
        assert copy.deepcopy([metric, metric.process_group])[1] is group
        twin.update([3])
        assert (twin.compute().item(), metric.compute().item()) == (6, 3)
        torch.distributed.destroy_process_group(group)


def test_a_copy_of_a_module_has_one_copy_of_a_metric() -> None:
    metric = make_tally([1])
    one, other = copy.deepcopy([metric, metric])
    assert one is other is not metric


@pytest.mark.parametrize(
    "replicate",
    [copy.copy, copy.deepcopy, Tally.clone, lambda metric: pickle.loads(pickle.dumps(metric))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)
def test_copies_are_independent(replicate: Callable[[Tally], Tally]) -> None:
    metric = make_tally([1, 2])
    twin = replicate(metric)
    twin.update([3])
    with pytest.raises(ValueError, match="negative"):
        twin.update([-1])
    assert state(metric) == (3, [1, 2], 1)
    assert state(twin) == (6, [1, 2, 3], 2)
    assert twin([4]).item() == 4
    metric.reset()
    assert state(twin) == (10, [1, 2, 3, 4], 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_precision_of_a_model_leaves_counts_alone(dtype: torch.dtype) -> None:
    metric = make_tally([2**40 + 1])
    assert metric.set_dtype(dtype) is metric
    metric.to(dtype).half().float().double()
    assert metric.total.dtype == metric.numbers[0].dtype == torch.int64
    metric.reset()
    assert metric.total.dtype == torch.int64


def test_lists_may_be_moved_to_the_cpu() -> None:
    metric = make_tally([1], compute_on_cpu=True)
    assert metric([2]).item() == 2
    metric.update([3])
    assert {row.device.type for row in metric.numbers} == {"cpu"}
    assert state(metric) == (6, [1, 2, 3], 3)


# Collections


def test_only_metrics_with_equal_identities_share_a_state() -> None:
    """All of them agree on the first batch, so torchmetrics alone would let all share one state."""
    metrics = {name: Tally(identity) for name, identity in {"a": 1, "b": (2, 3), "c": (2, 3), "d": None}.items()}
    collection = MetricCollection(metrics)  # type: ignore[arg-type]
    for batch in ([1, 2], [3]):
        collection.update(batch)
    assert sorted(collection.compute_groups.values()) == [["a"], ["b", "c"], ["d"]]
    assert collection.compute() == dict.fromkeys("abcd", 6)
    assert collection["c"].kept == [1, 2, 3]


def test_a_subclass_does_not_share_the_state_of_its_parent() -> None:
    class Other(Tally):
        """Counts differently, but has the same identity."""

    collection = MetricCollection({"a": Tally(), "b": Other(), "c": Other()})
    collection.update([1, 2])
    assert sorted(collection.compute_groups.values()) == [["a"], ["b", "c"]]


def test_metrics_that_share_a_state_count_every_batch_once() -> None:
    collection = MetricCollection({"one": Tally(), "same": Tally()})
    for step in (collection.update, collection, collection, collection.update):
        step([1, 2])
    assert collection.compute() == {"one": 12, "same": 12}
    assert [collection[name].kept for name in ("one", "same")] == [[1, 2] * 4] * 2
    collection.reset()
    collection.update([5])
    assert [collection[name].kept for name in ("one", "same")] == [[5]] * 2


# torch.jit


class Owner(torch.nn.Module):
    """A module that owns a metric without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


@pytest.mark.filterwarnings("ignore:This property will be removed:DeprecationWarning")  # torchmetrics' own property
def test_the_properties_of_a_metric_are_not_scripted() -> None:
    module, x = Owner(), torch.ones(3, 2)
    module.tally.update([1, 2])
    assert torch.equal(torch.jit.script(module)(x), module(x))
    assert module.tally.squares == {1, 4}
