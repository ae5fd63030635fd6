"""Print what one mistake does to BLEU, to its parts, and to the findings of a validation.

    python examples/mistakes.py

The page "Reading the dashboard" of the documentation shows the table.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable, Sequence

from lightning_bleu import CorpusBLEU, Evaluator

NOUNS = ["dog", "cat", "man", "woman", "child", "boat", "house", "street", "snow", "park", "tree", "book"]
VERBS = ["sees", "likes", "follows", "paints", "leaves", "finds"]
PARTS = ["precision_1", "precision_4", "brevity_penalty", "length_ratio"]


def make_sentence(rng: random.Random) -> str:
    """One to four clauses."""
    clauses = [[rng.choice(words) for words in (NOUNS, VERBS, NOUNS)] for _ in range(rng.randint(1, 4))]
    return ", while ".join("the {} {} the {}".format(*words) for words in clauses) + "."


def make_mistakes(references: list[str], sources: list[str], rng: random.Random) -> dict[str, list[str]]:
    """Good hypotheses, in which two words are always wrong, and the same with one mistake each."""
    good = [line.replace("paints", "draws").replace("boat", "ship") for line in references]

    def change(share: float, mistake: Callable[[str], str]) -> list[str]:
        return [mistake(line) if rng.random() < share else line for line in good]

    return {
        "no mistake": good,
        "loops in 10%": change(0.1, lambda line: line + " the dog" * 30),
        "empty outputs in 30%": change(0.3, lambda line: ""),
        "at most 8 words": change(1, lambda line: " ".join(line.split()[:8])),
        "prompts in hypotheses": [f"{source} {line}" for source, line in zip(sources, good)],
        "order shuffled": rng.sample(good, len(good)),
        "periods missing on one side": [line.removesuffix(".") for line in good],
        "subwords not joined": change(1, lambda line: line.replace("the", "th e")),
        "sources copied": sources,
        "references as hypotheses": references,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Score each of the mistakes, and print a row of the table."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    warnings.simplefilter("ignore")  # the findings are printed
    rng = random.Random(1)
    references = [make_sentence(rng) for _ in range(200)]
    sources = [line.upper() for line in references]
    evaluator = Evaluator(CorpusBLEU(percent=True))
    print(f"{'':28}  BLEU", *PARTS, "findings")
    for name, hypotheses in make_mistakes(references, sources, rng).items():
        evaluator.start()
        evaluator.update(hypotheses, references, source=sources)
        results = evaluator.finish(step=0)
        result = results["val_bleu"]
        values = [f"{result.parts[part]:{len(part)}.2f}" for part in PARTS]
        print(f"{name:28}{result.score:6.1f}", *values, *[finding.key for finding in results.findings])


if __name__ == "__main__":
    main()
