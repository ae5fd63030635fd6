"""Likely mistakes in how a trainer is set up."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint

from lightning_bleu.training.mistakes import is_installed, minimized

SCORES = ("val_bleu", "test_bleu")


@pytest.mark.parametrize(
    "monitor", ["val_bleu", "test_bleu", "val_bleu/news", "val_bleu/precision_1", "val_bleu/best", "val_bleu/news/low"]
)
@pytest.mark.parametrize("kind", [EarlyStopping, ModelCheckpoint])
def test_a_callback_must_not_prefer_a_low_score(kind: Any, monitor: str) -> None:
    message = (
        f"{kind.__name__}(monitor={monitor!r}, mode='min') prefers a low BLEU, but higher is better: set mode='max'."
    )
    callbacks = [kind(monitor=monitor, mode="max"), kind(monitor=monitor)]  # "min" is the default of both
    assert list(minimized(callbacks, SCORES)) == [message]


@pytest.mark.parametrize(
    "monitor",
    [
        "val_loss",
        "train_bleu",
        "val_bleu2",
        "val_bleurt/news",
        "val_bleu/p_value",
        "val_bleu/news/p_value",
        "val_bleu/hypothesis_length",
        "val_bleu/news/reference_length",
    ],
)
def test_a_callback_may_prefer_a_low_value_of_anything_else(monitor: str) -> None:
    assert list(minimized([EarlyStopping(monitor), ModelCheckpoint(monitor=monitor)], SCORES)) == []


def test_a_callback_need_not_monitor_anything() -> None:
    assert list(minimized([ModelCheckpoint(), LearningRateMonitor()], SCORES)) == []


def test_a_module_that_takes_the_place_of_a_package_is_not_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))  # has no __spec__
    assert not is_installed("matplotlib")
