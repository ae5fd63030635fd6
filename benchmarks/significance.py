"""Compare confidence intervals and paired tests with sacreBLEU's: `python benchmarks/significance.py --data FOLDER`.

Without any data, prints:

- the time that the end of a validation takes without and with intervals and comparisons, and the memory;
- coverage: how often a 95% interval contains the true score of the population that its sentences were drawn from.

With a folder of WMT22 English-German systems, also prints:

- coverage of differences: how often the interval of a difference contains the difference of two systems on all
  sentences, of which its sentences were drawn;
- how many sentences it takes: interval half-widths of scores and of differences, with 100 to all sentences;
- the p-values and interval half-widths of both libraries, and how far apart they are;
- the time of both for two comparisons.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpora import read_wmt22
from sacrebleu import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest as SacrePairedTest
from sacrebleu.significance import Result

from lightning_bleu import CorpusBLEU, Evaluator, Interval, PairedTest, corpus_bleu
from lightning_bleu.compare import Comparison, compare_systems

SYSTEMS = ["Online-A", "Online-Y", "Online-G", "Online-B", "Online-W", "PROMT", "Lan-Bridge", "OpenNMT"]
RESAMPLES = 1000


class Counted(SacreBLEU):
    """sacreBLEU with the statistics of every system counted beforehand, so that many tests take less time."""

    def __init__(self, systems: dict[str, list[str]], references: list[list[str]]) -> None:
        super().__init__(references=references)
        extract = super()._extract_corpus_statistics
        self.counted = {id(lines): extract(lines, None) for lines in systems.values()}

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return self.counted[id(hypotheses)]


def seconds(call: Callable[[], Any], turns: int = 5) -> float:
    """The median time of a call."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def sacrebleu_results(systems: Sequence[tuple[str, Sequence[str]]], metric: SacreBLEU) -> list[Result]:
    """Run sacreBLEU's bootstrap of the first system against the others; the baseline's own result comes first."""
    results = SacrePairedTest([*systems], {"BLEU": metric}, None, test_type="bs")()[1]["BLEU"]
    return [result for result in results if isinstance(result, Result)]


def compare(systems: dict[str, list[str]], references: Sequence[Any], seed: int = 0) -> Comparison:
    """Compare systems by BLEU, the first of which is the baseline."""
    bleu = CorpusBLEU(percent=True)
    return compare_systems(systems, references=references, metrics=bleu, resamples=RESAMPLES, seed=seed)


