"""What only :class:`lightning_bleu.CorpusBLEU` does: it counts sentences of all kinds, and names its statistics."""

from __future__ import annotations

from typing import Any

import torch

from lightning_bleu import CorpusBLEU
from lightning_bleu.core.batch import InputCounts
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


def test_a_batch_of_empty_lists_is_of_no_kind() -> None:
    metric = CorpusBLEU()
    metric.update([[]], [[[]]])
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:?|")
    metric.update([[5, 6]], [[5, 6]])
    metric.update([[], []], [[[]], [[]]])
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:ids|")
    assert metric.input_counts == InputCounts(ids=1, empty=3, references=4, squared_references=4)


def test_an_update_does_not_keep_the_graph() -> None:
    metric = CorpusBLEU(pad_id=-1)
    logits = torch.randn(2, 5, 7, requires_grad=True)
    assert metric(logits, logits.argmax(-1)).item() == 1
    assert not metric.totals.requires_grad
