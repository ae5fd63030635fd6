"""The loggers that an evaluator can log to, and how each shows numbers, samples, figures, and charts.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a class like
:class:`Comet`, and add it to :data:`LOGGERS`. A logger with methods like those of Lightning's ``WandbLogger`` needs
none.
"""

from __future__ import annotations

import contextlib
import inspect
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import numpy as np

from lightning_bleu.evaluation.names import find_nested
from lightning_bleu.observers.charts import SECTIONS, ScalarChart
from lightning_bleu.observers.loader_view import LoaderView
from lightning_bleu.observers.sample_table import sample_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEP_IN_WANDB = "train/global_step"
"""The name of the step in a run of W&B, as in Trainers of Transformers. The step of W&B itself cannot go back."""


class LoggerAdapter:
    """How to log to a kind of logger. This one logs numbers to a logger of Lightning.

    Attributes:
        kind: what users call loggers of this kind.
        method: a method by which its class is known to be a logger.
        shows_samples: whether it shows samples and figures.
        shows_charts: whether charts must be arranged.
        escapes_labels: whether it refuses some labels of groups.
        logger: the logger itself.
    """

    kind: ClassVar[str] = "loggers of Lightning"
    method: ClassVar[str] = "log_metrics"
    shows_samples: ClassVar[bool] = True
    shows_charts: ClassVar[bool] = False
    escapes_labels: ClassVar[bool] = False

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether a logger is of this kind.

        Args:
            logger: the logger.
            writer: the class of what it writes to. An instance of Lightning's placeholder has every method.
        """
        raise NotImplementedError

    def check_names(self, names: Collection[str]) -> None:
        """Raise a ValueError if numbers with these names cannot be logged together."""

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers by name."""
        self.logger.log_metrics(dict(numbers), step)
        self.logger.save()

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show samples and figures."""

    def show_charts(self, charts: Sequence[ScalarChart]) -> None:
        """Arrange the charts of the scores. Most loggers make a chart of each number."""


_LAYOUTS: WeakKeyDictionary[Any, dict[tuple[str, str], ScalarChart]] = WeakKeyDictionary()
"""The charts of each writer of TensorBoard. They may be those of several evaluators."""


class TensorBoard(LoggerAdapter):
    """A ``SummaryWriter``, or the TensorBoard logger of Lightning.

    It shows tables of the samples with marked words, a histogram of their scores, figures, and a page of charts.
    """

    kind = "SummaryWriters"
    method = "add_scalar"
    shows_charts = True

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it writes text, as a ``SummaryWriter`` does."""
        return hasattr(writer, "add_text")

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log scalars."""
        if hasattr(self.logger, "log_metrics"):
            super().log_numbers(numbers, step)
            return
        for name, value in numbers.items():
            self.logger.add_scalar(name, value, step)
        self.logger.flush()

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show tables on the page Text, figures on Images, and the histogram on Distributions and Histograms."""
        writer = _writer_of(self.logger)
        for panel in view.panels:
            writer.add_text(panel.tag, sample_table(panel.samples, panel.caption, view.digits), step)
        for name, scores in view.histograms.items():
            writer.add_histogram(name, scores[scores.isfinite()], step)  # x/0 is infinite
        for name, figure in view.figures.items():
            writer.add_figure(name, figure, step, close=False)
        writer.flush()  # a SummaryWriter does not do that when Python ends

    def show_charts(self, charts: Sequence[ScalarChart]) -> None:
        """Arrange the charts on the page of custom scalars. TensorBoard uses the last layout of a run."""
        writer = _writer_of(self.logger)
        if not hasattr(writer, "add_custom_scalars"):
            return
        old = _LAYOUTS.get(writer, {})
        new = {(chart.section, chart.title): chart for chart in _in_shown_order(charts)}
        layout = old | new
        if layout != old:
            _LAYOUTS[writer] = layout
            writer.add_custom_scalars(to_custom_scalars(layout.values()))


