"""How each logger shows a validation.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a class with the
methods of :class:`Display`, and add it to :func:`find_displays`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from lightning_bleu.training.dashboard import Layout, View
from lightning_bleu.training.markdown import sample_table
from lightning_bleu.training.mistakes import is_installed
from lightning_bleu.training.samples import Sample

COLUMNS = ["step", "number", "shown as", "BLEU", "source", "hypothesis", "references"]
"""The columns of tables in W&B and MLflow."""


class Display(Protocol):
    """Shows validations in one logger."""

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores, if the logger supports it."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation.

        Args:
            tag: the logged name of the score.
            view: what to show.
            step: the training step.
        """


def find_displays(loggers: Iterable[Any]) -> list[Display]:
    """The displays of the loggers that can show more than numbers."""
    displays: list[Display] = []
    for logger in loggers:
        # The class is asked, because Lightning's placeholder for a logger accepts any method.
        experiment = getattr(logger, "experiment", None)
        if hasattr(type(logger), "log_table"):
            displays.append(Wandb(logger))
        elif hasattr(type(experiment), "add_text"):
            displays.append(TensorBoard(experiment))
        elif hasattr(type(experiment), "log_table") and hasattr(logger, "run_id"):
            displays.append(MLflow(experiment, logger.run_id))
    return displays


class TensorBoard:
    """Sample tables, figures, a histogram of sentence BLEU, and charts on the page of custom scalars.

    Args:
        writer: a ``SummaryWriter``.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores. The last layout written in a run is the one that TensorBoard uses."""
        if hasattr(self._writer, "add_custom_scalars"):
            self._writer.add_custom_scalars(layout)

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        for name, samples in {"samples": view.first, "worst": view.worst}.items():
            caption = f"The {'first' if name == 'samples' else 'worst'} sentences. {view.report}"
            self._writer.add_text(f"{tag}/{name}", sample_table(samples, caption), step)
        self._writer.add_histogram(f"{tag}/sentence_bleu", view.scores, step)
        for name, figure in view.figures.items() if is_installed("matplotlib") else ():
            self._writer.add_figure(f"{tag}/{name}", figure, step, close=False)


class Wandb:
    """A table of the samples, and figures.

    Args:
        logger: Lightning's ``WandbLogger``.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def lay_out(self, layout: Layout) -> None:
        """Do nothing: W&B arranges charts in the browser."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        self._logger.log_table(f"{tag}/samples", columns=COLUMNS, data=table_rows(view, step), step=step)
        for name, figure in view.figures.items() if is_installed("matplotlib") else ():
            self._logger.log_image(f"{tag}/{name}", images=[figure], step=step)


class MLflow:
    """A table of the samples of all validations, and figures.

    Args:
        client: an ``MlflowClient``.
        run_id: the id of the run.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id

    def lay_out(self, layout: Layout) -> None:
        """Do nothing: MLflow arranges charts in the browser."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        import pandas  # type: ignore[import-untyped]  # log_table needs it, too

        tag = re.sub(r"[^\w./ -]", "_", tag, flags=re.ASCII)  # the only characters that MLflow allows
        # Without a dtype, MLflow relies on a conversion that pandas 3 warns about.
        table = pandas.DataFrame(table_rows(view, step), columns=COLUMNS, dtype=object)
        self._client.log_table(self._run_id, table, f"{tag}/samples.json")
        for name, figure in view.figures.items() if is_installed("matplotlib") else ():
            figure.canvas.draw()
            pixels = np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
            self._client.log_image(self._run_id, pixels, key=f"{tag}/{name}", step=step)


def table_rows(view: View, step: int) -> list[list[Any]]:
    """The samples as rows of plain values; see :data:`COLUMNS`."""

    def rows(shown_as: str, samples: Iterable[Sample]) -> list[list[Any]]:
        return [
            [
                step,
                sample.number,
                shown_as,
                sample.bleu,
                sample.source or "",
                sample.hypothesis.text,
                "\n".join(reference.text for reference in sample.references),
            ]
            for sample in samples
        ]

    return rows("first", view.first) + rows("worst", view.worst)
