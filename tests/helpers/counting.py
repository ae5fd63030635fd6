"""Batches for the tests of counting, and how to count them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUSettings, count_rows
from lightning_bleu.core.batch import read_batch
from lightning_bleu.core.forms import IntArray, Ragged
from tests.reference import statistics

Ids: TypeAlias = list[int]

HYPOTHESES = [[5, 6, 7, 8, 9], [5, 6], [], [9, 9, 9, 8]]
REFERENCES = [
    [[5, 6, 7, 9, 8], [6, 7, 8, 9, 5, 5]],
    [[5, 6, 7], [6, 5]],
    [[5], [4]],
    [[9, 8], [9, 9, 7, 9, 8]],
]
FIRST_REFERENCES = [references[0] for references in REFERENCES]
EXPECTED_FIRST = [statistics(h, [r], 3) for h, r in zip(HYPOTHESES, FIRST_REFERENCES)]
"""The statistics of :data:`HYPOTHESES` beside :data:`FIRST_REFERENCES` up to trigrams, by definition."""


def as_words(ids: Ids) -> list[str]:
    """Tokens in place of ids."""
    return [f"w{id_}" for id_ in ids]


def as_text(ids: Ids) -> str:
    """Text in place of ids, with one word for each."""
    return " ".join(as_words(ids))


def pad(sentences: Sequence[Ids], width: int, value: int = 0, *, left: int = 0) -> Tensor:
    """Pad sentences on the right, and by `left` places on the left."""
    return torch.tensor([[value] * left + ids + [value] * (width - len(ids)) for ids in sentences])


def count(preds: Any, target: Any, **options: Any) -> list[list[int]]:
    """The statistics of each sentence, up to trigrams unless the options say otherwise."""
    settings = BLEUSettings.from_options(**{"max_order": 3} | options)
    rows: list[list[int]] = count_rows(read_batch(preds, target, settings), settings).tolist()
    return rows


def make_ragged(sentences: Sequence[Sequence[Ids]]) -> tuple[Ragged, IntArray]:
    """Sentences, each a hypothesis and its references, as the kernel takes them."""
    segments = [*(group[0] for group in sentences), *chain.from_iterable(group[1:] for group in sentences)]
    ids, lengths = list(chain.from_iterable(segments)), [len(segment) for segment in segments]
    counts = [len(group) - 1 for group in sentences]
    return Ragged(np.array(ids, np.int64), np.array(lengths, np.int64)), np.array(counts, np.int64)


EXTREME_IDS = [7, 8, -1, -(2**63), 2**41, 2**41 + 1, 2**63 - 1]
"""Ids close together and at both ends of 64 bits."""


def remove_special_ids(
    ids: Ids, *, pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: Sequence[int]
) -> Ids:
    """The tokens among some ids, word for word as the arguments of :class:`lightning_bleu.CorpusBLEU` say."""
    tokens: Ids = []
    for id_ in ids:
        if id_ == eos_id and (tokens or eos_id not in (bos_id, pad_id)):
            break
        if id_ not in (pad_id, bos_id, *ignore_ids):
            tokens.append(id_)
    return tokens


def number_alike(ids: IntArray, tokens: Sequence[Hashable]) -> bool:
    """Whether equal tokens have equal ids, and different tokens different ids."""
    pairs = set(zip(ids.tolist(), tokens))
    return len(ids) == len(tokens) and len(pairs) == len(set(tokens)) == len(set(ids.tolist()))
