"""Metrics of torchmetrics and sacreBLEU, which score the texts of all sentences at the end."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import WordInfoPreserved

from lightning_bleu.core.batch import Batch, Sentence, Sources
from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.scoring import EvaluatorMetric, RatioScorer, Scorer
from lightning_bleu.evaluation.metrics.functions import check_text, untouched
from lightning_bleu.evaluation.names import Name

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


class ForeignMetric(EvaluatorMetric):
    """A metric of torchmetrics or sacreBLEU. It scores the texts of all sentences at the end, in process 0.

    The synchronization of torchmetrics repeats sentences, and fails with unequal numbers of them. Whether the metric
    takes one reference or several, and whether a higher score is better, is found by scoring a right and a wrong
    translation.

    Args:
        name: its name.
        metric: the metric; it is copied.

    Raises:
        TypeError: if it does not take a reference, or a list of references, for each hypothesis, or if its result is
            neither a number, nor a number per sentence, nor a dict of these.
    """

    corpus_level = True

    def __init__(self, name: str, metric: Any) -> None:
        self._metric = _copy(metric)  # the trial needs a copy, because a wrapper such as MinMaxMetric keeps its range
        self._takes_one, right, wrong = self._try(name)
        self._metric = _copy(metric)
        self._directions = {score: _direction(value, wrong.get(score, value)) for score, value in right.items()}
        declared = getattr(metric, "higher_is_better", None)
        is_declared_right = not isinstance(metric, WordInfoPreserved)  # its attribute is wrong
        if isinstance(declared, bool) and is_declared_right:
            self._directions = dict.fromkeys(right, declared)
        self.score_names = list(self._directions)

    @property
    def class_name(self) -> str:
        """The name of the class of the metric."""
        return type(self._metric).__name__

    def scorer_of(self, name: str, score_name: str) -> Scorer:
        """How its result becomes a score: as it is, over 1."""
        direction = self._directions.get(score_name, self._directions.get(""))
        return RatioScorer(Name(name, score=score_name).key, direction)

    def plain_settings(self) -> dict[str, Any]:
        """Nothing: those of other packages are not known."""
        return {}

    def _try(self, name: str) -> tuple[bool, dict[str, float], dict[str, float]]:
        """Whether the metric takes a single reference, and its scores of a right and of a wrong translation."""
        trials = []
        errors = []
        for takes_one in (False, True):
            try:
                right = self._score_texts(_RIGHT, takes_one)
                wrong = self._score_texts(_WRONG, takes_one)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            else:
                trials.append((takes_one, right, wrong))
        if not trials:
            takes = "must take a list of strings, and a reference or a list of references for each"
            raise TypeError(f"the metric {name!r} {takes}, but it cannot score two sentences: {errors[0]}")
        # Some metrics accept lists of references, and give all hypotheses the same score.
        for trial in trials:
            if trial[1] != trial[2]:
                return trial
        return trials[0]

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """Nothing yet. An error for a batch that the metric cannot score."""
        check_text(name, batch)
        counts = batch.reference_counts
        if self._takes_one and (counts > 1).any():
            has = f"a sentence has {counts.max()}: pass a function that chooses one"
            raise ValueError(f"the metric {name!r} takes a single reference, but {has}")
        return super().count_batch(name, batch, sources)

    def score_texts(self, name: str, sentences: Sequence[Sentence]) -> dict[str, Tensor]:
        """The results of the metric by the name of the score, each with a 1."""
        try:
            scores = self._score_texts(sentences, self._takes_one)
        except Exception as error:
            raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error}") from error
        return {name: torch.tensor([score, 1.0], dtype=torch.float64, device="cpu") for name, score in scores.items()}

    def _score_texts(self, sentences: Sequence[Sentence], takes_one: bool) -> dict[str, float]:
        hypotheses = [sentence.hypothesis for sentence in sentences]
        if takes_one:
            references: list[Any] = [sentence.references[-1] for sentence in sentences]
        else:
            references = [list(sentence.references) for sentence in sentences]
        if isinstance(self._metric, SacreMetric):
            streams = list(zip_longest(*references))
            return {"": float(self._metric.corpus_score(hypotheses, streams).score)}
        with untouched():
            self._metric.reset()
            self._metric.update(hypotheses, references)
            value = self._metric.compute()
            self._metric.reset()
        return read_scores(value)


def _direction(right: float, wrong: float) -> bool | None:
    """Whether a higher score is better, from those of a right and a wrong translation; None if they are equal."""
    return None if right == wrong else right > wrong


def _copy(metric: Any) -> Any:
    """A copy of a metric that can be reset and used again, and that only one process computes."""
    if isinstance(metric, SacreMetric):
        return copy.copy(metric)  # some of its tokenizers cannot be copied
    copied = copy.deepcopy(metric)
    if isinstance(copied, MetricCollection):
        # Its first update would merge metrics that agree on it.
        members: dict[str, Any] = dict(copied.items(keep_base=True))
        copied = MetricCollection(members, prefix=copied.prefix, postfix=copied.postfix, compute_groups=False)
    if isinstance(copied, nn.Module):
        for module in copied.modules():  # also the metrics inside it
            if isinstance(module, Metric):
                module.distributed_available_fn = _never_distributed
    return copied


def _never_distributed() -> bool:
    """For torchmetrics: only one process computes the metric, so there is nothing to sync."""
    return False


def read_scores(value: Any) -> dict[str, float]:
    """The result of a metric of torchmetrics by the name of the score; ``""`` for a metric with a single score.

    Raises:
        TypeError: if it is neither a number, nor a number per sentence, nor a dict of these.

    Example:
        >>> read_scores(torch.tensor(0.5)), read_scores({"f1": [0.25, 0.75]})
        ({'': 0.5}, {'f1': 0.5})
    """
    values = value if isinstance(value, Mapping) else {"": value}
    try:
        return {str(score): torch.as_tensor(number).double().mean().item() for score, number in values.items()}
    except (TypeError, ValueError, RuntimeError):
        needs = "the result must be a number, a number per sentence, or a dict of these"
        raise TypeError(f"{needs}, got {value!r}") from None
