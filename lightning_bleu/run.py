"""What an evaluator does from the beginning of a validation to its end. The adapters of training loops hold a run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from lightning_bleu.display.dashboard import Dashboard
from lightning_bleu.display.loggers import check_loggers
from lightning_bleu.display.results import Results
from lightning_bleu.display.samples import Samples, make_samples
from lightning_bleu.evaluation.choices import choose_sentences
from lightning_bleu.evaluation.collector import SentenceCollector
from lightning_bleu.evaluation.loaders import Origin, count_stream
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.opponents import Opponent, OpponentKind
from lightning_bleu.evaluation.options import Options
from lightning_bleu.evaluation.validation import ScoredValidation, score_validation
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import communication_device, process_count
from lightning_bleu.record import Record
from lightning_bleu.settings.settings import Decoder

STATE_FORMAT = 1
"""The format of the states that are saved in checkpoints."""
_MAX_TEXTS = 10_000
"""The number of sentences from which samples are chosen, so that their texts need a bounded amount of memory."""


@dataclass(frozen=True, eq=False)
class Validation:
    """A validation that has started.

    Attributes:
        stage: ``"val"`` or ``"test"``. Only ``"val"`` is compared, and has charts.
        naming: how its names are written.
        collector: counts its sentences.
        dashboard: the loggers that show it.
        device: the device for communication.
    """

    stage: str
    naming: Naming
    collector: SentenceCollector
    dashboard: Dashboard
    device: Any


@dataclass(frozen=True, eq=False)
class FinishedValidation:
    """A validation that has been scored, and not been published yet.

    Attributes:
        validation: the validation.
        scored: its scores.
    """

    validation: Validation
    scored: ScoredValidation


class Run:
    """The validations of one training run: :meth:`begin`, :meth:`score`, and :meth:`publish` each of them.

    In between, an adapter passes batches to the collector of the validation, and can log the numbers with the means of
    its trainer. All methods are collective.

    Args:
        options: the options of the evaluator.

    Attributes:
        results: the last result of each score by its logged name.
        record: the record of the run; None if nothing is written.
        warn_once: warns about likely mistakes.
    """

    def __init__(self, options: Options) -> None:
        check_loggers(options.loggers)
        self.options = options
        self.results = Results()
        self.record: Record | None = None
        self.warn_once = WarnOnce()
        self._results_by_stage: dict[str, Results] = {}
        self._opponents: dict[str, Opponent] = {}

    def open_record(self, folder: str | os.PathLike[str] | None) -> None:
        """Write translations to a folder; to none when None."""
        if folder is None:
            self.record = None
        elif self.record is None or self.record.folder != Path(folder).expanduser():
            self.record = Record(folder, self.options.keep_translations, self.warn_once)

    def check_loggers(
        self, stage: str, loaders: Sequence[str] = (), *, naming: Naming | None = None, loggers: Sequence[Any] = ()
    ) -> None:
        """Check before a training that loggers can take the names of its validations, as :meth:`begin` does.

        Args:
            stage: ``"val"`` or ``"test"``.
            loaders: the names of the loaders, if they are known.
            naming: how names are written, if not as `log_name` says.
            loggers: the loggers of the trainer.

        Raises:
            ValueError: if a logger cannot.
        """
        expected = _shown_names(naming or self.options.namings[stage], self.options.expected_names(stage, loaders))
        Dashboard(loggers, self.options.loggers, self.warn_once, expected)

    def begin(
        self,
        stage: str,
        names: Sequence[str],
        dataloaders: Sequence[Any],
        origin: Origin,
        *,
        table: MetricTable | None = None,
        naming: Naming | None = None,
        decoder: Decoder | None = None,
        loggers: Sequence[Any] = (),
        device: Any = None,
    ) -> Validation:
        """Start a validation.

        Args:
            stage: ``"val"`` or ``"test"``.
            names: the names of the loaders; ``""`` for one without a name.
            dataloaders: the loaders, if they are known.
            origin: where the sentences come from, for error messages.
            table: the metrics, if they are not all.
            naming: how names are written, if not as `log_name` says.
            decoder: the decoder, if the options have none.
            loggers: the loggers of the trainer, which get their numbers from it.
            device: the device for communication; when None, one that the process group can use.
        """
        options = self.options
        naming = naming or options.namings[stage]
        expected = _shown_names(naming, options.expected_names(stage, names, table))
        dashboard = Dashboard(loggers, options.loggers, self.warn_once, expected)
        collector = SentenceCollector(
            table or options.table,
            names,
            dataloaders,
            decoder=options.decoder or decoder,
            origin=origin,
            needed_by=self._needs_order(stage, origin.owner),
            max_texts=self._max_texts,
            warn=self.warn_once,
        )
        if process_count() > 1:
            for dataloader in dataloaders:
                count_stream(dataloader)
        if self.record is not None:
            for number, name in enumerate(names):
                if not collector.ignores(number):
                    self.record.check_folder(*naming.folder, name)
        return Validation(stage, naming, collector, dashboard, device or communication_device())

    def _compares(self, stage: str) -> bool:
        """Whether validations of a stage are compared."""
        return self.options.compare_to is not None and stage == "val"

    def _needs_order(self, stage: str, owner: str) -> str:
        """The option that needs the order of the sentences; empty if none does."""
        if self._compares(stage):
            return f"{owner}(compare_to={self.options.compare_to!r})"
        if self.record is not None:
            return f"{owner}(translations=...)"
        return ""

    @property
    def _max_texts(self) -> float:
        """How many sentences of each subset to keep as text."""
        if self.record is not None:
            return math.inf
        return _MAX_TEXTS if self.options.samples > 0 else 0

    def score(self, validation: Validation, *, counts: bool = True, keep: bool = True) -> FinishedValidation:
        """Score the sentences of all processes. Nothing is logged, shown, written, or compared with yet.

        Args:
            validation: the validation.
            counts: whether it may be compared with others; otherwise, it is compared with itself.
            keep: whether it becomes the new best if it is better.
        """
        collector = validation.collector
        collector.agree()
        find_opponent = (
            partial(self._find_opponent, validation.naming, counts) if self._compares(validation.stage) else None
        )
        scored = score_validation(
            collector.table,
            list(collector.subsets.values()),
            collector.gather(validation.device),
            validation.naming,
            confidence=self.options.confidence,
            find_opponent=find_opponent,
            keep=keep,
            warn=self.warn_once if counts else None,
        )
        scored.check_names()
        collector.warn_about_mistakes()
        return FinishedValidation(validation, scored)

    def check_names(self, finished: FinishedValidation) -> None:
        """Check that loggers can take all names, which are only known now, such as those of groups.

        Raises:
            ValueError: if a logger cannot.
        """
        scored = finished.scored
        finished.validation.dashboard.check_names(_shown_names(scored.naming, scored.numbers))

    def publish(
        self, finished: FinishedValidation, step: int, epoch: float | None = None, *, shown_step: int | None = None
    ) -> Results:
        """Write a scored validation, keep its results, and log and show it.

        What fails leaves nothing behind: files are written first. Only then are results and opponents replaced. Old
        translations are deleted last.

        Args:
            finished: the validation.
            step: the number of training steps before it.
            epoch: the epoch.
            shown_step: the step at which loggers show it, if that differs.

        Returns:
            the results, with samples in process 0.
        """
        validation, scored = finished.validation, finished.scored
        results = Results(scored.results, self._choose_samples(scored))
        shown_step = step if shown_step is None else shown_step
        if self.record is not None:
            self.record.write(scored, step=step, epoch=epoch)
        self._keep_results(scored.naming.stage, results)
        scored.replace_opponents()
        if validation.dashboard.gets_numbers:
            numbers = {scored.naming.render_for_loggers(name): value for name, value in scored.numbers.items()}
            validation.dashboard.log_numbers(numbers, shown_step)
        if validation.stage == "val":
            validation.dashboard.show_charts(scored)
        validation.dashboard.show_samples(scored, results.samples.values(), shown_step, self.options.confidence)
        if self.record is not None:
            self.record.delete_old_translations()
        return results

    def _choose_samples(self, scored: ScoredValidation) -> dict[str, Samples]:
        """The samples of each subset by its name. Collective."""
        if not self.options.samples or not scored.shows_subsets:
            return {}
        samples = {}
        for subset in scored.subsets:
            name = "/".join([scored.naming.stage, *subset.names])
            samples[name] = make_samples(subset, choose_sentences(subset, self.options.samples), name)
        return samples

    def _keep_results(self, stage: str, results: Results) -> None:
        """Replace the results of a stage, which become the last ones."""
        self._results_by_stage.pop(stage, None)
        self._results_by_stage[stage] = results
        self.results = Results()
        for results_of_stage in self._results_by_stage.values():
            self.results.update(results_of_stage)
            self.results.samples.update(results_of_stage.samples)

    def state_dict(self) -> dict[str, Any]:
        """The best or the first validations, to save in a checkpoint; empty if there are none."""
        states = {name: opponent.state_dict() for name, opponent in self._opponents.items()}
        states = {name: state for name, state in states.items() if state}
        if not states:
            return {}
        return {"format": STATE_FORMAT, str(self.options.compare_to): states}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved.

        With ``compare_to="first"``, scores that it does not have keep their first validation.
        """
        # A state without opponents is {}, also without a format.
        if state_dict.get("format", STATE_FORMAT) != STATE_FORMAT:
            raise ValueError(
                f"the state has the format {state_dict['format']!r}, and this version of lightning_bleu reads "
                f"{STATE_FORMAT}: load it with the version that saved it"
            )
        unknown = state_dict.keys() - {"format", *get_args(OpponentKind)}
        if unknown:
            names = sorted(map(str, unknown))
            raise ValueError(f"expected evaluator.state_dict(), got a dict with the keys {names}")
        kind = self.options.compare_to
        if kind == "best":
            self._opponents = {}  # forgets those of another run; a first validation stays
        saved = {} if kind is None else state_dict.get(kind, {})
        for logged_name, state in saved.items():
            self._opponents.setdefault(logged_name, self._new_opponent()).load_state_dict(state)

    def _new_opponent(self) -> Opponent:
        options = self.options
        return Opponent(options.compare_to or "best", options.significance_level, options.confidence)

    def _find_opponent(self, naming: Naming, counts: bool, name: Name) -> Opponent:
        """What to compare a score with, by its logged name, which is that of a dataset in Transformers."""
        opponent = self._new_opponent()
        return self._opponents.setdefault(naming.render(name), opponent) if counts else opponent


def _shown_names(naming: Naming, names: Iterable[Name]) -> list[str]:
    """The names of numbers in loggers."""
    return [naming.render_for_loggers(name) for name in names]
