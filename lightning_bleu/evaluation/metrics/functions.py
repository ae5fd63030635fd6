"""Functions as metrics: what an evaluator must know about them, how they are called, and what they may return."""

from __future__ import annotations

import contextlib
import math
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.exceptions import ComplexWarning
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts, Sentence, Sources
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.forms import IntArray, kind_of
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.scoring import Component, EvaluatorMetric, RatioScorer, Report, format_in_unit, format_score
from lightning_bleu.core.settings import check_bool, describe
from lightning_bleu.evaluation.metrics.callables import call_with_third, find_keys, find_third, name_function
from lightning_bleu.evaluation.names import Name, check_names

_TEXT = "return strings (join tokens with spaces), or decode ids with the option decoder=tokenizer"
"""What to do about a metric that needs text."""
_MAX_SHOWN = 200
"""The number of characters of a value that error messages show."""


SKIPPED = "skipped"
"""The last of the numbers of a sentence, for a metric that skips some: whether it is one of them."""


class FunctionMetric(EvaluatorMetric):
    """A function as a metric of an :class:`Evaluator`, with the direction and the scale of its scores.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> def find_empty(hypotheses, references):
        ...     return [line == "" for line in hypotheses]
        >>> empty = FunctionMetric(find_empty, higher_is_better=False, percent=True, perfect=0)
        >>> evaluator = Evaluator({"empty": empty})
        >>> evaluator.start()
        >>> evaluator.update(["a cat", ""], ["a cat", "a dog"])
        >>> evaluator.finish(step=0)["val_empty"].score
        50.0

    Args:
        function: takes a list of hypotheses, a list of references for each, and, with a parameter ``sources`` or a
            third one without a default, a list of sources; all strings. A parameter with the name of another key that
            the step returns, such as ``db_id``, gets a list of its values, one per sentence; without a default, the
            key is required. It returns a number per sentence (a list, an
            array, or a tensor), whose mean is the score; a pair per sentence (shape ``(sentences, 2)``), such as errors
            and words, whose sums are divided; a dict of these, for several scores; or None, for no score.
        higher_is_better: whether higher numbers are better; None if neither is, as for a length. For a function that
            returns a dict, this may be a dict by the names of its scores.
        corpus_level: call the function once in process 0, with all sentences of a loader, and again for each group. It
            may then return a single number, or a dict of them, without interval and comparison.
        percent: multiply the score by 100. The function returns shares, such as 0.25.
        perfect: the best number that a sentence can have, such as 0 for an error rate; None if there is none.

    Raises:
        TypeError: for options of the wrong type, and for a function that cannot take hypotheses and references.
    """

    column_names: Sequence[str] = ()
    """What the numbers of a sentence are, if a function returns more than pairs, such as errors, words, and insertions.
    The sum of each number behind the pair, over the sum of the second ones, is a component of the score."""
    has_counts = False
    """Whether these numbers are counts. Then the components are logged unless `parts` names others."""
    over_zero = math.inf
    """The score of a number other than 0 over 0."""
    split_units: Callable[[str], Sequence[str]] | None = None
    """Gives the units of a text that an error rate aligns, to mark them."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        higher_is_better: bool | Mapping[str, bool | None] | None = True,
        corpus_level: bool = False,
        percent: bool = False,
        perfect: float | None = None,
    ) -> None:
        if isinstance(function, type) or not callable(function):
            raise TypeError(f"'function' must be a function, got {function!r}")
        directions = higher_is_better.values() if isinstance(higher_is_better, Mapping) else [higher_is_better]
        for direction in directions:
            if direction is not None:
                check_bool("higher_is_better", direction)
        if perfect is not None and (isinstance(perfect, bool) or not isinstance(perfect, int | float)):
            raise TypeError(f"'perfect' must be a number or None, got {perfect!r}")
        self.function = function
        self.higher_is_better = higher_is_better
        self.corpus_level = check_bool("corpus_level", corpus_level)
        self.percent = check_bool("percent", percent)
        self.perfect = perfect
        self.score_names = list(higher_is_better) if isinstance(higher_is_better, Mapping) else [""]
        self.scale = True if self.percent else None
        third, _ = find_third(function, "sources")
        self.takes_sources = third is not None
        self._third = third
        self.warn_once = WarnOnce()
        self.keys, self._required_keys = find_keys(function)

    def __call__(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Any = None, **columns: Sequence[Any]
    ) -> Any:
        """Call the function, with the sources if there are any and it takes them, and with the values of other keys."""
        function = partial(self.function, **columns) if columns else self.function
        if sources is None or (self._third is not None and self._third.name in columns):
            return function(hypotheses, references)
        return call_with_third(function, "sources", hypotheses, references, sources)

    def __deepcopy__(self, memo: object) -> FunctionMetric:
        """Return self: the function may be a large model."""
        return self

    def plain_settings(self) -> dict[str, Any]:
        """What the scores depend on, as plain values."""
        return {"function": name_function(self.function)}

    def signature(self, inputs: InputCounts) -> str | None:
        """Everything that the scores of such sentences depend on, in one line; None if that is unknown."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.function)})"

    # What an evaluator asks of it

    def scorer_of(self, name: str, score_name: str) -> FunctionScorer:
        """How pairs of numbers become one of its scores.

        Raises:
            ValueError: if `higher_is_better` is a dict that lacks it.
        """
        directions = self.higher_is_better
        if not isinstance(directions, Mapping):
            directions = {"": directions}
        if score_name not in directions and "" not in directions:
            raise ValueError(f"'higher_is_better' of the metric {name!r} has {[*directions]}: add {score_name!r}")
        direction = directions.get(score_name, directions.get(""))
        settings = {"higher_is_better": direction, **self.plain_settings()}
        key = Name(name, score=score_name).key
        return FunctionScorer(key, direction, self.scale, self.perfect, settings, self.over_zero, metric=self)

    def check_fields(self, name: str, fields: Collection[str]) -> None:
        """Raise a ValueError if a batch has no sources, or lacks a key, that the function needs."""
        third = self._third
        needs_third = third is not None and third.default is third.empty
        if third is not None and needs_third and not {"source", third.name} & {*fields}:
            raise ValueError(
                f"the metric {name!r} takes sources: give a 'source', or remove its third parameter. (Or give "
                f"{third.name!r}, if that is a key of the step.)"
            )
        for key in self._required_keys:
            if key not in fields:
                raise ValueError(
                    f"the metric {name!r} takes {key!r}, and the batch has none: return it from the step, one value "
                    "per sentence, or give the parameter a default"
                )

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """Nothing yet. An error for a batch that the function cannot score."""
        check_text(name, batch)
        if sources is not None and self.takes_sources and sources.kind not in ("strings", "empty"):
            raise TypeError(f"the metric {name!r} takes sources as text, got {sources.kind}: {_TEXT}")
        return super().count_batch(name, batch, sources)

    def score_texts(self, name: str, sentences: Sequence[Sentence]) -> dict[str, Tensor] | None:
        """The pairs of numbers of sentences; see :func:`call_function`."""
        return call_function(name, self, sentences)


