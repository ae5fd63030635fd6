"""What a validation looks like, and how each logger shows it: charts of the scores, sample sentences, and figures.

Loggers are recognized by their methods, so that none of their packages is imported. To add one, write a function like
:func:`show_in_comet`, and add it to :func:`find_displays`. A logger with methods like those of Lightning's
``WandbLogger`` needs none.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.messages import WarnOnce
from lightning_bleu.training.figures import bleu_by_length_figure, length_scatter_figure
from lightning_bleu.training.metrics import Counted, Result
from lightning_bleu.training.samples import Sample, find_worst, make_samples, sample_table
from lightning_bleu.training.sentences import Sentence
from lightning_bleu.training.validation import Naming, Subset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPARISONS = {"best": "Comparison with the best", "first": "Comparison with the first"}
_SCORES, _PARTS = "Scores", "Parts"
_CATEGORIES = [_SCORES, *_COMPARISONS.values(), _PARTS]
"""The categories of charts, in order."""
_STEP_IN_WANDB = "train/global_step"
"""The name of the step in a run of W&B, as in Trainers of Transformers. The step of W&B itself cannot go back."""
Charts: TypeAlias = dict[tuple[str, str], list[Any]]
"""Charts by category and title, each as ``SummaryWriter.add_custom_scalars`` takes it."""


class Panel(NamedTuple):
    """Sentences that are shown together.

    Attributes:
        tag: their logged name.
        kind: ``"first"`` or ``"worst"``.
        caption: what they are, with the score and the signature of the metric that ranks them.
        samples: the sentences.
    """

    tag: str
    kind: str
    caption: str
    samples: Sequence[Sample]


class View(NamedTuple):
    """What loggers show of the sentences of one subset.

    Attributes:
        panels: the first sentences of the dataset, which are the same in each validation; and the sentences with the
            worst translations, the worst first, if a metric scores sentences.
        digits: the number of digits of each score of a sentence, by the name of the metric.
        signature: the signature of the metric that ranks them.
        histograms: the scores of all sentences, by the logged name of their histogram.
        figures: the figures by logged name.
    """

    panels: list[Panel]
    digits: Mapping[str, int]
    signature: str
    histograms: Mapping[str, Tensor]
    figures: Mapping[str, Figure]


def choose_sentences(subset: Subset, count: int) -> tuple[dict[int, Sentence], dict[int, Sentence]]:
    """The first sentences and the worst, by their numbers, for the first metric that scores sentences. Collective.

    Args:
        subset: the scored sentences.
        count: how many sentences to choose, both of the first and of the worst.

    Returns:
        the texts in process 0; empty dicts in the others.
    """
    readable = subset.sentences.readable
    first, worst = readable[:count], []
    if corpus := next(iter(subset.corpora.values()), None):
        worst = [readable[number] for number in find_worst(corpus.statistics[readable], corpus.scoring, count)]
    texts = subset.sentences.read([*first, *worst])
    return dict(zip(first, texts)), dict(zip(worst, texts[len(first) :]))


def make_view(
    subset: Subset,
    first: Mapping[int, Sentence],
    worst: Mapping[int, Sentence],
    naming: Naming,
    confidence: float | None = None,
) -> View:
    """What loggers show of the sentences of one subset. The figures are those of the first BLEU, which has lengths.

    Args:
        subset: the scored sentences, at least one.
        first, worst: the sentences to show; see :func:`choose_sentences`.
        naming: the logged names.
        confidence: the confidence level of the intervals; None for no intervals.
    """

    def tag(name: str) -> str:
        return naming.shown_as(subset.tag_below(naming.tag(name)))

    caption = order = signature = ""
    corpora, histograms = subset.corpora, {}
    digits = {name: 4 if corpus.scoring.percent is None else 1 for name, corpus in corpora.items()}
    scores = {
        name: scoring.score_sentences(statistics) * (100 if scoring.percent is False else 1)
        for name, (_, statistics, scoring, _) in corpora.items()
    }
    if corpora:  # the first metric ranks the sentences
        name = next(iter(corpora))
        scoring, report = corpora[name].scoring, subset.scored[name].result.report
        signature = getattr(report, "signature", "")
        caption = f" {report}\n{signature}".rstrip()
        order = " for their length, by smoothed BLEU" if scoring.rank_sentences else f", by {scoring.name}"
        histograms = {f"{tag(name)}/sentence_{name.rpartition('/')[-1]}": scores[name]}
    settings, figures = BLEUSettings.from_options(), {}  # settings of a BLEU, if there is one, say how to tokenize
    counted = {name: one.metric.settings for name, one in subset.metrics.items() if isinstance(one, Counted)}
    if bleu := {name: one for name, one in counted.items() if isinstance(one, BLEUSettings)}:
        name, settings = next(iter(bleu.items()))
        rows = subset.sentences.statistics(name)
        figures[f"{tag(name)}/by_length"] = bleu_by_length_figure(rows, settings, confidence)
        figures[f"{tag(name)}/lengths"] = length_scatter_figure(rows)
    make = partial(make_samples, scores=scores.values(), settings=settings)
    panels = [Panel(tag("samples"), "first", f"The first sentences.{caption}", make(first))]
    if worst:
        panels.append(Panel(tag("worst"), "worst", f"The worst sentences{order}.{caption}", make(worst)))
    return View(panels, digits, signature, histograms, figures)


def lay_out_charts(results: Mapping[str, Result], means: Collection[str] = (), naming: Naming | None = None) -> Charts:
    """Lay out the charts of TensorBoard's page of custom scalars.

    Args:
        results: the results of a validation, by logged name.
        means: the logged names of those that are means of others.
        naming: the logged names.

    Example:
        >>> from lightning_bleu.scoring.resampling import Interval, PairedTest
        >>> interval, test = Interval(0.5, 0.4, 0.6, 0.95, ()), PairedTest("paired bootstrap", 0.5, 0.4, 0.01, 1000)
        >>> bleu = Result({"": 0.5}, interval=interval, comparison=test, best=0.5)
        >>> charts = lay_out_charts({"val_bleu": bleu, "val_rouge": Result({"rouge1": 0.1, "rouge2": 0.2})})
        >>> charts["Scores", "val_bleu"]
        ['Margin', ['val_bleu', 'val_bleu/low', 'val_bleu/high']]
        >>> charts["Scores", "val_rouge"]
        ['Multiline', ['^val_rouge/rouge1$', '^val_rouge/rouge2$']]
        >>> charts["Comparison with the best", "val_bleu"]
        ['Margin', ['val_bleu/difference', 'val_bleu/difference_low', 'val_bleu/difference_high']]
    """
    naming = naming or Naming()
    charts: Charts = {}
    bands: Charts = {}
    for logged, result in sorted(results.items(), key=lambda item: item[0] not in means):  # means first
        tag = naming.shown_as(logged)
        title = "{}: mean of all" if logged in means else "{}"
        if result.interval is None:
            charts[_SCORES, title.format(tag)] = _lines(naming.join(tag, part) for part in result.scores)
        for part, one in result.split().items():
            join = partial(naming.join, score := naming.join(tag, part))
            if one.interval is not None:
                bands[_SCORES, title.format(score)] = ["Margin", [score, join("low"), join("high")]]
            if one.comparison is not None:
                ends = [join("difference_low"), join("difference_high")]
                category = _COMPARISONS["best" if one.first is None else "first"]
                bands[category, title.format(score)] = ["Margin", [join("difference"), *ends]]
        for chart, names in {} if result.report is None else result.report.charts().items():
            if parts := [naming.join(tag, name) for name in names if name in result.parts]:
                charts[_PARTS, f"{tag}: {chart}"] = _lines(parts)
    return charts | dict(reversed(bands.items()))  # TensorBoard shows lines, and then bands in reverse order


def _lines(tags: Iterable[str]) -> list[Any]:
    # Tags are regular expressions that must match from the start.
    return ["Multiline", [f"^{re.escape(tag)}$" for tag in tags]]


class Display(NamedTuple):
    """A logger that can show more than numbers.

    Attributes:
        logger: a logger of Lightning, a ``SummaryWriter``, or a run of W&B.
        show: shows a view in the logger, at a training step.
    """

    logger: Any
    show: Callable[[Any, View, int], None]


def find_displays(loggers: Iterable[Any], say: WarnOnce | None = None) -> list[Display]:
    """The loggers that can show more than numbers.

    Args:
        loggers: the loggers.
        say: warns about one that fails, and tells which ones get numbers only.
    """
    displays, say = [], say or WarnOnce()
    for logger in loggers:
        name = type(logger).__name__
        try:
            # Look at the class: an instance of Lightning's placeholder logger has every method.
            writer = type(_writer_of(logger))
        except Exception as error:  # a failing logger must not stop training
            say(f"{name} cannot show samples: {type(error).__name__}: {error}")
            continue
        ways = {
            show_in_tensorboard: hasattr(writer, "add_text"),
            show_by_methods: bool(find_methods(logger)),
            show_in_wandb: hasattr(type(logger), "define_metric"),
            show_in_mlflow: hasattr(writer, "log_table") and hasattr(logger, "run_id"),
            show_in_comet: hasattr(writer, "log_table") and hasattr(writer, "set_step"),
        }
        if show := next((show for show, fits in ways.items() if fits), None):
            displays.append(Display(logger, show))
        else:
            from pytorch_lightning.utilities.rank_zero import rank_zero_info  # type: ignore[attr-defined]

            say(f"{name} gets numbers only: it has no method that shows tables, text, or images.", warn=rank_zero_info)
    return displays


def _writer_of(logger: Any) -> Any:
    """What a logger of Lightning writes to, or else the logger itself."""
    return getattr(logger, "experiment", logger)


_LAYOUTS: WeakKeyDictionary[Any, Charts] = WeakKeyDictionary()
"""The charts of each writer. They may be those of several evaluators."""


def show_charts(logger: Any, charts: Charts) -> None:
    """Arrange the charts of scores in TensorBoard, which uses the last layout of a run. Other loggers need none."""
    writer = _writer_of(logger)
    if hasattr(writer, "add_custom_scalars") and (charts := (old := _LAYOUTS.get(writer, {})) | charts) != old:
        _LAYOUTS[writer] = charts
        layout: dict[str, dict[str, list[Any]]] = {}
        for category, title in sorted(charts, key=lambda key: _CATEGORIES.index(key[0])):
            layout.setdefault(category, {})[title] = charts[category, title]
        writer.add_custom_scalars(layout)


def log_numbers(logger: Any, numbers: Mapping[str, float], step: int) -> None:
    """Log numbers in a logger of Lightning, a ``SummaryWriter``, or a run of W&B."""
    if hasattr(logger, "log_metrics"):
        logger.log_metrics(dict(numbers), step)
        logger.save()
    elif hasattr(logger, "add_scalar"):
        for tag, value in numbers.items():
            logger.add_scalar(tag, value, step)
        logger.flush()
    else:
        logger.log({**numbers, _STEP_IN_WANDB: step})


def show_in_tensorboard(logger: Any, view: View, step: int) -> None:
    """Tables of the samples with marked words, a histogram of their scores, and figures."""
    writer = _writer_of(logger)
    for panel in view.panels:
        writer.add_text(panel.tag, sample_table(panel.samples, panel.caption, view.digits), step)
    for tag, scores in view.histograms.items():
        writer.add_histogram(tag, scores[scores.isfinite()], step)  # x/0 is infinite
    for tag, figure in view.figures.items():
        writer.add_figure(tag, figure, step, close=False)
    writer.flush()  # a SummaryWriter does not do that when Python ends


_METHODS = {"log_image": ["images"], "log_text": ["columns", "data"], "log_table": ["columns", "data"]}
"""Methods of a logger, and the arguments that they take by name, beside ``key`` and ``step``."""


def find_methods(logger: Any) -> dict[str, Callable[..., None]]:
    """The methods that a logger has in common with Lightning's ``WandbLogger``, by what they show."""
    found = {}
    for name, parameters in _METHODS.items():
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            inspect.signature(getattr(type(logger), name)).bind(logger, **dict.fromkeys(["key", "step", *parameters]))
            found[parameters[0]] = getattr(logger, name)
    return found


