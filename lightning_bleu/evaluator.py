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
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_bleu.core.messages import WarnOnce, check_choice, did_you_mean
from lightning_bleu.core.processes import exchange, process_count, run_in_process_0
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.core.settings import Decoder, Settings, check_integer, to_plain
from lightning_bleu.evaluation.input.collector import SentenceCollector
from lightning_bleu.evaluation.input.outputs import CALL, Origin, Output
from lightning_bleu.evaluation.input.positions import Loader, count_items, prepare_loader
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.metrics.shared_facts import (
    check_parts,
    reserved_names,
    shared_reading,
    warn_about_scales,
)
from lightning_bleu.evaluation.names import STEPS, Naming, check_names, name_loaders
from lightning_bleu.evaluation.options import (
    EvaluatorOptions,
    MetricsByName,
    Options,
    check_agreement,
    check_names_of_options,
    describe_for_agreement,
    make_namings,
    show_options,
)
from lightning_bleu.evaluation.scores.sentences import MAX_EXAMINED, SavedLoaders, Share
from lightning_bleu.evaluation.scores.uncertainty import (
    BestValidations,
    add_intervals,
    check_state,
    suspect_few_sentences,
    to_saved,
)
from lightning_bleu.evaluation.scores.validation import (
    Outcome,
    Validation,
    group_by_loader,
    name_numbers,
    score_loaders,
)
from lightning_bleu.evaluation.texts.findings import select_warnings
from lightning_bleu.metrics import CorpusBLEU
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.loggers import check_loggers
from lightning_bleu.observers.record import Record
from lightning_bleu.observers.results import Results
from lightning_bleu.observers.samples import choose_sentences, make_samples

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric
    from torchmetrics import Metric
    from typing_extensions import Never, Unpack

