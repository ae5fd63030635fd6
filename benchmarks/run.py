"""Time this package against others: `make bench`, or with options, `make bench ARGS="--data FOLDER --only text"`.

The contestants in a row of a table take turns in one process, so a machine that is busy now and then slows all of them
down alike. A turn lasts at least a quarter of a second, with garbage collection off (as in timeit). The median turn
counts. Before the first turn, their scores are compared. Each table is made in its own process, so no table depends on
an earlier one. Look at the ratios, not at the times.

The tables are printed. If all are made, they are also written to benchmarks/results.md, with a chart next to it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import contestants
import numpy as np
import tables_of_ids
import torch
from corpora import Text, corpus, make_corpus, make_text, read_systems
from processes import peak_increase, run_in_processes
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from timing import OURS, Times, per, table, time_in_turns

from lightning_bleu import CorpusBLEU, sentence_bleu
from lightning_bleu.core.tokens import clear_caches

FOLDER = Path(__file__).parent
ABOUT = """# Benchmarks

Written by `make bench`. With `ARGS="--data FOLDER"`, the sentences are those of WMT22 (German news) and Multi30k
(English captions), in the files that `benchmarks/corpora.py` names; otherwise, words are random. The contestants take
turns in one process, so look at the ratios, and must agree on the score before they are timed. The C program does
nothing but count. `.venv/bin/python benchmarks/versions.py FOLDER` compares the working tree with another version.

![Microseconds per sentence for each implementation](results.png)

