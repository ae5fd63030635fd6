"""The best validation so far, and the comparison of others with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.messages import WarnOnce, warn_user
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.scoring.resampling import PairedTest, paired_test_of, resample_scores
from lightning_bleu.scoring.scoring import Scoring

MIN_LEVEL = 0.001
"""The smallest significance level: a smaller one would need too many resamples in each validation."""


class Corpus(NamedTuple):
    """The sentences of a label, and how they are scored.

    Attributes:
        identity: what identifies each sentence; see :mod:`lightning_bleu.counting.kept`.
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scoring: how statistics become scores.
        settings: what the scores depend on, as plain values.
    """

    identity: Tensor
    statistics: Tensor
    scoring: Scoring
    settings: dict[str, Any]

    def score(self) -> float:
        """The score."""
        return self.scoring.score(self.statistics.sum(0)).item()

    def saved(self) -> dict[str, Any]:
        """All but the scoring, to save in a checkpoint. (A view of the statistics would save those of all metrics.)"""
        return {
            "identity": self.identity.clone(),
            "statistics": self.statistics.clone(),
            "settings": self.settings,
        }


def resample_labels(
    systems: Mapping[str, Sequence[Tensor]], corpora: Mapping[str, Corpus], resamples: int = 1000
) -> dict[str, Tensor]:
    """Score systems and their bootstrap resamples for each label, and the means over the labels.

    Args:
        systems: the statistics of each system, by label.
        corpora: how to score them, by label.
        resamples: the number of resamples.

    Returns:
        the scores of each label, and their mean as ``""``; see
        :func:`lightning_bleu.scoring.resampling.resample_scores`.
    """
    # Each label has its own seed, so that labels of the same size have different resamples.
    scores = {
        label: resample_scores([one.double() for one in systems[label]], corpus.scoring, resamples, seed)
        for seed, (label, corpus) in enumerate(corpora.items())
    }
    return scores | {"": torch.stack([*scores.values()]).mean(0)}


class BestSoFar:
    """The best validation so far: that with the best score, or with the best mean score of its labels.

    Args:
        significance_level: a validation becomes the new best only if its p-value is below this level. If None, any
            higher score does.
    """

    def __init__(self, significance_level: float | None = None) -> None:
        self.significance_level = significance_level
        self._best: dict[str, dict[str, Any]] = {}
        self._warn_once = WarnOnce()

    def compare(
        self, corpora: Mapping[str, Corpus], mean: str = "", *, keep: bool = True
    ) -> dict[str, tuple[PairedTest | None, float]]:
        """Compare a validation with the best so far. Collective: process 0 decides whether it is the new best.

        All labels are resampled (each with its own seed), and their scores are averaged. So the comparison is that of
        the mean. Single sentences are compared without a test.

        Args:
            corpora: the sentences of each label, by the logged name of its score.
            mean: the logged name of the mean of the scores; empty for no mean.
            keep: whether the validation becomes the new best if it is better.

        Returns:
            for each score, and for the mean, the paired test against the best validation so far (None without one), and
            the score of the best validation so far, which may be this one. Nothing if a label of the best is missing.
        """
        missing = [name for name in self._best if name not in corpora]
        if 0 < len(missing) < len(self._best):
            self._warn_once(
                f"This validation has no sentences of {missing}, unlike the best so far: they are not compared, and "
                "the best stays.",
                key="missing",
            )
            return {}
        reason = self._find_difference(corpora) if self._best else ""
        if reason:
            warn_user(
                f"The best validation so far {reason}: they cannot be compared, so this validation counts as the first"
            )
        tests: dict[str, PairedTest] = {}
        is_new, best = True, corpora
        if self._best and not reason:
            best = {name: corpus._replace(**self._best[name]) for name, corpus in corpora.items()}
            tests, is_better = self._test(corpora, best, mean)
            # Scores may differ in the last bit between processors.
            is_new = run_in_process_0(lambda: is_better)
        if is_new and keep:
            self._best = {name: corpus.saved() for name, corpus in corpora.items()}
        shown = {name: corpus.score() for name, corpus in (corpora if is_new else best).items()}
        if mean:
            shown[mean] = math.fsum(shown.values()) / len(shown)
        return {name: (tests.get(name), score) for name, score in shown.items()}

    def _test(
        self, corpora: Mapping[str, Corpus], best: Mapping[str, Corpus], mean: str
    ) -> tuple[dict[str, PairedTest], bool]:
        """The paired tests, and whether the validation is better than the best."""
        # The smallest possible p-value is 1 / (resamples + 1), so the level needs enough resamples.
        resamples = max(1000, math.ceil(10 / (self.significance_level or 1)))
        systems = {name: [corpus.statistics, best[name].statistics] for name, corpus in corpora.items()}
        scores = resample_labels(systems, corpora, resamples)
        means = scores.pop("")
        scoring = next(iter(corpora.values())).scoring  # all labels have one scale
        tests = {name: paired_test_of(one, scoring) for name, one in scores.items() if len(corpora[name].identity) > 1}
        p_value = 1.0
        if tests:
            test = paired_test_of(means, scoring)
            p_value = test.p_value
            tests |= {mean: test} if mean else {}
        difference = (means[0, 0] - means[1, 0]).item() * (1 if scoring.higher_is_better else -1)
        return tests, difference > 0 and p_value < (self.significance_level or math.inf)

    def _find_difference(self, corpora: Mapping[str, Corpus]) -> str:
        """Why a validation and the best so far cannot be compared; empty if they can be."""
        if added := [name for name in corpora if name not in self._best]:
            return f"had no sentences of {added}"
        for name, corpus in corpora.items():
            other = corpus._replace(**self._best[name])
            if changed := [
                option for option in corpus.settings if corpus.settings[option] != other.settings.get(option)
            ]:
                return f"scored {name!r} with different settings ({', '.join(changed)})"
            if other.statistics.shape[1] != corpus.statistics.shape[1]:
                return f"has statistics of {name!r} from another version"
            best, kept = (_in_order(identity) for identity in (other.identity, corpus.identity))
            if len(best.rows) != len(kept.rows):
                return f"had {len(best.rows)} sentences of {name!r}, and this one has {len(kept.rows)}"
            # Positions are unknown in one process without an index, and derived in several.
            known = (best.positions >= 0).all() and (kept.positions >= 0).all()
            if known and not torch.equal(best.positions, kept.positions):
                return f"had other sentences of {name!r}"
            if not torch.equal(best.checksums, kept.checksums):
                return (
                    f"had other references for {name!r}, or the same in another order (then return the position of "
                    "each sentence as 'index')"
                )
        return ""

    def state_dict(self) -> dict[str, Any]:
        """The best validation, to save in a checkpoint; empty if there is none."""
        return dict(self._best)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best validation from a checkpoint."""
        self._best = dict(state_dict)


def _in_order(identity: Tensor) -> KeptSentences:
    """What identifies the sentences of a validation, which are in order already."""
    return KeptSentences(identity, torch.arange(len(identity), device="cpu"))
