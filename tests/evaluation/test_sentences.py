"""The sentences of a loader: their statistics and their texts, in order, in one process and in several."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU
from lightning_bleu.core.batch import Sentence
from tests.helpers.counting import pad
from tests.helpers.process_groups import ProcessPool
from tests.helpers.text import spell
from tests.helpers.validations import Counting, count, gather, score


class Item(NamedTuple):
    """A sentence as ids, which other forms are made of."""

    hypothesis: list[int]
    references: list[list[int]]
    source: list[int]


def make_items(count: int, *, seed: int = 0, references: int = 3) -> list[Item]:
    """Sentences of 1 to 5 ids in 3 ... 9, each with up to three references."""
    rng = random.Random(seed)

    def draw() -> list[int]:
        return rng.choices(range(3, 10), k=rng.randint(1, 5))

    return [Item(draw(), [draw() for _ in range(rng.randint(1, references))], draw()) for _ in range(count)]


def as_text(ids: Sequence[int]) -> str:
    return spell([[*ids]])[0]


def as_digits(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def expect(items: Sequence[Item], write: Callable[[Sequence[int]], str], *, tokenized: bool) -> list[Sentence]:
    """The sentences that items become."""
    return [
        Sentence(write(item.hypothesis), [*map(write, item.references)], write(item.source), tokenized)
        for item in items
    ]


# A form takes items, and returns hypotheses, references, and sources.


def as_strings(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    return (
        [as_text(item.hypothesis) for item in items],
        [[*map(as_text, item.references)] for item in items],
        [as_text(item.source) for item in items],
    )


def as_token_lists(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    preds, target, source = as_strings(items)
    return [line.split() for line in preds], [[*map(str.split, group)] for group in target], [*map(str.split, source)]


def as_id_lists(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    return [item.hypothesis for item in items], [item.references for item in items], [item.source for item in items]


def as_padded_tensors(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    """With 0 as padding, and rows of it in place of references that are missing."""
    references = [[*item.references, *[[]] * (3 - len(item.references))] for item in items]
    return (
        pad([item.hypothesis for item in items], 6),
        torch.stack([pad(group, 7) for group in references]),
        pad([item.source for item in items], 5).numpy(),
    )


FORMS = [as_strings, as_token_lists, as_id_lists, as_padded_tensors]
IDS = FORMS[2:]
METRIC = CorpusBLEU(pad_id=0, tokenizer="none", max_order=2)
"""Has six statistics: matches and possible matches of two orders, and two lengths."""


def count_batches(
    batches: Sequence[tuple[Any, ...]], fields: Sequence[dict[str, Any]] = (), **options: Any
) -> Counting:
    """Count batches, each of hypotheses, references, and perhaps sources, with other fields."""
    counting = Counting(METRIC, **options)
    for (preds, target, *source), others in zip(batches, fields or [{}] * len(batches), strict=True):
        count(counting, preds, target, source=source[0] if source else None, **others)
    return counting


class Outcome(NamedTuple):
    """What a process knows after a validation."""

    read: list[Sentence]
    statistics: list[list[int]]
    text_count: int
    groups: Mapping[str, Sequence[int]]


def summarize(counting: Counting, rows: list[int] | None = None) -> Outcome:
    for loader in score(counting).loaders:
        sentences = loader.sentences
        read = [*sentences.texts] if rows is None else [sentences.texts[row] for row in rows]
        statistics = sentences.statistics["bleu"][""].tolist()
        return Outcome(read, statistics, len(sentences.texts), dict(sentences.groups))
    return Outcome([], [], 0, {})


def number_groups(sentences: Sequence[Sentence]) -> dict[str, list[int]]:
    """The numbers of the sentences of each group."""
    groups: dict[str, list[int]] = {}
    for number, sentence in enumerate(sentences):
        if sentence.group is not None:
            groups.setdefault(sentence.group, []).append(number)
    return dict(sorted(groups.items()))


# The texts of one process


@pytest.mark.parametrize("decoder", [None, spell])
@pytest.mark.parametrize("source_form", FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_sources_may_have_another_form_than_hypotheses(
    form: Callable[..., Any], source_form: Callable[..., Any], decoder: Any
) -> None:
    """Only ids are decoded, on either side."""
    items = make_items(3)
    counting = count_batches([(*form(items)[:2], source_form(items)[2])], decoder=decoder)
    is_decoded = form in IDS and decoder is not None
    write = as_digits if form in IDS and not is_decoded else as_text
    write_source = as_digits if source_form in IDS and decoder is None else as_text
    expected = expect(items, write, tokenized=form is not as_strings and not is_decoded)
    expected = [sentence._replace(source=write_source(item.source)) for sentence, item in zip(expected, items)]
    assert summarize(counting).read == expected


def reuse(value: Any) -> None:
    """Write something else into the buffers of a step."""
    if isinstance(value, torch.Tensor | np.ndarray):
        value[:] = 0
    elif isinstance(value, list):
        for part in value:
            reuse(part)
        value.clear()


@pytest.mark.parametrize("ignore_ids", [None, -100])  # without an id to remove, ids need no copy
@pytest.mark.parametrize("form", FORMS)
def test_sentences_in_any_form_are_counted_and_read_although_buffers_are_reused(form: Any, ignore_ids: Any) -> None:
    items = make_items(6, references=1)
    counting = Counting(CorpusBLEU(pad_id=0, tokenizer="none", max_order=2, ignore_ids=ignore_ids))
    for batch in (items[:3], items[3:]):
        preds, target, source = form(copy.deepcopy(batch))
        count(counting, preds, target, source=source)
        reuse([preds, target, source])
    outcome = summarize(counting)
    assert outcome.statistics == summarize(count_batches([as_id_lists(items)])).statistics
    write = as_digits if form in IDS else as_text
    assert outcome.read == expect(items, write, tokenized=form is not as_strings)


# The sentences that count


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]], list[Sentence]]:
    """Batches of any size and form, perhaps with sources; their masks and labels; and the sentences that count."""
    batches, fields, expected = [], [], []
    has_sources, has_groups = draw(st.booleans()), draw(st.booleans())
    for number in range(draw(st.integers(0, 4))):
        items = make_items(draw(st.integers(0, 3)), seed=number)
        form = draw(st.sampled_from(FORMS)) if items else as_strings
        batch = form(items)
        sentences = expect(items, as_digits if form in IDS else as_text, tokenized=form is not as_strings)
        if not has_sources:
            batch = batch[:2]
            sentences = [sentence._replace(source=None) for sentence in sentences]
        labels = None
        if has_groups:
            labels = draw(st.lists(st.sampled_from(["zh", "de", "fr"]), min_size=len(items), max_size=len(items)))
            sentences = [sentence._replace(group=label) for sentence, label in zip(sentences, labels)]
        one_each = st.lists(st.booleans(), min_size=len(items), max_size=len(items))
        mask = draw(st.none() | one_each | st.lists(st.booleans(), min_size=1, max_size=1))
        counts = [True] * len(items) if mask is None else mask * len(items) if len(mask) == 1 else mask
        batches.append(batch)
        fields.append({"sample_mask": mask, "group": labels})
        expected += [sentence for sentence, keep in zip(sentences, counts) if keep]
    return batches, fields, expected


@given(corpora(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_sentences_that_count_are_read_in_order_whatever_the_batches_and_the_first_have_text(
    corpus: tuple[list[tuple[Any, ...]], list[dict[str, Any]], list[Sentence]], max_texts: int, rng: random.Random
) -> None:
    batches, fields, expected = corpus
    rows = rng.choices(range(min(max_texts, len(expected))), k=5) if expected else []
    outcome = summarize(count_batches(batches, fields, max_texts=max_texts), rows)
    assert outcome.read == [expected[row] for row in rows]
    assert outcome.text_count == min(max_texts, len(expected))
    assert [row[-2] for row in outcome.statistics] == [len(sentence.hypothesis.split()) for sentence in expected]
    assert outcome.groups == number_groups(expected)
    assert [*outcome.groups] == sorted(outcome.groups)


positions = st.lists(st.integers(0, 9), max_size=20)


@given(positions, st.integers(1, 5), st.sampled_from([3, sys.maxsize]))
def test_the_sentences_that_are_read_come_in_the_order_of_their_positions_without_repeats(
    positions: list[int], batch_size: int, max_texts: int
) -> None:
    items = make_items(10)
    indices = [positions[start : start + batch_size] for start in range(0, len(positions), batch_size)]
    batches = [as_strings([items[position] for position in index]) for index in indices]
    outcome = summarize(count_batches(batches, [{"index": index} for index in indices], max_texts=max_texts))
    counted = sorted(set(positions))
    assert len(outcome.statistics) == len(counted)
    first = [position for number, position in enumerate(counted) if number < max_texts]
    assert outcome.read == expect([items[position] for position in first], as_text, tokenized=False)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=20), st.integers(1, 5))
def test_sentences_with_labels_come_in_the_order_of_their_positions_then_of_their_labels(
    keys: list[tuple[int, str]], batch_size: int
) -> None:
    """The first one of each position and label counts."""
    batches, fields = [], []
    for start in range(0, len(keys), batch_size):
        batch = keys[start : start + batch_size]
        batches.append(([f"{start + number}" for number in range(len(batch))], [f"{key}" for key in batch]))
        fields.append({"index": [position for position, _ in batch], "group": [label for _, label in batch]})
    outcome = summarize(count_batches(batches, fields))
    first: dict[tuple[int, str], int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    expected = [Sentence(f"{first[key]}", [f"{key}"], group=key[1]) for key in sorted(first)]
    assert outcome.read == expected
    assert outcome.groups == number_groups(expected)


def test_the_index_of_sentences_is_what_the_step_returned_without_repeats() -> None:
    counting = count(Counting(), ["a", "b", "c"], ["a", "b", "c"], index=[2**40, 5, 7], sample_mask=[True, True, False])
    count(counting, ["b"], ["b"], index=[5])
    index = gather(counting).index
    assert index is not None
    assert index.tolist() == [5, 2**40]
    assert gather(count(Counting(), ["a"], ["a"])).index is None


# In several processes


def leave_some_out(rank: int, world_size: int, cases: list[list[int]]) -> list[Outcome]:
    """All ranks but those of a case have two sentences; the last of them does not count in rank 1."""
    outcomes = []
    for left_out in cases:
        counting = Counting(METRIC)
        if rank not in left_out:
            lines = [f"a{rank}", f"b{rank}"], [f"c{rank}", f"d{rank}"]
            count(counting, *lines, sample_mask=[True, rank != 1], source=[f"s{rank}", f"t{rank}"])
        outcomes.append(summarize(counting))
    return outcomes


@pytest.mark.slow
def test_a_process_without_sentences_reads_those_of_the_others(pool: ProcessPool) -> None:
    cases = [[], [0], [1], [2], [0, 1], [1, 2], [0, 1, 2]]
    first, *others = pool.run(3, leave_some_out, cases)
    # Without positions, the order is that of the processes.
    dealt = [(0, "a0"), (0, "b0"), (1, "a1"), (2, "a2"), (2, "b2")]
    for left_out, outcome, *rest in zip(cases, first, *others):
        expected = [hypothesis for rank, hypothesis in dealt if rank not in left_out]
        assert [sentence.hypothesis for sentence in outcome.read] == expected
        for sentence in outcome.read:
            rank = sentence.hypothesis[1]
            letter = {"a": "s", "b": "t"}[sentence.hypothesis[0]]
            assert sentence.source == letter + rank
        assert outcome.text_count == len(outcome.statistics) == len(expected)
        assert rest == [outcome] * 2


def overlap(rank: int, world_size: int, max_texts: int) -> Outcome:
    """Each process has five neighbors out of eight items, in reverse; the two in the middle are in both."""
    positions = [[4, 3, 2, 1, 0], [7, 6, 5, 4, 3]][rank]
    items = make_items(8)
    preds, target, source = as_strings([items[position] for position in positions])
    counting = Counting(METRIC, max_texts=max_texts)
    return summarize(count(counting, [f"{line} r{rank}" for line in preds], target, index=positions, source=source))


@pytest.mark.slow
@pytest.mark.parametrize("max_texts", [sys.maxsize, 7, 3, 1])
def test_a_position_is_read_from_the_first_process_that_has_it(max_texts: int, pool: ProcessPool) -> None:
    first, other = pool.run(2, overlap, max_texts)
    assert len(first.statistics) == 8
    expected = []
    for number, sentence in enumerate(expect(make_items(8), as_text, tokenized=False)):
        if number < max_texts:
            expected.append(sentence._replace(hypothesis=f"{sentence.hypothesis} r{number > 4:d}"))
    assert first.read == expected
    assert other == first
