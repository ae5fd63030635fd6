"""Two systems side by side: which one is better, by how much, and which of their sentences differ."""

from __future__ import annotations

import json
import math
import os
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.chrf import CorpusCHRF
from lightning_bleu.evaluator import Evaluator, MetricsByName
from lightning_bleu.messages import WarnOnce
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.resampling import PairedTest, bootstrap
from lightning_bleu.scoring.scoring import format_score, ratio_scoring
from lightning_bleu.settings.conventions import Convention
from lightning_bleu.training.sentences import Corpus, Sentence
from lightning_bleu.training.translations import column_name

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
        corpora: what each metric counted in the sentences of `a`, and of `b`.
    """

    tests: Mapping[str, PairedTest]
    sentences: Sequence[tuple[Sentence, Sentence]] = field(repr=False)
    corpora: Mapping[str, tuple[Corpus, Corpus]] = field(repr=False)

    def changed(self, metric: str, count: int = 10) -> tuple[list[Change], list[Change]]:
        """The sentences that `a` translates worse than `b`, and those that it translates better.

        BLEU ranks sentences for their length, as in samples, so that short ones do not come first.

        Args:
            metric: the name of the metric.
            count: how many sentences to return of each, at most, those that changed most first.

        Raises:
            ValueError: if there is no such metric.
        """
        if metric not in self.corpora:
            raise ValueError(f"'metric' must be one of {[*self.corpora]}, got {metric!r}")
        a, b = self.corpora[metric]
        both, scoring = torch.cat([a.statistics, b.statistics]), a.scoring
        scores_a, scores_b = scoring.score_sentences(both).chunk(2)
        rank = scoring.rank_sentences or scoring.score_sentences
        ranks_a, ranks_b = rank(both).chunk(2)  # BLEU ranks with averages, here those of both systems
        gains = (ranks_a - ranks_b) * (1 if scoring.higher_is_better else -1)
        order = gains.argsort(stable=True)
        changed = order[gains[order] < 0][:count], order[gains[order] > 0].flip(0)[:count]
        rows = [*zip(range(1, len(gains) + 1), scores_a.tolist(), scores_b.tolist(), *zip(*self.sentences))]
        worse, better = ([Change(*rows[number]) for number in numbers.tolist()] for numbers in changed)
        return worse, better

    def __str__(self) -> str:
        confidence = next(iter(self.tests.values())).confidence or 0
        rows = [["metric", "a", "b", f"a - b ({100 * confidence:g}% interval)", "p"]]
        for name, test in self.tests.items():
            a, b = (format_score(score, test.percent) for score in (test.score_a, test.score_b))
            signed = [format_score(value or 0, test.percent, "+") for value in (test.difference, test.low, test.high)]
            rows.append([name, a, b, "{} ({} to {})".format(*signed), f"{test.p_value:.4f}"])
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def compare_systems(
    a: TextFile | Sequence[str],
    b: TextFile | Sequence[str],
    *,
    references: TextFile | Sequence[Any] | None = None,
    sources: TextFile | Sequence[str] | None = None,
    metrics: CorpusMetric | MetricsByName | Callable[..., Any] | None = None,
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
            and chrF in percent; and, without `references`, the recorded functions whose score is a mean.
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
            beside both files; for metrics that do not score sentences; if the record has settings that cannot be read,
            or a score that is not reproduced.

    Example:
        >>> a, b = ["the cat sat", "a dog", "it is"], ["the cat", "the dog", "it is"]
        >>> comparison = compare_systems(a, b, references=["the cat sat", "a dog", "it is"], metrics=CorpusCHRF())
        >>> print(comparison)
        metric  a       b      a - b (95% interval)      p
        chrf    100.00  58.23  +41.77 (+0.00 to +57.72)  0.0010
        >>> worse, better = comparison.changed("chrf")
        >>> [(one.number, one.a.hypothesis, one.b.hypothesis) for one in better]
        [(2, 'a dog', 'the dog'), (1, 'the cat sat', 'the cat')]
    """
    texts: dict[str, list[Any]] = {"a": _read_lines("a", a), "b": _read_lines("b", b)}
    files = {name: Path(given) for name, given in {"a": a, "b": b}.items() if isinstance(given, str | os.PathLike)}
    given: Any = _find_beside(files.values(), r"ref(-\d+)?\.txt") if references is None else references
    given = [Path(given)] if isinstance(given, str | os.PathLike) else given
    if not given:
        raise ValueError("there are no references: pass references=..., or put 'ref.txt' beside 'a' or 'b'")
    if all(isinstance(one, os.PathLike) for one in given):
        columns = [_read_lines("references", file) for file in given]
        texts |= {f"references {file}": lines for file, lines in zip(given, columns)}
        target = [*map(list, zip(*columns))]
    else:
        target = texts["references"] = [[one] if isinstance(one, str) else [*one] for one in given]
    if sources is not None or (sources := next(iter(_find_beside(files.values(), r"src\.txt")), None)):
        texts["sources"] = _read_lines("sources", sources)
    if len({*map(len, texts.values())}) > 1 or len(target) < 2:
        counts = ", ".join(f"{name!r} has {len(lines)}" for name, lines in texts.items())
        raise ValueError(f"there must be a line or string for each of at least two sentences, but {counts}")

    records = {name: _read_record(file) for name, file in files.items()} if metrics is None else {}
    chosen = _choose_metrics(ChainMap(*records.values())) if metrics is None else metrics
    corpora = {name: _count(chosen, texts[name], target, texts.get("sources")) for name in ("a", "b")}
    warn = WarnOnce()
    for name, record in records.items() if references is None else ():
        _add_record(corpora[name], files[name], record, warn)
    pairs = {name: (own, corpora["b"][name]) for name, own in corpora["a"].items() if name in corpora["b"]}
    arguments = confidence, resamples, seed
    if not pairs:
        raise ValueError("no metric has scored sentences of both systems: pass metrics of this package, or functions")
    tests = {name: bootstrap(a.statistics, b.statistics, a.scoring, *arguments) for name, (a, b) in pairs.items()}
    rest = zip_longest(target, texts.get("sources", []))
    sentences = [(Sentence(one, *more), Sentence(two, *more)) for one, two, more in zip(texts["a"], texts["b"], rest)]
    return Comparison(tests, sentences, pairs)


