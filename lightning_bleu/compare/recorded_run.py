"""A training run, read from its record: its validations, and the best of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_bleu.compare.run_page import describe_run, find_main_key, is_test
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.messages import warn_user
from lightning_bleu.evaluation.findings import Finding
from lightning_bleu.observers.recorded import find_run, find_validations, read_scores
from lightning_bleu.views.blocks import View
from lightning_bleu.views.viewable import Viewable


@dataclass(frozen=True)
class RecordedValidation:
    """A validation in the record of a run.

    Attributes:
        stage: ``"val"`` or ``"test"``; in Trainers of Transformers, ``"eval"``, or ``"eval_news"`` for a
            dataset with a name.
        step: the number of training steps before it.
        epoch: the epoch; None if it is unknown.
        scores: its scores in ``scores.json``, by logged name.
        folders: the folders of its sentences, by the names of the loaders.
        findings: what stands out in its texts.
    """

    stage: str
    step: int
    epoch: float | None
    scores: Mapping[str, dict[str, Any]]
    folders: Mapping[str, Path]
    findings: Sequence[Finding]

    def score(self, key: str) -> float | None:
        """The score with a logged name; None if there is none."""
        line = self.scores.get(key)
        return None if line is None else line["score"]


@dataclass(frozen=True, repr=False)
class RecordedRun(Viewable):
    """The record of a run; see :func:`read_run`.

    Example:
        >>> import tempfile
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator(translations=tempfile.mkdtemp())
        >>> evaluator.start()
        >>> evaluator.update(["a cat sat"], ["a cat sat"])
        >>> results = evaluator.finish(step=500)
        >>> read_run(evaluator.options.translations).best("val_bleu").step
        500

    Attributes:
        folder: the folder of the record.
        validations: the validations in the order of their steps, one per step. Of a loader that was validated again at
            a step, the last scores.

    Notes:
        ``print(run)`` shows it as text, a notebook as tables and charts, and :meth:`to_html` writes a page.
    """

    folder: Path
    validations: Sequence[RecordedValidation]

    @property
    def stages(self) -> list[str]:
        """The stages that have validations."""
        return list(dict.fromkeys(validation.stage for validation in self.validations))

    def of_stage(self, stage: str) -> list[RecordedValidation]:
        """The validations of a stage."""
        return [validation for validation in self.validations if validation.stage == stage]

    def best(self, key: str) -> RecordedValidation | None:
        """The validation with the best score; None if there is none, or if neither higher nor lower is better.

        Args:
            key: the logged name of the score, such as ``"val_bleu"``.
        """
        best = None
        best_gain = 0.0
        for validation in self.validations:
            score = validation.score(key)
            if score is None or validation.scores[key]["higher_is_better"] is None:
                continue
            gain = score if validation.scores[key]["higher_is_better"] else -score
            if best is None or gain > best_gain:
                best, best_gain = validation, gain
        return best

    def find_best(self) -> tuple[RecordedValidation, str]:
        """The best validation, and the logged name of the score that says so.

        That of all sentences of the first metric that has a direction; without one, the latest, and no name. Tests
        count only if there is nothing else.
        """
        validations = [validation for validation in self.validations if not is_test(validation.stage)]
        key = find_main_key(validations or self.validations)
        best = self.best(key)
        return (best, key) if best is not None else ((validations or self.validations)[-1], "")

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`Viewable`."""
        return describe_run(self, examples)

    def __repr__(self) -> str:
        return f"RecordedRun({to_line(str(self.folder), 60)!r}; {len(self.validations):,} validations)"


def read_run(folder: str | os.PathLike[str]) -> RecordedRun:
    """Read the record of a training run.

    Example:
        >>> import tempfile
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> folder = tempfile.mkdtemp()
        >>> evaluator = Evaluator(CorpusBLEU(percent=True, max_order=2), translations=folder)
        >>> for step, hypotheses in enumerate([["the dog lay", "a cat"], ["the dog sat", "a cat"]], 1):
        ...     evaluator.start()
        ...     evaluator.update(hypotheses, ["the cat sat", "a cat"])
        ...     _ = evaluator.finish(100 * step)
        >>> run = read_run(folder)
        >>> run.best("val_bleu").step
        200
        >>> [round(validation.scores["val_bleu"]["score"], 2) for validation in run.validations]
        [44.72, 51.64]

    Args:
        folder: what ``translations`` of :class:`.Evaluator` was set to, or the folder in which ``translations=True``
            has made it.

    Returns:
        the run, to look at.

    Raises:
        FileNotFoundError: if there is no validation in the folder.
        ValueError: for a record of an earlier version, and for a link that leads out of the folder.

    Notes:
        Validations that cannot be read are skipped with a warning.
    """
    run = find_run(Path(folder).expanduser())
    validations_by_step: dict[tuple[Path, int], RecordedValidation] = {}
    errors = []
    for path in find_validations(run):
        try:
            scores = read_scores(path)
        except (ValueError, OSError) as error:
            errors.append(str(error))
            continue
        step = (path.parent, scores["step"])
        validations_by_step[step] = _merge(validations_by_step.get(step), scores)
    if errors:
        warn_user(f"{len(errors):,} validations cannot be read, and are skipped, such as: {errors[0]}")
    return RecordedRun(run, sorted(validations_by_step.values(), key=_by_stage_and_step))


def _merge(earlier: RecordedValidation | None, later: Mapping[str, Any]) -> RecordedValidation:
    """A validation, with what the one before it has of other loaders at the same step."""
    folders = {loader["name"]: loader["folder"] for loader in later["loaders"]}
    scores = {score["key"]: score for score in later["scores"]}
    findings = []
    for loader in later["loaders"]:
        findings += [Finding(finding["key"], finding["message"], loader["name"]) for finding in loader["findings"]]
    if earlier is not None:
        findings = [finding for finding in earlier.findings if finding.where not in folders] + findings
        scores = {key: score for key, score in earlier.scores.items() if score["loader"] not in folders} | scores
        for key, score in scores.items():
            if score["loader"] is None:
                members = [*earlier.scores.get(key, score)["mean_of"], *score["mean_of"]]
                scores[key] = _average(score, [scores[name] for name in dict.fromkeys(members) if name in scores])
        folders = {**earlier.folders, **folders}
    return RecordedValidation(later["stage"], later["step"], later["epoch"], scores, folders, findings)


def _average(mean: dict[str, Any], scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A mean over loaders; computed again if it is that of other scores than these."""
    names = [score["key"] for score in scores]
    if mean["mean_of"] == names:
        return mean
    values = [score["score"] for score in scores]
    value = None if None in values or not values else math.fsum(values) / len(values)
    return {**mean, "mean_of": names, "score": value, "interval": None, "comparison": None}


def _by_stage_and_step(validation: RecordedValidation) -> tuple[bool, str, int]:
    """Validations before tests, each in the order of its steps."""
    return is_test(validation.stage), validation.stage, validation.step
