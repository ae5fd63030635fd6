"""BLEU for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytorch_lightning as pl
import torch
from torch import Tensor

from lightning_bleu.counting.forms import materialize
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.scoring.settings import check_bool
from lightning_bleu.significance import Interval, PairedTest
from lightning_bleu.significance.systems import check_share
from lightning_bleu.training.dashboard import lay_out_intervals, show
from lightning_bleu.training.distributed import distributed_mask, shuffles
from lightning_bleu.training.evaluation import BestSoFar, Evaluation, Result
from lightning_bleu.training.mistakes import minimized, missing_packages
from lightning_bleu.user_warnings import WarnOnce

Extract: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
"""``(outputs, batch) -> (preds, target)``, where `outputs` is the return value of the step."""

_STEPS = {"val": "validation_step", "test": "test_step"}


class BLEUCallback(pl.Callback):
    """Computes and logs BLEU from the outputs of ``validation_step`` and ``test_step``.

    Return ``{"preds": ..., "target": ...}`` (other keys are ignored) or ``(preds, target)`` from the step, in any form
    that :meth:`CorpusBLEU.update` accepts. The score of each epoch is logged as ``val_bleu`` (also on the progress
    bar), or as ``test_bleu`` in ``trainer.test``. Its components are logged as ``val_bleu/precision_1`` and so on,
    ``val_bleu/brevity_penalty``, ``val_bleu/length_ratio``, ``val_bleu/hypothesis_length``, and
    ``val_bleu/reference_length``. ``EarlyStopping`` and ``ModelCheckpoint`` can monitor any of them. An epoch without
    sentences scores 0. Sentences of the sanity check are discarded.

    With several processes, every sentence counts exactly once, even if Lightning's sampler repeats some to give all
    processes the same number. The score is bit-for-bit that of a single process.

    TensorBoard also gets sample translations, a histogram of sentence BLEU, and figures; W&B gets the samples as a
    table.

    Args:
        metric: the metric; ``CorpusBLEU()`` when None. It is copied for every stage and loader.
        name: the last part of the logged name, as in ``val_bleu``.
        extract: takes the output of the step and the batch, and returns ``(preds, target)``.
        dataloader_names: one name per loader, logged as ``val_bleu/NAME``; when None, ``val_bleu/dataloader_idx_0`` and
            so on, as in Lightning.
        samples: how many sentences to show, in addition to the worst and the best; 0 for no samples, no histogram, and
            no figures.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to_best: compare each validation with the best one so far in the same ``trainer.fit``, on the same
            sentences (the loader must not shuffle). ``val_bleu/p_value`` is the p-value of
            :func:`lightning_bleu.paired_bootstrap`; it is 1 for the first validation, and also small when the epoch is
            clearly worse. ``val_bleu/best`` is the best score so far, including this epoch. The best validation is
            saved in the checkpoint, so a resumed run is compared with it. It also stays in the callback: create a new
            callback for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            in ``EarlyStopping`` or ``ModelCheckpoint(save_top_k=1)``, so that noise rarely prolongs training or
            replaces a checkpoint. Implies `compare_to_best`.

    Attributes:
        reports: the last score under each logged name, with its components.
        intervals: the confidence intervals of these scores.
        comparisons: the paired tests of these scores against the best so far.

    Raises:
        TypeError: for options of the wrong type, and during an epoch if no `preds` and `target` can be found.
        ValueError: for options that are out of range.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU
        >>> trainer = pl.Trainer(callbacks=[BLEUCallback(CorpusBLEU(percent=True))], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        metric: CorpusBLEU | None = None,
        *,
        name: str = "bleu",
        extract: Extract | None = None,
        dataloader_names: Sequence[str] | None = None,
        samples: int = 8,
        confidence: float | None = None,
        compare_to_best: bool = False,
        significance_level: float | None = None,
    ) -> None:
        if metric is not None and not isinstance(metric, CorpusBLEU):
            raise TypeError(f"'metric' must be a CorpusBLEU, got {metric!r} of type {type(metric).__name__}")
        if extract is not None and not callable(extract):
            raise TypeError(f"'extract' must take outputs and batch and return (preds, target), got {extract!r}")
        if not isinstance(name, str):
            raise TypeError(f"'name' must be a string, got {name!r} of type {type(name).__name__}")
        if isinstance(dataloader_names, str) or not isinstance(dataloader_names, Sequence | None):
            raise TypeError(f"'dataloader_names' must be a list of names, got {dataloader_names!r}")
        if dataloader_names is not None and len(set(dataloader_names)) < len(dataloader_names):
            raise ValueError(f"'dataloader_names' must be different from each other, got {list(dataloader_names)}")
        if not isinstance(samples, int) or isinstance(samples, bool):
            raise TypeError(f"'samples' must be an integer, got {samples!r} of type {type(samples).__name__}")
        if samples < 0:
            raise ValueError(f"'samples' must be 0 or more, got {samples}")
        check_bool("compare_to_best", compare_to_best)
        for option, value in {"confidence": confidence, "significance_level": significance_level}.items():
            if value is not None:
                check_share(option, value)
        self.metric = CorpusBLEU() if metric is None else metric
        self.name = name
        self.extract = extract
        self.dataloader_names = dataloader_names
        self.samples = samples
        self.confidence = confidence
        self.compare_to_best = compare_to_best or significance_level is not None
        self.reports: dict[str, BLEUScore] = {}
        self.intervals: dict[str, Interval] = {}
        self.comparisons: dict[str, PairedTest] = {}
        self._best = BestSoFar(significance_level)
        self._evaluations: dict[tuple[str, int], Evaluation] = {}
        self._laid_out = False
        self._warn_once = WarnOnce()

    @property
    def state_key(self) -> str:
        """Keeps the states of callbacks with different names apart."""
        return self._generate_state_key(name=self.name)

    def state_dict(self) -> dict[str, Any]:
        """The best validations, to save in the checkpoint."""
        return self._best.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best validations from a checkpoint."""
        self._best.load_state_dict(state_dict)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Warn about likely mistakes, and lay out custom scalars again in case the loggers changed."""
        self._laid_out = False
        for message in minimized(trainer.callbacks, (f"val_{self.name}", f"test_{self.name}")):  # type: ignore[attr-defined]
            self._warn_once(message)
        for message in missing_packages(trainer.loggers) if self.samples else ():
            self._warn_once(message)

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Discard the last validation."""
        if self.compare_to_best and any(map(shuffles, _loaders("val", trainer))):
            raise ValueError(
                "BLEUCallback(compare_to_best=True) needs the same sentences in the same order, but a validation "
                "loader shuffles them: make it with shuffle=False"
            )
        self._start("val")

    def on_test_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Discard the last test."""
        self._start("test")

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
        self._update("val", trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch."""
        self._update("test", trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores."""
        if trainer.is_global_zero and not trainer.sanity_checking:
            self._lay_out(trainer)
        self._finish("val", trainer, pl_module)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores."""
        self._finish("test", trainer, pl_module)

    def _start(self, stage: str) -> None:
        for key, evaluation in self._evaluations.items():
            if key[0] == stage:
                evaluation.reset()

    def _update(
        self,
        stage: str,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        preds, target = map(materialize, self._extract(stage, outputs, batch))
        mask = self._mask(stage, trainer, batch_idx, dataloader_idx, preds) if trainer.world_size > 1 else None
        self._evaluation(stage, dataloader_idx, trainer, pl_module.device).update(preds, target, mask)

    def _finish(self, stage: str, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        distributed = trainer.world_size > 1
        for dataloader_idx in range(max(1, len(_loaders(stage, trainer)))):
            key = self._key(stage, dataloader_idx, trainer)
            evaluation = self._evaluation(stage, dataloader_idx, trainer, pl_module.device)
            best = None
            if self.compare_to_best and stage == "val":
                best = BestSoFar() if trainer.sanity_checking else self._best  # the check sees only part of the dataset
            result = evaluation.result(key, confidence=self.confidence, best=best, keep_best=trainer.state.fn == "fit")
            self._remember(key, result)
            parts = {f"{key}/{name}": value for name, value in result.parts().items()}
            dtype = torch.float32 if pl_module.device.type == "mps" else torch.float64
            for name, value in {key: result.report.bleu, **parts}.items():
                # All processes have the same value; a mean could round it, a maximum cannot.
                pl_module.log(
                    name,
                    torch.tensor(value, dtype=dtype, device=pl_module.device),
                    prog_bar=name == key,
                    add_dataloader_idx=False,
                    sync_dist=distributed,
                    reduce_fx="max",
                )
            if trainer.is_global_zero and not trainer.sanity_checking:
                show(
                    trainer.loggers,
                    key,
                    evaluation,
                    result.report,
                    samples=self.samples,
                    step=trainer.global_step,
                    note=f"The sentences are those of process 0 of {trainer.world_size}." if distributed else "",
                    interval=result.interval,
                )

    def _evaluation(self, stage: str, dataloader_idx: int, trainer: pl.Trainer, device: torch.device) -> Evaluation:
        key = stage, dataloader_idx
        if key not in self._evaluations:
            needs_sentences = self.confidence is not None or (self.compare_to_best and stage == "val")
            keep_texts = self.samples > 0 and trainer.is_global_zero
            self._evaluations[key] = Evaluation(self.metric, keep_texts=keep_texts, keep_sentences=needs_sentences)
        evaluation = self._evaluations[key]
        if evaluation.metric.device != device:
            evaluation.metric.to(device)
        return evaluation

    def _extract(self, stage: str, outputs: Any, batch: Any) -> tuple[Any, Any]:
        source, found = _STEPS[stage], outputs
        if self.extract is not None:
            source, found = "extract", self.extract(outputs, batch)
        elif isinstance(outputs, Mapping) and {"preds", "target"} <= set(outputs):
            return outputs["preds"], outputs["target"]
        if isinstance(found, tuple | list) and len(found) == 2:
            return found[0], found[1]
        described = f"the keys {sorted(map(str, found))}" if isinstance(found, Mapping) else f"a {type(found).__name__}"
        raise TypeError(
            f"BLEUCallback needs hypotheses and references, but got {described} from {source!r}. Either return "
            f"{{'preds': ..., 'target': ...}} or (preds, target) from {_STEPS[stage]!r}, or use "
            "BLEUCallback(extract=lambda outputs, batch: (preds, target))"
        )

    def _mask(self, stage: str, trainer: pl.Trainer, batch_idx: int, dataloader_idx: int, preds: Any) -> Tensor | None:
        """Which sentences are not repeats. Warns and returns None if that is unknown."""
        loaders = _loaders(stage, trainer)
        mask = distributed_mask(loaders[dataloader_idx], batch_idx) if loaders else None
        if mask is None:
            reason = "its loader has no DistributedSampler, or a batch sampler other than PyTorch's"
        elif len(mask) in (1, len(preds)):  # a single value applies to all sentences of an item
            return mask
        else:
            reason = f"a batch of {len(mask)} items became {len(preds)} sentences"
        name = self._key(stage, dataloader_idx, trainer)
        message = (
            f"BLEUCallback cannot tell which sentences of {name!r} are scored by more than one process: {reason}. Such "
            "sentences are counted more than once."
        )
        self._warn_once(message)
        return None

    def _key(self, stage: str, dataloader_idx: int, trainer: pl.Trainer) -> str:
        """The logged name of a score."""
        key, loaders = f"{stage}_{self.name}", len(_loaders(stage, trainer))
        if self.dataloader_names is not None:
            if len(self.dataloader_names) != max(1, loaders):  # Lightning combines their batches into one stream
                raise ValueError(
                    f"'dataloader_names' must name every loader of {stage!r}, got {len(self.dataloader_names)} names "
                    f"for {loaders} loaders"
                )
            return f"{key}/{self.dataloader_names[dataloader_idx]}"
        return key if loaders <= 1 else f"{key}/dataloader_idx_{dataloader_idx}"

    def _remember(self, key: str, result: Result) -> None:
        self.reports[key] = result.report
        self.intervals.pop(key, None)
        self.comparisons.pop(key, None)
        if result.interval is not None:
            self.intervals[key] = result.interval
        if result.comparison is not None and result.comparison.test is not None:
            self.comparisons[key] = result.comparison.test

    def _lay_out(self, trainer: pl.Trainer) -> None:
        """Lay out the intervals. TensorBoard allows one layout per run, so the first callback makes it for all."""
        callbacks: list[BLEUCallback] = [
            callback
            for callback in trainer.callbacks  # type: ignore[attr-defined]
            if isinstance(callback, BLEUCallback) and callback.confidence is not None
        ]
        if callbacks and callbacks[0] is self and not self._laid_out:
            loaders = range(max(1, len(_loaders("val", trainer))))
            tags = [callback._key("val", loader, trainer) for callback in callbacks for loader in loaders]
            lay_out_intervals(trainer.loggers, tags)
            self._laid_out = True


def _loaders(stage: str, trainer: pl.Trainer) -> list[Any]:
    """The loaders, if Lightning evaluates them in turn; empty if it combines their batches."""
    if stage == "test":
        loop = trainer.test_loop
    else:
        loop = trainer.fit_loop.epoch_loop.val_loop if trainer.state.fn == "fit" else trainer.validate_loop
    combined = loop._combined_loader
    return [] if combined is None or combined._mode != "sequential" else list(combined.flattened)
