"""The metrics that the tests of their contract run on, and what each of them should count and score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import pytest
from torch import Tensor

from lightning_bleu import CorpusBLEU, CorpusCHRF, corpus_bleu, corpus_chrf, sentence_bleu, sentence_chrf
from lightning_bleu.bleu import BLEUOptions, BLEUSettings
from lightning_bleu.chrf import CHRFOptions, CHRFSettings
from tests.helpers.chrf import Groups, peer_rows
from tests.helpers.error_rate import (
    CorpusErrorRate,
    ErrorRateOptions,
    ErrorRateSettings,
    corpus_error_rate,
    sentence_error_rate,
)
from tests.reference import statistics


@dataclass(frozen=True, eq=False, kw_only=True)
class Kind:
    """A metric, its options, its functions, and what is special about it. Scores are those without ``percent``.

    Attributes:
        metric: the class.
        settings: the class of its settings.
        options: the types of its options by name.
        score: scores a corpus.
        score_sentences: scores each sentence.
        rows: the statistics of each sentence by definition.
        higher_is_better: whether a higher score is better.
        perfect: the score of a perfect corpus, and of a perfect sentence.
        bounds: the lowest and the highest score; None where there is no bound.
        empty: the score without sentences.
        without_hypothesis: the score of a sentence whose hypothesis is empty.
        without_reference: the score of a sentence whose reference is empty.
        other_options: an option that changes the settings and the score.
        other_columns: an option with which rows have another number of columns; None if there is none.
        as_wide: makes a metric with other settings, perhaps of another class, whose rows have as many columns.
    """

    metric: Any
    settings: Any
    options: Mapping[str, str]
    score: Callable[..., Any]
    score_sentences: Callable[..., Tensor]
    rows: Callable[[list[str], Groups], list[list[int]]]
    higher_is_better: bool
    perfect: float
    bounds: tuple[float | None, float | None]
    empty: float
    without_hypothesis: float
    without_reference: float
    other_options: Mapping[str, Any]
    other_columns: Mapping[str, Any] | None
    as_wide: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name of the class."""
        return str(self.metric.__name__)

    @property
    def sign(self) -> int:
        """1 if a higher score is better, -1 if a lower one is."""
        return 1 if self.higher_is_better else -1

    def make_with_other_columns(self, **options: Any) -> Any:
        """A metric whose rows have another number of columns, of another class if no option has this effect."""
        if self.other_columns is None:
            return CorpusBLEU(**options)
        return self.metric(**self.other_columns, **options)


def _bleu_rows(preds: list[str], target: Groups) -> list[list[int]]:
    return [statistics(line.split(), [other.split() for other in group]) for line, group in zip(preds, target)]


def _error_rate_rows(preds: list[str], target: Groups) -> list[list[int]]:
    rows: list[list[int]] = []
    for line, group in zip(preds, target):
        fewest: list[int] = []
        for reference in group:
            errors = 0
            for word, other in zip_longest(line.split(), reference.split()):
                if word != other:
                    errors += 1
            if not fewest or errors < fewest[0]:
                fewest = [errors, len(reference.split())]
        rows.append(fewest)
    return rows


def _types(options: Any) -> dict[str, str]:
    return {name: annotation.__forward_arg__ for name, annotation in options.__annotations__.items()}


def bleu_components_of(max_order: int = 4) -> list[str]:
    """The components of a BLEU that are logged by default, in their order."""
    precisions = [f"precision_{n}" for n in range(1, max_order + 1)]
    return [*precisions, "brevity_penalty", "length_ratio", "hypothesis_length", "reference_length"]


def all_bleu_components_of(max_order: int = 4) -> list[str]:
    """All components of a BLEU, in their order."""
    return [*bleu_components_of(max_order), *(f"bleu_{n}" for n in range(1, max_order + 1))]


BLEU = Kind(
    metric=CorpusBLEU,
    settings=BLEUSettings,
    options=_types(BLEUOptions),
    score=corpus_bleu,
    score_sentences=sentence_bleu,
    rows=_bleu_rows,
    higher_is_better=True,
    perfect=1,
    bounds=(0, 1),
    empty=0,
    without_hypothesis=0,
    without_reference=0,
    other_options={"max_order": 2},
    other_columns={"max_order": 2},
    as_wide=partial(CorpusBLEU, smoothing="floor"),
)
CHRF = Kind(
    metric=CorpusCHRF,
    settings=CHRFSettings,
    options=_types(CHRFOptions),
    score=corpus_chrf,
    score_sentences=sentence_chrf,
    rows=peer_rows,
    higher_is_better=True,
    perfect=1,
    bounds=(0, 1),
    empty=0,
    without_hypothesis=0,
    without_reference=0,
    other_options={"word_order": 1},
    other_columns={"word_order": 1},
    as_wide=partial(CorpusBLEU, max_order=8),
)
ERROR_RATE = Kind(
    metric=CorpusErrorRate,
    settings=ErrorRateSettings,
    options=_types(ErrorRateOptions),
    score=corpus_error_rate,
    score_sentences=sentence_error_rate,
    rows=_error_rate_rows,
    higher_is_better=False,
    perfect=0,
    bounds=(0, None),
    empty=0,
    without_hypothesis=1,
    without_reference=1,
    other_options={"characters": True},
    other_columns=None,
    as_wide=partial(CorpusErrorRate, characters=True),
)
KINDS = {"bleu": BLEU, "chrf": CHRF, "error_rate": ERROR_RATE}
"""The metrics of the package, and one that is in the tests only, because it differs from them in all that it can."""

A = (["the cat sat on the mat", "hello there world ok"], [["the cat sat on a mat"], ["hello there world", "ok ok"]])
B = (["a b c d e"], [["a b c d f", "a b c"]])
BOTH = (A[0] + B[0], A[1] + B[1])
"""Two batches, and the corpus that they make."""


def gather_with(other: Any, calls: list[Any] | None = None) -> Callable[..., list[Tensor]]:
    """A ``dist_sync_fn`` of two processes, of which the second has counted what another metric has.

    Args:
        other: the other metric.
        calls: gets an item for each call.
    """
    (state,) = other.metric_state.values()

    def gather(own: Tensor, group: Any = None) -> list[Tensor]:
        if calls is not None:
            calls.append(own)
        return [own, state]

    return gather


def contents(metric: Any) -> list[Any]:
    """All that a metric has counted."""
    return [metric.statistics.tolist(), metric.input_counts]


def check_unchanged_by(
    error: Any, match: str, metric: Any, call: Callable[..., Any], *args: Any, **options: Any
) -> None:
    """Check that a call raises an error, and that it leaves the metric as it was."""
    score = metric.compute()
    before = contents(metric)
    with pytest.raises(error, match=match):
        call(*args, **options)
    assert contents(metric) == before
    assert metric.compute() == score
