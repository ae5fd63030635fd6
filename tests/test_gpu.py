"""A CUDA device gives what the CPU gives. These tests are skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from tests.helpers.metrics import KINDS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.* 'target' has pad_id=0 between tokens"),  # the ids are random
]

DEVICE = "cuda"
OPTIONS: dict[str, Any] = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "max_order": 3}

_generator = torch.Generator().manual_seed(0)


def _draw(*shape: int) -> Tensor:
    return torch.randint(0, 9, shape, generator=_generator)


PREDS, TARGET, SEVERAL = _draw(64, 50), _draw(64, 60), _draw(64, 4, 30)
LOGITS = torch.rand(64, 50, 9, generator=_generator).argsort(-1).float()  # without ties, even in half precision
MASK = _draw(64) > 3

FORMS: dict[str, tuple[Any, Any]] = {
    "tensors": (PREDS, TARGET),
    "several references": (PREDS, SEVERAL),
    "32-bit ids": (PREDS.int(), SEVERAL.int()),
    "logits": (LOGITS, TARGET),
    "half-precision logits, several references": (LOGITS.half(), SEVERAL),
    "lists of tensors": ([*PREDS], [*TARGET]),
    "lists of lists of tensors": ([*PREDS], [[*rows] for rows in SEVERAL]),
    "lists of matrices": (PREDS, [*SEVERAL]),
    "lists of ids": (PREDS.tolist(), SEVERAL),
}


def move(value: Any, device: str) -> Any:
    """A copy of ids, or of lists of them, on a device."""
    if isinstance(value, list):
        return [move(item, device) for item in value]
    return value.to(device, copy=True) if isinstance(value, Tensor) else value


def is_on_device(value: Any) -> bool:
    """Whether any of the tensors in a list is on the device."""
    if isinstance(value, list):
        return any(map(is_on_device, value))
    return isinstance(value, Tensor) and value.device.type == DEVICE


def devices(metric: CorpusBLEU) -> set[str]:
    """The types of the devices of the state and of what is computed from it."""
    return {metric.totals.device.type, metric.compute().device.type}


def results(metric: CorpusBLEU) -> list[Any]:
    """Everything that a metric has counted."""
    return [metric.report(), metric.statistics.tolist()]


@pytest.mark.parametrize("sides", [(DEVICE, DEVICE), (DEVICE, "cpu"), ("cpu", DEVICE)])
@pytest.mark.parametrize("form", FORMS)
def test_ids_and_logits_count_and_score_as_on_the_cpu(form: str, sides: tuple[str, str]) -> None:
    preds, target = FORMS[form]
    for metric_device in ("cpu", DEVICE):
        expected = CorpusBLEU(**OPTIONS)
        metric = CorpusBLEU(**OPTIONS).to(metric_device)
        for mask in (None, MASK, MASK[:1]):
            expected.update(preds, target, mask)
            metric.update(move(preds, sides[0]), move(target, sides[1]), move(mask, sides[0]))
            assert results(metric) == results(expected)
        assert metric.compute().item() == pytest.approx(expected.compute().item(), abs=1e-12)
        assert devices(metric) == {metric_device}
    inputs = move(preds, sides[0]), move(target, sides[1])
    assert corpus_bleu(*inputs, **OPTIONS) == corpus_bleu(preds, target, **OPTIONS)
    scores = sentence_bleu(*inputs, **OPTIONS)
    assert (scores.device.type, scores.dtype) == (DEVICE if is_on_device([*inputs]) else "cpu", torch.float64)
    assert torch.equal(scores.cpu(), sentence_bleu(preds, target, **OPTIONS))


def test_a_metric_keeps_its_state_where_it_was_moved() -> None:
    metric = CorpusBLEU(**OPTIONS).to(DEVICE)
    batches: list[tuple[Any, Any]] = [(["a b c d e"], ["a b c d f"]), (PREDS, SEVERAL), (move(PREDS, DEVICE), TARGET)]
    for _ in range(2):
        for batch in batches:
            metric.update(*batch)
            assert metric(*batch).device.type == DEVICE
            assert devices(metric) == {DEVICE}
        metric.reset()
        assert metric.totals.device.type == DEVICE


def test_a_merge_of_metrics_on_one_device_stays_there() -> None:
    metric, incoming = (CorpusBLEU(**OPTIONS).to(DEVICE) for _ in range(2))
    for one in (metric, incoming):
        one.update(PREDS, TARGET)
    metric.merge_state(incoming)
    assert devices(metric) == {DEVICE}
    assert metric.input_counts.sentence_count == 2 * len(PREDS)


def test_the_default_device_makes_no_difference() -> None:
    expected = CorpusBLEU(**OPTIONS)
    metric = CorpusBLEU(**OPTIONS)
    for preds, target in FORMS.values():
        expected.update(preds, target, MASK)
        with torch.device(DEVICE):
            metric.update(preds, target, MASK)
            assert results(metric) == results(expected)
    with torch.device(DEVICE):
        assert sentence_bleu(["a b"], ["a b"]).device.type == "cpu"


def test_ids_are_decoded_as_on_the_cpu() -> None:
    def decode(rows: list[list[int]]) -> list[str]:
        return [" ".join(map(str, row)) for row in rows]

    lines = decode(TARGET.tolist())
    for preds, target in ((PREDS, lines), (lines, SEVERAL), (LOGITS, TARGET)):
        expected = corpus_bleu(preds, target, decoder=decode, **OPTIONS)
        assert corpus_bleu(move(preds, DEVICE), move(target, DEVICE), decoder=decode, **OPTIONS) == expected
        for kind in KINDS.values():
            scores = kind.score_sentences(move(preds, DEVICE), move(target, DEVICE), decoder=decode, pad_id=0)
            assert scores.device.type == DEVICE
            assert torch.equal(scores.cpu(), kind.score_sentences(preds, target, decoder=decode, pad_id=0))
