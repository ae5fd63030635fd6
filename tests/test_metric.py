from __future__ import annotations

import copy
import itertools
import math
import pickle
import random
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker

from lightning_bleu import BLEUScore, CorpusBLEU, bootstrap_interval, corpus_bleu, paired_bootstrap, sentence_bleu
from lightning_bleu import bleu as bleu_module
from lightning_bleu import metric as metric_module
from lightning_bleu.metric import SentencesNotKept
from lightning_bleu.scoring.signature import InputCounts
from tests.helpers.corpora import random_corpus
from tests.helpers.process_groups import group_of_one
from tests.helpers.systems import A as PREDS
from tests.helpers.systems import make_metric
from tests.reference import corpus_statistics

A = (["the cat sat on the mat", "hello there world ok"], [["the cat sat on a mat"], ["hello there world", "ok ok"]])
B = (["a b c d e"], [["a b c d f", "a b c"]])
BOTH = (A[0] + B[0], A[1] + B[1])


def updated(*batches: Any, **options: Any) -> CorpusBLEU:
    metric = CorpusBLEU(**options)
    for batch in batches:
        metric.update(*batch)
    return metric


class Speller:
    """A decoder: 1 → "b"."""

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        return [" ".join("abcdefghij"[i] for i in row) for row in sequences]


def member(collection: MetricCollection, name: str) -> CorpusBLEU:
    metric = collection[name]
    assert isinstance(metric, CorpusBLEU)
    return metric


# State and score


def test_the_state_is_one_vector_of_64_bit_integers() -> None:
    metric = updated(A, B)
    assert list(metric.metric_state) == ["totals"]
    assert metric.totals.dtype == metric.statistics.dtype == torch.int64
    expected = corpus_statistics([h.split() for h in BOTH[0]], [[r.split() for r in group] for group in BOTH[1]])
    assert metric.statistics.tolist() == expected
    assert metric.matches.tolist() == expected[:4]
    assert metric.possible_matches.tolist() == expected[4:8]
    assert metric.hypothesis_length.item() == expected[8]
    assert metric.reference_length.item() == expected[9]
    # 3 strings with 1, 2, and 2 references
    assert metric.input_counts == InputCounts(strings=3, references=5, squared_references=9)
    assert metric.totals.tolist() == [*expected, *metric.input_counts]


def test_statistics_are_read_only() -> None:
    with pytest.raises(AttributeError):
        CorpusBLEU().statistics = torch.zeros(10)  # type: ignore[misc]


def test_compute_is_a_scalar_and_report_has_its_parts() -> None:
    metric = updated(A, B)
    value, report = metric.compute(), metric.report()
    assert value.shape == ()
    assert value.item() == report.bleu == float(report) == pytest.approx(corpus_bleu(*BOTH).bleu, abs=0)
    assert report == corpus_bleu(*BOTH)
    assert isinstance(report, BLEUScore)
    assert report.signature == metric.signature


def test_a_score_in_percent_is_100_times_as_large() -> None:
    metric = updated(A, B, percent=True)
    unit = updated(A, B).report()
    assert metric.compute().item() == pytest.approx(100 * unit.bleu)
    assert metric.report().precisions == pytest.approx([100 * p for p in unit.precisions])
    assert str(metric.report()) == str(unit)
    assert metric.plot_upper_bound == 100


def test_forward_returns_the_score_of_the_batch() -> None:
    metric = CorpusBLEU()
    assert metric(*A).item() == corpus_bleu(*A).bleu
    assert metric(*B).item() == corpus_bleu(*B).bleu
    assert metric.compute().item() == corpus_bleu(*BOTH).bleu
    assert metric.signature.startswith("nrefs:var|")


def test_reset_forgets_all_sentences() -> None:
    metric = updated(A, keep_sentences=True)
    metric.reset()
    assert not metric.statistics.any()
    assert metric.last_batch is None
    assert metric.batch_statistics is None
    assert metric.sentence_statistics.shape == (0, 10)
    assert metric.signature.startswith("nrefs:?|case:mixed|eff:no|tok:?")
    metric.update(*B)
    assert metric.compute().item() == corpus_bleu(*B).bleu


def test_batches_of_all_kinds_make_one_corpus() -> None:
    ids = [[0, 1, 0, 1], [1, 1]], [[0, 1, 0, 2], [1, 1]]
    words = tuple([[f"w{i}" for i in row] for row in rows] for rows in ids)
    lines = tuple([" ".join(row) for row in rows] for rows in words)
    alone = updated(words)
    metric = updated(ids, words, lines, ids)
    assert torch.equal(metric.statistics, 4 * alone.statistics)
    assert metric.input_counts == InputCounts(strings=2, tokens=2, ids=4, references=8, squared_references=8)
    assert "|tok:13a+ids+tokens|" in metric.signature


