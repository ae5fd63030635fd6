"""Measure the share of validation time that BLEUCallback takes, while training examples/train_translation.py.

Run `python benchmarks/callback.py`, with any options of the example.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import train_translation

from lightning_bleu import BLEUCallback
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.record import Record

seconds: defaultdict[str, float] = defaultdict(float)
validations: list[float] = []


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that the time of each call is added to `seconds[name]`."""

    def run(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] += time.perf_counter() - start

    return run


class Validation(train_translation.Progress):
    """Times whole validations."""

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        super().on_validation_start(trainer, pl_module)
        self.start = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock."""
        validations.append(time.perf_counter() - self.start)
        super().on_validation_end(trainer, pl_module)


def main() -> None:
    """Train, and print the shares."""
    for owner, function, name in (
        (BLEUCallback, "on_validation_batch_end", "callback"),
        (BLEUCallback, "on_validation_epoch_end", "callback"),
        (Dashboard, "show", "dashboard"),
        (Record, "write", "files"),
    ):
        setattr(owner, function, timed(name, getattr(owner, function)))
    train_translation.Progress = Validation  # type: ignore[misc]
    train_translation.main(sys.argv[1:])
    seconds["BLEU"] = seconds["callback"] - seconds["dashboard"] - seconds["files"]
    total = sum(validations)
    print(f"\n{len(validations)} validations took {total:.1f} s, of which\n")
    for name in ("BLEU", "dashboard", "files"):
        per_validation = 1000 * seconds[name] / len(validations)
        print(f"- {name}: {seconds[name]:.2f} s, {per_validation:.0f} ms per validation, {seconds[name] / total:.1%}")


if __name__ == "__main__":
    main()
