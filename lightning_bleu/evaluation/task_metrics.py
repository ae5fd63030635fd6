"""Ready metrics of other tasks, on the libraries that define them: speech recognition, summarization, questions."""

from __future__ import annotations

import importlib.metadata
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from sacrebleu.metrics.ter import TER as SacreTER

from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.messages import WarnOnce
from lightning_bleu.reading.batch import Batch, Sources
from lightning_bleu.reading.forms import InputCounts, kind_of
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.evaluator_metric import EvaluatorMetric
from lightning_bleu.scoring.scoring import RatioScorer, join_signature
from lightning_bleu.settings.settings import (
    check_bool,
    check_integer,
    describe,
    describe_options,
    to_plain,
)

if TYPE_CHECKING:
    from typing_extensions import Self

Normalizer: TypeAlias = Callable[[str], str]
"""Takes a text, and returns the text that is compared."""


class TaskMetric(FunctionMetric):
    """A ready metric: a :class:`lightning_bleu.FunctionMetric` whose options are recorded, so it can be made again.

    Args:
        function: the function.
        options: the options by name, as the user passed them.
        percent: whether scores are in 0..100 rather than in 0..1.
        higher_is_better: whether higher scores are better, perhaps by the name of the score.
        perfect: the best score that a sentence can have, in 0..1.
    """

    short_name: ClassVar[str]

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        *,
        percent: bool,
        higher_is_better: bool | Mapping[str, bool],
        perfect: float,
    ) -> None:
        super().__init__(function, higher_is_better=higher_is_better, percent=percent, perfect=perfect)
        self.options = dict(options)

    def __repr__(self) -> str:
        given = describe_options({**self.options, "percent": self.percent}, defaults_of=type(self))
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def scale(self) -> bool:
        """Whether scores are in 0..100 rather than in 0..1."""
        return self.percent

    def plain_settings(self) -> dict[str, Any]:
        """The options as plain values. Callables are represented by their names."""
        return {name: to_plain(value) for name, value in self.options.items()}

    @classmethod
    def from_plain(cls, settings: Mapping[str, Any], *, percent: bool) -> Self:
        """The metric with recorded settings.

        Raises:
            TypeError: for a setting that has been a callable, of which only the name is known.
        """
        options = dict(settings)
        options.pop("higher_is_better", None)
        return cls(**options, percent=percent)

    @abstractmethod
    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""


