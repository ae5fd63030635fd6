"""The positions of the items of loaders, which of them were added, and whether loaders shuffle.

Without processes: the loader of each rank is read in turn.
"""

from __future__ import annotations

import copy
import importlib
import itertools
from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from lightning_bleu import distributed_mask
from lightning_bleu.evaluation.input import positions
from lightning_bleu.evaluation.input.positions import find_index, shuffles
from lightning_bleu.hugging_face.accelerate_loaders import CountedStream, count_stream
from tests.helpers.lightning import make_loader

FIVE: Any = range(5)
"""A set of five items; a range is not a Dataset for mypy."""


# Positions of items


def deal(
    size: int,
    processes: int,
    *,
    shuffle: bool = False,
    drop_last: bool = False,
    sampler_type: type[DistributedSampler[int]] = DistributedSampler,
    **options: Any,
) -> list[Any]:
    """A loader of the numbers 0 ... size - 1 for each process."""
    numbers: Any = range(size)
    samplers = [
        sampler_type(numbers, processes, rank, shuffle=shuffle, drop_last=drop_last) for rank in range(processes)
    ]
    return [make_loader(numbers, sampler=sampler, **{"collate_fn": list} | options) for sampler in samplers]


def read_items(loader: Any) -> Iterator[tuple[int, int, bool]]:
    """The position of each item, the item, and whether it counts."""
    for batch_idx, batch in enumerate(loader):
        index, mask = find_index(loader, batch_idx), distributed_mask(loader, batch_idx)
        assert index is not None
        assert mask is not None
        assert (index.dtype, index.shape) == (torch.int64, (len(batch),))
        assert (mask.dtype, mask.shape) == (torch.bool, (len(batch),))
        yield from zip(index.tolist(), batch, mask.tolist())


def find_items(loaders: Iterable[Any]) -> dict[int, int]:
    """The items of all processes by position. Each counts once."""
    items: dict[int, int] = {}
    counted = []
    for loader in loaders:
        for position, item, counts in read_items(loader):
            assert items.setdefault(position, item) == item
            if counts:
                counted.append(position)
    assert sorted(counted) == sorted(items)
    return items


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"drop_last": True}])
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 5, 12, 13, 14, 37])
def test_every_item_has_one_position_in_all_processes(size: int, processes: int, options: dict[str, Any]) -> None:
    """Its index in the dataset, unless the loader shuffles."""
    for batch_size in (1, 3, 40):
        items = find_items(deal(size, processes, batch_size=batch_size, **options))
        if "shuffle" not in options:
            assert [*items] == [*items.values()]
        if "drop_last" not in options:
            assert sorted(items) == sorted(items.values()) == [*range(size)]


def test_a_loader_without_batches_has_one_position_per_item() -> None:
    """An item of the set is a batch of sentences."""
    loaders = deal(3, 2, batch_size=None, collate_fn=None)
    indices: list[Any] = [find_index(loader, batch_idx) for loader in loaders for batch_idx in range(2)]
    assert [index.tolist() for index in indices] == [[0], [2], [1], [0]]
    masks: list[Any] = [distributed_mask(loader, batch_idx) for loader in loaders for batch_idx in range(2)]
    assert [mask.tolist() for mask in masks] == [[True], [True], [True], [False]]


WRAPPERS = [
    importlib.import_module(f"{package}.utilities.distributed").DistributedSamplerWrapper
    for package in ("lightning_fabric", "lightning.fabric")
]
"""Lightning replaces a sampler of the user by one that deals out what it draws."""


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_sampler_that_lightning_has_wrapped_is_known(wrapper: Any) -> None:
    indices = [4, 1, 0]

    def make_loaders() -> Iterator[Any]:
        for rank in range(2):
            sampler = wrapper(SubsetRandomSampler(indices), num_replicas=2, rank=rank, shuffle=False)
            torch.manual_seed(0)  # all processes must draw alike
            yield DataLoader(FIVE, batch_size=2, sampler=sampler, collate_fn=list)

    items = find_items(make_loaders())
    assert sorted(items) == [0, 1, 2]
    assert sorted(items.values()) == sorted(indices)


class Contiguous(DistributedSampler[int]):
    """Every process gets neighbors, as samplers of streamed datasets deal them."""

    def __iter__(self) -> Iterator[int]:
        items = [number % len(self.dataset) for number in range(self.total_size)]  # type: ignore[arg-type]
        return iter(items[self.rank * self.num_samples : (self.rank + 1) * self.num_samples])


