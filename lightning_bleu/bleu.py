"""BLEU, from its options to its functions, as described in Papineni et al. (2002), https://aclanthology.org/P02-1040.

Up to the score, all counts are integers. The only divisions are there and in :mod:`lightning_bleu.core.conventions`,
in float64 where the device supports it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.core.batch import Batch, InputCounts, Sources
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.conventions import (
    CONVENTIONS,
    REFERENCE_LENGTHS,
    SMOOTHINGS,
    ZERO_RULES,
    Convention,
    Statistics,
    divide,
)
from lightning_bleu.core.forms import Hypotheses, Ids, IntArray, Ragged, References, Tokens
from lightning_bleu.core.messages import check_choice, wrong_type
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
from lightning_bleu.core.settings import (
    Decoder,
    Settings,
    check_bool,
    check_id,
    check_integer,
    check_number,
    unknown_options,
)
from lightning_bleu.core.tokens import Tokenizer, load_by_name, load_tokenizer, number_tokens, tokenize

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


# Options


class BLEUOptions(TypedDict, total=False):
    """The options of a score, as the user passes them; see :class:`lightning_bleu.CorpusBLEU`."""

    max_order: int
    weights: Sequence[float] | None
    convention: str | Convention
    tokenizer: Tokenizer | None
    lowercase: bool | None
    smoothing: str | None
    smoothing_value: float | None
    reference_length: str | None
    effective_order: bool | None
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    ignore_ids: int | Iterable[int] | None
    decoder: Decoder | None
    percent: bool


BLEU_OPTIONS = tuple(BLEUOptions.__annotations__)


@dataclass(frozen=True, kw_only=True)
class BLEUSettings(Settings, Convention):
    """A convention plus all other options. Create settings with :meth:`from_options`.

    Attributes:
        max_order: the longest n-gram.
        weights: one per order.
        unk_id: the unknown word. In a reference it matches nothing, but it counts toward the length.
    """

    max_order: int = 4
    weights: tuple[float, ...] = None  # type: ignore[assignment]  # replaced by uniform weights
    unk_id: int | None = None

    @classmethod
    def from_options(cls, **options: Unpack[BLEUOptions]) -> Self:  # type: ignore[override]
        """Override the convention with options, and check the result.

        Example:
            >>> settings = BLEUSettings.from_options(convention="nltk", tokenizer="intl")
            >>> settings.tokenizer, settings.smoothing, settings.weights
            ('intl', 'method0', (0.25, 0.25, 0.25, 0.25))
        """
        unknown = options.keys() - set(BLEU_OPTIONS)
        if unknown:
            raise unknown_options(unknown, BLEU_OPTIONS)
        values: dict[str, Any] = {**options}
        convention = values.pop("convention", "sacrebleu")
        if not isinstance(convention, Convention):
            convention = CONVENTIONS[check_choice("convention", convention, CONVENTIONS)]
        if values.get("smoothing") not in (None, convention.smoothing):
            convention = replace(convention, smoothing_value=None)  # which belongs to the convention's smoothing
        for field in dataclasses.fields(Convention):
            if values.get(field.name) is None:
                values[field.name] = getattr(convention, field.name)
        return cls(**values)

    def __post_init__(self) -> None:
        super().__post_init__()
        load_tokenizer(self.tokenizer)
        check_choice("smoothing", self.smoothing, SMOOTHINGS)
        check_choice("reference_length", self.reference_length, REFERENCE_LENGTHS)
        check_choice("zero_rule", self.zero_rule, ZERO_RULES)
        max_order = check_integer("max_order", self.max_order, at_least=1)
        self._set_checked(
            max_order=max_order,
            weights=_weights(self.weights, max_order),
            unk_id=check_id("unk_id", self.unk_id),
            min_possible_matches=check_integer("min_possible_matches", self.min_possible_matches, at_least=0),
            smoothing_value=_smoothing_value(self.smoothing, self.smoothing_value),
            effective_order=check_bool("effective_order", self.effective_order),
        )


def _smoothing_value(smoothing: str, value: Any) -> float | None:
    """Check the value of a smoothing; None for its default."""
    default = SMOOTHINGS[smoothing].default
    if value is None:
        return default
    if default is None:
        with_value = [name for name, method in SMOOTHINGS.items() if method.default is not None]
        raise ValueError(f"smoothing {smoothing!r} takes no 'smoothing_value'; these do: {with_value}")
    number = check_number("smoothing_value", value)
    if number == 0 and SMOOTHINGS[smoothing].divides:
        raise ValueError(f"'smoothing_value' must be greater than 0 for smoothing {smoothing!r}, got {value}")
    return number


def _weights(weights: Any, max_order: int) -> tuple[float, ...]:
    """Check the weights of the orders; they are uniform when None."""
    if weights is None:
        return (1 / max_order,) * max_order
    try:
        numbers = tuple(map(float, weights))
    except (TypeError, ValueError):
        raise wrong_type("weights", f"one number for each order 1 ... max_order={max_order}", weights) from None
    if len(numbers) != max_order:
        needs = f"one weight for each order 1 ... max_order={max_order}"
        raise ValueError(f"'weights' must hold {needs}, got {len(numbers)}: {numbers}")
    are_valid = all(0 <= number < math.inf for number in numbers)
    if not are_valid or not any(numbers):
        raise ValueError(f"'weights' must be finite, not negative, and not all 0, got {numbers}")
    return numbers


# Rows: the statistics of every sentence


def count_rows(batch: Batch, settings: BLEUSettings) -> IntArray:
    """Count the n-grams of every sentence.

    Args:
        batch: the sentences; see :func:`lightning_bleu.core.batch.read_batch`.
        settings: how to tokenize, and what to count.

    Returns:
        shape ``(sentences, 2 * max_order + 2)``. The columns are the fields of
        :class:`lightning_bleu.core.conventions.Statistics`: matches, possible matches, hypothesis length, and reference
        length.

    Example:
        >>> from lightning_bleu.core.batch import read_batch
        >>> settings = BLEUSettings.from_options(max_order=2)
        >>> count_rows(read_batch(["the cat sat"], ["the cat sat down"], settings), settings).tolist()
        [[3, 2, 3, 2, 3, 4]]
    """
    max_order = settings.max_order
    counts = batch.reference_counts
    sentence_count = len(counts)
    tokens = token_ids(batch, settings)
    unk_id = settings.unk_id if isinstance(batch.segments, Ids) else None
    hypothesis_lengths, reference_lengths = tokens.lengths[:sentence_count], tokens.lengths[sentence_count:]
    possible_matches = hypothesis_lengths[:, None] - np.arange(max_order)
    rows = np.empty((sentence_count, 2 * max_order + 2), np.int64)
    rows[:, :max_order] = count_matches(tokens, counts, max_order, unk_id=unk_id)
    rows[:, max_order:-2] = np.maximum(possible_matches, settings.min_possible_matches)
    rows[:, -2] = hypothesis_lengths
    rows[:, -1] = choose_reference_lengths(settings.reference_length, hypothesis_lengths, reference_lengths, counts)
    return rows


def choose_reference_lengths(
    rule: str, hypotheses: IntArray, references: IntArray, reference_counts: IntArray
) -> IntArray:
    """Choose the reference length of each sentence.

    Args:
        rule: a name from :data:`lightning_bleu.core.conventions.REFERENCE_LENGTHS`.
        hypotheses: the lengths of the hypotheses, shape ``(sentences,)``.
        references: the lengths of all references, sentence by sentence.
        reference_counts: the number of references of each sentence, at least 1, shape ``(sentences,)``.

    Example:
        >>> choose_reference_lengths("closest", np.array([10, 4]), np.array([7, 12, 8, 9]), np.array([3, 1])).tolist()
        [8, 9]
    """
    if len(references) == len(hypotheses):
        return references
    # Adding the index breaks ties in favor of the first reference.
    costs = REFERENCE_LENGTHS[rule](hypotheses.repeat(reference_counts), references)
    costs = costs * len(references) + np.arange(len(references))
    cheapest: IntArray = np.minimum.reduceat(costs, reference_counts.cumsum() - reference_counts)
    return references[cheapest % len(references)]


def token_ids(batch: Batch, settings: BLEUSettings) -> Ragged:
    """The tokens of each segment as ids.

    Within a call, equal tokens get equal ids. The ids of different calls are unrelated.

    Example:
        >>> from lightning_bleu.core.batch import read_batch
        >>> settings = BLEUSettings.from_options(lowercase=True)
        >>> token_ids(read_batch(["Hello, world!"], ["hello!"], settings), settings).lengths.tolist()
        [4, 2]
    """
    form = batch.segments
    if isinstance(form, Ids):
        return form.ragged
    if isinstance(form, Tokens):
        return number_tokens(form.lists)
    lines = form.lines
    if settings.lowercase:
        lines = [line.lower() for line in lines]
    sentence_count = batch.sentence_count
    return tokenize(lines[:sentence_count], lines[sentence_count:], settings.tokenizer)


# Statistics → score


class Components(NamedTuple):
    """BLEU and its factors, in 0..1, in floating point.

    Attributes:
        bleu: shape ``(...)``.
        precisions: after smoothing, shape ``(..., max_order)``.
        brevity_penalty: shape ``(...)``.
    """

    bleu: Tensor
    precisions: Tensor
    brevity_penalty: Tensor


def compute_bleu(statistics: Tensor, settings: BLEUSettings) -> Components:
    """Compute BLEU from the statistics of one corpus, or of many sentences at once.

    Args:
        statistics: integers of shape ``(..., 2 * max_order + 2)``; see
            :class:`lightning_bleu.core.conventions.Statistics`.
        settings: how to score.

    Example:
        >>> compute_bleu(torch.tensor([5, 4, 7, 6, 7, 7]), BLEUSettings.from_options(max_order=2)).bleu
        tensor(0.6901, dtype=torch.float64)
    """
    dtype = float_type(statistics.device)
    counts = Statistics.unpack(statistics.to(dtype))
    _, _, hypothesis_length, reference_length = counts
    precisions = SMOOTHINGS[settings.smoothing].function(counts, settings.smoothing_value or 0.0)

    weights = torch.tensor(settings.weights, dtype=dtype, device=statistics.device)
    if settings.effective_order:
        has_ngrams = (counts.possible_matches > 0) | (precisions > 0)
        weights = weights * has_ngrams.to(dtype).cumprod(-1)  # an order counts if all lower ones do
        weights = divide(weights, weights.sum(-1, keepdim=True))
    # BLEU = BP * exp(sum over n of w_n * log p_n)
    log_precisions = ZERO_RULES[settings.zero_rule](counts.matches, precisions)
    weighted_sum = torch.where(weights > 0, weights * log_precisions, 0).sum(-1)
    geometric_mean = weighted_sum.exp().where(weights.any(-1), 0)
    # BP = 1 if c > r, else exp(1 - r / c)
    brevity_penalty = (1 - divide(reference_length, hypothesis_length)).clamp(max=0).exp()
    brevity_penalty = brevity_penalty.where(hypothesis_length > 0, 0)
    bleu = brevity_penalty * geometric_mean
    if settings.zero_rule == "no-match":
        # What sacreBLEU prints when nothing matches, and when there are no tokens at all.
        precisions = precisions.where((counts.matches > 0).any(-1, keepdim=True), 0)
        brevity_penalty = brevity_penalty.where((hypothesis_length > 0) | (reference_length > 0), 1)
    return Components(bleu, precisions, brevity_penalty)


def with_average_tokens(statistics: Tensor) -> Tensor:
    """Add two tokens' worth of the statistics of the corpus to each sentence, which matter more the shorter it is.

    While a model is weak, short sentences without a long match have the lowest sentence BLEU. With these tokens,
    sentences have it that are bad even for their length.
    """
    total = statistics.sum(0).double()
    return statistics + 2 * total / total[-1].clamp(min=1)


class BLEUScorer(CorpusScorer):
    """All of BLEU but the state: how sentences are counted, and how their rows become a score.

    Args:
        settings: the validated options.

    Example:
        >>> scorer = BLEUScorer(BLEUSettings.from_options(max_order=2, percent=True))
        >>> scorer.score(torch.tensor([5, 4, 7, 6, 7, 7]))
        tensor(69.0066, dtype=torch.float64)
    """

    settings: BLEUSettings
    settings_class = BLEUSettings
    class_name = "CorpusBLEU"

    def __init__(self, settings: BLEUSettings) -> None:
        super().__init__(
            settings,
            name="BLEU",
            columns=2 * settings.max_order + 2,
            sensitive_to=_find_aspects(settings),
        )

    def count_batch(self, name: str, batch: Batch, sources: Sources | None = None) -> IntArray:
        """The statistics of each sentence, shape ``(sentences, columns)``; see :func:`count_rows`."""
        return count_rows(batch, self.settings)

    def score(self, statistics: Tensor) -> Tensor:
        """The BLEU of rows or of sums of rows; see :func:`compute_bleu`."""
        return compute_bleu(statistics, self.settings).bleu * self.unit

    def score_sentences(self, statistics: Tensor) -> Tensor:
        """The BLEU of each sentence, as sacreBLEU scores sentences: with smoothing and effective order.

        Example:
            >>> statistics = torch.tensor([[6, 5, 4, 3, 6, 5, 4, 3, 6, 6], [2, 0, 0, 0, 4, 3, 2, 1, 4, 4]])
            >>> BLEUScorer(BLEUSettings.from_options(percent=True)).score_sentences(statistics)
            tensor([100.0000,  18.9959], dtype=torch.float64)
        """
        for_sentences = replace(
            self.settings, smoothing="exp", smoothing_value=None, effective_order=True, zero_rule="no-match"
        )
        return self.unit * compute_bleu(statistics, for_sentences).bleu

    def rank_sentences(self, statistics: Tensor) -> Tensor:
        """Numbers that rank sentences, the worst for their length lowest; see :func:`with_average_tokens`."""
        return self.score_sentences(with_average_tokens(statistics))

    @property
    def order(self) -> str:
        """By what :meth:`rank_sentences` ranks."""
        return " for their length, by smoothed BLEU"

    def report(self, sums: Tensor, inputs: InputCounts | None = None) -> BLEUScore:
        """The score of a corpus, from the sum of its rows, with everything that it is computed from."""
        sums, unit = sums.cpu(), self.unit
        components = compute_bleu(sums, self.settings)
        statistics = Statistics.unpack(sums)
        hypothesis_length, reference_length = statistics.hypothesis_length.item(), statistics.reference_length.item()
        return BLEUScore(
            bleu=unit * components.bleu.item(),
            precisions=tuple(unit * precision for precision in components.precisions.tolist()),
            brevity_penalty=components.brevity_penalty.item(),
            length_ratio=hypothesis_length / reference_length if reference_length else 0.0,
            hypothesis_length=int(hypothesis_length),
            reference_length=int(reference_length),
            matches=tuple(statistics.matches.tolist()),
            possible_matches=tuple(statistics.possible_matches.tolist()),
            signature=bleu_signature(self.settings, inputs or InputCounts()),
            percent=self.settings.percent,
        )

    def components(self, report: BLEUScore, *, optional: bool = True) -> list[Component]:
        """The precisions, the brevity penalty, and the lengths; and, if they are named, the BLEU of each order.

        ``bleu_n`` has uniform weights: it is the score of ``CorpusBLEU(max_order=n)``.
        """
        max_order, unit = self.settings.max_order, self.unit
        chart = f"precisions (1 at the top to {max_order})" if max_order > 1 else "precision"
        components = []
        for n, precision in enumerate(report.precisions, 1):
            components.append(Component(f"precision_{n}", precision, higher_is_better=True, unit=unit, chart=chart))
        # TensorBoard draws all lines of a chart in one color, and these two nearly coincide: each has its own chart.
        components += [
            Component("brevity_penalty", report.brevity_penalty, higher_is_better=True, chart="brevity penalty"),
            Component("length_ratio", report.length_ratio, higher_is_better=True, chart="length ratio"),
            Component("hypothesis_length", float(report.hypothesis_length)),
            Component("reference_length", float(report.reference_length)),
        ]
        chart = f"BLEU of orders 1 (at the top) to {max_order}"
        for n, score in enumerate(self._scores_of_orders(report) if optional else [], 1):
            components.append(
                Component(f"bleu_{n}", score, higher_is_better=True, unit=unit, chart=chart, is_default=False)
            )
        return components

    def _scores_of_orders(self, report: BLEUScore) -> list[float]:
        """The BLEU with the maximum order 1, 2, ... `max_order`, with uniform weights."""
        scores = []
        lengths = [report.hypothesis_length, report.reference_length]
        for n in range(1, self.settings.max_order + 1):
            statistics = torch.tensor([*report.matches[:n], *report.possible_matches[:n], *lengths], device="cpu")
            settings_of_order = replace(self.settings, max_order=n, weights=None)  # type: ignore[arg-type]
            scores.append(BLEUScorer(settings_of_order).score(statistics).item())
        return scores


def _find_aspects(settings: BLEUSettings) -> tuple[str, ...]:
    """What of a text changes the score.

    Example:
        >>> _find_aspects(BLEUSettings.from_options(tokenizer="intl", lowercase=True))
        ('punctuation', 'spaces', 'subwords')
    """
    aspects = {"punctuation"}
    if not settings.lowercase:
        aspects.add("case")
    if settings.tokenizer != "none":  # whose text is tokens, which may be subwords
        aspects.add("subwords")
    if settings.tokenizer in ("13a", "intl"):
        aspects.add("spaces")
    return tuple(sorted(aspects))


_REPR_LENGTH = 30
"""The number of characters for precisions in the ``repr`` of a score."""


class BLEUScore(Report):
    """A corpus BLEU score, a float, with its components. ``str(...)`` is the line sacreBLEU prints.

    Example:
        >>> from lightning_bleu import corpus_bleu
        >>> result = corpus_bleu(["a cat is on the mat"], [["the cat is on the mat", "there is a cat on the mat"]])
        >>> print(result)
        BLEU = 84.09 100.0/100.0/75.0/66.7 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)
        >>> result.matches
        (6, 5, 3, 2)

    Attributes:
        bleu: 0..1, or 0..100 if ``percent``.
        precisions: one per order 1 ... max_order, after smoothing, in the same unit as ``bleu``.
        brevity_penalty: 0..1.
        length_ratio: hypothesis length divided by reference length (0 if the reference length is 0).
        hypothesis_length: tokens of the hypotheses.
        reference_length: tokens of the references chosen by the ``reference_length`` rule.
        matches: n-grams of order 1 ... max_order that appear in a reference.
        possible_matches: n-grams of the hypotheses.
        signature: everything the score depends on.
        percent: whether ``bleu`` and ``precisions`` are in 0..100.
    """

    bleu: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length_ratio: float
    hypothesis_length: int
    reference_length: int
    matches: tuple[int, ...]
    possible_matches: tuple[int, ...]
    signature: str
    percent: bool

    @property
    def score(self) -> float:
        """The same as `bleu`."""
        return self.bleu

    def __str__(self) -> str:
        scale = 1 if self.percent else 100
        precisions = "/".join(f"{scale * precision:.1f}" for precision in self.precisions)
        return (
            f"BLEU = {scale * self.bleu:.2f} {precisions} (BP = {self.brevity_penalty:.3f} "
            f"ratio = {self.length_ratio:.3f} hyp_len = {self.hypothesis_length} ref_len = {self.reference_length})"
        )

    def __repr__(self) -> str:
        digits = 1 if self.percent else 3
        precisions = "/".join(f"{precision:.{digits}f}" for precision in self.precisions)
        return (
            f"BLEUScore({format_in_unit(self.bleu, self.percent)}, precisions={to_line(precisions, _REPR_LENGTH)}, "
            f"brevity_penalty={self.brevity_penalty:.3f}, lengths={self.hypothesis_length}/{self.reference_length})"
        )


# Signature


def bleu_signature(settings: BLEUSettings, inputs: InputCounts) -> str:
    """Name everything that a BLEU score depends on, in one line.

    Example:
        >>> inputs = InputCounts(strings=3, references=6, squared_references=12)
        >>> bleu_signature(BLEUSettings.from_options(lowercase=True, smoothing="floor"), inputs).split("|version")[0]
        'nrefs:2|case:lc|eff:no|tok:13a|smooth:floor[0.10]|reflen:closest'
    """
    tokenizer: Any = settings.tokenizer
    if isinstance(tokenizer, str):
        tokenizer_name = load_by_name(tokenizer).signature()  # type: ignore[no-untyped-call]
    else:
        tokenizer_name = getattr(tokenizer, "__name__", type(tokenizer).__name__)
    # Of each kind of sentences, how they were tokenized: by a tokenizer, or before they were passed.
    tokenizers = {"strings": tokenizer_name, "tokens": "tokens", "ids": "ids"}
    tokenizers_used = sorted(tokenizers[kind] for kind in inputs.kinds)
    smoothing, value = settings.smoothing, settings.smoothing_value
    if value is not None:
        smoothing += f"[{value:.2f}]" if value >= 0.01 else f"[{value:g}]"
    fields = {
        "nrefs": inputs.reference_count,
        "case": "lc" if settings.lowercase else "mixed",
        "eff": "yes" if settings.effective_order else "no",
        "tok": "+".join(tokenizers_used) or "?",
        "smooth": smoothing,
        "reflen": settings.reference_length,
    }
    fields.update(_rare_fields(settings))
    return join_signature(fields)


def _rare_fields(settings: BLEUSettings) -> dict[str, str]:
    """The fields of a signature that appear only if they differ from the default.

    Example:
        >>> _rare_fields(BLEUSettings.from_options(max_order=2, unk_id=3))
        {'unk': 'unmatched', 'order': '2'}
    """
    fields = {}
    if settings.zero_rule != "no-match":
        fields["zero"] = settings.zero_rule
    if settings.min_possible_matches:
        fields["possible"] = f"{settings.min_possible_matches}+"
    if settings.unk_id is not None and settings.decoder is None:
        fields["unk"] = "unmatched"
    if settings.max_order != 4:
        fields["order"] = str(settings.max_order)
    if settings.weights != _weights(None, settings.max_order):
        fields["weights"] = ",".join(f"{weight:g}" for weight in settings.weights)
    return fields


def corpus_bleu(preds: Hypotheses, target: References, **options: Unpack[BLEUOptions]) -> BLEUScore:
    """Score a corpus.

    Example:
        >>> corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"], percent=True).bleu
        53.7284965911771

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusBLEU`.

    Returns:
        the score and its components.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.
    """
    scorer = BLEUScorer(BLEUSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.report(rows.sum(0), batch.input_counts)


def sentence_bleu(preds: Hypotheses, target: References, **options: Unpack[BLEUOptions]) -> Tensor:
    """Score each sentence on its own.

    Example:
        >>> preds = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 8]])
        >>> target = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]])
        >>> sentence_bleu(preds, target, pad_id=0)
        tensor([1.0000, 0.4518], dtype=torch.float64)

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusBLEU`.

    Returns:
        scores of shape ``(sentences,)`` in float64 (float32 on devices without float64), in 0..1, or in 0..100 with
        ``percent``, on the device of the ids (the CPU for strings). Ids on an accelerator are copied to the CPU to be
        counted, which waits for the model that produces them.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.

    Notes:
        Without smoothing, most sentences would score 0, because they have no match of the highest order. The defaults
        are sacreBLEU's for sentences: ``smoothing="exp"`` and ``effective_order=True``, which skips the orders that a
        sentence is too short for. (``effective_order`` is on by default only with ``convention="sacrebleu"``.)
    """
    is_sacrebleu = options.get("convention", "sacrebleu") in ("sacrebleu", CONVENTIONS["sacrebleu"])
    if is_sacrebleu and options.get("effective_order") is None:
        options["effective_order"] = True
    scorer = BLEUScorer(BLEUSettings.from_options(**options))
    rows, batch = count_sentences(preds, target, scorer)
    return scorer.score(rows).to(batch.device, float_type(batch.device))
