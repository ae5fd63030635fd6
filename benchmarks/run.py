"""Time this package against others: `make bench`, or with options, `make bench ARGS="--data FOLDER --only text"`.

The contestants in a row of a table take turns in one process, so a machine that is busy now and then slows all of them
down alike. A turn lasts at least a quarter of a second, with garbage collection off (as in timeit). The median turn
counts. Before the first turn, their scores are compared. Each table is made in its own process, so no table depends on
an earlier one. Look at the ratios, not at the times.

The tables are printed and written to benchmarks/results.md, with a chart next to it. benchmarks/compare.py compares two
such files.
"""

from __future__ import annotations

import argparse
import gc
import math
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import contestants
import numpy as np
import torch
import torch.distributed
from contestants import Corpus, Text
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from torch.multiprocessing.spawn import spawn
from torchmetrics.text import BLEUScore

from lightning_bleu import CorpusBLEU
from lightning_bleu.counting.token_cache import clear_caches

FOLDER = Path(__file__).parent
OURS = "lightning_bleu"
SYSTEMS = [*(f"Online-{letter}" for letter in "WABGY"), "PROMT", "Lan-Bridge", "OpenNMT", "JDExploreAcademy"]

Run = Callable[[], float]
Times = dict[str, float]


def make_corpus(sentences: int, length: int, vocabulary: int, references: int, batch_size: int) -> Corpus:
    """Random ids, distributed like words (Zipf). The references are hypotheses with 40% of their words replaced."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, vocabulary)
    cumulated = np.cumsum(weights / weights.sum())
    names = generator.permutation(vocabulary - 1) + 1  # 0 is padding

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


def make_text(sentences: int, batch_size: int) -> list[Text]:
    """Lines of made-up words, with realistic word frequencies, commas, and periods."""
    rng = random.Random(0)
    corpus = make_corpus(sentences, 20, 16_000, 2, batch_size)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(16_000)]

    def line(ids: list[int]) -> str:
        return " ".join(words[i] + ("," if i % 11 == 0 else "") for i in ids).capitalize() + "."

    lines, groups = [line(h) for h in corpus.hypotheses], [[line(r) for r in group] for group in corpus.references]
    return [Text(lines, groups, batch_size)]


def read_wmt22(folder: Path, batch_size: int) -> list[Text]:
    """The systems of the WMT22 English-German task, with both references."""

    def read(name: str) -> list[str]:
        path = folder / "wmt22" / f"generaltest2022.en-de.{name}.de"
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    groups = [list(pair) for pair in zip(read("ref.A"), read("ref.B"))]
    return [Text(read(f"hyp.{system}"), groups, batch_size) for system in SYSTEMS]


def clear_all_caches() -> None:
    """Clear the tokenization caches of this package and of sacreBLEU."""
    clear_caches()
    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        tokenizer.__call__.cache_clear()


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The mean time of a run over several repeats."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    taken = time.perf_counter() - start
    gc.enable()
    return taken / repeats


def compare(runs: Mapping[str, Run], rounds: int, before: Callable[[], None] | None = None) -> Times:
    """Median seconds of each run, over several rounds in which each has a turn.

    If there is a `before`, it is called before each turn, and a turn is a single run.
    """
    scores = {name: run() for name, run in runs.items()}
    if not all(math.isclose(score, next(iter(scores.values())), abs_tol=1e-6) for score in scores.values()):
        raise SystemExit(f"the scores differ: {scores}")
    repeats = {name: max(1, math.ceil(0.25 / seconds(run, 1))) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if before is not None:
                before()
            times[name].append(seconds(run, 1 if before else repeats[name]))
    return {name: statistics.median(turns) for name, turns in times.items()}


def table(title: str, unit: str, labels: list[str], rows: list[tuple[list[Any], Times]]) -> str:
    """Two Markdown tables: times in a unit (``"µs per sentence"``), and the same times relative to ours."""
    names = list(dict.fromkeys(name for _, times in rows for name in times))

    def lines(heading: str, columns: list[str], cell: Callable[[Times, str], str]) -> Iterator[str]:
        yield from (heading, "", f"| {' | '.join([*labels, *columns])} |")
        yield f"| {' | '.join(['---'] * len(labels) + ['---:'] * len(columns))} |"
        for work, times in rows:
            cells = [cell(times, name) if name in times else "" for name in columns]
            yield f"| {' | '.join([*map(str, work), *cells])} |"
        yield ""

    return "\n".join(
        [
            *lines(f"### {title}: {unit}", names, lambda times, name: f"{1e6 * times[name]:.2f}"),
            *lines(
                f"### {title}: relative to {OURS}",
                [name for name in names if name != OURS],
                lambda times, name: f"{times[name] / times[OURS]:.2f}",
            ),
        ]
    )


def per_sentence(times: Times, sentences: int) -> Times:
    """Seconds per sentence."""
    return {name: value / sentences for name, value in times.items()}


def bench_ids(args: argparse.Namespace) -> Iterator[str]:
    """Ids, with various lengths, batch sizes, vocabularies, and numbers of references."""
    peers = {
        "sacreBLEU, no tokenizer": contestants.sacrebleu_lines,
        "NLTK": contestants.nltk_words,
        "Counter script": contestants.counter_words,
        "ignite": contestants.ignite_words,
        "torchmetrics BLEUScore": contestants.torchmetrics_lines,
    }
    works = [(28, 64, 32_000, 1), (28, 64, 32_000, 4), (128, 64, 32_000, 1)]
    with_peers = len(works)
    grid = [(n, b, v, r) for n in (28, 128, 1_000) for b in (16, 64, 256) for v in (32_000, 256_000) for r in (1, 4)]
    rows: list[tuple[list[Any], Times]] = []
    for work in [*works, *(work for work in grid if work not in works)]:
        length, batch_size, vocabulary, references = work
        sentences = max(256, min(2_048, 60_000 // length))
        corpus = make_corpus(sentences, length, vocabulary, references, batch_size)
        entries: dict[str, Callable[[Corpus], float]] = {OURS: contestants.ours_ids}
        if (c_loop := contestants.floor()) is not None:
            entries["C loop, one thread"] = c_loop
        if len(rows) < with_peers:
            entries |= peers
        runs = {name: partial(run, corpus) for name, run in entries.items()}
        rows.append(([*work], per_sentence(compare(runs, args.rounds), sentences)))
    yield table("Ids", "µs per sentence", ["tokens", "batch", "vocabulary", "references"], rows)


def texts(args: argparse.Namespace) -> tuple[str, list[Text]]:
    """The text to score, and its name."""
    return ("WMT22 en-de", read_wmt22(args.data, 64)) if args.data else ("generated text", make_text(2_048, 64))


def bench_text(args: argparse.Namespace) -> Iterator[str]:
    """Text with 13a and two references: with empty caches (cold), with full ones (warm), and over ten epochs."""
    name, systems = texts(args)
    entries = {
        OURS: contestants.ours_text,
        "sacreBLEU": contestants.sacrebleu_text,
        "torchmetrics SacreBLEUScore": contestants.torchmetrics_text,
    }

    def ten_epochs(score: Callable[[Text], float], systems: list[Text]) -> float:
        return sum(score(systems[epoch % len(systems)]) for epoch in range(10)) / 10

    once = {label: partial(run, systems[0]) for label, run in entries.items()}
    epochs = {label: partial(ten_epochs, run, systems[:1]) for label, run in entries.items()}
    sentences = len(systems[0].hypotheses)
    rows = [
        (["cold"], per_sentence(compare(once, args.rounds, clear_all_caches), sentences)),
        (["warm"], per_sentence(compare(once, args.rounds), sentences)),
        (["ten epochs, the first one cold"], per_sentence(compare(epochs, 3, clear_all_caches), 10 * sentences)),
    ]
    if len(systems) > 1:
        changing = {label: partial(ten_epochs, run, systems) for label, run in entries.items()}
        times = per_sentence(compare(changing, 3, clear_all_caches), 10 * sentences)
        rows.append((["ten epochs, each with different hypotheses"], times))
    yield table(f"Text with 13a, {name}, {sentences:,} lines, two references", "µs per sentence", ["caches"], rows)


def bench_sentences(args: argparse.Namespace) -> Iterator[str]:
    """Sentence scores."""
    corpus = make_corpus(2_048, 28, 32_000, 1, 64)
    entries = {
        OURS: contestants.ours_sentences,
        "sacreBLEU sentence_score": contestants.sacrebleu_sentences,
        "NLTK sentence_bleu": contestants.nltk_sentences,
    }
    times = compare({name: partial(run, corpus) for name, run in entries.items()}, args.rounds)
    yield table(
        "sentence_bleu, 28 tokens, batches of 64",
        "µs per sentence",
        ["smoothing"],
        [(["floor"], per_sentence(times, 2_048))],
    )


def bench_sync(args: argparse.Namespace) -> Iterator[str]:
    """The time that two processes take to add up their counts and compute the score."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(time_sync, (2, folder, args.rounds), nprocs=2)  # type: ignore[no-untyped-call]
        times = torch.load(Path(folder) / "times.pt")
    yield table("Sync and score, two processes", "µs", ["backend"], [(["gloo"], times)])


