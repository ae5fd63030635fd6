"""Batches that were read but not counted yet: nobody can tell."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.counting.batch import read_batch
from lightning_bleu.pending import PendingBatches
from lightning_bleu.scoring.settings import Settings
from tests.helpers.corpora import random_corpus
from tests.reference import corpus_statistics

Batches = list[tuple[Any, Any]]


def split(preds: list[Any], target: list[Any], size: int) -> Batches:
    """A corpus in batches."""
    return [(preds[start : start + size], target[start : start + size]) for start in range(0, len(preds), size)]


@pytest.fixture
def batches(rng: random.Random) -> Batches:
    return split(*random_corpus(rng, 9), 2)


def scored_at_once(batches: Batches, **options: Any) -> list[int]:
    """The statistics of all batches, counted in one call."""
    preds = [hypothesis for batch in batches for hypothesis in batch[0]]
    target = [references for batch in batches for references in batch[1]]
    metric = CorpusBLEU(**options)
    metric.update(preds, target)
    return metric.totals.tolist()


def pending_in(metric: CorpusBLEU) -> bool:
    return bool(metric._pending)


def updated(batches: Batches, **options: Any) -> CorpusBLEU:
    """A metric whose last batch is not counted yet."""
    metric = CorpusBLEU(**options)
    for batch in batches:
        metric.update(*batch)
    assert pending_in(metric)
    return metric


READERS: dict[str, Callable[[CorpusBLEU], Any]] = {
    "totals": lambda metric: metric.totals.tolist(),
    "statistics": lambda metric: metric.statistics.tolist(),
    "compute": lambda metric: metric.compute().item(),
    "report": lambda metric: metric.report(),
    "signature": lambda metric: metric.signature,
    "metric_state": lambda metric: [state.tolist() for state in metric.metric_state.values() if torch.is_tensor(state)],
    "state_dict": lambda metric: metric.state_dict()["totals"].tolist(),
    "sentences": lambda metric: metric.sentence_statistics.tolist(),
    "interval": lambda metric: metric.interval(resamples=10),
    "copy": lambda metric: copy.deepcopy(metric).compute().item(),
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)).report(),
    "clone": lambda metric: copied(metric).matches.tolist(),
    "merge": lambda metric: merged_into_another(metric).totals.tolist(),
}


def copied(metric: CorpusBLEU) -> CorpusBLEU:
    clone = metric.clone()
    assert isinstance(clone, CorpusBLEU)
    return clone


def merged_into_another(metric: CorpusBLEU) -> CorpusBLEU:
    other = CorpusBLEU(keep_sentences=True)
    other.update(["a b c d e"], ["a b c d f"])
    other.merge_state(metric)
    return other


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_the_state_counts_pending_batches_first(reader: str, batches: Batches) -> None:
    read = READERS[reader]
    metric, counted_at_once = updated(batches, keep_sentences=True), updated(batches, keep_sentences=True)
    metric.persistent(True)
    counted_at_once.persistent(True)
    assert counted_at_once.totals.any()
    assert not pending_in(counted_at_once)
    assert read(metric) == read(counted_at_once)


def test_the_size_of_batches_changes_nothing(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 40)
    expected = corpus_statistics(preds, target)
    for size in (1, 3, 40):
        metric = updated(split(preds, target, size))
        assert metric.statistics.tolist() == expected
        assert metric.totals.tolist() == scored_at_once(split(preds, target, 40))


def test_batches_of_different_kinds_are_counted_apart(rng: random.Random) -> None:
    metric = CorpusBLEU(unk_id=0, convention="fairseq", tokenizer="none")
    ids = [[0, 1, 0, 1], [1, 1]], [[0, 1, 0, 2], [1, 1]]
    words = [[[f"w{i}" for i in row] for row in rows] for rows in ids]
    lines = [[" ".join(row) for row in rows] for rows in words]
    batches: Batches = [(ids[0], ids[1]), (words[0], words[1]), (lines[0], lines[1])]
    expected = torch.tensor([scored_at_once([batch], unk_id=0, tokenizer="none") for batch in batches]).sum(0)
    for preds, target in rng.sample(3 * batches, 9):
        metric.update(preds, target)
    assert metric.totals.tolist() == (3 * expected).tolist()


def test_pieces_stay_apart() -> None:
    batches: Batches = [([[5, 9, 6], [5, 6]], [[5, 6], [5, 9, 6]]), ([[7, 9, 8, 8]], [[8, 8, 9, 7, 8]])]
    expected = [scored_at_once([batch], convention="allennlp", pad_id=9) for batch in batches]
    metric = updated(batches, convention="allennlp", pad_id=9)
    assert metric.totals.tolist() == [a + b for a, b in zip(*expected)]


def test_inputs_may_change_after_an_update() -> None:
    preds, target = torch.tensor([[5, 6, 7], [5, 5, 5]]), torch.tensor([[5, 6, 8], [5, 5, 5]])
    mask, rows, booleans = torch.tensor([True, False]), [[5, 6, 7]], [True]
    metric = CorpusBLEU(pad_id=0, max_order=2)
    metric.update(preds, target, mask)
    metric.update(preds.numpy(), target.numpy(), mask.numpy())
    metric.update(rows, rows, booleans)
    assert pending_in(metric)
    preds.zero_()
    target.zero_()
    mask.fill_(True)
    rows[0].clear()
    booleans[0] = False
    assert metric.statistics.tolist() == [2 + 2 + 3, 1 + 1 + 2, 3 + 3 + 3, 2 + 2 + 2, 9, 9]


def test_words_may_change_after_an_update() -> None:
    words, references = [["a", "b"]], [[["a", "b"]]]
    metric = CorpusBLEU(max_order=2)
    metric.update(words, references)
    assert pending_in(metric)
    words[0].append("c")
    references[0].clear()
    assert metric.statistics.tolist() == [2, 1, 2, 1, 2, 2]


def test_masks_belong_to_their_batches(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 12)
    metric, kept = CorpusBLEU(keep_sentences=True), []
    for start in range(0, 12, 3):
        mask = [rng.random() < 0.5 for _ in range(3)] if start else None
        metric.update(preds[start : start + 3], target[start : start + 3], mask)
        kept += [start + i for i in range(3) if mask is None or mask[i]]
    metric.update(preds[:2], target[:2], [False])
    expected = [corpus_statistics([preds[i]], [target[i]]) for i in kept]
    assert metric.sentence_statistics.tolist() == expected
    assert metric.statistics.tolist() == torch.tensor(expected).sum(0).tolist()
    assert metric.batch_statistics is not None
    assert metric.batch_statistics.tolist() == [[0] * 10] * 2


def test_reset_discards_pending_batches(batches: Batches) -> None:
    metric = updated(batches)
    metric.reset()
    assert not metric.totals.any()
    assert metric.batch_statistics is None


def test_a_state_that_is_replaced_does_not_get_earlier_batches(batches: Batches) -> None:
    metric, other = updated(batches), updated(batches[:1])
    other.persistent(True)
    metric.load_state_dict(other.state_dict())
    assert metric.totals.tolist() == other.totals.tolist()
    assert metric.batch_statistics is not None
    assert metric.batch_statistics.tolist() == updated(batches[-1:]).batch_statistics.tolist()  # type: ignore[union-attr]


def test_sentences_are_kept_from_the_next_update_on(batches: Batches) -> None:
    metric = updated(batches[:2])
    metric.start_keeping_sentences()
    metric.update(*batches[2])
    assert len(metric.sentence_statistics) == len(batches[2][0])
    assert metric.totals.tolist() == scored_at_once(batches[:3])


def test_a_metric_without_sentences_has_no_such_attribute(batches: Batches) -> None:
    assert not hasattr(updated(batches), "sentences")


def test_an_error_leaves_pending_batches_alone(batches: Batches) -> None:
    metric = updated(batches)
    with pytest.raises(ValueError, match="same number of sentences"):
        metric.update(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="sample_mask"):
        metric.update(["a"], ["a"], [True, False])
    assert metric.totals.tolist() == scored_at_once(batches)


def test_forward_scores_its_own_batch_only(batches: Batches) -> None:
    metric = updated(batches[:2])
    assert metric(*batches[2]).item() == corpus_bleu(*batches[2]).bleu
    metric.update(*batches[3])
    assert metric.totals.tolist() == scored_at_once(batches[:4])


def test_metrics_in_a_collection_that_share_their_state(batches: Batches) -> None:
    collection = MetricCollection({"a": CorpusBLEU(), "b": CorpusBLEU(), "c": CorpusBLEU(max_order=2)})
    for batch in batches:
        collection.update(*batch)
    values = collection.compute()
    expected = (
        [hypothesis for batch in batches for hypothesis in batch[0]],
        [group for batch in batches for group in batch[1]],
    )
    assert values["a"].item() == values["b"].item() == corpus_bleu(*expected).bleu
    assert values["c"].item() == corpus_bleu(*expected, max_order=2).bleu


@pytest.mark.parametrize(("preds", "target"), [(["a b c"], ["a b d"]), ([], []), ([""], [""])])
def test_memory_is_bounded(preds: list[str], target: list[str]) -> None:
    metric, most = CorpusBLEU(), 0
    for _ in range(20_000):
        metric.update(preds, target)
        most = max(most, len(metric._pending._batches))
    assert 1_000 < most < 17_000
    assert metric.input_counts.sentences == 20_000 * len(preds)


def test_a_batch_fits_if_it_is_of_the_same_kind_and_there_is_room() -> None:
    def batch(size: int, kind: Any = int) -> Any:
        row = [kind(5)] * size
        return read_batch([row], [row], Settings.from_options())

    pending = PendingBatches()
    assert pending.fits(batch(100_000))
    for _ in range(3):
        assert pending.fits(batch(2_400))
        pending.add(batch(2_400), None)
    assert pending.fits(batch(900))
    assert not pending.fits(batch(1_000))
    assert not pending.fits(batch(20, str))
    pending.clear()
    pending.add(batch(20, str), None)
    assert pending.fits(batch(2_400, str))
    assert not pending.fits(batch(2_600, str))
