"""The ready metrics beside the libraries that define them, and what they share with all metrics."""

from __future__ import annotations

import pickle
import random
import re
import string
import sys
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
from sacrebleu.metrics.ter import TER as SacreTER
from torchmetrics.text import WordErrorRate

from lightning_bleu import CorpusBLEU, Evaluator, FunctionMetric
from lightning_bleu.compare import compare_systems
from lightning_bleu.compare.known_metrics import find_class
from lightning_bleu.tasks import CER, ROUGE, TER, WER, ExactMatch
from tests.helpers.corpora import read_lines, read_systems
from tests.helpers.files import read_scores


def evaluate(metric: Any, hypotheses: Any, references: Any, **options: Any) -> dict[str, float]:
    """The scores of a metric by name; ``""`` for a single one."""
    evaluator = Evaluator({"m": metric}, **options)
    evaluator.start()
    evaluator.update(hypotheses, references)
    results = evaluator.finish(0)
    return {name.removeprefix("val_m").removeprefix("/"): result.score for name, result in results.items()}


def score(metric: Any, hypotheses: Any, references: Any) -> float:
    return evaluate(metric, hypotheses, references)[""]


def spoil(lines: Sequence[str], seed: int = 0) -> list[str]:
    """Lines with some wrong, missing, extra, and moved words."""
    rng = random.Random(seed)
    changes: list[Callable[[str], list[str]]] = [
        *[lambda word: [word]] * 12,
        lambda word: [],
        lambda word: [word[1:] or "x"],
        lambda word: ["the", word],
    ]
    spoiled = []
    for line in lines:
        words = [changed for word in line.split() for changed in rng.choice(changes)(word)]
        cut = rng.choice([0, 0, len(words) // 2])
        spoiled.append(" ".join([*words[cut:], *words[:cut]]))
    return spoiled


# Error rates

WORDS = st.text("ab ", max_size=7)


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """The edit distance, slow and obvious."""
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


def closest(hypothesis: Sequence[str], references: list[Sequence[str]]) -> tuple[int, int]:
    """The errors and the length of the closest reference, of which the longest."""

    def rate(pair: tuple[int, int]) -> tuple[bool, Fraction]:
        errors, length = pair
        is_infinite = length == 0 and errors > 0
        return is_infinite, Fraction(errors, length or 1)

    pairs = sorted(((distance(hypothesis, one), len(one)) for one in references), key=lambda pair: -pair[1])
    return min(pairs, key=rate)


@settings(max_examples=40)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3)), min_size=1, max_size=3))
def test_the_errors_are_those_of_the_closest_reference(corpus: list[tuple[str, list[str]]]) -> None:
    hypotheses, references = [line for line, _ in corpus], [lines for _, lines in corpus]
    splits: dict[Any, Callable[[str], Sequence[str]]] = {WER: str.split, CER: str.strip}
    for kind, split in splits.items():
        expected = [closest(split(line), [split(one) for one in lines]) for line, lines in corpus]
        rows = kind()(hypotheses, references)
        assert [row[:2] for row in rows] == expected
        assert all(row[0] == sum(row[2:]) for row in rows)
        errors, lengths = (sum(column) for column in zip(*expected))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'m' is a ratio whose denominator is 0")
            found = evaluate(kind(percent=True), hypotheses, references)
        assert found == ({"": pytest.approx(100 * errors / lengths)} if lengths else {})


@pytest.mark.parametrize("hypotheses", [["a b c"], [""], ["", "a"], ["", ""]])
def test_ter_of_references_without_words_is_that_of_sacrebleu(hypotheses: list[str]) -> None:
    references = [""] * len(hypotheses)
    expected = SacreTER().corpus_score(hypotheses, [references]).score
    assert evaluate(TER(percent=True), hypotheses, [[line] for line in references]) == {"": expected}
    assert evaluate(TER(percent=True), ["a c", *hypotheses], [["a b"], *([line] for line in references)]) == {
        "": SacreTER().corpus_score(["a c", *hypotheses], [["a b", *references]]).score
    }


