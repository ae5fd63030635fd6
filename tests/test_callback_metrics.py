"""Metrics of all kinds in the callback, alone and side by side, with every way to label sentences."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy
from sacrebleu.metrics.ter import TER
from torch import Tensor

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, paired_bootstrap
from tests.helpers.lightning import (
    NAMESPACES,
    PAD_ID,
    SENTENCES,
    PanelLogger,
    Record,
    ToyModule,
    collect_warnings,
    expected_score,
    ignore_lightning_warnings,
    make_loader,
    make_module,
    make_trainer,
    read_table,
    return_ids,
    translate,
    validate,
)
from tests.helpers.others import (
    METRICS,
    RIGHT,
    Fingerprint,
    corpus_of,
    expected_scores,
    group_of,
    make_metrics,
    return_corpus,
    return_groups,
    score_alone,
)
from tests.helpers.processes import KeepsErrors, validate_in_processes

pytestmark = ignore_lightning_warnings

ITEMS: Any = range(23)
"""The sentences of most tests; a range is not a Dataset for mypy."""

SETS: dict[str, Any] = {"news": ITEMS, "talks": range(100, 105)}
"""The sentences of two loaders."""


def make_loaders(sets: Mapping[str, Any] = SETS) -> dict[str, Any]:
    return {name: make_loader(items) for name, items in sets.items()}


def groups_of(items: Any, above: str = "") -> dict[str, list[int]]:
    """The sentences of each group."""
    return {f"{above}{group}": [item for item in items if group_of(item) == group] for group in ("even", "odd")}


WAYS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a loader": (return_corpus, make_loader(ITEMS), {"": ITEMS}),
    "loaders": (return_corpus, make_loaders(), SETS),
    "groups": (return_groups, make_loader(ITEMS), groups_of(ITEMS)),
    "loaders x groups": (
        return_groups,
        make_loaders(),
        groups_of(SETS["news"], "news/") | groups_of(SETS["talks"], "talks/"),
    ),
}
"""The step, the loaders, and the sentences of each label."""


COUNTED = ("bleu", "bigrams", "chrf")
"""The metrics of this package."""


def fit(
    folder: Path,
    *callbacks: Any,
    step: Any = return_corpus,
    loaders: Any = None,
    ckpt_path: Path | None = None,
    **options: Any,
) -> Any:
    """The trainer after a fit of as many epochs as the toy module has translations for."""
    trainer = make_trainer(folder, *callbacks, **{"max_epochs": len(RIGHT)} | options)
    loaders = make_loader(ITEMS) if loaders is None else loaders
    trainer.fit(make_module(step=step), make_loader(ITEMS), loaders, ckpt_path=ckpt_path)
    return trainer


def validate_items(folder: Path, *callbacks: Any, step: Any = return_corpus, loaders: Any = None) -> dict[str, float]:
    """Everything that one validation logs."""
    logged: dict[str, float] = validate(folder, *callbacks, step=step, loaders=loaders or make_loader(ITEMS))
    return logged


def count(name: str, epoch: int = 0, items: Any = ITEMS) -> Any:
    """A metric that has counted the sentences of an epoch."""
    metric = METRICS[name](keep_sentences=True)
    metric.update(*corpus_of(items, epoch))
    return metric


def read_scores(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]


def read_files(folder: Path) -> dict[str, bytes]:
    """All files below a folder but the lock of the scores."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


# Scores


