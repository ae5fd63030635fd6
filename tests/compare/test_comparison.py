"""Systems, from the files of runs, other files, or lists, against a slow, obvious paired bootstrap."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric, corpus_bleu, corpus_chrf
from lightning_bleu.compare import Comparison, compare_systems
from lightning_bleu.compare.comparison import ChangeCounts
from lightning_bleu.core.significance import PairedTest
from lightning_bleu.tasks import CER, WER
from lightning_bleu.tasks import TER as LightningTER
from tests.helpers.resampling import draw_resamples
from tests.helpers.systems import pick

RNG = random.Random(1)
WORDS = ["a b", "cd", "e,f", "g\u2028h", "ij."]
REFERENCES = [f"k{number} {' '.join(RNG.choices(WORDS, k=RNG.randint(1, 9)))}" for number in range(40)]
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


BLEU: dict[str, Any] = {
    "tokenizer": "char",
    "smoothing": "floor",
    "smoothing_value": 0.101,
    "max_order": 3,
    "percent": True,
}
CHRF: dict[str, Any] = {"word_order": 1, "beta": 3, "percent": True}


def make_metrics() -> dict[str, Any]:
    return {
        "signs": CorpusBLEU(**BLEU),
        "chrf": CorpusCHRF(**CHRF),
        "errors": FunctionMetric(errors, higher_is_better=False),
    }


def score(name: str, hypotheses: list[str], references: list[str]) -> float:
    """The score of one of these metrics, without the metric."""
    if name == "signs":
        return corpus_bleu(hypotheses, references, **BLEU).score
    if name == "chrf":
        return corpus_chrf(hypotheses, references, **CHRF).score
    return fmean(errors(hypotheses, [[line] for line in references], references))


def record(folder: Path, system: list[str], **options: Any) -> Path:
    """Write the record of a run, and return the folder of its loader."""
    evaluator = Evaluator(translations=folder, **{"metrics": make_metrics()} | options)
    evaluator.start({"odd/even": None})
    evaluator.update(system, REFERENCES, source=SOURCES)
    evaluator.finish(500)
    return folder / "val/step-0000500/odd%2Feven"


def one_line(lines: list[str]) -> list[str]:
    return [" ".join(line.splitlines()) for line in lines]


def compare(a: Any, b: Any, **options: Any) -> Comparison:
    """Two systems, of which the first is the baseline."""
    return compare_systems({"a": a, "b": b}, **options)


def scores_of(comparison: Comparison, system: str) -> dict[str, float]:
    """The scores of a system by metric."""
    return {metric: intervals[system].score for metric, intervals in comparison.intervals.items()}


def check_test(test: PairedTest, name: str, system: list[str], baseline: list[str], seed: int) -> None:
    """Check a paired bootstrap against the definition: the scores of the same resamples of both systems."""
    differences = []
    for numbers in draw_resamples(test.trials, len(REFERENCES), seed):
        resampled = [pick(side, numbers) for side in (system, baseline, REFERENCES)]
        differences.append(score(name, resampled[0], resampled[2]) - score(name, resampled[1], resampled[2]))
    scores = score(name, system, REFERENCES), score(name, baseline, REFERENCES)
    assert (test.score_a, test.score_b) == pytest.approx(scores)
    sizes = np.abs(differences)
    is_as_large = sizes - sizes.mean() >= abs(scores[0] - scores[1])
    assert test.p_value == pytest.approx((1 + is_as_large.sum()) / (1 + test.trials))
    assert test.confidence is not None
    ends = np.quantile(differences, [(1 - test.confidence) / 2, (1 + test.confidence) / 2])
    assert (test.low, test.high) == pytest.approx(tuple(ends))


def test_different_numbers_of_references_score_as_logged(tmp_path: Path) -> None:
    """TER divides by the mean length of the references, which a repeated reference changes."""
    references = [[REFERENCES[0]], [REFERENCES[1], "a b"], ["x", *REFERENCES[2:4]]]
    metrics: Any = {"ter": LightningTER(percent=True), "bleu": CorpusBLEU(percent=True)}
    evaluator = Evaluator(metrics, translations=tmp_path)
    evaluator.start()
    evaluator.update(A[:3], references)
    results = evaluator.finish(1)
    comparison = compare_systems({"a": tmp_path})
    assert scores_of(comparison, "a") == {name: results[f"val_{name}"].score for name in metrics}
    assert comparison.texts.references == references


def test_files_of_runs_have_the_metrics_and_the_scores_of_their_records(tmp_path: Path) -> None:
    files = record(tmp_path / "a", A), record(tmp_path / "b", B)
    options: dict[str, Any] = {"confidence": 0.8, "resamples": 50, "seed": 5}
    with pytest.warns(UserWarning, match=r"^The record has scores of \['errors'\], .* pass them as metrics=") as said:
        recorded = compare(str(files[0]), files[1], **options)
    assert len(said) == 1
    assert [*recorded.tests] == ["signs", "chrf"]
    comparison = compare(str(files[0]), files[1], metrics=make_metrics(), **options)
    assert [*comparison.tests] == ["signs", "chrf", "errors"]
    for name, recorded_tests in recorded.tests.items():
        assert recorded_tests == comparison.tests[name]
    for name, tests in comparison.tests.items():
        check_test(tests["b"], name, B, A, seed=5)
    assert comparison.texts.hypotheses == {"a": A, "b": B}
    assert comparison.texts.references == [[line] for line in REFERENCES]
    assert comparison.texts.sources == SOURCES
    # A list, and other metrics, are compared with a file in the same way.
    own = compare(A, files[1], metrics=make_metrics(), **options)
    for name in ("signs", "chrf"):
        assert own.tests[name] == comparison.tests[name]


def test_a_function_has_a_test_for_each_of_its_scores() -> None:
    def pairs(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[tuple[int, int]]]:
        wrong = [sum(x != y for x, y in zip(one, *ours)) for one, ours in zip(hypotheses, references)]
        return {"rate": [*zip(wrong, map(len, hypotheses))], "count": [(one, 1) for one in wrong]}

    function = FunctionMetric(pairs, higher_is_better={"rate": False, "count": False})
    comparison = compare(A, B, references=REFERENCES, metrics={"wrong": function})
    assert [*comparison.tests] == ["wrong/rate", "wrong/count"]


def test_changed_sentences_are_those_that_a_metric_ranks_differently() -> None:
    comparison = compare(A, B, references=REFERENCES, sources=SOURCES, metrics=make_metrics())
    references = [[line] for line in REFERENCES]
    numbers = [y - x for x, y in zip(errors(A, references, SOURCES), errors(B, references, SOURCES))]
    changes = comparison.changed("errors", "b", 5)
    more_errors = sorted((number for number in numbers if number > 0), reverse=True)
    fewer_errors = sorted(number for number in numbers if number < 0)
    assert [change.score - change.baseline_score for change in changes.worsened] == more_errors[:5]
    assert [change.score - change.baseline_score for change in changes.improved] == fewer_errors[:5]
    for change in (*changes.improved, *changes.worsened):
        number = change.index
        assert (change.baseline, change.hypothesis) == (A[number], B[number])
        assert (change.references, change.source) == ([REFERENCES[number]], SOURCES[number])
    counts = ChangeCounts(len(fewer_errors), numbers.count(0), len(more_errors))
    assert comparison.count_changed("errors", "b") == counts
    of_bleu = comparison.changed("signs", "b", 40)
    counts = comparison.count_changed("signs", "b")
    assert (len(of_bleu.improved), len(of_bleu.worsened)) == (counts.improved, counts.worsened)
    assert sum(counts) == 40
    with pytest.raises(ValueError, match=r"'metric' must be one of \['signs', 'chrf', 'errors'\], got 'bleu'"):
        comparison.changed("bleu", "b")
    with pytest.raises(ValueError, match=r"'system' must be one of \['b'\], got 'a'"):
        comparison.changed("signs", "a")


def test_a_record_of_other_metrics_alone_names_them_and_is_scored_by_bleu_and_chrf_in_percent(tmp_path: Path) -> None:
    metrics: Any = {'no.  "1"': errors, "ter": TER()}
    files = [record(tmp_path / name, system, metrics=metrics) for name, system in {"a": A, "b": B}.items()]
    message = re.escape("""The record has scores of ['no.  "1"', 'ter'], which are not compared""")
    with pytest.warns(UserWarning, match=f"^{message}") as said:
        comparison = compare(*files)
    assert len(said) == 1
    assert comparison.tests == compare(A, B, references=REFERENCES).tests
    assert [*comparison.tests] == ["bleu", "chrf"]


def test_different_settings_of_records_are_named_as_the_cause_of_another_score(tmp_path: Path) -> None:
    folders = [record(tmp_path / name, A, metrics=CorpusBLEU(tokenizer=name)) for name in ("13a", "char")]
    with pytest.warns(UserWarning, match=r"it was scored with tokenizer='char', and the settings of the first system"):
        compare(*folders)


def change_score(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the last score in the record of a loader."""
    path = folder.parent / "scores.json"
    validation = json.loads(path.read_text())
    change(validation["scores"][-1])
    path.write_text(json.dumps(validation))


