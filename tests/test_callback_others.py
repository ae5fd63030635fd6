"""Metrics beside BLEU in the callback: the same sentences, in real trainers."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.text import ROUGEScore, TranslationEditRate

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, paired_bootstrap
from tests.helpers.lightning import (
    NAMESPACES,
    SENTENCES,
    Record,
    ToyModule,
    collect_warnings,
    ignore_lightning_warnings,
    make_loader,
    make_module,
    make_trainer,
    return_ids,
    translate,
    validate,
)
from tests.helpers.others import (
    MAKE,
    RIGHT,
    Fingerprint,
    corpus_of,
    expected_others,
    make_others,
    of_others,
    return_corpus,
    score_alone,
)
from tests.helpers.processes import validate_in_processes

pytestmark = ignore_lightning_warnings

ITEMS: Any = range(23)
"""The sentences of most tests; a range is not a Dataset for mypy."""

SETS: dict[str, Any] = {"news": ITEMS, "talks": range(100, 105)}


def make_callback(**others: Any) -> BLEUCallback:
    """A callback with these metrics beside BLEU."""
    return BLEUCallback(others=others)


def make_loaders(sets: dict[str, Any] = SETS) -> dict[str, Any]:
    return {name: make_loader(items) for name, items in sets.items()}


def fit(folder: Path, *callbacks: Any, loaders: Any = None, ckpt_path: Path | None = None, **options: Any) -> Any:
    """The trainer after a fit of as many epochs as the toy module has translations for."""
    trainer = make_trainer(folder, *callbacks, **{"max_epochs": len(RIGHT)} | options)
    loaders = make_loader(ITEMS) if loaders is None else loaders
    trainer.fit(make_module(step=return_corpus), make_loader(ITEMS), loaders, ckpt_path=ckpt_path)
    return trainer


def count_chrf(epoch: int = 0, items: Any = ITEMS, **options: Any) -> CorpusCHRF:
    """A metric that has counted the sentences of an epoch."""
    metric = CorpusCHRF(**{"word_order": 2} | options, keep_sentences=True)
    metric.update(*corpus_of(items, epoch))
    return metric


# Scores of metrics of other packages


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_metric_scores_what_it_would_score_alone(namespace: str, tmp_path: Path) -> None:
    logged = validate(
        tmp_path,
        BLEUCallback(others=make_others()),
        step=return_corpus,
        loaders=make_loader(ITEMS),
        namespace=namespace,
    )
    assert of_others(logged) == expected_others("val", {"": ITEMS})
    assert {"val_ter", "val_rouge/rouge2_precision", "val_both/TranslationEditRate"} <= logged.keys()
    assert "val_rouge" not in logged


def test_each_loader_has_a_score_and_the_mean_has_the_plain_name(tmp_path: Path) -> None:
    bleu = BLEUCallback(others=make_others())
    logged = validate(tmp_path, bleu, step=return_corpus, loaders=make_loaders())
    assert of_others(logged) == pytest.approx(expected_others("val", SETS), rel=1e-15)
    assert {"val_ter/news", "val_ter", "val_rouge/talks/rouge1_recall", "val_rouge/rouge1_recall"} <= logged.keys()
    named = BLEUCallback(others={"ter": TER()}, dataloader_names=["one"])
    logged = validate(tmp_path, named, step=return_corpus, loaders=make_loader(ITEMS))
    assert logged["val_ter"] == logged["val_ter/one"]


def test_a_test_has_scores_of_its_own(tmp_path: Path) -> None:
    bleu = BLEUCallback(others=make_others() | {"chrf": CorpusCHRF(word_order=2)}, compare_to_best=True)
    trainer = make_trainer(tmp_path, bleu)
    (tested,) = trainer.test(make_module(step=return_corpus), make_loader(ITEMS), verbose=False)
    assert tested.pop("test_chrf") == count_chrf().compute().item()
    assert {key for key in tested if key.startswith("test_chrf/")} == {"test_chrf/precision", "test_chrf/recall"}
    assert of_others(tested) == expected_others("test", {"": ITEMS})


def return_some(batch: Tensor, epoch: int) -> dict[str, Any]:
    """Every third sentence does not count."""
    preds, target = corpus_of(batch.tolist(), epoch)
    return {"preds": preds, "target": target, "sample_mask": batch % 3 > 0}


def return_some_numbered(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same, with the positions."""
    return return_some(batch, epoch) | {"index": batch}