@pytest.mark.parametrize(("stage", "namespace"), [*zip(["val", "test"], NAMESPACES)])
@pytest.mark.parametrize("way", WAYS)
def test_each_metric_scores_each_label_as_it_would_alone(way: str, stage: str, namespace: str, tmp_path: Path) -> None:
    step, loaders, labels = WAYS[way]
    bleu = BLEUCallback(make_metrics(), translations=tmp_path)
    trainer = make_trainer(tmp_path, bleu, namespace=namespace)
    run = trainer.validate if stage == "val" else trainer.test
    run(make_module(namespace, step), loaders, verbose=False)
    logged = {key: value.item() for key, value in trainer.callback_metrics.items()}
    assert logged == expected_scores(make_metrics(), labels, stage)
    assert logged == {
        f"{tag}/{part}" if part else tag: value
        for tag, result in bleu.results.items()
        for part, value in result.values().items()
    }
    for line, (tag, result) in zip(read_scores(tmp_path), bleu.results.items(), strict=True):
        assert line.items() >= {"key": tag, **{part or "score": value for part, value in result.scores.items()}}.items()
    with pytest.raises(AttributeError, match="this metric has several scores"):
        _ = bleu.results[f"{stage}_rouge"].score


@pytest.mark.parametrize("way", WAYS)
def test_each_label_has_an_interval_and_is_compared_with_the_best(way: str, tmp_path: Path) -> None:
    step, loaders, labels = WAYS[way]
    bleu = BLEUCallback(make_metrics(*COUNTED, "ter"), confidence=0.9, compare_to_best=True)
    record = Record(bleu)
    fit(tmp_path, bleu, record, step=step, loaders=loaders)
    # The second epoch is the best of the three.
    for epoch, (old, best) in enumerate([(None, 0), (0, 1), (1, 1)]):
        logged, results = record.logged[epoch], record.results[epoch]
        for name in COUNTED:
            for seed, (label, items) in enumerate(labels.items()):
                tag = "/".join(filter(None, (f"val_{name}", label)))
                metric, result = count(name, epoch, items), results[tag]
                assert result.report == metric.report()
                assert result.interval == metric.interval(0.9, seed=seed)
                test = None if old is None else paired_bootstrap(metric, count(name, old, items), seed=seed)
                assert result.comparison == test
                assert result.best == count(name, best, items).compute().item()
            mean = results[f"val_{name}"]
            assert mean.interval is not None
            assert mean.interval.low < mean.score < mean.interval.high
            assert mean.best == record.results[best][f"val_{name}"].score
            assert mean.comparison is None or mean.comparison.p_value < 1
        for tag, result in results.items():
            assert result.values().items() <= {key.removeprefix(tag).strip("/"): logged[key] for key in logged}.items()
    assert {key for key in record.logged[-1] if key.startswith("val_ter")} == {tag for tag in results if "ter" in tag}


def return_some(batch: Tensor, epoch: int) -> dict[str, Any]:
    """Every third sentence does not count."""
    return return_corpus(batch, epoch) | {"sample_mask": batch % 3 > 0}


def return_some_numbered(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same, with the positions."""
    return return_some(batch, epoch) | {"index": batch}


def return_some_groups(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same, in groups."""
    return return_some(batch, epoch) | return_groups(batch, epoch)


@pytest.mark.filterwarnings("ignore:.*sampler has shuffling enabled")
def test_only_sentences_that_count_are_scored_in_the_order_of_their_positions(tmp_path: Path) -> None:
    expected = expected_scores(make_metrics(), {"": [item for item in ITEMS if item % 3]})
    for step, options in (
        (return_some_numbered, {"sampler": [*ITEMS, 4, 2]}),  # the index of a repeat counts once
        (return_some_numbered, {"shuffle": True}),
        (return_some, {"batch_size": 4}),
    ):
        loaders = make_loader(ITEMS, **options)
        assert validate_items(tmp_path, BLEUCallback(make_metrics()), step=step, loaders=loaders) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "step"),
    [(2, return_some), (2, return_some_numbered), (2, return_some_groups), (3, return_some_groups)],
)
def test_several_processes_score_what_one_does(processes: int, step: Any, tmp_path: Path) -> None:
    """Also if one of them has no sentence of a loader or group, or a repeat of the sampler."""
    sets = {"many": ITEMS, "one": [4]}
    alone = BLEUCallback(make_metrics(), translations=tmp_path / "alone", confidence=0.9, compare_to_best=True)
    logged = validate_items(tmp_path, alone, step=step, loaders=make_loaders(sets))
    options = {"metrics": make_metrics(), "confidence": 0.9, "compare_to_best": True}
    contents = validate_in_processes(
        processes,
        make_loaders(sets),
        tmp_path,
        step=step,
        callback_options=options | {"translations": tmp_path / "several"},
    )
    for content in contents:
        assert content["logged"] == logged
        assert content["results"] == alone.results
        assert content["warnings"] == []
    assert read_files(tmp_path / "several") == read_files(tmp_path / "alone")


