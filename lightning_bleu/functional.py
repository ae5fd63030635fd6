"""Stateless BLEU: sentence statistics, the score of a corpus, and the scores of single sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting.devices import CPU, to_device
from lightning_bleu.counting.padded import Padded
from lightning_bleu.counting.rows import padded_statistics, ragged_statistics
from lightning_bleu.eager import eager
from lightning_bleu.messages import warn_user
from lightning_bleu.reading.batch import Batch, read_batch
from lightning_bleu.reading.forms import Hypotheses, References
from lightning_bleu.scoring.score import BLEUScore, score
from lightning_bleu.scoring.signature import InputCounts, signature
from lightning_bleu.settings.conventions import CONVENTIONS
from lightning_bleu.settings.options import Options
from lightning_bleu.settings.settings import Settings, refuse_sentence_smoothing

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Counted(NamedTuple):
    """The sentences of a call and their statistics.

    Attributes:
        statistics: int64 of shape ``(sentences, 2 * orders + 2)``, on the device of the ids (the CPU for strings); see
            :class:`lightning_bleu.scoring.score.Statistics`.
        batch: the sentences, tokenized and cleaned.
    """

    statistics: Tensor
    batch: Batch

    def totals(self) -> Tensor:
        """The sums of the statistics, then the :class:`~lightning_bleu.scoring.signature.InputCounts`."""
        inputs = InputCounts.of(self.batch)
        if self.statistics.device == CPU:
            # NumPy is several times faster than torch at summing small arrays.
            return torch.from_numpy(np.concatenate([self.statistics.numpy().sum(0), inputs]))
        return torch.cat([self.statistics.sum(0), to_device(torch.tensor(inputs, device=CPU), self.statistics.device)])


@eager
def sentence_statistics(
    preds: Hypotheses, target: References, settings: Settings, *, orders: int | None = None
) -> Counted:
    """Count the n-grams of every sentence.

    Every score in this package is computed from these statistics.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        settings: how to read the tokens, and what to count.
        orders: the longest n-gram; ``max_order`` when None.

    Raises:
        TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
        ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.

    Example:
        >>> counted = sentence_statistics(["the cat sat"], ["the cat sat down"], Settings.from_options(max_order=2))
        >>> counted.statistics
        tensor([[3, 2, 3, 2, 3, 4]])
    """
    return count_batch(read_batch(preds, target, settings), settings, orders=orders)


def count_batch(batch: Batch, settings: Settings, *, orders: int | None = None) -> Counted:
    """Count the n-grams of every sentence of a batch that was read; see :func:`sentence_statistics`."""
    orders = orders or settings.max_order
    rule, least = settings.length_rule, settings.min_possible_matches
    if isinstance(batch.tokens, Padded):
        return Counted(padded_statistics(batch.tokens, orders, rule, min_possible_matches=least), batch)
    unk_id = settings.special_ids.unk_id if batch.kind == "ids" else None
    statistics = ragged_statistics(batch.tokens, orders, rule, unk_id=unk_id, min_possible_matches=least)
    return Counted(statistics, batch)


def corpus_bleu(preds: Hypotheses, target: References, **options: Unpack[Options]) -> BLEUScore:
    """Score a corpus.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusBLEU`.

    Returns:
        the score and its components.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.

    Example:
        >>> corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"], percent=True).bleu
        53.7284965911771
    """
    settings = refuse_sentence_smoothing(Settings.from_options(**options))
    statistics, batch = sentence_statistics(preds, target, settings)
    for message in batch.suspicions:
        warn_user(message)
    return BLEUScore.from_statistics(statistics.sum(0), settings, signature(settings, InputCounts.of(batch)))


def sentence_bleu(preds: Hypotheses, target: References, **options: Unpack[Options]) -> Tensor:
    """Score each sentence on its own.

    Without smoothing, most sentences would score 0, because they have no match of the highest order. The defaults are
    sacreBLEU's for sentences: ``smoothing="exp"`` and ``effective_order=True``, which skips the orders that a sentence
    is too short for. (``effective_order`` is on by default only with ``convention="sacrebleu"``.)

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusBLEU`; the sentence-only smoothings (``method5``,
            ``method6``, ``method7``) are also accepted.

    Returns:
        scores of shape ``(sentences,)`` in float64 (float32 on devices without float64), in 0..1, or in 0..100 with
        ``percent``, on the device of the ids (the CPU for strings). The host never waits for the device, so the scores
        are cheap enough to serve as rewards.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.

    Example:
        >>> preds = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 8]])
        >>> target = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]])
        >>> sentence_bleu(preds, target, pad_id=0)
        tensor([1.0000, 0.4518], dtype=torch.float64)
    """
    is_sacrebleu = options.get("convention", "sacrebleu") in ("sacrebleu", CONVENTIONS["sacrebleu"])
    if is_sacrebleu and options.get("effective_order") is None:
        options["effective_order"] = True
    settings = Settings.from_options(**options)
    orders = settings.max_order + settings.smoothing_method.needs_next_order
    statistics, batch = sentence_statistics(preds, target, settings, orders=orders)
    for message in batch.suspicions:
        warn_user(message)
    return score(statistics, settings).bleu * settings.scale
