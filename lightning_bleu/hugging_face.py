"""BLEU and other scores in the Trainers of Hugging Face Transformers, which is not imported."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import process_count, process_rank
from lightning_bleu.settings.settings import Decoder, Settings
from lightning_bleu.training.loaders import check_names
from lightning_bleu.training.metrics import Result
from lightning_bleu.training.options import check_metrics, check_shared_options, labels_of
from lightning_bleu.training.trainer import find_iteration, find_sentence_count
from lightning_bleu.training.translations import Record
from lightning_bleu.training.validation import Evaluation, Output, Validation

_MAX_SENTENCES = 1000
"""How many sentences are counted at once. To decode ids takes many times their memory."""


_RESERVED = ("eval", "test", "loss", "runtime", "samples_per_second", "steps_per_second")
"""Names that no metric can have, because the Trainer uses them."""


class HuggingFaceBLEU:
    """Computes BLEU, and other scores, of generated ids in ``Trainer`` and ``Seq2SeqTrainer``.

    Pass it to the Trainer twice: ``Trainer(..., compute_metrics=bleu, callbacks=[bleu])``. As a callback, it learns
    which dataset is evaluated. It works with and without ``batch_eval_metrics=True``, and in ``evaluate``, ``predict``,
    and ``train``.

    The score is logged as ``eval_bleu``, and its components as ``eval_bleu_precision_1`` and so on,
    ``eval_bleu_brevity_penalty``, ``eval_bleu_length_ratio``, ``eval_bleu_hypothesis_length``, and
    ``eval_bleu_reference_length``. ``metric_for_best_model`` can name any of them. With a dict of evaluation datasets,
    they are ``eval_NAME_bleu`` and so on. Without sentences, nothing is logged.

    With several processes, the Trainer gathers the sentences of all of them. Each process scores its share, and every
    sentence counts exactly once: sentences that accelerate repeats to fill the last batch are skipped.

    Args:
        metrics: a metric, or the metrics by name, as in :class:`BLEUCallback`: those of this package, functions, and
            those of torchmetrics and sacreBLEU. ``CorpusBLEU()`` when None. Functions that take sources need
            ``include_for_metrics=["inputs"]`` in the arguments of the Trainer. The source of a decoder-only model is
            the part of the input whose labels are -100.
        decoder: decodes ids for all metrics that set no decoder; see :class:`CorpusBLEU`. When None: the
            ``processing_class`` of the Trainer, if it has one.
        confidence: log a confidence interval as ``eval_bleu_low`` and ``eval_bleu_high``; 0.95 for a 95% interval.
        translations: a folder, or True for the folder ``translations`` in the ``output_dir`` of the Trainer. The files
            are those of :class:`BLEUCallback`, in ``FOLDER/eval``, or in ``FOLDER/eval_NAME`` for each of several
            datasets. Each training run needs a folder of its own.

    Attributes:
        results: the last result of each score by its logged name, such as ``results["eval_bleu"]``; see
            :class:`BLEUCallback`. It is set when the Trainer has finished an evaluation or a prediction.

    Raises:
        TypeError: for options of the wrong type, and during an evaluation if the predictions are not ids.
        ValueError: for options that are out of range, and during an evaluation if a function needs sources, or if
            repeated sentences cannot be told from others.
        RuntimeError: during an evaluation if this object is not a callback of the Trainer.

    Example (the calls of a Trainer):
        >>> from types import SimpleNamespace
        >>> bleu = HuggingFaceBLEU(CorpusBLEU(max_order=2, pad_id=0))
        >>> args = SimpleNamespace(device="cpu", batch_eval_metrics=False, dataloader_drop_last=False)
        >>> bleu.on_prediction_step(args, None, None, eval_dataloader=SimpleNamespace(dataset=range(2)))
        >>> predictions, labels = np.array([[5, 6, 7, 0], [8, 9, 0, -100]]), np.array([[5, 6, 8], [8, 9, -100]])
        >>> scores = bleu(SimpleNamespace(predictions=predictions, label_ids=labels))
        >>> scores["bleu_precision_1"], scores["bleu_precision_2"], scores["bleu_brevity_penalty"]
        (0.8, 0.6666666666666666, 1.0)
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | Mapping[str, Metric | SacreMetric | Callable[..., Any]] | None = None,
        *,
        decoder: Decoder | None = None,
        confidence: float | None = None,
        translations: str | os.PathLike[str] | bool | None = None,
    ) -> None:
        self.metrics = check_metrics(CorpusBLEU() if metrics is None else metrics)
        check_names("metrics", [*self.metrics], reserved=_RESERVED)
        if labels := labels_of(self.metrics):
            raise ValueError(f"HuggingFaceBLEU takes one metric per name, which scores all datasets, got {labels}")
        check_shared_options(decoder, confidence, translations)
        self.decoder = decoder
        self.confidence = confidence
        self.translations = translations
        self.results: dict[str, Result] = {}
        self._warn_once = WarnOnce()
        self._record: Record | None = None
        self._loader: Any = None  # of the evaluation that is running
        self._iteration = (0, 0)
        self._validation: Validation | None = None
        self._received = 0
        # The last evaluation, and one around it, until the Trainer has named them.
        self._finished: deque[tuple[dict[str, float], dict[str, Result], list[Evaluation]]] = deque(maxlen=2)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *args, **kwargs: None  # the other events of a callback
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Check that a new run does not write among the translations of another one."""
        for name, own in self.metrics.items():
            right = own[""].higher_is_better
            if f"_{args.metric_for_best_model}".endswith(f"_{name}") and right not in (None, args.greater_is_better):
                self._warn_once(
                    f"metric_for_best_model={args.metric_for_best_model!r} needs greater_is_better={right}."
                )
        self._open_record(args)
        if self._record and state.global_step == 0:
            self._record.check_new("or resume that run with trainer.train(resume_from_checkpoint=...)")

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Learn which dataset is evaluated. The Trainer calls this after each batch, before it counts the batch."""
        self._args = args
        self._input_name = getattr(kwargs.get("model"), "main_input_name", "input_ids")
        loader = kwargs["eval_dataloader"]
        iteration = find_iteration(loader, args.batch_eval_metrics)
        if loader is not self._loader or iteration != self._iteration:  # an evaluation begins
            self._validation, self._received = self._start(args, kwargs.get("processing_class")), 0
            self._loader, self._iteration = loader, iteration

    def _start(self, args: Any, processing_class: Any) -> Validation:
        decoder = self.decoder or (processing_class if hasattr(processing_class, "batch_decode") else None)
        self._open_record(args)
        validation = Validation(
            self.metrics,
            decoder=decoder,
            log_name="{metric}",
            origin="compute_metrics",
            max_texts=math.inf if self._record else 0,
            device=args.device,
            warn=self._warn_once,
        )
        if validation.loaders[0].settings == Settings():
            self._warn_once("The Trainer has no tokenizer (processing_class): ids are scored. Set decoder=tokenizer.")
        return validation

    def _open_record(self, args: Any) -> None:
        if self.translations:
            folder = os.path.join(args.output_dir, "translations") if self.translations is True else self.translations
            record = Record(folder, warn=self._warn_once)
            if self._record is None or self._record.folder != record.folder:
                self._record = record
            self._record.check_folder()

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Count the sentences of an ``EvalPrediction``. Collective if it has the last ones.

        Args:
            prediction: all sentences, or a batch of them.
            compute_result: whether it has the last sentences of the evaluation.

        Returns:
            the scores if it has, or else an empty dict.
        """
        validation, sentence_count = self._validation, math.inf
        if validation is None:
            raise RuntimeError("the metric must also be a callback: Trainer(compute_metrics=bleu, callbacks=[bleu])")
        batch = prediction.predictions, prediction.label_ids, getattr(prediction, "inputs", None)
        # Lists of batches: eval_do_concat_batches=False.
        batches = [*zip(*batch[:2], batch[2] or repeat(None))] if isinstance(batch[0], list) else [batch]
        for preds, target, _ in batches:
            _check_shapes(preds, target)
        if compute_result:
            # The repeats come last, because the Trainer gathers batches in the order of the loader.
            received = self._received + sum(len(preds) for preds, *_ in batches)
            loader, self._loader, self._validation = self._loader, None, None
            sentence_count = find_sentence_count(loader, received, self._args.dataloader_drop_last)
        for preds, target, inputs in batches:
            self._count(validation, preds, target, inputs, sentence_count)
        if not compute_result:
            return {}
        validation.agree()
        results = validation.finish(confidence=self.confidence)
        scores = [
            (f"{name}_{part}" if part else name, value)
            for name, result in results.items()
            for part, value in result.values().items()
        ]
        if len(dict(scores)) < len(scores):
            raise ValueError(f"two scores would be logged with one name, rename a metric: {[key for key, _ in scores]}")
        self._finished.append((dict(scores), results, [*validation.evaluations.values()]))
        return dict(scores)

    def _count(self, validation: Validation, preds: Any, target: Any, inputs: Any, sentence_count: float) -> None:
        """Count the share of this process in a batch, of which all processes have all sentences."""
        size, labels = math.ceil(len(preds) / process_count()), target
        is_local = isinstance(inputs, Mapping)  # batch_eval_metrics=True: the inputs are those of this process alone
        if is_local:
            label_name, *_ = self._args.label_names or ["labels"]
            inputs, labels = inputs.get(self._input_name), inputs.get(label_name)
        sources = _find_sources(inputs, labels)
        if is_local and sources is not None:
            size = len(sources)
        own = slice(process_rank() * size, (process_rank() + 1) * size)
        positions = (self._received + np.arange(len(preds)))[own]
        self._received += len(preds)
        preds, target = preds[own], target[own]
        if sources is not None:
            sources = sources[: len(preds)] if is_local else sources[own]
        for start in range(0, len(preds), _MAX_SENTENCES):
            part = slice(start, start + _MAX_SENTENCES)
            source = None if sources is None else sources[part]
            mask = positions[part] < sentence_count
            validation.update(Output(preds[part], target[part], source, mask, positions[part]))

    def _finish(self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **kwargs: Any) -> None:
        """Keep the results, and write files, under the name that the Trainer gave to the evaluation. Collective."""
        # The Trainer adds the time itself, whatever the metrics are called.
        times = [key.removesuffix("_runtime") for key in metrics if key.endswith("_runtime")]
        prefix = min(times, key=len, default="eval")

        def logged(key: str) -> str:
            return key if key.startswith(f"{prefix}_") else f"{prefix}_{key}"  # as the Trainer does

        # Equal scores identify the evaluation.
        own = [one for one in self._finished if all(metrics.get(logged(key)) == score for key, score in one[0].items())]
        if not own:
            return
        self._finished.remove(own[-1])
        _, results, evaluations = own[-1]
        named = {logged(name): result for name, result in results.items()}
        old = {logged(name) for name in self.metrics}
        self.results = {key: result for key, result in self.results.items() if key not in old} | named
        if self._record:
            self._record.write([prefix], evaluations, named, step=state.global_step, epoch=state.epoch)

    on_evaluate = on_predict = _finish


def _check_shapes(preds: Any, target: Any) -> None:
    """Check that predictions are ids, one row for each row of the labels."""
    shape = tuple(getattr(preds, "shape", ()))
    if len(shape) != 2 or len(preds) != len(target):
        raise TypeError(
            f"predictions must be generated ids of shape (sentences, tokens), a row for each of {len(target)} labels, "
            f"got a {type(preds).__name__} {f'of shape {shape} ' * bool(shape)}(logits? several per label?): set "
            "predict_with_generate=True in Seq2SeqTrainingArguments, or use CompletionMixin with a decoder-only model"
        )


def _find_sources(inputs: Any, target: Any) -> torch.Tensor | None:
    """The ids of the sources, if there are any. The inputs of a decoder-only model also have the answers."""
    ids = torch.as_tensor([] if inputs is None else inputs)
    if ids.ndim != 2 or ids.is_floating_point():
        return None
    labels = torch.as_tensor(ids[:0] if target is None else target, device=ids.device)
    has_answers = labels.shape == ids.shape and bool(((labels == ids) | (labels == -100)).all())
    return ids.masked_fill(labels != -100, -100) if has_answers else ids
