"""BLEU without state: the statistics of sentences, the score of a corpus, the scores of sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.arrays import Array, namespace
from lightning_bleu.conventions import Settings, make_settings, signature
from lightning_bleu.inputs import read
from lightning_bleu.lengths import REFERENCE_LENGTHS
from lightning_bleu.ngrams import Segments, count_ngrams
from lightning_bleu.score import BLEUScore, score


class Seen(NamedTuple):
    """What a signature says about the data, rather than about the options."""

    tokens: frozenset[str] = frozenset()
    references: frozenset[int] = frozenset()

    def __or__(self, other: Seen) -> Seen:
        return Seen(self.tokens | other.tokens, self.references | other.references)

    def signature(self, settings: Settings) -> str:
        """The signature of a score of such data."""
        references = "var" if len(self.references) > 1 else "".join(map(str, self.references)) or "?"
        return signature(settings, "+".join(sorted(self.tokens)) or "?", references)


def sentence_statistics(
    preds: Any, target: Any, settings: Settings, *, orders: int | None = None
) -> tuple[Tensor, Seen]:
    """Count every sentence.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` takes.
        target: references.
        settings: the convention and the special ids.
        orders: the longest n-gram, ``max_order`` by default.

    Returns:
        64-bit integers of shape ``(sentences, 2 * orders + 2)`` on the device of the ids (strings: the CPU), as
        :class:`lightning_bleu.score.Statistics` orders them, and what was seen.

    Example:
        >>> statistics, _ = sentence_statistics(["the cat sat"], ["the cat sat down"], make_settings(max_order=2))
        >>> statistics
        tensor([[3, 2, 3, 2, 3, 4]])
    """
    orders = orders or settings.max_order
    batch = read(preds, target, settings)
    blocks = [torch.as_tensor(_block_statistics(block, settings, orders)) for block in batch.blocks]
    if blocks:
        statistics = torch.cat(blocks) if len(blocks) > 1 else blocks[0]
    else:
        statistics = torch.zeros(0, 2 * orders + 2, dtype=torch.int64, device=batch.device)
    return statistics, Seen(frozenset({batch.tokens}), batch.references) if batch.sentences else Seen()


def _block_statistics(block: Segments, settings: Settings, orders: int) -> Array:
    xp = namespace(block.ids)
    convention = settings.convention
    matches, possible_matches = count_ngrams(block, orders)
    if convention.least_possible_matches:
        possible_matches = possible_matches.clip(convention.least_possible_matches)
    hypothesis_length, reference_lengths = block.lengths[:, 0], block.lengths[:, 1:]
    if reference_lengths.shape[1] == 1:
        reference_length = reference_lengths[:, 0]  # nothing to choose from
    else:
        reference_length = REFERENCE_LENGTHS[convention.reference_length](hypothesis_length, reference_lengths)
    lengths = hypothesis_length[:, None], reference_length[:, None]
    return xp.concatenate([matches, possible_matches, *lengths], -1)


def check_corpus_smoothing(settings: Settings) -> Settings:
    """Refuse a smoothing that has no meaning for a corpus."""
    if settings.smoothing.sentences_only:
        raise ValueError(
            f"smoothing {settings.convention.smoothing!r} is defined for single sentences only: "
            "use sentence_bleu, or another smoothing"
        )
    return settings


def corpus_bleu(preds: Any, target: Any, **options: Any) -> BLEUScore:
    """Score a corpus.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` takes.
        target: the references of each hypothesis.
        options: those of :class:`lightning_bleu.CorpusBLEU`.

    Returns:
        the score with its parts.

    Raises:
        TypeError: for inputs or options of a wrong type.
        ValueError: for inputs that do not fit each other, or unknown options.

    Example:
        >>> corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"], percent=True).bleu
        53.7284965911771
    """
    settings = check_corpus_smoothing(make_settings(**options))
    statistics, seen = sentence_statistics(preds, target, settings)
    return BLEUScore.from_statistics(statistics.sum(0), settings, seen.signature(settings))


def sentence_bleu(preds: Any, target: Any, **options: Any) -> Tensor:
    """Score every sentence by itself.

    Without smoothing most sentences score 0, as they have no match of the highest order: ``smoothing="exp"`` with
    ``effective_order=True`` is what sacreBLEU recommends, ``smoothing="add-k"`` what Lin and Och (2004) proposed.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusBLEU.update` takes.
        target: the references of each hypothesis.
        options: those of :class:`lightning_bleu.CorpusBLEU`, and the smoothings that know sentences only.

    Returns:
        scores of shape ``(sentences,)`` in 64-bit floating point (32-bit where the device has no other), in 0..1, or in
        0..100 with ``percent``, on the device of the ids (strings: the CPU). Nothing waits for the device, so that the
        scores can serve as rewards.

    Raises:
        TypeError: for inputs or options of a wrong type.
        ValueError: for inputs that do not fit each other, or unknown options.

    Example:
        >>> preds = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 8]])
        >>> target = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]])
        >>> sentence_bleu(preds, target, smoothing="add-k")
        tensor([1.0000, 0.5623], dtype=torch.float64)
    """
    settings = make_settings(**options)
    orders = settings.max_order + settings.smoothing.next_order
    statistics, _ = sentence_statistics(preds, target, settings, orders=orders)
    return score(statistics, settings).bleu * settings.scale