def counted(items: Any) -> list[int]:
    """The sentences that count."""
    return [item for item in items if item % 3]


@pytest.mark.filterwarnings("ignore:.*sampler has shuffling enabled")
def test_only_sentences_that_count_are_scored_in_the_order_of_their_positions(tmp_path: Path) -> None:
    expected = expected_others("val", {"": counted(ITEMS)})
    for options in ({"sampler": [*ITEMS, 4, 2]}, {"shuffle": True}):  # the index of a repeat counts once
        logged = validate(
            tmp_path,
            BLEUCallback(others=make_others()),
            step=return_some_numbered,
            loaders=make_loader(ITEMS, **options),
        )
        assert of_others(logged) == expected
    in_order = validate(
        tmp_path, BLEUCallback(others=make_others()), step=return_some, loaders=make_loader(ITEMS, batch_size=4)
    )
    assert of_others(in_order) == expected


@pytest.mark.slow
@pytest.mark.parametrize("step", [return_some, return_some_numbered])
def test_two_processes_score_what_one_would(step: Any, tmp_path: Path) -> None:
    """Also if one of them has no sentence, or a repeat of the sampler."""
    sets = {"many": ITEMS, "one": [4]}
    others = make_others() | {"chrf": CorpusCHRF(word_order=2)}
    options = {"others": others, "confidence": 0.9, "translations": tmp_path / "t"}
    contents = validate_in_processes(2, make_loaders(sets), tmp_path, step=step, callback_options=options)
    expected = expected_others("val", {name: counted(items) for name, items in sets.items()})
    chrf = count_chrf(items=counted(ITEMS))
    for content in contents:
        assert of_others(content["logged"]) == pytest.approx(expected, rel=1e-15)
        assert content["logged"]["val_order/many"] == expected["val_order/many"]  # crc32 has no neighbors
        assert content["reports"]["val_chrf/many"] == chrf.report()
        assert content["logged"]["val_chrf/many"] == chrf.compute().item()
        assert content["intervals"]["val_chrf/many"] == chrf.interval(0.9)
    lines = [json.loads(line) for line in (tmp_path / "t" / "scores.jsonl").read_text().splitlines()]
    assert len(lines) == 3 * (2 + len(MAKE))  # once for both


def test_a_metric_is_copied(tmp_path: Path) -> None:
    chrf, ter = CorpusCHRF(), TER()
    edit_rate: Any = TranslationEditRate()
    chrf.update(["a b"], ["a b"])
    edit_rate.update(["a b"], [["a b"]])
    before = pickle.dumps(ter)
    bleu = make_callback(chrf=chrf, edit_rate=edit_rate, ter=ter)
    logged = validate(tmp_path, bleu, step=return_corpus, loaders=make_loader(ITEMS))
    assert logged["val_chrf"] == count_chrf(word_order=0).compute().item()
    assert logged["val_edit_rate"] == expected_others("val", {"": ITEMS})["val_edit_rate"]
    assert [chrf.compute().item(), chrf.keep_sentences, edit_rate.compute().item()] == [1, False, 0]
    assert pickle.dumps(ter) == before


# chrF


