"""Two systems side by side: which one is better, by how much, and which of their sentences differ."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lightning_bleu.evaluation.choices import find_changed
from lightning_bleu.evaluation.collector import Output, SentenceCollector
from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import Naming
from lightning_bleu.evaluation.sentences import Sentence, SentenceRows
from lightning_bleu.evaluation.task_metrics import TASK_METRICS, TaskMetric
from lightning_bleu.evaluation.validation import score_validation
from lightning_bleu.evaluator import MetricsByName
from lightning_bleu.known_metrics import KNOWN_METRICS
from lightning_bleu.messages import WarnOnce, warn_user
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.record import RecordedScore, find_record, lacks_references, read_record
from lightning_bleu.scoring.resampling import PairedTest, bootstrap
from lightning_bleu.scoring.scoring import format_score, unit_of

_RECORDED_METRICS: dict[str, type[CorpusMetric] | type[TaskMetric]] = {**KNOWN_METRICS, **TASK_METRICS}
"""The metrics that are made again from their recorded settings."""
TextFile: TypeAlias = str | os.PathLike[str]
"""A file with a sentence per line."""


class Change(NamedTuple):
    """A sentence that two systems translate differently.

    Attributes:
        number: the number of its line, from 1.
        score_a: the score of the first system.
        score_b: the score of the second one.
        a: its texts, as the first system translates it.
        b: its texts, as the second one does. Only the hypotheses differ.
    """

    number: int
    score_a: float
    score_b: float
    a: Sentence
    b: Sentence


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences; ``str(...)`` is a table.

    Attributes:
        tests: the paired bootstrap test of each metric, by name.
        sentences: the texts of each sentence, as `a` translates it, and as `b` does.
        rows: what each metric counted in the sentences of `a`, and of `b`.
    """

    tests: Mapping[str, PairedTest]
    sentences: Sequence[tuple[Sentence, Sentence]] = field(repr=False)
    rows: Mapping[str, tuple[SentenceRows, SentenceRows]] = field(repr=False)

    def changed(self, metric: str, count: int = 10) -> tuple[list[Change], list[Change]]:
        """The sentences that `a` translates worse than `b`, and those that it translates better.

        BLEU ranks sentences for their length, as in samples, so that short ones do not come first.

        Args:
            metric: the name of the metric.
            count: how many sentences to return of each, at most, those that changed most first.

        Raises:
            ValueError: if there is no such metric.
        """
        if metric not in self.rows:
            raise ValueError(f"'metric' must be one of {[*self.rows]}, got {metric!r}")
        a, b = self.rows[metric]
        scores_a, scores_b = a.score_sentences(), b.score_sentences()

        def describe(number: int) -> Change:
            sentence_a, sentence_b = self.sentences[number]
            return Change(number + 1, scores_a[number].item(), scores_b[number].item(), sentence_a, sentence_b)

        worse_in_a, better_in_a = find_changed(a, b, count)
        return [describe(number) for number in worse_in_a], [describe(number) for number in better_in_a]

    def __str__(self) -> str:
        confidence = next(iter(self.tests.values())).confidence or 0
        rows = [["metric", "a", "b", f"a - b ({100 * confidence:g}% interval)", "one-sided p"]]
        for name, test in self.tests.items():
            score_a, score_b = (format_score(score, test.percent) for score in (test.score_a, test.score_b))
            difference, low, high = (
                format_score(value or 0, test.percent, "+") for value in (test.difference, test.low, test.high)
            )
            rows.append([name, score_a, score_b, f"{difference} ({low} to {high})", f"{test.p_value:.4f}"])
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)


