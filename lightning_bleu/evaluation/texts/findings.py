"""What stands out in the texts of a validation: findings, which say what may be wrong, and lead to the documentation.

A finding compares hypotheses with their references and sources. What the references do as well is none, except marks of
subwords, special tokens, and prompts, which are wrong on either side. Thresholds are such that correct data reaches
none, as far as known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.evaluation.texts.evidence import SCRIPTS, Evidence
from lightning_bleu.views.blocks import Block, Note

_PAGE = "reading_the_dashboard.html"
"""The page of the documentation that has a row for each key."""
_MIN_SENTENCES = 4
"""How many sentences must be an example of a finding."""
_MIN_ONE_SIDED = 20
"""How many sentences there must be to conclude that a side has no upper case or no punctuation."""
_MIN_LEAK = 100
"""How many hypotheses must equal their references. Fewer may be a test of overfitting."""


class Finding(NamedTuple):
    """Something that stands out in the texts of a validation.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU())
        >>> evaluator.start()
        >>> evaluator.update([""] * 4, ["one cat", "two cats", "three cats", "no cats"])
        >>> evaluator.finish(step=0).findings
        [Finding(key='empty', message='4 of 4 hypotheses are empty.', where='')]

    Attributes:
        key: what it is, such as ``"loops"``. The documentation explains it at :attr:`place`.
        message: a sentence, with the number that led to it.
        where: the name of the loader, or of the system, if there are several.
    """

    key: str
    message: str
    where: str = ""

    @property
    def place(self) -> str:
        """The place in the documentation that explains it, such as ``"reading_the_dashboard.html#loops"``."""
        return f"{_PAGE}#{self.key}"

    def to_dict(self) -> dict[str, Any]:
        """The attributes as plain values."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class _Judge:
    """What the rules ask about evidence.

    Args:
        evidence: the evidence.
        metrics: the metrics by name.
    """

    def __init__(self, evidence: Evidence, metrics: Mapping[str, EvaluatorMetric]) -> None:
        self.evidence = evidence
        self.pairs = evidence.pairs
        self.sides = {"hypotheses": evidence.hypotheses, "references": evidence.references}
        self.metrics = metrics
        self._messages: dict[str, str] = {}

    def find(self, key: str) -> str:
        """The sentence of a finding; empty if there is none."""
        if key not in self._messages:
            self._messages[key] = RULES[key].find(self)
        return self._messages[key]

    def are_many(self, count: int, share: float, among: int | None = None) -> bool:
        """Whether these are at least a share of the sentences, or of others."""
        among = self.evidence.count if among is None else among
        return count >= max(_MIN_SENTENCES, share * among)

    def of_all(self, count: int) -> str:
        """A number of sentences beside that of all: ``"7 of 2,000"``."""
        return f"{count:,} of {self.evidence.count:,}"

    def sensitive_to(self, aspect: str) -> list[str]:
        """The names of the metrics whose scores depend on something in a text."""
        return [name for name, metric in self.metrics.items() if aspect in metric.sensitive_to]

    def one_sided(self, name: str, share: float) -> str:
        """The side that has something in many sentences, if the other side has it in hardly any; or empty."""
        own, other = self.evidence.hypotheses[name], self.evidence.references[name]
        if not self.pairs["with references"]:
            return ""
        if self.are_many(own, share) and 20 * other < own:
            return "hypotheses"
        if self.are_many(other, share) and 20 * own < other:
            return "references"
        return ""

    def one_sided_writing(self, name: str, aspect: str) -> str:
        """The only side with an aspect of writing; empty if no metric sees it, or if the model is weak."""
        has_enough = self.evidence.count >= _MIN_ONE_SIDED
        return self.one_sided(name, 0.5) if has_enough and self.sensitive_to(aspect) and self.translates else ""

    @property
    def translates(self) -> bool:
        """Whether hypotheses share most words with their references, so that the model is not a weak one."""
        return 2 * self.pairs["matched words"] > self.pairs["reference words"]


