"""BLEU without state: the statistics of sentences, the score of a corpus, the scores of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting.batch import Batch, read_batch
from lightning_bleu.counting.devices import CPU, to_device
from lightning_bleu.counting.forms import Hypotheses, References
from lightning_bleu.counting.padded import Padded
from lightning_bleu.counting.statistics import padded_statistics, ragged_statistics
from lightning_bleu.eager import eager
from lightning_bleu.scoring.conventions import CONVENTIONS
from lightning_bleu.scoring.options import Options
from lightning_bleu.scoring.score import BLEUScore, score
from lightning_bleu.scoring.settings import Settings, refuse_sentence_smoothing
from lightning_bleu.scoring.signature import InputCounts, signature
from lightning_bleu.user_warnings import warn_user

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Counted(NamedTuple):
    """The sentences of a call and their statistics.

    Attributes:
        statistics: 64-bit integers of shape ``(sentences, 2 * orders + 2)``, see
            :class:`lightning_bleu.scoring.score.Statistics`, on the device of the ids (strings: the CPU).
        batch: the sentences as they were counted.
    """

    statistics: Tensor
    batch: Batch

    def totals(self) -> Tensor:
        """The sums of the statistics, then the :class:`~lightning_bleu.scoring.signature.InputCounts`."""
        inputs = InputCounts.of(self.batch)
        if self.statistics.device == CPU:
            # NumPy adds small arrays up in a fraction of the time.
            return torch.from_numpy(np.concatenate([self.statistics.numpy().sum(0), inputs]))
        return torch.cat([self.statistics.sum(0), to_device(torch.tensor(inputs, device=CPU), self.statistics.device)])


@eager
def sentence_statistics(
    preds: Hypotheses, target: References, settings: Settings, *, orders: int | None = None
) -> Counted:
    """Count every sentence.

    Everything that is ever scored comes from here.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        settings: how to get at the tokens, and what to count.
        orders: the longest n-gram; ``max_order`` when None.

    Raises:
        TypeError: for a form that is not accepted, or two that do not go together.
        ValueError: for different numbers of sentences, shapes that are not accepted, or a sentence without a reference.

    Example:
        >>> counted = sentence_statistics(["the cat sat"], ["the cat sat down"], Settings.from_options(max_order=2))
        >>> counted.statistics
        tensor([[3, 2, 3, 2, 3, 4]])
    """
    batch = read_batch(preds, target, settings)
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
        options: those of :class:`lightning_bleu.CorpusBLEU`.

    Returns:
        the score with its parts.

    Raises:
        TypeError: for inputs or options of a wrong type, and for unknown options.
        ValueError: for inputs that do not go together, and for options that are out of range.

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
    """Score every sentence by itself.

    Without smoothing most sentences would score 0, as they have no match of the highest order. The defaults are those
    of sacreBLEU for sentences: ``smoothing="exp"`` and, with this convention, ``effective_order=True``, which skips the
    orders that a sentence is too short for.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` accepts.
        target: the references of each hypothesis.
        options: those of :class:`lightning_bleu.CorpusBLEU`, and the smoothings that are for sentences only.

    Returns:
        scores of shape ``(sentences,)`` in 64-bit floating point (32-bit where the device has no other), in 0..1, or in
        0..100 with ``percent``, on the device of the ids (strings: the CPU). Nothing waits for the device, so the
        scores can serve as rewards.

    Raises:
        TypeError: for inputs or options of a wrong type, and for unknown options.
        ValueError: for inputs that do not go together, and for options that are out of range.

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
