"""What a validation yields depends neither on the training loop nor on the number of processes."""

from __future__ import annotations

import copy
import csv
import dataclasses
import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from inspect import getdoc, signature
from pathlib import Path
from pydoc import plaintext, render_doc  # type: ignore[attr-defined]
from typing import Any, get_type_hints

import jsonargparse
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.tensorboard import TensorBoardLogger as FabricLogger
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, Sampler
from torch.utils.tensorboard import SummaryWriter

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.evaluation.options import EvaluatorOptions, Options
from lightning_bleu.tasks import ROUGE, WER
from tests.helpers.callback_metrics import (
    OF_TEXT,
    checksum,
    corpus_of,
    expected_scores,
    group_of,
    return_sentences,
    try_to,
)
from tests.helpers.files import limit_files, read_files, read_scores
from tests.helpers.hugging_face import collate, decode, make_items, make_trainer
from tests.helpers.lightning import PanelLogger, as_logged, collect_warnings, fit, make_loader, read_events
from tests.helpers.process_groups import ProcessPool

SIZE = 13
"""The number of sentences: two and three processes cannot share them evenly."""
OPTIONS: Any = {"confidence": 0.95, "compare_to": "best", "samples": 3}


def read_run(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What TensorBoard has of a run, with its steps, and the files of its translations."""
    events = read_events(folder)
    stored: dict[str, Any] = {}
    for tag in events.Tags()["scalars"]:
        stored[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
    for tag in events.Tags()["tensors"]:  # tables, and the layout of the charts
        stored[tag] = [(event.step, event.tensor_proto.string_val[0]) for event in events.Tensors(tag)]
    for tag in events.Tags()["images"]:
        stored[tag] = [(event.step, event.encoded_image_string) for event in events.Images(tag)]
    return stored, read_files(folder / "translations")


def to_plain(value: Any) -> Any:
    """A state that can be compared. Without an index, positions are known in several processes only."""
    if isinstance(value, dict):
        return {key: to_plain(one[:, 2:] if key == "identity" else one) for key, one in value.items()}
    return value.tolist() if isinstance(value, Tensor) else value


# One process, two, and three


class Own(Sampler[int]):
    """Every process draws its share, and some items of all others, in another order."""

    def __init__(self, rank: int, processes: int) -> None:
        self.items = [item for item in reversed(range(SIZE)) if item % processes == rank or item % 4 == 0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)


def deal(rank: int, processes: int, items: Any = range(SIZE)) -> Any:
    """A loader with PyTorch's sampler, which repeats items."""
    sampler: Any = DistributedSampler(items, processes, rank, shuffle=False)
    return DataLoader(items, batch_size=2, sampler=sampler)


def deal_some(rank: int, processes: int) -> list[Tensor]:
    """All batches for the last process."""
    return [*DataLoader(range(SIZE), batch_size=4)] if rank == processes - 1 else []  # type: ignore[arg-type]


def to_index(batch: Tensor) -> dict[str, Any]:
    return {"index": batch}


CASES: dict[str, tuple[Callable[[int, int], Any], Callable[[Tensor], dict[str, Any]]]] = {
    "sampler": (deal, lambda batch: {}),
    "mask": (deal, lambda batch: {"sample_mask": batch % 5 != 0}),
    "groups": (deal, lambda batch: {"group": [*map(group_of, batch.tolist())]}),
    "list": (lambda rank, count: [deal(rank, count), deal(rank, count, range(5, 12))], lambda batch: {}),
    "dict": (lambda rank, count: {"news": deal(rank, count), "talks": deal_some(rank, count)}, to_index),
    "index": (lambda rank, count: DataLoader(range(SIZE), batch_size=2, sampler=Own(rank, count)), to_index),  # type: ignore[arg-type]
    "no batch": (deal_some, to_index),
}
"""Loaders for a rank, and what `update` gets beside the sentences."""


def make_metrics() -> dict[str, Any]:
    own: dict[str, Any] = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}
    own |= {"wer": WER(percent=True), "rouge": ROUGE(["rouge1", "rougeL"], percent=True)}
    return own | {"checksum": checksum, "order": OF_TEXT["order"](), "ter": OF_TEXT["ter"]()}