def check_text(name: str, batch: Batch) -> None:
    """Raise a TypeError for a batch that is not text, for a metric of this name."""
    kind = kind_of(batch.segments)
    if kind not in ("strings", "empty"):
        raise TypeError(f"the metric {name!r} needs text, got {kind}: {_TEXT}")


_REPR_NAME = 80
"""The number of characters of a name in the ``repr`` of a score."""


class FunctionScore(Report):
    """The score of a function. ``str(...)`` is one line.

    Attributes:
        score: the mean of the numbers that the function gives to sentences, or the ratio of their sums.
        name: the name of the score.
        percent: True if the score is in percent, False if it is a share; None if it has a scale of its own.
        signature: everything that the score depends on; None if that is unknown.
        sums: the sums that the score and its components are computed from, by name.
    """

    score: float
    name: str
    percent: bool | None
    signature: str | None
    sums: Mapping[str, float]

    def counts(self) -> dict[str, list[int] | int]:
        """The sums that are counts, by name."""
        return {name: value for name, value in self.sums.items() if isinstance(value, int)}

    def __str__(self) -> str:
        skipped = self.sums.get(SKIPPED)
        suffix = f" (skipped: {skipped:,} without a reference)" if skipped else ""
        return f"{self.name} = {format_score(self.score, self.percent)}{suffix}"

    def __repr__(self) -> str:
        return f"FunctionScore({format_in_unit(self.score, self.percent)}, {to_line(self.name, _REPR_NAME)})"


