from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from matplotlib import pyplot
from torchmetrics import MetricCollection, MetricTracker

from lightning_bleu import BLEUScore, CorpusBLEU, corpus_bleu
from tests.conftest import random_corpus
from tests.reference import bleu, corpus_statistics

A = (["the cat sat on the mat", "hello there world ok"], [["the cat sat on a mat"], ["hello there world", "ok ok"]])
B = (["a b c d e"], [["a b c d f", "a b c"]])
BOTH = (A[0] + B[0], A[1] + B[1])


def updated(*batches: Any, **options: Any) -> CorpusBLEU:
    metric = CorpusBLEU(**options)
    for batch in batches:
        metric.update(*batch)
    return metric


def test_state_is_one_vector_of_64_bit_integers() -> None:
    metric = updated(A, B)
    assert list(metric.metric_state) == ["statistics"]
    assert metric.statistics.dtype == torch.int64
    expected = corpus_statistics([h.split() for h in BOTH[0]], [[r.split() for r in group] for group in BOTH[1]])
    assert metric.statistics.tolist() == expected
    assert metric.matches.tolist() == expected[:4]
    assert metric.possible_matches.tolist() == expected[4:8]
    assert metric.hypothesis_length.item() == expected[8]
    assert metric.reference_length.item() == expected[9]


def test_compute_is_a_scalar_and_report_its_parts() -> None:
    metric = updated(A, B)
    value, report = metric.compute(), metric.report()
    assert value.shape == ()
    assert value.item() == report.bleu == float(report) == pytest.approx(corpus_bleu(*BOTH).bleu, abs=0)
    assert report == corpus_bleu(*BOTH)
    assert isinstance(report, BLEUScore)
    assert report.signature == metric.signature


def test_percent() -> None:
    metric = updated(A, B, percent=True)
    unit = updated(A, B).report()
    assert metric.compute().item() == pytest.approx(100 * unit.bleu)
    assert metric.report().precisions == pytest.approx([100 * p for p in unit.precisions])
    assert str(metric.report()) == str(unit)
    assert metric.plot_upper_bound == 100


def test_forward_gives_the_score_of_the_batch() -> None:
    metric = CorpusBLEU()
    assert metric(*A).item() == corpus_bleu(*A).bleu
    assert metric(*B).item() == corpus_bleu(*B).bleu
    assert metric.compute().item() == corpus_bleu(*BOTH).bleu
    assert metric.signature.startswith("nrefs:var|")


def test_reset() -> None:
    metric = updated(A)
    metric.reset()
    assert not metric.statistics.any()
    assert metric.signature.startswith("nrefs:?|case:mixed|eff:no|tok:?")
    metric.update(*B)
    assert metric.compute().item() == corpus_bleu(*B).bleu


