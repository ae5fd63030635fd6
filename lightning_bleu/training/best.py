"""The best evaluation so far, and the comparison of others with it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import Tensor

from lightning_bleu.messages import warn_user
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.scoring.score import BLEUScore
from lightning_bleu.significance import PairedTest, paired_bootstrap


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
        """Compare an evaluation with the best so far. Collective: process 0 decides whether it is the new best.

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
            is_better = test.difference > 0 and test.p_value < (self.significance_level or math.inf)
            if not run_in_process_0(lambda: is_better):  # scores may differ in the last bit between processors
                return Comparison(test.p_value, _score(best, metric), test)
        if keep:
            self._statistics[name] = sentences.cpu()
            self._settings[name] = metric.settings.plain()
        return Comparison(test.p_value if test else 1.0, report.bleu, test)

    def _find_comparable(self, name: str, metric: CorpusBLEU, sentences: Tensor) -> Tensor | None:
        """The best so far; None if there is none, or if the two cannot be compared."""
        if name not in self._statistics:
            return None
        best, settings = self._statistics[name], metric.settings.plain()
        saved = self._settings.get(name, settings)  # early checkpoints have none
        reason = ""
        if changed := [option for option, value in settings.items() if option not in saved or saved[option] != value]:
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
