"""Decoder-only models in real Trainers of Transformers: the scores are those of one prompt at a time."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin
from tests.helpers.language_models import (
    EOS,
    PAD,
    Turn,
    complete_again,
    encode,
    make_chats,
    make_model,
    make_tokenizer,
    score_of,
)
from tests.helpers.process_groups import run_in_processes

SENTENCES = 13
"""With batches of 4, the last batch is smaller, and two processes repeat sentences."""


def make_turns() -> list[Turn]:
    return [turn for [turn] in make_chats(SENTENCES, 1)]


def prompt_length(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A metric that needs the prompts."""
    return [len(source.split()) for source in sources]


def make_trainer(model: Any, items: Any = None, *, mixin: bool = True, side: str = "right", **options: Any) -> Any:
    """A trainer whose datasets are the sentences."""
    from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

    tokenizer = make_tokenizer(side)
    items = items or [encode([turn]) for turn in make_turns()]
    evaluator = Evaluator({"bleu": CorpusBLEU(), "prompt": prompt_length}, decoder=tokenizer)
    defaults: Any = {"save_strategy": "no", "per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none"}
    kind: Any = type("Completer", (EvaluatorMixin, Trainer), {}) if mixin else Trainer
    return kind(
        model,
        TrainingArguments("runs", **defaults | options),
        data_collator=DataCollatorForSeq2Seq(tokenizer),
        train_dataset=items,
        eval_dataset=items,
        **{"evaluator": evaluator} if mixin else {},
    )


def evaluate_all(folder: Path) -> dict[str, Any]:
    """Evaluate in the ways of users."""
    os.chdir(folder)
    scores: dict[str, tuple[float, float]] = {}
    for side in ("left", "right"):
        found = make_trainer(make_model(), side=side).evaluate()
        scores[side] = found["eval_bleu"], found["eval_prompt"]
    found = {"scores": scores, "trained": list(train_and_evaluate())}
    trainer = make_trainer(make_model())
    found["predict"] = trainer.predict(trainer.eval_dataset)
    trainer.gen_kwargs = {"num_beams": 2, "max_new_tokens": 6}
    found["beams"] = trainer.evaluate()["eval_bleu"]
    found["losses"] = {
        found["predict"].metrics["test_loss"],
        *(make_trainer(make_model(), mixin=mixin).evaluate()["eval_loss"] for mixin in (True, False)),
    }
    trainer = make_trainer(make_model())
    trainer.model.generation_config.pad_token_id = None
    with pytest.raises(ValueError, match="there is no padding token: pass processing_class=tokenizer to the Trainer"):
        trainer.evaluate()
    trainer.gen_kwargs = {"pad_token_id": PAD}
    assert trainer.evaluate()["eval_bleu"] > 0
    return found


def train_and_evaluate() -> Iterator[tuple[float, float]]:
    """Scores while a model trains, and those that it should have."""
    trainer = make_trainer(make_model(), max_steps=1, learning_rate=1e-2)
    for _ in range(2):
        trainer.train()
        yield trainer.evaluate()["eval_bleu"], score_of(complete_again(make_turns(), copy.deepcopy(trainer.model)))


def evaluate_sharded(folder: Path) -> dict[str, tuple[float, float]]:
    """Evaluate models whose parameters are sharded over the processes, also if one of them has no prompt."""
    os.chdir(folder)
    torch.distributed.init_process_group("gloo")
    model = make_model()
    layers = ModuleWrapPolicy({type(model.model.layers[0])})
    options: Any = {"auto_wrap_policy": layers, "use_orig_params": True, "device_id": torch.device("cpu")}
    sharded = {"FSDP 1": FullyShardedDataParallel(model, **options)}
    if hasattr(torch.distributed.fsdp, "fully_shard"):  # since torch 2.6
        model, mesh = make_model(), init_device_mesh("cpu", (2,))
        for part in (*model.model.layers, model):
            torch.distributed.fsdp.fully_shard(part, mesh=mesh)
        sharded["FSDP 2"] = model
    unanswered = {"input_ids": [3, 4], "labels": [-100, -100]}
    rows = [unanswered, *(encode([turn]) for turn in make_turns())]  # of the first process, and then in turns
    scores = {}
    for name, model in sharded.items():
        # A Trainer that shards the model itself, which accelerate does on accelerators only, finds its columns before.
        # One sentence at a time, so that the processes end at different steps.
        trainer = make_trainer(model, remove_unused_columns=False, per_device_eval_batch_size=1)
        one = trainer.evaluate()["eval_bleu"]
        trainer.answers = "every"
        scores[name] = one, trainer.evaluate(rows)["eval_bleu"]
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_scores_are_those_of_one_prompt_at_a_time(processes: int, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    turns = make_turns()
    expected = score_of(turns)
    assert 0.2 < expected < 0.9
    beams = score_of(complete_again(turns, make_model(), num_beams=2, max_new_tokens=6))
    length = sum(len(turn.prompt) for turn in turns) / SENTENCES
    for found in run_in_processes(processes, evaluate_all, tmp_path):
        for score in found["scores"].values():
            assert score == (pytest.approx(expected, abs=1e-12), length)
        assert found["beams"] == pytest.approx(beams, abs=1e-12) != expected
        assert all(score == pytest.approx(expected, abs=1e-12) for score, expected in found["trained"])
        assert len({expected, *(score for score, _ in found["trained"])}) == 3, "training changes the model"
        predicted = found["predict"]
        for turn, ids, labels in zip(turns, predicted.predictions, predicted.label_ids, strict=True):
            assert [one for one in ids if one not in (PAD, EOS, -100)] == turn.generated
            assert labels[labels != -100].tolist() == turn.answer
        assert len(found["losses"]) == 1, "the loss is that of Trainer"


@pytest.mark.slow
def test_a_sharded_model_generates_until_all_processes_are_done(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    expected = pytest.approx(score_of(make_turns()), abs=1e-12)
    for found in run_in_processes(2, evaluate_sharded, tmp_path):
        assert found == dict.fromkeys(found, (expected, expected))
