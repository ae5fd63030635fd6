"""Statistics → chrF: the F-score of matching n-grams of characters and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.counting.chrf import count_chrf_rows
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.scoring import Report, Scoring, float_type
from lightning_bleu.scoring.signature import InputCounts, join_signature
from lightning_bleu.settings.chrf import CHRFSettings

_EPSILON = 1e-16


def chrf_rows(batch: Batch, settings: CHRFSettings) -> IntArray:
    """The statistics of every sentence. Of several references, the one with the highest score counts.

    Args:
        batch: the sentences, as text.
        settings: what to count, and how to score.

    Returns:
        shape ``(sentences, 3 * orders)``; see :func:`lightning_bleu.counting.chrf.count_chrf_rows`.
    """
    rows, counts = count_chrf_rows(batch, settings), batch.reference_counts
    if len(rows) == len(counts):
        return rows
    return rows[_first_best(f_score(torch.from_numpy(rows), settings).numpy(), counts)]


def _first_best(scores: npt.NDArray[Any], counts: IntArray) -> IntArray:
    """The index of the best reference of each sentence, the first one on a tie.

    Example:
        >>> _first_best(np.array([0.1, 0.3, 0.3, 0.2]), np.array([3, 1])).tolist()
        [1, 3]
    """
    starts = counts.cumsum() - counts
    best = np.maximum.reduceat(scores, starts).repeat(counts)
    indices = np.where(scores == best, np.arange(len(scores)), len(scores))
    first: IntArray = np.minimum.reduceat(indices, starts)
    return first


def f_score(statistics: Tensor, settings: CHRFSettings) -> Tensor:
    """The F-scores of corpora or sentences, in percent.

    Operations are in sacreBLEU's order, so that scores equal its scores to the last bit.

    Args:
        statistics: numbers of shape ``(..., 3 * orders)``; see
            :func:`lightning_bleu.counting.chrf.count_chrf_rows`.
        settings: how to score.

    Returns:
        shape ``(...)``.

    Example:
        >>> f_score(torch.tensor([4, 4, 3, 3, 3, 2]), CHRFSettings.from_options(char_order=2))
        tensor(70.8333, dtype=torch.float64)
    """
    factor = settings.beta**2
    if settings.eps_smoothing:
        precisions, recalls, _ = _ratios(statistics, _EPSILON)
        denominators = factor * precisions + recalls
        scores = ((1 + factor) * precisions * recalls / denominators).where(denominators > 0, _EPSILON)
        return 100 * _sum(scores) / settings.orders
    precision, recall = _averages(statistics)
    scores = (1 + factor) * precision * recall / (factor * precision + recall)
    return 100 * scores.where(precision + recall > 0, 0)


def _averages(statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Precision and recall, averaged over the orders for which both sides have n-grams."""
    precisions, recalls, there = _ratios(statistics, 0.0)
    orders = there.sum(-1).clamp(min=1)
    return _sum(precisions.where(there, 0)) / orders, _sum(recalls.where(there, 0)) / orders


def _ratios(statistics: Tensor, without: float) -> tuple[Tensor, Tensor, Tensor]:
    """Precision and recall of each order, `without` n-grams, and whether both sides have some."""
    triples = statistics.to(float_type(statistics.device)).reshape(*statistics.shape[:-1], statistics.shape[-1] // 3, 3)
    hypothesis, reference, matches = triples.unbind(-1)
    precisions = (matches / hypothesis).where(hypothesis > 0, without)
    recalls = (matches / reference).where(reference > 0, without)
    return precisions, recalls, (hypothesis > 0) & (reference > 0)


def _sum(values: Tensor) -> Tensor:
    # Added from the first to the last order, unlike Tensor.sum.
    total = values[..., 0]
    for n in range(1, values.shape[-1]):
        total = total + values[..., n]
    return total


def chrf_scoring(settings: CHRFSettings) -> Scoring:
    """How statistics become chrF."""

    def score(statistics: Tensor) -> Tensor:
        return f_score(statistics, settings) / (1 if settings.percent else 100)

    return Scoring(settings.name, score, settings.percent, score)


def chrf_signature(settings: CHRFSettings, inputs: InputCounts) -> str:
    """Name everything that a chrF score depends on, in one line. (The beta is part of the name of the score.)

    Example:
        >>> inputs = InputCounts(strings=3, references=6, squared_references=12)
        >>> chrf_signature(CHRFSettings.from_options(word_order=2), inputs).split("|version")[0]
        'nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no'
    """
    return join_signature(
        {
            "nrefs": inputs.reference_count,
            "case": "lc" if settings.lowercase else "mixed",
            "eff": "no" if settings.eps_smoothing else "yes",
            "nc": settings.char_order,
            "nw": settings.word_order,
            "space": "yes" if settings.whitespace else "no",
        }
    )


class CHRFScore(Report):
    """A corpus chrF score, a float, with its components. ``str(...)`` is the line sacreBLEU prints.

    Attributes:
        score: 0..1, or 0..100 if ``percent``.
        precision: averaged over the orders for which hypotheses and references have n-grams, in the same unit.
        recall: the same of recall.
        matches: n-grams that match, for each order of characters, then of words.
        hypothesis_counts: n-grams of the hypotheses (without those of orders that the reference of a sentence lacks).
        reference_counts: n-grams of the references; of several references, of the one with the highest score.
        name: the name of the score, such as ``"chrF2++"``.
        signature: everything else that the score depends on.
        percent: whether scores are in 0..100.

    Example:
        >>> from lightning_bleu import corpus_chrf
        >>> result = corpus_chrf(["a cat is on the mat"], [["the cat is on the mat", "there is a cat on the mat"]])
        >>> print(result)
        chrF2 = 79.81
        >>> result.matches
        (13, 12, 11, 10, 9, 8)
    """

    score: float
    precision: float
    recall: float
    matches: tuple[int, ...]
    hypothesis_counts: tuple[int, ...]
    reference_counts: tuple[int, ...]
    name: str
    signature: str
    percent: bool

    @classmethod
    def from_statistics(cls, statistics: Tensor, settings: CHRFSettings, signature: str) -> CHRFScore:
        """Score a corpus from its statistics, integers of shape ``(3 * orders,)``."""
        statistics = statistics.cpu()
        precision, recall = _averages(statistics)
        hypothesis, reference, matches = statistics.reshape(-1, 3).unbind(-1)
        return cls(
            score=chrf_scoring(settings).score(statistics).item(),
            precision=settings.scale * precision.item(),
            recall=settings.scale * recall.item(),
            matches=tuple(matches.tolist()),
            hypothesis_counts=tuple(hypothesis.tolist()),
            reference_counts=tuple(reference.tolist()),
            name=settings.name,
            signature=signature,
            percent=settings.percent,
        )

    def parts(self) -> dict[str, float]:
        """The components that a callback logs, by the last part of their names."""
        return {"precision": self.precision, "recall": self.recall}

    def __str__(self) -> str:
        return f"{self.name} = {(1 if self.percent else 100) * self.score:.2f}"