class SubclassOfContiguous(Contiguous):
    """Its ``__iter__`` is inherited, but not from PyTorch."""


class OwnMethods(DistributedSampler[int]):
    """In the order of PyTorch's sampler."""

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch + 1)

    def __len__(self) -> int:
        return super().__len__()


class DistributedSamplerWrapper(Contiguous):
    """Has the name of Lightning's, but not its order."""


@pytest.mark.parametrize("sampler_type", [Contiguous, SubclassOfContiguous, DistributedSamplerWrapper])
def test_a_sampler_with_an_order_of_its_own_has_no_positions(
    sampler_type: type[DistributedSampler[int]],
) -> None:
    loaders = deal(4, 3, sampler_type=sampler_type)
    # In PyTorch's order, item 3 would be a repeat of item 0.
    assert [list(loader) for loader in loaders] == [[[0, 1]], [[2, 3]], [[0, 1]]]
    for size in (1, 4, 6):
        for options in ({}, {"batch_size": 1}, {"batch_size": None, "collate_fn": None}):
            for loader in deal(size, 3, sampler_type=sampler_type, **options):
                assert find_index(loader, 0) is distributed_mask(loader, 0) is None


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_subclass_in_the_order_of_pytorch_has_positions(shuffle: bool) -> None:
    loaders = deal(4, 3, shuffle=shuffle, sampler_type=OwnMethods)
    assert sum(len(batch) for loader in loaders for batch in loader) == 6
    assert sorted(find_items(loaders).values()) == [0, 1, 2, 3]


class OtherBatches(BatchSampler):
    """Its batches may be in any order."""


class Stream(IterableDataset[Tensor]):
    """Without a sampler."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.arange(5))


UNKNOWN: dict[str, Any] = {
    "no distributed sampler": DataLoader(FIVE),
    "no distributed sampler and no batches": DataLoader(FIVE, batch_size=None),
    "other batches": DataLoader(FIVE, batch_sampler=OtherBatches(DistributedSampler(FIVE, 2, 0), 2, False)),
    "batches of a plain sampler": DataLoader(FIVE, batch_sampler=BatchSampler(SequentialSampler(FIVE), 2, False)),
    "stream": DataLoader(Stream(), batch_size=2),
    "list": [[0, 1], [2, 3]],
}


@pytest.mark.parametrize("loader", UNKNOWN.values(), ids=UNKNOWN)
def test_positions_are_unknown_where_the_order_of_several_processes_is(
    loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "process_count", lambda: 2)
    assert find_index(loader, 0) is distributed_mask(loader, 0) is None


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"batch_size": None}, {"drop_last": True}], ids=str)
def test_every_item_counts_in_a_single_process(options: dict[str, Any]) -> None:
    loader = DataLoader(FIVE, **{"batch_size": 2} | options)
    masks: list[Any] = [distributed_mask(loader, batch_idx) for batch_idx in range(len(loader))]
    sizes = [1] * 5 if options == {"batch_size": None} else [2, 2, 1][: len(loader)]
    assert [mask.tolist() for mask in masks] == [[True] * size for size in sizes]


@pytest.mark.parametrize("name", ["other batches", "stream", "list"])
def test_a_single_process_needs_no_mask_of_a_loader_that_is_unknown(name: str) -> None:
    assert distributed_mask(UNKNOWN[name], 0) is None


@pytest.mark.skipif("in_order" not in signature(DataLoader).parameters, reason="since torch 2.6")
def test_the_order_is_unknown_if_batches_come_when_they_are_ready() -> None:
    both: list[dict[str, Any]] = [{}, {"batch_size": None, "collate_fn": None}]
    for options in both:
        for in_order in (True, False):
            (loader, _) = deal(5, 2, in_order=in_order, **options)
            assert (find_index(loader, 0) is not None) == (distributed_mask(loader, 0) is not None) == in_order


def test_positions_are_on_the_cpu_whatever_the_default_device() -> None:
    (loader,) = deal(5, 1, batch_size=3)
    with torch.device("meta"):
        found: list[Any] = [find_index(loader, 1), distributed_mask(loader, 1)]
    assert {one.device.type for one in found} == {"cpu"}
    assert [one.tolist() for one in found] == [[3, 4], [True, True]]


# Loaders of accelerate


class Numbers(IterableDataset[int]):
    """A dataset without a length."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))