_MAX_LOADERS = 20
"""The number of loaders whose samples and figures are shown."""
_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is known of a validation before it begins.

    Attributes:
        stage: ``"val"`` or ``"test"``. Only ``"val"`` is compared, and has charts.
        names: the names of the loaders; ``""`` for one without a name.
        dataloaders: the loaders, if they are known.
        origin: where the sentences come from, for error messages.
        naming: how names are written, if not as `log_name` says.
        dataset: what `only` calls a loader without a name.
        datasets: the names of all datasets, which are validated one by one.
        decoder: the decoder, if the options have none.
        loggers: the loggers of the trainer, which get their numbers from it.
    """

    stage: str
    names: Sequence[str]
    dataloaders: Sequence[Any]
    origin: Origin
    naming: Naming | None = None
    dataset: str = ""
    datasets: Collection[str] = ()
    decoder: Decoder | None = None
    loggers: Sequence[Any] = ()


@dataclass(eq=False)
class StartedValidation:
    """A validation that has begun.

    Attributes:
        plan: what was known before.
        naming: how its names are written.
        metrics: the metrics by name, in the same order in all processes.
        collector: counts its sentences in this process.
        dashboard: the loggers that show it.
        is_compared: whether it is compared with the best one.
        validation: in process 0, its scores, once it has ended.
    """

    plan: Plan
    naming: Naming
    metrics: Mapping[str, EvaluatorMetric]
    collector: SentenceCollector
    dashboard: Dashboard
    is_compared: bool
    validation: Validation | None = None


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
        compare_to: ``"best"`` to compare with the best validation before, on the same sentences. Tests are not
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
        the score of each, and ``val_bleu`` their unweighted mean. ``val_bleu/GROUP``, or ``val_bleu/LOADER/GROUP``, is
        the score of a group; with several groups, ``val_bleu/mean``, or ``val_bleu/LOADER/mean``, is their mean.
        Without sentences, nothing is logged.
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
        self.record: Record | None = None
        self.warn_once = WarnOnce()
        self._best = BestValidations(self.options.confidence)  # those of process 0 matter
        self._latest: dict[str, Results] = {}  # the last results of each stage
        self._started: StartedValidation | None = None

    # In a training loop

    def start(self, loaders: Any = None, *, stage: str = "val") -> None:
        """Start a validation or a test. One that was not finished is discarded. Collective.

        Args:
            loaders: the loader, a list of loaders, or a dict of them by name. With several processes, their samplers
                tell which sentence is which, unless these have an ``index``.
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
        if self.options.folder is not None:
            self.open_record(self.options.folder)
        names = name_loaders(stage, several, len(dataloaders))
        self._started = self.begin(Plan(stage=stage, names=names, dataloaders=dataloaders, origin=CALL))

    def update(
        self,
        preds: Any,
        target: Any,
        *,
        source: Any = None,
        sample_mask: Any = None,
        index: Any = None,
        group: Any = None,
        id: Any = None,
        batch_idx: int | None = None,
        dataloader_idx: int = 0,
        **columns: Any,
    ) -> None:
        """Count the sentences of a batch.

        Args:
            preds, target, sample_mask: see :meth:`CorpusBLEU.update`.
            index: the number of each sentence in its dataset, from 0, shape ``(sentences,)``. An index counts once;
                with a `group`, once per label.
            source: the source sentences, as strings, or as ids, which are decoded like the hypotheses.
            group: a label per sentence, such as its language, for a score per group.
            id: a string or an integer per sentence, which is recorded and shown, but is no index.
            batch_idx: the number of the batch in its loader, if some batches are skipped; counted when None.
            dataloader_idx: the number of its loader.
            columns: what functions take besides, a value per sentence; see :class:`FunctionMetric`.

        Raises:
            RuntimeError: before :meth:`start`.
            IndexError: if there is no such loader.
            TypeError, ValueError: see :meth:`CorpusBLEU.update`.
            TypeError: for another argument that no metric takes.
            ValueError: if only some batches of a loader have `source`, `index`, `group`, or `id`; for a label that is
                logged as something else, such as ``"low"``.
        """
        collector = self._find_started().collector
        dataloader_idx = check_integer("dataloader_idx", dataloader_idx)
        count = len(collector.loaders)
        if dataloader_idx not in range(count):
            raise IndexError(f"start() got {count} loaders, so there is none with dataloader_idx={dataloader_idx!r}")
        for name in columns.keys() - collector.keys:
            hint = did_you_mean(name, [*Output._fields[2:-1], *collector.keys])
            raise TypeError(f"update() got {name!r}, which no metric takes{hint}")
        output = Output(preds, target, source, sample_mask, index, group, id, columns)
        collector.update(output, batch_idx, dataloader_idx)

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
        outcome = self.score(started)
        return self.publish(started, outcome, step, None if epoch is None else float(epoch))

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
        """Write translations to a folder from now on; to none when None."""
        if folder is None:
            self.record = None
        elif self.record is None or self.record.folder != Path(folder).expanduser():
            self.record = Record(folder)

    def begin(self, plan: Plan) -> StartedValidation:
        """Begin a validation. Collective.

        Raises:
            ValueError: for names that are reserved, if metrics read ids differently, or if processes have different
                options.
        """
        naming = plan.naming or self.namings[plan.stage]
        decoder = self.options.decoder or plan.decoder
        dashboard = Dashboard(self.warn_once)
        named = plan.datasets or [*plan.names, plan.dataset]  # what `only` can name besides labels

        def describe() -> dict[str, Any]:
            return describe_for_agreement(self.options, self.metrics) | {
                "stage": plan.stage,
                "names of loaders": list(plan.names),
                "extract": plan.origin.name == "extract",
                "decoder": to_plain(decoder),
            }

        def open_all(described: Sequence[Mapping[str, Any]]) -> list[str]:
            check_agreement(described)
            if list(plan.names) != [""]:  # a single loader needs no name
                check_names(f"loaders of {plan.stage!r}", plan.names, self.reserved_names)
            dashboard.open(plan.loggers, self.options.loggers)
            ignores_all = all(self.options.ignores(name or plan.dataset, named) for name in plan.names)
            if self.record is not None and not ignores_all:
                self.record.check_folder(*naming.folder)
            return list(self.metrics)

        metrics = {name: self.metrics[name] for name in exchange(describe, open_all)}
        is_compared = self.options.compare_to is not None and plan.stage == "val"
        loaders = self._make_loaders(plan, named, shared_reading(metrics, decoder), is_compared=is_compared)
        shows_texts = self.record is not None or self.options.samples > 0
        max_texts = self._find_max_texts()
        collector = SentenceCollector(
            metrics, loaders, self.reserved_names, max_texts, self.warn_once, shows_texts=shows_texts
        )
        return StartedValidation(plan, naming, metrics, collector, dashboard, is_compared)

    def score(
        self,
        started: StartedValidation,
        *,
        is_trial: bool = False,
        is_limited: bool = False,
        may_replace: bool = True,
    ) -> Outcome:
        """Score the sentences of all processes. Nothing is logged, shown, written, or kept yet. Collective.

        Args:
            started: the validation.
            is_trial: whether it is a few batches to see if they work. It is compared with itself, and its texts are not
                examined.
            is_limited: whether only some batches were validated, so that loaders and groups may be missing.
            may_replace: whether it becomes the new best if it is better.
        """
        return exchange(
            started.collector.close,
            lambda shares: self._conclude(started, shares, is_trial, is_limited, may_replace),
        )

    def publish(
        self,
        started: StartedValidation,
        outcome: Outcome,
        step: int,
        epoch: float | None = None,
        *,
        shown_step: int | None = None,
    ) -> Results:
        """Write a scored validation, keep its results, and log and show it. Collective.

        Args:
            started: the validation.
            outcome: what :meth:`score` returned.
            step: the number of training steps before it.
            epoch: the epoch.
            shown_step: the step at which loggers show it, if that differs.

        Returns:
            the results, with samples in process 0.

        Raises:
            OSError: if files cannot be written. Then no result and no best validation has been replaced.
        """
        stage, validation = started.naming.stage, started.validation
        run = "" if self.record is None else f"{self.record.run_name}, "
        title = f"{run}{stage} at step {step:,}, {datetime.date.today()}"
        results = Results(outcome.results, {}, outcome.findings, title)

        def write() -> None:
            assert validation is not None  # in process 0
            for loader in validation.loaders[:_MAX_LOADERS] if self.options.samples else ():
                name = "/".join(filter(None, [stage, loader.name]))
                results.samples[name] = make_samples(loader, choose_sentences(loader, self.options.samples), name)
            if self.record is not None:
                self.record.write(validation, step=step, epoch=epoch)

        run_in_process_0(write)
        self._latest.pop(stage, None)
        self._latest[stage] = results  # behind those of other stages
        self.results = Results(title="; ".join(latest.title for latest in self._latest.values()))
        for latest in self._latest.values():
            self.results.update(latest)
            self.results.samples.update(latest.samples)
            self.results.findings += latest.findings
        if validation is not None:  # a logger that waits must not let other processes wait
            if validation.new_best:
                self._best.save(validation.new_best)
            started.dashboard.show(
                validation,
                results.samples.values(),
                step if shown_step is None else shown_step,
                has_charts=started.plan.stage == "val",
                confidence=self.options.confidence,
            )
        return results

    # Their parts

    def _make_loaders(
        self, plan: Plan, named: Collection[str], reading: Settings, *, is_compared: bool
    ) -> list[Loader]:
        """The loaders of a validation, which read ids like this."""
        if process_count() > 1:
            for dataloader in plan.dataloaders:
                prepare_loader(dataloader)
        order_needed_by = "" if self.record is None else f"{plan.origin.owner}(translations=...)"
        if is_compared:
            order_needed_by = f"{plan.origin.owner}(compare_to={self.options.compare_to!r})"
        loaders = []
        for name, dataloader in zip_longest(plan.names, plan.dataloaders):
            labels = self.options.labels_of(name or plan.dataset, named)
            loaders.append(
                Loader(
                    name,
                    reading,
                    dataloader,
                    plan.origin,
                    order_needed_by,
                    labels,
                    is_recorded=self.record is not None,
                    item_count=count_items(dataloader),
                )
            )
        return loaders

    def _conclude(
        self, started: StartedValidation, shares: Sequence[Share], is_trial: bool, is_limited: bool, may_replace: bool
    ) -> Outcome:
        """Score what all processes have seen, in process 0: scores, intervals, comparisons, findings, and mistakes."""
        options, naming = self.options, started.naming
        joined = started.collector.join(shares)
        named_parts = () if isinstance(options.parts, bool) else options.parts
        scored, mistakes = score_loaders(started.metrics, joined.loaders, named_parts)
        if options.confidence is not None:
            scored = add_intervals(scored, options.confidence)
        new_best: Mapping[str, SavedLoaders] = {}
        if started.is_compared:
            may_replace = may_replace and not is_trial
            found = self._best.find(scored, naming, may_compare=not is_trial, may_replace=may_replace)
            scored, new = self._best.compare(scored, found)
            if may_replace:
                new_best = to_saved(scored, new, naming)
            if not is_trial:
                mistakes += suspect_few_sentences(found)
        findings = [] if is_trial else joined.find_findings(started.metrics, started.plan.dataset)
        loaders = group_by_loader(scored, joined.loaders)
        results = {naming.render(score.name): score.result for score in scored}
        numbers = name_numbers(scored, naming, options.parts)
        validation = Validation(naming, started.metrics, loaders, scored, results, numbers, findings, new_best)
        mistakes += [*select_warnings(findings), *joined.mistakes]
        if options.only is not None and not is_trial and not is_limited:
            mistakes += joined.suspect_only(options.only, started.plan.dataset)
        self.warn_once.about_all(mistakes)  # a warning may be an error
        started.validation = validation
        refused = started.dashboard.find_refused(numbers)
        return Outcome(results, numbers, findings, joined.read, joined.skipped, refused)

    def _find_max_texts(self) -> int:
        """Of how many sentences of each loader process 0 needs the texts."""
        if self.record is not None:
            return sys.maxsize
        return _MAX_TEXTS if self.options.samples > 0 else MAX_EXAMINED


show_options(Evaluator.__init__)


def _check_loaders(dataloaders: Sequence[Any]) -> None:
    """Raise an error unless there are loaders, none of which is a string."""
    if not dataloaders:
        raise ValueError("start() got no loaders: pass the loader of the validation, or nothing if there is none")
    for dataloader in dataloaders:
        if isinstance(dataloader, str):
            raise TypeError(f"start() got the loader {dataloader!r}: pass loaders first, and the stage as stage='test'")
