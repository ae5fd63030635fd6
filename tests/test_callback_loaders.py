"""Several validation loaders, each with a name, a score, and perhaps a metric of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.utilities import CombinedLoader
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU, corpus_bleu
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    SENTENCES,
    Record,
    expected_score,
    ignore_lightning_warnings,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    return_ids,
    return_text,
    validate,
)

pytestmark = ignore_lightning_warnings

FEW = SENTENCES[:3, :5]
SCORES = {"news": expected_score(), "talks": expected_score(0, FEW)}
"""The scores of :func:`make_loaders`."""
MEAN = (SCORES["news"].bleu + SCORES["talks"].bleu) / 2


def make_loaders() -> list[Any]:
    return [make_loader(), make_loader(FEW)]


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize(
    ("options", "loaders", "names"),
    [
        ({}, make_loaders, ["dataloader_idx_0", "dataloader_idx_1"]),
        ({}, lambda: dict(zip(["news", "talks"], make_loaders())), ["news", "talks"]),
        ({"dataloader_names": ["one", "two"]}, make_loaders, ["one", "two"]),
        ({"dataloader_names": ["one", "two"]}, lambda: dict(zip("ab", make_loaders())), ["one", "two"]),
    ],
    ids=["list", "dict", "given", "given for a dict"],
)
def test_each_loader_has_a_score_and_the_mean_has_the_plain_name(
    options: dict[str, Any], loaders: Callable[[], Any], names: list[str], namespace: str, tmp_path: Path
) -> None:
    bleu = make_callback(**options)
    logged = validate(tmp_path, bleu, loaders=loaders(), namespace=namespace)
    assert bleu.reports == {f"val_bleu/{name}": report for name, report in zip(names, SCORES.values())}
    assert [logged[f"val_bleu/{name}"] for name in names] == [report.bleu for report in SCORES.values()]
    assert logged["val_bleu"] == MEAN
    assert logged[f"val_bleu/{names[1]}/hypothesis_length"] == 3 * 5
    assert "val_bleu/precision_1" not in logged  # the mean has no parts


def test_names_are_found_in_a_combined_loader(tmp_path: Path) -> None:
    loaders = CombinedLoader(dict(zip([1, 2], make_loaders())), "sequential")
    logged = validate(tmp_path, make_callback(), loaders=loaders)
    assert [logged["val_bleu/1"], logged["val_bleu/2"]] == [report.bleu for report in SCORES.values()]


def test_a_single_loader_can_have_a_name(tmp_path: Path) -> None:
    for options, loaders in (({}, {"news": make_loader()}), ({"dataloader_names": ["news"]}, make_loader())):
        logged = validate(tmp_path, make_callback(**options), loaders=loaders)
        assert logged["val_bleu/news"] == logged["val_bleu"] == SCORES["news"].bleu


def test_loaders_that_lightning_reads_side_by_side_are_one(tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return return_ids(torch.cat([batch["a"], batch["b"]]), epoch)

    loaders = CombinedLoader({"a": make_loader(), "b": make_loader()}, "min_size")
    logged = validate(tmp_path, make_callback(), step=step, loaders=loaders)
    assert logged["val_bleu"] == SCORES["news"].bleu
    assert logged["val_bleu/hypothesis_length"] == 2 * SENTENCES.numel()


def test_each_loader_can_have_a_metric(tmp_path: Path) -> None:
    metrics = {"words": CorpusBLEU(tokenizer="none"), "letters": CorpusBLEU(tokenizer="char", max_order=2)}
    expected = {}
    for name, metric in metrics.items():
        expected[name] = corpus_bleu(
            *return_text(SENTENCES, 0), tokenizer=metric.settings.tokenizer, max_order=metric.settings.max_order
        )
    # In any order, and by the names of either.
    for loaders in ({"letters": make_loader(), "words": make_loader()}, [make_loader(), make_loader()]):
        bleu = BLEUCallback(metrics)
        logged = validate(tmp_path, bleu, step=return_text, loaders=loaders)
        assert bleu.reports == {f"val_bleu/{name}": report for name, report in expected.items()}
        assert logged["val_bleu"] == sum(report.bleu for report in expected.values()) / 2
        assert "val_bleu/letters/precision_2" in logged
        assert "val_bleu/letters/precision_3" not in logged
    for metric in metrics.values():
        assert metric.hypothesis_length == 0  # it is copied


def test_every_loader_needs_a_metric(tmp_path: Path) -> None:
    bleu = BLEUCallback({"news": CorpusBLEU(), "books": CorpusBLEU()})
    message = r"'metric' has the names \['news', 'books'\], but the loaders of 'val' are \['news', 'talks'\]"
    with pytest.raises(ValueError, match=message):
        validate(tmp_path, bleu, loaders=dict(zip(["news", "talks"], make_loaders())))


@pytest.mark.parametrize("name", ["val_bleu", "val_bleu/talks"])
def test_the_mean_and_each_score_can_be_monitored(name: str, tmp_path: Path) -> None:
    checkpoint, record = ModelCheckpoint(tmp_path, monitor=name, mode="max"), Record()
    trainer = make_trainer(tmp_path, make_callback(), checkpoint, EarlyStopping(name, mode="max"), record, max_epochs=2)
    trainer.fit(make_module(), make_loader(), dict(zip(["news", "talks"], make_loaders())))
    assert checkpoint.best_model_score == max(record.column(name))
    assert record.column("val_bleu") == [
        (expected_score(epoch).bleu + expected_score(epoch, FEW).bleu) / 2 for epoch in range(2)
    ]
    assert {"val_bleu", "val_bleu/news", "val_bleu/talks"} <= set(trainer.progress_bar_metrics)


def test_the_mean_of_the_best_scores_can_be_monitored(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> Any:
        """Better and better in the first loader, worse and worse in the second, whose sentences are shorter."""
        return return_ids(batch, epoch if batch.shape[1] == 8 else 1 - epoch)

    record = Record()
    bleu = make_callback(compare_to_best=True)
    trainer = make_trainer(tmp_path, bleu, record, EarlyStopping("val_bleu/best", mode="max"), max_epochs=2)
    trainer.fit(make_module(step=step), make_loader(), dict(zip(["news", "talks"], make_loaders())))
    scores = [(expected_score(epoch).bleu, expected_score(1 - epoch, FEW).bleu) for epoch in range(2)]
    best = max(scores, key=sum)  # that of one validation, rather than the best of each loader
    names = ("val_bleu/news/best", "val_bleu/talks/best")
    assert [*zip(*map(record.column, names))] == [scores[0], best]
    assert record.column("val_bleu/best") == [sum(scores[0]) / 2, sum(best) / 2]


@pytest.mark.parametrize(
    "extract",
    [
        lambda outputs, batch, dataloader_idx: (outputs["preds"], batch) if dataloader_idx else (batch, batch),
        lambda outputs, batch, index: {"preds": outputs["preds"] if index else batch, "target": batch, "other": 1},
    ],
)
def test_extract_may_take_the_index_of_the_loader(extract: Any, tmp_path: Path) -> None:
    bleu = make_callback(extract=extract)
    logged = validate(tmp_path, bleu, loaders=make_loaders())
    assert logged["val_bleu/dataloader_idx_0"] == 1  # the batch as its own translation
    assert logged["val_bleu/dataloader_idx_1"] == SCORES["talks"].bleu


def test_val_and_test_may_have_different_loaders(tmp_path: Path) -> None:
    bleu = make_callback()
    trainer, module = make_trainer(tmp_path, bleu, max_epochs=1), make_module()
    trainer.fit(module, make_loader(), {"a": make_loader(), "b": make_loader()})
    trainer.test(module, make_loader(), verbose=False)
    assert list(bleu.reports) == ["val_bleu/a", "val_bleu/b", "test_bleu"]
    assert PAD_ID not in SENTENCES