CHINESE = [("今天天气很好。", "今天天气真好。"), ("他在家里看书。", "她在家里看书。")]
GERMAN = [("Es ist sehr kalt heute.", "Es ist kalt heute hier."), ("Das Haus ist groß.", "Das Haus ist alt.")]
PER_LANGUAGE: dict[str, Any] = {
    "bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(tokenizer="zh")},
    "chrf": {"de": CorpusCHRF(word_order=2), "zh": CorpusCHRF()},
    "ter": {"de": TER(), "zh": TER(normalized=True, asian_support=True)},
}


@pytest.mark.parametrize("way", ["list of loaders", "dict of loaders", "groups"])
def test_each_label_can_have_a_metric_of_any_kind(way: str, tmp_path: Path) -> None:
    """Chinese and German need different tokenizers, and warn about no other."""

    def step(batch: Any, epoch: int) -> dict[str, Any]:
        preds, target, group = batch
        return {"preds": [*preds], "target": [*target]} | ({"group": [*group]} if way == "groups" else {})

    pairs = {"zh": [(*pair, "zh") for pair in CHINESE], "de": [(*pair, "de") for pair in GERMAN]}
    loaders: Any = {
        "list of loaders": [make_loader(pairs["de"]), make_loader(pairs["zh"])],
        "dict of loaders": {name: make_loader(pairs[name]) for name in pairs},
        "groups": make_loader([pair for both in zip(*pairs.values()) for pair in both], batch_size=3),
    }[way]
    options: dict[str, Any] = {"dataloader_names": ["de", "zh"]} if way == "list of loaders" else {}
    bleu = BLEUCallback(PER_LANGUAGE, **options)
    logged = validate(tmp_path, bleu, step=step, loaders=loaders)
    for name, metrics in PER_LANGUAGE.items():
        scores = {}
        for label, sentences in (("de", GERMAN), ("zh", CHINESE)):
            hypotheses, references = [one[0] for one in sentences], [[one[1]] for one in sentences]
            scores[label] = score_alone(copy.deepcopy(metrics[label]), hypotheses, references)[""]
            assert logged[f"val_{name}/{label}"] == scores[label]
        assert logged[f"val_{name}"] == sum(scores.values()) / 2
    labels = ["zh", "de"] if way == "dict of loaders" else ["de", "zh"]
    assert [*bleu.results][:3] == [*(f"val_bleu/{label}" for label in labels), "val_bleu"]
    message = "The references are Chinese or Japanese"
    wrong = BLEUCallback(PER_LANGUAGE | {"bleu": CorpusBLEU()}, **options)
    assert len(collect_warnings(validate, tmp_path, wrong, step=step, loaders=loaders, message=message)) == 1


def test_a_metric_is_copied(tmp_path: Path) -> None:
    metrics = make_metrics("bleu", "chrf", "edit_rate", "ter")
    for name in ("bleu", "chrf", "edit_rate"):
        metrics[name].update(["a b c d"], [["a b c d"]])
    before = pickle.dumps(metrics["ter"])
    logged = validate_items(tmp_path, BLEUCallback(metrics))
    assert [metrics[name].compute().item() for name in ("bleu", "chrf", "edit_rate")] == [1, 1, 0]
    assert pickle.dumps(metrics["ter"]) == before
    assert logged == expected_scores(make_metrics(*metrics), {"": ITEMS})


