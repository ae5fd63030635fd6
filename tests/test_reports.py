"""What public reports found: a test for each kind, with the value that is right."""

from __future__ import annotations

import json
import resource
import struct
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch.utils.data import DataLoader, IterableDataset

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import read_run
from lightning_bleu.tasks import CER, WER, ExactMatch
from tests.helpers.lightning import make_trainer

PREDS = ["the cat sat on the mat", "it is a dog", "hello there", "one two three four five"]
TARGET = ["the cat sat on a mat", "it is a dog", "hello you", "one two three four six"]


def loader(numbers: list[int]) -> DataLoader[Any]:
    """A loader of the numbers of sentences."""
    dataset: Any = numbers
    return DataLoader(dataset, batch_size=2)


def evaluate(metrics: Any, preds: Any, target: Any, step: int = 1, **options: Any) -> Any:
    fields = {name: options.pop(name) for name in ("group", "index", "id") if name in options}
    evaluator = Evaluator(metrics, **options)
    evaluator.start()
    evaluator.update(preds, target, **fields)
    return evaluator.finish(step)


# Metrics


def test_sentences_without_a_reference_can_be_left_out_of_an_error_rate(tmp_path: Path) -> None:
    """As Whisper's scripts do, after normalization. They have no score, and the report counts them."""
    metrics: Any = {
        "wer": WER(normalize=lambda text: text.replace("uh", ""), skip_empty=True),
        "cer": CER(skip_empty=True),
        "all": WER(),
    }
    results = evaluate(metrics, ["a b", "x y", "z"], ["a c", "", "uh"], translations=tmp_path)
    assert {name: result.score for name, result in results.items()} == {
        "val_wer": 1 / 2,
        "val_cer": 3 / 5,  # "b" for "c", and "z" for "uh"
        "val_all": 4 / 3,
    }
    assert str(results["val_wer"].report) == "wer = 50.00 (skipped: 2 without a reference)"
    assert "|empty:skipped|" in results["val_wer"].report.signature
    assert set(results["val_wer"].parts) == {"insertions", "deletions", "substitutions"}
    (path,) = tmp_path.rglob("sentences.jsonl")
    lines = [json.loads(line)["scores"] for line in path.read_text().splitlines()]
    assert [line["wer"] for line in lines] == [0.5, None, None]
    assert [sample.index for sample in results.samples["val"].worst] == [0]
    with pytest.warns(UserWarning, match="^'wer' is a ratio whose denominator is 0"):
        assert not evaluate(WER(skip_empty=True), ["a"], [""])


def test_white_space_at_the_ends_changes_no_exact_match() -> None:
    assert evaluate(ExactMatch(), ["a\n", " b", "c"], ["a", "b\r\n", "d"])["val_exact_match"].score == 2 / 3


def test_silence_that_is_all_right_is_said_to_have_no_score() -> None:
    with pytest.warns(UserWarning, match="^'wer' of 'silence' is a ratio whose denominator is 0"):
        results = evaluate(WER(), ["a", ""], ["a", ""], group=["speech", "silence"])
    assert [*results] == ["val_wer", "val_wer/speech"]


LETTERS = dict(zip("_ ABEHLO", range(8)))
"""The ids of letters; 0 is the blank."""


def decode_ctc(lists: list[list[int]], group_tokens: bool = True) -> list[str]:
    """The decoder of a model for speech: equal ids in a row are one letter, unless a blank separates them."""
    lines = []
    for ids in lists:
        kept = [one for place, one in enumerate(ids) if not (group_tokens and place and ids[place - 1] == one)]
        lines.append("".join("_ ABEHLO"[one] for one in kept if one))
    return lines


def test_letters_of_labels_are_not_grouped_and_hypotheses_keep_their_blanks() -> None:
    labels = [[LETTERS[letter] for letter in line] for line in ("HELLO BALL", "A BALL")]
    frames = [
        [one for letter in line for one in (LETTERS[letter], LETTERS[letter], 0)] for line in ("HELO BAL", "A BALL")
    ]
    evaluator = Evaluator({"cer": CER(), "chrf": CorpusCHRF(pad_id=0, percent=True)}, decoder=decode_ctc)
    evaluator.start()
    target = torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, labels)], batch_first=True, padding_value=-100)
    preds = torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, frames)], batch_first=True)
    evaluator.update(preds, target)
    results = evaluator.finish(1)
    assert results["val_cer"].score == 2 / 16
    expected = evaluate(CorpusCHRF(percent=True), ["HELO BAL", "A BALL"], ["HELLO BALL", "A BALL"])
    assert results["val_chrf"].score == expected["val_chrf"].score


