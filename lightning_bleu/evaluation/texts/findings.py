"""What stands out in the texts of a validation: a wrong score explains itself.

A few general rules look for what no reader would expect. They know no library, no language, and hardly any form:

- *one-sided*: what many texts of one side have, and the other side never has: a string, or a kind of character.
- *changed*: texts that a plain transformation changes, such as ``html.unescape``, on one side only.
- *nearer*: a transformation after which both sides are much more alike, or a word that one side lacks.
- *both-sides*: what is not text, although both sides have it.
- The others say what weak models do, such as loops, and what programs do, such as another order.

All texts are in process 0. Each rule is a function that yields findings; :func:`find_findings` calls them in order.
"""

from __future__ import annotations

import html
import math
import random
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from lightning_bleu.core.mistakes import UNSPACED
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.views.blocks import Block, Note

MAX_EXAMINED = 2000
"""How many sentences of a loader are examined, the first ones."""
MIN_GROUP = 100
"""How many of them a group must have to be examined by itself. A few sentences are alike by chance."""
MIN_DIFFERING = 20
"""How many sentences tell which words, letters, and marks differ. Fewer, such as the toy texts of a first try, may all
have a word by chance."""
MAX_FINDINGS = 3
"""How many findings a loader has at most, so that the first mistake is read."""
MAX_COUNTED = 500
"""In how many sentences words and characters are counted, which takes longer."""
MAX_COMPARED = 50
"""In how many of these characters are compared, which takes longest."""
MAX_CHARACTERS = 2000
"""How many characters of a text are examined, from both of its ends."""
FEW_CHARACTERS = 500
"""The same where it takes longer: NFKC of many combining marks is quadratic."""
LEAST = {
    "symbol": (4, 0.1),  # a name with an accent or a quotation mark is in fewer texts
    "letter": (10, 0.2),  # a name or a unit with a foreign letter
    "mixed": (10, 0.2),  # a word with punctuation, such as "U.S.", in texts of a single topic
    "word": (12, 0.5),  # a frequent word that a weak model does not know yet, or overuses
    "kind": (10, 0.4),  # digits or capitals of a few sentences
    "lost": (10, 0.15),  # "the" that a translation left out
    "changed": (4, 0.05),  # an ellipsis of a single author
    "few": (8, 0.1),  # "Thank you." as the right answer a few times
    "script": (2, 0.045),  # a few Chinese names in English
}
"""How many texts must have something: a number, which keeps chance out of small sets, and a share of all."""
RATIO = 20
"""How many times as many texts there must be as on the other side. Translators differ in a few texts."""
LACK_RATIO = 5
"""The same for what nearly all texts of the other side have."""
NOTE_SHARE = 1 / 3
"""A one-sided thing in fewer texts is no warning: a style of quotation marks, or a frequent name."""
KIND_SHARE = 0.9
"""The same for a kind of characters: a weak model may not write punctuation yet, or may not end yet."""
NEAR = 0.35
"""How near the texts of a good model are to their references: 0.54 to 0.63. Those of BLEU 5 have 0.2."""
TAG = re.compile(r"<[^<>\s]+>|\[\w{2,}\]|>>\w+<<|(?<!\w)_*[a-z]{2,3}_[A-Z]\w+|__[a-z]{2,3}__|\u2047")
"""What looks like a special token, or like the code of a language. Unknown words may be decoded as \u2047."""
SUBWORD = re.compile(r"\w@@ \w|\w ##\w|\u2581\w|\u0120\w+(?: \w+)? \u0120\w+(?: \w+)? \u0120|[a-z]\u0120|\w</w>")
"""The marks of four kinds of subwords. In Maltese, a word may begin with \u0120."""
CODE = re.compile(r"^b['\"]|^\[['\"]")
"""The beginning of bytes or of a list that ``str`` has written."""
CERTAIN = {"one-sided subwords": SUBWORD, "one-sided tags": TAG, "one-sided code": CODE}
"""What is no text, and says enough in a few sentences, too."""
PIECES = {
    "have marks of subwords": SUBWORD,
    "end with ' .', as tokenized text does": re.compile(r"\w \.$"),
    "are single letters with spaces": re.compile(r"((?<!\S)[^\W\d_]\s+){10}"),
}
"""What is no text, although both sides have it."""
ID = re.compile(r"\w{3}.*\d|\d{4}")
"""What a number of a sentence looks like, unlike small numbers."""
REMEDIES = {
    "one-sided subwords": "Join the subwords: decode ids to text.",
    "one-sided tags": "Are they special tokens? Set skip_special_tokens=True. Remove tags with all that they tag.",
    "one-sided code": "Decode bytes, and return strings instead of str(...).",
    "one-sided symbols": "This lowers the score. Print one hypothesis with repr().",
    "one-sided words": "This lowers the score.",
    "one-sided kinds": "Write both sides alike, such as in lower case, or set another tokenizer.",
    "changed": "Pass both sides through the same function.",
    "nearer": "Print one hypothesis with repr().",
    "nearer words": "Was a special token to be removed, as by ids[1:], where there was none?",
    "both-sides pieces": "Pass text: decode ids, and detokenize.",
    "both-sides tokens": "Detokenize both sides, or compare only with scores of tokenized text.",
    "both-sides ends": "They count as right: remove them from both sides.",
    "order": "Is the order the same? Is a line missing?",
    "repeats of sentences": "Count each once, or intervals are too narrow.",
    "repeats of hypotheses": "Pass all references of a sentence in one list.",
    "limit": "Set max_new_tokens above the longest reference, and do not truncate references.",
    "loops": "Early in training, wait. Later, put the end into the labels, and set eos_id.",
    "same-output empty": "Look at the ids: do they begin with the end of a sentence?",
    "same-output": "Early in training, wait. Later, does the decoder see the source?",
    "source as prompt": "Score the new tokens only, generated[:, prompts.shape[1]:], and labels without the prompt.",
    "source copied": "Set the target language.",
    "source as reference": "Return the column of the targets.",
    "leak": "Are the references scored against themselves?",
    "leak of labels": "Score what the model generates.",
    "vocabulary": "Is it another language, or are spaces missing?",
    "vocabulary of a script": "Use CorpusCHRF, or pass a tokenizer: CorpusBLEU(tokenizer='zh'), ROUGE(tokenizer=list).",
}
"""What to do, the last sentence of a message; each name begins with the key of a finding, in their order."""
KEYS = [*dict.fromkeys(name.split()[0] for name in REMEDIES)]
"""The keys of findings, in the order in which they are shown."""
NOTES = {
    "limit",
    "loops",
    "same-output",
    "same-output empty",
    "source copied",
    "source as reference",
    "leak",
    "vocabulary",
    "both-sides tokens",
}
"""What is no warning, because weak models do it, too."""
OTHER = {"hypotheses": "references", "references": "hypotheses"}
"""The other side."""