def compare_systems(
    a: TextFile | Sequence[str],
    b: TextFile | Sequence[str],
    *,
    references: TextFile | Sequence[Any] | None = None,
    sources: TextFile | Sequence[str] | None = None,
    metrics: CorpusMetric | FunctionMetric | MetricsByName | Callable[..., Any] | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare two systems, or two checkpoints, by their translations of the same sentences. Collective.

    Args:
        a: the translations: a file with a line per sentence, such as one of ``Evaluator(translations=...)``, or a list
            of strings.
        b: those of the other system.
        references: a file, a list of ``Path`` for several references per sentence, or a list of strings or of lists of
            strings. When None: ``ref.txt``, or ``ref-1.txt`` and so on, beside `a` or `b`.
        sources: a file, or a list of strings. When None: ``src.txt`` beside `a` or `b`, if there is one.
        metrics: metrics of this package and functions, as for :class:`Evaluator`. When None: the metrics of
            this package in the record of the run, with their names and settings, if a file belongs to one; else BLEU
            and chrF in percent. Pass functions again: a record has only their scores.
        confidence: the confidence level of the intervals.
        resamples: the number of bootstrap resamples.
        seed: the random seed.

    Returns:
        a :class:`Comparison`.

    Raises:
        OSError: for a file that cannot be read.
        TypeError: for texts that are neither a file nor a list of strings, and for options of the wrong type; see also
            :class:`Evaluator`.
        ValueError: for different numbers of sentences, or fewer than two; if there are no references, or not the same
            beside both files; for metrics that do not score sentences; if the record says nothing about a file, or has
            settings that cannot be read.

    Files of a record are read as they were written, and tokens are read as tokens. If they do not reproduce the
    recorded score, a warning says so.

    Example:
        >>> from lightning_bleu import CorpusCHRF
        >>> a, b = ["the cat sat", "a dog", "it is"], ["the cat", "the dog", "it is"]
        >>> comparison = compare_systems(a, b, references=["the cat sat", "a dog", "it is"], metrics=CorpusCHRF())
        >>> print(comparison)
        metric  a       b      a - b (95% interval)      one-sided p
        chrf    100.00  58.23  +41.77 (+0.00 to +57.72)  0.0010
        >>> worse, better = comparison.changed("chrf")
        >>> [(one.number, one.a.hypothesis, one.b.hypothesis) for one in better]
        [(2, 'a dog', 'the dog'), (1, 'the cat sat', 'the cat')]
    """
    systems = {"a": _read_lines("a", a), "b": _read_lines("b", b)}
    files = {
        name: Path(system).expanduser()
        for name, system in (("a", a), ("b", b))
        if isinstance(system, str | os.PathLike)
    }
    texts = Texts(systems, _read_references(references, files), _read_sources(sources, files))
    texts.check_counts()
    warn = WarnOnce()
    records = {name: read_record(file, warn) for name, file in files.items()} if metrics is None else {}
    table = MetricTable.from_metrics(_rebuild_metrics(records, files) if metrics is None else metrics)
    are_tokens = _were_tokens(records) and all(metric.counts_tokens for metric in table)
    rows = {name: _count(table, texts, name, are_tokens=are_tokens) for name in systems}
    has_recorded_references = references is None
    if has_recorded_references:
        for name, record in records.items():
            _warn_if_not_reproduced(rows[name], record or [], files[name], warn)
    pairs = {key: (rows_a, rows["b"][key]) for key, rows_a in rows["a"].items() if key in rows["b"]}
    if not pairs:
        raise ValueError("no metric has scored sentences of both systems: pass metrics of this package, or functions")
    tests = {}
    for key, (rows_a, rows_b) in pairs.items():
        scoring = rows_a.scoring
        tests[key] = bootstrap(rows_a.statistics, rows_b.statistics, scoring, confidence, resamples, seed)
    sentences = list(zip(texts.sentences("a"), texts.sentences("b")))
    return Comparison(tests, sentences, pairs)


class Texts(NamedTuple):
    """The texts of several systems.

    Attributes:
        systems: the hypotheses of each system by its name.
        references: the references of each sentence.
        sources: the source of each sentence; None if there are none.
    """

    systems: Mapping[str, list[str]]
    references: list[list[str]]
    sources: list[str] | None

    def check_counts(self) -> None:
        """Raise a ValueError unless there is a line of everything for each of at least two sentences."""
        counts = {name: len(lines) for name, lines in self.systems.items()}
        counts["references"] = len(self.references)
        if self.sources is not None:
            counts["sources"] = len(self.sources)
        if len(set(counts.values())) > 1 or len(self.references) < 2:
            shown = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
            raise ValueError(f"there must be a line or string for each of at least two sentences, but {shown}")

    def sentences(self, system: str) -> list[Sentence]:
        """The sentences as a system translates them."""
        sentences = []
        for number, (hypothesis, references) in enumerate(zip(self.systems[system], self.references)):
            source = None if self.sources is None else self.sources[number]
            sentences.append(Sentence(hypothesis, references, source))
        return sentences


def _read_references(references: Any, files: Mapping[str, Path]) -> list[list[str]]:
    """The references of each sentence, from what the user passed, or from the files beside the systems."""
    if references is None:
        for file in files.values():
            if lacks_references(file):
                raise ValueError(
                    f"{str(file)!r} was written without references, so those beside it are not its own: pass "
                    "references=..."
                )
        references = _find_beside(files.values(), r"ref(-\d+)?\.txt")
    elif isinstance(references, str | os.PathLike):
        references = [Path(references)]
    if not references:
        raise ValueError("there are no references: pass references=..., or put 'ref.txt' beside 'a' or 'b'")
    are_files = all(isinstance(item, os.PathLike) for item in references)
    if are_files:
        return _read_reference_files(references)
    return [[item] if isinstance(item, str) else list(item) for item in references]


def _read_reference_files(files: Sequence[Path]) -> list[list[str]]:
    """The references of each sentence, from a file for each set of references."""
    columns = [_read_lines("references", file) for file in files]
    counts = {str(file): len(lines) for file, lines in zip(files, columns)}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the files of references must have a line for each sentence, but they have {counts}")
    return [list(row) for row in zip(*columns)]


def _read_sources(sources: Any, files: Mapping[str, Path]) -> list[str] | None:
    """The sources, from what the user passed, or from the file beside the systems; None if there are none."""
    if sources is None:
        sources = next(iter(_find_beside(files.values(), r"src\.txt")), None)
    return None if sources is None else _read_lines("sources", sources)


def _read_lines(name: str, given: Any) -> list[str]:
    """The lines of a file, or the strings of a list."""
    if isinstance(given, str | os.PathLike):
        return _read_file(Path(given).expanduser())
    if not isinstance(given, list | tuple) or not all(isinstance(line, str) for line in given):
        raise TypeError(f"{name!r} must be a file with a line per sentence, or a list of strings, got {given!r:.80}")
    return list(given)


def _read_file(file: Path) -> list[str]:
    """The lines of a file. Those of a record are read as they were written, and others may come from an editor."""
    content = file.read_bytes()
    is_recorded = find_record(file) is not None
    text = content.decode() if is_recorded else content.decode("utf-8-sig").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")  # splitlines splits at other characters, too


def _find_beside(systems: Iterable[Path], pattern: str) -> list[Path]:
    """The files with such names beside a system. An error if those beside another one differ."""
    files_by_system = []
    for system in systems:
        files = [file for file in system.parent.iterdir() if re.fullmatch(pattern, file.name)]
        if files:
            files_by_system.append(sorted(files, key=lambda file: (len(file.name), file.name)))
    if not files_by_system:
        return []
    first = files_by_system[0]
    contents = {tuple(file.read_bytes() for file in files) for files in files_by_system}
    if len(contents) > 1:
        other = files_by_system[1]
        raise ValueError(f"{str(first[0])!r} and {str(other[0])!r} differ: pass references=... and sources=...")
    return first


def _rebuild_metrics(records: Mapping[str, list[RecordedScore] | None], files: Mapping[str, Path]) -> Any:
    """The metrics of this package in the records of the systems.

    All metrics of this package in percent, if there is no record (None), or if it has none of them. Of a metric in two
    records, the settings of the first system count. A record without a line about a file is an error.
    """
    metrics: dict[str, CorpusMetric | TaskMetric] = {}
    left_out = []
    for name, record in records.items():
        if record is None:
            continue
        if not record:
            raise ValueError(
                f"the record of {str(files[name])!r} has no line about a score of it that can be read, so its settings "
                "are unknown: pass metrics=..."
            )
        for recorded in record:
            if recorded.class_name not in _RECORDED_METRICS:
                left_out.append(recorded.metric)
            elif recorded.metric not in metrics:
                metrics[recorded.metric] = _rebuild_metric(recorded)
    if left_out:
        names = list(dict.fromkeys(left_out))
        warn_user(f"The record has scores of {names}, which are not compared: pass them as metrics=...")
    return metrics or {metric.short_name: metric(percent=True) for metric in KNOWN_METRICS.values()}


def _rebuild_metric(recorded: RecordedScore) -> CorpusMetric | TaskMetric:
    """The metric that gave a recorded score, for text."""
    try:
        metric = _RECORDED_METRICS[recorded.class_name]
        if recorded.settings is None:
            raise ValueError("there are none")
        return metric.from_plain(recorded.settings, percent=bool(recorded.percent))
    except (ValueError, TypeError, KeyError) as error:  # such as a callable, of which there is only the name
        raise ValueError(
            f"pass metrics={{{recorded.metric!r}: ...}}, because its settings cannot be read: {error}"
        ) from error


def _were_tokens(records: Mapping[str, list[RecordedScore] | None]) -> bool:
    """Whether all recorded sentences were tokens or ids, of which the files have a line with spaces."""
    forms = {form for record in records.values() for recorded in record or () for form in recorded.forms}
    return bool(forms) and forms <= {"tokens", "ids"}


def _count(table: MetricTable, texts: Texts, system: str, *, are_tokens: bool) -> dict[str, SentenceRows]:
    """What each metric counts in the sentences of a system."""
    hypotheses: list[Any] = texts.systems[system]
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
    return subset.rows


def _split_tokens(line: str) -> list[str]:
    """The tokens of a line, as a record has them."""
    return line.split(" ") if line else []


def _warn_if_not_reproduced(
    rows: Mapping[str, SentenceRows], record: Iterable[RecordedScore], file: Path, warn: WarnOnce
) -> None:
    """Warn if the metrics of a record do not reproduce its scores."""
    for recorded in record:
        if recorded.metric not in rows or recorded.class_name not in _RECORDED_METRICS:
            continue
        of_file = rows[recorded.metric]
        score = of_file.score() / (of_file.scoring.unit or 1)
        recorded_score = (recorded.score or 0) / (unit_of(recorded.percent) or 1)
        if not math.isclose(score, recorded_score):
            warn(
                f"The record of {str(file)!r} has {recorded.metric!r} = {recorded.score}, but its file scores "
                f"{of_file.score()}: {_find_cause(recorded)}. The files are compared as they are."
            )


def _find_cause(recorded: RecordedScore) -> str:
    """Why a file may score differently than what was validated."""
    if "ids" in recorded.forms:
        return "ids were scored, and the file has their numbers as text"
    if "tokens" in recorded.forms:
        return "tokens were scored, and some of them may contain spaces"
    return (
        "line breaks inside sentences and characters that cannot be encoded are replaced in files, or the file or its "
        "references have changed since"
    )
