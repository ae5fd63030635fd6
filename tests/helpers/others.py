"""Metrics of all kinds: a corpus of text, metrics by name, and what they score alone."""

from __future__ import annotations

import functools
import math
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

from lightning_bleu import CorpusBLEU, CorpusCHRF
from lightning_bleu.metric import CorpusMetric

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


def return_corpus(batch: Tensor, epoch: int) -> dict[str, Any]:
    """A step for batches of numbers of sentences."""
    preds, target = corpus_of(batch.tolist(), epoch)
    return {"preds": preds, "target": target}


def group_of(item: int) -> str:
    """The group of a sentence."""
    return "odd" if item % 2 else "even"


def return_groups(batch: Tensor, epoch: int) -> dict[str, Any]:
    """A step for batches of numbers of sentences that belong to groups."""
    return return_corpus(batch, epoch) | {"group": [group_of(item) for item in batch.tolist()]}


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
"""Metrics of other packages, which score text, by name."""

METRICS: dict[str, Callable[..., Any]] = {
    "bleu": CorpusBLEU,
    "bigrams": functools.partial(CorpusBLEU, max_order=2, lowercase=True),
    "chrf": functools.partial(CorpusCHRF, word_order=2),
    **MAKE,
}
"""Metrics of all kinds, by name."""


def make_metrics(*names: str) -> dict[str, Any]:
    """Some metrics, or all of them."""
    return {name: METRICS[name]() for name in names or METRICS}


def score_alone(metric: Any, hypotheses: list[str], references: list[list[str]]) -> dict[str, float]:
    """What a metric scores that gets all sentences at once, by part; a single score has the part ``""``."""
    if isinstance(metric, SacreMetric):
        most = max(map(len, references))
        streams: Any = [[group[n] if n < len(group) else None for group in references] for n in range(most)]
        return {"": metric.corpus_score(hypotheses, streams).score}
    metric.reset()
    metric.update(hypotheses, references)
    result = metric.compute()
    scores = {part: float(value) for part, value in (result if isinstance(result, Mapping) else {"": result}).items()}
    return scores | (metric.report().parts() if isinstance(metric, CorpusMetric) else {})


def expected_scores(
    metrics: Mapping[str, Any], labels: Mapping[str, Iterable[int]], stage: str = "val", epoch: int = 0
) -> dict[str, float]:
    """All that is logged.

    Args:
        metrics: the metrics by name, each a metric, or one for each label.
        labels: the sentences of each label; of a single one without a name, of ``""``.
        stage: the stage.
        epoch: the epoch.
    """
    expected: dict[str, float] = {}
    for name, metric in metrics.items():
        scored = {}
        for label, items in labels.items():
            own = metric[label] if isinstance(metric, Mapping) else metric
            scored[label] = score_alone(own, *corpus_of(items, epoch))
        if "" not in scored:
            first = next(iter(scored.values()))
            parts = [""] if "" in first else [*first]  # a mean has no components
            scored[""] = {part: math.fsum(one[part] for one in scored.values()) / len(labels) for part in parts}
        for label, one in scored.items():
            for part, value in one.items():
                expected["/".join(filter(None, [f"{stage}_{name}", label, part]))] = value
    return expected