@dataclass(frozen=True)
class Finding:
    """Something that stands out in the texts of a validation.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU())
        >>> evaluator.start()
        >>> evaluator.update([""] * 4, ["one cat", "two cats", "three cats", "no cats"])
        >>> [finding] = evaluator.finish(step=0).findings
        >>> finding.key, finding.message[:31]
        ('same-output', '4 of 4 hypotheses are empty. Lo')

    Attributes:
        key: what it is, such as ``"loops"``. The documentation explains it at :attr:`place`.
        message: a sentence with the numbers that led to it, and what to do.
        where: the name of the loader, or of the system, if there are several; ``"LOADER/GROUP"`` for a group.
        is_warning: whether it is a warning, too: something that a program does, rather than a weak model.
    """

    key: str
    message: str
    where: str = ""
    is_warning: bool = field(default=True, compare=False, repr=False)

    @property
    def place(self) -> str:
        """The place in the documentation that explains it, such as ``"reading_the_dashboard.html#loops"``."""
        return f"reading_the_dashboard.html#{self.key}"

    def to_dict(self) -> dict[str, Any]:
        """The key, the message, and where it is."""
        return {"key": self.key, "message": self.message, "where": self.where}

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def say(name: str, count: int, size: int, statement: str, *, is_note: bool = False) -> Finding:
    """A finding about some of all sentences.

    Example:
        >>> say("leak", 2000, 2000, "hypotheses equal their reference").message
        '2,000 of 2,000 hypotheses equal their reference. Are the references scored against themselves?'
    """
    message = f"{count:,} of {size:,} {statement}. {REMEDIES[name]}"
    is_warning = not is_note and name not in NOTES
    return Finding(name.split()[0], message, is_warning=is_warning)


def describe_findings(findings: Iterable[Finding], title: str = "What stands out") -> list[Block]:
    """What there is to see of findings, each with the place that explains it; nothing without any."""
    lines = [f"{finding} See {finding.place}." for finding in findings]
    return [Note("\n".join([f"{title}:", *lines]))] if lines else []


