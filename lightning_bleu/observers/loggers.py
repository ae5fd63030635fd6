"""The loggers that an evaluator can log to, and how each shows numbers, samples, figures, and charts.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a class like
:class:`Comet`, and add it to :func:`adapt`. A logger with methods like those of Lightning's ``WandbLogger`` needs
none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import numpy as np

from lightning_bleu.core.messages import wrong_type
from lightning_bleu.observers.loader_view import LoaderView
from lightning_bleu.observers.tensorboard import Layout, sample_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEP_IN_WANDB = "train/global_step"
"""The name of the step in a run of W&B, as in Trainers of Transformers. The step of W&B itself cannot go back."""


class LoggerAdapter:
    """How to log to a kind of logger. This one logs numbers to a logger of Lightning.

    Attributes:
        shows_samples: whether it shows samples and figures.
        logger: the logger itself.
    """

    shows_samples: ClassVar[bool] = True

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def describe_limitation(self) -> str:
        """A sentence about numbers that it cannot take together; empty for most loggers."""
        return ""

    def find_refused(self, names: Iterable[str]) -> dict[str, str]:
        """The names of numbers that it refuses, each with the reason."""
        return {}

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers by name."""
        self.logger.log_metrics(dict(numbers), step)
        self.logger.save()

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show samples and figures."""

    def show_charts(self, layout: Layout) -> None:
        """Arrange the charts of the scores. Most loggers make a chart of each number."""


_LAYOUTS: WeakKeyDictionary[Any, Layout] = WeakKeyDictionary()
"""The charts of each writer of TensorBoard. They may be those of several evaluators."""


class TensorBoard(LoggerAdapter):
    """A ``SummaryWriter``, or the TensorBoard logger of Lightning.

    It shows tables of the samples with marked words, figures, and a page of charts.
    """

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log scalars."""
        if hasattr(self.logger, "log_metrics"):
            super().log_numbers(numbers, step)
            return
        for name, value in numbers.items():
            self.logger.add_scalar(name, value, step)
        self.logger.flush()

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show tables on the page Text, and figures on Images."""
        writer = _writer_of(self.logger)
        for panel in view.panels:
            writer.add_text(panel.tag, sample_table(panel.samples, panel.caption, view.digits), step)
        for name, figure in view.figures.items():
            writer.add_figure(name, figure, step, close=False)
        writer.flush()  # a SummaryWriter does not do that when Python ends

    def show_charts(self, layout: Layout) -> None:
        """Arrange the charts on the page of custom scalars. TensorBoard uses the last layout of a run."""
        writer = _writer_of(self.logger)
        old = _LAYOUTS.get(writer, {})
        sections = dict.fromkeys([*old, *layout])
        new = {section: {**old.get(section, {}), **layout.get(section, {})} for section in sections}
        if new != old and hasattr(writer, "add_custom_scalars"):
            _LAYOUTS[writer] = new
            writer.add_custom_scalars(new)


class LikeWandb(LoggerAdapter):
    """A logger with methods like those of Lightning's ``WandbLogger``: a table of the samples, and figures."""

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show figures, and a table, if it has methods for them."""
        if hasattr(self.logger, "log_image"):
            for name, figure in view.figures.items():
                self.logger.log_image(key=name, images=[_draw(figure)], step=step)
        if hasattr(self.logger, "log_table"):
            columns, rows = view.table(step)
            self.logger.log_table(key=view.panels[0].tag, columns=columns, data=rows, step=step)


_LAST_ROWS: WeakKeyDictionary[Any, tuple[int, int, bool]] = WeakKeyDictionary()
"""For each run of W&B: its step after the last validation, the step of that validation, and whether its row is
complete."""


class WandbRun(LoggerAdapter):
    """A run of W&B itself: a table of the samples, and figures.

    W&B drops what is logged for a step below that of the run. So if the user has logged since the last validation,
    a validation adds to the row of the user, and does not complete it. Another validation of the same step adds to the
    same row.
    """

    def _log(self, values: Mapping[str, Any], step: int) -> None:
        row, last_step, is_complete = _LAST_ROWS.get(self.logger, (-1, step, True))
        if self.logger.step != row:  # the user has logged
            is_complete = False
        elif not is_complete and step != last_step:
            self.logger.log({}, commit=True)  # else the numbers of the last validation would be replaced
            is_complete = True
        self.logger.log({**values, _STEP_IN_WANDB: step}, commit=is_complete)
        _LAST_ROWS[self.logger] = self.logger.step, step, is_complete

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers by name, with the step beside them."""
        self._log(numbers, step)

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show a table and figures."""
        import wandb

        columns, rows = view.table(step)
        panels: dict[str, Any] = {view.panels[0].tag: wandb.Table([*columns], rows)}
        for name, figure in view.figures.items():
            panels[name] = wandb.Image(figure)
        self._log(panels, step)


_MAX_METRIC_OF_MLFLOW = 250
_NAMES_OF_MLFLOW = (
    f"It keeps ASCII letters, digits, and the characters '_', '-', '.', ' ', and '/', at most {_MAX_METRIC_OF_MLFLOW}, "
    "and nothing between slashes may be empty, '.', or '..': rename the metric, the loader, or the group"
)
_SERVICES_OF_MLFLOW = ("", "databricks", "databricks-uc", "uc")
"""Tracking URIs of MLflow that look like paths."""


class MLflow(LoggerAdapter):
    """The MLflow logger of Lightning: a table of the samples of all validations, which needs pandas, and figures."""

    def describe_limitation(self) -> str:
        """A sentence about a store of files, in which a number is a file with the path of its name."""
        uri = str(getattr(self.logger.experiment, "tracking_uri", ""))
        if not _is_file_store(uri):
            return ""
        return (
            f"{type(self.logger).__name__} writes each number to a file in {uri!r}, so it cannot log both 'val_bleu' "
            "and 'val_bleu/low': use a database, such as tracking_uri=\"sqlite:///mlflow.db\""
        )

    def find_refused(self, names: Iterable[str]) -> dict[str, str]:
        """Names that MLflow refuses, and names that the logger of Lightning makes equal to an earlier one.

        The logger removes characters that MLflow does not allow.
        """
        refused = {}
        names_by_stored: dict[str, str] = {}
        for name in names:
            stored = re.sub(r"[^\w/. -]", "", name, flags=re.ASCII)
            other = names_by_stored.setdefault(stored, name)
            is_path = posixpath.normpath(stored) == stored and not stored.startswith(("/", ".."))
            if not is_path or len(stored) > _MAX_METRIC_OF_MLFLOW:
                refused[name] = f"MLflow cannot take the name {name!r}. {_NAMES_OF_MLFLOW}"
            elif other != name:
                clash = f"MLflow would store {other!r} and {name!r} as one number, {stored!r}"
                refused[name] = f"{clash}. {_NAMES_OF_MLFLOW}"
        return refused

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show figures and a table."""
        client, run_id = self.logger.experiment, self.logger.run_id
        for name, figure in view.figures.items():
            client.log_image(run_id, _draw(figure), key=self._allowed(name), step=step)
        import pandas  # type: ignore[import-untyped]

        columns, rows = view.table(step)
        # Without a dtype, MLflow relies on a conversion that pandas 3 warns about.
        table = pandas.DataFrame(rows, columns=columns, dtype=object)
        client.log_table(run_id, table, f"{self._allowed(view.panels[0].tag)}.json")

    @staticmethod
    def _allowed(name: str) -> str:
        """A name with only the characters that MLflow allows."""
        return re.sub(r"[^\w./ -]", "_", name, flags=re.ASCII)


