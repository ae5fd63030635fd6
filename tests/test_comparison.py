"""Two systems, from the files of runs, other files, or lists, against the tests of their metrics."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric, compare_systems, paired_bootstrap
from tests.helpers.files import read_scores

RNG = random.Random(1)
REFERENCES = [" ".join(RNG.choices(["a b", "cd", "e,f", "g\u2028h", "ij."], k=RNG.randint(1, 9))) for _ in range(40)]
SOURCES = [line.upper() for line in REFERENCES]


def spoil(share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join("x" if rng.random() < share else one for one in line) for line in REFERENCES]


A, B = spoil(0.1, 2), spoil(0.2, 3)


def errors(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """The share of wrong characters."""
    assert len(sources) == len(hypotheses)
    return [
        sum(x != y for x, y in zip(line, ours)) / len(line)
        for line, (ours,) in zip(hypotheses, references, strict=True)
    ]


def make_metrics(**options: Any) -> dict[str, Any]:
    settings: Any = {"tokenizer": "char", "smoothing": "floor", "smoothing_value": 0.101, "max_order": 3}
    return {
        "signs": CorpusBLEU(percent=True, **settings, **options),
        "chrf": CorpusCHRF(word_order=1, beta=3, percent=True, **options),
        "errors": FunctionMetric(errors, higher_is_better=False),
    }


def record(folder: Path, system: list[str], **options: Any) -> Path:
    """Write the record of a run; the file of its translations has the line breaks of sentences as spaces."""
    evaluator = Evaluator(translations=folder, **{"metrics": make_metrics()} | options)
    evaluator.start()
    evaluator.update(system, REFERENCES, source=SOURCES, group=["odd/even"] * len(system))
    evaluator.finish(500)
    return folder / "val/odd%2Feven/step-0000500.txt"


def one_line(lines: list[str]) -> list[str]:
    return [" ".join(line.splitlines()) for line in lines]


def score(name: str, system: list[str]) -> Any:
    """A metric that keeps its sentences, or their numbers."""
    metric = make_metrics(keep_sentences=True)["signs" if name == "signs" else "chrf"]
    metric.update(one_line(system), one_line(REFERENCES))
    return errors(system, [[line] for line in REFERENCES], SOURCES) if name == "errors" else metric


def test_files_of_runs_have_the_metrics_and_the_scores_of_their_records(tmp_path: Path) -> None:
    files = record(tmp_path / "a", A), record(tmp_path / "b", B)
    options: dict[str, Any] = {"confidence": 0.8, "resamples": 300, "seed": 5}
    with pytest.warns(UserWarning, match=r"^The record has scores of \['errors'\], .* pass them as metrics=") as said:
        recorded = compare_systems(str(files[0]), files[1], **options)
    assert len(said) == 1
    assert [*recorded.tests] == ["signs", "chrf"]
    comparison = compare_systems(str(files[0]), files[1], metrics=make_metrics(), **options)
    assert [*comparison.tests] == ["signs", "chrf", "errors"]
    for name, test in recorded.tests.items():
        assert test == comparison.tests[name]
    for line in read_scores(tmp_path / "a" / "scores.jsonl"):
        assert line["file"] == ("val/odd%2Feven/step-0000500.txt" if "/odd/even" in line["key"] else None)
    for name, test in comparison.tests.items():
        expected = paired_bootstrap(score(name, A), score(name, B), 300, 5, confidence=0.8)
        assert (test.score_a, test.score_b) == pytest.approx((expected.score_a, expected.score_b))
        assert (test.low, test.high, test.p_value) == pytest.approx((expected.low, expected.high, expected.p_value))
    table = [re.split("  +", line) for line in str(comparison).splitlines()]
    assert table[0] == ["metric", "a", "b", "a - b (80% interval)", "one-sided p"]
    assert table[3][:3] == ["errors", *(f"{sum(one) / 40:.4f}" for one in (score("errors", A), score("errors", B)))]
    one, other = comparison.sentences[7]
    assert (one.hypothesis, other.hypothesis, one.references) == (*one_line([A[7], B[7]]), one_line([REFERENCES[7]]))
    assert one.source == other.source == one_line(SOURCES)[7]
    # A list, and other metrics, are compared with a file in the same way.
    own = compare_systems(one_line(A), files[1], metrics=make_metrics(), **options)
    for name in ("signs", "chrf"):
        assert own.tests[name] == comparison.tests[name]


def test_a_recorded_ratio_of_sums_is_left_out_once_and_compared_with_its_function(tmp_path: Path) -> None:
    def pairs(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[tuple[int, int]]]:
        wrong = [sum(x != y for x, y in zip(one, *ours)) for one, ours in zip(hypotheses, references)]
        return {"rate": [*zip(wrong, map(len, hypotheses))], "count": [(one, 1) for one in wrong]}

    metrics: Any = {
        "bleu": CorpusBLEU(percent=True),
        "wrong": FunctionMetric(pairs, higher_is_better={"rate": False, "count": False}),
        "rate": lambda *lines: pairs(*lines)["rate"],
    }
    files = record(tmp_path / "a", A, metrics=metrics), record(tmp_path / "b", B, metrics=metrics)
    with pytest.warns(UserWarning, match=r"^The record has scores of \['wrong', 'rate'\], which are not co") as said:
        comparison = compare_systems(*files)
    assert len(said) == 1
    assert [*comparison.tests] == ["bleu"]
    own = compare_systems(*files, metrics=metrics)
    assert [*own.tests] == ["bleu", "wrong/rate", "wrong/count", "rate"]
    assert own.tests["bleu"] == comparison.tests["bleu"]


def test_changed_sentences_are_those_that_a_metric_ranks_differently() -> None:
    comparison = compare_systems(A, B, references=REFERENCES, sources=SOURCES, metrics=make_metrics())
    numbers = [x - y for x, y in zip(score("errors", A), score("errors", B))]
    worse, better = comparison.changed("errors", 5)
    assert [one.score_a - one.score_b for one in worse] == sorted(numbers)[:-6:-1]
    assert [one.score_a - one.score_b for one in better] == sorted(numbers)[:5]
    for one in (*worse, *better):
        assert (one.a.hypothesis, one.b.hypothesis) == (A[one.number - 1], B[one.number - 1])
    a, b = score("signs", A), score("signs", B)
    scoring, rows = a.scoring, [one.kept_sentences().statistics for one in (a, b)]
    ranks = scoring.rank_sentences(torch.cat(rows))
    gains = ranks[:40] - ranks[40:]
    for changes, sign in zip(comparison.changed("signs", 40), (-1, 1)):
        assert {one.number - 1 for one in changes} == {*(gains * sign > 0).nonzero()[:, 0].tolist()}
        assert [sign * gains[one.number - 1] for one in changes] == sorted(sign * gains[gains * sign > 0], reverse=True)
        scores = scoring.score_sentences(rows[0])
        assert all(one.score_a == scores[one.number - 1] for one in changes)
    with pytest.raises(ValueError, match=r"'metric' must be one of \['signs', 'chrf', 'errors'\], got 'bleu'"):
        comparison.changed("bleu")


def test_a_record_of_other_metrics_alone_names_them_and_is_scored_by_bleu_and_chrf_in_percent(tmp_path: Path) -> None:
    metrics: Any = {'no.  "1"': errors, "ter": TER()}
    files = [record(tmp_path / name, system, metrics=metrics) for name, system in {"a": A, "b": B}.items()]
    message = re.escape("""The record has scores of ['no.  "1"', 'ter'], which are not compared""")
    with pytest.warns(UserWarning, match=f"^{message}") as said:
        comparison = compare_systems(*files)
    assert len(said) == 1
    assert comparison.tests == compare_systems(one_line(A), one_line(B), references=one_line(REFERENCES)).tests
    assert [*comparison.tests] == ["bleu", "chrf"]


def test_one_warning_names_all_metrics_that_are_left_out(tmp_path: Path) -> None:
    metrics: list[Any] = [{"bleu": CorpusBLEU(), "errors": errors}, {"ter": TER(), "errors": errors}]
    files = [record(tmp_path / name, A, metrics=one) for name, one in zip("ab", metrics)]
    with pytest.warns(UserWarning, match=r"^The record has scores of \['errors', 'ter'\], which are not") as said:
        comparison = compare_systems(*files)
    assert len(said) == 1
    assert [*comparison.tests] == ["bleu"]


def spoil_line(file: Path, number: int, change: Callable[[bytes], bytes]) -> None:
    """Change a line of the record of a file, from 0."""
    path = file.parents[2] / "scores.jsonl"
    lines = path.read_bytes().splitlines()
    lines[number] = change(lines[number])
    path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize("number", [0, 3])
def test_an_unreadable_line_is_skipped_with_one_warning_and_the_others_are_compared(
    number: int, tmp_path: Path
) -> None:
    """The lines are those of the group, of all groups, and of the mean, of BLEU and of chrF. Both files are one."""
    metrics: Any = {"signs": CorpusBLEU(tokenizer="char"), "chrf": CorpusCHRF(beta=3)}
    file = record(tmp_path, A, metrics=metrics)
    spoil_line(file, number, lambda line: line[:-1])
    message = re.escape(f"{str(tmp_path / 'scores.jsonl')!r} has lines that cannot be read")
    with pytest.warns(UserWarning, match=f"^{message}.*skipped: \\[{number + 1}\\]$") as said:
        comparison = compare_systems(file, file)
    assert len(said) == 1
    kept = "signs" if number else "chrf"
    assert comparison.tests == compare_systems(file, file, metrics={kept: metrics[kept]}).tests


@pytest.mark.parametrize("old", [b'{"step": 500}', b"", b'{"format": 2}'])
@pytest.mark.filterwarnings("ignore:.*has lines that cannot be read")
def test_a_file_of_a_record_without_a_readable_line_about_it_needs_metrics(old: bytes, tmp_path: Path) -> None:
    metrics: Any = {"signs": CorpusBLEU(tokenizer="char", percent=True)}
    files = record(tmp_path / "a", A, metrics=metrics), record(tmp_path / "b", B, metrics=metrics)
    spoil_line(files[1], 0, lambda line: old)
    message = "^the record of '.*b/val.*step-0000500.txt' has no line about a score of it that can.*: pass metrics=...$"
    for system in (files[0], one_line(A)):
        with pytest.raises(ValueError, match=message):
            compare_systems(system, files[1])
        with pytest.raises(ValueError, match=message):
            compare_systems(files[1], system)
    comparison = compare_systems(*files, metrics=metrics)
    assert comparison.tests == compare_systems(one_line(A), files[1], metrics=metrics).tests


def test_a_file_that_a_record_does_not_know_needs_metrics(tmp_path: Path) -> None:
    file = record(tmp_path, A, metrics=CorpusBLEU())
    other = file.with_name("step-0000600.txt")
    other.write_bytes(file.read_bytes())
    with pytest.raises(
        ValueError, match=r"^the record of '.*step-0000600.txt' has no line about a score of it .*: pass metrics="
    ):
        compare_systems(file, other)


@pytest.mark.parametrize("settings", [b"null", b"{}"])
def test_unknown_settings_of_a_metric_are_not_the_default_ones(settings: bytes, tmp_path: Path) -> None:
    file = record(tmp_path, A, metrics=CorpusBLEU())
    spoil_line(file, 0, lambda line: line.partition(b'"settings": ')[0] + b'"settings": ' + settings + b"}")
    with pytest.raises(ValueError, match=r"^pass metrics={'bleu': ...}, because its settings cannot be read: "):
        compare_systems(file, file)


def test_a_score_without_a_direction_is_compared_and_no_sentence_is_worse_or_better() -> None:
    lengths = FunctionMetric(lambda hypotheses, references: [*map(len, hypotheses)], higher_is_better=None)
    comparison = compare_systems(A, [f"{line}x" for line in A], references=REFERENCES, metrics={"length": lengths})
    assert comparison.tests["length"].difference == pytest.approx(-1)
    assert comparison.changed("length") == ([], [])


def test_files_in_the_home_folder_have_the_references_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = record(tmp_path / "run", A, metrics=CorpusBLEU())
    short = f"~/{file.relative_to(tmp_path)}"
    expected = compare_systems(file, file)
    for comparison in (compare_systems(short, Path(short)), compare_systems(Path(short), file)):
        assert (comparison.tests, comparison.sentences) == (expected.tests, expected.sentences)


def test_other_files_need_references_and_are_scored_in_percent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"a": A, "b": B, "ref-1": REFERENCES, "ref-2": A, "ref-10": B}.items():
        (tmp_path / f"{name}.txt").write_bytes("\r\n".join(one_line(lines)).encode("utf-8-sig"))
    files, references = [tmp_path / "a.txt", tmp_path / "b.txt"], [*zip(*map(one_line, (REFERENCES, A, B)))]
    found = compare_systems(*files)
    Path("b").write_bytes(Path("ref-1.txt").read_bytes())
    given = compare_systems(*files, references=[Path("b"), Path("ref-2.txt"), tmp_path / "ref-10.txt"])
    lists = compare_systems(one_line(A), tuple(one_line(B)), references=references)
    assert found.tests == given.tests == lists.tests
    assert {name: test.score_a for name, test in found.tests.items()} == {"bleu": 100, "chrf": 100}
    assert found.sentences == given.sentences == lists.sentences


def test_a_line_of_a_file_ends_with_a_line_feed_only(tmp_path: Path) -> None:
    lines = ["a\u2028b", "c\x85d\x0c", "e\rf", ""]
    for name in ("a", "ref"):
        (tmp_path / f"{name}.txt").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    comparison = compare_systems(tmp_path / "a.txt", lines)
    assert [sentence.hypothesis for sentence, _ in comparison.sentences] == lines
    assert [sentence.references for sentence, _ in comparison.sentences] == [[line] for line in lines]


def test_a_recorded_score_that_is_not_reproduced_is_told(tmp_path: Path) -> None:
    first, other = ({"signs": CorpusBLEU(tokenizer=name, percent=True)} for name in ("char", "13a"))
    files = record(tmp_path / "a", A, metrics=first), record(tmp_path / "b", B, metrics=other)
    message = "^The record of '.*b/val.*step-0000500.txt' has 'signs' = .*, but its file scores "
    with pytest.warns(UserWarning, match=message) as said:
        comparison = compare_systems(*files)
    assert len(said) == 1
    assert comparison.tests == compare_systems(*files, metrics=first).tests


# Texts that files cannot hold as they are, or that look like something else

STRANGE = {
    "a byte order mark": ("\ufeffthe cat sat", "\ufeffthe cat sits"),
    "a byte order mark of one side": ("\ufeffthe cat", "the cat"),
    "U+2028": ("a b\u2028c d", "a b\u2028c e"),
    "U+0085": ("a b\x85c d", "a b\x85c e"),
    "a carriage return": ("one, two\rthree", "one, two\rthree!"),
    "tabs and control characters": ("a\tb\x00\x1f c", "a\tb\x00\x1f d"),
    "a lone surrogate": ("a \ud800 c", "a \ud800 d"),
    "no words": ("", "a b"),
}
"""Hypotheses and references whose scores are those of their files."""


@pytest.mark.parametrize(("hypothesis", "reference"), STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("place", [0, 1])
def test_files_of_an_evaluator_have_the_scores_that_it_logged(
    hypothesis: str, reference: str, place: int, tmp_path: Path
) -> None:
    """Where line breaks are spaces for the metric, and characters that cannot be encoded are on both sides."""
    metrics: Any = {"bleu": CorpusBLEU(max_order=2), "chrf": CorpusCHRF(), "spaces": CorpusCHRF(whitespace=True)}
    results, file = write_file(metrics, tmp_path, *insert(place, hypothesis, reference))
    comparison = compare_systems(file, file)
    assert [*comparison.tests] == [*metrics]
    for name, test in comparison.tests.items():
        assert test.score_a == test.score_b == pytest.approx(results[f"val_{name}"].score, abs=1e-12)
    assert 0 < comparison.tests["bleu"].score_a < 1


def insert(place: int, hypothesis: Any, reference: Any, other: Any = "x y z") -> tuple[list[Any], list[Any]]:
    """Hypotheses and references with a sentence at a place."""
    hypotheses, references = [other, other], [other, other]
    hypotheses.insert(place, hypothesis)
    references.insert(place, reference)
    return hypotheses, references


def write_file(metrics: Any, folder: Path, hypotheses: Any, references: Any) -> tuple[Any, Path]:
    """The results of a validation, and the file that it wrote."""
    evaluator = Evaluator(metrics, translations=folder)
    evaluator.start()
    evaluator.update(hypotheses, references)
    return evaluator.finish(5), folder / "val" / "step-0000005.txt"


TOKENS: dict[str, tuple[Any, Any, Any]] = {
    "words with punctuation": (["it's", "a.b,", "c"], ["it's", "a.b,", "d"], ["x", "y"]),
    "escaped words": (["x&amp;y", "<skipped>", "-"], ["x&amp;y", "<skipped>", "z"], ["x", "y"]),
    "a byte order mark": (["\ufeffa", "b", "c"], ["\ufeffa", "b", "d"], ["x", "y"]),
    "no tokens": ([], ["a"], ["x.", "y."]),
    "ids": ([5, 17, 3], [5, 17, 4], [6, 7]),
}
"""Tokens or ids of a hypothesis and a reference, and of other sentences."""


@pytest.mark.parametrize(("hypothesis", "reference", "other"), TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("tokenizer", ["13a", "char"])
def test_tokens_of_an_evaluator_are_read_as_tokens(
    hypothesis: Any, reference: Any, other: Any, tokenizer: str, tmp_path: Path
) -> None:
    metric = CorpusBLEU(max_order=2, tokenizer=tokenizer, percent=True)
    results, file = write_file(metric, tmp_path, *insert(0, hypothesis, reference, other))
    comparison = compare_systems(file, file)
    (test,) = comparison.tests.values()
    assert 0 < test.score_a < 100
    assert test.score_a == pytest.approx(results["val_bleu"].score, abs=1e-12)
    # The same sentences as lists are text.
    lines = [sentence.hypothesis for sentence, _ in comparison.sentences]
    assert lines == [" ".join(map(str, tokens)) for tokens in (hypothesis, other, other)]


LINE_BREAKS = {"U+2028": "\u2028", "U+0085": "\x85", "a carriage return": "\r", "a line feed": "\n", "both": "\r\n"}
REPLACED = (
    "line breaks inside sentences and characters that cannot be encoded are replaced in files, or the file or its "
)
NOT_REPRODUCED: dict[str, tuple[Any, tuple[Any, Any], str]] = {
    **{
        f"{name} is a space": (
            {"m": CorpusCHRF(whitespace=True, char_order=2)},
            insert(0, f"a{line_break}b", "a b"),
            REPLACED,
        )
        for name, line_break in LINE_BREAKS.items()
    },
    "lone surrogates are question marks": (
        {"m": CorpusBLEU(max_order=1)},
        insert(0, "a \ud800", "a \udfff"),
        REPLACED,
    ),
    "tokens with spaces": (
        {"m": CorpusBLEU(max_order=1)},
        insert(0, ["a b", "c"], ["a d", "c"], ["x"]),
        "tokens were scored, and some of them may contain spaces",
    ),
    "text and tokens": (
        {"m": CorpusBLEU(max_order=1)},
        insert(0, "a b.", "a c."),
        "tokens were scored",
    ),
}
"""Metrics, sentences, and what a warning gives as the cause."""


@pytest.mark.parametrize(("metrics", "corpus", "cause"), NOT_REPRODUCED.values(), ids=NOT_REPRODUCED)
def test_one_warning_has_both_scores_and_the_cause_if_a_file_does_not_have_the_recorded_score(
    metrics: Any, corpus: Any, cause: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    evaluator = Evaluator(metrics, translations=tmp_path)
    evaluator.start()
    evaluator.update(*corpus)
    if "text and tokens" in request.node.name:
        evaluator.update([["a.", "b"]], [["a.", "c"]])
    recorded = evaluator.finish(5)["val_m"].score
    file = tmp_path / "val" / "step-0000005.txt"
    with pytest.warns(UserWarning, match="^The record of ") as said:
        comparison = compare_systems(file, file)
    assert len(said) == 1
    of_file = comparison.tests["m"].score_a
    assert of_file != pytest.approx(recorded)
    message = str(said[0].message)
    assert f"step-0000005.txt' has 'm' = {recorded}, but its file scores {of_file}: {cause}" in message
    assert message.endswith(". The files are compared as they are.")
    # What the user passes is not compared with the record.
    assert compare_systems(file, file, metrics=metrics).tests.keys() == {"m"}


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda one: compare_systems(one / "missing.txt", A), FileNotFoundError, "missing.txt"),
        (
            lambda one: compare_systems(A, B),
            ValueError,
            "there are no references: pass references=..., or put 'ref.txt'",
        ),
        (
            lambda one: compare_systems(A, B[:5], references=A),
            ValueError,
            "of at least two sentences, but 'a' has 40, 'b' has 5, 'references' has 40$",
        ),
        (lambda one: compare_systems(A[:1], B[:1], references=A[:1]), ValueError, "of at least two sentences"),
        (lambda one: compare_systems(A, [["a", "b"]] * 40, references=A), TypeError, "'b' must be a file .* a list of"),  # type: ignore[list-item]
        (
            lambda one: compare_systems(A, B, references=A, metrics={"ter": TER()}),
            ValueError,
            r"\['ter'\] must score sentences: pass metrics of this package",
        ),
        (
            lambda one: compare_systems(A, B, references=A, metrics={"none": lambda *lines: None}),
            ValueError,
            "^no metric has scored sentences of both systems: pass metrics",
        ),
        (lambda one: compare_systems(A, B, references=A, confidence=95), ValueError, "'confidence' must lie between"),
        (
            lambda one: compare_systems(record(one, A, metrics=CorpusBLEU(tokenizer=str.split)), B),
            ValueError,
            "^pass metrics={'bleu': ...}, because its settings cannot be read: 'tokenizer' must be .* 'builtins",
        ),
    ],
)
def test_an_error_says_what_is_missing(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path)
