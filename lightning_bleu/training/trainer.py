"""Access to the Trainer of Lightning, and to its private structure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lightning_bleu.training.metrics import AnyMetric

_LOWER_MAY_BE_WANTED = ("/p_value", "/hypothesis_length", "/reference_length")
"""Suffixes of logged names that a callback may legitimately minimize."""

_OTHER_UNITS = ("/length_ratio", "/brevity_penalty", "/difference", "/difference_low", "/difference_high")
"""Suffixes of logged names whose values are not on the scale of the score."""


def find_loaders(trainer: Any, stage: str) -> tuple[list[Any], Any]:
    """The loaders of a stage, ``"val"`` or ``"test"``.

    Returns:
        the loaders as Lightning prepared them, and as the user passed them, for example in a dict. An empty list and
        None if Lightning combines their batches.
    """
    validation = trainer.fit_loop.epoch_loop.val_loop if trainer.state.fn == "fit" else trainer.validate_loop
    combined = (trainer.test_loop if stage == "test" else validation)._combined_loader
    if combined is None or combined._mode != "sequential":
        return [], None
    return list(combined.flattened), combined.iterables


def run_folder(trainer: Any) -> Path:
    """The folder of a run, where Lightning puts the checkpoints as well.

    Raises:
        ValueError: if it is not on this machine.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    root = str((logger and logger.save_dir) or trainer.default_root_dir)
    if "://" in root:
        raise ValueError(f"translations=True needs a local folder for the run, got {root!r}: set translations='FOLDER'")
    if logger is None:
        return Path(root)
    version = logger.version if isinstance(logger.version, str) else f"version_{logger.version}"
    return Path(root, str(logger.name), version)


def logged_names(trainer: Any) -> set[str]:
    """The names that the module and other callbacks have logged so far in this validation or test."""
    items = trainer._results.valid_items()
    return {trainer._results._forked_name(item, on_step=False)[0] for _, item in items if item.meta.on_epoch}


def logged_step(trainer: Any) -> int:
    """The step at which Lightning logs the scores, which is one less than the number of steps taken."""
    return int(trainer.fit_loop.epoch_loop._batches_that_stepped)


def suspect_monitors(callbacks: Iterable[Any], metrics: Mapping[str, AnyMetric]) -> Iterator[str]:
    """Warn about callbacks that prefer worse scores, or that have a threshold of another scale.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` matter.
        metrics: the metrics by the logged names of their scores. Names below them, such as ``val_bleu/news``, are
            checked too.
    """
    for callback in callbacks:
        monitor, mode = str(getattr(callback, "monitor", "")), getattr(callback, "mode", None)
        threshold = getattr(callback, "stopping_threshold", None)
        metric = next((one for tag, one in metrics.items() if f"{monitor}/".startswith(f"{tag}/")), None)
        if metric is None or monitor.endswith(_LOWER_MAY_BE_WANTED):
            continue
        is_higher = next((one for part, one in metric.directions.items() if part in ("", *monitor.split("/"))), None)
        right = {True: "max", False: "min", None: mode}[is_higher]
        if mode in ("min", "max") and mode != right:
            worse, better = ("low", "higher") if is_higher else ("high", "lower")
            yield (
                f"{type(callback).__name__}(monitor={monitor!r}, mode={mode!r}) prefers a {worse} score, but "
                f"{better} is better: set mode={right!r}."
            )
        scale = None if monitor.endswith(_OTHER_UNITS) else metric.scale
        if scale and isinstance(threshold, int | float) and threshold > 0 and (threshold <= 1) == (scale > 1):
            yield (
                f"{type(callback).__name__}(monitor={monitor!r}, stopping_threshold={threshold}): the score is in "
                f"0..{scale:g}, because percent={scale > 1}. Set stopping_threshold="
                f"{threshold * 100 if scale > 1 else threshold / 100:g}, or percent={scale == 1}."
            )
