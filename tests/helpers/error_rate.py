"""A metric that is not in the package: the error rate, which has no n-grams, no upper bound, and is best at 0.

It is written in the order of ``lightning_bleu/chrf.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts, Sources, to_lines
from lightning_bleu.core.corpus_metric import CorpusMetric, TorchmetricsOptions
from lightning_bleu.core.forms import Hypotheses, IntArray, References, Strings, kind_of
from lightning_bleu.core.scoring import Component, CorpusScorer, Report, count_sentences, float_type, join_signature
from lightning_bleu.core.settings import Decoder, Settings, check_bool

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Options


class ErrorRateOptions(TypedDict, total=False):
    """The options of a score, as the user passes them; see :class:`CorpusErrorRate`."""

    characters: bool
    lowercase: bool
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    ignore_ids: int | Iterable[int] | None
    decoder: Decoder | None
    percent: bool


@dataclass(frozen=True, kw_only=True)
class ErrorRateSettings(Settings):
    """The options of the error rate, checked. Create settings with :meth:`from_options`."""

    characters: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_checked(characters=check_bool("characters", self.characters))


# Rows: the statistics of every sentence


def error_rate_rows(batch: Batch, settings: ErrorRateSettings) -> IntArray:
    """The errors of every sentence, and the length of its reference, shape ``(sentences, 2)``.

    Of several references, the one with the fewest errors counts, the first one on a tie.
    """
    if settings.characters and batch.sentence_count and not isinstance(batch.segments, Strings):
        raise TypeError(f"characters=True compares text, but 'preds' and 'target' are {kind_of(batch.segments)}")
    lines = to_lines(batch.segments)
    if settings.lowercase:
        lines = [line.lower() for line in lines]
    segments = [list(line) if settings.characters else line.split() for line in lines]
    references = iter(segments[batch.sentence_count :])
    rows = np.empty((batch.sentence_count, 2), np.int64)
    for number, count in enumerate(batch.reference_counts.tolist()):
        pairs = [(_count_errors(segments[number], other), len(other)) for other in islice(references, count)]
        rows[number] = min(pairs, key=lambda pair: pair[0])
    return rows


def _count_errors(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """The positions at which two segments differ, and the difference of their lengths."""
    wrong = sum(item != other for item, other in zip(hypothesis, reference))
    return wrong + abs(len(hypothesis) - len(reference))


# Statistics → score


def error_rate(statistics: Tensor, settings: ErrorRateSettings) -> Tensor:
    """The error rates of corpora or sentences, ``(..., 2)`` → ``(...)``. Of an empty reference, any errors are 1."""
    errors, lengths = statistics.to(float_type(statistics.device)).unbind(-1)
    return (100 if settings.percent else 1) * (errors / lengths).where(lengths > 0, errors.clamp(max=1))


class ErrorRateScorer(CorpusScorer):
    """All of the error rate but the state: how sentences are counted, and how their rows become a score."""

    settings: ErrorRateSettings
    settings_class = ErrorRateSettings
    class_name = "CorpusErrorRate"
    higher_is_better = False
    perfect = 0.0
    bounds = (0.0, None)

    def __init__(self, settings: ErrorRateSettings) -> None:
        sensitive_to = ("case", "punctuation", "subwords")
        super().__init__(settings, name="error rate", columns=2, sensitive_to=sensitive_to)

    def count_batch(self, name: str, batch: Batch, sources: Sources | None = None) -> IntArray:
        """The statistics of each sentence, shape ``(sentences, 2)``."""
        return error_rate_rows(batch, self.settings)

    def score(self, statistics: Tensor) -> Tensor:
        """The error rates of rows or of sums of rows."""
        return error_rate(statistics, self.settings)

    def report(self, sums: Tensor, inputs: InputCounts | None = None) -> ErrorRateScore:
        """The score with everything that it is computed from."""
        errors, reference_length = sums.tolist()
        return ErrorRateScore(
            score=self.score(sums.cpu()).item(),
            errors=errors,
            reference_length=reference_length,
            signature=error_rate_signature(self.settings, inputs or InputCounts()),
            percent=self.settings.percent,
        )

    def components(self, report: ErrorRateScore, *, optional: bool = True) -> list[Component]:
        """The number of errors, and the length of the references."""
        return [
            Component("errors", float(report.errors), higher_is_better=False),
            Component("reference_length", float(report.reference_length)),
        ]


class ErrorRateScore(Report):
    """The error rate of a corpus, a float, with its components."""

    score: float
    errors: int
    reference_length: int
    signature: str
    percent: bool

    def __str__(self) -> str:
        return f"error rate = {(1 if self.percent else 100) * self.score:.2f}"


# Signature


def error_rate_signature(settings: ErrorRateSettings, inputs: InputCounts) -> str:
    """Name everything that an error rate depends on, in one line."""
    return join_signature(
        {
            "nrefs": inputs.reference_count,
            "case": "lc" if settings.lowercase else "mixed",
            "of": "characters" if settings.characters else "words",
        }
    )


# The metric, and functions without state


class CorpusErrorRate(CorpusMetric):
    """The error rate of all sentences since the last reset: wrong words at their positions, per word of the references.

    Example:
        >>> metric = CorpusErrorRate()
        >>> metric.update(["the cat is on a mat", "it was"], ["the cat is on the mat", "it is"])
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    short_name = "error_rate"
    scorer: ErrorRateScorer
    settings: ErrorRateSettings

    def __init__(
        self,
        characters: bool = False,
        *,
        lowercase: bool = False,
        pad_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        ignore_ids: int | Iterable[int] | None = (-100,),
        decoder: Decoder | None = None,
        percent: bool = False,
        **kwargs: Unpack[TorchmetricsOptions],
    ) -> None:
        options = {name: value for name, value in locals().items() if name in ErrorRateOptions.__annotations__}
        settings = ErrorRateSettings.from_options(**cast(ErrorRateOptions, options))
        super().__init__(ErrorRateScorer(settings), options, **kwargs)

    def report(self) -> ErrorRateScore:
        """The score and its components as plain numbers, synced like :meth:`compute`."""
        return self.scorer.report(*self._read_report())


def corpus_error_rate(preds: Hypotheses, target: References, **options: Unpack[ErrorRateOptions]) -> ErrorRateScore:
    """Find the error rate of a corpus; see :class:`CorpusErrorRate`."""
    scorer = ErrorRateScorer(ErrorRateSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.report(rows.sum(0), batch.input_counts)


def sentence_error_rate(preds: Hypotheses, target: References, **options: Unpack[ErrorRateOptions]) -> Tensor:
    """Find the error rate of each sentence; see :class:`CorpusErrorRate`."""
    scorer = ErrorRateScorer(ErrorRateSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.score(rows).to(batch.device, float_type(batch.device))
