"""Evaluations: the metric and the texts of each loader in a stage."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.counting.kept import KeptSentences, forget_positions
from lightning_bleu.reading.batch import read_sources
from lightning_bleu.reading.forms import Hypotheses, Index, References, SampleMask
from lightning_bleu.reading.recognize import materialize, read_sample_mask
from lightning_bleu.scoring.bleu import BLEUScore
from lightning_bleu.training.sentences import Sentence, Sentences, find_owners, to_sentences


class Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        report: the score and its components.
        kept: the sentences that count, with their statistics.
        sentences: the same sentences as text.
    """

    report: BLEUScore
    kept: KeptSentences
    sentences: Sentences

    def parts(self) -> dict[str, float]:
        """The values logged in addition to the score, by the last part of their names."""
        parts = {f"precision_{n}": precision for n, precision in enumerate(self.report.precisions, 1)}
        for name in ("brevity_penalty", "length_ratio", "hypothesis_length", "reference_length"):
            parts[name] = float(getattr(self.report, name))
        return parts


class Evaluation:
    """The metric and the texts of one loader in a stage.

    Args:
        stage_tag: the logged name of the score of the stage, such as ``"val_bleu"``.
        name: the name of the loader; empty if it has none.
        metric: the metric; it is copied.
        max_texts: how many sentences to keep as text, to show or write them; 0 for none.

    Example:
        >>> evaluation = Evaluation("val_bleu", "", CorpusBLEU(tokenizer="none"), max_texts=10)
        >>> evaluation.update(["a b c d", "x y"], ["a b c d", "x z"], source=["A B C D", "X Y"])
        >>> result = evaluation.result()
        >>> result.report.matches, result.sentences.read([1])
        ((5, 3, 2, 1), [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    def __init__(self, stage_tag: str, name: str, metric: CorpusBLEU, *, max_texts: float = 0) -> None:
        self.names = [*stage_tag.split("/"), *[name] * bool(name)]
        self.metric = copy.deepcopy(metric)
        self.max_texts = max_texts
        self.metric.reset()
        self.metric.start_keeping_sentences()
        self._texts: list[Sentence] = []

    @property
    def tag(self) -> str:
        """The logged name of the score."""
        return "/".join(self.names)

    def update(
        self,
        preds: Hypotheses,
        target: References,
        sample_mask: SampleMask | None = None,
        index: Index | None = None,
        *,
        source: Hypotheses | None = None,
    ) -> None:
        """Count a batch; see :meth:`lightning_bleu.CorpusBLEU.update`.

        Args:
            preds: the hypotheses.
            target: the references of each hypothesis.
            sample_mask: which sentences count; all when None.
            index: the position of each sentence in the dataset; None if it is unknown.
            source: the source sentences, in any form that hypotheses can have.
        """
        hypotheses: Any = materialize(preds)
        keeps_texts = len(self._texts) < self.max_texts
        sources = None
        if source is not None and keeps_texts and has_sentences(hypotheses):
            sources = read_sources(source, len(hypotheses), self.metric.settings)
        self.metric.update(hypotheses, target, sample_mask, index)
        if keeps_texts and (batch := self.metric.last_batch) is not None:
            mask = None if sample_mask is None else read_sample_mask(sample_mask, batch.sentence_count)
            self._texts += to_sentences(batch, sources, mask)

    def forget_positions(self) -> None:
        """Count all sentences, even if they have the same position."""
        self.metric.sentences = [forget_positions(rows) for rows in self.metric.sentences]

    def result(self) -> Result:
        """Score the sentences of all processes. Collective."""
        metric = self.metric
        own_count = sum(map(len, metric.sentences))
        with metric.sync_context():
            report, kept = metric.report(), metric.kept_sentences()
        group = metric.process_group
        owners = find_owners(kept.order, own_count, metric.device, group)
        return Result(report, kept, Sentences(self._texts, owners, kept.statistics, self.max_texts, group))


def has_sentences(preds: Any) -> bool:
    """Whether hypotheses can be counted; if not, they are of the wrong type."""
    return isinstance(preds, list | tuple) or bool(getattr(preds, "ndim", 0))