@dataclass(frozen=True)
class FunctionScorer(RatioScorer):
    """How the pairs of numbers of a function become a score.

    Args:
        metric: the function.
    """

    metric: FunctionMetric = field(kw_only=True)

    @property
    def columns(self) -> int:  # type: ignore[override]
        """The number of numbers of a sentence: a pair, and what explains it."""
        return max(2, len(self.metric.column_names))

    def score_sentences(self, statistics: Tensor) -> Tensor:
        """The scores of sentences; NaN for those that are skipped."""
        scores = super().score_sentences(statistics)
        if SKIPPED in self.metric.column_names:
            scores = scores.masked_fill(statistics[..., -1] > 0, math.nan)
        return scores

    def report(self, sums: Tensor, inputs: InputCounts | None) -> FunctionScore:
        """The score with its name and its signature."""
        signature = None if inputs is None else self.metric.signature(inputs)
        to_number = int if self.metric.has_counts else float
        numbers = dict(zip(self.metric.column_names, map(to_number, sums.tolist())))
        return FunctionScore(
            score=self.score(sums).item(), name=self.name, percent=self.percent, signature=signature, sums=numbers
        )

    def components(self, report: FunctionScore, *, optional: bool = True) -> list[Component]:
        """What the numbers behind the pairs say, in the unit of the score; nothing for pairs alone."""
        if not self.metric.column_names:
            return []
        sums = report.sums
        _, denominator, *names = self.metric.column_names
        components = []
        for name in filter(SKIPPED.__ne__, names):
            share = sums[name] / sums[denominator] if sums[denominator] else 0.0
            components.append(
                Component(
                    name,
                    (self.unit or 1.0) * share,
                    higher_is_better=self.higher_is_better,
                    unit=self.unit,
                    chart="parts",
                    is_default=self.metric.has_counts,
                )
            )
        return components


def call_function(name: str, metric: FunctionMetric, sentences: Sequence[Sentence]) -> dict[str, Tensor] | None:
    """The pairs of numbers that a function gives to sentences, whose sums are divided.

    Args:
        name: the name of the metric, for error messages.
        metric: the function.
        sentences: the sentences.

    Returns:
        float64 of shape ``(sentences, 2)`` on the CPU, or ``(2,)`` for a single number, by the name of the score,
        ``""`` unless the function returned a dict; None if it returned None.

    Raises:
        TypeError: if the function does not return numbers.
        ValueError: if it does not return one finite number or pair per sentence.
        RuntimeError: if it fails.
    """
    hypotheses = [sentence.hypothesis for sentence in sentences]
    references = [list(sentence.references) for sentence in sentences]
    sources = [sentence.source for sentence in sentences]
    has_sources = any(source is not None for source in sources)
    given = (sentences[0].columns or {}) if sentences else {}
    columns = {key: [(sentence.columns or {})[key] for sentence in sentences] for key in metric.keys if key in given}
    try:
        with untouched():
            value = metric(hypotheses, references, sources if has_sources else None, **columns)
    except Exception as error:
        with_sources = " and sources" if has_sources and metric.takes_sources else ""
        called = f"called with {len(hypotheses)} hypotheses, a list of references for each{with_sources}"
        raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error} ({called})") from error
    if value is None:
        return None
    if not isinstance(value, Mapping):
        rows = _read_rows(name, value, sentences, metric)
        if not rows[..., 0].any() and _expects_strings(metric, sentences):
            metric.warn_once(
                f"The metric {name!r} is 0 for all sentences, and would not be if references were strings: it gets a "
                "list of references for each hypothesis, so compare with references[0]."
            )
        return {"": rows}
    if not value:
        raise TypeError(f"the metric {name!r} must return scores by name, got {repr(value)[:_MAX_SHOWN]}")
    check_names(f"scores of {name!r}", [*value])
    return {
        score: _read_rows(Name(name, score=score).key, numbers, sentences, metric) for score, numbers in value.items()
    }


