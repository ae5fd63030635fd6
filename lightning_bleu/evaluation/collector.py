"""The batches of one validation: each sentence is counted for its loader or group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lightning_bleu.counting.kept import SamePosition
from lightning_bleu.evaluation.loaders import CALL, Loader, Origin, length_of
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.metrics import EvaluatorMetric
from lightning_bleu.evaluation.names import RESERVED_FOR_GROUPS, check_names
from lightning_bleu.evaluation.sentences import GatheredSentences
from lightning_bleu.evaluation.subsets import Subset
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import gather_objects, run_in_process_0
from lightning_bleu.reading.batch import (
    Sources,
    read_hypotheses,
    read_sentences,
    read_sources,
    select_sentences,
)
from lightning_bleu.reading.ragged import BoolArray
from lightning_bleu.reading.recognize import read_groups, read_index, read_rows, read_sample_mask
from lightning_bleu.settings.settings import Decoder, Settings

Group: TypeAlias = str | None
"""The label of a group; None if sentences have no groups."""
SubsetKey: TypeAlias = tuple[int, Group]
"""What identifies a subset: the number of its loader, and its group."""


class Output(NamedTuple):
    """The sentences that a step returned; see :meth:`lightning_bleu.CorpusBLEU.update`.

    Without references, `target` is None.
    """

    preds: Any
    target: Any
    source: Any = None
    sample_mask: Any = None
    index: Any = None
    group: Any = None
    row: Any = None


class LocalView(NamedTuple):
    """What a process knows when a validation ends.

    Attributes:
        keys: its subsets.
        given: for each loader, whether its sentences had an ``"index"``, a ``"row"``, a ``"source"``, and a
            ``"target"``, as far as known.
        returned: whether steps returned something, as far as known.
    """

    keys: list[SubsetKey]
    given: list[set[tuple[str, bool]]]
    returned: set[bool]


class SentenceCollector:
    """Reads the batches of a validation in this process, and counts each sentence for its loader or group.

    Args:
        table: the metrics.
        names: the names of the loaders; ``""`` for one without a name.
        dataloaders: the loaders themselves, where they are known.
        decoder: the decoder of metrics that set none.
        origin: where the sentences come from, for error messages.
        needed_by: the option that needs the order of the sentences, for error messages; empty if none does.
        max_texts: how many sentences of each subset to keep as text; all if a metric scores text.
        warn: warns about likely mistakes.

    Attributes:
        loaders: the loaders.
        subsets: the subsets that have sentences. After :meth:`agree`, they are the same in all processes, in the order
            of the loaders, then of the metrics or the alphabet.

    Raises:
        ValueError: if metrics read ids differently.
    """

    def __init__(
        self,
        table: MetricTable,
        names: Sequence[str] = ("",),
        dataloaders: Sequence[Any] = (),
        *,
        decoder: Decoder | None = None,
        origin: Origin = CALL,
        needed_by: str = "",
        max_texts: float = 0,
        warn: WarnOnce | None = None,
    ) -> None:
        table.check_not_labels(names)
        self.table = table
        self.origin = origin
        self.loaders: list[Loader] = []
        for name, dataloader in zip_longest(names, dataloaders):
            settings = table.shared_reading(decoder, name, names)
            self.loaders.append(Loader(name, settings, dataloader, origin, needed_by))
        self._ignored = [not table.may_score(name) for name in names]
        self.subsets: dict[SubsetKey, Subset] = {}
        needs_texts = any(metric.needs_texts for metric in table)
        self._max_texts = math.inf if needs_texts else max_texts
        self._warn = warn or WarnOnce()
        self._batches: Counter[int] = Counter()
        self._returned: set[bool] = set()

    # One batch

    def ignores(self, dataloader_idx: int) -> bool:
        """Whether the batches of a loader are ignored, because none of its sentences can have a metric."""
        return self._ignored[dataloader_idx]

    def update(self, output: Output, batch_idx: int | None = None, dataloader_idx: int = 0) -> None:
        """Count the sentences of a batch. After an error, it is as if there had been no batch.

        Those of a loader that is ignored may be anything.

        Args:
            output: the sentences.
            batch_idx: the index of the batch in this process; counted when None.
            dataloader_idx: the number of the loader.
        """
        if self.ignores(dataloader_idx):
            return
        self._returned.add(True)
        loader = self.loaders[dataloader_idx]
        if batch_idx is None:
            batch_idx = self._count_batches(dataloader_idx)
        has_references = output.target is not None
        if has_references:
            batch = read_sentences(output.preds, output.target, loader.settings)
        else:
            batch = read_hypotheses(output.preds, loader.settings)
        rows = read_rows(output.row, batch.sentence_count)
        mask = read_sample_mask(output.sample_mask, batch.sentence_count, rows)
        index = read_index(output.index, batch.sentence_count, rows)
        is_counted = batch.sentence_count > 0 and (mask is None or mask.any())
        if is_counted:
            index = loader.find_positions(index, batch_idx, batch.sentence_count, rows)
        batch = batch._replace(positions=index)
        members = _members_of_groups(output.group, batch.sentence_count, mask)
        if members:
            loader.check_given("target", has_references)
        subsets = {}
        for group in members:
            subsets[dataloader_idx, group] = self._find_subset(dataloader_idx, group, has_references=has_references)
        sources = self._read_sources(output.source, loader, batch.sentence_count, subsets.values())
        batch.warn(self._warn)
        counted = []
        for subset, is_member in zip(subsets.values(), members.values()):
            share = batch if is_member.all() else select_sentences(batch, is_member)
            sources_of_share = None if sources is None else sources.select(is_member)
            counted.append(subset.count(share, sources_of_share))
        if subsets:
            loader.check_given("source", output.source is not None)
            loader.given.update(index=output.index is not None, row=rows is not None)
            loader.given.update(source=output.source is not None, target=has_references)
        for subset, counted_batch in zip(subsets.values(), counted):
            subset.keep(counted_batch)
        self.subsets.update(subsets)
        self._batches[dataloader_idx] += 1

    def skip(self) -> None:
        """Skip a batch: the step returned nothing."""
        self._returned.add(False)

    def _count_batches(self, dataloader_idx: int) -> int:
        """The number of batches of a loader so far."""
        loader, batch_count = self.loaders[dataloader_idx], self._batches[dataloader_idx]
        if len(self.loaders) > 1 and batch_count == length_of(loader.dataloader):
            raise ValueError(
                f"the loader {loader.name!r} has {batch_count} batches, but {self.origin.name!r} got more: pass the "
                "number of the loader of each batch as 'dataloader_idx'"
            )
        return batch_count

    def _read_sources(self, source: Any, loader: Loader, sentences: int, subsets: Iterable[Subset]) -> Sources | None:
        """The source sentences; None if there are none, or if they will not be kept."""
        keep_texts = [subset for subset in subsets if subset.keeps_texts]
        if source is None or not keep_texts:
            return None
        needed_by = [metric.name for subset in subsets for metric in subset.metrics.values() if metric.takes_sources]
        return read_sources(source, sentences, loader.settings, needed_by)

    def _find_subset(self, loader_number: int, group: Group, *, has_references: bool) -> Subset:
        """The subset of a loader and a group, a new one if it is first seen."""
        key = (loader_number, group)
        if key in self.subsets:
            return self.subsets[key]
        has_group = group is not None
        for _, other in self.subsets:
            if has_group != (other is not None):
                raise ValueError(
                    f"{self.origin.name!r} {self.origin.got} a 'group' for some sentences only: {self.origin.give} it "
                    "for all, or for none"
                )
        if group is not None:
            check_names("groups", [group], RESERVED_FOR_GROUPS)
        loader = self.loaders[loader_number]
        metrics = self._find_metrics(loader_number, group, has_references=has_references)
        # Its sentences are read with the settings of their loader.
        allowed = (Settings(), loader.settings, replace(loader.settings, decoder=None))
        for metric in metrics.values():
            if metric.reading not in allowed:
                raise ValueError(
                    f"the metrics of {group!r} must read ids in the same way as those of its loader {loader.name!r}"
                )
        return Subset(loader.name, group, metrics, self._max_texts, self._warn)

    def _find_metrics(self, loader_number: int, group: Group, *, has_references: bool) -> dict[str, EvaluatorMetric]:
        """The metrics of a subset by name. Without references, only those that need none."""
        loader_names = [loader.name for loader in self.loaders]
        metrics = self.table.find_all(self.loaders[loader_number].name, group, loader_names)
        return {name: metric for name, metric in metrics.items() if has_references or not metric.needs_references}

    # The end of a validation

    def agree(self) -> None:
        """Agree on the subsets of all processes. Collective."""
        given = [set(loader.given.items()) for loader in self.loaders]
        views = gather_objects(LocalView(list(self.subsets), given, self._returned))
        agreed = run_in_process_0(lambda: self._merge(views))
        for loader, of_loader in zip(self.loaders, agreed.given):
            loader.given = dict(of_loader)
        self._returned = agreed.returned
        subsets = {}
        for loader_number, group in agreed.keys:
            has_references = self.loaders[loader_number].given["target"]
            subsets[loader_number, group] = self._find_subset(loader_number, group, has_references=has_references)
        self.subsets = subsets

    def _merge(self, views: Sequence[LocalView]) -> LocalView:
        """What all processes know together. An error if they contradict each other."""
        given = [set().union(*of_loader) for of_loader in zip(*(view.given for view in views))]
        keys: set[SubsetKey] = set().union(*(view.keys for view in views))
        returned: set[bool] = set().union(*(view.returned for view in views))
        self._check_all_or_none(given, keys)
        self._check_groups(keys)
        return LocalView(self._sort(keys), given, returned)

    def _check_groups(self, keys: Collection[SubsetKey]) -> None:
        """Raise a ValueError for groups whose names clash with those of other groups or of metrics."""
        names = []
        for loader_number, group in keys:
            if group is not None:
                loader = self.loaders[loader_number].name
                names.append(f"{loader}/{group}" if loader else group)
        self.table.check_not_labels({group for _, group in keys if group is not None})
        check_names("groups", names, RESERVED_FOR_GROUPS)

    def _sort(self, keys: Iterable[SubsetKey]) -> list[SubsetKey]:
        """Subsets in the order of the loaders, then of the labels of metrics, then of the alphabet."""
        order = {label: place for place, label in enumerate(self.table.labels)}

        def place(key: SubsetKey) -> tuple[int, int, str]:
            loader_number, group = key
            return loader_number, order.get(group or "", len(order)), group or ""

        return sorted(keys, key=place)

    def _check_all_or_none(self, given: Sequence[set[tuple[str, bool]]], keys: Collection[SubsetKey]) -> None:
        """Raise a ValueError if a field was given for some sentences only."""
        mixed = {field for of_loader in given for field, is_given in of_loader if (field, not is_given) in of_loader}
        if len({group is None for _, group in keys}) > 1:
            mixed.add("group")
        where = "in some processes"
        if not mixed and self._mixes_sources(given, keys):
            mixed, where = {"source"}, "for some loaders"
        if mixed:
            origin = self.origin
            raise ValueError(
                f"{origin.name!r} {origin.got} {min(mixed)!r} {where} only: {origin.give} it in all, or in none"
            )

    def _mixes_sources(self, given: Sequence[set[tuple[str, bool]]], keys: Collection[SubsetKey]) -> bool:
        """Whether some sentences have a source, and others have none, among those whose metrics take sources."""
        given_together: set[tuple[str, bool]] = set()
        for loader_number, group in keys:
            has_references = ("target", True) in given[loader_number]
            metrics = self._find_metrics(loader_number, group, has_references=has_references)
            if any(metric.takes_sources for metric in metrics.values()):
                given_together |= given[loader_number]
        return {("source", True), ("source", False)} <= given_together

    @property
    def some_skipped(self) -> bool:
        """Whether steps returned something for some batches only; after :meth:`agree`, in all processes."""
        return self._returned == {True, False}

    @property
    def only_skipped(self) -> bool:
        """Whether no step returned anything; after :meth:`agree`, in all processes."""
        return self._returned == {False}

    def gather(self, device: Any = "cpu") -> list[GatheredSentences]:
        """Gather the sentences of each subset from all processes. Collective.

        Args:
            device: the device for communication.
        """
        gathered = []
        for (loader_number, _), subset in self.subsets.items():
            loader = self.loaders[loader_number]
            try:
                sentences = subset.gather(device)
            except SamePosition:  # in all processes
                if loader.given.get("index") and loader.given.get("row"):
                    raise SamePosition(
                        "different rows have the same 'index': the references of their sentences differ. With 'row', "
                        "an index is the position of a row in its dataset"
                    ) from None
                if loader.given.get("index"):
                    raise
                reason = "its collate_fn or its step reorders or drops the items of a batch"
                loader.unknown = loader.unknown or reason
                subset.forget_positions()
                sentences = subset.gather(device)
            gathered.append(sentences)
        return gathered

    def warn_about_mistakes(self) -> None:
        """Warn about prompts, and about loaders whose repeated sentences are unknown to some process. Collective."""
        for subset in self.subsets.values():
            for key, message in subset.suspect_prompts():
                self._warn(message, key)
        origin = self.origin
        reasons_by_process = gather_objects([(loader.name, loader.unknown) for loader in self.loaders])
        for reasons in reasons_by_process:
            for name, reason in reasons:
                if reason:
                    self._warn(
                        f"It is unknown which sentences of {name or origin.name!r} are scored by more than one "
                        f"process: {reason}. If there are any, they are counted more than once; samples and files may "
                        f"not be in the order of the dataset. {origin.give.title()} the position of each sentence in "
                        f"the dataset as 'index' {origin.to} {origin.name!r}."
                    )


def _members_of_groups(labels: Any, sentences: int, mask: BoolArray | None) -> Mapping[Group, BoolArray]:
    """For each group of a batch, which sentences belong to it and count; without labels, for all sentences.

    Example:
        >>> members = _members_of_groups(["de", "zh", "de"], 3, np.array([True, False, True]))
        >>> {group: is_member.tolist() for group, is_member in members.items()}
        {'de': [True, False, True]}
    """
    counts = np.ones(sentences, bool) if mask is None else mask
    if labels is None:
        return {None: counts} if counts.any() else {}
    groups = read_groups(labels, sentences)
    members: dict[Group, BoolArray] = {}
    for group in dict.fromkeys(compress(groups, counts)):
        is_in_group = np.array([label == group for label in groups])
        members[group] = is_in_group & counts
    return members