def test_chrf_has_all_that_bleu_has(tmp_path: Path) -> None:
    bleu = BLEUCallback(
        others={"chrf": CorpusCHRF(word_order=2)},
        confidence=0.9,
        compare_to_best=True,
        translations=tmp_path / "t",
    )
    record = Record(bleu)
    trainer = fit(tmp_path, bleu, record)
    metrics = [count_chrf(epoch) for epoch in range(3)]
    scores = [metric.compute().item() for metric in metrics]
    assert scores[1] == max(scores)
    assert 100 * scores[0] == pytest.approx(score_alone(CHRF(word_order=2), *corpus_of(ITEMS))[""], rel=1e-14)
    lines = [json.loads(line) for line in (tmp_path / "t" / "scores.jsonl").read_text().splitlines()]
    tests = [None, paired_bootstrap(metrics[1], metrics[0]), paired_bootstrap(metrics[2], metrics[1])]
    for epoch, (metric, test, logged) in enumerate(zip(metrics, tests, record.logged, strict=True)):
        interval, report = metric.interval(0.9), metric.report()
        parts = {
            "low": interval.low,
            "high": interval.high,
            "p_value": test.p_value if test else 1,
            "best": max(scores[: epoch + 1]),
        }
        assert {key: value for key, value in logged.items() if key.startswith("val_chrf")} == {
            "val_chrf": scores[epoch],
            "val_chrf/precision": report.precision,
            "val_chrf/recall": report.recall,
        } | {f"val_chrf/{part}": value for part, value in parts.items()}
        place = {"step": 4 * (epoch + 1), "epoch": epoch, "key": "val_chrf"}
        assert [line for line in lines if line["key"] == "val_chrf"][epoch] == json.loads(
            json.dumps(place | report.to_dict() | parts)
        )
        reports: dict[str, Any] = dict(record.reports[epoch])
        assert reports["val_chrf"] == report
    assert bleu.intervals["val_chrf"] == metrics[2].interval(0.9)
    assert bleu.comparisons["val_chrf"] == tests[2]
    assert "nw:2" in lines[1]["signature"]
    assert len(lines) == 2 * 3
    assert trainer.progress_bar_metrics["val_chrf"] == scores[2]
    assert "val_chrf/recall" not in trainer.progress_bar_metrics


def test_each_loader_has_an_interval_and_a_comparison_of_chrf(tmp_path: Path) -> None:
    bleu = BLEUCallback(others={"chrf": CorpusCHRF(word_order=2)}, confidence=0.9, compare_to_best=True)
    logged = fit(tmp_path, bleu, loaders=make_loaders(), max_epochs=2).callback_metrics
    for seed, (name, items) in enumerate(SETS.items()):
        metric, interval = count_chrf(1, items), count_chrf(1, items).interval(0.9, seed=seed)
        assert logged[f"val_chrf/{name}"] == logged[f"val_chrf/{name}/best"] == metric.compute()
        assert bleu.intervals[f"val_chrf/{name}"] == interval
        assert logged[f"val_chrf/{name}/low"] == interval.low
        test = paired_bootstrap(metric, count_chrf(0, items), seed=seed)
        assert bleu.comparisons[f"val_chrf/{name}"] == test
    mean = sum(count_chrf(1, items).compute().item() for items in SETS.values()) / 2
    assert logged["val_chrf"] == logged["val_chrf/best"] == mean
    assert bleu.intervals["val_chrf"].low < mean < bleu.intervals["val_chrf"].high
    assert logged["val_chrf/p_value"] == bleu.comparisons["val_chrf"].p_value
    assert "val_chrf" not in bleu.reports