def test_a_file_of_a_record_is_an_error_that_names_its_folder(tmp_path: Path) -> None:
    """Its texts may have been scored by another tokenizer. As references, it is any file."""
    folder = record(tmp_path, A, metrics=CorpusBLEU(tokenizer="char"))
    with pytest.raises(ValueError, match=r"hyp.txt' is in a record: pass its folder, '.*odd%2Feven'$"):
        compare_systems({"a": folder / "hyp.txt"})
    comparison = compare_systems({"a": one_line(A)}, references=folder / "ref.txt")
    assert comparison.signatures["bleu"].count("tok:13a") == 1


@pytest.mark.parametrize("name", [".", "val", "val/step-0000500", "val/step-0000500/odd%2Feven"])
def test_a_run_a_validation_and_its_only_loader_are_the_same_system(name: str, tmp_path: Path) -> None:
    folder = record(tmp_path, A, metrics=CorpusBLEU(tokenizer="char"))
    comparison = compare_systems({"a": tmp_path / name})
    assert comparison.signatures["bleu"].count("tok:char") == 1
    assert comparison.texts.files == {"a": folder}
    assert str(comparison).rstrip().endswith("/step-0000500/odd%2Feven")  # says which one


def test_of_a_run_the_best_step_is_compared(tmp_path: Path) -> None:
    for number, system in enumerate((B, A, B)):
        evaluator = Evaluator(CorpusBLEU(), translations=tmp_path)
        evaluator.start()
        evaluator.update(system, REFERENCES)
        evaluator.finish(number)
    comparison = compare(tmp_path, tmp_path / "val" / "step-0000002")
    assert (comparison.texts.hypotheses["a"], comparison.texts.hypotheses["b"]) == (A, B)


