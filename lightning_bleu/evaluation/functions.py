"""Functions as metrics: what an evaluator must know about them, how they are called, and what they may return."""

from __future__ import annotations

import contextlib
import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.exceptions import ComplexWarning
from torch import Tensor, nn

from lightning_bleu.evaluation.metrics import EvaluatorMetric, ScoreOfSubset
from lightning_bleu.evaluation.names import check_names, score_key
from lightning_bleu.evaluation.sentences import (
    GatheredSentences,
    JoinedSentences,
    Sentence,
    SentenceRows,
    SubsetSentences,
)
from lightning_bleu.processes import run_in_all, run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import InputCounts
from lightning_bleu.rendering.clean import to_line
from lightning_bleu.scoring.scoring import Report, format_in_unit, format_score, ratio_scoring
from lightning_bleu.settings.settings import check_bool, describe

_MAX_SHOWN = 200
"""The number of characters of a value that error messages show."""
_OPTIONS = ("higher_is_better", "corpus_level")
"""Options of a :class:`FunctionMetric` that were attributes of functions in earlier versions."""


class FunctionMetric:
    """A function as a metric of an :class:`Evaluator`, with what the evaluator must know about it.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> def wrong_words(hypotheses, references):
        ...     pairs = [(line.split(), options[0].split()) for line, options in zip(hypotheses, references)]
        ...     return [(sum(a != b for a, b in zip(line, right)), len(right)) for line, right in pairs]
        >>> wrong = FunctionMetric(wrong_words, higher_is_better=False, percent=True, perfect=0)
        >>> evaluator = Evaluator({"wrong": wrong})
        >>> evaluator.start()
        >>> evaluator.update(["a b c", "a"], ["a b x", "a"])
        >>> evaluator.finish(step=0)["val_wrong"].score
        25.0

    Args:
        function: takes a list of hypotheses, a list of references for each, and, with a parameter ``sources`` or a
            third one without a default, a list of sources. See :class:`Evaluator` for what it may return.
        higher_is_better: whether higher numbers are better; None if neither is, as for a length. Such a score has no
            best validation and no worst sentences. For a function that returns a dict, this may be a dict by the names
            of its scores.
        corpus_level: call the function once per loader or group, in process 0, with all sentences in order. Then it may
            also return a single number, or a dict of them, without intervals and comparisons. Otherwise, each process
            calls it once per validation, with its own sentences.
        percent: multiply the score by 100. The function returns shares, such as 0.25.
        perfect: the best number that a sentence can have, such as 0 for an error rate; None if there is none.

    Raises:
        TypeError: for options of the wrong type, and for a function that cannot be called with hypotheses and
            references.

    Notes:
        A function for which higher numbers are better needs no FunctionMetric. Subclass it for a metric with options of
        its own.
    """

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
        third, self._sources_by_position = find_third(function, "sources")
        self._sources = None if third is None else third.name
        self._needs_sources = third is not None and third.default is third.empty
        self._check_signature()

    def _check_signature(self) -> None:
        signature = _signature_of(self.function)
        if signature is None:
            inner = self.function.func if isinstance(self.function, partial) else None
            if inner is not None and _signature_of(inner) is not None:
                raise TypeError(f"{describe(inner)}{_signature_of(inner)} cannot be called as {self.function!r}")
            return
        arguments: list[Any] = ["hypotheses", "references"]
        if self._needs_sources and self._sources_by_position:
            arguments.append("sources")
        named = {str(self._sources): "sources"} if self._needs_sources and not self._sources_by_position else {}
        try:
            signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(
                f"{describe(self.function)}{signature} cannot be called with hypotheses and references: {error}"
            ) from None

    def __call__(self, hypotheses: Sequence[str], references: Sequence[Any], sources: Any = None) -> Any:
        """Call the function, with the sources if there are any and it takes them."""
        if sources is None or self._sources is None:
            return self.function(hypotheses, references)
        if self._sources_by_position:
            return self.function(hypotheses, references, sources)
        return self.function(hypotheses, references, **{self._sources: sources})

    def __deepcopy__(self, memo: object) -> FunctionMetric:
        """Return self: the function may be a large model."""
        return self

    def scores_like(self, other: FunctionMetric) -> bool:
        """Whether another metric gives the same scores to the same sentences."""
        return vars(self) == vars(other)

    @property
    def scale(self) -> bool | None:
        """Whether scores are in 0..100 rather than in 0..1; None if they have a scale of their own."""
        return True if self.percent else None

    @property
    def settings(self) -> dict[str, Any]:
        """What the scores depend on, as plain values."""
        return {"function": name_function(self.function)}

    def signature(self, inputs: InputCounts) -> str | None:
        """Everything that the scores of such sentences depend on, in one line; None if that is unknown."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.function)})"

    @property
    def takes_sources(self) -> bool:
        """Whether the function takes sources."""
        return self._sources is not None

    @property
    def needs_sources(self) -> bool:
        """Whether the function cannot be called without sources."""
        return self._needs_sources


def to_function_metric(name: str, function: Callable[..., Any]) -> FunctionMetric:
    """A bare function as a metric.

    Raises:
        TypeError: if it has attributes that are options of :class:`FunctionMetric`.
    """
    if isinstance(function, FunctionMetric):
        return function
    for option in _OPTIONS:
        value = _attribute_of(function, option)
        if value is not None:
            raise TypeError(
                f"{name!r} has the attribute {option}={value!r}, which is ignored: pass "
                f"FunctionMetric({describe(function)}, {option}={value!r})"
            )
    return FunctionMetric(function)


def _attribute_of(function: Any, attribute: str) -> Any:
    """An attribute of a function, also below :class:`functools.partial` and :func:`functools.wraps`."""
    while function is not None:
        value = getattr(function, attribute, None)
        if value is not None:
            return value
        function = function.func if isinstance(function, partial) else getattr(function, "__wrapped__", None)
    return None


def find_third(function: Callable[..., Any], name: str) -> tuple[inspect.Parameter | None, bool]:
    """The parameter that takes a third argument, if a function has one, and whether it takes it by position.

    That is a third parameter without a default, or a parameter of this name that no :class:`functools.partial` has set.

    Example:
        >>> find_third(lambda outputs, batch, index: 0, "dataloader_idx")
        (<Parameter "index">, True)
        >>> find_third(lambda outputs, batch, tokenizer=None: 0, "dataloader_idx")
        (None, False)
        >>> find_third(partial(lambda outputs, batch, *, index=0: 0, index=1), "index")
        (None, False)
    """
    signature = _signature_of(function)
    if signature is None:
        return None, False
    callee = _callee_of(function)
    is_set = isinstance(callee, partial) and name in callee.keywords
    named = None if is_set else signature.parameters.get(name)
    positional = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    if len(positional) > 2:
        third = positional[2]
        if third.default is third.empty or third is named:
            return third, True
    return named, False


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable; None for builtins that have none."""
    try:
        return inspect.signature(_callee_of(function))
    except (TypeError, ValueError):
        return None


