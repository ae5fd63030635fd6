"""The record of a run: what is written, that it is whole or not there, and that it scores as it was logged."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric
from lightning_bleu.compare import compare_systems, read_run
from lightning_bleu.observers.record import Record, write_folder
from lightning_bleu.observers.recorded import find_validations, name_folder, read_lines, read_validation
from lightning_bleu.tasks import ROUGE
from tests.helpers import files
from tests.helpers.corpora import random_corpus
from tests.helpers.files import limit_files, read_files
from tests.helpers.validations import Counting, count, score

FOLDER = Path("translations")
PLACE = "val/step-0000500"
LINE_BREAKS = [*(chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1), "\r\n"]
"""Everything that ``str.splitlines`` takes for the end of a line."""


def write(
    folder: Path, preds: Any, target: Any, step: int = 500, *, metrics: Any = None, name: str = "", **fields: Any
) -> Record:
    """Write a validation with a loader."""
    record = Record(folder)
    record.write(score(count(Counting(metrics, [name]), preds, target, **fields)), step=step, epoch=0.5)
    return record


# What is written


@pytest.mark.parametrize(
    ("hypotheses", "references", "sources", "texts"),
    [
        (["a  b.", ""], ["\xe4", "d"], ["\u597d", ""], {"hyp": "a  b.\n\n", "ref": "\xe4\nd\n", "src": "\u597d\n\n"}),
        (
            ["a", "c", "f"],
            [["b"], ["d", "e"], ["g", "h", "i"]],
            None,
            {"hyp": "a\nc\nf\n", "ref-1": "b\nd\ng\n", "ref-2": "b\ne\nh\n", "ref-3": "b\nd\ni\n"},
        ),
        (["a\ud800b"], ["\udfffc"], ["\ud83d"], {"hyp": "a?b\n", "ref": "?c\n", "src": "?\n"}),
        *(
            (
                [f"a{end}b{end}{end}c{end}", "x"],
                [[f"a{end}", end], ["y"]],
                [f"{end}a", "z"],
                {"hyp": "a b  c\nx\n", "ref-1": "a\ny\n", "ref-2": "\ny\n", "src": " a\nz\n"},
            )
            for end in LINE_BREAKS
        ),
    ],
    ids=["one", "missing references", "lone surrogates", *map(ascii, LINE_BREAKS)],
)
def test_texts_have_a_line_per_sentence_and_sentences_are_exact(
    hypotheses: Any, references: Any, sources: Any, texts: dict[str, str], tmp_path: Path
) -> None:
    """In the texts, a missing reference repeats the first one, a line break is a space, a lone surrogate a "?"."""
    write(tmp_path / "new", hypotheses, references, source=sources)
    written = read_files(tmp_path / "new" / PLACE)
    assert {name[:-4]: content.decode() for name, content in written.items() if name.endswith(".txt")} == texts
    sentences = files.read_sentences(tmp_path / "new" / PLACE)
    assert [sentence["hypothesis"] for sentence in sentences] == hypotheses
    assert [sentence["references"] for sentence in sentences] == [
        [row] if isinstance(row, str) else row for row in references
    ]
    assert [sentence.get("source") for sentence in sentences] == (sources or [None] * len(hypotheses))
    (loader,) = json.loads(written["scores.json"])["loaders"]
    has_breaks = any(len(f"{text}.".splitlines()) > 1 for text in hypotheses)
    assert loader["changed_lines"] == (has_breaks or "?" in texts["hyp"])
    assert loader["sentences"] == len(hypotheses)


def test_a_sentence_has_what_its_validation_has(tmp_path: Path) -> None:
    ratio = FunctionMetric(lambda lines, _: {"n": [(1, len(line)) for line in lines]})
    metrics = {"bleu": CorpusBLEU(max_order=1), "ratio": ratio}
    write(tmp_path, ["a b", "c"], ["a b", "d"], metrics=metrics, index=[7, 3], group=["x\ty", "z"])
    first, second = files.read_sentences(tmp_path / PLACE)
    assert first == {
        **{"index": 3, "group": "z", "hypothesis": "c", "references": ["d"]},
        **{"scores": {"bleu": 0, "ratio/n": 1}, "format": 1},
    }
    assert [*second.items()][:3] == [("index", 7), ("group", "x\ty"), ("hypothesis", "a b")]
    table = pd.read_json(tmp_path / PLACE / "sentences.jsonl", lines=True)
    assert table["hypothesis"].tolist() == ["c", "a b"]


def test_without_sentences_nothing_is_written(tmp_path: Path) -> None:
    Record(tmp_path).write(score(Counting()), step=500, epoch=None)
    assert [*tmp_path.iterdir()] == []


LETTERS = st.characters(exclude_categories=[]) | st.sampled_from("ab-.\n\r\t\0\u2028\ud800")
TEXTS = st.text(LETTERS, max_size=12).filter(lambda text: not re.search("[\ud800-\udbff][\udc00-\udfff]", text))
"""Any text, without two surrogates that JSON takes for one character."""


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), TEXTS), min_size=2, max_size=4))
@settings(deadline=None, max_examples=20)
def test_any_sentences_are_read_as_they_were_and_score_as_logged(corpus: list[tuple[str, list[str], str]]) -> None:
    hypotheses, references, sources = (list(column) for column in zip(*corpus))
    metrics: Any = {
        "bleu": CorpusBLEU(),
        "chrf": CorpusCHRF(whitespace=True),
        "rouge": ROUGE(("rougeLsum",)),
    }
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the texts
        evaluator = Evaluator(metrics, translations=folder, samples=0)
        evaluator.start()
        evaluator.update(hypotheses, references, source=sources)
        results = evaluator.finish(500)
        texts = compare_systems({"a": Path(folder, PLACE)}, resamples=1)
    assert (texts.texts.hypotheses["a"], texts.texts.references, texts.texts.sources) == (
        hypotheses,
        references,
        sources,
    )
    scores = {f"val_{metric}": intervals["a"].score for metric, intervals in texts.intervals.items()}
    assert scores == {name: result.score for name, result in results.items()}


# A score


def record_scores(folder: Path, metrics: Any, *names: str, **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """What is recorded of two validations, and their results."""
    evaluator = Evaluator(metrics, translations=folder, **options)
    results = []
    for step, hypotheses in enumerate([["a b c d", "a b x", "e f g"], ["a b c d", "a b c d", "e f"]]):
        evaluator.start(dict.fromkeys(names) or None)
        for number in range(max(1, len(names))):
            evaluator.update(hypotheses, ["a b c d e", "a c", "e f g h"], dataloader_idx=number)
        results.append(
            {name: json.loads(json.dumps(result.to_dict())) for name, result in evaluator.finish(step).items()}
        )
    return files.read_validations(folder), results


def first_column(heading: str) -> list[str]:
    """The code in the first column of a table of the documentation."""
    text = (Path(__file__).parents[2] / "docs" / "api_record.md").read_text().partition(f"## {heading}\n")[2]
    rows = [row for row in text.partition("\n## ")[0].splitlines() if row.startswith("| `")]
    return [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_documented_keys_are_those_of_the_files(tmp_path: Path) -> None:
    write(tmp_path, ["a b"], ["a b"], source=["c"], index=[0], group=["g"])
    (validation,) = files.read_validations(tmp_path)
    assert first_column("scores.json") == [*validation, *validation["loaders"][0], *validation["scores"][0]]
    assert [key for key in first_column("sentences.jsonl") if key not in ("id", "columns")] == [
        *files.read_sentences(tmp_path / PLACE)[0]
    ]


@pytest.mark.parametrize("metric", [CorpusBLEU(max_order=2, percent=True), CorpusCHRF(word_order=1)])
def test_a_score_of_a_metric_of_this_package_has_what_makes_it_again(metric: Any, tmp_path: Path) -> None:
    validations, results = record_scores(tmp_path, {"own": metric}, confidence=0.9, compare_to="best")
    for step, (validation, result) in enumerate(zip(validations, results, strict=True)):
        (line,) = validation["scores"]
        assert [validation[key] for key in ("format", "stage", "step", "epoch")] == [1, "val", step, None]
        assert line.items() >= result["val_own"].items()
        place = {"key": "val_own", "loader": "", "group": None, "mean_of": [], "metric": "own", "forms": ["strings"]}
        assert line.items() >= (place | {"class": type(metric).__name__}).items()
        assert line["settings"] == json.loads(json.dumps(metric.settings.plain()))
        assert type(metric.scorer).from_plain(line["settings"], percent=line["percent"]) == metric.scorer


def test_a_mean_of_loaders_has_no_loader_and_names_what_it_is_the_mean_of(tmp_path: Path) -> None:
    validations, results = record_scores(tmp_path, CorpusBLEU(), "news", "talks", confidence=0.9, compare_to="best")
    for validation, result in zip(validations, results, strict=True):
        assert [loader["name"] for loader in validation["loaders"]] == ["news", "talks"]
        mean, *own = validation["scores"]
        assert [(line["key"], line["loader"]) for line in own] == [
            ("val_bleu/news", "news"),
            ("val_bleu/talks", "talks"),
        ]
        assert mean.items() >= result["val_bleu"].items()
        assert (mean["key"], mean["loader"], mean["settings"]) == ("val_bleu", None, None)
        assert mean["mean_of"] == ["val_bleu/news", "val_bleu/talks"]


# Several validations of a step


def names_in(folder: Path) -> list[str]:
    """The folders of validations and the hidden ones."""
    return sorted(path.name for path in folder.iterdir())


def test_other_results_of_a_step_get_the_next_number_and_the_same_write_nothing(tmp_path: Path) -> None:
    for hypotheses in (["a"], ["a"], ["b"], ["b"], ["a"]):
        write(tmp_path, hypotheses, ["a"])
    assert names_in(tmp_path / "val") == ["step-0000500", "step-0000500-2", "step-0000500-3"]
    assert read_run(tmp_path).validations[0].folders == {"": tmp_path / "val" / "step-0000500-3"}
    record = Record(tmp_path)
    record.write(score(count(Counting(), ["a"], ["a"])), step=500, epoch=7)  # the same results of another epoch
    assert len(names_in(tmp_path / "val")) == 3
    write(tmp_path, ["a"], ["a"], metrics=CorpusBLEU(max_order=2))  # the same texts with other scores
    assert names_in(tmp_path / "val")[-1] == "step-0000500-4"


@pytest.mark.filterwarnings("ignore:.*special tokens")
def test_a_loader_that_was_not_validated_again_keeps_its_scores_and_a_mean_is_the_last_that_was_logged(
    tmp_path: Path,
) -> None:
    for names, hypotheses in ((["news", "talks"], "a b c d </s>"), (["news"], "a b c x"), (["talks"], "x")):
        evaluator = Evaluator({"bleu": CorpusBLEU(max_order=1)}, translations=tmp_path, confidence=0.9)
        evaluator.start(dict.fromkeys(names))
        for number in range(len(names)):
            evaluator.update([hypotheses] * 4, ["a b c d"] * 4, dataloader_idx=number)
        evaluator.finish(500)
        (validation,) = read_run(tmp_path).validations
        last = {key: line["score"] for key, line in validation.scores.items()}
        if names == ["news"]:
            assert last == {"val_bleu/talks": 0.5, "val_bleu/news": 0.75, "val_bleu": 0.75}
            assert [finding.where for finding in validation.findings] == ["talks"]
            assert validation.scores["val_bleu"]["mean_of"] == ["val_bleu/news"]
    assert last == {"val_bleu/news": 0.75, "val_bleu/talks": 0, "val_bleu": 0}
    assert {name: folder.parent.name for name, folder in validation.folders.items()} == {
        "news": "step-0000500-2",
        "talks": "step-0000500-3",
    }
    validation.scores["val_bleu"]["score"] = -1  # what is handed out is the caller's
    assert read_run(tmp_path).validations[0].score("val_bleu") == 0


def test_equal_files_of_the_validation_before_are_links(tmp_path: Path) -> None:
    record = Record(tmp_path)
    for step in (1, 2):
        validation = score(count(Counting(), [f"a {step}"], ["a b"], source=["c"]))
        record.write(validation, step=step, epoch=None)
    first, second = (tmp_path / "val" / f"step-000000{step}" for step in (1, 2))
    for name in ("ref.txt", "src.txt"):
        assert (first / name).samefile(second / name)
    assert not (first / "hyp.txt").samefile(second / "hyp.txt")


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda *paths: os.stat("/missing"))
    first = write_folder(tmp_path, 1, {"scores.json": b"a"}, {})
    second = write_folder(tmp_path, 2, {"scores.json": b"a"}, {"scores.json": first / "scores.json"})
    assert (second / "scores.json").read_bytes() == b"a"
    assert not (second / "scores.json").samefile(first / "scores.json")


# Whole or not there


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    record = write(tmp_path, ["a"], ["a"], 1)
    before = read_files(tmp_path)
    whole = sum(map(len, before.values()))
    for size in range(0, whole, whole // 12):
        with (
            limit_files(size),
            pytest.raises(OSError, match="Nothing of this validation was recorded: make room") as caught,
        ):
            record.write(score(count(Counting(), ["b" * whole], ["a"])), step=2, epoch=None)
        assert caught.value.filename == str(tmp_path / "val")
        assert read_files(tmp_path) == before
        assert names_in(tmp_path / "val") == ["step-0000001"]
    record.write(score(count(Counting(), ["b"], ["a"])), step=2, epoch=None)
    assert len(find_validations(tmp_path)) == 2


@pytest.mark.parametrize("failures", [2, 100])
def test_a_rename_that_fails_is_tried_again(failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, while a scanner has a file open."""
    tries: list[Path] = []
    rename = os.rename

    def fail(hidden: Path, place: Path) -> None:
        tries.append(hidden)
        if len(tries) <= failures:
            raise PermissionError(13, "Permission denied")
        rename(hidden, place)

    monkeypatch.setattr(os, "rename", fail)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    if failures == 2:
        write(tmp_path, ["a"], ["a"])
        assert names_in(tmp_path / "val") == ["step-0000500"]
        return
    with pytest.raises(OSError, match="this folder is complete, but it cannot be renamed to step-0000500") as caught:
        write(tmp_path, ["a"], ["a"])
    assert (len(tries), caught.value.filename) == (4, str(tries[0]))
    assert (tries[0] / "scores.json").exists()
    assert find_validations(tmp_path) == []