def test_a_validation_with_several_loaders_is_an_error_that_lists_them(tmp_path: Path) -> None:
    evaluator = Evaluator(CorpusBLEU(), translations=tmp_path)
    evaluator.start({"news": None, "talks": None})
    for number in range(2):
        evaluator.update(A, REFERENCES, dataloader_idx=number)
    evaluator.finish(500)
    for path in (tmp_path, tmp_path / "val" / "step-0000500"):
        with pytest.raises(ValueError, match=r"has 2 loaders: pass the folder of one .*0500/news, .*0500/talks$"):
            compare_systems({"a": path})
    assert compare_systems({"a": tmp_path / "val/step-0000500/talks"}).metrics == ["bleu"]


def test_systems_of_different_references_need_those_to_compare_with(tmp_path: Path) -> None:
    folder = record(tmp_path / "run", A, metrics=CorpusBLEU())
    for name, lines in {"a": A, "ref": [*REFERENCES[1:], "x"]}.items():
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in one_line(lines)))
    with pytest.raises(ValueError, match=r"^the systems have different references: pass references=..."):
        compare(folder, tmp_path / "a.txt")
    with pytest.warns(UserWarning, match="b: 20 of 40 references contain ' g.u2028h'"):  # which a.txt cannot have
        compare(folder, tmp_path / "a.txt", references=REFERENCES)


def test_settings_of_a_record_never_download_a_model(tmp_path: Path) -> None:
    folder = record(tmp_path, A, metrics=CorpusBLEU())
    change_score(folder, lambda score: score["settings"].update(tokenizer="flores200"))
    with pytest.raises(ValueError, match="the tokenizer 'flores200' may need to download a model"):
        compare_systems({"a": folder})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b\nc".encode("utf-16"), "is UTF-16: convert it first, for example with: iconv -f UTF-16"),
        (b"\x1f\x8b\x08\x00", "is compressed: convert it first, for example with: gunzip"),
        (b"PK\x03\x04", "is an archive"),
    ],
)
def test_a_file_that_is_no_text_is_named_by_its_first_bytes(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"^'.*a.txt' {message}"):
        compare_systems({"a": file}, references=["a", "b"])
    file.write_text("BZh is a word\nb\n")
    compare_systems({"a": file}, references=["a", "b"])


