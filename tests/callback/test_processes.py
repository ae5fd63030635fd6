"""The callback in several real processes: the scores are those of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from tests.helpers.lightning import (
    SENTENCES,
    Items,
    PanelLogger,
    expected_score,
    make_loader,
    return_ids,
    return_text,
)
from tests.helpers.processes import validate_in_processes

pytestmark = pytest.mark.slow


def return_generators(batch: Tensor, epoch: int) -> tuple[Iterator[str], Iterator[str]]:
    """Strings whose number is known only once they are read."""
    hypotheses, references = return_text(batch, epoch)
    return (line for line in hypotheses), (line for line in references)


class OtherBatches(BatchSampler):
    """Lightning cannot tell what it would need to make another one."""


class Stream(IterableDataset[Tensor]):
    """Every process reads all of it."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(SENTENCES)


@pytest.mark.parametrize(
    ("processes", "step"), [(2, return_ids), (2, return_text), (2, return_generators), (3, return_ids)]
)
def test_every_sentence_counts_once(processes: int, step: Any, tmp_path: Path) -> None:
    sets = {f"{size}-{batch_size}": (Items(size), batch_size) for size in (1, 5, 37) for batch_size in (1, 4)}
    loaders = {name: make_loader(items, batch_size=batch_size) for name, (items, batch_size) in sets.items()}
    for content in validate_in_processes(processes, loaders, tmp_path, step=step):
        for name, (items, _) in sets.items():
            alone = expected_score(sentences=items.sentences)
            assert content["results"][f"val_bleu/{name}"].report.matches == alone.matches
            assert content["results"][f"val_bleu/{name}"].report.reference_length == alone.reference_length
            assert content["logged"][f"val_bleu/{name}"] == alone.bleu


def test_repeated_sentences_are_skipped_or_warned_about(tmp_path: Path) -> None:
    loaders: dict[str, Any] = {
        "dropping": make_loader(Items(37), drop_last=True),
        "unbatched": make_loader(list(make_loader(Items(5), batch_size=2)), batch_size=None),
        "own batches": DataLoader(Items(37), batch_sampler=OtherBatches(SequentialSampler(range(37)), 7, False)),
        "stream": make_loader(Stream()),
    }
    sentences = {
        "dropping": 28,  # of 19 items per process, 14 make full batches
        "unbatched": 5,  # three items for two processes, each of them a batch
        "own batches": 38,  # 19 per process, so one of 37 counts twice
        "stream": 74,  # all 37 count twice
    }
    contents = validate_in_processes(2, loaders, tmp_path)
    for content in contents:
        reports = {name: content["results"][f"val_bleu/{name}"].report for name in sentences}
        assert {name: report.hypothesis_length / 8 for name, report in reports.items()} == sentences
    warned, none = (content["warnings"] for content in contents)
    found = [re.findall(r"cannot tell which sentences of '(.*)' are", message) for message in warned]
    assert sorted(found) == [["own batches"], ["stream"]]
    assert none == []  # only process 0 warns


class FailingLogger(PanelLogger):
    """As a logger whose server does not answer; only process 0 shows anything."""

    def add_text(self, tag: str, text: str, step: int) -> None:
        raise ConnectionError("no answer")

    def add_custom_scalars(self, layout: Any) -> None:
        raise ConnectionError("no layout")


def test_no_process_waits_for_one_whose_logger_fails(tmp_path: Path) -> None:
    loaders = {"one": make_loader(), "two": make_loader()}
    contents = validate_in_processes(2, loaders, tmp_path, logger=FailingLogger(tmp_path))
    warned, none = ([text for text in content["warnings"] if "shown" in text] for content in contents)
    assert warned == ["The samples cannot be shown in TensorBoard: ConnectionError: no layout"]
    assert none == []
    assert contents[0]["logged"] == contents[1]["logged"]
    assert contents[0]["logged"]["val_bleu"] == pytest.approx(expected_score().bleu)
