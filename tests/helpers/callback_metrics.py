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
from lightning_bleu.metric import CorpusMetric
from tests.helpers.chrf import streams
from tests.helpers.resampling import draw_resamples

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


def groups_of(items: Iterable[int], above: str = "") -> dict[str, list[int]]:
    """The sentences of each group, below the name of a loader."""
    items = [*items]
    return {f"{above}{group}": [item for item in items if group_of(item) == group] for group in ("even", "odd")}


def unions_of(subsets: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """All sentences of the groups of each loader, group after group."""
    unions: dict[str, list[int]] = {}
    for subset, items in subsets.items():
        loader, _, group = subset.rpartition("/")
        if group in ("even", "odd"):
            unions.setdefault(join(loader, "all"), []).extend(items)
    return unions


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
SIGNS = {"checksum": 1, "errors": -1, "page/rate": -1, "page/exact": 1, "ranked/rank": 1}
"""1 if a higher score is better, else -1, for each score of a function that sentences have."""


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
    scores = {part: torch.as_tensor(value).double().mean().item() for part, value in parts.items()}
    if isinstance(metric, CorpusMetric):
        scores |= {one.name: one.value for one in metric.scorer.components(metric.report()) if one.is_default}
    return scores


def join(*names: str) -> str:
    """A logged name."""
    return "/".join(filter(None, names))


def expected_scores(
    names: Iterable[str], subsets: Mapping[str, Iterable[int]], stage: str = "val", epoch: int = 0
) -> dict[str, float]:
    """All that is logged of metrics.

    Args:
        names: the names of the metrics.
        subsets: the sentences of each subset; of a single one without a name, of ``""``. All groups of a loader have a
            score, too.
        stage: the stage.
        epoch: the epoch.
    """
    expected: dict[str, float] = {}
    for name, metric in make_metrics(*names).items():
        scored, of_unions = (
            {subset: score_alone(metric, *corpus_of(items, epoch)) for subset, items in several.items()}
            for several in (subsets, unions_of(subsets))
        )
        if "" not in scored:
            first = next(iter(scored.values()))
            parts = [""] if "" in first else [*first]  # a mean has no components
            scored[""] = {part: math.fsum(one[part] for one in scored.values()) / len(subsets) for part in parts}
        scored |= of_unions
        for subset, one in scored.items():
            expected |= {join(f"{stage}_{name}", subset, part): value for part, value in one.items()}
    return expected


def resample_alone(score: str, subsets: Mapping[str, Iterable[int]], epoch: int) -> dict[str, Any]:
    """The scores of 1,000 bootstrap resamples by logged name, and their means.

    Each subset has a seed of its own, and so have all groups of a loader, after the subsets. These are not in the mean.
    """
    name, _, part = score.partition("/")
    scores: dict[str, Any] = {}
    for seed, (subset, items) in enumerate([*subsets.items(), *unions_of(subsets).items()]):
        corpus = corpus_of(items, epoch)
        if name in COUNTED:
            metric = COUNTED[name](keep_sentences=True)
            metric.update(*corpus[:2])
            scores[join(f"val_{name}", subset)] = np.array(metric.interval(seed=seed).scores)
        else:
            rows = rows_alone(FUNCTIONS[name], corpus)[part]
            drawn = draw_resamples(1000, len(rows), seed)
            sums, counts = rows[drawn].sum(1).T
            scores[join(f"val_{name}", subset, part)] = sums / counts
    return scores | {join(f"val_{name}", part): np.mean([*scores.values()][: len(subsets)], 0)}


def expected_comparisons(score: str, subsets: Mapping[str, Iterable[int]], epochs: int = 3) -> list[dict[str, float]]:
    """The 95% intervals and the comparisons with the best that are logged of a score in each epoch, in plain code."""
    name, _, part = score.partition("/")
    logged: list[dict[str, float]] = []
    best, sign, mean = 0, SIGNS.get(score, 1), join(f"val_{name}", part)
    known = [
        (resample_alone(score, subsets, one), expected_scores([name], subsets, epoch=one)) for one in range(epochs)
    ]
    for epoch, (resampled, scores) in enumerate(known):
        older, old_scores = known[best]
        expected: dict[str, float] = {}
        for tag, one in resampled.items():
            expected[f"{tag}/low"], expected[f"{tag}/high"] = np.quantile(one, [0.025, 0.975])
            difference, differences = scores[tag] - old_scores[tag], one - older[tag]
            ends = np.quantile(differences, [0.025, 0.975])
            expected |= zip([f"{tag}/difference{end}" for end in ("", "_low", "_high")], [difference, *ends])
            reached = np.abs(differences) - np.abs(differences).mean() >= abs(difference) - 1e-12
            expected[f"{tag}/p_value"] = (reached.sum() + 1) / 1001 if epoch else 1
        if sign * scores[mean] > sign * old_scores[mean]:
            best, old_scores = epoch, scores
        logged.append(expected | {f"{tag}/best": old_scores[tag] for tag in resampled})
    return logged


def try_to(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The message of the error of a call; empty if there is none."""
    try:
        call(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