def test_chrf_alone_shows_nothing_of_bleu(tmp_path: Path) -> None:
    logger = PanelLogger(tmp_path)
    logged = validate(
        tmp_path, BLEUCallback(CorpusCHRF()), step=return_corpus, loaders=make_loader(ITEMS), logger=logger
    )
    assert logged == expected_scores({"chrf": CorpusCHRF()}, {"": ITEMS})
    (panel,), (worst,) = logger.panels, logger.worst
    assert "| no., chrF2 |" in panel
    assert "BLEU" not in panel.replace("lightning_bleu", "") + worst.replace("lightning_bleu", "")
    assert len(read_table(panel)) == len(read_table(worst)) == 8


@pytest.mark.parametrize(
    ("monitor", "mode"),
    [("val_bleu", "max"), ("val_chrf", "max"), ("val_ter", "min"), ("val_rouge/rouge1_recall", "max")],
)
def test_a_score_can_be_monitored(monitor: str, mode: str, tmp_path: Path) -> None:
    """The second epoch is the best."""
    bleu = BLEUCallback(make_metrics("bleu", "chrf", "ter", "rouge"))
    checkpoint = ModelCheckpoint(tmp_path, monitor=monitor, mode=mode, filename="{epoch}")
    stopping = EarlyStopping(monitor, mode=mode, patience=1)
    trainer = fit(tmp_path, bleu, checkpoint, stopping)
    assert Path(checkpoint.best_model_path).name == "epoch=1.ckpt"
    assert stopping.best_score.item() == checkpoint.best_model_score
    assert trainer.progress_bar_metrics.keys() == {"val_bleu", "val_chrf", "val_ter"}


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
@pytest.mark.parametrize("saved", [COUNTED, ("bleu",)], ids=["same metrics", "metrics were added"])
def test_a_resumed_run_keeps_the_best_of_each_metric(saved: tuple[str, ...], tmp_path: Path) -> None:
    names = [*COUNTED, "ter"]
    first = BLEUCallback(make_metrics(*saved), compare_to_best=True)
    fit(tmp_path, first, ModelCheckpoint(tmp_path, filename="last"), max_epochs=2)
    bleu, whole = (BLEUCallback(make_metrics(*names), compare_to_best=True) for _ in range(2))
    records = [Record(), Record()]
    fit(tmp_path, bleu, records[0], ModelCheckpoint(tmp_path / "resumed"), ckpt_path=tmp_path / "last.ckpt")
    fit(tmp_path, whole, records[1])
    (resumed,), (*_, second, third) = (record.logged for record in records)
    for name in COUNTED:
        p_value, best = resumed[f"val_{name}/p_value"], resumed[f"val_{name}/best"]
        if name in saved:
            assert (p_value, best) == (third[f"val_{name}/p_value"], second[f"val_{name}"])
            assert p_value < 1
        else:
            assert (p_value, best) == (1, third[f"val_{name}"])


def test_each_metric_has_a_scale_of_its_own(tmp_path: Path) -> None:
    message = "The metrics have different scales: 'bleu' in 0..100, 'chrf' in 0..1. Set percent=True for all of them"

    def run() -> None:
        bleu = BLEUCallback({"bleu": CorpusBLEU(percent=True), "ter": TER(), "chrf": CorpusCHRF()})
        for _ in range(2):
            logged.append(validate_items(tmp_path, bleu))

    logged: list[dict[str, float]] = []
    assert len(collect_warnings(run, message=message)) == 1
    expected = {"bleu": CorpusBLEU(percent=True), "ter": TER(), "chrf": CorpusCHRF()}
    assert logged == [expected_scores(expected, {"": ITEMS})] * 2


# Ids


class Tokenizer:
    """A tokenizer that counts how often it decodes."""

    def __init__(self) -> None:
        self.decoded: list[int] = []

    def batch_decode(self, rows: list[list[int]], skip_special_tokens: bool = False) -> list[str]:
        self.decoded += [len(rows)]
        return [" ".join(f"word{number}" for number in row) for row in rows]


