"""Everything that a validation does, in any training loop: scores, comparisons, samples, figures, charts, and files.

A loop of your own calls an :class:`Evaluator` like this::

    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[SummaryWriter("runs/a")])
    evaluator.start(loader)
    for sources, references in loader:
        evaluator.update(translate(sources), references, source=sources)
    results = evaluator.finish(step)

:class:`BLEUCallback` is an Evaluator that Lightning calls. :class:`EvaluatorMixin` calls one in the Trainers of
Transformers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, get_args

from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.messages import WarnOnce, check_choice
from lightning_bleu.processes import communication_device, process_count, process_rank, run_in_process_0
from lightning_bleu.settings.settings import Decoder, check_integer
from lightning_bleu.training import dashboard
from lightning_bleu.training.loaders import CALL, Origin, count_stream, name_loaders
from lightning_bleu.training.metrics import AnyMetric, Result
from lightning_bleu.training.options import check_metrics, check_options
from lightning_bleu.training.sentences import Opponent, OpponentKind
from lightning_bleu.training.translations import Record
from lightning_bleu.training.validation import STEPS, Naming, Output, Subset, Validation

# LightningCLI tries the members of a union in order, and takes a dict for a callable if that comes first.
MetricsByName: TypeAlias = Mapping[
    str, Metric | SacreMetric | Mapping[str, Metric | SacreMetric | Callable[..., Any]] | Callable[..., Any]
]
"""Metrics by name, or by name and by loader or group."""

_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


class EvaluatorOptions(TypedDict, total=False):
    """The options of :class:`Evaluator`, for classes that pass them on."""

    decoder: Decoder | None
    log_name: str | Mapping[str, str]
    parts: bool | Sequence[str]
    samples: int
    translations: bool | str | os.PathLike[str] | None
    keep_translations: int | None
    confidence: float | None
    compare_to: OpponentKind | None
    significance_level: float | None
    loggers: Sequence[Any]


class Evaluator:
    """Scores validations, compares them with an earlier one, shows them in loggers, and writes them to files.

    Call :meth:`start` before a validation, :meth:`update` with each batch, and :meth:`finish` after the last one, in a
    training loop of your own, in Lightning Fabric, or with accelerate. For the Trainer of Lightning, use
    :class:`BLEUCallback`; for those of Transformers, :class:`EvaluatorMixin`.

    The score of a validation is logged as ``val_bleu``, or as ``test_bleu`` if it is a test. Its components are logged
    as ``val_bleu/precision_1`` and so on, ``val_bleu/brevity_penalty``, ``val_bleu/length_ratio``,
    ``val_bleu/hypothesis_length``, and ``val_bleu/reference_length``. Without sentences, nothing is logged.

    With several loaders or groups, each score is logged as ``val_bleu/NAME``, its components below that name, and
    ``val_bleu`` is the mean of the scores. Groups of several loaders are ``val_bleu/LOADER/GROUP``. With more than 20
    loaders or groups, only their scores are logged and shown, without components and samples.

    With several processes, every sentence counts exactly once, even if the sampler repeats some to give all processes
    the same number. Scores, samples, and files are those of a single process. (See
    :func:`lightning_bleu.distributed_index` for what this requires.)

    TensorBoard also gets sample translations with marked differences as ``val_samples`` and ``val_worst``, two figures,
    a histogram of sentence scores, and charts on the page of custom scalars. W&B, MLflow, Comet, and loggers with a
    method ``log_table`` or ``log_text`` and ``log_image`` like those of W&B get a table of the samples and the figures.

    Args:
        metrics: the metrics by name. ``{"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}`` logs ``val_bleu`` and
            ``val_chrf``. A metric may be

            - one of this package;
            - a function ``comet(hypotheses, references, sources)`` that takes a list of strings, a list of references
              for each, and, with a parameter ``sources`` or a third one without a default, a list of strings. It
              returns one number per sentence: a list, an array, or a tensor of shape ``(sentences,)``, whose mean is
              the score; or one pair, of shape ``(sentences, 2)``, such as errors and words: the score is the sum of
              the first numbers over the sum of the second. (A sentence with 0/0 gets the better of 0 and 1; one with
              x/0, infinity. If both sums are 0, nothing is logged.) A dict of these has several scores, which are
              logged as ``val_comet/NAME``, each with its own interval and comparison. Nothing is logged if it returns
              None. Set its attribute ``higher_is_better = False`` if lower numbers are better; it may be a dict by
              NAME. Each process calls it once per validation, with its own sentences. With the attribute
              ``corpus_level = True``, process 0 calls it once per loader or group, with all sentences in order. Then
              it may also return a single number, or a dict of them, without intervals and comparisons;
            - one of torchmetrics that takes a list of strings, and a reference or a list of references for each; or one
              of sacreBLEU, such as ``sacrebleu.metrics.TER()``. It scores the text of all sentences at the end, in
              process 0, and has no interval and no comparison.

            Instead of a metric, a dict of a metric for each loader or group:
            ``{"bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(tokenizer="zh")}}``. :class:`CorpusBLEU` and
            :class:`CorpusCHRF` may stand alone, with the names ``bleu`` and ``chrf``; ``CorpusBLEU()`` when None.
        decoder: decodes ids for all metrics that set no decoder; see :class:`CorpusBLEU`. All metrics of a loader read
            ids in the same way: those that set nothing take the settings of the others.
        log_name: the logged names, with placeholders for the stage and for the name of the metric:
            ``"{stage}/{metric}"`` logs ``val/bleu`` and ``test/bleu``. Or a dict of the names of each stage:
            ``{"val": "valid/{metric}", "test": "test/{metric}"}``.
        parts: whether to log the components of the scores, or a list of the names of those to log. With BLEU-N, these
            can also be ``"bleu_1"`` to ``"bleu_N"``, the scores of ``CorpusBLEU(max_order=n)``.
        samples: show the first N and the worst N sentences of each validation. 0 for no samples, no histogram, and no
            figures. The first metric that scores sentences ranks them, one of this package or a function.
        translations: a folder, or, with a Trainer, True for the folder ``translations`` of its run. Each validation and
            test writes one sentence per line, in the order of the dataset: hypotheses to
            ``FOLDER/val/step-0000500.txt``, references to ``ref.txt`` (or ``ref-1.txt``, ...), sources to ``src.txt``.
            The scores of each sentence go to ``step-0000500.tsv``, with a column per metric that scores sentences. The
            scores of the corpus, with the signature, are a line of ``FOLDER/scores.jsonl``. Nothing is overwritten:
            other translations of a step go to ``step-0000500-2.txt``. With several loaders or groups, each has a folder
            of its own below ``val``. Each training run needs a folder of its own. Unless the sentences have an
            ``index``, the loader must not shuffle.
        keep_translations: how many of the latest files of hypotheses to keep in each folder; None for all.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to: ``"best"`` compares each validation with the best one so far, on the same sentences; ``"first"``,
            with the first one that this object sees, such as one before the training. ``val_bleu/difference`` is the
            score minus that of the other validation, so for an error rate, negative is better.
            ``val_bleu/difference_low`` and ``val_bleu/difference_high`` are the ends of its interval, at the level
            `confidence` or else 95%. ``val_bleu/p_value`` is the p-value of :func:`lightning_bleu.paired_bootstrap`,
            which is also small when the validation is clearly worse. ``val_bleu/best`` is the best score so far,
            including this validation; ``val_bleu/first``, the first one. The first validation is compared with itself.
            With several loaders or groups, the best validation is that with the best mean, the means are compared, and
            ``val_bleu/NAME/best`` is the score of NAME in the best validation; a validation without one of them is not
            compared. Tests are not compared. :meth:`state_dict` has the best or the first validation, so a resumed run
            is compared with it. Use a new evaluator for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            to stop early or to keep checkpoints, so that noise rarely prolongs training or replaces a checkpoint.
            Implies ``compare_to="best"``.
        loggers: where to log and show validations: a ``SummaryWriter`` of TensorBoard, a run of W&B, or any logger of
            Lightning. Those of process 0 are used. Those of a Trainer need not be listed.

    Attributes:
        results: the last result of each score by its logged name, such as ``results["val_bleu"]``: a
            :class:`~lightning_bleu.Result` with ``score``, ``scores``, ``parts``, ``report``, ``interval``,
            ``comparison``, ``best``, and ``first``.

    Raises:
        TypeError: for options of the wrong type.
        ValueError: for options that are out of range, and for parts that no metric has; when a validation begins, if
            metrics read ids differently; and during a validation, if a loader or a group has no metric.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
        >>> metrics = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}
        >>> evaluator = Evaluator(metrics, compare_to="best")
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat"], ["the cat sat on a mat"])
        >>> evaluator.update(["it is"], ["it is"])
        >>> results = evaluator.finish(step=500)
        >>> {name: round(result.score, 1) for name, result in results.items()}
        {'val_bleu': 55.8, 'val_chrf': 73.9}
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | MetricsByName | Callable[..., Any] | None = None,
        *,
        decoder: Decoder | None = None,
        log_name: str | Mapping[str, str] = "{stage}_{metric}",
        parts: bool | Sequence[str] = True,
        samples: int = 8,
        translations: bool | str | os.PathLike[str] | None = None,
        keep_translations: int | None = None,
        confidence: float | None = None,
        compare_to: OpponentKind | None = None,
        significance_level: float | None = None,
        loggers: Sequence[Any] = (),
        **unknown: Any,
    ) -> None:
        check_options(locals())
        self.metrics = check_metrics(CorpusBLEU() if metrics is None else metrics, parts)
        self.decoder = decoder
        self.log_name = log_name
        names = dict.fromkeys(STEPS, log_name) if isinstance(log_name, str) else log_name
        self.namings = {stage: Naming(stage, names[stage]) for stage in STEPS}
        self.samples = samples
        self.translations = translations or None
        self.keep_translations = keep_translations
        self.confidence = confidence
        self.compare_to = compare_to if significance_level is None else "best"
        self.significance_level = significance_level
        self.loggers = loggers
        self.results: dict[str, Result] = {}
        self.record: Record | None = None
        self.validation: Validation | None = None
        self.warn_once = WarnOnce()
        self._opponents: dict[str, Opponent] = {}

    def start(self, loaders: Any = None, *, stage: str = "val") -> None:
        """Start a validation or a test. One that was not finished is discarded. Collective.

        Args:
            loaders: the loader, or a list or dict of loaders; the keys of a dict are their names. Several processes
                derive the positions of sentences from the samplers of the loaders, unless sentences have an ``index``.
            stage: ``"val"`` or ``"test"``.

        Raises:
            ValueError: if metrics read ids differently, or if there is no folder for translations.
        """
        check_choice("stage", stage, STEPS)
        if self.translations is True:
            raise ValueError("translations=True needs the folder of a Trainer's run: pass translations='FOLDER'")
        self.open_record(self.translations)
        several = loaders if isinstance(loaders, Mapping | list | tuple) else [loaders]
        dataloaders = [*several.values()] if isinstance(several, Mapping) else [*several]
        self.begin(dataloaders, name_loaders(stage, several, len(dataloaders)), stage, CALL)

    def update(
        self,
        preds: Any,
        target: Any,
        *,
        source: Any = None,
        sample_mask: Any = None,
        index: Any = None,
        group: Any = None,
        batch_idx: int | None = None,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch.

        Args:
            preds, target, sample_mask, index: see :meth:`CorpusBLEU.update`.
            source: the source sentences, as strings, or as ids, which are decoded like the hypotheses.
            group: a label per sentence, such as its language, for a score per group.
            batch_idx: the number of the batch in its loader, if some batches are skipped; counted when None.
            dataloader_idx: the number of its loader.

        Raises:
            RuntimeError: before :meth:`start`.
            IndexError: if there is no such loader.
            TypeError, ValueError: see :meth:`CorpusBLEU.update`.
        """
        validation = self._started()
        if dataloader_idx not in range(count := len(validation.loaders)):
            raise IndexError(f"start() got {count} loaders, so there is none with dataloader_idx={dataloader_idx!r}")
        validation.update(Output(preds, target, source, sample_mask, index, group), batch_idx, dataloader_idx)

    def finish(self, step: int, epoch: float | None = None) -> dict[str, Result]:
        """Score the sentences of all processes, and log, show, and write the results. Collective.

        Args:
            step: the number of training steps so far.
            epoch: the epoch.

        Returns:
            the results by logged name; see `results`.

        Raises:
            RuntimeError: before :meth:`start`.
            TypeError, ValueError: if the step is not an integer of 0 or more.
        """
        step = check_integer("step", step, at_least=0)
        validation = self.score()
        self.publish(validation, step, None if epoch is None else float(epoch))
        return validation.results

    def state_dict(self) -> dict[str, Any]:
        """The best or the first validations, to save in a checkpoint: ``{"best": {logged name: ...}}``."""
        states = {tag: state for tag, one in self._opponents.items() if (state := one.state_dict())}
        return {str(self.compare_to): states} if states else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved.

        With ``compare_to="first"``, scores that it does not have keep their first validation.
        """
        if unknown := state_dict.keys() - {*get_args(OpponentKind)}:
            raise ValueError(f"expected evaluator.state_dict(), got a dict with the keys {sorted(unknown)}")
        if self.compare_to == "best":
            self._opponents = {}
        for tag, state in state_dict.get(str(self.compare_to), {}).items():
            self._find_opponent(tag).load_state_dict(state)

    # For the adapters of trainers, which know more than a loop says

    def open_record(self, folder: str | os.PathLike[str] | None) -> None:
        """Write translations to a folder; to none when None. Collective."""
        if folder is None:
            self.record = None
        elif self.record is None or self.record.folder != Path(folder).expanduser():
            self.record = Record(folder, self.keep_translations, self.warn_once)

    def begin(
        self,
        dataloaders: Sequence[Any],
        names: Sequence[str],
        stage: str,
        origin: Origin,
        *,
        metrics: Mapping[str, Mapping[str, AnyMetric]] | None = None,
        naming: Naming | None = None,
        decoder: Decoder | None = None,
        loggers: Sequence[Any] = (),
        device: Any = None,
    ) -> None:
        """Start a validation. Collective.

        Args:
            dataloaders: the loaders, if they are known.
            names: their names; ``""`` for one without a name.
            stage: ``"val"`` or ``"test"``. Only ``"val"`` is compared, and has charts.
            origin: where the sentences come from, for error messages.
            metrics: the metrics, if they are not all.
            naming: the logged names, if they are not those of `log_name`.
            decoder: the decoder, if the evaluator has none.
            loggers: the loggers of the trainer, which get their numbers from it.
            device: the device for communication; when None, one that the process group can use.
        """
        self.validation = None
        own_loggers = [logger for logger in self.loggers if logger not in loggers]
        displays: list[dashboard.Display] = []
        run_in_process_0(lambda: displays.extend(dashboard.find_displays([*loggers, *own_loggers], self.warn_once)))
        # All processes keep texts if process 0 shows them.
        shows = run_in_process_0(lambda: bool(displays and self.samples))
        naming = naming or self.namings[stage]
        compares = self.compare_to is not None and stage == "val"
        option = f"compare_to={self.compare_to!r}" if compares else "translations=..."
        self.validation = Validation(
            metrics or self.metrics,
            names,
            dataloaders,
            decoder=self.decoder or decoder,
            stage=stage,
            naming=naming,
            origin=origin,
            needed_by=f"{type(self).__name__}({option})" if compares or self.record is not None else "",
            max_texts=math.inf if self.record is not None else _MAX_TEXTS if shows else 0,
            loggers=own_loggers if process_rank() == 0 else [],
            displays=displays,
            shows_samples=shows,
            device=device or communication_device(),
            warn=self.warn_once,
        )
        for dataloader in dataloaders if process_count() > 1 else ():
            count_stream(dataloader)
        if self.record is not None:
            for name in names:
                self.record.check_folder(*naming.folder, name)

    def score(self, *, counts: bool = True, keep: bool = True) -> Validation:
        """Score the sentences of all processes; nothing is logged, shown, or written. Collective.

        Args:
            counts: whether it may be compared with others; otherwise, it is compared with itself.
            keep: whether it becomes the new best if it is better.
        """
        validation = self._started()
        self.validation = None  # frees the memory
        validation.agree()
        compares = self.compare_to is not None and validation.stage == "val"
        find = partial(self._find_opponent, counts=counts)
        validation.finish(confidence=self.confidence, find_opponent=find if compares else None, keep=keep)
        return validation

    def publish(
        self, validation: Validation, step: int, epoch: float | None = None, *, shown_step: int | None = None
    ) -> None:
        """Log, show, and write a scored validation, and keep its results. Collective.

        Args:
            validation: the validation.
            step: the number of training steps before it.
            epoch: the epoch.
            shown_step: the step at which loggers show it, if that differs.
        """
        naming, shown_step = validation.naming, step if shown_step is None else shown_step
        old = tuple(f"{tag}/" for tag in validation.totals)
        kept = {tag: one for tag, one in self.results.items() if not f"{tag}/".startswith(old)}
        self.results = kept | validation.results
        numbers = {naming.shown_as(name): value for name, value in validation.numbers().items()}
        for logger in validation.loggers:
            refusal = f"{type(logger).__name__} cannot log scores"
            self._attempt(refusal, dashboard.log_numbers, logger, numbers, shown_step)
        if validation.stage == "val":
            means = validation.totals if validation.has_mean else ()
            charts = dashboard.lay_out_charts(validation.detailed, means, naming)
            self._display(validation, "charts", lambda display: dashboard.show_charts(display.logger, charts))
        subsets = validation.subsets.values()
        for subset in subsets if validation.shows_samples and validation.is_detailed else ():
            self._show(validation, subset, shown_step)
        if self.record is not None:
            self.record.write(naming, subsets, validation.results, step=step, epoch=epoch)

    def _started(self) -> Validation:
        if self.validation is None:
            raise RuntimeError(
                "no validation was started: call start(loader) before update and finish, in all processes"
            )
        return self.validation

    def _find_opponent(self, tag: str, *, counts: bool = True) -> Opponent:
        """What to compare a metric with, by its logged name, which is that of a dataset in Transformers."""
        opponent = Opponent(self.compare_to or "best", self.significance_level, self.confidence)
        return self._opponents.setdefault(tag, opponent) if counts else opponent

    def _show(self, validation: Validation, subset: Subset, step: int) -> None:
        """Show the sentences of a subset. Collective."""
        first, worst = dashboard.choose_sentences(subset, self.samples)
        view = cache(partial(dashboard.make_view, subset, first, worst, validation.naming, self.confidence))
        self._display(validation, "samples", lambda display: display.show(display.logger, view(), step))

    def _display(self, validation: Validation, what: str, show: Callable[[dashboard.Display], None]) -> None:
        for display in validation.displays:
            self._attempt(f"The {what} cannot be shown in {type(display.logger).__name__}", show, display)

    def _attempt(self, refusal: str, log: Callable[..., None], *args: Any) -> None:
        """Call a logger. If it fails, the training goes on."""
        try:
            log(*args)
        except Exception as error:
            self.warn_once(f"{refusal}: {type(error).__name__}: {error}", key=refusal)