@pytest.mark.filterwarnings("ignore:.* hypotheses lack ")
def test_error_rates_of_real_text(multi30k: Path) -> None:
    references = read_lines(multi30k / "test_2016_flickr.de")
    hypotheses = spoil(references)
    wer = jiwer.process_words(references, hypotheses)
    cer = jiwer.process_characters(references, hypotheses)
    assert 0.2 < wer.wer < 0.5
    assert score(WER(), hypotheses, references) == wer.wer
    assert score(CER(), hypotheses, references) == cer.cer
    for kind, output in ((WER, wer), (CER, cer)):
        rows = np.array(kind()(hypotheses, [[line] for line in references]))
        errors = output.substitutions + output.deletions + output.insertions
        lengths = output.hits + output.substitutions + output.deletions
        parts = [output.insertions, output.deletions, output.substitutions]
        assert rows.sum(0).tolist() == [errors, lengths, *parts]
        evaluator = Evaluator(kind(percent=True), compare_to="best", confidence=0.95)
        evaluator.start()
        evaluator.update(hypotheses, references)
        [result] = evaluator.finish(0).values()
        assert result.parts == {
            name: pytest.approx(100 * number / lengths)
            for name, number in zip(("insertions", "deletions", "substitutions"), parts)
        }
        counts = {"errors": errors, kind.unit: lengths} | dict(zip(result.parts, parts))
        assert result.to_dict()["counts"] == counts


def test_no_break_spaces_separate_words_as_in_torchmetrics() -> None:
    hypotheses, references = ["10\u00a0% of it", "a b"], ["10\u00a0% of them", "a c"]
    assert score(WER(), hypotheses, references) == 2 / 6
    assert WordErrorRate()(hypotheses, references).item() == pytest.approx(2 / 6)
    assert jiwer.wer(references, hypotheses) == 2 / 5


# TER

TER_OPTIONS = ["normalized", "no_punct", "asian_support", "case_sensitive"]


@pytest.mark.filterwarnings("ignore:20 of 20 references are Chinese or Japanese")
@pytest.mark.parametrize(
    ("pair", "count", "options"),
    [
        *(("en-de", 20, [name]) for name in TER_OPTIONS),
        ("en-zh", 20, TER_OPTIONS),
        pytest.param("en-cs", 2000, [], marks=pytest.mark.long),
    ],
)
def test_ter_of_sacrebleu(pair: str, count: int, options: list[str], wmt22: Path) -> None:
    chosen: Any = dict.fromkeys(options, True)
    preds, streams = next(read_systems(wmt22, pair, whole=True))
    hypotheses, streams = preds[:count], [stream[:count] for stream in streams]
    peer = SacreTER(**chosen)
    expected = peer.corpus_score(hypotheses, streams).score
    evaluator = Evaluator(TER(percent=True, **chosen))
    evaluator.start()
    evaluator.update(hypotheses, [list(lines) for lines in zip(*streams)])
    result = evaluator.finish(0)["val_ter"]
    report: Any = result.report
    assert expected > 5
    assert result.score == pytest.approx(expected, abs=1e-9)
    assert str(report) == f"ter = {expected:.2f}"
    assert report.signature.startswith(f"{peer.get_signature()}|lightning_bleu:")


# ROUGE


def score_with_rouge(
    hypotheses: list[str], references: list[list[str]], keys: Sequence[str], **options: Any
) -> dict[str, float]:
    """rouge-score, as `evaluate` calls it with ``use_aggregator=False``; the mean over the sentences."""
    scorer = RougeScorer(rouge_types=keys, **options)
    scores = [scorer.score_multi(lines, line) for line, lines in zip(hypotheses, references)]
    return {key: float(np.mean([one[key].fmeasure for one in scores])) for key in keys}


