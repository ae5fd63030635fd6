"""Translations as files: what is written, and the score that sacreBLEU gives the files."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sacrebleu.metrics.ter import TER
from torch.multiprocessing.spawn import start_processes

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric, Result
from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.messages import warn_user
from lightning_bleu.observers.record import Record, TranslationFiles, append_lines, has_translations, name_folder
from lightning_bleu.observers.scores_file import RecordedScore, read_record
from tests.helpers.corpora import random_corpus
from tests.helpers.files import limit_files, read_files, read_scores, write_translations
from tests.helpers.validations import Counting, count, score

FOLDER = Path("translations")


PLAIN = [Sentence("a b", ["a c"]), Sentence("d", ["e f"])]
SEVERAL = [Sentence("a b", ["a c", "g"]), Sentence("d", ["e f"])]
WITH_SOURCES = [sentence._replace(source="s") for sentence in PLAIN]

LINE_BREAKS = [*(chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1), "\r\n"]
"""Everything that ``str.splitlines`` takes for the end of a line."""


# What is written


@pytest.mark.parametrize(
    ("sentences", "files"),
    [
        ([], {"step-0000500.txt": "", "ref.txt": ""}),
        (
            [Sentence("a  b.", ["ä"], "好"), Sentence("", ["d"], "")],
            {"step-0000500.txt": "a  b.\n\n", "ref.txt": "ä\nd\n", "src.txt": "好\n\n"},
        ),
        (
            [Sentence("a", ["b"]), Sentence("c", ["d", "e"]), Sentence("f", ["g", "h", "i"])],
            {
                "step-0000500.txt": "a\nc\nf\n",
                "ref-1.txt": "b\nd\ng\n",
                "ref-2.txt": "b\ne\nh\n",
                "ref-3.txt": "b\nd\ni\n",
                "step-0000500.tsv": "references\n1\n2\n3\n",
            },
        ),
        (
            [Sentence("a\ud800b", ["\udfffc"], "\ud83d"), Sentence("😀", ["d", "e\ud800"], "f")],
            {
                "step-0000500.txt": "a?b\n😀\n",
                "ref-1.txt": "?c\nd\n",
                "ref-2.txt": "?c\ne?\n",
                "src.txt": "?\nf\n",
                "step-0000500.tsv": "references\n1\n2\n",
            },
        ),
        *(
            (
                [Sentence(f"a{end}b{end}{end}c{end}", [f"a{end}", end], f"{end}a"), Sentence("x", ["y"], "z")],
                {
                    "step-0000500.txt": "a b  c\nx\n",
                    "ref-1.txt": "a\ny\n",
                    "ref-2.txt": "\ny\n",
                    "src.txt": " a\nz\n",
                    "step-0000500.tsv": "references\n2\n1\n",
                },
            )
            for end in LINE_BREAKS
        ),
    ],
    ids=["nothing", "one", "missing references", "lone surrogates", *map(ascii, LINE_BREAKS)],
)
def test_files_have_a_line_per_sentence(sentences: list[Sentence], files: dict[str, str], tmp_path: Path) -> None:
    """A missing reference repeats the first one, a line break becomes a space, a lone surrogate a question mark."""
    folder = tmp_path / "runs" / "val"  # neither exists
    write_translations(sentences, folder, 500)
    assert read_files(folder) == {name: text.encode() for name, text in files.items()}


def test_a_folder_is_not_mistaken_for_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*?"
    write_translations(SEVERAL, folder, 500)
    assert write_translations(WITH_SOURCES, folder, 1000)
    written = {"ref.txt", "src.txt", "step-0000500.tsv", "step-0000500.txt", "step-0001000.txt"}
    assert set(read_files(folder)) == written


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    names = [
        "reference-notes.txt",
        "refs.txt",
        "ref-a.txt",
        "ref.txt.bak",
        "src.txt~",
        "step-by-step.txt",
        "step-5.txt",
        "step-0000250.txt.f00.part",  # of a run that was killed
    ]
    own = dict.fromkeys(names, b"mine")
    for name, content in own.items():
        (tmp_path / name).write_bytes(content)
    assert not write_translations(PLAIN, tmp_path, 500)
    assert read_files(tmp_path) == {"ref.txt": b"a c\ne f\n", "step-0000500.txt": b"a b\nd\n"} | own


# Complete files or none


LONG = "long " * 1000
TOO_LONG = {
    "hypotheses": [Sentence("new", ["new"], "new"), Sentence(LONG, ["new"], "new")],
    "references": [Sentence("new", ["new"], "new"), Sentence("new", [LONG], "new")],
    "another reference": [Sentence("new", ["new"], "new"), Sentence("new", ["new", LONG], "new")],
    "sources": [Sentence("new", ["new"], "new"), Sentence("new", ["new"], LONG)],
}


@pytest.mark.parametrize("step", [500, 1000])
@pytest.mark.parametrize("sentences", TOO_LONG.values(), ids=TOO_LONG)
def test_a_full_disk_leaves_the_folder_as_it_was(sentences: list[Sentence], step: int, tmp_path: Path) -> None:
    """In particular, no new references beside old hypotheses, and no temporary files."""
    for folder, before in ((tmp_path / "new", []), (tmp_path / "old", WITH_SOURCES)):
        folder.mkdir()
        if before:
            write_translations(before, folder, 500)
        files = {path: path.read_bytes() for path in folder.iterdir()}
        with limit_files(1000), pytest.raises(OSError, match="File too large"):
            write_translations(sentences, folder, step)
        assert {path: path.read_bytes() for path in folder.iterdir()} == files


def write_steps(number: int, folder: Path) -> None:
    """Write other translations of the same step than all other processes, and lines of scores."""
    for step in range(20):
        write_translations([Sentence(f"run {number}, {step}", ["a reference"])], folder, 5)
        append_lines(folder / "scores.jsonl", [{"key": f"{number}", "step": step}] * 2)


@pytest.mark.slow
def test_runs_that_write_to_one_folder_lose_neither_translations_nor_lines(tmp_path: Path) -> None:
    start_processes(write_steps, (tmp_path,), nprocs=4, start_method="forkserver")  # type: ignore[no-untyped-call]
    written = {path.read_text() for path in tmp_path.glob("step-*.txt")}
    assert written == {f"run {number}, {step}\n" for number in range(4) for step in range(20)}
    lines = [(line["key"], line["step"]) for line in read_scores(tmp_path / "scores.jsonl")]
    assert lines[::2] == lines[1::2]  # those of a call stay together
    assert sorted(lines[::2]) == [(key, step) for key in "0123" for step in range(20)]
    assert not [*tmp_path.glob(".*.part")]


def start_to_write(folder: Path) -> None:
    """Write the hidden files of a loader, and wait to be killed."""
    files = TranslationFiles(folder)
    files.add(PLAIN, folder / "val", 500)
    (folder / "started").touch()
    time.sleep(1000)


@pytest.mark.slow
def test_hidden_files_of_a_killed_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    """Those of a process that runs are not."""
    (tmp_path / "val").mkdir()
    own = [tmp_path / ".download.part", tmp_path / "val" / ".mine.part"]
    for path in own:
        path.touch()
    context = get_context("spawn")
    process = context.Process(target=start_to_write, args=(tmp_path,), daemon=True)
    process.start()
    while not (tmp_path / "started").exists():
        assert process.is_alive()
        time.sleep(0.01)
    hidden = {*tmp_path.rglob(".*.part")}
    assert len(hidden) == 3 + len(own)
    write_line(Record(tmp_path), 1)
    assert {*tmp_path.rglob(".*.part")} == hidden
    process.kill()
    process.join()
    write_line(Record(tmp_path), 2)
    assert {*tmp_path.rglob(".*.part")} == {*own}


# Other translations of a step


OTHER = [sentence._replace(hypothesis="x") for sentence in PLAIN]
"""Other translations of the same sentences."""


def test_other_translations_of_the_same_step_get_the_next_number(tmp_path: Path) -> None:
    for sentences in (OTHER, PLAIN, OTHER, PLAIN):  # each is written once
        write_translations(sentences, tmp_path, 500)
    written = {"step-0000500.txt": b"x\nx\n", "step-0000500-2.txt": b"a b\nd\n"}
    assert read_files(tmp_path) == {"ref.txt": b"a c\ne f\n"} | written
    (tmp_path / "step-0000500-2.txt").unlink()
    taken = [tmp_path / "step-0000500-2.txt"]
    write_translations([one._replace(hypothesis="y") for one in PLAIN], tmp_path, 500, taken=taken)
    assert {*read_files(tmp_path)} == {"ref.txt", "step-0000500.txt", "step-0000500-3.txt"}  # a number is given once


def test_other_scores_of_the_same_translations_get_the_next_number(tmp_path: Path) -> None:
    for scores in ([0.5, -1], [0.5, 1], [0.5, 1]):
        write_translations(PLAIN, tmp_path, 500, scores_by_name={"f": torch.tensor(scores)})
    files = read_files(tmp_path)
    assert (files["step-0000500.tsv"], files["step-0000500-2.tsv"]) == (b"f\n0.5\n-1.0\n", b"f\n0.5\n1.0\n")
    write_translations(PLAIN, tmp_path, 500)  # without scores, nothing new
    assert read_files(tmp_path) == files


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("val/step-0000500.txt", True),
        ("step-12345678.txt", True),
        ("val/step-0000000.txt", False),  # of a model that is not trained
        ("val/ref.txt", False),
        ("step-0000500.txt.bak", False),
    ],
)
def test_a_folder_has_translations_if_there_is_a_file_of_a_later_step_than_0(
    path: str, expected: bool, tmp_path: Path
) -> None:
    assert not has_translations(tmp_path / "missing")
    assert not has_translations(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    assert has_translations(tmp_path) == expected


# Scores of all steps


def make_line(step: int, key: str = "val", bleu: float = 0.5) -> dict[str, Any]:
    return {"step": step, "key": key, "bleu": bleu}


def test_scores_are_appended_and_readers_take_the_last(tmp_path: Path) -> None:
    path = tmp_path / "new" / "scores.jsonl"
    added = [make_line(1), make_line(1, "test ä\u2028"), make_line(2), make_line(1, bleu=0.75)]
    for lines in (added[:2], [], added[2:]):
        append_lines(path, lines)
    assert read_scores(path) == added
    table = pd.read_json(path, lines=True).drop_duplicates(["key", "step"], keep="last")
    assert table.to_dict("records") == added[1:]


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n\0\xc3\n', b'{"a": 1}', b'{"a": 1}\n{"st'])
def test_what_the_file_has_is_left_alone(before: bytes, tmp_path: Path) -> None:
    """A run that was killed may have left half a line, which is ended once."""
    path = tmp_path / "scores.jsonl"
    path.write_bytes(before)
    record = Record(tmp_path)
    for step in (3, 4):
        record.write(score(count(Counting(), ["a b c d"], ["a b c d"])), step=step, epoch=0)
    added = path.read_bytes().removeprefix(before.removesuffix(b"\n") + b"\n").decode()
    assert [
        (line["step"], line["epoch"], line["key"], line["file"], line["score"])
        for line in map(json.loads, added.splitlines())
    ] == [(step, 0, "val_bleu", f"val/step-000000{step}.txt", 1.0) for step in (3, 4)]


def write_line(record: Record, step: int, references: Sequence[str] = ("a b c d",)) -> None:
    """Write the lines of a validation with two metrics."""
    metrics = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}
    record.write(score(count(Counting(metrics), ["a b c d"], [*references])), step=step, epoch=0)


@pytest.mark.parametrize("reopens", [False, True])
@pytest.mark.parametrize("before", [b"", b'{"killed'])
def test_a_full_disk_leaves_the_record_as_it_was(before: bytes, reopens: bool, tmp_path: Path) -> None:
    """Wherever the lines are cut: no half line, no file without a line, no other references."""
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "scores.jsonl"
    path.write_bytes(before)
    record = Record(folder)
    write_line(record, 1)
    lines, files = path.read_bytes(), read_files(folder)
    length = len(lines) - len(before)
    for cut in (0, 1, length // 2 - 1, length // 2, length // 2 + 1, length - 1):
        if reopens:
            record = Record(folder)
        with limit_files(len(lines) + cut), pytest.raises(OSError, match="File too large") as caught:
            write_line(record, 2, ["another reference"])
        assert caught.value.filename == str(path)
        assert "Nothing of this validation was recorded: make room" in str(caught.value)
        assert path.read_bytes() == lines
        assert read_files(folder) == files
        assert not [*folder.rglob(".*")]
    write_line(record, 2)
    assert path.read_bytes()[: len(lines)] == lines
    assert [line["step"] for line in map(json.loads, path.read_text().splitlines()[-4:])] == [1, 1, 2, 2]


# A line per score

PLACE = ["format", "validation", "stage", "step", "epoch", "key", "file", "metric", "class", "forms"]
OF_RESULT = ["higher_is_better", "percent", "score", "parts", "counts", "interval", "comparison", "signature"]
KEYS = [*PLACE, *OF_RESULT, "settings", "findings"]
"""The keys of a line, in their order."""
LINES = ["a b c d", "a b x", "e f g"], ["a b c d", "a b c d", "e f"], ["a b c d e", "a c", "e f g h"]
"""Translations of two validations, and their references."""


def page(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """The rate of wrong words, and the number of words."""
    words = [line.split() for line in hypotheses]
    pairs = [(sum(word not in one[0] for word in line), len(line)) for line, one in zip(words, references)]
    return {"rate": pairs, "words": [*map(len, words)]}


def make_page() -> FunctionMetric:
    return FunctionMetric(page, higher_is_better={"rate": False, "words": None}, percent=True)


def record_lines(folder: Path, metrics: Any, *names: str, **options: Any) -> tuple[list[Any], list[dict[str, Result]]]:
    """The lines of two validations, and their results. Each validation has an id of its own."""
    evaluator = Evaluator(metrics, translations=folder, **options)
    results = []
    for step, hypotheses in enumerate(LINES[:2]):
        evaluator.start(dict.fromkeys(names) or None)
        for number in range(max(1, len(names))):
            evaluator.update(hypotheses, LINES[2], dataloader_idx=number)
        results.append(dict(evaluator.finish(step, 0.5 * step)))
    lines = read_scores(folder / "scores.jsonl")
    assert (
        len({line["validation"] for line in lines}) == len({(line["validation"], line["step"]) for line in lines}) == 2
    )
    return [line | {"validation": "id"} for line in lines], results


def check_line(line: dict[str, Any], place: list[Any], result: Result) -> None:
    """Check what a line says of its validation, from ``"step"`` to ``"class"``, and what it says of the score."""
    assert [*line] == KEYS
    assert [line[key] for key in PLACE[:-1]] == [1, "id", "val", *place]
    assert {key: line[key] for key in OF_RESULT} == json.loads(json.dumps(result.to_dict()))
    assert line["findings"] == []


def test_the_documented_keys_are_those_of_a_line() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api_record.md").read_text()
    _, _, section = text.partition("## A line per score")
    table = section.split("\n\n")[2].splitlines()[2:]
    assert [key for row in table for key in re.findall(r"`(\w+)`", row.split("|")[1])] == KEYS


@pytest.mark.parametrize("metric", [CorpusBLEU(max_order=2, percent=True), CorpusCHRF(word_order=1)])
def test_a_line_of_a_metric_of_this_package_has_what_makes_it_again(metric: Any, tmp_path: Path) -> None:
    lines, results = record_lines(tmp_path, {"own": metric}, confidence=0.9, compare_to="best")
    for step, (line, result) in enumerate(zip(lines, results, strict=True)):
        place = [step, 0.5 * step, "val_own", f"val/step-000000{step}.txt", "own", type(metric).__name__]
        check_line(line, place, result["val_own"])
        assert line["forms"] == ["strings"]
        assert line["settings"] == json.loads(json.dumps(metric.settings.plain()))
        assert type(metric.scorer).from_plain(line["settings"], percent=line["percent"]) == metric.scorer


def test_a_function_with_a_dict_has_a_line_per_score(tmp_path: Path) -> None:
    lines, results = record_lines(tmp_path, {"page": make_page()}, confidence=0.9, compare_to="best")
    assert len(lines) == 4
    for number, line in enumerate(lines):
        step = number // 2
        name, direction = (("rate", False), ("words", None))[number % 2]
        place = [step, 0.5 * step, f"val_page/{name}", f"val/step-000000{step}.txt", "page", "FunctionMetric"]
        check_line(line, place, results[step][f"val_page/{name}"])
        assert line["settings"] == {"higher_is_better": direction, "function": "page"}


def test_a_mean_over_loaders_has_no_file_no_parts_and_no_settings(tmp_path: Path) -> None:
    lines, results = record_lines(tmp_path, CorpusBLEU(), "news", "talks", confidence=0.9, compare_to="best")
    keys = ["val_bleu/news", "val_bleu/talks", "val_bleu"]
    assert [(line["step"], line["key"]) for line in lines] == [(step, key) for step in range(2) for key in keys]
    files = [f"val/{name}/step-000000{step}.txt" for step in range(2) for name in ("news", "talks")]
    assert [line["file"] for line in lines if line["file"]] == files
    for step, mean in enumerate(lines[2::3]):
        check_line(mean, [step, 0.5 * step, "val_bleu", None, "bleu", "CorpusBLEU"], results[step]["val_bleu"])
        assert (mean["parts"], mean["counts"], mean["signature"], mean["settings"]) == ({}, {}, None, None)


def test_a_metric_of_another_package_has_a_score_and_its_direction(tmp_path: Path) -> None:
    lines, results = record_lines(tmp_path, {"ter": TER()}, confidence=0.9, compare_to="best")
    for step, (line, result) in enumerate(zip(lines, results, strict=True)):
        check_line(line, [step, 0.5 * step, "val_ter", f"val/step-000000{step}.txt", "ter", "TER"], result["val_ter"])
        assert (line["higher_is_better"], line["percent"], line["settings"]) == (False, None, None)


def test_the_name_of_a_score_is_no_key_of_a_line(tmp_path: Path) -> None:
    names = ["step", "score", "file", "format"]
    lines, _ = record_lines(tmp_path, {"f": lambda lines, _: {name: [1.0] * len(lines) for name in names}})
    assert [list(line) for line in lines] == [KEYS] * 8
    assert [(line["step"], line["key"]) for line in lines[:4]] == [(0, f"val_f/{name}") for name in names]


# Reading a record

WHOLE: list[dict[str, Any]] = [
    {"format": 1, "key": f"val_{name}", "file": "val/x.txt", "metric": name, "class": "C", "score": 0.5, "nested": {}}
    for name in ("a", "ü", "c")
]
TEXTS = [json.dumps(line, ensure_ascii=False).encode() for line in WHOLE]


def read_lines_of(folder: Path, content: bytes) -> tuple[list[str], list[str]]:
    """The metrics of the lines that are read, and the warnings."""
    (folder / "scores.jsonl").write_bytes(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = read_record(folder / "val" / "x.txt", warn_user)
    assert record is not None
    return [one.metric for one in record], [str(one.message) for one in caught]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kept", ["beginning", "end"])
def test_a_line_that_is_cut_at_any_byte_is_skipped_with_a_warning(place: int, kept: str, tmp_path: Path) -> None:
    for cut in range(1, len(TEXTS[place])):
        texts = list(TEXTS)
        texts[place] = texts[place][:cut] if kept == "beginning" else texts[place][cut:]
        metrics, (warning,) = read_lines_of(tmp_path, b"\n".join(texts) + b"\n" * (cut % 2))
        assert metrics == [line["metric"] for number, line in enumerate(WHOLE) if number != place]
        assert warning.startswith(f"{str(tmp_path / 'scores.jsonl')!r} has 1 line that cannot be read")
        assert warning.endswith(f"They are skipped: {place + 1}")


def test_a_line_that_follows_half_a_line_at_once_is_skipped_with_it(tmp_path: Path) -> None:
    for cut in range(1, len(TEXTS[0])):
        metrics, said = read_lines_of(tmp_path, TEXTS[0][:cut] + b"\n".join(TEXTS[1:]))
        assert (metrics, len(said)) == (["c"], 1)


@pytest.mark.parametrize(
    "line",
    [
        *(b"\0", b"\xff\xfe", b"null", b"5", b"[]", b"{}", b'"format"', b"{", b"nan", b"\xef\xbb\xbf", b"9" * 5000),
        json.dumps({key: value for key, value in WHOLE[0].items() if key != "format"}).encode(),  # of version 0.2
        json.dumps({key: value for key, value in WHOLE[0].items() if key != "class"}).encode(),
        json.dumps(WHOLE[0] | {"format": 2}).encode(),  # of a later version
        json.dumps(WHOLE[0] | {"format": "1"}).encode(),
        json.dumps(WHOLE[0] | {"format": None}).encode(),
        json.dumps(WHOLE[0] | {"score": "0.5"}).encode(),
        json.dumps(WHOLE[0] | {"step": "500"}).encode(),
        json.dumps(WHOLE[0] | {"interval": 5}).encode(),
        b"[" * 100_000,
    ],
)
def test_unreadable_lines_anywhere_are_skipped_with_one_warning(line: bytes, tmp_path: Path) -> None:
    content = b"\n".join([line, TEXTS[0], b"", line, TEXTS[1], TEXTS[2], line])
    metrics, (warning,) = read_lines_of(tmp_path, content)
    assert metrics == ["a", "ü", "c"]
    assert " has 3 lines " in warning
    assert warning.endswith("They are skipped: 1, 4, 7")
    _, (warning,) = read_lines_of(tmp_path, b"\n".join([TEXTS[0], *[line] * 12]))
    assert " has 12 lines " in warning
    assert warning.endswith("They are skipped: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...")


def test_a_score_that_another_program_wrote_as_nan_is_none(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text(json.dumps(WHOLE[0] | {"score": float("nan")}))
    (recorded,) = read_record(tmp_path / "val" / "x.txt", warn_user) or []
    assert recorded.score is None


def test_the_last_line_of_a_name_is_read_and_lines_of_other_files_are_not(tmp_path: Path) -> None:
    first, *others = (WHOLE[0] | {"percent": True, "settings": {"a": 1}}, *WHOLE[1:])
    lines = [first | {"score": 0.25}, others[0], first | {"file": None}, first | {"file": "val/y.txt"}, first]
    append_lines(tmp_path / "scores.jsonl", lines)
    record = read_record(tmp_path / "val" / "x.txt", warn_user)
    assert record == [
        RecordedScore("val_a", "a", "C", 0.5, True, {"a": 1}, []),
        RecordedScore("val_ü", "ü", "C", 0.5, None, None, []),
    ]
    assert read_record(tmp_path / "val" / "z.txt", warn_user) is None


def test_a_file_outside_of_a_record_has_no_record(tmp_path: Path) -> None:
    append_lines(tmp_path / "run" / "scores.jsonl", WHOLE)
    assert read_record(tmp_path / "x.txt", warn_user) is None
    assert read_record(tmp_path / "other" / "val" / "x.txt", warn_user) is None


# Whether translations of other steps still match

CHANGES: dict[str, tuple[list[Sentence], list[Sentence], bool]] = {
    "nothing": (PLAIN, PLAIN, False),
    "hypotheses": (SEVERAL, [sentence._replace(hypothesis="other") for sentence in SEVERAL], False),
    "a reference": (PLAIN, [PLAIN[0], Sentence("d", ["e  f"])], True),
    "the second reference": (SEVERAL, [Sentence("a b", ["a c", "h"]), SEVERAL[1]], True),
    "the order of references": (SEVERAL, [Sentence("a b", ["g", "a c"]), SEVERAL[1]], True),
    "more references": (PLAIN, SEVERAL, True),
    "fewer references": (SEVERAL, PLAIN, True),
    "more sentences": (PLAIN, [*PLAIN, PLAIN[0]], True),
    "no sentences": (PLAIN, [], True),
    "a source": (WITH_SOURCES, [WITH_SOURCES[0], WITH_SOURCES[1]._replace(source="t")], True),
    "sources appear": (PLAIN, WITH_SOURCES, True),
    "sources vanish": (WITH_SOURCES, PLAIN, True),
}


@pytest.mark.parametrize(("before", "after", "changed"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_references_or_sources_is_reported(
    before: list[Sentence], after: list[Sentence], changed: bool, tmp_path: Path
) -> None:
    folder, fresh = tmp_path / "old", tmp_path / "fresh"
    assert not write_translations(before, folder, 500)  # there are no others
    assert write_translations(after, folder, 1000) == changed
    assert not write_translations(after, folder, 1500)  # the same again
    write_translations(after, fresh, 1000)
    shown = {name: content for name, content in read_files(folder).items() if name in read_files(fresh)}
    assert shown == read_files(fresh)
    left = {name.rpartition(".")[0] for name in read_files(folder).keys() - read_files(fresh).keys()}
    assert left == {"step-0000500", "step-0001500"}  # no references or sources of the old ones


# Folders


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["val"], "val"),
        (["val", "news"], "val/news"),
        (["val", "WMT 22.en-de+x@y"], "val/WMT 22.en-de+x@y"),
        (["val", "新闻"], "val/新闻"),
        (["val", "."], "val/%2E"),
        (["val", ".."], "val/.%2E"),
        (["val", "../x"], "val/..%2Fx"),
        (["val", "a/b"], "val/a%2Fb"),
        (["val", "a%2Fb"], "val/a%252Fb"),
        (["val", "C:\\x"], "val/C%3A%5Cx"),
        (["val", "a\0\n"], "val/a%00%0A"),
        (["../val"], "..%2Fval"),
        ([os.fsdecode(b"caf\xe9")], "caf%ED%B3%A9"),  # a file whose name is not UTF-8
        # names that Windows does not allow
        (["val", "CON"], "val/%43ON"),
        (["val", "a "], "val/a%20"),
        # names that are too long for most file systems
        (["val", "x" * 300], f"val/{'x' * 100}-{zlib.crc32(b'x' * 300):08x}"),
        (["val", "新" * 300], f"val/{'新' * 33}-{zlib.crc32('新'.encode() * 300):08x}"),
    ],
)
def test_a_folder_is_named_after_its_key_and_loader(names: list[str], expected: str, tmp_path: Path) -> None:
    assert name_folder(FOLDER, *names) == FOLDER / expected
    folder = name_folder(tmp_path, *names)
    write_translations(PLAIN, folder, 500)
    assert [path.parent for path in tmp_path.rglob("ref.txt")] == [folder]
    assert tmp_path.resolve() in folder.resolve().parents


names = st.text(st.characters(), min_size=1, max_size=20) | st.text("./\\%2EF :~a\ud800", min_size=1, max_size=6)
names |= names.map(lambda name: 300 * "x" + name) | st.sampled_from(["con", "CON", "%63on", "con.x", "a."])


@given(st.tuples(names, names), st.tuples(names, names))
def test_different_names_have_different_folders(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)
    assert name_folder(FOLDER, *one) != name_folder(FOLDER, *other)
    assert name_folder(FOLDER, one[0]) != name_folder(FOLDER, *other)


@given(names, names)
def test_every_folder_is_inside_the_given_one(key: str, loader: str) -> None:
    folder = name_folder(FOLDER, key, loader)
    assert FOLDER.parts == folder.parts[:-2]
    assert Path(os.path.normpath(folder)) == folder
    assert not {"..", "."} & {*folder.parts}


# sacreBLEU's command line


@pytest.mark.slow
def test_the_command_line_of_sacrebleu_prints_our_score_digit_for_digit(tmp_path: Path) -> None:
    hypotheses, references = random_corpus(random.Random(3), 200)
    preds = [" ".join(words) + "\u2028 .\r\nx\n" * (i % 2) for i, words in enumerate(hypotheses)]
    target = [[*map(" ".join, group)] for group in references]
    validation = score(count(Counting(CorpusBLEU(percent=True)), preds, target))
    (loader,) = validation.loaders
    write_translations(loader.sentences.read_all(), tmp_path, 500)
    files = ["ref-1.txt", "ref-2.txt", "ref-3.txt", "-i", "step-0000500.txt"]
    command = [sys.executable, "-m", "sacrebleu", *files, "-b", "-w", "10"]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    assert done.stdout == f"{validation.results['val_bleu'].score:.10f}\n"
