"""Live comparison with the programs whose conventions the package offers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from ignite.metrics.nlp import Bleu as IgniteBleu
from nltk.translate import bleu_score as nltk_bleu
from sacrebleu.metrics import BLEU as SacreBLEU
from torchmetrics.functional.text import bleu_score as torchmetrics_bleu
from torchmetrics.functional.text import sacre_bleu_score as torchmetrics_sacre_bleu

from lightning_bleu import corpus_bleu, sentence_bleu
from tests.conftest import random_corpus
from tests.reference import bleu, corpus_statistics

CORPORA = [(seed, size) for size in (1, 5, 40) for seed in range(12)]


@pytest.fixture(params=CORPORA, ids=str)
def corpus(request: pytest.FixtureRequest) -> tuple[list[list[str]], list[list[list[str]]]]:
    seed, size = request.param
    return random_corpus(random.Random(seed), size)


def joined(sentences: list[Any]) -> list[Any]:
    return [joined(s) if s and isinstance(s[0], list) else " ".join(s) for s in sentences]


def test_papineni_is_the_definition(corpus: Any) -> None:
    ours = corpus_bleu(*corpus)
    expected = corpus_statistics(*corpus)
    assert [*ours.matches, *ours.possible_matches, ours.hypothesis_length, ours.reference_length] == expected
    assert ours.bleu == pytest.approx(bleu(expected), abs=1e-12)


@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp"])
@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize("max_order", [2, 4])
def test_sacrebleu(corpus: Any, smoothing: str, effective_order: bool, max_order: int) -> None:
    hypotheses, references = joined(corpus[0]), joined(corpus[1])
    # sacreBLEU takes a list for each set of references, with None where a sentence has no more
    count = max(map(len, references))
    streams = [[group[i] if i < len(group) else None for group in references] for i in range(count)]
    peer = SacreBLEU(
        smooth_method=smoothing, effective_order=effective_order, max_ngram_order=max_order, tokenize="none"
    )
    theirs = peer.corpus_score(hypotheses, streams)
    options: dict[str, Any] = {"tokenizer": "none", "convention": "sacrebleu", "percent": True}
    ours = corpus_bleu(
        hypotheses, references, smoothing=smoothing, effective_order=effective_order, max_order=max_order, **options
    )
    assert ours.bleu == pytest.approx(theirs.score, abs=1e-9)
    assert ours.brevity_penalty == pytest.approx(theirs.bp, abs=1e-12)
    assert (ours.hypothesis_length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
    if any(ours.matches):
        assert ours.precisions == pytest.approx(theirs.precisions, abs=1e-9)
    if smoothing != "add-k":  # there sacreBLEU adds to the counts that it reports
        assert (list(ours.matches), list(ours.possible_matches)) == (theirs.counts, theirs.totals)
    if any(ours.matches) and smoothing != "add-k":
        assert str(ours) == theirs.format(signature="").replace("BLEU| =", "BLEU =")
    assert [part for part in ours.signature.split("|") if part[:3] in {"nre", "eff", "smo", "tok"}] == [
        part for part in str(peer.get_signature()).split("|") if part[:3] in {"nre", "eff", "smo", "tok"}
    ]


@pytest.mark.parametrize("method", range(5))
def test_nltk_corpus(corpus: Any, method: int) -> None:
    hypotheses, references = corpus
    smoother: Callable[..., Any] = getattr(nltk_bleu.SmoothingFunction(), f"method{method}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its advice to smooth
        theirs = nltk_bleu.corpus_bleu(references, hypotheses, smoothing_function=smoother)
    ours = corpus_bleu(hypotheses, references, convention="nltk", smoothing=f"method{method}")
    assert ours.bleu == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("method", range(8))
def test_nltk_sentences(corpus: Any, method: int) -> None:
    hypotheses, references = corpus
    smoother: Callable[..., Any] = getattr(nltk_bleu.SmoothingFunction(), f"method{method}")
    ours = sentence_bleu(hypotheses, references, convention="nltk", smoothing=f"method{method}")
    for hypothesis, group, score in zip(hypotheses, references, ours.tolist()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = nltk_bleu.sentence_bleu(group, hypothesis, smoothing_function=smoother)
        except AssertionError:
            continue  # method 6 gives up where no trigram matches
        assert score == pytest.approx(float(theirs), abs=1e-12)


def test_nltk_weights(corpus: Any) -> None:
    weights = (0.5, 0.3, 0.2)
    theirs = nltk_bleu.corpus_bleu(
        corpus[1], corpus[0], weights=weights, smoothing_function=nltk_bleu.SmoothingFunction().method1
    )
    ours = corpus_bleu(*corpus, max_order=3, weights=weights, convention="nltk", smoothing="method1")
    assert ours.bleu == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("smooth", [False, True])
def test_torchmetrics(corpus: Any, smooth: bool) -> None:
    hypotheses, references = joined(corpus[0]), joined(corpus[1])
    theirs = torchmetrics_bleu(hypotheses, references, smooth=smooth)
    ours = corpus_bleu(hypotheses, references, convention="torchmetrics", smoothing="add-k" if smooth else "none")
    assert ours.bleu == pytest.approx(float(theirs), rel=1e-5)  # it counts and divides in 32 bits


def test_torchmetrics_sacre(corpus: Any) -> None:
    hypotheses, references = joined(corpus[0]), joined(corpus[1])
    count = min(map(len, references))
    references = [group[:count] for group in references]  # it takes no ragged references
    theirs = torchmetrics_sacre_bleu(hypotheses, references)
    ours = corpus_bleu(hypotheses, references, convention="torchmetrics", tokenizer="13a")
    assert ours.bleu == pytest.approx(float(theirs), rel=1e-5)


@pytest.mark.parametrize(
    ("smooth", "options"),
    [
        ("no_smooth", {}),
        ("smooth1", {"smoothing": "floor"}),
        ("nltk_smooth2", {"smoothing": "add-k"}),
    ],
)
def test_ignite(corpus: Any, smooth: str, options: dict[str, str]) -> None:
    peer = IgniteBleu(smooth=smooth, average="micro")
    peer.update(corpus)
    ours = corpus_bleu(*corpus, **options)
    if options and not all(ours.possible_matches):
        pytest.skip("it counts one possible match where there is none")
    assert ours.bleu == pytest.approx(float(peer.compute()), abs=1e-12)