# What a weak model does


def _find_loops(judge: _Judge) -> str:
    loops, too_long = judge.pairs["loops"], judge.pairs["too long"]
    if judge.find("special-tokens"):  # which may be what is repeated
        return ""
    if judge.are_many(loops, 0.05):
        return f"{judge.of_all(loops)} hypotheses end in a repetition, so they do not stop."
    others = ("prompts", "opening", "after-end", "same-output", "source-as-reference", "shuffled", "vocabulary")
    is_explained = any(map(judge.find, others))
    if judge.are_many(too_long, 0.2) and not is_explained:
        return (
            f"{judge.of_all(too_long)} hypotheses are more than twice as long as their longest reference: they do not "
            "stop, or references are cut."
        )
    return ""


def _find_empty(judge: _Judge) -> str:
    empty = judge.pairs["empty"]
    return f"{judge.of_all(empty)} hypotheses are empty." if judge.are_many(empty, 0.1) else ""


def _find_same_output(judge: _Judge) -> str:
    outputs, answers = judge.evidence.outputs, judge.evidence.answers
    (((_, text), count),) = outputs.most_common(1) or [((0, ""), 0)]
    most_frequent_answer = max(answers.values(), default=0)
    if judge.are_many(count, 0.2) and count >= 4 * most_frequent_answer:
        return f"{judge.of_all(count)} hypotheses are the same: {text[:40]!r}."
    total = outputs.total()
    if judge.evidence.count >= 100 and judge.are_many(total, 0.3) and answers and total >= 3 * answers.total():
        return f"{judge.of_all(total)} hypotheses are one of {len(outputs)} sentences, such as {text[:40]!r}."
    return ""


def _find_limit(judge: _Judge) -> str:
    lengths = judge.evidence.lengths
    longest = max(lengths, default=0)
    cut = judge.evidence.cut_lengths[longest]
    examined = judge.pairs["with words"]
    is_explained = judge.find("prompts") or judge.find("special-tokens") or judge.find("same-output")
    if examined >= _MIN_ONE_SIDED and longest >= 6 and judge.are_many(cut, 0.2, among=examined) and not is_explained:
        return (
            f"{cut:,} of {examined:,} hypotheses have {longest} words, none has more, and their references do: a limit "
            "cuts them, such as max_new_tokens."
        )
    return ""


def _find_vocabulary(judge: _Judge) -> str:
    known, words, examined = (judge.pairs[name] for name in ("known words", "compared words", "compared"))
    is_explained = judge.find("subwords") or judge.find("copies") or judge.find("source-as-reference")
    if words and words >= 4 * examined and 10 * known < words and not is_explained:
        return (
            f"{known:,} of {words:,} words of hypotheses occur in a reference: is it another language, or are spaces "
            "missing?"
        )
    return ""


def _find_copies(judge: _Judge) -> str:
    copies, sources = judge.pairs["copies"], judge.pairs["sources"]
    are_long = 2 * sources >= judge.pairs["with sources"]
    if are_long and judge.are_many(judge.pairs["wrong copies"], 0.2, among=sources):
        return f"{copies:,} of {sources:,} hypotheses are copies of their source."
    return ""


# What a program does


def _find_prompts(judge: _Judge) -> str:
    pairs, sources = judge.pairs, judge.pairs["sources"]
    hypotheses, references = pairs["prompted hypotheses"], pairs["prompted references"]
    are_many = 2 * sources >= pairs["with sources"]  # not only some long ones among many short ones
    in_hypotheses = are_many and judge.are_many(hypotheses, 0.5, among=sources)
    in_references = are_many and judge.are_many(references, 0.5, among=sources)
    cut = "Pass the new tokens only: generated[:, prompts.shape[1]:]."
    if in_hypotheses and in_references:
        return f"{hypotheses:,} of {sources:,} hypotheses contain their source, and so do references. {cut}"
    if in_hypotheses:
        return f"{hypotheses:,} of {sources:,} hypotheses contain their source: the prompt was not removed. {cut}"
    if in_references:
        return f"{references:,} of {sources:,} references contain their source: remove the prompt from the labels."
    opening, count = _shared_opening(judge)
    if opening and len(opening.split()) >= 4 and judge.evidence.count <= 1.1 * _count_opening(judge, opening):
        return f"{judge.of_all(count)} hypotheses begin with {opening!r}, and so do references: both have a prompt."
    return ""