def _read_lines(name: str, given: Any) -> list[str]:
    """The lines of a file, or the strings of a list."""
    if isinstance(given, str | os.PathLike):
        text = Path(given).expanduser().read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        return text.removesuffix("\n").split("\n")  # splitlines splits at other characters, too
    if not isinstance(given, list | tuple) or not all(isinstance(line, str) for line in given):
        raise TypeError(f"{name!r} must be a file with a line per sentence, or a list of strings, got {given!r:.80}")
    return [*given]


def _find_beside(systems: Iterable[Path], pattern: str) -> list[Path]:
    """The files with such names beside a system. An error if those beside another one differ."""
    folders = [path.expanduser().parent.iterdir() for path in systems]
    found = [[file for file in folder if re.fullmatch(pattern, file.name)] for folder in folders]
    found = [sorted(files, key=lambda file: (len(file.name), file.name)) for files in found if files]
    if len({tuple(file.read_bytes() for file in files) for files in found}) > 1:
        raise ValueError(f"{str(found[0][0])!r} and {str(found[1][0])!r} differ: pass references=... and sources=...")
    return found[0] if found else []


def _count(metrics: Any, lines: list[str], target: list[Any], sources: list[str] | None) -> dict[str, Corpus]:
    """What each metric counts in the sentences of a system."""
    evaluator = Evaluator(metrics, samples=0)
    evaluator.start()
    evaluator.update(lines, target, source=sources, index=range(len(lines)))
    (subset,) = evaluator.score().subsets.values()
    if missing := [name for name, one in subset.scored.items() if one.corpus is None]:
        raise ValueError(f"{missing} must score sentences: pass metrics of this package, or functions")
    return subset.corpora


def _read_record(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of ``scores.jsonl`` that belong to a file of a run, by the names of the metrics."""
    path = path.expanduser().resolve()
    for folder in path.parents:
        if (scores := folder / "scores.jsonl").exists():
            lines = [json.loads(line) for line in _read_lines("a", scores) if line.endswith("}")]
            return {line["metric"]: line for line in lines if line.get("file") == path.relative_to(folder).as_posix()}
    return {}


def _choose_metrics(record: Mapping[str, dict[str, Any]]) -> dict[str, CorpusMetric]:
    """The metrics of this package in a record, or else BLEU and chrF in percent."""
    metrics: dict[str, CorpusMetric] = {}
    for name, line in record.items():
        options = line["settings"].get(name, {}) | {"decoder": None, "percent": line.get("percent")}  # files have text
        try:
            if "char_order" in options:
                metrics[name] = CorpusCHRF(**options)
            elif "max_order" in options:
                convention = Convention(**{one.name: options.pop(one.name) for one in fields(Convention)})
                metrics[name] = CorpusBLEU(convention=convention, **options)
        except ValueError as error:  # a callable, of which there is only the name
            raise ValueError(f"pass metrics={{{name!r}: ...}}, because its settings cannot be read: {error}") from error
    return metrics or {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}


def _add_record(corpora: dict[str, Corpus], path: Path, record: Mapping[str, Any], warn: WarnOnce) -> None:
    """Add the scores of functions, which are in the table beside a file, and check that all are those of the record."""
    table = path.expanduser().with_suffix(".tsv")
    names, *rows = [line.split("\t") for line in _read_lines("a", table)] if table.exists() else [[]]
    columns = dict(zip(names, zip(*rows)))
    for metric, line in record.items():
        for name, settings in line["settings"].items():
            is_function = name not in corpora and (column := column_name(name)) in columns
            if is_function:
                numbers = torch.tensor([[float(number), 1] for number in columns[column]], dtype=torch.float64)
                corpora[name] = Corpus(numbers, numbers, ratio_scoring(name, settings["higher_is_better"]), settings)
            elif name not in corpora:
                continue
            score, unit = corpora[name].score(), corpora[name].scoring.percent
            was = line["score" if name == metric else name.removeprefix(f"{metric}/")]
            same = math.isclose(score / (100 if unit else 1), (was or 0) / (100 if line.get("percent") else 1))
            if is_function and not same:  # it returned pairs
                del corpora[name]
                warn(
                    f"{name!r} is not compared, because its recorded score is not the mean of the scores of its "
                    "sentences: pass all metrics, with its function, as metrics={name: function}."
                )
            elif not same:
                raise ValueError(f"pass metrics={{{name!r}: ...}}: the record of {str(path)!r} has {was}, not {score}")
