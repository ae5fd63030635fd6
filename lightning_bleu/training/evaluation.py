"""Evaluations: the metrics and the texts of each loader in a stage."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import compress
from typing import Any, NamedTuple

import torch

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.counting.kept import KeptSentences, forget_positions
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.reading.batch import Batch, read_batch, read_sources, select_sentences
from lightning_bleu.reading.forms import Hypotheses, Index, References, SampleMask, Strings, kind_of
from lightning_bleu.reading.mistakes import suspect_prompts
from lightning_bleu.reading.ragged import BoolArray, IntArray
from lightning_bleu.reading.recognize import read_index, read_sample_mask
from lightning_bleu.scoring.bleu import BLEUScore
from lightning_bleu.scoring.chrf import CHRFScore
from lightning_bleu.settings.settings import Settings
from lightning_bleu.training.sentences import Sentence, Sentences, find_owners, to_sentences

_EXAMINED = 64
"""How many sentences are examined for likely mistakes."""


class Counted(NamedTuple):
    """The result of a metric.

    Attributes:
        report: the score and its components.
        kept: the sentences that count, with their statistics.
    """

    report: BLEUScore | CHRFScore
    kept: KeptSentences


class Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        counted: the result of each metric, by the logged name of the score of the stage.
        sentences: the sentences that count, as text.
    """

    counted: dict[str, Counted]
    sentences: Sentences

    @property
    def report(self) -> BLEUScore:
        """The BLEU score and its components."""
        report = next(iter(self.counted.values())).report
        assert isinstance(report, BLEUScore)
        return report

    @property
    def kept(self) -> KeptSentences:
        """The sentences that count, with the statistics of BLEU."""
        return next(iter(self.counted.values())).kept


class Reading(NamedTuple):
    """A batch that was read; see :meth:`lightning_bleu.CorpusBLEU.update`.

    Attributes:
        batch: the sentences.
        sources: their sources as text, if they are needed.
        mask: which sentences count; all when None.
        positions: the position of each sentence in the dataset; None if it is unknown.
    """

    batch: Batch
    sources: list[str] | None
    mask: BoolArray | None
    positions: IntArray | None

    def select(self, members: BoolArray, settings: Settings) -> Reading:
        """Some of the sentences; see :func:`lightning_bleu.reading.batch.select_sentences`."""
        return Reading(
            select_sentences(self.batch, members, settings),
            None if self.sources is None else [*compress(self.sources, members)],
            None if self.mask is None else self.mask[members],
            None if self.positions is None else self.positions[members],
        )


def read(
    preds: Hypotheses,
    target: References,
    sample_mask: SampleMask | None,
    index: Index | None,
    *,
    source: Hypotheses | None,
    settings: Settings,
) -> Reading:
    """Read what a step returned; see :meth:`Evaluation.update`."""
    batch = read_batch(preds, target, settings)
    count = batch.sentence_count
    return Reading(
        batch,
        None if source is None else read_sources(source, count, settings),
        None if sample_mask is None else read_sample_mask(sample_mask, count),
        None if index is None else read_index(index, count),
    )


