"""What fails leaves nothing behind: neither results, nor what later validations are compared with, nor files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU, Evaluator
from tests.helpers.callback_metrics import corpus_of
from tests.helpers.files import limit_files, read_files, read_scores

SIZE = 40
"""The number of sentences: comparisons of fewer than 30 warn."""

# A validation that fails


class Switch:
    """A function that scores sentences, and fails while it is off."""

    def __init__(self) -> None:
        self.is_off = False

    def __call__(self, hypotheses: list[str], references: list[list[str]]) -> list[float]:
        if self.is_off:
            raise RuntimeError("no memory")
        return [1.0] * len(hypotheses)


class Loop:
    """A training loop whose validations are bad or good.

    Args:
        folder: where translations are written.
        options: options of the evaluator.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder / "translations"
        self.switch = Switch()
        metrics: dict[str, Any] = {"bleu": CorpusBLEU(), "switch": self.switch}
        self.evaluator = Evaluator(metrics, translations=self.folder, **options)

    def validate(self, is_good: bool) -> Any:
        """The result of BLEU in a validation."""
        self.evaluator.start()
        self.evaluator.update(*corpus_of(range(SIZE), epoch=int(is_good))[:2])
        return self.evaluator.finish(0)["val_bleu"]

    def read(self) -> tuple[Any, Any, Any]:
        """The results, the state, and the record."""
        return dict(self.evaluator.results), to_plain(self.evaluator.state_dict()), read_files(self.folder)


def to_plain(value: Any) -> Any:
    """A state that can be compared."""
    if isinstance(value, dict):
        return {key: to_plain(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def fail_in_a_later_metric(loop: Loop) -> AbstractContextManager[Any]:
    loop.switch.is_off = True
    return nullcontext()


def fail_in_the_translations(loop: Loop) -> AbstractContextManager[Any]:
    return limit_files(100)


def fail_in_the_scores(loop: Loop) -> AbstractContextManager[Any]:
    """The translations fit, and the scores do not."""
    return limit_files(3 * SIZE * 60)


@pytest.mark.parametrize("fail", [fail_in_a_later_metric, fail_in_the_translations, fail_in_the_scores])
def test_a_validation_that_failed_is_not_compared_with(
    fail: Callable[[Loop], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    loop = Loop(tmp_path, compare_to="best", confidence=0.9)

    def try_to_validate() -> None:
        with fail(loop):
            before = loop.read()
            with pytest.raises((RuntimeError, OSError), match=r"no memory|File too large"):
                loop.validate(is_good=True)
            assert loop.read() == before
        loop.switch.is_off = False

    try_to_validate()
    assert loop.read()[:2] == ({}, {})
    bad = loop.validate(is_good=False)  # is the first
    assert bad.comparison.score_b == bad.comparison.score_a == bad.score
    try_to_validate()
    assert loop.evaluator.results["val_bleu"] is bad
    good = loop.validate(is_good=True)
    assert (good.comparison.score_a, good.comparison.score_b) == (good.score, bad.score)
    assert good.comparison.difference == good.score - bad.score > 0
    assert good.best == good.score


def test_a_logger_that_fails_does_not_undo_what_is_written(tmp_path: Path) -> None:
    """Even if its warning is an error."""

    class Failing:
        def log_metrics(self, metrics: Any, step: int) -> None:
            raise ConnectionError("offline")

    evaluator = Evaluator(translations=tmp_path, loggers=[Failing()], compare_to="best")
    evaluator.start()
    evaluator.update(*corpus_of(range(SIZE))[:2])
    with pytest.raises(UserWarning, match="offline"):
        evaluator.finish(1)
    (line,) = read_scores(tmp_path)
    assert line["score"] == evaluator.results["val_bleu"].score
    assert [*evaluator.state_dict()["best"]] == ["val_bleu"]
