"""A training run, read from its record: its validations, and the best of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lightning_bleu.compare.run_page import describe_run, find_main_key, is_test
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.messages import warn_user
from lightning_bleu.evaluation.findings import Finding
from lightning_bleu.observers.recorded import find_run, find_validations, name_folder, read_name, read_scores
from lightning_bleu.views.blocks import View
from lightning_bleu.views.viewable import Viewable

_MAX_SHOWN = 3
"""How many unreadable validations a warning shows."""


class RecordedLoader(NamedTuple):
    """A loader of a validation in the record of a run.

    Attributes:
        folder: the folder of its sentences.
        findings: what stands out in them: pairs of a key and a message.
    """

    folder: Path
    findings: Sequence[Sequence[str]]


@dataclass(frozen=True)
class RecordedValidation:
    """A validation in the record of a run.

    Attributes:
        stage: ``"val"`` or ``"test"``; in Trainers of Transformers, ``"eval"``, or ``"eval_news"`` for a
            dataset with a name.
        step: the number of training steps before it.
        epoch: the epoch; None if it is unknown.
        scores: its scores in ``scores.json``, by logged name.
        loaders: its loaders by name.
    """

    stage: str
    step: int
    epoch: float | None
    scores: Mapping[str, Mapping[str, Any]]
    loaders: Mapping[str, RecordedLoader]

    @property
    def findings(self) -> list[Finding]:
        """What stands out in its texts. If it has several loaders, each says which one."""
        return [
            Finding(key, message, name if len(self.loaders) > 1 else "")
            for name, loader in self.loaders.items()
            for key, message in loader.findings
        ]

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
        best = None if key is None else self.best(key)
        if key is None or best is None:
            return (validations or self.validations)[-1], ""
        return best, key

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
    read: dict[tuple[Path, int], list[tuple[Path, dict[str, Any]]]] = {}
    unreadable = []
    for path in find_validations(run):
        step, _ = read_name(path) or (0, 0)
        try:
            read.setdefault((path.parent, step), []).append((path, read_scores(path)))
        except (ValueError, OSError) as error:
            unreadable.append(str(error))
    if unreadable:
        warn_user(
            f"{len(unreadable):,} validations cannot be read, and are skipped: {', '.join(unreadable[:_MAX_SHOWN])}"
        )
    validations = [_merge(of_step) for of_step in read.values() if of_step]
    return RecordedRun(run, sorted(validations, key=_by_stage_and_step))


def _merge(validations: Sequence[tuple[Path, dict[str, Any]]]) -> RecordedValidation:
    """The validations of a step as one: of each loader, the last scores."""
    scores: dict[str, dict[str, Any]] = {}
    loaders: dict[str, RecordedLoader] = {}
    members: dict[str, dict[str, None]] = {}  # of each mean of loaders, in order
    for path, validation in validations:
        names = [loader["name"] for loader in validation["loaders"]]
        scores = {key: score for key, score in scores.items() if score["loader"] not in names}
        for score in validation["scores"]:
            scores[score["key"]] = score
            if score["loader"] is None:
                members.setdefault(score["key"], {}).update(dict.fromkeys(score["mean_of"]))
        for loader in validation["loaders"]:
            loaders[loader["name"]] = RecordedLoader(name_folder(path, loader["name"]), loader["findings"])
    for key, names_of_members in members.items():
        _update_mean(scores, key, [name for name in names_of_members if name in scores])
    last = validations[-1][1]
    return RecordedValidation(last["stage"], last["step"], last["epoch"], scores, loaders)


def _update_mean(scores: dict[str, dict[str, Any]], key: str, names: list[str]) -> None:
    """Compute a mean of loaders again if it is that of other scores than these."""
    if scores[key]["mean_of"] == names or scores[key]["loader"] is not None:
        return
    values = [scores[name]["score"] for name in names]
    if None in values or not values:
        mean = None
    else:
        mean = math.fsum(values) / len(values)
    scores[key] |= {"mean_of": names, "score": mean, "interval": None, "comparison": None}


def _by_stage_and_step(validation: RecordedValidation) -> tuple[bool, str, int]:
    """Validations before tests, each in the order of its steps."""
    return is_test(validation.stage), validation.stage, validation.step
