"""What there is to see of a comparison of systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lightning_bleu.display.marks import Line, mark_words
from lightning_bleu.rendering.blocks import (
    Bar,
    Block,
    Cell,
    Chart,
    Example,
    ExampleLine,
    Examples,
    Heading,
    Note,
    Part,
    Point,
    Range,
    Span,
    Table,
    TableCell,
    Tone,
    View,
)

if TYPE_CHECKING:
    from lightning_bleu.comparison import Change, Comparison

_MAX_SENTENCES = 3
"""The number of compared systems up to which verdicts are told in words."""
_MAX_CHARTED = 5
"""The number of systems up to which a chart can tell them apart."""
_MAX_REFERENCES = 5
"""The maximum number of references shown per sentence."""
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}


def describe_comparison(comparison: Comparison, examples: int) -> View:
    """What there is to see of a comparison.

    Args:
        comparison: the comparison.
        examples: how many sentences to show of each kind, at most.
    """
    blocks: list[Block] = [Note(_describe_method(comparison), quiet=True)]
    blocks += [Note(sentence) for sentence in _describe_verdicts(comparison)]
    blocks += [_score_table(comparison, metric) for metric in comparison.metrics]
    compared = comparison.systems[1:]
    if compared:
        blocks.append(_change_table(comparison, comparison.metrics[0]))
    blocks += _length_charts(comparison)
    if examples > 0:
        for system in compared:
            blocks += _changed_sentences(comparison, comparison.metrics[0], system, examples)
        if not compared:
            blocks.append(_worst_sentences(comparison, comparison.metrics[0], examples))
    signatures = [f"{metric}: {signature}" for metric, signature in comparison.signatures.items()]
    if signatures:
        blocks.append(Note("\n".join(signatures), quiet=True))
    return View(_title(comparison), blocks)


def _title(comparison: Comparison) -> str:
    compared = comparison.systems[1:]
    if not compared:
        return comparison.baseline
    names = ", ".join(compared) if len(compared) <= _MAX_SENTENCES else f"{len(compared)} systems"
    return f"{names} against {comparison.baseline}"


def _describe_method(comparison: Comparison) -> str:
    """How many sentences were compared, and how."""
    references = max(map(len, comparison.texts.references))
    plural = "" if references == 1 else "s"
    sentences = [f"{len(comparison.texts.references):,} sentences, {references} reference{plural} each."]
    compared = len(comparison.systems) - 1
    if compared == 0:
        sentences.append(f"Intervals from {comparison.resamples:,} bootstrap resamples.")
        return " ".join(sentences)
    sentences.append(f"Paired bootstrap with {comparison.resamples:,} resamples.")
    adjusted = f", adjusted for {compared} systems (Holm)" if compared > 1 else ""
    sentences.append(f"One-sided p{adjusted}.")
    sentences.append(f"Better or worse: the interval excludes 0, and p < {comparison.max_p_value:g}.")
    if comparison.resamples < comparison.resamples_needed:
        sentences.append(
            f"So few resamples cannot show a clear difference: use at least {comparison.resamples_needed:,}."
        )
    return " ".join(sentences)


def _describe_verdicts(comparison: Comparison) -> list[str]:
    """A sentence per system, if they are not too many, and the reasons why differences are not clear."""
    compared = comparison.systems[1:]
    if len(compared) > _MAX_SENTENCES:
        return []
    return [_describe_verdict(comparison, system) for system in compared]


def _describe_verdict(comparison: Comparison, system: str) -> str:
    metrics_by_words: dict[str, list[str]] = {}
    notes = []
    for metric in comparison.metrics:
        verdict = comparison.verdict(metric, system)
        test = comparison.tests[metric][system]
        difference = format_in_unit(test.difference, test.percent, "+")
        metrics_by_words.setdefault(verdict.words, []).append(f"{metric} ({difference})")
        if verdict.note:
            notes.append(f" For {metric}, {verdict.note}.")
    verdicts = [f"{words} in {' and '.join(metrics)}" for words, metrics in metrics_by_words.items()]
    return f"{system}: {', '.join(verdicts)}.{''.join(notes)}"


def _score_table(comparison: Comparison, metric: str) -> Table:
    """The scores of a metric, their differences from the baseline, and what is known about chance."""
    direction = {1: "Higher is better.", -1: "Lower is better.", 0: "Neither higher nor lower is better."}
    note = direction[comparison.rows[metric][comparison.baseline].scoring.sign]
    interval_name = f"{100 * comparison.confidence:g}% interval"
    intervals = comparison.intervals[metric]
    if len(comparison.systems) == 1:
        interval = intervals[comparison.baseline]
        low, high = (format_in_unit(end, interval.percent) for end in (interval.low, interval.high))
        row: list[TableCell] = [comparison.baseline, format_in_unit(interval.score, interval.percent)]
        row.append(f"{low} to {high}")
        return Table([metric, "score", interval_name], [row], note=note)
    baseline = intervals[comparison.baseline]
    rows: list[list[TableCell]] = [
        [
            comparison.baseline,
            format_in_unit(baseline.score, baseline.percent),
            "",
            Cell("baseline", "quiet"),
            "",
            "",
            "",
        ]
    ]
    rows += [_compared_row(comparison, metric, system) for system in comparison.systems[1:]]
    return Table([metric, "score", "difference", "", interval_name, "", "p"], rows, note=note)


def _compared_row(comparison: Comparison, metric: str, system: str) -> list[TableCell]:
    """The row of a system that is compared with the baseline."""
    test = comparison.tests[metric][system]
    low, high = test.low or 0.0, test.high or 0.0
    words = comparison.verdict(metric, system).words
    is_clear = words in ("better", "worse", "higher", "lower")
    tone = _TONES.get(words, "quiet")
    shown_low, shown_high = (format_in_unit(end, test.percent, "+") for end in (low, high))
    return [
        system,
        format_in_unit(test.score_a, test.percent),
        format_in_unit(test.difference, test.percent, "+"),
        Cell(words if is_clear else "unclear", tone),
        f"{shown_low} to {shown_high}",
        Range(test.difference, low, high, _find_axis(comparison, metric), tone),
        f"{comparison.p_values(metric)[system]:.4f}",
    ]


def _find_axis(comparison: Comparison, metric: str) -> tuple[float, float]:
    """Both ends of the axis on which the differences of a metric are drawn."""
    ends = [0.0]
    for test in comparison.tests[metric].values():
        ends += [test.difference, test.low or 0.0, test.high or 0.0]
    return min(ends), max(ends)


def _change_table(comparison: Comparison, metric: str) -> Table:
    """How many sentences each system translates better and worse than the baseline."""
    rows: list[list[TableCell]] = []
    total = len(comparison.texts.references)
    for system in comparison.systems[1:]:
        improved, same, got_worse = comparison.count_changed(metric, system)
        parts = [
            Part(improved / total, "good", f"{improved:,}"),
            Part(same / total, "quiet", f"{same:,}"),
            Part(got_worse / total, "bad", f"{got_worse:,}"),
        ]
        rows.append([system, f"{improved:,}", f"{same:,}", f"{got_worse:,}", Bar(parts)])
    return Table(["", "better", "same", "worse", ""], rows, f"Sentences that changed, by {metric}")


def _length_charts(comparison: Comparison) -> list[Block]:
    """The scores of sentences of similar length; nothing if all are of one length, or if there are too many systems."""
    if len(comparison.systems) > _MAX_CHARTED:
        return []
    charts: list[Block] = []
    for metric in comparison.metrics:
        lengths, counts, scores = comparison.scores_by_length(metric)
        if len(lengths) == 1:
            return []
        categories = [f"{length}\nn={count:,}" for length, count in zip(lengths, counts)]
        series = {}
        for system, of_system in scores.items():
            series[system] = [Point(place, score) for place, score in enumerate(of_system)]
        charts.append(Chart(f"{metric} by length of the reference", series, "tokens", categories))
    return [Heading("Scores by length"), *charts]


def _changed_sentences(comparison: Comparison, metric: str, system: str, count: int) -> list[Block]:
    """The sentences that a system translates better and worse than the baseline."""
    changes = comparison.changed(metric, system, count)
    counts = comparison.count_changed(metric, system)
    blocks: list[Block] = []
    for title, sentences, total in (
        ("Improved most", changes.improved, counts.improved),
        ("Got worse most", changes.got_worse, counts.got_worse),
    ):
        examples = [_to_example(comparison, metric, system, change) for change in sentences]
        blocks.append(Examples(f"{title}: {len(examples)} of {total:,}", examples, f"By {metric}."))
    return [Heading(f"{system} against {comparison.baseline}"), *blocks]


def _to_example(comparison: Comparison, metric: str, system: str, change: Change) -> Example:
    percent = comparison.rows[metric][system].scoring.percent
    references = [comparison.tokenize(reference) for reference in change.references]
    lines = _shared_lines(change.source, change.references)
    for name, hypothesis, score in (
        (comparison.baseline, change.baseline, change.baseline_score),
        (system, change.hypothesis, change.score),
    ):
        spans = _mark(comparison.tokenize(hypothesis), references)
        lines.append(ExampleLine(name, spans, format_in_unit(score, percent)))
    return Example(change.number, lines)


def _worst_sentences(comparison: Comparison, metric: str, count: int) -> Examples:
    """The worst sentences of the only system."""
    worst = comparison.worst(metric, comparison.baseline, count)
    examples = []
    for sentence in worst:
        references = [comparison.tokenize(reference) for reference in sentence.references]
        lines = _shared_lines(sentence.source, sentence.references)
        lines.append(ExampleLine("hypothesis", _mark(comparison.tokenize(sentence.hypothesis), references)))
        scores = []
        for name, score in sentence.scores.items():
            percent = comparison.rows[name][comparison.baseline].scoring.percent
            scores.append(f"{name} {format_in_unit(score, percent)}")
        examples.append(Example(sentence.number, lines, "  ".join(scores)))
    return Examples(f"Worst {len(examples)}", examples, f"By {metric}.")


def _shared_lines(source: str | None, references: Sequence[str]) -> list[ExampleLine]:
    """The source and the references of a sentence."""
    lines = []
    if source is not None:
        lines.append(ExampleLine("source", [Span(source)]))
    for number, reference in enumerate(references[:_MAX_REFERENCES], 1):
        label = "reference" if len(references) == 1 else f"reference {number}"
        lines.append(ExampleLine(label, [Span(reference)]))
    return lines


def _mark(hypothesis: Line, references: Sequence[Line]) -> list[Span]:
    marked, _ = mark_words(hypothesis, references)
    return [Span(text, mark) for text, mark in marked]


def format_in_unit(value: float, percent: bool | None, sign: str = "") -> str:
    """A score as text in its own unit: with two digits in percent, otherwise with four.

    Example:
        >>> format_in_unit(48.8612, percent=True), format_in_unit(0.138694, percent=False, sign="+")
        ('48.86', '+0.1387')
    """
    digits = 2 if percent else 4
    return f"{value:{sign}.{digits}f}"