def time_sync(rank: int, processes: int, folder: str, rounds: int) -> None:
    """Time `compute` in one of several processes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=processes)
    corpus = make_corpus(64, 28, 32_000, 1, 64)
    metrics: dict[str, Any] = {OURS: CorpusBLEU(), "torchmetrics BLEUScore": BLEUScore()}
    for metric in metrics.values():
        metric.update(*corpus.lines[0])

    def compute(metric: Any) -> float:
        metric._computed = None
        return float(metric.compute())

    times: dict[str, list[float]] = {name: [] for name in metrics}
    for _ in range(rounds):
        for name, metric in metrics.items():
            torch.distributed.barrier()
            times[name].append(seconds(partial(compute, metric), 50))
    if rank == 0:
        torch.save({name: statistics.median(turns) for name, turns in times.items()}, Path(folder) / "times.pt")
    torch.distributed.destroy_process_group()


def bench_growth(args: argparse.Namespace) -> Iterator[str]:
    """Time and memory, from a thousand sentences to a million."""
    batches = make_corpus(1_024, 28, 32_000, 1, 64).tensors
    yield "### Growth: 28 tokens, batches of 64\n\n| sentences | µs per sentence | peak memory of the process, MiB |"
    yield "| --- | ---: | ---: |"
    for sentences in (1_000, 10_000, 100_000, 1_000_000):
        metric = CorpusBLEU(pad_id=0)
        start = time.perf_counter()
        for number in range(sentences // 64):
            metric.update(*batches[number % len(batches)])
        metric.compute()
        taken = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        yield f"| {sentences:,} | {1e6 * taken / sentences:.2f} | {peak:.0f} |"
    yield ""


def bench_demo(args: argparse.Namespace) -> Iterator[str]:
    """The share of validation time that the callback takes in the demo."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(FOLDER / "callback.py"), "--logdir", folder]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    yield "### The callback in the demo\n\n" + printed[printed.rindex("\n", 0, printed.index(" validations took")) :]