@pytest.mark.parametrize("replicate", [copy.deepcopy, lambda m: m.clone(), lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_go_their_own_way(replicate: Any) -> None:
    metric = updated(A, convention="sacrebleu", tokenizer="intl")
    twin = replicate(metric)
    assert twin.settings == metric.settings
    twin.update(*B)
    assert metric.statistics.tolist() == updated(A, tokenizer="intl").statistics.tolist()
    assert twin.report() == corpus_bleu(*BOTH, convention="sacrebleu", tokenizer="intl")
    assert twin.signature.startswith("nrefs:var|")


def test_state_dict() -> None:
    metric = updated(A)
    assert metric.state_dict() == {}
    metric.persistent(True)
    state = metric.state_dict()
    assert list(state) == ["statistics"]
    restored = CorpusBLEU()
    restored.persistent(True)
    restored.load_state_dict(state)
    restored.update(*B)
    assert torch.equal(restored.statistics, updated(*[A, B]).statistics)


def test_merge_state() -> None:
    first, second = updated(A), updated(B)
    first.compute()
    first.merge_state(second)
    assert first.report() == corpus_bleu(*BOTH)
    assert first.compute().item() == corpus_bleu(*BOTH).bleu
    from_dict = CorpusBLEU()
    from_dict.merge_state(second.metric_state)
    assert from_dict.compute().item() == corpus_bleu(*B).bleu
    unchanged = updated(A)
    unchanged.merge_state(CorpusBLEU())
    assert unchanged.report() == corpus_bleu(*A)


def test_precision_of_the_model_leaves_counts_alone() -> None:
    metric = updated(A)
    before = metric.statistics.clone()
    model = torch.nn.Module()
    model.bleu = metric
    for convert in ("half", "bfloat16", "float", "double"):
        getattr(model, convert)()
        getattr(metric, convert)()
    metric.set_dtype(torch.float16)
    metric.to(torch.float16)
    assert metric.statistics.dtype == torch.int64
    assert torch.equal(metric.statistics, before)
    metric.to("cpu")
    metric.update(*B)
    assert metric.compute().item() == corpus_bleu(*BOTH).bleu


@pytest.mark.gpu
def test_cuda() -> None:
    metric = updated(A).to("cuda")
    metric.update(*B)
    assert metric.statistics.device.type == "cuda"
    assert metric.compute().device.type == "cuda"
    assert metric.report() == corpus_bleu(*BOTH)
    ids = torch.randint(0, 9, (8, 20))
    metric = CorpusBLEU().to("cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        on_device = ids.to("cuda", non_blocking=True)
        metric.update(on_device, on_device)
        metric.update(["a b c d e"], ["a b c d e"])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert metric.compute().item() == 1


def test_metric_collection_shares_no_state_between_different_metrics() -> None:
    """All agree on the first batch: torchmetrics would let them share one state."""
    options: dict[str, dict[str, Any]] = {
        "13a": {},
        "none": {"tokenizer": "none"},
        "lower": {"lowercase": True},
        "exp": {"smoothing": "exp"},
        "shortest": {"reference_length": "shortest"},
    }
    collection = MetricCollection({name: CorpusBLEU(**option) for name, option in options.items()})
    collection.update(["a b c d e"], ["a b c d e"])
    collection.update(["The Cat, sat. No?"], [["the cat, sat. no", "The cat"]])
    results = collection.compute()
    for name, option in options.items():
        alone = updated(
            (["a b c d e"], ["a b c d e"]), (["The Cat, sat. No?"], [["the cat, sat. no", "The cat"]]), **option
        )
        assert results[name].item() == alone.compute().item()
        assert collection[name].report() == alone.report()
    collection.reset()
    assert not collection["13a"].statistics.any()


def test_metric_tracker() -> None:
    tracker = MetricTracker(CorpusBLEU())
    for batch in (A, B):
        tracker.increment()
        tracker.update(*batch)
    best, step = tracker.best_metric(return_step=True)
    assert (best, step) == (corpus_bleu(*B).bleu, 1)


def test_plot() -> None:
    for val in (None, torch.tensor(0.5), [torch.tensor(0.5), torch.tensor(0.7)]):
        figure, axis = updated(A).plot(val)
        assert axis.get_ylim()[1] >= 1
        pyplot.close(figure)


def test_counts_are_exact_beyond_what_floats_and_32_bits_hold() -> None:
    metric = CorpusBLEU(max_order=2)
    ids = torch.arange(1000).repeat(4, 1)
    metric.update(ids, ids)
    for exponent in (24, 31, 40):
        metric.statistics = torch.full_like(metric.statistics, 2**exponent)
        metric.update([[1, 2, 3]], [[1, 2, 4]])
        assert metric.statistics.tolist() == [2**exponent + n for n in (2, 1, 3, 2, 3, 3)]
        assert metric.report().hypothesis_length == 2**exponent + 3


def test_no_update_at_all_scores_zero() -> None:
    metric = CorpusBLEU()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert metric.compute().item() == 0
    assert metric.report().bleu == metric.report().length_ratio == 0
    assert updated(([], [])).compute().item() == 0
    assert updated(([""], ["a b"])).report().brevity_penalty == 0
    assert updated((["a b c d e"], [""])).compute().item() == 0


@pytest.mark.parametrize("smoothing", ["method5", "method6", "method7"])
def test_smoothings_of_sentences_are_refused_for_a_corpus(smoothing: str) -> None:
    with pytest.raises(
        ValueError, match=f"smoothing '{smoothing}' is defined for single sentences only: use sentence_bleu"
    ):
        CorpusBLEU(smoothing=smoothing)
    with pytest.raises(ValueError, match="single sentences only"):
        corpus_bleu(["a"], ["a"], smoothing=smoothing)


def test_random_batches_make_one_corpus(rng: Any) -> None:
    hypotheses, references = random_corpus(rng, 100)
    metric = CorpusBLEU()
    first = 0
    while first < 100:
        size = rng.randint(1, 20)
        metric.update(hypotheses[first : first + size], references[first : first + size])
        first += size
    expected = corpus_statistics(hypotheses, references)
    assert metric.statistics.tolist() == expected
    assert metric.compute().item() == pytest.approx(bleu(expected), abs=1e-15)


def test_update_does_not_keep_the_graph() -> None:
    metric = CorpusBLEU()
    logits = torch.randn(2, 5, 7, requires_grad=True)
    value = metric(logits, logits.argmax(-1))
    assert value.item() == 1
    assert not metric.statistics.requires_grad
