"""What loggers show of the sentences of a validation: which sentences, and the scores of which metrics."""

from __future__ import annotations

from typing import Any

import pytest
from sacrebleu.metrics.ter import TER

from lightning_bleu import CorpusBLEU, CorpusCHRF, FunctionMetric, corpus_chrf, sentence_bleu, sentence_chrf
from lightning_bleu.observers.tensorboard import sample_table
from tests.helpers.views import HYPOTHESES, REFERENCES, view


def test_all_metrics_that_score_sentences_have_a_column_and_the_first_ranks_them() -> None:
    chrf, bleu = CorpusCHRF(word_order=2), CorpusBLEU(tokenizer="intl", max_order=2)
    metrics = {"ter": TER(), "a/chars": chrf, "bleu": bleu, "words": lambda lines, _: [len(x.split()) for x in lines]}
    shown = view(5, metrics)
    scores = sentence_chrf(HYPOTHESES, REFERENCES, word_order=2, percent=True)
    first, worst = shown.panels
    assert (first.tag, worst.tag) == ("val_samples/news", "val_worst/news")
    assert shown.digits == {"a/chars": 1, "bleu": 1, "words": 4}
    report = corpus_chrf(HYPOTHESES, REFERENCES, word_order=2)
    assert shown.signature == report.signature
    assert first.caption == f"The first sentences. {report}\n{report.signature}"
    assert worst.caption == f"The worst sentences, by chrF2++. {report}\n{report.signature}"
    assert [sample.index for sample in worst.samples] == scores.argsort().tolist()[:-1]  # the last one is right
    others = sentence_bleu(HYPOTHESES, REFERENCES, tokenizer="intl", max_order=2, percent=True)
    words = [len(line.split()) for line in HYPOTHESES]
    columns = [list(column) for column in zip(*(sample.shown_scores() for sample in first.samples))]
    assert columns == [pytest.approx(own) for own in (scores.tolist(), others.tolist(), words)]
    assert [*shown.figures] == ["val_bleu/news/by_length"]


def test_a_single_chrf_has_no_figures() -> None:
    shown = view(1, CorpusCHRF())
    assert (shown.digits, shown.figures) == ({"chrf": 1}, {})


def test_without_a_sentence_that_is_not_perfect_only_the_first_are_shown() -> None:
    lines = ["all of this is right", "and this"]
    (first,) = view(2, preds=lines, target=lines).panels
    assert [sample.index for sample in first.samples] == [0, 1]


def test_without_scores_of_sentences_only_the_first_are_shown() -> None:
    shown = view(2, {"ter": TER()})
    (first,) = shown.panels
    assert [(sample.index, sample.scores) for sample in first.samples] == [(0, {}), (1, {})]
    assert (first.caption, shown.figures) == ("The first sentences.", {})


def lengths(hypotheses: list[str], references: list[list[str]]) -> list[int]:
    """The number of words, of which neither more nor less is better."""
    return [len(line.split()) for line in hypotheses]


def test_a_score_without_a_direction_has_a_column_and_does_not_rank() -> None:
    length = FunctionMetric(lengths, higher_is_better=None)
    shown = view(2, {"length": length, "bleu": CorpusBLEU()})
    first, worst = shown.panels
    assert shown.digits == {"length": 4, "bleu": 1}
    assert [sample.scores["length"] for sample in first.samples] == lengths(HYPOTHESES[:2], REFERENCES)
    assert [sample.index for sample in worst.samples] == [1, 0]
    assert worst.caption.startswith("The worst sentences for their length, by smoothed BLEU. BLEU = ")
    shown = view(2, {"length": length})
    (first,) = shown.panels
    assert (first.caption, shown.signature) == ("The first sentences.", "")


@pytest.mark.parametrize("ids", [["en-1", "<b>", "a|b", "4", "e"], [1, 2, 3, 4, 2**40]])
@pytest.mark.parametrize("group", [None, [*"abcde"]])
def test_ids_are_shown_before_groups_and_scores_in_tables_and_pages(ids: Any, group: Any) -> None:
    shown = view(2, id=ids, group=group)
    columns, rows = shown.table(7)
    labels = ["id", "group"] if group else ["id"]
    assert columns[: 3 + len(labels)] == ["step", "index", "shown as", *labels]
    for row in rows:
        index = row[1]
        assert row[3 : 3 + len(labels)] == [str(ids[index]), *([group[index]] if group else [])]
    first, _ = shown.panels
    header = sample_table(first.samples, "", shown.digits).split("\n")[2]
    assert header.startswith(f"| index | {' | '.join(labels)} | <pre>bleu</pre>")
    assert [sample.to_dict()["id"] for sample in first.samples] == ids[:2]
    assert str(first.samples[0]).strip().startswith(f"#0  {ids[0]}")
