"""What the callback asks of a trainer: which other callbacks monitor a score in a wrong way."""

from __future__ import annotations

from typing import Any

import pytest
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU
from lightning_bleu.training.metrics import AnyMetric, Counted, OfText
from lightning_bleu.training.trainer import suspect_monitors
from tests.helpers.others import MAKE

METRICS: dict[str, AnyMetric] = {
    "val_bleu": Counted("bleu", CorpusBLEU(percent=True)),
    "test_bleu": Counted("bleu", CorpusBLEU(percent=True)),
    "val_ter": OfText("ter", TER()),
    "val_both": OfText("both", MAKE["both"]()),
}


@pytest.mark.parametrize(
    "monitor", ["val_bleu", "test_bleu", "val_bleu/news", "val_bleu/precision_1", "val_bleu/best", "val_bleu/news/low"]
)
@pytest.mark.parametrize("kind", [EarlyStopping, ModelCheckpoint])
def test_a_callback_must_not_prefer_a_low_score(kind: Any, monitor: str) -> None:
    message = (
        f"{kind.__name__}(monitor={monitor!r}, mode='min') prefers a low score, but higher is better: set mode='max'."
    )
    callbacks = [kind(monitor=monitor, mode="max"), kind(monitor=monitor)]  # "min" is the default of both
    assert list(suspect_monitors(callbacks, METRICS)) == [message]


def test_a_callback_must_not_prefer_a_high_score_if_lower_is_better() -> None:
    callbacks = [EarlyStopping("val_ter/news", mode="max"), EarlyStopping("val_ter/news", mode="min")]
    message = (
        "EarlyStopping(monitor='val_ter/news', mode='max') prefers a high score, but lower is better: set mode='min'."
    )
    assert list(suspect_monitors(callbacks, METRICS)) == [message]


@pytest.mark.parametrize(
    "monitor",
    [
        "val_loss",
        "val_both",  # higher is better for one of them
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
    assert list(suspect_monitors([EarlyStopping(monitor), ModelCheckpoint(monitor=monitor)], METRICS)) == []


def test_a_callback_need_not_monitor_anything() -> None:
    assert list(suspect_monitors([ModelCheckpoint(), LearningRateMonitor()], METRICS)) == []


@pytest.mark.parametrize(
    ("monitor", "percent", "threshold", "better"),
    [
        ("val_bleu", True, 0.9, 90),
        ("val_bleu/precision_1", False, 50.0, 0.5),
        ("val_bleu", True, 50.0, None),
        ("val_bleu", False, 0.5, None),
        ("val_bleu", False, 1.0, None),
        ("val_bleu", True, None, None),
        ("val_bleu/length_ratio", True, 0.9, None),
        ("val_bleu/hypothesis_length", False, 500.0, None),
        ("val_loss", True, 0.5, None),
        ("val_ter", True, 0.5, None),  # its scale is unknown
    ],
)
def test_a_threshold_is_in_the_unit_of_the_score(
    monitor: str, percent: bool, threshold: float | None, better: float | None
) -> None:
    metrics = METRICS | {"val_bleu": Counted("bleu", CorpusBLEU(percent=percent))}
    mode = "min" if "ter" in monitor else "max"
    found = list(suspect_monitors([EarlyStopping(monitor, mode=mode, stopping_threshold=threshold)], metrics))
    assert found == (
        []
        if better is None
        else [
            f"EarlyStopping(monitor={monitor!r}, stopping_threshold={threshold}): the score is in "
            f"0..{100 if percent else 1}, because percent={percent}. Set stopping_threshold={better:g}, or "
            f"percent={not percent}."
        ]
    )
