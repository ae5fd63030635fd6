"""Groups: several languages in one loader score like one loader per language."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from sacrebleu.metrics.ter import TER
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF
from lightning_bleu.training.stage import read_labels
from tests.helpers.lightning import (
    PAD_ID,
    SENTENCES,
    Items,
    Record,
    Step,
    as_lines,
    collect_warnings,
    ignore_lightning_warnings,
    make_loader,
    make_module,
    make_trainer,
    translate,
    validate,
)
from tests.helpers.processes import validate_in_processes

pytestmark = ignore_lightning_warnings

SIZE = 37
RARE = Items(SIZE)[1]
"""A sentence that the second of two processes has."""


def label(sentence: Tensor) -> str:
    """The group of a sentence."""
    return "rare" if torch.equal(sentence, RARE) else "odd" if sentence[0] % 2 else "even"


ITEMS = [*Items(SIZE).sentences]
LABELS = sorted({*map(label, ITEMS)})
LOADERS = {name: [one for one in ITEMS if label(one) == name] for name in LABELS}


def return_sentences(batch: Tensor, epoch: int) -> dict[str, Any]:
    lines = as_lines(batch)
    return {"preds": as_lines(translate(batch, epoch)), "target": lines, "source": [line[::-1] for line in lines]}


def return_groups(batch: Tensor, epoch: int) -> dict[str, Any]:
    return {**return_sentences(batch, epoch), "group": [label(sentence) for sentence in batch]}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_bleu(folder: Path, **options: Any) -> BLEUCallback:
    others = {"chrf": CorpusCHRF(), "ter": TER()}
    return BLEUCallback(CorpusBLEU(), others, translations=folder, confidence=0.9, compare_to_best=True, **options)


def test_groups_score_like_one_loader_each(tmp_path: Path) -> None:
    assert LABELS == ["even", "odd", "rare"]
    logged, reports, files = {}, {}, {}
    steps: dict[str, tuple[Step, Any]] = {
        "groups": (return_groups, make_loader(Items(SIZE))),
        "loaders": (return_sentences, {name: make_loader(one, batch_size=4) for name, one in LOADERS.items()}),
    }
    for kind, (step, loaders) in steps.items():
        bleu = make_bleu(tmp_path / kind)
        record = Record(bleu)
        trainer = make_trainer(tmp_path, bleu, record, max_epochs=2)
        trainer.fit(make_module(step=step), make_loader(), loaders)
        logged[kind] = {key: value.item() for key, value in trainer.callback_metrics.items()}
        reports[kind], files[kind] = bleu.reports, contents(tmp_path / kind)
    assert logged["groups"] == logged["loaders"]
    assert list(logged["groups"])[:4] == [*(f"val_bleu/{name}" for name in LABELS), "val_bleu"]
    assert {"val_bleu/odd/low", "val_bleu/best", "val_chrf/rare/p_value", "val_ter/even"} < logged["groups"].keys()
    assert reports["groups"] == reports["loaders"]
    assert files["groups"] == files["loaders"]
    assert "val_bleu/rare/src.txt" in files["groups"]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_groups_of_several_processes_score_like_one_loader_each(processes: int, tmp_path: Path) -> None:
    contents_of: list[Any] = []
    for step, loaders in (
        (return_groups, {"": make_loader(Items(SIZE))}),
        (return_sentences, {name: make_loader(one) for name, one in LOADERS.items()}),
    ):
        folder = tmp_path / str(len(contents_of))
        folder.mkdir()
        names = None if "" in loaders else [*loaders]
        options = {"metric": CorpusBLEU(), "dataloader_names": names, "confidence": 0.9}
        contents_of.append(
            validate_in_processes(
                processes,
                loaders,
                folder,
                step=step,
                callback_options=options | {"translations": folder / "texts", "others": {"chrf": CorpusCHRF()}},
            )
        )
    assert contents(tmp_path / "0/texts") == contents(tmp_path / "1/texts")
    for ours, theirs in zip(*contents_of):
        assert ours["logged"] == theirs["logged"]
        assert ours["reports"] == theirs["reports"]
        assert ours["warnings"] == theirs["warnings"] == []


def test_each_group_can_have_a_metric(tmp_path: Path) -> None:
    metrics = {"odd": CorpusBLEU(max_order=2), "rare": CorpusBLEU(tokenizer="char"), "even": CorpusBLEU()}
    bleu, expected = BLEUCallback(metrics), BLEUCallback(metrics)
    logged = validate(tmp_path, bleu, step=return_groups, loaders=make_loader(Items(SIZE)))
    loaders = {name: make_loader(LOADERS[name]) for name in metrics}
    assert logged == validate(tmp_path, expected, step=return_sentences, loaders=loaders)
    assert bleu.reports == expected.reports
    assert [*bleu.reports] == [f"val_bleu/{name}" for name in metrics]  # in this order


def test_a_group_with_a_metric_and_without_sentences_scores_0(tmp_path: Path) -> None:
    metrics = {name: CorpusBLEU() for name in (*LABELS, "none")}
    logged = validate(tmp_path, BLEUCallback(metrics), step=return_groups, loaders=make_loader(Items(SIZE)))
    assert logged["val_bleu/none"] == 0
    assert logged["val_bleu"] == pytest.approx(sum(logged[f"val_bleu/{name}"] for name in LABELS) / 4)


def test_a_loader_has_the_groups_that_it_has_sentences_of(tmp_path: Path) -> None:
    loaders = {"odd": make_loader(LOADERS["odd"]), "even": make_loader(LOADERS["even"])}
    bleu = BLEUCallback({"odd": CorpusBLEU(), "even": CorpusBLEU()})
    logged = validate(tmp_path, bleu, step=return_groups, loaders=loaders)
    assert [*bleu.reports] == ["val_bleu/odd/odd", "val_bleu/even/even"]
    assert logged["val_bleu"] == pytest.approx((logged["val_bleu/odd/odd"] + logged["val_bleu/even/even"]) / 2)


def test_a_group_of_masked_sentences_does_not_exist(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        output = return_groups(batch, epoch)
        return output | {"sample_mask": [name != "odd" for name in output["group"]]}

    bleu = BLEUCallback()
    validate(tmp_path, bleu, step=step, loaders=make_loader(Items(SIZE)))
    assert [*bleu.reports] == ["val_bleu/even", "val_bleu/rare"]


def test_a_group_that_vanishes_has_no_report(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        kept = [one for one in batch if not epoch or label(one) != "odd"]
        return return_groups(torch.stack(kept), epoch) if kept else {"preds": [], "target": []}

    bleu, tags = BLEUCallback(confidence=0.9), []

    class Watch(Record):
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            tags.append(([*bleu.reports], [*bleu.intervals]))

    trainer = make_trainer(tmp_path, bleu, Watch(), max_epochs=2, num_sanity_val_steps=0)
    trainer.fit(make_module(step=step), make_loader(), make_loader(Items(SIZE)))
    assert tags[0][0] == ["val_bleu/even", "val_bleu/odd", "val_bleu/rare"]
    assert tags[1][0] == ["val_bleu/even", "val_bleu/rare"]
    assert {*tags[1][1]} == {"val_bleu", *tags[1][0]}


@pytest.mark.parametrize("group", [{}, {"group": []}])
def test_an_epoch_without_sentences_scores_0_in_each_group_that_has_a_metric(
    group: dict[str, Any], tmp_path: Path
) -> None:
    bleu = BLEUCallback({"fr": CorpusBLEU(), "zh": CorpusBLEU()})
    logged = validate(tmp_path, bleu, step=lambda batch, epoch: {"preds": [], "target": [], **group})
    assert (logged["val_bleu/fr"], logged["val_bleu/zh"], logged["val_bleu"]) == (0, 0, 0)


def test_chinese_and_french_in_one_batch_need_their_tokenizers_only(tmp_path: Path) -> None:
    pairs = [("今天天气很好。", "今天天气真好。", "zh"), ("il fait très froid", "il fait froid ici", "fr")] * 3

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        preds, target, group = batch
        return {"preds": [*preds], "target": [*target], "group": [*group]}

    def run(**metrics: CorpusBLEU) -> None:
        validate(tmp_path, BLEUCallback(metrics), step=step, loaders=make_loader(pairs, batch_size=2))

    run(fr=CorpusBLEU(), zh=CorpusBLEU(tokenizer="zh"))  # warnings are errors
    message = "The references are Chinese or Japanese"
    assert len(collect_warnings(run, fr=CorpusBLEU(), zh=CorpusBLEU(), message=message)) == 1


def test_several_loaders_can_have_groups(tmp_path: Path) -> None:
    loaders = {"news": make_loader(Items(SIZE)), "talks": make_loader(LOADERS["odd"])}
    bleu = BLEUCallback(CorpusBLEU(), translations=tmp_path / "texts")
    logged = validate(tmp_path, bleu, step=return_groups, loaders=loaders)
    names = ["news/even", "news/odd", "news/rare", "talks/odd"]
    assert [*bleu.reports] == [f"val_bleu/{name}" for name in names]
    assert logged["val_bleu"] == pytest.approx(sum(logged[f"val_bleu/{name}"] for name in names) / 4)
    assert logged["val_bleu/news/odd"] == logged["val_bleu/talks/odd"]
    assert {path.parent.relative_to(tmp_path / "texts").as_posix() for path in tmp_path.rglob("ref.txt")} == {
        f"val_bleu/{name}" for name in names
    }


def test_masks_and_positions_apply_before_the_split(tmp_path: Path) -> None:
    sentences = torch.tensor(sorted({*map(tuple, Items(SIZE).sentences.tolist())}))

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        twice = torch.cat([batch, batch, batch])  # the second time masked, the third time repeated
        positions = (sentences[:, None] == twice).all(2).long().argmax(0)
        mask = [True] * len(batch) + [False] * len(batch) + [True] * len(batch)
        return return_groups(twice, epoch) | {"index": positions, "sample_mask": mask}

    loader = make_loader(sentences, batch_size=3)
    logged = validate(tmp_path, BLEUCallback(CorpusBLEU()), step=step, loaders=loader)
    assert logged == validate(tmp_path, BLEUCallback(CorpusBLEU()), step=return_groups, loaders=loader)


def test_ids_are_decoded_once_per_batch(tmp_path: Path) -> None:
    calls = []

    def decode(rows: list[list[int]]) -> list[str]:
        calls.append(len(rows))
        return [" ".join(map(str, row)) for row in rows]

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        groups = [f"group {number % 5}" for number in range(len(batch))]
        return {"preds": translate(batch, epoch), "target": batch, "group": groups}

    bleu = BLEUCallback(CorpusBLEU(pad_id=PAD_ID, decoder=decode))
    validate(tmp_path, bleu, step=step, loaders=make_loader(SENTENCES[:14]))
    assert calls == [14, 14]  # hypotheses and references of two batches


def test_the_score_of_a_group_can_be_monitored(tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_bleu/odd", mode="max")
    trainer = make_trainer(tmp_path, BLEUCallback(), checkpoint, max_epochs=2)
    trainer.fit(make_module(step=return_groups), make_loader(), make_loader(Items(SIZE)))
    assert checkpoint.best_model_score == trainer.callback_metrics["val_bleu/odd"]


def fail(folder: Path, bleu: BLEUCallback, group: Any, error: type[Exception], message: str) -> None:
    """A step that returns these groups must fail, before anything is counted."""

    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return {**return_sentences(batch, epoch), "group": group(batch) if callable(group) else group}

    with pytest.raises(error, match=f"^{re.escape(message)}"):
        validate(folder, bleu, step=step)
    assert bleu._stage is not None
    for groups in bleu._stage._groups:
        assert all(evaluation.metric.update_count == 0 for evaluation in groups.values())


@pytest.mark.parametrize(
    ("group", "error", "message"),
    [
        (lambda batch: ["a"] * (len(batch) - 1), ValueError, "'group' must hold one label per sentence, got 6 for 7"),
        (lambda batch: ["a", None] * 4, TypeError, "'group' must hold a string per sentence, the label of its group"),
        (lambda batch: torch.zeros(len(batch)), TypeError, "'group' must hold a string per sentence"),
        ("fr", TypeError, "'group' must hold a string per sentence, the label of its group, got 'fr'"),
        (lambda batch: ["a", "best", "b", "b", "b", "b", "b"], ValueError, "the groups cannot have the name 'best'"),
        (lambda batch: [""] * len(batch), ValueError, "the groups cannot have the name '', which is reserved"),
        (lambda batch: ["a", "a/b"] + ["c"] * 5, ValueError, "the names 'a' and 'a/b' of the groups clash"),
    ],
)
def test_wrong_groups_are_errors(group: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    fail(tmp_path, BLEUCallback(), group, error, message)


def test_a_group_without_a_metric_is_an_error(tmp_path: Path) -> None:
    bleu = BLEUCallback({"fr": CorpusBLEU(), "zh": CorpusBLEU()})
    message = "'metric' has no metric for the group 'de', only for ['fr', 'zh']"
    fail(tmp_path, bleu, lambda batch: ["fr", "de"] + ["zh"] * 5, ValueError, message)


def test_metrics_of_groups_must_read_alike(tmp_path: Path) -> None:
    bleu = BLEUCallback({"fr": CorpusBLEU(pad_id=0), "zh": CorpusBLEU(pad_id=1)})
    fail(tmp_path, bleu, lambda batch: ["fr"] * len(batch), ValueError, "the metrics of groups must have the same")
    alike = BLEUCallback({"odd": CorpusBLEU(lowercase=True), "even": CorpusBLEU(), "rare": CorpusBLEU(max_order=2)})
    validate(tmp_path, alike, step=return_groups)


def test_metrics_of_groups_need_groups(tmp_path: Path) -> None:
    bleu = BLEUCallback({"fr": CorpusBLEU(), "zh": CorpusBLEU()})
    with pytest.raises(
        ValueError, match=r"'metric' has the names \['fr', 'zh'\], but the loaders of 'val' are without"
    ):
        validate(tmp_path, bleu, step=return_sentences)


def test_all_batches_must_have_groups_or_none(tmp_path: Path) -> None:
    for first in (True, False):
        answers = iter([first, not first])

        def step(batch: Tensor, epoch: int, answers: Any = answers) -> dict[str, Any]:
            return return_groups(batch, epoch) if next(answers) else return_sentences(batch, epoch)

        with pytest.raises(ValueError, match="'validation_step' returned a 'group' for some batches only"):
            validate(tmp_path, BLEUCallback(), step=step)


class Language(str, enum.Enum):
    ODD, EVEN, RARE = "odd", "even", "rare"


@pytest.mark.parametrize("make", [Language, np.str_], ids=str)
def test_labels_may_be_of_a_subclass_of_strings(make: Any, tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        output = return_groups(batch, epoch)
        return output | {"group": [make(name) for name in output["group"]]}

    loader = make_loader(Items(SIZE))
    logged = validate(tmp_path, BLEUCallback(), step=step, loaders=loader)
    assert logged == validate(tmp_path, BLEUCallback(), step=return_groups, loaders=loader)
    assert logged["val_bleu"] > 0


def test_labels_are_read_from_any_container() -> None:
    assert read_labels((label for label in ("a", "b")), 2) == ["a", "b"]
    assert read_labels(["a"], 1) == ["a"]