def run_loop(rank: int, processes: int, folder: Path, case: str) -> Any:
    """Three validations and a test in a plain loop: their results, and the state."""
    make, give = CASES[case]
    writers = [SummaryWriter(folder)] if rank == 0 else [SummaryWriter(folder / "not used")]
    evaluator = Evaluator(make_metrics(), translations=folder / "translations", loggers=writers, **OPTIONS)
    found = []
    for epoch in range(4):
        loaders = make(rank, processes)
        # A list of batches would be a list of loaders.
        evaluator.start([loaders] if case == "no batch" else loaders, stage="test" if epoch == 3 else "val")
        all_loaders = loaders.values() if case == "dict" else loaders if case == "list" else [loaders]
        for number, loader in enumerate(all_loaders):
            for batch in loader:
                evaluator.update(**return_sentences(batch, epoch), **give(batch), dataloader_idx=number)
        results = evaluator.finish(100 * epoch, epoch)
        found.append((dict(results), str(results), results.findings))
        shown = {name: samples.to_dicts() for name, samples in results.samples.items()}
        if rank == 0:
            (folder / f"{epoch}.json").write_text(json.dumps(shown))
        else:
            assert not shown
    writers[0].close()
    return found, to_plain(evaluator.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "processes"),
    [
        ("sampler", 2),
        pytest.param("dict", 2, marks=pytest.mark.promise("6: results are those of a single process, in a plain loop")),
        *(pytest.param(case, 3, marks=pytest.mark.long) for case in ("mask", "groups", "list", "index", "no batch")),
    ],
)
def test_several_processes_yield_what_one_does(case: str, processes: int, pool: ProcessPool, tmp_path: Path) -> None:
    expected = run_loop(0, 1, tmp_path / "1", case)
    stored, files = read_run(tmp_path / "1")
    assert len(files) > 10
    assert {"val_bleu", "val_bleu/low", "test_bleu"} <= {*stored}
    if case == "sampler":
        scores = expected_scores(["bleu"], {"": range(SIZE)}, epoch=1)
        assert expected[0][1][0]["val_bleu"].score == pytest.approx(100 * scores["val_bleu"], abs=1e-12)
    folder = tmp_path / str(processes)
    first, *others = pool.run(processes, run_loop, folder, case)
    assert first == expected
    assert others == [(expected[0], {})] * (processes - 1)  # process 0 has the best
    assert read_run(folder) == (stored, files)
    for epoch in range(4):
        assert (folder / f"{epoch}.json").read_text() == (tmp_path / "1" / f"{epoch}.json").read_text()
    assert not [*read_events(folder / "not used").Tags()["scalars"]]


# All training loops

ITEMS: Any = make_items(SIZE)


def give_ids(batch: Any, epoch: int) -> dict[str, Any]:
    """The second translations lack their first words."""
    return {"preds": batch["generated"][:, epoch:], "target": batch["labels"], "source": batch["input_ids"]}


def make_evaluator(kind: Any, folder: Path, **options: Any) -> Any:
    metrics = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True), "checksum": checksum}
    return kind(metrics, decoder=decode, translations=folder / "translations", **OPTIONS, **options)


def run_epochs(evaluator: Evaluator, loader: Any) -> Any:
    for epoch in range(2):
        evaluator.start(loader)
        for batch in loader:
            evaluator.update(**give_ids(batch, epoch))
        evaluator.finish(6 * (epoch + 1), epoch)
    return evaluator


def train_plain(folder: Path) -> Any:
    evaluator = make_evaluator(Evaluator, folder, loggers=[SummaryWriter(folder)])
    return run_epochs(evaluator, DataLoader(ITEMS, batch_size=4, collate_fn=collate))


def train_fabric(folder: Path) -> Any:
    logger = FabricLogger(folder.parent, name=folder.name, version="")
    fabric = Fabric(accelerator="cpu", devices=1, loggers=[logger])
    loader = fabric.setup_dataloaders(DataLoader(ITEMS, batch_size=4, collate_fn=collate))
    return run_epochs(make_evaluator(Evaluator, folder, loggers=fabric.loggers), loader)


