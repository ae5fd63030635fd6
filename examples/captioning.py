"""Score image captions with CIDEr, ROUGE-L, and BLEU-1 to BLEU-4.

    pip install ".[wer]"
    python examples/captioning.py

CIDEr (Vedantam et al. 2015, https://arxiv.org/abs/1411.5726) weighs n-grams by the number of images that have them, so
the number of a caption depends on all captions: ``corpus_level=True``. ROUGE-L is that of pycocoevalcap.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from lightning_bleu import CorpusBLEU, Evaluator, FunctionMetric

Ngram = tuple[str, ...]


def count_ngrams(caption: str) -> Counter[Ngram]:
    """How often a caption has each of its n-grams of 1 to 4 words."""
    words = caption.lower().split()
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


def cosine(a: dict[Ngram, float], b: dict[Ngram, float]) -> float:
    """The cosine of the angle between two vectors of weights."""
    norm = math.hypot(*a.values()) * math.hypot(*b.values())
    return sum(weight * b.get(ngram, 0) for ngram, weight in a.items()) / (norm or 1)


def cider(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """The CIDEr of each caption, in 0..10."""
    counted = [[count_ngrams(reference) for reference in captions] for captions in references]
    images = Counter(ngram for captions in counted for ngram in {ngram for caption in captions for ngram in caption})

    def weigh(counts: Counter[Ngram], n: int) -> dict[Ngram, float]:
        return {g: count * math.log(len(counted) / (images[g] or 1)) for g, count in counts.items() if len(g) == n}

    scores = []
    for hypothesis, captions in zip(hypotheses, counted):
        counts = count_ngrams(hypothesis)
        pairs = [(weigh(counts, n), weigh(caption, n)) for caption in captions for n in range(1, 5)]
        scores.append(10 * sum(cosine(*pair) for pair in pairs) / len(pairs))
    return scores


def rouge_l(hypotheses: list[str], references: list[list[str]], beta: float = 1.2) -> list[float]:
    """The F-measure of the best precision and the best recall of each caption, in 0..1."""
    scores = []
    for hypothesis, captions in zip(hypotheses, references):
        words, right = hypothesis.split(), [caption.split() for caption in captions]
        common = [LCSseq.similarity(words, caption) for caption in right]
        precision = max(common) / max(1, len(words))
        recall = max(length / max(1, len(caption)) for length, caption in zip(common, right))
        weighted = recall + beta**2 * precision
        scores.append((1 + beta**2) * precision * recall / weighted if weighted else 0.0)
    return scores


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Score two captions."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    per_image = FunctionMetric(cider, corpus_level=True, perfect=10)
    metrics: dict[str, FunctionMetric | CorpusBLEU] = {
        "cider": per_image,
        "rouge_l": FunctionMetric(rouge_l, perfect=1),
        "bleu": CorpusBLEU(percent=True),
    }
    evaluator = Evaluator(metrics, parts=["bleu_1", "bleu_2", "bleu_3", "bleu_4"])
    evaluator.start()
    references = [["a dog runs in snow", "a dog in white snow"], ["boys play", "two boys"]]
    evaluator.update(["a dog runs in snow", "two boys"], references)
    results = evaluator.finish(step=0)
    print(results)
    print(results["val_bleu"].parts)
    return {name: result.score for name, result in results.items()}


if __name__ == "__main__":
    main()
