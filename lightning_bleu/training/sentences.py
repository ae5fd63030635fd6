"""The sentences of all processes in order: their texts, their statistics, and what is compared with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lightning_bleu.counting.kept import KeptSentences
from lightning_bleu.messages import WarnOnce, warn_user
from lightning_bleu.processes import gather_objects, process_rank, run_in_process_0
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.forms import Strings
from lightning_bleu.scoring.resampling import interval_of, paired_test_of, resample_scores
from lightning_bleu.scoring.scoring import Scoring

MIN_LEVEL = 0.001
"""The smallest significance level: a smaller one would need too many resamples in each validation."""
_RESAMPLES = 1000
OpponentKind: TypeAlias = Literal["best", "first"]


class Sentence(NamedTuple):
    """A sentence as text.

    Attributes:
        hypothesis: the hypothesis.
        references: its references.
        source: the source sentence, if the step returned one.
        tokenized: whether the texts are tokens separated by spaces, rather than text that is still to be tokenized.
    """

    hypothesis: str
    references: list[str]
    source: str | None = None
    tokenized: bool = False


def to_sentences(batch: Batch, sources: Iterable[str] | None) -> list[Sentence]:
    """The sentences of a batch as text."""
    lines = [None] * batch.sentence_count if sources is None else sources
    tokenized = not isinstance(batch.segments, Strings)
    return [Sentence(*text, source, tokenized) for text, source in zip(batch.texts(), lines)]


class Sentences:
    """The sentences of a subset that count, of all processes, in order: their rows, and their texts.

    They are numbered from 0, in this order. All processes must call the same methods with the same arguments.

    Args:
        kept: a row per sentence: what identifies it, then the statistics of all metrics, side by side.
        columns: where the statistics of each metric are in these rows, by the name of the metric.
        counts: the number of sentences of each process, with repeated ones.
        own: the texts of the first sentences of this process.
        limit: the number of sentences of each process whose text is kept, if it has as many.

    Attributes:
        kept: see above.
        readable: the numbers of the sentences whose text is kept, at most `limit`.
    """

    def __init__(
        self,
        kept: KeptSentences,
        columns: Mapping[str, slice],
        counts: Sequence[int],
        own: Sequence[Sentence],
        limit: float,
    ) -> None:
        self.kept = kept
        self._columns = columns
        self._own = own
        self._owners = find_owners(kept.order, counts)
        readable = (self._owners[:, 1] < limit).nonzero()[:, 0]
        self.readable: list[int] = readable[: min(len(readable), limit)].tolist()

    def statistics(self, name: str) -> Tensor:
        """The statistics of a metric, int32 of shape ``(sentences, columns)``."""
        return self.kept.rows[:, self._columns[name]]

    def owned_by(self, process: int) -> Tensor:
        """The numbers of the sentences of a process."""
        return (self._owners[:, 0] == process).nonzero()[:, 0]

    def own(self) -> list[Sentence]:
        """The texts of the sentences of this process, all of which are kept."""
        return [self._own[index] for index in self._owners[self.owned_by(process_rank()), 1].tolist()]

    @cached_property
    def texts(self) -> list[Sentence]:
        """All texts that are kept; see :meth:`read`. Collective when it is first used."""
        return self.read(self.readable)

    def read(self, numbers: Sequence[int]) -> list[Sentence]:
        """The texts of some sentences. Only process 0 receives them; the others get an empty list. Collective."""
        owners = self._owners[list(numbers)].tolist()
        rank = process_rank()
        gathered = gather_objects({index: self._own[index] for owner, index in owners if owner == rank})
        return [gathered[owner][index] for owner, index in owners] if gathered else []


def find_owners(order: Tensor, counts: Sequence[int]) -> Tensor:
    """The process of each sentence, and its index there.

    Args:
        order: the index of each sentence among those of all processes, shape ``(sentences,)``.
        counts: the number of sentences of each process.

    Returns:
        integers of shape ``(sentences, 2)``.

    Example:
        >>> find_owners(torch.tensor([2, 0, 4]), [3, 2])
        tensor([[0, 2],
                [0, 0],
                [1, 1]])
    """
    own = torch.tensor(counts, device="cpu")
    ends = own.cumsum(0)
    owner = torch.searchsorted(ends, order, right=True)
    return torch.stack([owner, order - (ends - own)[owner]], 1)


class Corpus(NamedTuple):
    """The statistics of one metric of the sentences of a subset, and how they are scored.

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
        return {"identity": self.identity.clone(), "statistics": self.statistics.clone(), "settings": self.settings}


