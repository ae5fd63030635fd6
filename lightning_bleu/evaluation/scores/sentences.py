"""The sentences of a loader in the order of the dataset, joined from what the processes have seen.

Only process 0 has them, and nothing here knows of other processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, takewhile
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from lightning_bleu.core import packed_rows
from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.scoring import EvaluatorMetric, Scorer
from lightning_bleu.evaluation.input.outputs import check_given
from lightning_bleu.evaluation.input.positions import Loader
from lightning_bleu.evaluation.names import check_labels, join_place
from lightning_bleu.evaluation.texts.findings import Finding, find_findings, find_teacher_forcing, select_findings

MAX_EXAMINED = 2000
"""In how many sentences of a loader findings are looked for, the first ones."""
MIN_GROUP = 100
"""How many of them a group must have to be examined by itself. A few sentences are alike by chance."""
GROUP = packed_rows.IDENTITY_COLUMNS
"""The column of packed rows with the number of the group. The statistics of the metrics follow."""
_REORDERED = "its collate_fn or its step reorders or drops the items of a batch"


@dataclass(frozen=True, eq=False)
class SentenceRows:
    """The rows of some sentences for one score, in order.

    Attributes:
        identity: what identifies each sentence; see :mod:`lightning_bleu.core.packed_rows`.
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scorer: how they become scores.
    """

    identity: Tensor
    statistics: Tensor
    scorer: Scorer

    def __len__(self) -> int:
        return len(self.identity)

    def score(self) -> float:
        """The score of all of them."""
        return self.scorer.score(self.statistics.sum(0)).item()

    def score_sentences(self) -> Tensor:
        """The score of each sentence."""
        return self.scorer.score_sentences(self.statistics)

    def select(self, numbers: Sequence[int]) -> SentenceRows:
        """Some of the sentences, by their numbers."""
        index = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        return replace(self, identity=self.identity[index], statistics=self.statistics[index])


SavedLoaders: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What is saved of a validation for one score: the rows of each loader as plain values, by its name."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """The sentences of a loader that count, of all processes, each once.

    They are numbered from 0, in the order of their positions, then of their groups.

    Attributes:
        loader: the name of the loader; empty if it has none.
        identity: what identifies each sentence; see :mod:`lightning_bleu.core.packed_rows`.
        statistics: the rows of each metric, by its name; a metric of the whole corpus has none.
        texts: the texts of the first sentences, or of all.
        groups: the numbers of the sentences of each group, by its label.
        index: the positions that the step returned, shape ``(sentences,)``; None if it returned none.
        logit_widths: the numbers of batches by the widths of logits and labels.
        scope: what is unusual about their number: that the dataset has more, or that references repeat; else empty.
    """

    loader: str
    identity: Tensor
    statistics: Mapping[str, Mapping[str, Tensor]]
    texts: Sequence[Sentence] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    index: Tensor | None = None
    logit_widths: Counter[tuple[int, int]] = field(default_factory=Counter)
    scope: str = ""

    def __len__(self) -> int:
        return len(self.identity)

    def find_findings(self, metrics: Mapping[str, EvaluatorMetric], where: str) -> list[Finding]:
        """What stands out in the first texts, and in those of a group if there are enough.

        Args:
            metrics: the metrics by name.
            where: what the loader is called.
        """
        texts = self.texts[:MAX_EXAMINED]
        has_ids = packed_rows.count_inputs(self.identity).ids > 0  # which nothing decodes
        is_complete = len(texts) == min(len(self), MAX_EXAMINED)
        if has_ids and (not is_complete or any(sentence.hypothesis for sentence in texts)):
            texts = []
        examined = {where: texts}
        for label in sorted(self.groups):
            of_group = [sentence for sentence in texts if sentence.group == label]
            if MIN_GROUP <= len(of_group) < len(texts):
                examined[join_place(where, label)] = of_group
        findings = [replace(finding, where=where) for finding in find_teacher_forcing(self.logit_widths)]
        for place, sentences in examined.items():
            said = {(finding.key, finding.is_warning) for finding in findings if finding.where == where}
            found = find_findings(
                [sentence.hypothesis for sentence in sentences],
                [sentence.references for sentence in sentences],
                [sentence.source for sentence in sentences],
                metrics=metrics,
                are_tokens=any(sentence.tokenized for sentence in sentences),
                has_index=self.index is not None,
            )
            for finding in found:
                if (finding.key, finding.is_warning) not in said:  # of the whole loader
                    findings.append(replace(finding, where=place))
        return select_findings(findings)


# What the processes have seen


@dataclass(eq=False)
class LoaderShare:
    """The sentences of a loader that a process has seen.

    Attributes:
        rows: their packed rows, in the order in which they were counted.
        texts: the texts of the first ones by position, by the numbers of their rows.
        labels: the labels of the groups, each with its number in the rows.
        seen_labels: if only some groups are scored, the labels of all sentences.
        given: whether sentences have an ``"index"``, a ``"source"``, a ``"group"``, and an ``"id"``; empty before the
            first one.
        answers: the rows of metrics that score texts sentence by sentence, by the names of metric and score; None for
            nothing to log.
        unknown: why repeated sentences cannot be found; empty if they can be.
        logit_widths: the numbers of batches by the widths of logits and labels.
    """

    rows: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.int32, device="cpu"))
    texts: Mapping[int, Sentence] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    seen_labels: set[str] = field(default_factory=set)
    given: dict[str, bool] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Tensor] | None] = field(default_factory=dict)
    unknown: str = ""
    logit_widths: Counter[tuple[int, int]] = field(default_factory=Counter)


class Share(NamedTuple):
    """What a process has seen of a validation.

    Attributes:
        loaders: what it has seen of each loader.
        read: the number of batches that were read.
        skipped: the number of batches for which the step returned nothing.
    """

    loaders: Sequence[LoaderShare]
    read: int
    skipped: int


@dataclass(frozen=True, eq=False)
class Joined:
    """What all processes have seen of a validation.

    Attributes:
        loaders: the sentences of each loader that has any.
        seen_labels: by loader, the labels of all sentences, if only some groups are scored.
        read, skipped: see :class:`Share`.
        mistakes: loaders whose repeated sentences some process does not know.
    """

    loaders: Sequence[Sentences]
    seen_labels: Mapping[str, Collection[str]]
    read: int
    skipped: int
    mistakes: Sequence[Mistake]

    def find_findings(self, metrics: Mapping[str, EvaluatorMetric], where: str = "") -> list[Finding]:
        """What stands out in the texts of each loader.

        Args:
            metrics: the metrics by name.
            where: what a loader without a name is called.
        """
        findings = []
        for sentences in self.loaders:
            findings += sentences.find_findings(metrics, sentences.loader or where)
        if self.mistakes:  # they say why sentences are repeated
            findings = [finding for finding in findings if finding.key != "repeats"]
        return findings

    def suspect_only(self, only: Sequence[str], dataset: str) -> Iterator[Mistake]:
        """Entries of `only` of which a validation had no sentence.

        Args:
            only: names of loaders, labels of groups, or ``"LOADER/GROUP"``.
            dataset: what `only` calls a loader without a name. Only its entries are looked at.
        """
        scored: set[str] = set()
        for sentences in self.loaders:
            scored |= _entries_of(sentences.loader or dataset, sentences.groups)
        known = set(scored)
        for loader, labels in self.seen_labels.items():
            known |= _entries_of(loader or dataset, labels)
        if dataset:  # the others are validated on their own
            only = [entry for entry in only if f"{entry}/".startswith(f"{dataset}/")]
        for entry in only:
            if entry not in scored:
                message = (
                    f"'only' has {entry!r}, but this validation had no sentence of it. The names were {sorted(known)}. "
                    "An entry is the name of a loader, the label of a group, or LOADER/GROUP."
                )
                yield f"only {entry}", message


def _entries_of(loader: str, labels: Iterable[str]) -> set[str]:
    """What an entry of `only` could name of a loader: the loader itself, and its groups.

    Example:
        >>> sorted(_entries_of("news", ["de"])), _entries_of("", ["de"])
        (['de', 'news', 'news/de'], {'de'})
    """
    return {loader, *labels, *(f"{loader}/{label}" for label in labels)} if loader else {*labels}


def join_shares(
    shares: Sequence[Share],
    loaders: Sequence[Loader],
    metrics: Mapping[str, EvaluatorMetric],
    reserved: Collection[str],
    max_texts: int,
) -> Joined:
    """Join the shares of all processes.

    Args:
        shares: what each process has seen, in the order of their ranks.
        loaders: the loaders.
        metrics: the metrics by name.
        reserved: names that no group can have.
        max_texts: how many sentences of each loader are texts, if there are as many.

    Raises:
        ValueError: if a field was given for some sentences only, or if the names of groups clash.
        SamePosition: if different sentences have the same index.
    """
    joined: list[Sentences] = []
    mistakes: list[Mistake] = []
    seen_labels: dict[str, Collection[str]] = {}
    for loader, *of_loader in zip(loaders, *(share.loaders for share in shares)):
        reasons = [share.unknown for share in of_loader]
        filled = [share for share in of_loader if share.given]
        if filled:
            check_given(loader.origin, [share.given for share in filled], "in some processes")
            sentences, is_in_order = _join_loader(loader, filled, metrics, reserved, max_texts)
            joined.append(sentences)
            if not is_in_order:
                reasons = [reason or _REORDERED for reason in reasons]
            mistakes += _suspect_workers(loader, sentences)
            if sentences.index is not None:
                mistakes += _suspect_index(loader, sentences, filled)
        seen_labels[loader.name] = set().union(*(share.seen_labels for share in of_loader))
        mistakes += [_describe_unknown(loader, reason) for reason in reasons if reason]
    if any(metric.takes_sources for metric in metrics.values()):
        given = [share.given for of_process in shares for share in of_process.loaders if share.given]
        check_given(loaders[0].origin, [{"source": fields["source"]} for fields in given], "for some loaders")
    read, skipped = sum(share.read for share in shares), sum(share.skipped for share in shares)
    return Joined(joined, seen_labels, read, skipped, mistakes)


def _join_loader(
    loader: Loader,
    shares: Sequence[LoaderShare],
    metrics: Mapping[str, EvaluatorMetric],
    reserved: Collection[str],
    max_texts: int,
) -> tuple[Sentences, bool]:
    """The sentences of a loader, and whether their positions were right: if derived ones are not, all rows count."""
    labels = sorted(set().union(*(share.labels for share in shares)))
    if labels:
        check_labels(labels, reserved)
    numbered = [_renumber_groups(share, labels) if share.labels else share.rows for share in shares]
    rows = torch.cat(numbered) if len(numbered) > 1 else numbered[0]  # a copy would need as much memory again
    has_index = shares[0].given["index"]
    is_in_order = True
    try:
        ordered = packed_rows.read_rows(rows, rows[:, GROUP])
    except packed_rows.SamePosition:
        if has_index:
            raise
        is_in_order = False
        ordered = packed_rows.read_rows(packed_rows.forget_positions(rows))
    texts: dict[int, Sentence] = {}
    starts = accumulate((len(share.rows) for share in shares), initial=0)
    for start, share in zip(starts, shares):
        texts.update((start + number, sentence) for number, sentence in share.texts.items())
    statistics: dict[str, Mapping[str, Tensor]] = {}
    ends = accumulate((metric.columns for metric in metrics.values()), initial=GROUP + 1)
    for (name, metric), (start, end) in zip(metrics.items(), pairwise(ends)):
        if metric.columns:
            statistics[name] = {"": ordered.rows[:, start:end]}
        elif not metric.corpus_level:
            answers = _join_answers(name, [share.answers[name] for share in shares])
            statistics[name] = {
                score_name: rows_of_score[ordered.order] for score_name, rows_of_score in answers.items()
            }
    first = [texts[row] for row in takewhile(texts.__contains__, ordered.order[:max_texts].tolist())]
    groups = _number_members(ordered.rows[:, GROUP], labels) if labels else {}
    index = packed_rows.positions_of(ordered.rows) if has_index else None
    widths: Counter[tuple[int, int]] = sum((share.logit_widths for share in shares), Counter())
    identity = ordered.rows[:, : packed_rows.IDENTITY_COLUMNS]
    scope = _describe_scope(loader, identity)
    return Sentences(loader.name, identity, statistics, first, groups, index, widths, scope), is_in_order


def _describe_scope(loader: Loader, identity: Tensor) -> str:
    """How many sentences were scored, if the dataset has more; and how many references differ, if they repeat much."""
    total = loader.item_count or 0
    count, different = len(identity), len(packed_rows.checksums_of(identity).unique())  # type: ignore[no-untyped-call]
    scope = f"{count:,} of {total:,} sentences" if count < total else ""
    if count >= 10 and 2 * different <= count:
        scope = f"{scope or f'{count:,} sentences'}, {different:,} different"
    return scope


def _renumber_groups(share: LoaderShare, labels: Sequence[str]) -> Tensor:
    """The rows of a process, with the numbers that all processes have for the groups."""
    numbers = torch.tensor([labels.index(label) for label in share.labels], dtype=torch.int32, device="cpu")
    rows = share.rows.clone()
    rows[:, GROUP] = numbers[rows[:, GROUP]]
    return rows


def _join_answers(name: str, answers: Sequence[Mapping[str, Tensor] | None]) -> dict[str, Tensor]:
    """What a metric gave to the sentences of all processes, by the name of the score.

    Raises:
        ValueError: if processes have scores with different names.
    """
    first, *others = [{} if answer is None else answer for answer in answers]
    if any(answer.keys() != first.keys() for answer in others):
        raise ValueError(
            f"the metric {name!r} returned None in some processes only, or scores with different names: return "
            "the same scores in all, or None in all"
        )
    return {score_name: torch.cat([answer[score_name] for answer in (first, *others)]) for score_name in first}


def _number_members(group_numbers: Tensor, labels: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the sentences of each group that has any.

    Args:
        group_numbers: the number of the group of each sentence.
        labels: the labels of the groups.

    Example:
        >>> _number_members(torch.tensor([1, 0, 1]), ["de", "fr", "zh"])
        {'de': [1], 'fr': [0, 2]}
    """
    order = group_numbers.argsort(stable=True)
    member_counts = torch.bincount(group_numbers, minlength=len(labels)).tolist()
    groups = {}
    for label, numbers in zip(labels, order.split_with_sizes(member_counts)):
        if len(numbers):
            groups[label] = numbers.tolist()
    return groups