def test_hidden_folders_are_removed_when_they_are_older_than_a_day(tmp_path: Path) -> None:
    folder = tmp_path / "val"
    for name, days in {f".step-0000500-{'0' * 32}": 2, f".step-0000500-{'1' * 32}": 0.5, ".step-mine": 9}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "scores.json").write_text("{}")
        changed = time.time() - days * 24 * 3600
        os.utime(folder / name, (changed, changed))
    Record(tmp_path).check_folder("val")
    assert names_in(folder) == [f".step-0000500-{'1' * 32}", ".step-mine"]
    assert find_validations(tmp_path) == []


def test_a_record_touches_no_disk_until_it_is_asked_to(tmp_path: Path) -> None:
    Record(tmp_path / "new").check_new("")
    assert not (tmp_path / "new").exists()
    Record(tmp_path / "new").check_folder("val")
    assert (tmp_path / "new" / "val").is_dir()


@pytest.mark.parametrize("step", [0, 500])
def test_only_validations_of_a_trained_model_are_those_of_another_run(step: int, tmp_path: Path) -> None:
    record = write(tmp_path, ["a"], ["a"], step)
    record.check_new("")  # they are its own
    if step == 0:
        Record(tmp_path).check_new("")
    else:
        with pytest.raises(ValueError, match=r"has the translations of another training run: .*, a way out"):
            Record(tmp_path).check_new("a way out")


