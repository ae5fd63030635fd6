"""Functions as metrics of BLEUCallback, in real Trainers: scores, intervals, comparisons, samples, files, processes."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from sacrebleu.metrics.ter import TER
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import (
    CharErrorRate,
    EditDistance,
    MatchErrorRate,
    ROUGEScore,
    TranslationEditRate,
    WordErrorRate,
    WordInfoLost,
)

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, sentence_bleu, sentence_chrf
from tests.helpers.functions import (
    Logged,
    checksum,
    errors,
    exact,
    expected_scores,
    group_of,
    is_counted,
    make_bleu_callback,
    references_of,
    return_grouped,
    return_indexed,
    return_masked,
    return_sentences,
    return_single,
    source_of,
    translate,
    try_to,
    value_of,
    values_of,
)
from tests.helpers.lightning import (
    ignore_lightning_warnings,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
    validate,
)
from tests.helpers.process_groups import run_in_processes

pytestmark = ignore_lightning_warnings

ITEMS = [*range(37)]
BLEU = CorpusBLEU(percent=True)
TRAINING = make_loader([torch.zeros(1)] * 2, batch_size=1)


def fit(folder: Path, *callbacks: Any, step: Any = return_sentences, loaders: Any = None, **options: Any) -> Any:
    """A trainer that has validated after each of three epochs, without a sanity check."""
    trainer = make_trainer(folder, *callbacks, **{"num_sanity_val_steps": 0} | options)
    trainer.fit(make_module(step=step), TRAINING, make_loader(ITEMS) if loaders is None else loaders)
    return trainer


def validate_function(folder: Path, function: Any, step: Any = return_sentences, **options: Any) -> dict[str, float]:
    """What a validation logs of a function."""
    logged: dict[str, float] = validate(
        folder, make_bleu_callback(function, **options), step=step, loaders=make_items_loader()
    )
    return logged


def make_items_loader() -> Any:
    return make_loader(ITEMS)


# --- Scores, intervals, and comparisons ---


class Case:
    """A kind of validation: what the step returns, the loaders, and the sentences of each label in order."""

    def __init__(self, step: Any, loaders: Callable[[], Any], labels: dict[str, list[int]], **options: Any) -> None:
        self.step, self.loaders, self.labels, self.options = step, loaders, labels, options


CASES = {
    "plain": Case(return_sentences, make_items_loader, {"": ITEMS}),
    "loaders": Case(
        return_sentences,
        lambda: {"news": make_loader(ITEMS[:20]), "talks": make_loader(ITEMS[20:])},
        {"news": ITEMS[:20], "talks": ITEMS[20:]},
    ),
    "groups": Case(
        return_grouped,
        make_items_loader,
        {name: [item for item in ITEMS if group_of(item) == name] for name in ("even", "odd")},
    ),
    "mask": Case(return_masked, make_items_loader, {"": [item for item in ITEMS if is_counted(item)]}),
    "shuffled": Case(
        return_indexed,
        lambda: make_loader(ITEMS, shuffle=True, generator=torch.Generator().manual_seed(3)),
        {"": ITEMS},
    ),
}


def run_case(name: str, folder: Path, **options: Any) -> list[dict[str, float]]:
    """What each of three validations logs."""
    case, logged = CASES[name], Logged()
    bleu = make_bleu_callback(confidence=0.95, compare_to_best=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*shuffling")  # Lightning's, of a loader for validation
        fit(folder, bleu, logged, step=case.step, loaders=case.loaders(), **options)
    return logged.validations


@pytest.mark.parametrize("name", CASES)
def test_mean_interval_p_value_and_best_are_those_of_plain_code(name: str, tmp_path: Path) -> None:
    logged = run_case(name, tmp_path)

    expected = expected_scores(CASES[name].labels)
    assert [{*one} for one in logged] == [{*one} for one in expected]
    for one, other in zip(logged, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-12)
    assert logged[1]["val_f/p_value"] < 1  # the comparison is one


def run_all_cases(folder: Path, processes: int) -> dict[str, Any]:
    """What this process logs in all cases, one after the other."""
    options = {"strategy": "ddp", "devices": processes} if processes > 1 else {}
    return {name: run_case(name, folder, **options) for name in CASES}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_log_the_same_bits_as_one(processes: int, tmp_path: Path) -> None:
    expected = run_all_cases(tmp_path, 1)

    for logged in run_in_processes(processes, run_all_cases, tmp_path, processes):
        assert logged == expected


def test_results_have_a_report_an_interval_and_a_comparison(tmp_path: Path) -> None:
    bleu = make_bleu_callback(confidence=0.95, compare_to_best=True)

    fit(tmp_path, bleu)

    result, logged = bleu.results["val_f"], expected_scores({"": ITEMS})[-1]
    assert result.score == pytest.approx(logged["val_f"], abs=1e-12)
    assert str(result.report) == f"f = {result.score:.4f}"
    assert result.interval is not None
    assert result.interval.low == pytest.approx(logged["val_f/low"])
    assert result.comparison is not None
    assert result.comparison.p_value == pytest.approx(logged["val_f/p_value"])
    assert result.best == pytest.approx(logged["val_f/best"])


def test_a_function_beside_bleu_changes_nothing_of_bleu(tmp_path: Path) -> None:
    options: dict[str, Any] = {"confidence": 0.95, "compare_to_best": True}
    alone, beside = Logged(), Logged()

    fit(tmp_path, BLEUCallback({"bleu": BLEU}, **options), alone)
    fit(tmp_path, BLEUCallback({"f": checksum, "bleu": BLEU, "exact": exact}, **options), beside)

    assert [{key: one[key] for key in one if "bleu" in key} for one in beside.validations] == alone.validations


def test_each_label_may_have_a_function_of_its_own(tmp_path: Path) -> None:
    bleu = BLEUCallback({"f": {"even": checksum, "odd": exact}})

    logged = validate(tmp_path, bleu, step=return_grouped, loaders=make_items_loader())

    even, odd = (
        [item for item in ITEMS if group_of(item) == "even"],
        [item for item in ITEMS if group_of(item) == "odd"],
    )
    expected = values_of(even, 0).mean(), np.mean([translate(item) in references_of(item) for item in odd])
    assert logged == pytest.approx({"val_f/even": expected[0], "val_f/odd": expected[1], "val_f": np.mean(expected)})


def test_functions_of_a_name_have_one_direction() -> None:
    with pytest.raises(ValueError, match=r"the metrics of 'f' must .*one direction"):
        BLEUCallback({"f": {"even": exact, "odd": errors}})


def test_a_function_is_called_once_for_all_labels_and_never_before_the_validation(tmp_path: Path) -> None:
    calls: list[int] = []

    def count(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        calls.append(len(hypotheses))
        return [0.0] * len(hypotheses)

    bleu = make_bleu_callback(count)
    assert not calls
    validate(tmp_path, bleu, step=return_grouped, loaders=[make_loader(ITEMS), make_loader(ITEMS)])

    assert calls == [2 * len(ITEMS)]


def test_a_function_scores_all_sentences_of_a_large_loader(tmp_path: Path) -> None:
    items = [*range(300)]  # without a logger, texts are kept for metrics alone

    logged = validate(tmp_path, make_bleu_callback(), step=return_sentences, loaders=make_loader(items))

    assert logged["val_f"] == pytest.approx(values_of(items, 0).mean(), abs=1e-12)


def test_an_empty_validation_calls_and_logs_nothing(tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return {"preds": [], "target": [], "source": []}

    def fail(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        raise AssertionError

    assert validate(tmp_path, make_bleu_callback(fail), step=step, loaders=make_items_loader()) == {}


# --- None: no scores this time ---


def test_a_function_may_skip_a_validation(tmp_path: Path) -> None:
    module = make_module(step=return_sentences)

    def odd_epochs(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float] | None:
        return checksum(hypotheses, references, sources) if module.current_epoch % 2 else None

    bleu, logged = BLEUCallback({"f": odd_epochs, "bleu": BLEU}, compare_to_best=True, translations=tmp_path), Logged()
    trainer = make_trainer(tmp_path, bleu, logged, max_epochs=4)  # with the sanity check
    trainer.fit(module, TRAINING, make_items_loader())

    first, second, third, fourth = logged.validations[1:]
    assert not [key for key in first if key.startswith("val_f")]
    assert second["val_f"] == pytest.approx(values_of(ITEMS, 1).mean(), abs=1e-12)
    assert third["val_f"] == second["val_f"]  # Lightning keeps the last value
    assert fourth["val_f"] == pytest.approx(values_of(ITEMS, 3).mean(), abs=1e-12)
    assert fourth["val_f/p_value"] < 1  # compared with the second one
    tables = [(tmp_path / f"val/step-{step:07}.tsv").read_text().split("\n")[0] for step in (2, 4, 6, 8)]
    assert tables == ["bleu", "f\tbleu", "bleu", "f\tbleu"]


def test_a_skipped_function_alone_shows_the_first_sentences_without_scores(tmp_path: Path) -> None:
    trainer = fit(
        tmp_path,
        BLEUCallback({"f": lambda hypotheses, references: None}, translations=True, confidence=0.95),
        logger=TensorBoardLogger(tmp_path),
    )

    assert not {*trainer.callback_metrics}
    assert not [*tmp_path.rglob("*.tsv")]
    assert len([*tmp_path.rglob("step-*.txt")]) == 3


# --- Errors ---


def is_batch_counted(bleu: BLEUCallback) -> bool:
    return bool(bleu._validation and any(one._rows for one in bleu._validation.evaluations.values()))


def return_ids(batch: Any, epoch: int) -> Any:
    return {"preds": [[3, 4, 5]] * len(batch), "target": [[3, 4, 5]] * len(batch)}


def return_source_ids(batch: Any, epoch: int) -> Any:
    return {**return_sentences(batch, epoch), "source": [[3, 4, 5]] * len(batch)}


def without_sources(batch: Any, epoch: int) -> Any:
    return {name: value for name, value in return_sentences(batch, epoch).items() if name != "source"}


@pytest.mark.parametrize(
    ("function", "step", "error", "message"),
    [
        (checksum, without_sources, ValueError, "'f' takes sources: return 'source' from the step"),
        (checksum, return_source_ids, TypeError, "'f' takes sources as text, got ids: .*decoder=tokenizer"),
        (exact, return_ids, TypeError, "'f' needs text, got .*or decode ids with the option decoder=tokenizer"),
    ],
)
def test_errors_of_a_batch_come_before_it_is_counted(
    function: Any, step: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    bleu = BLEUCallback({"bleu": CorpusBLEU(), "f": function})

    with pytest.raises(error, match=message):
        validate(tmp_path, bleu, step=step, loaders=make_items_loader())
    assert not is_batch_counted(bleu)


def test_ids_are_decoded_for_a_function(tmp_path: Path) -> None:
    def decode(rows: list[list[int]]) -> list[str]:
        return [" ".join(f"w{one}" for one in row) for row in rows]

    def is_decoded(hypotheses: list[str], references: list[list[str]]) -> list[bool]:
        return [(one, own) == ("w3 w4 w5", ["w3 w4 w5"]) for one, own in zip(hypotheses, references)]

    assert validate_function(tmp_path, is_decoded, return_ids, decoder=decode) == {"val_f": 1}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda hypotheses, references: [0.5], r"got the shape \(1,\) for 37 sentences"),
        (lambda hypotheses, references: [math.nan] * 37, f"returned nan for the hypothesis {translate(0)!r}"),
        (lambda hypotheses, references: [1 / 0], "the metric 'f' failed: ZeroDivisionError"),
    ],
)
def test_errors_of_a_function_name_it(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError), match=f"the metric 'f'.*{message}|{message}"):
        validate_function(tmp_path, function)


def test_an_error_in_the_sanity_check_ends_the_run_before_the_training(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, make_bleu_callback(lambda hypotheses, references: [1 / 0]))

    with pytest.raises(RuntimeError, match="the metric 'f' failed: ZeroDivisionError"):
        trainer.fit(make_module(step=return_sentences), TRAINING, make_items_loader())
    assert trainer.global_step == 0


def fail(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    raise OSError("no model")


def break_down(kind: str, hypotheses: list[str], references: list[list[str]]) -> list[float] | None:
    """Fail in one of two processes."""
    if torch.distributed.get_rank() == (0 if kind == "nan" else 1):
        wrong: dict[str, Any] = {"count": [0.5], "nan": [math.nan] * len(hypotheses), "none": None}
        return wrong[kind] if kind in wrong else fail(hypotheses, references)
    return [0.5] * len(hypotheses)


def validate_all(folder: Path, kinds: list[str]) -> dict[str, tuple[str, float]]:
    """The error of each kind in this process, and the number of seconds until it was raised."""
    found = {}
    for kind in kinds:
        start = time.monotonic()
        bleu = make_bleu_callback(partial(break_down, kind))
        error = try_to(
            validate, folder, bleu, step=return_sentences, loaders=make_items_loader(), strategy="ddp", devices=2
        )
        found[kind] = error, time.monotonic() - start
    return found


@pytest.mark.slow
def test_an_error_in_one_process_ends_all_of_them(tmp_path: Path) -> None:
    messages = {
        "raise": "RuntimeError: the metric 'f' failed: OSError: no model",
        "count": "ValueError: the metric 'f' must return one number per sentence, got the shape (1,)",
        "nan": "ValueError: the metric 'f' returned nan for the hypothesis",
        "none": "ValueError: the metric 'f' returned None in some processes only",
    }

    for found in run_in_processes(2, validate_all, tmp_path, [*messages]):
        for kind, message in messages.items():
            error, seconds = found[kind]
            assert error.startswith(message)
            assert seconds < 60  # far below the timeout of the group, for which a process would wait


def spawn(folder: Path, function: Any) -> str:
    return try_to(
        validate,
        folder,
        make_bleu_callback(function),
        step=return_sentences,
        loaders=make_items_loader(),
        strategy="ddp_spawn",
        devices=2,
    )


def test_a_lambda_cannot_be_sent_to_spawned_processes(tmp_path: Path) -> None:
    message = spawn(tmp_path, lambda hypotheses, references: [0.0] * len(hypotheses))

    assert "'f' is a lambda or a local function" in message
    assert "strategy='ddp' instead of 'ddp_spawn'" in message


# --- What a function may do ---


class Model(torch.nn.Module):
    """A tiny neural metric, which draws random numbers and changes what is global."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, hypotheses: list[str], references: list[list[str]]) -> torch.Tensor:
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64)
        lengths = torch.tensor([[float(len(one))] for one in hypotheses], dtype=torch.float32)
        scores: torch.Tensor = self.layer(lengths)[:, 0]
        assert not scores.requires_grad
        return scores


