"""The callback in real Trainers of both names of Lightning."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from lightning_bleu import BLEUCallback, CorpusBLEU, corpus_bleu

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)"),
    pytest.mark.filterwarnings("ignore:.*[Tt]ensorboard.*"),
]

SENTENCES = torch.randint(3, 9, (37, 8), generator=torch.Generator().manual_seed(0))
NAMESPACES = ["pytorch_lightning", "lightning.pytorch"]


def translate(batch: torch.Tensor, epoch: int = 0) -> torch.Tensor:
    right = torch.arange(batch.shape[1]) < 4 + epoch
    return torch.where(right, batch, 99)


def expected(epoch: int = 0, sentences: torch.Tensor = SENTENCES, **options: Any) -> Any:
    return corpus_bleu(translate(sentences, epoch), sentences, **options)


class Behaviour:
    """A module that has never heard of this package."""

    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.result = result

    def training_step(self, batch: Any) -> Any:
        return self.weight.sum()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        epoch = self.current_epoch  # type: ignore[attr-defined]
        if self.result is not None:
            return self.result(batch, epoch)
        return {"preds": translate(batch, epoch), "target": batch, "other": 1}

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.validation_step(batch, batch_idx)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD([self.weight], 0.1)


class Model(Behaviour, pl.LightningModule):
    pass


def make_model(namespace: str = "pytorch_lightning", result: Any = None) -> Any:
    if namespace == "pytorch_lightning":
        return Model(result)
    return type("Model", (Behaviour, importlib.import_module(namespace).LightningModule), {})(result)


def make_trainer(tmp_path: Path, *callbacks: Any, namespace: str = "pytorch_lightning", **options: Any) -> Any:
    lightning = importlib.import_module(namespace)
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 3,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "default_root_dir": tmp_path,
        "callbacks": list(callbacks),
        "logger": False,
        "enable_checkpointing": any("Checkpoint" in type(callback).__name__ for callback in callbacks),
    }
    return lightning.Trainer(**defaults | options)


def loader(sentences: Any = SENTENCES, **options: Any) -> Any:
    return DataLoader(sentences, **{"batch_size": 7} | options)


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-6)  # Lightning logs 32-bit numbers


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_one_line_monitors_a_model(namespace: str, tmp_path: Path) -> None:
    callbacks = importlib.import_module(f"{namespace}.callbacks")
    loggers = importlib.import_module(f"{namespace}.loggers")
    bleu = BLEUCallback()
    checkpoint = callbacks.ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max", stopping_threshold=expected(1).bleu - 1e-6)
    trainer = make_trainer(
        tmp_path,
        bleu,
        checkpoint,
        stopping,
        namespace=namespace,
        logger=loggers.TensorBoardLogger(tmp_path, name="run", version=""),
    )
    trainer.fit(make_model(namespace), loader(), loader())
    assert trainer.current_epoch == 2
    assert checkpoint.best_model_score == close(expected(1).bleu)
    assert bleu.reports["val_bleu"] == expected(1)
    assert trainer.progress_bar_metrics["val_bleu"] == close(expected(1).bleu)
    assert "val_bleu/precision_1" not in trainer.progress_bar_metrics

    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    report = expected(1)
    for name, value in {
        "val_bleu": report.bleu,
        "val_bleu/precision_1": report.precisions[0],
        "val_bleu/precision_4": report.precisions[3],
        "val_bleu/brevity_penalty": report.brevity_penalty,
        "val_bleu/length_ratio": report.length_ratio,
        "val_bleu/hypothesis_length": report.hypothesis_length,
        "val_bleu/reference_length": report.reference_length,
    }.items():
        assert len(events.Scalars(name)) == 2
        assert events.Scalars(name)[-1].value == close(value)

    (tested,) = trainer.test(make_model(namespace), loader(), verbose=False)
    assert tested["test_bleu"] == close(expected(2).bleu)
    (validated,) = trainer.validate(make_model(namespace), loader(SENTENCES[:5]), verbose=False)
    assert validated["val_bleu/hypothesis_length"] == 40


def test_the_sanity_check_leaves_nothing_behind(tmp_path: Path) -> None:
    bleu = BLEUCallback()
    trainer = make_trainer(tmp_path, bleu, max_epochs=1, num_sanity_val_steps=3)
    trainer.fit(make_model(), loader(), loader())
    assert bleu.reports["val_bleu"].hypothesis_length == SENTENCES.numel()


def test_validation_within_an_epoch(tmp_path: Path) -> None:
    bleu = BLEUCallback()
    trainer = make_trainer(tmp_path, bleu, max_epochs=2, val_check_interval=2)
    seen: list[Any] = []
    update = bleu._finish

    def finish(*args: Any) -> None:
        update(*args)
        seen.append(bleu.reports["val_bleu"])

    bleu._finish = finish  # type: ignore[method-assign]
    trainer.fit(make_model(), loader(), loader())
    assert seen[1:] == [expected(0)] * 3 + [expected(1)] * 3


@pytest.mark.parametrize(
    "result",
    [
        lambda batch, epoch: (translate(batch, epoch), batch),
        lambda batch, epoch: [translate(batch, epoch), batch],
        lambda batch, epoch: {"preds": translate(batch, epoch).tolist(), "target": [[row] for row in batch.tolist()]},
        lambda batch, epoch: {"preds": iter(translate(batch, epoch)), "target": iter(batch)},
        lambda batch, epoch: {
            "preds": [" ".join(map(str, row)) for row in translate(batch, epoch).tolist()],
            "target": [" ".join(map(str, row)) for row in batch.tolist()],
        },
    ],
)
def test_what_a_step_may_return(result: Any, tmp_path: Path) -> None:
    bleu = BLEUCallback()
    make_trainer(tmp_path, bleu).validate(make_model(result=result), loader(), verbose=False)
    assert bleu.reports["val_bleu"].matches == expected().matches


def test_strings_are_counted_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done to them meanwhile, and with other forms between them."""
    monkeypatch.setattr("lightning_bleu.callback._WAITING", 14)
    returned: list[Any] = []

    def result(batch: torch.Tensor, epoch: int) -> Any:
        for preds, target in returned:
            if isinstance(preds[0], str):
                preds[0] = target[0][0] = "something else"
        preds, target = translate(batch), batch
        if len(returned) == 1:
            returned.append((preds.tolist(), [[row] for row in target.tolist()]))
        else:
            lines = [[" ".join(map(str, row)) for row in side.tolist()] for side in (preds, target)]
            returned.append((lines[0], [[line] for line in lines[1]]))
        return returned[-1]

    class Noting(CorpusBLEU):
        def update(self, preds: Any, *args: Any) -> None:
            sizes.append(len(preds))
            super().update(preds, *args)

    sizes: list[int] = []
    bleu = BLEUCallback(Noting(), samples=40)
    make_trainer(tmp_path, bleu).validate(make_model(result=result), loader(), verbose=False)
    assert bleu.reports["val_bleu"].matches == expected().matches
    assert sizes == [7, 7, 14, 9]  # in order