class Evaluation:
    """The metrics and the texts of one loader, or of one of its groups, in a stage.

    Args:
        stage_tag: the logged name of the score of the stage, such as ``"val_bleu"``.
        name: the name of the loader; empty if it has none.
        metric: the metric; it is copied.
        others: other metrics of the same sentences, by the logged names of their scores of the stage; they are copied.
        max_texts: how many sentences to keep as text, to show or write them; 0 for none.
        group: the label of the group; empty if there are no groups.

    Example:
        >>> evaluation = Evaluation("val_bleu", "", CorpusBLEU(tokenizer="none"), max_texts=10)
        >>> evaluation.update(["a b c d", "x y"], ["a b c d", "x z"], source=["A B C D", "X Y"])
        >>> result = evaluation.result()
        >>> result.report.matches, result.sentences.read([1])
        ((5, 3, 2, 1), [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    def __init__(
        self,
        stage_tag: str,
        name: str,
        metric: CorpusBLEU,
        others: Mapping[str, CorpusMetric] | None = None,
        *,
        max_texts: float = 0,
        group: str = "",
    ) -> None:
        names = [name, group]
        self.name = "/".join(filter(None, names))
        self.names = [*stage_tag.split("/"), *filter(None, names)]
        self.metric = copy.deepcopy(metric)
        self.metrics: dict[str, CorpusMetric] = {stage_tag: self.metric, **copy.deepcopy(dict(others or {}))}
        self.max_texts = max_texts
        for one in self.metrics.values():
            one.reset()
            one.start_keeping_sentences()
        self._texts: list[Sentence] = []

    @property
    def tag(self) -> str:
        """The logged name of the score."""
        return "/".join(self.names)

    def tag_of(self, stage_tag: str) -> str:
        """The logged name of the score of a metric."""
        return f"{stage_tag}/{self.name}" if self.name else stage_tag

    def update(
        self,
        preds: Hypotheses,
        target: References,
        sample_mask: SampleMask | None = None,
        index: Index | None = None,
        *,
        source: Hypotheses | None = None,
        needs_text: bool = False,
    ) -> None:
        """Count a batch; see :meth:`lightning_bleu.CorpusBLEU.update`.

        Args:
            preds: the hypotheses.
            target: the references of each hypothesis.
            sample_mask: which sentences count; all when None.
            index: the position of each sentence in the dataset; None if it is unknown.
            source: the source sentences, in any form that hypotheses can have.
            needs_text: whether the sentences must be text.

        Raises:
            TypeError: if they must, and are not.
        """
        source = source if self.keeps_texts else None
        reading = read(preds, target, sample_mask, index, source=source, settings=self.metric.settings)
        self.count(reading, needs_text=needs_text)

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of the next sentences will be kept."""
        return len(self._texts) < max(self.max_texts, _EXAMINED)

    def count(self, reading: Reading, *, needs_text: bool = False) -> None:
        """Count a batch that was read; see :meth:`update`."""
        batch, sources, mask, positions = reading
        if needs_text and batch.sentence_count and not isinstance(batch.segments, Strings):
            raise TypeError(
                f"BLEUCallback(others=...) needs text, got {kind_of(batch.segments)}: return strings, or decode ids "
                "with BLEUCallback(CorpusBLEU(decoder=tokenizer), ...)"
            )
        keeps_texts = self.keeps_texts
        for metric in self.metrics.values():
            metric.count(batch, mask, positions)
            batch = batch._replace(warnings=())  # each is said once
        if keeps_texts:
            self._texts += to_sentences(batch, sources, mask)

    def suspect_prompts(self) -> Iterator[str]:
        """Warn about hypotheses of this process that contain their source."""
        texts = [text for text in self._texts[:_EXAMINED] if text.source]
        yield from suspect_prompts(
            [text.hypothesis for text in texts],
            [text.references for text in texts],
            [text.source or "" for text in texts],
        )

    def forget_positions(self) -> None:
        """Count all sentences, even if they have the same position."""
        for metric in self.metrics.values():
            metric.sentences = [forget_positions(rows) for rows in metric.sentences]

    def result(self) -> Result:
        """Score the sentences of all processes. Collective."""
        own_count = sum(map(len, self.metric.sentences))
        counted = {}
        for tag, metric in self.metrics.items():
            with metric.sync_context():
                counted[tag] = Counted(metric.report(), metric.kept_sentences())
        kept, group = counted[next(iter(counted))].kept, self.metric.process_group
        owners = find_owners(kept.order, own_count, self.metric.device, group)
        return Result(counted, Sentences(self._texts, owners, kept.statistics, self.max_texts, group))

    def to(self, device: torch.device) -> None:
        """Move the metrics to a device."""
        for metric in self.metrics.values():
            metric.to(device)

    def reset(self) -> None:
        """Discard the statistics, which a result has as well."""
        for metric in self.metrics.values():
            metric.reset()


def has_sentences(preds: Any) -> bool:
    """Whether hypotheses can be counted; if not, they are of the wrong type."""
    return isinstance(preds, list | tuple) or bool(getattr(preds, "ndim", 0))
