"""What only :class:`lightning_bleu.CorpusCHRF` does: it counts the text of ids that it decodes."""

from __future__ import annotations

from typing import Any

import torch

from lightning_bleu import CorpusCHRF, corpus_chrf
from tests.helpers.text import spell

IDS = [[1, 2, 9, 3, 4], [3, 3], [5, 6, 9, 7]]
REFERENCE_IDS = [[[1, 2, 9, 3], [2, 1]], [[3, 9, 3], [4]], [[5, 6, 7], [5, 6, 9, 8]]]
TEXT = (spell(IDS), [spell(group) for group in REFERENCE_IDS])


def test_decoded_ids_score_as_their_text() -> None:
    options: dict[str, Any] = {"decoder": spell, "pad_id": 11, "bos_id": 70, "eos_id": 80, "word_order": 2}
    ids: Any = torch.tensor([[70, *row, 80, *[11] * (6 - len(row))] for row in IDS])
    references: Any = torch.tensor([[[*row, 80, *[11] * (6 - len(row))] for row in g] for g in REFERENCE_IDS])
    logits = torch.nn.functional.one_hot(ids, 90).float()
    expected = corpus_chrf(*TEXT, word_order=2)
    for preds in (IDS, [torch.tensor(row) for row in IDS], ids, ids.numpy(), logits, TEXT[0]):
        for target in (REFERENCE_IDS, references, TEXT[1]):
            assert corpus_chrf(preds, target, **options) == expected
    metric = CorpusCHRF(**options)
    metric.update(ids, references)
    assert metric.report() == expected
    metric.update(*TEXT)
    assert metric.input_counts.strings == 6
    assert metric.report() == corpus_chrf(TEXT[0] * 2, TEXT[1] * 2, word_order=2)
