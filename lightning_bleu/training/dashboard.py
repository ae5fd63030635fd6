"""What a validation looks like, and how each logger shows it: charts of the scores, sample sentences, and figures.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a subclass of
:class:`Display`, and add it to :func:`find_displays`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lightning_bleu.messages import warn_user
from lightning_bleu.scoring.bleu import BLEUScore
from lightning_bleu.settings.bleu import BLEUSettings
from lightning_bleu.training.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.training.markdown import sample_table
from lightning_bleu.training.samples import Sample, find_worst, make_samples, score_sentences
from lightning_bleu.training.sentences import Sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CATEGORIES = ("BLEU", "Beside BLEU", "Comparison with the best", "BLEU: precisions and lengths")
"""The categories of charts, in order."""
Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Categories of charts, as ``SummaryWriter.add_custom_scalars`` takes them."""


class View:
    """What loggers show of one evaluation. Collective.

    Each process reads the texts of its own sentences. Only process 0 can show them.

    Args:
        report: the score.
        sentences: the sentences; there must be at least one.
        settings: the settings of the metric.
        samples: how many sentences to show, both of the first and of the worst.
        confidence: the confidence level of the intervals; None for no intervals.

    Attributes:
        report: the score.
        scores: the sentence BLEU of all sentences, in percent.
    """

    def __init__(
        self,
        report: BLEUScore,
        sentences: Sentences,
        settings: BLEUSettings,
        samples: int,
        confidence: float | None = None,
    ) -> None:
        self.report = report
        self.scores = score_sentences(sentences.statistics, settings)
        self._statistics = sentences.statistics
        self._settings = settings
        self._confidence = confidence
        first = sentences.readable[:samples]
        candidates = sentences.statistics[sentences.readable]
        worst = [sentences.readable[number] for number in find_worst(candidates, settings, samples)]
        self._shown = {"first": first, "worst": worst}
        self._texts = dict(zip([*first, *worst], sentences.read([*first, *worst])))

    @cached_property
    def first(self) -> list[Sample]:
        """The first sentences of the dataset, which are the same in each validation."""
        return self._samples("first")

    @cached_property
    def worst(self) -> list[Sample]:
        """The sentences with the worst translations, the worst first."""
        return self._samples("worst")

    def _samples(self, which: str) -> list[Sample]:
        numbers = self._shown[which]
        return make_samples([self._texts[number] for number in numbers], numbers, self.scores, self._settings)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures by name, drawn when they are first needed; none without matplotlib."""
        if not is_installed("matplotlib"):
            return {}
        return {
            "by_length": bleu_by_length_figure(self._statistics, self._settings, self._confidence),
            "lengths": length_scatter_figure(self._statistics),
        }


def lay_out_charts(
    orders: Mapping[str, int], *, mean: str | None, confidence: bool = False, compare_to_best: bool = False
) -> Layout:
    """Lay out the charts of TensorBoard's page of custom scalars.

    Args:
        orders: the ``max_order`` of each score, by its logged name.
        mean: the logged name of the mean of the scores, if there is one.
        confidence: whether there are confidence intervals, to be drawn as bands.
        compare_to_best: whether there is a comparison with the best validation so far.

    Example:
        >>> layout = lay_out_charts({"val_bleu": 2}, mean=None, confidence=True, compare_to_best=True)
        >>> layout["BLEU"]
        {'val_bleu': ['Margin', ['val_bleu', 'val_bleu/low', 'val_bleu/high']]}
        >>> list(layout["Comparison with the best"])
        ['val_bleu, and the best so far', 'val_bleu: p-value of the difference']
        >>> list(layout["BLEU: precisions and lengths"])
        ['val_bleu: precisions (1 at the top to 2)', 'val_bleu: length ratio and brevity penalty']
    """
    titles = _titles(orders, mean)
    parts = {}
    for tag, order in orders.items():
        precisions = f"{tag}: precisions (1 at the top to {order})" if order > 1 else f"{tag}: precision"
        parts[precisions] = _lines(f"{tag}/precision_{n}" for n in range(1, order + 1))
        parts[f"{tag}: length ratio and brevity penalty"] = _lines([f"{tag}/length_ratio", f"{tag}/brevity_penalty"])
    comparisons = {CATEGORIES[2]: _comparison_charts(titles)} if compare_to_best else {}
    return {CATEGORIES[0]: _score_charts(titles, confidence), **comparisons, CATEGORIES[3]: parts}


def lay_out_other(
    tag: str, loaders: Sequence[str], *, has_parts: bool, confidence: bool = False, compare_to_best: bool = False
) -> Layout:
    """Lay out the charts of another metric.

    Args:
        tag: the logged name of the score of the stage.
        loaders: the names of the loaders, if they have names.
        has_parts: whether all that is logged below a score may be a part of it, such as ``val_rouge/rouge1_fmeasure``.
        confidence: whether there are confidence intervals.
        compare_to_best: whether there is a comparison with the best validation so far.

    Example:
        >>> lay_out_other("val_chrf", [], has_parts=False)["Beside BLEU"]
        {'val_chrf': ['Multiline', ['^val_chrf$']]}
    """
    titles = _titles([f"{tag}/{name}" for name in loaders] or [tag], tag if loaders else None)
    charts = _score_charts(titles, confidence)
    if has_parts:
        own = f"(?!/({'|'.join(map(re.escape, loaders))})(/|$))" if loaders else ""  # not the scores of loaders
        charts = {
            title: ["Multiline", [f"^{re.escape(one)}{own if one == tag else ''}(/.*)?$"]]
            for title, one in titles.items()
        }
    comparisons = {CATEGORIES[2]: _comparison_charts(titles)} if compare_to_best else {}
    return {CATEGORIES[1]: charts, **comparisons}


def _titles(tags: Iterable[str], mean: str | None) -> dict[str, str]:
    """The titles of the charts of scores, each with the logged name of its score; first that of their mean."""
    return ({} if mean is None else {f"{mean}: mean of all": mean}) | {tag: tag for tag in tags}


def _score_charts(titles: Mapping[str, str], confidence: bool) -> dict[str, list[Any]]:
    """A chart of each score: a band or a line."""
    if confidence:  # TensorBoard shows bands in reverse order.
        return {title: ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] for title, tag in reversed([*titles.items()])}
    return {title: _lines([tag]) for title, tag in titles.items()}


def _comparison_charts(titles: Mapping[str, str]) -> dict[str, list[Any]]:
    """A chart of each score with the best so far, and one of the p-value."""
    charts = {}
    for title, tag in titles.items():
        charts[f"{title}, and the best so far"] = _lines([tag, f"{tag}/best"])
        charts[f"{title}: p-value of the difference"] = _lines([f"{tag}/p_value"])
    return charts


def _lines(tags: Iterable[str]) -> list[Any]:
    # Tags are regular expressions that must match from the start.
    return ["Multiline", [f"^{re.escape(tag)}$" for tag in tags]]


COLUMNS = ["step", "number", "shown as", "BLEU", "source", "hypothesis", "references", "signature"]
"""The columns of the tables that all loggers but TensorBoard get."""


class Display:
    """Shows validations in one logger.

    Args:
        logger: the logger of a Lightning trainer.

    Attributes:
        packages: the packages that it needs, and what for.
    """

    packages: Mapping[str, str] = {"matplotlib": "Figures"}

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores. Most loggers leave this to the browser."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation.

        Args:
            tag: the logged name of the score.
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
        except Exception as error:  # whatever the logger raises is not a reason to stop training
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


def missing_packages(loggers: Sequence[Any], displays: Iterable[Display]) -> Iterator[str]:
    """Warn about samples and figures that cannot be logged.

    Args:
        loggers: the loggers of a trainer.
        displays: their displays; see :func:`find_displays`.
    """
    needed = {package: use for display in displays for package, use in display.packages.items()}
    if loggers and not needed:  # without tensorboard, Lightning's default logger is one that can show nothing
        needed = {"tensorboard": "Samples and figures"}
    for package, use in needed.items():
        if not is_installed(package):
            yield f"{use} cannot be logged, because {package} is not installed: pip install {package}."


class TensorBoard(Display):
    """Sample tables, figures, a histogram of sentence BLEU, and charts on the page of custom scalars."""

    def lay_out(self, layout: Layout) -> None:
        """Arrange the charts of scores. The last layout written in a run is the one that TensorBoard uses."""
        writer = self._logger.experiment
        if hasattr(writer, "add_custom_scalars"):
            writer.add_custom_scalars(layout)

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        writer = self._logger.experiment
        caption = f"{view.report}\n{view.report.signature}"
        writer.add_text(f"{tag}/samples", sample_table(view.first, f"The first sentences. {caption}"), step)
        writer.add_text(f"{tag}/worst", sample_table(view.worst, f"The worst sentences. {caption}"), step)
        writer.add_histogram(f"{tag}/sentence_bleu", view.scores, step)
        for name, figure in view.figures.items():
            writer.add_figure(f"{tag}/{name}", figure, step, close=False)


class Wandb(Display):
    """A table of the samples, and figures."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        self._logger.log_table(f"{tag}/samples", columns=COLUMNS, data=table_rows(view, step), step=step)
        for name, figure in view.figures.items():
            self._logger.log_image(f"{tag}/{name}", images=[figure], step=step)


