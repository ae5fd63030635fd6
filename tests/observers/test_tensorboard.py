"""Charts: which there are, and how TensorBoard arranges them."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import Mock, call

import pytest
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.evaluation.input.outputs import Output
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.scores.validation import Validation
from lightning_bleu.hugging_face.mixin import TrainerNaming
from lightning_bleu.observers import dashboard
from lightning_bleu.observers.dashboard import Dashboard
from lightning_bleu.observers.loader_view import make_view
from lightning_bleu.observers.loggers import adapt
from lightning_bleu.observers.tensorboard import Layout, lay_out_charts
from lightning_bleu.tasks import ROUGE
from tests.helpers.validations import begin, score_started
from tests.helpers.views import HYPOTHESES, REFERENCES, samples_of


class Writer:
    """What TensorBoard gets, as its ``SummaryWriter`` does."""

    def __init__(self) -> None:
        self.layouts: list[Layout] = []

    def add_custom_scalars(self, layout: Layout) -> None:
        self.layouts.append(layout)

    def add_text(self, *args: Any, **options: Any) -> None: ...

    add_scalar = add_figure = flush = add_text


class Numbers:
    """A logger that gets numbers only."""

    def log_metrics(self, numbers: Any, step: int) -> None: ...

    def save(self) -> None: ...


class Tables(Numbers):
    """A logger that shows samples, but arranges no charts."""

    def log_table(self, key: str, columns: Any, data: Any, step: int) -> None: ...


def validate(
    metrics: Any = None,
    names: tuple[str, ...] = ("",),
    *,
    naming: Naming | None = None,
    group: Any = None,
    **options: Any,
) -> Validation:
    """A validation with the lines in each loader."""
    evaluator = Evaluator(metrics, **options)
    started = begin(evaluator, names, naming=naming)
    for number in range(len(names)):
        started.collector.update(Output(HYPOTHESES, REFERENCES, group=group), dataloader_idx=number)
    return score_started(evaluator, started)


def test_a_score_is_a_line_or_with_its_interval_a_band() -> None:
    assert lay_out_charts(validate(CorpusCHRF())) == {"Scores": {"val_chrf": ["Multiline", ["^val_chrf$"]]}}
    band = ["Margin", ["val_chrf", "val_chrf/low", "val_chrf/high"]]
    assert lay_out_charts(validate(CorpusCHRF(), confidence=0.95)) == {"Scores": {"val_chrf": band}}


def test_the_difference_from_the_best_is_a_band() -> None:
    layout = lay_out_charts(validate(CorpusCHRF(), compare_to="best"))
    names = ["val_chrf/difference", "val_chrf/difference_low", "val_chrf/difference_high"]
    assert layout["Against the best before"] == {"val_chrf": ["Margin", names]}


@pytest.mark.parametrize(
    ("parts", "charted"),
    [
        (False, []),
        (["precision_1", "length_ratio", "bleu_2"], ["precision_1", "length_ratio", "bleu_2"]),
        (True, ["precision_1", "precision_2", "length_ratio", "brevity_penalty"]),
    ],
)
def test_every_component_that_is_logged_is_in_one_chart_of_its_score(parts: Any, charted: list[str]) -> None:
    layout = lay_out_charts(validate(CorpusBLEU(max_order=2), parts=parts))
    names = [name for _, lines in layout.get("Parts", {}).values() for name in lines]
    assert sorted(names) == sorted(f"^val_bleu/{name}$" for name in charted)


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_charts_are_shown_in_the_order_of_the_labels_and_those_of_means_come_first(confidence: float | None) -> None:
    """TensorBoard shows bands in reverse order."""
    layout = lay_out_charts(validate(CorpusCHRF(), ("news", "talks"), confidence=confidence))
    expected = ["val_chrf: mean of 2 loaders", "val_chrf/news", "val_chrf/talks"]
    assert [*layout["Scores"]] == (expected[::-1] if confidence else expected)


def test_groups_have_no_charts_and_their_mean_neither() -> None:
    layout = lay_out_charts(validate(CorpusCHRF(), group=["a", "b", "a", "b", "b"]))
    assert [*layout["Scores"]] == ["val_chrf"]


def test_charts_of_all_metrics_show_what_is_logged() -> None:
    metrics = {"bleu": CorpusBLEU(), "ter": TER(), "terse": TER(), "rouge": ROUGE(["rouge1", "rougeL"])}
    options: dict[str, Any] = {"parts": True, "confidence": 0.95, "compare_to": "best"}
    validation = validate(metrics, ("news", "talks (TED)"), **options)
    layout = lay_out_charts(validation)
    assert [*layout] == ["Scores", "Against the best before", "Parts"]
    for category, charts in layout.items():
        for title, (kind, patterns) in charts.items():
            matches = str.__eq__ if kind == "Margin" else re.match
            for pattern in patterns:
                assert len([name for name in validation.numbers if matches(pattern, name)]) == 1, (category, title)
    shown = {title.partition(":")[0] for title in layout["Scores"]}
    assert shown == {logged for logged, (name, _) in validation.numbers.items() if not name.detail}


def test_a_name_is_no_pattern() -> None:
    layout = lay_out_charts(validate({"a+": CorpusCHRF()}))
    assert layout == {"Scores": {"val_a+": ["Multiline", ["^val_a\\+$"]]}}


def test_charts_have_the_names_that_loggers_show() -> None:
    naming = TrainerNaming("eval", "{stage}_{metric}", "_")
    layout = lay_out_charts(validate(CorpusCHRF(), ("news", "talks"), naming=naming, confidence=0.95))
    names = ["eval/chrf_news", "eval/chrf_news_low", "eval/chrf_news_high"]
    assert layout["Scores"]["eval/chrf_news"] == ["Margin", names]


def test_a_writer_gets_a_layout_when_it_changes_with_the_charts_of_all_evaluators() -> None:
    writer = Writer()
    bleu, chrf = (lay_out_charts(validate(metric)) for metric in (CorpusBLEU(), CorpusCHRF()))
    for layout in (bleu, bleu, chrf, bleu, chrf):
        adapt(writer).show_charts(layout)
    assert [[*layout["Scores"]] for layout in writer.layouts] == [["val_bleu"], ["val_bleu", "val_chrf"]]
    other = Writer()
    adapt(other).show_charts(chrf)
    assert other.layouts == [chrf]


@pytest.mark.parametrize("of_trainer", [False, True])
def test_charts_and_views_are_made_once_and_views_only_for_a_logger_that_shows_them(
    of_trainer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out, make = Mock(side_effect=lay_out_charts), Mock(side_effect=make_view)
    monkeypatch.setattr(dashboard, "lay_out_charts", lay_out)
    monkeypatch.setattr(dashboard, "make_view", make)
    validation = validate()
    samples = [samples_of(validation.loaders[0], 1)]
    loggers: list[Any]
    for loggers, views in (([Numbers()], 0), ([Tables()], 1), ([Tables(), Writer(), Numbers(), Writer()], 1)):
        lay_out.reset_mock()
        make.reset_mock()
        opened = Dashboard(WarnOnce())
        opened.open(*((loggers, []) if of_trainer else ([], loggers)))
        opened.show(validation, samples, 5, has_charts=True)
        assert lay_out.call_args_list == [call(validation)]
        assert make.call_count == views
    opened = Dashboard(WarnOnce())
    opened.open([Writer()])
    opened.show(validation, [], 5, has_charts=False)  # samples=0, of a test
    assert (lay_out.call_count, make.call_count) == (1, 1)
