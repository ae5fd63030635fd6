"""Rows of systems, their paired test, and how resamples are drawn, in plain code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.core.scoring import Scorer, count_sentences
from lightning_bleu.core.significance import PairedTest, paired_test_of, score_resamples, sum_resamples
from tests.helpers.systems import DEFAULTS, TARGET

SCORER = BLEUScorer(BLEUSettings.from_options(**DEFAULTS))
"""How the systems of :mod:`tests.helpers.systems` are scored."""


def count_rows(preds: Any, target: Any = TARGET, scorer: Any = SCORER) -> Tensor:
    """The statistics of each sentence of a system."""
    rows, _ = count_sentences(preds, target, scorer)
    return rows.double()


def resample_scores(systems: list[Tensor], scorer: Scorer, resamples: int, seed: int) -> Tensor:
    """The scores of systems, and of their resamples."""
    return score_resamples(systems, sum_resamples(systems, resamples, seed), scorer)


def run_paired_test(
    a: Tensor, b: Tensor, scorer: Scorer = SCORER, resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> PairedTest:
    """The paired bootstrap of two systems."""
    return paired_test_of(resample_scores([a, b], scorer, resamples, seed), scorer, confidence)


def draw_resamples(trials: int, sentences: int, seed: int) -> npt.NDArray[np.int64]:
    """The numbers of the sentences of each resample, shape ``(trials, sentences)``."""
    return np.random.default_rng(seed).integers(sentences, size=(trials, sentences))
