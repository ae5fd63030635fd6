"""Metrics in modules that are compiled, exported, or traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, sentence_bleu
from tests.helpers.metrics import A, B

IDS = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 8]])
INPUTS: dict[str, tuple[Any, Any]] = {"ids": (IDS, IDS.flip(0)), "strings": A}


class Updating(torch.nn.Module):
    """A module that counts each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.bleu = CorpusBLEU(pad_id=-1)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, preds: Any, target: Any) -> Tensor:
        self.bleu.update(preds, target)
        return self.weight * 2


class Scoring(Updating):
    """A module that counts and scores each batch."""

    def forward(self, preds: Any, target: Any) -> Tensor:
        score: Tensor = self.bleu(preds, target)
        return self.weight * score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "backend", "module_type"),
    [("strings", "eager", Scoring), ("ids", "eager", Updating), ("ids", "aot_eager", Scoring)],
)
def test_a_compiled_module_counts_and_returns_what_it_does_without_compilation(
    kind: str, backend: str, module_type: type[Updating]
) -> None:
    torch.compiler.reset()
    plain, module = module_type(), module_type()
    compiled = torch.compile(module, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(*INPUTS[kind]), plain(*INPUTS[kind]))
    assert torch.equal(module.bleu.statistics, plain.bleu.statistics)
    assert module.bleu.compute() == plain.bleu.compute()
    assert (module.bleu.update_count, module.bleu.report()) == (3, plain.bleu.report())


@pytest.mark.slow
@pytest.mark.parametrize("module_type", [Updating, Scoring])
def test_a_compiled_module_is_not_compiled_again_for_every_batch(module_type: type[Updating]) -> None:
    torch.compiler.reset()
    module = torch.compile(module_type(), backend="eager")
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

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.metric = metric
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


def trace(module: torch.nn.Module) -> Any:
    return torch.jit.trace(module, torch.ones(3, 2))  # type: ignore[no-untyped-call]


def export(module: torch.nn.Module) -> Any:
    return torch.export.export(module, (torch.ones(3, 2),)).module()


@pytest.mark.filterwarnings("ignore:This property will be removed:DeprecationWarning")  # torchmetrics' own property
@pytest.mark.parametrize("batches", [[], [A]], ids=["empty", "with sentences"])
@pytest.mark.parametrize("convert", [export, trace])
def test_a_module_that_owns_a_metric_can_be_exported_and_traced(
    convert: Callable[[torch.nn.Module], Callable[[Tensor], Tensor]], batches: list[Any], make: Any
) -> None:
    module, x = Owner(make(*batches)), torch.ones(3, 2)
    assert torch.equal(convert(module)(x), module(x))
    module.metric.update(*B)
    assert module.metric.report() == make(*batches, B).report()
