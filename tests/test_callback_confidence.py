"""The callback's confidence intervals and comparisons with the best validation, in real trainers."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, paired_bootstrap
from lightning_bleu.counting.kept import read_rows
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    Record,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
)

pytestmark = ignore_lightning_warnings

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))
RIGHT = [0.6, 0.75, 0.755, 0.76, 0.765, 0.77, 0.775, 0.78, 0.785]
"""The share of right words in each epoch: one clear gain, then many that could be chance."""


def translate(sentences: Tensor, epoch: int) -> Tensor:
    luck = torch.rand(sentences.shape, generator=torch.Generator().manual_seed(epoch + len(sentences)))
    return torch.where(luck < RIGHT[epoch], sentences, 99)


def step(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    return translate(batch, epoch), batch


def copy_target(batch: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
    return batch, batch


def score_epoch(epoch: int) -> CorpusBLEU:
    """A metric that has counted the validation of an epoch, batch by batch as the callback does."""
    metric = CorpusBLEU(pad_id=PAD_ID, keep_sentences=True)
    for batch in make_loader(SENTENCES):
        metric.update(translate(batch, epoch), batch)
    return metric


def kept_score(bleu: BLEUCallback) -> float:
    """The score of the best validation that a callback keeps."""
    statistics = read_rows(bleu.state_dict()["best"]["val_bleu"]).statistics.sum(0)
    assert isinstance(bleu.metric, CorpusBLEU)
    return BLEUScore.from_statistics(statistics, bleu.metric.settings, "").bleu


def fit(
    folder: Path, *callbacks: Any, epochs: int = len(RIGHT), ckpt_path: Path | None = None, **options: Any
) -> Record:
    """Train the toy module, and record what was logged."""
    record = Record()
    trainer = make_trainer(folder, *callbacks, record, max_epochs=epochs, **options)
    module = make_module(options.get("namespace", "pytorch_lightning"), step)
    trainer.fit(module, make_loader(SENTENCES), make_loader(SENTENCES), ckpt_path=ckpt_path)
    return record


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_interval_of_each_epoch_is_logged(namespace: str, tmp_path: Path) -> None:
    bleu = make_callback(confidence=0.9)
    record = fit(tmp_path, bleu, epochs=3, namespace=namespace)
    for epoch, logged in enumerate(record.logged):
        interval = score_epoch(epoch).interval(0.9)
        assert (logged["val_bleu/low"], logged["val_bleu/high"]) == (interval.low, interval.high)
        assert logged["val_bleu/low"] < logged["val_bleu"] < logged["val_bleu/high"]
    assert bleu.intervals == {"val_bleu": score_epoch(2).interval(0.9)}
    assert isinstance(bleu.metric, CorpusBLEU)
    assert not bleu.metric.keep_sentences
    assert "val_bleu/p_value" not in record.logged[0]


def test_each_epoch_is_compared_with_the_best_before(tmp_path: Path) -> None:
    bleu = make_callback(compare_to_best=True)
    record = fit(tmp_path, bleu)
    metrics = [score_epoch(epoch) for epoch in range(len(RIGHT))]
    scores = [metric.compute().item() for metric in metrics]
    best, p_values = 0, [1.0]
    for epoch in range(1, len(RIGHT)):
        p_values.append(paired_bootstrap(metrics[epoch], metrics[best]).p_value)
        best = max(best, epoch, key=lambda e: scores[e])
    assert record.column("val_bleu/p_value") == p_values
    assert record.column("val_bleu/best") == [max(scores[: epoch + 1]) for epoch in range(len(RIGHT))]
    assert bleu.comparisons["val_bleu"].p_value == p_values[-1]
    assert min(p_values) < 0.05 < sorted(p_values)[-2]


def test_only_a_significant_gain_makes_a_new_best(tmp_path: Path) -> None:
    bleu = make_callback(significance_level=0.05)
    plain = EarlyStopping("val_bleu", mode="max", patience=3)
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_bleu/best", mode="max", filename="{epoch}")
    record = fit(tmp_path, bleu, plain, checkpoint)
    metrics = [score_epoch(epoch) for epoch in range(len(RIGHT))]
    best, expected, accepted = 0, [], [0]
    for epoch, metric in enumerate(metrics):
        test = paired_bootstrap(metric, metrics[best])
        if test.difference > 0 and test.p_value < 0.05:
            best = epoch
            accepted.append(epoch)
        expected.append(metrics[best].compute().item())
    assert record.column("val_bleu/best") == expected
    assert accepted == [0, 1]
    assert len(record.logged) == len(RIGHT)  # plain patience went on to the end
    assert Path(checkpoint.best_model_path).name == "epoch=1.ckpt"

    patience = EarlyStopping("val_bleu/best", mode="max", patience=3)
    stopped = fit(tmp_path, make_callback(significance_level=0.05), patience)
    assert len(stopped.logged) == 5  # the best is from the second epoch, three more change nothing


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_a_resumed_run_is_compared_with_the_best_before_it(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    options: dict[str, Any] = {"name": "score", "compare_to_best": True}
    whole = fit(tmp_path, make_callback(**options), epochs=6, namespace=namespace)
    for number, (epochs, path) in enumerate([(4, None), (6, tmp_path / "0" / "last.ckpt")]):
        other = BLEUCallback(CorpusBLEU(max_order=2, pad_id=PAD_ID), compare_to_best=True)  # keeps a best of its own
        checkpoint = callbacks.ModelCheckpoint(tmp_path / str(number), filename="last")
        run = [make_callback(**options), other, checkpoint]
        record = fit(tmp_path, *run, epochs=epochs, ckpt_path=path, namespace=namespace)
        start = 4 * number
        for name in ("val_score/p_value", "val_score/best"):
            assert record.column(name) == whole.column(name)[start:epochs]
    state = torch.load(tmp_path / "1" / "last.ckpt", weights_only=True)["callbacks"]
    kept = [value["best"] for key, value in state.items() if key.startswith("BLEUCallback")]
    # 60 sentences with 2 * max_order + 2 statistics each, after 4 columns that identify them
    assert {key: best.shape for part in kept for key, best in part.items()} == {
        "val_score": (60, 14),
        "val_bleu": (60, 10),
    }
    assert kept[0]["val_score"].dtype == torch.int32


def test_the_sanity_check_and_validate_and_test_do_not_change_the_best(tmp_path: Path) -> None:
    bleu, record = make_callback(confidence=0.95, compare_to_best=True), Record()
    trainer = make_trainer(tmp_path, bleu, record, max_epochs=1, num_sanity_val_steps=-1)
    loader = make_loader(SENTENCES)
    trainer.fit(make_module(step=step), loader, loader)
    assert record.logged[0]["val_bleu/p_value"] == 1
    best = score_epoch(0).compute().item()
    perfect = make_module(step=copy_target)
    (validated,) = trainer.validate(perfect, loader, verbose=False)
    assert validated["val_bleu/p_value"] < 0.01
    assert validated["val_bleu/best"] == 1
    (tested,) = trainer.test(perfect, loader, verbose=False)
    assert {"test_bleu/low", "test_bleu/high"} < set(tested)
    assert not {"test_bleu/p_value", "test_bleu/best"} & set(tested)
    assert kept_score(bleu) == best
    assert list(bleu.state_dict()["best"]) == ["val_bleu"]

    trainer = make_trainer(tmp_path, bleu, record := Record(), max_epochs=1)
    trainer.fit(perfect, loader, loader)  # only a fit replaces the best
    assert record.column("val_bleu/p_value") == [validated["val_bleu/p_value"]]
    assert kept_score(bleu) == 1


def test_a_checkpoint_that_is_validated_or_tested_does_not_change_the_best(tmp_path: Path) -> None:
    bleu = make_callback(compare_to_best=True)
    checkpoint = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    record = fit(tmp_path, bleu, checkpoint, epochs=3)
    best = max(record.column("val_bleu"))
    trainer = make_trainer(tmp_path, bleu)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checkpoint has the state of another callback
        trainer.test(make_module(step=step), make_loader(SENTENCES), ckpt_path=tmp_path / "epoch=0.ckpt", verbose=False)
    trainer.validate(make_module(step=step), make_loader(SENTENCES), verbose=False)
    assert trainer.callback_metrics["val_bleu/best"] == best


def test_the_sanity_check_is_not_compared_with_the_best_of_an_earlier_fit(tmp_path: Path) -> None:
    """It sees two batches, so a comparison would warn that the number of sentences has changed."""
    bleu = make_callback(compare_to_best=True)
    fit(tmp_path, bleu, epochs=1)
    best = kept_score(bleu)
    record = fit(tmp_path, bleu, epochs=1)
    assert record.column("val_bleu/best") == [best]
    assert kept_score(bleu) == best


def rename_settings(checkpoint: Path) -> None:
    """Give the settings in a checkpoint the names of older versions, which had a dict of special ids."""
    content = torch.load(checkpoint, weights_only=True)
    (state,) = (state for key, state in content["callbacks"].items() if key.startswith("BLEUCallback"))
    settings = state["settings"]["val_bleu"]
    special_ids = {name: settings.pop(name) for name in ("pad_id", "bos_id", "eos_id", "unk_id", "ignore_ids")}
    settings |= {"special_ids": special_ids | {"break_ngrams": False}, "break_ngrams": False, "percent": False}
    torch.save(content, checkpoint)


@pytest.mark.parametrize(
    ("options", "is_older", "names"),
    [({"eos_id": 2}, False, "eos_id"), ({}, True, "pad_id, bos_id, eos_id, ignore_ids, unk_id")],
    ids=["another option", "older checkpoint"],
)
def test_a_run_resumes_although_its_best_was_scored_with_other_settings(
    options: dict[str, Any], is_older: bool, names: str, tmp_path: Path
) -> None:
    first = make_callback(compare_to_best=True)
    second = BLEUCallback(CorpusBLEU(pad_id=PAD_ID, **options), compare_to_best=True)
    fit(tmp_path, first, ModelCheckpoint(tmp_path, filename="first"), epochs=1)
    if is_older:
        rename_settings(tmp_path / "first.ckpt")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        record = fit(tmp_path, second, epochs=3, ckpt_path=tmp_path / "first.ckpt")
    messages = [str(warning.message) for warning in warned]
    assert [message for message in messages if "best validation" in message] == [
        f"The best validation so far scored 'val_bleu' with different settings ({names}): they cannot be compared, "
        "so this validation counts as the first"
    ]
    assert record.column("val_bleu/p_value")[0] == 1
    assert record.column("val_bleu/best")[0] == record.column("val_bleu")[0]
    metrics = [score_epoch(epoch) for epoch in (1, 2)]  # there is no id 2
    assert record.column("val_bleu/p_value")[1] == paired_bootstrap(metrics[1], metrics[0]).p_value


@pytest.mark.parametrize("sentences", [0, 1])
def test_fewer_than_two_sentences_give_an_empty_interval_and_no_best(sentences: int, tmp_path: Path) -> None:
    bleu, record = make_callback(confidence=0.95, significance_level=0.05), Record()
    stopping = EarlyStopping("val_bleu/best", mode="max", patience=1)
    trainer = make_trainer(tmp_path, bleu, record, stopping)
    module = make_module(step=lambda batch, epoch: (batch[:sentences], batch[:sentences]))
    trainer.fit(module, make_loader(SENTENCES[:1]), make_loader(SENTENCES[:1]))
    for logged in record.logged:
        assert [logged[f"val_bleu/{name}"] for name in ("low", "high", "best")] == [logged["val_bleu"]] * 3
        assert logged["val_bleu"] == sentences
        assert logged["val_bleu/p_value"] == 1
    assert bleu.state_dict() == {}
