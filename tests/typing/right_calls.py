"""Calls that type checkers accept. `make lint` checks them with mypy and pyright; nothing runs them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from sacrebleu.metrics.ter import TER
from torchmetrics import MetricCollection
from torchmetrics.text import ROUGEScore

from lightning_bleu import (
    CONVENTIONS,
    BLEUCallback,
    CorpusBLEU,
    CorpusCHRF,
    Evaluator,
    FunctionMetric,
    Result,
    corpus_bleu,
    corpus_chrf,
    sentence_bleu,
    sentence_chrf,
)
from lightning_bleu.compare import compare_systems


def exact(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """A function that scores sentences."""
    return [float(line in options) for line, options in zip(hypotheses, references)]


def with_sources(hypotheses: list[str], references: Sequence[Sequence[str]], sources: Sequence[str]) -> torch.Tensor:
    """A function that takes sources."""
    return torch.zeros(len(hypotheses))


CorpusBLEU()
CorpusBLEU(2, (0.5, 0.5), tokenizer="zh", lowercase=True, smoothing="floor", smoothing_value=0.1)
CorpusBLEU(convention=CONVENTIONS["nltk"], pad_id=0, eos_id=1, ignore_ids=[5, 6], percent=True)
CorpusBLEU(tokenizer=str.split, sync_on_compute=False, compute_on_cpu=True, dist_sync_on_step=True)
CorpusCHRF(word_order=2, beta=3, whitespace=True, process_group=None)

bleu = CorpusBLEU()
bleu.update(["a b"], ["a c"])
bleu.update([["a", "b"]], [[["a", "c"]]])
bleu.update(torch.tensor([[5, 6]]), torch.tensor([[5, 7]]), sample_mask=[True])
score: torch.Tensor = bleu.compute()
precisions: tuple[float, ...] = bleu.report().precisions

value: float = corpus_bleu(["a"], ["a"], tokenizer="intl", percent=True)
corpus_chrf(["a"], [["a", "b"]], word_order=2).recall
sentence_bleu(["a"], ["a"], smoothing="method4").tolist()
sentence_chrf(preds=["a"], target=["a"], char_order=3)

FunctionMetric(exact, percent=True, perfect=1)
FunctionMetric(exact, higher_is_better={"rate": False, "length": None}, corpus_level=True)
FunctionMetric(functools.partial(exact), higher_is_better=None)

Evaluator()
Evaluator({"bleu": CorpusBLEU(), "ter": TER(), "rouge": ROUGEScore(), "exact": exact, "comet": with_sources})
Evaluator({"bleu": CorpusBLEU(tokenizer="zh"), "f": FunctionMetric(exact)}, only=["zh"])
Evaluator(MetricCollection([CorpusBLEU(), CorpusCHRF()]), log_name="{stage}/{metric}")
Evaluator(exact, decoder=lambda lists: [str(ids) for ids in lists], parts=["precision_1"], samples=0)
evaluator = Evaluator(confidence=0.95, compare_to="best", translations=Path("t"), loggers=[])
evaluator.start([["a"]], stage="test")
evaluator.update(["a"], ["a"], source=["b"], index=[0], group=["de"])
results: dict[str, Result] = evaluator.finish(step=5, epoch=0.5)
best: float | None = results["val_bleu"].best
evaluator.load_state_dict(evaluator.state_dict())

BLEUCallback()
BLEUCallback(CorpusBLEU(), dataloader_names=["news"], extract=lambda outputs, batch: outputs, only=["news"])
BLEUCallback({"exact": FunctionMetric(exact)}, confidence=0.9, translations=True)

str(compare_systems({"old": "a.txt", "new": Path("b.txt")}, references=["a", "b"], metrics={"exact": exact}))
