"""A stage without a trainer: what a step may return, what `extract` may take, and the results."""

from __future__ import annotations

import functools
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler
from transformers.utils.generic import ModelOutput

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.significance import Interval
from lightning_bleu.training.best import BestSoFar
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.stage import Output, Stage, read_output, with_dataloader_idx
from tests.helpers.process_groups import ProcessPool
from tests.helpers.systems import TARGET as REFERENCES
from tests.helpers.systems import A, B, make_metric

PREDS, TARGET, SOURCE, MASK, INDEX = object(), object(), object(), object(), object()


# What a step may return


def read(value: Any) -> Output:
    return read_output(value, "validation_step", origin="validation_step")


@dataclass
class HuggingFaceOutput(ModelOutput):
    """An ordered dict that leaves out fields that are None."""

    loss: Any = None
    preds: Any = None
    target: Any = None
    source: Any = None
    index: Any = None


class Pair(NamedTuple):
    """Both names are the user's own."""

    hypotheses: Any
    references: Any


@pytest.mark.parametrize(
    "make", [dict, OrderedDict, UserDict, lambda items: MappingProxyType(dict(items)), lambda items: dict(items)]
)
def test_a_mapping_is_read_by_its_keys_in_any_order(make: Any) -> None:
    assert read(make({"preds": PREDS, "target": TARGET}.items())) == Output(PREDS, TARGET)
    assert read(make({"loss": 1.0, "target": TARGET, 5: 6, "preds": PREDS}.items())) == Output(PREDS, TARGET)
    everything = {"index": INDEX, "sample_mask": MASK, "source": SOURCE, "target": TARGET, "preds": PREDS}
    assert read(make(everything.items())) == Output(PREDS, TARGET, SOURCE, MASK, INDEX)
    for name in ("source", "sample_mask", "index"):
        one = {"preds": PREDS, "target": TARGET, name: everything[name]}
        assert read(make(one.items())) == Output(PREDS, TARGET)._replace(**{name: everything[name]})
        assert read(make((one | {name: None}).items())) == Output(PREDS, TARGET)


def test_an_output_of_hugging_face_is_read_by_its_keys() -> None:
    make: Any = HuggingFaceOutput  # has no types
    assert read(make(preds=["a"], target=["b"])) == Output(["a"], ["b"])
    loss = torch.tensor(1.0)
    assert read(make(loss=loss, preds=["a"], target=["b"], index=[7])) == Output(["a"], ["b"], index=[7])


@pytest.mark.parametrize("value", [(PREDS, TARGET), [PREDS, TARGET], Pair(PREDS, TARGET)])
def test_two_values_are_hypotheses_and_references(value: Any) -> None:
    assert read(value) == Output(PREDS, TARGET)


def test_values_are_passed_on_as_they_are() -> None:
    preds = (line for line in ["a"])  # could be read only once
    assert read({"preds": preds, "target": TARGET}).preds is preds
    assert read({"preds": None, "target": None}) == Output(None, None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "a NoneType"),
        (torch.tensor(1.0), "a Tensor"),
        (torch.zeros(2, 5), "a Tensor"),
        ("ab", "a str"),
        ((PREDS,), "a tuple"),
        ((PREDS, TARGET, SOURCE), "a tuple"),
        ([], "a list"),
        ({PREDS, TARGET}, "a set"),
        ({}, "the keys []"),
        ({"loss": 1.0, "preds": PREDS}, "the keys ['loss', 'preds']"),
        ({"Preds": PREDS, "target": TARGET, 1: 2}, "the keys ['1', 'Preds', 'target']"),
        ({"a": PREDS, "b": TARGET}, "the keys ['a', 'b']"),
    ],
)
def test_an_error_says_what_was_found_and_what_to_return(value: Any, found: str) -> None:
    with pytest.raises(TypeError) as error:
        read_output(value, "test_step", origin="extract")
    assert str(error.value) == (
        f"BLEUCallback needs hypotheses and references, but got {found} from 'extract'. Either return "
        "{'preds': ..., 'target': ...} or (preds, target) from 'test_step', or use BLEUCallback(extract=lambda "
        "outputs, batch: (preds, target))"
    )


# What `extract` may take


class Extractor:
    """Functions of all kinds. Each returns the index of the loader, or None if it gets none."""

    def of_two(self, outputs: Any, batch: Any) -> None: ...

    def of_three(self, outputs: Any, batch: Any, index: int) -> int:
        return index

    @classmethod
    def class_of_three(cls, outputs: Any, batch: Any, index: int) -> int:
        return index

    @staticmethod
    def static_of_two(outputs: Any, batch: Any) -> None: ...

    @staticmethod
    def static_of_three(outputs: Any, batch: Any, index: int) -> int:
        return index