def _find_opening(judge: _Judge) -> str:
    opening, count = _shared_opening(judge)
    is_explained = judge.find("prompts") or judge.find("thinking") or judge.find("same-output")
    others = judge.evidence.reference_openings.total()
    if opening and 5 * others < count and not is_explained:
        return f"{judge.of_all(count)} hypotheses begin with {opening!r}, and references do not: remove it."
    return ""


def _shared_opening(judge: _Judge) -> tuple[str, int]:
    """The beginning of most hypotheses, and how many have it."""
    for (_, opening), count in judge.evidence.openings.most_common(1):
        if judge.are_many(count, 0.5):
            return opening.strip(), count
    return "", 0


def _count_opening(judge: _Judge, opening: str) -> int:
    """How many references have a beginning."""
    openings = judge.evidence.reference_openings
    return sum(count for (_, other), count in openings.items() if other.strip() == opening)


def _find_subwords(judge: _Judge) -> str:
    evidence = judge.evidence
    if not judge.sensitive_to("subwords") or 2 * judge.pairs["plain texts"] <= evidence.count:
        return ""
    advice = "Join the subwords, or pass ids and set decoder=tokenizer."
    return _find_on_either_side(judge, "subwords", "have marks of subwords", advice)


def _find_special_tokens(judge: _Judge) -> str:
    advice = "Decode with skip_special_tokens=True, or pass ids and set decoder=tokenizer, which does that."
    if judge.one_sided("unknown words", 0.2) == "hypotheses":
        count, found = judge.evidence.hypotheses["unknown words"], judge.evidence.hypotheses
        return f"{judge.of_all(count)} hypotheses have unknown words, such as {_quoted(found, 'unknown words')}."
    if judge.find("after-end"):
        return ""
    return _find_on_either_side(judge, "special-tokens", "have special tokens as text", advice)


def _find_after_end(judge: _Judge) -> str:
    evidence = judge.evidence
    count = evidence.hypotheses["after-end"]
    if judge.are_many(count, 0.2) and 20 * evidence.references["after-end"] < count:
        return (
            f"{judge.of_all(count)} hypotheses go on after an end of the sentence, such as "
            f"{_quoted(evidence.hypotheses, 'after-end')}, and what follows is scored. Set eos_id, or cut it off."
        )
    return ""


def _find_on_either_side(judge: _Judge, name: str, what: str, advice: str) -> str:
    """A finding of something that is wrong on either side."""
    sides = []
    for side, of_side in judge.sides.items():
        if judge.are_many(of_side[name], 0.2):
            sides.append(f"{judge.of_all(of_side[name])} {side} {what}, such as {_quoted(of_side, name)}.")
    return " ".join([*sides, advice]) if sides else ""


def _quoted(found: Counter[str], name: str) -> str:
    """The most frequent form of a mark."""
    beginning = f"{name}: "
    forms = {key: count for key, count in found.items() if key.startswith(beginning)}
    return repr(max(forms, key=forms.__getitem__).removeprefix(beginning))


def _find_teacher_forcing(judge: _Judge) -> str:
    widths = judge.evidence.logit_widths
    if len(widths) >= 3 and widths.total() >= 5 and all(logits == labels for logits, labels in widths):
        return (
            f"In all {widths.total():,} batches, the logits are as wide as the labels, as with teacher forcing: the "
            "model saw the right previous tokens. Score what it generates."
        )
    return ""