def test_a_file_is_one_system(tmp_path: Path) -> None:
    file = record(tmp_path, A, metrics=CorpusBLEU())
    (tmp_path / "link.txt").symlink_to(file)
    for other in (file, str(file), tmp_path / "link.txt"):
        with pytest.raises(ValueError, match=r"^'a' and 'b' are the same file: pass each system once"):
            compare(file, other)


def test_columns_of_other_libraries_are_lists() -> None:
    lines, references = (np.array(texts, dtype=object) for texts in (A, REFERENCES))
    assert compare(lines, B, references=references).tests == compare(A, B, references=REFERENCES).tests
    with pytest.raises(TypeError, match=r"^pass references by name: compare_systems\({...}, references=...\)"):
        compare_systems({"a": A}, REFERENCES)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [None, {}])
def test_unknown_settings_of_a_metric_are_not_the_default_ones(settings: Any, tmp_path: Path) -> None:
    file = record(tmp_path, A, metrics=CorpusBLEU())
    change_score(file, lambda score: score.update(settings=settings))
    with pytest.raises(ValueError, match=r"^pass metrics={'bleu': ...}, because its settings cannot be read: "):
        compare_systems({"a": file})


def test_a_score_without_a_direction_is_compared_and_no_sentence_is_worse_or_better() -> None:
    lengths = FunctionMetric(lambda hypotheses, references: [*map(len, hypotheses)], higher_is_better=None)
    comparison = compare(A, [f"{line}x" for line in A], references=REFERENCES, metrics={"length": lengths})
    assert comparison.tests["length"]["b"].difference == pytest.approx(1)
    assert comparison.verdict("length", "b").word == "higher"
    assert comparison.changed("length", "b") == ([], [])
    assert comparison.count_changed("length", "b").differ == len(A)
    assert f"{len(A)} " in str(comparison).partition("Sentences that changed, by length")[2]
    equal = str(compare(A, A, references=REFERENCES, metrics={"length": lengths}))
    assert "better" not in equal.partition("Sentences that changed, by length")[2]


def test_a_reference_is_marked_where_the_compared_system_lacks_a_word() -> None:
    right = [f"the cat number {number} sat on a mat" for number in range(40)]
    comparison = compare_systems({"old": right, "new": [line.replace("sat ", "") for line in right]}, references=right)
    assert '<mark class="unmatched">sat</mark>' in comparison._repr_html_()


def test_words_are_marked_by_the_alignment_of_an_error_rate_unless_there_is_bleu() -> None:
    def mark(metrics: Any, hypothesis: str = "Two one three") -> str:
        systems = {"a": [hypothesis] * 20}
        return compare_systems(systems, references=["one two three"] * 20, metrics=metrics)._repr_html_()

    wrong = '<mark class="unmatched">{}</mark>'.format
    assert f"Two {wrong('one')} three" in mark(WER(normalize=str.lower))
    assert f"{wrong('Two one')} three" in mark(WER())
    assert f"{wrong('Two')}" in mark({"wer": WER(), "bleu": CorpusBLEU()})
    assert f"one tw{wrong('e')} three" in mark(CER(), "one twe three")


def test_the_worst_sentences_are_shown_once() -> None:
    comparison = compare_systems({"a": [*["x y"] * 6, "a b", "c d"]}, references=["a b"] * 7 + ["c e"])
    assert [sample.index for sample in comparison.worst("bleu", "a", 5)] == [0, 7]


def test_other_files_need_references_and_are_scored_in_percent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"a": A, "b": B, "ref-1": REFERENCES, "ref-2": A, "ref-10": B}.items():
        (tmp_path / f"{name}.txt").write_bytes("\r\n".join(one_line(lines)).encode("utf-8-sig"))
    files, references = (
        [tmp_path / "a.txt", tmp_path / "b.txt"],
        [[*lines] for lines in zip(*map(one_line, (REFERENCES, A, B)))],
    )
    found = compare(*files)
    Path("b").write_bytes(Path("ref-1.txt").read_bytes())
    given = compare(*files, references=[Path("b"), Path("ref-2.txt"), tmp_path / "ref-10.txt"])
    lists = compare(one_line(A), tuple(one_line(B)), references=references)
    assert found.tests == given.tests == lists.tests
    assert scores_of(found, "a") == {"bleu": 100, "chrf": 100}
    assert found.texts[:3] == given.texts[:3] == lists.texts[:3]