def test_a_cached_score_keeps_its_precision() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bleu = CorpusBLEU(percent=True)

    module = Module()
    module.bleu.update(PREDS, TARGET)
    score = module.bleu.compute()
    module.to(torch.bfloat16)
    assert torch.equal(module.bleu.compute(), score)


# Several scores and processes


def test_a_single_group_has_no_mean() -> None:
    """Which would be a second name for one number."""
    assert [*evaluate(CorpusBLEU(), PREDS, TARGET, group=["zh"] * 4)] == ["val_bleu", "val_bleu/zh"]


def test_a_label_in_only_holds_in_every_loader() -> None:
    evaluator = Evaluator(CorpusBLEU(max_order=1), only=["news", "zh", "talks/de"])
    evaluator.start({"news": None, "talks": None, "chats": None})
    for number, labels in enumerate((["fr", "de", "zh", "zh"], ["fr", "de", "zh", "zh"], ["fr", "fr", "fr", "zh"])):
        evaluator.update(PREDS, TARGET, group=labels, dataloader_idx=number)
    assert [name for name in evaluator.finish(1) if name.count("/") == 2] == [
        *("val_bleu/news/de", "val_bleu/news/fr", "val_bleu/news/zh", "val_bleu/news/mean"),
        *("val_bleu/talks/de", "val_bleu/talks/zh", "val_bleu/talks/mean"),
        "val_bleu/chats/zh",
    ]


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return (self.weight * self.weight).sum()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return {
            "preds": [PREDS[i] for i in batch],
            "target": [TARGET[i] for i in batch],
            "group": ["ab"[i % 2] for i in batch],
        }

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def test_two_callbacks_with_different_metrics_need_no_other_names(tmp_path: Path) -> None:
    """Speech and translation in one model: each has its own best, and `show` has the scores of both."""
    callbacks = [
        BLEUCallback({"bleu": CorpusBLEU(percent=True)}, only=["a"], compare_to="best", translations=tmp_path),
        BLEUCallback({"wer": WER(percent=True)}, only=["b"], compare_to="best", translations=tmp_path),
    ]
    trainer = make_trainer(tmp_path, *callbacks, max_epochs=1)
    trainer.fit(Module(), loader([0, 1]), loader([0, 1, 2, 3]))
    names = {"val_bleu", "val_bleu/a", "val_wer", "val_wer/b"}
    assert {name for name in trainer.callback_metrics if "_difference" not in name and name.count("/") < 2} >= names
    (validation,) = read_run(tmp_path).validations
    assert {*validation.scores} == names
    keys = {callback.state_key for callback in callbacks}
    assert len(keys) == 2
    saved = {callback.state_key: callback.state_dict() for callback in callbacks}
    joined = BLEUCallback({"bleu": CorpusBLEU(), "wer": WER()}, compare_to="best")  # as the run is resumed
    joined.on_load_checkpoint(trainer, trainer.lightning_module, {"callbacks": saved, "global_step": 1})
    assert {*joined.state_dict()["best"]} == {"val_bleu", "val_wer"}
    both: Any = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}
    with pytest.raises(ValueError, match=r"^two BLEUCallbacks log 'val_bleu'"):
        make_trainer(tmp_path, BLEUCallback(), BLEUCallback(both)).validate(Module(), loader([0]))


class Long(IterableDataset[int]):
    """A stream that is shorter than it says."""

    def __iter__(self) -> Iterator[int]:
        return iter([0, 1])

    def __len__(self) -> int:
        return 8


@pytest.mark.filterwarnings("ignore:Your `IterableDataset` has `__len__` defined")
@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
@pytest.mark.parametrize(("options", "is_said"), [({}, True), ({"limit_val_batches": 0}, False)])
def test_a_training_without_any_validation_says_that_nothing_was_scored(
    options: Any, is_said: bool, tmp_path: Path
) -> None:
    callback = BLEUCallback()
    trainer = make_trainer(tmp_path, callback, max_epochs=1, num_sanity_val_steps=0, **options)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(Module(), DataLoader(Long(), batch_size=1), loader([0, 1]))
    assert any("no validation ran" in str(one.message) for one in caught) == is_said


