"""What the callback asks of a trainer: which other callbacks monitor a score in a wrong way."""

from __future__ import annotations

from typing import Any

import pytest
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint

from lightning_bleu import CorpusBLEU, CorpusCHRF
from lightning_bleu.training.metrics import AnyMetric, wrap_metric
from lightning_bleu.training.trainer import suspect_monitors
from tests.helpers.callback_metrics import make_metrics

METRICS: dict[str, AnyMetric] = {
    "val_bleu": wrap_metric("bleu", CorpusBLEU(percent=True)),
    "test_bleu": wrap_metric("bleu", CorpusBLEU(percent=True)),
    "val_chrf": wrap_metric("chrf", CorpusCHRF()),
    **{f"val_{name}": wrap_metric(name, one) for name, one in make_metrics("ter", "rouge", "both", "errors").items()},
}


@pytest.mark.parametrize(
    ("monitor", "right"),
    [
        ("val_bleu", "max"),
        ("test_bleu", "max"),
        ("val_bleu/news", "max"),
        ("val_bleu/precision_1", "max"),
        ("val_bleu/best", "max"),
        ("val_bleu/difference_low", "max"),
        ("val_bleu/news/low", "max"),
        ("val_rouge/rouge1_recall", "max"),
        ("val_ter", "min"),
        ("val_ter/news", "min"),
        ("val_errors", "min"),
    ],
)
@pytest.mark.parametrize("kind", [EarlyStopping, ModelCheckpoint])
def test_a_callback_must_not_prefer_worse_scores(kind: Any, monitor: str, right: str) -> None:
    wrong, worse, better = ("min", "low", "higher") if right == "max" else ("max", "high", "lower")
    message = (
        f"{kind.__name__}(monitor={monitor!r}, mode={wrong!r}) prefers a {worse} score, but {better} is better: "
        f"set mode={right!r}."
    )
    callbacks = [kind(monitor=monitor, mode=right), kind(monitor=monitor, mode=wrong)]
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
    callbacks = [EarlyStopping(monitor), ModelCheckpoint(monitor=monitor), ModelCheckpoint(), LearningRateMonitor()]
    assert list(suspect_monitors(callbacks, METRICS)) == []


@pytest.mark.parametrize(
    ("monitor", "threshold", "found"),
    [
        ("val_bleu", 0.9, "the score is in 0..100, because percent=True. Set stopping_threshold=90, or percent=False."),
        (
            "val_chrf/a",
            50.0,
            "the score is in 0..1, because percent=False. Set stopping_threshold=0.5, or percent=True.",
        ),
        ("val_bleu", 50.0, ""),
        ("val_bleu", None, ""),
        ("val_chrf", 0.5, ""),
        ("val_chrf", 1.0, ""),
        ("val_bleu/length_ratio", 0.9, ""),
        ("val_bleu/difference", 0.9, ""),
        ("val_bleu/hypothesis_length", 0.5, ""),
        ("val_loss", 0.5, ""),
        ("val_rouge", 50.0, ""),  # its scale is unknown
    ],
)
def test_a_threshold_is_in_the_unit_of_the_score(monitor: str, threshold: float | None, found: str) -> None:
    stopping = EarlyStopping(monitor, mode="max", stopping_threshold=threshold)
    message = f"EarlyStopping(monitor={monitor!r}, stopping_threshold={threshold}): {found}"
    assert list(suspect_monitors([stopping], METRICS)) == [message] * bool(found)