def train_lightning(folder: Path) -> Any:
    callback = make_evaluator(BLEUCallback, folder)
    logger = TensorBoardLogger(folder.parent, name=folder.name, version="")
    loader = make_loader(ITEMS, batch_size=4, collate_fn=collate)
    fit(folder, callback, step=give_ids, loaders=loader, logger=logger, max_epochs=2)
    return callback


def train_transformers(folder: Path) -> Any:
    from transformers import TrainingArguments

    evaluator = make_evaluator(Evaluator, folder)
    data: Any = {"train_dataset": ITEMS[:6], "eval_dataset": ITEMS}
    epochs: Any = {"num_train_epochs": 2, "per_device_train_batch_size": 1, "eval_strategy": "epoch"}
    if hasattr(TrainingArguments, "logging_dir"):  # Transformers 4
        data["logging_dir"] = str(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder))
        trainer = make_trainer(evaluator, output_dir=str(folder), report_to=["tensorboard"], **data, **epochs)
        trainer.worse_from = 12
        trainer.train()
    return evaluator


def describe(folder: Path, evaluator: Any) -> list[Any]:
    """Results, tables, figures, files, and lines of scores of a run, with the names of a plain loop."""
    stored, files = read_run(folder)
    lines = read_scores(folder / "translations")
    for line in lines:
        del line["epoch"]  # loops number them from 0 or from 1
    files = {name: content for name, content in files.items() if not name.endswith("scores.json")}
    shown = {tag: [value for _, value in events] for tag, events in stored.items() if not_scalar(events)}
    return [
        rename(evaluator.results),
        rename({tag: values for tag, values in shown.items() if re.match("(val|eval)[_/]", tag)}),
        rename(files),
        [line | {name: str(line[name]).replace("eval", "val", 1) for name in ("stage", "key")} for line in lines],
        {tag: rename(state) for tag, state in rename(to_plain(evaluator.state_dict()["best"])).items()},
    ]


def rename(named: dict[str, Any]) -> dict[str, Any]:
    """As in a plain loop: Transformers begins with eval_, and shows eval/."""
    new = {name: re.sub("^eval_|^eval/(?=bleu|samples|worst)", "val_", name) for name in named}
    return {new[name].replace("eval/", "val/"): one for name, one in named.items()}


def not_scalar(events: list[tuple[int, Any]]) -> bool:
    return not isinstance(events[0][1], float)


@pytest.mark.slow
@pytest.mark.promise("2: the training loop changes nothing, to the last bit")
def test_the_same_sentences_yield_the_same_in_all_training_loops(tmp_path: Path) -> None:
    """Results, tables, figures, files, and the state, to the last bit."""
    expected = describe(tmp_path / "plain", train_plain(tmp_path / "plain"))
    assert [len(one) > 1 for one in expected] == [True] * 5
    assert expected[0]["val_bleu"].comparison.p_value < 1
    for name, train in {"fabric": train_fabric, "lightning": train_lightning, "hf": train_transformers}.items():
        found = describe(tmp_path / name, train(tmp_path / name))
        for one, other in zip(found, expected, strict=True):
            assert one == other, name


# Start, update, finish


def run(evaluator: Evaluator, epoch: int = 0, **options: Any) -> Any:
    """A validation after 100 steps for each epoch, or a test."""
    evaluator.start(**options)
    evaluator.update(*corpus_of(range(SIZE), epoch)[:2])
    return evaluator.finish(100 * (epoch + 1))


def test_update_and_finish_need_a_start() -> None:
    evaluator = Evaluator()
    message = r"^no validation was started: call start\(loader\) before update and finish, in all processes$"
    for call in (lambda: evaluator.update(["a"], ["a"]), lambda: evaluator.finish(1)):
        with pytest.raises(RuntimeError, match=message):
            call()
        run(evaluator)  # and again after each validation


