"""Corpora: real text, and random sentences that are similar in all the ways that matter."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Hypotheses: TypeAlias = list[list[str]]
References: TypeAlias = list[list[list[str]]]

DATA = Path(__file__).parents[3] / "shared" / "data"
"""Real text, which is not part of the repository."""


def read_lines(path: Path) -> list[str]:
    """The lines of a file as sacreBLEU reads them: split at line feeds only."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def read_systems(wmt22: Path, pair: str, whole: bool) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The lines of each system for a language pair, and the lines of each of its reference files.

    Without `whole`, system i of n has the lines i, i + n, i + 2n, ..., so that every line is read once.
    """
    streams = [read_lines(path) for path in sorted(wmt22.glob(f"generaltest2022.{pair}.ref.*"))]
    systems = sorted(wmt22.glob(f"generaltest2022.{pair}.hyp.*"))
    assert streams
    assert systems
    for number, path in enumerate(systems):
        lines = slice(None) if whole else slice(number, None, len(systems))
        yield read_lines(path)[lines], [stream[lines] for stream in streams]


def random_corpus(
    rng: random.Random,
    sentences: int,
    *,
    references: int = 3,
    vocabulary: int = 12,
    longest: int = 14,
    ragged: bool = True,
) -> tuple[Hypotheses, References]:
    """Sentences that are similar to their references, long, short, empty, and without any match.

    Args:
        rng: draws everything.
        sentences: how many.
        references: the largest number of references of a sentence.
        vocabulary: the number of words.
        longest: the largest number of words of a sentence.
        ragged: whether sentences may have fewer references.
    """
    words = [f"w{i}" for i in range(vocabulary)]
    hypotheses, targets = [], []
    for _ in range(sentences):
        base = rng.choices(words, k=rng.randint(0, longest))
        kind = rng.random()
        hypothesis = list(base)
        if kind < 0.1:
            hypothesis = []
        elif kind < 0.2:
            hypothesis = ["unlike"] * rng.randint(1, 6)
        elif kind < 0.8:
            for _ in range(rng.randint(0, 4)):
                if hypothesis:
                    hypothesis[rng.randrange(len(hypothesis))] = rng.choice(words)
        group = []
        for _ in range(rng.randint(1, references) if ragged else references):
            reference = list(base)
            for _ in range(rng.randint(0, 3)):
                reference.insert(rng.randint(0, len(reference)), rng.choice(words))
            if rng.random() < 0.3:
                reference = reference[: rng.randint(0, len(reference))]
            group.append(reference)
        hypotheses.append(hypothesis)
        targets.append(group)
    return hypotheses, targets


def random_text(rng: random.Random, sentences: int, **options: Any) -> tuple[list[str], list[list[str]]]:
    """The lines of a :func:`random_corpus`."""
    hypotheses, references = random_corpus(rng, sentences, **options)
    return join_words(hypotheses, references)


def join_words(hypotheses: Hypotheses, references: References) -> tuple[list[str], list[list[str]]]:
    """Lines of words."""
    return [*map(" ".join, hypotheses)], [[*map(" ".join, group)] for group in references]
