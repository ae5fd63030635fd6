"""Processes agree on the metrics and the options before they count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric
from lightning_bleu.evaluation.input.outputs import Origin
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.tasks import ROUGE
from tests.helpers.callback_metrics import errors, exact, make_metrics
from tests.helpers.process_groups import ProcessPool
from tests.helpers.validations import begin


class Setup(NamedTuple):
    """What a process begins a validation with.

    Attributes:
        metrics: its metrics.
        options: its options.
        loaders: the names of its loaders.
        decoder: what decodes ids.
        has_extract: whether it has a function that finds the sentences.
        stage: what it runs.
    """

    metrics: Any
    options: dict[str, Any] = {}  # noqa: RUF012
    loaders: list[str] = [""]  # noqa: RUF012
    decoder: Callable[..., Any] | None = None
    has_extract: bool = False
    stage: str = "val"


def agree(setup: Setup) -> list[str]:
    """The names of the metrics in the order on which the processes agree."""
    evaluator = Evaluator(setup.metrics, **{**setup.options, "loggers": ()})
    origin = Origin("extract" if setup.has_extract else "validation_step")
    started = begin(evaluator, setup.loaders, stage=setup.stage, decoder=setup.decoder, origin=origin)
    assert all(started.metrics[name] is metric for name, metric in evaluator.metrics.items())
    return [*started.metrics]


def agree_in_process(rank: int, processes: int, cases: list[list[Setup]]) -> list[Any]:
    """The names, or the error, for each case."""
    outcomes: list[Any] = []
    for setups in cases:
        try:
            outcomes.append(agree(setups[rank]))
        except ValueError as error:
            outcomes.append(str(error))
    return outcomes


def decode(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [str(row) for row in rows]


BLEU = Setup(CorpusBLEU())
EQUAL: dict[str, tuple[list[Setup], list[str]]] = {
    "the same": ([BLEU, BLEU], ["bleu"]),
    "another order of only": ([Setup(CorpusBLEU(), {"only": only}) for only in (["a", "b"], ("b", "a"))], ["bleu"]),
    "another order of parts": (
        [Setup(CorpusBLEU(), {"parts": parts}) for parts in (["bleu_1", "bleu_2"], ["bleu_2", "bleu_1"])],
        ["bleu"],
    ),
    "loggers of process 0": ([Setup(CorpusBLEU(), {"loggers": [print]}), BLEU], ["bleu"]),
    "equal decoders": ([Setup(CorpusBLEU(decoder=decode), decoder=decode) for _ in range(2)], ["bleu"]),
    "all kinds of metrics": ([Setup(make_metrics()), Setup(dict(reversed(make_metrics().items())))], [*make_metrics()]),
}
OPTIONS: dict[str, list[Any]] = {
    "log_name": ["{stage}_{metric}", "{stage}/{metric}"],
    "parts": [True, ["bleu_1"]],
    "samples": [8, 0],
    "translations": ["a", "b"],
    "confidence": [None, 0.95],
    "compare_to": ["best", None],
    "only": [["de"], ["de", "fr"]],
}
DIFFERENT: dict[str, tuple[str, list[Setup]]] = {
    "a class": ("metrics", [Setup({"x": CorpusBLEU()}), Setup({"x": CorpusCHRF()})]),
    "a setting": ("metrics", [BLEU, Setup(CorpusBLEU(max_order=2))]),
    "a decoder of a metric": ("metrics", [BLEU, Setup(CorpusBLEU(decoder=decode))]),
    "a function": ("metrics", [Setup({"f": exact}), Setup({"f": errors})]),
    "a direction": ("metrics", [Setup({"f": exact}), Setup({"f": FunctionMetric(exact, higher_is_better=False)})]),
    "the level of the corpus": (
        "metrics",
        [Setup({"f": exact}), Setup({"f": FunctionMetric(exact, corpus_level=True)})],
    ),
    "a stage": ("stage", [BLEU, Setup(CorpusBLEU(), stage="test")]),
    "percent": ("metrics", [Setup({"f": exact}), Setup({"f": FunctionMetric(exact, percent=True)})]),
    "the option of a ready metric": ("metrics", [Setup(ROUGE(["rouge1"])), Setup(ROUGE(["rouge2"]))]),
    "the number of loaders": (
        "names of loaders",
        [Setup(CorpusBLEU(), loaders=["a"]), Setup(CorpusBLEU(), loaders=["a", "b"])],
    ),
    "a decoder": ("decoder", [Setup(CorpusBLEU(), decoder=decode), BLEU]),
    "extract": ("extract", [BLEU, Setup(CorpusBLEU(), has_extract=True)]),
}


for option, values in OPTIONS.items():
    DIFFERENT[f"the option {option}"] = (option, [Setup(CorpusBLEU(), {option: value}) for value in values])


@pytest.mark.parametrize("setups", [setups for setups, _ in EQUAL.values()], ids=EQUAL)
def test_a_process_alone_has_its_own_metrics_in_their_order(setups: list[Setup]) -> None:
    for setup in setups:
        assert agree(setup) == [*read_metrics(setup.metrics)]


@pytest.mark.slow
def test_metrics_have_the_order_of_process_0(pool: ProcessPool) -> None:
    for outcomes in pool.run(2, agree_in_process, [setups for setups, _ in EQUAL.values()]):
        assert outcomes == [names for _, names in EQUAL.values()]


@pytest.mark.slow
def test_anything_else_that_differs_is_an_error_in_all_processes_that_names_it(pool: ProcessPool) -> None:
    first, other = pool.run(2, agree_in_process, [setups for _, setups in DIFFERENT.values()])
    assert first == other
    for name, message in zip(DIFFERENT, first, strict=True):
        option, _ = DIFFERENT[name]
        assert str(message).startswith(f"'{option}' must be the same in all processes, but is "), name


@pytest.mark.slow
def test_the_error_has_both_values_and_the_process_that_differs(pool: ProcessPool) -> None:
    setups = [Setup(CorpusBLEU(), {"samples": samples}) for samples in (8, 8, 3)]
    message = "'samples' must be the same in all processes, but is 8 in process 0, and 3 in process 2"
    assert pool.run(3, agree_in_process, [setups]) == [[message]] * 3
