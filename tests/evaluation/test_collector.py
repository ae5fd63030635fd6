"""The batches of a validation: what is counted, for which loader or group, and what is an error."""

from __future__ import annotations

import enum
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler
from torchmetrics.text import WordErrorRate

from lightning_bleu import CorpusBLEU, CorpusCHRF
from lightning_bleu.evaluation.collector import SentenceCollector
from tests.helpers.callback_metrics import checksum, exact
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A
from tests.helpers.validations import count, gather, make_collector, read_all, score

METRIC = CorpusBLEU(tokenizer="none", smoothing="exp")


def count_kept(collector: SentenceCollector) -> dict[Any, int]:
    """The numbers of sentences by loader and group."""
    scored = score(collector)
    return {key: len(subset.sentences) for key, subset in zip(collector.subsets, scored.subsets, strict=True)}


# The sentences of batches


@pytest.mark.parametrize(
    ("preds", "target", "fields", "error", "message"),
    [
        (["a", "b"], ["a"], {"source": ["a", "b"]}, ValueError, "'preds' has 2 sentences, 'target' 1: "),
        (["a"], ["a"], {"sample_mask": [1]}, TypeError, "'sample_mask' must hold booleans"),
        (["a"], ["a"], {"sample_mask": [True] * 3}, ValueError, "'sample_mask' must have one value"),
        (["a"], ["a"], {"source": ["a", "b"]}, ValueError, "'source' has 2 sentences, 'preds' 1: "),
        (["a"], ["a"], {"source": "a"}, TypeError, "'source' must be a list of sentences, got a str"),
        (["a"], ["a"], {"source": [None]}, TypeError, "'source' must hold sentences of one kind"),
        (["a"], ["a"], {"index": [0, 1]}, ValueError, "'index' must have shape"),
        (["a"], ["a"], {"index": [0.5]}, TypeError, "'index' must hold integers"),
        (["a"], ["a"], {"index": [-1]}, ValueError, "'index' must hold positions in the dataset, from 0 .*, got -1"),
        (["a"], ["a"], {"index": None}, ValueError, "returned 'index' for some batches only"),
        (["a"], ["a"], {"group": "a"}, TypeError, "'group' must hold a string per sentence"),
        (["a"], ["a"], {"group": [1]}, TypeError, "'group' must hold a string per sentence"),
        (["a"], ["a"], {"group": ["a", "b"]}, ValueError, "'group' must hold one label per sentence, got 2 for 1"),
        (["a"], ["a"], {"group": ["a"]}, ValueError, "returned a 'group' for some sentences only"),
        (5, ["a"], {"source": ["a"]}, TypeError, "'preds' must be a list of strings"),
        (None, ["a"], {"source": ["a"]}, TypeError, "'preds' must be a list of strings"),
        (["a"], ["a"], {}, ValueError, "'f' takes sources: give 'source' beside 'preds'"),
        (["a"], ["a"], {"source": [[3, 4]]}, TypeError, "'f' takes sources as text, got ids: .*decoder=tokenizer"),
        (
            ["a"],
            [["a", "b"]],
            {"source": ["a"]},
            ValueError,
            "'wer' takes a single reference, but a sentence has 2: pas",
        ),
    ],
)
def test_a_batch_with_an_error_leaves_nothing_behind(
    preds: Any, target: Any, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    collector = make_collector({"bleu": CorpusBLEU(), "f": checksum, "wer": WordErrorRate()})
    count(collector, A, REFERENCES, index=range(4), source=A)
    with pytest.raises(error, match=message):
        count(collector, preds, target, **{"index": [4]} | fields)
    count(collector, A[:1], REFERENCES[:1], index=[4], source=["next"])  # is not out of step
    sentences = gather(collector)
    assert [sentence.source for sentence in read_all(sentences)] == [*A, "next"]
    assert len(sentences) == 5


def test_a_first_batch_with_an_error_does_not_decide_what_the_others_have() -> None:
    collector = make_collector()
    with pytest.raises(ValueError, match="'group' must hold one label per sentence"):
        count(collector, A, REFERENCES, index=range(4), group=["a"])
    count(collector, A, REFERENCES, index=range(4), sample_mask=[False])
    assert len(gather(count(collector, A, REFERENCES))) == 4


@pytest.mark.parametrize("metric", [CorpusCHRF(), TER(), exact], ids=["counted", "of text", "function"])
@pytest.mark.parametrize(("sentence", "kind"), [([5, 6], "ids"), (["a", "b"], "tokens")])
def test_ids_and_tokens_are_errors_for_metrics_of_text(sentence: Any, kind: str, metric: Any) -> None:
    message = rf"(the metric 'x' needs text, got|chrF counts .* text, but .* are) {kind}: .* strings \(join .*decoder="
    with pytest.raises(TypeError, match=message):
        count(make_collector({"bleu": CorpusBLEU(), "x": metric}), [sentence], [[sentence]])


def test_a_batch_without_sources_among_others_is_an_error() -> None:
    collector = count(make_collector(), A, REFERENCES, source=A)
    count(collector, [], [])
    with pytest.raises(ValueError, match="'validation_step' returned 'source' for some batches only: return it for"):
        count(collector, A, REFERENCES)


def test_a_loader_without_sources_among_others_is_an_error_of_functions_that_take_them() -> None:
    def length(hypotheses: list[str], references: list[list[str]], sources: Any = None) -> list[float]:
        return [0.5 if sources is None else 1.0] * len(hypotheses)

    collector = make_collector({"f": length}, names=["a", "b"])
    count(collector, A, REFERENCES, source=A)
    count(collector, A, REFERENCES, dataloader_idx=1)
    with pytest.raises(ValueError, match="returned 'source' for some loaders only: return it in all, or in none"):
        collector.agree()


def test_a_batch_with_an_error_leaves_no_group() -> None:
    collector = make_collector({"f": lambda hypotheses, references: [1.0] * len(hypotheses)})
    with pytest.raises(TypeError, match="needs text"):
        count(collector, [[1, 2]], [[1, 2]], group=["zh"])
    assert not collector.subsets


def test_a_warning_about_a_batch_is_said_once_for_all_metrics() -> None:
    collector = make_collector({"bleu": CorpusBLEU(), "bleu2": CorpusBLEU(max_order=2)})
    with pytest.warns(UserWarning, match="neither 'pad_id' nor 'eos_id'") as warned:
        count(collector, *torch.ones(2, 2, 3).long())
    assert len(warned) == 1


# Subsets


def test_subsets_are_in_the_order_of_loaders_then_of_metrics_then_of_the_alphabet() -> None:
    of_languages = {"zh": CorpusBLEU(), "fr": CorpusBLEU(), "en": CorpusBLEU()}
    collector = make_collector(
        {"bleu": {**of_languages, "talks": CorpusBLEU()}, "chrf": CorpusCHRF()}, ["talks", "news"]
    )
    count(collector, ["a"] * 3, ["a"] * 3, group=["fr", "de", "zh"])
    with pytest.raises(ValueError, match="'bleu' has no metric for the group 'de', only for"):
        count(collector, ["a"], ["a"], group=["de"], dataloader_idx=1)
    count(collector, ["a"] * 3, ["a"] * 3, group=["fr", "de", "zh"])
    assert [tag for tag in score(collector).results if "bleu" in tag] == [
        *(f"val_bleu/talks/{group}" for group in ("zh", "fr", "de", "all")),
        "val_bleu",
    ]


LANGUAGES: dict[str, Any] = {"fr": CorpusBLEU(), "zh": CorpusBLEU()}


@pytest.mark.parametrize(
    ("metrics", "name", "group", "message"),
    [
        ({"bleu": LANGUAGES}, "", ["fr", "de"], "'bleu' has no metric for the group 'de', only for ['fr', 'zh']"),
        ({"bleu": LANGUAGES}, "", None, "'bleu' has metrics for ['fr', 'zh'], but the loader has no name: pass"),
        ({"bleu": LANGUAGES}, "news", None, "'bleu' has metrics for ['fr', 'zh'], but the loader"),
        (LANGUAGES, "", ["fr", "zh"], "['fr', 'zh'] are names of loaders or groups, not of metrics: pass {'bleu': {"),
        ({"news": CorpusBLEU()}, "news", None, "['news'] are names of loaders or groups"),
    ],
)
def test_each_subset_needs_a_metric(metrics: Any, name: str, group: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        count(make_collector(metrics, [name]), ["a", "b"], ["a", "b"], group=group).agree()


@pytest.mark.parametrize("group", ["best", "", "a\ud800"])
def test_a_group_needs_a_name_that_can_be_logged(group: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^the groups cannot have the name {re.escape(repr(group))}(, which is|: a lo)"
    ):
        count(make_collector(), ["a"], ["b"], group=[group])


class Language(str, enum.Enum):
    DE, FR = "de", "fr"


@pytest.mark.parametrize("labels", [["de", "fr"], iter(["de", "fr"]), [*Language], [*map(np.str_, ("de", "fr"))]])
def test_labels_of_groups_may_be_of_a_subclass_of_strings(labels: Any) -> None:
    results = score(count(make_collector(), ["a", "b"], ["a", "b"], group=labels)).results
    assert [*results] == ["val_bleu/de", "val_bleu/fr", "val_bleu/all", "val_bleu"]


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
        collector = make_collector(METRIC, ["news"], dataloaders=[loader])
        for batch_idx, batch in enumerate(loader or DataLoader(range(3))):  # type: ignore[arg-type]
            numbers = case.step(rank, batch.tolist())
            count(collector, [A[i] for i in numbers], [REFERENCES[i] for i in numbers], batch_idx=batch_idx)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            counted = sum(count_kept(collector).values())
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


def see_subsets(rank: int, world_size: int, shares: list[dict[str, Any]]) -> Any:
    """The numbers of sentences by loader and group, or the error, if each process has one of these batches."""
    collector = make_collector(METRIC, ["news"])
    try:
        if shares[rank]:
            count(collector, **shares[rank])
        return count_kept(collector)
    except ValueError as error:
        return str(error)


ONE: dict[str, Any] = {"preds": A[:1], "target": REFERENCES[:1]}
TWO: dict[str, Any] = {"preds": A[:2], "target": REFERENCES[:2]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([ONE, {}], {(0, None): 1}),
        ([{}, TWO | {"group": ["zh", "de"]}], {(0, "de"): 1, (0, "zh"): 1}),
        ([ONE | {"group": ["zh"]}, TWO | {"group": ["zh", "de"]}], {(0, "de"): 1, (0, "zh"): 2}),
        ([ONE, ONE | {"group": ["zh"]}], "'validation_step' returned 'group' in some processes only"),
        ([ONE | {"index": [5]}, ONE], "'validation_step' returned 'index' in some processes only"),
        ([ONE, ONE | {"source": ["A"]}], "'validation_step' returned 'source' in some processes only"),
        ([ONE | {"index": [5]}, {}], {(0, None): 1}),
        (
            [ONE | {"group": ["de"]}, ONE | {"group": ["de/x"]}],
            "the names 'news/de' and 'news/de/x' of the groups clash",
        ),
    ],
    ids=str,
)
def test_processes_agree_on_subsets_or_all_raise_an_error(shares: Any, expected: Any, pool: ProcessPool) -> None:
    first, other = pool.run(2, see_subsets, shares)
    assert first == other
    assert first == expected if isinstance(expected, dict) else first.startswith(expected)
