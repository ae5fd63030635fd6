"""The text of sentences in the order of the dataset, in one process and in several."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import CorpusBLEU
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.sentences import Sentence, Sentences
from lightning_bleu.training.stage import Stage
from tests.helpers.counting import pad
from tests.helpers.process_groups import ProcessPool, group_of_one


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
    return " ".join(f"w{id_}" for id_ in ids)


def as_digits(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder."""
    return [as_text(row) for row in rows]


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


def as_id_tensors(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    return (
        [torch.tensor(item.hypothesis) for item in items],
        [[*map(torch.tensor, item.references)] for item in items],
        [torch.tensor(item.source) for item in items],
    )


def as_padded_tensors(items: Sequence[Item]) -> tuple[Any, Any, Any]:
    """With 0 as padding, and rows of it in place of references that are missing."""
    references = [[*item.references, *[[]] * (3 - len(item.references))] for item in items]
    return (
        pad([item.hypothesis for item in items], 6),
        torch.stack([pad(group, 7) for group in references]),
        pad([item.source for item in items], 5).numpy(),
    )


FORMS = [as_strings, as_token_lists, as_id_lists, as_id_tensors, as_padded_tensors]
IDS = FORMS[2:]
OPTIONS: dict[str, Any] = {"pad_id": 0, "tokenizer": "none", "max_order": 2}


def evaluate(
    batches: Sequence[tuple[Any, ...]],
    masks: Sequence[Any] = (),
    indices: Sequence[Any] = (),
    *,
    max_texts: float = math.inf,
    **options: Any,
) -> Sentences:
    """The sentences of batches, each of hypotheses, references, and perhaps sources."""
    evaluation, nothing = make_evaluation(max_texts, **options), [None] * len(batches)
    for (preds, target, *source), mask, index in zip(batches, masks or nothing, indices or nothing, strict=True):
        evaluation.update(preds, target, mask, index, source=source[0] if source else None)
    return evaluation.result().sentences


def make_evaluation(max_texts: float = math.inf, **options: Any) -> Evaluation:
    return Evaluation("val_bleu", "", CorpusBLEU(**OPTIONS | options), max_texts=max_texts)


def read_every(sentences: Sentences) -> list[Sentence]:
    return sentences.read(sentences.readable)


# The texts of one process


@pytest.mark.parametrize("decoder", [None, spell])
@pytest.mark.parametrize("source_form", FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_sources_may_have_another_form_than_hypotheses(
    form: Callable[..., Any], source_form: Callable[..., Any], decoder: Any
) -> None:
    """Only ids are decoded, on either side."""
    items = make_items(3)
    sentences = evaluate([(*form(items)[:2], source_form(items)[2])], decoder=decoder)
    is_decoded = form in IDS and decoder is not None
    write = as_digits if form in IDS and not is_decoded else as_text
    write_source = as_digits if source_form in IDS and decoder is None else as_text
    expected = expect(items, write, tokenized=form is not as_strings and not is_decoded)
    expected = [one._replace(source=write_source(item.source)) for one, item in zip(expected, items)]
    assert read_every(sentences) == expected


# The sentences that count


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[tuple[Any, ...]], list[Any], list[Sentence]]:
    """Batches of any size and form, some with sources; their masks; and the sentences that count."""
    batches, masks, expected = [], [], []
    for number in range(draw(st.integers(0, 4))):
        items = make_items(draw(st.integers(0, 3)), seed=number)
        form = draw(st.sampled_from(FORMS)) if items else as_strings
        batch = form(items)
        sentences = expect(items, as_digits if form in IDS else as_text, tokenized=form is not as_strings)
        if draw(st.booleans()):
            batch = batch[:2]
            sentences = [sentence._replace(source=None) for sentence in sentences]
        one_each = st.lists(st.booleans(), min_size=len(items), max_size=len(items))
        mask = draw(st.none() | one_each | st.lists(st.booleans(), min_size=1, max_size=1))
        counts = [True] * len(items) if mask is None else mask * len(items) if len(mask) == 1 else mask
        batches.append(batch)
        masks.append(mask)
        expected += [sentence for sentence, keep in zip(sentences, counts) if keep]
    return batches, masks, expected


@given(corpora(), st.randoms(use_true_random=False))
def test_the_sentences_that_count_are_read_in_order_whatever_the_batches(
    corpus: tuple[list[tuple[Any, ...]], list[Any], list[Sentence]], rng: random.Random
) -> None:
    batches, masks, expected = corpus
    sentences = evaluate(batches, masks)
    assert sentences.readable == list(range(len(expected)))
    assert len(sentences.statistics) == len(expected)
    assert read_every(sentences) == expected
    rows = rng.choices(range(len(expected)), k=5) if expected else []
    assert sentences.read(rows) == [expected[row] for row in rows]
    if expected:
        lengths = [len(sentence.hypothesis.split()) for sentence in expected]
        assert sentences.statistics[:, -2].tolist() == lengths


def test_statistics_are_32_bit_integers_on_the_cpu() -> None:
    items = make_items(4)
    sentences = evaluate([as_id_lists(items)])
    assert (sentences.statistics.dtype, sentences.statistics.device.type) == (torch.int32, "cpu")
    assert sentences.statistics.shape == (4, 6)  # two orders


def test_there_may_be_no_sentences() -> None:
    for batches, masks in (([], []), ([([], [])], [None]), ([as_strings(make_items(2))], [[False]])):
        sentences = evaluate(batches, masks)
        assert (sentences.readable, sentences.statistics.shape) == ([], (0, 6))
        assert sentences.read([]) == read_every(sentences) == []


@pytest.mark.parametrize(("max_texts", "count"), [(1, 1), (3, 3), (4, 4), (5, 5), (6, 6), (100, 6)])
def test_the_number_of_texts_is_that_of_the_limit(max_texts: int, count: int) -> None:
    items = make_items(6)
    sentences = evaluate([as_strings(items[:4]), as_strings(items[4:])], max_texts=max_texts)
    assert sentences.readable == list(range(count))
    assert len(sentences.statistics) == 6
    assert read_every(sentences) == expect(items[:count], as_text, tokenized=False)


@pytest.mark.parametrize("max_texts", [1, 2, 3, 4, 6])
def test_masked_sentences_do_not_use_up_the_limit(max_texts: int) -> None:
    items, count = make_items(6), min(max_texts, 4)
    sentences = evaluate([as_strings(items[:2]), as_strings(items[2:])], [[False, False], None], max_texts=max_texts)
    assert sentences.readable == list(range(count))
    assert len(sentences.statistics) == 4
    assert read_every(sentences) == expect(items[2 : 2 + count], as_text, tokenized=False)


@given(corpora(), st.integers(1, 12))
def test_the_first_sentences_that_count_are_those_with_text(
    corpus: tuple[list[tuple[Any, ...]], list[Any], list[Sentence]], max_texts: int
) -> None:
    batches, masks, expected = corpus
    sentences = evaluate(batches, masks, max_texts=max_texts)
    assert sentences.readable == list(range(min(max_texts, len(expected))))
    assert read_every(sentences) == expected[:max_texts]


positions = st.lists(st.integers(0, 9), max_size=20)


@given(positions, st.integers(1, 5), st.sampled_from([3, math.inf]))
def test_the_sentences_that_are_read_come_in_the_order_of_their_positions_without_repeats(
    positions: list[int], batch_size: int, max_texts: float
) -> None:
    items = make_items(10)
    indices = [positions[start : start + batch_size] for start in range(0, len(positions), batch_size)]
    batches = [as_strings([items[position] for position in index]) for index in indices]
    sentences = evaluate(batches, indices=indices, max_texts=max_texts)
    counted = sorted(set(positions))
    assert len(sentences.statistics) == len(counted)
    # The first to be counted have text.
    first = {position for number, position in enumerate(positions) if number < max_texts}
    assert [counted[number] for number in sentences.readable] == sorted(first)
    assert read_every(sentences) == expect([items[position] for position in sorted(first)], as_text, tokenized=False)


def test_sentences_can_be_read_after_a_reset() -> None:
    items = make_items(4)
    evaluation = make_evaluation()
    evaluation.update(*as_strings(items)[:2])
    sentences = evaluation.result().sentences
    evaluation.metric.reset()
    assert [sentence.hypothesis for sentence in read_every(sentences)] == [as_text(item.hypothesis) for item in items]


def test_a_group_of_one_process_is_like_none() -> None:
    items = make_items(5)
    with group_of_one():
        sentences = evaluate([as_strings(items)], [[True, False, True, True, False]])
        read = read_every(sentences)
    assert read == expect([items[0], *items[2:4]], as_text, tokenized=False)


# In several processes


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(3)
    yield pool
    pool.close()


several_processes = pytest.mark.parametrize(
    "processes", [pytest.param(number, marks=pytest.mark.slow) for number in (2, 3)]
)


class Case(NamedTuple):
    """How a dataset is read.

    Attributes:
        data: the items, or batches of items of any sizes if there is no batch size.
        batch_size: as in a loader.
        form: the form in which a step returns the sentences of a batch.
        decoder: the decoder of the metric.
        max_texts: as in an evaluation.
        rows: the rows that are read; all when None.
        sources: the numbers of the batches that have sources; all when None.
    """

    data: list[Any]
    batch_size: int | None = 4
    form: Callable[..., Any] = as_strings
    decoder: Any = None
    max_texts: float = math.inf
    rows: list[int] | None = None
    sources: list[int] | None = None


class Outcome(NamedTuple):
    """What a process knows of a case."""

    read: list[Sentence]
    statistics: list[list[int]]
    readable: list[int]


def run_cases(rank: int, world_size: int, cases: list[Case]) -> list[Outcome]:
    return [run_case(rank, world_size, case) for case in cases]


def run_case(rank: int, world_size: int, case: Case) -> Outcome:
    """Count what a `DistributedSampler` deals to a process, or everything if there is only one."""
    sampler: Any = DistributedSampler(case.data, world_size, rank, shuffle=False) if world_size > 1 else None  # type: ignore[arg-type]
    loader: Any = DataLoader(case.data, batch_size=case.batch_size, sampler=sampler, collate_fn=list)  # type: ignore[arg-type]
    evaluation = make_evaluation(case.max_texts, decoder=case.decoder)
    stage = Stage("val_bleu", "validation_step", [loader], [evaluation])
    for batch_idx, batch in enumerate(loader):
        preds, target, source = case.form(batch)
        if case.sources is not None and batch_idx not in case.sources:
            source = None
        stage.update({"preds": preds, "target": target, "source": source}, batch, batch_idx, 0)
    return summarize(stage.finish().results["val_bleu"].sentences, case.rows)


def summarize(sentences: Sentences, rows: list[int] | None = None) -> Outcome:
    read = sentences.read(sentences.readable if rows is None else rows)
    return Outcome(read, sentences.statistics.tolist(), sentences.readable)


def check_cases(cases: list[Case], processes: int, pool: ProcessPool) -> None:
    """Process 0 must read what a process alone reads, and the others nothing; all must know the statistics."""
    alone = run_cases(0, 1, cases)
    assert any(outcome.read for outcome in alone)
    first, *others = pool.run(processes, run_cases, cases)
    assert first == alone
    for outcomes in others:
        assert outcomes == [outcome._replace(read=[]) for outcome in alone]


@several_processes
def test_process_0_reads_the_sentences_of_all_processes_in_the_order_of_the_dataset(
    processes: int, pool: ProcessPool
) -> None:
    """All but 12 items need repeats to be dealt to two and three processes; of one item there are only repeats."""
    cases = [Case(make_items(size), batch_size) for size in (1, 2, 5, 12, 37) for batch_size in (1, 4, 100)]
    cases += [Case(make_items(13), 4, form) for form in FORMS]
    assert run_case(0, 1, cases[14]).read == expect(make_items(37), as_text, tokenized=False)
    check_cases(cases, processes, pool)


@several_processes
def test_items_of_different_sizes_are_read_in_the_order_of_the_dataset(processes: int, pool: ProcessPool) -> None:
    """In a loader without a batch size, an item is a batch, which counts as a whole or not at all."""
    items = make_items(37)

    def split(*sizes: int) -> list[list[Item]]:
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        return [items[end - size : end] for size, end in zip(sizes, ends)]

    cases = [
        Case(split(*sizes), None, form)
        for sizes in ([5, 1, 8, 23], [1, 2, 3, 4, 5, 6, 7], [9], [1, 1], [20, 1, 16])
        for form in (as_strings, as_id_tensors)
    ]
    assert run_case(0, 1, cases[0]).read == expect(items, as_text, tokenized=False)
    check_cases(cases, processes, pool)


@several_processes
def test_ids_are_decoded_in_the_process_that_has_them(processes: int, pool: ProcessPool) -> None:
    cases = [Case(make_items(13), 4, form, decoder=spell) for form in IDS]
    assert run_case(0, 1, cases[0]).read == expect(make_items(13), as_text, tokenized=False)
    check_cases(cases, processes, pool)


@several_processes
def test_any_rows_can_be_read_in_any_order(processes: int, pool: ProcessPool) -> None:
    items = make_items(37)
    cases = [Case(items, rows=rows) for rows in ([36, 0, 5, 0, 12, 36], [7], [], [*range(36, -1, -1)])]
    expected = expect(items, as_text, tokenized=False)
    assert run_case(0, 1, cases[0]).read == [expected[row] for row in (36, 0, 5, 0, 12, 36)]
    check_cases(cases, processes, pool)


@several_processes
@pytest.mark.parametrize("max_texts", [1, 7, 10, 37, 100])
def test_a_limit_is_for_the_sentences_of_all_processes(max_texts: int, processes: int, pool: ProcessPool) -> None:
    """Each process may keep more, but the first ones of the dataset are those that all agree on."""
    cases = [Case(make_items(37), batch_size, max_texts=max_texts) for batch_size in (1, 4)]
    alone = run_case(0, 1, cases[0])
    assert alone.readable == list(range(min(max_texts, 37)))
    assert len(alone.statistics) == 37
    check_cases(cases, processes, pool)


def leave_some_out(rank: int, world_size: int, cases: list[list[int]]) -> list[Outcome]:
    """All ranks but those of a case have two sentences; the last of them does not count in rank 1."""
    outcomes = []
    for left_out in cases:
        evaluation = make_evaluation()
        if rank not in left_out:
            source = [f"s{rank}", f"t{rank}"] if rank else None  # rank 0 has none
            evaluation.update([f"a{rank}", f"b{rank}"], [f"c{rank}", f"d{rank}"], [True, rank != 1], source=source)
        outcomes.append(summarize(evaluation.result().sentences))
    return outcomes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
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
            assert sentence.source == (None if rank == "0" else letter + rank)
        assert outcome.readable == list(range(len(expected)))
        assert len(outcome.statistics) == len(expected)
        assert rest == [outcome._replace(read=[])] * 2


@several_processes
def test_sources_may_be_missing_from_some_batches_of_each_process(processes: int, pool: ProcessPool) -> None:
    items = make_items(12)
    case = Case(items, batch_size=2, sources=[0])
    first, *_ = pool.run(processes, run_cases, [case])
    # The first batch of each process has the first items.
    expected = expect(items, as_text, tokenized=False)
    without = [sentence._replace(source=None) for sentence in expected]
    assert first[0].read == [*expected[: 2 * processes], *without[2 * processes :]]


def overlap(rank: int, world_size: int, max_texts: float) -> Outcome:
    """Each process has five neighbors out of eight items, in reverse; the two in the middle are in both."""
    positions = [[4, 3, 2, 1, 0], [7, 6, 5, 4, 3]][rank]
    items = make_items(8)
    preds, target, source = as_strings([items[position] for position in positions])
    evaluation = make_evaluation(max_texts)
    evaluation.update([f"{line} r{rank}" for line in preds], target, index=positions, source=source)
    return summarize(evaluation.result().sentences)


@pytest.mark.slow
@pytest.mark.parametrize(("max_texts", "readable"), [(math.inf, [*range(8)]), (3, [2, 3, 4]), (1, [4])])
def test_a_position_is_read_from_the_first_process_that_has_it(
    max_texts: float, readable: list[int], pool: ProcessPool
) -> None:
    """The first sentences that each process counts have text."""
    first, other = pool.run(2, overlap, max_texts)
    assert (len(first.statistics), first.readable) == (8, readable)
    items = expect(make_items(8), as_text, tokenized=False)
    expected = [items[number]._replace(hypothesis=f"{items[number].hypothesis} r{number > 4:d}") for number in readable]
    assert first.read == expected
    assert other == first._replace(read=[])