def test_a_folder_that_another_run_has_just_placed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_bleu.observers.record._find_last", lambda folder, step: 0)
    for content in (b"a", b"b", b"c"):
        write_folder(tmp_path, 5, {"scores.json": content, "news/hyp.txt": b""}, {})
    assert [(tmp_path / name / "scores.json").read_bytes() for name in names_in(tmp_path)] == [b"a", b"b", b"c"]


def write_forever(folder: Path, validations: list[Any]) -> None:
    """Write validations until this process is killed."""
    for number in itertools.count():
        Record(folder).write(validations[number % len(validations)], step=number % 5, epoch=None)


@pytest.mark.long
@pytest.mark.slow
def test_every_folder_of_a_killed_writer_that_has_a_name_is_whole(tmp_path: Path) -> None:
    rng = random.Random(0)
    validations = [score(count(Counting(names=["a"]), [f"x {n}"] * 99, ["a b"] * 99)) for n in range(3)]
    for number in range(60):
        processes = []
        for _ in range(2):
            process = os.fork()
            if process == 0:
                write_forever(tmp_path / f"{number}", validations)
            processes.append(process)
        time.sleep(rng.uniform(0.02, 0.06))
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    assert [*tmp_path.rglob(".step-*")]  # some were killed while they wrote
    written = find_validations(tmp_path)
    assert len(written) > 60
    for validation in written:
        (loader,) = read_validation(validation)["loaders"]
        assert len(read_lines(loader["folder"])) == 99