class Whole(IterableDataset[int]):
    """A stream that each worker reads as a whole."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The `?\\w*_dataloader`? does not have many workers")
def test_workers_that_each_read_a_whole_stream_are_noticed(tmp_path: Path) -> None:
    callback = BLEUCallback()
    stream = DataLoader(Whole(), batch_size=2, num_workers=2)
    with pytest.warns(UserWarning, match="at least 2 times, and the loader has 2 workers.*get_worker_info"):
        make_trainer(tmp_path, callback).validate(Module(), stream)


def test_captions_of_an_image_as_rows_are_told_to_be_a_list() -> None:
    with pytest.raises(ValueError, match="Pass all references of an item in one list"):
        evaluate(CorpusBLEU(), ["a", "a"], ["a", "b"], index=[0, 0])


def test_different_hypotheses_with_one_index_are_noticed() -> None:
    """Such as several answers to a prompt. That a sampler repeats a sentence is no mistake."""
    assert evaluate(CorpusBLEU(), ["a", "a"], ["a", "a"], index=[0, 0])["val_bleu"].scope == ""
    with pytest.warns(UserWarning, match="^Different hypotheses have the same 'index', and only the first one counts"):
        evaluate(CorpusBLEU(), ["a", "b"], ["a", "a"], index=[0, 0])


# What results say


def test_results_say_what_they_are_scores_of_the_whole_first() -> None:
    """A loader that was limited, references that were read twice, and an index, which counts from 0."""
    lines = [f"a b c d {number}" for number in range(60)]
    evaluator = Evaluator({"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}, compare_to="best")
    evaluator.start({"news": loader([*range(120)]), "talks": None})
    evaluator.update(lines, lines, dataloader_idx=0, group=["x", "y", "z"] * 20)
    evaluator.update(["b", "a"] * 10, ["a"] * 20, dataloader_idx=1, index=range(10, 30))
    results = evaluator.finish(1)
    assert {name: result.scope for name, result in results.items() if "bleu" in name} == {
        "val_bleu": "mean of 2 loaders",
        "val_bleu/news": "60 of 120 sentences",
        "val_bleu/talks": "20 sentences, 1 different",
        **dict.fromkeys(["val_bleu/news/x", "val_bleu/news/y", "val_bleu/news/z"], ""),
        "val_bleu/news/mean": "mean of 3 groups",
    }
    header, *rows = str(results).splitlines()
    assert [row.split()[0].removeprefix("val_") for row in rows[:5]] == [
        "bleu",
        "chrf",
        *("bleu/news", "bleu/talks"),
        "chrf/news",
    ]
    assert ("against the best before" in header, rows[0].endswith("mean of 2 loaders")) == (True, True)
    assert [sample.index for sample in results.samples["val/talks"].first[:2]] == [10, 11]


# Options, files, and pages


def test_files_in_the_order_of_a_sampler_say_so(tmp_path: Path) -> None:
    """Such as one that sorts by length."""
    numbers: Any = [0, 1, 2]
    evaluator = Evaluator(translations=tmp_path)
    evaluator.start(DataLoader(numbers, sampler=[2, 0, 1]))
    with pytest.warns(UserWarning, match="^The sentences are written in the order of list, .* or set shuffle=False"):
        evaluator.update(["a"], ["a"])


@pytest.mark.parametrize("confidence", [0.99999, 1 - 1e-16])
def test_a_confidence_that_takes_too_many_resamples_is_an_error(confidence: float) -> None:
    with pytest.raises(ValueError, match=r"^'confidence' must be at most 0.999, got 0.99.*more than 20,000"):
        Evaluator(confidence=confidence)


def test_a_state_with_tensors_for_settings_is_no_state() -> None:
    evaluator = Evaluator(compare_to="best")
    evaluator.start()
    evaluator.update(PREDS, TARGET)
    evaluator.finish(1)
    state = evaluator.state_dict()
    state["best"]["val_bleu"][""]["settings"] = {"max_order": torch.ones(2)}
    with pytest.raises(ValueError, match="'best' in it is incomplete or no state"):
        evaluator.load_state_dict(state)


def test_a_monitor_of_a_function_says_how_its_direction_is_set(tmp_path: Path) -> None:
    def wer(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        return [0.5] * len(hypotheses)

    trainer = make_trainer(tmp_path, BLEUCallback({"wer": wer}), EarlyStopping("val_wer", mode="min"), max_epochs=1)
    with pytest.warns(UserWarning, match=r"or pass FunctionMetric\(.*wer, higher_is_better=False\)"):
        trainer.fit(Module(), loader([0, 1]), loader([0, 1]))


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    results = evaluate(CorpusBLEU(), PREDS, TARGET)
    page = tmp_path / "page.html"
    results.to_html(page)
    before = page.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as on a full disk
    try:
        with pytest.raises(OSError, match="too large"):
            results.to_html(page)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert page.read_bytes() == before
    assert [*tmp_path.iterdir()] == [page]


def test_the_best_is_one_of_the_validations_with_the_settings_and_sentences_of_the_latest(tmp_path: Path) -> None:
    metrics = [CorpusBLEU(), CorpusBLEU(), CorpusBLEU(max_order=1), CorpusBLEU(lowercase=True), CorpusBLEU()]
    for step, (metric, count) in enumerate(zip(metrics, (4, 2, 4, 4, 4))):
        evaluate(metric, PREDS[:count], TARGET[:count], step, translations=tmp_path)
    run = read_run(tmp_path)
    best = run.best("val_bleu")
    assert best is not None
    assert (best.step, best.sentence_counts) == (0, {"": 4})
    assert max(validation.score("val_bleu") or 0 for validation in run.validations) > (best.score("val_bleu") or 0)


def test_a_folder_with_several_runs_is_an_error_that_lists_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        evaluate(CorpusBLEU(), PREDS, TARGET, translations=tmp_path / name / "translations")
    assert len(read_run(tmp_path / "a").validations) == 1
    with pytest.raises(ValueError, match=r"has 2 runs: pass one of them: .*a.translations, .*b.translations"):
        read_run(tmp_path)


# W&B


def read_records(content: bytes) -> Iterator[Any]:
    """The records in the file of an offline run of W&B, which has the format of the logs of LevelDB."""
    from wandb.proto import wandb_internal_pb2 as messages

    place, record = 7, b""
    while place + 7 <= len(content):
        if 2**15 - place % 2**15 < 7:  # a block ends
            place += 2**15 - place % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the end of one
            message: Any = messages.Record()  # type: ignore[attr-defined]
            message.ParseFromString(record)
            yield message
            record = b""


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The rows of an offline run of W&B, whose service may still be writing."""
    (path,) = folder.rglob("run-*.wandb")
    for _ in range(300):
        records = [*read_records(path.read_bytes())]
        if records and records[-1].HasField("exit"):
            break
        time.sleep(0.1)
    rows = []
    for record in records:
        items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        rows += [items] if items else []
    return rows


