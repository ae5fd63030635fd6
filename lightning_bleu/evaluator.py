"""Everything that a validation does, in any training loop: scores, comparisons, samples, figures, charts, and files.

A loop of your own calls an :class:`Evaluator` like this::

    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[SummaryWriter("runs/a")])
    evaluator.start(loader)
    for sources, references in loader:
        evaluator.update(translate(sources), references, source=sources)
    results = evaluator.finish(step)

:class:`BLEUCallback` does the same in the Trainer of Lightning, and :class:`.EvaluatorMixin` in those of Transformers.
They call :meth:`Evaluator.begin`, :meth:`Evaluator.score`, and :meth:`Evaluator.publish`, as the methods above do.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.messages import WarnOnce, check_choice
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.processes import communication_device, process_count, run_in_all, run_in_process_0
from lightning_bleu.core.settings import Decoder, check_integer
from lightning_bleu.evaluation.accelerate_positions import count_stream
from lightning_bleu.evaluation.best import BestValidations, SavedLoaders, check_state, suspect_few_sentences, to_saved
from lightning_bleu.evaluation.choices import choose_sentences
from lightning_bleu.evaluation.collector import SentenceCollector
from lightning_bleu.evaluation.findings import select_warnings
from lightning_bleu.evaluation.loaders import CALL, Loader, Origin
from lightning_bleu.evaluation.metric_facts import (
    check_parts,
    reserved_names,
    shared_reading,
    warn_about_scales,
)
from lightning_bleu.evaluation.names import STEPS, Naming, check_loader_names, name_loaders
from lightning_bleu.evaluation.options import (
    EvaluatorOptions,
    MetricsByName,
    Options,
    agree_on_metrics,
    check_names_of_options,
    make_namings,
    show_options,
)
from lightning_bleu.evaluation.outputs import Output
from lightning_bleu.evaluation.passed_metrics import read_metrics
from lightning_bleu.evaluation.scores import score_loaders
from lightning_bleu.evaluation.uncertainty import add_intervals
from lightning_bleu.evaluation.validation import Validation, group_by_loader, name_numbers
from lightning_bleu.metrics import CorpusBLEU
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.loggers import check_loggers
from lightning_bleu.observers.record import Record
from lightning_bleu.observers.results import Results
from lightning_bleu.observers.samples import Samples, make_samples

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric
    from torchmetrics import Metric
    from typing_extensions import Never, Unpack

_MAX_LOADERS = 20
"""The number of loaders whose samples and figures are shown."""
_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


@dataclass(frozen=True, eq=False)
class StartedValidation:
    """A validation that has started.

    Attributes:
        stage: ``"val"`` or ``"test"``. Only ``"val"`` is compared, and has charts.
        naming: how its names are written.
        dataset: what `only` calls a loader without a name.
        metrics: the metrics by name, in the same order in all processes.
        collector: counts its sentences.
        dashboard: the loggers that show it.
        device: the device for communication.
    """

    stage: str
    naming: Naming
    dataset: str
    metrics: Mapping[str, EvaluatorMetric]
    collector: SentenceCollector
    dashboard: Dashboard
    device: Any


class Evaluator:
    """Scores validations, compares them with an earlier one, shows them in loggers, and writes them to files.

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

    Args:
        metrics: a dict of metrics by name: :class:`CorpusBLEU`, :class:`CorpusCHRF`, a metric of
            ``lightning_bleu.tasks``, a function or a :class:`FunctionMetric`, or a metric of torchmetrics or sacreBLEU
            that scores text. One metric with a name of its own needs no dict: ``bleu``, ``chrf``, ``wer``, ``cer``,
            ``ter``, ``rouge``, or ``exact_match``. ``CorpusBLEU()`` when None.
        decoder: decodes ids for metrics without a decoder of their own; see :class:`CorpusBLEU`. All metrics of a
            loader must read ids in the same way. A metric that sets no special ids uses those of the others.
        log_name: the logged names, with ``{stage}`` (``val`` or ``test``) and ``{metric}``, such as
            ``"{stage}/{metric}"``.
        parts: whether to log the components of scores, or a list of those to log. For BLEU, the list may also have
            ``"bleu_1"`` to ``"bleu_N"``, the scores of ``CorpusBLEU(max_order=n)``. Results always have them.
        samples: show the first N and the worst N sentences of each loader, for up to 20 loaders. 0 turns off samples
            and figures.
        translations: a folder for the texts and scores of each validation, one for each training run; True for the
            folder ``translations`` of a Trainer's run. The loader must not shuffle, unless sentences have an ``index``.
        confidence: the level of the logged confidence intervals, in 0..1, such as 0.95; no intervals when None.
        compare_to: ``"best"`` to compare with the best validation so far, on the same sentences. Tests are not
            compared.
        only: names of loaders, labels of groups, or ``"LOADER/GROUP"`` to score; everything when None.
        loggers: a ``SummaryWriter``, a run of W&B, or any logger of Lightning; those of a Trainer need not be listed.
            Only those of process 0 are used.

    Attributes:
        options: the options; they cannot be changed.
        metrics: the metrics by name.
        results: a :class:`~lightning_bleu.Result` by logged name, the last one of each; see
            :class:`~lightning_bleu.Results`.

    Raises:
        TypeError: for options of the wrong type.
        ValueError: for options that are out of range, and for parts that no metric has.

    Notes:
        Call :meth:`start`, :meth:`update` with each batch, and :meth:`finish`. In the Trainer of Lightning, use
        :class:`BLEUCallback`; in those of Transformers, :class:`.EvaluatorMixin`. Use a new one for each run.

        A score is logged as ``val_bleu``, its parts as ``val_bleu/NAME``. With several loaders, ``val_bleu/LOADER`` is
        the score of each, and ``val_bleu`` their unweighted mean. ``val_bleu/GROUP`` is the score of a group. Without
        sentences, nothing is logged.
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | EvaluatorMetric | MetricsByName | Callable[..., Any] | None = None,
        *more_metrics: Never,
        **options: Unpack[EvaluatorOptions],
    ) -> None:
        check_names_of_options(type(self).__name__, options, [metrics, *more_metrics])
        self.options = Options(metrics=metrics, **options)
        check_loggers(self.options.loggers)
        self.metrics = read_metrics(CorpusBLEU() if metrics is None else metrics)
        warn_about_scales(self.metrics)
        self.namings = make_namings(self.options.log_name)
        self.reserved_names = reserved_names(self.metrics)
        check_parts(self.metrics, self.options.parts)
        self.results = Results()
        self._steps: dict[str, int] = {}  # of the last results of each stage
        self.record: Record | None = None
        self.warn_once = WarnOnce()
        self._results_by_stage: dict[str, Results] = {}
        self._best = BestValidations(self.options.confidence)
        self._started: StartedValidation | None = None

    # In a training loop

    def start(self, loaders: Any = None, *, stage: str = "val") -> None:
        """Start a validation or a test. One that was not finished is discarded. Collective.

        Args:
            loaders: the loader, a list of loaders, or a dict of them by name. With several processes, their samplers
                tell the positions of the sentences, unless these have an ``index``.
            stage: ``"val"`` or ``"test"``.

        Raises:
            ValueError: if metrics read ids differently, ``translations=True`` has no Trainer, or processes have
                different options.
        """
        check_choice("stage", stage, STEPS)
        several = loaders if isinstance(loaders, Mapping | list | tuple) else [loaders]
        dataloaders = list(several.values()) if isinstance(several, Mapping) else list(several)
        _check_loaders(dataloaders)
        self._started = None
        if self.options.uses_folder_of_run:
            raise ValueError("translations=True needs the folder of a Trainer's run: pass translations='FOLDER'")
        names = name_loaders(stage, several, len(dataloaders))
        self._started = self.begin(stage, names, dataloaders, CALL, folder=self.options.folder)

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
            preds, target, sample_mask: see :meth:`CorpusBLEU.update`.
            index: the position of each sentence in its dataset, from 0, shape ``(sentences,)``. A position counts once;
                with a `group`, once per label.
            source: the source sentences, as strings, or as ids, which are decoded like the hypotheses.
            group: a label per sentence, such as its language, for a score per group.
            batch_idx: the number of the batch in its loader, if some batches are skipped; counted when None.
            dataloader_idx: the number of its loader.

        Raises:
            RuntimeError: before :meth:`start`.
            IndexError: if there is no such loader.
            TypeError, ValueError: see :meth:`CorpusBLEU.update`.
            ValueError: if only some batches of a loader have `source`, `index`, or `group`, or for a label that is
                logged as something else, such as ``"low"``.
        """
        collector = self._find_started().collector
        dataloader_idx = check_integer("dataloader_idx", dataloader_idx)
        count = len(collector.loaders)
        if dataloader_idx not in range(count):
            raise IndexError(f"start() got {count} loaders, so there is none with dataloader_idx={dataloader_idx!r}")
        collector.update(Output(preds, target, source, sample_mask, index, group), batch_idx, dataloader_idx)

    def finish(self, step: int, epoch: float | None = None) -> Results:
        """Score the sentences of all processes, and log, show, and write the results. Collective.

        Args:
            step: the number of training steps so far.
            epoch: the epoch.

        Returns:
            the results of this validation by logged name.

        Raises:
            RuntimeError: before :meth:`start`.
            TypeError, ValueError: if the step is not an integer of 0 or more.
            OSError: if files cannot be written. Then the results and the validations to compare with do not change.
        """
        step = check_integer("step", step, at_least=0)
        started = self._find_started()
        self._started = None  # frees the memory
        validation = self.score(started)
        return self.publish(started, validation, step, None if epoch is None else float(epoch))

    def _find_started(self) -> StartedValidation:
        if self._started is None:
            raise RuntimeError(
                "no validation was started: call start(loader) before update and finish, in all processes"
            )
        return self._started

    def state_dict(self) -> dict[str, Any]:
        """The best validations, which `compare_to` needs, to save in a checkpoint; empty if there are none."""
        return self._best.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` saved.

        Raises:
            ValueError: if it is no such state, or has a format that this version cannot read.
        """
        check_state(state_dict)
        if self.options.compare_to is not None:
            self._best.load_state_dict(state_dict)

    # In a Trainer: its adapter begins, scores, and publishes each validation

    def open_record(self, folder: str | os.PathLike[str] | None) -> None:
        """Write translations to a folder; to none when None. Collective."""
        if folder is None:
            self.record = None
        elif self.record is None or self.record.folder != Path(folder).expanduser():
            self.record = Record(folder)

    def begin(
        self,
        stage: str,
        names: Sequence[str],
        dataloaders: Sequence[Any],
        origin: Origin,
        *,
        naming: Naming | None = None,
        dataset: str = "",
        decoder: Decoder | None = None,
        has_extract: bool = False,
        folder: str | os.PathLike[str] | None = None,
        loggers: Sequence[Any] = (),
        device: Any = None,
    ) -> StartedValidation:
        """Start a validation. Collective.

        Args:
            stage: ``"val"`` or ``"test"``.
            names: the names of the loaders; ``""`` for one without a name.
            dataloaders: the loaders, if they are known.
            origin: where the sentences come from, for error messages.
            naming: how names are written, if not as `log_name` says.
            dataset: what `only` calls a loader without a name.
            decoder: the decoder, if the options have none.
            has_extract: whether a function finds the sentences in what a step returned.
            folder: the folder of the translations from now on; as :meth:`open_record` said when None.
            loggers: the loggers of the trainer, which get their numbers from it.
            device: the device for communication; when None, one that the process group can use.

        Raises:
            ValueError: for names that are reserved, if metrics read ids differently, or if processes have different
                options.
        """
        options = self.options
        naming = naming or self.namings[stage]
        decoder = options.decoder or decoder
        metrics = agree_on_metrics(
            options, self.metrics, stage, names, decoder, self._best.checksum, has_extract=has_extract
        )
        if folder is not None:
            self.open_record(folder)
        check_loader_names(stage, names, self.reserved_names)
        reading = shared_reading(metrics, decoder)
        needed_by = self._find_need_of_order(stage, origin.owner)
        loaders = []
        for name, dataloader in zip_longest(names, dataloaders):
            labels = options.labels_of(name or dataset)
            loaders.append(Loader(name, reading, dataloader, origin, needed_by, labels))
        dashboard = Dashboard(loggers, options.loggers, self.warn_once)
        collector = SentenceCollector(
            metrics, loaders, reserved=self.reserved_names, max_texts=self._find_max_texts(), warn=self.warn_once
        )
        if process_count() > 1:
            for dataloader in dataloaders:
                count_stream(dataloader)
        record = self.record
        if record is not None and not all(loader.is_ignored for loader in loaders):
            run_in_process_0(lambda: record.check_folder(*naming.folder))
        return StartedValidation(
            stage, naming, dataset, metrics, collector, dashboard, device or communication_device()
        )

    def score(
        self,
        started: StartedValidation,
        *,
        is_trial: bool = False,
        is_limited: bool = False,
        may_replace: bool = True,
    ) -> Validation:
        """Score the sentences of all processes. Nothing is logged, shown, written, or kept yet. Collective.

        Args:
            started: the validation.
            is_trial: whether it is a few batches to see if they work. It is compared with itself, and its texts are not
                examined.
            is_limited: whether only some batches were validated, so that loaders and groups may be missing.
            may_replace: whether it becomes the new best if it is better.
        """
        options, naming = self.options, started.naming
        gathered = started.collector.gather(started.device)
        mistakes: list[Mistake] = []
        named_parts = () if isinstance(options.parts, bool) else options.parts
        scored = score_loaders(started.metrics, gathered, named_parts, mistakes)
        if options.confidence is not None:
            scored = add_intervals(scored, options.confidence)
        new_best: Mapping[str, SavedLoaders] = {}
        if self._compares(started.stage):
            may_replace = may_replace and not is_trial
            found = self._best.find(scored, naming, may_compare=not is_trial, may_replace=may_replace)
            scored, new = self._best.compare(scored, found)
            if may_replace:
                new_best = to_saved(scored, new, naming)
            if not is_trial:
                mistakes += suspect_few_sentences(found)
        findings = [] if is_trial else started.collector.find_findings(gathered)
        mistakes += select_warnings(findings)
        validation = Validation(
            naming,
            started.metrics,
            group_by_loader(scored, gathered),
            scored,
            {naming.render(score.name): score.result for score in scored},
            name_numbers(scored, naming, options.parts),
            findings,
            new_best,
            started.collector.returned,
        )
        mistakes += started.collector.find_mistakes()
        if options.only is not None and not is_trial and not is_limited:
            mistakes += started.collector.suspect_only(options.only, gathered, started.dataset)
        run_in_all(lambda: self.warn_once.about_all(mistakes))  # a warning may be an error
        return validation

    def rehearse(self, validation: Validation) -> None:
        """Find errors of :meth:`publish` before a training: texts that cannot be decoded. Collective."""
        for loader in validation.loaders:
            loader.sentences.read(loader.sentences.readable[:1])

    def publish(
        self,
        started: StartedValidation,
        validation: Validation,
        step: int,
        epoch: float | None = None,
        *,
        shown_step: int | None = None,
    ) -> Results:
        """Write a scored validation, keep its results, and log and show it. Collective.

        Args:
            started: the validation.
            validation: its scores.
            step: the number of training steps before it.
            epoch: the epoch.
            shown_step: the step at which loggers show it, if that differs.

        Returns:
            the results, with samples in process 0.

        Raises:
            OSError: if files cannot be written. Then no result and no best validation has been replaced.
        """
        naming = validation.naming
        results = Results(
            validation.results,
            self._choose_samples(validation),
            validation.findings,
            self._name_page([f"{naming.stage} at step {step:,}"]),
        )
        shown_step = step if shown_step is None else shown_step
        record = self.record
        if record is not None:
            for loader in validation.loaders:
                loader.sentences.read_all()  # process 0 gets the texts
            run_in_process_0(lambda: record.write(validation, step=step, epoch=epoch))
        self._keep_results(naming.stage, step, results)
        if validation.new_best:
            self._best.save(validation.new_best)
        started.dashboard.show(
            validation,
            results.samples.values(),
            shown_step,
            has_charts=started.stage == "val",
            confidence=self.options.confidence,
        )
        return results

    # Their parts

    def _compares(self, stage: str) -> bool:
        """Whether validations of a stage are compared."""
        return self.options.compare_to is not None and stage == "val"

    def _find_need_of_order(self, stage: str, owner: str) -> str:
        """The option that needs the order of the sentences; empty if none does."""
        if self._compares(stage):
            return f"{owner}(compare_to={self.options.compare_to!r})"
        return "" if self.record is None else f"{owner}(translations=...)"

    def _find_max_texts(self) -> float:
        """How many sentences of each loader to keep as text."""
        if self.record is not None:
            return math.inf
        return _MAX_TEXTS if self.options.samples > 0 else 0

    def _choose_samples(self, validation: Validation) -> dict[str, Samples]:
        """The samples of each loader by its name. Collective."""
        if not self.options.samples:
            return {}
        samples = {}
        for loader in validation.loaders[:_MAX_LOADERS]:
            name = "/".join(filter(None, [validation.naming.stage, loader.name]))
            samples[name] = make_samples(loader, choose_sentences(loader, self.options.samples), name)
        return samples

    def _name_page(self, places: Iterable[str]) -> str:
        """The title of a page of results: of which run, stages, and steps they are, and the date."""
        run = "" if self.record is None else f"{self.record.run_name}, "
        return f"{run}{' and '.join(places)}, {datetime.date.today()}"

    def _keep_results(self, stage: str, step: int, results: Results) -> None:
        """Replace the results of a stage, which become the last ones."""
        self._results_by_stage.pop(stage, None)
        self._results_by_stage[stage] = results
        self._steps[stage] = step
        places = [f"{stage} at step {self._steps[stage]:,}" for stage in self._results_by_stage]
        self.results = Results(title=self._name_page(places))
        for results_of_stage in self._results_by_stage.values():
            self.results.update(results_of_stage)
            self.results.samples.update(results_of_stage.samples)
            self.results.findings += results_of_stage.findings


show_options(Evaluator.__init__)


def _check_loaders(dataloaders: Sequence[Any]) -> None:
    """Raise an error unless there are loaders, none of which is a string."""
    if not dataloaders:
        raise ValueError("start() got no loaders: pass the loader of the validation, or nothing if there is none")
    for dataloader in dataloaders:
        if isinstance(dataloader, str):
            raise TypeError(f"start() got the loader {dataloader!r}: pass loaders first, and the stage as stage='test'")
