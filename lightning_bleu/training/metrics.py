"""The metrics of a callback, counted batch by batch or scored from the texts of all sentences, and their results.

Functions of users are metrics, too: which parameters they have, how they are called, and what they may return.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from sacrebleu.metrics.base import Metric as SacreMetric
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_all, run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Strings, kind_of
from lightning_bleu.reading.mistakes import Mistake, suspect_script
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.scoring.scoring import Report, Scoring, format_score
from lightning_bleu.settings.settings import Settings, check_bool
from lightning_bleu.training.sentences import Corpus, Sentence, Sentences

_SHOWN = 200
"""The number of characters of a value that error messages show."""

_RIGHT = [Sentence("the cat sat here", ["a dog", "the cat sat here"]), Sentence("it is cold", ["it is cold"])]
_WRONG = [Sentence("xyz yzx zyx yxzx", ["a dog", "the cat sat here"]), Sentence("zy xz zyxx", ["it is cold"])]


@dataclass(frozen=True)
class Result:
    """The scores of one metric for a subset of the sentences of a validation, or their mean.

    Attributes:
        scores: the scores by the last part of their logged names: ``""`` for the score itself, ``"rouge1_fmeasure"``
            and so on for a metric with several scores.
        parts: the components of the score, such as precisions. A mean has none.
        report: the score as an object that prints: a :class:`lightning_bleu.BLEUScore`, a
            :class:`lightning_bleu.CHRFScore`, or, for a function, a ``MeanScore``; None for a mean, and for
            metrics of other packages.
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


class AnyMetric:
    """A metric of a callback: what all kinds of metrics have in common.

    Attributes:
        name: its name, for error messages.
        columns: the number of statistics of a sentence that are counted batch by batch.
        reading: how the metric reads ids.
        needs_texts: whether the texts of all sentences must be kept.
        takes_sources: whether the metric takes sources.
        score_names: the last parts of the logged names of its scores; ``""`` for a single score.
        higher_is_better: whether a higher score is better; None if that is unknown.
        scale: the score of a perfect translation; None if that is unknown.
    """

    name: str
    columns = 0
    reading = Settings()
    needs_texts = True
    takes_sources = False
    score_names: tuple[str, ...] = ("",)
    higher_is_better: bool | None = True
    scale: float | None = None

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        if not isinstance(batch.segments, Strings):
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

    def score(self, subsets: Sequence[Sentences]) -> Sequence[Scored | None]:
        """Score the sentences of all processes, for each subset; None for nothing to log. Collective."""
        raise NotImplementedError


class Counted(AnyMetric):
    """A metric of this package. Its statistics are counted batch by batch.

    Args:
        name: its name, for error messages.
        metric: the metric. Only its settings matter: its state is not used.
    """

    needs_texts = False

    def __init__(self, name: str, metric: CorpusMetric) -> None:
        self.name = name
        self.metric = metric
        self.reading = metric.settings.for_reading
        self.columns, self.scale = metric.columns, metric.settings.scale

    def check(self, batch: Batch, sources: Any) -> None:
        """Do nothing: :meth:`count_rows` raises errors."""

    def count_rows(self, batch: Batch) -> IntArray:
        """Count the statistics of each sentence, of shape ``(sentences, columns)``."""
        return self.metric.count_rows(batch)

    def suspect(self, batch: Batch) -> Iterator[Mistake]:
        """Warn about likely mistakes in a batch."""
        return suspect_script(batch.segments, batch.sentence_count, self.metric.settings)

    def score(self, subsets: Sequence[Sentences]) -> list[Scored]:
        """Score the sentences of all processes, for each subset."""
        return [self._score(sentences) for sentences in subsets]

    def _score(self, sentences: Sentences) -> Scored:
        statistics = sentences.statistics(self.name)
        report = self.metric.report_of(statistics.sum(0), sentences.kept.input_counts)
        corpus = Corpus(sentences.kept.identity, statistics, self.metric.scoring, self.metric.settings.plain())
        return Scored(Result({"": report.score}, report.parts(), report), corpus)


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

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        counts = batch.reference_counts
        if self._takes_one and (counts > 1).any():
            raise ValueError(
                f"the metric {self.name!r} takes a single reference, but a sentence has {counts.max()}: pass a "
                "function that chooses one, such as lambda hypotheses, references: [...]"
            )

    def score(self, subsets: Sequence[Sentences]) -> list[Scored]:
        """Score the sentences of all processes, for each subset. Collective."""
        texts = [sentences.texts for sentences in subsets]
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


