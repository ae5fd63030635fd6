"""The metric of chrF: what it does itself, and what it shares with BLEU."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from torchmetrics import MetricCollection

from lightning_bleu import (
    CorpusBLEU,
    CorpusCHRF,
    approximate_randomization,
    corpus_bleu,
    corpus_chrf,
    paired_bootstrap,
    sentence_chrf,
)
from lightning_bleu.chrf import CHRFOptions, CHRFSettings
from lightning_bleu.metric import CorpusMetric
from lightning_bleu.scoring.signature import InputCounts
from tests.helpers.chrf import Groups, chrf_options, corpora, peer_rows, peer_score
from tests.helpers.corpora import PART_OR_WHOLE, random_corpus, read_lines, read_systems
from tests.helpers.process_groups import ProcessPool, group_of_one
from tests.helpers.systems import pick

PREDS = ["the cat is on the mat", "hello there.", "", "Ein Haus, ein Hund!", "b"]
TARGET = [
    ["the cat sat on the mat", "a cat is on the mat"],
    ["hello there, world"],
    ["empty", ""],
    ["ein Haus; kein Hund.", "Haus", "Hund!"],
    ["b"],
]
CORPUS = (PREDS, TARGET)
ROWS = peer_rows(PREDS, TARGET)
BAD = ["a cat on a mat", "hello", "x", "Ein Hund", "a"]
"""Worse translations of the same sentences."""

OPTIONS: list[dict[str, Any]] = [
    {},
    {"word_order": 2, "beta": 3, "lowercase": True},
    {"char_order": 0, "word_order": 1, "eps_smoothing": True},
    {"whitespace": True, "char_order": 3, "percent": True},
]


def count(*batches: Any, **options: Any) -> CorpusCHRF:
    """A metric that has counted some batches."""
    metric = CorpusCHRF(**options)
    for batch in batches:
        metric.update(*batch)
    return metric


def keep(preds: list[str], positions: Sequence[int] = (0, 1, 2, 3, 4), **options: Any) -> CorpusCHRF:
    """A metric that has counted some of the sentences, and kept them."""
    return count((pick(preds, positions), pick(TARGET, positions)), keep_sentences=True, **options)


def random_text(rng: random.Random, sentences: int) -> tuple[list[str], Groups]:
    """Lines of words with one to three references."""
    preds, target = random_corpus(rng, sentences)
    return [" ".join(row) for row in preds], [[" ".join(row) for row in group] for group in target]


# Score


@pytest.mark.filterwarnings("ignore:Every reference in 'target' is a single word")
@given(corpora, chrf_options(), st.randoms(use_true_random=False), st.booleans())
def test_batches_and_their_order_do_not_change_the_score(
    sentences: list[tuple[str, list[str]]], options: dict[str, Any], rng: random.Random, keeps: bool
) -> None:
    preds, target = [hypothesis for hypothesis, _ in sentences], [references for _, references in sentences]
    theirs, signature = peer_score(preds, target, **options)
    metric = CorpusCHRF(percent=True, keep_sentences=keeps, **options)
    positions = rng.sample(range(len(preds)), len(preds))
    cuts = sorted([0, rng.randint(0, len(preds)), rng.randint(0, len(preds)), len(preds)])
    for start, stop in itertools.pairwise(cuts):
        batch = positions[start:stop]
        metric.update(pick(preds, batch), pick(target, batch), index=batch if keeps else None)
    assert metric.statistics.tolist() == [sum(column) for column in zip(*peer_rows(preds, target, **options))]
    assert metric.report() == corpus_chrf(preds, target, percent=True, **options)
    assert metric.compute().item() == metric.report().score == theirs.score
    assert metric.signature.startswith(f"{signature}|lightning_bleu:")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_metric_and_the_functions_score_the_same(options: Any, rng: random.Random) -> None:
    batch = random_text(rng, 30)
    metric = count(batch, **options)
    assert metric.report() == corpus_chrf(*batch, **options)
    expected = [corpus_chrf([line], [group], **options).score for line, group in zip(*batch)]
    assert sentence_chrf(*batch, **options).tolist() == expected


def test_the_state_is_one_vector_of_sums() -> None:
    metric = count(CORPUS)
    assert list(metric.metric_state) == ["totals"]
    sums = np.sum(ROWS, 0).tolist()
    counts = InputCounts(strings=5, references=9, squared_references=19)
    assert metric.totals.tolist() == [*sums, *counts]
    assert metric.input_counts == counts
    assert metric.batch_statistics is not None
    assert metric.batch_statistics.tolist() == ROWS
    assert metric.last_batch is not None
    assert metric.last_batch.texts() == [*zip(*CORPUS)]


def test_a_score_in_percent_is_100_times_as_large() -> None:
    one, hundred = count(CORPUS), count(CORPUS, percent=True)
    theirs, _ = peer_score(*CORPUS)
    assert (hundred.compute().item(), one.compute().item()) == (theirs.score, theirs.score / 100)
    assert (hundred.plot_upper_bound, one.plot_upper_bound) == (100, 1)
    assert sentence_chrf(["ab"], ["ab"], percent=True).tolist() == [100]


def test_sentences_score_as_in_sacrebleu() -> None:
    for options in ({}, {"word_order": 2}, {"eps_smoothing": True, "beta": 1}):
        peer: Any = CHRF(**options)  # type: ignore[arg-type]
        expected = [peer.sentence_score(line, group).score for line, group in zip(*CORPUS)]
        assert sentence_chrf(*CORPUS, percent=True, **options).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_metric_without_sentences_scores_zero(keep_sentences: bool) -> None:
    metric = count(([], []), keep_sentences=keep_sentences)
    assert metric.compute().item() == metric.report().score == 0
    metric.update([""], [""])
    assert metric.compute().item() == 0
    assert metric.signature.startswith("nrefs:1|")


def test_forward_returns_the_score_of_the_batch_and_reset_forgets_it() -> None:
    metric = CorpusCHRF(keep_sentences=True)
    batches = [(PREDS[:2], TARGET[:2]), (PREDS[2:], TARGET[2:])]
    for batch in batches:
        assert metric(*batch).item() == corpus_chrf(*batch).score
    assert metric.report() == corpus_chrf(*CORPUS)
    metric.reset()
    assert (metric.last_batch, metric.batch_statistics, len(metric.sentence_statistics)) == (None, None, 0)
    assert metric.signature.startswith("nrefs:?|")
    metric.update(*batches[1])
    assert metric.report() == corpus_chrf(*batches[1])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "CorpusCHRF()"),
        ({"char_order": 6, "beta": 2, "percent": False}, "CorpusCHRF()"),
        ({"eps_smoothing": True, "word_order": 2}, "CorpusCHRF(word_order=2, eps_smoothing=True)"),
        ({"beta": 0.5, "keep_sentences": True}, "CorpusCHRF(beta=0.5, keep_sentences=True)"),
    ],
)
def test_a_metric_is_represented_by_the_options_that_differ_from_the_defaults(
    options: dict[str, Any], expected: str
) -> None:
    assert repr(CorpusCHRF(**options)) == expected
    assert eval(expected).settings == CorpusCHRF(**options).settings


# Ids


class Speller:
    """A decoder with the method of a Hugging Face tokenizer; 0 is a special token."""

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        assert skip_special_tokens
        return spell([[id_ for id_ in row if id_] for row in sequences])


def spell(rows: list[list[int]]) -> list[str]:
    """1 → "a", 2 → "b"; 9 is a space."""
    return ["".join(" " if id_ == 9 else chr(96 + id_) for id_ in row) for row in rows]


IDS = [[1, 2, 9, 3, 4], [3, 3], [5, 6, 9, 7]]
REFERENCE_IDS = [[[1, 2, 9, 3], [2, 1]], [[3, 9, 3], [4]], [[5, 6, 7], [5, 6, 9, 8]]]
TEXT = (spell(IDS), [spell(group) for group in REFERENCE_IDS])


@pytest.mark.parametrize("decoder", [spell, Speller(), Speller().batch_decode])
def test_decoded_ids_score_as_their_text(decoder: Any) -> None:
    options: dict[str, Any] = {"decoder": decoder, "pad_id": 11, "bos_id": 70, "eos_id": 80, "word_order": 2}
    ids: Any = torch.tensor([[70, *row, 80, *[11] * (6 - len(row))] for row in IDS])
    references: Any = torch.tensor([[[*row, 80, *[11] * (6 - len(row))] for row in g] for g in REFERENCE_IDS])
    logits = torch.nn.functional.one_hot(ids, 90).float()
    expected = corpus_chrf(*TEXT, word_order=2)
    for preds in (IDS, [torch.tensor(row) for row in IDS], ids, ids.numpy(), logits, TEXT[0]):
        for target in (REFERENCE_IDS, references, TEXT[1]):
            metric = count((preds, target), **options)
            assert metric.report() == corpus_chrf(preds, target, **options) == expected
            assert metric.input_counts.strings == 3
    mixed = count((ids, references), TEXT, **options)
    assert mixed.report() == corpus_chrf(TEXT[0] * 2, TEXT[1] * 2, word_order=2)


NOT_TEXT: dict[str, tuple[Any, Any, str]] = {
    "tokens": ([["a", "b"]], [["a"]], "are tokens"),
    "tokens, several references": ([["a", "b"]], [[["a"], ["b"]]], "are tokens"),
    "ids": ([[1, 2]], [[1]], "are ids"),
    "a tensor": (torch.tensor([[1]]), torch.tensor([[1]]), "are ids"),
    "logits": (torch.zeros(1, 2, 3), torch.tensor([[1]]), "are ids"),
    "empty lists": ([[]], [[[]]], "are empty"),
}


@pytest.mark.parametrize("name", NOT_TEXT)
def test_tokens_and_ids_that_are_not_decoded_are_errors_that_change_nothing(name: str) -> None:
    *batch, kind = NOT_TEXT[name]
    message = rf"but 'preds' and 'target' {kind}: pass strings \(join tokens with spaces\), or set decoder="
    metrics = [count(CORPUS), keep(PREDS)]
    last_batches = [metric.last_batch for metric in metrics]
    calls: list[Any] = [*(metric.update for metric in metrics), *metrics, corpus_chrf, sentence_chrf]
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call(*batch)
    for metric, last_batch in zip(metrics, last_batches):
        assert metric.last_batch is last_batch
        assert metric.update_count == 1
        metric.update(["b"], ["b"])
        assert metric.report() == corpus_chrf([*PREDS, "b"], [*TARGET, ["b"]])


@pytest.mark.parametrize("mixed", [(["a"], [[1]]), ([[1]], ["a"]), (["a"], [["a", "b"], ["c"]]), (["a"], [[]])])
def test_other_wrong_inputs_are_errors_that_change_nothing(mixed: Any) -> None:
    metric = count(CORPUS)
    for call in (metric.update, metric, corpus_chrf):
        with pytest.raises((TypeError, ValueError), match="'target'"):
            call(*mixed)
    assert metric.report() == corpus_chrf(*CORPUS)


# Masks and kept sentences


def test_masked_sentences_do_not_count() -> None:
    mask = [True, False, True, True, False]
    rows = [row for row, counts in zip(ROWS, mask) if counts]
    expected = corpus_chrf(*([item for item, counts in zip(side, mask) if counts] for side in CORPUS))
    for form in (mask, np.array(mask), torch.tensor(mask)):
        sums, kept = count((*CORPUS, form)), count((*CORPUS, form), keep_sentences=True)
        assert sums.report() == kept.report() == expected
        assert kept.sentence_statistics.tolist() == rows
        assert kept.batch_statistics is not None
        assert kept.batch_statistics.tolist() == [row if counts else [0] * 18 for row, counts in zip(ROWS, mask)]
    assert count((*CORPUS, [False])).signature.startswith("nrefs:?|")


@pytest.mark.parametrize(("options", "orders"), [({}, 6), ({"char_order": 2, "word_order": 3}, 5)])
def test_kept_sentences_take_12_bytes_for_each_order_and_16_more(options: dict[str, Any], orders: int) -> None:
    metric = keep(PREDS, **options)
    assert (metric.sentence_statistics.dtype, metric.sentence_statistics.shape) == (torch.int32, (5, 3 * orders))
    (rows,) = metric.sentences
    assert rows.nbytes == 5 * (12 * orders + 16)


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=4))
def test_every_position_counts_once_and_all_are_in_order(batches: list[list[int]]) -> None:
    metric = CorpusCHRF(keep_sentences=True)
    for number, batch in enumerate(batches):
        # Only the first translation of a position is right.
        known = {position for earlier in batches[:number] for position in earlier}
        preds = ["wrong" if position in {*known, *batch[:i]} else PREDS[position] for i, position in enumerate(batch)]
        metric.update(preds, pick(TARGET, batch), index=batch)
    positions = sorted({position for batch in batches for position in batch})
    assert metric.sentence_statistics.tolist() == pick(ROWS, positions)
    assert metric.kept_sentences().positions.tolist() == positions
    if positions:
        assert metric.report() == corpus_chrf(pick(PREDS, positions), pick(TARGET, positions))


def test_an_index_needs_a_metric_that_keeps_sentences() -> None:
    metric = CorpusCHRF()
    with pytest.raises(ValueError, match=re.escape("'index' requires a metric that keeps sentences: CorpusCHRF(keep_")):
        metric.update(["a"], ["a"], index=[0])
    for read in (metric.interval, metric.kept_sentences, lambda: metric.sentence_statistics):
        with pytest.raises(ValueError, match=re.escape("make it with CorpusCHRF(keep_sentences=True)")):
            read()
    metric.start_keeping_sentences()
    metric.update(["a"], ["a"], index=[0])
    assert len(metric.sentence_statistics) == 1
    metric.update(["a"], ["b"], index=[0])
    with pytest.raises(ValueError, match="different sentences have the same 'index' 0"):
        metric.compute()


# Merging, copying, saving, collections


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_merging_adds_the_sentences_of_another_metric(keep_sentences: bool) -> None:
    options: Any = {"word_order": 2, "keep_sentences": keep_sentences}
    other = count((PREDS[2:], TARGET[2:]), **options)
    for incoming in (other, other.metric_state):
        metric = count((PREDS[:2], TARGET[:2]), **options)
        metric.merge_state(incoming)
        assert metric.report() == corpus_chrf(*CORPUS, word_order=2)
        assert not keep_sentences or metric.sentence_statistics.tolist() == peer_rows(*CORPUS, word_order=2)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (CorpusCHRF(word_order=2, beta=3), "these differ: word_order, beta$"),
        (CorpusCHRF(whitespace=True, lowercase=True), "these differ: lowercase, whitespace$"),
        (CorpusCHRF(eps_smoothing=True, char_order=5), "these differ: char_order, eps_smoothing$"),
        (CorpusBLEU(), "metrics with different settings cannot be merged; these differ: "),
        (CorpusBLEU(max_order=8), "metrics with different settings cannot be merged"),  # with as many columns
        (CorpusCHRF(keep_sentences=True), r"make both with CorpusCHRF\(keep_sentences=True\)"),
    ],
    ids=repr,
)
def test_metrics_that_differ_cannot_be_merged(other: Any, message: str) -> None:
    metric, other = count(CORPUS), other.clone()
    other.update(*CORPUS)
    before = other.statistics
    for one, incoming in ((metric, other), (other, metric)):
        with pytest.raises(ValueError, match=message if one is metric else "differ|make both with"):
            one.merge_state(incoming)
    assert metric.report() == corpus_chrf(*CORPUS)
    assert torch.equal(other.statistics, before)


@pytest.mark.parametrize("keep_sentences", [False, True])
@pytest.mark.parametrize(
    "replicate", [copy.copy, copy.deepcopy, CorpusCHRF.clone, lambda metric: pickle.loads(pickle.dumps(metric))]
)
def test_copies_are_independent(replicate: Callable[[CorpusCHRF], CorpusCHRF], keep_sentences: bool) -> None:
    options: Any = {"word_order": 1, "beta": 1, "percent": True}
    metric = count(CORPUS, keep_sentences=keep_sentences, **options)
    twin = replicate(metric)
    assert (type(twin), twin.settings, repr(twin)) == (CorpusCHRF, metric.settings, repr(metric))
    twin.update(["a b"], ["a c"])
    assert metric.report() == corpus_chrf(*CORPUS, **options)
    assert twin.report() == corpus_chrf([*PREDS, "a b"], [*TARGET, ["a c"]], **options)


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_state_can_be_saved_and_loaded(keep_sentences: bool) -> None:
    metric, restored = (count(batch, keep_sentences=keep_sentences) for batch in (CORPUS, (BAD, TARGET)))
    other = count(CORPUS, word_order=1, keep_sentences=keep_sentences)
    for one in (metric, restored, other):
        one.persistent(True)
    restored.load_state_dict(metric.state_dict())
    assert restored.report() == metric.report() == corpus_chrf(*CORPUS)
    with pytest.raises(ValueError, match=r"its rows have \d+ columns, not \d+"):
        restored.load_state_dict(other.state_dict())
    assert restored.report() == corpus_chrf(*CORPUS)


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_collection_scores_bleu_and_chrf_of_different_settings(keep_sentences: bool, rng: random.Random) -> None:
    metrics: dict[str, Any] = {
        "bleu": CorpusBLEU(keep_sentences=keep_sentences),
        "chrf": CorpusCHRF(keep_sentences=keep_sentences),
        "chrf++": CorpusCHRF(word_order=2, keep_sentences=keep_sentences),
        "beta": CorpusCHRF(beta=3, keep_sentences=keep_sentences),
        "like chrf": CorpusCHRF(char_order=6, keep_sentences=keep_sentences),
        "bleu 8": CorpusBLEU(max_order=8, keep_sentences=keep_sentences),  # as many columns as chrF has
    }
    collection = MetricCollection(metrics)
    preds, target = random_text(rng, 12)
    collection.update([""], [""])  # after which all states of a kind are equal
    for start in range(0, 12, 4):
        collection.update(preds[start : start + 4], target[start : start + 4])
    corpus = ["", *preds], [[""], *target]
    assert {name: value.item() for name, value in collection.compute().items()} == {
        "bleu": corpus_bleu(*corpus).bleu,
        "chrf": corpus_chrf(*corpus).score,
        "chrf++": corpus_chrf(*corpus, word_order=2).score,
        "beta": corpus_chrf(*corpus, beta=3).score,
        "like chrf": corpus_chrf(*corpus).score,
        "bleu 8": corpus_bleu(*corpus, max_order=8).bleu,
    }
    groups = sorted(map(sorted, collection.compute_groups.values()))
    assert groups == [["beta"], ["bleu"], ["bleu 8"], ["chrf", "like chrf"], ["chrf++"]]


# Intervals and tests

KEPT, WORSE = keep(PREDS), keep(BAD)
RESAMPLES = list(itertools.product(range(4), repeat=4))
"""All resamples of four sentences, which have equal probability."""


def score_of(preds: list[str], positions: Any, **options: Any) -> float:
    """The score of a resample."""
    return corpus_chrf(pick(preds, positions), pick(TARGET, positions), **options).score


def test_an_interval_is_that_of_all_resamples() -> None:
    options: Any = {"word_order": 2, "percent": True}
    metric = keep(PREDS, range(4), **options)
    scores = [score_of(PREDS, positions, **options) for positions in RESAMPLES]
    interval = metric.interval(0.8, 20_000)
    assert interval.score == metric.compute().item()
    assert {round(score, 8) for score in interval.scores} == {round(score, 8) for score in scores}
    assert np.mean(interval.scores) == pytest.approx(np.mean(scores), abs=0.5)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(scores, [0.1, 0.9])), abs=1)
    assert str(interval).startswith(f"chrF2++ = {interval.score:.2f} (80% interval ")


def test_the_p_value_of_the_bootstrap_is_that_of_all_resamples() -> None:
    other = [BAD[0], "hello there, world", *PREDS[2:]]  # one worse, one better
    differences = np.array([abs(score_of(PREDS, drawn) - score_of(other, drawn)) for drawn in RESAMPLES])
    a, b = keep(PREDS, range(4)), keep(other, range(4))
    result = paired_bootstrap(a, b, 20_000)
    assert (result.score_a, result.score_b) == (a.compute().item(), b.compute().item())
    expected = np.mean(differences - differences.mean() >= abs(result.difference) - 1e-12)
    assert result.p_value == pytest.approx(expected, abs=0.01)
    assert 0.01 < expected < 0.9
    assert str(result).startswith(f"chrF2 = {100 * result.score_a:.2f} against ")


def test_the_p_value_of_the_randomization_is_that_of_all_exchanges() -> None:
    differences = []
    for swaps in itertools.product([False, True], repeat=5):
        mixed = [[b if swap else a for a, b, swap in zip(*pair, swaps)] for pair in ((PREDS, BAD), (BAD, PREDS))]
        differences.append(abs(corpus_chrf(mixed[0], TARGET).score - corpus_chrf(mixed[1], TARGET).score))
    expected = np.mean(np.array(differences) >= differences[0] - 1e-12)
    assert approximate_randomization(KEPT, WORSE).p_value == pytest.approx(expected, abs=0.02)
    assert 0.01 < expected < 0.9


def keep_bleu(**options: Any) -> CorpusBLEU:
    metric = CorpusBLEU(keep_sentences=True, **options)
    metric.update(*CORPUS)
    return metric


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (keep_bleu(), "must be scored by the same metric, got (BLEU and chrF2|chrF2 and BLEU)"),
        (keep_bleu(max_order=8), "must be scored by the same metric, got (BLEU and chrF2|chrF2 and BLEU)"),
        (keep(BAD, word_order=1), r"got (chrF2 and chrF2\+|chrF2\+ and chrF2)"),
        (keep(BAD, eps_smoothing=True), "which differ in: eps_smoothing$"),
        (keep(BAD, whitespace=True), "space:(no|yes).*space:(no|yes).* which differ in: whitespace$"),
        (keep(BAD, char_order=4), "which differ in: char_order$"),
        (keep(BAD, range(4)), "same number of sentences"),
        (keep(BAD, [0, 1, 2, 4, 3]), "the references of sentence 3 differ"),
        (count(CORPUS), r"make it with CorpusCHRF\(keep_sentences=True\)"),
    ],
)
def test_systems_that_are_not_scored_alike_cannot_be_compared(other: CorpusMetric, message: str) -> None:
    for test in (paired_bootstrap, approximate_randomization):
        for a, b in ((KEPT, other), (other, KEPT)):
            with pytest.raises(ValueError, match=message):
                test(a, b)


# Options


def score_corpus(**options: Any) -> Any:
    return corpus_chrf(*CORPUS, **options)


def score_sentences(**options: Any) -> Any:
    return sentence_chrf(*CORPUS, **options)


PLACES: list[Callable[..., Any]] = [CorpusCHRF, score_corpus, score_sentences, CHRFSettings.from_options]
"""Everything that takes options."""
OPTION_TYPES = {name: annotation.__forward_arg__ for name, annotation in CHRFOptions.__annotations__.items()}


def test_the_three_lists_of_options_agree() -> None:
    parameters = dict(inspect.signature(CorpusCHRF.__init__).parameters)
    for other in ("self", "keep_sentences", "kwargs"):
        del parameters[other]
    assert [(name, parameter.annotation) for name, parameter in parameters.items()] == [*OPTION_TYPES.items()]
    fields = {field.name: field for field in dataclasses.fields(CHRFSettings)}
    assert fields.keys() == OPTION_TYPES.keys()
    for name, parameter in parameters.items():
        assert fields[name].type == ("tuple[int, ...]" if name == "ignore_ids" else OPTION_TYPES[name])
        assert fields[name].default == parameter.default
    assert CorpusCHRF().settings == CHRFSettings.from_options() == CHRFSettings()


def test_the_defaults_are_those_of_sacrebleu() -> None:
    ours, theirs = CorpusCHRF().settings, CHRF()
    for name in ("char_order", "word_order", "beta", "lowercase", "whitespace", "eps_smoothing"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_numbers_of_any_type_are_stored_as_plain_ones() -> None:
    options: Any = {
        "char_order": np.int64(3),
        "word_order": torch.tensor(1),
        "beta": np.float32(1),
        "whitespace": np.True_,
    }
    settings = CorpusCHRF(**options).settings
    found = [settings.char_order, settings.word_order, settings.beta, settings.whitespace]
    assert [*zip(found, map(type, found))] == [(3, int), (1, int), (1.0, float), (True, bool)]


@pytest.mark.parametrize("call", PLACES)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"char_order": -1}, ValueError, "'char_order' must be 0 or more, got -1"),
        ({"word_order": -2}, ValueError, "'word_order' must be 0 or more, got -2"),
        ({"char_order": 0}, ValueError, "'char_order' or 'word_order' must be 1 or more, got 0 for both"),
        ({"char_order": 6.0}, TypeError, "'char_order' must be an integer, got 6.0 of type float"),
        ({"word_order": True}, TypeError, "'word_order' must be an integer, got True of type bool"),
        ({"beta": -1}, ValueError, "'beta' must be a finite number of 0 or more, got -1"),
        ({"beta": float("nan")}, ValueError, "'beta' must be a finite number of 0 or more, got nan"),
        ({"beta": float("inf")}, ValueError, "'beta' must be a finite number of 0 or more, got inf"),
        ({"beta": "2"}, TypeError, "'beta' must be a number, got '2' of type str"),
        ({"beta": True}, TypeError, "'beta' must be a number, got True of type bool"),
        ({"whitespace": 1}, TypeError, "'whitespace' must be True or False, got 1 of type int"),
        ({"eps_smoothing": None}, TypeError, "'eps_smoothing' must be True or False, got None of type NoneType"),
        ({"lowercase": "no"}, TypeError, "'lowercase' must be True or False, got 'no' of type str"),
        ({"percent": 1}, TypeError, "'percent' must be True or False, got 1 of type int"),
        ({"decoder": 5}, TypeError, "'decoder' must be a callable that turns a list of lists of ids into strings"),
        ({"n_char_order": 3}, TypeError, "unknown option 'n_char_order': did you mean 'char_order'?"),
        ({"n_word_order": 3}, TypeError, "unknown option 'n_word_order': did you mean 'word_order'?"),
        ({"lower": True}, TypeError, "unknown option 'lower': did you mean 'lowercase'?"),
        ({"pad_token_id": 0}, TypeError, "unknown option 'pad_token_id': did you mean 'pad_id'?"),
        ({"white_space": True}, TypeError, "unknown option 'white_space': did you mean 'whitespace'?"),
        ({"wordorder": 2}, TypeError, "unknown option 'wordorder': did you mean 'word_order'?"),
    ],
    ids=str,
)
def test_a_wrong_option_is_an_error_that_says_what_is_right(
    call: Callable[..., Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(**options)


@pytest.mark.parametrize("call", PLACES)
@pytest.mark.parametrize(
    "name", ["tokenizer", "tokenize", "max_order", "n_gram", "smoothing", "smooth_method", "unk_id", "weights", "qqq"]
)
def test_an_option_of_bleu_is_an_error_that_names_only_options_of_chrf(call: Callable[..., Any], name: str) -> None:
    known = {*OPTION_TYPES, *["keep_sentences"] * (call is CorpusCHRF)}
    with pytest.raises(TypeError, match=f"^unknown option '{name}'") as caught:
        call(**{name: 4})
    named = set(re.findall(r"'(\w+)'", str(caught.value).replace(f"option '{name}'", "")))
    assert named
    assert named <= known


# Several processes


def score_share(rank: int, world_size: int, corpus: tuple[list[str], Groups]) -> list[Any]:
    """Score every other sentence, and the last one in both processes; then only keep sums."""
    kept, sums = CorpusCHRF(word_order=2, keep_sentences=True), CorpusCHRF(word_order=2)
    preds, target = corpus
    positions = [*range(rank, len(preds), world_size), len(preds) - 1]
    kept.update(pick(preds, positions), pick(target, positions), index=positions)
    if rank == 0:  # the other one has no sentences
        sums.update(preds, target)
    results = [kept.compute().item(), sums.compute().item(), kept.report(), sums.report()]
    return [*results, kept.sentence_statistics.tolist(), kept.interval(resamples=50)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_two_processes_have_the_score_of_one(pool: ProcessPool, rng: random.Random) -> None:
    corpus = random_text(rng, 25)
    expected, alone = corpus_chrf(*corpus, word_order=2), count(corpus, word_order=2, keep_sentences=True)
    rows, interval = peer_rows(*corpus, word_order=2), alone.interval(resamples=50)
    for result in pool.run(2, score_share, corpus):
        assert result == [expected.score, expected.score, expected, expected, rows, interval]


def test_a_synced_metric_without_sentences_keeps_none() -> None:
    metric = CorpusCHRF(keep_sentences=True, word_order=1)
    with group_of_one(), metric.sync_context():
        assert metric.sentence_statistics.shape == (0, 21)


# Real text


@pytest.mark.slow
@pytest.mark.parametrize("whole", PART_OR_WHOLE)
@pytest.mark.parametrize("pair", ["en-de", "en-cs", "en-zh", "en-ja"])
def test_every_system_of_wmt22_scores_as_in_sacrebleu(pair: str, whole: bool, wmt22: Path) -> None:
    for preds, streams in read_systems(wmt22, pair, whole):
        for some, peer in ((streams, CHRF(word_order=2)), (streams[:1], CHRF())):
            ours = corpus_chrf(preds, [*zip(*some)], word_order=peer.word_order)
            rows = peer._extract_corpus_statistics(preds, some)
            theirs = peer._aggregate_and_compute(rows)
            assert (ours.score, str(ours)) == (theirs.score / 100, theirs.format())
            assert [*ours.hypothesis_counts, *ours.reference_counts, *ours.matches] == [
                sum(row[column] for row in rows) for start in range(3) for column in range(start, len(rows[0]), 3)
            ]


@pytest.mark.parametrize("flag", ["lowercase", "whitespace", "eps_smoothing"])
def test_captions_score_as_in_sacrebleu(flag: str, multi30k: Path) -> None:
    lines = read_lines(multi30k / "val.de")[:500]
    others = [" ".join(reversed(line.split())) for line in lines]
    target = [[line, *lines[i + 1 : i + 1 + i % 3]] for i, line in enumerate(lines)]
    options: Any = {flag: True, "word_order": 1, "char_order": 4}
    theirs, _ = peer_score(others, target, **options)
    assert corpus_chrf(others, target, percent=True, **options).score == theirs.score
