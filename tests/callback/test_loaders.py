"""Several validation loaders, and groups of sentences; their names, and what is required."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.utilities import CombinedLoader
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusCHRF
from tests.helpers.lightning import (
    SENTENCES,
    expected_score,
    find_reports,
    make_callback,
    make_loader,
    return_ids,
    return_text,
    validate,
)

FEW = SENTENCES[:3, :5]
SCORES = [expected_score(), expected_score(0, FEW)]
"""The scores of :func:`make_loaders`."""


def make_loaders(*names: str) -> Any:
    """Two loaders, perhaps with names."""
    loaders = [make_loader(), make_loader(FEW)]
    return dict(zip(names, loaders)) if names else loaders


# Loaders


@pytest.mark.parametrize(
    ("options", "loaders", "names"),
    [
        ({}, make_loaders, ["dataloader_idx_0", "dataloader_idx_1"]),
        ({}, lambda: CombinedLoader(dict(zip([1, 2], make_loaders())), "sequential"), ["1", "2"]),
        ({"dataloader_names": ["one", "two"]}, lambda: make_loaders("a", "b"), ["one", "two"]),
    ],
    ids=["list", "combined", "given for a dict"],
)
def test_each_loader_has_a_score_and_the_mean_has_the_plain_name(
    options: dict[str, Any], loaders: Callable[[], Any], names: list[str], tmp_path: Path
) -> None:
    bleu = make_callback(**options)
    logged = validate(tmp_path, bleu, loaders=loaders())
    assert find_reports(bleu) == {f"val_bleu/{name}": report for name, report in zip(names, SCORES)}
    assert logged["val_bleu"] == bleu.results["val_bleu"].score == (SCORES[0].bleu + SCORES[1].bleu) / 2
    assert bleu.results["val_bleu"].parts == {}


def test_loaders_that_lightning_reads_side_by_side_are_one(tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return return_ids(torch.cat([batch["a"], batch["b"]]), epoch)

    loaders = CombinedLoader({"a": make_loader(), "b": make_loader()}, "min_size")
    logged = validate(tmp_path, make_callback(parts=["hypothesis_length"]), step=step, loaders=loaders)
    assert logged["val_bleu"] == SCORES[0].bleu
    assert logged["val_bleu/hypothesis_length"] == 2 * SENTENCES.numel()


def test_extract_may_take_the_index_of_the_loader(tmp_path: Path) -> None:
    def extract(outputs: Any, batch: Tensor, dataloader_idx: int) -> tuple[Tensor, Tensor]:
        return (outputs["preds"], batch) if dataloader_idx else (batch, batch)

    logged = validate(tmp_path, make_callback(extract=extract), loaders=make_loaders())
    assert logged["val_bleu/dataloader_idx_0"] == 1  # the batch as its own translation
    assert logged["val_bleu/dataloader_idx_1"] == SCORES[1].bleu


@pytest.mark.parametrize("returned", [None, 5.0, {"loss": 1.0}, ("a", "b"), {"preds": [1], "target": "x", "group": 5}])
def test_the_steps_of_a_loader_that_is_not_in_only_return_anything(returned: Any, tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return return_ids(batch, epoch) if len(batch) > 1 else returned

    def extract(outputs: Any, batch: Tensor, dataloader_idx: int) -> Any:
        assert dataloader_idx == 0
        return outputs

    loaders = {"gen": make_loader(), "other": make_loader(SENTENCES[:3], batch_size=1)}
    for function in (None, extract):
        folder = tmp_path / f"{function is None}"
        bleu = make_callback(only=["gen"], extract=function, translations=folder, confidence=0.9, compare_to="best")
        logged = validate(tmp_path, bleu, step=step, loaders=loaders)
        assert logged["val_bleu"] == logged["val_bleu/gen"] == SCORES[0].bleu
        assert not [name for name in logged if "other" in name]
        assert [path.name for path in (folder / "val" / "step-0000000").iterdir() if path.is_dir()] == ["gen"]


# Groups


def return_sentences(batch: Tensor, epoch: int) -> dict[str, Any]:
    preds, target = return_text(batch, epoch)
    return {"preds": preds, "target": target, "source": [line[::-1] for line in target]}


def test_a_group_may_have_the_name_of_a_loader(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return return_sentences(batch, epoch) | {"group": ["de" if one[0] % 2 else "zh" for one in batch]}

    def run(*only: str) -> set[str]:
        bleu = BLEUCallback({"m": CorpusCHRF()}, only=only or None)
        return {*validate(tmp_path, bleu, step=step, loaders=make_loaders("de", "zh"))}

    everything = {"val_m"} | {
        f"val_m/{loader}{group}" for loader in ("de", "zh") for group in ("", "/de", "/zh", "/mean")
    }
    assert run() == everything
    assert run("zh") == {"val_m", *(name for name in everything if name.startswith("val_m/zh"))}
    assert run("zh/de", "de/zh") == {"val_m", "val_m/zh", "val_m/zh/de", "val_m/de", "val_m/de/zh"}
