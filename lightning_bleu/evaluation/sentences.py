"""The sentences of a loader in the order of the dataset: their texts, and their statistics. Only process 0 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.forms import InputCounts
from lightning_bleu.core.kept import count_inputs
from lightning_bleu.core.scoring import Scorer


@dataclass(frozen=True, eq=False)
class SentenceRows:
    """The rows of some sentences for one score, in order.

    Attributes:
        identity: what identifies each sentence; see :mod:`lightning_bleu.core.kept`.
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scorer: how they become scores.
    """

    identity: Tensor
    statistics: Tensor
    scorer: Scorer

    def __len__(self) -> int:
        return len(self.identity)

    def score(self) -> float:
        """The score of all of them."""
        return self.scorer.score(self.statistics.sum(0)).item()

    def score_sentences(self) -> Tensor:
        """The score of each sentence."""
        return self.scorer.score_sentences(self.statistics)

    def select(self, numbers: Sequence[int]) -> SentenceRows:
        """Some of the sentences, by their numbers."""
        index = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        return replace(self, identity=self.identity[index], statistics=self.statistics[index])

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        return count_inputs(self.identity)


@dataclass(frozen=True, eq=False)
class Sentences:
    """The sentences of a loader that count, of all processes, each once.

    They are numbered from 0, in the order of their positions, then of their groups.

    Attributes:
        loader: the name of the loader; empty if it has none.
        identity: what identifies each sentence; see :mod:`lightning_bleu.core.kept`.
        statistics: the rows of each metric, by its name; a metric of the whole corpus has none.
        texts: the texts of the first sentences, or of all.
        groups: the numbers of the sentences of each group, by its label.
        index: the positions that the step returned, shape ``(sentences,)``; None if it returned none.
    """

    loader: str
    identity: Tensor
    statistics: Mapping[str, Mapping[str, Tensor]]
    texts: Sequence[Sentence] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    index: Tensor | None = None

    def __len__(self) -> int:
        return len(self.identity)

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind, and of references."""
        return count_inputs(self.identity)