@pytest.mark.parametrize(
    ("monitor", "mode"), [("val_chrf", "max"), ("val_ter", "min"), ("val_rouge/rouge1_fmeasure", "max")]
)
def test_a_score_can_be_monitored(monitor: str, mode: str, tmp_path: Path) -> None:
    """The second epoch is the best."""
    bleu = make_callback(chrf=CorpusCHRF(), ter=TER(), rouge=ROUGEScore(rouge_keys=("rouge1",)))
    checkpoint = ModelCheckpoint(tmp_path, monitor=monitor, mode=mode, filename="{epoch}")
    stopping = EarlyStopping(monitor, mode=mode, patience=1)
    trainer = fit(tmp_path, bleu, checkpoint, stopping)
    assert Path(checkpoint.best_model_path).name == "epoch=1.ckpt"
    assert stopping.best_score.item() == checkpoint.best_model_score
    assert {"val_bleu", "val_chrf", "val_ter"} <= trainer.progress_bar_metrics.keys()
    assert "val_rouge/rouge1_fmeasure" not in trainer.progress_bar_metrics


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
@pytest.mark.parametrize("is_old", [False, True], ids=["resumed", "from a checkpoint without others"])
def test_a_resumed_run_keeps_the_best_of_each_metric(is_old: bool, tmp_path: Path) -> None:
    others = {"chrf": CorpusCHRF(word_order=2), "chars": CorpusCHRF(char_order=2), "ter": TER()}
    names = ["val_bleu", "val_chrf", "val_chars"]
    saved = BLEUCallback(others={} if is_old else others, compare_to_best=True)
    fit(tmp_path, saved, ModelCheckpoint(tmp_path, filename="last"), max_epochs=2)
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)["callbacks"]["BLEUCallback{'name': 'bleu'}"]
    assert state.get("others", {}).keys() == (set() if is_old else {"chrf", "chars"})
    bleu = BLEUCallback(others=others, compare_to_best=True)
    record = Record(bleu)
    fit(tmp_path, bleu, record, ModelCheckpoint(tmp_path / "resumed"), ckpt_path=tmp_path / "last.ckpt")
    whole = Record()
    fit(tmp_path, BLEUCallback(others=others, compare_to_best=True), whole)
    (resumed,) = record.logged
    for name in names[:1] if is_old else names:
        assert resumed[f"{name}/p_value"] == whole.logged[2][f"{name}/p_value"] < 1
        assert resumed[f"{name}/best"] == whole.logged[1][name] > resumed[name]
    for name in names[1:] if is_old else []:
        assert (resumed[f"{name}/p_value"], resumed[f"{name}/best"]) == (1, resumed[name])


def test_each_metric_has_a_scale_of_its_own(tmp_path: Path) -> None:
    percent, plain = CorpusCHRF(percent=True), CorpusCHRF()
    for metric in (CorpusBLEU(), CorpusBLEU(percent=True)):
        bleu = BLEUCallback(metric, {"percent": percent, "plain": plain, "bleu_lc": CorpusBLEU(lowercase=True)})
        logged = validate(tmp_path, bleu, step=return_corpus, loaders=make_loader(ITEMS))
        assert logged["val_percent"] == count_chrf(word_order=0, percent=True).compute().item()
        assert logged["val_percent/recall"] == 100 * logged["val_plain/recall"]
        lower = CorpusBLEU(lowercase=True)
        lower.update(*corpus_of(ITEMS))
        assert logged["val_bleu_lc"] == lower.compute().item()
        assert logged["val_bleu_lc/precision_4"] == lower.report().precisions[3]


def test_the_placeholder_of_bleu_is_that_of_the_others(tmp_path: Path) -> None:
    bleu = BLEUCallback(
        others={"chrf": CorpusCHRF(), "{stage}_ter": TER()}, name="{stage}/bleu", translations=tmp_path / "t"
    )
    logged = validate(tmp_path, bleu, step=return_corpus, loaders=make_loader(ITEMS))
    assert {"val/bleu", "val/chrf", "val/chrf/recall", "val_ter"} <= logged.keys()
    assert bleu.reports.keys() == {"val/bleu", "val/chrf"}
    lines = [json.loads(line) for line in (tmp_path / "t" / "scores.jsonl").read_text().splitlines()]
    assert {line["key"]: line["score"] for line in lines} == {
        key: logged[key] for key in ("val/bleu", "val/chrf", "val_ter")
    }


def test_dicts_of_scores_are_lines_of_a_file(tmp_path: Path) -> None:
    bleu = BLEUCallback(others={"rouge": MAKE["rouge"]()}, translations=tmp_path / "t")
    fit(tmp_path, bleu, loaders=make_loaders(), max_epochs=1)
    lines = [json.loads(line) for line in (tmp_path / "t" / "scores.jsonl").read_text().splitlines()]
    place = {"step": 4, "epoch": 0}
    expected = {name: score_alone(MAKE["rouge"](), *corpus_of(items)) for name, items in SETS.items()}
    mean = {part: (value + expected["talks"][part]) / 2 for part, value in expected["news"].items()}
    assert lines[3:] == [
        {**place, "key": "val_rouge/news", **expected["news"]},
        {**place, "key": "val_rouge/talks", **expected["talks"]},
        {**place, "key": "val_rouge", **mean},
    ]


