"""Subsets: the sentences that have a score of their own, those of a loader or of one of its groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from lightning_bleu.counting import kept
from lightning_bleu.evaluation.metrics import EvaluatorMetric
from lightning_bleu.evaluation.sentences import BatchTexts, GatheredSentences, LocalTexts
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import gather_state, process_count
from lightning_bleu.reading.batch import Batch, Sources
from lightning_bleu.reading.mistakes import Mistake, suspect_prompts

_EXAMINED = 64
"""How many sentences are examined for likely mistakes."""


class CountedBatch(NamedTuple):
    """What a subset has counted of a batch.

    Attributes:
        rows: the packed rows of the sentences.
        texts: their texts; None if they are not kept.
    """

    rows: torch.Tensor
    texts: BatchTexts | None


@dataclass(eq=False)
class Subset:
    """The sentences of a loader, or of one of its groups, that this process has seen.

    Args:
        loader: the name of the loader; empty if it has none.
        group: the group; None if the sentences have no groups.
        metrics: the metrics by name.
        max_texts: how many sentences to keep as text, to score, show, or write them. A few are kept to find mistakes.
        warn: warns about likely mistakes.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF
        >>> from lightning_bleu.evaluation.metrics import CountedMetric
        >>> from lightning_bleu.reading.batch import read_batch, read_sources
        >>> bleu, chrf = CorpusBLEU(max_order=1), CorpusCHRF()
        >>> metrics = {"bleu": CountedMetric("bleu", bleu), "chrf": CountedMetric("chrf", chrf)}
        >>> subset = Subset("", None, metrics, max_texts=10)
        >>> batch = read_batch(["a b", "x y"], ["a c", "x z"], bleu.settings)
        >>> subset.keep(subset.count(batch, read_sources(["A B", "X Y"], 2, bleu.settings)))
        >>> sentences = subset.gather()
        >>> sentences.statistics("bleu").tolist(), sentences.read([1])
        ([[1, 2, 2, 2], [1, 2, 2, 2]], [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    loader: str
    group: str | None
    metrics: Mapping[str, EvaluatorMetric]
    max_texts: float = 0
    warn: WarnOnce = field(default_factory=WarnOnce)
    _rows: list[torch.Tensor] = field(default_factory=list, init=False)
    _texts: LocalTexts = field(default_factory=LocalTexts, init=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the loader and of the group, without those that have none."""
        return tuple(name for name in (self.loader, self.group) if name)

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of the next sentences will be kept."""
        return len(self._texts) < max(self.max_texts, _EXAMINED)

    def count(self, batch: Batch, sources: Sources | None = None) -> CountedBatch:
        """Count the sentences of a batch. Nothing is kept yet.

        Args:
            batch: the sentences.
            sources: their sources, if they are needed.

        Raises:
            TypeError: if a metric needs text, and they are not text.
        """
        for metric in self.metrics.values():
            metric.check(batch, sources)
            for key, message in metric.suspect(batch):
                self.warn(message, key)
        rows = np.zeros((batch.sentence_count, 0), np.int64)
        if self.metrics:
            rows = np.concatenate([metric.count_rows(batch) for metric in self.metrics.values()], 1)
        texts = BatchTexts.from_batch(batch, sources) if self.keeps_texts else None
        return CountedBatch(torch.from_numpy(kept.pack_rows(batch, rows)), texts)

    def keep(self, counted: CountedBatch) -> None:
        """Keep what was counted of a batch."""
        self._rows = kept.append_rows(self._rows, counted.rows)
        if counted.texts is not None:
            self._texts.append(counted.texts)

    def suspect_prompts(self) -> Iterator[Mistake]:
        """Warn about hypotheses of this process that contain their source."""
        examined = self._texts.read(range(min(_EXAMINED, len(self._texts))))
        return suspect_prompts(
            (sentence.hypothesis, sentence.references, sentence.source)
            for sentence in examined.values()
            if sentence.source
        )

    def forget_positions(self) -> None:
        """Count all sentences, even if they have the same position."""
        self._rows = [kept.forget_positions(rows) for rows in self._rows]

    def gather(self, device: Any = "cpu") -> GatheredSentences:
        """Gather the sentences of all processes. Collective.

        Args:
            device: the device for communication.

        Raises:
            SamePosition: if different sentences have the same position.
        """
        widths = [metric.columns for metric in self.metrics.values()]
        ends = list(accumulate(widths, initial=kept.IDENTITY_COLUMNS))
        columns = {name: slice(start, end) for name, (start, end) in zip(self.metrics, pairwise(ends))}
        empty = torch.zeros(0, ends[-1], dtype=torch.int32, device="cpu")
        local_rows = torch.cat([empty, *self._rows])
        shares = [local_rows]
        if process_count() > 1:
            shares = [share.cpu() for share in gather_state(local_rows.to(device))]
        counts = [len(share) for share in shares]
        return GatheredSentences(kept.read_rows(torch.cat(shares)), columns, counts, self._texts, self.max_texts)
