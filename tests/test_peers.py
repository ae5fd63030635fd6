"""Live comparison with the programs whose conventions the package offers."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
from ignite.metrics.nlp import Bleu as IgniteBleu
from nltk.translate import bleu_score as nltk_bleu  # type: ignore[import-untyped]
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torchmetrics.functional.text import bleu_score as torchmetrics_bleu
from torchmetrics.functional.text import sacre_bleu_score as torchmetrics_sacre_bleu
from torchmetrics.text import BLEUScore

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from tests.helpers.corpora import Hypotheses, References, random_corpus
from tests.helpers.text import fuzz_line
from tests.reference import bleu, corpus_statistics

Corpus: TypeAlias = tuple[Hypotheses, References]

CORPORA = [(seed, size) for size, seeds in ((1, 8), (5, 4), (40, 2)) for seed in range(seeds)]


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
    ours = corpus_bleu(*corpus, convention="papineni")
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
    assert ours.precisions == pytest.approx(theirs.precisions, abs=1e-9)
    if smoothing != "add-k":  # for which sacreBLEU adds to the counts that it reports
        assert (list(ours.matches), list(ours.possible_matches)) == (theirs.counts, theirs.totals)
        assert str(ours) == format_line(theirs)
    assert [part for part in ours.signature.split("|") if part[:3] in {"nre", "eff", "smo", "tok"}] == [
        part for part in str(peer.get_signature()).split("|") if part[:3] in {"nre", "eff", "smo", "tok"}
    ]


def format_line(theirs: Any) -> str:
    """The line that sacreBLEU prints, without its signature."""
    return str(theirs.format(signature="").replace("BLEU| =", "BLEU ="))


MAT = "the cat sat on the mat"


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([MAT], [MAT]),
        ([MAT], ["the cat sat on a mat"]),
        ([MAT], ["a dog lay under that rug"]),
        ([MAT], ["mat the on sat cat the"]),
        (["the cat"], [MAT]),
        (["cat"], ["cat"]),
        (["the the the the the the the"], [MAT]),
        # nothing matches
        (["hello"], [MAT]),
        (["hello there", "a b c d e f g"], [MAT, MAT]),
        # empty hypotheses, empty references, and both
        ([""], [MAT]),
        (["", ""], [MAT, MAT]),
        (["", MAT], [MAT, MAT]),
        ([MAT], [""]),
        ([""], [""]),
        (["", "", ""], ["", "", ""]),
        (["", MAT], ["", "hello"]),
    ],
)
def test_toy_sentences_score_by_default_as_in_sacrebleu(hypotheses: list[str], references: list[str]) -> None:
    """Also where nothing matches, and where there is nothing at all."""
    theirs = SacreBLEU().corpus_score(hypotheses, [references])
    ours = corpus_bleu(hypotheses, references, percent=True)
    assert ours.bleu == pytest.approx(theirs.score, abs=1e-9)
    assert ours.precisions == pytest.approx(theirs.precisions, abs=1e-9)
    assert ours.brevity_penalty == pytest.approx(theirs.bp, abs=1e-12)
    assert str(ours) == format_line(theirs)
    metric = CorpusBLEU()
    metric.update(hypotheses, references)
    assert str(metric.report()) == format_line(theirs)
    assert metric.compute().item() == pytest.approx(theirs.score / 100, abs=1e-11)

    peer = SacreBLEU(effective_order=True)
    expected = [peer.sentence_score(hypothesis, [line]).score for hypothesis, line in zip(hypotheses, references)]
    assert sentence_bleu(hypotheses, references, percent=True).tolist() == pytest.approx(expected, abs=1e-9)


def similar_line(line: str, rng: random.Random) -> str:
    """A line with up to three other words."""
    words = line.split(" ")
    for _ in range(rng.randint(0, 3)):
        words[rng.randrange(len(words))] = fuzz_line(rng)[:5]
    return " ".join(words)


def test_fuzzed_lines_score_by_default_as_in_sacrebleu(rng: random.Random) -> None:
    lines = [fuzz_line(rng) for _ in range(800)]
    references = [[similar_line(line, rng) for _ in range(rng.randint(1, 3))] for line in lines]
    peer = SacreBLEU(effective_order=True)
    expected = [peer.sentence_score(line, group).score for line, group in zip(lines, references)]
    assert len({round(score) for score in expected}) > 50  # of many qualities
    scores = sentence_bleu(lines, references)
    assert scores.tolist() == pytest.approx([score / 100 for score in expected], abs=1e-11)

    for start in range(0, 800, 4):  # small enough for orders without a match
        few, groups = lines[start : start + 4], references[start : start + 4]
        streams: Any = [[group[i] if i < len(group) else None for group in groups] for i in range(3)]
        assert str(corpus_bleu(few, groups)) == format_line(SacreBLEU().corpus_score(few, streams))


@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp"])
def test_sentences_score_as_in_sacrebleu_under_any_smoothing(corpus: Corpus, smoothing: str) -> None:
    hypotheses, references = join_tokens(corpus)
    peer = SacreBLEU(smooth_method=smoothing, effective_order=True)
    expected = [peer.sentence_score(line, group).score for line, group in zip(hypotheses, references)]
    ours = sentence_bleu(hypotheses, references, smoothing=smoothing, percent=True)
    assert ours.tolist() == pytest.approx(expected, abs=1e-9)


def test_the_effective_order_of_sentences_is_a_default_of_the_convention_of_sacrebleu_only(corpus: Corpus) -> None:
    hypotheses, references = join_tokens(corpus)
    peer = SacreBLEU()
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # which advises to set effective_order
    expected = [peer.sentence_score(line, group).score for line, group in zip(hypotheses, references)]
    for options in ({"effective_order": False}, {"convention": "papineni", "smoothing": "exp"}):
        ours = sentence_bleu(hypotheses, references, percent=True, **options)
        assert ours.tolist() == pytest.approx(expected, abs=1e-9)


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
    ours = corpus_bleu(*corpus, convention="papineni", **options)
    if options and not all(ours.possible_matches):
        pytest.skip("Ignite counts one possible match for an order without any")
    assert ours.bleu == pytest.approx(float(peer.compute()), abs=1e-12)


def test_ignite_averages_sentence_scores_by_default(corpus: Corpus) -> None:
    long_enough = [pair for pair in zip(*corpus) if len(pair[0]) >= 4]  # else Ignite counts one possible match
    if not long_enough:
        pytest.skip("no sentence of four tokens")
    hypotheses, references = zip(*long_enough)
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
    lines = [line.split() for line in ("the cat is here now again", "a dog ran far away from me today")]
    targets = [[line.split()] for line in ("the cat is here now again .", "a dog ran away from me today")]
    in_order, reversed_ = (
        float(nltk_bleu.corpus_bleu(targets[::step], lines[::step], smoothing_function=nltk_smoothing(5)))
        for step in (1, -1)
    )
    assert (round(in_order, 2), round(reversed_, 2)) == (0.75, 0.88)
