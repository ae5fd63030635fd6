"""An evaluation, without Lightning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.training.best import BestSoFar
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.sentences import Sentence, Sentences

HYPOTHESES = ["the cat sat on the mat", "nothing in common", "all of this is right", "one more line here"]
REFERENCES = [
    ["the cat is on the mat", "a cat is on the mat"],
    ["these words differ entirely"],
    ["all of this is right"],
    ["one more row here"],
]
SOURCES = ["eins", "zwei", "drei", "vier"]


def sentence_totals(hypothesis: str, references: list[str]) -> list[int]:
    """The statistics of one sentence."""
    report = corpus_bleu([hypothesis], [references])
    return [*report.matches, *report.possible_matches, report.hypothesis_length, report.reference_length]


ROWS = [sentence_totals(*pair) for pair in zip(HYPOTHESES, REFERENCES)]
PAIRS = [*zip(HYPOTHESES, REFERENCES)]


def make_evaluation(metric: CorpusBLEU | None = None, **options: Any) -> Evaluation:
    """An evaluation that keeps the text of all sentences."""
    return Evaluation(["val_bleu"], metric or CorpusBLEU(), **{"max_texts": math.inf} | options)


def result_sentences(evaluation: Evaluation) -> Sentences:
    sentences = evaluation.result().sentences
    assert sentences is not None
    return sentences


def read(evaluation: Evaluation) -> list[Sentence]:
    sentences = result_sentences(evaluation)
    return sentences.read(range(sentences.text_count))


def texts(evaluation: Evaluation) -> list[tuple[str, list[str]]]:
    """The hypotheses and references that can be read."""
    return [(sentence.hypothesis, sentence.references) for sentence in read(evaluation)]


def statistics(evaluation: Evaluation) -> list[list[int]]:
    rows: list[list[int]] = result_sentences(evaluation).statistics.tolist()
    return rows


@pytest.mark.parametrize("options", [{"keep_sentences": True}, {"max_texts": 1}])
def test_the_given_metric_is_copied_without_its_sentences(options: dict[str, Any]) -> None:
    metric = CorpusBLEU(max_order=2)
    metric.update(["a b"], ["a b"])
    evaluation = Evaluation(["val_bleu"], metric, **options)
    assert evaluation.metric.hypothesis_length == 0
    assert evaluation.metric.keep_sentences
    evaluation.update(HYPOTHESES, REFERENCES)
    assert metric.hypothesis_length == 2
    assert not metric.keep_sentences
    assert len(evaluation.metric.sentence_statistics) == 4


def test_a_metric_that_keeps_sentences_goes_on_to_keep_them() -> None:
    metric = CorpusBLEU(keep_sentences=True)
    metric.update(["a b"], ["a b"])
    for options in ({"max_texts": 0}, {"max_texts": 0, "keep_sentences": True}, {}):
        evaluation = make_evaluation(metric, **options)
        evaluation.update(HYPOTHESES, REFERENCES)
        assert evaluation.metric.sentence_statistics.tolist() == ROWS
    assert len(metric.sentence_statistics) == 1


@pytest.mark.parametrize("forms", [str.split, lambda line: [ord(letter) for letter in line], str])
def test_a_masked_sentence_does_not_count_and_has_no_text(forms: Any) -> None:
    hypotheses = [forms(line) for line in HYPOTHESES]
    references = [[forms(line) for line in group] for group in REFERENCES]
    evaluation, counted = make_evaluation(), make_evaluation()
    evaluation.update(hypotheses, references, [True, False, True, False])
    counted.update([hypotheses[0], hypotheses[2]], [references[0], references[2]])
    assert statistics(evaluation) == statistics(counted)
    assert texts(evaluation) == texts(counted)
    assert len(texts(evaluation)) == 2
    assert evaluation.metric.report().matches == counted.metric.report().matches
    assert len(evaluation.metric.sentence_statistics) == 2


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("mask_type", [list, np.array, torch.tensor])
def test_one_value_masks_a_whole_batch(mask_type: Any, keep: bool) -> None:
    evaluation = make_evaluation()
    evaluation.update(HYPOTHESES, REFERENCES, mask_type([keep]))
    assert statistics(evaluation) == (ROWS if keep else [])
    assert texts(evaluation) == (PAIRS if keep else [])


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_without_texts_only_the_metric_counts(keep_sentences: bool) -> None:
    evaluation = Evaluation(["val_bleu"], CorpusBLEU(max_order=2), keep_sentences=keep_sentences)
    evaluation.update(HYPOTHESES, REFERENCES, source=SOURCES)
    assert evaluation.result().sentences is None
    assert evaluation.metric.keep_sentences == keep_sentences
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES, REFERENCES, max_order=2)


@pytest.mark.parametrize(
    ("preds", "target", "options", "error", "message"),
    [
        (["a", "b"], ["a"], {}, ValueError, "'preds' and 'target' must have the same number of sentences"),
        (["a", "b"], ["a"], {"source": ["a", "b"]}, ValueError, "'preds' and 'target' must have the same number"),
        (["a"], ["a"], {"sample_mask": [1]}, TypeError, "'sample_mask' must hold booleans"),
        (["a"], ["a"], {"source": ["a"], "sample_mask": [True] * 3}, ValueError, "'sample_mask' must have shape"),
        (["a"], ["a"], {"source": ["a", "b"]}, ValueError, "'source' and 'preds' must have the same number"),
        (["a"], ["a"], {"source": []}, ValueError, "'source' and 'preds' must have the same number"),
        (["a"], ["a"], {"source": "a"}, TypeError, "'source' must be a list of sentences, got a str"),
        (["a"], ["a"], {"source": [None]}, TypeError, "'source' must hold sentences of one kind"),
        (5, ["a"], {"source": ["a"]}, TypeError, "'preds' must be a list of strings"),
        (None, ["a"], {"source": ["a"]}, TypeError, "'preds' must be a list of strings"),
    ],
)
def test_a_batch_with_an_error_leaves_nothing_behind(
    preds: Any, target: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    evaluation = make_evaluation()
    evaluation.update(HYPOTHESES, REFERENCES, source=SOURCES)
    with pytest.raises(error, match=message):
        evaluation.update(preds, target, **options)
    assert statistics(evaluation) == ROWS
    assert texts(evaluation) == PAIRS
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES, REFERENCES)
    # The next batch is not out of step.
    evaluation.update(HYPOTHESES[:1], REFERENCES[:1], source=SOURCES[:1])
    assert read(evaluation)[4] == Sentence(HYPOTHESES[0], REFERENCES[0], SOURCES[0])


@pytest.mark.parametrize(
    "preds", ["a str", torch.tensor(5), torch.tensor(0.5), np.array(5), 5, None, {"a": 1}, {"a"}], ids=str
)
def test_an_error_of_hypotheses_is_the_same_with_sources(preds: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        make_evaluation().update(preds, ["a"])
    with pytest.raises(error.type) as error_with_source:
        make_evaluation().update(preds, ["a"], source=["b"])
    assert str(error_with_source.value) == str(error.value)


@pytest.mark.parametrize(
    ("options", "preds", "target", "expected"),
    [
        ({}, ["a b."], [["a  b", "<b>"]], ("a b.", ["a  b", "<b>"])),
        ({"lowercase": True}, ["A B"], ["a B"], ("A B", ["a B"])),
        ({}, [["a", "b c"]], [[["a"], []]], ("a b c", ["a", ""])),
        ({}, [[7, 5]], [[[7], []]], ("7 5", ["7", ""])),
        ({"pad_id": 0, "eos_id": 2}, torch.tensor([[7, 0, 5, 2, 8]]), torch.tensor([[7, 2, 9]]), ("7 5", ["7"])),
        ({"pad_id": 0}, torch.tensor([[7, 0]]), torch.tensor([[[7, 8], [0, 0], [9, 0]]]), ("7", ["7 8", "9"])),
        ({"decoder": lambda rows: ["+".join(map(str, row)) for row in rows]}, [[7, 5]], [[7]], ("7+5", ["7"])),
    ],
    ids=["strings", "lowercase", "tokens", "ids", "special ids", "padding references", "decoder"],
)
def test_texts_show_what_was_given_without_padding_and_markers(
    options: dict[str, Any], preds: Any, target: Any, expected: tuple[str, list[str]]
) -> None:
    evaluation = make_evaluation(CorpusBLEU(**options))
    evaluation.update(preds, target)
    assert texts(evaluation) == [expected]
    # Sources are shown in the same way.
    evaluation.update(preds, target, source=preds)
    assert [sentence.source for sentence in read(evaluation)] == [None, expected[0]]


@pytest.mark.parametrize("ignore_ids", [None, -100])
def test_texts_are_not_views_of_what_was_given(ignore_ids: int | None) -> None:
    """Even without an id to remove, which needs no copy."""
    evaluation = make_evaluation(CorpusBLEU(ignore_ids=ignore_ids, pad_id=9))
    buffers = torch.empty(3, 1, 4, dtype=torch.int64)
    for number in range(3):
        preds, target, source = buffers
        evaluation.update(preds.fill_(number), target.fill_(number + 1), source=source.fill_(number + 2))
    assert [sentence[:3] for sentence in read(evaluation)] == [
        ("0 0 0 0", ["1 1 1 1"], "2 2 2 2"),
        ("1 1 1 1", ["2 2 2 2"], "3 3 3 3"),
        ("2 2 2 2", ["3 3 3 3"], "4 4 4 4"),
    ]


def test_iterators_are_read_once() -> None:
    evaluation = make_evaluation()
    evaluation.update(iter(HYPOTHESES), iter(REFERENCES), source=iter(SOURCES))
    assert read(evaluation) == [Sentence(*sentence) for sentence in zip(HYPOTHESES, REFERENCES, SOURCES)]
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES, REFERENCES)


def test_a_result_has_a_report_and_what_else_was_asked_for() -> None:
    evaluation = Evaluation(["val_bleu"], CorpusBLEU(), keep_sentences=True)
    evaluation.update(HYPOTHESES, REFERENCES)
    report, interval = evaluation.metric.report(), evaluation.metric.interval(0.9)
    parts = {f"precision_{n}": precision for n, precision in enumerate(report.precisions, 1)}
    parts |= {"brevity_penalty": report.brevity_penalty, "length_ratio": report.length_ratio}
    parts |= {"hypothesis_length": report.hypothesis_length, "reference_length": report.reference_length}

    plain = evaluation.result()
    assert (plain.report, plain.interval, plain.comparison, plain.sentences) == (report, None, None, None)
    assert plain.parts() == parts

    best = BestSoFar()
    full = evaluation.result(confidence=0.9, best=best)
    assert full.interval == interval
    assert full.parts() == parts | {"low": interval.low, "high": interval.high, "p_value": 1, "best": report.bleu}
    assert list(best.state_dict()["best"]) == ["val_bleu"]

    unkept = BestSoFar()
    evaluation.result(best=unkept, keep_best=False)
    assert unkept.state_dict() == {}


def test_texts_change_nothing_else_of_a_result() -> None:
    with_texts, without = make_evaluation(max_texts=2), Evaluation(["val_bleu"], CorpusBLEU(), keep_sentences=True)
    for evaluation in (with_texts, without):
        evaluation.update(HYPOTHESES, REFERENCES)
    options: dict[str, Any] = {"confidence": 0.9}
    results = [evaluation.result(best=BestSoFar(), **options) for evaluation in (with_texts, without)]
    assert results[0][:3] == results[1][:3]
    assert [result.sentences is None for result in results] == [False, True]


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    evaluation = Evaluation(["val_bleu"], CorpusBLEU(percent=percent), keep_sentences=True)
    evaluation.update(HYPOTHESES[2:3], REFERENCES[2:3])
    interval = evaluation.result(confidence=0.9).interval
    assert interval is not None
    perfect = 100 if percent else 1
    assert (interval.low, interval.bleu, interval.high, interval.scores) == (perfect, perfect, perfect, ())
    assert (interval.percent, interval.confidence) == (percent, 0.9)
