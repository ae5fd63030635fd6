"""What fails leaves nothing behind: neither results, nor what later validations are compared with, nor files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.multiprocessing.spawn import start_processes

from lightning_bleu import BLEUCallback, CorpusBLEU, Evaluator
from lightning_bleu.compare import compare_systems
from tests.helpers.callback_metrics import corpus_of, return_sentences
from tests.helpers.files import limit_files, read_files, read_scores
from tests.helpers.lightning import fit, make_loader

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
        metrics = {"bleu": CorpusBLEU(), "switch": self.switch}
        self.evaluator = self.make(metrics, translations=self.folder, **options)

    def make(self, metrics: Any, **options: Any) -> Any:
        return Evaluator(metrics, **options)

    def validate(self, is_good: bool) -> Any:
        """The result of BLEU in a validation."""
        self.evaluator.start()
        self.evaluator.update(*corpus_of(range(SIZE), epoch=int(is_good))[:2])
        return self.evaluator.finish(0)["val_bleu"]

    def read(self) -> tuple[Any, Any, Any]:
        """The results, the state, and the lines of the record. A line that is cut short is none."""
        scores = self.folder / "scores.jsonl"
        content = scores.read_bytes() if scores.exists() else b""
        lines = content.rpartition(b"\n")[0].split(b"\n")
        return dict(self.evaluator.results), to_plain(self.evaluator.state_dict()), lines


class LightningLoop(Loop):
    """The same with a callback in Trainers."""

    def make(self, metrics: Any, **options: Any) -> Any:
        return BLEUCallback(metrics, **options)

    def validate(self, is_good: bool) -> Any:
        options: dict[str, Any] = {"max_epochs": 1, "num_sanity_val_steps": 0, "loaders": make_loader(range(SIZE))}
        step = partial(self._step, is_good=is_good)
        fit(self.folder.parent, self.evaluator, step=step, **options)
        return self.evaluator.results["val_bleu"]

    def _step(self, batch: torch.Tensor, epoch: int, *, is_good: bool) -> Any:
        return return_sentences(batch, int(is_good))


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
    """The translations fit, and the first line of scores does not."""
    scores = loop.folder / "scores.jsonl"
    if not scores.exists():
        loop.folder.mkdir(exist_ok=True)
        scores.write_bytes(b'{"format": 0}' + b" " * 10_000 + b"\n")  # as much as files of translations may have
    return limit_files(scores.stat().st_size + 300)


@pytest.mark.parametrize("fail", [fail_in_a_later_metric, fail_in_the_translations, fail_in_the_scores])
@pytest.mark.parametrize("loop_class", [Loop, LightningLoop])
def test_a_validation_that_failed_is_not_compared_with(
    loop_class: type[Loop], fail: Callable[[Loop], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    loop = loop_class(tmp_path, compare_to="best", confidence=0.9)

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
    (line,) = read_scores(tmp_path / "scores.jsonl")
    assert line["score"] == evaluator.results["val_bleu"].score
    assert [*evaluator.state_dict()["best"]] == ["val_bleu"]


# A process that is killed

KILLED = 9


def kill_at(number: int) -> None:
    """Kill this process before the write with a number: of half a file, of the rest, of a name, or of a deletion."""
    numbers = iter(range(number))
    open_path, write_path, unlink_path = Path.open, Path.write_bytes, Path.unlink
    replace_path, link_path = os.replace, os.link

    def live() -> None:
        if next(numbers, None) is None:
            os._exit(KILLED)

    class Appended:
        """A file that takes at most 200 bytes at once."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *args: object) -> None:
            self.file.close()

        def write(self, content: Any) -> int:
            live()
            written: int = self.file.write(bytes(content)[:200])
            return written

    def open_file(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        file = open_path(path, mode, *args, **options)
        return Appended(file) if "a" in mode else file

    def write_bytes(path: Path, content: bytes) -> int:
        live()
        write_path(path, content[: len(content) // 2])
        live()
        return write_path(path, content)

    def unlink(path: Path, **options: Any) -> None:
        live()
        unlink_path(path, **options)

    def replace(*args: Any) -> None:
        live()
        replace_path(*args)

    def link(*args: Any) -> None:
        live()
        link_path(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_file)
        patch.setattr(Path, "write_bytes", write_bytes)
        patch.setattr(Path, "unlink", unlink)
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "link", link)
        run_validations(Evaluator(CorpusBLEU(), samples=0, translations=Path.cwd()), [2])
    os._exit(0)


def run_validations(evaluator: Evaluator, steps: list[int]) -> None:
    """Validations with other translations in each step."""
    for step in steps:
        validate(evaluator, step, epoch=step)


def validate(evaluator: Evaluator, step: int, epoch: int) -> None:
    """A validation with the translations of an epoch."""
    hypotheses, references, sources = corpus_of(range(5), epoch)
    evaluator.start()
    evaluator.update(hypotheses, references, source=sources)
    evaluator.finish(step)


def kill_at_each_write(_: int, folder: Path) -> None:
    """Run a first validation, and kill the second one at each of its writes, until it ends."""
    for number in range(1000):
        child = os.fork()
        if child == 0:
            own_folder = folder / f"{number}"
            own_folder.mkdir()
            os.chdir(own_folder)
            run_validations(Evaluator(CorpusBLEU(), samples=0, translations=own_folder), [1])
            kill_at(number)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        assert os.waitstatus_to_exitcode(status) == KILLED


@pytest.mark.slow
def test_a_run_that_is_killed_between_any_two_writes_loses_nothing_that_is_complete(tmp_path: Path) -> None:
    start_processes(kill_at_each_write, (tmp_path,), nprocs=1, start_method="forkserver")  # type: ignore[no-untyped-call]
    folders = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(folders) > 15
    recorded = []
    for folder in folders:
        recorded.append(check_record(folder))
        # The run goes on, and repeats the validation that was killed.
        run_validations(Evaluator(CorpusBLEU(), samples=0, translations=folder), [2, 3])
        assert check_record(folder) == 3
        assert not [*folder.rglob(".*")]
        last_files = {f"val/step-0000003.{suffix}" for suffix in ("txt", "tsv")}
        files = {path for path in read_files(folder) if "step-" in path}
        assert last_files <= files
        names = {Path(path).stem for path in files - last_files}
        assert {"step-0000001", "step-0000002"} <= names <= {"step-0000001", "step-0000002", "step-0000002-2"}
    assert sorted({*recorded}) == [1, 2]
    assert recorded == sorted(recorded)


def check_record(folder: Path) -> int:
    """Check that the last line of a record has a file, which has its score; returns its step."""
    content = (folder / "scores.jsonl").read_bytes()
    texts = content.split(b"\n")
    lines = []
    for text in texts:
        with suppress(ValueError):
            lines.append(json.loads(text))
    assert len(texts) - 1 - len(lines) <= 1  # at most one half line
    file = folder / lines[-1]["file"]
    has_half_line = len(lines) < sum(map(bool, texts))
    expected = pytest.warns(UserWarning, match="has 1 line that cannot be read") if has_half_line else nullcontext()
    with expected:
        comparison = compare_systems({"file": file})
    assert comparison.intervals["bleu"]["file"].score == lines[-1]["score"]
    step: int = lines[-1]["step"]
    return step


# Deleted translations


@pytest.mark.parametrize("reopens", [False, True])
def test_a_run_that_goes_back_does_not_give_the_name_of_a_deleted_file_again(reopens: bool, tmp_path: Path) -> None:
    """Otherwise, an old line would point to other translations."""
    files: list[str] = []
    evaluator = Evaluator(CorpusBLEU(), samples=0, translations=tmp_path)
    for number, step in enumerate([1, 2, 1, 2, 1]):
        if reopens:
            evaluator = Evaluator(CorpusBLEU(), samples=0, translations=tmp_path)
        validate(evaluator, step, epoch=number % 3)
        lines = read_scores(tmp_path / "scores.jsonl")
        files.append(lines[-1]["file"])
        last = tmp_path / files[-1]
        assert compare_systems({"last": last}).intervals["bleu"]["last"].score == lines[-1]["score"]
        last.unlink()
    names = ["step-0000001", "step-0000002", "step-0000001-2", "step-0000002-2", "step-0000001-3"]
    assert files == [f"val/{name}.txt" for name in names]
