"""Evaluations: the metric and the texts of each loader in a stage."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.reading.batch import read_sources
from lightning_bleu.reading.forms import Hypotheses, References, SampleMask
from lightning_bleu.reading.recognize import materialize
from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.significance import Interval
from lightning_bleu.training.best import BestSoFar, Comparison
from lightning_bleu.training.sentences import Sentence, Sentences, find_owners, to_sentences


class Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        report: the score and its components.
        interval: the confidence interval, if requested. For fewer than two sentences, both ends equal the score.
        comparison: the comparison with the best evaluation so far, if requested.
        sentences: the sentences, if their texts are kept.
    """

    report: BLEUScore
    interval: Interval | None = None
    comparison: Comparison | None = None
    sentences: Sentences | None = None

    def parts(self) -> dict[str, float]:
        """The values logged in addition to the score, by the last part of their names.

        Example:
            >>> from lightning_bleu import corpus_bleu
            >>> Result(corpus_bleu(["a b"], ["a c"], max_order=1)).parts()
            {'precision_1': 0.5, 'brevity_penalty': 1.0, 'length_ratio': 1.0, 'hypothesis_length': 2.0, \
'reference_length': 2.0}
        """
        parts = {f"precision_{n}": precision for n, precision in enumerate(self.report.precisions, 1)}
        for name in ("brevity_penalty", "length_ratio", "hypothesis_length", "reference_length"):
            parts[name] = float(getattr(self.report, name))
        if self.interval is not None:
            parts |= {"low": self.interval.low, "high": self.interval.high}
        if self.comparison is not None:
            parts |= {"p_value": self.comparison.p_value, "best": self.comparison.best}
        return parts


class Evaluation:
    """The metric and the texts of one loader in a stage.

    Args:
        names: the names below which the score is logged, such as ``("val_bleu", "news")``; empty ones are ignored.
        metric: the metric; it is copied.
        max_texts: how many sentences to keep as text, to show or write them; 0 for none.
        keep_sentences: whether to keep the statistics of every sentence, for intervals and tests. Texts imply it.

    Example:
        >>> evaluation = Evaluation(["val_bleu"], CorpusBLEU(tokenizer="none"), max_texts=10)
        >>> evaluation.update(["a b c d", "x y"], ["a b c d", "x z"], source=["A B C D", "X Y"])
        >>> result = evaluation.result()
        >>> result.report.matches, result.sentences.read([1])
        ((5, 3, 2, 1), [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    def __init__(
        self, names: Iterable[str], metric: CorpusBLEU, *, max_texts: float = 0, keep_sentences: bool = False
    ) -> None:
        self.names = [name for name in names if name]
        self.metric = copy.deepcopy(metric)
        self.max_texts = max_texts
        if keep_sentences or max_texts:
            self.metric.start_keeping_sentences()
        self.metric.reset()
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
        *,
        source: Hypotheses | None = None,
    ) -> None:
        """Count a batch; see :meth:`lightning_bleu.CorpusBLEU.update`.

        Args:
            preds: the hypotheses.
            target: the references of each hypothesis.
            sample_mask: which sentences count; all when None.
            source: the source sentences, in any form that hypotheses can have.
        """
        hypotheses: Any = materialize(preds)
        keeps_texts = len(self._texts) < self.max_texts
        sources = None
        if source is not None and keeps_texts and _has_sentences(hypotheses):
            sources = read_sources(source, len(hypotheses), self.metric.settings)
        self.metric.update(hypotheses, target, sample_mask)
        if keeps_texts and self.metric.last_batch is not None:
            self._texts += to_sentences(self.metric.last_batch, sources)

    def result(
        self, *, confidence: float | None = None, best: BestSoFar | None = None, keep_best: bool = True
    ) -> Result:
        """Score the sentences of all processes. Collective.

        Args:
            confidence: the confidence level of the interval; None for no interval.
            best: the best so far, to compare with; None for no comparison.
            keep_best: whether this evaluation becomes the new best if it is better.
        """
        metric, interval, sentences = self.metric, None, None
        # The first two columns are where items begin, and which sentences count.
        own = [rows[:, :2] for rows in metric.sentences] if self.max_texts else []
        with metric.sync_context():
            report = metric.report()
            if confidence is not None and len(metric.sentence_statistics) > 1:
                interval = metric.interval(confidence)
            elif confidence is not None:
                interval = Interval(report.bleu, report.bleu, report.bleu, confidence, (), report.percent)
            comparison = None if best is None else best.compare(self.tag, metric, keep=keep_best)
            if self.max_texts:
                owners = find_owners(own, metric.device)
                sentences = Sentences(self._texts, owners, metric.sentence_statistics, self.max_texts)
            return Result(report, interval, comparison, sentences)


def _has_sentences(preds: Any) -> bool:
    """Whether hypotheses can be counted; if not, they are of the wrong type."""
    return isinstance(preds, list | tuple) or bool(getattr(preds, "ndim", 0))
