"""Models sharded over two processes that generate different numbers of tokens: the score is that of one process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import BLEUCallback, CorpusBLEU, Evaluator
from tests.helpers.lightning import find_reports, make_loader, make_trainer
from tests.helpers.process_groups import run_in_processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(torch.distributed.fsdp, "fully_shard"), reason="since torch 2.6"),
]

PAD, EOS, FIRST_WORD = 0, 2, 3
MAX_NEW_TOKENS = 20
PROMPTS = torch.randint(FIRST_WORD, 64, (37, 5), generator=torch.Generator().manual_seed(3))


def make_model() -> Any:
    """A Llama that ends sentences early, late, and not at all."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=PAD,
        eos_token_id=EOS,
        initializer_range=1.0,
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    with torch.no_grad():
        model.lm_head.weight[EOS] *= 2  # ends more often
    return model


def make_items() -> list[dict[str, Tensor]]:
    """Prompts, and references that differ in one word from what the model generates."""
    prompts = {"input_ids": PROMPTS, "attention_mask": torch.ones_like(PROMPTS)}
    labels = make_model().generate(**prompts, max_new_tokens=MAX_NEW_TOKENS)[:, PROMPTS.shape[1] :]
    labels[:, 2] = torch.where(labels[:, 2] >= FIRST_WORD, 63, labels[:, 2])
    return [dict(zip((*prompts, "labels"), row)) for row in zip(*prompts.values(), labels)]


def make_metric() -> CorpusBLEU:
    return CorpusBLEU(pad_id=PAD, eos_id=EOS)


class ShardedTranslator(pl.LightningModule):
    """A module that shards its model and records the number of tokens of each batch. Its training changes nothing."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.tokens: list[int] = []

    def configure_model(self) -> None:
        from torch.distributed.fsdp import FSDPModule, fully_shard

        if self.trainer.world_size > 1 and not isinstance(self.model, FSDPModule):
            mesh = self.device_mesh["data_parallel"]  # type: ignore[index]
            for layer in self.model.model.layers:
                fully_shard(layer, mesh=mesh)
            fully_shard(self.model, mesh=mesh)

    def training_step(self, batch: dict[str, Tensor]) -> Tensor:
        loss: Tensor = self.model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss
        return loss

    def validation_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        prompts = batch["input_ids"]
        ids = self.model.generate(
            input_ids=prompts,
            attention_mask=batch["attention_mask"],
            max_new_tokens=MAX_NEW_TOKENS,
            synced_gpus=self.trainer.world_size > 1,
        )
        preds = ids[:, prompts.shape[1] :]
        self.tokens.append(preds.shape[1])
        return {"preds": preds, "target": batch["labels"]}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def score_sharded_models(folder: Path) -> dict[str, Any]:
    """The scores with all kinds of sharding, and the numbers of tokens of each batch."""
    return {**validate_with_lightning(folder), **score_by_hand()}


def validate_with_lightning(folder: Path) -> dict[str, Any]:
    """A validation during a training, and one after it."""
    strategy: Any = ModelParallelStrategy(
        data_parallel_size=2, tensor_parallel_size=1, save_distributed_checkpoint=False, timeout=timedelta(minutes=2)
    )
    bleu, module, items = BLEUCallback(make_metric()), ShardedTranslator(make_model()), make_items()
    trainer = make_trainer(folder, bleu, strategy=strategy, devices=2, max_epochs=1, num_sanity_val_steps=0)
    trainer.fit(module, make_loader(items), make_loader(items, batch_size=3))
    results = {"fit": (find_reports(bleu)["val_bleu"].to_dict(), [*module.tokens])}
    module.tokens.clear()
    trainer.validate(module, make_loader(items, batch_size=3), verbose=False)
    return results | {"validate": (find_reports(bleu)["val_bleu"].to_dict(), module.tokens)}


def score_by_hand() -> dict[str, Any]:
    """Loops without Lightning."""
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    for module in (*model.model.layers, model):
        fully_shard(module)
    layers = ModuleWrapPolicy({type(make_model().model.layers[0])})
    wrapped = FullyShardedDataParallel(make_model(), auto_wrap_policy=layers, device_id=torch.device("cpu"))

    def generate_with_all_weights(**inputs: Any) -> Tensor:
        """With the weights of the root, too, which `generate` does not gather."""
        with FullyShardedDataParallel.summon_full_params(wrapped, writeback=False, recurse=False):
            ids: Tensor = wrapped.generate(**inputs)
        return ids

    return {"FSDP 2": score(model.generate), "FSDP 1": score(generate_with_all_weights)}


@torch.no_grad()
def score(generate: Callable[..., Tensor]) -> tuple[dict[str, Any], list[int]]:
    """The score of all processes, and the number of tokens of each batch in this process."""
    items, evaluator, tokens = make_items(), Evaluator(make_metric()), []
    loader = DataLoader(items, batch_size=3, sampler=DistributedSampler(items, shuffle=False))  # type: ignore[var-annotated, arg-type]
    evaluator.start(loader)
    for batch in loader:
        target = batch.pop("labels")
        preds = generate(**batch, max_new_tokens=MAX_NEW_TOKENS, synced_gpus=True)[:, PROMPTS.shape[1] :]
        evaluator.update(preds, target)
        tokens.append(preds.shape[1])
    report: Any = evaluator.finish(step=0)["val_bleu"].report
    return report.to_dict(), tokens


def test_the_score_of_a_sharded_model_is_that_of_one_process(tmp_path: Path) -> None:
    """Although the processes generate different numbers of tokens."""
    pytest.importorskip("transformers")
    bleu = BLEUCallback(make_metric())
    validate = make_trainer(tmp_path, bleu).validate
    validate(ShardedTranslator(make_model()), make_loader(make_items(), batch_size=3), verbose=False)
    expected = find_reports(bleu)["val_bleu"].to_dict()
    assert 0.2 < expected["bleu"] < 0.9
    first, second = run_in_processes(2, score_sharded_models, tmp_path)
    assert len(first) == 4
    for case in first:
        (score, tokens), (other_score, other_tokens) = first[case], second[case]
        assert score == other_score == expected, case
        assert all(a != b for a, b in zip(tokens, other_tokens, strict=True)), case
        assert sum(tokens) != sum(other_tokens), case
