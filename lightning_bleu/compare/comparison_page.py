"""What there is to see of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lightning_bleu.core.clean import to_line
from lightning_bleu.core.scoring import describe_directions, format_in_unit, format_range
from lightning_bleu.evaluation.texts.findings import describe_findings
from lightning_bleu.observers.samples import label_references
from lightning_bleu.views.blocks import (
    Block,
    Cell,
    Example,
    ExampleLine,
    Examples,
    Heading,
    Note,
    Range,
    Span,
    Table,
    TableCell,
    Tone,
    View,
)
from lightning_bleu.views.marks import mark_words

if TYPE_CHECKING:
    from lightning_bleu.compare.comparison import Change, ChangeCounts, Comparison

_MAX_IN_TITLE = 3
"""The number of compared systems up to which a title names them."""
_MAX_NAME = 60
"""The maximum number of characters of a name in a sentence."""
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}


def describe_comparison(comparison: Comparison, examples: int) -> View:
    """What a page shows of a comparison, with at most `examples` sentences of each kind."""
    blocks: list[Block] = [Note(_describe_method(comparison), quiet=True)]
    blocks += [Note(_describe_verdict(comparison, system)) for system in comparison.systems[1:]]
    blocks += describe_findings(comparison.findings)
    blocks.append(_score_table(comparison))
    metric = comparison.metrics[0]
    counts = {system: comparison.count_changed(metric, system) for system in comparison.systems[1:]}
    if counts:
        has_direction = comparison.rows[metric][comparison.baseline].scorer.higher_is_better is not None
        blocks.append(_change_table(counts, metric, has_direction=has_direction))
    if examples > 0:
        for system, of_system in counts.items():
            blocks += _changed_sentences(comparison, metric, system, of_system, examples)
        if not counts:
            blocks.append(describe_worst(comparison, examples))
    described = [*comparison.signatures.items(), *comparison.texts.files.items()]
    details = [f"{name}: {detail}" for name, detail in described]
    if details:
        blocks.append(Note("\n".join(details), quiet=True))
    return View(_title(comparison), blocks)


def _title(comparison: Comparison) -> str:
    compared = comparison.systems[1:]
    if not compared:
        return comparison.baseline
    names = ", ".join(compared) if len(compared) <= _MAX_IN_TITLE else f"{len(compared)} systems"
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
        sentences.append(f"So few cannot show a clear difference: use at least {comparison.resamples_needed:,}.")
    return " ".join(sentences)


def _describe_verdict(comparison: Comparison, system: str) -> str:
    """A sentence with the verdict of each metric, and why differences are not clear."""
    metrics_by_words: dict[str, list[str]] = {}
    notes = []
    for metric in comparison.metrics:
        verdict = comparison.verdict(metric, system)
        test = comparison.tests[metric][system]
        difference = format_in_unit(test.difference, test.percent, "+")
        words = "no clear difference" if verdict.word == "unclear" else verdict.word
        metrics_by_words.setdefault(words, []).append(f"{metric} ({difference})")
        if verdict.note:
            notes.append(f" For {metric}, {verdict.note}.")
    verdicts = [f"{words} in {' and '.join(metrics)}" for words, metrics in metrics_by_words.items()]
    return f"{to_line(system, _MAX_NAME)}: {', '.join(verdicts)}.{''.join(notes)}"


def _score_table(comparison: Comparison) -> Table:
    """The scores of each metric, their differences from the baseline, and what is known about chance."""
    interval_name = f"{100 * comparison.confidence:g}% interval"
    rows: list[list[TableCell]] = []
    directions = {}
    for metric in comparison.metrics:
        baseline = comparison.intervals[metric][comparison.baseline]
        directions[metric] = comparison.rows[metric][comparison.baseline].scorer.higher_is_better
        score = format_in_unit(baseline.score, baseline.percent)
        if len(comparison.systems) == 1:
            rows.append([metric, score, format_range(baseline.low, baseline.high, baseline.percent)])
            continue
        rows += [[metric], [comparison.baseline, score, "", Cell("baseline", "quiet"), "", ""]]
        rows += [_compared_row(comparison, metric, system) for system in comparison.systems[1:]]
    if len(comparison.systems) == 1:
        header = ["", "score", interval_name]
    else:
        header = ["", "score", "difference", "verdict", interval_name, "p"]
    return Table(header, rows, note=describe_directions(directions))


def _compared_row(comparison: Comparison, metric: str, system: str) -> list[TableCell]:
    """The row of a system that is compared with the baseline."""
    test = comparison.tests[metric][system]
    word = comparison.verdict(metric, system).word
    tone = _TONES.get(word, "quiet")
    score = format_in_unit(test.score_a, test.percent)
    difference = format_in_unit(test.difference, test.percent, "+")
    reach = max(max(abs(other.low), abs(other.high)) for other in comparison.tests[metric].values())
    shown = format_range(test.low, test.high, test.percent, "+")
    interval = Range(shown, test.difference, test.low, test.high, (-reach, reach), tone)
    p_value = f"{comparison.p_values(metric)[system]:.4f}"
    return [system, score, difference, Cell(word, tone), interval, p_value]


def _change_table(counts: Mapping[str, ChangeCounts], metric: str, *, has_direction: bool) -> Table:
    """How many sentences each system translates better and worse than the baseline, or otherwise."""
    title = f"Sentences that changed, by {metric}"
    rows = []
    for system, of_system in counts.items():
        directed = [of_system.improved, of_system.same, of_system.worsened]
        numbers = directed if has_direction else [of_system.differ, of_system.same]
        rows.append([system, *map("{:,}".format, numbers)])
    return Table(["", "better", "same", "worse"] if has_direction else ["", "differ", "same"], rows, title)


def _changed_sentences(
    comparison: Comparison, metric: str, system: str, counts: ChangeCounts, examples: int
) -> list[Block]:
    """At most `examples` sentences that a system translates better than the baseline, and as many that got worse."""
    changes = comparison.changed(metric, system, examples)
    order = comparison.rows[metric][system].scorer.order
    blocks: list[Block] = [Heading(f"{system} against {comparison.baseline}")]
    for title, found, count in (
        ("Improved most", changes.improved, counts.improved),
        ("Got worse most", changes.worsened, counts.worsened),
    ):
        items = [_to_example(comparison, metric, system, change) for change in found]
        blocks.append(Examples(f"{title}{order}: {len(items)} of {count:,}", items, "#0 is the first line."))
    return blocks


def _to_example(comparison: Comparison, metric: str, system: str, change: Change) -> Example:
    percent = comparison.rows[metric][system].scorer.percent
    references = [comparison.tokenize(reference) for reference in change.references]
    lines, hypotheses = [], []
    if change.source is not None:
        lines.append(ExampleLine("source", [Span(change.source)]))
    for name, hypothesis, score in (
        (comparison.baseline, change.baseline, change.baseline_score),
        (system, change.hypothesis, change.score),
    ):
        spans, marked_references = mark_words(comparison.tokenize(hypothesis), references)
        hypotheses.append(ExampleLine(name, spans, format_in_unit(score, percent)))
    lines += label_references(marked_references)  # marked where the compared system lacks a word
    return Example(change.index, [*lines, *hypotheses])


def describe_worst(comparison: Comparison, count: int, title: str = "") -> Examples:
    """The worst sentences of the baseline, by the first metric.

    Args:
        comparison: the comparison.
        count: how many sentences to show, at most.
        title: the beginning of the title.
    """
    metric = comparison.metrics[0]
    worst = comparison.worst(metric, comparison.baseline, count)
    examples = [sample.to_example() for sample in worst]
    order = comparison.rows[metric][comparison.baseline].scorer.order
    return Examples(f"{title}Worst {len(examples)}{order}", examples, "#0 is the first line.")
