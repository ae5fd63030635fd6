"""Sample sentences, and the table that shows them, in Markdown for TensorBoard's Text page.

TensorBoard keeps only the HTML tags listed in its ``plugin_util.py``. No color is among them.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.display.marks import Line, Mark, Span, mark_words
from lightning_bleu.evaluation.sentences import Sentence
from lightning_bleu.settings.tokenizers import load_tokenizer

_MAX_CHARACTERS = 20_000
"""The maximum number of characters of a sample; a hypothesis that never ends would take seconds to mark."""


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
    scores = list(scores)
    samples = []
    for index, sentence in sentences.items():
        hypothesis = tokenize_line(sentence.hypothesis, sentence.tokenized, settings)
        references = [tokenize_line(reference, sentence.tokenized, settings) for reference in sentence.references]
        scores_of_sentence = [of_metric[index].item() for of_metric in scores]
        samples.append(Sample(index + 1, scores_of_sentence, hypothesis, references, sentence.source))
    return samples


def tokenize_line(text: str, is_tokenized: bool, settings: BLEUSettings) -> Line:
    """The beginning of a text, with its tokens."""
    text = text[:_MAX_CHARACTERS]
    if is_tokenized:
        return Line(text, text.split())
    tokenize = load_tokenizer(settings.tokenizer)
    tokens = tokenize((text.lower() if settings.lowercase else text).rstrip())
    if isinstance(tokens, str):
        return Line(text, tokens.split())
    return Line(text, [str(token) for token in tokens])


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
        >>> from lightning_bleu.display.marks import Line
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
    above = [_ISOLATE.format(escape(line.strip())) for line in caption.splitlines()]
    if explanation:
        above.append(explanation)
    has_sources = any(sample.source is not None for sample in samples)
    has_references = any(sample.references for sample in samples)
    texts = ["source"] if has_sources else []
    texts.append("hypothesis")
    if has_references:
        texts.append("references")
    # <pre> keeps names in one piece, and the padding of numbers.
    header = ["no.", *(f"<pre>{escape(name)}</pre>" for name in digits), ", ".join(texts)]
    return f"{'<br>'.join(above)}\n\n| {' | '.join(header)} |\n|{' --- |' * len(header)}\n{rows}"


def _row(sample: Sample, digits: Iterable[int]) -> str:
    hypothesis, references = _mark(sample)
    lines = []
    if sample.source is not None:
        lines.append(_line("src", [Span(sample.source, "")]))
    lines.append(_line("hyp", hypothesis))
    fit = len(references) <= _MAX_REFERENCES
    shown = references if fit else references[: _MAX_REFERENCES - 1]
    lines += [_line("ref", reference) for reference in shown]
    if not fit:
        lines.append(f"<code>{len(references) - len(shown)} more references</code>")
    numbers = [f"{sample.number:4}"]
    numbers += [f"{score:5.{places}f}" for score, places in zip(sample.scores, digits)]
    cells = " | ".join(f"<pre>{number}</pre>" for number in numbers)
    # A single line keeps rows low: cards are only 350 pixels high.
    return f"| {cells} | {'<br>'.join(lines)} |"


def _mark(sample: Sample) -> tuple[list[Span], list[list[Span]]]:
    """The hypothesis and its references with marked words. Without references, no word is wrong."""
    if not sample.references:
        return [Span(sample.hypothesis.text, "")], []
    return mark_words(sample.hypothesis, sample.references)


def _line(label: str, spans: Iterable[Span]) -> str:
    """A labeled sentence. If it has no visible characters, the label says so: its typeface sets it apart from text."""
    escaped = [Span(escape(text), mark) for text, mark in _shorten(spans)]
    text = "".join(span.text for span in escaped)
    if not any(character.isprintable() and not character.isspace() for character in text):
        return f"<code>{label} (empty)</code>"
    marked = "".join(_TAGS[span.mark].format(span.text) for span in escaped if span.text)
    return f"<code>{label}</code> {_ISOLATE.format(marked)}"


def _shorten(spans: Iterable[Span]) -> list[Span]:
    """The first characters of a sentence, with " ..." if there are more."""
    shown = []
    characters_left = _MAX_SHOWN
    for text, mark in spans:
        shown.append(Span(text[:characters_left], mark))
        characters_left -= len(text)
        if characters_left < 0:
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