ALL_KEYS = ("rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"use_stemmer": True}, 20),
        ({"tokenizer": str.split}, 20),
        pytest.param({}, 2000, marks=pytest.mark.long),
    ],
)
def test_rouge_of_rouge_score(options: dict[str, Any], count: int, wmt22: Path) -> None:
    class Tokenizer:
        """A tokenizer as rouge-score wants it."""

        tokenize = staticmethod(str.split)

    preds, streams = next(read_systems(wmt22, "en-de", whole=True))
    hypotheses, *streams = [[line.replace(", ", ",\n") for line in lines[:count]] for lines in (preds, *streams)]
    references = [list(lines) for lines in zip(*streams)]
    expected = score_with_rouge(
        hypotheses,
        references,
        ALL_KEYS,
        use_stemmer="use_stemmer" in options,
        tokenizer=Tokenizer() if "tokenizer" in options else None,
    )
    assert expected["rougeL"] <= expected["rougeLsum"] < expected["rouge1"]
    assert evaluate(ROUGE(ALL_KEYS, **options), hypotheses, references) == pytest.approx(expected, abs=1e-12)


def test_the_tokenizer_may_be_an_object() -> None:
    class Words:
        def tokenize(self, text: str) -> list[str]:
            return text.split("-")

    for tokenizer in (Words(), lambda text: text.split("-")):
        assert evaluate(ROUGE(["rouge1"], tokenizer=tokenizer), ["ä-b-c"], ["ä-b-x"]) == {"rouge1": 2 / 3}


def test_rouge_has_precision_and_recall_if_they_are_named() -> None:
    hypotheses, references = ["the cat sat there", "a dog"], [["there the cat lay on a mat"], ["a cat", "the dog ran"]]
    evaluator = Evaluator(ROUGE(["rouge1", "rougeL"], percent=True), parts=["recall", "precision"])
    evaluator.start()
    evaluator.update(hypotheses, references)
    results = evaluator.finish(0)
    scorer = RougeScorer(["rouge1", "rougeL"])
    for key in ("rouge1", "rougeL"):
        best = [scorer.score_multi(lines, line)[key] for line, lines in zip(hypotheses, references)]
        result = results[f"val_rouge/{key}"]
        assert result.parts == {
            "precision": pytest.approx(50 * sum(score.precision for score in best)),
            "recall": pytest.approx(50 * sum(score.recall for score in best)),
        }
        assert result.to_dict()["counts"] == {}


def test_references_without_a_letter_that_rouge_keeps_are_warned_about(wmt22: Path) -> None:
    references = read_lines(wmt22 / "generaltest2022.en-zh.ref.A.zh")[:9]
    for metric in (ROUGE(tokenizer=list), ROUGE(normalize=lambda text: text + " a")):
        evaluate(metric, references, references)
    with pytest.warns(UserWarning, match="have letters other than a to z in most words, which m drops"):
        evaluate(ROUGE(), references, references)
    for line in ("", "...", "42", "—"):
        evaluate(ROUGE(), [line], [line])


# Exact match


def normalize_as_squad(text: str) -> str:
    """As in the evaluation of SQuAD: lowercase, then without punctuation, then without articles, then single blanks."""
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


SQUAD = [
    ("The Eiffel Tower!", ["Eiffel tower", "the tower"], True),
    ("an  answer", ["answer"], True),
    ("A", ["the"], True),
    ("anthem", ["them"], False),
    ("forty-two", ["forty two"], False),
    ("forty-two", ["fortytwo"], True),
    ("", ["no"], False),
]


def test_exact_match_of_squad() -> None:
    hypotheses, references, expected = zip(*SQUAD)
    assert ExactMatch(normalize=normalize_as_squad)(hypotheses, references) == [*expected]
    assert ExactMatch()(hypotheses, references) == [False] * len(SQUAD)
    found = score(ExactMatch(normalize_as_squad, percent=True), hypotheses, [*references])
    assert found == pytest.approx(100 * sum(expected) / len(expected))


