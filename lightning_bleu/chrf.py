"""chrF, from its options to its functions: the F-score of matching n-grams of characters and words.

The template for another metric: options, rows, scorer, report, components, signature, functions. The torchmetrics class
is in ``metrics.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts, Sources, to_lines
from lightning_bleu.core.forms import Hypotheses, IntArray, Ragged, References, kind_of, lengths_of, ranges
from lightning_bleu.core.ngrams import count_matches
from lightning_bleu.core.scoring import (
    Component,
    CorpusScorer,
    Report,
    count_sentences,
    float_type,
    format_in_unit,
    join_signature,
)
from lightning_bleu.core.settings import Decoder, Settings, check_bool, check_integer, check_number
from lightning_bleu.core.tokens import chrf_word_ids

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Options


class CHRFOptions(TypedDict, total=False):
    """The options of a score, as the user passes them; see :class:`lightning_bleu.CorpusCHRF`."""

    char_order: int
    word_order: int
    beta: float
    lowercase: bool
    whitespace: bool
    eps_smoothing: bool
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    ignore_ids: int | Iterable[int] | None
    decoder: Decoder | None
    percent: bool


@dataclass(frozen=True, kw_only=True)
class CHRFSettings(Settings):
    """The options of chrF, checked. Create settings with :meth:`from_options`.

    Attributes:
        char_order: the longest n-gram of characters.
        word_order: the longest n-gram of words.
        beta: how much more recall weighs than precision.
        whitespace: whether whitespace counts as characters.
        eps_smoothing: whether orders without n-grams count, with a tiny precision and recall, and the F-score is the
            mean of the F-scores of all orders.
    """

    char_order: int = 6
    word_order: int = 0
    beta: float = 2
    whitespace: bool = False
    eps_smoothing: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_checked(
            char_order=check_integer("char_order", self.char_order, at_least=0),
            word_order=check_integer("word_order", self.word_order, at_least=0),
            beta=check_number("beta", self.beta),
            whitespace=check_bool("whitespace", self.whitespace),
            eps_smoothing=check_bool("eps_smoothing", self.eps_smoothing),
        )
        if not self.orders:
            raise ValueError("'char_order' or 'word_order' must be 1 or more, got 0 for both")

    @property
    def orders(self) -> int:
        """The number of orders, of characters and of words."""
        return self.char_order + self.word_order

    @property
    def name(self) -> str:
        """The name of the score: ``"chrF2"``, or ``"chrF2++"`` with words and their bigrams.

        Example:
            >>> CHRFSettings.from_options(word_order=2, beta=3).name
            'chrF3++'
        """
        return f"chrF{self.beta:g}" + "+" * self.word_order


# Rows: the statistics of every sentence


def chrf_rows(batch: Batch, settings: CHRFSettings) -> IntArray:
    """The statistics of every sentence. Of several references, the one with the highest score counts.

    Args:
        batch: the sentences, as text.
        settings: what to count, and how to score.

    Returns:
        shape ``(sentences, 3 * orders)``; see :func:`count_chrf_rows`.
    """
    rows = count_chrf_rows(batch, settings)  # of each reference
    if len(rows) == batch.sentence_count:
        return rows
    scores = f_score(torch.from_numpy(rows), settings).numpy()
    return rows[_first_best(scores, batch.reference_counts)]


def _first_best(scores: npt.NDArray[Any], counts: IntArray) -> IntArray:
    """The index of the best reference of each sentence, the first one on a tie.

    Example:
        >>> _first_best(np.array([0.1, 0.3, 0.3, 0.2]), np.array([3, 1])).tolist()
        [1, 3]
    """
    starts = counts.cumsum() - counts
    best = np.maximum.reduceat(scores, starts).repeat(counts)
    indices = np.where(scores == best, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(indices, starts)


def count_chrf_rows(batch: Batch, settings: CHRFSettings) -> IntArray:
    """Count the n-grams of every hypothesis and each of its references.

    Args:
        batch: the sentences, as text; see :func:`lightning_bleu.core.batch.read_batch`.
        settings: what to count.

    Returns:
        shape ``(references, 3 * orders)``: for each order of characters, then of words, the n-grams of the hypothesis
        (0 if the reference has none), the n-grams of the reference, and the n-grams that match.

    Raises:
        TypeError: for tokens, and for ids that are not decoded.

    Example:
        >>> from lightning_bleu.core.batch import read_batch
        >>> settings = CHRFSettings.from_options(char_order=2, word_order=1)
        >>> count_chrf_rows(read_batch(["a cat"], ["a car"], settings), settings).tolist()
        [[4, 4, 3, 3, 3, 2, 2, 2, 1]]
    """
    counts = batch.reference_counts
    kind = kind_of(batch.segments)
    if len(counts) and kind != "strings":
        advice = "pass strings (join tokens with spaces), or set decoder= to score ids"
        raise TypeError(f"chrF counts the characters of text, but 'preds' and 'target' are {kind}: {advice}")
    lines = to_lines(batch.segments)
    if settings.lowercase:
        lines = [line.lower() for line in lines]
    statistics = np.empty((len(lines) - len(counts), settings.orders, 3), np.int64)  # one per reference
    if settings.char_order:
        char_ids = character_ids(lines, settings)
        statistics[:, : settings.char_order] = _ngram_rows(char_ids, counts, settings.char_order)
    if settings.word_order:
        word_ids = chrf_word_ids(lines[: len(counts)], lines[len(counts) :])
        statistics[:, settings.char_order :] = _ngram_rows(word_ids, counts, settings.word_order)
    return statistics.reshape(len(statistics), 3 * settings.orders)


def _ngram_rows(tokens: Ragged, counts: IntArray, orders: int) -> IntArray:
    """The n-grams of each reference and of its hypothesis, and those that match, ``(references, orders, 3)``."""
    if len(tokens.lengths) > 2 * len(counts):
        tokens = _repeat_hypotheses(tokens, counts)
    references = len(tokens.lengths) // 2
    missing = np.arange(orders)  # a segment of l tokens has l - n + 1 n-grams
    hypothesis_ngrams = np.maximum(tokens.lengths[:references, None] - missing, 0)
    reference_ngrams = np.maximum(tokens.lengths[references:, None] - missing, 0)
    statistics = np.empty((references, orders, 3), np.int64)
    statistics[..., 0] = hypothesis_ngrams * (reference_ngrams > 0)  # an order that the reference lacks does not count
    statistics[..., 1] = reference_ngrams
    statistics[..., 2] = count_matches(tokens, np.ones(references, np.int64), orders)
    return statistics


def _repeat_hypotheses(tokens: Ragged, counts: IntArray) -> Ragged:
    """Repeat each hypothesis for each of its references.

    Example:
        >>> _repeat_hypotheses(Ragged(np.array([5, 6, 7, 8, 9]), np.array([2, 1, 2])), np.array([2])).to_lists()
        [[5, 6], [5, 6], [7], [8, 9]]
    """
    sentences = len(counts)
    lengths = tokens.lengths[:sentences]
    starts = lengths.cumsum() - lengths
    repeated_lengths = lengths.repeat(counts)
    repeated_ids = tokens.ids[ranges(starts.repeat(counts), repeated_lengths)]
    reference_ids = tokens.ids[lengths.sum() :]
    return Ragged(
        np.concatenate([repeated_ids, reference_ids]),
        np.concatenate([repeated_lengths, tokens.lengths[sentences:]]),
    )


def character_ids(lines: Sequence[str], settings: CHRFSettings) -> Ragged:
    """The code points of each line, without whitespace unless it counts.

    Example:
        >>> character_ids(["a b", ""], CHRFSettings()).to_lists()
        [[97, 98], []]
    """
    if not settings.whitespace:
        lines = ["".join(line.split()) for line in lines]
    code_points = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), np.uint32)
    return Ragged(code_points.astype(np.int64), lengths_of(lines))


# Statistics → score


_EPSILON = 1e-16


def f_score(statistics: Tensor, settings: CHRFSettings) -> Tensor:
    """The F-scores of corpora or sentences, in percent.

    Operations are in sacreBLEU's order, so that scores equal its scores to the last bit.

    Args:
        statistics: numbers of shape ``(..., 3 * orders)``; see :func:`count_chrf_rows`.
        settings: how to score.

    Returns:
        shape ``(...)``.

    Example:
        >>> f_score(torch.tensor([4, 4, 3, 3, 3, 2]), CHRFSettings.from_options(char_order=2))
        tensor(70.8333, dtype=torch.float64)
    """
    factor = settings.beta**2
    if settings.eps_smoothing:
        precisions, recalls, _ = _ratios(statistics, _EPSILON)
        denominators = factor * precisions + recalls
        scores = ((1 + factor) * precisions * recalls / denominators).where(denominators > 0, _EPSILON)
        return 100 * _sum(scores) / settings.orders
    precision, recall = _averages(statistics)
    scores = (1 + factor) * precision * recall / (factor * precision + recall)
    return 100 * scores.where(precision + recall > 0, 0)


def _averages(statistics: Tensor) -> tuple[Tensor, Tensor]:
    """Precision and recall, averaged over the orders for which both sides have n-grams."""
    precisions, recalls, have_ngrams = _ratios(statistics, 0.0)
    orders = have_ngrams.sum(-1).clamp(min=1)
    precision = _sum(precisions.where(have_ngrams, 0)) / orders
    recall = _sum(recalls.where(have_ngrams, 0)) / orders
    return precision, recall


def _ratios(statistics: Tensor, default: float) -> tuple[Tensor, Tensor, Tensor]:
    """Precision and recall of each order, by default if there are no n-grams, and whether both sides have n-grams."""
    orders = statistics.shape[-1] // 3
    triples = statistics.to(float_type(statistics.device)).reshape(*statistics.shape[:-1], orders, 3)
    hypothesis, reference, matches = triples.unbind(-1)
    precisions = (matches / hypothesis).where(hypothesis > 0, default)
    recalls = (matches / reference).where(reference > 0, default)
    return precisions, recalls, (hypothesis > 0) & (reference > 0)


def _sum(values: Tensor) -> Tensor:
    # Added from the first to the last order, unlike Tensor.sum.
    total = values[..., 0]
    for n in range(1, values.shape[-1]):
        total = total + values[..., n]
    return total


class CHRFScorer(CorpusScorer):
    """All of chrF but the state: how sentences are counted, and how their rows become a score.

    Args:
        settings: the validated options.
    """

    settings: CHRFSettings
    settings_class = CHRFSettings
    class_name = "CorpusCHRF"
    counts_tokens = False

    def __init__(self, settings: CHRFSettings) -> None:
        aspects = ("punctuation", "subwords")
        super().__init__(
            settings,
            name=settings.name,
            columns=3 * settings.orders,
            sensitive_to=aspects if settings.lowercase else ("case", *aspects),
        )

    def count_batch(self, name: str, batch: Batch, sources: Sources | None = None) -> IntArray:
        """The statistics of each sentence, shape ``(sentences, columns)``; see :func:`chrf_rows`."""
        return chrf_rows(batch, self.settings)

    def score(self, statistics: Tensor) -> Tensor:
        """The chrF of rows or of sums of rows; see :func:`f_score`."""
        return f_score(statistics, self.settings) / (1 if self.settings.percent else 100)

    def report(self, sums: Tensor, inputs: InputCounts | None = None) -> CHRFScore:
        """The score of a corpus, from the sum of its rows, with everything that it is computed from."""
        sums, unit = sums.cpu(), self.unit
        precision, recall = _averages(sums)
        hypothesis, reference, matches = sums.reshape(-1, 3).unbind(-1)
        return CHRFScore(
            score=self.score(sums).item(),
            precision=unit * precision.item(),
            recall=unit * recall.item(),
            matches=tuple(matches.tolist()),
            hypothesis_counts=tuple(hypothesis.tolist()),
            reference_counts=tuple(reference.tolist()),
            name=self.name,
            signature=chrf_signature(self.settings, inputs or InputCounts()),
            percent=self.settings.percent,
        )

    def components(self, report: CHRFScore, *, optional: bool = True) -> list[Component]:
        """The precision and the recall."""
        return [
            Component("precision", report.precision, higher_is_better=True, unit=self.unit),
            Component("recall", report.recall, higher_is_better=True, unit=self.unit),
        ]


class CHRFScore(Report):
    """A corpus chrF score, a float, with its components. ``str(...)`` is the line sacreBLEU prints.

    Example:
        >>> from lightning_bleu import corpus_chrf
        >>> result = corpus_chrf(["a cat is on the mat"], [["the cat is on the mat", "there is a cat on the mat"]])
        >>> print(result)
        chrF2 = 79.81
        >>> result.matches
        (13, 12, 11, 10, 9, 8)

    Attributes:
        score: 0..1, or 0..100 if ``percent``.
        precision: averaged over the orders for which hypotheses and references have n-grams, in the same unit.
        recall: the same of recall.
        matches: n-grams that match, for each order of characters, then of words.
        hypothesis_counts: n-grams of the hypotheses (without those of orders that the reference of a sentence lacks).
        reference_counts: n-grams of the references; of several references, of the one with the highest score.
        name: the name of the score, such as ``"chrF2++"``.
        signature: everything else that the score depends on.
        percent: whether scores are in 0..100.
    """

    score: float
    precision: float
    recall: float
    matches: tuple[int, ...]
    hypothesis_counts: tuple[int, ...]
    reference_counts: tuple[int, ...]
    name: str
    signature: str
    percent: bool

    def __str__(self) -> str:
        in_percent = self.score if self.percent else 100 * self.score
        return f"{self.name} = {in_percent:.2f}"

    def __repr__(self) -> str:
        values = (self.score, self.precision, self.recall)
        score, precision, recall = (format_in_unit(value, self.percent) for value in values)
        return f"CHRFScore({score}, {self.name}, precision={precision}, recall={recall})"


# Signature


def chrf_signature(settings: CHRFSettings, inputs: InputCounts) -> str:
    """Name everything that a chrF score depends on, in one line. (The beta is part of the name of the score.)

    Example:
        >>> inputs = InputCounts(strings=3, references=6, squared_references=12)
        >>> chrf_signature(CHRFSettings.from_options(word_order=2), inputs).split("|version")[0]
        'nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no'
    """
    return join_signature(
        {
            "nrefs": inputs.reference_count,
            "case": "lc" if settings.lowercase else "mixed",
            "eff": "no" if settings.eps_smoothing else "yes",
            "nc": settings.char_order,
            "nw": settings.word_order,
            "space": "yes" if settings.whitespace else "no",
        }
    )


def corpus_chrf(preds: Hypotheses, target: References, **options: Unpack[CHRFOptions]) -> CHRFScore:
    """Score a corpus with chrF.

    Example:
        >>> corpus_chrf(["the cat sat on the mat"], ["the cat sat on a mat"], word_order=2, percent=True).score
        72.03039245302905

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusCHRF.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusCHRF`.

    Returns:
        the score and its components.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.
    """
    scorer = CHRFScorer(CHRFSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.report(rows.sum(0), batch.input_counts)


def sentence_chrf(preds: Hypotheses, target: References, **options: Unpack[CHRFOptions]) -> Tensor:
    """Score each sentence on its own with chrF.

    Example:
        >>> sentence_chrf(["the cat sat on the mat", "hello"], ["the cat sat on a mat", "hello"])
        tensor([0.7208, 1.0000], dtype=torch.float64)

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusCHRF.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusCHRF`.

    Returns:
        scores of shape ``(sentences,)``, in 0..1, or in 0..100 with ``percent``, on the device of the ids; see
        :func:`lightning_bleu.sentence_bleu`.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.
    """
    scorer = CHRFScorer(CHRFSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.score(rows).to(batch.device, float_type(batch.device))
