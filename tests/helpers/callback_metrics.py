"""Metrics of all kinds: a corpus of numbered sentences, metrics by name, and what they score alone."""

from __future__ import annotations

import functools
import math
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import CHRFScore, ExtendedEditDistance, ROUGEScore, TranslationEditRate

from lightning_bleu import CorpusBLEU, CorpusCHRF, FunctionMetric
from tests.helpers.chrf import streams

WORDS = ["The", "cat", "sat", "on", "a", "mat,", "while", "two", "dogs", "ran.", "It", "is", "cold!"]
RIGHT = [0.3, 0.7, 0.5]
"""The share of right words in each epoch; then it begins again."""

# The corpus


def source_of(item: int) -> str:
    """The source of a sentence."""
    return f"Satz {item}."


@functools.cache
def references_of(item: int) -> list[str]:
    """One to three references of a sentence."""
    rng = random.Random(item)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(rng.randint(1, 3))]


def translate(item: int, epoch: int = 0) -> str:
    """A hypothesis for a sentence."""
    rng, right = random.Random(f"{item} {epoch}"), RIGHT[epoch % len(RIGHT)]
    return " ".join(word if rng.random() < right else "else" for word in references_of(item)[-1].split())


def corpus_of(items: Iterable[int], epoch: int = 0) -> tuple[list[str], list[list[str]], list[str]]:
    """Hypotheses, references, and sources of sentences."""
    items = [*items]
    return [translate(item, epoch) for item in items], [*map(references_of, items)], [*map(source_of, items)]


def group_of(item: int) -> str:
    """The group of a sentence."""
    return "odd" if item % 2 else "even"


def groups_of(items: Iterable[int]) -> dict[str, list[int]]:
    """The sentences of each group."""
    items = [*items]
    return {group: [item for item in items if group_of(item) == group] for group in ("even", "odd")}


def rows_of_group(rows: Any, items: Sequence[int], group: str) -> Any:
    """Those of the sentences of a group."""
    return rows[[group_of(item) == group for item in items]]


def return_sentences(batch: Tensor, epoch: int) -> dict[str, Any]:
    """A step for batches of numbers of sentences."""
    return dict(zip(("preds", "target", "source"), corpus_of(batch.tolist(), epoch)))


