"""Which sentences are shown: the first and the worst of a validation, and those that differ between two systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.scores.validation import ScoredLoader

TextsT = TypeVar("TextsT")
_CANDIDATES = 4
"""The number of candidates per sentence that is shown, because repeats are dropped."""
_ROUNDING = 1e-9
"""How far from perfect a perfect score may be, relatively."""


def find_worst(statistics: Tensor, scorer: Scorer, count: int) -> list[int]:
    """The sentences with the worst scores; of BLEU, the worst for their length. Perfect sentences are not among them.

    Args:
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scorer: how to score them.
        count: the number of sentences.

    Returns:
        the numbers of the sentences, from 0, the worst first; an empty list for a score without a direction.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.core.evaluator_metric import count_sentences
        >>> bleu = CorpusBLEU()
        >>> rows, _ = count_sentences(["a b c d", "a b x y", "a b c x"], ["a b c d"] * 3, bleu.scorer)
        >>> find_worst(rows, bleu.scorer, 2)
        [1, 2]
    """
    if scorer.higher_is_better is None:
        return []
    ranks = scorer.rank_sentences(statistics)
    order = ranks.argsort(stable=True, descending=not scorer.higher_is_better)
    is_perfect = _find_perfect(scorer, statistics)
    numbers: list[int] = order[~is_perfect[order]][:count].tolist()
    return numbers


def _find_perfect(scorer: Scorer, statistics: Tensor) -> Tensor:
    """Which sentences have the best possible score; none if that is unknown. Shape ``(sentences,)``."""
    if scorer.perfect is None:
        return torch.zeros(len(statistics), dtype=torch.bool, device="cpu")
    scores = scorer.score_sentences(statistics).double()
    missing = scorer.sign * (scorer.perfect - scores)
    return missing <= _ROUNDING * max(1.0, abs(scorer.perfect))


def find_changed(a: SentenceRows, b: SentenceRows, count: int) -> tuple[list[int], list[int]]:
    """The sentences that the first system translates worse, and those that it translates better.

    Returns:
        the numbers of the sentences, from 0, at most `count` of each, those that changed most first.
    """
    gains = find_gains(a, b)
    order = gains.argsort(stable=True)
    worse_in_a = order[gains[order] < 0]
    order = gains.argsort(stable=True, descending=True)
    better_in_a = order[gains[order] > 0]
    return worse_in_a[:count].tolist(), better_in_a[:count].tolist()


def find_gains(a: SentenceRows, b: SentenceRows) -> Tensor:
    """How much better the first system translates each sentence; below 0 if it translates it worse.

    Returns:
        shape ``(sentences,)``. BLEU ranks with averages, here those of both systems.
    """
    ranks = a.scorer.rank_sentences(torch.cat([a.statistics, b.statistics]))
    ranks_a, ranks_b = ranks.chunk(2)
    return (ranks_a - ranks_b) * a.scorer.sign


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


def choose_sentences(loader: ScoredLoader, count: int) -> ChosenSentences:
    """The first sentences, and the worst by the first score that ranks sentences.

    Args:
        loader: the scored sentences.
        count: how many sentences to choose of each, at most.
    """
    texts = loader.sentences.texts
    ranked_by = next((key for key, rows in loader.rows.items() if rows.scorer.sign), "")
    worst: dict[int, Sentence] = {}
    if ranked_by:
        rows = loader.rows[ranked_by]
        for number in find_worst(rows.statistics[: len(texts)], rows.scorer, _CANDIDATES * count):
            worst[number] = texts[number]._replace(group=None, id=None)
    return ChosenSentences(
        ranked_by,
        first=dict(enumerate(texts[:count])),
        worst={number: texts[number] for number in drop_repeats(worst, count)},
    )


def drop_repeats(texts: Mapping[int, TextsT], count: int) -> dict[int, TextsT]:
    """The first sentences with different texts: test sets of chats have the same sentence many times.

    Args:
        texts: the texts of sentences by their numbers.
        count: how many sentences to keep, at most.

    Example:
        >>> drop_repeats({7: ("a", "b"), 3: ("a", "b"), 5: ("a", "c")}, 2).keys()
        dict_keys([7, 5])
    """
    distinct: dict[int, TextsT] = {}
    for number, texts_of_sentence in texts.items():
        if len(distinct) < count and texts_of_sentence not in distinct.values():
            distinct[number] = texts_of_sentence
    return distinct
