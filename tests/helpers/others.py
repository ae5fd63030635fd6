"""Metrics beside BLEU: a corpus of text, metrics of other packages, and what they score alone."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import CHRFScore, ExtendedEditDistance, ROUGEScore, TranslationEditRate

WORDS = ["The", "cat", "sat", "on", "a", "mat,", "while", "two", "dogs", "ran.", "It", "is", "cold!"]
RIGHT = [0.3, 0.7, 0.5]
"""The share of right words in each epoch."""


@functools.cache
def references_of(item: int) -> list[str]:
    """One to three references of a sentence."""
    rng = random.Random(item)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(rng.randint(1, 3))]


def translate(item: int, epoch: int = 0) -> str:
    """A hypothesis for a sentence."""
    rng = random.Random(f"{item} {epoch}")
    return " ".join(word if rng.random() < RIGHT[epoch] else "else" for word in references_of(item)[-1].split())


def corpus_of(items: Iterable[int], epoch: int = 0) -> tuple[list[str], list[list[str]]]:
    """Hypotheses and references of sentences."""
    items = [*items]
    return [translate(item, epoch) for item in items], [references_of(item) for item in items]


def return_corpus(batch: Tensor, epoch: int) -> tuple[list[str], list[list[str]]]:
    """A step for batches of numbers of sentences."""
    return corpus_of(batch.tolist(), epoch)


class Fingerprint(Metric):
    """A number that depends on every sentence and on their order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[Any] = []

    def update(self, preds: list[str], target: list[list[str]]) -> None:
        self.texts += zip(preds, target, strict=True)

    def compute(self) -> Any:
        return zlib.crc32(repr(self.texts).encode())

    def reset(self) -> None:
        super().reset()
        self.texts = []


class Returns(Metric):
    """A metric of text with this result."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def update(self, preds: list[str], target: list[list[str]]) -> None: ...

    def compute(self) -> Any:
        return self.result


MAKE: dict[str, Callable[[], Any]] = {
    "ter": TER,
    "sacre_chrf": functools.partial(CHRF, word_order=2),
    "sacre_bleu": functools.partial(BLEU, lowercase=True),
    "edit_rate": TranslationEditRate,
    "chrf_score": CHRFScore,
    "eed": ExtendedEditDistance,
    "rouge": functools.partial(ROUGEScore, rouge_keys=("rouge1", "rouge2")),
    "both": lambda: MetricCollection([TranslationEditRate(), CHRFScore()]),
    "order": Fingerprint,
}
"""Metrics that score text, by name."""


def make_others() -> dict[str, Any]:
    """All metrics."""
    return {name: make() for name, make in MAKE.items()}


def score_alone(metric: Any, hypotheses: list[str], references: list[list[str]]) -> dict[str, float]:
    """What a metric scores that gets all sentences at once, by part; a single score has the part ``""``."""
    if isinstance(metric, SacreMetric):
        most = max(map(len, references))
        streams: Any = [[group[n] if n < len(group) else None for group in references] for n in range(most)]
        return {"": metric.corpus_score(hypotheses, streams).score}
    metric.update(hypotheses, references)
    result = metric.compute()
    return {part: float(value) for part, value in (result if isinstance(result, Mapping) else {"": result}).items()}


def expected_others(stage: str, loaders: Mapping[str, Iterable[int]], epoch: int = 0) -> dict[str, float]:
    """What is logged for all metrics of loaders of these sentences; of one loader with the name ``""``."""
    expected: dict[str, float] = {}
    for name, make in MAKE.items():
        scored = {loader: score_alone(make(), *corpus_of(items, epoch)) for loader, items in loaders.items()}
        if "" not in scored:
            parts = next(iter(scored.values()))
            scored[""] = {part: sum(one[part] for one in scored.values()) / len(loaders) for part in parts}
        for loader, one in scored.items():
            for part, value in one.items():
                expected["/".join([f"{stage}_{name}", *filter(None, [loader, part])])] = value
    return expected


def of_others(logged: Mapping[str, float]) -> dict[str, float]:
    """Of all that is logged, what is of these metrics."""
    return {key: value for key, value in logged.items() if key.split("/")[0].split("_", 1)[1] in MAKE}
