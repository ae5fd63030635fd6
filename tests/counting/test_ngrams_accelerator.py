"""The kernel on accelerators, run on the CPU, beside the definition, with every internal limit reached."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lightning_bleu.counting import ngrams_accelerator
from lightning_bleu.counting.ngrams import count_matches
from lightning_bleu.counting.ngrams_accelerator import count_ngrams
from lightning_bleu.counting.padded import Padded
from tests.helpers.counting import (
    EXTREME_IDS,
    Ids,
    Pieces,
    count_by_definition,
    in_one_piece,
    make_ragged,
    piece_batches,
    random_batch,
)
from tests.reference import statistics

LIMITS: Mapping[str, Mapping[str, int]] = {
    "as they are": {},
    "chunks of few places": {"_MAX_PLACES": 40},
    "every sentence a chunk": {"_MAX_PLACES": 0},
    "several passes": {"_KEY_BITS": 40},
    "many passes": {"_KEY_BITS": 24},
    "labels by sorting": {"_MAX_COMPARISONS": 0},
    "all of them": {"_MAX_PLACES": 40, "_KEY_BITS": 24, "_MAX_COMPARISONS": 0},
}
"""The limits of the kernel, so low that a small batch reaches them."""

EXTREME = st.sampled_from(EXTREME_IDS)
UNKNOWN = 8
"""The id that matches nothing in some tests."""


def make_padded(
    rng: random.Random, sentences: list[list[Pieces]], *, break_ngrams: bool = False, unknown: bool = False
) -> Padded:
    """Put sentences into a tensor, with random ids in random places between, before, and after their pieces."""
    segments = max(map(len, sentences), default=2)
    rows: list[list[list[int | None]]] = []
    for group in sentences:
        rows.append([])
        for pieces in group:
            row: list[int | None] = []
            for piece in pieces:
                row += [None] * rng.randint(1 if break_ngrams and row else 0, 2)
                row += piece
            rows[-1].append(row + [None] * rng.randint(0, 2))
        rows[-1] += [[] for _ in range(segments - len(group))]
    width = max((len(row) for group in rows for row in group), default=0)
    fillers = [*EXTREME_IDS, *range(4)]
    padded = [[row + [None] * (width - len(row)) for row in group] for group in rows]
    is_token = [[[id_ is not None for id_ in row] for row in group] for group in padded]
    ids = [[[rng.choice(fillers) if id_ is None else id_ for id_ in row] for row in group] for group in padded]
    shape = (len(sentences), segments, width)
    tokens = torch.tensor(is_token, dtype=torch.bool).reshape(shape)
    tensor = torch.tensor(ids, dtype=torch.int64).reshape(shape)
    can_match = tensor != UNKNOWN if unknown else None
    return Padded(tensor, tokens, tokens.cumsum(-1), can_match=can_match, break_ngrams=break_ngrams)


def count(batch: Padded, max_order: int, limits: Mapping[str, int] = {}) -> list[list[int]]:
    """The matches and then the possible matches of each sentence."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(ngrams_accelerator, name, value)
        rows: list[list[int]] = torch.cat(count_ngrams(batch, max_order), -1).tolist()
    return rows


def expected_counts(
    sentences: list[list[Pieces]], max_order: int, *, break_ngrams: bool = False, unknown: bool = False
) -> list[list[int]]:
    rows = []
    for group in sentences:
        if not break_ngrams:
            group = [[[id_ for piece in pieces for id_ in piece]] for pieces in group]
        if unknown:  # in references they become an id that no hypothesis has
            group = [
                group[0],
                *([[-5 if id_ == UNKNOWN else id_ for id_ in p] for p in pieces] for pieces in group[1:]),
            ]
        matches, possible_matches = count_by_definition(group, max_order)
        rows.append(matches + possible_matches)
    return rows


@given(piece_batches, st.integers(1, 6), st.sampled_from(sorted(LIMITS)), st.booleans(), st.booleans(), st.randoms())
def test_counts_are_those_of_the_definition(
    sentences: list[list[Pieces]],
    max_order: int,
    limits: str,
    break_ngrams: bool,
    unknown: bool,
    rng: random.Random,
) -> None:
    batch = make_padded(rng, sentences, break_ngrams=break_ngrams, unknown=unknown)
    expected = expected_counts(sentences, max_order, break_ngrams=break_ngrams, unknown=unknown)
    assert count(batch, max_order, LIMITS[limits]) == expected


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_random_batches_have_the_counts_of_the_definition(limits: Mapping[str, int], rng: random.Random) -> None:
    for _ in range(40):
        sentences, max_order = random_batch(rng), rng.choice([1, 2, 4, 4, 6, 9, 15])
        break_ngrams = rng.random() < 0.5
        batch = make_padded(rng, sentences, break_ngrams=break_ngrams)
        assert count(batch, max_order, limits) == expected_counts(sentences, max_order, break_ngrams=break_ngrams)


