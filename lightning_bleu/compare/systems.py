"""Compare systems: read their texts, count their sentences, and resample them together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lightning_bleu.compare.comparison import Comparison
from lightning_bleu.compare.recorded_metrics import RunRecords
from lightning_bleu.compare.texts import SystemTexts, TextFile, Translations, read_systems
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.core.settings import check_integer
from lightning_bleu.core.significance import (
    MIN_SENTENCES,
    Interval,
    PairedTest,
    check_share,
    default_resamples,
    describe_few_sentences,
    interval_of,
)
from lightning_bleu.evaluation.input.collector import SentenceCollector
from lightning_bleu.evaluation.input.outputs import Output
from lightning_bleu.evaluation.input.positions import Loader
from lightning_bleu.evaluation.metrics.functions import FunctionMetric
from lightning_bleu.evaluation.metrics.shared_facts import shared_reading
from lightning_bleu.evaluation.names import Name
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.scores.uncertainty import resample
from lightning_bleu.evaluation.scores.validation import Scored, score_loaders
from lightning_bleu.evaluation.texts.findings import Finding, select_warnings

if TYPE_CHECKING:
    from typing_extensions import Never

    from lightning_bleu.core.corpus_metric import CorpusMetric
    from lightning_bleu.evaluation.options import MetricsByName


def compare_systems(
    systems: Mapping[str, Translations],
    *more_systems: Never,
    references: TextFile | Sequence[Any] | None = None,
    sources: TextFile | Sequence[str] | None = None,
    metrics: CorpusMetric | FunctionMetric | MetricsByName | Callable[..., Any] | None = None,
    confidence: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare systems, or checkpoints, by their translations of the same sentences.

    Example:
        >>> from lightning_bleu import CorpusCHRF
        >>> references = [f"the cat sat on mat {number}" for number in range(40)]
        >>> old = [line.replace("cat", "dog") for line in references]
        >>> new = [line.replace("sat", "lay") if "1" in line else line for line in references]
        >>> comparison = compare_systems({"old": old, "new": new}, references=references, metrics=CorpusCHRF())
        >>> comparison.verdict("chrf", "new").word
        'better'

    Args:
        systems: the translations of each system by its name, the baseline first: a file with a line per sentence, a
            list of strings, or a folder of ``Evaluator(translations=...)``: that of a validation, such as
            ``val/step-0000500``, that of one of its loaders, or the whole one, whose best validation is compared. One
            system alone is scored.
        references: a file, a list of ``Path`` for several references per sentence, or a list of strings or of lists of
            strings. When None: those of the folders, and ``ref.txt``, or ``ref-1.txt`` and so on, beside files.
        sources: a file, or a list of strings. When None: those of the folders, and ``src.txt`` beside files, if any.
        metrics: metrics of this package and functions, as for :class:`.Evaluator`. When None: the metrics of this
            package that scored a folder; without a folder, BLEU and chrF in percent.
        confidence: the confidence level of the intervals, in 0..1.
        resamples: the number of bootstrap resamples. When None: 1,000, or more if a clear difference needs more.
        seed: the random seed.

    Returns:
        a :class:`Comparison`.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for texts that are neither a path nor a list of strings, and for options of the wrong type.
        ValueError: for different numbers of sentences, or fewer than two; for missing references, or systems with
            different ones; for two systems with one path, a file that is not UTF-8, or a file in the folder of a
            validation; for metrics that do not score sentences; for a folder that cannot be read, has several loaders,
            or has no score or unknown settings.

    Notes:
        With several processes, call it in one of them, such as where ``trainer.is_global_zero``. With fewer than 30
        sentences, it warns that equal systems look different too often.
    """
    if more_systems and isinstance(systems, Mapping):
        raise TypeError("pass references by name: compare_systems({...}, references=...)")
    texts = read_systems(systems, references, sources)
    by_name = None
    if metrics is not None:
        # Here, because it imports torchmetrics, which takes seconds
        from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics

        by_name = read_metrics(metrics)
    return compare_texts(texts, by_name, confidence=confidence, resamples=resamples, seed=seed)


