"""The best validation so far of each score, with which later validations are compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from lightning_bleu.core.messages import WarnOnce, warn_user
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.packed_rows import IDENTITY_COLUMNS, checksums_of, positions_of
from lightning_bleu.core.resampling import MIN_SENTENCES, PairedTest, describe_few_sentences, paired_test_of
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.verdict import default_resamples, judge
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.scored import Scored
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.scores.uncertainty import resample_scored

DEFAULT_CONFIDENCE = 0.95
"""The confidence level of comparisons if no intervals are requested."""
STATE_FORMAT = 3
"""The format of the states that are saved in checkpoints."""
SavedLoaders: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What is saved of a validation for one score: the rows of each loader as plain values, by its name."""


@dataclass(frozen=True, eq=False)
class Best:
    """The validation that a score is compared with.

    Attributes:
        rows: the rows of that validation, for the score of each loader.
        is_itself: whether it is the validation itself, because it is the first one or cannot be compared.
    """

    rows: Mapping[Name, SentenceRows]
    is_itself: bool

    @property
    def scorer(self) -> Scorer:
        """How rows become the score, which is the same for all loaders."""
        return next(iter(self.rows.values())).scorer


class BestValidations:
    """For each score, the validation with the best score of the whole, which is the mean of several loaders.

    Only those of process 0 matter.

    Args:
        confidence: the confidence level of the intervals of differences.
    """

    def __init__(self, confidence: float | None = None) -> None:
        self._confidence = confidence or DEFAULT_CONFIDENCE
        self._saved: dict[str, SavedLoaders] = {}  # by the logged name of the score of the whole validation
        self._warn_once = WarnOnce()

    # Finding

    def find(
        self, scored: Sequence[Scored], naming: Naming, *, may_compare: bool, may_replace: bool
    ) -> dict[Name, Best]:
        """The best validation of each score of the whole validation.

        Scores without rows or without a direction have none. If this validation lacks some loaders of the best one,
        nothing is compared, and that one stays. One that lacks all of them, or whose sentences differ, is its own best.

        Args:
            scored: the scores of a validation.
            naming: how names are written.
            may_compare: whether it may be compared with other validations.
            may_replace: whether later validations may be compared with it.
        """
        found = {}
        for whole in dict.fromkeys(score.name.whole for score in scored):
            own_rows = _rows_of_loaders(whole, scored)
            saved = self._saved.get(naming.render(whole), {}) if may_compare else {}
            if not own_rows or self._lacks_loaders(saved, own_rows, naming):
                continue
            difference = _describe_difference(saved, own_rows, naming) if saved else ""
            if difference:
                consequence = "counts as the first" if may_replace else "is compared with itself"
                warn_user(
                    f"The best validation so far {difference}: they cannot be compared, so this validation "
                    f"{consequence}"
                )
            if difference or not saved:
                found[whole] = Best(own_rows, is_itself=True)
            else:
                found[whole] = Best({name: _saved_rows(saved, name, own_rows) for name in own_rows}, is_itself=False)
        return found

    def _lacks_loaders(self, saved: SavedLoaders, own_rows: Mapping[Name, SentenceRows], naming: Naming) -> bool:
        """Whether a validation lacks some of the loaders of the best one, but not all; then it warns."""
        whole = next(iter(own_rows)).whole
        loaders = {name.loader for name in own_rows}
        missing = [naming.render(whole._replace(loader=loader)) for loader in saved if loader not in loaders]
        if not missing or len(missing) == len(saved):
            return False
        self._warn_once(
            f"This validation has no sentences of {missing}, unlike the best validation so far: they are not compared, "
            "and that one stays.",
            key=f"missing of {naming.render(whole)}",
        )
        return True

    # Comparing

    def compare(self, scored: Sequence[Scored], found: Mapping[Name, Best]) -> tuple[list[Scored], list[Name]]:
        """Compare the scores of a validation.

        Args:
            scored: the scores.
            found: what :meth:`find` returned.

        Returns:
            the scores with their comparisons, and the names of the scores of the whole validation for which this one is
            the best so far.
        """
        tests = self._test(scored, found)
        new = []
        for name, best in found.items():
            if best.is_itself or tests[name].difference * best.scorer.sign > 0:
                new.append(name)
        compared = []
        for score in scored:
            if score.name in tests:
                test, best = tests[score.name], found[score.name.whole]
                verdict = None if best.is_itself else judge(test, best.scorer.sign, self._confidence)
                result = replace(score.result, comparison=test, verdict=verdict)
                if score.name in found:
                    result = replace(result, best=result.score if score.name in new else test.score_b)
                score = replace(score, result=result)
            compared.append(score)
        return compared, new

    def _test(self, scored: Sequence[Scored], found: Mapping[Name, Best]) -> dict[Name, PairedTest]:
        """The paired test of each score of a loader, and of the means of loaders."""
        resamples = default_resamples(self._confidence)
        tests = {}
        systems = {}
        for score in scored:
            best = found.get(score.name.whole)
            if best is None or score.name.group:
                continue
            if best.is_itself:
                tests[score.name] = self._test_against_itself(score, best.scorer, resamples)
            elif score.rows is not None:
                systems[score.name] = [best.rows[score.name], score.rows]
        for name, resampled in resample_scored(scored, systems, resamples).items():
            (tests[name],) = resampled.test_against_first(self._confidence)
        return tests

    def _test_against_itself(self, score: Scored, scorer: Scorer, resamples: int) -> PairedTest:
        """The test of a validation that is its own best: no difference, and p = 1."""
        equal = torch.full((2, 1 + resamples), score.result.score, dtype=torch.float64, device="cpu")
        return paired_test_of(equal, scorer, self._confidence)

    # Saving

    def save(self, new: Mapping[str, SavedLoaders]) -> None:
        """Compare later validations with these."""
        self._saved.update(new)

    def state_dict(self) -> dict[str, Any]:
        """The validations, to save in a checkpoint; empty if there are none."""
        return {"format": STATE_FORMAT, "best": dict(self._saved)} if self._saved else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved; others, which are of another run, are forgotten."""
        self._saved = dict(state_dict.get("best", {}))


def _rows_of_loaders(whole: Name, scored: Sequence[Scored]) -> dict[Name, SentenceRows]:
    """The rows of a score, for each loader; empty if it is not compared."""
    members = [score for score in scored if score.name.whole == whole and not score.mean_of and not score.name.group]
    rows_by_name = {score.name: score.rows for score in members if score.rows is not None}
    if len(rows_by_name) < len(members):
        return {}
    have_direction = all(score.result.higher_is_better is not None for score in members)
    return rows_by_name if have_direction else {}


def _saved_rows(saved: SavedLoaders, name: Name, own_rows: Mapping[Name, SentenceRows]) -> SentenceRows:
    """The rows of a loader in the best validation."""
    of_loader = saved[name.loader]
    return SentenceRows(of_loader["identity"], of_loader["statistics"], own_rows[name].scorer)


def suspect_few_sentences(found: Mapping[Name, Best]) -> Iterator[Mistake]:
    """Comparisons of few sentences with another validation."""
    for best in found.values():
        sentence_count = sum(len(rows) for rows in best.rows.values())
        if not best.is_itself and sentence_count < MIN_SENTENCES:
            yield "few sentences", describe_few_sentences(sentence_count)


def _describe_difference(saved: SavedLoaders, own_rows: Mapping[Name, SentenceRows], naming: Naming) -> str:
    """Why a validation and the best one cannot be compared, as what that one did; empty if they can be."""
    unsaved = [naming.render(name) for name in own_rows if name.loader not in saved]
    if unsaved:
        return f"had no sentences of {unsaved}"
    for name, rows in own_rows.items():
        difference = _compare_loaders(saved[name.loader], rows, naming.render(name))
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
    then, now = saved["identity"], rows.identity
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


# Checkpoints


def to_saved(scored: Sequence[Scored], new: Collection[Name], naming: Naming) -> Mapping[str, SavedLoaders]:
    """What is saved of a validation, for the scores for which it is the best so far.

    Args:
        scored: the scores of the validation.
        new: the names of these scores of the whole validation.
        naming: how names are written.
    """
    saved: dict[str, dict[str, Mapping[str, Any]]] = {naming.render(whole): {} for whole in new}
    for score in scored:
        if score.name.whole in new and score.rows is not None and not score.name.group:
            saved[naming.render(score.name.whole)][score.name.loader] = {
                "identity": score.rows.identity.clone(),
                "statistics": score.rows.statistics.clone(),  # a view would save those of all metrics
                "settings": score.rows.scorer.plain_settings(),
            }
    return saved


def check_state(state_dict: Mapping[str, Any]) -> None:
    """Raise a ValueError for anything but a state of this version. A state without validations is {}."""
    if not isinstance(state_dict, Mapping):
        raise ValueError(f"expected evaluator.state_dict(), got {state_dict!r} of type {type(state_dict).__name__}")
    if state_dict.get("format", STATE_FORMAT) != STATE_FORMAT:
        raise ValueError(
            f"the state has the format {state_dict['format']!r}, and this version of lightning_bleu reads "
            f"{STATE_FORMAT}: load it with the version that saved it"
        )
    unknown = state_dict.keys() - {"format", "best"}
    if unknown:
        names = sorted(map(str, unknown))
        raise ValueError(f"expected evaluator.state_dict(), got a dict with the keys {names}")
    if not _is_saved(state_dict.get("best", {})):
        raise ValueError("expected evaluator.state_dict(), but 'best' in it is incomplete or no state")


def _is_saved(saved: Any) -> bool:
    """Whether a value has the validations that :func:`to_saved` returns."""
    if not isinstance(saved, Mapping) or not all(isinstance(loaders, Mapping) for loaders in saved.values()):
        return False
    return all(_is_saved_loader(of_loader) for loaders in saved.values() for of_loader in loaders.values())


def _is_saved_loader(saved: Any) -> bool:
    """Whether a value has what :func:`to_saved` returns for a loader."""
    if not isinstance(saved, Mapping) or not isinstance(saved.get("settings"), Mapping):
        return False
    identity, statistics = saved.get("identity"), saved.get("statistics")
    if not isinstance(identity, torch.Tensor) or not isinstance(statistics, torch.Tensor):
        return False
    has_identity = identity.dtype == torch.int32 and identity.ndim == 2 and identity.shape[1] == IDENTITY_COLUMNS
    return has_identity and statistics.ndim == 2 and len(statistics) == len(identity)
