"""Part of benchmarks/versions.py: metrics that count ids and text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from corpora import Corpus, Ids, Text, corpus, make_corpus, make_text, read_systems
from turns import Case, Heading, Measurement, Pass, clock

from lightning_bleu import CorpusBLEU, CorpusCHRF

Batches: TypeAlias = list[tuple[Any, Any]]
"""The arguments of each update."""
Metric: TypeAlias = CorpusBLEU | CorpusCHRF

PAD_ID, EOS_ID = 0, 1
UNITS = ["µs per sentence"]
WARM_UP = ["Aaa, bbb!"], [["Aaa bbb."]]
"""A batch of text that occurs nowhere else."""


def counting_cases(data: Path | None) -> Iterator[Case]:
    """All cases of this module."""
    yield from id_cases(data)
    yield from text_cases(data)


# Ids


def id_cases(data: Path | None) -> Iterator[Case]:
    """Cases with sentences of ids."""
    for name, references in (("WMT22", 1), ("WMT22", 4), ("Multi30k", 1)):
        for size in (1, 16, 64, 256):
            label = f"{corpus_label(name, data)}, references: {references}, batches of {size}"
            yield id_case(label, partial(few_batches, name, data, references, size))
    for size in (1, 16, 64, 256):
        label = f"{corpus_label('WMT22', data)} with eos_id, batches of {size}"
        yield id_case(label, partial(ended_sentences, data, size), eos_id=EOS_ID)
    for length, references in ((128, 1), (128, 4), (1_000, 1), (1_000, 4)):
        for size in (16, 64):
            label = f"{length} tokens, references: {references}, batches of {size}"
            yield id_case(label, partial(random_lengths, length, 4 * size, references, size))
    for order in (1, 2, 3, 5, 6, 9, 20, 40):
        yield id_case(f"order {order}", partial(random_lengths, 40, 256), max_order=order)
    for references in (30, 300):
        yield id_case(f"references: {references}", partial(make_corpus, "", [28] * 8, references, 2))


def id_case(name: str, sentences: Callable[[], Corpus], **options: Any) -> Case:
    """A case with BLEU of ids."""

    def prepare(folder: Path) -> Pass:
        return warm_pass(CorpusBLEU(pad_id=PAD_ID, **options), sentences().tensors)

    return Case(Heading(name, UNITS), prepare)


def corpus_label(name: str, data: Path | None) -> str:
    """The name of a corpus. Without data, it has only the lengths of the real one."""
    return f"{name} lengths" if data is None else name


def few_batches(name: str, data: Path | None, references: int, size: int) -> Corpus:
    """Up to 200 batches of about 1,024 sentences in all, but at least four."""
    return corpus(name, data, references).in_batches_of(size, size * max(4, min(200, 1_024 // size)))


def ended_sentences(data: Path | None, size: int) -> Corpus:
    """Sentences with an id at their ends. Hypotheses go on after it, like those of a model that does not stop."""
    plain = few_batches("WMT22", data, 1, size)
    hypotheses = ended(plain.hypotheses, 7, 8, 9)
    references = [ended(group) for group in plain.references]
    return Corpus(plain.name, hypotheses, references, size)


def ended(rows: Ids, *more: int) -> Ids:
    """Rows of other ids, with an end, and with more ids after it."""
    others = [[number + EOS_ID for number in row] for row in rows]
    return [[*row, EOS_ID, *more] for row in others]


def random_lengths(length: int, sentences: int, references: int = 1, size: int = 64) -> Corpus:
    """Sentences of about this many tokens."""
    lengths = np.random.default_rng(0).poisson(length, sentences)
    return make_corpus("", lengths, references, size)


# Text


def text_cases(data: Path | None) -> Iterator[Case]:
    """Cases with sentences of text: first with all of it in the caches of the package, then with none."""
    chrf_plus_plus = partial(CorpusCHRF, word_order=2)
    for references in (1, 2):
        yield text_case("13a", CorpusBLEU, data, references)
        yield text_case("chrF2", CorpusCHRF, data, references)
        yield text_case("chrF2++", chrf_plus_plus, data, references)
    for references in (1, 2):
        yield text_case("13a", CorpusBLEU, data, references, is_cold=True)
    yield text_case("chrF2++", chrf_plus_plus, data, 1, is_cold=True)


def text_case(name: str, make: Callable[[], Metric], data: Path | None, references: int, is_cold: bool = False) -> Case:
    """A case with a metric of text. With empty caches, each turn needs a process of its own."""
    caches = "empty" if is_cold else "full"
    label = f"{text_label(data)}, {name} with {caches} caches, references: {references}, batches of 64"
    make_pass = cold_pass if is_cold else warm_pass

    def prepare(folder: Path) -> Pass:
        return make_pass(make(), text(data, references).lines)

    return Case(Heading(label, UNITS), prepare, is_fresh=is_cold)


def text_label(data: Path | None) -> str:
    """A name for text."""
    return "made-up text" if data is None else "WMT22 text"


def text(data: Path | None, references: int = 1) -> Text:
    """Lines in batches of 64."""
    whole = make_text(2_048, 64) if data is None else read_systems(data, 64)[0]
    return Text(whole.hypotheses, [group[:references] for group in whole.references], 64)


# Passes


def warm_pass(metric: Metric, batches: Batches) -> Pass:
    """A pass that was made before, so all text is in the caches."""
    count(metric, batches)
    return partial(count, metric, batches)


def cold_pass(metric: Metric, batches: Batches) -> Pass:
    """A pass that finds no text in the caches if it is the first one of a process. The tokenizer is loaded before."""
    count(metric, [WARM_UP])
    return partial(count, metric, batches)


def count(metric: Metric, batches: Batches) -> Measurement:
    """Count all sentences, and score them, because another version may count some of them only then."""
    metric.reset()
    start = clock()
    for batch in batches:
        metric.update(*batch)
    metric.compute()
    seconds = clock() - start
    sentences = sum(len(preds) for preds, _ in batches)
    return Measurement([1e6 * seconds / sentences], metric.statistics.tolist())
