"""Results and samples to look at, without a logger."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, FunctionMetric, Results, Samples, sentence_bleu
from lightning_bleu.core.significance import Interval, PairedTest, Verdict
from lightning_bleu.evaluation.scores.validation import Result
from lightning_bleu.observers.tensorboard import sample_table
from tests.helpers.hostile import TEXTS
from tests.helpers.views import LINES

REFERENCES = [f"this is the reference number {number} of a dataset" for number in range(6)]
NOW = [REFERENCES[0], REFERENCES[1], "nothing", REFERENCES[3], "nothing of it", REFERENCES[5]]


def errors(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    return [float(hypothesis != options[0]) for hypothesis, options in zip(hypotheses, references)]


def make_evaluator(**options: Any) -> Evaluator:
    """An evaluator of three metrics, of which lower is better for one."""
    metrics: Any = {
        "bleu": CorpusBLEU(percent=True),
        "chrf": CorpusCHRF(percent=True),
        "er": FunctionMetric(errors, higher_is_better=False, perfect=0),
    }
    return Evaluator(metrics, **options)


def validate(evaluator: Evaluator, preds: Any, target: Any, stage: str = "val", **fields: Any) -> Results:
    evaluator.start(stage=stage)
    evaluator.update(preds, target, **fields)
    return evaluator.finish(step=1)


# The table


def make_result(score: float, low: float, high: float, best: float, percent: bool | None, p: float) -> Result:
    interval = Interval(score, low, high, 0.95, ())
    difference = score - best
    test = PairedTest(score, best, p, 1000, difference - 2, difference + 2, 0.95, percent, "")
    higher_is_better = percent is not None
    return Result(
        score, interval=interval, comparison=test, best=best, higher_is_better=higher_is_better, percent=percent
    )


def test_printed_results_are_a_table_in_the_units_of_the_scores() -> None:
    results = Results(
        {
            "val_bleu": make_result(70.04, 68.8, 71.41, 71.81, True, 0.031),
            "val_wer": make_result(0.1387, 0.1323, 0.145, 0.1317, None, 0.0579),
        }
    )
    assert str(results).splitlines() == [
        "           score      95% interval       against the best before       p    best",
        "val_bleu   70.04    68.80 to 71.41        -1.77 (-3.77 to +0.23)  0.0310   71.81",
        "val_wer   0.1387  0.1323 to 0.1450  +0.0070 (-1.9930 to +2.0070)  0.0579  0.1317",
        "Higher is better; for val_wer, lower.",
    ]
    first, second = str(results["val_bleu"]).splitlines()[:2]
    assert first == "score    95% interval  against the best before       p   best"
    assert second == "70.04  68.80 to 71.41   -1.77 (-3.77 to +0.23)  0.0310  71.81"


def test_a_table_says_why_a_verdict_is_unclear() -> None:
    result = replace(make_result(70.04, 68.8, 71.41, 71.81, True, 0.031), verdict=Verdict("unclear", "it includes 0"))
    assert str(Results({"val_bleu": result})).endswith("Higher is better. val_bleu: it includes 0.")


# Sentences


def test_samples_are_sentences_with_their_scores() -> None:
    results = validate(make_evaluator(samples=3), NOW, REFERENCES, source=[f"source {n}" for n in range(6)])
    samples = results.samples["val"]
    assert [sample.index for sample in samples.first] == [0, 1, 2]
    assert [sample.index for sample in samples.worst] == [2, 4]  # the others are perfect
    sample = samples.first[2]
    assert (sample.hypothesis, sample.references, sample.source) == ("nothing", [REFERENCES[2]], "source 2")
    assert sample.scores["bleu"] == sentence_bleu(["nothing"], [REFERENCES[2]], percent=True).item()
    assert sample.scores["er"] == 1
    assert "#2  bleu 0.0  chrf " in str(samples)
    frame = pandas.DataFrame(samples.to_dicts())
    assert frame.kind.tolist() == ["worst"] * 2 + ["first"] * 3
    assert [*frame.columns[:6]] == ["kind", "index", "id", "group", "bleu", "chrf"]


def test_every_loader_has_samples_by_its_name() -> None:
    evaluator = make_evaluator(log_name="{stage}/of_{metric}")
    evaluator.start({"news": [None], "talks": [None]})
    evaluator.update(NOW, REFERENCES, group=["a", "b"] * 3)
    evaluator.update(NOW, REFERENCES, group=["a", "b"] * 3, dataloader_idx=1)
    results = evaluator.finish(1)
    assert [*results.samples] == ["val/news", "val/talks"]
    first = results.samples["val/talks"].first
    assert [(sample.hypothesis, sample.group) for sample in first] == list(zip(NOW, ["a", "b"] * 3))
    validate(evaluator, NOW, REFERENCES, "test")
    assert [*evaluator.results.samples] == [*results.samples, "test"]
    assert len(re.findall("<h2>", evaluator.results.to_html())) == 3


def test_without_samples_there_are_none() -> None:
    assert validate(make_evaluator(samples=0), NOW, REFERENCES).samples == {}


@pytest.mark.parametrize("kind", ["array", "tensor", "lists", "tokens"])
def test_texts_do_not_change_with_what_was_passed(kind: str) -> None:
    array = np.array([[5, 6], [7, 8]])
    passed: Any = {"array": array, "tensor": torch.from_numpy(array), "lists": [[5, 6], [7, 8]]}
    passed = passed.get(kind, [["5", "6"], ["7", "8"]])
    evaluator = Evaluator(CorpusBLEU(pad_id=-100), samples=1)
    evaluator.start()
    evaluator.update(passed, passed, source=passed)
    passed[0][0] = type(passed[0][0])(9) if kind != "tensor" else 9
    (sample,) = evaluator.finish(1).samples["val"].first
    assert (sample.hypothesis, sample.references, sample.source) == ("5 6", ["5 6"], "5 6")


# Looking


@pytest.fixture(scope="module")
def results() -> Results:
    """The results of texts that break pages."""
    evaluator = make_evaluator(confidence=0.9, compare_to="best")
    return validate(evaluator, TEXTS[::-1], [text[::-1] for text in TEXTS], source=TEXTS)


def test_copies_and_pickles_keep_the_samples(results: Results) -> None:
    for other in (copy.copy(results), copy.deepcopy(results), results.copy(), pickle.loads(pickle.dumps(results))):
        assert type(other) is Results
        assert (other, other.samples) == (results, results.samples)
        assert other.to_html() == results.to_html()
    assert results.copy().samples is not results.samples


def test_results_are_shown_as_text_and_html(results: Results, tmp_path: Path) -> None:
    assert len(str(results).splitlines()) == 5  # without sentences
    results.to_html(tmp_path / "results.html")
    page = (tmp_path / "results.html").read_text("utf-8")
    samples = results.samples["val"]
    shown = [samples.worst, samples.first]
    assert page.count("<article>") == sum(map(len, shown))
    assert results._repr_html_().count("<article>") == sum(min(len(kind), 3) for kind in shown)
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert results["val_bleu"]._repr_html_().count("nrefs:1") == 1
    assert len(page.encode()) < 2**20


def test_a_page_marks_the_words_that_tensorboard_marks() -> None:
    hypotheses, references = zip(*LINES)
    samples: Samples = validate(Evaluator(CorpusBLEU()), hypotheses, references).samples["val"]
    table = sample_table(samples.worst, "", {})
    page = samples.to_html().split("</summary>")[1]
    for tag, mark in (("strong", "unmatched"), ("em", "displaced")):
        in_table = re.findall(f"<{tag}>(.*?)</{tag}>", table)[1:]  # but the explanation
        in_page = re.findall(f'<mark class="{mark}">(.*?)</mark>', page)[1:]
        assert len(in_table) == len(in_page) > 0


def test_a_score_without_a_signature_shows_none(results: Results) -> None:
    assert str(results["val_er"]).splitlines()[-1].startswith("er = ")
    assert "None" not in results["val_er"].to_html()


def test_results_of_no_validation_say_so() -> None:
    evaluator = Evaluator(CorpusBLEU())
    for text in (str(evaluator.results), evaluator.results._repr_html_()):
        assert "No scores: no validation has scored a sentence in this process." in text
