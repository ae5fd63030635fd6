"""What a validation looks like, and how each logger shows it: charts of the scores, sample sentences, and figures.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a subclass of
:class:`Display`, and add it to :func:`find_displays`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import Tensor

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.messages import warn_user
from lightning_bleu.training.best import Corpus
from lightning_bleu.training.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.training.metrics import Counted, Result
from lightning_bleu.training.samples import Sample, find_worst, make_samples, sample_table
from lightning_bleu.training.sentences import Table
from lightning_bleu.training.validation import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CATEGORIES = ("Scores", "Comparison with the best", "Parts")
"""The categories of charts, in order."""
Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Categories of charts, as ``SummaryWriter.add_custom_scalars`` takes them."""


class View:
    """What loggers show of the sentences of one label. Collective.

    Each process reads the texts of its own sentences. Only process 0 can show them.

    The first metric that scores sentences ranks them. The figures are those of the first BLEU, which has lengths.

    Args:
        evaluation: the label and its metrics.
        table: the sentences; there must be at least one.
        corpora: the statistics of the sentences by the names of the metrics that score sentences.
        results: the results by the names of the metrics.
        tag_of: the logged name of a metric of the stage, by the name of the metric. ``"samples"`` and ``"worst"`` stand
            for the sentences.
        samples: how many sentences to show, both of the first and of the worst.
        confidence: the confidence level of the intervals; None for no intervals.

    Attributes:
        samples_tag: the logged name of the first sentences.
        worst_tag: the logged name of the worst sentences.
        caption: the score of the metric that ranks the sentences, and its signature.
        signature: the signature.
        score_name: the name of the scores of the sentences.
        digits: the number of digits that they are shown with.
        ranking: how the worst sentences are ranked.
        histograms: the scores of all sentences, by the logged name of their histogram.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        table: Table,
        corpora: Mapping[str, Corpus],
        results: Mapping[str, Result],
        tag_of: Callable[[str], str],
        samples: int,
        confidence: float | None = None,
    ) -> None:
        def tag(name: str) -> str:
            return evaluation.tag_below(tag_of(name))

        self.samples_tag, self.worst_tag = tag("samples"), tag("worst")
        self.caption = self.signature = self.ranking = ""
        self.score_name, self.digits = "score", 1
        self.histograms: dict[str, Tensor] = {}
        self._scores: Tensor | None = None
        readable = table.sentences.readable
        self._first, self._worst = readable[:samples], []
        for name, (_, statistics, scoring, _) in [*corpora.items()][:1]:
            self.signature = getattr(results[name].report, "signature", "")
            self.caption = f" {results[name].report}\n{self.signature}".rstrip()
            self.score_name, self.digits = scoring.name, 4 if scoring.percent is None else 1
            self._scores = scoring.score_sentences(statistics) * (100 if scoring.percent is False else 1)
            self.histograms = {f"{tag(name)}/sentence_{name.rpartition('/')[-1]}": self._scores}
            self.ranking = " for their length, by smoothed BLEU" if scoring.rank_sentences else f", by {scoring.name}"
            self._worst = [readable[number] for number in find_worst(statistics[readable], scoring, samples)]
        numbers = [*self._first, *self._worst]
        self._texts = dict(zip(numbers, table.sentences.read(numbers)))
        settings = {name: one.metric.settings for name, one in evaluation.metrics.items() if isinstance(one, Counted)}
        bleu = {name: one for name, one in settings.items() if isinstance(one, BLEUSettings)}
        self._settings = next(iter(bleu.values()), BLEUSettings.from_options())
        self._lengths = [(tag(name), table.statistics(name)) for name in bleu][:1]
        self._confidence = confidence

    @cached_property
    def first(self) -> list[Sample]:
        """The first sentences of the dataset, which are the same in each validation."""
        return self._samples(self._first)

    @cached_property
    def worst(self) -> list[Sample]:
        """The sentences with the worst translations, the worst first; none without a metric that scores sentences."""
        return self._samples(self._worst)

    def _samples(self, numbers: Sequence[int]) -> list[Sample]:
        return make_samples([self._texts[number] for number in numbers], numbers, self._scores, self._settings)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures by logged name, drawn when they are first needed."""
        figures = {}
        for tag, statistics in self._lengths:
            figures[f"{tag}/by_length"] = bleu_by_length_figure(statistics, self._settings, self._confidence)
            figures[f"{tag}/lengths"] = length_scatter_figure(statistics)
        return figures


