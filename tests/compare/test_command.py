"""The command ``lightning-bleu``, as a shell runs it, and in this process where that is the same."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from statistics import fmean
from typing import Any

import jiwer
import pytest
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
from sacrebleu import BLEU, CHRF, TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, corpus_bleu
from lightning_bleu.compare import compare_systems, read_run
from lightning_bleu.compare.command import METRICS, main, name_files
from lightning_bleu.tasks import WER

REFERENCES = [f"the cat number {number} sat on the mat" for number in range(40)]
OLD = [line.replace("sat", "lay") for line in REFERENCES]
NEW = [line.replace("mat", "rug") if number % 4 == 0 else line for number, line in enumerate(REFERENCES)]


def write_lines(file: Path, lines: list[str]) -> Path:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two systems and their references."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {"old": OLD, "new": NEW, "reference": REFERENCES}.items():
        write_lines(tmp_path / f"{name}.txt", lines)
    return tmp_path


# Comparing


def test_the_first_system_is_the_baseline_unless_another_one_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files may follow options, and a second file after ``-r`` is a system."""
    comparison = compare_systems({"old": OLD, "new": NEW}, references=REFERENCES)
    expected = f"{comparison}\nold: old.txt\nnew: new.txt\n"
    for arguments in (["old.txt", "new.txt", "-r", "reference.txt"], ["old.txt", "-r", "reference.txt", "new.txt"]):
        assert main(["compare", *arguments, "-n", "0"]) == 0
        assert capsys.readouterr() == (expected, "")
    for baseline in ("old.txt", "old"):
        assert main(["compare", "new.txt", "old.txt", "-r", "reference.txt", "-b", baseline, "-n", "0"]) == 0
        assert capsys.readouterr().out == expected


def test_json_has_the_scores_and_the_tests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references = ["-r", "reference.txt", "-r", "old.txt"]
    options = ["-m", "chrf++", "-m", "bleu", "-t", "char", "--lowercase", "--confidence", "0.9", "--resamples", "200"]
    assert main(["compare", "a=old.txt", "b=new.txt", *references, *options, "--seed", "3", "--json"]) == 0
    metrics = {
        "chrf++": CorpusCHRF(word_order=2, lowercase=True, percent=True),
        "bleu": CorpusBLEU(tokenizer="char", lowercase=True, percent=True),
    }
    comparison = compare_systems(
        {"a": OLD, "b": NEW},
        references=[list(lines) for lines in zip(REFERENCES, OLD)],
        metrics=metrics,
        confidence=0.9,
        resamples=200,
        seed=3,
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(comparison.to_dict()))
    assert printed["metrics"]["bleu"]["systems"]["a"]["score"] == 100  # it is a reference, too


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_can_be_chosen(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sacre: dict[str, Any] = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()}
    if name in sacre:
        expected = sacre[name].corpus_score(NEW, [REFERENCES]).score
    elif name.startswith("rouge"):
        scorer = RougeScorer([name])
        expected = fmean(100 * scorer.score(*pair)[name].fmeasure for pair in zip(REFERENCES, NEW))
    else:
        rates: dict[str, Any] = {"wer": jiwer.wer, "cer": jiwer.cer, "exact_match": share_of_equal}
        expected = 100 * rates[name](REFERENCES, NEW)
    assert main(["compare", "new.txt", "-r", "reference.txt", "-m", name, "--json"]) == 0
    (metric,) = json.loads(capsys.readouterr().out)["metrics"].values()
    assert metric["systems"]["new"]["score"] == pytest.approx(expected)


def share_of_equal(references: list[str], hypotheses: list[str]) -> float:
    return fmean(one == other for one, other in zip(references, hypotheses))


def test_no_file_is_replaced_but_a_page_that_the_command_wrote(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    (folder / "link.txt").symlink_to("old.txt")
    (folder / "hard.txt").hardlink_to(folder / "new.txt")
    (folder / "notes.html").write_text("<h1>Notes</h1>\n")
    arguments = ["compare", "old.txt", "new.txt", "-r", "reference.txt", "-s", "reference.txt", "--html"]
    for name in ("old.txt", "./new.txt", "reference.txt", "link.txt", "hard.txt", "notes.html"):
        assert main([*arguments, name]) == 2
        assert f"is no page that the command wrote, so it is not replaced: {name!r}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    for _ in range(2):  # it replaces its own page
        assert main([*arguments, "a.html"]) == 0
        assert capsys.readouterr().err == "lightning-bleu: wrote a.html\n"
    assert "<h1>new against old</h1>" in Path("a.html").read_text(encoding="utf-8")


def test_escapes_in_data_never_reach_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "old.txt", "-m", "\x1b[31mx"])
    assert main(["compare", "\x1b[31m.txt"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_dash_is_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "new.txt").read_bytes())))
    assert main(["compare", "-", "-r", "reference.txt", "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out)["metrics"]["bleu"]["systems"].values()
    assert scores["score"] == pytest.approx(corpus_bleu(NEW, REFERENCES, percent=True).bleu)


def test_one_system_shows_its_scores_and_worst_sentences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "new.txt", "-r", "reference.txt", "-n", "2", "-m", "bleu"]) == 0
    printed = capsys.readouterr().out
    assert f"bleu  {corpus_bleu(NEW, REFERENCES, percent=True).bleu:.2f}" in printed
    assert "Worst 2 for their length, by smoothed BLEU\n" in printed
    assert "hypothesis  the cat number 0 sat on the rug" in printed


