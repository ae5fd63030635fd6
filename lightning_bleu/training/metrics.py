"""The metrics of an evaluator, counted batch by batch or scored from the texts of all sentences, and their results."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, zip_longest
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection
from torchmetrics.text import WordInfoPreserved

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_all, run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import InputCounts, Strings, kind_of
from lightning_bleu.reading.mistakes import Mistake, suspect_script
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.scoring import Report, format_score, ratio_scoring
from lightning_bleu.settings.settings import Settings, check_bool
from lightning_bleu.training.functions import attribute_of, call_function, find_third, name_score, untouched
from lightning_bleu.training.sentences import Corpus, Sentence, Sentences

_NAMED = ("interval", "comparison", "best", "first")
"""What each score of a metric has of its own."""

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


@dataclass(frozen=True)
class Result:
    """The scores of one metric for a subset of the sentences of a validation, or their mean.

    Attributes:
        scores: the scores by the last part of their logged names: ``""`` for the score itself, ``"rouge1_fmeasure"``
            and so on for a metric with several scores.
        parts: the components of the score that are logged, such as precisions. A mean has none.
        report: the score as an object that prints: a :class:`lightning_bleu.BLEUScore`, a
            :class:`lightning_bleu.CHRFScore`, or, for a function, a ``FunctionScore``; None for a mean, for several
            scores, and for metrics of other packages.
        interval: the confidence interval, if requested.
        comparison: the paired test against the best validation before this one, or against the first, if requested.
            The first validation is compared with itself. None if a loader or a group is missing.
        best: the score of the best validation so far, including this one, with ``compare_to="best"``.
        first: the score of the first validation, with ``compare_to="first"``. If a function has several scores, these
            four are dicts by the names of the scores.
    """

    scores: dict[str, float]
    parts: dict[str, float] = field(default_factory=dict)
    report: Any = None
    interval: Any = None
    comparison: Any = None
    best: Any = None
    first: Any = None

    @property
    def score(self) -> float:
        """The score.

        Raises:
            AttributeError: for a metric with several scores; see `scores`.
        """
        if "" not in self.scores:
            raise AttributeError(f"this metric has several scores: choose one of .scores, {[*self.scores]}")
        return self.scores[""]

    def values(self) -> dict[str, float]:
        """All that is logged, by the last part of its name; ``""`` for the score itself."""
        return {**self.scores, **self.parts, **self._uncertainty()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that :mod:`json` can serialize."""
        scores = {part or "score": value for part, value in self.scores.items()}
        if self.report is not None:  # it has its own parts, some of them as lists
            own = self.report.parts()
            scores |= self.report.to_dict() | {part: value for part, value in self.parts.items() if part not in own}
        return scores | self._uncertainty()

    def split(self) -> dict[str, Result]:
        """The result of each score, by the last part of its name."""
        if "" in self.scores:
            return {"": self}
        own = [getattr(self, name) or {} for name in _NAMED]
        return {part: Result({"": one}, {}, None, *(by.get(part) for by in own)) for part, one in self.scores.items()}

    def _uncertainty(self) -> dict[str, float]:
        if "" not in self.scores:
            own = self.split().items()
            return {f"{part}/{name}": value for part, one in own for name, value in one._uncertainty().items()}
        values = {} if self.interval is None else {"low": self.interval.low, "high": self.interval.high}
        if (test := self.comparison) is not None:
            ends = {"difference_low": test.low, "difference_high": test.high}
            opponent = {"best": self.best, "first": self.first}
            found = {"difference": test.difference, **ends, "p_value": test.p_value, **opponent}
            values |= {name: value for name, value in found.items() if value is not None}
        return values


