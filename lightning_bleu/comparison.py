"""Systems side by side: which are better than a baseline, by how much, and in which sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from lightning_bleu.bleu import BLEU_NAME, BLEUSettings, Statistics
from lightning_bleu.comparison_view import describe_comparison
from lightning_bleu.display.marks import Line
from lightning_bleu.display.samples import tokenize_line
from lightning_bleu.evaluation.buckets import find_length_buckets
from lightning_bleu.evaluation.choices import find_changed, find_gains, find_worst
from lightning_bleu.evaluation.collector import Output, SentenceCollector
from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.metrics import CountedMetric
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.sentences import GatheredSentences, SentenceRows
from lightning_bleu.evaluation.validation import ScoredSubset, score_validation
from lightning_bleu.evaluator import MetricsByName
from lightning_bleu.messages import WarnOnce, check_choice
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import alone
from lightning_bleu.recorded_metrics import RunRecords
from lightning_bleu.rendering.blocks import View
from lightning_bleu.rendering.clean import to_line
from lightning_bleu.rendering.viewable import Viewable
from lightning_bleu.scoring.resampling import (
    MIN_SENTENCES,
    Interval,
    PairedTest,
    check_count,
    check_share,
    describe_few_sentences,
    interval_of,
    paired_test_of,
    resample_scores,
)
from lightning_bleu.significance import holm
from lightning_bleu.texts import SystemTexts, TextFile, Translations, read_systems

if TYPE_CHECKING:
    from typing_extensions import Never

UNCLEAR = "no clear difference"


class Verdict(NamedTuple):
    """Whether a system is better than the baseline.

    Attributes:
        words: ``"better"``, ``"worse"``, or ``"no clear difference"``; ``"higher"`` or ``"lower"`` for a score of
            which neither is better.
        note: why there is no clear difference, if the interval or the p-value alone would show one; else empty.
    """

    words: str
    note: str = ""


class Change(NamedTuple):
    """A sentence that a system translates better or worse than the baseline.

    Attributes:
        number: the number of its line, from 1.
        source: the source sentence; None if there is none.
        references: its references.
        baseline: the hypothesis of the baseline.
        hypothesis: the hypothesis of the system.
        baseline_score: the score of the first.
        score: the score of the second.
    """

    number: int
    source: str | None
    references: list[str]
    baseline: str
    hypothesis: str
    baseline_score: float
    score: float


class WorstSentence(NamedTuple):
    """A sentence that a system translates worse than most.

    Attributes:
        number: the number of its line, from 1.
        source: the source sentence; None if there is none.
        references: its references.
        hypothesis: the hypothesis of the system.
        scores: its scores by metric.
    """

    number: int
    source: str | None
    references: list[str]
    hypothesis: str
    scores: dict[str, float]


class Changes(NamedTuple):
    """The sentences that a system translates better than the baseline, and those that it translates worse.

    Attributes:
        improved: those that it translates better, those that changed most first.
        got_worse: those that it translates worse.
    """

    improved: list[Change]
    got_worse: list[Change]


class ChangeCounts(NamedTuple):
    """How many sentences a system translates better than the baseline, as well, and worse."""

    improved: int
    same: int
    got_worse: int


class ScoresByLength(NamedTuple):
    """The scores of sentences of similar length.

    Attributes:
        lengths: the lengths of the references, in words, such as ``"11–20"``.
        counts: the number of sentences of these lengths.
        scores: for each system, the score of these sentences.
    """

    lengths: list[str]
    counts: list[int]
    scores: dict[str, list[float]]


@dataclass(frozen=True, repr=False)
class Comparison(Viewable):
    """Systems on the same sentences. The first one is the baseline, with which the others are compared.

    ``print(comparison)`` shows it as text, a notebook as a table, and :meth:`to_html` writes a page.

    Attributes:
        texts: the texts.
        intervals: the score of each system with its interval, by metric and system.
        tests: the paired bootstrap test of each system against the baseline, by metric and system. Its `difference` is
            that of the score of the system minus that of the baseline, and its p-value is not adjusted.
        rows: what each metric counted in the sentences of each system, by metric and system.
        confidence: the confidence level of the intervals.
        resamples: the number of resamples.
        signatures: what the scores of a metric depend on, by metric, for metrics that have a signature.
        bleu_settings: how texts are tokenized, to mark their words.
    """

    texts: SystemTexts
    intervals: Mapping[str, Mapping[str, Interval]]
    tests: Mapping[str, Mapping[str, PairedTest]]
    rows: Mapping[str, Mapping[str, SentenceRows]]
    confidence: float
    resamples: int
    signatures: Mapping[str, str]
    bleu_settings: BLEUSettings

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
        """A difference is clear if its adjusted, one-sided p-value is below this one."""
        return (1 - self.confidence) / 2

    @property
    def resamples_needed(self) -> int:
        """The smallest number of resamples that can show a clear difference.

        The smallest p-value is 1 / (resamples + 1), and adjusting multiplies it by the number of compared systems.
        """
        compared = len(self.systems) - 1
        return math.floor(round(compared / self.max_p_value, 9))

    def p_values(self, metric: str) -> dict[str, float]:
        """The p-value of each system but the baseline, adjusted by :func:`holm` for the number of these systems.

        Metrics are not adjusted for: look at one of them, which you have chosen before.

        Raises:
            ValueError: if there is no such metric.
        """
        check_choice("metric", metric, self.metrics)
        return holm({system: test.p_value for system, test in self.tests[metric].items()})

    def verdict(self, metric: str, system: str) -> Verdict:
        """Whether a system is better than the baseline.

        It is better or worse if two things hold: the interval of the difference excludes 0, and the adjusted, one-sided
        p-value is below (1 - confidence) / 2.

        Raises:
            ValueError: if there is no such metric or system.
        """
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems[1:])
        test = self.tests[metric][system]
        p_value = self.p_values(metric)[system]
        is_significant = p_value < self.max_p_value
        excludes_0 = test.low is not None and test.high is not None and (test.low > 0 or test.high < 0)
        if is_significant and excludes_0:
            return Verdict(self._name_difference(metric, test.difference))
        if is_significant:
            return Verdict(UNCLEAR, f"p = {p_value:.4f} is below {self.max_p_value:g}, but the interval includes 0")
        if excludes_0:
            return Verdict(UNCLEAR, f"the interval excludes 0, but p = {p_value:.4f} is not below {self.max_p_value:g}")
        return Verdict(UNCLEAR)

    def _name_difference(self, metric: str, difference: float) -> str:
        sign = self.rows[metric][self.baseline].scoring.sign
        if sign == 0:
            return "higher" if difference > 0 else "lower"
        return "better" if sign * difference > 0 else "worse"

    def changed(self, metric: str, system: str, count: int = 10) -> Changes:
        """The sentences that a system translates better than the baseline, and those that it translates worse.

        BLEU ranks sentences for their length, as in samples, so that short ones do not come first. Sentences that
        appear several times with the same texts are returned once.

        Args:
            metric: the name of the metric.
            system: the name of the system.
            count: how many sentences to return of each, at most.

        Raises:
            ValueError: if there is no such metric or system.
        """
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems[1:])
        rows, baseline_rows = self.rows[metric][system], self.rows[metric][self.baseline]
        scores, baseline_scores = rows.score_sentences(), baseline_rows.score_sentences()
        hypotheses, baseline_hypotheses = self.texts.hypotheses[system], self.texts.hypotheses[self.baseline]
        got_worse, improved = find_changed(rows, baseline_rows, len(scores))

        def describe(numbers: Sequence[int]) -> list[Change]:
            changes: dict[tuple[str, ...], Change] = {}
            for number in numbers:
                if len(changes) == count:
                    break
                references = self.texts.references[number]
                # Test sets of chats have the same sentence many times.
                key = (baseline_hypotheses[number], hypotheses[number], *references)
                if key not in changes:
                    changes[key] = Change(
                        number + 1,
                        self._source(number),
                        references,
                        baseline_hypotheses[number],
                        hypotheses[number],
                        baseline_scores[number].item(),
                        scores[number].item(),
                    )
            return list(changes.values())

        return Changes(describe(improved), describe(got_worse))

    def _source(self, number: int) -> str | None:
        return None if self.texts.sources is None else self.texts.sources[number]

    def worst(self, metric: str, system: str, count: int = 10) -> list[WorstSentence]:
        """The sentences that a system translates worst. Perfect ones are not among them.

        Args:
            metric: the name of the metric.
            system: the name of the system.
            count: how many sentences to return, at most.

        Raises:
            ValueError: if there is no such metric or system.
        """
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems)
        rows = self.rows[metric][system]
        scores = {name: self.rows[name][system].score_sentences() for name in self.metrics}
        worst = []
        for number in find_worst(rows.statistics, rows.scoring, count):
            scores_of_sentence = {name: of_metric[number].item() for name, of_metric in scores.items()}
            references, hypothesis = self.texts.references[number], self.texts.hypotheses[system][number]
            worst.append(WorstSentence(number + 1, self._source(number), references, hypothesis, scores_of_sentence))
        return worst

    def count_changed(self, metric: str, system: str) -> ChangeCounts:
        """How many sentences a system translates better than the baseline, as well, and worse.

        Raises:
            ValueError: if there is no such metric or system.
        """
        check_choice("metric", metric, self.metrics)
        check_choice("system", system, self.systems[1:])
        gains = find_gains(self.rows[metric][system], self.rows[metric][self.baseline])
        improved, got_worse = int((gains > 0).sum()), int((gains < 0).sum())
        return ChangeCounts(improved, len(gains) - improved - got_worse, got_worse)

    def scores_by_length(self, metric: str) -> ScoresByLength:
        """The score of each system on sentences of similar length.

        The length is the reference length of BLEU in the baseline, or the number of tokens of the first reference.

        Raises:
            ValueError: if there is no such metric.
        """
        check_choice("metric", metric, self.metrics)
        buckets, labels = find_length_buckets(self._reference_lengths().clip(1))
        members = [torch.from_numpy(buckets == bucket) for bucket in range(len(labels))]
        scores = {}
        for system, rows in self.rows[metric].items():
            sums = torch.stack([rows.statistics[is_member].sum(0) for is_member in members])
            scores[system] = rows.scoring.score(sums).tolist()
        return ScoresByLength(labels, np.bincount(buckets).tolist(), scores)

    def _reference_lengths(self) -> npt.NDArray[np.int64]:
        for rows in self.rows.values():
            baseline = rows[self.baseline]
            if baseline.scoring.name == BLEU_NAME:
                return Statistics.unpack(baseline.statistics).reference_length.numpy()
        return np.array([len(self.tokenize(references[0]).tokens) for references in self.texts.references])

    def tokenize(self, text: str) -> Line:
        """A text with its tokens, as BLEU counts them."""
        return tokenize_line(text, False, self.bleu_settings)

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
            "metrics": {metric: self._metric_to_dict(metric) for metric in self.metrics},
        }

    def _metric_to_dict(self, metric: str) -> dict[str, Any]:
        scoring = self.rows[metric][self.baseline].scoring
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
                verdict=self.verdict(metric, system).words,
                **self.count_changed(metric, system)._asdict(),
            )
        return {
            "higher_is_better": scoring.higher_is_better,
            "percent": scoring.percent,
            "signature": self.signatures.get(metric),
            "systems": systems,
        }


def compare_systems(
    systems: Mapping[str, Translations],
    *more_systems: Never,
    references: TextFile | Sequence[Any] | None = None,
    sources: TextFile | Sequence[str] | None = None,
    metrics: CorpusMetric | FunctionMetric | MetricsByName | Callable[..., Any] | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare systems, or checkpoints, by their translations of the same sentences.

    It concerns the process that calls it only, so call it in a script, or where ``trainer.is_global_zero``.

    Args:
        systems: the translations of each system by its name, the baseline first: a file with a line per sentence, such
            as one of ``Evaluator(translations=...)``, or a list of strings. One system alone is scored.
        references: a file, a list of ``Path`` for several references per sentence, or a list of strings or of lists of
            strings. When None: ``ref.txt``, or ``ref-1.txt`` and so on, beside a system.
        sources: a file, or a list of strings. When None: ``src.txt`` beside a system, if there is one.
        metrics: metrics of this package and functions, as for :class:`Evaluator`. When None: the metrics of
            this package in the records of the runs, with their names and settings, if a file belongs to one; else all
            metrics of this package, BLEU and chrF, in percent. Pass functions again: a record has only their scores.
        confidence: the confidence level of the intervals.
        resamples: the number of bootstrap resamples, which are the same for all systems.
        seed: the random seed.

    Returns:
        a :class:`Comparison`.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for texts that are neither a file nor a list of strings, and for options of the wrong type; see also
            :class:`Evaluator`.
        ValueError: for different numbers of sentences, or fewer than two; if there are no references, or not the same
            beside all files; for a file that is not UTF-8; for metrics that do not score sentences; if the record says
            nothing about a file, or has settings that cannot be read.

    Files of a record are read as they were written, and tokens are read as tokens. If they do not reproduce the
    recorded score, a warning says so. With fewer than 30 sentences, equal systems look different too often, and a
    warning says so, too.

    Example:
        >>> from lightning_bleu import CorpusCHRF
        >>> references = [f"the cat sat on mat {number}" for number in range(40)]
        >>> systems = {
        ...     "old": [line.replace("cat", "dog") for line in references],
        ...     "new": [line.replace("sat", "lay") if "1" in line else line for line in references],
        ... }
        >>> comparison = compare_systems(systems, references=references, metrics=CorpusCHRF())
        >>> comparison.tests["chrf"]["new"].difference > 0, comparison.verdict("chrf", "new").words
        (True, 'better')
        >>> improved, got_worse = comparison.changed("chrf", "new", count=1)
        >>> improved[0].baseline, improved[0].hypothesis
        ('the dog sat on mat 9', 'the cat sat on mat 9')
    """
    if more_systems:
        raise TypeError(
            'pass the systems as a dict of names, the baseline first: compare_systems({"old": "old.txt", "new": '
            '"new.txt"}). A difference is the score of a system minus that of the baseline'
        )
    texts = read_systems(systems, references, sources)
    return compare_texts(texts, metrics, confidence=confidence, resamples=resamples, seed=seed)


