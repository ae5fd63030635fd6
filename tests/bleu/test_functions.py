from __future__ import annotations

import random
from typing import Any

import pytest

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEUOptions
from lightning_bleu.settings.smoothing import SMOOTHINGS
from tests.helpers.corpora import random_corpus


@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_a_sentence_scores_in_a_batch_what_it_scores_alone(smoothing: str, effective_order: bool) -> None:
    """To the last bit."""
    preds = [[1, 2, 3, 4, 5, 6], [1, 2, 9, 9], [7], []]
    target = [[[1, 2, 3, 4, 6], [2, 3]], [[1, 2, 3, 9]], [[7]], [[1]]]
    options: BLEUOptions = {"smoothing": smoothing, "effective_order": effective_order}
    scores = sentence_bleu(preds, target, **options)
    assert scores.shape == (4,)
    for score, hypothesis, references in zip(scores, preds, target):
        assert score == sentence_bleu([hypothesis], [references], **options)[0]
        if not SMOOTHINGS[smoothing].sentences_only:
            assert score == corpus_bleu([hypothesis], [references], **options).bleu


def test_sentences_can_be_scored_in_percent() -> None:
    assert sentence_bleu(["a b c d"], ["a b c d"], percent=True).tolist() == [pytest.approx(100)]


def test_no_sentences_have_no_scores() -> None:
    assert sentence_bleu([], []).shape == (0,)
    assert corpus_bleu([], []).bleu == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"convention": "papineni"},
        {"convention": "nltk"},
        {"smoothing": "floor", "smoothing_value": 0.3, "percent": True},
        {"max_order": 2},
    ],
    ids=str,
)
def test_the_function_and_the_metric_report_the_same(options: Any, rng: random.Random) -> None:
    preds, target = random_corpus(rng, 30)
    metric = CorpusBLEU(**options)
    metric.update(preds, target)
    assert corpus_bleu(preds, target, **options) == metric.report()


def test_generators_are_read_once(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 10)
    expected = corpus_bleu(preds, target, smoothing="exp").bleu
    assert corpus_bleu(iter(preds), (iter(group) for group in target), smoothing="exp").bleu == expected
