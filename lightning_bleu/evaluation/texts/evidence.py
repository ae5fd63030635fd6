"""What is counted in the texts of a loader to find out what stands out; see :mod:`.findings`."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.mistakes import UNSPACED

MAX_EXAMINED = 2000
"""How many texts of a loader are examined, the first ones."""
MAX_IDS = 64
"""How many of them, if they are ids that nothing decodes, and how many if no texts are needed for anything else."""
_MAX_WITH_WORDS = 500
"""In how many of them words are compared, which takes longer."""
_MAX_SEARCHED = 2000
"""How many characters of a text are searched."""
_MIN_COMPARED = 100
"""How many references there must be, so that their words are a vocabulary."""
_MAX_CANDIDATES = 10
"""How many of the most frequent texts are kept."""
_MAX_CHARACTERS = 80
"""How many characters of each of them."""
_MIN_SOURCE = 16
"""How many characters a source must have, so that no hypothesis contains it by chance or by design."""
_MIN_REFERENCE = 20
"""How many characters a reference must have, so that a hypothesis of twice its length does not stop."""
_MIN_GROWTH = 1.3
"""How much longer than its source a text with a prompt is. Restored punctuation adds less."""
_MIN_LOOP = 12
"""How many characters a repetition at the end of a text has at least."""


class Trace(NamedTuple):
    """Something that a text contains and should not, or that one side contains and the other does not.

    Attributes:
        pattern: finds it in a line.
        hints: every text that contains it contains one of these.
    """

    pattern: re.Pattern[str]
    hints: Sequence[str]


class Script(NamedTuple):
    """A script that does not separate words with spaces.

    Attributes:
        letters: finds its letters.
        letters_per_word: how many letters the words of a text with spaces have at most, on average.
    """

    letters: re.Pattern[str]
    letters_per_word: int


_END = re.compile(r"</s>|<(?:eos|end)>|<end_of_turn>|<\|(?:im_end|endoftext|eot_id|end)\|>|\[(?:SEP|EOS)\]")
"""The end of a sentence as text."""
_FILL = re.compile(rf"{_END.pattern}|<pad>|\[PAD\]|\s")
"""What may follow it."""
TRACES = {
    "subwords": Trace(  # in Maltese, a word may begin with \u0120
        re.compile(r"\w@@(?= |$)|\u2581\S|(?:^| )\u0120\w.* \u0120\w|[a-z]\u0120\w|\w ##\w|\uffed|\w</w>"),
        ("@@", "\u2581", "\u0120", " ##", "\uffed", "</w>"),
    ),
    "special-tokens": Trace(
        re.compile(
            r"^<s>(?!.*</s>.*\S)|^(?!.*<s>).*</s>"  # but not a word that is struck out, as in <s>old</s>
            r"|<(?i:pad|eos|bos|sos)>|<(?P<tag>start|end)>(?!.*</(?P=tag)>)"
            r"|<(?:start|end)_of_turn>|<\|[\w.]+\|>|\[(?:PAD|SEP|CLS|BOS|EOS)\]"
            r"|^(?:__[a-z]{2,3}__|[a-z]{3}_[A-Z][a-z]{3}|>>\w+<<|<2\w+>) ",
            re.MULTILINE,
        ),
        ("<", "[", "_"),
    ),
    "unknown words": Trace(re.compile(r"<unk>|<extra_id_\d+>|\u2047"), ("<", "\u2047")),
    "thinking": Trace(re.compile("</?(?:think(?:ing)?|reasoning)>"), ("think", "reasoning")),
    "representation": Trace(re.compile(r"""^(?:b?(['"]).*\1|\[(['"]).*\2\])$""", re.MULTILINE), ("'", '"')),
    "encoding": Trace(re.compile("\u00c3[\u0080-\u00bf\u0152-\u2122]|\u00e2\u20ac"), ("\u00c3", "\u00e2\u20ac")),
    "invisible": Trace(re.compile("[\u00ad\u200b\ufeff]"), ("\u00ad", "\u200b", "\ufeff")),
    "entities": Trace(re.compile(r"&(?:apos|quot|amp|lt|gt|nbsp|#\d+|#x[\da-fA-F]+);"), ("&",)),
    "curly quotes": Trace(
        re.compile("[\u2018\u2019\u201c\u201d\u201e]"), ("\u2018", "\u2019", "\u201c", "\u201d", "\u201e")
    ),
    "straight quotes": Trace(re.compile("""["']"""), ('"', "'")),
}
"""What is looked for in each text."""
_TOKEN = re.compile(r"</?s>|<[^<>]+>|\[[A-Z]+\]|@@|\u2581|\u0120|##|\uffed|&#?\w+;")
"""The part of a mark that is always the same."""
_OPENING = re.compile(r"""[\w\s.,!?'"{*#-]{1,79}:(?!//)|```\w*\n|\w+\n""")
"""The beginning of a chat, and not that of code or of a table."""
_PUNCTUATION = re.compile("[.,!?;:\u2026\u060c\u061f\u0964\u3001\u3002\uff01\uff0c\uff1f]")
SCRIPTS = {
    "Chinese or Japanese": Script(re.compile(UNSPACED), 4),
    "Thai, Lao, Burmese, or Khmer": Script(re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"), 8),
}
"""Scripts that do not separate words with spaces."""
_OTHER_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
"""A letter other than a to z."""


@dataclass
class Evidence:
    """Counts of some sentences.

    Attributes:
        hypotheses: how many sentences have a hypothesis with some property.
        references: how many have a reference with it.
        pairs: how many are a pair with some property, and how many words or letters of some kind there are.
        outputs: the most frequent hypotheses, with their counts.
        answers: the most frequent references.
        openings: the most frequent beginnings of hypotheses that end with a colon or a line break.
        reference_openings: those of references.
        logit_widths: the numbers of batches by the widths of logits and labels.
        cut_lengths: the numbers of words of hypotheses, with their counts, where all references have two more.
        lengths: the same of all hypotheses.
    """

    hypotheses: Counter[str] = field(default_factory=Counter)
    references: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    outputs: Counter[tuple[int, str]] = field(default_factory=Counter)
    answers: Counter[tuple[int, str]] = field(default_factory=Counter)
    openings: Counter[tuple[int, str]] = field(default_factory=Counter)
    reference_openings: Counter[tuple[int, str]] = field(default_factory=Counter)
    logit_widths: Counter[tuple[int, int]] = field(default_factory=Counter)
    cut_lengths: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """The number of sentences."""
        return self.pairs["sentences"]


def examine(sentences: Sequence[Sentence], logit_widths: Counter[tuple[int, int]] | None = None) -> Evidence:
    """Count what may stand out in sentences.

    Args:
        sentences: the sentences.
        logit_widths: the numbers of batches by the widths of logits and labels.

    Example:
        >>> evidence = examine([Sentence("a b@@ c", ["a bc"]), Sentence("", ["d"])])
        >>> evidence.count, evidence.hypotheses["subwords"], evidence.references["subwords"], evidence.pairs["empty"]
        (2, 1, 0, 1)
    """
    evidence = Evidence(logit_widths=logit_widths or Counter())
    hypotheses = [sentence.hypothesis for sentence in sentences]
    references = ["\n".join(sentence.references) for sentence in sentences]
    evidence.hypotheses = _count_traces(hypotheses)
    evidence.references = _count_traces(references)
    evidence.outputs = _most_frequent(hypothesis.strip() for hypothesis in hypotheses)
    evidence.answers = _most_frequent(sentence.references[0].strip() for sentence in sentences if sentence.references)
    evidence.openings = _most_frequent(map(_opening, hypotheses))
    evidence.reference_openings = _most_frequent(_opening(row[0]) for _, row, *_ in sentences if row)
    pairs = evidence.pairs
    pairs["sentences"] = len(sentences)
    pairs["plain texts"] = sum(not sentence.tokenized for sentence in sentences)
    for sentence in sentences:
        _count_pair(sentence, pairs)
    _count_words(sentences[:_MAX_WITH_WORDS], pairs)
    _count_lengths(sentences[:_MAX_WITH_WORDS], evidence)
    for reference in references:
        _count_letters(reference, pairs)
    return evidence


def _most_frequent(texts: Iterable[str]) -> Counter[tuple[int, str]]:
    """The most frequent texts, each as a hash and its beginning."""
    frequencies = Counter(filter(None, texts))
    most_frequent: Counter[tuple[int, str]] = Counter()
    for text, count in frequencies.most_common(_MAX_CANDIDATES):
        most_frequent[zlib.crc32(text.encode(errors="replace")), text[:_MAX_CHARACTERS]] = count
    return most_frequent


def _opening(text: str) -> str:
    """The beginning of a text up to a colon or a line break that is not its end; empty if there is none.

    Example:
        >>> _opening("Here it is: a cat"), _opening("a cat")
        ('Here it is:', '')
    """
    match = _OPENING.match(text)
    return match[0] if match is not None and text[match.end() :].strip() else ""


def _count_traces(texts: Sequence[str]) -> Counter[str]:
    """How many texts contain each mark, have upper case, punctuation, or letters whose accents are apart.

    The most frequent form of a mark is a part of another key, such as ``"subwords: @@"``.
    """
    joined = "\n".join(texts)
    forms = {name: _find_forms(trace, texts, joined) for name, trace in TRACES.items()}
    forms["after-end"] = _find_ends(texts)
    found: Counter[str] = Counter()
    for name, of_name in forms.items():
        found[name] = len(of_name)
        for form, _ in Counter(of_name).most_common(1):
            found[f"{name}: {form}"] = len(of_name)
    found["upper case"] = sum(text != text.lower() for text in texts)
    found["lower case"] = sum(text != text.upper() for text in texts)
    found["punctuation"] = sum(_PUNCTUATION.search(text) is not None for text in texts)
    if not unicodedata.is_normalized("NFC", joined):
        found["decomposed"] = sum(not unicodedata.is_normalized("NFC", text) for text in texts)
    return found


def _find_forms(trace: Trace, texts: Sequence[str], joined: str) -> list[str]:
    """The form of a mark in each text that contains it."""
    hints = [hint for hint in trace.hints if hint in joined]
    candidates = {number for hint in hints for number, text in enumerate(texts) if hint in text}
    matches = (trace.pattern.search(texts[number][:_MAX_SEARCHED]) for number in candidates)
    return [_quote(match) for match in matches if match is not None]


def _find_ends(texts: Sequence[str]) -> list[str]:
    """The end of the sentence in each text that goes on after it."""
    ends = (_find_after_end(text[:_MAX_SEARCHED]) for text in texts if "<" in text or "[" in text)
    return [end[0] for end in ends if end is not None]


def _quote(match: re.Match[str]) -> str:
    """What a message quotes of a match."""
    tokens = _TOKEN.findall(match[0])
    return (tokens[-1] if tokens else match[0]).strip()[:20]


def _find_after_end(text: str) -> re.Match[str] | None:
    """The end of the sentence in a text that goes on after it."""
    match = _END.search(text)
    if match is None or "<s>" in text[: match.start()]:  # a word that is struck out, as in <s>old</s>
        return None
    return match if _FILL.sub("", text[match.end() :]) else None


def _count_pair(sentence: Sentence, pairs: Counter[str]) -> None:
    """Count what a sentence is an example of."""
    hypothesis, references, source = sentence.hypothesis, sentence.references, sentence.source
    pairs["with references"] += bool(references)
    pairs["equal"] += hypothesis in references
    if references and not hypothesis.strip():
        pairs["empty"] += any(map(str.strip, references))
    longest = max(map(len, references), default=len(hypothesis))
    if len(hypothesis) > longest:
        pairs["loops"] += ends_in_loop(hypothesis) and not any(map(ends_in_loop, references))
        pairs["too long"] += longest >= _MIN_REFERENCE and len(hypothesis) > 2 * longest + 20
    if source is None:
        return
    pairs["with sources"] += 1
    if len(source) < _MIN_SOURCE:
        return
    pairs["sources"] += 1
    pairs["prompted hypotheses"] += _has_prompt(hypothesis, source)
    pairs["prompted references"] += any(_has_prompt(reference, source) for reference in references[:1])
    is_copy = hypothesis.strip() == source.strip()
    pairs["copies"] += is_copy
    pairs["references equal sources"] += source in references
    if references and is_copy and hypothesis not in references:
        words, source_words = set(references[0].split()), set(source.split())
        pairs["wrong copies"] += 2 * len(words & source_words) < len(words)  # which no post-editing is


def _has_prompt(line: str, source: str) -> bool:
    """Whether a line contains the source, and is longer."""
    return source in line and _MIN_GROWTH * len(source) < len(line.strip())


def ends_in_loop(text: str) -> bool:
    """Whether a text ends with the same characters four times or more, also if the last time is cut off.

    Example:
        >>> ends_in_loop("a man and a man and a man and a man and a m"), ends_in_loop("a man and a man")
        (True, False)
    """
    text = text.rstrip()
    end = text[-_MIN_LOOP // 2 :]
    start = text.rfind(end, 0, len(text) - 1)
    if start < 0 or len(text) < _MIN_LOOP:
        return False
    period = len(text) - len(end) - start
    length = max(4 * period, _MIN_LOOP)
    tail = text[-length:]
    is_periodic = len(tail) == length and tail[period:] == tail[:-period]
    return is_periodic and any(map(str.isalpha, tail[-period:]))  # unlike the zeros of a number


def _count_words(sentences: Sequence[Sentence], pairs: Counter[str]) -> None:
    """Count the words that hypotheses share with their references, and the sentences in another place."""
    with_references = [sentence for sentence in sentences if sentence.references]
    found = [_list_words(sentence.hypothesis) for sentence in with_references]
    right = [_list_words(sentence.references[0]) for sentence in with_references]
    pairs["with words"] += len(with_references)
    pairs["reference words"] += sum(map(len, right))
    pairs["matched words"] += sum(len(words & own) for words, own in zip(found, right))
    if len(with_references) >= _MIN_COMPARED:
        known: set[str] = set().union(*right)
        pairs["compared"] += len(with_references)
        pairs["compared words"] += sum(map(len, found))
        pairs["known words"] += sum(len(words & known) for words in found)
    _count_places(with_references, found, right, pairs)


def _count_places(
    sentences: Sequence[Sentence], found: Sequence[set[str]], right: Sequence[set[str]], pairs: Counter[str]
) -> None:
    """Count the hypotheses that are in the place of their reference, and those in another place.

    A word that only one reference has tells whose translation a hypothesis is: it is in another place if two such words
    are of the same other reference, and none is of its own; or if it equals another reference.

    Args:
        sentences: sentences with references.
        found: the words of each hypothesis.
        right: the words of its first reference.
        pairs: what is counted.
    """
    owners: dict[str, int] = {}
    for number, words in enumerate(right):
        for word in words:
            owners[word] = -1 if word in owners else number
    long_references = {sentence.references[0] for sentence, words in zip(sentences, right) if len(words) >= 5}
    for number, (sentence, words) in enumerate(zip(sentences, found)):
        owners_of_words = [owners.get(word, -1) for word in words if not word.isnumeric()]
        if number in owners_of_words or sentence.hypothesis in sentence.references:
            pairs["in place"] += 1
            continue
        others = [owner for owner in owners_of_words if owner >= 0]
        pairs["misplaced"] += len(set(others)) < len(others) or sentence.hypothesis in long_references


def _list_words(text: str) -> set[str]:
    """The different words of a text."""
    return set(text.lower().split())


def _count_lengths(sentences: Sequence[Sentence], evidence: Evidence) -> None:
    """Count the numbers of words of hypotheses, and those of hypotheses that are shorter than their references."""
    for sentence in sentences:
        if not sentence.references:
            continue
        length = len(sentence.hypothesis.split())
        evidence.lengths[length] += 1
        if length + 1 < min(len(reference.split()) for reference in sentence.references):
            evidence.cut_lengths[length] += 1


def _count_letters(reference: str, pairs: Counter[str]) -> None:
    """Count whether a reference is in a script without spaces, and whether most words have letters other than a to z.

    Each reference counts for itself, because those of one language may be few among those of others.
    """
    if reference.isascii():
        return
    words = reference.split()
    for name, script in SCRIPTS.items():
        letters = len(script.letters.findall(reference))
        if letters and 2 * letters > sum(map(len, words)):
            pairs[name] += 1
            pairs[f"letters: {name}"] += letters
            pairs[f"words: {name}"] += len(words)
    dropped = sum(not word.isascii() and _OTHER_LETTER.search(word) is not None for word in words)
    pairs["other letters"] += 2 * dropped >= len(words) > 0
