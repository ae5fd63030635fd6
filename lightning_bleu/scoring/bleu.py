"""Statistics → BLEU: brevity penalty, precisions, and their weighted geometric mean.

Up to this point all counts are integers. The only divisions are in this module and in
:mod:`lightning_bleu.settings.smoothing`, in float64 where the device supports it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.scoring.scoring import Report, Scoring, float_type
from lightning_bleu.scoring.signature import InputCounts, join_signature
from lightning_bleu.settings.bleu import BLEUSettings
from lightning_bleu.settings.smoothing import ZERO_RULES, Counts, divide
from lightning_bleu.settings.tokenizers import tokenizer_name

_CHUNK = 2**14
"""The number of sentences that are scored at a time, so that intermediate results need little memory."""


class Statistics(NamedTuple):
    """The statistics that BLEU is computed from. The statistics of a corpus are the sums over its sentences.

    Attributes:
        matches: shape ``(..., orders)``.
        possible_matches: shape ``(..., orders)``.
        hypothesis_length: shape ``(...)``.
        reference_length: shape ``(...)``.
    """

    matches: Tensor
    possible_matches: Tensor
    hypothesis_length: Tensor
    reference_length: Tensor

    @classmethod
    def unpack(cls, vector: Tensor) -> Statistics:
        """Split vectors of shape ``(..., 2 * orders + 2)``.

        Example:
            >>> Statistics.unpack(torch.tensor([5, 4, 7, 6, 7, 7])).possible_matches.tolist()
            [7, 6]
        """
        orders = vector.shape[-1] // 2 - 1
        return cls(vector[..., :orders], vector[..., orders:-2], vector[..., -2], vector[..., -1])


class Score(NamedTuple):
    """Scores in 0..1, in floating point.

    Attributes:
        bleu: shape ``(...)``.
        precisions: after smoothing, shape ``(..., max_order)``.
        brevity_penalty: shape ``(...)``.
    """

    bleu: Tensor
    precisions: Tensor
    brevity_penalty: Tensor


def score(statistics: Tensor, settings: BLEUSettings) -> Score:
    """Score the statistics of one corpus, or of many sentences at once.

    Args:
        statistics: integers of shape ``(..., 2 * orders + 2)``, see :class:`Statistics`. ``orders`` is ``max_order``,
            or ``max_order + 1`` for a smoothing that needs the next order.
        settings: how to score.

    Example:
        >>> score(torch.tensor([5, 4, 7, 6, 7, 7]), BLEUSettings.from_options(max_order=2)).bleu
        tensor(0.6901, dtype=torch.float64)
    """
    dtype = float_type(statistics.device)
    matches, possible_matches, hypothesis_length, reference_length = Statistics.unpack(statistics.to(dtype))
    counts = Counts(matches[..., : settings.max_order], possible_matches[..., : settings.max_order], hypothesis_length)
    if settings.smoothing_method.needs_next_order:
        counts = counts._replace(next_precision=divide(matches[..., -1], possible_matches[..., -1]))
    precisions = settings.smoothing_method.function(counts, settings.smoothing_value or 0.0)

    weights = torch.tensor(settings.weights, dtype=dtype, device=statistics.device)
    if settings.effective_order:
        usable = ((counts.possible_matches > 0) | (precisions > 0)).to(dtype).cumprod(-1)
        weights = divide(weights * usable, (weights * usable).sum(-1, keepdim=True))
    # BLEU = BP * exp(sum over n of w_n * log p_n)
    log_precisions = ZERO_RULES[settings.zero_rule](counts.matches, precisions)
    mean = torch.where(weights > 0, weights * log_precisions, 0).sum(-1).exp().where(weights.any(-1), 0)
    # BP = 1 if c > r, else exp(1 - r / c)
    brevity_penalty = (1 - divide(reference_length, hypothesis_length)).clamp(max=0).exp()
    brevity_penalty = brevity_penalty.where(hypothesis_length > 0, 0)
    bleu = brevity_penalty * mean
    if settings.zero_rule == "no-match":
        # What sacreBLEU prints when nothing matches, and when there are no tokens at all.
        precisions = precisions.where((counts.matches > 0).any(-1, keepdim=True), 0)
        brevity_penalty = brevity_penalty.where((hypothesis_length > 0) | (reference_length > 0), 1)
    return Score(bleu, precisions, brevity_penalty)


def score_sentences(statistics: Tensor, settings: BLEUSettings) -> Tensor:
    """The BLEU of each sentence, as sacreBLEU scores sentences: with smoothing and effective order.

    Args:
        statistics: numbers of shape ``(sentences, 2 * max_order + 2)``.
        settings: the settings of the corpus.

    Example:
        >>> statistics = torch.tensor([[6, 5, 4, 3, 6, 5, 4, 3, 6, 6], [2, 0, 0, 0, 4, 3, 2, 1, 4, 4]])
        >>> score_sentences(statistics, BLEUSettings.from_options(percent=True))
        tensor([100.0000,  18.9959], dtype=torch.float64)
    """
    for_sentences = dataclasses.replace(
        settings, smoothing="exp", smoothing_value=None, effective_order=True, zero_rule="no-match"
    )
    return torch.cat([settings.scale * score(chunk, for_sentences).bleu for chunk in torch.split(statistics, _CHUNK)])


def with_average_tokens(statistics: Tensor) -> Tensor:
    """Each sentence with two tokens' worth of the statistics of the corpus, which matter more the shorter it is.

    While a model is weak, the lowest sentence BLEU is that of short sentences without a long match. With these tokens,
    it is that of sentences that are bad even for their length.
    """
    total = statistics.sum(0).double()
    return statistics + 2 * total / total[-1].clamp(min=1)


def bleu_scoring(settings: BLEUSettings) -> Scoring:
    """How statistics become BLEU.

    Example:
        >>> bleu_scoring(BLEUSettings.from_options(max_order=2, percent=True)).score(torch.tensor([5, 4, 7, 6, 7, 7]))
        tensor(69.0066, dtype=torch.float64)
    """
    return Scoring(
        "BLEU",
        lambda statistics: score(statistics, settings).bleu * settings.scale,
        settings.percent,
        lambda statistics: score_sentences(statistics, settings),
        rank_sentences=lambda statistics: score_sentences(with_average_tokens(statistics), settings),
    )


class BLEUScore(Report):
    """A corpus BLEU score, a float, with its components. ``str(...)`` is the line sacreBLEU prints.

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

    Example:
        >>> from lightning_bleu import corpus_bleu
        >>> result = corpus_bleu(["a cat is on the mat"], [["the cat is on the mat", "there is a cat on the mat"]])
        >>> print(result)
        BLEU = 84.09 100.0/100.0/75.0/66.7 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)
        >>> result.matches
        (6, 5, 3, 2)
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

    @classmethod
    def from_statistics(cls, statistics: Tensor, settings: BLEUSettings, signature: str) -> BLEUScore:
        """Score a corpus from its statistics, integers of shape ``(2 * max_order + 2,)``."""
        statistics = statistics.cpu()
        result = score(statistics, settings)
        matches, possible_matches, hypothesis_length, reference_length = Statistics.unpack(statistics)
        scale = settings.scale
        return cls(
            bleu=scale * result.bleu.item(),
            precisions=tuple(scale * precision for precision in result.precisions.tolist()),
            brevity_penalty=result.brevity_penalty.item(),
            length_ratio=hypothesis_length.item() / reference_length.item() if reference_length else 0.0,
            hypothesis_length=int(hypothesis_length),
            reference_length=int(reference_length),
            matches=tuple(matches.tolist()),
            possible_matches=tuple(possible_matches.tolist()),
            signature=signature,
            percent=settings.percent,
        )

    def parts(self) -> dict[str, float]:
        """The components that a callback logs, by the last part of their names."""
        names = ("brevity_penalty", "length_ratio", "hypothesis_length", "reference_length")
        precisions = {f"precision_{n}": precision for n, precision in enumerate(self.precisions, 1)}
        return precisions | {name: float(getattr(self, name)) for name in names}

    def charts(self) -> dict[str, list[str]]:
        """Which of these components TensorBoard shows, by the title of their chart."""
        orders = range(1, len(self.precisions) + 1)
        title = f"precisions (1 at the top to {orders[-1]})" if len(orders) > 1 else "precision"
        # TensorBoard draws all lines of a chart in one color, and these two nearly coincide.
        lengths = {"length ratio": ["length_ratio"], "brevity penalty": ["brevity_penalty"]}
        return {title: [f"precision_{n}" for n in orders], **lengths}

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


