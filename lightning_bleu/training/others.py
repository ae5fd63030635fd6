"""Metrics of text beside BLEU: those of torchmetrics and of sacreBLEU."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.ter import TER
from torch import nn
from torchmetrics import Metric

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.torchmetrics_fixes import ordinary_tensors
from lightning_bleu.training.sentences import Sentence, Sentences

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


def copy_other(name: str, metric: Any) -> Any:
    """Copy a metric of text, after it has scored two sentences to see whether it can.

    Args:
        name: its name, for error messages.
        metric: a :class:`lightning_bleu.metric.CorpusMetric`, a metric of sacreBLEU, or one of torchmetrics.

    Raises:
        TypeError: if it is none of them, if it does not take a list of references for each hypothesis, or if its result
            is neither a number nor a dict of numbers.
    """
    is_class = isinstance(metric, type)
    has_methods = hasattr(metric, "update") and hasattr(metric, "compute")
    if is_class or not (has_methods or isinstance(metric, SacreMetric)):
        raise TypeError(
            f"'others' must have metrics of lightning_bleu, torchmetrics, or sacreBLEU, got {metric!r} for {name!r}"
            + ": make an instance of it" * is_class
        )
    # Some tokenizers of sacreBLEU cannot be copied.
    copied = copy.copy(metric) if isinstance(metric, SacreMetric) else copy.deepcopy(metric)
    if isinstance(copied, CorpusMetric):
        return copied
    for part in copied.modules() if isinstance(copied, nn.Module) else ():  # a metric, and those inside it
        if isinstance(part, Metric):
            part.distributed_available_fn = _is_distributed
    takes = f"the metric {name!r} of 'others' must take a list of strings, and a list of references for each, but "
    try:
        right, wrong = score_texts(copied, _RIGHT), score_texts(copied, _WRONG)
    except Exception as error:
        raise TypeError(f"{takes}it cannot score two sentences: {type(error).__name__}: {error}") from error
    if right == wrong:
        raise TypeError(f"{takes}it gives right and wrong hypotheses the same score, {right.get('', right)}")
    return copied


def _is_distributed() -> bool:
    """For torchmetrics: only one process computes the metric, so there is nothing to sync."""
    return False


def score_texts(metric: Any, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Score sentences.

    Returns:
        the score by the last part of its name; ``""`` for a metric with a single score.

    Raises:
        TypeError: if the result is neither a number nor a dict of numbers.

    Example:
        >>> score_texts(TER(), [Sentence("a b c", ["a b d", "a c"]), Sentence("a", ["a"])])
        {'': 28.57142857142857}
    """
    hypotheses, references = [one.hypothesis for one in sentences], [one.references for one in sentences]
    if isinstance(metric, SacreMetric):
        return {"": float(metric.corpus_score(hypotheses, [*zip_longest(*references)]).score)}
    with ordinary_tensors():
        copied = copy.deepcopy(metric)  # a collection merges metrics that agree on its first update
        copied.reset()
        copied.update(hypotheses, references)
        value = copied.compute()
    parts = value if isinstance(value, Mapping) else {"": value}
    try:
        return {str(name): float(part) for name, part in parts.items()}
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"the result must be a number or a dict of numbers, got {value!r}") from None


def is_higher_better(metric: Any) -> bool | None:
    """Whether a higher score is better; None if that is unknown."""
    if isinstance(metric, SacreMetric):
        return not isinstance(metric, TER)
    return getattr(metric, "higher_is_better", None)


def score_others(metrics: Mapping[str, Any], loaders: Mapping[str, Sentences]) -> dict[str, dict[str, float]]:
    """Score the sentences of all processes, in process 0. Collective.

    Args:
        metrics: the metrics, by the logged names of their scores.
        loaders: the sentences of each loader, by its name; empty for a single loader without a name. Loaders without
            sentences have no score.

    Returns:
        the scores of each loader by logged name and part; see :func:`score_texts`. If loaders have names, also their
        means.
    """
    scored: dict[str, dict[str, float]] = {}
    for tag, metric in metrics.items():
        own = {
            f"{tag}/{name}" if name else tag: run_in_process_0(partial(_score_named, tag, metric, sentences.texts))
            for name, sentences in loaders.items()
            if sentences.readable
        }
        scored |= own
        if own and "" not in loaders:
            parts = next(iter(own.values()))
            scored[tag] = {part: math.fsum(one[part] for one in own.values()) / len(own) for part in parts}
    return scored


def _score_named(tag: str, metric: Any, sentences: Sequence[Sentence]) -> dict[str, float]:
    try:
        return score_texts(metric, sentences)
    except Exception as error:
        raise RuntimeError(f"the metric of {tag!r} failed: {type(error).__name__}: {error}") from error
