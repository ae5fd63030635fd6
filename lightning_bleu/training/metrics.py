"""The metrics of a callback, counted batch by batch or scored from the texts of all sentences, and their results."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_all, run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Strings, kind_of
from lightning_bleu.reading.mistakes import suspect_tokenizer
from lightning_bleu.reading.ragged import BoolArray, IntArray
from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.scoring.scoring import Report, Scoring, format_score
from lightning_bleu.scoring.signature import InputCounts
from lightning_bleu.settings.settings import Settings, check_bool
from lightning_bleu.training.best import Corpus
from lightning_bleu.training.functions import find_third, score_sentences, untouched
from lightning_bleu.training.sentences import Sentence, Table

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


@dataclass(frozen=True)
class Result:
    """The scores of one metric for all sentences of a validation, for a loader, or for a group, or their mean.

    Attributes:
        scores: the scores by the last part of their logged names: ``""`` for the score itself, ``"rouge1_fmeasure"``
            and so on for a metric with several scores.
        parts: the components of the score, such as precisions. A mean has none.
        report: the score as an object that prints, a :class:`lightning_bleu.BLEUScore` or a
            :class:`lightning_bleu.CHRFScore`; None for a mean, and for metrics of other packages.
        interval: the confidence interval, if requested.
        comparison: the paired test against the best validation so far; None if there was none to compare with.
        best: the score of the best validation so far, if requested.
    """

    scores: dict[str, float]
    parts: dict[str, float] = field(default_factory=dict)
    report: Any = None
    interval: Interval | None = None
    comparison: PairedTest | None = None
    best: float | None = None

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
        return scores | ({} if self.report is None else self.report.to_dict()) | self._uncertainty()

    def _uncertainty(self) -> dict[str, float]:
        values = {} if self.interval is None else {"low": self.interval.low, "high": self.interval.high}
        if self.best is not None:
            values |= {"p_value": self.comparison.p_value if self.comparison else 1.0, "best": self.best}
        return values


class Counted:
    """A metric of this package. Its statistics are counted batch by batch.

    Args:
        name: its name, for error messages.
        metric: the metric. Only its settings matter: its state is not used.

    Attributes:
        columns: the number of statistics of a sentence.
        reading: how the metric reads ids.
        takes_sources: whether the metric takes sources.
        score_names: the last parts of the logged names of its scores; ``""`` for a single score.
        higher_is_better: whether a higher score is better; None if that is unknown.
        scale: the score of a perfect translation; None if that is unknown.
    """

    higher_is_better, score_names, takes_sources = True, ("",), False

    def __init__(self, name: str, metric: CorpusMetric) -> None:
        self.name = name
        self.metric = metric
        self.reading = metric.settings.for_reading
        self.columns, self.scale = metric.columns, metric.settings.scale
        self.count_rows = metric.count_rows

    def check(self, batch: Batch, sources: Any, mask: BoolArray | None) -> None:
        """Raise an error for a batch that the metric cannot score."""
        if self.metric.settings.needs_text:
            _check_text(self.name, batch)

    def suspect(self, batch: Batch) -> Iterator[str]:
        """Likely mistakes in how this metric counts a batch."""
        return suspect_tokenizer(batch.references, self.metric.settings)

    def score(self, tables: Sequence[Table]) -> list[Scored]:
        """Score the sentences of all processes, for each label."""
        return [self._score(table) for table in tables]

    def _score(self, table: Table) -> Scored:
        statistics = table.statistics(self.name)
        report = self.metric.report_of(statistics.sum(0), InputCounts.of_kept(table.kept))
        corpus = Corpus(table.kept.identity, statistics, self.metric.scoring, self.metric.settings.plain())
        return Scored(Result({"": report.score}, report.parts(), report), corpus)


class Uncounted:
    """What metrics have in common that score sentences at the end: no statistics of a batch."""

    columns, reading, scale, takes_sources = 0, Settings(), None, False

    def count_rows(self, batch: Batch) -> IntArray:
        """No statistics."""
        return np.zeros((batch.sentence_count, 0), np.int64)

    def suspect(self, batch: Batch) -> Iterator[str]:
        """No mistakes."""
        return iter(())


class OfText(Uncounted):
    """A metric of torchmetrics or sacreBLEU. It scores the texts of all sentences at the end, in process 0.

    Args:
        name: its name, for error messages.
        metric: the metric; it is copied.

    Attributes:
        columns, reading, takes_sources, score_names, higher_is_better, scale: see :class:`Counted`.

    Raises:
        TypeError: if it does not take a reference, or a list of references, for each hypothesis, or if its result is
            neither a number, nor a number per sentence, nor a dict of these.
    """

    def __init__(self, name: str, metric: Any) -> None:
        self.name = name
        self.metric = _copy(metric)
        takes = (
            f"the metric {name!r} must take a list of strings, and a reference or a list of references for each, but "
        )
        refusals = []
        for takes_one in (False, True):
            self._takes_one = takes_one
            try:
                right, wrong = self._score_texts(_RIGHT), self._score_texts(_WRONG)
            except Exception as error:
                refusals.append(f"it cannot score two sentences: {type(error).__name__}: {error}")
                continue
            if right != wrong:
                break
            refusals.append(f"it gives right and wrong hypotheses the same score, {right.get('', right)}")
        else:
            raise TypeError(takes + refusals[0])
        self.score_names = tuple(sorted(right))
        directions = {right[part] > wrong[part] for part in right if right[part] != wrong.get(part, right[part])}
        self.higher_is_better = directions.pop() if len(directions) == 1 else None

    def check(self, batch: Batch, sources: Any, mask: BoolArray | None) -> None:
        """Raise an error for a batch that the metric cannot score."""
        _check_text(self.name, batch)
        counts = batch.reference_counts if mask is None else batch.reference_counts[mask]
        if self._takes_one and (counts > 1).any():
            raise ValueError(
                f"the metric {self.name!r} takes a single reference, but a sentence has {counts.max()}: pass a "
                "function that chooses one, such as lambda hypotheses, references: [...]"
            )

    def score(self, tables: Sequence[Table]) -> list[Scored]:
        """Score the sentences of all processes, for each label. Collective."""
        texts = [table.sentences.texts for table in tables]
        scores = run_in_process_0(lambda: [self._score(sentences) for sentences in texts])
        return [Scored(Result(one)) for one in scores]

    def _score(self, sentences: Sequence[Sentence]) -> dict[str, float]:
        try:
            return self._score_texts(sentences)
        except Exception as error:
            raise RuntimeError(f"the metric {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _score_texts(self, sentences: Sequence[Sentence]) -> dict[str, float]:
        hypotheses = [one.hypothesis for one in sentences]
        references: list[Any] = [one.references[-1] if self._takes_one else [*one.references] for one in sentences]
        if isinstance(self.metric, SacreMetric):
            return {"": float(self.metric.corpus_score(hypotheses, [*zip_longest(*references)]).score)}
        with untouched():
            self.metric.reset()
            self.metric.update(hypotheses, references)
            value = self.metric.compute()
            self.metric.reset()
        return read_scores(value)


class OfSentences(Uncounted):
    """A function that gives each sentence a number. The score is the mean.

    Each process calls it once, with its own sentences of all labels.

    Args:
        name: its name, for error messages.
        function: takes hypotheses, references, and perhaps sources.

    Attributes:
        columns, reading, takes_sources, score_names, higher_is_better, scale: see :class:`Counted`.

    Raises:
        TypeError: if its attribute ``higher_is_better`` is not a boolean.
    """

    score_names = ("",)

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        third, _ = find_third(function, "sources")
        self.takes_sources = third is not None
        self._needs_sources = third is not None and third.default is third.empty
        inner = getattr(function, "func", function)  # of functools.partial
        self.higher_is_better = check_bool("higher_is_better", getattr(inner, "higher_is_better", True))

    def __deepcopy__(self, memo: object) -> OfSentences:
        return self

    def __getstate__(self) -> dict[str, Any]:
        if "<" in getattr(self.function, "__qualname__", ""):
            raise TypeError(
                f"the metric {self.name!r} is a lambda or a local function, which cannot be sent to other processes: "
                "define it at the top level of a module, or set strategy='ddp' instead of 'ddp_spawn'"
            )
        return vars(self)

    @property
    def scoring(self) -> Scoring:
        """How the rows of sentences, each a number and a 1, become their mean."""
        return Scoring(
            self.name, lambda rows: rows[..., 0] / rows[..., 1], None, lambda rows: rows[:, 0], self.higher_is_better
        )

    def check(self, batch: Batch, sources: Any, mask: BoolArray | None) -> None:
        """Raise an error for a batch that the metric cannot score."""
        _check_text(self.name, batch)
        if sources is None and self._needs_sources:
            raise ValueError(
                f"the metric {self.name!r} takes sources: return 'source' from the step, beside 'preds' and 'target' "
                "(for a Trainer of Transformers, set include_for_metrics=['inputs'] in its arguments), or remove the "
                "third parameter"
            )

    def score(self, tables: Sequence[Table]) -> list[Scored | None]:
        """Score the sentences of all processes, for each label; None if the function returned None. Collective."""
        own = [sentence for table in tables for sentence in table.sentences.own()]
        everyone = run_in_all(lambda: score_sentences(self.name, self.function, own) if own else torch.zeros(0))
        returned = [values for values in everyone if values is not None]
        if len(returned) < len(everyone):
            if any(map(len, returned)):
                raise ValueError(
                    f"the metric {self.name!r} returned None in some processes only: return numbers in all, or in none"
                )
            return [None for _ in tables]
        rows = [torch.ones(len(table.kept.rows), 2, dtype=torch.float64, device="cpu") for table in tables]
        for process, values in enumerate(returned):
            places = [table.sentences.owned_by(process) for table in tables]
            for one, numbers, part in zip(rows, places, torch.split(values.double(), [*map(len, places)])):
                one[numbers, 0] = part
        return [self._score(table, one) for table, one in zip(tables, rows)]

    def _score(self, table: Table, rows: Tensor) -> Scored:
        corpus = Corpus(table.kept.identity, rows, self.scoring, {"higher_is_better": self.higher_is_better})
        score = corpus.score()
        return Scored(Result({"": score}, report=MeanScore(score=score, name=self.name)), corpus)


class MeanScore(Report):
    """The mean of the numbers that a function gives to sentences. ``str(...)`` is one line.

    Attributes:
        score: the mean.
        name: the name of the metric.
    """

    score: float
    name: str

    def __str__(self) -> str:
        return f"{self.name} = {format_score(self.score, None)}"


class Scored(NamedTuple):
    """The result of a metric for a label.

    Attributes:
        result: the result, without its interval and comparison.
        corpus: the sentences with their statistics, if the metric has statistics of sentences.
    """

    result: Result
    corpus: Corpus | None = None


AnyMetric: TypeAlias = Counted | OfText | OfSentences


def _check_text(name: str, batch: Batch) -> None:
    if not isinstance(batch.segments, Strings):
        raise TypeError(
            f"the metric {name!r} needs text, got {kind_of(batch.segments)}: return strings (join tokens with spaces), "
            "or decode ids with the option decoder=tokenizer"
        )


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
            part.distributed_available_fn = _is_distributed
    return copied


def _is_distributed() -> bool:
    """For torchmetrics: only one process computes the metric, so there is nothing to sync."""
    return False


def wrap_metric(name: str, metric: Any) -> AnyMetric:
    """A metric of a callback.

    Args:
        name: its name, for error messages.
        metric: a :class:`lightning_bleu.metric.CorpusMetric`, a metric of sacreBLEU or torchmetrics, or a function.

    Raises:
        TypeError: if it is none of them, or if it cannot score text.
    """
    if isinstance(metric, CorpusMetric):
        return Counted(name, metric)
    is_class = isinstance(metric, type)
    has_methods = hasattr(metric, "update") and hasattr(metric, "compute")
    if is_class or not (callable(metric) or has_methods or isinstance(metric, SacreMetric)):
        raise TypeError(
            f"{name!r} must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, got {metric!r}"
            + ": make an instance of it" * is_class
        )
    return OfText(name, metric) if has_methods or isinstance(metric, SacreMetric) else OfSentences(name, metric)


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


def mean_of(results: Sequence[Result]) -> Result:
    """The means of the scores that all labels have.

    Example:
        >>> mean_of([Result({"": 0.25}, parts={"precision": 0.5}), Result({"": 0.75})])
        Result(scores={'': 0.5}, parts={}, report=None, interval=None, comparison=None, best=None)
    """
    shared = [part for part in results[0].scores if all(part in one.scores for one in results)]
    return Result({part: math.fsum(one.scores[part] for one in results) / len(results) for part in shared})
