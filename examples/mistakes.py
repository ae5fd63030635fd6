"""Print what one mistake does to BLEU, to its parts, and to the findings of a validation.

    python examples/mistakes.py

Scores 200 good translations, in which two words are always wrong, and the same with one more mistake. Prints:

                                  BLEU precision_1 precision_4 brevity_penalty length_ratio findings
    no mistake                    88.2       95.36       81.84            1.00         1.00
    loops in 10%                  67.0       74.08       60.62            1.00         1.29 loops
    empty outputs in 30%          56.9       95.75       83.28            0.64         0.69 same-output
    at most 8 words               31.8       95.57       83.19            0.36         0.49 limit
    prompts in hypotheses         41.9       47.68       36.88            1.00         2.00 source
    order shuffled                17.5       52.78        5.29            1.00         1.00 order
    periods missing on one side   82.7       95.07       82.18            0.94         0.94 one-sided
    subwords not joined            3.4       49.95        0.01            1.00         1.30 nearer
    sources copied                 0.1       15.14        0.00            1.00         1.00 source
    references as hypotheses     100.0      100.00      100.00            1.00         1.00 leak
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
