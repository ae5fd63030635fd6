"""Intervals and paired tests beside sacreBLEU's: `python benchmarks/significance.py --data FOLDER`.

Prints, with the WMT22 systems from English to German that lie in the folder:

- p-values and half-widths of intervals, ours and sacreBLEU's, and how far they are apart;
- the time of both tests for two comparisons, with the counting of the text and without it;

and without any data:

- the coverage: how often a 95% interval holds the true score of the texts that it was made from;
- the time of 1,000 resamples of 2,000 sentences, and the memory that 10,000 of 100,000 take.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest, Result

from lightning_bleu import CorpusBLEU, approximate_randomization, bootstrap_interval, corpus_bleu, paired_bootstrap

SYSTEMS = ["Online-A", "Online-Y", "Online-G", "Online-B", "Online-W", "PROMT", "Lan-Bridge", "OpenNMT"]


class Counted(SacreBLEU):
    """sacreBLEU with the statistics of every system counted beforehand, so that the time is that of a test alone."""

    def __init__(self, systems: dict[str, list[str]], references: list[list[str]]) -> None:
        super().__init__(references=references)
        extract = super()._extract_corpus_statistics
        self.counted = {id(lines): extract(lines, None) for lines in systems.values()}

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return self.counted[id(hypotheses)]


def read(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def seconds(call: Callable[[], Any], turns: int = 5) -> float:
    """The median time of a call."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def sacrebleu_results(
    kind: str, systems: list[tuple[str, list[str]]], metric: SacreBLEU, references: list[list[str]] | None = None
) -> list[Result]:
    """The results of sacreBLEU's test of the first system against each other one; the first is that of the first."""
    return PairedTest(systems, {"BLEU": metric}, references, test_type=kind)()[1]["BLEU"]


def count(lines: list[str], references: list[list[str]]) -> CorpusBLEU:
    """A metric that has seen a system."""
    metric = CorpusBLEU(convention="sacrebleu", percent=True, keep_sentences=True)
    metric.update(lines, [list(group) for group in zip(*references)])
    return metric


