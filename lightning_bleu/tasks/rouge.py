"""ROUGE of summarization."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lightning_bleu.core.forms import InputCounts
from lightning_bleu.core.settings import check_bool, describe
from lightning_bleu.tasks.task_metric import (
    Normalizer,
    TaskMetric,
    check_installed,
    check_normalizer,
    make_signature,
    normalize_text,
)

if TYPE_CHECKING:
    from typing_extensions import Self


# Summarization


ROUGE_KEYS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""The scores that papers report."""
_ROUGE_KEY = re.compile(r"rouge[1-9]|rougeL|rougeLsum")


class ROUGE(TaskMetric):
    """The F-measures of ROUGE: words, pairs of words, and common subsequences that a summary shares with a reference.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator(ROUGE(["rouge1", "rougeL"], percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat there"], ["there sat the cat"])
        >>> {name: result.score for name, result in evaluator.finish(step=0).items()}
        {'val_rouge/rouge1': 100.0, 'val_rouge/rougeL': 50.0}

    Args:
        keys: the scores: ``"rouge1"`` to ``"rouge9"`` for n-grams, ``"rougeL"``, and ``"rougeLsum"``, which needs a
            line per sentence. Each is the mean over the summaries, with the best reference of each.
        use_stemmer: remove the endings of English words with the stemmer of Porter.
        normalize: a function of a text, applied to hypotheses and references before they are compared.
        tokenizer: splits a text into tokens: a callable such as ``jieba.lcut``, or an object with a method
            ``tokenize``. When None: that of rouge-score, which keeps only the letters a to z and digits.
        percent: score in 0..100 rather than in 0..1.

    Raises:
        ModuleNotFoundError: without rouge-score: ``pip install 'lightning-bleu[rouge]'``.
        TypeError: for options of the wrong type.
        ValueError: for unknown or repeated keys, and for a stemmer with a tokenizer, which would ignore it.

    Notes:
        ROUGE (Lin 2004, https://aclanthology.org/W04-1013), with the scores of rouge-score. ``parts=["recall"]`` of an
        evaluator also logs the mean recall of each, as ``val_rouge/rouge1/recall``, and ``"precision"`` the precision.
    """

    short_name = "rouge"
    column_names = ("fmeasure", "summaries", "precision", "recall")

    def __init__(
        self,
        keys: Sequence[str] = ROUGE_KEYS,
        use_stemmer: bool = False,
        normalize: Normalizer | None = None,
        tokenizer: Any = None,
        *,
        percent: bool = False,
    ) -> None:
        check_installed(type(self).__name__, "rouge_score", "rouge")
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        keys = _check_rouge_keys(keys)
        check_bool("use_stemmer", use_stemmer)
        if tokenizer is not None and use_stemmer:
            raise ValueError("'use_stemmer' has no effect with a 'tokenizer' of your own: stem the tokens there")
        wrapped = None if tokenizer is None else _RougeTokenizer(tokenizer)
        score = partial(
            score_rouge,
            scorer=RougeScorer(keys, use_stemmer, tokenizer=wrapped),
            normalize=check_normalizer(normalize),
        )
        options = {"keys": keys, "use_stemmer": use_stemmer, "normalize": normalize, "tokenizer": tokenizer}
        super().__init__(score, options, percent=percent, higher_is_better=dict.fromkeys(keys, True), perfect=1)
        self.sees = ["subwords"]
        if tokenizer is None and normalize is None:
            self.sees.append("latin")

    @classmethod
    def from_plain(cls, settings: Mapping[str, Any], *, percent: bool) -> Self:
        """The metric with recorded settings."""
        return super().from_plain({**settings, "keys": tuple(settings["keys"])}, percent=percent)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""
        tokenizer = self.options["tokenizer"]
        fields = {
            "stemmer": "yes" if self.options["use_stemmer"] else "no",
            "tok": "rouge-score" if tokenizer is None else describe(tokenizer),
        }
        return make_signature(self, inputs, fields, "rouge-score")


class _RougeTokenizer:
    """A tokenizer as rouge-score calls it.

    Args:
        tokenizer: a callable, or an object with a method ``tokenize``.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenize = getattr(tokenizer, "tokenize", tokenizer)
        is_class = isinstance(tokenizer, type) and hasattr(tokenizer, "tokenize")
        if is_class or not callable(self.tokenize):
            raise TypeError(
                f"'tokenizer' must be a callable that returns tokens, or have a method 'tokenize', got {tokenizer!r}"
            )


def _check_rouge_keys(keys: Any) -> tuple[str, ...]:
    """Check the names of the scores of ROUGE."""
    if not isinstance(keys, list | tuple):
        raise TypeError(f"'keys' must be a list of names such as 'rouge1', got {keys!r}")
    wrong = [key for key in keys if not isinstance(key, str) or not _ROUGE_KEY.fullmatch(key)]
    if wrong:
        raise ValueError(f"'keys' must be 'rouge1' to 'rouge9', 'rougeL', or 'rougeLsum', got {wrong[0]!r}")
    if not keys or len(set(keys)) < len(keys):
        raise ValueError(f"'keys' must have one or more different names, got {list(keys)}")
    return tuple(keys)


def score_rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    scorer: Any,
    normalize: Normalizer | None,
) -> dict[str, list[tuple[float, ...]]]:
    """The F-measure, 1, the precision, and the recall of each hypothesis by key, with its best reference.

    Args:
        hypotheses: the hypotheses.
        references: the references of each hypothesis.
        scorer: a ``RougeScorer``.
        normalize: applied to every text before; None for nothing.
    """
    scores: dict[str, list[tuple[float, ...]]] = {key: [] for key in scorer.rouge_types}
    for hypothesis, references_of_it in zip(hypotheses, references):
        targets = [normalize_text(reference, normalize) for reference in references_of_it]
        best = scorer.score_multi(targets, normalize_text(hypothesis, normalize))
        for key, score in best.items():
            scores[key].append((score.fmeasure, 1, score.precision, score.recall))
    return scores