def test_a_line_of_a_file_ends_with_a_line_feed_only(tmp_path: Path) -> None:
    lines = ["a\u2028b", "c\x85d\x0c", "e\rf", ""]
    for name in ("a", "ref"):
        (tmp_path / f"{name}.txt").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    comparison = compare(tmp_path / "a.txt", lines)
    assert comparison.texts.hypotheses["a"] == lines
    assert comparison.texts.references == [[line] for line in lines]


# Tokens


def insert(hypothesis: Any, reference: Any, other: Any) -> tuple[list[Any], list[Any]]:
    """Hypotheses and references of three sentences."""
    return [hypothesis, other, other], [reference, other, other]


def write_file(metrics: Any, folder: Path, hypotheses: Any, references: Any) -> tuple[Any, Path]:
    """The results of a validation, and the folder that it wrote."""
    evaluator = Evaluator(metrics, translations=folder)
    evaluator.start()
    evaluator.update(hypotheses, references)
    return evaluator.finish(5), folder / "val" / "step-0000005"


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
    results, file = write_file(metric, tmp_path, *insert(hypothesis, reference, other))
    comparison = compare_systems({"a": file})
    (of_file,) = scores_of(comparison, "a").values()
    assert 0 < of_file < 100
    assert of_file == pytest.approx(results["val_bleu"].score, abs=1e-12)
    # The same sentences as lists are text.
    assert comparison.texts.hypotheses["a"] == [" ".join(map(str, tokens)) for tokens in (hypothesis, other, other)]


def test_a_warning_has_both_scores_if_a_record_does_not_have_the_score_that_was_logged(tmp_path: Path) -> None:
    """Such as of tokens that contain spaces."""
    metric = CorpusBLEU(max_order=1)
    results, folder = write_file({"m": metric}, tmp_path, *insert(["a b", "c"], ["a d", "c"], ["x"]))
    with pytest.warns(UserWarning, match=r"^'.*step-0000005' has 'm' = ") as said:
        comparison = compare_systems({"a": folder})
    (message,) = [str(one.message) for one in said]
    own, recorded = scores_of(comparison, "a")["m"], results["val_m"].score
    assert own != pytest.approx(recorded)
    assert f"'m' = {recorded}, but its sentences score {own}: " in message
    # What the user passes is not compared with the record.
    assert compare_systems({"a": folder}, metrics={"m": metric}).metrics == ["m"]


# Several systems


SYSTEMS = {"baseline": spoil(0.2, 3), "equal": spoil(0.2, 7), "better": spoil(0.1, 2), "worse": spoil(0.5, 4)}


def test_each_system_is_compared_with_the_first_one_on_the_same_resamples() -> None:
    metrics = make_metrics()
    options: dict[str, Any] = {"references": REFERENCES, "sources": SOURCES, "metrics": metrics, "resamples": 50}
    comparison = compare_systems(SYSTEMS, seed=2, **options)
    assert (comparison.baseline, comparison.systems, comparison.resamples) == ("baseline", [*SYSTEMS], 50)
    for metric, tests in comparison.tests.items():
        assert [*tests] == ["equal", "better", "worse"]
        check_test(tests["better"], metric, SYSTEMS["better"], SYSTEMS["baseline"], seed=2)
        for system, interval in comparison.intervals[metric].items():
            assert interval.score == pytest.approx(score(metric, SYSTEMS[system], REFERENCES))
            assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(interval.scores, [0.025, 0.975])))
    two = compare(SYSTEMS["baseline"], SYSTEMS["worse"], seed=2, **options)
    assert {metric: tests["worse"] for metric, tests in comparison.tests.items()} == {
        metric: tests["b"] for metric, tests in two.tests.items()
    }


def test_a_pickle_shows_the_same() -> None:
    comparison = compare_systems(SYSTEMS, references=REFERENCES, sources=SOURCES, metrics=make_metrics())
    assert pickle.loads(pickle.dumps(comparison)).to_text(examples=3) == comparison.to_text(examples=3)