def test_an_interrupted_validation_does_not_leak_into_the_next() -> None:
    evaluator = Evaluator()
    evaluator.start({"news": None})
    evaluator.update(["a b c d"], ["a b c d"], index=[0])
    assert run(evaluator) == run(Evaluator())
    evaluator.start()
    with pytest.raises(TypeError, match="'preds'"):
        evaluator.update(5, ["a"])
    assert run(evaluator) == run(Evaluator())


@pytest.mark.parametrize(("step", "kind"), [(500.0, TypeError), (-1, ValueError), ("5", TypeError)])
def test_a_step_is_an_integer(step: Any, kind: type[Exception]) -> None:
    evaluator = Evaluator()
    evaluator.start()
    evaluator.update(["a"], ["a"])
    with pytest.raises(kind, match=r"^'step' must be"):
        evaluator.finish(step)
    assert "val_bleu" in evaluator.finish(torch.tensor(5), torch.tensor(0.5))  # type: ignore[arg-type]


WRONG_LOADERS: list[tuple[Any, type[Exception], str]] = [
    ("val", TypeError, r"start\(\) got the loader 'val': pass loaders first, and the stage as stage='test'"),
    (["news"], TypeError, r"start\(\) got the loader 'news': pass loaders first"),
    ({"news": "talks"}, TypeError, r"start\(\) got the loader 'talks': pass loaders first"),
    ({}, ValueError, r"start\(\) got no loaders: pass the loader of the validation, or nothing if there is none$"),
    ([], ValueError, r"start\(\) got no loaders: "),
]


@pytest.mark.parametrize(("loaders", "kind", "message"), WRONG_LOADERS)
def test_a_start_without_loaders_is_an_error_that_changes_nothing(
    loaders: Any, kind: type[Exception], message: str
) -> None:
    evaluator = Evaluator()
    evaluator.start()
    evaluator.update(["a b c d"], ["a b c d"])
    with pytest.raises(kind, match=f"^{message}"):
        evaluator.start(loaders)
    assert evaluator.finish(1)["val_bleu"].score == 1


@pytest.mark.parametrize("kind", [Evaluator, BLEUCallback])
def test_several_metrics_need_names(kind: Any) -> None:
    name = kind.__name__
    for metrics, example in (
        ((CorpusBLEU(), CorpusCHRF()), "'bleu': ..., 'chrf': ..."),
        ((CorpusBLEU(), checksum), "'bleu': ..., 'NAME': ..."),
        ((None, CorpusCHRF()), "'NAME': ..., 'chrf': ..."),
    ):
        message = f"several metrics need names: pass a dict, {name}({{{example}}})"
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            kind(*metrics)


@pytest.mark.parametrize("kind", [Evaluator, BLEUCallback])
def test_a_tokenizer_that_decodes_is_a_decoder(kind: Any) -> None:
    class Tokenizer:
        def batch_decode(self, ids: list[list[int]], skip_special_tokens: bool = False) -> list[str]:
            return [" ".join(map(str, row)) for row in ids]

    tokenizer = Tokenizer()
    message = f"^'tokenizer' is not an option of {kind.__name__}: to decode ids, pass decoder=tokenizer$"
    with pytest.raises(TypeError, match=message):
        kind(tokenizer=tokenizer)
    with pytest.raises(TypeError, match=message):
        kind(tokenizer=tokenizer, pad_id=0)
    kind(decoder=tokenizer)


ONE: Any = (["a"], ["a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.start(stage="tset"), "ValueError: 'stage' must be one of .*: did you mean 'test'?"),
        (lambda one: one.update(*ONE, dataloader_idx=1), r"IndexError: start\(\) got 1 loaders, .*dataloader_idx=1$"),
        (lambda one: one.update(*ONE), "ValueError: 'update' got 'index' for some batches only: pass it for all"),
        (
            lambda one: one.update(*ONE, group=["a"], index=[1]),
            "ValueError: 'update' got 'group' for some batches only",
        ),
        (
            lambda one: (one.start(make_loader(shuffle=True)), one.update(*ONE)),
            r"ValueError: Evaluator\(compare_to='best'\) needs .*: pass the position .* as 'index' to 'update', or",
        ),
        (lambda one: Evaluator(translations=True).start(), ".* folder of a Trainer's run: pass translations='FOLDER'$"),
        (lambda one: Evaluator(loggers=CSVLogger("folder")), "TypeError: 'loggers' must be a list of .*, got <.*CSVL"),  # type: ignore[arg-type]
    ],
)
def test_an_error_speaks_of_what_was_called(call: Callable[[Evaluator], Any], message: str) -> None:
    evaluator = Evaluator(compare_to="best")
    evaluator.start()
    evaluator.update(*ONE, index=[0])
    assert re.match(message, try_to(call, evaluator))