def compare_texts(
    texts: SystemTexts, metrics: Any = None, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Comparison:
    """Compare systems whose texts have been read; see :func:`compare_systems`."""
    check_share("confidence", confidence)
    resamples = check_count("resamples", resamples)
    warn = WarnOnce()
    records = RunRecords(texts.files if metrics is None else {}, warn)
    table = MetricTable.from_metrics(records.rebuild_metrics() if metrics is None else metrics)
    are_tokens = records.were_tokens() and all(metric.counts_tokens for metric in table)
    with alone():
        scored = {name: _count(table, texts, name, are_tokens=are_tokens) for name in texts.hypotheses}
    if texts.has_own_references:
        for name, subset in scored.items():
            records.check_scores(name, subset.rows)
    rows_by_metric = _find_shared_metrics({name: subset.rows for name, subset in scored.items()})
    _warn_about_few_sentences(texts, warn)
    intervals: dict[str, dict[str, Interval]] = {}
    tests: dict[str, dict[str, PairedTest]] = {}
    for metric, rows_of_systems in rows_by_metric.items():
        intervals[metric], tests[metric] = _resample(rows_of_systems, confidence, resamples, seed)
    baseline = next(iter(scored.values()))
    return Comparison(
        texts,
        intervals,
        tests,
        rows_by_metric,
        confidence,
        resamples,
        signatures=_find_signatures(baseline, rows_by_metric),
        bleu_settings=_find_bleu_settings(table),
    )


def _count(table: MetricTable, texts: SystemTexts, system: str, *, are_tokens: bool) -> ScoredSubset[GatheredSentences]:
    """Score the sentences of a system."""
    hypotheses: list[Any] = texts.hypotheses[system]
    references: list[Any] = texts.references
    if are_tokens:
        hypotheses = [_split_tokens(line) for line in hypotheses]
        references = [[_split_tokens(line) for line in lines] for lines in references]
    collector = SentenceCollector(table)
    collector.update(Output(hypotheses, references, texts.sources, index=range(len(references))))
    collector.agree()
    validation = score_validation(table, list(collector.subsets.values()), collector.gather(), Naming())
    collector.warn_about_mistakes()
    (subset,) = validation.subsets
    missing = [key for key in subset.results if key not in subset.rows]
    if missing:
        raise ValueError(f"{missing} must score sentences: pass metrics of this package, or functions")
    return subset


def _find_signatures(subset: ScoredSubset[GatheredSentences], metrics: Iterable[str]) -> dict[str, str]:
    """The signatures of the metrics that have one."""
    signatures = {}
    for metric in metrics:
        signature = getattr(subset.results[metric].report, "signature", None)
        if signature is not None:
            signatures[metric] = signature
    return signatures


def _find_bleu_settings(table: MetricTable) -> BLEUSettings:
    """The settings of the first BLEU; the default ones if there is none."""
    for metric in table:
        if isinstance(metric, CountedMetric) and isinstance(metric.metric.settings, BLEUSettings):
            return metric.metric.settings
    return BLEUSettings.from_options()


def _split_tokens(line: str) -> list[str]:
    """The tokens of a line, as a record has them."""
    return line.split(" ") if line else []


def _find_shared_metrics(
    rows_by_system: Mapping[str, Mapping[str, SentenceRows]],
) -> dict[str, dict[str, SentenceRows]]:
    """What each metric counted in the sentences of each system, for the metrics that scored all systems."""
    shared: dict[str, dict[str, SentenceRows]] = {}
    for metric in next(iter(rows_by_system.values())):
        if all(metric in rows for rows in rows_by_system.values()):
            shared[metric] = {system: rows[metric] for system, rows in rows_by_system.items()}
    if not shared:
        raise ValueError("no metric has scored sentences of all systems: pass metrics of this package, or functions")
    return shared


def _warn_about_few_sentences(texts: SystemTexts, warn: WarnOnce) -> None:
    """Warn if equal systems look different too often."""
    baseline, *others = texts.hypotheses.values()
    sentences = len(texts.references)
    if sentences < MIN_SENTENCES and any(hypotheses != baseline for hypotheses in others):
        warn(describe_few_sentences(sentences))


def _resample(
    rows_of_systems: Mapping[str, SentenceRows], confidence: float, resamples: int, seed: int
) -> tuple[dict[str, Interval], dict[str, PairedTest]]:
    """The intervals of all systems, and the tests of all but the first, from the same resamples."""
    scoring = next(iter(rows_of_systems.values())).scoring
    statistics = [rows.statistics.double() for rows in rows_of_systems.values()]
    scores = dict(zip(rows_of_systems, resample_scores(statistics, scoring, resamples, seed)))
    intervals = {system: interval_of(of_system, scoring, confidence) for system, of_system in scores.items()}
    baseline, *others = scores
    tests = {}
    for system in others:
        tests[system] = paired_test_of(torch.stack([scores[system], scores[baseline]]), scoring, confidence)
    return intervals, tests
