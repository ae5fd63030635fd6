"""The validations with which others are compared: the best so far, the first, or the last clearly better one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from lightning_bleu.core.kept import checksums_of, positions_of
from lightning_bleu.core.messages import WarnOnce, warn_user
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.processes import gather_objects, process_count, run_in_process_0
from lightning_bleu.core.resampling import MIN_SENTENCES, PairedTest, describe_few_sentences, paired_test_of
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.verdict import Verdict, default_resamples, judge
from lightning_bleu.evaluation.names import MEAN, Name, Naming
from lightning_bleu.evaluation.result import OpponentKind
from lightning_bleu.evaluation.saved import STATE_FORMAT, SavedLoaders
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import SentenceRows, Sentences
from lightning_bleu.evaluation.uncertainty import resample_scored

DEFAULT_CONFIDENCE = 0.95
"""The confidence level of comparisons if no intervals are requested."""
_WORDS: dict[OpponentKind, str] = {
    "best": "best validation so far",
    "first": "first validation",
    "clear_best": "last clearly better validation",
}


@dataclass(frozen=True, eq=False)
class Opponent:
    """The validation that a score is compared with.

    Attributes:
        rows: the rows in that validation, for the score of each loader and group that is compared.
        is_itself: whether it is the validation itself, because it is the first one or cannot be compared.
    """

    rows: Mapping[Name, SentenceRows]
    is_itself: bool

    @property
    def scorer(self) -> Scorer:
        """How rows become the score, of each loader and group alike."""
        return next(iter(self.rows.values())).scorer


class Judgment(NamedTuple):
    """A score against that of the opponent."""

    test: PairedTest
    verdict: Verdict | None


class Opponents:
    """For each score, the validation with which others are compared.

    The best is that with the best score of the whole validation, which is the mean of several loaders.

    Args:
        kind: the best so far, the first, or the last that was clearly better than the clear best before.
        confidence: the confidence level of the intervals of differences.
    """

    def __init__(self, kind: OpponentKind, confidence: float | None = None) -> None:
        self.kind = kind
        self._confidence = confidence or DEFAULT_CONFIDENCE
        self._saved: dict[str, SavedLoaders] = {}  # by the logged name of the score of the whole validation
        self._warn_once = WarnOnce()

    # Finding

    def find(
        self,
        scored: Sequence[Scored],
        loaders: Sequence[Sentences],
        naming: Naming,
        *,
        may_compare: bool,
        may_replace: bool,
    ) -> dict[Name, Opponent]:
        """The opponent of each score of the whole validation. Collective.

        Scores without rows have none, and neither have scores without a direction, unless the first one is compared
        with. If this validation lacks some loaders of its opponent, nothing is compared, and that one stays. One that
        lacks all of them, or whose sentences differ, is its own opponent.

        Args:
            scored: the scores of a validation.
            loaders: its sentences.
            naming: how names are written.
            may_compare: whether it may be compared with other validations.
            may_replace: whether later validations may be compared with it.
        """
        opponents = {}
        for whole in dict.fromkeys(score.name.whole for score in scored):
            own_rows = self._find_own_rows(whole, scored)
            saved = self._saved.get(naming.render(whole), {}) if may_compare else {}
            loader_rows = {name.loader: rows for name, rows in own_rows.items() if not name.group}
            if not loader_rows or self._lacks_loaders(saved, loader_rows, whole, naming):
                continue
            if not saved or self._differs(saved, loader_rows, whole, naming, may_replace=may_replace):
                opponents[whole] = Opponent(own_rows, is_itself=True)
            else:
                opponents[whole] = Opponent(_select_saved(saved, own_rows), is_itself=False)
        _check_agreement(opponents)
        return opponents

    def _find_own_rows(self, whole: Name, scored: Sequence[Scored]) -> dict[Name, SentenceRows]:
        """The rows of a score, of each loader and group; empty if it is not compared."""
        members = [score for score in scored if score.name.whole == whole and not score.mean_of]
        if any(score.rows is None and not score.name.group for score in members):
            return {}
        has_best = members[0].result.higher_is_better is not None
        if not has_best and self.kind != "first":
            return {}
        return {score.name: score.rows for score in members if score.rows is not None}

    def _lacks_loaders(
        self, saved: SavedLoaders, loader_rows: Mapping[str, SentenceRows], whole: Name, naming: Naming
    ) -> bool:
        """Whether a validation lacks some of the loaders of its opponent, but not all; then it warns."""
        missing = [naming.render(whole._replace(loader=loader)) for loader in saved if loader not in loader_rows]
        if not missing or len(missing) == len(saved):
            return False
        self._warn_once(
            f"This validation has no sentences of {missing}, unlike the {_WORDS[self.kind]}: they are not compared, "
            "and that one stays.",
            key=f"missing of {naming.render(whole)}",
        )
        return True

    def _differs(
        self,
        saved: SavedLoaders,
        loader_rows: Mapping[str, SentenceRows],
        whole: Name,
        naming: Naming,
        *,
        may_replace: bool,
    ) -> bool:
        """Whether a validation cannot be compared with its opponent, because sentences differ; then it warns."""
        difference = _describe_difference(saved, loader_rows, whole, naming)
        if difference:
            is_first = may_replace and self.kind != "first"
            consequence = "counts as the first" if is_first else "is compared with itself"
            warn_user(
                f"The {_WORDS[self.kind]} {difference}: they cannot be compared, so this validation {consequence}"
            )
        return bool(difference)

    # Comparing

    def compare(self, scored: Sequence[Scored], opponents: Mapping[Name, Opponent]) -> tuple[list[Scored], list[Name]]:
        """Compare the scores of a validation. Collective.

        Args:
            scored: the scores.
            opponents: what :meth:`find` returned.

        Returns:
            the scores with their comparisons, and the names of the scores of the whole validation for which this one is
            the first, a new best, or clearly better. The opponent's score is its own then, even if it is not kept.
        """
        judgments = self._judge(scored, opponents)
        new = self._find_new(opponents, judgments)
        compared = []
        for score in scored:
            if score.name in judgments:
                test, verdict = judgments[score.name]
                result = replace(score.result, comparison=test, verdict=verdict, compared_with=self.kind)
                if score.name == score.name.whole:
                    opponent_score = score.result.score if score.name in new else test.score_b
                    result = replace(result, opponent_score=opponent_score)
                score = replace(score, result=result)
            compared.append(score)
        return compared, new

    def _judge(self, scored: Sequence[Scored], opponents: Mapping[Name, Opponent]) -> dict[Name, Judgment]:
        """The paired test of each score, and of the means of loaders. Collective."""
        resamples = default_resamples(self._confidence)
        judgments = {}
        systems = {}
        for score in scored:
            opponent = opponents.get(score.name.whole)
            if opponent is None or score.name.group == MEAN:
                continue
            if opponent.is_itself:
                if score.mean_of or score.name in opponent.rows:
                    test = self._test_against_itself(score, opponent.scorer, resamples)
                    judgments[score.name] = Judgment(test, None)
                continue
            opponent_rows, own_rows = opponent.rows.get(score.name), score.rows
            if opponent_rows is not None and own_rows is not None:
                systems[score.name] = [opponent_rows, own_rows]
        for name, resampled in resample_scored(scored, systems, resamples).items():
            (test,) = resampled.test_against_first(self._confidence)
            judgments[name] = Judgment(test, judge(test, resampled.scorer.sign, self._confidence))
        return judgments

    def _test_against_itself(self, score: Scored, scorer: Scorer, resamples: int) -> PairedTest:
        """The test of a validation that is its own opponent: no difference, and p = 1."""
        equal = torch.full((2, 1 + resamples), score.result.score, dtype=torch.float64, device="cpu")
        return paired_test_of(equal, scorer, self._confidence)

    def _find_new(self, opponents: Mapping[Name, Opponent], judgments: Mapping[Name, Judgment]) -> list[Name]:
        """The scores for which this validation is the first, a new best, or clearly better. Collective."""

        def find() -> list[Name]:
            new = []
            for whole, opponent in opponents.items():
                test, verdict = judgments[whole]
                improves = test.difference * opponent.scorer.sign > 0
                is_clear = verdict is not None and verdict.word == "better"
                replaces = {"first": False, "best": improves, "clear_best": is_clear}[self.kind]
                if opponent.is_itself or replaces:
                    new.append(whole)
            return new

        return run_in_process_0(find)  # scores may differ in the last bit between processors

    # Saving

    def save(self, new: Mapping[str, SavedLoaders]) -> None:
        """Compare later validations with these. The first one is never replaced."""
        self._saved = {**new, **self._saved} if self.kind == "first" else {**self._saved, **new}

    def state_dict(self) -> dict[str, Any]:
        """The validations, to save in a checkpoint; empty if there are none."""
        return {"format": STATE_FORMAT, self.kind: dict(self._saved)} if self._saved else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved.

        First validations that it does not have stay; others are forgotten, because they are those of another run.
        """
        if self.kind != "first":
            self._saved = {}
        self._saved.update(state_dict.get(self.kind, {}))