def compare_texts(
    texts: SystemTexts,
    metrics: Mapping[str, EvaluatorMetric] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
    warn: Callable[[str], object] | None = None,
) -> Comparison:
    """Compare systems whose texts have been read; see :func:`compare_systems`."""
    check_share("confidence", confidence)
    compared = max(1, len(texts.hypotheses) - 1)
    if resamples is None:
        resamples = default_resamples(confidence, compared)
    resamples = check_integer("resamples", resamples, at_least=1)
    warn = warn or WarnOnce()
    records = RunRecords(texts.files if metrics is None else {}, warn)
    by_name = records.rebuild_metrics() if metrics is None else metrics
    are_tokens = records.were_tokens() and all(metric.counts_tokens for metric in by_name.values())
    findings: list[Finding] = []
    scored = {}
    rows_by_system = {}
    for system in texts.hypotheses:
        scored[system], found = _score(by_name, texts, system, warn, are_tokens=are_tokens)
        findings += found
        rows_by_system[system] = {score.name.key: score.rows for score in scored[system] if score.rows is not None}
    if texts.has_own_references:
        for system, rows_by_metric in rows_by_system.items():
            records.check_scores(system, rows_by_metric)
    shared_rows = _find_shared_metrics(rows_by_system)
    _warn_about_few_sentences(texts, warn)
    systems = {Name(metric_name): list(of_systems.values()) for metric_name, of_systems in shared_rows.items()}
    resampled = resample(systems, resamples, seed)
    intervals: dict[str, dict[str, Interval]] = {}
    tests: dict[str, dict[str, PairedTest]] = {}
    baseline, *others = texts.hypotheses
    for name, of_metric in resampled.items():
        intervals_of_metric = [interval_of(scores, of_metric.scorer, confidence) for scores in of_metric.scores]
        intervals[name.metric] = dict(zip(texts.hypotheses, intervals_of_metric))
        tests[name.metric] = dict(zip(others, of_metric.test_against_first(confidence)))
    signatures = {}
    for score in scored[baseline]:
        signature = getattr(score.result.report, "signature", None)
        if score.name.key in shared_rows and signature is not None:
            signatures[score.name.key] = signature
    return Comparison(texts, intervals, tests, shared_rows, confidence, resamples, signatures, findings)


def _score(
    metrics: Mapping[str, EvaluatorMetric],
    texts: SystemTexts,
    system: str,
    warn: Callable[[str], object],
    *,
    are_tokens: bool,
) -> tuple[list[Scored], list[Finding]]:
    """The scores of the sentences of a system, and what stands out in them."""
    hypotheses: list[Any] = texts.hypotheses[system]
    references: list[Any] = texts.references
    if are_tokens:
        hypotheses = [_split_tokens(line) for line in hypotheses]
        references = [[_split_tokens(line) for line in lines] for lines in references]
    loader = Loader("", shared_reading(metrics))
    collector = SentenceCollector(metrics, [loader], (), sys.maxsize, WarnOnce())
    collector.update(Output(hypotheses, references, texts.sources, index=range(len(references))))
    joined = collector.join([collector.close()])
    scored, mistakes = score_loaders(metrics, joined.loaders)
    found = joined.find_findings(metrics, where=system if len(texts.hypotheses) > 1 else "")
    for _, message in [*mistakes, *joined.mistakes, *select_warnings(found)]:
        warn(message)
    missing = [score.name.key for score in scored if score.rows is None]
    if missing:
        raise ValueError(f"{missing} must score sentences: pass metrics of this package, or functions")
    return scored, found


def _split_tokens(line: str) -> list[str]:
    """The tokens of a line, as a record has them."""
    return line.split(" ") if line else []


def _find_shared_metrics(
    rows_by_system: Mapping[str, Mapping[str, SentenceRows]],
) -> dict[str, dict[str, SentenceRows]]:
    """What each metric counted in the sentences of each system, for the metrics that scored all systems."""
    shared: dict[str, dict[str, SentenceRows]] = {}
    for metric_name in next(iter(rows_by_system.values())):
        if all(metric_name in of_system for of_system in rows_by_system.values()):
            shared[metric_name] = {system: of_system[metric_name] for system, of_system in rows_by_system.items()}
    if not shared:
        raise ValueError("no metric has scored sentences of all systems: pass metrics of this package, or functions")
    return shared


def _warn_about_few_sentences(texts: SystemTexts, warn: Callable[[str], object]) -> None:
    """Warn if equal systems look different too often."""
    baseline, *others = texts.hypotheses.values()
    sentence_count = len(texts.references)
    if sentence_count < MIN_SENTENCES and any(hypotheses != baseline for hypotheses in others):
        warn(describe_few_sentences(sentence_count))
