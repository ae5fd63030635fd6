"""Live comparison with the programs whose conventions the package offers. The comparisons: tests/fuzz/scores.py."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import torch
from ignite.metrics.nlp import Bleu as IgniteBleu
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torchmetrics.functional.text import sacre_bleu_score as torchmetrics_sacre_bleu
from torchmetrics.text import BLEUScore

from lightning_bleu import corpus_bleu, sentence_bleu
from tests.fuzz.scores import PEERS, ScoreCase
from tests.helpers.corpora import join_words, random_corpus

SIZES = [1] * 8 + [5] * 4 + [40] * 2
CORPORA = [random_corpus(random.Random(seed), size) for seed, size in enumerate(SIZES)]


@pytest.mark.filterwarnings(r"ignore:\s*The hypothesis contains 0 counts of")  # NLTK advises to smooth
@pytest.mark.parametrize("name", PEERS)
def test_corpora_and_sentences_score_as_in_the_other_program(name: str) -> None:
    for corpus in CORPORA:
        PEERS[name](ScoreCase(*corpus, {}, PEERS[name]))


def test_the_effective_order_of_sentences_is_a_default_of_the_convention_of_sacrebleu_only() -> None:
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # which advises to set effective_order
    for hypotheses, references in (join_words(*corpus) for corpus in CORPORA):
        expected = [SacreBLEU().sentence_score(*pair).score for pair in zip(hypotheses, references)]
        options: list[Any] = [{"effective_order": False}, {"convention": "papineni", "smoothing": "exp"}]
        for one in options:
            ours = sentence_bleu(hypotheses, references, percent=True, **one)
            assert ours.tolist() == pytest.approx(expected, abs=1e-9)


def test_ignite_averages_sentence_scores_by_default() -> None:
    for corpus in CORPORA:
        pairs = [pair for pair in zip(*corpus) if len(pair[0]) >= 4]  # else Ignite counts one possible match
        if pairs:
            hypotheses, references = zip(*pairs)
            peer: Any = IgniteBleu(smooth="smooth1")
            peer.update((hypotheses, references))
            ours = sentence_bleu(hypotheses, references, convention="papineni", smoothing="floor")
            assert ours.mean().item() == pytest.approx(float(peer.compute()), abs=1e-6)


def test_what_other_programs_do_that_no_convention_copies() -> None:
    """The differences that the documentation lists."""
    hypotheses, references = ["a b c d e", "x y"], ["a b c d e"]
    cut = BLEUScore()
    cut.update(hypotheses, [references])
    assert cut.numerator.dtype == torch.float32
    assert cut.compute() == 1
    assert SacreBLEU().corpus_score(hypotheses, [references]).score > 99.9
    characters = BLEUScore()
    characters.update(references, references)
    assert characters.compute() == 0
    assert SacreBLEU().corpus_score(references, references).ref_len == 1
    line, target = "He said &QUOT;no&QUOT; to me", 'he said "no" to me'
    assert torchmetrics_sacre_bleu([line], [[target]], lowercase=True) == 0
    assert corpus_bleu([line], [target], lowercase=True).bleu == 1
    line, target = "the cat is here", "the cat was here"
    theirs = SacreBLEU(smooth_method="add-k").corpus_score([line], [[target]])
    ours = corpus_bleu([line], [target], smoothing="add-k", percent=True)
    assert ours.bleu == pytest.approx(theirs.score, abs=1e-9)
    assert (theirs.counts, ours.matches) == ([3, 2, 1, 1], (3, 1, 0, 0))
