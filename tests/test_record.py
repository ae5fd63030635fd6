"""Translations as files: what is written, and the score that sacreBLEU gives the files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import resource
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torch.multiprocessing.spawn import start_processes

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.training.metrics import Result
from lightning_bleu.training.sentences import Sentence
from lightning_bleu.training.translations import Record, append_lines, has_translations, name_folder, write_translations
from lightning_bleu.training.validation import Naming
from tests.helpers.corpora import random_corpus, read_lines
from tests.helpers.files import read_files, read_scores
from tests.helpers.text import WORDWISE, fuzz_line
from tests.helpers.validations import count, gather, make_validation, read_all

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
            },
        ),
        (
            [Sentence("a", ["b"]), Sentence("c", ["d"], "s"), Sentence("e", ["f"])],
            {"step-0000500.txt": "a\nc\ne\n", "ref.txt": "b\nd\nf\n", "src.txt": "\ns\n\n"},
        ),
        (
            [Sentence("a\ud800b", ["\udfffc"], "\ud83d"), Sentence("😀", ["d", "e\ud800"], "f")],
            {"step-0000500.txt": "a?b\n😀\n", "ref-1.txt": "?c\nd\n", "ref-2.txt": "?c\ne?\n", "src.txt": "?\nf\n"},
        ),
        *(
            (
                [Sentence(f"a{end}b{end}{end}c{end}", [f"a{end}", end], f"{end}a"), Sentence("x", ["y"], "z")],
                {
                    "step-0000500.txt": "a b  c\nx\n",
                    "ref-1.txt": "a\ny\n",
                    "ref-2.txt": "\ny\n",
                    "src.txt": " a\nz\n",
                },
            )
            for end in LINE_BREAKS
        ),
    ],
    ids=["nothing", "one", "missing references", "missing sources", "lone surrogates", *map(ascii, LINE_BREAKS)],
)
def test_files_have_a_line_per_sentence(sentences: list[Sentence], files: dict[str, str], tmp_path: Path) -> None:
    """A missing reference repeats the first one, a line break becomes a space, a lone surrogate a question mark."""
    folder = tmp_path / "runs" / "val"  # neither exists
    write_translations(sentences, folder, 500)
    assert read_files(folder) == {name: text.encode() for name, text in files.items()}


def test_a_folder_is_not_mistaken_for_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*?"
    write_translations(SEVERAL, folder, 500)
    assert write_translations(WITH_SOURCES, folder, 1000, keep=1)[1]
    assert set(read_files(folder)) == {"ref.txt", "src.txt", "step-0001000.txt"}


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
    assert not write_translations(PLAIN, tmp_path, 500, keep=1)[1]
    assert read_files(tmp_path) == {"ref.txt": b"a c\ne f\n", "step-0000500.txt": b"a b\nd\n"} | own


# Scores of the files


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_the_score_of_hard_text_is_the_same_after_it_was_written(tokenizer: str, tmp_path: Path) -> None:
    rng = random.Random(7)

    def draw() -> str:
        return fuzz_line(rng).replace("-\n", "-")  # 13a removes a hyphen with its line feed

    sentences = []
    for _ in range(60):
        reference = draw()
        sentences.append(Sentence(reference + draw(), [reference, *(draw() for _ in range(rng.randint(0, 2)))]))
    write_translations(sentences, tmp_path, 500)
    lines, *references = (read_lines(tmp_path / f"{name}.txt") for name in ("step-0000500", "ref-1", "ref-2", "ref-3"))
    hypotheses, groups = [one.hypothesis for one in sentences], [one.references for one in sentences]
    expected = corpus_bleu(hypotheses, groups, tokenizer=tokenizer, percent=True).bleu
    assert expected > 5  # so that something matches
    score = SacreBLEU(tokenize=tokenizer).corpus_score(lines, references).score
    assert score == pytest.approx(expected, abs=1e-9)


# Complete files or none


@contextlib.contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Within this context, files cannot grow beyond a number of bytes, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


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
            write_translations(sentences, folder, step, keep=1)
        assert {path: path.read_bytes() for path in folder.iterdir()} == files


def write_steps(number: int, folder: Path) -> None:
    """Write what a run writes."""
    for step in range(100):
        write_translations([Sentence(f"run {number}", ["a reference"])], folder, step, keep=2)
        append_lines(folder / "scores.jsonl", [{"key": f"{number}", "step": step}] * 2)


@pytest.mark.slow
def test_two_runs_may_write_to_one_folder(tmp_path: Path) -> None:
    start_processes(write_steps, (tmp_path,), nprocs=2, start_method="forkserver")  # type: ignore[no-untyped-call]
    assert {*(path.read_text() for path in tmp_path.glob("step-*99*.txt"))} <= {"run 0\n", "run 1\n"}
    assert (tmp_path / "ref.txt").read_text() == "a reference\n"
    lines = [(line["key"], line["step"]) for line in read_scores(tmp_path / "scores.jsonl")]
    assert lines[::2] == lines[1::2]  # those of a call stay together
    assert sorted(lines[::2]) == [(key, step) for key in "01" for step in range(100)]
    assert not [*tmp_path.glob(".*.part")]


# Old translations


@pytest.mark.parametrize(("keep", "kept"), [(1, [4]), (3, [2, 3, 4]), (9, [1, 2, 3, 4]), (None, [1, 2, 3, 4])])
def test_the_latest_translations_are_kept(keep: int | None, kept: list[int], tmp_path: Path) -> None:
    for step in range(1, 5):
        write_translations(WITH_SOURCES, tmp_path, step, keep, scores={"f": torch.tensor([0.5, -1])})
    files = {f"step-{step:07}.{kind}" for step in kept for kind in ("txt", "tsv")}
    assert {*read_files(tmp_path)} == {"ref.txt", "src.txt", *files}


def test_the_latest_translations_are_those_of_the_latest_steps_and_the_new_ones(tmp_path: Path) -> None:
    """Whenever they were written: a checkpoint of an early step may be tested last."""
    for step in (1000, 2000, 500):
        write_translations(PLAIN, tmp_path, step, keep=2)
    assert {*read_files(tmp_path)} == {"ref.txt", "step-0000500.txt", "step-0002000.txt"}
    write_translations(PLAIN, tmp_path, 12_345_678, keep=2)
    assert {*read_files(tmp_path)} == {"ref.txt", "step-0002000.txt", "step-12345678.txt"}


OTHER = [sentence._replace(hypothesis="x") for sentence in PLAIN]
"""Other translations of the same sentences."""


def test_other_translations_of_the_same_step_get_the_next_number(tmp_path: Path) -> None:
    for sentences in (OTHER, PLAIN, OTHER, PLAIN):  # each is written once
        write_translations(sentences, tmp_path, 500)
    written = {"step-0000500.txt": b"x\nx\n", "step-0000500-2.txt": b"a b\nd\n"}
    assert read_files(tmp_path) == {"ref.txt": b"a c\ne f\n"} | written
    write_translations([one._replace(hypothesis="y") for one in PLAIN], tmp_path, 500, keep=2)
    assert {*read_files(tmp_path)} == {"ref.txt", "step-0000500-2.txt", "step-0000500-3.txt"}
    write_translations(OTHER, tmp_path, 500, keep=2)  # a number is given once
    assert {*read_files(tmp_path)} == {"ref.txt", "step-0000500-3.txt", "step-0000500-4.txt"}


def test_other_scores_of_the_same_translations_get_the_next_number(tmp_path: Path) -> None:
    for scores in ([0.5, -1], [0.5, 1], [0.5, 1]):
        write_translations(PLAIN, tmp_path, 500, scores={"f": torch.tensor(scores)})
    files = read_files(tmp_path)
    assert (files["step-0000500.tsv"], files["step-0000500-2.tsv"]) == (b"f\n0.5\n-1.0\n", b"f\n0.5\n1.0\n")
    write_translations(PLAIN, tmp_path, 500)  # without scores, nothing new
    assert read_files(tmp_path) == files


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("val/step-0000500.txt", True),
        ("val/news/step-0000500.txt", True),
        ("step-12345678.txt", True),
        ("val/step-0000000.txt", False),  # of a model that is not trained
        ("val/ref.txt", False),
        ("step-500.txt", False),
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


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    append_lines(tmp_path / "scores.jsonl", [make_line(1) | {"parts": [0.5, math.nan, -math.inf], "name": "NaN"}])
    line = json.loads((tmp_path / "scores.jsonl").read_text(), parse_constant=pytest.fail)
    assert line == make_line(1) | {"parts": [0.5, None, None], "name": "NaN"}


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n\0\xc3\n', b'{"a": 1}', b'{"a": 1}\n{"st'])
def test_what_the_file_has_is_left_alone(before: bytes, tmp_path: Path) -> None:
    """A run that was killed may have left half a line, which is ended once."""
    path = tmp_path / "scores.jsonl"
    path.write_bytes(before)
    record = Record(tmp_path)
    lines = [make_line(step) for step in (3, 4)]
    for line in lines:
        record.write(Naming(), [], {"val": Result({"bleu": line["bleu"]})}, step=line["step"], epoch=0)
    added = path.read_bytes().removeprefix(before.removesuffix(b"\n") + b"\n").decode()
    assert [json.loads(line) for line in added.splitlines()] == [line | {"epoch": 0, "file": None} for line in lines]


# Whether translations of other steps still match

CHANGES: dict[str, tuple[list[Sentence], list[Sentence], bool]] = {
    "nothing": (PLAIN, PLAIN, False),
    "nothing, with sources": (WITH_SOURCES, WITH_SOURCES, False),
    "hypotheses": (SEVERAL, [sentence._replace(hypothesis="other") for sentence in SEVERAL], False),
    "a reference": (PLAIN, [PLAIN[0], Sentence("d", ["e  f"])], True),
    "the second reference": (SEVERAL, [Sentence("a b", ["a c", "h"]), SEVERAL[1]], True),
    "the order of references": (SEVERAL, [Sentence("a b", ["g", "a c"]), SEVERAL[1]], True),
    "more references": (PLAIN, SEVERAL, True),
    "fewer references": (SEVERAL, PLAIN, True),
    "more sentences": (PLAIN, [*PLAIN, PLAIN[0]], True),
    "fewer sentences": (PLAIN, PLAIN[:1], True),
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
    assert not write_translations(before, folder, 500)[1]  # there are no others
    assert write_translations(after, folder, 1000)[1] == changed
    assert not write_translations(after, folder, 1500)[1]  # the same again
    write_translations(after, fresh, 1000)
    shown = {name: content for name, content in read_files(folder).items() if name in read_files(fresh)}
    assert shown == read_files(fresh)
    # No references or sources of the old ones are left.
    assert {*read_files(folder)} - {*shown} == {"step-0000500.txt", "step-0001500.txt"}


# Folders


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["val"], "val"),
        (["val", "news"], "val/news"),
        (["val", ""], "val"),  # a single loader without a name
        (["val", "WMT 22.en-de+x@y"], "val/WMT 22.en-de+x@y"),
        (["val", "新闻"], "val/新闻"),
        (["val", "Über"], "val/Über"),
        (["val", "."], "val/%2E"),
        (["val", ".."], "val/.%2E"),
        (["val", ". ."], "val/. %2E"),
        (["val", "..."], "val/..%2E"),
        (["val", "../x"], "val/..%2Fx"),
        (["val", "/etc"], "val/%2Fetc"),
        (["val", "a/b"], "val/a%2Fb"),
        (["val", "a%2Fb"], "val/a%252Fb"),
        (["val", "…"], "val/%E2%80%A6"),  # its UTF-8
        (["val", "C:\\x"], "val/C%3A%5Cx"),
        (["val", "~"], "val/%7E"),
        (["val", "a\0\n"], "val/a%00%0A"),
        (["../val"], "..%2Fval"),
        ([os.fsdecode(b"caf\xe9")], "caf%ED%B3%A9"),  # a file whose name is not UTF-8
        # names that Windows does not allow
        (["val", "CON"], "val/%43ON"),
        (["val", "aux.txt"], "val/%61ux.txt"),
        (["val", "Lpt9"], "val/%4Cpt9"),
        (["val", "console"], "val/console"),
        (["val", "a."], "val/a%2E"),
        (["val", "a "], "val/a%20"),
        # names that are too long for most file systems
        (["val", "x" * 100], f"val/{'x' * 100}"),
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
    validation = count(make_validation(CorpusBLEU(percent=True)), preds, target)
    write_translations(read_all(gather(validation)), tmp_path, 500)
    files = ["ref-1.txt", "ref-2.txt", "ref-3.txt", "-i", "step-0000500.txt"]
    command = [sys.executable, "-m", "sacrebleu", *files, "-b", "-w", "10"]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True)
    assert done.stdout == f"{validation.finish()['val_bleu'].score:.10f}\n"
