"""The table of sample sentences, in Markdown for TensorBoard's Text page.

TensorBoard keeps only the HTML tags listed in its ``plugin_util.py``. No color is among them.
"""

from __future__ import annotations

import string
from collections.abc import Iterable

from lightning_bleu.training.marks import Mark, Span, mark_words
from lightning_bleu.training.samples import Sample

_MAX_CHARACTERS = 500
"""The maximum number of characters shown per sentence."""
_MAX_REFERENCES = 4
"""The maximum number of references shown per sentence."""

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


def sample_table(samples: Iterable[Sample], caption: str) -> str:
    """A Markdown table of sample sentences, with the words marked that :func:`mark_words` marks.

    Args:
        samples: the sentences.
        caption: shown above the table; it may have several lines.

    Example:
        >>> from lightning_bleu.training.samples import Line
        >>> hypothesis, reference = Line("a|b c", ["a|b", "c"]), Line("a|b d", ["a|b", "d"])
        >>> table = sample_table([Sample(7, 50.0, hypothesis, [reference])], "two words")
        >>> print(table.replace("\\u2068", "").replace("\\u2069", ""))
        two words<br><strong>Bold</strong>: wrong or missing word. <em>Italic</em>: right word, but both neighbors are \
wrong.
        <BLANKLINE>
        | no., BLEU | hypothesis, references |
        | --- | --- |
        | <pre>   7   50.0</pre> | <code>hyp</code> <em>a&#124;b</em> <strong>c</strong><br><code>ref</code> \
a&#124;b <strong>d</strong> |
    """
    samples = list(samples)
    rows = "\n".join(map(_row, samples))
    explanation = " ".join(text for tag, text in _EXPLANATIONS.items() if tag in rows)
    # Because of the isolate, no caption begins like a list, a heading, or a code block.
    lines = [_ISOLATE.format(escape(line.strip())) for line in caption.splitlines()]
    source = "source, " if any(sample.source is not None for sample in samples) else ""
    return "\n".join(
        [
            "<br>".join([*lines, explanation] if explanation else lines),
            "",
            f"| no., BLEU | {source}hypothesis, references |",
            "| --- | --- |",
            rows,
        ]
    )


def _row(sample: Sample) -> str:
    hypothesis, references = mark_words(sample.hypothesis, sample.references)
    lines = [] if sample.source is None else [_line("src", [Span(sample.source, "")])]
    lines.append(_line("hyp", hypothesis))
    lines += [_line("ref", reference) for reference in references[:_MAX_REFERENCES]]
    if more := len(references[_MAX_REFERENCES:]):
        lines.append(f"<code>{more} more reference{'s' if more > 1 else ''}</code>")
    # <pre> keeps the padding, and numbers aren't broken. A single line keeps rows low: cards are only 350 pixels high.
    return f"| <pre>{sample.number:4}  {sample.bleu:5.1f}</pre> | {'<br>'.join(lines)} |"


def _line(label: str, spans: Iterable[Span]) -> str:
    """A labeled sentence. If it has no visible characters, the label says so: its typeface sets it apart from text."""
    spans = [Span(escape(text), mark) for text, mark in _cut(spans)]
    if not any(character.isprintable() and not character.isspace() for text, _ in spans for character in text):
        return f"<code>{label} (empty)</code>"
    return f"<code>{label}</code> " + _ISOLATE.format("".join(_TAGS[mark].format(text) for text, mark in spans if text))


def _cut(spans: Iterable[Span]) -> list[Span]:
    """The first characters of a sentence, with " ..." if there are more."""
    shown, left = [], _MAX_CHARACTERS
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