# Records of strangers


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"5", b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000),
        *({"format": 2}, {"format": None}, {"step": "500"}, {"step": float("inf")}, {"epoch": True}),
        *({"loaders": [5]}, {"loaders": {}}, {"scores": [{"score": 1}]}),
    ],
)
def test_what_cannot_be_read_is_skipped_with_a_warning_and_an_error_if_it_is_compared(
    content: Any, tmp_path: Path
) -> None:
    for step in (500, 600):
        write(tmp_path, ["a", "b"], ["a", "b"], step)
    path = tmp_path / PLACE / "scores.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content).encode()
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"^'.*/scores.json' cannot be read: .* This validation is skipped"):
        (validation,) = read_run(tmp_path).validations
    assert validation.step == 600
    with pytest.raises(ValueError, match=r"^'.*/scores.json' cannot be read: "):
        compare_systems({"a": tmp_path / PLACE})


@pytest.mark.parametrize(
    "line",
    [b"{", b"[" * 100_000, b"5", b"", b'{"format": 1}', b'{"format": 1, "hypothesis": "a", "references": "b"}'],
)
def test_sentences_that_cannot_be_read_are_named_by_their_line(line: bytes, tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"], ["a", "b"])
    path = tmp_path / PLACE / "sentences.jsonl"
    path.write_bytes(path.read_bytes().splitlines()[0] + b"\n" + line + b"\n")
    with pytest.raises(ValueError, match=r"^line 2 of '.*/sentences.jsonl' cannot be read: "):
        compare_systems({"a": tmp_path / PLACE})


def test_numbers_that_are_not_finite_are_none(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"], ["a", "b"])
    path = tmp_path / PLACE / "scores.json"
    for number in ("NaN", "Infinity", "1e999", "-1e301"):
        path.write_text(path.read_text().replace('"epoch": 0.5', f'"epoch": {number}'))
        assert read_validation(tmp_path / PLACE)["epoch"] is None


@pytest.mark.parametrize("name", ["scores.json", "sentences.jsonl", ""])
def test_a_link_that_leads_out_of_a_record_is_an_error(name: str, tmp_path: Path) -> None:
    write(tmp_path / "other", ["a", "b"], ["a", "b"])
    write(tmp_path / "run", ["a", "b"], ["a", "b"])
    path = tmp_path / "run" / PLACE / name
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "other" / PLACE / name)
    with pytest.raises(ValueError, match="is a link that leads out of"):
        compare_systems({"a": tmp_path / "run" if name == "" else tmp_path / "run" / PLACE})


def test_a_loader_that_is_a_link_out_of_a_record_is_an_error(tmp_path: Path) -> None:
    for run in ("run", "other"):
        write(tmp_path / run, ["a", "b"], ["a", "b"], name="news" if run == "run" else "")
    (tmp_path / "run" / PLACE / "news").rename(tmp_path / "moved")
    (tmp_path / "run" / PLACE / "news").symlink_to(tmp_path / "other" / PLACE)
    with pytest.raises(ValueError, match="is a link that leads out of"):
        compare_systems({"a": tmp_path / "run" / PLACE})
    with (
        pytest.warns(UserWarning, match="is a link that leads out of"),
        pytest.raises(ValueError, match=r"^no validation in '.*run' can be read$"),
    ):
        read_run(tmp_path / "run")


def test_links_that_a_user_passes_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "run", ["a", "b"], ["a", "b"], name="news")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    (tmp_path / "last").symlink_to(tmp_path / "run" / PLACE / "news")
    for path in (tmp_path / "link", tmp_path / "link" / PLACE, tmp_path / "last"):
        assert compare_systems({"a": path}).texts.hypotheses == {"a": ["a", "b"]}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["scores.json", "sentences.jsonl"])
