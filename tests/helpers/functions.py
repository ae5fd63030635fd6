"""Functions as metrics: a corpus of numbered sentences, functions that score it, and their scores computed plainly."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from lightning_bleu import BLEUCallback

WORDS = ["The", "cat", "sat", "on", "a", "mat,", "while", "two", "dogs", "ran."]


def source_of(item: int) -> str:
    """The source of a sentence."""
    return f"Satz {item}."


def references_of(item: int) -> list[str]:
    """One or two references of a sentence."""
    rng = random.Random(item)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(rng.randint(1, 2))]


def translate(item: int, epoch: int = 0) -> str:
    """A hypothesis: a reference with wrong words."""
    rng = random.Random(f"{item} {epoch}")
    return " ".join(word if rng.random() < 0.6 else "else" for word in references_of(item)[-1].split())


def return_sentences(batch: Tensor, epoch: int) -> dict[str, Any]:
    """A step for batches of numbers of sentences."""
    items = batch.tolist()
    return {
        "preds": [translate(item, epoch) for item in items],
        "target": [references_of(item) for item in items],
        "source": [source_of(item) for item in items],
    }


def return_single(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with one reference for each sentence."""
    return return_sentences(batch, epoch) | {"target": [references_of(item)[-1] for item in batch.tolist()]}


def is_counted(item: int) -> bool:
    """Whether :func:`return_masked` counts a sentence."""
    return item % 3 != 0


def return_masked(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with a mask."""
    mask = torch.tensor([is_counted(item) for item in batch.tolist()])
    return return_sentences(batch, epoch) | {"sample_mask": mask}


def return_indexed(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with positions."""
    return return_sentences(batch, epoch) | {"index": batch}


def group_of(item: int) -> str:
    """The group of a sentence."""
    return "odd" if item % 2 else "even"


def return_grouped(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with groups."""
    return return_sentences(batch, epoch) | {"group": [group_of(item) for item in batch.tolist()]}


def value_of(hypothesis: str, references: Sequence[str], source: str = "") -> float:
    """A number that depends on every character."""
    return zlib.crc32(repr((hypothesis, [*references], source)).encode()) / 2**32


def checksum(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A number per sentence from hypothesis, references, and source."""
    return [value_of(*one) for one in zip(hypotheses, references, sources, strict=True)]


def exact(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """Whether a hypothesis is one of its references."""
    return [float(one in own) for one, own in zip(hypotheses, references, strict=True)]


def errors(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """The number of wrong words, where less is better."""
    return [float(one.split().count("else")) for one in hypotheses]


errors.higher_is_better = False  # type: ignore[attr-defined]


def values_of(items: Sequence[int], epoch: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What :func:`checksum` gives to sentences."""
    return np.array([value_of(translate(item, epoch), references_of(item), source_of(item)) for item in items])


def resampled_means(values: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> np.ndarray[Any, Any]:
    """The means of 1,000 bootstrap resamples, one sentence after the other."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(values), (1000, len(values)), generator=generator, dtype=torch.int32).numpy()
    return np.array([math.fsum(values[row]) / len(row) for row in drawn])


def expected_scores(labels: Mapping[str, Sequence[int]], epochs: int = 3) -> list[dict[str, float]]:
    """What each validation logs of :func:`checksum`, with 95% intervals and comparisons, without this package's code.

    Args:
        labels: the numbers of the sentences of each label, in order; a single label without a name is ``""``.
        epochs: the number of validations.
    """
    logged: list[dict[str, float]] = []
    best: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}

    def all_means(values: Mapping[str, np.ndarray[Any, Any]], resampled: bool) -> dict[str, Any]:
        own: dict[str, Any] = {
            f"val_f/{label}".rstrip("/"): resampled_means(one, seed) if resampled else math.fsum(one) / len(one)
            for seed, (label, one) in enumerate(values.items())
        }
        return own | {"val_f": sum(own.values()) / len(own)}

    for epoch in range(epochs):
        current = {label: values_of(items, epoch) for label, items in labels.items()}
        scores, resampled = all_means(current, False), all_means(current, True)
        expected = dict(scores)
        for tag, means in resampled.items():
            expected[f"{tag}/low"], expected[f"{tag}/high"] = np.quantile(means, [0.025, 0.975])
        p_values = dict.fromkeys(scores, 1.0)
        best_scores = scores
        if best:
            best_scores, best_resampled = all_means(best, False), all_means(best, True)
            for tag in scores:
                differences = np.abs(resampled[tag] - best_resampled[tag])
                by_chance = differences - differences.mean()
                reached = by_chance >= abs(scores[tag] - best_scores[tag]) - 1e-12
                p_values[tag] = (reached.sum() + 1) / 1001
        if not best or scores["val_f"] > best_scores["val_f"]:
            best, best_scores = current, scores
        for tag in scores:
            expected |= {f"{tag}/p_value": p_values[tag], f"{tag}/best": best_scores[tag]}
        logged.append(expected)
    return logged


class Logged(pl.Callback):
    """What the scores of each validation are, as they are logged."""

    def __init__(self) -> None:
        self.validations: list[dict[str, float]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.validations.append({key: value.item() for key, value in trainer.callback_metrics.items()})


def try_to(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The message of the error of a call; empty if there is none."""
    try:
        call(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def make_bleu_callback(function: Any = checksum, **options: Any) -> BLEUCallback:
    """A callback with a function, which logs ``val_f``."""
    return BLEUCallback({"f": function}, **options)
