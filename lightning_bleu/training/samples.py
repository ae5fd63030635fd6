"""Sample sentences: which words of them differ, and the table that shows them, in Markdown for TensorBoard's Text page.

TensorBoard keeps only the HTML tags listed in its ``plugin_util.py``. No color is among them.
"""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, groupby, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from torch import Tensor

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.scoring.scoring import Scoring
from lightning_bleu.settings.tokenizers import load_tokenizer
from lightning_bleu.training.sentences import Sentence

_MAX_CHARACTERS = 20_000
"""The maximum number of characters of a sample; a hypothesis that never ends would take seconds to mark."""


class Line(NamedTuple):
    """A hypothesis or a reference.

    Attributes:
        text: the text as the model or the dataset has it.
        tokens: its tokens, as they are counted.
    """

    text: str
    tokens: Sequence[str]


class Sample(NamedTuple):
    """A sentence to show.

    Attributes:
        number: the number of the sentence in its loader or group, starting from 1.
        scores: a score for each metric that scores sentences, in percent if the metric has a scale.
        hypothesis: the hypothesis.
        references: its references.
        source: the source sentence, if the step returned one.
    """

    number: int
    scores: Sequence[float]
    hypothesis: Line
    references: Sequence[Line]
    source: str | None = None


def find_worst(statistics: Tensor, scoring: Scoring, count: int) -> list[int]:
    """The sentences with the worst scores; of BLEU, the worst for their length.

    Args:
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scoring: how to score them, the attribute `scoring` of the metric.
        count: the number of sentences.

    Returns:
        the numbers of the sentences, from 0, the worst first.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> bleu = CorpusBLEU(keep_sentences=True)
        >>> bleu.update(["a b c d", "a b x y", "a b c x"], ["a b c d"] * 3)
        >>> find_worst(bleu.sentence_statistics(), bleu.scoring, 2)
        [1, 2]
    """
    scores = (scoring.rank_sentences or scoring.score_sentences)(statistics)
    return [*scores.argsort(stable=True, descending=not scoring.higher_is_better)[:count].tolist()]


def make_samples(sentences: Mapping[int, Sentence], scores: Iterable[Tensor], settings: BLEUSettings) -> list[Sample]:
    """Tokenize sentences so that their words can be marked.

    Args:
        sentences: the texts by the numbers of the sentences, from 0.
        scores: the scores of all sentences of the dataset, for each metric that scores sentences.
        settings: how to tokenize.

    Example:
        >>> import torch
        >>> settings = BLEUSettings.from_options()
        >>> make_samples({4: Sentence("Hi!", ["Hello!"])}, [torch.zeros(5)], settings)
        [Sample(number=5, scores=[0.0], hypothesis=Line(text='Hi!', tokens=['Hi', '!']), \
references=[Line(text='Hello!', tokens=['Hello', '!'])], source=None)]
    """
    tokenize = load_tokenizer(settings.tokenizer)

    def split(text: str, tokenized: bool) -> Line:
        text = text[:_MAX_CHARACTERS]
        tokens = text if tokenized else tokenize((text.lower() if settings.lowercase else text).rstrip())
        return Line(text, tokens.split() if isinstance(tokens, str) else [str(token) for token in tokens])

    samples = []
    for number, (hypothesis, references, source, tokenized) in sentences.items():
        line, *others = (split(text, tokenized) for text in (hypothesis, *references))
        samples.append(Sample(number + 1, [own[number].item() for own in scores], line, others, source))
    return samples


Mark: TypeAlias = Literal["", "unmatched", "displaced"]
"""``""`` marks nothing; see :func:`mark_words` for the others."""

_SENTENCEPIECE_BLANK = "\u2581"


class Span(NamedTuple):
    """A part of a text, with its mark."""

    text: str
    mark: Mark


