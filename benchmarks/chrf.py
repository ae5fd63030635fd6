"""Compare chrF with sacreBLEU's and torchmetrics': `python benchmarks/chrf.py --data FOLDER`.

Without data, times made-up text, and prints the memory of very long lines. With a folder of WMT22 and Multi30k text,
also scores every system beside sacreBLEU, and compares paired tests and their times.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpora import SYSTEMS, Text, make_text, read_lines, read_systems, read_wmt22
from processes import peak_increase, run_in_processes
from sacrebleu import CHRF
from sacrebleu.significance import PairedTest, Result
from timing import OURS, per, table, time_in_turns
from torchmetrics.text import CHRFScore

from lightning_bleu import CorpusCHRF, corpus_chrf
from lightning_bleu.compare import compare_systems

OPTIONS: list[dict[str, Any]] = [
    {"char_order": char_order, "word_order": word_order, "beta": beta, **dict.fromkeys(flags, True)}
    for (char_order, word_order, beta), flags in itertools.product(
        [(6, 0, 2), (6, 2, 2), (6, 1, 3), (2, 0, 1), (0, 2, 2)],
        [(), ("lowercase",), ("whitespace",), ("eps_smoothing",), ("lowercase", "whitespace", "eps_smoothing")],
    )
]
_TORCHMETRICS_SENTENCES = 64


def ours(text: Text, metric: CorpusCHRF) -> float:
    """CorpusCHRF in batches."""
    metric.reset()
    for preds, target in text.lines:
        metric.update(preds, target)
    return metric.compute().item()


def sacrebleu(text: Text, word_order: int) -> float:
    """sacreBLEU in one call."""
    score: float = CHRF(word_order=word_order).corpus_score(text.hypotheses, [*zip(*text.references)]).score
    return score / 100


def torchmetrics(text: Text, word_order: int) -> float:
    """torchmetrics in batches."""
    metric = CHRFScore(n_word_order=word_order)
    for preds, target in text.lines:
        metric.update(preds, target)
    return float(metric.compute())  # type: ignore[arg-type]


def texts(data: Path | None) -> dict[str, Text]:
    """One system of each set of text, with one reference and with two."""
    system = read_systems(data, 64)[0] if data else make_text(2_048, 64)
    name = "WMT22 en-de" if data else "made-up text"
    found = {
        f"{name}, one reference": Text(system.hypotheses, [group[:1] for group in system.references], 64),
        f"{name}, two": system,
    }
    if data:
        hypotheses, reference = (
            read_lines(data / "wmt22" / f"generaltest2022.en-zh.{name}.zh") for name in ("hyp.Online-W", "ref.A")
        )
        found["WMT22 en-zh, one reference"] = Text(hypotheses, [[line] for line in reference], 64)
    return found


def times(data: Path | None, rounds: int) -> str:
    """The table of times."""
    rows = []
    for (name, text), word_order in itertools.product(texts(data).items(), (0, 2)):
        runs = {
            OURS: partial(ours, text, CorpusCHRF(word_order=word_order)),
            "sacreBLEU": partial(sacrebleu, text, word_order),
        }
        taken = per(time_in_turns(runs, rounds), len(text.hypotheses))
        few = Text(text.hypotheses[:_TORCHMETRICS_SENTENCES], text.references[:_TORCHMETRICS_SENTENCES], 64)
        start = time.perf_counter()
        torchmetrics(few, word_order)
        taken["torchmetrics"] = (time.perf_counter() - start) / len(few.hypotheses)
        rows.append(([name, "chrF++" if word_order else "chrF"], taken))
    return table("chrF, batches of 64, warm", "µs per sentence", ["text", "metric"], rows)


def compare_scores(data: Path) -> str:
    """Compare every system with sacreBLEU."""
    folder = data / "wmt22"
    differences, scores = [0.0], 0
    for path in sorted(folder.glob("*.hyp.*")):
        pair = path.name.split(".")[1]
        references = [read_lines(one) for one in sorted(folder.glob(f"*.{pair}.ref.*"))]
        for streams in {1: references[:1], len(references): references}.values():
            compare = _differences(read_lines(path), streams, OPTIONS if "Online-W" in path.name else OPTIONS[:10:5])
            differences += (one := [*compare])
            scores += len(one)
    lines = read_lines(data / "multi30k" / "val.en")
    words = [" ".join(word for i, word in enumerate(line.split()) if i % 5) for line in lines]
    differences += (one := [*_differences(words, [lines], OPTIONS)])
    return f"- {scores + len(one)} scores: at most {max(differences):.1e} from sacreBLEU, in percent\n"


def _differences(hypotheses: list[str], streams: list[list[str]], options: list[dict[str, Any]]) -> Iterator[float]:
    references = [list(group) for group in zip(*streams)]
    for one in options:
        expected = CHRF(**one).corpus_score(hypotheses, streams).score
        yield abs(corpus_chrf(hypotheses, references, percent=True, **one).score - expected)


def compare_tests(data: Path) -> str:
    """Compare paired tests with sacreBLEU's."""
    streams = [read_wmt22(data, f"ref.{name}") for name in "AB"]
    references = [list(group) for group in zip(*streams)]
    systems = {name: read_wmt22(data, f"hyp.{name}") for name in SYSTEMS}
    chrf = CorpusCHRF(percent=True)
    rows = ["| systems | chrF | sacreBLEU | p | sacreBLEU | s | sacreBLEU | ratio |"]
    rows.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one, other in itertools.pairwise(SYSTEMS[:4]):
        pair = {name: systems[name] for name in (one, other)}
        start = time.perf_counter()
        comparison = compare_systems(pair, references=references, metrics=chrf, resamples=1000)
        mine = time.perf_counter() - start
        test = comparison.tests["chrf"][other]
        start = time.perf_counter()
        _, scores = PairedTest([*pair.items()], {"chrF": CHRF(references=streams)}, None, test_type="bs")()
        their = time.perf_counter() - start
        first, second = (entry for entry in scores["chrF2"] if isinstance(entry, Result))
        assert (test.score_b, test.score_a) == (first.score, second.score)
        cells = [test.difference, second.score - first.score, test.p_value, second.p_value or 0.0]
        numbers = " | ".join(f"{value:.4f}" for value in cells)
        rows.append(f"| {one}, {other} | {numbers} | {mine:.2f} | {their:.2f} | {their / mine:.0f} |")
    return "\n".join(rows) + "\n"


def memory_of_update(rank: int, lines: int, characters: int) -> float:
    """The memory of an update beside its input, in MiB."""
    metric = CorpusCHRF(word_order=2)
    metric.update(["a b"], ["a b"])  # warms up
    text = ["a line of text with twelve words, as long as most are"] * lines + ["abcdefgh " * (characters // 9)]
    return peak_increase(lambda: metric.update(text, text))


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with WMT22 and Multi30k text")
    parser.add_argument("--rounds", type=int, default=5, help="turns per contestant (default: %(default)s)")
    args = parser.parse_args()
    print(times(args.data, args.rounds))
    for lines, characters in ((0, 1_000_000), (10_000, 0), (10_000, 1_000_000)):
        (peak,) = run_in_processes(1, memory_of_update, lines, characters)
        print(f"- an update with {lines:,} lines and one of {characters:,} characters: {peak:.0f} MiB beside the input")
    if args.data:
        print(compare_scores(args.data))
        print(compare_tests(args.data))


if __name__ == "__main__":
    main()