def test_an_existing_file_is_a_file_whatever_its_name_has(folder: Path) -> None:
    write_lines(folder / "x=y.txt", OLD)
    assert name_files(["x=y.txt", "b=new.txt"]) == {"x=y": "x=y.txt", "b": "new.txt"}
    assert name_files(["a/out.txt", "a/out.de"]) == {"txt": "a/out.txt", "de": "a/out.de"}
    assert list(name_files(["old.txt", "/dev/fd/63"])) == ["old.txt", "/dev/fd/63"]
    assert list(name_files(["_de.txt", "en_de.txt"])) == ["_de.txt", "en"]  # not ""
    with pytest.raises(ValueError, match=r"several systems would be called 'txt'"):
        name_files(["old.txt", "old.txt"])
    with pytest.raises(ValueError, match=r"several systems would be called 'a': name them, as in NAME=FILE"):
        name_files(["a=old.txt", "a=new.txt"])


def test_resamples_without_words_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those without the only sentence that has words."""
    evaluator = Evaluator(WER(), translations=tmp_path)
    evaluator.start()
    evaluator.update(["a c", *["a"] * 39], ["a b", *[""] * 39])
    evaluator.finish(100)
    assert main(["compare", str(tmp_path / "val/step-0000100"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    (system,) = printed["metrics"]["wer"]["systems"].values()
    assert (system["score"], system["low"] <= 20 <= system["high"]) == (20, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_file_is_read_once_so_it_may_be_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "old.txt", "new.txt", "-r", "reference.txt"]) == 0
    expected = capsys.readouterr().out
    (folder / "pipes").mkdir()
    writers = []
    for name in ("old", "new", "reference"):
        pipe = folder / "pipes" / f"{name}.txt"
        os.mkfifo(pipe)
        content = (folder / f"{name}.txt").read_bytes()
        writers.append(threading.Thread(target=pipe.write_bytes, args=(content,)))
        writers[-1].start()
    assert main(["compare", "pipes/old.txt", "pipes/new.txt", "-r", "pipes/reference.txt"]) == 0
    for writer in writers:
        writer.join()
    assert capsys.readouterr().out.replace("pipes/", "") == expected


# Showing a run


def make_run(folder: Path) -> None:
    """Three validations, of which the second one is the best, and a test."""
    evaluator = Evaluator(
        {"bleu": CorpusBLEU(percent=True), "length": lambda hypotheses, references: [*map(len, hypotheses)]},
        translations=folder,
        confidence=0.9,
    )
    for step, hypotheses in enumerate([OLD, NEW, OLD], 1):
        evaluator.start()
        evaluator.update(hypotheses, REFERENCES)
        evaluator.finish(100 * step, epoch=step - 1)
    evaluator.start(stage="test")
    evaluator.update(NEW, REFERENCES)
    evaluator.finish(300)


def test_a_run_shows_its_validations_and_the_worst_sentences_of_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run")
    assert main(["show", str(tmp_path / "run"), "-n", "1", "--html", str(tmp_path / "run.html")]) == 0
    best = corpus_bleu(NEW, REFERENCES, percent=True).bleu
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run"
    assert re.match(rf"Best: val_bleu {best:.2f} \([\d.]+ to [\d.]+\) at step 200; val_length", lines[2])
    (row,) = [line for line in lines if line.startswith(" 200")]
    assert row.split()[:5] == ["200", "1", "40", f"{best:.2f}", "*"]
    assert "Sentences of step 200" in lines
    assert "<svg" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_run_may_be_in_a_folder_of_translations_and_those_of_the_best_may_be_spoiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run" / "translations")
    (tmp_path / "run/translations/val/step-0000200/sentences.jsonl").unlink()
    assert main(["show", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("run\n")
    assert re.search(r"Sentences of step 200\n\n.* No such file or directory: .*/step-0000200/sentences.jsonl", printed)
    shutil.rmtree(tmp_path / "run/translations/val/step-0000200")
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "step 200" not in capsys.readouterr().out


def test_a_run_is_shown_where_the_package_of_a_metric_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluator = Evaluator(WER(percent=True), translations=tmp_path)
    evaluator.start()
    evaluator.update(OLD, REFERENCES)
    evaluator.finish(100)
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    assert main(["show", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert " 100" in printed
    assert "WER needs rapidfuzz, which is not installed" in printed


def test_of_very_many_validations_the_latest_are_in_the_table_and_the_page_stays_small(tmp_path: Path) -> None:
    score: dict[str, Any] = {
        "key": "val_bleu",
        "loader": "",
        "group": None,
        "mean_of": [],
        "metric": "bleu",
        "class": "CorpusBLEU",
    }
    score |= {"higher_is_better": True, "percent": True, "interval": {"low": 1.0, "high": 60.0, "confidence": 0.95}}
    for step in range(1, 1101):
        score |= {"forms": [], "score": 99.0 if step == 7 else step % 50}
        validation = {"format": 1, "stage": "val", "step": step, "epoch": None, "loaders": [], "scores": [score]}
        (tmp_path / "val" / f"step-{step:07}").mkdir(parents=True)
        (tmp_path / "val" / f"step-{step:07}" / "scores.json").write_text(json.dumps(validation))
    run = read_run(tmp_path)
    rows = [line.split()[0] for line in str(run).splitlines() if line.split()[:1] and line.split()[0].startswith("1,0")]
    assert rows == [f"1,0{step}" for step in range(61, 100)]
    assert "The latest 40 of 1,100 validations." in str(run)
    assert "Best: val_bleu 99.00 (1.00 to 60.00) at step 7." in str(run)
    assert len(run.to_html()) < 200_000


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare missing.txt -r reference.txt", "No such file or directory: 'missing.txt'"),
        ("compare . -r reference.txt", "'.' has no validations: pass the folder that 'translations' was set to"),
        ("compare old.txt -r .", "a folder has no lines: pass a file in it, such as ref.txt"),
        ("compare latin1.txt -r reference.txt", "'latin1.txt' is not UTF-8: line 1 has the byte 0xe9"),
        ("compare old.txt -m rouge -r reference.txt", "argument -m/--metric: invalid choice: 'rouge'"),
        ("compare old.txt -r reference.txt -n -1", "argument -n/--examples: must be 0 or more, got -1"),
        ("compare ~no-such-user/a.txt -r reference.txt", "Could not determine home directory"),
        ("compare old.txt -r reference.txt -t zh -m ter", "the metrics are ter: add -m bleu"),
        ("compare old.txt -r reference.txt --lowercase -m wer", "of BLEU and chrF, but the metrics are wer"),
        ("compare missing.txt --html no/a.html", "there is no such folder: 'no'"),
        ("show missing --html .", "Is a directory: '.'"),
        ("compare old.txt -r reference.txt -t zz", "'tokenizer' must be a callable or one of"),
        ("compare", "the following arguments are required: [NAME=]PATH"),
        ("score old.txt", "invalid choice: 'score'"),
        ("show missing", "'missing' has no validations: pass the folder that 'translations' was set to"),
        ("show .", "'.' has no validations: pass the folder that 'translations' was set to"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    arguments: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latin1.txt").write_bytes(b"caf\xe9\n")
    try:
        code = main(arguments.split())
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert message in printed.err
    assert printed.err.count("\n") == 1


# As a shell runs it


@pytest.mark.slow
def test_help_and_errors_about_files_do_not_import_torch(folder: Path) -> None:
    commands = ("--help", "compare --help", "compare missing.txt -r reference.txt", "show missing", "score")
    code = f"""
