"""An evaluation, without Lightning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CorpusBLEU, CorpusCHRF, corpus_bleu, corpus_chrf
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.sentences import Sentence

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


def make_evaluation(metric: CorpusBLEU | None = None, *, max_texts: float = math.inf) -> Evaluation:
    """An evaluation that keeps the text of all sentences."""
    return Evaluation("val_bleu", "", metric or CorpusBLEU(), max_texts=max_texts)


def read(evaluation: Evaluation) -> list[Sentence]:
    sentences = evaluation.result().sentences
    return sentences.read(sentences.readable)


def texts(evaluation: Evaluation) -> list[tuple[str, list[str]]]:
    """The hypotheses and references that can be read."""
    return [(sentence.hypothesis, sentence.references) for sentence in read(evaluation)]


def statistics(evaluation: Evaluation) -> list[list[int]]:
    rows: list[list[int]] = evaluation.result().sentences.statistics.tolist()
    return rows


@pytest.mark.parametrize(
    ("stage_tag", "name", "tag", "names"),
    [
        ("val_bleu", "", "val_bleu", ["val_bleu"]),
        ("val_bleu", "news", "val_bleu/news", ["val_bleu", "news"]),
        ("val/bleu", "news/de", "val/bleu/news/de", ["val", "bleu", "news/de"]),
    ],
)
def test_the_parts_of_a_name_are_those_of_the_stage_and_the_loader(
    stage_tag: str, name: str, tag: str, names: list[str]
) -> None:
    evaluation = Evaluation(stage_tag, name, CorpusBLEU())
    assert (evaluation.tag, evaluation.names) == (tag, names)


@pytest.mark.parametrize("keep_sentences", [False, True])
@pytest.mark.parametrize("max_texts", [0, 1])
def test_the_given_metric_is_copied_without_its_sentences(max_texts: int, keep_sentences: bool) -> None:
    metric = CorpusBLEU(keep_sentences=keep_sentences)
    metric.update(["a b"], ["a b"])
    evaluation = make_evaluation(metric, max_texts=max_texts)
    assert evaluation.metric.hypothesis_length == 0
    evaluation.update(HYPOTHESES, REFERENCES)
    assert evaluation.metric.sentence_statistics.tolist() == ROWS
    assert metric.hypothesis_length == 2
    assert metric.keep_sentences == keep_sentences


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


def test_without_texts_only_the_metric_counts() -> None:
    evaluation = make_evaluation(CorpusBLEU(max_order=2), max_texts=0)
    evaluation.update(HYPOTHESES, REFERENCES, source=SOURCES)
    result = evaluation.result()
    assert result.sentences.readable == []
    assert result.report == corpus_bleu(HYPOTHESES, REFERENCES, max_order=2)


# Positions


def test_sentences_are_in_the_order_of_their_positions() -> None:
    evaluation, order = make_evaluation(), [2, 0, 3, 1]
    for batch in (order[:3], order[3:]):
        index = torch.tensor(batch) * 10  # gaps are fine
        evaluation.update([HYPOTHESES[i] for i in batch], [REFERENCES[i] for i in batch], index=index)
    assert evaluation.result().kept.positions.tolist() == [0, 10, 20, 30]
    assert statistics(evaluation) == ROWS
    assert texts(evaluation) == PAIRS


def test_an_index_that_repeats_counts_once() -> None:
    """Its first sentence counts."""
    evaluation = make_evaluation()
    evaluation.update([*HYPOTHESES[:2], "other"], REFERENCES[:2] + REFERENCES[:1], index=[0, 1, 0], source=SOURCES[:3])
    evaluation.update(["another", *HYPOTHESES[2:]], REFERENCES[1:], index=np.array([1, 2, 3]), source=SOURCES[1:])
    result = evaluation.result()
    assert result.report == corpus_bleu(HYPOTHESES, REFERENCES)
    assert result.kept.statistics.tolist() == result.sentences.statistics.tolist() == ROWS
    assert read(evaluation) == [Sentence(*sentence) for sentence in zip(HYPOTHESES, REFERENCES, SOURCES)]


def test_a_masked_sentence_has_no_position() -> None:
    """So another one can have it."""
    evaluation = make_evaluation()
    evaluation.update(HYPOTHESES, REFERENCES, [True, False, True, True], [0, 3, 1, 2])
    evaluation.update(HYPOTHESES[1:2], REFERENCES[1:2], [True], [3])
    order = [0, 2, 3, 1]
    assert statistics(evaluation) == [ROWS[i] for i in order]
    assert texts(evaluation) == [PAIRS[i] for i in order]


def test_different_sentences_must_not_have_the_same_position() -> None:
    evaluation = make_evaluation()
    evaluation.update(HYPOTHESES[:2], REFERENCES[:2], index=[0, 1])
    evaluation.update(HYPOTHESES[2:], REFERENCES[2:], index=[0, 1])  # as if of the batch
    with pytest.raises(ValueError, match="different sentences have the same 'index' 0: their references differ"):
        evaluation.result()


# Errors


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
        (["a"], ["a"], {"index": [0]}, ValueError, "some sentences have an 'index' and others have none"),
        (["a"], ["a"], {"index": [0, 1]}, ValueError, "'index' must have shape"),
        (["a"], ["a"], {"index": [0.5]}, TypeError, "'index' must hold integers"),
        (["a"], ["a"], {"index": [-1]}, ValueError, "'index' must hold positions in the dataset, from 0 .*, got -1"),
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


def test_a_result_has_the_report_the_statistics_and_the_values_to_log() -> None:
    evaluation = make_evaluation()
    evaluation.update(HYPOTHESES, REFERENCES)
    report = evaluation.metric.report()
    parts = {f"precision_{n}": precision for n, precision in enumerate(report.precisions, 1)}
    parts |= {"brevity_penalty": report.brevity_penalty, "length_ratio": report.length_ratio}
    parts |= {"hypothesis_length": report.hypothesis_length, "reference_length": report.reference_length}
    result = evaluation.result()
    assert (result.report, result.report.parts()) == (report, parts)
    assert result.kept.statistics.tolist() == ROWS


def test_texts_change_nothing_else_of_a_result() -> None:
    results = []
    for max_texts in (0, 2):
        evaluation = make_evaluation(max_texts=max_texts)
        evaluation.update(HYPOTHESES, REFERENCES, [True, False, True, True], [5, 6, 4, 0])
        results.append(evaluation.result())
    without, with_texts = results
    assert without.report == with_texts.report
    assert torch.equal(without.kept.rows, with_texts.kept.rows)
    assert [result.sentences.readable for result in results] == [[], [1, 2]]  # the second and third have text


# Other metrics


OTHERS = {"val_chrf": CorpusCHRF(word_order=2), "val_lower": CorpusBLEU(lowercase=True, max_order=2)}


def make_beside(**options: Any) -> Evaluation:
    """An evaluation of several metrics."""
    return Evaluation("val_bleu", "news", CorpusBLEU(**options), OTHERS, max_texts=math.inf)


def test_all_metrics_count_the_same_sentences() -> None:
    evaluation = make_beside()
    evaluation.update([*HYPOTHESES[2:], "x"], [*REFERENCES[2:], "x"], [True, True, False], [5, 6, 7])
    evaluation.update(HYPOTHESES[:3], REFERENCES[:3], index=[1, 2, 5])  # the last one is a repeat
    result = evaluation.result()
    reports: dict[str, Any] = {tag: one.report for tag, one in result.counted.items()}
    assert reports == {
        "val_bleu": corpus_bleu(HYPOTHESES, REFERENCES),
        "val_chrf": corpus_chrf(HYPOTHESES, REFERENCES, word_order=2),
        "val_lower": corpus_bleu(HYPOTHESES, REFERENCES, lowercase=True, max_order=2),
    }
    assert result.report == reports["val_bleu"]
    assert result.kept is result.counted["val_bleu"].kept
    assert [one.kept.positions.tolist() for one in result.counted.values()] == [[1, 2, 5, 6]] * 3
    assert result.sentences.statistics.tolist() == ROWS
    assert [evaluation.tag_of(tag) for tag in reports] == ["val_bleu/news", "val_chrf/news", "val_lower/news"]
    assert all(metric.input_counts.strings == 0 for metric in OTHERS.values())  # they are copied
    evaluation.reset()
    assert [metric.sentences for metric in evaluation.metrics.values()] == [[]] * 3


def test_all_metrics_forget_positions() -> None:
    evaluation = make_beside()
    for _ in range(2):
        evaluation.update(HYPOTHESES, REFERENCES, index=range(4))
    evaluation.forget_positions()
    assert [len(one.kept.rows) for one in evaluation.result().counted.values()] == [8] * 3


@pytest.mark.parametrize(
    ("preds", "target", "kind"),
    [([["a", "b"]], [["a", "b"]], "tokens"), ([[1, 2]], [[1, 2]], "ids"), (torch.ones(1, 2).long(), [[1]], "ids")],
)
def test_ids_and_tokens_are_an_error_before_any_metric_counts(preds: Any, target: Any, kind: str) -> None:
    evaluation = make_beside(pad_id=0)
    with pytest.raises(
        TypeError, match=rf"BLEUCallback\(others=...\) needs text, got {kind}: return strings, or decode"
    ):
        evaluation.update(preds, target, needs_text=True)
    assert [metric.sentences for metric in evaluation.metrics.values()] == [[]] * 3
    evaluation.update(preds[:0], target[:0], needs_text=True)  # of no kind
    assert len(evaluation.result().kept.rows) == 0


def test_ids_are_decoded_once_for_all_metrics() -> None:
    decoded: list[Any] = []

    def decode(rows: list[list[int]]) -> list[str]:
        decoded.extend(rows)
        return [" ".join(f"w{number}" for number in row) for row in rows]

    ids = [[5, 6, 7, 8, 9], [7, 8, 6]]
    evaluation = make_beside(decoder=decode)
    evaluation.update(ids, [[row[1:]] for row in ids], needs_text=True)
    result = evaluation.result()
    assert sorted(decoded) == sorted([*ids, *(row[1:] for row in ids)])
    lines = decode(ids), [[line] for line in decode([row[1:] for row in ids])]
    reports: dict[str, Any] = {tag: one.report for tag, one in result.counted.items()}
    assert reports["val_chrf"] == corpus_chrf(*lines, word_order=2)
    assert reports["val_lower"] == corpus_bleu(*lines, lowercase=True, max_order=2)
    assert texts(evaluation) == [*zip(*lines)]


def test_a_warning_about_a_batch_is_said_once_for_all_metrics() -> None:
    evaluation = Evaluation("val_bleu", "", CorpusBLEU(), {"val_bleu2": CorpusBLEU(max_order=2)})
    with pytest.warns(UserWarning, match="neither 'pad_id' nor 'eos_id'") as warned:
        evaluation.update(*torch.ones(2, 2, 3).long())
    assert len(warned) == 1
