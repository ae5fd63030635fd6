"""The dashboard of a run: the loggers that a validation is shown in. If one fails, the training goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from typing import Any

from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.evaluation.scores.validation import Validation
from lightning_bleu.observers.loader_view import make_view
from lightning_bleu.observers.loggers import LoggerAdapter, NumbersOnly, adapt
from lightning_bleu.observers.samples import Samples
from lightning_bleu.observers.tensorboard import lay_out_charts


class Dashboard:
    """The loggers that show a validation. In other processes than process 0, none is opened.

    Args:
        warn: warns about loggers that fail, and tells which ones get numbers only.
    """

    def __init__(self, warn: WarnOnce) -> None:
        self._warn = warn
        self._trainer_adapters: list[LoggerAdapter] = []
        self._own_adapters: list[LoggerAdapter] = []

    def open(self, loggers: Sequence[Any], own_loggers: Sequence[Any] = ()) -> None:
        """Open loggers.

        Args:
            loggers: the loggers of a trainer, which logs numbers itself.
            own_loggers: the loggers of the evaluator, which get the numbers, too.
        """
        self._trainer_adapters = [self._adapt(logger) for logger in loggers]
        self._own_adapters = [self._adapt(logger) for logger in own_loggers if logger not in loggers]

    def _adapt(self, logger: Any) -> LoggerAdapter:
        name = type(logger).__name__
        try:
            adapter = adapt(logger)
        except Exception as error:  # a failing logger must not stop training
            self._warn(f"{name} cannot show samples: {type(error).__name__}: {error}")
            return NumbersOnly(logger)
        limitation = adapter.describe_limitation()
        if limitation:
            self._warn(limitation)
        if not adapter.shows_samples:
            from pytorch_lightning.utilities.rank_zero import rank_zero_info  # type: ignore[attr-defined]

            message = f"{name} gets numbers only: it has no method that shows tables, text, or images."
            self._warn(message, warn=rank_zero_info)
        return adapter

    def find_refused(self, names: Collection[str]) -> dict[str, str]:
        """The logged names that a logger of the trainer refuses, each with the reason."""
        refused: dict[str, str] = {}
        for adapter in self._trainer_adapters:
            refused |= adapter.find_refused(names)
        return refused

    def show(
        self,
        validation: Validation,
        samples: Iterable[Samples],
        step: int,
        *,
        has_charts: bool,
        confidence: float | None = None,
    ) -> None:
        """Log the numbers to the loggers of the evaluator, arrange charts, and show samples and figures.

        Args:
            validation: the validation.
            samples: those of its first loaders; none if nothing is to be shown.
            step: the step.
            has_charts: whether its numbers have charts.
            confidence: the confidence level of the intervals in figures.
        """
        for adapter in self._own_adapters:
            self._log_numbers(adapter, validation, step)
        adapters = [*self._trainer_adapters, *self._own_adapters]
        if has_charts and adapters:
            layout = lay_out_charts(validation)
            for adapter in adapters:
                self._attempt("The charts cannot be shown in {}", adapter, lambda adapter: adapter.show_charts(layout))
        for loader, samples_of_loader in zip(validation.loaders, samples):
            findings = validation.findings_in(loader.name)
            view = cache(partial(make_view, loader, samples_of_loader, validation.naming, confidence, findings))
            for adapter in adapters:
                if adapter.shows_samples:
                    refusal = "The samples cannot be shown in {}"
                    self._attempt(refusal, adapter, lambda adapter: adapter.show_samples(view(), step))  # noqa: B023

    def _log_numbers(self, adapter: LoggerAdapter, validation: Validation, step: int) -> None:
        """Log the numbers of a validation, without those that the logger refuses."""
        numbers = {validation.naming.shown_as(logged): number.value for logged, number in validation.numbers.items()}
        for name, reason in adapter.find_refused(numbers).items():
            self._warn(reason)
            del numbers[name]
        self._attempt("{} cannot log scores", adapter, lambda adapter: adapter.log_numbers(numbers, step))

    def _attempt(self, refusal: str, adapter: LoggerAdapter, show: Callable[[LoggerAdapter], None]) -> None:
        """Call a logger. If it fails, warn once."""
        refusal = refusal.format(type(adapter.logger).__name__)
        try:
            show(adapter)
        except Exception as error:
            self._warn(f"{refusal}: {type(error).__name__}: {error}", key=refusal)