def test_inputs_may_change_after_an_update() -> None:
    preds, target = torch.tensor([[5, 6, 7], [5, 5, 5]]), torch.tensor([[5, 6, 8], [5, 5, 5]])
    mask = torch.tensor([True, False])
    ids, words, booleans = [[5, 6, 7]], [["a", "b", "c"]], [True]
    arrays = preds.numpy(), target.numpy(), mask.numpy()
    metric, batches = CorpusBLEU(pad_id=0, max_order=2, keep_sentences=True), []
    inputs: list[Any] = [(preds, target, mask), arrays, (ids, ids, booleans), (words, [words], booleans)]
    for batch in inputs:
        metric.update(*batch)
        assert metric.last_batch is not None
        batches.append(metric.last_batch)
    preds.zero_()
    target.zero_()
    mask.fill_(True)
    ids[0].clear()
    words[0].append("d")
    booleans[0] = False
    # matches, possible matches, and lengths of [5, 6, 7] beside [5, 6, 8]; then of two equal sentences
    first, equal = [2, 1, 3, 2, 3, 3], [3, 2, 3, 2, 3, 3]
    assert metric.sentence_statistics.tolist() == [first, first, equal, equal]
    assert metric.statistics.tolist() == [2 * (a + b) for a, b in zip(first, equal)]
    tensors = [("5 6 7", ["5 6 8"]), ("5 5 5", ["5 5 5"])]
    texts = [tensors, tensors, [("5 6 7", ["5 6 7"])], [("a b c", ["a b c"])]]
    assert [batch.texts() for batch in batches] == texts


def test_a_metric_without_sentences_scores_zero() -> None:
    metric = CorpusBLEU()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert metric.compute().item() == 0
    assert metric.report().bleu == metric.report().length_ratio == 0
    assert updated(([], [])).compute().item() == 0
    assert updated(([""], ["a b"])).report().brevity_penalty == 0
    assert updated((["a b c d e"], [""])).compute().item() == 0


def test_counts_are_exact_beyond_what_floats_and_32_bits_hold() -> None:
    metric = CorpusBLEU(max_order=2, pad_id=-1)
    ids = torch.arange(1000).repeat(4, 1)
    metric.update(ids, ids)
    for exponent in (24, 31, 40):
        metric.totals = torch.full_like(metric.totals, 2**exponent)
        metric.update([[1, 2, 3]], [[1, 2, 4]])
        # 2 of 3 unigrams and 1 of 2 bigrams match; both are 3 ids long
        assert metric.statistics.tolist() == [2**exponent + n for n in (2, 1, 3, 2, 3, 3)]
        assert metric.report().hypothesis_length == 2**exponent + 3


def test_an_update_does_not_keep_the_graph() -> None:
    metric = CorpusBLEU(pad_id=-1)
    logits = torch.randn(2, 5, 7, requires_grad=True)
    value = metric(logits, logits.argmax(-1))
    assert value.item() == 1
    assert not metric.totals.requires_grad
    assert metric.batch_statistics is not None
    assert not metric.batch_statistics.requires_grad


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_masked_sentences_are_not_in_the_signature(keep_sentences: bool) -> None:
    metric = updated((["a"], [["a", "b"]]), keep_sentences=keep_sentences)
    metric.update([["a"], ["b"]], [["a"], ["b"]], [False])
    metric.update(["a", "b"], [["a"], ["a", "b"]], [False, True])
    assert metric.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|")
    assert metric.input_counts == InputCounts(strings=2, references=4, squared_references=8)
    alone = updated((["a"], ["a"], [False]), keep_sentences=keep_sentences)
    assert alone.signature.startswith("nrefs:?|case:mixed|eff:no|tok:?|")


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_batch_of_empty_lists_is_of_no_kind(keep_sentences: bool) -> None:
    metric = updated(([[]], [[[]]]), keep_sentences=keep_sentences)
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:?|")
    metric.update([[5, 6]], [[5, 6]])
    metric.update([[], []], [[[]], [[]]])
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:ids|")
    assert metric.input_counts == InputCounts(ids=1, empty=3, references=4, squared_references=4)


@pytest.mark.parametrize("options", [{}, {"smoothing": "floor", "max_order": 3}], ids=str)
def test_a_metric_that_keeps_sentences_reports_what_one_that_keeps_sums_does(
    options: dict[str, Any], rng: random.Random
) -> None:
    sums, kept = CorpusBLEU(**options), CorpusBLEU(keep_sentences=True, **options)
    for mask in (None, [True, False, True], [False], [True]):
        batch = random_corpus(rng, 3)
        assert sums(*batch, mask) == kept(*batch, mask)
    assert torch.equal(sums.statistics, kept.statistics)
    assert sums.statistics.dtype == kept.statistics.dtype
    assert sums.input_counts == kept.input_counts
    assert sums.report() == kept.report()


