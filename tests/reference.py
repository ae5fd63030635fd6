"""BLEU, slow and obvious: the definition of Papineni et al. (2002), word for word, for tests to compare with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

Sentence = Sequence[Hashable]


def ngrams(sentence: Sentence, n: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))


def closest_length(hypothesis: Sentence, references: Sequence[Sentence]) -> int:
    return min((abs(len(r) - len(hypothesis)), len(r)) for r in references)[1]


def statistics(hypothesis: Sentence, references: Sequence[Sentence], max_order: int = 4) -> list[int]:
    """Matches, possible matches, hypothesis length, closest reference length."""
    matches, possible = [], []
    for n in range(1, max_order + 1):
        counts = ngrams(hypothesis, n)
        allowed: Counter[tuple[Hashable, ...]] = Counter()
        for reference in references:
            allowed |= ngrams(reference, n)  # the largest count in any single reference
        matches.append(sum((counts & allowed).values()))
        possible.append(sum(counts.values()))
    return [*matches, *possible, len(hypothesis), closest_length(hypothesis, references)]


def corpus_statistics(
    hypotheses: Sequence[Sentence], references: Sequence[Sequence[Sentence]], max_order: int = 4
) -> list[int]:
    rows = [statistics(h, rs, max_order) for h, rs in zip(hypotheses, references)]
    return [sum(column) for column in zip(*rows)]


def bleu(statistics: Sequence[int]) -> float:
    order = len(statistics) // 2 - 1
    matches, possible = statistics[:order], statistics[order : 2 * order]
    hypothesis_length, reference_length = statistics[-2:]
    if min(matches) == 0:
        return 0.0
    penalty = 1.0 if hypothesis_length > reference_length else math.exp(1 - reference_length / hypothesis_length)
    return penalty * math.exp(sum(math.log(m / p) for m, p in zip(matches, possible)) / order)
