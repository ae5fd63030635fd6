"""BLEU and other scores in the Trainers of Hugging Face Transformers, which is not imported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from lightning_bleu.evaluation.collector import Output
from lightning_bleu.evaluation.loaders import Origin, distributed_index
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Naming, check_names
from lightning_bleu.evaluator import Evaluator
from lightning_bleu.messages import warn_user
from lightning_bleu.monitors import describe_number
from lightning_bleu.processes import process_count, run_in_process_0
from lightning_bleu.run import Run, Validation

_RESERVED = ("", "loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
"""Names that no metric can have, because the Trainer uses them."""
_STATE = "lightning_bleu.pt"
"""The file of the best or first validations in a checkpoint."""
_NOT_PASSED: Any = object()
"""The default of an argument that may be None."""
_Trainer: Any = object
"""The base of the mixin. For mypy, it has all attributes of a Trainer."""


class EvaluatorMixin(_Trainer):  # type: ignore[misc]
    """Makes a ``Trainer`` score what its model generates, with all that an :class:`Evaluator` does.

    Put it before the Trainer, and pass an evaluator::

        class Translator(EvaluatorMixin, Seq2SeqTrainer):
            pass

        trainer = Translator(model, args, ..., evaluator=Evaluator(CorpusBLEU(percent=True)))

    ``evaluate``, ``predict``, and ``train`` then have the scores among their metrics: ``eval_bleu``, its components as
    ``eval_bleu_precision_1`` and so on, ``test_bleu`` in ``predict``, and ``eval_NAME_bleu`` with a dict of evaluation
    datasets. ``metric_for_best_model`` can name any of them. Metrics by dataset work as metrics by loader:
    ``{"bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(tokenizer="zh")}}``. A dataset with None under every name is not
    generated; only its loss is computed.

    Each process counts its own sentences as soon as they are generated. They are not gathered, the memory is constant,
    and every sentence counts once. ``compute_metrics`` stays free for metrics of your own. Batches without labels are
    not scored.

    An encoder-decoder needs a Trainer that generates: ``Seq2SeqTrainer`` with ``predict_with_generate=True``. With a
    decoder-only model (``model.config.is_encoder_decoder`` is False), the mixin generates from the prompts; see
    :meth:`complete`.

    Samples, figures, and charts are shown in the TensorBoard and W&B of the Trainer. ``translations=True`` writes to
    the folder ``translations`` in ``output_dir``; each trial of a hyperparameter search has a folder of its own.
    Checkpoints have the validations that ``compare_to`` needs in ``lightning_bleu.pt``. For ``compare_to="first"``,
    call ``evaluate`` before ``train``.

    Args:
        evaluator: the evaluator. It may also be an attribute of the subclass. None for no scores, without a warning. If
            it has no decoder, the ``processing_class`` of the Trainer decodes.

    Attributes:
        gen_kwargs: arguments of ``model.generate`` for a decoder-only model, for example ``{"max_new_tokens": 256}``.
            Set it in the subclass, or in the trainer at any time.

    Raises:
        TypeError: if there is no :class:`Evaluator`; during an evaluation, if predictions are not ids.
        ValueError: for names that the Trainer uses; before a training or an evaluation, if a logger of the evaluator
            cannot take the names; during an evaluation, if a dataset has no metric, or if repeated sentences cannot be
            told from others.
    """

    evaluator: Evaluator | None = None
    gen_kwargs: Mapping[str, Any] = MappingProxyType({})
    _validation: Validation | None = None
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
        if evaluator is None:
            return
        if not isinstance(evaluator, Evaluator):
            raise TypeError(f"'evaluator' must be an Evaluator, such as Evaluator(CorpusBLEU()), got {evaluator!r}")
        if getattr(self.args, "use_legacy_prediction_loop", False):
            raise ValueError("EvaluatorMixin needs evaluation_loop: set use_legacy_prediction_loop=False")
        options = evaluator._run.options
        if not all(naming.log_name.startswith("{stage}_") for naming in options.namings.values()):
            raise ValueError(f"in a Trainer, 'log_name' must begin with '{{stage}}_', got {evaluator.log_name!r}")
        check_names("metrics", options.table.names, reserved=_RESERVED)
        self._suspect_best_model(evaluator._run)

    @property
    def _run(self) -> Run | None:
        """The run of the evaluator; None without an evaluator."""
        return None if self.evaluator is None else self.evaluator._run

    def _suspect_best_model(self, run: Run) -> None:
        """Warn if the best model would be that with the worst score."""
        best = str(self.args.metric_for_best_model)
        logged = best if best.startswith("eval_") else f"eval_{best}"
        # The dataset may have any name: "eval_news_bleu" begins with "eval" or "eval_news".
        stages = [logged[: match.start()] for match in re.finditer("_", logged)]
        for stage in stages:
            number = describe_number(logged, _name_stage(run, stage, "val"), run.options.table)
            if number is None or number.higher_is_better in (None, self.args.greater_is_better):
                continue
            right = number.higher_is_better
            run.warn_once(
                f"metric_for_best_model={best!r} needs greater_is_better={right}. (Or, for a function whose direction "
                f"is wrong, FunctionMetric(function, higher_is_better={not right}).)"
            )

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Evaluate a dataset, and add the scores to its metrics. The Trainer calls this. Collective."""
        run = self._run
        if self._lacks_evaluator:
            warn_user(
                f"{type(self).__name__} has an EvaluatorMixin, but no evaluator, so nothing is scored: pass "
                "evaluator=Evaluator(CorpusBLEU()), or evaluator=None if that is meant."
            )
            self._lacks_evaluator = False
        arguments = (description, prediction_loss_only, ignore_keys, metric_key_prefix)
        if run is None or self.args.prediction_loss_only:
            return super().evaluation_loop(dataloader, *arguments)
        table = _find_metrics(run.options.table, metric_key_prefix)
        self._open_record(getattr(self, "_trial", None))
        stage = "test" if description == "Prediction" else "val"
        outer = self._validation  # of an evaluation around this one
        try:
            self._validation = None
            if not table.names:
                return super().evaluation_loop(dataloader, *arguments)
            self._validation = validation = run.begin(
                stage,
                [""],
                [dataloader],
                Origin("prediction_step"),
                table=table,
                naming=_name_stage(run, metric_key_prefix, stage),
                decoder=self.processing_class if hasattr(self.processing_class, "batch_decode") else None,
                loggers=self._find_loggers(stage) if self.state.is_world_process_zero else (),
                device=self.args.device,
            )
            _check_loader(dataloader)
            output = super().evaluation_loop(dataloader, *arguments)
        finally:
            self._validation = outer
        finished = run.score(validation, keep=self._is_training)
        numbers = finished.scored.logged_numbers
        taken = sorted(numbers.keys() & output.metrics.keys())
        if taken:
            raise ValueError(f"compute_metrics returns {taken[0]!r}, like the evaluator: rename one of them")
        output.metrics.update(numbers)
        step, epoch = self._loaded or (self.state.global_step, self.state.epoch)
        run.publish(finished, step, epoch, shown_step=self.state.global_step)
        return output

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None, **kwargs: Any
    ) -> tuple[Any, Any, Any]:
        """Generate from a batch, and count its sentences. The Trainer calls this."""
        validation = self._validation
        label_name = (self.label_names or ["labels"])[0]
        labels = inputs.get(label_name)  # the loss may remove them, and Seq2SeqTrainer pads those that it returns
        if validation is None or labels is None:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys, **kwargs)  # type: ignore[no-any-return]
        if getattr(getattr(self.model, "config", None), "is_encoder_decoder", True):
            loss, preds, returned = super().prediction_step(model, inputs, False, ignore_keys, **kwargs)
            sources = inputs.get(getattr(self.model, "main_input_name", "input_ids"))
            if getattr(sources, "ndim", 0) != 2 or sources.is_floating_point():
                sources = None  # images or audio
        else:
            loss, _, _ = super().prediction_step(model, inputs, True, ignore_keys, **kwargs)
            inputs = self._prepare_inputs(inputs)
            preds, sources = self.complete(inputs)
            returned = inputs[label_name]
        _check_shapes(preds, labels)
        validation.collector.update(Output(preds, labels, sources))
        return (loss, None, None) if prediction_loss_only else (loss, preds, returned)

    def complete(self, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Generate from the prompts of a batch of a decoder-only model. Override it to generate in another way.

        Each row must be a prompt and one answer, with padding on either side. ``labels`` are -100 in the prompt, so the
        prompt is what ``attention_mask`` shows before the first label. The prompts are padded on the left, whichever
        side the tokenizer pads. `gen_kwargs` overrides ``model.generation_config``. By default, Transformers generates
        at most 20 tokens: set ``max_new_tokens`` to more than the longest answer needs.

        Args:
            inputs: the batch, on the device of the model.

        Returns:
            the ids that the model generates after each prompt, and the prompts, padded with -100.

        Raises:
            ValueError: if a batch has no ``labels`` or ``attention_mask``; if a row has no prompt, no answer, or
                several answers; or if neither the model nor ``processing_class`` has a padding token.
        """
        in_prompt = _find_prompts(inputs)
        width = int(in_prompt.sum(1).max())
        order = in_prompt.int().argsort(dim=1, stable=True)[:, -width:]  # moves each prompt to the end of its row
        mask = in_prompt.gather(1, order)
        options = {**self.gen_kwargs, "pad_token_id": self._pad_token_id()}
        prompts = inputs["input_ids"].gather(1, order)
        padded = prompts.masked_fill(~mask, options["pad_token_id"])
        # If the model is sharded, `generate` syncs the processes. FSDP 1 must also gather the outermost parameters.
        gather = getattr(self.model, "summon_full_params", None)
        with gather(self.model, recurse=False, writeback=False) if gather else nullcontext():
            generated = self.model.generate(input_ids=padded, attention_mask=mask.long(), **options)
        generated = getattr(generated, "sequences", generated)  # return_dict_in_generate=True
        return generated[:, width:], prompts.masked_fill(~mask, -100)

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train. A new run forgets the best validation of another one. Collective."""
        run = self._run
        if run is not None:
            self._open_record(trial)
            if self.args.eval_strategy != "no":
                run.check_loggers("val", naming=_name_stage(run, "eval", "val"))
            if not resume_from_checkpoint:
                run.load_state_dict({})
                if run.record is not None:
                    run.record.check_new("or resume that run with trainer.train(resume_from_checkpoint=...)")
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
        run = self._run
        if run is not None and run.options.compare_to and self.args.should_save:
            torch.save(run.state_dict(), Path(output_dir, _STATE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        run = self._run
        if checkpoint is None or run is None or not run.options.compare_to:
            return
        path = Path(checkpoint, _STATE)
        state = run_in_process_0(lambda: torch.load(path, weights_only=True) if path.exists() else None)
        run.load_state_dict(state or {})
        if state is None and not run.state_dict():
            run.warn_once(f"There is no {str(path)!r}, so the next evaluation counts as the first.")

    def _find_loggers(self, stage: str) -> Sequence[Any]:
        """The writer of TensorBoard, and the run of W&B, if the Trainer reports to them."""
        loggers = []
        for callback in self.callback_handler.callbacks:
            if getattr(callback, "tb_writer", True) is None and stage == "val":
                callback._init_summary_writer(self.args)  # as the Trainer does when it logs this evaluation
            loggers += [getattr(callback, "tb_writer", None), getattr(getattr(callback, "_wandb", None), "run", None)]
        return [logger for logger in loggers if logger is not None]

    def _open_record(self, trial: Any) -> None:
        """Open the folder of the translations of this run. Each trial of a hyperparameter search has its own."""
        run = self._run
        if run is None:
            return
        output_dir = Path(self._get_output_dir(trial))
        folder = run.options.folder
        if run.options.uses_folder_of_run:
            run.open_record(output_dir / "translations")
        elif folder is not None:
            run.open_record(Path(folder, output_dir.relative_to(self.args.output_dir)))

    def _pad_token_id(self) -> int:
        for source in (SimpleNamespace(**self.gen_kwargs), self.model.generation_config, self.processing_class):
            if (pad_token_id := getattr(source, "pad_token_id", None)) is not None:
                return int(pad_token_id)
        raise ValueError(
            "there is no padding token: pass processing_class=tokenizer to the Trainer, or set "
            "model.generation_config.pad_token_id or gen_kwargs['pad_token_id']"
        )


def _name_stage(run: Run, prefix: str, stage: str) -> Naming:
    """How the names of an evaluation are written, from its prefix, such as ``"eval_news"``."""
    return Naming(prefix, run.options.namings[stage].log_name, run.options.separator or "_", _shown_as)


def _find_metrics(table: MetricTable, prefix: str) -> MetricTable:
    """The metrics of a dataset, whose name follows the first underscore of a prefix like ``eval_de``."""
    _, _, dataset = prefix.partition("_")

    def missing(name: str, labels: list[str]) -> ValueError:
        return ValueError(
            f"{name!r} has metrics for {labels}, but none for the dataset {dataset!r} of {prefix}_{name}: write "
            "{'bleu': {'DATASET': CorpusBLEU()}}; to predict, set metric_key_prefix='test_DATASET'"
        )

    return table.for_dataset(dataset, missing)


def _shown_as(name: str) -> str:
    """The name in TensorBoard and W&B: ``"eval_bleu"`` -> ``"eval/bleu"``."""
    stage, _, rest = name.partition("_")
    return f"{stage}/{rest}" if stage in ("eval", "test") else f"train/{name}"


def _check_loader(dataloader: Any) -> None:
    """Raise an error if several processes may score the same sentences, and nothing tells which."""
    if process_count() > 1 and distributed_index(dataloader, 0) is None:
        raise ValueError(
            "repeated sentences of the evaluation dataset cannot be found: give it a length and at most one worker, or "
            "let one process read it, with accelerator_config={'dispatch_batches': True, 'split_batches': True}; a "
            "get_eval_dataloader of your own must return self.accelerator.prepare(loader)"
        )


def _check_shapes(preds: Any, target: Any) -> None:
    """Check that predictions are ids, one row for each row of the labels."""
    shape = tuple(getattr(preds, "shape", ()))
    if len(shape) != 2 or len(preds) != len(target):
        raise TypeError(
            f"predictions must be generated ids of shape (sentences, tokens), a row for each of {len(target)} labels, "
            f"got a {type(preds).__name__} of shape {shape} (logits? several per label?): use Seq2SeqTrainer with "
            "predict_with_generate=True in its Seq2SeqTrainingArguments"
        )


def _find_prompts(inputs: Mapping[str, Tensor]) -> Tensor:
    """Mark the prompts: labels [-100, -100, 5, -100] and attention_mask [0, 1, 1, 1] -> [False, True, False, False]."""
    names = [name for name, value in inputs.items() if value is not None]
    if not {"labels", "attention_mask"} <= {*names}:
        raise ValueError(
            f"to find prompts and answers, a batch must have labels and attention_mask, got {', '.join(names)}: use a "
            "data collator that pads (not padding_free)"
        )
    in_answer = inputs["labels"] != -100
    in_prompt = inputs["attention_mask"].bool() & (in_answer.cumsum(1) == 0)
    answers = (pad(in_answer.int(), (1, 0)).diff(dim=1) == 1).sum(1)
    for row, (length, count) in enumerate(zip(in_prompt.sum(1).tolist(), answers.tolist())):
        if not length or count != 1:
            found = f"{count} answers (truncated, several turns, or packed?)" if length else "no prompt"
            raise ValueError(
                f"each row of a batch must be a prompt, where labels are -100, and one answer, got {found} in row {row}"
            )
    return in_prompt
