"""The number of tokens of hypotheses, which needs no references."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightning_bleu.core.batch import Batch, Sources
from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.forms import IntArray, kind_of
from lightning_bleu.core.scoring import RatioScorer
from lightning_bleu.core.settings import check_integer

# Lengths


class TokenCount(EvaluatorMetric):
    """The mean number of ids per hypothesis, without padding, as a metric of an :class:`.Evaluator`.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator({"gen_len": TokenCount(pad_id=0)})
        >>> evaluator.start()
        >>> evaluator.update([[5, 6, 7, 1], [8, 1, 0, 0]], None)
        >>> evaluator.finish(step=0)["val_gen_len"].score
        3.0

    Args:
        pad_id: the padding id. When None: the `pad_id` of the other metrics, or that of the tokenizer that decodes the
            ids. Negative ids, such as -100, are padding, too.

    Raises:
        TypeError, ValueError: if `pad_id` is not an integer of 0 or more. During a validation, for text instead of ids.

    Notes:
        It needs no references. Neither more nor fewer ids are better. In ``run_summarization.py`` and
        ``run_translation.py`` of Transformers, it is ``gen_len``.
    """

    columns = 2
    needs_references = False

    def __init__(self, pad_id: int | None = None) -> None:
        self.pad_id = None if pad_id is None else check_integer("pad_id", pad_id, at_least=0)

    def __repr__(self) -> str:
        return "TokenCount()" if self.pad_id is None else f"TokenCount(pad_id={self.pad_id})"

    def scorer_of(self, name: str, score_name: str) -> RatioScorer:
        """The number of ids over that of hypotheses. Neither more nor fewer are better."""
        return RatioScorer(name, higher_is_better=None, settings=self.plain_settings())

    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, as plain values."""
        return {"pad_id": self.pad_id}

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """The number of ids of each hypothesis without padding, and 1, shape ``(sentences, 2)``.

        Raises:
            TypeError: for a batch without ids.
        """
        kind = kind_of(batch.segments)
        if batch.passed_ids is None and batch.sentence_count and kind != "empty":
            raise TypeError(
                f"the metric {name!r} counts ids, got {kind}: pass ids as 'preds', and decode them with the option "
                "decoder=tokenizer"
            )
        rows = np.zeros((batch.sentence_count, 2), np.int64)
        rows[:, 1] = 1
        if batch.passed_ids is not None:
            (ids, lengths), pad_id = batch.passed_ids
            if self.pad_id is not None:
                pad_id = self.pad_id
            is_counted = ids >= 0
            if pad_id is not None:
                is_counted &= ids != pad_id
            hypotheses = np.arange(len(lengths)).repeat(lengths)
            rows[:, 0] = np.bincount(hypotheses[is_counted], minlength=len(lengths))
        return rows
