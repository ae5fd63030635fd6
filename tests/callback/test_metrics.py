"""Metrics of all kinds in the callback, alone and side by side, with loaders and groups, in real Trainers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.callback_metrics import (
    checksum,
    corpus_of,
    expected_scores,
    join,
    make_metrics,
    return_groups,
    return_sentences,
    score_alone,
)
from tests.helpers.files import read_files, read_scores, read_sentences
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    SENTENCES,
    Record,
    expected_score,
    fit,
    make_loader,
    make_module,
    make_trainer,
    return_ids,
    translate,
    validate,
)
from tests.helpers.processes import Forked, validate_in_processes

ITEMS: Any = range(23)
"""The sentences of most tests; a range is not a Dataset for mypy."""

SETS: dict[str, Any] = {"news": ITEMS, "talks": range(100, 105)}
"""The sentences of two loaders."""


def make_items(items: Any = ITEMS) -> Any:
    """A loader, or a dict of loaders by name."""
    return {name: make_loader(own) for name, own in items.items()} if isinstance(items, dict) else make_loader(items)


def return_some(batch: Tensor, epoch: int) -> dict[str, Any]:
    """In groups, and every third sentence does not count."""
    return return_groups(batch, epoch) | {"sample_mask": batch % 3 > 0}


def return_some_numbered(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same, with the positions."""
    return return_some(batch, epoch) | {"index": batch}


WAYS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "loaders x groups": (return_groups, make_items(SETS), SETS),
    "masked groups in any order with repeats": (
        return_some_numbered,
        make_loader(ITEMS, sampler=[*ITEMS[::2], *ITEMS[::-3], *ITEMS[1::2]]),
        {"": [item for item in ITEMS if item % 3]},
    ),
}
"""The step, the loaders, and the sentences of each loader in order."""

# Scores, intervals, and comparisons


SLOW = {"sacre_chrf", "chrf_score", "eed", "edit_rate", "rouge", "both"}
"""Metrics of text that take long to score, and are scored as others are."""
FAST = [name for name in make_metrics() if name not in SLOW]


