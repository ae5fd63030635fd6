"""Ready metrics of other tasks, on the libraries that define them: speech recognition, summarization, questions."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from lightning_bleu.evaluation.metrics import EvaluatorMetric, ScoreOfSubset
from lightning_bleu.evaluation.sentences import SentenceRows, SubsetSentences
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import kind_of
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.scoring import ratio_scoring
from lightning_bleu.settings.settings import check_integer


class TokenCount:
    """The mean number of ids per hypothesis, without padding, as a metric of an :class:`Evaluator`.

    It needs no references. Neither more nor fewer ids are better. In ``run_summarization.py`` and
    ``run_translation.py`` of Transformers, it is ``gen_len``.

    Args:
        pad_id: the padding id. When None: the `pad_id` of the other metrics, or that of the tokenizer that decodes the
            ids. Negative ids, such as -100, are padding, too.

    Raises:
        TypeError, ValueError: if `pad_id` is not an integer of 0 or more. During a validation, for text instead of ids.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator({"gen_len": TokenCount(pad_id=0)})
        >>> evaluator.start()
        >>> evaluator.update([[5, 6, 7, 1], [8, 1, 0, 0]], None)
        >>> evaluator.finish(step=0)["val_gen_len"].score
        3.0
    """

    def __init__(self, pad_id: int | None = None) -> None:
        self.pad_id = None if pad_id is None else check_integer("pad_id", pad_id, at_least=0)

    def __repr__(self) -> str:
        return "TokenCount()" if self.pad_id is None else f"TokenCount(pad_id={self.pad_id})"


class CountedIds(EvaluatorMetric):
    """A :class:`TokenCount` of an evaluator. The rows are the number of ids, and 1.

    Args:
        name: its name.
        metric: the metric.
    """

    columns = 2
    needs_texts = False
    needs_references = False
    scores_sentences = True
    directions = MappingProxyType({"": None})

    def __init__(self, name: str, metric: TokenCount) -> None:
        self.name = name
        self.passed = metric
        self.class_name = type(metric).__name__
        self._pad_id = metric.pad_id

    def scores_like(self, other: EvaluatorMetric) -> bool:
        """Whether another metric of the same name gives the same scores to the same sentences."""
        return isinstance(other, CountedIds) and self._pad_id == other._pad_id

    def check(self, batch: Batch, sources: object) -> None:
        """Raise an error for a batch without ids."""
        if batch.passed_ids is None and batch.sentence_count:
            raise TypeError(
                f"the metric {self.name!r} counts ids, got {kind_of(batch.segments)}: pass ids as 'preds', and decode "
                "them with the option decoder=tokenizer"
            )

    def count_rows(self, batch: Batch) -> IntArray:
        """The number of ids of each hypothesis without padding, and 1, of shape ``(sentences, 2)``."""
        rows = np.ones((batch.sentence_count, 2), np.int64)
        if batch.passed_ids is not None:
            (ids, lengths), pad_id = batch.passed_ids
            if self._pad_id is not None:
                pad_id = self._pad_id
            is_counted = ids >= 0
            if pad_id is not None:
                is_counted &= ids != pad_id
            hypotheses = np.arange(len(lengths)).repeat(lengths)
            rows[:, 0] = np.bincount(hypotheses[is_counted], minlength=len(lengths))
        return rows

    def score(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, ScoreOfSubset]]:
        """Score the sentences of all processes, for each subset."""
        scoring = ratio_scoring(self.name, higher_is_better=None)
        settings = {"pad_id": self._pad_id}
        scores: list[dict[str, ScoreOfSubset]] = []
        for sentences in subsets:
            statistics = sentences.statistics(self.name)
            scores.append({"": SentenceRows(sentences.identity, statistics, scoring, settings)})
        return scores