def bench_significance(args: argparse.Namespace) -> Iterator[str]:
    """Confidence intervals and paired tests."""
    command = [sys.executable, str(FOLDER / "significance.py"), *(["--data", str(args.data)] if args.data else [])]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    yield "### Confidence intervals and paired tests\n\n" + printed


def draw(path: Path, ids: str, text: str) -> None:
    """Draw a chart of the first row of the table of ids, and of warm text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    titles = ("ids: 28 tokens, one reference", "text: 13a, two references, warm")
    for axes, title, part, row in zip(figure.subplots(2, height_ratios=[7, 3]), titles, (ids, text), (0, 1)):
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
        start = lines[0].index(OURS)
        names, values = lines[0][start:], [float(value) for value in lines[2 + row][start:]]
        bars = axes.barh(names, values, color=["#4c72b0", *["#b0b0b0"] * (len(names) - 1)])
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log")
        axes.set_xlim(1, 3 * max(values))
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("µs per sentence (log scale)")
    figure.savefig(path)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "ids": bench_ids,
    "text": bench_text,
    "sentences": bench_sentences,
    "sync": bench_sync,
    "growth": bench_growth,
    "significance": bench_significance,
    "demo": bench_demo,
}


def main() -> None:
    """Make all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with WMT22 text (default: generated text)")
    parser.add_argument("--rounds", type=int, default=5, help="turns per contestant (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=FOLDER / "results.md", help="output file (default: %(default)s)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="make only these tables; the chart needs ids and text",
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print("\n".join(PARTS[args.part](args)))
        return
    head = (
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"{torch.get_num_threads()} threads. Medians of {args.rounds} interleaved turns.\n"
    )
    print(head)
    tables: dict[str, str] = {}
    for name in args.only:
        command = [sys.executable, __file__, "--part", name, "--rounds", str(args.rounds)]
        command += ["--data", str(args.data)] if args.data else []
        tables[name] = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n") + "\n"
        print(tables[name], flush=True)
    args.out.write_text("\n".join(["# Speed\n\nWritten by `make bench`.\n", head, *tables.values()]), encoding="utf-8")
    if {"ids", "text"} <= set(tables):
        draw(args.out.with_suffix(".png"), tables["ids"], tables["text"])


if __name__ == "__main__":
    main()