def test_all_options_are_listed_everywhere() -> None:
    """A type checker reads one list, LightningCLI and help() the signatures, and people the documentation."""
    types = get_type_hints(Options)
    options = [field for field in dataclasses.fields(Options) if field.name != "metrics"]
    assert get_type_hints(EvaluatorOptions) == {option.name: types[option.name] for option in options}
    for shown in (Evaluator, BLEUCallback):
        parameters = signature(shown).parameters
        assert parameters["metrics"].annotation == types["metrics"]
        for option in options:
            parameter = parameters[option.name]
            assert (parameter.default, parameter.annotation) == (option.default, types[option.name])
            assert f"{option.name}: " in render_doc(shown, renderer=plaintext)
    passed: dict[str, Any] = {"samples": 3, "confidence": 0.9, "parts": True, "compare_to": "best"}
    passed |= {"log_name": "{stage}/{metric}", "translations": "t", "decoder": print, "only": ["de"]}
    for name, value in passed.items():
        assert getattr(Evaluator(**passed).options, name) == value
        assert getattr(BLEUCallback(**passed).evaluator.options, name) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        Evaluator().options.samples = 3  # type: ignore[misc]
    for option in options:
        assert f"``{option.name}``" in str(BLEUCallback.__doc__)
        assert f"\n    {option.name}: " in str(getdoc(Evaluator))
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(BLEUCallback, "bleu")
    read = parser.parse_args(["--bleu.translations=true", "--bleu.confidence=0.9"]).bleu
    defaults = {option.name: option.default for option in options}
    defaults |= {"metrics": None, "extract": None, "dataloader_names": None}
    # Old versions of jsonargparse leave the decoder out, because they do not know its type.
    assert {"decoder": None} | vars(read) == defaults | {"translations": True, "confidence": 0.9}
    for name, value in [("parts", ["bleu_1"]), ("parts", True), ("log_name", "{stage}/{metric}")]:
        assert parser.parse_args([f"--bleu.{name}={value}"]).bleu[name] == value
        assert parser.parse_string(json.dumps({"bleu": {name: value}})).bleu[name] == value
    for wrong in ("samples=many", "confidence=high", "compare_to=worst"):
        with pytest.raises(jsonargparse.ArgumentError):
            parser.parse_args([f"--bleu.{wrong}"])


def try_to_write(write: Callable[[], Any]) -> str:
    """The message of an error on a disk that is full."""
    with limit_files(100):
        return try_to(write)