def test_the_last_batch_and_its_statistics_are_available(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 6)
    metric = updated(A)
    metric.update(preds, target)
    assert metric.batch_statistics is not None
    assert metric.batch_statistics.tolist() == [corpus_statistics([h], [group]) for h, group in zip(preds, target)]
    assert metric.last_batch is not None
    assert metric.last_batch.texts()[1] == (" ".join(preds[1]), [" ".join(reference) for reference in target[1]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "CorpusBLEU()"),
        ({"convention": "nltk", "pad_id": 0}, "CorpusBLEU(convention='nltk', pad_id=0)"),
        ({"pad_id": 0, "convention": "nltk"}, "CorpusBLEU(convention='nltk', pad_id=0)"),
        ({"max_order": 2, "weights": (0.7, 0.3)}, "CorpusBLEU(max_order=2, weights=(0.7, 0.3))"),
        ({"max_order": 4, "percent": False, "ignore_ids": (-100,)}, "CorpusBLEU()"),
        ({"ignore_ids": None, "percent": True}, "CorpusBLEU(ignore_ids=None, percent=True)"),
        ({"keep_sentences": True}, "CorpusBLEU(keep_sentences=True)"),
        ({"sync_on_compute": False}, "CorpusBLEU()"),  # an option of torchmetrics
        ({"tokenizer": str.split}, "CorpusBLEU(tokenizer=split)"),
        ({"decoder": Speller()}, "CorpusBLEU(decoder=Speller)"),
    ],
)
def test_a_metric_is_represented_by_the_options_that_differ_from_the_defaults(
    options: dict[str, Any], expected: str
) -> None:
    metric = CorpusBLEU(**options)
    assert repr(metric) == str(metric) == expected
    if not {*options} & {"tokenizer", "decoder"}:
        assert eval(repr(metric)).settings == metric.settings
    metric.update(["a b"], ["a b"])
    assert repr(metric) == repr(metric.clone()) == repr(pickle.loads(pickle.dumps(metric))) == expected


def test_a_representation_fits_in_that_of_a_module() -> None:
    assert repr(Owner(pad_id=0)).splitlines()[1] == "  (bleu): CorpusBLEU(pad_id=0)"


def read_counts(metric: CorpusBLEU) -> list[Any]:
    """All that a metric has counted."""
    kept = metric.sentence_statistics.tolist() if metric.keep_sentences else None
    return [metric.statistics.tolist(), metric.input_counts, kept]


def check_unchanged_by(
    metric: CorpusBLEU, error: type[BaseException], call: Callable[..., Any], *args: Any, match: str | None = None
) -> None:
    """Check that a call raises an error, and that it leaves the metric as it was."""
    before, last_batch, updates = read_counts(metric), metric.last_batch, metric.update_count
    with pytest.raises(error, match=match):
        call(*args)
    assert read_counts(metric) == before
    assert metric.last_batch is last_batch
    assert metric.update_count == updates


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_an_update_that_fails_changes_nothing(keep_sentences: bool) -> None:
    metric = updated(A, keep_sentences=keep_sentences)
    for call in (metric.update, metric):
        check_unchanged_by(metric, ValueError, call, ["a", "b"], ["a"], match="same number of sentences")
        check_unchanged_by(metric, ValueError, call, *A, [True] * 3, match="'sample_mask' must have shape")
    assert metric.report() == corpus_bleu(*A)


def test_a_warning_that_the_user_makes_an_error_changes_nothing() -> None:
    metric, message = CorpusBLEU(), "neither 'pad_id' nor 'eos_id' is set"
    metrics = MetricCollection({"a": metric, "b": CorpusBLEU(max_order=2)})
    for call in (metric.update, metric, metrics.update, metrics.update):  # as often as it is tried
        check_unchanged_by(metric, UserWarning, call, IDS, IDS, match=message)  # warnings are errors here
        check_unchanged_by(member(metrics, "b"), UserWarning, metrics.update, IDS, IDS, match=message)


