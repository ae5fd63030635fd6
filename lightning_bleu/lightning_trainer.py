"""Access to the Trainer of Lightning, and to its private structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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


def is_limited(trainer: Any, stage: str) -> bool:
    """Whether only some batches of a stage run, because of ``limit_val_batches``, for example."""
    limit = trainer.limit_test_batches if stage == "test" else trainer.limit_val_batches
    return bool(trainer.fast_dev_run) or limit != 1.0 or isinstance(limit, int)