class AnyMetric:
    """A metric of an evaluator: what all kinds of metrics have in common.

    Attributes:
        name: its name, for error messages.
        columns: the number of statistics of a sentence that are counted batch by batch.
        reading: how the metric reads ids.
        needs_texts: whether the texts of all sentences must be kept.
        takes_sources: whether the metric takes sources.
        part_names: the last parts of the names of its components that can be logged.
        directions: whether a higher score is better, by the last part of its logged name; None if that is unknown. A
            single score has the name ``""``, whose direction holds for all scores of a function.
        scale: the score of a perfect translation; None if that is unknown.
    """

    name: str
    columns = 0
    reading = Settings()
    needs_texts = True
    takes_sources = False
    part_names: tuple[str, ...] = ()
    directions: Mapping[str, bool | None] = MappingProxyType({"": True})
    scale: float | None = None

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        if self.needs_texts and not isinstance(batch.segments, Strings):
            raise TypeError(
                f"the metric {self.name!r} needs text, got {kind_of(batch.segments)}: return strings (join tokens with "
                "spaces), or decode ids with the option decoder=tokenizer"
            )

    def count_rows(self, batch: Batch) -> IntArray:
        """Count the statistics of each sentence, of shape ``(sentences, columns)``."""
        return np.zeros((batch.sentence_count, 0), np.int64)

    def suspect(self, batch: Batch) -> Iterator[Mistake]:
        """Warn about likely mistakes in a batch."""
        return iter(())

    def score(self, subsets: Sequence[Sentences]) -> list[dict[str, Scored]]:
        """Score the sentences of all processes. Collective.

        Returns:
            for each subset, its scores by the last parts of their names; nothing for nothing to log.
        """
        raise NotImplementedError


class Counted(AnyMetric):
    """A metric of this package. Its statistics are counted batch by batch.

    Args:
        name: its name, for error messages.
        metric: the metric. Only its settings matter: its state is not used.
        parts: the names of the components to log, or whether to log those of its report.
    """

    needs_texts = False

    def __init__(self, name: str, metric: CorpusMetric, parts: bool | Sequence[str] = True) -> None:
        self.name = name
        self.metric = metric
        self.parts = parts or ()
        nothing = torch.zeros(metric.columns, dtype=torch.int64, device="cpu")
        self.part_names = (*metric.report_of(nothing, InputCounts()).parts(), *metric.more_parts(nothing))
        self.reading = metric.settings.for_reading
        self.columns, self.scale = metric.columns, metric.settings.scale

    def count_rows(self, batch: Batch) -> IntArray:
        """Count the statistics of each sentence, of shape ``(sentences, columns)``."""
        return self.metric.count_rows(batch)

    def suspect(self, batch: Batch) -> Iterator[Mistake]:
        """Warn about likely mistakes in a batch."""
        return suspect_script(batch.segments, batch.sentence_count, self.metric.settings)

    def score(self, subsets: Sequence[Sentences]) -> list[dict[str, Scored]]:
        """Score the sentences of all processes, for each subset."""
        return [{"": self._score(sentences)} for sentences in subsets]

    def _score(self, sentences: Sentences) -> Scored:
        statistics = sentences.statistics(self.name)
        total = statistics.sum(0)
        report = self.metric.report_of(total, sentences.kept.input_counts)
        parts = report.parts()
        if self.parts is not True:
            parts |= self.metric.more_parts(total)
            parts = {name: parts[name] for name in self.part_names if name in self.parts}
        corpus = Corpus(sentences.kept.identity, statistics, self.metric.scoring, self.metric.settings.plain())
        return Scored(Result({"": report.score}, parts, report), corpus)