def test_a_name_neither_begins_a_line_nor_hides_the_verdict() -> None:
    name = "a\nb " * 200
    lines = str(compare_systems({"old": A, name: A}, references=REFERENCES)).split("\n")
    (line,) = [line for line in lines if "no clear difference in bleu" in line]
    assert line.startswith("a b a b ")


def test_a_verdict_is_in_the_direction_of_the_metric() -> None:
    comparison = compare_systems(SYSTEMS, references=REFERENCES, sources=SOURCES, metrics=make_metrics())
    for metric in comparison.metrics:
        words = {system: comparison.verdict(metric, system).word for system in comparison.systems[1:]}
        assert words == {"equal": "unclear", "better": "better", "worse": "worse"}
    assert comparison.tests["errors"]["better"].difference < 0


def test_a_clear_difference_needs_a_p_value_that_is_adjusted_for_the_number_of_systems() -> None:
    systems = {"baseline": A, "one": B, "two": B}
    comparison = compare_systems(systems, references=REFERENCES, metrics=CorpusBLEU(), resamples=80)
    assert (comparison.max_p_value, comparison.resamples_needed) == (0.025, 80)  # 2 / (80 + 1) is the first below it
    for p_value, verdict in (
        (0.012, ("worse", "")),
        (0.013, ("unclear", "the interval excludes 0, but p = 0.0260 is not below 0.025")),
    ):
        tests = {system: replace(test, p_value=p_value) for system, test in comparison.tests["bleu"].items()}
        changed = replace(comparison, tests={"bleu": tests})
        assert changed.p_values("bleu") == dict.fromkeys(["one", "two"], 2 * p_value)
        assert changed.verdict("bleu", "two")[:2] == verdict


def test_one_system_has_scores_and_nothing_to_compare_with() -> None:
    comparison = compare_systems({"only": A}, references=REFERENCES, metrics=CorpusBLEU())
    assert comparison.tests == {"bleu": {}}
    assert comparison.p_values("bleu") == {}
    assert comparison.intervals["bleu"]["only"].score == corpus_bleu(A, REFERENCES)
    ended = [f"{line} </s>" for line in A]
    with pytest.warns(UserWarning, match=r"40 of 40 hypotheses end with ' </s>'"):
        [finding] = compare_systems({"only": ended}, references=REFERENCES).findings
    assert finding.where == ""


def test_few_sentences_are_warned_about_unless_systems_are_equal() -> None:
    message = "^With 29 sentences, a paired bootstrap calls equal systems different too often: "
    with pytest.warns(UserWarning, match=message) as said:
        compare(A[:29], B[:29], references=REFERENCES[:29])
    assert len(said) == 1
    compare(A[:29], A[:29], references=REFERENCES[:29])
    compare(A[:30], B[:30], references=REFERENCES[:30])


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda one: compare(A, B), ValueError, "there are no references: pass references=... .in the command, -r"),
        (lambda one: compare(A, B[:5], references=A), ValueError, "differ: 40 of 'a', 5 of 'b', 40 of the references"),
        (lambda one: compare(A, B, references=A, sources=A[:5]), ValueError, "5 of the sources .if none are passed, "),
        (lambda one: compare(A[:1], B[:1], references=A[:1]), ValueError, "at least two sentences, but there are 1 of"),
        (lambda one: compare(A, [["a", "b"]] * 40, references=A), TypeError, "'b' must be a file .* a list of"),
        (lambda one: compare(A, B, references=[None] * 40), TypeError, "'references' must be .* got one with None"),
        (lambda one: compare(A, B, references=[Path("a"), "b"]), TypeError, "'references' must be .* one with .*Path"),
        (lambda one: compare(A, B, references=iter(A)), TypeError, "'references' must be .*, got list_iterator"),
        (lambda one: compare(A, B, references=A, metrics={"t": TER()}), ValueError, r"\['t'\] must score sentences: "),
        (lambda one: compare(A, B, references=A, metrics={"n": lambda *_: None}), ValueError, "^no metric has scored"),
        (lambda one: compare(A, B, references=A, confidence=95), ValueError, "'confidence' must lie between"),
        (lambda one: compare(record(one, A, metrics=CorpusBLEU(tokenizer=str.split)), B), ValueError, "pass metrics={"),
        (lambda one: compare(record(one, A, metrics={"n": lambda *_: None}), B), ValueError, "has no score: pass"),
    ],
)
def test_an_error_says_what_is_missing(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path)
