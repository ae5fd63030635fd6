"""The callback in several real processes: a sentence counts once, however many of them have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import ModelParallelStrategy
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler

from tests.helpers.lightning import (
    Items,
    PanelLogger,
    ToyModule,
    expected_score,
    find_reports,
    make_callback,
    make_loader,
    make_trainer,
    return_ids,
    validate,
)
from tests.helpers.process_groups import run_in_processes
from tests.helpers.processes import validate_in_processes

pytestmark = pytest.mark.slow

# Datasets of all kinds

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
    ("processes", "sharded", "sizes"),
    [
        (2, True, (5, 37)),
        pytest.param(
            *(4, False, (1, 61)),
            marks=pytest.mark.promise("6: files are those of a single process, in a Trainer of Lightning"),
        ),
    ],
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
        for file in ("ref.txt", "hyp.txt", "sentences.jsonl"):
            alone_file, written = (
                tmp_path / run / "val" / "step-0000000" / name / file for run in ("alone", "several")
            )
            assert written.read_bytes() == alone_file.read_bytes()


# Model parallelism: several processes have the same sentences


class ShardedModule(ToyModule):
    """A module that the strategy accepts."""

    def configure_model(self) -> None:
        """The strategy requires it."""


def validate_in_parallel(folder: Path) -> Any:
    """Validate in one of the processes, and return its report."""
    strategy: Any = ModelParallelStrategy(
        data_parallel_size=2, tensor_parallel_size=2, save_distributed_checkpoint=False
    )
    bleu = make_callback(translations=folder)
    trainer = make_trainer(folder, bleu, strategy=strategy, devices=4)
    trainer.validate(ShardedModule(), make_loader(Items(37)), verbose=False)
    report: dict[str, Any] = find_reports(bleu)["val_bleu"].to_dict()
    return report


def test_a_sentence_counts_once_with_tensor_parallelism(tmp_path: Path) -> None:
    reports = run_in_processes(4, validate_in_parallel, tmp_path)
    assert reports == [expected_score(sentences=Items(37).sentences).to_dict()] * 4
    assert len((tmp_path / "val" / "step-0000000" / "hyp.txt").read_text().splitlines()) == 37


def skip_by_rank(batch: Any, epoch: int) -> Any:
    """Only the second process returns something."""
    return return_ids(batch, epoch) if torch.distributed.get_rank() else None


# Errors


class FailingLogger(PanelLogger):
    """As a logger whose server does not answer; only process 0 shows anything."""

    def add_text(self, tag: str, text: str, step: int) -> None:
        raise ConnectionError("no answer")

    def add_custom_scalars(self, layout: Any) -> None:
        raise ConnectionError("no layout")


def test_no_process_waits_for_one_without_output_or_whose_logger_fails(tmp_path: Path) -> None:
    loaders = {"one": make_loader(), "two": make_loader()}
    contents = validate_in_processes(2, loaders, tmp_path, step=skip_by_rank, logger=FailingLogger(tmp_path))
    warned, none = ([text for text in content["warnings"] if "shown" in text] for content in contents)
    assert warned[0] == "The charts cannot be shown in FailingLogger: ConnectionError: no layout"
    assert warned[1:] == ["The samples cannot be shown in FailingLogger: ConnectionError: no answer"]
    assert none == []
    assert contents[0]["logged"] == contents[1]["logged"]
    for content in contents:
        assert {one.report.hypothesis_length for one in content["results"].values() if one.report} == {19 * 8}
