"""Subsets: several validation loaders, and groups of sentences; their names, and what is required."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from pytorch_lightning.utilities import CombinedLoader
from sacrebleu.metrics.ter import TER
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
from tests.helpers.files import read_files
from tests.helpers.lightning import (
    PAD_ID,
    SENTENCES,
    PanelLogger,
    Record,
    collect_warnings,
    expected_score,
    find_reports,
    fit,
    make_callback,
    make_loader,
    read_events,
    return_ids,
    return_text,
    translate,
    validate,
)

FEW = SENTENCES[:3, :5]
SCORES = [expected_score(), expected_score(0, FEW)]
"""The scores of :func:`make_loaders`."""


def make_loaders(*names: str) -> Any:
    """Two loaders, perhaps with names."""
    loaders = [make_loader(), make_loader(FEW)]
    return dict(zip(names, loaders)) if names else loaders


# Loaders


@pytest.mark.parametrize(
    ("options", "loaders", "names"),
    [
        ({}, make_loaders, ["dataloader_idx_0", "dataloader_idx_1"]),
        ({}, lambda: make_loaders("news", "talks"), ["news", "talks"]),
        ({}, lambda: CombinedLoader(dict(zip([1, 2], make_loaders())), "sequential"), ["1", "2"]),
        ({"dataloader_names": ["one", "two"]}, make_loaders, ["one", "two"]),
        ({"dataloader_names": ["one", "two"]}, lambda: make_loaders("a", "b"), ["one", "two"]),
    ],
    ids=["list", "dict", "combined", "given", "given for a dict"],
)
def test_each_loader_has_a_score_and_the_mean_has_the_plain_name(
    options: dict[str, Any], loaders: Callable[[], Any], names: list[str], tmp_path: Path
) -> None:
    bleu = make_callback(**options)
    logged = validate(tmp_path, bleu, loaders=loaders())
    assert find_reports(bleu) == {f"val_bleu/{name}": report for name, report in zip(names, SCORES)}
    assert logged["val_bleu"] == bleu.results["val_bleu"].score == (SCORES[0].bleu + SCORES[1].bleu) / 2
    assert logged[f"val_bleu/{names[1]}/hypothesis_length"] == 3 * 5
    assert "val_bleu/precision_1" not in logged  # the mean has no parts


def test_loaders_that_lightning_reads_side_by_side_are_one(tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return return_ids(torch.cat([batch["a"], batch["b"]]), epoch)

    loaders = CombinedLoader({"a": make_loader(), "b": make_loader()}, "min_size")
    logged = validate(tmp_path, make_callback(), step=step, loaders=loaders)
    assert logged["val_bleu"] == SCORES[0].bleu
    assert logged["val_bleu/hypothesis_length"] == 2 * SENTENCES.numel()


def test_extract_may_take_the_index_of_the_loader(tmp_path: Path) -> None:
    def extract(outputs: Any, batch: Tensor, dataloader_idx: int) -> tuple[Tensor, Tensor]:
        return (outputs["preds"], batch) if dataloader_idx else (batch, batch)

    logged = validate(tmp_path, make_callback(extract=extract), loaders=make_loaders())
    assert logged["val_bleu/dataloader_idx_0"] == 1  # the batch as its own translation
    assert logged["val_bleu/dataloader_idx_1"] == SCORES[1].bleu


@pytest.mark.parametrize("returned", [None, 5.0, {"loss": 1.0}, ("a", "b"), {"preds": [1], "target": "x", "group": 5}])
def test_the_steps_of_a_loader_without_metrics_return_anything(returned: Any, tmp_path: Path) -> None:
    def step(batch: Any, epoch: int) -> Any:
        return return_ids(batch, epoch) if len(batch) > 1 else returned

    def extract(outputs: Any, batch: Tensor, dataloader_idx: int) -> Any:
        assert dataloader_idx == 0
        return outputs

    loaders = {"gen": make_loader(), "other": make_loader(SENTENCES[:3], batch_size=1)}
    metrics = {"bleu": {"gen": CorpusBLEU(pad_id=PAD_ID), "other": None}}
    for function in (None, extract):
        folder = tmp_path / f"{function is None}"
        bleu = BLEUCallback(metrics, extract=function, translations=folder, confidence=0.9, compare_to="best")
        logged = validate(tmp_path, bleu, step=step, loaders=loaders)
        assert logged["val_bleu"] == logged["val_bleu/gen"] == SCORES[0].bleu
        assert not [name for name in logged if "other" in name]
        assert [path.name for path in (folder / "val").iterdir()] == ["gen"]


# Groups


def group_of(sentence: Tensor) -> str:
    """The group of a sentence."""
    return "rare" if torch.equal(sentence, SENTENCES[1]) else "odd" if sentence[0] % 2 else "even"


GROUPS = {name: [one for one in SENTENCES if group_of(one) == name] for name in ("even", "odd", "rare")}


def return_sentences(batch: Tensor, epoch: int) -> dict[str, Any]:
    preds, target = return_text(batch, epoch)
    return {"preds": preds, "target": target, "source": [line[::-1] for line in target]}


def return_groups(batch: Tensor, epoch: int) -> dict[str, Any]:
    return {**return_sentences(batch, epoch), "group": [group_of(sentence) for sentence in batch]}


def test_groups_score_and_write_like_one_loader_each(tmp_path: Path) -> None:
    found = []
    loaders = {name: make_loader(sentences, batch_size=4) for name, sentences in GROUPS.items()}
    for kind, step, data in (("groups", return_groups, make_loader()), ("loaders", return_sentences, loaders)):
        metrics: dict[str, Any] = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "ter": TER()}
        bleu = BLEUCallback(metrics, translations=tmp_path / kind, confidence=0.9, compare_to="best")
        trainer = fit(tmp_path, bleu, step=step, loaders=data, logger=PanelLogger(tmp_path), max_epochs=2)
        files = read_files(tmp_path / kind)
        found.append((bleu.results, trainer.callback_metrics, files, trainer.logger.panels, trainer.logger.worst))
    groups, loaders_alone = found
    assert groups[3:] == loaders_alone[3:]
    # All groups have a score and a line besides, and no file.
    unions = {tag for tag in groups[1] if "/all" in tag}
    assert {"val_bleu/all/precision_1", "val_chrf/all/p_value", "val_ter/all"} < unions
    for own, of_loaders in zip(groups[:2], loaders_alone[:2]):
        assert {tag: value for tag, value in own.items() if tag not in unions} == of_loaders
    scores = "scores.jsonl"
    lines = groups[2][scores].splitlines()
    assert [line for line in lines if b'/all"' not in line] == loaders_alone[2][scores].splitlines()
    assert groups[2] | {scores: b""} == loaders_alone[2] | {scores: b""}
    assert "val/rare/src.txt" in groups[2]
    assert len(found[0][3]) == len(found[0][4]) == 2 * 3


def test_a_group_with_the_name_of_another_loader_needs_a_metric_of_its_own(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return return_sentences(batch, epoch) | {"group": ["de" if one[0] % 2 else "zh" for one in batch]}

    def run(*labels: str) -> Any:
        metrics = {"bleu": {label: CorpusBLEU(max_order=1 + number) for number, label in enumerate(labels)}}
        return validate(tmp_path, BLEUCallback(metrics), step=step, loaders=make_loaders("de", "zh"))

    with pytest.raises(ValueError, match=r"^'zh' of 'bleu' is a loader, and also a group of 'de': add 'de/zh', or"):
        run("de", "zh")
    logged = run("de", "zh", "de/zh", "zh/de")
    orders = {f"val_bleu/{one}": order for one, order in {"de/de": 1, "de/zh": 3, "zh/de": 4, "zh/zh": 2}.items()}
    for tag, order in orders.items():
        assert f"{tag}/precision_{order}" in logged
        assert f"{tag}/precision_{order + 1}" not in logged


def test_without_a_subset_the_best_so_far_stays(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        """Better in each epoch, and without a group in two of them."""
        kept = [one for one in batch if epoch not in (1, 3) or group_of(one) != "odd"]
        return return_groups(torch.stack(kept), epoch // 2) if kept else {"preds": [], "target": []}

    bleu = BLEUCallback(significance_level=0.05, confidence=0.9)
    record = Record(bleu)
    message = "This validation has no sentences of ['val_bleu/odd'], unlike the best validation so far: they"
    assert len(collect_warnings(fit, tmp_path, bleu, record, step=step, max_epochs=5, message=message)) == 1
    for epoch in (1, 3):
        assert [*record.results[epoch]] == ["val_bleu/even", "val_bleu/rare", "val_bleu/all", "val_bleu"]
        assert {(one.best, one.comparison) for one in record.results[epoch].values()} == {(None, None)}
    assert all(one.interval is not None for results in record.results for one in results.values())
    first, _, third, _, last = (results["val_bleu"] for results in record.results)
    assert third.comparison is not None
    assert third.comparison.score_b == first.score == first.best
    assert first.score < third.score < last.score == last.best
    (*_, last_all) = (results["val_bleu/all"] for results in record.results)
    assert last_all.best == last_all.score
    assert last_all.comparison is not None
    assert last_all.comparison.score_b == record.results[2]["val_bleu/all"].score


@pytest.mark.parametrize("subsets", [20, 21])
def test_more_than_20_subsets_have_scores_only(subsets: int, tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return return_sentences(batch, epoch) | {"group": [f"{int(one[0] * 9 + one[1]) % subsets}" for one in batch]}

    sentences = torch.cartesian_prod(*[torch.arange(9)] * 2).repeat(1, 4)
    metrics = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}
    bleu = BLEUCallback(metrics, confidence=0.9, compare_to="best", translations=tmp_path / "t")
    logger = TensorBoardLogger(tmp_path)
    logged = validate(tmp_path, bleu, step=step, loaders=make_loader(sentences), logger=logger)
    tags = [f"val_{name}/{subset}" for name in metrics for subset in range(subsets)]
    compared = [f"/{part}" for part in ("best", "difference", "difference_low", "difference_high", "p_value")]
    means = [f"val_{name}{part}" for name in metrics for part in ("", "/low", "/high", *compared)]
    unions = [f"val_{name}/all{part}" for name in metrics for part in ("", "/low", "/high", *compared)]
    unions += [f"val_bleu/all/{component.name}" for component in bleu.results["val_bleu/all"].components]
    unions += [f"val_chrf/all/{component.name}" for component in bleu.results["val_chrf/all"].components]
    events = read_events(Path(logger.log_dir))
    shown = {*events.Tags()["tensors"], *events.Tags()["images"], *events.Tags()["histograms"]}
    layout = events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0].decode(errors="replace")
    assert {*tags, *means, *unions} <= {*logged}
    assert {"val_bleu/all/precision_1", "val_chrf/all/recall"} < {*unions}
    assert "val_bleu/all" in layout
    if subsets == 20:
        assert {"val_bleu/7/precision_1", "val_chrf/7/low", "val_bleu/7/best"} < {*logged}
        assert {"val_worst/7/text_summary", "val_bleu/7/lengths"} < shown
        assert "val_bleu/7" in layout
    else:
        assert {*tags, *means, *unions} == {*logged}
        assert shown == {"custom_scalars__config__"}
        assert "val_bleu/7" not in layout
    assert not [tag for tag in shown if "/all" in tag]
    assert len([*(tmp_path / "t").rglob("ref.txt")]) == subsets
    assert bleu.results["val_bleu/7"].interval is not None


@pytest.mark.parametrize(("groups", "has_logger"), [(0, False), (1, False), (2, False), (0, True)])
def test_ids_are_decoded_once_per_batch_and_of_the_sources_only_what_is_shown_or_examined(
    groups: int, has_logger: bool, tmp_path: Path
) -> None:
    calls: list[int] = []

    def decode(rows: list[list[int]]) -> list[str]:
        calls.append(len(rows))
        return [" ".join(map(str, row)) for row in rows]

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        output = {"preds": translate(batch, epoch), "target": batch, "source": batch.flip(0)}
        return output | ({"group": [f"{number % groups}" for number in range(len(batch))]} if groups else {})

    sentences = SENTENCES.repeat(10, 1)[:350]
    bleu = BLEUCallback(CorpusBLEU(pad_id=PAD_ID, decoder=decode))
    logger = CSVLogger(tmp_path) if has_logger else False  # which shows no texts
    validate(tmp_path, bleu, step=step, loaders=make_loader(sentences, batch_size=50), logger=logger)
    # Hypotheses and references of 7 batches; then sources of those that are examined for mistakes, 64 per group, and of
    # samples: the first 8, and the worst 8.
    assert calls[:7] == [100] * 7
    assert max(1, groups) * (64 + 8) <= sum(calls[7:]) <= max(1, groups) * (64 + 16)
