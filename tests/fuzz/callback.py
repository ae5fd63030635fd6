"""The callback in real validations, against scoring each set at once."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, corpus_bleu
from tests.fuzz.choices import Choices
from tests.fuzz.rounds import Target, compare
from tests.helpers.lightning import PAD_ID, find_reports, make_module, make_trainer

Item = tuple[list[int], list[list[int]]]
"""A hypothesis and its references."""

_FIRST_ID = 3
_FOLDER = Path(tempfile.gettempdir())
"""Lightning needs a folder, but writes nothing."""


def as_tensors(items: list[Item]) -> tuple[Any, Any]:
    """Padded ids."""
    count = max((len(references) for _, references in items), default=1)
    width = max((len(row) for hypothesis, references in items for row in (hypothesis, *references)), default=0)
    rows = [
        [row + [PAD_ID] * (width - len(row)) for row in (hypothesis, *references, *[[]] * (count - len(references)))]
        for hypothesis, references in items
    ]
    ids = torch.tensor(rows, dtype=torch.int64).reshape(len(items), 1 + count, width)
    return ids[:, 0], ids[:, 1:]


def as_lists(items: list[Item]) -> tuple[Any, Any]:
    """Lists of ids."""
    return [hypothesis for hypothesis, _ in items], [references for _, references in items]


def as_text(items: list[Item]) -> tuple[Any, Any]:
    """Text."""
    preds, target = as_lists(items)
    return [" ".join(map(str, row)) for row in preds], [[" ".join(map(str, row)) for row in group] for group in target]


Form = Callable[[list[Item]], tuple[Any, Any]]
FORMS: list[Form] = [as_lists, as_tensors, as_text]


class Loading(NamedTuple):
    """A set of sentences, and how it is loaded.

    Attributes:
        items: the sentences.
        batch_size: None for items that are batches themselves.
        sampler: the order of the items.
    """

    items: list[Item]
    batch_size: int | None
    sampler: str

    def dataset(self) -> Any:
        """One sentence per item, or a batch of one to three sentences."""
        if self.batch_size is not None:
            return self.items
        batches, rest = [], self.items
        while rest:
            size = 1 + len(rest) % 3
            batches.append(rest[:size])
            rest = rest[size:]
        return batches

    def loader(self) -> Any:
        """The loader."""
        dataset = self.dataset()
        sampler: Any = {
            "sequential": SequentialSampler(dataset),
            "drawn": SubsetRandomSampler(range(len(dataset))),
            "random": RandomSampler(dataset) if dataset else None,
        }[self.sampler]
        return DataLoader(dataset, self.batch_size, sampler=sampler, collate_fn=list)


@dataclass(frozen=True)
class CallbackCase:
    """Sets of sentences, and how they are passed and scored.

    Attributes:
        loadings: the sets, one per loader.
        form: how batches are passed.
        options: the options of the metric.
        route: how the sentences reach the metric: what the step of a validation returns.
        stage: ``"validate"`` or ``"test"``.
    """

    loadings: list[Loading]
    form: Form
    options: dict[str, Any]
    route: str
    stage: str

    @property
    def sentence_count(self) -> int:
        return sum(len(loading.items) for loading in self.loadings)

    def describe(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        lines = [f"{self.route} {self.stage} {self.form.__name__} CorpusBLEU({options})", *map(str, self.loadings)]
        return "\n".join(lines)

    def check(self) -> None:
        torch.manual_seed(0)
        expected = [corpus_bleu(*self.form(loading.items), **self.options) for loading in self.loadings]
        route = self.route

        def step(batch: list[Item], epoch: int) -> Any:
            preds, target = self.form(batch)
            return {"preds": preds, "target": target, "loss": 0} if route == "dict" else (preds, target)

        def extract(outputs: None, batch: list[Item]) -> Any:
            return self.form(batch)

        callback = BLEUCallback(CorpusBLEU(**self.options), extract=extract if route == "extract" else None)
        trainer = make_trainer(_FOLDER, callback)
        module = make_module(step=(lambda batch, epoch: None) if route == "extract" else step)
        loaders = [loading.loader() for loading in self.loadings]
        named = {f"set {number}": loader for number, loader in enumerate(loaders)}
        getattr(trainer, self.stage)(module, named if route == "tuple" else loaders, verbose=False)
        key = "val_bleu" if self.stage == "validate" else "test_bleu"
        names = [*named] if route == "tuple" else [f"dataloader_idx_{number}" for number in range(len(loaders))]
        tags = [f"{key}/{name}" for name in names] if route == "tuple" or len(loaders) > 1 else [key]
        scored = {tag: one for tag, one, loading in zip(tags, expected, self.loadings) if loading.items}
        reports = find_reports(callback)
        compare("tags", [*reports], [*scored])  # without sentences, there is no score
        for tag, report in scored.items():
            compare(tag, _comparable(reports[tag]), _comparable(report))
            compare(f"logged {tag}", trainer.callback_metrics[tag].item(), report.bleu)
        if scored:
            mean = math.fsum(report.bleu for report in scored.values()) / len(scored)
            compare("mean", trainer.callback_metrics[key].item(), mean)


def _comparable(report: BLEUScore) -> BLEUScore:
    """A report without its signature, which depends on how many empty references a batch has."""
    return BLEUScore(**{**vars(report), "signature": ""})


def make_case(choices: Choices) -> CallbackCase:
    """One to three sets of sentences, with random loaders."""
    vocabulary = choices.pick([3, 2, 9])
    sentences: list[Item] = []
    for group in choices.sentences():
        hypothesis, *references = [[_FIRST_ID + symbol % vocabulary for symbol in segment] for segment in group]
        sentences.append((hypothesis, references))
    route = choices.pick(["dict", "tuple", "extract"])
    count = choices.pick([1, 2, 3])
    loadings = []
    for number in range(count):
        batch_size = choices.pick([2, 1, 3, 7, None])
        sampler = choices.pick(["sequential", "random", "drawn"])
        loadings.append(Loading(sentences[number::count], batch_size, sampler))
    options = {
        "max_order": choices.pick([4, 1, 2, 6]),
        "convention": choices.pick(["sacrebleu", "papineni", "nltk", "torchmetrics", "gnmt"]),
        "percent": choices.byte() % 2 == 1,
        "tokenizer": "13a",
        "pad_id": PAD_ID,
    }
    return CallbackCase(loadings, choices.pick(FORMS), options, route, choices.pick(["validate", "test"]))


TARGET = Target("callback", make_case, round_size=60)
