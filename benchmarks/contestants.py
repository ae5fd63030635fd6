"""The contestants: functions that take a corpus in batches and return its score in 0..1.

Each one gets the form of input that it is made for. The input is prepared beforehand.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpora import Corpus, Text
from ignite.metrics.nlp import Bleu as IgniteBleu
from nltk.translate.bleu_score import SmoothingFunction  # type: ignore[import-untyped]
from nltk.translate.bleu_score import corpus_bleu as nltk_corpus_bleu
from nltk.translate.bleu_score import sentence_bleu as nltk_sentence_bleu
from sacrebleu import BLEU as SacreBLEU
from torchmetrics.text import BLEUScore, SacreBLEUScore

from lightning_bleu import CorpusBLEU, sentence_bleu


@lru_cache(maxsize=1)
def our_metric() -> CorpusBLEU:
    """The metric for ids. It is made once, so that its time is not measured."""
    return CorpusBLEU(pad_id=0)


def our_statistics(corpus: Corpus) -> np.ndarray:
    """The counts of CorpusBLEU on padded tensors."""
    metric = our_metric()
    metric.reset()
    for preds, target in corpus.tensors:
        metric.update(preds, target)
    return metric.statistics.numpy()


def ours_ids(corpus: Corpus) -> float:
    """CorpusBLEU on padded tensors."""
    return bleu(our_statistics(corpus))


def torchmetrics_lines(corpus: Corpus) -> float:
    """torchmetrics' BLEUScore on strings."""
    metric = BLEUScore()
    for preds, target in corpus.lines:
        metric.update(preds, target)
    return metric.compute().item()


def sacrebleu_lines(corpus: Corpus) -> float:
    """sacreBLEU without a tokenizer, on strings, in one call."""
    hypotheses = [line for preds, _ in corpus.lines for line in preds]
    references = [group for _, target in corpus.lines for group in target]
    peer = SacreBLEU(tokenize="none", smooth_method="none")
    percent: float = peer.corpus_score(hypotheses, list(zip(*references))).score
    return percent / 100


def nltk_words(corpus: Corpus) -> float:
    """NLTK on lists of words, in one call."""
    hypotheses = [words for preds, _ in corpus.words for words in preds]
    references = [group for _, target in corpus.words for group in target]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(nltk_corpus_bleu(references, hypotheses))


def ignite_words(corpus: Corpus) -> float:
    """ignite's Bleu with micro averaging, on lists of words."""
    metric = IgniteBleu(average="micro")
    for batch in corpus.words:
        metric.update(batch)
    score = metric.compute()
    assert score is not None
    return float(score)


def counter_words(corpus: Corpus) -> float:
    """The script that everyone has written once: one Counter per sentence and order."""
    counts = np.zeros(10, np.int64)
    for preds, target in corpus.words:
        for hypothesis, references in zip(preds, target):
            for n in range(1, 5):
                grams = [Counter(zip(*(s[i:] for i in range(n)))) for s in (hypothesis, *references)]
                allowed = grams[1]
                for other in grams[2:]:
                    allowed |= other
                counts[n - 1] += sum((grams[0] & allowed).values())
                counts[n + 3] += max(0, len(hypothesis) - n + 1)
            counts[8] += len(hypothesis)
            counts[9] += min((abs(len(r) - len(hypothesis)), len(r)) for r in references)[1]
    return bleu(counts)


def bleu(counts: np.ndarray) -> float:
    """BLEU-4 from matches, possible matches, hypothesis length, and reference length."""
    if not counts[:4].all():
        return 0.0
    return min(1.0, math.exp(1 - counts[9] / counts[8])) * math.exp(float(np.log(counts[:4] / counts[4:8]).mean()))


@lru_cache(maxsize=1)
def c_statistics() -> Callable[[Corpus], np.ndarray] | None:
    """Compile the C program: a function that counts a corpus, in one thread. None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source = Path(__file__).with_name("floor.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "floor.so"
        subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True)
        add_batch = ctypes.CDLL(str(library)).add_batch  # stays loaded without the file
    add_batch.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int] * 4 + [ctypes.c_int64, ctypes.c_void_p]

    def count(corpus: Corpus) -> np.ndarray:
        totals = np.zeros(10, np.int64)
        for preds, target in corpus.tensors:
            sizes = *target.shape[:2], preds.shape[1], target.shape[2]
            add_batch(preds.data_ptr(), target.data_ptr(), *sizes, 0, totals.ctypes.data)
        return totals

    return count


def c_ids(corpus: Corpus) -> float:
    """The C program on padded tensors."""
    count = c_statistics()
    assert count is not None
    return bleu(count(corpus))


def ours_sentences(corpus: Corpus) -> float:
    """The mean of sentence_bleu, on padded tensors."""
    options: dict[str, Any] = {"pad_id": 0, "smoothing": "floor"}
    return torch.cat([sentence_bleu(preds, target, **options) for preds, target in corpus.tensors]).mean().item()


def sacrebleu_sentences(corpus: Corpus) -> float:
    """The mean of sacreBLEU's sentence scores, one call per string, without a tokenizer."""
    peer = SacreBLEU(tokenize="none", smooth_method="floor", effective_order=True)
    pairs = [pair for preds, target in corpus.lines for pair in zip(preds, target)]
    return float(np.mean([peer.sentence_score(line, group).score / 100 for line, group in pairs]))


def nltk_sentences(corpus: Corpus) -> float:
    """The mean of NLTK's sentence scores with its method 1, one call per list of words."""
    smoothing = SmoothingFunction().method1
    pairs = [pair for preds, target in corpus.words for pair in zip(preds, target)]
    return float(np.mean([nltk_sentence_bleu(group, words, smoothing_function=smoothing) for words, group in pairs]))


def ours_text(text: Text) -> float:
    """CorpusBLEU on strings with 13a, in batches."""
    metric = CorpusBLEU()
    for preds, target in text.lines:
        metric.update(preds, target)
    return metric.compute().item()


def sacrebleu_text(text: Text) -> float:
    """sacreBLEU with 13a, in one call."""
    peer = SacreBLEU(smooth_method="none")
    percent: float = peer.corpus_score(text.hypotheses, list(zip(*text.references))).score
    return percent / 100


def torchmetrics_text(text: Text) -> float:
    """torchmetrics' SacreBLEUScore with 13a, in batches."""
    metric = SacreBLEUScore()
    for preds, target in text.lines:
        metric.update(preds, target)
    return metric.compute().item()