def compare_with_sacrebleu(folder: Path) -> None:
    """Compare results and times on real systems."""
    systems = {name: read_wmt22(folder, f"hyp.{name}") for name in SYSTEMS}
    streams = [read_wmt22(folder, f"ref.{name}") for name in "AB"]
    references = [list(group) for group in zip(*streams)]
    counted = Counted(systems, streams)

    print("| systems | difference | p | sacreBLEU | half-width | sacreBLEU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    worst_p, worst_width = 0.0, 0.0
    pairs = [*itertools.combinations(SYSTEMS[:3], 2), ("Online-W", "Online-B"), ("Lan-Bridge", "PROMT")]
    pairs += [("Online-B", "Lan-Bridge"), ("Online-G", "PROMT"), ("Online-B", "PROMT"), ("PROMT", "OpenNMT")]
    for one, other in pairs:
        _, theirs = sacrebleu_results([(one, systems[one]), (other, systems[other])], counted)
        assert theirs.p_value is not None
        assert theirs.ci is not None
        comparison = compare({one: systems[one], other: systems[other]}, references)
        test, width = comparison.tests["bleu"][other], half_width(comparison.intervals["bleu"][other])
        worst_p = max(worst_p, abs(test.p_value - theirs.p_value))
        worst_width = max(worst_width, abs(width / theirs.ci - 1))
        cells = [f"{test.p_value:.4f}", f"{theirs.p_value:.4f}", f"{width:.3f}", f"{theirs.ci:.3f}"]
        print(f"| {one}, {other} | {test.difference:+.2f} | {' | '.join(cells)} |")
    print(
        f"\n{len(pairs)} pairs: p-values differ by at most {worst_p:.4f}, "
        f"half-widths by at most {100 * worst_width:.1f}%\n"
    )

    three = {name: systems[name] for name in SYSTEMS[:3]}
    mine = seconds(lambda: compare(three, references))
    their = seconds(lambda: sacrebleu_results([*three.items()], SacreBLEU(references=streams)), 3)
    print("| two comparisons of 2,037 sentences | ours, s | sacreBLEU, s | ratio |\n| --- | ---: | ---: | ---: |")
    print(f"| counting and bootstrap | {mine:.3f} | {their:.3f} | {their / mine:.1f} |\n")


def coverage(corpora: int = 500, sentences: int = 400) -> None:
    """Draw corpora from a population whose score is known, and count how often their intervals contain it."""
    generator = np.random.default_rng(1)
    population = [make_sentence(generator) for _ in range(20_000)]
    true = corpus_bleu(*map(list, zip(*population)), tokenizer="none", percent=True).bleu
    metric = CorpusBLEU(tokenizer="none", percent=True)
    covered = 0
    for number in range(corpora):
        drawn = [population[i] for i in generator.integers(len(population), size=sentences)]
        hypotheses, references = map(list, zip(*drawn))
        systems = {"system": hypotheses}
        comparison = compare_systems(systems, references=references, metrics=metric, resamples=RESAMPLES, seed=number)
        interval = comparison.intervals["bleu"]["system"]
        covered += interval.low <= true <= interval.high
    print(
        f"- coverage: {covered} of {corpora} 95% intervals ({100 * covered / corpora:.1f}%), each from {sentences} "
        f"sentences, contain the true BLEU of {true:.2f}\n"
    )


def coverage_of_differences(folder: Path, corpora: int = 250, sentences: int = 400) -> None:
    """Draw sentences of two systems, and count how often intervals contain their difference on all."""
    generator = np.random.default_rng(1)
    references = [[*group] for group in zip(*(read_wmt22(folder, f"ref.{name}") for name in "AB"))]
    systems = {name: read_wmt22(folder, f"hyp.{name}") for name in SYSTEMS}
    covered, pairs = 0, [*itertools.pairwise(SYSTEMS)]
    for baseline, other in pairs:
        a, b = (corpus_bleu(systems[name], references, percent=True).bleu for name in (baseline, other))
        for number in range(corpora):
            drawn = generator.integers(len(references), size=sentences)
            lines = {name: [systems[name][i] for i in drawn] for name in (baseline, other)}
            test = compare(lines, [references[i] for i in drawn], number).tests["bleu"][other]
            covered += test.low <= b - a <= test.high
    count = corpora * len(pairs)
    print(
        f"- coverage of differences: {covered} of {count} 95% intervals ({100 * covered / count:.1f}%), each from "
        f"{sentences} sentences of one of {len(pairs)} pairs of WMT22 systems, contain the difference on all "
        f"{len(references):,} sentences\n"
    )


def sentences_needed(folder: Path) -> None:
    """Print the median half-widths of intervals, of the scores of all systems and of the differences of all pairs."""
    references = read_wmt22(folder, "ref.A")
    systems = {name: read_wmt22(folder, f"hyp.{name}") for name in SYSTEMS}
    order = np.random.default_rng(0).permutation(len(references))
    print("| sentences | a score | a difference |\n| ---: | ---: | ---: |")
    for sentences in (100, 200, 500, 1000, len(references)):
        drawn = order[:sentences]
        lines = {name: [hypotheses[i] for i in drawn] for name, hypotheses in systems.items()}
        of_scores: list[float] = []
        of_differences: list[float] = []
        for number, baseline in enumerate(SYSTEMS):
            compared = {name: lines[name] for name in SYSTEMS[number:]}
            comparison = compare(compared, [references[i] for i in drawn])
            of_scores.append(half_width(comparison.intervals["bleu"][baseline]))
            of_differences += map(half_width, comparison.tests["bleu"].values())
        print(f"| {sentences:,} | ± {np.median(of_scores):.1f} | ± {np.median(of_differences):.1f} |")
    print()


def half_width(result: Interval | PairedTest) -> float:
    """Half the width of an interval."""
    return (result.high - result.low) / 2


def make_sentence(generator: np.random.Generator) -> tuple[str, str]:
    """A hypothesis and its reference; the quality varies from sentence to sentence."""
    length = 3 + generator.poisson(15)
    reference = [f"w{generator.zipf(1.3) % 5000}" for _ in range(length)]
    quality = generator.beta(4, 2)
    hypothesis = [word if generator.random() < quality else "?" for word in reference]
    if generator.random() < 0.1:
        hypothesis = hypothesis[: 3 + generator.poisson(15)]
    return " ".join(hypothesis), " ".join(reference)


def cost() -> None:
    """Time and memory of the end of a validation, on random ids."""
    few = [seconds_of_end(2_000, **options) for options in ({}, INTERVAL, INTERVAL_AND_BEST)]
    times = [f"{1000 * taken:.0f} ms" for taken in few]
    print(
        f"- the end of a validation of 2,000 sentences: {times[0]}; {times[1]} with an interval, and {times[2]} with "
        "an interval and a comparison"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds_of_end(100_000, turns=1, **INTERVAL_AND_BEST)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 2**30 if sys.platform == "darwin" else 2**20
    print(
        f"- of 100,000 sentences, with both: {taken:.1f} s; the process peaks at {peak / unit:.2f} GiB, "
        f"{(peak - before) / unit:.2f} GiB more than before"
    )


INTERVAL: dict[str, Any] = {"confidence": 0.95}
INTERVAL_AND_BEST: dict[str, Any] = {**INTERVAL, "compare_to": "best"}


def seconds_of_end(sentences: int, turns: int = 5, **options: Any) -> float:
    """The median time of `finish`, without that of the first validation, which has nothing to be compared with."""
    evaluator = Evaluator(CorpusBLEU(pad_id=-100), samples=0, **options)
    target = torch.randint(0, 20, (sentences, 20))
    times = []
    for step in range(1 + turns):
        evaluator.start()
        evaluator.update(target.roll(step, 1), target)
        start = time.perf_counter()
        evaluator.finish(step)
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def main() -> None:
    """Print all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with wmt22/generaltest2022.en-de.*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # in made-up sentences, only hypotheses have punctuation
    cost()
    coverage()
    if args.data:
        coverage_of_differences(args.data)
        sentences_needed(args.data)
        compare_with_sacrebleu(args.data)


if __name__ == "__main__":
    main()
