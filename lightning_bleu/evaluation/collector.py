"""The batches of one validation: each is read, counted, and kept in its process; at the end, all are gathered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from lightning_bleu.core import kept
from lightning_bleu.core.batch import Batch, Sources
from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.processes import gather_objects, gather_rows, process_count, run_in_process_0
from lightning_bleu.evaluation.accelerate_positions import length_of
from lightning_bleu.evaluation.evidence import MAX_DECODED, MAX_EXAMINED, Evidence, examine
from lightning_bleu.evaluation.findings import Finding, find_findings
from lightning_bleu.evaluation.loaders import Loader
from lightning_bleu.evaluation.names import check_labels
from lightning_bleu.evaluation.outputs import Output, read_output
from lightning_bleu.evaluation.sentences import GROUP, BatchTexts, LocalTexts, Sentences

_PACKED_GROUP = kept.IDENTITY_COLUMNS + GROUP
"""The column of packed rows with the number of the group."""


@dataclass(eq=False)
class LocalSentences:
    """The sentences of a loader that this process has seen.

    Attributes:
        loader: the loader.
        blocks: packed rows; see :func:`lightning_bleu.core.kept.append_rows`.
        texts: the texts of the first sentences.
        labels: the labels of the groups, each with its number in the rows.
        seen_labels: if only some groups are scored, the labels of all sentences.
        given: whether sentences have an ``"index"``, a ``"source"``, and a ``"group"``; empty before the first one.
        unknown: why repeated sentences cannot be found; empty if they can be.
        batch_count: the number of batches.
        logit_widths: the numbers of batches by the widths of logits and labels.
    """

    loader: Loader
    blocks: list[torch.Tensor] = field(default_factory=list)
    texts: LocalTexts = field(default_factory=LocalTexts)
    labels: dict[str, int] = field(default_factory=dict)
    seen_labels: set[str] = field(default_factory=set)
    given: dict[str, bool] = field(default_factory=dict)
    unknown: str = ""
    batch_count: int = 0
    logit_widths: Counter[tuple[int, int]] = field(default_factory=Counter)

    def check_given(self, output: Output) -> dict[str, bool]:
        """Which fields a batch has. A ValueError if other batches of this loader differ."""
        given = {name: getattr(output, name) is not None for name in ("index", "source", "group")}
        for name, is_given in given.items():
            if self.given.get(name, is_given) != is_given:
                origin = self.loader.origin
                raise ValueError(
                    f"{origin.name!r} {origin.got} {name!r} for some batches only: {origin.give} it for all, or for "
                    "none"
                )
        return given

    def number_labels(self, groups: Sequence[str], reserved: Collection[str]) -> dict[str, int]:
        """The numbers of the labels so far and of those of a batch. An error for a name that cannot be logged."""
        labels = dict(self.labels)
        for label in dict.fromkeys(groups):
            if label not in labels:
                check_labels([label], reserved)
                labels[label] = len(labels)
        return labels


class LocalView(NamedTuple):
    """What a process knows of a loader when a validation ends; see :class:`LocalSentences`."""

    given: Mapping[str, bool]
    labels: Sequence[str]
    seen_labels: Set[str]


class SentenceCollector:
    """Reads and counts the batches of a validation in this process, and gathers the sentences of all processes.

    Args:
        metrics: the metrics by name.
        loaders: the loaders.
        reserved: names that no group can have.
        max_texts: how many sentences of each loader this process keeps as text, at least; all if a metric scores text.
        warn: warns about likely mistakes.

    Attributes:
        loaders: see above.
        returned: whether steps returned something, as far as known. After :meth:`gather`, those of all processes.
    """

    def __init__(
        self,
        metrics: Mapping[str, EvaluatorMetric],
        loaders: Sequence[Loader],
        *,
        reserved: Collection[str] = ("",),
        max_texts: float = 0,
        warn: WarnOnce | None = None,
    ) -> None:
        self.loaders = loaders
        self.returned: set[bool] = set()
        self._metrics = metrics
        self._reserved = reserved
        self._locals = [LocalSentences(loader) for loader in loaders]
        scores_texts = any(metric.columns == 0 for metric in metrics.values())
        self._max_texts = math.inf if scores_texts else max_texts
        self._warn = warn or WarnOnce()

    def update(self, output: Output, batch_idx: int | None = None, dataloader_idx: int = 0) -> None:
        """Count the sentences of a batch. After an error, it is as if there had been no batch.

        Those of a loader that is ignored may be anything.

        Args:
            output: the sentences.
            batch_idx: the index of the batch in this process; counted when None.
            dataloader_idx: the number of the loader.
        """
        local = self._locals[dataloader_idx]
        loader = local.loader
        if loader.is_ignored:
            return
        if batch_idx is None:
            batch_idx = self._next_batch_idx(local)

        # What can fail
        keeps_texts = len(local.texts) < max(self._max_texts, MAX_DECODED)
        read = read_output(output if keeps_texts else output._replace(source=None), loader.settings)
        if loader.labels is not None:
            local.seen_labels.update(read.groups or ())
            read = read.keep_groups(loader.labels)
        if not read.has_sentences:
            self._warn.about_all(read.batch.mistakes)
            local.batch_count += 1
            self.returned.add(True)
            return
        given = local.check_given(output)
        positions = loader.find_positions(read.batch.positions, batch_idx, read.batch.sentence_count)
        batch = read._replace(batch=read.batch._replace(positions=positions.values)).select()
        sources, groups = read.select_sources(), read.select_groups()
        labels = local.number_labels(groups or (), self._reserved)
        group_numbers = np.zeros(batch.sentence_count, np.int64)
        if groups is not None:
            group_numbers[:] = [labels[label] for label in groups]
        blocks = kept.append_rows(local.blocks, _count(self._metrics, batch, sources, group_numbers))
        self._warn.about_all(read.batch.mistakes)

        # What changes
        if keeps_texts:
            local.texts.append(BatchTexts.from_batch(batch, sources, groups))
        local.blocks, local.labels, local.given = blocks, labels, given
        local.unknown = local.unknown or positions.unknown
        if read.batch.widths is not None:
            local.logit_widths[read.batch.widths] += 1
        local.batch_count += 1
        self.returned.add(True)

    def skip(self) -> None:
        """Skip a batch: the step returned nothing."""
        self.returned.add(False)

    def _next_batch_idx(self, local: LocalSentences) -> int:
        """The index of the next batch of a loader. An error if it has had all of them."""
        loader, batch_count = local.loader, local.batch_count
        if len(self.loaders) > 1 and batch_count == length_of(loader.dataloader):
            raise ValueError(
                f"the loader {loader.name!r} has {batch_count} batches, but {loader.origin.name!r} got more: pass the "
                "number of the loader of each batch as 'dataloader_idx'"
            )
        return batch_count

    # The end of a validation

    def gather(self, device: Any = "cpu") -> list[Sentences]:
        """The sentences of all processes, for each loader that has any. Collective.

        Args:
            device: the device for communication.

        Raises:
            ValueError: if a field was given for some sentences only, or if the names of groups clash.
            SamePosition: if different sentences have the same index.
        """
        own_views = [LocalView(local.given, list(local.labels), local.seen_labels) for local in self._locals]
        gathered_views = gather_objects((own_views, self.returned))
        views, self.returned = run_in_process_0(lambda: self._agree(gathered_views))
        gathered = []
        for local, view in zip(self._locals, views):
            local.seen_labels.update(view.seen_labels)
            if view.given:
                gathered.append(self._gather_loader(local, view, device))
        return gathered

    def _agree(self, views: Sequence[tuple[list[LocalView], set[bool]]]) -> tuple[list[LocalView], set[bool]]:
        """What all processes know together. An error if they contradict each other."""
        agreed = []
        for views_of_loader in zip(*(of_process for of_process, _ in views)):
            given = [view.given for view in views_of_loader if view.given]
            self._check_equal(given, "in some processes")
            labels: set[str] = set().union(*(view.labels for view in views_of_loader))
            check_labels(sorted(labels), self._reserved)
            seen_labels: set[str] = set().union(*(view.seen_labels for view in views_of_loader))
            agreed.append(LocalView(given[0] if given else {}, sorted(labels), seen_labels))
        if any(metric.takes_sources for metric in self._metrics.values()):
            self._check_equal([{"source": view.given["source"]} for view in agreed if view.given], "for some loaders")
        return agreed, set().union(*(returned for _, returned in views))

    def _check_equal(self, given: Sequence[Mapping[str, bool]], where: str) -> None:
        """Raise a ValueError for a field that only some sentences have."""
        names = given[0] if given else {}
        mixed = [name for name in names if len({fields[name] for fields in given}) > 1]
        if mixed:
            origin = self.loaders[0].origin
            raise ValueError(
                f"{origin.name!r} {origin.got} {min(mixed)!r} {where} only: {origin.give} it in all, or in none"
            )

    def _gather_loader(self, local: LocalSentences, view: LocalView, device: Any) -> Sentences:
        """The sentences of a loader, of all processes. Collective."""
        ends = list(accumulate((metric.columns for metric in self._metrics.values()), initial=GROUP + 1))
        columns = {name: slice(start, end) for name, (start, end) in zip(self._metrics, pairwise(ends))}
        empty = torch.zeros(0, kept.IDENTITY_COLUMNS + ends[-1], dtype=torch.int32, device="cpu")
        rows = torch.cat([empty, *local.blocks])
        if local.labels:  # from the numbers of this process to those of all
            agreed_numbers = {label: number for number, label in enumerate(view.labels)}
            numbers = torch.tensor([agreed_numbers[label] for label in local.labels], dtype=torch.int32, device="cpu")
            rows[:, _PACKED_GROUP] = numbers[rows[:, _PACKED_GROUP]]
        shares = [rows]
        if process_count() > 1:
            shares = [share.cpu() for share in gather_rows(rows.to(device))]
        return Sentences(
            local.loader.name,
            _order_rows(torch.cat(shares), local, has_index=view.given["index"]),
            columns,
            labels=view.labels,
            has_index=view.given["index"],
            process_counts=[len(share) for share in shares],
            local_texts=local.texts,
            max_texts=self._max_texts,
        )

    def find_mistakes(self) -> list[Mistake]:
        """Loaders whose repeated sentences some process does not know. Collective."""
        reasons_by_process = gather_objects([(local.loader.name, local.unknown) for local in self._locals])
        mistakes = []
        origin = self.loaders[0].origin
        for reasons in reasons_by_process:
            for name, reason in reasons:
                if reason:
                    message = (
                        f"It is unknown which sentences of {name or origin.name!r} are scored by more than one "
                        f"process: {reason}. If there are any, they are counted more than once; samples and files may "
                        f"not be in the order of the dataset. {origin.give.title()} the position of each sentence in "
                        f"the dataset as 'index' {origin.to} {origin.name!r}."
                    )
                    mistakes.append((message, message))
        return mistakes

    def suspect_only(self, only: Sequence[str], gathered: Sequence[Sentences], dataset: str) -> Iterator[Mistake]:
        """Entries of `only` of which a validation had no sentence.

        Args:
            only: names of loaders, labels of groups, or ``"LOADER/GROUP"``.
            gathered: what :meth:`gather` returned.
            dataset: what `only` calls a loader without a name. Only its entries are looked at.
        """
        scored: set[str] = set()
        for sentences in gathered:
            scored |= _entries_of(sentences.loader or dataset, sentences.groups)
        known = set(scored)
        for local in self._locals:
            known |= _entries_of(local.loader.name or dataset, local.seen_labels)
        if dataset:  # the others are validated on their own
            only = [entry for entry in only if f"{entry}/".startswith(f"{dataset}/")]
        for entry in only:
            if entry not in scored:
                message = (
                    f"'only' has {entry!r}, but this validation had no sentence of it. The names were {sorted(known)}. "
                    "An entry is the name of a loader, the label of a group, or LOADER/GROUP."
                )
                yield f"only {entry}", message

    def find_findings(self, loaders: Sequence[Sentences], where: str = "") -> list[Finding]:
        """What stands out in the texts of each loader. Collective.

        Args:
            loaders: what :meth:`gather` returned.
            where: what a loader without a name is called.
        """
        widths = {local.loader.name: local.logit_widths for local in self._locals}
        own_evidence = []
        for sentences in loaders:
            texts = sentences.read_first(MAX_EXAMINED, decoded=MAX_DECODED)
            own_evidence.append(examine(texts, widths[sentences.loader]))
        evidence_of_processes = gather_objects(own_evidence)

        def find() -> list[Finding]:  # in process 0
            findings = []
            for sentences, evidence in zip(loaders, zip(*evidence_of_processes)):
                findings += find_findings(sum(evidence, Evidence()), self._metrics, sentences.loader or where)
            return findings

        return run_in_process_0(find)


def _entries_of(loader: str, labels: Iterable[str]) -> set[str]:
    """What an entry of `only` could name of a loader: the loader itself, and its groups.

    Example:
        >>> sorted(_entries_of("news", ["de"])), _entries_of("", ["de"])
        (['news', 'news/de'], {'de'})
    """
    return {loader, *(f"{loader}/{label}" for label in labels)} if loader else {*labels}


def _count(
    metrics: Mapping[str, EvaluatorMetric], batch: Batch, sources: Sources | None, group_numbers: IntArray
) -> torch.Tensor:
    """The packed rows of a batch: what identifies each sentence, its group, and its statistics."""
    columns = [group_numbers[:, None]]
    for name, metric in metrics.items():
        columns.append(metric.count_batch(name, batch, sources))
    return torch.from_numpy(kept.pack_rows(batch, np.concatenate(columns, 1)))


def _order_rows(packed: torch.Tensor, local: LocalSentences, *, has_index: bool) -> kept.KeptSentences:
    """The rows of a loader in order, without repeats. If derived positions are wrong, all of them count."""
    try:
        return kept.read_rows(packed, packed[:, _PACKED_GROUP])
    except kept.SamePosition:  # in all processes
        if has_index:
            raise
        local.unknown = local.unknown or "its collate_fn or its step reorders or drops the items of a batch"
        return kept.read_rows(kept.forget_positions(packed))
