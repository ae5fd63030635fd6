"""How much of a validation the callback takes: trains the example and times what BLEUCallback does.

python benchmarks/callback.py [options of examples/train_translation.py]
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

from lightning_bleu import BLEUCallback, callback

seconds: defaultdict[str, float] = defaultdict(float)


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the time of each call to what the name has taken so far."""

    def run(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] += time.perf_counter() - start

    return run


class Validation(pl.Callback):
    """Times validations as a whole."""

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop it."""
        seconds["validation"] += time.perf_counter() - self.start


def main() -> None:
    """Train, and print the shares."""
    for name in ("_update", "_finish"):
        setattr(BLEUCallback, name, timed("callback", getattr(BLEUCallback, name)))
    callback.show = timed("pictures", callback.show)
    make_trainer = train_translation.make_trainer
    train_translation.make_trainer = lambda args, batches, *callbacks: make_trainer(
        args, batches, Validation(), *callbacks
    )
    train_translation.main(["--callback", *sys.argv[1:]])
    seconds["BLEU"] = seconds["callback"] - seconds["pictures"]
    print(f"\nvalidations took {seconds['validation']:.1f} s; of that")
    for name in ("BLEU", "pictures"):
        print(f"  {name}: {seconds[name]:.2f} s, {seconds[name] / seconds['validation']:.1%}")


if __name__ == "__main__":
    main()