def _in_shown_order(charts: Sequence[ScalarChart]) -> list[ScalarChart]:
    """TensorBoard shows lines first, and then bands in reverse order."""
    bands = [chart for chart in charts if chart.is_band]
    lines = [chart for chart in charts if not chart.is_band]
    return lines + bands[::-1]


def to_custom_scalars(charts: Iterable[ScalarChart]) -> dict[str, dict[str, list[Any]]]:
    """Charts as ``SummaryWriter.add_custom_scalars`` takes them.

    Example:
        >>> bleu = ScalarChart("Scores", "val_bleu", ("val_bleu", "val_bleu/low", "val_bleu/high"), is_band=True)
        >>> to_custom_scalars([bleu, ScalarChart("Scores", "val_ter", ("val_ter",))])
        {'Scores': {'val_bleu': ['Margin', ['val_bleu', 'val_bleu/low', 'val_bleu/high']], \
'val_ter': ['Multiline', ['^val_ter$']]}}
    """
    layout: dict[str, dict[str, list[Any]]] = {}
    for chart in sorted(charts, key=lambda chart: SECTIONS.index(chart.section)):
        content: list[Any] = ["Margin", list(chart.names)]
        if not chart.is_band:
            # The names of lines are regular expressions that must match from the start.
            content = ["Multiline", [f"^{re.escape(name)}$" for name in chart.names]]
        layout.setdefault(chart.section, {})[chart.title] = content
    return layout


class LikeWandb(LoggerAdapter):
    """A logger with methods like those of Lightning's ``WandbLogger``: a table of the samples, and figures."""

    _METHODS: ClassVar = {
        "log_image": ["images"],
        "log_text": ["columns", "data"],
        "log_table": ["columns", "data"],
    }
    """Methods, and the arguments that they take by name, beside ``key`` and ``step``."""

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it has a method for tables or images."""
        return bool(LikeWandb._find_methods(logger))

    @staticmethod
    def _find_methods(logger: Any) -> dict[str, Callable[..., None]]:
        """The methods by the first argument of what they show: ``"images"``, and ``"columns"`` for a table."""
        methods = {}
        for name, parameters in LikeWandb._METHODS.items():
            arguments = dict.fromkeys(["key", "step", *parameters])
            with contextlib.suppress(AttributeError, TypeError, ValueError):
                inspect.signature(getattr(type(logger), name)).bind(logger, **arguments)
                methods[parameters[0]] = getattr(logger, name)
        return methods

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show figures, and a table, if the logger has methods for them."""
        methods = self._find_methods(self.logger)
        if "images" in methods:
            for name, figure in view.figures.items():
                methods["images"](key=name, images=[_draw(figure)], step=step)
        if "columns" in methods:
            columns, rows = view.table(step)
            methods["columns"](key=view.panels[0].tag, columns=columns, data=rows, step=step)


class WandbRun(LoggerAdapter):
    """A run of W&B itself: a table of the samples, and figures."""

    kind = "runs of W&B"
    method = "define_metric"

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it has a method that only runs have."""
        return hasattr(type(logger), WandbRun.method)

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers by name, with the step beside them."""
        self.logger.log({**numbers, _STEP_IN_WANDB: step})

    def show_samples(self, view: LoaderView, step: int) -> None:
        """Show a table and figures."""
        import wandb

        columns, rows = view.table(step)
        panels: dict[str, Any] = {view.panels[0].tag: wandb.Table([*columns], rows)}
        for name, figure in view.figures.items():
            panels[name] = wandb.Image(figure)
        panels[_STEP_IN_WANDB] = step
        self.logger.log(panels)


_MAX_METRIC_OF_MLFLOW = 250
_SERVICES_OF_MLFLOW = ("", "databricks", "databricks-uc", "uc")
"""Tracking URIs of MLflow that look like paths."""