def test_errors_about_strings_come_with_their_batch(tmp_path: Path) -> None:
    batches: list[int] = []

    def result(batch: torch.Tensor, epoch: int) -> Any:
        batches.append(len(batch))
        return ["a b"] * len(batch), [["a"]] * (len(batch) - (len(batches) == 2))

    with pytest.raises(ValueError, match="the same number of sentences"):
        make_trainer(tmp_path, BLEUCallback()).validate(make_model(result=result), loader(), verbose=False)
    assert len(batches) == 2


def test_an_interrupted_validation_leaves_nothing_behind(tmp_path: Path) -> None:
    batches: list[int] = []

    def result(batch: torch.Tensor, epoch: int) -> Any:
        batches.append(len(batch))
        if len(batches) == 3:
            raise RuntimeError("interrupted")
        return as_text(batch, epoch)

    bleu = BLEUCallback()
    with pytest.raises(RuntimeError, match="interrupted"):
        make_trainer(tmp_path, bleu).validate(make_model(result=result), loader(), verbose=False)
    make_trainer(tmp_path, bleu).validate(make_model(result=result), loader(), verbose=False)
    assert bleu.reports["val_bleu"].matches == expected().matches


def test_extract(tmp_path: Path) -> None:
    bleu = BLEUCallback(extract=lambda outputs, batch: (outputs["translations"], batch))
    model = make_model(result=lambda batch, epoch: {"translations": translate(batch)})
    make_trainer(tmp_path, bleu).validate(model, loader(), verbose=False)
    assert bleu.reports["val_bleu"] == expected()


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (None, "a NoneType from 'validation_step'"),
        (torch.tensor(1.0), "a Tensor from 'validation_step'"),
        ({"loss": 1, "preds": 2}, r"the keys \['loss', 'preds'\] from 'validation_step'"),
    ],
)
def test_a_step_that_returns_something_else(output: Any, found: str, tmp_path: Path) -> None:
    model = make_model()
    model.validation_step = lambda batch, batch_idx: output
    message = found + r".*Either return \{'preds': .*from 'validation_step', or give BLEUCallback\(extract="
    with pytest.raises(TypeError, match=message):
        make_trainer(tmp_path, BLEUCallback()).validate(model, loader(), verbose=False)
    bad = BLEUCallback(extract=lambda outputs, batch: batch)
    with pytest.raises(TypeError, match="from 'extract'"):
        make_trainer(tmp_path, bad).validate(make_model(), loader(), verbose=False)


