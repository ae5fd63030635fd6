"""Exact match of questions and answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lightning_bleu.tasks.task_metric import Normalizer, TaskMetric, normalize_text

# Questions


class ExactMatch(TaskMetric):
    """The share of hypotheses that equal one of their references, but for white space at both ends.

    Example:
        >>> from lightning_bleu import Evaluator
        >>> evaluator = Evaluator({"exact": ExactMatch(normalize=str.lower)})
        >>> evaluator.start()
        >>> evaluator.update(["Paris", "Rome"], [["paris", "Paris, France"], ["Milan"]])
        >>> evaluator.finish(step=0)["val_exact"].score
        0.5

    Args:
        normalize: applied to hypotheses and references before they are compared. Samples and files have the texts as
            they were.
        percent: score in percent.

    Raises:
        TypeError: for options of the wrong type.

    Notes:
        ``exact_match`` of Hugging Face compares white space at the ends as well, so an answer that ends in a line break
        is wrong there.
    """

    short_name = "exact_match"

    def __init__(self, normalize: Normalizer | None = None, *, percent: bool = False) -> None:
        match = partial(find_exact, normalize=normalize)
        super().__init__(match, {"normalize": normalize}, signature={}, percent=percent)


def find_exact(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, normalize: Normalizer | None
) -> list[bool]:
    """Whether each hypothesis equals one of its references, but for white space at both ends.

    Example:
        >>> find_exact(["a\\n", "b"], [["x", "a"], ["a"]], normalize=None)
        [True, False]
    """
    matches = []
    for hypothesis, references_of_it in zip(hypotheses, references):
        answers = [normalize_text(reference, normalize).strip() for reference in references_of_it]
        matches.append(normalize_text(hypothesis, normalize).strip() in answers)
    return matches