@pytest.mark.parametrize("gives_steps", [True, False])
def test_a_loop_that_logs_to_the_run_loses_nothing(
    gives_steps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B drops what is logged for an earlier step."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(dir=tmp_path, mode="offline")
    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[run], samples=1)
    expected = []
    for step in range(5):
        options = {"step": step} if gives_steps else {}
        run.log({"loss": step}, **options)
        if step % 2 == 0:
            expected.append((step, validate(evaluator, step)))
            assert validate(evaluator, step, stage="test") == validate(evaluator, step) == expected[-1][1]
            run.log({"rate": step}, **options)
    run.finish()
    rows = read_history(tmp_path)
    assert [row["loss"] for row in rows if "loss" in row] == [*range(5)]
    assert [row["rate"] for row in rows if "rate" in row] == [0, 2, 4]
    for name in ("val_bleu", "test_bleu"):
        assert [(row["train/global_step"], row[name]) for row in rows if name in row] == expected


def validate(evaluator: Evaluator, step: int, stage: str = "val") -> float:
    """The score of a model that gets worse."""
    evaluator.start(stage=stage)
    evaluator.update([*PREDS[: step // 2], *TARGET[step // 2 :]], TARGET)
    return evaluator.finish(step)[f"{stage}_bleu"].score


@pytest.mark.long
def test_a_loop_that_logs_with_accelerate_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setenv("WANDB_SILENT", "true")
    accelerator = accelerate.Accelerator(cpu=True, log_with="wandb")
    accelerator.init_trackers("project", init_kwargs={"wandb": {"dir": tmp_path, "mode": "offline"}})
    run = accelerator.get_tracker("wandb", unwrap=True)
    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[run], samples=1)
    expected = []
    for step in range(9):
        accelerator.log({"loss": step}, step=step)
        if step % 2 == 0:
            expected.append((step, validate(evaluator, step)))
    accelerator.end_training()
    rows = read_history(tmp_path)
    assert [row["loss"] for row in rows if "loss" in row] == [*range(9)]
    assert [(row["train/global_step"], row["val_bleu"]) for row in rows if "val_bleu" in row] == expected