@pytest.mark.parametrize("limit", [0, ngrams_accelerator._MAX_COMPARISONS])
@given(st.integers(1, 9).flatmap(lambda width: st.lists(st.lists(EXTREME, min_size=width, max_size=width), min_size=1)))
def test_labels_are_equal_if_and_only_if_the_values_of_a_row_are(limit: int, rows: list[Ids]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams_accelerator, "_MAX_COMPARISONS", limit)
        labels = ngrams_accelerator._label_values(torch.tensor(rows)).tolist()
    for values, row in zip(rows, labels):
        assert all(0 <= label < len(values) for label in row)
        pairs = set(zip(values, row))
        assert len(pairs) == len(set(values)) == len(set(row))


@given(piece_batches, st.integers(1, 6), st.randoms())
def test_tokens_move_to_the_places_that_the_running_counts_say(
    sentences: list[list[Pieces]], max_order: int, rng: random.Random
) -> None:
    batch = make_padded(rng, sentences)
    shifted = batch._replace(is_token=torch.ones_like(batch.is_token), running_counts=torch.ones_like(batch.ids))
    assert all(row[0] <= 1 for row in count(shifted, max_order))


@given(st.lists(st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=2, max_size=2), min_size=1, max_size=4))
def test_repeated_tokens_are_clipped(sentences: list[list[Ids]]) -> None:
    expected = [statistics(hypothesis, references, 4)[:8] for hypothesis, *references in sentences]
    batch = make_padded(random.Random(0), in_one_piece(sentences))
    assert count(batch, 4) == expected


@pytest.mark.parametrize("references", [1, 2, 7, 8, 30])
def test_matches_are_clipped_at_the_largest_count_in_any_one_reference(references: int) -> None:
    generator = np.random.default_rng(references)
    sentences = [
        [generator.integers(0, 6, generator.integers(0, 15)).tolist() for _ in range(1 + references)] for _ in range(20)
    ]
    expected = [statistics(hypothesis, group, 4)[:8] for hypothesis, *group in sentences]
    assert count(make_padded(random.Random(0), in_one_piece(sentences)), 4) == expected


@pytest.mark.parametrize("max_order", [1, 2, 5, 9, 20, 40])
def test_any_order_can_be_counted(max_order: int) -> None:
    generator = np.random.default_rng(max_order)
    base = generator.integers(0, 5, (10, 40))
    sentences = [[row.tolist(), np.delete(row, generator.integers(40)).tolist()] for row in base]
    expected = [statistics(hypothesis, group, max_order)[: 2 * max_order] for hypothesis, *group in sentences]
    assert count(make_padded(random.Random(0), in_one_piece(sentences)), max_order) == expected


@pytest.mark.parametrize("spread", [1, 2**45])
def test_a_sentence_may_have_tens_of_thousands_of_tokens(spread: int) -> None:
    generator = np.random.default_rng(0)
    base = generator.integers(0, 300, 30_000) * spread
    changed = base.copy()
    changed[generator.integers(0, len(base), 5_000)] = 3 * spread
    sentences = [[[base.tolist()], [changed.tolist()], [base[::-1].tolist()]]]
    matches = count_matches(make_ragged(sentences), 4).tolist()
    possible_matches = [30_000 - n for n in range(4)]
    assert count(make_padded(random.Random(0), sentences), 4) == [matches[0] + possible_matches]


@pytest.mark.parametrize("shape", [(0, 2, 3), (4, 2, 0), (0, 2, 0)])
def test_a_tensor_without_places_has_no_matches(shape: tuple[int, int, int]) -> None:
    empty = Padded(torch.zeros(shape).long(), torch.zeros(shape).bool(), torch.zeros(shape).long())
    for batch in (empty, empty._replace(break_ngrams=True)):
        assert count(batch, 4) == [[0] * 8] * shape[0]


def test_no_ngram_spans_a_gap_if_gaps_break_ngrams() -> None:
    # "a b _ c d" against "a b c d": the bigrams "a b" and "c d", nothing longer
    ids = torch.tensor([[[1, 2, 9, 3, 4], [1, 2, 3, 4, 9]]])
    batch = Padded(ids, ids < 9, (ids < 9).cumsum(-1), break_ngrams=True)
    assert count(batch, 3) == [[4, 2, 0, 4, 2, 0]]
    assert count(batch._replace(break_ngrams=False), 3) == [[4, 3, 2, 4, 3, 2]]