def return_single(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with one reference for each sentence."""
    return return_sentences(batch, epoch) | {"target": [references_of(item)[-1] for item in batch.tolist()]}


def return_groups(batch: Tensor, epoch: int) -> dict[str, Any]:
    """The same with groups."""
    return return_sentences(batch, epoch) | {"group": [*map(group_of, batch.tolist())]}


# Metrics of text


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


class Fails(Fingerprint):
    """A metric that can score two sentences, but not many."""

    def compute(self) -> Any:
        if len(self.texts) > 2:
            raise MemoryError("too many")
        return super().compute()


class Returns(Metric):
    """A metric of text with this result."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def update(self, preds: list[str], target: list[list[str]]) -> None: ...

    def compute(self) -> Any:
        return self.result


# Functions


def checksum(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A number per sentence that depends on every character of its hypothesis, references, and source."""
    return [zlib.crc32(repr(one).encode()) / 2**32 for one in zip(hypotheses, references, sources, strict=True)]


def exact(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """Whether a hypothesis is one of its references."""
    return [float(one in own) for one, own in zip(hypotheses, references, strict=True)]


def errors(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    """The number of wrong words, where less is better."""
    return [float(one.split().count("else")) for one in hypotheses]


def page(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """The rate of wrong words, as pairs, and the share of right sentences."""
    pairs = [(one.split().count("else"), len(one.split())) for one in hypotheses]
    return {"rate": pairs, "exact": exact(hypotheses, references)}


def ranked(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """Numbers that depend on all sentences, and on their order."""
    place = sum(map(len, hypotheses)) % 10
    return {"rank": [len(one) % 10 + place for one in hypotheses], "order": zlib.crc32(repr(hypotheses).encode())}


# All metrics

COUNTED: dict[str, Callable[..., Any]] = {
    "bleu": CorpusBLEU,
    "bigrams": functools.partial(CorpusBLEU, max_order=2, lowercase=True),
    "chrf": functools.partial(CorpusCHRF, word_order=2),
}
"""Metrics of this package."""

OF_TEXT: dict[str, Callable[..., Any]] = {
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
"""Metrics of other packages."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "checksum": checksum,
    "errors": FunctionMetric(errors, higher_is_better=False),
    "page": FunctionMetric(page, higher_is_better={"rate": False, "exact": True}),
    "ranked": FunctionMetric(ranked, corpus_level=True),
}


def make_metrics(*names: str) -> dict[str, Any]:
    """Some metrics, or all of them."""
    make = COUNTED | {name: functools.partial(FUNCTIONS.get, name) for name in FUNCTIONS} | OF_TEXT
    return {name: make[name]() for name in names or make}


def values_alone(function: Callable[..., list[float]], corpus: Sequence[Any]) -> list[float]:
    """The numbers that one of the functions gives to sentences."""
    return function(*corpus[: 3 if function is checksum else 2])


def rows_alone(function: Callable[..., Any], corpus: Sequence[Any]) -> dict[str, Any]:
    """The pairs of numbers whose sums are divided, of each sentence or of the corpus, by part."""
    values: Any = values_alone(function, corpus)
    named = {part: np.array(one, float) for part, one in (values if isinstance(values, dict) else {"": values}).items()}
    return {part: one if one.ndim == 2 else np.stack([one, np.ones_like(one)], -1) for part, one in named.items()}


def score_alone(metric: Any, hypotheses: list[str], references: list[Any], sources: Any = ()) -> dict[str, float]:
    """What a metric scores that gets all sentences at once, by part; a single score has the part ``""``."""
    if isinstance(metric, SacreMetric):
        return {"": metric.corpus_score(hypotheses, streams(references)).score}
    if not hasattr(metric, "update"):
        rows = rows_alone(metric, (hypotheses, references, sources))
        return {part: math.fsum(one[..., 0].flat) / math.fsum(one[..., 1].flat) for part, one in rows.items()}
    metric.reset()
    metric.update(hypotheses, references)
    result = metric.compute()
    parts = result if isinstance(result, Mapping) else {"": result}
    return {part: torch.as_tensor(value).double().mean().item() for part, value in parts.items()}


def join(*names: str) -> str:
    """A logged name."""
    return "/".join(filter(None, names))


def expected_scores(
    names: Iterable[str],
    loaders: Mapping[str, Iterable[int]],
    stage: str = "val",
    epoch: int = 0,
    *,
    grouped: bool = False,
) -> dict[str, float]:
    """The scores that are logged of metrics, in plain code.

    Args:
        names: the names of the metrics.
        loaders: the sentences of each loader; of a single one without a name, of ``""``.
        stage: the stage.
        epoch: the epoch.
        grouped: whether sentences have the labels of :func:`group_of`.
    """
    expected: dict[str, float] = {}
    for name, metric in make_metrics(*names).items():
        log = functools.partial(_log, expected, f"{stage}_{name}")
        of_loaders = []
        for loader, items in loaders.items():
            items = [*items]
            scores = score_alone(metric, *corpus_of(items, epoch))
            log(scores, loader)
            of_loaders.append(scores)
            if grouped:
                groups = {
                    group: score_group(metric, items, group, epoch) for group, own in groups_of(items).items() if own
                }
                for group, scores_of_group in groups.items():
                    log(scores_of_group, loader, group)
                log(_average([*groups.values()]), loader, "mean")
        if [*loaders] != [""]:
            log(_average(of_loaders))
    return expected


def _average(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of scores by part."""
    return {part: math.fsum(one[part] for one in scores) / len(scores) for part in scores[0]}


def _log(expected: dict[str, float], logged: str, scores: Mapping[str, float], *where: str) -> None:
    """Add the scores of a loader or a group by their logged names."""
    expected.update({join(logged, *where, part): value for part, value in scores.items()})


def score_group(metric: Any, items: Sequence[int], group: str, epoch: int) -> dict[str, float]:
    """The score of a group of a loader: of a function, from what it gave to the sentences of the whole loader."""
    corpus = corpus_of(groups_of(items)[group], epoch)
    scores = score_alone(metric, *corpus)
    if callable(metric) and not hasattr(metric, "update") and not isinstance(metric, SacreMetric):
        for part, rows in rows_alone(metric, corpus_of(items, epoch)).items():
            if rows.ndim == 2:
                sums, counts = rows_of_group(rows, items, group).T
                scores[part] = math.fsum(sums) / math.fsum(counts)
    return scores


def try_to(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The message of the error of a call; empty if there is none."""
    try:
        call(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
