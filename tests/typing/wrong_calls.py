"""Calls that type checkers reject. `make lint` expects an error of mypy and of pyright in each line marked as wrong."""

from __future__ import annotations

from lightning_bleu import (
    BLEUCallback,
    CorpusBLEU,
    CorpusCHRF,
    Evaluator,
    FunctionMetric,
    corpus_bleu,
    corpus_chrf,
    sentence_bleu,
)
from lightning_bleu.compare import compare_systems


def exact(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """A function that scores sentences."""
    return [float(line in options) for line, options in zip(hypotheses, references)]


CorpusBLEU(tokeniser="zh")  # wrong
CorpusBLEU(max_order="4")  # wrong
CorpusBLEU(percent=100)  # wrong
CorpusBLEU(sync_on_computes=False)  # wrong
CorpusBLEU(compute_on_cpu="yes")  # wrong
CorpusBLEU().update("a", ["a"], mask=[True])  # wrong
CorpusCHRF(tokenizer="zh")  # wrong
CorpusCHRF(word_orders=2)  # wrong
CorpusCHRF(keep=True)  # wrong

corpus_bleu(["a"], ["a"], tokeniser="zh")  # wrong
corpus_bleu(["a"])  # wrong
corpus_chrf(["a"], ["a"], max_order=2)  # wrong
sentence_bleu(["a"], ["a"], smoothing=1)  # wrong

exact.higher_is_better = False  # wrong
FunctionMetric(exact, higher_is_beter=False)  # wrong
FunctionMetric(exact, higher_is_better="no")  # wrong
FunctionMetric()  # wrong

Evaluator(confidnce=0.9)  # wrong
Evaluator(confidence="0.9")  # wrong
Evaluator(compare_to="last")  # wrong
Evaluator(tokenizer="zh")  # wrong
Evaluator(5)  # wrong
Evaluator().finish()  # wrong
Evaluator().finish(steps=5)  # wrong
Evaluator().results["val_bleu"].scores  # wrong
Evaluator().samples = 3  # wrong

BLEUCallback(confidnce=0.9)  # wrong
BLEUCallback(compare_to="last")  # wrong
BLEUCallback(samples="8")  # wrong
BLEUCallback(dataloader_name=["a"])  # wrong

compare_systems("a.txt")  # wrong
compare_systems("a.txt", "b.txt")  # wrong
compare_systems({"a": "a.txt"}, reference="ref.txt")  # wrong
