"""What stands out in the texts of a validation: a wrong score explains itself.

A few general rules look for what no reader would expect. They know no library, no language, and hardly any form:

- *one-sided*: what many texts of one side have, and the other side never has: a string, or a kind of character.
- *changed*: texts that a plain transformation changes, such as ``html.unescape``, on one side only.
- *nearer*: a transformation after which both sides are much more alike.
- *both-sides*: what is not text, although both sides have it.
- The others say what weak models do, such as loops, and what programs do, such as another order.

All texts are in process 0. Each rule is a function that yields findings; :func:`find_findings` calls them in order.
"""

from __future__ import annotations

import html
import random
import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from lightning_bleu.core.mistakes import UNSPACED
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.views.blocks import Block, Note

MIN_DIFFERING = 20
"""How many sentences tell which words, letters, and marks differ. Fewer, such as the toy texts of a first try, may all
have a word by chance."""
MAX_FINDINGS = 3
"""How many findings a loader has at most, so that the first mistake is read."""
MAX_COUNTED = 400
"""In how many sentences words and characters are counted, which takes longer."""
MAX_COMPARED = 50
"""In how many of these characters are compared, which takes longest."""
MAX_CHARACTERS = 2000
"""How many characters of a text are examined, from both of its ends."""
FEW_CHARACTERS = 500
"""The same where it takes longer: NFKC of many combining marks is quadratic."""
LEAST = {
    "symbol": (4, 0.1),  # a name with an accent or a quotation mark is in fewer texts
    "letter": (10, 0.2),  # a name or a unit with a foreign letter, or "U.S." in texts of a single topic
    "word": (12, 0.5),  # a frequent word that a weak model does not know yet, or overuses
    "kind": (10, 0.25),  # digits or capitals of a few sentences
    "changed": (4, 0.05),  # an ellipsis of a single author
    "few": (8, 0.1),  # "Thank you." as the right answer a few times
    "order": (4, 0.03),  # in 1% of the sentences of a model of BLEU 20, by chance
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
"""How near the texts of a good model are to their references: 0.54 to 0.63. Those of BLEU 5 have 0.2. A weak model may
lack what the references have, but it writes hardly any symbols that they lack."""
TAG = re.compile(r"<[^<>\s]+>|\[\w{2,}\]|>>\w+<<|(?<!\w)_*[a-z]{2,3}_[A-Z]\w+|__[a-z]{2,3}__|\u2047")
"""What looks like a special token, or like the code of a language. Unknown words may be decoded as \u2047."""
SUBWORD = re.compile(r"\w@@ \w|\w ##\w|\u2581\w|\u0120\w+(?: \w+)? \u0120\w+(?: \w+)? \u0120|[a-z]\u0120|\w</w>")
"""The marks of four kinds of subwords. In Maltese, a word may begin with \u0120."""
CERTAIN = {"one-sided subwords": SUBWORD, "one-sided tags": TAG}
"""What is no text, and says enough in a few sentences, too."""
PIECES = {
    "have marks of subwords": (SUBWORD, "both-sides pieces"),
    "are single letters with spaces": (re.compile(r"((?<!\S)[^\W\d_]\s+){10}"), "both-sides pieces"),
    "end with ' .', as tokenized text does": (re.compile(r"\w \.$"), "both-sides tokens"),
    "have unknown words": (re.compile(r"<unk>|\[UNK\]|\u2047"), "both-sides unknown"),
}
"""What is no text, although both sides have it, with the names of remedies."""
ID = re.compile(r"\w{3}.*\d|\d{4}")
"""What a number of a sentence looks like, unlike small numbers."""
REMEDIES = {
    "one-sided subwords": "Join the subwords: decode ids to text.",
    "one-sided tags": "Are they special tokens? Set skip_special_tokens=True. Else remove the tags.",
    "one-sided symbols": "It makes most scores worse. Is it padding, markup, or punctuation? Print one with repr().",
    "one-sided ends": "It makes the score worse.",
    "one-sided words": "It makes the score worse.",
    "one-sided kinds": "Write both sides alike, or set lowercase=True or another tokenizer.",
    "one-sided cuts": "Are texts cut off, as by a limit, or by ids[1:]? Else write both sides alike.",
    "changed": "Pass both sides through the same function.",
    "nearer": "Print one hypothesis with repr().",
    "both-sides pieces": "Pass text: decode ids, and detokenize.",
    "both-sides tokens": "Detokenize both sides, or compare only with scores of tokenized text.",
    "both-sides unknown": "They count as right: pass references as text, not as ids that are decoded.",
    "both-sides ends": "They count as right: remove them from both sides.",
    "order": "Is the order the same? Is a line missing?",
    "repeats of sentences": "Count each once, or intervals are too narrow.",
    "repeats of hypotheses": "Are they beams, or of one batch? Pass all references of a sentence in one list.",
    "limit": "Set max_new_tokens above the longest reference, and do not truncate references.",
    "loops": "Early in training, wait. Later, put the end into the labels, and set eos_id. Is a prompt in them?",
    "same-output hypotheses": "Early in training, wait. Later, look at the ids. Does the decoder see the source?",
    "same-output references": "Is it the right column of the dataset?",
    "source as prompt": "Score only the new tokens, generated[:, prompts.shape[1]:], with labels without the prompt.",
    "source as hypotheses": "Set the target language.",
    "source as references": "Return the column of the targets.",
    "leak": "Are references scored against themselves, or in the training data? If the task is easy, nothing is wrong.",
    "leak of labels": "Score what the model generates.",
    "vocabulary": "Early in training, wait. Later, are they of another file, order, vocabulary, or language?",
    "vocabulary of a script": "Use CorpusCHRF, ROUGE(tokenizer=list), or CorpusBLEU(tokenizer='zh') for Chinese, "
    "'ja-mecab' for Japanese, 'char' for others. Among other languages, give this one a metric of its own with only=.",
}
"""What to do, the last sentence of a message; each name begins with the key of a finding, in their order."""
KEYS = [*dict.fromkeys(name.split()[0] for name in REMEDIES)]
"""The keys of findings, in the order in which they are shown."""
NOTES = {
    "one-sided words",
    "limit",
    "loops",
    "same-output references",
    "same-output hypotheses",
    "source as hypotheses",
    "source as references",
    "leak",
    "vocabulary",
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
        ('same-output', '4 of 4 hypotheses are empty. Ea')

    Attributes:
        key: what it is, such as ``"loops"``; the name of its row in *Reading the dashboard*.
        message: a sentence with the numbers that led to it, and what to do.
        where: the name of the loader, or of the system, if there are several; ``"LOADER/GROUP"`` for a group.
        is_warning: whether it is a warning, too: something that a program does, rather than a weak model.
    """

    key: str
    message: str
    where: str = ""
    is_warning: bool = field(default=True, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The key, the message, and where it is."""
        return {"key": self.key, "message": self.message, "where": self.where}

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


Findings: TypeAlias = Iterator[Finding]
"""What a rule yields."""
Lines: TypeAlias = Sequence[str]
"""The texts of a side."""
TextFunction: TypeAlias = Callable[[str], str]
"""A transformation of a text."""


def say(name: str, count: int, whole: Sized, statement: str, *, is_note: bool = False) -> Finding:
    """A finding about some of all sentences.

    Example:
        >>> say("repeats of sentences", 2000, range(2000), "sentences come 2 times each").message
        '2,000 of 2,000 sentences come 2 times each. Count each once, or intervals are too narrow.'
    """
    key = name.split()[0]
    is_warning = not is_note and name not in NOTES
    return Finding(key, f"{count:,} of {len(whole):,} {statement}. {REMEDIES[name]}", is_warning=is_warning)


def describe_findings(findings: Iterable[Finding], title: str = "What stands out") -> list[Block]:
    """What there is to see of findings, each with its key; nothing without any."""
    lines = [f"{finding} [{finding.key}]" for finding in findings]
    return [Note("\n".join([f"{title}:", *lines]))] if lines else []


def select_warnings(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """The messages of those that are warnings as well, with keys by which each is said once."""
    numbers: Counter[str] = Counter()
    for finding in findings:
        if finding.is_warning:
            place = finding.where + finding.key
            numbers[place] += 1
            yield f"{finding.key} {numbers[place]}", str(finding)


# What is examined


@dataclass(frozen=True, eq=False)
class Texts:
    """Hypotheses, and the references of each, at least one."""

    hypotheses: Lines
    references: Sequence[Lines]

    def __len__(self) -> int:
        return len(self.hypotheses)

    @cached_property
    def sides(self) -> dict[str, Lines]:
        """The hypotheses, and the first reference of each."""
        return {"hypotheses": self.hypotheses, "references": [row[0] for row in self.references]}

    @cached_property
    def compared(self) -> list[tuple[str, str]]:
        """A few hypotheses, each with its first reference, without empty ones."""
        return [*islice(filter(all, zip(*self.sides.values())), MAX_COMPARED)]

    @cached_property
    def likeness(self) -> float:
        """How alike hypotheses and their references are, whatever the case, punctuation, and spaces.

        0 if hypotheses are no nearer to their own references than to others.

        Example:
            >>> hypotheses, references = ["A CAT SAT", "TWO DOGS"], [["a cat sat"], ["two dogs"]]
            >>> Texts(hypotheses, references).likeness, Texts(hypotheses[::-1], references).likeness
            (1.0, 0.0)
        """
        hypotheses = [re.sub(r"\W", "", left.lower()) for left, _ in self.compared]
        references = [re.sub(r"\W", "", right.lower()) for _, right in self.compared]
        likeness = measure_likeness(zip(hypotheses, references))
        crossed = measure_likeness(zip(hypotheses, references[1:]))
        return likeness if likeness > 0.02 + 1.5 * crossed else 0.0  # sentences of one topic share some words

    @cached_property
    def are_repetitive(self) -> bool:
        """Whether hypotheses are equal much more often than references, as those of a weak model."""
        return 2 * len({*self.hypotheses}) <= len({*self.sides["references"]})

    def pick(self, numbers: Collection[int], limit: int) -> Texts:
        """Some sentences without the middle of long texts."""
        hypotheses = [keep_ends(self.hypotheses[number], limit) for number in numbers]
        references = []
        for number in numbers:
            row = self.references[number] or [""]
            references.append([keep_ends(text, limit) for text in row])
        return Texts(hypotheses, references)

    def least(self, kind: str) -> float:
        """How many sentences are enough for something: all of a few, or a number and a share.

        Example:
            >>> Texts([""] * 5, []).least("few"), Texts([""] * 100, []).least("few")
            (5, 18.0)
        """
        number, share = LEAST[kind]
        return min(max(len(self), 4), number + share * len(self))

    def tally(self, features: Callable[[str], Iterable[str]]) -> Iterator[tuple[str, Counter[str], Counter[str]]]:
        """For each side, how many of its texts have each feature, and how many of the other side.

        Example:
            >>> next(Texts(["a b"], [["b"]]).tally(str.split))
            ('hypotheses', Counter({'a': 1, 'b': 1}), Counter({'b': 1}))
        """
        of_hypotheses, of_references = (
            Counter(chain.from_iterable(map(features, lines))) for lines in self.sides.values()
        )
        yield "hypotheses", of_hypotheses, of_references
        yield "references", of_references, of_hypotheses

    def count(self, has: Callable[[str], object]) -> dict[str, tuple[int, int]]:
        """For each side, how many texts have something, and how many of the other side.

        A sentence has it on its side if all of its references have it, and on the other side if any has.

        Example:
            >>> Texts(["1", "a"], [["a", "2"], ["3"]]).count(str.isdigit)
            {'hypotheses': (1, 2), 'references': (1, 1)}
        """
        hypotheses = len([*filter(has, self.hypotheses)])
        answers = [[*map(has, row)] for row in self.references]
        in_all, in_any = sum(map(all, answers)), sum(map(any, answers))
        return {"hypotheses": (hypotheses, in_any), "references": (in_all, hypotheses)}


def keep_ends(text: str, limit: int) -> str:
    """The two ends of a long text, without white space around it.

    Example:
        >>> keep_ends(" abcdefgh ", 4)
        'abgh'
    """
    text = text.strip()
    return text if len(text) <= limit else text[: limit // 2] + text[-limit // 2 :]


def list_sequences(text: str, length: int) -> set[str]:
    """The sequences of so many characters of a text.

    Example:
        >>> sorted(list_sequences("a cat", 4)), list_sequences("a", 4)
        ([' cat', 'a ca'], {'a'})
    """
    return {text[start : start + length] for start in range(max(1, len(text) - length + 1))}


def measure_likeness(pairs: Iterable[tuple[str, str]]) -> float:
    """The share of sequences of four characters that two texts have in common, on average; 0 without any texts.

    Example:
        >>> measure_likeness([("a cat", "a car")]), measure_likeness([("a cat", ""), ("a cat", "a cat")])
        (0.5, 0.5)
    """
    shares = []
    for left, right in pairs:
        sequences, others = list_sequences(left, 4), list_sequences(right, 4)
        shares.append(2 * len(sequences & others) / (len(sequences) + len(others)))
    return sum(shares) / max(1, len(shares))


# All rules


def find_findings(
    hypotheses: Lines,
    references: Sequence[Lines],
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
        "7 of 7 hypotheses end with '</s>', and no references do, as in 'a dog</s>'. Ar"
    """
    if not hypotheses:
        return []
    texts = Texts(hypotheses, references).pick(range(len(hypotheses)), MAX_CHARACTERS)
    known_sources = [keep_ends(source or "", MAX_CHARACTERS) for source in sources or [""] * len(hypotheses)]
    aspects = {*ASPECTS.values(), "letters", "subwords"}
    if metrics:
        aspects = {"letters"}.union(*(metric.sensitive_to for metric in metrics.values()))
    if are_tokens:
        aspects.discard("subwords")
    findings = [*find_leak(texts), *find_script(texts, metrics or {})]
    if not has_index:
        findings += find_repeats(texts, known_sources)
    misplaced = [*find_same(texts), *find_sources(texts, known_sources)]
    if not misplaced and not texts.are_repetitive:
        misplaced += find_order(texts)
    findings += misplaced or find_differences(texts, aspects)
    return select_findings(findings)


def find_differences(texts: Texts, aspects: Collection[str]) -> Findings:
    """What is written in another way, in texts of the same sentences."""
    numbers = random.Random(0).sample(range(len(texts)), min(MAX_COUNTED, len(texts)))
    few = texts.pick(numbers, FEW_CHARACTERS)  # from all parts, at random: every fourth line may be wrong
    if "subwords" in aspects:
        yield from find_both_sides(few)
    findings = [*find_loops(texts), *find_limit(texts)]
    if len(few) >= MIN_DIFFERING:
        findings += find_nearer(few)
    if findings:  # which explain kinds of characters and words, too
        aspects = []
    findings += find_one_sided(texts, few, aspects)
    yield from findings
    if aspects and not any(finding.is_warning for finding in findings):
        yield from find_unrelated(few)


def select_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The first of them: warnings, then in the order of the rules."""
    return sorted(findings, key=lambda finding: (not finding.is_warning, KEYS.index(finding.key)))[:MAX_FINDINGS]


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
ASPECTS = {
    "an upper-case letter": "case",
    "a lower-case letter": "case",
    "a punctuation mark": "punctuation",
    "white space": "spaces",
    "a line break": "spaces",
}
"""What a metric must see, so that a kind matters; else the letters, which all see."""
VERBS = {"begin with": str.startswith, "end with": str.endswith, "contain": str.__contains__}
"""What texts may do with a string."""


@cache
def kinds_of(character: str) -> list[str]:
    """The kinds of a character.

    Example:
        >>> kinds_of("A"), kinds_of("。")
        (['an upper-case letter', 'Latin letters'], ['a punctuation mark'])
    """
    if character == "\n":
        return ["a line break"]
    category = unicodedata.category(character)
    kinds = [name for prefix, name in CATEGORIES.items() if category.startswith(prefix)]
    if character.isalpha():
        script = unicodedata.name(character, "other").split()[0]
        kinds.append(f"{script.title()} letters")
    return kinds


def list_kinds(text: str) -> set[str]:
    """The kinds of the characters of a text, those at its ends once more.

    Example:
        >>> sorted(list_kinds("7"))
        ['a digit', 'a digit at the beginning', 'a digit at the end']
    """
    kinds = set().union(*map(kinds_of, set(text)))
    for place, character in (("beginning", text[:1]), ("end", text[-1:])):
        if (
            character and not character.islower()
        ):  # the other side has another kind at this end, which is plainer to say
            kinds.update(f"{kind} at the {place}" for kind in kinds_of(character)[:1])
    return kinds


def class_of(text: str) -> str:
    """How a string is judged: symbols differ seldom by chance, words of letters often.

    Example:
        >>> [class_of(text) for text in ("</", "ü", "U.S.", "the", "it's")]
        ['symbol', 'letter', 'letter', 'word', 'word']
    """
    if not re.search(r"[^\W_]", text):
        return "symbol"
    return "word" if re.fullmatch(r"[^\W_].*[^\W_]", text) else "letter"


class OneSided(NamedTuple):
    """Something that many texts of one side do, unlike the other.

    Attributes:
        order: the number of texts, negative, so that the most frequent one comes first; nearer to 0 for a kind, which
            may be that of many strings.
        side: which side.
        verb: what the texts do, such as "begin with"; "lack" a kind of characters, or "have" what a function changes.
        feature: a string, a kind of characters, or one of ``CHANGES``.
        example: a part of one of the texts.
    """

    order: float
    side: str
    verb: str
    feature: str
    example: str = ""

    @property
    def is_at_end(self) -> bool:
        """Whether it is a kind of characters at one of the ends."""
        return " at the " in self.feature

    def does(self, text: str) -> bool:
        """Whether a text does so.

        Example:
            >>> OneSided(-9, "hypotheses", "end with", "</s>").does("a cat</s>")
            True
        """
        if self.verb == "lack":
            return self.feature not in list_kinds(text)
        if self.verb == "have":
            return is_changed(self.feature, text)
        return VERBS[self.verb](text, self.feature)


def find_one_sided(texts: Texts, few: Texts, aspects: Collection[str]) -> Findings:
    """What one side has or lacks, the most frequent things, each in other sentences.

    Args:
        texts: all sentences, in which they are counted.
        few: those in which they are looked for.
        aspects: what the metrics see.
    """
    are_different = len(texts) >= MIN_DIFFERING and not few.are_repetitive
    explained = defaultdict[str, set[int]](set)
    candidates = [*list_contained(few, aspects), *list_lacking(few, aspects)]
    candidates.sort(key=lambda found: (found.is_at_end, found))
    for found in [*list_changed(few), *candidates]:
        kind = class_of(found.feature)
        is_word = found.verb == "contain" and kind != "symbol"
        lines = few.sides[found.side]
        numbers = [number for number, line in enumerate(lines) if found.does(line)]
        # A period that only one side has explains no missing capitals
        topic = found.feature if found.verb == "lack" and not found.is_at_end else ""
        if are_most(number in explained[topic] for number in numbers):
            continue
        quoted = found
        topics = [""]
        if found.verb == "contain":
            quoted = quote(found, [lines[number] for number in numbers])
            topics += list_kinds(quoted.feature)
        name = find_remedy(quoted, kind)
        is_certain = name in CERTAIN
        is_extra = found.side == "hypotheses" and found.verb != "lack" and not is_word
        # A weak model may do the rest, and what unrelated texts lack means nothing
        is_odd = is_certain or is_extra
        if few.likeness == 0 and not is_odd:
            continue
        count, others = texts.count(quoted.does)[found.side]
        are_enough = are_different or is_certain or name == "changed"
        if are_enough and count > LACK_RATIO * others:  # unlike what other references have
            for topic in topics:
                explained[topic].update(numbers)
            is_rare = not is_certain and count < NOTE_SHARE * len(texts)
            is_note = is_rare or (few.likeness <= NEAR and not is_odd)
            yield say(name, count, texts, describe_one_sided(quoted, others), is_note=is_note)


def list_strings(text: str) -> set[str]:
    """The characters and the words of a text, and marks at its end: a lone one, as in tokenized text, or a row of them.

    Example:
        >>> sorted(list_strings("so !"))
        [' !', '!', 'so']
    """
    return {*text, *text.split(), *re.findall(r"(?<=\w\w) [^\w\s]$|[^\w\s]{4}$", text)} - COMMON


def list_contained(few: Texts, aspects: Collection[str]) -> Iterator[OneSided]:
    """The strings that one side has, and the other does not."""
    least_count = few.least("symbol")
    for side, frequencies, others in few.tally(list_strings):
        for text, count in frequencies.items():
            if count < least_count or count <= RATIO * others[text]:
                continue
            kind = class_of(text)
            is_word = kind == "word" and "letters" not in aspects
            if count >= few.least(kind) and not is_word:
                yield OneSided(-count, side, "contain", text)


def list_lacking(few: Texts, aspects: Collection[str]) -> Iterator[OneSided]:
    """The kinds of characters that one side lacks, and the other does not."""
    for side, frequencies, others in few.tally(list_kinds):
        for kind, count in others.items():
            lacking = len(few) - frequencies[kind]
            if lacking < few.least("kind") or lacking <= LACK_RATIO * (len(few) - count):
                continue
            name = kind.split(" at the ")[0]
            if ASPECTS.get(name, "letters") in aspects:
                yield OneSided(-0.9 * lacking, side, "lack", kind)


def describe_one_sided(found: OneSided, others: int) -> str:
    """What to say about something that is one-sided, and that some texts of the other side do, too.

    Example:
        >>> describe_one_sided(OneSided(-9, "hypotheses", "lack", "a digit"), 1)
        'hypotheses lack a digit, and only 1 references do'
    """
    feature = repr(found.feature) if found.verb in VERBS else found.feature
    count = f"only {others}" if others else "no"
    statement = f"{found.side} {found.verb} {feature}, and {count} {OTHER[found.side]} do"
    return f"{statement}, as in {found.example!r}" if found.example else statement


def find_remedy(found: OneSided, kind: str) -> str:
    """Which remedy helps, for something that was found as a kind of string; see :func:`class_of`.

    Example:
        >>> find_remedy(OneSided(-9, "hypotheses", "end with", "</s>", "a cat</s>"), "letter")
        'one-sided tags'
    """
    if found.verb == "lack":
        return "one-sided cuts" if found.is_at_end else "one-sided kinds"
    if found.verb == "have":
        return "changed"
    start = found.example.find(found.feature)
    end = start + len(found.feature)
    for name, pattern in CERTAIN.items():
        for match in pattern.finditer(found.example):
            if match.start() < end and match.end() > start:  # not beside it
                return name
    if found.verb == "contain":
        return "one-sided symbols" if kind == "symbol" else "one-sided words"
    return "one-sided ends" if any(map(str.isalnum, found.feature)) else "one-sided symbols"


def quote(found: OneSided, lines: Lines) -> OneSided:
    """The longest string that nearly all lines share instead of a part of it, where it is, and an example."""
    text = grow(found.feature, min(lines, key=len), lines)
    quoted = found._replace(feature=text)
    for verb in ("end with", "begin with"):
        at_end = quoted._replace(verb=verb)
        if are_most(map(at_end.does, lines)):
            quoted = at_end
    example = min(filter(quoted.does, lines), key=len)
    start = max(0, example.find(quoted.feature) - 20)
    return quoted._replace(example=example[start : start + 80])


def grow(text: str, line: str, lines: Lines) -> str:
    """The longest part of a line around a text that nearly all lines have.

    Example:
        >>> grow("<", "the <unk>", ["a <unk> cat", "the <unk>"]), grow("Here", "Here is: a", ["Here is: b"])
        (' <unk>', 'Here is: ')
    """
    _, _, after = line.partition(text)
    for character in after:
        if not is_shared(text + character, lines):
            break
        text += character
    before, _, _ = line.partition(text)
    for character in reversed(before):
        if not is_shared(character + text, lines):
            break
        text = character + text
    return text


def is_shared(text: str, lines: Lines) -> bool:
    """Whether a text is short, and nearly all lines have it.

    Example:
        >>> is_shared("cat", ["a cat", "the cat"]), is_shared("the cat", ["a cat", "the cat"])
        (True, False)
    """
    return len(text) <= 60 and are_most(text in line for line in lines)


def are_most(answers: Iterable[bool]) -> bool:
    """Whether 90% of some answers are yes.

    Example:
        >>> are_most([True] * 9 + [False]), are_most([True, False])
        (True, False)
    """
    known = list(answers)
    return sum(known) >= 0.9 * len(known)


# A plain transformation changes one side only, or brings both nearer


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


CHANGES: dict[str, TextFunction] = {
    "entities that html.unescape replaces": html.unescape,
    "a wrong encoding, which open(path, encoding='utf-8') avoids": decode_again,
    "characters that unicodedata.normalize('NFKC', text) replaces": partial(unicodedata.normalize, "NFKC"),
    "invisible characters": lambda text: re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", text),
}
"""What they change, and how."""


def is_changed(name: str, text: str) -> bool:
    """Whether a transformation changes a text. Most are not even looked at.

    Example:
        >>> name = "entities that html.unescape replaces"
        >>> is_changed(name, "it&apos;s"), is_changed(name, "it's")
        (True, False)
    """
    known = text[:FEW_CHARACTERS].replace(
        "\u2047", ""
    )  # the unknown word of a tokenizer, rather than two question marks
    return ("&" in known or not known.isascii()) and CHANGES[name](known) != known


def list_changed(few: Texts) -> Iterator[OneSided]:
    """The transformations that change one side, and not the other."""
    for name in CHANGES:
        has = partial(is_changed, name)
        for side, (count, others) in few.count(has).items():
            if count >= few.least("changed") and count > RATIO * others:
                example = min(filter(has, few.sides[side]), key=len)
                yield OneSided(-count, side, "have", name, example[:60])


NEARER: list[tuple[str, TextFunction, bool]] = [
    ("without white space", lambda text: "".join(text.split()), True),
    ("without repeated letters", lambda text: re.sub(r"(\w)\1+", r"\1", text), True),  # such as those of CTC
    ("with their words reversed", lambda text: " ".join(text.split()[::-1]), False),
    ("with their characters reversed", lambda text: text[::-1], False),
]
"""What brings hypotheses nearer to their references: what to say, how to change a text, and whether on both sides."""


def find_nearer(few: Texts) -> Findings:
    """A transformation after which hypotheses are much nearer to their references.

    Example:
        >>> lines = ["the dog saw a cat", "all birds can fly"] * 10
        >>> [finding] = find_nearer(Texts([line[::-1] for line in lines], [[line] for line in lines]))
        >>> finding.message[20:80]
        'were compared, and are nearer to their references with their'
    """
    pairs = few.compared
    before = measure_likeness(pairs)
    for name, change, is_of_both in NEARER:
        changed = [(change(left), change(right) if is_of_both else right) for left, right in pairs]
        after = measure_likeness(changed)
        if after > max(0.15, before + 0.08):  # unlike by chance, as with texts of few characters
            statement = f"hypotheses were compared, and are nearer to their references {name}"
            yield say("nearer", len(pairs), few, f"{statement}: {after:.0%} alike instead of {before:.0%}")


# What is not text, although both sides have it


def find_both_sides(few: Texts) -> Findings:
    """What is not text: marks of subwords, tokens, single letters, special tokens, and ids.

    Example:
        >>> lines = [f"th@@ e dog number {number}" for number in range(20)]
        >>> [finding] = find_both_sides(Texts(lines, [[line] for line in lines]))
        >>> finding.message[:67]
        '20 of 20 hypotheses have marks of subwords, and so do references. P'
    """
    for statement, (pattern, name) in PIECES.items():
        count, others = few.count(pattern.search)["hypotheses"]
        if min(count, others) >= few.least("symbol"):
            yield say(name, count, few, f"hypotheses {statement}, and so do references")
            return
    pairs = [*filter(all, zip(*few.sides.values()))]
    is_perfect = measure_likeness(few.compared) > 0.9
    for verb, place in (("begin with", 0), ("end with", -1)):
        ends = [(left.split()[place], right.split()[place]) for left, right in pairs]
        yield from find_tags(verb, ends)
        if not is_perfect:
            yield from find_ids(verb, ends)


def find_tags(verb: str, ends: Sequence[tuple[str, str]]) -> Findings:
    """A special token with which both sides begin or end, and which counts as right.

    Example:
        >>> next(find_tags("end with", [("dog.</s>", "cat.</s>")] * 4)).message[:63]
        "4 of 4 hypotheses end with '</s>', and so do their references. "
    """
    frequencies: Counter[str] = Counter()
    for left, right in ends:
        tags = TAG.findall(left)
        # All are at one end, unlike those around a word that is struck out, and in vector<int>
        if tags[:1] == TAG.findall(right)[:1] and VERBS[verb](left, "".join(tags)):
            frequencies.update(tags[:1])
    for tag, count in frequencies.most_common(1):
        if count >= max(4, 0.5 * len(ends)):
            yield say("both-sides ends", count, ends, f"hypotheses {verb} {tag!r}, and so do their references")


def find_ids(verb: str, ends: Sequence[tuple[str, str]]) -> Findings:
    """First or last words with digits that no other reference has, and that are always right.

    Example:
        >>> next(find_ids("begin with", [(f"utt{number:03}",) * 2 for number in range(20)])).message[:60]
        '20 of 20 hypotheses begin with a word of their reference alo'
    """
    frequencies = Counter(right for _, right in ends)
    equal = []
    different = 0
    for left, right in ends:
        if frequencies[right] == 1 and ID.search(right):
            if left == right:
                equal.append(left)
            else:
                different += 1
    if len(equal) >= max(20, 0.5 * len(ends), 50 * different):
        statement = f"hypotheses {verb} a word of their reference alone, as ids are, such as {equal[0]!r}"
        yield say("both-sides ends", len(equal), ends, statement)


# What programs and weak models do


def find_same(texts: Texts) -> Findings:
    """Empty texts, or one text for many sentences.

    Example:
        >>> references = [[f"dog number {number}"] for number in range(9)]
        >>> next(find_same(Texts(["a dog"] * 9, references))).message[:42]
        "9 of 9 hypotheses are the same: 'a dog'. E"
    """
    for side, frequencies, others in texts.tally(lambda text: [text]):
        if side == "references" and len(frequencies) <= 8:  # such as yes and no
            continue
        text, count = frequencies.most_common(1)[0]
        if count >= max(texts.least("few"), 4 * max(others.values())):
            state = f"the same: {text[:40]!r}" if text else "empty"
            yield say(f"same-output {side}", count, texts, f"{side} are {state}")


def find_sources(texts: Texts, sources: Lines) -> Findings:
    """Sources in hypotheses or references.

    Example:
        >>> sources = [f"Translate sentence number {number}:" for number in range(9)]
        >>> texts = Texts([f"{source} ein Satz auf Deutsch" for source in sources], [["ein Satz"]] * 9)
        >>> next(find_sources(texts, sources)).message[:58]
        '9 of 9 hypotheses contain their source as a prompt. Score '
    """
    for side, lines in texts.sides.items():
        others = texts.sides[OTHER[side]]
        prompts = 0
        copies = []
        for source, text, other in zip(sources, lines, others):
            if len(source) >= 16 and source in text:  # a text has a short one by chance
                prompts += len(text) > 1.3 * len(source)
                if text == source:
                    copies.append((text, other))
        if 2 * prompts > len(texts):
            yield say("source as prompt", prompts, texts, f"{side} contain their source as a prompt")
        # Unlike those in post-editing
        if len(copies) >= texts.least("few") and measure_likeness(copies) < 0.3:
            statement = f"{side} equal their source, as copies do, unlike {OTHER[side]}"
            yield say(f"source as {side}", len(copies), texts, statement)


def list_pieces(text: str) -> set[str]:
    """The words of a text without numbers, or its sequences of three characters if it has hardly any spaces.

    And a sentence itself, twice, so that two equal ones are found without any rare words.

    Example:
        >>> sorted(list_pieces("Two dogs 7")), len(list_pieces("我有一只可爱的小猫和小狗"))
        (['dogs', 'two'], 10)
    """
    words = text.lower().split()
    if len(text) >= 12 * len(words):
        return list_sequences(text, 3)
    pieces = {word for word in words if not word.isnumeric()}
    if len(pieces) > 3:
        pieces.update([text, f"{text} "])
    return pieces


def find_order(texts: Texts) -> Findings:
    """Hypotheses that have the rare words of another reference, and hardly any of their own.

    Example:
        >>> lines = [f"dog{number} sees cat{number}" for number in range(20)]
        >>> [finding] = find_order(Texts(lines[1:] + lines[:1], [[line] for line in lines]))
        >>> finding.message[:74]
        '20 of 20 hypotheses have the words of another reference, mostly off by +1.'
    """
    first = texts.pick(range(min(MAX_COUNTED, len(texts))), FEW_CHARACTERS)
    owners = defaultdict(list)
    pieces_of = [*map(list_pieces, first.sides["references"])]
    for number, pieces in enumerate(pieces_of):
        for piece in pieces:
            owners[piece].append(number)
    offsets: Counter[int] = Counter()
    for number, hypothesis in enumerate(first.hypotheses):
        pieces = list_pieces(hypothesis)
        owner = find_owner(number, map(owners.__getitem__, pieces))
        has_own = 2 * len(pieces & pieces_of[number]) >= len(pieces)
        if owner is not None:
            offsets[0 if has_own else owner - number] += 1
    own = offsets.pop(0, 0)
    count = offsets.total()
    for offset, most in offsets.most_common(1):
        is_shift = 2 * most > count
        # Sentences of a document share words, but not at one offset, and most have those of their own reference
        if count < first.least("order" if is_shift or count >= own else "few"):
            return
        statement = "hypotheses have the words of another reference"
        if is_shift:
            statement += f", mostly off by {offset:+}"
        yield say("order", count, first, statement)


def find_owner(number: int, owned: Iterable[list[int]]) -> int | None:
    """The only reference that has several rare words of a hypothesis; in doubt, its own.

    Example:
        >>> find_owner(0, [[5], [5, 7], [1, 2, 3, 4]]), find_owner(0, [[5], [0, 5]]), find_owner(0, [[5]])
        (5, 0, None)
    """
    votes: Counter[int] = Counter()
    for references in owned:
        if len(references) <= 3:
            votes.update(references)
    best = max(sorted(votes), key=votes.__getitem__, default=number)
    if votes[best] < max(2, votes.total() / 3):
        return None
    if votes[best] > 3 * votes[number]:
        return best
    return number


def find_loops(texts: Texts) -> Findings:
    """Hypotheses that end in a repetition, unlike their references, or that are much too long.

    Example:
        >>> next(find_loops(Texts(["a man" + " and a man" * 9] * 9, [["a man"]] * 9))).message[:40]
        '9 of 9 hypotheses end in a repetition, s'
    """
    loops = long_ones = 0
    for text, row in zip(texts.hypotheses, texts.references):
        longest = max(map(len, row))
        if len(text) > longest:
            words = TAG.sub("", text)  # padding is no loop
            long_ones += longest >= 20 and len(words) > 1.5 * longest
            loops += len(words) > longest and ends_in_loop(words) and not any(map(ends_in_loop, row))
    if loops >= max(texts.least("changed"), long_ones / 2):
        yield say("loops", loops, texts, "hypotheses end in a repetition, so they do not stop")
    elif long_ones >= texts.least("letter"):
        yield say("loops", long_ones, texts, "hypotheses are more than 1.5 times as long as their longest reference")


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


def find_limit(texts: Texts) -> Findings:
    """Many texts of a side that have the greatest length of all, as if a limit cut them.

    Either nearly all texts have it whose counterpart is longer, or far more texts than have one of the lengths below.

    Example:
        >>> references = [[f"{number} this is a sentence of {'so ' * number}words"] for number in range(20)]
        >>> hypotheses = [" ".join(row[0].split()[:9]) for row in references]
        >>> next(find_limit(Texts(hypotheses, references))).message[:49]
        '18 of 20 hypotheses have 9 words, and none has mo'
    """
    least = texts.least("few")
    word_counts = {}
    for side, lines in texts.sides.items():
        word_counts[side] = [len(line.split()) for line in lines]
    for side, other in OTHER.items():
        lengths = word_counts[side]
        limit = max(lengths)
        count = lengths.count(limit)
        is_weak = count == len(texts) and texts.likeness == 0  # a model that has learned no words yet
        if limit < 6 or count < least or is_weak:
            continue
        others = word_counts[other]
        of_longer = [length for length, of_other in zip(lengths, others) if of_other > limit]
        are_cut = of_longer.count(limit) >= max(least, 0.8 * len(of_longer))
        have_one_pattern = len({length for length in others if length > limit}) == 1
        is_peak = count > 10 * lengths.count(limit - 1) > 0  # lengths of whole texts become rarer
        if (are_cut and not have_one_pattern) or (is_peak and min(others) < limit <= max(others)):
            statement = f"{side} have {limit} words, and none has more, as if a limit cut them"
            yield say("limit", count, texts, statement)


def find_leak(texts: Texts) -> Findings:
    """Hypotheses of which most equal their references. Fewer than 100, or short ones, may test overfitting."""
    count = sum(hypothesis in row for hypothesis, row in zip(texts.hypotheses, texts.references))
    are_long = sum(map(len, texts.hypotheses)) >= 30 * len(texts)
    if are_long and count >= max(100, 0.7 * len(texts)):
        yield say("leak", count, texts, "hypotheses equal their reference")


def find_teacher_forcing(widths: Mapping[tuple[int, int], int]) -> Findings:
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
        yield say("leak of labels", count, range(count), statement)


def find_repeats(texts: Texts, sources: Lines) -> Findings:
    """Sentences that come equally often, hypotheses beside several references, or few different hypotheses.

    Example:
        >>> lines = [f"dog {number}" for number in range(8)] * 3
        >>> next(find_repeats(Texts(lines, [[line] for line in lines]), [""] * 24)).message[:40]
        '8 of 8 different sentences come 3 times '
    """
    whole = Counter(zip(texts.hypotheses, map(tuple, texts.references), sources))
    hypotheses = Counter(texts.hypotheses)
    for name, frequencies in (("sentences", whole), ("hypotheses", hypotheses)):
        [(times, number)] = Counter(frequencies.values()).most_common(1)
        if times > 1 and number >= max(8, 0.8 * len(frequencies)):
            yield say(f"repeats of {name}", number, frequencies, f"different {name} come {times} times each")
            break
    if texts.are_repetitive and max(hypotheses.values()) < texts.least("few"):  # unlike one text for many sentences
        repeated = len(texts) - len(hypotheses)
        yield say("same-output hypotheses", repeated, texts, "hypotheses equal an earlier one")


# Words that metrics do not find

UNSPACED_SCRIPTS = {
    "Chinese or Japanese": (re.compile(UNSPACED), 4),
    "Thai, Lao, Burmese, or Khmer": (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"), 8),
}
"""The letters of scripts without spaces, and how many of them the words of a text with spaces have, on average."""
OTHER_WORD = re.compile(r"\S*[^\W\d_a-zA-Z]\S*")
"""A word with other letters than a to z."""


def find_script(texts: Texts, metrics: Mapping[str, EvaluatorMetric]) -> Findings:
    """References whose words a metric does not find, because they have no spaces, or other letters than a to z."""
    references = texts.sides["references"]
    names = name_metrics(metrics, "latin")
    if names:
        count = sum(map(drops_most_words, references))
        if count >= texts.least("few"):  # more than among German words
            statement = f"references have letters other than a to z in most words, which {names} drops"
            yield say("vocabulary of a script", count, texts, statement)
    names = name_metrics(metrics, "spaces")
    for script, (letter, word_length) in UNSPACED_SCRIPTS.items() if names else ():
        written = []
        for text in references:
            if 2 * len(letter.findall(text)) > len(text):
                written.append(text)
        joined = " ".join(written)
        is_unspaced = len(letter.findall(joined)) > word_length * len(joined.split())
        if is_unspaced and len(written) >= texts.least("script"):
            statement = f"references are {script}, whose phrases count as words in {names}"
            yield say("vocabulary of a script", len(written), texts, statement)
            return


def name_metrics(metrics: Mapping[str, EvaluatorMetric], aspect: str) -> str:
    """The names of the metrics that see an aspect of texts; empty without any."""
    return " and ".join(name for name, metric in metrics.items() if aspect in metric.sensitive_to)


def drops_most_words(text: str) -> bool:
    """Whether most words of a text have other letters than a to z.

    Example:
        >>> drops_most_words("Привет, мир 2024"), drops_most_words("ein schönes Haus")
        (True, False)
    """
    return not text.isascii() and 2 * len(OTHER_WORD.findall(text)) >= len(text.split())


def find_unrelated(few: Texts) -> Findings:
    """Hypotheses that are no nearer to their own references than to others; see :attr:`Texts.likeness`.

    Example:
        >>> hypotheses, references = ["ein Hund ist nun hier"] * 100, [["there was one large dog"]] * 100
        >>> next(find_unrelated(Texts(hypotheses, references))).message[:66]
        '50 of 100 hypotheses were compared, and are no nearer to their own'
    """
    characters = min(sum(map(len, lines)) for lines in few.sides.values())
    are_long = characters >= max(20 * len(few), 2000)  # unlike names and yes or no
    if are_long and few.likeness == 0 and measure_likeness(few.compared) < 0.2:  # unlike molecules
        statement = "hypotheses were compared, and are no nearer to their own references than to others"
        yield say("vocabulary", len(few.compared), few, statement)