def compare(folder: Path) -> None:
    """Compare numbers and times on real systems."""
    language = folder / "wmt22" / "generaltest2022.en-de"
    systems = {name: read(Path(f"{language}.hyp.{name}.de")) for name in SYSTEMS}
    references = [read(Path(f"{language}.ref.{name}.de")) for name in "AB"]
    metrics = {name: count(lines, references) for name, lines in systems.items()}
    counted = Counted(systems, references)

    print("| systems | difference | bootstrap | sacreBLEU | randomization | sacreBLEU | half-width | sacreBLEU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    worst_p, worst_width = 0.0, 0.0
    pairs = [*itertools.combinations(SYSTEMS[:3], 2), ("Online-W", "Online-B"), ("Lan-Bridge", "PROMT")]
    pairs += [("Online-B", "Lan-Bridge"), ("Online-G", "PROMT"), ("Online-B", "PROMT"), ("PROMT", "OpenNMT")]
    for one, other in pairs:
        pair = [(one, systems[one]), (other, systems[other])]
        theirs = [sacrebleu_results(kind, pair, counted)[1] for kind in ("bs", "ar")]
        a, b = metrics[one], metrics[other]
        ours = [paired_bootstrap(a, b), approximate_randomization(a, b)]
        width = b.interval().half_width
        numbers = [ours[0].p_value, theirs[0].p_value, ours[1].p_value, theirs[1].p_value]
        worst_p = max(worst_p, abs(numbers[0] - numbers[1]), abs(numbers[2] - numbers[3]))
        worst_width = max(worst_width, abs(width / theirs[0].ci - 1))
        cells = [f"{value:.4f}" for value in numbers] + [f"{width:.3f}", f"{theirs[0].ci:.3f}"]
        print(f"| {one}, {other} | {ours[0].difference:+.2f} | {' | '.join(cells)} |")
    print(f"\n{len(pairs)} pairs: p-values at most {worst_p:.4f} apart, half-widths {100 * worst_width:.1f}%\n")

    print("| two comparisons of 2,037 sentences | ours, s | sacreBLEU, s | times |")
    print("| --- | ---: | ---: | ---: |")
    three = [(name, systems[name]) for name in SYSTEMS[:3]]
    for title, kind, test in (
        ("bootstrap", "bs", paired_bootstrap),
        ("randomization", "ar", approximate_randomization),
    ):

        def ours_alone(test: Callable[..., Any] = test) -> None:
            for name in SYSTEMS[1:3]:
                test(metrics[SYSTEMS[0]], metrics[name])

        def ours_from_text(test: Callable[..., Any] = test) -> None:
            first, *others = (count(lines, references) for _, lines in three)
            for other in others:
                test(first, other)

        def theirs_alone(kind: str = kind) -> None:
            sacrebleu_results(kind, three, counted)

        def theirs_from_text(kind: str = kind) -> None:
            sacrebleu_results(kind, three, SacreBLEU(references=references))

        for what, ours_call, theirs_call in (
            (title, ours_alone, theirs_alone),
            (f"{title} with counting", ours_from_text, theirs_from_text),
        ):
            mine, their = seconds(ours_call), seconds(theirs_call, 3)
            print(f"| {what} | {mine:.3f} | {their:.3f} | {their / mine:.1f} |")
    print()


def coverage(corpora: int = 500, sentences: int = 400) -> None:
    """Draw corpora from a population whose score is known, and see how often their intervals hold it."""
    generator = np.random.default_rng(1)
    population = [make_sentence(generator) for _ in range(20_000)]
    true = corpus_bleu(*map(list, zip(*population)), tokenizer="none")
    metric = CorpusBLEU(tokenizer="none", keep_sentences=True)
    metric.update(*map(list, zip(*population)))
    statistics = metric.sentence_statistics
    held = 0
    for number in range(corpora):
        drawn = torch.as_tensor(generator.integers(len(population), size=sentences))
        interval = bootstrap_interval(statistics[drawn], seed=number)
        held += interval.low <= true.bleu <= interval.high
    print(
        f"coverage: {held} of {corpora} intervals of 95% ({100 * held / corpora:.1f}%), from {sentences} sentences, "
        f"hold the true BLEU {100 * true.bleu:.2f}\n"
    )


def make_sentence(generator: np.random.Generator) -> tuple[list[str], list[str]]:
    """A sentence and its translation by a system that is good at some and bad at others."""
    length = 3 + generator.poisson(15)
    reference = [f"w{generator.zipf(1.3) % 5000}" for _ in range(length)]
    quality = generator.beta(4, 2)
    hypothesis = [word if generator.random() < quality else "?" for word in reference]
    return hypothesis[: 3 + generator.poisson(15)] if generator.random() < 0.1 else hypothesis, reference


def cost() -> None:
    """Time and memory on statistics of random sentences."""
    statistics = torch.randint(0, 20, (100_000, 10), dtype=torch.int32)
    few = statistics[:2_000]
    print(f"1,000 resamples of 2,000 sentences: {1000 * seconds(lambda: bootstrap_interval(few)):.0f} ms")
    print(f"1,000 resamples of both of two systems: {1000 * seconds(lambda: paired_bootstrap(few, few)):.0f} ms")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    paired_bootstrap(statistics, statistics.flip(0), 10_000)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"10,000 resamples of 100,000 sentences, both of two systems: {taken:.0f} s; the process has "
        f"{peak / 2**20:.2f} GiB at its peak, {(peak - before) / 2**20:.2f} GiB more than before"
    )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with wmt22/generaltest2022.en-de.*")
    args = parser.parse_args()
    cost()
    coverage()
    if args.data:
        compare(args.data)


if __name__ == "__main__":
    main()