def select_warnings(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """The messages of those that are warnings as well, with keys by which each is said once."""
    numbers: Counter[str] = Counter()
    for finding in findings:
        if finding.is_warning:
            numbers[finding.where + finding.key] += 1
            yield f"{finding.key} {numbers[finding.where + finding.key]}", str(finding)


# What is examined


@dataclass(frozen=True, eq=False)
class Texts:
    """Some sentences.

    Attributes:
        hypotheses: their hypotheses.
        references: their references, at least one each.
        sources: their sources; empty strings if they are unknown.
    """

    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]
    sources: Sequence[str]

    def __len__(self) -> int:
        return len(self.hypotheses)

    @cached_property
    def sides(self) -> dict[str, Sequence[str]]:
        """The hypotheses, and the first reference of each."""
        return {"hypotheses": self.hypotheses, "references": [row[0] for row in self.references]}

    @cached_property
    def words(self) -> dict[str, list[list[str]]]:
        """The words of each text."""
        return {side: [text.split() for text in lines] for side, lines in self.sides.items()}

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """A few hypotheses from all parts, each with its first reference, without empty ones."""
        step = -(-len(self) // MAX_COMPARED)
        return [pair for pair in [*zip(*self.sides.values())][::step] if all(pair)]

    @cached_property
    def nearness(self) -> float:
        """How near hypotheses are to their references; see :func:`measure_nearness`."""
        return measure_nearness(self)

    def cut(self, limit: int) -> Texts:
        """The same without the middle of long texts."""
        hypotheses = [keep_ends(text, limit) for text in self.hypotheses]
        references = [[keep_ends(text, limit) for text in row or [""]] for row in self.references]
        sources = [keep_ends(text, limit) for text in self.sources]
        return Texts(hypotheses, references, sources)

    def pick(self, size: int) -> Texts:
        """Some sentences without the middle of long ones, drawn at random: every fourth line may be wrong."""
        numbers = sorted(random.Random(0).sample(range(len(self)), min(size, len(self))))
        hypotheses = [self.hypotheses[number] for number in numbers]
        references = [self.references[number] for number in numbers]
        return Texts(hypotheses, references, [self.sources[number] for number in numbers]).cut(FEW_CHARACTERS)

    def are_many(self, count: int, kind: str) -> bool:
        """Whether so many sentences are enough for something."""
        return is_many(count, len(self), kind)

    def count(self, has: Callable[[str], bool]) -> dict[str, tuple[int, int]]:
        """For each side, how many texts have something, and how many of the other side.

        A sentence has it on its side if all of its references have it, and on the other side if any has.

        Example:
            >>> Texts(["1", "a"], [["a", "2"], ["3"]], ["", ""]).count(str.isdigit)
            {'hypotheses': (1, 2), 'references': (1, 1)}
        """
        hypotheses = sum(map(has, self.hypotheses))
        answers = [list(map(has, row)) for row in self.references]
        return {"hypotheses": (hypotheses, sum(map(any, answers))), "references": (sum(map(all, answers)), hypotheses)}


def is_many(count: int, size: int, kind: str) -> bool:
    """Whether a number of sentences is enough for something: all of a few, or a number and a share.

    Example:
        >>> is_many(5, 5, "few"), is_many(17, 100, "few"), is_many(18, 100, "few")
        (True, False, True)
    """
    number, share = LEAST[kind]
    return count >= min(max(size, 4), number + share * size)


def keep_ends(text: str, limit: int) -> str:
    """The two ends of a long text, without white space around it.

    Example:
        >>> keep_ends(" abcdefgh ", 4)
        'abgh'
    """
    text = text.strip()
    return text if len(text) <= limit else text[: limit // 2] + text[-limit // 2 :]


def likeness(left: str, right: str) -> float:
    """The share of sequences of four characters that two texts have in common.

    Example:
        >>> likeness("a cat", "a car"), likeness("a cat", "")
        (0.5, 0.0)
    """
    pieces = {left[start : start + 4] for start in range(max(1, len(left) - 3))}
    others = {right[start : start + 4] for start in range(max(1, len(right) - 3))}
    return 2 * len(pieces & others) / (len(pieces) + len(others))


def mean_likeness(pairs: Collection[tuple[str, str]]) -> float:
    """The mean of some pairs; 0 without any."""
    return sum(likeness(*pair) for pair in pairs) / max(1, len(pairs))


def measure_nearness(texts: Texts) -> float:
    """How near hypotheses are to their references, whatever the case and the accents.

    0 for a weak model: its hypotheses are no nearer to their own references than to others, or have few different
    words. What such hypotheses lack means nothing.

    Example:
        >>> texts = Texts(["A CAT SAT", "TWO DOGS"], [["a cat sat"], ["two dogs"]], ["", ""])
        >>> measure_nearness(texts), measure_nearness(Texts(texts.hypotheses, texts.references[::-1], ["", ""]))
        (1.0, 0.0)
    """
    different, of_references = (set(re.findall(r"\w+", " ".join(side).lower())) for side in texts.sides.values())
    if 2 * len(different) <= len(of_references):
        return 0.0
    pairs = [(letters_of(hypothesis), letters_of(reference)) for hypothesis, reference in texts.pairs]
    crossed = [(hypothesis, pairs[number - 1][1]) for number, (hypothesis, _) in enumerate(pairs)]
    nearness = mean_likeness(pairs)
    is_near = nearness > 0.02 + 1.3 * mean_likeness(crossed)  # sentences of one topic share some words
    return nearness if is_near else 0.0


def letters_of(text: str) -> str:
    """The letters and digits of a text, without case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text).lower()))


# All rules


def find_findings(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str | None] | None = None,
    *,
    metrics: Mapping[str, EvaluatorMetric] | None = None,
    are_tokens: bool = False,
    has_index: bool = False,
) -> list[Finding]:
    """What stands out in texts, warnings first.

    Args:
        hypotheses: the hypotheses.
        references: the references of each.
        sources: the source of each, if it is known.
        metrics: the metrics by name, some of which do not see case, punctuation, spaces, or subwords; all do when None.
        are_tokens: whether they are tokens that were passed as such.
        has_index: whether the program says which sentence is which, so that repeats are on purpose.

    Example:
        >>> find_findings(["a cat</s>"] * 4 + ["a dog</s>"] * 3, [["a cat"]] * 4 + [["a dog"]] * 3)[0].message[:78]
        "7 of 7 hypotheses end with '</s>', and no references do, as in 'a cat</s>'. Ar"
    """
    if not hypotheses:
        return []
    known_sources = [source or "" for source in sources or [""] * len(hypotheses)]
    texts = Texts(hypotheses[:MAX_EXAMINED], references[:MAX_EXAMINED], known_sources[:MAX_EXAMINED])
    texts = texts.cut(MAX_CHARACTERS)
    findings = [*find_leak(texts), *find_script(texts, metrics or {})]
    if not has_index:
        findings += find_repeats(texts)
    misplaced = [*find_same(texts), *find_sources(texts)] or [*find_order(texts)]
    findings += misplaced
    if misplaced:  # whose words say nothing
        findings += find_loops(texts)
    else:
        findings += find_differences(texts, read_aspects(metrics or {}), are_tokens=are_tokens)
    return select_findings(findings)


def read_aspects(metrics: Mapping[str, EvaluatorMetric]) -> set[str]:
    """What the metrics see, such as case; everything without any."""
    aspects: set[str] = {"letters"}  # which all see
    for metric in metrics.values():
        aspects.update(metric.sensitive_to)
    return aspects if metrics else {*aspects, *ASPECTS.values(), "subwords"}


def find_differences(texts: Texts, aspects: Collection[str], *, are_tokens: bool) -> Iterator[Finding]:
    """What is written or ends in another way, in texts of the same sentences."""
    lengths = [*find_loops(texts)] or [*find_too_long(texts)]
    lengths += find_limit(texts)
    yield from lengths
    few = texts.pick(MAX_COUNTED)
    changes = [*find_transformed(texts, few)]
    yield from (finding for _, finding in changes)
    if "subwords" in aspects and not are_tokens:
        yield from find_both_sides(few)
    nearer = [*find_nearer(few)] if len(texts) >= MIN_DIFFERING else []
    yield from nearer
    explained = list_changed(few, [change for change, _ in changes])
    one_sided = choose_one_sided(texts, few, aspects, explained)
    for found in one_sided:
        is_of_length = lengths and (class_of(found.feature) == "word" or found.feature.endswith(" at the end"))
        if (found.example or not nearer) and not is_of_length:
            yield describe_one_sided(found, len(texts))
    if (
        lengths
        or nearer
        or len(texts) < MIN_DIFFERING
        or any(found.example and 2 * found.number > len(texts) for found in one_sided)
    ):
        return
    yield from find_lost_words(few)
    if not changes:
        yield from find_vocabulary(few)


def join_place(loader: str, group: str) -> str:
    """Where a finding of a group is.

    Example:
        >>> join_place("news", "de"), join_place("", "de")
        ('news/de', 'de')
    """
    return f"{loader}/{group}" if loader else group


def select_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The first of them: warnings, then in the order of the rules."""
    ordered = sorted(findings, key=lambda finding: (not finding.is_warning, KEYS.index(finding.key)))
    return ordered[:MAX_FINDINGS]


# What one side has, and the other never

COMMON = {*string.ascii_letters, *string.whitespace} - {"\t"}
"""Characters that are no features: a side may lack some letters by chance."""
CATEGORIES = {
    "Lu": "an upper-case letter",
    "Ll": "a lower-case letter",
    "P": "a punctuation mark",
    "N": "a digit",
    "Z": "white space",
}
"""Kinds of characters, by the beginning of their category in Unicode."""
ASPECTS = {"letter": "case", "mark": "punctuation", "space": "spaces", "break": "spaces"}
"""What a metric must see, so that a kind matters: the last word of its name."""
Place: TypeAlias = tuple[str, int]
"""The side and the number of a text, or both texts of a sentence."""
Verb: TypeAlias = Callable[[str, str], bool]
VERBS: dict[str, Verb] = {"begin with": str.startswith, "end with": str.endswith, "contain": str.__contains__}
"""What texts may do with a string."""
WEIGHTS = {"symbol": 1.0, "word": 1.0, "mixed": 1.0, "kind": 0.9, "letter": 0.8}
"""What is said first: a string, unless it is one of many characters of a kind."""
END_WEIGHT = 0.7
"""The same for a kind at an end, which a kind anywhere says better."""


@cache
def kinds_of(character: str) -> list[str]:
    """The kinds of a character.

    Example:
        >>> kinds_of("A"), kinds_of("ü"), kinds_of("。")
        (['an upper-case letter'], ['a lower-case letter', 'a letter beyond a to z'], ['a punctuation mark'])
    """
    if not character:
        return []
    if character == "\n":
        return ["a line break"]
    category = unicodedata.category(character)
    if category[0] != "L":
        return [CATEGORIES[category[0]]] if category[0] in CATEGORIES else []
    kinds = [CATEGORIES[category]] if category in CATEGORIES else []
    if not character.isascii():
        script = unicodedata.name(character, "other").split()[0].split("-")[0].title()
        kinds.append("a letter beyond a to z" if script == "Latin" else f"{script} letters")
    return kinds


def list_kinds(text: str) -> set[str]:
    """The kinds of the characters of a text, those at its ends once more.

    Example:
        >>> sorted(list_kinds("7"))
        ['a digit', 'a digit at the beginning', 'a digit at the end']
    """
    kinds = {kind for character in set(text) for kind in kinds_of(character)}
    kinds.update(f"{kind} at the beginning" for kind in kinds_of(text[:1]))
    kinds.update(f"{kind} at the end" for kind in kinds_of(text[-1:]))
    return kinds


def list_features(text: str) -> set[str]:
    """The characters and words of a text, and the kinds of its characters.

    Example:
        >>> sorted(list_features("so 7") - list_kinds("so 7"))
        ['7', 'so']
    """
    features = {*text, *list_kinds(text)} - COMMON
    words = text.split()
    if len(words) > 1:
        features.update(words)
    return features


def class_of(feature: str) -> str:
    """How a feature is judged: symbols differ seldom by chance, words of letters often.

    Example:
        >>> [class_of(feature) for feature in ("</", "ü", "the", "it's", "</s>", "a digit")]
        ['symbol', 'letter', 'word', 'word', 'mixed', 'kind']
    """
    if " " in feature:
        return "kind"
    if not any(map(str.isalnum, feature)):
        return "symbol"
    if len(feature) == 1:
        return "letter"
    return "word" if feature[0].isalnum() and feature[-1].isalnum() else "mixed"


def find_aspect(kind: str) -> str:
    """What a metric must see, so that a kind matters; ``"letters"`` if all do.

    Example:
        >>> find_aspect("a punctuation mark at the end"), find_aspect("Greek letters")
        ('punctuation', 'letters')
    """
    name = kind.split(" at the ")[0]
    return ASPECTS.get(name.split()[-1], "letters")


class OneSided(NamedTuple):
    """Something that many texts of one side have or lack, unlike the other.

    Attributes:
        side: which side.
        feature: a string, or a kind of characters.
        verb: what the texts do, such as "begin with"; "have" or "lack" for a kind.
        number: how many.
        others: how many of the other side.
        example: a part of one of them, around the string.
    """

    side: str
    feature: str
    verb: str
    number: int
    others: int
    example: str = ""

    def does(self, text: str) -> bool:
        """Whether a text does so.

        Example:
            >>> OneSided("hypotheses", "</s>", "end with", 9, 0).does("a cat</s>")
            True
        """
        if self.verb in VERBS:
            return VERBS[self.verb](text, self.feature)
        return (self.feature in list_kinds(text)) == (self.verb == "have")


def describe_one_sided(found: OneSided, size: int) -> Finding:
    """What to say about something that is one-sided, among so many sentences."""
    quoted, as_in = found.feature, ""
    if found.example:
        quoted, as_in = repr(found.feature[:60]), f", as in {found.example!r}"
    statement = f"{found.side} {found.verb} {quoted}, and {found.others or 'no'} {OTHER[found.side]} do{as_in}"
    name = find_remedy(found)
    is_note = name not in CERTAIN and found.number < least_warned(found, name) * size
    return say(name, found.number, size, statement, is_note=is_note)


def least_warned(found: OneSided, name: str) -> float:
    """The share of texts from which something is a warning."""
    if name == "one-sided words" and found.verb == "contain":
        return math.inf  # a weak model overuses words
    if found.example and not any(map(str.isalpha, found.example)):
        return math.inf  # numbers are no text
    return NOTE_SHARE if found.example else KIND_SHARE


def find_remedy(found: OneSided) -> str:
    """Which remedy helps.

    Example:
        >>> find_remedy(OneSided("hypotheses", "</s>", "end with", 9, 0, "a cat</s>"))
        'one-sided tags'
    """
    if not found.example:
        return "one-sided kinds"
    for name, pattern in CERTAIN.items():
        if pattern.search(found.example):
            return name
    return "one-sided words" if any(map(str.isalpha, found.feature)) else "one-sided symbols"


def list_one_sided(few: Texts, aspects: Collection[str]) -> Iterator[OneSided]:
    """Everything that is one-sided, each as a feature."""
    hypotheses: Counter[str] = Counter()
    in_all: Counter[str] = Counter()
    in_any: Counter[str] = Counter()
    for text, row in zip(few.hypotheses, few.references):
        hypotheses.update(list_features(text))
        features = [list_features(reference) for reference in row]
        in_all.update(set.intersection(*features))
        in_any.update(set.union(*features))
    for side, frequencies, others in (
        ("hypotheses", hypotheses, in_any),
        ("references", in_all, hypotheses),
    ):
        for feature, count in frequencies.items():
            verb = "have" if class_of(feature) == "kind" else "contain"
            found = OneSided(side, feature, verb, count, others[feature])
            if verb == "have" or few.are_many(count, "symbol"):  # which saves time
                yield from judge_feature(found, few, aspects)


def judge_feature(found: OneSided, few: Texts, aspects: Collection[str]) -> Iterator[OneSided]:
    """A feature if one side has it, and the other does not; or if the other side lacks it, and this one does not."""
    kind = class_of(found.feature)
    if kind == "kind":
        if few.nearness > NEAR and find_aspect(found.feature) in aspects:
            yield from judge_lack(found, few)
        else:
            return
    elif few.nearness == 0 and (kind != "symbol" or found.side == "references"):
        return  # a weak model lacks words and marks
    if RATIO * found.others < found.number and few.are_many(found.number, kind):
        yield found


def judge_lack(found: OneSided, few: Texts) -> Iterator[OneSided]:
    """What many texts of the other side lack, although nearly all of this side have it."""
    number = len(few) - found.others
    others = len(few) - found.number
    if LACK_RATIO * others < number and few.are_many(number, "kind"):
        yield OneSided(OTHER[found.side], found.feature, "lack", number, others)


def choose_one_sided(texts: Texts, few: Texts, aspects: Collection[str], explained: set[Place]) -> list[OneSided]:
    """The most frequent of them, each in other texts.

    Args:
        texts: all sentences, in which they are counted.
        few: those in which they are looked for.
        aspects: what the metrics see.
        explained: the texts that something else explains.
    """
    chosen: list[OneSided] = []
    for found in sorted(list_one_sided(few, aspects), key=rank):
        if len(chosen) == MAX_FINDINGS:
            break
        lines = few.sides[found.side]
        numbers = [number for number, line in enumerate(lines) if found.does(line)]
        side = found.side if found.verb == "contain" else "both"
        if are_most((side, number) in explained for number in numbers):
            continue
        explained = explained | list_places(OTHER if side == "both" else [side], numbers)
        if found.verb == "contain":
            found = quote(found, [line for line in lines if found.does(line)])
        number, others = texts.count(found.does)[found.side]
        if len(texts) >= MIN_DIFFERING or find_remedy(found) in CERTAIN:
            chosen.append(found._replace(number=number, others=others))
    return chosen


def list_places(sides: Iterable[str], numbers: Collection[int]) -> set[Place]:
    """Places on some sides, and in both texts together.

    Example:
        >>> sorted(list_places(["references"], [7]))
        [('both', 7), ('references', 7)]
    """
    return {*product([*sides, "both"], numbers)}


def rank(found: OneSided) -> tuple[float, OneSided]:
    """What is said first: what is frequent, and strings rather than kinds; ties are broken by the text."""
    weight = END_WEIGHT if " at the " in found.feature else WEIGHTS[class_of(found.feature)]
    return -found.number * weight, found


def quote(found: OneSided, lines: Sequence[str]) -> OneSided:
    """A feature as the longest string that nearly all of its lines share, and where they have it."""
    text = grow(found.feature, lines)
    does_most = [verb for verb, does in VERBS.items() if are_most(does(line, text) for line in lines)]
    verb = does_most[0] if does_most else "contain"
    if verb == "contain":
        text = text.strip(" ")
    example = min((line for line in lines if text in line), key=len)
    start = max(0, example.find(text) - 20)
    return found._replace(feature=text, verb=verb, example=example[start : start + 80])


def grow(text: str, lines: Sequence[str]) -> str:
    """The longest string around a text that nearly all lines have, as one of a few lines has it.

    Example:
        >>> grow("<", ["a <unk> cat", "the <unk>"]), grow("Here", ["Here it is: a", "Here it is: b"])
        (' <unk>', 'Here it is: ')
    """
    return max((grow_in(line, text, lines[:100]) for line in lines[:5]), key=len)


def grow_in(line: str, text: str, lines: Sequence[str]) -> str:
    """The longest part of a line around a text that nearly all lines have."""
    start = line.index(text)
    end = start + len(text)
    while end < len(line) and end - start < 80 and are_most(line[start : end + 1] in other for other in lines):
        end += 1
    while start > 0 and end - start < 80 and are_most(line[start - 1 : end] in other for other in lines):
        start -= 1
    return line[start:end]


def are_most(answers: Iterable[bool]) -> bool:
    """Whether 90% of some answers are yes.

    Example:
        >>> are_most([True] * 9 + [False]), are_most([True, False])
        (True, False)
    """
    frequencies = Counter(answers)
    return frequencies[True] >= 9 * frequencies[False]


# A plain transformation changes one side only, or brings both nearer

Transformation: TypeAlias = Callable[[str], str]


def decode_again(text: str) -> str:
    """A text that was decoded with a wrong encoding; itself if it was not.

    Example:
        >>> decode_again("Ã¼ber"), decode_again("über")
        ('über', 'über')
    """
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text


def normalize(text: str) -> str:
    """NFKC, but \u2047 is the unknown word of a tokenizer, rather than two question marks."""
    return "\u2047".join(unicodedata.normalize("NFKC", part) for part in text.split("\u2047"))


CHANGES: dict[str, Transformation] = {
    "entities that html.unescape replaces": html.unescape,
    "letters of a wrong encoding, which open(path, encoding='utf-8') avoids": decode_again,
    "characters that unicodedata.normalize('NFKC', text) replaces": normalize,
    "invisible characters": lambda text: re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", text),
}
"""What they change, and how."""


def find_transformed(texts: Texts, few: Texts) -> Iterator[tuple[Transformation, Finding]]:
    """Texts of one side that a plain transformation changes."""
    for name, change in CHANGES.items():
        has = partial(is_changed, change)
        for side, (count, others) in few.count(has).items():
            is_weak = side == "references" and few.nearness == 0  # which does not write them yet
            if RATIO * others < count and few.are_many(count, "changed") and not is_weak:
                number, others = texts.count(has)[side]
                example = min(filter(has, few.sides[side]), key=len)
                statement = f"{side} have {name}, and {others or 'no'} {OTHER[side]} do, as in {example[:60]!r}"
                yield change, say("changed", number, len(texts), statement, is_note=number < NOTE_SHARE * len(texts))


def is_changed(change: Transformation, text: str) -> bool:
    """Whether a transformation changes a text. Most are not even looked at.

    Example:
        >>> is_changed(html.unescape, "it&apos;s"), is_changed(html.unescape, "it's")
        (True, False)
    """
    return ("&" in text or not text.isascii()) and change(text) != text


def list_changed(few: Texts, changes: Iterable[Transformation]) -> set[Place]:
    """The texts of sentences that transformations change."""
    numbers = set()
    for change in changes:
        for number, pair in enumerate(zip(*few.sides.values())):
            if any(is_changed(change, text) for text in pair):
                numbers.add(number)
    return list_places(OTHER, numbers)


def find_nearer(few: Texts) -> Iterator[Finding]:
    """A transformation after which hypotheses are much nearer to their references.

    Example:
        >>> lines = ["the dog saw a cat", "all birds can fly"] * 4
        >>> [finding] = find_nearer(Texts([line[::-1] for line in lines], [[line] for line in lines], [""] * 8))
        >>> finding.message[:92]
        '8 of 8 compared hypotheses are nearer to their references with their characters reversed: 10'
    """
    pairs = few.pairs
    nearer = {
        "without white space": [("".join(left.split()), "".join(right.split())) for left, right in pairs],
        "with their words reversed": [(" ".join(left.split()[::-1]), right) for left, right in pairs],
        "with their characters reversed": [(left[::-1], right) for left, right in pairs],
    }
    before = mean_likeness(pairs)
    for name, changed in nearer.items():
        after = mean_likeness(changed)
        count = sum(likeness(*new) > likeness(*old) for new, old in zip(changed, pairs))
        # Without spaces, all texts are a little nearer; a text of few characters also reversed
        if is_many(count, len(pairs), "few") and after > before + 0.08 and after > 1.25 * before:
            statement = (
                f"compared hypotheses are nearer to their references {name}: {after:.0%} instead of {before:.0%}"
            )
            yield say("nearer", count, len(pairs), statement)


def find_lost_words(few: Texts) -> Iterator[Finding]:
    """The first or the last word of one side that the other side lacks; several words, rather than one added word.

    Example:
        >>> [finding] = find_lost_words(Texts(["has a dog"] * 5, [[f"{name} has a dog"] for name in "ABCDE"], [""] * 5))
        >>> finding.message[:76]
        '5 of 5 hypotheses lack the first word of the other side, and have the one be'
    """
    pairs = [pair for pair in zip(*few.words.values()) if min(map(len, pair)) > 2]
    for name, end, beside in (("first", 0, 1), ("last", -1, -2)):
        lost: dict[str, list[str]] = {"hypotheses": [], "references": []}
        for left, right in pairs:
            if left[end] != right[end]:
                lost["hypotheses"] += [right[end]] * (left[end] == right[beside])
                lost["references"] += [left[end]] * (left[beside] == right[end])
        for side, words in lost.items():
            is_mutual = len(words) <= 3 * len(lost[OTHER[side]])
            if few.are_many(len(words), "lost") and len(set(words)) > 3 and not is_mutual:
                statement = f"{side} lack the {name} word of the other side, and have the one beside it"
                yield say("nearer words", len(words), len(few), statement)


# What is not text, although both sides have it


def find_both_sides(few: Texts) -> Iterator[Finding]:
    """What is not text: marks of subwords, tokens, single letters, special tokens, and ids.

    Example:
        >>> lines = [f"th@@ e dog number {number}" for number in range(20)]
        >>> [finding] = find_both_sides(Texts(lines, [[line] for line in lines], [""] * 20))
        >>> finding.message[:67]
        '20 of 20 hypotheses have marks of subwords, and so do references. P'
    """
    for statement, pattern in PIECES.items():
        numbers = [len([*filter(pattern.search, lines)]) for lines in few.sides.values()]
        if few.are_many(min(numbers), "kind"):
            name = "both-sides tokens" if "tokenized" in statement else "both-sides pieces"
            yield say(name, numbers[0], len(few), f"hypotheses {statement}, and so do references")
    words = [(left, right) for left, right in zip(*few.words.values()) if left and right]
    for verb, place in (("begin", 0), ("end", -1)):
        ends = [(left[place], right[place]) for left, right in words]
        yield from find_tags(verb, ends)
        if mean_likeness(few.pairs) < 0.9:
            yield from find_ids(verb, ends)


def find_tags(verb: str, ends: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """A special token with which both sides begin or end, and which counts as right.

    Example:
        >>> next(find_tags("end", [("dog.</s>", "cat.</s>")] * 4)).message[:63]
        "4 of 4 hypotheses end with '</s>', and so do their references. "
    """
    tags = Counter(tag_of(left) for left, right in ends if tag_of(left) == tag_of(right))
    del tags[""]
    for tag, count in tags.most_common(1):
        if count >= max(4, 0.5 * len(ends)):
            statement = f"hypotheses {verb} with {tag!r}, and so do their references"
            yield say("both-sides ends", count, len(ends), statement)


def tag_of(word: str) -> str:
    """The only tag in a word, unlike those around a word that is struck out.

    Example:
        >>> tag_of("dog.</s>"), tag_of("<s>dog</s>")
        ('</s>', '')
    """
    tags = TAG.findall(word)
    return tags[0] if len(tags) == 1 else ""


def find_ids(verb: str, ends: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """First or last words with digits that no other reference has, and that are always right.

    Example:
        >>> next(find_ids("begin", [(f"utt{number:03}",) * 2 for number in range(20)])).message[:60]
        '20 of 20 hypotheses begin with a word of their reference alo'
    """
    frequencies = Counter(right for _, right in ends)
    ids = [(left, right) for left, right in ends if frequencies[right] == 1 and ID.search(right)]
    count = sum(left == right for left, right in ids)
    if len(ids) >= max(20, 0.5 * len(ends)) and count >= 0.98 * len(ids):
        statement = f"hypotheses {verb} with a word of their reference alone, as ids are, such as {ids[0][1]!r}"
        yield say("both-sides ends", count, len(ends), statement)


# What programs and weak models do


def find_same(texts: Texts) -> Iterator[Finding]:
    """Empty texts, one text for many sentences, or one of ten.

    Example:
        >>> references = [[f"dog number {number}"] for number in range(9)]
        >>> next(find_same(Texts(["a dog"] * 9, references, [""] * 9))).message[:42]
        "9 of 9 hypotheses are the same: 'a dog'. E"
    """
    size = len(texts)
    frequencies = {side: Counter(lines) for side, lines in texts.sides.items()}
    hypotheses, references = frequencies.values()
    if len(references) == 1 and size > 1:
        return
    findings = []
    for side, lines in frequencies.items():
        others = frequencies[OTHER[side]]
        if texts.are_many(lines[""], "few") and lines[""] > 4 * others[""]:
            findings.append(say("same-output empty", lines[""], size, f"{side} are empty"))
        text, count = most_common_text(lines)
        is_odd = count >= 4 * max(others.values()) and (side == "hypotheses" or len(lines) > 8)  # unlike yes and no
        if texts.are_many(count, "few") and is_odd:
            findings.append(say("same-output", count, size, f"{side} are the same: {text[:40]!r}"))
    yield from findings
    few, of_references = count_ten(hypotheses), count_ten(references)
    if not findings and size >= 100 and few >= 0.3 * size and few >= 3 * of_references:
        text, _ = most_common_text(hypotheses)
        yield say("same-output", few, size, f"hypotheses are one of the same ten texts, such as {text[:40]!r}")


def count_ten(frequencies: Counter[str]) -> int:
    """How many texts are one of the ten most frequent ones."""
    return sum(count for _, count in frequencies.most_common(10))


def most_common_text(frequencies: Counter[str]) -> tuple[str, int]:
    """The most frequent text that is not empty, and its number."""
    for text, count in frequencies.most_common(2):
        if text:
            return text, count
    return "", 0


def find_sources(texts: Texts) -> Iterator[Finding]:
    """Sources in hypotheses or references.

    Example:
        >>> sources = [f"Translate sentence number {number}:" for number in range(9)]
        >>> texts = Texts([f"{source} ein Satz auf Deutsch" for source in sources], [["ein Satz"]] * 9, sources)
        >>> next(find_sources(texts)).message[:58]
        '9 of 9 hypotheses contain their source as a prompt. Score '
    """
    long_ones = [row for row in zip(*texts.sides.values(), texts.sources) if len(row[2]) >= 16]
    if not long_ones or 2 * len(long_ones) <= len(texts):  # other texts have short ones by chance
        return
    size = len(long_ones)
    for side, place in (("hypotheses", 0), ("references", 1)):
        count = sum(row[2] in row[place] and len(row[place]) > 1.3 * len(row[2]) for row in long_ones)
        if 2 * count > size:
            yield say("source as prompt", count, size, f"{side} contain their source as a prompt")
    copies = [row[1:] for row in long_ones if row[0] == row[2]]
    if is_many(len(copies), size, "few") and mean_likeness(copies) < 0.4:  # unlike those in post-editing
        yield say("source copied", len(copies), size, "hypotheses are copies of their source")
    equal = [row[:2] for row in long_ones if row[1] == row[2]]
    if 10 * len(equal) >= 9 * size and mean_likeness(equal[:MAX_COMPARED]) < 0.25:
        yield say("source as reference", len(equal), size, "references equal their source, unlike hypotheses")


def list_pieces(text: str, *, has_words: bool) -> set[str]:
    """The words of a text without numbers, or its sequences of three characters if it has no spaces.

    Example:
        >>> sorted(list_pieces("Two dogs 7", has_words=True)), sorted(list_pieces("abcd", has_words=False))
        (['dogs', 'two'], ['abc', 'bcd'])
    """
    text = text[:FEW_CHARACTERS]
    if has_words:
        return {word for word in text.lower().split() if not word.isnumeric()}
    text = "".join(text.split())
    return {text[start : start + 3] for start in range(len(text) - 2)}


def find_order(texts: Texts) -> Iterator[Finding]:
    """Hypotheses that have the rare words of another reference, and hardly any of their own.

    Example:
        >>> lines = [f"dog{number} sees cat{number}" for number in range(20)]
        >>> [finding] = find_order(Texts(lines[1:] + lines[:1], [[line] for line in lines], [""] * 20))
        >>> finding.message[:86]
        '20 of 20 hypotheses have the rare words of another reference, mostly 1 line below. Is '
    """
    hypotheses, references = (lines[:MAX_COUNTED] for lines in texts.sides.values())
    characters = sum(map(len, references))
    has_words = characters < 12 * sum(len(text.split()) for text in references)
    owners: dict[str, list[int]] = {}
    for number, reference in enumerate(references):
        for piece in list_pieces(reference, has_words=has_words):
            owners.setdefault(piece, []).append(number)
    offsets: Counter[int] = Counter()
    for number, hypothesis in enumerate(hypotheses):
        owned = [owners.get(piece, []) for piece in list_pieces(hypothesis, has_words=has_words)]
        owner = find_owner(number, owned)
        if owner != number:
            offsets[owner - number] += 1
    count = offsets.total()
    if is_many(count, len(hypotheses), "few"):
        statement = "hypotheses have the rare words of another reference"
        offset, most = offsets.most_common(1)[0]
        if 2 * most > count:
            unit = "line" if abs(offset) == 1 else "lines"
            statement += f", mostly {abs(offset)} {unit} {'below' if offset > 0 else 'above'}"
        yield say("order", count, len(hypotheses), statement)


def find_owner(number: int, owned: Iterable[list[int]]) -> int:
    """The only other reference that has several rare words of a hypothesis; the number of the hypothesis without one.

    Example:
        >>> find_owner(0, [[5], [5, 7], [1, 2, 3, 4]]), find_owner(0, [[5], [0, 5]]), find_owner(0, [[5]])
        (5, 0, 0)
    """
    votes: Counter[int] = Counter()
    for references in owned:
        if len(references) <= 3:
            votes.update(references)
    best = max(sorted(votes), key=votes.__getitem__, default=number)
    count = votes[best]
    is_clear = count >= 2 and count > 3 * votes[number] and 3 * count > votes.total()
    return best if is_clear else number


def find_loops(texts: Texts) -> Iterator[Finding]:
    """Hypotheses that end in a repetition, unlike their references."""
    count = 0
    for text, row in zip(texts.hypotheses, texts.references):
        if len(text) > max(map(len, row)) and ends_in_loop(text):
            count += not any(map(ends_in_loop, row))
    if texts.are_many(count, "changed"):
        yield say("loops", count, len(texts), "hypotheses end in a repetition, so they do not stop")


def find_too_long(texts: Texts) -> Iterator[Finding]:
    """Hypotheses that are more than twice as long as references of some length."""
    count = 0
    for text, row in zip(texts.hypotheses, texts.references):
        longest = max(map(len, row))
        count += longest >= 20 and len(text) > 2 * longest + 20
    if texts.are_many(count, "letter"):
        yield say("loops", count, len(texts), "hypotheses are more than twice as long as their longest reference")


def ends_in_loop(text: str) -> bool:
    """Whether a text ends with the same characters four times or more, also if the last time is cut off.

    Example:
        >>> ends_in_loop("a man and a man and a man and a man and a m"), ends_in_loop("a man and a man")
        (True, False)
    """
    start = text.rfind(text[-6:], 0, len(text) - 1)
    if start < 0 or len(text) < 12:
        return False
    period = len(text) - 6 - start
    tail = text[-max(4 * period, 12) :]
    is_periodic = len(tail) >= 4 * period and tail[period:] == tail[:-period]
    return is_periodic and any(map(str.isalpha, tail[-period:]))  # unlike the zeros of a number


def find_limit(texts: Texts) -> Iterator[Finding]:
    """Many texts of a side that have the greatest length of all.

    Example:
        >>> references = [[f"{number} this is a sentence of {'so ' * number}words"] for number in range(12)]
        >>> hypotheses = [" ".join(row[0].split()[:9]) for row in references]
        >>> next(find_limit(Texts(hypotheses, references, [""] * 12))).message[:49]
        '10 of 12 hypotheses have 9 words, and none has mo'
    """
    for side, lines in texts.sides.items():
        others = texts.sides[OTHER[side]]
        for unit, lengths in (("words", [*map(len, texts.words[side])]), ("characters", [*map(len, lines)])):
            longest = max(lengths)
            at_limit = [pair for pair, length in zip(zip(lines, others), lengths) if length == longest]
            below = max(lengths.count(longest - 1), lengths.count(longest - 2))  # lengths of whole texts become rarer
            count = len(at_limit)
            is_peak = count > 3 * below and 10 * (len(texts) - count) >= count
            is_steep = count > 10 * below > 0
            if longest >= 6 and is_peak and texts.are_many(count, "few") and (is_steep or seem_cut(at_limit)):
                statement = f"{side} have {longest} {unit}, and none has more, as if a limit cut them"
                yield say("limit", count, len(texts), statement)
                break


def seem_cut(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether most texts are shorter than those of the other side, or end in a word instead of a punctuation mark.

    Example:
        >>> seem_cut([("a man wears", "a man wears a red hat.")]), seem_cut([("a dog.", "a dog.")])
        (True, False)
    """
    longer = sum(len(other) > len(line) + 5 for line, other in pairs)
    return 2 * longer > len(pairs)


def find_leak(texts: Texts) -> Iterator[Finding]:
    """Hypotheses that equal their references. Fewer than 100, or short ones, may be a test of overfitting."""
    equal = sum(hypothesis in row for hypothesis, row in zip(texts.hypotheses, texts.references))
    if equal >= max(100, 0.98 * len(texts)) and sum(map(len, texts.words["references"])) >= 6 * len(texts):
        yield say("leak", equal, len(texts), "hypotheses equal their reference")


def find_teacher_forcing(widths: Mapping[tuple[int, int], int]) -> Iterator[Finding]:
    """Logits that are as wide as the labels in all batches, although batches differ.

    Args:
        widths: the numbers of batches by the widths of logits and labels.

    Example:
        >>> next(find_teacher_forcing({(5, 5): 2, (6, 6): 2, (8, 8): 1})).message[:50]
        '5 of 5 batches have logits that are as wide as the'
    """
    count = sum(widths.values())
    if len(widths) >= 3 and count >= 5 and all(logits == labels for logits, labels in widths):
        statement = "batches have logits that are as wide as their labels, as with teacher forcing"
        yield say("leak of labels", count, count, statement)


def find_repeats(texts: Texts) -> Iterator[Finding]:
    """Sentences that come equally often, or hypotheses beside several references.

    Example:
        >>> lines = [f"dog {number}" for number in range(8)] * 3
        >>> next(find_repeats(Texts(lines, [[line] for line in lines], [""] * 24))).message[:40]
        '8 of 8 sentences come 3 times each. Coun'
    """
    whole = Counter(zip(texts.hypotheses, map(tuple, texts.references), texts.sources))
    for name, frequencies in (("sentences", whole), ("hypotheses", Counter(texts.hypotheses))):
        for times, number in Counter(frequencies.values()).most_common(1):
            if times > 1 and number >= max(8, 0.8 * len(frequencies)):
                yield say(f"repeats of {name}", number, len(frequencies), f"{name} come {times} times each")
                return


# Words that metrics do not find

UNSPACED_SCRIPTS = {
    "Chinese or Japanese": (re.compile(UNSPACED), 4),
    "Thai, Lao, Burmese, or Khmer": (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"), 8),
}
"""The letters of scripts without spaces, and how many of them the words of a text with spaces have, on average."""
OTHER_WORD = re.compile(r"\S*[^\W\d_a-zA-Z]\S*")
"""A word with other letters than a to z."""


def find_script(texts: Texts, metrics: Mapping[str, EvaluatorMetric]) -> Iterator[Finding]:
    """References whose words a metric does not find, because they have no spaces, or other letters than a to z."""
    references = texts.sides["references"]
    names = [name for name, metric in metrics.items() if "latin" in metric.sensitive_to]
    dropped = sum(map(drops_most_words, references)) if names else 0
    if texts.are_many(dropped, "few"):  # more than among German words
        statement = f"references have letters other than a to z in most words, which {' and '.join(names)} drops"
        yield say("vocabulary of a script", dropped, len(texts), statement)
    names = [name for name, metric in metrics.items() if "spaces" in metric.sensitive_to]
    for script, (letter, word_length) in UNSPACED_SCRIPTS.items() if names else ():
        written = [text for text in references if 2 * len(letter.findall(text)) > len("".join(text.split()))]
        letters = sum(len(letter.findall(text)) for text in written)
        words = sum(len(text.split()) for text in written)
        if texts.are_many(len(written), "script") and letters > word_length * words:
            statement = f"references are {script}, whose phrases count as words in {' and '.join(names)}"
            yield say("vocabulary of a script", len(written), len(texts), statement)
            return


def drops_most_words(text: str) -> bool:
    """Whether most words of a text have other letters than a to z.

    Example:
        >>> drops_most_words("Привет, мир 2024"), drops_most_words("ein schönes Haus")
        (True, False)
    """
    return not text.isascii() and 2 * len(OTHER_WORD.findall(text)) >= len(text.split())


def find_vocabulary(texts: Texts) -> Iterator[Finding]:
    """Hypotheses whose words no reference has.

    Example:
        >>> next(find_vocabulary(Texts(["ein Hund ist da"] * 100, [["there was one dog"]] * 100, [""] * 100))).message
        '0 of 400 words of hypotheses are in a reference. Is it another language, or are spaces missing?'
    """
    hypotheses, references = ([{*map(str.lower, words)} for words in side] for side in texts.words.values())
    known = set().union(*references)
    size = sum(map(len, hypotheses))
    count = sum(len(words & known) for words in hypotheses)
    are_long = min(size, sum(map(len, references))) >= 4 * len(texts)  # unlike names and yes or no
    has_words = sum(map(len, known)) < 12 * len(known)
    if len(texts) >= 100 and are_long and has_words and 10 * count < size:
        yield say("vocabulary", count, size, "words of hypotheses are in a reference")