def show_by_methods(logger: Any, view: View, step: int) -> None:
    """A table of the samples, and figures, if the logger has methods for them."""
    methods = find_methods(logger)
    for tag, figure in view.figures.items() if "images" in methods else ():
        methods["images"](key=tag, images=[_draw(figure)], step=step)
    if "columns" in methods:
        columns, rows = sample_rows(view, step)
        methods["columns"](key=view.panels[0].tag, columns=columns, data=rows, step=step)


def show_in_wandb(run: Any, view: View, step: int) -> None:
    """A table of the samples, and figures, in a run of W&B itself."""
    import wandb

    columns, rows = sample_rows(view, step)
    shown = {tag: wandb.Image(figure) for tag, figure in view.figures.items()}
    run.log({view.panels[0].tag: wandb.Table([*columns], rows), **shown, _STEP_IN_WANDB: step})


def show_in_mlflow(logger: Any, view: View, step: int) -> None:
    """A table of the samples of all validations, which needs pandas, and figures."""
    client, run_id = logger.experiment, logger.run_id
    for tag, figure in view.figures.items():
        client.log_image(run_id, _draw(figure), key=_for_mlflow(tag), step=step)
    import pandas  # type: ignore[import-untyped]

    columns, rows = sample_rows(view, step)
    # Without a dtype, MLflow relies on a conversion that pandas 3 warns about.
    table = pandas.DataFrame(rows, columns=columns, dtype=object)
    client.log_table(run_id, table, f"{_for_mlflow(view.panels[0].tag)}.json")


