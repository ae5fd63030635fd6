"""Laws that hold for any corpus."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CONVENTIONS, CorpusBLEU, corpus_bleu
from tests.reference import bleu, corpus_statistics

Sentence: TypeAlias = list[int]
Corpus: TypeAlias = list[tuple[Sentence, list[Sentence]]]
"""Pairs of a hypothesis and its references."""

sentences = st.lists(st.integers(0, 6), max_size=10)
pairs = st.tuples(sentences, st.lists(sentences, min_size=1, max_size=4))
corpora = st.lists(pairs, max_size=8)
conventions = st.sampled_from(list(CONVENTIONS))


def columns(corpus: Corpus) -> tuple[Any, Any]:
    """All hypotheses, and the references of each."""
    return [hypothesis for hypothesis, _ in corpus], [references for _, references in corpus]


def make_metric(*batches: Any, **options: Any) -> CorpusBLEU:
    """A metric that has counted some batches."""
    metric = CorpusBLEU(**options)
    for batch in batches:
        metric.update(*columns(batch))
    return metric


def are_equal(one: CorpusBLEU, other: CorpusBLEU) -> bool:
    """Whether two metrics have the same statistics and the same score, to the last bit."""
    return torch.equal(one.statistics, other.statistics) and one.report().bleu == other.report().bleu


@given(corpora)
def test_the_score_is_that_of_the_definition(corpus: Corpus) -> None:
    metric = make_metric(corpus, convention="papineni")
    expected = corpus_statistics(*columns(corpus)) or [0] * 10
    assert metric.statistics.tolist() == expected
    assert metric.report().bleu == pytest.approx(bleu(expected), abs=1e-12)


@given(corpora, conventions, st.integers(0, 8))
def test_batches_do_not_change_the_score(corpus: Corpus, convention: str, cut: int) -> None:
    whole = make_metric(corpus, convention=convention)
    assert are_equal(whole, make_metric(corpus[:cut], corpus[cut:], convention=convention))
    assert are_equal(whole, make_metric(*([sentence] for sentence in corpus), convention=convention))


@given(corpora, conventions, st.randoms())
def test_the_order_of_sentences_does_not_change_the_score(corpus: Corpus, convention: str, rng: random.Random) -> None:
    shuffled = rng.sample(corpus, len(corpus))
    assert are_equal(make_metric(corpus, convention=convention), make_metric(shuffled, convention=convention))


@given(corpora, conventions.filter(lambda name: name != "torchmetrics"), st.randoms())
def test_the_order_of_references_does_not_change_the_score(corpus: Corpus, convention: str, rng: random.Random) -> None:
    shuffled = [(h, rng.sample(references, len(references))) for h, references in corpus]
    assert are_equal(make_metric(corpus, convention=convention), make_metric(shuffled, convention=convention))


@given(corpora, corpora, corpora)
def test_merging_is_addition(one: Corpus, two: Corpus, three: Corpus) -> None:
    left = make_metric(one)
    left.merge_state(make_metric(two))
    left.merge_state(make_metric(three))
    right = make_metric(two)
    right.merge_state(make_metric(three))
    right.merge_state(make_metric(one))
    assert are_equal(left, make_metric(one + two + three))
    assert are_equal(left, right)
    left.merge_state(CorpusBLEU())  # the neutral element
    assert are_equal(left, right)


@given(
    corpora,
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]),
)
def test_padding_and_the_type_of_integers_do_not_change_the_score(
    corpus: Corpus, preds_padding: int, target_padding: int, dtype: torch.dtype
) -> None:
    # In a tensor, a reference without a token is filler, so only a sentence without another one may have it.
    corpus = [(h, [r for r in references if r] or [[]]) for h, references in corpus]
    width = max((len(sentence) for h, references in corpus for sentence in (h, *references)), default=0)
    most = max((len(references) for _, references in corpus), default=1)
    pad_id = 9

    def pad(sentence: Sentence, more: int) -> Sentence:
        return sentence + [pad_id] * (width + more - len(sentence))

    preds = [pad(h, preds_padding) for h, _ in corpus]
    target = [
        [pad(r, target_padding) for r in references + [[]] * (most - len(references))] for _, references in corpus
    ]
    metric = CorpusBLEU(pad_id=pad_id)
    metric.update(
        torch.tensor(preds, dtype=dtype).reshape(len(corpus), width + preds_padding),
        torch.tensor(target, dtype=dtype).reshape(len(corpus), most, width + target_padding),
    )
    assert are_equal(metric, make_metric(corpus))


@given(
    corpora, st.lists(st.integers(-(2**63), 2**63 - 1).filter(lambda i: i != -100), min_size=7, max_size=7, unique=True)
)
def test_the_numbers_and_names_of_tokens_do_not_change_the_score(corpus: Corpus, numbers: list[int]) -> None:
    renumbered = [([numbers[i] for i in h], [[numbers[i] for i in r] for r in references]) for h, references in corpus]
    as_words = [([f"w{i}" for i in h], [[f"w{i}" for i in r] for r in references]) for h, references in corpus]
    assert are_equal(make_metric(corpus), make_metric(renumbered))
    assert are_equal(make_metric(corpus), make_metric(as_words))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 6), min_size=4, max_size=10), st.lists(sentences, max_size=2)), min_size=1
    ),
    conventions,
)
def test_a_hypothesis_equal_to_a_reference_scores_1(corpus: Corpus, convention: str) -> None:
    preds, target = [h for h, _ in corpus], [[h, *references] for h, references in corpus]
    assert corpus_bleu(preds, target, convention=convention).bleu == pytest.approx(1, abs=1e-12)


@given(corpora, conventions)
def test_scores_are_between_0_and_1(corpus: Corpus, convention: str) -> None:
    result = make_metric(corpus, convention=convention).report()
    assert 0 <= result.bleu <= 1 + 1e-12
    assert all(m <= possible for m, possible in zip(result.matches, result.possible_matches))