class SizedNumbers(Numbers):
    """An iterable dataset with a length."""

    def __len__(self) -> int:
        return self.size


def share(loader: Any, processes: int, rank: int, **options: Any) -> Any:
    """A loader that accelerate prepares for a process that reads the dataset itself."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.PartialState(cpu=True)
    options |= {"num_processes": processes, "process_index": rank, "dispatch_batches": False, "put_on_device": False}
    loader = accelerate.data_loader.prepare_data_loader(loader, **options)
    count_stream(loader)
    return loader


@pytest.mark.parametrize("make", [range, SizedNumbers, Numbers])
@pytest.mark.parametrize("split", [False, True])
def test_items_of_accelerates_loaders_have_the_positions_of_the_dataset(make: Any, split: bool) -> None:
    every = [*itertools.product((1, 3, 7, 12, 21), (2, 3, 4), (1, 2, 4, 6), (False, True), (False, True))]
    for size, processes, batch_size, even, drop_last in every[::7]:
        if (split and batch_size % processes) or not (even or make is range):
            continue
        loaders = []
        for rank in range(processes):
            loader = DataLoader(make(size), batch_size=batch_size, drop_last=drop_last, collate_fn=list)
            loaders.append(share(loader, processes, rank, split_batches=split, even_batches=even))
        found = find_items(loaders)
        assert [*found] == [*found.values()]
        assert drop_last or sorted(found) == [*range(size)]


@pytest.mark.parametrize(
    "options",
    [
        {"dataset": FIVE, "batch_sampler": OtherBatches(SequentialSampler(FIVE), 2, False)},
        {"dataset": FIVE, "batch_size": None},
        {"dataset": Numbers(5), "num_workers": 1},
        {"dataset": SizedNumbers(5), "num_workers": 2},
    ],
)
def test_there_is_no_index_where_accelerates_order_cannot_be_known(options: dict[str, Any]) -> None:
    loader = share(DataLoader(**options), 2, 1)
    assert find_index(loader, 0) is distributed_mask(loader, 0) is None


@pytest.mark.parametrize("shuffle", [False, True])
def test_accelerates_loaders_shuffle_as_they_were_told_to(shuffle: bool) -> None:
    for processes, seedable in itertools.product((1, 2), (False, True)):
        loader = share(DataLoader(FIVE, shuffle=shuffle), processes, 0, use_seedable_sampler=seedable)
        assert shuffles(loader) == shuffle


def test_a_stream_that_is_counted_can_be_copied() -> None:
    stream: Any = CountedStream(Numbers(3))
    other = copy.deepcopy(stream)
    assert (list(other), other.count, other.size, stream.count) == ([0, 1, 2], 3, 3, 0)


# Shuffling


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_shuffles_as_it_was_told_to(shuffle: bool) -> None:
    assert shuffles(DataLoader(FIVE, shuffle=shuffle)) == shuffle
    assert shuffles(DataLoader(FIVE, batch_size=None, shuffle=shuffle)) == shuffle
    sampler: Any = RandomSampler(FIVE) if shuffle else SequentialSampler(FIVE)
    assert shuffles(DataLoader(FIVE, batch_sampler=BatchSampler(sampler, 2, False))) == shuffle
    assert shuffles(DataLoader(FIVE, sampler=BatchSampler(sampler, 2, False), batch_size=None)) == shuffle
    for loader in deal(5, 2, shuffle=shuffle):  # in several processes
        assert shuffles(loader) == shuffle


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (WeightedRandomSampler([0.5, 0.5], 2), True),
        (SubsetRandomSampler([1, 3]), True),
        (SequentialSampler(FIVE), False),
    ],
)
def test_a_loader_shuffles_if_its_sampler_draws_although_lightning_wraps_it(sampler: Any, expected: bool) -> None:
    wrapped = [wrapper(sampler, num_replicas=2, rank=0, shuffle=False) for wrapper in WRAPPERS]
    assert [shuffles(DataLoader(FIVE, sampler=drawn)) for drawn in (sampler, *wrapped)] == [expected] * 3


@pytest.mark.parametrize("name", ["stream", "list"])
def test_a_loader_without_a_sampler_is_not_known_to_shuffle(name: str) -> None:
    assert not shuffles(UNKNOWN[name])
