"""BLEU and other scores for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias

import pytorch_lightning as pl
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.messages import WarnOnce
from lightning_bleu.scoring.scoring import float_type
from lightning_bleu.settings.settings import Decoder
from lightning_bleu.training.dashboard import (
    Charts,
    Display,
    choose_sentences,
    find_displays,
    lay_out_charts,
    make_view,
    show_charts,
)
from lightning_bleu.training.loaders import name_loaders
from lightning_bleu.training.metrics import Result, call_with_third
from lightning_bleu.training.options import check_metrics, check_options
from lightning_bleu.training.sentences import BestSoFar
from lightning_bleu.training.trainer import (
    find_loaders,
    logged_names,
    logged_step,
    run_folder,
    suspect_monitors,
)
from lightning_bleu.training.translations import Record
from lightning_bleu.training.validation import STEPS, Evaluation, Extract, Validation, read_output

# LightningCLI tries the members of a union in order, and takes a dict for a callable if that comes first.
LabeledMetrics: TypeAlias = Mapping[
    str, Metric | SacreMetric | Mapping[str, Metric | SacreMetric | Callable[..., Any]] | Callable[..., Any]
]
"""Metrics by name, or by name and by label."""

_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""
_MAX_DETAILED = 20
"""The number of loaders or groups up to which more than their scores is logged and shown."""


class BLEUCallback(pl.Callback):
    """Computes and logs BLEU, and other scores, from the outputs of ``validation_step`` and ``test_step``.

    Return ``{"preds": ..., "target": ...}`` or ``(preds, target)`` from the step, in any form that
    :meth:`CorpusBLEU.update` accepts. Add ``"source"`` to show the source sentences in samples and files: strings, or
    ids, which are decoded like the hypotheses. Add ``"index"``, the position of each sentence in its dataset, if the
    loader shuffles, has a sampler of its own, or reads an iterable dataset in several processes: a position counts
    once, and samples, files, and tests are in the order of the positions. Add ``"sample_mask"`` to leave sentences out;
    both are arguments of :meth:`CorpusBLEU.update`. Add ``"group"``, a label per sentence such as its language, for a
    score per group. Other keys are ignored.

    The score of each epoch is logged as ``val_bleu`` (also on the progress bar), or as ``test_bleu`` in
    ``trainer.test``. Its components are logged as ``val_bleu/precision_1`` and so on, ``val_bleu/brevity_penalty``,
    ``val_bleu/length_ratio``, ``val_bleu/hypothesis_length``, and ``val_bleu/reference_length``. ``EarlyStopping`` and
    ``ModelCheckpoint`` can monitor any of them. Without sentences, nothing is logged: return
    ``{"preds": [], "target": []}`` to skip a validation. Sentences of the sanity check are discarded.

    With several loaders or groups, each score is logged as ``val_bleu/NAME``, its components below that name, and
    ``val_bleu`` is the mean of the scores. Groups of several loaders are ``val_bleu/LOADER/GROUP``. With more than 20
    loaders or groups, only their scores are logged and shown, without components and samples.

    With several processes, every sentence counts exactly once, even if Lightning's sampler repeats some to give all
    processes the same number. Scores, samples, and files are those of a single process. (See
    :func:`lightning_bleu.distributed_index` for what this requires.) In processes started by
    ``strategy="ddp_spawn"`` or ``"ddp_fork"``, `results` is set in these processes only; read
    ``trainer.callback_metrics`` after the run.

    TensorBoard also gets sample translations with marked differences as ``val_samples`` and ``val_worst``, two figures,
    a histogram of sentence scores, and charts on the page of custom scalars. W&B, MLflow, and Comet get a table of the
    samples and the figures.

    Args:
        metrics: the metrics by name. ``{"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}`` logs ``val_bleu`` and
            ``val_chrf``. A metric may be

            - one of this package;
            - a function ``comet(hypotheses, references, sources)`` that takes a list of strings, a list of references
              for each, and a list of strings, and returns one number per sentence: a list, an array, or a tensor of
              shape ``(sentences,)``. The score is their mean. The third parameter may be missing. Each process calls it
              once per validation, with its own sentences. Nothing is logged if it returns None. Set its attribute
              ``higher_is_better = False`` if lower numbers are better;
            - one of torchmetrics that takes a list of strings, and a reference or a list of references for each; or one
              of sacreBLEU, such as ``sacrebleu.metrics.TER()``. It scores the text of all sentences at the end, in
              process 0, and has no interval and no comparison with the best.

            Instead of a metric, a dict of a metric for each loader or group:
            ``{"bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(tokenizer="zh")}}``. :class:`CorpusBLEU` and
            :class:`CorpusCHRF` may stand alone, with the names ``bleu`` and ``chrf``; ``CorpusBLEU()`` when None.
        decoder: decodes ids for all metrics that set no decoder; see :class:`CorpusBLEU`. All metrics of a loader read
            ids in the same way: those that set nothing take the settings of the others.
        log_name: the logged names, with placeholders for the stage and for the name of the metric:
            ``"{stage}/{metric}"`` logs ``val/bleu`` and ``test/bleu``. Callbacks of one Trainer need different ones.
        extract: takes the output of the step and the batch, and returns ``(preds, target)`` or a dict as above. With a
            third parameter, ``dataloader_idx``, it also gets the index of the loader.
        dataloader_names: one name per loader. When None: the keys of a dict of loaders, or ``dataloader_idx_0`` and so
            on, as in Lightning.
        samples: show the first N and the worst N sentences of each validation. 0 for no samples, no histogram, and no
            figures. The first metric that scores sentences ranks them, one of this package or a function.
        translations: a folder, or True for the folder ``translations`` in the directory of the logger's run. Each
            validation and test writes hypotheses to ``FOLDER/val/step-0000500.txt``, and references and sources to
            ``ref.txt`` (``ref-1.txt``, ...) and ``src.txt`` beside it, as plain text with one sentence per line, in the
            order of the dataset, the scores of each sentence to ``step-0000500.tsv``, a column per metric that scores
            sentences, and the scores, with the signature, to a line of ``FOLDER/scores.jsonl``. The step is
            that of the checkpoint (0 for one with ``save_weights_only=True``). With several loaders or groups, each has
            a folder of its own below ``val``. Each training run needs a folder of its own. Unless the step returns an
            ``"index"``, the loader must not shuffle.
        keep_translations: how many of the latest files of hypotheses to keep in each folder; None for all.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to_best: compare each validation with the best one so far in the same ``trainer.fit``, on the same
            sentences. ``val_bleu/p_value`` is the p-value of :func:`lightning_bleu.paired_bootstrap`; it is 1 for the
            first validation, and also small when the epoch is clearly worse. ``val_bleu/best`` is the best score so
            far, including this epoch. With several loaders or groups, the best validation is that with the best mean,
            the test compares the means, and ``val_bleu/NAME/best`` is the score of NAME in the best validation; a
            validation without one of them is not compared. The best validation is saved in the checkpoint, so a resumed
            run is compared with it. The callback keeps it, so use a new callback for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            in ``EarlyStopping`` or ``ModelCheckpoint(save_top_k=1)``, so that noise rarely prolongs training or
            replaces a checkpoint. Implies `compare_to_best`.

    Attributes:
        results: the last result of each score by its logged name, such as ``results["val_bleu"]``: a
            :class:`~lightning_bleu.training.metrics.Result` with ``score``, ``scores``, ``parts``, ``report``,
            ``interval``, ``comparison``, and ``best``.

    Raises:
        TypeError: for options of the wrong type, and during an epoch if no `preds` and `target` can be found.
        ValueError: for options that are out of range; when an epoch begins, if metrics read ids differently; and during
            an epoch, if a loader or a group has no metric.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
        >>> bleu = BLEUCallback({"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}, confidence=0.95)
        >>> trainer = pl.Trainer(callbacks=[bleu], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | LabeledMetrics | Callable[..., Any] | None = None,
        *,
        decoder: Decoder | None = None,
        log_name: str = "{stage}_{metric}",
        extract: Extract | None = None,
        dataloader_names: Sequence[str] | None = None,
        samples: int = 8,
        translations: str | os.PathLike[str] | bool | None = None,
        keep_translations: int | None = None,
        confidence: float | None = None,
        compare_to_best: bool = False,
        significance_level: float | None = None,
        **unknown: NoReturn,
    ) -> None:
        check_options(locals())
        self.metrics = check_metrics(CorpusBLEU() if metrics is None else metrics)
        self.decoder = decoder
        self.log_name = log_name
        self.extract = extract
        self.dataloader_names = dataloader_names
        self.samples = samples
        self.translations = translations or None
        self.keep_translations = keep_translations
        self.confidence = confidence
        self.compare_to_best = compare_to_best or significance_level is not None
        self.results: dict[str, Result] = {}
        self._best = {name: BestSoFar(significance_level) for name in self.metrics}
        self._displays: list[Display] = []
        self._shows = False
        self._record: Record | None = None
        self._validation: Validation | None = None
        self._is_fit = True
        self._checkpoint: tuple[int, int | None] | None = None
        self._charts: Charts = {}
        self._warn_once = WarnOnce()

    def _tag(self, stage: str, name: str) -> str:
        """The logged name of a metric of a stage; of the sentences, for ``"samples"`` and ``"worst"``."""
        return self.log_name.format(stage=stage, metric=name)

    def _folder_name(self, stage: str) -> list[str]:
        """The folder of the translations of a stage, which do not depend on a metric, below that of the run."""
        return [part for part in (part.strip("_-. ") for part in self._tag(stage, "").split("/")) if part]

    @property
    def state_key(self) -> str:
        """Keeps the states of callbacks with different names apart."""
        return self._generate_state_key(log_name=self.log_name)

    def state_dict(self) -> dict[str, Any]:
        """The best validations, to save in the checkpoint."""
        return {name: best.state_dict() for name, best in self._best.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best validations from a checkpoint, unless it is loaded to validate or to test."""
        for name, best in self._best.items() if self._is_fit else ():
            best.load_state_dict(state_dict.get(name, {}))

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find out which loggers can show sentences, and warn about likely mistakes."""
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        for other in _find_all(trainer):
            if other is not self and other._folder_name("val") == self._folder_name("val"):
                raise ValueError(
                    f"two BLEUCallbacks have the names {self.log_name!r} and {other.log_name!r}: give all metrics to "
                    "one of them, or set a name that differs in more than punctuation, such as "
                    "log_name='{stage}_other_{metric}'"
                )
        tags = {self._tag(one, name): next(iter(own.values())) for name, own in self.metrics.items() for one in STEPS}
        for message in suspect_monitors(callbacks, tags):
            self._warn_once(message)
        self._charts = {}
        self._is_fit = stage == "fit"
        if self._is_fit:
            self._checkpoint = None
        self._displays = find_displays(trainer.loggers) if trainer.is_global_zero else []
        # All processes keep texts if process 0 shows them.
        self._shows = trainer.strategy.broadcast(bool(self._displays and self.samples))
        self._record = None
        if self.translations is not None and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            folder = run_folder(trainer) / "translations" if self.translations is True else self.translations
            self._record = Record(trainer.strategy.broadcast(folder), self.keep_translations, self._warn_once)
            if stage != "predict":
                self._record.check_folder(*self._folder_name("test" if stage == "test" else "val"))

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember which step the weights of a module are from."""
        self._checkpoint = id(pl_module), checkpoint.get("global_step")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that a new run does not write among the translations of another one."""
        if self._record is not None and self._checkpoint is None and trainer.global_step == 0:
            other = "a logger with a directory for each run" if self.translations is True else "translations=True"
            self._record.check_new(f"such as with {other}, or resume that run with trainer.fit(ckpt_path=...)")

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a validation or a test."""
        stage = "test" if trainer.testing else "val"
        dataloaders, given = find_loaders(trainer, stage)
        names = name_loaders(stage, given, max(1, len(dataloaders)), given=self.dataloader_names)
        compares = self.compare_to_best and stage == "val"
        needed_by = "BLEUCallback(compare_to_best=True)" if compares else "BLEUCallback(translations=...)"
        self._validation = Validation(
            self.metrics,
            names,
            dataloaders,
            decoder=self.decoder,
            stage=stage,
            log_name=self.log_name,
            origin="extract" if self.extract else STEPS[stage],
            needed_by=needed_by * (compares or self._record is not None),
            max_texts=math.inf if self._record is not None else _MAX_TEXTS if self._shows else 0,
            device=pl_module.device,
            warn=self._warn_once,
        )
        if self._record is not None:
            for name in names:
                self._record.check_folder(*self._folder_name(stage), name)

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
        validation = self._validation
        assert validation is not None
        if self.extract is not None:
            outputs = call_with_third(self.extract, "dataloader_idx", outputs, batch, dataloader_idx)
        output = read_output(outputs, STEPS[validation.stage], validation.origin)
        validation.update(output, batch_idx, dataloader_idx)

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        validation, self._validation = self._validation, None  # frees the memory
        assert validation is not None
        validation.agree()
        best = None
        if self.compare_to_best and validation.stage == "val":
            # The sanity check sees only part of the dataset.
            best = {name: BestSoFar() if trainer.sanity_checking else one for name, one in self._best.items()}
        results = validation.finish(confidence=self.confidence, best=best, keep_best=self._is_fit)
        totals = [validation.tag(name) for name in self.metrics]
        old = tuple(f"{tag}/" for tag in totals)
        self.results = {tag: one for tag, one in self.results.items() if not f"{tag}/".startswith(old)} | results
        evaluations = validation.evaluations.values()
        shows_all = len(evaluations) <= _MAX_DETAILED
        detailed = {tag: one for tag, one in results.items() if shows_all or tag in totals}
        logged = {
            f"{tag}/{part}" if part else tag: value
            for tag, result in results.items()
            for part, value in (result.values() if tag in detailed else result.scores).items()
        }
        # If the module logs them in the hook that ends the epoch, Lightning raises an error.
        if taken := sorted(logged.keys() & logged_names(trainer)):
            raise ValueError(
                f"{type(pl_module).__name__} or another callback logs {taken[0]!r}, like BLEUCallback, so one would "
                "replace the other: rename one of them, as with BLEUCallback(log_name=...)"
            )
        for name, value in logged.items():
            # All processes have the same value; a mean could round it, a maximum cannot.
            pl_module.log(
                name,
                torch.tensor(value, dtype=float_type(pl_module.device), device=pl_module.device),
                prog_bar=name in detailed,
                add_dataloader_idx=False,
                sync_dist=trainer.world_size > 1,
                reduce_fx="max",
            )
        if trainer.sanity_checking:
            for evaluation in evaluations:
                evaluation.sentences.read(evaluation.sentences.readable[:1])  # finds errors before the training
            return
        if validation.stage == "val":
            self._lay_out(lay_out_charts(detailed, totals if validation.has_mean else ()), trainer)
        for evaluation in evaluations if self._shows and shows_all else ():
            self._show(evaluation, validation, logged_step(trainer))
        if self._record is not None:
            names = self._folder_name(validation.stage)
            self._record.write(names, evaluations, results, step=self._step(trainer), epoch=trainer.current_epoch)

    on_test_epoch_end = on_validation_epoch_end

    def _lay_out(self, charts: Charts, trainer: pl.Trainer) -> None:
        """Arrange the charts of all callbacks, because TensorBoard has one layout per run, the last one."""
        charts = self._charts | charts
        if charts != self._charts:
            self._charts = charts
            everything = {key: chart for callback in _find_all(trainer) for key, chart in callback._charts.items()}
            self._display(lambda display: show_charts(display.logger, everything))

    def _show(self, evaluation: Evaluation, validation: Validation, step: int) -> None:
        """Show the sentences of a subset in the loggers. Collective."""
        first, worst = choose_sentences(evaluation, self.samples)
        view = cache(lambda: make_view(evaluation, first, worst, validation.tag, self.confidence))
        self._display(lambda display: display.show(display.logger, view(), step))

    def _display(self, show: Callable[[Display], None]) -> None:
        for display in self._displays:
            try:
                show(display)
            except Exception as error:  # a failing logger must not stop training
                refusal = f"The samples cannot be shown in {display.name}"
                self._warn_once(f"{refusal}: {type(error).__name__}: {error}", key=refusal)

    def _step(self, trainer: pl.Trainer) -> int:
        """The training step of the weights. Lightning restores it from a checkpoint only to resume training."""
        module, step = self._checkpoint or (None, None)
        if self._is_fit or step is None or module != id(trainer.lightning_module):
            return trainer.global_step
        return step


def _find_all(trainer: pl.Trainer) -> list[BLEUCallback]:
    """The callbacks of this class, in the order of the trainer."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, BLEUCallback)]