@pytest.mark.parametrize("names", [None, ["news", "talks"]])
def test_several_loaders(names: list[str] | None, tmp_path: Path) -> None:
    bleu = BLEUCallback(dataloader_names=names)
    loaders = [loader(), loader(SENTENCES[:3, :5])]
    results = make_trainer(tmp_path, bleu).validate(make_model(), loaders, verbose=False)
    keys = [f"val_bleu/{name}" for name in names or ["dataloader_idx_0", "dataloader_idx_1"]]
    assert [bleu.reports[key] for key in keys] == [expected(), expected(0, SENTENCES[:3, :5])]
    logged = results[0] | results[1]
    assert logged[keys[1]] == close(expected(0, SENTENCES[:3, :5]).bleu)
    assert logged[f"{keys[1]}/hypothesis_length"] == 15


def test_names_for_every_loader(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="'dataloader_names' must name every loader of 'val', got 1 names for 2 loaders"
    ):
        make_trainer(tmp_path, BLEUCallback(dataloader_names=["news"])).validate(
            make_model(), [loader(), loader()], verbose=False
        )


def test_callbacks_side_by_side(tmp_path: Path) -> None:
    one, two = BLEUCallback(), BLEUCallback(CorpusBLEU(max_order=2, percent=True), name="bleu2")
    (logged,) = make_trainer(tmp_path, one, two).validate(make_model(), loader(), verbose=False)
    assert logged["val_bleu"] == close(expected().bleu)
    assert logged["val_bleu2"] == pytest.approx(expected(max_order=2, percent=True).bleu, abs=1e-4)
    assert logged["val_bleu2/precision_2"] == pytest.approx(100 * expected().precisions[1], abs=1e-4)


def test_the_key_is_there_where_nothing_was_scored(tmp_path: Path) -> None:
    callbacks = importlib.import_module("pytorch_lightning.callbacks")
    checkpoint = callbacks.ModelCheckpoint(monitor="val_bleu", mode="max")
    stopping = callbacks.EarlyStopping("val_bleu", mode="max")
    trainer = make_trainer(tmp_path, BLEUCallback(), checkpoint, stopping, max_epochs=1)
    trainer.fit(make_model(result=lambda batch, epoch: {"preds": [], "target": []}), loader(), loader())
    assert trainer.callback_metrics["val_bleu"] == 0
    assert checkpoint.best_model_score == 0


def test_resuming(tmp_path: Path) -> None:
    callbacks = importlib.import_module("pytorch_lightning.callbacks")

    def checkpoint() -> Any:
        return callbacks.ModelCheckpoint(tmp_path / "saved", monitor="val_bleu", mode="max", save_last=True)

    make_trainer(tmp_path, BLEUCallback(), checkpoint(), max_epochs=1).fit(make_model(), loader(), loader())
    bleu = BLEUCallback()
    resumed = make_trainer(tmp_path, bleu, checkpoint(), max_epochs=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Checkpoint directory")
        path = tmp_path / "saved" / "last.ckpt"
        resumed.fit(make_model(), loader(), loader(), ckpt_path=path, weights_only=False)
    assert bleu.reports["val_bleu"] == expected(1)


def test_the_given_metric_stays_as_it_is(tmp_path: Path) -> None:
    metric = CorpusBLEU()
    metric.update(["a b"], ["a b"])
    bleu = BLEUCallback(metric)
    make_trainer(tmp_path, bleu).validate(make_model(), loader(), verbose=False)
    assert metric.hypothesis_length == 2
    assert bleu.reports["val_bleu"] == expected()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"metric": "bleu"}, TypeError, "'metric' must be a CorpusBLEU, got 'bleu'"),
        ({"extract": 1}, TypeError, "'extract' must take outputs and batch"),
        ({"dataloader_names": "news"}, TypeError, "'dataloader_names' must be a list of names"),
        ({"samples": -1}, ValueError, "'samples' must be an integer of 0 or more, got -1"),
    ],
)
def test_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        BLEUCallback(**options)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Any:
        return iter(SENTENCES)


class Items(Dataset[torch.Tensor]):
    def __init__(self, size: int) -> None:
        self.sentences = torch.randint(3, 9, (size, 8), generator=torch.Generator().manual_seed(size))

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.sentences[index]


