"""Stateless scores: of a corpus, and of single sentences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from lightning_bleu.counting.bleu import count_rows
from lightning_bleu.eager import eager
from lightning_bleu.messages import warn_user
from lightning_bleu.reading.batch import Batch, read_batch
from lightning_bleu.reading.forms import Hypotheses, References
from lightning_bleu.reading.mistakes import suspect_tokenizer
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.bleu import BLEUScore, bleu_scoring, bleu_signature
from lightning_bleu.scoring.chrf import CHRFScore, chrf_rows, chrf_scoring, chrf_signature
from lightning_bleu.scoring.scoring import float_type
from lightning_bleu.scoring.signature import InputCounts
from lightning_bleu.settings.bleu import BLEUOptions, BLEUSettings
from lightning_bleu.settings.chrf import CHRFOptions, CHRFSettings
from lightning_bleu.settings.conventions import CONVENTIONS
from lightning_bleu.settings.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


def corpus_bleu(preds: Hypotheses, target: References, **options: Unpack[BLEUOptions]) -> BLEUScore:
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
    settings = BLEUSettings.from_options(**options).for_corpus()
    rows, batch = _count(preds, target, settings, count_rows)
    return BLEUScore.from_statistics(rows.sum(0), settings, bleu_signature(settings, InputCounts.of(batch)))


def sentence_bleu(preds: Hypotheses, target: References, **options: Unpack[BLEUOptions]) -> Tensor:
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
        ``percent``, on the device of the ids (the CPU for strings). Ids on an accelerator are copied to the CPU to be
        counted, which waits for the model that produces them.

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
    settings = BLEUSettings.from_options(**options)
    orders = settings.max_order + settings.smoothing_method.needs_next_order
    rows, batch = _count(preds, target, settings, partial(count_rows, orders=orders))
    scores = bleu_scoring(settings).score(rows)
    return scores.to(batch.device, float_type(batch.device))


def corpus_chrf(preds: Hypotheses, target: References, **options: Unpack[CHRFOptions]) -> CHRFScore:
    """Score a corpus with chrF.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusCHRF.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusCHRF`.

    Returns:
        the score and its components.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.

    Example:
        >>> corpus_chrf(["the cat sat on the mat"], ["the cat sat on a mat"], word_order=2, percent=True).score
        72.03039245302905
    """
    settings = CHRFSettings.from_options(**options)
    rows, batch = _count(preds, target, settings, chrf_rows)
    return CHRFScore.from_statistics(rows.sum(0), settings, chrf_signature(settings, InputCounts.of(batch)))


def sentence_chrf(preds: Hypotheses, target: References, **options: Unpack[CHRFOptions]) -> Tensor:
    """Score each sentence on its own with chrF.

    Args:
        preds: hypotheses, in any form that :meth:`lightning_bleu.CorpusCHRF.update` accepts.
        target: the references of each hypothesis.
        options: the options of :class:`lightning_bleu.CorpusCHRF`.

    Returns:
        scores of shape ``(sentences,)`` in float64 on the CPU, in 0..1, or in 0..100 with ``percent``.

    Raises:
        TypeError: for inputs or options of the wrong type, and for unknown options.
        ValueError: for inputs that do not match, and for options that are out of range.

    Example:
        >>> sentence_chrf(["the cat sat on the mat", "hello"], ["the cat sat on a mat", "hello"])
        tensor([0.7208, 1.0000], dtype=torch.float64)
    """
    settings = CHRFSettings.from_options(**options)
    rows, _ = _count(preds, target, settings, chrf_rows)
    return chrf_scoring(settings).score(rows)


SettingsT = TypeVar("SettingsT", bound=Settings)


@eager
def _count(
    preds: Hypotheses, target: References, settings: SettingsT, count: Callable[[Batch, SettingsT], IntArray]
) -> tuple[Tensor, Batch]:
    """The statistics of every sentence."""
    batch = read_batch(preds, target, settings)
    rows = count(batch, settings)
    for message in (*batch.warnings, *suspect_tokenizer(batch.references, settings)):
        warn_user(message)
    return torch.from_numpy(rows), batch
