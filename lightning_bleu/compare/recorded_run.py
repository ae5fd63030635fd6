"""A training run, read from its record: its validations, and the best of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from lightning_bleu.compare.run_page import describe_run, is_test
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.messages import warn_user
from lightning_bleu.evaluation.findings import Finding
from lightning_bleu.observers.scores_file import find_run, read_lines, warn_about_unreadable
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
        scores: its lines in ``scores.jsonl``, by logged name.
    """

    stage: str
    step: int
    epoch: float | None
    scores: Mapping[str, Mapping[str, Any]]

    @property
    def findings(self) -> list[Finding]:
        """What stands out in its texts. If it has several files, each says which one."""
        of_files = {line["file"]: line.get("findings", []) for line in self.scores.values() if line["file"]}
        return [
            Finding(key, message, file if len(of_files) > 1 else "")
            for file, findings in of_files.items()
            for key, message in findings
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
        validations: the validations in the order of their steps. Of a loader that was validated again at a step, the
            last one.

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
            if score is None or validation.scores[key].get("higher_is_better") is None:
                continue
            gain = score if validation.scores[key]["higher_is_better"] else -score
            if best is None or gain > best_gain:
                best, best_gain = validation, gain
        return best

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
        folder: the folder with ``scores.jsonl``, which is what ``translations`` of :class:`.Evaluator` was set to; or
            the folder in which ``translations=True`` has made it.

    Returns:
        the run, to look at.

    Raises:
        FileNotFoundError: if the folder has no ``scores.jsonl``.

    Notes:
        Lines that cannot be read are skipped with a warning.
    """
    run_folder = find_run(Path(folder).expanduser())
    record = run_folder / "scores.jsonl"
    warn_about_unreadable(record, warn_user)
    lines, _ = read_lines(record)
    lines_by_validation: dict[tuple[str, int, Any], dict[str, Mapping[str, Any]]] = {}
    for line in lines:
        is_score = all(line.get(name) is not None for name in ("key", "stage", "step", "metric"))
        if is_score:
            place = (line["stage"], line["step"], line.get("validation"))
            lines_by_validation.setdefault(place, {})[line["key"]] = line
    validations: dict[tuple[str, int], list[RecordedValidation]] = {}
    for (stage, step, _), scores_by_key in lines_by_validation.items():
        epoch = next(reversed(scores_by_key.values())).get("epoch")
        validation = RecordedValidation(stage, step, epoch, scores_by_key)
        folders = _find_folders(validation)
        earlier = [one for one in validations.get((stage, step), []) if not folders & _find_folders(one)]
        validations[stage, step] = [*earlier, validation]
    return RecordedRun(run_folder, sorted(chain.from_iterable(validations.values()), key=_by_stage_and_step))


def _find_folders(validation: RecordedValidation) -> set[str]:
    """The folders of the loaders of a validation; that of the stage, if there is no file of it."""
    files = {line["file"] for line in validation.scores.values()} - {None}
    return {os.path.dirname(file) for file in files} or {""}


def _by_stage_and_step(validation: RecordedValidation) -> tuple[bool, str, int]:
    """Validations before tests, each in the order of its steps."""
    return is_test(validation.stage), validation.stage, validation.step