def test_training_goes_on_as_without_the_function(tmp_path: Path) -> None:
    class Draws(Logged):
        def on_train_batch_end(self, *args: Any, **options: Any) -> None:
            self.validations.append({"drawn": torch.rand(1).item(), "numpy": np.random.rand()})

    model, with_function, without = Model().eval(), Draws(), Draws()
    for callbacks in ([without], [with_function, make_bleu_callback(model)]):
        torch.manual_seed(5)
        np.random.seed(5)
        module = make_module(step=return_sentences)
        trainer = make_trainer(tmp_path, *callbacks)
        trainer.fit(module, make_loader([*range(8)], shuffle=True, batch_size=1), make_items_loader())

    def drawn(record: Logged) -> list[dict[str, float]]:
        return [one for one in record.validations if "drawn" in one]

    assert drawn(with_function) == drawn(without)
    assert torch.get_default_dtype() == torch.float32


class Judge:
    """A class with a `__call__`, and a method that is a function."""

    higher_is_better = True

    def __call__(self, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
        return checksum(hypotheses, references, sources)

    score = __call__


def weigh(hypotheses: list[str], references: list[list[str]], sources: list[str], weight: float = 1) -> list[float]:
    return [weight * one for one in checksum(hypotheses, references, sources)]


@pytest.mark.parametrize(
    "function", [Judge(), Judge().score, partial(weigh, weight=1.0), weigh], ids=["object", "method", "partial", "def"]
)
def test_a_function_is_any_callable(function: Any, tmp_path: Path) -> None:
    logged = validate_function(tmp_path, function)

    assert logged == {"val_f": pytest.approx(values_of(ITEMS, 0).mean(), abs=1e-12)}


def test_a_function_may_use_a_trainer(tmp_path: Path) -> None:
    def inner(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        trainer = make_trainer(tmp_path / "inner", max_epochs=1)
        module = make_module(step=return_sentences)
        module.predict_step = lambda batch, batch_idx: batch / 64
        return [
            float(one) for batch in trainer.predict(module, make_loader([*range(len(hypotheses))])) for one in batch
        ]

    trainer = fit(tmp_path, BLEUCallback({"f": inner, "bleu": BLEU}))

    assert trainer.callback_metrics["val_f"].item() == sum(item / 64 for item in ITEMS) / 37
    assert trainer.current_epoch == 3


# --- Direction ---


def test_less_is_better_where_the_function_says_so(tmp_path: Path) -> None:
    logged = Logged()

    fit(tmp_path, make_bleu_callback(errors, compare_to_best=True), logged)

    means = [np.mean([translate(item, epoch).split().count("else") for item in ITEMS]) for epoch in range(3)]
    assert [one["val_f"] for one in logged.validations] == pytest.approx(means)
    assert [one["val_f/best"] for one in logged.validations] == pytest.approx(np.minimum.accumulate(means))


@pytest.mark.parametrize("monitor", [EarlyStopping, ModelCheckpoint])
@pytest.mark.parametrize(("function", "mode"), [(errors, "max"), (checksum, "min")])
def test_a_monitor_with_the_wrong_mode_is_warned_about(monitor: Any, function: Any, mode: str, tmp_path: Path) -> None:
    options = {"dirpath": tmp_path} if monitor is ModelCheckpoint else {}

    with pytest.warns(UserWarning, match=f"{monitor.__name__}.*'val_f'.*mode"):
        fit(tmp_path, make_bleu_callback(function), monitor(monitor="val_f", mode=mode, **options), max_epochs=1)


# --- Resumed runs ---


def fit_and_save(folder: Path, metrics: dict[str, Any], epochs: int, resume: str | None = None) -> dict[str, float]:
    """What the last validation logs of a run, perhaps a resumed one."""
    bleu = BLEUCallback(metrics, compare_to_best=True)
    saving = [] if resume else [ModelCheckpoint(folder, save_last=True)]
    trainer = make_trainer(folder, bleu, *saving, max_epochs=epochs, num_sanity_val_steps=0)
    trainer.fit(make_module(step=return_sentences), TRAINING, make_items_loader(), ckpt_path=resume, weights_only=False)
    return {key: value.item() for key, value in trainer.callback_metrics.items()}


BOTH = {"f": checksum, "exact": exact}


@pytest.mark.parametrize(
    ("before", "after"),
    [(BOTH, {**BOTH, "bleu": BLEU}), ({**BOTH, "bleu": BLEU}, BOTH), (BOTH, {"bleu": BLEU, **BOTH})],
    ids=["more", "less", "order"],
)
def test_a_resumed_run_keeps_the_best_of_each_metric(before: Any, after: Any, tmp_path: Path) -> None:
    fit_and_save(tmp_path, before, 2)

    resumed = fit_and_save(tmp_path, after, 3, resume=str(tmp_path / "last.ckpt"))

    expected = expected_scores({"": ITEMS})[-1]
    keys = ["val_f", "val_f/p_value", "val_f/best"]
    assert [resumed[key] for key in keys] == pytest.approx([expected[key] for key in keys], abs=1e-12)
    if "bleu" in after:
        assert resumed["val_bleu/p_value"] == 1  # its first validation


class Flipped:
    """The same function with the other direction."""

    higher_is_better = False

    def __call__(self, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
        return checksum(hypotheses, references, sources)


def test_a_direction_that_changes_between_runs_begins_a_new_comparison(tmp_path: Path) -> None:
    fit_and_save(tmp_path, {"f": checksum}, 2)

    with pytest.warns(UserWarning, match=r"scored 'val_f' with different settings \(higher_is_better\).*the first"):
        resumed = fit_and_save(tmp_path, {"f": Flipped()}, 3, resume=str(tmp_path / "last.ckpt"))

    assert resumed["val_f/p_value"] == 1
    assert resumed["val_f/best"] == resumed["val_f"]


# --- Metrics of torchmetrics ---


@pytest.mark.parametrize(
    ("metric", "higher_is_better"),
    [
        (WordErrorRate(), False),
        (CharErrorRate(), False),
        (MatchErrorRate(), False),
        (WordInfoLost(), False),
        (EditDistance(), False),
        (EditDistance(reduction="none"), False),
        (EditDistance(reduction="sum"), False),
        (TranslationEditRate(), False),
        (TranslationEditRate(return_sentence_level_score=False), False),
        (ROUGEScore(rouge_keys=("rouge1", "rougeL")), True),
        (MetricCollection([WordErrorRate(), CharErrorRate()]), False),
        (MetricCollection({"a": WordErrorRate(), "b": WordErrorRate()}, prefix="my_"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_metrics_of_torchmetrics_score_a_single_reference(metric: Any, higher_is_better: bool, tmp_path: Path) -> None:
    bleu = make_bleu_callback(metric)
    (wrapped,) = bleu.metrics["f"].values()

    logged = validate(tmp_path, bleu, step=return_single, loaders=make_items_loader())

    metric.reset()
    metric.update([translate(item) for item in ITEMS], [references_of(item)[-1] for item in ITEMS])
    value = metric.compute()
    expected = {f"val_f/{name}": one for name, one in value.items()} if isinstance(value, dict) else {"val_f": value}
    assert logged == pytest.approx({key: one.double().mean().item() for key, one in expected.items()}, abs=1e-6)
    assert wrapped.higher_is_better is higher_is_better


def test_a_metric_is_the_same_in_each_validation(tmp_path: Path) -> None:
    metric, logged = MetricCollection([WordErrorRate(), CharErrorRate()]), Logged()

    fit(tmp_path, make_bleu_callback(metric), logged, step=return_single)

    for epoch, one in enumerate(logged.validations):
        alone = MetricCollection([WordErrorRate(), CharErrorRate()])
        alone.update([translate(item, epoch) for item in ITEMS], [references_of(item)[-1] for item in ITEMS])
        assert one == pytest.approx({f"val_f/{name}": value.item() for name, value in alone.compute().items()})
    assert not metric["WordErrorRate"].update_called  # what was passed is never used


@pytest.mark.parametrize(
    "metric", [WordErrorRate(), CharErrorRate(), EditDistance(), MetricCollection([MatchErrorRate()])]
)
def test_several_references_of_a_metric_that_takes_one_are_an_error_at_the_first_batch(
    metric: Metric, tmp_path: Path
) -> None:
    bleu = make_bleu_callback(metric)

    with pytest.raises(ValueError, match="'f' takes a single reference, but a sentence has 2: pass a function"):
        validate(tmp_path, bleu, step=return_sentences, loaders=make_items_loader())
    assert not is_batch_counted(bleu)


# --- Files and samples ---


@pytest.mark.parametrize("percent", [False, True])
def test_numbers_of_sentences_are_a_table_beside_the_translations(percent: bool, tmp_path: Path) -> None:
    own = {"bleu": CorpusBLEU(percent=percent), "chrf": CorpusCHRF(percent=percent)}
    metrics: dict[str, Any] = {"f": checksum, **own, "ter": TER(), "exact": exact}

    fit(tmp_path, BLEUCallback(metrics, translations=tmp_path / "t"))

    for epoch in range(3):
        table = pandas.read_csv(tmp_path / f"t/val/step-{2 * epoch + 2:07}.tsv", sep="\t")
        assert [*table] == ["f", "bleu", "chrf", "exact"]  # TER has no numbers of sentences
        corpus = [translate(item, epoch) for item in ITEMS], [references_of(item) for item in ITEMS]
        assert [*table["f"]] == [*values_of(ITEMS, epoch)]
        assert [*table["exact"]] == exact(*corpus)
        scores: dict[str, Callable[..., torch.Tensor]] = {"bleu": sentence_bleu, "chrf": sentence_chrf}
        for name, score in scores.items():
            assert [*table[name]] == pytest.approx(score(*corpus, percent=percent).tolist(), abs=1e-12)


def test_the_table_is_in_the_order_of_the_text_and_is_removed_with_it(tmp_path: Path) -> None:
    loader = make_loader(ITEMS, shuffle=True)
    bleu = make_bleu_callback(translations=tmp_path / "t", keep_translations=2)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*shuffling")
        fit(tmp_path, bleu, step=return_indexed, loaders=loader)

    folder = tmp_path / "t/val"
    names = ["ref-1.txt", "ref-2.txt", "src.txt"]
    steps = [f"step-000000{step}.{kind}" for step in (4, 6) for kind in ("tsv", "txt")]
    assert sorted(path.name for path in folder.iterdir()) == [*names, *steps]
    table = pandas.read_csv(folder / "step-0000006.tsv", sep="\t")
    lines = [(folder / name).read_text().splitlines() for name in ("step-0000006.txt", "src.txt")]
    expected = [value_of(hyp, references_of(item), src) for item, (hyp, src) in enumerate(zip(*lines, strict=True))]
    assert [*table["f"]] == expected


def test_without_numbers_of_sentences_there_is_no_table(tmp_path: Path) -> None:
    fit(tmp_path, BLEUCallback({"ter": TER()}, translations=tmp_path / "t"))

    assert not [*tmp_path.rglob("*.tsv")]
    assert len([*tmp_path.rglob("step-*.txt")]) == 3


@pytest.mark.parametrize(("function", "worst_is_highest"), [(checksum, False), (errors, True)])
def test_the_first_function_ranks_the_worst_sentences(function: Any, worst_is_highest: bool, tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path)
    fit(tmp_path, BLEUCallback({"f": function, "bleu": BLEU}, samples=3), logger=logger, max_epochs=1)

    hypotheses, references = [translate(item) for item in ITEMS], [references_of(item) for item in ITEMS]
    sources = [source_of(item) for item in ITEMS]
    values = function(hypotheses, references) if function is errors else function(hypotheses, references, sources)
    worst = sorted(ITEMS, key=lambda item: -values[item] if worst_is_highest else values[item])[:3]
    (table,) = read_events(Path(logger.log_dir)).Tensors("val_worst/text_summary")
    text = table.tensor_proto.string_val[0].decode()
    assert [(one.number, one.score) for one in read_table(text)] == [
        (item + 1, round(values[item], 4)) for item in worst
    ]
    assert "The worst sentences, by f. f = " in text


def test_scores_are_lines_of_the_file_of_scores(tmp_path: Path) -> None:
    fit(tmp_path, make_bleu_callback(translations=tmp_path / "t", confidence=0.95, compare_to_best=True))

    table = pandas.read_json(tmp_path / "t/scores.jsonl", lines=True)
    expected = expected_scores({"": ITEMS})
    assert [*table["key"]] == ["val_f"] * 3
    for column, name in {"score": "val_f", "low": "val_f/low", "p_value": "val_f/p_value"}.items():
        assert [*table[column]] == pytest.approx([one[name] for one in expected], abs=1e-9)


def test_a_step_that_is_taken_again_without_numbers_loses_its_table(tmp_path: Path) -> None:
    is_scored = True

    def once(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float] | None:
        return checksum(hypotheses, references, sources) if is_scored else None

    def run(epochs: int, checkpoint: Path | None = None) -> None:
        bleu = make_bleu_callback(once, translations=tmp_path / "t")
        saving = [] if checkpoint else [ModelCheckpoint(tmp_path / "c")]
        trainer = make_trainer(tmp_path, bleu, *saving, num_sanity_val_steps=0, max_epochs=epochs)
        trainer.fit(
            make_module(step=return_sentences), TRAINING, make_items_loader(), ckpt_path=checkpoint, weights_only=True
        )

    run(1)
    (checkpoint,) = tmp_path.glob("c/*.ckpt")
    run(2, checkpoint)
    assert len([*tmp_path.rglob("*.tsv")]) == 2
    is_scored = False
    run(2, checkpoint)
    assert [path.name for path in tmp_path.rglob("*.tsv")] == ["step-0000002.tsv"]
