"""What only :class:`lightning_bleu.CorpusBLEU` does: it counts sentences of all kinds, and names its statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU
from lightning_bleu.scoring.signature import InputCounts
from tests.helpers.metrics import BLEU, BOTH


def test_the_statistics_have_names() -> None:
    metric = CorpusBLEU()
    metric.update(*BOTH)
    sums = [sum(column) for column in zip(*BLEU.rows(*BOTH))]
    assert (metric.matches.tolist(), metric.possible_matches.tolist()) == (sums[:4], sums[4:8])
    assert (metric.hypothesis_length.item(), metric.reference_length.item()) == (sums[8], sums[9])


def test_batches_of_all_kinds_make_one_corpus() -> None:
    ids = [[0, 1, 0, 1], [1, 1]], [[0, 1, 0, 2], [1, 1]]
    words: Any = tuple([[f"w{i}" for i in row] for row in rows] for rows in ids)
    lines: Any = tuple([" ".join(row) for row in rows] for rows in words)
    alone, metric = CorpusBLEU(), CorpusBLEU()
    alone.update(*words)
    for batch in (ids, words, lines, ids):
        metric.update(*batch)
    assert torch.equal(metric.statistics, 4 * alone.statistics)
    assert metric.input_counts == InputCounts(strings=2, tokens=2, ids=4, references=8, squared_references=8)
    assert "|tok:13a+ids+tokens|" in metric.signature


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_batch_of_empty_lists_is_of_no_kind(keep_sentences: bool) -> None:
    metric = CorpusBLEU(keep_sentences=keep_sentences)
    metric.update([[]], [[[]]])
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:?|")
    metric.update([[5, 6]], [[5, 6]])
    metric.update([[], []], [[[]], [[]]])
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:ids|")
    assert metric.input_counts == InputCounts(ids=1, empty=3, references=4, squared_references=4)


def test_inputs_may_change_after_an_update() -> None:
    preds, target = torch.tensor([[5, 6, 7], [5, 5, 5]]), torch.tensor([[5, 6, 8], [5, 5, 5]])
    mask = torch.tensor([True, False])
    ids, words, booleans = [[5, 6, 7]], [["a", "b", "c"]], [True]
    arrays = preds.numpy(), target.numpy(), mask.numpy()
    metric, batches = CorpusBLEU(pad_id=0, max_order=2, keep_sentences=True), []
    inputs: list[Any] = [(preds, target, mask), arrays, (ids, ids, booleans), (words, [words], booleans)]
    for batch in inputs:
        metric.update(*batch)
        assert metric.last_batch is not None
        batches.append(metric.last_batch)
    preds.zero_()
    target.zero_()
    mask.fill_(True)
    ids[0].clear()
    words[0].append("d")
    booleans[0] = False
    # matches, possible matches, and lengths of [5, 6, 7] beside [5, 6, 8]; then of two equal sentences
    first, equal = [2, 1, 3, 2, 3, 3], [3, 2, 3, 2, 3, 3]
    assert metric.sentence_statistics.tolist() == [first, first, equal, equal]
    tensors = [("5 6 7", ["5 6 8"]), ("5 5 5", ["5 5 5"])]
    texts = [tensors, tensors, [("5 6 7", ["5 6 7"])], [("a b c", ["a b c"])]]
    assert [batch.texts() for batch in batches] == texts


def test_an_update_does_not_keep_the_graph() -> None:
    metric = CorpusBLEU(pad_id=-1)
    logits = torch.randn(2, 5, 7, requires_grad=True)
    assert metric(logits, logits.argmax(-1)).item() == 1
    assert metric.batch_statistics is not None
    assert [tensor.requires_grad for tensor in (metric.totals, metric.batch_statistics)] == [False, False]
