"""What a process does with the batches of a validation: each is read, counted, and kept, and all are its share."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np
import torch

from lightning_bleu.core import packed_rows
from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.forms import Ids, IntArray
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.evaluation.input.outputs import Output, ReadOutput, check_given, read_output
from lightning_bleu.evaluation.input.positions import Loader, find_own_order, length_of
from lightning_bleu.evaluation.names import check_labels
from lightning_bleu.evaluation.scores.sentences import Joined, LoaderShare, Share, join_shares


class KeptBatch(NamedTuple):
    """A batch whose texts may be needed, with the positions of its sentences, and the number of its first row."""

    read: ReadOutput
    positions: IntArray
    first_row: int


class PlacedText(NamedTuple):
    """The texts of a sentence, with its position and the number of its row."""

    position: int
    row: int
    sentence: Sentence


@dataclass(eq=False)
class LocalSentences:
    """The sentences of a loader that this process has seen.

    Attributes:
        loader: the loader.
        share: what is sent to process 0 at the end. Until then, its rows are in the blocks.
        blocks: the packed rows of each batch.
        batches: those that may have one of the first sentences.
        last_position: no text behind this position is needed.
        row_count: the number of rows.
        batch_count: the number of batches.
    """

    loader: Loader
    share: LoaderShare = field(default_factory=LoaderShare)
    blocks: list[torch.Tensor] = field(default_factory=list)
    batches: list[KeptBatch] = field(default_factory=list)
    last_position: float = math.inf
    row_count: int = 0
    batch_count: int = 0

    def find_given(self, output: Output, keys: Collection[str]) -> dict[str, bool]:
        """Which fields and other keys a batch has. A ValueError if other batches of this loader differ."""
        given = {name: getattr(output, name) is not None for name in ("index", "source", "group", "id")}
        given |= {key: output.find(key) is not None for key in keys}
        check_given(self.loader.origin, [self.share.given or given, given], "for some batches")
        return given

    def number_labels(self, groups: Sequence[str], reserved: Collection[str]) -> dict[str, int]:
        """The numbers of the labels so far and of those of a batch. An error for a name that cannot be logged."""
        labels = dict(self.share.labels)
        for label in dict.fromkeys(groups):
            if label not in labels:
                check_labels([label], reserved)
                labels[label] = len(labels)
        return labels

    def keep_texts(self, read: ReadOutput, max_texts: int) -> None:
        """Keep a batch if it may have one of the first sentences. From time to time, drop those that have none."""
        rows = self.row_count + np.arange(read.batch.sentence_count)
        positions = rows if read.batch.positions is None else read.batch.positions
        if not max_texts or (positions > self.last_position).all():
            return
        self.batches.append(KeptBatch(read, positions, self.row_count))
        is_long = self.row_count > 2 * max_texts  # else there is nothing to add up
        if is_long and sum(len(batch.positions) for batch in self.batches) > 2 * max_texts:
            self.last_position = self.find_last_position(max_texts)
            self.batches = [batch for batch in self.batches if (batch.positions <= self.last_position).any()]

    def find_last_position(self, max_texts: int) -> float:
        """The last of this many first positions. (A position may be that of several rows.)"""
        positions = np.unique(np.concatenate([batch.positions for batch in self.batches] or [np.zeros(0, np.int64)]))
        return math.inf if len(positions) <= max_texts else float(positions[max_texts - 1])

    def read_texts(self, last_position: float) -> list[PlacedText]:
        """The texts of the sentences up to a position, in the order of their rows."""
        texts: list[PlacedText] = []
        for read, positions, first_row in self.batches:
            if (positions <= last_position).any():
                placed = map(PlacedText, positions.tolist(), count(first_row), read.to_sentences())
                texts += [text for text in placed if text.position <= last_position]
        return texts


class SentenceCollector:
    """Reads and counts the batches of a validation in this process.

    Args:
        metrics: the metrics by name.
        loaders: the loaders.
        reserved: names that no group can have.
        max_texts: of how many sentences of each loader process 0 needs the texts, the first ones; of all if a metric
            scores the texts of the whole corpus.
        warn: warns about likely mistakes.
        shows_texts: whether texts are shown or written. Else they are only examined, and ids are not made into text.

    Attributes:
        loaders: see above.
        keys: the other keys of a step that metrics take.
    """

    def __init__(
        self,
        metrics: Mapping[str, EvaluatorMetric],
        loaders: Sequence[Loader],
        reserved: Collection[str],
        max_texts: int,
        warn: WarnOnce,
        *,
        shows_texts: bool = True,
    ) -> None:
        self.loaders = loaders
        self._metrics = metrics
        self._reserved = reserved
        self._locals = [LocalSentences(loader) for loader in loaders]
        self._skipped = 0
        self._takers = {name: metric for name, metric in metrics.items() if metric.keys or metric.takes_sources}
        self.keys = sorted({key for metric in self._takers.values() for key in metric.keys})
        self._sent_keys = {key for metric in self._takers.values() if metric.corpus_level for key in metric.keys}
        self._max_sent = sys.maxsize if any(metric.corpus_level for metric in metrics.values()) else max_texts
        scores_texts = any(metric.columns == 0 for metric in metrics.values())
        self._max_kept = sys.maxsize if scores_texts else max_texts
        self._keeps_ids = shows_texts or scores_texts
        self._warn = warn

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
        read = read_output(output, loader.settings, self.keys)
        if loader.labels is not None:
            local.share.seen_labels.update(read.groups or ())
            read = read.keep_groups(loader.labels)
        if not read.has_sentences:
            self._warn.about_all(read.batch.mistakes)
            local.batch_count += 1
            return
        given = local.find_given(output, self.keys)
        fields = [name for name, is_given in given.items() if is_given]
        for name, metric in self._takers.items():
            metric.check_fields(name, fields)
        positions = loader.find_positions(read.batch.positions, batch_idx, read.batch.sentence_count)
        own_order = find_own_order(loader.dataloader) if loader.is_recorded and positions.values is None else ""
        if own_order:
            self._warn(
                f"The sentences are written in the order of {own_order}, which may not be the order of the dataset: "
                f"{loader.origin.give} their positions as 'index' {loader.origin.to} {loader.origin.name!r}, or "
                f"{loader.origin.unshuffle}.",
                "order",
            )
        read = read._replace(batch=read.batch._replace(positions=positions.values)).select()
        labels = local.number_labels(read.groups or (), self._reserved)
        rows = _count(self._metrics, read, labels)
        self._warn.about_all(read.batch.mistakes)

        # What changes
        if self._keeps_ids or not _has_ids(read):
            local.keep_texts(read, self._max_kept)
        local.blocks.append(rows)
        local.row_count += read.batch.sentence_count
        local.batch_count += 1
        share = local.share
        share.labels, share.given = labels, given
        share.unknown = share.unknown or positions.unknown
        if read.batch.widths is not None:
            share.logit_widths[read.batch.widths] += 1

    def skip(self) -> None:
        """Skip a batch: the step returned nothing."""
        self._skipped += 1

    def _next_batch_idx(self, local: LocalSentences) -> int:
        """The index of the next batch of a loader. An error if it has had all of them."""
        loader, batch_count = local.loader, local.batch_count
        if len(self.loaders) > 1 and batch_count == length_of(loader.dataloader):
            raise ValueError(
                f"the loader {loader.name!r} has {batch_count} batches, but {loader.origin.name!r} got more: pass the "
                "number of the loader of each batch as 'dataloader_idx'"
            )
        return batch_count

    def close(self) -> Share:
        """What this process has seen. Metrics that score texts sentence by sentence do so here."""
        of_texts = [name for name, metric in self._metrics.items() if not metric.columns and not metric.corpus_level]
        for local in self._locals:
            share = local.share
            last_position = local.find_last_position(self._max_sent)
            texts = local.read_texts(math.inf if of_texts else last_position)
            share.texts = {text.row: text.sentence for text in texts if text.position <= last_position}
            if self.keys:
                share.texts = {row: self._select_columns(sentence) for row, sentence in share.texts.items()}
            if local.blocks:
                share.rows = torch.cat(local.blocks)
                local.blocks = [share.rows]  # frees those of the batches
                sentences = [text.sentence for text in texts]
                for name in of_texts:
                    share.answers[name] = self._metrics[name].score_texts(name, sentences)
        read = sum(local.batch_count for local in self._locals)
        return Share([local.share for local in self._locals], read, self._skipped)

    def join(self, shares: Sequence[Share]) -> Joined:
        """What all processes have seen, in process 0; see :func:`.join_shares`."""
        return join_shares(shares, self.loaders, self._metrics, self._reserved, self._max_sent)

    def _select_columns(self, sentence: Sentence) -> Sentence:
        """A sentence with the columns that are sent to process 0: those that are recorded, or needed there."""
        sent = {}
        for key, value in (sentence.columns or {}).items():
            if key in self._sent_keys or isinstance(value, str | int | float):
                sent[key] = value
        return sentence._replace(columns=sent)


def _has_ids(read: ReadOutput) -> bool:
    """Whether hypotheses are ids that nothing decodes. If all are empty, that is worth a finding."""
    segments = read.batch.segments
    return isinstance(segments, Ids) and bool(segments.ragged.lengths[: read.batch.sentence_count].any())


def _count(metrics: Mapping[str, EvaluatorMetric], read: ReadOutput, labels: Mapping[str, int]) -> torch.Tensor:
    """The packed rows of a batch: what identifies each sentence, the number of its group, and its statistics."""
    batch = read.batch
    group_numbers = np.zeros(batch.sentence_count, np.int64)
    if read.groups is not None:
        group_numbers[:] = [labels[label] for label in read.groups]
    columns: list[IntArray] = [group_numbers[:, None]]
    for name, metric in metrics.items():
        columns.append(metric.count_batch(name, batch, read.sources))
    return torch.from_numpy(packed_rows.pack_rows(batch, np.concatenate(columns, 1)))