class CallableOfTwo:
    def __call__(self, outputs: Any, batch: Any) -> None: ...


class CallableOfThree:
    def __call__(self, outputs: Any, batch: Any, dataloader_idx: int) -> int:
        return dataloader_idx


def of_three(outputs: Any, batch: Any, dataloader_idx: int) -> int:
    return dataloader_idx


def of_four(tokenizer: Any, outputs: Any, batch: Any, dataloader_idx: int) -> int:
    return dataloader_idx


def of_keyword(outputs: Any, batch: Any, *, tokenizer: Any = None) -> None: ...


def of_keyword_index(outputs: Any, batch: Any, *, dataloader_idx: int) -> int:
    return dataloader_idx


@functools.wraps(of_three)
def wrapped(*args: Any) -> int:
    return of_three(*args)


@pytest.mark.parametrize(
    ("extract", "expected"),
    [
        (lambda outputs, batch: None, None),
        (lambda outputs, batch, index: index, 7),
        (lambda outputs, batch, dataloader_idx: dataloader_idx, 7),
        (lambda outputs, batch, dataloader_idx=0: dataloader_idx, 7),
        (lambda outputs, batch, tokenizer=None: tokenizer, None),
        (lambda outputs, batch, tokenizer=None, dataloader_idx=0: (tokenizer, dataloader_idx), (None, 7)),
        (lambda outputs, batch, index, tokenizer=None: (tokenizer, index), (None, 7)),
        (lambda outputs, batch, /, index: index, 7),
        (lambda *args: args[2:], ()),
        (lambda outputs, batch, *rest: rest, ()),
        (lambda outputs, batch, **options: options, {}),
        (of_keyword, None),
        (of_keyword_index, 7),
        (of_three, 7),
        (wrapped, 7),
        (functools.partial(of_four, "tokenizer"), 7),
        (functools.partial(of_three, dataloader_idx=1), 1),
        (functools.partial(of_keyword, tokenizer="tokenizer"), None),
        (Extractor().of_two, None),
        (Extractor().of_three, 7),
        (Extractor.class_of_three, 7),
        (Extractor().static_of_two, None),
        (Extractor.static_of_three, 7),
        (CallableOfTwo(), None),
        (CallableOfThree(), 7),
        (max, 2),  # has no signature
    ],
)
def test_a_function_gets_the_index_of_the_loader_if_a_parameter_asks_for_it(extract: Any, expected: Any) -> None:
    assert with_dataloader_idx(extract)(1, 2, 7) == expected


# The sentences of batches


FOUR: Any = range(4)
"""A dataset of four items; a range is not a Dataset for mypy."""


def make_stage(*names: str, loaders: Any = (), **options: Any) -> Stage:
    """A stage of loaders with these names; of one without a name if there is none."""
    metric = CorpusBLEU(tokenizer="none", smoothing="exp")
    evaluations = [Evaluation("val_bleu", name, metric, max_texts=9) for name in names or [""]]
    return Stage("val_bleu", "validation_step", loaders, evaluations, **options)


def count(stage: Stage, preds: Any = A, target: Any = REFERENCES, *, dataloader_idx: int = 0, **output: Any) -> Stage:
    stage.update({"preds": preds, "target": target} | output, None, 0, dataloader_idx)
    return stage


def test_each_batch_counts_for_its_loader() -> None:
    stage = make_stage("news", "talks")
    for batch_idx, preds in enumerate((A, B)):
        stage.update((preds[:1], REFERENCES[:1]), None, batch_idx, 1)
    stage.update((A, REFERENCES), None, 0, 0)
    results = stage.finish().results
    assert {tag: len(result.kept.rows) for tag, result in results.items()} == {"val_bleu/news": 4, "val_bleu/talks": 2}


def test_a_step_may_return_positions_a_mask_and_sources() -> None:
    result = count(make_stage(), index=[9, 0, 5, 1], sample_mask=[True, True, False, True], source=[*"wxyz"])
    kept = result.finish().results["val_bleu"]
    assert kept.kept.positions.tolist() == [0, 1, 9]
    shown = kept.sentences.read(range(3))
    assert [(sentence.hypothesis, sentence.source) for sentence in shown] == [(A[1], "x"), (A[3], "z"), (A[0], "w")]


