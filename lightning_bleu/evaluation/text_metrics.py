"""Metrics of torchmetrics and sacreBLEU, which score the texts of all sentences at the end."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import nn
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import WordInfoPreserved

from lightning_bleu.evaluation.functions import untouched
from lightning_bleu.evaluation.metrics import EvaluatorMetric, ScoreOfSubset
from lightning_bleu.evaluation.sentences import Sentence, SubsetSentences
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.reading.batch import Batch

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


class TextMetric(EvaluatorMetric):
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

    def __init__(self, name: str, metric: Any) -> None:
        self.name = name
        self.passed = metric
        self.class_name = type(metric).__name__
        self.metric = _copy(metric)  # the trial needs a copy, because a wrapper such as MinMaxMetric keeps its range
        self._takes_one, right, wrong = self._try()
        self.metric = _copy(metric)
        self.directions = {score: _direction(value, wrong.get(score, value)) for score, value in right.items()}
        declared = getattr(metric, "higher_is_better", None)
        is_declared_right = not isinstance(metric, WordInfoPreserved)  # its attribute is wrong
        if isinstance(declared, bool) and is_declared_right:
            self.directions = dict.fromkeys(right, declared)

    def _try(self) -> tuple[bool, dict[str, float], dict[str, float]]:
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
            raise TypeError(
                f"the metric {self.name!r} must take a list of strings, and a reference or a list of references for "
                f"each, but it cannot score two sentences: {errors[0]}"
            )
        # Some metrics accept lists of references, and give all hypotheses the same score.
        for trial in trials:
            _, right, wrong = trial
            if right != wrong:
                return trial
        return trials[0]

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        counts = batch.reference_counts
        if self._takes_one and (counts > 1).any():
            raise ValueError(
                f"the metric {self.name!r} takes a single reference, but a sentence has {counts.max()}: pass a "
                "function that chooses one, such as lambda hypotheses, references: [...]"
            )

    def score(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, ScoreOfSubset]]:
        """Score the sentences of all processes, for each subset. Collective."""
        texts = [sentences.texts for sentences in subsets]
        scores = run_in_process_0(lambda: [self._score(sentences) for sentences in texts])
        return [dict(of_subset) for of_subset in scores]

    def _score(self, sentences: Sequence[Sentence]) -> dict[str, float]:
        try:
            return self._score_texts(sentences, self._takes_one)
        except Exception as error:
            raise RuntimeError(f"the metric {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _score_texts(self, sentences: Sequence[Sentence], takes_one: bool) -> dict[str, float]:
        hypotheses = [sentence.hypothesis for sentence in sentences]
        if takes_one:
            references: list[Any] = [sentence.references[-1] for sentence in sentences]
        else:
            references = [list(sentence.references) for sentence in sentences]
        if isinstance(self.metric, SacreMetric):
            streams = list(zip_longest(*references))
            return {"": float(self.metric.corpus_score(hypotheses, streams).score)}
        with untouched():
            self.metric.reset()
            self.metric.update(hypotheses, references)
            value = self.metric.compute()
            self.metric.reset()
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
        raise TypeError(
            f"the result must be a number, a number per sentence, or a dict of these, got {value!r}"
        ) from None