def _check_installed(metric: str, module: str, extra: str) -> None:
    """Raise an error if a library is missing.

    Raises:
        ModuleNotFoundError: with the extra that installs it.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{metric} needs {module}, which is not installed: pip install 'lightning-bleu[{extra}]'", name=module
        ) from error


# Speech recognition


class ErrorRate(TaskMetric):
    """The errors per unit of the references: :class:`WER` and :class:`CER`."""

    unit: ClassVar[str]
    """What is counted, for the signature."""

    def __init__(self, normalize: Normalizer | None = None, *, percent: bool = False) -> None:
        _check_installed(type(self).__name__, "rapidfuzz", "wer")
        count = partial(count_errors, split=self.split, normalize=_check_normalizer(normalize))
        super().__init__(count, {"normalize": normalize}, percent=percent, higher_is_better=False, perfect=0)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""
        return _sign(self, inputs, {"unit": self.unit}, "rapidfuzz")

    @staticmethod
    @abstractmethod
    def split(text: str) -> Sequence[str]:
        """The units of a text."""


class WER(ErrorRate):
    """The word error rate: wrong, missing, and extra words per word of the references. Lower is better.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator(WER(normalize=str.lower, percent=True), confidence=0.95)
        >>> evaluator.start()
        >>> evaluator.update(["It is a warm day", "bring the boat"], ["it is a warm day", "bring the boots please"])
        >>> print(evaluator.finish(step=0)["val_wer"].report)
        wer = 22.22

    Args:
        normalize: applied to hypotheses and references before they are compared, such as ``str.lower``, or the
            ``EnglishTextNormalizer(tokenizer.english_spelling_normalizer)`` of Whisper. Samples and files have texts
            as they were.
        percent: score in percent.

    Raises:
        ModuleNotFoundError: without rapidfuzz.
        TypeError: for options of the wrong type.

    Notes:
        Words are separated by whitespace, also by no-break spaces, which jiwer keeps inside words. The errors of all
        sentences are divided by the words of all references. Of several references, the closest one counts: that with
        the fewest errors per word, and among equals the longest. An empty reference has no words, and every word of its
        hypothesis is an error. Requires rapidfuzz: ``pip install 'lightning-bleu[wer]'``.
    """

    short_name = "wer"
    unit = "words"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """The words of a text."""
        return text.split()


class CER(ErrorRate):
    """The character error rate: like :class:`WER`, with characters instead of words.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator(CER())
        >>> evaluator.start()
        >>> evaluator.update(["a cat"], [["a cart", "a hat!!"]])
        >>> evaluator.finish(step=0)["val_cer"].score
        0.16666666666666666

    Args:
        normalize: see :class:`WER`.
        percent: score in percent.

    Raises:
        ModuleNotFoundError: without rapidfuzz.
        TypeError: for options of the wrong type.

    Notes:
        Spaces count, but not those at the beginning and the end. Requires rapidfuzz: ``pip install
        'lightning-bleu[wer]'``.
    """

    short_name = "cer"
    unit = "characters"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """The characters of a text."""
        return text.strip()


def count_errors(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    split: Callable[[str], Sequence[str]],
    normalize: Normalizer | None,
) -> list[tuple[int, int]]:
    """The errors of each hypothesis, and the length of its closest reference.

    Args:
        hypotheses: the hypotheses.
        references: the references of each hypothesis.
        split: gives the words or characters of a text.
        normalize: applied to every text before; None for nothing.

    Example:
        >>> count_errors(["a b c", "a"], [["a x c", "a b d e f g"], [""]], split=str.split, normalize=None)
        [(1, 3), (1, 0)]
    """
    from rapidfuzz.distance import Levenshtein

    pairs = []
    for hypothesis, references_of_it in zip(hypotheses, references):
        items = split(_normalize(hypothesis, normalize))
        candidates = []
        for reference in references_of_it:
            reference_items = split(_normalize(reference, normalize))
            candidates.append((Levenshtein.distance(items, reference_items), len(reference_items)))
        pairs.append(min(candidates, key=_closeness))
    return pairs


def _closeness(pair: tuple[int, int]) -> tuple[float, int]:
    """The error rate of a sentence, then the negative length of its reference, so that the smallest is the closest.

    Example:
        >>> sorted([(1, 0), (2, 4), (0, 0), (1, 2)], key=_closeness)
        [(0, 0), (2, 4), (1, 2), (1, 0)]
    """
    errors, length = pair
    if length:
        return errors / length, -length
    return (np.inf if errors else 0.0), 0


# Translation


class TER(TaskMetric):
    """The translation edit rate of sacreBLEU: edits, which may move phrases, per word of the references.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator(TER(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["on the mat the cat sat"], ["the cat sat on the mat"])
        >>> print(evaluator.finish(step=0)["val_ter"].report)
        ter = 16.67

    Args:
        normalized: separate punctuation, and decode XML entities.
        no_punct: remove punctuation.
        asian_support: with `normalized`, separate Chinese and Japanese characters; with `no_punct`, remove their
            punctuation, too.
        case_sensitive: do not lowercase.
        percent: score in percent.

    Raises:
        TypeError: for options of the wrong type.

    Notes:
        TER (Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25). Lower is better. Of several references,
        that with the fewest edits counts, and the average of their lengths. Scores and options are those of ``sacrebleu
        -m ter``.
    """

    short_name = "ter"

    def __init__(
        self,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
        case_sensitive: bool = False,
        *,
        percent: bool = False,
    ) -> None:
        options = {
            "normalized": check_bool("normalized", normalized),
            "no_punct": check_bool("no_punct", no_punct),
            "asian_support": check_bool("asian_support", asian_support),
            "case_sensitive": check_bool("case_sensitive", case_sensitive),
        }
        count = partial(count_edits, ter=SacreTER(normalized, no_punct, asian_support, case_sensitive))
        super().__init__(count, options, percent=percent, higher_is_better=False, perfect=0)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line; sacreBLEU's with this package's."""
        options = self.options
        return join_signature(
            {
                "nrefs": inputs.reference_count,
                "case": "mixed" if options["case_sensitive"] else "lc",
                "tok": "tercom",
                "norm": "yes" if options["normalized"] else "no",
                "punct": "no" if options["no_punct"] else "yes",
                "asian": "yes" if options["asian_support"] else "no",
            }
        )


def count_edits(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, ter: SacreTER
) -> list[tuple[float, float]]:
    """The edits of each hypothesis, and the average length of its references.

    Example:
        >>> count_edits(["a b c"], [["b c a", "a b c d e"]], ter=SacreTER())
        [(1, 4.0)]
    """
    pairs = []
    for hypothesis, references_of_it in zip(hypotheses, references):
        score = ter.sentence_score(hypothesis, list(references_of_it))
        pairs.append((score.num_edits, score.ref_length))
    return pairs


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
        keys: the scores: ``"rouge1"`` to ``"rouge9"`` for n-grams, ``"rougeL"``, and ``"rougeLsum"``.
        use_stemmer: remove the endings of English words with the stemmer of Porter.
        normalize: applied to hypotheses and references before they are compared. Samples and files have the texts as
            they were.
        tokenizer: splits a text into a list of tokens, instead of rouge-score's own: a callable such as ``jieba.lcut``,
            or an object with a method ``tokenize``.
        percent: score in percent.

    Raises:
        ModuleNotFoundError: without rouge-score.
        TypeError: for options of the wrong type.
        ValueError: for unknown or repeated keys, and for a stemmer with a tokenizer, which would ignore it.

    Notes:
        ROUGE (Lin 2004, https://aclanthology.org/W04-1013). Each key is a score of its own, logged as
        ``val_rouge/rouge1`` and so on: the mean over the summaries. Of several references, that with the highest
        F-measure counts. Scores are those of rouge-score, and so of ``evaluate``: ``pip install
        'lightning-bleu[rouge]'``.

        ``rougeLsum`` compares sentence by sentence, and needs a line per sentence: `normalize` can put line breaks
        between them, as ``lambda text: "\\n".join(nltk.sent_tokenize(text))`` does.

        rouge-score keeps only the letters a to z and digits. For other scripts, pass a `tokenizer`.
    """

    short_name = "rouge"

    def __init__(
        self,
        keys: Sequence[str] = ROUGE_KEYS,
        use_stemmer: bool = False,
        normalize: Normalizer | None = None,
        tokenizer: Any = None,
        *,
        percent: bool = False,
    ) -> None:
        _check_installed(type(self).__name__, "rouge_score", "rouge")
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        keys = _check_rouge_keys(keys)
        check_bool("use_stemmer", use_stemmer)
        if tokenizer is not None and use_stemmer:
            raise ValueError("'use_stemmer' has no effect with a 'tokenizer' of your own: stem the tokens there")
        wrapped = None if tokenizer is None else _RougeTokenizer(tokenizer)
        score = partial(
            score_rouge,
            scorer=RougeScorer(keys, use_stemmer, tokenizer=wrapped),
            normalize=_check_normalizer(normalize),
            warn=None if tokenizer is not None else WarnOnce(),
        )
        options = {"keys": keys, "use_stemmer": use_stemmer, "normalize": normalize, "tokenizer": tokenizer}
        super().__init__(score, options, percent=percent, higher_is_better=dict.fromkeys(keys, True), perfect=1)

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
        return _sign(self, inputs, fields, "rouge-score")


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
    warn: WarnOnce | None,
) -> dict[str, list[float]]:
    """The F-measures of each hypothesis by key, with its best reference.

    Args:
        hypotheses: the hypotheses.
        references: the references of each hypothesis.
        scorer: a ``RougeScorer``.
        normalize: applied to every text before; None for nothing.
        warn: warns about references without tokens of rouge-score; None for another tokenizer.
    """
    scores: dict[str, list[float]] = {key: [] for key in scorer.rouge_types}
    for hypothesis, references_of_it in zip(hypotheses, references):
        targets = [_normalize(reference, normalize) for reference in references_of_it]
        best = scorer.score_multi(targets, _normalize(hypothesis, normalize))
        for key, score in best.items():
            scores[key].append(score.fmeasure)
        if warn is not None:
            _suspect_script(targets, warn)
    return scores


def _suspect_script(references: Sequence[str], warn: WarnOnce) -> None:
    """Warn about references that have letters, but none that rouge-score keeps."""
    for reference in references:
        has_letters = any(map(str.isalpha, reference))
        if has_letters and not re.search("[a-z0-9]", reference.lower()):
            warn(
                f"ROUGE scores 0 for the reference {reference[:40]!r}, because rouge-score keeps only the letters a to "
                "z and digits: pass ROUGE(tokenizer=...), a function that splits a text into tokens, such as "
                "jieba.lcut for Chinese, or list for characters.",
                key="script",
            )


# Questions


class ExactMatch(TaskMetric):
    """The share of hypotheses that equal one of their references.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator({"exact": ExactMatch(normalize=str.lower)})
        >>> evaluator.start()
        >>> evaluator.update(["Paris", "Rome"], [["paris", "Paris, France"], ["Milan"]])
        >>> evaluator.finish(step=0)["val_exact"].score
        0.5

    Args:
        normalize: applied to hypotheses and references before they are compared. Samples and files have the texts as
            they were.
        percent: score in percent.

    Raises:
        TypeError: for options of the wrong type.
    """

    short_name = "exact_match"

    def __init__(self, normalize: Normalizer | None = None, *, percent: bool = False) -> None:
        match = partial(find_exact, normalize=_check_normalizer(normalize))
        super().__init__(match, {"normalize": normalize}, percent=percent, higher_is_better=True, perfect=1)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""
        return _sign(self, inputs, {})


def find_exact(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, normalize: Normalizer | None
) -> list[bool]:
    """Whether each hypothesis equals one of its references.

    Example:
        >>> find_exact(["a", "b"], [["x", "a"], ["a"]], normalize=None)
        [True, False]
    """
    matches = []
    for hypothesis, references_of_it in zip(hypotheses, references):
        targets = [_normalize(reference, normalize) for reference in references_of_it]
        matches.append(_normalize(hypothesis, normalize) in targets)
    return matches


# What they have in common


def _check_normalizer(normalize: Any) -> Normalizer | None:
    """Check the option `normalize`."""
    if normalize is not None and (isinstance(normalize, type) or not callable(normalize)):
        raise TypeError(f"'normalize' must be a function that takes and returns a string, got {normalize!r}")
    checked: Normalizer | None = normalize
    return checked


def _normalize(text: str, normalize: Normalizer | None) -> str:
    """A text as it is compared."""
    if normalize is None:
        return text
    normalized = normalize(text)
    if not isinstance(normalized, str):
        raise TypeError(f"'normalize' must return a string, got {normalized!r:.80} of type {type(normalized).__name__}")
    return normalized


def _sign(metric: TaskMetric, inputs: InputCounts, fields: Mapping[str, str], library: str = "") -> str:
    """The signature of a metric with the option `normalize`.

    Args:
        metric: the metric.
        inputs: the numbers of its references.
        fields: what else it depends on.
        library: the package that computes it; empty for none.
    """
    normalize = metric.options["normalize"]
    versions = {library: importlib.metadata.version(library)} if library else {}
    shown = "no" if normalize is None else describe(normalize)
    return join_signature({"nrefs": inputs.reference_count, **fields, "normalize": shown}, versions)


TASK_METRICS: dict[str, type[TaskMetric]] = {metric.__name__: metric for metric in (WER, CER, TER, ROUGE, ExactMatch)}
"""The ready metrics by the names of their classes, as they are recorded."""


# Lengths


class TokenCount(EvaluatorMetric):
    """The mean number of ids per hypothesis, without padding, as a metric of an :class:`Evaluator`.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator({"gen_len": TokenCount(pad_id=0)})
        >>> evaluator.start()
        >>> evaluator.update([[5, 6, 7, 1], [8, 1, 0, 0]], None)
        >>> evaluator.finish(step=0)["val_gen_len"].score
        3.0

    Args:
        pad_id: the padding id. When None: the `pad_id` of the other metrics, or that of the tokenizer that decodes the
            ids. Negative ids, such as -100, are padding, too.

    Raises:
        TypeError, ValueError: if `pad_id` is not an integer of 0 or more. During a validation, for text instead of ids.

    Notes:
        It needs no references. Neither more nor fewer ids are better. In ``run_summarization.py`` and
        ``run_translation.py`` of Transformers, it is ``gen_len``.
    """

    columns = 2
    needs_references = False

    def __init__(self, pad_id: int | None = None) -> None:
        self.pad_id = None if pad_id is None else check_integer("pad_id", pad_id, at_least=0)

    def __repr__(self) -> str:
        return "TokenCount()" if self.pad_id is None else f"TokenCount(pad_id={self.pad_id})"

    def scorer_of(self, name: str, score_name: str) -> RatioScorer:
        """The number of ids over that of hypotheses. Neither more nor fewer are better."""
        return RatioScorer(name, higher_is_better=None, settings=self.plain_settings())

    def plain_settings(self) -> dict[str, Any]:
        """What the score depends on, as plain values."""
        return {"pad_id": self.pad_id}

    def count_batch(self, name: str, batch: Batch, sources: Sources | None) -> IntArray:
        """The number of ids of each hypothesis without padding, and 1, shape ``(sentences, 2)``.

        Raises:
            TypeError: for a batch without ids.
        """
        kind = kind_of(batch.segments)
        if batch.passed_ids is None and batch.sentence_count and kind != "empty":
            raise TypeError(
                f"the metric {name!r} counts ids, got {kind}: pass ids as 'preds', and decode them with the option "
                "decoder=tokenizer"
            )
        rows = np.zeros((batch.sentence_count, 2), np.int64)
        rows[:, 1] = 1
        if batch.passed_ids is not None:
            (ids, lengths), pad_id = batch.passed_ids
            if self.pad_id is not None:
                pad_id = self.pad_id
            is_counted = ids >= 0
            if pad_id is not None:
                is_counted &= ids != pad_id
            hypotheses = np.arange(len(lengths)).repeat(lengths)
            rows[:, 0] = np.bincount(hypotheses[is_counted], minlength=len(lengths))
        return rows