def test_tokens_that_cannot_match_are_possible_matches_all_the_same() -> None:
    # "a unk b" against "a unk b": "a" and "b" match
    ids = torch.tensor([[[5, UNKNOWN, 6], [5, UNKNOWN, 6]]])
    batch = Padded(ids, ids > 0, (ids > 0).cumsum(-1), can_match=ids != UNKNOWN)
    assert count(batch, 3) == [[2, 0, 0, 3, 2, 1]]


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("break_ngrams", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("references", [1, 3])
def test_no_operation_depends_on_the_data(
    limits: Mapping[str, int], break_ngrams: bool, unknown: bool, references: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    for name, value in limits.items():
        monkeypatch.setattr(ngrams_accelerator, name, value)
    ids = torch.zeros(6, 1 + references, 9, dtype=torch.int64, device="meta")
    tokens = torch.zeros_like(ids, dtype=torch.bool)
    can_match = torch.zeros_like(tokens) if unknown else None
    batch = Padded(ids, tokens, tokens.cumsum(-1), can_match=can_match, break_ngrams=break_ngrams)
    matches, possible_matches = count_ngrams(batch, 5)
    assert matches.shape == possible_matches.shape == (6, 5)
    assert matches.device.type == possible_matches.device.type == "meta"


class RecordSizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the number of elements of every tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        self.sizes += [value.numel() for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        return result


@pytest.mark.parametrize("break_ngrams", [False, True])
def test_the_tensors_for_references_grow_linearly(break_ngrams: bool) -> None:
    """The same operations, on tensors whose size is proportional to the references."""
    sizes = []
    for references in (1_000, 8_000):
        ids = torch.zeros(1, 1 + references, 5, dtype=torch.int64, device="meta")
        tokens = torch.zeros_like(ids, dtype=torch.bool)
        with RecordSizes() as record:
            count_ngrams(Padded(ids, tokens, tokens.cumsum(-1), break_ngrams=break_ngrams), 2)
        sizes.append(record.sizes)
    few, many = sizes
    assert len(few) == len(many) > 10
    assert max(many) <= 8 * max(few)


class EstimateKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Estimates how many kernels a GPU would launch, from PyTorch's source: most operations launch one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        if not (func.is_view or "empty" in name):
            self.count += {"sort": 4, "scatter": 2}.get(name, 1)
            self.count += name in {"sum", "cumsum"} and args[0].dtype == torch.bool  # converted to integers first
        return func(*args, **kwargs or {})


@pytest.mark.parametrize(("references", "expected"), [(1, 22), (4, 23)])
def test_counting_takes_few_kernels(references: int, expected: int) -> None:
    ids = torch.zeros(64, 1 + references, 64, dtype=torch.int64, device="meta")
    tokens = ids > 0
    batch = Padded(ids, tokens, tokens.cumsum(-1))
    with EstimateKernels() as kernels:
        count_ngrams(batch, 4)
    assert kernels.count == expected


def random_sentences(seed: int) -> list[list[Pieces]]:
    """64 sentences with three references each."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 60, (64, 4)).tolist()
    return [[[generator.integers(0, 50, length).tolist()] for length in group] for group in lengths]


def to_cuda(batch: Padded) -> Padded:
    ids, is_token, running_counts = (value.cuda() for value in batch[:3])
    return Padded(ids, is_token, running_counts, break_ngrams=batch.break_ngrams)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("break_ngrams", [False, True])
def test_cuda_counts_what_the_cpu_counts_and_never_waits(
    limits: Mapping[str, int], break_ngrams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(ngrams_accelerator, name, value)
    batch = make_padded(random.Random(0), random_sentences(0), break_ngrams=break_ngrams)
    on_device = to_cuda(batch)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        counted = count_ngrams(on_device, 4)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for part, expected in zip(counted, count_ngrams(batch, 4)):
        assert torch.equal(part.cpu(), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1_024, 2_048])
def test_cuda_counts_long_rows(tokens: int) -> None:
    """Rows of more than 4,096 values are sorted by another algorithm of PyTorch."""
    ids = torch.randint(0, 500, (8, 5, tokens), generator=torch.Generator().manual_seed(0))
    batch = Padded(ids, ids > 20, (ids > 20).cumsum(-1))
    for part, expected in zip(count_ngrams(to_cuda(batch), 4), count_ngrams(batch, 4)):
        assert torch.equal(part.cpu(), expected)


@pytest.mark.gpu
def test_counting_can_be_captured_in_a_cuda_graph() -> None:
    batches = [make_padded(random.Random(seed), random_sentences(seed)) for seed in range(3)]
    width = max(batch.ids.shape[-1] for batch in batches)
    wide = [torch.nn.functional.pad(value, (0, width - value.shape[-1])) for batch in batches for value in batch[:2]]
    inputs = list(zip(wide[::2], wide[1::2]))
    ids, is_token = (value.cuda() for value in inputs[0])
    count_ngrams(Padded(ids, is_token, is_token.cumsum(-1)), 4)  # loads the kernels
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counted = count_ngrams(Padded(ids, is_token, is_token.cumsum(-1)), 4)
    for new_ids, new_is_token in inputs:
        ids.copy_(new_ids)
        is_token.copy_(new_is_token)
        graph.replay()
        expected = count_ngrams(Padded(new_ids, new_is_token, new_is_token.cumsum(-1)), 4)
        assert all(torch.equal(part.cpu(), other) for part, other in zip(counted, expected))