def _draw(figure: Figure) -> np.ndarray[Any, Any]:
    """The pixels of a figure, of shape ``(height, width, 4)``."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]


def _for_mlflow(tag: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w./ -]", "_", tag, flags=re.ASCII)


def show_in_comet(logger: Any, view: View, step: int) -> None:
    """A table of the samples, and figures."""
    logger.experiment.set_step(step)  # log_table takes no step; it uses the current one
    columns, rows = sample_rows(view, step)
    logger.experiment.log_table(f"{view.panels[0].tag}.csv", rows, headers=columns)
    for tag, figure in view.figures.items():
        logger.experiment.log_figure(tag, figure, step=step)


def sample_rows(view: View, step: int) -> tuple[list[str], list[list[Any]]]:
    """The samples as a table of plain values, for all loggers but TensorBoard: its columns, and its rows."""
    columns = ["step", "number", "shown as", *view.digits, "source", "hypothesis", "references", "signature"]
    rows = []
    for panel in view.panels:
        for number, scores, hypothesis, references, source in panel.samples:
            texts = [source or "", hypothesis.text, "\n".join(reference.text for reference in references)]
            texts = [text.encode(errors="replace").decode() for text in texts]  # lone surrogates cannot be encoded
            rows.append([step, number, panel.kind, *scores, *texts, view.signature])
    return columns, rows