def suspect_few_sentences(opponents: Mapping[Name, Opponent]) -> Iterator[Mistake]:
    """Comparisons of few sentences with another validation."""
    for opponent in opponents.values():
        sentence_count = sum(len(rows) for name, rows in opponent.rows.items() if not name.group)
        if not opponent.is_itself and sentence_count < MIN_SENTENCES:
            yield "few sentences", describe_few_sentences(sentence_count)


def _select_saved(saved: SavedLoaders, own_rows: Mapping[Name, SentenceRows]) -> dict[Name, SentenceRows]:
    """The saved rows of loaders, and of the groups that have the same sentences in both validations."""
    selected = {}
    for name, rows in own_rows.items():
        saved_loader = saved[name.loader]
        saved_rows = SentenceRows(saved_loader["identity"], saved_loader["statistics"], rows.scorer)
        if not name.group:
            selected[name] = saved_rows
        elif name.group in saved_loader["groups"]:
            rows_of_group = saved_rows.select(saved_loader["groups"][name.group].tolist())
            if not _compare_sentences(rows_of_group.identity, rows.identity, name.group):
                selected[name] = rows_of_group
    return selected


def _describe_difference(
    saved: SavedLoaders, loader_rows: Mapping[str, SentenceRows], whole: Name, naming: Naming
) -> str:
    """Why a validation and its opponent cannot be compared, as what the opponent did; empty if they can be."""
    logged_names = {loader: naming.render(whole._replace(loader=loader)) for loader in loader_rows}
    unsaved = [logged for loader, logged in logged_names.items() if loader not in saved]
    if unsaved:
        return f"had no sentences of {unsaved}"
    for loader, rows in loader_rows.items():
        difference = _compare_loaders(saved[loader], rows, logged_names[loader])
        if difference:
            return difference
    return ""