def _suspect_workers(loader: Loader, sentences: Sentences) -> Iterator[Mistake]:
    """An iterable dataset that every worker of its loader reads as a whole."""
    workers = getattr(loader.dataloader, "num_workers", 0)
    if workers < 2 or sentences.index is not None or not isinstance(loader.dataloader.dataset, IterableDataset):
        return
    _, counts = packed_rows.checksums_of(sentences.identity).unique(return_counts=True)  # type: ignore[no-untyped-call]
    if (counts % workers == 0).all():
        yield (
            f"workers of {loader.name}",
            f"Each sentence was there at least {workers} times, and the loader has {workers} workers: each of them "
            "reads the whole iterable dataset. Let it deal its items with torch.utils.data.get_worker_info(), or "
            f"{loader.origin.give} the position of each sentence as 'index' {loader.origin.to} {loader.origin.name!r}: "
            "then it counts once.",
        )


def _suspect_index(loader: Loader, sentences: Sentences, shares: Sequence[LoaderShare]) -> Iterator[Mistake]:
    """Different hypotheses with one index, of which the first counts, in one process: others may round differently."""
    if sum(len(share.rows) for share in shares) == len(sentences):
        return
    for rows in [share.rows for share in shares]:
        if len(rows.unique(dim=0)) > len(rows[:, [0, 1, GROUP]].unique(dim=0)):  # type: ignore[no-untyped-call]
            yield (
                f"index of {loader.name}",
                "Different hypotheses have the same 'index', and only the first one counts. An index is the position "
                f"of a sentence in its dataset: {loader.origin.give} another one for each hypothesis, or none.",
            )


def _describe_unknown(loader: Loader, reason: str) -> Mistake:
    """Why a process does not know the repeated sentences of a loader."""
    origin = loader.origin
    message = (
        f"It is unknown which sentences of {loader.name or origin.name!r} are scored by more than one process: "
        f"{reason}. If there are any, they are counted more than once; samples and files may not be in the order "
        f"of the dataset. {origin.give.title()} the position of each sentence in the dataset as 'index' "
        f"{origin.to} {origin.name!r}."
    )
    return message, message