@pytest.mark.parametrize(
    ("way", "namespace", "names"),
    [
        pytest.param(
            *("loaders x groups", NAMESPACES[1], FAST),
            marks=pytest.mark.promise("1: a score is that of a sum of rows, of a loader or a group"),
        ),
        pytest.param([*WAYS][1], NAMESPACES[0], [*make_metrics()], marks=pytest.mark.long),
    ],
)
def test_each_metric_scores_each_loader_and_group_as_it_would_alone(
    way: str, namespace: str, names: list[str], tmp_path: Path
) -> None:
    step, loaders, sets = WAYS[way]
    bleu = BLEUCallback(make_metrics(*names), translations=tmp_path, confidence=0.95, compare_to="best")
    record = Record(bleu)
    trainer = fit(tmp_path, bleu, record, step=step, loaders=loaders, namespace=namespace)
    lines = read_scores(tmp_path)
    for epoch, (logged, results) in enumerate(zip(record.logged, record.results, strict=True)):
        scores = expected_scores(names, sets, epoch=epoch, grouped=True)
        assert {tag: logged[tag] for tag in scores} == scores
        assert logged == {
            join(tag, part): value
            for tag, result in results.items()
            for part, value in {"": result.score, **result.statistics()}.items()
        }
        assert {"val_bleu/low", "val_chrf/p_value", "val_errors/best"} <= logged.keys()
        own_lines = lines[epoch * len(results) : (epoch + 1) * len(results)]
        for line, (tag, result) in zip(own_lines, results.items(), strict=True):
            place = {"stage": "val", "step": 6 * (epoch + 1), "epoch": epoch, "key": tag}
            columns = ("loader", "group", "mean_of", "metric", "class", "forms", "settings")
            origin = {name: line.pop(name) for name in columns}
            assert line == place | result.to_dict()
            assert origin["group"] in (None, *tag.split("/"))
            assert (origin["group"] is None) != bool({"even", "odd", "mean"}.intersection(tag.split("/")))
            of_loader = [loader for loader in sets if f"/{loader}/" in f"/{tag}/" or not loader]
            assert origin["loader"] == (of_loader[0] if of_loader else None)
    assert "val_rouge" not in bleu.results  # which has several scores
    (*tested,) = trainer.test(trainer.lightning_module, loaders, verbose=False)
    found = {
        tag: value for own in tested for tag, value in own.items() if tag.rpartition("/")[2] not in ("low", "high")
    }
    assert found == expected_scores(names, sets, "test", 3, grouped=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "step"),
    [
        (2, return_some_numbered),
        pytest.param(3, return_some, marks=pytest.mark.long),
    ],
)
def test_several_processes_score_what_one_does(processes: int, step: Any, tmp_path: Path) -> None:
    """Also if one of them has no sentence of a loader or group, or a repeat of the sampler."""
    names = ["chrf", "checksum", "order"]  # Lightning sends at most 64 KiB back
    loaders = make_items({"many": ITEMS, "one": [4]})
    options: dict[str, Any] = {"confidence": 0.9, "compare_to": "best"}
    alone = BLEUCallback(make_metrics(*names), translations=tmp_path / "alone", **options)
    logged = validate(tmp_path, alone, step=step, loaders=loaders)
    options |= {"metrics": make_metrics(*names), "translations": tmp_path / "several"}
    for content in validate_in_processes(processes, loaders, tmp_path, step=step, callback_options=options):
        assert content["logged"] == logged
        assert content["results"] == alone.results
        assert content["warnings"] == []
    assert read_files(tmp_path / "several") == read_files(tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.long
def test_spawned_processes_compare_as_one_would(tmp_path: Path) -> None:
    records = []
    several: dict[str, Any] = {"strategy": Forked(tmp_path), "devices": 2}
    for options in ({}, several):
        bleu = BLEUCallback(make_metrics(), confidence=0.9, compare_to="best")
        trainer = fit(tmp_path, bleu, step=return_sentences, loaders=make_items(), max_epochs=2, **options)
        records.append({key: value.item() for key, value in trainer.callback_metrics.items()})
    assert records[0] == records[1]
    assert records[0]["val_checksum/p_value"] < 1


CHINESE = [("今天天气很好。", "今天天气真好。"), ("他在家里看书。", "她在家里看书。")]
GERMAN = [("Es ist sehr kalt heute.", "Es ist kalt heute hier."), ("Das Haus ist groß.", "Das Haus ist alt.")]
PAIRS = [(*pair, "zh") for pair in CHINESE] + [(*pair, "de") for pair in GERMAN]


def return_pairs(batch: Any, epoch: int) -> dict[str, Any]:
    preds, target, group = batch
    return {"preds": [*preds], "target": [*target], "group": [*group]}


def test_a_language_with_settings_of_its_own_has_a_callback_of_its_own(tmp_path: Path) -> None:
    """The recipe for Chinese, which warns about no other tokenizer."""
    chinese, others = CorpusBLEU(tokenizer="zh"), CorpusBLEU()
    zh = BLEUCallback({"m": chinese}, only=["zh"], log_name="{stage}_zh_{metric}")
    rest = BLEUCallback({"m": others}, only=["de", "fr"])
    match = r"^'only' has 'fr', but this validation had no sentence of it\. The names were \['de', 'zh'\]\."
    with pytest.warns(UserWarning, match=match):
        trainer = fit(tmp_path, zh, rest, step=return_pairs, loaders=make_loader(PAIRS, batch_size=3), max_epochs=1)
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    expected = [
        score_alone(one, [pair[0] for pair in pairs], [[pair[1]] for pair in pairs])[""]
        for one, pairs in ((chinese, CHINESE), (others, GERMAN))
    ]
    assert [logged["val_zh_m/zh"], logged["val_m/de"]] == [logged["val_zh_m"], logged["val_m"]] == expected


def test_a_metric_is_copied(tmp_path: Path) -> None:
    metrics = make_metrics("bleu", "chrf", "edit_rate", "both", "ter")
    for name in ("bleu", "chrf", "edit_rate"):
        metrics[name].update(["a b c d"], [["a b c d"]])
    before = pickle.dumps(metrics["ter"])
    logged = validate(tmp_path, BLEUCallback(metrics), step=return_sentences, loaders=make_items())
    assert [metrics[name].compute().item() for name in ("bleu", "chrf", "edit_rate")] == [1, 1, 0]
    assert not metrics["both"]["CHRFScore"].update_called
    assert pickle.dumps(metrics["ter"]) == before
    assert logged == expected_scores(metrics, {"": ITEMS})


@pytest.mark.parametrize(
    ("monitor", "mode"),
    [("val_bleu/news", "max"), ("val_chrf", "max"), ("val_ter", "min"), ("val_rouge/news/rouge1_recall", "max")],
)
def test_a_score_can_be_monitored(monitor: str, mode: str, tmp_path: Path) -> None:
    """The second epoch is the best."""
    bleu = BLEUCallback(make_metrics("bleu", "chrf", "ter", "rouge"))
    checkpoint = ModelCheckpoint(tmp_path, monitor=monitor, mode=mode, filename="{epoch}")
    stopping = EarlyStopping(monitor, mode=mode, patience=1)
    trainer = fit(tmp_path, bleu, checkpoint, stopping, step=return_sentences, loaders=make_items(SETS))
    assert Path(checkpoint.best_model_path).name == "epoch=1.ckpt"
    assert stopping.best_score.item() == checkpoint.best_model_score
    shown = {f"val_{name}{subset}" for name in ("bleu", "chrf", "ter") for subset in ("", "/news", "/talks")}
    assert trainer.progress_bar_metrics.keys() == shown


# Ids


def test_ids_are_decoded_once_for_all_metrics(tmp_path: Path) -> None:
    decoded: list[int] = []

    def decode(rows: list[list[int]]) -> list[str]:
        decoded.append(len(rows))
        return [" ".join(f"word{number}" for number in row) for row in rows]

    hypotheses, references = (decode(side.tolist()) for side in (translate(SENTENCES), SENTENCES))
    everything = make_metrics(*(name for name in FAST if name != "checksum"))  # which takes sources
    for names in (["bleu"], ["ter"], ["errors"], [*everything]):
        decoded.clear()
        bleu = BLEUCallback(make_metrics(*names), decoder=decode, samples=0, translations=tmp_path / names[-1])
        logged = validate(tmp_path, bleu, step=return_ids)
        assert decoded == 5 * [14] + [4]  # hypotheses and references of each batch of 7, and of 2
        for name in names:
            expected = score_alone(everything[name], hypotheses, [[line] for line in references])
            assert {part: logged[join(f"val_{name}", part)] for part in expected} == expected


def test_several_metrics_of_ids_need_no_text(tmp_path: Path) -> None:
    """The one that sets nothing reads ids like the other."""
    orders = {"bleu": CorpusBLEU(), "bigrams": CorpusBLEU(max_order=2, pad_id=PAD_ID)}
    logged = validate(tmp_path, BLEUCallback(orders), step=return_ids)
    assert (logged["val_bleu"], logged["val_bigrams"]) == (expected_score().bleu, expected_score(max_order=2).bleu)


# Few sentences


# Functions and metrics of text, which score at the end


def test_a_function_is_called_once_per_loader_and_never_before_the_validation(tmp_path: Path) -> None:
    calls: list[int] = []

    def count(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        calls.append(len(hypotheses))
        return [1.0] * len(hypotheses)

    bleu = BLEUCallback({"f": count})
    assert not calls
    validate(tmp_path, bleu, step=return_groups, loaders=[make_items(), make_items()])
    assert calls == 2 * [len(ITEMS)]


def test_all_sentences_of_a_large_loader_are_scored(tmp_path: Path) -> None:
    """Without a logger, texts are kept for metrics alone."""
    logged = validate(tmp_path, BLEUCallback({"f": checksum}), step=return_sentences, loaders=make_items([*range(300)]))
    assert logged["val_f"] == score_alone(checksum, *corpus_of(range(300)))[""]


def test_a_function_may_skip_a_validation(tmp_path: Path) -> None:
    module = make_module(step=return_sentences)

    def odd_epochs(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float] | None:
        return checksum(hypotheses, references, sources) if module.current_epoch % 2 else None

    bleu = BLEUCallback({"f": odd_epochs, "bleu": CorpusBLEU()}, compare_to="best", translations=tmp_path)
    record = Record(bleu)
    fit(tmp_path, bleu, record, module=module, loaders=make_items(), max_epochs=4)
    assert [[*results] for results in record.results] == [["val_bleu"], ["val_f", "val_bleu"]] * 2
    scores = [score_alone(checksum, *corpus_of(ITEMS, epoch))[""] for epoch in (1, 1, 3)]
    assert [one.get("val_f") for one in record.logged] == [None, *scores]  # Lightning keeps the last value
    assert record.logged[3]["val_f/p_value"] < 1  # compared with the second validation
    sentences = [read_sentences(tmp_path / f"val/step-{step:07}")[0] for step in (6, 12, 18, 24)]
    assert [[*sentence["scores"]] for sentence in sentences] == [["bleu"], ["f", "bleu"]] * 2


def test_an_error_of_a_function_in_the_sanity_check_ends_the_run_before_the_training(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, BLEUCallback({"f": lambda hypotheses, references: [1 / 0]}))
    with pytest.raises(RuntimeError, match="the metric 'f' failed: ZeroDivisionError"):
        trainer.fit(make_module(step=return_sentences), make_loader(), make_items())
    assert trainer.global_step == 0


def test_a_function_may_use_a_trainer(tmp_path: Path) -> None:
    def inner(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        trainer, module = make_trainer(tmp_path / "inner", max_epochs=1), make_module()
        module.predict_step = lambda batch, batch_idx: batch / 64
        predicted = trainer.predict(module, make_loader([*range(len(hypotheses))]))
        return [float(one) for batch in predicted for one in batch]

    bleu = BLEUCallback({"f": inner, "bleu": CorpusBLEU()})
    trainer = fit(tmp_path, bleu, step=return_sentences, loaders=make_items())
    assert trainer.callback_metrics["val_f"].item() == sum(item / 64 for item in ITEMS) / len(ITEMS)
    assert trainer.current_epoch == 3