def bleu_signature(settings: BLEUSettings, inputs: InputCounts) -> str:
    """Name everything that a BLEU score depends on, in one line.

    Example:
        >>> inputs = InputCounts(strings=3, references=6, squared_references=12)
        >>> bleu_signature(BLEUSettings.from_options(lowercase=True, smoothing="floor"), inputs).split("|version")[0]
        'nrefs:2|case:lc|eff:no|tok:13a|smooth:floor[0.10]|reflen:closest'
    """
    smoothing, value = settings.smoothing, settings.smoothing_value
    if value is not None:
        smoothing += f"[{value:.2f}]" if value >= 0.01 else f"[{value:g}]"
    parts = {
        "nrefs": inputs.reference_count,
        "case": "lc" if settings.lowercase else "mixed",
        "eff": "yes" if settings.effective_order else "no",
        "tok": _tokenization(settings, inputs),
        "smooth": smoothing,
        "reflen": settings.reference_length,
    }
    # The following appear only if they differ from the default.
    if settings.zero_rule != "no-match":
        parts["zero"] = settings.zero_rule
    if settings.min_possible_matches:
        parts["possible"] = f"{settings.min_possible_matches}+"
    if settings.unk_id is not None:
        parts["unk"] = "unmatched"
    if settings.max_order != 4:
        parts["order"] = str(settings.max_order)
    if settings.weights != (1 / settings.max_order,) * settings.max_order:
        parts["weights"] = ",".join(f"{weight:g}" for weight in settings.weights)
    return join_signature(parts)


def _tokenization(settings: BLEUSettings, inputs: InputCounts) -> str:
    """How sentences were tokenized: a tokenizer, ``"ids"``, or ``"tokens"``; ``"?"`` if there are no sentences."""
    names = {"strings": tokenizer_name(settings.tokenizer)}
    return "+".join(sorted(names.get(kind, kind) for kind in inputs.kinds)) or "?"
