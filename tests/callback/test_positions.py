"""A sentence counts once, however many processes have it: datasets of all kinds, in several real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler

from tests.helpers.lightning import Items, make_callback, validate
from tests.helpers.processes import validate_in_processes

pytestmark = pytest.mark.slow

Item = dict[str, Any]


class Mapped(Dataset[Item]):
    """Items with their positions."""

    def __init__(self, size: int) -> None:
        self.sentences = Items(size).sentences

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Item:
        return {"index": index, "sentence": self.sentences[index]}


class Whole(IterableDataset[Item]):
    """Every process reads all of it."""

    def __init__(self, size: int) -> None:
        self.items = Mapped(size)

    def __iter__(self) -> Iterator[Item]:
        return (self.items[index] for index in range(len(self.items)))


class Overlapping(Whole):
    """Every process reads its share, and a third of all others."""

    def __iter__(self) -> Iterator[Item]:
        rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        own = [index for index in range(len(self.items)) if index % processes == rank or index % 3 == 0]
        return (self.items[index] for index in own)


class Backwards(Sampler[int]):
    """Every process draws all items, from the last to the first."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return reversed(range(self.size))

    def __len__(self) -> int:
        return self.size


class Grouped(BatchSampler):
    """Batches of items that have something in common, as others group by length."""

    def __iter__(self) -> Iterator[list[int]]:
        order = sorted(self.sampler, key=lambda index: index % 5)
        return (order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size))


def return_index(batch: Any, epoch: int) -> dict[str, Any]:
    """Translations of different quality, and the positions in the dataset."""
    sentences = batch["sentence"]
    right = torch.arange(sentences.shape[1]) < sentences[:, :1]
    return {"preds": torch.where(right, sentences, 99), "target": sentences, "index": batch["index"]}


KINDS: dict[str, Callable[[int], Any]] = {
    "mapped": lambda size: DataLoader(Mapped(size), batch_size=7),
    "shuffled": lambda size: DataLoader(Mapped(size), batch_size=7, shuffle=True),
    "whole stream": lambda size: DataLoader(Whole(size), batch_size=7),
    "overlapping shards": lambda size: DataLoader(Overlapping(size), batch_size=7),
    "own sampler": lambda size: DataLoader(Mapped(size), batch_size=7, sampler=Backwards(size)),
    "own batches": lambda size: DataLoader(Mapped(size), batch_sampler=Grouped(range(size), 7, False)),
}


@pytest.mark.parametrize(
    ("processes", "sharded", "sizes"), [(2, True, (5, 37)), (2, False, (1, 5)), (4, True, (1, 37)), (4, False, (333,))]
)
def test_scores_intervals_and_files_are_those_of_one_process(
    processes: int, sharded: bool, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    loaders = {f"{kind}-{size}": make(size) for kind, make in KINDS.items() for size in sizes}
    options: dict[str, Any] = {"confidence": 0.95, "translations": tmp_path / "several"}
    contents = validate_in_processes(
        processes,
        loaders,
        tmp_path,
        step=return_index,
        callback_options=options,
        use_distributed_sampler=sharded,
    )
    alone = make_callback(translations=tmp_path / "alone", dataloader_names=[*loaders], confidence=0.95)
    plain = [DataLoader(Mapped(size), batch_size=7) for _ in KINDS for size in sizes]
    expected = validate(tmp_path, alone, step=return_index, loaders=plain)
    for content in contents:
        assert content["warnings"] == []
        assert content["results"] == alone.results
        assert {name: content["logged"][name] for name in expected} == expected
    for name in loaders:
        for file in ("ref.txt", "step-0000000.txt"):
            written = tmp_path / "several" / "val" / name / file
            assert written.read_bytes() == (tmp_path / "alone" / "val" / name / file).read_bytes()