def test_ids_are_decoded_once_for_all_metrics(tmp_path: Path) -> None:
    pairs = [Tokenizer().batch_decode(side.tolist()) for side in (translate(SENTENCES), SENTENCES)]
    for names in (["bleu"], ["ter"], [*METRICS]):
        tokenizer = Tokenizer()
        bleu = BLEUCallback(make_metrics(*names), decoder=tokenizer, samples=0, translations=tmp_path / str(len(names)))
        logged = validate(tmp_path, bleu, step=return_ids)
        assert tokenizer.decoded == 5 * [14] + [4]  # hypotheses and references of each batch of 7, and of 2
        for name in names:
            expected = score_alone(METRICS[name](), pairs[0], [[line] for line in pairs[1]])
            assert {part: logged["/".join(filter(None, (f"val_{name}", part)))] for part in expected} == expected


def test_several_metrics_of_ids_need_no_text(tmp_path: Path) -> None:
    """The one that sets nothing reads ids like the other."""
    orders = {"bleu": CorpusBLEU(), "bigrams": CorpusBLEU(max_order=2, pad_id=PAD_ID)}
    logged = validate(tmp_path, BLEUCallback(orders), step=return_ids)
    assert (logged["val_bleu"], logged["val_bigrams"]) == (expected_score().bleu, expected_score(max_order=2).bleu)


@pytest.mark.parametrize(
    ("metrics", "names", "differing"),
    [
        ({"a": CorpusBLEU(pad_id=0), "b": CorpusBLEU(pad_id=1)}, "'a' and 'b'", ["pad_id"]),
        ({"a": CorpusBLEU(pad_id=0), "c": TER(), "b": CorpusCHRF(eos_id=0)}, "'a' and 'b'", ["pad_id", "eos_id"]),
        ({"a": {"x": CorpusBLEU(pad_id=0), "y": CorpusBLEU(pad_id=1)}}, "'a' of 'x' and 'a' of 'y'", ["pad_id"]),
        ({"a": CorpusBLEU(decoder=Tokenizer()), "b": CorpusBLEU(decoder=Tokenizer())}, "'a' and 'b'", ["decoder"]),
    ],
)
def test_metrics_that_read_ids_differently_are_an_error_when_the_epoch_begins(
    metrics: Any, names: str, differing: list[str], tmp_path: Path
) -> None:
    steps: list[int] = []
    message = re.escape(f"{names} must read ids in the same way, but differ in {differing}: give them the")
    with pytest.raises(ValueError, match=f"^{message}"):
        validate(tmp_path, BLEUCallback(metrics), step=lambda batch, epoch: steps.append(epoch))
    assert steps == []


def test_metrics_of_different_loaders_may_read_ids_differently(tmp_path: Path) -> None:
    metrics = {"x": CorpusBLEU(pad_id=PAD_ID, lowercase=True), "y": CorpusBLEU(pad_id=99)}
    logged = validate(
        tmp_path, BLEUCallback({"bleu": metrics}), step=return_ids, loaders={"x": make_loader(), "y": make_loader()}
    )
    assert logged["val_bleu/x/hypothesis_length"] == SENTENCES.numel()
    assert logged["val_bleu/y/hypothesis_length"] == SENTENCES.numel() / 2  # 99 is every second token


def return_tokens(batch: Tensor, epoch: int) -> Any:
    rows = [["a", "b"]] * len(batch)
    return rows, [[row] for row in rows]


