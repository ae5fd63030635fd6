from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import ngrams
from lightning_bleu.ngrams import Segments, count_ngrams
from tests.reference import statistics

Sentences = list[list[list[int]]]


def segments(sentences: Sentences, *, padding: int = 0, filler: int = 0) -> Segments:
    """Pad sentences, each a hypothesis and its references."""
    width = max((len(s) for group in sentences for s in group), default=0) + padding
    count = max((len(group) for group in sentences), default=1)
    ids = np.full((len(sentences), count, width), filler, np.int64)
    lengths = np.zeros(ids.shape[:2], np.int64)
    for i, group in enumerate(sentences):
        for j, sentence in enumerate(group):
            ids[i, j, : len(sentence)] = sentence
            lengths[i, j] = len(sentence)
    return Segments(ids, np.arange(width) < lengths[..., None], lengths)


def to_torch(batch: Segments, device: str = "cpu") -> Segments:
    return Segments(*(torch.from_numpy(array).to(device) for array in batch[:3]))


def check(sentences: Sentences, max_order: int, **options: int) -> None:
    batch = segments(sentences, **options)
    expected = np.array([statistics(h, rs, max_order)[: 2 * max_order] for h, *rs in sentences])
    for one in (batch, to_torch(batch)):
        counted = np.concatenate([np.asarray(part) for part in count_ngrams(one, max_order)], -1)
        np.testing.assert_array_equal(counted, expected)


ids = st.lists(st.sampled_from([7, 8, -1, -(2**63), 2**41, 2**63 - 1]), max_size=9)
corpora = st.integers(2, 5).flatmap(
    lambda count: st.lists(st.lists(ids, min_size=count, max_size=count), min_size=1, max_size=5)
)


@given(corpora, st.integers(1, 6), st.integers(0, 3), st.sampled_from([0, 7, -(2**63)]))
def test_counts_are_those_of_the_definition(sentences: Sentences, max_order: int, padding: int, filler: int) -> None:
    check(sentences, max_order, padding=padding, filler=filler)


@given(st.lists(st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=2, max_size=2), min_size=1, max_size=4))
def test_repeated_tokens_are_clipped(sentences: Sentences) -> None:
    check(sentences, 4)


@pytest.mark.parametrize("references", [1, 2, 7, 8, 30])
def test_any_number_of_references(references: int) -> None:
    generator = np.random.default_rng(references)
    sentences = [
        [generator.integers(0, 6, generator.integers(0, 15)).tolist() for _ in range(1 + references)] for _ in range(20)
    ]
    check(sentences, 4)


@pytest.mark.parametrize("max_order", [1, 2, 5, 9, 20])
def test_any_order(max_order: int) -> None:
    generator = np.random.default_rng(max_order)
    base = generator.integers(0, 5, (10, 40))
    sentences = [[row.tolist(), np.delete(row, generator.integers(40)).tolist()] for row in base]
    check(sentences, max_order)


@pytest.mark.parametrize("spread", [1, 2**45])
def test_rows_of_tens_of_thousands_of_tokens(spread: int) -> None:
    generator = np.random.default_rng(0)
    base = generator.integers(0, 300, 30_000) * spread
    changed = base.copy()
    changed[generator.integers(0, len(base), 5_000)] = 3 * spread
    check([[base.tolist(), changed.tolist(), base[::-1].tolist()]], 4)


def test_a_batch_of_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "_CHUNK_CPU", 40)
    monkeypatch.setattr(ngrams, "_CHUNK_ACCELERATOR", 40)
    generator = np.random.default_rng(0)
    sentences = [[generator.integers(0, 4, generator.integers(0, 12)).tolist() for _ in range(3)] for _ in range(50)]
    check(sentences, 4)


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 2, 0)])
def test_nothing_to_count(shape: tuple[int, int, int]) -> None:
    empty = Segments(np.zeros(shape, np.int64), np.zeros(shape, bool), np.zeros(shape[:2], np.int64))
    for batch in (empty, to_torch(empty)):
        for part in count_ngrams(batch, 4):
            np.testing.assert_array_equal(part, np.zeros((shape[0], 4)))


def test_gaps_void_the_ngrams_that_hold_them() -> None:
    # a b _ c d against a b c d: bigrams "a b" and "c d", nothing longer
    ids = np.array([[[1, 2, 9, 3, 4], [1, 2, 3, 4, 9]]])
    matches, possible = count_ngrams(Segments(ids, ids < 9, (ids < 9).sum(-1), split=True), 3)
    assert matches.tolist() == [[4, 2, 0]]
    assert possible.tolist() == [[4, 2, 0]]


def test_no_operation_depends_on_the_data() -> None:
    """Tensors without data stand in for an accelerator: whatever had to look at a value would fail."""
    batch = to_torch(segments([[[1, 2, 3], [1, 2]], [[4], [5, 6, 7]]]))
    matches, possible = count_ngrams(Segments(*(array.to("meta") for array in batch[:3])), 4)
    assert matches.shape == possible.shape == (2, 4)


@pytest.mark.gpu
def test_cuda_counts_what_the_cpu_counts_and_never_waits() -> None:
    generator = np.random.default_rng(0)
    sentences = [[generator.integers(0, 50, generator.integers(0, 60)).tolist() for _ in range(4)] for _ in range(64)]
    batch = segments(sentences)
    on_device = to_torch(batch, "cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        counted = count_ngrams(on_device, 4)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for part, expected in zip(counted, count_ngrams(batch, 4)):
        np.testing.assert_array_equal(part.cpu(), expected)
