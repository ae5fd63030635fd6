"""Pending batches: every way to read the state counts them first."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu import metric as metric_module
from lightning_bleu.functional import Counted, count_batch
from lightning_bleu.pending import PendingBatches
from lightning_bleu.reading.batch import Batch, read_batch
from lightning_bleu.settings.settings import Settings
from tests.helpers.corpora import random_corpus
from tests.helpers.process_groups import group_of_one
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


def synced_totals(metric: CorpusBLEU) -> list[int]:
    with group_of_one(), metric.sync_context():
        totals: list[int] = metric.totals.tolist()
        return totals


def copied(metric: CorpusBLEU) -> CorpusBLEU:
    clone = metric.clone()
    assert isinstance(clone, CorpusBLEU)
    return clone


def merged_into_another(metric: CorpusBLEU) -> CorpusBLEU:
    other = CorpusBLEU(keep_sentences=True)
    other.update(["a b c d e"], ["a b c d f"])
    other.merge_state(metric)
    return other


READERS: dict[str, Callable[[CorpusBLEU], Any]] = {
    "totals": lambda metric: metric.totals.tolist(),
    "statistics": lambda metric: metric.statistics.tolist(),
    "batch_statistics": lambda metric: str(metric.batch_statistics),
    "input_counts": lambda metric: metric.input_counts,
    "compute": lambda metric: metric.compute().item(),
    "report": lambda metric: metric.report(),
    "signature": lambda metric: metric.signature,
    "metric_state": lambda metric: str(metric.metric_state["totals"]),
    "sentences": lambda metric: str(torch.cat(metric.sentences)),
    "sentence_statistics": lambda metric: metric.sentence_statistics.tolist(),
    "interval": lambda metric: metric.interval(resamples=10),
    "state_dict": lambda metric: str(metric.state_dict()["totals"]),
    "float": lambda metric: str(metric.float().totals),
    "sync": synced_totals,
    "copy": lambda metric: copy.copy(metric).report(),
    "deepcopy": lambda metric: copy.deepcopy(metric).report(),
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)).report(),
    "clone": lambda metric: copied(metric).report(),
    "merge_state": lambda metric: merged_into_another(metric).totals.tolist(),
}


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_the_state_counts_pending_batches_first(reader: str, batches: Batches) -> None:
    read = READERS[reader]
    metric, counted_before = updated(batches, keep_sentences=True), updated(batches, keep_sentences=True)
    metric.persistent(True)
    counted_before.persistent(True)
    counted_before.compute()
    assert not pending_in(counted_before)
    assert read(metric) == read(counted_before)
    assert not pending_in(metric)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, copied])
def test_a_copy_collects_batches_of_its_own(make_copy: Callable[[CorpusBLEU], CorpusBLEU], batches: Batches) -> None:
    metric = updated(batches[:2], keep_sentences=True)
    twin = make_copy(metric)
    metric.update(*batches[2])
    twin.update(*batches[3])
    assert metric.totals.tolist() == scored_at_once(batches[:3])
    assert twin.totals.tolist() == scored_at_once([*batches[:2], batches[3]])
    assert len(metric.sentence_statistics) == sum(len(preds) for preds, _ in batches[:3])


def test_the_size_of_batches_changes_nothing(rng: random.Random) -> None:
    preds, target = random_corpus(rng, 40)
    expected = corpus_statistics(preds, target)
    for size in (1, 3, 40):
        metric = updated(split(preds, target, size))
        assert metric.statistics.tolist() == expected
        assert metric.totals.tolist() == scored_at_once(split(preds, target, 40))


def test_batches_of_different_kinds_are_counted_apart(rng: random.Random) -> None:
    options: Any = {"unk_id": 0, "tokenizer": "none"}
    metric = CorpusBLEU(**options)
    ids = [[0, 1, 0, 1], [1, 1]], [[0, 1, 0, 2], [1, 1]]
    words = [[[f"w{i}" for i in row] for row in rows] for rows in ids]
    lines = [[" ".join(row) for row in rows] for rows in words]
    batches: Batches = [(ids[0], ids[1]), (words[0], words[1]), (lines[0], lines[1])]
    expected = torch.tensor([scored_at_once([batch], **options) for batch in batches]).sum(0)
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
    assert pending_in(metric)
    assert metric.totals.tolist() == scored_at_once(batches)


@pytest.mark.parametrize("stage", ["count_batch", "pack_sentences", "to_device"])
def test_an_error_while_counting_loses_nothing_and_counts_nothing_twice(
    stage: str, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = updated(batches, keep_sentences=True)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(metric_module, stage, interrupt)
        with pytest.raises(KeyboardInterrupt):
            metric.compute()
    assert metric.totals.tolist() == scored_at_once(batches)
    assert len(metric.sentence_statistics) == metric.input_counts.sentences == 9


def test_a_large_batch_that_cannot_be_counted_changes_nothing(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = updated(batches)
    last_batch = metric.last_batch

    def fail(batch: Batch, settings: Settings) -> Counted:
        if batch.kind == "ids":
            raise MemoryError
        return count_batch(batch, settings)

    monkeypatch.setattr(metric_module, "count_batch", fail)
    with pytest.raises(MemoryError):
        metric.update([[5] * 10_000], [[5] * 10_000])
    assert metric.last_batch is last_batch
    assert metric.update_count == len(batches)
    metric.update(*batches[0])
    assert metric.totals.tolist() == scored_at_once([*batches, batches[0]])


def test_a_state_that_is_first_read_in_inference_mode_is_an_ordinary_tensor(batches: Batches) -> None:
    metric = updated(batches, keep_sentences=True, pad_id=0)
    with torch.inference_mode():
        metric.compute()
        assert not metric.totals.is_inference()
    assert metric.batch_statistics is not None
    assert not metric.batch_statistics.is_inference()
    assert not any(rows.is_inference() for rows in metric.sentences)
    with torch.inference_mode():
        metric.update(torch.ones(4, 5000).long(), torch.ones(4, 5000).long())
    assert not metric.totals.is_inference()


@pytest.mark.slow
def test_compiled_code_reads_the_state(batches: Batches) -> None:
    metric = updated(batches)
    read = torch.compile(lambda factor: metric.totals * factor, backend="eager")
    assert read(2).tolist() == [2 * total for total in scored_at_once(batches)]
    read_counted = torch.compile(lambda factor: metric.totals * factor, backend="eager", fullgraph=True)
    assert read_counted(3).tolist() == [3 * total for total in scored_at_once(batches)]


def test_threads_may_read_the_state_while_another_updates_it() -> None:
    metric = CorpusBLEU()
    barrier = threading.Barrier(4)

    def read() -> None:
        barrier.wait()
        for _ in range(200):
            metric.totals  # noqa: B018

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    barrier.wait()
    for _ in range(500):
        metric.update(["a b c d e"], ["a b c d f"])
    for reader in readers:
        reader.join()
    assert metric.statistics.tolist() == [500 * count for count in [4, 3, 2, 1, 5, 4, 3, 2, 5, 5]]


def test_pending_batches_have_no_text() -> None:
    metric = updated([(["a b"], ["a c"])])
    assert not any(batch.lines for batch in metric._pending._batches)
    assert metric.last_batch is not None
    assert metric.last_batch.lines


def test_an_error_while_counting_is_not_taken_for_a_missing_state(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = updated(batches)
    monkeypatch.setattr(metric_module, "count_batch", None)
    monkeypatch.delattr(PendingBatches, "merged")
    with pytest.raises(RuntimeError, match="pending batches cannot be counted"):
        metric.totals  # noqa: B018


@pytest.mark.parametrize("keep_sentences", [True, False])
def test_batches_stay_pending_on_other_devices_and_with_compute_on_cpu(keep_sentences: bool, batches: Batches) -> None:
    metric = updated(batches, keep_sentences=keep_sentences, compute_on_cpu=True)
    assert metric.totals.tolist() == scored_at_once(batches)
    assert not keep_sentences or {rows.device.type for rows in metric.sentences} == {"cpu"}


def test_a_move_to_its_own_device_leaves_batches_pending(batches: Batches) -> None:
    metric = updated(batches)
    assert metric.to(torch.device("cpu")) is metric
    assert pending_in(metric)
    assert metric.to(torch.device("meta")).totals.device.type == "meta"


def test_forward_scores_its_own_batch_only(batches: Batches) -> None:
    metric = updated(batches[:2])
    assert metric(*batches[2]).item() == corpus_bleu(*batches[2]).bleu
    metric.update(*batches[3])
    assert metric.totals.tolist() == scored_at_once(batches[:4])


def test_metrics_in_a_collection_that_share_their_state(batches: Batches) -> None:
    collection = MetricCollection({"a": CorpusBLEU(), "b": CorpusBLEU(), "c": CorpusBLEU(max_order=2)})
    for batch in batches:
        collection.update(*batch)
    assert collection.compute_groups == {0: ["a", "b"], 1: ["c"]}
    values = collection.compute()
    expected = (
        [hypothesis for batch in batches for hypothesis in batch[0]],
        [group for batch in batches for group in batch[1]],
    )
    assert values["a"].item() == values["b"].item() == corpus_bleu(*expected).bleu
    assert values["c"].item() == corpus_bleu(*expected, max_order=2).bleu


@pytest.mark.parametrize(("lines", "most"), [(["a b c"], 16_384 // 9), ([""], 16_384 // 3), ([], 16_384)])
def test_few_batches_are_pending_at_once(lines: list[str], most: int) -> None:
    metric, found = CorpusBLEU(), 0
    for _ in range(20_000):
        metric.update(lines, lines)
        found = max(found, len(metric._pending._batches))
    assert found == most
    assert metric.input_counts.sentences == 20_000 * len(lines)


def make_batch(size: int, kind: Any = int) -> Any:
    """A batch of two segments of `size` tokens, whose size is ``2 * size + 3``."""
    row = [kind(5)] * size
    return read_batch([row], [row], Settings.from_options())


def test_a_batch_fits_if_it_is_of_the_same_kind_and_there_is_room() -> None:
    pending = PendingBatches()
    assert pending.fits(make_batch(100_000))
    for _ in range(3):
        assert pending.fits(make_batch(2_400))
        pending.add(make_batch(2_400), None)
    # 3 * 4,803 of 16,384 are taken
    assert pending.fits(make_batch(986))
    assert not pending.fits(make_batch(987))
    assert not pending.fits(make_batch(20, str))


@pytest.mark.parametrize(("size", "waits"), [(2_498, True), (2_499, False), (100_000, False)])
def test_a_large_batch_does_not_wait(size: int, waits: bool) -> None:
    metric = CorpusBLEU()
    metric.update([[1]], [[2]])
    metric.update([[5] * size], [[5] * size])
    assert pending_in(metric) is waits
    assert metric.hypothesis_length == size + 1
