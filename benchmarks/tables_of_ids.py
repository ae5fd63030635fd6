"""The tables of ids: the kernel beside a C program, and beside other implementations.

The integers of the C program are compared with ours before anything is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import contestants
import numpy as np
from corpora import Corpus, corpus, make_corpus, sample_lengths
from timing import OURS, Times, per, table, time_in_turns

from lightning_bleu import corpus_bleu

PEERS: dict[str, Callable[[Corpus], float]] = {
    "sacreBLEU, no tokenizer": contestants.sacrebleu_lines,
    "NLTK": contestants.nltk_words,
    "Counter script": contestants.counter_words,
    "ignite": contestants.ignite_words,
    "torchmetrics BLEUScore": contestants.torchmetrics_lines,
}


def time_ids(corpus: Corpus, rounds: int, peers: Mapping[str, Callable[[Corpus], float]] | None = None) -> Times:
    """Seconds that each contestant takes for a corpus of ids: for us and the C program, those of counting alone."""
    entries: dict[str, Callable[[Corpus], float]] = {OURS: contestants.ours_ids}
    if (count := contestants.c_statistics()) is not None:
        if contestants.our_statistics(corpus).tolist() != count(corpus).tolist():
            raise SystemExit(f"the C program counts {corpus.name} differently")
        entries["C, one thread"] = contestants.c_ids
    runs = {name: partial(run, corpus) for name, run in {**entries, **(peers or {})}.items()}
    # NLTK counts at least one possible match per sentence and order.
    nltk = corpus_bleu(corpus.hypotheses, corpus.references, convention="nltk").bleu
    return time_in_turns(runs, rounds, other_scores={"NLTK": nltk})


def bench_ids(args: argparse.Namespace) -> Iterator[str]:
    """Ids with the lengths of real text, in the order of the file and sorted by length."""
    rows: list[tuple[list[Any], Times]] = []
    for name, references in (("WMT22", 1), ("WMT22", 4), ("Multi30k", 1)):
        in_order = corpus(name, args.data, references)
        for ids in (in_order, in_order.sorted_by_length()):
            for batch_size in (16, 64, 256):
                peers = PEERS if batch_size == 64 and ids is in_order else None
                times = time_ids(ids.in_batches_of(batch_size), args.rounds, peers)
                rows.append(([ids.name, batch_size, references], per(times, len(ids.hypotheses))))
    lengths = sample_lengths("WMT22", 2_048, np.random.default_rng(1))
    ids = make_corpus("WMT22 lengths, 256,000 different ids", lengths, vocabulary=256_000)
    rows.append(([ids.name, 64, 1], per(time_ids(ids, args.rounds), len(lengths))))
    yield table("Ids", "µs per sentence", ["corpus", "batch", "references"], rows)


def bench_long(args: argparse.Namespace) -> Iterator[str]:
    """Long sentences."""
    rows: list[tuple[list[Any], Times]] = []
    for length in (128, 1_000):
        for references in (1, 4):
            for batch_size in (16, 64):
                lengths = np.random.default_rng(0).poisson(length, 4 * batch_size)
                ids = make_corpus(f"{length:,} tokens", lengths, references, batch_size)
                times = per(time_ids(ids, args.rounds), len(lengths))
                rows.append(([ids.name, batch_size, references], times))
    yield table("Long sentences", "µs per sentence", ["length", "batch", "references"], rows)


def bench_updates(args: argparse.Namespace) -> Iterator[str]:
    """The mean time of small updates."""
    rows: list[tuple[list[Any], Times]] = []
    for name in ("WMT22", "Multi30k"):
        for batch_size in (1, 16):
            ids = corpus(name, args.data).in_batches_of(batch_size, 800)
            updates = -(-800 // batch_size)
            rows.append(([ids.name, batch_size], per(time_ids(ids, args.rounds), updates)))
    yield table("Small updates", "µs per update", ["corpus", "sentences"], rows)


def bench_references(args: argparse.Namespace) -> Iterator[str]:
    """Many references per sentence."""
    rows: list[tuple[list[Any], Times]] = []
    for references in (4, 30, 250, 500, 1_000, 2_000):
        ids = make_corpus("", sample_lengths("WMT22", 32, np.random.default_rng(1)), references, 4)
        tokens = sum(len(reference) for group in ids.references for reference in group)
        rows.append(([f"{references:,}"], per(time_ids(ids, args.rounds), tokens)))
    yield table("Many references, batches of four sentences", "µs per token of a reference", ["references"], rows)