## Results
"""


def clear_all_caches() -> None:
    """Clear the tokenization caches of this package and of sacreBLEU."""
    clear_caches()
    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        tokenizer.__call__.cache_clear()


def texts(args: argparse.Namespace) -> tuple[str, list[Text]]:
    """The name of the text, and its systems."""
    return ("WMT22 en-de", read_systems(args.data, 64)) if args.data else ("generated text", [make_text(2_048, 64)])


def bench_text(args: argparse.Namespace) -> Iterator[str]:
    """Text with 13a and two references: with empty caches (cold), with full ones (warm), and over several epochs."""
    name, systems = texts(args)
    entries = {
        OURS: contestants.ours_text,
        "sacreBLEU": contestants.sacrebleu_text,
        "torchmetrics SacreBLEUScore": contestants.torchmetrics_text,
    }

    def score_all(score: Callable[[Text], float], epochs: list[Text]) -> float:
        return sum(map(score, epochs)) / len(epochs)

    once = {label: partial(run, systems[0]) for label, run in entries.items()}
    sentences = len(systems[0].hypotheses)
    rows = [
        (["cold"], per(time_in_turns(once, args.rounds, clear_all_caches), sentences)),
        (["warm"], per(time_in_turns(once, args.rounds), sentences)),
    ]
    several = {"ten epochs, the first one cold": systems[:1] * 10}
    if len(systems) > 1:
        several[f"{len(systems)} epochs with different hypotheses"] = systems
    for title, epochs in several.items():
        runs = {label: partial(score_all, run, epochs) for label, run in entries.items()}
        rows.append(([title], per(time_in_turns(runs, 3, clear_all_caches), len(epochs) * sentences)))
    yield table(f"Text with 13a, {name}, {sentences:,} lines, two references", "µs per sentence", ["caches"], rows)


def bench_sentences(args: argparse.Namespace) -> Iterator[str]:
    """Sentence scores."""
    ids = corpus("WMT22", args.data)
    entries = {
        OURS: contestants.ours_sentences,
        "sacreBLEU sentence_score": contestants.sacrebleu_sentences,
        "NLTK sentence_bleu": contestants.nltk_sentences,
    }
    runs = {name: partial(run, ids) for name, run in entries.items()}
    # NLTK counts at least one possible match per sentence and order.
    nltk = sentence_bleu(ids.hypotheses, ids.references, convention="nltk", smoothing="method1").mean().item()
    times = time_in_turns(runs, args.rounds, other_scores={"NLTK sentence_bleu": nltk})
    rows: list[tuple[list[Any], Times]] = [(["floor"], per(times, len(ids.hypotheses)))]
    yield table(f"sentence_bleu, {ids.name}, batches of 64", "µs per sentence", ["smoothing"], rows)


def bench_memory(args: argparse.Namespace) -> Iterator[str]:
    """The memory that a very long sentence costs."""
    if sys.platform != "linux":
        return
    yield "### Memory: an update with 10,000 lines of 12 words\n"
    yield "| input | peak beside the input, MiB | with another line of 100,000 words, MiB |\n| --- | ---: | ---: |"
    for kind in ("text", "lists of ids"):
        peaks = [run_in_processes(1, memory_of_update, kind, words)[0] for words in (0, 100_000)]
        yield f"| {kind} | {peaks[0]:.0f} | {peaks[1]:.0f} |"
    yield ""


def memory_of_update(rank: int, kind: str, words: int) -> float:
    """Score short sentences and one with this many words, if any; the memory beside the inputs, in MiB."""
    ids = make_corpus("", [12] * 10_000 + [words] * (words > 0))
    preds: Any = ids.hypotheses
    target: Any = ids.references
    if kind == "text":
        preds = [" ".join(map(str, row)) for row in preds]
        target = [[" ".join(map(str, row)) for row in group] for group in target]
    metric = CorpusBLEU()
    metric.update(preds[:2], target[:2])  # warms up
    return peak_increase(lambda: metric.update(preds, target))


def run_script(name: str, args: argparse.Namespace, *, data: bool = True) -> str:
    """What another benchmark prints."""
    command = [sys.executable, str(FOLDER / name), *(["--data", str(args.data)] if data and args.data else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def bench_significance(args: argparse.Namespace) -> Iterator[str]:
    """Confidence intervals and paired tests."""
    yield "### Confidence intervals and paired tests\n\n" + run_script("significance.py", args)


def bench_chrf(args: argparse.Namespace) -> Iterator[str]:
    """chrF."""
    yield run_script("chrf.py", args)


def bench_scale(args: argparse.Namespace) -> Iterator[str]:
    """Several processes, and a million sentences."""
    if sys.platform == "linux":
        yield "### Scale\n\n" + run_script("scale.py", args, data=False)


def bench_callback(args: argparse.Namespace) -> Iterator[str]:
    """The share of validation time that the callback takes in the demo."""
    printed = run_script("callback.py", args, data=False)
    yield "### The callback in the demo\n\n" + printed[printed.rindex("\n", 0, printed.index(" validations took")) :]


def draw(path: Path, ids: str, text: str) -> None:
    """Draw a chart of the second row of the table of ids (batches of 64), and of warm text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    titles = ("ids: WMT22, one reference", "text: 13a, two references, warm")
    for axes, title, part in zip(figure.subplots(2, height_ratios=[7, 3]), titles, (ids, text)):
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
        start = lines[0].index(OURS)
        names, values = lines[0][start:], [float(value) for value in lines[3][start:]]
        bars = axes.barh(names, values, color=["#4c72b0", *["#b0b0b0"] * (len(names) - 1)])
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log")
        axes.set_xlim(min(1, *values) / 2, 3 * max(values))
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("µs per sentence (log scale)")
    figure.savefig(path)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "ids": tables_of_ids.bench_ids,
    "long": tables_of_ids.bench_long,
    "updates": tables_of_ids.bench_updates,
    "references": tables_of_ids.bench_references,
    "text": bench_text,
    "sentences": bench_sentences,
    "memory": bench_memory,
    "chrf": bench_chrf,
    "significance": bench_significance,
    "scale": bench_scale,
    "callback": bench_callback,
}


def main() -> None:
    """Make all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with WMT22 and Multi30k text (default: made-up text)")
    parser.add_argument("--rounds", type=int, default=5, help="turns per contestant (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, help="output file (default: results.md in this folder, unless --only is set)"
    )
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
        f"- Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}\n"
        f"- {os.cpu_count()} CPU cores, {platform.machine()}\n"
        f"- text: {'WMT22 and Multi30k' if args.data else 'made up, with the lengths of WMT22 and Multi30k'}\n"
        f"- medians of {args.rounds} interleaved turns (3 for several epochs of text)\n"
    )
    print(head)
    out = args.out or (FOLDER / "results.md" if args.only == list(PARTS) else None)
    tables: dict[str, str] = {}
    for name in args.only:
        command = [sys.executable, __file__, "--part", name, "--rounds", str(args.rounds)]
        command += ["--data", str(args.data)] if args.data else []
        tables[name] = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n") + "\n"
        print(tables[name], flush=True)
        if out is not None:
            out.write_text("\n".join([ABOUT, head, *tables.values()]), encoding="utf-8")
    if out is not None and {"ids", "text"} <= set(tables):
        draw(out.with_suffix(".png"), tables["ids"], tables["text"])


if __name__ == "__main__":
    main()
