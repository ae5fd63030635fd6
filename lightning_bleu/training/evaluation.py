"""One evaluation of a model: its metric, its sentences, and the comparison with the best evaluation so far."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.counting.forms import Hypotheses, References, SampleMask
from lightning_bleu.functional import Counted
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.significance import Interval, PairedTest, paired_bootstrap
from lightning_bleu.user_warnings import warn_user

_MAX_TEXTS = 10_000
"""The maximum number of sentences whose text is kept until the end of an evaluation, to choose samples from."""


class Comparison(NamedTuple):
    """The comparison of an evaluation with the best one so far.

    Attributes:
        p_value: the p-value of the paired bootstrap; 1 if there is nothing to compare with.
        best: the score of the best evaluation so far, including this one.
        test: the paired test, if one was made.
    """

    p_value: float
    best: float
    test: PairedTest | None = None


class Result(NamedTuple):
    """The result of an evaluation.

    Attributes:
        report: the score and its components.
        interval: the confidence interval, if requested. For fewer than two sentences, both ends equal the score.
        comparison: the comparison with the best evaluation so far, if requested.
    """

    report: BLEUScore
    interval: Interval | None = None
    comparison: Comparison | None = None

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
    """The sentences of one stage and loader.

    Args:
        metric: the metric; it is copied.
        keep_texts: whether to keep the text of sentences, to show samples.
        keep_sentences: whether the copied metric keeps the statistics of every sentence, for intervals and tests.

    Example:
        >>> evaluation = Evaluation(CorpusBLEU(tokenizer="none"))
        >>> evaluation.update(["a b c d", "x y"], ["a b c d", "x z"])
        >>> evaluation.metric.report().matches, evaluation.text(1)
        ((5, 3, 2, 1), ('x y', ['x z']))
    """

    def __init__(self, metric: CorpusBLEU, *, keep_texts: bool = True, keep_sentences: bool = False) -> None:
        self.metric = copy.deepcopy(metric)
        if keep_sentences and not self.metric.keep_sentences:
            self.metric.start_keeping_sentences()
        self.keep_texts = keep_texts
        self._batches: list[Counted] = []
        self._statistics: list[Tensor] = []
        self.text_count = 0
        """The number of sentences whose text is kept; these are the first ones."""
        self.reset()

    def reset(self) -> None:
        """Discard all sentences."""
        self.metric.reset()
        self._batches.clear()
        self._statistics.clear()
        self.text_count = 0

    def update(self, preds: Hypotheses, target: References, sample_mask: SampleMask | None = None) -> None:
        """Count a batch; see :meth:`lightning_bleu.CorpusBLEU.update`."""
        self.metric.update(preds, target, sample_mask)
        if self.keep_texts and self.metric.last_batch is not None:
            self._statistics.append(self.metric.last_batch.statistics)
            if self.text_count < _MAX_TEXTS:
                self._batches.append(self.metric.last_batch)
                self.text_count += len(self.metric.last_batch.statistics)

    def result(
        self, name: str, *, confidence: float | None = None, best: BestSoFar | None = None, keep_best: bool = True
    ) -> Result:
        """Score the sentences of all processes.

        Args:
            name: the logged name of the score.
            confidence: the confidence level of the interval; None for no interval.
            best: the best so far, to compare with; None for no comparison.
            keep_best: whether this evaluation becomes the new best if it is better.
        """
        metric, interval = self.metric, None
        with metric.sync_context():
            report = metric.report()
            if confidence is not None and len(metric.sentence_statistics) > 1:
                interval = metric.interval(confidence)
            elif confidence is not None:
                interval = Interval(report.bleu, report.bleu, report.bleu, confidence, (), report.percent)
            comparison = None if best is None else best.compare(name, metric, keep=keep_best)
            return Result(report, interval, comparison)

    def statistics(self) -> Tensor:
        """The statistics of all sentences of this process, 0 for sentences that do not count.

        int64 of shape ``(sentences, 2 * max_order + 2)``, on the CPU.
        """
        empty = torch.zeros(0, 2 * self.metric.settings.max_order + 2, dtype=torch.int64, device="cpu")
        return torch.cat([statistics.cpu() for statistics in self._statistics]) if self._statistics else empty

    def text(self, sentence: int) -> tuple[str, list[str]]:
        """The text of a hypothesis and of its references.

        Raises:
            IndexError: for a sentence whose text was not kept.
        """
        for statistics, batch in self._batches:
            if sentence < len(statistics):
                return batch.texts(sentence)
            sentence -= len(statistics)
        raise IndexError(f"only {self.text_count} sentences have a text")


class BestSoFar:
    """The best evaluation so far, for each logged name.

    Args:
        significance_level: an evaluation becomes the new best only if its p-value is below this level. If None, any
            higher score does.
    """

    def __init__(self, significance_level: float | None = None) -> None:
        self.significance_level = significance_level
        self._statistics: dict[str, Tensor] = {}
        self._settings: dict[str, dict[str, Any]] = {}

    def compare(self, name: str, metric: CorpusBLEU, *, keep: bool = True) -> Comparison:
        """Compare an evaluation with the best so far.

        Args:
            name: the logged name of the score.
            metric: a metric with ``keep_sentences=True``.
            keep: whether the evaluation becomes the new best if it is better.
        """
        report, sentences = metric.report(), metric.sentence_statistics
        best = self._find_comparable(name, metric, sentences)
        if len(sentences) < 2:  # too few for a test
            return Comparison(1.0, report.bleu if best is None else _score(best, metric))
        test = None
        if best is not None:
            # The smallest possible p-value is 1 / (resamples + 1), so the level needs enough resamples.
            resamples = max(1000, math.ceil(10 / (self.significance_level or 1)))
            test = paired_bootstrap(metric, best, resamples)
            if test.difference <= 0 or test.p_value >= (self.significance_level or math.inf):
                return Comparison(test.p_value, _score(best, metric), test)
        if keep:
            self._statistics[name] = sentences.cpu()
            self._settings[name] = metric.settings.fingerprint()
        return Comparison(test.p_value if test else 1.0, report.bleu, test)

    def _find_comparable(self, name: str, metric: CorpusBLEU, sentences: Tensor) -> Tensor | None:
        """The best so far; None if there is none, or if the two cannot be compared."""
        if name not in self._statistics:
            return None
        best, settings = self._statistics[name], metric.settings.fingerprint()
        reason = ""
        if changed := [option for option, value in self._settings.get(name, {}).items() if settings[option] != value]:
            reason = f"was scored with different settings ({', '.join(changed)})"
        elif best.shape[1] != sentences.shape[1] or (len(sentences) > 1 and len(best) != len(sentences)):
            reason = f"had statistics of shape {tuple(best.shape)}, but this one has {tuple(sentences.shape)}"
        if reason:
            warn_user(
                f"The best epoch so far of {name!r} {reason}: they cannot be compared, so this epoch counts as the "
                "first"
            )
        return None if reason else best

    def state_dict(self) -> dict[str, Any]:
        """The best evaluations, to save in a checkpoint; empty if there are none."""
        return {"best": dict(self._statistics), "settings": dict(self._settings)} if self._statistics else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best evaluations from a checkpoint."""
        self._statistics = dict(state_dict.get("best", {}))
        self._settings = dict(state_dict.get("settings", {}))


def _score(statistics: Tensor, metric: CorpusBLEU) -> float:
    return BLEUScore.from_statistics(statistics.long().sum(0), metric.settings, "").bleu