def _callee_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of a callable: of a module ``forward``, also if it is compiled or in a partial."""
    if isinstance(function, partial):
        return partial(_callee_of(function.func), *function.args, **function.keywords)
    if isinstance(function, nn.Module):
        return _callee_of(getattr(function, "_orig_mod", function.forward))  # of torch.compile
    return function


def call_with_third(function: Callable[..., Any], name: str, first: Any, second: Any, third: Any) -> Any:
    """Call a function with two arguments, and with a third one if it takes that; see :func:`find_third`.

    Example:
        >>> call_with_third(lambda outputs, batch, dataloader_idx: dataloader_idx, "dataloader_idx", [], [], 7)
        7
    """
    parameter, by_position = find_third(function, name)
    if parameter is None:
        return function(first, second)
    if by_position:
        return function(first, second, third)
    return function(first, second, **{parameter.name: third})


class ScoredByFunction(EvaluatorMetric):
    """A function that gives each sentence a number, or a pair of numbers. The score is a ratio of sums.

    A number ``x`` is the pair ``(x, 1)``, so the score is the mean.

    Args:
        name: its name.
        function: the function, or a :class:`FunctionMetric`.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        metric = to_function_metric(name, function)
        self.name = name
        self.passed = function
        self.class_name = type(metric).__name__
        self.metric = metric
        self.takes_sources = metric.takes_sources
        self.scores_sentences = not metric.corpus_level
        self.percent = metric.scale
        directions = metric.higher_is_better
        self.directions = dict(directions) if isinstance(directions, Mapping) else {"": directions}

    def __deepcopy__(self, memo: object) -> ScoredByFunction:
        return self

    def scores_like(self, other: EvaluatorMetric) -> bool:
        """Whether another metric of the same name gives the same scores to the same sentences."""
        return isinstance(other, ScoredByFunction) and self.metric.scores_like(other.metric)

    def check(self, batch: Batch, sources: Any) -> None:
        """Raise an error for a batch that the metric cannot score."""
        super().check(batch, sources)
        if sources is None and self.metric.needs_sources:
            raise ValueError(
                f"the metric {self.name!r} takes sources: give 'source' beside 'preds' and 'target', or remove its "
                "third parameter"
            )

    def score(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, ScoreOfSubset]]:
        """Score the sentences of all processes, for each subset. Collective."""
        rows_of_subsets = self._score_corpora(subsets) if self.metric.corpus_level else self._score_sentences(subsets)
        scores = []
        for sentences, rows_by_score in zip(subsets, rows_of_subsets):
            of_subset = {score: self._to_score(sentences, score, rows) for score, rows in rows_by_score.items()}
            scores.append({score: value for score, value in of_subset.items() if value is not None})
        return scores

    def _score_corpora(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, Tensor]]:
        """Call the function in process 0, with all sentences of each subset."""
        texts = [sentences.texts for sentences in subsets]
        return run_in_process_0(lambda: [call_function(self.name, self.metric, lines) or {} for lines in texts])

    def _score_sentences(self, subsets: Sequence[SubsetSentences]) -> list[dict[str, Tensor]]:
        """Call the function in each process, once for its own sentences of all subsets."""
        gathered = [sentences for sentences in subsets if isinstance(sentences, GatheredSentences)]
        local = [sentence for sentences in gathered for sentence in sentences.local()]
        answers = run_in_all(lambda: call_function(self.name, self.metric, local) if local else {})
        names = {tuple(sorted(answer)) for answer in answers if answer}
        some_are_none = any(answer is None for answer in answers)
        if len(names) > 1 or (names and some_are_none):
            raise ValueError(
                f"the metric {self.name!r} returned None in some processes only, or scores with different names: "
                "return the same scores in all, or None in all"
            )
        rows_by_sentences = dict(zip(gathered, assemble_rows(gathered, answers)))
        rows_of_subsets = []
        for sentences in subsets:
            if isinstance(sentences, JoinedSentences):
                rows_of_subsets.append(_join([rows_by_sentences[member] for member in sentences.members]))
            else:
                rows_of_subsets.append(rows_by_sentences[sentences])
        return rows_of_subsets

    def _to_score(self, sentences: SubsetSentences, score: str, rows: Tensor) -> ScoreOfSubset | None:
        """One score of a subset, from a row per sentence, or from a single row; None for 0/0."""
        if score not in self.directions and "" not in self.directions:
            raise ValueError(f"'higher_is_better' of the metric {self.name!r} has {[*self.directions]}: add {score!r}")
        direction = self.direction_of(score)
        sums = rows.reshape(-1, 2).sum(0)
        if not sums.any():
            return None
        scoring = ratio_scoring(score_key(self.name, score), direction, self.percent, self.metric.perfect)
        value: float = scoring.score(sums).item()
        if rows.ndim < 2 or not math.isfinite(value):  # of the corpus, or a ratio that no test can use
            return value
        settings = {"higher_is_better": direction, **self.metric.settings}
        return SentenceRows(sentences.identity, rows, scoring, settings)

    def report_of(self, score: str, of_subset: ScoreOfSubset) -> FunctionScore:
        """The score with its name and its signature."""
        value = float(super().report_of(score, of_subset))
        signature = None
        if isinstance(of_subset, SentenceRows):
            signature = self.metric.signature(of_subset.input_counts)
        name = score_key(self.name, score)
        return FunctionScore(score=value, name=name, percent=self.percent, signature=signature)


