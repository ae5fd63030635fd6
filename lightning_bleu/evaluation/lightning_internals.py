"""What is read of Lightning that is not public: all of it, so that a new version is checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
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


def restart_validation(checkpoint: Mapping[str, Any]) -> None:
    """Let a validation in which a checkpoint was saved begin again.

    Lightning counts the batches that had been validated, and validates only so many as were left, from the first one.
    """
    progress = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_loop.val_loop.batch_progress", {})
    counts = progress.get("current", {})
    counts.update(dict.fromkeys(counts, 0))


def logged_names(trainer: Any) -> set[str]:
    """The names that the module and other callbacks have logged so far in this validation or test."""
    items = trainer._results.valid_items()
    return {trainer._results._forked_name(item, on_step=False)[0] for _, item in items if item.meta.on_epoch}


def logged_step(trainer: Any) -> int:
    """The step at which Lightning logs the scores, which is one less than the number of steps taken."""
    return int(trainer.fit_loop.epoch_loop._batches_that_stepped)


def saving_steps(callback: Any) -> int:
    """After how many training steps a ``ModelCheckpoint`` saves; 0 if it does not count them."""
    return getattr(callback, "_every_n_train_steps", 0)


def is_wrapped_sampler(sampler: Any) -> bool:
    """Whether this is a sampler of Lightning that deals the items of another one to processes."""
    kind = type(sampler)
    return kind.__name__ == "DistributedSamplerWrapper" and kind.__module__.startswith("lightning")


def unwrap_sampler(sampler: Any) -> Any:
    """The sampler whose items :func:`is_wrapped_sampler` deals."""
    return getattr(sampler.dataset, "_sampler", sampler)