def mark_words(hypothesis: Line, references: Sequence[Line]) -> tuple[list[Span], list[list[Span]]]:
    """Mark the words of a hypothesis and of its references that don't match.

    - In the hypothesis, a token is ``"unmatched"`` beyond its largest count in any one reference. Occurrences in a
      bigram that a reference shares match first, then the earlier ones.
    - In the hypothesis, a token is ``"displaced"`` if it matches, but neither of its bigrams appears in a reference.
      A hypothesis of one token has no bigrams, and no displaced tokens.
    - In a reference, a token is ``"unmatched"`` beyond its count in the hypothesis.

    Args:
        hypothesis: the hypothesis.
        references: its references.

    Returns:
        The spans of the hypothesis, and of each reference. Their texts join to the original text. If a token isn't in
        the text, they join to the tokens, separated by blanks. Neighboring spans have different marks.

    Example:
        >>> hypothesis = Line("The very cat sat.", ["the", "very", "cat", "sat", "."])
        >>> reference = Line("The cat that sat.", ["the", "cat", "that", "sat", "."])
        >>> marked_hypothesis, (marked_reference,) = mark_words(hypothesis, [reference])
        >>> [(text, mark) for text, mark in marked_hypothesis if mark]
        [('The', 'displaced'), ('very', 'unmatched'), ('cat', 'displaced')]
        >>> [(text, mark) for text, mark in marked_reference if mark]
        [('that', 'unmatched')]
    """
    max_counts: Counter[str] = Counter()  # in any one reference
    for reference in references:
        max_counts |= Counter(reference.tokens)
    bigrams = set(chain.from_iterable(pairwise(reference.tokens) for reference in references))
    shared = _in_bigrams(hypothesis.tokens, bigrams)
    marks: list[Mark] = [
        "unmatched" if not matches else "displaced" if not in_bigram and len(shared) > 1 else ""
        for matches, in_bigram in zip(_choose_matches(hypothesis.tokens, max_counts, shared), shared)
    ]

    counts, bigrams = Counter(hypothesis.tokens), set(pairwise(hypothesis.tokens))
    marked_references = []
    for reference in references:
        matched = _choose_matches(reference.tokens, counts, _in_bigrams(reference.tokens, bigrams))
        marked_references.append(_split(reference, ["" if matches else "unmatched" for matches in matched]))
    return _split(hypothesis, marks), marked_references


def _in_bigrams(tokens: Sequence[str], bigrams: set[tuple[str, str]]) -> list[bool]:
    """For each token, whether the bigram it ends or the bigram it begins is one of ``bigrams``."""
    found = [False, *(bigram in bigrams for bigram in pairwise(tokens)), False]
    return [ends or begins for _, (ends, begins) in zip(tokens, pairwise(found))]


def _choose_matches(tokens: Sequence[str], counts: Mapping[str, int], preferred: Sequence[bool]) -> list[bool]:
    """Choose which tokens match, at most ``counts`` of each: preferred ones first, then earlier ones.

    Example:
        >>> _choose_matches(["a", "a", "a", "b"], {"a": 2}, [False, False, True, False])
        [True, False, True, False]
    """
    remaining = dict(counts)
    matches = [False] * len(tokens)
    for index in sorted(range(len(tokens)), key=preferred.__getitem__, reverse=True):  # stable
        if remaining.get(tokens[index], 0):
            remaining[tokens[index]] -= 1
            matches[index] = True
    return matches


def _split(line: Line, marks: Sequence[Mark]) -> list[Span]:
    """Split a text where the marks of its tokens change.

    Example:
        >>> _split(Line("Oh, no!", ["oh", ",", "no", "!"]), ["unmatched", "unmatched", "", ""])
        [Span(text='Oh,', mark='unmatched'), Span(text=' no!', mark='')]
    """
    text, tokens = line
    places = _locate(text, tokens)
    if places is None:
        return _split(Line(" ".join(tokens), tokens), marks)
    marks_of_characters: list[Mark] = [""] * len(text)
    last_mark: Mark = ""
    last_end = 0
    for (start, end), mark in zip(places, marks):
        if start < end:
            start = last_end if mark == last_mark else start  # the blank between equally marked tokens is marked, too
            marks_of_characters[start:end] = [mark] * (end - start)
            last_mark, last_end = mark, end
    spans, end = [], 0
    for mark, run in groupby(marks_of_characters):
        start, end = end, end + len(list(run))
        spans.append(Span(text[start:end], mark))
    return spans


def _locate(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | None:
    """The start and the end of each token in its text; None if a token isn't in it.

    Example:
        >>> _locate("İs it?", ["\\u2581i̇s", "\\u2581it", "?"]), _locate("&quot;", ['"'])
        ([(0, 2), (3, 5), (5, 6)], None)
    """
    folded = "".join(map(_fold, text))
    # Where each character of ``folded`` comes from: folding never shortens a text, but may lengthen it.
    origins = range(len(text)) if len(folded) == len(text) else [i for i, c in enumerate(text) for _ in _fold(c)]
    places, end = [], 0
    for token in tokens:
        if not (piece := "".join(map(_fold, token.strip(_SENTENCEPIECE_BLANK)))):
            places.append((0, 0))
            continue
        start = folded.find(piece, end)
        if start < 0:
            return None
        end = start + len(piece)
        places.append((origins[start], origins[end - 1] + 1))
    return places


@cache
def _fold(character: str) -> str:
    """Undo what tokenizers do to characters: lowercasing and Unicode normalization.

    Unlike with ``str.lower``, which has a final sigma, the result doesn't depend on the neighbors of the character.
    """
    return unicodedata.normalize("NFKD", character).casefold()


_MAX_SHOWN = 500
"""The maximum number of characters shown per sentence."""
_MAX_REFERENCES = 5
"""The maximum number of references shown per sentence, or of lines that stand for them."""

_TAGS: dict[Mark, str] = {"": "{}", "unmatched": "<strong>{}</strong>", "displaced": "<em>{}</em>"}
_EXPLANATIONS = {
    "<strong>": "<strong>Bold</strong>: wrong or missing word.",
    "<em>": "<em>Italic</em>: right word, but both neighbors are wrong.",
}

_ISOLATE = "\u2068{}\u2069"
"""Keeps the punctuation of right-to-left text in place. Left-to-right text looks the same."""

_REPLACEMENTS: dict[int, str | None] = {
    **dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000)], "\ufffd"),  # control, surrogates
    **dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"), " "),
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)]),  # set directions, could end our isolate
    **{ord(character): f"&#{ord(character)};" for character in string.punctuation if character not in ".,:;=%-"},
}


