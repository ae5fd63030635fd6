"""WER and CER of speech recognition, and TER of translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import ClassVar

from sacrebleu.metrics.ter import TER as SacreTER

from lightning_bleu.core.scoring import closeness
from lightning_bleu.core.settings import check_bool
from lightning_bleu.evaluation.metrics.functions import SKIPPED
from lightning_bleu.tasks.task_metric import Normalizer, TaskMetric, check_installed, normalize_text

# Speech recognition

_SPLITS: Mapping[str, Callable[[str], Sequence[str]]] = {"words": str.split, "characters": str.strip}
"""What gives the units of a text."""
_EDITS = ("insertions", "deletions", "substitutions")


class ErrorRate(TaskMetric):
    """The errors per unit of the references: :class:`WER` and :class:`CER`."""

    is_error_rate = True
    versions: ClassVar[Mapping[str, str]] = {"rapidfuzz": "rapidfuzz"}
    has_counts = True
    unit: ClassVar[str]
    """What is counted."""
    aspects: ClassVar[Collection[str]]
    """What of a text that is not normalized changes the score, besides subwords."""

    def __init__(self, normalize: Normalizer | None = None, *, skip_empty: bool = False, percent: bool = False) -> None:
        check_installed(type(self).__name__, "rapidfuzz", "wer")
        check_bool("skip_empty", skip_empty)
        self.split_units = partial(split_normalized, unit=self.unit, normalize=normalize)
        count = partial(count_errors, split=self.split_units, skip_empty=skip_empty)
        options = {"normalize": normalize, "skip_empty": skip_empty}
        signature = {"unit": self.unit, **({"empty": "skipped"} if skip_empty else {})}
        super().__init__(count, options, signature, percent=percent, sensitive_to=self.aspects)
        if skip_empty:
            self.column_names = (*self.column_names, SKIPPED)


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
            as they were, and words are only marked where all normalized words are in the text.
        skip_empty: leave out sentences none of whose references has a word after `normalize`, as scripts for Whisper
            do. They have no score, and the report says how many they are.
        percent: score in percent.

    Raises:
        ModuleNotFoundError: without rapidfuzz.
        TypeError: for options of the wrong type.

    Notes:
        Words are separated by whitespace, also by no-break spaces, which jiwer keeps inside words. The errors of all
        sentences are divided by the words of all references. Of several references, the closest one counts: that with
        the fewest errors per word, and among equals the longest. An empty reference has no words, and every word of its
        hypothesis is an error. Its components add up to it: ``val_wer/insertions``, ``val_wer/deletions``, and
        ``val_wer/substitutions`` are extra, missing, and wrong words per word of the references. Requires rapidfuzz:
        ``pip install 'lightning-bleu[wer]'``.
    """

    short_name = "wer"
    unit = "words"
    column_names = ("errors", unit, *_EDITS)
    aspects = ("case", "punctuation", "spaces")


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
        skip_empty: see :class:`WER`; here, without a character.
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
    column_names = ("errors", unit, *_EDITS)
    aspects = ("case", "punctuation")


def split_normalized(text: str, *, unit: str, normalize: Normalizer | None) -> Sequence[str]:
    """The words or characters of a text, as they are compared.

    Example:
        >>> split_normalized("A cat", unit="words", normalize=str.lower)
        ['a', 'cat']
    """
    return _SPLITS[unit](normalize_text(text, normalize))


def count_errors(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    split: Callable[[str], Sequence[str]],
    skip_empty: bool = False,
) -> list[tuple[int, ...]]:
    """The errors of each hypothesis, the length of its closest reference, and its insertions, deletions, substitutions.

    With `skip_empty`, whether it is skipped comes last.

    Args:
        hypotheses: the hypotheses.
        references: the references of each hypothesis.
        split: gives the words or characters of a text.
        skip_empty: count nothing for a hypothesis whose references are all empty.

    Example:
        >>> count_errors(["a b c", "a"], [["a x c", "a b d e f g"], [""]], split=str.split)
        [(1, 3, 0, 0, 1), (1, 0, 1, 0, 0)]
    """
    from rapidfuzz.distance import Levenshtein

    rows: list[tuple[int, ...]] = []
    for hypothesis, references_of_it in zip(hypotheses, references):
        items = split(hypothesis)
        candidates = []
        for reference in references_of_it:
            reference_items = split(reference)
            candidates.append((Levenshtein.distance(reference_items, items), len(reference_items), reference_items))
        errors, length, closest = min(candidates, key=lambda candidate: closeness(*candidate[:2]))
        if skip_empty and not any(length for _, length, _ in candidates):
            rows.append((0, 0, 0, 0, 0, 1))
            continue
        kinds = Counter[str]()
        if errors:
            kinds.update(edit.tag for edit in Levenshtein.editops(closest, items))
        row = (errors, length, kinds["insert"], kinds["delete"], kinds["replace"])
        rows.append((*row, 0) if skip_empty else row)
    return rows


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
        TypeError: if `percent` is not a boolean.

    Notes:
        TER (Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25). Lower is better. Of several references,
        that with the fewest edits counts, and the average of their lengths. Scores and options are those of ``sacrebleu
        -m ter``: without any word in the references, the score is 1, or 0 without edits.
    """

    short_name = "ter"
    is_error_rate = True
    versions: ClassVar[Mapping[str, str]] = {"version": "sacrebleu"}  # as sacreBLEU names its own
    over_zero = 1.0

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
            "normalized": normalized,
            "no_punct": no_punct,
            "asian_support": asian_support,
            "case_sensitive": case_sensitive,
        }
        count = partial(count_edits, ter=SacreTER(normalized, no_punct, asian_support, case_sensitive))
        aspects = {"case": case_sensitive, "punctuation": not no_punct, "spaces": not asian_support}
        sensitive_to = [aspect for aspect, is_seen in aspects.items() if is_seen]
        signature = {  # as sacreBLEU names the options
            "case": "mixed" if case_sensitive else "lc",
            "tok": "tercom",
            "norm": "yes" if normalized else "no",
            "punct": "no" if no_punct else "yes",
            "asian": "yes" if asian_support else "no",
        }
        super().__init__(count, options, signature, percent=percent, sensitive_to=sensitive_to)


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