class Write(pl.Callback):
    """Saves what a process has logged and counted."""

    def __init__(self, folder: Path, bleu: BLEUCallback) -> None:
        self.folder, self.bleu = folder, bleu

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        logged = {key: value.item() for key, value in trainer.callback_metrics.items()}
        panels = getattr(trainer.logger, "panels", [])
        content = {"logged": logged, "reports": self.bleu.reports, "panels": panels, "intervals": self.bleu.intervals}
        torch.save(content, self.folder / f"{trainer.global_rank}.pt")


class Panels(CSVLogger):
    """Keeps what TensorBoard would show as text."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.panels: list[str] = []

    @property
    def experiment(self) -> Any:
        return self

    def add_text(self, tag: str, text: str, step: int) -> None:
        self.panels.append(text)

    def add_histogram(self, *args: Any, **options: Any) -> None:
        pass

    add_figure = log_metrics = save = finalize = add_histogram  # type: ignore[assignment]


def validate_in_processes(processes: int, loaders: dict[str, Any], tmp_path: Path, **options: Any) -> list[Any]:
    """What each process has logged and counted of several loaders."""
    result = options.pop("result", None)
    bleu = BLEUCallback(dataloader_names=list(loaders), **options.pop("options", {}))
    trainer = make_trainer(tmp_path, bleu, Write(tmp_path, bleu), strategy="ddp_spawn", devices=processes, **options)
    trainer.validate(make_model(result=result), list(loaders.values()), verbose=False)
    return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(processes)]


def as_text(batch: torch.Tensor, epoch: int) -> Any:
    return [[" ".join(map(str, row)) for row in side.tolist()] for side in (translate(batch), batch)]


@pytest.mark.filterwarnings("ignore:.*Using `DistributedSampler` with the dataloaders")
@pytest.mark.parametrize(("processes", "result"), [(2, None), (2, as_text), (3, None)])
def test_every_sentence_counts_once(processes: int, result: Any, tmp_path: Path) -> None:
    sets = {f"{size}-{batch_size}": (Items(size), batch_size) for size in (1, 5, 37) for batch_size in (1, 4)}
    loaders = {name: DataLoader(items, batch_size=batch_size) for name, (items, batch_size) in sets.items()}
    for content in validate_in_processes(processes, loaders, tmp_path, result=result):
        for name, (items, _) in sets.items():
            alone = corpus_bleu(translate(items.sentences), items.sentences)
            assert content["reports"][f"val_bleu/{name}"].matches == alone.matches
            assert content["reports"][f"val_bleu/{name}"].reference_length == alone.reference_length
            # to the last of the 32 bits that Lightning logs
            assert content["logged"][f"val_bleu/{name}"] == torch.tensor(alone.bleu).item()


class MyBatches(torch.utils.data.BatchSampler):
    pass


def doubled(batch: torch.Tensor, epoch: int) -> Any:
    twice = batch.repeat_interleave(2, 0)
    return twice, twice


@pytest.mark.filterwarnings("ignore:.*Using `DistributedSampler` with the dataloaders")
def test_loaders_that_are_not_plain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On two processes: what is known is counted once, and there is a warning where it is not known."""
    loaders = {
        "dropping": DataLoader(Items(37), batch_size=7, drop_last=True),
        "unbatched": DataLoader(list(Items(5).sentences.split(2)), batch_size=None),
        "own batches": DataLoader(Items(37), batch_sampler=MyBatches(SequentialSampler(range(37)), 7, False)),
        "stream": DataLoader(Stream(), batch_size=7),
    }
    sentences = {
        "dropping": 28,  # of 19 items for each process, 14 make full batches
        "unbatched": 5,  # three items for two processes, each of them a batch
        "own batches": 38,
        "stream": 74,
    }
    for content in validate_in_processes(2, loaders, tmp_path):
        counted = {name: report.hypothesis_length / 8 for name, report in content["reports"].items()}
        assert counted == {f"val_bleu/{name}": number for name, number in sentences.items()}
    error = capfd.readouterr().err
    warned = {name for name in sentences if f"cannot tell which sentences of 'val_bleu/{name}'" in error}
    assert warned == {"own batches", "stream"}


@pytest.mark.filterwarnings("ignore:.*Using `DistributedSampler` with the dataloaders")
def test_two_sentences_of_an_item(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaders = {"plain": DataLoader(Items(37), batch_size=7)}
    contents = validate_in_processes(2, loaders, tmp_path, limit_val_batches=2, result=doubled, logger=Panels(tmp_path))
    assert contents[0]["reports"]["val_bleu/plain"].hypothesis_length == 8 * 2 * 7 * 2 * 2
    # one process shows its sentences, and says that they are not all
    assert "The sentences are those of process 0 of 2." in contents[0]["panels"][0]
    assert contents[1]["panels"] == []
    assert "a batch of 7 items became 14 sentences" in capfd.readouterr().err
