"""Conventions: the differences between BLEU programs, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_bleu.settings.tokenizers import Tokenizer


@dataclass(frozen=True)
class Convention:
    """The choices that make BLEU programs print different scores for the same text.

    Attributes:
        tokenizer: for strings, a name from :data:`lightning_bleu.settings.tokenizers.TOKENIZERS` or a callable that
            takes a line and returns its tokens.
        lowercase: whether strings are lowercased before they are tokenized.
        smoothing: a name from :data:`lightning_bleu.settings.smoothing.SMOOTHINGS`.
        smoothing_value: the value of the smoothing; None for its default.
        reference_length: a name from :data:`lightning_bleu.settings.lengths.REFERENCE_LENGTHS`.
        effective_order: whether to skip the orders for which all hypotheses are too short.
        zero_rule: when the score is 0, a name from :data:`lightning_bleu.settings.smoothing.ZERO_RULES`.
        min_possible_matches: the minimum number of possible matches per sentence and order; smaller counts are raised
            to it.
    """

    tokenizer: Tokenizer = "13a"
    lowercase: bool = False
    smoothing: str = "none"
    smoothing_value: float | None = None
    reference_length: str = "closest"
    effective_order: bool = False
    zero_rule: str = "no-match"
    min_possible_matches: int = 0


CONVENTIONS: Mapping[str, Convention] = {
    # https://aclanthology.org/P02-1040
    "papineni": Convention(),
    # sacrebleu.metrics.BLEU
    "sacrebleu": Convention(smoothing="exp"),
    # nltk.translate.bleu_score.corpus_bleu with its default smoothing, method0
    "nltk": Convention(tokenizer="none", smoothing="method0", zero_rule="leave-out", min_possible_matches=1),
    # compute_bleu of the tensorflow/nmt scripts
    "gnmt": Convention(tokenizer="none", reference_length="shortest", zero_rule="as-smoothed"),
    # "bleu" of Hugging Face evaluate: gnmt with 13a
    "evaluate": Convention(reference_length="shortest", zero_rule="as-smoothed"),
    # torchmetrics.text.BLEUScore
    "torchmetrics": Convention(tokenizer="none", reference_length="closest-first", zero_rule="every-order"),
    # CorpusBLEUMetric of fastai's translation notebooks
    "fastai": Convention(tokenizer="none", zero_rule="as-smoothed"),
    # Google's evaluation notebook
    "overlap": Convention(tokenizer="none", zero_rule="leave-out"),
    # fairseq.scoring.bleu; set unk_id as well
    "fairseq": Convention(tokenizer="none", zero_rule="as-smoothed"),
}
"""Conventions by name. For programs that take a single reference, ``reference_length`` applies to several."""