def fail_in_one_process(rank: int, processes: int, folder: Path) -> list[str]:
    """The errors of each process. Something is wrong in the last one, or in the first."""
    own: Any = {"index": [0]} if rank else {}
    (folder / "file").touch()

    def validate(evaluator: Evaluator, **fields: Any) -> None:
        evaluator.start(deal(rank, processes))
        evaluator.update(["a"], [f"{rank}"], **fields)
        evaluator.finish(1)

    def score(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        return [1.0] * (len(hypotheses) - rank)

    return [
        try_to(validate, Evaluator({"f": score})),
        try_to(validate, Evaluator(), index=[0]),
        try_to(validate, Evaluator(), **own),
        try_to(validate, Evaluator(translations=folder / "file")),
        try_to_write(lambda: validate(Evaluator(translations=folder / "full"))),
        try_to(validate, Evaluator(loggers=[Fails()] if rank == 0 else [])),
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Fails cannot")
def test_an_error_in_one_process_ends_all_but_that_of_a_logger(pool: ProcessPool, tmp_path: Path) -> None:
    first, other = pool.run(2, fail_in_one_process, tmp_path)
    assert first == other
    messages = ["one number or pair per sentence", "SamePosition: ", "in some processes only", "a folder for files"]
    messages.append("File too large. Nothing of this validation was recorded")
    assert [message in error for error, message in zip(first, messages)] == [True] * 5, first
    assert first[5] == ""


def warn_in_one_process(rank: int, processes: int) -> str:
    """What `finish` says if a warning about the sentences of process 0 is an error."""
    hypotheses = [f"{source[::-1]} </s>" if rank == 0 else source[::-1] for source in PROMPTS]
    evaluator = Evaluator(samples=0)
    evaluator.start(deal(rank, processes))
    evaluator.update(hypotheses, [source[::-1] for source in PROMPTS], source=PROMPTS, index=range(rank, 40, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return try_to(lambda one: one.finish(1), evaluator)


PROMPTS = [f"the cat sat on the mat number {number}" for number in range(20)]


@pytest.mark.slow
def test_a_warning_that_is_an_error_in_one_process_ends_all(pool: ProcessPool) -> None:
    first, other = pool.run(2, warn_in_one_process)
    assert first == other
    assert first.startswith("UserWarning: "), first


def validate_without_a_loader(rank: int, processes: int) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(Evaluator())
    return [str(one.message) for one in caught]


@pytest.mark.slow
def test_several_processes_need_the_loader(pool: ProcessPool) -> None:
    (message,), others = pool.run(2, validate_without_a_loader)
    assert "scored by more than one process: start() got no loader. " in message
    assert others == []


# Only some loaders and groups


def test_an_entry_of_only_without_a_sentence_is_warned_about_once_and_the_warning_has_all_names() -> None:
    evaluator = Evaluator(only=["news/de", "typo"])
    said = []
    for labels in (["de", "fr"], ["fr", "zh"], []):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evaluator.start({"news": None, "talks": None})
            evaluator.update(labels, labels, group=labels)
            evaluator.finish(1)
        said.append([str(one.message) for one in caught])
    message = "'only' has {!r}, but this validation had no sentence of it. The names were {}. An entry is the name of"
    (first,), (second,), third = said
    assert first.startswith(message.format("typo", ["de", "fr", "news", "news/de", "news/fr", "talks"]))
    assert second.startswith(message.format("news/de", ["fr", "news", "news/fr", "news/zh", "talks", "zh"]))
    assert third == []


def validate_only(rank: int, processes: int) -> list[str]:
    """What a validation says of which each process has another group."""
    evaluator = Evaluator(only=["de", "fr", "typo"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            evaluator.start(deal(rank, processes))
            evaluator.update(["a"], ["a"], group=[["de", "fr"][rank]], index=[rank])
            evaluator.finish(step)
    return [str(one.message) for one in caught]


@pytest.mark.slow
def test_groups_of_other_processes_are_no_entries_without_sentences(pool: ProcessPool) -> None:
    (message,), others = pool.run(2, validate_only)
    assert message.startswith(
        "'only' has 'typo', but this validation had no sentence of it. The names were ['de', 'fr']."
    )
    assert others == []


# Loggers


def test_only_the_first_20_loaders_have_samples_and_figures(tmp_path: Path) -> None:
    logger = PanelLogger(tmp_path)
    evaluator = Evaluator(confidence=0.9, compare_to="best", samples=1, loggers=[logger])
    evaluator.start({f"loader {number}": None for number in range(21)})
    for number in range(21):
        evaluator.update(["a b", "c"], ["a d", "c"], dataloader_idx=number)
    results = evaluator.finish(1)
    assert [*results.samples] == [f"val/loader {number}" for number in range(20)]
    assert len(logger.panels) == len(logger.worst) == 20
    assert results["val_bleu/loader 20"].comparison is not None


@pytest.mark.long
def test_every_logger_gets_the_numbers_and_shows_samples_if_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    boards = [TensorBoardLogger(tmp_path, name="lightning", version=""), SummaryWriter(tmp_path / "plain")]
    offline, logged = wandb.init(dir=tmp_path, mode="offline"), []
    log = offline.log

    def keep(values: Any, *args: Any, **options: Any) -> None:
        logged.append(values)
        log(values, *args, **options)

    monkeypatch.setattr(offline, "log", keep)
    others = [offline, WandbLogger(experiment=offline), CSVLogger(tmp_path, name="csv", version="")]
    evaluator = Evaluator(samples=1, loggers=[*boards, *others])
    expected = [(100 * (epoch + 1), run(evaluator, epoch)["val_bleu"].score) for epoch in range(2)]
    wandb.finish()

    for name in ("plain", "lightning"):
        stored, _ = read_run(tmp_path / name)
        assert stored["val_bleu"] == [(step, as_logged(score)) for step, score in expected]
        assert [step for step, _ in stored["val_samples/text_summary"]] == [100, 200]
    for key in ("train/global_step", "trainer/global_step"):  # of a run, and of Lightning's logger
        values = [values for values in logged if key in values]
        assert [(one[key], one["val_bleu"]) for one in values if "val_bleu" in one] == expected
        assert [one[key] for one in values if "val_samples" in one] == [100, 200]
    rows = csv_rows(tmp_path / "csv" / "metrics.csv")
    assert [(int(row["step"]), float(row["val_bleu"])) for row in rows] == expected


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return [*csv.DictReader(file)]


@pytest.mark.parametrize("samples", [0, 1])
def test_empty_ids_of_some_batches_are_no_finding(samples: int) -> None:
    evaluator = Evaluator(CorpusBLEU(eos_id=2), samples=samples)
    evaluator.start()
    for first in (2, 5):
        evaluator.update([[first, 7, 8]] * 150, [[number, 7] for number in range(3, 153)])
    assert evaluator.finish(1).findings == []


class Fails:
    """A logger that cannot log anything."""

    def add_text(self, *args: Any) -> None:
        raise OSError("disk full")

    log_metrics = add_text


def test_a_logger_that_fails_is_warned_about_once() -> None:
    evaluator = Evaluator(loggers=[Fails()])
    for message in ("Fails cannot log scores: OSError: disk full", "shown in Fails: OSError: disk full"):
        (warned,) = collect_warnings(run, Evaluator(loggers=[Fails()]), message=message)
        assert warned[0] == __file__
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [run(evaluator) for _ in range(2)] == [run(Evaluator())] * 2
    assert len(caught) == 2


# State


def test_a_loop_that_is_resumed_goes_on_with_its_comparisons(tmp_path: Path) -> None:
    whole, before, after = (Evaluator(**OPTIONS) for _ in range(3))
    expected = [run(whole, epoch) for epoch in range(3)]
    assert [run(before, epoch) for epoch in range(2)] == expected[:2]
    torch.save(before.state_dict(), tmp_path / "best.pt")
    after.load_state_dict(torch.load(tmp_path / "best.pt", weights_only=True))
    assert run(after, 2) == expected[2]
    assert expected[2]["val_bleu"].best == expected[1]["val_bleu"].score
    after.load_state_dict({})  # a state without a comparison erases the best
    (result,) = run(after, 2).values()
    assert result.best == result.score
    with pytest.raises(ValueError, match=r"^expected evaluator.state_dict\(\), got .* the keys \['evaluator'\]$"):
        after.load_state_dict({"evaluator": before.state_dict()})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_goes_on_where_the_evaluator_was(copied: Callable[[Any], Evaluator], tmp_path: Path) -> None:
    evaluator = Evaluator(translations=tmp_path / "one", **OPTIONS)
    run(evaluator, 1)
    evaluator.start()
    evaluator.update(*corpus_of(range(SIZE - 1))[:2])
    other = copied(evaluator)
    for one in (evaluator, other):
        one.update(*corpus_of([SIZE - 1])[:2])
    assert evaluator.finish(1) == other.finish(1)
    assert to_plain(evaluator.state_dict()) == to_plain(other.state_dict())
