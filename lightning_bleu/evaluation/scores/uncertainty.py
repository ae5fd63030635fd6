"""How certain scores are: their intervals, and the comparison with the best validation so far.

Both come from resamples, which are sums of rows as well. All scores of the same sentences have the same resamples.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.core.messages import WarnOnce, warn_user
from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.core.packed_rows import IDENTITY_COLUMNS, checksums_of, positions_of
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.significance import (
    MIN_SENTENCES,
    PairedTest,
    default_resamples,
    describe_few_sentences,
    interval_of,
    judge,
    paired_test_of,
    score_resamples,
    sum_resamples,
)
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.scores.sentences import SavedLoaders, SentenceRows
from lightning_bleu.evaluation.scores.validation import Scored

_RESAMPLES = 1000
"""The number of resamples of an interval."""


class Resampled(NamedTuple):
    """The scores of resamples of one or several systems.

    Attributes:
        scores: shape ``(systems, 1 + resamples)``; the first one of each system is its score. See
            :func:`lightning_bleu.core.significance.score_resamples`.
        scorer: what the scores mean.
        sentence_count: the number of sentences; of a mean, that of its largest member.
    """

    scores: Tensor
    scorer: Scorer
    sentence_count: int

    def test_against_first(self, confidence: float) -> list[PairedTest]:
        """The paired test of each system but the first, against the first. With a single sentence, p is 1."""
        tests = []
        for scores in self.scores[1:]:
            test = paired_test_of(torch.stack([scores, self.scores[0]]), self.scorer, confidence)
            tests.append(test if self.sentence_count > 1 else replace(test, p_value=1.0))
        return tests


def resample(systems: Mapping[Name, Sequence[SentenceRows]], resamples: int, seed: int = 0) -> dict[Name, Resampled]:
    """Score systems and bootstrap resamples of their sentences.

    The resamples depend on the name of the loader only, so that another score changes none of them.

    Args:
        systems: the rows of the same sentences in each system, by the name of the score.
        resamples: the number of resamples.
        seed: the random seed.
    """
    names_by_loader: dict[str, list[Name]] = {}
    for name in systems:
        names_by_loader.setdefault(name.loader, []).append(name)
    resampled = {}
    for loader, names in names_by_loader.items():
        statistics = {name: [rows.statistics.double() for rows in systems[name]] for name in names}
        seed_of_loader = seed + zlib.crc32(loader.encode())  # that of an empty name is 0
        sums = iter(sum_resamples(list(chain(*statistics.values())), resamples, seed_of_loader))
        for name, of_name in statistics.items():
            scorer = systems[name][0].scorer
            scores = score_resamples(of_name, [next(sums) for _ in of_name], scorer)
            resampled[name] = Resampled(scores, scorer, len(systems[name][0]))
    return {name: resampled[name] for name in systems}


def resample_scored(
    scored: Sequence[Scored], systems: Mapping[Name, Sequence[SentenceRows]], resamples: int
) -> dict[Name, Resampled]:
    """The same for scores of a validation, and for the means of its loaders.

    Args:
        scored: the scores of a validation.
        systems: for some of the scores, the rows in each system.
        resamples: the number of resamples.
    """
    resampled = resample(systems, resamples)
    for mean in scored:
        is_mean_of_loaders = mean.mean_of and not mean.name.group
        if is_mean_of_loaders and all(name in resampled for name in mean.mean_of):
            resampled[mean.name] = _average([resampled[name] for name in mean.mean_of])
    return resampled


def _average(members: Sequence[Resampled]) -> Resampled:
    """The mean of scores in each resample."""
    means = torch.stack([member.scores for member in members]).mean(0)
    for system in range(len(means)):  # to the last bit the mean that is logged
        means[system, 0] = math.fsum(member.scores[system, 0].item() for member in members) / len(members)
    return Resampled(means, members[0].scorer, max(member.sentence_count for member in members))


def add_intervals(scored: Sequence[Scored], confidence: float) -> list[Scored]:
    """The scores with their confidence intervals, where they have rows; those of groups have none."""
    systems = {score.name: [score.rows] for score in scored if score.rows is not None and not score.name.group}
    resampled = resample_scored(scored, systems, _RESAMPLES)
    with_intervals = []
    for score in scored:
        if score.name in resampled:
            scores, scorer, _ = resampled[score.name]
            result = replace(score.result, interval=interval_of(scores[0], scorer, confidence))
            score = replace(score, result=result)
        with_intervals.append(score)
    return with_intervals


DEFAULT_CONFIDENCE = 0.95
"""The confidence level of comparisons if no intervals are requested."""
STATE_FORMAT = 3
"""The format of the states that are saved in checkpoints."""


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
            f"had other references for {logged!r}, or the same in another order (then give the index of each "
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
    if any(isinstance(value, torch.Tensor) for value in saved["settings"].values()):
        return False
    identity, statistics = saved.get("identity"), saved.get("statistics")
    if not isinstance(identity, torch.Tensor) or not isinstance(statistics, torch.Tensor):
        return False
    has_identity = identity.dtype == torch.int32 and identity.ndim == 2 and identity.shape[1] == IDENTITY_COLUMNS
    return has_identity and statistics.ndim == 2 and len(statistics) == len(identity)