@pytest.mark.parametrize(
    ("module", "stage"), [(metric_module, "read_batch"), (bleu_module, "count_rows"), (metric_module, "pack_rows")]
)
def test_an_update_that_is_interrupted_changes_nothing(
    module: Any, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = updated(A, keep_sentences=True)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    for call in (metric.update, metric):
        with monkeypatch.context() as broken:
            broken.setattr(module, stage, interrupt)
            check_unchanged_by(metric, KeyboardInterrupt, call, *B)
    metric.update(*B)
    assert metric.report() == corpus_bleu(*BOTH)


@pytest.mark.parametrize("failing", range(2))
@pytest.mark.parametrize("keep_sentences", [False, True])
def test_an_update_whose_results_do_not_fit_in_memory_changes_nothing(
    keep_sentences: bool, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are two: sums or rows to keep, and the rows of the batch."""
    metric, arrays, from_numpy = updated(A, keep_sentences=keep_sentences), itertools.count(), torch.from_numpy

    def convert(array: Any) -> Tensor:
        if next(arrays) == failing:
            raise MemoryError
        return from_numpy(array)

    with monkeypatch.context() as broken:
        broken.setattr(torch, "from_numpy", convert)
        check_unchanged_by(metric, MemoryError, metric.update, *B)
    metric.update(*B)
    assert metric.report() == corpus_bleu(*BOTH)


def test_the_state_after_an_update_in_inference_mode_is_ordinary_tensors() -> None:
    """Lightning validates in inference mode."""
    metrics = updated(A, pad_id=-1), updated(A, keep_sentences=True, pad_id=-1)
    for metric in metrics:
        for call in (metric.update, metric):
            with torch.inference_mode():
                call(IDS, IDS)
            assert metric.batch_statistics is not None
            state = metric.sentences if metric.keep_sentences else [metric.totals]
            assert not any(tensor.is_inference() for tensor in (*state, metric.batch_statistics))
        assert metric.input_counts.sentences == 6


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_the_state_after_a_reset_in_inference_mode_is_ordinary_tensors(keep_sentences: bool) -> None:
    metric = updated(A, keep_sentences=keep_sentences)
    with torch.inference_mode():
        metric.reset()
        metric.update(*A)
        metric.reset()
    assert keep_sentences or not metric.totals.is_inference()
    metric.update(*A)
    assert metric.report() == corpus_bleu(*A)


def test_a_metric_counts_the_same_under_any_default_device() -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""

    def count(metric: CorpusBLEU) -> list[Any]:
        metric.update(*A, [True, False])
        step = metric(*B).item()
        return [step, metric.report(), metric.compute().item(), metric.sentence_statistics.tolist()]

    metric = CorpusBLEU(keep_sentences=True)
    expected = count(CorpusBLEU(keep_sentences=True))
    with torch.device("meta"):
        assert count(metric) == expected


# Kept sentences


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_kept_sentences_survive_forward_merging_pickling_and_a_state_dict(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 30)
    whole = make_metric(preds, target)
    options: dict[str, Any] = {"tokenizer": "none", "smoothing": "exp", "keep_sentences": True}
    stepwise = CorpusBLEU(**options, compute_on_cpu=True)
    for start in range(0, 20, 5):
        stepwise(preds[start : start + 5], target[start : start + 5])
        with pytest.raises(TypeError):
            stepwise("a", "b")
    stepwise.merge_state(make_metric(preds[20:25], target[20:25]))
    stepwise = pickle.loads(pickle.dumps(stepwise)).clone()
    stepwise.update(preds[25:], target[25:])
    stepwise.persistent(True)
    restored = CorpusBLEU(**options)
    restored.load_state_dict(stepwise.state_dict())
    for metric in (stepwise, restored):
        assert torch.equal(metric.sentence_statistics, whole.sentence_statistics)
        assert metric.compute() == whole.compute()
        assert paired_bootstrap(metric, whole).p_value == 1
    stepwise.reset()
    assert len(stepwise.sentence_statistics) == 0


def test_masked_sentences_do_not_count(rng: random.Random) -> None:
    metric, kept = CorpusBLEU(keep_sentences=True), []
    masks: list[Any] = [[True, False, True], None, [False], torch.tensor([True]), np.array([False, True, True])]
    for mask in masks:
        preds, target = random_corpus(rng, 3)
        metric.update(preds, target, mask)
        counts = np.broadcast_to(True if mask is None else mask, 3)
        rows = [corpus_statistics([h], [group]) for h, group in zip(preds, target)]
        kept += [row for row, count in zip(rows, counts) if count]
        assert metric.batch_statistics is not None
        assert metric.batch_statistics.tolist() == [row if count else [0] * 10 for row, count in zip(rows, counts)]
    assert metric.sentence_statistics.dtype == torch.int32
    assert metric.sentence_statistics.tolist() == kept
    assert metric.statistics.tolist() == [sum(column) for column in zip(*kept)]


def test_a_metric_that_keeps_sums_only_has_no_sentence_statistics() -> None:
    metric = updated(A)
    assert not hasattr(metric, "sentence_statistics")
    with pytest.raises(SentencesNotKept, match=r"keeps sums only: make it with CorpusBLEU\(keep_sentences=True\)"):
        _ = metric.sentence_statistics
    for error in (ValueError, AttributeError):
        with pytest.raises(error, match=r"make it with CorpusBLEU\(keep_sentences=True\)"):
            metric.interval()
    assert hasattr(CorpusBLEU(keep_sentences=True), "sentence_statistics")
    with pytest.raises(AttributeError, match="no attribute 'sentence_statistic'"):
        _ = metric.sentence_statistic


def test_a_metric_can_start_to_keep_sentences_before_it_has_counted_any() -> None:
    metric = CorpusBLEU(pad_id=0)
    metric.start_keeping_sentences()
    metric.update(*B)
    assert list(metric.metric_state) == ["sentences"]
    assert torch.equal(metric.sentence_statistics, updated(B, keep_sentences=True).sentence_statistics)
    metric.start_keeping_sentences()  # it does already
    assert metric.report() == corpus_bleu(*B)
    assert repr(metric) == "CorpusBLEU(pad_id=0, keep_sentences=True)"


def test_a_metric_that_has_counted_sentences_cannot_start_to_keep_them() -> None:
    metric = updated(A)
    with pytest.raises(RuntimeError, match=r"has already counted sentences, .* call reset\(\) first"):
        metric.start_keeping_sentences()
    metric.update(*B)
    assert metric.report() == corpus_bleu(*BOTH)
    metric.reset()
    metric.start_keeping_sentences()
    metric.update(*B)
    assert len(metric.sentence_statistics) == 1


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_state_is_saved_even_if_the_metric_starts_to_keep_sentences_after_it_was_made_persistent(
    keep_sentences: bool,
) -> None:
    metric = CorpusBLEU(keep_sentences=keep_sentences)
    metric.persistent(True)
    metric.start_keeping_sentences()
    assert list(metric.state_dict()) == ["sentences"]


def test_the_state_of_a_metric_that_keeps_sentences_is_one_list_of_few_tensors() -> None:
    metric = CorpusBLEU(keep_sentences=True)
    for count in range(1, 301):
        metric.update(["a b"], ["a b"])
        assert len(metric.sentences) <= math.log2(count) + 1
    assert list(metric.metric_state) == ["sentences"]
    storages = {rows.untyped_storage().data_ptr(): rows.untyped_storage().nbytes() for rows in metric.sentences}
    assert sum(storages.values()) == 300 * 56
    assert len(metric.sentence_statistics) == 300


def test_kept_sentences_are_on_the_cpu_as_32_bit_integers() -> None:
    statistics = updated(A, keep_sentences=True).sentence_statistics
    assert (statistics.device.type, statistics.dtype, statistics.shape) == ("cpu", torch.int32, (2, 10))


def test_the_interval_of_a_metric_is_the_bootstrap_interval() -> None:
    metric = make_metric(PREDS)
    assert metric.interval(0.9, 200, 5) == bootstrap_interval(metric, 0.9, 200, 5)


# Copying, saving, merging


@pytest.mark.parametrize(
    "replicate",
    [copy.copy, copy.deepcopy, CorpusBLEU.clone, lambda metric: pickle.loads(pickle.dumps(metric))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)
def test_copies_are_independent(replicate: Callable[[CorpusBLEU], CorpusBLEU]) -> None:
    options: dict[str, Any] = {"convention": "sacrebleu", "tokenizer": "intl", "keep_sentences": True}
    metric = updated(A, **options)
    twin = replicate(metric)
    assert twin.settings == metric.settings
    assert (twin.last_batch, twin.batch_statistics) == (None, None)  # the counts are needed elsewhere, these are not
    assert metric.last_batch is not None
    twin.update(*B)
    metric.update(*A)
    assert metric.report() == updated(A, A, **options).report()
    assert twin.report() == updated(A, B, **options).report()
    metric.reset()
    assert len(metric.sentence_statistics) == 0
    assert torch.equal(twin.sentence_statistics, updated(A, B, **options).sentence_statistics)
    twin.reset()
    assert len(twin.sentence_statistics) == 0


def test_the_state_is_saved_only_if_it_is_persistent() -> None:
    metric = updated(A)
    assert metric.state_dict() == {}
    metric.persistent(True)
    state = metric.state_dict()
    assert list(state) == ["totals"]
    restored = updated(B, B)  # which is replaced
    restored.persistent(True)
    restored.load_state_dict(state)
    assert restored.signature == metric.signature == corpus_bleu(*A).signature
    assert restored.signature.startswith("nrefs:var|case:mixed|eff:no|tok:13a|")
    assert restored.report() == corpus_bleu(*A)
    restored.update(*B)
    assert restored.report() == corpus_bleu(*BOTH)


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_the_score_after_loading_is_that_of_the_loaded_state(keep_sentences: bool) -> None:
    metric, restored = (updated(batch, keep_sentences=keep_sentences) for batch in (A, B))
    for one in (metric, restored):
        one.persistent(True)
    assert restored.compute() == corpus_bleu(*B).bleu
    restored.load_state_dict(metric.state_dict())
    assert restored.compute() == corpus_bleu(*A).bleu


@pytest.mark.filterwarnings("error")
def test_a_loaded_state_counts_as_an_update() -> None:
    metric, restored = updated(A), CorpusBLEU()
    for one in (metric, restored):
        one.persistent(True)
    restored.load_state_dict(metric.state_dict())
    assert restored.compute() == corpus_bleu(*A).bleu  # without the warning that nothing was updated
    with pytest.raises(RuntimeError, match="already counted"):
        restored.start_keeping_sentences()


@pytest.mark.parametrize("keep_sentences", [False, True])
@pytest.mark.parametrize("orders", [(4, 2), (2, 4)])
def test_a_state_of_another_order_cannot_be_loaded(orders: tuple[int, int], keep_sentences: bool) -> None:
    metric, other = (updated(A, max_order=order, keep_sentences=keep_sentences) for order in orders)
    for one in (metric, other):
        one.persistent(True)
    state = other.state_dict()
    check_unchanged_by(
        metric, ValueError, metric.load_state_dict, state, match="with other orders of n-grams, or of anot"
    )


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_a_state_of_sums_and_one_of_sentences_cannot_be_loaded_into_each_other(keep_sentences: bool) -> None:
    metric, other = updated(A, keep_sentences=keep_sentences), updated(B, keep_sentences=not keep_sentences)
    for one in (metric, other):
        one.persistent(True)
    state = other.state_dict()
    check_unchanged_by(metric, RuntimeError, metric.load_state_dict, state, match="Unexpected key")


def test_an_empty_state_of_a_synced_metric_can_be_loaded() -> None:
    metric, restored = CorpusBLEU(keep_sentences=True), updated(A, keep_sentences=True)
    for one in (metric, restored):
        one.persistent(True)
    with group_of_one(), metric.sync_context():
        state = dict(metric.state_dict())
    restored.load_state_dict(state)
    assert len(restored.sentence_statistics) == 0


def test_merging_adds_the_sentences_of_another_metric() -> None:
    first, second = updated(A), updated(B)
    first.compute()
    first.merge_state(second)
    assert first.report() == corpus_bleu(*BOTH)
    assert first.compute().item() == corpus_bleu(*BOTH).bleu
    state = second.metric_state
    from_dict = CorpusBLEU()
    from_dict.merge_state(state)
    assert from_dict.compute().item() == corpus_bleu(*B).bleu
    assert from_dict.signature == second.signature
    unchanged = updated(A)
    unchanged.merge_state(CorpusBLEU())
    assert unchanged.report() == corpus_bleu(*A)


def test_a_saved_state_does_not_change_with_later_updates() -> None:
    metric = updated(A, keep_sentences=True)
    state, sentences = metric.metric_state, len(A[0])
    metric.update(*B)
    restored = CorpusBLEU(keep_sentences=True)
    restored.merge_state(state)
    assert restored.input_counts.sentences == len(restored.sentence_statistics) == sentences


def test_a_merge_that_fails_changes_nothing() -> None:
    metric = make_metric(PREDS)
    before, tokenizer = metric.statistics.clone(), metric.settings.tokenizer
    with pytest.raises(ValueError, match="only one of the metrics keeps sentences"):
        metric.merge_state(CorpusBLEU(tokenizer=tokenizer))
    with pytest.raises(ValueError, match="sentences"):
        metric.merge_state(updated(A).metric_state)
    with pytest.raises(ValueError, match="different settings cannot be merged; these differ: max_order, weights"):
        metric.merge_state(updated(A, max_order=2, keep_sentences=True, tokenizer=tokenizer))
    assert torch.equal(metric.statistics, before)
    assert len(metric.sentence_statistics) == 4


def test_a_metric_that_keeps_sums_refuses_one_that_keeps_sentences() -> None:
    """It could not tell which of them are repeats."""
    metric, other = updated(A), updated(B, keep_sentences=True)
    check_unchanged_by(metric, ValueError, metric.merge_state, other, match="only one of the metrics keeps sentences")


# Collections, trackers, plots


@pytest.mark.parametrize("name", ["leader", "follower"])
def test_a_member_of_a_formed_group_cannot_start_to_keep_sentences(name: str) -> None:
    """The others would share another state with it, and silently score 0."""
    collection = MetricCollection({"leader": CorpusBLEU(), "follower": CorpusBLEU()})
    collection.update(*A)
    collection.reset()
    member(collection, name).start_keeping_sentences()
    collection.update(*A)
    with pytest.raises(RuntimeError, match="before the first update of the collection"):
        collection.compute()


def test_an_attribute_error_during_a_sync_is_not_taken_for_a_missing_attribute() -> None:
    def sync(state: Any, group: Any) -> Any:
        return state.no_such_method()

    metric = updated(A, keep_sentences=True, dist_sync_fn=sync, distributed_available_fn=lambda: True)
    with pytest.raises(RuntimeError, match="no_such_method"):
        metric.sentence_statistics  # noqa: B018


def test_metrics_with_different_settings_share_no_state_in_a_collection() -> None:
    """All agree on the first batch, so torchmetrics alone would let them share one state."""
    options: dict[str, dict[str, Any]] = {
        "13a": {},
        "none": {"tokenizer": "none"},
        "lower": {"lowercase": True},
        "unsmoothed": {"convention": "papineni"},
        "shortest": {"reference_length": "shortest"},
    }
    batches: list[Any] = [
        (["a b c d e"], ["a b c d e"]),
        (["The Cat, sat. No?"], [["the cat, sat. no", "The cat"]]),
    ]
    collection = MetricCollection({name: CorpusBLEU(**option) for name, option in options.items()})
    for batch in batches:
        collection.update(*batch)
    results = collection.compute()
    assert len(collection.compute_groups) == 5
    for name, option in options.items():
        alone = updated(*batches, **option)
        assert results[name].item() == alone.compute().item()
        assert member(collection, name).report() == alone.report()
    collection.reset()
    assert not member(collection, "13a").statistics.any()


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_metrics_with_equal_settings_share_a_state_and_its_signature_in_a_collection(keep_sentences: bool) -> None:
    metrics = {
        "leader": CorpusBLEU(convention="sacrebleu", keep_sentences=keep_sentences),
        "other": CorpusBLEU(convention="papineni", keep_sentences=keep_sentences),
        "follower": CorpusBLEU(smoothing="exp", keep_sentences=keep_sentences),
        "percent": CorpusBLEU(percent=True, keep_sentences=keep_sentences),
    }
    collection = MetricCollection(metrics)  # type: ignore[arg-type]
    for batch in (A, B):
        collection.update(*batch)
    assert sorted(map(sorted, collection.compute_groups.values())) == [["follower", "leader"], ["other"], ["percent"]]
    expected = corpus_bleu(*BOTH, convention="sacrebleu")
    assert collection.compute()["follower"].item() == expected.bleu
    assert collection.compute()["percent"].item() == 100 * expected.bleu
    for name in ("leader", "follower"):
        metric = member(collection, name)
        assert metric.report() == expected
        assert metric.signature == expected.signature
        assert not keep_sentences or len(metric.sentence_statistics) == 3


def test_metrics_of_a_collection_keep_their_own_sentences(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 20)
    options: list[dict[str, Any]] = [{"keep_sentences": True}, {}, {"keep_sentences": True, "max_order": 2}]
    metrics = {str(n): CorpusBLEU(tokenizer="none", **some) for n, some in enumerate(options)}
    collection = MetricCollection(metrics)  # type: ignore[arg-type]
    for start in range(0, 20, 4):
        collection.update(preds[start : start + 4], target[start : start + 4])
    collection.compute()
    assert member(collection, "0").sentence_statistics.shape == (20, 10)
    assert member(collection, "2").sentence_statistics.shape == (20, 6)
    assert member(collection, "0").interval().score == member(collection, "1").compute()


def test_a_subclass_does_not_share_the_state_of_its_parent_in_a_collection() -> None:
    class Doubled(CorpusBLEU):
        """A metric that counts every sentence twice."""

        def update(self, preds: Any, target: Any, *args: Any, **kwargs: Any) -> None:
            super().update([*preds, *preds], [*target, *target])

    collection = MetricCollection({"parent": CorpusBLEU(), "child": Doubled()})
    for batch in (([], []), A):  # after which their states are equal, and different
        collection.update(*batch)
    assert sorted(collection.compute_groups.values()) == [["child"], ["parent"]]
    assert member(collection, "child").input_counts.sentences == 2 * member(collection, "parent").input_counts.sentences


def test_a_tracker_finds_the_best_step() -> None:
    tracker = MetricTracker(CorpusBLEU())
    for batch in (A, B):
        tracker.increment()
        tracker.update(*batch)
    assert tracker.best_metric(return_step=True) == (corpus_bleu(*B).bleu, 1)


@pytest.mark.parametrize("val", [None, torch.tensor(0.5), [torch.tensor(0.5), torch.tensor(0.7)]], ids=str)
def test_one_or_several_scores_can_be_plotted(val: Any) -> None:
    figure, axis = updated(A).plot(val)
    assert axis.get_ylim()[1] >= 1
    pyplot.close(figure)


# Process groups; several processes: test_distributed.py


def test_the_sentences_of_a_synced_metric_can_be_read() -> None:
    metric = updated(A, B, keep_sentences=True)
    expected = metric.sentence_statistics
    with group_of_one():
        metric.sync()
        assert torch.equal(metric.sentence_statistics, expected)
        assert metric.report() == corpus_bleu(*BOTH)
        metric.unsync()
        assert torch.equal(metric.sentence_statistics, expected)


def test_a_synced_metric_without_sentences_keeps_none() -> None:
    metric = CorpusBLEU(keep_sentences=True)
    with group_of_one():
        metric.sync()
        assert metric.sentence_statistics.shape == (0, 10)
        metric.unsync()
    metric.update(*A)
    assert len(metric.sentence_statistics) == 2


# torch.compile and torch.jit

IDS = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 8]])
INPUTS: dict[str, tuple[Any, Any]] = {
    "ids": (IDS, IDS.flip(0)),
    "strings": A,
    "token lists": ([["a", "b", "c", "d"], ["x"]], [["a", "b", "c", "e"], ["x", "y"]]),
    "lists of ids": ([[5, 6, 7, 8, 9], [5]], [[[5, 6, 7, 8, 1], [2]], [[5]]]),
    "id tensors": ([IDS[0], IDS[1, :3]], [IDS[1], IDS[1]]),
}


class Updating(torch.nn.Module):
    """A module that counts each batch."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.bleu = CorpusBLEU(pad_id=-1, **options)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, preds: Any, target: Any) -> Tensor:
        self.bleu.update(preds, target)
        return self.weight * 2


class Scoring(Updating):
    """A module that counts and scores each batch."""

    def forward(self, preds: Any, target: Any) -> Tensor:
        score: Tensor = self.bleu(preds, target)
        return self.weight * score


def check_compiled(module_type: type[Updating], inputs: tuple[Any, Any], backend: str, **options: Any) -> None:
    """Check that a compiled module counts and returns what it does without compilation."""
    torch.compiler.reset()
    plain, module = module_type(**options), module_type(**options)
    compiled = torch.compile(module, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(*inputs), plain(*inputs))
    assert torch.equal(module.bleu.statistics, plain.bleu.statistics)
    assert module.bleu.compute() == plain.bleu.compute()
    assert module.bleu.update_count == 3
    assert module.bleu.report() == plain.bleu.report()
    if module.bleu.keep_sentences:
        assert torch.equal(module.bleu.sentence_statistics, plain.bleu.sentence_statistics)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "backend"), [*((kind, "eager") for kind in INPUTS), ("ids", "aot_eager")])
