"""Laws that hold for any corpus."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CONVENTIONS, CorpusBLEU, corpus_bleu
from tests.reference import bleu, corpus_statistics

sentences = st.lists(st.integers(0, 6), max_size=10)
groups = st.tuples(sentences, st.lists(sentences, min_size=1, max_size=4))
corpora = st.lists(groups, max_size=8)
conventions = st.sampled_from(list(CONVENTIONS))
Corpus = list[tuple[list[int], list[list[int]]]]


def columns(corpus: Corpus) -> tuple[Any, Any]:
    return [h for h, _ in corpus], [rs for _, rs in corpus]


def counted(*parts: Corpus, **options: Any) -> CorpusBLEU:
    metric = CorpusBLEU(**options)
    for part in parts:
        metric.update(*columns(part))
    return metric


def same(one: CorpusBLEU, other: CorpusBLEU) -> bool:
    return torch.equal(one.statistics, other.statistics) and one.report().bleu == other.report().bleu


@given(corpora)
def test_the_score_is_that_of_the_definition(corpus: Corpus) -> None:
    metric = counted(corpus)
    expected = corpus_statistics(*columns(corpus)) or [0] * 10
    assert metric.statistics.tolist() == expected
    assert metric.report().bleu == pytest.approx(bleu(expected), abs=1e-12)


@given(corpora, conventions, st.integers(0, 8))
def test_batches_do_not_matter(corpus: Corpus, convention: str, cut: int) -> None:
    whole = counted(corpus, convention=convention)
    assert same(whole, counted(corpus[:cut], corpus[cut:], convention=convention))
    assert same(whole, counted(*([sentence] for sentence in corpus), convention=convention))


@given(corpora, conventions, st.randoms())
def test_the_order_of_sentences_does_not_matter(corpus: Corpus, convention: str, rng: random.Random) -> None:
    shuffled = rng.sample(corpus, len(corpus))
    assert same(counted(corpus, convention=convention), counted(shuffled, convention=convention))


@given(corpora, conventions.filter(lambda name: name != "torchmetrics"), st.randoms())
def test_the_order_of_references_does_not_matter(corpus: Corpus, convention: str, rng: random.Random) -> None:
    shuffled = [(h, rng.sample(rs, len(rs))) for h, rs in corpus]
    assert same(counted(corpus, convention=convention), counted(shuffled, convention=convention))


@given(corpora, corpora, corpora)
def test_merging_is_addition(one: Corpus, two: Corpus, three: Corpus) -> None:
    left = counted(one)
    left.merge_state(counted(two))
    left.merge_state(counted(three))
    right = counted(two)
    right.merge_state(counted(three))
    right.merge_state(counted(one))
    assert same(left, counted(one + two + three))
    assert same(left, right)
    left.merge_state(CorpusBLEU())
    assert same(left, right)


@given(
    corpora,
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]),
)
def test_padding_and_type_do_not_matter(corpus: Corpus, right: int, more: int, dtype: torch.dtype) -> None:
    pad = 9
    width = max((len(s) for h, rs in corpus for s in (h, *rs)), default=0)
    count = max((len(rs) for _, rs in corpus), default=1)
    corpus = [(h, [r for r in rs if r] or [[]]) for h, rs in corpus]  # in an array, an empty one fills up

    def padded(sentence: list[int], wider: int) -> list[int]:
        return sentence + [pad] * (width + wider - len(sentence))

    preds = torch.tensor([padded(h, right) for h, _ in corpus], dtype=dtype).reshape(len(corpus), width + right)
    target = torch.tensor(
        [[padded(r, more) for r in rs + [[]] * (count - len(rs))] for _, rs in corpus], dtype=dtype
    ).reshape(len(corpus), count, width + more)
    metric = CorpusBLEU(pad_id=pad)
    metric.update(preds, target)
    assert same(metric, counted(corpus))


@given(
    corpora, st.lists(st.integers(-(2**63), 2**63 - 1).filter(lambda i: i != -100), min_size=7, max_size=7, unique=True)
)
def test_the_names_of_ids_do_not_matter(corpus: Corpus, names: list[int]) -> None:
    renamed = [([names[i] for i in h], [[names[i] for i in r] for r in rs]) for h, rs in corpus]
    as_words = [([f"w{i}" for i in h], [[f"w{i}" for i in r] for r in rs]) for h, rs in corpus]
    assert same(counted(corpus), counted(renamed))
    assert same(counted(corpus), counted(as_words))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 6), min_size=4, max_size=10), st.lists(sentences, max_size=2)), min_size=1
    ),
    conventions,
)
def test_a_hypothesis_equal_to_a_reference_scores_1(corpus: Corpus, convention: str) -> None:
    preds, target = [h for h, _ in corpus], [[h, *rs] for h, rs in corpus]
    assert corpus_bleu(preds, target, convention=convention).bleu == pytest.approx(1, abs=1e-12)


@given(corpora, conventions)
def test_scores_are_between_0_and_1(corpus: Corpus, convention: str) -> None:
    result = counted(corpus, convention=convention).report()
    assert 0 <= result.bleu <= 1 + 1e-12
    assert all(m <= p for m, p in zip(result.matches, result.possible_matches))