@dataclass(eq=False)
class Opponent:
    """The validation with which others are compared: the best so far, or the first.

    The best is that with the best score, or with the best mean score of its subsets.

    Args:
        kind: which one.
        significance_level: a validation becomes the new best only if its p-value is below this level. If None, any
            higher score does.
        confidence: the confidence level of the interval of the difference; 0.95 when None.
    """

    kind: OpponentKind = "best"
    significance_level: float | None = None
    confidence: float | None = None
    _kept: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _warn_once: WarnOnce = field(default_factory=WarnOnce, init=False)

    def find(self, corpora: Mapping[str, Corpus], *, keep: bool = True) -> list[Mapping[str, Corpus]]:
        """This validation, and the one to compare it with; nothing if this one lacks a subset of that.

        This validation alone, if it is the first one, or if they cannot be compared.
        """
        label = "best validation so far" if self.kind == "best" else "first validation"
        missing = [name for name in self._kept if name not in corpora]
        if 0 < len(missing) < len(self._kept):
            self._warn_once(
                f"This validation has no sentences of {missing}, unlike the {label}: they are not compared, and that "
                "one stays.",
                key="missing",
            )
            return []
        reason = self._find_difference(corpora) if self._kept else ""
        if reason:
            counts = "counts as the first" if keep and self.kind == "best" else "is compared with itself"
            warn_user(f"The {label} {reason}: they cannot be compared, so this validation {counts}")
        if reason or not self._kept:
            return [corpora]
        return [corpora, {name: corpus._replace(**self._kept[name]) for name, corpus in corpora.items()}]

    def compare(
        self, validations: Sequence[Mapping[str, Corpus]], scores: Mapping[str, Tensor], mean: str, *, keep: bool = True
    ) -> dict[str, dict[str, Any]]:
        """Compare what :meth:`find` returned. Collective: process 0 decides whether the validation is the best.

        The scores of the subsets are averaged in each resample. So the comparison is that of the mean. With a single
        sentence, nothing is known about chance, so the p-value is 1.

        Args:
            validations: the validation, and the one to compare it with, unless it is the same.
            scores: the scores of each subset and of its resamples, and their mean; see
                :func:`lightning_bleu.scoring.resampling.resample_scores`.
            mean, keep: see :func:`find_uncertainty`.
        """
        corpora, others = validations[0], validations[-1]
        scoring = next(iter(corpora.values())).scoring  # all subsets have one scale
        tests = {name: paired_test_of(one, scoring, self.confidence or 0.95) for name, one in scores.items()}
        single = [name for name, corpus in corpora.items() if len(corpus.identity) == 1]
        for name in [*single, mean] if len(single) == len(corpora) else single:
            tests[name] = replace(tests[name], p_value=1.0)
        gain = tests[mean].difference * (1 if scoring.higher_is_better else -1)
        is_better = gain > 0 and tests[mean].p_value < (self.significance_level or math.inf)
        # Scores may differ in the last bit between processors.
        is_new = others is corpora or (self.kind == "best" and run_in_process_0(lambda: is_better))
        if is_new and (keep if self.kind == "best" else not self._kept):
            self._kept = {name: corpus.saved() for name, corpus in corpora.items()}
        shown = {name: corpus.score() for name, corpus in (corpora if is_new else others).items()}
        shown[mean] = math.fsum(shown.values()) / len(shown)
        return {name: {"comparison": tests[name], self.kind: score} for name, score in shown.items()}

    def _find_difference(self, corpora: Mapping[str, Corpus]) -> str:
        """Why a validation and the opponent cannot be compared; empty if they can be."""
        if added := [name for name in corpora if name not in self._kept]:
            return f"had no sentences of {added}"
        for name, corpus in corpora.items():
            other = corpus._replace(**self._kept[name])
            if changed := [option for option, one in corpus.settings.items() if one != other.settings.get(option)]:
                return f"scored {name!r} with different settings ({', '.join(changed)})"
            if other.statistics.shape[1] != corpus.statistics.shape[1]:
                return f"has statistics of {name!r} from another version"
            then, now = (_in_order(identity) for identity in (other.identity, corpus.identity))
            if len(then.rows) != len(now.rows):
                return f"had {len(then.rows)} sentences of {name!r}, and this one has {len(now.rows)}"
            # Positions are unknown in one process without an index, and derived in several.
            known = (then.positions >= 0).all() and (now.positions >= 0).all()
            if known and not torch.equal(then.positions, now.positions):
                return f"had other sentences of {name!r}"
            if not torch.equal(then.checksums, now.checksums):
                return (
                    f"had other references for {name!r}, or the same in another order (then give the position of "
                    "each sentence as 'index')"
                )
        return ""

    def state_dict(self) -> dict[str, Any]:
        """The validation that is kept, to save in a checkpoint; empty if there is none."""
        return dict(self._kept)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the validation from a checkpoint."""
        self._kept = dict(state_dict)


def find_uncertainty(
    corpora: Mapping[str, Corpus],
    mean: str,
    confidence: float | None = None,
    opponent: Opponent | None = None,
    *,
    keep: bool = True,
) -> dict[str, dict[str, Any]]:
    """The confidence intervals and comparisons of scores, from one set of resamples. Collective with an opponent.

    Args:
        corpora: the sentences of each subset, by the logged name of its score.
        mean: the logged name of the mean of the scores, which may be that of a single subset.
        confidence: the confidence level of the intervals; None for no intervals.
        opponent: what to compare with; None for no comparison.
        keep: whether the validation may replace the opponent.

    Returns:
        for each score, and for the mean: ``interval``, ``comparison``, and ``best`` or ``first``, as far as there are
        any; see :class:`lightning_bleu.training.metrics.Result`.
    """
    validations = [] if opponent is None else opponent.find(corpora, keep=keep)
    if confidence is None and not validations:
        return {}
    # The smallest possible p-value is 1 / (resamples + 1), so a significance level needs enough resamples.
    level = (opponent and opponent.significance_level) or 1
    resamples = max(_RESAMPLES, math.ceil(10 / level))
    systems = validations or [corpora]
    # Each subset has its own seed, so that subsets of the same size have different resamples.
    scores = {
        name: resample_scores([one[name].statistics.double() for one in systems], corpus.scoring, resamples, seed)
        for seed, (name, corpus) in enumerate(corpora.items())
    }
    scores[mean] = torch.stack([*scores.values()]).mean(0)
    compared = opponent.compare(validations, scores, mean, keep=keep) if opponent and validations else {}
    found = {name: compared.get(name, {}) for name in scores}
    if confidence is not None:
        scoring = next(iter(corpora.values())).scoring  # all subsets have one scale
        for name, (own, *_) in scores.items():
            found[name]["interval"] = interval_of(own[: _RESAMPLES + 1], scoring, confidence)
    return found


def _in_order(identity: Tensor) -> KeptSentences:
    """What identifies the sentences of a validation, which are in order already."""
    return KeptSentences(identity, torch.arange(len(identity), device="cpu"))