def test_a_pipe_is_not_read(name: str, tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"], ["a", "b"])
    (tmp_path / PLACE / name).unlink()
    os.mkfifo(tmp_path / PLACE / name)
    with pytest.raises(ValueError, match=r"is no file|there is no scores.json"):
        compare_systems({"a": tmp_path / PLACE})


@pytest.mark.parametrize("old", ["scores.jsonl", "val/step-0000500.txt", "step-0000500-2.txt"])
def test_a_record_of_the_old_form_is_an_error(old: str, tmp_path: Path) -> None:
    (tmp_path / old).parent.mkdir(exist_ok=True)
    (tmp_path / old).touch()
    calls: list[Any] = [lambda: read_run(tmp_path), lambda: compare_systems({"a": tmp_path})]
    for call in (*calls, Evaluator(translations=tmp_path).start):
        with pytest.raises(ValueError, match=r"has a record of an earlier version .*, which cannot be read"):
            call()


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
        # names of what is written there
        (["val", "hyp.txt"], "val/%68yp.txt"),
        (["val", "scores.json"], "val/%73cores.json"),
        (["val", "sentences.jsonl"], "val/%73entences.jsonl"),
        (["val", "step-0000500"], "val/%73tep-0000500"),
        # names that are too long for most file systems
        (["val", "x" * 300], f"val/{'x' * 100}-{zlib.crc32(b'x' * 300):08x}"),
        (["val", "新" * 300], f"val/{'新' * 33}-{zlib.crc32('新'.encode() * 300):08x}"),
    ],
)
def test_a_folder_is_named_after_its_key_and_loader(names: list[str], expected: str, tmp_path: Path) -> None:
    assert name_folder(FOLDER, *names) == FOLDER / expected
    folder = name_folder(tmp_path, *names)
    folder.mkdir(parents=True)
    assert tmp_path.resolve() in folder.resolve().parents


names = st.text(st.characters(), min_size=1, max_size=20) | st.text("./\\%2EF :~a\ud800", min_size=1, max_size=6)
names |= names.map(lambda name: 300 * "x" + name) | st.sampled_from(
    ["con", "CON", "%63on", "con.x", "a.", "step-1", "ref.txt", "%72ef.txt"]
)


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
@pytest.mark.long
def test_the_command_line_of_sacrebleu_prints_our_score_digit_for_digit(tmp_path: Path) -> None:
    hypotheses, references = random_corpus(random.Random(3), 200)
    preds = [" ".join(words) + "\u2028 .\r\nx\n" * (i % 2) for i, words in enumerate(hypotheses)]
    target = [[*map(" ".join, group)] for group in references]
    write(tmp_path, preds, target, metrics=CorpusBLEU(percent=True))
    names = ["ref-1.txt", "ref-2.txt", "ref-3.txt", "-i", "hyp.txt"]
    command = [sys.executable, "-m", "sacrebleu", *names, "-b", "-w", "10"]
    done = subprocess.run(
        command, cwd=tmp_path / PLACE, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True
    )
    (recorded,) = read_validation(tmp_path / PLACE)["scores"]
    assert done.stdout == f"{recorded['score']:.10f}\n"