@pytest.mark.parametrize("module_type", [Updating, Scoring])
def test_a_compiled_module_counts_inputs_of_all_kinds(kind: str, backend: str, module_type: type[Updating]) -> None:
    check_compiled(module_type, INPUTS[kind], backend)


@pytest.mark.slow
@pytest.mark.parametrize("module_type", [Updating, Scoring])
def test_a_compiled_module_keeps_sentences(module_type: type[Updating]) -> None:
    check_compiled(module_type, INPUTS["ids"], "eager", keep_sentences=True)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("c++") or shutil.which("g++")), reason="needs a C++ compiler")
@pytest.mark.parametrize("module_type", [Updating, Scoring])
def test_a_module_can_be_compiled_by_inductor(module_type: type[Updating]) -> None:
    check_compiled(module_type, INPUTS["ids"], "inductor")


@pytest.mark.slow
@pytest.mark.parametrize("keep_sentences", [False, True])
@pytest.mark.parametrize("module_type", [Updating, Scoring])
def test_a_compiled_module_is_not_compiled_again_for_every_batch(
    module_type: type[Updating], keep_sentences: bool
) -> None:
    """Neither the number of batches nor that of kept sentences is a reason."""
    torch.compiler.reset()
    module = torch.compile(module_type(keep_sentences=keep_sentences), backend="eager")
    for _ in range(3):
        module(IDS, IDS)
    with torch._dynamo.config.patch(error_on_recompile=True):  # `set_stance("fail_on_recompile")` since torch 2.6
        for _ in range(3):
            module(IDS, IDS)


