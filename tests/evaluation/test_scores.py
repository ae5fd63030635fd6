"""The scores of a validation: of loaders, of their groups, and the means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.ter import TER
from torchmetrics.text import WordErrorRate

from lightning_bleu import CONVENTIONS, CorpusBLEU, CorpusCHRF, FunctionMetric, Result, corpus_bleu
from lightning_bleu.core.processes import exchange
from lightning_bleu.evaluation.names import Name
from lightning_bleu.evaluation.scores.sentences import Share
from lightning_bleu.evaluation.scores.validation import Scored
from lightning_bleu.tasks import WER
from tests.helpers.callback_metrics import (
    Fails,
    corpus_of,
    exact,
    try_to,
)
from tests.helpers.metrics import bleu_components_of
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A, pick
from tests.helpers.validations import Counting, count, score, score_joined

HYPOTHESES, TARGETS, SOURCES = corpus_of(range(12))
LINES = [references[-1] for references in TARGETS]
"""A single reference of each sentence."""


def scores_of(scored: Sequence[Scored]) -> dict[Name, float]:
    """The scores by name."""
    return {one.name: one.result.score for one in scored}


# Scores of loaders


def lengths(hypotheses: list[str], references: list[list[str]]) -> dict[str, Any]:
    """Two scores, of which sentences of one word have only one."""
    words = [len(line.split()) for line in hypotheses]
    return {"words": words, "gaps/max": [(number - 1, float(number > 1)) for number in words]}


def test_there_is_a_result_for_each_score_of_the_mean_of_loaders_then_of_each() -> None:
    metrics = {"bleu": CorpusBLEU(), "length": lengths, "wer": WordErrorRate(), "nothing": lambda *texts: None}
    counting = Counting(metrics, ["news", "talks", "nothing"])
    count(counting, A[:2], REFERENCES[:2], dataloader_idx=1)
    count(counting, ["a", "b"], ["a", "c"], dataloader_idx=0)
    with pytest.warns(UserWarning, match="^'length/gaps/max' of 'news' is a ratio whose denominator is 0"):
        validation = score(counting)
    # Words without gaps between them have no longest gap.
    expected = [
        *(Name("bleu"), Name("length", score="words"), Name("length", score="gaps/max"), Name("wer")),
        *(Name("bleu", loader) for loader in ("news", "talks")),
        *(Name("length", loader, score="words") for loader in ("news", "talks")),
        *(Name("length", "talks", score="gaps/max"), Name("wer", "news"), Name("wer", "talks")),
    ]
    assert [one.name for one in validation.scored] == expected
    scores = {logged: result.score for logged, result in validation.results.items()}
    assert scores["val_length/news/words"] == 1
    assert scores["val_length/talks/words"] == fmean(len(line.split()) for line in A[:2])
    for logged in ("val_bleu{}", "val_length{}/words", "val_wer{}"):
        assert scores[logged.format("")] == fmean(scores[logged.format(loader)] for loader in ("/news", "/talks"))
    assert scores["val_length/gaps/max"] == scores["val_length/talks/gaps/max"]
    for one, (logged, result) in zip(validation.scored, validation.results.items(), strict=True):
        assert one.result is result
        assert validation.naming.render(one.name) == logged
        assert (one.rows is None) == bool(one.mean_of or one.name.metric == "wer")
        loaders = [other.name for other in validation.scored if other.name.whole == one.name and other.name.loader]
        assert [*one.mean_of] == (loaders if not one.name.loader else [])


def test_results_of_a_mean_have_the_scale_and_the_direction_but_no_report_and_no_components() -> None:
    counting = Counting({"wer": WER(percent=True), "chrf": CorpusCHRF(percent=True)}, ["news", "talks"])
    for number in range(2):
        count(counting, A, REFERENCES, dataloader_idx=number, group=["a", "b", "a", "b"])
    results = score(counting).results
    for mean, kind in (("val_wer", "loaders"), ("val_wer/news/mean", "groups"), ("val_chrf/talks/mean", "groups")):
        options: Any = {"scope": f"mean of 2 {kind}", "higher_is_better": "chrf" in mean, "percent": True}
        assert results[mean] == Result(results[mean].score, **options)


# Groups


def rate(hypotheses: list[str], references: list[list[str]]) -> list[tuple[int, int]]:
    """The wrong words of each sentence, and all of them."""
    return [(line.split().count("else"), len(line.split())) for line in hypotheses]


def make_metrics() -> dict[str, Any]:
    """A metric of each kind."""
    return {
        "bleu": CorpusBLEU(percent=True),
        "chrf": CorpusCHRF(percent=True),
        "f": exact,
        "rate": rate,
        "at_once": FunctionMetric(rate, corpus_level=True),
        "number": FunctionMetric(lambda lines, target: sum(map(len, lines)) / 7, corpus_level=True),
        "ter": TER(),
    }


@settings(max_examples=6)  # each scores with seven metrics
@given(st.lists(st.sampled_from(["de", "fr", "zh/x", "zh/y"]), min_size=1, max_size=12))
def test_the_score_of_a_group_is_that_of_the_metric_alone_on_its_sentences(labels: list[str]) -> None:
    """And all sentences score as without labels; the mean is that of the groups."""
    corpus = HYPOTHESES[: len(labels)], TARGETS[: len(labels)]
    scores = scores_of(score(count(Counting(make_metrics()), *corpus, group=labels)).scored)
    without = scores_of(score(count(Counting(make_metrics()), *corpus)).scored)
    groups = sorted(set(labels))
    names = [*groups, *(["mean"] if len(groups) > 1 else [])]
    assert [*scores] == [Name(name, group=group) for of in ([""], names) for name in make_metrics() for group in of]
    for name in make_metrics():
        assert scores[Name(name)] == without[Name(name)]
        for group in groups:
            numbers = [number for number, label in enumerate(labels) if label == group]
            alone = score(count(Counting({name: make_metrics()[name]}), *(pick(lines, numbers) for lines in corpus)))
            assert scores[Name(name, group=group)] == alone.results[f"val_{name}"].score
        mean = math.fsum(scores[Name(name, group=group)] for group in groups) / len(groups)
        assert scores.get(Name(name, group="mean"), mean) == mean


@pytest.mark.parametrize("name", make_metrics())
def test_the_result_of_a_group_is_that_of_its_sentences_alone_without_components(name: str) -> None:
    metrics = {name: make_metrics()[name]}
    counting = count(Counting(metrics), HYPOTHESES, TARGETS, group=["a", "b"] * 6)
    (loader, a, b, mean) = score(counting).scored
    for group, numbers in ((a, range(0, 12, 2)), (b, range(1, 12, 2))):
        (alone,) = score(count(Counting(metrics), pick(HYPOTHESES, numbers), pick(TARGETS, numbers))).scored
        assert (group.result.score, group.result.report) == (alone.result.score, alone.result.report)
        assert (group.result.higher_is_better, group.result.percent) == (
            alone.result.higher_is_better,
            alone.result.percent,
        )
        assert group.result.components == ()
        # The rows are those of the loader.
        assert (group.rows is None) == (loader.rows is None) == (name in ("number", "ter"))
        if group.rows is not None and loader.rows is not None:
            assert torch.equal(group.rows.statistics, loader.rows.statistics[[*numbers]])
            assert torch.equal(group.rows.identity, loader.rows.identity[[*numbers]])
    assert [*mean.mean_of] == [a.name, b.name]
    assert mean.rows is None


def test_one_text_in_two_languages_counts_in_each_group_and_twice_in_the_loader() -> None:
    counting = count(Counting(), A[:2], REFERENCES[:2], index=[5, 5], group=["de", "fr"])
    count(counting, [A[2], A[0]], [REFERENCES[2], REFERENCES[0]], index=[4, 5], group=["fr", "de"])  # a repeat
    results = score(counting).results
    expected = {"": range(3), "/de": [0], "/fr": [1, 2]}
    for name, numbers in expected.items():
        alone = corpus_bleu(pick(A, numbers), pick(REFERENCES, numbers))
        assert results[f"val_bleu{name}"].report == alone


def test_each_loader_has_a_mean_of_its_groups_and_all_have_one_of_the_loaders() -> None:
    """There is no mean of means. One loader may have groups, and another none."""
    counting = count(Counting(names=["news", "talks", "chats"]), A, REFERENCES, group=["a", "b", "a", "b"])
    count(counting, A[:2], REFERENCES[:2], dataloader_idx=1, group=["b", "a"])
    count(counting, A[1:], REFERENCES[1:], dataloader_idx=2)
    scores = {logged: result.score for logged, result in score(counting).results.items()}
    assert scores["val_bleu"] == fmean(scores[f"val_bleu/{loader}"] for loader in ("news", "talks", "chats"))
    for loader in ("news", "talks"):
        assert scores[f"val_bleu/{loader}/mean"] == fmean(scores[f"val_bleu/{loader}/{group}"] for group in "ab")


def test_a_group_of_which_nothing_is_known_has_no_score_and_the_mean_is_that_of_the_others() -> None:
    """All of its sentences are 0/0, so it counts for nothing."""
    counting = Counting({"bleu": CorpusBLEU(max_order=1), "rate": rate})
    count(counting, ["", "", "else x", "x"], ["x", "x", "x x", "x"], group=["a", "a", "b", "c"])
    with pytest.warns(UserWarning, match="^'rate' of 'a' is a ratio whose denominator is 0"):
        results = score(counting).results
    bleu, rates = ([f"val_{name}{group}" for group in ("", "/a", "/b", "/c", "/mean")] for name in ("bleu", "rate"))
    rates.remove("val_rate/a")
    assert {*results} == {*bleu, *rates}
    assert [results[name].score for name in rates] == [pytest.approx(1 / 3), 0.5, 0.0, 0.25]


# Scores of one metric


@pytest.mark.parametrize(
    "options", [{"convention": name} for name in CONVENTIONS] + [{"weights": (0.4, 0.3, 0.2, 0.1)}]
)
@pytest.mark.parametrize("lines", [(["a b c d e f", "a"], ["a b c x e f g", "b"]), (["a b"], ["c d"])])
def test_bleu_of_lower_orders_is_that_of_a_metric_of_these_orders(options: Any, lines: Any) -> None:
    metrics = {"x": CorpusBLEU(percent=True, **options), "chrf": CorpusCHRF(percent=True)}
    validation = score(count(Counting(metrics), *lines), parts=["bleu_3", "bleu_1", "precision"])
    options = {"percent": True, **options} | {"weights": None}
    expected = {f"bleu_{n}": corpus_bleu(*lines, max_order=n, **options).bleu for n in (1, 3)}
    logged = {name: number.value for name, number in validation.numbers.items()}
    for part, value in expected.items():
        assert validation.results["val_x"].parts[part] == logged[f"val_x/{part}"] == value
    assert logged.keys() == {"val_x", "val_x/bleu_1", "val_x/bleu_3", "val_chrf", "val_chrf/precision"}


@pytest.mark.parametrize(
    ("parts", "logged"),
    [
        (False, []),
        (True, bleu_components_of(2)),
        (["bleu_1", "precision_2"], ["bleu_1", "precision_2"]),
    ],
)
def test_results_have_all_parts_although_only_those_that_are_chosen_are_logged(parts: Any, logged: list[str]) -> None:
    validation = score(count(Counting(CorpusBLEU(max_order=2)), A, REFERENCES), parts=parts)
    assert {*validation.numbers} == {"val_bleu", *(f"val_bleu/{part}" for part in logged)}
    assert {*validation.results["val_bleu"].parts} == {*bleu_components_of(2), *logged}


# Processes


def break_down(kind: str, hypotheses: list[str], references: list[list[str]]) -> list[float] | None:
    """A function that goes wrong in one of two processes."""
    if dist.get_rank() == (0 if kind == "nan" else 1):
        if kind == "raise":
            raise OSError("no model")
        wrong: dict[str, Any] = {"count": [0.5], "nan": [math.nan] * len(hypotheses), "none": None}
        wrong["name"] = {"other": [0.5] * len(hypotheses)}
        return wrong[kind]  # type: ignore[no-any-return]
    return [0.5] * len(hypotheses)


def share_of(rank: int) -> slice:
    """The sentences of a process: one has two of them, and the other one has all the others."""
    return slice(0, 2) if rank == 1 else slice(2, 12)


def score_share(rank: int, world_size: int, metrics: list[Any]) -> list[str]:
    """The errors of metrics."""
    share = share_of(rank)
    corpus, index = (HYPOTHESES[share], LINES[share]), [*range(12)][share]
    return [try_to(lambda metric: score(count(Counting({"x": metric}), *corpus, index=index)), one) for one in metrics]


@pytest.mark.slow
def test_all_processes_raise_the_error_of_one(pool: ProcessPool) -> None:
    messages = {
        "raise": "RuntimeError: the metric 'x' failed: OSError: no model",
        "count": "ValueError: the metric 'x' must return one number or pair per sentence, got the shape (1,)",
        "nan": "ValueError: the metric 'x' returned nan for the hypothesis",
        "none": "ValueError: the metric 'x' returned None in some processes only",
        "name": "ValueError: the metric 'x' returned None in some processes only, or scores with diff",
    }
    first, other = pool.run(2, score_share, [*(partial(break_down, kind) for kind in messages), Fails()])
    assert first == other
    starts = [*messages.values(), "RuntimeError: the metric 'x' failed: MemoryError: too many"]
    assert [error.startswith(start) for error, start in zip(first, starts, strict=True)] == [True] * len(starts)


LABELS = [*"aababbbaabab"]


def score_groups(rank: int, world_size: int, is_split: bool) -> tuple[dict[Name, float], dict[str, list[list[str]]]]:
    """The scores of groups, and the hypotheses of each call of two functions in this process."""
    calls: dict[str, list[list[str]]] = {"each": [], "at_once": []}

    def make(name: str) -> Any:
        def call(hypotheses: list[str], references: list[list[str]]) -> Any:
            calls[name].append(hypotheses)
            return rate(hypotheses, references) if name == "each" else float(len(hypotheses))

        return call

    metrics = make_metrics() | {"each": make("each"), "calls": FunctionMetric(make("at_once"), corpus_level=True)}
    share = share_of(rank) if is_split else slice(0, 12 * (rank == 0))
    fields: dict[str, Any] = {"index": [*range(12)][share], "group": LABELS[share]}
    counting = Counting(metrics)
    if share.stop:
        count(counting, HYPOTHESES[share], TARGETS[share], **fields)

    def score_in_process_0(shares: list[Share]) -> dict[Name, float]:
        return scores_of(score_joined(counting, counting.collector.join(shares)).scored)

    return exchange(counting.collector.close, score_in_process_0), calls


@pytest.mark.slow
def test_processes_score_groups_as_one_and_call_functions_once_with_their_own_sentences(pool: ProcessPool) -> None:
    expected, _ = score_groups(0, 1, False)
    for is_split in (True, False):
        (first, calls), (other, other_calls) = pool.run(2, score_groups, is_split)
        assert first == other == expected
        groups = [pick(HYPOTHESES, (number for number in range(12) if LABELS[number] == label)) for label in "ab"]
        everything = [HYPOTHESES, *groups]
        assert (calls["at_once"], other_calls["at_once"]) == (everything, [])
        shares = [[HYPOTHESES[2:]], [HYPOTHESES[:2]]] if is_split else [[HYPOTHESES], []]
        assert [calls["each"], other_calls["each"]] == shares