def name_function(function: Callable[..., Any]) -> str:
    """What tells a function from another one under the same name; empty for one without a name of its own.

    Example:
        >>> name_function(name_function), name_function(lambda hypotheses, references: []), name_function(partial(max))
        ('name_function', '', '')
    """
    if isinstance(function, partial):
        return ""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    return "" if "<" in name else name  # <lambda>, and <locals> of another function


def _join(several: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The rows of several subsets by score, one subset after another."""
    return {score: torch.cat([rows[score] for rows in several]) for score in several[0]}


def assemble_rows(
    subsets: Sequence[GatheredSentences], answers: Sequence[Mapping[str, Tensor] | None]
) -> list[dict[str, Tensor]]:
    """The rows of each subset by score, from what each process returned for its own sentences of all subsets.

    Args:
        subsets: the sentences of the subsets.
        answers: for each process, the rows of its sentences, subset after subset; empty or None for nothing.
    """
    sizes = [len(sentences) for sentences in subsets]
    starts = [0, *accumulate(sizes)]
    places = []
    for process in range(len(answers)):
        for start, sentences in zip(starts, subsets):
            places.append(start + sentences.owned_by(process))
    order = torch.cat(places).argsort()  # all sentences, subset after subset
    answers_given = [answer for answer in answers if answer]
    assembled: list[dict[str, Tensor]] = [{} for _ in subsets]
    for score in answers_given[0] if answers_given else ():
        rows = torch.cat([answer[score] for answer in answers_given])[order]
        for rows_by_score, share in zip(assembled, rows.split_with_sizes(sizes)):
            rows_by_score[score] = share
    return assembled


_REPR_NAME = 80
"""The number of characters of a name in the ``repr`` of a score."""


class FunctionScore(Report):
    """The score of a function. ``str(...)`` is one line.

    Attributes:
        score: the mean of the numbers that the function gives to sentences, or the ratio of their sums.
        name: the name of the score.
        percent: True if the score is in percent, False if it is a share; None if it has a scale of its own.
        signature: everything that the score depends on; None if that is unknown.
    """

    score: float
    name: str
    percent: bool | None
    signature: str | None

    def __str__(self) -> str:
        return f"{self.name} = {format_score(self.score, self.percent)}"

    def __repr__(self) -> str:
        return f"FunctionScore({format_in_unit(self.score, self.percent)}, {to_line(self.name, _REPR_NAME)})"


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
    try:
        with untouched():
            value = metric(hypotheses, references, sources if has_sources else None)
    except Exception as error:
        raise RuntimeError(f"the metric {name!r} failed: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return {"": _read_rows(name, value, sentences, metric.corpus_level)}
    if not value:
        raise TypeError(f"the metric {name!r} must return scores by name, got {repr(value)[:_MAX_SHOWN]}")
    check_names(f"scores of {name!r}", [*value], reserved=[""])
    return {
        score: _read_rows(score_key(name, score), numbers, sentences, metric.corpus_level)
        for score, numbers in value.items()
    }


def _read_rows(name: str, value: Any, sentences: Sequence[Sentence], corpus_level: bool) -> Tensor:
    """Read what a function returned as pairs of numbers."""
    needs = f"the metric {name!r} must return one number or pair per sentence"
    try:
        numbers = _to_numbers(value)
    except (TypeError, ValueError, RuntimeError, OverflowError, ComplexWarning):
        raise TypeError(f"{needs}, got {repr(value)[:_MAX_SHOWN]}") from None
    count = len(sentences)
    is_number = numbers.ndim == 0
    if numbers.shape not in ((count,), (count, 2)) and not (is_number and corpus_level):
        if is_number:
            raise ValueError(
                f"{needs}, got one number: return pairs such as (errors, words), whose sums are divided, or pass "
                "FunctionMetric(..., corpus_level=True)"
            )
        raise ValueError(f"{needs}, got the shape {tuple(numbers.shape)} for {count} sentences")
    _check_finite(name, numbers, sentences)
    return numbers if numbers.ndim == 2 else torch.stack([numbers, torch.ones_like(numbers)], -1)


def _to_numbers(value: Any) -> Tensor:
    """Convert numbers to a tensor of float64 on the CPU, which is a copy.

    Raises:
        TypeError, ValueError, RuntimeError, OverflowError, ComplexWarning: for anything but real numbers.

    Example:
        >>> _to_numbers(np.array([1, 0.5, True], object))
        tensor([1.0000, 0.5000, 1.0000], dtype=torch.float64)
    """
    is_masked = isinstance(value, np.ma.MaskedArray)
    if is_masked:
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
        raise ValueError(
            f"the metric {name!r} returned {numbers[(*place,)].item()}{hypothesis}: return a finite number for each "
            "sentence, or None to log nothing"
        )


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