@pytest.mark.parametrize("first", [None, range(4)])
@pytest.mark.parametrize("extract", [None, lambda outputs, batch: outputs])
def test_an_index_in_some_batches_only_is_an_error(first: Any, extract: Any) -> None:
    """It names the function to correct. Another loader may do otherwise."""
    stage = make_stage("news", "talks", extract=extract)
    count(stage, index=first)
    second = None if first else range(4, 8)
    count(stage, index=second, dataloader_idx=1)
    origin = "extract" if extract else "validation_step"
    with pytest.raises(ValueError, match=f"^'{origin}' returned an 'index' for some batches only: return it for all"):
        count(stage, index=second)


def test_a_loader_that_shuffles_needs_an_index_if_the_order_matters() -> None:
    shuffled, plain = DataLoader(FOUR, shuffle=True), DataLoader(FOUR)
    count(make_stage(loaders=[shuffled]))  # nothing needs an order
    stage = make_stage("news", "talks", loaders=[plain, shuffled], needs_order="BLEUCallback(translations=...)")
    count(stage)
    with pytest.raises(ValueError, match=r"^BLEUCallback\(translations=...\) needs to know which sentence is which"):
        count(stage, dataloader_idx=1)
    stage = make_stage("news", "talks", loaders=[plain, shuffled], needs_order="BLEUCallback(translations=...)")
    count(stage, index=range(4), dataloader_idx=1)


# Results


def test_the_score_of_a_stage_is_that_of_its_loader_or_the_mean() -> None:
    scores = [corpus_bleu(preds, REFERENCES, tokenizer="none", smoothing="exp") for preds in (A, B)]
    one = count(make_stage())
    assert not one.has_mean
    assert one.finish().scores == {"val_bleu": scores[0].bleu}
    for names in (["news"], ["news", "talks"]):
        stage = make_stage(*names)
        for index, preds in enumerate((A, B)[: len(names)]):
            count(stage, preds, dataloader_idx=index)
        outcome = stage.finish()
        expected = {f"val_bleu/{name}": report.bleu for name, report in zip(names, scores)}
        assert stage.has_mean
        assert outcome.scores == expected | {"val_bleu": sum(expected.values()) / len(names)}
        assert [*outcome.results] == [*expected]
        assert outcome.intervals == {}
        assert outcome.comparisons == {}


def test_each_loader_has_an_interval_with_a_seed_of_its_own_and_that_of_the_mean_is_of_their_resamples() -> None:
    stage, metrics = make_stage("news", "talks"), [make_metric(A), make_metric(A)]
    for index in range(2):
        count(stage, dataloader_idx=index)
    outcome = stage.finish(confidence=0.9)
    intervals = [metric.interval(0.9, seed=seed) for seed, metric in enumerate(metrics)]
    assert intervals[0].scores != intervals[1].scores
    mean = tuple((first + second) / 2 for first, second in zip(intervals[0].scores, intervals[1].scores))
    low, high = torch.tensor(mean).double().quantile(torch.tensor([0.05, 0.95]).double()).tolist()
    found = outcome.intervals.pop("val_bleu")
    assert outcome.intervals == {"val_bleu/news": intervals[0], "val_bleu/talks": intervals[1]}
    assert found.scores == pytest.approx(mean)
    assert (found.bleu, found.low, found.high) == pytest.approx((intervals[0].bleu, low, high), abs=1e-6)


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    stage = Stage("val_bleu", "validation_step", [], [Evaluation("val_bleu", "", CorpusBLEU(percent=percent))])
    perfect = 100 if percent else 1
    assert count(stage, A[:1], A[:1]).finish(confidence=0.9).intervals == {
        "val_bleu": Interval(perfect, perfect, perfect, 0.9, (perfect,) * 1000, percent)
    }


def test_everything_to_log_has_the_name_of_its_score() -> None:
    stage, best = make_stage("news", "talks"), BestSoFar()
    for index in range(2):
        count(stage, dataloader_idx=index)
    outcome = stage.finish(confidence=0.9, best={"val_bleu": best})
    values = outcome.values()
    extras = {"low", "high", "p_value", "best"}
    for name in ("news", "talks"):
        parts = outcome.results[f"val_bleu/{name}"].report.parts()
        own = {key.removeprefix(f"val_bleu/{name}/"): value for key, value in values.items() if f"/{name}/" in key}
        assert own.keys() == parts.keys() | extras
        assert own | parts == own
    assert {key for key in values if key.count("/") == 1} - outcome.scores.keys() == {
        f"val_bleu/{one}" for one in extras
    }
    assert outcome.scores.items() <= values.items()
    assert values["val_bleu/best"] == outcome.scores["val_bleu"]
    assert values["val_bleu/low"] == outcome.intervals["val_bleu"].low
    assert [*best.state_dict()["best"]] == ["val_bleu/news", "val_bleu/talks"]