@pytest.mark.parametrize("metric", [CorpusCHRF(), TER()], ids=["counted", "of text"])
@pytest.mark.parametrize(("step", "kind"), [(return_ids, "ids"), (return_tokens, "tokens")])
def test_ids_and_tokens_are_an_error_for_metrics_of_text(step: Any, kind: str, metric: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback({"bleu": CorpusBLEU(pad_id=0), "other": metric})
    message = rf"the metric 'other' needs text, got .*{kind}.*: return strings .*, or decode ids"
    with pytest.raises(TypeError, match=message):
        validate(tmp_path, bleu, step=step)


# Few sentences


def return_masked(batch: Tensor, epoch: int) -> dict[str, Any]:
    """Nothing counts."""
    return return_groups(batch, epoch) | {"sample_mask": [False] * len(batch)}


@pytest.mark.parametrize(
    "step",
    [
        lambda batch, epoch: {"preds": [], "target": []},
        lambda batch, epoch: {"preds": [], "target": [], "group": []},
        lambda batch, epoch: {**return_masked(batch, epoch), "group": None},
        return_masked,
    ],
    ids=["nothing", "no groups", "masked", "masked groups"],
)
def test_a_validation_without_sentences_logs_and_writes_nothing(step: Any, tmp_path: Path) -> None:
    """Not even what an earlier validation has found."""
    bleu = BLEUCallback(make_metrics(), confidence=0.9, compare_to_best=True, translations=tmp_path / "t")
    logger = PanelLogger(tmp_path)
    for loaders in (make_loader(ITEMS), make_loaders()):
        assert validate(tmp_path, bleu, step=step, loaders=loaders, logger=logger) == {}
        assert bleu.results == {}
    assert logger.panels == logger.worst == [*read_files(tmp_path / "t")] == []
    validate_items(tmp_path, bleu)
    assert len(bleu.results) == len(METRICS)
    validate_items(tmp_path, bleu, step=step)
    assert bleu.results == {}


@pytest.mark.parametrize("way", ["loaders", "groups", "loaders x groups"])
def test_a_label_without_sentences_has_no_score(way: str, tmp_path: Path) -> None:
    step, loaders, labels = WAYS[way]
    empty = list(labels)[-1]

    def skip(batch: Tensor, epoch: int) -> Any:
        left = torch.tensor([item for item in batch.tolist() if item not in labels[empty]], dtype=torch.int64)
        return step(left, epoch)

    bleu = BLEUCallback(make_metrics(), translations=tmp_path / "t")
    logged = validate_items(tmp_path, bleu, step=skip, loaders=loaders)
    rest = {label: items for label, items in labels.items() if label != empty}
    assert logged == expected_scores(make_metrics(), rest)
    assert {path.rpartition("/")[0] for path in read_files(tmp_path / "t")} == {"", *(f"val/{label}" for label in rest)}


def test_a_fast_run_has_all_scores(tmp_path: Path) -> None:
    bleu = BLEUCallback(make_metrics(), translations=tmp_path / "t")
    logged = fit(tmp_path, bleu, fast_dev_run=True).callback_metrics
    assert {key: value.item() for key, value in logged.items()} == expected_scores(make_metrics(), {"": range(7)})
    assert not (tmp_path / "t").exists()


# Mistakes


@pytest.mark.parametrize("metrics", [TER(), CorpusCHRF, Fingerprint()])
def test_other_metrics_need_a_name(metrics: Any) -> None:
    with pytest.raises(TypeError, match=r"needs a name: pass|must be .*: make an instance of it"):
        BLEUCallback(metrics)


@pytest.mark.parametrize(
    ("monitor", "wrong"),
    [
        ("val_bleu", "min"),
        ("val_ter", "max"),
        ("val_ter/news", "max"),
        ("val_edit_rate", "max"),
        ("val_chrf", "min"),
        ("val_rouge", "min"),
    ],
)
def test_a_callback_that_prefers_worse_scores_is_warned_about(monitor: str, wrong: str, tmp_path: Path) -> None:
    names = ("bleu", "ter", "edit_rate", "chrf", "rouge")
    for mode, times in ((wrong, 1), ("min" if wrong == "max" else "max", 0)):
        bleu, stopping = BLEUCallback(make_metrics(*names)), EarlyStopping(monitor, mode=mode)
        worse, better = ("high", "lower") if wrong == "max" else ("low", "higher")
        message = f"EarlyStopping(monitor='{monitor}', mode='{mode}') prefers a {worse} score, but {better} is better"
        assert len(collect_warnings(validate_items, tmp_path, bleu, stopping, message=message)) == times


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_callback_is_not_warned_about_if_either_may_be_better(mode: str, tmp_path: Path) -> None:
    stopping = EarlyStopping("val_both/TranslationEditRate", mode=mode)
    validate_items(tmp_path, BLEUCallback(make_metrics("both")), stopping)  # warnings are errors


@pytest.mark.parametrize("name", ["val_chrf", "val_chrf/recall", "val_ter", "val_rouge/rouge1_fmeasure"])
def test_a_module_that_logs_the_name_of_a_metric_is_an_error(name: str, tmp_path: Path) -> None:
    class Module(ToyModule):
        def on_validation_epoch_end(self) -> None:
            self.log(name, 0.5)

    bleu = BLEUCallback(make_metrics("chrf", "ter", "rouge"))
    with pytest.raises(ValueError, match=f"Module or another callback logs '{name}', like BLEUCallback"):
        make_trainer(tmp_path, bleu).validate(Module(return_corpus), make_loader(ITEMS), verbose=False)


class Fails(Fingerprint):
    """A metric that can score two sentences, but not many."""

    def compute(self) -> Any:
        if len(self.texts) > 2:
            raise MemoryError("too many")
        return super().compute()


def test_an_error_of_a_metric_ends_the_validation(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the metric 'fails' failed: MemoryError: too many"):
        validate_items(tmp_path, BLEUCallback({"fails": Fails()}))


# Copies and processes


@pytest.mark.parametrize("replicate", [copy.deepcopy, lambda bleu: pickle.loads(pickle.dumps(bleu))])
def test_a_copy_of_the_callback_scores_the_same(replicate: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback(make_metrics())
    for callback in (replicate(bleu), bleu, replicate(bleu)):  # before and after a validation
        assert validate_items(tmp_path, callback) == expected_scores(make_metrics(), {"": ITEMS})


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["forkserver", pytest.param("spawn", marks=pytest.mark.long)])
def test_spawned_processes_score_what_one_would(start_method: Any, tmp_path: Path) -> None:
    strategy = DDPStrategy(start_method=start_method)
    bleu = BLEUCallback(make_metrics(), compare_to_best=True)
    logged = fit(tmp_path, bleu, strategy=strategy, devices=2, max_epochs=2).callback_metrics
    values = {key: value.item() for key, value in logged.items()}
    assert expected_scores(make_metrics(), {"": ITEMS}, epoch=1).items() <= values.items()
    # Positions are known only in several processes, but they are in order.
    assert values["val_chrf/p_value"] == paired_bootstrap(count("chrf", 1), count("chrf", 0)).p_value


def return_index_in_process_0(batch: Tensor, epoch: int) -> dict[str, Any]:
    return return_corpus(batch, epoch) | ({} if dist.get_rank() else {"index": batch})


def return_group_in_process_0(batch: Tensor, epoch: int) -> dict[str, Any]:
    return return_corpus(batch, epoch) if dist.get_rank() else return_groups(batch, epoch)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "step", "message"),
    [
        ({"fails": Fails()}, return_corpus, "RuntimeError: the metric 'fails' failed: MemoryError: too many"),
        (
            CorpusBLEU(),
            return_index_in_process_0,
            "ValueError: 'validation_step' returned 'index' in some processes only: return it in all, or in none",
        ),
        (
            CorpusBLEU(),
            return_group_in_process_0,
            "ValueError: 'validation_step' returned 'group' in some processes only: return it in all, or in none",
        ),
    ],
)
def test_all_processes_raise_the_same_error(metrics: Any, step: Any, message: str, tmp_path: Path) -> None:
    contents = validate_in_processes(
        2, make_loaders(), tmp_path, step=step, callback_type=KeepsErrors, callback_options={"metrics": metrics}
    )
    assert [content["errors"] for content in contents] == [[message]] * 2
