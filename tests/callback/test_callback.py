"""The callback in real trainers, under both names of Lightning."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.corpora import read_lines
from tests.helpers.lightning import (
    NAMESPACES,
    SENTENCES,
    PanelLogger,
    Record,
    as_lines,
    as_logged,
    collect_warnings,
    expected_score,
    find_reports,
    fit,
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


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_score_is_logged_shown_and_monitored(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    loggers = importlib.import_module(f"{namespace}.loggers")
    bleu = make_callback(parts=True)
    checkpoint = callbacks.ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max", stopping_threshold=expected_score(1).bleu - 1e-6)
    logger = loggers.TensorBoardLogger(tmp_path, name="run", version="")
    trainer = make_trainer(tmp_path, bleu, checkpoint, stopping, namespace=namespace, logger=logger)
    trainer.fit(make_module(namespace), make_loader(), make_loader())
    reports = [expected_score(0), expected_score(1)]
    assert trainer.current_epoch == 2  # epoch 1 reaches the threshold
    assert checkpoint.best_model_score == reports[1].bleu
    assert bleu.results["val_bleu"].report == reports[1]
    assert trainer.progress_bar_metrics["val_bleu"] == reports[1].bleu
    assert "val_bleu/precision_1" not in trainer.progress_bar_metrics

    events = read_events(tmp_path / "run")
    for name in ("", "precision_1", "precision_4", "brevity_penalty", "length_ratio", "hypothesis_length"):
        logged = [event.value for event in events.Scalars(f"val_bleu/{name}".rstrip("/"))]
        expected = [
            report.precisions[int(name[-1]) - 1] if "precision" in name else getattr(report, name or "bleu")
            for report in reports
        ]
        assert logged == [*map(as_logged, expected)]  # one per epoch, none for the sanity check

    (tested,) = trainer.test(make_module(namespace), make_loader(), verbose=False)
    assert tested["test_bleu"] == expected_score(2).bleu
    (validated,) = trainer.validate(make_module(namespace), make_loader(SENTENCES[:5]), verbose=False)
    assert validated["val_bleu/hypothesis_length"] == 5 * 8


@pytest.mark.parametrize("returned", [return_ids, return_text])
def test_an_interrupted_validation_is_forgotten(returned: Any, tmp_path: Path) -> None:
    batches: list[int] = []

    def step(batch: Tensor, epoch: int) -> Any:
        batches.append(len(batch))
        if len(batches) == 3:
            raise RuntimeError("interrupted")
        return returned(batch, epoch)

    bleu, logger = make_callback(samples=len(SENTENCES)), PanelLogger(tmp_path)
    with pytest.raises(RuntimeError, match="interrupted"):
        validate(tmp_path, bleu, step=step, logger=logger)
    validate(tmp_path, bleu, step=step, logger=logger)
    assert find_reports(bleu)["val_bleu"].matches == expected_score().matches
    shown = [(row.hypothesis, *row.references) for row in read_table(logger.panels[-1])]
    assert shown == list(zip(as_lines(translate(SENTENCES)), as_lines(SENTENCES)))


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("loaders", [make_loader(), {"a": make_loader(), "b": make_loader(SENTENCES[:9])}])
def test_a_validation_that_a_run_resumes_in_its_middle_is_scored_whole(
    loaders: Any, namespace: str, tmp_path: Path
) -> None:
    """Lightning would run as many batches as were left, the first ones."""
    calls = [0]

    def stop_in_the_second_epoch(batch: Tensor, epoch: int) -> Any:
        calls[0] += epoch == 1
        if calls[0] == 4:
            raise KeyError("stopped")
        return return_ids(batch, epoch)

    checkpoint = importlib.import_module(f"{namespace}.callbacks").ModelCheckpoint(
        tmp_path, filename="stopped", save_on_exception=True, every_n_epochs=99
    )
    options: Any = {"loaders": loaders, "namespace": namespace, "max_epochs": 2}
    with pytest.raises(KeyError, match="stopped"):
        fit(tmp_path, make_callback(), checkpoint, step=stop_in_the_second_epoch, **options)
    whole = fit(tmp_path, make_callback(), **options).callback_metrics
    bleu = make_callback(compare_to="best", translations=tmp_path / "files")
    resumed = fit(tmp_path, bleu, ckpt_path=tmp_path / "stopped.ckpt", **options).callback_metrics
    assert {key: resumed[key] for key in whole} == whole
    assert len(read_lines(next((tmp_path / "files").rglob("ref.txt")))) in (len(SENTENCES), 9)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_scheduler_must_not_prefer_worse_scores(mode: Any, tmp_path: Path) -> None:
    def configure(self: Any) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_bleu"}}

    module = make_module()
    module.configure_optimizers = configure.__get__(module)
    found = collect_warnings(
        fit,
        tmp_path,
        make_callback(),
        module=module,
        max_epochs=2,
        message="ReduceLROnPlateau(monitor='val_bleu', mode=",
    )
    assert len(found) == (mode == "min")


def test_an_error_says_where_the_wrong_output_came_from(tmp_path: Path) -> None:
    for bleu, message in (
        (
            make_callback(),
            r"got None \(no return statement\?\) from 'validation_step'\. Either return .* from 'validation_step', or",
        ),
        (BLEUCallback(extract=lambda outputs, batch: batch), "from 'extract'"),
    ):
        with pytest.raises(TypeError, match=message):
            validate(tmp_path, bleu, step=lambda batch, epoch: None)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_validation_can_be_skipped(namespace: str, tmp_path: Path) -> None:
    """What monitors the score sees the last one."""

    def step(batch: Tensor, epoch: int) -> Any:
        return return_ids(batch, epoch) if epoch % 2 == 0 else {"preds": [], "target": []}

    callbacks = importlib.import_module(f"{namespace}.callbacks")
    checkpoint = callbacks.ModelCheckpoint(tmp_path / "c", monitor="val_bleu", mode="max", filename="{epoch}")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max", patience=2)
    bleu = make_callback(compare_to="best", translations=tmp_path / "t")
    record = Record(bleu)
    fit(tmp_path, bleu, record, checkpoint, stopping, step=step, namespace=namespace, max_epochs=4)
    assert [[*results] for results in record.results] == [["val_bleu"], [], ["val_bleu"], []]
    scores = [expected_score(epoch).bleu for epoch in (0, 0, 2, 2)]
    assert record.column("val_bleu") == record.column("val_bleu/best") == scores
    assert Path(checkpoint.best_model_path).name == "epoch=2.ckpt"
    assert len([*(tmp_path / "t").rglob("step-*")]) == 2


# Several callbacks


def test_callbacks_that_log_the_same_name_are_an_error(tmp_path: Path) -> None:
    callbacks = [BLEUCallback({"x/bleu": CorpusBLEU()}), BLEUCallback(log_name="{stage}_x/{metric}")]
    trainer = make_trainer(tmp_path, *callbacks)
    with pytest.raises(ValueError, match=r"^two BLEUCallbacks log 'val_x/bleu': give all metrics to one of them, or"):
        trainer.fit(make_module(step=return_text), make_loader(), make_loader())
    assert trainer.global_step == 0
    with pytest.raises(RuntimeError, match="more than one stateful callback of type `BLEUCallback`"):  # of Lightning
        make_trainer(tmp_path, callbacks[1], BLEUCallback(log_name="{stage}_x/{metric}"))


# Likely mistakes


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize(
    "message", ["neither 'pad_id' nor 'eos_id' is set", "(monitor='val_bleu', mode='min') prefers"]
)
def test_a_mistake_is_warned_about_once_at_the_line_that_starts_the_run(
    message: str, namespace: str, tmp_path: Path
) -> None:
    kind = importlib.import_module(f"{namespace}.callbacks").EarlyStopping
    other = make_callback(log_name="{stage}_other_{metric}")  # nothing monitors it
    callbacks = [BLEUCallback(), other, kind("val_bleu", mode="max"), kind("val_bleu")]
    trainer, module = make_trainer(tmp_path, *callbacks, namespace=namespace, max_epochs=1), make_module(namespace)
    loaders = [make_loader(), make_loader()]

    def fit_and_test() -> None:
        trainer.fit(module, make_loader(), loaders)
        trainer.test(module, loaders, verbose=False)

    found = collect_warnings(fit_and_test, message=message)  # a sanity check, an epoch, and a test
    assert found == [(__file__, "trainer.fit(module, make_loader(), loaders)")]


def test_hypotheses_with_their_prompt_are_warned_about_before_the_training(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        sources = [f"sentence number {number}" for number in batch[:, 0].tolist()]
        preds = [f"{source}: a b c" for source in sources]
        return {"preds": preds, "target": ["a b c"] * len(batch), "source": sources}

    loaders, message = [make_loader()] * 2, "hypotheses contain their source"
    assert len(collect_warnings(fit, tmp_path, BLEUCallback(), step=step, loaders=loaders, message=message)) == 1


@pytest.mark.filterwarnings("ignore:Your `val_dataloader`'s sampler has shuffling enabled")
def test_a_validation_that_is_compared_must_not_be_shuffled(tmp_path: Path) -> None:
    loader = make_loader(shuffle=True)
    for options, message in (
        ({"compare_to": "best"}, "compare_to='best'"),
        ({"translations": tmp_path}, "translations=..."),
    ):
        needs = re.escape(f"BLEUCallback({message}) needs to know which sentence is which")
        with pytest.raises(ValueError, match=needs + ".* or set shuffle=False"):
            fit(tmp_path, make_callback(**options), loaders=[make_loader(), loader])
    bleu = make_callback(confidence=0.9)  # compares nothing
    validate(tmp_path, bleu, loaders=loader)
    assert bleu.results["val_bleu"].parts["hypothesis_length"] == SENTENCES.numel()


@pytest.mark.filterwarnings("ignore:Your `test_dataloader`'s sampler has shuffling enabled")
def test_a_training_or_a_test_may_be_shuffled_beside_a_comparison(tmp_path: Path) -> None:
    """And a test may have other loaders."""
    bleu = make_callback(compare_to="best", dataloader_names=["a", "b"])
    trainer, module = make_trainer(tmp_path, bleu, max_epochs=1), make_module()
    trainer.fit(module, make_loader(shuffle=True), [make_loader(), make_loader()])
    with pytest.warns(UserWarning, match="'dataloader_names' has 2 names, but there are 1 loaders of 'test'"):
        trainer.test(module, make_loader(shuffle=True), verbose=False)
    assert [*bleu.results] == ["val_bleu", "val_bleu/a", "val_bleu/b", "test_bleu"]
    assert find_reports(bleu)["test_bleu"] == expected_score(1)