def lay_out_charts(results: Mapping[str, Result], means: Collection[str] = ()) -> Layout:
    """Lay out the charts of TensorBoard's page of custom scalars.

    Args:
        results: the results of a validation, by logged name.
        means: the logged names of those that are means of others.

    Example:
        >>> from lightning_bleu.scoring.resampling import Interval
        >>> bleu = Result({"": 0.5}, interval=Interval(0.5, 0.4, 0.6, 0.95, ()), best=0.5)
        >>> layout = lay_out_charts({"val_bleu": bleu, "val_rouge": Result({"rouge1": 0.1, "rouge2": 0.2})})
        >>> layout["Scores"]["val_bleu"]
        ['Margin', ['val_bleu', 'val_bleu/low', 'val_bleu/high']]
        >>> layout["Scores"]["val_rouge"]
        ['Multiline', ['^val_rouge/rouge1$', '^val_rouge/rouge2$']]
        >>> list(layout["Comparison with the best"])
        ['val_bleu, and the best so far', 'val_bleu: p-value of the difference']
    """
    lines: dict[str, list[Any]] = {}
    bands: dict[str, list[Any]] = {}
    comparisons: dict[str, list[Any]] = {}
    parts: dict[str, list[Any]] = {}
    for tag, result in sorted(results.items(), key=lambda item: item[0] not in means):  # means first
        title = f"{tag}: mean of all" if tag in means else tag
        if result.interval is None:
            lines[title] = _lines(f"{tag}/{part}" if part else tag for part in result.scores)
        else:
            bands[title] = ["Margin", [tag, f"{tag}/low", f"{tag}/high"]]
        if result.best is not None:
            comparisons[f"{title}, and the best so far"] = _lines([tag, f"{tag}/best"])
            comparisons[f"{title}: p-value of the difference"] = _lines([f"{tag}/p_value"])
        for chart, names in {} if result.report is None else result.report.charts().items():
            parts[f"{tag}: {chart}"] = _lines(f"{tag}/{name}" for name in names)
    scores = lines | dict(reversed(bands.items()))  # TensorBoard shows lines, and then bands in reverse order
    return {category: charts for category, charts in zip(CATEGORIES, (scores, comparisons, parts)) if charts}


def merge_layouts(layouts: Iterable[Layout]) -> Layout:
    """All charts of several layouts, by category.

    Example:
        >>> merge_layouts([{"Parts": {"a": [1]}}, {"Scores": {"b": [2]}, "Parts": {"c": [3]}}])
        {'Scores': {'b': [2]}, 'Parts': {'a': [1], 'c': [3]}}
    """
    merged: Layout = {category: {} for category in CATEGORIES}
    for category, charts in chain.from_iterable(layout.items() for layout in layouts):
        merged[category] |= charts
    return {category: charts for category, charts in merged.items() if charts}


def _lines(tags: Iterable[str]) -> list[Any]:
    # Tags are regular expressions that must match from the start.
    return ["Multiline", [f"^{re.escape(tag)}$" for tag in tags]]


class Display:
    """Shows validations in one logger.

    Args:
        logger: the logger of a Lightning trainer.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores. Most loggers leave this to the browser."""

    def show(self, view: View, step: int) -> None:
        """Show one validation.

        Args:
            view: what to show.
            step: the training step.
        """
        raise NotImplementedError


