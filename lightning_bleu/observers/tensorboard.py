"""What only TensorBoard has: the table of samples in Markdown, and a page of charts.

TensorBoard keeps only the HTML tags listed in its ``plugin_util.py``. No color is among them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from lightning_bleu.core.clean import clean, is_visible, to_line
from lightning_bleu.evaluation.scores.validation import Scored, Validation
from lightning_bleu.observers.samples import Sample, name_labels
from lightning_bleu.views.blocks import MEANINGS, Mark, Span
from lightning_bleu.views.marks import shorten

_MAX_REFERENCES = 5
"""The maximum number of references shown per sentence, or of lines that stand for them."""

_MAX_LABEL = 40
"""The maximum number of characters of an id, and of the label of a group."""
_TAGS: dict[Mark, str] = {"": "{}", "unmatched": "<strong>{}</strong>", "displaced": "<em>{}</em>"}
_EXPLANATIONS = {
    "<strong>": f"<strong>Bold</strong>: {MEANINGS['unmatched']}.",
    "<em>": f"<em>Italic</em>: {MEANINGS['displaced']}.",
}

_ISOLATE = "\u2068{}\u2069"
"""Keeps the punctuation of right-to-left text in place. Left-to-right text looks the same."""

_HARMLESS = ".,:;=%-"
_ENTITIES = {ord(character): f"&#{ord(character)};" for character in string.punctuation if character not in _HARMLESS}


def sample_table(samples: Sequence[Sample], caption: str, digits: Mapping[str, int]) -> str:
    """A Markdown table of sample sentences, with the words marked that :func:`mark_words` marks.

    Args:
        samples: the sentences.
        caption: shown above the table; it may have several lines.
        digits: the number of digits of each score of a sentence, by the name of the metric.

    Example:
        >>> from lightning_bleu.views.marks import Line
        >>> hypothesis, reference = Line("a|b c", ["a|b", "c"]), Line("a|b d", ["a|b", "d"])
        >>> sample = Sample(7, [hypothesis, reference], scores={"bleu": 50.0}, percent={"bleu": True})
        >>> table = sample_table([sample], "two words", {"bleu": 1})
        >>> print(table.replace("\\u2068", "").replace("\\u2069", ""))
        two words<br><strong>Bold</strong>: wrong or missing. <em>Italic</em>: right word, but in no right \
word pair.
        <BLANKLINE>
        | index | <pre>bleu</pre> | hypothesis, references |
        | --- | --- | --- |
        | <pre>   7</pre> | <pre> 50.0</pre> | <code>hyp</code> <em>a&#124;b</em> <strong>c</strong><br>\
<code>ref</code> a&#124;b <strong>d</strong> |
    """
    labels = name_labels(samples)
    rows = "\n".join(_row(sample, digits.values(), labels) for sample in samples)
    explanation = " ".join(text for tag, text in _EXPLANATIONS.items() if tag in rows)
    # Because of the isolate, no caption begins like a list, a heading, or a code block.
    above = [_ISOLATE.format(escape_cell(line.strip())) for line in caption.splitlines()]
    if explanation:
        above.append(explanation)
    has_sources = any(sample.source is not None for sample in samples)
    texts = "source, hypothesis, references" if has_sources else "hypothesis, references"
    # <pre> keeps names in one piece, and the padding of numbers.
    header = ["index", *labels, *(f"<pre>{escape_cell(name)}</pre>" for name in digits), texts]
    return f"{'<br>'.join(above)}\n\n| {' | '.join(header)} |\n|{' --- |' * len(header)}\n{rows}"


def _row(sample: Sample, digits: Iterable[int], labels: Iterable[str]) -> str:
    hypothesis, references = sample.mark_words()
    lines = []
    if sample.source is not None:
        lines.append(_line("src", [Span(sample.source, "")]))
    lines.append(_line("hyp", hypothesis))
    fit = len(references) <= _MAX_REFERENCES
    shown = references if fit else references[: _MAX_REFERENCES - 1]
    lines += [_line("ref", reference) for reference in shown]
    if not fit:
        lines.append(f"<code>{len(references) - len(shown)} more references</code>")
    scores = [f"<pre>{score:5.{places}f}</pre>" for score, places in zip(sample.shown_scores(), digits)]
    own = [_ISOLATE.format(escape_cell(to_line(sample.labels.get(name, ""), _MAX_LABEL))) for name in labels]
    cells = [f"<pre>{sample.index:4}</pre>", *own, *scores]
    # A single line keeps rows low: cards are only 350 pixels high.
    return f"| {' | '.join(cells)} | {'<br>'.join(lines)} |"


def _line(label: str, spans: Iterable[Span]) -> str:
    """A labeled sentence. If it has no visible characters, the label says so: its typeface sets it apart from text."""
    escaped = [Span(escape_cell(text), mark) for text, mark in shorten(spans)]
    text = "".join(span.text for span in escaped)
    if not is_visible(text):
        return f"<code>{label} (empty)</code>"
    marked = "".join(_TAGS[span.mark].format(span.text) for span in escaped if span.text)
    return f"<code>{label}</code> {_ISOLATE.format(marked)}"


def escape_cell(text: str) -> str:
    """Put text on a single line, and write everything that could be markup as HTML entities.

    Line breaks become blanks, and other control characters become replacement characters. Characters that only set the
    direction of text are removed.

    Example:
        >>> escape_cell("<b>*a* | b.\\n&lt;")
        '&#60;b&#62;&#42;a&#42; &#124; b. &#38;lt;'
    """
    return clean(text).translate(_ENTITIES)


Layout: TypeAlias = dict[str, dict[str, list[Any]]]
"""Charts by section and title, as ``SummaryWriter.add_custom_scalars`` takes them."""


def lay_out_charts(validation: Validation) -> Layout:
    """The charts of a validation: its scores, their differences from the best, and the components that are logged.

    Those of means come first. Groups have none: TensorBoard draws all lines of a chart in one color.
    """
    layout: Layout = {"Scores": {}, "Against the best before": {}, "Parts": {}}
    for score in [score for score in validation.scored if not score.name.group]:
        naming, result = validation.naming, score.result
        shown = naming.render_for_loggers(score.name)
        title = f"{shown}: {result.scope}" if len(score.mean_of) > 1 else shown
        bands = {}
        if result.interval is None:
            layout["Scores"][title] = ["Multiline", [_to_pattern(shown)]]
        else:
            bands["Scores"] = ["", "low", "high"]
        if result.comparison is not None:
            bands["Against the best before"] = ["difference", "difference_low", "difference_high"]
        for section, details in bands.items():
            names = [naming.render_for_loggers(score.name._replace(detail=detail)) for detail in details]
            layout[section] = {title: ["Margin", names], **layout[section]}  # TensorBoard shows the last band first
        _add_components(layout["Parts"], validation, score)
    return {section: charts for section, charts in layout.items() if charts}


def _add_components(charts: dict[str, list[Any]], validation: Validation, score: Scored) -> None:
    """Add the charts of the components that are logged."""
    naming = validation.naming
    for component in score.result.components:
        name = score.name._replace(detail=component.name)
        if component.chart and naming.render(name) in validation.numbers:
            title = f"{naming.render_for_loggers(score.name)}: {component.chart}"
            _, names = charts.setdefault(title, ["Multiline", []])
            names.append(_to_pattern(naming.render_for_loggers(name)))


def _to_pattern(name: str) -> str:
    """The names of lines are regular expressions that must match from the start."""
    return f"^{re.escape(name)}$"