# Ids


DECODED: list[list[list[int]]] = []


def decode(rows: list[list[int]]) -> list[str]:
    DECODED.append(rows)
    return [" ".join(f"word{number}" for number in row) for row in rows]


def test_ids_are_decoded_once_for_all_metrics(tmp_path: Path) -> None:
    calls, logged = [], {}
    for others in ({}, make_others() | {"chrf": CorpusCHRF(), "chars": CorpusCHRF(char_order=2)}):
        DECODED.clear()
        bleu = BLEUCallback(CorpusBLEU(decoder=decode, pad_id=0), others, samples=0, translations=tmp_path / "t")
        logged = validate(tmp_path, bleu, step=return_ids)
        calls.append([*DECODED])
    assert calls[0] == calls[1] != []
    assert sum(map(len, calls[0])) == 2 * len(SENTENCES)  # no sentence twice
    preds, target = decode(translate(SENTENCES).tolist()), [[line] for line in decode(SENTENCES.tolist())]
    assert logged["val_ter"] == score_alone(TER(), preds, target)[""]
    assert logged["val_order"] == score_alone(Fingerprint(), preds, target)[""]
    chrf = CorpusCHRF()
    chrf.update(preds, target)
    assert logged["val_chrf"] == chrf.compute().item()


def return_tokens(batch: Tensor, epoch: int) -> Any:
    rows = [["a", "b"]] * len(batch)
    return rows, [[row] for row in rows]


