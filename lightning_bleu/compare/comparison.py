"""Systems side by side: which are better than a baseline, by how much, and in which sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lightning_bleu.compare.comparison_page import describe_comparison
from lightning_bleu.compare.texts import SystemTexts
from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.messages import check_choice
from lightning_bleu.core.significance import Interval, PairedTest, Verdict, holm, judge, max_p_value, resamples_needed
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.texts.findings import Finding
from lightning_bleu.observers.samples import (
    Sample,
    drop_repeats,
    find_changed,
    find_gains,
    find_marking,
    find_worst,
    score_samples,
    split_line,
)
from lightning_bleu.views.blocks import View
from lightning_bleu.views.marks import Line
from lightning_bleu.views.viewable import Viewable


@dataclass(frozen=True)
class Change:
    """A sentence that a system translates better or worse than the baseline.

    Attributes:
        index: the index of its line, from 0.
        source: the source sentence; None if there is none.
        references: its references.
        baseline: the hypothesis of the baseline.
        hypothesis: the hypothesis of the system.
        baseline_score: the score of the first.
        score: the score of the second.
    """

    index: int
    source: str | None
    references: list[str]
    baseline: str
    hypothesis: str
    baseline_score: float
    score: float


class Changes(NamedTuple):
    """The sentences that a system translates better than the baseline, and those that it translates worse.

    Attributes:
        improved: those that it translates better, those that changed most first.
        worsened: those that it translates worse.
    """

    improved: list[Change]
    worsened: list[Change]


class ChangeCounts(NamedTuple):
    """How many sentences a system translates better than the baseline, equally well, and worse.

    Attributes:
        improved: those that it translates better.
        same: those whose score is the same.
        worsened: those that it translates worse.
        differ: those whose score differs, by a metric without a direction.
    """

    improved: int
    same: int
    worsened: int
    differ: int = 0


@dataclass(frozen=True, repr=False)
class Comparison(Viewable):
    """Systems on the same sentences. The first one is the baseline, with which the others are compared.

    Example:
        >>> from lightning_bleu.compare import compare_systems
        >>> references = [f"the cat sat on mat {number}" for number in range(40)]
        >>> old = [line.replace("cat", "dog") for line in references]
        >>> comparison = compare_systems({"old": old, "new": references[:20] + old[20:]}, references=references)
        >>> comparison.verdict("bleu", "new").word, comparison.count_changed("bleu", "new").improved
        ('better', 20)

    Attributes:
        texts: the texts.
        intervals: the score of each system with its interval, by metric and system.
        tests: the paired bootstrap test of each system against the baseline, by metric and system. Its `difference` is
            that of the score of the system minus that of the baseline, and its p-value is not adjusted.
        rows: what each metric counted in the sentences of each system, by metric and system.
        confidence: the confidence level of the intervals.
        resamples: the number of resamples.
        signatures: what the scores of a metric depend on, by metric, for metrics that have a signature.
        findings: what stands out in the texts of each system.

    Notes:
        ``print(comparison)`` shows it as text, a notebook as a table, and :meth:`to_html` writes a page.
    """

    texts: SystemTexts
    intervals: Mapping[str, Mapping[str, Interval]]
    tests: Mapping[str, Mapping[str, PairedTest]]
    rows: Mapping[str, Mapping[str, SentenceRows]]
    confidence: float
    resamples: int
    signatures: Mapping[str, str]
    findings: Sequence[Finding]

    @property
    def systems(self) -> list[str]:
        """The names of all systems."""
        return list(self.texts.hypotheses)

    @property
    def baseline(self) -> str:
        """The name of the first system."""
        return self.systems[0]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(self.intervals)

    @property
    def max_p_value(self) -> float:
        """A difference is clear only if its adjusted p-value is below this one, and its interval excludes 0."""
        return max_p_value(self.confidence)

    @property
    def resamples_needed(self) -> int:
        """The smallest number of resamples that can show a clear difference.

        The smallest p-value is 1 / (resamples + 1), and adjusting multiplies it by the number of compared systems.
        """
        return resamples_needed(self.confidence, len(self.systems) - 1)

    def p_values(self, metric: str) -> dict[str, float]:
        """The p-value of each system but the baseline, adjusted for the number of these systems as in Holm (1979).

        Raises:
            ValueError: if there is no such metric.

        Notes:
            Metrics are not adjusted for: look at one of them, which you have chosen before.
        """
        check_choice("metric", metric, self.metrics)
        return holm({system: test.p_value for system, test in self.tests[metric].items()})

    def verdict(self, metric: str, system: str) -> Verdict:
        """Whether a system is better than the baseline.

        Raises:
            ValueError: if there is no such metric or system.

        Notes:
            A system is better or worse if two things hold: the interval of the difference excludes 0, and the adjusted,
            one-sided p-value is below (1 - confidence) / 2. See :class:`lightning_bleu.core.significance.Verdict`.
        """
        rows, _ = self._find_rows(metric, system)
        p_value, compared = self.p_values(metric)[system], len(self.systems) - 1
        test = self.tests[metric][system]
        return judge(test, rows.scorer.sign, self.confidence, p_value=p_value, systems=compared)

    def _find_rows(self, metric: str, system: str) -> tuple[SentenceRows, SentenceRows]:
        """What a metric counted in a system and in the baseline. An error if there is no such metric or system."""
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems[1:])
        return self.rows[metric][system], self.rows[metric][self.baseline]

    def changed(self, metric: str, system: str, count: int = 10) -> Changes:
        """The sentences that a system translates better than the baseline, and those that it translates worse.

        Args:
            metric: the name of the metric.
            system: the name of the system.
            count: how many sentences to return of each, at most.

        Raises:
            ValueError: if there is no such metric or system.

        Notes:
            BLEU ranks sentences for their length, as in samples, so that short ones do not come first. Sentences that
            appear several times with the same texts are returned once.
        """
        rows, baseline_rows = self._find_rows(metric, system)
        scores, baseline_scores = rows.score_sentences().tolist(), baseline_rows.score_sentences().tolist()
        references, baseline = self.texts.references, self.texts.hypotheses[self.baseline]
        hypotheses = self.texts.hypotheses[system]
        worsened, improved = find_changed(rows, baseline_rows, len(scores))

        def describe(numbers: Sequence[int]) -> list[Change]:
            texts = {number: (references[number], baseline[number], hypotheses[number]) for number in numbers}
            return [
                Change(number, self._source(number), *lines, baseline_scores[number], scores[number])
                for number, lines in drop_repeats(texts, count).items()
            ]

        return Changes(describe(improved), describe(worsened))

    def _source(self, number: int) -> str | None:
        return None if self.texts.sources is None else self.texts.sources[number]

    def worst(self, metric: str, system: str, count: int = 10) -> list[Sample]:
        """The sentences that a system translates worst, each once. Perfect ones are not among them.

        Args:
            metric: the name of the metric.
            system: the name of the system.
            count: how many sentences to return, at most.

        Raises:
            ValueError: if there is no such metric or system.
        """
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems)
        rows = {name: of_systems[system] for name, of_systems in self.rows.items()}
        sentences = {}
        for number in find_worst(rows[metric].statistics, rows[metric].scorer, len(self.texts.references)):
            hypothesis, references = self.texts.hypotheses[system][number], self.texts.references[number]
            sentences[number] = Sentence(hypothesis, references, self._source(number))
        chosen, ids = drop_repeats(sentences, count), self.texts.ids
        if ids is not None:
            chosen = {number: Sentence(*sentence[:3], id=ids[number]) for number, sentence in chosen.items()}
        return score_samples(chosen, rows)

    def count_changed(self, metric: str, system: str) -> ChangeCounts:
        """How many sentences a system translates better than the baseline, equally well, and worse.

        Raises:
            ValueError: if there is no such metric or system.
        """
        rows, baseline_rows = self._find_rows(metric, system)
        if rows.scorer.higher_is_better is None:
            differ = int((rows.score_sentences() != baseline_rows.score_sentences()).sum())
            return ChangeCounts(0, len(rows) - differ, 0, differ)
        gains = find_gains(rows, baseline_rows)
        improved, worsened = int((gains > 0).sum()), int((gains < 0).sum())
        return ChangeCounts(improved, len(gains) - improved - worsened, worsened)

    def tokenize(self, text: str) -> Line:
        """A text with its tokens, as an error rate or BLEU counts them."""
        rows = {metric: of_systems[self.baseline] for metric, of_systems in self.rows.items()}
        return split_line(text, False, find_marking(rows))

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`Viewable`."""
        return describe_comparison(self, examples)

    def __repr__(self) -> str:
        systems, metrics = to_line(", ".join(self.systems), 50), to_line(", ".join(self.metrics), 30)
        return f"Comparison({len(self.texts.references):,} sentences; {systems}; {metrics})"

    def to_dict(self) -> dict[str, Any]:
        """The scores and the tests as plain values that :mod:`json` can serialize."""
        return {
            "baseline": self.baseline,
            "sentences": len(self.texts.references),
            "confidence": self.confidence,
            "resamples": self.resamples,
            "findings": [finding.to_dict() for finding in self.findings],
            "metrics": {metric: self._metric_to_dict(metric) for metric in self.metrics},
        }

    def _metric_to_dict(self, metric: str) -> dict[str, Any]:
        scorer = self.rows[metric][self.baseline].scorer
        systems: dict[str, dict[str, Any]] = {}
        for system, interval in self.intervals[metric].items():
            systems[system] = {"score": interval.score, "low": interval.low, "high": interval.high}
        adjusted = self.p_values(metric)
        for system, test in self.tests[metric].items():
            systems[system].update(
                difference=test.difference,
                difference_low=test.low,
                difference_high=test.high,
                p_value=test.p_value,
                adjusted_p_value=adjusted[system],
                verdict=self.verdict(metric, system).word,
                **self.count_changed(metric, system)._asdict(),
            )
        return {
            "higher_is_better": scorer.higher_is_better,
            "percent": scorer.percent,
            "signature": self.signatures.get(metric),
            "systems": systems,
        }