# What all of them have


def make_metrics() -> dict[str, Any]:
    return {
        "wer": WER(percent=True),
        "cer": CER(percent=True),
        "ter": TER(percent=True),
        "rouge": ROUGE(["rouge1", "rougeL"], percent=True),
        "exact_match": ExactMatch(percent=True),
    }


REFERENCES = [f"{number} little birds sat on the {number % 7} trees of the old garden" for number in range(40)]
A, B = spoil(REFERENCES, 1), spoil(spoil(REFERENCES, 2), 3)
KEYS = ["wer", "cer", "ter", "rouge/rouge1", "rouge/rougeL", "exact_match"]


def test_a_record_has_their_settings_from_which_systems_are_compared(tmp_path: Path) -> None:
    metrics = make_metrics() | {
        "normal": TER(normalized=True, percent=True),
        "stemmed": ROUGE(("rouge2",), use_stemmer=True, percent=True),
    }
    files = {}
    for step, (name, system) in enumerate({"a": A, "b": B}.items()):
        evaluator = Evaluator(metrics, translations=tmp_path)
        evaluator.start()
        evaluator.update(system, REFERENCES)
        results = evaluator.finish(step)
        files[name] = tmp_path / "val" / f"step-{step:07}"
    recorded = compare_systems(files, resamples=100)
    assert recorded.tests == compare_systems(files, metrics=metrics, resamples=100).tests
    assert recorded.metrics == [*KEYS, "normal", "stemmed/rouge2"]
    for key, intervals in recorded.intervals.items():
        assert intervals["b"].score == results[f"val_{key}"].score
        assert intervals["b"].percent is True
    _, worse = recorded.changed("wer", "b", 3)
    assert worse
    lines = {line["key"]: line for line in read_scores(tmp_path)[-len(results) :]}
    for key, line in lines.items():
        report: Any = results[key].report
        assert find_class(line["class"]) is not None
        assert line["percent"] is True
        assert line["signature"] == report.signature
    pattern = r"nrefs:1\|stemmer:yes\|tok:rouge-score\|normalize:no\|rouge-score:[\d.]+\|lightning_bleu:[\d.a-z]+"
    assert re.fullmatch(pattern, lines["val_stemmed/rouge2"]["signature"])
    assert re.fullmatch(
        r"nrefs:1\|unit:words\|normalize:no\|rapidfuzz:[\d.]+\|lightning_bleu:[\d.a-z]+", lines["val_wer"]["signature"]
    )
    assert lines["val_wer"]["settings"] == {"higher_is_better": False, "normalize": None, "skip_empty": False}
    assert lines["val_exact_match"]["signature"].startswith("nrefs:1|normalize:no|lightning_bleu:")


def test_other_metrics_with_the_same_class_names_are_left_out(tmp_path: Path) -> None:
    own: Any = type("WER", (FunctionMetric,), {})(lambda hypotheses, references: [1.0] * len(hypotheses))
    metrics: Any = {"own": own, "theirs": SacreTER(), "ours": TER()}
    evaluator = Evaluator(metrics, translations=tmp_path)
    evaluator.start()
    evaluator.update(A, REFERENCES)
    evaluator.finish(0)
    with pytest.warns(UserWarning, match=r"The record has scores of \['own', 'theirs'\], which are not compared"):
        comparison = compare_systems({"a": tmp_path / "val" / "step-0000000", "b": B})
    assert [*comparison.metrics] == ["ours"]


def test_a_function_in_the_record_must_be_passed_again(tmp_path: Path) -> None:
    for metric, option in ((WER(str.lower), "normalize"), (ROUGE(tokenizer=list), "tokenizer")):
        folder = tmp_path / option
        evaluator = Evaluator({"m": metric}, translations=folder)
        evaluator.start()
        evaluator.update(A, REFERENCES)
        evaluator.finish(0)
        file = folder / "val" / "step-0000000"
        with pytest.raises(ValueError, match=rf"^pass metrics={{'m': ...}}, because its .* read: '{option}' must be"):
            compare_systems({"a": file, "b": B})
        assert compare_systems({"a": file, "b": B}, metrics={"m": metric}).metrics