class MLflow(Display):
    """A table of the samples of all validations, and figures."""

    packages: Mapping[str, str] = {**Display.packages, "pandas": "Sample tables in MLflow"}

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        client, run_id = self._logger.experiment, self._logger.run_id
        tag = re.sub(r"[^\w./ -]", "_", tag, flags=re.ASCII)  # the only characters that MLflow allows
        if is_installed("pandas"):  # log_table needs it, too
            import pandas  # type: ignore[import-untyped]

            # Without a dtype, MLflow relies on a conversion that pandas 3 warns about.
            table = pandas.DataFrame(table_rows(view, step), columns=COLUMNS, dtype=object)
            client.log_table(run_id, table, f"{tag}/samples.json")
        for name, figure in view.figures.items():
            figure.canvas.draw()
            pixels = np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
            client.log_image(run_id, pixels, key=f"{tag}/{name}", step=step)


class Comet(Display):
    """A table of the samples, and figures."""

    def show(self, tag: str, view: View, step: int) -> None:
        """Show one validation; see :class:`Display`."""
        experiment = self._logger.experiment
        experiment.set_step(step)  # log_table takes no step; it uses the current one
        experiment.log_table(f"{tag}/samples.csv", table_rows(view, step), headers=COLUMNS)
        for name, figure in view.figures.items():
            experiment.log_figure(f"{tag}/{name}", figure, step=step)


def table_rows(view: View, step: int) -> list[list[Any]]:
    """The samples as rows of plain values; see :data:`COLUMNS`."""
    shown = [("first", sample) for sample in view.first] + [("worst", sample) for sample in view.worst]
    return [
        [
            step,
            number,
            shown_as,
            bleu,
            _without_surrogates(source or ""),
            _without_surrogates(hypothesis.text),
            _without_surrogates("\n".join(reference.text for reference in references)),
            view.report.signature,
        ]
        for shown_as, (number, bleu, hypothesis, references, source) in shown
    ]


def _without_surrogates(text: str) -> str:
    """The text with lone surrogates, which cannot be encoded, replaced by question marks."""
    return text.encode(errors="replace").decode()


def is_installed(package: str) -> bool:
    """Whether a package can be imported.

    Example:
        >>> is_installed("torch"), is_installed("tourch")
        (True, False)
    """
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # the module is present in sys.modules without a spec
        return False
