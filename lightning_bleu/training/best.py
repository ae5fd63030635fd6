"""The best validation so far, and the comparison of others with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.messages import warn_user
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.scoring.resampling import paired_test_of, resample_scores
from lightning_bleu.scoring.results import PairedTest
from lightning_bleu.scoring.scoring import Scoring

MIN_LEVEL = 0.001
"""The smallest significance level: a smaller one would need too many resamples in each validation."""


class Corpus(NamedTuple):
    """The sentences of a loader, and how they are scored.

    Attributes:
        kept: the sentences.
        scoring: how their statistics become scores.
        settings: what the scores depend on, as plain values.
    """

    kept: KeptSentences
    scoring: Scoring
    settings: dict[str, Any]

    @classmethod
    def of(cls, metric: CorpusMetric, kept: KeptSentences) -> Corpus:
        """The sentences of a metric."""
        return cls(kept, metric.scoring, metric.settings.plain())

    def score(self) -> float:
        """The score."""
        return self.scoring.score(self.kept.statistics.sum(0)).item()


class Comparison(NamedTuple):
    """The comparison of a score with that of the best validation so far.

    Attributes:
        p_value: the p-value of the paired bootstrap; 1 if there is nothing to compare with.
        best: the score in the best validation so far, which may be this one.
        test: the paired test, if one was made.
    """

    p_value: float
    best: float
    test: PairedTest | None = None


class BestSoFar:
    """The best validation so far: that with the best mean score of its loaders.

    Args:
        significance_level: a validation becomes the new best only if its p-value is below this level. If None, any
            higher score does.
    """

    def __init__(self, significance_level: float | None = None) -> None:
        self.significance_level = significance_level
        self._rows: dict[str, Tensor] = {}
        self._settings: dict[str, dict[str, Any]] = {}

    def compare(self, corpora: Mapping[str, Corpus], *, keep: bool = True) -> tuple[Comparison, dict[str, Comparison]]:
        """Compare a validation with the best so far. Collective: process 0 decides whether it is the new best.

        All loaders are resampled (each with its own seed), and their scores are averaged. So the comparison is that of
        the mean.

        Args:
            corpora: the sentences of each loader, by the logged name of its score.
            keep: whether the validation becomes the new best if it is better.

        Returns:
            the comparison of the mean, and that of each loader.
        """
        testable = any(len(corpus.kept.rows) > 1 for corpus in corpora.values())
        best = self._find_comparable(corpora, testable=testable)
        tests = {}
        if best and testable:
            # The smallest possible p-value is 1 / (resamples + 1), so the level needs enough resamples.
            resamples = max(1000, math.ceil(10 / (self.significance_level or 1)))
            scores = {
                name: resample_scores(
                    [one.kept.statistics.double() for one in (corpus, best[name])], corpus.scoring, resamples, seed
                )
                for seed, (name, corpus) in enumerate(corpora.items())
            }
            scoring = next(iter(corpora.values())).scoring  # all loaders have one scale
            tests = {
                name: paired_test_of(one, scoring) for name, one in scores.items() if len(corpora[name].kept.rows) > 1
            }
            mean = paired_test_of(torch.stack([*scores.values()]).mean(0), scoring)
            is_better = mean.difference > 0 and mean.p_value < (self.significance_level or math.inf)
            # Scores may differ in the last bit between processors.
            is_new = run_in_process_0(lambda: is_better)
        else:
            mean = None
            is_new = testable and not best
        if is_new and keep:
            self._rows = {name: corpus.kept.rows for name, corpus in corpora.items()}
            self._settings = {name: corpus.settings for name, corpus in corpora.items()}
        shown = corpora if is_new or not best else best
        shown_scores = {name: corpus.score() for name, corpus in shown.items()}
        comparisons = {name: _comparison(one, tests.get(name)) for name, one in shown_scores.items()}
        return _comparison(math.fsum(shown_scores.values()) / len(shown_scores), mean), comparisons

    def _find_comparable(self, corpora: Mapping[str, Corpus], *, testable: bool) -> dict[str, Corpus]:
        """The best so far; empty if there is none, or if the two cannot be compared."""
        if not self._rows:
            return {}
        reason = self._find_difference(corpora, testable=testable)
        if reason:
            warn_user(
                f"The best validation so far {reason}: they cannot be compared, so this validation counts as the first"
            )
            return {}
        return {name: corpus._replace(kept=_in_order(self._rows[name])) for name, corpus in corpora.items()}

    def _find_difference(self, corpora: Mapping[str, Corpus], *, testable: bool) -> str:
        if self._rows.keys() != corpora.keys():
            return f"was one of the loaders {[*self._rows]}, and this one is of {[*corpora]}"
        for name, (kept, _, settings) in corpora.items():
            saved, rows = self._settings.get(name), self._rows[name]
            changed = [option for option, value in settings.items() if saved and saved.get(option, saved) != value]
            if changed:
                return f"scored {name!r} with different settings ({', '.join(changed)})"
            if not saved or rows.shape[1] != kept.rows.shape[1]:
                return f"has statistics of {name!r} from another version"
            if not testable:
                continue
            best = _in_order(rows)
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
        return {"best": dict(self._rows), "settings": dict(self._settings)} if self._rows else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best validation from a checkpoint."""
        self._rows = dict(state_dict.get("best", {}))
        self._settings = dict(state_dict.get("settings", {}))


def _in_order(rows: Tensor) -> KeptSentences:
    """The rows of an earlier validation, which are in order already."""
    return KeptSentences(rows, torch.arange(len(rows), device="cpu"))


def _comparison(best: float, test: PairedTest | None) -> Comparison:
    return Comparison(test.p_value if test else 1.0, best, test)
