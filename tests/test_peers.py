"""Live comparison with the programs whose conventions the package offers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from ignite.metrics.nlp import Bleu as IgniteBleu
from nltk.translate import bleu_score as nltk_bleu  # type: ignore[import-untyped]
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torchmetrics.functional.text import bleu_score as torchmetrics_bleu
from torchmetrics.functional.text import sacre_bleu_score as torchmetrics_sacre_bleu

from lightning_bleu import corpus_bleu, sentence_bleu
from tests.helpers.corpora import Hypotheses, References, random_corpus
from tests.reference import bleu, corpus_statistics

Corpus: TypeAlias = tuple[Hypotheses, References]

CORPORA = [(seed, size) for size in (1, 5, 40) for seed in range(12)]


@pytest.fixture(params=CORPORA, ids=str)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    """Sentences of tokens, with one to three references each."""
    seed, size = request.param
    return random_corpus(random.Random(seed), size)


def join_tokens(corpus: Corpus) -> tuple[list[str], list[list[str]]]:
    """The lines whose tokens a corpus holds."""
    hypotheses, references = corpus
    return [" ".join(tokens) for tokens in hypotheses], [[" ".join(tokens) for tokens in group] for group in references]


def nltk_smoothing(method: int) -> Callable[..., Any]:
    smoothing: Callable[..., Any] = getattr(nltk_bleu.SmoothingFunction(), f"method{method}")
    return smoothing


def test_papineni_is_the_definition_of_bleu(corpus: Corpus) -> None:
    ours = corpus_bleu(*corpus)
    expected = corpus_statistics(*corpus)
    assert [*ours.matches, *ours.possible_matches, ours.hypothesis_length, ours.reference_length] == expected
    assert ours.bleu == pytest.approx(bleu(expected), abs=1e-12)


@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp"])
@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize("max_order", [2, 4])
def test_the_scores_counts_and_lines_are_those_of_sacrebleu(
    corpus: Corpus, smoothing: str, effective_order: bool, max_order: int
) -> None:
    hypotheses, references = join_tokens(corpus)
    # sacreBLEU takes a list for each set of references, with None for a sentence that has fewer.
    count = max(map(len, references))
    streams: Any = [[group[i] if i < len(group) else None for group in references] for i in range(count)]
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
    if smoothing != "add-k":  # for which sacreBLEU adds to the counts that it reports
        assert (list(ours.matches), list(ours.possible_matches)) == (theirs.counts, theirs.totals)
    if any(ours.matches) and smoothing != "add-k":
        assert str(ours) == theirs.format(signature="").replace("BLEU| =", "BLEU =")
    assert [part for part in ours.signature.split("|") if part[:3] in {"nre", "eff", "smo", "tok"}] == [
        part for part in str(peer.get_signature()).split("|") if part[:3] in {"nre", "eff", "smo", "tok"}
    ]


@pytest.mark.parametrize("method", range(5))
def test_corpora_score_as_in_nltk(corpus: Corpus, method: int) -> None:
    hypotheses, references = corpus
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NLTK advises to smooth
        theirs = nltk_bleu.corpus_bleu(references, hypotheses, smoothing_function=nltk_smoothing(method))
    ours = corpus_bleu(hypotheses, references, convention="nltk", smoothing=f"method{method}")
    assert ours.bleu == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("method", range(8))
def test_sentences_score_as_in_nltk(corpus: Corpus, method: int) -> None:
    hypotheses, references = corpus
    ours = sentence_bleu(hypotheses, references, convention="nltk", smoothing=f"method{method}")
    for hypothesis, group, score in zip(hypotheses, references, ours.tolist()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = nltk_bleu.sentence_bleu(group, hypothesis, smoothing_function=nltk_smoothing(method))
        except AssertionError:
            continue  # method 6 of NLTK fails if no trigram matches
        assert score == pytest.approx(float(theirs), abs=1e-12)


def test_weights_count_as_in_nltk(corpus: Corpus) -> None:
    weights = (0.5, 0.3, 0.2)
    theirs = nltk_bleu.corpus_bleu(corpus[1], corpus[0], weights=weights, smoothing_function=nltk_smoothing(1))
    ours = corpus_bleu(*corpus, max_order=3, weights=weights, convention="nltk", smoothing="method1")
    assert ours.bleu == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("smooth", [False, True])
def test_corpora_score_as_in_torchmetrics(corpus: Corpus, smooth: bool) -> None:
    hypotheses, references = join_tokens(corpus)
    theirs = torchmetrics_bleu(hypotheses, references, smooth=smooth)
    ours = corpus_bleu(hypotheses, references, convention="torchmetrics", smoothing="add-k" if smooth else "none")
    assert ours.bleu == pytest.approx(float(theirs), rel=1e-5)  # torchmetrics counts and divides in 32 bits


def test_corpora_score_as_in_the_sacrebleu_of_torchmetrics(corpus: Corpus) -> None:
    hypotheses, references = join_tokens(corpus)
    count = min(map(len, references))
    references = [group[:count] for group in references]  # it takes the same number for all
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
def test_corpora_score_as_in_ignite(corpus: Corpus, smooth: str, options: dict[str, Any]) -> None:
    peer: Any = IgniteBleu(smooth=smooth, average="micro")
    peer.update(corpus)
    ours = corpus_bleu(*corpus, **options)
    if options and not all(ours.possible_matches):
        pytest.skip("Ignite counts one possible match for an order without any")
    assert ours.bleu == pytest.approx(float(peer.compute()), abs=1e-12)
