"""Validations of any number of sentences: their batches, and what they take with the metric and with the callback.

Part of benchmarks/scale.py. Batches are reused in turn, so that they do not need the memory that is measured.
"""

from __future__ import annotations

import functools
import itertools
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytorch_lightning as pl
from corpora import make_corpus, sample_lengths
from processes import peak_increase
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lightning_bleu import BLEUCallback, CorpusBLEU

BATCH_SIZE = 256
DISTINCT_SENTENCES = 64 * BATCH_SIZE

Batch: TypeAlias = tuple[Tensor, Tensor]


def make_batches(sentences: int) -> list[Batch]:
    """The distinct batches of a validation of this many sentences."""
    return draw_sentences(min(sentences, DISTINCT_SENTENCES), BATCH_SIZE)


def draw_sentences(sentences: int, batch_size: int) -> list[Batch]:
    """Random sentences in batches."""
    lengths = sample_lengths("WMT22", sentences, np.random.default_rng(0))
    return make_corpus("", lengths, batch_size=batch_size).tensors


def time_metric(rank: int, sentences: int) -> tuple[float, float]:
    """The seconds and the memory of a validation."""
    batches = make_batches(sentences)

    def validate(sentences: int) -> None:
        metric = CorpusBLEU(pad_id=0)
        for preds, target in itertools.islice(itertools.cycle(batches), sentences // BATCH_SIZE):
            metric.update(preds, target)
        metric.compute()

    validate(4 * BATCH_SIZE)  # warms up
    start = time.perf_counter()
    memory = peak_increase(lambda: validate(sentences))
    return time.perf_counter() - start, memory


class Batches(Dataset[Batch]):
    """A dataset whose items are batches."""

    def __init__(self, batches: list[Batch], count: int) -> None:
        self.batches, self.count = batches, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index % len(self.batches)]


class Model(pl.LightningModule):
    """A model that takes no time."""

    def validation_step(self, batch: Batch, batch_idx: int) -> Any:
        """Return the hypotheses and the references."""
        return batch


class TimedCallback(BLEUCallback):
    """Adds up the time of its hooks."""

    seconds = 0.0


def timed(hook: Callable[..., None]) -> Callable[..., None]:
    """Add the time of each call of a hook to the callback's `seconds`."""

    @functools.wraps(hook)
    def run(self: TimedCallback, *args: Any, **kwargs: Any) -> None:
        start = time.perf_counter()
        hook(self, *args, **kwargs)
        self.seconds += time.perf_counter() - start

    return run


for _stage in ("epoch_start", "batch_end", "epoch_end"):
    setattr(TimedCallback, f"on_validation_{_stage}", timed(getattr(BLEUCallback, f"on_validation_{_stage}")))


def time_callback(rank: int, sentences: int, confidence: float | None, logs: bool) -> tuple[float, float, float]:
    """The seconds of a validation, those of the callback's hooks, and the memory."""
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    batches = make_batches(sentences)

    def validate(sentences: int) -> float:
        callback = TimedCallback(CorpusBLEU(pad_id=0), confidence=confidence)
        with tempfile.TemporaryDirectory() as folder:
            trainer = pl.Trainer(
                accelerator="cpu",
                devices=1,
                logger=TensorBoardLogger(folder) if logs else False,
                enable_progress_bar=False,
                enable_model_summary=False,
                callbacks=[callback],
            )
            loader = DataLoader(Batches(batches, sentences // BATCH_SIZE), batch_size=None)
            trainer.validate(Model(), loader, verbose=False)
        return callback.seconds

    validate(4 * BATCH_SIZE)  # warms up
    hooks: list[float] = []
    start = time.perf_counter()
    memory = peak_increase(lambda: hooks.append(validate(sentences)))
    return time.perf_counter() - start, hooks[0], memory