def _is_file_store(uri: str) -> bool:
    """Whether a tracking URI of MLflow is a local path, so that metrics are files.

    Example:
        >>> _is_file_store("./mlruns"), _is_file_store("file:///mlruns"), _is_file_store("sqlite:///mlflow.db")
        (True, True, False)
    """
    scheme = urlsplit(uri).scheme
    has_drive = len(scheme) == 1  # of Windows
    return uri not in _SERVICES_OF_MLFLOW and (has_drive or scheme in ("", "file"))


class Comet(LoggerAdapter):
    """The Comet logger of Lightning: a table of the samples, and figures."""

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show a table and figures."""
        experiment = self.logger.experiment
        experiment.set_step(step)  # log_table takes no step; it uses the current one
        columns, rows = view.table(step)
        experiment.log_table(f"{view.panels[0].tag}.csv", rows, headers=columns)
        for name, figure in view.figures.items():
            experiment.log_figure(name, figure, step=step)


class NumbersOnly(LoggerAdapter):
    """Any other logger of Lightning."""

    shows_samples = False


def check_loggers(loggers: Sequence[Any]) -> None:
    """Raise a TypeError for anything that is not a logger, and a ValueError for one that is listed twice.

    None of them is opened.
    """
    for logger in loggers:
        if not any(hasattr(type(logger), method) for method in ("log_metrics", "add_scalar", "define_metric")):
            raise wrong_type("loggers", "a list of SummaryWriters, loggers of Lightning, or runs of W&B", logger)
        if sum(logger is other for other in loggers) > 1:
            raise ValueError(f"'loggers' has {logger!r} twice, so it would get every number twice: list it once")


def adapt(logger: Any) -> LoggerAdapter:
    """The adapter of a logger, which is known by its methods. This opens the logger."""
    # The methods of classes: an instance of Lightning's placeholder has every method.
    logger_class, writer_class = type(logger), type(_writer_of(logger))
    if hasattr(writer_class, "add_text"):
        return TensorBoard(logger)
    if hasattr(logger_class, "log_image") or hasattr(logger_class, "log_table"):
        return LikeWandb(logger)
    if hasattr(logger_class, "define_metric"):
        return WandbRun(logger)
    if hasattr(writer_class, "log_table") and hasattr(logger, "run_id"):
        return MLflow(logger)
    if hasattr(writer_class, "log_table") and hasattr(writer_class, "set_step"):
        return Comet(logger)
    return NumbersOnly(logger)


def _writer_of(logger: Any) -> Any:
    """What a logger of Lightning writes to, or else the logger itself."""
    return getattr(logger, "experiment", logger)


def _draw(figure: Figure) -> np.ndarray[Any, Any]:
    """The pixels of a figure, of shape ``(height, width, 4)``."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
