"""Compare confidence intervals and paired tests with sacreBLEU's: `python benchmarks/significance.py --data FOLDER`.

Without any data, prints:

- the time of 1,000 resamples of 2,000 sentences, and the time and memory of 10,000 resamples of 100,000 sentences;
- coverage: how often a 95% interval contains the true score of the population that its sentences were drawn from.

With a folder of WMT22 English-German systems, also prints:

- coverage of differences: how often the interval of a difference contains the difference of two systems on all
  sentences, of which its sentences were drawn;
- how many sentences it takes: interval half-widths of scores and of differences, with 100 to all sentences;
- the p-values and interval half-widths of both libraries, and how far apart they are;
- the time of both tests for two comparisons, with and without counting n-grams.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpora import read_wmt22
from sacrebleu import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest as SacrePairedTest
from sacrebleu.significance import Result

from lightning_bleu import CorpusBLEU, Interval, PairedTest, approximate_randomization, corpus_bleu, paired_bootstrap

SYSTEMS = ["Online-A", "Online-Y", "Online-G", "Online-B", "Online-W", "PROMT", "Lan-Bridge", "OpenNMT"]


class Counted(SacreBLEU):
    """sacreBLEU with the statistics of every system counted beforehand, to time a test alone."""

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


def sacrebleu_results(
    kind: str,
    systems: Sequence[tuple[str, Sequence[str]]],
    metric: SacreBLEU,
    references: list[list[str]] | None = None,
) -> list[Result]:
    """Run sacreBLEU's test of the first system against the others; the baseline's own result comes first."""
    results = SacrePairedTest([*systems], {"BLEU": metric}, references, test_type=kind)()[1]["BLEU"]
    return [result for result in results if isinstance(result, Result)]


def count(lines: list[str], references: list[list[str]]) -> CorpusBLEU:
    """Score a system with a metric that keeps the statistics of each sentence."""
    metric = CorpusBLEU(convention="sacrebleu", percent=True, keep_sentences=True)
    metric.update(lines, [list(group) for group in zip(*references)])
    return metric


def compare_with_sacrebleu(folder: Path) -> None:
    """Compare results and times on real systems."""
    systems = {name: read_wmt22(folder, f"hyp.{name}") for name in SYSTEMS}
    references = [read_wmt22(folder, f"ref.{name}") for name in "AB"]
    metrics = {name: count(lines, references) for name, lines in systems.items()}
    counted = Counted(systems, references)

    print("| systems | difference | bootstrap | sacreBLEU | randomization | sacreBLEU | half-width | sacreBLEU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    worst_p, worst_width = 0.0, 0.0
    pairs = [*itertools.combinations(SYSTEMS[:3], 2), ("Online-W", "Online-B"), ("Lan-Bridge", "PROMT")]
    pairs += [("Online-B", "Lan-Bridge"), ("Online-G", "PROMT"), ("Online-B", "PROMT"), ("PROMT", "OpenNMT")]
    for one, other in pairs:
        pair = [(one, systems[one]), (other, systems[other])]
        their_bootstrap, their_randomization = (sacrebleu_results(kind, pair, counted)[1] for kind in ("bs", "ar"))
        assert their_bootstrap.p_value is not None
        assert their_bootstrap.ci is not None
        assert their_randomization.p_value is not None
        a, b = metrics[one], metrics[other]
        bootstrap, randomization = paired_bootstrap(a, b), approximate_randomization(a, b)
        width = b.interval().half_width
        numbers = [bootstrap.p_value, their_bootstrap.p_value, randomization.p_value, their_randomization.p_value]
        worst_p = max(worst_p, abs(numbers[0] - numbers[1]), abs(numbers[2] - numbers[3]))
        worst_width = max(worst_width, abs(width / their_bootstrap.ci - 1))
        cells = [f"{value:.4f}" for value in numbers] + [f"{width:.3f}", f"{their_bootstrap.ci:.3f}"]
        print(f"| {one}, {other} | {bootstrap.difference:+.2f} | {' | '.join(cells)} |")
    print(
        f"\n{len(pairs)} pairs: p-values differ by at most {worst_p:.4f}, "
        f"half-widths by at most {100 * worst_width:.1f}%\n"
    )

    print("| two comparisons of 2,037 sentences | ours, s | sacreBLEU, s | ratio |")
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
    """Draw corpora from a population whose score is known, and count how often their intervals contain it."""
    generator = np.random.default_rng(1)
    population = [make_sentence(generator) for _ in range(20_000)]
    true = corpus_bleu(*map(list, zip(*population)), tokenizer="none")
    metric = CorpusBLEU(tokenizer="none", keep_sentences=True)
    covered = 0
    for number in range(corpora):
        metric.reset()
        metric.update(*map(list, zip(*(population[i] for i in generator.integers(len(population), size=sentences)))))
        interval = metric.interval(seed=number)
        covered += interval.low <= true.bleu <= interval.high
    print(
        f"- coverage: {covered} of {corpora} 95% intervals ({100 * covered / corpora:.1f}%), each from {sentences} "
        f"sentences, contain the true BLEU of {100 * true.bleu:.2f}\n"
    )


def coverage_of_differences(folder: Path, corpora: int = 250, sentences: int = 400) -> None:
    """Draw sentences of two systems, and count how often intervals contain their difference on all."""
    generator = np.random.default_rng(1)
    references = [[*group] for group in zip(*(read_wmt22(folder, f"ref.{name}") for name in "AB"))]
    systems = {name: read_wmt22(folder, f"hyp.{name}") for name in SYSTEMS}
    covered, pairs = 0, [*itertools.pairwise(SYSTEMS)]
    metrics = [CorpusBLEU(keep_sentences=True) for _ in range(2)]
    for pair in pairs:
        a, b = (corpus_bleu(systems[name], references).bleu for name in pair)
        for number in range(corpora):
            drawn = generator.integers(len(references), size=sentences)
            for metric, name in zip(metrics, pair):
                metric.reset()
                metric.update([systems[name][i] for i in drawn], [references[i] for i in drawn])
            test = paired_bootstrap(metrics[0], metrics[1], seed=number)
            assert test.low is not None
            assert test.high is not None
            covered += test.low <= a - b <= test.high
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
        metrics = []
        for lines in systems.values():
            metric = CorpusBLEU(percent=True, keep_sentences=True)
            drawn = order[:sentences]
            metric.update([lines[i] for i in drawn], [references[i] for i in drawn])
            metrics.append(metric)
        of_scores = [half_width(metric.interval()) for metric in metrics]
        of_differences = [half_width(paired_bootstrap(a, b)) for a, b in itertools.combinations(metrics, 2)]
        print(f"| {sentences:,} | ± {np.median(of_scores):.1f} | ± {np.median(of_differences):.1f} |")
    print()


def half_width(result: Interval | PairedTest) -> float:
    """Half the width of an interval."""
    assert result.low is not None
    assert result.high is not None
    return (result.high - result.low) / 2


def make_sentence(generator: np.random.Generator) -> tuple[list[str], list[str]]:
    """A hypothesis and its reference; the quality varies from sentence to sentence."""
    length = 3 + generator.poisson(15)
    reference = [f"w{generator.zipf(1.3) % 5000}" for _ in range(length)]
    quality = generator.beta(4, 2)
    hypothesis = [word if generator.random() < quality else "?" for word in reference]
    return hypothesis[: 3 + generator.poisson(15)] if generator.random() < 0.1 else hypothesis, reference


def cost() -> None:
    """Time and memory, on random ids."""
    few, many, others = (CorpusBLEU(ignore_ids=None, keep_sentences=True) for _ in range(3))
    target = torch.randint(0, 20, (100_000, 20))
    few.update(list(target[:2_000].flip(1)), list(target[:2_000]))
    many.update(list(target.flip(1)), list(target))
    others.update(list(target.roll(1, 1)), list(target))
    print(f"- 1,000 resamples of 2,000 sentences: {1000 * seconds(few.interval):.0f} ms")
    print(f"- 1,000 paired resamples of two systems: {1000 * seconds(lambda: paired_bootstrap(few, few)):.0f} ms")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    paired_bootstrap(many, others, 10_000)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 2**30 if sys.platform == "darwin" else 2**20
    print(
        f"- 10,000 paired resamples of two systems with 100,000 sentences each: {taken:.0f} s; the process peaks at "
        f"{peak / unit:.2f} GiB, {(peak - before) / unit:.2f} GiB more than before"
    )


def main() -> None:
    """Print all results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with wmt22/generaltest2022.en-de.*")
    args = parser.parse_args()
    cost()
    coverage()
    if args.data:
        coverage_of_differences(args.data)
        sentences_needed(args.data)
        compare_with_sacrebleu(args.data)


if __name__ == "__main__":
    main()