def _compare_loaders(saved: Mapping[str, Any], rows: SentenceRows, logged: str) -> str:
    """What differs between a loader of two validations; empty if nothing does."""
    settings = rows.scorer.plain_settings()
    changed = [option for option, value in settings.items() if value != saved["settings"].get(option)]
    if changed:
        return f"scored {logged!r} with different settings ({', '.join(changed)})"
    if saved["statistics"].shape[1] != rows.statistics.shape[1]:
        return f"has statistics of {logged!r} from another version"
    return _compare_sentences(saved["identity"], rows.identity, logged)


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


def _check_agreement(opponents: Mapping[Name, Opponent]) -> None:
    """Raise a ValueError if processes would compare with different validations. Collective."""
    if process_count() == 1:
        return
    digests = gather_objects({whole: _digest(opponent) for whole, opponent in opponents.items()})
    differ = run_in_process_0(lambda: any(digest != digests[0] for digest in digests))
    if differ:
        raise ValueError(
            "the processes would compare this validation with different ones: load the same state in all of them"
        )


def _digest(opponent: Opponent) -> str:
    """What differs between processes that compare a score with different validations."""
    if opponent.is_itself:
        return "itself"
    digest = hashlib.blake2b(digest_size=16)
    for rows in opponent.rows.values():
        digest.update(rows.identity.contiguous().numpy().data)
        digest.update(rows.statistics.contiguous().numpy().data)
    return digest.hexdigest()
