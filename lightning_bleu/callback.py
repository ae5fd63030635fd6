"""BLEU for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from lightning_bleu.messages import WarnOnce
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.reading.forms import materialize
from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.significance import Interval, PairedTest
from lightning_bleu.training.best import BestSoFar
from lightning_bleu.training.dashboard import View, lay_out_charts
from lightning_bleu.training.evaluation import Evaluation, Result
from lightning_bleu.training.loggers import Display, find_displays, missing_packages
from lightning_bleu.training.mistakes import minimized
from lightning_bleu.training.names import name_loaders
from lightning_bleu.training.options import check_metrics, check_options
from lightning_bleu.training.outputs import Extract, Output, call_extract, read_output
from lightning_bleu.training.samplers import distributed_mask, gather_objects, shuffles
from lightning_bleu.training.translations import check_folder, name_folder, read_all, write_translations

_STEPS = {"val": "validation_step", "test": "test_step"}
_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


class BLEUCallback(pl.Callback):
    """Computes and logs BLEU from the outputs of ``validation_step`` and ``test_step``.

    Return ``{"preds": ..., "target": ...}`` or ``(preds, target)`` from the step, in any form that
    :meth:`CorpusBLEU.update` accepts. Add ``"source"`` to show the source sentences in samples and files: strings, or
    ids, which are decoded like the hypotheses. Other keys are ignored.

    The score of each epoch is logged as ``val_bleu`` (also on the progress bar), or as ``test_bleu`` in
    ``trainer.test``. Its components are logged as ``val_bleu/precision_1`` and so on, ``val_bleu/brevity_penalty``,
    ``val_bleu/length_ratio``, ``val_bleu/hypothesis_length``, and ``val_bleu/reference_length``. ``EarlyStopping`` and
    ``ModelCheckpoint`` can monitor any of them. An epoch without sentences scores 0. Sentences of the sanity check are
    discarded.

    With several loaders, each score is logged as ``val_bleu/NAME``, its components below that name, and ``val_bleu`` is
    the mean of the scores.

    With several processes, every sentence counts exactly once, even if Lightning's sampler repeats some to give all
    processes the same number. Scores, samples, and files are those of a single process. (See
    :func:`lightning_bleu.distributed_mask` for what this requires.) In processes started by ``strategy="ddp_spawn"`` or
    ``"ddp_fork"``, `reports`, `intervals`, and `comparisons` are set in these processes only; read
    ``trainer.callback_metrics`` after the run.

    TensorBoard also gets sample translations with marked differences, two figures, a histogram of sentence BLEU, and
    charts on the page of custom scalars. W&B gets a table of the samples; MLflow gets the table and the figures.

    Args:
        metric: the metric, or a dict of a metric for each loader name; ``CorpusBLEU()`` when None. It is copied.
        name: the last part of the logged name, as in ``val_bleu``.
        extract: takes the output of the step and the batch, and returns ``(preds, target)`` or a dict as above. With a
            third parameter, ``dataloader_idx``, it also gets the index of the loader.
        dataloader_names: one name per loader. When None: the keys of a dict of loaders, or the keys of a dict of
            metrics, or ``dataloader_idx_0`` and so on, as in Lightning.
        samples: how many sentences to show: this number of the first, and this number of the worst. 0 for no samples,
            no histogram, and no figures.
        translations: a folder. Each validation and test writes hypotheses to ``FOLDER/val_bleu/step-0000500.txt``, and
            references and sources to ``ref.txt`` (``ref-1.txt``, ...) and ``src.txt`` beside it, as plain text with one
            sentence per line, in the order of the dataset. The step is that of checkpoints. With several loaders, each
            has a folder of its own below ``val_bleu``. The validation loader must not shuffle.
        keep_translations: how many of the latest files of hypotheses to keep in each folder; None for all.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to_best: compare each validation with the best one so far in the same ``trainer.fit``, on the same
            sentences (the loader must not shuffle). ``val_bleu/p_value`` is the p-value of
            :func:`lightning_bleu.paired_bootstrap`; it is 1 for the first validation, and also small when the epoch is
            clearly worse. ``val_bleu/best`` is the best score so far, including this epoch (with several loaders, also
            the mean of their best scores). The best validation is saved in the checkpoint, so a resumed run is compared
            with it. It also stays in the callback: create a new callback for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            in ``EarlyStopping`` or ``ModelCheckpoint(save_top_k=1)``, so that noise rarely prolongs training or
            replaces a checkpoint. Implies `compare_to_best`.

    Attributes:
        reports: the last score under each logged name, with its components.
        intervals: the confidence intervals of these scores.
        comparisons: the paired tests of these scores against the best so far.

    Raises:
        TypeError: for options of the wrong type, and during an epoch if no `preds` and `target` can be found.
        ValueError: for options that are out of range, and when an epoch begins if a loader has no metric.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU
        >>> bleu = BLEUCallback({"en-de": CorpusBLEU(), "en-zh": CorpusBLEU(tokenizer="zh")})
        >>> trainer = pl.Trainer(callbacks=[bleu], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        metric: CorpusBLEU | Mapping[str, CorpusBLEU] | None = None,
        *,
        name: str = "bleu",
        extract: Extract | None = None,
        dataloader_names: Sequence[str] | None = None,
        samples: int = 8,
        translations: str | os.PathLike[str] | None = None,
        keep_translations: int | None = None,
        confidence: float | None = None,
        compare_to_best: bool = False,
        significance_level: float | None = None,
    ) -> None:
        check_options(
            name=name,
            extract=extract,
            dataloader_names=dataloader_names,
            samples=samples,
            translations=translations,
            keep_translations=keep_translations,
            confidence=confidence,
            compare_to_best=compare_to_best,
            significance_level=significance_level,
        )
        self.metric = CorpusBLEU() if metric is None else check_metrics(metric)
        self.name = name
        self.extract = extract
        self.dataloader_names = dataloader_names
        self.samples = samples
        self.translations = None if translations is None else Path(translations).expanduser()
        self.keep_translations = keep_translations
        self.confidence = confidence
        self.compare_to_best = compare_to_best or significance_level is not None
        self.reports: dict[str, BLEUScore] = {}
        self.intervals: dict[str, Interval] = {}
        self.comparisons: dict[str, PairedTest] = {}
        self._best = BestSoFar(significance_level)
        self._displays: list[Display] = []
        self._shows = False
        self._folder: Path | None = None
        self._names = [""]
        self._evaluations: list[Evaluation] = []
        self._reasons: dict[int, str] = {}
        self._checkpoint_step: int | None = None
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
        """Find out which loggers can show sentences, and warn about likely mistakes."""
        for message in minimized(trainer.callbacks, (f"val_{self.name}", f"test_{self.name}")):  # type: ignore[attr-defined]
            self._warn_once(message)
        for message in missing_packages(trainer.loggers) if self.samples else ():
            self._warn_once(message)
        self._laid_out = False
        self._checkpoint_step = None
        self._displays = find_displays(trainer.loggers) if trainer.is_global_zero else []
        # All processes keep texts if process 0 shows them.
        self._shows = trainer.strategy.broadcast(bool(self._displays and self.samples))
        self._folder = None if trainer.fast_dev_run else self.translations  # type: ignore[attr-defined]
        if self._folder is not None and trainer.is_global_zero:
            check_folder(self._folder)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember which step the weights are from."""
        self._checkpoint_step = checkpoint.get("global_step")

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a validation."""
        self._start("val", trainer, pl_module)

    def on_test_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a test."""
        self._start("test", trainer, pl_module)

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
        self._update("val", trainer, outputs, batch, batch_idx, dataloader_idx)

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
        self._update("test", trainer, outputs, batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        if not trainer.sanity_checking and not self._laid_out:
            self._lay_out(trainer)
        self._finish("val", trainer, pl_module)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        self._finish("test", trainer, pl_module)

    def _start(self, stage: str, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        compares, writes = self.compare_to_best and stage == "val", self._folder is not None
        needing_order = ["compare_to_best=True"] * compares + ["translations=..."] * writes
        if needing_order and any(map(shuffles, _loaders(stage, trainer))):
            raise ValueError(
                f"BLEUCallback({needing_order[0]}) needs the same sentences in the same order, but a loader of "
                f"{stage!r} shuffles them: make it with shuffle=False"
            )
        names = name_loaders(
            stage,
            _iterables(stage, trainer),
            max(1, len(_loaders(stage, trainer))),
            given=self.dataloader_names,
            metrics=list(self.metric) if isinstance(self.metric, Mapping) else None,
        )
        self._names = names or [""]
        max_texts = math.inf if writes else _MAX_TEXTS if self._shows else 0
        keep_sentences = self.confidence is not None or compares
        self._evaluations = []
        self._reasons = {}
        for name in self._names:
            evaluation = Evaluation(self._metric(name), max_texts=max_texts, keep_sentences=keep_sentences)
            evaluation.metric.to(pl_module.device)
            self._evaluations.append(evaluation)

    def _update(
        self, stage: str, trainer: pl.Trainer, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int
    ) -> None:
        output = self._read(stage, outputs, batch, dataloader_idx)
        preds = materialize(output.preds)
        mask = self._mask(stage, trainer, batch_idx, dataloader_idx, preds) if trainer.world_size > 1 else None
        self._evaluations[dataloader_idx].update(preds, output.target, mask, source=output.source)

    def _finish(self, stage: str, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.world_size > 1:
            self._warn_about_repeats(stage)
        key = self._tag(stage, "")
        scores: dict[str, list[float]] = {key: [], f"{key}/best": []}
        for name, evaluation in zip(self._names, self._evaluations):
            tag = self._tag(stage, name)
            best = None
            if self.compare_to_best and stage == "val":
                best = BestSoFar() if trainer.sanity_checking else self._best  # the check sees only part of the dataset
            result = evaluation.result(tag, confidence=self.confidence, best=best, keep_best=trainer.state.fn == "fit")
            evaluation.metric.reset()  # the result has all of it; frees memory before figures need some
            self._remember(tag, result)
            self._log(tag, result.report.bleu, trainer, pl_module, prog_bar=True)
            for part, value in result.parts().items():
                self._log(f"{tag}/{part}", value, trainer, pl_module)
            scores[key].append(result.report.bleu)
            if result.comparison is not None:
                scores[f"{key}/best"].append(result.comparison.best)
            if not trainer.sanity_checking:
                self._show(tag, evaluation, result, trainer)
                self._write(key, name, result, trainer)
            elif result.sentences is not None:
                result.sentences.read(range(min(1, result.sentences.text_count)))  # finds errors before the training
        for mean, values in scores.items() if any(self._names) else ():
            if values:
                self._log(mean, math.fsum(values) / len(values), trainer, pl_module, prog_bar=mean == key)
        self._evaluations = []  # frees the memory

    def _show(self, tag: str, evaluation: Evaluation, result: Result, trainer: pl.Trainer) -> None:
        """Show the sentences in the loggers."""
        if self._shows and result.sentences is not None and len(result.sentences.statistics):
            view = View(result.report, result.sentences, evaluation.metric.settings, self.samples)
            # The step at which Lightning logs the scores, which is one less than the number of steps taken.
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            for display in self._displays:
                display.show(tag, view, step)

    def _write(self, key: str, name: str, result: Result, trainer: pl.Trainer) -> None:
        """Write the sentences to files."""
        if self._folder is not None and result.sentences is not None:
            folder = name_folder(self._folder, key, name)
            lines = read_all(result.sentences)
            if not trainer.is_global_zero:
                list(lines)  # sends the sentences of this process
            elif write_translations(lines, folder, self._step(trainer), self.keep_translations):
                self._warn_once(
                    f"The references or sources in {str(folder)!r} were replaced, because this validation has "
                    "different ones. Translations of other steps there no longer match them: use another folder for "
                    "each dataset and each training run."
                )

    def _step(self, trainer: pl.Trainer) -> int:
        """The training step of the weights. Lightning restores it from a checkpoint only to resume training."""
        if trainer.state.fn == "fit" or self._checkpoint_step is None:
            return trainer.global_step
        return self._checkpoint_step

    def _log(
        self, name: str, value: float, trainer: pl.Trainer, pl_module: pl.LightningModule, *, prog_bar: bool = False
    ) -> None:
        dtype = torch.float32 if pl_module.device.type == "mps" else torch.float64
        # All processes have the same value; a mean could round it, a maximum cannot.
        pl_module.log(
            name,
            torch.tensor(value, dtype=dtype, device=pl_module.device),
            prog_bar=prog_bar,
            add_dataloader_idx=False,
            sync_dist=trainer.world_size > 1,
            reduce_fx="max",
        )

    def _remember(self, tag: str, result: Result) -> None:
        self.reports[tag] = result.report
        self.intervals.pop(tag, None)
        self.comparisons.pop(tag, None)
        if result.interval is not None:
            self.intervals[tag] = result.interval
        if result.comparison is not None and result.comparison.test is not None:
            self.comparisons[tag] = result.comparison.test

    def _read(self, stage: str, outputs: Any, batch: Any, dataloader_idx: int) -> Output:
        step = _STEPS[stage]
        if self.extract is None:
            return read_output(outputs, step, origin=step)
        return read_output(call_extract(self.extract, outputs, batch, dataloader_idx), step, origin="extract")

    def _mask(self, stage: str, trainer: pl.Trainer, batch_idx: int, dataloader_idx: int, preds: Any) -> Tensor | None:
        """Which sentences are not repeats; None if that is unknown."""
        loaders = _loaders(stage, trainer)
        mask = distributed_mask(loaders[dataloader_idx], batch_idx) if loaders else None
        sentences = len(preds) if hasattr(preds, "__len__") else None  # without a length, update() raises an error
        if mask is not None and len(mask) in (1, sentences):  # a single value applies to all sentences of an item
            return mask
        if not loaders:
            reason = "its batches combine several loaders"
        elif mask is None:
            reason = "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's"
        else:
            reason = f"a batch of {len(mask)} items became {sentences} sentences"
        self._reasons.setdefault(dataloader_idx, reason)
        return None

    def _warn_about_repeats(self, stage: str) -> None:
        """Warn about loaders whose repeated sentences some process did not know."""
        for reasons in gather_objects(self._reasons):
            for index, reason in reasons.items():
                tag = self._tag(stage, self._names[index])
                self._warn_once(
                    f"BLEUCallback cannot tell which sentences of {tag!r} are scored by more than one process: "
                    f"{reason}. If there are any, they are counted more than once."
                )

    def _tag(self, stage: str, name: str) -> str:
        """The logged name of a score; `name` is empty for a loader without a name."""
        return f"{stage}_{self.name}/{name}" if name else f"{stage}_{self.name}"

    def _lay_out(self, trainer: pl.Trainer) -> None:
        """Arrange the charts. TensorBoard has one layout per run, so the first callback makes it for all."""
        self._laid_out = True
        callbacks: list[BLEUCallback] = [
            callback
            for callback in trainer.callbacks  # type: ignore[attr-defined]
            if isinstance(callback, BLEUCallback)
        ]
        if callbacks[0] is not self:
            return
        layout: dict[str, dict[str, Any]] = {}
        for callback in callbacks:
            orders = {callback._tag("val", name): callback._metric(name).settings.max_order for name in callback._names}
            mean = callback._tag("val", "") if any(callback._names) else None
            charts = lay_out_charts(orders, mean=mean, confidence=callback.confidence is not None)
            for category in charts:
                layout.setdefault(category, {}).update(charts[category])
        for display in self._displays:
            display.lay_out(layout)

    def _metric(self, name: str) -> CorpusBLEU:
        return self.metric[name] if isinstance(self.metric, Mapping) else self.metric


def _loaders(stage: str, trainer: pl.Trainer) -> list[Any]:
    """The loaders, if Lightning evaluates them in turn; empty if it combines their batches."""
    combined = _combined_loader(stage, trainer)
    return [] if combined is None else list(combined.flattened)


def _iterables(stage: str, trainer: pl.Trainer) -> Any:
    """The loaders as the user passed them, for example in a dict; None if Lightning combines their batches."""
    combined = _combined_loader(stage, trainer)
    return None if combined is None else combined.iterables


def _combined_loader(stage: str, trainer: pl.Trainer) -> Any:
    if stage == "test":
        loop = trainer.test_loop
    else:
        loop = trainer.fit_loop.epoch_loop.val_loop if trainer.state.fn == "fit" else trainer.validate_loop
    combined = loop._combined_loader
    return None if combined is None or combined._mode != "sequential" else combined