import contextlib
import sys
from lightning_bleu.compare.command import main
for command in {commands!r}:
    with contextlib.suppress(SystemExit):
        main(command.split())
    print(command, *{{"torch", "numpy"}} & sys.modules.keys(), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*commands} <= {*done.stderr.splitlines()}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_terminal_can_show_any_sentence(encoding: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "reference"):
        lines = (folder / f"{name}.txt").read_text().splitlines()
        write_lines(folder / f"{name}.txt", [f"{line} 猫 ‮ é" for line in lines])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert main(["compare", "old.txt", "-r", "reference.txt"]) == 0
    assert b" lay on the mat ?" in sys.stdout.buffer.getvalue()  # type: ignore[union-attr]


def test_a_command_without_an_output_writes_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after ``>&-``."""
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["compare", "old.txt", "-r", "reference.txt", "-m", "bleu", "--html", "a.html"]) == 0
    assert "<h1>old</h1>" in Path("a.html").read_text(encoding="utf-8")


def test_a_pipe_that_is_closed_on_the_way_ends_quietly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["compare", "old.txt", "-r", "reference.txt", "-m", "bleu", "--html", "a.html"]) == 0
    assert "<h1>old</h1>" in Path("a.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("show nowhere 2>/dev/full", 2),
        ("show nowhere 2>&-", 2),
    ],
)
def test_a_stream_that_cannot_be_written_changes_no_exit_code(command: str, code: int, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m lightning_bleu {command}"], capture_output=True, check=False
    )
    assert done.returncode == code
