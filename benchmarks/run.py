"""Time this package beside others: `make bench`, or with options `make bench ARGS="--data FOLDER"`.

All contestants of a table are timed in turns in one process, and the median of their turns counts, so that a machine
that is busy now and then slows all of them down alike. Before that, their scores are compared. What matters are the
ratios, not the times. The tables are printed, and written to benchmarks/results.md.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import contestants
import numpy as np
import torch
from contestants import Corpus, Text
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from lightning_bleu.tokenizers import token_memory

RESULTS = Path(__file__).with_name("results.md")


def make_corpus(sentences: int, length: int, vocabulary: int, references: int, batch_size: int) -> Corpus:
    """Ids with the frequencies of words (Zipf), the references being hypotheses with 40% of the words replaced."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, vocabulary)
    cumulated = np.cumsum(weights / weights.sum())
    names = generator.permutation(vocabulary - 1) + 1  # 0 pads

    def draw(count: int) -> np.ndarray:
        return names[np.minimum(np.searchsorted(cumulated, generator.random(count)), vocabulary - 2)]

    hypotheses, groups = [], []
    for size in np.maximum(4, generator.poisson(length, sentences)):
        hypothesis = draw(size)
        hypotheses.append(hypothesis.tolist())
        groups.append(
            [np.where(generator.random(size) < 0.4, draw(size), hypothesis).tolist() for _ in range(references)]
        )
    return Corpus(hypotheses, groups, batch_size)


def make_text(sentences: int, batch_size: int) -> Text:
    """Lines of invented words with the frequencies, commas and full stops of text."""
    rng = random.Random(0)
    corpus = make_corpus(sentences, 20, 16_000, 2, batch_size)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(16_000)]

    def line(ids: list[int]) -> str:
        return " ".join(words[i] + ("," if i % 11 == 0 else "") for i in ids).capitalize() + "."

    return Text(
        [line(h) for h in corpus.hypotheses], [[line(r) for r in group] for group in corpus.references], batch_size
    )


def read_wmt22(folder: Path, batch_size: int) -> Text:
    """A system and both references of the WMT22 task from English to German."""

    def read(name: str) -> list[str]:
        path = folder / "wmt22" / f"generaltest2022.en-de.{name}.de"
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    return Text(read("hyp.Online-W"), [list(pair) for pair in zip(read("ref.A"), read("ref.B"))], batch_size)


def forget() -> None:
    """Empty the memories of this package and of sacreBLEU."""
    token_memory.cache_clear()
    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        tokenizer.__call__.cache_clear()


def compare(
    runs: dict[str, Callable[[], float]], rounds: int, before: Callable[[], None] | None = None
) -> dict[str, float]:
    """Seconds of each run, the median of several rounds in which all have a turn."""
    scores = {name: run() for name, run in runs.items()}
    if max(scores.values()) - min(scores.values()) > 1e-6:
        raise SystemExit(f"the scores differ: {scores}")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if before is not None:
                before()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(turns) for name, turns in times.items()}


def table(title: str, times: dict[str, float], sentences: int) -> str:
    """A Markdown table: microseconds a sentence, and how many times the first row's."""
    ours = next(iter(times.values()))
    rows = [f"### {title}", "", "| | µs a sentence | times ours |", "| --- | ---: | ---: |"]
    rows += [f"| {name} | {1e6 * t / sentences:.2f} | {t / ours:.2f} |" for name, t in times.items()]
    return "\n".join([*rows, ""])


def bench_ids(args: argparse.Namespace) -> list[str]:
    """Ids: the lengths, vocabularies and numbers of references that matter."""
    tables = []
    for length, vocabulary, references, peers in (
        (28, 32_000, 1, True),
        (28, 256_000, 1, False),
        (28, 32_000, 4, False),
        (128, 32_000, 1, False),
        (1_000, 32_000, 1, False),
    ):
        sentences = max(128, min(2_048, 60_000 // length))
        corpus = make_corpus(sentences, length, vocabulary, references, 64)
        entries: dict[str, Callable[[Any], float]] = {"lightning_bleu": contestants.ours_ids}
        if (limit := contestants.floor()) is not None:
            entries["C loop, one thread"] = limit
        if peers:
            entries |= {
                "sacreBLEU, no tokenizer": contestants.sacrebleu_lines,
                "NLTK": contestants.nltk_words,
                "Counter script": contestants.counter_words,
                "ignite": contestants.ignite_words,
                "torchmetrics BLEUScore": contestants.torchmetrics_lines,
            }
        times = compare({name: partial(run, corpus) for name, run in entries.items()}, args.rounds)
        title = f"Ids: {sentences:,} sentences of about {length} tokens, batches of 64, {vocabulary:,} words, "
        tables.append(table(title + f"{references} reference{'s' * (references > 1)}", times, sentences))
    return tables


def bench_text(args: argparse.Namespace) -> list[str]:
    """Text with the 13a tokenizer, unknown (cold) and known (warm) to the memories."""
    text = read_wmt22(args.data, 64) if args.data else make_text(2_048, 64)
    name = "WMT22 en-de" if args.data else "generated text"
    entries = {
        "lightning_bleu": contestants.ours_text,
        "sacreBLEU": contestants.sacrebleu_text,
        "torchmetrics SacreBLEUScore": contestants.torchmetrics_text,
    }
    runs = {label: partial(run, text) for label, run in entries.items()}
    sentences = len(text.hypotheses)
    title = f"{name}: {sentences:,} lines, two references, 13a"
    return [
        table(f"{title}, cold", compare(runs, args.rounds, forget), sentences),
        table(f"{title}, warm", compare(runs, args.rounds), sentences),
    ]


def main() -> None:
    """Run all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with WMT22 text (generated text without it)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant (default %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the tables go")
    args = parser.parse_args()
    head = (
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"{torch.get_num_threads()} threads. Medians of {args.rounds} interleaved turns.\n"
    )
    tables = [head]
    print(head)
    for bench in (bench_ids, bench_text):
        for result in bench(args):
            print(result, flush=True)
            tables.append(result)
    args.out.write_text("# Speed\n\nWritten by `make bench`.\n\n" + "\n".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main()