class MLflow(LoggerAdapter):
    """The MLflow logger of Lightning: a table of the samples of all validations, which needs pandas, and figures."""

    escapes_labels = True

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it writes tables to a run."""
        return hasattr(writer, "log_table") and hasattr(logger, "run_id")

    def check_names(self, names: Collection[str]) -> None:
        """Raise a ValueError if MLflow refuses a name, or stores two of them as one.

        Also if the store consists of files, and one of the names is a folder of another one. In such a store, a metric
        is a file with the path of its name. A server does not tell what its store is.
        """
        _check_metrics_of_mlflow(names)
        nested = find_nested(names)
        uri = str(getattr(self.logger.experiment, "tracking_uri", ""))
        if nested is not None and _is_file_store(uri):
            folder, name = nested
            raise ValueError(
                f"{type(self.logger).__name__} writes each metric to a file in {uri!r}, so it cannot log both "
                f'{folder!r} and {name!r}: set separator="_", or use a database, such as '
                'tracking_uri="sqlite:///mlflow.db"'
            )

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


def _check_metrics_of_mlflow(names: Collection[str]) -> None:
    """Raise a ValueError for names that MLflow refuses, or that the logger of Lightning makes equal.

    The logger removes characters that MLflow does not allow.
    """
    names_by_stored: dict[str, str] = {}
    for name in names:
        stored = re.sub(r"[^\w/. -]", "", name, flags=re.ASCII)
        is_path = posixpath.normpath(stored) == stored and not stored.startswith(("/", ".."))
        if not is_path or len(stored) > _MAX_METRIC_OF_MLFLOW:
            raise ValueError(
                f"MLflow cannot take the name {name!r}: it keeps ASCII letters, digits, and the characters '_', '-', "
                f"'.', ' ', and '/', at most {_MAX_METRIC_OF_MLFLOW}, and nothing between slashes may be empty, '.', "
                "or '..'. Rename the metric or the loader"
            )
        other = names_by_stored.setdefault(stored, name)
        if other != name:
            raise ValueError(
                f"MLflow would store {other!r} and {name!r} as one metric, {stored!r}, because it keeps only ASCII "
                "letters, digits, and the characters '_', '-', '.', ' ', and '/': rename one of them"
            )


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

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it writes tables to an experiment."""
        return hasattr(writer, "log_table") and hasattr(writer, "set_step")

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

    @staticmethod
    def fits(logger: Any, writer: type) -> bool:
        """Whether it logs numbers."""
        return hasattr(type(logger), NumbersOnly.method)


LOGGERS: tuple[type[LoggerAdapter], ...] = (TensorBoard, LikeWandb, WandbRun, MLflow, Comet, NumbersOnly)
"""The kinds of loggers. The first one that fits is taken."""


def check_loggers(loggers: Sequence[Any]) -> None:
    """Raise a TypeError for anything that is not a logger, and a ValueError for one that is listed twice.

    None of them is opened.
    """
    methods = {adapter.method for adapter in LOGGERS}
    for logger in loggers:
        if not any(hasattr(type(logger), method) for method in methods):
            kinds = list(dict.fromkeys(adapter.kind for adapter in LOGGERS))
            raise TypeError(
                f"'loggers' must be a list of {', '.join(kinds[:-1])}, or {kinds[-1]}, got {logger!r} of type "
                f"{type(logger).__name__}"
            )
        if sum(logger is other for other in loggers) > 1:
            raise ValueError(f"'loggers' has {logger!r} twice, so it would get every number twice: list it once")


def adapt(logger: Any) -> LoggerAdapter:
    """The adapter of a logger. This opens the logger."""
    writer = type(_writer_of(logger))
    for adapter in LOGGERS:
        if adapter.fits(logger, writer):
            return adapter(logger)
    return NumbersOnly(logger)


def _writer_of(logger: Any) -> Any:
    """What a logger of Lightning writes to, or else the logger itself."""
    return getattr(logger, "experiment", logger)


def _draw(figure: Figure) -> np.ndarray[Any, Any]:
    """The pixels of a figure, of shape ``(height, width, 4)``."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
