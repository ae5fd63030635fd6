"""Compare systems: read their texts, count their sentences, and resample them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.comparison import Comparison
from lightning_bleu.display.samples import find_bleu
from lightning_bleu.evaluation.collector import Output, SentenceCollector
from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.sentences import GatheredSentences, SentenceRows
from lightning_bleu.evaluation.validation import ScoredSubset, score_validation
from lightning_bleu.evaluator import MetricsByName
from lightning_bleu.messages import WarnOnce
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import alone
from lightning_bleu.recorded_metrics import RunRecords
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
from lightning_bleu.texts import SystemTexts, TextFile, Translations, read_systems

if TYPE_CHECKING:
    from typing_extensions import Never


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
        >>> improved[0].baseline[:11], improved[0].hypothesis[:11]
        ('the dog sat', 'the cat sat')

    Args:
        systems: the translations of each system by its name, the baseline first: a file with a line per sentence, such
            as one of ``Evaluator(translations=...)``, or a list of strings. One system alone is scored.
        references: a file, a list of ``Path`` for several references per sentence, or a list of strings or of lists of
            strings. When None: ``ref.txt``, or ``ref-1.txt`` and so on, beside a system.
        sources: a file, or a list of strings. When None: ``src.txt`` beside a system, if there is one.
        metrics: metrics of this package and functions, as for :class:`Evaluator`. When None: the metrics of
            this package in the records of the runs, with their names and settings, if a file belongs to one; else BLEU
            and chrF in percent. Pass functions again: a record has only their scores.
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

    Notes:
        Only the calling process compares, so call it in a script, or where ``trainer.is_global_zero``.

        Files of a record are read as they were written, and tokens are read as tokens. If they do not reproduce the
        recorded score, a warning says so. With fewer than 30 sentences, equal systems look different too often, and a
        warning says so, too.
    """
    if more_systems:
        raise TypeError(
            'pass the systems as a dict of names, the baseline first: compare_systems({"old": "old.txt", "new": '
            '"new.txt"}). A difference is the score of a system minus that of the baseline'
        )
    texts = read_systems(systems, references, sources)
    return compare_texts(texts, metrics, confidence=confidence, resamples=resamples, seed=seed)


def compare_texts(
    texts: SystemTexts,
    metrics: Any = None,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    warn: Callable[[str], object] | None = None,
) -> Comparison:
    """Compare systems whose texts have been read; see :func:`compare_systems`."""
    check_share("confidence", confidence)
    resamples = check_count("resamples", resamples)
    warn = warn or WarnOnce()
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
    bleu = find_bleu(baseline)
    return Comparison(
        texts,
        intervals,
        tests,
        rows_by_metric,
        confidence,
        resamples,
        signatures=_find_signatures(baseline, rows_by_metric),
        bleu_settings=BLEUSettings.from_options() if bleu is None else bleu[1],
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


def _warn_about_few_sentences(texts: SystemTexts, warn: Callable[[str], object]) -> None:
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
