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
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.mistakes import UNSPACED
from lightning_bleu.views.blocks import Block, Note

MAX_EXAMINED = 2000
"""How many sentences of a loader are examined, the first ones."""
MIN_GROUP = 100
"""How many of them a group must have to be examined by itself. A few sentences are alike by chance."""
MIN_SENTENCES = 20
"""How many sentences tell which words, letters, and marks differ. Fewer, such as the toy texts of a first try, may all
have a word by chance."""
MAX_FINDINGS = 3
"""How many findings a loader has at most, so that the first mistake is read."""
MAX_ORDERED = 1000
"""In how many sentences, the first ones, rare words tell the order, which takes longer."""
MAX_COUNTED = 500
"""In how many sentences, from all parts, features of the texts are counted, which takes longer."""
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
    "kind": (10, 0.3),  # digits or capitals of a few sentences
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
NEAR = 0.35
"""How near the texts of a good model are to their references: 0.54 to 0.63. Those of BLEU 5 have 0.2."""
TAG = re.compile(r"<[^<>\s]+>|\[\w{2,}\]|>>\w+<<|(?<!\w)_*[a-z]{2,3}_[A-Z]\w+|__[a-z]{2,3}__|\u2047")
"""What looks like a special token, or like the code of a language. Unknown words may be decoded as \u2047."""
SUBWORD = re.compile(r"\w@@ \w|\w ##\w|\u2581\w|\u0120\w+(?: \w+)? \u0120\w+(?: \w+)? \u0120|[a-z]\u0120|\w</w>")
"""The marks of four kinds of subwords. In Maltese, a word may begin with \u0120."""
CODE = re.compile(r"^b['\"]|^\[['\"]")
"""The beginning of bytes or of a list that ``str`` has written."""
TOKENIZED = re.compile(r"\w \.$")
"""The end of tokenized text."""
REMEDIES = {
    "subwords": "Join the subwords: decode ids to text.",
    "special tokens": "Are they special tokens? Set skip_special_tokens=True. Remove tags with all that they tag.",
    "code": "Decode bytes, and return strings instead of str(...).",
    "symbols": "This lowers the score. Print one hypothesis with repr().",
    "words": "This lowers the score.",
    "case": "Lowercase both sides, or train with cased text.",
    "punctuation": "Remove punctuation from both sides or from neither, or set another tokenizer.",
    "spaces": "Write spaces on both sides alike, or set another tokenizer.",
    "letters": "Is it another language, or are they replaced on one side?",
    "changed": "Pass both sides through the same function.",
    "nearer": "Print one hypothesis with repr().",
    "lost words": "Was a special token to be removed, as by ids[1:], where there was none?",
    "pieces": "Pass text: decode ids, and detokenize.",
    "equal ends": "They count as right: remove them from both sides.",
    "order": "Is the order the same? Is a line missing?",
    "repeated sentences": "Count each once, or intervals are too narrow.",
    "repeated hypotheses": "Pass all references of a sentence in one list.",
    "limit": "Set max_new_tokens above the longest reference, and do not truncate references.",
    "loops": "Early in training, wait. Later, put the end into the labels, and set eos_id.",
    "empty": "Look at the ids: do they begin with the end of a sentence?",
    "same": "Early in training, wait. Later, does the decoder see the source?",
    "prompts": "Score the new tokens only, generated[:, prompts.shape[1]:], and labels without the prompt.",
    "copies": "Set the target language.",
    "source as reference": "Return the column of the targets.",
    "leak": "Are the references scored against themselves?",
    "teacher forcing": "Score what the model generates.",
    "script": "Use CorpusCHRF or CER.",
    "Chinese": "Use CorpusBLEU(tokenizer='zh') or 'ja-mecab', or CorpusCHRF.",
    "dropped letters": "Pass a tokenizer, such as ROUGE(tokenizer=str.split).",
    "vocabulary": "Is it another language, or are spaces missing?",
}
"""What to do: the last sentence of a message."""
NOTES = {"limit", "loops", "empty", "same", "copies", "source as reference", "leak", "vocabulary"}
"""What is no warning, because weak models do it, too."""
RULES: dict[str, list[str]] = {
    "one-sided": ["subwords", "special tokens", "code", "symbols", "words", "case", "punctuation", "spaces", "letters"],
    "changed": ["changed"],
    "nearer": ["nearer", "lost words"],
    "both-sides": ["pieces", "equal ends"],
    "order": ["order"],
    "repeats": ["repeated sentences", "repeated hypotheses"],
    "limit": ["limit"],
    "loops": ["loops"],
    "same-output": ["empty", "same"],
    "source": ["prompts", "copies", "source as reference"],
    "leak": ["leak", "teacher forcing"],
    "vocabulary": ["vocabulary", "script", "Chinese", "dropped letters"],
}
"""The keys of findings, in the order in which they are shown, and what each stands for: the names of its remedies."""
KEYS = {name: key for key, names in RULES.items() for name in names}
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
    return Finding(KEYS[name], message, is_warning=not is_note and name not in NOTES)


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

    def pick(self, size: int) -> Texts:
        """At most so many sentences, from all parts, and a few characters of long ones."""
        step = -(-len(self) // size)
        hypotheses = [keep_ends(text, FEW_CHARACTERS) for text in self.hypotheses[::step]]
        references = [[keep_ends(text, FEW_CHARACTERS) for text in row] for row in self.references[::step]]
        return Texts(hypotheses, references, self.sources[::step])

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
        rows = [list(map(has, row)) for row in self.references]
        return {"hypotheses": (hypotheses, sum(map(any, rows))), "references": (sum(map(all, rows)), hypotheses)}


def is_many(count: int, size: int, kind: str) -> bool:
    """Whether a number of sentences is enough for something: all of a few, or a number and a share.

    Example:
        >>> is_many(5, 5, "few"), is_many(17, 100, "few"), is_many(18, 100, "few")
        (True, False, True)
    """
    number, share = LEAST[kind]
    smallest = number if number >= 10 else 4  # a word may be in all of four sentences by chance
    return count >= min(max(size, smallest), number + share * size)


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
    texts = Texts(
        [keep_ends(text, MAX_CHARACTERS) for text in hypotheses[:MAX_EXAMINED]],
        [[keep_ends(text, MAX_CHARACTERS) for text in row or [""]] for row in references[:MAX_EXAMINED]],
        [keep_ends(text or "", MAX_CHARACTERS) for text in (sources or [""] * len(hypotheses))[:MAX_EXAMINED]],
    )
    few = texts.pick(MAX_COUNTED)
    metrics = metrics or {}
    aspects = {aspect for metric in metrics.values() for aspect in metric.sensitive_to} or {
        *ASPECTS.values(),
        "subwords",
    }
    findings = [*find_leak(texts)]
    if not has_index:
        findings += find_repeats(texts)

    # Texts that belong to other sentences, or to none: what explains the next rule ends it
    misplaced = [*find_same(texts), *find_sources(texts)] or [*find_order(texts)]
    loops = [*find_loops(texts, may_be_long=bool(misplaced))]
    lengths = loops if misplaced else [*loops, *find_limit(texts)]
    findings += misplaced + lengths

    # Texts that are written in another way
    changes = [*find_transformed(texts, few)]
    findings += [finding for _, finding in changes]
    if "subwords" in aspects and not are_tokens:
        findings += find_both_sides(few)
    nearer = [*find_nearer(few)] if len(texts) >= MIN_SENTENCES else []
    explained = list_changed(few, [change for change, _ in changes])
    one_sided = [] if misplaced else choose_one_sided(texts, few, aspects, explained, are_whole=not lengths)
    if nearer:
        one_sided = [found for found in one_sided if found.example]
    if loops:  # which have words of their own
        one_sided = [found for found in one_sided if class_of(found.feature) != "word"]
    if len(texts) < MIN_SENTENCES:
        one_sided = [found for found in one_sided if find_remedy(found) in ("subwords", "special tokens", "code")]
    findings += nearer + [describe_one_sided(found, len(texts)) for found in one_sided]

    # Other words
    scripts = [*find_script(texts, metrics)]
    findings += scripts
    if not misplaced and not nearer and not any(2 * found.number > len(texts) for found in one_sided if found.example):
        findings += [] if lengths or len(texts) < MIN_SENTENCES else find_lost_words(few)
        findings += [] if scripts or changes else find_vocabulary(texts)
    return select_findings(findings)


def join_place(loader: str, group: str) -> str:
    """Where a finding of a group is.

    Example:
        >>> join_place("news", "de"), join_place("", "de")
        ('news/de', 'de')
    """
    return f"{loader}/{group}" if loader else group


def select_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The first of them: warnings, then in the order of the rules."""
    keys = [*RULES]
    ordered = sorted(findings, key=lambda finding: (not finding.is_warning, keys.index(finding.key)))
    return ordered[:MAX_FINDINGS]


# What one side has, and the other never

COMMON = {*string.ascii_letters, *string.whitespace} - {"\t"}
"""Characters that are no features: a side may lack some letters by chance."""
CATEGORIES = {
    "Lu": "an upper-case letter",
    "Ll": "a lower-case letter",
    "P": "a punctuation mark",
    "N": "a digit",
    "M": "a combining mark",
    "C": "a control character",
    "S": "a symbol",
    "Z": "white space",
}
"""Kinds of characters, by the beginning of their category in Unicode."""
ASPECTS = {"letter": "case", "mark": "punctuation", "space": "spaces", "break": "spaces"}
"""What a metric must see, so that a kind matters: the last word of its name."""
ENDS = {"begin with": "beginning", "end with": "end"}
"""The end of a text that is explained."""
WEIGHTS = {"symbol": 1.0, "word": 1.0, "mixed": 1.0, "kind": 0.9, "letter": 0.8}
"""What is said first: a string, unless it is one of many characters of a kind."""


@cache
def kinds_of(character: str) -> list[str]:
    """The kinds of a character.

    Example:
        >>> kinds_of("A"), kinds_of("ü"), kinds_of("。")
        (['an upper-case letter'], ['a lower-case letter', 'a letter beyond a to z'], ['a punctuation mark'])
    """
    category = unicodedata.category(character)
    if character == "\n":
        return ["a line break"]
    if category[0] != "L":
        return [CATEGORIES[category[0]]]
    kinds = [CATEGORIES[category]] if category in CATEGORIES else []
    if not character.isascii():
        script = unicodedata.name(character, "other").split()[0].split("-")[0].title()
        kinds.append("a letter beyond a to z" if script == "Latin" else f"{script} letters")
    return kinds


def list_features(text: str) -> set[str]:
    """The characters and words of a text, and the kinds of its characters, those at its ends once more.

    Example:
        >>> sorted(list_features("7")), sorted(list_features("so 7") - list_features("s 7"))
        (['7', 'a digit', 'a digit at the beginning', 'a digit at the end'], ['so'])
    """
    characters = set(text)
    words = text.split()
    features = {kind for character in characters for kind in kinds_of(character)}
    features |= characters
    if text:
        features.update(f"{kind} at the beginning" for kind in kinds_of(text[0]))
        features.update(f"{kind} at the end" for kind in kinds_of(text[-1]))
    if len(words) > 1:
        features.update(words)
    return features - COMMON


def has_kind(text: str, kind: str) -> bool:
    """Whether a text has a character of a kind, perhaps at an end.

    Example:
        >>> has_kind("so 7", "a digit at the end"), has_kind("7 so", "a digit at the end")
        (True, False)
    """
    name, _, end = kind.partition(" at the ")
    characters = {"": text, "beginning": text[:1], "end": text[-1:]}[end]
    return any(name in kinds_of(character) for character in set(characters))


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
        if self.verb == "begin with":
            return text.startswith(self.feature)
        if self.verb == "end with":
            return text.endswith(self.feature)
        if self.verb == "contain":
            return self.feature in text
        return has_kind(text, self.feature) == (self.verb == "have")


def describe_one_sided(found: OneSided, size: int) -> Finding:
    """What to say about something that is one-sided, among so many sentences."""
    if found.example:
        quoted, name, as_in = repr(found.feature[:60]), find_remedy(found), f", as in {found.example!r}"
    else:
        quoted, name, as_in = found.feature, find_aspect(found.feature), ""
    statement = f"{found.side} {found.verb} {quoted}, and {found.others or 'no'} {OTHER[found.side]} do{as_in}"
    is_note = found.number < NOTE_SHARE * size and name != "special tokens"
    return say(name, found.number, size, statement, is_note=is_note)


def find_remedy(found: OneSided) -> str:
    """Which remedy helps against a string.

    Example:
        >>> find_remedy(OneSided("hypotheses", "</s>", "end with", 9, 0, "a cat</s>"))
        'special tokens'
    """
    for name, pattern in {"subwords": SUBWORD, "special tokens": TAG, "code": CODE}.items():
        if pattern.search(found.example):
            return name
    return "words" if any(map(str.isalpha, found.feature)) else "symbols"


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
    for side, counts, other_counts in (("hypotheses", hypotheses, in_any), ("references", in_all, hypotheses)):
        for feature, count in counts.items():
            found = OneSided(side, feature, "have", count, other_counts[feature])
            if few.are_many(max(count, len(few) - found.others), "symbol"):  # which saves time
                yield from judge_feature(found, few, aspects)


def judge_feature(found: OneSided, few: Texts, aspects: Collection[str]) -> Iterator[OneSided]:
    """A feature if one side has it, and the other does not; or if the other side lacks it, and this one does not."""
    judged_as = class_of(found.feature)
    if judged_as == "kind":
        is_seen = find_aspect(found.feature) in {*aspects, "letters"}
        if few.nearness <= NEAR or not is_seen:
            return
        lack, others = len(few) - found.others, len(few) - found.number
        is_case = found.feature.startswith("a lower-case letter at")  # which upper case says better
        if LACK_RATIO * others < lack and few.are_many(lack, "kind") and not is_case:
            yield OneSided(OTHER[found.side], found.feature, "lack", lack, others)
    elif few.nearness == 0 and (judged_as != "symbol" or found.side == "references"):
        return  # a weak model lacks words and marks
    if RATIO * found.others < found.number and few.are_many(found.number, judged_as):
        yield found


def choose_one_sided(
    texts: Texts, few: Texts, aspects: Collection[str], explained: set[str], *, are_whole: bool
) -> list[OneSided]:
    """The most frequent of them that explain each other least.

    Args:
        texts: all sentences, in which they are counted.
        few: those in which they are looked for.
        aspects: what the metrics see.
        explained: features that are explained already.
        are_whole: whether texts end where they should.
    """
    explained = explained if are_whole else {*explained, "end"}
    chosen: list[OneSided] = []
    candidates = list_one_sided(few, aspects)
    for found in sorted(candidates, key=lambda found: (-found.number * WEIGHTS[class_of(found.feature)], found)):
        kinds = kinds_of(found.feature) if len(found.feature) == 1 else []
        name, _, end = found.feature.partition(" at the ")
        if len(chosen) == MAX_FINDINGS or explained.intersection([found.feature, end or name, *kinds]):
            continue
        explains = {name, end or name, f"{name} at the beginning", f"{name} at the end"}
        if class_of(found.feature) != "kind":
            lines = [text for text in few.sides[found.side] if found.feature in text]
            found = quote(found, lines)
            explains = list_features(found.feature) | {found.feature, ENDS.get(found.verb, "")}
            explains.update(word for line in lines for word in line.split() if found.feature.strip() in word)
            if found.feature in explained:
                continue
        count, others = texts.count(found.does)[found.side]
        chosen.append(found._replace(number=count, others=others))
        explained |= explains
    return chosen


def quote(found: OneSided, lines: Sequence[str]) -> OneSided:
    """A feature as the longest string that its lines share, and where they have it."""
    text = grow(found.feature, lines)
    verb = "contain"
    if sum(line.endswith(text) for line in lines) >= 0.9 * len(lines):
        verb = "end with"
    if sum(line.startswith(text) for line in lines) >= 0.9 * len(lines):
        verb = "begin with"
    if verb == "contain":
        text = grow(found.feature, lines, across_spaces=False)
    example = min((line for line in lines if text in line), key=len)
    start = max(0, example.find(text) - 20)
    return found._replace(feature=text, verb=verb, example=example[start : start + 80])


def grow(text: str, lines: Sequence[str], *, across_spaces: bool = True) -> str:
    """The longest string around a text that nearly all lines have.

    Example:
        >>> grow("<", ["a <unk> cat", "the <unk>"]), grow("Here", ["Here it is: a", "Here it is: b"])
        (' <unk>', 'Here it is: ')
    """
    lines = lines[:100]
    for _ in range(80):
        character, is_next = find_neighbor(text, lines, across_spaces)
        if not character:
            break
        text = text + character if is_next else character + text
        lines = [line for line in lines if text in line]
    return text


def find_neighbor(text: str, lines: Sequence[str], across_spaces: bool) -> tuple[str, bool]:
    """The next or the previous character that 90% of the lines have beside a text, and whether it is the next one.

    Example:
        >>> find_neighbor("ca", ["a cat", "a cat"], True), find_neighbor("cat", ["a cat", "b cat"], True)
        (('t', True), (' ', False))
    """
    places = [line.find(text) for line in lines]
    after = Counter(line[place + len(text) :][:1] for line, place in zip(lines, places))
    before = Counter(line[max(0, place - 1) : place] for line, place in zip(lines, places))
    for neighbors in (after, before):
        character, count = neighbors.most_common(1)[0]
        if count >= 0.9 * len(lines) and character and (across_spaces or not character.isspace()):
            return character, neighbors is after
    return "", False


# A plain transformation changes one side only, or brings both nearer

Transformation = Callable[[str], str]


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

        def is_changed(text: str, change: Transformation = change) -> bool:
            return ("&" in text or not text.isascii()) and change(text) != text

        for side, (count, others) in few.count(is_changed).items():
            lack, other_lack = len(few) - others, len(few) - count
            is_lack = LACK_RATIO * other_lack < lack and few.are_many(lack, "kind")
            is_only_side = RATIO * others < count and few.are_many(count, "changed")
            is_strange = side == "hypotheses" or few.nearness > 0  # a weak model does not write them yet
            if is_strange and (is_lack or is_only_side):
                count, others = texts.pick(len(texts)).count(is_changed)[side]
                example = min(filter(is_changed, few.sides[side]), key=len, default="")
                statement = f"{side} have {name}, and {others or 'no'} {OTHER[side]} do, as in {example[:60]!r}"
                is_note = count < NOTE_SHARE * len(texts)
                yield change, say("changed", count, len(texts), statement, is_note=is_note)
                break


def list_changed(few: Texts, changes: Iterable[Transformation]) -> set[str]:
    """The features that transformations add to texts, or take away."""
    features: set[str] = set()
    for change in changes:
        for text in [*few.hypotheses, *few.sides["references"]]:
            changed = change(text)
            if changed != text:
                features |= list_features(text) ^ list_features(changed)
    return features


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
    """The first or the last word of one side that the other side lacks.

    Example:
        >>> [finding] = find_lost_words(Texts(["has a dog"] * 5, [[f"{name} has a dog"] for name in "ABCDE"], [""] * 5))
        >>> finding.message[:76]
        '5 of 5 hypotheses lack the first word of the other side, and have the one be'
    """
    pairs = [pair for pair in zip(*few.words.values()) if min(map(len, pair)) > 2]
    for name, end, beside in (("first", 0, 1), ("last", -1, -2)):
        differ = [(left, right) for left, right in pairs if left[end] != right[end]]
        counts = {
            "hypotheses": sum(left[end] == right[beside] for left, right in differ),
            "references": sum(left[beside] == right[end] for left, right in differ),
        }
        for side, count in counts.items():
            if few.are_many(count, "lost") and count > 3 * counts[OTHER[side]]:
                statement = f"{side} lack the {name} word of the other side, and have the one beside it"
                yield say("lost words", count, len(few), statement)


# What is not text, although both sides have it


def find_both_sides(few: Texts) -> Iterator[Finding]:
    """Marks of subwords, tokens, single letters, special tokens, and ids on both sides.

    Example:
        >>> lines = [f"th@@ e dog number {number}" for number in range(20)]
        >>> [finding] = find_both_sides(Texts(lines, [[line] for line in lines], [""] * 20))
        >>> finding.message[:67]
        '20 of 20 hypotheses have marks of subwords, and so do references. P'
    """
    for what, pattern in (("have marks of subwords", SUBWORD), ("end with ' .', as tokenized text does", TOKENIZED)):
        counts = [sum(pattern.search(text) is not None for text in lines) for lines in few.sides.values()]
        if few.are_many(min(counts), "kind"):
            yield say("pieces", counts[0], len(few), f"hypotheses {what}, and so do references")
    letters, of_references = ([row for row in rows if are_letters(row)] for rows in few.words.values())
    if few.are_many(min(len(letters), len(of_references)), "word"):
        statement = "hypotheses are single letters with spaces, and so are references"
        yield say("pieces", len(letters), len(few), statement)
    for verb, end in (("begin", 0), ("end", -1)):
        ends = [(left[end], right[end]) for left, right in zip(*few.words.values()) if left and right]
        yield from find_tags(few, verb, ends)
        yield from find_ids(few, verb, ends)


def are_letters(words: Sequence[str]) -> bool:
    """Whether most words of a text are single letters.

    Example:
        >>> are_letters(list("aquickfox")), are_letters(["a", "b"])
        (True, False)
    """
    letters = [word for word in words if len(word) == 1 and word.lower() != word.upper()]
    return len(set(letters)) > 4 and 3 * len(letters) > 2 * len(words)  # unlike formulas and answers of a to d


def find_tags(few: Texts, verb: str, ends: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """A special token with which both sides begin or end, and which counts as right."""
    has = str.startswith if verb == "begin" else str.endswith
    tags = Counter(tag for left, _ in ends for tag in TAG.findall(left))
    for tag, _ in tags.most_common(1):
        closing = f"</{tag[1:]}"  # of a word that is struck out, as in <s>old</s>
        count = sum(has(left, tag) and has(right, tag) and closing not in left for left, right in ends)
        if count >= max(4, 0.5 * len(ends)):
            yield say("equal ends", count, len(few), f"hypotheses {verb} with {tag!r}, and so do their references")


def find_ids(few: Texts, verb: str, ends: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """First or last words with digits that no other reference has, and that are right even where the rest is wrong."""
    frequencies = Counter(right for _, right in ends)
    ids = [(left, right) for left, right in ends if frequencies[right] == 1 and re.search(r"\w{3}.*\d|\d{4}", right)]
    count = sum(left == right for left, right in ids)
    equal = sum(left == right for left, right in zip(*few.sides.values()))
    if len(ids) >= max(20, 0.5 * len(ends)) and count >= 0.98 * len(ids) and equal < 0.8 * len(few):
        statement = f"hypotheses {verb} with a word of their reference alone, as ids are, such as {ids[0][1]!r}"
        yield say("equal ends", count, len(few), statement)


# What programs and weak models do


def find_same(texts: Texts) -> Iterator[Finding]:
    """Empty texts, one text for many sentences, or one of ten.

    Example:
        >>> references = [[f"dog number {number}"] for number in range(9)]
        >>> next(find_same(Texts(["a dog"] * 9, references, [""] * 9))).message[:42]
        "9 of 9 hypotheses are the same: 'a dog'. E"
    """
    counts = {side: Counter(lines) for side, lines in texts.sides.items()}
    if len(counts["references"]) == 1 and len(texts) > 1:
        return
    most_frequent = 0
    for side, lines in counts.items():
        others = counts[OTHER[side]]
        if texts.are_many(lines[""], "few") and lines[""] > 4 * others[""]:
            most_frequent = lines[""]
            yield say("empty", lines[""], len(texts), f"{side} are empty")
        text, count = most_common_text(lines)
        is_odd = count >= 4 * max(others.values()) and (side == "hypotheses" or len(lines) > 8)  # unlike yes and no
        if texts.are_many(count, "few") and is_odd:
            most_frequent = count
            yield say("same", count, len(texts), f"{side} are the same: {text[:40]!r}")
    few, of_references = (sum(count for _, count in lines.most_common(10)) for lines in counts.values())
    if not most_frequent and len(texts) >= 100 and few >= 0.3 * len(texts) and few >= 3 * of_references:
        text, _ = most_common_text(counts["hypotheses"])
        yield say("same", few, len(texts), f"hypotheses are one of the same ten texts, such as {text[:40]!r}")


def most_common_text(counts: Counter[str]) -> tuple[str, int]:
    """The most frequent text that is not empty, and its number."""
    for text, count in counts.most_common(2):
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
    rows = [row for row in zip(*texts.sides.values(), texts.sources) if len(row[2]) >= 16]
    if not rows or 2 * len(rows) <= len(texts):  # other texts have short ones by chance
        return
    size = len(rows)
    for side, place in (("hypotheses", 0), ("references", 1)):
        count = sum(row[2] in row[place] and len(row[place]) > 1.3 * len(row[2]) for row in rows)
        if 2 * count > size:
            yield say("prompts", count, size, f"{side} contain their source as a prompt")
    copies = [row[1:] for row in rows if row[0] == row[2] != row[1]]
    are_wrong = mean_likeness(copies) < 0.4  # unlike those in post-editing
    if is_many(len(copies), size, "few") and are_wrong:
        yield say("copies", len(copies), size, "hypotheses are copies of their source")
    equal = [row[:2] for row in rows if row[1] == row[2]]
    are_long = sum(len(reference) for _, reference in equal) >= 20 * size
    if len(equal) >= 0.9 * size >= 18 and are_long and mean_likeness(equal[:MAX_COMPARED]) < 0.25:
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
    hypotheses, references = (lines[:MAX_ORDERED] for lines in texts.sides.values())
    has_words = sum(map(len, references)) < 12 * sum(text.count(" ") + 1 for text in references)
    owners: dict[str, list[int]] = {}
    for number, reference in enumerate(references):
        for piece in list_pieces(reference, has_words=has_words):
            owners.setdefault(piece, []).append(number)
    rare = {piece: numbers for piece, numbers in owners.items() if len(numbers) <= 3}
    offsets: Counter[int] = Counter()
    for number, hypothesis in enumerate(hypotheses):
        votes: Counter[int] = Counter()
        for piece in list_pieces(hypothesis, has_words=has_words):
            votes.update(rare.get(piece, ()))
        best = max(sorted(votes), key=votes.__getitem__, default=number)
        if votes[best] >= 2 and votes[best] > 3 * votes[number] and 3 * votes[best] > votes.total():
            offsets[best - number] += 1
    if is_many(offsets.total(), len(hypotheses), "few"):
        statement = "hypotheses have the rare words of another reference"
        offset, count = offsets.most_common(1)[0]
        if 2 * count > offsets.total():
            statement += f", mostly {abs(offset)} line{'s' * (abs(offset) > 1)} {'below' if offset > 0 else 'above'}"
        yield say("order", offsets.total(), len(hypotheses), statement)


def find_loops(texts: Texts, *, may_be_long: bool) -> Iterator[Finding]:
    """Hypotheses that end in a repetition, or are more than twice as long as references."""
    loops = too_long = 0
    for text, row in zip(texts.hypotheses, texts.references):
        longest = max(map(len, row))
        if len(text) > longest:
            loops += ends_in_loop(text) and not any(map(ends_in_loop, row))
            too_long += longest >= 20 and len(text) > 2 * longest + 20
    if texts.are_many(loops, "changed"):
        yield say("loops", loops, len(texts), "hypotheses end in a repetition, so they do not stop")
    elif texts.are_many(too_long, "letter") and not may_be_long:
        yield say("loops", too_long, len(texts), "hypotheses are more than twice as long as their longest reference")


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
        for unit, lengths in (("words", list(map(len, texts.words[side]))), ("characters", list(map(len, lines)))):
            longest = max(lengths, default=0)
            are_cut = [length == longest for length in lengths]
            others = [length for length in lengths if length < longest]
            most = max(others.count(longest - 1), others.count(longest - 2))  # lengths of whole texts become rarer
            is_peak = sum(are_cut) > 3 * most and len(others) >= 0.1 * sum(are_cut)
            has_limit = longest >= 6 and is_peak and texts.are_many(sum(are_cut), "few")
            is_steep = sum(are_cut) > 10 * most > 0
            if has_limit and (is_steep or seem_cut(lines, texts.sides[OTHER[side]], are_cut)):
                statement = f"{side} have {longest} {unit}, and none has more, as if a limit cut them"
                yield say("limit", sum(are_cut), len(texts), statement)
                break


def seem_cut(lines: Sequence[str], other_lines: Sequence[str], are_cut: Sequence[bool]) -> bool:
    """Whether texts are shorter than those of the other side, or end without punctuation, unlike the rest.

    Example:
        >>> seem_cut(["a man wears", "a dog."], ["a man wears a red hat.", "a dog."], [True, False])
        True
    """
    longer = open_ends = rest = open_rest = 0
    for line, other, is_cut in zip(lines, other_lines, are_cut):
        if is_cut:
            longer += len(other) > len(line) + 5
            open_ends += line[-1:].isalnum()
        else:
            rest += 1
            open_rest += line[-1:].isalnum()
    cut = len(lines) - rest
    return 2 * longer > cut or open_ends * rest > 2 * open_rest * cut


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
        yield say("teacher forcing", count, count, statement)


def find_repeats(texts: Texts) -> Iterator[Finding]:
    """Sentences that come equally often, or hypotheses beside several references.

    Example:
        >>> lines = [f"dog {number}" for number in range(8)] * 3
        >>> next(find_repeats(Texts(lines, [[line] for line in lines], [""] * 24))).message[:40]
        '8 of 8 sentences come 3 times each. Coun'
    """
    sentences = Counter(zip(texts.hypotheses, map(tuple, texts.references), texts.sources))
    for name, counts in (("sentences", sentences), ("hypotheses", Counter(texts.hypotheses))):
        for times, number in Counter(counts.values()).most_common(1):
            if times > 1 and number >= max(8, 0.8 * len(counts)):
                yield say(f"repeated {name}", number, len(counts), f"{name} come {times} times each")
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
    names = [name for name, metric in metrics.items() if "spaces" in metric.sensitive_to]
    references = texts.sides["references"]
    for script, (letter, word_length) in UNSPACED_SCRIPTS.items() if names else ():
        written = [text for text in references if 2 * len(letter.findall(text)) > len("".join(text.split()))]
        letters = sum(len(letter.findall(text)) for text in written)
        words = sum(len(text.split()) for text in written)
        if texts.are_many(len(written), "script") and letters > word_length * words:
            is_bleu = all(metrics[name].class_name == "CorpusBLEU" for name in names)
            remedy = "Chinese" if is_bleu and "Chinese" in script else "script"
            statement = f"references are {script}, whose phrases count as words in {' and '.join(names)}"
            yield say(remedy, len(written), len(texts), statement)
            return
    names = [name for name, metric in metrics.items() if "latin" in metric.sensitive_to]
    dropped = sum(drops_most_words(text) for text in references) if names else 0
    if texts.are_many(dropped, "few"):  # more than among German words
        statement = f"references have other letters than a to z in most words, which {' and '.join(names)} drops"
        yield say("dropped letters", dropped, len(texts), statement)


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
    hypotheses, references = (
        [{*map(str.lower, words)} for words in rows[:MAX_COUNTED]] for rows in texts.words.values()
    )
    known: set[str] = set().union(*references)
    size = sum(map(len, hypotheses))
    count = sum(len(words & known) for words in hypotheses)
    are_long = min(size, sum(map(len, references))) >= 4 * len(references)  # unlike names and yes or no
    are_words = sum(map(len, known)) < 12 * len(known)
    if len(references) >= 100 and are_long and are_words and 10 * count < size:
        yield say("vocabulary", count, size, "words of hypotheses are in a reference")
