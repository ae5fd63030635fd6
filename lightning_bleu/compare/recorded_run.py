"""A training run, read from its record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightning_bleu.compare.recorded_validations import RecordedValidation, find_best, read_validations
from lightning_bleu.compare.run_page import describe_run
from lightning_bleu.core.clean import to_line
from lightning_bleu.observers.recorded import find_run
from lightning_bleu.views.blocks import View
from lightning_bleu.views.viewable import Viewable


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
        """The best validation with the settings and the sentences of the latest one; None without any, or if neither
        higher nor lower is better.

        Args:
            key: the logged name of the score, such as ``"val_bleu"``.
        """
        return find_best(self.validations, key)

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
        ValueError: for a link that leads out of the folder, and if no validation can be read.

    Notes:
        Validations that cannot be read are skipped with a warning.
    """
    run = find_run(Path(folder).expanduser())
    return RecordedRun(run, read_validations(run))
