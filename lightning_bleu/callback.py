"""BLEU for any LightningModule, with one line in the Trainer."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as pl
import torch

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.messages import WarnOnce
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.scoring.scoring import float_type
from lightning_bleu.significance import Interval, PairedTest
from lightning_bleu.training.best import BestSoFar
from lightning_bleu.training.dashboard import (
    CATEGORIES,
    Display,
    View,
    find_displays,
    lay_out_charts,
    lay_out_other,
    missing_packages,
)
from lightning_bleu.training.evaluation import Evaluation, Result
from lightning_bleu.training.options import check_metrics, check_options, check_others, find_metric, logged_name
from lightning_bleu.training.others import is_higher_better
from lightning_bleu.training.stage import Extract, Outcome, Stage
from lightning_bleu.training.trainer import (
    find_loaders,
    find_logged_twice,
    in_own_hook,
    logged_step,
    monitored_wrongly,
    name_loaders,
    run_folder,
    thresholds_of_other_scale,
)
from lightning_bleu.training.translations import (
    append_scores,
    check_folders,
    has_translations,
    name_folder,
    write_translations,
)

_STEPS = {"val": "validation_step", "test": "test_step"}
_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


class BLEUCallback(pl.Callback):
    """Computes and logs BLEU from the outputs of ``validation_step`` and ``test_step``.

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
    ``ModelCheckpoint`` can monitor any of them. An epoch without sentences scores 0. Sentences of the sanity check are
    discarded.

    With several loaders or groups, each score is logged as ``val_bleu/NAME``, its components below that name, and
    ``val_bleu`` is the mean of the scores. Groups of several loaders are ``val_bleu/LOADER/GROUP``.

    With several processes, every sentence counts exactly once, even if Lightning's sampler repeats some to give all
    processes the same number. Scores, samples, and files are those of a single process. (See
    :func:`lightning_bleu.distributed_mask` for what this requires.) In processes started by ``strategy="ddp_spawn"`` or
    ``"ddp_fork"``, `reports`, `intervals`, and `comparisons` are set in these processes only; read
    ``trainer.callback_metrics`` after the run.

    TensorBoard also gets sample translations with marked differences, two figures, a histogram of sentence BLEU, and
    charts on the page of custom scalars. W&B, MLflow, and Comet get a table of the samples and the figures.

    Args:
        metric: the metric, or a dict of a metric for each loader or each group; ``CorpusBLEU()`` when None. It is
            copied.
        others: other metrics of the same sentences, by name; they are copied. ``{"chrf": CorpusCHRF()}`` logs
            ``val_chrf``, with its interval and its comparison with the best if BLEU has them. A metric can also be one
            of torchmetrics that takes a list of strings and a list of references for each, or one of sacreBLEU, such as
            ``sacrebleu.metrics.TER()``; these score all sentences at the end, in process 0. They need text: strings, or
            ids with a `decoder` of `metric`. Nothing is logged for them if there are no sentences.
        name: the last part of the logged name, as in ``val_bleu``; or the whole name, with a placeholder for the stage:
            ``"{stage}/bleu"`` logs ``val/bleu`` and ``test/bleu``.
        extract: takes the output of the step and the batch, and returns ``(preds, target)`` or a dict as above. With a
            third parameter, ``dataloader_idx``, it also gets the index of the loader.
        dataloader_names: one name per loader. When None: the keys of a dict of loaders, or the keys of a dict of
            metrics, or ``dataloader_idx_0`` and so on, as in Lightning.
        samples: show the first N and the worst N sentences of each validation. 0 for no samples, no histogram, and no
            figures.
        translations: a folder, or True for the folder ``translations`` in the directory of the logger's run. Each
            validation and test writes hypotheses to ``FOLDER/val_bleu/step-0000500.txt``, and references and sources to
            ``ref.txt`` (``ref-1.txt``, ...) and ``src.txt`` beside it, as plain text with one sentence per line, in the
            order of the dataset, and its scores, with the signature, to a line of ``FOLDER/scores.jsonl``. The step is
            that of the checkpoint (0 for one with ``save_weights_only=True``). With several loaders, each has a folder
            of its own below ``val_bleu``. Each training run needs a folder of its own. Unless the step returns an
            ``"index"``, the loader must not shuffle.
        keep_translations: how many of the latest files of hypotheses to keep in each folder; None for all.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to_best: compare each validation with the best one so far in the same ``trainer.fit``, on the same
            sentences. ``val_bleu/p_value`` is the p-value of :func:`lightning_bleu.paired_bootstrap`; it is 1 for the
            first validation, and also small when the epoch is clearly worse. ``val_bleu/best`` is the best score so
            far, including this epoch. With several loaders, the best validation is that with the best mean, the test
            compares the means, and ``val_bleu/NAME/best`` is the score of that loader in the best validation. The best
            validation is saved in the checkpoint, so a resumed run is compared with it. The callback keeps it, so use a
            new callback for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            in ``EarlyStopping`` or ``ModelCheckpoint(save_top_k=1)``, so that noise rarely prolongs training or
            replaces a checkpoint. Implies `compare_to_best`.

    Attributes:
        reports: the last score of each loader, by logged name, with its components: a :class:`BLEUScore`, or a
            :class:`CHRFScore`.
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
        others: Mapping[str, Any] | None = None,
        *,
        name: str = "bleu",
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
        self.metric = CorpusBLEU() if metric is None else check_metrics(metric)
        self.name = name
        self.others = check_others(others, name)
        self.extract = extract
        self.dataloader_names = dataloader_names
        self.samples = samples
        self.translations = (
            Path(translations).expanduser() if isinstance(translations, str | os.PathLike) else (translations or None)
        )
        self.keep_translations = keep_translations
        self.confidence = confidence
        self.compare_to_best = compare_to_best or significance_level is not None
        self.reports: dict[str, Any] = {}
        self.intervals: dict[str, Interval] = {}
        self.comparisons: dict[str, PairedTest] = {}
        counted = [key for key, other in self.others.items() if isinstance(other, CorpusMetric)]
        self._best = {key: BestSoFar(significance_level) for key in (name, *counted)}
        self._displays: list[Display] = []
        self._shows = False
        self._folder: Path | None = None
        self._stage: Stage | None = None
        self._checkpoint: tuple[int, int | None] | None = None
        self._resumes = True
        self._laid_out = False
        self._logged: dict[str, float] = {}
        self._warn_once = WarnOnce()

    def _tag(self, stage: str, name: str | None = None) -> str:
        """The logged name of a score of a stage, by default that of BLEU."""
        return logged_name(self.name if name is None else name, stage)

    def _tags(self) -> list[str]:
        """The logged names of all scores of all stages."""
        return [self._tag(stage, name) for stage in _STEPS for name in (self.name, *self.others)]

    @property
    def state_key(self) -> str:
        """Keeps the states of callbacks with different names apart."""
        return self._generate_state_key(name=self.name)

    def state_dict(self) -> dict[str, Any]:
        """The best validations, to save in the checkpoint."""
        own, *others = (best.state_dict() for best in self._best.values())
        return own | ({"others": dict(zip([*self._best][1:], others))} if any(others) else {})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best validations from a checkpoint, unless it is loaded to validate or to test."""
        states = {self.name: state_dict, **state_dict.get("others", {})}
        for name, best in self._best.items() if self._resumes else ():
            best.load_state_dict(states.get(name, {}))

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find out which loggers can show sentences, and warn about likely mistakes."""
        for other in _find_all(trainer):
            for logged, own in itertools.product(other._tags(), self._tags()):
                if other is not self and f"{logged}/".startswith(f"{own}/"):
                    raise ValueError(
                        f"two BLEUCallbacks log {logged!r}: give one of them another name, BLEUCallback(name=...)"
                    )
        first = next(iter(self.metric.values())) if isinstance(self.metric, Mapping) else self.metric
        metrics = dict(zip(self._tags(), 2 * [first, *self.others.values()]))
        better = {tag: is_higher_better(metric) for tag, metric in metrics.items()}
        scales = {tag: one.settings.scale for tag, one in metrics.items() if isinstance(one, CorpusMetric)}
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        for message in (*monitored_wrongly(callbacks, better), *thresholds_of_other_scale(callbacks, scales)):
            self._warn_once(message)
        self._laid_out = False
        if stage == "fit":
            self._checkpoint = None
        self._displays = find_displays(trainer.loggers) if trainer.is_global_zero else []
        for message in missing_packages(trainer.loggers, self._displays) if self.samples else ():
            self._warn_once(message)
        # All processes keep texts if process 0 shows them.
        self._shows = trainer.strategy.broadcast(bool(self._displays and self.samples))
        self._folder = None
        if self.translations is not None and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            folder = run_folder(trainer) / "translations" if self.translations is True else self.translations
            self._folder = trainer.strategy.broadcast(folder)
            if stage != "predict":
                tag = self._tag("test" if stage == "test" else "val")
                run_in_process_0(partial(check_folders, name_folder(self._folder, *tag.split("/"))))

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember which step the weights of a module are from."""
        self._checkpoint = id(pl_module), checkpoint.get("global_step")
        self._resumes = trainer.state.fn == "fit"

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that a new run does not write among the translations of another one."""
        folder = self._folder
        is_new = self._checkpoint is None and trainer.global_step == 0
        if folder is not None and is_new and run_in_process_0(partial(has_translations, folder)):
            other = "a logger with a directory for each run" if self.translations is True else "translations=True"
            raise ValueError(
                f"{str(folder)!r} has the translations of another training run: use another folder for each run, such "
                f"as with {other}, or resume that run with trainer.fit(ckpt_path=...)"
            )

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a validation."""
        self._stage = self._start("val", trainer, pl_module)

    def on_test_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start a test."""
        self._stage = self._start("test", trainer, pl_module)

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
        assert self._stage is not None
        self._stage.update(outputs, batch, batch_idx, dataloader_idx)

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        if not trainer.sanity_checking and not self._laid_out:
            self._lay_out(trainer)
        best = None
        if self.compare_to_best:
            # The sanity check sees only part of the dataset.
            best = {key: BestSoFar() if trainer.sanity_checking else one for key, one in self._best.items()}
        self._finish(trainer, pl_module, best)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check that the module does not log the same names."""
        if name := find_logged_twice(trainer, self._logged):
            raise ValueError(
                f"{type(pl_module).__name__} and BLEUCallback both log {name!r}, so one would replace the other: "
                "rename the one of the module, or set BLEUCallback(name=...)"
            )

    on_test_end = on_validation_end

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores, and show and write the sentences."""
        self._finish(trainer, pl_module, best=None)

    def _start(self, stage: str, trainer: pl.Trainer, pl_module: pl.LightningModule) -> Stage:
        loaders, given = find_loaders(trainer, stage)
        writes = self._folder is not None
        needing_order = ["compare_to_best=True"] * (self.compare_to_best and stage == "val")
        needing_order += ["translations=..."] * writes
        find_names = partial(name_loaders, stage, given, max(1, len(loaders)), given=self.dataloader_names)
        metrics = self.metric if isinstance(self.metric, Mapping) else {"": self.metric}
        labels = [*metrics] if metrics is self.metric else []
        ungrouped_error = None
        try:
            names = find_names(metrics=labels or None)
        except ValueError as error:
            if not labels:
                raise
            names, ungrouped_error = find_names(), error  # the metrics may be those of groups
        tag = self._tag(stage)
        others = {self._tag(stage, key): other for key, other in self.others.items()}
        counted = {key: other for key, other in others.items() if isinstance(other, CorpusMetric)}
        text_metrics = {key: other for key, other in others.items() if key not in counted}
        max_texts = math.inf if writes or text_metrics else _MAX_TEXTS if self._shows else 0

        def make(name: str, metric: CorpusBLEU, group: str = "") -> Evaluation:
            evaluation = Evaluation(tag, name, metric, counted, max_texts=max_texts, group=group)
            evaluation.to(pl_module.device)
            return evaluation

        def make_group(number: int, label: str) -> Evaluation:
            return make(find_names()[number], find_metric(self.metric, label), label)

        evaluations = [make(name, metrics.get(name, next(iter(metrics.values())))) for name in names]
        if self._folder is not None:
            folders = [name_folder(self._folder, *evaluation.names) for evaluation in evaluations]
            run_in_process_0(partial(check_folders, *folders))
        needs_order = f"BLEUCallback({needing_order[0]})" if needing_order else ""
        return Stage(
            tag,
            _STEPS[stage],
            loaders,
            evaluations,
            self.extract,
            needs_order,
            text_metrics,
            make_group=make_group,
            group_names=labels,
            ungrouped_error=ungrouped_error,
        )

    def _finish(self, trainer: pl.Trainer, pl_module: pl.LightningModule, best: Mapping[str, BestSoFar] | None) -> None:
        assert self._stage is not None
        stage, self._stage = self._stage, None  # frees the memory
        stage.agree()
        best = best and {self._tag("val", name): one for name, one in best.items()}
        outcome = stage.finish(confidence=self.confidence, best=best, keep_best=trainer.state.fn == "fit")
        for message in stage.warnings():
            self._warn_once(message)
        self._remember(stage, outcome)
        self._logged, shown = outcome.values(), outcome.shown()
        for name, value in self._logged.items():
            self._log(name, value, trainer, pl_module, prog_bar=name in shown)
        if not trainer.sanity_checking:
            self._write_scores(outcome, trainer)
        for evaluation in stage.evaluations:
            result = outcome.results[evaluation.tag]
            if not trainer.sanity_checking:
                self._show(evaluation, result, trainer)
                self._write(evaluation, result, trainer)
            else:
                result.sentences.read(result.sentences.readable[:1])  # finds errors before the training

    def _remember(self, stage: Stage, outcome: Outcome) -> None:
        tags = tuple(f"{tag}/" for tag in stage.evaluations[0].metrics)
        results: list[dict[str, Any]] = [self.reports, self.intervals, self.comparisons]
        for old in results:
            for tag in [tag for tag in old if f"{tag}/".startswith(tags)]:
                del old[tag]
        self.reports |= outcome.reports
        self.intervals |= outcome.intervals
        self.comparisons |= {tag: one.test for tag, one in outcome.comparisons.items() if one.test is not None}

    def _log(
        self, name: str, value: float, trainer: pl.Trainer, pl_module: pl.LightningModule, *, prog_bar: bool = False
    ) -> None:
        with in_own_hook(pl_module):
            # All processes have the same value; a mean could round it, a maximum cannot.
            pl_module.log(
                name,
                torch.tensor(value, dtype=float_type(pl_module.device), device=pl_module.device),
                prog_bar=prog_bar,
                add_dataloader_idx=False,
                sync_dist=trainer.world_size > 1,
                reduce_fx="max",
            )

    def _show(self, evaluation: Evaluation, result: Result, trainer: pl.Trainer) -> None:
        """Show the sentences in the loggers. Collective."""
        if not self._shows or not result.sentences.readable:
            return
        view = View(result.report, result.sentences, evaluation.metric.settings, self.samples, self.confidence)
        self._display(lambda display: display.show(evaluation.tag, view, logged_step(trainer)))

    def _display(self, show: Callable[[Display], None]) -> None:
        for display in self._displays:
            try:
                show(display)
            except Exception as error:  # no picture is worth a training run
                refusal = f"The samples cannot be shown in {type(display).__name__}"
                self._warn_once(f"{refusal}: {type(error).__name__}: {error}", key=refusal)

    def _write(self, evaluation: Evaluation, result: Result, trainer: pl.Trainer) -> None:
        """Write the sentences to files. Collective."""
        if self._folder is None:
            return
        folder, step = name_folder(self._folder, *evaluation.names), self._step(trainer)
        sentences, replace = result.sentences.texts, trainer.state.fn == "fit"
        if run_in_process_0(
            lambda: write_translations(sentences, folder, step, self.keep_translations, replace=replace)
        ):
            self._warn_once(
                f"The references or sources in {str(folder)!r} were replaced, because this validation has "
                "different ones, or the same in another order. Translations of other steps there no longer match "
                "them: use another folder for each dataset and each training run, or return the position of each "
                "sentence as 'index'."
            )

    def _write_scores(self, outcome: Outcome, trainer: pl.Trainer) -> None:
        """Write a line of scores for each name. Collective."""
        if self._folder is None:
            return
        path, lines = self._folder / "scores.jsonl", []
        place = {"step": self._step(trainer), "epoch": trainer.current_epoch}
        for tag, score in outcome.scores.items():
            report = outcome.reports[tag].to_dict() if tag in outcome.reports else {}
            lines.append({**place, "key": tag, "score": score, **report, **outcome.uncertainty(tag)})
        for tag, parts in outcome.others.items():
            lines.append({part or "score": value for part, value in parts.items()} | {**place, "key": tag})
        run_in_process_0(partial(append_scores, path, lines, replace=trainer.state.fn == "fit"))

    def _step(self, trainer: pl.Trainer) -> int:
        """The training step of the weights. Lightning restores it from a checkpoint only to resume training."""
        module, step = self._checkpoint or (None, None)
        if trainer.state.fn == "fit" or step is None or module != id(trainer.lightning_module):
            return trainer.global_step
        return step

    def _lay_out(self, trainer: pl.Trainer) -> None:
        """Arrange the charts. TensorBoard has one layout per run, so the first callback makes it for all."""
        self._laid_out = True
        callbacks = _find_all(trainer)
        if callbacks[0] is not self:
            return
        layout: dict[str, dict[str, Any]] = {category: {} for category in CATEGORIES}
        for callback in callbacks:
            assert callback._stage is not None
            callback._stage.agree()
            orders = {one.tag: one.metric.settings.max_order for one in callback._stage.evaluations}
            mean = callback._stage.tag if callback._stage.has_mean else None
            shown: dict[str, bool] = {
                "confidence": callback.confidence is not None,
                "compare_to_best": callback.compare_to_best,
            }
            charts = [lay_out_charts(orders, mean=mean, **shown)]
            for key, other in callback.others.items():
                loaders = [one.name for one in callback._stage.evaluations] if mean else []
                is_counted = isinstance(other, CorpusMetric)
                tag, own = callback._tag("val", key), shown if is_counted else {}
                charts.append(lay_out_other(tag, loaders, has_parts=not is_counted, **own))
            for category, added in itertools.chain.from_iterable(one.items() for one in charts):
                layout[category].update(added)
        used = {category: own for category, own in layout.items() if own}
        self._display(lambda display: display.lay_out(used))


def _find_all(trainer: pl.Trainer) -> list[BLEUCallback]:
    """The callbacks of this class, in the order of the trainer."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, BLEUCallback)]