class OfSentences(AnyMetric):
    """A function that gives each sentence a number. The score is the mean.

    Each process calls it once, with its own sentences of all subsets.

    Args:
        name: its name, for error messages.
        function: takes hypotheses, references, and perhaps sources.

    Raises:
        TypeError: if its attribute ``higher_is_better`` is not a boolean.
    """

    higher_is_better: bool

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

    @property
    def scoring(self) -> Scoring:
        """How the rows of sentences, each a number and a 1, become their mean."""
        return Scoring(
            self.name, lambda rows: rows[..., 0] / rows[..., 1], None, lambda rows: rows[:, 0], self.higher_is_better
        )

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        if sources is None and self._needs_sources:
            raise ValueError(
                f"the metric {self.name!r} takes sources: give 'source' beside 'preds' and 'target', or remove its "
                "third parameter"
            )

    def score(self, subsets: Sequence[Sentences]) -> list[Scored | None]:
        """Score the sentences of all processes, for each subset; None if the function returned None. Collective."""
        own = [sentence for sentences in subsets for sentence in sentences.own()]
        everyone = run_in_all(lambda: call_function(self.name, self.function, own) if own else torch.zeros(0))
        returned = [values for values in everyone if values is not None]
        if len(returned) < len(everyone):
            if any(map(len, returned)):
                raise ValueError(
                    f"the metric {self.name!r} returned None in some processes only: return numbers in all, or in none"
                )
            return [None for _ in subsets]
        rows = [torch.ones(len(one.kept.rows), 2, dtype=torch.float64, device="cpu") for one in subsets]
        for process, values in enumerate(returned):
            places = [sentences.owned_by(process) for sentences in subsets]
            for one, numbers, part in zip(rows, places, torch.split(values.double(), [*map(len, places)])):
                one[numbers, 0] = part
        return [self._score(sentences, one) for sentences, one in zip(subsets, rows)]

    def _score(self, sentences: Sentences, rows: Tensor) -> Scored:
        corpus = Corpus(sentences.kept.identity, rows, self.scoring, {"higher_is_better": self.higher_is_better})
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
            + (": make an instance of it" if is_class else ": pass metrics by name, such as {'bleu': CorpusBLEU()}")
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
    """The means of the scores that all subsets have.

    Example:
        >>> mean_of([Result({"": 0.25}, parts={"precision": 0.5}), Result({"": 0.75})])
        Result(scores={'': 0.5}, parts={}, report=None, interval=None, comparison=None, best=None)
    """
    shared = [part for part in results[0].scores if all(part in one.scores for one in results)]
    return Result({part: math.fsum(one.scores[part] for one in results) / len(results) for part in shared})


def find_third(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter | None, bool]:
    """The parameter that takes a third argument, if a function has one, and whether it takes it by position.

    That is a third parameter without a default, or a parameter of this name.

    Example:
        >>> find_third(lambda outputs, batch, index: 0, "dataloader_idx")
        (<Parameter "index">, True)
        >>> find_third(lambda outputs, batch, tokenizer=None: 0, "dataloader_idx")
        (None, False)
    """
    try:
        parameters = inspect.signature(function.forward if isinstance(function, nn.Module) else function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return None, False
    named, empty = parameters.get(name), inspect.Parameter.empty
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is empty or positional[2] is named):
        return positional[2], True
    # A keyword with a default may be the work of functools.partial.
    return (named if named is not None and (named in positional or named.default is empty) else None), False


def call_with_third(function: Callable[..., Any], name: str, first: Any, second: Any, third: Any) -> Any:
    """Call a function with two arguments, and with a third one if there is one and it takes that.

    See :func:`find_third`.

    Example:
        >>> call_with_third(lambda outputs, batch, dataloader_idx: dataloader_idx, "dataloader_idx", [], [], 7)
        7
    """
    parameter, by_position = find_third(function, name)
    if third is None or parameter is None:
        return function(first, second)
    return function(first, second, third) if by_position else function(first, second, **{parameter.name: third})


def call_function(name: str, function: Callable[..., Any], sentences: Sequence[Sentence]) -> Tensor | None:
    """The numbers that a function gives to sentences.

    Args:
        name: the name of the metric, for error messages.
        function: takes hypotheses, references, and perhaps sources.
        sentences: the sentences.

    Returns:
        float64 of shape ``(sentences,)`` on the CPU; None if the function returned None.

    Raises:
        TypeError: if the function does not return numbers.
        ValueError: if it does not return one finite number per sentence.
        RuntimeError: if it fails.
    """
    hypotheses, references = [one.hypothesis for one in sentences], [[*one.references] for one in sentences]
    sources = [one.source for one in sentences]
    try:
        with untouched():
            value = call_with_third(function, "sources", hypotheses, references, None if None in sources else sources)
    except Exception as error:
        raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    needs = f"the metric {name!r} must return one number per sentence"
    try:
        array = value.copy() if isinstance(value, np.ndarray) else value  # a reversed one cannot become a tensor
        values = torch.as_tensor(array, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{needs}, got {repr(value)[:_SHOWN]}") from None
    if values.shape != (len(sentences),):
        hint = "" if values.ndim else ": do not average them"
        raise ValueError(f"{needs}, got the shape {tuple(values.shape)} for {len(sentences)} sentences{hint}")
    for number in (~values.isfinite()).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"the metric {name!r} returned {values[number].item()} for the hypothesis "
            f"{hypotheses[number][:_SHOWN]!r}: return a finite number for each sentence, or None to log nothing"
        )
    return values


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Leave gradients, random generators, and the default type as they were, outside of inference mode."""
    states, dtype = (random.getstate(), np.random.get_state()), torch.get_default_dtype()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_default_dtype(dtype)