def find_displays(loggers: Iterable[Any]) -> list[Display]:
    """The displays of the loggers that can show more than numbers."""
    displays: list[Display] = []
    for logger in loggers:
        # Look at the class: an instance of Lightning's placeholder logger has every method.
        try:
            experiment = getattr(logger, "experiment", None)
        except Exception as error:  # a failing logger must not stop training
            warn_user(f"{type(logger).__name__} cannot show samples: {type(error).__name__}: {error}")
            continue
        if hasattr(type(logger), "log_table"):
            displays.append(Wandb(logger))
        elif hasattr(type(experiment), "add_text"):
            displays.append(TensorBoard(logger))
        elif hasattr(type(experiment), "log_table") and hasattr(logger, "run_id"):
            displays.append(MLflow(logger))
        elif hasattr(type(experiment), "log_table") and hasattr(type(experiment), "set_step"):
            displays.append(Comet(logger))
    return displays


class TensorBoard(Display):
    """Sample tables, figures, a histogram of sentence BLEU, and charts on the page of custom scalars."""

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores. The last layout written in a run is the one that TensorBoard uses."""
        writer = self._logger.experiment
        if hasattr(writer, "add_custom_scalars"):
            writer.add_custom_scalars(layout)

    def show(self, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        writer = self._logger.experiment
        shown = partial(sample_table, score_name=view.score_name, digits=view.digits)
        writer.add_text(view.samples_tag, shown(view.first, f"The first sentences.{view.caption}"), step)
        if view.worst:
            worst = shown(view.worst, f"The worst sentences{view.ranking}.{view.caption}")
            writer.add_text(view.worst_tag, worst, step)
        for tag, scores in view.histograms.items():
            writer.add_histogram(tag, scores, step)
        for tag, figure in view.figures.items():
            writer.add_figure(tag, figure, step, close=False)


class Wandb(Display):
    """A table of the samples, and figures."""

    def show(self, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        columns, rows = sample_rows(view, step)
        self._logger.log_table(view.samples_tag, columns=columns, data=rows, step=step)
        for tag, figure in view.figures.items():
            self._logger.log_image(tag, images=[figure], step=step)


class MLflow(Display):
    """A table of the samples of all validations, and figures. MLflow needs pandas for the table."""

    def show(self, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        client, run_id = self._logger.experiment, self._logger.run_id
        for tag, figure in view.figures.items():
            figure.canvas.draw()
            pixels = np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
            client.log_image(run_id, pixels, key=_for_mlflow(tag), step=step)
        import pandas  # type: ignore[import-untyped]

        columns, rows = sample_rows(view, step)
        # Without a dtype, MLflow relies on a conversion that pandas 3 warns about.
        table = pandas.DataFrame(rows, columns=columns, dtype=object)
        client.log_table(run_id, table, f"{_for_mlflow(view.samples_tag)}.json")


def _for_mlflow(tag: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w./ -]", "_", tag, flags=re.ASCII)


class Comet(Display):
    """A table of the samples, and figures."""

    def show(self, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        experiment = self._logger.experiment
        experiment.set_step(step)  # log_table takes no step; it uses the current one
        columns, rows = sample_rows(view, step)
        experiment.log_table(f"{view.samples_tag}.csv", rows, headers=columns)
        for tag, figure in view.figures.items():
            experiment.log_figure(tag, figure, step=step)


def sample_rows(view: View, step: int) -> tuple[list[str], list[list[Any]]]:
    """The samples as a table of plain values, for all loggers but TensorBoard: its columns, and its rows."""
    columns = ["step", "number", "shown as", view.score_name, "source", "hypothesis", "references", "signature"]
    shown = [("first", sample) for sample in view.first] + [("worst", sample) for sample in view.worst]
    return columns, [
        [
            step,
            number,
            shown_as,
            score,
            _without_surrogates(source or ""),
            _without_surrogates(hypothesis.text),
            _without_surrogates("\n".join(reference.text for reference in references)),
            view.signature,
        ]
        for shown_as, (number, score, hypothesis, references, source) in shown
    ]


def _without_surrogates(text: str) -> str:
    """The text with lone surrogates, which cannot be encoded, replaced by question marks."""
    return text.encode(errors="replace").decode()
