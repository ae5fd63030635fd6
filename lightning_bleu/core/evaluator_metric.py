"""What an evaluator asks of a metric. Everything is local to a process; only the evaluator talks to the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, Sentence, Sources, eager, read_batch
from lightning_bleu.core.forms import Hypotheses, InputCounts, IntArray, References
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self


class EvaluatorMetric(ABC):
    """A metric of an evaluator, which knows it by a name.

    Either it counts each batch (`columns` is not 0), or it scores texts at the end (`columns` is 0). Both give rows to
    sentences, or, at the level of the corpus, a sum of rows. A :class:`Scorer` turns the sum of rows into a score.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> from lightning_bleu.core.scoring import RatioScorer
        >>> class SameLength(EvaluatorMetric):
        ...     # How many hypotheses have as many words as their first reference
        ...
        ...     columns = 2
        ...
        ...     def count_batch(self, name, batch, sources):
        ...         lengths = [(len(line.split()), len(lines[0].split())) for line, lines in batch.texts()]
        ...         return np.array([[own == other, 1] for own, other in lengths])
        ...
        ...     def scorer_of(self, name, score_name):
        ...         return RatioScorer(name, higher_is_better=True)
        ...
        ...     def plain_settings(self):
        ...         return {}
        >>> evaluator = Evaluator({"same_length": SameLength()}, confidence=0.95)
        >>> evaluator.start()
        >>> evaluator.update(["a b c", "a b", "a"] * 10, ["a b x", "a b c", "x"] * 10)
        >>> evaluator.finish(step=1)["val_same_length"]
        Result(0.6667, interval=(0.5000, 0.8333))

    Attributes:
        columns: the number of integers that :meth:`count_batch` gives to a sentence; 0 for a metric of texts.
        corpus_level: for a metric of texts: whether it needs those of all processes at once. Then sentences may have no
            rows.
        reading: how it reads ids; ``Settings()`` if that does not matter.
        takes_sources: whether it takes the sources of the sentences.
        counts_tokens: whether it counts tokens and ids as well as text.
        sensitive_to: what of a text changes its scores, as far as known: ``"case"``, ``"punctuation"``, and
            ``"subwords"``, their marks; ``"spaces"`` if words are found at spaces only, and ``"latin"`` if only the
            letters a to z count.
        score_names: the names of its scores, as far as they are known; ``""`` is that of a single one, or of all that
            are unknown.
    """

    columns: int = 0
    corpus_level: bool = False
    reading: Settings = Settings()
    takes_sources: bool = False
    counts_tokens: bool = False
    sensitive_to: Collection[str] = ("subwords",)
    score_names: Sequence[str] = ("",)

    @abstractmethod
    def scorer_of(self, name: str, score_name: str) -> Scorer:
        """How rows become one of its scores.

        Args:
            name: the name of the metric.
            score_name: the name of the score.
        """

    @abstractmethod
    def plain_settings(self) -> dict[str, Any]:
        """What its scores depend on, as plain values that can be compared with those of other processes."""

    @property
    def class_name(self) -> str:
        """The name of the class of what the user passed, for the record."""
        return type(self).__name__

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """The statistics of each sentence of a batch, shape ``(sentences, columns)``.

        Raises:
            TypeError, ValueError: if it cannot score the batch.
        """
        return np.zeros((batch.sentence_count, 0), np.int64)

    def score_texts(self, name: str, sentences: Sequence[Sentence]) -> dict[str, Tensor] | None:
        """Score texts, at the end of a validation.

        Returns:
            for each score, a row per sentence, float64 of shape ``(sentences, columns)``; at the level of the corpus,
            perhaps a single row of shape ``(columns,)``. None for nothing to log.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class CorpusScorer(Scorer, EvaluatorMetric):
    """All of a metric of this package but its state: how sentences are counted, and how rows become its only score.

    A subclass is made from its settings alone, and passes on what follows from them. It has a `settings_class`.

    Args:
        settings: the validated options.
        name: the name of the score.
        columns: the number of statistics of a sentence.
        perfect: the best score that a sentence can have.
        bounds: the lowest and the highest score; None where there is no bound.
        sensitive_to: what of a text changes the score; see :class:`EvaluatorMetric`.
    """

    settings: Settings
    name: str
    columns: int
    perfect: float | None
    bounds: tuple[float | None, float | None]
    sensitive_to: tuple[str, ...]

    settings_class: ClassVar[type[Settings]]
    counts_tokens = True

    @property
    def percent(self) -> bool:  # type: ignore[override]
        """Whether scores are in 0..100 rather than in 0..1."""
        return self.settings.percent

    @property
    def reading(self) -> Settings:  # type: ignore[override]
        """How it reads ids."""
        return self.settings.for_reading

    @classmethod
    def from_plain(cls, settings: Mapping[str, Any], *, percent: bool) -> Self:
        """The scorer with settings that :meth:`Settings.plain` returned, for text.

        Raises:
            TypeError: for a setting that it does not have.
            ValueError: for a setting that has been a callable, of which only the name is known, or that is missing.
        """
        missing = {field.name for field in fields(cls.settings_class)} - {*settings, "percent"}
        if missing:
            raise ValueError(f"the settings {sorted(missing)} are missing")
        options = {**settings, "decoder": None, "percent": percent}
        return cls(cls.settings_class(**options))  # type: ignore[call-arg]

    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, but for its unit, as plain values."""
        return self.settings.plain()

    def scorer_of(self, name: str, score_name: str) -> CorpusScorer:
        """The scorer itself."""
        return self

    @abstractmethod
    def count_batch(self, name: str, batch: Batch, sources: Sources | None = None) -> IntArray:
        """The statistics of each sentence, shape ``(sentences, columns)``."""

    @abstractmethod
    def report(self, sums: Tensor, inputs: InputCounts | None) -> Any:
        """The score of a sum of rows with everything that it is computed from, and its `signature`."""


@eager
def count_sentences(preds: Hypotheses, target: References, scorer: CorpusScorer) -> tuple[Tensor, Batch]:
    """Read sentences and count them, without a metric; returns their rows and the batch."""
    batch = read_batch(preds, target, scorer.settings)
    rows = scorer.count_batch("", batch)
    WarnOnce().about_all(batch.mistakes)
    return torch.from_numpy(rows), batch
