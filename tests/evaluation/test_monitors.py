"""Callbacks that monitor a score in a wrong way."""

from __future__ import annotations

from typing import Any

import pytest
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint

from lightning_bleu import CorpusBLEU, CorpusCHRF, FunctionMetric
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.monitors import suspect_monitors
from lightning_bleu.evaluation.names import STEPS, Naming
from lightning_bleu.evaluation.options import make_namings
from tests.helpers.callback_metrics import errors, exact, make_metrics

METRICS = {
    "bleu": CorpusBLEU(percent=True),
    "chrf": CorpusCHRF(),
    **make_metrics("ter", "rouge", "both", "errors", "page"),
    "rate": FunctionMetric(errors, higher_is_better=False, percent=True),
    "length": FunctionMetric(exact, higher_is_better=None),
}
READ_METRICS = read_metrics(METRICS)
NAMINGS = [Naming(stage) for stage in STEPS]


def suspect(*callbacks: Any) -> list[str]:
    return list(suspect_monitors(callbacks, [], NAMINGS, READ_METRICS, 0))


def preference(callback: Any, right: str) -> str:
    """The warning about a callback whose mode should be another one."""
    worse, better = ("low", "higher") if right == "max" else ("high", "lower")
    prefers = f"{type(callback).__name__}(monitor={callback.monitor!r}, mode={callback.mode!r}) prefers a {worse} score"
    if "page" in callback.monitor and not callback.monitor.endswith("low"):
        other = f"FunctionMetric(page, higher_is_better={right == 'min'})"
        return f"{prefers}, but for a function, {better} is better: set mode={right!r}, or pass {other}."
    return f"{prefers}, but {better} is better: set mode={right!r}."


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
        ("val_errors/difference_high", "min"),
        ("val_page/rate", "min"),
        ("val_page/news/rate/low", "min"),
        ("val_page/exact", "max"),
    ],
)
@pytest.mark.parametrize("kind", [EarlyStopping, ModelCheckpoint])
def test_a_callback_must_not_prefer_worse_scores(kind: Any, monitor: str, right: str) -> None:
    wrong = kind(monitor=monitor, mode="min" if right == "max" else "max")
    assert suspect(kind(monitor=monitor, mode=right), wrong) == [preference(wrong, right)]


@pytest.mark.parametrize(
    "monitor",
    [
        "val_loss",
        "val_both",  # higher is better for one of them
        "val_page",
        "val_length",
        "val_length/news/low",
        "train_bleu",
        "val_bleu2",
        "val_bleu/p_value",
        "val_bleu/hypothesis_length",
        "val_bleu/news/reference_length",
    ],
)
def test_a_callback_may_prefer_a_low_value_of_anything_else(monitor: str) -> None:
    callbacks = [EarlyStopping(monitor), ModelCheckpoint(monitor=monitor), ModelCheckpoint(), LearningRateMonitor()]
    assert suspect(*callbacks) == []


IN_PERCENT = "the score is in 0..100, because percent=True. Set stopping_threshold=90, or percent=False."


@pytest.mark.parametrize(
    ("monitor", "threshold", "expected"),
    [
        ("val_bleu", 0.9, IN_PERCENT),
        ("val_bleu/news/best", 0.9, IN_PERCENT),
        (
            "val_chrf/a",
            50.0,
            "the score is in 0..1, because percent=False. Set stopping_threshold=0.5, or percent=True.",
        ),
        ("val_bleu", None, ""),
        ("val_chrf", 1.0, ""),
        ("val_bleu/length_ratio", 0.9, ""),
        ("val_bleu/difference", 0.9, ""),
        ("val_bleu/hypothesis_length", 0.5, ""),
        ("val_loss", 0.5, ""),
        ("val_rouge", 50.0, ""),  # its scale is unknown
    ],
)
def test_a_threshold_is_in_the_unit_of_the_score(monitor: str, threshold: float | None, expected: str) -> None:
    stopping = EarlyStopping(monitor, mode="max", stopping_threshold=threshold)
    message = f"EarlyStopping(monitor={monitor!r}, stopping_threshold={threshold}): {expected}"
    assert suspect(stopping) == [message] * bool(expected)


def test_a_threshold_of_a_function_in_percent_is_in_percent() -> None:
    low, right = (EarlyStopping("val_rate", mode="min", stopping_threshold=threshold) for threshold in (0.25, 25.0))
    (message,) = suspect(low, right)
    assert message == (
        "EarlyStopping(monitor='val_rate', stopping_threshold=0.25): the score is in 0..100, because percent=True. Set "
        "stopping_threshold=25, or percent=False."
    )


@pytest.mark.parametrize(
    ("naming", "monitor"),
    [
        (Naming("val", "{stage}/{metric}"), "val/page/news/rate/low"),
        (make_namings("my_{metric}")["val"], "my_page/rate"),
        (make_namings("my_{metric}")["test"], "test_my_page/rate"),
        (Naming("eval", "{stage}_{metric}", "_"), "eval_page_news_rate_low"),
        (Naming("eval_news", "{stage}_{metric}", "_"), "eval_news_page_rate"),
    ],
)
def test_a_monitor_is_read_as_names_are_written(naming: Naming, monitor: str) -> None:
    stopping = EarlyStopping(monitor, mode="max")
    namings = [Naming("other"), naming]
    assert list(suspect_monitors([stopping], [], namings, READ_METRICS, 0)) == [preference(stopping, "min")]
