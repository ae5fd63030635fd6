"""One toy module, one trainer, one loader, and one reader of event files for all tests with Lightning."""

from __future__ import annotations

import html
import importlib
import linecache
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, Result, corpus_bleu

NAMESPACES = ["pytorch_lightning", "lightning.pytorch"]
"""Both names under which Lightning is installed."""

PAD_ID = 0
"""Pads the tensors of all tests with Lightning. Their sentences have equal lengths, so it does not occur."""

SENTENCES = torch.randint(3, 9, (37, 8), generator=torch.Generator().manual_seed(0))

Step: TypeAlias = Callable[[Any, int], Any]
"""A batch and the number of the epoch → what the step returns."""


def translate(sentences: Tensor, epoch: int = 0) -> Tensor:
    """Right in the first ``4 + epoch`` tokens, wrong in the others."""
    return torch.where(torch.arange(sentences.shape[1]) < 4 + epoch, sentences, sentences + 50)


def expected_score(epoch: int = 0, sentences: Tensor = SENTENCES, **options: Any) -> BLEUScore:
    """The score of :func:`translate`."""
    return corpus_bleu(translate(sentences, epoch), sentences, **{"pad_id": PAD_ID} | options)


def return_ids(batch: Tensor, epoch: int) -> dict[str, Any]:
    """Translations and references as ids."""
    return {"preds": translate(batch, epoch), "target": batch, "other": 1}


def return_text(batch: Tensor, epoch: int) -> tuple[list[str], list[str]]:
    """Translations and references as text."""
    return as_lines(translate(batch, epoch)), as_lines(batch)


def as_lines(sentences: Tensor) -> list[str]:
    """The ids of each sentence, separated by spaces."""
    return [" ".join(map(str, row)) for row in sentences.tolist()]


class ToySteps:
    """The steps of a module that has never heard of this package."""

    def __init__(self, step: Step = return_ids) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.step = step

    def training_step(self, batch: Any) -> Tensor:
        return self.weight.sum()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch, self.current_epoch)  # type: ignore[attr-defined]

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.step(batch, self.current_epoch)  # type: ignore[attr-defined]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.weight], 0.1)


class ToyModule(ToySteps, pl.LightningModule):
    """A module whose validation and test steps return what `step` returns."""


def make_module(namespace: str = "pytorch_lightning", step: Step = return_ids) -> Any:
    """A :class:`ToyModule`, or the same for the other name of Lightning."""
    if namespace == "pytorch_lightning":
        return ToyModule(step)
    return type("ToyModule", (ToySteps, importlib.import_module(namespace).LightningModule), {})(step)


def make_trainer(folder: Path, *callbacks: Any, namespace: str = "pytorch_lightning", **options: Any) -> Any:
    """A quiet trainer on one CPU process, with checkpoints if a callback makes some."""
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 3,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "default_root_dir": folder,
        "callbacks": list(callbacks),
        "logger": False,
        "enable_checkpointing": any("Checkpoint" in type(callback).__name__ for callback in callbacks),
    }
    return importlib.import_module(namespace).Trainer(**defaults | options)


def make_callback(**options: Any) -> BLEUCallback:
    """The callback with a metric that knows the padding of tensors."""
    return BLEUCallback(CorpusBLEU(pad_id=PAD_ID), **options)


def make_loader(sentences: Any = SENTENCES, **options: Any) -> Any:
    """A loader with batches of 7."""
    return DataLoader(sentences, **{"batch_size": 7} | options)


def validate(folder: Path, *callbacks: Any, step: Step = return_ids, loaders: Any = None, **options: Any) -> Any:
    """Everything that one validation of the toy module logs."""
    trainer = make_trainer(folder, *callbacks, **options)
    module = make_module(options.get("namespace", "pytorch_lightning"), step)
    trainer.validate(module, make_loader() if loaders is None else loaders, verbose=False)
    return {key: value.item() for key, value in trainer.callback_metrics.items()}


