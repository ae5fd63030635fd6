"""BLEU and other scores for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.core.processes import run_in_process_0
from lightning_bleu.core.scoring import EvaluatorMetric, float_type
from lightning_bleu.evaluation.input.outputs import Origin, read_step, suspect_keys
from lightning_bleu.evaluation.lightning_internals import (
    find_loaders,
    logged_names,
    logged_step,
    restart_validation,
)
from lightning_bleu.evaluation.metrics.callables import call_with_third
from lightning_bleu.evaluation.monitors import suspect_monitors
from lightning_bleu.evaluation.names import STEPS, check_names, name_loaders
from lightning_bleu.evaluation.options import EvaluatorOptions, MetricsByName, check_names_of_options, show_options
from lightning_bleu.evaluation.scores.validation import Outcome
from lightning_bleu.evaluator import Evaluator, Plan, StartedValidation
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.results import Results

if TYPE_CHECKING:
    from typing_extensions import Never, Unpack


class BLEUCallback(pl.Callback):
    """Computes and logs BLEU, and other scores, from the outputs of ``validation_step`` and ``test_step``.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
        >>> bleu = BLEUCallback({"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}, confidence=0.95)
        >>> trainer = pl.Trainer(callbacks=[bleu], logger=False, accelerator="cpu")

    Args:
        metrics: the metrics by name, or one that needs no name; ``CorpusBLEU()`` when None.
        extract: a function of the step's output and the batch that returns what a step may return, or None to skip the
            batch. With a third parameter, ``dataloader_idx``, it also gets the number of the loader.
        dataloader_names: one name per loader; the keys of a dict of loaders, or ``dataloader_idx_0`` and so on, when
            None.
        options: the options of :class:`Evaluator`, which explains them:

            - ``decoder``: a tokenizer or function that decodes ids
            - ``log_name``: how logged names are made, ``"{stage}_{metric}"`` by default
            - ``parts``: whether to log the components of scores, or which
            - ``samples``: the number of sentences to show of each kind
            - ``translations``: a folder for texts and scores, or True for a folder in that of the run
            - ``confidence``: the level of the confidence intervals, such as 0.95
            - ``compare_to``: ``"best"`` to compare with the best validation before
            - ``only``: the loaders and groups to score
            - ``loggers``: loggers besides those of the Trainer

    Attributes:
        evaluator: the :class:`Evaluator`, which has the options.
        results: the last result of each score by its logged name, without the sanity check. With ``ddp_spawn`` or
            ``ddp_fork``, it is empty in the process that started the others.

    Raises:
        TypeError: for options of the wrong type; in an epoch, if the steps return no `preds` and `target`.
        ValueError: for options that are out of range; when a run or an epoch begins, if two callbacks have the same
            names, metrics read ids differently, or processes have different options; in the sanity check, if a logger
            refuses the name of a number.

    Notes:
        The step returns ``{"preds": ..., "target": ...}`` or ``(preds, target)``; see :meth:`CorpusBLEU.update`.
        Optional keys are ``"source"``, ``"index"``, ``"sample_mask"``, ``"group"``, and ``"id"``, the arguments of
        :meth:`Evaluator.update`.
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | EvaluatorMetric | MetricsByName | Callable[..., Any] | None = None,
        *more_metrics: Never,
        extract: Callable[..., Any] | None = None,
        dataloader_names: Sequence[str] | None = None,
        **options: Unpack[EvaluatorOptions],
    ) -> None:
        if extract is not None and not callable(extract):
            raise TypeError(f"'extract' must take outputs and batch and return (preds, target), got {extract!r}")
        if dataloader_names is not None:
            is_list = isinstance(dataloader_names, Sequence) and not isinstance(dataloader_names, str)
            if not (is_list and dataloader_names and all(isinstance(item, str) for item in dataloader_names)):
                raise TypeError(f"'dataloader_names' must be a list of names, got {dataloader_names!r}")
        check_names_of_options(
            type(self).__name__, options, [metrics, *more_metrics], others=["extract", "dataloader_names"]
        )
        self.evaluator = Evaluator(metrics, **options)
        if dataloader_names is not None:
            check_names("loaders", dataloader_names, self.evaluator.reserved_names)
        self.extract = extract
        self.dataloader_names = dataloader_names
        self._started: StartedValidation | None = None
        self._is_fit = True
        self._is_validated = True
        self._loaded: tuple[int, int, int | None] | None = None  # id of the module, step, and epoch

    @property
    def results(self) -> Results:
        """The last result of each score by its logged name."""
        return self.evaluator.results

    @property
    def state_key(self) -> str:
        """Keeps the states of callbacks with different names apart."""
        evaluator = self.evaluator
        return self._generate_state_key(log_name=evaluator.options.log_name, metrics=sorted(evaluator.metrics))

    def state_dict(self) -> dict[str, Any]:
        """The best validations, to save in a checkpoint; see :meth:`Evaluator.state_dict`."""
        return self.evaluator.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the best validations from a checkpoint, unless it is loaded to validate or to test."""
        if self._is_fit:
            self.evaluator.load_state_dict(state_dict)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Open the folder of the translations, and check names. Collective.

        Raises:
            ValueError: if two callbacks have one name, or files cannot be written.
        """
        self._check_other_callbacks(trainer.callbacks)  # type: ignore[attr-defined]
        self._is_fit = stage == "fit"
        if self._is_fit:
            self._loaded = None
        self._open_record(trainer, stage)

    def _open_record(self, trainer: pl.Trainer, stage: str) -> None:
        """Open the folder of the translations, which process 0 names. Collective."""
        evaluator = self.evaluator
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            evaluator.open_record(None)
            return

        def find_folder() -> Any:
            folder = run_folder(trainer) / "translations" if evaluator.options.uses_folder_of_run else None
            evaluator.open_record(folder or evaluator.options.folder)
            if evaluator.record is not None and stage != "predict":
                evaluator.record.check_folder(*evaluator.namings["test" if stage == "test" else "val"].folder)
            return evaluator.record and evaluator.record.folder

        evaluator.open_record(run_in_process_0(find_folder))

    def _check_other_callbacks(self, callbacks: Sequence[Any]) -> None:
        """Raise a ValueError if another BLEUCallback logs scores with the same names."""
        for callback in callbacks:
            if not isinstance(callback, BLEUCallback) or callback is self:
                continue
            for stage, naming in self.evaluator.namings.items():
                other = callback.evaluator.namings[stage]
                tags = {naming.tag(name) for name in self.evaluator.metrics}
                shared = sorted(tags & {other.tag(name) for name in callback.evaluator.metrics})
                if shared:
                    raise ValueError(
                        f"two BLEUCallbacks log {shared[0]!r}: give all metrics to one of them, or set another name, "
                        "such as log_name='{stage}_other_{metric}'"
                    )

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember which step and epoch the weights of a module are from, and validate from the beginning."""
        states = checkpoint.get("callbacks", {})
        if self.state_key not in states:  # the best is known by the name of its score: it may be that of other metrics
            others = [state for key, state in states.items() if key.startswith(f"{type(self).__qualname__}{{")]
            best = {name: saved for state in others for name, saved in state.get("best", {}).items()}
            self.load_state_dict({**others[0], "best": best} if others else {})
        restart_validation(checkpoint)
        step = checkpoint.get("global_step", trainer.global_step)
        self._loaded = id(pl_module), step, checkpoint.get("epoch")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that a new run does not write among the translations of another one."""
        record = self.evaluator.record
        if record is None or self._loaded is not None or trainer.global_step > 0:
            return
        other = "translations=True"
        if self.evaluator.options.uses_folder_of_run:
            other = "a logger with a directory for each run"
        ways_out = f"such as with {other}, or resume that run with trainer.fit(ckpt_path=...): no checkpoint was loaded"
        run_in_process_0(lambda: record.check_new(ways_out))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The weights are no longer those of the checkpoint from which training resumes.

        Callbacks and schedulers are known now, which may prefer worse scores, and loggers can be opened.
        """
        self._loaded = None
        self._is_validated = False
        evaluator = self.evaluator
        callbacks: Any = trainer.callbacks  # type: ignore[attr-defined]
        schedulers, namings = trainer.lr_scheduler_configs, evaluator.namings.values()
        batches = trainer.num_training_batches / trainer.accumulate_grad_batches
        steps = math.inf if math.isinf(batches) else math.ceil(batches) * (trainer.check_val_every_n_epoch or 1)
        for message in suspect_monitors(callbacks, schedulers, namings, evaluator.metrics, steps):
            evaluator.warn_once(message)
        # Opening loggers warns about them, also without a sanity check.
        run_in_process_0(lambda: Dashboard(evaluator.warn_once).open(_find_loggers(trainer)))

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a validation or a test."""
        self._started = None
        stage = "test" if trainer.testing else "val"
        dataloaders, given = find_loaders(trainer, stage)
        names = name_loaders(stage, given, max(1, len(dataloaders)), given=self.dataloader_names)
        origin = Origin("extract" if self.extract else STEPS[stage], owner=type(self).__name__)
        self._started = self.evaluator.begin(
            Plan(
                stage=stage,
                names=names,
                dataloaders=dataloaders,
                origin=origin,
                loggers=_find_loggers(trainer),
            )
        )

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch."""
        started = self._started
        assert started is not None
        loader = started.collector.loaders[dataloader_idx]
        if loader.is_ignored:
            return
        if self.extract is not None:
            outputs = call_with_third(self.extract, "dataloader_idx", outputs, batch, dataloader_idx)
        if outputs is None:
            started.collector.skip()
            return
        output = read_step(outputs, STEPS[started.plan.stage], loader.origin.name, loader.name)
        for message in suspect_keys(outputs, loader.origin.name):
            self.evaluator.warn_once(message)
        started.collector.update(output, batch_idx, dataloader_idx)

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        started = self._started
        assert started is not None
        self._started = None  # frees the memory
        stage = started.plan.stage
        outcome = self.evaluator.score(
            started,
            is_trial=trainer.fast_dev_run or trainer.sanity_checking,  # type: ignore[attr-defined]
            is_limited=is_limited(trainer, stage),
            may_replace=self._is_fit,
        )
        may_skip_all = self.extract is not None or self.evaluator.options.only is not None or trainer.sanity_checking
        if outcome.skipped and not outcome.read and not may_skip_all:
            read_step(None, STEPS[stage], STEPS[stage])  # raises an error
        for reason in outcome.refused.values():
            if trainer.sanity_checking:
                raise ValueError(reason)
            self.evaluator.warn_once(reason)
        _log_numbers(outcome, trainer, pl_module)
        if not trainer.sanity_checking:
            self._is_validated = True
            step, epoch = self._find_place(trainer)
            self.evaluator.publish(started, outcome, step, epoch, shown_step=logged_step(trainer))

    on_test_epoch_end = on_validation_epoch_end

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Warn if there was no validation, although there is a loader for it."""
        may_validate = trainer.enable_validation and not trainer.fast_dev_run  # type: ignore[attr-defined]
        if may_validate and not self._is_validated:
            self.evaluator.warn_once(
                "The training ended, and no validation ran, so nothing was scored: look at val_check_interval and "
                "check_val_every_n_epoch, and at the length of the training dataset, which may have fewer items."
            )

    def on_init_end(self, *_: Any, **__: Any) -> None:
        """An error: a Trainer of Transformers calls this, or one of the next two, first.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{type(self).__name__} is for the Trainer of Lightning: for one of Transformers, use EvaluatorMixin of "
            "lightning_bleu.hugging_face"
        )

    on_train_begin = on_prediction_step = on_init_end

    def _find_place(self, trainer: pl.Trainer) -> tuple[int, int | None]:
        """Step and epoch of the weights. Lightning restores them from a checkpoint only to resume training."""
        if self._loaded is not None and not self._is_fit:
            module, step, epoch = self._loaded
            if module == id(trainer.lightning_module):
                return step, epoch
        # Callbacks hear nothing of a checkpoint with weights only.
        is_unknown = trainer.ckpt_path is not None and not self._is_fit
        return trainer.global_step, None if is_unknown else trainer.current_epoch


def _find_loggers(trainer: pl.Trainer) -> Sequence[Any]:
    """The loggers in which validations are shown."""
    return () if trainer.fast_dev_run else trainer.loggers  # type: ignore[attr-defined]


def _log_numbers(outcome: Outcome, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
    """Log the numbers of a validation with Lightning. Those that a logger refuses go to no logger.

    Only scores of loaders and of all are on the progress bar.
    """
    # If the module logs them in the hook that ends the epoch, Lightning raises an error.
    taken = sorted(outcome.numbers.keys() & logged_names(trainer))
    if taken:
        raise ValueError(
            f"{type(pl_module).__name__} or another callback logs {taken[0]!r}, like BLEUCallback, so one would "
            "replace the other: rename one of them, as with BLEUCallback(log_name=...)"
        )
    dtype = float_type(pl_module.device)
    for logged, (name, value) in outcome.numbers.items():
        is_single_score = not name.score and not name.detail and not name.group
        # All processes have the same value; a mean could round it, a maximum cannot.
        pl_module.log(
            logged,
            torch.tensor(value, dtype=dtype, device=pl_module.device),
            prog_bar=is_single_score,
            logger=False if logged in outcome.refused else None,  # True warns if there is no logger
            add_dataloader_idx=False,
            sync_dist=trainer.world_size > 1,
            reduce_fx="max",
        )


show_options(BLEUCallback.__init__)


def run_folder(trainer: Any) -> Path:
    """The folder of a run, where Lightning puts the checkpoints as well.

    Raises:
        ValueError: if it is not on this machine.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    root = str((logger and logger.save_dir) or trainer.default_root_dir)
    if "://" in root:
        raise ValueError(f"translations=True needs a local folder for the run, got {root!r}: set translations='FOLDER'")
    if logger is None:
        return Path(root)
    version = logger.version if isinstance(logger.version, str) else f"version_{logger.version}"
    return Path(root, str(logger.name), version)


def is_limited(trainer: Any, stage: str) -> bool:
    """Whether only some batches of a stage run, because of ``limit_val_batches``, for example."""
    limit = trainer.limit_test_batches if stage == "test" else trainer.limit_val_batches
    return limit != 1.0 or isinstance(limit, int)
