"""Charts: which there are, and how TensorBoard arranges them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, call

import pytest

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.evaluation.loaders import CALL
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.outputs import Output
from lightning_bleu.evaluation.validation import Validation
from lightning_bleu.hugging_face.mixin import TrainerNaming
from lightning_bleu.observers import dashboard
from lightning_bleu.observers.charts import ScalarChart, lay_out_charts
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.loader_view import make_view
from lightning_bleu.observers.loggers import adapt, to_custom_scalars
from tests.helpers.views import HYPOTHESES, REFERENCES, samples_of


class Writer:
    """What TensorBoard gets, as its ``SummaryWriter`` does."""

    def __init__(self) -> None:
        self.layouts: list[dict[str, dict[str, list[Any]]]] = []

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        self.layouts.append(layout)

    def add_text(self, *args: Any) -> None: ...

    add_scalar = add_histogram = flush = add_text

    def add_figure(self, *args: Any, **options: Any) -> None: ...


class Numbers:
    """A logger that gets numbers only."""

    def log_metrics(self, numbers: Any, step: int) -> None: ...

    def save(self) -> None: ...


class Tables(Numbers):
    """A logger that shows samples, but arranges no charts."""

    def log_table(self, key: str, columns: Any, data: Any, step: int) -> None: ...


def shares(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
    """Two scores of each sentence."""
    return {"half": [0.5] * len(hypotheses), "third": [1 / 3] * len(hypotheses)}


def validate(
    metrics: Any = None, names: tuple[str, ...] = ("",), *, naming: Naming | None = None, **options: Any
) -> Validation:
    """A validation with the lines in each loader."""
    evaluator = Evaluator(metrics, **options)
    started = evaluator.begin("val", names, [], CALL, naming=naming)
    for number in range(len(names)):
        started.collector.update(Output(HYPOTHESES, REFERENCES), dataloader_idx=number)
    return evaluator.score(started)


def test_scores_of_a_metric_share_a_chart_and_each_interval_is_a_band() -> None:
    without, with_intervals = (
        [chart for chart in lay_out_charts(validate({"f": shares}, confidence=one)) if chart.section == "Scores"]
        for one in (None, 0.95)
    )
    assert without == [ScalarChart("Scores", "val_f", ("val_f/half", "val_f/third"))]
    assert with_intervals == [
        ScalarChart("Scores", tag, (tag, f"{tag}/low", f"{tag}/high"), is_band=True)
        for tag in ("val_f/half", "val_f/third")
    ]


@pytest.mark.parametrize("kind", ["best", "first", "clear_best"])
def test_the_difference_is_a_band_in_the_section_of_its_comparison(kind: Any) -> None:
    charts = lay_out_charts(validate(CorpusCHRF(), compare_to=kind))
    names = ("val_chrf/difference", "val_chrf/difference_low", "val_chrf/difference_high")
    assert charts == [
        ScalarChart("Scores", "val_chrf", ("val_chrf",)),
        ScalarChart(f"Comparison with the {kind.replace('_', ' ')}", "val_chrf", names, is_band=True),
    ]


def test_every_component_that_is_logged_is_in_one_chart_of_its_score_and_no_other_is() -> None:
    for parts in (True, ["precision_1", "length_ratio", "bleu_2"], False):
        validation = validate(CorpusBLEU(max_order=2), parts=parts)
        components = [one for one in validation.results["val_bleu"].components if one.chart]
        charts = [chart for chart in lay_out_charts(validation) if chart.section == "Parts"]
        assert sorted(name for chart in charts for name in chart.names) == sorted(
            f"val_bleu/{one.name}" for one in components
        )
        assert {chart.title for chart in charts} == {f"val_bleu: {one.chart}" for one in components}
        assert bool(charts) == bool(parts)


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_charts_are_in_the_order_of_the_labels_and_those_of_means_come_first(confidence: float | None) -> None:
    charts = lay_out_charts(validate(CorpusCHRF(), ("news", "talks"), confidence=confidence))
    assert [chart.title for chart in charts] == ["val_chrf: mean of 2 loaders", "val_chrf/news", "val_chrf/talks"]


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_bands_are_in_the_order_of_the_labels_for_tensorboard(confidence: float | None) -> None:
    """It shows bands in reverse order."""
    writer = Writer()
    charts = lay_out_charts(validate(CorpusCHRF(), ("news", "talks"), confidence=confidence))
    adapt(writer).show_charts(charts)
    (layout,) = writer.layouts
    expected = ["val_chrf: mean of 2 loaders", "val_chrf/news", "val_chrf/talks"]
    assert [*layout["Scores"]] == (expected[::-1] if confidence else expected)


def test_groups_have_no_charts_and_their_mean_neither() -> None:
    evaluator = Evaluator(CorpusCHRF(), confidence=0.95)
    started = evaluator.begin("val", [""], [], CALL)
    started.collector.update(Output(HYPOTHESES, REFERENCES, group=["a", "b", "a", "b", "b"]))
    assert [chart.title for chart in lay_out_charts(evaluator.score(started))] == ["val_chrf"]


def test_a_name_is_no_pattern() -> None:
    charts = lay_out_charts(validate({"a+": CorpusCHRF()}))
    assert to_custom_scalars(charts) == {"Scores": {"val_a+": ["Multiline", ["^val_a\\+$"]]}}


def test_charts_have_the_names_that_loggers_show() -> None:
    naming = TrainerNaming("eval", "{stage}_{metric}", "_")
    charts = lay_out_charts(validate(CorpusCHRF(), ("news", "talks"), naming=naming, confidence=0.95))
    assert charts[1] == ScalarChart(
        "Scores", "eval/chrf_news", ("eval/chrf_news", "eval/chrf_news_low", "eval/chrf_news_high"), is_band=True
    )


@pytest.mark.parametrize("separator", ["/", "_", "::"])
def test_charts_have_the_names_that_are_logged(separator: str) -> None:
    naming = Naming(separator=separator)
    validation = validate(CorpusCHRF(), ("news", "talks"), naming=naming, confidence=0.95)
    charts = lay_out_charts(validation)
    news = f"val_chrf{separator}news"
    assert charts[1] == ScalarChart(
        "Scores", news, (news, f"{news}{separator}low", f"{news}{separator}high"), is_band=True
    )
    assert {name for chart in charts for name in chart.names} <= validation.numbers.keys()
    view = make_view(validation.loaders[0], samples_of(validation.loaders[0], 1), naming)
    assert view.panels[0].tag == "val_samples/news"


def test_with_more_than_20_loaders_only_the_mean_has_a_chart() -> None:
    for loaders, titles in ((20, 21), (21, 1)):
        charts = lay_out_charts(validate(CorpusCHRF(), tuple(f"n{number}" for number in range(loaders))))
        assert len(charts) == titles
        assert charts[0].title == f"val_chrf: mean of {loaders} loaders"


def test_a_writer_gets_a_layout_when_it_changes_with_the_charts_of_all_evaluators() -> None:
    writer = Writer()
    bleu, chrf = (lay_out_charts(validate(metric)) for metric in (CorpusBLEU(), CorpusCHRF()))
    for charts in (bleu, bleu, chrf, bleu, chrf):
        adapt(writer).show_charts(charts)
    assert [[*layout["Scores"]] for layout in writer.layouts] == [["val_bleu"], ["val_bleu", "val_chrf"]]
    other = Writer()
    adapt(other).show_charts(chrf)
    assert [[*layout["Scores"]] for layout in other.layouts] == [["val_chrf"]]


@pytest.mark.parametrize(
    ("loggers", "times"),
    [
        ([], 0),
        ([Numbers()], 0),
        ([Tables()], 0),
        ([Writer()], 1),
        ([Tables(), Writer(), Numbers(), Writer()], 1),
    ],
)
@pytest.mark.parametrize("of_trainer", [False, True])
def test_charts_are_laid_out_once_and_only_when_a_logger_shows_charts(
    loggers: list[Any], times: int, of_trainer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out = Mock(side_effect=lay_out_charts)
    monkeypatch.setattr(dashboard, "lay_out_charts", lay_out)
    validation = validate()
    given = (loggers, []) if of_trainer else ([], loggers)
    shown = Dashboard(*given, warn=WarnOnce())
    shown.log_numbers({"val_bleu": 0.5}, 5)
    shown.show_charts(validation)
    shown.show_samples(validation, [samples_of(validation.loaders[0], 1)], 5)
    assert lay_out.call_args_list == [call(validation)] * times


def test_a_view_is_made_once_and_only_when_a_logger_shows_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Mock(side_effect=make_view)
    monkeypatch.setattr(dashboard, "make_view", make)
    validation = validate()
    for loggers, samples, times in (
        ([Numbers()], [samples_of(validation.loaders[0], 8)], 0),
        ([Writer()], [], 0),  # samples=0
        ([Writer(), Tables(), Writer()], [samples_of(validation.loaders[0], 8)], 1),
    ):
        make.reset_mock()
        Dashboard([], loggers, WarnOnce()).show_samples(validation, samples, 5)
        assert make.call_count == times
