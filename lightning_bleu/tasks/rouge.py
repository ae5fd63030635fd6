"""ROUGE of summarization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

from lightning_bleu.core.settings import describe
from lightning_bleu.tasks.task_metric import Normalizer, TaskMetric, check_callable, check_installed, normalize_text

# Summarization


ROUGE_KEYS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""The scores that papers report."""


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
        ValueError: for unknown keys, and for a stemmer with a tokenizer, which would ignore it.

    Notes:
        ROUGE (Lin 2004, https://aclanthology.org/W04-1013), with the scores of rouge-score. ``parts=["recall"]`` of an
        evaluator also logs the mean recall of each, as ``val_rouge/rouge1/recall``, and ``"precision"`` the precision.
    """

    short_name = "rouge"
    versions: ClassVar[Mapping[str, str]] = {"rouge-score": "rouge-score"}
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

        if tokenizer is not None and use_stemmer:
            raise ValueError("'use_stemmer' has no effect with a 'tokenizer' of your own: stem the tokens there")
        keys = tuple(keys)
        RougeScorer(keys).score("", "")  # raises an error for unknown keys
        tokenize = getattr(tokenizer, "tokenize", tokenizer)
        check_callable("tokenizer", tokenize)
        wrapped = None if tokenizer is None else SimpleNamespace(tokenize=tokenize)
        scorer = RougeScorer(keys, use_stemmer, tokenizer=wrapped)
        score = partial(score_rouge, scorer=scorer, normalize=normalize)
        options = {"keys": keys, "use_stemmer": use_stemmer, "normalize": normalize, "tokenizer": tokenizer}
        sensitive_to = ("latin",) if tokenizer is None else ()
        signature = {
            "stemmer": "yes" if use_stemmer else "no",
            "tok": "rouge-score" if tokenizer is None else describe(tokenizer),
        }
        super().__init__(score, options, signature, percent=percent, sensitive_to=sensitive_to, score_names=keys)


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
