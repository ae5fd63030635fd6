"""The results of validations, which can be looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lightning_bleu.core.clean import list_names, to_line
from lightning_bleu.core.scoring import format_in_unit
from lightning_bleu.evaluation.scores.validation import Result, tabulate
from lightning_bleu.evaluation.texts.findings import Finding, describe_findings
from lightning_bleu.observers.samples import Samples
from lightning_bleu.views.blocks import Block, Heading, Note, View
from lightning_bleu.views.viewable import Viewable

_REPR_LENGTH = 100
"""The number of characters for scores in the ``repr``."""


class Results(dict[str, Result], Viewable):
    """The results of a validation by logged name: a dict that can be looked at.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat", "it is"], ["the cat sat on a mat", "it is"])
        >>> results = evaluator.finish(step=500)
        >>> print(results)
                  score
        val_bleu  55.84
        Higher is better.
        >>> results.samples["val"].worst
        [Sample(#0, bleu 53.7, 'the cat sat on the mat')]
        >>> results.to_html("results.html")  # doctest: +SKIP

    Args:
        results: the results.
        samples: the samples.
        findings: the findings.
        title: what a page calls them.

    Attributes:
        samples: sentences to look at by the name of their loader, such as ``"val"`` or ``"val/news"``. Empty
            with ``samples=0``, for loaders after the first 20, and in other processes than process 0.
        findings: what stands out in the texts, such as empty or repeated outputs: each has a ``key`` and a
            ``message``. Not in a sanity check and with ``fast_dev_run``.
        title: what a page calls them: the stage, the step, and the date, with the name of the run if it has a record.

    Notes:
        ``print`` it, end a cell of a notebook with it, or save it as a page.
    """

    def __init__(
        self,
        results: Mapping[str, Result] | None = None,
        samples: Mapping[str, Samples] | None = None,
        findings: Iterable[Finding] = (),
        title: str = "",
    ) -> None:
        super().__init__(results or {})
        self.samples: dict[str, Samples] = dict(samples or {})
        self.findings: list[Finding] = list(findings)
        self.title = title

    def __missing__(self, name: str) -> Result:
        raise KeyError(f"there is no score {name!r}, only {list_names([*self])}" if self else "there are no scores")

    def copy(self) -> Results:
        """A shallow copy."""
        return Results(self, self.samples, self.findings, self.title)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Everything but the samples as plain values that :mod:`json` can serialize."""
        return {name: result.to_dict() for name, result in self.items()}

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`lightning_bleu.views.viewable.Viewable`."""
        if not self:
            return View("", [Note("No scores: no validation has scored a sentence in this process.")], self.title)
        blocks: list[Block] = [tabulate(self), *describe_findings(self.findings)]
        for name, samples in self.samples.items() if examples else ():
            if len(self.samples) > 1:
                blocks.append(Heading(name))
            blocks += samples.blocks(examples)
        return View("", blocks, self.title)

    def __repr__(self) -> str:
        scores = [f"{name}={format_in_unit(result.score, result.percent)}" for name, result in self.items()]
        return f"Results({to_line(', '.join(scores), _REPR_LENGTH)})"