def test_a_stage_is_compared_with_the_best_and_need_not_replace_it() -> None:
    best, worse, better = BestSoFar(), make_metric(["x"] * 4), make_metric(A)
    scores = better.compute().item(), worse.compute().item()
    assert count(make_stage(), ["x"] * 4).finish(best={"val_bleu": best}).comparisons["val_bleu"].test is None
    for keep in (False, True):
        comparison = count(make_stage()).finish(best={"val_bleu": best}, keep_best=keep).comparisons["val_bleu"]
        assert comparison.test is not None
        assert (comparison.test.bleu_a, comparison.test.bleu_b) == scores
        assert comparison.best == scores[0]
        kept = better if keep else worse
        assert torch.equal(best.state_dict()["best"]["val_bleu"], kept.kept_sentences().rows)


def test_a_stage_that_is_finished_holds_no_statistics() -> None:
    stage = count(make_stage())
    sentences = stage.finish().results["val_bleu"].sentences
    assert stage.evaluations[0].metric.sentences == []
    assert len(sentences.read(range(4))) == 4


# In several processes


class Case(NamedTuple):
    """How two processes read four items, and how a step turns a batch into sentences.

    Attributes:
        make: a loader for a rank; None for batches that Lightning combines.
        step: from the items of a batch to indices of sentences.
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


NO_ORDER = (
    "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or in_order=False"
)
CASES = {
    "items": Case(deal, list, 3, ""),
    "batches": Case(lambda rank: deal(rank, batch_size=2), list, 3, ""),
    "an item is two sentences": Case(deal, lambda items: [*items, 3], 6, ""),
    "an item is no sentence": Case(deal, lambda items: [], 0, ""),
    "other numbers of sentences": Case(
        lambda rank: deal(rank, batch_size=2), lambda items: [*items, 3], 6, "a batch of 2 items became 3 sentences"
    ),
    "no sampler": Case(lambda rank: DataLoader(range(3)), list, 6, NO_ORDER),  # type: ignore[arg-type]
    "other order": Case(
        lambda rank: DataLoader(range(3), batch_sampler=BatchSampler(SequentialSampler(range(3)), 2, False)),  # type: ignore[arg-type]
        list,
        6,
        NO_ORDER,
    ),
    "combined loaders": Case(None, list, 6, "its batches combine several loaders"),
}


def run_cases(rank: int, world_size: int) -> list[tuple[int, list[str]]]:
    """How many sentences count, and the warnings."""
    found = []
    for case in CASES.values():
        loaders = [case.make(rank)] if case.make else []
        stage = make_stage("news", loaders=loaders)
        for batch_idx, batch in enumerate(loaders[0] if loaders else DataLoader(range(3))):  # type: ignore[arg-type]
            numbers = case.step(batch.tolist())
            stage.update(([A[i] for i in numbers], [REFERENCES[i] for i in numbers]), batch, batch_idx, 0)
        messages = list(stage.warnings())
        found.append((len(stage.finish().results["val_bleu/news"].kept.rows), messages))
    return found


@pytest.mark.slow
def test_a_sentence_counts_once_or_a_warning_says_why_it_may_not(pool: ProcessPool) -> None:
    first, other = pool.run(2, run_cases)
    for name, one in zip(CASES, first):
        reason, message = CASES[name].reason, "BLEUCallback cannot tell which sentences of 'val_bleu/news'"
        assert one[0] == CASES[name].counted, name
        assert [warning.startswith(message) and f": {reason}. " in warning for warning in one[1]] == [True] * (
            2 * bool(reason)
        ), name
    assert other == [(counted, []) for counted, _ in first]


def index_in_one_process(rank: int, world_size: int) -> str:
    stage = count(make_stage(), index=None if rank else range(4))
    with pytest.raises(ValueError, match="'index'") as error:
        stage.finish()
    return str(error.value)


@pytest.mark.slow
def test_an_index_in_some_processes_only_is_an_error_in_all(pool: ProcessPool) -> None:
    message = "some sentences have an 'index' and others have none: pass it with every batch, or with none"
    assert pool.run(2, index_in_one_process) == [message] * 2
