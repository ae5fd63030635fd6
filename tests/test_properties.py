"""Laws that hold for any corpus."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_bleu import CONVENTIONS, CorpusBLEU
from tests.fuzz.choices import sentences

Sentence: TypeAlias = list[int]
Corpus: TypeAlias = list[tuple[Sentence, list[Sentence]]]
"""Pairs of a hypothesis and its references."""


def use_seven_words(corpus: list[list[Sentence]]) -> Corpus:
    """A corpus of seven words, so that many n-grams match."""
    return [([i % 7 for i in h], [[i % 7 for i in r] for r in group]) for h, *group in corpus]


corpora = sentences.map(use_seven_words)
conventions = st.sampled_from(list(CONVENTIONS))


def make_metric(*batches: Corpus, **options: Any) -> CorpusBLEU:
    """A metric that has counted some batches."""
    metric = CorpusBLEU(**options)
    for batch in batches:
        metric.update([hypothesis for hypothesis, _ in batch], [references for _, references in batch])
    return metric


def are_equal(one: CorpusBLEU, *others: CorpusBLEU) -> bool:
    """Whether metrics have the same statistics and the same score, to the last bit."""
    return all(
        torch.equal(one.statistics, other.statistics) and one.report().bleu == other.report().bleu for other in others
    )


@given(corpora, conventions, st.integers(0, 8), st.randoms())
@settings(max_examples=50)
def test_batches_and_the_order_of_sentences_and_references_do_not_change_the_score(
    corpus: Corpus, convention: str, cut: int, rng: random.Random
) -> None:
    # The reference length of torchmetrics is that of the first of two that are equally close.
    shuffled = [(h, rng.sample(group, len(group)) if convention != "torchmetrics" else group) for h, group in corpus]
    rng.shuffle(shuffled)
    batches = [[corpus], [corpus[:cut], corpus[cut:]], [[pair] for pair in corpus], [shuffled]]
    assert are_equal(*(make_metric(*one, convention=convention) for one in batches))


@given(corpora, corpora, corpora)
@settings(max_examples=30)
def test_merging_is_addition(one: Corpus, two: Corpus, three: Corpus) -> None:
    left, right = make_metric(one), make_metric(two)
    for metric, others in ((left, (two, three, [])), (right, (three, [], one))):
        for other in others:
            metric.merge_state(make_metric(other))
    assert are_equal(left, right, make_metric(one + two + three))


@given(corpora, st.lists(st.integers(-(2**63), 2**63 - 1).filter(lambda i: i != -100), min_size=7, unique=True))
@settings(max_examples=50)
def test_the_numbers_and_names_of_tokens_do_not_change_the_score(corpus: Corpus, numbers: list[int]) -> None:
    renumbered = [([numbers[i] for i in h], [[numbers[i] for i in r] for r in references]) for h, references in corpus]
    as_words: Any = [([f"w{i}" for i in h], [[f"w{i}" for i in r] for r in references]) for h, references in corpus]
    assert are_equal(make_metric(corpus), make_metric(renumbered), make_metric(as_words))


@given(corpora.filter(lambda corpus: any(len(h) >= 4 for h, _ in corpus)), conventions)
def test_scores_are_between_0_and_1_and_1_if_each_hypothesis_is_a_reference(corpus: Corpus, convention: str) -> None:
    result = make_metric(corpus, convention=convention).report()
    assert 0 <= result.bleu <= 1 + 1e-12
    assert all(m <= possible for m, possible in zip(result.matches, result.possible_matches))
    long = [(h, [h, *references]) for h, references in corpus if len(h) >= 4]  # of which every order has a match
    assert make_metric(long, convention=convention).report().bleu == pytest.approx(1, abs=1e-12)