def _expects_strings(metric: FunctionMetric, sentences: Sequence[Sentence]) -> bool:
    """Whether a function that gives 0 to a right hypothesis does not do so if its reference is a string, not a list."""
    right = [sentence.hypothesis for sentence in sentences if sentence.references == [sentence.hypothesis]]
    if not right or metric.keys:
        return False
    try:
        with untouched():
            numbers = _to_numbers(metric.function(right[:1], right[:1]))
            return bool((numbers[:, 0] if numbers.ndim == 2 else numbers).any())
    except Exception:
        return False


def _read_rows(name: str, value: Any, sentences: Sequence[Sentence], metric: FunctionMetric) -> Tensor:
    """Read what a function returned as pairs of numbers, or more."""
    needs = f"the metric {name!r} must return one number or pair per sentence"
    try:
        numbers = _to_numbers(value)
    except (TypeError, ValueError, RuntimeError, OverflowError, ComplexWarning):
        raise TypeError(f"{needs}, got {repr(value)[:_MAX_SHOWN]}") from None
    count = len(sentences)
    is_number = numbers.ndim == 0
    columns = max(2, len(metric.column_names))
    shapes = [(count,), (count, 2), (count, columns)]
    if numbers.shape not in shapes and not (is_number and metric.corpus_level):
        if is_number:
            raise ValueError(
                f"{needs}, got one number: it gets lists, and must return a list, unless it is "
                "FunctionMetric(..., corpus_level=True)"
            )
        raise ValueError(f"{needs}, got the shape {tuple(numbers.shape)} for {count} sentences")
    _check_finite(name, numbers, sentences)
    rows = numbers if numbers.ndim == 2 else torch.stack([numbers, torch.ones_like(numbers)], -1)
    return torch.nn.functional.pad(rows, (0, columns - rows.shape[-1]))  # what explains a score may be left out


def _to_numbers(value: Any) -> Tensor:
    """Convert numbers to a tensor of float64 on the CPU, which is a copy.

    Raises:
        TypeError, ValueError, RuntimeError, OverflowError, ComplexWarning: for anything but real numbers.

    Example:
        >>> _to_numbers(np.array([1, 0.5, True], object))
        tensor([1.0000, 0.5000, 1.0000], dtype=torch.float64)
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError  # the mask would be ignored
    if isinstance(value, Tensor):
        is_dense = value.layout == torch.strided and not value.is_nested
        if value.is_complex() or not is_dense:
            raise TypeError
    elif hasattr(value, "__array__"):  # also a Series of pandas, which has an index of its own
        array = np.array(value)
        if array.dtype.kind in "biuf":  # a copy without negative strides, and with the byte order of the machine
            with np.errstate(over="ignore"):  # a number that is too large becomes infinite
                value = array.astype(np.float64)
        elif array.dtype.kind == "O":
            value = array.tolist()
        else:
            raise TypeError
    with warnings.catch_warnings():
        warnings.simplefilter("error", ComplexWarning)  # complex numbers of NumPy in a list
        return torch.as_tensor(value, dtype=torch.float64, device="cpu").detach().clone()


def _check_finite(name: str, numbers: Tensor, sentences: Sequence[Sentence]) -> None:
    """Raise a ValueError for the first number that is not finite."""
    for place in (~numbers.isfinite()).nonzero().tolist():
        hypothesis = f" for the hypothesis {sentences[place[0]].hypothesis[:_MAX_SHOWN]!r}" if place else ""
        returned = f"the metric {name!r} returned {numbers[(*place,)].item()}{hypothesis}"
        raise ValueError(f"{returned}: return a finite number for each sentence, or None to log nothing")


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Leave gradients, random generators, and the default type as they were, outside of inference mode."""
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    default_type = torch.get_default_dtype()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices), torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_default_dtype(default_type)
