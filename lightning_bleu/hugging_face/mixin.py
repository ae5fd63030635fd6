"""BLEU and other scores in the Trainers of Hugging Face Transformers, which is not imported."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightning_bleu.core.messages import warn_user
from lightning_bleu.core.processes import process_count, run_in_process_0
from lightning_bleu.evaluation.input.outputs import Origin, Output
from lightning_bleu.evaluation.input.positions import find_index
from lightning_bleu.evaluation.monitors import describe_number
from lightning_bleu.evaluation.names import Naming, check_names
from lightning_bleu.evaluator import Evaluator, Plan, StartedValidation
from lightning_bleu.hugging_face.generator import GeneratorMixin

_RESERVED = ("", "loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
"""Names that no metric can have, because the Trainer uses them."""
_STATE = "lightning_bleu.pt"
"""The file of the best validation in a checkpoint."""
_NOT_PASSED: Any = object()
"""The default of an argument that may be None."""


class EvaluatorMixin(GeneratorMixin):
    """Makes a ``Trainer`` score what its model generates, with all that an :class:`.Evaluator` does.

    Example:
        Put it before the Trainer, and pass an evaluator::

            class Translator(EvaluatorMixin, Seq2SeqTrainer):
                pass

            trainer = Translator(model, args, ..., evaluator=Evaluator(CorpusBLEU(percent=True)))

    Args:
        evaluator: the evaluator; the attribute `evaluator` of the subclass if it is not passed. None for no scores. The
            ``processing_class`` of the Trainer decodes for an evaluator without a decoder.

    Attributes:
        gen_kwargs: arguments of ``model.generate``, such as ``{"max_new_tokens": 256}``. Set it in the subclass, or in
            the trainer at any time. If there are several datasets, and the keys are their names, the values are the
            arguments of each: ``{"de": {"forced_bos_token_id": 5}, "fr": {"forced_bos_token_id": 6}}``.

    Raises:
        TypeError: if there is no :class:`.Evaluator`; during an evaluation, if predictions are not ids.
        ValueError: for names that the Trainer or a logger cannot take; during an evaluation, if repeated sentences
            cannot be told from others.

    Notes:
        The metrics of the Trainer get ``eval_bleu``; ``test_bleu`` in ``predict``; and ``eval_NAME_bleu`` for one of
        several datasets. What ``evaluate`` returns also has components such as ``eval_bleu_precision_1``, which are
        logged with ``parts=True`` only. An encoder-decoder needs ``Seq2SeqTrainer`` with
        ``predict_with_generate=True``. For other rows or another way to generate, override :meth:`split` and
        :meth:`complete`. Without labels, ``predict`` generates and returns ids, and scores nothing.

        Checkpoints keep the best validation for ``compare_to`` in ``lightning_bleu.pt``. With ``translations``, each
        trial of a hyperparameter search has a folder of its own.
    """

    evaluator: Evaluator | None = None
    _started: StartedValidation | None = None
    _lacks_evaluator = False
    _is_training = False
    _loaded: tuple[int, float | None] | None = None  # step and epoch of the weights loaded at the end of a training

    def __init__(self, *args: Any, evaluator: Evaluator | None = _NOT_PASSED, **kwargs: Any) -> None:
        if "evaluator" in inspect.signature(super().__init__).parameters:
            raise TypeError(f"{super().__init__.__qualname__} has an 'evaluator' of its own: use another Trainer")
        super().__init__(*args, **kwargs)
        if evaluator is _NOT_PASSED:
            evaluator = self.evaluator
            self._lacks_evaluator = evaluator is None
        self.evaluator = evaluator
        if evaluator is not None:
            _check_evaluator(evaluator, self)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval", **gen_kwargs: Any
    ) -> Any:
        """Evaluate datasets. `gen_kwargs` go to ``model.generate``, and override its other settings. Collective.

        Returns:
            the metrics, with all components of the scores.
        """
        datasets = self.eval_dataset if eval_dataset is None else eval_dataset
        if self.gen_kwargs and isinstance(datasets, dict) and self.gen_kwargs.keys() <= datasets.keys():
            names = datasets if eval_dataset is not None else {name: name for name in datasets}
            return self._evaluate_each(names, ignore_keys, metric_key_prefix, gen_kwargs)
        with self._generate_with(gen_kwargs):
            arguments = self._arguments_for_trainer()
            metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix, **arguments)
        results = {} if self.evaluator is None else self.evaluator.results
        for logged in metrics.keys() & results.keys():
            for part, value in results[logged].parts.items():
                metrics.setdefault(f"{logged}_{part}", value)
        return metrics

    def _evaluate_each(
        self, datasets: Mapping[str, Any], ignore_keys: Any, prefix: str, gen_kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Evaluate datasets, each with its own arguments of ``model.generate``. Collective."""
        by_dataset, metrics = self.gen_kwargs, {}
        try:
            for name, dataset in datasets.items():
                self.gen_kwargs = by_dataset.get(name, {})
                metrics.update(self.evaluate(dataset, ignore_keys, f"{prefix}_{name}", **gen_kwargs))
        finally:
            self.gen_kwargs = by_dataset
        return metrics

    def predict(
        self, test_dataset: Any, ignore_keys: Any = None, metric_key_prefix: str = "test", **gen_kwargs: Any
    ) -> Any:
        """Generate from a dataset, with or without labels. The arguments are those of :meth:`evaluate`. Collective."""
        with self._generate_with(gen_kwargs):
            return super().predict(test_dataset, ignore_keys, metric_key_prefix, **self._arguments_for_trainer())

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Evaluate a dataset, and add the scores to its metrics. The Trainer calls this. Collective."""
        self._is_evaluating = True
        evaluator = self.evaluator
        if self._lacks_evaluator:
            warn_user(
                f"{type(self).__name__} has an EvaluatorMixin, but no evaluator, so nothing is scored: pass "
                "evaluator=Evaluator(CorpusBLEU()), or evaluator=None if that is meant."
            )
            self._lacks_evaluator = False
        arguments = (description, prediction_loss_only, ignore_keys, metric_key_prefix)
        if evaluator is None or self.args.prediction_loss_only:
            return super().evaluation_loop(dataloader, *arguments)
        self._open_record(getattr(self, "_trial", None))
        outer = self._started
        try:
            self._started = started = self._begin(evaluator, dataloader, description, metric_key_prefix)
            output = super().evaluation_loop(dataloader, *arguments)
        finally:
            self._started = outer
        if started is None:
            return output
        outcome = evaluator.score(started, may_replace=self._is_training)
        if outcome.read and outcome.skipped:
            raise ValueError(
                "split returned None or Prompts without target for some batches only: do that for all of a dataset, or "
                "for none"
            )
        if not outcome.read:
            return output
        numbers = {logged: number.value for logged, number in outcome.numbers.items()}
        taken = sorted(numbers.keys() & output.metrics.keys())
        if taken:
            raise ValueError(f"compute_metrics returns {taken[0]!r}, like the evaluator: rename one of them")
        output.metrics.update(numbers)
        step, epoch = self._loaded or (self.state.global_step, self.state.epoch)
        evaluator.publish(started, outcome, step, epoch, shown_step=self.state.global_step)
        return output

    def _begin(self, evaluator: Evaluator, dataloader: Any, description: str, prefix: str) -> StartedValidation | None:
        """Begin an evaluation; None for a dataset that is not scored. Collective."""
        _, _, dataset = prefix.partition("_")
        datasets = [*self.eval_dataset] if isinstance(self.eval_dataset, Mapping) else [dataset]
        if evaluator.options.ignores(dataset, datasets):
            return None
        self._check_generation()
        stage = "test" if description == "Prediction" else "val"
        decodes = hasattr(self.processing_class, "batch_decode")
        started = evaluator.begin(
            Plan(
                stage=stage,
                names=[""],
                dataloaders=[dataloader],
                origin=Origin("split", unshuffle="override _get_eval_sampler"),
                naming=_name_stage(evaluator, prefix, stage),
                dataset=dataset,
                datasets=datasets,
                decoder=self.processing_class if decodes else None,
                loggers=self._find_loggers(stage),
            )
        )
        _check_loader(dataloader)  # the evaluator counts what a stream has been read
        return started

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None, **kwargs: Any
    ) -> tuple[Any, Any, Any]:
        """Generate from a batch, and count its sentences. The Trainer calls this."""
        evaluator, started = self.evaluator, self._started
        if evaluator is None or started is None:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys, **kwargs)  # type: ignore[no-any-return]
        inputs_of_loss = copy.copy(inputs)
        prompts = self.split(inputs_of_loss)
        if prompts is None:
            started.collector.skip()
            loss, _, _ = super().prediction_step(model, inputs_of_loss, True, ignore_keys, **kwargs)
            return loss, None, None
        if prompts.target is None and started.plan.stage == "val":
            names = [name for name, value in inputs.items() if value is not None]
            raise ValueError(
                f"evaluate needs references, but split found none in a batch with {names}: set label_names in the "
                "TrainingArguments if they have another name, or use predict to generate without references"
            )
        if self._is_encoder_decoder and not self._overrides("complete"):
            loss, preds, returned = super().prediction_step(model, inputs_of_loss, False, ignore_keys, **kwargs)
            _check_ids(preds, prompts.target)
        else:
            loss = None
            if all(inputs_of_loss.get(name) is not None for name in self._label_names):
                loss, _, _ = super().prediction_step(model, inputs_of_loss, True, ignore_keys, **kwargs)
            preds = self.complete(prompts)
            returned = self._prepare_input(prompts.target) if isinstance(prompts.target, Tensor) else None
        if prompts.target is None:
            started.collector.skip()
        else:
            evaluator.warn_once.about_all(self._find_mistakes(prompts, preds))
            started.collector.update(
                Output(
                    preds,
                    prompts.target,
                    prompts.source,
                    index=prompts.index,
                    group=prompts.group,
                    id=prompts.id,
                    columns={**inputs, **prompts.columns},
                )
            )
        if prediction_loss_only or not isinstance(preds, Tensor):
            return loss, None, None
        return loss, preds, returned

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train. A new run forgets the best validation of another one. Collective."""
        evaluator = self.evaluator
        if evaluator is not None:
            self._open_record(trial)
            if not resume_from_checkpoint:
                evaluator.load_state_dict({})
                record = evaluator.record
                if record is not None:
                    ways_out = "or resume that run with trainer.train(resume_from_checkpoint=...)"
                    run_in_process_0(lambda: record.check_new(ways_out))
        self._is_training, self._loaded = True, None
        try:
            return super().train(resume_from_checkpoint, trial, *args, **kwargs)
        finally:
            self._is_training = False

    def _load_best_model(self) -> None:
        super()._load_best_model()
        step = int(self.state.best_model_checkpoint.rpartition("-")[2])
        epochs = (line.get("epoch") for line in self.state.log_history if line.get("step") == step)
        self._loaded = step, next(epochs, None)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        evaluator = self.evaluator
        if evaluator is not None and evaluator.options.compare_to and self.args.should_save:
            torch.save(evaluator.state_dict(), Path(output_dir, _STATE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        evaluator = self.evaluator
        if checkpoint is None or evaluator is None or not evaluator.options.compare_to:
            return
        path = Path(checkpoint, _STATE)
        state = run_in_process_0(lambda: torch.load(path, weights_only=True) if path.exists() else None)
        evaluator.load_state_dict(state or {})
        if state is None and not evaluator.state_dict():
            evaluator.warn_once(f"There is no {str(path)!r}, so the next evaluation counts as the first.")

    def _find_loggers(self, stage: str) -> list[Any]:
        """The writer of TensorBoard, and the run of W&B, if the Trainer reports to them."""
        loggers: list[Any] = []
        if not self.state.is_world_process_zero:
            return loggers
        for callback in self.callback_handler.callbacks:
            if getattr(callback, "tb_writer", True) is None and stage == "val":
                # Transformers 5 sets the folder when a training begins.
                if getattr(callback, "logging_dir", "") is None:
                    from transformers.integrations.integration_utils import default_logdir

                    callback.logging_dir = str(Path(self.args.output_dir, default_logdir()))
                callback._init_summary_writer(self.args)  # as the Trainer does when it logs this evaluation
            wandb = getattr(callback, "_wandb", None)
            loggers += [getattr(callback, "tb_writer", None), getattr(wandb, "run", None)]
        return [logger for logger in loggers if logger is not None]

    def _open_record(self, trial: Any) -> None:
        """Open the folder of the translations of this run. Each trial of a hyperparameter search has its own."""
        evaluator = self.evaluator
        if evaluator is None:
            return
        output_dir = Path(self._get_output_dir(trial))
        folder = evaluator.options.folder
        if evaluator.options.uses_folder_of_run:
            evaluator.open_record(output_dir / "translations")
        elif folder is not None:
            evaluator.open_record(Path(folder, output_dir.relative_to(self.args.output_dir)))


def add_evaluator(trainer: Any, evaluator: Evaluator, **attributes: Any) -> None:
    """Make a trainer that exists already score what its model generates, as :class:`EvaluatorMixin` does.

    Example:
        For a framework or a notebook that makes its own trainer::

            add_evaluator(trainer, Evaluator(CorpusBLEU(percent=True)), gen_kwargs={"max_new_tokens": 256})
            trainer.train()

    Args:
        trainer: the trainer, whose class becomes a subclass of :class:`EvaluatorMixin` and of its own class.
        evaluator: the evaluator.
        attributes: what a subclass would set or override, such as ``gen_kwargs``, or a function ``split``.

    Raises:
        TypeError: if it has an evaluator already, and for the attributes that do not exist.
        TypeError, ValueError: see :class:`EvaluatorMixin`.
    """
    kind = type(trainer)
    if isinstance(trainer, EvaluatorMixin):
        raise TypeError(f"{kind.__name__} has an EvaluatorMixin already: set trainer.evaluator")
    unknown = [name for name in attributes if not hasattr(EvaluatorMixin, name)]
    if unknown:
        raise TypeError(f"EvaluatorMixin has no attribute {unknown[0]!r}")
    _check_evaluator(evaluator, trainer)
    trainer.__class__ = type(kind.__name__, (EvaluatorMixin, kind), {"__module__": kind.__module__, **attributes})
    trainer.evaluator = evaluator


def _check_evaluator(evaluator: Any, trainer: Any) -> None:
    """Raise an error if an evaluator cannot be used in a Trainer, and warn about likely mistakes."""
    if not isinstance(evaluator, Evaluator):
        raise TypeError(f"'evaluator' must be an Evaluator, such as Evaluator(CorpusBLEU()), got {evaluator!r}")
    if getattr(trainer.args, "use_legacy_prediction_loop", False):
        raise ValueError("EvaluatorMixin needs evaluation_loop: set use_legacy_prediction_loop=False")
    if not all(naming.log_name.startswith("{stage}_") for naming in evaluator.namings.values()):
        log_name = evaluator.options.log_name
        raise ValueError(f"in a Trainer, 'log_name' must begin with '{{stage}}_', got {log_name!r}")
    check_names("metrics", [*evaluator.metrics], reserved=_RESERVED)
    _suspect_only(evaluator, trainer.eval_dataset)
    _suspect_best_model(evaluator, trainer.args)


def _suspect_only(evaluator: Evaluator, datasets: Any) -> None:
    """Warn about entries of `only` that name no dataset, if datasets have names."""
    if not isinstance(datasets, Mapping):
        return
    for entry in evaluator.options.only or ():
        if not any(f"{entry}/".startswith(f"{name}/") for name in datasets):
            evaluator.warn_once(
                f"'only' has {entry!r}, but the evaluation datasets are {sorted(datasets)}. An entry is the name of a "
                "dataset, or DATASET/GROUP."
            )


def _suspect_best_model(evaluator: Evaluator, args: Any) -> None:
    """Warn if the Trainer would take worse scores for better ones."""
    best = str(args.metric_for_best_model)
    logged = best if best.startswith("eval_") else f"eval_{best}"
    # The dataset may have any name: "eval_news_bleu" begins with "eval" or "eval_news".
    stages = [logged[: match.start()] for match in re.finditer("_", logged)]
    for stage in stages:
        number = describe_number(logged, _name_stage(evaluator, stage, "val"), evaluator.metrics)
        if number is None or number.higher_is_better is None:
            continue
        is_higher = number.higher_is_better
        if args.greater_is_better != is_higher:
            evaluator.warn_once(
                f"metric_for_best_model={best!r} needs greater_is_better={is_higher}. (Or, for a function whose "
                f"direction is wrong, FunctionMetric(function, higher_is_better={not is_higher}).)"
            )
        is_plateau = getattr(args, "lr_scheduler_type", "") == "reduce_lr_on_plateau"
        if is_higher and is_plateau and (args.lr_scheduler_kwargs or {}).get("mode") != "max":
            evaluator.warn_once(
                f"lr_scheduler_type='reduce_lr_on_plateau' lowers the learning rate while {best!r} rises: set "
                "lr_scheduler_kwargs={'mode': 'max'}."
            )


def _name_stage(evaluator: Evaluator, prefix: str, stage: str) -> Naming:
    """How the names of an evaluation are written, from its prefix, such as ``"eval_news"``."""
    return TrainerNaming(prefix, evaluator.namings[stage].log_name, "_")


class TrainerNaming(Naming):
    """How names are written in a Trainer of Transformers."""

    def shown_as(self, logged: str) -> str:
        """The name in TensorBoard and W&B: ``"eval_bleu"`` -> ``"eval/bleu"``."""
        stage, _, rest = logged.partition("_")
        return f"{stage}/{rest}" if stage in ("eval", "test") else f"train/{logged}"


def _check_loader(dataloader: Any) -> None:
    """Raise an error if several processes may score the same sentences, and nothing tells which."""
    if process_count() > 1 and find_index(dataloader, 0) is None:
        raise ValueError(
            "repeated sentences of the evaluation dataset cannot be found: give it a length and at most one worker, or "
            "let one process read it, with accelerator_config={'dispatch_batches': True, 'split_batches': True}; a "
            "get_eval_dataloader of your own must return self.accelerator.prepare(loader)"
        )


def _check_ids(preds: Any, target: Any) -> None:
    """Check that the predictions of a Trainer are ids, one row for each reference."""
    shape = tuple(getattr(preds, "shape", ()))
    if len(shape) == 2 and (target is None or len(preds) == len(target)):
        return
    raise TypeError(
        "predictions must be generated ids of shape (sentences, tokens), a row per label, got a "
        f"{type(preds).__name__} of shape {shape} (logits? several per label?): use Seq2SeqTrainer with "
        "predict_with_generate=True in its Seq2SeqTrainingArguments"
    )