@pytest.mark.parametrize("other", [CorpusCHRF(), TER()], ids=["counted", "of text"])
@pytest.mark.parametrize(("step", "kind"), [(return_ids, "ids"), (return_tokens, "tokens")])
def test_ids_and_tokens_are_an_error_at_the_first_batch(step: Any, kind: str, other: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback(CorpusBLEU(pad_id=0), {"other": other})
    message = rf"BLEUCallback\(others=...\) needs text, got .*{kind}.*: return strings, or decode ids with BLEUCallback"
    with pytest.raises(TypeError, match=message):
        validate(tmp_path, bleu, step=step)


# Few sentences


@pytest.mark.parametrize("step", [lambda batch, epoch: ([], []), lambda batch, epoch: return_none(batch)])
def test_a_validation_without_sentences_has_a_score_of_bleu_only(step: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback(
        others=make_others() | {"chrf": CorpusCHRF()}, confidence=0.9, compare_to_best=True, translations=tmp_path / "t"
    )
    logged = validate(tmp_path, bleu, step=step, loaders=make_loader(ITEMS))
    assert logged["val_bleu"] == 0
    assert {key for key in logged if not key.startswith("val_bleu")} == set()
    assert bleu.reports.keys() == bleu.intervals.keys() == {"val_bleu"}
    (line,) = (tmp_path / "t" / "scores.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == "val_bleu"


def return_none(batch: Tensor) -> dict[str, Any]:
    """Nothing counts."""
    preds, target = corpus_of(batch.tolist())
    return {"preds": preds, "target": target, "sample_mask": [False] * len(preds)}


def test_a_loader_without_sentences_has_no_score_of_a_metric_of_text(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> Any:
        return corpus_of(item for item in batch.tolist() if item < 100)

    bleu = make_callback(chrf=CorpusCHRF(), ter=TER())
    logged = validate(tmp_path, bleu, step=step, loaders=make_loaders())
    assert logged["val_ter"] == logged["val_ter/news"] == score_alone(TER(), *corpus_of(ITEMS))[""]
    assert "val_ter/talks" not in logged
    assert logged["val_bleu/talks"] == 0
    assert logged["val_chrf/news"] == count_chrf(word_order=0).compute().item()


def test_a_fast_run_has_all_scores(tmp_path: Path) -> None:
    bleu = BLEUCallback(others=make_others() | {"chrf": CorpusCHRF()}, translations=tmp_path / "t", confidence=0.9)
    logged = fit(tmp_path, bleu, fast_dev_run=True).callback_metrics
    assert logged["val_ter"] == score_alone(TER(), *corpus_of(range(7)))[""]
    assert logged["val_chrf"] == count_chrf(items=range(7), word_order=0).compute()
    assert not (tmp_path / "t").exists()


# Mistakes


@pytest.mark.parametrize(
    ("monitor", "wrong"),
    [("val_ter", "max"), ("val_ter/news", "max"), ("val_edit_rate", "max"), ("val_chrf", "min"), ("val_rouge", "min")],
)
def test_a_callback_that_prefers_worse_scores_is_warned_about(monitor: str, wrong: str, tmp_path: Path) -> None:
    others = {"ter": TER(), "edit_rate": TranslationEditRate(), "chrf": CorpusCHRF()}
    others |= {"rouge": ROUGEScore(rouge_keys=("rouge1",))}
    right = "min" if wrong == "max" else "max"
    for mode, count in ((right, 0), (wrong, 1)):
        bleu, stopping = BLEUCallback(others=others), EarlyStopping(monitor, mode=mode)
        message = f"EarlyStopping(monitor='{monitor}', mode='{mode}') prefers a"
        options = {"step": return_corpus, "loaders": make_loader(ITEMS), "message": message}
        assert len(collect_warnings(validate, tmp_path, bleu, stopping, **options)) == count


@pytest.mark.parametrize("monitor", ["val_both/TranslationEditRate", "val_order"])
def test_a_callback_is_not_warned_about_if_a_lower_score_may_be_better(monitor: str, tmp_path: Path) -> None:
    bleu = BLEUCallback(others={"both": MetricCollection([TranslationEditRate()]), "order": Fingerprint()})
    options = {"step": return_corpus, "loaders": make_loader(ITEMS), "message": "prefers a low score"}
    assert collect_warnings(validate, tmp_path, bleu, EarlyStopping(monitor, mode="min"), **options) == []


@pytest.mark.parametrize("name", ["val_chrf", "val_chrf/recall", "val_ter", "val_rouge/rouge1_fmeasure"])
def test_a_module_that_logs_the_name_of_a_metric_is_an_error(name: str, tmp_path: Path) -> None:
    class Module(ToyModule):
        def on_validation_epoch_end(self) -> None:
            self.log(name, 0.5)

    bleu = make_callback(chrf=CorpusCHRF(), ter=TER(), rouge=ROUGEScore(rouge_keys=("rouge1",)))
    with pytest.raises(ValueError, match=f"Module and BLEUCallback both log '{name}'"):
        make_trainer(tmp_path, bleu).validate(Module(return_corpus), make_loader(ITEMS), verbose=False)


@pytest.mark.parametrize(
    "others",
    [
        lambda: BLEUCallback(name="ter"),
        lambda: BLEUCallback(name="b", others={"ter": CorpusCHRF()}),
        lambda: BLEUCallback(name="b", others={"ter/x": TER()}),
        lambda: BLEUCallback(name="{stage}/b", others={"{stage}_ter": TER()}),
    ],
)
def test_two_callbacks_cannot_log_the_same_name(others: Callable[[], BLEUCallback], tmp_path: Path) -> None:
    callbacks = [make_callback(ter=TER()), others()]
    for ordered in (callbacks, callbacks[::-1]):
        with pytest.raises(ValueError, match=r"two BLEUCallbacks log 'val_ter(/x)?': give one of them another name"):
            validate(tmp_path, *ordered, step=return_corpus, loaders=make_loader(ITEMS))


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_two_callbacks_with_other_names_are_side_by_side(tmp_path: Path) -> None:
    def make() -> list[BLEUCallback]:
        second = BLEUCallback(CorpusBLEU(max_order=2), {"chars": CorpusCHRF()}, name="b", compare_to_best=True)
        return [BLEUCallback(others={"chrf": CorpusCHRF(word_order=2)}, compare_to_best=True), second]

    fit(tmp_path, *make(), ModelCheckpoint(tmp_path, filename="last"), max_epochs=2)
    record = Record()
    fit(tmp_path, *make(), record, ModelCheckpoint(tmp_path / "resumed"), ckpt_path=tmp_path / "last.ckpt")
    for name, word_order in (("chrf", 2), ("chars", 0)):
        assert record.column(f"val_{name}/best") == [count_chrf(1, word_order=word_order).compute().item()]


# Copies and processes


@pytest.mark.parametrize("replicate", [copy.deepcopy, lambda bleu: pickle.loads(pickle.dumps(bleu))])
def test_a_copy_of_the_callback_scores_the_same(replicate: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback(others=make_others() | {"chrf": CorpusCHRF(word_order=2)}, compare_to_best=True)
    for callback in (replicate(bleu), bleu, replicate(bleu)):  # before and after a validation
        logged = validate(tmp_path, callback, step=return_corpus, loaders=make_loader(ITEMS))
        assert of_others(logged) == expected_others("val", {"": ITEMS})
        assert logged["val_chrf"] == count_chrf().compute().item()


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["forkserver", pytest.param("spawn", marks=pytest.mark.long)])
def test_spawned_processes_score_what_one_would(start_method: Any, tmp_path: Path) -> None:
    strategy = DDPStrategy(start_method=start_method)
    bleu = BLEUCallback(others=make_others() | {"chrf": CorpusCHRF(word_order=2)}, compare_to_best=True)
    logged = fit(tmp_path, bleu, strategy=strategy, devices=2, max_epochs=2).callback_metrics
    values = {key: value.item() for key, value in logged.items()}
    assert of_others(values) == expected_others("val", {"": ITEMS}, epoch=1)
    assert values["val_chrf"] == values["val_chrf/best"] == count_chrf(1).compute().item()
    # Positions are known only in several processes, but they are in order.
    assert values["val_chrf/p_value"] == paired_bootstrap(count_chrf(1), count_chrf(0)).p_value


class Fails(Fingerprint):
    """A metric that can score two sentences, but not many."""

    def compute(self) -> Any:
        if len(self.texts) > 2:
            raise MemoryError("too many")
        return super().compute()


def test_an_error_of_a_metric_ends_the_validation(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the metric of 'val_fails' failed: MemoryError: too many"):
        validate(tmp_path, make_callback(fails=Fails()), step=return_corpus, loaders=make_loader(ITEMS))


class KeepsErrors(BLEUCallback):
    """Keeps an error instead of raising it, so that no process ends before the others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.errors: list[str] = []

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        try:
            super().on_validation_epoch_end(trainer, pl_module)
        except RuntimeError as error:
            self.errors.append(str(error))


@pytest.mark.slow
def test_all_processes_raise_the_error_of_a_metric(tmp_path: Path) -> None:
    options = {"others": {"fails": Fails()}}
    contents = validate_in_processes(
        2, make_loaders(), tmp_path, step=return_corpus, callback_type=KeepsErrors, callback_options=options
    )
    assert [content["errors"] for content in contents] == [
        ["the metric of 'val_fails' failed: MemoryError: too many"]
    ] * 2


def test_a_validation_without_sentences_leaves_no_old_results(tmp_path: Path) -> None:
    bleu = make_callback(chrf=CorpusCHRF())
    bleu.confidence = 0.9
    validate(tmp_path, bleu, step=return_corpus, loaders=make_loader(ITEMS))
    assert {*bleu.reports} == {*bleu.intervals} == {"val_bleu", "val_chrf"}
    validate(tmp_path, bleu, step=lambda batch, epoch: ([], []), loaders=make_loader(ITEMS))
    assert {*bleu.reports} == {*bleu.intervals} == {"val_bleu"}
