"""Records that anybody may have written or changed: they are read, or an error of one line says what is wrong."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import read_run
from lightning_bleu.compare.command import main
from lightning_bleu.tasks import WER

HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 0.5, 2**63, 10**30, float("inf"), float("-inf"), float("nan")),
    *("", "a", "../x.txt", "/etc/passwd", "val", ".", "\x1b[31m", "\ud800", "\0", "flores200", "a" * 10_000),
    *([], [1], ["a"], {}, {"a": 1}, [[[]]], {"low": "a"}, {"high": {}}),
]
TEXTS = [f"the cat {number} sat" for number in range(6)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two validations."""
    folder = tmp_path_factory.mktemp("run")
    metrics: Any = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True), "wer": WER(percent=True)}
    evaluator = Evaluator(metrics, translations=folder, confidence=0.9, compare_to="best")
    for step in (1, 2):
        evaluator.start()
        evaluator.update(TEXTS[step:] + TEXTS[:step], TEXTS, group=["a", "b"] * 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator.finish(step)
    return folder


def edit(value: Any, rng: random.Random) -> Any:
    """A line with another value in some place."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        if rng.random() < 0.1:
            return {name: own for name, own in value.items() if name != key}
        return value | {key: edit(value[key], rng)}
    return rng.choice(HOSTILE)


def edit_record(content: bytes, rounds: int) -> Iterator[bytes]:
    """Lines with other values in some places; then half of the file, cut at some bytes of a line."""
    lines = [json.loads(line) for line in content.splitlines()]
    for seed in range(rounds):
        rng = random.Random(seed)
        edited = [edit(line, rng) if rng.random() < 0.5 else line for line in lines]
        yield b"".join(f"{json.dumps(line)}\n".encode() for line in edited)
    first = content.index(b"\n") + 1
    for cut in range(first, first + 700, 7 if rounds > 100 else 140):
        yield content[:cut]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [12, pytest.param(300, marks=pytest.mark.long)])
def test_no_record_ends_the_command_with_a_traceback(
    rounds: int, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*args: Any) -> None:
        raise AssertionError("nothing is downloaded")

    monkeypatch.setattr("socket.socket.connect", connect)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for content in edit_record((run / "scores.jsonl").read_bytes(), rounds):
        (copy / "scores.jsonl").write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_run(copy).to_html()
            for arguments in (["show", str(copy)], ["compare", *map(str, sorted(copy.glob("val/step*.txt")))]):
                code = main([*arguments, "-n", "1"])
                printed = capsys.readouterr()
                assert code in (0, 2)
                assert (code == 2) == ("error: " in printed.err)
                assert "\x1b" not in printed.out + printed.err
                assert len(printed.err) < 5000