class OfText(AnyMetric):
    """A metric of torchmetrics or sacreBLEU. It scores the texts of all sentences at the end, in process 0.

    Args:
        name: its name, for error messages.
        metric: the metric; it is copied.

    Raises:
        TypeError: if it does not take a reference, or a list of references, for each hypothesis, or if its result is
            neither a number, nor a number per sentence, nor a dict of these.
    """

    def __init__(self, name: str, metric: Any) -> None:
        self.name = name
        self.metric = _copy(metric)  # a copy is tried, because a wrapper such as MinMaxMetric keeps what it has seen
        tried, refusals = [], []
        for takes_one in (False, True):
            try:
                right, wrong = (self._score_texts(texts, takes_one) for texts in (_RIGHT, _WRONG))
                tried.append((takes_one, right, wrong))
            except Exception as error:
                refusals.append(f"{type(error).__name__}: {error}")
        if not tried:
            raise TypeError(
                f"the metric {name!r} must take a list of strings, and a reference or a list of references for each, "
                f"but it cannot score two sentences: {refusals[0]}"
            )
        self.metric = _copy(metric)
        # Some accept lists of references, and give all hypotheses the same score.
        self._takes_one, right, wrong = next((one for one in tried if one[1] != one[2]), tried[0])
        pairs = {part: (score, wrong.get(part, score)) for part, score in right.items()}
        self.directions = {part: one > other if one != other else None for part, (one, other) in pairs.items()}
        own = getattr(metric, "higher_is_better", None)
        if isinstance(own, bool) and not isinstance(metric, WordInfoPreserved):  # whose attribute is wrong
            self.directions = dict.fromkeys(right, own)

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        counts = batch.reference_counts
        if self._takes_one and (counts > 1).any():
            raise ValueError(
                f"the metric {self.name!r} takes a single reference, but a sentence has {counts.max()}: pass a "
                "function that chooses one, such as lambda hypotheses, references: [...]"
            )

    def score(self, subsets: Sequence[Sentences]) -> list[dict[str, Scored]]:
        """Score the sentences of all processes, for each subset. Collective."""
        texts = [sentences.texts for sentences in subsets]
        scores = run_in_process_0(lambda: [self._score(sentences) for sentences in texts])
        return [{part: Scored(Result({"": score})) for part, score in one.items()} for one in scores]

    def _score(self, sentences: Sequence[Sentence]) -> dict[str, float]:
        try:
            return self._score_texts(sentences, self._takes_one)
        except Exception as error:
            raise RuntimeError(f"the metric {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _score_texts(self, sentences: Sequence[Sentence], takes_one: bool) -> dict[str, float]:
        hypotheses = [one.hypothesis for one in sentences]
        references: list[Any] = [one.references[-1] if takes_one else [*one.references] for one in sentences]
        if isinstance(self.metric, SacreMetric):
            return {"": float(self.metric.corpus_score(hypotheses, [*zip_longest(*references)]).score)}
        with untouched():
            self.metric.reset()
            self.metric.update(hypotheses, references)
            value = self.metric.compute()
            self.metric.reset()
        return read_scores(value)


class OfSentences(AnyMetric):
    """A function that gives each sentence a number, or a pair of numbers. The score is a ratio of sums.

    A number ``x`` is the pair ``(x, 1)``, so the score is the mean. Each process calls the function once, with its own
    sentences of all subsets; or, if it has the attribute ``corpus_level``, process 0 calls it for each subset.

    Args:
        name: its name, for error messages.
        function: takes hypotheses, references, and perhaps sources.

    Raises:
        TypeError: if its attributes ``higher_is_better`` and ``corpus_level`` are not booleans.
    """

    directions: Mapping[str, bool]

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        third, _ = find_third(function, "sources")
        self.takes_sources = third is not None
        self._needs_sources = third is not None and third.default is third.empty
        directions = attribute_of(function, "higher_is_better", True)
        directions = directions if isinstance(directions, Mapping) else {"": directions}
        self.directions = {part: check_bool("higher_is_better", one) for part, one in directions.items()}
        self._is_of_corpus = check_bool("corpus_level", attribute_of(function, "corpus_level", False))

    def __deepcopy__(self, memo: object) -> OfSentences:
        return self

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        if sources is None and self._needs_sources:
            raise ValueError(
                f"the metric {self.name!r} takes sources: give 'source' beside 'preds' and 'target', or remove its "
                "third parameter"
            )

    def score(self, subsets: Sequence[Sentences]) -> list[dict[str, Scored]]:
        """Score the sentences of all processes, for each subset. Collective."""
        call = partial(call_function, self.name, self.function, of_corpus=self._is_of_corpus)
        if self._is_of_corpus:
            texts = [one.texts for one in subsets]
            answers = run_in_process_0(lambda: [call(one) or {} for one in texts])
        else:
            own = [sentence for sentences in subsets for sentence in sentences.own()]
            answers = self._assemble(subsets, run_in_all(lambda: call(own) if own else {}))
        return [self._score(one, answer) for one, answer in zip(subsets, answers)]

    def _score(self, sentences: Sentences, answer: Mapping[str, Tensor]) -> dict[str, Scored]:
        scored = {}
        for part, rows in answer.items():
            right, sums = self.directions.get(part, self.directions.get("")), rows.reshape(-1, 2).sum(0)
            if right is None:
                raise ValueError(
                    f"'higher_is_better' of the metric {self.name!r} has {[*self.directions]}: add {part!r}"
                )
            if sums.any():  # not 0/0
                scoring = ratio_scoring(name_score(self.name, part), right)
                score = scoring.score(sums).item()
                corpus = Corpus(sentences.kept.identity, rows, scoring, {"higher_is_better": right})
                result = Result({"": score}, report=FunctionScore(score=score, name=scoring.name))
                scored[part] = Scored(result, corpus if rows.ndim == 2 and math.isfinite(score) else None)
        return scored

    def _assemble(self, subsets: Sequence[Sentences], everyone: Sequence[Any]) -> list[dict[str, Tensor]]:
        """The rows of each subset, from what each process returned for its own sentences of all subsets."""
        returned = [one for one in everyone if one]
        if any(one is None or (one and one.keys() != returned[0].keys()) for one in everyone if returned):
            raise ValueError(
                f"the metric {self.name!r} returned None in some processes only, or scores with different names: "
                "return the same scores in all, or None in all"
            )
        sizes = [len(one.kept.rows) for one in subsets]
        starts = [*accumulate(sizes, initial=0)]
        owned = [start + one.owned_by(number) for number in range(len(everyone)) for start, one in zip(starts, subsets)]
        places = torch.cat(owned).argsort()
        names = returned[0] if returned else ()
        rows = {part: torch.cat([one[part] for one in returned])[places].split_with_sizes(sizes) for part in names}
        return [{part: own[number] for part, own in rows.items()} for number in range(len(subsets))]


class FunctionScore(Report):
    """The score of a function. ``str(...)`` is one line.

    Attributes:
        score: the mean of the numbers that the function gives to sentences, or the ratio of their sums.
        name: the name of the score.
    """

    score: float
    name: str

    def __str__(self) -> str:
        return f"{self.name} = {format_score(self.score, None)}"


class Scored(NamedTuple):
    """The result of a metric for a subset.

    Attributes:
        result: the result, without its interval and comparison.
        corpus: the sentences with their statistics, if the metric has statistics of sentences.
    """

    result: Result
    corpus: Corpus | None = None


def _copy(metric: Any) -> Any:
    """A copy of a metric that can be reset and used again, and that only one process computes."""
    if isinstance(metric, SacreMetric):
        return copy.copy(metric)  # some of its tokenizers cannot be copied
    copied = copy.deepcopy(metric)
    if isinstance(copied, MetricCollection):
        # Its first update would merge metrics that agree on it.
        parts: dict[str, Any] = dict(copied.items(keep_base=True))
        copied = MetricCollection(parts, prefix=copied.prefix, postfix=copied.postfix, compute_groups=False)
    for part in copied.modules() if isinstance(copied, nn.Module) else ():  # and the metrics inside it
        if isinstance(part, Metric):
            part.distributed_available_fn = _never_distributed
    return copied


def _never_distributed() -> bool:
    """For torchmetrics: only one process computes the metric, so there is nothing to sync."""
    return False


def wrap_metric(name: str, metric: Any, parts: bool | Sequence[str] = True) -> AnyMetric:
    """A metric of an evaluator.

    Args:
        name: its name, for error messages.
        metric: a :class:`lightning_bleu.metric.CorpusMetric`, a metric of sacreBLEU or torchmetrics, or a function.
        parts: see :class:`Counted`.

    Raises:
        TypeError: if it is none of them, or if it cannot score text.
    """
    if isinstance(metric, CorpusMetric):
        return Counted(name, metric, parts)
    is_class = isinstance(metric, type)
    scores_text = isinstance(metric, SacreMetric) or (hasattr(metric, "update") and hasattr(metric, "compute"))
    if is_class or not (callable(metric) or scores_text):
        raise TypeError(
            f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got {metric!r}"
            + (": make an instance of it" if is_class else ": pass metrics by name, such as {'bleu': CorpusBLEU()}")
        )
    return OfText(name, metric) if scores_text else OfSentences(name, metric)


def read_scores(value: Any) -> dict[str, float]:
    """The result of a metric of torchmetrics by the last part of its name; ``""`` for a metric with a single score.

    Raises:
        TypeError: if it is neither a number, nor a number per sentence, nor a dict of these.

    Example:
        >>> read_scores(torch.tensor(0.5)), read_scores({"f1": [0.25, 0.75]})
        ({'': 0.5}, {'f1': 0.5})
    """
    parts = value if isinstance(value, Mapping) else {"": value}
    try:
        return {str(name): torch.as_tensor(part).double().mean().item() for name, part in parts.items()}
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"the result must be a number, a number per sentence, or a dict of these, got {value!r}"
        ) from None


def merge_results(named: Mapping[str, Result]) -> Result:
    """The results of the scores of a metric as one, by the last parts of their names; see :meth:`Result.split`."""
    if "" in named:
        return named[""]
    columns = [{part: getattr(one, name) for part, one in named.items()} for name in ("score", *_NAMED)]
    known = [{part: value for part, value in one.items() if value is not None} for one in columns]
    return Result(known[0], {}, None, *(one or None for one in known[1:]))
