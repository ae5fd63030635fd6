"""BLEU and other scores for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.evaluator import Evaluator, EvaluatorOptions, MetricsByName
from lightning_bleu.scoring.scoring import float_type
from lightning_bleu.training.functions import call_with_third
from lightning_bleu.training.loaders import Origin, check_names, name_loaders
from lightning_bleu.training.trainer import find_loaders, logged_names, logged_step, run_folder, suspect_monitors
from lightning_bleu.training.validation import STEPS, Output

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BLEUCallback(Evaluator, pl.Callback):
    """Computes and logs BLEU, and other scores, from the outputs of ``validation_step`` and ``test_step``.

    Return ``{"preds": ..., "target": ...}`` or ``(preds, target)`` from the step, in any form that
    :meth:`CorpusBLEU.update` accepts. Add ``"source"`` to show the source sentences in samples and files: strings, or
    ids, which are decoded like the hypotheses. Add ``"index"``, the position of each sentence in its dataset, if the
    loader shuffles, has a sampler of its own, or reads an iterable dataset in several processes: a position counts
    once, and samples, files, and tests are in the order of the positions. Add ``"sample_mask"`` to leave sentences out;
    both are arguments of :meth:`CorpusBLEU.update`. Add ``"group"``, a label per sentence such as its language, for a
    score per group. Other keys are ignored.

    What is logged, shown, and written is that of an :class:`Evaluator`: ``val_bleu`` and ``test_bleu``, also on the
    progress bar, their components as ``val_bleu/precision_1`` and so on, sample translations, figures, and charts.
    ``EarlyStopping`` and ``ModelCheckpoint`` can monitor any of these numbers. A batch for which the step returns None
    is skipped; return ``{"preds": [], "target": []}`` to skip a validation. The sanity check is not shown or written,
    and not in `results`.

    In processes started by ``strategy="ddp_spawn"`` or ``"ddp_fork"``, `results` is set in these processes only; read
    ``trainer.callback_metrics`` after the run.

    Args:
        metrics: the metrics by name, or one that needs no name; see :class:`Evaluator`.
        extract: takes the output of the step and the batch, and returns ``(preds, target)`` or a dict as above. With a
            third parameter, ``dataloader_idx``, it also gets the index of the loader.
        dataloader_names: one name per loader. When None: the keys of a dict of loaders, or ``dataloader_idx_0`` and so
            on, as in Lightning.
        options: ``decoder``, ``log_name``, ``parts``, ``samples``, ``translations``, ``keep_translations``,
            ``confidence``, ``compare_to``, ``significance_level``, and ``loggers`` of :class:`Evaluator`. The
            validation that ``compare_to`` needs is saved in checkpoints. The first one may be one of
            ``trainer.validate`` before ``trainer.fit``, or the sanity check with ``num_sanity_val_steps=-1``. The step
            and the epoch of files are those of the checkpoint (0 and null for one with ``save_weights_only=True``).
            Callbacks of one Trainer need different ``log_name``.

    Attributes:
        results: the last result of each score by its logged name; see :class:`Evaluator`.

    Raises:
        TypeError: for options of the wrong type; and if no `preds` and `target` can be found in what a step returned,
            or if it returned None in a whole epoch.
        ValueError: for options that are out of range; when an epoch begins, if metrics read ids differently; and during
            an epoch, if a loader or a group has no metric.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
        >>> bleu = BLEUCallback({"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}, confidence=0.95)
        >>> trainer = pl.Trainer(callbacks=[bleu], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | MetricsByName | Callable[..., Any] | None = None,
        *,
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
            check_names("loaders", dataloader_names)
        super().__init__(metrics, **options)
        self.extract = extract
        self.dataloader_names = dataloader_names
        self._is_fit = True
        self._checkpoint: tuple[int, tuple[int, int | None]] | None = None

    @property
    def state_key(self) -> str:
        """Keeps the states of callbacks with different names apart."""
        return self._generate_state_key(log_name=self.namings["val"].tag("{metric}"))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the best or first validations from a checkpoint, unless it is loaded to validate or to test."""
        if self._is_fit:
            super().load_state_dict(state_dict)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Open the folder of the translations, and warn about likely mistakes."""
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        namings = [*self.namings.values()]
        others = [other for other in callbacks if isinstance(other, BLEUCallback) and other is not self]
        for naming, other in ((naming, other.namings[naming.stage]) for naming in namings for other in others):
            if naming.folder == other.folder:
                raise ValueError(
                    f"two BLEUCallbacks have the names {naming.log_name!r} and {other.log_name!r}: give all metrics to "
                    "one of them, or set a name that differs in more than punctuation, such as "
                    "log_name='{stage}_other_{metric}'"
                )
        tags = {naming.tag(name): next(iter(own.values())) for name, own in self.metrics.items() for naming in namings}
        for message in suspect_monitors(callbacks, tags):
            self.warn_once(message)
        self._is_fit = stage == "fit"
        if self._is_fit:
            self._checkpoint = None
        root = run_folder(trainer) / "translations" if self.translations is True else self.translations
        self.open_record(None if trainer.fast_dev_run else trainer.strategy.broadcast(root))  # type: ignore[attr-defined]
        if self.record is not None and stage != "predict":
            self.record.check_folder(*self.namings["test" if stage == "test" else "val"].folder)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember which step and which epoch the weights of a module are from."""
        self._checkpoint = id(pl_module), (checkpoint.get("global_step", trainer.global_step), checkpoint.get("epoch"))

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that a new run does not write among the translations of another one."""
        if self.record is not None and self._checkpoint is None and trainer.global_step == 0:
            other = "a logger with a directory for each run" if self.translations is True else "translations=True"
            self.record.check_new(f"such as with {other}, or resume that run with trainer.fit(ckpt_path=...)")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The weights are no longer those of the checkpoint from which training resumes."""
        self._checkpoint = None

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a validation or a test."""
        stage = "test" if trainer.testing else "val"
        dataloaders, given = find_loaders(trainer, stage)
        names = name_loaders(stage, given, max(1, len(dataloaders)), given=self.dataloader_names)
        origin = Origin("extract" if self.extract else STEPS[stage])
        loggers = () if trainer.fast_dev_run else trainer.loggers  # type: ignore[attr-defined]
        self.begin(dataloaders, names, stage, origin, loggers=loggers, device=pl_module.device)

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
        validation = self.validation
        assert validation is not None
        if self.extract is not None:
            outputs = call_with_third(self.extract, "dataloader_idx", outputs, batch, dataloader_idx)
        validation.returned.add(outputs is not None)
        if outputs is not None:
            output = read_output(outputs, STEPS[validation.stage], validation.origin.name)
            validation.update(output, batch_idx, dataloader_idx)

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        # A sanity check of the whole dataset may be the first validation, but not the best, which has a checkpoint.
        is_whole = self.compare_to == "first" and trainer.num_sanity_val_steps == math.inf
        is_partial = trainer.fast_dev_run or (trainer.sanity_checking and not is_whole)  # type: ignore[attr-defined]
        validation = self.score(counts=not is_partial, keep=self._is_fit)
        if not trainer.sanity_checking and validation.returned == {False}:
            read_output(None, STEPS[validation.stage], validation.origin.name)  # raises an error
        numbers = validation.numbers()
        # If the module logs them in the hook that ends the epoch, Lightning raises an error.
        if taken := sorted(numbers.keys() & logged_names(trainer)):
            raise ValueError(
                f"{type(pl_module).__name__} or another callback logs {taken[0]!r}, like BLEUCallback, so one would "
                "replace the other: rename one of them, as with BLEUCallback(log_name=...)"
            )
        for name, value in numbers.items():
            # All processes have the same value; a mean could round it, a maximum cannot.
            pl_module.log(
                name,
                torch.tensor(value, dtype=float_type(pl_module.device), device=pl_module.device),
                prog_bar=name in validation.detailed,
                add_dataloader_idx=False,
                sync_dist=trainer.world_size > 1,
                reduce_fx="max",
            )
        if trainer.sanity_checking:
            for subset in validation.subsets.values():
                subset.sentences.read(subset.sentences.readable[:1])  # finds errors before the training
            return
        step, epoch = self._find_place(trainer)
        self.publish(validation, step, epoch, shown_step=logged_step(trainer))

    on_test_epoch_end = on_validation_epoch_end

    def _find_place(self, trainer: pl.Trainer) -> tuple[int, int | None]:
        """Step and epoch of the weights. Lightning restores them from a checkpoint only to resume training."""
        module, place = self._checkpoint or (None, None)
        if place is not None and not self._is_fit and module == id(trainer.lightning_module):
            return place
        # Callbacks hear nothing of a checkpoint with weights only.
        return trainer.global_step, trainer.current_epoch if self._is_fit or trainer.ckpt_path is None else None


# LightningCLI then finds the types, the defaults, and the documentation of the options in Evaluator.
BLEUCallback.__init__.__annotations__["options"] = "Any"


def read_output(value: Any, step: str, origin: str) -> Output:
    """Find the sentences in what a step, or `extract`, returned.

    Args:
        value: ``{"preds": ..., "target": ...}``, perhaps with other fields of :class:`Output`, or ``(preds, target)``.
        step: the name of the step, for error messages.
        origin: what returned the value, for error messages.

    Raises:
        TypeError: if the value is neither.

    Example:
        >>> read_output({"preds": ["a"], "target": ["b"], "loss": 1.0}, "validation_step", "validation_step")
        Output(preds=['a'], target=['b'], source=None, sample_mask=None, index=None, group=None)
    """
    if isinstance(value, Mapping) and {"preds", "target"} <= set(value):
        return Output(**{name: value[name] for name in Output._fields if name in value})
    if isinstance(value, tuple | list) and len(value) == 2:
        return Output(*value)
    found = f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    raise TypeError(
        f"BLEUCallback needs hypotheses and references, but got {found} from {origin!r}. Either return "
        f"{{'preds': ..., 'target': ...}} or (preds, target) from {step!r}, or use "
        "BLEUCallback(extract=lambda outputs, batch: (preds, target)). To skip a validation, return "
        "{'preds': [], 'target': []}: nothing is logged then"
    )