@pytest.mark.parametrize("kind", [WER, CER, ROUGE, ExactMatch])
def test_normalize_is_applied_to_both_sides_and_samples_show_what_was_written(kind: Any, tmp_path: Path) -> None:
    plain = evaluate(kind(), ["A b", "c D"], [["a b"], ["d d", "C D"]])
    normalized = evaluate(kind(normalize=str.lower), ["A b", "c D"], [["a b"], ["d d", "C D"]], translations=tmp_path)
    assert plain != normalized or kind is ROUGE  # which lowercases anyway
    assert normalized == evaluate(kind(), ["a b", "c d"], [["a b"], ["d d", "c d"]])
    assert (tmp_path / "val" / "step-0000000" / "hyp.txt").read_text() == "A b\nc D\n"


@pytest.mark.parametrize("metric", make_metrics().values(), ids=make_metrics())
def test_they_stand_alone_can_be_sent_to_processes_and_show_their_options(metric: Any) -> None:
    name = type(metric).short_name
    evaluator = Evaluator(metric)
    evaluator.start()
    evaluator.update(A, REFERENCES)
    results = evaluator.finish(0)
    assert all(logged.startswith(f"val_{name}") for logged in results)
    copied = pickle.loads(pickle.dumps(metric))
    expected = {logged.removeprefix(f"val_{name}").removeprefix("/"): one.score for logged, one in results.items()}
    assert evaluate(copied, A, REFERENCES) == expected
    evaluator.start()
    evaluator.update([REFERENCES[0], "?"], REFERENCES[:2])
    (worst,) = evaluator.finish(1).samples["val"].worst
    assert worst.index == 1, "the other sentence is perfect"
    assert repr(metric).endswith("percent=True)")
    assert repr(type(metric)()) == f"{type(metric).__name__}()"
    share = evaluate(type(metric)(), A, REFERENCES)
    for key, value in expected.items():
        assert value == pytest.approx(100 * share[key])


def test_shares_beside_percent_are_warned_about() -> None:
    """But not an error rate, which is read in another way."""
    with pytest.warns(UserWarning, match="different scales, {'bleu': 100.0, 'rouge': 1.0}: set percent=True for all"):
        Evaluator({"bleu": CorpusBLEU(percent=True), "rouge": ROUGE(["rouge1"])})
    Evaluator({"bleu": CorpusBLEU(percent=True), "wer": WER()})


@pytest.mark.parametrize(
    ("metric", "module", "extra"),
    [(WER, "rapidfuzz", "wer"), (CER, "rapidfuzz", "wer"), (ROUGE, "rouge_score", "rouge")],
)
def test_a_missing_library_is_an_error_that_names_the_extra(
    metric: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    message = f"{metric.__name__} needs {module}, which is not installed: pip install 'lightning-bleu[{extra}]'"
    with pytest.raises(ModuleNotFoundError, match=re.escape(message)):
        metric()


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (WER, {"normalize": "lower"}, TypeError, "'normalize' must be a function, got 'lower'"),
        (WER, {"percent": 1}, TypeError, "'percent' must be True or False, got 1"),
        (ROUGE, {"keys": ["rouge1", "rouge0"]}, ValueError, "rouge0"),
        (ROUGE, {"tokenizer": "zh"}, TypeError, "'tokenizer' must be a function, got 'zh'"),
        (ROUGE, {"use_stemmer": True, "tokenizer": list}, ValueError, "'use_stemmer' has no effect with a 'tokenizer'"),
    ],
)
def test_options_are_checked_when_the_metric_is_made(
    make: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make(**options)
