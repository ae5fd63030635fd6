"""Records that anybody may have written or changed: they are read, or an error of one line says what is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import socket
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import read_run
from lightning_bleu.compare.command import main
from lightning_bleu.tasks import WER
from tests.fuzz.choices import Choices
from tests.fuzz.rounds import Target

HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 0.5, 2**63, 10**30, float("inf"), float("-inf"), float("nan")),
    *("", "a", "../x.txt", "/etc/passwd", "val", ".", "\x1b[31m", "\ud800", "\0", "flores200", "a" * 10_000),
    *([], [1], ["a"], {}, {"a": 1}, [[[]]], {"low": "a"}, {"high": {}}),
]
"""Values that a line may have anywhere."""
SCORES, SENTENCES = "val/step-0000002/scores.json", "val/step-0000002/sentences.jsonl"
_TEXTS = [f"the cat {number} sat" for number in range(6)]


def write_run(folder: Path) -> None:
    """Write the record of a run with two validations."""
    metrics: Any = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True), "wer": WER(percent=True)}
    evaluator = Evaluator(metrics, translations=folder, confidence=0.9, compare_to="best")
    for step in (1, 2):
        evaluator.start()
        evaluator.update(_TEXTS[step:] + _TEXTS[:step], _TEXTS, group=["a", "b"] * 3)
        evaluator.finish(step)


@cache
def _read_files() -> dict[str, bytes]:
    """The files of a run by path."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_run(Path(name))
        files = [path for path in Path(name).rglob("*") if path.is_file()]
        return {path.relative_to(name).as_posix(): path.read_bytes() for path in files}


def edit(value: Any, rng: random.Random) -> Any:
    """A value with another one in some place."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], edit(value[place], rng), *value[place + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        if rng.random() < 0.1:
            return {name: own for name, own in value.items() if name != key}
        return value | {key: edit(value[key], rng)}
    return rng.choice(HOSTILE)


def edit_record(content: bytes, rng: random.Random) -> bytes:
    """Lines of JSON with other values in some places."""
    lines = [json.loads(line) for line in content.splitlines()]
    edited = [edit(line, rng) if rng.random() < 0.5 or len(lines) == 1 else line for line in lines]
    return b"".join(f"{json.dumps(line)}\n".encode() for line in edited)


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Within this context, a connection is an error."""
    with mock.patch.object(socket.socket, "connect", side_effect=AssertionError("nothing is downloaded")):
        yield


@dataclass
class Case:
    """A run with a record."""

    files: dict[str, bytes]
    sentence_count = 2 * len(_TEXTS)

    def check(self) -> None:
        """Read the run, and run the command with it."""
        folder = Path(tempfile.mkdtemp())
        try:
            for name, content in self.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            with _offline(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_run(folder).to_html()
                validations = map(str, sorted(folder.glob("val/step*")))
                for arguments in (["show", str(folder)], ["compare", *validations], ["compare", str(folder)]):
                    _check_command([*arguments, "-n", "1"])
        finally:
            shutil.rmtree(folder)

    def describe(self) -> str:
        return f"{self.files[SCORES]!r} {self.files[SENTENCES]!r}"


def _check_command(arguments: list[str]) -> None:
    """Run the command, which ends with a result, or an error message that is short and plain."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(arguments)
    printed = output.getvalue() + errors.getvalue()
    assert code in (0, 2), code
    assert (code == 2) == ("error: " in errors.getvalue()), errors.getvalue()
    assert "\x1b" not in printed
    assert len(errors.getvalue()) < 5000


def make(choices: Choices) -> Case:
    """A run whose files were edited, or cut off somewhere."""
    return make_case(random.Random(int.from_bytes(bytes(choices.byte() for _ in range(4)), "big")))


def make_case(rng: random.Random) -> Case:
    """A run with two validations, of which a file was edited or cut off."""
    files = dict(_read_files())
    name = rng.choice([SCORES, SENTENCES])
    if rng.random() < 0.25:
        files[name] = files[name][: rng.randrange(len(files[name]))]
    else:
        files[name] = edit_record(files[name], rng)
    return Case(files)


TARGET = Target("record", make, round_size=6)