def sample_table(samples: Sequence[Sample], caption: str, digits: Mapping[str, int] = MappingProxyType({})) -> str:
    """A Markdown table of sample sentences, with the words marked that :func:`mark_words` marks.

    Args:
        samples: the sentences.
        caption: shown above the table; it may have several lines.
        digits: the number of digits of each score of a sentence, by the name of the metric.

    Example:
        >>> from lightning_bleu.training.samples import Line
        >>> hypothesis, reference = Line("a|b c", ["a|b", "c"]), Line("a|b d", ["a|b", "d"])
        >>> table = sample_table([Sample(7, [50.0], hypothesis, [reference])], "two words", {"bleu": 1})
        >>> print(table.replace("\\u2068", "").replace("\\u2069", ""))
        two words<br><strong>Bold</strong>: wrong or missing word. <em>Italic</em>: right word, but both neighbors are \
wrong.
        <BLANKLINE>
        | no. | <pre>bleu</pre> | hypothesis, references |
        | --- | --- | --- |
        | <pre>   7</pre> | <pre> 50.0</pre> | <code>hyp</code> <em>a&#124;b</em> <strong>c</strong><br>\
<code>ref</code> a&#124;b <strong>d</strong> |
    """
    rows = "\n".join(_row(sample, digits.values()) for sample in samples)
    explanation = " ".join(text for tag, text in _EXPLANATIONS.items() if tag in rows)
    # Because of the isolate, no caption begins like a list, a heading, or a code block.
    lines = [_ISOLATE.format(escape(line.strip())) for line in caption.splitlines()]
    source = "source, " if any(sample.source is not None for sample in samples) else ""
    # <pre> keeps names in one piece, and the padding of numbers.
    header = ["no.", *(f"<pre>{escape(name)}</pre>" for name in digits), f"{source}hypothesis, references"]
    above = "<br>".join([*lines, explanation] if explanation else lines)
    return f"{above}\n\n| {' | '.join(header)} |\n|{' --- |' * len(header)}\n{rows}"


def _row(sample: Sample, digits: Iterable[int]) -> str:
    hypothesis, references = mark_words(sample.hypothesis, sample.references)
    lines = [] if sample.source is None else [_line("src", [Span(sample.source, "")])]
    lines.append(_line("hyp", hypothesis))
    shown = _MAX_REFERENCES if len(references) <= _MAX_REFERENCES else _MAX_REFERENCES - 1
    lines += [_line("ref", reference) for reference in references[:shown]]
    if more := len(references[shown:]):
        lines.append(f"<code>{more} more references</code>")
    # A single line keeps rows low: cards are only 350 pixels high.
    numbers = [f"{sample.number:4}", *(f"{score:5.{places}f}" for score, places in zip(sample.scores, digits))]
    return f"| {' | '.join(f'<pre>{number}</pre>' for number in numbers)} | {'<br>'.join(lines)} |"


def _line(label: str, spans: Iterable[Span]) -> str:
    """A labeled sentence. If it has no visible characters, the label says so: its typeface sets it apart from text."""
    spans = [Span(escape(text), mark) for text, mark in _cut(spans)]
    if not any(character.isprintable() and not character.isspace() for text, _ in spans for character in text):
        return f"<code>{label} (empty)</code>"
    return f"<code>{label}</code> " + _ISOLATE.format("".join(_TAGS[mark].format(text) for text, mark in spans if text))


def _cut(spans: Iterable[Span]) -> list[Span]:
    """The first characters of a sentence, with " ..." if there are more."""
    shown, left = [], _MAX_SHOWN
    for text, mark in spans:
        shown.append(Span(text[:left], mark))
        left -= len(text)
        if left < 0:
            return [*shown, Span(" ...", "")]
    return shown


def escape(text: str) -> str:
    """Put text on a single line, and escape everything that could be markup as HTML entities.

    Line breaks become blanks, and other control characters become replacement characters. Characters that only set the
    direction of text are removed.

    Example:
        >>> escape("<b>*a* | b.\\n&lt;")
        '&#60;b&#62;&#42;a&#42; &#124; b. &#38;lt;'
    """
    return text.translate(_REPLACEMENTS)
