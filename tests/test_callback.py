"""The callback in real trainers, under both names of Lightning."""

from __future__ import annotations

import importlib
import re
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, corpus_bleu
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    SENTENCES,
    Items,
    PanelLogger,
    Record,
    Step,
    as_lines,
    as_logged,
    collect_warnings,
    expected_score,
    find_reports,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    read_events,
    read_table,
    return_ids,
    return_text,
    translate,
    validate,
)

pytestmark = ignore_lightning_warnings


def as_words(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [" ".join(map(str, row)) for row in rows]


SHOWN = list(zip(as_lines(translate(SENTENCES)), as_lines(SENTENCES)))
"""Hypotheses and references as a table of samples shows them."""


def shown_sentences(logger: PanelLogger) -> list[tuple[str, ...]]:
    """Hypotheses and references in the last table of samples."""
    return [(row.hypothesis, *row.references) for row in read_table(logger.panels[-1])]


def check_sentences(folder: Path, step: Step) -> None:
    """All sentences must be counted and shown, however a step returns them."""
    bleu, logger = make_callback(samples=len(SENTENCES)), PanelLogger(folder)
    validate(folder, bleu, step=step, logger=logger)
    assert bleu.results["val_bleu"].report.matches == expected_score().matches
    assert shown_sentences(logger) == SHOWN


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_score_is_logged_shown_and_monitored(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    loggers = importlib.import_module(f"{namespace}.loggers")
    bleu = make_callback()
    checkpoint = callbacks.ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max", stopping_threshold=expected_score(1).bleu - 1e-6)
    logger = loggers.TensorBoardLogger(tmp_path, name="run", version="")
    trainer = make_trainer(tmp_path, bleu, checkpoint, stopping, namespace=namespace, logger=logger)
    trainer.fit(make_module(namespace), make_loader(), make_loader())
    report = expected_score(1)
    assert trainer.current_epoch == 2  # epoch 1 reaches the threshold
    assert checkpoint.best_model_score == report.bleu
    assert bleu.results["val_bleu"].report == report
    assert trainer.progress_bar_metrics["val_bleu"] == report.bleu
    assert "val_bleu/precision_1" not in trainer.progress_bar_metrics

    events = read_events(tmp_path / "run")
    for name, value in {
        "val_bleu": report.bleu,
        "val_bleu/precision_1": report.precisions[0],
        "val_bleu/precision_4": report.precisions[3],
        "val_bleu/brevity_penalty": report.brevity_penalty,
        "val_bleu/length_ratio": report.length_ratio,
        "val_bleu/hypothesis_length": report.hypothesis_length,
        "val_bleu/reference_length": report.reference_length,
    }.items():
        logged = events.Scalars(name)
        assert len(logged) == 2  # one per epoch, none for the sanity check
        assert logged[-1].value == as_logged(value)

    (tested,) = trainer.test(make_module(namespace), make_loader(), verbose=False)
    assert tested["test_bleu"] == expected_score(2).bleu
    (validated,) = trainer.validate(make_module(namespace), make_loader(SENTENCES[:5]), verbose=False)
    assert validated["val_bleu/hypothesis_length"] == 5 * 8


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_sanity_check_does_not_count(namespace: str, tmp_path: Path) -> None:
    bleu = make_callback()
    trainer = make_trainer(tmp_path, bleu, namespace=namespace, max_epochs=1, num_sanity_val_steps=3)
    trainer.fit(make_module(namespace), make_loader(), make_loader())
    assert bleu.results["val_bleu"].report.hypothesis_length == SENTENCES.numel()


def test_every_validation_within_an_epoch_is_scored_afresh(tmp_path: Path) -> None:
    bleu = make_callback()
    record = Record(bleu)
    trainer = make_trainer(tmp_path, bleu, record, max_epochs=2, val_check_interval=2)
    trainer.fit(make_module(), make_loader(), make_loader())
    # 37 sentences in batches of 7 are 6 steps, so 3 validations.
    reports = [results["val_bleu"].report for results in record.results]
    assert reports == [expected_score(0)] * 3 + [expected_score(1)] * 3


@pytest.mark.parametrize(
    "step",
    [
        lambda batch, epoch: (translate(batch, epoch), batch),
        lambda batch, epoch: [translate(batch, epoch), batch],
        lambda batch, epoch: {"preds": translate(batch, epoch).tolist(), "target": [[row] for row in batch.tolist()]},
        lambda batch, epoch: {"preds": iter(translate(batch, epoch)), "target": iter(batch)},
    ],
    ids=["pair", "list of two", "lists of ids", "iterators of tensors"],
)
def test_a_step_may_return_any_form_that_the_metric_accepts(step: Any, tmp_path: Path) -> None:
    check_sentences(tmp_path, step)


@pytest.mark.parametrize("form", ["strings", "ids"])
@pytest.mark.parametrize(
    "container",
    [deque, tuple, iter, lambda items: (item for item in items), lambda items: dict(enumerate(items)).values()],
    ids=["deque", "tuple", "iterator", "generator", "dict view"],
)
def test_sentences_in_any_container_are_counted_and_shown(container: Any, form: str, tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> Any:
        if form == "strings":
            hypotheses, references = return_text(batch, epoch)
            return container(hypotheses), container([container([line]) for line in references])
        rows = [[container(row) for row in side.tolist()] for side in (translate(batch, epoch), batch)]
        return container(rows[0]), container([container([row]) for row in rows[1]])

    check_sentences(tmp_path, step)


@pytest.mark.parametrize("groups", [False, True], ids=["one reference", "lists of references"])
@pytest.mark.parametrize(
    "form",
    [np.array, lambda lines: np.array(lines, dtype=object), pandas.Series],
    ids=["array", "array of objects", "series"],
)
def test_strings_in_arrays_and_series_are_counted_and_shown(form: Any, groups: bool, tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> Any:
        hypotheses, references = return_text(batch, epoch)
        return form(hypotheses), form([[line] for line in references] if groups else references)

    check_sentences(tmp_path, step)


def return_pair(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    return translate(batch, epoch), batch


def refill(buffers: Any, sides: Callable[[Tensor, int], Any], form: Callable[[Any], Any] = lambda side: side) -> Step:
    """A step that writes hypotheses and references to the same two arrays or tensors for each batch."""

    def step(batch: Tensor, epoch: int) -> Any:
        preds, target = buffers[:, : len(batch)]
        preds[:], target[:] = sides(batch, epoch)
        return form(preds), form(target)

    return step


def refill_lists(form: Callable[[Tensor], list[Any]]) -> Step:
    preds: list[Any] = []
    target: list[Any] = []

    def step(batch: Tensor, epoch: int) -> Any:
        for sentences in (preds, *target):
            sentences.clear()
        target.clear()
        preds.extend(form(translate(batch)))
        target.extend([sentence] for sentence in form(batch))
        return preds, target

    return step


@pytest.mark.parametrize(
    "step",
    [
        refill(torch.empty(2, 7, 8, dtype=torch.int64), return_pair),
        refill(torch.empty(2, 7, 8, dtype=torch.int64), return_pair, list),
        refill(
            np.empty((2, 7, 8), np.int64), lambda batch, epoch: [side.numpy() for side in return_pair(batch, epoch)]
        ),
        refill(np.empty((2, 7), "U50"), return_text),
        refill(np.empty((2, 7), object), return_text),
        refill_lists(as_lines),
        refill_lists(lambda batch: [line.split() for line in as_lines(batch)]),
        refill_lists(Tensor.tolist),
        refill_lists(list),
    ],
    ids=[
        "tensor",
        "rows of a tensor",
        "array",
        "array of strings",
        "array of objects",
        "strings",
        "tokens",
        "ids",
        "tensors",
    ],
)
def test_a_step_may_reuse_its_buffers(step: Any, tmp_path: Path) -> None:
    """The table is made at the end of the validation, from the sentences of all batches."""
    check_sentences(tmp_path, step)


def test_batches_of_different_forms_add_up(tmp_path: Path) -> None:
    steps = 3 * [return_ids, return_text]  # 37 sentences in batches of 7 are 6 batches

    def step(batch: Tensor, epoch: int) -> Any:
        return steps.pop()(batch, epoch)

    check_sentences(tmp_path, step)


def test_an_error_about_strings_is_raised_with_their_batch(tmp_path: Path) -> None:
    batches: list[int] = []

    def step(batch: Tensor, epoch: int) -> Any:
        batches.append(len(batch))
        return ["a b"] * len(batch), [["a"]] * (len(batch) - (len(batches) == 2))

    with pytest.raises(ValueError, match="the same number of sentences"):
        validate(tmp_path, make_callback(), step=step)
    assert len(batches) == 2


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("returned", [return_ids, return_text])
def test_an_interrupted_validation_is_forgotten(namespace: str, returned: Any, tmp_path: Path) -> None:
    batches: list[int] = []

    def step(batch: Tensor, epoch: int) -> Any:
        batches.append(len(batch))
        if len(batches) == 3:
            raise RuntimeError("interrupted")
        return returned(batch, epoch)

    bleu, logger = make_callback(samples=len(SENTENCES)), PanelLogger(tmp_path)
    with pytest.raises(RuntimeError, match="interrupted"):
        validate(tmp_path, bleu, step=step, namespace=namespace, logger=logger)
    validate(tmp_path, bleu, step=step, namespace=namespace, logger=logger)
    assert bleu.results["val_bleu"].report.matches == expected_score().matches
    assert shown_sentences(logger) == SHOWN


def test_extract_takes_outputs_and_batch_to_sentences(tmp_path: Path) -> None:
    bleu = make_callback(extract=lambda outputs, batch: (outputs["translations"], batch))
    validate(tmp_path, bleu, step=lambda batch, epoch: {"translations": translate(batch)})
    assert bleu.results["val_bleu"].report == expected_score()


def test_an_error_says_where_the_wrong_output_came_from(tmp_path: Path) -> None:
    for message in (
        r"got a NoneType from 'validation_step'\. Either return .* from 'validation_step', or use BLEUCallback\(",
        "To skip a validation, return {'preds': .., 'target': ..}: nothing is logged then$",
    ):
        with pytest.raises(TypeError, match=message):
            validate(tmp_path, make_callback(), step=lambda batch, epoch: None)
    wrong = BLEUCallback(extract=lambda outputs, batch: batch)
    with pytest.raises(TypeError, match="from 'extract'"):
        validate(tmp_path, wrong)


def test_callbacks_with_different_names_work_side_by_side(tmp_path: Path) -> None:
    metric = CorpusBLEU(max_order=2, percent=True, pad_id=PAD_ID)
    callbacks = [make_callback(), BLEUCallback(metric, log_name="{stage}/bigrams/{metric}")]
    logged = validate(tmp_path, *callbacks)
    assert logged["val_bleu"] == expected_score().bleu
    assert logged["val/bigrams/bleu"] == expected_score(max_order=2, percent=True).bleu
    assert len(logged) == 1 + 8 + 1 + 6


@pytest.mark.parametrize(
    ("first", "second"), [("{stage}_{metric}", "{stage}/{metric}"), ("{metric}_{stage}", "{stage}.{metric}")]
)
def test_callbacks_with_the_same_folder_are_an_error(first: str, second: str, tmp_path: Path) -> None:
    callbacks = [BLEUCallback(log_name=first), BLEUCallback(CorpusCHRF(), log_name=second)]
    trainer = make_trainer(tmp_path, *callbacks)
    message = re.escape(
        f"two BLEUCallbacks have the names {first!r} and {second!r}: give all metrics to one of them, or"
    )
    with pytest.raises(ValueError, match=message):
        trainer.fit(make_module(step=return_text), make_loader(), make_loader())
    assert trainer.global_step == 0
    with pytest.raises(RuntimeError, match="more than one stateful callback of type `BLEUCallback`"):  # of Lightning
        make_trainer(tmp_path, callbacks[0], BLEUCallback(CorpusCHRF(), log_name=first))


def test_callbacks_that_log_the_same_name_are_an_error(tmp_path: Path) -> None:
    callbacks = [BLEUCallback({"x/bleu": CorpusBLEU()}), BLEUCallback(log_name="{stage}_x/{metric}")]
    with pytest.raises(ValueError, match="another callback logs 'val_x/bleu', like BLEUCallback"):
        validate(tmp_path, *callbacks, step=return_text)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_validation_can_be_skipped(namespace: str, tmp_path: Path) -> None:
    """What monitors the score sees the last one."""

    def step(batch: Tensor, epoch: int) -> Any:
        return return_ids(batch, epoch) if epoch % 2 == 0 else {"preds": [], "target": []}

    callbacks = importlib.import_module(f"{namespace}.callbacks")
    checkpoint = callbacks.ModelCheckpoint(tmp_path / "c", monitor="val_bleu", mode="max", filename="{epoch}")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max", patience=2)
    bleu = make_callback(compare_to_best=True, translations=tmp_path / "t")
    record = Record(bleu)
    trainer = make_trainer(tmp_path, bleu, record, checkpoint, stopping, namespace=namespace, max_epochs=4)
    trainer.fit(make_module(namespace, step), make_loader(), make_loader())
    assert [[*results] for results in record.results] == [["val_bleu"], [], ["val_bleu"], []]
    scores = [expected_score(epoch).bleu for epoch in (0, 0, 2, 2)]
    assert record.column("val_bleu") == record.column("val_bleu/best") == scores
    assert Path(checkpoint.best_model_path).name == "epoch=2.ckpt"
    assert len([*(tmp_path / "t").rglob("step-*.txt")]) == 2


@pytest.mark.parametrize(("name", "error"), [("EarlyStopping", RuntimeError), ("ModelCheckpoint", Exception)])
def test_a_score_that_was_never_logged_is_an_error_of_what_monitors_it(
    name: str, error: type[Exception], tmp_path: Path
) -> None:
    monitor = getattr(importlib.import_module("pytorch_lightning.callbacks"), name)(monitor="val_bleu", mode="max")
    trainer = make_trainer(tmp_path, make_callback(), monitor, max_epochs=1)
    with pytest.raises(error, match=r"val_bleu.*(not available|could not find the monitored key)"):
        trainer.fit(make_module(step=lambda batch, epoch: {"preds": [], "target": []}), make_loader(), make_loader())


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_resumed_run_is_scored_afresh(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    folder = tmp_path / "saved"

    def make_resumable(bleu: BLEUCallback, epochs: int) -> Any:
        checkpoint = callbacks.ModelCheckpoint(folder, monitor="val_bleu", mode="max", save_last=True)
        return make_trainer(tmp_path, bleu, checkpoint, namespace=namespace, max_epochs=epochs)

    make_resumable(make_callback(), 1).fit(make_module(namespace), make_loader(), make_loader())
    bleu = make_callback()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Checkpoint directory")
        make_resumable(bleu, 2).fit(
            make_module(namespace), make_loader(), make_loader(), ckpt_path=folder / "last.ckpt"
        )
    assert bleu.results["val_bleu"].report == expected_score(1)


def test_the_given_metric_is_not_changed(tmp_path: Path) -> None:
    metric = CorpusBLEU(pad_id=PAD_ID)
    metric.update(["a b"], ["a b"])
    bleu = BLEUCallback(metric)
    validate(tmp_path, bleu)
    assert metric.hypothesis_length == 2
    assert bleu.results["val_bleu"].report == expected_score()


# Likely mistakes


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_ids_without_padding_are_warned_about_once_at_the_line_that_starts_the_validation(
    namespace: str, tmp_path: Path
) -> None:
    bleu, message = BLEUCallback(confidence=0.9), "neither 'pad_id' nor 'eos_id' is set"
    trainer, module, loader = make_trainer(tmp_path, bleu, namespace=namespace), make_module(namespace), make_loader()

    def fit() -> None:
        trainer.fit(module, loader, loader)

    # A sanity check and three epochs.
    assert collect_warnings(fit, message=message) == [(__file__, "trainer.fit(module, loader, loader)")]
    assert collect_warnings(trainer.validate, module, loader, verbose=False, message=message) == []


def test_all_loaders_and_stages_of_a_callback_warn_once(tmp_path: Path) -> None:
    trainer, loaders = make_trainer(tmp_path, BLEUCallback()), [make_loader(), make_loader()]

    def fit_and_test() -> None:
        trainer.fit(make_module(), make_loader(), loaders)
        trainer.test(make_module(), loaders, verbose=False)

    assert len(collect_warnings(fit_and_test, message="neither 'pad_id' nor 'eos_id' is set")) == 1


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("name", ["EarlyStopping", "ModelCheckpoint"])
def test_a_callback_that_prefers_a_low_score_is_warned_about_once(name: str, namespace: str, tmp_path: Path) -> None:
    kind = getattr(importlib.import_module(f"{namespace}.callbacks"), name)
    monitors = [kind(monitor="val_bleu"), kind(monitor="val_bleu", mode="max")]  # "min" is the default of both
    trainer = make_trainer(tmp_path, make_callback(), *monitors, namespace=namespace)
    module, loader = make_module(namespace), make_loader()

    def validate() -> None:
        trainer.validate(module, loader, verbose=False)

    message = f"{name}(monitor='val_bleu', mode='min') prefers a low score"
    assert collect_warnings(validate, message=message) == [
        (__file__, "trainer.validate(module, loader, verbose=False)")
    ]
    assert collect_warnings(validate, message=message) == []


@pytest.mark.parametrize(("percent", "threshold"), [(True, 0.9), (False, 50.0)])
@pytest.mark.parametrize("monitor", ["val_bleu", "val_bleu/precision_1", "val_chrf"])
def test_a_threshold_in_the_other_unit_is_warned_about_once(
    percent: bool, threshold: float, monitor: str, tmp_path: Path
) -> None:
    bleu = BLEUCallback({"bleu": CorpusBLEU(percent=percent), "chrf": CorpusCHRF(percent=percent)}, decoder=as_words)
    stopping = EarlyStopping(monitor, mode="max", stopping_threshold=threshold)
    trainer, module, loader = make_trainer(tmp_path, bleu, stopping), make_module(), make_loader()

    def validate() -> None:
        trainer.validate(module, loader, verbose=False)

    message = f"stopping_threshold={threshold}): the score is in 0..{100 if percent else 1}, because percent={percent}"
    assert len(collect_warnings(validate, message=message)) == 1
    assert collect_warnings(validate, message=message) == []


@pytest.mark.parametrize(
    ("percent", "monitor", "threshold"),
    [
        (True, "val_bleu", 50.0),
        (False, "val_bleu", 0.5),
        (False, "val_bleu", 1.0),
        (True, "val_bleu/length_ratio", 0.9),
        (False, "val_bleu/hypothesis_length", 500.0),
        (True, "val_loss", 0.5),
        (True, "val_bleu", None),
    ],
)
def test_other_thresholds_are_not_warned_about(
    percent: bool, monitor: str, threshold: float | None, tmp_path: Path
) -> None:
    bleu = BLEUCallback(CorpusBLEU(pad_id=PAD_ID, percent=percent))
    validate(tmp_path, bleu, EarlyStopping(monitor, mode="max", stopping_threshold=threshold))


@pytest.mark.parametrize("loaders", [1, 2])
def test_hypotheses_with_their_prompt_are_warned_about_before_the_training(loaders: int, tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        sources = [f"sentence number {number}" for number in batch[:, 0].tolist()]
        return {
            "preds": [f"{source}: a b c" for source in sources],
            "target": ["a b c"] * len(batch),
            "source": sources,
        }

    trainer = make_trainer(tmp_path, BLEUCallback(), max_epochs=2, num_sanity_val_steps=2)

    def fit() -> None:
        trainer.fit(make_module(step=step), make_loader(), [make_loader()] * loaders)

    assert len(collect_warnings(fit, message="hypotheses contain their source")) == 1


def test_a_report_can_be_logged(tmp_path: Path) -> None:
    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.bleu = CorpusBLEU()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.bleu.update(["a b c d e"], ["a b c d f"])

        def on_validation_epoch_end(self) -> None:
            self.log("val_bleu", self.bleu.report())
            self.bleu.reset()

    trainer = make_trainer(tmp_path)
    (logged,) = trainer.validate(Module(), make_loader(), verbose=False)
    assert logged["val_bleu"] == pytest.approx(corpus_bleu(["a b c d e"], ["a b c d f"]).bleu)


NEW_FORM = "all metrics by name, as in BLEUCallback({'bleu': CorpusBLEU(), 'chrf': CorpusCHRF()}"


@pytest.mark.parametrize(
    ("arguments", "options", "parts"),
    [
        ([], {"percent": True}, ["['percent'] are options of the metric: BLEUCallback(CorpusBLEU(percent=True))"]),
        ([], {"pad_id": 0, "tokenizer": "zh", "samples": 3}, ["BLEUCallback(CorpusBLEU(pad_id=0, tokenizer='zh'))"]),
        ([], {"confidense": 0.9}, ["unknown option 'confidense': did you mean 'confidence'?"]),
        ([], {"ci": 0.95}, ["unknown option 'ci'"]),
        # The forms of older versions.
        ([], {"metric": CorpusCHRF()}, ["unknown option 'metric': ", NEW_FORM]),
        ([CorpusBLEU()], {"others": {}, "name": "b"}, ["unknown option 'others', 'name': ", NEW_FORM, "log_name="]),
        ([CorpusBLEU(), {"chrf": CorpusCHRF()}], {}, ["BLEUCallback takes one positional argument, ", NEW_FORM]),
    ],
)
def test_a_wrong_call_is_an_error_that_shows_the_right_one(
    arguments: list[Any], options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(TypeError) as caught:
        BLEUCallback(*arguments, **options)
    message = str(caught.value)
    assert message.startswith(parts[0]) or len(parts) == 1
    assert all(part in message for part in parts)
    assert len(message) < 300  # rather than all options


def test_callbacks_that_watch_the_score_of_another_name_are_not_warned_about(tmp_path: Path) -> None:
    validate(
        tmp_path, make_callback(log_name="{stage}_other_{metric}"), EarlyStopping("val_bleu")
    )  # every warning is an error here


@pytest.mark.parametrize(
    "loader",
    [
        make_loader(shuffle=True),
        DataLoader(Items(37), batch_sampler=BatchSampler(RandomSampler(range(37)), 7, False)),
        make_loader(list(make_loader()), batch_size=None, shuffle=True),
    ],
    ids=["shuffle", "batch sampler", "no batches"],
)
@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.filterwarnings("ignore:Your `val_dataloader`'s sampler has shuffling enabled")
def test_a_validation_that_is_compared_must_not_be_shuffled(loader: Any, namespace: str, tmp_path: Path) -> None:
    for options, message in (
        ({"compare_to_best": True}, "compare_to_best=True"),
        ({"significance_level": 0.05}, "compare_to_best=True"),
        ({"translations": tmp_path}, "translations=..."),
    ):
        trainer = make_trainer(tmp_path, make_callback(**options), namespace=namespace)
        needs = re.escape(f"BLEUCallback({message}) needs to know which sentence is which")
        with pytest.raises(ValueError, match=needs + ".* or make the loader with shuffle=False"):
            trainer.fit(make_module(namespace), make_loader(), [make_loader(), loader])
    bleu = make_callback(confidence=0.9)  # compares nothing
    validate(tmp_path, bleu, loaders=loader, namespace=namespace)
    assert bleu.results["val_bleu"].report.hypothesis_length == SENTENCES.numel()


@pytest.mark.filterwarnings("ignore:Your `test_dataloader`'s sampler has shuffling enabled")
def test_a_training_or_a_test_may_be_shuffled_beside_a_comparison(tmp_path: Path) -> None:
    bleu = make_callback(compare_to_best=True)
    trainer, module = make_trainer(tmp_path, bleu, max_epochs=1), make_module()
    trainer.fit(module, make_loader(shuffle=True), make_loader())
    trainer.test(module, make_loader(shuffle=True), verbose=False)
    assert find_reports(bleu) == {"val_bleu": expected_score(0), "test_bleu": expected_score(1)}
