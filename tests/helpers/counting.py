"""Batches for the tests of counting, and two ways to count them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu.counting.devices import CPU
from lightning_bleu.counting.rows import padded_statistics
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.reading.batch import read_padded
from lightning_bleu.reading.ragged import IntArray, Ragged, RaggedBatch
from lightning_bleu.reading.recognize import recognize
from lightning_bleu.settings.settings import Settings
from tests.reference import ngrams, statistics

Ids: TypeAlias = list[int]
Pieces: TypeAlias = list[Ids]
"""A segment: the ids of each of its pieces. No n-gram spans two pieces."""

HYPOTHESES = [[5, 6, 7, 8, 9], [5, 6], [], [9, 9, 9, 8]]
REFERENCES = [
    [[5, 6, 7, 9, 8], [6, 7, 8, 9, 5, 5]],
    [[5, 6, 7], [6, 5]],
    [[5], [4]],
    [[9, 8], [9, 9, 7, 9, 8]],
]
FIRST_REFERENCES = [references[0] for references in REFERENCES]
EXPECTED = [statistics(h, rs, 3) for h, rs in zip(HYPOTHESES, REFERENCES)]
"""The statistics of :data:`HYPOTHESES` beside :data:`REFERENCES` up to trigrams, by definition."""
EXPECTED_FIRST = [statistics(h, [r], 3) for h, r in zip(HYPOTHESES, FIRST_REFERENCES)]
"""The same beside :data:`FIRST_REFERENCES`."""


def as_words(ids: Ids) -> list[str]:
    """Tokens in place of ids."""
    return [f"w{id_}" for id_ in ids]


def as_text(ids: Ids) -> str:
    """Text in place of ids, with one word for each."""
    return " ".join(as_words(ids))


def pad(sentences: Sequence[Ids], width: int, value: int = 0, *, left: int = 0) -> Tensor:
    """Pad sentences on the right, and by `left` places on the left."""
    return torch.tensor([[value] * left + ids + [value] * (width - len(ids)) for ids in sentences])


def count_ragged(preds: Any, target: Any, settings: Settings) -> Tensor:
    """Count as on the CPU."""
    return sentence_statistics(preds, target, settings).statistics


def count_padded(preds: Any, target: Any, settings: Settings) -> Tensor:
    """Count ids as on an accelerator."""
    _, hypotheses, references, counts = recognize(preds, target)
    return padded_statistics(
        read_padded(hypotheses, references, counts, settings.special_ids, CPU),
        settings.max_order,
        settings.length_rule,
        min_possible_matches=settings.min_possible_matches,
    )


Count: TypeAlias = Callable[[Any, Any, Settings], Tensor]
BOTH_WAYS: list[Count] = [count_ragged, count_padded]


def make_ragged(sentences: Sequence[Sequence[Pieces]]) -> RaggedBatch:
    """Sentences, each a hypothesis and its references, as a batch."""
    hypotheses, references = [group[0] for group in sentences], [group[1:] for group in sentences]
    segments = [*hypotheses, *chain.from_iterable(references)]
    pieces = [(number, piece) for number, segment in enumerate(segments) for piece in segment]
    ids = [id_ for _, piece in pieces for id_ in piece]
    return RaggedBatch(
        Ragged(_int64(ids), _int64([len(piece) for _, piece in pieces]), _int64([number for number, _ in pieces])),
        reference_counts=_int64([len(group) for group in references]),
    )


def _int64(values: list[int]) -> IntArray:
    return np.array(values, np.int64)


def count_by_definition(sentence: Sequence[Pieces], max_order: int) -> tuple[list[int], list[int]]:
    """The matches and the possible matches of a hypothesis and its references; see :mod:`tests.reference`."""
    matches, possible_matches = [], []
    for n in range(1, max_order + 1):
        hypothesis, *references = (_piece_ngrams(pieces, n) for pieces in sentence)
        allowed: Counter[tuple[Hashable, ...]] = Counter()
        for reference in references:
            allowed |= reference
        matches.append(sum((hypothesis & allowed).values()))
        possible_matches.append(sum(hypothesis.values()))
    return matches, possible_matches


def _piece_ngrams(pieces: Pieces, n: int) -> Counter[tuple[Hashable, ...]]:
    return sum((ngrams(piece, n) for piece in pieces), Counter[tuple[Hashable, ...]]())


EXTREME_IDS = [7, 8, -1, -(2**63), 2**41, 2**41 + 1, 2**63 - 1]
"""Ids close together and at both ends of 64 bits."""

_segments = st.lists(st.lists(st.sampled_from(EXTREME_IDS), max_size=9), min_size=1, max_size=3)
piece_batches = st.lists(st.lists(_segments, min_size=2, max_size=5), max_size=5)
"""Sentences, each a hypothesis and its references, of one or more pieces each."""


def random_batch(rng: random.Random) -> list[list[Pieces]]:
    """Up to seven sentences with one to nine references, most of which are similar to their hypothesis."""
    far_apart = rng.choice([EXTREME_IDS, [rng.randint(-(2**63), 2**63 - 1) for _ in range(8)]])
    vocabulary = rng.choice([far_apart, list(range(rng.choice([2, 4, 10, 100])))])
    longest = rng.choice([0, 1, 3, 9, 30])

    def draw() -> Pieces:
        pieces = rng.choice([1, 1, 1, 2, 3])
        return [rng.choices(vocabulary, k=rng.randint(0, longest)) for _ in range(pieces)]

    def change(segment: Pieces) -> Pieces:
        return [[rng.choice(vocabulary) if rng.random() < 0.1 else id_ for id_ in piece] for piece in segment]

    sentences = []
    for _ in range(rng.randint(0, 7)):
        base, references = draw(), range(rng.choice([1, 1, 2, 3, 9]))
        sentences.append([change(base), *(change(base) if rng.random() < 0.7 else draw() for _ in references)])
    return sentences


def in_one_piece(sentences: Sequence[Sequence[Ids]]) -> list[list[Pieces]]:
    """Sentences whose segments are one piece each."""
    return [[[ids] for ids in group] for group in sentences]


@st.composite
def id_batches(draw: st.DrawFn, *, min_sentences: int = 1) -> tuple[Any, Any]:
    """Hypotheses and references as tensors, or as lists of tensors of different lengths, with ids from 0 to 7."""

    def ids(*shape: int) -> Tensor:
        size = math.prod(shape)
        return torch.tensor(draw(st.lists(st.integers(0, 7), min_size=size, max_size=size))).reshape(shape).long()

    sentences, references = draw(st.integers(min_sentences, 4)), draw(st.integers(1, 3))
    widths = st.integers(0, 7)
    preds: Any = ids(sentences, draw(widths))
    target: Any = ids(sentences, references, draw(widths))
    if draw(st.booleans()):
        preds = [ids(draw(widths)) for _ in range(sentences)]
    if draw(st.booleans()):
        target = [[ids(draw(widths)) for _ in range(draw(st.integers(1, 3)))] for _ in range(sentences)]
    return preds, target


def split_at_special_ids(
    ids: Ids, *, pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: Sequence[int]
) -> Pieces:
    """The tokens between special ids, word for word as the arguments of :class:`lightning_bleu.CorpusBLEU` say."""
    pieces: Pieces = [[]]
    for id_ in ids:
        if id_ == eos_id and (any(pieces) or eos_id not in (bos_id, pad_id)):
            break
        if id_ in (pad_id, bos_id, *ignore_ids):
            pieces.append([])
        else:
            pieces[-1].append(id_)
    return pieces


def remove_special_ids(ids: Ids, **special_ids: Any) -> Ids:
    """The tokens among some ids; see :func:`split_at_special_ids`."""
    return list(chain.from_iterable(split_at_special_ids(ids, **special_ids)))


def number_alike(ids: IntArray, tokens: Sequence[Hashable]) -> bool:
    """Whether equal tokens have equal ids, and different tokens different ids."""
    pairs = set(zip(ids.tolist(), tokens))
    return len(ids) == len(tokens) and len(pairs) == len(set(tokens)) == len(set(ids.tolist()))
