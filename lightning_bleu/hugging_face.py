"""BLEU for the Trainers of Hugging Face Transformers. Their objects are recognized by what they have, not imported."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightning_bleu.bleu import BLEUScore, CorpusBLEU
from lightning_bleu.chrf import CHRFScore
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import process_count

_MAX_SENTENCES = 1000
"""How many sentences are counted at once. To decode ids takes many times their memory."""


class HuggingFaceBLEU:
    """Computes BLEU of generated ids in ``Trainer`` and ``Seq2SeqTrainer``.

    Pass it to the Trainer twice: ``Trainer(..., compute_metrics=bleu, callbacks=[bleu])``. As a callback, it learns
    which dataset is evaluated. It works with and without ``batch_eval_metrics=True``, and in ``evaluate``, ``predict``,
    and ``train``.

    The score is logged as ``eval_bleu``, and its components as ``eval_bleu_precision_1`` and so on,
    ``eval_bleu_brevity_penalty``, ``eval_bleu_length_ratio``, ``eval_bleu_hypothesis_length``, and
    ``eval_bleu_reference_length``. ``metric_for_best_model`` can name any of them.

    With several processes, the Trainer gathers the sentences of all of them, and every sentence counts exactly once:
    sentences that ``Seq2SeqTrainer`` repeats to fill the last batch are skipped.

    Args:
        metric: the metric, with a `decoder` to score text; ``CorpusBLEU()`` when None. It is copied.
        others: other metrics of the same sentences, by name; they are copied. ``{"chrf": CorpusCHRF(decoder=...)}``
            logs ``eval_chrf``.

    Attributes:
        metrics: the copies, by name.
        reports: the last scores by name, with their components and signatures: a :class:`BLEUScore`, or a
            :class:`CHRFScore`.

    Raises:
        TypeError: for anything but metrics of this package, and during an evaluation if the predictions are not ids.
        ValueError: if `others` has the name ``"bleu"``, and during an evaluation in several processes if the dataset
            has no length.
        RuntimeError: during an evaluation if this object is not a callback of the Trainer.

    Example (the two calls of a Trainer):
        >>> from types import SimpleNamespace
        >>> bleu = HuggingFaceBLEU(CorpusBLEU(max_order=2, pad_id=0))
        >>> bleu.on_prediction_step(eval_dataloader=SimpleNamespace(dataset=range(2)))
        >>> predictions, labels = np.array([[5, 6, 7, 0], [8, 9, 0, -100]]), np.array([[5, 6, 8], [8, 9, -100]])
        >>> scores = bleu(SimpleNamespace(predictions=predictions, label_ids=labels))
        >>> scores["bleu_precision_1"], scores["bleu_precision_2"], scores["bleu_brevity_penalty"]
        (0.8, 0.6666666666666666, 1.0)
    """

    def __init__(self, metric: CorpusBLEU | None = None, others: Mapping[str, CorpusMetric] | None = None) -> None:
        others = dict(others or {})
        if "bleu" in others:
            raise ValueError("'others' has the name 'bleu', which is the name of 'metric'")
        self.metrics = copy.deepcopy({"bleu": CorpusBLEU() if metric is None else metric, **others})
        for name, one in self.metrics.items():
            if not isinstance(one, CorpusMetric):
                raise TypeError(
                    f"{name!r} must be a metric of lightning_bleu, got {one!r} of type {type(one).__name__}"
                )
            one.sync_on_compute = one._to_sync = False  # every process has the sentences of all
        self.reports: dict[str, BLEUScore | CHRFScore] = {}
        self._loader: Any = None
        self._received = 0
        self._reset()

    def on_prediction_step(self, *args: Any, eval_dataloader: Any, **kwargs: Any) -> None:
        """Learn which dataset is evaluated. The Trainer calls this after each batch, before it counts the batch."""
        if eval_dataloader is not self._loader:  # a new evaluation; the one before may have been interrupted
            self._reset()
            self._loader = eval_dataloader

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _ignore_event
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Count the sentences of an ``EvalPrediction``.

        Args:
            prediction: all sentences, or a batch of them.
            compute_result: whether it has the last sentences of the evaluation.

        Returns:
            the scores if it has, or else an empty dict.
        """
        preds, target = prediction.predictions, prediction.label_ids
        # A list of batches: eval_do_concat_batches=False.
        for batch in zip(preds, target) if isinstance(preds, list) else [(preds, target)]:
            self._count(*batch)
        if not compute_result:
            return {}
        self.reports = {name: metric.report() for name, metric in self.metrics.items()}
        self._reset()
        scores = {name: report.score for name, report in self.reports.items()}
        parts = {f"{name}_{part}": value for name, one in self.reports.items() for part, value in one.parts().items()}
        return scores | parts

    def _count(self, preds: Any, target: Any) -> None:
        shape = tuple(getattr(preds, "shape", ()))
        if len(shape) != 2:
            raise TypeError(
                "HuggingFaceBLEU scores generated ids of shape (sentences, tokens), but the predictions are a "
                f"{type(preds).__name__} {f'of shape {shape} ' * bool(shape)}(logits?): set predict_with_generate=True "
                "in Seq2SeqTrainingArguments, or generate in prediction_step of a Trainer"
            )
        sentence_count = self._sentence_count()
        for start in range(0, max(len(preds), len(target)), _MAX_SENTENCES):
            part = slice(start, start + _MAX_SENTENCES)
            # The repeats come last, because the Trainer gathers batches in the order of the loader.
            mask = self._received + np.arange(len(preds[part])) < sentence_count
            for metric in self.metrics.values():
                metric.update(preds[part], target[part], sample_mask=mask)
            self._received += len(mask)

    def _sentence_count(self) -> float:
        """The number of sentences in the dataset; infinite if none can be repeated."""
        if self._loader is None:
            raise RuntimeError(
                "HuggingFaceBLEU must also be a callback: Trainer(compute_metrics=bleu, callbacks=[bleu])"
            )
        if process_count() == 1:
            return math.inf
        if not hasattr(self._loader.dataset, "__len__"):
            raise ValueError("with several processes, the evaluation dataset must have a length, to find repeats")
        return len(self._loader.dataset)

    def _reset(self) -> None:
        self._loader, self._received = None, 0
        for metric in self.metrics.values():
            metric.reset()


def _ignore_event(*args: Any, **kwargs: Any) -> None:
    """Do nothing at the other events of a callback."""
