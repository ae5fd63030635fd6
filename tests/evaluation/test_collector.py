"""The batches of a validation: what is counted, for which loader and group, and what is an error."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import pytest
import torch
from sacrebleu.metrics.ter import TER
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler

from lightning_bleu import CorpusBLEU, CorpusCHRF, FunctionMetric
from lightning_bleu.evaluation.input.outputs import Output
from tests.helpers.callback_metrics import checksum, exact, try_to
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A, B
from tests.helpers.validations import Counting, count, gather, join, score

METRIC = CorpusBLEU(tokenizer="none", smoothing="exp")


def count_kept(counting: Counting) -> dict[str, int]:
    """The numbers of sentences of each loader and of its groups."""
    counted = {}
    for loader in score(counting).loaders:
        counted[loader.name] = len(loader.sentences)
        for label, numbers in loader.sentences.groups.items():
            counted[f"{loader.name}/{label}"] = len(numbers)
    return counted


# The sentences of batches


@pytest.mark.parametrize("metric", [CorpusCHRF(), TER(), exact], ids=["counted", "of text", "function"])
@pytest.mark.parametrize(("sentence", "kind"), [([5, 6], "ids"), (["a", "b"], "tokens")])
def test_ids_and_tokens_are_errors_for_metrics_of_text(sentence: Any, kind: str, metric: Any) -> None:
    message = rf"(the metric 'x' needs text, got|chrF counts .* text, but .* are) {kind}: .* strings \(join .*decoder="
    with pytest.raises(TypeError, match=message):
        count(Counting({"bleu": CorpusBLEU(), "x": metric}), [sentence], [[sentence]])


def test_a_loader_without_sources_among_others_is_an_error_of_functions_that_take_them() -> None:
    def length(hypotheses: list[str], references: list[list[str]], sources: Any = None) -> list[float]:
        return [0.5 if sources is None else 1.0] * len(hypotheses)

    counting = Counting({"f": length}, names=["a", "b"])
    count(counting, A, REFERENCES, source=A)
    count(counting, A, REFERENCES, dataloader_idx=1)
    with pytest.raises(
        ValueError, match="returned 'source' for some loaders only: return it for all sentences, or for none"
    ):
        join(counting)


def test_a_loader_without_sources_among_others_is_no_error_if_no_metric_takes_them() -> None:
    counting = Counting(names=["a", "b"])
    count(counting, A, REFERENCES, source=A)
    count(counting, A, REFERENCES, dataloader_idx=1)
    assert count_kept(counting) == {"a": 4, "b": 4}


def test_a_warning_about_a_batch_is_said_once_for_all_metrics() -> None:
    counting = Counting({"bleu": CorpusBLEU(), "bleu2": CorpusBLEU(max_order=2)})
    with pytest.warns(UserWarning, match="neither 'pad_id' nor 'eos_id'") as warned:
        count(counting, *torch.ones(2, 2, 3).long())
    assert len(warned) == 1


# After an error


def describe(counting: Counting) -> Any:
    """Everything that a validation knows when it ends."""
    joined = join(counting)
    loaders = [
        (
            sentences.loader,
            sentences.identity.tolist(),
            [{score: rows.tolist() for score, rows in sentences.statistics[name].items()} for name in counting.metrics],
            sentences.groups,
            None if sentences.index is None else sentences.index.tolist(),
            sentences.texts,
        )
        for sentences in joined.loaders
    ]
    return loaders, joined.read, joined.skipped


ONE_MORE: dict[str, Any] = {
    "preds": ["a"],
    "target": ["a"],
    "source": ["x"],
    "index": [4],
    "group": ["de"],
    "id": ["e"],
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no reference": (
        {"target": []},
        "ValueError: 'preds' and 'target' must have the same number",
    ),
    "no hypotheses": ({"preds": None}, "TypeError: 'preds' must be a list of strings"),
    "another mask": ({"sample_mask": [True] * 3}, "ValueError: 'sample_mask' must have one value"),
    "two sources": (
        {"source": ["x", "y"]},
        "ValueError: 'source' and 'preds' must have the same number",
    ),
    "a position before 0": ({"index": [-1]}, "ValueError: 'index' must hold positions in the dataset, from 0"),
    "an id of another type": ({"id": [0.5]}, "TypeError: 'id' must hold a string or an integer per sentence, got"),
    "two ids": ({"id": [1, 2]}, "ValueError: 'id' must hold a string or an integer per sentence, got 2 for 1"),
    "two labels": (
        {"group": ["de", "fr"]},
        "ValueError: 'group' must hold a string per sentence, the label of",
    ),
    "a reserved label": ({"group": ["mean"]}, "ValueError: the groups cannot have the name 'mean'"),
    "a second label": (
        {
            "preds": ["a", "b"],
            "target": ["a", "b"],
            "source": ["a", "b"],
            "index": [4, 5],
            "group": ["de/x", "low"],
            "id": [1, 2],
        },
        "ValueError: the groups cannot have the name 'low'",
    ),
    "tokens": ({"preds": [["a"]], "target": [["a"]]}, "TypeError: the metric 'f' needs text, got tokens"),
    "sources as ids": ({"source": [[5]]}, "TypeError: the metric 'f' takes sources as text, got ids"),
    "a warning": (
        {"preds": ["the cat is here"], "target": [["the", "cat", "sat"]]},
        "UserWarning: Every reference in 'target' is a single word",
    ),
}
"""Errors of a batch, also of the first one."""
OTHER: dict[str, tuple[dict[str, Any], str]] = {
    f"no {field}": ({field: None}, f"ValueError: 'validation_step' returned {field!r} for some batches only")
    for field in ("source", "index", "group", "id")
}
"""Errors of a batch among others."""


@pytest.mark.parametrize(
    ("fields", "message", "before"),
    [
        *(pytest.param(*wrong, before, id=f"{name} {before}") for name, wrong in WRONG.items() for before in (0, 1, 2)),
        *(pytest.param(*wrong, before, id=f"{name} {before}") for name, wrong in OTHER.items() for before in (1, 2)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_after_an_error_it_is_as_if_there_had_been_no_batch(fields: dict[str, Any], message: str, before: int) -> None:
    """Also if the user turned warnings into errors."""
    batches: list[dict[str, Any]] = [
        {
            "preds": A[:2],
            "target": REFERENCES[:2],
            "source": A[:2],
            "index": [2, 1],
            "group": ["de", "fr"],
            "id": [7, 8],
        },
        {
            "preds": A[2:],
            "target": REFERENCES[2:],
            "source": A[2:],
            "index": [0, 1],
            "group": ["zh", "zh"],
            "id": ["c", 9],
        },
    ]
    metrics = {"bleu": CorpusBLEU(), "f": checksum}
    counting, without = Counting(metrics), Counting(metrics)
    for number, batch in enumerate([*batches, None]):
        if number == before:
            assert try_to(count, counting, **ONE_MORE | fields).startswith(message)
            assert describe(counting) == describe(without)
        if batch is not None:
            count(counting, **batch)
            count(without, **batch)
    assert describe(counting) == describe(without)


def test_a_batch_with_an_error_has_no_number() -> None:
    """The number of a batch in its loader is counted if it is not passed."""
    counting = Counting(names=["a", "b"], dataloaders=[[1, 2], [1]])
    update = counting.collector.update
    for number in range(2):
        with pytest.raises(ValueError, match="'preds' and 'target' must have the same number"):
            update(Output(["a"], []))
        update(Output([f"a{number}"], ["a"]))
    with pytest.raises(ValueError, match=r"^the loader 'a' has 2 batches, but 'validation_step' got more: pass the"):
        update(Output(["a"], ["a"]))
    assert count_kept(counting) == {"a": 2}


# Groups


def test_one_position_and_one_label_of_different_sentences_is_an_error() -> None:
    counting = count(Counting(), ["a", "b"], ["a", "b"], index=[7, 7], group=["de", "fr"])
    assert len(gather(counting)) == 2
    count(counting, ["c"], ["c"], index=[7], group=["fr"])
    with pytest.raises(ValueError, match=r"^different sentences have the same 'index' 7: their references differ\."):
        join(counting)


def test_the_whole_is_first_then_loaders_in_their_order_and_groups_in_that_of_the_alphabet() -> None:
    counting = Counting({"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}, ["talks", "news"])
    count(counting, ["a"] * 3, ["a"] * 3, group=["fr", "de", "zh"], dataloader_idx=1)
    count(counting, ["a"] * 2, ["a"] * 2, group=["zh", "zh"])
    count(counting, ["a"], ["a"], group=["en"])
    assert count_kept(counting) == {"talks": 3, "talks/en": 1, "talks/zh": 2, "news": 3} | {
        f"news/{label}": 1 for label in ("de", "fr", "zh")
    }
    groups = ["talks/en", "talks/zh", "talks/mean", "news/de", "news/fr", "news/zh", "news/mean"]
    expected = ["val_bleu", *(f"val_bleu/{name}" for name in ("talks", "news", *groups))]
    assert [name for name in score(counting).results if "bleu" in name] == expected


def test_labels_of_one_loader_that_clash_are_an_error_of_the_end_and_of_two_loaders_none() -> None:
    counting = count(Counting(names=["a", "b"]), ["a"], ["b"], group=["de"])
    count(counting, ["a"], ["b"], group=["de/x"], dataloader_idx=1)
    assert count_kept(counting) == {"a": 1, "a/de": 1, "b": 1, "b/de/x": 1}
    count(counting, ["a"], ["b"], group=["de/x"])
    with pytest.raises(ValueError, match=r"^the names 'de' and 'de/x' of the groups clash: de/\.\.\. is logged$"):
        join(counting)


# Only some labels


def test_the_sentences_of_other_groups_do_not_count() -> None:
    counting = Counting(labels=["de", "zh"])
    fields: dict[str, Any] = {"group": ["de", "fr", "de", "zh"], "index": [3, 2, 1, 0], "source": A}
    count(counting, A, REFERENCES, **fields, sample_mask=[True, True, False, True])
    sentences = gather(counting)
    assert [(sentence.hypothesis, sentence.group) for sentence in sentences.texts] == [(A[3], "zh"), (A[0], "de")]
    expected = count(Counting(), [A[3], A[0]], [REFERENCES[3], REFERENCES[0]])
    assert score(counting).results["val_bleu"].score == score(expected).results["val_bleu"].score


def test_sentences_that_are_not_scored_are_checked_but_not_their_labels() -> None:
    """The name of a group that is not logged may be any."""
    counting = count(Counting(labels=["de"]), ["a", "b", "c"], ["a", "b", "c"], group=["low", "de", ""])
    assert count_kept(counting) == {"": 1, "/de": 1}
    with pytest.raises(ValueError, match="'preds' and 'target' must have the same number"):
        count(counting, ["a"], [], group=["fr"])
    with pytest.raises(ValueError, match="'group' must hold a string per sentence, the label of its group"):
        count(counting, ["a"], ["a"], group=[])


def test_without_labels_nothing_counts_where_only_some_do() -> None:
    counting = count(Counting(labels=["de"]), A, REFERENCES)
    joined = join(counting)
    assert (joined.loaders, joined.read) == ([], 1)


def test_batches_of_which_nothing_counts_may_have_other_fields() -> None:
    counting = count(Counting(labels=["de"]), A, REFERENCES, group=["fr"] * 4, index=range(4))
    count(counting, A, REFERENCES)
    assert count_kept(count(counting, ["a"], ["a"], group=["de"])) == {"": 1, "/de": 1}


def test_the_batches_of_a_loader_that_is_ignored_may_be_anything() -> None:
    counting = Counting(names=["news"], labels=[])
    assert counting.collector.loaders[0].is_ignored
    counting.collector.update(Output(5, 6, "x"), 7)
    joined = join(counting)
    assert (joined.loaders, joined.read, joined.skipped) == ([], 0, 0)


def test_sources_are_decoded_once_however_many_metrics_read_them() -> None:
    decoded = []

    def decode(ids: list[list[int]]) -> list[str]:
        decoded.extend(ids)
        return [" ".join(map(str, line)) for line in ids]

    metrics = {name: FunctionMetric(lambda preds, target: [1.0] * len(preds)) for name in ("x", "y")}
    counting = count(Counting(metrics, decoder=decode, max_texts=1), ["a", "b"], ["a", "b"], source=[[5], [6]])
    (loader,) = counting.collector.close().loaders
    assert [sentence.source for sentence in loader.texts.values()] == ["5"]
    assert decoded == [[5], [6]]


# In several processes


class Case(NamedTuple):
    """How two processes read four items, and how a step turns a batch into sentences.

    Attributes:
        make: a loader for a rank; None for batches that Lightning combines.
        step: from the rank and the items of a batch to indices of sentences.
        counted: how many sentences count.
        reason: what a warning says; empty if there is none.
    """

    make: Any
    step: Any
    counted: int
    reason: str


def deal(rank: int, **options: Any) -> Any:
    """Items 0, 2 and 1, 0 of three, so that item 0 is repeated."""
    return DataLoader(range(3), sampler=DistributedSampler(range(3), 2, rank, shuffle=False), **options)  # type: ignore[arg-type]


def deal_pairs(rank: int) -> Any:
    """The same in batches of two."""
    return deal(rank, batch_size=2)


def keep(rank: int, items: list[int]) -> list[int]:
    return items


def add(rank: int, items: list[int]) -> list[int]:
    """One more sentence in each batch."""
    return [*items, 3]


NO_ORDER = (
    "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or in_order=False"
)
CASES = {
    "items": Case(deal, keep, 3, ""),
    "batches": Case(deal_pairs, keep, 3, ""),
    "an item is two sentences": Case(deal, add, 6, ""),
    "an item is no sentence": Case(deal, lambda rank, items: [], 0, ""),
    "other numbers of sentences": Case(deal_pairs, add, 6, "a batch of 2 items became 3 sentences"),
    "other numbers in process 1": Case(
        deal_pairs, lambda rank, items: add(rank, items) if rank else items, 5, "a batch of 2 items became 3 sentences"
    ),
    "other items": Case(
        deal_pairs,
        lambda rank, items: [(number + rank) % 3 for number in items],
        4,
        "its collate_fn or its step reorders or drops the items of a batch",
    ),
    "no sampler": Case(lambda rank: DataLoader(range(3)), keep, 6, NO_ORDER),  # type: ignore[arg-type]
    "other order": Case(
        lambda rank: DataLoader(range(3), batch_sampler=BatchSampler(SequentialSampler(range(3)), 2, False)),  # type: ignore[arg-type]
        keep,
        6,
        NO_ORDER,
    ),
    "combined loaders": Case(None, keep, 6, "its batches combine several loaders"),
}


def run_cases(rank: int, world_size: int) -> list[tuple[int, list[str]]]:
    """How many sentences count, and the warnings."""
    outcomes = []
    for case in CASES.values():
        loader = case.make(rank) if case.make else None
        counting = Counting(METRIC, ["news"], dataloaders=[loader])
        for batch_idx, batch in enumerate(loader or DataLoader(range(3))):  # type: ignore[arg-type]
            numbers = case.step(rank, batch.tolist())
            count(counting, [A[i] for i in numbers], [REFERENCES[i] for i in numbers], batch_idx=batch_idx)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            counted = sum(count_kept(counting).values())
        messages = [str(warning.message) for warning in warned if "more than one process" in str(warning.message)]
        outcomes.append((counted, messages))
    return outcomes


@pytest.mark.slow
def test_a_sentence_counts_once_or_a_warning_says_why_it_may_not(pool: ProcessPool) -> None:
    first, other = pool.run(2, run_cases)
    for name, (counted, messages) in zip(CASES, first, strict=True):
        reason, message = CASES[name].reason, "It is unknown which sentences of 'news' are scored by more"
        assert counted == CASES[name].counted, name
        assert [text.startswith(message) and f": {reason}. " in text for text in messages] == [True] * bool(reason), (
            name
        )
    assert other == [(counted, []) for counted, _ in first]


def see_groups(rank: int, world_size: int, shares: list[dict[str, Any]]) -> Any:
    """The numbers of sentences by loader and group, or the error, if each process has one of these batches."""
    counting = Counting(METRIC, ["news"])
    try:
        if shares[rank]:
            count(counting, **shares[rank])
        return count_kept(counting)
    except ValueError as error:
        return str(error)


ONE: dict[str, Any] = {"preds": A[:1], "target": REFERENCES[:1]}
TWO: dict[str, Any] = {"preds": A[:2], "target": REFERENCES[:2]}
FIRST: dict[str, Any] = ONE | {"index": [5], "group": ["zh"]}
SAME_INDEX: dict[str, Any] = {"preds": B[:1], "index": [5]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([{}, TWO | {"group": ["zh", "de"]}], {"news": 2, "news/de": 1, "news/zh": 1}),
        ([ONE | {"group": ["zh"]}, TWO | {"group": ["zh", "de"]}], {"news": 3, "news/de": 1, "news/zh": 2}),
        ([ONE, ONE | {"group": ["zh"]}], "'validation_step' returned 'group' in some processes only"),
        ([ONE | {"index": [5]}, ONE], "'validation_step' returned 'index' in some processes only"),
        ([ONE, ONE | {"source": ["A"]}], "'validation_step' returned 'source' in some processes only"),
        ([ONE | {"group": ["de"]}, ONE | {"group": ["de/x"]}], "the names 'de' and 'de/x' of the groups clash"),
        # One position: the same sentence counts once, and one of another group is another sentence.
        ([FIRST, FIRST | SAME_INDEX], {"news": 1, "news/zh": 1}),
        ([FIRST, FIRST | SAME_INDEX | {"group": ["de"]}], {"news": 2, "news/de": 1, "news/zh": 1}),
        ([FIRST, FIRST | {"target": ["x"], "group": ["de"]}], {"news": 2, "news/de": 1, "news/zh": 1}),
        ([FIRST, FIRST | {"target": ["x"]}], "different sentences have the same 'index' 5: their references differ"),
    ],
    ids=str,
)
def test_processes_agree_on_groups_or_all_raise_an_error(shares: Any, expected: Any, pool: ProcessPool) -> None:
    first, other = pool.run(2, see_groups, shares)
    assert first == other
    assert first == expected if isinstance(expected, dict) else first.startswith(expected)