def _find_shuffled(judge: _Judge) -> str:
    misplaced, in_place = judge.pairs["misplaced"], judge.pairs["in place"]
    examined = judge.pairs["with words"]
    if judge.are_many(judge.evidence.outputs.total(), 0.3) and judge.evidence.outputs.total() > 20:
        return ""  # a weak model, whose few outputs are those of some references
    if misplaced >= 10 and judge.are_many(misplaced, 0.1, among=examined) and misplaced > 5 * in_place:
        return (
            f"{misplaced:,} of {examined:,} hypotheses equal another reference, or have its rare words and none of "
            "their own: hypotheses and references are not in the same order."
        )
    return ""


def _find_leak(judge: _Judge) -> str:
    equal, words = judge.pairs["equal"], judge.pairs["reference words"]
    if equal >= _MIN_LEAK and judge.are_many(equal, 0.98) and words >= 6 * judge.pairs["with words"]:
        return f"{judge.of_all(equal)} hypotheses equal their reference. Are the references scored against themselves?"
    return ""


def _find_case(judge: _Judge) -> str:
    for case in ("upper case", "lower case"):
        side = judge.one_sided_writing(case, "case")
        if side:
            return f"Only the {side} have {case}. Lowercase both sides, or neither."
    return ""


def _find_punctuation(judge: _Judge) -> str:
    side = judge.one_sided_writing("punctuation", "punctuation")
    return f"Only the {side} have punctuation. Remove it from both sides, or from neither." if side else ""


def _find_script(judge: _Judge) -> str:
    pairs = judge.pairs
    at_spaces, latin = judge.sensitive_to("spaces"), judge.sensitive_to("latin")
    for name, script in SCRIPTS.items():
        letters, words = pairs[f"letters: {name}"], pairs[f"words: {name}"]
        if at_spaces and judge.are_many(pairs[name], 0.05) and letters > script.letters_per_word * words:
            splits_text = all(judge.metrics[metric].class_name == "CorpusBLEU" for metric in at_spaces)
            advice = "CorpusCHRF or CER"
            if name == "Chinese or Japanese" and splits_text:
                advice = "CorpusBLEU(tokenizer='zh') or 'ja-mecab'"
            return (
                f"{judge.of_all(pairs[name])} references are {name}, without spaces between words, so whole "
                f"phrases count as words in {' and '.join(at_spaces)}. Use {advice}."
            )
    dropped = pairs["other letters"]
    if latin and judge.are_many(dropped, 0.1):  # more than among German words
        return (
            f"{judge.of_all(dropped)} references have letters other than a to z in most words, which "
            f"{' and '.join(latin)} drops: pass a tokenizer, such as ROUGE(tokenizer=str.split)."
        )
    return ""


def _find_thinking(judge: _Judge) -> str:
    count = judge.evidence.hypotheses["thinking"]
    if judge.one_sided("thinking", 0.1) == "hypotheses":
        return f"{judge.of_all(count)} hypotheses contain <think>: remove everything up to </think>."
    return ""


def _find_entities(judge: _Judge) -> str:
    side = judge.one_sided("entities", 0.05)
    if not side or (side == "references" and not judge.translates):  # a weak model does not write them yet
        return ""
    quoted = _quoted(judge.sides[side], "entities")
    return f"Only the {side} have entities, such as {quoted}: pass them through html.unescape."


def _find_normalization(judge: _Judge) -> str:
    side = judge.one_sided("invisible", 0.1)
    if side:
        return f"Only the {side} have invisible characters, such as soft hyphens: remove them."
    side = judge.one_sided("decomposed", 0.1)
    if side:
        return (
            f"Only the {side} have accents as characters of their own: pass both sides through "
            "unicodedata.normalize('NFC', ...)."
        )
    return ""