def fit(
    folder: Path,
    *callbacks: Any,
    step: Step = return_ids,
    module: Any = None,
    loaders: Any = None,
    ckpt_path: Path | None = None,
    **options: Any,
) -> Any:
    """The trainer after a fit of the toy module, or of another one, with 6 steps in each epoch."""
    trainer = make_trainer(folder, *callbacks, **options)
    module = module or make_module(options.get("namespace", "pytorch_lightning"), step)
    trainer.fit(module, make_loader(), make_loader() if loaders is None else loaders, ckpt_path=ckpt_path)
    return trainer


class Items(Dataset[Tensor]):
    """Random sentences of eight ids."""

    def __init__(self, size: int) -> None:
        self.sentences = torch.randint(3, 9, (size, 8), generator=torch.Generator().manual_seed(size))

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> Tensor:
        return self.sentences[index]


def find_reports(bleu: BLEUCallback) -> dict[str, Any]:
    """The reports of a callback by logged name; a mean has none."""
    return {tag: result.report for tag, result in bleu.results.items() if result.report is not None}


class Record(pl.Callback):
    """What was logged in each validation, and the results of a callback."""

    def __init__(self, bleu: BLEUCallback | None = None) -> None:
        self.bleu = bleu
        self.logged: list[dict[str, float]] = []
        self.results: list[dict[str, Result]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self.logged.append({key: value.item() for key, value in trainer.callback_metrics.items()})
            self.results.append(dict(self.bleu.results) if self.bleu else {})

    def column(self, name: str) -> list[float]:
        return [values[name] for values in self.logged]


class PanelLogger(CSVLogger):
    """Keeps in `panels` the first sentences that TensorBoard would show, and in `worst` the worst ones."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.panels: list[str] = []
        self.worst: list[str] = []

    @property
    def experiment(self) -> Any:
        return self

    def add_text(self, tag: str, text: str, step: int) -> None:
        (self.worst if "worst" in tag else self.panels).append(text)

    def add_figure(self, *args: Any, **options: Any) -> None:
        pass

    log_metrics = save = flush = finalize = add_figure


def collect_warnings(call: Callable[..., Any], *args: Any, message: str, **options: Any) -> list[tuple[str, str]]:
    """File and line of code of each warning of a call that contains a text, without other warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **options)
    return [
        (warning.filename, linecache.getline(warning.filename, warning.lineno).strip())
        for warning in caught
        if issubclass(warning.category, UserWarning) and message in str(warning.message)
    ]


class Shown(NamedTuple):
    """A sentence in a table of samples, without marks."""

    number: int
    scores: list[float]
    source: str | None
    hypothesis: str
    references: list[str]


def read_table(panel: str) -> list[Shown]:
    """The sentences of a table of samples."""
    rows = []
    for line in [line for line in panel.splitlines() if line.startswith("|")][2:]:
        cells = [re.sub("</?(?:pre|strong|em)>|[\u2068\u2069]", "", cell) for cell in line.strip("| ").split(" | ")]
        number, *scores, lines = cells
        texts: dict[str, list[str]] = {"src": [], "hyp": [], "ref": []}
        for label, text in re.findall("<code>(...)(?: .empty.)?</code> ?(.*?)(?:<br>|$)", lines):
            texts[label].append(html.unescape(text))
        source, (hypothesis,), references = texts["src"], texts["hyp"], texts["ref"]
        rows.append(Shown(int(number), [*map(float, scores)], source[0] if source else None, hypothesis, references))
    return rows


def read_events(folder: Path) -> EventAccumulator:
    """Everything that TensorBoard can read in a folder."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0, "scalars": 0})
    events.Reload()
    return events


def as_logged(value: float) -> Any:
    """A score after TensorBoard has stored it as a 32-bit number."""
    return pytest.approx(value, abs=1e-6)
