"""The best validation so far of each score, with which others are compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from lightning_bleu.core.kept import checksums_of, positions_of
from lightning_bleu.core.messages import warn_user
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.processes import run_in_process_0
from lightning_bleu.core.resampling import MIN_SENTENCES, PairedTest, describe_few_sentences, paired_test_of
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.verdict import Verdict, default_resamples, judge
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import SentenceRows
from lightning_bleu.evaluation.uncertainty import resample_scored

DEFAULT_CONFIDENCE = 0.95
"""The confidence level of comparisons if no intervals are requested."""
STATE_FORMAT = 3
"""The format of the states that are saved in checkpoints."""
SavedLoaders: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What is saved of a validation for one score: the rows of each loader as plain values, by its name."""


@dataclass(frozen=True, eq=False)
class Opponent:
    """The validation that a score is compared with.

    Attributes:
        rows: the rows in that validation, for the score of each loader.
        is_itself: whether it is the validation itself, because it is the first one or cannot be compared.
    """

    rows: Mapping[Name, SentenceRows]
    is_itself: bool

    @property
    def scorer(self) -> Scorer:
        """How rows become the score, of each loader alike."""
        return next(iter(self.rows.values())).scorer


class Opponents:
    """The best validation of each score: that with the best score, or the best mean of several loaders.

    Args:
        confidence: the confidence level of the intervals of differences.
    """

    def __init__(self, confidence: float | None = None) -> None:
        self._confidence = confidence or DEFAULT_CONFIDENCE
        self._saved: dict[str, SavedLoaders] = {}  # by the logged name of the score of the whole validation

    def find(self, scored: Sequence[Scored], naming: Naming, *, may_compare: bool = True) -> dict[Name, Opponent]:
        """The opponent of each score of the whole validation.

        Scores without rows and without a direction have none. A validation with other sentences is its own opponent.

        Args:
            scored: the scores of a validation.
            naming: how names are written.
            may_compare: whether it may be compared with other validations.
        """
        opponents = {}
        for whole in dict.fromkeys(score.name.whole for score in scored):
            members = [
                score for score in scored if score.name.whole == whole and not score.mean_of and not score.name.group
            ]
            own_rows = {score.name: score.rows for score in members if score.rows is not None}
            if len(own_rows) < len(members) or members[0].result.higher_is_better is None:
                continue
            saved = self._saved.get(naming.render(whole)) if may_compare else None
            if saved is not None:
                difference = _describe_difference(saved, own_rows, naming)
                if difference:
                    warn_user(
                        f"The best validation so far {difference}: they cannot be compared, so this validation counts "
                        "as the first"
                    )
                    saved = None
            if saved is None:
                opponents[whole] = Opponent(own_rows, is_itself=True)
            else:
                saved_rows = {name: _to_rows(saved[name.loader], rows.scorer) for name, rows in own_rows.items()}
                opponents[whole] = Opponent(saved_rows, is_itself=False)
        return opponents

    def compare(self, scored: Sequence[Scored], opponents: Mapping[Name, Opponent]) -> tuple[list[Scored], list[Name]]:
        """Compare the scores of a validation. Collective.

        Args:
            scored: the scores.
            opponents: what :meth:`find` returned.

        Returns:
            the scores with their comparisons, and the names of the scores of the whole validation for which this one is
            the best so far.
        """
        resamples = default_resamples(self._confidence)
        systems = {}
        for score in scored:
            opponent = opponents.get(score.name.whole)
            if opponent is not None and not opponent.is_itself and score.name in opponent.rows:
                systems[score.name] = [opponent.rows[score.name], score.rows]
        resampled = resample_scored(scored, systems, resamples)
        judgments: dict[Name, tuple[PairedTest, Verdict | None]] = {}
        for score in scored:
            opponent = opponents.get(score.name.whole)
            if opponent is None or score.name.group:
                continue
            if opponent.is_itself:  # no difference, and p = 1
                equal = torch.full((2, 1 + resamples), score.result.score, dtype=torch.float64, device="cpu")
                judgments[score.name] = paired_test_of(equal, opponent.scorer, self._confidence), None
            else:
                (test,) = resampled[score.name].test_against_first(self._confidence)
                judgments[score.name] = test, judge(test, opponent.scorer.sign, self._confidence)
        # Scores may differ in the last bit between processors.
        new = run_in_process_0(lambda: [name for name in opponents if _improves(judgments[name][0], opponents[name])])
        compared = []
        for score in scored:
            if score.name in judgments:
                test, verdict = judgments[score.name]
                result = replace(score.result, comparison=test, verdict=verdict)
                if score.name in opponents:
                    result = replace(result, best=result.score if score.name in new else test.score_b)
                score = replace(score, result=result)
            compared.append(score)
        return compared, new

    # Saving

    def save(self, new: Mapping[str, SavedLoaders]) -> None:
        """Compare later validations with these."""
        self._saved.update(new)

    @property
    def checksum(self) -> int:
        """A checksum of the sentences and scores of the best validations, which all processes must share."""
        checksum = 0
        for saved in self._saved.values():
            for loader in saved.values():
                for tensor in (loader["identity"], loader["statistics"]):
                    checksum = zlib.crc32(tensor.contiguous().numpy().data, checksum)
        return checksum

    def state_dict(self) -> dict[str, Any]:
        """The validations, to save in a checkpoint; empty if there are none."""
        return {"format": STATE_FORMAT, "best": dict(self._saved)} if self._saved else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved. Others are forgotten: they are those of another run.

        Raises:
            ValueError: if it is no such state, or has a format that this version cannot read.
        """
        is_state = isinstance(state_dict, Mapping) and state_dict.keys() in (set(), {"format", "best"})
        if not is_state:
            raise ValueError(f"expected evaluator.state_dict(), got {state_dict!r}")
        if state_dict.get("format", STATE_FORMAT) != STATE_FORMAT:
            raise ValueError(
                f"the state has the format {state_dict['format']!r}, and this version of lightning_bleu reads "
                f"{STATE_FORMAT}: load it with the version that saved it"
            )
        self._saved = dict(state_dict.get("best", {}))


def to_saved(scored: Sequence[Scored], new: Sequence[Name], naming: Naming) -> dict[str, SavedLoaders]:
    """What is saved of a validation, for the scores for which it is the best so far.

    Args:
        scored: the scores of the validation.
        new: the names of these scores of the whole validation.
        naming: how names are written.
    """
    saved: dict[str, dict[str, Mapping[str, Any]]] = {naming.render(whole): {} for whole in new}
    for score in scored:
        if score.name.whole in new and score.rows is not None:
            saved[naming.render(score.name.whole)][score.name.loader] = {
                "identity": score.rows.identity.clone(),
                "statistics": score.rows.statistics.clone(),  # a view would save those of all metrics
                "settings": score.rows.scorer.plain_settings(),
            }
    return saved


def _improves(test: PairedTest, opponent: Opponent) -> bool:
    """Whether a score is the best so far."""
    return opponent.is_itself or test.difference * opponent.scorer.sign > 0


def _to_rows(saved: Mapping[str, Any], scorer: Scorer) -> SentenceRows:
    return SentenceRows(saved["identity"], saved["statistics"], scorer)


def suspect_few_sentences(opponents: Mapping[Name, Opponent]) -> Iterator[Mistake]:
    """Comparisons of few sentences with another validation."""
    for opponent in opponents.values():
        sentence_count = sum(len(rows) for rows in opponent.rows.values())
        if not opponent.is_itself and sentence_count < MIN_SENTENCES:
            yield "few sentences", describe_few_sentences(sentence_count)


def _describe_difference(saved: SavedLoaders, own_rows: Mapping[Name, SentenceRows], naming: Naming) -> str:
    """Why a validation cannot be compared with a saved one, as what that one did; empty if it can be."""
    if {name.loader for name in own_rows} != saved.keys():
        return f"had sentences of other loaders than {[naming.render(name) for name in own_rows]}"
    for name, rows in own_rows.items():
        then, logged = saved[name.loader], naming.render(name)
        settings = rows.scorer.plain_settings()
        changed = [option for option, value in settings.items() if value != then["settings"].get(option)]
        if changed:
            return f"scored {logged!r} with different settings ({', '.join(changed)})"
        if then["statistics"].shape[1] != rows.statistics.shape[1]:
            return f"has statistics of {logged!r} from another version"
        difference = _compare_sentences(then["identity"], rows.identity, logged)
        if difference:
            return difference
    return ""


def _compare_sentences(then: torch.Tensor, now: torch.Tensor, logged: str) -> str:
    """What differs between the identities of the sentences of two validations; empty if nothing does."""
    if len(then) != len(now):
        return f"had {len(then)} sentences of {logged!r}, and this one has {len(now)}"
    positions_then, positions_now = positions_of(then), positions_of(now)
    # Positions are unknown in one process without an index, and derived in several.
    are_known = (positions_then >= 0).all() and (positions_now >= 0).all()
    if are_known and not torch.equal(positions_then, positions_now):
        return f"had other sentences of {logged!r}"
    if not torch.equal(checksums_of(then), checksums_of(now)):
        return (
            f"had other references for {logged!r}, or the same in another order (then give the position of each "
            "sentence as 'index')"
        )
    return ""