def _find_encoding(judge: _Judge) -> str:
    side = judge.one_sided("encoding", 0.05)
    if not side:
        return ""
    quoted = _quoted(judge.sides[side], "encoding")
    return f"Only the {side} have letters of a wrong encoding, such as {quoted}: decode as UTF-8."


def _find_representation(judge: _Judge) -> str:
    if judge.one_sided("representation", 0.5) == "hypotheses":
        return "Only the hypotheses are in quotation marks, as str() or repr() of bytes or lists writes them."
    return ""


def _find_source_as_reference(judge: _Judge) -> str:
    pairs, sources = judge.pairs, judge.pairs["sources"]
    equal = pairs["references equal sources"]
    differ = 10 * pairs["matched words"] < pairs["reference words"]  # unlike those of a model that repeats its source
    are_sentences = pairs["reference words"] >= 4 * pairs["with words"]
    if sources >= _MIN_ONE_SIDED and judge.are_many(equal, 0.95, among=sources) and differ and are_sentences:
        return f"{equal:,} of {sources:,} references equal their source: was the source taken for the reference?"
    return ""


def _find_quotes(judge: _Judge) -> str:
    side = judge.one_sided("curly quotes", 0.1)
    other = "references" if side == "hypotheses" else "hypotheses"
    if side and judge.are_many(judge.sides[other]["straight quotes"], 0.1) and judge.sensitive_to("punctuation"):
        return f"Only the {side} have curly quotation marks, where the others have straight ones."
    return ""


class _Rule(NamedTuple):
    """How a finding is found.

    Attributes:
        find: returns its sentence; empty if there is none.
        warns: whether it is a warning, too: something that a program does, rather than a weak model.
    """

    find: Callable[[_Judge], str]
    warns: bool = True


RULES = {
    "loops": _Rule(_find_loops, warns=False),
    "empty": _Rule(_find_empty, warns=False),
    "same-output": _Rule(_find_same_output, warns=False),
    "copies": _Rule(_find_copies, warns=False),
    "limit": _Rule(_find_limit, warns=False),
    "vocabulary": _Rule(_find_vocabulary, warns=False),
    "source-as-reference": _Rule(_find_source_as_reference, warns=False),
    "prompts": _Rule(_find_prompts),
    "opening": _Rule(_find_opening),
    "subwords": _Rule(_find_subwords),
    "special-tokens": _Rule(_find_special_tokens),
    "after-end": _Rule(_find_after_end),
    "teacher-forcing": _Rule(_find_teacher_forcing),
    "shuffled": _Rule(_find_shuffled),
    "leak": _Rule(_find_leak, warns=False),
    "case": _Rule(_find_case),
    "punctuation": _Rule(_find_punctuation),
    "script": _Rule(_find_script),
    "thinking": _Rule(_find_thinking),
    "entities": _Rule(_find_entities),
    "normalization": _Rule(_find_normalization),
    "encoding": _Rule(_find_encoding),
    "representation": _Rule(_find_representation),
    "quotes": _Rule(_find_quotes, warns=False),
}
"""What can be found, by its key. The documentation has a row for each."""


def find_findings(evidence: Evidence, metrics: Mapping[str, EvaluatorMetric], where: str = "") -> list[Finding]:
    """What stands out.

    Args:
        evidence: what was counted in the sentences of all processes.
        metrics: the metrics by name.
        where: the name of the loader or of the system.
    """
    judge = _Judge(evidence, metrics)
    messages = {key: judge.find(key) for key in RULES}
    return [Finding(key, message, where) for key, message in messages.items() if message]


def describe_findings(findings: Iterable[Finding], title: str = "What stands out") -> list[Block]:
    """What there is to see of findings, each with the place that explains it; nothing without any."""
    lines = [f"{finding} See {finding.place}." for finding in findings]
    return [Note("\n".join([f"{title}:", *lines]))] if lines else []


def select_warnings(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """The keys and messages of those that are warnings as well."""
    return ((finding.key, str(finding)) for finding in findings if RULES[finding.key].warns)
