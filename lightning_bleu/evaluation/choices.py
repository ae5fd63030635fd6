"""Which sentences to look at: the first, the worst, and those that changed most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.evaluation.sentences import GatheredSentences, Sentence, SentenceRows
from lightning_bleu.evaluation.validation import ScoredSubset
from lightning_bleu.scoring.scoring import Scoring

_ROUNDING = 1e-9
"""How far from perfect a perfect score may be, relatively."""


def find_worst(statistics: Tensor, scoring: Scoring, count: int) -> list[int]:
    """The sentences with the worst scores; of BLEU, the worst for their length. Perfect sentences are not among them.

    Args:
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scoring: how to score them, the attribute `scoring` of the metric.
        count: the number of sentences.

    Returns:
        the numbers of the sentences, from 0, the worst first; an empty list for a score without a direction.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d", "a b x y", "a b c x"], ["a b c d"] * 3)
        >>> find_worst(bleu.sentence_statistics(), bleu.scoring, 2)
        [1, 2]
    """
    if scoring.higher_is_better is None:
        return []
    ranks = _rank(scoring, statistics)
    order = ranks.argsort(stable=True, descending=not scoring.higher_is_better)
    is_perfect = _find_perfect(scoring, statistics)
    numbers: list[int] = order[~is_perfect[order]][:count].tolist()
    return numbers


def _find_perfect(scoring: Scoring, statistics: Tensor) -> Tensor:
    """Which sentences have the best possible score; none if that is unknown. Shape ``(sentences,)``."""
    if scoring.perfect is None:
        return torch.zeros(len(statistics), dtype=torch.bool, device="cpu")
    scores = scoring.score_sentences(statistics).double()
    missing = scoring.sign * (scoring.perfect - scores)
    return missing <= _ROUNDING * max(1.0, abs(scoring.perfect))


def find_changed(a: SentenceRows, b: SentenceRows, count: int) -> tuple[list[int], list[int]]:
    """The sentences that the first system translates worse, and those that it translates better.

    Returns:
        the numbers of the sentences, from 0, at most `count` of each, those that changed most first.
    """
    gains = find_gains(a, b)
    order = gains.argsort(stable=True)
    worse_in_a = order[gains[order] < 0]
    better_in_a = order[gains[order] > 0].flip(0)
    return worse_in_a[:count].tolist(), better_in_a[:count].tolist()


def find_gains(a: SentenceRows, b: SentenceRows) -> Tensor:
    """How much better the first system translates each sentence; below 0 if it translates it worse.

    Returns:
        shape ``(sentences,)``. BLEU ranks with averages, here those of both systems.
    """
    ranks = _rank(a.scoring, torch.cat([a.statistics, b.statistics]))
    ranks_a, ranks_b = ranks.chunk(2)
    return (ranks_a - ranks_b) * a.scoring.sign


def _rank(scoring: Scoring, statistics: Tensor) -> Tensor:
    """What sentences are ranked by: their scores, unless the scoring says otherwise."""
    rank = scoring.rank_sentences or scoring.score_sentences
    return rank(statistics)


class ChosenSentences(NamedTuple):
    """The sentences to show, by their numbers, from 0.

    Attributes:
        ranked_by: the name of the score that ranks them; empty if none does.
        first: the first sentences of the dataset.
        worst: the worst sentences, the worst first.
    """

    ranked_by: str
    first: Mapping[int, Sentence]
    worst: Mapping[int, Sentence]


def choose_sentences(subset: ScoredSubset[GatheredSentences], count: int) -> ChosenSentences:
    """The first sentences and the worst, for the first score that ranks sentences. Collective.

    Args:
        subset: the scored sentences.
        count: how many sentences to choose, both of the first and of the worst.

    Returns:
        the texts in process 0; nothing in the others.
    """
    readable = subset.sentences.readable
    first = readable[:count]
    worst: list[int] = []
    ranked_by = ""
    for key, rows in subset.rows.items():
        if rows.scoring.sign:
            ranked_by = key
            worst = [readable[number] for number in find_worst(rows.statistics[readable], rows.scoring, count)]
            break
    texts = subset.sentences.read([*first, *worst])
    return ChosenSentences(ranked_by, dict(zip(first, texts)), dict(zip(worst, texts[len(first) :])))