@pytest.mark.slow
def test_sentences_can_be_scored_in_a_compiled_function() -> None:
    torch.compiler.reset()

    def reward(preds: Tensor, target: Tensor) -> Tensor:
        return 2 * sentence_bleu(preds, target, smoothing="add-k", pad_id=-1)

    assert torch.equal(torch.compile(reward, backend="eager")(*INPUTS["ids"]), reward(*INPUTS["ids"]))


class Owner(torch.nn.Module):
    """A module that owns a metric and does not call it in its forward pass, as a LightningModule does."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.bleu = CorpusBLEU(**options)
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


def trace(module: torch.nn.Module) -> Any:
    return torch.jit.trace(module, torch.ones(1, 2))  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore:This property will be removed:DeprecationWarning")  # torchmetrics' own property
@pytest.mark.parametrize("has_sentences", [False, True])
@pytest.mark.parametrize("keep_sentences", [False, True])
@pytest.mark.parametrize("convert", [torch.jit.script, trace])
def test_a_module_that_owns_a_metric_can_be_scripted_and_traced(
    convert: Callable[[torch.nn.Module], Callable[[Tensor], Tensor]], keep_sentences: bool, has_sentences: bool
) -> None:
    module, x = Owner(keep_sentences=keep_sentences), torch.ones(3, 2)
    if has_sentences:
        module.bleu.update(*A)
    assert torch.equal(convert(module)(x), module(x))
    module.bleu.update(*B)
    assert module.bleu.report() == (corpus_bleu(*BOTH) if has_sentences else corpus_bleu(*B))


def test_a_metric_warns_if_every_hypothesis_begins_with_the_id_that_ends_a_sentence() -> None:
    """As BART's generate() returns them."""
    metric = CorpusBLEU(pad_id=1, bos_id=0, eos_id=2)
    generated, labels = torch.tensor([[2, 0, 7, 8, 9, 5, 2]]), torch.tensor([[0, 7, 8, 9, 5, 2, -100]])
    with pytest.warns(UserWarning, match=r"Most hypotheses begin with eos_id=2 and go on.*pass preds\[:, 1:\]"):
        metric.update(generated, labels)
    metric.update(generated, labels)  # without a second warning
    assert metric.report().bleu == 0
    metric.reset()
    metric.update(generated[:, 1:], labels)
    assert metric.report().bleu == 1
