"""Which sentences are looked at: the first ones, the worst ones, and those that changed most."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CorpusBLEU, CorpusCHRF, FunctionMetric
from lightning_bleu.core.batch import read_batch
from lightning_bleu.core.scoring import RatioScorer
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.observers.samples import choose_sentences, find_changed, find_worst
from tests.helpers.callback_metrics import errors
from tests.helpers.validations import Counting, score
from tests.helpers.validations import count as count_lines

BLEU = CorpusBLEU()


def count(hypotheses: Sequence[Any], references: Sequence[Any], metric: Any = BLEU) -> Tensor:
    return torch.from_numpy(metric.scorer.count_batch("", read_batch(hypotheses, references, metric.settings)))


# The worst sentences

BROKEN = 8


def break_some(rng: random.Random, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[list[str], set[int]]:
    """Break sentences that are long enough for a mistake to matter: loops, cut ones, empty ones, and wrong ones.

    Returns:
        all hypotheses, and which of them are broken.
    """
    chosen = rng.sample([row for row, line in enumerate(references) if len(line.split()) >= 12], BROKEN)
    broken = list(hypotheses)
    for number, row in enumerate(chosen):
        words, other = hypotheses[row].split(), hypotheses[(row + 1) % len(hypotheses)]
        loop = (words[:3] * len(words))[: 2 * len(words)]
        broken[row] = [" ".join(loop), " ".join(words[:3]), "", other][number % 4]
    return broken, {*chosen}


def weaken(rng: random.Random, lines: Sequence[str], share: float, vocabulary: Sequence[str]) -> list[str]:
    """Replace all but a share of the words, as a model does that is not yet trained."""
    return [
        " ".join(word if rng.random() < share else rng.choice(vocabulary) for word in line.split()) for line in lines
    ]


@pytest.mark.parametrize("share", [0.3, 0.4, 0.5])
def test_most_broken_sentences_are_found_and_more_than_by_the_lowest_sentence_bleu(share: float) -> None:
    vocabulary = [f"w{number}" for number in range(300) for _ in range(300 // (number + 1))]  # some words are frequent
    found = lowest = 0
    for seed in range(10):
        rng = random.Random(seed)
        references = [" ".join(rng.choices(vocabulary, k=rng.randint(2, 40))) for _ in range(400)]
        hypotheses, broken = break_some(rng, weaken(rng, references, share, vocabulary), references)
        statistics = count(hypotheses, references)
        worst = {*find_worst(statistics, BLEU.scorer, BROKEN)}
        assert len(broken & worst) >= 5
        found += len(broken & worst)
        lowest += len(broken & {*BLEU.scorer.score_sentences(statistics).argsort(stable=True)[:BROKEN].tolist()})
    assert found >= 0.75 * 10 * BROKEN
    assert found > 1.2 * lowest


def test_of_two_sentences_without_a_match_the_longer_one_is_worse() -> None:
    references = ["a b c", "d e f g h i j k l m", "n o p q r s t u v w x y", "z"]
    hypotheses = ["a b c", "- - - - - - - - - -", references[2], "-"]
    assert find_worst(count(hypotheses, references), BLEU.scorer, 2) == [1, 3]


def test_equally_bad_sentences_come_in_the_order_of_the_dataset() -> None:
    statistics = count(["a b", "x y", "a b", "x z"], ["a c", "a b", "a c", "a b"])
    assert find_worst(statistics, BLEU.scorer, 4) == [1, 3, 0, 2]


def test_a_score_without_a_direction_has_no_worst_sentences_and_none_that_changed() -> None:
    rows = torch.tensor([[0.5, 1], [4, 2], [-1, 1]])
    scorer = RatioScorer("f", None)
    assert find_worst(rows, scorer, 3) == []
    a, b = (SentenceRows(torch.zeros(3, 0), statistics, scorer) for statistics in (rows, rows.flip(0)))
    assert find_changed(a, b, 3) == ([], [])


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_changed_for_a_function_depend_on_its_direction(higher_is_better: bool) -> None:
    scorer = RatioScorer("f", higher_is_better)
    a, b = (
        SentenceRows(torch.zeros(5, 0), torch.tensor([[float(one), 1] for one in scores]), scorer)
        for scores in ([3, 1, 2, 5, 0], [1, 1, 3, 0, 4])
    )
    lower, higher = [4, 2], [3, 0]  # by 4, 1; and by 5, 2
    for count in (0, 1, 5):
        expected = (lower[:count], higher[:count]) if higher_is_better else (higher[:count], lower[:count])
        assert find_changed(a, b, count) == expected


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_worst_for_a_function_depend_on_its_direction(higher_is_better: bool) -> None:
    rows = torch.tensor([[0.5, 1], [4, 2], [-1, 1], [2, 4], [0, 0]])
    worst = find_worst(rows, RatioScorer("f", higher_is_better), 4)
    assert worst == ([2, 0, 3, 4] if higher_is_better else [1, 0, 3, 4])


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), max_size=8),
    st.integers(0, 10),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_as_many_different_sentences_are_found_as_there_are_that_are_not_perfect(
    rows: list[list[int]], number: int, dtype: torch.dtype
) -> None:
    hypotheses = [[7] * row[0] + [8] * row[1] for row in rows]
    references = [[7] * row[2] + [9] * row[3] + [8] * row[4] for row in rows]
    statistics = count(hypotheses, references).to(dtype) if rows else torch.zeros(0, 10, dtype=dtype)
    worst = find_worst(statistics, BLEU.scorer, number)
    scores = BLEU.scorer.score_sentences(statistics).tolist()
    imperfect = {place for place, score_of in enumerate(scores) if score_of < 1 - 1e-9}
    assert len({*worst}) == len(worst) == min(number, len(imperfect))
    assert {*worst} <= imperfect
    assert worst == find_worst(statistics, BLEU.scorer, len(rows))[:number]


@pytest.mark.parametrize("references", [[""] * 3, ["", "", "a"]])
def test_sentences_without_references_have_a_worst_one_too(references: list[str]) -> None:
    assert sorted(find_worst(count(["a b", "", "c"], references), BLEU.scorer, 3)) == [0, 1, 2]


# Perfect sentences


@pytest.mark.parametrize("percent", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        CorpusBLEU,
        lambda **options: CorpusBLEU(max_order=6, smoothing="add-k", **options),
        CorpusCHRF,
        lambda **options: CorpusCHRF(word_order=2, beta=3, whitespace=True, **options),
    ],
    ids=["BLEU", "BLEU of more orders", "chrF", "chrF++"],
)
def test_a_sentence_like_its_reference_is_never_among_the_worst(make: Any, percent: bool, rng: random.Random) -> None:
    metric = make(percent=percent)
    lines = [" ".join(rng.choices(["a", "b", "c.", "it's"], k=number % 12 + 1)) for number in range(60)]
    hypotheses = [f"{line} x" if number % 5 == 0 else line for number, line in enumerate(lines)]
    statistics = count(hypotheses, [["other words", line] for line in lines], metric)
    assert sorted(find_worst(statistics, metric.scorer, 60)) == [*range(0, 60, 5)]
    assert find_worst(statistics[1:5], metric.scorer, 60) == []


@pytest.mark.parametrize(
    ("higher_is_better", "perfect", "worst"),
    [
        (True, 1, [3, 1, 4]),
        (True, None, [3, 1, 4, 2, 0]),  # nothing is left out
        (True, 5, [3, 1, 4, 2, 0]),
        (False, 0, [0, 2, 4, 1]),
        (False, None, [0, 2, 4, 1, 3]),
        (False, -1, [0, 2, 4, 1, 3]),
        (True, 0.5, [3, 1]),  # what is better than perfect is perfect
        (False, 0.5, [0, 2]),
    ],
)
def test_sentences_with_the_perfect_score_of_a_function_are_left_out(
    higher_is_better: bool, perfect: float | None, worst: list[int]
) -> None:
    scores = [1.0, 0.25, 1 - 1e-15, 0.0, 0.5]
    metric = FunctionMetric(lambda *texts: scores, higher_is_better=higher_is_better, perfect=perfect)
    (loader,) = score(count_lines(Counting({"f": metric}), list("vwxyz"), ["b"] * 5)).loaders
    chosen = choose_sentences(loader, 5)
    assert [*chosen.worst] == worst
    assert [*chosen.first] == [0, 1, 2, 3, 4]


def test_if_all_sentences_are_perfect_none_is_the_worst_and_no_other_score_ranks_them() -> None:
    """The score that ranks them is the same in each validation."""
    metrics = {"errors": FunctionMetric(errors, higher_is_better=False, perfect=0), "bleu": BLEU}
    hypotheses, references = ["a b c", "a b d"], ["a b c", "a b c"]
    (loader,) = score(count_lines(Counting(metrics), hypotheses, references)).loaders
    chosen = choose_sentences(loader, 2)
    assert (chosen.ranked_by, [*chosen.first], chosen.worst) == ("errors", [0, 1], {})


# What is chosen of a loader


@pytest.mark.parametrize("number", [0, 1, 2, 9])
def test_the_first_score_with_a_direction_chooses_the_worst_sentences(number: int) -> None:
    def numbers(hypotheses: list[str], references: list[list[str]]) -> dict[str, list[float]]:
        return {"length": [*map(len, hypotheses)], "errors": [float(line.count("x")) for line in hypotheses]}

    metric = FunctionMetric(numbers, higher_is_better={"length": None, "errors": False})
    lines = ["a x", "a b x x", "a"]
    validation = score(count_lines(Counting({"n": metric, "bleu": BLEU}), lines, ["a b"] * 3))
    (loader,) = validation.loaders
    chosen = choose_sentences(loader, number)
    assert chosen.ranked_by == "n/errors"
    assert [(place, one.hypothesis) for place, one in chosen.first.items()] == [*enumerate(lines)][:number]
    assert [*chosen.worst] == [1, 0, 2][:number]
    assert [one.hypothesis for one in chosen.worst.values()] == [lines[place] for place in (1, 0, 2)][:number]
